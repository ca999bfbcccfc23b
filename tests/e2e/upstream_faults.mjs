/* upstream_faults.mjs - what a provider can do wrong, and what comes of it.
 *
 * For each fault: what the client gets, how often and with which keys the provider was asked, what
 * was charged, and what state the keys are left in. Nothing is ever tried again once a byte has
 * gone to the client.
 */
import assert from 'node:assert/strict';
import net from 'node:net';
import test from 'node:test';
import {
    chat,
    chatBody,
    events,
    json,
    keys,
    message,
    price,
    reason,
    SECRETS,
    send,
    until,
    world,
} from './kit.mjs';

const TWO = { keys: keys(2, { rpm: 100, tpm: 1000000 }) };

/* The mock knows both keys, and says which one it saw. */
const pair = (t, { script, ...change } = {}) =>
    world(t, { script, mock: ['--keys', SECRETS.join(',')], oai: TWO, ant: TWO, ...change });

const first = (n, action) => ({
    rules: [{ when: { path: '/v1/chat/completions', nth: n }, do: action }],
});

/* The keys of the calls that the mock saw; what the gateway asks on its own account is no call. */
async function asked(mock, n) {
    const seen = await until(`the mock has seen ${n} calls`, async () => {
        const now = await mock.seen();
        const posts = now.requests.filter((one) => one.method === 'POST');
        return posts.length >= n && now.begun === now.ended && posts;
    });
    assert.equal(seen.length, n, 'calls that the provider saw');
    return seen.map((one) => one.key);
}

async function served(gateway, reply) {
    assert.equal(reply.status, 200, String(reply.body));
    assert.equal((await gateway.spent()).micro_usd, price(json(reply).usage), 'charged once');
}

function isUpstreamError(reply, status, why) {
    assert.equal(reply.status, status, String(reply.body));
    assert.equal(reason(reply), why);
}

/* ---- before anything was sent ---- */

test('a connection that is refused: 502, nothing charged, the keys keep their calls', async (t) => {
    const gone = net.createServer();
    await new Promise((done) => gone.listen(0, '127.0.0.1', done));
    const base_url = `http://127.0.0.1:${gone.address().port}`;
    await new Promise((done) => gone.close(done));
    const { gateway } = await pair(t, { oai: { ...TWO, base_url } });

    isUpstreamError(await chat(gateway), 502, 'upstream_error');
    assert.equal((await gateway.spent()).micro_usd, 0);
    const left = await gateway.metrics('model="small"');
    assert.equal(left.key_rpm_remaining, 200);
    assert.equal(left.key_tpm_remaining, 2000000);
});

for (const [cause, base] of [
    ['refused', (mock, port) => `http://127.0.0.1:${port}`],
    ['name_not_found', () => 'http://no-such-name.invalid'],
    ['handshake', (mock) => mock.url.replace('http:', 'https:')] /* a plain-text port */,
])
    test(`attack 13: why a provider cannot be reached is logged and counted: ${cause}`, async (t) => {
        const gone = net.createServer();
        await new Promise((done) => gone.listen(0, '127.0.0.1', done));
        const port = gone.address().port;
        await new Promise((done) => gone.close(done));
        const { gateway, mock, config } = await pair(t, { small: { retries: 0 } });
        config.providers.oai.base_url = base(mock, port);
        await gateway.reload(config);

        assert.ok((await chat(gateway)).status >= 502);
        const line = await until('it is logged', () =>
            gateway.lines().find((one) => one.msg === 'request' && one.cause),
        );
        assert.ok(line.cause === cause || line.cause === `${cause}_timeout`, line.cause);
        const counted = await gateway.metric('upstream_failures_total', `cause="${line.cause}"`);
        assert.equal(counted, 1);
    });

/* ---- 429 ---- */

for (const [form, action] of [
    ['retry-after-ms', { retry_after_ms: 30000 }],
    ['retry-after in seconds', { retry_after: 30 }],
    ['retry-after as a date', { retry_after_date: '30s' }],
]) {
    test(`429 with ${form}: the other key serves, and the first one rests`, async (t) => {
        const { gateway, mock } = await pair(t, {
            script: first('1', { status: 429, ...action }),
        });
        const reply = await chat(gateway);

        const [a, b] = await asked(mock, 2);
        assert.notEqual(a, b);
        await served(gateway, reply);
        const rest = await gateway.metric('key_cooldown_seconds', `model="small",key="k${a}"`);
        assert.ok(rest > 20 && rest <= 31, `rests ${rest} s`);
        assert.equal(await gateway.metric('key_cooldown_seconds', `model="small",key="k${b}"`), 0);
        for (let i = 0; i < 5; i++) assert.equal((await chat(gateway)).status, 200);
        assert.deepEqual((await asked(mock, 7)).slice(2), [b, b, b, b, b]);
    });
}

test('429 of all keys: 429 with the wait, and nobody is asked until it is over', async (t) => {
    const { gateway, mock } = await pair(t, {
        script: { default: { status: 429, retry_after: 40 } },
    });
    const reply = await chat(gateway);

    isUpstreamError(reply, 429, 'no_key');
    const wait = Number(reply.headers['retry-after-ms']);
    assert.ok(wait > 30000 && wait <= 44000, `${wait}`);
    assert.equal(Number(reply.headers['retry-after']), Math.ceil(wait / 1000));
    isUpstreamError(await chat(gateway), 429, 'no_key');
    await asked(mock, 2);
    assert.equal((await gateway.spent()).micro_usd, 0);
});

test('429 of one key and no retry left: nobody is told to wait for that key', async (t) => {
    const { gateway, mock } = await pair(t, {
        script: first('1', { status: 429, retry_after: 40 }),
        small: { retries: 0 },
    });
    const reply = await chat(gateway);

    isUpstreamError(reply, 429, 'no_key');
    for (const header of ['retry-after', 'retry-after-ms', 'x-should-retry'])
        assert.equal(reply.headers[header], undefined, header);
    assert.equal((await chat(gateway)).status, 200, 'the other key is free');
    const [a, b] = await asked(mock, 2);
    assert.notEqual(a, b);
});

test('a model without a key that can serve: the fallback does', async (t) => {
    const { gateway, mock } = await pair(t, {
        small: { keys: [{ name: 'own', secret: SECRETS[0], rpm: 1 }], fallback: ['large'] },
        models: { large: { provider: 'oai', price: { input: 1, output: 2 } } },
    });
    for (let i = 0; i < 5; i++) {
        const reply = await chat(gateway);
        assert.equal(reply.status, 200, String(reply.body));
        assert.equal(reply.headers['x-tollgate-model'], i === 0 ? undefined : 'large');
    }
    await asked(mock, 5);
    await gateway.idle();
});

test('a key that is out of calls is told of by its wait, up to a minute', async (t) => {
    const { gateway } = await pair(t, { oai: { keys: keys(1, { rpm: 1 }) } });
    assert.equal((await chat(gateway)).status, 200);
    const reply = await chat(gateway);

    isUpstreamError(reply, 503, 'no_key');
    const wait = Number(reply.headers['retry-after-ms']);
    assert.ok(wait > 50000 && wait <= 61000, `${wait}`);
    assert.equal(reply.headers['x-should-retry'], undefined);
});

test('what failed attempts used counts for the limit of tokens', async (t) => {
    const { gateway, mock } = await pair(t, {
        script: first('1', { fault: 'hang' }),
        /* Calls are charged what they ask for. */
        small: { timeouts: { first_byte: '2s' }, overbook: { start: 1, min: 1, max: 1 } },
        tenant: { cost: { strategy: 'token_bucket', capacity: 100000, refill: 0.001 } },
    });
    const left = (reply) => Number(reply.headers['x-ratelimit-remaining-tokens']);
    const one = await chat(gateway, { stream: true });
    assert.equal(one.status, 200);
    await asked(mock, 2);
    const { input, output } = await gateway.spent();
    assert.equal(left(await chat(gateway)), left(one) - input - output);
});

test('keys of one group rest together', async (t) => {
    const { gateway, mock } = await pair(t, {
        script: { default: { status: 429, retry_after: 40 } },
        oai: { groups: { all: { rpm: 100 } }, keys: keys(2, { group: 'all' }) },
    });
    isUpstreamError(await chat(gateway), 429, 'no_key');
    await asked(mock, 1);
});

/* ---- 401 ---- */

test('401 of one key: the other serves; a key that its probe clears stays in use', async (t) => {
    const { gateway, mock } = await pair(t, { script: first('1', { status: 401 }) });
    const reply = await chat(gateway);

    const [a, b] = await asked(mock, 2);
    assert.notEqual(a, b);
    await served(gateway, reply);
    await until(
        'the key is healthy after its probe',
        async () => (await gateway.metric('key_state', 'model="small"', 'healthy')) === 2,
    );
});

test('401 of a key whose probe fails too: it is out, and calls go on with the other', async (t) => {
    const bad = { rules: [{ when: { key: SECRETS[0] }, do: { status: 401 } }] };
    const { gateway } = await pair(t, { script: bad });
    await until('the key is suspended', async () => {
        assert.equal((await chat(gateway)).status, 200);
        return (await gateway.metric('key_state', 'model="small",key="k1"', 'suspended')) === 1;
    });
    assert.equal(await gateway.metric('key_state', 'model="small",key="k2"', 'healthy'), 1);
});

for (const status of [401, 403]) {
    test(`${status} of all keys: 502 upstream_credentials, final, nothing charged`, async (t) => {
        const { gateway, mock } = await pair(t, { script: { default: { status } } });
        const reply = await chat(gateway);

        isUpstreamError(reply, 502, 'upstream_credentials');
        assert.equal(reply.headers['x-should-retry'], 'false');
        assert.equal(json(reply).error.code, 'upstream_credentials');
        const [a, b] = await asked(mock, 2);
        assert.notEqual(a, b);
        assert.equal((await gateway.spent()).micro_usd, 0);
    });
}

/* ---- 5xx ---- */

test('5xx once: the same key is tried again', async (t) => {
    const { gateway, mock } = await pair(t, { script: first('1', { status: 500 }) });
    const reply = await chat(gateway);

    const [a, b] = await asked(mock, 2);
    assert.equal(a, b);
    await served(gateway, reply);
    assert.equal((await gateway.metrics()).retries_total, 1);
});

test('5xx twice: then the other key', async (t) => {
    const { gateway, mock } = await pair(t, { script: first('1-2', { status: 503 }) });
    const reply = await chat(gateway);

    const [a, b, c] = await asked(mock, 3);
    assert.equal(a, b);
    assert.notEqual(b, c);
    await served(gateway, reply);
});

test('5xx without end: then the fallback, which the client is told of', async (t) => {
    const { gateway, mock } = await pair(t, {
        script: { rules: [{ when: { model: 'small' }, do: { status: 500 } }] },
        small: { fallback: ['hidden', 'large'] },
        models: {
            hidden: { provider: 'oai', price: { input: 9, output: 9 } },
            large: { provider: 'oai', price: { input: 3, output: 5 } },
        },
        tenant: { models: ['*', '!hidden'] },
    });
    const reply = await chat(gateway);

    assert.equal(reply.status, 200, String(reply.body));
    assert.equal(reply.headers['x-tollgate-model'], 'large');
    await asked(mock, 4);
    const { prompt_tokens, completion_tokens } = json(reply).usage;
    assert.equal((await gateway.spent()).micro_usd, 3 * prompt_tokens + 5 * completion_tokens);
    assert.equal((await gateway.metrics()).fallbacks_total, 1);
});

for (const n of [1, 2]) {
    test(`5xx without end, ${n} key(s): the provider's words reach the client`, async (t) => {
        const { gateway } = await pair(t, {
            script: { default: { status: 503, message: 'we are on fire' } },
            oai: { keys: keys(n) },
        });
        const reply = await chat(gateway);

        isUpstreamError(reply, 503, 'upstream_error');
        assert.match(json(reply).error.message, /on fire/);
        assert.equal((await gateway.spent()).micro_usd, 0);
    });
}

test('five failures in a row open the breaker: then nobody is asked', async (t) => {
    const { gateway, mock } = await pair(t, {
        script: { default: { status: 500 } },
        oai: { keys: keys(1) },
        small: { retries: 0 },
    });
    for (let i = 0; i < 5; i++) assert.equal((await chat(gateway)).status, 500);

    assert.equal(await gateway.metric('key_breaker_open', 'model="small"'), 1);
    isUpstreamError(await chat(gateway), 503, 'no_key');
    await asked(mock, 5);
});

test('429 and 400 end a run of failures', async (t) => {
    const { gateway, mock } = await pair(t, {
        script: {
            rules: [
                { when: { nth: '5' }, do: { status: 429, retry_after_ms: 1 } },
                { when: { nth: '9' }, do: { status: 400 } },
                { do: { status: 500 } },
            ],
        },
        oai: { keys: keys(1) },
        small: { retries: 0 },
    });
    for (let seen = 0; seen < 12; seen = (await mock.seen()).begun) await chat(gateway);
    assert.equal(await gateway.metric('key_breaker_open', 'model="small"'), 0);
});

test('without a retry budget nothing is tried twice', async (t) => {
    const { gateway, mock } = await pair(t, {
        script: { default: { status: 500 } },
        top: { retry_budget: { ratio: 0, min_per_s: 0 } },
    });
    assert.equal((await chat(gateway)).status, 500);
    await asked(mock, 1);
});

/* ---- the call's own fault ---- */

test('a 4xx of the call passes through as it is, once, for nothing', async (t) => {
    const { gateway, mock } = await pair(t, {
        script: { default: { status: 422, error_type: 'odd', message: 'no such voice' } },
    });
    const reply = await chat(gateway);
    const direct = await send(mock.url, '/v1/chat/completions', chatBody(), {
        headers: { authorization: `Bearer ${SECRETS[0]}` },
    });

    assert.equal(reply.status, 422);
    assert.equal(String(reply.body), String(direct.body));
    assert.equal(reason(reply), undefined);
    await asked(mock, 2);
    assert.equal((await gateway.spent()).micro_usd, 0);
});

/* ---- time-outs ---- */

test('no first byte in time: 504, and each attempt is charged what it may have written', async (t) => {
    const { gateway, mock } = await pair(t, {
        script: { default: { fault: 'hang' } },
        small: { retries: 1, timeouts: { first_byte: '100ms' } },
    });
    isUpstreamError(await chat(gateway, { stream: true }), 504, 'upstream_timeout');

    const [a, b] = await asked(mock, 2);
    assert.notEqual(a, b, 'a key that does not answer is not asked again');
    const spent = await gateway.spent();
    assert.equal(spent.calls, 2);
    assert.equal(spent.output, 2 * 16); /* all that they may write */
    assert.equal(spent.micro_usd, spent.input + 2 * spent.output, JSON.stringify(spent));
});

test('a whole reply that timed out is not asked for again, and its key is not blamed', async (t) => {
    const { gateway, mock } = await pair(t, {
        script: { default: { fault: 'hang' } },
        small: { retries: 3, timeouts: { reply: '100ms' }, breaker: { failures: 1 } },
    });
    for (let i = 0; i < 3; i++)
        isUpstreamError(await chat(gateway), 504, 'upstream_timeout');
    await asked(mock, 3);
    assert.equal((await gateway.spent()).calls, 3);
});

for (const [header, value] of [
    ['x-request-timeout-ms', '500'],
    ['x-stainless-timeout', '1'],
]) {
    test(`the caller's ${header} bounds all attempts together`, async (t) => {
        const { gateway, mock } = await pair(t, { script: { default: { fault: 'hang' } } });
        isUpstreamError(
            await chat(gateway, {}, { headers: { [header]: value } }),
            504,
            'upstream_timeout',
        );
        await gateway.idle();
        assert.ok((await mock.seen()).begun <= 1, 'no other was asked');
    });
}

test('an SDK waits so long for an answer to begin, and listens for longer', async (t) => {
    const { gateway } = await pair(t, { script: { default: { tokens: 50, pace: 20 } } });
    const more = { stream: true, max_tokens: 50 };
    const whole = chat(gateway, more, { headers: { 'x-stainless-timeout': '2' } });
    const cut = chat(gateway, more, { headers: { 'x-request-timeout-ms': '2000' } });

    assert.ok(events(await cut).pop().error, 'this one says when it has to be over');
    assert.match(String((await whole).body), /\[DONE\]/);
});

test('a stream that stalls ends with an error event, charged as far as it came', async (t) => {
    const { gateway, mock } = await pair(t, {
        script: { default: { fault: 'hang', at: 'event 8' } },
        small: { timeouts: { idle: '150ms' } },
    });
    const reply = await chat(gateway, { stream: true });

    assert.equal(reply.status, 200);
    assert.ok(events(reply).pop().error, String(reply.body).slice(-300));
    await asked(mock, 1);
    const spent = await gateway.spent();
    assert.ok(spent.output > 0 && spent.output <= 32, `${spent.output}`);
});

/* ---- after the first byte ---- */

for (const fault of ['close', 'reset', 'bad_chunk']) {
    test(`a stream that is cut (${fault}) ends with an error event, for good`, async (t) => {
        const { gateway, mock } = await pair(t, { script: { default: { fault, at: 'event 8' } } });
        const reply = await chat(gateway, { stream: true });

        assert.equal(reply.status, 200);
        assert.equal(reply.cut, false, 'the reply has a proper end');
        const last = events(reply).pop();
        assert.equal(last.error?.code, 'upstream_error', JSON.stringify(last));
        assert.ok(!String(reply.body).includes('[DONE]'));
        await asked(mock, 1);
        const spent = await gateway.spent();
        assert.equal(spent.calls, 1);
        assert.ok(spent.output > 0 && spent.output <= 32, `${spent.output}`);
    });
}

test('a streamed message that is cut ends with an error event of its API', async (t) => {
    const { gateway, mock } = await pair(t, {
        script: { default: { fault: 'close', at: 'event 8' } },
    });
    const reply = await message(gateway, { stream: true });

    assert.match(String(reply.body), /\nevent: error\ndata: \{"type":"error"[^\n]*\n\n$/);
    await asked(mock, 1);
});

test('a reply in one piece that is cut is cut for the client, and charged', async (t) => {
    const { gateway, mock } = await pair(t, {
        script: { default: { fault: 'close', at: 'byte 200' } },
    });
    const reply = await chat(gateway).catch((error) => ({ cut: true, error }));

    assert.ok(reply.cut, 'it must not look whole');
    await asked(mock, 1);
    assert.ok((await gateway.spent()).micro_usd > 0);
});

/* ---- an error inside a 200 ---- */

for (const [what, path, body, fault] of [
    ['chat', '/v1/chat/completions', { max_tokens: 16 }, 'error'],
    [
        'response',
        '/v1/responses',
        {
            input: 'hello there',
            messages: undefined,
            max_output_tokens: 16,
            max_tokens: undefined,
        },
        'failed',
    ],
]) {
    test(`a streamed ${what} that fails before its first event is tried again`, async (t) => {
        const script = { rules: [{ when: { nth: '1' }, do: { fault, at: 'head' } }] };
        const { gateway, mock } = await pair(t, { script });
        const reply = await send(gateway.url, path, chatBody({ ...body, stream: true }));

        assert.equal(reply.status, 200, String(reply.body));
        assert.ok(
            events(reply).every((event) => !event.error && event.type !== 'response.failed'),
        );
        await asked(mock, 2);
        assert.equal((await gateway.spent()).output, 16);
    });

    test(`a streamed ${what} that fails after its first event is passed on as it is`, async (t) => {
        const { gateway, mock } = await pair(t, { script: { default: { fault, at: 'event 6' } } });
        const reply = await send(gateway.url, path, chatBody({ ...body, stream: true }));

        assert.equal(reply.status, 200);
        assert.match(String(reply.body), /error|failed/);
        await asked(mock, 1);
        assert.equal((await gateway.spent()).calls, 1);
    });
}

test('bytes that are no HTTP are a 502, after the other attempts', async (t) => {
    const { gateway, mock } = await pair(t, { script: { default: { fault: 'garbage' } } });
    isUpstreamError(await chat(gateway), 502, 'upstream_error');
    await asked(mock, 3);
});

test('a connection that breaks instead of an answer is tried again', async (t) => {
    const { gateway, mock } = await pair(t, { script: first('1', { fault: 'reset' }) });
    await served(gateway, await chat(gateway));
    await asked(mock, 2);
});

/* ---- what it says it used ---- */

for (const stream of [false, true]) {
    const where = stream ? ' in a stream' : '';
    for (const usage of ['missing', 'null']) {
        test(`usage that is ${usage}${where}: charged by estimate, counted`, async (t) => {
            const { gateway } = await pair(t, { script: { default: { usage } } });
            assert.equal((await chat(gateway, { stream })).status, 200);

            const spent = await gateway.spent();
            assert.ok(
                spent.input > 0 && spent.output >= 8 && spent.output <= 32,
                JSON.stringify(spent),
            );
            assert.equal((await gateway.metrics()).usage_missing_total, 1);
        });
    }

    for (const usage of ['negative', 'absurd']) {
        test(`usage that is ${usage}${where}: what was reserved stands`, async (t) => {
            const hang = {
                rules: [{ when: { nth: '1' }, do: { fault: 'hang' } }],
                default: { usage },
            };
            const { gateway, mock } = await pair(t, { script: hang });
            const held = chat(gateway);
            held.catch(() => 0);
            await until('it is at the mock', async () => (await mock.seen()).begun === 1);
            const reserved = await gateway.metric('budget_reserved_micro_usd', 'tenant="one"');
            held.request.destroy();
            const before = (await gateway.spent()).micro_usd;
            assert.equal((await chat(gateway, { stream })).status, 200);

            assert.equal((await gateway.spent()).micro_usd - before, reserved);
            assert.equal((await gateway.metrics()).usage_absurd_total, 1);
        });
    }
}
