/* soak-takeover.mjs - calls at a steady rate, streams of 20 s among them, over three takeovers: none is
 * refused, none fails, and the ledger has what the mock has billed, to the micro-dollar.
 *
 *     SOAK_S      how long calls come; default 60
 *     SOAK_RATE   calls a second; default 500
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { chat, events, json, pause, price, world } from '../tests/e2e/kit.mjs';

const SECONDS = Number(process.env.SOAK_S ?? 60);
const RATE = Number(process.env.SOAK_RATE ?? 500);
const STREAM_S = 20;

test(`${RATE} calls a second for ${SECONDS} s over three takeovers`, { timeout: 600000 }, async (t) => {
    const { gateway, mock } = await world(t, {
        script: {
            rules: [{ when: { stream: true }, do: { tokens: 40, pace: 40 / STREAM_S } }],
            default: { tokens: 5 },
        },
        tenant: { budgets: [{ usd: 100000, per: 'total' }] },
    });
    const seen = { calls: 0, streams: 0, refused: 0, failed: 0, billed: 0 };
    const one = async (stream) => {
        try {
            const reply = await chat(gateway, {
                stream,
                max_tokens: 40,
                ...(stream && { stream_options: { include_usage: true } }),
            });
            if (reply.status !== 200 || reply.cut) throw new Error(`${reply.status} ${reply.body}`);
            const usage = stream
                ? events(reply)
                      .map((event) => (typeof event === 'string' ? event : event.data))
                      .filter((text) => typeof text === 'string' && text.startsWith('{'))
                      .map((text) => JSON.parse(text).usage)
                      .concat(events(reply).map((event) => event.usage))
                      .findLast((one) => one)
                : json(reply).usage;
            seen.billed += price(usage);
            seen.calls++;
            seen.streams += stream;
        } catch (error) {
            seen[error.code === 'ECONNREFUSED' ? 'refused' : 'failed']++;
            if (seen.refused + seen.failed < 5) t.diagnostic(String(error));
        }
    };
    const old = [],
        calls = [];
    const begin = Date.now();
    let sent = 0,
        taken = 0,
        taking;
    while (Date.now() - begin < SECONDS * 1000) {
        const due = ((Date.now() - begin) / 1000) * RATE;
        for (; sent < due; sent++) calls.push(one(sent % 100 === 0));
        if (taken < 3 && Date.now() - begin > ((taken + 1) * SECONDS * 1000) / 4) {
            taken++;
            taking = (async () => {
                await taking;
                const before = gateway.process;
                t.after(() => before.over || (before.child.kill('SIGKILL'), before.ended));
                gateway.options = ['--takeover'];
                await gateway.begin();
                old.push(before);
            })();
        }
        await pause(2);
    }
    await taking;
    await Promise.all(calls);
    for (const process of old) {
        await process.ended;
        assert.equal(process.code, 0, process.out);
    }
    const total = await gateway.spent();
    t.diagnostic(JSON.stringify({ ...seen, sent, ledger: total.micro_usd, takeovers: old.length }));
    assert.equal(seen.refused, 0);
    assert.equal(seen.failed, 0);
    assert.equal(old.length, 3);
    assert.equal(total.calls, sent);
    assert.equal(total.micro_usd, seen.billed);
    assert.equal(total.uncertain_micro_usd ?? 0, 0);
    assert.equal((await mock.seen()).begun, sent);
});
