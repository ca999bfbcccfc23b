/* me.mjs - GET /tollgate/v1/me: what a tenant sees of itself, and that it costs nobody anything. */
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import test from 'node:test';
import {
    calls,
    chat,
    EXACT,
    EXACT_COST,
    json,
    KEY,
    need,
    OTHER_KEY,
    reason,
    send,
    sha256,
    tenant,
    until,
    world,
} from './kit.mjs';
import { patientFleet, Redis, stored, window } from './redis_kit.mjs';

const Ajv = need('ajv').default;
const YAML = need('yaml');

/* ---- asking ---- */

const PATH = '/tollgate/v1/me';
const DAY = 86400000;

const ajv = new Ajv({ strict: false, allErrors: true });
ajv.addSchema(YAML.parse(fs.readFileSync('docs/openapi.yaml', 'utf8')), 'api');
const valid = ajv.compile({ $ref: 'api#/components/schemas/Me' });

const look = (gateway, key = KEY, headers = {}, more = {}) =>
    send(gateway.url, PATH, undefined, { headers: { authorization: `Bearer ${key}`, ...headers }, ...more });

/* What a tenant is told, in the form that is documented; refused looks are made again. */
async function me(gateway, key, headers) {
    let reply;
    await until('it may ask', async () => {
        reply = await look(gateway, key, headers);
        return reply.status !== 429;
    });
    assert.equal(reply.status, 200, reply.body.toString());
    assert.equal(reply.headers['cache-control'], 'no-store');
    const said = json(reply);
    assert.ok(valid(said), `${ajv.errorsText(valid.errors)}\n${reply.body}`);
    return said;
}

const limitOf = (said, scope, axis = 'rate') =>
    said.limits.find((limit) => limit.scope === scope && limit.axis === axis);
const budgetOf = (said, scope) => said.budgets.find((budget) => budget.scope === scope);

const other = (more = {}) => ({
    name: 'two-of-the-others',
    keys: [{ name: 'secundus', sha256: sha256(OTHER_KEY) }],
    ...more,
});

const TREE = {
    small: EXACT,
    top: { budgets: [{ usd: 1000, per: 'month' }], aliases: { fast: 'small', other: 'claude' } },
    tenants: [
        { name: 'dept', budgets: [{ usd: 200, per: 'month' }], rate: window(600) },
        tenant({
            parent: 'dept',
            keys: [{ name: 'main', sha256: sha256(KEY), not_after: '2099-12-31T00:00:00Z' }],
            models: ['small'],
            concurrency: 7,
            rate: window(60),
            limits: [{ models: ['small'], tpm: 100000 }, { models: ['claude-*'], rpm: 5 }],
            users: { from: 'header:x-user', max: 10, each: { rpm: 5, budgets: [{ usd: 1, per: 'day' }] } },
            budgets: [
                { usd: 2, per: 'day' },
                { usd: 50, per: 'total' },
            ],
        }),
        other({ parent: 'dept', rate: window(9), budgets: [{ usd: 3, per: 'day' }] }),
    ],
};

/* ---- one gateway ---- */

test('me: a tenant sees its limits, budgets, spend and models, and nothing of the others', async (t) => {
    const { gateway } = await world(t, TREE);
    for (let i = 0; i < 3; i++) assert.equal((await chat(gateway, {}, { headers: { 'x-user': 'bob' } })).status, 200);
    assert.equal((await chat(gateway, {}, { headers: { authorization: `Bearer ${OTHER_KEY}` } })).status, 200);
    await gateway.idle();
    const said = await me(gateway, KEY, { 'x-user': 'bob' });
    assert.equal(said.tenant, 'one');
    assert.equal(said.parent, 'dept');
    assert.deepEqual(said.key, { known_by: 'key', name: 'main', not_after: Date.UTC(2099, 11, 31) });
    assert.equal(said.user, 'bob');
    assert.deepEqual(said.models, ['small', 'fast']);
    assert.equal(said.store, null);
    assert.equal(said.limits_scope, 'gateway');
    assert.deepEqual(
        said.limits.map((limit) => [limit.axis, limit.scope, limit.name, limit.limit, limit.left, limit.models]),
        [
            ['concurrency', 'tenant', 'one', 7, 7, null],
            ['rate', 'tenant', 'one', 60, 57, null],
            ['rate', 'tenant', 'one', 5, 5, ['claude-*']],
            ['rate', 'user', 'bob', 5, 2, null],
            ['rate', 'parent', 'dept', 600, 596, null],
            ['cost', 'tenant', 'one', 100000, limitOf(said, 'tenant', 'cost').left, ['small']],
        ],
    );
    assert.equal(limitOf(said, 'tenant').strategy, 'fixed_window');
    assert.ok(limitOf(said, 'tenant').reset_at > said.at);
    assert.deepEqual(
        said.budgets.map((b) => [b.scope, b.name, b.per, b.amount_micro_usd, b.spent_micro_usd, b.left_micro_usd]),
        [
            ['parent', 'dept', 'month', 200e6, null, 200e6 - 4 * EXACT_COST],
            ['tenant', 'one', 'day', 2e6, 3 * EXACT_COST, 2e6 - 3 * EXACT_COST],
            ['tenant', 'one', 'total', 50e6, 3 * EXACT_COST, 50e6 - 3 * EXACT_COST],
            ['user', 'bob', 'day', 1e6, 3 * EXACT_COST, 1e6 - 3 * EXACT_COST],
        ],
    );
    const day = budgetOf(said, 'tenant');
    assert.equal(day.ends_at - day.begins_at, DAY);
    assert.ok(day.begins_at <= said.at && said.at < day.ends_at);
    const { spend } = said;
    assert.equal(spend.until - spend.since, 31 * DAY);
    assert.equal(spend.month.micro_usd, 3 * EXACT_COST);
    assert.deepEqual(spend.by_day.map((row) => [row.day, row.calls, row.micro_usd]), [[day.begins_at, 3, 3 * EXACT_COST]]);
    assert.deepEqual(spend.by_model.map((row) => [row.model, row.calls]), [['small', 3]]);
    /* Of the others, of everyone and of providers there is no word. */
    const text = JSON.stringify(said);
    for (const word of ['two-of-the-others', 'secundus', 'everyone', 'oai', '1000000000'])
        assert.ok(!text.includes(word), `${word} is said: ${text}`);
    /* Without a user there is nothing of users. */
    const alone = await me(gateway);
    assert.equal(alone.user, null);
    assert.equal(limitOf(alone, 'user'), undefined);
    assert.equal(budgetOf(alone, 'user'), undefined);
    assert.equal(limitOf(await me(gateway, OTHER_KEY), 'tenant').left, 8);
});

test('me: a key sees what it has of its own below its tenant, and not that of its siblings', async (t) => {
    const { gateway } = await world(t, {
        small: EXACT,
        tenants: [
            tenant({
                rate: window(60),
                keys: [
                    { name: 'ci', sha256: sha256(KEY), models: ['small'], limits: [{ rpm: 10 }], budgets: [{ usd: 1, per: 'day' }] },
                    { name: 'prod', sha256: sha256(OTHER_KEY), limits: [{ rpm: 20 }] },
                ],
            }),
        ],
    });
    const prod = { headers: { authorization: `Bearer ${OTHER_KEY}` } };
    for (const options of [undefined, undefined, prod]) assert.equal((await chat(gateway, {}, options)).status, 200);
    await gateway.idle();
    const said = await me(gateway);
    assert.equal(said.key.name, 'ci');
    assert.deepEqual(said.models, ['small']);
    assert.deepEqual(
        said.limits.filter((limit) => limit.axis === 'rate').map((limit) => [limit.scope, limit.name, limit.limit, limit.left]).sort(),
        [
            ['key', 'ci', 10, 8],
            ['tenant', 'one', 60, 57],
        ],
    );
    assert.equal(budgetOf(said, 'key').name, 'ci');
    assert.equal(budgetOf(said, 'key').spent_micro_usd, 2 * EXACT_COST);
    assert.equal(budgetOf(said, 'key').left_micro_usd, 1e6 - 2 * EXACT_COST);
    assert.equal(budgetOf(said, 'tenant').spent_micro_usd, 3 * EXACT_COST);
    const byKey = (spend) => spend.by_key.map((row) => [row.key, row.calls]).sort();
    assert.deepEqual(byKey(said.spend), [['ci', 2], ['prod', 1]]);
    const other = await me(gateway, OTHER_KEY);
    assert.deepEqual(other.models, ['small', 'claude']);
    assert.equal(budgetOf(other, 'key'), undefined);
    assert.deepEqual([limitOf(other, 'key').name, limitOf(other, 'key').left], ['prod', 19]);
});

test('me: who is over a limit or out of money sees why', async (t) => {
    const { gateway } = await world(t, {
        small: EXACT,
        tenants: [
            tenant({ budgets: [{ usd: (2 * EXACT_COST) / 1e6, per: 'day' }], rate: window(4) }),
            other({ rate: window(1) }),
        ],
    });
    const statuses = [];
    for (let i = 0; i < 5; i++) statuses.push((await chat(gateway)).status);
    assert.deepEqual(statuses, [200, 200, 402, 402, 402]);
    for (const status of [200, 429])
        assert.equal((await chat(gateway, {}, { headers: { authorization: `Bearer ${OTHER_KEY}` } })).status, status);
    const said = await me(gateway);
    assert.equal(budgetOf(said, 'tenant').left_micro_usd, 0);
    assert.equal(budgetOf(said, 'tenant').spent_micro_usd, 2 * EXACT_COST);
    assert.deepEqual(said.refusals.map((r) => [r.status, r.reason, r.limit_of]), Array(3).fill([402, 'budget', 'tenant one']));
    for (const refusal of said.refusals) {
        assert.match(refusal.message, /^budget of tenant one: /);
        assert.equal(refusal.model, 'small');
        assert.ok(refusal.at <= said.at && refusal.at > said.at - DAY);
    }
    const second = await me(gateway, OTHER_KEY);
    assert.deepEqual(second.refusals.map((r) => [r.status, r.reason, r.binding_axis, r.limit, r.left]), [[429, 'rate', 'rate', 1, 0]]);
    assert.match(second.refusals[0].message, /^rate limit of tenant two-of-the-others: /);
});

test('me: a loud tenant does not push the refusals of a quiet one out', async (t) => {
    const { gateway } = await world(t, { tenants: [tenant({ rate: window(1) }), other({ rate: window(1) })] });
    const quiet = { headers: { authorization: `Bearer ${OTHER_KEY}` } };
    for (let i = 0; i < 2; i++) await chat(gateway, {}, quiet);
    const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
    const refused = await calls(2000, () => chat(gateway, {}, { agent }));
    agent.destroy();
    assert.equal(refused.filter((reply) => reply.status === 429).length, 1999);
    assert.equal((await me(gateway, OTHER_KEY)).refusals.length, 1);
    const loud = await me(gateway);
    assert.ok(loud.refusals.length >= 10 && loud.refusals.length <= 32);
    assert.ok(loud.refusals_left_out > 0 && loud.refusals_left_out < 1999);
});

test('me: others get what others get', async (t) => {
    const { gateway } = await world(t);
    for (const method of ['HEAD', 'POST', 'PUT', 'DELETE']) {
        const reply = await look(gateway, KEY, {}, { method });
        assert.equal(reply.status, 405, method);
        assert.equal(reply.headers.allow, 'GET');
    }
    for (const headers of [{ authorization: 'Bearer nobody' }, { authorization: '' }, { 'x-api-key': OTHER_KEY }]) {
        const known = await send(gateway.url, '/v1/models', undefined, { headers });
        const reply = await send(gateway.url, PATH, undefined, { headers });
        assert.equal(reply.status, 401);
        assert.deepEqual(json(reply), json(known));
        assert.equal(reason(reply), reason(known));
    }
    assert.equal((await look(gateway, 'nobody', { 'anthropic-version': '2023-06-01' })).status, 401);
    assert.equal(json(await look(gateway, 'nobody', { 'anthropic-version': '2023-06-01' })).type, 'error');
    assert.equal((await send(gateway.url, `${PATH}?tenant=dept`)).status, 400);
    assert.equal((await send(gateway.url, PATH, {}, { method: 'GET' })).status, 400);
    for (const header of ['x-api-key', 'api-key'])
        assert.equal((await send(gateway.url, PATH, undefined, { headers: { authorization: '', [header]: KEY } })).status, 200);
    /* A path beside it is none of its own. */
    assert.equal((await send(gateway.url, `${PATH}x`)).status, 404);
});

test('me: asking is bounded for each tenant by itself, and is no call', async (t) => {
    const { gateway } = await world(t, {
        top: { workers: 2 },
        tenants: [tenant({ rate: window(1000) }), other({ rate: window(1000) })],
    });
    const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
    const asked = (key) =>
        send(gateway.url, PATH, undefined, { headers: { authorization: `Bearer ${key}` }, agent });
    let answered = 0;
    const asks = calls(10000, async () => {
        const reply = await asked(KEY);
        if (reply.status === 200) answered++;
        else {
            assert.equal(reply.status, 429, reply.body.toString());
            assert.equal(reason(reply), 'rate');
            assert.ok(Number(reply.headers['retry-after-ms']) >= 1);
        }
    });
    const made = [];
    for (let i = 0; i < 50; i++) made.push((await chat(gateway)).status);
    assert.equal((await asked(OTHER_KEY)).status, 200);
    await asks;
    agent.destroy();
    assert.ok(answered >= 8, `${answered} were answered`);
    assert.deepEqual(new Set(made), new Set([200]));
    await gateway.idle();
    const seen = await gateway.metrics();
    assert.equal(seen.calls_total, 50);
    assert.equal(seen.refused_total ?? 0, 0);
    assert.equal(seen.requests_total, 50);
    const said = await me(gateway);
    assert.equal(limitOf(said, 'tenant').left, 950);
    assert.equal(said.spend.month.calls, 50);
    assert.deepEqual(said.refusals, []);
});

test('me: whoever hangs up meanwhile leaves nothing behind', async (t) => {
    const { gateway } = await world(t);
    await calls(40, async () => {
        const reply = look(gateway);
        reply.request.on('socket', (socket) => socket.on('connect', () => setImmediate(() => socket.destroy())));
        await reply.catch(() => {});
    });
    await gateway.idle();
    assert.equal((await me(gateway)).tenant, 'one');
});

test('me: a key that a reload takes away sees nothing any more', async (t) => {
    const { gateway, config } = await world(t, { tenants: [tenant(), other()] });
    assert.equal((await me(gateway, OTHER_KEY)).tenant, 'two-of-the-others');
    await gateway.reload({ ...config, tenants: [tenant({ rate: window(77) })] });
    assert.equal((await look(gateway, OTHER_KEY)).status, 401);
    assert.equal(limitOf(await me(gateway), 'tenant').left, 77);
});

test('me: a tenant with very many limits is told of as many as there is room for', async (t) => {
    const limits = Array.from({ length: 70 }, (_, i) => ({ models: [`model-${i}-*`], rpm: 5 + i }));
    const { gateway } = await world(t, { tenants: [tenant({ rate: window(9), limits }), other({ limits: limits.slice(0, 60) })] });
    const said = await me(gateway);
    assert.equal(said.limits_truncated, true);
    assert.deepEqual(said.limits.filter((limit) => limit.axis === 'rate').map((limit) => limit.limit).slice(0, 3), [9, 5, 6]);
    assert.equal(said.limits.filter((limit) => limit.axis === 'rate').length, 64);
    const second = await me(gateway, OTHER_KEY);
    assert.equal(second.limits_truncated, false);
    assert.equal(second.limits.filter((limit) => limit.axis === 'rate').length, 60);
});

test('me: over HTTP/2, too, and many at once', async (t) => {
    const { gateway } = await world(t);
    const session = http2.connect(gateway.url);
    t.after(() => session.destroy());
    const statuses = await calls(12, async () => {
        const stream = session.request({ ':path': PATH, authorization: `Bearer ${KEY}` });
        const [headers] = await once(stream, 'response');
        let text = '';
        for await (const part of stream) text += part;
        const said = JSON.parse(text);
        if (headers[':status'] === 200) assert.ok(valid(said), ajv.errorsText(valid.errors));
        return headers[':status'];
    });
    assert.ok(statuses.filter((status) => status === 200).length >= 8);
    assert.ok(statuses.every((status) => status === 200 || status === 429));
});

/* ---- tokens ---- */

test('me: a caller with a token sees the tenant, and of refusals his own', async (t) => {
    const { publicKey, privateKey } = crypto.generateKeyPairSync('rsa', { modulusLength: 2048 });
    const issuer = http.createServer((request, reply) => {
        const jwk = { ...publicKey.export({ format: 'jwk' }), kid: 'k', use: 'sig', alg: 'RS256' };
        reply.end(JSON.stringify({ keys: [jwk] }));
    });
    await new Promise((done) => issuer.listen(0, '127.0.0.1', done));
    t.after(() => issuer.close());
    const token = (sub) => {
        const now = Math.floor(Date.now() / 1000);
        const text = [
            { alg: 'RS256', kid: 'k' },
            { iss: 'https://id.example', aud: 'tollgate', iat: now, exp: now + 300, team: 'one', sub },
        ]
            .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
            .join('.');
        return `${text}.${crypto.sign('sha256', Buffer.from(text), privateKey).toString('base64url')}`;
    };
    const { gateway } = await world(t, {
        top: {
            callers_jwt: {
                issuer: 'https://id.example',
                jwks: `http://127.0.0.1:${issuer.address().port}/`,
                audience: 'tollgate',
                tenant: 'claim:team',
                user: 'claim:sub',
            },
        },
        tenants: [tenant({ users: { from: 'header:x-user', max: 10, each: { rpm: 1 } } })],
    });
    await until('the keys have come', async () => (await look(gateway, token('nobody'))).status !== 503);
    for (const user of ['alice', 'bob', 'bob'])
        for (let i = 0; i < 2; i++) await chat(gateway, {}, { headers: { authorization: `Bearer ${token(user)}` } });
    const alice = await me(gateway, token('alice'), { 'x-user': 'bob' });
    assert.deepEqual(alice.key, { known_by: 'token', name: null, not_after: null });
    assert.equal(alice.user, 'alice');
    assert.equal(limitOf(alice, 'user').left, 0);
    assert.deepEqual(alice.refusals.map((r) => r.user), ['alice']);
    assert.deepEqual((await me(gateway, token('bob'))).refusals.map((r) => r.user), ['bob', 'bob', 'bob']);
    assert.equal((await me(gateway)).refusals.length, 4); /* the tenant's own key */
    assert.equal((await look(gateway, token('alice').slice(0, -4))).status, 401);
});

/* ---- several gateways ---- */

for (const [name, enabled] of [
    ['strict', false],
    ['two tiers', true],
])
    test(`me: two gateways tell the same of what they share (Redis, ${name})`, async (t) => {
        const redis = await Redis.start(t);
        const { gateways } = await patientFleet(t, 2, redis.url, {
            small: EXACT,
            tenant: { rate: window(100), budgets: [{ usd: 1, per: 'total' }] },
            top: { two_tier: { enabled } },
        });
        for (let i = 0; i < 30; i++) assert.equal((await chat(gateways[i % 2])).status, 200);
        await Promise.all(gateways.map((gateway) => gateway.idle()));
        for (const gateway of gateways) {
            let said;
            await until('what was spent is known to all', async () => {
                said = await me(gateway);
                return budgetOf(said, 'tenant').spent_micro_usd === 30 * EXACT_COST;
            });
            assert.deepEqual(said.store, { state: 'ok' });
            assert.equal(said.limits_scope, 'fleet');
            assert.equal(said.budgets_scope, 'fleet');
            /* Units that the other gateway has leased in advance are not left for this one. */
            const { left } = limitOf(said, 'tenant');
            assert.ok(enabled ? left <= 70 : left === 70, `${left} left`);
            assert.equal(said.spend.scope, 'gateway');
            assert.equal(said.spend.month.calls, 15);
        }
    });

test('me: with the store away a gateway tells what it knows, and says so', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await patientFleet(t, 1, redis.url, {
        small: EXACT,
        tenant: { rate: window(100), budgets: [{ usd: 1, per: 'total' }] },
    });
    for (let i = 0; i < 3; i++) assert.equal((await chat(gateways[0])).status, 200);
    await gateways[0].idle();
    await redis.kill();
    await stored(gateways[0], 'down');
    const said = await me(gateways[0]);
    assert.deepEqual(said.store, { state: 'down' });
    assert.equal(said.limits_scope, 'gateway');
    assert.equal(said.budgets_scope, 'gateway');
    assert.equal(said.spend.month.calls, 3);
    assert.equal(budgetOf(said, 'tenant').spent_micro_usd, 3 * EXACT_COST);
});
