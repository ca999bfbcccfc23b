/* counting.mjs - tokens are counted for any model, and models listed for any client. */
import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import {
    chatBody,
    fails,
    HELLO,
    json,
    KEY,
    keys,
    messageBody,
    need,
    PRICE,
    reason,
    send,
    world,
} from './kit.mjs';

const OpenAI = need('openai').default;
const Anthropic = need('@anthropic-ai/sdk').default;

const openai = (gateway) =>
    new OpenAI({ apiKey: KEY, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
const anthropic = (gateway) =>
    new Anthropic({ apiKey: KEY, authToken: null, baseURL: gateway.url, maxRetries: 0 });

const MODEL = { price: PRICE, max_output_tokens: 4096 };

const count = (gateway, model, more = {}) =>
    send(gateway.url, '/v1/messages/count_tokens', {
        ...messageBody({ model, max_tokens: undefined }),
        ...more,
    });

/* A model of each dialect. */
const all = (mock) => ({
    providers: (at) => ({
        oai: { base_url: at.url, api: 'openai', keys: keys(1) },
        res: { base_url: at.url, api: 'openai-responses', keys: keys(1) },
        ant: { base_url: at.url, api: 'anthropic', keys: keys(1) },
        gem: { base_url: at.url, api: 'gemini', keys: keys(1) },
    }),
    models: {
        small: { provider: 'oai', ...MODEL },
        large: { provider: 'res', ...MODEL },
        claude: { provider: 'ant', ...MODEL },
        flash: { provider: 'gem', upstream_model: 'gemini-2.5-flash', ...MODEL },
    },
    ...mock,
});

test('tokens are counted by whoever counts, else estimated, and it is said', async (t) => {
    const { gateway, mock } = await world(t, all());
    const client = anthropic(gateway);
    for (const model of ['small', 'large', 'claude', 'flash']) {
        const { data, response } = await client.messages
            .countTokens({ model, messages: HELLO })
            .withResponse();
        assert.ok(data.input_tokens > 0, model);
        const estimated = ['small', 'large'].includes(model);
        assert.equal(
            response.headers.get('x-tollgate-estimated'),
            estimated ? 'input_tokens' : null,
            model,
        );
    }
    const seen = await mock.requests(2);
    assert.deepEqual(
        seen.map((one) => one.path),
        ['/v1/messages/count_tokens', '/v1beta/models/gemini-2.5-flash:countTokens'],
    );
    assert.equal((await gateway.spent()).micro_usd, 0, 'counting is free');
});

test('Gemini counts the conversation, its instructions and its tools', async (t) => {
    const bodies = [];
    const server = http.createServer((request, response) => {
        let body = '';
        request.on('data', (part) => (body += part));
        request.on('end', () => {
            bodies.push({ path: request.url, body: JSON.parse(body) });
            response.setHeader('content-type', 'application/json');
            response.end('{"totalTokens": 4711, "promptTokensDetails": []}');
        });
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    t.after(() => server.close());
    const url = `http://127.0.0.1:${server.address().port}`;
    const { gateway } = await world(t, {
        providers: { gem: { base_url: url, api: 'gemini', keys: keys(1) } },
        models: { flash: { provider: 'gem', upstream_model: 'gemini-2.5-flash', ...MODEL } },
    });
    const reply = await count(gateway, 'flash', {
        system: 'be brief',
        top_k: 3,
        tool_choice: { type: 'any' },
        tools: [{ name: 'weather', input_schema: { type: 'object', properties: {} } }],
    });
    assert.equal(reply.status, 200, String(reply.body));
    assert.deepEqual(json(reply), { input_tokens: 4711 });
    assert.equal(bodies[0].path, '/v1beta/models/gemini-2.5-flash:countTokens');
    const { generateContentRequest: counted, ...rest } = bodies[0].body;
    assert.deepEqual(rest, {});
    assert.deepEqual(Object.keys(counted), ['model', 'systemInstruction', 'contents', 'tools']);
    assert.equal(counted.model, 'models/gemini-2.5-flash');
    assert.equal(counted.tools[0].functionDeclarations[0].name, 'weather');
});

test('a count that fails is an error in the form of the client', async (t) => {
    const script = { rules: [{ when: { path: '/v1beta/models/*' }, do: { status: 400 } }] };
    const { gateway, mock } = await world(t, all({ script }));
    const reply = await count(gateway, 'flash');
    assert.equal(reply.status, 400);
    assert.equal(json(reply).type, 'error');
    await mock.script({ rules: [{ when: { path: '/v1beta/models/*' }, do: { body: '{"x":1}' } }] });
    const odd = await count(gateway, 'flash');
    assert.ok(odd.status >= 500, String(odd.status));
    assert.equal(json(odd).type, 'error');
});

test('what was stored elsewhere cannot be counted', async (t) => {
    const { gateway } = await world(t, all());
    const source = { type: 'file', file_id: 'file_1' };
    const messages = [{ role: 'user', content: [{ type: 'image', source }] }];
    const reply = await count(gateway, 'flash', { messages });
    assert.ok([400, 404].includes(reply.status), String(reply.body));
});

/* ---- models ---- */

/* It has in it what other providers signed, which Anthropic refuses: nothing is sent for it, least of all
 * a call that costs. */
test('a conversation that was at providers of other APIs is counted here', async (t) => {
    const { gateway, mock } = await world(t, all());
    for (const content of ['tg1.', 'hello']) {
        const reply = await count(gateway, 'claude', { messages: [{ role: 'user', content }] });
        assert.equal(reply.status, 200, String(reply.body));
        assert.ok(json(reply).input_tokens > 0);
        assert.equal(reply.headers['x-tollgate-estimated'] !== undefined, content === 'tg1.');
    }
    const paths = (await mock.requests(1)).map((request) => request.path);
    assert.deepEqual(paths, ['/v1/messages/count_tokens']);
});

test('models and aliases are listed in the form of the client, one by one, too', async (t) => {
    const { gateway } = await world(t, {
        ...all(),
        top: { aliases: { fast: 'flash', 'my/opus': 'claude' } },
        tenant: { models: ['*', '!large'] },
    });
    const named = ['claude', 'fast', 'flash', 'my/opus', 'small'];
    const seen = [];
    for await (const model of openai(gateway).models.list()) {
        assert.equal(model.object, 'model');
        seen.push(model.id);
    }
    assert.deepEqual(seen.sort(), named);
    const theirs = [];
    for await (const model of anthropic(gateway).models.list()) {
        assert.equal(model.type, 'model');
        assert.ok(model.display_name && model.created_at);
        theirs.push(model.id);
    }
    assert.deepEqual(theirs.sort(), named);
    for (const name of named) {
        assert.equal((await openai(gateway).models.retrieve(name)).id, name);
        assert.equal((await anthropic(gateway).models.retrieve(name)).id, name);
    }
    for (const client of [openai(gateway), anthropic(gateway)])
        for (const name of ['large', 'nothing']) {
            const error = await fails(client.models.retrieve(name));
            assert.equal(error.status, 404);
        }
});

test('an alias is called by every client', async (t) => {
    const { gateway } = await world(t, { ...all(), top: { aliases: { fast: 'flash' } } });
    for (const [path, body] of [
        ['/v1/chat/completions', chatBody({ model: 'fast' })],
        ['/v1/messages', messageBody({ model: 'fast' })],
        ['/v1/responses', { model: 'fast', input: 'hello', max_output_tokens: 16 }],
    ]) {
        const reply = await send(gateway.url, path, body);
        assert.equal(reply.status, 200, String(reply.body));
        assert.equal(json(reply).model, 'fast', path);
        assert.equal(reason(reply), undefined);
    }
});
