/* ext_authz.mjs - requests that a proxy holds: Envoy's external authorization over gRPC and HTTP, and
 * forward auth as Caddy, Traefik and nginx ask it. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { fails, send, sha256, world } from './kit.mjs';
import { TOKEN, api, ask, callers, client, grpc, serving } from './grpc_kit.mjs';

const { status } = grpc;
const KEY = 'tg-key-of-a';
const rate = (limit, period = '1h') => ({ rate: { strategy: 'gcra', limit, period } });
const tenants = [
    { name: 'a', keys: [{ name: 'k', sha256: sha256(KEY) }], ...rate(3) },
    { name: 'b', ...rate(1) },
    {
        name: 'c',
        users: { from: 'header:x-who', each: { rpm: 1 } },
        limits: [{ models: ['small'], rpm: 2 }],
    },
];

/* What a proxy sends on of a request of its client. */
const held = (gateway, path = '', { method = 'GET', headers = {}, body } = {}) =>
    send(gateway.url, `/tollgate/v1/authz${path}`, body, {
        method,
        headers: { authorization: 'Basic none', ...headers },
    });

test('a client is known by its key, and gets the refusal itself', async (t) => {
    const { gateway } = await world(t, { top: { ext_authz: {}, tenants } });
    const headers = { authorization: `Bearer ${KEY}` };
    const first = await held(gateway, '', { headers });
    assert.equal(first.status, 200);
    assert.equal(first.headers['x-tollgate-tenant'], 'a');
    assert.equal(first.headers['x-ratelimit-remaining-requests'], '2');
    assert.equal(first.body.length, 0);
    /* Path, method, query and body are the client's own; so is what it says of itself. */
    for (const [path, more] of [
        ['/v1/chat?tenant=b&cost=0&page=2', { method: 'POST', body: '{"tenant":"b"}' }],
        ['/', { headers: { 'x-tollgate-tenant': 'b', 'x-tollgate-cost': '0' } }],
    ]) {
        const next = await held(gateway, path, { ...more, headers: { ...headers, ...more.headers } });
        assert.equal(next.status, 200, next.body);
        assert.equal(next.headers['x-tollgate-tenant'], 'a');
    }
    const over = await held(gateway, '/', { headers });
    assert.equal(over.status, 429);
    assert.equal(over.headers['x-tollgate-reason'], 'rate');
    assert.match(JSON.parse(over.body).error.message, /^rate limit of tenant a: 3 calls an hour/);
    assert.equal(over.headers['x-should-retry'], 'false', 'twenty minutes');
    for (const [wrong, code] of [
        [{}, 'invalid_api_key'],
        [{ authorization: 'Bearer tg-nobody' }, 'invalid_api_key'],
        [{ 'x-api-key': 'other', ...headers }, 'conflicting_api_keys'],
    ]) {
        const refused = await held(gateway, '/', { headers: wrong });
        assert.equal(refused.status, 401);
        assert.equal(refused.headers['x-tollgate-reason'], code);
        assert.equal(refused.headers['www-authenticate'], 'Bearer');
    }
    const near = await send(gateway.url, '/tollgate/v1/authzx', undefined, { headers });
    assert.equal(near.status, 404, 'only what is below it');
    await gateway.idle();
});

test('without the section there is nothing at the path', async (t) => {
    const { gateway } = await world(t, { top: { tenants, callers: callers() } });
    const { status: code } = await held(gateway, '/', { headers: { authorization: `Bearer ${KEY}` } });
    assert.equal(code, 404);
});

test('by a header that the proxy sets, with user and model, and by callers with a token', async (t) => {
    const { gateway } = await world(t, {
        top: {
            ext_authz: {
                auth: 'callers',
                known_by: 'header',
                tenant: 'header:x-team',
                model: 'header:x-model',
            },
            callers: callers([]),
            tenants,
        },
    });
    const as = (headers) =>
        held(gateway, '/', { headers: { 'x-tollgate-caller': TOKEN, ...headers } });
    for (const token of ['another', ''])
        assert.equal((await as({ 'x-team': 'b', 'x-tollgate-caller': token })).status, 401);
    assert.equal((await as({ 'x-team': 'b' })).status, 200);
    assert.equal((await as({ 'x-team': 'b' })).status, 429);
    assert.equal((await as({})).status, 401);
    assert.match(String((await as({})).body), /header x-team is missing/);
    assert.equal((await as({ 'x-team': 'x'.repeat(257) })).status, 400);
    /* Users as the tenant names them in its own calls, and limits of a model. */
    assert.equal((await as({ 'x-team': 'c', 'x-who': 'u1', 'x-model': 'small' })).status, 200);
    assert.equal((await as({ 'x-team': 'c', 'x-who': 'u1', 'x-model': 'small' })).status, 429);
    assert.equal((await as({ 'x-team': 'c', 'x-who': 'u2', 'x-model': 'small' })).status, 200);
    assert.equal((await as({ 'x-team': 'c', 'x-who': 'u3', 'x-model': 'small' })).status, 429);
    assert.equal((await as({ 'x-team': 'c', 'x-who': 'u3' })).status, 200);
    await gateway.idle();
});

test('a header that says who it is, twice with two values, says nothing', async (t) => {
    const { gateway } = await world(t, {
        top: { ext_authz: { known_by: 'header', tenant: 'header:x-team', user: 'header:x-who', model: 'header:x-model' } },
        tenants: [{ name: 'c', users: { from: 'header:x-who', max: 9 } }],
    });
    for (const name of ['x-team', 'x-who', 'x-model']) {
        const own = { 'x-team': 'c', 'x-who': 'u1', 'x-model': 'small' };
        const twice = await held(gateway, '/', { headers: { ...own, [name]: ['victim', own[name]] } });
        assert.equal(twice.status, 400, twice.body);
        assert.match(JSON.parse(twice.body).error.message, new RegExp(`header ${name} is there twice`));
        const same = await held(gateway, '/', { headers: { ...own, [name]: [own[name], own[name]] } });
        assert.equal(same.status, 200, same.body);
    }
});

test('by the address that the proxy saw, not by one that a client states', async (t) => {
    const from = async (top, headers) => {
        const { gateway } = await world(t, {
            top: { ext_authz: { known_by: 'address' }, gate: rate(1), ...top },
        });
        return (await Promise.all(headers.map((one) => held(gateway, '/', { headers: one })))).map(
            (reply) => reply.headers['x-tollgate-tenant'] ?? reply.status,
        );
    };
    const forwarded = [
        { 'x-forwarded-for': '10.0.0.1' },
        { 'x-forwarded-for': '10.0.0.9, 10.0.0.2' },
        { 'x-forwarded-for': ['10.0.0.9', ' 10.0.0.3 '] },
    ];
    const trusted = { trust_headers_from: ['127.0.0.1/32'] };
    assert.deepEqual(await from(trusted, forwarded), ['10.0.0.1', '10.0.0.2', '10.0.0.3']);
    /* However an address is written, with the port of each connection or another one of the client's network:
     * it is one client, with one call. What is no address is nobody's, least of all a tenant's. */
    for (const [client, ways] of [
        ['10.0.0.4', ['10.0.0.4:1', '10.0.0.4:2', '::ffff:10.0.0.4', '10.0.0.4']],
        ['2001:db8:0:5::/64', ['2001:db8:0:5::1', '[2001:DB8::5:0:0:0:2]:443', '2001:0db8:0:5:1::']],
        ['127.0.0.1', ['a', 'unknown', '10.0.0.4,', '1.2.3.4.5']],
    ]) {
        const seen = await from(trusted, ways.map((way) => ({ 'x-forwarded-for': way })));
        assert.deepEqual(seen.sort(), [client, ...ways.slice(1).map(() => 429)].sort());
    }
    const untrusted = await from({ trust_headers_from: ['10.1.0.0/16'] }, forwarded);
    assert.deepEqual(untrusted.sort(), ['127.0.0.1', 429, 429].sort());
});

/* ---- Envoy over gRPC ---- */

const check = (t, address, http, { source, context_extensions, token = null } = {}) =>
    ask(
        client(t, api.envoy.service.auth.v3.Authorization, address),
        'Check',
        {
            attributes: {
                source: source && { address: { socket_address: { address: source } } },
                request: { http: { method: 'GET', path: '/', headers: {}, ...http } },
                context_extensions: context_extensions ?? {},
            },
        },
        { token },
    );

const fieldsOf = (list) =>
    Object.fromEntries(
        list.map(({ header, append_action }) => {
            assert.equal(append_action, 'OVERWRITE_IF_EXISTS_OR_ADD');
            return [header.key, header.value];
        }),
    );

test('Check: allowed with fields for both sides, denied with the whole reply', async (t) => {
    const { address, gateway } = await serving(t, { top: { ext_authz: {}, tenants, gate: {} } });
    const headers = { authorization: `Bearer ${KEY}` };
    for (const http of [{ headers }, { header_map: { headers: [{ key: 'x-api-key', raw_value: Buffer.from(KEY) }] } }]) {
        const { status: decided, ok_response: ok } = await check(t, address, http);
        assert.equal(decided.code, status.OK);
        assert.deepEqual(fieldsOf(ok.headers), { 'x-tollgate-tenant': 'a' });
        assert.equal(fieldsOf(ok.response_headers_to_add)['x-ratelimit-limit-requests'], '3');
    }
    await check(t, address, { headers });
    const { status: decided, denied_response: denied } = await check(t, address, { headers });
    assert.equal(decided.code, status.RESOURCE_EXHAUSTED);
    assert.equal(denied.status.code, 429);
    assert.equal(fieldsOf(denied.headers)['x-tollgate-reason'], 'rate');
    assert.equal(fieldsOf(denied.headers)['x-ratelimit-remaining-requests'], '0');
    assert.match(JSON.parse(denied.body).error.message, /^rate limit of tenant a/);
    const unknown = await check(t, address, { headers: { 'x-tollgate-tenant': 'b' } });
    assert.equal(unknown.status.code, status.UNAUTHENTICATED);
    assert.equal(unknown.denied_response.status.code, 401);
    const many = Array.from({ length: 129 }, (_, i) => ({ key: i < 128 ? `x-${i}` : 'x-api-key', value: KEY }));
    const cut = await check(t, address, { header_map: { headers: many } });
    assert.equal(cut.denied_response.status.code, 400, 'what does not fit is not passed over');
    await gateway.idle();
});

test('Check: what the route says goes before what the client says', async (t) => {
    const { address } = await serving(t, {
        top: { ext_authz: { known_by: 'address' }, tenants, gate: { ...rate(1), cost: { strategy: 'token_bucket', capacity: 10, refill: 0.001 } } },
    });
    const route = (context_extensions, source = '10.0.0.1') =>
        check(t, address, {}, { source, context_extensions });
    assert.equal((await route({})).status.code, status.OK);
    assert.equal((await route({})).denied_response.status.code, 429);
    assert.equal((await route({}, '10.0.0.2')).status.code, status.OK);
    assert.equal((await route({ 'tollgate.tenant': 'b', other: 'x' })).status.code, status.OK);
    assert.equal((await route({ 'tollgate.tenant': 'b' })).denied_response.status.code, 429);
    const never = await route({ 'tollgate.cost': '11' }, '10.0.0.3');
    assert.equal(never.denied_response.status.code, 400, 'larger than the limit');
    for (const wrong of [{ 'tollgate.tenent': 'b' }, { 'tollgate.cost': '-1' }, { 'tollgate.cost': '' }]) {
        const refused = await route(wrong, '10.0.0.4');
        assert.equal(refused.denied_response.status.code, 400);
        assert.ok(refused.denied_response.body.includes(Object.keys(wrong)[0]));
    }
    const none = await check(t, address, {});
    assert.equal(none.denied_response.status.code, 400, 'no address');
});

test('Check: only with a token where callers alone may ask, and not at all unless configured', async (t) => {
    const top = { ext_authz: { auth: 'callers' }, tenants };
    const { address } = await serving(t, { top });
    const headers = { authorization: `Bearer ${KEY}` };
    assert.equal((await fails(check(t, address, { headers }))).code, status.UNAUTHENTICATED);
    assert.equal((await check(t, address, { headers }, { token: TOKEN })).status.code, status.OK);
    const without = await serving(t, { top: { tenants } });
    assert.equal((await fails(check(t, without.address, { headers }))).code, status.UNIMPLEMENTED);
    const empty = client(t, api.envoy.service.auth.v3.Authorization, address);
    assert.equal((await fails(ask(empty, 'Check', {}))).code, status.INVALID_ARGUMENT);
});

test('GET admit: with x-tollgate-enforce the refusal has its own status', async (t) => {
    const { gateway } = await world(t, { top: { callers: callers(['tenant']), gate: rate(1) } });
    const get = (headers = {}) =>
        send(gateway.url, '/tollgate/v1/admit?tenant=x', undefined, {
            headers: { authorization: `Bearer ${TOKEN}`, ...headers },
        });
    assert.equal((await get()).status, 204);
    assert.equal((await get()).status, 403);
    const enforced = await get({ 'x-tollgate-enforce': '1' });
    assert.equal(enforced.status, 429);
    assert.equal(enforced.headers['x-tollgate-reason'], 'rate');
});
