/* victims.mjs - what one tenant does beside another's calls: all of these succeed.
 *
 * The attacks are those of tests/adversary/victim.mjs. `make soak` prints how much slower the calls are.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { ATTACKS, beside } from '../adversary/victim.mjs';

for (const name of Object.keys(ATTACKS))
    test(`beside ${name}, every call of another tenant succeeds`, async () => {
        const { alone, beside: with_it } = await beside(name, { calls: 100 });
        assert.deepEqual(alone.failed, []);
        assert.deepEqual(with_it.failed, []);
    });
