/* provider_auth.mjs - providers that want a signature, or a token for a service account; keys with
 * addresses of their own.
 *
 * The mock checks signatures (SigV4) and gives out tokens, each by code that shares with the gateway
 * what computes them; that is held against published vectors in tests/unit/io/sign.
 */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import {
    calls,
    chat,
    events,
    json,
    logLines,
    message,
    Mock,
    PRICE,
    reason,
    SECRETS,
    sha256,
    until,
    world,
} from './kit.mjs';

const MODEL = { price: PRICE, max_output_tokens: 4096 };

/* ---- signatures ---- */

const ID = 'AKIDEXAMPLE';
const SESSION = 'session-token-of-e2e/with+signs=';
const AWS_KEY = { name: 'a', access_key: ID, secret: SECRETS[0], session_token: SESSION };

const bedrock = (key = AWS_KEY) => ({
    mock: ['--aws', `${ID}:${SECRETS[0]}:${SESSION}`],
    providers: (mock) => ({
        rock: {
            preset: 'bedrock',
            region: 'us-east-1',
            base_url: `${mock.url}/anthropic`,
            keys: [key],
        },
        rockai: {
            preset: 'bedrock',
            region: 'us-east-1',
            api: 'openai',
            base_url: `${mock.url}/openai`,
            query: { 'x id': 'a/b' },
            keys: [key],
        },
    }),
    models: {
        opus: { provider: 'rock', upstream_model: 'anthropic.claude-opus-4:1', ...MODEL },
        oss: { provider: 'rockai', upstream_model: 'openai.gpt-oss-120b-1:0', ...MODEL },
    },
});

test('calls are signed for Bedrock, whatever the dialect, streamed or not', async (t) => {
    const { gateway, mock } = await world(t, bedrock());
    for (const stream of [false, true])
        for (const model of ['opus', 'oss'])
            for (const call of [chat, message]) {
                const reply = await call(gateway, { model, stream });
                assert.equal(reply.status, 200, String(reply.body));
                assert.equal(events(reply).length > 0, stream);
            }
    const seen = await mock.requests(8);
    const paths = new Set(seen.map((one) => one.path));
    assert.deepEqual(
        [...paths].sort(),
        ['/anthropic/v1/messages', '/openai/v1/chat/completions?x%20id=a%2Fb'],
    );
    for (const one of seen) {
        const names = one.headers.map(([name]) => name);
        assert.equal(names.filter((name) => name === 'x-amz-date').length, 1);
        assert.equal(names.filter((name) => name === 'x-amz-security-token').length, 1);
    }
});

test("what a client says of a signature is not forwarded", async (t) => {
    const { gateway, mock } = await world(t, bedrock());
    const reply = await message(
        gateway,
        { model: 'opus' },
        { headers: { 'x-amz-date': '20150830T123600Z', 'x-amz-security-token': 'theirs' } },
    );
    assert.equal(reply.status, 200, String(reply.body));
    const [one] = await mock.requests(1);
    const tokens = one.headers.filter(([name]) => name === 'x-amz-security-token');
    assert.deepEqual(tokens, [['x-amz-security-token', SESSION]]);
});

test('a signature by the wrong key is no error of the tenant', async (t) => {
    const { gateway } = await world(t, bedrock({ ...AWS_KEY, secret: SECRETS[1] }));
    const reply = await message(gateway, { model: 'opus' });
    assert.equal(reply.status, 502);
    assert.equal(reason(reply), 'upstream_credentials');
    assert.equal((await gateway.spent()).micro_usd, 0);
});

/* ---- service accounts ---- */

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const PEM = privateKey.export({ type: 'pkcs8', format: 'pem' });

const account = (url, more = {}) =>
    JSON.stringify({
        type: 'service_account',
        project_id: 'p-1',
        private_key_id: 'kid-1',
        private_key: PEM,
        client_email: 'tollgate@p-1.iam.gserviceaccount.com',
        token_uri: `${url}/token`,
        ...more,
    });

/* A gateway in front of a mock that knows the account. The gateway's file of it names the mock's
 * address, which is known once it runs. */
async function vertex(t, { args = [], script = {}, token_uri, models } = {}) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-e2e-sa-'));
    t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
    const file = path.join(folder, 'sa.json');
    fs.writeFileSync(file, account('http://elsewhere'));
    const mock = await Mock.start(script, ['--service-account', file, ...args]);
    t.after(() => mock.stop());
    const own = path.join(folder, 'own.json');
    fs.writeFileSync(own, account(mock.url, token_uri ? { token_uri } : {}));
    const places = { preset: 'vertex', project: 'p-1', location: 'us-central1' };
    const keys = [{ name: 'sa', service_account: `file:${own}` }];
    const { gateway } = await world(t, {
        providers: {
            gem: { ...places, base_url: mock.url, keys },
            cla: { ...places, api: 'anthropic', base_url: mock.url, keys },
        },
        models: {
            flash: { provider: 'gem', upstream_model: 'gemini-2.5-flash', ...MODEL },
            opus: { provider: 'cla', upstream_model: 'claude-opus-4-5@20251101', ...MODEL },
            ...models,
        },
    });
    return { gateway, mock, own };
}

const PLACE = '/v1/projects/p-1/locations/us-central1/publishers';

test('Gemini and Claude on Vertex AI are called with one token each', async (t) => {
    const { gateway, mock } = await vertex(t);
    for (const stream of [false, true])
        for (const model of ['flash', 'opus'])
            for (const call of [chat, message]) {
                const reply = await call(gateway, { model, stream });
                assert.equal(reply.status, 200, String(reply.body));
                assert.equal(events(reply).length > 0, stream);
            }
    const seen = await mock.requests(10);
    assert.equal(seen.filter((one) => one.path === '/token').length, 2, 'one for each key');
    const model = seen.filter((one) => one.path !== '/token');
    assert.deepEqual([...new Set(model.map((one) => one.path))].sort(), [
        `${PLACE}/anthropic/models/claude-opus-4-5@20251101:rawPredict`,
        `${PLACE}/anthropic/models/claude-opus-4-5@20251101:streamRawPredict`,
        `${PLACE}/google/models/gemini-2.5-flash:generateContent`,
        `${PLACE}/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse`,
    ]);
    const tokens = new Set([0, 1].map((n) => sha256(`mock-access-token-${n}`)));
    for (const one of model) {
        assert.equal(one.credentials.length, 1);
        assert.equal(one.credentials[0].header, 'authorization');
        assert.ok(tokens.has(one.credentials[0].sha256));
        assert.ok(!one.headers.some(([name]) => name === 'anthropic-version'));
    }
    const { micro_usd: spent } = await gateway.spent();
    assert.ok(spent > 0);
});

test('calls wait for the first token, and none is asked for twice', async (t) => {
    const script = { rules: [{ when: { path: '/token' }, do: { latency: '300ms' } }] };
    const { gateway, mock } = await vertex(t, { script });
    const replies = await calls(10, () => chat(gateway, { model: 'flash' }));
    assert.deepEqual([...new Set(replies.map((one) => one.status))], [200]);
    const seen = await mock.requests(12);
    assert.equal(seen.filter((one) => one.path === '/token').length, 2);
});

test('without a token calls fail at once, the log says why, and they pass again', async (t) => {
    const script = {
        rules: [{ when: { path: '/token' }, do: { status: 503, body: '{"error":"sleepy"}' } }],
    };
    const { gateway, mock } = await vertex(t, { script });
    const reply = await chat(gateway, { model: 'flash' });
    assert.equal(reply.status, 502, String(reply.body));
    assert.equal(reason(reply), 'upstream_credentials');
    assert.ok(!String(reply.body).includes('sleepy'), 'the cause is not for tenants');
    const lines = await until('the log says so', () => {
        const said = logLines(gateway.process.out);
        const found = said.filter((line) => /no access token/.test(line.msg));
        return found.length > 0 && found;
    });
    assert.match(lines[0].cause, /\/token answered 503: sleepy$/);
    assert.match(lines[0].key, /^(gem|cla)\/sa$/);
    await mock.script({});
    await until('a token was fetched', async () => {
        const again = await chat(gateway, { model: 'flash' });
        return again.status === 200;
    });
    assert.ok(!gateway.process.out.includes('PRIVATE KEY'));
    assert.ok(!gateway.process.out.includes('mock-access-token'));
});

test('a token is renewed ahead of its end', async (t) => {
    const { gateway, mock } = await vertex(t, { args: ['--token-life', '3'] });
    let failed = 0;
    await until('the second token of a key was used', async () => {
        const reply = await chat(gateway, { model: 'flash' });
        failed += reply.status !== 200;
        const { requests } = await mock.seen();
        const used = new Set(
            requests
                .filter((one) => one.path.startsWith(PLACE))
                .map((one) => one.credentials[0].sha256),
        );
        return used.size >= 2;
    });
    assert.equal(failed, 0, 'no call has met a token that had ended');
});

test('another key, then a fallback, serves where an account is turned away', async (t) => {
    const { gateway, mock } = await vertex(t, {
        token_uri: 'http://127.0.0.1:1/token',
        models: {},
    });
    const reply = await chat(gateway, { model: 'flash' });
    assert.equal(reply.status, 502);
    const config = JSON.parse(fs.readFileSync(gateway.file));
    const good = path.join(path.dirname(gateway.file), 'good.json');
    fs.writeFileSync(good, account(mock.url));
    config.providers.gem.keys.push({ name: 'good', service_account: `file:${good}` });
    config.models.opus.fallback = ['flash'];
    await gateway.reload(config);
    await until('the other account has a token', async () => {
        const again = await chat(gateway, { model: 'flash' });
        return again.status === 200;
    });
    for (let i = 0; i < 10; i++) {
        assert.equal((await chat(gateway, { model: 'flash' })).status, 200);
        const other = await chat(gateway, { model: 'opus' });
        assert.equal(other.status, 200, String(other.body));
        assert.equal(other.headers['x-tollgate-model'], 'flash');
    }
});

/* ---- addresses ---- */

test('a key may have an address of its own', async (t) => {
    const far = await Mock.start({});
    t.after(() => far.stop());
    const { gateway, mock } = await world(t, {
        providers: (near) => ({
            az: {
                preset: 'azure',
                keys: [
                    { name: 'east', secret: SECRETS[0], base_url: `${near.url}/openai` },
                    { name: 'west', secret: SECRETS[1], base_url: `${far.url}/openai` },
                ],
            },
        }),
        models: { gpt: { provider: 'az', upstream_model: 'deployment-1', ...MODEL } },
    });
    await until('both were called', async () => {
        assert.equal((await chat(gateway, { model: 'gpt' })).status, 200);
        return (await mock.seen()).begun > 0 && (await far.seen()).begun > 0;
    });
    for (const [at, secret] of [
        [mock, SECRETS[0]],
        [far, SECRETS[1]],
    ])
        for (const one of (await at.seen()).requests) {
            assert.equal(one.path, '/openai/v1/chat/completions');
            assert.deepEqual(one.credentials, [{ header: 'api-key', sha256: sha256(secret) }]);
            assert.equal(one.model, 'deployment-1');
        }
});

test('a key with an address of its own is the one that is left when the other is away', async (t) => {
    const { gateway } = await world(t, {
        providers: (near) => ({
            v: {
                preset: 'vllm',
                keys: [
                    { name: 'up', secret: SECRETS[0], base_url: near.url },
                    { name: 'down', secret: SECRETS[1], base_url: 'http://127.0.0.1:1' },
                ],
            },
        }),
        models: { m: { provider: 'v', ...MODEL } },
    });
    for (let i = 0; i < 10; i++) {
        const reply = await chat(gateway, { model: 'm' });
        assert.equal(reply.status, 200, String(reply.body));
        assert.equal(json(reply).object, 'chat.completion');
    }
});
