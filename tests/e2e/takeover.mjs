/* takeover.mjs - one process takes over from another: no connection is refused, no call fails, and what
 * is spent is exact, whoever dies on the way. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import test from 'node:test';
import { EXACT, KEY, chat, events, json, price, reason, send, until, world } from './kit.mjs';

/* Another process of the same gateway takes over; returns the one before, which ends with the test. */
async function takeOver(t, gateway) {
    const before = gateway.process;
    t.after(() => before.over || (before.child.kill('SIGKILL'), before.ended));
    gateway.options = ['--takeover', ...gateway.options.filter((word) => word !== '--takeover')];
    await gateway.begin();
    return before;
}

test('D8 a new process takes over: a stream goes on, no connection is refused, spend is exact', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { rules: [{ when: { stream: true }, do: { tokens: 60, pace: 40 } }] },
    });
    const port = gateway.port;
    const stream = chat(gateway, { stream: true, max_tokens: 60 });
    await until('it is at the mock', async () => (await mock.seen()).begun === 1);
    const old = await takeOver(t, gateway);
    assert.equal(gateway.port, port, 'the same socket');
    assert.equal(old.over, undefined, 'the old process still has a stream');
    const reply = await chat(gateway);
    assert.equal(reply.status, 200);
    const streamed = await stream;
    assert.equal(streamed.status, 200);
    assert.equal(streamed.cut, false);
    assert.ok(events(streamed).length >= 60);
    await old.ended;
    assert.equal(old.code, 0, old.out);
    await gateway.stop('SIGTERM');
    assert.equal(gateway.process.code, 0, gateway.process.out);
    const { total } = await gateway.spend();
    assert.equal(total.calls, 2);
    assert.equal(total.output, 60 + json(reply).usage.completion_tokens);
});

/* A request on a connection of an agent, which keeps it. */
const kept = (gateway, agent) =>
    send(
        gateway.url,
        '/v1/chat/completions',
        { model: 'small', messages: [{ role: 'user', content: 'hello there' }] },
        { agent },
    );

test('D14 what both processes say of a takeover is lines of JSON', async (t) => {
    const { gateway } = await world(t);
    const old = await takeOver(t, gateway);
    await old.ended;
    for (const said of [old.out, gateway.process.out]) {
        const steps = said.split('\n').filter((line) => line.includes('takeover: '));
        const texts = steps.map((line) => JSON.parse(line).msg);
        assert.ok(texts.some((text) => /^takeover: process \d+ /.test(text)), said);
    }
});

test('a kept connection is served after a takeover, by the new process, and closed by its reply', async (t) => {
    const { gateway } = await world(t);
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    t.after(() => agent.destroy());
    assert.notEqual((await kept(gateway, agent)).headers.connection, 'close');
    const old = await takeOver(t, gateway);
    await until('it has retired', () => old.out.includes('retiring'));
    const late = await kept(gateway, agent);
    assert.equal(late.status, 200);
    assert.equal(late.headers.connection, 'close');
    assert.equal(await gateway.metric('calls_total'), 1, 'the new process has served it');
    await old.ended;
    assert.equal(old.code, 0, old.out);
    assert.equal((await gateway.spent()).calls, 2);
});

test('a tenant at its rate stays at it over takeovers, whichever connection it uses', async (t) => {
    const { gateway } = await world(t, { tenant: { rate: { strategy: 'fixed_window', limit: 5, window: '1h' } } });
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    t.after(() => agent.destroy());
    for (let i = 0; i < 4; i++) assert.equal((await chat(gateway)).status, 200);
    assert.equal((await kept(gateway, agent)).status, 200);
    for (let i = 0; i < 2; i++) {
        const old = await takeOver(t, gateway);
        await until('it has retired', () => old.out.includes('retiring'));
        assert.equal((await kept(gateway, agent)).status, 429);
        assert.equal((await chat(gateway)).status, 429);
    }
    assert.equal((await gateway.spend()).total.calls, 5);
});

test('three takeovers while the first process still streams: budgets and spend are exact', async (t) => {
    const { gateway, mock } = await world(t, {
        script: {
            rules: [{ when: { stream: true }, do: { tokens: 80, pace: 20 } }],
            default: { tokens: 10 },
        },
    });
    const streams = [chat(gateway, { stream: true, max_tokens: 80 })];
    await until('it is at the mock', async () => (await mock.seen()).begun === 1);
    const old = [];
    for (let i = 0; i < 3; i++) {
        old.push(await takeOver(t, gateway));
        assert.ok((await gateway.metric('budget_reserved_micro_usd')) > 0, 'the stream is reserved');
        streams.push(chat(gateway, { stream: true, max_tokens: 80 }));
        assert.equal((await chat(gateway)).status, 200);
        await until('it is there', async () => (await mock.seen()).begun === 3 + 2 * i);
    }
    for (const stream of streams) {
        const reply = await stream;
        assert.equal(reply.status, 200);
        assert.equal(reply.cut, false);
    }
    for (const process of old) {
        await process.ended;
        assert.equal(process.code, 0, process.out);
    }
    const total = await gateway.spent();
    assert.equal(total.calls, 7);
    assert.equal(total.output, 4 * 80 + 3 * 10);
});

test('the old process is killed while it drains: its calls are settled as reserved, once', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { rules: [{ when: { stream: true }, do: { fault: 'hang', at: 'event 8' } }] },
    });
    const stream = chat(gateway, { stream: true, max_tokens: 100 }).catch((error) => ({ error }));
    await until('it is at the mock', async () => (await mock.seen()).begun === 1);
    const reserved = await gateway.metric('budget_reserved_micro_usd');
    const old = await takeOver(t, gateway);
    old.child.kill('SIGKILL');
    await stream;
    await gateway.process.said(/settled as reserved from its journal/);
    await until('it is settled', async () => {
        const { total } = await gateway.spend();
        return total.calls === 1 && total.uncertain_micro_usd === reserved;
    });
    await until('budgets say so', async () => (await gateway.metric('budget_used_micro_usd')) === reserved);
    assert.equal(await gateway.metric('budget_reserved_micro_usd'), 0);
    assert.equal((await chat(gateway)).status, 200);
});

test('the new process is killed while the old one drains: what that settles is in the ledger', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { rules: [{ when: { stream: true }, do: { tokens: 60, pace: 30 } }] },
    });
    const stream = chat(gateway, { stream: true, max_tokens: 60 });
    await until('it is at the mock', async () => (await mock.seen()).begun === 1);
    const old = await takeOver(t, gateway);
    assert.equal((await chat(gateway)).status, 200);
    await gateway.stop('SIGKILL');
    await takeOver(t, gateway); /* nobody is there to take over from */
    assert.match(gateway.process.out, /there is no process to take over from/);
    const reply = await stream;
    assert.equal(reply.status, 200);
    assert.equal(reply.cut, false);
    await old.ended;
    assert.equal(old.code, 0, old.out);
    const { total } = await gateway.spend();
    assert.equal(total.calls, 2);
});

test('the new process is killed while the old one streams: the next ones hold what that has reserved', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { rules: [{ when: { stream: true }, do: { tokens: 40, pace: 10 } }] },
        small: EXACT,
        tenant: { budgets: [{ usd: 0.00015, per: 'total' }] },
    });
    const stream = chat(gateway, { stream: true, max_tokens: 50 }); /* 100 micro-dollars */
    await until('it is at the mock', async () => (await mock.seen()).begun === 1);
    const old = await takeOver(t, gateway);
    await gateway.stop('SIGKILL');
    await gateway.begin();
    const isHeld = async () => {
        assert.equal(old.over, undefined, 'the old process still has a stream');
        const refused = await chat(gateway, { max_tokens: 50 });
        assert.match(reason(refused), /^budget/);
    };
    await isHeld();
    /* This one is taken over from in turn, ends, and the one after it is killed. */
    const second = await takeOver(t, gateway);
    await isHeld();
    await second.ended;
    await isHeld();
    await takeOver(t, gateway);
    await gateway.stop('SIGKILL');
    await gateway.begin();
    await isHeld();
    assert.equal((await stream).status, 200);
    await old.ended;
    await until('what was not used is free', async () => (await chat(gateway, { max_tokens: 32 })).status === 200);
    await gateway.stop('SIGTERM');
});

test('a new process with a wrong configuration, or none of the same kind, changes nothing', async (t) => {
    const { gateway, config } = await world(t);
    const before = gateway.process;
    gateway.write({ ...config, tenants: [{ name: 'one', nonsense: true }] });
    gateway.options = ['--takeover'];
    await assert.rejects(gateway.begin(), /1 error in the configuration/);
    const other = net.createServer().listen(0, '127.0.0.1');
    t.after(() => other.close());
    await new Promise((done) => other.once('listening', done));
    const taken = `127.0.0.1:${other.address().port}`;
    gateway.write({ ...config, listen: { ...config.listen, grpc: taken } });
    await assert.rejects(gateway.begin(), /cannot listen on/);
    gateway.process = before;
    gateway.write(config);
    await before.said(/this process goes on as before/);
    assert.equal((await chat(gateway)).status, 200);
    assert.equal((await gateway.spent()).calls, 1);
    await takeOver(t, gateway);
    assert.equal((await chat(gateway)).status, 200);
    assert.deepEqual(
        fs.readdirSync(gateway.folder).filter((name) => /\.spend\.\d/.test(name)).length,
        1,
        'one more journal',
    );
});

test('calls without a pause over three takeovers: none is refused or fails, and spend is what was billed', async (t) => {
    const { gateway, mock } = await world(t, {
        script: {
            rules: [{ when: { stream: true }, do: { tokens: 20, pace: 40 } }],
            default: { tokens: 7 },
        },
    });
    const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
    t.after(() => agent.destroy());
    let going = true,
        billed = 0,
        calls = 0;
    const client = async (i) => {
        while (going) {
            const reply =
                i === 0
                    ? await kept(gateway, agent)
                    : await chat(gateway, { stream: i === 1, max_tokens: 20 });
            assert.equal(reply.status, 200, reply.body.toString());
            assert.equal(reply.cut, false);
            calls++;
            const data = events(reply).filter((event) => event !== '[DONE]');
            const usage = i === 1 ? undefined : json(reply).usage;
            billed += usage ? price(usage) : 0;
            if (i === 1) assert.ok(data.length >= 20);
        }
    };
    const clients = Array.from({ length: 8 }, (_, i) => client(i));
    const old = [];
    for (let i = 0; i < 3; i++) old.push(await takeOver(t, gateway));
    going = false;
    await Promise.all(clients);
    agent.destroy();
    for (const process of old) await process.ended;
    const total = await gateway.spent();
    const seen = await mock.requests(calls);
    assert.equal(total.calls, calls);
    assert.equal(seen.length, calls);
    assert.ok(total.micro_usd >= billed);
    assert.equal(total.uncertain_micro_usd ?? 0, 0);
});

test('a process that takes over records to a file of its own while the old one still records', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { rules: [{ when: { stream: true }, do: { tokens: 30, pace: 30 } }] },
    });
    const day = path.join(gateway.folder, 'day');
    gateway.options = ['--takeover', '--record', day];
    await (await takeOver(t, gateway)).ended;
    const stream = chat(gateway, { stream: true, max_tokens: 30 });
    await until('it is at the mock', async () => (await mock.seen()).begun === 1);
    const old = await takeOver(t, gateway);
    assert.match(gateway.process.out, /another process records to .*day; this one to .*day\.1/);
    for (let i = 0; i < 3; i++) assert.equal((await chat(gateway)).status, 200);
    assert.equal((await stream).status, 200);
    await old.ended;
    await gateway.stop('SIGTERM');
    const calls = (file) =>
        fs
            .readFileSync(file, 'utf8')
            .split('\n')
            .filter((line) => line !== '')
            .map((line) => JSON.parse(line))
            .filter((line) => line.id !== undefined).length;
    assert.equal(calls(day), 1);
    assert.equal(calls(`${day}.1`), 3);
});

/* What the two processes say at each step. */
const STEPS = [
    ['old', /is offered what this process has/],
    ['new', /offers \d+ sockets and its ledger/],
    ['old', /has read the ledger/],
    ['old', /is ready to serve/],
    ['new', /this process serves in the place of/],
    ['old', /serves from now on/],
];

for (const victim of ['old', 'new'])
    test(`the ${victim} process is killed at each step: somebody serves, or the next one does, and spend is exact`, async (t) => {
        const { gateway, mock } = await world(t, {
            script: { rules: [{ when: { stream: true }, do: { tokens: 10, pace: 40 } }], default: { tokens: 5 } },
        });
        let billed = 0,
            killed = 0;
        const call = async (stream) => {
            const reply = await chat(gateway, {
                stream,
                max_tokens: 10,
                ...(stream && { stream_options: { include_usage: true } }),
            }).catch(() => undefined);
            if (reply?.status !== 200 || reply.cut) return killed++;
            billed += price(stream ? events(reply).findLast((event) => event.usage).usage : json(reply).usage);
        };
        for (const [speaker, words] of STEPS) {
            const old = gateway.process;
            const streams = [call(true), call(false)];
            gateway.options = ['--takeover'];
            const begun = gateway.begin().then(
                () => true,
                () => false,
            );
            const young = gateway.process;
            t.after(() => Promise.all([old, young].map((one) => one.over || (one.child.kill('SIGKILL'), one.ended))));
            await (speaker === 'old' ? old : young).said(words).catch(() => {});
            const dead = victim === 'old' ? old : young;
            dead.child.kill('SIGKILL');
            await dead.ended;
            const serves = await begun;
            await Promise.all(streams);
            const living = victim === 'old' ? young : old;
            if (living.over || (victim === 'new' && living.out.includes('serves from now on'))) {
                if (!living.over) await living.ended;
                await gateway.begin(); /* nobody is there: the next one finds all in the ledger */
            } else if (!serves) {
                gateway.process = living;
            }
            await call(false);
        }
        await until('all is settled', async () => {
            const { total } = await gateway.spend();
            return total.micro_usd >= billed && total.calls + 2 * STEPS.length >= (await mock.seen()).begun;
        });
        const { total } = await gateway.spend();
        const uncertain = total.uncertain_micro_usd ?? 0;
        assert.ok(total.micro_usd >= billed, `${total.micro_usd} of ${billed}`);
        if (killed === 0) assert.deepEqual([total.micro_usd, uncertain], [billed, 0]);
        await until('budgets have the sum of the ledger', async () => {
            const used = await gateway.metric('budget_used_micro_usd');
            return used === total.micro_usd + uncertain;
        });
    });
