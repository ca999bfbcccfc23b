/* hangups.mjs - a client that leaves, in every phase of its call.
 *
 * Each time: the upstream sees it, the call is charged once and for what may have been produced, and
 * all that it held is given back.
 */
import assert from 'node:assert/strict';
import net from 'node:net';
import test from 'node:test';
import { chat, chatBody, events, json, KEY, message, price, send, until, world } from './kit.mjs';

const HANG_FIRST = { rules: [{ when: { nth: '1' }, do: { fault: 'hang' } }] };
const PROMPT = 10; /* tokens that the prompt of chat() is estimated to have, at most */
const BOUND = 16; /* tokens that chat() may write: any speed but a stated one writes them at once */

const atMock = (mock, n) =>
    until(`${n} requests are at the mock`, async () => (await mock.seen()).begun >= n);

/* Leaves, and takes the error that it gets for it. */
async function leave(call) {
    call.catch(() => 0);
    call.request.destroy();
    await call.catch(() => 0);
}

test('while its body is on the way: nothing was asked, nothing is held', async (t) => {
    const { gateway, mock } = await world(t);
    const call = send(gateway.url, '/v1/chat/completions', undefined, {
        method: 'POST',
        open: true,
        headers: { 'content-type': 'application/json', 'content-length': 100000 },
    });
    call.catch(() => 0);
    call.request.write('{"model":"small","messages":[');
    await until('the body is held', async () => (await gateway.metric('buffered_bytes')) > 0);
    await leave(call);

    assert.equal((await gateway.spent()).calls, 0);
    assert.equal((await mock.seen()).begun, 0);
    assert.equal((await gateway.metrics()).hangups_total, 1);
});

for (const [where, metric, change] of [
    ['for its model', 'route_queued', { small: { concurrency: { law: 'none', max: 1 } } }],
    ['at the gate', 'concurrency_queued', {}],
]) {
    test(`queued ${where}: it leaves the queue, and the mock never hears of it`, async (t) => {
        const concurrency =
            metric === 'route_queued' ? {} : { law: 'none', max: 1, min: 1, initial: 1 };
        const { gateway, mock } = await world(t, {
            script: HANG_FIRST,
            top: { gate: { concurrency, queue: { size: 8, wait: { normal: '30s' } } } },
            ...change,
        });
        const first = chat(gateway);
        await atMock(mock, 1);
        const second = chat(gateway);
        await until('the second waits', async () => (await gateway.metric(metric)) === 1);
        await leave(second);
        await until('it waits no more', async () => (await gateway.metric(metric)) === 0);
        const third = chat(gateway);
        await until('the third waits', async () => (await gateway.metric(metric)) === 1);
        await leave(first);

        assert.equal((await third).status, 200, 'the slot goes to who waits');
        assert.equal((await mock.requests(2)).length, 2);
        const spent = await gateway.spent();
        assert.ok(spent.micro_usd <= price(json(await third).usage) + PROMPT + 2 * BOUND);
    });
}

test('while the gateway connects: the provider sees it, nothing is charged', async (t) => {
    const sockets = [];
    const silent = net.createServer((socket) => {
        socket.on('error', () => 0);
        socket.on('close', () => (socket.isOver = true));
        socket.resume();
        sockets.push(socket);
    });
    await new Promise((done) => silent.listen(0, '127.0.0.1', done));
    t.after(() => silent.close());
    const { gateway } = await world(t, {
        oai: { base_url: `https://127.0.0.1:${silent.address().port}` },
    });
    const call = chat(gateway);
    await until('it connects', () => sockets.length === 1);
    await leave(call);

    await until('the connection is given up', () => sockets[0].isOver);
    assert.equal((await gateway.spent()).micro_usd, 0);
});

for (const stream of [false, true]) {
    const what = stream ? ' of a stream' : '';
    test(`before the first byte${what}: aborted, charged what it may have written`, async (t) => {
        const { gateway, mock } = await world(t, { script: { default: { fault: 'hang' } } });
        const call = chat(gateway, { stream });
        await atMock(mock, 1);
        await leave(call);

        const [seen] = await mock.requests(1);
        assert.equal(seen.ended, 'aborted');
        assert.equal(seen.phase, 'before_headers');
        const spent = await gateway.spent();
        assert.equal(spent.calls, 1);
        assert.equal(spent.output, BOUND);
        assert.ok(spent.micro_usd <= PROMPT + 2 * BOUND, `${spent.micro_usd}`);
    });
}

for (const [what, one] of [
    ['chat', chat],
    ['message', message],
]) {
    test(`in a streamed ${what}: aborted, and no less than what was written is charged`, async (t) => {
        const stated = { most_tokens_per_s: 1000 }; /* twice as fast as the mock */
        const { gateway, mock } = await world(t, {
            script: { default: { tokens: 5000, pace: 500 } },
            small: stated,
            claude: stated,
        });
        let got = 0;
        const call = one(
            gateway,
            { stream: true, max_tokens: 5000 },
            {
                onData: (body, request) => {
                    got = String(body).split('\n\n').length - 1;
                    if (got >= 20) request.destroy();
                },
            },
        );
        await call.catch(() => 0);

        const [seen] = await mock.requests(1);
        assert.equal(seen.ended, 'aborted');
        assert.equal(seen.phase, 'events');
        assert.ok(seen.events < 5000);
        const spent = await gateway.spent();
        assert.equal(spent.calls, 1);
        assert.ok(
            spent.output >= 1000 && spent.output >= seen.events - 20 && spent.output <= 5000,
            `${spent.output} tokens for ${got} events read and ${seen.events} sent`,
        );
        assert.equal((await gateway.metrics()).hangups_total, 1);
    });
}

test('attack 1: whoever hangs up before the usage runs out of money all the same', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { default: { tokens: 5000, pace: 500 } },
        small: { most_tokens_per_s: 1000 },
        tenant: { budgets: [{ usd: 0.05, per: 'total' }] }, /* 5 calls of 5,000 tokens */
    });
    let refused;
    for (let i = 0; i < 40 && !refused; i++) {
        const call = chat(
            gateway,
            { stream: true, max_tokens: 5000 },
            { onData: (body, request) => String(body).includes('data:') && request.destroy() },
        );
        const reply = await call.catch(() => 0);
        if (reply.status === 402) refused = reply;
    }

    assert.equal(refused?.headers['x-tollgate-reason'], 'budget');
    const billed = (await mock.requests(1)).reduce((sum, seen) => sum + 2 * seen.events, 0);
    const spent = await gateway.spent();
    assert.ok(spent.micro_usd >= billed && spent.micro_usd <= 50000, `${spent.micro_usd}`);
});

test('between two attempts: no further one is made', async (t) => {
    const { gateway, mock } = await world(t, { script: { default: { status: 500 } } });
    const call = chat(gateway);
    await until('a retry was decided on', async () => (await gateway.metrics()).retries_total > 0);
    await leave(call);
    await gateway.idle();

    const asked = (await mock.requests(1)).length;
    assert.ok((await gateway.spent()).micro_usd <= PROMPT + 2 * BOUND);
    assert.equal((await chat(gateway, { model: 'nothing' })).status, 404);
    assert.equal((await mock.seen()).begun, asked, 'nobody goes on for a client that has left');
});

test('with on_disconnect: drain, the answer is read to its end and charged in full', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { default: { tokens: 100, pace: 400 } },
        oai: { on_disconnect: 'drain' },
    });
    const call = chat(
        gateway,
        { stream: true, max_tokens: 100 },
        {
            onData: (body, request) => request.destroy(),
        },
    );
    await call.catch(() => 0);

    assert.equal((await mock.requests(1))[0].ended, 'completed');
    const spent = await gateway.spent();
    assert.equal(spent.output, 100);
    assert.equal(spent.calls, 1);
});

test('after the last byte: it was served, and is charged once', async (t) => {
    const { gateway, mock } = await world(t);
    let sum = 0;
    for (const stream of [false, true]) {
        const more = stream ? { stream, stream_options: { include_usage: true } } : {};
        const call = chat(gateway, more);
        const reply = await call;
        call.request.destroy();
        sum += price((stream ? events(reply).pop() : json(reply)).usage);
    }

    assert.ok((await mock.requests(2)).every((seen) => seen.ended === 'completed'));
    const spent = await gateway.spent();
    assert.equal(spent.calls, 2);
    assert.equal(spent.micro_usd, sum);
    assert.equal((await gateway.metrics()).hangups_total, 0);
});

test('a connection that dies with requests in a pipe settles each of them once', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { rules: [{ when: { nth: '2' }, do: { fault: 'hang' } }] },
    });
    const body = JSON.stringify(chatBody());
    const one =
        `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${KEY}\r\n` +
        `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    const socket = net.connect(gateway.port, '127.0.0.1');
    socket.on('error', () => 0);
    socket.write(one + one + one);
    await atMock(mock, 2);
    socket.destroy();

    const seen = await mock.requests(2);
    assert.deepEqual(
        seen.map((request) => request.ended),
        ['completed', 'aborted'],
    );
    assert.equal((await gateway.spent()).calls, 2);
});

test('190 clients of 200 that leave at any moment leave nothing behind', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { seed: 1, default: { latency: 'exponential(20ms)', tokens: 20, pace: 400 } },
        oai: { keys: [{ name: 'k1', secret: 'sk-e2e-provider-secret-1', tpm: 9000000 }] },
    });
    await Promise.all(
        Array.from({ length: 200 }, async (_, i) => {
            const call = chat(gateway, { stream: i % 2 === 0, max_tokens: 20 });
            call.catch(() => 0);
            const leave = () => setTimeout(() => call.request.destroy(), (i * 37) % 100);
            if (i % 20) call.request.on('finish', leave);
            const reply = await call.catch(() => 0);
            if (i % 20 === 0) assert.equal(reply.status, 200, 'of those who stay');
        }),
    );
    await gateway.idle();

    const begun = (await mock.requests(10)).length;
    const spent = await gateway.spent();
    assert.ok(spent.calls >= 10 && spent.calls <= begun, `${spent.calls} charges of ${begun}`);
});
