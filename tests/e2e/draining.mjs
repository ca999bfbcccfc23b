/* draining.mjs - SIGTERM: what runs is finished, nothing new is taken, the process ends well. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import test from 'node:test';
import { chat, configure, events, json, message, price, send, until, world } from './kit.mjs';

const refusesConnections = (port) =>
    new Promise((done) => {
        const socket = net.connect(port, '127.0.0.1');
        socket.on('connect', () => done(socket.destroy() && false));
        socket.on('error', () => done(true));
    });

test('SIGTERM under load: calls and streams finish, connections are refused, exit 0', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { default: { latency: '300ms', tokens: 40, pace: 80 } },
    });
    const running = Array.from({ length: 40 }, (_, i) => {
        const one = i % 4 < 2 ? chat : message;
        return one(gateway, { stream: i % 2 === 0, max_tokens: 40 });
    });
    await until('all are at the mock', async () => (await mock.seen()).begun === 40);
    const ended = gateway.stop('SIGTERM');
    await until('nobody gets in any more', () => refusesConnections(gateway.port));

    const replies = await Promise.all(running);
    for (const [i, reply] of replies.entries()) {
        assert.equal(reply.status, 200);
        assert.equal(reply.cut, false);
        if (i % 2 === 0)
            assert.ok(events(reply).length >= 40, `call ${i}: ${events(reply).length}`);
        else assert.ok(price(json(reply).usage) > 0);
    }
    await ended;
    assert.equal(gateway.process.code, 0, gateway.output);
    const { total } = await gateway.spend();
    assert.equal(total.calls, 40);
    assert.equal(total.output, 40 * 40);
});

test('SIGTERM with nobody there ends at once', async (t) => {
    const { gateway } = await world(t);
    await gateway.stop('SIGTERM');
    assert.equal(gateway.process.code, 0, gateway.output);
});

/* Neither provider would ever end: only the bound does. */
test('a drain has an end: what is left is cut off, settled and told of, exit 0', async (t) => {
    const { gateway, mock } = await world(t, {
        script: {
            rules: [{ when: { stream: true }, do: { fault: 'hang', at: 'event 8' } }],
            default: { fault: 'hang' },
        },
        top: { drain: '400ms' },
    });
    const running = [false, false, true, true, true].map((stream) =>
        chat(gateway, { stream }).catch((error) => ({ error })),
    );
    await until('all are at the mock', async () => (await mock.seen()).begun === 5);
    await gateway.stop('SIGTERM');

    assert.equal(gateway.process.code, 0, gateway.output);
    assert.match(gateway.output, /the time to drain is up: cutting off, calls that are open: 5/);
    await Promise.all(running);
    const { total } = await gateway.spend();
    assert.equal(total.calls, 5);
    assert.ok(total.micro_usd > 0);
    assert.ok((await mock.requests(5)).every((seen) => seen.ended === 'aborted'));
});

test('how long it drains is what the last reload said', async (t) => {
    const { gateway, mock, folder } = await world(t, { script: { default: { fault: 'hang' } } });
    const sooner = configure(mock, folder, { top: { drain: '10ms' } });
    fs.writeFileSync(gateway.file, JSON.stringify(sooner));
    gateway.process.child.kill('SIGHUP');
    await until('it is read', async () => (await gateway.metric('config_generation')) === 2);
    const running = chat(gateway).catch((error) => ({ error }));
    await until('it is at the mock', async () => (await mock.seen()).begun === 1);
    await gateway.stop('SIGTERM');
    assert.equal(gateway.process.code, 0, gateway.output);
    await running;
    assert.equal((await gateway.spend()).total.calls, 1);
});

test('a second SIGTERM cuts off what runs, settles it, and says so by exit 1', async (t) => {
    const { gateway, mock } = await world(t, { script: { default: { fault: 'hang' } } });
    const running = Array.from({ length: 5 }, () => chat(gateway).catch((error) => ({ error })));
    await until('all are at the mock', async () => (await mock.seen()).begun === 5);
    const ended = gateway.stop('SIGTERM');
    await until('it drains', () => refusesConnections(gateway.port));
    assert.equal(gateway.process.over, undefined, 'it waits for what runs');
    gateway.process.child.kill('SIGTERM');
    await ended;

    assert.equal(gateway.process.code, 1, gateway.output);
    await Promise.all(running);
    const { total } = await gateway.spend();
    assert.equal(total.calls, 5);
    assert.equal(total.output, 5 * 16); /* what they may have written by then */
    assert.ok(total.micro_usd > 0);
    assert.ok((await mock.requests(5)).every((seen) => seen.ended === 'aborted'));
});

test('a second SIGTERM also ends what is read on for a client that has left', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { default: { fault: 'hang', at: 'event 8' } },
        oai: { on_disconnect: 'drain' },
    });
    const call = chat(gateway, { stream: true }, { onData: (body, request) => request.destroy() });
    await call.catch(() => 0);
    await until('it is drained', async () => (await gateway.metrics()).hangups_total === 1);
    assert.equal((await gateway.metrics()).open_calls, 1);
    const ended = gateway.stop('SIGTERM');
    await until('nobody gets in any more', () => refusesConnections(gateway.port));
    assert.equal(gateway.process.over, undefined, 'it is waited for');
    gateway.process.child.kill('SIGTERM');
    await ended;

    assert.equal(gateway.process.code, 1, gateway.output);
    const { total } = await gateway.spend();
    assert.equal(total.calls, 1);
    assert.ok(total.output > 0 && total.output <= 32, `${total.output}`);
    assert.equal((await mock.requests(1))[0].ended, 'aborted');
});

/* With one call, all workers but one have nothing to do, and the one with the probes may be among
 * them: chance decides whose a connection is. */
for (let round = 1; round <= 6; round++)
    test(`probes answer as long as a call drains (${round})`, async (t) => {
        const { gateway, mock } = await world(t, {
            script: { default: { fault: 'hang' } },
            top: { workers: 4 },
        });
        const running = chat(gateway).catch(() => 0);
        await until('it is at the mock', async () => (await mock.seen()).begun === 1);
        assert.equal((await send(gateway.probe, '/readyz')).status, 200);
        const ended = gateway.stop('SIGTERM');
        await until('nobody gets in any more', () => refusesConnections(gateway.port));
        assert.equal((await send(gateway.probe, '/readyz')).status, 503);
        assert.equal((await send(gateway.probe, '/healthz')).status, 200);
        assert.match(
            String((await send(gateway.probe, '/metrics')).body),
            /tollgate_open_calls 1/,
        );
        gateway.process.child.kill('SIGTERM');
        await ended;
        await running;
    });
