/* translated_moves.mjs - ways to a larger bill by asking in one API what a provider of another serves.
 *
 * What is reserved is read from the request of the client, and what is billed is another one, which the
 * gateway has written from it: whatever grows, is counted twice or is read differently on that way is
 * a way to spend more than was reserved. See moves.mjs for what a move is.
 */
import { chat, dense, message, png, response, words } from './moves.mjs';

const FOREIGN = ['gg-pro', 'gg-lossy', 'an-opus', 'an-haiku', 'an-lossy', 'or-write'];
const OPENAI = ['oa-flat', 'oa-write', 'vl-open', 'vl-lossy', 'or-write', 'gg-pro', 'gg-lossy'];
const LOSSY = ['gg-lossy', 'an-lossy', 'vl-lossy'];

const user = (content) => [{ role: 'user', content }];
const move = (n, name, make) => ({ n, name, make });
const small = (r) => ({ max_tokens: r.int(1, 200), stream: r.chance(0.5) });

const called = (id, name = 'f', text = '{}') => ({
    id,
    type: 'function',
    function: { name, arguments: text },
});
const answered = (id, content) => ({ role: 'tool', tool_call_id: id, content });
const base64 = (bytes) => Buffer.alloc(bytes).toString('base64');

/* Two turns of which the first is remembered: [what is sent first, what follows]. */
const followed = (make, first, more) => ({ ...make(first), then: make([...first, ...more]) });

export const TRANSLATED = [
    move(0, 'an ordinary chat, served by another API', (r) =>
        chat(
            r.pick(FOREIGN),
            { messages: user(words(r, r.int(1, 400))), ...small(r) },
            { plan: { hidden: r.next() } },
        ),
    ),
    move(0, 'an ordinary message, served by another API', (r) =>
        message(
            r.pick(OPENAI),
            { messages: user(words(r, r.int(1, 400))), system: words(r, 50), ...small(r) },
            { plan: { hidden: r.next() } },
        ),
    ),
    move(0, 'an ordinary response, served by another API', (r) =>
        response(r.pick(['gg-pro', 'an-opus', 'an-haiku', 'vl-lossy']), {
            input: words(r, r.int(1, 400)),
            max_output_tokens: r.int(1, 200),
            stream: r.chance(0.5),
        }),
    ),
    move(0, 'one id for many calls, and one long result', (r) => {
        const n = r.int(2, 40);
        const long = words(r, 3000);
        return chat(r.pick(FOREIGN), {
            messages: [
                ...user('go'),
                { role: 'assistant', tool_calls: Array.from({ length: n }, () => called('a')) },
                answered('a', long),
                ...Array.from({ length: n - 1 }, () => answered('a', '')),
            ],
            ...small(r),
        });
    }),
    move(0, 'one id for many calls of a message', (r) => {
        const n = r.int(2, 40);
        const use = { type: 'tool_use', id: 'a', name: 'f', input: {} };
        const result = (content) => ({ type: 'tool_result', tool_use_id: 'a', content });
        return message(r.pick(OPENAI), {
            messages: [
                ...user('go'),
                { role: 'assistant', content: Array(n).fill(use) },
                {
                    role: 'user',
                    content: [result(words(r, 3000)), ...Array(n - 1).fill(result(''))],
                },
            ],
            ...small(r),
        });
    }),
    move(33, 'a mark of a cache, in the words of another API', (r) => {
        const prompt_cache_breakpoint = r.pick([
            {},
            { ttl: '30m' },
            { ttl: '12h' },
            { ttl: '1h' },
            { mode: 'explicit' },
        ]);
        const text = words(r, 4000);
        return r.chance(0.5)
            ? chat(r.pick(FOREIGN), {
                  messages: user([{ type: 'text', text, prompt_cache_breakpoint }]),
                  ...small(r),
              })
            : response(r.pick(['an-opus', 'an-haiku', 'gg-pro', 'or-write', 'oa-write']), {
                  input: user([{ type: 'input_text', text, prompt_cache_breakpoint }]),
                  max_output_tokens: 20,
              });
    }),
    move(23, 'a text in the place of an image', (r) =>
        message(r.pick([...OPENAI, 'an-opus']), {
            messages: user([
                {
                    type: r.pick(['image', 'document']),
                    source: { type: 'text', media_type: 'text/plain', data: dense(r, 3000) },
                },
            ]),
            ...small(r),
        }),
    ),
    move(24, 'a smaller picture, asked for where nobody looks', (r) => {
        const detail = 'low';
        const url = png(2000, 3000);
        const data = url.slice(url.indexOf(',') + 1);
        return r.pick([
            chat(r.pick(['oa-flat', 'oa-mini', 'or-write']), {
                messages: user([{ type: 'image_url', image_url: { url }, detail }]),
                ...small(r),
            }),
            chat(r.pick(['oa-flat', 'oa-mini']), {
                messages: user([
                    { type: 'image_url', image_url: { url, detail: 'high' }, detail },
                ]),
                ...small(r),
            }),
            message(r.pick(['oa-flat', 'oa-mini', 'or-write']), {
                messages: user([
                    {
                        type: 'image',
                        source: { type: 'base64', media_type: 'image/png', data, detail },
                        detail,
                    },
                ]),
                ...small(r),
            }),
            response(r.pick(['oa-flat', 'oa-mini']), {
                input: [{ role: 'user', detail, content: [{ type: 'input_image', image_url: url }] }],
                max_output_tokens: 20,
            }),
        ]);
    }),
    move(27, 'a video in the place of an image', (r) => {
        const type = r.pick(['video/mp4', 'application/pdf', 'audio/mpeg', 'IMAGE/png', '']);
        return r.chance(0.5)
            ? chat(r.pick([...FOREIGN, 'go-flash']), {
                  messages: user([
                      {
                          type: 'image_url',
                          image_url: { url: `data:${type};base64,${base64(300)}` },
                      },
                  ]),
                  ...small(r),
              })
            : message(r.pick(OPENAI), {
                  messages: user([
                      {
                          type: r.pick(['image', 'document']),
                          source: { type: 'base64', media_type: type, data: base64(300) },
                      },
                  ]),
                  ...small(r),
              });
    }),
    move(27, 'what may be a video, by its address', (r) =>
        chat(r.pick(['gg-pro', 'gg-lossy']), {
            messages: user([
                {
                    type: 'image_url',
                    image_url: {
                        url: r.pick([
                            'https://video.example/watch?v=a.png',
                            'https://video.example/a.pdf',
                            'https://video.example/a.mp4#.png',
                            'gs://bucket/a.png',
                        ]),
                    },
                },
            ]),
            ...small(r),
        }),
    ),
    move(35, 'max_tokens: 0, where others take that for none', (r) =>
        message(r.pick([...OPENAI, ...LOSSY]), { max_tokens: 0, stream: r.chance(0.5) }),
    ),
    move(42, 'a tool, and nothing else, at a provider that describes tools at length', (r) =>
        r.pick([
            chat('an-lossy', {
                tools: [{ type: 'function', function: { name: 'f' } }],
                ...small(r),
            }),
            response('an-lossy', {
                tools: [{ type: 'function', name: 'f' }],
                max_output_tokens: 20,
            }),
            message('an-lossy', { tools: [{ name: 'f', input_schema: {} }], ...small(r) }),
        ]),
    ),
    move(58, 'a tier by header, at a provider of another API', (r) =>
        chat(r.pick(['gg-pro', 'gg-lossy', 'go-flash']), small(r), {
            headers: { 'x-vertex-ai-llm-shared-request-type': 'priority' },
        }),
    ),
    move(1, 'a tier in the words of another API', (r) =>
        r.pick([chat, message])(r.pick([...FOREIGN, ...OPENAI]), {
            service_tier: r.pick(['priority', 'flex', 'auto', 'default', 'standard_only', 'fast']),
            ...small(r),
        }),
    ),
    move(0, 'a reply begun by the client, which is left out and comes back', (r) =>
        followed(
            (messages) => message(r.pick(LOSSY), { messages, max_tokens: 20 }),
            [...user(words(r, 4000)), { role: 'assistant', content: words(r, 8000) }],
            user('and?'),
        ),
    ),
    move(0, 'the same of a chat', (r) => {
        const model = r.pick(['gg-lossy', 'an-lossy']);
        return followed(
            (messages) => chat(model, { messages, max_tokens: 20 }),
            [...user(words(r, 4000)), { role: 'assistant', content: words(r, 8000) }],
            user('and?'),
        );
    }),
    move(0, 'a conversation that is continued at another API', (r) => {
        const model = r.pick(FOREIGN);
        return followed(
            (messages) => chat(model, { messages, max_tokens: 20 }),
            user(words(r, r.int(4000, 9000))),
            [
                { role: 'assistant', content: words(r, 200) },
                { role: 'user', content: dense(r, r.int(1, 500)) },
            ],
        );
    }),
    move(40, 'arguments that grow as they are written anew', (r) => {
        const odd = r.pick(['\u0001', '"', '\\', '\u00e9', '\u2028', '<']).repeat(r.int(1, 3000));
        return r.chance(0.5)
            ? message(r.pick(OPENAI), {
                  messages: [
                      ...user('go'),
                      {
                          role: 'assistant',
                          content: [{ type: 'tool_use', id: 'a', name: 'f', input: { a: odd } }],
                      },
                      {
                          role: 'user',
                          content: [{ type: 'tool_result', tool_use_id: 'a', content: odd }],
                      },
                  ],
                  ...small(r),
              })
            : chat(r.pick(FOREIGN), {
                  messages: [
                      ...user('go'),
                      { role: 'assistant', tool_calls: [called('a', 'f', odd)] },
                      answered('a', odd),
                  ],
                  ...small(r),
              });
    }),
    move(41, 'many small parts, which become messages', (r) => {
        const n = r.int(10, 200);
        const ids = Array.from({ length: n }, (_, i) => `c${i}`);
        return message(r.pick(OPENAI), {
            messages: [
                ...user('go'),
                {
                    role: 'assistant',
                    content: ids.map((id) => ({ type: 'tool_use', id, name: 'f', input: {} })),
                },
                {
                    role: 'user',
                    content: ids.map((id) => ({
                        type: 'tool_result',
                        tool_use_id: id,
                        is_error: true,
                        content: [
                            {
                                type: 'image',
                                source: {
                                    type: 'base64',
                                    media_type: 'image/png',
                                    data: base64(30),
                                },
                            },
                        ],
                    })),
                },
            ],
            ...small(r),
        });
    }),
    move(14, 'choices', (r) =>
        chat(r.pick(['gg-pro', 'gg-lossy', 'an-lossy']), { n: r.int(2, 8), ...small(r) }),
    ),
    move(12, 'an odd maximum at another API', (r) =>
        chat(r.pick(FOREIGN), {
            [r.pick(['max_tokens', 'max_completion_tokens'])]: r.pick([0, -1, 1e9, null, 2 ** 31]),
        }),
    ),
    move(11, 'a maximum that the server does not read', (r) =>
        chat('vl-lossy', {
            max_completion_tokens: r.int(1, 20),
            ...(r.chance(0.3) && { max_tokens: r.int(1, 300) }),
            stream: r.chance(0.5),
        }),
    ),
    move(59, 'effort at another API', (r) =>
        chat(
            r.pick(FOREIGN),
            { reasoning_effort: r.pick(['minimal', 'high', 'xhigh', 'max']), ...small(r) },
            { plan: { hidden: 0.9 } },
        ),
    ),
    move(59, 'a budget of thinking above the maximum', (r) =>
        message(
            r.pick(OPENAI),
            { thinking: { type: 'enabled', budget_tokens: 8000 }, ...small(r) },
            { plan: { hidden: 0.9 } },
        ),
    ),
    move(0, 'a form of the reply that is asked of another API', (r) =>
        chat(r.pick(FOREIGN), {
            response_format: r.pick([
                { type: 'json_object' },
                {
                    type: 'json_schema',
                    json_schema: { name: 'x', schema: { type: 'object', properties: {} } },
                },
            ]),
            ...small(r),
        }),
    ),
];
