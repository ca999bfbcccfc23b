/* fleet.mjs - several gateways, one control plane: what the API of one makes holds at all of them, and
 * a store that went back is never followed. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { administer, api, begin, fleetOf, gatewaysOn, made, standing } from './fleet_kit.mjs';
import { ADMIN_TOKEN, chat, configure, EXACT, EXACT_COST, Gateway, KEY, reason, until } from './kit.mjs';
import { Caller, PATIENT, patientFleet, Redis, sum } from './redis_kit.mjs';

const usd = (n) => (n * EXACT_COST) / 1e6;

const ask = (gateway, key = KEY) =>
    chat(gateway, {}, { headers: { authorization: `Bearer ${key}` } });

const status = async (gateway, key) => (await ask(gateway, key)).status;

/* Until every gateway says so; the longest that one took, in ms. */
async function everywhere(t, what, gateways, holds) {
    const began = performance.now();
    const took = await Promise.all(
        gateways.map(async (gateway) => {
            await until(what, () => holds(gateway));
            return performance.now() - began;
        }),
    );
    t.diagnostic(`${what}: ${Math.max(...took).toFixed(0)} ms at the last of ${gateways.length}`);
}

test('D3 what one of five gateways is told holds at all of them, under load', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 5, redis, { tenant: { budgets: [{ usd: 9, per: 'total' }] } });
    const callers = gateways.map((gateway) => new Caller(gateway));
    const [a, b, c, d, e] = gateways;

    const first = await made(a, 'PUT', '/tenants/team', { budgets: [{ usd: usd(2), per: 'total' }] });
    const key = await made(b, 'POST', '/tenants/team/keys', { name: 'ci' });
    assert.ok(key.version > first.version, `${first.version}, ${key.version}`);
    const secret = key.json.key;
    assert.equal(await status(b, secret), 200, 'it holds where it was made, at once');
    await everywhere(t, 'a key that was made', gateways, async (g) => (await status(g, secret)) !== 401);
    await everywhere(t, 'its budget is spent', gateways, async (g) => reason(await ask(g, secret)) === 'budget');
    await made(c, 'POST', '/tenants/team/topups', { usd: usd(1000), per: 'total' });
    await everywhere(t, 'a top-up', gateways, async (g) => (await status(g, secret)) === 200);
    await made(d, 'PUT', '/tenants/team', { models: ['claude'], budgets: [{ usd: 9, per: 'total' }] });
    await everywhere(t, 'a tenant that was changed', gateways, async (g) => ![200, 401, 402].includes(await status(g, secret)));
    await made(e, 'DELETE', '/tenants/team/keys/ci');
    await everywhere(t, 'a key that was revoked', gateways, async (g) => (await status(g, secret)) === 401);
    const off = await made(a, 'POST', '/keys/oai/k1/disable');
    await everywhere(t, 'a provider key out of use', gateways, async (g) => (await g.metric('key_state', 'state="disabled"')) >= 1);
    await made(b, 'POST', '/keys/oai/k1/enable');
    await everywhere(t, 'and in use again', gateways, async (g) => (await g.metric('key_state', 'state="disabled"')) === 0);
    const block = await made(c, 'POST', '/overrides', {
        kind: 'block', tenant: 'one', reason: 'it leaked', until: '2099-01-01T00:00:00Z',
    });
    await everywhere(t, "a file's key that was blocked", gateways, async (g) => (await status(g)) === 401);
    await made(d, 'DELETE', `/overrides/${block.json.override.id}`);
    await everywhere(t, 'and let in again', gateways, async (g) => (await status(g)) === 200);

    const seen = await fleetOf(e);
    assert.equal(seen.gateways.length, 5);
    assert.ok(seen.version > off.version);
    await until('all say that they are at one version', async () => {
        const { gateways: all, stored_version } = await fleetOf(e);
        return all.every((g) => g.version === stored_version && g.state === 'current' && g.versions_behind === 0);
    });
    for (const caller of callers) await caller.stop();
});

/* FLEET_CHANGES of each kind, made at one gateway after the other, and how long each took to hold at all. */
test('keys, revocations, tenants and top-ups that one of five gateways is told, under load', async (t) => {
    const n = Number(process.env.FLEET_CHANGES ?? 5);
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 5, redis, { tiers: true, tenant: { budgets: [{ usd: 9, per: 'total' }] } });
    const callers = gateways.map((gateway) => new Caller(gateway));
    await until('all run', () => callers.every((caller) => caller.n > 50));
    const took = {};
    let turn = 0;
    const timed = async (what, holds, ...change) => {
        const { json } = await made(gateways[turn++ % 5], ...change);
        const began = performance.now();
        await Promise.all(gateways.map((gateway) => until(what, () => holds(gateway, json))));
        (took[what] ??= []).push(performance.now() - began);
        return json;
    };
    for (let i = 0; i < n; i++) {
        const team = `team${i}`;
        await made(gateways[turn++ % 5], 'PUT', `/tenants/${team}`, { budgets: [{ usd: usd(1), per: 'total' }] });
        const { key } = await timed('a key made', async (g, made) => (await status(g, made.key)) !== 401,
            'POST', `/tenants/${team}/keys`, { name: 'ci' });
        await until('its budget is spent', async () => (await status(gateways[0], key)) === 402);
        await timed('a top-up', async (g) => (await status(g, key)) === 200,
            'POST', `/tenants/${team}/topups`, { usd: usd(1000), per: 'total' });
        await timed('a tenant changed', async (g) => (await status(g, key)) !== 200,
            'PUT', `/tenants/${team}`, { models: ['claude'], budgets: [{ usd: usd(1), per: 'total' }] });
        await timed('a key revoked', async (g) => (await status(g, key)) === 401,
            'DELETE', `/tenants/${team}/keys/ci`);
    }
    const at = (list, part) => list.sort((a, b) => a - b)[Math.ceil(part * list.length) - 1].toFixed(0);
    for (const [what, list] of Object.entries({ ...took, all: Object.values(took).flat() }))
        t.diagnostic(`${what}: ${list.length} changes, p50 ${at(list, 0.5)} ms, p99 ${at(list, 0.99)} ms, at most ${at(list, 1)} ms`);
    const counts = sum(await Promise.all(callers.map((caller) => caller.stop())));
    assert.deepEqual(Object.keys(counts), ['served'], JSON.stringify(counts));
});

test('of two changes for one version one is stored, and 20 at once without a version all are', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 3, redis);
    const { version } = await made(gateways[0], 'PUT', '/tenants/x', {});
    await everywhere(t, 'version', gateways, async (g) => (await fleetOf(g)).version === version);
    const both = await Promise.all(
        [0, 1].map((i) =>
            api(gateways[i], 'PUT', '/tenants/x', { weight: i + 2 }, { 'if-match': `"${version}"` }),
        ),
    );
    assert.deepEqual(both.map((reply) => reply.status).sort(), [200, 409]);
    assert.equal(both.find((reply) => reply.status === 409).code, 'version_conflict');
    assert.equal((await api(gateways[0], 'PUT', '/tenants/x', {}, { 'if-match': 'x' })).status, 400);
    const all = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
            api(gateways[i % 3], 'PUT', `/tenants/t${i}`, { weight: 2 }),
        ),
    );
    for (const reply of all) assert.equal(reply.status, 201, reply.text);
    assert.equal(new Set(all.map((reply) => reply.version)).size, 20, 'one change, one version');
    await everywhere(t, 'twenty tenants', gateways, async (g) => {
        const { tenants } = (await api(g, 'GET', '/tenants?limit=100')).json;
        return tenants.filter((one) => /^t\d+$/.test(one.name)).length === 20;
    });
});

test('with the store away changes are refused, the old state is served, from the disk too', async (t) => {
    const redis = await Redis.start(t, ['--appendonly', 'yes']);
    const { gateways } = await gatewaysOn(t, 2, redis, { top: { store_failure: { budget: 'local' } } });
    const [a, b] = gateways;
    await made(a, 'PUT', '/tenants/team', {});
    const { json } = await made(a, 'POST', '/tenants/team/keys', { name: 'ci' });
    await everywhere(t, 'the key', gateways, async (g) => (await status(g, json.key)) === 200);
    await redis.kill();
    await standing(a, 'away');
    const refused = await api(a, 'DELETE', '/tenants/team/keys/ci');
    assert.equal(refused.status, 503, refused.text);
    assert.equal(refused.code, 'store_away');
    assert.equal(await status(a, json.key), 200);
    await b.stop();
    await begin(b);
    await standing(b, 'away');
    assert.equal(await status(b, json.key), 200, 'a gateway that starts without a store has its copy');
    await b.stop();
    await redis.begin();
    await standing(a, 'current');
    await made(a, 'DELETE', '/tenants/team/keys/ci');
    for (let i = 0; i < 30; i++) await made(a, 'PUT', `/tenants/later${i}`, {});
    await begin(b);
    await standing(b, 'current');
    assert.equal(await status(b, json.key), 401, 'what it missed while it was off holds');
    assert.equal((await api(b, 'GET', '/tenants/later29')).status, 200);
});

for (const tiers of [false, true]) test(`a store that was emptied, put back or replaced is not followed, until an operator restores it, ${tiers ? 'two tiers' : 'strict'}`, async (t) => {
    const redis = await Redis.start(t);
    const other = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 3, redis, {
        tiers,
        tenant: { budgets: [{ usd: 9, per: 'total' }] },
        top: { store_failure: { budget: 'local' } },
    });
    const [a, b, c] = gateways;
    const elsewhere = await gatewaysOn(t, 1, other);
    await made(elsewhere.gateways[0], 'PUT', '/tenants/foreign', {});
    await made(a, 'PUT', '/tenants/team', { budgets: [{ usd: usd(2), per: 'total' }] });
    const old = (await made(a, 'POST', '/tenants/team/keys', { name: 'old' })).json.key;
    const good = (await made(a, 'POST', '/tenants/team/keys', { name: 'good' })).json.key;
    await everywhere(t, 'the keys', gateways, async (g) => (await status(g, good)) !== 401);
    await until('the budget is spent', async () => reason(await ask(b, good)) === 'budget');
    await redis.ask('SAVE'); /* yesterday's backup */
    const dump = fs.readFileSync(path.join(redis.folder, 'dump.rdb'));
    await made(b, 'DELETE', '/tenants/team/keys/old');
    const { version } = await made(b, 'PUT', '/tenants/late', {});
    await everywhere(t, 'the last change', gateways, async (g) => (await fleetOf(g)).version === version);
    const callers = gateways.map((gateway) => new Caller(gateway));

    const holds = async (what) => {
        for (const gateway of gateways) {
            await standing(gateway, 'store_regressed');
            assert.equal(await status(gateway, old), 401, `${what}: a revoked key`);
            await until('a budget that was spent', async () => {
                const said = await status(gateway, good);
                if (tiers) assert.notEqual(said, 200, `${what}: a budget is new`);
                return said === 402;
            });
            const list = (await api(gateway, 'GET', '/tenants?limit=100')).json.tenants.map((one) => one.name);
            assert.deepEqual(list.filter((name) => name !== 'one').sort(), ['late', 'team'], what);
            const refused = await api(gateway, 'PUT', '/tenants/new', {});
            assert.equal(refused.code, 'store_regressed', refused.text);
            assert.equal(await gateway.metric('fleet_state', 'state="store_regressed"'), 1);
            assert.match(await (await fetch(`${gateway.probe}/readyz`)).text(), /^ok; store_regressed/);
        }
    };
    const restored = async (what, by) => {
        const reply = await made(by, 'POST', '/fleet/restore', { reason: what });
        assert.ok(reply.version > version);
        await everywhere(t, `restored after ${what}`, gateways, async (g) => (await fleetOf(g)).state === 'current');
        await made(a, 'PUT', '/tenants/new', {});
        await everywhere(t, 'a change', gateways, async (g) => (await api(g, 'GET', '/tenants/new')).status === 200);
        await made(c, 'DELETE', '/tenants/new');
        await everywhere(t, 'another', gateways, async (g) => (await api(g, 'GET', '/tenants/new')).status === 404);
    };

    const not = await api(a, 'POST', '/fleet/restore', { reason: 'no need' });
    assert.equal(not.status, 409, not.text);
    await redis.ask('FLUSHALL');
    await holds('FLUSHALL');
    await restored('FLUSHALL', b);

    await redis.kill();
    fs.writeFileSync(path.join(redis.folder, 'dump.rdb'), dump);
    await redis.begin();
    await holds('a backup');
    await restored('a backup', c);

    await redis.kill();
    await other.ask('SAVE');
    fs.copyFileSync(path.join(other.folder, 'dump.rdb'), path.join(redis.folder, 'dump.rdb'));
    await redis.begin();
    await holds('another store');
    await restored('another store', a);
    for (const caller of callers) await caller.stop();
});

test('a store is restored once, however many gateways are asked to', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 3, redis);
    const { version } = await made(gateways[0], 'PUT', '/tenants/team', {});
    await everywhere(t, 'the tenant', gateways, async (g) => (await fleetOf(g)).version === version);
    await redis.ask('FLUSHALL');
    for (const gateway of gateways) await standing(gateway, 'store_regressed');
    /* Each of them twice: whoever comes second would put another store beside the first one's. */
    const replies = await Promise.all(
        [...gateways, ...gateways].map((gateway) => api(gateway, 'POST', '/fleet/restore', { reason: 'it is empty' })),
    );
    const codes = replies.map((reply) => (reply.status === 200 ? 'restored' : reply.code)).sort();
    assert.equal(codes.filter((code) => code === 'restored').length, 1, codes.join());
    for (const code of codes) assert.match(code, /^(restored|version_conflict|not_regressed)$/);
    await everywhere(t, 'restored', gateways, async (g) => (await fleetOf(g)).state === 'current');
    await made(gateways[2], 'PUT', '/tenants/new', {});
    await everywhere(t, 'a change', gateways, async (g) => (await api(g, 'GET', '/tenants/new')).status === 200);
});

test('what gateways had made before they shared a store is put into it, once', async (t) => {
    const redis = await Redis.start(t);
    const { mock } = await patientFleet(t, 1, redis.url, {});
    const gateways = [];
    t.after(() => Promise.all(gateways.map((gateway) => gateway.finish())));
    for (let i = 0; i < 2; i++) {
        const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-moved-'));
        t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
        const config = configure(mock, folder, {
            small: EXACT,
            tenant: { budgets: [{ usd: usd(1), per: 'total' }] },
            listen: { admin: '127.0.0.1:0' },
            top: { workers: 1, admin_auth: { token: ADMIN_TOKEN } },
        });
        const gateway = await Gateway.start(config, folder);
        await administer(gateway);
        gateways.push(gateway);
        gateway.config = config;
        await made(gateway, 'PUT', `/tenants/own${i}`, {});
        gateway.secret = (await made(gateway, 'POST', `/tenants/own${i}/keys`, { name: 'ci' })).json.key;
        /* The same money, made at each gateway because it had to be. */
        await made(gateway, 'POST', '/tenants/one/topups', { usd: usd(2), per: 'total' });
        await made(gateway, 'POST', '/keys/oai/k1/disable');
        await made(gateway, 'POST', '/keys/oai/k1/enable');
        assert.equal((await fleetOf(gateway)).state, 'alone');
        await gateway.stop();
        gateway.write({ ...config, ...PATIENT, store: redis.url, store_prefix: 'moved' });
    }
    await Promise.all(gateways.map(begin));
    for (const gateway of gateways) await standing(gateway, 'current');
    for (const { secret } of gateways)
        await everywhere(t, 'a key of each', gateways, async (g) => (await status(g, secret)) === 200);
    for (const gateway of gateways) {
        const { topups } = (await api(gateway, 'GET', '/tenants/one/topups')).json;
        assert.equal(topups.length, 1, 'one top-up, not two');
    }
    /* What is taken away afterwards does not come back with a gateway that starts again. */
    await made(gateways[0], 'DELETE', '/tenants/own1');
    await gateways[1].stop();
    await begin(gateways[1]);
    await standing(gateways[1], 'current');
    for (const gateway of gateways)
        assert.equal(await status(gateway, gateways[1].secret), 401);
});

test('spend says what all gateways have told the store, and what this ledger has', async (t) => {
    const redis = await Redis.start(t);
    const budgets = [{ usd: 9, per: 'total' }];
    const { gateways } = await gatewaysOn(t, 2, redis, { tenant: { budgets }, top: { budgets } });
    for (let i = 0; i < 5; i++) assert.equal(await status(gateways[i % 2]), 200);
    for (const gateway of gateways) await gateway.idle();
    const told = (n) => (budget) =>
        budget.store.micro_usd === 5 * EXACT_COST &&
        budget.store.ledgers === 2 &&
        budget.store.told_micro_usd === n * EXACT_COST &&
        budget.store.difference_micro_usd === 0;
    for (const [i, n] of [3, 2].entries())
        await until('both budgets are told, and nothing is missing', async () => {
            const report = await gateways[i].spend();
            assert.equal(report.store, 'ok');
            assert.equal(report.budgets.length, 2);
            return report.budgets.every(told(n));
        });
    await redis.kill();
    const alone = await gateways[0].spend();
    assert.equal(alone.store, 'away');
    assert.equal(alone.budgets[0].store, undefined);
    assert.equal(alone.budgets[0].spent_micro_usd, 3 * EXACT_COST);
});

test('a store that may forget keys is an error', async (t) => {
    const redis = await Redis.start(t, ['--maxmemory-policy', 'allkeys-lru']);
    const { gateways } = await gatewaysOn(t, 1, redis);
    const ready = async () => (await fetch(`${gateways[0].probe}/readyz`)).text();
    await until('that is seen', async () => /may forget keys/.test(await ready()));
    assert.equal((await fetch(`${gateways[0].probe}/readyz`)).status, 503);
    const refused = await api(gateways[0], 'PUT', '/tenants/x', {});
    assert.equal(refused.code, 'store_evicts', refused.text);
    await redis.ask('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    await until('it is ready', async () => (await ready()) === 'ok\n');
    await made(gateways[0], 'PUT', '/tenants/x', {});
    await redis.ask('CONFIG', 'SET', 'maxmemory-policy', 'volatile-ttl');
    await until('that is seen', async () => /store_evicts/.test(await ready()));
    assert.equal((await fetch(`${gateways[0].probe}/readyz`)).status, 200);
    assert.equal(await gateways[0].metric('fleet_store_evicts'), 1);
});
