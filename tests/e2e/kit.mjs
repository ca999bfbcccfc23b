/* kit.mjs - what the end-to-end tests share: a mock, a gateway in front of it, clients, waiting.
 *
 * Every test has a world of its own: a scripted mock and a gateway on ports that the system picks,
 * with files in a folder that goes when the test ends. So no test sees what another did, and all
 * can run side by side. Nobody sleeps and hopes: until() asks again and again whether what is to
 * become true has, for at most PATIENCE_MS.
 *
 *   TOLLGATE      the program under test; default build/tollgate
 *   E2E_MODULES   the folder with the node_modules of package.json; default build/e2e
 *   E2E_SERVE     more options of `tollgate serve`
 */
import assert from 'node:assert/strict';
import { spawn, execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

const PROGRAM = path.resolve(process.env.TOLLGATE ?? 'build/tollgate');
const MODULES = path.resolve(process.env.E2E_MODULES ?? 'build/e2e');
const SERVE = process.env.E2E_SERVE?.split(' ') ?? [];
const PATIENCE_MS = 60000;

/* The clients are not installed beside the tests, but into the folder of what is built. */
export const need = createRequire(path.join(MODULES, 'package.json'));

export const KEY = 'tg-e2e-virtual-key-of-tenant-one';
export const OTHER_KEY = 'tg-e2e-virtual-key-of-tenant-two';
export const SECRETS = ['sk-e2e-provider-secret-1', 'sk-e2e-provider-secret-2'];
export const ADMIN_TOKEN = 'tg-e2e-token-of-the-administrator';

export const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

const isFree = (port) =>
    new Promise((done) => {
        const probe = net.createServer();
        probe.on('error', () => done(false));
        probe.listen(port, '127.0.0.1', () => probe.close(() => done(true)));
    });

/* A cluster's nodes listen 10000 above their port, too. Both are below those that the kernel gives to
 * connections: a server that is away for a while finds its port free when it comes back. */
export async function freePort() {
    for (;;) {
        const port = 11000 + Math.floor(Math.random() * 10000);
        if ((await isFree(port)) && (await isFree(port + 10000))) return port;
    }
}

export async function until(what, look) {
    const end = Date.now() + PATIENCE_MS;
    for (;;) {
        const seen = await look();
        if (seen) return seen;
        if (Date.now() > end) throw new Error(`it never came true: ${what}`);
        await pause(5);
    }
}

/* Whole or not at all: whoever reads it meanwhile sees one of the two. */
export function replace(file, text) {
    fs.writeFileSync(`${file}.new`, text);
    fs.renameSync(`${file}.new`, file);
}

/* The lines of a log as objects. What a gateway is about to write may end in the midst of one. */
export const logLines = (text) =>
    text
        .split('\n')
        .slice(0, -1)
        .filter((line) => line.startsWith('{'))
        .map((line) => JSON.parse(line));

/* ---- processes ---- */

/* A process whose output is kept, and which has begun when a line of it matches. */
class Process {
    constructor(args, program = PROGRAM) {
        this.out = '';
        this.child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
        for (const stream of [this.child.stdout, this.child.stderr])
            stream.on('data', (bytes) => (this.out += bytes));
        this.ended = new Promise((done) =>
            this.child.on('close', (code, signal) => {
                this.code = code;
                this.signal = signal;
                this.over = true;
                done();
            }),
        );
    }

    async said(pattern) {
        await until(`${pattern} in:\n${this.out}`, () => this.over || pattern.test(this.out));
        const match = pattern.exec(this.out);
        assert.ok(match, `it ended with ${this.code} instead of saying ${pattern}:\n${this.out}`);
        return match;
    }

    async stop(signal = 'SIGTERM') {
        if (!this.over) this.child.kill(signal);
        await this.ended;
    }

    /* As an operator ends it who has waited long enough. Leaks and damage show in its status. */
    async finish() {
        if (this.over) return;
        const again = setTimeout(() => this.child.kill('SIGTERM'), 2000);
        const never = setTimeout(() => this.child.kill('SIGKILL'), PATIENCE_MS);
        await this.stop();
        clearTimeout(again);
        clearTimeout(never);
        const cut = this.code === 1 && this.out.includes('cutting off');
        assert.ok(
            this.code === 0 || cut,
            `it ended with ${this.code ?? this.signal}:\n${this.out}`,
        );
    }
}

/* ---- the mock ---- */

export class Mock {
    static async start(script = {}, args = []) {
        const mock = new Mock();
        mock.process = new Process(['mock', '--port', '0', ...args]);
        mock.port = Number((await mock.process.said(/listening on 127\.0\.0\.1:(\d+)/))[1]);
        mock.url = `http://127.0.0.1:${mock.port}`;
        await mock.script(script);
        return mock;
    }

    /* JSON is YAML. */
    async script(script) {
        const reply = await fetch(`${this.url}/mock/script`, {
            method: 'POST',
            body: JSON.stringify(script),
        });
        assert.equal(reply.status, 200, await reply.text());
    }

    async seen() {
        return (await fetch(`${this.url}/mock/requests`)).json();
    }

    /* All requests, once this many have begun and all have ended. */
    async requests(n) {
        const seen = await until(`the mock has seen ${n} requests end`, async () => {
            const now = await this.seen();
            return now.begun >= n && now.begun === now.ended && now;
        });
        return seen.requests;
    }

    async stop() {
        await this.process.stop();
    }
}

/* ---- the gateway ---- */

const ZERO = [
    'open_calls',
    'buffered_bytes',
    'concurrency_in_flight',
    'concurrency_queued',
    'route_in_flight',
    'route_queued',
    'key_in_flight',
    'key_inflight_tokens',
    'budget_reserved_micro_usd',
];

export class Gateway {
    static async start(config, folder, options = [], program) {
        const gateway = new Gateway();
        gateway.folder = folder;
        gateway.options = options;
        gateway.file = path.join(folder, 'tollgate.yaml');
        fs.writeFileSync(gateway.file, JSON.stringify(config, null, 1));
        gateway.output = '';
        await gateway.begin(program);
        return gateway;
    }

    /* Of another version of the program, if `program` says which. */
    async begin(program) {
        this.process = new Process(['serve', '-c', this.file, ...this.options, ...SERVE], program);
        const listens =
            /listening on 127\.0\.0\.1:(\d+) \(gateway\), 127\.0\.0\.1:(\d+) \(probe\)/;
        const ports = await this.process.said(listens);
        this.port = Number(ports[1]);
        this.url = `http://127.0.0.1:${this.port}`;
        this.probe = `http://127.0.0.1:${ports[2]}`;
    }

    async stop(signal) {
        await this.process.stop(signal);
        this.output += this.process.out;
    }

    async finish() {
        if (this.process.over) return;
        await this.process.finish();
        this.output += this.process.out;
    }

    /* From a place in what it has said on, but for what the process says of itself. */
    lines(from = 0) {
        const own = /^(listening on|draining,) /;
        return logLines(this.process.out.slice(from)).filter((line) => !own.test(line.msg));
    }

    /* Another configuration, which it has not read yet. */
    write(config) {
        replace(this.file, JSON.stringify(config, null, 1));
    }

    hangUp() {
        this.process.child.kill('SIGHUP');
    }

    generation() {
        return this.metric('config_generation');
    }

    /* Writes it, says so, and waits until it holds. */
    async reload(config) {
        const before = await this.generation();
        this.write(config);
        this.hangUp();
        await until(`generation ${before + 1}`, async () => (await this.generation()) > before);
    }

    /* On a connection of its own: one that is kept may be closed just then by a process that retires. */
    async metricsText() {
        return (await send(this.probe, '/metrics')).body.toString();
    }

    /* name -> the sum over all its lines with these labels. */
    async metrics(...labels) {
        const sums = {};
        for (const line of (await this.metricsText()).split('\n')) {
            const match = /^tollgate_(\w+)(\{.*\})? (\S+)$/.exec(line);
            if (!match || !labels.every((label) => (match[2] ?? '').includes(label))) continue;
            sums[match[1]] = (sums[match[1]] ?? 0) + Number(match[3]);
        }
        return sums;
    }

    async metric(name, ...labels) {
        return (await this.metrics(...labels))[name];
    }

    /* Everything that calls hold has been given back. */
    async idle() {
        let seen;
        try {
            await until('idle', async () => {
                seen = await this.metrics();
                return ZERO.every((name) => (seen[name] ?? 0) === 0);
            });
        } catch {
            const held = ZERO.filter((name) => seen[name] > 0).map((n) => `${n} ${seen[n]}`);
            throw new Error(`the gateway still holds: ${held.join(', ')}`);
        }
        assert.equal(seen.leases_expired_total, 0, 'a lease was left to its end');
    }

    /* What the ledger says: rows and budgets. */
    async spend() {
        return new Promise((done, fail) =>
            execFile(PROGRAM, ['spend', '-c', this.file, '--json'], (error, out, err) =>
                error ? fail(new Error(err)) : done(JSON.parse(out)),
            ),
        );
    }

    /* What was spent, once nothing is under way; the books in memory say the same. */
    async spent() {
        await this.idle();
        const total = (await this.spend()).total;
        const used = await this.metric('budget_used_micro_usd', 'tenant="one"');
        const known = total.micro_usd + (total.uncertain_micro_usd ?? 0);
        if (used !== undefined) assert.equal(used, known, 'memory and ledger agree');
        return total;
    }
}

/* ---- worlds ---- */

export const PRICE = { input: 1, output: 2 }; /* micro-dollars a token */

export function keys(n, more = {}) {
    return SECRETS.slice(0, n).map((secret, i) => ({ name: `k${i + 1}`, secret, ...more }));
}

export const tenant = (more = {}) => ({
    name: 'one',
    keys: [{ name: 'main', sha256: sha256(KEY) }],
    budgets: [{ usd: 100, per: 'total' }],
    ...more,
});

/* A configuration in front of a mock; `change` has what differs, section by section, or makes that
 * of the mock. */
export function configure(mock, folder, change = {}) {
    const of = (name, section) => ({
        ...section,
        ...(typeof change[name] === 'function' ? change[name](mock) : change[name]),
    });
    return {
        workers: 2,
        ledger: { path: path.join(folder, 'spend.db') },
        gate: { concurrency: {}, peers: { limit: 1024 } },
        providers: of('providers', {
            oai: { base_url: mock.url, api: 'openai', keys: keys(1), ...change.oai },
            ant: {
                base_url: mock.url,
                api: 'anthropic',
                auth: { header: 'x-api-key', prefix: '' },
                keys: keys(1),
                ...change.ant,
            },
        }),
        models: of('models', {
            small: { provider: 'oai', price: PRICE, max_output_tokens: 4096, ...change.small },
            claude: { provider: 'ant', price: PRICE, max_output_tokens: 4096, ...change.claude },
        }),
        tenants: change.tenants ?? [tenant(change.tenant)],
        ...change.top,
        listen: { gateway: '127.0.0.1:0', probe: '127.0.0.1:0', ...change.listen },
    };
}

/* world(t, {script, mock: args, serve: options, ...changes of configure}): runs until the test ends;
 * then the gateway ends as it should, and may have said no secret. */
export async function world(t, { script, mock: args, serve, ...change } = {}) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-e2e-'));
    const mock = await Mock.start(script, args);
    let gateway;
    t.after(async () => {
        try {
            if (gateway) {
                await gateway.finish();
                noSecrets(gateway.output);
            }
        } finally {
            await mock.stop();
            fs.rmSync(folder, { recursive: true, force: true });
        }
    });
    const config = configure(mock, folder, change);
    gateway = await Gateway.start(config, folder, serve);
    return { mock, gateway, folder, config };
}

export function noSecrets(text) {
    for (const secret of [KEY, OTHER_KEY, ADMIN_TOKEN, ...SECRETS])
        assert.ok(!text.includes(secret), `a secret was said:\n${text}`);
}

/* ---- calls over plain HTTP ---- */

export const HELLO = [{ role: 'user', content: 'hello there' }];

/* One request on a connection of its own: a promise of {status, headers, body (bytes)}, with the
 * request in `.request` to hang up by. A reply that is cut has `cut`. An `open` one is written on
 * by the caller. */
export function send(
    url,
    target,
    body,
    { headers = {}, method, onData, open, agent = false } = {},
) {
    const bytes =
        body === undefined
            ? undefined
            : Buffer.from(
                  typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body),
              );
    let request;
    const reply = new Promise((done, fail) => {
        request = http.request(url + target, {
            agent,
            timeout: PATIENCE_MS,
            method: method ?? (bytes ? 'POST' : 'GET'),
            headers: {
                authorization: `Bearer ${KEY}`,
                ...(bytes && {
                    'content-type': 'application/json',
                    'content-length': bytes.length,
                }),
                ...headers,
            },
        });
        request.on('error', fail);
        request.on('timeout', () => request.destroy(new Error(`no word of ${target}`)));
        request.on('response', (response) => {
            const parts = [];
            const end = (cut) =>
                done({
                    status: response.statusCode,
                    headers: response.headers,
                    cut,
                    body: Buffer.concat(parts),
                });
            response.on('data', (part) => {
                parts.push(part);
                onData?.(Buffer.concat(parts), request);
            });
            response.on('end', () => end(false));
            response.on('error', () => end(true));
        });
        if (!open) request.end(bytes);
    });
    reply.request = request;
    return reply;
}

export const chatBody = (more = {}) => ({
    model: 'small',
    messages: HELLO,
    max_tokens: 16,
    ...more,
});

export const chat = (gateway, more = {}, options) =>
    send(gateway.url, '/v1/chat/completions', chatBody(more), options);

export const messageBody = (more = {}) => ({ ...chatBody(more), model: more.model ?? 'claude' });

export const message = (gateway, more = {}, options) =>
    send(gateway.url, '/v1/messages', messageBody(more), options);

export const json = (reply) => JSON.parse(reply.body);

/* The data of all events of a stream, but for its [DONE]. */
export const events = (reply) =>
    String(reply.body)
        .split('\n')
        .filter((line) => /^data: ?\{/.test(line))
        .map((line) => JSON.parse(line.slice(5)));

export const reason = (reply) => reply.headers['x-tollgate-reason'];

/* So many at once. */
export const calls = (n, one) => Promise.all(Array.from({ length: n }, (_, i) => one(i)));

/* The error of what must fail. */
export const fails = (promise) =>
    promise.then(
        (value) => {
            throw new Error(`it did not fail: ${JSON.stringify(value)}`);
        },
        (error) => error,
    );

/* The requests that a call of an SDK makes, and its error or null. What is refused for a moment only is
 * free again before the call comes, where the machine is slow: then `first` uses it up once more. */
export const requestsOf = (gateway, call, { first, momentary } = {}) =>
    until('the call is refused', async () => {
        await first?.();
        const before = await gateway.metrics();
        const error = await call().then(
            () => null,
            (e) => e,
        );
        const after = await gateway.metrics();
        if (momentary && after.refused_total === before.refused_total) return false;
        return { requests: after.calls_total - before.calls_total, error };
    });

/* A model whose calls cost as much as is reserved for them: 16 tokens, 32 micro-dollars. */
export const EXACT = { price: { input: 0, output: 2 } };
export const EXACT_COST = 32;

/* What a call costs whose usage the provider states. */
export const price = (usage) =>
    PRICE.input * (usage.prompt_tokens ?? usage.input_tokens) +
    PRICE.output * (usage.completion_tokens ?? usage.output_tokens ?? 0);
