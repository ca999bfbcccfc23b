/* odd_replies.mjs - replies that are HTTP, and yet not what an API's reply looks like.
 *
 * Here the provider is a socket, for what the mock would not say: bodies that are encoded although
 * nobody asked for it, ends that come too soon, connections that close while they are kept. Each
 * time the client gets what can be got, and what was used is charged, or what it may have been.
 */
import assert from 'node:assert/strict';
import net from 'node:net';
import test from 'node:test';
import zlib from 'node:zlib';
import { chat, events, json, keys, message, reason, until, world } from './kit.mjs';

const ANSWER = JSON.stringify({
    id: 'x',
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content: 'good day' } }],
    usage: { prompt_tokens: 10, completion_tokens: 3, total_tokens: 13 },
});
const PRICED = 10 + 2 * 3;
const BOUND = 16; /* tokens that chat() allows */

const reply = (body, fields = '', status = '200 OK', type = 'application/json') =>
    Buffer.concat([
        Buffer.from(
            `HTTP/1.1 ${status}\r\ncontent-type: ${type}\r\n${fields}` +
                `content-length: ${Buffer.byteLength(body)}\r\n\r\n`,
        ),
        Buffer.from(body),
    ]);
const stream = (body, fields) => reply(body, fields, '200 OK', 'text/event-stream');

/* A provider that gives `answer(socket, n, nth)` for its n-th request, the nth of that connection:
 * bytes to be sent, or nothing. `world.asked()` says how many there were. */
async function provider(t, answer, change = {}) {
    let n = 0;
    const sockets = new Set();
    const server = net.createServer((socket) => {
        let got = '';
        let nth = 0;
        sockets.add(socket);
        socket.on('error', () => 0);
        socket.on('data', (bytes) => {
            got += bytes.toString('latin1');
            for (;;) {
                const end = got.indexOf('\r\n\r\n');
                const length = Number(/content-length: (\d+)/.exec(got)?.[1] ?? 0);
                if (end < 0 || got.length < end + 4 + length) return;
                const head = got.slice(0, end);
                got = got.slice(end + 4 + length);
                const said = answer(socket, ++n, ++nth, head);
                if (said) socket.write(said);
            }
        });
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    t.after(() => {
        server.close();
        for (const socket of sockets) socket.destroy();
    });
    const base_url = `http://127.0.0.1:${server.address().port}`;
    const made = await world(t, {
        ...change,
        top: { workers: 1, ...change.top },
        oai: { base_url, ...change.oai },
        ant: { base_url, ...change.ant },
    });
    return { ...made, asked: () => n };
}

/* ---- heads that are kept back ---- */

for (const [what, body] of [
    ['one event that no line ends', 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}'],
    ['nothing but comments', ': a\n\n: b\n\n'],
    ['nothing at all', ''],
]) {
    test(`a stream of ${what} keeps its head`, async (t) => {
        const { gateway } = await provider(t, () => stream(body, 'x-odd: kept\r\n'));
        for (let i = 0; i < 3; i++) {
            const call = await chat(gateway, { stream: true });
            assert.equal(call.status, 200);
            assert.equal(call.headers['content-type'], 'text/event-stream');
            assert.equal(call.headers['x-odd'], 'kept');
            assert.equal(String(call.body), body);
        }
        await gateway.idle();
    });
}

/* ---- bodies that cannot be read ---- */

for (const [what, body, fields] of [
    ['packed', zlib.gzipSync(ANSWER), 'content-encoding: gzip\r\n'],
    ['no JSON', '<html>good day</html>', ''],
    ['an array', `[${ANSWER}]`, ''],
]) {
    test(`a reply that is ${what} arrives as it is, charged by estimate`, async (t) => {
        const { gateway } = await provider(t, () => reply(body, fields));
        const call = await chat(gateway);

        assert.equal(call.status, 200);
        assert.deepEqual(call.body, Buffer.from(body));
        const spent = await gateway.spent();
        assert.equal(spent.output, BOUND, 'what nobody can read may have been all of it');
        assert.equal((await gateway.metrics()).usage_missing_total, 1);
    });
}

test('a model whose replies never say what was used is warned of once', async (t) => {
    const { gateway } = await provider(t, () => reply('{"choices":[]}'));
    const said = () => gateway.process.out.split('do not say what was used').length - 1;
    for (let i = 0; i < 19; i++) assert.equal((await chat(gateway)).status, 200);
    assert.equal((await gateway.metrics()).usage_missing_total, 19);
    assert.equal(said(), 0);
    for (let i = 0; i < 6; i++) assert.equal((await chat(gateway)).status, 200);
    await gateway.process.said(/"model":"small","provider":"\w+","replies":20/);
    await gateway.stop('SIGTERM');
    assert.equal(gateway.output.split('do not say what was used').length - 1, 1);
});

test('a stream that is packed arrives as it is, as it comes, charged by estimate', async (t) => {
    const body = zlib.gzipSync('data: {"choices":[]}\n\ndata: [DONE]\n\n');
    let socket;
    const { gateway } = await provider(t, (connection) => {
        socket = connection;
        return stream(body, 'content-encoding: gzip\r\n').subarray(0, -1);
    });
    let seen = 0;
    const call = chat(gateway, { stream: true }, { onData: (bytes) => (seen = bytes.length) });
    await until('it has all that was sent', () => seen === body.length - 1);
    socket.write(body.subarray(-1));

    assert.equal((await call).headers['content-encoding'], 'gzip');
    assert.deepEqual((await call).body, body);
    assert.equal((await gateway.spent()).output, BOUND);
});

test('a byte order mark before a reply hides nothing', async (t) => {
    const { gateway } = await provider(t, () => reply(`\ufeff${ANSWER}`));
    assert.equal((await chat(gateway)).status, 200);
    assert.equal((await gateway.spent()).micro_usd, PRICED);
});

test('many header fields leave room for ours', async (t) => {
    const many = Array.from({ length: 180 }, (_, i) => `x-n${i}: ${i}\r\n`).join('');
    const { gateway } = await provider(t, () => reply(ANSWER, many));
    const call = await chat(gateway);

    assert.equal(call.status, 200);
    assert.equal(call.headers['content-type'], 'application/json');
    assert.ok(call.headers['x-request-id']);
    assert.equal(call.headers['x-n0'], '0');
});

for (const [what, body, fields, type] of [
    ['a page', '<html>bad gateway</html>', '', 'text/html'],
    ['packed', zlib.gzipSync('{"error":{}}'), 'content-encoding: gzip\r\n', 'application/json'],
]) {
    test(`a 503 that is ${what} becomes an error that SDKs can read`, async (t) => {
        const { gateway } = await provider(t, () =>
            reply(body, fields, '503 Service Unavailable', type),
        );
        const call = await chat(gateway);
        assert.equal(call.status, 502);
        assert.equal(json(call).error.code, 'upstream_error');
        assert.ok(call.headers['x-request-id']);
    });
}

test('a 400 that is packed arrives as it is', async (t) => {
    const body = zlib.gzipSync('{"error":{}}');
    const { gateway } = await provider(t, () =>
        reply(body, 'content-encoding: gzip\r\n', '400 Bad Request'),
    );
    const call = await chat(gateway);
    assert.equal(call.status, 400);
    assert.deepEqual(call.body, body);
    assert.equal(call.headers['content-encoding'], 'gzip');
});

/* ---- ends ---- */

for (const [what, head] of [
    ['HTTP/1.1', 'HTTP/1.1 200 OK\r\n'],
    ['HTTP/1.0', 'HTTP/1.0 200 OK\r\n'],
    ['HTTP/1.1 without a word for its status', 'HTTP/1.1 200\r\n'],
]) {
    test(`a reply of ${what} that the connection ends is whole`, async (t) => {
        const { gateway } = await provider(t, (socket) => {
            socket.end(`${head}content-type: application/json\r\n\r\n${ANSWER}`);
        });
        for (let i = 1; i < 3; i++) {
            assert.equal(String((await chat(gateway)).body), ANSWER);
            assert.equal((await gateway.spent()).micro_usd, i * PRICED);
        }
    });
}

test('informational replies before the reply are passed over', async (t) => {
    const hints = 'HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n';
    const { gateway } = await provider(t, () =>
        Buffer.concat([Buffer.from(hints), reply(ANSWER)]),
    );
    const call = await chat(gateway);
    assert.equal(String(call.body), ANSWER);
    assert.equal(call.headers.link, undefined);
});

for (const end of ['end', 'resetAndDestroy']) {
    test(`a new connection that closes (${end}) for an answer: 502, for nothing`, async (t) => {
        const { gateway, asked } = await provider(t, (socket) => void socket[end](), {
            small: { retries: 0 },
        });
        const call = await chat(gateway);

        assert.equal(call.status, 502);
        assert.equal(reason(call), 'upstream_error');
        assert.equal(asked(), 1);
        assert.equal((await gateway.spent()).micro_usd, 0, 'as for a 5xx: it says that it failed');
    });

    test(`a kept connection that closes (${end}) for an answer is replaced`, async (t) => {
        const { gateway, asked } = await provider(
            t,
            (socket, n, nth) => (nth < 2 ? reply(ANSWER) : void socket[end]()),
            { small: { retries: 0, breaker: { failures: 1, open: '60s' } } },
        );
        for (let i = 1; i < 4; i++) {
            assert.equal(String((await chat(gateway)).body), ANSWER);
            assert.equal((await gateway.spent()).micro_usd, i * PRICED, 'charged once each');
        }
        assert.equal(asked(), 5, 'each call after the first was sent twice');
        assert.equal(await gateway.metric('key_breaker_open', 'model="small"'), 0);
    });
}

test('a kept connection is replaced once, and then it is a failure', async (t) => {
    const kept = [];
    const { gateway, asked } = await provider(
        t,
        (socket, n, nth) => {
            if (nth === 1 && n <= 2) return void kept.push(socket);
            if (nth === 1) return reply(ANSWER);
            socket.end();
        },
        { small: { retries: 0 } },
    );
    const two = [chat(gateway), chat(gateway)];
    await until('two connections are open', () => kept.length === 2);
    for (const socket of kept) socket.write(reply(ANSWER));
    await Promise.all(two);

    assert.equal((await chat(gateway)).status, 502);
    assert.equal(asked(), 4);
});

/* ---- time ---- */

test('nothing is asked elsewhere when the time of the caller is over', async (t) => {
    const { gateway, asked } = await provider(t, () => undefined, {
        small: { fallback: ['large'] },
        models: { large: { provider: 'oai', price: { input: 100, output: 100 } } },
    });
    const call = await chat(gateway, {}, { headers: { 'x-request-timeout-ms': '1000' } });

    assert.equal(call.status, 504);
    await until('it was asked', () => asked() > 0);
    const spent = await gateway.spent();
    assert.equal(asked(), 1);
    assert.equal(spent.calls, 1);
    assert.equal(spent.micro_usd, spent.input + 2 * 16); /* it may have written that by then */
});

/* ---- keys without money ---- */

const BROKE = JSON.stringify({
    type: 'error',
    error: {
        type: 'invalid_request_error',
        message: 'Your credit balance is too low to access the API.',
    },
});

for (const [what, one, status] of [
    ['402 of a provider', chat, '402 Payment Required'],
    ['400 that says so', message, '400 Bad Request'],
]) {
    test(`a key that is out of money (${what}) rests, and the other serves`, async (t) => {
        const seen = [];
        const { gateway } = await provider(
            t,
            (socket, n, nth, head) => {
                seen.push(/secret-(\d)/.exec(head)[1]);
                return seen.at(-1) === seen[0] ? reply(BROKE, '', status) : reply(ANSWER);
            },
            { oai: { keys: keys(2) }, ant: { keys: keys(2) } },
        );
        for (let i = 0; i < 4; i++) assert.equal((await one(gateway)).status, 200);
        assert.equal(seen.filter((key) => key === seen[0]).length, 1);
    });
}

test('a 400 of the call itself arrives as it is', async (t) => {
    const { gateway, asked } = await provider(t, () =>
        reply('{"error":{"message":"no"}}', 'x-odd: kept\r\n', '400 Bad Request'),
    );
    const call = await message(gateway);

    assert.equal(call.status, 400);
    assert.equal(String(call.body), '{"error":{"message":"no"}}');
    assert.equal(call.headers['x-odd'], 'kept');
    assert.equal(asked(), 1);
    assert.equal((await gateway.spent()).micro_usd, 0);
});

test('a 400 of the call itself arrives whole, however long it is', async (t) => {
    const body = JSON.stringify({ error: { message: 'no '.repeat(100000) } });
    const { gateway } = await provider(t, () => reply(body, '', '400 Bad Request'));
    const call = await chat(gateway);

    assert.equal(call.status, 400);
    assert.equal(String(call.body), body);
    assert.equal((await gateway.spent()).micro_usd, 0);
});

/* ---- what fails in its midst ---- */

test('a stream that says that it failed is a failure of its key', async (t) => {
    const said =
        'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n' +
        'data: {"error":{"type":"server_error","message":"x"}}\n\n';
    const { gateway } = await provider(t, () => stream(said), {
        small: { breaker: { failures: 2, open: '60s' } },
    });
    for (let i = 0; i < 2; i++) {
        const call = await chat(gateway, { stream: true });
        assert.equal(call.status, 200);
        assert.ok(events(call).pop().error);
        await gateway.idle();
    }
    assert.equal(await gateway.metric('key_breaker_open', 'model="small"'), 1);
});
