/* logs.mjs - what whoever is on call can read: a line a request, events, and recorded arrivals.
 *
 * Lines are written by a thread of their own, some time after their call has been answered: so each
 * test waits for the line it wants.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import {
    chat,
    HELLO,
    json,
    KEY,
    PRICE,
    price,
    reason,
    SECRETS,
    send,
    until,
    world,
} from './kit.mjs';

const line = (gateway, what, match) =>
    until(`a line: ${what}`, () => gateway.lines().find(match));

const requestLine = (gateway, reply) =>
    line(
        gateway,
        'of the request',
        /* The provider's own id, where it has one. */
        (one) => (one.upstream_id ?? one.id) === reply.headers['x-request-id'],
    );

/* ---- requests ---- */

test('a call that was served: who, what, by whom, how long, for how much', async (t) => {
    const { gateway } = await world(t, {
        tenant: { users: { from: 'header:x-tollgate-user', each: { rpm: 100 } } },
        top: { aliases: { fast: 'small' } },
    });
    const reply = await chat(
        gateway,
        { model: 'fast' },
        { headers: { 'x-tollgate-user': 'u "1"', 'x-stainless-retry-count': '1' } },
    );
    assert.equal(reply.status, 200);
    const usage = json(reply).usage;
    const seen = await requestLine(gateway, reply);

    assert.equal(seen.level, 'info');
    assert.equal(seen.msg, 'request');
    assert.ok(Math.abs(Date.parse(seen.time) - Date.now()) < 600000, seen.time);
    for (const [name, value] of Object.entries({
        endpoint: 'chat',
        tenant: 'one',
        key: 'main',
        user: 'u "1"',
        priority: 'normal',
        model: 'fast',
        served_by: 'small',
        provider: 'oai',
        provider_key: 'k1',
        status: 200,
        upstream_status: 200,
        ended: 'done',
        attempts: 1,
        client_retry: true,
        generation: 1,
        input_tokens: usage.prompt_tokens,
        output_tokens: usage.completion_tokens,
        usage: 'reported',
        micro_usd: price(usage),
        max_output_tokens: 16,
        bytes_out: reply.body.length,
    }))
        assert.equal(seen[name], value, name);
    for (const name of [
        'waited_ms',
        'overhead_us',
        'ttfb_ms',
        'upstream_ms',
        'total_ms',
        'estimated_input_tokens',
        'reserved_micro_usd',
        'bytes_in',
    ])
        assert.ok(Number.isInteger(seen[name]) && seen[name] >= 0, `${name}: ${seen[name]}`);
    for (const name of ['reason', 'axis', 'would_deny', 'failure', 'fallback_why', 'sampled'])
        assert.ok(!(name in seen), name);
    assert.ok(seen.reserved_micro_usd >= seen.micro_usd, 'what was reserved was enough');
});

test('a call that was refused: why, by which axis, and what the client was told', async (t) => {
    const { gateway } = await world(t, {
        tenant: { rate: { strategy: 'gcra', limit: 1, period: '60s' } },
    });
    await chat(gateway);
    const reply = await chat(gateway);
    assert.equal(reply.status, 429);
    const seen = await requestLine(gateway, reply);
    assert.equal(seen.status, 429);
    assert.equal(seen.reason, 'rate');
    assert.equal(seen.axis, 'rate');
    assert.ok(seen.retry_after_ms > 0 && seen.retry_after_ms <= 60000, `${seen.retry_after_ms}`);
    assert.equal(seen.attempts, 0);
    assert.ok(!('provider_key' in seen) && !('micro_usd' in seen));
});

test('a limit in shadow: the call is served, and the line says what would have been', async (t) => {
    const { gateway } = await world(t, {
        tenant: {
            rate: { strategy: 'gcra', limit: 1, period: '60s', mode: 'shadow' },
        },
    });
    for (let i = 0; i < 3; i++) assert.equal((await chat(gateway)).status, 200);
    await until('three lines', () => gateway.lines().length === 3);
    const said = gateway.lines().map((one) => one.would_deny);
    assert.deepEqual(said.sort(), ['rate', 'rate', undefined]);
});

test('retries and a fallback: how many, from where, and why', async (t) => {
    const { gateway } = await world(t, {
        script: {
            rules: [{ when: { model: 'small' }, do: { status: 500 } }],
        },
        small: { fallback: ['other'], retries: 1 },
        models: { other: { provider: 'oai', price: PRICE } },
    });
    const reply = await chat(gateway);
    assert.equal(reply.status, 200, String(reply.body));
    const seen = await requestLine(gateway, reply);
    assert.equal(seen.attempts, 3);
    assert.equal(seen.retries, 2);
    assert.equal(seen.model, 'small');
    assert.equal(seen.served_by, 'other');
    assert.equal(seen.fallback_from, 'small');
    assert.equal(seen.fallback_why, 'server');
});

test('a client that leaves: in which phase, and what it is charged', async (t) => {
    const { gateway, mock } = await world(t, { script: { default: { fault: 'hang' } } });
    const call = chat(gateway);
    call.catch(() => 0);
    await until('the provider has it', async () => (await mock.seen()).begun === 1);
    call.request.destroy();
    const seen = await line(gateway, 'a hang-up', (one) => one.ended === 'hangup_asking');
    assert.equal(seen.phase, 'asking');
    assert.equal(seen.usage, 'estimated');
    assert.ok(!('status' in seen));
});

test('no line has a prompt in it, an answer, or a secret', async (t) => {
    const { gateway } = await world(t, {
        script: { rules: [{ when: { nth: '2' }, do: { status: 400 } }] },
        top: { log: { level: 'debug', format: 'text' } },
    });
    const marked = [{ role: 'user', content: 'prompt-marker-1' }, ...HELLO];
    const served = await chat(gateway, { messages: marked });
    const answer = json(served).choices[0].message.content;
    assert.ok(answer.length > 8);
    await chat(gateway, { messages: marked });
    await chat(gateway, { messages: marked, max_tokens: 'no number' });
    await send(gateway.url, '/v1/chat/completions', '{"model":"small","prompt-marker-2');
    await send(gateway.url, `/v1/nothing?key=${SECRETS[0]}`, '{}');
    await gateway.finish(); /* the world looks for secrets in it */
    assert.equal(gateway.output.match(/msg=request/g).length, 5);
    for (const said of ['prompt-marker', answer, 'hello there'])
        assert.ok(!gateway.output.includes(said), said);
});

test('text: one line each, whatever a client chose', async (t) => {
    const { gateway } = await world(t, { top: { log: { format: 'text' } } });
    await chat(gateway, { model: 'a b="c"\nmsg=request level=error\u001b[2J' });
    await until('the line', () => /msg=request/.test(gateway.process.out));
    const written = gateway.process.out.split('\n').filter((one) => one.startsWith('time='));
    assert.equal(written.length, 1);
    assert.match(written[0], / model="a b=\\"c\\"\\u000amsg=request level=error\\u001b\[2J" /);
});

/* What is sent is no request: all that comes back, once the connection is closed. */
const sendBytes = (gateway, bytes) =>
    new Promise((done, fail) => {
        const socket = net.connect(gateway.port, '127.0.0.1', () => socket.write(bytes));
        let text = '';
        socket.on('data', (part) => (text += part));
        socket.on('end', () => socket.end());
        socket.on('error', fail);
        socket.on('close', () => done(text));
    });

test('what is not HTTP, or too large for it, has a line too', async (t) => {
    const { gateway } = await world(t);
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${KEY}\r\n`;
    for (const [bytes, status, words] of [
        ['no request at all\r\n\r\n', 400, /./],
        [`GET / HTTP/1.1\r\nhost: x\r\nx-large: ${'x'.repeat(70000)}\r\n\r\n`, 431, /header/],
        [`${head}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`, 400, /./],
    ]) {
        const before = gateway.lines().length;
        const reply = await sendBytes(gateway, bytes);
        const got = Number(/^HTTP\/1.1 (\d+)/.exec(reply)[1]);
        await until('its line', () => gateway.lines().length > before);
        const seen = gateway.lines()[before];
        assert.equal(seen.status, got);
        assert.ok(got === status || got === 501, reply);
        assert.equal(seen.reason, 'invalid_request');
        assert.match(seen.failure, words);
        assert.equal(seen.ended, 'client_error');
    }
    /* Of one that has begun the call tells, and nobody else. */
    await sendBytes(gateway, `${head}transfer-encoding: chunked\r\n\r\nnothing\r\n`);
    await until('its line', () => gateway.lines().length === 4);
    await chat(gateway);
    await until('the last line', () => gateway.lines().length >= 5);
    assert.equal(gateway.lines().length, 5);
    assert.equal(gateway.lines()[3].tenant, 'one');
    const counted = await gateway.metric('requests_total', 'reason="invalid_request"');
    assert.equal(counted, 3);
});

/* ---- many refusals ---- */

test('many refusals leave few lines, which stand for all of them', async (t) => {
    const { gateway } = await world(t, {
        tenant: { rate: { strategy: 'gcra', limit: 1, period: '1h' } },
    });
    const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
    t.after(() => agent.destroy());
    const replies = await Promise.all(
        Array.from({ length: 1500 }, () => chat(gateway, {}, { agent })),
    );
    const refused = replies.filter((reply) => reply.status === 429).length;
    assert.equal(refused, 1499);
    await gateway.finish();
    const said = gateway.lines().filter((one) => one.reason === 'rate');
    const sum = said.reduce((all, one) => all + (one.sampled ?? 1), 0);
    assert.equal(sum, refused, 'no refusal is forgotten');
    assert.ok(said.length < refused, `${said.length} lines for ${refused}`);
});

/* ---- a reader that does not read ---- */

test('a stderr that nobody reads delays no call', async (t) => {
    const { gateway } = await world(t);
    const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
    t.after(() => agent.destroy());
    gateway.process.child.stderr.pause();
    /* More lines than a pipe takes and Node reads ahead. */
    for (let i = 0; i < 10; i++) {
        const some = Array.from({ length: 60 }, () => chat(gateway, {}, { agent }));
        for (const reply of await Promise.all(some)) assert.equal(reply.status, 200);
    }
    gateway.process.child.stderr.resume();
    await until('the lines come', () => gateway.lines().length >= 600);
});

/* ---- events ---- */

test('memory pressure: the event, its words and its fields', async (t) => {
    const tiny = { pressure: 0.000001, critical: 0.000002, limit: 0.000003 };
    const { gateway } = await world(t, {
        top: { gate: { memory: { ...tiny, poll: '10ms' } } },
    });
    await until('memory has been read', async () => (await chat(gateway)).status === 503);
    const seen = await line(
        gateway,
        'the event',
        (one) => one.msg === 'request rejected: memory pressure',
    );
    assert.equal(seen.level, 'warn');
    assert.equal(seen.priority, 'normal');
    assert.equal(seen.peer, 'one');
    assert.match(seen.memory, /^\d+\.\d%$/);
    assert.ok(await line(gateway, 'the request', (one) => one.reason === 'memory_pressure'));
});

test('a peer above its limit: the event, its words and its fields', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { default: { fault: 'hang' } },
        top: { gate: { peers: { limit: 1 } } },
    });
    const first = chat(gateway);
    first.catch(() => 0);
    await until('the provider has it', async () => (await mock.seen()).begun === 1);
    const reply = await chat(gateway);
    assert.equal(reason(reply), 'peer_limit');
    const seen = await line(
        gateway,
        'the event',
        (one) => one.msg === 'request rejected: peer limit exceeded',
    );
    first.request.destroy();
    assert.equal(seen.level, 'warn');
    assert.deepEqual([seen.peer, seen.current, seen.limit], ['one', 1, 1]);
});

test('a step of vegas: the event, at level debug', async (t) => {
    const server = http.createServer((request, response) => response.end('here'));
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    t.after(() => server.close());
    const upstream = `http://127.0.0.1:${server.address().port}`;
    const { gateway } = await world(t, {
        top: {
            log: { level: 'debug' },
            protect: [
                {
                    prefix: '/api',
                    upstream,
                    concurrency: {
                        initial: 8,
                        min: 8,
                        max: 64,
                        window: '10ms',
                        vegas: { min_utilisation: 0 },
                    },
                },
            ],
        },
    });
    const isStep = (one) => one.msg === 'vegas concurrency adjustment';
    await until('a step', async () => {
        assert.equal((await send(gateway.url, '/api/x')).status, 200);
        return gateway.lines().some(isStep);
    });
    const seen = gateway.lines().find(isStep);
    assert.equal(seen.level, 'debug');
    assert.equal(seen.gate, 'protect /api');
    assert.notEqual(seen.old_limit, seen.new_limit);
    assert.match(seen.queue_estimate, /^-?\d+\.\d$/);
    assert.ok(Number.isInteger(seen.avg_latency_ms) && Number.isInteger(seen.min_latency_ms));
});

test('another configuration: a line says which, and the log follows it', async (t) => {
    const { gateway, config } = await world(t, { top: { log: { level: 'warn' } } });
    await chat(gateway);
    gateway.write({ ...config, nonsense: 1 });
    gateway.hangUp();
    const refused = await line(gateway, 'it stays', (one) => /stays as it is/.test(one.msg));
    assert.deepEqual([refused.level, refused.why, refused.generation], ['error', 'SIGHUP', 1]);
    const problem = gateway.lines().find((one) => one.msg === 'error in the configuration');
    assert.match(problem.text, /nonsense/);
    assert.equal(problem.file, gateway.file);

    gateway.write({ ...config, log: { level: 'info' } });
    gateway.hangUp();
    const read = await line(gateway, 'it is read', (one) => /was read again/.test(one.msg));
    assert.equal(read.generation, 2);
    assert.match(read.hash, /^[0-9a-f]{64}$/);
    assert.ok(!gateway.lines().some((one) => one.msg === 'request'), 'not at warn');
    const reply = await chat(gateway);
    assert.equal((await requestLine(gateway, reply)).generation, 2);
});

/* ---- recording ---- */

const record = (t) => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-record-'));
    t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
    return path.join(folder, 'arrivals.jsonl');
};

test('arrivals are recorded: their time, size and end, and no contents', async (t) => {
    const file = record(t);
    const { gateway } = await world(t, {
        serve: ['--record', file],
        tenant: { rate: { strategy: 'gcra', limit: 2, period: '60s' } },
    });
    const before = Date.now();
    const replies = [];
    for (const stream of [false, true, false]) replies.push(await chat(gateway, { stream }));
    await gateway.finish();
    const all = fs
        .readFileSync(file, 'utf8')
        .trim()
        .split('\n')
        .map((one) => JSON.parse(one))
        .filter((one) => one.id); /* not its first line, nor what the gateway did by itself */
    /* Each worker writes its own: whoever needs an order sorts. */
    const seen = [
        all.find((one) => one.status === 200 && !one.stream),
        all.find((one) => one.status === 200 && one.stream),
        all.find((one) => one.status === 429),
    ];

    assert.equal(all.length, 3);
    assert.equal(new Set(all.map((one) => one.id)).size, 3);
    for (const one of seen) {
        assert.match(one.id, /^req_[0-9a-f]{16}$/);
        assert.ok(one.t >= before - 5000 && one.t <= Date.now() + 5000);
        assert.deepEqual(
            [one.tenant, one.model, one.priority, one.value],
            ['one', 'small', 'normal', 1],
        );
        assert.ok(one.input_tokens > 0);
        assert.equal(one.max_output_tokens, 16);
        assert.equal(one.cost, one.input_tokens + 16);
        assert.ok(one.latency_ms >= 0);
    }
    assert.equal(seen[0].output_tokens, json(replies[0]).usage.completion_tokens);
    assert.equal(seen[2].reason, 'rate');
    assert.equal(seen[2].id, replies[2].headers['x-request-id']);
    const text = fs.readFileSync(file, 'utf8');
    for (const said of ['hello there', KEY, ...SECRETS]) assert.ok(!text.includes(said));
});

test('a file that cannot be written: it does not start, and says why', async (t) => {
    const { gateway } = await world(t);
    const program = path.resolve(process.env.TOLLGATE ?? 'build/tollgate');
    const [code, said] = await new Promise((done) =>
        execFile(
            program,
            ['serve', '-c', gateway.file, '--record', '/nowhere/at/all'],
            (error, out, err) => done([error?.code ?? 0, err]),
        ),
    );
    assert.equal(code, 2);
    assert.match(said, /\/nowhere\/at\/all.*No such file/);
});

/* ---- keys ---- */

/* The states that the log says a key went through, without those in between. */
const states = (gateway, key) =>
    gateway
        .lines()
        .filter((line) => line.msg.startsWith('the state of a provider') && line.key === key)
        .map((line) => line.new_state);

test('D14 a key that cools, whose breaker opens or that is suspended leaves a line', async (t) => {
    const when = (model, action) => ({ when: { path: '/v1/chat/completions', model }, do: action });
    const other = { provider: 'oai', price: PRICE, max_output_tokens: 4096, retries: 0 };
    const { gateway, mock } = await world(t, {
        script: {
            rules: [
                when('cools', { status: 429, retry_after: 2 }),
                when('breaks', { status: 500 }),
            ],
        },
        mock: ['--keys', SECRETS[0]],
        small: { retries: 0 },
        models: {
            cools: other,
            breaks: { ...other, breaker: { failures: 1, open: '1s' } },
            revoked: { ...other, keys: [{ name: 'bad', secret: SECRETS[1] }] },
        },
    });
    assert.equal((await chat(gateway, { model: 'cools' })).status, 429);
    await until('it cools', () => states(gateway, 'k1').includes('cooling'));
    await until('it has cooled', () => states(gateway, 'k1').at(-1) === 'healthy');
    assert.equal((await chat(gateway, { model: 'breaks' })).status, 500);
    await until('its breaker is half open', () =>
        states(gateway, 'k1').includes('breaker_half_open'),
    );
    assert.equal((await chat(gateway, { model: 'revoked' })).status, 502);
    await until('it is suspended', () => states(gateway, 'bad').includes('suspended'));
    const line = gateway.lines().find((one) => one.new_state === 'cooling');
    assert.equal(line.provider, 'oai');
    assert.equal(line.model, 'cools');
    assert.equal(line.old_state, 'healthy');
    assert.equal(states(gateway, 'bad').length, 1, 'one line for a key, however many models');
    assert.ok(mock);
});
