/* priorities.mjs - who gets a slot when there are twice as many calls as a model can serve: the high
 * class first, small tenants beside a large one, and tenants by the tokens that their calls take.
 *
 * Calls arrive by a clock of their own, whether others have been answered or not, as those of many
 * clients do, and nobody tries again. How long a call takes is the mock's to say. Waits follow that
 * time, so calls of 5 s behave like those of 200 ms, 25 times slower:
 *
 *   CALL_MS   the mean time that a call takes; default 200. tools/soak-waits has 5000
 *   CALLS     how many arrive; default 800
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import { chat, json, pause, reason, sha256, until, world } from './kit.mjs';

const CALL_MS = Number(process.env.CALL_MS ?? 200);
const CALLS = Number(process.env.CALLS ?? 800);
const SLOTS = 16;

const keyOf = (name) => `tg-e2e-virtual-key-of-${name}`;

const member = (name, more = {}) => ({
    name,
    keys: [{ name: 'k', sha256: sha256(keyOf(name)) }],
    ...more,
});

/* A stream of numbers from 0 to 1, the same in every run. */
function draws(seed) {
    let state = seed;
    return () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return (state + 0.5) / 2 ** 32;
    };
}

const small = (more = {}) => ({ concurrency: { law: 'fixed', initial: SLOTS }, retries: 0, ...more });

/* Calls `CALLS` times at `perSecond`, each by the member that `pick` chooses. Counts, by member. */
async function arrive(t, gateway, { perSecond, pick, body = () => ({}) }) {
    const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity });
    const draw = draws(7);
    const seen = {};
    const all = [];
    let at = 0;
    t.after(() => agent.destroy());
    const began = Date.now();
    for (let i = 0; i < CALLS; i++) {
        const name = pick(draw);
        at += (-Math.log(draw()) * 1000) / perSecond;
        const early = began + at - Date.now();
        if (early > 0) await pause(early);
        const count = (seen[name] ??= { admitted: 0, refused: 0, tokens: 0 });
        const headers = { authorization: `Bearer ${keyOf(name)}` };
        const call = chat(gateway, body(name), { headers, agent }).then((reply) => {
            if (reply.status === 200) {
                count.admitted++;
                count.tokens += json(reply).usage.total_tokens;
            } else {
                assert.equal(reply.status, 429, String(reply.body));
                assert.equal(reason(reply), 'concurrency');
                assert.ok(Number(reply.headers['retry-after-ms']) > 0);
                count.refused++;
            }
        });
        all.push(call);
    }
    await Promise.all(all);
    await gateway.idle();
    return seen;
}

const share = ({ admitted, refused }) => admitted / (admitted + refused);

/* High at 31 % of what the slots can serve, all together at twice that. */
async function twice(t, gate) {
    const capacity = (SLOTS * 1000) / CALL_MS;
    const { gateway } = await world(t, {
        script: { default: { latency: `exponential(${CALL_MS}ms)`, tokens: 8 } },
        small: small(),
        tenants: [
            member('urgent', { priority: 'high' }),
            member('usual'),
            member('later', { priority: 'low' }),
        ],
        top: { gate: { ...gate } },
    });
    const pick = (draw) => {
        const u = draw();
        return u < 0.155 ? 'urgent' : u < 0.7 ? 'usual' : 'later';
    };
    const seen = await arrive(t, gateway, { perSecond: 2 * capacity, pick });
    t.diagnostic(JSON.stringify(seen));
    return { gateway, seen };
}

test('high priority is admitted while all together ask for twice what there is', async (t) => {
    const { gateway, seen } = await twice(t, {});
    assert.ok(share(seen.urgent) >= 0.99, `${share(seen.urgent)} of high was admitted`);
    assert.ok(seen.usual.refused + seen.later.refused > CALLS / 5, 'it was twice as much');
    assert.ok(seen.later.admitted > 0, 'low has its share');

    /* What the waits cost is in the log, and in the metrics. */
    const lines = await until('a line of every call', () => {
        const all = gateway.lines().filter(({ msg }) => msg === 'request');
        return all.filter((line) => line.tenant === 'urgent').length >= seen.urgent.admitted && all;
    });
    assert.ok(lines.some((line) => line.tenant === 'urgent' && line.waited_ms > 0));
    assert.ok(lines.every((line) => line.waited_ms >= 0));
    const text = await gateway.metricsText();
    const sum = /^admission_queue_wait_ms_sum\{priority="high"\} (\S+)$/m.exec(text);
    assert.ok(Number(sum[1]) > 0, 'the histogram has their waits');
});

test('waits that are given override: without one, high is refused like the others', async (t) => {
    const wait = { high: '0ms', normal: '0ms', low: '0ms' };
    const { seen } = await twice(t, { queue: { wait } });
    assert.ok(share(seen.urgent) < 0.95, `${share(seen.urgent)} of high was admitted`);
});

test('the calls of a small tenant are all admitted beside those of a large one', async (t) => {
    const capacity = (SLOTS * 1000) / CALL_MS;
    const { gateway } = await world(t, {
        script: { default: { latency: `exponential(${CALL_MS}ms)`, tokens: 8 } },
        small: small(),
        tenants: [member('mouse'), member('elephant')],
        top: { gate: {} },
    });
    /* An eighth of the slots is a quarter of its share; the other asks for all of them, and more. */
    const pick = (draw) => (draw() < 0.0625 ? 'mouse' : 'elephant');
    const seen = await arrive(t, gateway, { perSecond: 2 * capacity, pick });
    t.diagnostic(JSON.stringify(seen));
    assert.equal(seen.mouse.refused, 0);
    assert.ok(seen.elephant.refused > CALLS / 5);
});

test('tenants share a model by tokens, not by calls', async (t) => {
    /* The long calls take four times as long, and are as many: each asks for what there is. */
    const { gateway } = await world(t, {
        script: { default: { tokens: 400, pace: (100 * 1000) / CALL_MS } },
        small: small(),
        tenants: [member('short'), member('long')],
        top: { gate: {} },
    });
    const perSecond = (2 * 1000 * SLOTS) / CALL_MS;
    const seen = await arrive(t, gateway, {
        perSecond,
        pick: (draw) => (draw() < 0.5 ? 'short' : 'long'),
        body: (name) => ({ max_tokens: name === 'short' ? 100 : 400 }),
    });
    t.diagnostic(JSON.stringify(seen));
    const part = seen.long.tokens / (seen.long.tokens + seen.short.tokens);
    assert.ok(part > 0.45 && part < 0.55, `${part} of the tokens went to the long calls`);
});
