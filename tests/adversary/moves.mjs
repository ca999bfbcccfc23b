/* moves.mjs - ways to make a bill larger than a gateway thinks: research's list, each as a request.
 *
 * A move is {n: its number, name, make(r): a request}. A request is {path, body | raw, headers, plan,
 * leave, then}: what is sent, what the provider does with it within its rules (see provider.mjs), how
 * its client leaves, where that belongs to the move, and what follows it. `r` draws at random from a
 * seed.
 */

/* ---- chance ---- */

/* mulberry32: the same seed gives the same run of moves. */
export class Chance {
    constructor(seed) {
        this.state = seed >>> 0;
    }

    next() {
        this.state = (this.state + 0x6d2b79f5) >>> 0;
        let t = this.state;
        t = Math.imul(t ^ (t >>> 15), t | 1);
        t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    }

    int(from, to) {
        return from + Math.floor(this.next() * (to - from + 1));
    }

    chance(p) {
        return this.next() < p;
    }

    pick(list) {
        return list[this.int(0, list.length - 1)];
    }

    fork() {
        return new Chance(this.int(0, 0x7fffffff));
    }
}

/* ---- parts of requests ---- */

const LETTERS = 'abcdefghijklmnopqrstuvwxyz     ';

export function words(r, bytes) {
    let text = '';
    while (text.length < bytes) text += r.pick(LETTERS);
    return text;
}

/* Texts that normalisation lengthens, or that have a token a byte. */
const DENSE = [
    '\ufdfa',
    '\u0f77',
    '\u0f9d',
    '\u0fa2',
    '\u2a0c',
    '\u334a',
    '\u{e0041}',
    '\u0344',
    '\u1d15e',
    '\ufb2c',
];

export const dense = (r, n) => r.pick(DENSE).repeat(n);

const user = (content) => [{ role: 'user', content }];

export const chat = (model, body, more = {}) => ({
    path: '/v1/chat/completions',
    body: { model, messages: user('hello there'), ...body },
    ...more,
});
export const completion = (model, body, more = {}) => ({
    path: '/v1/completions',
    body: { model, prompt: 'hello', ...body },
    ...more,
});
export const response = (model, body, more = {}) => ({
    path: '/v1/responses',
    body: { model, input: 'hello there', ...body },
    ...more,
});
export const message = (model, body, more = {}) => ({
    path: '/v1/messages',
    body: { model, messages: user('hello there'), max_tokens: 100, ...body },
    ...more,
});

/* Images whose head says one size and whose data has another. */
export function png(w, h) {
    const bytes = Buffer.alloc(64);
    bytes.writeUInt32BE(0x89504e47, 0);
    bytes.writeUInt32BE(0x0d0a1a0a, 4);
    bytes.writeUInt32BE(13, 8);
    bytes.write('IHDR', 12, 'latin1');
    bytes.write('IDAT', 37, 'latin1'); /* else a size may still come */
    bytes.writeUInt32BE(w, 16);
    bytes.writeUInt32BE(h, 20);
    return `data:image/png;base64,${bytes.toString('base64')}`;
}

function jpegFrame(w, h) {
    const frame = Buffer.from([0xff, 0xc0, 0, 11, 8, 0, 0, 0, 0, 1, 1, 0x11, 0]);
    frame.writeUInt16BE(h, 5);
    frame.writeUInt16BE(w, 7);
    return frame;
}

/* A small frame first, then the one that is decoded. */
export function lyingJpeg(w, h) {
    const bytes = Buffer.concat([
        Buffer.from([0xff, 0xd8]),
        jpegFrame(8, 8),
        jpegFrame(w, h),
        Buffer.from([0xff, 0xd9]),
    ]);
    return `data:image/jpeg;base64,${bytes.toString('base64')}`;
}

const URL_IMAGE = 'https://images.example/large.png';
const picture = (url, more = {}) => [
    { type: 'text', text: 'what is this?' },
    { type: 'image_url', image_url: { url, ...more } },
];

function nested(depth) {
    let schema = { type: 'string' };
    for (let i = 0; i < depth; i++) schema = { type: 'object', properties: { a: schema } };
    return schema;
}

const tool = (parameters, more = {}) => ({
    type: 'function',
    function: { name: 'f', parameters },
    ...more,
});
const claudeTool = { name: 'f', input_schema: { type: 'object', properties: {} } };

/* Body with a name twice, or in other letters. */
const raw = (text) => ({ path: '/v1/chat/completions', raw: text });

/* ---- the moves ---- */

const move = (n, name, make) => ({ n, name, make });

export const MOVES = [
    move(0, 'an ordinary chat', (r) =>
        chat(r.pick(['oa-flat', 'oa-write', 'go-flash', 'vl-open', 'oa-mini']), {
            messages: user(words(r, r.int(1, 400))),
            max_tokens: r.int(1, 400),
            stream: r.chance(0.5),
        }),
    ),
    move(0, 'an ordinary message', (r) =>
        message(r.pick(['an-opus', 'an-haiku']), {
            messages: user(words(r, r.int(1, 400))),
            max_tokens: r.int(1, 400),
            stream: r.chance(0.5),
        }),
    ),
    move(0, 'an ordinary response', (r) =>
        response(r.pick(['oa-flat', 'oa-write']), {
            input: words(r, r.int(1, 400)),
            max_output_tokens: r.int(1, 400),
            stream: r.chance(0.5),
        }),
    ),
    move(0, 'embeddings', (r) => ({
        path: '/v1/embeddings',
        body: {
            model: 'oa-embed',
            input: r.pick([
                words(r, 500),
                Array.from({ length: r.int(1, 40) }, () => words(r, 50)),
                Array.from({ length: r.int(1, 200) }, (_, i) => i),
                Array.from({ length: 20 }, () => [1, 2, 3, 4, 5]),
                /* together longer than the context, which each has for itself */
                Array.from({ length: 40 }, () => words(r, 500)),
            ]),
        },
    })),
    move(1, 'service_tier', (r) =>
        chat(r.pick(['oa-flat', 'oa-write']), {
            service_tier: r.pick(['priority', 'fast', 'ultrafast', 'flex', 'scale', 'auto']),
            max_tokens: r.int(1, 300),
        }),
    ),
    move(2, 'a tier that an absent field leaves to the account', (r) =>
        chat('oa-auto', {
            max_tokens: r.int(1, 300),
            ...(r.chance(0.5) && { service_tier: 'auto' }),
        }),
    ),
    move(3, 'speed: fast', (r) => message('an-opus', { speed: 'fast', max_tokens: r.int(1, 300) })),
    move(4, 'inference_geo: us', (r) =>
        message('an-opus', { inference_geo: 'us', max_tokens: r.int(1, 300) }),
    ),
    move(5, 'speed, region and tier at once', (r) =>
        message('an-opus', {
            speed: 'fast',
            inference_geo: 'us',
            service_tier: 'auto',
            max_tokens: r.int(1, 300),
        }),
    ),
    move(6, 'fallbacks with a larger max_tokens', (r) =>
        message('an-opus', {
            fallbacks: [{ model: 'an-opus', max_tokens: 8000, speed: 'fast' }],
            max_tokens: r.int(1, 20),
        }),
    ),
    move(7, 'fallbacks: default', () => message('an-opus', { fallbacks: 'default' })),
    move(8, 'an advisor of a dear model', () =>
        message('an-haiku', {
            tools: [{ type: 'advisor_20260401', name: 'advisor', model: 'an-opus' }],
        }),
    ),
    move(9, 'models: another one', () =>
        chat('vl-open', { models: ['oa-write'], max_tokens: 200 }),
    ),
    move(9, 'a suffix of the model', (r) => chat(`vl-open:${r.pick(['online', 'nitro'])}`, {})),
    move(10, 'names in other letters', (r) =>
        chat(
            'vl-open',
            r.pick([
                { Model: 'oa-write', max_tokens: 1 },
                { max_tokens: 1, MAX_TOKENS: 8000 },
                { max_tokens: 1, 'max_token\u017f': 8000 },
                { max_tokens: 1, N: 8 },
                { max_tokens: 10, Messages: user(words(r, 20000)) },
            ]),
        ),
    ),
    move(10, 'a name twice', (r) =>
        raw(
            r.pick([
                '{"model":"vl-open","max_tokens":1,"max_tokens":8000,"messages":[]}',
                '{"model":"oa-mini","model":"oa-write","max_tokens":100,"messages":[]}',
                '{"model":"vl-open","max_tokens":1,"max_\\u0074okens":8000,"messages":[]}',
            ]),
        ),
    ),
    move(11, 'max_tokens and max_completion_tokens', (r) =>
        chat('oa-write', { max_tokens: r.int(1, 10), max_completion_tokens: r.int(500, 2000) }),
    ),
    move(12, 'an odd max_tokens', (r) =>
        chat(r.pick(['vl-open', 'oa-flat']), {
            max_tokens: r.pick([0, -1, 1.5, '100', 1e9, 2 ** 53, 1e18, 1e308, null, true, []]),
        }),
    ),
    move(13, 'no maximum', (r) => chat(r.pick(['oa-flat', 'vl-open', 'go-flash']), {})),
    move(14, 'n', (r) =>
        chat('oa-flat', {
            n: r.pick([2, 8, 16, 128, 129, 2 ** 31, 2 ** 53]),
            max_tokens: r.int(1, 200),
        }),
    ),
    move(14, 'best_of', (r) =>
        completion('oa-flat', { n: 1, best_of: r.int(2, 16), max_tokens: r.int(1, 200) }),
    ),
    move(15, 'an array of prompts', (r) =>
        completion('oa-flat', {
            max_tokens: r.int(1, 100),
            prompt: Array.from({ length: r.pick([2, 8, 64, 2048]) }, () => 'a'),
        }),
    ),
    move(15, 'arrays of ids', (r) =>
        completion('oa-flat', {
            max_tokens: r.int(1, 100),
            prompt: Array.from({ length: r.int(1, 64) }, () => [1, 2, 3]),
        }),
    ),
    move(15, 'prompts that are together longer than the context', (r) =>
        completion('vl-open', {
            max_tokens: r.int(1, 20),
            prompt: Array.from({ length: 8 }, () => 'x'.repeat(r.int(5000, 30000))),
        }),
    ),
    move(16, 'a prediction of wrong text', (r) =>
        chat('oa-flat', {
            max_tokens: r.int(1, 20),
            prediction: { type: 'content', content: words(r, r.int(100, 5000)) },
        }),
    ),
    move(17, 'reasoning.mode: pro', (r) =>
        response('oa-write', { reasoning: { mode: 'pro' }, max_output_tokens: r.int(1, 200) }),
    ),
    move(18, 'hidden reasoning, and gone before the usage', (r) => ({
        ...r.pick([
            chat('oa-write', { max_completion_tokens: r.int(300, 2000), stream: true }),
            response('oa-write', { max_output_tokens: r.int(300, 2000), stream: true }),
            message('an-opus', { max_tokens: r.int(300, 2000), stream: true }),
        ]),
        plan: { hidden: 0.99 },
        leave: { after: 'first words' },
    })),
    move(19, 'gone from a provider that runs on', (r) =>
        chat(
            'go-flash',
            { max_tokens: r.int(100, 2000), stream: r.chance(0.7) },
            { leave: { ms: r.int(1, 200) } },
        ),
    ),
    move(20, 'a whole reply with a short time-out', (r) =>
        chat(
            r.pick(['oa-flat', 'oa-write', 'go-flash']),
            { max_tokens: r.int(300, 3000) },
            {
                headers: r.pick([
                    { 'x-request-timeout-ms': `${r.int(1, 300)}` },
                    { 'x-stainless-timeout': '1', 'x-stainless-retry-count': `${r.int(0, 3)}` },
                ]),
            },
        ),
    ),
    move(21, 'background', (r) =>
        response(
            'oa-write',
            { background: true, max_output_tokens: r.int(500, 3000) },
            { leave: { ms: 20 } },
        ),
    ),
    move(22, 'an earlier response', (r) =>
        response('oa-flat', {
            ...r.pick([
                { previous_response_id: `resp_${r.int(1, 400)}` },
                { conversation: `conv_${r.int(1, 400)}` },
                { conversation: { id: 'conv_x' } },
                { prompt: { id: 'pmpt_x' } },
                { input: [{ type: 'item_reference', id: 'msg_x' }] },
            ]),
            max_output_tokens: r.int(1, 50),
        }),
    ),
    move(22, 'a thread', (r) =>
        message('an-opus', { thread: { type: 'continue', id: 'thr_x' }, max_tokens: r.int(1, 50) }),
    ),
    move(23, 'a file', (r) =>
        r.pick([
            response('oa-flat', {
                input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'file-1' }] }],
                max_output_tokens: 20,
            }),
            response('oa-flat', {
                input: [
                    {
                        role: 'user',
                        content: [{ type: 'input_file', file_url: 'https://x.example/a.pdf' }],
                    },
                ],
                max_output_tokens: 20,
            }),
            chat('oa-flat', {
                messages: user([{ type: 'file', file: { file_id: 'file-1' } }]),
                max_tokens: 20,
            }),
            message('an-opus', {
                messages: user([
                    { type: 'document', source: { type: 'url', url: 'https://x.example/a.pdf' } },
                ]),
                max_tokens: 20,
            }),
            message('an-opus', {
                messages: user([
                    {
                        type: 'document',
                        source: {
                            type: 'base64',
                            media_type: 'application/pdf',
                            data: Buffer.from('%PDF-1.7 /Type /ObjStm').toString('base64'),
                        },
                    },
                ]),
                max_tokens: 20,
            }),
        ]),
    ),
    move(24, 'an image by address', (r) =>
        chat(r.pick(['oa-write', 'oa-flat', 'go-flash']), {
            messages: user(picture(URL_IMAGE, r.chance(0.5) ? { detail: 'original' } : {})),
            max_tokens: 20,
        }),
    ),
    move(24, 'an image by address in a message', () =>
        message('an-opus', {
            messages: user([{ type: 'image', source: { type: 'url', url: URL_IMAGE } }]),
            max_tokens: 20,
        }),
    ),
    move(25, 'images of 48,169 tokens', (r) =>
        chat('oa-mini', {
            messages: user([
                ...picture(URL_IMAGE),
                ...picture(png(r.int(1, 3000), r.int(1, 3000))),
            ]),
            max_tokens: 20,
        }),
    ),
    move(26, 'an image whose head lies', (r) =>
        chat(r.pick(['oa-write', 'oa-mini', 'oa-flat']), {
            messages: user(
                picture(
                    r.pick([
                        lyingJpeg(3000, 3000),
                        png(8, 8),
                        `data:image/png;base64,${Buffer.from('no picture').toString('base64')}`,
                    ]),
                ),
            ),
            max_tokens: 20,
        }),
    ),
    move(27, 'a video', () =>
        chat('vl-open', {
            messages: user([
                { type: 'video_url', video_url: { url: 'https://x.example/a.mp4' }, fps: 24 },
            ]),
            media_io_kwargs: { video: { num_frames: 1000 } },
            max_tokens: 20,
        }),
    ),
    move(28, 'search that nothing bounds', (r) =>
        chat('go-flash', {
            ...r.pick([
                { tools: [{ googleSearch: {} }] },
                { tools: [{ type: 'google_search' }] },
                { web_search_options: {} },
            ]),
            max_tokens: 20,
        }),
    ),
    move(29, 'max_uses absent', (r) =>
        message('an-opus', {
            tools: [
                {
                    type: r.pick(['web_search_20260209', 'web_fetch_20260209']),
                    name: 'w',
                    ...(r.chance(0.5) && { max_uses: r.int(1, 3) }),
                },
            ],
            max_tokens: 20,
        }),
    ),
    move(29, 'max_tool_calls absent', (r) =>
        response('oa-write', {
            tools: [{ type: r.pick(['web_search', 'file_search']), vector_store_ids: ['vs_1'] }],
            max_output_tokens: 20,
            ...(r.chance(0.5) && { max_tool_calls: r.int(1, 3) }),
        }),
    ),
    move(30, 'return_token_budget: unlimited', () =>
        response('oa-write', {
            tools: [
                {
                    type: 'web_search',
                    return_token_budget: 'unlimited',
                    search_context_size: 'high',
                },
            ],
            max_tool_calls: 2,
            max_output_tokens: 20,
        }),
    ),
    move(31, 'a remote MCP server', (r) =>
        r.pick([
            response('oa-write', {
                tools: [{ type: 'mcp', server_label: 'x', server_url: 'https://x.example' }],
                max_output_tokens: 20,
            }),
            message('an-opus', {
                mcp_servers: [{ type: 'url', name: 'x', url: 'https://x.example' }],
                max_tokens: 20,
            }),
        ]),
    ),
    move(32, 'a large container', () =>
        response('oa-write', {
            tools: [{ type: 'code_interpreter', container: { type: 'auto', memory_limit: '64g' } }],
            max_output_tokens: 20,
        }),
    ),
    move(33, 'a cache of 1 hour that nobody reads', (r) =>
        message('an-opus', {
            system: [
                {
                    type: 'text',
                    text: words(r, r.int(1000, 8000)),
                    cache_control: { type: 'ephemeral', ttl: r.pick(['1h', '5m']) },
                },
            ],
            max_tokens: 20,
        }),
    ),
    move(34, 'implicit cache writes', (r) =>
        chat('oa-write', { messages: user(words(r, r.int(900, 9000))), max_tokens: 20 }),
    ),
    move(35, 'a cache that is only warmed', (r) =>
        r.pick([
            message('an-opus', {
                cache_control: { type: 'ephemeral', ttl: '1h' },
                messages: user(words(r, 3000)),
                max_tokens: 0,
            }),
            response('oa-write', {
                prompt_cache_options: { prewarm: true, ttl: '12h' },
                input: words(r, 3000),
                max_output_tokens: 20,
            }),
        ]),
    ),
    move(36, 'a token above the length that doubles the price', (r) =>
        chat('oa-write', {
            messages: user(words(r, r.pick([11990, 12010, 12100, 14000]))),
            max_tokens: 300,
        }),
    ),
    move(37, 'five times the price above a length', (r) =>
        message('an-haiku', {
            messages: user(words(r, r.pick([4980, 5010, 7000]))),
            max_tokens: 300,
        }),
    ),
    move(38, 'cached tokens push it over the length', (r) =>
        chat(
            'oa-write',
            { messages: user(words(r, 12500)), max_tokens: 300 },
            { plan: { cached: 0.9 } },
        ),
    ),
    move(39, 'text that normalisation lengthens', (r) =>
        r.pick([
            chat('vl-open', { messages: user(dense(r, r.int(1, 1500))), max_tokens: 20 }),
            chat('go-flash', { messages: user(dense(r, r.int(1, 1500))), max_tokens: 20 }),
            message('an-opus', { messages: user(dense(r, r.int(1, 1500))), max_tokens: 20 }),
            message('an-haiku', { system: dense(r, r.int(1, 1500)), max_tokens: 20 }),
        ]),
    ),
    move(40, 'schemas that a template lengthens', (r) =>
        chat('vl-open', {
            tools: r.pick([
                [tool({ type: 'object', enum: Array.from({ length: 800 }, () => 1) })],
                [tool(nested(r.int(5, 30)))],
                [tool(nested(100))],
                [tool({ type: 'object', description: '\u00e9'.repeat(r.int(1, 800)) })],
            ]),
            max_tokens: 20,
        }),
    ),
    move(41, 'empty messages by the hundred', (r) =>
        chat(r.pick(['oa-flat', 'vl-open']), {
            messages: Array.from({ length: r.int(100, 2000) }, () => ({
                role: 'user',
                content: '',
            })),
            max_tokens: 1,
        }),
    ),
    move(41, 'empty tools by the hundred', (r) =>
        chat(r.pick(['oa-flat', 'vl-open']), {
            tools: Array.from({ length: r.int(10, 128) }, () => tool({})),
            max_tokens: 1,
        }),
    ),
    move(42, 'toolsets with hidden prompts', (r) =>
        message('an-opus', {
            tools: [
                r.pick([
                    { type: 'browser_toolset_20260801', name: 'b' },
                    { type: 'computer_toolset_20260801', name: 'c' },
                    { type: 'something_20270101', name: 'd' },
                    claudeTool,
                ]),
            ],
            max_tokens: 20,
        }),
    ),
    move(43, 'a beta that changes the bill', (r) =>
        message(
            'an-opus',
            { max_tokens: 50 },
            {
                headers: {
                    'anthropic-beta': r.pick([
                        'compact-2026-01-12',
                        'extended-cache-ttl-2025-04-11',
                        'server-side-fallback-2026-05-01',
                        'advisor-tool-2026-03-01',
                    ]),
                },
            },
        ),
    ),
    move(44, 'compaction in a loop', (r) =>
        r.pick([
            message('an-opus', {
                context_management: {
                    edits: [{ type: 'compact_20260112', trigger: { value: 1 } }],
                },
                max_tokens: 20,
            }),
            response('oa-write', {
                context_management: [{ type: 'compaction', compact_threshold: 1000 }],
                max_output_tokens: 20,
            }),
        ]),
    ),
    move(45, 'a deployment in the path', () => ({
        path: '/openai/deployments/oa-write/chat/completions',
        body: { model: 'oa-mini', messages: user('hello'), max_tokens: 500 },
    })),
    move(47, 'a fine-tuned model', () => chat('ft:oa-flat:org::x', { max_tokens: 100 })),
    move(48, 'an endpoint that is not metered', (r) => ({
        path: r.pick([
            '/v1/decisions',
            '/v1/realtime',
            '/v1/videos',
            '/v1/images/generations',
            '/v1/audio/speech',
            '/v1/responses/resp_1/cancel',
        ]),
        body: { model: 'oa-write', input: 'x' },
    })),
    move(49, 'a batch', () => ({
        path: '/v1/batches',
        body: { input_file_id: 'file-1', endpoint: '/v1/chat/completions' },
    })),
    move(50, 'storage for ever', (r) => ({
        path: r.pick(['/v1/vector_stores', '/v1/files', '/v1/containers']),
        body: { name: 'x' },
    })),
    move(51, 'retries of an attempt that was billed', (r) =>
        chat(
            r.pick(['oa-flat', 'oa-write', 'oa-auto']),
            { max_tokens: r.int(50, 500), stream: r.chance(0.5) },
            { plan: { fail: r.pick(['reset', 'reset once', '504', '504 once', '408', 'once', '500', '429']) } },
        ),
    ),
    move(54, 'stopped by a filter after it was written', (r) =>
        chat(
            'oa-flat',
            { max_tokens: r.int(50, 500), stream: r.chance(0.5) },
            { plan: { fail: 'filter' } },
        ),
    ),
    move(55, 'a host of the tenant', () =>
        chat(
            'oa-flat',
            { max_tokens: 20, base_url: 'http://x.example', api_base: 'http://x.example' },
            { headers: { 'x-forwarded-host': 'x.example', 'x-api-base': 'http://x.example' } },
        ),
    ),
    move(56, 'a reply without usage', (r) =>
        chat(
            r.pick(['vl-open', 'oa-flat']),
            { max_tokens: r.int(50, 500), stream: r.chance(0.5) },
            { plan: { no_usage: true } },
        ),
    ),
    move(57, 'fields of vLLM', (r) =>
        chat('vl-open', {
            max_tokens: r.int(1, 200),
            ...r.pick([
                { ignore_eos: true, min_tokens: 8000 },
                { use_beam_search: true, n: 8 },
                { chat_template: words(r, 3000) },
                { documents: [{ text: words(r, 3000) }] },
                { prompt_logprobs: 20 },
            ]),
        }),
    ),
    move(58, 'a region by header or prefix', (r) =>
        r.pick([
            chat('us.oa-flat', { max_tokens: 20 }),
            chat(
                'oa-flat',
                { max_tokens: 20 },
                { headers: { 'x-vertex-ai-llm-request-type': 'shared' } },
            ),
        ]),
    ),
    move(59, 'effort: max without a maximum', (r) =>
        r.pick([
            chat('oa-write', { reasoning_effort: 'max' }, { plan: { hidden: 0.95 } }),
            response('oa-write', { reasoning: { effort: 'xhigh' } }, { plan: { hidden: 0.95 } }),
        ]),
    ),
    move(60, 'the cache of others', (r) =>
        chat(
            'oa-flat',
            { prompt_cache_key: 'shared', messages: user(words(r, 3000)), max_tokens: 20 },
            { plan: { cached: 1 } },
        ),
    ),
    /* ---- not in the list ---- */
    move(0, 'a conversation that grows', (r) => {
        const turns = r.int(1, 12);
        return chat('oa-flat', {
            messages: Array.from({ length: 2 * turns - 1 }, (_, i) => ({
                role: i % 2 ? 'assistant' : 'user',
                content: `turn ${i}: ${'so it goes '.repeat(i)}`,
            })),
            max_tokens: r.int(1, 200),
        });
    }),
    move(0, 'audio', (r) =>
        chat('oa-flat', {
            messages: user([
                {
                    type: 'input_audio',
                    input_audio: {
                        format: 'mp3',
                        data: Buffer.alloc(r.int(100, 20000)).toString('base64'),
                    },
                },
            ]),
            ...(r.chance(0.5) && {
                modalities: ['text', 'audio'],
                audio: { voice: 'a', format: 'mp3' },
            }),
            max_tokens: 50,
        }),
    ),
    move(0, 'content encodings twice', () =>
        chat(
            'oa-flat',
            { max_tokens: 20 },
            { headers: { 'content-encoding': ['identity', 'gzip'] } },
        ),
    ),
    move(0, 'a field that nobody knows', (r) =>
        chat('oa-flat', { max_tokens: 20, [`x_${words(r, 5).trim()}`]: { deep: [1, 2, 3] } }),
    ),
    move(0, 'functions', (r) =>
        chat('oa-flat', {
            functions: [{ name: 'f', parameters: nested(r.int(1, 10)) }],
            max_tokens: 20,
        }),
    ),
    move(0, 'a stream that is told to say nothing of usage', (r) =>
        chat('oa-flat', {
            stream: true,
            stream_options: { include_usage: false },
            max_tokens: r.int(1, 300),
        }),
    ),
    /* What a provider has counted of a prefix must not be believed where it may count otherwise. */
    move(0, 'a prefix whose image grows', (r) => {
        const said = words(r, 5000);
        const url = `https://images.example/${r.int(0, 1e9)}.png`;
        const first = [{ role: 'user', content: [{ type: 'text', text: said }, ...picture(url)] }];
        const more = [
            ...first,
            { role: 'assistant', content: 'ok' },
            { role: 'user', content: 'and?' },
        ];
        const model = r.pick(['oa-write', 'oa-mini']);
        return {
            ...chat(model, { messages: first, max_tokens: 20 }, { plan: { image: [10, 10] } }),
            then: chat(model, { messages: more, max_tokens: 20 }),
        };
    }),
    move(0, 'a prefix of which results were cleared', (r) => {
        const first = [{ role: 'user', content: words(r, 8000) }];
        const more = [
            ...first,
            { role: 'assistant', content: 'ok' },
            { role: 'user', content: 'and?' },
        ];
        const edits = [{ type: 'clear_tool_uses_20250919' }];
        return {
            ...message('an-opus', {
                messages: first,
                context_management: { edits },
                max_tokens: 20,
            }),
            then: message('an-opus', { messages: more, max_tokens: 20 }),
        };
    }),
    move(0, 'a prefix under other tools', (r) => {
        const first = [{ role: 'user', content: words(r, 5000) }];
        const more = [
            ...first,
            { role: 'assistant', content: 'ok' },
            { role: 'user', content: 'and?' },
        ];
        return {
            ...message('an-opus', { messages: first, max_tokens: 20 }),
            then: message('an-opus', {
                messages: more,
                tools: [{ ...claudeTool, description: words(r, 4000) }],
                max_tokens: 20,
            }),
        };
    }),
    move(0, 'a conversation that is continued turn by turn', (r) => {
        const first = [{ role: 'user', content: words(r, r.int(4000, 9000)) }];
        const more = [
            ...first,
            { role: 'assistant', content: words(r, 200) },
            { role: 'user', content: dense(r, r.int(1, 500)) },
        ];
        const last = [...more, { role: 'assistant', content: 'ok' }, { role: 'user', content: '' }];
        const as = (messages) =>
            first[0].content.length % 2
                ? chat('oa-write', { messages, max_tokens: 20 })
                : message('an-haiku', { messages, max_tokens: 20 });
        return { ...as(first), then: { ...as(more), then: as(last) } };
    }),
];
