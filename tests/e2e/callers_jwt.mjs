/* callers_jwt.mjs - tenants that are known by a token of an identity provider, which the test plays.
 *
 * Tokens are made by node:crypto, which is not what checks them.
 */
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import http from 'node:http';
import test from 'node:test';
import { ADMIN_TOKEN, chat, HELLO, json, KEY, need, reason, send, tenant, until, world } from './kit.mjs';

const OpenAI = need('openai').default;

const base64url = (value) =>
    Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

const pair = (kind) =>
    kind === 'RS256'
        ? crypto.generateKeyPairSync('rsa', { modulusLength: 2048 })
        : crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' });

/* An identity provider with one key after the other. */
class Issuer {
    static async start(t) {
        const issuer = new Issuer();
        issuer.fetched = 0;
        issuer.away = false;
        issuer.rotate('RS256', 'first');
        issuer.server = http.createServer((request, reply) => {
            issuer.fetched++;
            if (issuer.hangs) return;
            if (issuer.away) return reply.writeHead(503).end();
            reply.writeHead(200, { 'content-type': 'application/json' });
            reply.end(JSON.stringify({ keys: [issuer.jwk] }));
        });
        await new Promise((done) => issuer.server.listen(0, '127.0.0.1', done));
        issuer.url = `http://127.0.0.1:${issuer.server.address().port}/keys`;
        t.after(() => {
            issuer.server.closeAllConnections();
            issuer.server.close();
        });
        return issuer;
    }
    rotate(algorithm, kid) {
        const { publicKey, privateKey } = pair(algorithm);
        this.algorithm = algorithm;
        this.kid = kid;
        this.key = privateKey;
        this.jwk = { ...publicKey.export({ format: 'jwk' }), kid, use: 'sig', alg: algorithm };
    }
    token(claims = {}, header = {}, key = this.key) {
        const now = Math.floor(Date.now() / 1000);
        const text = [
            { alg: this.algorithm, kid: this.kid, typ: 'JWT', ...header },
            { iss: 'https://id.example', aud: 'tollgate', iat: now, exp: now + 300, team: 'one', sub: 'alice', ...claims },
        ]
            .map(base64url)
            .join('.');
        const signature = crypto.sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' });
        return `${text}.${signature.toString('base64url')}`;
    }
}

const section = (issuer, more = {}) => ({
    callers_jwt: {
        issuer: 'https://id.example',
        jwks: issuer.url,
        audience: 'tollgate',
        tenant: 'claim:team',
        user: 'claim:sub',
        ...more,
    },
});

const USERS = { from: 'header:x-tollgate-user', max: 100, each: { rpm: 2 } };

const call = (gateway, token, headers = {}) =>
    chat(gateway, {}, { headers: { authorization: `Bearer ${token}`, ...headers } });

/* The keys are fetched beside the calls: a first one may come before them. */
const settled = (gateway, token) =>
    until('the keys have come', async () => {
        const reply = await call(gateway, token());
        return reply.status !== 503 && reply;
    });

test('callers_jwt: a token names tenant and user, for the SDK as it is', async (t) => {
    const issuer = await Issuer.start(t);
    const { gateway } = await world(t, {
        top: section(issuer),
        tenants: [tenant({ users: USERS }), tenant({ name: 'two', keys: [] })],
    });
    await settled(gateway, () => issuer.token({ team: 'two' }));
    const client = new OpenAI({ apiKey: issuer.token(), baseURL: `${gateway.url}/v1`, maxRetries: 0 });
    const ask = { model: 'small', messages: HELLO, max_tokens: 8 };

    await client.chat.completions.create(ask);
    await client.chat.completions.create(ask, { headers: { 'x-tollgate-user': 'bob' } });
    /* The third of alice, whatever the header says. */
    const third = await call(gateway, issuer.token(), { 'x-tollgate-user': 'carol' });
    assert.equal(third.status, 429);
    assert.match(json(third).error.message, /user alice/);
    assert.equal((await call(gateway, issuer.token({ sub: 'bob' }))).status, 200);
    /* Virtual keys go on, and name their users by the header. */
    assert.equal((await call(gateway, KEY, { 'x-tollgate-user': 'alice2' })).status, 200);
});

test('callers_jwt: what is forged, expired or for others is refused, and nothing is sent', async (t) => {
    const issuer = await Issuer.start(t);
    const { gateway, mock } = await world(t, { top: section(issuer) });
    await settled(gateway, () => issuer.token({ team: 'nobody' }));
    const now = Math.floor(Date.now() / 1000);
    const other = pair('RS256').privateKey;
    const none = `${base64url({ alg: 'none' })}.${issuer.token().split('.')[1]}.`;
    const text = `${base64url({ alg: 'HS256', kid: 'first' })}.${issuer.token().split('.')[1]}`;
    const secret = crypto.createPublicKey({ key: issuer.jwk, format: 'jwk' }).export({ type: 'spki', format: 'pem' });
    const symmetric = `${text}.${crypto.createHmac('sha256', secret).update(text).digest('base64url')}`;
    const rows = [
        [issuer.token({ exp: now - 61 }), /expired \(exp\)/],
        [issuer.token({ exp: undefined }), /exp is missing/],
        [issuer.token({ nbf: now + 120 }), /not valid yet/],
        [issuer.token({ iss: 'https://other.example' }), /issuer \(iss\)/],
        [issuer.token({ aud: 'other' }), /audience \(aud\)/],
        [issuer.token({}, {}, other), /signature does not match/],
        [none, /algorithm is not allowed/],
        [symmetric, /algorithm is not allowed/],
        [issuer.token({}, { alg: 'RS512' }), /algorithm is not allowed/],
        [issuer.token({ team: 'nobody' }), /no tenant of the name/],
        [issuer.token({ team: undefined }), /claim that names/],
        [issuer.token({ sub: undefined }), /claim that names/],
        [issuer.token().slice(0, -8), /signature does not match/],
    ];

    for (const [token, why] of rows) {
        const reply = await call(gateway, token);
        assert.equal(reply.status, 401, String(reply.body));
        assert.match(json(reply).error.message, why);
        assert.equal(reason(reply), 'invalid_api_key');
    }
    assert.equal((await mock.seen()).begun, 0);
    const reply = await call(gateway, issuer.token());
    assert.equal(reply.status, 200);
});

test('callers_jwt: a rotated key is fetched when it is first seen, and inventing keys asks nobody', async (t) => {
    const issuer = await Issuer.start(t);
    const { gateway } = await world(t, { top: section(issuer) });
    await settled(gateway, () => issuer.token());
    /* Unknown ids may make the keys be fetched once more, and then not again. */
    await until('an unknown key is refused', async () => {
        const reply = await call(gateway, issuer.token({}, { kid: 'invented' }));
        assert.ok([401, 503].includes(reply.status));
        return reply.status === 401;
    });
    const before = issuer.fetched;
    for (let i = 0; i < 20; i++) {
        const reply = await call(gateway, issuer.token({}, { kid: `invented-${i}` }));
        assert.equal(reply.status, 401);
        assert.match(json(reply).error.message, /no key of its issuer/);
    }
    assert.equal(issuer.fetched, before);
    issuer.rotate('ES256', 'second');
    const reply = await until('the new key is known', async () => {
        const now = await call(gateway, issuer.token());
        return now.status === 200 && now;
    });
    assert.equal(reply.status, 200);
});

test('callers_jwt: an issuer that is away takes nobody out, and is told', async (t) => {
    const issuer = await Issuer.start(t);
    const { gateway } = await world(t, { top: section(issuer, { refresh: '1s' }) });
    await settled(gateway, () => issuer.token());
    issuer.away = true;
    await until('the log says so', () => gateway.process.out.includes('the keys of callers_jwt cannot be fetched'));
    assert.equal((await call(gateway, issuer.token())).status, 200);
    issuer.away = false;
});

test('callers_jwt: before any key has come the answer is 503 and soon', async (t) => {
    const issuer = await Issuer.start(t);
    issuer.away = true;
    const { gateway } = await world(t, { top: section(issuer) });
    const reply = await call(gateway, issuer.token());

    assert.equal(reply.status, 503);
    assert.equal(reason(reply), 'identity_unavailable');
    assert.ok(Number(reply.headers['retry-after-ms']) >= 1000);
    assert.equal((await call(gateway, KEY)).status, 200);
});

test('callers_jwt: a section that is taken out and put back holds again at once', async (t) => {
    const issuer = await Issuer.start(t);
    const { gateway, config } = await world(t, { top: section(issuer) });
    await settled(gateway, () => issuer.token());
    const { callers_jwt: taken, ...without } = config;
    await gateway.reload(without);
    assert.equal((await call(gateway, issuer.token())).status, 401);
    await gateway.reload({ ...without, callers_jwt: taken });
    const before = issuer.fetched;
    const reply = await settled(gateway, () => issuer.token());
    assert.equal(reply.status, 200);
    assert.ok(issuer.fetched <= before + 1);
});

test('callers_jwt: keys of an issuer that was left are trusted no more, whatever it does', async (t) => {
    const left = await Issuer.start(t);
    const next = await Issuer.start(t);
    const { gateway, config } = await world(t, { top: section(left, { refresh: '1s' }) });
    await settled(gateway, () => left.token());
    left.hangs = true;
    const before = left.fetched;
    await until('a fetch hangs', () => left.fetched > before);
    const callers_jwt = { ...section(next).callers_jwt, issuer: 'https://next.example' };
    await gateway.reload({ ...config, callers_jwt });
    const iss = 'https://next.example';
    const forged = await call(gateway, left.token({ iss }));
    assert.ok([401, 503].includes(forged.status), String(forged.status));
    const reply = await settled(gateway, () => next.token({ iss }));
    assert.equal(reply.status, 200);
    assert.equal((await call(gateway, left.token({ iss }))).status, 401);
});

test('callers_jwt: a tenant that is blocked is blocked with its tokens, too', async (t) => {
    const issuer = await Issuer.start(t);
    const { gateway } = await world(t, {
        top: { ...section(issuer), admin_auth: { token: ADMIN_TOKEN } },
        listen: { admin: '127.0.0.1:0' },
    });
    await settled(gateway, () => issuer.token());
    const port = (await gateway.process.said(/127\.0\.0\.1:(\d+) \(admin\)/))[1];
    const block = { kind: 'block', tenant: 'one', reason: 'leaked', until: '2099-01-01T00:00:00Z' };
    const made = await send(`http://127.0.0.1:${port}`, '/api/v1/overrides', block, {
        headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    });
    assert.equal(made.status, 201, String(made.body));
    const reply = await until('it is blocked', async () => {
        const now = await call(gateway, issuer.token());
        return now.status !== 200 && now;
    });
    assert.equal(reply.status, 401);
    assert.match(json(reply).error.message, /the tenant is blocked/);
});
