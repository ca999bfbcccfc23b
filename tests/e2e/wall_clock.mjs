/* wall_clock.mjs - the machine's clock is set while the gateway runs.
 *
 * A small library in front of libc adds to the wall clock what a file says; it is made here, so
 * there has to be a compiler. A program with a sanitizer's own library does not take another.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { chat, EXACT, EXACT_COST, KEY, reason, sha256, tenant, until, world } from './kit.mjs';

const SHIM = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *at)
{
    static int (*next)(clockid_t, struct timespec *);
    char text[32] = "";
    if (next == NULL)
        next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = next(id, at);
    FILE *file = id == CLOCK_REALTIME ? fopen(getenv("CLOCK_AHEAD"), "r") : NULL;
    if (file != NULL) {
        if (fgets(text, sizeof text, file) != NULL)
            at->tv_sec += atoll(text);
        fclose(file);
    }
    return result;
}
`;

/* A world whose wall clock is set by set(seconds); null: it cannot be made here. */
async function clockWorld(t, options) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-clock-'));
    t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
    const [source, shim, ahead] = ['shim.c', 'shim.so', 'ahead'].map((n) => path.join(folder, n));
    fs.writeFileSync(source, SHIM);
    const made = spawnSync('cc', ['-shared', '-fPIC', '-o', shim, source, '-ldl']);
    if (made.status !== 0 || process.env.E2E_SERVE) return null;
    const set = (seconds) => {
        fs.writeFileSync(`${ahead}.new`, String(seconds));
        fs.renameSync(`${ahead}.new`, ahead);
    };
    set(0);
    Object.assign(process.env, { LD_PRELOAD: shim, CLOCK_AHEAD: ahead });
    try {
        return { ...(await world(t, options)), set };
    } finally {
        delete process.env.LD_PRELOAD;
    }
}

test('attack 14: a clock that is set ahead, and back, is followed', async (t) => {
    const usd = (EXACT_COST * 1.5) / 1e6;
    const ends = new Date(Date.now() + 300000 * 1000).toISOString().replace(/\.\d+Z/, 'Z');
    const made = await clockWorld(t, {
        small: EXACT,
        tenants: [
            tenant({
                keys: [{ name: 'main', sha256: sha256(KEY), not_after: ends }],
                budgets: [{ usd, per: 'day' }],
                rate: { strategy: 'gcra', limit: 2, period: '24h', burst: 2 },
            }),
        ],
    });
    if (made === null) return t.skip('a library cannot be put in front of libc');
    const { gateway, set } = made;
    assert.equal((await chat(gateway)).status, 200);
    assert.equal(reason(await chat(gateway)), 'budget');

    set(200000); /* more than two days: another budget, and the same limits */
    await until('it is another day', async () => (await chat(gateway)).status === 200);
    assert.equal(reason(await chat(gateway)), 'rate'); /* two calls a day, which has not passed */
    /* Lines of two workers are in no order. */
    const has = (date, from) =>
        gateway
            .lines(from)
            .some(({ time }) => Math.abs(new Date(time).getTime() - date) < 1800000);
    await until('the log has the new date', () => has(Date.now() + 200000000, 0));

    set(400000); /* beyond the key's end */
    await until('the key has ended', async () => (await chat(gateway)).status === 401);
    set(200000); /* it was a mistake */
    await until('the key is good again', async () => (await chat(gateway)).status !== 401);
    const from = gateway.process.out.length;
    set(0);
    await until('the log has the old date', async () => {
        assert.equal(reason(await chat(gateway)), 'rate');
        return has(Date.now(), from);
    });
});
