/* envoy.mjs - Envoy's rate limit service as its clients see it: over gRPC by grpc-js and the contract,
 * and over plain HTTP. What the rules mean is tested by tables, in tests/unit/server/envoy/test_envoy_rls.c.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { api, ask, client, grpc, serving, TOKEN } from './grpc_kit.mjs';
import { calls, fails, json, replace, send, until } from './kit.mjs';
import { PATIENT, Redis, stored } from './redis_kit.mjs';

const RULES = `
domain: mail
descriptors:
  - key: kind
    value: offer
    descriptors:
      - key: to
        rate_limit: {name: offers, unit: day, requests_per_unit: 2}
  - key: to
    rate_limit: {unit: day, requests_per_unit: 100}
  - key: banned
    rate_limit: {unit: second, requests_per_unit: 0}
  - key: inside
    rate_limit: {unlimited: true}
`;

/* A gateway with these rules: {gateway, url, rls, rules (the file)}. */
async function limiting(t, section = {}, rules = RULES, top = {}) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-envoy-'));
    t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
    const file = path.join(folder, 'ratelimit.yaml');
    fs.writeFileSync(file, rules);
    const made = await serving(t, { top: { envoy_rls: { config: file, ...section }, ...top } });
    const Service = api.envoy.service.ratelimit.v3.RateLimitService;
    return {
        ...made,
        rules: file,
        url: `http://${made.address}`,
        rls: client(t, Service, made.address),
    };
}

/* limit(rls, ['to=1', 'kind=offer to=1']) */
const descriptor = (text) => ({
    entries: text.split(' ').map((entry) => {
        const [key, value] = entry.split('=');
        return { key, value };
    }),
});

const request = (descriptors, more = {}) => ({
    domain: 'mail',
    descriptors: descriptors.map((one) => (typeof one === 'string' ? descriptor(one) : one)),
    ...more,
});

const limit = (rls, descriptors, more, options = {}) =>
    ask(rls, 'ShouldRateLimit', request(descriptors, more), { token: null, ...options });

const codes = (reply) => reply.statuses.map((status) => status.code);

test('descriptors are answered in their order', async (t) => {
    const { rls } = await limiting(t);
    const first = await limit(rls, ['to=1', 'nothing=1', 'kind=offer to=1', 'inside=x']);
    assert.equal(first.overall_code, 'OK');
    assert.deepEqual(codes(first), ['OK', 'OK', 'OK', 'OK']);
    assert.equal(first.statuses[0].limit_remaining, 99);
    assert.equal(first.statuses[0].current_limit.unit, 'DAY');
    assert.equal(first.statuses[1].current_limit, null);
    assert.equal(first.statuses[2].current_limit.name, 'offers');
    assert.equal(first.statuses[2].current_limit.requests_per_unit, 2);
    assert.equal(first.statuses[3].limit_remaining, 2 ** 32 - 1);
    assert.deepEqual(first.response_headers_to_add, []);
    await limit(rls, ['kind=offer to=1']);
    const over = await limit(rls, ['to=1', 'kind=offer to=1']);
    assert.equal(over.overall_code, 'OVER_LIMIT');
    assert.deepEqual(codes(over), ['OK', 'OVER_LIMIT']);
    /* Refused, and not charged. */
    assert.equal(over.statuses[0].limit_remaining, 99);
    const wait = Number(over.statuses[1].duration_until_reset.seconds);
    assert.ok(wait > 86000 && wait <= 86400, `a day, about: ${wait}`);
});

test('hits, and limits that the request brings along', async (t) => {
    const { rls } = await limiting(t);
    const some = await limit(rls, ['to=1'], { hits_addend: 40 });
    assert.equal(some.statuses[0].limit_remaining, 60);
    const own = await limit(rls, [{ ...descriptor('to=1'), hits_addend: { value: 70 } }]);
    assert.equal(own.overall_code, 'OVER_LIMIT');
    assert.equal((await limit(rls, ['to=1'])).overall_code, 'OVER_LIMIT', 'it was charged whole');
    const back = { ...descriptor('to=2'), hits_addend: { value: 5 }, is_negative_hits: true };
    assert.equal((await limit(rls, [back])).statuses[0].limit_remaining, 100, 'it is no charge');
    const brought = { ...descriptor('what=ever'), limit: { requests_per_unit: 1, unit: 3 } };
    assert.equal((await limit(rls, [brought])).overall_code, 'OK');
    const over = await limit(rls, [brought]);
    assert.deepEqual(codes(over), ['OVER_LIMIT']);
    assert.equal(over.statuses[0].current_limit.unit, 'HOUR');
    assert.equal(over.statuses[0].duration_until_reset.nanos, 0, 'Envoy takes the seconds alone');
    const seconds = { requests_per_unit: 1, unit: 1, unit_multiplier: { value: 3600 } };
    const same = await limit(rls, [{ ...descriptor('what=ever'), limit: seconds }]);
    assert.deepEqual(codes(same), ['OVER_LIMIT'], 'an hour of seconds');
});

test('metadata tell which quotas are used up', async (t) => {
    const rules = `
domain: mail
descriptors:
  - {key: to, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
`;
    const { rls } = await limiting(t, { metadata: true }, rules);
    const first = (await limit(rls, ['to=1'])).dynamic_metadata.fields;
    assert.equal(first.domain.string_value, 'mail');
    assert.equal(first.quotaModeEnabled.bool_value, true);
    assert.equal(first.quotaModeViolations, undefined);
    const [asked] = first.descriptors.list_value.values;
    assert.equal(asked.struct_value.fields.entries.list_value.values[0].string_value, 'to=1');
    const over = await limit(rls, ['nothing=1', 'to=1']);
    assert.equal(over.overall_code, 'OK');
    const { values } = over.dynamic_metadata.fields.quotaModeViolations.list_value;
    assert.deepEqual(
        values.map((one) => one.number_value),
        [1],
    );
});

test('what makes no sense is INVALID_ARGUMENT', async (t) => {
    const { rls } = await limiting(t);
    for (const [wrong, words] of [
        [{ domain: '' }, /^domain is empty/],
        [{ descriptors: [] }, /^descriptors is empty/],
        [{ descriptors: Array(129).fill(descriptor('a=b')) }, /^descriptors has 129 items/],
    ]) {
        const error = await fails(limit(rls, ['to=1'], wrong));
        assert.equal(error.code, grpc.status.INVALID_ARGUMENT);
        assert.match(error.details, words);
    }
});

test('the same over plain HTTP', async (t) => {
    const { url } = await limiting(t, { headers: true });
    const post = (body, options) => send(url, '/json', body, options);
    const first = await post(request(['kind=offer to=1']));
    assert.equal(first.status, 200);
    assert.equal(first.headers['content-type'], 'application/json');
    const [status] = json(first).statuses;
    assert.equal(json(first).overallCode, 'OK');
    assert.equal(status.limitRemaining, 1);
    assert.deepEqual(status.currentLimit, { requestsPerUnit: 2, unit: 'DAY', name: 'offers' });
    assert.deepEqual(json(first).responseHeadersToAdd.slice(0, 2), [
        { key: 'ratelimit-limit', value: '2' },
        { key: 'ratelimit-remaining', value: '1' },
    ]);
    await post(request(['kind=offer to=1']));
    const over = await post(request(['kind=offer to=1', 'to=1']));
    assert.equal(over.status, 429);
    assert.equal(json(over).overallCode, 'OVER_LIMIT');
    assert.deepEqual(
        json(over).statuses.map((one) => one.code),
        ['OVER_LIMIT', 'OK'],
    );
    const wrong = await post('{"domain": 5}');
    assert.equal(wrong.status, 400);
    assert.match(json(wrong).error.message, /^domain must be a string/);
    assert.equal((await post(request([]))).status, 400);
    assert.equal((await post('x'.repeat(200000))).status, 413);
    assert.equal((await send(url, '/json')).status, 405);
    for (const path of ['/healthcheck', '/healthcheck?from=balancer']) {
        const health = await send(url, path);
        assert.equal(`${health.status} ${health.body}`, '200 OK');
        const head = await send(url, path, undefined, { method: 'HEAD' });
        assert.equal(`${head.status} ${head.body}`, '200 ');
    }
    assert.equal((await send(url, '/healthcheck', '{}')).status, 405);
});

test('where a token is wanted, nobody is answered without', async (t) => {
    const { rls, url } = await limiting(t, { auth: 'callers' });
    assert.equal((await fails(limit(rls, ['to=1']))).code, grpc.status.UNAUTHENTICATED);
    const with_token = await limit(rls, ['to=1'], {}, { token: TOKEN });
    assert.equal(with_token.statuses[0].limit_remaining, 99);
    assert.equal((await send(url, '/json', request(['to=1']))).status, 401);
    const headers = { authorization: `Bearer ${TOKEN}` };
    assert.equal((await send(url, '/json', request(['to=1']), { headers })).status, 200);
});

test('rules that change hold soon, and what was counted stays counted', async (t) => {
    const { gateway, rls, rules } = await limiting(t);
    for (let i = 0; i < 2; i++) await limit(rls, ['kind=offer to=1']);
    replace(rules, RULES.replace('requests_per_unit: 2', 'requests_per_unit: 3'));
    let admitted = 0;
    await until('the new rules hold', async () => {
        const reply = await limit(rls, ['kind=offer to=1']);
        admitted += reply.overall_code === 'OK';
        return reply.statuses[0].current_limit.requests_per_unit === 3;
    });
    admitted += (await limit(rls, ['kind=offer to=1'])).overall_code === 'OK';
    assert.equal(admitted, 1, 'one more, and no more');
    /* Wrong ones do not, and are told of. */
    replace(rules, RULES.replace('day', 'fortnight'));
    await gateway.process.said(/rate_limit\.unit is .{1,3}fortnight/);
    assert.equal((await limit(rls, ['kind=offer to=1'])).overall_code, 'OVER_LIMIT');
});

test('a thousand at once are counted to the last one', async (t) => {
    const { rls } = await limiting(t);
    const replies = await calls(1000, () => limit(rls, ['to=x', 'inside=y']));
    assert.equal(replies.filter((reply) => reply.overall_code === 'OK').length, 100);
});

/* ---- several gateways ---- */

/* Two of them that count in one Redis, and a client of each. */
async function fleet(t, section) {
    const redis = await Redis.start(t);
    const top = { store: redis.url, ...PATIENT, ...section };
    const made = [];
    for (let i = 0; i < 2; i++) made.push(await limiting(t, {}, RULES, top));
    for (const { gateway } of made) await stored(gateway, 'ok');
    return { redis, made };
}

/* Hits of 0 charge nothing. What is given back, or charged after a refusal, Redis may hear of later
 * than the client has its answer. */
const look = async (rls, text) =>
    (await limit(rls, [{ ...descriptor(text), hits_addend: { value: 0 } }])).statuses[0];
const left = async (rls, text) => (await look(rls, text)).limit_remaining;
const isOpen = async (rls, text) => (await look(rls, text)).code === 'OK';

const TIERS = [
    ['strict', { two_tier: { enabled: false } }],
    ['two tiers', { two_tier: { enabled: true } }],
];

for (const [tiers, section] of TIERS)
    test(`gateways that share a Redis share what they count (${tiers})`, async (t) => {
        const { made } = await fleet(t, section);
        const [one, two] = made.map((gateway) => gateway.rls);
        assert.equal((await limit(one, ['kind=offer to=1'])).statuses[0].limit_remaining, 1);
        assert.equal((await limit(two, ['kind=offer to=1'])).statuses[0].limit_remaining, 0);
        const over = await limit(one, ['to=1', 'kind=offer to=1', 'nothing=1', 'inside=x']);
        assert.equal(over.overall_code, 'OVER_LIMIT');
        assert.deepEqual(codes(over), ['OK', 'OVER_LIMIT', 'OK', 'OK']);
        assert.equal(over.statuses[0].limit_remaining, 100, 'given back');
        await until('it is given back', async () => (await left(two, 'to=1')) === 100);
        assert.equal((await limit(two, ['to=1'])).statuses[0].limit_remaining, 99);
        let admitted = 0;
        for (let i = 0; i < 60; i++)
            for (const reply of await Promise.all([one, two].map((rls) => limit(rls, ['to=x', 'to=y']))))
                admitted += reply.overall_code === 'OK';
        assert.equal(admitted, 100);
    });

for (const [tiers, section] of TIERS)
    test(`so do meters, and limits that are brought along (${tiers})`, async (t) => {
        const { made } = await fleet(t, section);
        const [one, two] = made.map((gateway) => gateway.rls);
        const meter = (value) => ({ ...descriptor('to=m'), hits_addend: { value } });
        assert.equal((await limit(one, [meter(0)])).overall_code, 'OK');
        assert.equal((await limit(two, [meter(70)])).statuses[0].limit_remaining, 30);
        assert.equal((await limit(one, [meter(0)])).statuses[0].limit_remaining, 30);
        assert.equal((await limit(one, [meter(50)])).overall_code, 'OVER_LIMIT');
        await until('it is charged whole', async () => !(await isOpen(two, 'to=m')));
        const brought = (n) => ({ ...descriptor('b=1'), limit: { requests_per_unit: n, unit: 3 } });
        assert.equal((await limit(one, [brought(2)])).overall_code, 'OK');
        assert.equal((await limit(two, [brought(2)])).overall_code, 'OK');
        assert.equal((await limit(one, [brought(2)])).overall_code, 'OVER_LIMIT');
        assert.equal((await limit(two, [brought(3)])).statuses[0].limit_remaining, 0);
        assert.equal((await limit(two, [brought(3)])).overall_code, 'OVER_LIMIT');
    });

/* 60 requests of which another descriptor refuses all but two have charged two, and no more. */
for (const [tiers, section] of TIERS)
    test(`what a refused request asked for is left for others, on every gateway (${tiers})`, async (t) => {
        const { made } = await fleet(t, section);
        const rls = made.map((gateway) => gateway.rls);
        let both = 0;
        let alone = 0;
        for (let i = 0; i < 60; i++)
            both += (await limit(rls[i % 2], ['to=z', 'kind=offer to=z'])).overall_code === 'OK';
        assert.equal(both, 2);
        await until('the others have got back what was not used', async () => (await left(rls[1], 'to=z')) === 98);
        for (let i = 0; i < 110; i++) alone += (await limit(rls[i % 2], ['to=z'])).overall_code === 'OK';
        assert.equal(alone, 98);
    });

test('without Redis it is decided as store_failure says', async (t) => {
    for (const [limits, want] of [
        ['open', 'OK'],
        ['local', 'OVER_LIMIT'],
        ['closed', grpc.status.UNAVAILABLE],
    ]) {
        const { redis, made } = await fleet(t, { store_failure: { limits } });
        await limit(made[0].rls, ['to=1']);
        await redis.kill();
        const replies = [];
        for (let i = 0; i < 3; i++)
            replies.push(
                await limit(made[0].rls, ['kind=offer to=1']).catch((error) => error.code),
            );
        assert.equal(replies[2].overall_code ?? replies[2], want, limits);
    }
});
