/* adversary.mjs - tenants that do their worst, against a provider that bills by the published rules.
 *
 * tests/adversary has the provider, the moves and what must hold; `make soak` runs the same for longer.
 * A run is drawn from a seed, which a failure prints, with the call: ADVERSARY_SEED=N runs it again.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { agents } from '../adversary/agents.mjs';
import { attacked, BUDGETS, PARENT } from '../adversary/attack.mjs';
import { billOf, denseTokens, imageTokens, microOf, MODELS } from '../adversary/billing.mjs';
import { honestCuts } from '../adversary/cuts.mjs';
import { Redis } from './redis_kit.mjs';

const SEED = Number(process.env.ADVERSARY_SEED ?? Math.floor(Math.random() * 1e6));
const CALLS = 1000;

/* Worked examples that providers publish: the witness has to be right. */
test('the provider counts and bills as the published examples do', () => {
    const tiles = { rule: 'tiles', base: 85, tile: 170 };
    assert.equal(imageTokens(tiles, [1024, 1024]), 765);
    assert.equal(imageTokens(tiles, [2048, 4096]), 1105);
    assert.equal(imageTokens(tiles, [4096, 8192], 'low'), 85);
    assert.equal(imageTokens({ rule: 'tiles', base: 2833, tile: 5667 }, null), 48169);
    const claude = { rule: 'claude', most: 4784, edge: 2576 };
    assert.equal(imageTokens(claude, [200, 200]), 64);
    assert.equal(imageTokens(claude, [1000, 1000]), 1296);
    assert.equal(imageTokens(claude, [1920, 1080]), 2691);
    assert.equal(denseTokens('\ufdfa', 'byte'), 3);
    assert.equal(denseTokens('\ufdfa', 'nfkc'), 33);
    assert.equal(denseTokens('\u0fa2', 'nfc'), 6);

    const bill = (model, usage) =>
        microOf(
            billOf(MODELS[model], {
                input: 0,
                cached: 0,
                write: 0,
                write_long: 0,
                output: 0,
                ...usage,
            }),
        );
    assert.equal(bill('oa-flat', { input: 1000000 }), 2000000);
    assert.equal(bill('oa-flat', { input: 1 }), 2);
    assert.equal(bill('oa-mini', { input: 1 }), 1);
    assert.equal(bill('oa-write', { input: 12000, output: 1000 }), 68000);
    assert.equal(bill('oa-write', { input: 12001, output: 1000 }), 96008 + 30000);
    assert.equal(bill('an-opus', { write: 100, write_long: 100, output: 10, factor: 2200 }), 3300);
    assert.equal(bill('an-opus', { uses: 3 }), 30000);
});

for (const [what, where, redis, ends] of [
    ['two kills', 'limits in memory', false, { kills: 2 }],
    ['two kills', 'limits in Redis', true, { kills: 2 }],
    ['three takeovers', 'limits in memory', false, { takeovers: 3 }],
    ['a kill between takeovers', 'limits in memory', false, { kills: 1, takeovers: 2 }],
])
    test(`${CALLS} calls at their worst and ${what}, ${where}: billed <= budget, charged = billed`, async (t) => {
        t.diagnostic(`seed ${SEED}`);
        const { wrong, figures } = await attacked({
            seed: SEED,
            calls: CALLS,
            people: true,
            ...ends,
            budgets: BUDGETS,
            parent: PARENT,
            ...(redis && { store: (await Redis.start(t)).url }),
        });
        t.diagnostic(JSON.stringify(figures));
        assert.equal(wrong.length, 0, wrong.slice(0, 5).join('\n'));
        assert.ok(figures.billed_calls > CALLS / 10, 'the provider was asked');
    });

test('an honest cut at a steady provider is booked within a factor of 2 of its bill', async () => {
    const cuts = await honestCuts({ cuts: 12 });
    for (const cut of cuts) {
        assert.ok(
            cut.booked <= 2 * cut.billed && 2 * cut.booked >= cut.billed,
            JSON.stringify(cut),
        );
        assert.ok(cut.booked + cut.uncertain >= cut.billed, JSON.stringify(cut));
    }
});

test('honest agents spend of a budget before they are refused', async (t) => {
    const { share, calls, refusal } = await agents({ budget: 2, turns: 10, seed: SEED });
    t.diagnostic(
        `${(100 * share).toFixed(1)} % of 2 USD in ${calls} calls, then ${refusal.reason}`,
    );
    assert.ok(share > 0);
});
