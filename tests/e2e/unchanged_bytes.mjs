/* unchanged_bytes.mjs - what the provider writes is what the client reads, however it was cut.
 *
 * The mock's answer follows from the request alone, so that the same request to the mock itself
 * says what has to arrive.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { chatBody, json, messageBody, price, SECRETS, send, sha256, world } from './kit.mjs';

const direct = (mock, path, body) =>
    send(mock.url, path, body, { headers: { authorization: `Bearer ${SECRETS[0]}` } });

const USAGE = { stream_options: { include_usage: true } };
const RESPONSE = { model: 'small', input: 'hello there', max_output_tokens: 8 };
const CALLS = [
    ['chat', '/v1/chat/completions', chatBody()],
    ['streamed chat', '/v1/chat/completions', chatBody({ stream: true, ...USAGE })],
    [
        'chat with a tool',
        '/v1/chat/completions',
        chatBody({
            stream: true,
            ...USAGE,
            tools: [
                { type: 'function', function: { name: 'look', parameters: { type: 'object' } } },
            ],
        }),
    ],
    ['completion', '/v1/completions', { model: 'small', prompt: 'hello', max_tokens: 8 }],
    [
        'streamed completion',
        '/v1/completions',
        { model: 'small', prompt: 'hello', max_tokens: 8, stream: true, ...USAGE },
    ],
    ['embedding', '/v1/embeddings', { model: 'small', input: ['one', 'two'] }],
    ['response', '/v1/responses', RESPONSE],
    ['streamed response', '/v1/responses', { ...RESPONSE, stream: true }],
    ['message', '/v1/messages', messageBody()],
    ['streamed message', '/v1/messages', messageBody({ stream: true })],
    ['count of tokens', '/v1/messages/count_tokens', messageBody({ max_tokens: undefined })],
];

for (const [what, path, body] of CALLS) {
    test(`${what}: the bytes of request and reply are those of client and provider`, async (t) => {
        const { gateway, mock } = await world(t);
        const text = JSON.stringify(body, null, 1); /* its own layout, which has to survive */
        const reply = await send(gateway.url, path, text);
        const expected = await direct(mock, path, text);

        assert.equal(reply.status, 200, String(reply.body));
        assert.equal(String(reply.body), String(expected.body));
        assert.equal(reply.headers['content-type'], expected.headers['content-type']);
        const [seen] = await mock.requests(2);
        assert.equal(seen.body_sha256, sha256(text));
        assert.equal(seen.path, path);
    });
}

test('a stream whose usage we asked for has every byte but that chunk', async (t) => {
    const { gateway, mock } = await world(t);
    const body = JSON.stringify(chatBody({ stream: true }));
    const reply = await send(gateway.url, '/v1/chat/completions', body);
    const [seen] = await mock.requests(1);
    const option = '"stream_options":{"include_usage":true}';
    const sent = [body.replace(/\}$/, `,${option}}`), body.replace(/^\{/, `{${option},`)].find(
        (text) => sha256(text) === seen.body_sha256,
    );
    assert.ok(sent, 'the body is the one that was sent, and the option');

    const expected = (await direct(mock, '/v1/chat/completions', sent)).body;
    const chunks = String(expected)
        .split('\n\n')
        .filter((event) => event.includes('"choices":[]'));
    assert.equal(chunks.length, 1);
    assert.equal(String(reply.body), String(expected).replace(`${chunks[0]}\n\n`, ''));
});

/* ---- cut anywhere ---- */

/* One rule for each position: the n-th request to come is the first to reach the n-th rule. */
const cuts = (n) => ({
    default: { tokens: 2 },
    rules: Array.from({ length: n }, (_, k) => ({
        when: { nth: '1' },
        do: { split: [k + 1, 1048576], split_wait: '1ms' },
    })),
});

for (const [what, path, body, asked] of [
    ['chat', '/v1/chat/completions', chatBody({ stream: true, ...USAGE }), true],
    ['chat whose usage we asked for', '/v1/chat/completions', chatBody({ stream: true }), false],
    ['message', '/v1/messages', messageBody({ stream: true }), true],
]) {
    test(`a streamed ${what}, cut at every byte, is unchanged and metered the same`, async (t) => {
        const { gateway, mock } = await world(t, { script: { default: { tokens: 2 } } });
        const whole = await send(gateway.url, path, body);
        const one = (await gateway.spent()).micro_usd;
        if (asked) assert.equal(String(whole.body), String((await direct(mock, path, body)).body));
        assert.ok(one > 0);

        const n = (await mock.requests(1))[0].sent_bytes - 1;
        await mock.script(cuts(n));
        let left = n;
        await Promise.all(
            Array.from({ length: 8 }, async () => {
                while (left-- > 0) {
                    const reply = await send(gateway.url, path, body);
                    assert.equal(String(reply.body), String(whole.body));
                }
            }),
        );
        const rules = new Set(
            (await mock.requests(n)).map((seen) => seen.rule).filter((rule) => rule),
        );
        assert.equal(rules.size, n, 'every position was cut at');
        assert.equal((await gateway.spent()).micro_usd, one * (n + 1));
    });
}

for (const split of [1, [1, 2, 3, 5, 7]]) {
    test(`streams in pieces of ${split} bytes are unchanged and metered the same`, async (t) => {
        const { gateway, mock } = await world(t, { script: { default: { tokens: 8, split } } });
        const sums = [];
        for (const [path, body] of [
            ['/v1/chat/completions', chatBody({ stream: true, ...USAGE })],
            ['/v1/responses', { ...RESPONSE, stream: true }],
            ['/v1/messages', messageBody({ stream: true })],
        ]) {
            const reply = await send(gateway.url, path, body);
            assert.equal(String(reply.body), String((await direct(mock, path, body)).body));
            sums.push((await gateway.spent()).output);
        }
        assert.deepEqual(sums, [8, 16, 24]);
    });
}

test('replies that come byte by byte are unchanged and metered the same', async (t) => {
    const { gateway, mock } = await world(t, { script: { default: { split: 1 } } });
    let sum = 0;
    for (const [path, body] of [
        ['/v1/chat/completions', chatBody()],
        ['/v1/messages', messageBody()],
    ]) {
        const reply = await send(gateway.url, path, body);
        assert.equal(String(reply.body), String((await direct(mock, path, body)).body));
        sum += price(json(reply).usage);
        assert.equal((await gateway.spent()).micro_usd, sum);
    }
});

/* ---- large ---- */

test('an image of 5 MB in base64 is not a million tokens', async (t) => {
    const cost = { strategy: 'token_bucket', capacity: 20000, refill: 1 };
    const { gateway, mock } = await world(t, { tenant: { cost }, small: { context: 128000 }, claude: { context: 128000 } });
    const data = Buffer.alloc(5 << 20, 'tollgate').toString('base64');
    const chat = chatBody({
        messages: [
            {
                role: 'user',
                content: [
                    { type: 'text', text: 'what is this' },
                    { type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } },
                ],
            },
        ],
    });
    const message = messageBody({
        messages: [
            {
                role: 'user',
                content: [
                    { type: 'image', source: { type: 'base64', media_type: 'image/png', data } },
                ],
            },
        ],
    });

    for (const [path, body] of [
        ['/v1/chat/completions', chat],
        ['/v1/messages', message],
    ]) {
        const reply = await send(gateway.url, path, body);
        assert.equal(reply.status, 200, String(reply.body).slice(0, 300));
    }
    const seen = await mock.requests(2);
    assert.deepEqual(
        seen.map((one) => one.body_sha256),
        [chat, message].map((body) => sha256(JSON.stringify(body))),
    );
});

test('a body above the limit is a 413, before it is read', async (t) => {
    const { gateway, mock } = await world(t, { top: { limits: { body: '64KiB' } } });
    const reply = await send(
        gateway.url,
        '/v1/chat/completions',
        chatBody({ messages: [{ role: 'user', content: 'x'.repeat(100000) }] }),
    );

    assert.equal(reply.status, 413);
    assert.equal((await mock.seen()).begun, 0);
    await gateway.idle();
});
