/* sdk_openai.mjs - the official client of OpenAI, pointed at the gateway, notices nothing.
 *
 * And where the gateway refuses, the client does what the refusal means: it counts by the requests
 * that reached the gateway, never by the time that passed.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { fails, HELLO, KEY, keys, need, price, requestsOf, until, world } from './kit.mjs';

const OpenAI = need('openai').default;

const client = (gateway, more = {}) =>
    new OpenAI({ apiKey: KEY, baseURL: `${gateway.url}/v1`, ...more });

const ask = (more = {}) => ({ model: 'small', messages: HELLO, max_tokens: 16, ...more });

/* ---- what works ---- */

test('openai: a chat is answered, and costs what its usage says', async (t) => {
    const { gateway } = await world(t);
    const reply = await client(gateway).chat.completions.create(ask());

    assert.equal(reply.choices[0].message.content.trim().split(' ').length, 16);
    assert.equal(reply.usage.completion_tokens, 16);
    assert.equal((await gateway.spent()).micro_usd, price(reply.usage));
});

test('openai: a reply tells its limits in the headers that clients read', async (t) => {
    const rate = { strategy: 'gcra', limit: 100, period: '60s' };
    const cost = { strategy: 'token_bucket', capacity: 1000, refill: 1 };
    const { gateway } = await world(t, { tenant: { rate, cost } });
    const { response } = await client(gateway).chat.completions.create(ask()).withResponse();

    assert.equal(response.headers.get('x-ratelimit-limit-requests'), '100');
    assert.equal(response.headers.get('x-ratelimit-remaining-requests'), '99');
    assert.equal(response.headers.get('x-ratelimit-limit-tokens'), '1000');
    assert.ok(Number(response.headers.get('x-ratelimit-remaining-tokens')) < 1000);
    assert.match(response.headers.get('x-request-id'), /^req_/);
});

async function read(stream) {
    let text = '',
        usage = null,
        chunks = 0,
        empty = 0;
    for await (const chunk of stream) {
        chunks++;
        text += chunk.choices[0]?.delta?.content ?? '';
        empty += chunk.choices.length === 0;
        usage = chunk.usage ?? usage;
    }
    return { text, usage, chunks, empty };
}

test('openai: a stream without include_usage has no chunk of usage, and is metered', async (t) => {
    const { gateway } = await world(t);
    const plain = await client(gateway).chat.completions.create(ask());
    const streamed = await read(
        await client(gateway).chat.completions.create(ask({ stream: true })),
    );

    assert.equal(streamed.text.trim().split(' ').length, 16);
    assert.equal(streamed.usage, null);
    assert.equal(streamed.empty, 0);
    assert.equal((await gateway.spent()).micro_usd, 2 * price(plain.usage));
});

test('openai: a stream with include_usage has its chunk of usage', async (t) => {
    const { gateway } = await world(t);
    const streamed = await read(
        await client(gateway).chat.completions.create(
            ask({ stream: true, stream_options: { include_usage: true } }),
        ),
    );

    assert.equal(streamed.empty, 1);
    assert.equal(streamed.usage.completion_tokens, 16);
    assert.equal((await gateway.spent()).micro_usd, price(streamed.usage));
});

test('openai: a stream that is aborted ends upstream, and is charged once', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { default: { tokens: 2000, pace: 200 } },
        small: { most_tokens_per_s: 1 }, /* so that the text counts */
    });
    const stream = await client(gateway).chat.completions.create(
        ask({ stream: true, max_tokens: 2000 }),
    );
    let chunks = 0;
    for await (const chunk of stream) if (++chunks === 5 && chunk) stream.controller.abort();

    const [seen] = await mock.requests(1);
    assert.equal(seen.ended, 'aborted');
    assert.equal(seen.phase, 'events');
    const spent = await gateway.spent();
    assert.equal(spent.calls, 1);
    assert.ok(spent.micro_usd > 0 && spent.micro_usd < 2000 * 2, `${spent.micro_usd}`);
});

test('openai: embeddings, responses and the list of models', async (t) => {
    const { gateway } = await world(t);
    const openai = client(gateway);
    const vector = await openai.embeddings.create({ model: 'small', input: 'some words' });
    assert.ok(vector.data[0].embedding.length > 0);
    let sum = price(vector.usage);
    assert.equal((await gateway.spent()).micro_usd, sum);

    const whole = await openai.responses.create({
        model: 'small',
        input: 'some words',
        max_output_tokens: 16,
    });
    assert.equal(whole.usage.output_tokens, 16);
    sum += price(whole.usage);
    assert.equal((await gateway.spent()).micro_usd, sum);

    let last,
        text = '';
    for await (const event of await openai.responses.create({
        model: 'small',
        input: 'some words',
        max_output_tokens: 16,
        stream: true,
    })) {
        if (event.type === 'response.output_text.delta') text += event.delta;
        last = event;
    }
    assert.equal(last.type, 'response.completed');
    assert.equal(text, last.response.output[0].content[0].text);
    sum += price(last.response.usage);
    assert.equal((await gateway.spent()).micro_usd, sum);

    const names = [];
    for await (const model of openai.models.list()) names.push(model.id);
    assert.deepEqual(names, ['small', 'claude']);
    assert.equal((await openai.models.retrieve('small')).id, 'small');
    assert.equal((await fails(openai.models.retrieve('nobody'))).status, 404);
});

/* ---- an upstream that says 429, with one key and no retries of ours: it surfaces ---- */

for (const [form, action] of [
    ['retry-after-ms', { retry_after_ms: 120 }],
    ['retry-after in seconds', { retry_after: 1 }],
    ['retry-after as a date', { retry_after_date: '1s' }],
]) {
    test(`openai: one retry after an upstream 429 with ${form} succeeds`, async (t) => {
        const { gateway, mock } = await world(t, {
            script: { rules: [{ when: { nth: '1' }, do: { status: 429, ...action } }] },
        });
        const reply = await client(gateway).chat.completions.create(ask());

        assert.equal((await mock.requests(2)).length, 2, 'the key rested while the client waited');
        /* The gateway's own pause before a retry may outlast the rest of the key: then it is one call. */
        const { calls_total: calls } = await gateway.metrics();
        assert.ok(calls === 1 || calls === 2, `${calls} calls`);
        assert.equal((await gateway.spent()).micro_usd, price(reply.usage));
    });
}

test('openai: an upstream that wants an hour is not asked again', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { default: { status: 429, retry_after: 3600 } },
    });
    const error = await fails(client(gateway).chat.completions.create(ask()));

    assert.equal(error.status, 429);
    assert.equal(error.headers.get('x-should-retry'), 'false');
    assert.equal(error.headers.get('retry-after'), null);
    assert.match(error.headers.get('x-tollgate-reset-at'), /^\d{4}-\d\d-\d\dT/);
    assert.equal((await gateway.metrics()).calls_total, 1);
    assert.equal((await mock.requests(1)).length, 1);
});

/* ---- refusals of ours ---- */

/* What a refusal makes the client do: so many requests, and this error in the end (or none). */
async function refused(t, world_, first, { calls, status, code, reason, name }) {
    const { gateway } = world_;
    const { requests, error: result } = await requestsOf(
        gateway,
        () => client(gateway).chat.completions.create(ask()),
        { first: first && (() => first(world_)), momentary: status === 200 },
    );

    assert.equal(requests, calls, 'requests of the client');
    if (status === 200) {
        assert.equal(result, null, String(result));
        return null;
    }
    assert.equal(result?.status, status, String(result));
    assert.equal(result.headers.get('x-tollgate-reason'), reason);
    if (code) assert.equal(result.code, code);
    if (name) assert.equal(result.constructor.name, name);
    return result;
}

const once = ({ gateway }) => client(gateway).chat.completions.create(ask());

test('openai: a refusal by rate is waited out as long as it says', async (t) => {
    const rate = { strategy: 'gcra', limit: 1, period: '2s', burst: 1 };
    await refused(t, await world(t, { tenant: { rate } }), once, { calls: 2, status: 200 });
});

test('openai: a refusal by rate for longer than a minute is final', async (t) => {
    const rate = { strategy: 'gcra', limit: 1, period: '1h', burst: 1 };
    const error = await refused(t, await world(t, { tenant: { rate } }), once, {
        calls: 1,
        status: 429,
        reason: 'rate',
        code: 'rate_limit_exceeded',
        name: 'RateLimitError',
    });
    assert.equal(error.headers.get('x-tollgate-binding-axis'), 'rate');
    assert.equal(error.headers.get('x-should-retry'), 'false');
    assert.equal(error.headers.get('retry-after-ms'), null);
});

test('openai: a refusal by cost is waited out as long as it says', async (t) => {
    const cost = { strategy: 'token_bucket', capacity: 25, refill: 10 };
    await refused(t, await world(t, { tenant: { cost } }), once, { calls: 2, status: 200 });
});

test('openai: a call above its cost limit is a 400 and is never retried', async (t) => {
    const cost = { strategy: 'token_bucket', capacity: 10, refill: 100 };
    await refused(t, await world(t, { tenant: { cost } }), null, {
        calls: 1,
        status: 400,
        reason: 'request_exceeds_limit',
        name: 'BadRequestError',
    });
});

test('openai: a spent budget is a 402, and is never retried', async (t) => {
    const spent = await world(t, { tenant: { budgets: [{ usd: 0.0002, per: 'month' }] } });
    const error = await refused(t, spent, once, {
        calls: 1,
        status: 402,
        reason: 'budget',
        code: 'insufficient_quota',
    });
    assert.equal(error.headers.get('x-should-retry'), 'false');
    assert.match(error.headers.get('x-tollgate-reset-at'), /^\d{4}-\d\d-01T00:00:00Z$/);
});

test('openai: a budget that others have reserved is tried again until they are done', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { rules: [{ when: { nth: '1' }, do: { fault: 'hang' } }] },
        small: { most_tokens_per_s: 1 }, /* else a call that is cut is charged all it may write */
        tenant: { budgets: [{ usd: 0.00037, per: 'total' }] },
    });
    const hung = new AbortController();
    const first = client(gateway).chat.completions.create(ask(), { signal: hung.signal });
    first.catch(() => 0);
    await until('the first call is at the mock', async () => (await mock.seen()).begun === 1);
    const second = client(gateway).chat.completions.create(ask());
    await until(
        'the second call was refused',
        async () => (await gateway.metric('refused_total', 'budget_contended')) === 1,
    );
    hung.abort();

    assert.equal((await second).usage.completion_tokens, 16);
    assert.equal((await gateway.metrics()).calls_total, 3);
});

test('openai: a tenant with too much in flight is refused, and comes back', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { rules: [{ when: { nth: '1' }, do: { fault: 'hang' } }] },
        tenant: { concurrency: 1 },
    });
    const hung = new AbortController();
    client(gateway)
        .chat.completions.create(ask(), { signal: hung.signal })
        .catch(() => 0);
    await until('the first call is at the mock', async () => (await mock.seen()).begun === 1);
    const second = client(gateway, { maxRetries: 10 }).chat.completions.create(ask());
    await until(
        'the second call was refused',
        async () => (await gateway.metric('refused_total', 'peer_limit')) >= 1,
    );
    hung.abort();

    assert.equal((await second).usage.completion_tokens, 16);
});

test('openai: a full gate is a 429, and is asked again after a while', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { rules: [{ when: { nth: '1' }, do: { fault: 'hang' } }] },
        small: { concurrency: { law: 'none', max: 1 } },
        top: { gate: { concurrency: {}, queue: { wait: { normal: '1ms' } } } },
    });
    const hung = new AbortController();
    client(gateway)
        .chat.completions.create(ask(), { signal: hung.signal })
        .catch(() => 0);
    await until('the first call is at the mock', async () => (await mock.seen()).begun === 1);
    const once = client(gateway, { maxRetries: 0 });
    const error = await fails(once.chat.completions.create(ask()));
    assert.equal(error.status, 429);
    assert.equal(error.headers.get('x-tollgate-reason'), 'concurrency');
    assert.equal(error.headers.get('x-tollgate-binding-axis'), 'concurrency');
    assert.ok(Number(error.headers.get('retry-after-ms')) > 0);
    assert.match(error.message, /server overloaded/);

    const second = client(gateway, { maxRetries: 10 }).chat.completions.create(ask());
    await until(
        'the second call was refused',
        async () => (await gateway.metric('refused_total', 'concurrency')) >= 2,
    );
    hung.abort();
    assert.equal((await second).usage.completion_tokens, 16);
});

/* However little is used, it is more than this. */
const NO_MEMORY = {
    top: {
        gate: { concurrency: {}, memory: { pressure: 0.0001, critical: 0.0002, limit: 0.0003 } },
    },
};

test('openai: memory pressure is a 503 that is asked as often as the client likes', async (t) => {
    const pressed = await world(t, NO_MEMORY);
    await until('the memory was read', async () => (await once(pressed).catch((e) => e)).status);
    const { begun } = await pressed.mock.seen();
    const error = await refused(t, pressed, null, {
        calls: 3,
        status: 503,
        reason: 'memory_pressure',
    });
    assert.match(error.message, /memory pressure: \d+\.\d% used/);
    assert.equal((await pressed.mock.seen()).begun, begun);
});

test('openai: a call that is not worth its price is refused for good', async (t) => {
    const gate = {
        concurrency: {},
        cost: { strategy: 'token_bucket', capacity: 1000000, refill: 1000 },
        policy: {
            kind: 'bid-price',
            prices: 'duals',
            duals: { rate: 0, cost: 1, concurrency: 0 },
        },
    };
    const error = await refused(t, await world(t, { top: { gate } }), null, {
        calls: 1,
        status: 429,
        reason: 'policy',
    });
    assert.equal(error.headers.get('x-should-retry'), 'false');
    assert.equal(error.headers.get('x-tollgate-binding-axis'), null);
});

test('openai: keys that have no room are a 503, and are asked again', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { rules: [{ when: { nth: '1' }, do: { fault: 'hang' } }] },
        oai: { groups: { all: { concurrency: 1 } }, keys: keys(2, { group: 'all' }) },
    });
    const hung = new AbortController();
    client(gateway)
        .chat.completions.create(ask(), { signal: hung.signal })
        .catch(() => 0);
    await until('the first call is at the mock', async () => (await mock.seen()).begun === 1);
    const error = await fails(client(gateway, { maxRetries: 0 }).chat.completions.create(ask()));
    assert.equal(error.status, 503);
    assert.equal(error.headers.get('x-tollgate-reason'), 'no_key');

    const second = client(gateway, { maxRetries: 10 }).chat.completions.create(ask());
    await until(
        'the second call was refused',
        async () => (await gateway.metric('refused_total', 'no_key')) >= 2,
    );
    hung.abort();
    assert.equal((await second).usage.completion_tokens, 16);
});

for (const [what, change, more, expected] of [
    [
        'a key that is unknown',
        { apiKey: 'tg-nobody' },
        {},
        { status: 401, code: 'invalid_api_key', name: 'AuthenticationError' },
    ],
    [
        'a model that there is not',
        {},
        { model: 'nothing' },
        { status: 404, code: 'model_not_found', name: 'NotFoundError' },
    ],
    [
        'a field that the model of another API has not',
        {},
        { model: 'claude', logit_bias: { 50256: -100 } },
        { status: 400, code: 'invalid_request', name: 'BadRequestError' },
    ],
]) {
    test(`openai: ${what} is an error of its own class, and never retried`, async (t) => {
        const { gateway, mock } = await world(t);
        const error = await fails(client(gateway, change).chat.completions.create(ask(more)));

        assert.equal(error.status, expected.status);
        assert.equal(error.code, expected.code);
        assert.equal(error.constructor.name, expected.name);
        assert.equal((await gateway.metrics()).calls_total, 1);
        assert.equal((await mock.seen()).begun, 0);
    });
}
