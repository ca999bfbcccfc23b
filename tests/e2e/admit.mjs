/* admit.mjs - decisions for other gateways, asked for over HTTP as JSON.
 *
 * The callers are `boss`, who may state everything, and `shy`, who may state nothing.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import test from 'node:test';
import { Chance } from '../adversary/moves.mjs';
import { json, KEY, reason, send, sha256, until, world } from './kit.mjs';

const BOSS = 'token-of-the-boss';
const SHY = 'token-of-the-shy-one';
const MAY = { boss: ['tenant', 'peer', 'priority', 'value'], shy: [] };

const callers = [
    { name: 'boss', token_sha256: sha256(BOSS), may: MAY.boss },
    { name: 'shy', token_sha256: sha256(SHY), may: MAY.shy },
];

const four = { law: 'fixed', initial: 4, min: 1, max: 4 };
const hour = { high: '1h', normal: '1h', low: '1h' };
const never = { high: '0ms', normal: '0ms', low: '0ms' };

async function open(t, gate = {}, top = {}, listen = {}) {
    const { gateway, config } = await world(t, {
        listen,
        top: { callers, gate: { concurrency: four, queue: { wait: never }, ...gate }, ...top },
    });
    const ask = (what, body = {}, { token = BOSS, ...headers } = {}, more = {}) =>
        send(gateway.url, `/tollgate/v1/${what}`, body, {
            headers: { authorization: `Bearer ${token}`, ...headers },
            ...more,
        });
    const yes = async (...of) => {
        const reply = await ask(...of);
        assert.equal(reply.status, 200, String(reply.body));
        return json(reply);
    };
    return { gateway, config, ask, yes };
}

const held = (gateway) => gateway.metric('concurrency_in_flight');

test('admitted, renewed, released, once', async (t) => {
    const { gateway, yes } = await open(t);
    const said = await yes('admit', { tenant: 'one', model: 'small', cost: 3, ttl_ms: 60000 });
    assert.equal(said.allowed, true);
    assert.equal(said.axes.concurrency.remaining, 3);
    assert.ok(!('reason' in said) && !('binding_axis' in said));
    assert.match(said.lease_id, /^[a-z0-9]{10}-[A-Za-z0-9_-]{40}$/);
    assert.ok(said.lease_expires_at_ms > Date.now());
    assert.equal(await held(gateway), 1);

    const beat = await yes('heartbeat', { lease_ids: [said.lease_id, 'nonsense'] });
    assert.deepEqual(beat.live_ids, [said.lease_id]);
    assert.deepEqual(beat.reclaimed_ids, ['nonsense']);
    assert.ok(beat.next_deadline_ms >= said.lease_expires_at_ms);

    const end = { lease_id: said.lease_id, outcome: 'ok', actual: 2, sample_ms: 12.5 };
    assert.deepEqual(await yes('release', end), { found: true });
    assert.deepEqual(await yes('release', end), { found: false });
    await gateway.idle();
});

test('the fifth of four is refused, and by its status if that is wanted', async (t) => {
    const { gateway, ask, yes } = await open(t);
    const leases = [];
    for (let i = 0; i < 4; i++) leases.push((await yes('admit')).lease_id);

    const fifth = await yes('admit');
    assert.equal(fifth.allowed, false);
    assert.equal(fifth.reason, 'concurrency');
    assert.equal(fifth.binding_axis, 'concurrency');
    assert.match(fifth.message, /^server overloaded/);
    assert.equal(fifth.limit, 4);
    assert.equal(fifth.remaining, 0);
    assert.ok(fifth.retry_after_ms >= 1);
    assert.ok(!('lease_id' in fifth));

    const enforced = await ask('admit', {}, { 'x-tollgate-enforce': '1' });
    assert.equal(enforced.status, 429);
    assert.equal(reason(enforced), 'concurrency');
    assert.equal(enforced.headers['x-tollgate-binding-axis'], 'concurrency');
    assert.ok(Number(enforced.headers['retry-after-ms']) >= 1);
    assert.match(json(enforced).error.message, /^server overloaded/);

    const peek = await yes('peek');
    assert.equal(peek.allowed, false);
    assert.equal(peek.reason, 'concurrency');

    await yes('release', { lease_id: leases.pop() });
    assert.equal((await yes('peek')).allowed, true);
    leases.push((await yes('admit')).lease_id);
    for (const lease_id of leases) await yes('release', { lease_id });
    await gateway.idle();
});

test('high gets through a gate that is filled with low', async (t) => {
    const { gateway, yes } = await open(t, { low_priority_shed_ratio: 0.5 });
    const low = [];
    for (let i = 0; i < 4; i++) low.push(await yes('admit', { priority: 'low' }));
    assert.deepEqual(
        low.map((said) => said.allowed),
        [true, true, false, false],
    );
    const high = await yes('admit', {}, { 'x-deriva-priority': 'high' });
    assert.equal(high.allowed, true);
    for (const said of [...low, high])
        if (said.allowed) await yes('release', { lease_id: said.lease_id });
    await gateway.idle();
});

test('a lease is nobody else’s', async (t) => {
    const { gateway, yes } = await open(t);
    const { lease_id } = await yes('admit', {}, { token: SHY });
    assert.deepEqual(await yes('release', { lease_id }), { found: false });
    assert.deepEqual((await yes('heartbeat', { lease_ids: [lease_id] })).reclaimed_ids, [lease_id]);
    assert.equal(await held(gateway), 1);
    assert.deepEqual(await yes('release', { lease_id }, { token: SHY }), { found: true });
    await gateway.idle();
});

/* Forged, altered, foreign and ended leases, renewals of them, and odd times to live: each lease is ended by
 * its own caller, once, and no more are held than there are slots. */
test('whatever is done with leases, nobody has more than there are, or ends those of others', async (t) => {
    const seed = Number(process.env.ADMIT_SEED ?? Date.now() % 1000000);
    const r = new Chance(seed);
    const { gateway, ask } = await open(t);
    const tokens = { boss: BOSS, shy: SHY };
    const live = new Map(); /* lease: its caller */
    const ended = [];
    const told = (what, body, who) => ask(what, body, { token: tokens[who] });
    const altered = (id) => {
        const at = r.int(0, id.length - 1);
        return r.pick([
            id.slice(0, at) + (id[at] === 'a' ? 'b' : 'a') + id.slice(at + 1),
            id.slice(0, -1),
            id + id,
            id.toUpperCase() === id ? `${id}-` : id.toUpperCase(),
            '',
            `${id}\u0000`,
        ]);
    };
    for (let i = 0; i < 400; i++) {
        const who = r.pick(['boss', 'shy']);
        const own = [...live].filter(([, caller]) => caller === who).map(([id]) => id);
        const others = [...live].filter(([, caller]) => caller !== who).map(([id]) => id);
        const some = [...own, ...others, ...ended.slice(-3)];
        const draw = r.next();
        const why = `seed ${seed}, step ${i}`;
        if (draw < 0.4) {
            const ttl_ms = r.pick([600000, 600000, 600000, 0, -1, 1.5, 1e18, '60000', null]);
            const reply = await told('admit', { ttl_ms, ...(r.chance(0.3) && { cost: r.pick([0, 1, 2 ** 53, -1]) }) }, who);
            assert.ok(reply.status < 500, `${why}: ${reply.status} ${reply.body}`);
            const said = reply.status === 200 ? json(reply) : {};
            if (said.lease_id) live.set(said.lease_id, who);
            assert.ok(live.size <= 4, `${why}: ${live.size} are held`);
        } else if (draw < 0.75 && some.length > 0) {
            const id = r.pick(some);
            const sent = r.chance(0.4) ? altered(id) : id;
            const more = r.pick([{}, { outcome: 'ok' }, { actual: 2 ** 53 }, { actual: -5 }, { outcome: 'gone' }, { sample_ms: -1 }]);
            const reply = await told('release', { lease_id: sent, ...more }, who);
            assert.ok(reply.status < 500, `${why}: ${reply.status} ${reply.body}`);
            const found = reply.status === 200 && json(reply).found;
            if (reply.status === 200) assert.equal(found, live.get(sent) === who, `${why}: ${sent}`);
            if (found) live.delete(sent), ended.push(sent);
        } else if (some.length > 0) {
            const ids = [r.pick(some), r.pick(some), altered(r.pick(some))].filter(Boolean);
            const reply = await told('heartbeat', { lease_ids: ids }, who);
            assert.equal(reply.status, 200, `${why}: ${reply.body}`);
            const said = json(reply);
            for (const id of said.live_ids) assert.equal(live.get(id), who, `${why}: ${id} is renewed`);
            for (const id of ids.filter((one) => live.get(one) === who)) assert.ok(said.live_ids.includes(id), why);
        }
    }
    assert.equal(await held(gateway), live.size, `seed ${seed}`);
    for (const [id, who] of live) assert.equal(json(await told('release', { lease_id: id }, who)).found, true);
    await gateway.idle();
});

test('what a caller may not state is refused by its name; its headers are not read', async (t) => {
    const { gateway, ask, yes } = await open(t, { peers: { limit: 1 } });
    for (const [field, value] of [
        ['tenant', 'one'],
        ['peer', 'n1'],
        ['priority', 'low'],
        ['value', 2],
    ]) {
        const reply = await ask('admit', { [field]: value }, { token: SHY });
        assert.equal(reply.status, 403);
        assert.equal(reason(reply), 'field_not_allowed');
        assert.equal(json(reply).error.param, field);
        const said = await yes('admit', { [field]: value });
        assert.equal(said.allowed, true);
        await yes('release', { lease_id: said.lease_id });
    }
    const peers = async (token) => {
        const said = [];
        for (const node of ['n1', 'n2'])
            said.push(await yes('admit', {}, { token, 'x-deriva-node-id': node }));
        for (const { lease_id } of said)
            if (lease_id) await yes('release', { lease_id }, { token });
        return said.map((one) => one.reason);
    };
    assert.deepEqual(await peers(BOSS), [undefined, undefined]);
    assert.deepEqual(await peers(SHY), [undefined, 'peer_limit'], 'it is one peer, by its name');
    await gateway.idle();
});

test('a caller that hangs up in the queue leaves it', async (t) => {
    const { gateway, ask, yes } = await open(t, { queue: { wait: hour } });
    const leases = [];
    for (let i = 0; i < 4; i++) leases.push((await yes('admit')).lease_id);
    const waits = ask('admit');
    const stays = ask('admit');
    waits.catch(() => 0);
    await until('two wait', async () => (await gateway.metric('concurrency_queued')) === 2);
    waits.request.destroy();
    await until('one waits', async () => (await gateway.metric('concurrency_queued')) === 1);
    await yes('release', { lease_id: leases.pop() });
    const said = json(await stays);
    assert.equal(said.allowed, true);
    for (const lease_id of [...leases, said.lease_id]) await yes('release', { lease_id });
    await gateway.idle();
});

test('who waits no longer than it says is refused then', async (t) => {
    const { gateway, yes } = await open(t, { queue: { wait: hour } });
    const leases = [];
    for (let i = 0; i < 4; i++) leases.push((await yes('admit')).lease_id);
    const said = await yes('admit', { timeout_ms: 20 });
    assert.equal(said.allowed, false);
    assert.equal(said.reason, 'concurrency');
    for (const lease_id of leases) await yes('release', { lease_id });
    await gateway.idle();
});

test('leases end with their connection, if that is wanted', async (t) => {
    const { gateway, ask, yes } = await open(t);
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    t.after(() => agent.destroy());
    for (const end_with_connection of [true, true, false]) {
        const reply = await ask('admit', { end_with_connection }, {}, { agent });
        assert.equal(json(reply).allowed, true);
    }
    await yes('admit', { end_with_connection: true }); /* on one that has ended by now */
    await until('three are held', async () => (await held(gateway)) === 3);
    agent.destroy();
    await until('one is held', async () => (await held(gateway)) === 1);
});

test('the same over HTTP/2, many at once on one connection', async (t) => {
    const { gateway, yes } = await open(t, {
        concurrency: { law: 'fixed', initial: 64, min: 1, max: 64 },
    });
    const session = http2.connect(gateway.url);
    t.after(() => session.destroy());
    const ask = (body) =>
        new Promise((done, fail) => {
            const stream = session.request({
                ':method': 'POST',
                ':path': '/tollgate/v1/admit',
                authorization: `Bearer ${BOSS}`,
            });
            let text = '';
            stream.on('error', fail);
            stream.on('data', (bytes) => (text += bytes));
            stream.on('end', () => done(JSON.parse(text)));
            stream.end(JSON.stringify(body));
        });
    const said = await Promise.all(
        Array.from({ length: 40 }, (_, i) => ask({ end_with_connection: i > 0 })),
    );
    assert.ok(said.every((one) => one.allowed));
    assert.equal(await held(gateway), 40);
    session.destroy();
    await until('one is held', async () => (await held(gateway)) === 1);
    assert.deepEqual(await yes('release', { lease_id: said[0].lease_id }), { found: true });
    await gateway.idle();
});

test('leases of callers that have died are gone after their time', async (t) => {
    const n = 500;
    const { gateway, yes } = await open(t, {
        concurrency: { law: 'fixed', initial: 1000, min: 1, max: 1000 },
        peers: { limit: 1000 },
    });
    for (let i = 0; i < n; i++) assert.ok((await yes('admit', { ttl_ms: 1 + i })).allowed);
    await until('none is held', async () => (await held(gateway)) === 0);
    assert.equal(await gateway.metric('leases_expired_total'), n);
});

test('rate and cost alone: a verdict by status, for auth_request', async (t) => {
    const { gateway, ask } = await open(t, {
        rate: { strategy: 'gcra', limit: 2, period: '2m' },
    });
    const verdict = (query, headers = {}) =>
        ask(`admit?${query}`, undefined, headers, { method: 'GET' });
    for (let i = 0; i < 2; i++) {
        const reply = await verdict('tenant=a%20b');
        assert.equal(reply.status, 204);
        assert.equal(reply.headers['x-ratelimit-limit-requests'], '2');
        assert.equal(reply.body.length, 0);
    }
    const refused = await verdict('', { 'x-tollgate-tenant': 'a b' });
    assert.equal(refused.status, 403);
    assert.equal(reason(refused), 'rate');
    assert.ok(Number(refused.headers['retry-after']) >= 1);
    assert.equal((await verdict('tenant=c')).status, 204, 'everybody has his own');
    assert.equal((await verdict('tenant=c&cost=x')).status, 400);
    assert.equal((await verdict('tenant=c&tenant=d')).status, 400);
    assert.equal((await verdict('tenant=c', { token: 'guess' })).status, 401);
    assert.equal((await verdict('tenant=c', { token: SHY })).status, 403);
    assert.equal(await held(gateway), 0);
});

test('what is no question is told so', async (t) => {
    const { gateway, ask } = await open(t);
    const status = async (...of) => (await ask(...of)).status;
    assert.equal(await status('admit', '{'), 400);
    assert.equal(await status('admit', '[]'), 400);
    assert.equal(await status('admit', { costs: 1 }), 400);
    assert.equal(await status('admit', { cost: -1 }), 400);
    assert.equal(await status('admit', { ttl_ms: 600001 }), 400);
    assert.equal(await status('admit?tenant=a', {}), 400, 'of POST, the fields are in the body');
    assert.equal(await status('admit', { tenant: 'a\0b' }), 400);
    assert.equal(await status('release', {}), 400);
    assert.equal(await status('heartbeat', { lease_ids: Array(1025).fill('x') }), 400);
    assert.equal(await status('admit', ' '.repeat(200000)), 413);
    assert.equal(await status('nothing'), 404);
    assert.equal(await status('admit', {}, { 'content-encoding': 'gzip' }), 415);
    assert.equal(await status('release', {}, {}, { method: 'PUT' }), 405);
    for (const token of ['guess', KEY]) assert.equal(await status('admit', {}, { token }), 401);
    const headers = { authorization: '' };
    const none = await send(gateway.url, '/tollgate/v1/admit', {}, { headers });
    assert.equal(none.status, 401);
    const wrong = json(await ask('admit', { ttl_ms: 600001 }));
    assert.equal(wrong.error.param, 'ttl_ms');
    assert.match(wrong.error.message, /1 to 600000 are allowed/);
    await gateway.idle();
});

test('decisions are counted; refusals are logged and can be watched', async (t) => {
    const token = 'token-of-the-admin';
    const { gateway, yes } = await open(t, {}, { admin_auth: { token } }, { admin: '127.0.0.1:0' });
    const leases = [];
    for (let i = 0; i < 6; i++) leases.push(await yes('admit', { tenant: 'one' }));
    const sums = async (...labels) => gateway.metric('requests_total', 'tenant="one"', ...labels);
    assert.equal(await sums('reason="none"'), 4);
    assert.equal(await sums('reason="concurrency"'), 2);
    assert.match(await gateway.metricsText(), /^admission_total\{result="admitted"\} 4$/m);
    const line = /"endpoint":"admit".*"concurrency"/;
    await until('the log has it', () => line.test(gateway.process.out));
    const [, port] = await gateway.process.said(/127\.0\.0\.1:(\d+) \(admin\)/);
    const snapshot = await fetch(`http://127.0.0.1:${port}/api/v1/snapshot`, {
        headers: { authorization: `Bearer ${token}` },
    });
    const denial = (await snapshot.json()).denials[0];
    assert.equal(denial.reason, 'concurrency');
    assert.equal(denial.tenant, 'one');
    for (const { lease_id } of leases) if (lease_id) await yes('release', { lease_id });
    await gateway.idle();
});

test('without callers there is nothing', async (t) => {
    const { ask } = await open(t, {}, { callers: [] });
    assert.equal((await ask('admit')).status, 404);
});

test('a caller that a reload has taken out is nobody, its leases end by their time', async (t) => {
    const { gateway, ask, yes } = await open(t);
    assert.ok((await yes('admit', { ttl_ms: 2000 })).allowed);
    const config = JSON.parse(fs.readFileSync(gateway.file));
    config.callers.shift();
    gateway.write(config);
    gateway.hangUp();
    await until('it is nobody', async () => (await ask('admit')).status === 401);
    assert.equal((await ask('admit', {}, { token: SHY })).status, 200);
});

/* ---- slots of a caller ---- */

test('a caller with a concurrency of its own has that one, and stands under the gate, too', async (t) => {
    const own = callers.map((one) =>
        one.name === 'shy' ? { ...one, concurrency: { law: 'fixed', initial: 2 } } : one,
    );
    const { gateway, yes } = await open(t, {}, { callers: own });
    const shy = { token: SHY };
    const inFlight = (gate) => gateway.metric('concurrency_in_flight', `gate="${gate}"`);
    const first = await yes('admit', {}, shy);
    const second = await yes('admit', { ttl_ms: 60000 }, shy);
    assert.equal(first.axes.concurrency.limit, 4);
    const third = await yes('admit', {}, shy);
    assert.equal(third.reason, 'concurrency');
    assert.equal(third.axes.concurrency.limit, 2, 'its own limit');
    assert.equal((await yes('peek', {}, shy)).axes.concurrency.limit, 2);
    assert.equal(await inFlight('caller shy'), 2);
    assert.equal(await inFlight('all'), 2, 'what was refused holds nothing');

    /* Others have what the gate has left. */
    const others = [await yes('admit'), await yes('admit')];
    assert.deepEqual(others.map((one) => one.allowed), [true, true]);
    assert.equal((await yes('admit')).allowed, false);

    /* A lease is one for whoever holds it. */
    const beat = await yes('heartbeat', { lease_ids: [second.lease_id] }, shy);
    assert.deepEqual(beat.live_ids, [second.lease_id]);
    assert.deepEqual(await yes('release', { lease_id: first.lease_id }, shy), { found: true });
    assert.deepEqual(await yes('release', { lease_id: first.lease_id }, shy), { found: false });
    assert.equal(await inFlight('caller shy'), 1);
    assert.equal(await inFlight('all'), 3);
    await yes('release', { lease_id: second.lease_id }, shy);
    for (const { lease_id } of others) await yes('release', { lease_id });

    /* And ends with its connection, as a whole. */
    await yes('admit', { end_with_connection: true }, shy);
    await gateway.idle();
});

test('the slots of a caller survive a reload, and go with it when its last lease ends', async (t) => {
    const own = (shy) =>
        callers.map((one) => (one.name === 'shy' ? { ...one, ...shy } : one));
    const { gateway, config, yes } = await open(
        t,
        {},
        { callers: own({ concurrency: { law: 'fixed', initial: 2 } }) },
    );
    const shy = { token: SHY };
    const first = await yes('admit', {}, shy);
    await gateway.reload({ ...config, callers: own({ concurrency: { law: 'fixed', initial: 1 } }) });
    assert.equal((await yes('admit', {}, shy)).reason, 'concurrency', 'the one that runs counts');
    await gateway.reload({ ...config, callers: own({}) });
    assert.equal((await yes('admit', {}, shy)).axes.concurrency.limit, 4, 'the gate alone');
    assert.deepEqual(await yes('release', { lease_id: first.lease_id }, shy), { found: true });
});
