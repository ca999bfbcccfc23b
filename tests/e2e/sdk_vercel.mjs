/* sdk_vercel.mjs - Vercel's `ai`, a third reader of the API with retries of its own. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { KEY, need, price, requestsOf, world } from './kit.mjs';

const { generateText, streamText } = need('ai');
const { createOpenAICompatible } = need('@ai-sdk/openai-compatible');

const model = (gateway) =>
    createOpenAICompatible({
        name: 'tollgate',
        apiKey: KEY,
        baseURL: `${gateway.url}/v1`,
        includeUsage: true,
    })('small');

const ask = (gateway, more = {}) => ({
    model: model(gateway),
    prompt: 'hello there',
    maxOutputTokens: 16,
    ...more,
});

const cost = (usage) =>
    price({ input_tokens: usage.inputTokens, output_tokens: usage.outputTokens });

test('ai: generateText', async (t) => {
    const { gateway } = await world(t);
    const reply = await generateText(ask(gateway));

    assert.equal(reply.text.trim().split(' ').length, 16);
    assert.equal((await gateway.spent()).micro_usd, cost(reply.usage));
});

test('ai: streamText', async (t) => {
    const { gateway } = await world(t);
    const reply = streamText(ask(gateway));
    let text = '';
    for await (const part of reply.textStream) text += part;

    assert.equal(text.trim().split(' ').length, 16);
    assert.equal((await gateway.spent()).micro_usd, cost(await reply.usage));
});

test('ai: a stream that is aborted ends upstream', async (t) => {
    const { gateway, mock } = await world(t, { script: { default: { tokens: 2000, pace: 200 } } });
    const abort = new AbortController();
    const reply = streamText(ask(gateway, { maxOutputTokens: 2000, abortSignal: abort.signal }));
    for await (const part of reply.textStream) if (part) abort.abort();

    assert.equal((await mock.requests(1))[0].ended, 'aborted');
    assert.equal((await gateway.spent()).calls, 1);
});

for (const [what, change, before, expected] of [
    [
        'a rate that is exceeded for a moment is waited out',
        { tenant: { rate: { strategy: 'gcra', limit: 1, period: '2s', burst: 1 } } },
        true,
        { calls: 2 },
    ],
    [
        'a spent budget is not tried again',
        { tenant: { budgets: [{ usd: 0.0002, per: 'total' }] } },
        true,
        { calls: 1, status: 402 },
    ],
    [
        'a call above its limit is not tried again',
        { tenant: { cost: { strategy: 'token_bucket', capacity: 10, refill: 1 } } },
        false,
        { calls: 1, status: 400 },
    ],
]) {
    test(`ai: ${what}`, async (t) => {
        const { gateway } = await world(t, change);
        const { requests, error } = await requestsOf(gateway, () => generateText(ask(gateway)), {
            first: before ? () => generateText(ask(gateway)) : undefined,
            momentary: expected.status === undefined,
        });

        assert.equal(requests, expected.calls);
        assert.equal(error?.statusCode, expected.status, String(error));
    });
}

/* It does not know x-should-retry: what keeps it from a storm is its own count. */
test('ai: a refusal for an hour is asked as often as the caller allows, and no more', async (t) => {
    const rate = { strategy: 'gcra', limit: 1, period: '1h', burst: 1 };
    const { gateway, mock } = await world(t, { tenant: { rate } });
    await generateText(ask(gateway));
    const error = await generateText(ask(gateway, { maxRetries: 1 })).then(
        () => null,
        (e) => e,
    );

    assert.ok(error);
    assert.equal(await gateway.metric('refused_total', 'reason="rate"'), 2);
    assert.equal((await mock.requests(1)).length, 1);
});
