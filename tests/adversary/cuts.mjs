/* cuts.mjs - what is booked for a call that an honest client cuts, against what it is billed.
 *
 * The provider writes at a steady speed, which the gateway learns from calls that end. Then people
 * press "stop" after some seconds. What is booked must be at least the bill's order: within a factor
 * of 2 of it.
 */
import { chat } from './moves.mjs';
import { perform, traceOf, World } from './world.mjs';

const TPS = 200;
const LEARNT = 320; /* calls that end; a speed is believed after 300 */
const WRITTEN = 260; /* tokens of each; those of 256 and more count */

const BUDGETS = Object.fromEntries(['a', 'b', 'c', 'd'].map((name) => [name, 1000000000]));

/* A list of {billed, booked, uncertain, ms} of calls that were cut while the provider was steady. */
export async function honestCuts({ cuts = 24, seed = 1, from_ms = 4000, to_ms = 6000 } = {}) {
    const world = await World.start({ budgets: BUDGETS });
    const tenants = Object.keys(BUDGETS);
    const one = (i, body, leave) =>
        perform(
            world.gateway.url,
            chat('oa-flat', { stream: true, ...body }, { leave, plan: { tps: TPS, plain: true } }),
            tenants[i % tenants.length],
            traceOf(seed, i),
        );
    try {
        await Promise.all(
            Array.from({ length: LEARNT }, (_, i) => one(i, { max_tokens: WRITTEN })),
        );
        await Promise.all(
            Array.from({ length: cuts }, (_, i) =>
                one(
                    LEARNT + i,
                    { max_tokens: 4000 },
                    { ms: from_ms + ((to_ms - from_ms) * i) / cuts },
                ),
            ),
        );
        const bill = await world.idle();
        const steady = bill.calls.filter(
            ({ how, output, ms }) => how === 'cut' && output * 1000 >= 0.8 * TPS * ms,
        );
        return await Promise.all(
            steady.map(async ({ trace, micro, ms }) => {
                const line = await world.line(trace);
                return {
                    billed: micro,
                    booked: line.micro_usd,
                    uncertain: line.uncertain_micro_usd ?? 0,
                    ms,
                };
            }),
        );
    } finally {
        await world.stop();
    }
}
