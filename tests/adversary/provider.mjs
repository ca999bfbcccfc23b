/* provider.mjs - a provider that bills by the published rules, and knows at any moment what it has billed.
 *
 *     node tests/adversary/provider.mjs          prints "listening on 127.0.0.1:PORT"
 *
 * It speaks the APIs of OpenAI (chat, completions, responses, embeddings), Anthropic (messages) and
 * Google (generateContent).
 * A call is billed to the tenant in `x-adv-call: TENANT`, and found again by its `traceparent`; what
 * this run wants of it, within the rules, is in `x-adv-plan` (JSON):
 *
 *     out      the share of what it may write that it writes; default 1
 *     hidden   the share of that which is reasoning, written before the rest and never shown
 *     tps      tokens a second for each choice, at most the model's; default the model's
 *     cached   the share of its input that is read from a cache
 *     plain    text has a token in four bytes instead of the most it can have
 *     far      tokens of what the request refers to; default: as many as fit
 *     image    [width, height] of images by address
 *     fail     "500", "429": at once and free; "once": 503 for its first attempt; "filter": at its
 *              end, billed; "reset": it closes the connection in its midst, billed so far, whether
 *              it has begun to answer or not; "504", "408": the same with that status, if it has
 *              not; with " once" after it: the first attempt alone
 *     latency  ms before it begins to write
 *     no_usage the reply says nothing of what was used
 *
 * Input is billed when a call begins, output as it is written. When the client leaves, a model that
 * stops is billed to there, one that runs goes on to its end. Time passes in ticks that are never
 * longer than TICK_MOST_MS: a process that is not scheduled for a while writes less, never faster
 * than its models may.
 *
 *     POST /adv/reset    {budgets: {TENANT: micro-dollars}}: forgets all
 *     GET  /adv/bill     {tenants, calls, over: calls that brought a bill above its budget, live}
 */
import http from 'node:http';
import { ATTO, billOf, inputOf, microOf, MODELS } from './billing.mjs';
import { read, Refused } from './count.mjs';

const TICK_MS = 10;
const TICK_MOST_MS = 50;
const WORD = 'tok ';

/* OpenAI's words for a call of more tokens than the account has for a minute. */
const TOO_LARGE =
    'Request too large for gpt-4.1 in organization org-1 on tokens per min (TPM): Limit 30000, ' +
    'Requested 36278. The input or output tokens must be reduced in order to run successfully.';

let tenants, budgets, ended, over, state, number, tried;

function reset(limits = {}) {
    tenants = new Map();
    budgets = new Map(Object.entries(limits).map(([name, usd]) => [name, BigInt(usd) * ATTO]));
    ended = [];
    over = [];
    state = new Map();
    tried = new Set(); /* traces of calls that have failed once */
    number = 0;
}
reset();
const live = new Set();

/* ---- the bill ---- */

function charge(call, atto) {
    const sum = (tenants.get(call.tenant) ?? 0n) + atto;
    const budget = budgets.get(call.tenant);
    tenants.set(call.tenant, sum);
    call.billed += atto;
    if (budget !== undefined && sum > budget && sum - atto <= budget)
        over.push({ tenant: call.tenant, trace: call.trace, path: call.path, body: call.body });
}

/* Brings the bill of a call to what it has used so far. */
function bill(call) {
    const kind = call.asked.sounds ? 'audio_output' : 'output';
    const now = billOf(call.asked.model, { ...call.asked.usage, [kind]: call.written });
    charge(call, now - call.billed);
}

function end(call, how) {
    if (!live.delete(call)) return;
    bill(call);
    const { usage } = call.asked;
    state.set(call.id, Math.min(call.asked.model.context, inputOf(usage) + call.written));
    ended.push({
        trace: call.trace,
        tenant: call.tenant,
        model: call.asked.name,
        path: call.path,
        how,
        micro: microOf(call.billed),
        usage,
        output: call.written,
        ms: Math.round(performance.now() - call.began),
    });
}

/* ---- replies ---- */

function usageOf(call) {
    const { usage, model, served, sounds } = call.asked;
    const all = inputOf(usage);
    const writes = usage.write + usage.write_long || 0;
    if (model.api === 'anthropic')
        return {
            input_tokens: usage.input,
            cache_creation_input_tokens: writes,
            cache_creation: {
                ephemeral_5m_input_tokens: usage.write,
                ephemeral_1h_input_tokens: usage.write_long,
            },
            cache_read_input_tokens: usage.cached,
            output_tokens: call.written,
            service_tier: served,
            ...(model.speed && { speed: call.body.speed ?? 'standard' }),
            ...(model.geo && { inference_geo: call.body.inference_geo ?? 'global' }),
            ...(usage.uses && { server_tool_use: { web_search_requests: usage.uses } }),
        };
    const details = {
        cached_tokens: usage.cached ?? 0,
        audio_tokens: usage.audio ?? 0,
        ...(writes && {
            cache_write_tokens: writes,
            cache_write_tokens_details: {
                ttl_30m_tokens: usage.write,
                ttl_12h_tokens: usage.write_long,
            },
        }),
    };
    if (model.api === 'gemini') {
        const thoughts = Math.min(call.hidden, call.written);
        return {
            promptTokenCount: all,
            cachedContentTokenCount: usage.cached,
            candidatesTokenCount: call.written - thoughts,
            thoughtsTokenCount: thoughts,
            totalTokenCount: all + call.written,
            serviceTier: served,
        };
    }
    if (call.path.endsWith('/responses'))
        return {
            input_tokens: all,
            input_tokens_details: details,
            output_tokens: call.written,
            output_tokens_details: { reasoning_tokens: call.hidden },
            total_tokens: all + call.written,
        };
    return {
        prompt_tokens: all,
        prompt_tokens_details: details,
        completion_tokens: call.written,
        completion_tokens_details: {
            reasoning_tokens: call.hidden,
            audio_tokens: sounds ? call.written : 0,
        },
        total_tokens: all + call.written,
    };
}

const withUsage = (call, reply) =>
    call.plan.no_usage ? reply : { ...reply, usage: usageOf(call) };

function responsesReply(call, status) {
    return withUsage(call, {
        id: call.id,
        object: 'response',
        status,
        model: call.asked.name,
        service_tier: call.asked.served,
        output: [
            ...Array.from({ length: call.asked.usage.uses ?? 0 }, (_, i) => ({
                type: 'web_search_call',
                id: `ws_${i}`,
                status: 'completed',
                action: { type: 'search', query: 'q' },
            })),
            { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: '' }] },
        ],
        ...(call.asked.usage.uses && {
            tool_usage: { web_search: { num_requests: call.asked.usage.uses } },
        }),
    });
}

/* What Gemini says in a whole reply, and in each piece of a stream. */
const geminiReply = (call, text, finishReason) => ({
    candidates: [
        {
            content: { role: 'model', parts: text ? [{ text }] : [] },
            ...(finishReason && { finishReason }),
            index: 0,
        },
    ],
    ...(!call.plan.no_usage && { usageMetadata: usageOf(call) }),
    modelVersion: call.asked.name,
    responseId: call.id,
});

const geminiEnd = (call) => (call.plan.fail === 'filter' ? 'SAFETY' : 'STOP');

function wholeReply(call) {
    const text = WORD.repeat(call.written - call.hidden);
    const { model, name, served } = call.asked;
    const finish = call.plan.fail === 'filter' ? 'content_filter' : 'stop';
    if (call.path.endsWith('/embeddings'))
        return withUsage(call, { object: 'list', data: [], model: name });
    if (model.api === 'anthropic')
        return withUsage(call, {
            id: call.id,
            type: 'message',
            role: 'assistant',
            model: name,
            content: [{ type: 'text', text }],
            stop_reason: call.plan.fail === 'filter' ? 'refusal' : 'end_turn',
        });
    if (model.api === 'gemini') return geminiReply(call, text, geminiEnd(call));
    if (call.path.endsWith('/responses')) return responsesReply(call, 'completed');
    const choice = call.path.endsWith('/chat/completions')
        ? { index: 0, message: { role: 'assistant', content: text }, finish_reason: finish }
        : { index: 0, text, finish_reason: finish };
    return withUsage(call, {
        id: call.id,
        object: 'chat.completion',
        model: name,
        service_tier: served,
        choices: [choice],
    });
}

const event = (call, data, name) =>
    call.response.write(`${name ? `event: ${name}\n` : ''}data: ${JSON.stringify(data)}\n\n`);

function openStream(call) {
    call.response.writeHead(200, { 'content-type': 'text/event-stream', ...idHeaders(call) });
    const { name, model } = call.asked;
    if (model.api === 'anthropic') {
        const usage = { ...usageOf(call), output_tokens: 1 };
        const message = {
            id: call.id,
            type: 'message',
            role: 'assistant',
            model: name,
            content: [],
        };
        event(
            call,
            {
                type: 'message_start',
                message: call.plan.no_usage ? message : { ...message, usage },
            },
            'message_start',
        );
        event(
            call,
            { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
            'content_block_start',
        );
    } else if (model.api === 'gemini') event(call, geminiReply(call, ''));
    else if (call.path.endsWith('/responses'))
        event(
            call,
            { type: 'response.created', response: { id: call.id, status: 'in_progress' } },
            'response.created',
        );
    else event(call, chunk(call, { role: 'assistant', content: '' }));
}

const chunk = (call, delta, finish = null) => ({
    id: call.id,
    object: 'chat.completion.chunk',
    model: call.asked.name,
    choices: [
        call.path.endsWith('/chat/completions')
            ? { index: 0, delta, finish_reason: finish }
            : { index: 0, text: delta.content ?? '', finish_reason: finish },
    ],
});

function say(call, words) {
    const text = WORD.repeat(words);
    if (call.asked.model.api === 'anthropic')
        event(
            call,
            { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } },
            'content_block_delta',
        );
    else if (call.asked.model.api === 'gemini') event(call, geminiReply(call, text));
    else if (call.path.endsWith('/responses'))
        event(
            call,
            { type: 'response.output_text.delta', delta: text },
            'response.output_text.delta',
        );
    else event(call, chunk(call, { content: text }));
}

function closeStream(call) {
    const { model } = call.asked;
    if (model.api === 'anthropic') {
        event(call, { type: 'content_block_stop', index: 0 }, 'content_block_stop');
        const delta = { type: 'message_delta', delta: { stop_reason: 'end_turn' } };
        event(
            call,
            call.plan.no_usage ? delta : { ...delta, usage: usageOf(call) },
            'message_delta',
        );
        event(call, { type: 'message_stop' }, 'message_stop');
    } else if (model.api === 'gemini') event(call, geminiReply(call, '', geminiEnd(call)));
    else if (call.path.endsWith('/responses'))
        event(
            call,
            { type: 'response.completed', response: responsesReply(call, 'completed') },
            'response.completed',
        );
    else {
        event(call, {
            ...chunk(call, {}, call.plan.fail === 'filter' ? 'content_filter' : 'stop'),
            service_tier: call.asked.served,
        });
        if (call.body.stream_options?.include_usage)
            event(
                call,
                withUsage(call, {
                    ...chunk(call, {}),
                    service_tier: call.asked.served,
                    choices: [],
                }),
            );
        call.response.write('data: [DONE]\n\n');
    }
    call.response.end();
}

const idHeaders = (call) => ({ 'x-request-id': call.id, 'request-id': call.id });

function fail(response, status, message) {
    response.writeHead(status, {
        'content-type': 'application/json',
        ...(status === 429 && message !== TOO_LARGE && { 'retry-after-ms': '1' }),
    });
    response.end(JSON.stringify({ type: 'error', error: { type: 'error', message } }));
}

/* ---- time ---- */

function finish(call) {
    if (call.gone) return end(call, 'cut');
    if (call.asked.stream) closeStream(call);
    else {
        call.response.writeHead(200, { 'content-type': 'application/json', ...idHeaders(call) });
        call.response.end(JSON.stringify(wholeReply(call)));
    }
    return end(call, call.plan.no_usage ? 'silent' : 'usage');
}

function advance(call, ms) {
    call.due += (call.tps * ms) / 1000;
    const written = Math.max(0, Math.min(call.target, Math.floor(call.due)));
    const shown = Math.max(0, written - call.hidden) - Math.max(0, call.written - call.hidden);
    call.written = written;
    bill(call);
    if (/^(reset|504|408)$/.test(call.plan.fail) && !call.gone && written * 2 >= call.target) {
        /* Its own failure, but it has run. */
        if (call.plan.fail === 'reset' || call.response.headersSent) call.response.destroy();
        else fail(call.response, Number(call.plan.fail), 'it ran out of time');
        return end(call, 'cut');
    }
    if (!call.gone && call.asked.stream && shown > 0) {
        if (!call.response.headersSent) openStream(call);
        say(call, shown);
    }
    if (written < call.target || call.due < 0) return undefined;
    if (!call.gone && call.asked.stream && !call.response.headersSent) openStream(call);
    return finish(call);
}

let last = performance.now();
setInterval(() => {
    const now = performance.now();
    const ms = Math.min(now - last, TICK_MOST_MS);
    last = now;
    for (const call of live) advance(call, Math.min(ms, now - call.began));
}, TICK_MS);

/* ---- calls ---- */

/* The model and whether it streams stand in the path of Google's API. */
const GOOGLE = /^\/v1beta\/models\/([^:]+):(generateContent|streamGenerateContent)$/;

const traceOf = (request) => (request.headers.traceparent ?? '').split('-')[1];

function begin(request, response, text) {
    const path = request.url.replace(/\?.*/, '');
    let plan, asked, body;
    try {
        body = JSON.parse(text);
        const google = GOOGLE.exec(path);
        if (google)
            body = {
                ...body,
                model: decodeURIComponent(google[1]),
                stream: google[2] !== 'generateContent',
            };
        plan = JSON.parse(request.headers['x-adv-plan'] ?? '{}');
        if (plan.fail === '500') throw new Refused(500, 'it fails');
        if (plan.fail === '429') throw new Refused(429, 'slow down');
        if (plan.fail === 'too large') throw new Refused(429, TOO_LARGE);
        if (/once/.test(plan.fail ?? '')) {
            const again = tried.has(traceOf(request));
            tried.add(traceOf(request));
            if (plan.fail === 'once' && !again) throw new Refused(503, 'it fails once');
            plan.fail = again ? undefined : plan.fail.replace(' once', '');
        }
        asked = read(path, body, plan, state);
        /* Headers of Google's choose tiers. */
        if (asked.model.family === 'gemini' && /x-vertex-ai-llm/.test(Object.keys(request.headers)))
            asked.usage.factor = Math.max(asked.usage.factor, asked.model.tiers.priority);
    } catch (error) {
        if (!(error instanceof Refused) && !(error instanceof SyntaxError)) console.error(error);
        return fail(response, error.status ?? 400, error.message);
    }
    const target = Math.round(asked.most * (plan.out ?? 1));
    const call = {
        id: `resp_${++number}`,
        trace: traceOf(request),
        tenant: request.headers['x-adv-call'] ?? 'nobody',
        path,
        body,
        plan,
        asked,
        response,
        target,
        hidden: Math.floor(target * (plan.hidden ?? 0)),
        tps: Math.min(plan.tps ?? Infinity, asked.model.tps) * asked.choices,
        due: -((plan.latency ?? 0) / 1000) * asked.model.tps * asked.choices,
        written: 0,
        billed: 0n,
        began: performance.now(),
    };
    live.add(call);
    bill(call);
    response.on('close', () => {
        call.gone = true;
        if (!asked.runs) end(call, 'cut');
    });
    response.on('error', () => 0);
    if (target === 0 && !plan.latency) finish(call);
    return undefined;
}

function control(request, response, text) {
    if (request.url === '/adv/reset') {
        for (const call of live) call.response.destroy();
        live.clear();
        reset(JSON.parse(text || '{}').budgets);
    }
    response.setHeader('content-type', 'application/json');
    response.end(
        JSON.stringify({
            tenants: Object.fromEntries([...tenants].map(([name, sum]) => [name, microOf(sum)])),
            calls: ended,
            over,
            live: live.size,
        }),
    );
}

const server = http.createServer((request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('error', () => 0);
    request.on('end', () => {
        const text = Buffer.concat(parts).toString();
        if (request.url.startsWith('/adv/')) control(request, response, text);
        else if (request.method === 'POST') begin(request, response, text);
        else fail(response, 200, 'models');
    });
});
server.keepAliveTimeout = 60000;
server.listen(0, '127.0.0.1', () => console.log(`listening on 127.0.0.1:${server.address().port}`));
process.on('disconnect', () => process.exit(0));
