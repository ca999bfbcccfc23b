/* redis-core.mjs - what a call costs the core of a Redis, strict and in two tiers.
 *
 *     TOLLGATE=build/tollgate [BEFORE=/path/to/another/tollgate] node --test tools/redis-core.mjs
 *
 * One gateway, one tenant with a rate, a cost limit and two budgets, everyone's budget, and two limited keys of
 * one group. It prints scripts a call, by INFO commandstats, and calls a second that fill one core of Redis, by
 * the processor time that it says it took. So it does not matter what else the machine does.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { chat, keys } from '../tests/e2e/kit.mjs';
import { fleet, Redis } from '../tests/e2e/redis_kit.mjs';

const CALLS = 3000;

const used = async (redis) => ({
    cpu: Number(await redis.info('used_cpu_sys')) + Number(await redis.info('used_cpu_user')),
    scripts: Number((await redis.info('cmdstat_evalsha'))?.match(/calls=(\d+)/)?.[1] ?? 0),
});

async function make(gateway, n, at_once) {
    let begun = 0;
    await Promise.all(
        Array.from({ length: at_once }, async () => {
            while (begun++ < n) assert.equal((await chat(gateway)).status, 200);
        }),
    );
    await gateway.idle();
}

for (const tiers of [false, true])
    for (const at_once of [1, 10, 100])
        test(`${tiers ? 'two tiers' : 'strict'}, ${at_once} at once`, async (t) => {
            const redis = await Redis.start(t);
            const { gateways } = await fleet(t, 1, redis.url, {
                tiers,
                program: process.env.BEFORE,
                oai: {
                    groups: { g: { rpm: 1000000, tpm: 1000000000 } },
                    keys: keys(2, { rpm: 500000, tpm: 500000000, group: 'g' }),
                },
                tenant: {
                    rate: { strategy: 'gcra', limit: 1000000, period: '60s' },
                    cost: { strategy: 'token_bucket', capacity: 1000000000, refill: 10000000 },
                    budgets: [
                        { usd: 5000, per: 'day' },
                        { usd: 8000, per: 'month' },
                    ],
                },
                top: { store_timeout: '5s', budgets: [{ usd: 90000, per: 'month' }] },
            });
            await make(gateways[0], 200, at_once);
            const before = await used(redis);
            await make(gateways[0], CALLS, at_once);
            const after = await used(redis);
            const us = ((after.cpu - before.cpu) * 1e6) / CALLS;
            console.log(
                `${tiers ? 'two tiers' : 'strict'}, ${at_once} at once: ` +
                    `${((after.scripts - before.scripts) / CALLS).toFixed(3)} scripts and ${us.toFixed(1)} us of ` +
                    `Redis' core a call, ${(1e6 / us).toFixed(0)} calls a second for one core`,
            );
        });
