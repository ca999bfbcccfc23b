/* recording_kit.mjs - recordings of `serve`, and what a replay makes of them. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const PROGRAM = path.resolve(process.env.TOLLGATE ?? 'build/tollgate');

/* Numbers between 0 and 1 (mulberry32). */
export function chance(seed) {
    return () => {
        seed = (seed + 0x6d2b79f5) | 0;
        let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
}

export function recordingFile(t) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-recording-'));
    if (process.env.KEEP === undefined) t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
    else console.log(`# ${folder}`);
    return path.join(folder, 'day.jsonl');
}

export function run(...args) {
    return new Promise((done) =>
        execFile(PROGRAM, args, { maxBuffer: 1 << 30 }, (error, out, err) =>
            done({ code: error === null ? 0 : (error.code ?? error.signal), out, err }),
        ),
    );
}

/* The calls, and the summary of each run of serve. */
export async function replayed(config, file, ...options) {
    const { code, out, err } = await run('replay', '-c', config, ...options, file);
    assert.equal(code, 0, err);
    const lines = out.trim().split('\n').map((line) => JSON.parse(line));
    return {
        calls: lines.filter((line) => line.id),
        summaries: lines.filter((line) => line.calls !== undefined),
        err,
    };
}

export const recordedLines = (file) =>
    fs.readFileSync(file, 'utf8').split('\n').filter((line) => line).map((line) => JSON.parse(line));

export const recordedCalls = (file) =>
    fs.readFileSync(file, 'utf8').split('\n').filter((line) => /"id":.*\]}$/.test(line)).length;

function tally(lines) {
    const by = {};
    for (const line of lines) by[line.decision] = (by[line.decision] ?? 0) + 1;
    return JSON.stringify(by);
}

/* The recording of a gateway that has ended, which has this configuration. */
export async function isDecidedAlike(gateway, file, ...options) {
    const recorded = recordedLines(file).filter((line) => line.id);
    if (process.env.KEEP !== undefined) fs.copyFileSync(gateway.file, `${file}.yaml`);
    const { calls, summaries, err } = await replayed(gateway.file, file, ...options);
    const summary = summaries.at(-1);

    console.log(`# ${JSON.stringify(summary)} ${tally(calls)}`);
    assert.equal(calls.length, recorded.length);
    assert.equal(summary.calls, recorded.length);
    assert.deepEqual(calls.filter((call) => !call.same).slice(0, 3), []);
    assert.equal(summary.same, recorded.length);
    assert.deepEqual(summary.causes, {});
    assert.equal(summary.missing, 0);
    assert.ok(summary.ended);
    assert.ok(summary.configuration_in_force);
    assert.match(err, new RegExp(`${summary.same} of ${recorded.length} calls are decided as`));
    return { calls, summary };
}
