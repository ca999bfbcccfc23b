/* recordings_services.mjs - calls of protected routes and of callers of Admit are in a recording, and are
 * decided by a replay as they were, beside calls of models; so are requests that Envoy's external authorization or
 * forward auth asks about. Those of Envoy's rate limit service are counted.
 *
 *   RECORDED_CALLS   calls of each run; default 500
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import test from 'node:test';
import { KEY, OTHER_KEY, send, sha256, tenant } from './kit.mjs';
import { admission, api, ask, client, OTHER_TOKEN, serving, TOKEN } from './grpc_kit.mjs';
import { chance, isDecidedAlike, recordedLines, recordingFile } from './recording_kit.mjs';
import { Redis } from './redis_kit.mjs';

const CALLS = Number(process.env.RECORDED_CALLS ?? 500);
const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 1e9));
const CANARY = 'canary-of-a-path-and-a-body';

/* An upstream that takes some milliseconds. */
async function upstream(t) {
    const random = chance(SEED + 1);
    const server = http.createServer((request, response) =>
        setTimeout(() => response.writeHead(random() < 0.1 ? 503 : 200).end('here'), 12 * random()),
    );
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    t.after(() => {
        server.closeAllConnections();
        server.close();
    });
    return `http://127.0.0.1:${server.address().port}`;
}

const may = ['tenant', 'peer', 'priority', 'value'];
const wait = { high: '40ms', normal: '20ms', low: '0ms' };

/* One gate for all, so that calls of every kind stand in each other's way. */
async function open(t, file, more = {}) {
    const rules = path.join(path.dirname(file), 'ratelimit.yaml');
    fs.writeFileSync(rules, 'domain: mail\ndescriptors:\n  - key: to\n    rate_limit: {unit: day, requests_per_unit: 3}\n');
    return serving(t, {
        serve: ['--record', file],
        script: { default: { latency: 'exponential(6ms)', tokens: 8, pace: 2000 } },
        small: { concurrency: { law: 'none', max: 6 } },
        tenants: [
            tenant({ rate: { strategy: 'gcra', limit: 80, period: '1s', burst: 20 } }),
            { name: 'two', keys: [{ name: 'main', sha256: sha256(OTHER_KEY) }], concurrency: 6,
                cost: { strategy: 'token_bucket', capacity: 4000, refill: 8000 } },
        ],
        top: {
            gate: {
                concurrency: { law: 'none', max: 14 }, peers: { limit: 8 }, queue: { size: 16, wait },
                rate: { strategy: 'fixed_window', limit: Math.ceil(CALLS / 25), window: '1h' },
            },
            callers: [
                { name: 'envoy', token_sha256: sha256(TOKEN), may, concurrency: { law: 'fixed', initial: 5, min: 1, max: 5 } },
                { name: 'other', token_sha256: sha256(OTHER_TOKEN), may },
            ],
            protect: [{ prefix: '/api', upstream: await upstream(t), concurrency: { law: 'vegas', initial: 4, min: 2, max: 6, window: '50ms' } }],
            envoy_rls: { config: rules },
            ext_authz: {},
            ...more,
        },
    });
}

/* Callers of Admit over HTTP and gRPC, of a protected route and of a model, some of whom leave. */
async function load(t, { gateway, address }) {
    const random = chance(SEED);
    const rpc = admission(t, address);
    const auth = client(t, api.envoy.service.auth.v3.Authorization, address);
    const rls = client(t, api.envoy.service.ratelimit.v3.RateLimitService, address);
    const nap = (ms) => new Promise((done) => setTimeout(done, ms));
    const as = () => ({ headers: { authorization: `Bearer ${random() < 0.5 ? TOKEN : OTHER_TOKEN}` } });
    const admit = () => ({
        ...(random() < 0.8 && { tenant: ['one', 'two', 'nobody'][Math.floor(3 * random())] }),
        ...(random() < 0.5 && { model: 'small', cost: Math.floor(300 * random()) }),
        ...(random() < 0.3 && { user: `u${Math.floor(3 * random())}`, peer: `p${Math.floor(4 * random())}` }),
        ...(random() < 0.5 && { priority: random() < 0.5 ? 'high' : 'low' }),
        ttl_ms: 1 + Math.floor(random() < 0.2 ? 30 * random() : 5000),
    });
    const kinds = {
        async http() {
            const headers = as();
            const reply = send(gateway.url, '/tollgate/v1/admit', admit(), headers);
            if (random() < 0.1) setTimeout(() => reply.request.destroy(), 2);
            const { lease_id } = JSON.parse((await reply).body.toString());
            if (!lease_id || random() < 0.1) return;
            await nap(20 * random());
            if (random() < 0.3) await send(gateway.url, '/tollgate/v1/heartbeat', { lease_ids: [lease_id] }, headers);
            await send(gateway.url, '/tollgate/v1/release', { lease_id, outcome: random() < 0.8 ? 'ok' : 'dropped', actual: Math.floor(200 * random()) }, headers);
        },
        async verdict() {
            await send(gateway.url, '/tollgate/v1/admit?tenant=one', undefined, { ...as(), method: 'GET' });
        },
        async grpc() {
            const { lease_id } = await ask(rpc, 'Admit', { ...admit(), release_on_disconnect: random() < 0.5 });
            await nap(10 * random());
            if (lease_id && random() < 0.7) await ask(rpc, 'Release', { lease_id });
        },
        async protect() {
            const key = [KEY, OTHER_KEY, undefined][Math.floor(3 * random())];
            const reply = send(gateway.url, `/api/${CANARY}`, CANARY, { headers: key ? { authorization: `Bearer ${key}` } : {} });
            if (random() < 0.1) setTimeout(() => reply.request.destroy(), 4);
            await reply;
        },
        async model() {
            await send(gateway.url, '/v1/chat/completions',
                { model: 'small', max_tokens: 60, messages: [{ role: 'user', content: CANARY }] },
                { headers: { authorization: `Bearer ${random() < 0.5 ? KEY : OTHER_KEY}` } });
        },
        async authz() {
            const headers = { authorization: `Bearer ${random() < 0.5 ? KEY : OTHER_KEY}` };
            await send(gateway.url, `/tollgate/v1/authz/${CANARY}`, undefined, { headers, method: 'GET' });
        },
        async check() {
            const http = { method: 'GET', path: `/${CANARY}`, headers: { authorization: `Bearer ${random() < 0.5 ? KEY : OTHER_KEY}` } };
            await ask(auth, 'Check', { attributes: { request: { http } } }, { token: null });
        },
        async envoy() {
            await ask(rls, 'ShouldRateLimit', { domain: 'mail', descriptors: [{ entries: [{ key: 'to', value: 'x' }] }] }, { token: null });
        },
    };
    const names = Object.keys(kinds);
    const asked = Object.fromEntries(names.map((name) => [name, 0]));
    let begun = 0;
    const worker = async () => {
        while (begun++ < CALLS) {
            const name = names[Math.floor(names.length * random())];
            asked[name]++;
            await kinds[name]().catch(() => {});
        }
    };
    await Promise.all(Array.from({ length: 24 }, worker));
    rpc.close();
    return asked;
}

for (const store of ['memory', 'redis'])
    test(`D6 calls of every service are decided as they were, with ${store} (seed ${SEED})`, async (t) => {
        const file = recordingFile(t);
        const redis = store === 'redis' ? await Redis.start(t) : undefined;
        const made = await open(t, file, redis && { store: redis.url, two_tier: { enabled: false } });
        const asked = await load(t, made);
        assert.ok(!made.gateway.process.over, made.gateway.process.out);
        await made.gateway.finish();
        const { calls, summary } = await isDecidedAlike(made.gateway, file);
        for (const decision of ['admitted', 'concurrency', 'rate'])
            assert.ok(calls.some((call) => call.decision === decision), decision);
        assert.equal(summary.unrecorded, asked.envoy);
        const admits = recordedLines(file).filter((line) => line.kind === 'admit');
        assert.ok(admits.length >= asked.authz + asked.check + asked.verdict + asked.grpc);
        const text = fs.readFileSync(file, 'utf8');
        for (const kind of ['admit', 'protect', 'chat'])
            assert.match(text, new RegExp(`"kind":"${kind}".*"ops":\\[`));
        for (const op of ['lease_end', 'lease_renew']) assert.ok(text.includes(`"op":"${op}"`), op);
        for (const secret of [KEY, OTHER_KEY, TOKEN, OTHER_TOKEN, CANARY])
            assert.ok(!text.includes(secret), secret);
    });
