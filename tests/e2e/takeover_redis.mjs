/* takeover_redis.mjs - one process takes over from another where gateways share a Redis: sums there are
 * those of the ledger, and no limit is doubled. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { calls, chat, EXACT, EXACT_COST, reason, until } from './kit.mjs';
import { follows, patientFleet, Redis, window } from './redis_kit.mjs';

async function takeOver(t, gateway) {
    const before = gateway.process;
    t.after(() => before.over || (before.child.kill('SIGKILL'), before.ended));
    await follows(gateway); /* whoever takes over while it reads the store's changes is told to try again */
    gateway.options = ['--takeover'];
    await gateway.begin();
    return before;
}

/* The windows of budgets in Redis: what is settled there, and what is outstanding. */
async function windows(redis) {
    const found = {};
    for (const key of (await redis.ask('KEYS', '*')).split('\n')) {
        if ((await redis.ask('TYPE', key)) !== 'hash') continue;
        const words = (await redis.ask('HGETALL', key)).split('\n');
        const fields = Object.fromEntries(words.flatMap((word, i) => (i % 2 ? [] : [[word, words[i + 1]]])));
        if (fields.s !== undefined) found[key] = { settled: Number(fields.s), held: Number(fields.o ?? 0), fields };
    }
    return found;
}

const usd = (n) => [{ usd: (n * EXACT_COST) / 1e6, per: 'total' }];

for (const [whose, change] of [
    ['a tenant', { tenant: { budgets: usd(40) } }],
    ['everyone', { tenant: { budgets: [] }, top: { budgets: usd(40) } }],
])
    test(`the sum of ${whose} in Redis is that of the ledger over a takeover, and holds for all gateways`, async (t) => {
        const redis = await Redis.start(t);
        const { gateways, mock } = await patientFleet(t, 2, redis.url, {
            script: { rules: [{ when: { stream: true }, do: { tokens: 16, pace: 20 } }], default: { tokens: 16 } },
            small: EXACT,
            ...change,
        });
        const [gateway, other] = gateways;
        const rounds = 3;
        const old = [];
        let n = 0;
        for (let i = 0; i < rounds; i++) {
            const streams = calls(3, () => chat(gateway, { stream: true }));
            n += 3;
            await until('they are at the mock', async () => (await mock.seen()).begun === n);
            old.push(await takeOver(t, gateway));
            for (let k = 0; k < 2; k++, n++) assert.equal((await chat(gateway)).status, 200);
            for (const reply of await streams) assert.equal(reply.status, 200);
            assert.equal((await chat(gateway)).status, 200);
            n++;
        }
        await Promise.all(old.map((process) => process.ended));
        for (const process of old) assert.equal(process.code, 0, process.out);
        await gateway.idle();
        assert.equal((await gateway.spend()).total.micro_usd, n * EXACT_COST);
        await until('Redis has the sum of the ledger', async () => {
            const all = Object.values(await windows(redis));
            assert.ok(
                all.every((window) => window.settled <= n * EXACT_COST),
                JSON.stringify(all),
            );
            return all.length > 0 && all.every((window) => window.settled === n * EXACT_COST && window.held === 0);
        });
        let served = 0;
        for (let i = 0; i < 60; i++) served += (await chat(gateways[i % 2])).status === 200 ? 1 : 0;
        assert.ok(served <= 40 - n, `${served} of ${40 - n}`);
        assert.ok(served >= 40 - n - 4, `${served} of ${40 - n}`);
        await other.idle();
    });

/* What the two processes say at each step. */
const STEPS = [
    ['old', /has read the ledger/],
    ['old', /is ready to serve/],
    ['new', /this process serves in the place of/],
    ['old', /serves from now on/],
];

for (const victim of ['old', 'new'])
    test(`the ${victim} process is killed at each step: Redis comes to the sum of the ledger, and lets nobody spend more`, async (t) => {
        const redis = await Redis.start(t);
        const { gateways, mock } = await patientFleet(t, 2, redis.url, {
            script: { rules: [{ when: { stream: true }, do: { tokens: 16, pace: 40 } }], default: { tokens: 16 } },
            small: EXACT,
            tenant: { budgets: usd(60) },
        });
        const [gateway, other] = gateways;
        let cut = 0;
        const call = async (to, stream) => {
            const reply = await chat(to, { stream }).catch(() => undefined);
            if (reply?.status !== 200 || reply.cut) cut++;
        };
        for (const [speaker, words] of STEPS) {
            const old = gateway.process;
            const calling = [call(gateway, true), call(gateway, false), call(other, false)];
            gateway.options = ['--takeover'];
            const begun = gateway.begin().then(
                () => true,
                () => false,
            );
            const young = gateway.process;
            t.after(() => Promise.all([old, young].map((one) => one.over || (one.child.kill('SIGKILL'), one.ended))));
            await (speaker === 'old' ? old : young).said(words).catch(() => {});
            const dead = victim === 'old' ? old : young;
            dead.child.kill('SIGKILL');
            await dead.ended;
            const serves = await begun;
            await Promise.all(calling);
            const living = victim === 'old' ? young : old;
            if (living.over || (victim === 'new' && living.out.includes('serves from now on'))) {
                if (!living.over) await living.ended;
                await gateway.begin(); /* nobody is there: the next one finds all in the ledger */
            } else if (!serves) {
                gateway.process = living;
            }
            await call(gateway, false);
        }
        await Promise.all([gateway.idle(), other.idle()]);
        let sums;
        await until('Redis has the sum of both ledgers, and nothing is outstanding', async () => {
            const spent = await Promise.all(gateways.map((one) => one.spend()));
            const known = spent.reduce((sum, { total }) => sum + total.micro_usd + (total.uncertain_micro_usd ?? 0), 0);
            sums = { known, windows: Object.values(await windows(redis)) };
            return sums.windows.length > 0 && sums.windows.every(({ settled, held }) => settled + held === known);
        }).catch((error) => assert.fail(`${error.message}: ${JSON.stringify(sums)}`));
        const left = 60 - sums.known / EXACT_COST;
        let served = 0;
        for (let i = 0; i < 70; i++) served += (await chat(gateways[i % 2])).status === 200 ? 1 : 0;
        assert.ok(served <= left, `${served} of ${left}`);
        assert.ok(served >= left - 4, `${served} of ${left}`);
        assert.ok((await mock.seen()).begun <= 60 + cut);
    });

test('a rate in Redis, strict and in two tiers, is not doubled by a takeover', async (t) => {
    const redis = await Redis.start(t);
    for (const [what, top] of [
        ['strict', {}],
        ['blocks', { two_tier: { enabled: true } }],
    ])
        await t.test(what, async (t) => {
            const { gateways } = await patientFleet(t, 1, redis.url, {
                tenant: { rate: window(20) },
                top: { store_prefix: what, ...top },
            });
            let served = 0;
            for (let i = 0; i < 3; i++) {
                const replies = await calls(8, () => chat(gateways[0]));
                served += replies.filter((reply) => reply.status === 200).length;
                for (const reply of replies)
                    assert.ok(reply.status === 200 || reason(reply) === 'rate', String(reply.body));
                await takeOver(t, gateways[0]);
            }
            assert.ok(served <= 20, `${served}`);
            if (what === 'strict') assert.equal(served, 20);
        });
});
