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

function connect(t, gateway) {
    const socket = net.connect(gateway.port, '127.0.0.1');
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
