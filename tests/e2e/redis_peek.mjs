/* redis_peek.mjs - Peek, where several gateways share their limits in one Redis. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { json, send, until } from './kit.mjs';
import { admission, ask, callers, fixed, TOKEN } from './grpc_kit.mjs';
import { fleet, PATIENT, Redis } from './redis_kit.mjs';

const COST = { strategy: 'token_bucket', capacity: 100, refill: 0.00001 };

/* Gateways that give out 100 units to whoever asks, each with what asks it: by JSON and by gRPC. */
async function open(t, n, redis, top) {
    const { gateways } = await fleet(t, n, redis.url, {
        tenant: { budgets: [] },
        listen: { grpc: '127.0.0.1:0' },
        top: { callers: callers(), gate: fixed(100, { cost: COST }), ...top },
    });
    return gateways.map((gateway) => {
        const port = /127\.0\.0\.1:(\d+) \(grpc\)/.exec(gateway.process.out)[1];
        const client = admission(t, `127.0.0.1:${port}`);
        const post = (what, body) =>
            send(gateway.url, `/tollgate/v1/${what}`, body, {
                headers: { authorization: `Bearer ${TOKEN}` },
            });
        return { gateway, client, post };
    });
}

for (const [mode, two_tier] of [
    ['strict', { enabled: false }],
    ['two-tier', { enabled: true }],
])
    test(`what one gateway charged is seen by a peek at the other (${mode})`, async (t) => {
        const redis = await Redis.start(t);
        const [a, b] = await open(t, 2, redis, { ...PATIENT, two_tier });
        assert.equal(json(await a.post('admit', { tenant: 'x', cost: 60 })).allowed, true);
        for (let i = 0; i < 3; i++) {
            for (const seen of [
                json(await b.post('peek', { tenant: 'x', cost: 50 })),
                await ask(b.client, 'Peek', { tenant: 'x', cost: 50 }),
            ]) {
                assert.equal(seen.allowed, false);
                assert.equal(seen.reason, 'cost');
                /* Of two tiers, A may hold more than it has given out. */
                if (two_tier.enabled) assert.ok(seen.axes.cost.remaining <= 40);
                else assert.equal(seen.axes.cost.remaining, 40);
            }
            const other = await ask(b.client, 'Peek', { tenant: 'y', cost: 50 });
            assert.equal(other.allowed, true);
            assert.equal(other.axes.cost.remaining, 50, 'and nothing was taken by looking');
        }
        if (!two_tier.enabled) {
            const rest = json(await b.post('peek', { tenant: 'x', cost: 40 }));
            assert.equal(rest.allowed, true);
            assert.equal(rest.axes.cost.remaining, 0);
            assert.equal((await ask(b.client, 'Admit', { tenant: 'x', cost: 40 })).allowed, true);
        }
    });

for (const mode of ['local', 'open', 'closed'])
    test(`a peek at a Redis that hangs is answered in time, by store_failure: ${mode}`, async (t) => {
        const redis = await Redis.start(t);
        const [{ client, post }] = await open(t, 1, redis, { store_failure: { limits: mode } });
        redis.pause();
        /* No answer at all would be one that waits for Redis. */
        const reply = await post('peek', { tenant: 'x', cost: 50 });
        const said = await ask(client, 'Peek', { tenant: 'x', cost: 50 }).catch((error) => error);
        redis.resume();
        if (mode === 'closed') {
            assert.equal(reply.status, 503);
            assert.equal(reply.headers['x-tollgate-reason'], 'store_unavailable');
            assert.equal(said.code, 14);
            return;
        }
        for (const seen of [json(reply), said]) {
            assert.equal(seen.allowed, true);
            assert.equal(seen.axes.cost?.remaining, mode === 'local' ? 50 : undefined);
        }
    });

test('who hangs up while a peek waits leaves nothing behind', async (t) => {
    const redis = await Redis.start(t);
    const [{ gateway, client, post }] = await open(t, 1, redis, PATIENT);
    redis.pause();
    const posted = post('peek', { tenant: 'x', cost: 50 });
    const called = ask(client, 'Peek', { tenant: 'x', cost: 50 });
    await until('one waits at least', async () => (await gateway.metric('open_calls')) > 0);
    posted.request.destroy();
    called.call.cancel();
    for (const { status } of await Promise.allSettled([posted, called]))
        assert.equal(status, 'rejected');
    await gateway.idle();
    redis.resume();
    const seen = await ask(client, 'Peek', { tenant: 'x', cost: 100 });
    assert.equal(seen.allowed, true);
    await gateway.idle();
});
