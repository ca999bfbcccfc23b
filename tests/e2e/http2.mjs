/* http2.mjs - the gateway by HTTP/2, seen by two clients that are not ours: curl and Node's own.
 *
 * What a call gets must not depend on the version that carried it.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http2 from 'node:http2';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { promisify } from 'node:util';
import { chatBody, KEY, price, until, world } from './kit.mjs';

const run = promisify(execFile);
const BODY = JSON.stringify(chatBody());
const HEAD = {
    ':method': 'POST',
    ':path': '/v1/chat/completions',
    authorization: `Bearer ${KEY}`,
    'content-type': 'application/json',
};

/* A session that ends with its test. */
function connect(t, gateway) {
    const session = http2.connect(gateway.url);
    session.on('error', () => 0);
    t.after(() => session.destroy());
    return session;
}

/* One exchange: its head, its body, and how it ended. */
function exchange(session, head, body) {
    const stream = session.request(head, { endStream: body === undefined });
    const result = { stream, status: 0, body: '', over: false };
    stream.on('response', (fields) => {
        result.status = fields[':status'];
        result.fields = fields;
    });
    stream.on('data', (bytes) => (result.body += bytes));
    stream.on('error', (error) => (result.error = error));
    result.closed = new Promise((done) =>
        stream.on('close', () => {
            result.over = true;
            result.code = stream.rstCode;
            done(result);
        }),
    );
    if (body !== undefined) stream.end(body);
    return result;
}

test('curl gets by HTTP/2 what it gets by HTTP/1.1', async (t) => {
    const { gateway } = await world(t);
    const ask = (version) =>
        run('curl', [
            '-sS',
            version,
            '-w',
            '\n%{http_code} %{http_version}',
            '-H',
            `authorization: Bearer ${KEY}`,
            '-H',
            'content-type: application/json',
            '-d',
            BODY,
            `${gateway.url}/v1/chat/completions`,
        ]);
    const one = (await ask('--http1.1')).stdout.split('\n');
    const two = (await ask('--http2-prior-knowledge')).stdout.split('\n');
    assert.equal(one.at(-1), '200 1.1');
    assert.equal(two.at(-1), '200 2');
    const content = (text) => JSON.parse(text).choices[0].message.content;
    assert.equal(content(two.slice(0, -1).join('\n')), content(one.slice(0, -1).join('\n')));
});

test('with TLS the version is agreed on', async (t) => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-e2e-tls-'));
    t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
    const cert = path.join(folder, 'cert.pem');
    const key = path.join(folder, 'key.pem');
    const make =
        'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 ' +
        `-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 -keyout ${key} -out ${cert}`;
    await run('openssl', make.split(' '));
    const { gateway } = await world(t, { listen: { tls: { cert, key } } });
    const url = `https://127.0.0.1:${gateway.port}/v1/models`;
    for (const [version, spoken] of [
        ['--http1.1', '1.1'],
        ['--http2', '2'],
    ]) {
        const secret = ['-H', `authorization: Bearer ${KEY}`, '--cacert', cert];
        const ask = ['-sS', version, ...secret, '-o', '/dev/null', '-w'];
        const { stdout } = await run('curl', [...ask, '%{http_code} %{http_version}', url]);
        assert.equal(stdout, `200 ${spoken}`);
    }
    const session = http2.connect(url, { ca: fs.readFileSync(cert) });
    t.after(() => session.destroy());
    assert.equal((await exchange(session, HEAD, BODY).closed).status, 200);
});

test('a hundred calls share a connection', async (t) => {
    const { gateway } = await world(t);
    const session = connect(t, gateway);
    const calls = [];
    for (let i = 0; i < 100; i++) calls.push(exchange(session, HEAD, BODY).closed);
    for (const call of await Promise.all(calls)) {
        assert.equal(call.status, 200, call.body);
        assert.equal(JSON.parse(call.body).choices.length, 1);
    }
    await gateway.idle();
});

test('a streamed call comes in events, with its fields', async (t) => {
    const { gateway } = await world(t);
    const session = connect(t, gateway);
    const body = JSON.stringify(chatBody({ stream: true }));
    const call = await exchange(session, HEAD, body).closed;
    assert.equal(call.status, 200);
    assert.match(call.fields['content-type'], /^text\/event-stream/);
    assert.equal(call.fields['transfer-encoding'], undefined);
    assert.equal(call.fields.connection, undefined);
    assert.ok(call.body.endsWith('data: [DONE]\n\n'), call.body);
});

test('refusals are the same by either version', async (t) => {
    const { gateway } = await world(t);
    const session = connect(t, gateway);
    const wrong = { ...HEAD, authorization: 'Bearer nobody' };
    const call = await exchange(session, wrong, BODY).closed;
    assert.equal(call.status, 401);
    assert.ok(JSON.parse(call.body).error.message);
    const nowhere = await exchange(session, { ':path': '/nowhere' }).closed;
    assert.equal(nowhere.status, 404);
    const good = await exchange(session, HEAD, BODY).closed;
    assert.equal(good.status, 200);
});

test('a cancelled call ends upstream, and no other with it', async (t) => {
    const { gateway, mock } = await world(t);
    await mock.script({ default: { latency: '60s' } });
    const session = connect(t, gateway);
    const first = exchange(session, HEAD, BODY);
    await until('the mock has it', async () => (await mock.seen()).begun === 1);
    first.stream.close(http2.constants.NGHTTP2_CANCEL);
    await until('it has ended there', async () => (await mock.seen()).ended === 1);
    await mock.script({});
    const second = await exchange(session, HEAD, BODY).closed;
    assert.equal(second.status, 200);
    await gateway.idle();
});

test('streams given up in the midst are charged once, and hold nothing', async (t) => {
    const { gateway, mock } = await world(t, {
        top: { gate: { concurrency: { law: 'none', max: 1000 } } },
        script: { default: { tokens: 50, pace: 100 } },
    });
    const session = connect(t, gateway);
    const more = { max_tokens: 50, stream: true, stream_options: { include_usage: true } };
    const body = JSON.stringify(chatBody(more));
    const calls = Array.from({ length: 100 }, () => exchange(session, HEAD, body));
    await Promise.all(
        calls.map(async (call, i) => {
            await new Promise((done) => call.stream.once('data', done));
            if (i % 2) call.stream.close(http2.constants.NGHTTP2_CANCEL);
            await call.closed;
        }),
    );
    const whole = calls.filter((_, i) => i % 2 === 0);
    const lines = whole[0].body.split('\n\n').filter((line) => line.includes('"usage":{'));
    const one = price(JSON.parse(lines.at(-1).slice(6)).usage);
    for (const call of whole) assert.ok(call.body.endsWith('data: [DONE]\n\n'), call.body);
    /* And the whole connection, with all that is on it. */
    const last = Array.from({ length: 20 }, () => exchange(session, HEAD, body));
    await Promise.all(last.map((call) => new Promise((done) => call.stream.once('data', done))));
    session.destroy();
    const spent = await gateway.spent();
    assert.equal(spent.calls, 120);
    assert.ok(spent.micro_usd >= 50 * one, `${spent.micro_usd} of ${one} each`);
    assert.ok(spent.micro_usd <= 120 * (one + 20), `${spent.micro_usd} of ${one} each`);
    assert.equal((await mock.requests(120)).length, 120);
});

test('a drained gateway says goodbye and finishes what runs', async (t) => {
    const { gateway, mock } = await world(t);
    await mock.script({ default: { latency: '300ms' } });
    const session = connect(t, gateway);
    let goodbye = false;
    session.on('goaway', () => (goodbye = true));
    const call = exchange(session, HEAD, BODY);
    await until('the mock has it', async () => (await mock.seen()).begun === 1);
    const stopped = gateway.stop();
    const result = await call.closed;
    assert.equal(result.status, 200);
    await stopped;
    assert.ok(goodbye);
});
