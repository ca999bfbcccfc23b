/* fleet_view.mjs - all gateways as one: what any of them says of the fleet is the sum of what each
 * says of itself, and who does not answer is named. See docs/distributed.md. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { promisify } from 'node:util';
import { api, begin, conforms, gatewaysOn } from './fleet_kit.mjs';
import { ADMIN_TOKEN, calls, chat, EXACT_COST, sha256, tenant, until } from './kit.mjs';
import { detour, Redis } from './redis_kit.mjs';

const top = (gateway, ...args) =>
    promisify(execFile)(path.resolve(process.env.TOLLGATE ?? 'build/tollgate'), ['top', '--once', '--admin', gateway.admin, ...args], {
        env: { ...process.env, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN },
    });

const usd = (n) => (n * EXACT_COST) / 1e6;

async function snapshotOf(gateway, scope = 'gateway') {
    const reply = await api(gateway, 'GET', `/snapshot?scope=${scope}`);
    assert.equal(reply.status, 200, reply.text);
    conforms('Snapshot', reply.json);
    return reply.json;
}

const fleetOf = (gateway) => snapshotOf(gateway, 'fleet');

const sumOf = (list, pick) => list.reduce((n, each) => n + pick(each), 0);
const budgetOf = (snapshot, tenant) => snapshot.budgets.find((budget) => budget.tenant === tenant);

/* Until everybody has heard of `n` gateways that can answer. */
const complete = (gateways, n) =>
    Promise.all(
        gateways.map((gateway) =>
            until(`${n} gateways answer`, async () => {
                const all = await fleetOf(gateway);
                return all.complete && all.gateways.filter((g) => g.snapshot).length === n;
            }),
        ),
    );

test('at rest the fleet is the sum of its gateways, whichever is asked', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 3, redis, {
        tiers: true,
        tenant: { rate: undefined, budgets: [{ usd: usd(1000), per: 'total' }] },
        top: { budgets: [{ usd: usd(5000), per: 'total' }] },
    });
    await complete(gateways, 3);
    for (const [i, gateway] of gateways.entries()) await calls(5 * (i + 1), () => chat(gateway));
    await chat(gateways[1], { model: 'nobody-has-it' });
    for (const gateway of gateways) await gateway.idle();

    const callsOf = ({ tenants }) => tenants.find(({ name }) => name === 'one')?.calls ?? 0;
    let own = [];
    await until('their last second has all calls', async () => {
        own = await Promise.all(gateways.map((gateway) => snapshotOf(gateway)));
        return sumOf(own, callsOf) === 31;
    });
    assert.deepEqual(own.map(({ scope }) => scope), ['gateway', 'gateway', 'gateway']);
    for (const gateway of gateways) {
        const all = await fleetOf(gateway);
        assert.equal(all.scope, 'fleet');
        assert.equal(all.complete, true);
        for (const name of ['calls', 'admitted', 'refused', 'retries', 'hangups'])
            assert.equal(all.counters[name], sumOf(own, ({ counters }) => counters[name]), name);
        assert.equal(all.counters.calls, 31);
        assert.deepEqual(all.counters.refused_by_reason, own[1].counters.refused_by_reason);
        assert.equal(all.gates[0].name, 'all');
        assert.equal(all.gates[0].admitted, sumOf(own, ({ gates }) => gates[0].admitted));
        assert.equal(all.gates[0].limit, sumOf(own, ({ gates }) => gates[0].limit));
        assert.equal(callsOf(all), 31);
        assert.equal(all.config.hash, null, 'their files differ');
        assert.equal(all.denials.length, sumOf(own, ({ denials }) => denials.length));
        assert.deepEqual(all.gateways.map(({ answer }) => answer).sort(), ['answered', 'answered', 'self']);
        for (const name of Object.keys(own[0])) if (name !== 'fleet') assert.ok(name in all, `${name} is missing`);
    }
    const { stdout } = await top(gateways[2]);
    assert.match(stdout, /fleet of 3 gateways/);
    assert.match(stdout, /total 31 admitted 30 refused 1 /);
    assert.equal(stdout.match(/ answered /g)?.length, 2);
    /* What one answers another is no answer to itself. */
    for (let i = 0; i < 5; i++)
        for (const all of await Promise.all([...gateways, ...gateways].map(fleetOf))) {
            assert.equal(all.counters.calls, 31);
            assert.equal(all.gateways.length, 3);
        }
});

test('a budget of the fleet is what the store says: spent, held in blocks, and left for all', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 3, redis, {
        tiers: true,
        tenant: { budgets: [{ usd: usd(100), per: 'total' }] },
        top: { budgets: [{ usd: usd(500), per: 'total' }] },
    });
    await complete(gateways, 3);
    for (const [i, gateway] of gateways.entries())
        for (let n = 0; n < 4 * (i + 1); n++) assert.equal((await chat(gateway)).status, 200);
    for (const gateway of gateways) await gateway.idle();
    await until('all is told, and no block is held', async () => {
        const all = await fleetOf(gateways[0]);
        return [null, 'one'].every((tenant) => {
            const { held_micro_usd, used_micro_usd } = budgetOf(all, tenant);
            return held_micro_usd === 0 && used_micro_usd === 24 * EXACT_COST;
        });
    });
    for (const gateway of gateways) {
        const all = await fleetOf(gateway);
        assert.equal(budgetOf(all, 'one').left_micro_usd, 76 * EXACT_COST);
        assert.equal(budgetOf(all, 'one').used_ratio, 0.24);
        assert.equal(budgetOf(all, null).left_micro_usd, 476 * EXACT_COST);
    }
    /* What it says is what the next calls find: as many as are left are served. */
    let served = 0;
    await until('all of it is spent', async () => {
        for (let i = 0; i < 12; i++) served += (await chat(gateways[i % 3])).status === 200;
        const { used_micro_usd, left_micro_usd } = budgetOf(await fleetOf(gateways[2]), 'one');
        return used_micro_usd === 100 * EXACT_COST && left_micro_usd === 0;
    });
    assert.equal(served, 76);
});

test('a budget that is full for all is listed, though each gateway has spent little of it', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 3, redis, {
        tenants: [
            tenant({ budgets: [{ usd: usd(30), per: 'total' }] }),
            ...Array.from({ length: 101 }, (_, i) => ({
                name: `t${i}`,
                keys: [{ name: 'main', sha256: sha256(`tg-e2e-virtual-key-of-tenant-${i}`) }],
                budgets: [{ usd: usd(2), per: 'total' }],
            })),
        ],
    });
    await complete(gateways, 3);
    /* Half of each of the others, all at one gateway; a third of this one at each. */
    for (let i = 0; i < 101; i++)
        assert.equal((await chat(gateways[0], {}, { headers: { authorization: `Bearer tg-e2e-virtual-key-of-tenant-${i}` } })).status, 200);
    for (let i = 0; i < 27; i++) assert.equal((await chat(gateways[i % 3])).status, 200);
    for (const gateway of gateways) await gateway.idle();
    await until('it comes first', async () => {
        const { budgets, budgets_truncated } = await fleetOf(gateways[0]);
        assert.equal(budgets_truncated, true);
        return budgets[0].tenant === 'one' && budgets[0].left_micro_usd === 3 * EXACT_COST && budgets[0].used_ratio === 0.9;
    });
    const alone = await snapshotOf(gateways[0]);
    assert.ok(alone.budgets.some(({ tenant: name }) => name === 'one'), 'also by the gateway alone');
});

test('who does not answer is named: late at first, then silent, and never left out', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 3, redis);
    await complete(gateways, 3);
    await chat(gateways[2]);
    const { id } = (await fleetOf(gateways[2])).gateways.find(({ answer }) => answer === 'self');
    await gateways[2].stop('SIGKILL');
    const of = (all) => all.gateways.find((gateway) => gateway.id === id);
    const first = await fleetOf(gateways[0]);
    assert.match(of(first).answer, /late|silent/);
    assert.equal(of(first).snapshot, null);
    if (of(first).answer === 'late') assert.equal(first.complete, false);
    await until('it is silent', async () => of(await fleetOf(gateways[0])).answer === 'silent');
    const later = await fleetOf(gateways[0]);
    assert.ok(of(later).silent_ms > 5000, `${of(later).silent_ms}`);
    assert.equal(later.complete, true, 'all that live have answered');
    assert.equal(later.counters.calls, 0, 'what it counted is gone with it');
});

test('a gateway that hands over is one row, with the calls of both its processes', async (t) => {
    const redis = await Redis.start(t);
    const { gateways, mock } = await gatewaysOn(t, 2, redis, {
        script: { rules: [{ when: { stream: true }, do: { tokens: 16, pace: 3 } }], default: { tokens: 16 } },
    });
    const [gateway, other] = gateways;
    await complete(gateways, 2);
    const streams = calls(3, () => chat(gateway, { stream: true }));
    await until('they are at the mock', async () => (await mock.seen()).begun === 3);
    const before = gateway.process;
    t.after(() => before.over || (before.child.kill('SIGKILL'), before.ended));
    gateway.options = ['--takeover'];
    await begin(gateway);
    assert.equal((await chat(gateway)).status, 200);
    await until('both have answered', async () => {
        const all = await fleetOf(other);
        return all.gateways.length === 2 && all.gates[0].in_flight === 3 && all.counters.calls === 4;
    });
    for (const reply of await streams) assert.equal(reply.status, 200);
    await before.ended;
    await until('the new one alone', async () => {
        const all = await fleetOf(other);
        return all.complete && all.counters.calls === 1 && all.gates[0].in_flight === 0;
    });
});

test('while the store is away a gateway has itself alone, and says so', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 2, redis, {
        tenant: { budgets: [{ usd: usd(1000), per: 'total' }] },
    });
    await complete(gateways, 2);
    await redis.kill();
    const all = await fleetOf(gateways[0]);
    assert.equal(all.store_away, true);
    assert.equal(all.complete, false);
    assert.deepEqual(all.gateways.map(({ answer }) => answer).sort(), ['self', 'unasked']);
    assert.equal(budgetOf(all, 'one').left_micro_usd, null, 'nobody knows');
    await redis.begin();
    await complete(gateways, 2);
});

test('a slow store is waited for, and a stopped one for a second', async (t) => {
    const redis = await Redis.start(t);
    const slow = await detour(t, redis.port);
    slow.delay = 40;
    const { gateways } = await gatewaysOn(t, 2, slow);
    await complete(gateways, 2);
    redis.pause();
    const stopped = await fleetOf(gateways[0]);
    assert.equal(stopped.store_away, true);
    assert.equal(stopped.complete, false);
    redis.resume();
    await complete(gateways, 2);
});

test('what others have written there is passed over and named', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 2, redis);
    await complete(gateways, 2);
    const before = await fleetOf(gateways[0]);
    const [prefix] = (await redis.ask('KEYS', '*:fleet:{fleet}:reports')).split(':fleet:');
    const name = (part) => `${prefix}:fleet:{fleet}:${part}`;
    /* Whoever asks keeps the answers alive, so these are seen by one of the next questions. */
    await until('garbage is named', async () => {
        const [answers] = (await redis.ask('KEYS', name('answers:*'))).split('\n').filter(Boolean);
        if (answers)
            for (const [i, text] of ['', 'no json', '[1]', '{"counters": {"calls": "x"', '{"counters":3,"gates":[1,{"name":[]}],"keys":{},"budgets":[{}]}'].entries()) {
                await redis.ask('HSET', answers, `garbage${i}.x`, text);
                await redis.ask('HSET', answers.replace('answers:', 'answered:'), `garbage${i}.x`, '9007199254740');
                await redis.ask('HSET', answers.replace('answers:', 'answered:'), `garbage${i}.x`, `${Number(await redis.ask('HGET', name('head'), 'asked')) + 1}`);
            }
        await redis.ask('HSET', name('questions'), 'x', 'y');
        await redis.ask('HSET', name('questions'), '-5', '0 someone snapshot');
        const all = await fleetOf(gateways[0]);
        if (!all.gateways.some(({ answer }) => answer === 'unreadable')) return false;
        assert.equal(all.counters.calls, before.counters.calls);
        assert.equal(all.gates[0].limit, before.gates[0].limit);
        return true;
    });
    /* A program of before there were questions says nothing of answers, and is not waited for. */
    await until('it is unable', async () => {
        const [time] = (await redis.ask('TIME')).split('\n');
        const old = { name: 'old', program: '0.2.0', state: 'current', epoch: '', version: 1, since: 0, problem: '' };
        await redis.ask('HSET', name('reports'), 'old', `${time}000 ${JSON.stringify(old)}`);
        await redis.ask('HSET', name('reports'), 'odd', 'what');
        const all = await fleetOf(gateways[0]);
        assert.equal(all.complete, !all.gateways.some(({ answer }) => !['self', 'answered', 'silent'].includes(answer)));
        return all.gateways.find(({ id }) => id === 'old')?.answer === 'unable';
    });
    await redis.ask('HSET', name('head'), 'asked', 'garbage');
    await until('it goes on', async () => (await api(gateways[1], 'GET', '/snapshot?scope=fleet')).status === 200);
    assert.equal((await api(gateways[0], 'GET', '/snapshot?scope=world')).status, 400);
});

test('nobody asks: the look at the head is all that there is', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 2, redis);
    assert.equal(await redis.ask('EXISTS', 'tg:fleet:{fleet}:questions'), '0');
    const asked = await redis.ask('HGET', 'tg:fleet:{fleet}:head', 'asked');
    assert.equal(asked, '', 'no question was asked yet');
    await complete(gateways, 2);
    await until('answers are forgotten', async () => (await redis.ask('KEYS', '*:answers:*')) === '');
});

/* ---- what a call would be told ---- */

const explain = async (gateway, more = '') => {
    const reply = await api(gateway, 'GET', `/explain?tenant=one&model=small&scope=fleet${more}`);
    assert.equal(reply.status, 200, reply.text);
    conforms('FleetExplanation', reply.json);
    return reply.json;
};

const change = (gateway, edit) => {
    const config = JSON.parse(fs.readFileSync(gateway.file, 'utf8'));
    edit(config);
    return gateway.reload(config);
};

test('an explanation of the fleet has what each gateway would tell such a call', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 3, redis, {
        tenant: { rate: { strategy: 'fixed_window', limit: 2, window: '30d' } },
    });
    await complete(gateways, 3);
    const self = (all) => all.gateways.find(({ answer }) => answer === 'self');
    for (const gateway of gateways) {
        const all = await explain(gateway);
        assert.equal(all.complete, true);
        assert.deepEqual([all.explained, all.admitting], [3, 3]);
        const alone = (await api(gateway, 'GET', '/explain?tenant=one&model=small')).json;
        assert.deepEqual({ ...self(all).explanation, at: 0 }, { ...alone, at: 0 });
    }
    /* At one of them the tenant may not use the model; at another it is not there. */
    await change(gateways[1], (config) => (config.tenants[0].models = ['claude']));
    await change(gateways[2], (config) => (config.tenants[0].name = 'two'));
    const differ = await explain(gateways[0]);
    assert.deepEqual([differ.explained, differ.admitting], [2, 1]);
    assert.equal(self(differ).explanation.admitted, true);
    assert.ok(differ.gateways.some(({ explanation }) => explanation && explanation.status >= 400));
    assert.ok(differ.gateways.some(({ explanation, error }) => !explanation && /no such tenant/.test(error)));
    assert.match(self(await explain(gateways[2])).error, /no such tenant/);
    assert.equal((await explain(gateways[2])).admitting, 1);
    /* What all have used up binds at all. */
    for (let i = 0; i < 2; i++) assert.equal((await chat(gateways[0])).status, 200);
    const used = await explain(gateways[0]);
    assert.equal(used.admitting, 0);
    assert.equal(self(used).explanation.reason, 'rate');
    /* Nothing was charged, and who is wrong is told. */
    assert.equal((await api(gateways[0], 'GET', '/explain?tenant=one&scope=fleet')).status, 400);
    assert.equal((await api(gateways[0], 'GET', '/explain?tenant=one&model=small&scope=x')).status, 400);
});

test('an explanation of the fleet without the store, and with questions of a later program', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 2, redis);
    await complete(gateways, 2);
    const many = await calls(40, () => api(gateways[0], 'GET', '/explain?tenant=one&model=small&scope=fleet'));
    for (const reply of many) assert.match(`${reply.status}`, /^(200|503)$/);
    for (const reply of many.filter(({ status }) => status === 200)) assert.equal(reply.json.explained, 2);
    assert.ok(many.some(({ status }) => status === 200));
    /* What another asks that this program does not know is answered, so that nobody waits. */
    for (const text of ['what-is-new', 'explain?tenant=one&model=small&colour=red', 'explain?', 'explain?model=small'])
        await until(`an answer to ${text}`, async () => {
            const [time] = (await redis.ask('TIME')).split('\n');
            const number = await redis.ask('HINCRBY', 'tg:fleet:{fleet}:head', 'asked', '1');
            await redis.ask('HSET', 'tg:fleet:{fleet}:questions', number, `${time}000 other.process ${text}`);
            for (const key of (await redis.ask('KEYS', 'tg:fleet:{fleet}:answers:*')).split('\n').filter(Boolean))
                for (const said of (await redis.ask('HVALS', key)).split('\n'))
                    if (/does not know|is missing/.test(said)) {
                        await redis.ask('DEL', key);
                        return true;
                    }
            return false;
        });
    await redis.kill();
    const alone = await explain(gateways[1]);
    assert.equal(alone.store_away, true);
    assert.equal(alone.complete, false);
    assert.equal(alone.explained, 1);
    assert.equal(alone.gateways.find(({ answer }) => answer === 'self').explanation.store.away, true);
});
