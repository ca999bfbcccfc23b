/* redis_kit.mjs - real Redis servers for the end-to-end tests, and fleets of gateways on them. */
import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { chatBody, configure, freePort, Gateway, KEY, Mock, noSecrets, until } from './kit.mjs';

/* A server without persistence, in a folder of its own. */
export class Redis {
    static async start(t, args = [], { sentinel = false } = {}) {
        const redis = new Redis();
        redis.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-redis-'));
        redis.port = await freePort();
        redis.url = `redis://127.0.0.1:${redis.port}`;
        redis.args = args;
        redis.sentinel = sentinel;
        t.after(async () => {
            await redis.kill();
            fs.rmSync(redis.folder, { recursive: true, force: true });
        });
        await redis.begin();
        return redis;
    }

    async begin() {
        const file = path.join(this.folder, 'redis.conf');
        const own = this.sentinel ? [] : ['--save', '', '--appendonly', 'no'];
        fs.writeFileSync(file, this.sentinel ? this.args.join('\n') + '\n' : '');
        this.out = '';
        this.child = spawn(
            'redis-server',
            [
                file,
                ...(this.sentinel ? ['--sentinel'] : []),
                ...['--port', `${this.port}`, '--bind', '127.0.0.1', '--dir', this.folder],
                ...own,
                ...(this.sentinel ? [] : this.args),
            ],
            { stdio: ['ignore', 'pipe', 'pipe'] },
        );
        this.child.stdout.on('data', (bytes) => (this.out += bytes));
        this.child.stderr.on('data', (bytes) => (this.out += bytes));
        this.ended = new Promise((done) => this.child.on('close', done));
        await until(`a Redis at ${this.port}`, async () => {
            try {
                return /PONG|NOAUTH/.test(await this.ask('PING'));
            } catch {
                return false;
            }
        });
    }

    ask(...words) {
        return new Promise((done, fail) =>
            execFile('redis-cli', ['-p', `${this.port}`, ...words], (error, out) =>
                error ? fail(error) : done(out.trim()),
            ),
        );
    }

    async kill(signal = 'SIGKILL') {
        if (this.child.exitCode === null) this.child.kill('SIGCONT');
        this.child.kill(signal);
        await this.ended;
    }

    pause() {
        this.child.kill('SIGSTOP');
    }

    resume() {
        this.child.kill('SIGCONT');
    }

    async info(name) {
        return new RegExp(`^${name}:(.*)$`, 'm').exec(await this.ask('INFO', 'all'))?.[1].trim();
    }
}

/* A limit so long that no test sees its end. */
export const window = (limit) => ({ strategy: 'fixed_window', limit, window: '30d' });

/* `n` gateways in front of one mock, all with the same configuration but for what is each one's. Every
 * decision is Redis' own, unless `tiers` says that gateways lease blocks. `program`: another version's. */
export async function fleet(t, n, store, { script, top, serve, program, tiers = false, ...change } = {}) {
    const mock = await Mock.start(script);
    const folders = [];
    const gateways = [];
    t.after(async () => {
        try {
            for (const gateway of gateways) {
                if (gateway.process.signal !== 'SIGKILL') await gateway.finish();
                noSecrets(gateway.output);
            }
        } finally {
            await mock.stop();
            for (const folder of folders) fs.rmSync(folder, { recursive: true, force: true });
        }
    });
    for (let i = 0; i < n; i++) {
        const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-fleet-'));
        folders.push(folder);
        const config = configure(mock, folder, {
            ...change,
            top: { workers: 1, store, two_tier: { enabled: tiers }, ...top },
        });
        gateways.push(await Gateway.start(config, folder, serve, program));
    }
    await Promise.all(gateways.map((gateway) => stored(gateway, 'ok')));
    if (!program) await Promise.all(gateways.map(follows));
    await Promise.all(
        gateways.map((gateway) =>
            until(`${n} gateways know of each other`, async () => (await gateway.metric('nodes')) === n),
        ),
    );
    return { mock, gateways };
}

/* For gateways that wait for Redis however busy the machine is: what is late is decided without it,
 * by shares, and then what is said of all gateways together does not hold to the unit. */
export const PATIENT = { store_timeout: '10s' };

export const patientFleet = (t, n, store, { top, ...more } = {}) =>
    fleet(t, n, store, { ...more, top: { ...PATIENT, ...top } });

/* Until the gateway has what the others' administrators made. */
export const follows = (gateway) =>
    until(
        'it follows the store',
        async () => (await gateway.metrics('state="current"')).fleet_state === 1,
    );

/* Until the gateway says that its store is in this state. */
export const stored = (gateway, state) =>
    until(
        `the store is ${state}`,
        async () => (await gateway.metrics(`state="${state}"`)).store_state === 1,
    );

/* Calls one after the other on one connection, until told to stop: what became of each. */
export class Caller {
    constructor(gateway, { key = KEY, body = chatBody(), onReply } = {}) {
        this.counts = {};
        this.n = 0;
        this.slowest = 0;
        this.agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
        this.going = true;
        this.done = (async () => {
            while (this.going) {
                const began = performance.now();
                const outcome = await this.one(gateway, key, body);
                this.slowest = Math.max(this.slowest, performance.now() - began);
                this.counts[outcome] = (this.counts[outcome] ?? 0) + 1;
                this.n++;
                onReply?.(outcome, this);
            }
            this.agent.destroy();
        })();
    }

    one(gateway, key, body) {
        return new Promise((done) => {
            const request = http.request(`${gateway.url}/v1/chat/completions`, {
                agent: this.agent,
                method: 'POST',
                headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
            });
            request.on('error', (error) => {
                if (gateway.process.over) this.going = false;
                done(error.code ?? 'error');
            });
            request.on('response', (response) => {
                response.on('error', () => done('cut'));
                response.on('end', () =>
                    done(
                        response.statusCode === 200
                            ? 'served'
                            : (response.headers['x-tollgate-reason'] ?? `${response.statusCode}`),
                    ),
                );
                response.resume();
            });
            request.end(JSON.stringify(body));
        });
    }

    async stop() {
        this.going = false;
        await this.done;
        return this.counts;
    }
}

export const sum = (list) =>
    list.reduce((all, counts) => {
        for (const [name, n] of Object.entries(counts)) all[name] = (all[name] ?? 0) + n;
        return all;
    }, {});

/* What was decided in one way or another, over several gateways. */
export async function decided(gateways, what, by) {
    let all = 0;
    for (const gateway of gateways)
        if (!gateway.process.over)
            all +=
                (await gateway.metrics(`what="${what}"`, `by="${by}"`)).store_decisions_total ?? 0;
    return all;
}

/* A way to a server on which every answer takes its time; one of `late` in a hundred takes `slow` ms. */
export async function detour(t, port) {
    const way = { delay: 0, late: 0, slow: 0 };
    let n = 0;
    const server = net.createServer((near) => {
        const far = net.connect(port, '127.0.0.1');
        near.pipe(far);
        const answers = [];
        let last = 0;
        far.on('data', (bytes) => {
            const late = way.late > 0 && ++n % Math.round(100 / way.late) === 0;
            /* Answers of one connection never overtake each other, though timers for one moment may. */
            last = Math.max(last, performance.now() + (late ? way.slow : way.delay));
            answers.push(bytes);
            setTimeout(() => near.write(answers.shift()), Math.max(0, last - performance.now()));
        });
        for (const [one, other] of [
            [near, far],
            [far, near],
        ]) {
            one.on('error', () => {});
            one.on('close', () => other.destroy());
        }
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    t.after(() => server.close());
    way.url = `redis://127.0.0.1:${server.address().port}`;
    return way;
}
