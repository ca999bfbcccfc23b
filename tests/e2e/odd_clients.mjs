/* odd_clients.mjs - clients that speak HTTP in their own way, on plain sockets.
 *
 * Whatever is HTTP is served, however it is cut; whatever a provider could read differently than we
 * do is refused before anybody is asked.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import test from 'node:test';
import zlib from 'node:zlib';
import { chat, chatBody, KEY, send, until, world } from './kit.mjs';

const PROGRAM = path.resolve(process.env.TOLLGATE ?? 'build/tollgate');
const SERVE = ['serve', ...(process.env.E2E_SERVE?.split(' ') ?? []), '-c'];
const BODY = JSON.stringify(chatBody());

const request = ({
    target = '/v1/chat/completions',
    method = 'POST',
    host = 'x',
    fields = '',
    body = BODY,
} = {}) =>
    `${method} ${target} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${KEY}\r\n${fields}` +
    (method === 'POST' ? `content-length: ${body.length}\r\n\r\n${body}` : '\r\n');

/* A connection, and the text that came of it. */
function connect(t, gateway) {
    const socket = net.connect(gateway.port, '127.0.0.1');
    const client = { socket, got: '', over: false };
    socket.setNoDelay(true);
    socket.on('data', (bytes) => (client.got += bytes.toString('latin1')));
    socket.on('close', () => (client.over = true));
    socket.on('error', () => 0);
    t.after(() => socket.destroy());
    return client;
}

/* What the gateway says to these bytes, up to the end of its first reply. */
async function say(t, gateway, bytes) {
    const client = connect(t, gateway);
    client.socket.write(bytes);
    await until(`a whole reply in ${client.got}`, () => replies(client.got).length > 0);
    client.socket.destroy();
    return replies(client.got)[0];
}

/* Replies with a length, and those that have come so far. */
function replies(text) {
    const list = [];
    for (;;) {
        const end = text.indexOf('\r\n\r\n');
        const length = Number(/content-length: (\d+)/.exec(text.slice(0, end))?.[1] ?? 0);
        if (end < 0 || text.length < end + 4 + length) return list;
        list.push({
            status: Number(text.slice(9, 12)),
            head: text.slice(0, end),
            body: text.slice(end + 4, end + 4 + length),
        });
        text = text.slice(end + 4 + length);
    }
}

/* ---- served ---- */

for (const [what, one] of [
    ['a target with scheme and host', { target: 'http://elsewhere:80/v1/chat/completions' }],
    ['a long query', { target: `/v1/chat/completions?a=${'b'.repeat(8000)}` }],
    ['a type with parameters', { fields: 'content-type: Application/JSON; charset=utf-8\r\n' }],
    ['no type', {}],
    ['no encoding, said aloud', { fields: 'content-encoding: identity\r\n' }],
    ['a wish to upgrade', { fields: 'connection: upgrade\r\nupgrade: websocket\r\n' }],
    ['90 fields', { fields: Array.from({ length: 90 }, (_, i) => `x-${i}: 1\r\n`).join('') }],
]) {
    test(`a call with ${what} is served`, async (t) => {
        const { gateway, mock } = await world(t);
        assert.equal((await say(t, gateway, request(one))).status, 200);
        const [seen] = await mock.requests(1);
        assert.ok(seen.path.startsWith('/v1/chat/completions'), seen.path);
        assert.equal(new Map(seen.headers).get('host'), `127.0.0.1:${mock.port}`);
    });
}

test('a call that is cut anywhere is the same call', async (t) => {
    const { gateway, mock } = await world(t);
    const bytes = request();
    const whole = (await say(t, gateway, bytes)).body;
    const client = connect(t, gateway);
    for (let cut = 1; cut < bytes.length; cut++) {
        client.got = '';
        client.socket.write(bytes.slice(0, cut));
        await new Promise(setImmediate);
        client.socket.write(bytes.slice(cut));
        await until(`the reply, cut at ${cut}`, () => replies(client.got).length > 0);
        assert.equal(replies(client.got)[0].body, whole);
    }
    assert.equal((await mock.requests(bytes.length)).length, bytes.length);
    await gateway.idle();
});

test('a body in chunks of a byte, with extensions and trailers, is one body', async (t) => {
    const { gateway, mock } = await world(t);
    const chunks = [...BODY].map((byte) => `1;a=b\r\n${byte}\r\n`).join('');
    const head = request({ method: 'GET' }).replace('GET', 'POST').slice(0, -2);
    const bytes = `${head}transfer-encoding: chunked\r\n\r\n${chunks}0\r\nx-trailer: 1\r\n\r\n`;

    assert.equal((await say(t, gateway, bytes)).status, 200);
    const [seen] = await mock.requests(1);
    assert.equal(seen.body_bytes, BODY.length);
    assert.ok(!new Map(seen.headers).has('x-trailer'));
});

test('calls in a pipe are answered in their order', async (t) => {
    const { gateway } = await world(t, {
        script: { rules: [{ when: { model: 'small', nth: '1' }, do: { latency: '100ms' } }] },
    });
    const client = connect(t, gateway);
    const wrong = request({ body: JSON.stringify(chatBody({ model: 'nothing' })) });
    client.socket.write(request() + wrong + request({ target: '/nowhere' }) + request());
    await until('four replies', () => replies(client.got).length === 4);
    assert.deepEqual(
        replies(client.got).map((one) => one.status),
        [200, 404, 404, 200],
    );
});

test('HEAD of the models is GET without its body', async (t) => {
    const { gateway } = await world(t);
    const client = connect(t, gateway);
    const models = { target: '/v1/models', method: 'HEAD' };
    client.socket.write(request(models) + request({ ...models, method: 'GET' }));
    await until('both', () => /"object":"list"/.test(client.got));
    const [head, get] = client.got.split(/(?=HTTP\/1\.1 )/);
    assert.match(head, /^HTTP\/1\.1 200 OK\r\n/);
    assert.ok(head.endsWith('\r\n\r\n'));
    assert.equal(/content-length: \d+/.exec(head)[0], /content-length: \d+/.exec(get)[0]);
});

test('100 Continue is for those whose body will be read', async (t) => {
    const { gateway, mock } = await world(t);
    const bytes = request({ fields: 'expect: 100-continue\r\n' });
    const head = bytes.slice(0, bytes.indexOf('\r\n\r\n') + 4);
    const client = connect(t, gateway);
    client.socket.write(head);
    await until('100', () => client.got === 'HTTP/1.1 100 Continue\r\n\r\n');
    client.socket.write(BODY);
    await until('200', () => /HTTP\/1\.1 200 OK[^]*total_tokens/.test(client.got));

    const stranger = connect(t, gateway);
    stranger.socket.write(head.replace(KEY, 'somebody'));
    await until('the end', () => stranger.over);
    assert.match(stranger.got, /^HTTP\/1\.1 401 /);
    assert.equal((await mock.seen()).begun, 1);
});

/* ---- refused ---- */

for (const [what, one, status] of [
    ['a Host that is none', { host: 'a b' }, 400],
    ['a Host with a user', { host: 'a@b' }, 400],
    ['a target without a host', { target: 'http:///v1/chat/completions' }, 400],
    ['a type that only begins like JSON', { fields: 'content-type: application/jsonp\r\n' }, 415],
    ['another type', { fields: 'content-type: text/plain\r\n' }, 415],
    ['an encoding that it does not have', { fields: 'content-encoding: gzip\r\n' }, 415],
    ['an odd expectation', { fields: 'expect: 200-ok\r\n' }, 417],
    ['two spaces in its first line', { target: ' /v1/chat/completions' }, 400],
    ['a byte order mark', { body: `\xef\xbb\xbf${BODY}` }, 400],
    ['no body', { body: '' }, 400],
    ['two models', { body: BODY.replace('{', '{"mod\\u0065l":"claude",') }, 400],
]) {
    test(`a call with ${what}: ${status}, and nobody is asked`, async (t) => {
        const { gateway, mock } = await world(t);
        const bytes = Buffer.from(request(one), 'latin1');
        assert.equal((await say(t, gateway, bytes)).status, status);
        assert.equal((await mock.seen()).begun, 0);
        await gateway.idle();
    });
}

test('a body that is packed is a 415, and nobody is asked', async (t) => {
    const { gateway, mock } = await world(t);
    const reply = await send(gateway.url, '/v1/chat/completions', zlib.gzipSync(BODY), {
        headers: { 'content-encoding': 'gzip' },
    });
    assert.equal(reply.status, 415);
    assert.equal((await mock.seen()).begun, 0);
});

test('the log knows how much a refusal was', async (t) => {
    const { gateway } = await world(t);
    const reply = await chat(gateway, { model: 'nothing' });
    await gateway.finish();
    const [line] = gateway.lines();
    assert.equal(line.status, 404);
    assert.equal(line.bytes_out, reply.body.length);
});

test('what is only announced takes up no memory', async (t) => {
    const { gateway } = await world(t, { top: { limits: { buffered_total: '64MiB' } } });
    const bytes = request().replace(/content-length: \d+/, 'content-length: 33000000');
    for (let i = 0; i < 40; i++) connect(t, gateway).socket.write(bytes);
    await until('all bodies are held', async () => (await gateway.metric('open_calls')) === 40);
    await until('all bodies are held', async () => {
        const held = await gateway.metric('buffered_bytes');
        assert.ok(held <= 40 * 65536, `${held} bytes`);
        return held >= 40 * BODY.length;
    });
    assert.equal((await chat(gateway)).status, 200);
});

/* ---- leaving ---- */

test('a client that closes its sending half has left', async (t) => {
    const { gateway, mock } = await world(t, { script: { default: { fault: 'hang' } } });
    const client = connect(t, gateway);
    client.socket.write(request());
    await until('it is at the mock', async () => (await mock.seen()).begun === 1);
    client.socket.end();

    const [seen] = await mock.requests(1);
    assert.equal(seen.ended, 'aborted');
    assert.equal((await gateway.spent()).calls, 1);
    assert.equal((await gateway.metrics()).hangups_total, 1);
});

/* ---- where it listens ---- */

test('workers share a local socket', async (t) => {
    const { gateway, folder } = await world(t, { top: { ledger: { path: ':memory:' } } });
    const file = path.join(folder, 'local.json');
    const socketPath = path.join(folder, 'socket');
    const config = JSON.parse(fs.readFileSync(gateway.file));
    config.listen = { gateway: `unix:${socketPath}` };
    fs.writeFileSync(file, JSON.stringify(config));
    const child = spawn(PROGRAM, [...SERVE, file], { stdio: 'ignore' });
    const ended = new Promise((done) => child.on('close', done));
    t.after(() => child.kill('SIGKILL'));
    const get = () =>
        new Promise((done) => {
            const headers = { authorization: `Bearer ${KEY}` };
            http.get({ socketPath, path: '/v1/models', headers, agent: false }, (reply) => {
                reply.resume();
                reply.on('end', () => done(reply.statusCode));
            }).on('error', () => done(0));
        });
    await until('it listens', async () => child.exitCode !== null || (await get()) === 200);
    const all = await Promise.all(Array.from({ length: 50 }, get));
    assert.ok(all.every((status) => status === 200), `${all}`);
    child.kill('SIGTERM');
    assert.equal(await ended, 0);
    assert.ok(!fs.existsSync(socketPath));
});

test('probes and calls have connections of their own', async (t) => {
    const { gateway } = await world(t, { top: { limits: { connections: 4 } } });
    const probe = { port: Number(new URL(gateway.probe).port) };
    const calls = Array.from({ length: 6 }, () => connect(t, gateway));
    await until('no more get in', () => calls.filter((one) => one.over).length === 2);
    assert.equal((await send(gateway.probe, '/healthz')).status, 200);

    /* Whoever takes all that probes have takes none of theirs, and none of the next probe's. */
    const probes = Array.from({ length: 300 }, () => connect(t, probe));
    await until('the oldest are closed', () => probes.filter((one) => one.over).length >= 44);
    assert.equal((await send(gateway.probe, '/readyz')).status, 200);
    assert.equal(await gateway.metric('connections'), 4);
    assert.ok(calls.filter((one) => !one.over).length === 4, 'calls are not ended for probes');
    for (const one of calls) one.socket.destroy();
    await until('there is room', async () => (await gateway.metric('connections')) === 0);
    assert.equal((await chat(gateway)).status, 200);
    assert.ok(probes.some((one) => !one.over), 'and probes not for calls');
});

/* ---- two of them ---- */

test('a second gateway on the same port does not start, and says why', async (t) => {
    const { gateway, folder } = await world(t, { top: { ledger: { path: ':memory:' } } });
    const file = path.join(folder, 'second.json');
    const config = JSON.parse(fs.readFileSync(gateway.file));
    config.listen = { gateway: `127.0.0.1:${gateway.port}` };
    fs.writeFileSync(file, JSON.stringify(config));
    const second = spawnSync(PROGRAM, [...SERVE, file], { timeout: 20000 });

    assert.equal(second.status, 1, String(second.stderr));
    assert.match(String(second.stderr), new RegExp(`127\\.0\\.0\\.1:${gateway.port}`));
    assert.equal((await chat(gateway)).status, 200);
});
