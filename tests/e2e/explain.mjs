/* explain.mjs - what explain says of a call is what the call is told.
 *
 *   EXPLAIN_PAIRS   questions and calls of each property; default 400
 *   SEED            of these; default: the time
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import { ADMIN_TOKEN, json, KEY, keys, send, sha256, world } from './kit.mjs';
import { patientFleet, Redis, stored, window } from './redis_kit.mjs';

const LISTEN = { admin: '127.0.0.1:0' };
const AUTH = { admin_auth: { token: ADMIN_TOKEN } };
const PAIRS = Number(process.env.EXPLAIN_PAIRS ?? 400);

/* ---- asking ---- */

class Asker {
    static async of(gateway) {
        const asker = new Asker();
        asker.gateway = gateway;
        const port = (await gateway.process.said(/127\.0\.0\.1:(\d+) \(admin\)/))[1];
        asker.admin = `http://127.0.0.1:${port}`;
        asker.agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
        return asker;
    }

    async explain(asked) {
        const query = new URLSearchParams(asked).toString();
        const reply = await send(this.admin, `/api/v1/explain?${query}`, undefined, {
            headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
            agent: this.agent,
        });
        assert.equal(reply.status, 200, reply.body.toString());
        return json(reply);
    }

    call({ model = 'small', user, max_tokens, prompt_bytes = 0 }, key = KEY) {
        const body = {
            model,
            ...(max_tokens !== undefined && { max_tokens }),
            messages: [{ role: 'user', content: 'a'.repeat(prompt_bytes) }],
        };
        return send(this.gateway.url, '/v1/chat/completions', body, {
            headers: { authorization: `Bearer ${key}`, ...(user && { 'x-user': user }) },
            agent: this.agent,
        });
    }

    end() {
        this.agent.destroy();
    }
}

const by = (said) => (said.refused_by === null ? null : said.limits[said.refused_by]);

/* ---- D4, D5 ---- */

const TIERS = [
    ['strict', { enabled: false }],
    ['two tiers', { enabled: true }],
];

for (const [name, two_tier] of TIERS)
    test(`D4 with Redis (${name}) explain refuses what the seventh call was refused for`, async (t) => {
        const redis = await Redis.start(t);
        const { gateways } = await patientFleet(t, 1, redis.url, {
            listen: LISTEN,
            tenant: { rate: window(5), budgets: [] },
            top: { ...AUTH, two_tier },
        });
        const asker = await Asker.of(gateways[0]);
        const before = await asker.explain({ tenant: 'one', model: 'small', max_tokens: 10 });
        assert.equal(before.admitted, true);
        assert.equal(before.store.away, false);
        const statuses = [];
        for (let i = 0; i < 7; i++) statuses.push((await asker.call({ max_tokens: 10 })).status);
        assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429, 429]);
        for (let i = 0; i < 3; i++) {
            const said = await asker.explain({ tenant: 'one', model: 'small', max_tokens: 10 });
            assert.equal(said.admitted, false);
            assert.equal(said.reason, 'rate');
            assert.equal(said.status, 429);
            assert.equal(by(said).stage, 'rate');
            assert.equal(by(said).remaining, 0);
            assert.equal(by(said).limit, 5);
        }
        asker.end();
    });

for (const mode of ['local', 'open', 'closed'])
    test(`D4 while Redis is down explain says so, and what decides: ${mode}`, async (t) => {
        const redis = await Redis.start(t);
        const { gateways } = await patientFleet(t, 1, redis.url, {
            listen: LISTEN,
            tenant: { rate: window(5), budgets: [{ usd: 100, per: 'total' }] },
            top: {
                ...AUTH,
                two_tier: { enabled: false },
                store_failure: { limits: mode, budget: mode },
            },
        });
        const asker = await Asker.of(gateways[0]);
        await redis.kill();
        await stored(gateways[0], 'down');
        const said = await asker.explain({ tenant: 'one', model: 'small', max_tokens: 10 });
        const reply = await asker.call({ max_tokens: 10 });
        assert.equal(said.store.state, 'down');
        assert.equal(said.store.away, true);
        assert.equal(said.store.limits_by, mode);
        assert.equal(said.store.budget_by, mode);
        assert.equal(said.admitted, mode !== 'closed');
        assert.equal(reply.status, mode === 'closed' ? 503 : 200);
        if (mode === 'closed') {
            assert.equal(said.reason, 'store_unavailable');
            assert.equal(by(said).stage, 'store_unavailable');
            assert.equal(said.status, 503);
            assert.equal(reply.headers['x-tollgate-reason'], 'store_unavailable');
        }
        asker.end();
    });

test('D4 a Redis that hangs is waited for no longer than a call would', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await patientFleet(t, 1, redis.url, {
        listen: LISTEN,
        tenant: { rate: window(5) },
        top: { ...AUTH, store_timeout: '50ms', store_failure: { limits: 'closed' } },
    });
    const asker = await Asker.of(gateways[0]);
    redis.pause();
    const said = await asker.explain({ tenant: 'one', model: 'small', max_tokens: 10 });
    assert.equal(said.reason, 'store_unavailable');
    const left = send(asker.admin, '/api/v1/explain?tenant=one&model=small', undefined, {
        headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    });
    left.request.destroy();
    await assert.rejects(left);
    redis.resume();
    await gateways[0].idle();
    asker.end();
});

/* The ring of B has seen none of the calls that A made with the key. */
test('a key that the other gateway has used up is no key here', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await patientFleet(t, 2, redis.url, {
        listen: LISTEN,
        tenant: { budgets: [] },
        models: { rare: { provider: 'few', price: { input: 1, output: 2 }, max_output_tokens: 512 } },
        providers: (mock) => ({
            few: { base_url: mock.url, api: 'openai', keys: keys(2, { rpm: 2 }) },
        }),
        top: { ...AUTH, workers: 1 },
    });
    const [a, b] = [await Asker.of(gateways[0]), await Asker.of(gateways[1])];
    const asked = { tenant: 'one', model: 'rare', max_tokens: 10 };
    for (let i = 0; i < 4; i++) {
        assert.equal((await b.explain(asked)).admitted, true);
        assert.equal((await a.call(asked)).status, 200);
    }
    const said = await b.explain(asked);
    assert.equal(said.admitted, false);
    assert.equal(said.reason, 'no_key');
    assert.equal(said.status, 503);
    assert.ok(by(said).retry_after_ms > 0 && by(said).retry_after_ms <= 61000);
    assert.doesNotMatch(by(said).text, /as this gateway knows them/);
    const reply = await b.call(asked);
    assert.equal(reply.status, 503);
    assert.equal(reply.headers['x-tollgate-reason'], 'no_key');
    a.end();
    b.end();
});

test("D4 a refusal by a user's limit is explained with the user", async (t) => {
    const { gateway } = await world(t, {
        listen: LISTEN,
        tenant: {
            budgets: [],
            users: { from: 'header:x-user', each: { rpd: 2 } },
        },
        top: AUTH,
    });
    const asker = await Asker.of(gateway);
    const ann = { tenant: 'one', model: 'small', user: 'ann', max_tokens: 10 };
    for (const status of [200, 200, 429]) assert.equal((await asker.call(ann)).status, status);
    const said = await asker.explain(ann);
    assert.equal(said.admitted, false);
    assert.equal(by(said).scope, 'user');
    assert.equal(by(said).name, 'ann');
    assert.equal((await asker.explain({ ...ann, user: 'bob' })).admitted, true);
    /* The refusal says who it was, for the dashboard to ask with. */
    const snapshot = json(
        await send(asker.admin, '/api/v1/snapshot', undefined, {
            headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
        }),
    );
    const denial = snapshot.denials.at(-1);
    assert.equal(denial.user, 'ann');
    assert.equal(denial.max_tokens, 10);
    asker.end();
});

test('D5 a call that no budget can ever hold is explained as that, with what would fit', async (t) => {
    const { gateway } = await world(t, {
        listen: LISTEN,
        tenant: { budgets: [{ usd: 0.001, per: 'day' }] },
        top: AUTH,
    });
    const asker = await Asker.of(gateway);
    const asked = { tenant: 'one', model: 'small', max_tokens: 1000 };
    const said = await asker.explain(asked);
    const reply = await asker.call(asked);
    assert.equal(reply.status, 400);
    assert.equal(said.status, 400);
    assert.equal(said.reason, 'request_exceeds_limit');
    assert.equal(reply.headers['x-tollgate-reason'], said.reason);
    const fits = /max_tokens of (\d+) would fit/;
    assert.equal(fits.exec(by(said).text)[1], fits.exec(reply.body.toString())[1]);
    const enough = { ...asked, max_tokens: Number(fits.exec(by(said).text)[1]) };
    assert.equal((await asker.explain(enough)).admitted, true);
    assert.equal((await asker.call(enough)).status, 200);
    asker.end();
});

/* ---- the property ---- */

/* mulberry32 */
function randomOf(seed) {
    let state = seed >>> 0;
    return () => {
        state = (state + 0x6d2b79f5) >>> 0;
        let t = state;
        t = Math.imul(t ^ (t >>> 15), t | 1);
        t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
}

const keyOf = (name) => `tg-e2e-virtual-key-of-${name}`;

/* Tenants with limits of all kinds, small enough that calls are refused for each of them. */
function drawTenants(n, random) {
    const below = (limit) => Math.floor(random() * limit);
    const maybe = (part, make) => (random() < part ? make() : undefined);
    const mode = () => (random() < 0.15 ? { mode: 'shadow' } : {});
    const rate = () => ({
        ...[
            () => ({ strategy: 'fixed_window', limit: 1 + below(8), window: '30d' }),
            () => ({ strategy: 'gcra', limit: 1 + below(8), period: '30d' }),
            () => ({ strategy: 'sliding_log', limit: 1 + below(8), window: '30d' }),
            () => ({ strategy: 'token_bucket', capacity: 1 + below(8), refill: 0.000001 }),
        ][below(4)](),
        ...mode(),
    });
    const cost = () => ({
        ...[
            () => ({ strategy: 'fixed_window', limit: 50 + below(1500), window: '30d' }),
            () => ({ strategy: 'token_bucket', capacity: 50 + below(1500), refill: 0.000001 }),
        ][below(2)](),
        ...mode(),
    });
    const budgets = () => [
        {
            usd: (200 + below(6000)) / 1e6,
            per: ['day', 'total'][below(2)],
            ...(random() < 0.2 && { reserve: 'expected' }),
            ...mode(),
        },
    ];
    const clean = (object) =>
        Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
    const limits = () => clean({ rate: maybe(0.5, rate), cost: maybe(0.4, cost) });
    const daily = () =>
        clean({
            rpd: maybe(0.6, () => 1 + below(6)),
            tpd: maybe(0.4, () => 50 + below(1500)),
            ...mode(),
        });
    const list = [];
    for (let i = 0; i < n; i++) {
        const parent = i > 3 && random() < 0.3 ? `t${below(4)}` : undefined;
        list.push(
            clean({
                name: `t${i}`,
                parent,
                keys: [{ name: 'main', sha256: sha256(keyOf(`t${i}`)) }],
                ...limits(),
                budgets: maybe(0.5, budgets),
                models: maybe(0.2, () => ['small', 'rare']),
                rules: maybe(0.15, () => [{ field: 'max_tokens', max: 100 + below(300) }]),
                limits: maybe(0.2, () => [{ models: ['dear'], ...daily(), rpd: 1 + below(6) }]),
                users: maybe(0.4, () =>
                    clean({
                        from: 'header:x-user',
                        required: random() < 0.3,
                        max: 1 + below(4),
                        each: clean({ ...daily(), budgets: maybe(0.4, budgets) }),
                    }),
                ),
            }),
        );
    }
    return list;
}

/* Two that use up one limit each, so that each kind of refusal comes. */
const SURE = [
    { name: 'poor', budgets: [{ usd: 0.0012, per: 'total' }] },
    { name: 'curt', cost: window(600) },
].map((tenant) => ({ ...tenant, keys: [{ name: 'main', sha256: sha256(keyOf(tenant.name)) }] }));

const MODELS = {
    dear: { provider: 'oai', price: { input: 10, output: 30 }, max_output_tokens: 512, context: 4096 },
    rare: { provider: 'few', price: { input: 1, output: 2 }, max_output_tokens: 512 },
    spare: { provider: 'few', price: { input: 1, output: 2 }, fallback: ['small'], max_output_tokens: 512 },
};

const SCRIPT = { default: { tokens: 60 } };

/* With two tiers, time moves limits between a question and its call: a refusal that was remembered
 * lapses when it said it would, and a block ends. Then a further question says what the call was
 * told. */
async function hasMoved(asker, asked, said, told) {
    if (told === null) return by(said).retry_after_ms !== null && by(said).retry_after_ms < 1000;
    return (await asker.explain(asked)).reason === told;
}

/* One question after another, each followed by the call itself. */
async function ask(asker, tenants, n, random, blocks) {
    const below = (limit) => Math.floor(random() * limit);
    const seen = {};
    for (let i = 0; i < n; i++) {
        const sure = random() < 0.1;
        const tenant = sure ? SURE[below(2)] : tenants[below(tenants.length)];
        const asked = sure ? { tenant: tenant.name, model: 'small', max_tokens: 100 } : {
            tenant: tenant.name,
            model: ['small', 'small', 'dear', 'rare', 'spare'][below(5)],
            ...(random() < 0.6 && { user: `u${below(5)}` }),
            ...(random() < 0.8 && { max_tokens: 1 + below(500) }),
            prompt_bytes: below(400),
        };
        const said = await asker.explain(asked);
        const reply = await asker.call(asked, keyOf(tenant.name));
        const told = reply.status === 200 ? null : reply.headers['x-tollgate-reason'];
        const context = `pair ${i}: ${JSON.stringify(asked)}\n${reply.body}\n${JSON.stringify(said, null, 1)}`;
        if (blocks && said.reason !== told && (await hasMoved(asker, asked, said, told))) {
            seen.moved = (seen.moved ?? 0) + 1;
            continue;
        }
        assert.equal(said.reason, told, context);
        assert.equal(said.admitted, reply.status === 200, context);
        if (told !== null) assert.equal(said.status, reply.status, context);
        const served = reply.headers['x-tollgate-model'] ?? asked.model;
        if (told === null) assert.equal(said.served_by, served, context);
        seen[told ?? 'admitted'] = (seen[told ?? 'admitted'] ?? 0) + 1;
    }
    return seen;
}

const LEGS = [
    ['memory', undefined],
    ['Redis, strict', { enabled: false }],
    ['Redis, two tiers', { enabled: true }],
];

for (const [name, two_tier] of LEGS)
    test(`explain, then the call: the same answer (${name})`, async (t) => {
        const seed = Number(process.env.SEED ?? Date.now() % 1e9);
        t.diagnostic(`seed ${seed}, ${PAIRS} pairs`);
        const random = randomOf(seed);
        const tenants = drawTenants(8 + Math.floor(PAIRS / 12), random);
        const change = {
            listen: LISTEN,
            tenants: [...tenants, ...SURE],
            script: SCRIPT,
            models: MODELS,
            small: { context: 4096 },
            providers: (mock) => ({
                few: { base_url: mock.url, api: 'openai', keys: keys(1, { rpm: 5, tpm: 2000 }) },
            }),
            top: { ...AUTH, workers: 1, budgets: [{ usd: 1000, per: 'total' }] },
        };
        let gateway;
        if (two_tier) {
            const redis = await Redis.start(t);
            const made = await patientFleet(t, 1, redis.url, {
                ...change,
                top: { ...change.top, two_tier },
            });
            gateway = made.gateways[0];
        } else {
            gateway = (await world(t, change)).gateway;
        }
        const asker = await Asker.of(gateway);
        const seen = await ask(asker, tenants, PAIRS, random, two_tier?.enabled);
        t.diagnostic(JSON.stringify(seen));
        assert.ok(seen.admitted > PAIRS / 20, 'some calls are admitted');
        assert.ok((seen.moved ?? 0) <= PAIRS / 50, 'and few limits move between');
        for (const reason of ['rate', 'cost', 'budget', 'no_key', 'user_limit'])
            assert.ok(seen[reason] > 0, `some are refused by ${reason}: ${JSON.stringify(seen)}`);
        asker.end();
    });
