/* dialect_fallbacks.mjs - one call, three providers that speak three APIs, and a client that notices nothing.
 *
 * The first model fails in each way in which one can before its first byte, and the call goes on at the
 * next: by its fallbacks, to an API that is not the client's. What the client gets has the form that it
 * would have had from the first; the ledger has one call, used at the price of the one that answered;
 * whoever leaves in any stage leaves nothing behind, by the metrics, the snapshot and the ledger.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { ADMIN_TOKEN, events, json, send, until, world } from './kit.mjs';

/* ---- clients ---- */

const HELLO = 'tell me of the gate';
const MOST = 24;

/* The model of the client's own API is asked first; then the two others. */
const CLIENTS = {
    chat: {
        path: '/v1/chat/completions',
        chain: ['by-chat', 'by-messages', 'by-gemini'],
        body: { messages: [{ role: 'user', content: HELLO }], max_completion_tokens: MOST },
        streamed: { stream: true, stream_options: { include_usage: true } },
        usage: ({ usage }) => usage && [usage.prompt_tokens, usage.completion_tokens],
        id: /^chatcmpl-/,
    },
    responses: {
        path: '/v1/responses',
        chain: ['by-responses', 'by-messages', 'by-gemini'],
        body: { input: HELLO, max_output_tokens: MOST, store: false },
        streamed: { stream: true },
        usage: (one) => {
            const { usage } = one.response ?? one;
            return usage && [usage.input_tokens, usage.output_tokens];
        },
        id: /^resp_/,
    },
    messages: {
        path: '/v1/messages',
        chain: ['by-messages', 'by-chat', 'by-gemini'],
        body: { messages: [{ role: 'user', content: HELLO }], max_tokens: MOST },
        streamed: { stream: true },
        usage: ({ usage, message }) => {
            const { input_tokens, output_tokens } = usage ?? message?.usage ?? {};
            return [input_tokens, output_tokens];
        },
        id: /^msg_/,
    },
};

const APIS = {
    'by-chat': ['openai-chat', '/v1/chat/completions'],
    'by-responses': ['openai-responses', '/v1/responses'],
    'by-messages': ['anthropic', '/v1/messages'],
    'by-gemini': ['gemini', '/v1beta/*'],
};

/* Each place in the chain has prices of its own, so that a charge tells who answered. */
const PRICES = [
    { input: 1000, output: 7000 },
    { input: 10, output: 70 },
    { input: 1, output: 2 },
];

/* A key that was refused rests: there are others for the calls behind it. */
const KEYS = Array.from({ length: 12 }, (_, i) => ({ name: `k${i}`, secret: `sk-fallback-${i}` }));

const chained = (t, chain, { script, patience = '400ms', ...more } = {}) =>
    world(t, {
        script,
        providers: ({ url }) =>
            Object.fromEntries(
                chain.map((model) => [
                    model,
                    { base_url: url, api: APIS[model][0], keys: KEYS },
                ]),
            ),
        models: () =>
            Object.fromEntries(
                chain.map((model, i) => [
                    model,
                    {
                        provider: model,
                        price: PRICES[i],
                        max_output_tokens: 4096,
                        context: 100000,
                        retries: 0,
                        breaker: { failures: 1000, open: '1s' },
                        timeouts: { first_byte: i < 2 ? patience : '60s' },
                        ...(i === 0 && { fallback: chain.slice(1) }),
                    },
                ]),
            ),
        listen: { admin: '127.0.0.1:0' },
        top: { admin_auth: { token: ADMIN_TOKEN } },
        ...more,
    });

const ask = (gateway, client, stream, options) =>
    send(
        gateway.url,
        client.path,
        { model: client.chain[0], ...client.body, ...(stream && client.streamed) },
        options,
    );

/* ---- what a client could tell by ---- */

/* Names and types of all members; of a list, its first. */
const shape = (value) =>
    Array.isArray(value)
        ? value.slice(0, 1).map(shape)
        : value !== null && typeof value === 'object'
          ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, shape(one)]))
          : typeof value;

const names = (events_) => [...new Set(events_.map(({ type, object }) => type ?? object))].sort();

/* The headers of a reply, but for what tells the time and the length. */
const heads = ({ headers }) =>
    Object.keys(headers)
        .filter((name) => !/^(date|content-length|x-tollgate-model|x-tollgate-attempts)$/.test(name))
        .sort();

/* What an event does not say holds from those before. */
const usageOf = (client, reply, stream) =>
    (stream ? events(reply) : [json(reply)])
        .map((one) => client.usage(one) ?? [])
        .reduce(([input, output], [i, o]) => [i ?? input, o ?? output], []);

/* ---- nothing is held ---- */

async function snapshot(gateway) {
    const listens = /127\.0\.0\.1:(\d+) \(admin\)/;
    const port = (await gateway.process.said(listens))[1];
    const reply = await send(`http://127.0.0.1:${port}`, '/api/v1/snapshot', undefined, {
        headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    });
    assert.equal(reply.status, 200);
    return json(reply);
}

/* Everything that was taken has been given back: by the metrics, the ledger, and the snapshot. */
async function expectNothingHeld(gateway) {
    const spent = await gateway.spent();
    const now = await until('the snapshot is of now', async () => {
        const seen = await snapshot(gateway);
        return seen.budgets.every((one) => one.reserved_micro_usd === 0) && seen;
    });
    assert.ok(now.keys.length > 0 && now.routes.length > 0 && now.budgets.length > 0);
    for (const key of now.keys) assert.deepEqual([key.in_flight, key.tokens_in_flight], [0, 0]);
    for (const route of now.routes) assert.equal(route.in_flight, 0);
    return spent;
}

/* ---- fallbacks ---- */

const FAILURES = {
    503: { status: 503 },
    429: { status: 429, retry_after_ms: 1 },
    'no first byte': { fault: 'hang' },
    'a break before the first byte': { fault: 'close' },
};

const failing = (models, what) => ({
    default: { tokens: 20 },
    rules: models.map((model) => ({ when: { path: APIS[model][1] }, do: what })),
});

for (const [name, client] of Object.entries(CLIENTS))
    for (const [why, failure] of Object.entries(FAILURES))
        test(`${name}: after ${why}, the next answers, and the client cannot tell`, async (t) => {
            const { gateway, mock } = await chained(t, client.chain, { script: failing([], {}) });
            const price = ([input, output], i) => PRICES[i].input * input + PRICES[i].output * output;
            let due = 0;
            let calls = 0;

            for (const stream of [false, true]) {
                await mock.script(failing([], {}));
                const own = await ask(gateway, client, stream);
                due += price(usageOf(client, own, stream), 0);
                calls++;
                /* A whole reply that does not come may be on its way: it is not asked for again. */
                if (failure.fault === 'hang' && !stream) continue;
                for (const place of [1, 2]) {
                    await mock.script(failing(client.chain.slice(0, place), failure));
                    const reply = await ask(gateway, client, stream);
                    assert.equal(reply.status, 200, String(reply.body));
                    assert.equal(reply.headers['x-tollgate-model'], client.chain[place]);
                    assert.deepEqual(heads(reply), heads(own));
                    assert.notEqual(
                        reply.headers['x-request-id'] ?? reply.headers['request-id'],
                        own.headers['x-request-id'] ?? own.headers['request-id'],
                    );
                    if (stream) {
                        assert.equal(String(reply.headers['content-type']), own.headers['content-type']);
                        const told = names(events(reply));
                        for (const one of told) assert.ok(names(events(own)).includes(one), one);
                    } else {
                        assert.match(json(reply).id, client.id);
                        assert.equal(json(reply).model, client.chain[0]);
                        const had = shape(json(own));
                        for (const key of Object.keys(shape(json(reply))))
                            assert.ok(key in had || key === 'service_tier', `${key} is new`);
                    }
                    const usage = usageOf(client, reply, stream);
                    assert.equal(usage[1], 20);
                    due += price(usage, place);
                    calls++;
                }
            }
            const spent = await expectNothingHeld(gateway);
            /* What an attempt without an answer may have cost stands in rows of its own: of one that was
             * cut for its time as spent, of one that broke off as uncertain. */
            if (failure.fault === 'hang') assert.equal(spent.calls, calls + 3);
            else assert.equal(spent.micro_usd, due, JSON.stringify(spent));
            if (failure.status) assert.equal(spent.calls, calls);
            assert.equal(spent.uncertain_micro_usd > 0, !failure.status);
        });

/* ---- hang-ups ---- */

const HANGS = { fault: 'hang' };
const SLOW = { tokens: 400, pace: 50 };

/* The stage that the call is in when its client leaves: how many requests the mock has seen by then. */
const STAGES = {
    'while the first is asked': { script: [HANGS], requests: 1 },
    'while the second is asked': { script: [{ status: 503 }, HANGS], requests: 2 },
    'while the third is asked': { script: [{ status: 503 }, { status: 429 }, HANGS], requests: 3 },
    'in the middle of the second': { script: [{ status: 503 }, SLOW], requests: 2, begun: true },
    'in the middle of the third': {
        script: [{ status: 503 }, { status: 503 }, SLOW],
        requests: 3,
        begun: true,
    },
};

for (const [name, client] of Object.entries(CLIENTS))
    test(`${name}: whoever leaves, in any stage, leaves nothing behind`, async (t) => {
        const { gateway, mock } = await chained(t, client.chain, { patience: '60s' });
        let calls = 0;
        for (const [stage, { script, requests, begun }] of Object.entries(STAGES)) {
            const before = (await mock.seen()).begun;
            await mock.script({
                rules: script.map((one, i) => ({
                    when: { path: APIS[client.chain[i]][1] },
                    do: one,
                })),
            });
            let heard = false;
            const call = ask(gateway, client, true, { onData: () => (heard = true) });
            call.catch(() => 0);
            await until(
                `${stage}: the mock is asked`,
                async () => (await mock.seen()).begun === before + requests && (!begun || heard),
            );
            call.request.destroy();
            await call.catch(() => 0);
            calls++;

            const spent = await expectNothingHeld(gateway);
            assert.equal(spent.calls, calls, stage);
            const seen = (await mock.requests(before + requests)).filter(({ id }) => id > before);
            assert.equal(seen.length, requests, stage);
            assert.equal(seen.at(-1).ended, 'aborted', stage);
        }
        assert.equal((await gateway.metrics()).hangups_total, calls);
    });
