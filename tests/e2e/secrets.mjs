/* secrets.mjs - keys go where they belong, and nowhere else.
 *
 * kit.mjs looks through the log of every gateway of every test; here is what would be said to
 * clients, to whoever reads the metrics, and to other hosts.
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import {
    chat,
    chatBody,
    json,
    KEY,
    keys,
    message,
    noSecrets,
    OTHER_KEY,
    reason,
    SECRETS,
    send,
    sha256,
    tenant,
    world,
} from './kit.mjs';

test("a provider gets its own key and none of what is ours or the client's", async (t) => {
    const { gateway, mock } = await world(t, {
        tenant: { rules: [{ header: 'openai-beta', allow: ['kept'] }] }, /* it has a budget */
    });
    const reply = await chat(
        gateway,
        {},
        {
            headers: {
                cookie: 'session=1',
                'openai-organization': 'org',
                'openai-project': 'proj',
                'x-tollgate-priority': 'high',
                'x-tollgate-user': 'u',
                'x-deriva-node-id': 'n',
                'proxy-authorization': 'Basic x',
                te: 'trailers',
                'x-odd': 'dropped',
                connection: 'x-odd',
                'keep-alive': 'timeout=5',
                'x-kept': 'yes',
                'openai-beta': 'kept',
                'accept-encoding': 'gzip',
            },
        },
    );
    assert.equal(reply.status, 200);

    const [seen] = await mock.requests(1);
    assert.deepEqual(seen.credentials, [{ header: 'authorization', sha256: sha256(SECRETS[0]) }]);
    const headers = new Map(seen.headers);
    for (const name of [
        'cookie',
        'openai-organization',
        'openai-project',
        'x-tollgate-priority',
        'x-tollgate-user',
        'x-deriva-node-id',
        'proxy-authorization',
        'te',
        'x-odd',
        'keep-alive',
        'x-api-key',
        'api-key',
    ])
        assert.ok(!headers.has(name), `${name} was forwarded`);
    assert.equal(headers.get('x-kept'), 'yes');
    assert.equal(headers.get('openai-beta'), 'kept');
    assert.equal(headers.get('host'), `127.0.0.1:${mock.port}`);
});

for (const [what, headers] of [
    ['x-api-key', { 'x-api-key': KEY }],
    ['api-key', { 'api-key': KEY }],
    ['the same key twice', { authorization: `Bearer ${KEY}`, 'x-api-key': KEY }],
]) {
    test(`a client may send ${what}; the provider gets its key once`, async (t) => {
        const { gateway, mock } = await world(t);
        const reply = await send(gateway.url, '/v1/chat/completions', chatBody(), {
            headers: { authorization: [], ...headers },
        });

        assert.equal(reply.status, 200, String(reply.body));
        const [seen] = await mock.requests(1);
        assert.deepEqual(seen.credentials, [
            { header: 'authorization', sha256: sha256(SECRETS[0]) },
        ]);
    });
}

for (const [what, headers, why] of [
    ['two keys that differ', { 'x-api-key': OTHER_KEY }, 'conflicting_api_keys'],
    ['a key that is unknown', { authorization: `Bearer ${OTHER_KEY}` }, 'invalid_api_key'],
    ["a provider's key", { authorization: `Bearer ${SECRETS[0]}` }, 'invalid_api_key'],
    ['no key', { authorization: [] }, 'invalid_api_key'],
]) {
    test(`${what}: 401, and nobody is asked`, async (t) => {
        const { gateway, mock } = await world(t);
        for (const one of [chat, message]) {
            const reply = await one(gateway, {}, { headers });
            assert.equal(reply.status, 401);
            assert.equal(reason(reply), why);
            noSecrets(String(reply.body) + JSON.stringify(reply.headers));
        }
        assert.equal((await mock.seen()).begun, 0);
    });
}

test('a key that has expired is unknown', async (t) => {
    const { gateway } = await world(t, {
        tenant: {
            keys: [{ name: 'old', sha256: sha256(KEY), not_after: '2020-01-01T00:00:00Z' }],
        },
    });
    assert.equal((await chat(gateway)).status, 401);
});

for (const [method, target] of [
    ['GET', '/'],
    ['POST', '/v1/files'],
    ['POST', '/v1/chat/completions/x'],
    ['POST', '/v1/moderations'],
    ['POST', '/v1/../v1/files'],
    ['POST', '//v1/chat/completions'],
    ['POST', '/v1/chat%2fcompletions'],
    ['GET', '/metrics'],
    ['GET', '/mock/requests'],
]) {
    test(`${method} ${target} is a 404, and never forwarded`, async (t) => {
        const { gateway, mock } = await world(t);
        const reply = await new Promise((done, fail) => {
            const request = http.request(
                {
                    host: '127.0.0.1',
                    port: gateway.port,
                    method,
                    path: target,
                    headers: { authorization: `Bearer ${KEY}` },
                },
                (response) => {
                    response.resume();
                    response.on('end', () => done(response));
                },
            );
            request.on('error', fail);
            request.end(method === 'POST' ? '{}' : undefined);
        });
        assert.equal(reply.statusCode, 404);
        assert.equal((await mock.seen()).begun, 0);
    });
}

test("a passthrough is forwarded with the provider's key, and charged by the call", async (t) => {
    const { gateway, mock } = await world(t, {
        script: {
            rules: [
                { when: { path: '/v1/moderations' }, do: { status: 200, body: '{"ok":true}' } },
            ],
        },
        top: { passthrough: [{ path: '/v1/moderations', provider: 'oai', per_call: 0.001 }] },
        tenant: { endpoints: ['/v1/moderations'] },
    });
    const reply = await send(gateway.url, '/v1/moderations', { input: 'x' });

    assert.equal(reply.status, 200, String(reply.body));
    assert.equal(String(reply.body), '{"ok":true}');
    const [seen] = await mock.requests(1);
    assert.deepEqual(seen.credentials, [{ header: 'authorization', sha256: sha256(SECRETS[0]) }]);
    assert.equal((await gateway.spent()).micro_usd, 1000);
});

for (const status of [301, 302, 307, 308]) {
    test(`a redirect (${status}) is neither followed nor passed on`, async (t) => {
        let visits = 0;
        const elsewhere = http.createServer((request, response) => {
            visits++;
            response.end();
        });
        await new Promise((done) => elsewhere.listen(0, '127.0.0.1', done));
        t.after(() => elsewhere.close());
        const location = `http://127.0.0.1:${elsewhere.address().port}/v1/chat/completions`;
        const { gateway } = await world(t, {
            script: { default: { status, headers: { location } } },
        });
        const reply = await chat(gateway);

        assert.equal(reply.status, 502, String(reply.body));
        assert.equal(reply.headers.location, undefined);
        assert.equal(visits, 0);
    });
}

test("a Host of the client's choice changes nothing", async (t) => {
    const { gateway, mock } = await world(t);
    const reply = await chat(gateway, {}, { headers: { host: 'evil.example' } });

    assert.equal(reply.status, 200);
    const [seen] = await mock.requests(1);
    assert.equal(new Map(seen.headers).get('host'), `127.0.0.1:${mock.port}`);
});

test('no error, header, metric or log line has a secret in it', async (t) => {
    const { gateway, mock } = await world(t, {
        script: {
            rules: [
                { when: { nth: '1' }, do: { status: 401 } },
                { when: { nth: '2' }, do: { status: 500 } },
                { when: { nth: '3' }, do: { status: 429, retry_after: 1 } },
                { when: { nth: '4' }, do: { fault: 'garbage' } },
            ],
        },
        oai: { keys: keys(2) },
        tenants: [tenant(), { name: 'two', keys: [{ name: 'main', sha256: sha256(OTHER_KEY) }] }],
    });
    let said = '';
    for (let i = 0; i < 12; i++)
        for (const key of [KEY, OTHER_KEY]) {
            const reply = await chat(
                gateway,
                { model: i === 7 ? 'nothing' : 'small', user: 'someone' },
                { headers: { authorization: `Bearer ${key}` } },
            );
            said += String(reply.body) + JSON.stringify(reply.headers);
        }
    said += await gateway.metricsText();
    for (const page of ['/healthz', '/readyz'])
        said += await (await fetch(gateway.probe + page)).text();
    await gateway.finish();

    assert.equal(gateway.lines().length, 24, 'a line for each request');
    assert.ok((await mock.seen()).begun > 20);
    noSecrets(said + gateway.output);
    noSecrets(JSON.stringify(await gateway.spend()));
});

test('what a provider says of its account is not for tenants', async (t) => {
    const headers = {
        'openai-organization': 'org-secret',
        'set-cookie': 'a=b',
        'x-ratelimit-remaining-requests': '7',
        'x-odd': 'kept',
    };
    const { gateway } = await world(t, { script: { default: { headers } } });
    const reply = await chat(gateway);

    assert.equal(reply.headers['x-odd'], 'kept');
    for (const name of ['openai-organization', 'set-cookie', 'x-ratelimit-remaining-requests'])
        assert.equal(reply.headers[name], undefined, name);
    assert.equal(json(reply).object, 'chat.completion');
});
