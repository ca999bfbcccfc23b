/* long_bodies.mjs - bodies of many MiB reach their provider whole, however it takes them.
 *
 * The providers are the test's own: they take a body as a digest, and are fast, slow, early or gone.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { json, KEY, send, until, world } from './kit.mjs';

const MIB = 1024 * 1024;
const IMAGE = { type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(12 * MIB)}` } };
const BODY = JSON.stringify({ model: 'small', max_tokens: 5, messages: [{ role: 'user', content: [IMAGE] }] });
const DIGEST = crypto.createHash('sha256').update(BODY).digest('hex');
const HEADERS = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
const ask = (gateway) => send(gateway.url, '/v1/chat/completions', BODY, { headers: HEADERS });
const REPLY = JSON.stringify({
    id: 'x',
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 10, completion_tokens: 1, total_tokens: 11 },
});

/* A provider that does this with each request; `seen` has the bytes and digests of bodies. */
async function provider(t, handle, secure) {
    const seen = [];
    const take = async (request, reply) => {
        const digest = crypto.createHash('sha256');
        const one = { bytes: 0 };
        request.on('error', () => 0);
        request.on('data', (part) => {
            one.bytes += part.length;
            digest.update(part);
        });
        request.on('end', () => {
            one.digest = digest.digest('hex');
            seen.push(one);
        });
        await handle(request, reply);
    };
    const server = secure ? https.createServer(secure, take) : http.createServer(take);
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    t.after(() => {
        server.closeAllConnections();
        server.close();
    });
    return { seen, url: `http${secure ? 's' : ''}://127.0.0.1:${server.address().port}` };
}

function certificate(t) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-e2e-cert-'));
    t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
    const [key, cert] = ['key.pem', 'cert.pem'].map((name) => path.join(folder, name));
    const make =
        'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost ' +
        `-addext subjectAltName=IP:127.0.0.1 -keyout ${key} -out ${cert}`;
    execFileSync('openssl', make.split(' '), { stdio: 'ignore' });
    return { ca: cert, key: fs.readFileSync(key), cert: fs.readFileSync(cert) };
}

const answer = (request, reply) =>
    request.on('end', () => reply.writeHead(200, { 'content-type': 'application/json' }).end(REPLY));

/* Reads a little, stops for a moment, and so on. */
const slowly = (request, reply) => {
    request.on('data', () => {
        request.pause();
        setImmediate(() => request.resume());
    });
    answer(request, reply);
};

const tenant = { budgets: [] };
const top = { limits: { body: '32MiB', buffered_total: '256MiB' } };

/* A gateway in front of it. */
const before = (t, at, ca) => world(t, { oai: { base_url: at.url, ...(ca && { tls: { ca } }) }, tenant, top });

const nothingIsKept = (gateway) =>
    until('nothing is kept', async () => (await gateway.metric('buffered_bytes')) === 0);

for (const [how, secure, handle] of [
    ['in the clear', false, answer],
    ['in the clear, slowly', false, slowly],
    ['over TLS', true, answer],
    ['over TLS, slowly', true, slowly],
])
    test(`a body of 12 MiB arrives ${how}, byte for byte`, async (t) => {
        const keys = secure && certificate(t);
        const at = await provider(t, handle, keys);
        const { gateway } = await before(t, at, keys && keys.ca);
        const replies = await Promise.all([1, 2, 3].map(() => ask(gateway)));
        for (const reply of replies) assert.equal(reply.status, 200, reply.body.toString());
        for (const one of at.seen) assert.equal(one.digest, DIGEST);
        assert.equal(at.seen.length, 3);
        await nothingIsKept(gateway);
    });

test('a provider that refuses before it has read is heard', async (t) => {
    const at = await provider(t, (request, reply) => {
        reply.writeHead(400, { 'content-type': 'application/json', connection: 'close' });
        reply.end(JSON.stringify({ error: { message: 'too long for us', type: 'invalid_request_error' } }));
    });
    const { gateway } = await before(t, at);
    const reply = await ask(gateway);
    assert.equal(reply.status, 400);
    assert.match(json(reply).error.message, /too long for us/);
    await nothingIsKept(gateway);
});

test('a provider that answers while it still reads gets all of it', async (t) => {
    const at = await provider(t, (request, reply) => {
        let begun = false;
        request.on('data', () => {
            if (!begun) reply.writeHead(200, { 'content-type': 'text/event-stream' });
            if (!begun) reply.write('data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n');
            begun = true;
        });
        request.on('end', () => reply.end('data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":1,"total_tokens":11}}\n\ndata: [DONE]\n\n'));
    });
    const { gateway } = await before(t, at);
    const reply = await ask(gateway);
    assert.equal(reply.status, 200);
    assert.match(reply.body.toString(), /\[DONE\]/);
    assert.equal(at.seen.length, 1);
    assert.ok(at.seen[0].bytes > 12 * MIB);
    await nothingIsKept(gateway);
});

test('a client that leaves while its body is on the way leaves nothing behind', async (t) => {
    let stopped = 0;
    const at = await provider(t, (request) => {
        request.pause();
        stopped++;
    });
    const { gateway } = await before(t, at);
    const call = ask(gateway);
    call.catch(() => 0);
    await until('the provider has stopped reading', () => stopped === 1);
    const kept = await gateway.metric('buffered_bytes');
    assert.ok(kept >= 12 * MIB && kept < 24 * MIB, `${kept} bytes are kept`);
    call.request.destroy();
    await nothingIsKept(gateway);
    await gateway.idle();
});
