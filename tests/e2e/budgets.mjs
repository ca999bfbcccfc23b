/* budgets.mjs - money under load, restart and kill: never above the budget, and nothing forgotten.
 *
 * A call's reservation is an upper bound of its cost. Where both are equal (no price for input, as
 * many tokens as it may write), how many calls a budget admits is known whatever the timing is.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import {
    calls,
    chat,
    EXACT,
    EXACT_COST,
    json,
    KEY,
    message,
    OTHER_KEY,
    price,
    reason,
    send,
    sha256,
    tenant,
    until,
    world,
} from './kit.mjs';

/* Every kind of call, streamed and not, in both APIs. */
const KINDS = [
    ['chat', (gateway) => chat(gateway)],
    ['streamed chat', (gateway) => chat(gateway, { stream: true })],
    ['message', (gateway) => message(gateway)],
    ['streamed message', (gateway) => message(gateway, { stream: true })],
];

for (const [what, one] of KINDS) {
    test(`200 calls (${what}), a budget for 50: 50 are served, to the micro-dollar`, async (t) => {
        const { gateway, mock } = await world(t, {
            script: { default: { latency: '50ms' } },
            small: EXACT,
            claude: EXACT,
            tenant: { budgets: [{ usd: (50 * EXACT_COST + EXACT_COST - 1) / 1e6, per: 'total' }] },
        });
        const replies = await calls(200, () => one(gateway));
        const served = replies.filter((reply) => reply.status === 200);
        const refused = replies.filter((reply) => reply.status !== 200);

        assert.equal(served.length, 50);
        for (const reply of refused)
            assert.ok(
                (reply.status === 402 && reason(reply) === 'budget') ||
                    (reply.status === 429 && reason(reply) === 'budget_contended'),
                `${reply.status} ${reply.body}`,
            );
        assert.equal((await mock.requests(50)).length, 50);
        const spent = await gateway.spent();
        assert.equal(spent.micro_usd, 50 * EXACT_COST);
        assert.equal(spent.calls, 50);
        assert.equal((await one(gateway)).status, 402, 'nothing is reserved, so it is final');
    });
}

test('the budgets of a tenant, its parent and everyone hold together', async (t) => {
    const key = (text) => [{ name: 'main', sha256: sha256(text) }];
    const usd = (n) => [{ usd: (n * EXACT_COST) / 1e6, per: 'total' }];
    const { gateway } = await world(t, {
        small: EXACT,
        top: { budgets: usd(30) },
        tenants: [
            { name: 'house', budgets: usd(24) },
            { name: 'one', parent: 'house', keys: key(KEY), budgets: usd(20) },
            { name: 'two', parent: 'house', keys: key(OTHER_KEY), budgets: usd(20) },
        ],
    });
    const as = (text) => chat(gateway, {}, { headers: { authorization: `Bearer ${text}` } });
    const replies = await calls(60, (i) => as(i % 2 ? KEY : OTHER_KEY));

    assert.equal(replies.filter((reply) => reply.status === 200).length, 24);
    await gateway.idle();
    assert.equal((await gateway.spend()).total.micro_usd, 24 * EXACT_COST);
});

test('calls that cost less than they reserved give the rest back', async (t) => {
    const { gateway } = await world(t, {
        script: { default: { tokens: 4 } },
        tenant: { budgets: [{ usd: 0.004, per: 'total' }] },
    });
    let sum = 0,
        refused = 0;
    await calls(8, async () => {
        for (let i = 0; i < 10; i++) {
            const reply = await chat(gateway, { max_tokens: 50 });
            if (reply.status === 200) sum += price(json(reply).usage);
            else refused++;
        }
    });

    assert.equal((await gateway.spent()).micro_usd, sum);
    assert.equal(refused, 0, 'eight times a reservation is always there');
});

for (const reserve of ['bound', 'expected'])
    test(`calls that use little of what they ask for, reserve: ${reserve}`, async (t) => {
        const { gateway, mock } = await world(t, {
            script: { default: { tokens: 4 } },
            small: EXACT,
            tenant: { budgets: [{ usd: 0.001, per: 'total', reserve }] },
        });
        const overdrafts = () => gateway.metric('budget_overdraft_total');
        for (let i = 0; i < 16; i++)
            assert.equal((await chat(gateway, { max_tokens: 100 })).status, 200);
        assert.equal(await overdrafts(), 0);

        /* It may cost twice the budget, is expected to cost a tenth of it, and costs more. */
        await mock.script({ default: { tokens: 600 } });
        const large = await chat(gateway, { max_tokens: 1000 });
        const spent = (await gateway.spent()).micro_usd;
        if (reserve === 'bound') {
            assert.equal(large.status, 400);
            assert.equal(spent, 16 * 8);
            assert.equal(await overdrafts(), 0);
        } else {
            assert.equal(large.status, 200);
            assert.equal(spent, 16 * 8 + 1200);
            assert.equal(await overdrafts(), 1);
            assert.equal((await chat(gateway, { max_tokens: 1 })).status, 402);
        }
    });

test('attack 2: an array of prompts cannot spend more than the budget', async (t) => {
    const { gateway } = await world(t, { tenant: { budgets: [{ usd: 0.1, per: 'total' }] } });
    const body = { model: 'small', max_tokens: 1000, prompt: Array(64).fill('a') };
    const { status, body: text } = await send(gateway.url, '/v1/completions', body);

    assert.equal(status, 400);
    const { error } = JSON.parse(text);
    assert.match(error.message, /^budget of tenant one: 0\.10 USD in total, asked 0\.\d+, left 0\.10, /);
    const fits = Number(/max_tokens of (\d+) would fit/.exec(error.message)[1]);
    const again = await send(gateway.url, '/v1/completions', { ...body, max_tokens: fits });
    assert.equal(again.status, 200);
});

test('attack 3: what is not in the body is reserved as the context', async (t) => {
    const { gateway } = await world(t, {
        small: { context: 200000 },
        tenant: { budgets: [{ usd: 0.3, per: 'total' }] },
        top: { unknown_objects: 'allow' },
    });
    const ask = () =>
        send(gateway.url, '/v1/responses', {
            model: 'small',
            input: 'hi',
            max_output_tokens: 16,
            previous_response_id: 'resp_1',
        });
    const replies = await calls(20, ask);

    /* One fits at a time, and gives back what it did not use. */
    for (const reply of replies)
        assert.ok(
            reply.status === 200 || reason(reply) === 'budget_contended',
            `${reply.status} ${reply.body}`,
        );
    assert.ok((await gateway.spent()).micro_usd <= 300000);
});

test('D1 an answer is not cut unasked: a call without a bound passes as it is, or not at all', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { default: { tokens: 3000 } },
        small: { ...EXACT, max_output_tokens: 4000 },
        tenant: { budgets: [{ usd: 0.015, per: 'total' }] },
    });
    const body = JSON.stringify({ model: 'small', messages: [{ role: 'user', content: 'hi' }] });
    const ask = () => send(gateway.url, '/v1/chat/completions', body);

    /* Each reserves 8,000 micro-dollars and costs 6,000. */
    const first = await ask();
    assert.equal(json(first).usage.completion_tokens, 3000);
    assert.equal(first.headers['x-tollgate-clamped'], undefined);
    await gateway.idle(); /* a client has its reply a moment before the call has settled */
    await ask();
    await gateway.idle();
    const last = await ask();
    assert.equal(last.status, 402, `${last.body}`);
    assert.match(json(last).error.message, /; max_tokens of 1500 would fit$/);
    const seen = await mock.requests(2);
    assert.equal(seen.length, 2);
    for (const request of seen) assert.equal(request.body_sha256, sha256(body));
    assert.equal((await gateway.metrics()).clamped_total, 0);
});

test('D5 a budget is called spent only when it is: a call larger than all of it is told so', async (t) => {
    const { gateway } = await world(t, {
        small: { ...EXACT, max_output_tokens: 32000 },
        tenant: { budgets: [{ usd: 0.01, per: 'day' }] },
    });
    const reply = await chat(gateway, { max_tokens: 20000 });

    assert.equal(reply.status, 400);
    assert.equal(reason(reply), 'request_exceeds_limit');
    assert.equal(reply.headers['x-should-retry'], 'false');
    assert.equal(reply.headers['x-tollgate-reset-at'], undefined, 'tomorrow it does not fit, either');
    const { message: text } = json(reply).error;
    assert.match(text, /^budget of tenant one: 0\.01 USD a day, asked 0\.04, left 0\.01, /);
    assert.doesNotMatch(text, /spent/);
});

test('S5 a call that can never fit its budget is told which max_tokens does, and that one is served', async (t) => {
    const { gateway } = await world(t, {
        tenant: { budgets: [{ usd: 0.001, per: 'month' }] },
    });
    for (const one of [chat, message]) {
        const reply = await one(gateway, { max_tokens: 32000 });
        assert.equal(reply.status, 400, `${reply.body}`);
        assert.equal(reason(reply), 'request_exceeds_limit');
        const fits = Number(/max_tokens of (\d+) would fit/.exec(reply.body)[1]);
        const too_many = await one(gateway, { max_tokens: fits + 1 });
        assert.equal(too_many.status, 400, 'not one more');
        if (one === chat) assert.equal((await one(gateway, { max_tokens: fits })).status, 200);
    }
});

test('a call that does not bound its answer is clamped to what is affordable', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { default: { tokens: 4000 } },
        small: { ...EXACT, on_unbounded: 'clamp' },
        tenant: { budgets: [{ usd: 0.0002, per: 'total' }] },
    });
    const reply = await chat(gateway, { max_tokens: undefined });

    assert.equal(reply.status, 200);
    assert.equal(reply.headers['x-tollgate-clamped'], 'max_tokens=100');
    assert.equal((await gateway.metrics()).clamped_total, 1);
    assert.equal(json(reply).usage.completion_tokens, 100);
    assert.equal((await gateway.spent()).micro_usd, 200);
    assert.equal((await chat(gateway)).status, 402);
    assert.equal((await mock.requests(1)).length, 1);
});

test('... and to what is affordable for its user, also for one who comes for the first time', async (t) => {
    const { gateway } = await world(t, {
        script: { default: { tokens: 4000 } },
        small: { ...EXACT, on_unbounded: 'clamp' },
        tenant: {
            users: {
                from: 'header:x-user',
                max: 10,
                each: { budgets: [{ usd: 0.0002, per: 'total' }] },
            },
        },
    });
    for (const user of ['ann', 'bob']) {
        const as = { headers: { 'x-user': user } };
        assert.equal((await chat(gateway, { max_tokens: 40 }, as)).status, 200);
        const reply = await chat(gateway, { max_tokens: undefined }, as);
        assert.equal(reply.status, 200, `${reply.body}`);
        assert.equal(json(reply).usage.completion_tokens, 60);
        assert.equal((await chat(gateway, { max_tokens: undefined }, as)).status, 402);
    }
    const first = await chat(gateway, { max_tokens: undefined }, { headers: { 'x-user': 'eve' } });
    assert.equal(json(first).usage.completion_tokens, 100);
    await gateway.idle();
});

test('a restart keeps what was spent, and what is left', async (t) => {
    const { gateway } = await world(t, {
        small: EXACT,
        tenant: { budgets: [{ usd: (3 * EXACT_COST) / 1e6, per: 'month' }] },
    });
    await calls(2, () => chat(gateway));
    await gateway.finish();
    assert.equal((await gateway.spend()).total.micro_usd, 2 * EXACT_COST);
    await gateway.begin();

    assert.equal((await gateway.spent()).micro_usd, 2 * EXACT_COST);
    assert.equal((await chat(gateway)).status, 200);
    assert.equal((await chat(gateway)).status, 402);
});

test('a kill in the middle of load loses nothing of what clients have been told', async (t) => {
    const { gateway, mock } = await world(t, { small: EXACT });
    for (let round = 1; round <= 3; round++) {
        const before = (await gateway.spent()).micro_usd;
        let done = 0,
            killed = false;
        const load = calls(16, async (i) => {
            while (!killed) {
                const reply = await chat(gateway, { stream: i % 2 === 0 }).catch(() => null);
                if (reply?.status === 200 && !reply.cut) done++;
            }
        });
        await until('there is load', () => done >= 100 * round);
        await gateway.stop('SIGKILL');
        killed = true;
        await load;
        const asked = (await mock.requests(1)).length;
        await mock.script({});
        await fetch(`${mock.url}/mock/reset`, { method: 'POST' });
        await gateway.begin();

        const spent = (await gateway.spent()).micro_usd - before;
        assert.ok(
            spent >= done * EXACT_COST,
            `${done} calls were told, ${spent / EXACT_COST} are in the books`,
        );
        assert.ok(
            spent <= asked * EXACT_COST,
            `${asked} calls were made, ${spent / EXACT_COST} are in the books`,
        );
    }
});

test('a model without a price cannot be paid from a budget, a free one can', async (t) => {
    const { gateway } = await world(t, {
        models: { bare: { provider: 'oai', context: 8000 }, free: { provider: 'oai', price: {} } },
        tenants: [
            tenant({ budgets: [{ usd: 1, per: 'day' }] }),
            { name: 'two', keys: [{ name: 'main', sha256: sha256(OTHER_KEY) }] },
        ],
    });
    const other = { headers: { authorization: `Bearer ${OTHER_KEY}` } };
    const refused = await chat(gateway, { model: 'bare' });
    assert.equal(refused.status, 403);
    assert.match(json(refused).error.message, /model 'bare' has no price here/);
    assert.equal((await chat(gateway, { model: 'free' })).status, 200);
    assert.equal((await chat(gateway, { model: 'bare' }, other)).status, 200);
});
