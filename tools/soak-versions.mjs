/* soak-versions.mjs - the version before and this one on one Redis: together they never spend more than a
 * budget, and a fleet goes over to this version and back, gateway by gateway, each with its ledger.
 *
 *     BEFORE=/path/to/tollgate TOLLGATE=build/tollgate node --test tools/soak-versions.mjs
 *
 *     BEFORE    the program of the version before
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { ADMIN_TOKEN, chat, configure, EXACT, EXACT_COST, Gateway, Mock, until, world } from '../tests/e2e/kit.mjs';
import { administer, api, fleetOf, gatewaysOn, made as changed, standing, withKey } from '../tests/e2e/fleet_kit.mjs';
import { Caller, Redis, stored, sum } from '../tests/e2e/redis_kit.mjs';

const BEFORE = path.resolve(process.env.BEFORE ?? '');

const usd = (n, per = 'total') => [{ usd: (n * EXACT_COST) / 1e6, per }];

const billed = async (mock) => (await mock.seen()).begun;

/* `programs` says of which version each gateway is: undefined is this one. */
async function mixed(t, programs, redis, change) {
    const mock = await Mock.start({});
    const gateways = [];
    t.after(async () => {
        for (const gateway of gateways) {
            await gateway.finish();
            fs.rmSync(gateway.folder, { recursive: true, force: true });
        }
        await mock.stop();
    });
    for (const program of programs) {
        const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-versions-'));
        const config = configure(mock, folder, {
            small: EXACT,
            ...change,
            top: { workers: 1, store: redis.url, store_timeout: '2s', ...change.top },
        });
        const gateway = new Gateway();
        Object.assign(gateway, { folder, options: [], output: '', file: path.join(folder, 'tollgate.yaml') });
        gateway.write(config);
        gateways.push(gateway);
        await gateway.begin(program);
        await stored(gateway, 'ok');
    }
    await Promise.all(gateways.map((gateway) =>
        until('all know of each other', async () => (await gateway.metric('nodes')) === programs.length)));
    return { mock, gateways };
}

for (const tiers of [true, false])
    for (const [whose, change] of [
        ["a tenant's budget", (n) => ({ tenant: { budgets: usd(n) } })],
        ["everyone's budget", (n) => ({ top: { budgets: usd(n) }, tenant: { budgets: [] } })],
    ])
        test(`two of each version, ${tiers ? 'two tiers' : 'strict'}: ${whose} is spent, and never more`, async (t) => {
            const K = 3000;
            const redis = await Redis.start(t);
            const { top, ...more } = change(K);
            const { gateways, mock } = await mixed(t, [BEFORE, undefined, BEFORE, undefined], redis, {
                ...more,
                top: { two_tier: { enabled: tiers }, store_failure: { budget: 'local' }, ...top },
            });
            const callers = gateways.flatMap((gateway) => [new Caller(gateway), new Caller(gateway)]);
            const refused = () => callers.map((caller) => (caller.counts.budget ?? 0) + (caller.counts.budget_contended ?? 0));
            await until('all are refused', () => refused().every((n) => n > 20));
            const counts = callers.map((caller) => caller.counts.served ?? 0);
            assert.ok(counts.every((n) => n > 20), `each takes its part: ${counts}`);
            let last = 0;
            await until('it is spent', async () => {
                last = await billed(mock);
                return last >= K || refused().every((n) => n > 3000);
            });
            for (const caller of callers) await caller.stop();
            t.diagnostic(`${last} of ${K} by ${counts}, ${JSON.stringify(sum(callers.map((c) => c.counts)))}`);
            assert.ok((await billed(mock)) <= K, `${await billed(mock)} of ${K}`);
            assert.ok(last >= 0.98 * K, `${last} of ${K}`);
        });

async function made(gateway, method, target, body) {
    const [, port] = await gateway.process.said(/127\.0\.0\.1:(\d+) \(admin\)/);
    const reply = await fetch(`http://127.0.0.1:${port}/api/v1${target}`, {
        method,
        headers: {
            authorization: `Bearer ${ADMIN_TOKEN}`,
            ...(body && { 'content-type': 'application/json' }),
        },
        body: body && JSON.stringify(body),
    });
    assert.ok(reply.ok, `${target}: ${reply.status}`);
    return reply.json();
}

const holds = (gateways, key, status) =>
    Promise.all(gateways.map((gateway) => until(`a key is ${status}`, async () =>
        (await chat(gateway, {}, { headers: { authorization: `Bearer ${key}` } })).status === status)));

test('three gateways go over to this version one by one, and back, under load', async (t) => {
    const K = 30000;
    const redis = await Redis.start(t);
    const { gateways, mock } = await mixed(t, [BEFORE, BEFORE, BEFORE], redis, {
        tenant: { budgets: usd(K), rate: { strategy: 'gcra', limit: 1000000, period: '60s' } },
        listen: { admin: '127.0.0.1:0' },
        top: { budgets: usd(K + 100), admin_auth: { token: ADMIN_TOKEN } },
    });
    /* Of each version: a tenant with its keys. The one before knows no fleet. */
    const teams = { before: {}, now: {} };
    const make = async (name) => {
        await made(gateways[0], 'PUT', `/tenants/${name}`, {});
        for (const key of ['kept', 'revoked'])
            teams[name][key] = (await made(gateways[0], 'POST', `/tenants/${name}/keys`, { name: key })).key;
        await holds(gateways.slice(0, 1), teams[name].revoked, 200);
    };
    await make('before');
    const served = [];
    for (const [program, name] of [[undefined, 'now'], [BEFORE]]) {
        for (const gateway of gateways) {
            const callers = gateways.map((one) => new Caller(one));
            await until('all are served', () => callers.every((caller) => caller.counts.served > 100));
            const others = callers.filter((_, i) => gateways[i] !== gateway);
            served.push(await callers[gateways.indexOf(gateway)].stop());
            await gateway.stop();
            assert.equal(gateway.process.code, 0, gateway.process.out);
            await gateway.begin(program);
            await stored(gateway, 'ok');
            const at = others.map((caller) => caller.n);
            await until('the others go on', () => others.every((caller, i) => caller.n > at[i] + 20));
            served.push(...(await Promise.all(others.map((caller) => caller.stop()))));
        }
        if (name) {
            await holds(gateways, teams.before.revoked, 200);
            await make(name);
            await holds(gateways, teams.now.revoked, 200);
            for (const each of Object.keys(teams)) await made(gateways[1], 'DELETE', `/tenants/${each}/keys/revoked`);
        }
        for (const team of Object.values(teams)) {
            await holds(gateways, team.kept, 200);
            await holds(gateways, team.revoked, 401);
        }
    }
    const counts = sum(served);
    assert.deepEqual(Object.keys(counts), ['served'], JSON.stringify(counts));
    const callers = gateways.map((one) => new Caller(one));
    await until('all are refused', () => callers.every((caller) => (caller.counts.budget ?? 0) > 50));
    for (const caller of callers) await caller.stop();
    const all = sum([...served, ...callers.map((one) => one.counts)]).served;
    t.diagnostic(`${counts.served} calls while six gateways were replaced, ${all} of ${K}`);
    assert.equal(all, K);
    assert.ok((await billed(mock)) <= K + 100, `${await billed(mock)} of everyone's ${K + 100}`);
});

/* ---- keys that the API made with settings of their own ---- */

const answers = (gateways, key) =>
    Promise.all(gateways.map(async (gateway) => (await chat(gateway, {}, withKey(key))).status));

test('a key with settings is refused by the version before, which deletes it all the same', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 3, redis, { tiers: true });
    const [a, b] = gateways;
    await b.stop();
    await b.begin(BEFORE);
    await administer(b);
    if ((await api(b, 'GET', '/fleet')).status === 404) return t.skip('that version shares no keys');
    await standing(b, 'current');
    const all = async (method, target, body, at = a) => {
        const reply = await changed(at, method, target, body);
        for (const gateway of gateways)
            await until('it is followed', async () => (await fleetOf(gateway)).version >= reply.version);
        return reply.json;
    };
    const limits = [{ rpm: 500 }];
    const own = await all('POST', '/tenants/one/keys', { name: 'own', limits });
    const kept = await all('POST', '/tenants/one/keys', { name: 'kept', limits });
    const plain = await all('POST', '/tenants/one/keys', { name: 'plain' });
    for (const { key } of [own, kept]) assert.deepEqual(await answers(gateways, key), [200, 401, 200]);
    assert.deepEqual(await answers(gateways, plain.key), [200, 200, 200]);
    await all('PUT', '/tenants/one/keys/plain', { limits });
    assert.deepEqual(await answers(gateways, plain.key), [200, 401, 200]);
    await all('PUT', '/tenants/one/keys/plain', {});
    assert.deepEqual(await answers(gateways, plain.key), [200, 200, 200]);
    assert.equal((await api(b, 'POST', '/tenants/one/keys', { name: 'own' })).status, 409);
    await all('DELETE', '/tenants/one/keys/own', undefined, b);
    assert.deepEqual(await answers(gateways, own.key), [401, 401, 401]);

    /* With its tenant, and it does not come back with that. */
    await all('PUT', '/tenants/x', {}, b);
    const other = await all('POST', '/tenants/x/keys', { name: 'k', limits });
    assert.deepEqual(await answers(gateways, other.key), [200, 401, 200]);
    await all('DELETE', '/tenants/x', undefined, b);
    await all('PUT', '/tenants/x', {}, b);
    assert.deepEqual(await answers(gateways, other.key), [401, 401, 401]);
    await b.stop();
    await b.begin();
    await administer(b);
    await standing(b, 'current');
    assert.deepEqual(await answers(gateways, kept.key), [200, 200, 200]);
});

test('a key with settings is refused by the version before on the same ledger, and served again afterwards', async (t) => {
    const { gateway } = await world(t, {
        small: EXACT,
        listen: { admin: '127.0.0.1:0' },
        top: { admin_auth: { token: ADMIN_TOKEN } },
    });
    await administer(gateway);
    const make = async (body) => (await changed(gateway, 'POST', '/tenants/one/keys', body)).json.key;
    const own = await make({ name: 'own', limits: [{ rpm: 500 }] });
    const dropped = await make({ name: 'dropped', limits: [{ rpm: 500 }] });
    const plain = await make({ name: 'plain' });
    await gateway.stop();
    await gateway.begin(BEFORE);
    await administer(gateway);
    for (const [key, status] of [[own, 401], [dropped, 401], [plain, 200]])
        assert.deepEqual(await answers([gateway], key), [status]);
    await changed(gateway, 'POST', '/reload');
    const more = await make({ name: 'more' });
    await changed(gateway, 'DELETE', '/tenants/one/keys/dropped');
    await gateway.stop();
    await gateway.begin();
    await administer(gateway);
    for (const [key, status] of [[own, 200], [dropped, 401], [plain, 200], [more, 200]])
        assert.deepEqual(await answers([gateway], key), [status]);
});
