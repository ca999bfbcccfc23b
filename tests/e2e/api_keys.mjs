/* api_keys.mjs - virtual keys that the admin API makes with settings of their own: as exact on two gateways as those of a
 * file, kept over restarts and takeovers, and never looser than they were made. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { api, AT_ONCE, begin, conforms, fleetOf, gatewaysOn, made, spendAll, standing, withKey } from './fleet_kit.mjs';
import { ADMIN_TOKEN, calls, chat, EXACT, EXACT_COST, json, KEY, noSecrets, reason, send, sha256, until, world } from './kit.mjs';
import { isDecidedAlike, recordingFile, replayed, run } from './recording_kit.mjs';
import { Redis } from './redis_kit.mjs';

const usd = (n) => [{ usd: (n * EXACT_COST) / 1e6, per: 'total' }];
const text = (reply) => json(reply).error.message;

const ways = [
    ['strict', false],
    ['two tiers', true],
];

/* A change at the first gateway, once it holds at all. */
async function everywhere(gateways, method, target, body) {
    const reply = await made(gateways[0], method, target, body);
    for (const gateway of gateways)
        await until('it holds here', async () => (await fleetOf(gateway)).version >= reply.version);
    return reply.json;
}

const keyOf = async (gateway, name, tenant = 'one') =>
    (await made(gateway, 'GET', `/tenants/${tenant}`)).json.keys.find((key) => key.name === name);

/* ---- two gateways ---- */

for (const [way, tiers] of ways) {
    test(`a key of the API has a budget that is exact with ${AT_ONCE} calls at once on two gateways, ${way}`, async (t) => {
        const redis = await Redis.start(t);
        const { gateways, mock } = await gatewaysOn(t, 2, redis, { tiers, tenant: { budgets: usd(150) } });
        const [a, b] = gateways;
        const ci = await everywhere(gateways, 'POST', '/tenants/one/keys', { name: 'ci', budgets: usd(60) });
        const dev = await everywhere(gateways, 'POST', '/tenants/one/keys', { name: 'dev' });
        const first = await spendAll(gateways, ci.key);
        t.diagnostic(JSON.stringify(first));
        assert.equal(first.served, 60);
        assert.equal((await mock.seen()).begun, 60);

        /* More, less than is spent, and none of its own: at once, at both. */
        await everywhere(gateways, 'PUT', '/tenants/one/keys/ci', { budgets: usd(75) });
        const more = await spendAll(gateways, ci.key);
        t.diagnostic(JSON.stringify(more));
        assert.equal(more.served, 15);
        await everywhere(gateways, 'PUT', '/tenants/one/keys/ci', { budgets: usd(10) });
        for (const gateway of gateways) assert.equal(reason(await chat(gateway, {}, withKey(ci.key))), 'budget');

        /* Made again it is the same key with another secret: what was spent stays spent. */
        await everywhere(gateways, 'DELETE', '/tenants/one/keys/ci');
        for (const gateway of gateways) assert.equal((await chat(gateway, {}, withKey(ci.key))).status, 401);
        const again = await everywhere(gateways, 'POST', '/tenants/one/keys', { name: 'ci', budgets: usd(80) });
        assert.notEqual(again.key, ci.key);
        const rest = await spendAll(gateways, again.key);
        t.diagnostic(JSON.stringify(rest));
        assert.equal(rest.served, 5);
        for (const gateway of gateways) assert.equal((await chat(gateway, {}, withKey(ci.key))).status, 401);

        const others = await spendAll(gateways, dev.key);
        t.diagnostic(JSON.stringify(others));
        assert.equal(others.served, 70); /* what the other key has left of the tenant's, and no more */
        assert.equal((await mock.seen()).begun, 150);
        for (const gateway of [a, b]) {
            const { budgets } = await keyOf(gateway, 'ci');
            assert.equal(budgets[0].limit_micro_usd, 80 * EXACT_COST);
        }
    });

    test(`a key of the API has a limit that is exact with ${AT_ONCE} calls at once on two gateways, ${way}`, async (t) => {
        const redis = await Redis.start(t);
        const { gateways, mock } = await gatewaysOn(t, 2, redis, { tiers, tenant: { limits: [{ rpd: 110 }] } });
        const least = (n) => Math.ceil(n * (tiers ? 0.95 : 1));
        const ci = await everywhere(gateways, 'POST', '/tenants/one/keys', { name: 'ci', limits: [{ rpd: 50 }] });
        const dev = await everywhere(gateways, 'POST', '/tenants/one/keys', { name: 'dev', tags: { team: 'b' } });
        const first = await spendAll(gateways, ci.key, least(50));
        t.diagnostic(JSON.stringify(first));
        assert.deepEqual(Object.keys(first.reasons), ['rate']);
        assert.ok(first.served <= 50, `${first.served} of 50`);
        const rest = await spendAll(gateways, dev.key, least(110) - first.served);
        t.diagnostic(JSON.stringify(rest));
        assert.ok(first.served + rest.served <= 110, `${first.served} and ${rest.served} of 110`);
        assert.equal((await mock.seen()).begun, first.served + rest.served);
    });
}

/* Who was let in with a key that is gone a moment later spends what the key has, or nothing. */
for (const [way, tiers] of ways)
    test(`a key that is changed, revoked and made again under load spends its budget and no more, ${way}`, async (t) => {
        const redis = await Redis.start(t);
        const { gateways, mock } = await gatewaysOn(t, 2, redis, { tiers, tenant: { budgets: usd(3000) } });
        const change = (at, ...what) => everywhere(at ? [...gateways].reverse() : gateways, ...what);
        let budgets = usd(100);
        let { key } = await change(0, 'POST', '/tenants/one/keys', { name: 'ci', budgets });
        let going = true;
        const callers = calls(40, async (i) => {
            while (going) await chat(gateways[i % 2], {}, withKey(key));
        });
        for (let n = 1; n <= 9; n++) {
            budgets = usd(100 + 40 * n);
            await change(n % 2, 'PUT', '/tenants/one/keys/ci', { budgets });
            if (n % 3) continue;
            await change(n % 2, 'DELETE', '/tenants/one/keys/ci');
            if (n === 6) await change(0, 'PUT', '/tenants/other', {}); /* it is not the last change */
            key = (await change(1 - (n % 2), 'POST', '/tenants/one/keys', { name: 'ci', budgets })).key;
        }
        going = false;
        await callers;
        t.diagnostic(JSON.stringify(await spendAll(gateways, key)));
        assert.equal((await mock.seen()).begun, 460);
        let counted = 0;
        for (const gateway of gateways) {
            await gateway.idle();
            const { out } = await run('spend', '-c', gateway.file, '--by', 'key', '--json');
            for (const row of JSON.parse(out).rows) {
                assert.equal(row.key, 'ci', 'nothing is counted beside the key');
                counted += row.calls;
            }
        }
        assert.equal(counted, 460);
    });

test('a key is what was made of it, whoever is asked', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 2, redis, {
        tiers: true,
        models: { spare: { provider: 'oai', ...EXACT, max_output_tokens: 4096 } },
        tenant: { endpoints: ['/v1/files/*'], budgets: usd(1000) },
        top: { passthrough: [{ path: '/v1/files/*', provider: 'oai', per_call: 0.00001 }] },
    });
    const [a, b] = gateways;
    const settings = {
        limits: [{ rpm: 700 }, { models: ['spare'], tpm: 5000 }],
        budgets: usd(300),
        models: ['small'],
        endpoints: ['!/v1/files/*'],
        tags: { team: 'b', cost_centre: '4711' },
        not_after: '2099-01-01T00:00:00Z',
    };
    const { key } = await everywhere(gateways, 'POST', '/tenants/one/keys', { name: 'ci', ...settings });
    for (const gateway of gateways) {
        assert.equal((await chat(gateway, {}, withKey(key))).status, 200);
        assert.equal((await chat(gateway, { model: 'spare' }, withKey(key))).status, 403);
        assert.equal((await send(gateway.url, '/v1/files/f-1', undefined, withKey(key))).status, 404);

        const shown = await made(gateway, 'GET', '/tenants/one');
        conforms('Tenant', shown.json);
        const ci = shown.json.keys.find((one) => one.name === 'ci');
        assert.deepEqual(ci.definition, { name: 'ci', ...settings });
        assert.deepEqual([ci.source, ci.models, ci.endpoints, ci.tags],
            ['api', ['small'], ['!/v1/files/*'], { team: 'b', cost_centre: '4711' }]);
        assert.equal(ci.limits.length, 2);
        assert.equal(ci.budgets[0].limit_micro_usd, 300 * EXACT_COST);

        const explained = (await made(gateway, 'GET', '/explain?tenant=one&model=small&max_tokens=16&key=ci')).json;
        assert.deepEqual(explained.limits.filter((limit) => limit.scope === 'key').map((limit) => limit.stage),
            ['rate', 'budget']);
        const me = json(await send(gateway.url, '/tollgate/v1/me', undefined, withKey(key)));
        assert.equal(me.key.name, 'ci');
        assert.equal(me.key.not_after, Date.parse(settings.not_after));
        assert.deepEqual(me.models, ['small']);
        assert.equal(me.budgets.find((budget) => budget.scope === 'key').amount_micro_usd, 300 * EXACT_COST);
        assert.ok(me.limits.some((limit) => limit.scope === 'key' && limit.limit === 700));
        await until('the log has the tags', () => gateway.lines().some((line) =>
            line.msg === 'request' && line.key === 'ci' && line.tags === 'cost_centre=4711\nteam=b'));
        noSecrets(gateway.process.out);
        assert.ok(!gateway.process.out.includes(key), 'the secret is in no log');
        assert.ok(!shown.text.includes(key));
    }
    const fleet = (await made(b, 'GET', '/snapshot?scope=fleet')).json;
    const row = fleet.budgets.find((budget) => budget.key === 'ci');
    assert.equal(row.tenant, 'one');
    assert.equal(row.limit_micro_usd, 300 * EXACT_COST);
    assert.equal(fleet.budgets.filter((budget) => budget.key === null).length, 1);
    await until('the store has what was spent', async () =>
        (await made(b, 'GET', '/snapshot?scope=fleet')).json.budgets.find((budget) => budget.key === 'ci')
            .used_micro_usd === 2 * EXACT_COST);
    await until('spend has the budget of the key, here and in the store', async () => {
        const { budgets } = await a.spend();
        const own = budgets.find((budget) => budget.key === 'ci');
        const all = budgets.find((budget) => budget.tenant === 'one' && budget.key === undefined);
        assert.equal(own.amount_micro_usd, 300 * EXACT_COST);
        return own.spent_micro_usd === EXACT_COST && all.spent_micro_usd === EXACT_COST &&
            own.store.micro_usd === 2 * EXACT_COST && own.store.told_micro_usd === EXACT_COST;
    });
    const { out } = await run('spend', '-c', a.file);
    assert.match(out, /one, key ci +total/);
});

test('a change for a version that is no longer is a conflict, and the key stays', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 2, redis, { tiers: true });
    const [a, b] = gateways;
    const { version } = await made(a, 'POST', '/tenants/one/keys', { name: 'ci', limits: [{ rpm: 1 }] });
    await until('the other has it', async () => (await fleetOf(b)).version === version);
    const first = await api(b, 'PUT', '/tenants/one/keys/ci', { limits: [{ rpm: 2 }] }, { 'if-match': `"${version}"` });
    assert.equal(first.status, 200, first.text);
    const second = await api(a, 'PUT', '/tenants/one/keys/ci', { limits: [{ rpm: 3 }] }, { 'if-match': `"${version}"` });
    assert.equal(second.status, 409);
    assert.equal(second.code, 'version_conflict');
    for (const gateway of gateways)
        await until('it is the first', async () => (await keyOf(gateway, 'ci')).definition.limits[0].rpm === 2);
});

/* What a program reads that knows nothing of settings: fleet_record.c and ledger_admin.c have unit tests of it. */
test('no record of a key with settings looks like one of a key without', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 1, redis, {});
    const record = async () => {
        for (const name of (await redis.ask('KEYS', '*')).split('\n')) {
            if ((await redis.ask('TYPE', name)) !== 'hash') continue;
            const value = await redis.ask('HGET', name, 'key:one:ci');
            if (value) return JSON.parse(value);
        }
        return undefined;
    };
    const { sha256: hash, key } = await everywhere(gateways, 'POST', '/tenants/one/keys', { name: 'ci' });
    assert.equal(hash, sha256(key));
    assert.equal((await record()).sha256, hash);
    await everywhere(gateways, 'PUT', '/tenants/one/keys/ci', { limits: [{ rpm: 1 }] });
    const own = await record();
    assert.equal(own.sha256, '0'.repeat(64));
    assert.equal(own.own_sha256, hash);
    assert.deepEqual(JSON.parse(own.own), { limits: [{ rpm: 1 }] });
    await everywhere(gateways, 'PUT', '/tenants/one/keys/ci', {});
    assert.deepEqual([(await record()).sha256, (await record()).own], [hash, undefined]);
});

/* ---- over restarts, takeovers and reloads ---- */

test('a gateway that starts from its copy has the settings', async (t) => {
    const redis = await Redis.start(t, ['--appendonly', 'yes']);
    const { gateways } = await gatewaysOn(t, 2, redis, { tiers: true, top: { store_failure: { budget: 'local', limits: 'local' } } });
    const [, b] = gateways;
    const { key } = await everywhere(gateways, 'POST', '/tenants/one/keys', { name: 'ci', models: ['claude'], limits: [{ rpm: 2 }] });
    await redis.kill();
    await b.stop();
    await begin(b);
    await standing(b, 'away');
    assert.equal((await chat(b, {}, withKey(key))).status, 403);
    assert.deepEqual((await keyOf(b, 'ci')).definition, { name: 'ci', models: ['claude'], limits: [{ rpm: 2 }] });
});

const administered = async (t, change = {}) => {
    const made = await world(t, { small: EXACT, ...change, listen: { admin: '127.0.0.1:0' },
        top: { admin_auth: { token: ADMIN_TOKEN }, ...change.top } });
    const find = async () => {
        const [, port] = await made.gateway.process.said(/127\.0\.0\.1:(\d+) \(admin\)/);
        made.gateway.admin = `http://127.0.0.1:${port}`;
    };
    await find();
    return { ...made, find };
};

test('a takeover keeps what a key has and has used', async (t) => {
    const { gateway, mock, find } = await administered(t, {
        script: { rules: [{ when: { stream: true }, do: { tokens: 16, pace: 20 } }], default: { tokens: 16 } },
    });
    const { key } = (await made(gateway, 'POST', '/tenants/one/keys', { name: 'ci', budgets: usd(5), limits: [{ rpd: 9 }] })).json;
    assert.equal((await chat(gateway, {}, withKey(key))).status, 200);
    const streams = [1, 2].map(() => chat(gateway, { stream: true }, withKey(key)));
    await until('they are at the mock', async () => (await mock.seen()).begun === 3);
    const before = gateway.process;
    t.after(() => before.over || (before.child.kill('SIGKILL'), before.ended));
    gateway.options = ['--takeover'];
    await gateway.begin();
    await find();
    for (const reply of await Promise.all(streams)) assert.equal(reply.status, 200);
    await before.ended;
    await made(gateway, 'PUT', '/tenants/one/keys/ci', { budgets: usd(6), limits: [{ rpd: 9 }] });
    let served = 0;
    await until('all of it is spent, and what the other process held is back', async () => {
        const reply = await chat(gateway, {}, withKey(key));
        served += reply.status === 200;
        return reason(reply) === 'budget';
    });
    assert.equal(served, 3);
    assert.equal((await keyOf(gateway, 'ci')).budgets[0].used_micro_usd, 6 * EXACT_COST);
});

test('a reload that drops what a key needs', async (t) => {
    const { gateway, config } = await administered(t, {
        models: { spare: { provider: 'oai', ...EXACT, max_output_tokens: 4096 } },
        tenant: { endpoints: ['/v1/files/*'] },
        top: { passthrough: [{ path: '/v1/files/*', provider: 'oai', per_call: 0.00001 }] },
    });
    const { key } = (await made(gateway, 'POST', '/tenants/one/keys',
        { name: 'ci', models: ['spare', 'small'], endpoints: ['/v1/files/x'], budgets: usd(2) })).json;
    assert.equal((await chat(gateway, {}, withKey(key))).status, 200);

    /* A model and an endpoint that the key names: the reload is refused and names the key, which serves as before. */
    const { spare, ...models } = config.models;
    for (const [change, says] of [
        [{ models }, /"spare\\" does not exist/],
        [{ passthrough: [], tenants: [{ ...config.tenants[0], endpoints: [] }] }, /\/v1\/files\/x\\" does not exist/],
    ]) {
        gateway.write({ ...config, ...change });
        const refused = await api(gateway, 'POST', '/reload');
        assert.equal(refused.status, 400, refused.text);
        assert.match(refused.text, says);
        assert.match(refused.text, /api: key one\/ci/);
        assert.notEqual((await chat(gateway, { model: 'spare' }, withKey(key))).status, 403);
    }
    gateway.write(config);
    await made(gateway, 'PUT', '/tenants/one/keys/ci', { models: ['small'], budgets: usd(3) });
    gateway.write({ ...config, models });
    await made(gateway, 'POST', '/reload');

    /* Its tenant: the key goes with it, and is what it was when that comes back. */
    gateway.write({ ...config, tenants: [{ name: 'two' }] });
    const gone = await made(gateway, 'POST', '/reload');
    assert.match(gone.text, /api: key one\/ci/);
    assert.equal((await chat(gateway, {}, withKey(key))).status, 401);
    gateway.write(config);
    await made(gateway, 'POST', '/reload');
    assert.equal((await chat(gateway, {}, withKey(key))).status, 200);
    const refused = await chat(gateway, {}, withKey(key));
    assert.equal(refused.status, 402, 'two calls before, one now');
    assert.match(text(refused), /key ci of tenant one/);

    /* A key of the file with its name, or its hash, takes its place. */
    gateway.write({ ...config, tenants: [{ ...config.tenants[0], keys: [{ name: 'ci', sha256: sha256(KEY) }] }] });
    await made(gateway, 'POST', '/reload');
    assert.equal((await chat(gateway, {}, withKey(key))).status, 401);
    assert.equal((await chat(gateway, {}, withKey(KEY))).status, 200);
    assert.equal((await api(gateway, 'PUT', '/tenants/one/keys/ci', {})).code, 'in_file');
});

test('an override blocks no key of the API, and a tenant with all of them', async (t) => {
    const { gateway } = await administered(t);
    const { key } = (await made(gateway, 'POST', '/tenants/one/keys', { name: 'ci', limits: [{ rpm: 5 }] })).json;
    const block = (more) => api(gateway, 'POST', '/overrides',
        { kind: 'block', tenant: 'one', reason: 'a test', until: '2099-01-01T00:00:00Z', ...more });
    assert.equal((await block({ key: 'ci' })).code, 'not_in_file');
    assert.equal((await block({})).status, 201);
    assert.equal((await chat(gateway, {}, withKey(key))).status, 401);
});

test('a recording with such keys is decided as it was', async (t) => {
    const file = recordingFile(t);
    const { gateway, find } = await administered(t, { tenant: { budgets: usd(100) } });
    const make = async (body) => (await made(gateway, 'POST', '/tenants/one/keys', body)).json.key;
    const ci = await make({ name: 'ci', budgets: usd(14), limits: [{ rpd: 25 }], models: ['small'], tags: { team: 'b' } });
    const dev = await make({ name: 'dev', limits: [{ rpd: 7 }] });
    for (let i = 0; i < 4; i++) assert.equal((await chat(gateway, {}, withKey(ci))).status, 200);
    await gateway.stop();
    gateway.options = ['--record', file];
    await gateway.begin();
    await find();
    const ask = async (n) => {
        for (let i = 0; i < n; i++) await chat(gateway, i % 3 ? {} : { model: 'claude' }, withKey(i % 2 ? ci : dev));
    };
    await ask(12);
    await made(gateway, 'POST', '/reload');
    await ask(30);
    await gateway.idle();
    await gateway.stop();
    const { calls } = await isDecidedAlike(gateway, file);
    const decided = new Set(calls.map((call) => call.decision));
    for (const decision of ['admitted', 'budget', 'rate', 'left'])
        assert.ok(decided.has(decision), `none is ${decision}: ${[...decided]}`);

    /* What has changed since is another configuration, and said to be. */
    await gateway.begin();
    await find();
    await made(gateway, 'PUT', '/tenants/one/keys/ci', { limits: [{ rpd: 26 }] });
    await gateway.stop();
    const { summaries } = await replayed(gateway.file, file);
    assert.ok(!summaries.at(-1).configuration_in_force, JSON.stringify(summaries));
});
