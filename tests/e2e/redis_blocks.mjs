/* redis_blocks.mjs - several gateways that lease blocks of budgets: a slow Redis refuses nobody, and
 * the bills of all of them are never more than the budget, whatever dies, stops or is emptied; nor are they
 * where Redis decides each call. The tables are in docs/distributed.md. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { ADMIN_TOKEN, calls, chat, EXACT, EXACT_COST, keys, reason, until } from './kit.mjs';
import { Caller, detour, fleet, Redis, stored, sum } from './redis_kit.mjs';

const usd = (n, per = 'total') => [{ usd: (n * EXACT_COST) / 1e6, per }];

/* What the provider has billed. */
const billed = async (mock) => (await mock.seen()).begun * EXACT_COST;

const spentBy = async (gateways) => {
    let spent = 0;
    for (const gateway of gateways) {
        await gateway.idle();
        spent += (await gateway.spend()).total?.micro_usd ?? 0;
    }
    return spent;
};

/* A field of the one window of an account whose key has `part` in its name. */
async function inRedis(redis, part, field) {
    const names = (await redis.ask('KEYS', `*:money:*${part}*`)).split('\n');
    const name = names.find((each) => each && !each.endsWith(':e'));
    return name ? Number(await redis.ask('HGET', name, field)) : 0;
}

/* Who holds a block of that window, once those who live have given back what they do not use. */
async function holders(redis, part) {
    const names = (await redis.ask('KEYS', `*:money:*${part}*`)).split('\n');
    const words = (await redis.ask('HGETALL', names.find((each) => each && !each.endsWith(':e')))).split('\n');
    return words.filter((word, i) => i % 2 === 0 && word.startsWith('e:') && Number(words[i + 1]) > 0);
}

const LIMITED = {
    groups: { g: { rpm: 1000000, tpm: 1000000000 } },
    keys: keys(2, { rpm: 500000, tpm: 500000000, group: 'g' }),
};

const scripts = async (redis) =>
    Number((await redis.info('cmdstat_evalsha'))?.match(/calls=(\d+)/)?.[1] ?? 0);

/* Calls at a gateway, `n` at once, until none is served any more for `quiet` in a row. */
async function spendAll(gateways, { at_once = 2, quiet = 8 } = {}) {
    const counts = {};
    await Promise.all(
        gateways.flatMap((gateway) =>
            Array.from({ length: at_once }, async () => {
                for (let refused = 0; refused < quiet; ) {
                    const reply = await chat(gateway);
                    const what = reply.status === 200 ? 'served' : reason(reply);
                    counts[what] = (counts[what] ?? 0) + 1;
                    refused = reply.status === 200 ? 0 : refused + 1;
                }
            }),
        ),
    );
    return counts;
}

for (const [name, way] of [
    ['5 ms away', { delay: 5 }],
    ['22 ms away', { delay: 22 }],
    ['100 ms away', { delay: 100 }],
    ['late with 2 % of its answers', { late: 2, slow: 400 }],
])
    test(`a Redis that is ${name} refuses nobody`, async (t) => {
        const redis = await Redis.start(t);
        const to = await detour(t, redis.port);
        const { gateways } = await fleet(t, 2, to.url, {
            tiers: true,
            small: EXACT,
            oai: LIMITED,
            top: { budgets: usd(100000, 'day') },
            tenant: {
                rate: { strategy: 'gcra', limit: 1000000, period: '60s' },
                budgets: [...usd(100000, 'day'), ...usd(100000)],
            },
        });
        /* They hold blocks by then: who holds none has to wait, and on a busy machine perhaps too long. */
        const replies = await calls(60, (i) => chat(gateways[i % 2]));
        Object.assign(to, way);
        const callers = gateways.flatMap((gateway) => [new Caller(gateway), new Caller(gateway)]);
        await until('some hundred calls', () => callers.every((caller) => caller.n > 150));
        const counts = sum(await Promise.all(callers.map((caller) => caller.stop())));
        Object.assign(to, { delay: 0, late: 0 });
        assert.deepEqual(Object.keys(counts), ['served'], JSON.stringify(counts));
        assert.deepEqual(replies.map((reply) => reply.status).filter((status) => status !== 200), []);
        assert.equal(await spentBy(gateways), (counts.served + 60) * EXACT_COST);
    });

test('a call with limits, budgets and limited keys sends at most 0.2 commands', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await fleet(t, 1, redis.url, {
        tiers: true,
        small: EXACT,
        oai: LIMITED,
        top: { budgets: usd(100000, 'day') },
        tenant: {
            rate: { strategy: 'gcra', limit: 1000000, period: '60s' },
            cost: { strategy: 'token_bucket', capacity: 100000000, refill: 1000000 },
            budgets: [...usd(100000, 'day'), ...usd(100000)],
        },
    });
    const [gateway] = gateways;
    assert.equal((await chat(gateway)).status, 200);
    const before = await scripts(redis);
    const callers = [1, 2, 3, 4].map(() => new Caller(gateway));
    await until('two thousand calls', () => callers.every((caller) => caller.n >= 500));
    const counts = sum(await Promise.all(callers.map((caller) => caller.stop())));
    assert.deepEqual(Object.keys(counts), ['served']);
    const sent = (await scripts(redis)) - before;
    t.diagnostic(`${sent} scripts for ${counts.served} calls`);
    assert.ok(sent <= 0.2 * counts.served, `${sent} scripts for ${counts.served} calls`);
});

test('two of eight are killed with blocks in hand: the bills are within the budget', async (t) => {
    const K = 1200;
    const redis = await Redis.start(t);
    const { gateways, mock } = await fleet(t, 8, redis.url, {
        tiers: true,
        small: EXACT,
        tenant: { budgets: usd(K) },
    });
    const callers = gateways.map((gateway) => new Caller(gateway));
    await until('all have blocks', () => callers.every((caller) => caller.n > 20));
    await gateways[0].stop('SIGKILL'); /* its disk is lost */
    await gateways[1].stop('SIGKILL'); /* comes back on its disk */
    await Promise.all(callers.map((caller) => caller.stop()));
    const living = gateways.slice(2);
    const counts = await spendAll(living, { quiet: 4 });
    const unused = K * EXACT_COST - (await billed(mock));
    t.diagnostic(`${unused / EXACT_COST} of ${K} calls unused with two dead, ${JSON.stringify(counts)}`);
    assert.ok(unused >= 0, `${-unused} too much`);
    assert.ok(unused <= 0.08 * K * EXACT_COST, `${unused} unused`);

    await gateways[1].begin();
    await stored(gateways[1], 'ok');
    await until('its block is anybody\'s', async () => (await holders(redis, 't:one:')).length === 1);
    await spendAll(living, { quiet: 4 });
    await until('all but the lost block is spent', async () => {
        await spendAll(living, { at_once: 1, quiet: 1 });
        const [lost, ...others] = await holders(redis, 't:one:');
        const block = await inRedis(redis, 't:one:', lost);
        const left = K * EXACT_COST - (await inRedis(redis, 't:one:', 's')) - block;
        return others.length === 0 && left >= 0 && left < EXACT_COST;
    });
    const settled = await inRedis(redis, 't:one:', 's');
    const all = await billed(mock);
    t.diagnostic(`${K - all / EXACT_COST} of ${K} unused with one lost disk`);
    assert.ok(all <= K * EXACT_COST, `${all} of ${K * EXACT_COST}`);
    assert.ok(settled <= K * EXACT_COST);
    for (const gateway of [gateways[1], ...living]) await gateway.idle();
});

test('nobody dies: a budget is spent to the last call', async (t) => {
    const K = 1000;
    const redis = await Redis.start(t);
    const { gateways, mock } = await fleet(t, 4, redis.url, {
        tiers: true,
        small: EXACT,
        tenant: { budgets: usd(K) },
    });
    const last = () => spendAll(gateways, { at_once: 2, quiet: 6 });
    await until('it is spent', async () => {
        await last();
        return (await billed(mock)) === K * EXACT_COST;
    });
    assert.equal(await spentBy(gateways), K * EXACT_COST);
    await until('all refuse for good', async () => {
        const replies = await calls(4, (i) => chat(gateways[i]));
        return replies.every((reply) => reply.status === 402 && reason(reply) === 'budget');
    });
});

const LOSSES = [
    ['stopped', (redis) => redis.pause(), (redis) => redis.resume()],
    ['killed and back empty', (redis) => redis.kill(), (redis) => redis.begin()],
    ['emptied', (redis) => redis.ask('FLUSHALL'), () => {}],
];

for (const [name, lose, mend, tiers] of LOSSES.flatMap((loss) => [
    [...loss, true],
    [...loss, false],
]))
    test(`Redis is ${name} under load: the bills are within the budget (${tiers ? 'two tiers' : 'strict'})`, async (t) => {
        const K = 900;
        const redis = await Redis.start(t);
        const { gateways, mock } = await fleet(t, 4, redis.url, {
            tiers,
            small: EXACT,
            top: { budgets: usd(K + 500) },
            tenant: { budgets: usd(K) },
        });
        const callers = gateways.map((gateway) => new Caller(gateway));
        await until('some calls', () => callers.every((caller) => (caller.counts.served ?? 0) > 60));
        await lose(redis);
        const then = callers.map((caller) => caller.n);
        await until('more calls', () => callers.every((caller, i) => caller.n > then[i] + 100));
        await mend(redis);
        for (const gateway of gateways) await stored(gateway, 'ok');
        const counts = sum(await Promise.all(callers.map((caller) => caller.stop())));
        await until('it is spent', async () => {
            await spendAll(gateways, { at_once: 1, quiet: 3 });
            return (await billed(mock)) >= K * EXACT_COST;
        });
        assert.equal(await billed(mock), K * EXACT_COST);
        t.diagnostic(JSON.stringify(counts));
        for (const what of Object.keys(counts))
            assert.ok(['served', 'budget', 'budget_contended', 'store_unavailable'].includes(what), what);
        assert.equal(await spentBy(gateways), K * EXACT_COST);
    });

for (const tiers of [true, false])
    test(`a spent budget stays spent however often Redis is emptied (${tiers ? 'two tiers' : 'strict'})`, async (t) => {
        const K = 200;
        const redis = await Redis.start(t);
        const { gateways, mock } = await fleet(t, 2, redis.url, {
            tiers,
            small: EXACT,
            tenant: { budgets: usd(K) },
        });
        await until('it is spent', async () => {
            await spendAll(gateways, { quiet: 3 });
            return (await billed(mock)) === K * EXACT_COST;
        });
        const callers = gateways.flatMap((gateway) => [new Caller(gateway), new Caller(gateway)]);
        for (let i = 0; i < 8; i++) {
            const then = callers.map((caller) => caller.n);
            await redis.ask('FLUSHALL');
            await until('more calls', () => callers.every((caller, k) => caller.n > then[k] + 100));
        }
        const counts = sum(await Promise.all(callers.map((caller) => caller.stop())));
        assert.equal(counts.served ?? 0, 0, JSON.stringify(counts));
        assert.equal(await billed(mock), K * EXACT_COST);
    });

for (const tiers of [true, false])
    test(`a gateway that starts while Redis is away spends nothing again (${tiers ? 'two tiers' : 'strict'})`, async (t) => {
        const K = 60;
        const redis = await Redis.start(t);
        const { gateways, mock } = await fleet(t, 2, redis.url, { tiers, small: EXACT, tenant: { budgets: usd(K) } });
        const [a, b] = gateways;
        await until('it is spent', async () => {
            await spendAll([a], { quiet: 3 });
            return (await billed(mock)) === K * EXACT_COST;
        });
        await redis.kill();
        await b.stop();
        await b.begin();
        await stored(b, 'down');
        /* It is back with nothing in it, and b is there before a, who knows what was spent. */
        a.process.child.kill('SIGSTOP');
        let replies;
        try {
            await redis.begin();
            await stored(b, 'ok');
            replies = await calls(8, () => chat(b));
        } finally {
            a.process.child.kill('SIGCONT');
        }
        assert.deepEqual(replies.map((reply) => reply.status), Array(8).fill(503));
        await until('b knows that it is spent', async () => reason(await chat(b)) === 'budget');
        assert.equal(await billed(mock), K * EXACT_COST);
    });

test('a gateway that ends gives back what it does not use', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await fleet(t, 2, redis.url, {
        tiers: true,
        small: EXACT,
        tenant: { budgets: usd(100000) },
    });
    const callers = gateways.map((gateway) => new Caller(gateway));
    await until('both have blocks', () => callers.every((caller) => caller.n > 100));
    await Promise.all(callers.map((caller) => caller.stop()));
    assert.ok((await inRedis(redis, 't:one:', 'b')) > 0);
    for (const gateway of gateways) await gateway.finish();
    assert.equal(await inRedis(redis, 't:one:', 'b'), 0);
});

test('what a gateway held that never comes back is anybody\'s once an operator has written it off', async (t) => {
    const K = 40;
    const redis = await Redis.start(t);
    const { gateways, mock } = await fleet(t, 2, redis.url, {
        tiers: true,
        small: EXACT,
        listen: { admin: '127.0.0.1:0' },
        top: { admin_auth: { token: ADMIN_TOKEN } },
        tenant: { budgets: usd(K) },
    });
    const [dead, living] = gateways;
    assert.equal((await chat(dead)).status, 200);
    await dead.stop('SIGKILL');
    await spendAll([living], { at_once: 1, quiet: 3 });
    const before = await billed(mock);
    assert.ok(before < K * EXACT_COST);
    const [, port] = await living.process.said(/127\.0\.0\.1:(\d+) \(admin\)/);
    const ask = async (path, body) => {
        const reply = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`, {
            method: body ? 'POST' : 'GET',
            headers: {
                authorization: `Bearer ${ADMIN_TOKEN}`,
                ...(body && { 'content-type': 'application/json' }),
            },
            ...(body && { body: JSON.stringify(body) }),
        });
        return { status: reply.status, body: await reply.json() };
    };
    const { body } = await ask('blocks');
    assert.equal(body.blocks.length, 1, JSON.stringify(body));
    const [block] = body.blocks;
    assert.match(block.window, /t:one:/);
    assert.equal((await ask('blocks/write-off', { process: block.process, reason: ' ' })).status, 400);
    assert.equal((await ask('blocks/write-off', { process: 'nobody', reason: 'x' })).status, 404);
    const done = await ask('blocks/write-off', { process: block.process, reason: 'its disk is lost' });
    assert.deepEqual(done, { status: 200, body: { windows: 1, micro_usd: block.micro_usd } });
    await until('it is spent by those who live', async () => {
        await spendAll([living], { at_once: 1, quiet: 2 });
        return (await inRedis(redis, 't:one:', 's')) === K * EXACT_COST;
    });
    await living.idle();
});

test('the limits of provider keys hold for all gateways together, and are used', async (t) => {
    const redis = await Redis.start(t);
    const { gateways, mock } = await fleet(t, 3, redis.url, {
        tiers: true,
        oai: { groups: { g: { rpm: 90 } }, keys: keys(2, { rpm: 60, group: 'g' }) },
        small: { retries: 0 },
        tenant: { budgets: [] },
    });
    let served = 0;
    await until('nearly all is used', async () => {
        const replies = await calls(12, (i) => chat(gateways[i % 3]));
        for (const reply of replies)
            assert.ok(reply.status === 200 || reason(reply) === 'no_key', String(reply.body));
        served += replies.filter((reply) => reply.status === 200).length;
        return served >= 86; /* 95 % of 90 */
    });
    await calls(30, (i) => chat(gateways[i % 3]));
    assert.ok((await mock.seen()).begun <= 90, `${(await mock.seen()).begun}`);
    for (const gateway of gateways) await gateway.idle();
});

test('a key that cools after 429 cools for all gateways', async (t) => {
    const redis = await Redis.start(t);
    const { gateways, mock } = await fleet(t, 2, redis.url, {
        tiers: true,
        script: { rules: [{ when: { nth: 4 }, do: { status: 429, headers: { 'retry-after': '30' } } }] },
        oai: { keys: keys(1, { rpm: 1000, tpm: 1000000 }) },
        small: { retries: 0 },
        tenant: { budgets: [] },
    });
    for (const gateway of [gateways[0], gateways[1], gateways[0]])
        assert.equal((await chat(gateway)).status, 200);
    assert.equal((await chat(gateways[0])).status, 429);
    await until('the other knows, within some calls', async () => {
        const reply = await chat(gateways[1]);
        if (reply.status === 200) return false;
        assert.equal(reason(reply), 'no_key');
        return true;
    });
    const asked = (await mock.seen()).begun;
    for (const gateway of gateways) assert.equal(reason(await chat(gateway)), 'no_key');
    assert.equal((await mock.seen()).begun, asked);
});
