/* bill_moves.mjs - each way to make a bill larger than a gateway thinks, by its number, and its answer.
 *
 * The numbers are those of docs/security.md. Every request has one of these ends, whatever it asks for:
 *
 *     bounded          served; at least what the provider billed had been reserved, and just that is charged
 *     refused: WORD    400, and the error names this field or header; the provider heard nothing
 *     absent           404; the provider heard nothing
 *     covered          cut; what is booked and what is uncertain are at least what the provider billed
 */
import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import { chat, completion, lyingJpeg, message, response } from '../adversary/moves.mjs';
import { until } from './kit.mjs';
import { perform, traceOf, World } from '../adversary/world.mjs';

const user = (content) => [{ role: 'user', content }];
const FAR = 'https://far.example/a';
const image = (url, more = {}) => user([{ type: 'image_url', image_url: { url, ...more } }]);
const tool = (parameters) => [{ type: 'function', function: { name: 'f', parameters } }];
const deep = (n) => (n === 0 ? { type: 'string' } : { type: 'object', properties: { a: deep(n - 1) } });
const small = { max_tokens: 20 };
const brief = { max_output_tokens: 20 };

const bounded = 'bounded';
const absent = 'absent';
const covered = 'covered';
const refused = (word) => ({ refused: word });

const MOVES = [
    [1, 'a priced tier', chat('oa-write', { service_tier: 'priority', ...small }), bounded],
    [1, 'a tier without a price', chat('oa-mini', { service_tier: 'priority', ...small }), refused('service_tier')],
    [1, 'a tier that nobody knows', chat('oa-write', { service_tier: 'warp', ...small }), refused('service_tier')],
    [1, 'a tier in an array', chat('oa-write', { service_tier: ['priority'], ...small }), refused('service_tier')],
    [2, 'a tier that the account decides', chat('oa-auto', small), bounded],
    [2, 'a tier that is left to the account', chat('oa-auto', { service_tier: 'auto', ...small }), bounded],
    [3, 'a priced speed', message('an-opus', { speed: 'fast', ...small }), bounded],
    [3, 'a speed without a price', message('an-haiku', { speed: 'fast', ...small }), refused('speed')],
    [4, 'a priced region', message('an-opus', { inference_geo: 'us', ...small }), bounded],
    [4, 'a region without a price', message('an-haiku', { inference_geo: 'us', ...small }), refused('inference_geo')],
    [5, 'speed and region', message('an-opus', { speed: 'fast', inference_geo: 'us', ...small }), bounded],
    [6, 'fallbacks', message('an-opus', { fallbacks: [{ model: 'an-opus', max_tokens: 8000 }], ...small }), refused('fallbacks')],
    [7, 'fallbacks: default', message('an-opus', { fallbacks: 'default', ...small }), refused('fallbacks')],
    [8, 'an advisor', message('an-opus', { tools: [{ type: 'advisor_20260401', name: 'a', model: 'an-opus' }], ...small }), refused('tools')],
    [9, 'models', chat('vl-open', { models: ['oa-write'], ...small }), refused('models')],
    [9, 'a suffix', chat('vl-open:online', small), absent],
    [10, 'Model', chat('vl-open', { Model: 'oa-write', ...small }), refused('model')],
    [10, 'MAX_TOKENS', chat('vl-open', { MAX_TOKENS: 8000, ...small }), refused('max_tokens')],
    [10, 'max_tokens with a long s', chat('vl-open', { 'max_token\u017f': 8000, ...small }), refused('max_tokens')],
    [10, 'max_tokens twice', { path: '/v1/chat/completions', raw: '{"model":"vl-open","max_tokens":1,"max_tokens":8000,"messages":[]}' }, refused('max_tokens')],
    [11, 'two spellings of the maximum', chat('oa-write', { max_tokens: 1, max_completion_tokens: 900 }), bounded],
    [12, 'max_tokens: 0', chat('vl-open', { max_tokens: 0 }), bounded],
    [12, 'max_tokens: -1', chat('vl-open', { max_tokens: -1 }), refused('max_tokens')],
    [12, 'max_tokens: 1.5', chat('vl-open', { max_tokens: 1.5 }), refused('max_tokens')],
    [12, 'max_tokens: "100"', chat('vl-open', { max_tokens: '100' }), refused('max_tokens')],
    [12, 'max_tokens: 1e9', chat('vl-open', { max_tokens: 1000000000 }), bounded],
    [13, 'no maximum', chat('vl-open', {}), bounded],
    [14, 'n', chat('oa-flat', { n: 8, ...small }), bounded],
    [14, 'n above 128', chat('oa-flat', { n: 129, ...small }), refused('n')],
    [14, 'best_of', completion('oa-flat', { best_of: 8, ...small }), bounded],
    [15, 'an array of prompts', completion('oa-flat', { prompt: Array(64).fill('a'), ...small }), bounded],
    [15, 'arrays of ids', completion('oa-flat', { prompt: Array(64).fill([1, 2, 3]), ...small }), bounded],
    [16, 'a prediction', chat('oa-flat', { prediction: { type: 'content', content: 'wrong '.repeat(500) }, ...small }), bounded],
    [17, 'pro mode', response('oa-write', { reasoning: { mode: 'pro' }, ...brief }), refused('reasoning')],
    [18, 'hidden reasoning, gone before usage', chat('oa-write', { stream: true, max_tokens: 1500 }, { plan: { hidden: 0.99 }, leave: { after: 'first words' } }), covered],
    [18, 'thinking, gone before usage', message('an-opus', { stream: true, max_tokens: 1500 }, { plan: { hidden: 0.99 }, leave: { after: 'first words' } }), covered],
    [19, 'gone from a provider that runs on', chat('go-flash', { stream: true, max_tokens: 1500 }, { leave: { ms: 100 } }), covered],
    [20, 'a whole reply with a short time-out', chat('oa-write', { max_tokens: 4000 }, { headers: { 'x-request-timeout-ms': '200' } }), covered],
    [21, 'background', response('oa-write', { background: true, ...brief }), covered],
    [22, 'an earlier response', response('oa-flat', { previous_response_id: 'resp_x', ...brief }), bounded],
    [22, 'a conversation', response('oa-flat', { conversation: 'conv_x', ...brief }), bounded],
    [22, 'a stored prompt', response('oa-flat', { prompt: { id: 'pmpt_x' }, ...brief }), bounded],
    [22, 'a reference to an item', response('oa-flat', { input: [{ type: 'item_reference', id: 'msg_x' }], ...brief }), bounded],
    [22, 'a thread', message('an-opus', { thread: { type: 'continue', id: 'x' }, ...small }), bounded],
    [23, 'a file by id', response('oa-flat', { input: user([{ type: 'input_file', file_id: 'file-1' }]), ...brief }), bounded],
    [23, 'a file by address', response('oa-flat', { input: user([{ type: 'input_file', file_url: FAR }]), ...brief }), bounded],
    [23, 'a document by address', message('an-opus', { messages: user([{ type: 'document', source: { type: 'url', url: FAR } }]), ...small }), bounded],
    [24, 'an image by address', chat('oa-write', { messages: image(FAR), ...small }), bounded],
    [24, 'an image by address in a message', message('an-opus', { messages: user([{ type: 'image', source: { type: 'url', url: FAR } }]), ...small }), bounded],
    [25, 'an image of 48,169 tokens', chat('oa-mini', { messages: image(FAR), ...small }), bounded],
    [26, 'an image whose head lies', chat('oa-write', { messages: image(lyingJpeg(3000, 3000)), ...small }), bounded],
    [26, 'an image that is none', chat('oa-mini', { messages: image('data:image/png;base64,AAAA'), ...small }), bounded],
    [27, 'a video', chat('vl-open', { messages: user([{ type: 'video_url', video_url: { url: FAR } }]), ...small }), bounded],
    [28, 'search by Google', chat('go-flash', { tools: [{ type: 'google_search' }], ...small }), refused('tools')],
    [28, 'web_search_options', chat('oa-flat', { web_search_options: {}, ...small }), refused('web_search_options')],
    [29, 'max_uses absent', message('an-opus', { tools: [{ type: 'web_search_20260209', name: 'w' }], ...small }), refused('tools')],
    [29, 'max_uses', message('an-opus', { tools: [{ type: 'web_search_20260209', name: 'w', max_uses: 2 }], ...small }), bounded],
    [29, 'max_tool_calls absent', response('oa-write', { tools: [{ type: 'web_search' }], ...brief }), refused('max_tool_calls')],
    [29, 'max_tool_calls', response('oa-write', { tools: [{ type: 'web_search' }], max_tool_calls: 2, ...brief }), bounded],
    [29, 'max_tool_calls: 0', response('oa-write', { tools: [{ type: 'web_search' }], max_tool_calls: 0, ...brief }), bounded],
    [30, 'a search without a bound', response('oa-write', { tools: [{ type: 'web_search', return_token_budget: 'unlimited' }], max_tool_calls: 2, ...brief }), bounded],
    [31, 'remote MCP', response('oa-write', { tools: [{ type: 'mcp', server_label: 'x', server_url: FAR }], ...brief }), refused('max_tool_calls')],
    [31, 'mcp_servers', message('an-opus', { mcp_servers: [{ type: 'url', name: 'x', url: FAR }], ...small }), refused('mcp_servers')],
    [32, 'a container', response('oa-write', { tools: [{ type: 'code_interpreter', container: { type: 'auto', memory_limit: '64g' } }], max_tool_calls: 1, ...brief }), refused('tools')],
    [33, 'a cache of an hour', message('an-opus', { system: [{ type: 'text', text: 'x'.repeat(5000), cache_control: { type: 'ephemeral', ttl: '1h' } }], ...small }), bounded],
    [33, 'a cache of 5 minutes', message('an-opus', { cache_control: { type: 'ephemeral' }, ...small }), bounded],
    [34, 'implicit writes', chat('oa-write', { messages: user('x'.repeat(5000)), ...small }), bounded],
    [35, 'max_tokens: 0 writes a cache', message('an-opus', { cache_control: { type: 'ephemeral', ttl: '1h' }, messages: user('x'.repeat(3000)), max_tokens: 0 }), bounded],
    [35, 'prewarm', response('oa-write', { prompt_cache_options: { prewarm: true, ttl: '12h' }, input: 'x'.repeat(3000), ...brief }), bounded],
    [36, 'above the length', chat('oa-write', { messages: user('x'.repeat(12100)), ...small }), bounded],
    [36, 'just below the length', chat('oa-write', { messages: user('x'.repeat(11980)), ...small }), bounded],
    [37, 'five times', message('an-haiku', { messages: user('x'.repeat(5100)), ...small }), bounded],
    [38, 'above it by cached tokens', chat('oa-write', { messages: user('x'.repeat(12100)), ...small }, { plan: { cached: 0.95 } }), bounded],
    [39, 'U+FDFA', message('an-opus', { messages: user('\ufdfa'.repeat(500)), ...small }), bounded],
    [39, 'Tibetan', chat('vl-open', { messages: user('\u0fa2'.repeat(500)), ...small }), bounded],
    [40, 'a flat list in a schema', chat('vl-open', { tools: tool({ enum: Array(800).fill(1) }), ...small }), bounded],
    [40, 'a schema of depth 20', chat('vl-open', { tools: tool(deep(20)), ...small }), bounded],
    [40, 'a schema of depth 80', chat('vl-open', { tools: tool(deep(40)), ...small }), refused('tools')],
    [40, 'a schema of accents', chat('vl-open', { tools: tool({ description: '\u00e9'.repeat(500) }), ...small }), bounded],
    [41, 'empty messages', chat('oa-flat', { messages: Array(2000).fill({ role: 'user', content: '' }), ...small }), bounded],
    [41, 'empty tools', chat('vl-open', { tools: Array(128).fill(tool({})[0]), ...small }), bounded],
    [41, 'numbers in a message', chat('oa-flat', { messages: user(Array(3000).fill(123456789012)), ...small }), bounded],
    [41, 'keys in a message', chat('vl-open', { messages: user([Object.fromEntries(Array(500).fill(0).map((_, i) => [`k${i}`, i]))]), ...small }), bounded],
    [41, 'messages that are a text', chat('oa-flat', { messages: 'x'.repeat(3000), ...small }), refused('messages')],
    [42, 'a toolset', message('an-opus', { tools: [{ type: 'browser_toolset_20260801', name: 'b' }], ...small }), bounded],
    [42, 'a tool of Anthropic that nobody knows', message('an-opus', { tools: [{ type: 'something_20270101', name: 'd' }], ...small }), refused('something_20270101')],
    [42, 'an ordinary tool', message('an-opus', { tools: [{ name: 'f', input_schema: { type: 'object' } }], ...small }), bounded],
    [43, 'a beta header', message('an-opus', small, { headers: { 'anthropic-beta': 'compact-2026-01-12' } }), refused('anthropic-beta')],
    [44, 'compaction', message('an-opus', { context_management: { edits: [{ type: 'compact_20260112' }] }, ...small }), bounded],
    [44, 'compaction of a response', response('oa-write', { context_management: [{ type: 'compaction', compact_threshold: 1000 }], ...brief }), bounded],
    [45, 'a deployment in the path', { path: '/openai/deployments/oa-write/chat/completions', body: { model: 'oa-mini' } }, absent],
    [47, 'a fine-tuned model', chat('ft:oa-flat:org::x', small), absent],
    [48, 'decisions', { path: '/v1/decisions', body: { model: 'oa-write' } }, absent],
    [48, 'images', { path: '/v1/images/generations', body: { model: 'oa-write' } }, absent],
    [48, 'realtime', { path: '/v1/realtime', body: { model: 'oa-write' } }, absent],
    [49, 'a batch', { path: '/v1/batches', body: { input_file_id: 'file-1' } }, absent],
    [50, 'a vector store', { path: '/v1/vector_stores', body: { name: 'x' } }, absent],
    [51, 'an answer that broke off', chat('oa-write', { max_tokens: 400, stream: true }, { plan: { fail: 'reset' } }), covered],
    [51, 'an answer that never began', chat('oa-write', { max_tokens: 400 }, { plan: { fail: 'reset once' } }), covered],
    [51, 'a time-out of the provider', chat('oa-write', { max_tokens: 400 }, { plan: { fail: '504 once' } }), covered],
    [54, 'a filter after it was written', chat('oa-flat', { max_tokens: 200 }, { plan: { fail: 'filter' } }), bounded],
    [55, 'a host in the body', chat('oa-flat', { base_url: FAR, ...small }), bounded],
    [56, 'a reply without usage', chat('oa-flat', { max_tokens: 200 }, { plan: { no_usage: true } }), covered],
    [57, 'ignore_eos', chat('vl-open', { ignore_eos: true, min_tokens: 20, ...small }), bounded],
    [57, 'beam search', chat('vl-open', { use_beam_search: true, n: 8, ...small }), bounded],
    [57, 'a template', chat('vl-open', { chat_template: 'x'.repeat(3000), ...small }), bounded],
    [57, 'documents', chat('vl-open', { documents: [{ text: 'x'.repeat(3000) }], ...small }), bounded],
    [58, 'a region by prefix', chat('us.oa-flat', small), absent],
    [58, 'a tier by header', chat('go-flash', small, { headers: { 'x-vertex-ai-llm-shared-request-type': 'priority' } }), refused('x-vertex-ai-llm')],
    [59, 'effort without a maximum', chat('oa-write', { reasoning_effort: 'max' }, { plan: { hidden: 0.9 } }), bounded],
    [60, 'a prefix that another wrote to the cache', chat('oa-write', { messages: user('x'.repeat(5000)), ...small }, { plan: { cached: 0.99 } }), bounded],
];

let world;
before(async () => (world = await World.start({ budgets: { one: 1000000000 } })));
after(() => world?.stop());

/* Micro-dollars that were billed for a call, once it has ended at the provider. */
const billed = (trace) =>
    until('the provider has ended it', async () => {
        const calls = (await world.provider.bill()).calls.filter((one) => one.trace === trace);
        return calls.length > 0 && calls.reduce((sum, one) => sum + one.micro, 0);
    });

async function ends(request, end, trace) {
    const reply = await perform(world.gateway.url, request, 'one', trace);
    const said = `${reply.status} ${reply.body?.slice(0, 300)}`;
    if (end === absent || end.refused) {
        assert.equal(reply.status, end === absent ? 404 : 400, said);
        if (end.refused) assert.ok(reply.body.includes(end.refused), said);
        return trace;
    }
    const line = await world.line(trace);
    if (end === bounded) assert.equal(reply.status, 200, said);
    assert.ok(line.attempts > 0, said);
    const bill = await billed(trace);
    if (end === bounded) {
        assert.ok(line.reserved_micro_usd >= bill, `${line.reserved_micro_usd} reserved, ${bill} billed`);
        assert.equal(line.micro_usd, bill);
    } else {
        const booked = line.micro_usd + (line.uncertain_micro_usd ?? 0);
        assert.ok(booked >= bill, `${JSON.stringify(line)}, ${bill} billed`);
    }
    return null;
}

describe('moves', { concurrency: 16 }, () => {
    const refusals = [];
    MOVES.forEach(([n, name, request, end], i) =>
        test(`${n}: ${name} is ${end.refused ? `refused: ${end.refused}` : end}`, async () => {
            const trace = await ends(request, end, traceOf(0xb111, i));
            if (trace) refusals.push(trace);
        }),
    );
    after(async () => {
        const bill = await world.idle();
        for (const trace of refusals)
            assert.ok(!bill.calls.some((one) => one.trace === trace), 'what is refused is not billed');
    });
});
