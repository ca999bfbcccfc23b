/* documents.mjs - every command line of the documents works: it is run here, by another test, or is on a
 * short list of those that no test can run, each with its reason.
 *
 * A command is a line of a code block that begins with "$ ", with the lines it continues on. Those of a
 * page are run one after the other in one shell, beside a gateway with an admin API, so that functions and
 * variables of earlier ones hold; addresses and paths become those of this test.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { ADMIN_TOKEN, chat, freePort, keys, OTHER_KEY, sha256, tenant, world } from './kit.mjs';

/* Pages whose commands are run, with what they print, by another test. */
const ELSEWHERE = {
    'docs/limiters.md': 'tests/cli/docs_examples.sh',
    'docs/simulator.md': 'tests/cli/docs_examples.sh',
    'docs/mock.md': 'tests/cli/mock.sh',
};

/* What no test can run, and why. */
const CANNOT = [
    [/api\/v1\/fleet/, 'needs a store: tests/e2e/fleet.mjs'],
    [/tollgate\/days/, 'needs a day that is over: tests/unit/server/ledger/test_ledger_export.c'],
    [/\.\.\./, 'it leaves something out'],
    [/^(systemctl|kubectl|docker)\b|&& systemctl/, 'it talks to a service manager or a cluster'],
    [/^(grpcurl|xdg-open)\b/, 'it needs a program that is no part of Debian, or a desktop'],
    [/^(apt|gpg|helm|install|podman|setpriv)\b/, 'it installs or verifies what is built: make ship-test'],
    [/^pip install '.\/build\/wheel/, 'it installs what is built: tests/tools/python.sh'],
    [/^make /, 'it builds: tests/cli/docs_links.sh looks for the target'],
    [/^tollgate serve /, 'it does not end: every test of tests/e2e starts it'],
    [/^tollgate top (?!.*--once)/, 'it needs a terminal: tests/e2e/top.mjs'],
    [/\/watch$/, 'it does not end: tests/e2e/admin.mjs'],
    [/tollgate\/v1\/me/, 'it needs a key, and another page has blocked it: tests/e2e/me.mjs'],
    [/https:\/\/gateway\.example/, 'it needs certificates: tests/e2e/admin_tls.mjs'],
    [/api\/v1\/credits/, 'it needs money that is uncertain: tests/e2e/admin.mjs'],
    [/^tollgate bench/, 'it measures for a minute: make bench'],
    [/^curl .*:50051/, "it asks Envoy's rate limit service: tests/e2e/envoy.mjs"],
];

/* Whose blocks are run as a whole, by a test below. */
const WHOLE = ['docs/distributed.md'];

/* docs/scenarios.md: what takes minutes is run for one seed, and one scenario in the place of many. */
const brief = (text) =>
    /^tollgate sim --scenario (?!list)/.test(text)
        ? `${text
              .replace('--scenario all', '--scenario step2x')
              .replace(/--scenario fair(?= |$)/, '--scenario fair-priority')
              .replace(/ --seeds \d+/, '')} --seeds 1`
        : text;

const pages = ['README.md', 'CONTRIBUTING.md', ...fs.readdirSync('docs').map((name) => `docs/${name}`)];

/* The commands of a page: {line, text}. */
function commands(page) {
    const lines = fs.readFileSync(page, 'utf8').split('\n');
    const found = [];
    for (let i = 0; i < lines.length; i++) {
        const begin = lines[i].match(/^(?: {4})?\$ (.*)$/);
        if (!begin) continue;
        const text = [begin[1]];
        const line = i + 1;
        while (/[\\|]$/.test(text.at(-1))) text.push(lines[++i]);
        found.push({ line, text: text.join('\n').replace(/ {2,}#.*$/, '') });
    }
    return found;
}

async function gateway(t) {
    const made = await world(t, {
        oai: { keys: keys(1) },
        tenants: [
            tenant({ name: 'team-a', budgets: [{ usd: 100, per: 'day' }] }),
            { name: 'product', budgets: [{ usd: 100, per: 'month' }] },
        ],
        top: {
            admin_auth: { token: ADMIN_TOKEN },
            aliases: { fast: 'small', 'demo-small': 'small' },
            callers: [
                { name: 'own', token_sha256: sha256(OTHER_KEY), may: ['tenant', 'peer', 'priority'] },
            ],
            budgets: [{ usd: 1000, per: 'month' }],
        },
        listen: { admin: '127.0.0.1:0' },
    });
    const port = async (name) =>
        (await made.gateway.process.said(new RegExp(`127\\.0\\.0\\.1:(\\d+) \\(${name}\\)`)))[1];
    return { ...made, admin: await port('admin'), probe: await port('probe') };
}

test('every command line of the documents is run, or cannot be', async (t) => {
    const made = await gateway(t);
    const { admin, probe } = made;
    const folder = fs.mkdtempSync('/tmp/tollgate-documents-');
    t.after(() => fs.rmSync(folder, { recursive: true }));
    const own = (name) => path.join(folder, name);
    fs.mkdirSync(own('bin'));
    fs.symlinkSync(path.resolve(process.env.TOLLGATE), own('bin/tollgate'));
    fs.copyFileSync(made.gateway.file, own('tollgate.yaml'));
    fs.writeFileSync(own('admin.token'), `${ADMIN_TOKEN}\n`);
    const here = (text) =>
        text
            .replaceAll(/(127\.0\.0\.1|localhost):9090/g, `127.0.0.1:${admin}`)
            .replaceAll('/keys/openai/first/', '/keys/oai/k1/')
            .replaceAll('localhost:8080', `127.0.0.1:${made.gateway.port}`)
            .replaceAll(/127\.0\.0\.1:8081/g, `127.0.0.1:${probe}`)
            .replaceAll('/etc/tollgate/tollgate.yaml', own('tollgate.yaml'))
            .replaceAll('/var/lib/tollgate/tollgate.db', made.config.ledger.path)
            .replaceAll('/backup/', `${folder}/`);
    assert.equal((await chat(made.gateway)).status, 200);
    let run = 0;
    for (const page of pages.filter((name) => name.endsWith('.md') && !ELSEWHERE[name])) {
        const script = [];
        for (const { line, text } of commands(page)) {
            if (CANNOT.some(([pattern]) => pattern.test(text))) continue;
            /* Not in a subshell: what it defines has to stay. */
            script.push(`${brief(here(text))}\n`, `echo "${page}:${line} $?" >>'${own('status')}'\n`);
            run++;
        }
        if (script.length === 0) continue;
        fs.writeFileSync(own('script'), script.join(''));
        const shell = spawnSync('sh', [own('script')], {
            cwd: folder,
            encoding: 'utf8',
            timeout: 60000,
            env: { ...process.env, TOKEN: OTHER_KEY, PATH: `${own('bin')}:${process.env.PATH}` },
        });
        const said = fs.existsSync(own('status')) ? fs.readFileSync(own('status'), 'utf8') : '';
        const ends = said.split('\n').filter((one) => one.startsWith(`${page}:`));
        assert.equal(ends.length, script.length / 2, `${page}: the shell stopped\n${shell.stderr}`);
        for (const end of ends) assert.match(end, / 0$/, `${shell.stdout}\n${shell.stderr}`);
        assert.ok(!/"error"/.test(shell.stdout), `${page}: ${shell.stdout}`);
    }
    assert.ok(run >= 15, `${run} commands were run`);
});

test('a block of shell commands has a $ before each, and so they are run', () => {
    for (const page of pages.filter((name) => name.endsWith('.md') && !WHOLE.includes(name))) {
        const blocks = fs.readFileSync(page, 'utf8').matchAll(/^```(?:sh|shell|bash)\n([^]*?)^```$/gm);
        for (const [, block] of blocks) assert.match(block, /^\$ /, `${page}:\n${block}`);
    }
});

test('the list of commands that cannot be run has nothing that is not in the documents', () => {
    const all = pages.filter((name) => name.endsWith('.md')).flatMap(commands);
    for (const [pattern, why] of CANNOT)
        assert.ok(
            all.some(({ text }) => pattern.test(text)),
            `no command is ${pattern}: ${why}`,
        );
    for (const [page, where] of Object.entries(ELSEWHERE)) {
        assert.ok(commands(page).length > 0, page);
        assert.ok(fs.readFileSync(where, 'utf8').includes(page), `${where} and ${page}`);
    }
});

/* ---- docs/distributed.md ---- */

/* Redis takes a second port, 10000 above. */
async function clusterPort() {
    for (;;) {
        const port = await freePort();
        if (port < 55000) return port;
    }
}

test('three Redis nodes and two gateways, as docs/distributed.md starts them, serve ten of twelve', async (t) => {
    const [, block] = fs
        .readFileSync('docs/distributed.md', 'utf8')
        .match(/```sh\n(for port in 7001[^]*?)```/);
    const folder = fs.mkdtempSync('/tmp/tollgate-documents-');
    t.after(() => fs.rmSync(folder, { recursive: true }));
    fs.mkdirSync(path.join(folder, 'bin'));
    const tollgate = path.resolve(process.env.TOLLGATE);
    fs.symlinkSync(tollgate, path.join(folder, 'bin/tollgate'));
    const made = spawnSync(tollgate, ['key', 'new'], { encoding: 'utf8' }).stdout;
    const ports = new Map();
    for (const port of ['7001', '7002', '7003']) ports.set(port, await clusterPort());
    for (const port of ['9099', '8080', '8081', '8090', '8091']) ports.set(port, await freePort());
    let text = block
        .replace('80$((8 + i % 2))0', '$(if [ $((i % 2)) = 0 ]; then echo 8080; else echo 8090; fi)')
        .replaceAll('/tmp/tg', `${folder}/tg`)
        .replace(/^store: /m, 'store_timeout: 10s\nstore: ') /* however busy the machine is */
        .replace('the hash', made.match(/sha256: "([0-9a-f]{64})"/)[1]);
    for (const [port, own] of ports) text = text.replaceAll(port, own);
    /* Who types it takes longer than a start. */
    const ready = ['8081', '8091']
        .map((port) => `curl -s http://127.0.0.1:${ports.get(port)}/readyz | grep -qx ok`)
        .join(' && ');
    text = text.replace(/^for i in/m, `until ${ready}; do sleep 0.1; done\nfor i in`);
    const end = ['7001', '7003'].map((port) => `redis-cli -p ${ports.get(port)} shutdown nosave`);
    text = text.replaceAll(/ &$/gm, ' & echo $! >>pids');
    const script = `trap 'kill $(cat pids); ${end.join('; ')}' EXIT\ntrap 'exit 1' TERM\n${text}`;
    const minute = () => Math.floor(Date.now() / 60000);
    const began = minute();
    const shell = spawnSync('sh', ['-c', script], {
        cwd: folder,
        encoding: 'utf8',
        timeout: 60000,
        env: {
            ...process.env,
            PATH: `${path.join(folder, 'bin')}:${process.env.PATH}`,
            YOUR_KEY: made.split('\n')[0],
        },
    });
    assert.equal(shell.status, 0, `${shell.stdout}\n${shell.stderr}`);
    /* Another minute is another window. */
    const want = minute() === began ? /(200 ){10}(429 ){2}/ : /(200 ){5}((200|429) ){7}/;
    assert.match(shell.stdout, want, shell.stderr);
    /* The node that went may or may not have been missed by then. */
    assert.match(shell.stdout, /(ok|the store is down, and budgets are closed without it)\s*$/);
});
