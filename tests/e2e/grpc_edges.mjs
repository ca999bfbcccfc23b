/* grpc_edges.mjs - gRPC where one side does not stay: answers nobody waits for, messages that do not
 * end, upstreams that hand a call back. */
import assert from 'node:assert/strict';
import http2 from 'node:http2';
import test from 'node:test';
import { TOKEN, admission, ask, collect, fixed, grpc, metadata, serving } from './grpc_kit.mjs';
import { fails, until } from './kit.mjs';

const { NGHTTP2_REFUSED_STREAM } = http2.constants;
const RPC = { ':method': 'POST', 'content-type': 'application/grpc', te: 'trailers' };
const EMPTY = Buffer.alloc(5); /* a message of no bytes */

function connect(t, port, settings) {
    const session = http2.connect(`http://127.0.0.1:${port}`, { settings });
    session.on('error', () => 0);
    t.after(() => session.destroy());
    return session;
}

test('an answer that its client does not stay for leaves no lease', async (t) => {
    const { gateway, port } = await serving(t);
    const session = connect(t, port, { initialWindowSize: 0 }); /* nothing gets through */
    const request = session.request({
        ...RPC,
        ':path': '/tollgate.v1.Admission/Admit',
        authorization: `Bearer ${TOKEN}`,
    });
    request.on('error', () => 0);
    request.end(EMPTY);
    await until(
        'it is admitted',
        async () => (await gateway.metric('concurrency_in_flight', 'gate="all"')) === 1,
    );
    request.close(http2.constants.NGHTTP2_CANCEL);
    await gateway.idle();
});

test('a client may give up all that waits at once, and its connection goes on', async (t) => {
    const { gateway, address } = await serving(t, {
        top: { gate: fixed(1, { queue: { size: 5000, wait: { normal: '1h' } } }) },
    });
    const client = admission(t, address);
    const { lease_id } = await ask(client, 'Admit');
    const stream = collect(client.AdmitStream(metadata(TOKEN)));
    const waiting = Array.from({ length: 700 }, () => ask(client, 'Admit'));
    const ends = waiting.map(fails);
    const queued = (n) =>
        until(`${n} wait`, async () => (await gateway.metric('concurrency_queued')) === n);
    await queued(700);
    for (const one of waiting) one.call.cancel();
    for (const error of await Promise.all(ends)) assert.equal(error.code, grpc.status.CANCELLED);
    await queued(0);
    assert.equal((await ask(client, 'Release', { lease_id })).found, true);
    stream.call.end();
    assert.equal((await stream.ended).code, grpc.status.OK, 'another stream on it has not noticed');
    await gateway.idle();
});

test('messages that do not end take a bounded amount of memory', async (t) => {
    const { port, address } = await serving(t, { top: { workers: 1 } });
    const begun = Buffer.concat([Buffer.from([0, 0, 1, 0, 0]), Buffer.alloc(60000)]);
    let refused = 0;
    for (let c = 0; c < 2; c++) {
        const session = connect(t, port);
        for (let i = 0; i < 700; i++) {
            const request = session.request({ ...RPC, ':path': '/grpc.health.v1.Health/Check' });
            request.on('error', () => 0);
            request.on('response', (head) => {
                assert.equal(head['grpc-status'], String(grpc.status.RESOURCE_EXHAUSTED));
                refused++;
            });
            const sent = new Promise((done) => request.write(begun, done));
            if (i % 50 === 49) await sent; /* more than this a session of Node does not keep */
        }
    }
    /* 64 MiB on a worker are 1024 of these. */
    await until('what is too much is refused', () => refused >= 1400 - 1024);
    const other = admission(t, address);
    assert.equal((await ask(other, 'Admit')).allowed, true, 'others are not harmed');
    assert.ok(refused < 1400);
});

test('a message for people is UTF-8, wherever a name in it was cut', async (t) => {
    const { address } = await serving(t, { top: { gate: fixed(100, { peers: { limit: 1 } }) } });
    const client = admission(t, address);
    for (const peer of ['é'.repeat(100), `x${'é'.repeat(100)}`, `x${'€'.repeat(80)}`]) {
        await ask(client, 'Admit', { peer });
        const { reason, message } = await ask(client, 'Admit', { peer });
        assert.equal(reason, 'peer_limit');
        assert.match(message, /^peer x?[é€]+\?* exceeded per-peer limit: \d+ calls? at once$/);
        const error = await fails(
            ask(client, 'Admit', { peer }, { more: { 'x-tollgate-enforce': '1' } }),
        );
        assert.equal(error.details, message);
    }
});

/* Refuses the first call of each path unseen, and answers the others when all of them has come. */
async function refusing(t) {
    const seen = {};
    const server = http2.createServer();
    server.on('stream', (stream, head) => {
        const path = head[':path'];
        seen[path] = (seen[path] ?? 0) + 1;
        stream.on('error', () => 0);
        const code = /Reset(\d+)$/.exec(path);
        if (code) {
            stream.resume();
            stream.on('end', () => stream.close(Number(code[1])));
            return;
        }
        if (seen[path] === 1) {
            stream.close(NGHTTP2_REFUSED_STREAM);
            return;
        }
        stream.resume();
        stream.on('end', () => {
            stream.respond(
                { ':status': 200, 'content-type': 'application/grpc' },
                { waitForTrailers: true },
            );
            stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
            stream.end(EMPTY);
        });
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    t.after(() => server.close());
    return { seen, address: `127.0.0.1:${server.address().port}` };
}

test('a call that its upstream did not look at is made again', async (t) => {
    const up = await refusing(t);
    const { gateway, address } = await serving(t, {
        top: { protect: [{ prefix: '/a.B', upstream: `http://${up.address}`, http2: true }] },
    });
    const bytes = (value) => value;
    const client = new grpc.Client(address, grpc.credentials.createInsecure());
    t.after(() => client.close());
    /* By the gateway, for it has nothing of a body to be missed: only its end. */
    await new Promise((done, fail) => {
        const call = client.makeClientStreamRequest('/a.B/None', bytes, bytes, (error) =>
            error ? fail(error) : done(),
        );
        call.end();
    });
    assert.equal(up.seen['/a.B/None'], 2);
    /* By the client, which is told in the upstream's own words. */
    await new Promise((done, fail) =>
        client.makeUnaryRequest('/a.B/One', bytes, bytes, Buffer.from('message'), (error) =>
            error ? fail(error) : done(),
        ),
    );
    assert.equal(up.seen['/a.B/One'], 2);
    await gateway.idle();
});

test('a call that its upstream resets before an answer ends as without us', async (t) => {
    const up = await refusing(t);
    const { gateway, address } = await serving(t, {
        top: { protect: [{ prefix: '/a.B', upstream: `http://${up.address}`, http2: true }] },
    });
    const bytes = (value) => value;
    const client = new grpc.Client(address, grpc.credentials.createInsecure());
    const straight = new grpc.Client(up.address, grpc.credentials.createInsecure());
    t.after(() => [client, straight].forEach((each) => each.close()));
    const code = (from, path) =>
        new Promise((done) =>
            from.makeUnaryRequest(path, bytes, bytes, Buffer.from('m'), (error) => done(error?.code)),
        );
    const { INTERNAL, CANCELLED, RESOURCE_EXHAUSTED } = grpc.status;
    const codes = { 1: INTERNAL, 2: INTERNAL, 8: CANCELLED, 11: RESOURCE_EXHAUSTED };
    for (const [reset, want] of Object.entries(codes)) {
        const path = `/a.B/Reset${reset}`;
        assert.equal(await code(straight, path), want);
        const seen = up.seen[path]; /* how often clients try is theirs to say */
        assert.equal(await code(client, path), want);
        assert.equal(up.seen[path], 2 * seen, path);
    }
    await gateway.idle();
});
