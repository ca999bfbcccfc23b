/* soak.mjs - the adversary for as many calls as are asked for, honest agents, and victims.
 *
 * SOAK_CALLS    calls of the adversary; default 200,000, in rounds of ROUND, each with a seed of its own,
 *               in turn on limits in memory, in Redis, and in Redis with two gateways, while a gateway is
 *               killed, taken over from, or both
 * SOAK_SEED     the first round's seed; default: by chance, printed
 * SOAK_AGENTS   budgets in USD of honest agents; default 5,50,500
 * SOAK_VICTIM   calls of the victim beside each attack; default 2000
 *
 * Exit status: 0 all of it holds, 1 something does not: each is printed with its seed and its call.
 */
import { agents } from './agents.mjs';
import { attacked, BUDGETS, PARENT } from './attack.mjs';
import { honestCuts } from './cuts.mjs';
import { ATTACKS, AT_ONCE, beside } from './victim.mjs';
import { Provider } from './world.mjs';
import { Redis } from '../e2e/redis_kit.mjs';

const CALLS = Number(process.env.SOAK_CALLS ?? 200000);
const ROUND = Math.min(2000, CALLS);
const SEED = Number(process.env.SOAK_SEED ?? Date.now() % 1000000);
const DOLLARS = (process.env.SOAK_AGENTS ?? '5,50,500').split(',').filter(Boolean).map(Number);
const VICTIM = Number(process.env.SOAK_VICTIM ?? 2000);
const SHOWN = 20;

let failures = 0;
function verdict(good, name, text) {
    if (!good) failures++;
    console.log(`${(good ? 'ok' : 'FAILED').padEnd(7)} ${name.padEnd(52)} ${text}`);
}

/* Runs what wants a test's `after`, and then what it left for the end. */
async function within(run) {
    const ends = [];
    try {
        return await run({ after: (end) => ends.push(end) });
    } finally {
        for (const end of ends.reverse()) await end();
    }
}

/* What befalls gateways in one round. */
const ENDS = [{ kills: 2 }, { takeovers: 2 }, { kills: 1 }, { kills: 1, takeovers: 2 }];

async function adversary(provider) {
    const sum = { calls: 0, billed_calls: 0, cuts: 0, billed: 0, booked: 0, uncertain: 0, most: 0 };
    const wrong = [];
    const kinds = [{}, { redis: true }, { redis: true, gateways: 2 }];
    for (let round = 0; sum.calls < CALLS; round++) {
        const { redis, ...more } = kinds[round % kinds.length];
        const { wrong: found, figures } = await within(async (t) =>
            attacked({
                provider,
                seed: SEED + round,
                calls: ROUND,
                people: true,
                ...ENDS[round % ENDS.length],
                budgets: BUDGETS,
                parent: PARENT,
                ...more,
                ...(redis && { store: (await Redis.start(t)).url }),
            }),
        );
        sum.calls += ROUND;
        sum.billed_calls += figures.billed_calls;
        sum.cuts += figures.cuts.calls;
        for (const name of ['billed', 'booked', 'uncertain']) sum[name] += figures.cuts[name];
        sum.most = Math.max(sum.most, figures.most_billed_of_budget);
        wrong.push(...found);
        if (process.stdout.isTTY)
            process.stdout.write(`\r${sum.calls} calls, ${wrong.length} wrong `);
    }
    for (const one of wrong.slice(0, SHOWN)) console.log(one);
    verdict(
        wrong.length === 0,
        'billed <= budget, charged = billed',
        `${sum.calls} calls, ${sum.billed_calls} of them billed; at most ${sum.most.toFixed(3)} of a budget; ` +
            `${wrong.length} violations; seeds ${SEED} to ${SEED + Math.ceil(CALLS / ROUND) - 1}`,
    );
    console.log(
        `        ${sum.cuts} calls were cut or said nothing: billed ${sum.billed}, booked ${sum.booked}, ` +
            `uncertain ${sum.uncertain} micro-dollars`,
    );
}

async function cuts() {
    const ratios = (await honestCuts()).map((cut) => cut.booked / cut.billed).sort((a, b) => a - b);
    verdict(
        ratios.every((ratio) => ratio >= 1 && ratio <= 2),
        'honest cuts: booked to billed',
        ratios.length === 0
            ? 'this machine is too busy for a provider to be steady'
            : `${ratios.length} calls, ${ratios[0].toFixed(2)} to ${ratios.at(-1).toFixed(2)}`,
    );
}

async function honest() {
    for (const budget of DOLLARS)
        for (const reserve of ['bound', 'expected']) {
            const name = `agents, ${budget} USD, ${reserve}`;
            try {
                const { share, calls, refusal } = await agents({ budget, reserve, seed: SEED });
                verdict(
                    share > 0,
                    name,
                    `${(100 * share).toFixed(1)} % spent before the first refusal ` +
                        `(${refusal.reason}), ${calls} calls`,
                );
            } catch (error) {
                if (!/has no key "reserve"/.test(error.message)) throw error;
                console.log(`        ${name}: this program does not know it`);
            }
        }
}

async function victim(name, at_once) {
    const { alone, beside: with_it } = await beside(name, { calls: VICTIM, at_once, seed: SEED });
    verdict(
        with_it.failed.length === 0,
        `beside ${name}, ${at_once} at once`,
        `${with_it.n - with_it.failed.length} of ${with_it.n} succeed; p99 ${with_it.p99.toFixed(1)} ms, ` +
            `${(with_it.p99 / alone.p99).toFixed(2)} x alone ${with_it.failed[0] ?? ''}`,
    );
}

async function victims() {
    for (const name of Object.keys(ATTACKS))
        for (const at_once of AT_ONCE[name] ?? [4]) await victim(name, at_once);
}

const provider = await Provider.start();
console.log(`soak-adversary: ${CALLS} calls, seed ${SEED}`);
if (CALLS > 0) await adversary(provider);
provider.stop();
await cuts();
await honest();
if (VICTIM > 0) await victims();
process.exit(failures ? 1 : 0);
