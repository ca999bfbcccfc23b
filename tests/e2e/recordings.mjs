/* recordings.mjs - what `serve --record` wrote is decided by `replay` as it was, or it says why not.
 *
 *   RECORDED_CALLS   calls of the long run; default 700 each, in memory and on Redis
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { chat, keys, KEY, OTHER_KEY, SECRETS, sha256, tenant, until, world } from './kit.mjs';
import { Redis } from './redis_kit.mjs';

const PROGRAM = path.resolve(process.env.TOLLGATE ?? 'build/tollgate');
const CALLS = Number(process.env.RECORDED_CALLS ?? 700);
const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 1e9));
const THIRD_KEY = 'tg-e2e-virtual-key-of-tenant-three';

/* Numbers between 0 and 1 (mulberry32). */
function chance(seed) {
    return () => {
        seed = (seed + 0x6d2b79f5) | 0;
        let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
}

function recordingFile(t) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-recording-'));
    if (process.env.KEEP === undefined) t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
    else console.log(`# ${folder}`);
    return path.join(folder, 'day.jsonl');
}

function run(...args) {
    return new Promise((done) =>
        execFile(PROGRAM, args, { maxBuffer: 1 << 30 }, (error, out, err) =>
            done({ code: error?.code ?? 0, out, err }),
        ),
    );
}

/* The calls, and the summary of each run of serve. */
async function replayed(config, file) {
    const { code, out, err } = await run('replay', '-c', config, file);
    assert.equal(code, 0, err);
    const lines = out.trim().split('\n').map((line) => JSON.parse(line));
    return {
        calls: lines.filter((line) => line.id),
        summaries: lines.filter((line) => line.calls !== undefined),
        err,
    };
}

const recordedLines = (file) =>
    fs.readFileSync(file, 'utf8').split('\n').filter((line) => line).map((line) => JSON.parse(line));

/* Everything that decides: limits of all kinds, waits, fallbacks, budgets, keys that cool and break. */
const busy = {
    script: {
        seed: 7,
        default: { latency: 'exponential(8ms)', tokens: 12, pace: 2000 },
        rules: [
            { when: { model: 'small', chance: 0.03 }, do: { status: 429, headers: { 'retry-after-ms': '150' } } },
            { when: { model: 'small', chance: 0.04 }, do: { status: 500 } },
            { when: { chance: 0.01 }, do: { status: 503 } },
        ],
    },
    small: {
        concurrency: { law: 'none', max: 12 },
        fallback: ['spare'],
        breaker: { failures: 3, open: '300ms' },
    },
    models: {
        spare: { provider: 'oai', price: { input: 1, output: 2 }, max_output_tokens: 4096,
            concurrency: { law: 'vegas', initial: 6, min: 2, max: 8, window: '100ms' } },
    },
    oai: { keys: keys(2, { rpm: 6000, tpm: 600000 }) },
    tenants: [
        { name: 'dept', rate: { strategy: 'gcra', limit: 300, period: '1s', burst: 100 } },
        { ...tenant({ parent: 'dept', weight: 3 }),
            cost: { strategy: 'token_bucket', capacity: 20000, refill: 30000 } },
        { name: 'two', parent: 'dept', keys: [{ name: 'main', sha256: sha256(OTHER_KEY) }],
            concurrency: 6, priority: 'high',
            budgets: [{ usd: 0.004, per: 'day' }, { usd: 100, per: 'month' }],
            limits: [{ rpm: 3000 }, { models: ['small'], rpm: 2000 }] },
        { name: 'three', keys: [{ name: 'main', sha256: sha256(THIRD_KEY) }], priority: 'normal',
            rate: { strategy: 'sliding_window', limit: 60, window: '1s' },
            users: { from: 'header:x-user', max: 100, each: { rpm: 600, budgets: [{ usd: 0.01, per: 'day' }] } } },
    ],
    top: {
        gate: {
            concurrency: { law: 'none', max: 40 },
            queue: { size: 16, wait: { high: 'auto', normal: 'auto', low: 'auto' } },
            peers: { limit: 24 },
        },
        budgets: [{ usd: 1000, per: 'month' }],
    },
};

/* So many calls of three tenants, at most `open` at once; some leave. */
async function load(gateway, n, open = 48) {
    const random = chance(SEED);
    const agent = new http.Agent({ keepAlive: true, maxSockets: open });
    let begun = 0;
    const one = () =>
        new Promise((done) => {
            const who = random();
            const body = JSON.stringify({
                model: random() < 0.8 ? 'small' : 'spare',
                messages: [{ role: 'user', content: 'x'.repeat(1 + 400 * random()) }],
                max_tokens: 1 + Math.floor(200 * random()),
                stream: random() < 0.4,
                ...(random() < 0.2 && { user: `u${Math.floor(4 * random())}` }),
            });
            const request = http.request(`${gateway.url}/v1/chat/completions`, {
                agent,
                method: 'POST',
                headers: {
                    authorization: `Bearer ${who < 0.4 ? KEY : who < 0.7 ? OTHER_KEY : THIRD_KEY}`,
                    'content-type': 'application/json',
                    'content-length': Buffer.byteLength(body),
                    'x-user': `user-${Math.floor(5 * random())}`,
                    ...(random() < 0.3 && { 'x-request-timeout-ms': '40' }),
                },
            });
            const leaves = random() < 0.05;
            request.on('error', () => done());
            request.on('response', (response) => {
                response.on('data', () => leaves && request.destroy());
                response.on('end', () => done());
                response.on('error', () => done());
                response.on('close', () => done());
            });
            request.end(body);
            if (leaves && random() < 0.5) setTimeout(() => request.destroy(), 3);
        });
    const worker = async () => {
        while (begun++ < n) await one();
    };
    await Promise.all(Array.from({ length: open }, worker));
    agent.destroy();
}

function tally(lines) {
    const by = {};
    for (const line of lines) by[line.decision] = (by[line.decision] ?? 0) + 1;
    return JSON.stringify(by);
}

/* The recording of a gateway that has ended, which has this configuration. */
async function isDecidedAlike(gateway, file, causes = {}) {
    const recorded = recordedLines(file).filter((line) => line.id);
    if (process.env.KEEP !== undefined) fs.copyFileSync(gateway.file, `${file}.yaml`);
    const { calls, summaries, err } = await replayed(gateway.file, file);
    const summary = summaries.at(-1);

    console.log(`# ${JSON.stringify(summary)} ${tally(calls)}`);
    assert.equal(calls.length, recorded.length);
    assert.equal(summary.calls, recorded.length);
    const unlike = calls.filter((call) => !call.same);
    assert.deepEqual(unlike.filter((call) => !causes[call.cause]).slice(0, 3), []);
    assert.equal(summary.same + unlike.length, recorded.length);
    assert.equal(summary.missing, 0);
    assert.ok(summary.configuration_in_force);
    assert.match(err, new RegExp(`${summary.same} of ${recorded.length} calls are decided as`));
    return { calls, summary };
}

test(`D6 S2 a recording of everything at once is decided as it was (seed ${SEED})`, async (t) => {
    const file = recordingFile(t);
    const { gateway } = await world(t, { ...busy, serve: ['--record', file] });
    await load(gateway, CALLS);
    await gateway.finish();
    const { calls } = await isDecidedAlike(gateway, file);

    assert.ok(calls.length > 0.9 * CALLS);
    for (const decision of ['admitted', 'budget'])
        assert.ok(calls.some((call) => call.decision === decision), decision);
    const text = fs.readFileSync(file, 'utf8');
    for (const secret of [KEY, OTHER_KEY, THIRD_KEY, ...SECRETS, 'xxxxxxxx'])
        assert.ok(!text.includes(secret));
});

test(`D6 S2 with Redis, strictly, too: what differs has that cause (seed ${SEED})`, async (t) => {
    const file = recordingFile(t);
    const redis = await Redis.start(t);
    const { gateway } = await world(t, {
        ...busy,
        top: { ...busy.top, store: redis.url, two_tier: { enabled: false } },
        serve: ['--record', file],
    });
    await load(gateway, CALLS);
    await gateway.finish();
    const { summary } = await isDecidedAlike(gateway, file, { redis: true });
    assert.ok(summary.same > 0);
});
