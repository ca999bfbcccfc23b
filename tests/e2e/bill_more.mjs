/* bill_more.mjs - the moves of tests/adversary by other ways: resets of HTTP/2, another model in place of
 * the one asked, and an administrator who changes budgets meanwhile.
 *
 * What must hold is what tests/adversary/attack.mjs says. Seeds are printed with what does not.
 */
import assert from 'node:assert/strict';
import http2 from 'node:http2';
import test from 'node:test';
import { attack, judge } from '../adversary/attack.mjs';
import { chat, Chance, message } from '../adversary/moves.mjs';
import { configOf, traceOf, World } from '../adversary/world.mjs';
import { ADMIN_TOKEN, until } from './kit.mjs';

const SEED = Number(process.env.BILL_SEED ?? Date.now() % 1000000);
const BUDGETS = { poor: 20000, some: 200000, more: 2000000 };
const user = (content) => [{ role: 'user', content }];

async function open(t, { budgets = BUDGETS, change = () => ({}), ...more } = {}) {
    const world = await World.start({ budgets, ...more, change: change() });
    t.after(() => world.stop());
    return world;
}

const holds = ({ wrong, figures }) => {
    assert.deepEqual(wrong, [], `seed ${SEED}: ${JSON.stringify(figures.statuses)}`);
    return figures;
};

const models = (more) => {
    const all = configOf({ url: 'http://127.0.0.1:1' }, '/tmp', { budgets: {} }).models;
    for (const [name, what] of Object.entries(more)) all[name] = { ...all[name], ...what };
    return { models: all };
};

const asking = (make) => ({ n: 51, name: 'drawn', make });

/* ---- HTTP/2 ---- */

const { HTTP2_HEADER_PATH: PATH, HTTP2_HEADER_METHOD: METHOD, HTTP2_HEADER_STATUS: STATUS } = http2.constants;

/* Sends a part of the body and leaves, or all of it and leaves later, by RST_STREAM of any code. */
function reset(session, request, tenant, trace, r) {
    const bytes = Buffer.from(JSON.stringify(request.body));
    const part = r.chance(0.2) ? r.int(0, bytes.length - 1) : bytes.length;
    return new Promise((done) => {
        const stream = session.request(
            {
                [METHOD]: 'POST',
                [PATH]: request.path,
                authorization: `Bearer tg-adversary-key-of-${tenant}`,
                'content-type': 'application/json',
                'content-length': `${bytes.length}`,
                traceparent: `00-${trace}-00000000000000ff-01`,
                'x-adv-call': tenant,
                'x-adv-plan': JSON.stringify(request.plan ?? {}),
            },
            { endStream: false },
        );
        const leave = () => stream.closed || stream.close(r.pick([0, 1, 2, 5, 7, 8]));
        let status = 0;
        stream.on('response', (headers) => (status = headers[STATUS]));
        stream.on('error', () => 0);
        stream.on('close', () => done(status));
        stream.on('data', () => r.chance(0.3) && leave());
        stream.write(bytes.subarray(0, part));
        if (part < bytes.length || r.chance(0.3)) setTimeout(leave, r.int(0, 60));
        else stream.end();
    });
}

test('streams of HTTP/2 that are reset in the midst of a body or a reply', async (t) => {
    const world = await open(t);
    const r = new Chance(SEED);
    const log = new Map();
    const statuses = {};
    const sessions = [0, 1, 2].map(() => http2.connect(world.gateway.url));
    t.after(() => sessions.forEach((session) => session.destroy()));
    sessions.forEach((session) => session.on('error', () => 0));
    let n = 0;
    const client = async () => {
        while (n < 150) {
            const trace = traceOf(SEED, n++);
            const tenant = r.pick(Object.keys(BUDGETS));
            const stream = r.chance(0.7);
            const more = { stream, max_tokens: r.int(1, 400), messages: user('x'.repeat(r.int(1, 9000))) };
            const request = r.chance(0.5) ? chat('oa-write', more) : message('an-opus', more);
            request.plan = { hidden: r.next(), latency: r.int(0, 40) };
            log.set(trace, { move: { n: 18, name: 'reset' }, request, tenant });
            const status = await reset(r.pick(sessions), request, tenant, trace, r.fork());
            statuses[status] = (statuses[status] ?? 0) + 1;
        }
    };
    await Promise.all(Array.from({ length: 16 }, client));
    const bill = await world.idle();
    await until('what was billed has its line', () => {
        const lines = world.lines();
        return bill.calls.every((one) => lines.has(one.trace));
    });
    const figures = holds(await judge({ world, log, bill, statuses, seed: SEED, kills: 0 }));
    assert.ok(figures.cuts.calls > 5, `${JSON.stringify(figures)}: few were cut`);
});

/* ---- another model ---- */

/* The dear one stands in where the cheaper one fails, and the cheaper where money runs short: each is
 * reserved at its own price. */
test('a cheaper model takes over near the end of a budget, and a dearer one after failures', async (t) => {
    const world = await open(t, {
        change: () =>
            models({
                'oa-write': { cheaper: 'oa-flat' },
                'oa-flat': { fallback: ['oa-write'], retries: 2 },
                'an-opus': { cheaper: 'an-haiku' },
                'an-haiku': { fallback: ['an-opus'], retries: 1 },
            }),
        tenant: { allow_cheaper: 0.9 },
    });
    const fail = (r) => r.pick([undefined, undefined, '500', '429', 'once', '504', '504 once', 'reset once', 'reset']);
    const figures = holds(
        await attack({
            world,
            seed: SEED,
            calls: 200,
            at_once: 24,
            moves: ['oa-write', 'oa-flat', 'an-opus', 'an-haiku'].map((name) =>
                asking((r) => {
                    const more = { stream: r.chance(0.5), max_tokens: r.int(1, 300), messages: user('x'.repeat(r.int(1, 4000))) };
                    const plan = { fail: fail(r) };
                    return name.startsWith('oa') ? chat(name, more, { plan }) : message(name, more, { plan });
                }),
            ),
        }),
    );
    assert.ok(figures.billed_calls > 20, JSON.stringify(figures));
    const lines = [...world.lines().values()];
    assert.ok(lines.some((line) => line.attempts > 1), 'something was tried again');
});

/* ---- who changes budgets ---- */

/* Top-ups come and go, and what is uncertain is credited, while tenants do their worst. The provider bills no more than the
 * budget with all that was ever added; what is credited may be spent again. */
test('top-ups and credits beside the worst of tenants', async (t) => {
    const world = await open(t, {
        change: () => ({
            listen: { gateway: '127.0.0.1:0', probe: '127.0.0.1:0', admin: '127.0.0.1:0' },
            admin_auth: { token: ADMIN_TOKEN },
        }),
    });
    const admin = `http://127.0.0.1:${(await world.gateway.process.said(/127\.0\.0\.1:(\d+) \(admin\)/))[1]}`;
    const ask = async (method, path, body) => {
        const reply = await fetch(admin + path, {
            method,
            body: body && JSON.stringify(body),
            headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' },
        });
        return { status: reply.status, body: JSON.parse((await reply.text()) || 'null') };
    };
    const r = new Chance(SEED);
    const limits = { ...BUDGETS };
    const credited = Object.fromEntries(Object.keys(BUDGETS).map((name) => [name, 0]));
    const refused = {};
    const topups = [];
    let over = false;
    const change = async () => {
        while (!over) {
            const tenant = r.pick(Object.keys(BUDGETS));
            if (r.chance(0.5)) {
                const usd = r.int(1, 40) / 1000;
                limits[tenant] += usd * 1e6; /* before it holds: both may be first */
                const made = await ask('POST', `/api/v1/tenants/${tenant}/topups`, { usd, per: 'total' });
                assert.equal(made.status, 201, JSON.stringify(made.body));
                topups.push(`/api/v1/tenants/${tenant}/topups/${made.body.topup.id}`);
            } else if (topups.length > 0 && r.chance(0.4)) {
                assert.equal((await ask('DELETE', topups.splice(r.int(0, topups.length - 1), 1)[0])).status, 200);
            } else {
                const micro_usd = r.int(1, 30000);
                const made = await ask('POST', '/api/v1/credits', { tenant, micro_usd, reason: 'a test', per: 'total' });
                if (made.status === 201) credited[tenant] += micro_usd;
                refused[made.status] = (refused[made.status] ?? 0) + 1;
            }
        }
    };
    const changing = [change(), change()];
    world.budgets = limits; /* what judge() holds the books against */
    const run = attack({ world, seed: SEED, calls: 200, at_once: 24 }).finally(() => (over = true));
    await Promise.all([run.catch(() => 0), ...changing]);
    const { wrong, figures } = await run;
    /* The provider knows the first budgets alone, and the books give back what was credited. */
    assert.deepEqual(
        wrong.filter((one) => !/went above its budget|the books of \w+ say \d+, billed/.test(one)),
        [],
        `seed ${SEED}`,
    );
    const bill = await world.provider.bill();
    for (const tenant of Object.keys(BUDGETS)) {
        const billed = bill.tenants[tenant] ?? 0;
        const used = await world.used(tenant);
        assert.ok(billed <= limits[tenant] + credited[tenant], `seed ${SEED}: ${tenant} billed ${billed}`);
        assert.ok(used + credited[tenant] >= billed, `seed ${SEED}: ${tenant} used ${used}, billed ${billed}`);
    }
    assert.ok(figures.billed_calls > 20, JSON.stringify(figures));
    assert.ok((refused[201] ?? 0) > 0, JSON.stringify(refused));
});
