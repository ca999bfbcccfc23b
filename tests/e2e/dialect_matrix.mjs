/* dialect_matrix.mjs - every official client before providers of every dialect: a table of what holds.
 *
 * A cell is one client, one provider and one feature. What the client read is compared with what the
 * provider said, and what the provider was sent with what the client was told to say. The mock is
 * strict: it refuses what the real providers refuse; and the types of the official packages look at
 * everything that was sent. A cell that cannot be has its reason, which docs/dialects.md tells, and is
 * held to it: a request that must be refused is refused by the name of its field. The table is
 * printed, and the one in docs/dialects.md must be the same.
 *
 * One gateway, one mock, and a recorder between the two, all cells of a feature at once.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import test from 'node:test';
import { KEY, PRICE, until, world } from './kit.mjs';
import { CLIENTS as JS, converse, recorder } from './matrix_kit.mjs';

const PYTHON = path.join(process.env.E2E_MODULES ?? 'build/e2e', 'python/bin/python');

/* Their models. Packages go by the name when they decide whether a model thinks. */
const PROVIDERS = {
    'openai-chat': 'gpt-5-by-chat',
    'openai-responses': 'gpt-5-by-responses',
    anthropic: 'gpt-5-by-anthropic',
    gemini: 'gpt-5-by-gemini',
};

const CLIENTS = {
    ...JS,
    'openai Python, chat': { speaks: 'openai-chat' },
    'openai Python, responses': { speaks: 'openai-responses' },
    'anthropic Python': { speaks: 'anthropic' },
};

const PNG =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const CITY = '{"city": "Oslo"}';

/* ---- what a provider was sent, in its own dialect ---- */

const parts = (message) => [message.content ?? message.parts ?? []].flat();
const words = (value) => JSON.stringify(value ?? null);

const SENT = {
    'openai-chat': {
        system: ({ messages }) =>
            words(messages.filter(({ role }) => /system|developer/.test(role))),
        turns: ({ messages }) => messages.filter(({ role }) => !/system|developer/.test(role)),
        role: ({ role }) => (role === 'assistant' ? 'model' : role),
        image: ({ messages }) =>
            messages.flatMap(parts).find(({ type }) => type === 'image_url')?.image_url.url,
        stop: ({ stop }) => [stop].flat(),
        schema: ({ response_format }) => response_format?.json_schema?.schema,
        choice: ({ tool_choice }) => tool_choice?.function?.name ?? tool_choice,
        alone: ({ parallel_tool_calls }) => parallel_tool_calls === false,
        effort: ({ reasoning_effort }) => reasoning_effort,
        usage: ({ usage }) => [
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.completion_tokens_details.reasoning_tokens,
        ],
    },
    'openai-responses': {
        system: ({ instructions, input }) =>
            words([instructions, input.filter(({ role }) => /system|developer/.test(role))]),
        turns: ({ input }) => input.filter(({ role }) => !/system|developer/.test(role)),
        role: ({ role }) => (role === 'assistant' ? 'model' : role),
        image: ({ input }) =>
            input.flatMap(parts).find(({ type }) => type === 'input_image')?.image_url,
        schema: ({ text }) => text?.format?.schema,
        choice: ({ tool_choice }) => tool_choice?.name ?? tool_choice,
        alone: ({ parallel_tool_calls }) => parallel_tool_calls === false,
        effort: ({ reasoning }) => reasoning?.effort,
        usage: ({ usage }) => [
            usage.input_tokens,
            usage.output_tokens,
            usage.output_tokens_details.reasoning_tokens,
        ],
    },
    anthropic: {
        system: ({ system }) => words(system),
        turns: ({ messages }) => messages,
        role: ({ role }) => (role === 'assistant' ? 'model' : role),
        image: ({ messages }) => {
            const found = messages.flatMap(parts).find(({ type }) => type === 'image')?.source;
            return found && `data:${found.media_type};base64,${found.data}`;
        },
        stop: ({ stop_sequences }) => stop_sequences,
        schema: ({ output_config }) => output_config?.format?.schema,
        choice: ({ tool_choice }) =>
            tool_choice?.name ?? { any: 'required', auto: 'auto' }[tool_choice?.type],
        alone: ({ tool_choice }) => tool_choice?.disable_parallel_tool_use === true,
        effort: ({ output_config }) => output_config?.effort,
        usage: ({ usage }) => [
            usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
            usage.output_tokens,
            0,
        ],
    },
    gemini: {
        system: ({ systemInstruction }) => words(systemInstruction),
        turns: ({ contents }) => contents,
        role: ({ role }) => role,
        image: ({ contents }) => {
            const found = contents.flatMap(parts).find((part) => part.inlineData)?.inlineData;
            return found && `data:${found.mimeType};base64,${found.data}`;
        },
        stop: ({ generationConfig }) => generationConfig?.stopSequences,
        schema: ({ generationConfig }) => generationConfig?.responseJsonSchema,
        choice: ({ toolConfig }) => {
            const { mode, allowedFunctionNames } = toolConfig?.functionCallingConfig ?? {};
            return allowedFunctionNames?.[0] ?? { ANY: 'required', AUTO: 'auto' }[mode];
        },
        effort: ({ generationConfig }) =>
            generationConfig?.thinkingConfig?.thinkingLevel?.toLowerCase(),
        usage: ({ usageMetadata: usage }) => [
            usage.promptTokenCount,
            usage.candidatesTokenCount + (usage.thoughtsTokenCount ?? 0),
            usage.thoughtsTokenCount ?? 0,
        ],
    },
};

/* ---- what cannot be ---- */

/* letter -> why, as the documents have it. A `field` is what a request is refused for. */
const REASONS = {
    a: { field: /'?stop(_sequences)?'?/, text: 'the responses API has no stop sequences: 400, naming the field' },
    b: { text: "the client's API has no field for it" },
    c: { field: /parallel_tool_calls|disable_parallel_tool_use/, text: 'Gemini cannot be told to call one tool at a time: 400, naming the field' },
    d: { text: "the client's package does not read `refusal`, whoever sends it" },
    e: { text: "the client's package adds up the numbers of a stream's events, of Anthropic itself, too" },
};

/* ---- features ---- */

const answered = (seen) => assert.ok(seen.text.trim().split(' ').length >= 8, seen.text);
const named = (seen, n) => {
    assert.equal(seen.calls.length, n);
    for (const call of seen.calls) assert.deepEqual(call.args, { city: 'Oslo' });
    assert.equal(new Set(seen.calls.map(({ id }) => id)).size, n, 'ids are told apart');
};
const said = (text) => ({ user: text });
const ASK = { ask: {} };
const STREAM = { ask: { stream: true } };
const TOOLS = ['get_weather', 'get_time'];

/* name -> what the mock does, what is wished for and said, and what must be true of what was seen. `cell`
 * has the dialects of both sides and SENT of the provider; `sent` are the bodies, `replies` what it said. */
const FEATURES = {
    text: {
        script: { tokens: 12 },
        steps: [ASK],
        check: ([seen]) => answered(seen),
    },
    turns: {
        script: { tokens: 12 },
        steps: [{ model: 'the second word' }, said('the third word'), ASK],
        check([seen], { sent, of }) {
            answered(seen);
            const turns = of.turns(sent[0]);
            assert.deepEqual(turns.map(of.role), ['user', 'model', 'user']);
            assert.ok(words(turns[1]).includes('the second word'));
            assert.ok(words(turns[2]).includes('the third word'));
        },
    },
    system: {
        script: { tokens: 12 },
        wish: { system: 'You are terse.' },
        steps: [ASK],
        check([seen], { sent, of }) {
            answered(seen);
            assert.ok(of.system(sent[0]).includes('You are terse.'));
            assert.equal(of.turns(sent[0]).length, 1);
        },
    },
    stream: {
        script: { tokens: 12 },
        steps: [STREAM],
        check([seen]) {
            answered(seen);
            assert.ok(seen.pieces >= 12, `${seen.pieces} pieces`);
        },
    },
    usage: {
        script: { tokens: 12, cached: 4, reasoning: 3 },
        cannot: ({ client, provider }) =>
            client === 'LangChain, anthropic' && provider === 'anthropic' && 'e',
        steps: [ASK, said('and more'), STREAM],
        check([seen, streamed], { replies, of, speaks, provider, client }) {
            const [input, output, reasoning] = of.usage(replies[0]);
            assert.deepEqual(seen.usage.slice(0, 2), [input, output]);
            assert.equal(streamed.usage[1], output);
            if (provider === 'anthropic') return; /* it says nothing of what was thought */
            if (speaks === 'anthropic' && /Vercel|LangChain/.test(client)) return; /* nor do these */
            assert.equal(seen.usage[2], reasoning);
            assert.equal(streamed.usage[2], reasoning);
        },
    },
    'forced tool': {
        script: { arguments: CITY },
        wish: { tools: TOOLS, choice: 'get_time' },
        steps: [ASK],
        check([seen], { sent, of }) {
            named(seen, 1);
            assert.equal(seen.calls[0].name, 'get_time');
            assert.equal(of.choice(sent[0]), 'get_time');
        },
    },
    'parallel tools': {
        script: { tool_call: 2, arguments: CITY },
        wish: { tools: TOOLS, choice: 'required' },
        steps: [ASK],
        check([seen], { sent, of, client }) {
            named(seen, 2);
            assert.deepEqual(seen.calls.map(({ name }) => name), TOOLS);
            /* One client calls what is required, but does not say so. */
            if (client !== 'LangChain, responses') assert.equal(of.choice(sent[0]), 'required');
        },
    },
    'one at a time': {
        script: { tool_call: 2, arguments: CITY },
        wish: { tools: TOOLS, parallel: false },
        cannot: ({ provider, speaks }) => provider === 'gemini' && speaks !== 'gemini' && 'c',
        steps: [ASK],
        check([seen], { sent, of }) {
            named(seen, 1);
            assert.ok(of.alone(sent[0]));
        },
    },
    'streamed tools': {
        script: { tool_call: 2, arguments: CITY },
        wish: { tools: TOOLS },
        steps: [STREAM],
        check([seen]) {
            named(seen, 2);
            assert.ok(seen.pieces >= 2, `${seen.pieces} pieces`);
        },
    },
    'tool results': {
        script: [
            { when: { stream: false }, do: { tool_call: 2, arguments: CITY } },
            { when: { stream: true }, do: { tokens: 12 } },
        ],
        wish: { tools: TOOLS },
        steps: [ASK, { results: 'it is sunny' }, STREAM],
        check([seen, streamed], { sent }) {
            named(seen, 2);
            answered(streamed);
            assert.equal(words(sent[1]).split('it is sunny').length, 3);
        },
    },
    image: {
        script: { tokens: 12 },
        image: `data:image/png;base64,${PNG}`,
        steps: [ASK],
        check([seen], { sent, of }) {
            answered(seen);
            assert.equal(of.image(sent[0]), `data:image/png;base64,${PNG}`);
        },
    },
    'JSON schema': {
        script: { text: CITY },
        wish: { schema: true },
        steps: [ASK],
        check([seen], { sent, of }) {
            assert.deepEqual(seen.parsed, { city: 'Oslo' });
            assert.equal(of.schema(sent[0]).properties.city.type, 'string');
        },
    },
    stop: {
        script: { text: 'one two three four five six seven eight STOP nine' },
        wish: { stop: ['STOP'] },
        cannot: ({ provider, speaks }) =>
            speaks === 'openai-responses' ? 'b' : provider === 'openai-responses' && 'a',
        steps: [ASK],
        check([seen], { sent, of }) {
            assert.equal(seen.text.trim(), 'one two three four five six seven eight');
            assert.deepEqual(of.stop(sent[0]), ['STOP']);
        },
    },
    reasoning: {
        script: [
            { when: { stream: false }, do: { reasoning: 6, thinking: true, tool_call: 1, arguments: CITY } },
            { when: { stream: true }, do: { reasoning: 6, thinking: true, tokens: 20 } },
        ],
        wish: { tools: ['get_weather'], effort: 'low' },
        steps: [ASK, { results: 'it is sunny' }, STREAM],
        check([seen, streamed], { sent, of, client }) {
            named(seen, 1);
            answered(streamed);
            assert.equal(of.effort(sent[0]), 'low');
            if (!/LangChain, chat/.test(client)) assert.ok(seen.thought.length > 0, 'nothing was thought');
        },
    },
    refusal: {
        script: { refuse: true, text: 'I will not do that.' },
        cannot: ({ client, provider }) =>
            ['Vercel ai, chat', 'LangChain, chat'].includes(client) && provider !== 'gemini' && 'd',
        steps: [ASK, said('and now?'), STREAM],
        check(all) {
            for (const seen of all) assert.ok(seen.refused, seen.stop);
        },
    },
    errors: {
        script: [
            { when: { stream: false }, do: { status: 400, message: 'in so many words' } },
            { when: { stream: true }, do: { status: 404, message: 'not to be found' } },
        ],
        steps: [ASK],
        fails: { status: 400, message: /in so many words/ },
        then: { steps: [STREAM], fails: { status: 404, message: /not to be found/ } },
    },
    'broken stream': {
        script: { tokens: 40, fault: 'close', at: 'event 12' },
        steps: [STREAM],
        fails: {},
    },
    'client leaves': {
        script: { tokens: 240, pace: 100 },
        steps: [{ ask: { stream: true, leave: true } }],
        leaves: true,
    },
};

/* ---- between gateway and mock ---- */

/* What was sent with the tag in it, in order. */
function recorded(kept, tag) {
    const found = kept.requests
        .map((one) => ({ ...one, text: Buffer.concat(one.parts).toString() }))
        .filter((one) => one.text.includes(tag));
    return {
        sent: found.map((one) => JSON.parse(one.text)),
        replies: found.map((one) => {
            const text = Buffer.concat(one.reply).toString();
            return text.startsWith('{') ? JSON.parse(text) : undefined;
        }),
    };
}

/* ---- Python ---- */

function python(t) {
    const child = spawn(PYTHON, [path.join(import.meta.dirname, 'matrix_kit.py')], {
        stdio: ['pipe', 'pipe', 'inherit'],
        env: { PATH: process.env.PATH },
    });
    const waiting = new Map();
    let id = 0;
    child.on('error', (error) => waiting.forEach(({ fail }) => fail(error)));
    child.on('exit', () => waiting.forEach(({ fail }) => fail(new Error('Python has ended'))));
    readline.createInterface({ input: child.stdout }).on('line', (line) => {
        const reply = JSON.parse(line);
        waiting.get(reply.id).done(reply);
        waiting.delete(reply.id);
    });
    t.after(() => child.stdin.end());
    return (question) =>
        new Promise((done, fail) => {
            waiting.set(++id, { done, fail });
            child.stdin.write(`${JSON.stringify({ id, ...question })}\n`);
        });
}

/* ---- cells ---- */

async function talk(client, gateway, ask, model, what) {
    if (JS[client]) return converse(JS[client], gateway, KEY, model, what);
    const { seen, error } = await ask({ client, url: gateway.url, key: KEY, model, ...what });
    if (error) throw Object.assign(new Error(error.message), error);
    return seen;
}

const statusOf = (error) =>
    error.status ?? error.statusCode ?? error.response?.status ?? error.cause?.status;

/* What must fail: the error of the package, with status and message of the provider. */
async function expectFailure(promise, { status, message }) {
    const error = await promise.then(
        (seen) => assert.fail(`it did not fail: ${JSON.stringify(seen)}`),
        (e) => e,
    );
    if (error.code === 'ERR_ASSERTION') throw error;
    if (status) assert.equal(statusOf(error), status, `${error.name}: ${error.message}`);
    if (message) assert.match(error.message, message);
}

async function runCell(cell, feature, { gateway, kept, ask }) {
    const tag = `cell ${cell.client} / ${cell.provider} / ${cell.name} /`;
    const begin = { user: tag, image: feature.image };
    const go = (steps) =>
        talk(cell.client, gateway, ask, PROVIDERS[cell.provider], {
            wish: feature.wish ?? {},
            steps: [begin, ...steps],
        });
    const why = feature.cannot?.(cell);
    if (why && !REASONS[why].field) return why;
    if (why) {
        await expectFailure(go(feature.steps), { status: 400, message: REASONS[why].field });
        assert.equal(recorded(kept, tag).sent.length, 0, 'the provider was asked');
        return why;
    }
    if (feature.fails) {
        await expectFailure(go(feature.steps), feature.fails);
        if (feature.then) await expectFailure(go(feature.then.steps), feature.then.fails);
        return '+';
    }
    const seen = await go(feature.steps);
    if (!feature.leaves)
        feature.check(seen, { ...cell, ...recorded(kept, tag), of: SENT[cell.provider] });
    return '+';
}

const scriptOf = ({ script }) =>
    Array.isArray(script)
        ? { default: { strict: true }, rules: script.map((rule) => ({ ...rule })) }
        : { default: { strict: true, ...script } };

/* ---- the table ---- */

function tableOf(results) {
    const names = Object.keys(FEATURES);
    const lines = [
        `| client | provider | ${names.join(' | ')} |`,
        `|---|---|${names.map(() => '---').join('|')}|`,
    ];
    for (const client of Object.keys(CLIENTS))
        for (const provider of Object.keys(PROVIDERS)) {
            const cells = names.map((name) => results.get(`${client}/${provider}/${name}`) ?? '?');
            lines.push(`| ${client} | \`${provider}\` | ${cells.join(' | ')} |`);
        }
    lines.push('');
    const used = new Set([...results.values()]);
    for (const [letter, { text }] of Object.entries(REASONS))
        if (used.has(letter)) lines.push(`- **${letter}**: ${text}`);
    return lines.join('\n');
}

const documented = () =>
    /<!-- matrix: [^>]*-->\n([^]*?)\n<!-- end of matrix -->/.exec(
        fs.readFileSync('docs/dialects.md', 'utf8'),
    )?.[1];

test('every client before every provider', async (t) => {
    const kept = await recorder(t);
    const ask = python(t);
    const route = (provider) => ({
        provider,
        price: PRICE,
        max_output_tokens: 4096,
        context: 100000,
        retries: 0,
        breaker: { failures: 1000, open: '1s' },
    });
    const { gateway, mock } = await world(t, {
        providers: ({ url }) => {
            kept.to = url;
            return Object.fromEntries(
                Object.keys(PROVIDERS).map((api) => [
                    api,
                    { base_url: kept.url, api, keys: [{ name: 'k', secret: `sk-of-${api}` }] },
                ]),
            );
        },
        models: () =>
            Object.fromEntries(
                Object.entries(PROVIDERS).map(([provider, model]) => [model, route(provider)]),
            ),
    });
    const results = new Map();
    const only = process.env.MATRIX_ONLY && new RegExp(process.env.MATRIX_ONLY);

    for (const [name, feature] of Object.entries(FEATURES))
        await t.test(name, async () => {
            await mock.script(scriptOf(feature));
            const failures = [];
            const cells = Object.entries(CLIENTS).flatMap(([client, { speaks }]) =>
                Object.keys(PROVIDERS).map((provider) => ({ client, speaks, provider, name })),
            );
            const before = (await mock.seen()).begun;
            await Promise.all(
                cells.map(async (cell) => {
                    const id = `${cell.client}/${cell.provider}/${name}`;
                    if (only && !only.test(id)) return;
                    try {
                        results.set(id, await runCell(cell, feature, { gateway, kept, ask }));
                    } catch (error) {
                        results.set(id, '-');
                        failures.push(`${id}: ${error.stack ?? error} ${error.cause?.message ?? ''}`);
                    }
                }),
            );
            if (feature.leaves) {
                const seen = await mock.requests(before + 1);
                const own = seen.filter((one) => one.id > before);
                for (const one of own) assert.equal(one.ended, 'aborted', JSON.stringify(one));
            }
            assert.equal(failures.length, 0, `${failures.length} cells failed:\n\n${failures.join('\n\n')}`);
        });

    await t.test('the types of the official packages know all that providers were sent', async () => {
        const bodies = kept.requests.flatMap((one) => {
            const text = Buffer.concat(one.parts).toString();
            const [, client, dialect] = /cell ([^/]+) \/ (\S+) \//.exec(text) ?? [];
            const own = !client || CLIENTS[client].speaks === dialect; /* was not translated */
            return own ? [] : [{ dialect, body: JSON.parse(text) }];
        });
        assert.ok(bodies.length > (only ? 0 : 500), `${bodies.length} translated requests`);
        const { problems, error } = await ask({ check: bodies });
        assert.equal(error, undefined, error?.message);
        assert.deepEqual(problems, []);
    });

    await t.test('nothing is held, and the ledger has what memory has', async () => {
        await until('calls end', async () => (await gateway.metrics()).open_calls === 0);
        await gateway.spent();
    });

    const table = tableOf(results);
    console.log(table);
    if (process.env.MATRIX_WRITE) {
        const text = fs.readFileSync('docs/dialects.md', 'utf8');
        fs.writeFileSync('docs/dialects.md', text.replace(`\n${documented()}\n<`, () => `\n${table}\n<`));
    }
    await t.test('docs/dialects.md has the table', () => assert.equal(documented(), table));
});
