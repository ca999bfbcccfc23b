/* translated.mjs - official clients in front of providers of every dialect notice nothing.
 *
 * The mock speaks OpenAI's and Anthropic's APIs. Gemini is a server here, which is asked what it was
 * sent and answers what it is told to.
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import { chat, fails, HELLO, json, KEY, message, need, reason, world } from './kit.mjs';

const OpenAI = need('openai').default;
const Anthropic = need('@anthropic-ai/sdk').default;

const openai = (gateway, more) =>
    new OpenAI({ apiKey: KEY, baseURL: `${gateway.url}/v1`, maxRetries: 0, ...more });
const anthropic = (gateway, more) =>
    new Anthropic({ apiKey: KEY, authToken: null, baseURL: gateway.url, maxRetries: 0, ...more });

const SCHEMA = {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
};

/* The same thing asked in each dialect of a client, and what is read of the answer. */
const CLIENTS = {
    chat: {
        async text(gateway, model, more = {}) {
            const reply = await openai(gateway).chat.completions.create({
                model,
                messages: HELLO,
                max_tokens: 16,
                ...more,
            });
            const { message, finish_reason: stop } = reply.choices[0];
            const usage = [reply.usage.prompt_tokens, reply.usage.completion_tokens];
            return { text: message.content, stop, usage, calls: message.tool_calls };
        },
        async stream(gateway, model) {
            const stream = await openai(gateway).chat.completions.create({
                model,
                messages: HELLO,
                max_tokens: 16,
                stream: true,
                stream_options: { include_usage: true },
            });
            const seen = { text: '', usage: undefined, stop: undefined };
            for await (const chunk of stream) {
                seen.text += chunk.choices[0]?.delta.content ?? '';
                seen.stop = chunk.choices[0]?.finish_reason ?? seen.stop;
                if (chunk.usage)
                    seen.usage = [chunk.usage.prompt_tokens, chunk.usage.completion_tokens];
            }
            return seen;
        },
        tool: (gateway, model) =>
            CLIENTS.chat
                .text(gateway, model, {
                    tools: [{ type: 'function', function: { name: 'weather', parameters: SCHEMA } }],
                    tool_choice: 'required',
                })
                .then(({ calls, stop }) => ({
                    stop,
                    name: calls[0].function.name,
                    args: JSON.parse(calls[0].function.arguments),
                })),
        stopped: { end: 'stop', tool: 'tool_calls' },
    },
    responses: {
        async text(gateway, model, more = {}) {
            const reply = await openai(gateway).responses.create({
                model,
                input: HELLO,
                max_output_tokens: 16,
                ...more,
            });
            const usage = [reply.usage.input_tokens, reply.usage.output_tokens];
            return { text: reply.output_text, stop: reply.status, usage, output: reply.output };
        },
        async stream(gateway, model) {
            const stream = await openai(gateway).responses.create({
                model,
                input: HELLO,
                max_output_tokens: 16,
                stream: true,
            });
            let text = '';
            let last;
            for await (const event of stream) {
                if (event.type === 'response.output_text.delta') text += event.delta;
                last = event;
            }
            if (last.type !== 'response.completed') throw new Error(last.type);
            const { usage, status, output } = last.response;
            assert.equal(output.find((item) => item.type === 'message').content[0].text, text);
            return { text, stop: status, usage: [usage.input_tokens, usage.output_tokens] };
        },
        tool: (gateway, model) =>
            CLIENTS.responses
                .text(gateway, model, {
                    tools: [
                        { type: 'function', name: 'weather', parameters: SCHEMA, strict: false },
                    ],
                    tool_choice: 'required',
                })
                .then(({ output, stop }) => {
                    const call = output.find((item) => item.type === 'function_call');
                    return { stop, name: call.name, args: JSON.parse(call.arguments) };
                }),
        stopped: { end: 'completed', tool: 'completed' },
    },
    messages: {
        async text(gateway, model, more = {}) {
            const reply = await anthropic(gateway).messages.create({
                model,
                messages: HELLO,
                max_tokens: 16,
                ...more,
            });
            const usage = [reply.usage.input_tokens, reply.usage.output_tokens];
            return { text: reply.content[0]?.text, stop: reply.stop_reason, usage, reply };
        },
        async stream(gateway, model) {
            let text = '';
            const stream = anthropic(gateway).messages.stream({
                model,
                messages: HELLO,
                max_tokens: 16,
            });
            stream.on('text', (part) => (text += part));
            const reply = await stream.finalMessage();
            assert.equal(reply.content[0].text, text);
            return {
                text,
                stop: reply.stop_reason,
                usage: [reply.usage.input_tokens, reply.usage.output_tokens],
            };
        },
        tool: (gateway, model) =>
            CLIENTS.messages
                .text(gateway, model, {
                    tools: [{ name: 'weather', input_schema: SCHEMA }],
                    tool_choice: { type: 'any' },
                })
                .then(({ reply, stop }) => {
                    const call = reply.content.find((block) => block.type === 'tool_use');
                    return { stop, name: call.name, args: call.input };
                }),
        stopped: { end: 'end_turn', tool: 'tool_use' },
    },
};

/* A provider that speaks Gemini's API: `answer` gets what it was sent, and gives the parts. */
async function gemini(t, answer) {
    const seen = [];
    const server = http.createServer(async (request, reply) => {
        let body = '';
        for await (const part of request) body += part;
        const asked = { url: request.url, headers: request.headers, body: JSON.parse(body) };
        seen.push(asked);
        const { parts, status = 200, error, cut } = answer(asked, seen.length);
        if (status !== 200) {
            reply.writeHead(status, { 'content-type': 'application/json' });
            reply.end(JSON.stringify({ error }));
            return;
        }
        const usage = { promptTokenCount: 7, candidatesTokenCount: 5, totalTokenCount: 12 };
        const chunk = (content, more) => ({ candidates: [{ content, ...more }], ...{} });
        if (!request.url.includes('alt=sse')) {
            reply.writeHead(200, { 'content-type': 'application/json' });
            reply.end(
                JSON.stringify({
                    ...chunk({ role: 'model', parts }, { finishReason: 'STOP' }),
                    usageMetadata: usage,
                }),
            );
            return;
        }
        reply.writeHead(200, { 'content-type': 'text/event-stream' });
        for (const part of parts)
            reply.write(
                `data: ${JSON.stringify(chunk({ role: 'model', parts: [part] }))}\r\n\r\n`,
            );
        if (cut) {
            reply.socket.end();
            return;
        }
        const last = chunk({ role: 'model', parts: [{ text: '' }] }, { finishReason: 'STOP' });
        reply.end(`data: ${JSON.stringify({ ...last, usageMetadata: usage })}\r\n\r\n`);
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    t.after(() => server.close());
    return { seen, url: `http://127.0.0.1:${server.address().port}` };
}

const google = (server) => ({
    providers: {
        google: { base_url: server.url, api: 'gemini', keys: [{ name: 'g', secret: 'sk-google-1' }] },
    },
    models: {
        flash: {
            provider: 'google',
            price: { input: 1, output: 2 },
            max_output_tokens: 4096,
            retries: 0,
        },
    },
});

/* Providers of the mock in the dialects that a world has not: `small` speaks both of OpenAI's. */
const everywhere = {
    providers: ({ url }) =>
        Object.fromEntries(
            ['openai-chat', 'openai-responses', 'gemini'].map((api) => [
                api,
                { base_url: url, api, keys: [{ name: 'k', secret: `sk-of-${api}` }] },
            ]),
        ),
    models: () =>
        Object.fromEntries(
            Object.entries({
                chats: 'openai-chat',
                answers: 'openai-responses',
                google: 'gemini',
            }).map(([name, provider]) => [
                name,
                { provider, price: { input: 1, output: 2 }, max_output_tokens: 4096 },
            ]),
        ),
};

/* ---- each client before each provider ---- */

for (const [client, of] of Object.entries(CLIENTS))
    for (const model of ['small', 'claude', 'chats', 'answers', 'google']) {
        test(`${client} to ${model}: an answer, a stream and a tool are read by the SDK`, async (t) => {
            const { gateway, mock } = await world(t, everywhere);
            const whole = await of.text(gateway, model);
            assert.equal(whole.text.trim().split(' ').length, 16);
            assert.equal(whole.stop, of.stopped.end);

            const stream = await of.stream(gateway, model);
            assert.equal(stream.text.trim().split(' ').length, 16);
            assert.equal(stream.stop, of.stopped.end);
            assert.deepEqual(stream.usage, whole.usage);
            const spent = await gateway.spent();
            assert.equal(spent.micro_usd, 2 * (whole.usage[0] + 2 * whole.usage[1]));

            await mock.script({ default: { tool_call: true } });
            const tool = await of.tool(gateway, model);
            assert.equal(tool.name, 'weather');
            assert.equal(tool.stop, of.stopped.tool);
            assert.equal(typeof tool.args, 'object');
        });
    }

for (const [client, of] of Object.entries(CLIENTS))
    test(`${client} to gemini: an answer, a stream and a tool are read by the SDK`, async (t) => {
        const server = await gemini(t, ({ body }) =>
            body.tools
                ? { parts: [{ functionCall: { name: 'weather', args: { city: 'Oslo' } } }] }
                : { parts: [{ text: 'hello ' }, { text: 'you' }] },
        );
        const { gateway } = await world(t, google(server));
        for (const how of ['text', 'stream']) {
            const reply = await of[how](gateway, 'flash');
            assert.equal(reply.text, 'hello you');
            assert.deepEqual(reply.usage, [7, 5]);
        }
        assert.deepEqual(await of.tool(gateway, 'flash'), {
            stop: of.stopped.tool,
            name: 'weather',
            args: { city: 'Oslo' },
        });
        assert.equal((await gateway.spent()).micro_usd, 3 * (7 + 2 * 5));
        assert.equal(server.seen[0].url, '/v1beta/models/flash:generateContent');
        assert.equal(server.seen[1].url, '/v1beta/models/flash:streamGenerateContent?alt=sse');
        assert.equal(server.seen[0].headers['x-goog-api-key'], 'sk-google-1');
        assert.equal(server.seen[0].headers.authorization, undefined);
        assert.equal(server.seen[0].headers['anthropic-version'], undefined);
    });

/* Number 39 of what others got wrong: the flags of one vendor's API are refused by another's. */
test("headers of a client's vendor go to providers of its API alone", async (t) => {
    const { gateway, mock } = await world(t, everywhere);
    const headers = {
        'anthropic-beta': 'pdfs-2024-09-25',
        'anthropic-version': '2023-06-01',
        'openai-organization': 'org-1',
    };
    for (const model of ['claude', 'chats', 'answers', 'google'])
        assert.equal((await message(gateway, { model }, { headers })).status, 200);
    for (const seen of await mock.requests(4)) {
        const own = seen.path === '/v1/messages';
        const names = seen.headers.map(([name]) => name);
        assert.equal(names.includes('anthropic-beta'), own, seen.path);
        assert.equal(names.includes('anthropic-version'), own, seen.path);
        assert.ok(own || !names.includes('openai-organization'), seen.path);
    }
});

/* ---- errors ---- */

for (const [client, model, status, name] of [
    ['chat', 'claude', 503, 'InternalServerError'],
    ['messages', 'small', 503, 'OverloadedError'],
    ['chat', 'claude', 400, 'BadRequestError'],
    ['messages', 'small', 404, 'NotFoundError'],
])
    test(`${client} to ${model}: a ${status} is the SDK's own error`, async (t) => {
        const { gateway } = await world(t, {
            script: { default: { status, message: 'in so many words' } },
            [model]: { retries: 0 },
        });
        const error = await fails(CLIENTS[client].text(gateway, model));
        assert.equal(error.constructor.name, name);
        assert.match(error.message, /in so many words/);
        const told = error.error;
        if (client === 'messages') assert.equal(told.type, 'error');
        else assert.equal(typeof told.type, 'string');
        assert.equal((await gateway.spent()).micro_usd, 0);
    });

test('what cannot be carried over is refused by its name, or left out and named', async (t) => {
    const { gateway, mock } = await world(t, {
        models: () => ({
            loose: { provider: 'ant', translate: 'lossy', price: { input: 1, output: 2 } },
        }),
    });
    const refused = await chat(gateway, { model: 'claude', logit_bias: { 50256: -100 } });
    assert.equal(refused.status, 400);
    assert.equal(json(refused).error.param, 'logit_bias');
    assert.equal((await mock.requests(0)).length, 0);
    const told = await message(gateway, { model: 'small', top_k: 5 });
    assert.equal(told.status, 400);
    assert.match(json(told).error.message, /'top_k'/);
    const left = await chat(gateway, { model: 'loose', logit_bias: { 50256: -100 } });
    assert.equal(left.status, 200);
    assert.equal(left.headers['x-tollgate-dropped'], 'logit_bias');
    const none = await chat(gateway, { model: 'claude' });
    assert.equal(none.headers['x-tollgate-dropped'], undefined);
});

/* ---- hang-ups and breaks ---- */

test('a translated stream whose client leaves ends upstream, and is charged once', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { default: { tokens: 2000, pace: 200 } },
        claude: { most_tokens_per_s: 1 }, /* so that the text counts */
    });
    const stream = await openai(gateway).chat.completions.create({
        model: 'claude',
        messages: HELLO,
        max_tokens: 2000,
        stream: true,
    });
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break;
    stream.controller.abort();

    assert.equal((await mock.requests(1))[0].ended, 'aborted');
    const spent = await gateway.spent();
    assert.equal(spent.calls, 1);
    assert.ok(spent.micro_usd > 0 && spent.micro_usd < 4000);
});

test('a translated stream that breaks is an error to the SDK, never an end', async (t) => {
    const { gateway } = await world(t, {
        script: { default: { tokens: 40, fault: 'close', at: 'event 9' } },
    });
    await fails(CLIENTS.messages.stream(gateway, 'small'));
    await fails(CLIENTS.chat.stream(gateway, 'claude'));
    const { calls } = await gateway.spent();
    assert.equal(calls, 2);
});

/* ---- fallbacks ---- */

for (const [how, failure] of [
    ['503', { status: 503 }],
    ['429', { status: 429 }],
    ['no first byte in time', { fault: 'hang' }],
    ['a break before the first byte', { fault: 'close', at: 'head' }],
])
    test(`S6 openai, anthropic, gemini: ${how} goes on to the next, at its price alone`, async (t) => {
        const server = await gemini(t, () => ({ parts: [{ text: 'at last' }] }));
        const more = google(server);
        const once = { retries: 0, timeouts: { first_byte: '300ms', reply: '300ms' } };
        const { gateway, mock } = await world(t, {
            script: { default: failure },
            providers: more.providers,
            models: more.models,
            small: { ...once, fallback: ['claude', 'flash'] },
            claude: once,
        });
        const { text, usage } = await CLIENTS.chat.stream(gateway, 'small');
        assert.equal(text, 'at last');
        assert.deepEqual(usage, [7, 5]);
        const paths = (await mock.requests(2)).map((one) => one.path);
        assert.deepEqual(paths, ['/v1/chat/completions', '/v1/messages']);
        if (failure.status) assert.equal((await gateway.spent()).micro_usd, 7 + 2 * 5);
        const told = await chat(gateway, { model: 'small', stream: true });
        assert.equal(told.headers['x-tollgate-model'], 'flash');
    });

test('a fallback that would fail is counted in peacetime', async (t) => {
    const { gateway } = await world(t, { small: { fallback: ['claude'] } });
    await chat(gateway);
    assert.equal((await gateway.metrics()).fallback_uncarried_total, 0);
    await chat(gateway, { logit_bias: { 50256: -100 } });
    assert.equal((await gateway.metrics()).fallback_uncarried_total, 1);
});

/* ---- a conversation ---- */

/* Each turn calls a tool and gets its result; the next turn is at a provider of another dialect. */
for (const client of ['chat', 'messages'])
    test(`${client}: ten turns with tools, each at another provider`, async (t) => {
        const server = await gemini(t, ({ body }, nth) => {
            const parts = [
                {
                    functionCall: { name: 'weather', args: { city: `city ${nth}` } },
                    thoughtSignature: Buffer.from(`signed ${nth}`).toString('base64'),
                },
            ];
            /* As Gemini does: a call of its own has to come back with its signature. */
            for (const content of body.contents)
                for (const part of content.parts)
                    if (part.functionCall && !part.thoughtSignature)
                        return {
                            status: 400,
                            error: { code: 400, status: 'INVALID_ARGUMENT', message: 'unsigned' },
                        };
            return { parts };
        });
        const { gateway } = await world(t, {
            ...google(server),
            script: { default: { tool_call: true } },
        });
        const models = ['small', 'flash', 'claude'];
        const messages = [...HELLO];
        const tools = {
            chat: [{ type: 'function', function: { name: 'weather', parameters: SCHEMA } }],
            messages: [{ name: 'weather', input_schema: SCHEMA }],
        };
        for (let turn = 0; turn < 10; turn++) {
            const model = models[turn % 3];
            const ask = { model, messages, max_tokens: 64, tools: tools[client] };
            if (client === 'chat') {
                const reply = await openai(gateway).chat.completions.create(ask);
                const said = reply.choices[0].message;
                assert.equal(said.tool_calls[0].function.name, 'weather', model);
                messages.push(said, {
                    role: 'tool',
                    tool_call_id: said.tool_calls[0].id,
                    content: `rain ${turn}`,
                });
            } else {
                const reply = await anthropic(gateway).messages.create(ask);
                const call = reply.content.find((block) => block.type === 'tool_use');
                assert.equal(call.name, 'weather', model);
                messages.push(
                    { role: 'assistant', content: reply.content },
                    {
                        role: 'user',
                        content: [
                            { type: 'tool_result', tool_use_id: call.id, content: `rain ${turn}` },
                        ],
                    },
                );
            }
        }
        const last = server.seen.at(-1).body;
        assert.ok(JSON.stringify(last).includes('rain 6'));
        const own = Buffer.from('signed 1').toString('base64');
        assert.ok(JSON.stringify(last).includes(own), 'its signature has come back');
    });

/* ---- what else there is ---- */

test('models are listed to clients of every API, aliases too', async (t) => {
    const { gateway } = await world(t, { top: { aliases: { fast: 'small' } } });
    const ids = async (list) => (await list).data.map((model) => model.id).sort();
    assert.deepEqual(await ids(openai(gateway).models.list()), ['claude', 'fast', 'small']);
    assert.deepEqual(await ids(anthropic(gateway).models.list()), ['claude', 'fast', 'small']);
    assert.equal((await CLIENTS.messages.text(gateway, 'fast')).stop, 'end_turn');
});

test('tokens are counted for any model, by an estimate where the provider counts none', async (t) => {
    const { gateway, mock } = await world(t);
    const count = await anthropic(gateway)
        .messages.countTokens({ model: 'small', messages: HELLO })
        .withResponse();
    assert.ok(count.data.input_tokens > 0);
    assert.equal(count.response.headers.get('x-tollgate-estimated'), 'input_tokens');
    assert.equal((await mock.requests(0)).length, 0);
    assert.equal((await gateway.spent()).micro_usd, 0);
});

test('a refusal of a translated call has the form of its client', async (t) => {
    const { gateway } = await world(t, {
        tenant: { rate: { strategy: 'gcra', limit: 1, period: '60s' } },
    });
    await chat(gateway, { model: 'claude' });
    const chatted = await chat(gateway, { model: 'claude' });
    assert.equal(chatted.status, 429);
    assert.equal(reason(chatted), 'rate');
    assert.ok(chatted.headers['x-ratelimit-limit-requests']);
    const sent = await message(gateway, { model: 'small' });
    assert.equal(json(sent).error.type, 'rate_limit_error');
    assert.ok(sent.headers['anthropic-ratelimit-requests-limit']);
});
