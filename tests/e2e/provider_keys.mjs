/* provider_keys.mjs - limits of a provider's key for each model, in memory and on Redis; and keys that
 * an operator takes out of use. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { chat, keys, PRICE, reason, world } from './kit.mjs';
import { patientFleet, Redis } from './redis_kit.mjs';

/* Calls to two models of one provider, in turn: how many of each are served. */
async function served(gateway, n) {
    const counts = { small: 0, other: 0 };
    for (let i = 0; i < n; i++)
        for (const model of Object.keys(counts)) {
            const reply = await chat(gateway, { model });
            assert.ok(reply.status === 200 || reason(reply) === 'no_key', reply.body);
            counts[model] += reply.status === 200;
        }
    return counts;
}

const two = (more) => ({
    tenant: { budgets: [] },
    small: { retries: 0, ...more.small },
    models: { other: { provider: 'oai', price: PRICE, max_output_tokens: 4096, retries: 0 } },
    oai: { keys: keys(1, more.key) },
});

const STORES = {
    'in memory': async (t, change) => (await world(t, change)).gateway,
    'on Redis': async (t, change) =>
        (await patientFleet(t, 1, (await Redis.start(t)).url, change)).gateways[0],
};

for (const [where, start] of Object.entries(STORES)) {
    test(`D13 rpm of a key holds for each model apart, ${where}`, async (t) => {
        const gateway = await start(t, two({ key: { rpm: 3 } }));
        assert.deepEqual(await served(gateway, 5), { small: 3, other: 3 });
    });

    test(`D13 with per: key, rpm of a key holds for all models together, ${where}`, async (t) => {
        const gateway = await start(t, two({ key: { rpm: 3, per: 'key' } }));
        assert.deepEqual(await served(gateway, 5), { small: 2, other: 1 });
        const left = await gateway.metrics('key="k1"', 'model="other"');
        assert.equal(left.key_rpm_remaining, 0, 'what is shared is what is shown');
    });

    test(`S3 one key has other limits for one model, ${where}`, async (t) => {
        const gateway = await start(
            t,
            two({ key: { rpm: 4 }, small: { key_limits: { k1: { rpm: 2 } } } }),
        );
        assert.deepEqual(await served(gateway, 5), { small: 2, other: 4 });
    });

    test(`S3 limits for one model hold besides those for all, ${where}`, async (t) => {
        const gateway = await start(
            t,
            two({ key: { rpm: 4, per: 'key' }, small: { key_limits: { k1: { rpm: 1 } } } }),
        );
        assert.deepEqual(await served(gateway, 5), { small: 1, other: 3 });
    });
}
