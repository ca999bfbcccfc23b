/* agents.mjs - how much of a budget honest agents spend before the first of their calls is refused.
 *
 * Eight agents at once, each with a conversation that grows: a system prompt and tools, then at each
 * turn what it has read and what the model answers, until it has been enough and another task
 * begins. Their text has a token in four bytes, their answers are short of what they allow. What is
 * reserved for the calls in flight is not spent: the larger reservations are, the sooner a budget
 * says no with money left.
 */
import { Chance, words } from './moves.mjs';
import { perform, traceOf, World } from './world.mjs';

const AGENTS = 8;
const TOOLS = Array.from({ length: 12 }, (_, i) => ({
    name: `tool_${i}`,
    description: 'It reads, writes, searches or runs something, and says what came of it. '.repeat(
        4,
    ),
    input_schema: {
        type: 'object',
        properties: { path: { type: 'string' }, text: { type: 'string' } },
    },
}));

/* {budget: USD, reserve: 'bound' | 'expected', turn_bytes, turns: of a task, max_tokens} */
export async function agents({
    budget,
    reserve = 'bound',
    turn_bytes = 6000,
    turns = 30,
    max_tokens = 8192,
    seed = 1,
}) {
    const world = await World.start({
        budgets: { agents: Math.round(budget * 1e6) },
        tenant: {
            budgets: [{ usd: budget, per: 'total', ...(reserve !== 'bound' && { reserve }) }],
        },
    });
    const r = new Chance(seed);
    let refusal = null;
    let calls = 0;
    const system = words(r, 8000);
    const text = words(r, 4 * turn_bytes);
    const agent = async () => {
        while (!refusal) {
            const messages = [{ role: 'user', content: text.slice(0, r.int(100, 2000)) }];
            for (let turn = 0; turn < turns && !refusal; turn++) {
                const trace = traceOf(seed, calls++);
                const body = { model: 'an-agent', system, tools: TOOLS, messages, max_tokens };
                const plan = { plain: true, out: r.int(2, 20) / 200 };
                const reply = await perform(
                    world.gateway.url,
                    { path: '/v1/messages', body, plan },
                    'agents',
                    trace,
                );
                if (reply.status !== 200) {
                    refusal ??= {
                        status: reply.status,
                        reason: reply.headers?.['x-tollgate-reason'],
                        body: reply.body,
                        billed: (await world.provider.bill()).tenants.agents,
                    };
                    break;
                }
                const answer = JSON.parse(reply.body).content[0].text;
                messages.push({ role: 'assistant', content: answer });
                const from = r.int(0, 3 * turn_bytes);
                const read = text.slice(from, from + r.int(turn_bytes / 4, (7 * turn_bytes) / 4));
                messages.push({ role: 'user', content: read });
            }
        }
    };
    try {
        await Promise.all(Array.from({ length: AGENTS }, agent));
        const bill = await world.idle();
        return {
            budget,
            reserve,
            calls,
            share: refusal.billed / (budget * 1e6),
            at_the_end: bill.tenants.agents / (budget * 1e6),
            refusal,
        };
    } finally {
        await world.stop();
    }
}
