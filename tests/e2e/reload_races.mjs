/* reload_races.mjs - another configuration at the worst moment: under a storm of them, with everything
 * that calls hold gone from the file, while draining, and with files that come and go.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import {
    chat,
    configure,
    events,
    json,
    keys,
    OTHER_KEY,
    pause,
    reason,
    replace,
    send,
    sha256,
    SECRETS,
    tenant,
    until,
    world,
} from './kit.mjs';

const said = (gateway, msg) => gateway.lines().filter((line) => line.msg === msg);

const whole = (reply, n) => events(reply).filter((e) => e.choices[0]?.delta?.content).length === n;

/* ---- storms ---- */

/* What a call may hold, in forms that each lack something of the others: keys, a provider, a model, a
 * tenant, a user's limits, a budget, a queue. */
function forms(mock, folder) {
    const two = { name: 'two', keys: [{ name: 'main', sha256: sha256(OTHER_KEY) }] };
    const fresh = {
        base_url: mock.url,
        api: 'openai',
        keys: [{ name: 'n', secret: SECRETS[1], concurrency: 40 }],
    };
    return [
        {},
        { oai: { keys: keys(2, { tpm: 100000000, rpm: 100000 }) } },
        { tenants: [two] },
        { tenants: [tenant({ parent: 'two', concurrency: 50, budgets: [] }), two] },
        {
            providers: { fresh },
            models: { small: { provider: 'fresh', price: { output: 1 }, fallback: ['more'] } },
            small: undefined,
            more: true,
        },
        {
            tenant: {
                users: { from: 'header:x-user', max: 100, each: { rpm: 100000, tpm: 100000000 } },
                limits: [{ models: ['small'], rpm: 1000000 }],
                budgets: [{ usd: 100, per: 'total' }, { usd: 90, per: 'day', tz: 'Asia/Tokyo' }],
            },
        },
        { small: { concurrency: { law: 'vegas', initial: 10, min: 4, max: 64 } } },
    ].map((change) => {
        const config = configure(mock, folder, change);
        if (change.more) config.models.more = { provider: 'oai', price: {} };
        return config;
    });
}

test('a storm of reloads under load that take away what calls hold', async (t) => {
    const { gateway, mock, folder } = await world(t, {
        script: { default: { latency: '3ms', tokens: 6, pace: 500 } },
    });
    const all = forms(mock, folder);
    const codes = {};
    const wrong = [];
    let over = false;
    const client = async (who) => {
        for (let i = 0; !over; i++) {
            const key = (who + i) % 3 === 0 ? OTHER_KEY : undefined;
            const stream = i % 2 === 0;
            const call = chat(
                gateway,
                { stream, max_tokens: 6 },
                {
                    headers: {
                        'x-user': `u${i % 7}`,
                        ...(key && { authorization: `Bearer ${key}` }),
                    },
                    onData: (body, request) => {
                        if (i % 5 === 0) request.destroy();
                    },
                },
            );
            const reply = await call.catch(() => 'left');
            const code = reply.status ?? reply;
            codes[code] = (codes[code] ?? 0) + 1;
            if (code === 200 && stream && i % 5 !== 0 && !whole(reply, 6)) wrong.push('cut');
            /* A model that leaves its provider takes with it what has not been sent yet. */
            const moved = code === 503 && reason(reply) === 'no_key';
            if (!moved && ![200, 401, 'left'].includes(code)) wrong.push(String(reply.body));
        }
    };
    const clients = Promise.all(Array.from({ length: 12 }, (_, who) => client(who)));
    try {
        for (let i = 0; i < 120; i++) {
            gateway.write(all[i % all.length]);
            gateway.hangUp();
            if (i % 4 === 0) await pause(5);
        }
        for (const config of all) await gateway.reload(config);
    } finally {
        over = true;
        await clients;
    }
    assert.deepEqual(wrong, []);
    assert.ok(codes[200] > 20, JSON.stringify(codes));
    await gateway.reload(all[0]);
    await gateway.idle();
    assert.equal((await chat(gateway)).status, 200);
});

test('calls that wait for a slot wait on, whatever becomes of their tenant and model', async (t) => {
    const small = { concurrency: { law: 'fixed', initial: 1, max: 1 } };
    const gate = { concurrency: {}, queue: { wait: { high: '20s', normal: '20s' } } };
    const script = {
        default: { tokens: 10 },
        rules: [{ when: { nth: '1' }, do: { fault: 'hang', at: 'event 4' } }],
    };
    const { gateway, mock, folder } = await world(t, { script, small, top: { gate } });
    const ask = () => chat(gateway, { stream: true });
    /* One that has the slot until it is told to leave. */
    const holder = async (n) => {
        const call = ask();
        call.catch(() => 0);
        await until('it is at the mock', async () => (await mock.seen()).begun === n);
        return call.request;
    };
    const first = await holder(1);
    const calls = [ask(), ask()];
    await until('two wait', async () => (await gateway.metric('route_queued')) === 2);
    await gateway.reload(
        configure(mock, folder, {
            small: { ...small, retries: 0, price: { output: 5 } },
            oai: { keys: [{ name: 'k1', secret: SECRETS[1] }] },
            tenants: [tenant({ parent: 'house', budgets: [] }), { name: 'house' }],
            top: { gate },
        }),
    );
    first.destroy();
    for (const reply of await Promise.all(calls)) {
        assert.equal(reply.status, 200, String(reply.body));
        assert.ok(whole(reply, 10) && !reply.cut);
    }
    await gateway.idle();
    assert.equal((await gateway.spend()).total.calls, 3);

    /* A tenant that is gone has no money to reserve: its calls that still wait are told so. */
    await mock.script(script);
    const second = await holder(4);
    const last = ask();
    await until('one waits', async () => (await gateway.metric('route_queued')) === 1);
    await gateway.reload(
        configure(mock, folder, {
            small,
            tenants: [{ name: 'two', keys: [{ name: 'main', sha256: sha256(OTHER_KEY) }] }],
            top: { gate },
        }),
    );
    second.destroy();
    assert.equal((await last).status, 401);
    await gateway.idle();
});

/* ---- at the end ---- */

test('a reload while it drains: calls that run are served, and it ends', async (t) => {
    const { gateway, mock, folder } = await world(t, {
        script: { default: { tokens: 30, pace: 30 } },
    });
    let seen = 0;
    const body = { stream: true, max_tokens: 30 };
    const running = chat(gateway, body, { onData: (bytes) => (seen = bytes.length) });
    await until('it streams', () => seen > 0);
    gateway.process.child.kill('SIGTERM');
    for (let i = 0; i < 10; i++) {
        gateway.write(configure(mock, folder, { tenant: { weight: i + 1 } }));
        gateway.hangUp();
        await pause(10);
    }
    const reply = await running;
    assert.equal(reply.status, 200);
    assert.ok(whole(reply, 30) && !reply.cut);
    await gateway.process.ended;
    assert.equal(gateway.process.code, 0, gateway.process.out);
});

test('signals up to the last moment do not keep it from ending', async (t) => {
    const { gateway } = await world(t);
    await chat(gateway);
    const storm = setInterval(() => gateway.hangUp(), 1);
    try {
        await pause(20);
        gateway.process.child.kill('SIGTERM');
        await gateway.process.ended;
    } finally {
        clearInterval(storm);
    }
    assert.equal(gateway.process.code, 0, gateway.process.out);
});

/* ---- files ---- */

test('a file that was included and is gone: its tenants are, and no other', async (t) => {
    const { gateway, mock, folder } = await world(t);
    const inside = path.join(folder, 'tenants.d');
    fs.mkdirSync(inside);
    const file = path.join(inside, 'two.yaml');
    const two = { name: 'two', keys: [{ name: 'main', sha256: sha256(OTHER_KEY) }] };
    replace(file, JSON.stringify({ tenants: [two] }));
    await gateway.reload({ ...configure(mock, folder), include: ['tenants.d/*.yaml'] });
    const other = { headers: { authorization: `Bearer ${OTHER_KEY}` } };
    assert.equal((await chat(gateway, {}, other)).status, 200);

    fs.rmSync(file);
    const before = await gateway.generation();
    gateway.hangUp();
    await until('it is read', async () => (await gateway.generation()) > before);
    assert.equal((await chat(gateway, {}, other)).status, 401);
    assert.equal((await chat(gateway)).status, 200);

    /* One that is named, and not by a pattern, is missed no more than one that a pattern means. */
    fs.mkdirSync(file);
    gateway.hangUp();
    await until('it says so', () => said(gateway, 'the configuration stays as it is').length > 0);
    assert.equal((await chat(gateway)).status, 200);
});

test('addresses that change hold after a restart, and are told', async (t) => {
    const { gateway, mock, folder } = await world(t);
    const config = configure(mock, folder);
    config.listen.gateway = '127.0.0.1:1';
    config.ledger.path = path.join(folder, 'other.db');
    await gateway.reload(config);
    await until('both are told', () => said(gateway, 'this change needs a restart').length >= 2);
    assert.deepEqual(
        said(gateway, 'this change needs a restart').map((line) => line.what),
        ['listen.gateway', 'ledger.path'],
    );
    assert.equal((await chat(gateway)).status, 200);
    await gateway.idle();
    assert.ok(!fs.existsSync(config.ledger.path));
    gateway.write(configure(mock, folder));
    assert.equal((await gateway.spend()).total.calls, 1, 'it is in the old one');
});

test('a protected route comes and goes', async (t) => {
    const { gateway, mock, folder } = await world(t);
    const protect = [{ prefix: '/mock', upstream: mock.url }];
    await gateway.reload({ ...configure(mock, folder), protect });
    const answer = await send(gateway.url, '/mock/requests');
    assert.equal(answer.status, 200, String(answer.body));
    assert.ok('begun' in json(answer));
    await gateway.reload(configure(mock, folder));
    assert.equal((await send(gateway.url, '/mock/requests')).status, 404);
    assert.equal(reason(await send(gateway.url, '/mock/requests')), 'not_found');
    await gateway.idle();
});
