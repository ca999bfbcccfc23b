/* operating.mjs - small things that whoever runs a gateway meets: what clients see of names, paths and
 * priorities, and what the log, the metrics and /readyz say. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import {
    ADMIN_TOKEN,
    chat,
    json,
    KEY,
    logLines,
    OTHER_KEY,
    send,
    sha256,
    tenant,
    until,
    world,
} from './kit.mjs';
import { fleet, Redis, stored } from './redis_kit.mjs';

const bearer = (key, more = {}) => ({ headers: { authorization: `Bearer ${key}`, ...more } });

const requestLine = (gateway, match) =>
    until('its line is in the log', () =>
        gateway.lines().find((line) => line.msg === 'request' && match(line)),
    );

function certificate(t) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-tls-'));
    const [cert, key] = ['cert.pem', 'key.pem'].map((name) => path.join(folder, name));
    t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
    execFileSync(
        'openssl',
        ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'].concat(
            ['-days', '2', '-subj', '/CN=localhost', '-keyout', key, '-out', cert],
        ),
        { stdio: 'ignore' },
    );
    return { cert, key };
}

/* ---- S1 ---- */

test('S1 gate.concurrency limits calls to models, as check and replay say', async (t) => {
    const { gateway } = await world(t, {
        script: { default: { fault: 'hang' } },
        top: { gate: { concurrency: { law: 'fixed', initial: 2 }, queue: { size: 0 } } },
    });
    const running = [chat(gateway), chat(gateway)];
    for (const call of running) call.catch(() => {});
    await until(
        'two run',
        async () => (await gateway.metric('concurrency_in_flight', 'gate="all"')) === 2,
    );
    const reply = await chat(gateway);
    assert.equal(reply.status, 429);
    assert.equal(reply.headers['x-tollgate-reason'], 'concurrency');
    assert.equal(await gateway.metric('concurrency_limit', 'gate="all"'), 2);
    for (const call of running) call.request.destroy();
});

/* ---- S8 ---- */

test('S8 a peer is shown while its first calls run', async (t) => {
    const { gateway } = await world(t, {
        script: { default: { fault: 'hang' } },
        top: { trust_headers_from: ['127.0.0.1/32'] },
    });
    const call = chat(gateway, {}, bearer(KEY, { 'x-deriva-node-id': 'node-7' }));
    call.catch(() => {});
    await until('it is shown', async () =>
        /^admission_peer_in_flight\{peer="node-7"\} 1$/m.test(await gateway.metricsText()),
    );
    call.request.destroy();
});

/* ---- D14: names, paths, priorities ---- */

test('D14 aliases are among the models, and can be asked for', async (t) => {
    const { gateway } = await world(t, {
        top: { aliases: { fast: 'small', deep: 'claude' } },
        tenants: [
            tenant(),
            tenant({ name: 'two', keys: [{ name: 'k', sha256: sha256(OTHER_KEY) }], models: ['claude'] }),
        ],
    });
    const get = (path, key, more) => send(gateway.url, path, undefined, bearer(key, more));
    const ids = async (key, more) =>
        json(await get('/v1/models', key, more)).data.map((model) => model.id);
    const anthropic = { 'anthropic-version': '2023-06-01' };

    const all = ['small', 'claude', 'fast', 'deep'];
    assert.deepEqual((await ids(KEY)).sort(), all.sort());
    assert.deepEqual((await ids(KEY, anthropic)).sort(), all.sort());
    const own = ['claude', 'deep'];
    assert.deepEqual(await ids(OTHER_KEY), own, 'no alias of a model that the tenant may not use');
    const one = await get('/v1/models/fast', KEY);
    assert.equal(one.status, 200);
    assert.equal(json(one).id, 'fast');
    assert.equal((await get('/v1/models/fast', OTHER_KEY)).status, 404);
    assert.equal((await chat(gateway, { model: 'fast' })).status, 200);
});

test('D14 a 404 is logged with its path, without its query, and with its tenant', async (t) => {
    const { gateway } = await world(t);
    const long = `/v1/${'x'.repeat(500)}`;

    assert.equal((await send(gateway.url, '/v1/batches?key=hidden', undefined, bearer(KEY))).status, 404);
    const line = await requestLine(gateway, (one) => one.path?.startsWith('/v1/batches'));
    assert.equal(line.path, '/v1/batches');
    assert.equal(line.tenant, 'one');
    assert.equal(line.status, 404);
    assert.equal((await send(gateway.url, '/v1/nowhere', undefined, bearer('unknown'))).status, 404);
    assert.equal((await requestLine(gateway, (one) => one.path === '/v1/nowhere')).tenant, undefined);
    assert.equal((await send(gateway.url, long)).status, 404);
    const cut = await requestLine(gateway, (one) => one.path?.startsWith('/v1/xxx'));
    assert.equal(cut.path, long.slice(0, 128));
    assert.ok(!gateway.process.out.includes('hidden'));
});

test('D14 a 404 below /v1/messages has the form of its API', async (t) => {
    const { gateway } = await world(t);
    const theirs = json(await send(gateway.url, '/v1/messages/batches', undefined, bearer(KEY)));
    const ours = json(await send(gateway.url, '/v1/batches', undefined, bearer(KEY)));

    assert.equal(theirs.type, 'error');
    assert.equal(theirs.error.type, 'not_found_error');
    assert.equal(ours.type, undefined);
    assert.equal(ours.error.type, 'invalid_request_error');
});

test('D14 anybody may lower the priority of a call, and nobody raise it', async (t) => {
    const { gateway } = await world(t, { tenant: { priority: 'normal' } });
    const classOf = async (asked) => {
        const from = gateway.process.out.length;
        const reply = await chat(gateway, {}, bearer(KEY, asked && { 'x-tollgate-priority': asked }));
        assert.equal(reply.status, 200);
        return until('its line is in the log', () =>
            gateway.lines(from).find((line) => line.msg === 'request')?.priority,
        );
    };
    assert.equal(await classOf(), 'normal');
    assert.equal(await classOf('low'), 'low');
    assert.equal(await classOf('high'), 'normal');
    assert.equal(await classOf('nonsense'), 'normal');
});

/* ---- D14: /readyz ---- */

test('D14 /readyz says which calls are refused while the store is down', async (t) => {
    const free = { name: 'two', keys: [{ name: 'k', sha256: sha256(OTHER_KEY) }] };
    for (const [what, tenants, status, words] of [
        ['all', [tenant()], 503, /^the store is down, and budgets are closed without it/],
        ['some', [tenant(), free], 200, /^degraded: calls of 1 of 2 tenants are refused/],
    ])
        await t.test(`${what} tenants have budgets`, async (t) => {
            const redis = await Redis.start(t);
            const { gateways } = await fleet(t, 1, redis.url, {
                tenants,
                top: { store_failure: { limits: 'local', budget: 'closed' } },
            });
            await until('it is ready', async () => (await send(gateways[0].probe, '/readyz')).status === 200);
            await redis.kill();
            await stored(gateways[0], 'down');
            const reply = await send(gateways[0].probe, '/readyz');
            assert.equal(reply.status, status, reply.body);
            assert.match(String(reply.body), words);
        });
});

test('D14 decisions of the store are counted for calls that have a budget, and for no others', async (t) => {
    const redis = await Redis.start(t);
    const free = { name: 'two', keys: [{ name: 'k', sha256: sha256(OTHER_KEY) }] };
    const { gateways } = await fleet(t, 1, redis.url, { tenants: [tenant(), free] });
    const [gateway] = gateways;
    const decided = () => gateway.metric('store_decisions_total', 'what="budget"');

    for (let i = 0; i < 3; i++)
        assert.equal((await chat(gateway, {}, bearer(OTHER_KEY))).status, 200);
    assert.equal(await decided(), 0);
    assert.equal((await chat(gateway)).status, 200);
    assert.equal(await decided(), 1);
});

/* ---- D14: what is said before there is a request ---- */

test('D14 plain HTTP to a port that speaks TLS is told so, and logged', async (t) => {
    const { gateway } = await world(t, { listen: { tls: certificate(t) } });
    const reply = await send(gateway.url, '/v1/models');

    assert.equal(reply.status, 400);
    assert.match(json(reply).error.message, /^plain HTTP was sent to a port that speaks TLS/);
    const line = await requestLine(gateway, (one) => one.status === 400);
    assert.match(line.failure, /^plain HTTP/);
});

test('D14 the first line of a log in JSON is JSON, and names the listeners', async (t) => {
    const { gateway } = await world(t, { top: { log: { format: 'json' } } });
    const first = gateway.process.out.split('\n').find((one) => one.includes('listening on'));
    const line = JSON.parse(first);

    assert.equal(line.level, 'info');
    assert.ok(line.msg.includes(`listening on 127.0.0.1:${gateway.port} (gateway)`), first);
});

/* ---- D14: the admin API ---- */

async function administered(t) {
    const made = await world(t, {
        top: { admin_auth: { token: ADMIN_TOKEN } },
        listen: { admin: '127.0.0.1:0' },
    });
    const said = await made.gateway.process.said(/127\.0\.0\.1:(\d+) \(admin\)/);
    const ask = (method, path, { token = ADMIN_TOKEN, type = 'application/json', body } = {}) =>
        fetch(`http://127.0.0.1:${said[1]}${path}`, {
            method,
            body,
            headers: { authorization: `Bearer ${token}`, ...(body && { 'content-type': type }) },
        });
    return { ...made, ask };
}

test('D14 every change that is refused leaves an audit line', async (t) => {
    const { gateway, ask } = await administered(t);
    for (const [status, method, path, options] of [
        [409, 'PUT', '/api/v1/tenants/one', { body: '{}' }],
        [415, 'PUT', '/api/v1/tenants/new', { body: 'x', type: 'text/plain' }],
        [400, 'PUT', '/api/v1/tenants/new', { body: '{"nonsense": 1}' }],
        [400, 'POST', '/api/v1/tenants/one/keys', { body: '[' }],
        [404, 'POST', '/api/v1/keys/none/reset', {}],
        [404, 'POST', '/api/v1/keys/oai/none/disable', {}],
        [401, 'POST', '/api/v1/reload', { token: 'wrong' }],
    ]) {
        const from = gateway.process.out.length;
        assert.equal((await ask(method, path, options)).status, status, `${method} ${path}`);
        const line = await until(`${status} is audited`, () =>
            logLines(gateway.process.out.slice(from)).find((one) => one.msg === 'audit'),
        );
        assert.match(line.outcome, /^refused: ./);
        assert.equal(line.who, '127.0.0.1');
        const all = logLines(gateway.process.out.slice(from)).filter((one) => one.msg === 'audit');
        assert.equal(all.length, 1, JSON.stringify(all));
    }
});

test('D14 restart_needed is empty again once the file is what runs', async (t) => {
    const { gateway, ask, config } = await administered(t);
    const reload = async (change) => {
        gateway.write({ ...config, ...change });
        return (await (await ask('POST', '/api/v1/reload')).json()).restart_needed;
    };
    assert.deepEqual(await reload({ workers: 3 }), ['workers']);
    assert.deepEqual(await reload({ workers: 3, aliases: { fast: 'small' } }), ['workers']);
    assert.deepEqual(await reload({}), []);
});
