/* mishaps.mjs - everything that can go wrong, at once and by chance.
 *
 * A provider that answers, limits, fails, breaks off, packs and cuts its replies anywhere; clients
 * that cut their requests anywhere, stop in their midst, leave at any moment, close their sending
 * half, or send the next call before they have read the last. Nobody looks at single replies here:
 * when all have gone, nothing may be held, memory and ledger have to agree, and the gateway has to
 * end well. What is chosen follows from the seed; in which order it comes about does not.
 */
import assert from 'node:assert/strict';
import net from 'node:net';
import test from 'node:test';
import zlib from 'node:zlib';
import { chatBody, KEY, pause, SECRETS, send, world } from './kit.mjs';

const SEED = Number(process.env.TG_SEED ?? 20261115);
const VISITS = 250;
const CLIENTS = 24;

/* Numbers from 0 to 1; the generator is Mulberry32. */
function chance(seed) {
    let state = seed >>> 0;
    const next = () => {
        state = (state + 0x6d2b79f5) >>> 0;
        let x = Math.imul(state ^ (state >>> 15), state | 1);
        x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
        return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
    };
    next.below = (n) => Math.floor(next() * n);
    next.of = (list) => list[next.below(list.length)];
    return next;
}

/* In pieces of any size, now and then with a pause between two. */
async function write(socket, bytes, random) {
    for (let at = 0; at < bytes.length && !socket.destroyed; ) {
        const n = random.of([1, 7, 100, 5000, bytes.length]);
        socket.write(bytes.subarray(at, at + n));
        at += n;
        if (random() < 0.2) await pause(random.below(4));
    }
}

/* ---- the provider ---- */

const USAGE = { prompt_tokens: 10, completion_tokens: 3, total_tokens: 13 };
const ANSWER = JSON.stringify({
    choices: [{ index: 0, message: { role: 'assistant', content: 'good day' } }],
    usage: USAGE,
});
const event = (data) => `data: ${JSON.stringify(data)}\n\n`;
const text = (n) => event({ choices: [{ index: 0, delta: { content: 'x'.repeat(n) } }] });

const whole = (body, { status = '200 OK', type = 'application/json', fields = '' } = {}) =>
    Buffer.concat([
        Buffer.from(
            `HTTP/1.1 ${status}\r\ncontent-type: ${type}\r\n${fields}` +
                `content-length: ${Buffer.byteLength(body)}\r\n\r\n`,
        ),
        Buffer.from(body),
    ]);

function stream(random) {
    let body = '';
    if (random() < 0.1) body += event({ error: { type: 'overloaded_error' } });
    for (let n = random.below(20); n > 0; n--) body += text(1 + random.below(2000));
    if (random() < 0.1) body += event({ error: { type: 'server_error' } });
    body += event({ choices: [], usage: USAGE });
    if (random() < 0.8) body += 'data: [DONE]\n\n';
    if (random() < 0.1) body = body.slice(0, random.below(body.length));
    if (random() < 0.3) return whole(body, { type: 'text/event-stream' });
    let bytes =
        'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n' +
        'transfer-encoding: chunked\r\n\r\n';
    for (let at = 0; at < body.length; ) {
        const piece = body.slice(at, at + 1 + random.below(3000));
        bytes += `${piece.length.toString(16)}\r\n${piece}\r\n`;
        at += piece.length;
    }
    return Buffer.from(`${bytes}0\r\n\r\n`);
}

/* What a call gets, and whether the connection ends with it, and how. */
function answer(random, body) {
    const good = () => (body.includes('"stream":true') ? stream(random) : whole(ANSWER));
    const error = (status, words, fields) => [whole(words, { status, fields })];
    const gzip = { fields: 'content-encoding: gzip\r\n', type: 'text/event-stream' };
    const choices = [
        [0.04, () => [Buffer.alloc(0), 'resetAndDestroy']],
        [0.04, () => [Buffer.alloc(0), 'end']],
        [0.03, () => [Buffer.from('this is not HTTP\r\n\r\n'), 'end']],
        [0.03, () => error('429 Limited', '{"error":{}}', 'retry-after-ms: 5\r\n')],
        [0.05, () => error('500 Failed', '{"error":{"message":"x"}}')],
        [0.02, () => error('400 Bad', '{"error":{"message":"x"}}')],
        [0.02, () => [whole(zlib.gzipSync(ANSWER), gzip)]],
        [0.02, () => [null]],
        [0.05, () => [good().subarray(0, -1 - random.below(20)), 'end']],
        [0.05, () => [good().subarray(0, -1 - random.below(20)), 'resetAndDestroy']],
    ];
    let at = random();
    for (const [part, what] of choices) if ((at -= part) < 0) return what();
    return [good()];
}

async function start(t) {
    let n = 0;
    const sockets = new Set();
    const serve = async (socket) => {
        let got = '';
        for await (const bytes of socket.iterator({ destroyOnReturn: false })) {
            got += bytes.toString('latin1');
            const end = got.indexOf('\r\n\r\n');
            const length = Number(/content-length: (\d+)/.exec(got)?.[1] ?? 0);
            if (end < 0 || got.length < end + 4 + length) continue;
            const random = chance(SEED + 7919 * ++n);
            const [said, ending] = answer(random, got.slice(end));
            got = got.slice(end + 4 + length);
            if (said) await write(socket, said, random);
            if (ending && !socket.destroyed) socket[ending]();
        }
    };
    const server = net.createServer((socket) => {
        sockets.add(socket);
        socket.on('error', () => 0);
        socket.on('close', () => sockets.delete(socket));
        serve(socket).catch(() => socket.destroy());
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    t.after(() => {
        server.close();
        for (const socket of sockets) socket.destroy();
    });
    return { url: `http://127.0.0.1:${server.address().port}`, asked: () => n };
}

/* ---- the clients ---- */

function request(random) {
    const kind = random();
    const head = (line, more) =>
        `${line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${KEY}\r\n${more}`;
    if (kind < 0.1) return head('GET /v1/models', '\r\n');
    if (kind < 0.2) return head('POST /api/x', `content-length: 5000\r\n\r\n${'x'.repeat(5000)}`);
    if (kind < 0.25) return head('POST /nowhere', 'content-length: 5\r\n\r\nhello');
    const content = 'x'.repeat(random.of([1, 100, 20000]));
    const more = { stream: random() < 0.5, messages: [{ role: 'user', content }] };
    const body = JSON.stringify(chatBody(more));
    return head('POST /v1/chat/completions', `content-length: ${body.length}\r\n\r\n${body}`);
}

/* One connection with some calls. */
async function visit(gateway, random) {
    const socket = net.connect(gateway.port, '127.0.0.1');
    let bytes = 0;
    socket.on('error', () => 0);
    socket.on('data', (piece) => (bytes += piece.length));
    for (let n = 1 + random.below(3); n > 0 && !socket.destroyed; n--) {
        const whole = Buffer.from(request(random).repeat(random() < 0.1 ? 2 : 1));
        const before = bytes;
        const cut = random() < 0.15 ? random.below(whole.length) : whole.length;
        await write(socket, whole.subarray(0, cut), random);
        if (random() < 0.1) socket.end();
        const until = Date.now() + random.of([0, 5, 50, 400]);
        while (Date.now() < until && !socket.destroyed && (bytes === before || random() < 0.7))
            await pause(2);
    }
    socket.destroy(); /* a reset, where something was not read */
}

for (const on_disconnect of ['abort', 'drain']) {
    test(`whatever happens, nothing is left (${on_disconnect}, seed ${SEED})`, async (t) => {
        const provider = await start(t);
        const model = {
            timeouts: { first_byte: '200ms', reply: '200ms', idle: '300ms', total: '3s' },
            breaker: { failures: 1000 },
            concurrency: { law: 'none', max: 12 },
        };
        const keys = SECRETS.map((secret, i) => ({ name: `k${i + 1}`, secret }));
        const { gateway } = await world(t, {
            oai: { base_url: provider.url, keys, on_disconnect },
            small: { ...model, fallback: ['large'] },
            models: { large: { provider: 'oai', price: { input: 1, output: 2 }, ...model } },
            top: {
                gate: { concurrency: {}, queue: { size: 64 }, peers: { limit: 1024 } },
                retry_budget: { ratio: 1, min_per_s: 1000 },
                protect: [{ prefix: '/api', upstream: provider.url }],
                log: { level: 'error' },
            },
        });
        let left = VISITS;
        await Promise.all(
            Array.from({ length: CLIENTS }, async () => {
                while (left > 0) await visit(gateway, chance(SEED + left--));
            }),
        );
        assert.ok(provider.asked() > VISITS / 4, `${provider.asked()} requests were made`);
        const spent = await gateway.spent(); /* which looks that all is given back, and agrees */
        assert.ok(spent.calls > 0);
        const { status } = await send(gateway.url, '/v1/models');
        assert.equal(status, 200);
    });
}
