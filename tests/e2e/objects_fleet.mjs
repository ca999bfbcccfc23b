/* objects_fleet.mjs - whose objects are whose, for gateways that share a Redis: what a tenant made through
 * one is its own at all of them, and nobody else's at any.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { fails, json, KEY, keys, need, OTHER_KEY, reason, send, sha256, tenant, until } from './kit.mjs';
import { Provider } from './provider_kit.mjs';
import { patientFleet, Redis, stored } from './redis_kit.mjs';

const OpenAI = need('openai').default;
const { toFile } = need('openai');

const ALL = ['/*'];
const ROWS = ['/v1/files/*', '/v1/batches/*', '/v1/responses/*', '/v1/echo'];

/* Two gateways, and what each tenant is at each: {one: [at the first, at the second], two: [...]}. */
async function two(t, { top = {} } = {}) {
    const redis = await Redis.start(t);
    const provider = await Provider.start(t);
    const { gateways } = await patientFleet(t, 2, redis.url, {
        oai: { base_url: provider.url, keys: keys(1) },
        tenants: [
            tenant({ endpoints: ALL, budgets: [] }),
            { name: 'two', keys: [{ name: 'main', sha256: sha256(OTHER_KEY) }], endpoints: ALL },
        ],
        top: { passthrough: ROWS.map((path) => ({ path, provider: 'oai', per_call: 0 })), ...top },
    });
    const at = (apiKey) =>
        gateways.map(({ url }) => new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0 }));
    return { redis, provider, gateways, one: at(KEY), two: at(OTHER_KEY) };
}

const upload = async (client, name = 'a.jsonl') =>
    client.files.create({ file: await toFile(Buffer.from('{"a":1}\n'), name), purpose: 'batch' });
const page = async (list) => (await list).data.map((object) => object.id);

/* A record is written while the reply passes by: the next moment it is everywhere. */
const there = (call) => until('the other gateway knows it', () => call().catch((error) => error.status !== 404 && Promise.reject(error)));

test('files and batches made through one gateway are their tenant\u2019s at the other', async (t) => {
    const { one, two: stranger } = await two(t);
    const file = await upload(one[0]);
    assert.equal((await there(() => one[1].files.retrieve(file.id))).id, file.id);
    assert.equal(await (await one[1].files.content(file.id)).text(), `content of ${file.id}`);
    assert.deepEqual(await page(one[1].files.list()), [file.id]);
    for (const client of stranger) {
        assert.equal((await fails(client.files.retrieve(file.id))).code, 'object_not_found');
        assert.equal((await fails(client.files.delete(file.id))).status, 404);
        assert.deepEqual(await page(client.files.list()), []);
    }
    const wanted = { input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h' };
    const batch = await one[1].batches.create(wanted);
    assert.equal((await there(() => one[0].batches.retrieve(batch.id))).id, batch.id);
    assert.deepEqual(await page(one[0].batches.list()), [batch.id]);
    assert.equal(
        await (await one[0].files.content(batch.output_file_id)).text(),
        `content of ${batch.output_file_id}`,
    );
    assert.equal((await fails(stranger[0].batches.create(wanted))).status, 404);
    assert.equal((await fails(stranger[1].files.content(batch.output_file_id))).status, 404);

    assert.equal((await one[1].files.delete(file.id)).deleted, true);
    assert.equal((await fails(one[0].files.retrieve(file.id))).status, 404);
    assert.deepEqual(await page(one[0].files.list()), [batch.output_file_id]);
});

for (const stream of [false, true])
    test(`a response, ${stream ? 'streamed' : 'whole'}, goes on at the other gateway, for its tenant alone`, async (t) => {
        const { one, two: stranger } = await two(t);
        const made = await one[0].responses.create({ model: 'small', input: 'hi', stream });
        let id = made.id;
        if (stream) for await (const event of made) id = event.response.id;
        assert.equal((await there(() => one[1].responses.retrieve(id))).id, id);
        const next = await one[1].responses.create({ model: 'small', input: 'on', previous_response_id: id });
        await there(() => one[0].responses.create({ model: 'small', input: 'x', previous_response_id: next.id }));
        for (const client of stranger)
            for (const call of [
                () => client.responses.retrieve(id),
                () => client.responses.cancel(id),
                () => client.responses.create({ model: 'small', input: 'x', previous_response_id: id }),
            ])
                assert.equal((await fails(call())).code, 'object_not_found');
        await one[1].responses.delete(id);
        assert.equal((await fails(one[0].responses.retrieve(id))).status, 404);
    });

test('a reply that repeats an id makes nobody its owner, at whichever gateway', async (t) => {
    const { gateways, one, two: stranger } = await two(t);
    const file = await upload(one[0]);
    await there(() => one[1].files.retrieve(file.id));
    for (const gateway of gateways)
        await send(gateway.url, '/v1/echo', { id: file.id, object: 'file' },
            { headers: { authorization: `Bearer ${OTHER_KEY}` } });
    for (const client of stranger) {
        await until('it is not there', () => client.files.retrieve(file.id).then(() => false, (e) => e.status === 404));
        assert.deepEqual(await page(client.files.list()), []);
    }
    for (const client of one) assert.equal((await client.files.retrieve(file.id)).id, file.id);
});

test('what nobody made is nobody\u2019s at all gateways, and a door may be opened for it', async (t) => {
    const { gateways, provider, one, two: stranger } = await two(t, { top: { unknown_objects: 'allow' } });
    const before = provider.make('file-', 'somebody', { object: 'file' });
    for (const client of [...one, ...stranger]) assert.equal((await client.files.retrieve(before.id)).id, before.id);
    const file = await upload(one[0]);
    await there(() => one[1].files.retrieve(file.id));
    for (const client of stranger) assert.equal((await fails(client.files.retrieve(file.id))).status, 404);
    await Promise.all(gateways.map((gateway) => gateway.idle()));
});

test('without Redis what is known goes on, and what is not gets 503; a record is written later', async (t) => {
    const { redis, gateways, one } = await two(t, { top: { store_timeout: '200ms' } });
    const first = await upload(one[0]);
    await there(() => one[1].files.retrieve(first.id));
    redis.pause();
    await until('it is known to be away', async () => (await stored(gateways[0], 'down'), true));
    await stored(gateways[1], 'down');
    const second = await upload(one[0], 'b.jsonl');
    assert.equal((await one[1].files.retrieve(first.id)).id, first.id);
    const unknown = await send(gateways[1].url, `/v1/files/${second.id}`);
    assert.equal(unknown.status, 503);
    assert.equal(reason(unknown), 'store_unavailable');
    assert.match(json(unknown).error.message, /whose '.*' is cannot be asked/);
    redis.resume();
    await Promise.all(gateways.map((gateway) => stored(gateway, 'ok')));
    await until('the other gateway knows it', () => one[1].files.retrieve(second.id).catch(() => false));
    assert.deepEqual((await page(one[1].files.list())).sort(), [first.id, second.id].sort());
});
