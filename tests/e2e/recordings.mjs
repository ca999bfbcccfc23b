/* recordings.mjs - what `serve --record` wrote is decided by `replay` as it was, or it says why not.
 *
 *   RECORDED_CALLS   calls of the long run; default 700 each, in memory and on Redis; `make soak` has 20000
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import test from 'node:test';
import { chat, keys, KEY, OTHER_KEY, SECRETS, sha256, tenant, until, world } from './kit.mjs';
import { chance, isDecidedAlike, recordedCalls, recordedLines, recordingFile, replayed, run } from './recording_kit.mjs';
import { Redis } from './redis_kit.mjs';

const CALLS = Number(process.env.RECORDED_CALLS ?? 700);
const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 1e9));
const THIRD_KEY = 'tg-e2e-virtual-key-of-tenant-three';

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
        { name: 'two', parent: 'dept',
            keys: [{ name: 'main', sha256: sha256(OTHER_KEY), budgets: [{ usd: 0.003, per: 'day' }],
                limits: [{ models: ['spare'], tpm: 40000 }] }],
            concurrency: 6, priority: 'high',
            budgets: [{ usd: 0.004, per: 'day' }, { usd: 100, per: 'month' }],
            limits: [{ rpm: 3000 }, { models: ['small'], rpm: 2000 }] },
        { name: 'three', priority: 'normal',
            keys: [{ name: 'main', sha256: sha256(THIRD_KEY), limits: [{ rph: Math.ceil(CALLS / 30) }] }],
            rate: { strategy: 'sliding_window', limit: Math.ceil(CALLS / 25), window: '1h' },
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

const OWN = (random) => ['/v1/chat/completions', random() < 0.8 ? 'small' : 'spare'];

/* So many calls of three tenants, and more while `goesOn()`, at most `open` at once; some leave. `asks` draws the
 * path and the model. */
async function load(gateway, n, open = 48, goesOn = () => false, asks = OWN) {
    const random = chance(SEED);
    const agent = new http.Agent({ keepAlive: true, maxSockets: open });
    let begun = 0;
    const one = () =>
        new Promise((done) => {
            const who = random();
            const [target, model] = asks(random);
            const body = JSON.stringify({
                model,
                messages: [{ role: 'user', content: 'x'.repeat(1 + 400 * random()) }],
                max_tokens: 1 + Math.floor(200 * random()),
                stream: random() < 0.4,
                ...(random() < 0.2 && target === '/v1/chat/completions' && { user: `u${Math.floor(4 * random())}` }),
            });
            const request = http.request(`${gateway.url}${target}`, {
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
        while (begun++ < n || goesOn()) await one();
    };
    await Promise.all(Array.from({ length: open }, worker));
    agent.destroy();
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

for (const [name, enabled] of [['asked for every call', false], ['in blocks', true]])
    test(`D6 a recording with Redis, ${name}, is decided as it was (seed ${SEED})`, async (t) => {
        const file = recordingFile(t);
        const redis = await Redis.start(t);
        const { gateway } = await world(t, {
            ...busy,
            top: { ...busy.top, store: redis.url, two_tier: { enabled } },
            serve: ['--record', file],
        });
        await load(gateway, enabled ? Math.ceil(CALLS / 2) : CALLS);
        await gateway.finish();
        const { calls } = await isDecidedAlike(gateway, file);
        for (const decision of ['admitted', 'rate'])
            assert.ok(calls.some((call) => call.decision === decision), decision);
        /* The same twice differs in nothing; next to another one, both are decided in memory. */
        const same = await run('replay', '-c', gateway.file, '--compare', gateway.file, file);
        assert.equal(same.code, 0, same.out);
        assert.doesNotMatch(same.err, /decided in memory/);
    });

/* Each client in front of each provider, with fallbacks that go on to another API. */
for (const store of ['memory', 'redis'])
    test(`D6 calls that are translated are decided as they were, with ${store} (seed ${SEED})`, async (t) => {
        const file = recordingFile(t);
        const redis = store === 'redis' ? await Redis.start(t) : undefined;
        const { gateway } = await world(t, {
            ...busy,
            small: { ...busy.small, fallback: ['claude', 'google'] },
            claude: { concurrency: { law: 'none', max: 8 }, fallback: ['spare'] },
            providers: ({ url }) => ({ gem: { base_url: url, api: 'gemini', keys: [{ name: 'g', secret: SECRETS[0] }] } }),
            models: { ...busy.models, google: { provider: 'gem', price: { input: 1, output: 2 }, max_output_tokens: 4096 } },
            top: { ...busy.top, ...(redis && { store: redis.url, two_tier: { enabled: false } }) },
            serve: ['--record', file],
        });
        const models = ['small', 'claude', 'google'];
        await load(gateway, CALLS, 48, undefined, (random) => [
            random() < 0.5 ? '/v1/messages' : '/v1/chat/completions',
            models[Math.floor(3 * random())],
        ]);
        const { fallbacks_total: fallbacks } = await gateway.metrics();
        await gateway.finish();
        const { calls } = await isDecidedAlike(gateway, file);

        assert.ok(calls.length > 0.9 * CALLS);
        if (redis) return; /* it may leave any of them without an answer, on a busy machine */
        assert.ok(fallbacks > 0);
        const recorded = recordedLines(file).filter((line) => line.id);
        const pairs = recorded.map((line) => `${line.kind} ${line.served}`);
        for (const pair of ['chat claude', 'chat google', 'messages small', 'messages google'])
            assert.ok(pairs.includes(pair), pair);
        assert.ok(recorded.some((line) => line.model === 'small' && ['claude', 'google'].includes(line.served)));
    });

test(`D6 calls that Redis leaves without an answer are decided as they were (seed ${SEED})`, async (t) => {
    const file = recordingFile(t);
    const redis = await Redis.start(t);
    const { gateway } = await world(t, {
        ...busy,
        top: { ...busy.top, store: redis.url, two_tier: { enabled: false }, store_failure: { limits: 'local', budget: 'local' } },
        serve: ['--record', file],
    });
    await load(gateway, 100, 8);
    await redis.kill();
    await load(gateway, 100, 8);
    await gateway.finish();
    await isDecidedAlike(gateway, file);
});

test('D6 S2 slots and peers come back: 20 calls one after the other are all admitted', async (t) => {
    const file = recordingFile(t);
    const { gateway } = await world(t, {
        serve: ['--record', file],
        top: { gate: { concurrency: { law: 'none', max: 4 }, peers: { limit: 3 } } },
    });
    for (let i = 0; i < 20; i++) assert.equal((await chat(gateway)).status, 200);
    await gateway.finish();
    const { calls } = await isDecidedAlike(gateway, file);
    assert.ok(calls.every((call) => call.decision === 'admitted'));
});

test('D6 --compare says what another configuration would have decided, by tenant', async (t) => {
    const file = recordingFile(t);
    const { gateway, config } = await world(t, { serve: ['--record', file] });
    for (let i = 0; i < 10; i++) assert.equal((await chat(gateway)).status, 200);
    await gateway.finish();
    const other = path.join(path.dirname(file), 'other.yaml');
    const limited = structuredClone(config);
    limited.tenants[0].rate = { strategy: 'fixed_window', limit: 4, window: '3600s' };
    fs.writeFileSync(other, JSON.stringify(limited));

    const same = await run('replay', '-c', gateway.file, '--compare', gateway.file, file);
    assert.equal(same.code, 0, same.err);
    const differs = await run('replay', '-c', gateway.file, '--compare', other, file);
    assert.equal(differs.code, 1, differs.err);
    assert.match(differs.out, /^one +10 +10 +[45678] +[23456] +0 +0$/m);
    assert.match(differs.out, /: admitted -> rate/);
    /* And the other way round: what was refused is taken for an average call. */
    const back = await run('replay', '-c', other, '--compare', gateway.file, file);
    assert.equal(back.code, 1, back.err);
    assert.match(back.err, /is not the configuration that was recorded with/);
});

test('D6 a restart goes on with what was spent, and a kill leaves a cut line', async (t) => {
    const file = recordingFile(t);
    const { gateway } = await world(t, {
        serve: ['--record', file],
        tenant: { budgets: [{ usd: 0.0003, per: 'total' }] },
    });
    const first = [];
    for (let i = 0; i < 4; i++) first.push((await chat(gateway)).status);
    assert.ok(first.includes(200));
    await until('a line of each', () => recordedCalls(file) === 4);
    await gateway.stop('SIGKILL');
    fs.appendFileSync(file, '{"t":1795010019345,"id":"req_0');
    await gateway.begin();
    const second = [];
    for (let i = 0; i < 6; i++) second.push((await chat(gateway)).status);
    await gateway.finish();
    assert.ok(second.includes(402), 'what was spent before counts');

    const { calls, summaries } = await replayed(gateway.file, file);
    assert.deepEqual(calls.filter((call) => !call.same), []);
    assert.deepEqual(summaries.map((one) => one.calls), [4, 6]);
    assert.equal(summaries[0].cut_lines, 1);
    assert.ok(calls.some((call) => call.decision === 'budget'));
});

test('D6 after a reload to another configuration, what differs has that cause', async (t) => {
    const file = recordingFile(t);
    const { gateway, config } = await world(t, { serve: ['--record', file] });
    for (let i = 0; i < 3; i++) assert.equal((await chat(gateway)).status, 200);
    await gateway.reload(config); /* the same once more */
    assert.equal((await chat(gateway)).status, 200);
    const limited = structuredClone(config);
    limited.tenants[0].rate = { strategy: 'fixed_window', limit: 1, window: '3600s' };
    const before = path.join(path.dirname(file), 'before.yaml');
    fs.copyFileSync(gateway.file, before);
    await gateway.reload(limited);
    const later = [];
    for (let i = 0; i < 3; i++) later.push((await chat(gateway)).status);
    assert.ok(later.includes(429));
    await gateway.finish();

    const { calls, summaries } = await replayed(before, file);
    assert.ok(summaries[0].configuration_in_force);
    const unlike = calls.filter((call) => !call.same);
    assert.ok(unlike.length > 0);
    assert.ok(unlike.every((call) => call.cause === 'reload'));
    assert.equal(summaries[0].causes.reload, unlike.length);
});

/* Limits, laws and keys change, tenants come and go, all of it while calls run. */
test(`D6 a recording across reloads is decided as it was (seed ${SEED})`, async (t) => {
    const file = recordingFile(t);
    const { gateway, config } = await world(t, { ...busy, serve: ['--record', file] });
    const keep = (name) => {
        const copy = path.join(path.dirname(file), name);
        fs.copyFileSync(gateway.file, copy);
        return copy;
    };
    const first = keep('first.yaml');
    const second = structuredClone(config);
    second.tenants[0].rate = { strategy: 'token_bucket', capacity: 50, refill: 100 };
    second.tenants.push({ name: 'four', keys: [{ name: 'main', sha256: sha256('tg-e2e-virtual-key-of-tenant-four') }] });
    second.models.spare.concurrency = { law: 'aimd', initial: 4, min: 1, max: 6, window: '100ms' };
    second.gate.queue.wait = { high: '200ms', normal: '20ms', low: '0ms' };
    const third = structuredClone(second);
    third.tenants = third.tenants.filter((one) => one.name !== 'three');
    third.gate.concurrency.max = 10;
    third.gate.peers.limit = 4;
    third.models.small.concurrency.max = 5;
    const reloaded = [];
    let reloading = true;
    const calls = load(gateway, CALLS, 48, () => reloading);
    for (const [next, name] of [[second, 'second.yaml'], [third, 'third.yaml'], [config, 'again.yaml']]) {
        const before = recordedCalls(file);
        await until('more calls', () => recordedCalls(file) > before + CALLS / 8);
        await gateway.reload(next);
        reloaded.push(keep(name));
    }
    reloading = false;
    await calls;
    await gateway.finish();
    const { summary } = await isDecidedAlike({ file: first }, file, '--reloaded', reloaded.join(','));
    assert.equal(summary.reloads, 3);
    /* Without the files it says so. */
    const { summaries } = await replayed(first, file);
    assert.deepEqual(Object.keys(summaries[0].causes), ['reload']);
});

test('D6 serve is killed in the middle of a line: the rest is decided as it was', async (t) => {
    const file = recordingFile(t);
    const { gateway } = await world(t, { ...busy, serve: ['--record', file] });
    let lives = true;
    const calls = load(gateway, CALLS, 48, () => lives);
    await until('some calls', () => recordedCalls(file) > CALLS / 8);
    await gateway.stop('SIGKILL');
    lives = false;
    await calls;
    const whole = fs.readFileSync(file, 'utf8');
    const torn = whole.slice(0, whole.trimEnd().length - 7);
    fs.writeFileSync(file, torn);

    const { calls: decided, summaries, err } = await replayed(gateway.file, file);
    assert.equal(summaries[0].cut_lines, 1);
    assert.equal(summaries[0].ended, false);
    assert.match(err, /1 lines are cut and left out/);
    assert.match(err, /its end is missing/);
    assert.ok(decided.length > CALLS / 10);
    /* What calls that were under way had taken is not in it: what differs has that cause. */
    assert.ok(decided.every((call) => call.same || call.cause === 'lost'));
});

test('D6 lines that are lost are counted, and a replay says so', async (t) => {
    const file = recordingFile(t);
    const { gateway } = await world(t, { serve: ['--record', file] });
    for (let i = 0; i < 5; i++) await chat(gateway);
    await gateway.finish();
    const lines = fs.readFileSync(file, 'utf8').split('\n');
    const lost = lines.findIndex((line) => line.includes('"id"'));
    fs.writeFileSync(file, lines.filter((_, i) => i !== lost).join('\n'));

    const { calls, summaries, err } = await replayed(gateway.file, file);
    assert.equal(calls.length, 4);
    assert.ok(summaries[0].missing > 0);
    assert.match(err, /operations are missing/);
    assert.ok(calls.every((call) => call.same || call.cause === 'lost'));
});

test('S2 sim takes the arrivals of a recording, and says what it leaves out', async (t) => {
    const file = recordingFile(t);
    const { gateway } = await world(t, { serve: ['--record', file] });
    for (let i = 0; i < 5; i++) await chat(gateway);
    await gateway.finish();
    const { code, out, err } = await run('sim', '--trace', file, '--json');
    assert.equal(code, 0, err);
    assert.equal(JSON.parse(out).num_requests, 5);
    assert.equal(err.split('latency_ms').length, 2, 'it is said once');
});
