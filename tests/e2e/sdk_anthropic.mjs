/* sdk_anthropic.mjs - the official client of Anthropic, pointed at the gateway, notices nothing. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { fails, HELLO, KEY, need, price, requestsOf, world } from './kit.mjs';

const Anthropic = need('@anthropic-ai/sdk').default;

const client = (gateway, more = {}) =>
    new Anthropic({ apiKey: KEY, authToken: null, baseURL: gateway.url, ...more });

const ask = (more = {}) => ({ model: 'claude', messages: HELLO, max_tokens: 16, ...more });

test('anthropic: a message is answered, and costs what its usage says', async (t) => {
    const { gateway, mock } = await world(t);
    const reply = await client(gateway).messages.create(ask());

    assert.equal(reply.content[0].text.trim().split(' ').length, 16);
    assert.equal((await gateway.spent()).micro_usd, price(reply.usage));
    const [seen] = await mock.requests(1);
    assert.deepEqual(
        seen.credentials.map((one) => one.header),
        ['x-api-key'],
    );
    assert.ok(seen.headers.some(([name]) => name === 'anthropic-version'));
});

test('anthropic: a stream is the same message, and costs the same', async (t) => {
    const { gateway } = await world(t);
    const stream = client(gateway).messages.stream(ask());
    let text = '';
    stream.on('text', (part) => (text += part));
    const reply = await stream.finalMessage();

    assert.equal(reply.content[0].text, text);
    assert.equal(reply.usage.output_tokens, 16);
    assert.equal((await gateway.spent()).micro_usd, price(reply.usage));
});

test('anthropic: cached tokens are charged at their own prices', async (t) => {
    const prices = { input: 10, cached_input: 1, cache_write: 12, output: 20 };
    const { gateway } = await world(t, {
        script: { default: { cached: 2, cache_write: 1 } },
        claude: { price: prices },
    });
    const { usage } = await client(gateway).messages.create(ask());

    assert.equal(usage.cache_read_input_tokens, 2);
    assert.equal(usage.cache_creation_input_tokens, 1);
    assert.equal(
        (await gateway.spent()).micro_usd,
        usage.input_tokens * 10 + 2 * 1 + 1 * 12 + usage.output_tokens * 20,
    );
});

test('anthropic: counting tokens is answered and free', async (t) => {
    const { gateway } = await world(t);
    const count = await client(gateway).messages.countTokens({ model: 'claude', messages: HELLO });

    assert.ok(count.input_tokens > 0);
    assert.equal((await gateway.spent()).micro_usd, 0);
});

test('anthropic: a stream that is aborted ends upstream, and is charged once', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { default: { tokens: 2000, pace: 200 } },
        claude: { most_tokens_per_s: 1 }, /* so that the text counts */
    });
    const stream = client(gateway).messages.stream(ask({ max_tokens: 2000 }));
    stream.on('error', () => 0);
    stream.once('text', () => stream.abort());
    await fails(stream.finalMessage());

    assert.equal((await mock.requests(1))[0].ended, 'aborted');
    const spent = await gateway.spent();
    assert.equal(spent.calls, 1);
    assert.ok(spent.micro_usd > 0 && spent.micro_usd < 4000);
});

test('anthropic: an overloaded upstream is tried again on the way', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { rules: [{ when: { nth: '1' }, do: { status: 529 } }] },
    });
    const reply = await client(gateway).messages.create(ask());

    assert.equal(reply.usage.output_tokens, 16);
    assert.equal((await mock.requests(2)).length, 2);
    assert.equal((await gateway.metrics()).calls_total, 1, 'the client has seen nothing of it');
});

test('anthropic: an upstream that stays overloaded is a 529 in its own words', async (t) => {
    const { gateway } = await world(t, { script: { default: { status: 529 } } });
    const error = await fails(client(gateway, { maxRetries: 0 }).messages.create(ask()));

    assert.equal(error.status, 529);
    assert.equal(error.error.type, 'error');
    assert.equal(error.error.error.type, 'overloaded_error');
});

test('anthropic: an error in place of the first event is tried again', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { rules: [{ when: { nth: '1' }, do: { fault: 'error', at: 'head' } }] },
    });
    const reply = await client(gateway).messages.stream(ask()).finalMessage();

    assert.equal(reply.usage.output_tokens, 16);
    assert.equal((await mock.requests(2)).length, 2);
});

test('anthropic: no key with room is a 529, not a 503', async (t) => {
    const { gateway } = await world(t, {
        ant: { keys: [{ name: 'k1', secret: 'sk-e2e-provider-secret-1', rpm: 1 }] },
    });
    await client(gateway).messages.create(ask());
    const error = await fails(client(gateway, { maxRetries: 0 }).messages.create(ask()));

    assert.equal(error.status, 529);
    assert.equal(error.error.error.type, 'overloaded_error');
    assert.equal(error.headers.get('x-tollgate-reason'), 'no_key');
});

/* What each refusal is to this client: a class and a number of requests. */
const once = (gateway) => client(gateway).messages.create(ask());
for (const [what, change, before, expected] of [
    [
        'a rate that is exceeded for an hour',
        { tenant: { rate: { strategy: 'gcra', limit: 1, period: '1h', burst: 1 } } },
        once,
        { status: 429, type: 'rate_limit_error', name: 'RateLimitError', calls: 1 },
    ],
    [
        'a rate that is exceeded for a moment',
        { tenant: { rate: { strategy: 'gcra', limit: 1, period: '2s', burst: 1 } } },
        once,
        { status: 200, calls: 2 },
    ],
    [
        'a call above its limit',
        { tenant: { cost: { strategy: 'token_bucket', capacity: 10, refill: 1 } } },
        null,
        { status: 400, type: 'invalid_request_error', name: 'BadRequestError', calls: 1 },
    ],
    [
        'a budget that is spent',
        { tenant: { budgets: [{ usd: 0.0002, per: 'total' }] } },
        once,
        { status: 402, type: 'billing_error', name: 'APIError', calls: 1 },
    ],
    [
        'credentials that the provider does not take',
        { script: { default: { status: 401 } } },
        null,
        { status: 502, type: 'api_error', name: 'InternalServerError', calls: 1 },
    ],
]) {
    const { calls, status } = expected;
    test(`anthropic: ${what} makes ${calls} request(s) and a ${status}`, async (t) => {
        const { gateway } = await world(t, change);
        const { requests, error } = await requestsOf(gateway, () => once(gateway), {
            first: before && (() => before(gateway)),
            momentary: status === 200,
        });

        assert.equal(requests, expected.calls);
        assert.equal(error?.status ?? 200, expected.status, String(error));
        if (!error) return;
        assert.equal(error.error.type, 'error');
        assert.equal(error.error.error.type, expected.type);
        assert.equal(error.constructor.name, expected.name);
    });
}

test('anthropic: a wrong key and a wrong model are errors in its form', async (t) => {
    const { gateway } = await world(t);
    const wrongKey = await fails(
        client(gateway, { apiKey: 'tg-nobody' }).messages.create(ask()),
    );
    assert.equal(wrongKey.status, 401);
    assert.equal(wrongKey.error.error.type, 'authentication_error');
    const wrongModel = await fails(client(gateway).messages.create(ask({ model: 'nobody' })));
    assert.equal(wrongModel.status, 404);
    assert.equal(wrongModel.error.error.type, 'not_found_error');
    assert.equal((await gateway.metrics()).calls_total, 2);
});

test('anthropic: the list of models has its own form', async (t) => {
    const { gateway } = await world(t);
    const names = [];
    for await (const model of client(gateway).models.list()) names.push([model.id, model.type]);
    assert.deepEqual(names, [['small', 'model'], ['claude', 'model']]);
});
