/* virtual_keys.mjs - what a virtual key has of its own, below its tenant: limits and budgets that hold to the call on
 * two gateways, models and endpoints that narrow, whatever way round them is tried. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { AT_ONCE, spendAll, withKey } from './fleet_kit.mjs';
import { ADMIN_TOKEN, chat, EXACT, EXACT_COST, json, KEY, OTHER_KEY, reason, send, sha256, until, world } from './kit.mjs';
import { run } from './recording_kit.mjs';
import { patientFleet, Redis } from './redis_kit.mjs';

const usd = (n) => [{ usd: (n * EXACT_COST) / 1e6, per: 'total' }];
const text = (reply) => json(reply).error.message;

const adminOf = async (gateway) => `http://127.0.0.1:${(await gateway.process.said(/127\.0\.0\.1:(\d+) \(admin\)/))[1]}`;

const ways = [
    ['strict', false],
    ['two tiers', true],
];

for (const [way, tiers] of ways) {
    test(`a key's budget below its tenant's is exact with ${AT_ONCE} calls at once on two gateways, ${way}`, async (t) => {
        const redis = await Redis.start(t);
        const { gateways, mock } = await patientFleet(t, 2, redis.url, {
            tiers,
            small: EXACT,
            tenant: {
                budgets: usd(150),
                keys: [
                    { name: 'ci', sha256: sha256(KEY), budgets: usd(60) },
                    { name: 'dev', sha256: sha256(OTHER_KEY) },
                ],
            },
        });
        const ci = await spendAll(gateways, KEY);
        t.diagnostic(JSON.stringify(ci));
        assert.equal(ci.served, 60);
        assert.equal((await mock.seen()).begun, 60);
        const dev = await spendAll(gateways, OTHER_KEY);
        t.diagnostic(JSON.stringify(dev));
        assert.equal(dev.served, 90); /* what the first has left of its tenant's, and no more */
        assert.equal((await mock.seen()).begun, 150);
    });

    test(`a key's limit below its tenant's is exact with ${AT_ONCE} calls at once on two gateways, ${way}`, async (t) => {
        const redis = await Redis.start(t);
        const { gateways, mock } = await patientFleet(t, 2, redis.url, {
            tiers,
            tenant: {
                limits: [{ rpd: 110 }],
                keys: [
                    { name: 'ci', sha256: sha256(KEY), limits: [{ rpd: 50 }] },
                    { name: 'dev', sha256: sha256(OTHER_KEY) },
                ],
            },
        });
        /* A block may have one left on a gateway that is asked no more: never above, and 95 % at least. */
        const least = (n) => Math.ceil(n * (tiers ? 0.95 : 1));
        const ci = await spendAll(gateways, KEY, least(50));
        t.diagnostic(JSON.stringify(ci));
        assert.deepEqual(Object.keys(ci.reasons), ['rate']);
        assert.ok(ci.served <= 50, `${ci.served} of 50`);
        const dev = await spendAll(gateways, OTHER_KEY, least(110) - ci.served);
        t.diagnostic(JSON.stringify(dev));
        assert.ok(ci.served + dev.served <= 110, `${ci.served} and ${dev.served} of 110`);
        assert.equal((await mock.seen()).begun, ci.served + dev.served);
    });
}

/* Keys ci and dev of one tenant, and what ci may is less. */
const narrow = (more = {}) => ({
    small: { ...EXACT, fallback: ['spare'], cheaper: 'tiny', retries: 0 },
    models: {
        spare: { provider: 'oai', ...EXACT, max_output_tokens: 4096 },
        tiny: { provider: 'oai', ...EXACT, max_output_tokens: 4096 },
    },
    tenant: {
        budgets: usd(1000),
        allow_cheaper: 1,
        endpoints: ['/v1/files/*'],
        users: { from: 'header:x-user', max: 100, each: { budgets: usd(500) } },
        keys: [
            { name: 'ci', sha256: sha256(KEY), models: ['small', 'claude'], endpoints: ['!/v1/files/*'],
                tags: { cost_centre: '4711' }, ...more },
            { name: 'dev', sha256: sha256(OTHER_KEY) },
        ],
    },
    listen: { admin: '127.0.0.1:0' },
    top: {
        passthrough: [{ path: '/v1/files/*', provider: 'oai', per_call: 0.00001 }],
        aliases: { second: 'spare' },
        admin_auth: { token: ADMIN_TOKEN },
    },
});

test('a key reaches no model and no endpoint that it may not use', async (t) => {
    const { gateway } = await world(t, {
        ...narrow(),
        script: { rules: [{ when: { model: 'small' }, do: { status: 500 } }] },
    });
    for (const model of ['spare', 'second', 'tiny']) {
        assert.equal((await chat(gateway, { model }, withKey(KEY))).status, 403);
        assert.equal((await chat(gateway, { model }, withKey(OTHER_KEY))).status, 200);
    }
    /* The one it may use fails: no fallback serves it, but the other key's calls. */
    assert.equal((await chat(gateway, {}, withKey(KEY))).status, 500);
    assert.equal((await chat(gateway, {}, withKey(OTHER_KEY))).headers['x-tollgate-model'], 'tiny');
    const names = async (key) =>
        json(await send(gateway.url, '/v1/models', undefined, withKey(key))).data.map((model) => model.id).sort();
    assert.deepEqual(await names(KEY), ['claude', 'small']);
    assert.ok((await names(OTHER_KEY)).includes('spare'));
    const files = (key) => send(gateway.url, '/v1/files/f-1', undefined, withKey(key));
    assert.equal((await files(KEY)).status, 404);
    assert.notEqual(reason(await files(OTHER_KEY)), reason(await files(KEY)));
});

test('a key is not served by a cheaper model that it may not use', async (t) => {
    const { gateway } = await world(t, narrow({ models: ['small'] }));
    await chat(gateway, {}, withKey(OTHER_KEY)); /* some of the budget is used */
    assert.equal((await chat(gateway, {}, withKey(OTHER_KEY))).headers['x-tollgate-model'], 'tiny');
    assert.equal((await chat(gateway, {}, withKey(KEY))).headers['x-tollgate-model'], undefined);
});

test("a key's budget is spent by no other key, and by its users together", async (t) => {
    const { gateway, mock } = await world(t, narrow({ budgets: usd(5), models: ['small', 'claude', 'spare', 'tiny'] }));
    const ask = (key, user, model = 'small') => chat(gateway, { model }, withKey(key, user && { 'x-user': user }));
    for (const user of ['ann', 'bob', undefined]) assert.equal((await ask(OTHER_KEY, user)).status, 200);
    for (const [user, model] of [['ann', 'small'], ['bob', 'spare'], ['eve', 'tiny'], [undefined, 'small'], ['ann', 'spare']])
        assert.equal((await ask(KEY, user, model)).status, 200);
    const before = (await mock.seen()).begun;
    for (const [user, model] of [['zoe', 'small'], [undefined, 'spare'], ['ann', 'tiny']]) {
        const reply = await ask(KEY, user, model);
        assert.equal(reply.status, 402);
        assert.match(text(reply), /key ci of tenant one/);
    }
    const counted = await send(gateway.url, '/v1/messages/count_tokens', { model: 'claude', messages: [{ role: 'user', content: 'x' }] },
        withKey(KEY));
    assert.notEqual(counted.status, 200, 'a spent key asks for nothing');
    assert.equal((await mock.seen()).begun, before);
    assert.equal((await ask(OTHER_KEY, 'ann')).status, 200);
});

test('a refusal and an explanation name the key', async (t) => {
    const { gateway } = await world(t, narrow({ limits: [{ rpm: 2 }, { models: ['claude'], rpm: 1 }], budgets: usd(100) }));
    for (let i = 0; i < 2; i++) assert.equal((await chat(gateway, {}, withKey(KEY))).status, 200);
    const refused = await chat(gateway, {}, withKey(KEY));
    assert.equal(refused.status, 429);
    assert.match(text(refused), /^rate limit of key ci of tenant one: 2 calls a minute, 0 left/);
    assert.equal(refused.headers['x-tollgate-binding-axis'], 'rate');
    assert.equal((await chat(gateway, {}, withKey(OTHER_KEY))).status, 200);
    const explain = async (key) =>
        json(await send(await adminOf(gateway), `/api/v1/explain?tenant=one&model=small&max_tokens=16${key}`, undefined,
            withKey(ADMIN_TOKEN)));
    const said = await explain('&key=ci');
    assert.equal(said.admitted, false);
    assert.equal(said.key, 'ci');
    const of = said.limits.filter((limit) => limit.scope === 'key');
    assert.deepEqual(of.map((limit) => [limit.stage, limit.name]), [['rate', 'ci'], ['budget', 'ci']]);
    assert.equal(said.limits[said.refused_by].scope, 'key');
    assert.equal((await explain('')).admitted, true);
    assert.equal((await explain('&key=dev')).admitted, true);
    assert.equal((await explain('&key=none')).error.code, 'not_found');
});

/* What is left of the budget of key ci. */
async function leftOf(gateway) {
    const said = json(await send(await adminOf(gateway), '/api/v1/explain?tenant=one&model=small&max_tokens=16&key=ci', undefined,
        withKey(ADMIN_TOKEN)));
    return said.limits.find((limit) => limit.scope === 'key' && limit.stage === 'budget').remaining;
}

test('a hang-up gives back what the key had reserved', async (t) => {
    const { gateway } = await world(t, {
        ...narrow({ budgets: usd(3) }),
        script: { default: { latency: '60s' } },
    });
    const held = Array.from({ length: 3 }, () => chat(gateway, { stream: true }, withKey(KEY)));
    await until('all is reserved', async () => (await leftOf(gateway)) === 0);
    assert.equal(reason(await chat(gateway, {}, withKey(KEY))), 'budget_contended');
    held.forEach((call) => call.request.destroy());
    await Promise.allSettled(held);
    /* What was cut is billed as the time it ran, and no longer reserved: the rest is spent, or can be. */
    await until('nothing is reserved', async () =>
        (await leftOf(gateway)) > 0 || reason(await chat(gateway, {}, withKey(KEY))) === 'budget');
});

test('the ledger knows the key and its tags', async (t) => {
    const { gateway } = await world(t, narrow());
    for (let i = 0; i < 3; i++) assert.equal((await chat(gateway, {}, withKey(KEY))).status, 200);
    for (let i = 0; i < 2; i++) assert.equal((await chat(gateway, {}, withKey(OTHER_KEY, { 'x-user': 'ann' }))).status, 200);
    const spent = async (by) => {
        const { code, out } = await run('spend', '-c', gateway.file, '--by', by, '--json');
        assert.equal(code, 0);
        const said = JSON.parse(out);
        return { rows: said.rows.map((row) => [row[by], row.calls, row.micro_usd]), total: said.total.micro_usd };
    };
    await until('all is in the journal', async () => (await spent('key')).total === 5 * EXACT_COST);
    assert.deepEqual((await spent('key')).rows, [['ci', 3, 3 * EXACT_COST], ['dev', 2, 2 * EXACT_COST]]);
    assert.deepEqual(await spent('tag'), {
        rows: [['', 2, 2 * EXACT_COST], ['cost_centre=4711', 3, 3 * EXACT_COST]],
        total: 5 * EXACT_COST,
    });
    assert.deepEqual((await spent('tenant')).rows, [['one', 5, 5 * EXACT_COST]]);
    assert.deepEqual((await spent('user')).rows, [['', 3, 3 * EXACT_COST], ['ann', 2, 2 * EXACT_COST]]);
});

test('after a crash what a key had in flight stands against its budget, and a credit gives it back', async (t) => {
    const { gateway } = await world(t, {
        ...narrow({ budgets: usd(3), models: ['small'] }),
        script: { rules: [{ when: { model: 'small' }, do: { latency: '60s' } }] },
    });
    const held = Array.from({ length: 3 }, () => chat(gateway, {}, withKey(KEY)));
    held.forEach((call) => call.catch(() => {}));
    await until('all is reserved', async () => (await leftOf(gateway)) === 0);
    await gateway.stop('SIGKILL');
    await Promise.allSettled(held);
    await gateway.begin();
    const refused = await chat(gateway, {}, withKey(KEY));
    assert.equal(refused.status, 402);
    assert.match(text(refused), /key ci of tenant one/);
    assert.equal((await chat(gateway, { model: 'spare' }, withKey(OTHER_KEY))).status, 200);
    const credit = await send(await adminOf(gateway), '/api/v1/credits',
        { tenant: 'one', micro_usd: 2 * EXACT_COST, per: 'total', reason: 'they never ran' }, withKey(ADMIN_TOKEN));
    assert.ok(credit.status < 300, String(credit.body));
    const again = chat(gateway, {}, withKey(KEY));
    again.catch(() => {});
    await until('one more is reserved', async () => (await leftOf(gateway)) === EXACT_COST);
    again.request.destroy();
});
