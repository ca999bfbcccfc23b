/* grpc_wire.mjs - the wire of gRPC: TLS, many at once, large and odd requests, other services. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http2 from 'node:http2';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { ADMIN_TOKEN, fails, until } from './kit.mjs';
import {
    TOKEN,
    admission,
    api,
    ask,
    client,
    collect,
    grpc,
    metadata,
    serving,
} from './grpc_kit.mjs';

const { status } = grpc;

function certificate(t) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-cert-'));
    t.after(() => fs.rmSync(folder, { recursive: true }));
    const [key, cert] = [path.join(folder, 'server.key'), path.join(folder, 'server.pem')];
    execFileSync(
        'openssl',
        [
            ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'],
            ...['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'],
            ...['-keyout', key, '-out', cert],
        ],
        { stdio: 'ignore' },
    );
    return { key, cert };
}

test('every method over TLS', async (t) => {
    const tls = certificate(t);
    const { gateway, address } = await serving(t, {
        listen: { tls },
        top: { admin_auth: { token: ADMIN_TOKEN } },
    });
    const credentials = grpc.credentials.createSsl(fs.readFileSync(tls.cert));
    const caller = admission(t, address, {}, credentials);
    const { lease_id } = await ask(caller, 'Admit');
    assert.deepEqual(
        (await ask(caller, 'Heartbeat', { lease_ids: [lease_id] })).live_ids,
        [lease_id],
    );
    assert.equal((await ask(caller, 'Peek')).allowed, true);
    assert.equal((await ask(caller, 'Release', { lease_id })).found, true);
    const stream = collect(caller.AdmitStream(metadata(TOKEN)));
    stream.call.write({ id: 1, admit: { limits_only: true } });
    stream.call.end();
    assert.equal((await stream.ended).code, status.OK);
    assert.equal(stream.got.length, 1);
    const health = client(t, api.grpc.health.v1.Health, address, {}, credentials);
    assert.equal((await ask(health, 'Check')).status, 'SERVING');
    const monitor = client(t, api.tollgate.v1.Monitor, address, {}, credentials);
    const seen = await ask(monitor, 'GetSnapshot', {}, { token: ADMIN_TOKEN });
    assert.equal(JSON.parse(seen.json).ready, true);
    const plain = await fails(ask(admission(t, address), 'Peek', {}, { deadline: Date.now() + 2000 }));
    assert.ok([status.UNAVAILABLE, status.DEADLINE_EXCEEDED].includes(plain.code), plain.details);
    await gateway.idle();
});

test('a thousand at once on one connection, and on fifty', async (t) => {
    const { gateway, address } = await serving(t, {
        top: { gate: { concurrency: { law: 'fixed', initial: 5000 } } },
    });
    for (const clients of [1, 50]) {
        const all = Array.from({ length: clients }, () => admission(t, address));
        const replies = await Promise.all(
            Array.from({ length: 1000 }, (_, i) => ask(all[i % clients], 'Admit', { cost: i })),
        );
        assert.equal(new Set(replies.map(({ lease_id }) => lease_id)).size, 1000);
        const released = await Promise.all(
            replies.map(({ lease_id }, i) => ask(all[i % clients], 'Release', { lease_id })),
        );
        assert.ok(released.every(({ found }) => found));
    }
    await gateway.idle();
});

test('much metadata is read, too much is refused, and others are not harmed', async (t) => {
    const { address } = await serving(t);
    const caller = admission(t, address, { 'grpc.max_metadata_size': 1 << 20 });
    const much = { 'x-much': 'y'.repeat(30000) };
    assert.equal((await ask(caller, 'Peek', {}, { more: much })).allowed, true);
    const error = await fails(ask(caller, 'Peek', {}, { more: { 'x-much': 'y'.repeat(100000) } }));
    assert.notEqual(error.code, status.OK);
    assert.equal((await ask(admission(t, address), 'Peek')).allowed, true);
});

test('a message that is too large is refused, and the connection goes on', async (t) => {
    const { address } = await serving(t);
    const caller = admission(t, address);
    const error = await fails(ask(caller, 'Admit', { tenant: 'x'.repeat(100000) }));
    assert.equal(error.code, status.RESOURCE_EXHAUSTED);
    assert.equal((await ask(caller, 'Peek')).allowed, true);
});

test('messages compressed by gzip are read, those by deflate are not', async (t) => {
    const { address } = await serving(t, { top: { gate: { rate: { strategy: 'gcra', limit: 1, period: '1h' } } } });
    const gzip = admission(t, address, { 'grpc.default_compression_algorithm': 2 });
    const tenant = 'x'.repeat(200);
    assert.equal((await ask(gzip, 'Admit', { tenant })).allowed, true);
    const again = await ask(gzip, 'Peek', { tenant });
    assert.equal(again.allowed, false, 'the name has arrived as it was');
    assert.equal((await ask(gzip, 'Peek', { tenant: 'y' })).allowed, true);
    const stream = collect(gzip.AdmitStream(metadata(TOKEN)));
    for (let id = 1; id <= 3; id++) stream.call.write({ id, admit: { tenant: 'z'.repeat(id) } });
    stream.call.end();
    assert.equal((await stream.ended).code, status.OK);
    assert.deepEqual(stream.got.map(({ admit }) => admit.allowed), [true, true, true]);
    const deflate = admission(t, address, { 'grpc.default_compression_algorithm': 1 });
    const error = await fails(ask(deflate, 'Admit', { tenant }));
    assert.equal(error.code, status.UNIMPLEMENTED);
    assert.deepEqual(error.metadata.get('grpc-accept-encoding'), ['identity,gzip']);
});

test('methods and services that are not there are UNIMPLEMENTED', async (t) => {
    const { address } = await serving(t);
    const caller = admission(t, address);
    for (const name of ['/tollgate.v1.Admission/Nothing', '/no.Service/Admit', '/x']) {
        const error = await fails(
            new Promise((done, fail) =>
                caller.makeUnaryRequest(
                    name,
                    (value) => value,
                    (value) => value,
                    Buffer.alloc(0),
                    metadata(TOKEN),
                    (problem, value) => (problem ? fail(problem) : done(value)),
                ),
            ),
        );
        assert.equal(error.code, status.UNIMPLEMENTED, error.details);
    }
});

test('what is not gRPC gets a status of HTTP', async (t) => {
    const { port } = await serving(t);
    const session = http2.connect(`http://127.0.0.1:${port}`);
    t.after(() => session.close());
    const reply = (headers) =>
        new Promise((done, fail) => {
            const request = session.request(headers);
            request.on('response', (head) => done(head[':status']));
            request.on('error', fail);
            request.resume();
            request.end();
        });
    const path = '/tollgate.v1.Admission/Admit';
    assert.equal(await reply({ ':method': 'POST', ':path': path }), 415);
    const json = { 'content-type': 'application/json' };
    assert.equal(await reply({ ':method': 'POST', ':path': path, ...json }), 415);
    assert.equal(await reply({ ':method': 'GET', ':path': path }), 405);
    const plain = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST' });
    assert.equal(plain.status, 505);
});

test('a deadline that is past is DEADLINE_EXCEEDED, wherever it is noticed', async (t) => {
    const { address } = await serving(t);
    const error = await fails(ask(admission(t, address), 'Admit', {}, { deadline: Date.now() - 1 }));
    assert.equal(error.code, status.DEADLINE_EXCEEDED);
});

/* Frames of one message, and how many there are in some bytes. */
const frame = (message) => {
    const head = Buffer.alloc(5);
    head.writeUInt32BE(message.length, 1);
    return Buffer.concat([head, message]);
};
const countFrames = (bytes) => {
    let n = 0;
    for (let at = 0; at < bytes.length; n++) at += 5 + bytes.readUInt32BE(at + 1);
    return n;
};

test('a stream whose answers are not read is read no further, and others go on', async (t) => {
    const { gateway, port } = await serving(t, { top: { workers: 1 } });
    const session = http2.connect(`http://127.0.0.1:${port}`);
    t.after(() => session.close());
    const open = (path) =>
        session.request({
            ':method': 'POST',
            ':path': path,
            'content-type': 'application/grpc',
            te: 'trailers',
            authorization: `Bearer ${TOKEN}`,
        });
    const { requestSerialize } = api.tollgate.v1.Admission.service.AdmitStream;
    const question = frame(requestSerialize({ id: 1, admit: { limits_only: true } }));
    const each = 1000;
    const piece = Buffer.concat(Array(each).fill(question));
    const pieces = 400;

    const stream = open('/tollgate.v1.Admission/AdmitStream');
    const parts = [];
    stream.pause();
    let taken = 0;
    const more = () => (taken++ < pieces ? stream.write(piece, more) : stream.end());
    more();
    /* It comes to rest: nothing has moved for a hundred looks. */
    let still = 0;
    let before = -1;
    await until('it is read no further', () => {
        still = taken === before ? still + 1 : 0;
        before = taken;
        return still > 100 && taken > 1;
    });
    assert.ok(taken < pieces / 2, `${taken} pieces of ${pieces} were taken`);

    /* Meanwhile, on the same connection. */
    const other = open('/grpc.health.v1.Health/Check');
    let code;
    other.on('trailers', (fields) => (code = fields['grpc-status']));
    other.resume();
    other.end(frame(Buffer.alloc(0)));
    await until('the other is answered', () => code === '0');

    /* And when it is read, all is answered. */
    stream.on('data', (bytes) => parts.push(bytes));
    stream.resume();
    const fields = await new Promise((done) => stream.on('trailers', done));
    assert.equal(fields['grpc-status'], '0');
    await new Promise((done) => (stream.readableEnded ? done() : stream.on('end', done)));
    assert.equal(countFrames(Buffer.concat(parts)), each * pieces);
    await gateway.idle();
});
