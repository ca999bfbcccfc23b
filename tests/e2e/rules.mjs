/* rules.mjs - rules for fields and headers as the official clients meet them.
 *
 * What reached the provider is known by the hash of its body, which the mock records.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { chat, fails, HELLO, json, KEY, need, reason, sha256, world } from './kit.mjs';

const OpenAI = need('openai').default;
const Anthropic = need('@anthropic-ai/sdk').default;

const openai = (gateway, more = {}) =>
    new OpenAI({ apiKey: KEY, baseURL: `${gateway.url}/v1`, ...more });
const anthropic = (gateway, more = {}) =>
    new Anthropic({ apiKey: KEY, authToken: null, baseURL: gateway.url, ...more });

const ask = (more = {}) => ({ model: 'small', messages: HELLO, max_tokens: 16, ...more });
const tell = (more = {}) => ({ model: 'claude', messages: HELLO, max_tokens: 16, ...more });

const RULES = [
    { field: 'max_tokens', max: 100 },
    { field: 'n', max: 1 },
];

const sent = async (mock, body) => {
    const requests = await mock.requests(1);
    assert.equal(requests.at(-1).body_sha256, sha256(body));
};

test('rules: the client of OpenAI gets a 400 that names field, value and rule', async (t) => {
    const { gateway, mock } = await world(t, { tenant: { rules: RULES } });
    const error = await fails(
        openai(gateway).chat.completions.create(ask({ max_tokens: 101, n: 1 })),
    );

    assert.equal(error.status, 400);
    assert.equal(error.code, 'field_rule');
    assert.equal(error.param, 'max_tokens');
    assert.match(error.message, /'max_tokens' is 101; at most 100 .*rule of tenant one/);
    const responses = await fails(
        openai(gateway).responses.create({ model: 'small', input: 'hi', max_output_tokens: 101 }),
    );
    assert.equal(responses.code, 'field_rule');
    assert.equal((await mock.seen()).begun, 0);
    await openai(gateway).chat.completions.create(ask({ max_tokens: 100, n: 1 }));
});

test('rules: the client of Anthropic gets it in its own form', async (t) => {
    const { gateway } = await world(t, { claude: { rules: RULES } });
    const error = await fails(anthropic(gateway).messages.create(tell({ max_tokens: 101 })));

    assert.equal(error.status, 400);
    assert.equal(error.error.type, 'error');
    assert.equal(error.error.error.type, 'invalid_request_error');
    assert.match(error.message, /'max_tokens' is 101; .*rule of model claude/);
    await anthropic(gateway).messages.create(tell());
});

test('rules: what is set and defaulted reaches the provider, and the client hears of it', async (t) => {
    const rules = [
        { field: 'service_tier', set: 'flex' },
        { field: 'metadata.team', default: 'a' },
    ];
    const { gateway, mock } = await world(t, { tenant: { rules } });
    const { response } = await openai(gateway).chat.completions.create(ask()).withResponse();

    assert.equal(response.headers.get('x-tollgate-changed'), 'service_tier, metadata.team');
    const body = JSON.stringify(ask()).slice(1);
    await sent(mock, `{"service_tier":"flex","metadata":{"team":"a"},${body}`);
});

test('rules: what is set reaches Anthropic by its own names', async (t) => {
    const rules = [
        { field: 'max_tokens', set: 8 },
        { field: 'user', default: 'nobody' },
    ];
    const { gateway, mock } = await world(t, { claude: { rules } });
    const { data, response } = await anthropic(gateway)
        .messages.create(tell({ metadata: {} }))
        .withResponse();

    assert.equal(response.headers.get('x-tollgate-changed'), 'max_tokens, user');
    assert.equal(data.usage.output_tokens, 8);
    const body = JSON.stringify(tell({ max_tokens: 8, metadata: { user_id: 'nobody' } }));
    await sent(mock, body);
});

test('attack 4: a tier that nobody has priced is refused under a budget', async (t) => {
    const priced = { price: { input: 1, output: 2, factors: { service_tier: { flex: 0.5 } } } };
    const { gateway, mock } = await world(t, { small: priced });

    const error = await fails(
        openai(gateway).chat.completions.create(ask({ service_tier: 'priority' })),
    );
    assert.equal(error.status, 400);
    assert.match(error.message, /'service_tier' is "priority".*price/);
    await openai(gateway).chat.completions.create(ask({ service_tier: 'flex' }));
    const beta = await fails(
        anthropic(gateway).beta.messages.create(tell({ betas: ['compact-2026-01-12'] })),
    );
    assert.equal(beta.status, 400);
    assert.match(beta.message, /anthropic-beta.* is compact-2026-01-12/);
    assert.equal((await mock.requests(1)).length, 1);
});

test('attack 5: keys that a provider in Go would read are refused', async (t) => {
    const { gateway, mock } = await world(t);
    for (const more of [{ Model: 'dear' }, { MAX_TOKENS: 100000 }, { 'max_token\u017f': 1 }]) {
        const reply = await chat(gateway, more);
        assert.equal(reply.status, 400);
        assert.match(json(reply).error.message, /case of its letters/);
    }
    assert.equal((await mock.seen()).begun, 0);
});

test('attack 6: a second content-encoding or content-type is refused', async (t) => {
    const { gateway, mock } = await world(t);
    const twice = [
        { 'content-encoding': ['identity', 'gzip'] },
        { 'content-type': ['application/json', 'text/plain'] },
    ];
    for (const headers of twice) assert.equal((await chat(gateway, {}, { headers })).status, 415);
    assert.equal((await mock.seen()).begun, 0);
});

test('attack 7: users beyond the maximum, and calls without a user, are refused', async (t) => {
    const users = { from: 'header:x-user', max: 2, required: true };
    const { gateway } = await world(t, { tenant: { users } });
    const as = (user) => chat(gateway, {}, { headers: user ? { 'x-user': user } : {} });

    assert.equal((await as('anna')).status, 200);
    assert.equal((await as('berta')).status, 200);
    const third = await as('carla');
    assert.equal(third.status, 429);
    assert.equal(reason(third), 'user_limit');
    assert.equal(third.headers['x-should-retry'], 'false');
    assert.equal((await as('anna')).status, 200);
    const nobody = await as(null);
    assert.equal(nobody.status, 400);
    assert.match(json(nobody).error.message, /x-user/);
});
