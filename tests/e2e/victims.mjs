/* victims.mjs - what one tenant does beside another's calls: all of these succeed.
 *
 * The attacks are those of tests/adversary/victim.mjs. `make soak` prints how much slower the calls are.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { ATTACKS, AT_ONCE, beside } from '../adversary/victim.mjs';

for (const name of Object.keys(ATTACKS))
    for (const at_once of AT_ONCE[name] ?? [4])
        test(`beside ${name}, every call of another tenant succeeds, ${at_once} at once`, async () => {
            const { alone, beside: with_it } = await beside(name, { calls: Math.max(100, 10 * at_once), at_once });
            assert.deepEqual(alone.failed, []);
            assert.deepEqual(with_it.failed, []);
        });
