/* protect_grpc.mjs - a server of gRPC behind `protect`: the same as without, until the gate refuses. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http2 from 'node:http2';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { promisify } from 'node:util';
import { fixed, grpc, serving } from './grpc_kit.mjs';
import { pause, until } from './kit.mjs';

/* Messages are JSON in a buffer: what is in them is nobody's business but the two ends'. */
const method = (name, requestStream, responseStream) => ({
    path: `/deriva.Test/${name}`,
    requestStream,
    responseStream,
    requestSerialize: (value) => Buffer.from(JSON.stringify(value)),
    requestDeserialize: (bytes) => JSON.parse(bytes),
    responseSerialize: (value) => Buffer.from(JSON.stringify(value)),
    responseDeserialize: (bytes) => JSON.parse(bytes),
});
const SERVICE = {
    Unary: method('Unary', false, false),
    Many: method('Many', false, true),
    Gather: method('Gather', true, false),
    Talk: method('Talk', true, true),
    Hold: method('Hold', false, false),
};
const Client = grpc.makeGenericClientConstructor(SERVICE, 'deriva.Test');

const { status } = grpc;

/* Calls of Hold wait until they are let go; `held` are those that do, `gone` counts who left. */
async function upstream(t, options = {}, credentials = grpc.ServerCredentials.createInsecure()) {
    const seen = { held: [], gone: 0, metadata: [] };
    const trailers = (words) => {
        const made = new grpc.Metadata();
        made.set('x-behind', words);
        made.set('x-bytes-bin', Buffer.from([0, 255, 1]));
        return made;
    };
    const server = new grpc.Server({ 'grpc.max_receive_message_length': 64 << 20, ...options });
    server.addService(SERVICE, {
        Unary: (call, done) => {
            seen.metadata.push(call.metadata.getMap());
            const head = new grpc.Metadata();
            head.set('x-before', 'unary');
            call.sendMetadata(head);
            if (call.request.fail)
                done(
                    {
                        code: call.request.fail,
                        details: 'as asked: ä 100 %',
                        metadata: trailers('failed'),
                    },
                    null,
                );
            else done(null, { echo: call.request }, trailers('unary'));
        },
        Many: (call) => {
            for (let i = 0; i < call.request.n; i++)
                call.write({ i, pad: 'x'.repeat(call.request.pad ?? 0) });
            call.end(trailers('many'));
        },
        Gather: (call, done) => {
            const all = [];
            call.on('data', (value) => all.push(value));
            call.on('end', () => done(null, { n: all.length, last: all.at(-1) }, trailers('gather')));
        },
        Talk: (call) => {
            call.on('data', (value) => call.write({ back: value }));
            call.on('end', () => call.end(trailers('talk')));
        },
        Hold: (call, done) => {
            seen.held.push(() => done(null, { held: true }));
            call.on('cancelled', () => seen.gone++);
        },
    });
    const port = await new Promise((done, fail) =>
        server.bindAsync('127.0.0.1:0', credentials, (error, bound) =>
            error ? fail(error) : done(bound),
        ),
    );
    t.after(() => server.forceShutdown());
    return { seen, port, address: `127.0.0.1:${port}`, server };
}

const clientOf = (t, address) => {
    const made = new Client(address, grpc.credentials.createInsecure(), {
        'grpc.use_local_subchannel_pool': 1,
        'grpc.max_receive_message_length': 64 << 20,
    });
    t.after(() => made.close());
    return made;
};

/* One call of each kind, written down: what came, in its order. */
function record(call, wanted) {
    return new Promise((done) => {
        const log = [];
        const keep = (map) =>
            Object.fromEntries(
                Object.entries(map.getMap())
                    .filter(([name]) => /^x-(?!request-id)/.test(name))
                    .map(([name, value]) => [name, value.toString('latin1')]),
            );
        call.on('metadata', (head) => log.push(['head', keep(head)]));
        call.on('data', (value) => log.push(['data', value]));
        call.on('error', () => {});
        call.on('status', (end) => {
            log.push(['status', end.code, end.details, keep(end.metadata)]);
            if (!wanted || wanted()) done(log);
        });
    });
}

async function unary(client, name, request, options = {}) {
    const metadata = options.metadata ?? new grpc.Metadata();
    return new Promise((done) => {
        let answer;
        const call = client[name](request, metadata, options.call ?? {}, (error, value) => {
            answer = error ? { code: error.code, details: error.details } : value;
        });
        options.onCall?.(call);
        record(call).then((log) => done({ answer, log }));
    });
}

async function transcript(client) {
    const all = {};
    all.unary = await unary(client, 'Unary', { a: 1 });
    all.large = await unary(client, 'Unary', { pad: 'y'.repeat(1 << 20) });
    all.empty = await unary(client, 'Unary', {});
    for (const code of [3, 5, 7, 9, 12, 13, 16])
        all[`fails ${code}`] = await unary(client, 'Unary', { fail: code });
    all.many = await record(client.Many({ n: 50 }));
    all.manyLarge = (await record(client.Many({ n: 40, pad: 100000 }))).map((line) =>
        line[0] === 'data' ? ['data', line[1].i, line[1].pad.length] : line,
    );
    all.none = await record(client.Many({ n: 0 }));
    const gather = await new Promise((done) => {
        let answer;
        const call = client.Gather((error, value) => (answer = error?.code ?? value));
        record(call).then((log) => done({ answer, log }));
        for (let i = 0; i < 30; i++) call.write({ i, pad: 'z'.repeat(i * 100) });
        call.end();
    });
    all.gather = gather;
    const talk = client.Talk();
    const log = record(talk);
    for (let i = 0; i < 10; i++) {
        const echoed = new Promise((done) => talk.once('data', done));
        talk.write({ i });
        assert.deepEqual(await echoed, { back: { i } }, 'each before the next is sent');
    }
    talk.end();
    all.talk = await log;
    all.unknown = await new Promise((done) =>
        client.makeUnaryRequest(
            '/deriva.Test/Nothing',
            (value) => Buffer.from(value),
            (bytes) => bytes,
            'x',
            (error) => done([error.code]),
        ),
    );
    return all;
}

const protect = (up, more = {}) => ({
    protect: [{ prefix: '/deriva.Test', upstream: `http://${up.address}`, http2: true, ...more }],
});

test('all four kinds, message for message, by both listeners', async (t) => {
    const up = await upstream(t);
    const { gateway, address } = await serving(t, { top: protect(up) });
    const straight = await transcript(clientOf(t, up.address));
    for (const by of [address, `127.0.0.1:${gateway.port}`])
        assert.deepEqual(await transcript(clientOf(t, by)), straight);
    await gateway.idle();
});

test('metadata goes on; what belongs to a hop, or to us, does not', async (t) => {
    const up = await upstream(t);
    const { address } = await serving(t, { top: protect(up) });
    const metadata = new grpc.Metadata();
    metadata.set('x-mine', 'yes');
    metadata.set('authorization', 'Bearer of-the-upstream');
    metadata.set('x-tollgate-priority', 'high');
    metadata.set('x-some-bin', Buffer.from([1, 2, 250]));
    await unary(clientOf(t, address), 'Unary', {}, { metadata });
    const [seen] = up.seen.metadata;
    assert.equal(seen['x-mine'], 'yes');
    assert.equal(seen.authorization, 'Bearer of-the-upstream');
    assert.deepEqual([...seen['x-some-bin']], [1, 2, 250]);
    assert.equal(seen['x-tollgate-priority'], undefined);
});

test('the fifth of four gets RESOURCE_EXHAUSTED, and a hint', async (t) => {
    const up = await upstream(t);
    const { gateway, address } = await serving(t, { top: { ...protect(up), gate: fixed(4) } });
    const client = clientOf(t, address);
    const four = Array.from({ length: 4 }, () => unary(client, 'Hold', {}));
    await until('four are held', () => up.seen.held.length === 4);
    const { log } = await unary(client, 'Unary', {});
    const [, code, details] = log.at(-1);
    assert.equal(code, status.RESOURCE_EXHAUSTED);
    assert.match(details, /^server overloaded/);
    const hint = await new Promise((done) =>
        client.Unary({}, (error) => done(error.metadata.get('grpc-retry-after-ms')[0])),
    );
    assert.ok(Number(hint) >= 1, hint);
    for (const go of up.seen.held) go();
    for (const { answer } of await Promise.all(four)) assert.deepEqual(answer, { held: true });
    assert.deepEqual((await unary(client, 'Unary', {})).answer, { echo: {} });
    await gateway.idle();
});

test('HIGH gets through a server filled with LOW, by headroom', async (t) => {
    const up = await upstream(t);
    const { gateway, address } = await serving(t, {
        top: {
            ...protect(up, {
                priorities: { '/deriva.Test/Hold': 'low', '/deriva.Test/Unary': 'high' },
            }),
            gate: fixed(8, { low_priority_shed_ratio: 0.5 }),
        },
    });
    const client = clientOf(t, address);
    const low = Array.from({ length: 12 }, () => unary(client, 'Hold', {}));
    await until('low has its half', () => up.seen.held.length === 4);
    for (let i = 0; i < 5; i++)
        assert.deepEqual((await unary(client, 'Unary', { i })).answer, { echo: { i } });
    for (const go of up.seen.held) go();
    const answers = (await Promise.all(low)).map(({ answer }) => answer.code ?? 0);
    assert.equal(answers.filter((code) => code === 0).length, 4);
    assert.equal(answers.filter((code) => code === status.RESOURCE_EXHAUSTED).length, 8);
    await gateway.idle();
});

test('a client that cancels, or whose deadline comes, is gone upstream, too', async (t) => {
    const up = await upstream(t);
    const { gateway, address } = await serving(t, { top: protect(up) });
    const client = clientOf(t, address);
    let running;
    const cancelled = unary(client, 'Hold', {}, { onCall: (call) => (running = call) });
    await until('it is held', () => up.seen.held.length === 1);
    running.cancel();
    assert.equal((await cancelled).answer.code, status.CANCELLED);
    await until('the upstream knows', () => up.seen.gone === 1);
    /* On a slow machine it has come before the call is upstream: then another. */
    await until('one is held until its deadline', async () => {
        const late = await unary(client, 'Hold', {}, { call: { deadline: Date.now() + 200 } });
        assert.equal(late.answer.code, status.DEADLINE_EXCEEDED);
        return up.seen.held.length >= 2;
    });
    await until('it knows of that, too', () => up.seen.gone === up.seen.held.length);
    await gateway.idle();
});

test('a deadline is obeyed in the queue', async (t) => {
    const up = await upstream(t);
    const gate = fixed(1);
    gate.queue = { wait: { high: '10s', normal: '10s', low: '10s' } };
    const { gateway, address } = await serving(t, { top: { ...protect(up), gate } });
    const client = clientOf(t, address);
    const first = unary(client, 'Hold', {});
    await until('it is held', () => up.seen.held.length === 1);
    const waits = await unary(client, 'Unary', {}, { call: { deadline: Date.now() + 150 } });
    assert.equal(waits.answer.code, status.DEADLINE_EXCEEDED);
    await until('the queue is empty', async () => (await gateway.metric('concurrency_queued')) === 0);
    assert.equal(up.seen.metadata.length, 0, 'it never came to the upstream');
    for (const go of up.seen.held) go();
    await first;
    await gateway.idle();
});

test('a slow reader stops its sender, and memory stays small', async (t) => {
    const up = await upstream(t);
    const { gateway, address } = await serving(t, { top: protect(up) });
    const client = clientOf(t, address);
    const call = client.Many({ n: 300, pad: 100000 });
    let n = 0;
    call.on('error', () => {});
    const ended = new Promise((done) => call.on('status', (end) => done(end.code)));
    await new Promise((done) => call.once('data', () => (n++, call.pause(), done())));
    const other = await unary(client, 'Unary', { beside: true });
    assert.deepEqual(other.answer, { echo: { beside: true } }, 'others on the connection go on');
    call.on('data', () => n++);
    call.resume();
    assert.equal(await ended, status.OK);
    assert.equal(n, 300);
    await gateway.idle();
});

test('an upstream that is not there is UNAVAILABLE; one that goes is found again', async (t) => {
    const up = await upstream(t);
    const { gateway, address } = await serving(t, { top: protect(up) });
    const client = clientOf(t, address);
    assert.deepEqual((await unary(client, 'Unary', {})).answer, { echo: {} });
    up.server.forceShutdown();
    const { answer } = await unary(client, 'Unary', {});
    assert.equal(answer.code, status.UNAVAILABLE, JSON.stringify(answer));
    await gateway.idle();
});

test('200 calls at once on one connection', async (t) => {
    const up = await upstream(t);
    const { gateway, address } = await serving(t, {
        top: { ...protect(up, { concurrency: fixed(500).concurrency }), gate: fixed(500) },
    });
    const client = clientOf(t, address);
    const all = await Promise.all(
        Array.from({ length: 200 }, (_, i) => unary(client, 'Unary', { i })),
    );
    all.forEach(({ answer }, i) => assert.deepEqual(answer, { echo: { i } }));
    await gateway.idle();
});

test('an upstream that takes two at a time is given no third, and refuses none', async (t) => {
    const up = await upstream(t, { 'grpc.max_concurrent_streams': 2 });
    const { gateway, address } = await serving(t, {
        top: { ...protect(up, { concurrency: fixed(500).concurrency }), gate: fixed(500) },
    });
    const client = clientOf(t, address);
    const all = await Promise.all(
        Array.from({ length: 60 }, (_, i) => unary(client, 'Unary', { i })),
    );
    all.forEach(({ answer }, i) => assert.deepEqual(answer, { echo: { i } }));
    await gateway.idle();
});

/* An upstream that does as it is told, frame by frame: {address, streams}. */
async function bare(t, onStream) {
    const server = http2.createServer();
    const sessions = new Set();
    server.on('session', (session) => {
        sessions.add(session);
        session.on('error', () => 0);
    });
    server.on('stream', (stream, head) => {
        stream.on('error', () => 0);
        onStream(stream, head);
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    t.after(() => {
        for (const session of sessions) session.destroy();
        server.close();
    });
    return { address: `127.0.0.1:${server.address().port}`, sessions };
}

const HEAD = { ':status': 200, 'content-type': 'application/grpc' };

function finish(stream) {
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.respond(HEAD, { waitForTrailers: true });
    stream.end(Buffer.from([0, 0, 0, 0, 2, 0x7b, 0x7d]));
}

test('what the queue took of a deadline, the upstream is not given', async (t) => {
    const streams = [];
    const up = await bare(t, (stream, head) => streams.push({ stream, head }));
    const gate = fixed(1);
    gate.queue = { wait: { high: '60s', normal: '60s', low: '60s' } };
    const { gateway, address } = await serving(t, { top: { ...protect(up), gate } });
    const client = clientOf(t, address);
    const call = () => unary(client, 'Unary', {}, { call: { deadline: Date.now() + 60000 } });
    const first = call();
    await until('it is held', () => streams.length === 1);
    const second = call();
    await until('it waits', async () => (await gateway.metric('concurrency_queued')) === 1);
    await pause(200);
    finish(streams[0].stream);
    await until('it has come', () => streams.length === 2);
    finish(streams[1].stream);
    assert.deepEqual((await first).answer, {});
    assert.deepEqual((await second).answer, {});
    const [, digits] = /^(\d+)m$/.exec(streams[1].head['grpc-timeout']);
    assert.ok(Number(digits) <= 60000 - 200, digits);
    await gateway.idle();
});

test('an RPC that neither end ends is given up behind its deadline', async (t) => {
    const codes = [];
    let begun = 0;
    const up = await bare(t, (stream, head) => {
        begun++;
        stream.on('close', () => codes.push(stream.rstCode));
        if (head['x-begin']) stream.respond(HEAD);
    });
    const { gateway, address } = await serving(t, { top: protect(up) });
    const session = http2.connect(`http://${address}`);
    t.after(() => session.destroy());
    const ask = (more) =>
        new Promise((done) => {
            const stream = session.request({
                ':method': 'POST',
                ':path': '/deriva.Test/Unary',
                'content-type': 'application/grpc',
                te: 'trailers',
                'grpc-timeout': '300m',
                ...more,
            });
            stream.on('response', (head) => head['grpc-status'] && done(head['grpc-status']));
            stream.on('trailers', (tail) => done(tail['grpc-status']));
            stream.on('error', (error) => done(error.message));
            stream.resume();
        });
    const late = String(status.DEADLINE_EXCEEDED);
    assert.deepEqual(await Promise.all([ask({}), ask({ 'x-begin': '1' })]), [late, late]);
    await until('the upstream knows', () => codes.length === begun);
    for (const code of codes) assert.equal(code, http2.constants.NGHTTP2_CANCEL);
    await gateway.idle();
});

test('a connection that breaks in the midst of a reply is UNAVAILABLE, as without us', async (t) => {
    const up = await bare(t, (stream) => {
        stream.respond(HEAD);
        stream.write(Buffer.from([0, 0, 0, 0, 2, 0x7b, 0x7d]));
    });
    const { gateway, address } = await serving(t, { top: protect(up) });
    const call = clientOf(t, address).Many({});
    let n = 0;
    call.on('error', () => 0);
    call.on('data', () => {
        n++;
        for (const session of up.sessions) session.destroy();
    });
    assert.equal(await new Promise((done) => call.on('status', (end) => done(end.code))), 14);
    assert.equal(n, 1);
    await gateway.idle();
});

test('an upstream with an authority of its own, that wants to see who we are', async (t) => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-e2e-tls-'));
    t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
    const [cert, key] = ['cert.pem', 'key.pem'].map((name) => path.join(folder, name));
    const make =
        'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 ' +
        `-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 -keyout ${key} -out ${cert}`;
    await promisify(execFile)('openssl', make.split(' '));
    const pair = { cert_chain: fs.readFileSync(cert), private_key: fs.readFileSync(key) };
    const demanding = grpc.ServerCredentials.createSsl(pair.cert_chain, [pair], true);
    const up = await upstream(t, {}, demanding);
    const by = async (tls) => {
        const route = { ...protect(up, { tls }).protect[0], upstream: `https://${up.address}` };
        const { address } = await serving(t, { top: { protect: [route] } });
        return (await unary(clientOf(t, address), 'Unary', { a: 1 })).answer;
    };
    assert.deepEqual(await by({ ca: cert, cert, key }), { echo: { a: 1 } });
    assert.equal((await by({ ca: cert })).code, status.UNAVAILABLE);
    assert.equal((await by({ cert, key })).code, status.UNAVAILABLE);
});
