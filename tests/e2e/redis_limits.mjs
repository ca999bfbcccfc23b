/* redis_limits.mjs - several gateways, one Redis: limits hold for all of them together. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { chat, reason, until } from './kit.mjs';
import { Caller, decided, patientFleet, Redis, sum, window } from './redis_kit.mjs';

for (const [mode, two_tier] of [
    ['strict', { enabled: false }],
    ['two-tier', { enabled: true }],
]) {
    test(`8 gateways, a window of K: K are admitted, with two killed on the way (${mode})`, async (t) => {
        const K = 2000;
        const redis = await Redis.start(t);
        const { gateways } = await patientFleet(t, 8, redis.url, {
            tenant: { budgets: [], rate: window(K) },
            top: { two_tier },
        });
        const callers = gateways.map((gateway) => new Caller(gateway));
        const served = () => callers.reduce((n, caller) => n + (caller.counts.served ?? 0), 0);

        await until('a quarter is served', () => served() > K / 4);
        await gateways[0].stop('SIGKILL');
        await until('half is served', () => served() > K / 2);
        await gateways[1].stop('SIGKILL');
        await until('the others are refused', () =>
            callers.slice(2).every((caller) => (caller.counts.rate ?? 0) > 20),
        );
        const counts = sum(await Promise.all(callers.map((caller) => caller.stop())));
        /* A call that was admitted when its gateway died is counted, and was not served. */
        assert.ok(counts.served <= K, `${counts.served} of ${K}`);
        if (!two_tier.enabled) assert.ok(counts.served >= K - 2, `${counts.served} of ${K}`);
        else assert.ok(counts.served > K / 2, `${counts.served} of ${K}`);
        assert.deepEqual(
            Object.keys(counts).filter((name) => !/served|rate|ECONN|cut|error/.test(name)),
            [],
        );
    });
}

test('two-tier: fewer than one command for 50 decisions at a steady load', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await patientFleet(t, 2, redis.url, {
        tenant: { budgets: [], rate: { strategy: 'gcra', limit: 1000000, period: '60s' } },
        top: { two_tier: { enabled: true } },
    });
    const callers = gateways.flatMap((gateway) => [new Caller(gateway), new Caller(gateway)]);
    const take = async () => ({
        n: await decided(gateways, 'limits', 'blocks'),
        commands: Number((await redis.info('cmdstat_evalsha'))?.match(/calls=(\d+)/)[1] ?? 0),
    });

    await until('it runs', () => callers.every((caller) => caller.n > 300));
    const before = await take();
    const began = performance.now();
    const goal = callers[0].n + 1500;
    await until('it has run on', () => callers[0].n > goal);
    const after = await take();
    for (const caller of callers) await caller.stop();
    const decisions = after.n - before.n;
    const commands = after.commands - before.commands;
    const seconds = (performance.now() - began) / 1000;
    t.diagnostic(`${decisions} decisions, ${commands} scripts, ${seconds.toFixed(1)} s`);
    assert.ok(decisions > 3000);
    /* Blocks are sized by the second: where calls are slow, there are fewer in each. */
    assert.ok(commands < decisions / 50 + 12 * seconds, `${commands} for ${decisions}`);
});

test('what one gateway has admitted, the other refuses', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await patientFleet(t, 2, redis.url, {
        tenant: { budgets: [], rate: window(3), concurrency: 16 },
    });

    assert.equal((await chat(gateways[0])).status, 200);
    assert.equal((await chat(gateways[1])).status, 200);
    const last = await chat(gateways[0]);
    assert.equal(last.status, 200);
    assert.equal(last.headers['x-ratelimit-remaining-requests'], '0');
    const refused = await chat(gateways[1]);
    assert.equal(refused.status, 429);
    assert.equal(reason(refused), 'rate');
    assert.equal(await decided(gateways, 'limits', 'redis'), 4);
});

test('what a call did not use of its cost is given back in Redis', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await patientFleet(t, 2, redis.url, {
        tenant: {
            budgets: [],
            cost: { strategy: 'fixed_window', limit: 1000, window: '30d' },
        },
    });
    for (let i = 0; i < 4; i++)
        await until('the call before has given back', async () => {
            const reply = await chat(gateways[i % 2], { max_tokens: 500 });
            return reply.status === 200;
        });
});
