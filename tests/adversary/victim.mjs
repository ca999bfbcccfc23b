/* victim.mjs - a tenant that makes ordinary calls, beside another that attacks what they share.
 *
 * Each attack is a function that goes on until it is told to stop, in a thread of its own, so that what
 * it costs its own side is not taken for what the victim feels. The victim's calls must all succeed
 * meanwhile; how much slower they are is for `make soak` to print.
 */
import net from 'node:net';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { pause } from '../e2e/kit.mjs';
import { chat } from './moves.mjs';
import { perform, traceOf, World } from './world.mjs';

const MIB = 1024 * 1024;
const BODY = 32 * MIB;

export const BUDGETS = { victim: 1000000000, spent: 20000, rich: 1000000000 };

/* ---- attackers ---- */

/* So many loops at once, until it is over. */
const loops = (run, n, one) =>
    Promise.all(
        Array.from({ length: n }, async () => {
            while (!run.over) {
                await one();
                run.begun();
            }
        }),
    );

let traces = 0;
const call = (run, tenant, request) =>
    perform(run.gateway.url, request, tenant, traceOf(0xa77ac4, traces++));

/* A connection that sends this and stays: its socket. The attacker has addresses of its own, 8 unless
 * it has more. */
function hold(run, ...parts) {
    const socket = net.connect({
        port: run.gateway.port,
        host: '127.0.0.1',
        localAddress: `127.0.0.${2 + (run.held++ % (run.addresses ?? 8))}`,
    });
    socket.on('error', () => 0);
    socket.resume();
    for (const part of parts) socket.write(part);
    run.sockets.add(socket);
    socket.on('close', () => run.sockets.delete(socket));
    return socket;
}

const head = (bytes, key = 'spent') =>
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer tg-adversary-key-of-${key}\r\n` +
    `content-type: application/json\r\ncontent-length: ${bytes}\r\n\r\n`;

/* A whole body on a connection of its own, until the gateway has answered it or closed. */
const sendWhole = (run, body, key) =>
    new Promise((done) => {
        const socket = hold(run, head(body.length, key), body);
        socket.on('data', () => socket.destroy());
        socket.on('close', done);
    });

const nested = () =>
    Buffer.from(`{"model":"oa-flat","messages":[${'[[[[[[[[]]]]]]]],'.repeat(BODY / 17 - 10)}[]]}`);
/* As many parts as a body may have, a long text, and many tools with their names: for another API. */
const manyParts = () => ({
    messages: [
        {
            role: 'user',
            content: Array.from({ length: 30000 }, () => ({ type: 'text', text: '\n' })),
        },
    ],
});
const longText = () => ({ messages: [{ role: 'user', content: '"\u0001'.repeat(4 * MIB) }] });
const manyTools = () => {
    const tools = Array.from({ length: 10000 }, (_, i) => ({
        type: 'function',
        function: { name: `tool_${i}` },
    }));
    const allowed_tools = { mode: 'auto', tools };
    return {
        messages: [{ role: 'user', content: 'x' }],
        tools,
        tool_choice: { type: 'allowed_tools', allowed_tools },
    };
};
const ones = () => Buffer.from(`{"model":"oa-flat","messages":[${'1,'.repeat(BODY / 2 - 100)}1]}`);

const NOBODY = 'GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n';
const GOOD = NOBODY.replace('\r\n\r\n', '\r\nauthorization: Bearer tg-adversary-key-of-rich\r\n\r\n');

/* Twice as many connections as there are places, each of which sends this, or nothing, and stays. */
const silence = (run, request) =>
    loops(run, 1, async () => {
        for (let i = run.sockets.size; i < 2 * run.places && !run.over; i++) {
            const socket = hold(run);
            const bytes = request(i);
            if (bytes) socket.write(bytes);
            if (i % 20 === 0) await pause(1);
        }
        await pause(20);
    });

export const ATTACKS = {
    /* 8: the breaker of everybody's keys */
    'deadlines of a millisecond': (run) =>
        loops(run, 8, async () => {
            const headers =
                run.turn++ % 16 ? { 'x-request-timeout-ms': '1' } : { 'x-stainless-timeout': '1' };
            await call(
                run,
                'rich',
                chat(
                    'oa-flat',
                    { max_tokens: 8000, stream: run.turn % 2 === 0 },
                    { headers, plan: { latency: 2000 } },
                ),
            );
        }),
    /* 9: a worker's time */
    'bodies of 32 MiB that take long to read': (run) => {
        const bodies = [nested(), ones()];
        return loops(run, 3, () =>
            sendWhole(run, bodies[run.turn++ % 2], run.turn % 3 ? 'spent' : 'rich'),
        );
    },
    /* 9: the same with what has to be translated, for the model and for its fallback */
    'bodies that take long to translate': (run) => {
        const bodies = [manyParts, longText, manyTools].flatMap((make) =>
            ['an-opus', 'gg-lossy'].map((model) =>
                Buffer.from(JSON.stringify({ model, max_tokens: 5, ...make() })),
            ),
        );
        return loops(run, 3, () => sendWhole(run, bodies[run.turn++ % bodies.length], 'rich'));
    },
    /* 10: memory for bodies */
    'bodies that never end': (run) =>
        loops(run, 1, async () => {
            const part = Buffer.alloc(BODY - MIB, ' ');
            for (let i = run.sockets.size; i < 34 && !run.over; i++)
                hold(run, head(BODY, i % 2 ? 'spent' : 'rich'), part);
            await pause(20);
        }),
    /* 11: the budget of retries */
    'retries that clients claim': (run) =>
        loops(run, 8, () =>
            call(
                run,
                'spent',
                chat('no-such-model', {}, { headers: { 'x-stainless-retry-count': '3' } }),
            ),
        ),
    /* 11: the same, with calls that do fail */
    'calls that always fail': (run) =>
        loops(run, 8, () =>
            call(run, 'rich', chat('oa-mini', { max_tokens: 5 }, { plan: { fail: '500' } })),
        ),
    /* 20: what a provider fails at for one tenant alone, of the model that others use */
    'calls at which their model fails': (run) =>
        loops(run, 8, () =>
            call(run, 'rich', chat('oa-flat', { max_tokens: 5 }, { plan: { fail: '500' } })),
        ),
    /* 21: what a provider has no room for at any time */
    'calls that are too large for the provider': (run) =>
        loops(run, 8, () =>
            call(run, 'rich', chat('oa-flat', { max_tokens: 5 }, { plan: { fail: 'too large' } })),
        ),
    /* 12: places for connections */
    'connections that are silent': (run) =>
        /* Some have once asked for something, with a key or without, and stay. */
        silence(run, (i) => [undefined, GOOD, undefined, NOBODY][i % 4]),
    /* 12: the same, none of which is a crowd */
    'silent connections of 200 addresses': (run) => {
        run.addresses = 200;
        return silence(run, () => undefined);
    },
    /* 12: the same of a client that is known on each */
    'silent connections that have shown a key': (run) => silence(run, () => GOOD),
    /* 1: hang-ups */
    'clients that leave': (run) =>
        loops(run, 16, () =>
            call(
                run,
                'rich',
                chat(
                    'oa-flat',
                    { max_tokens: 4000, stream: true },
                    { leave: { ms: run.turn++ % 30 } },
                ),
            ),
        ),
};

/* How many calls of the victim run at once, where that matters: each has a connection of its own. */
export const AT_ONCE = {
    'connections that are silent': [4, 16, 64],
    'silent connections of 200 addresses': [64],
    'silent connections that have shown a key': [64],
};

/* ---- the victim ---- */

const ORDINARY = chat('oa-flat', { max_tokens: 5 });
/* What a retry mends: without one, it fails. */
const MENDED = chat('oa-flat', { max_tokens: 5 }, { plan: { fail: 'once' } });
const MENDS = ['retries that clients claim', 'calls that always fail'];

async function callsOf(run, n, at_once, seed) {
    const times = [];
    const failed = [];
    let next = 0;
    await Promise.all(
        Array.from({ length: at_once }, async () => {
            while (next < n) {
                const i = next++;
                const request = run.mends && i % 10 === 0 ? MENDED : ORDINARY;
                const trace = traceOf(seed, i);
                const began = performance.now();
                const reply = await perform(run.gateway.url, request, 'victim', trace, {
                    fresh: run.fresh,
                });
                times.push(performance.now() - began);
                if (reply.status !== 200)
                    failed.push(
                        `${reply.status} ${reply.error ?? ''} ${reply.body ?? ''}`.slice(0, 200),
                    );
            }
        }),
    );
    times.sort((a, b) => a - b);
    const at = (share) => times[Math.min(times.length - 1, Math.floor(times.length * share))];
    return { n, failed, p50: at(0.5), p99: at(0.99) };
}

/* The attacker's thread: begins at once, ends when it is told to. */
async function attacker() {
    const { name, gateway, places } = workerData;
    const begun = () => parentPort.postMessage('begun');
    const run = { gateway, places, over: false, turn: 0, held: 0, sockets: new Set(), begun };
    parentPort.once('message', () => {
        run.over = true;
        for (const socket of run.sockets) socket.destroy();
    });
    await ATTACKS[name](run);
    process.exit(0);
}

if (!isMainThread && workerData?.name in ATTACKS) attacker();

/* The victim's calls alone, then beside the attack: {alone, beside}, each {n, failed, p50, p99}. */
export async function beside(name, { calls = 200, at_once = 4, seed = 1 } = {}) {
    const places = Math.max(200, 8 * at_once); /* one address may have a quarter of them */
    const world = await World.start({
        budgets: BUDGETS,
        change: { limits: { body: '32MiB', buffered_total: '512MiB', connections: places } },
    });
    const run = { gateway: world.gateway };
    run.fresh = /silent/.test(name); /* each call has a connection of its own */
    run.mends = MENDS.includes(name);
    let worker;
    try {
        while ((await call(run, 'spent', chat('oa-flat', { max_tokens: 100 }))).status === 200);
        const alone = await callsOf(run, calls, at_once, seed);
        const { url, port } = world.gateway;
        worker = new Worker(new URL(import.meta.url), {
            workerData: { name, gateway: { url, port }, places },
        });
        const over = new Promise((done) => worker.on('exit', done));
        await new Promise((done) => worker.once('message', done));
        const result = await callsOf(run, calls, at_once, seed + 1);
        worker.postMessage('stop');
        await over;
        return { alone, beside: result };
    } finally {
        await worker?.terminate();
        await world.stop();
    }
}
