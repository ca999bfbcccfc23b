/* passthrough.mjs - files, batches, stored responses, images and audio through the gateway, with the
 * official client of OpenAI; and what tenants that share an account can see of each other.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import {
    fails,
    json,
    KEY,
    keys,
    need,
    OTHER_KEY,
    reason,
    send,
    sha256,
    tenant,
    until,
    world,
} from './kit.mjs';
import { Provider } from './provider_kit.mjs';

const OpenAI = need('openai').default;
const { toFile } = need('openai');

/* ---- two tenants of one account ---- */

const ALL = ['/*'];
const ROWS = ['/v1/files/*', '/v1/batches/*', '/v1/responses/*', '/v1/images/*', '/v1/audio/*', '/v1/echo'];
const second = (more = {}) => ({
    name: 'two',
    keys: [{ name: 'main', sha256: sha256(OTHER_KEY) }],
    endpoints: ALL,
    ...more,
});

async function two(t, { top = {}, one = {}, other = {}, options, n_keys = 1, rows } = {}) {
    const provider = await Provider.start(t, options);
    const { gateway, config } = await world(t, {
        oai: { base_url: provider.url, keys: keys(n_keys) },
        tenants: [tenant({ endpoints: ALL, budgets: [], ...one }), second(other)],
        top: {
            passthrough: rows ?? ROWS.map((path) => ({ path, provider: 'oai', per_call: 0 })),
            ...top,
        },
    });
    const client = (apiKey) =>
        new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
    return { provider, gateway, config, one: client(KEY), two: client(OTHER_KEY) };
}

const upload = async (client, name = 'a.jsonl') =>
    client.files.create({ file: await toFile(Buffer.from('{"a":1}\n'), name), purpose: 'batch' });
const page = async (list) => (await list).data.map((object) => object.id);
const as = (key) => ({ headers: { authorization: `Bearer ${key}` } });
const other = as(OTHER_KEY);

/* ---- D7, S7 ---- */

test('D7 (a) files are made, listed, read and deleted with the official client', async (t) => {
    const { one, gateway } = await two(t);
    const file = await upload(one);

    assert.equal(file.filename, 'a.jsonl');
    assert.deepEqual(await page(one.files.list()), [file.id]);
    assert.equal((await one.files.retrieve(file.id)).id, file.id);
    assert.equal(await (await one.files.content(file.id)).text(), `content of ${file.id}`);
    assert.equal((await one.files.delete(file.id)).deleted, true);
    const error = await fails(one.files.retrieve(file.id));
    assert.equal(error.status, 404);
    assert.equal(error.code, 'object_not_found');
    await gateway.idle();
});

test('D7 (a) batches and the files they write are theirs who made them', async (t) => {
    const { one, two: stranger } = await two(t, {
        rows: ROWS.map((path) => ({ path, provider: 'oai', per_call: 0.01 })),
    });
    const file = await upload(one);
    const batch = await one.batches.create({
        input_file_id: file.id,
        endpoint: '/v1/chat/completions',
        completion_window: '24h',
    });

    assert.deepEqual(await page(one.batches.list()), [batch.id]);
    assert.equal((await one.batches.retrieve(batch.id)).id, batch.id);
    assert.equal(
        await (await one.files.content(batch.output_file_id)).text(),
        `content of ${batch.output_file_id}`,
    );
    assert.equal((await one.batches.cancel(batch.id)).status, 'cancelled');
    assert.deepEqual(await page(stranger.batches.list()), []);
    for (const call of [
        () => stranger.batches.retrieve(batch.id),
        () => stranger.batches.cancel(batch.id),
        () => stranger.files.content(batch.output_file_id),
    ])
        assert.equal((await fails(call())).status, 404);
});

for (const stream of [false, true])
    test(`D7 (a) a response, ${stream ? 'streamed' : 'whole'}, is fetched, cancelled and deleted`, async (t) => {
        const { one, two: stranger } = await two(t);
        const made = await one.responses.create({ model: 'small', input: 'hi', stream });
        let id = made.id;
        if (stream) for await (const event of made) id = event.response.id;

        assert.equal((await one.responses.retrieve(id)).id, id);
        assert.equal((await page(one.responses.inputItems.list(id))).length, 1);
        assert.equal((await one.responses.cancel(id)).status, 'cancelled');
        await one.responses.create({ model: 'small', input: 'on', previous_response_id: id });
        for (const call of [
            () => stranger.responses.retrieve(id),
            () => stranger.responses.inputItems.list(id),
            () => stranger.responses.cancel(id),
            () => stranger.responses.delete(id),
            () => stranger.responses.create({ model: 'small', input: 'x', previous_response_id: id }),
        ]) {
            const error = await fails(call());
            assert.equal(error.status, 404);
            assert.equal(error.code, 'object_not_found');
        }
        await one.responses.delete(id);
        assert.equal((await fails(one.responses.retrieve(id))).status, 404);
    });

test('D7 (a) images and audio pass, binary and multipart', async (t) => {
    const { one, provider } = await two(t);
    const image = await one.images.generate({ model: 'gpt-image-1', prompt: 'x' });
    const speech = await one.audio.speech.create({ model: 'tts-1', voice: 'alloy', input: 'x' });
    const text = await one.audio.transcriptions.create({
        file: await toFile(Buffer.from([0, 1, 2, 255, 13, 10, 45, 45]), 'a.wav'),
        model: 'whisper-1',
    });

    assert.equal(image.data.length, 2);
    assert.deepEqual([...new Uint8Array(await speech.arrayBuffer())], [0, 255, 1, 254, 10, 13, 0]);
    assert.equal(text.text, 'hello');
    assert.match(provider.seen.at(-1).body, /name="model"/);
});

test('D7 (b) a path is 404 for a tenant that does not name it', async (t) => {
    const { two: stranger, one, provider } = await two(t, { other: { endpoints: ['/v1/files/*'] } });

    await one.images.generate({ model: 'm', prompt: 'x' });
    await upload(stranger);
    const error = await fails(stranger.images.generate({ model: 'm', prompt: 'x' }));
    assert.equal(error.status, 404);
    assert.equal(provider.seen.length, 2);
});

test('D7 (c) a batch of a tenant with a budget needs a price', async (t) => {
    const budgets = [{ usd: 1, per: 'total' }];
    const free = await two(t, { one: { budgets } });
    const batch = { input_file_id: 'file-x1', endpoint: '/v1/embeddings', completion_window: '24h' };
    const error = await fails(free.one.batches.create(batch));
    assert.equal(error.status, 403);
    assert.equal(error.code, 'endpoint_unpriced');
    assert.match(error.message, /per_call above 0/);
    assert.equal(free.provider.seen.length, 0);

    const priced = await two(t, {
        one: { budgets },
        rows: [
            { path: '/v1/files/*', provider: 'oai', per_call: 0 },
            { path: '/v1/batches/*', provider: 'oai', per_call: 0.4 },
        ],
    });
    const file = await upload(priced.one);
    for (let i = 0; i < 2; i++)
        await priced.one.batches.create({ ...batch, input_file_id: file.id });
    await priced.one.batches.list(); /* reading is free */
    const spent = await fails(priced.one.batches.create({ ...batch, input_file_id: file.id }));
    assert.equal(spent.status, 402);
    assert.equal((await priced.gateway.spent()).micro_usd, 800000);
});

test('D7 (d) a tenant sees its own files alone, wherever it names them', async (t) => {
    const { one, two: stranger, gateway, provider } = await two(t);
    const mine = [];
    for (let i = 0; i < 3; i++) {
        mine.push((await upload(one, `one-${i}`)).id);
        await upload(stranger, `two-${i}`);
    }
    const theirs = mine[1];

    const list = json(await send(gateway.url, '/v1/files', undefined, other));
    assert.equal((await page(stranger.files.list())).length, 3);
    assert.deepEqual(
        list.data.map((file) => file.filename),
        ['two-0', 'two-1', 'two-2'],
    );
    assert.equal(list.first_id, list.data[0].id);
    assert.equal(list.last_id, list.data[2].id);
    assert.ok(!JSON.stringify(list).includes('one-'));
    const before = provider.seen.length;
    const form = (fields) =>
        '--b\r\n' +
        fields
            .map(([name, value]) => `content-disposition: form-data; name="${name}"\r\n\r\n${value}`)
            .join('\r\n--b\r\n') +
        '\r\n--b--\r\n';
    const typed = (type) => ({ headers: { ...other.headers, 'content-type': type } });
    const multipart = typed('multipart/form-data; boundary=b');
    for (const [target, body, options = other] of [
        [`/v1/files/${theirs}`],
        [`/v1/files/${theirs}/content`],
        [`/v1/files/x/${theirs}`],
        [`/v1/files/${theirs}`, undefined, { ...other, method: 'DELETE' }],
        [`/v1/files?after=${theirs}`],
        [`/v1/files?after=${theirs.replace('f', '%66')}`],
        [`/v1/files?file_id=file-unknown1`],
        ['/v1/echo', { file_id: theirs }],
        ['/v1/echo', { id: theirs }],
        ['/v1/echo', { a: [{ b: theirs }] }],
        ['/v1/echo', { File_ID: 'file-unknown1' }],
        ['/v1/echo', { file_ids: ['file-unknown1'] }],
        ['/v1/echo', `{"file_id": "${theirs.replace('f', '\\u0066')}"}`],
        ['/v1/echo', `{"file_id":"${theirs}"}`, typed('text/plain')],
        ['/v1/echo', `{"file_id":"${theirs}"}`, typed('application/x-www-form-urlencoded')],
        ['/v1/echo', form([['file_id', theirs]]), multipart],
        ['/v1/echo', form([['x', 'y'], ['file_id', 'file-unknown1']]), multipart],
        ['/v1/echo', `a=b&file_id=${theirs}`, typed('application/x-www-form-urlencoded')],
        ['/v1/batches', { input_file_id: theirs }],
        ['/v1/responses', { model: 'small', input: 'x', conversation: 'conv_1' }],
        ['/v1/responses', { model: 'small', input: 'x', conversation: { id: 'conv_1' } }],
        [
            '/v1/responses',
            { model: 'small', input: [{ role: 'user', content: [{ type: 'input_file', file_id: theirs }] }] },
        ],
        [
            '/v1/responses',
            { model: 'small', input: 'x', tools: [{ type: 'file_search', vector_store_ids: ['vs_1'] }] },
        ],
        [
            '/v1/chat/completions',
            {
                model: 'small',
                messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: theirs } }] }],
            },
        ],
    ]) {
        const reply = await send(gateway.url, target, body, options);
        assert.equal(reply.status, 404, `${target} ${JSON.stringify(body)} ${reply.body}`);
        assert.equal(reason(reply), 'object_not_found', target);
    }
    for (const target of [
        `/v1/files%2f${theirs}`,
        `/v1/files/%66ile`,
        `/v1//files/${theirs}`,
        `/v1/files/../files/${theirs}`,
        `/v1/files/./${theirs}`,
        `/v1/files/${theirs};x=y`,
        `/v1/Files/${theirs}`,
        `/v1/files/`,
        `/V1/files`,
    ]) {
        const reply = await send(gateway.url, target, undefined, other);
        assert.equal(reply.status, 404, target);
    }
    for (const [body, options, status] of [
        ['{"file_id":', other, 400],
        [`{"a":1,"a":2,"file_id":"${theirs}"}`, typed('application/JSON'), 400],
        [`{"a":1,"a":2,"file_id":"${theirs}"}`, typed('text/plain'), 400],
        [Buffer.from(`\ufeff{"file_id":"${theirs}"}`, 'utf16le'), typed('application/json'), 400],
        [`--b--x\r\n${form([['file_id', theirs]])}`, multipart, 400],
        ['x', multipart, 400],
        ['{}', { headers: { ...other.headers, 'content-encoding': 'gzip' } }, 415],
        ['{}', { headers: { ...other.headers, connection: 'close, content-type' } }, 415],
    ])
        assert.equal((await send(gateway.url, '/v1/echo', body, options)).status, status);
    assert.equal(provider.seen.length, before, 'nothing of it reached the provider');
    assert.deepEqual(await page(one.files.list()), mine);
});

test('D7 (d) the lines of a batch name only what is their tenant\u2019s', async (t) => {
    const { one, two: stranger } = await two(t);
    const theirs = await upload(one);
    const line = (body) =>
        JSON.stringify({ custom_id: 'a', method: 'POST', url: '/v1/responses', body });
    const lines = async (client, body) =>
        client.files.create({
            file: await toFile(Buffer.from(`${line({ input: 'hello' })}\n${line(body)}\n`), 'b.jsonl'),
            purpose: 'batch',
        });
    const body = { input: [{ role: 'user', content: [{ type: 'input_file', file_id: theirs.id }] }] };
    const refused = await fails(lines(stranger, body));
    assert.equal(refused.status, 404);
    assert.equal(refused.code, 'object_not_found');
    assert.ok((await lines(one, body)).id);
    assert.ok((await lines(stranger, { input: 'hello' })).id);
    const wrong = await fails(
        stranger.files.create({ file: await toFile(Buffer.from('no json'), 'c.jsonl'), purpose: 'batch' }),
    );
    assert.equal(wrong.status, 400);
});

test('S7 what is below a prefix is served, with any method and query', async (t) => {
    const { gateway, provider, one } = await two(t);
    const file = await upload(one);

    for (const [method, target] of [
        ['GET', `/v1/files/${file.id}?x=1&y[]=2`],
        ['GET', `/v1/files/${file.id}/content`],
        ['POST', '/v1/echo'],
        ['PUT', '/v1/echo'],
        ['PATCH', '/v1/echo'],
        ['DELETE', `/v1/files/${file.id}`],
    ]) {
        const body = method === 'GET' || method === 'DELETE' ? undefined : { a: 1 };
        const reply = await send(gateway.url, target, body, { method });
        assert.equal(reply.status, 200, `${method} ${target} ${reply.body}`);
        assert.equal(provider.seen.at(-1).method, method);
        assert.equal(provider.seen.at(-1).url, target);
    }
});

/* ---- nobody becomes an owner by a trick ---- */

test('an id in an error, or one that a reply repeats, makes nobody its owner', async (t) => {
    const { one, two: stranger, gateway, provider } = await two(t);
    const file = await upload(one);
    provider.leak = 'file-9999leaked';
    const own = await upload(stranger);
    provider.objects.delete(own.id); /* at the provider it is gone, and its 404 has another id */

    assert.equal((await fails(stranger.files.retrieve(own.id))).status, 404);
    const leaked = await send(gateway.url, `/v1/files/${provider.leak}`, undefined, other);
    assert.equal(reason(leaked), 'object_not_found');
    /* Words that a reply repeats deep inside, and the id itself at its top. */
    const deep = await send(gateway.url, '/v1/echo', { metadata: { file_id: 'file-8888' } }, other);
    assert.equal(deep.status, 200);
    const top = await send(gateway.url, '/v1/echo', { id: file.id }, other);
    assert.equal(top.status, 404);
    for (const id of ['file-8888', file.id]) {
        const reply = await send(gateway.url, `/v1/files/${id}`, undefined, other);
        assert.equal(reply.status, 404, id);
    }
    assert.equal((await one.files.retrieve(file.id)).id, file.id);
});

test('a method that a header changes is not passed on', async (t) => {
    const { gateway, provider } = await two(t);
    const headers = { 'x-http-method-override': 'GET' };

    await send(gateway.url, '/v1/echo', { a: 1 }, { headers });
    assert.equal(provider.seen.length, 1);
    await send(gateway.url, '/v1/files', '', { method: 'POST', headers });
    assert.ok(provider.seen.every((seen) => seen.method === 'POST'));
});

/* ---- where, and for how long ---- */

test('an object is fetched with the key that made it', async (t) => {
    const { one, provider } = await two(t, { n_keys: 2, options: { accounts: true } });
    const ids = [];

    for (let i = 0; i < 8; i++) {
        ids.push((await upload(one)).id);
        ids.push((await one.responses.create({ model: 'small', input: 'x' })).id);
    }
    assert.equal(new Set(provider.seen.map((seen) => seen.key)).size, 2, 'both keys were used');
    for (const id of ids)
        assert.equal((await one.get(`/${id.startsWith('f') ? 'files' : 'responses'}/${id}`)).id, id);
});

test('a response is fetched at the provider that made it, not at the one of the path', async (t) => {
    const far = await Provider.start(t);
    const { one, provider } = await two(t, {
        rows: [{ path: '/v1/responses/*', provider: 'ant', per_call: 0 }],
    });
    const made = await one.responses.create({ model: 'small', input: 'x' });

    assert.equal((await one.responses.retrieve(made.id)).id, made.id);
    assert.equal(provider.seen.at(-1).url, `/v1/responses/${made.id}`);
    assert.equal(far.seen.length, 0);
});

test('owners are known after a restart', async (t) => {
    const { one, two: stranger, gateway, config } = await two(t);
    const file = await upload(one);
    const response = await one.responses.create({ model: 'small', input: 'x' });

    await gateway.finish();
    config.listen.gateway = `127.0.0.1:${gateway.port}`;
    gateway.write(config);
    await gateway.begin();
    assert.deepEqual(await page(one.files.list()), [file.id]);
    assert.equal((await one.responses.retrieve(response.id)).id, response.id);
    assert.equal((await fails(stranger.files.retrieve(file.id))).status, 404);
});

test('what is shared is read by all and changed by none, and unknown objects may be allowed', async (t) => {
    const shared = await two(t, { top: { shared_objects: ['file-handbook*'] } });
    shared.provider.objects.set('file-handbook1', {
        object: { id: 'file-handbook1', object: 'file' },
        kind: 'file-',
    });
    assert.deepEqual(await page(shared.two.files.list()), ['file-handbook1']);
    assert.equal((await shared.two.files.retrieve('file-handbook1')).id, 'file-handbook1');
    assert.equal((await fails(shared.two.files.delete('file-handbook1'))).status, 404);

    const open = await two(t, { top: { unknown_objects: 'allow' } });
    const file = await upload(open.one);
    open.provider.objects.set('file-old1', { object: { id: 'file-old1' }, kind: 'file-' });
    assert.deepEqual(await page(open.two.files.list()), ['file-old1']);
    assert.equal((await open.two.files.retrieve('file-old1')).id, 'file-old1');
    assert.equal((await fails(open.two.files.retrieve(file.id))).status, 404);
});

test('limits of the tenant hold for what is passed through', async (t) => {
    const { gateway } = await two(t, { one: { limits: [{ rpm: 2 }] } });
    const statuses = [];

    for (let i = 0; i < 3; i++)
        statuses.push((await send(gateway.url, '/v1/files', undefined)).status);
    assert.deepEqual(statuses, [200, 200, 429]);
    assert.equal(json(await send(gateway.url, '/v1/files', undefined, other)).object, 'list');
    await until('nothing is held', async () => (await gateway.metric('open_calls')) === 0);
});
