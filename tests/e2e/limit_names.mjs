/* limit_names.mjs - the limit that bound is the one that is named: on the wire, in the log, in the
 * snapshot, in the watch and in the metrics, by Admit and protected routes, with limits in memory and
 * in Redis.
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import {
    ADMIN_TOKEN,
    chat,
    fails,
    json,
    KEY,
    message,
    OTHER_KEY,
    reason,
    send,
    sha256,
    until,
    world,
} from './kit.mjs';
import { admission, ask, callers, fixed, serving, TOKEN } from './grpc_kit.mjs';
import { Redis } from './redis_kit.mjs';

const key = (secret) => [{ name: 'main', sha256: sha256(secret) }];
const bearer = (secret, more = {}) => ({ headers: { authorization: `Bearer ${secret}`, ...more } });

/* A department, and two of its tenants. */
const department = (dept, each) => [
    { name: 'dept', limits: [{ rpd: dept }] },
    { name: 'hr-bot', parent: 'dept', keys: key(KEY), limits: [{ rpd: each }] },
    { name: 'legal', parent: 'dept', keys: key(OTHER_KEY), limits: [{ rpd: each }] },
];

const stores = {
    memory: async () => ({}),
    'Redis, strict': async (t) => ({
        store: (await Redis.start(t)).url,
        two_tier: { enabled: false },
    }),
    'Redis, two-tier': async (t) => ({
        store: (await Redis.start(t)).url,
        two_tier: { enabled: true },
    }),
};

async function open(t, store, tenants) {
    const { gateway } = await world(t, {
        tenants,
        top: {
            workers: 1,
            admin_auth: { token: ADMIN_TOKEN },
            ...(await stores[store](t)),
        },
        listen: { admin: '127.0.0.1:0' },
    });
    const port = (await gateway.process.said(/127\.0\.0\.1:(\d+) \(admin\)/))[1];
    const options = { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } };
    const admin = `http://127.0.0.1:${port}/api/v1`;
    const watched = { text: '' };
    await new Promise((done) => {
        const request = http.get(`${admin}/watch`, options, (response) => {
            response.on('data', (bytes) => (watched.text += bytes));
            response.on('error', () => {});
            done();
        });
        request.on('error', () => {});
        t.after(() => request.destroy());
    });
    const snapshot = async () => (await fetch(`${admin}/snapshot`, options)).json();
    return { gateway, watched, snapshot };
}

/* Everybody who speaks of this refusal says the same. */
async function expectNamed({ gateway, watched, snapshot }, refusal, text, limit) {
    assert.equal(refusal.status, 429, String(refusal.body));
    assert.equal(reason(refusal), 'rate');
    assert.match(json(refusal).error.message, text);
    assert.equal(refusal.headers['x-ratelimit-limit-requests'], String(limit));
    assert.equal(refusal.headers['x-ratelimit-remaining-requests'], '0');
    const said = json(refusal).error.message;
    await until('the watch says it', () => watched.text.includes(JSON.stringify(said)));
    const denial = (await snapshot()).denials[0];
    assert.equal(denial.text, said);
    assert.equal(denial.limit_of, 'tenant dept');
    assert.equal(denial.limit_rule, `${limit} calls a day`);
    assert.equal(denial.limit, limit);
    assert.equal(denial.remaining, 0);
    const line = await until('it is logged', () =>
        gateway.lines().find((one) => one.msg === 'request' && one.reason === 'rate'),
    );
    assert.equal(line.limit_of, 'tenant dept');
    assert.equal(line.limit_rule, `${limit} calls a day`);
    assert.equal(line.limit, limit);
    assert.equal(line.remaining, 0);
    const labels = ['limit_of="tenant dept"', 'reason="rate"'];
    assert.equal(await gateway.metric('denied_by_limit_total', ...labels), 1);
}

for (const store of ['memory', 'Redis, strict']) {
    test(`D2 a parent that refuses is named, not the child (${store})`, async (t) => {
        const all = await open(t, store, department(6, 5));
        for (let i = 0; i < 5; i++) assert.equal((await chat(all.gateway)).status, 200);
        const sixth = await chat(all.gateway, {}, bearer(OTHER_KEY));
        assert.equal(sixth.status, 200);
        /* 0 of 6 is less in proportion than 4 of 5. */
        assert.equal(sixth.headers['x-ratelimit-limit-requests'], '6');
        assert.equal(sixth.headers['x-ratelimit-remaining-requests'], '0');
        const refusal = await chat(all.gateway, {}, bearer(OTHER_KEY));
        const text = /^rate limit of tenant dept: 6 calls a day, 0 left, next in (4 h|3 h \d+ min)$/;
        await expectNamed(all, refusal, text, 6);
        /* Anthropic's form of the same. */
        const other = await message(all.gateway, {}, bearer(OTHER_KEY));
        assert.equal(other.headers['anthropic-ratelimit-requests-limit'], '6');
        assert.equal(other.headers['anthropic-ratelimit-requests-remaining'], '0');
    });

    test(`D2 a user's first call names the parent that refuses it (${store})`, async (t) => {
        const users = { from: 'header:x-tollgate-user', each: { rpd: 2 } };
        const all = await open(t, store, [
            { name: 'dept', limits: [{ rpd: 4 }] },
            { name: 'hr-bot', parent: 'dept', keys: key(KEY), users },
        ]);
        for (const user of ['ann', 'ann', 'bob', 'bob'])
            assert.equal((await chat(all.gateway, {}, bearer(KEY, { 'x-tollgate-user': user }))).status, 200);
        const carl = await chat(all.gateway, {}, bearer(KEY, { 'x-tollgate-user': 'carl' }));
        const text = /^rate limit of tenant dept: 4 calls a day, 0 left, next in (6 h|5 h \d+ min)$/;
        await expectNamed(all, carl, text, 4);
    });
}

/* Blocks are leased ahead, so nobody can say after how many calls the department's are used up; but
 * when they are, it is the department that is named. */
test('D2 a parent that refuses is named, not the child (Redis, two-tier)', async (t) => {
    const { gateway } = await open(t, 'Redis, two-tier', department(60, 50));
    let refusal;

    for (let i = 0; i < 45; i++) await chat(gateway);
    await until('legal is refused', async () => {
        const reply = await chat(gateway, {}, bearer(OTHER_KEY));
        refusal = reply.status === 200 ? undefined : reply;
        return refusal !== undefined;
    });
    assert.equal(reason(refusal), 'rate');
    assert.match(
        json(refusal).error.message,
        /^rate limit of tenant dept: 60 calls a day, \d+ left, next in /,
    );
    assert.equal(refusal.headers['x-ratelimit-limit-requests'], '60');
});

/* So many calls of one user, and then more until one is refused. */
async function userRefused(gateway, user, least) {
    const as = bearer(KEY, { 'x-tollgate-user': user });
    let refusal;

    for (let i = 0; i < least; i++) assert.equal((await chat(gateway, {}, as)).status, 200);
    await until(`${user} is refused`, async () => {
        const reply = await chat(gateway, {}, as);
        refusal = reply.status === 200 ? undefined : reply;
        return refusal !== undefined;
    });
    assert.equal(reason(refusal), 'rate');
    return refusal;
}

test("D2 a user's own limit and that of its tenant's parent are told apart (Redis, two-tier)", async (t) => {
    const users = { from: 'header:x-tollgate-user', each: { rpd: 12 } };
    const { gateway } = await open(t, 'Redis, two-tier', [
        { name: 'dept', limits: [{ rpd: 40 }] },
        { name: 'hr-bot', parent: 'dept', keys: key(KEY), users },
    ]);
    const own = await userRefused(gateway, 'ann', 6);
    assert.match(
        json(own).error.message,
        /^rate limit of user ann of tenant hr-bot: 12 calls a day, \d+ left, next in /,
    );
    assert.equal(own.headers['x-ratelimit-limit-requests'], '12');
    for (const user of ['bob', 'carl', 'dora', 'emil', 'fred', 'gina', 'hans'])
        for (let i = 0; i < 5; i++) await chat(gateway, {}, bearer(KEY, { 'x-tollgate-user': user }));
    const parent = await userRefused(gateway, 'iris', 0);
    assert.match(
        json(parent).error.message,
        /^rate limit of tenant dept: 40 calls a day, \d+ left, next in /,
    );
    assert.equal(parent.headers['x-ratelimit-limit-requests'], '40');
});

test('a user over its own limit is named', async (t) => {
    const users = { from: 'header:x-tollgate-user', each: { rpd: 2 } };
    const { gateway } = await open(t, 'memory', [{ name: 'one', keys: key(KEY), users }]);
    const ann = bearer(KEY, { 'x-tollgate-user': 'ann' });

    for (let i = 0; i < 2; i++) assert.equal((await chat(gateway, {}, ann)).status, 200);
    const refusal = await chat(gateway, {}, ann);
    assert.match(
        json(refusal).error.message,
        /^rate limit of user ann of tenant one: 2 calls a day, 0 left, next in /,
    );
});

/* Users choose their names: they are no label. */
test('limits of users are counted together', async (t) => {
    const users = { from: 'header:x-tollgate-user', each: { rpd: 1 } };
    const { gateway } = await open(t, 'memory', [{ name: 'one', keys: key(KEY), users }]);

    for (const user of ['ann', 'bob'])
        for (let i = 0; i < 2; i++) await chat(gateway, {}, bearer(KEY, { 'x-tollgate-user': user }));
    const text = await gateway.metricsText();
    assert.match(
        text,
        /^tollgate_denied_by_limit_total\{limit_of="users of tenant one",reason="rate"\} 2$/m,
    );
    assert.ok(!text.includes('user ann') && !text.includes('user bob'));
});

test('a budget that refuses is named in the log and in the snapshot', async (t) => {
    const { gateway, snapshot } = await open(t, 'memory', [
        { name: 'dept', budgets: [{ usd: 0.0002, per: 'day' }] },
        { name: 'legal', parent: 'dept', keys: key(KEY) },
    ]);
    const refusal = await until('the budget is spent', async () => {
        const reply = await chat(gateway);
        return reply.status !== 200 && reply;
    });
    assert.match(json(refusal).error.message, /^budget of tenant dept: 0\.0002 USD a day, /);
    const line = await until('it is logged', () =>
        gateway.lines().find((one) => one.msg === 'request' && one.limit_of),
    );
    assert.equal(line.limit_of, 'tenant dept');
    assert.equal(line.limit_rule, '0.0002 USD a day');
    assert.equal(line.limit, 200);
    assert.ok(line.remaining < 200);
    assert.equal((await snapshot()).denials[0].limit_of, 'tenant dept');
});

/* ---- other ways to ask ---- */

const dept = [
    { name: 'dept', limits: [{ rpd: 2 }] },
    { name: 'legal', parent: 'dept', keys: key(KEY), limits: [{ rpd: 5 }] },
];

function expectLimit(limit, of, rule, most) {
    const { reset_at_ms, retry_after_ms, ...rest } = limit;
    assert.deepEqual(rest, { of, rule, limit: most, remaining: 0 });
    assert.ok(reset_at_ms > 0 && retry_after_ms > 0);
}

test('Admit names the limit that refused, in JSON and over gRPC', async (t) => {
    const { gateway, address } = await serving(t, { tenants: dept });
    const client = admission(t, address);
    const admit = (more = {}) =>
        send(gateway.url, '/tollgate/v1/admit', { tenant: 'legal' }, bearer(TOKEN, more));

    for (let i = 0; i < 2; i++) {
        const reply = await admit();
        assert.equal(json(reply).allowed, true);
        assert.equal(json(reply).binding_limit, undefined);
        assert.equal(reply.headers['x-ratelimit-limit-requests'], '2', 'it has less in proportion');
    }
    const refused = await admit();
    assert.equal(json(refused).reason, 'rate');
    expectLimit(json(refused).binding_limit, 'tenant dept', '2 calls a day', 2);
    assert.equal(refused.headers['x-ratelimit-limit-requests'], '2');
    assert.equal(refused.headers['x-ratelimit-remaining-requests'], '0');
    const enforced = await admit({ 'x-tollgate-enforce': '1' });
    assert.equal(enforced.status, 429);
    assert.match(json(enforced).error.message, /^rate limit of tenant dept: 2 calls a day, 0 left, /);
    assert.equal(enforced.headers['x-ratelimit-limit-requests'], '2');

    const told = await ask(client, 'Admit', { tenant: 'legal' });
    expectLimit(told.binding_limit, 'tenant dept', '2 calls a day', 2);
    assert.equal((await ask(client, 'Admit', { tenant: 'other' })).binding_limit, null);
    const error = await fails(
        ask(client, 'Admit', { tenant: 'legal' }, { more: { 'x-tollgate-enforce': '1' } }),
    );
    assert.deepEqual(error.metadata.get('x-ratelimit-limit-requests'), ['2']);
});

test('a caller of Admit that is out of slots of its own is told so, by a peek, too', async (t) => {
    const own = { law: 'fixed', initial: 1, min: 1, max: 1 };
    const { address } = await serving(t, {
        top: { callers: callers().map((one) => ({ ...one, concurrency: own })), gate: fixed(100) },
    });
    const client = admission(t, address);

    assert.equal((await ask(client, 'Admit')).allowed, true);
    for (const method of ['Admit', 'Peek']) {
        const refused = await ask(client, method);
        assert.equal(refused.reason, 'concurrency');
        assert.match(refused.message, /^server overloaded: concurrency limit of caller envoy: 1 call /);
        expectLimit(refused.binding_limit, 'caller envoy', '1 call at once', 1);
    }
});

test('a protected route names the limit that refused', async (t) => {
    const { gateway } = await world(t, {
        tenants: dept,
        top: { protect: [{ prefix: '/api', upstream: 'http://127.0.0.1:1' }] },
    });
    const ask = () => send(gateway.url, '/api/x');

    for (let i = 0; i < 2; i++) assert.equal((await ask()).status, 502, 'nobody is there');
    const refused = await ask();
    assert.equal(refused.status, 429);
    assert.match(json(refused).error.message, /^rate limit of tenant dept: 2 calls a day, 0 left, /);
    assert.equal(refused.headers['x-ratelimit-limit-requests'], '2');
    assert.equal(refused.headers['x-ratelimit-remaining-requests'], '0');
});
