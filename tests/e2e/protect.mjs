/* protect.mjs - a server of the owner's behind the gate, seen from both sides.
 *
 * The upstream is a socket, so that it can close when it should not, and answer before it was asked
 * to the end.
 */
import assert from 'node:assert/strict';
import net from 'node:net';
import test from 'node:test';
import { reason, send, until, world } from './kit.mjs';

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine';

/* An upstream that calls `answer(socket, n, nth)` for its n-th request, the nth of its connection,
 * as soon as the head is there. */
async function guarded(t, answer, { gate = { concurrency: {} }, route = {} } = {}) {
    const seen = { n: 0, open: 0, bytes: 0 };
    const server = net.createServer((socket) => {
        let nth = 0;
        seen.open++;
        socket.on('error', () => 0);
        socket.on('close', () => seen.open--);
        socket.on('data', (bytes) => {
            seen.bytes += bytes.length;
            if (!/^[A-Z]+ \/api/.test(bytes.toString('latin1'))) return;
            const said = answer(socket, ++seen.n, ++nth);
            if (said) socket.write(said);
        });
        t.after(() => socket.destroy());
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    t.after(() => server.close());
    const upstream = `http://127.0.0.1:${server.address().port}`;
    const { gateway } = await world(t, {
        top: { workers: 1, gate, protect: [{ prefix: '/api', upstream, ...route }] },
    });
    return { gateway, seen };
}

for (const end of ['end', 'resetAndDestroy']) {
    test(`a kept connection that closes (${end}): GET goes out again, POST does not`, async (t) => {
        const { gateway, seen } = await guarded(t, (socket, n, nth) =>
            nth < 2 ? OK : void socket[end](),
        );
        assert.equal(String((await send(gateway.url, '/api')).body), 'fine');
        assert.equal(String((await send(gateway.url, '/api')).body), 'fine');
        assert.equal(seen.n, 3, 'the second was sent twice');
        const reply = await send(gateway.url, '/api', 'x');
        assert.equal(reply.status, 502);
        assert.equal(reason(reply), 'upstream_error');
        assert.equal(seen.n, 4);
        await gateway.idle();
    });
}

test('a new connection that closes is a failure: nothing goes out again', async (t) => {
    const { gateway, seen } = await guarded(t, (socket) => void socket.end());
    assert.equal((await send(gateway.url, '/api')).status, 502);
    assert.equal(seen.n, 1);
});

test('a lease is renewed for as long as its request takes', async (t) => {
    const { gateway } = await guarded(t, (socket) => void setTimeout(() => socket.write(OK), 2500), {
        gate: { lease_ttl: '2s', concurrency: { law: 'fixed', initial: 1, min: 1, max: 1 } },
    });
    assert.equal((await send(gateway.url, '/api')).status, 200);
    await gateway.idle(); /* which looks that no lease was left to its end */
});

test('a reply before the end of the request reaches the client', async (t) => {
    const { gateway, seen } = await guarded(t, (socket) => {
        socket.end('HTTP/1.1 413 Content Too Large\r\ncontent-length: 2\r\n\r\nno');
    });
    const reply = await send(gateway.url, '/api', Buffer.alloc(4 << 20, 'x'));
    assert.equal(reply.status, 413);
    assert.equal(String(reply.body), 'no');
    assert.equal(seen.n, 1);
    await gateway.idle();
});

test('an upstream that reads slowly holds the client back, and gets it all', async (t) => {
    let slow;
    const { gateway, seen } = await guarded(t, (socket) => {
        slow = socket;
        socket.pause();
    });
    const bytes = 16 << 20;
    const call = send(gateway.url, '/api', Buffer.alloc(bytes, 'x'));
    await until('it has begun', () => slow);
    const read = setInterval(() => slow.resume() && setImmediate(() => slow.pause()), 1);
    await until('all of it is there', () => seen.bytes > bytes);
    clearInterval(read);
    slow.resume();
    slow.write(OK);
    assert.equal((await call).status, 200);
    await gateway.idle();
});

test('nobody there: 502, and the place is free again', async (t) => {
    const gone = net.createServer();
    await new Promise((done) => gone.listen(0, '127.0.0.1', done));
    const upstream = `http://127.0.0.1:${gone.address().port}`;
    await new Promise((done) => gone.close(done));
    const { gateway } = await guarded(t, () => OK, { route: { upstream } });
    for (let i = 0; i < 3; i++) assert.equal((await send(gateway.url, '/api')).status, 502);
    await gateway.idle();
});

test('a target with scheme and host is for the route of its path', async (t) => {
    let line;
    const { gateway } = await guarded(t, () => OK);
    const socket = net.connect(gateway.port, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.on('data', (bytes) => (line ??= String(bytes).split('\r\n')[0]));
    socket.write('GET http://elsewhere/api/x HTTP/1.1\r\nhost: elsewhere\r\n\r\n');
    await until('a reply', () => line);
    assert.equal(line, 'HTTP/1.1 200 OK');
});
