/* redis_shared.mjs - several gateways, one Redis: money and keys of all of them together. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import {
    ADMIN_TOKEN,
    calls,
    chat,
    EXACT,
    EXACT_COST,
    keys,
    KEY,
    OTHER_KEY,
    reason,
    sha256,
    until,
} from './kit.mjs';
import { Caller, patientFleet, Redis, sum } from './redis_kit.mjs';

const usd = (n) => [{ usd: (n * EXACT_COST) / 1e6, per: 'total' }];

test('200 calls on 4 gateways, a budget for 50: 50 are served, to the micro-dollar', async (t) => {
    const redis = await Redis.start(t);
    const { gateways, mock } = await patientFleet(t, 4, redis.url, {
        script: { default: { latency: '20ms' } },
        small: EXACT,
        tenant: { budgets: usd(50) },
    });
    const replies = await calls(200, (i) => chat(gateways[i % 4]));
    const refused = replies.filter((reply) => reply.status !== 200);

    assert.equal(replies.length - refused.length, 50);
    for (const reply of refused)
        assert.ok(
            (reply.status === 402 && reason(reply) === 'budget') ||
                (reply.status === 429 && reason(reply) === 'budget_contended'),
            `${reply.status} ${reply.body}`,
        );
    assert.equal((await mock.requests(50)).length, 50);
    let spent = 0;
    for (const gateway of gateways) {
        await gateway.idle();
        spent += (await gateway.spend()).total?.micro_usd ?? 0;
    }
    assert.equal(spent, 50 * EXACT_COST, 'the ledgers of all of them together');
    await until('nothing is reserved any more', async () => {
        const reply = await chat(gateways[0]);
        assert.notEqual(reply.status, 200);
        return reply.status === 402;
    });
});

test('the budgets of a tenant, its parent and everyone hold for all gateways together', async (t) => {
    const key = (text) => [{ name: 'main', sha256: sha256(text) }];
    const redis = await Redis.start(t);
    for (const [what, everyone, parent, least] of [
        ['parent', 100, 24, 24],
        ['everyone', 24, 100, 20], /* leased in blocks: what one holds, the other cannot use at once */
    ])
        await t.test(`bound by ${what}`, async (t) => {
            const { gateways } = await patientFleet(t, 2, redis.url, {
                small: EXACT,
                top: { budgets: usd(everyone), store_prefix: what },
                tenants: [
                    { name: 'house', budgets: usd(parent) },
                    { name: 'one', parent: 'house', keys: key(KEY), budgets: usd(40) },
                    { name: 'two', parent: 'house', keys: key(OTHER_KEY), budgets: usd(40) },
                ],
            });
            let served = 0;
            for (let i = 0; i < 60; i++) {
                const reply = await chat(
                    gateways[i % 2],
                    {},
                    { headers: { authorization: `Bearer ${i % 3 ? KEY : OTHER_KEY}` } },
                );
                served += reply.status === 200 ? 1 : 0;
            }
            assert.ok(served <= 24, `${served}`);
            assert.ok(served >= least, `${served}`);
            for (const gateway of gateways) await gateway.idle();
        });
});

test('what a gateway held that was killed is contended, not spent', async (t) => {
    const redis = await Redis.start(t);
    const { gateways, mock } = await patientFleet(t, 2, redis.url, {
        script: { default: { latency: '60s' } },
        small: EXACT,
        tenant: { budgets: usd(10) },
    });
    const lost = calls(10, () => chat(gateways[0])).catch(() => {});
    await until('ten are at the provider', async () => (await mock.seen()).begun === 10);
    const contended = await chat(gateways[1]);
    assert.equal(contended.status, 429);
    assert.equal(reason(contended), 'budget_contended');
    await gateways[0].stop('SIGKILL');
    await lost;
    /* Until its reservations end by their time they are in the way, and no more than that. */
    const still = await chat(gateways[1]);
    assert.equal(reason(still), 'budget_contended');
});

/* A time-out of the provider holds all of a budget as uncertain; a credit at one gateway frees it for
 * all of them, and a restart brings nothing of it back. */
for (const [whose, budgets] of [
    ['a tenant', { tenant: { budgets: usd(1) } }],
    ['a user', { tenant: { users: { from: 'header:x-user', max: 9, each: { budgets: usd(1) } } } }],
    ['everyone', { top: { budgets: usd(1) } }],
])
    test(`a credit of an operator lowers the window of ${whose} for all gateways`, async (t) => {
        const redis = await Redis.start(t);
        const { gateways } = await patientFleet(t, 2, redis.url, {
            script: { rules: [{ when: { nth: 1 }, do: { status: 504 } }] },
            small: { ...EXACT, retries: 0 },
            ...budgets,
            listen: { admin: '127.0.0.1:0' },
            top: { admin_auth: { token: ADMIN_TOKEN }, ...budgets.top },
        });
        const ask = (gateway) => chat(gateway, {}, { headers: { 'x-user': 'ann' } });
        assert.equal((await ask(gateways[0])).status, 504);
        await until('it holds all of it', async () => {
            const reply = await ask(gateways[1]);
            assert.notEqual(reply.status, 200);
            return reason(reply) === 'budget';
        });
        const [, port] = await gateways[0].process.said(/127\.0\.0\.1:(\d+) \(admin\)/);
        const made = await fetch(`http://127.0.0.1:${port}/api/v1/credits`, {
            method: 'POST',
            headers: {
                authorization: `Bearer ${ADMIN_TOKEN}`,
                'content-type': 'application/json',
            },
            body: JSON.stringify({
                tenant: 'one',
                micro_usd: EXACT_COST,
                reason: 'not on the invoice',
                per: 'total',
            }),
        });
        assert.equal(made.status, 201, await made.text());
        await until('it is free again', async () => (await ask(gateways[1])).status === 200);
        await until('and spent once', async () => reason(await ask(gateways[1])) === 'budget');
        await gateways[0].stop();
        await gateways[0].begin();
        await until('it is told so once more', async () => {
            const reply = await ask(gateways[0]);
            assert.notEqual(reply.status, 200);
            return reason(reply) === 'budget';
        });
    });

test('D12 a call sends Redis as many scripts as docs/distributed.md says', async (t) => {
    const rows = fs
        .readFileSync('docs/distributed.md', 'utf8')
        .match(/\| a call has \|.*\n.*\n((?:\|.*\n)+)/)[1]
        .trim()
        .split('\n')
        .map((row) => row.split('|').map((cell) => parseInt(cell.replace('about', ''), 10)));
    const limits = {
        rate: { strategy: 'gcra', limit: 1000000, period: '60s' },
        cost: { strategy: 'token_bucket', capacity: 1000000, refill: 10000 },
    };
    const budgets = [{ usd: 100, per: 'day' }];
    const limited = { keys: keys(2, { rpm: 10000, tpm: 1000000 }) };
    const cases = [
        { tenant: { ...limits, budgets: [] } },
        { tenant: { budgets } },
        { oai: limited, tenant: { budgets: [] } },
        { oai: limited, tenant: { ...limits, budgets } },
    ];
    rows.length = cases.length; /* objects have tests of their own */
    /* "1 with a cost limit, else 0" */
    cases.push({ tenant: { rate: limits.rate, budgets: [] } });
    rows.push([NaN, NaN, rows[0][2], 0, rows[0][4]]);
    for (const enabled of [false, true])
        for (const [i, change] of cases.entries()) {
            const redis = await Redis.start(t);
            const fleet = await patientFleet(t, 1, redis.url, {
                ...change,
                small: EXACT,
                top: { two_tier: { enabled } },
            });
            const [gateway] = fleet.gateways;
            const scripts = async () => {
                await gateway.idle();
                return Number((await redis.info('cmdstat_evalsha'))?.match(/calls=(\d+)/)?.[1] ?? 0);
            };
            for (let n = 0; n < 9; n++) await chat(gateway); /* what is needed is learned */
            const before = await scripts();
            const began = performance.now();
            for (let n = 0; n < 50; n++) assert.equal((await chat(gateway)).status, 200);
            const sent = (await scripts()) - before;
            const want = 50 * (enabled ? rows[i][4] : rows[i][2] + rows[i][3]);
            /* Besides: heartbeats and renewals, some a second, and blocks: 0.2 of a call at most. */
            const besides = (enabled ? 10 : 4) + (performance.now() - began) / 100;
            /* Afterwards several calls may be told of together. */
            const least = 50 * (enabled ? 0 : rows[i][2]);
            assert.ok(sent >= least - 1, `${sent} scripts, ${want} expected`);
            assert.ok(sent <= want + besides, `${sent} scripts, ${want} expected`);
        }
});

test('a limit of a provider key holds for all gateways together', async (t) => {
    const redis = await Redis.start(t);
    const { gateways, mock } = await patientFleet(t, 3, redis.url, {
        oai: { keys: keys(2, { rpm: 15 }) },
        tenant: { budgets: [] },
    });
    const replies = await calls(60, (i) => chat(gateways[i % 3]));
    const served = replies.filter((reply) => reply.status === 200);
    assert.equal(served.length, 30, 'two keys of 15 a minute');
    assert.ok(replies.every((reply) => reply.status === 200 || reason(reply) === 'no_key'));
    assert.equal((await mock.requests(30)).length, 30);
    for (const gateway of gateways) await gateway.idle();
});

test('a key that cools after 429 cools for all gateways', async (t) => {
    const redis = await Redis.start(t);
    const { gateways, mock } = await patientFleet(t, 2, redis.url, {
        script: {
            default: { status: 429, headers: { 'retry-after': '30' } },
        },
        tenant: { budgets: [] },
        small: { retries: 0 },
    });
    assert.equal((await chat(gateways[0])).status, 429);
    const asked = (await mock.requests(1)).length;
    await until('Redis has been told', async () => {
        for (const name of (await redis.ask('KEYS', '*:key:*')).split('\n'))
            if (Number(await redis.ask('HGET', name, 'cool')) > 0) return true;
    });
    const other = await chat(gateways[1]);
    assert.equal(other.status, 429);
    assert.equal(reason(other), 'no_key');
    assert.equal((await mock.seen()).begun, asked, 'the provider was left alone');
});

test('calls at once of a group of keys are counted over all gateways, and those of the dead end', async (t) => {
    const redis = await Redis.start(t);
    const { gateways, mock } = await patientFleet(t, 2, redis.url, {
        script: { default: { latency: '60s' } },
        oai: {
            groups: { g: { concurrency: 4 } },
            keys: keys(2, { group: 'g' }),
        },
        tenant: { budgets: [] },
    });
    const lost = calls(4, () => chat(gateways[0])).catch(() => {});
    await until('four are at the provider', async () => (await mock.seen()).begun === 4);
    const refused = await chat(gateways[1]);
    assert.equal(refused.status, 503);
    assert.equal(reason(refused), 'no_key');
    await gateways[0].stop('SIGKILL');
    await lost;
});

test('money under load on three gateways: Redis and the ledgers agree', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await patientFleet(t, 3, redis.url, {
        small: EXACT,
        tenant: { budgets: usd(100000) },
    });
    const callers = gateways.map((gateway) => new Caller(gateway));
    await until('some hundred calls', () => callers.every((caller) => caller.n > 150));
    const counts = sum(await Promise.all(callers.map((caller) => caller.stop())));
    assert.deepEqual(Object.keys(counts), ['served']);
    let spent = 0;
    for (const gateway of gateways) {
        await gateway.idle();
        spent += (await gateway.spend()).total.micro_usd;
    }
    assert.equal(spent, counts.served * EXACT_COST);
});

test('a limit of calls at once that is divided: each gateway has its part of those that live', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await patientFleet(t, 2, redis.url, {
        small: { concurrency: { law: 'fixed', initial: 12, max: 12, divide: true } },
        top: { gate: { concurrency: { law: 'fixed', initial: 8, max: 8, divide: true } } },
    });
    const limits = (gateway) => gateway.metrics('model="small"').then((seen) => seen.route_concurrency_limit);
    await until('both have half', async () => {
        const now = await Promise.all(gateways.map(limits));
        return now.every((limit) => limit === 6);
    });
    await gateways[1].stop();
    await until('the one that is left has all', async () => (await limits(gateways[0])) === 12);
    assert.equal(await gateways[0].metric('concurrency_limit', 'gate="all"'), 8);
});
