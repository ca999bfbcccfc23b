/* attack.mjs - tenants that draw from all moves at random, at once, and what must hold whatever they did.
 *
 *     billed <= budget               of every tenant, at every moment
 *     charged = billed               of every call that ended with the provider's usage
 *     reserved >= billed             of every such call
 *     booked + uncertain >= billed   of every call that was cut
 *     used >= billed                 of every tenant, in the books at the end, kills included
 *     billed <= its own budget       of every key and user that has one
 */
import { MODELS } from './billing.mjs';
import { Chance, MOVES as OWN } from './moves.mjs';
import { TRANSLATED } from './translated_moves.mjs';
import { until } from '../e2e/kit.mjs';
import { KEYS, OF_KEY, OF_USER, perform, traceOf, USERS_MOST, World } from './world.mjs';

export const MOVES = [...OWN, ...TRANSLATED];

/* Small ones are soon spent, large ones let the largest calls pass. */
export const BUDGETS = Object.fromEntries(
    [0.2, 0.5, 1, 2, 5, 10, 20, 50].map((usd) => [`t${usd * 10}`, usd * 1000000]),
);

/* Two of them together have less than each alone. */
export const PARENT = { micro: 4000000, of: ['t50', 't100'] };

/* How a client leaves, where the move does not say. */
function manners(r) {
    const draw = r.next();
    if (draw < 0.6) return {};
    if (draw < 0.8) return { leave: { ms: r.int(0, 400) } };
    if (draw < 0.9) return { leave: { after: 'first words' } };
    return { headers: { 'x-request-timeout-ms': `${r.int(1, 500)}` } };
}

/* Who spends: one of the tenant's keys, or a token, in the name of a user, or of none. More users come
 * than there may be. */
function spender(r) {
    return {
        key: r.pick([KEYS[0], KEYS[0], KEYS[1], KEYS[2]]),
        ...(r.chance(0.6) && { user: `u${r.int(1, USERS_MOST + 4)}` }),
        ...(r.chance(0.25) && { token: true }),
    };
}

/* The same request, and what follows it, for a model of any provider: the gateway translates. */
const ANYWHERE = Object.keys(MODELS).filter((name) => !/embed|agent/.test(name));

function elsewhere(request, model) {
    if (!MODELS[request.body?.model] || !/(chat\/completions|responses|messages)$/.test(request.path))
        return request;
    return {
        ...request,
        body: { ...request.body, model },
        ...(request.then && { then: elsewhere(request.then, model) }),
    };
}

export function drawn(r, moves = MOVES, people = false) {
    const move = r.pick(moves);
    const made = move.make(r);
    const request = moves === MOVES && r.chance(0.3) ? elsewhere(made, r.pick(ANYWHERE)) : made;
    const own = manners(r);
    return {
        move,
        request: {
            ...request,
            ...(people && spender(r)),
            leave: request.leave ?? own.leave,
            http2: r.chance(0.25),
            headers: { ...own.headers, ...request.headers },
            plan: {
                out: r.pick([1, 1, 0.5, 0.01]),
                ...(r.chance(0.3) && { hidden: r.next() }),
                ...(r.chance(0.2) && { cached: r.next() }),
                ...request.plan,
            },
        },
    };
}

const briefly = (value) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return text.length > 600 ? `${text.slice(0, 600)}... (${text.length} bytes)` : text;
};

/* Runs `calls` calls, `at_once` at a time; kills the gateway `kills` times on the way, and has it taken
 * over `takeovers` times. */
export async function attack({ world, seed, calls, at_once = 64, kills = 0, takeovers = 0, moves = MOVES }) {
    const r = new Chance(seed);
    const tenants = Object.keys(world.budgets);
    const log = new Map();
    const statuses = {};
    let next = 0;
    let killing = null;
    let taking = Promise.resolve();
    const spread = (n) => Array.from({ length: n }, (_, i) => Math.floor(((i + 1) * calls) / (n + 1)));
    const due = spread(kills);
    const dueTakeovers = spread(takeovers);
    /* One request, under a trace of its own. */
    let sent = 0;
    const send = async (move, request, tenant) => {
        const trace = traceOf(seed, sent++);
        log.set(trace, { move, request, tenant });
        const reply = await perform(r.pick(world.gateways).url, request, tenant, trace);
        const word = reply.status || (reply.gone ? 'gone' : 'error');
        statuses[word] = (statuses[word] ?? 0) + 1;
    };
    const client = async () => {
        while (next < calls) {
            const i = next++;
            if (due.includes(i)) killing = world.kill(r.pick(world.gateways));
            await killing;
            if (dueTakeovers.includes(i)) {
                const gateway = r.pick(world.gateways);
                taking = taking.then(() => world.takeOver(gateway));
            }
            if (i % 300 === 299) world.reload(r.pick(world.gateways));
            const larger = Math.max(r.int(0, tenants.length - 1), r.int(0, tenants.length - 1));
            const tenant = tenants[larger];
            const { move, request } = drawn(r.fork(), moves, world.people);
            /* An impatient client sends the same again, beside the first. */
            const twice = r.chance(0.05) ? send(move, request, tenant) : null;
            for (let one = request; one; one = one.then) await send(move, one, tenant);
            await twice;
        }
    };
    await Promise.all(Array.from({ length: at_once }, client));
    await taking;
    await world.takenOver();
    const bill = await world.idle();
    if (kills === 0)
        await until('every call that was billed has its line', () => {
            const lines = world.lines();
            return bill.calls.every((one) => lines.has(one.trace));
        });
    return judge({ world, log, bill, statuses, seed, kills });
}

/* What does not hold, as sentences; and figures. */
export async function judge({ world, log, bill, statuses, seed, kills }) {
    const wrong = [];
    const lines = world.lines();
    const calls = new Map(); /* what was billed for each, over all attempts */
    for (const one of bill.calls) {
        const all = calls.get(one.trace) ?? { micro: 0, hows: [], requests: [] };
        all.micro += one.micro;
        all.hows.push(one.how);
        all.requests.push(one);
        calls.set(one.trace, all);
    }
    const tell = (trace, sentence) => {
        const { move, request, tenant } = log.get(trace) ?? {};
        wrong.push(
            `${sentence}\n    seed ${seed}, trace ${trace}, tenant ${tenant}, move ${move?.n} ${move?.name}` +
                `\n    ${request?.path} ${JSON.stringify({ headers: request?.headers, plan: request?.plan, leave: request?.leave })}` +
                `\n    ${briefly(request?.raw ?? request?.body)}` +
                `\n    provider: ${briefly(calls.get(trace)?.requests ?? [])}\n    gateway: ${briefly(lines.get(trace) ?? null)}`,
        );
    };

    for (const one of bill.over)
        tell(
            one.trace,
            `the bill of ${one.tenant} went above its budget of ${world.budgets[one.tenant]}`,
        );
    const cuts = { calls: 0, billed: 0, booked: 0, uncertain: 0 };
    const reported = { calls: 0, billed: 0, reserved: 0 };
    for (const [trace, { micro, hows }] of calls) {
        const line = lines.get(trace);
        if (!line) continue; /* a kill took it: the tenant's books have it */
        const booked = line.micro_usd ?? 0;
        const uncertain = line.uncertain_micro_usd ?? 0;
        if (line.usage === 'reported' && hows.length === 1 && hows[0] === 'usage') {
            reported.calls++;
            reported.billed += micro;
            reported.reserved += line.reserved_micro_usd ?? 0;
            if (booked !== micro || uncertain !== 0)
                tell(trace, `charged ${booked} (${uncertain} uncertain), billed ${micro}`);
            if (micro > line.reserved_micro_usd)
                tell(trace, `reserved ${line.reserved_micro_usd}, billed ${micro}`);
        } else {
            cuts.calls++;
            cuts.billed += micro;
            cuts.booked += booked;
            cuts.uncertain += uncertain;
            if (booked + uncertain < micro)
                tell(
                    trace,
                    `booked ${booked} + uncertain ${uncertain} < billed ${micro} (${hows})`,
                );
        }
    }
    const shares = [];
    if (world.parent) {
        const { micro, of } = world.parent;
        const billed = of.reduce((sum, tenant) => sum + (bill.tenants[tenant] ?? 0), 0);
        shares.push(billed / micro);
        if (billed > micro)
            wrong.push(`seed ${seed}: ${of} were billed ${billed} of the ${micro} of their parent`);
    }
    const parts = [];
    const own = new Map(); /* what was billed to keys and users that have a budget of their own */
    for (const [trace, { micro }] of calls) {
        const { request, tenant } = log.get(trace);
        const add = (who) => own.set(who, (own.get(who) ?? 0) + micro);
        if (request.key === '-small' && !request.token) add(`${tenant} key`);
        if (request.user) add(`${tenant} user ${request.user}`);
    }
    for (const [who, billed] of own) {
        const [tenant, kind] = who.split(' ');
        const budget = Math.round(world.budgets[tenant] * (kind === 'key' ? OF_KEY : OF_USER));
        parts.push(billed / budget);
        if (billed > budget) wrong.push(`seed ${seed}: ${who} was billed ${billed} of ${budget}`);
    }
    for (const [tenant, budget] of Object.entries(world.budgets)) {
        const billed = bill.tenants[tenant] ?? 0;
        const used = await world.used(tenant);
        shares.push(billed / budget);
        if (billed > budget)
            wrong.push(`seed ${seed}: ${tenant} was billed ${billed} of ${budget}`);
        if (used < billed)
            wrong.push(`seed ${seed}: the books of ${tenant} say ${used}, billed ${billed}`);
        if (used > budget)
            wrong.push(`seed ${seed}: the books of ${tenant} say ${used} of ${budget}`);
    }
    return {
        wrong,
        figures: {
            seed,
            statuses,
            billed_calls: calls.size,
            most_billed_of_budget: Math.max(...shares, ...parts),
            shares: shares.map((share) => Number(share.toFixed(3))),
            cuts,
            reported,
        },
    };
}

/* A world of its own for one attack. */
export async function attacked({ seed, calls, budgets, ...options }) {
    const { kills, takeovers, at_once, moves, ...rest } = options;
    /* In every other world a cheaper model serves who has little left. */
    const tenant = seed % 2 ? { allow_cheaper: 0.5 } : {};
    const world = await World.start({ budgets, tenant, ...rest });
    try {
        return await attack({ world, seed, calls, kills, takeovers, at_once, moves });
    } finally {
        await world.stop();
    }
}
