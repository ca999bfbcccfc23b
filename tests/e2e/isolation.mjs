/* isolation.mjs - what one tenant does beside another: bodies, parsing, connections.
 *
 * Tests are named for the attacks that they repeat. The victim is tenant `two`; it is served.
 */
import assert from 'node:assert/strict';
import net from 'node:net';
import test from 'node:test';
import { chat, KEY, OTHER_KEY, sha256, tenant, until, world } from './kit.mjs';

const TENANTS = [tenant(), tenant({ name: 'two', keys: [{ name: 'k', sha256: sha256(OTHER_KEY) }] })];
const VICTIM = { headers: { authorization: `Bearer ${OTHER_KEY}` } };

function connect(t, gateway, localAddress = '127.0.0.1') {
    const socket = net.connect({ port: gateway.port, host: '127.0.0.1', localAddress });
    const client = { socket, got: '', over: false };
    socket.on('data', (bytes) => (client.got += bytes.toString('latin1')));
    socket.on('close', () => (client.over = true));
    socket.on('error', () => 0);
    t.after(() => socket.destroy());
    return client;
}

const head = (length) =>
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${KEY}\r\n` +
    `content-length: ${length}\r\n\r\n`;

test('attack 9: bodies that take long to read do not keep others waiting', async (t) => {
    const { gateway } = await world(t, { tenants: TENANTS, top: { workers: 1 } });
    const start = '{"model":"small","messages":[';
    const bodies = [
        `${start}${'[[[[[[[[]]]]]]]],'.repeat(1 << 19)}1]}`,
        `${start}${'1,'.repeat(1 << 22)}1]}`,
        `${start}{"role":"user","content":"${'\\u0041'.repeat(1 << 20)}"}],"max_tokens":1}`,
    ];
    const clients = bodies.map((body) => {
        const client = connect(t, gateway);
        client.socket.write(head(body.length) + body);
        return client;
    });
    for (let i = 0; i < 30; i++) assert.equal((await chat(gateway, {}, VICTIM)).status, 200);
    await until('all are answered', () => clients.every((one) => /total_tokens|more than/.test(one.got)));
    for (const client of clients.slice(0, 2)) {
        assert.match(client.got, /^HTTP\/1\.1 400 /);
        assert.match(client.got, /the body has more than 1048576 values/);
    }
    assert.match(clients[2].got, /^HTTP\/1\.1 200 /); /* large, and as it should be */
    await gateway.idle();
});

test('a client that leaves while its body is read leaves nothing behind', async (t) => {
    const { gateway } = await world(t, { tenants: TENANTS });
    const body = `{"model":"small","messages":[${'[],'.repeat(1 << 20)}1]}`;
    for (let i = 0; i < 20; i++) {
        const client = connect(t, gateway);
        await new Promise((done) => client.socket.write(head(body.length) + body, done));
        client.socket.destroy();
    }
    assert.equal((await chat(gateway, {}, VICTIM)).status, 200);
    await gateway.idle();
});

test('attack 10: 34 connections of one tenant do not take the memory for bodies', async (t) => {
    const total = 32 << 20;
    const { gateway } = await world(t, {
        tenants: TENANTS,
        top: { limits: { body: '1MiB', buffered_total: '32MiB' } },
    });
    const bytes = Buffer.alloc(31 << 15, ' ');
    const clients = Array.from({ length: 34 }, () => connect(t, gateway));
    for (const client of clients) client.socket.write(head(1 << 20));
    for (const client of clients) client.socket.write(bytes);
    await until('one is refused', () => clients.some((client) => client.got.includes('503')));
    await until('memory is held', async () => {
        const held = await gateway.metric('buffered_bytes');
        assert.ok(held <= total / 2 + (2 << 20), `${held} bytes`);
        return held >= total / 2 - (2 << 20);
    });
    for (let i = 0; i < 30; i++) assert.equal((await chat(gateway, {}, VICTIM)).status, 200);
    const refused = clients.find((client) => client.got.includes('503'));
    assert.match(refused.got, /x-tollgate-reason: memory_pressure/);
    assert.match(refused.got, /the bodies of tenant one take all the memory that one may/);
});

const wrong = 'GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer nobody\r\n\r\n';

test('attack 12: connections that nobody uses do not keep others out', async (t) => {
    const { gateway } = await world(t, {
        tenants: TENANTS,
        top: { limits: { connections: 200, connections_per_address: 200 } },
    });
    const kept = connect(t, gateway, '127.0.0.2');
    const models = `GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${OTHER_KEY}\r\n\r\n`;
    kept.socket.write(models);
    await until('the victim is known', () => kept.got.includes('"object":"list"'));
    const silent = Array.from({ length: 300 }, (_, i) => {
        const client = connect(t, gateway);
        if (i % 2) client.socket.write(wrong);
        return client;
    });
    await until('they are all in', async () => (await gateway.metric('connections')) >= 200);
    for (let i = 0; i < 30; i++) assert.equal((await chat(gateway, {}, VICTIM)).status, 200);
    await until('some gave way', () => silent.filter((one) => one.over).length >= 100);
    assert.ok((await gateway.metric('connections')) <= 200 + 200 / 32 + 2);
    assert.ok((await gateway.metric('connections_gave_way_total')) >= 100);
    kept.got = '';
    kept.socket.write(models); /* who is known keeps its place */
    await until('it is answered', () => kept.got.includes('"object":"list"'));
});

test('attack 12: one address has a part of the connections', async (t) => {
    const { gateway } = await world(t, {
        tenants: TENANTS,
        top: { limits: { connections: 200 } },
        script: { default: { fault: 'hang' } },
    });
    const body = JSON.stringify({ model: 'small', messages: [], max_tokens: 1 });
    const busy = Array.from({ length: 80 }, () => {
        const client = connect(t, gateway, '127.0.0.3');
        client.socket.write(head(body.length) + body);
        return client;
    });
    await until('a quarter is in', async () => (await gateway.metric('open_calls')) === 50);
    await until('the others are told', () => busy.filter((one) => one.over).length === 30);
    for (const one of busy.filter((each) => each.over)) {
        assert.match(one.got, /^HTTP\/1\.1 503 /);
        assert.match(one.got, /retry-after: 1\r\n/);
        assert.match(one.got, /too many connections from this address/);
    }
    const victim = connect(t, gateway, '127.0.0.2');
    victim.socket.write(wrong);
    await until('the victim is answered', () => victim.got.startsWith('HTTP/1.1 401'));
});
