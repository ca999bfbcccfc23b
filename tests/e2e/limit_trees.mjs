/* limit_trees.mjs - random trees of tenants, parents, users and models with random limits, through
 * `serve`: the limit that a refusal names is used up, and after its hint the same call passes.
 *
 * The test knows nothing of the gateway but its replies. It counts by itself what was admitted under
 * each limit: whatever its kind, a limit of so much in a period, all of which may come at once, that
 * refuses a call has admitted more than what is left beside it within the last period. Message,
 * headers, Admit's fields and log line have to speak of the same limit. Trees run side by side; in one
 * tree nobody else comes while a hint is waited for.
 *
 *   LIMIT_REFUSALS   refusals for each store; default 144; `make soak` asks for more
 *   TG_SEED          repeats a run
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import { chat, json, pause, reason, send, sha256, until, world } from './kit.mjs';
import { PATIENT, Redis, stored } from './redis_kit.mjs';

const REFUSALS = Number(process.env.LIMIT_REFUSALS ?? 144);
const SEED = Number(process.env.TG_SEED ?? Math.floor(Math.random() * 2 ** 32));
const TREES = 12;
const TOKEN = 'token-of-the-caller-of-admit';
const MODELS = ['small', 'large'];
const USERS = ['ann', 'bob', 'carl'];

/* mulberry32 */
function draws(seed) {
    let state = seed >>> 0;
    const next = () => {
        state = (state + 0x6d2b79f5) >>> 0;
        let z = state;
        z = Math.imul(z ^ (z >>> 15), z | 1);
        z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
        return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
    };
    const between = (low, high) => low + Math.floor(next() * (high - low + 1));
    return {
        between,
        chance: (percent) => next() * 100 < percent,
        one: (list) => list[between(0, list.length - 1)],
    };
}

/* ---- trees ---- */

/* A limit as the test counts it. `owner` is how it is named; `fits` says for which calls it is. */
const limit = (owner, axis, size, period, fits = () => true) => ({
    owner,
    axis,
    size,
    period,
    fits,
    charges: [],
});

/* No two limits of a tenant have one size, so that an owner and a size name one. */
function drawSize(draw, taken, low, high) {
    for (;;) {
        const size = draw.between(low, high);
        if (!taken.has(size)) return taken.add(size) && size;
    }
}

function drawTenant(draw, name, parent, { leaf, costs }) {
    const tenant = { name, limits: [] };
    const owner = `tenant ${name}`;
    const taken = new Set();
    const own = [];

    if (parent) tenant.parent = parent.config.name;
    if (draw.chance(70)) {
        const size = drawSize(draw, taken, 3, 9);
        const period = draw.between(5, 20) * 100;
        const strategy = draw.one(['gcra', 'fixed_window', 'sliding_log']);
        const time = { [strategy === 'gcra' ? 'period' : 'window']: `${period}ms` };
        tenant.rate = { strategy, limit: size, ...time };
        own.push(limit(owner, 'rate', size, period));
    }
    if (draw.chance(40)) {
        const size = drawSize(draw, taken, 30, 60);
        const model = draw.one(MODELS);
        tenant.limits.push({ models: [model], rpm: size });
        own.push(
            limit(`${owner} for ${model}`, 'rate', size, 60000, (call) => call.model === model),
        );
    }
    if (costs && draw.chance(70)) {
        const size = drawSize(draw, taken, 100, 400);
        const period = draw.between(1, 3);
        tenant.cost = { strategy: 'token_bucket', capacity: size, refill: size / period };
        own.push(limit(owner, 'cost', size, period * 1000));
    }
    if (leaf) {
        tenant.keys = [{ name: 'main', sha256: sha256(`key of ${name}`) }];
        if (draw.chance(60)) {
            const size = drawSize(draw, taken, 30, 60);
            tenant.users = { from: 'header:x-tollgate-user', each: { rpm: size } };
            for (const user of USERS)
                own.push(
                    limit(
                        `user ${user} of ${owner}`,
                        'rate',
                        size,
                        60000,
                        (call) => call.user === user,
                    ),
                );
        }
    }
    return { config: tenant, own: [...own, ...(parent?.own ?? [])], costs };
}

/* A root, maybe a department, and some tenants with keys. One of them always has a limit. */
function drawTree(number) {
    const draw = draws(SEED + number * 7919);
    const costs = number % 2 === 1;
    for (;;) {
        const root = drawTenant(draw, `root${number}`, null, { costs });
        const inner = [root];
        if (draw.chance(60)) inner.push(drawTenant(draw, `dept${number}`, root, { costs }));
        const leaves = ['a', 'b'].map((letter) =>
            drawTenant(draw, `team${number}${letter}`, inner.at(-1), { leaf: true, costs }),
        );
        if (leaves.every((leaf) => leaf.own.some((one) => one.period < 60000)))
            return { draw, inner, leaves, costs };
    }
}

/* ---- calls ---- */

const agent = new http.Agent({ keepAlive: true });

/* As a call to a model: {allowed, wait, message, of, size, left}. */
async function callModel(gateway, call) {
    const headers = { authorization: `Bearer key of ${call.leaf}`, 'x-tollgate-user': call.user };
    const reply = await chat(gateway, { model: call.model }, { headers, agent });
    if (reply.status === 200) return { allowed: true };
    assert.equal(reply.status, 429, String(reply.body));
    assert.equal(reason(reply), 'rate');
    return {
        axis: 'rate',
        wait: Number(reply.headers['retry-after-ms']),
        message: json(reply).error.message,
        id: reply.headers['x-request-id'],
        headers: reply.headers,
    };
}

/* By Admit, which has no slots here; what it admits has been charged. */
async function callAdmit(gateway, call) {
    const ask = { tenant: call.leaf, model: call.model, user: call.user, cost: call.cost };
    const reply = await send(
        gateway.url,
        '/tollgate/v1/admit',
        { ...ask, limits_only: true },
        { headers: { authorization: `Bearer ${TOKEN}` }, agent },
    );
    assert.equal(reply.status, 200, String(reply.body));
    const said = json(reply);
    if (said.allowed) return { allowed: true };
    return {
        axis: said.binding_axis,
        wait: said.retry_after_ms,
        message: said.message,
        named: said.binding_limit,
        headers: reply.headers,
    };
}

/* ---- the promises ---- */

const MESSAGE = /^(rate|cost) limit of (.*?): (\d+)[^,]*.*?, (\d+) left, (next|enough) in /;

/* Which limit the message speaks of, and whether headers and fields speak of the same. */
function expectOne(limits, told) {
    const match = MESSAGE.exec(told.message);
    assert.ok(match, told.message);
    const [, axis, owner, , left] = match;
    const unit = axis === 'rate' ? 'requests' : 'tokens';
    const size = Number(told.headers[`x-ratelimit-limit-${unit}`]);
    const named = limits.find(
        (one) => one.owner === owner && one.axis === axis && one.size === size,
    );
    assert.ok(named, `${told.message}: there is no such limit of ${size}`);
    assert.equal(told.axis, axis);
    assert.equal(told.headers[`x-ratelimit-remaining-${unit}`], left);
    if (told.named) {
        assert.equal(told.named.of, owner);
        assert.equal(told.named.limit, size);
        assert.equal(told.named.remaining, Number(left));
        assert.ok(told.message.includes(`: ${told.named.rule}, `), told.named.rule);
        assert.ok(told.named.retry_after_ms <= told.wait);
    }
    return named;
}

/* What may have been charged within its last period: a call was, at some moment before its reply. */
function mostUsed(named, since) {
    const slack = 20; /* ms that two clocks of one machine may differ by */
    let used = 0;

    for (const charge of named.charges)
        if (charge.until > since - named.period - slack) used += charge.units;
    return used;
}

async function run(gateway, tree, refusals, logged) {
    const { draw, leaves } = tree;
    let last = null; /* a call whose hint has been waited for */
    let waited = 0;

    for (let refused = 0; refused < refusals; ) {
        const leaf = draw.one(leaves);
        const call = last ?? {
            leaf: leaf.config.name,
            limits: leaf.own,
            model: draw.one(MODELS),
            user: draw.one(USERS),
            cost: draw.between(1, 60),
            ask: tree.costs || draw.chance(30) ? callAdmit : callModel,
        };
        const limits = call.limits.filter((one) => one.fits(call));
        const since = performance.now();
        const told = await call.ask(gateway, call);
        const until = performance.now();
        if (told.allowed) {
            for (const one of limits)
                one.charges.push({ until, units: one.axis === 'rate' ? 1 : call.cost });
            last = null;
            continue;
        }
        assert.equal(last, null, `a hint was too short: ${told.message}`);
        refused++;
        const named = expectOne(limits, told);
        const units = named.axis === 'rate' ? 1 : call.cost;
        const used = mostUsed(named, since);
        /* One more for the parts of a token that a bucket has. */
        assert.ok(
            used + units + (named.axis === 'cost' ? 1 : 0) > named.size,
            `${told.message}: ${used} of ${named.size} are used`,
        );
        if (told.id) logged.push({ id: told.id, owner: named.owner, size: named.size });
        if (!draw.chance(50)) continue;
        assert.ok(told.wait > 0);
        const end = until + told.wait + 1;
        while (performance.now() < end) await pause(end - performance.now());
        last = call;
        waited++;
    }
    return waited;
}

/* The first of each second are in the log, and say the same. */
async function expectLogged(gateway, logged) {
    const ids = new Map(logged.map((one) => [one.id, one]));
    const lines = await until('some refusals are logged', () => {
        const seen = gateway.lines().filter((line) => ids.has(line.id));
        return seen.length > 0 && seen;
    });
    for (const line of lines) {
        assert.equal(line.limit_of, ids.get(line.id).owner);
        assert.equal(line.limit, ids.get(line.id).size);
        assert.equal(line.reason, 'rate');
    }
}

const stores = {
    memory: async () => ({}),
    Redis: async (t) => ({
        store: (await Redis.start(t)).url,
        two_tier: { enabled: false },
        ...PATIENT,
    }),
};

/* Most of the time is waited, so both stores wait together. */
test('the limit that is named is used up, and its hint is true', { concurrency: 2 }, async (all) => {
    const inStore = ([name, store]) => all.test(name, async (t) => {
        const trees = Array.from({ length: TREES }, (_, i) => drawTree(i));
        console.log(`limit_trees: seed ${SEED} (TG_SEED=${SEED} repeats this run)`);
        const { gateway } = await world(t, {
            tenants: trees.flatMap(({ inner, leaves }) =>
                [...inner, ...leaves].map((one) => one.config),
            ),
            models: { large: { provider: 'oai', price: {} } },
            top: {
                ...(await store(t)),
                callers: [{ name: 'boss', token_sha256: sha256(TOKEN), may: ['tenant'] }],
            },
        });
        if (name === 'Redis') await stored(gateway, 'ok');
        const logged = [];
        const waited = await Promise.all(
            trees.map((tree) => run(gateway, tree, Math.ceil(REFUSALS / TREES), logged)),
        );
        assert.ok(waited.reduce((a, b) => a + b) > 0);
        await expectLogged(gateway, logged);
    });
    await Promise.all(Object.entries(stores).map(inStore));
    agent.destroy();
});
