/* route_laws.mjs - what teaches the law of a model: a provider that says it has too much to do, or says
 * nothing in time. Not one that fails, refuses a key or a quota, nor a client that leaves.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { chat, keys, message, tenant, until, world } from './kit.mjs';

const START = 40;

/* A model whose limit a success cannot move: nothing is near it. */
const model = (more = {}) => ({
    retries: 0,
    concurrency: { law: 'aimd', initial: START, min: 2, max: 100 },
    breaker: { failures: 1000 },
    ...more,
});

const limitOf = (gateway, name = 'small') =>
    gateway.metric('route_concurrency_limit', `model="${name}"`);

async function after(t, script, change = {}, ask = chat) {
    const made = await world(t, { script, small: model(), claude: model(), ...change });
    assert.equal(await limitOf(made.gateway), START);
    await ask(made.gateway);
    await made.gateway.idle();
    return made.gateway;
}

for (const status of [503, 504, 529])
    test(`a provider that answers ${status} has too much to do: the limit falls`, async (t) => {
        const gateway = await after(t, { default: { status } });
        assert.equal(await limitOf(gateway), START * 0.9);
    });

test('so does one that says nothing in time', async (t) => {
    const gateway = await after(
        t,
        { default: { fault: 'hang' } },
        { small: model({ timeouts: { first_byte: '50ms' } }) },
        (gateway) => chat(gateway, { stream: true }),
    );
    assert.equal(await limitOf(gateway), START * 0.9);
});

test('and one of the other API', async (t) => {
    const gateway = await after(t, { default: { status: 529 } }, {}, message);
    assert.equal(await limitOf(gateway, 'claude'), START * 0.9);
    assert.equal(await limitOf(gateway, 'small'), START, 'it is of one model alone');
});

for (const status of [400, 401, 403, 429, 500, 502])
    test(`a provider that answers ${status} says nothing about its load`, async (t) => {
        const gateway = await after(t, { default: { status } });
        assert.equal(await limitOf(gateway), START);
    });

test('a client that hangs up says nothing about the provider', async (t) => {
    const { gateway, mock } = await world(t, {
        script: { default: { fault: 'hang' } },
        small: model(),
    });
    const call = chat(gateway);
    call.catch(() => 0);
    await until('the provider has it', async () => (await mock.seen()).begun === 1);
    call.request.destroy();
    await gateway.idle();
    assert.equal(await limitOf(gateway), START);
});

test('a client that leaves while it is tried again: nor does that', async (t) => {
    const { gateway, mock } = await world(t, {
        script: {
            rules: [
                { when: { nth: '1' }, do: { status: 503 } },
                { when: { nth: '1' }, do: { fault: 'hang' } },
            ],
        },
        oai: { keys: keys(2) },
        small: model({ retries: 1 }),
    });
    const call = chat(gateway);
    call.catch(() => 0);
    await until('it is tried again', async () => (await mock.seen()).begun === 2);
    call.request.destroy();
    await gateway.idle();
    assert.equal(await limitOf(gateway), START);
});

test('a fallback teaches the one that was left, and not the one that serves', async (t) => {
    const { gateway } = await world(t, {
        script: { rules: [{ when: { model: 'small' }, do: { status: 503 } }] },
        small: model({ fallback: ['other'] }),
        models: { other: { provider: 'oai', price: {}, ...model() } },
    });
    assert.equal((await chat(gateway)).status, 200);
    await gateway.idle();
    assert.equal(await limitOf(gateway), START * 0.9);
    assert.equal(await limitOf(gateway, 'other'), START);
});

/* ---- who may use a model ---- */

test('the last pattern that matches says whether a model may be used', async (t) => {
    for (const [models, status] of [
        [['demo-small', '!demo-*'], 403],
        [['!demo-*', 'demo-small'], 200],
        [['demo-*', '!demo-small'], 403],
        [['quick'], 200] /* an alias that is named stands for its model */,
        [['!quick'], 403],
        [['*', '!quick'], 403],
    ]) {
        const { gateway } = await world(t, {
            models: { 'demo-small': { provider: 'oai', price: {} } },
            top: { aliases: { quick: 'demo-small' } },
            tenants: [tenant({ models })],
        });
        for (const name of ['demo-small', 'quick']) {
            const reply = await chat(gateway, { model: name });
            assert.equal(reply.status, status, `${models}, ${name}: ${reply.body}`);
        }
        await gateway.finish();
    }
});
