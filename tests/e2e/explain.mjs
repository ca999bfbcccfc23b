/* explain.mjs - what explain says of a call is what the call is told.
 *
 *   EXPLAIN_PAIRS   questions and calls of each property; default 400
 *   SEED            of these; default: the time
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import test from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { ADMIN_TOKEN, json, KEY, keys, send, sha256, until, world } from './kit.mjs';
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

    call({ model = 'small', user, max_tokens, prompt_bytes = 0 }, key = KEY, agent = this.agent) {
        const body = {
            model,
            ...(max_tokens !== undefined && { max_tokens }),
            messages: [{ role: 'user', content: 'a'.repeat(prompt_bytes) }],
        };
        /* Explain speaks of a call in the API of the model's provider: a translated one reserves more. */
        const path = model === 'claude' ? '/v1/messages' : '/v1/chat/completions';
        return send(this.gateway.url, path, body, {
            headers: { authorization: `Bearer ${key}`, ...(user && { 'x-user': user }) },
            agent,
        });
    }

    end() {
        this.agent.destroy();
    }
}

const by = (said) => (said.refused_by === null ? null : said.limits[said.refused_by]);

/* A provider that answers when it is told to. */
class Holder {
    static async start(t) {
        const holder = new Holder();
        holder.arrived = [];
        holder.server = http.createServer((request, response) => {
            request.resume();
            holder.arrived.push(response);
        });
        await new Promise((done) => holder.server.listen(0, '127.0.0.1', done));
        holder.url = `http://127.0.0.1:${holder.server.address().port}`;
        t.after(() => {
            holder.server.closeAllConnections();
            holder.server.close();
        });
        return holder;
    }
}

function answer(response) {
    response.setHeader('content-type', 'application/json');
    response.end(
        JSON.stringify({
            id: 'chatcmpl-held',
            object: 'chat.completion',
            choices: [{ index: 0, message: { role: 'assistant', content: 'a' }, finish_reason: 'stop' }],
            usage: { prompt_tokens: 10, completion_tokens: 20, total_tokens: 30 },
        }),
    );
}

const LEGS = [
    ['memory', undefined],
    ['Redis, strict', { enabled: false }],
    ['Redis, two tiers', { enabled: true }],
];

const keyOf = (name) => `tg-e2e-virtual-key-of-${name}`;

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
        /* What is left is known from now on: nobody spends a share of what he has not heard of. */
        assert.equal((await asker.call({ max_tokens: 10 })).status, 200);
        await redis.kill();
        await stored(gateways[0], 'down');
        const said = await asker.explain({ tenant: 'one', model: 'small', max_tokens: 10 });
        const reply = await asker.call({ max_tokens: 10 });
        assert.equal(said.store.state, 'down');
        assert.equal(said.store.away, true);
        assert.equal(said.store.limits_by, mode);
        assert.equal(said.store.budget_by, mode);
        /* Strict, `local` has nothing of a budget that it may spend by itself. */
        assert.equal(said.admitted, mode === 'open');
        assert.equal(reply.status, mode === 'open' ? 200 : 503);
        if (mode !== 'open') {
            assert.equal(said.reason, 'store_unavailable');
            assert.equal(by(said).stage, 'store_unavailable');
            if (mode === 'local') assert.match(by(said).what, /store_failure\.budget is local, with nothing leased/);
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

test('under memory pressure explain refuses the classes that calls are refused for', async (t) => {
    const { gateway } = await world(t, {
        listen: LISTEN,
        tenants: ['high', 'normal', 'low'].map((priority) => ({
            name: priority,
            priority,
            keys: [{ name: 'main', sha256: sha256(keyOf(priority)) }],
        })),
        top: {
            ...AUTH,
            gate: {
                concurrency: {},
                memory: { pressure: 0.0001, critical: 0.0002, limit: 0.9999, poll: '10ms' },
            },
        },
    });
    const asker = await Asker.of(gateway);
    await until('the memory has been read', async () => /^admission_memory_usage 0\.[1-9]|^admission_memory_usage 0\.0[1-9]/m.test(await gateway.metricsText()));
    for (const tenant of ['high', 'normal', 'low']) {
        const asked = { tenant, model: 'small', max_tokens: 10 };
        const said = await asker.explain(asked);
        const reply = await asker.call(asked, keyOf(tenant));
        assert.equal(said.admitted, reply.status === 200, tenant);
        assert.equal(said.admitted, tenant === 'high');
        if (said.admitted) continue;
        assert.equal(said.reason, 'memory_pressure');
        assert.equal(said.status, reply.status);
        assert.equal(reply.headers['x-tollgate-reason'], 'memory_pressure');
    }
    asker.end();
});

test('while the gateway drains explain says so, as a call is told', async (t) => {
    const holder = await Holder.start(t);
    const { gateway } = await world(t, {
        listen: LISTEN,
        models: { slow: { provider: 'held', price: { input: 1, output: 2 }, max_output_tokens: 512 } },
        providers: () => ({ held: { base_url: holder.url, api: 'openai', keys: keys(1) } }),
        top: { ...AUTH, workers: 1 },
    });
    const asker = await Asker.of(gateway);
    const asked = { tenant: 'one', model: 'slow', max_tokens: 10 };
    const held = asker.call(asked, KEY, false);
    await until('one is held', () => holder.arrived.length === 1);
    /* A request whose head has not ended keeps its connection through the drain. */
    const open = net.connect(gateway.port, '127.0.0.1');
    let answered = '';
    open.on('data', (bytes) => (answered += bytes));
    open.on('error', () => {});
    open.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${KEY}\r\n`);
    /* It has one worker: whoever comes later is read later. */
    for (let i = 0; i < 3; i++) assert.equal((await send(gateway.url, '/v1/models')).status, 200);
    assert.equal((await asker.explain(asked)).admitted, true);
    const ended = gateway.stop('SIGTERM');
    const said = await until('it drains', async () => {
        const now = await asker.explain(asked);
        return !now.admitted && now;
    });
    assert.equal(said.reason, 'shutting_down');
    assert.equal(said.status, 503);
    open.write('content-type: application/json\r\ncontent-length: 2\r\n\r\n{}');
    await until('it is answered', () => /^HTTP\/1.1 503 /.test(answered));
    assert.match(answered, /x-tollgate-reason: shutting_down/i);
    open.destroy();
    answer(holder.arrived[0]);
    assert.equal((await held).status, 200);
    asker.end();
    await ended;
});

/* What calls leave behind: counts, and what is used of limits, budgets and keys. */
const LEFT = /^(admission_(total|rejected)|tollgate_(denied|would_deny|budget|key|spend|tokens|cost|requests|retries|fallback|store_decisions|leases|route_in|concurrency_in|settle|estimate|clamped|user|objects))/;

const stateOf = async (gateway) =>
    (await gateway.metricsText())
        .split('\n')
        .filter((line) => LEFT.test(line));

/* Every key of Redis as bytes; but for gateways that say that they live. */
async function storeOf(redis) {
    const names = (await redis.ask('KEYS', '*')).split('\n').filter((name) => !/:(nodes?|fleet)\b/.test(name));
    const all = {};
    for (const name of names.sort()) all[name] = await redis.ask('--raw', 'DUMP', name);
    return all;
}

for (const [name, two_tier] of LEGS)
    test(`explain changes nothing (${name})`, async (t) => {
        const change = {
            listen: LISTEN,
            tenant: {
                rate: window(20),
                cost: { strategy: 'token_bucket', capacity: 5000, refill: 0.000001 },
                budgets: [{ usd: 0.01, per: 'total' }],
                users: { from: 'header:x-user', max: 3, each: { rpd: 5 } },
            },
            models: { rare: { provider: 'few', price: { input: 1, output: 2 }, max_output_tokens: 512 } },
            providers: (mock) => ({
                few: { base_url: mock.url, api: 'openai', keys: keys(2, { rpm: 5, tpm: 2000 }) },
            }),
            top: { ...AUTH, workers: 1 },
        };
        const redis = two_tier && (await Redis.start(t));
        const { gateway } = two_tier
            ? await patientFleet(t, 1, redis.url, { ...change, top: { ...change.top, two_tier } }).then(
                  ({ gateways }) => ({ gateway: gateways[0] }),
              )
            : await world(t, change);
        const asker = await Asker.of(gateway);
        for (const [model, user] of [['small', 'ann'], ['rare', 'bob'], ['rare', 'ann']])
            assert.equal((await asker.call({ model, user, max_tokens: 10 })).status, 200);
        await gateway.idle();
        /* The store is told of what was spent within a second. */
        const spent = await until('the store has been told', async () => {
            const now = await gateway.spend();
            return !/"difference_micro_usd":(?!0\b)/.test(JSON.stringify(now)) && now;
        });
        const before = await stateOf(gateway);
        assert.ok(before.some((line) => /^tollgate_key/.test(line)) && before.some((line) => /^tollgate_budget/.test(line)));
        /* At the start a gateway claims what an earlier process with its ledger held, once. */
        if (redis)
            await until('it has done so', async () =>
                (await redis.ask('HGET', 'tg:money:{one}:t:one:0-9007199254740991', 'epoch')) !== '');
        /* What gateways have to say of windows that calls came to lately is said, then. */
        let stored = null, since = 0;
        if (redis)
            await until('nothing changes for a while', async () => {
                const now = await storeOf(redis);
                if (!isDeepStrictEqual(now, stored)) since = performance.now();
                stored = now;
                return performance.now() - since > 3000;
            });
        for (let i = 0; i < 60; i++)
            await asker.explain({
                tenant: 'one',
                model: ['small', 'rare'][i % 2],
                user: `u${i % 7}`,
                max_tokens: 1 + 50 * (i % 11),
                prompt_bytes: 100 * (i % 5),
            });
        assert.deepEqual(await stateOf(gateway), before);
        assert.deepEqual(await gateway.spend(), spent);
        if (redis && !two_tier.enabled) assert.deepEqual(await storeOf(redis), stored);
        /* Users that were asked about have not been seen. */
        assert.equal((await asker.call({ user: 'carl', max_tokens: 10 })).status, 200);
        assert.equal((await asker.call({ user: 'dora', max_tokens: 10 })).headers['x-tollgate-reason'], 'user_limit');
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
                priority: ['high', 'normal', 'low'][below(3)],
                value: maybe(0.3, () => (5 + below(40)) / 100),
                concurrency: maybe(0.3, () => 1 + below(2)),
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

/* Two that use up one limit each, and three whose calls are held, so that each kind of refusal comes. */
const SURE = [
    { name: 'poor', budgets: [{ usd: 0.0012, per: 'total' }] },
    { name: 'curt', cost: window(600) },
    { name: 'busy', priority: 'high' },
    { name: 'calm', priority: 'low' },
    { name: 'narrow', concurrency: 1 },
].map((tenant) => ({ ...tenant, keys: [{ name: 'main', sha256: sha256(keyOf(tenant.name)) }] }));

const MODELS = {
    dear: { provider: 'oai', price: { input: 10, output: 30 }, max_output_tokens: 512, context: 4096 },
    rare: { provider: 'few', price: { input: 1, output: 2 }, max_output_tokens: 512 },
    spare: { provider: 'few', price: { input: 1, output: 2 }, fallback: ['small'], max_output_tokens: 512 },
    /* The calls are in the words of OpenAI's chat: these two are translated, the second once `few` has no key. */
    claude: { provider: 'ant', price: { input: 10, output: 30 }, max_output_tokens: 512, context: 4096 },
    abroad: { provider: 'few', price: { input: 1, output: 2 }, fallback: ['claude'], max_output_tokens: 512 },
    slow: { provider: 'held', price: { input: 1, output: 2 }, max_output_tokens: 512, concurrency: { law: 'fixed', initial: 3 } },
    either: { provider: 'held', price: { input: 1, output: 2 }, fallback: ['small'], max_output_tokens: 512, concurrency: { law: 'fixed', initial: 1 } },
};

const SCRIPT = { default: { tokens: 60 } };
const HELD_MAX = 6; /* slots of the gate: one held call less leaves room for the others */

const GATE = {
    concurrency: { law: 'fixed', initial: HELD_MAX },
    queue: { size: 2, wait: { high: '60s', normal: '60s', low: '0ms' } },
    peers: { limit: 4 },
    cost: { strategy: 'token_bucket', capacity: 1000000000, refill: 1000000 },
    policy: { kind: 'bid-price', prices: 'duals', duals: { rate: 0, cost: 0.0005, concurrency: 0 } },
};

/* Whose limit a refusal names: "tenant t3", "user u1", "model slow", "everyone", "the gateway". */
function namedIn(text) {
    const whose = /^(?:rate|cost) limit of (tenant \S+|user \S+)(?: of | for |:)/.exec(text) ??
        /^budget of (everyone|tenant \S+|user \S+)(?: of tenant \S+)?:/.exec(text) ??
        /^server overloaded: concurrency limit of (model \S+|the gateway):/.exec(text) ??
        /^user limit of (tenant \S+):/.exec(text);
    return whose?.[1];
}

function namedBy(limit) {
    if (limit.scope === 'everyone') return 'everyone';
    if (limit.scope === 'gate') return 'the gateway';
    return `${limit.scope === 'parent' ? 'tenant' : limit.scope} ${limit.name}`;
}

/* With two tiers, time moves limits between a question and its call: a refusal that was remembered
 * lapses when it said it would, and a block ends. Then a further question says what the call was
 * told. */
async function hasMoved(asker, asked, said, told) {
    if (told === null) return by(said).retry_after_ms !== null && by(said).retry_after_ms < 1000;
    return (await asker.explain(asked)).reason === told;
}

/* Questions one after another, each followed by the call itself; some calls stay. */
class Pairs {
    constructor(asker, holder, tenants, random, blocks) {
        Object.assign(this, { asker, holder, tenants, random, blocks });
        this.gateway = asker.gateway;
        this.held = [];
        this.seen = {};
        this.named = {};
    }

    below(limit) {
        return Math.floor(this.random() * limit);
    }

    draw() {
        if (this.random() < 0.3) {
            const i = this.below(SURE.length);
            const model = i < 2 ? 'small' : ['slow', 'either'][this.below(2)];
            return { tenant: SURE[i].name, model, max_tokens: 100 };
        }
        return {
            tenant: this.tenants[this.below(this.tenants.length)].name,
            model: ['small', 'small', 'dear', 'rare', 'spare', 'slow', 'either', 'claude', 'abroad'][this.below(9)],
            ...(this.random() < 0.6 && { user: `u${this.below(5)}` }),
            ...(this.random() < 0.8 && { max_tokens: 1 + this.below(500) }),
            prompt_bytes: 1 + this.below(399), /* one that says nothing cannot be translated */
        };
    }

    /* What is held, and nothing else, is under way. */
    async settled() {
        await until('only what is held is under way', async () => {
            const now = await this.gateway.metrics();
            return now.open_calls === this.held.length && now.concurrency_in_flight === this.held.length;
        });
    }

    async release(n) {
        while (n-- > 0 && this.held.length > 0) {
            const [{ response, call }] = this.held.splice(this.below(this.held.length), 1);
            answer(response);
            assert.equal((await call).status, 200);
        }
        await this.settled();
    }

    /* The call: its reply, or that it is held by the provider, or that it waits. */
    async make(asked) {
        const before = this.holder.arrived.length;
        const call = this.asker.call(asked, keyOf(asked.tenant), false);
        let reply;
        call.then((came) => (reply = came), () => {});
        if (asked.mayWait || ['slow', 'either'].includes(asked.model))
            await until('it is answered, held or waits', async () => {
                if (reply || this.holder.arrived.length > before) return true;
                const now = await this.gateway.metrics();
                return now.concurrency_queued + now.route_queued > 0;
            });
        else reply = await call;
        if (reply) return { reply };
        if (this.holder.arrived.length > before) {
            this.held.push({ call, response: this.holder.arrived[before] });
            return { held: true };
        }
        call.request.destroy();
        await this.settled();
        return { waits: true };
    }

    async one(i) {
        const asked = this.draw();
        const said = await this.asker.explain(asked);
        const made = await this.make({ ...asked, mayWait: said.waits });
        const { reply } = made;
        const told = !reply || reply.status === 200 ? null : reply.headers['x-tollgate-reason'];
        const context = `pair ${i}, ${this.held.length} held: ${JSON.stringify(asked)}\n${reply?.body}\n${JSON.stringify(said, null, 1)}`;
        if (this.blocks && !made.waits && said.reason !== told && (await hasMoved(this.asker, asked, said, told))) {
            this.count('moved');
            return;
        }
        /* Redis is told of a call that ended a moment later: explain may still see what it had reserved. */
        if (told === null && said.reason === 'budget_contended' && said.store.asked && !said.store.two_tier) {
            this.count('moved');
            return;
        }
        assert.equal(said.waits, made.waits ?? false, context);
        if (made.waits) {
            this.count('waits'); /* and what then is to come */
            return;
        }
        assert.equal(said.reason, told, context);
        assert.equal(said.admitted, told === null, context);
        if (told !== null) {
            assert.equal(said.status, reply.status, context);
            const named = namedIn(json(reply).error.message);
            assert.ok(named !== undefined || !NAMED.includes(told), context);
            if (named !== undefined) {
                assert.equal(namedBy(by(said)), named, context);
                this.named[told] = (this.named[told] ?? 0) + 1;
            }
        } else {
            const served = made.held ? asked.model : (reply.headers['x-tollgate-model'] ?? asked.model);
            assert.equal(said.served_by, served, context);
        }
        this.count(told ?? 'admitted');
    }

    count(what) {
        this.seen[what] = (this.seen[what] ?? 0) + 1;
    }

    async all(n) {
        for (let i = 0; i < n; i++) {
            await this.one(i);
            if (this.random() < 0.1 || this.held.length >= HELD_MAX) await this.release(1 + this.below(4));
        }
        await this.release(this.held.length);
    }
}

/* Refusals that name a limit. */
const NAMED = ['rate', 'cost', 'budget', 'concurrency'];
const REASONS = ['rate', 'cost', 'budget', 'no_key', 'user_limit', 'policy', 'peer_limit', 'concurrency', 'waits'];

for (const [name, two_tier] of LEGS)
    test(`explain, then the call: the same answer (${name})`, async (t) => {
        const seed = Number(process.env.SEED ?? Date.now() % 1e9);
        t.diagnostic(`seed ${seed}, ${PAIRS} pairs`);
        const random = randomOf(seed);
        const holder = await Holder.start(t);
        const tenants = drawTenants(8 + Math.floor(PAIRS / 12), random);
        const change = {
            listen: LISTEN,
            tenants: [...tenants, ...SURE],
            script: SCRIPT,
            models: MODELS,
            small: { context: 4096 },
            providers: (mock) => ({
                few: { base_url: mock.url, api: 'openai', keys: keys(1, { rpm: 5, tpm: 2000 }) },
                held: { base_url: holder.url, api: 'openai', keys: keys(1) },
            }),
            top: { ...AUTH, workers: 1, gate: GATE, budgets: [{ usd: 1000, per: 'total' }] },
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
        const pairs = new Pairs(asker, holder, tenants, random, two_tier?.enabled);
        await pairs.all(PAIRS);
        const { seen, named } = pairs;
        t.diagnostic(JSON.stringify(seen));
        t.diagnostic(`named: ${JSON.stringify(named)}`);
        assert.ok(seen.admitted > PAIRS / 20, 'some calls are admitted');
        assert.ok((seen.moved ?? 0) <= PAIRS / 50, 'and few limits move between');
        /* A short run may miss a kind, a long one may not. */
        const kinds = Object.keys(seen).length;
        assert.ok(kinds >= 10, `calls are told many things: ${JSON.stringify(seen)}`);
        if (PAIRS >= 2000) {
            for (const reason of REASONS)
                assert.ok(seen[reason] > 0, `some are told ${reason}: ${JSON.stringify(seen)}`);
            for (const reason of NAMED)
                assert.ok(named[reason] > 0, `a limit is named for ${reason}: ${JSON.stringify(named)}`);
        }
        asker.end();
    });
