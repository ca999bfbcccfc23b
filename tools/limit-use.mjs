/* limit-use.mjs - how much of a token limit gets used through `tollgate serve`, with real sockets.
 *
 * usage: node tools/limit-use.mjs
 *
 * A gateway in front of a mock provider, with limits in memory, then in Redis (strict). Three tenants
 * at once have a limit of the same tokens a second: gcra, token_bucket, sliding_window. Each has more
 * clients than its limit can serve; one that is refused sleeps for `retry-after-ms` and some
 * milliseconds, then calls again. Calls take 2 s in the median and use 0.05, 0.3 or all of what they
 * ask for. The capacity is half of what refills during a call, the least with which a limit can be
 * used in full. Two figures for each, both from the mock's log:
 *
 *     use    tokens of calls that reached the provider, in percent of what the limit refilled
 *     span   the most, over all spans from the start on, that calls which began in it used above what
 *            refilled in it, in percent of the capacity; for windows: what they used in 9 of the 10
 *            buckets of a window. The gate promises at most 100, and what calls in flight use above
 *            their charge. All calls of a tenant use the same here, so that is a rounding: at most a
 *            token each
 *
 * SECONDS    the measured time of each run; default 20, after WARM, default 25
 * TOLLGATE   the program
 *
 * It measures in real time, and judges spans alone. Exit status: 1 if one exceeds the promise by more
 * than the rounding and what refills in SKEW_MS; else 0.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { Gateway, Mock, keys, pause, sha256 } from '../tests/e2e/kit.mjs';
import { Redis, stored } from '../tests/e2e/redis_kit.mjs';

const SECONDS = Number(process.env.SECONDS ?? 20);
const WARM = Number(process.env.WARM ?? 25);
const REFILL = 2000; /* tokens a second */
const CALL_MS = 2000;
const CAPACITY = (REFILL * CALL_MS) / 2000;
const BUCKETS = 10;
const USED = 40; /* tokens of a call, prompt included */
const CLIENTS = 130; /* of each tenant; 100 in flight use all of the limit */
const SKEW_MS = 50; /* between the gate's decision and the mock's log */
const PROMPT = 'x'.repeat(36); /* 10 tokens, with the role */
const window = `${(CAPACITY * 1000) / REFILL}ms`;

const limits = {
    gcra: { strategy: 'gcra', limit: REFILL, period: '1s', burst: CAPACITY },
    token_bucket: { strategy: 'token_bucket', capacity: CAPACITY, refill: REFILL },
    sliding_window: { strategy: 'sliding_window', limit: CAPACITY, window, buckets: BUCKETS },
};
const names = Object.keys(limits);

const configOf = (mock, folder, store) => ({
    listen: { gateway: '127.0.0.1:0', probe: '127.0.0.1:0' },
    workers: 1,
    log: { level: 'warn' },
    ledger: { path: path.join(folder, 'spend.db') },
    gate: { concurrency: { max: 2048 }, peers: { limit: 2048 } },
    providers: { mock: { base_url: mock.url, api: 'openai', keys: keys(1) } },
    /* The model tells the mock's log whose call it is. */
    models: Object.fromEntries(
        names.map((name) => [name, { provider: 'mock', price: { input: 1, output: 1 } }]),
    ),
    tenants: names.map((name) => ({
        name,
        keys: [{ name: 'main', sha256: sha256(`key of ${name}`) }],
        cost: limits[name],
    })),
    ...(store && { store, two_tier: { enabled: false }, store_timeout: '5s' }),
});

/* One client: calls again and again until the run is over. */
async function client(gateway, name, max_tokens, run) {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const body = JSON.stringify({
        model: name,
        max_tokens,
        messages: [{ role: 'user', content: PROMPT }],
    });
    const once = () =>
        new Promise((done, fail) => {
            const request = http.request(`${gateway.url}/v1/chat/completions`, {
                agent,
                method: 'POST',
                headers: {
                    authorization: `Bearer key of ${name}`,
                    'content-type': 'application/json',
                    'content-length': body.length,
                },
            });
            request.on('error', fail);
            request.on('response', (response) => {
                let text = '';
                response.on('data', (bytes) => (text += bytes));
                response.on('end', () => done({ response, text }));
            });
            request.end(body);
        });

    await pause(Math.random() * CALL_MS);
    while (!run.over) {
        const { response, text } = await once();
        if (response.statusCode === 200) {
            assert.equal(JSON.parse(text).usage.total_tokens, USED);
        } else if (response.statusCode === 429) {
            run.refused[name]++;
            const hint = Number(response.headers['retry-after-ms']);
            await pause(hint + Math.random() * (CALL_MS / 8));
        } else {
            throw new Error(`${name}: ${response.statusCode} ${text}`);
        }
    }
    agent.destroy();
}

/* The most tokens that a span has above its refill. Calls are in the order of their beginning. */
function mostOver(name, calls, used) {
    let most = 0;

    if (name === 'sliding_window') {
        /* Buckets are aligned to a clock that the mock does not tell, but 9 widths are within 10. */
        const width = ((BUCKETS - 1) * CAPACITY * 1000) / REFILL / BUCKETS;
        for (let first = 0, i = 0; i < calls.length; i++) {
            while (calls[first].begun_ms <= calls[i].begun_ms - width) first++;
            most = Math.max(most, (i - first + 1) * used);
        }
        return most;
    }
    for (let backlog = 0, before = 0, i = 0; i < calls.length; i++) {
        const refilled = ((calls[i].begun_ms - before) * REFILL) / 1000;
        backlog = Math.max(backlog - refilled, 0) + used;
        before = calls[i].begun_ms;
        most = Math.max(most, backlog);
    }
    return most;
}

async function measure(t, part, storeName) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-limit-use-'));
    t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
    const mock = await Mock.start(
        { default: { latency: `lognormal(${CALL_MS}ms, 0.3)`, tokens: USED - 10 } },
        ['--keep', '1000000'],
    );
    t.after(() => mock.stop());
    const redis = storeName === 'Redis' ? await Redis.start(t) : undefined;
    const gateway = await Gateway.start(configOf(mock, folder, redis?.url), folder);
    t.after(() => gateway.finish());
    if (redis) await stored(gateway, 'ok');

    /* A prompt is estimated before it is sent, and high: 0.05 is then the least that is learned. */
    const maxTokens = Math.max(Math.round(USED / part) - 50, USED - 10);
    const run = { over: false, refused: Object.fromEntries(names.map((name) => [name, 0])) };
    const clients = Promise.all(
        names.flatMap((name) =>
            Array.from({ length: CLIENTS }, () =>
                client(gateway, name, maxTokens, run),
            ),
        ),
    );
    await Promise.race([pause((WARM + SECONDS) * 1000), clients]);
    run.over = true;
    await clients;

    const log = (await mock.seen()).requests;
    const until = Math.max(...log.map((call) => call.begun_ms)) - 500;
    let kept = true;
    for (const name of names) {
        const calls = log
            .filter((call) => call.model === name)
            .sort((a, b) => a.begun_ms - b.begun_ms);
        const counted = calls.filter(
            (call) => call.begun_ms > until - SECONDS * 1000 && call.begun_ms <= until,
        );
        const use = (100 * counted.length * USED) / (REFILL * SECONDS);
        const over = mostOver(name, calls, USED);
        const span = (100 * over) / CAPACITY;
        kept &&= over <= CAPACITY + CLIENTS + (REFILL * SKEW_MS) / 1000;
        console.log(
            `| ${storeName} | ${name} | ${part} | ${use.toFixed(1)} | ${span.toFixed(1)} |` +
                ` ${calls.length} | ${run.refused[name]} |`,
        );
    }
    return kept;
}

let kept = true;
console.log('| store | limiter | used/asked | use, % | span, % of capacity | calls | refused |');
console.log('|---|---|---|---|---|---|---|');
for (const storeName of ['memory', 'Redis'])
    for (const part of [0.05, 0.3, 1]) {
        const after = [];
        try {
            kept = (await measure({ after: (end) => after.push(end) }, part, storeName)) && kept;
        } finally {
            for (const end of after.reverse()) await end();
        }
    }
process.exit(kept ? 0 : 1);
