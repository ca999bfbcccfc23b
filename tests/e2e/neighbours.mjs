/* neighbours.mjs - what one tenant does, and what another tenant notices of it: nothing.
 *
 * Each test is an attack on everybody else, with a victim beside it whose calls must all succeed.
 */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import test from 'node:test';
import {
    calls,
    chat,
    EXACT,
    EXACT_COST,
    freePort,
    KEY,
    keys,
    OTHER_KEY,
    reason,
    send,
    sha256,
    tenant,
    until,
    world,
} from './kit.mjs';

/* Tenant one attacks; tenant two is the victim. */
const TWO = [
    tenant(),
    { name: 'two', models: ['*'], keys: [{ name: 'its', sha256: sha256(OTHER_KEY) }] },
];

const victim = (gateway, more, { headers, ...options } = {}) =>
    chat(gateway, more, {
        headers: { authorization: `Bearer ${OTHER_KEY}`, ...headers },
        ...options,
    });

/* ---- deadlines ---- */

for (const [header, value] of [
    ['x-request-timeout-ms', '1'],
    ['x-stainless-timeout', '1'],
])
    test(`attack 8: a client's deadline opens no breaker: ${header}`, async (t) => {
        const { gateway, mock } = await world(t, {
            script: { default: { fault: 'hang' } },
            oai: { keys: keys(1) },
            small: { retries: 0 },
            tenants: TWO,
        });
        for (let round = 0; round < 2; round++)
            for (const reply of await calls(8, () =>
                chat(gateway, {}, { headers: { [header]: value } }),
            )) {
                assert.equal(reply.status, 504, String(reply.body));
                assert.equal(reason(reply), 'upstream_timeout');
            }
        assert.equal(await gateway.metric('key_breaker_open', 'model="small"'), 0);
        assert.equal(await gateway.metric('upstream_total', 'class="failed"') ?? 0, 0);
        await mock.script({});
        for (let i = 0; i < 5; i++) assert.equal((await victim(gateway)).status, 200);
    });

/* ---- retries ---- */

test("attack 11: a client's header drains nobody's retries", async (t) => {
    const { gateway, mock } = await world(t, {
        tenants: TWO,
        top: { retry_budget: { ratio: 0.1, min_per_s: 2 } },
    });
    for (let round = 0; round < 20; round++)
        await calls(20, async () => {
            const reply = await chat(
                gateway,
                { model: 'no-such-model' },
                { headers: { 'x-stainless-retry-count': '3' } },
            );
            assert.equal(reply.status, 404);
        });
    await mock.script({ rules: [{ when: { nth: '1' }, do: { status: 503 } }] });
    assert.equal((await victim(gateway)).status, 200);
    assert.equal((await gateway.metrics()).retries_total, 1);
});

/* ---- large bodies of a tenant that is out of money ---- */

const UPLOAD = 8 << 20;
const JSON_TYPE = 'application/json';
/* Debian has nginx where only root looks. */
const PATH = `${process.env.PATH}:/usr/sbin:/usr/local/sbin`;

const run = (program, args) =>
    new Promise((done, fail) =>
        execFile(program, args, (error, out, err) => (error ? fail(new Error(err)) : done(out))),
    );

/* nginx in front of the gateway: its address. */
async function nginx(t, gateway, buffering) {
    const folder = fs.mkdtempSync(path.join(gateway.folder, 'nginx-'));
    const port = await freePort();
    const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
        .map((name) => `${name}_temp_path ${folder}/${name};`)
        .join(' ');
    const file = path.join(folder, 'nginx.conf');
    fs.writeFileSync(
        file,
        `daemon off; master_process off; pid ${folder}/nginx.pid; error_log stderr;
         events {} http { access_log off; ${temp} client_max_body_size 64m;
         server { listen 127.0.0.1:${port}; location / { proxy_http_version 1.1;
         proxy_request_buffering ${buffering}; proxy_pass ${gateway.url}; } } }`,
    );
    const child = spawn('nginx', ['-e', 'stderr', '-p', folder, '-c', file], {
        env: { ...process.env, PATH },
    });
    let said = '';
    child.stderr.on('data', (bytes) => (said += bytes));
    const ended = new Promise((done) => child.on('close', done));
    t.after(async () => {
        child.kill('SIGTERM');
        await ended;
    });
    await until(`nginx listens: ${said}`, async () => {
        assert.equal(child.exitCode, null, said);
        const socket = net.connect(port, '127.0.0.1');
        return new Promise((done) => {
            socket.on('connect', () => done(true) || socket.destroy());
            socket.on('error', () => done(false));
        });
    });
    return `http://127.0.0.1:${port}`;
}

/* Its budget is spent by one call, to the last micro-dollar. */
async function spent(t) {
    const { gateway } = await world(t, {
        tenants: [tenant({ budgets: [{ usd: EXACT_COST / 1e6, per: 'total' }] }), TWO[1]],
        small: EXACT,
    });
    const reply = await chat(gateway);
    assert.equal(reply.status, 200, String(reply.body));
    await gateway.idle();
    return gateway;
}

const headOf = (length) =>
    `POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${KEY}\r\n` +
    `content-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;

/* All that a socket says until its end; it fails if the connection is reset. */
const said = (socket) =>
    new Promise((done, fail) => {
        let text = '';
        socket.on('data', (bytes) => (text += bytes));
        socket.on('end', () => done(text));
        socket.on('error', fail);
    });

test('a tenant out of money is refused before its body is read', async (t) => {
    const gateway = await spent(t);
    const socket = net.connect(gateway.port, '127.0.0.1');
    const answer = said(socket);
    socket.write(headOf(UPLOAD)); /* and not a byte more */
    assert.match(await answer, /^HTTP\/1\.1 402 [^]*x-tollgate-reason: budget\r\n/);
    socket.destroy();
    await gateway.idle();
});

test('a client that sends all of 8 MiB before it reads sees the refusal, not a reset', async (t) => {
    const gateway = await spent(t);
    const socket = net.connect({ port: gateway.port, host: '127.0.0.1', allowHalfOpen: true });
    await new Promise((done) => socket.once('connect', done));
    socket.pause();
    socket.write(headOf(UPLOAD));
    await new Promise((done, fail) => {
        socket.once('error', fail);
        socket.write(Buffer.alloc(UPLOAD, ' '), done);
    });
    const answer = said(socket);
    socket.resume();
    assert.match(await answer, /^HTTP\/1\.1 402 [^]*"code":"insufficient_quota"/);
    socket.destroy();
});

for (const name of ['fetch', 'http'])
    test(`${name}: the refusal of an upload is read`, async (t) => {
        const gateway = await spent(t);
        const body = JSON.stringify({ model: 'small', pad: ' '.repeat(UPLOAD) });
        for (let i = 0; i < 5; i++) {
            if (name === 'fetch') {
                const reply = await fetch(`${gateway.url}/v1/chat/completions`, {
                    method: 'POST',
                    headers: { authorization: `Bearer ${KEY}`, 'content-type': JSON_TYPE },
                    body,
                });
                assert.equal(reply.status, 402);
            } else {
                assert.equal((await send(gateway.url, '/v1/chat/completions', body)).status, 402);
            }
        }
        assert.equal((await victim(gateway)).status, 200);
    });

test('curl: the refusal of an upload is read', async (t) => {
    const gateway = await spent(t);
    const file = path.join(gateway.folder, 'body');
    fs.writeFileSync(file, Buffer.alloc(UPLOAD, ' '));
    for (const expect of ['expect: 100-continue', 'expect:']) {
        const out = await run('curl', [
            ...['-sS', '-H', `authorization: Bearer ${KEY}`, '-H', `content-type: ${JSON_TYPE}`],
            ...['-H', expect, '-w', '%{http_code}', '-o', '/dev/null', '--data-binary', `@${file}`],
            `${gateway.url}/v1/chat/completions`,
        ]);
        assert.equal(out, '402');
    }
});

for (const buffering of ['on', 'off'])
    test(`nginx in front, proxy_request_buffering ${buffering}: it passes the refusal on`, async (t) => {
        const gateway = await spent(t);
        const url = await nginx(t, gateway, buffering);
        const body = JSON.stringify({ model: 'small', pad: ' '.repeat(UPLOAD) });
        for (let i = 0; i < 5; i++) {
            const reply = await send(url, '/v1/chat/completions', body);
            assert.equal(reply.status, 402, String(reply.body));
            assert.equal(reason(reply), 'budget');
        }
    });
