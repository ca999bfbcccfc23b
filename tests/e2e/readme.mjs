/* readme.mjs - the example of README.md works against what `make run` starts, and the files of
 * examples/envoy belong together.
 *
 * The example is in Python. Its arguments are read from it and given to OpenAI's official client for
 * Node, which takes the same; where Python has the client too, the example itself is run. The demo
 * runs on any free port here, so that tests beside this one are not in its way; that the usual one is
 * 8080 is read from tools/demo.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import test from 'node:test';
import { need } from './kit.mjs';

const OpenAI = need('openai').default;
const YAML = need('yaml');
const [, EXAMPLE] = fs.readFileSync('README.md', 'utf8').match(/```python\n([^]*?)```/);

/* Starts tools/demo; its address and the key of its first tenant, as it prints them. */
async function demo(t) {
    const child = spawn('tools/demo', {
        stdio: ['ignore', 'pipe', 'ignore'],
        env: { ...process.env, ANY_PORT: '1' },
    });
    t.after(
        () =>
            new Promise((done) => {
                child.on('exit', done);
                child.kill('SIGTERM');
            }),
    );
    let said = '';
    for await (const bytes of child.stdout) {
        said += bytes;
        if (/Ctrl-C stops both/.test(said)) break;
    }
    const [, address] = said.match(/listens on (\S+);/);
    const [, key] = said.match(/tenant research +(tg-\S+)/);
    return { address, key };
}

test('the example of README.md is answered by the demo', async (t) => {
    const lines = EXAMPLE.split('\n').filter((line) => line !== '');
    assert.ok(lines.length <= 5, 'it has five lines at most');
    const [, base] = EXAMPLE.match(/base_url="([^"]*)"/);
    const [, model] = EXAMPLE.match(/model="([^"]*)"/);
    const [, port] = fs.readFileSync('tools/demo', 'utf8').match(/DEMO_GATEWAY=.*free_port (\d+)/);
    assert.equal(base, `http://127.0.0.1:${port}/v1`);

    const { address, key } = await demo(t);
    const client = new OpenAI({ baseURL: base.replace(`127.0.0.1:${port}`, address), apiKey: key });
    const reply = await client.chat.completions.create({
        model,
        messages: [{ role: 'user', content: 'Hello' }],
    });
    assert.ok(reply.choices[0].message.content.length > 0);

    if (spawnSync('python3', ['-c', 'import openai']).status !== 0) return;
    const program = EXAMPLE.replace(`127.0.0.1:${port}`, address).replace('tg-...', key);
    const python = spawnSync('python3', ['-c', program], { encoding: 'utf8' });
    assert.equal(python.status, 0, python.stderr);
    assert.equal(python.stdout.trim(), reply.choices[0].message.content.trim());
});

test('the Envoy of examples/envoy asks the Tollgate beside it, in the domain of its rules', () => {
    const read = (name) => YAML.parse(fs.readFileSync(`examples/envoy/${name}`, 'utf8'));
    const envoy = read('envoy.yaml').static_resources;
    const manager = envoy.listeners[0].filter_chains[0].filters[0].typed_config;
    const filter = manager.http_filters[0].typed_config;
    const name = filter.rate_limit_service.grpc_service.envoy_grpc.cluster_name;
    const cluster = envoy.clusters.find((one) => one.name === name);
    const place = cluster.load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address;
    const rules = read('ratelimit.yaml');

    assert.equal(filter.domain, rules.domain);
    assert.equal(`${place.address}:${place.port_value}`, read('tollgate.yaml').listen.grpc);
    /* Every descriptor that a route makes begins with a key that has a rule. */
    const route = manager.route_config.virtual_hosts[0].routes[0];
    const limits = route.typed_per_filter_config['envoy.filters.http.ratelimit'].rate_limits;
    const keys = new Set(rules.descriptors.map((rule) => rule.key));
    for (const { actions } of limits) {
        const first = actions[0].request_headers?.descriptor_key ?? Object.keys(actions[0])[0];
        assert.ok(keys.has(first), first);
    }
});
