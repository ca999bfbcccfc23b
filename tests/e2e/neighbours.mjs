/* neighbours.mjs - what one tenant does, and what another tenant notices of it: nothing.
 *
 * Each test is an attack on everybody else, with a victim beside it whose calls must all succeed.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { calls, chat, keys, OTHER_KEY, reason, sha256, tenant, world } from './kit.mjs';

/* Tenant one attacks; tenant two is the victim. */
const TWO = [
    tenant(),
    { name: 'two', models: ['*'], keys: [{ name: 'its', sha256: sha256(OTHER_KEY) }] },
];

const victim = (gateway, more, { headers, ...options } = {}) =>
    chat(gateway, more, {
        headers: { authorization: `Bearer ${OTHER_KEY}`, ...headers },
        ...options,
    });

/* ---- deadlines ---- */

for (const [header, value] of [
    ['x-request-timeout-ms', '1'],
    ['x-stainless-timeout', '1'],
])
    test(`a client's deadline opens no breaker: ${header}`, async (t) => {
        const { gateway, mock } = await world(t, {
            script: { default: { fault: 'hang' } },
            oai: { keys: keys(1) },
            small: { retries: 0 },
            tenants: TWO,
        });
        for (let round = 0; round < 2; round++)
            for (const reply of await calls(8, () =>
                chat(gateway, {}, { headers: { [header]: value } }),
            )) {
                assert.equal(reply.status, 504, String(reply.body));
                assert.equal(reason(reply), 'upstream_timeout');
            }
        assert.equal(await gateway.metric('key_breaker_open', 'model="small"'), 0);
        assert.equal(await gateway.metric('upstream_total', 'class="failed"') ?? 0, 0);
        await mock.script({});
        for (let i = 0; i < 5; i++) assert.equal((await victim(gateway)).status, 200);
    });

/* ---- retries ---- */

test("a client's header drains nobody's retries", async (t) => {
    const { gateway, mock } = await world(t, {
        tenants: TWO,
        top: { retry_budget: { ratio: 0.1, min_per_s: 2 } },
    });
    for (let round = 0; round < 20; round++)
        await calls(20, async () => {
            const reply = await chat(
                gateway,
                { model: 'no-such-model' },
                { headers: { 'x-stainless-retry-count': '3' } },
            );
            assert.equal(reply.status, 404);
        });
    await mock.script({ rules: [{ when: { nth: '1' }, do: { status: 503 } }] });
    assert.equal((await victim(gateway)).status, 200);
    assert.equal((await gateway.metrics()).retries_total, 1);
});
