/* shadow.mjs - a limit that would refuse everything: in shadow it refuses nothing and counts everything,
 * at every stage and for everyone who can have one; enforced by a reload, it refuses, and what was
 * taken of it meanwhile is gone.
 *
 * What is counted is looked for in the four places where an operator looks: the line of the log, the
 * metrics, the snapshot, and the explanation.
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import {
    ADMIN_TOKEN,
    chat,
    configure,
    json,
    reason,
    send,
    sha256,
    until,
    world,
} from './kit.mjs';

const LISTEN = { admin: '127.0.0.1:0' };

/* ---- asking ---- */

const keyOf = (name) => `tg-e2e-virtual-key-of-${name}`;

const as = (gateway, name, { user, ...more } = {}) =>
    chat(gateway, more, {
        headers: {
            authorization: `Bearer ${keyOf(name)}`,
            ...(user && { 'x-user': user }),
        },
    });

async function admin(gateway, target, method = 'GET') {
    const port = (await gateway.process.said(/127\.0\.0\.1:(\d+) \(admin\)/))[1];
    const reply = await fetch(`http://127.0.0.1:${port}/api/v1/${target}`, {
        method,
        headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    });
    const text = await reply.text();
    assert.equal(reply.status, 200, text);
    return JSON.parse(text);
}

async function start(t, change) {
    const top = { admin_auth: { token: ADMIN_TOKEN }, ...change.top };
    const made = await world(t, { ...change, top, listen: LISTEN });
    /* Writes the change, reads it by way of the API, and waits until it holds. */
    const reload = async (other) => {
        const config = configure(made.mock, made.folder, {
            ...other,
            top: { admin_auth: { token: ADMIN_TOKEN }, ...other.top },
            listen: LISTEN,
        });
        made.gateway.write(config);
        const read = await admin(made.gateway, 'reload', 'POST');
        assert.deepEqual(read.restart_needed, []);
    };
    return { ...made, reload };
}

/* ---- looking ---- */

const requests = (gateway, tenant) =>
    gateway.lines().filter((line) => line.msg === 'request' && line.tenant === tenant);

/* {reason: lines that say it}, once there are n lines of this tenant. */
async function logged(gateway, tenant, n) {
    await until(`${n} lines of ${tenant}`, () => requests(gateway, tenant).length === n);
    const seen = {};
    for (const line of requests(gateway, tenant))
        for (const one of line.would_deny?.split(',') ?? []) seen[one] = (seen[one] ?? 0) + 1;
    return seen;
}

/* The same in the metrics. */
async function counted(gateway, tenant) {
    const seen = {};
    for (const line of (await gateway.metricsText()).split('\n')) {
        const match = /^tollgate_shadow_denied_total\{(.*)\} (\d+)$/.exec(line);
        if (!match || (tenant && !match[1].includes(`tenant="${tenant}"`))) continue;
        const why = /reason="(\w+)"/.exec(match[1])[1];
        if (Number(match[2]) > 0) seen[why] = (seen[why] ?? 0) + Number(match[2]);
    }
    return seen;
}

/* What an explanation says of one stage: [scope, mode, refuses] of each limit. */
async function explained(gateway, tenant, stage, more = '') {
    const said = await admin(gateway, `explain?tenant=${tenant}&model=small${more}`);
    return {
        admitted: said.admitted,
        by: said.refused_by === null ? null : said.limits[said.refused_by].stage,
        limits: said.limits
            .filter((limit) => limit.stage === stage)
            .map((limit) => [limit.scope, limit.mode, limit.refuses]),
    };
}

/* ---- the gate's own stages ---- */

const NEVER = { strategy: 'gcra', limit: 1, period: '30d' };
const NO_TOKENS = { strategy: 'token_bucket', capacity: 1, refill: 0.000001 };
const ONE = { law: 'fixed', initial: 1, max: 1 };

/* All stages, of which one may be enforced. */
function stages(enforced) {
    const mode = (name) => (name === enforced ? 'enforce' : 'shadow');
    return {
        top: {
            gate: {
                memory: {
                    pressure: 0.000001,
                    critical: 0.000002,
                    limit: 0.000003,
                    poll: '10ms',
                    mode: mode('memory'),
                },
                peers: { limit: 1, mode: mode('peers') },
                concurrency: { ...ONE, mode: mode('concurrency') },
                queue: { wait: { high: '0ms', normal: '0ms' } },
                policy: {
                    kind: 'bid-price',
                    prices: 'duals',
                    duals: { cost: 1000000 },
                    mode: mode('policy'),
                },
                rate: { ...NEVER, mode: mode('rate') },
                cost: { ...NO_TOKENS, mode: mode('cost') },
            },
            budgets: [{ usd: 0, per: 'total', mode: mode('budget') }],
        },
        small: { concurrency: { ...ONE, mode: mode('model') } },
        tenants: [{ name: 'gated', keys: [{ name: 'main', sha256: sha256(keyOf('gated')) }] }],
    };
}

/* stage -> the reason that a call has which it refuses, and its status. */
const REFUSALS = {
    memory: ['memory_pressure', 503],
    peers: ['peer_limit', 429],
    concurrency: ['concurrency', 429],
    model: ['concurrency', 429],
    policy: ['policy', 429],
    rate: ['rate', 429],
    cost: ['request_exceeds_limit', 400],
    budget: ['budget', 402],
};

/* Calls that are with the provider all at once, until they are let go. */
async function together(gateway, mock, name, n) {
    const before = (await mock.seen()).begun;
    const calls = Array.from({ length: n }, () => as(gateway, name));
    for (const call of calls) call.catch(() => 0);
    await until('all are with the provider', async () => (await mock.seen()).begun === before + n);
    return () => calls.forEach((call) => call.request.destroy());
}

test('every stage of the gate: nothing is refused, and everything is counted', async (t) => {
    const { gateway, mock, reload } = await start(t, {
        script: { default: { fault: 'hang' } },
        ...stages(null),
    });
    await until('memory has been read', async () =>
        /^admission_memory_usage 0/m.test(await gateway.metricsText()));
    const letGo = await together(gateway, mock, 'gated', 4);
    for (const [stage, scopes] of [
        ['memory_pressure', ['gate']],
        ['peer_limit', ['tenant']],
        ['concurrency', ['model', 'gate']],
        ['policy', ['gate']],
        ['rate', ['tenant']],
        ['cost', ['tenant']],
        ['budget', ['everyone']],
    ]) {
        const said = await explained(gateway, 'gated', stage, '&tokens=30');
        assert.deepEqual(said.limits, scopes.map((scope) => [scope, 'shadow', true]), stage);
        assert.ok(said.admitted);
    }
    letGo();

    /* The first found its peer, slots and rate free. */
    const all = {
        memory_pressure: 4,
        peer_limit: 3,
        concurrency: 3,
        policy: 4,
        rate: 3,
        cost: 4,
        budget: 4,
    };
    assert.deepEqual(await logged(gateway, 'gated', 4), all);
    assert.deepEqual(await counted(gateway, 'gated'), all);
    const { counters } = await admin(gateway, 'snapshot');
    assert.deepEqual(counters.would_deny_by_reason, all);
    assert.equal(counters.refused, 0);
    await gateway.idle();

    /* One after the other is enforced, while the others stay in shadow. */
    let refused = 0;
    for (const [stage, [why, status]] of Object.entries(REFUSALS)) {
        const free = await together(gateway, mock, 'gated', 1);
        await reload(stages(stage));
        const reply = await as(gateway, 'gated');
        assert.equal(reply.status, status, `${stage}: ${reply.body}`);
        assert.equal(reason(reply), why, stage);
        refused++;
        const said = await explained(gateway, 'gated', why, '&tokens=30');
        assert.equal(said.admitted, false, stage);
        assert.equal(said.by, stage === 'cost' ? 'cost' : why, stage);
        free();
        await reload(stages(null));
        await gateway.idle();
    }
    const later = await counted(gateway, 'gated');
    for (const [why, n] of Object.entries(all)) assert.ok(later[why] > n, `${why} goes on`);
    assert.equal((await admin(gateway, 'snapshot')).counters.refused, refused);
});

/* ---- limits of tenants ---- */

/* The tenants, each with one thing that refuses everything after so many calls; `mode` is where it
 * is in shadow, or enforced. */
function tenants(mode) {
    const list = [
        { name: 'whole', mode, concurrency: 1, rate: NEVER, cost: NO_TOKENS, limits: [{ rpd: 1 }] },
        { name: 'whole-money', mode, budgets: [{ usd: 0, per: 'day' }] },
        {
            name: 'whole-users',
            mode,
            users: {
                from: 'header:x-user',
                each: { rpd: 1, budgets: [{ usd: 0, per: 'month' }] },
            },
        },
        { name: 'rate', rate: { ...NEVER, mode } },
        { name: 'cost', cost: { ...NO_TOKENS, mode } },
        { name: 'line', limits: [{ rpd: 100000 }, { models: ['sm*'], rpd: 1, mode }] },
        { name: 'line-tokens', limits: [{ tpd: 1, mode }] },
        { name: 'users', users: { from: 'header:x-user', each: { rpd: 1, mode } } },
        {
            name: 'users-money',
            users: { from: 'header:x-user', each: { budgets: [{ usd: 0, per: 'day' }], mode } },
        },
        {
            name: 'users-budget',
            users: { from: 'header:x-user', each: { budgets: [{ usd: 0, per: 'day', mode }] } },
        },
        { name: 'budget', budgets: [{ usd: 100, per: 'month' }, { usd: 0, per: 'day', mode }] },
        { name: 'house', mode, rate: NEVER, budgets: [{ usd: 0, per: 'total' }] },
        { name: 'child', parent: 'house' },
    ];
    for (const one of list) one.keys = [{ name: 'main', sha256: sha256(keyOf(one.name)) }];
    return { tenants: list, top: { gate: {} } };
}

/* What so many calls of each would have been refused by, and what refuses the next one. */
const CALLS = 3;
const EXPECTED = {
    whole: [{ rate: CALLS - 1, cost: CALLS }, 'request_exceeds_limit'],
    'whole-money': [{ budget: CALLS }, 'budget'],
    'whole-users': [{ rate: CALLS - 1, budget: CALLS }, 'rate'],
    rate: [{ rate: CALLS - 1 }, 'rate'],
    cost: [{ cost: CALLS }, 'request_exceeds_limit'],
    line: [{ rate: CALLS - 1 }, 'rate'],
    'line-tokens': [{ cost: CALLS }, 'request_exceeds_limit'],
    users: [{ rate: CALLS - 1 }, 'rate'],
    'users-money': [{ budget: CALLS }, 'budget'],
    'users-budget': [{ budget: CALLS }, 'budget'],
    budget: [{ budget: CALLS }, 'budget'],
    child: [{ rate: CALLS - 1, budget: CALLS }, 'rate'],
};

test('every limit of a tenant: nothing is refused, and everything is counted', async (t) => {
    const { gateway, reload } = await start(t, tenants('shadow'));
    const sums = {};
    for (const [name, [expected]] of Object.entries(EXPECTED)) {
        for (let i = 0; i < CALLS; i++) {
            const reply = await as(gateway, name, { user: 'ann' });
            assert.equal(reply.status, 200, `${name}: ${reply.body}`);
            assert.ok(json(reply).usage.completion_tokens > 0);
        }
        assert.deepEqual(await logged(gateway, name, CALLS), expected, name);
        assert.deepEqual(await counted(gateway, name), expected, name);
        for (const [why, n] of Object.entries(expected)) {
            sums[why] = (sums[why] ?? 0) + n;
            const said = await explained(gateway, name, why, '&user=ann&tokens=30');
            assert.ok(said.admitted, name);
            const would = said.limits.filter(([, , refuses]) => refuses);
            assert.ok(would.length > 0, `${name}: ${why}`);
            for (const [, mode] of would) assert.equal(mode, 'shadow', `${name}: ${why}`);
        }
        /* A user who has not come yet is in shadow too. */
        assert.ok((await explained(gateway, name, 'budget', '&user=bob&tokens=30')).admitted, name);
    }
    const before = (await admin(gateway, 'snapshot')).counters;
    assert.deepEqual(before.would_deny_by_reason, sums);
    assert.equal(before.refused, 0);
    const spent = (await gateway.spend()).total;
    assert.equal(spent.calls, CALLS * Object.keys(EXPECTED).length);

    await reload(tenants('enforce'));
    for (const [name, [, why]] of Object.entries(EXPECTED)) {
        const said = await explained(gateway, name, 'rate', '&user=ann&tokens=30');
        assert.equal(said.admitted, false, name);
        const reply = await as(gateway, name, { user: 'ann' });
        assert.equal(reason(reply), why, `${name}: ${reply.status} ${reply.body}`);
    }
    assert.deepEqual((await gateway.spend()).total, spent, 'what was spent is spent');
    assert.deepEqual(await counted(gateway), sums, 'what was counted is counted');

    await reload(tenants('shadow'));
    for (const name of Object.keys(EXPECTED))
        assert.equal((await as(gateway, name, { user: 'ann' })).status, 200, name);
});

test('the concurrency of a tenant in shadow, and of its parent', async (t) => {
    const list = (mode) => {
        const made = [
            { name: 'own', mode, concurrency: 1 },
            { name: 'house', mode, concurrency: 1 },
            { name: 'child', parent: 'house' },
        ];
        for (const one of made) one.keys = [{ name: 'main', sha256: sha256(keyOf(one.name)) }];
        return { tenants: made, top: { gate: {} } };
    };
    const { gateway, mock, reload } = await start(t, {
        script: { default: { fault: 'hang' } },
        ...list('shadow'),
    });
    for (const name of ['own', 'child']) {
        const letGo = await together(gateway, mock, name, 3);
        const said = await explained(gateway, name, 'peer_limit');
        assert.deepEqual(said.limits, [[name === 'own' ? 'tenant' : 'parent', 'shadow', true]]);
        assert.ok(said.admitted);
        await reload(list('enforce'));
        assert.equal(reason(await as(gateway, name)), 'peer_limit', 'those that run count');
        letGo();
        assert.deepEqual(await logged(gateway, name, 4), { peer_limit: 2 });
        assert.deepEqual(await counted(gateway, name), { peer_limit: 2 });
        await reload(list('shadow'));
        await gateway.idle();
    }
});

test('a protected route: the stages of its gate are in shadow too', async (t) => {
    const waiting = [];
    const server = http.createServer((request, response) => waiting.push(response));
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    t.after(() => server.close());
    const change = (enforced) => {
        const made = stages(enforced);
        made.top.protect = [
            { prefix: '/api', upstream: `http://127.0.0.1:${server.address().port}` },
        ];
        return made;
    };
    const { gateway, reload } = await start(t, change(null));
    await until('memory has been read', async () =>
        /^admission_memory_usage 0/m.test(await gateway.metricsText()));
    const ask = () => send(gateway.url, '/api/x', undefined, { headers: { authorization: '' } });
    const held = [ask(), ask(), ask()];
    await until('all are upstream', () => waiting.length === 3);
    for (const [stage, why] of [
        ['memory', 'memory_pressure'],
        ['peers', 'peer_limit'],
        ['concurrency', 'concurrency'],
    ]) {
        await reload(change(stage));
        assert.equal(reason(await ask()), why);
    }
    await reload(change(null));
    for (const response of waiting) response.end('here');
    for (const reply of await Promise.all(held)) assert.equal(reply.status, 200);
    await gateway.idle();
    const seen = await counted(gateway);
    assert.ok(seen.memory_pressure >= 3, JSON.stringify(seen));
    assert.ok(seen.peer_limit >= 2 && seen.concurrency >= 2, JSON.stringify(seen));
});
