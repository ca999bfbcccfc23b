/* redis_faults.mjs - Redis is killed, stopped, slow, emptied, full, or talks nonsense: each mode does
 * what it promises, nothing hangs, nothing leaks, and it is well again by itself. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import test from 'node:test';
import { chat, keys, reason, send, until, world } from './kit.mjs';
import {
    Caller,
    decided,
    detour,
    fleet,
    patientFleet,
    PATIENT,
    Redis,
    stored,
    sum,
    window,
} from './redis_kit.mjs';

const ready = async (gateway) => {
    const reply = await send(gateway.probe, '/readyz');
    return { status: reply.status, text: String(reply.body).trim() };
};

/* On a busy machine an answer may be late, and is then no decision: whoever wants one asks again. */
const decidesAgain = (gateway) =>
    until('Redis decides again', async () => {
        const before = await decided([gateway], 'limits', 'redis');
        const { status } = await chat(gateway);
        if ((await decided([gateway], 'limits', 'redis')) === before) return false;
        assert.equal(status, 200);
        return true;
    });

const answers = (gateway, status) =>
    until(`the answer is ${status}`, async () => (await chat(gateway)).status === status);

/* How a Redis is lost, and how it comes back. */
const FAULTS = {
    killed: { lose: (redis) => redis.kill(), mend: (redis) => redis.begin() },
    stopped: { lose: (redis) => redis.pause(), mend: (redis) => redis.resume() },
};

for (const [name, { lose, mend }] of Object.entries(FAULTS)) {
    test(`Redis ${name}: local is this gateway's share, told as what it is, and ends by itself`, async (t) => {
        const redis = await Redis.start(t);
        const { gateways } = await fleet(t, 2, redis.url, {
            tenant: { budgets: [], rate: window(40) },
        });
        const [gateway] = gateways;

        assert.equal((await chat(gateway)).status, 200);
        await lose(redis);
        const replies = [];
        for (let i = 0; i < 25; i++) replies.push(await chat(gateway));
        /* Half of 40 for each of two, and one was admitted before. */
        assert.equal(replies.filter((reply) => reply.status === 200).length, 19);
        assert.ok(replies.slice(19).every((reply) => reason(reply) === 'rate'));
        assert.equal((await decided([gateway], 'limits', 'local')) >= 25, true);
        await stored(gateway, 'down');
        assert.deepEqual(await ready(gateway), {
            status: 200,
            text: 'ok; the store is down: limits local, budgets local',
        });
        const lines = () => gateway.process.out.match(/the store is (away|back)/g) ?? [];
        await until('the log says so', () => lines().length >= 1);
        await mend(redis);
        await until('it says so', async () => (await ready(gateway)).text === 'ok');
        await decidesAgain(gateway);
        await gateway.idle();
        await until('the log says so, too', () => lines().length >= 2);
        assert.ok(lines().every((line, i) => line === `the store is ${i % 2 ? 'back' : 'away'}`));
    });
}

test('closed refuses with 503 and says whose fault it is; open lets through', async (t) => {
    const redis = await Redis.start(t);
    for (const [limits, status] of [
        ['closed', 503],
        ['open', 200],
    ]) {
        await t.test(limits, async (t) => {
            const { gateways } = await fleet(t, 1, redis.url, {
                tenant: { budgets: [], rate: window(1) },
                top: { store_failure: { limits }, store_prefix: limits },
            });
            await answers(gateways[0], 200);
            await answers(gateways[0], 429);
            redis.pause();
            try {
                const reply = await chat(gateways[0]);
                assert.equal(reply.status, status, `${reply.body}`);
                if (status === 503) {
                    assert.equal(reason(reply), 'store_unavailable');
                    await stored(gateways[0], 'down');
                    assert.equal((await ready(gateways[0])).status, 503);
                }
            } finally {
                redis.resume();
            }
            await stored(gateways[0], 'ok');
            await gateways[0].idle();
            await answers(gateways[0], 429); /* the limit holds again */
        });
    }
});

test('money is closed without Redis, and what was spent is known when it comes back empty', async (t) => {
    const redis = await Redis.start(t);
    const COST = 32;
    const { gateways, mock } = await fleet(t, 2, redis.url, {
        small: { price: { input: 0, output: 2 } },
        tenant: { budgets: [{ usd: (10 * COST) / 1e6, per: 'total' }] },
        top: { ...PATIENT, store_failure: { budget: 'closed' } },
    });
    for (let i = 0; i < 6; i++) assert.equal((await chat(gateways[i % 2])).status, 200);
    await Promise.all(gateways.map((gateway) => gateway.idle()));
    await redis.kill();
    const refused = await chat(gateways[0]);
    assert.equal(refused.status, 503);
    assert.equal(reason(refused), 'store_unavailable');
    await redis.begin();
    for (const gateway of gateways) await stored(gateway, 'ok');
    /* Both tell again what they have spent: six of ten are gone. Nothing is granted before all had time to. */
    let served = 0;
    await until('it is spent', async () => {
        const reply = await chat(gateways[served % 2]);
        served += reply.status === 200;
        assert.ok(reply.status === 200 || ['budget', 'store_unavailable'].includes(reason(reply)), reply.body);
        return reply.status === 402;
    });
    assert.equal(served, 4);
    assert.equal((await mock.requests(10)).length, 10);
});

test('calls that are refused for money while Redis is away owe nothing when it is back', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await fleet(t, 1, redis.url, {
        tenant: { budgets: [{ usd: 100, per: 'total' }], rate: window(40) },
        top: { store_failure: { budget: 'closed' } },
    });
    await answers(gateways[0], 200);
    redis.pause();
    for (let i = 0; i < 60; i++) {
        const reply = await chat(gateways[0]);
        assert.equal(reason(reply), 'store_unavailable', `${reply.body}`);
    }
    redis.resume();
    await stored(gateways[0], 'ok');
    let left;
    await until('those that were asked late are given back', async () => {
        const reply = await chat(gateways[0]);
        const said = Number(reply.headers['x-ratelimit-remaining-requests']);
        const before = left;
        left = said;
        return said === before - 1 && said > 20;
    });
    await gateways[0].idle();
});

test('a gateway with many workers gives out its share once, not each of them', async (t) => {
    const K = 400;
    const redis = await Redis.start(t);
    const { gateways } = await fleet(t, 1, redis.url, {
        tenant: { budgets: [], rate: window(K) },
        top: { workers: 8 },
    });
    const callers = Array.from({ length: 24 }, () => new Caller(gateways[0]));
    await until('all have been served', () => callers.every((caller) => caller.counts.served > 0));
    redis.pause();
    const seen = () => callers.map((caller) => caller.counts.rate ?? 0);
    await until('all are refused', () => seen().every((n) => n > 100));
    await stored(gateways[0], 'down');
    const counts = sum(await Promise.all(callers.map((caller) => caller.stop())));
    assert.ok(counts.served <= 2 * K, `${counts.served} of ${K}`);
    redis.resume();
});

test('a client that leaves while Redis is silent leaves nothing behind', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await fleet(t, 1, redis.url, {
        tenant: { budgets: [], rate: window(5) },
        top: PATIENT,
    });
    assert.equal((await chat(gateways[0])).status, 200);
    redis.pause();
    const calls = Array.from({ length: 20 }, () => chat(gateways[0]));
    for (const call of calls)
        call.request.on('finish', () => setImmediate(() => call.request.destroy()));
    await Promise.allSettled(calls);
    await gateways[0].idle();
    redis.resume();
    await stored(gateways[0], 'ok');
    /* What Redis has said yes to after they had gone was given back: four of five are left. */
    let served = 0;
    await until('what came too late is given back', async () => {
        const reply = await chat(gateways[0]);
        served += reply.status === 200 ? 1 : 0;
        return served === 4;
    });
    assert.equal((await chat(gateways[0])).status, 429);
});

/* A server that answers whatever it is told to. */
async function liar(t, answer) {
    const sockets = new Set();
    const server = net.createServer((socket) => {
        sockets.add(socket);
        socket.on('error', () => {});
        socket.on('close', () => sockets.delete(socket));
        socket.on('data', (bytes) => answer(socket, bytes));
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    t.after(() => {
        for (const socket of sockets) socket.destroy();
        server.close();
    });
    return `redis://127.0.0.1:${server.address().port}`;
}

const LIES = {
    'nonsense to everything': (socket) => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'),
    'half a reply, and then nothing': (socket) => socket.write('*13\r\n:1\r\n:2'),
    'an array without end': (socket) => socket.write('*99999999\r\n:1\r\n'),
    'a good word, and wrong numbers': (socket, bytes) => {
        const words = String(bytes);
        for (const word of words.match(/\b(PING|HELLO|AUTH|SELECT|CLIENT|EVALSHA|EVAL|ROLE)\b/g) ?? [])
            socket.write(
                word === 'PING'
                    ? '+PONG\r\n'
                    : word === 'ROLE'
                      ? '*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n'
                      : word.startsWith('EVAL')
                        ? '*3\r\n:1\r\n$3\r\nabc\r\n:-7\r\n'
                        : '+OK\r\n',
            );
    },
};

for (const [what, lie] of Object.entries(LIES))
    test(`a server that says ${what}: decided locally, and no harm done`, async (t) => {
        const redis = await Redis.start(t);
        const { gateways } = await fleet(t, 1, redis.url, {
            tenant: { budgets: [], rate: window(3) },
        });
        gateways[0].process.child.kill('SIGKILL');
        await gateways[0].process.ended;
        const url = await liar(t, lie);
        const config = JSON.parse(fs.readFileSync(gateways[0].file));
        fs.writeFileSync(gateways[0].file, JSON.stringify({ ...config, store: url }));
        await gateways[0].begin();
        const replies = [];
        for (let i = 0; i < 5; i++) replies.push(await chat(gateways[0]));
        assert.deepEqual(
            replies.map((reply) => reply.status),
            [200, 200, 200, 429, 429],
        );
        await gateways[0].idle();
    });

test('a Redis out of memory takes no writes: local, and well again when there is room', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await fleet(t, 1, redis.url, {
        tenant: { budgets: [], rate: window(4) },
    });
    assert.equal((await chat(gateways[0])).status, 200);
    await redis.ask('CONFIG', 'SET', 'maxmemory', '1');
    const reply = await chat(gateways[0]);
    assert.equal(reply.status, 200);
    assert.ok((await decided(gateways, 'limits', 'local')) >= 1);
    await redis.ask('CONFIG', 'SET', 'maxmemory', '0');
    await until('Redis decides again', async () => {
        const before = await decided(gateways, 'limits', 'redis');
        await chat(gateways[0]);
        return (await decided(gateways, 'limits', 'redis')) > before;
    });
});

test('a Redis that is connected and of no use is told as degraded, until it is of use again', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await patientFleet(t, 1, redis.url, {
        tenant: { budgets: [], rate: window(1000000) },
    });
    assert.equal((await chat(gateways[0])).status, 200);
    const [key] = (await redis.ask('KEYS', '*:rate:*')).split('\n');
    await redis.ask('DEL', key);
    await redis.ask('RPUSH', key, 'what is none of ours');
    const caller = new Caller(gateways[0]);
    await stored(gateways[0], 'degraded');
    assert.match((await ready(gateways[0])).text, /^ok; the store is degraded: limits local/);
    await until('the log says why', () =>
        /not usable|WRONGTYPE/.test(gateways[0].process.out),
    );
    assert.ok((await gateways[0].metrics('kind="error"')).store_errors_total > 0);
    await redis.ask('DEL', key);
    await stored(gateways[0], 'ok');
    assert.deepEqual(Object.keys(await caller.stop()), ['served']);
    await gateways[0].idle();
});

test('a Redis that forbids its scripts is told as away, and is back when it allows them', async (t) => {
    const redis = await Redis.start(t);
    await redis.ask('ACL', 'SETUSER', 'gate', 'on', '>pass', '~tg:*', '+@all');
    const { gateways } = await patientFleet(t, 1, `redis://gate:pass@127.0.0.1:${redis.port}`, {
        tenant: { budgets: [], rate: window(1000000) },
    });
    await redis.ask('ACL', 'SETUSER', 'gate', 'resetkeys', '~other:*');
    await stored(gateways[0], 'degraded'); /* nobody has called: it is seen by what is always told */
    const caller = new Caller(gateways[0]);
    await stored(gateways[0], 'down');
    await until('the log says why', () => /NOPERM/.test(gateways[0].process.out));
    assert.deepEqual(Object.keys(await caller.stop()), ['served']);
    await redis.ask('ACL', 'SETUSER', 'gate', 'resetkeys', '~tg:*');
    await stored(gateways[0], 'ok');
    await decidesAgain(gateways[0]);
});

test('answers that are slow and not late: the third is not waited for beyond what two may take', async (t) => {
    const redis = await Redis.start(t);
    const way = await detour(t, redis.port);
    const { gateways } = await fleet(t, 1, way.url, {
        oai: { keys: keys(1, { rpm: 100000 }) },
        tenant: { budgets: [{ usd: 100, per: 'total' }], rate: window(100000) },
        top: { store_timeout: '400ms', store_failure: { budget: 'local' } },
    });
    const call = async () => assert.equal((await chat(gateways[0])).status, 200);
    const keysBy = (who) => decided(gateways, 'keys', who);
    await until('Redis has all scripts', async () => (await call(), (await keysBy('redis')) > 0));
    const before = await keysBy('local');
    way.delay = 300; /* limits, budget: 600 of 720 ms; the key would be the third */
    await until('a key is taken on the word of the gateway', async () => {
        await call();
        return (await keysBy('local')) > before;
    });
    way.delay = 0;
    await gateways[0].idle();
});

for (const tiers of [false, true])
    test(`what was taken of a key without Redis is charged there afterwards (${tiers ? 'two tiers' : 'strict'})`, async (t) => {
        const RPM = 30;
        const redis = await Redis.start(t);
        const { gateways } = await fleet(t, 2, redis.url, {
            tiers,
            oai: { keys: keys(1, { rpm: RPM }) },
            tenant: { budgets: [] },
        });
        const [one, other] = gateways;
        let served = 0;
        const call = async (gateway) => {
            const reply = await chat(gateway);
            served += reply.status === 200;
            return reply;
        };
        await call(one);
        redis.pause();
        const local = await decided([one], 'keys', 'local');
        await until('keys are taken on the word of the gateway', async () => {
            await call(one);
            return (await decided([one], 'keys', 'local')) > local + 4;
        });
        /* A call without a budget is no decision about one, whoever is away. */
        for (const by of ['redis', 'blocks', 'local'])
            assert.equal(await decided(gateways, 'budget', by), 0, by);
        redis.resume();
        for (const gateway of gateways) await stored(gateway, 'ok');
        await one.idle();
        await until('Redis has been told', async () => (await one.metric('store_untold')) === 0);
        /* The other knows of these by Redis alone; what the first holds in a block comes back. */
        await until('the key is used up', async () => {
            const reply = await call(other);
            return served >= RPM - 4 && reason(reply) === 'no_key';
        });
        assert.ok(served <= RPM, `${served} of ${RPM} a minute`);
    });

test('Redis is not there at the start: it serves, and finds Redis when that comes', async (t) => {
    const redis = await Redis.start(t);
    await redis.kill();
    const { gateway } = await world(t, {
        top: { ...PATIENT, store: redis.url, workers: 1 },
        tenant: { budgets: [], rate: window(2) },
    });
    assert.equal((await chat(gateway)).status, 200);
    await redis.begin();
    await stored(gateway, 'ok');
    await until('Redis is told of the first', async () =>
        (await redis.ask('KEYS', '*:rate:*')).includes('rate'),
    );
    assert.equal((await chat(gateway)).status, 200);
    assert.equal((await chat(gateway)).status, 429);
});

test('Redis comes and goes under load: every call is answered, by somebody', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await fleet(t, 2, redis.url, {
        tenant: { budgets: [], rate: { strategy: 'gcra', limit: 1000000, period: '60s' } },
    });
    const callers = gateways.flatMap((gateway) => [new Caller(gateway), new Caller(gateway)]);
    for (const { lose, mend } of [...Object.values(FAULTS), ...Object.values(FAULTS)]) {
        await lose(redis);
        const down = callers.map((caller) => caller.n);
        await until('it goes on without', () => callers.every((c, i) => c.n > down[i] + 30));
        await mend(redis);
        for (const gateway of gateways) await stored(gateway, 'ok');
        const up = callers.map((caller) => caller.n);
        await until('it goes on with it', () => callers.every((c, i) => c.n > up[i] + 30));
    }
    const counts = sum(await Promise.all(callers.map((caller) => caller.stop())));
    assert.deepEqual(Object.keys(counts), ['served'], JSON.stringify(counts));
    for (const gateway of gateways) await gateway.idle();
});
