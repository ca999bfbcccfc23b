/* matrix_kit.mjs - official clients, each told to hold the same conversation.
 *
 *   const talk = CLIENTS['openai JS, chat'].open(gateway, model, wish);
 *   talk.user('hello', image); talk.model('hi'); const seen = await talk.ask({ stream: true });
 *   talk.results('sunny');                        an answer for each call of the reply before
 *   await talk.ask({ asked: 'another-model' });   of the packages of OpenAI and Anthropic
 *
 * A wish says what is wanted: system, tools, choice, parallel, schema, stop, effort. Each client sends
 * its own history back: what it got of a reply, in its own types. What it saw of a reply is told in
 * one form: {text, parsed, refused, stop, usage: [input, output, reasoning], calls, thought, pieces}.
 * matrix_kit.py does the same in Python.
 */
import http from 'node:http';
import { need } from './kit.mjs';

const OpenAI = need('openai').default;
const { zodResponseFormat, zodTextFormat } = need('openai/helpers/zod');
const Anthropic = need('@anthropic-ai/sdk').default;
const { zodOutputFormat } = need('@anthropic-ai/sdk/helpers/zod');
const ai = need('ai');
const { createOpenAICompatible } = need('@ai-sdk/openai-compatible');
const { createOpenAI } = need('@ai-sdk/openai');
const { createAnthropic } = need('@ai-sdk/anthropic');
const { ChatOpenAI } = need('@langchain/openai');
const { ChatAnthropic } = need('@langchain/anthropic');
const { AIMessage, HumanMessage, SystemMessage, ToolMessage } = need('@langchain/core/messages');
const { z } = need('zod');

const MOST = 256;

/* What the tools of all conversations take, and the form of an answer that is to be JSON. */
const PARAMETERS = {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
};
const ANSWER = z.object({ city: z.string() });

const given = (object) =>
    Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));

/* ---- openai ---- */

const openai = (gateway, key) =>
    new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });

function openaiChat(gateway, key, model, wish) {
    const client = openai(gateway, key);
    const messages = wish.system ? [{ role: 'system', content: wish.system }] : [];
    const choices = { required: 'required', auto: 'auto' };
    const body = (choice = wish.choice, asked = model) =>
        given({
            model: asked,
            messages,
            max_completion_tokens: MOST,
            tools: wish.tools?.map((name) => ({
                type: 'function',
                function: { name, parameters: PARAMETERS },
            })),
            tool_choice:
                choice && (choices[choice] ?? { type: 'function', function: { name: choice } }),
            parallel_tool_calls: wish.parallel,
            stop: wish.stop,
            reasoning_effort: wish.effort,
            response_format: wish.schema && zodResponseFormat(ANSWER, 'answer'),
        });
    const saw = ({ choices: [{ message, finish_reason }], usage }, pieces) => {
        messages.push(message);
        return {
            text: message.content ?? '',
            parsed: message.parsed ?? undefined,
            refused: !!message.refusal || finish_reason === 'content_filter',
            stop: finish_reason,
            usage: [
                usage.prompt_tokens,
                usage.completion_tokens,
                usage.completion_tokens_details?.reasoning_tokens ?? 0,
            ],
            calls: (message.tool_calls ?? []).map((call) => ({
                id: call.id,
                name: call.function.name,
                args: JSON.parse(call.function.arguments),
            })),
            thought: message.reasoning_content ?? '',
            pieces,
        };
    };
    return {
        user(text, image) {
            const content = image
                ? [
                      { type: 'text', text },
                      { type: 'image_url', image_url: { url: image } },
                  ]
                : text;
            messages.push({ role: 'user', content });
        },
        model: (text) => messages.push({ role: 'assistant', content: text }),
        results(text) {
            for (const call of messages.at(-1).tool_calls)
                messages.push({ role: 'tool', tool_call_id: call.id, content: text });
        },
        async ask({ stream, leave, choice, asked } = {}) {
            if (!stream && wish.schema) return saw(await client.chat.completions.parse(body()));
            if (!stream) return saw(await client.chat.completions.create(body(choice, asked)));
            const runner = client.chat.completions.stream({
                ...body(choice, asked),
                stream_options: { include_usage: true },
            });
            let pieces = 0;
            for await (const chunk of runner) {
                const delta = chunk.choices[0]?.delta;
                pieces += !!delta?.content || !!delta?.tool_calls?.[0]?.function?.arguments;
                if (leave && pieces) return runner.abort();
            }
            return saw(await runner.finalChatCompletion(), pieces);
        },
    };
}

function openaiResponses(gateway, key, model, wish) {
    const client = openai(gateway, key);
    const input = [];
    const choices = { required: 'required', auto: 'auto' };
    const body = (choice = wish.choice, asked = model) =>
        given({
            model: asked,
            input,
            instructions: wish.system,
            max_output_tokens: MOST,
            store: false,
            include: wish.effort && ['reasoning.encrypted_content'],
            reasoning: wish.effort && { effort: wish.effort, summary: 'auto' },
            tools: wish.tools?.map((name) => ({
                type: 'function',
                name,
                parameters: PARAMETERS,
                strict: false,
            })),
            tool_choice: choice && (choices[choice] ?? { type: 'function', name: choice }),
            parallel_tool_calls: wish.parallel,
            text: wish.schema && { format: zodTextFormat(ANSWER, 'answer') },
        });
    const saw = ({ output, status, usage, incomplete_details, error, ...reply }, pieces) => {
        if (error) throw Object.assign(new Error(error.message), { status: 0 });
        if (status === 'in_progress') throw new Error('the response has no end');
        /* What an SDK adds to the items is not of the API. */
        input.push(...output.map(({ parsed_arguments, ...item }) => item));
        const parts = output.filter((item) => item.type === 'message').flatMap((m) => m.content);
        return {
            text: parts.map((part) => part.text ?? '').join(''),
            parsed: reply.output_parsed ?? undefined,
            refused:
                parts.some((part) => part.type === 'refusal') ||
                incomplete_details?.reason === 'content_filter',
            stop: status,
            usage: [
                usage.input_tokens,
                usage.output_tokens,
                usage.output_tokens_details.reasoning_tokens,
            ],
            calls: output
                .filter((item) => item.type === 'function_call')
                .map((call) => ({
                    id: call.call_id,
                    name: call.name,
                    args: JSON.parse(call.arguments),
                })),
            thought: output
                .filter((item) => item.type === 'reasoning')
                .flatMap((item) => [...item.summary, ...(item.content ?? [])])
                .map((part) => part.text)
                .join(''),
            pieces,
        };
    };
    return {
        user(text, image) {
            const content = image
                ? [
                      { type: 'input_text', text },
                      { type: 'input_image', image_url: image, detail: 'auto' },
                  ]
                : text;
            input.push({ role: 'user', content });
        },
        model: (text) => input.push({ role: 'assistant', content: text }),
        results(text) {
            for (const call of input.filter((item) => item.type === 'function_call'))
                if (!input.some((i) => i.type === 'function_call_output' && i.call_id === call.call_id))
                    input.push({
                        type: 'function_call_output',
                        call_id: call.call_id,
                        output: text,
                    });
        },
        async ask({ stream, leave, choice, asked } = {}) {
            if (!stream && wish.schema) return saw(await client.responses.parse(body()));
            if (!stream) return saw(await client.responses.create(body(choice, asked)));
            const runner = client.responses.stream(body(choice, asked));
            let pieces = 0;
            for await (const event of runner) {
                pieces += /(output_text|function_call_arguments)\.delta$/.test(event.type);
                if (leave && pieces) return runner.abort();
            }
            return saw(await runner.finalResponse(), pieces);
        },
    };
}

/* ---- anthropic ---- */

const png = (image) => ({
    type: 'base64',
    media_type: 'image/png',
    data: image.slice(image.indexOf(',') + 1),
});

function anthropicMessages(gateway, key, model, wish) {
    const client = new Anthropic({
        apiKey: key,
        authToken: null,
        baseURL: gateway.url,
        maxRetries: 0,
    });
    const messages = [];
    const choose = (choice) => {
        const one = { required: { type: 'any' }, auto: { type: 'auto' } };
        const parallel = wish.parallel === false ? { disable_parallel_tool_use: true } : {};
        return choice && { ...(one[choice] ?? { type: 'tool', name: choice }), ...parallel };
    };
    const body = (
        choice = wish.choice ?? (wish.parallel === false ? 'auto' : undefined),
        asked = model,
    ) =>
        given({
            model: asked,
            messages,
            system: wish.system,
            max_tokens: MOST,
            tools: wish.tools?.map((name) => ({ name, input_schema: PARAMETERS })),
            tool_choice: choose(choice),
            stop_sequences: wish.stop,
            thinking: wish.effort && { type: 'adaptive', display: 'summarized' },
            output_config: wish.schema
                ? { format: zodOutputFormat(ANSWER) }
                : wish.effort && { effort: wish.effort },
        });
    const saw = ({ content, stop_reason, usage, parsed_output }, pieces) => {
        messages.push({ role: 'assistant', content });
        const of = (type) => content.filter((block) => block.type === type);
        return {
            text: of('text').map((block) => block.text).join(''),
            parsed: parsed_output ?? undefined,
            refused: stop_reason === 'refusal',
            stop: stop_reason,
            usage: [
                usage.input_tokens +
                    (usage.cache_read_input_tokens ?? 0) +
                    (usage.cache_creation_input_tokens ?? 0),
                usage.output_tokens,
                usage.output_tokens_details?.thinking_tokens ?? 0,
            ],
            calls: of('tool_use').map(({ id, name, input }) => ({ id, name, args: input })),
            thought: of('thinking').map((block) => block.thinking).join(''),
            pieces,
        };
    };
    return {
        user(text, image) {
            const content = image
                ? [
                      { type: 'text', text },
                      { type: 'image', source: png(image) },
                  ]
                : text;
            messages.push({ role: 'user', content });
        },
        model: (text) => messages.push({ role: 'assistant', content: text }),
        results(text) {
            const calls = messages.at(-1).content.filter((block) => block.type === 'tool_use');
            const content = calls.map(({ id }) => ({
                type: 'tool_result',
                tool_use_id: id,
                content: text,
            }));
            messages.push({ role: 'user', content });
        },
        async ask({ stream, leave, choice, asked } = {}) {
            if (!stream && wish.schema) return saw(await client.messages.parse(body()));
            if (!stream) return saw(await client.messages.create(body(choice, asked)));
            const runner = client.messages.stream(body(choice, asked));
            let pieces = 0;
            for await (const event of runner) {
                pieces += ['text_delta', 'input_json_delta'].includes(event.delta?.type);
                if (leave && pieces) return runner.abort();
            }
            return saw(await runner.finalMessage(), pieces);
        },
    };
}

/* ---- Vercel ---- */

const vercel = (make, options) => (gateway, key, model, wish) => {
    const messages = [];
    const tools = wish.tools && Object.fromEntries(
        wish.tools.map((name) => [name, ai.tool({ inputSchema: ai.jsonSchema(PARAMETERS) })]),
    );
    const choose = (choice) =>
        choice && (['required', 'auto'].includes(choice) ? choice : { type: 'tool', toolName: choice });
    const body = (choice = wish.choice) =>
        given({
            model: make(gateway, key, model),
            messages,
            system: wish.system,
            maxOutputTokens: MOST,
            maxRetries: 0,
            tools,
            toolChoice: choose(choice),
            stopSequences: wish.stop,
            providerOptions: options(wish),
            output: wish.schema && ai.Output.object({ schema: ANSWER }),
        });
    const saw = async (result, pieces) => {
        const [text, calls, usage, response, stop, thought] = await Promise.all([
            result.text,
            result.toolCalls,
            result.usage,
            result.response,
            result.finishReason,
            result.reasoningText,
        ]);
        messages.push(...response.messages);
        return {
            text,
            parsed: wish.schema ? await result.output : undefined,
            refused: stop === 'content-filter' || stop === 'refusal',
            stop,
            usage: [usage.inputTokens, usage.outputTokens, usage.reasoningTokens ?? 0],
            calls: calls.map(({ toolCallId, toolName, input }) => ({
                id: toolCallId,
                name: toolName,
                args: input,
            })),
            thought: thought ?? '',
            pieces,
        };
    };
    return {
        user(text, image) {
            const content = [{ type: 'text', text }];
            if (image) content.push({ type: 'image', image });
            messages.push({ role: 'user', content });
        },
        model: (text) => messages.push({ role: 'assistant', content: text }),
        results(text) {
            const calls = messages.at(-1).content.filter((part) => part.type === 'tool-call');
            messages.push({
                role: 'tool',
                content: calls.map(({ toolCallId, toolName }) => ({
                    type: 'tool-result',
                    toolCallId,
                    toolName,
                    output: { type: 'text', value: text },
                })),
            });
        },
        async ask({ stream, leave, choice } = {}) {
            if (!stream) return saw(await ai.generateText(body(choice)));
            const leaving = new AbortController();
            const result = ai.streamText({
                ...body(choice),
                abortSignal: leaving.signal,
                onError: () => 0,
            });
            let pieces = 0;
            for await (const part of result.fullStream) {
                if (part.type === 'error') throw part.error;
                pieces += ['text-delta', 'tool-input-delta'].includes(part.type);
                if (leave && pieces) return leaving.abort();
            }
            return saw(result, pieces);
        },
    };
};

/* ---- LangChain ---- */

const langchain = (make, choiceOf) => (gateway, key, model, wish) => {
    const client = make(gateway, key, model, wish);
    const messages = wish.system ? [new SystemMessage(wish.system)] : [];
    const tools = wish.tools?.map((name) => ({
        type: 'function',
        function: { name, description: name, parameters: PARAMETERS },
    }));
    const bound = (choice = wish.choice) =>
        tools
            ? client.bindTools(tools, given({ tool_choice: choiceOf(choice, wish), ...parallelOf(wish) }))
            : client;
    const parallelOf = ({ parallel }) =>
        parallel === undefined || choiceOf.anthropic ? {} : { parallel_tool_calls: parallel };
    const saw = (message, pieces) => {
        messages.push(message);
        const about = message.response_metadata;
        const usage = message.usage_metadata;
        const blocks = message.contentBlocks ?? [];
        const stop =
            about.stop_reason ??
            about.finish_reason ??
            message.additional_kwargs.stop_reason ??
            about.incomplete_details?.reason ??
            about.status;
        return {
            text: message.text,
            refused:
                ['refusal', 'content_filter'].includes(stop) || !!message.additional_kwargs.refusal,
            stop,
            usage: [
                usage.input_tokens,
                usage.output_tokens,
                usage.output_token_details?.reasoning ?? 0,
            ],
            calls: message.tool_calls.map(({ id, name, args }) => ({ id, name, args })),
            thought:
                blocks
                    .filter((block) => block.type === 'reasoning')
                    .map((block) => block.reasoning)
                    .join('') || (message.additional_kwargs.reasoning_content ?? ''),
            pieces,
        };
    };
    return {
        user(text, image) {
            const content = image
                ? [
                      { type: 'text', text },
                      { type: 'image_url', image_url: { url: image } },
                  ]
                : text;
            messages.push(new HumanMessage({ content }));
        },
        model: (text) => messages.push(new AIMessage(text)),
        results(text) {
            for (const call of messages.at(-1).tool_calls)
                messages.push(new ToolMessage({ content: text, tool_call_id: call.id, name: call.name }));
        },
        async ask({ stream, leave, choice } = {}) {
            if (wish.schema) {
                const structured = client.withStructuredOutput(ANSWER, {
                    name: 'answer',
                    method: 'jsonSchema',
                    includeRaw: true,
                });
                const { raw, parsed } = await structured.invoke(messages);
                return { ...saw(raw), parsed };
            }
            const options = wish.stop ? { stop: wish.stop } : {};
            if (!stream) return saw(await bound(choice).invoke(messages, options));
            const leaving = new AbortController();
            let whole;
            let pieces = 0;
            for await (const chunk of await bound(choice).stream(messages, {
                ...options,
                signal: leaving.signal,
            })) {
                whole = whole ? whole.concat(chunk) : chunk;
                pieces += !!chunk.text || !!chunk.tool_call_chunks?.some((one) => one.args);
                if (leave && pieces) return leaving.abort();
            }
            return saw(whole, pieces);
        },
    };
};

const langchainOpenAI = (useResponsesApi) => (gateway, key, model, wish) =>
    new ChatOpenAI(
        given({
            model,
            apiKey: key,
            configuration: { baseURL: `${gateway.url}/v1` },
            maxRetries: 0,
            maxTokens: MOST,
            useResponsesApi,
            zdrEnabled: useResponsesApi || undefined,
            reasoning: wish.effort && given({
                effort: wish.effort,
                summary: useResponsesApi ? 'auto' : undefined,
            }),
        }),
    );

const langchainAnthropic = (gateway, key, model, wish) =>
    new ChatAnthropic(
        given({
            model,
            apiKey: key,
            anthropicApiUrl: gateway.url,
            maxRetries: 0,
            maxTokens: MOST,
            thinking: wish.effort && { type: 'adaptive', display: 'summarized' },
            outputConfig: wish.effort && { effort: wish.effort },
        }),
    );

const openaiChoice = (choice) => choice;
const anthropicChoice = (choice, { parallel }) => {
    const one = { required: { type: 'any' }, auto: { type: 'auto' } };
    const said = choice ?? (parallel === false ? 'auto' : undefined);
    const alone = parallel === false ? { disable_parallel_tool_use: true } : {};
    return said && { ...(one[said] ?? { type: 'tool', name: said }), ...alone };
};
anthropicChoice.anthropic = true;

/* name -> the dialect that the client speaks, and how it opens a conversation. */
export const CLIENTS = {
    'openai JS, chat': { speaks: 'openai-chat', open: openaiChat },
    'openai JS, responses': { speaks: 'openai-responses', open: openaiResponses },
    'anthropic JS': { speaks: 'anthropic', open: anthropicMessages },
    'Vercel ai, chat': {
        speaks: 'openai-chat',
        open: vercel(
            (gateway, key, model) =>
                createOpenAICompatible({
                    name: 'gate',
                    baseURL: `${gateway.url}/v1`,
                    apiKey: key,
                    includeUsage: true,
                    supportsStructuredOutputs: true,
                }).chatModel(model),
            ({ parallel, effort }) => ({
                gate: given({ parallel_tool_calls: parallel, reasoningEffort: effort }),
            }),
        ),
    },
    'Vercel ai, responses': {
        speaks: 'openai-responses',
        open: vercel(
            (gateway, key, model) =>
                createOpenAI({ baseURL: `${gateway.url}/v1`, apiKey: key }).responses(model),
            ({ parallel, effort }) => ({
                openai: given({
                    store: false,
                    parallelToolCalls: parallel,
                    reasoningEffort: effort,
                    reasoningSummary: effort && 'auto',
                    forceReasoning: effort && true,
                    include: effort && ['reasoning.encrypted_content'],
                }),
            }),
        ),
    },
    'Vercel ai, anthropic': {
        speaks: 'anthropic',
        open: vercel(
            (gateway, key, model) =>
                createAnthropic({ baseURL: `${gateway.url}/v1`, apiKey: key })(model),
            ({ parallel, effort }) => ({
                anthropic: given({
                    disableParallelToolUse: parallel === false ? true : undefined,
                    thinking: effort && { type: 'adaptive', display: 'summarized' },
                    effort,
                    structuredOutputMode: 'outputFormat',
                }),
            }),
        ),
    },
    'LangChain, chat': { speaks: 'openai-chat', open: langchain(langchainOpenAI(), openaiChoice) },
    'LangChain, responses': {
        speaks: 'openai-responses',
        open: langchain(langchainOpenAI(true), openaiChoice),
    },
    'LangChain, anthropic': {
        speaks: 'anthropic',
        open: langchain(langchainAnthropic, anthropicChoice),
    },
};

/* Holds a conversation: its steps one after the other, and what was seen of each reply. */
export async function converse(client, gateway, key, model, { wish, steps }) {
    const talk = client.open(gateway, key, model, wish);
    const seen = [];
    for (const step of steps) {
        if (step.user) talk.user(step.user, step.image);
        if (step.model) talk.model(step.model);
        if (step.results) talk.results(step.results);
        if (step.ask) seen.push(await talk.ask(step.ask));
    }
    return seen;
}

/* ---- between gateway and mock ---- */

/* Passes all on as it is, and keeps bodies of requests and of whole replies. */
export async function recorder(t) {
    const kept = { requests: [], to: undefined };
    const server = http.createServer((request, reply) => {
        const up = http.request(
            `${kept.to}${request.url}`,
            { method: request.method, headers: request.headers, agent: kept.agent },
            (answer) => {
                reply.writeHead(answer.statusCode, answer.headers);
                answer.on('data', (bytes) => one.reply.push(bytes));
                answer.on('error', () => reply.destroy());
                answer.on('aborted', () => reply.destroy());
                answer.pipe(reply);
            },
        );
        const one = { url: request.url, parts: [], reply: [] };
        kept.requests.push(one);
        up.on('error', () => reply.destroy());
        reply.on('close', () => reply.writableFinished || up.destroy());
        request.on('data', (bytes) => one.parts.push(bytes));
        request.pipe(up);
    });
    kept.agent = new http.Agent({ keepAlive: true });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    t.after(() => {
        kept.agent.destroy();
        server.close();
        server.closeAllConnections();
    });
    kept.url = `http://127.0.0.1:${server.address().port}`;
    return kept;
}
