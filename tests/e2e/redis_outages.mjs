/* redis_outages.mjs - what callers notice of a Redis that is far, stopped, lost, emptied, failed over, or
 * that moves a slot: how many are refused, how long until none is, and that no budget is overspent.
 *
 * Three gateways are called at a steady rate by two tenants: one has money enough, the other comes to
 * the end of its budget meanwhile. The test runs one fault of each kind, briefly;
 *
 *     OUTAGES=all node --test tests/e2e/redis_outages.mjs
 *
 * runs all of them, as long as the table in docs/distributed.md says, and prints its rows; BEFORE=PROGRAM
 * does so with the program of another version.
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import path from 'node:path';
import test from 'node:test';
import { chatBody, EXACT, EXACT_COST, KEY, keys, OTHER_KEY, pause, sha256, until } from './kit.mjs';
import { moveSlot, startCluster, startSentinel } from './redis_cluster_kit.mjs';
import { detour, fleet, Redis, stored } from './redis_kit.mjs';

const ALL = process.env.OUTAGES === 'all';
const BEFORE = process.env.BEFORE && path.resolve(process.env.BEFORE);
const GATEWAYS = 3;
const EVERY_MS = 40; /* between two calls of the first tenant at one gateway */
const SHORT = ALL ? 300 : 90; /* calls that the second tenant's budget has */

const usd = (n) => (n * EXACT_COST) / 1e6;

async function alone(t) {
    const redis = await Redis.start(t);
    const way = await detour(t, redis.port);
    return { redis, way, url: way.url };
}

const stop = (seconds) => ({
    of: alone,
    async run({ redis }) {
        redis.pause();
        await pause(seconds * 1000);
        redis.resume();
    },
});

const slow = (how, ms) => ({
    of: alone,
    async run({ way }) {
        Object.assign(way, how);
        await pause(ms);
        Object.assign(way, { delay: 0, late: 0 });
    },
});

const SPAN = ALL ? 10000 : 1500;

const FAULTS = {
    ...(ALL && { 'none': { of: alone, run: () => pause(SPAN) } }),
    ...(ALL && { '5 ms away': slow({ delay: 5 }, SPAN) }),
    '22 ms away': slow({ delay: 22 }, SPAN),
    ...(ALL && { '100 ms away': slow({ delay: 100 }, SPAN) }),
    ...(ALL && { '2 % of the answers 400 ms late': slow({ late: 2, slow: 400 }, SPAN) }),
    'stopped for 1 s': stop(1),
    ...(ALL && { 'stopped for 10 s': stop(10), 'stopped for 60 s': stop(60) }),
    'killed, back empty after 3 s': {
        of: alone,
        async run({ redis }) {
            await redis.kill();
            await pause(ALL ? 3000 : 500);
            await redis.begin();
        },
    },
    'FLUSHALL': { of: alone, run: ({ redis }) => redis.ask('FLUSHALL') },
    'failed over by Sentinel': {
        of: startSentinel,
        async run({ master, replica }) {
            await master.kill();
            const role = () => replica.info('role').catch(() => 'unknown');
            await until('the replica is master', async () => (await role()) === 'master');
        },
    },
    'a slot held half-moved for 3 s': {
        of: (t) => startCluster(t, 0),
        run: ({ nodes }) => moveSlot(nodes, 'x{one}y', () => pause(ALL ? 3000 : 500)),
    },
};

/* Calls at a steady rate, whatever becomes of those before them. */
class Pace {
    constructor(gateway, key, ms) {
        this.agent = new http.Agent({ keepAlive: true });
        this.replies = [];
        this.open = 0;
        this.timer = setInterval(() => this.call(gateway, key), ms);
    }

    call(gateway, key) {
        const began = performance.now();
        const request = http.request(`${gateway.url}/v1/chat/completions`, {
            agent: this.agent,
            method: 'POST',
            headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        });
        const end = (what) => {
            this.open--;
            const now = performance.now();
            this.replies.push({ what, at: now, took: now - began });
        };
        this.open++;
        request.on('error', (error) => end(error.code ?? 'error'));
        request.on('response', (response) => {
            const said = response.headers['x-tollgate-reason'] ?? `${response.statusCode}`;
            response.on('end', () => end(response.statusCode === 200 ? 'served' : said));
            response.resume();
        });
        request.end(JSON.stringify(chatBody()));
    }

    async end() {
        clearInterval(this.timer);
        await until('all have ended', () => this.open === 0);
        this.agent.destroy();
        return this.replies;
    }
}

const tenant = (name, key, budget) => ({
    name,
    keys: [{ name: 'k', sha256: sha256(key) }],
    rate: { strategy: 'gcra', limit: 1000000, period: '60s' },
    budgets: [{ usd: usd(budget), per: 'total' }],
});

const counted = (replies) => {
    const counts = {};
    for (const { what } of replies) counts[what] = (counts[what] ?? 0) + 1;
    return counts;
};

for (const [name, fault] of Object.entries(FAULTS))
    for (const tiers of BEFORE ? [false] : [true, false])
        test(`${name}, ${tiers ? 'two tiers' : 'strict'}`, { timeout: 300000 }, async (t) => {
            const place = await fault.of(t);
            const { gateways } = await fleet(t, GATEWAYS, place.url, {
                program: BEFORE,
                tiers,
                small: EXACT,
                oai: { keys: keys(1, { rpm: 1000000, tpm: 1000000000 }) },
                tenants: [tenant('one', KEY, 1000000), tenant('two', OTHER_KEY, SHORT)],
            });
            const ample = gateways.map((gateway) => new Pace(gateway, KEY, EVERY_MS));
            const short = gateways.map((gateway) => new Pace(gateway, OTHER_KEY, 2 * EVERY_MS));
            const served = (pace, n) => pace.replies.filter((one) => one.what === 'served').length >= n;
            await until('both run', () => ample.every((one) => served(one, ALL ? 200 : 100)) && short.every((one) => served(one, 10)));
            const began = performance.now();
            await fault.run(place);
            const mended = performance.now();
            for (const gateway of gateways) await stored(gateway, 'ok');
            const last = BEFORE ? 10 : ALL ? 100 : 30;
            await until(`the last ${last} are served`, () =>
                ample.every(({ replies }) => replies.length > last &&
                    replies.at(-last).at > mended && replies.slice(-last).every((one) => one.what === 'served')));
            await until('the budget is spent', () => short.every(({ replies }) => replies.length > SHORT / 2));
            const replies = (await Promise.all(ample.map((pace) => pace.end()))).flat()
                .filter((one) => one.at > began);
            const twos = counted((await Promise.all(short.map((pace) => pace.end()))).flat());
            const during = replies.filter((one) => one.at <= mended + 1000);
            const bad = replies.filter((one) => one.what !== 'served');
            const normal = Math.max(0, ...bad.map((one) => one.at - mended));
            const took = during.map((one) => one.took).sort((a, b) => a - b);
            t.diagnostic(
                `| ${name} | ${tiers ? 'two tiers' : 'strict'} | ${bad.length} of ${during.length} ` +
                    `${JSON.stringify(counted(bad))} | ${normal.toFixed(0)} ms | p99 ${took[Math.floor(0.99 * took.length)].toFixed(0)} ms, ` +
                    `slowest ${took.at(-1).toFixed(0)} ms | ${twos.served} of ${SHORT} ${JSON.stringify(twos)}`,
            );
            if (BEFORE) return;
            for (const what of Object.keys(counted(bad)))
                assert.ok(['budget_contended', 'store_unavailable'].includes(what), what);
            assert.ok(twos.served <= SHORT, `${twos.served} of ${SHORT}`);
            if (tiers && /away|late/.test(name)) assert.equal(bad.length, 0);
        });
