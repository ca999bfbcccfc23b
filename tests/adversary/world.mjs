/* world.mjs - a gateway between a provider that bills and tenants that do their worst.
 *
 * What holds is asked of two witnesses that share no code: the provider, which knows what it billed
 * for each call and each tenant, and the gateway's log and books, which say what it charged.
 */
import { execFile, spawn } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Gateway, logLines, sha256, until } from '../e2e/kit.mjs';
import { imageTokens, MODELS } from './billing.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const PROGRAM = path.resolve(process.env.TOLLGATE ?? 'build/tollgate');

/* ---- the provider ---- */

export class Provider {
    static async start() {
        const provider = new Provider();
        provider.out = '';
        provider.child = spawn(process.execPath, [path.join(HERE, 'provider.mjs')], {
            stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
        });
        for (const stream of [provider.child.stdout, provider.child.stderr])
            stream.on('data', (bytes) => (provider.out += bytes));
        const port = await until('the provider listens', () =>
            /listening on 127\.0\.0\.1:(\d+)/.exec(provider.out),
        );
        provider.url = `http://127.0.0.1:${port[1]}`;
        return provider;
    }

    async ask(what, body) {
        const reply = await fetch(`${this.url}/adv/${what}`, {
            method: 'POST',
            body: JSON.stringify(body ?? {}),
        });
        return reply.json();
    }

    reset(budgets) {
        return this.ask('reset', { budgets });
    }

    bill() {
        return this.ask('bill');
    }

    /* What it billed, once nothing is under way. */
    async settled() {
        return until('the provider is idle', async () => {
            const bill = await this.bill();
            return bill.live === 0 && bill;
        });
    }

    stop() {
        this.child.kill();
    }
}

/* ---- the gateway's configuration ---- */

const ratios = (factors) =>
    Object.fromEntries(Object.entries(factors).map(([name, milli]) => [name, milli / 1000]));

/* What multiplies prices; `default` and `standard` are 1. A tier that the account decides is `auto`. */
function factorsOf(model) {
    const { default: one, standard, ...tiers } = model.tiers;
    if (model.tier_default) tiers.auto = model.tiers[model.tier_default];
    const factors = {};
    if (Object.keys(tiers).length > 0) factors.service_tier = ratios(tiers);
    if (model.speed) factors.speed = ratios(model.speed);
    if (model.geo) factors.inference_geo = ratios(model.geo);
    if (model.long) {
        factors.above_tokens = ratios({ [model.long.over]: model.long.input });
        factors.above_tokens_output = ratios({ [model.long.over]: model.long.output });
    }
    return factors;
}

/* What an operator writes who knows the provider's prices. */
const NAMES = {
    input: 'input',
    cached: 'cached_input',
    write: 'cache_write',
    write_long: 'cache_write_1h',
    output: 'output',
    audio: 'audio_input',
    audio_output: 'audio_output',
};

function priceOf(model) {
    const price = {};
    for (const [kind, name] of Object.entries(NAMES))
        if (model.price[kind] !== undefined) price[name] = model.price[kind];
    if (model.fee) price.per_tool_call = model.fee;
    const factors = factorsOf(model);
    return Object.keys(factors).length > 0 ? { ...price, factors } : price;
}

const PROVIDER_OF = { openai: 'oai', gemini: 'goo', vllm: 'own', anthropic: 'ant' };

const largestImage = (image) => imageTokens(image, image.rule === 'claude' ? [8000, 8000] : null);

/* How the family counts an image of a known size. */
const imageOf = ({ rule, base, tile, multiplier }) => ({
    rule,
    ...(rule === 'tiles' && { base, tile }),
    ...(rule === 'patches' && { factor: multiplier / 1000 }),
});

const modelOf = (model) => ({
    provider: model.provider ?? PROVIDER_OF[model.family],
    price: priceOf(model),
    context: model.context,
    ...(model.most && { max_output_tokens: model.most }),
    most_tokens_per_s: model.tps,
    tokenizer: model.tok,
    cut: model.cut,
    ...(model.image && { image_most: largestImage(model.image), image: imageOf(model.image) }),
    ...(model.fallback && { fallback: [model.fallback] }),
    ...(model.cheaper && { cheaper: model.cheaper }),
    ...(model.implicit && { cache_write_implicit: true }),
    ...(model.family === 'anthropic' && { rounds: model.rounds }),
    ...(model.family === 'anthropic' && !model.bare && { tool_prompt: 900 }),
    ...(model.lossy && { translate: 'lossy' }),
});

/* Who spends a tenant's budget: its first key has no budget of its own, the second has one, the third
 * comes and goes with every reload. */
export const KEYS = ['', '-small', '-spare'];
const keyOf = (tenant, key = '') => `tg-adversary-key-of-${tenant}${key}`;

/* What the second key, and each user, may spend of a tenant's budget; and how many users a day may have. */
export const OF_KEY = 0.3;
export const OF_USER = 0.25;
export const USERS_MOST = 12;

const ownBudget = (micro, share) => [{ usd: Math.round(micro * share) / 1e6, per: 'total' }];

const keysOf = (name, micro) => [
    { name: 'main', sha256: sha256(keyOf(name)) },
    { name: 'small', sha256: sha256(keyOf(name, '-small')), budgets: ownBudget(micro, OF_KEY) },
    { name: 'spare', sha256: sha256(keyOf(name, '-spare')) },
];

/* ---- an identity provider, whose tokens are as good as keys ---- */

const ISSUER = 'https://id.example';
const signing = crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' });

const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');

function tokenOf(tenant, user) {
    const now = Math.floor(Date.now() / 1000);
    const claims = { iss: ISSUER, aud: 'tollgate', exp: now + 3600, team: tenant, ...(user && { sub: user }) };
    const text = `${part({ alg: 'ES256', kid: 'k' })}.${part(claims)}`;
    const key = { key: signing.privateKey, dsaEncoding: 'ieee-p1363' };
    return `${text}.${crypto.sign('sha256', Buffer.from(text), key).toString('base64url')}`;
}

async function identityProvider() {
    const jwk = { ...signing.publicKey.export({ format: 'jwk' }), kid: 'k', alg: 'ES256' };
    const server = http.createServer((request, reply) => {
        reply.writeHead(200, { 'content-type': 'application/json' });
        reply.end(JSON.stringify({ keys: [jwk] }));
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    server.unref();
    return server;
}

const tokensOf = (server) => ({
    callers_jwt: {
        issuer: ISSUER,
        jwks: `http://127.0.0.1:${server.address().port}/keys`,
        audience: 'tollgate',
        tenant: 'claim:team',
        user: 'claim:sub',
    },
});

export function configOf(provider, folder, { budgets, store, parent, people, change = {}, tenant = {} }) {
    const one = (api) => ({
        base_url: provider.url,
        api,
        keys: [{ name: 'k', secret: 'sk-e2e-provider-secret-1' }],
    });
    return {
        workers: 2,
        listen: { gateway: '127.0.0.1:0', probe: '127.0.0.1:0' },
        ledger: { path: path.join(folder, 'spend.db') },
        gate: { concurrency: {}, peers: { limit: 1024 } },
        ...(store && { store, store_timeout: '5s' }),
        providers: {
            oai: one('openai'),
            goo: one('openai'),
            own: one('openai'),
            old: { ...one('openai'), output_field: 'max_tokens' },
            ant: one('anthropic'),
            gem: one('gemini'),
            ors: one('openai-responses'),
        },
        models: Object.fromEntries(
            Object.entries(MODELS).map(([name, model]) => [name, modelOf(model)]),
        ),
        unknown_objects: 'allow' /* what they cost is the question here, not whose they are */,
        tenants: [
            ...(parent ? [{ name: 'dept', budgets: [{ usd: parent.micro / 1e6, per: 'total' }] }] : []),
            ...Object.entries(budgets).map(([name, micro]) => ({
                name,
                ...(parent?.of.includes(name) && { parent: 'dept' }),
                keys: people ? keysOf(name, micro) : [{ name: 'main', sha256: sha256(keyOf(name)) }],
                budgets: [{ usd: micro / 1e6, per: 'total' }],
                ...(people && {
                    users: {
                        from: 'header:x-adv-user',
                        max: USERS_MOST,
                        each: { budgets: ownBudget(micro, OF_USER) },
                    },
                }),
                ...tenant,
            })),
        ],
        ...change,
    };
}

/* An older program does not know every key: leaves out what it complains about. */
export function known(config, folder) {
    const file = path.join(folder, 'known.yaml');
    return new Promise((done, fail) => {
        const step = (left) => {
            fs.writeFileSync(file, JSON.stringify(config, null, 1));
            execFile(PROGRAM, ['check', '-c', file], (error, out, err) => {
                const unknown = [...`${out}${err}`.matchAll(/: (\S+) has no key "([^"]+)"/g)];
                const top = [...`${out}${err}`.matchAll(/there is no key "([^"]+)"/g)];
                if (!error) return done(config);
                if (unknown.length + top.length === 0 || left === 0)
                    return fail(new Error(`${out}${err}`));
                for (const [, key] of top) delete config[key];
                for (const [, at, key] of unknown) {
                    const names = at.replace(/\[(\d+)\]/g, '.$1').split('.');
                    const place = names.reduce((node, name) => node?.[name], config);
                    if (place) delete place[key];
                }
                return step(left - 1);
            });
        };
        step(200);
    });
}

/* ---- clients ---- */

const agent = new http.Agent({ keepAlive: true, maxSockets: 4096 });

/* {key, user, token} of a request: which key it uses, whom it names, and whether by a token. */
const headersOf = (request, tenant, trace, bytes) => ({
    authorization: `Bearer ${request.token ? tokenOf(tenant, request.user) : keyOf(tenant, request.key)}`,
    ...(request.user && { 'x-adv-user': request.user }),
    'content-type': 'application/json',
    'content-length': bytes.length,
    traceparent: `00-${trace}-00000000000000ff-01`,
    'x-adv-call': tenant,
    ...(request.plan && { 'x-adv-plan': JSON.stringify(request.plan) }),
    ...request.headers,
});

/* Connections by HTTP/2, each shared by all calls to a gateway until it goes. */
const sessions = new Map();

function sessionTo(url) {
    let session = sessions.get(url);
    if (!session || session.closed || session.destroyed) {
        session = http2.connect(url);
        session.on('error', () => 0);
        session.on('close', () => sessions.get(url) === session && sessions.delete(url));
        session.unref();
        sessions.set(url, session);
    }
    return session;
}

/* Node sends no such headers by HTTP/2. */
const isOdd = ({ headers = {} }) =>
    Object.entries(headers).some(
        ([name, value]) =>
            Array.isArray(value) || /^(connection|transfer-encoding|host|expect)$/i.test(name),
    );

/* The same as below by HTTP/2: whoever leaves resets its exchange, and the connection stays. */
function performByHttp2(url, request, tenant, trace) {
    const bytes = Buffer.from(request.raw ?? JSON.stringify(request.body));
    const { leave } = request;
    return new Promise((done) => {
        const stream = sessionTo(url).request({
            ':method': 'POST',
            ':path': request.path,
            ...headersOf(request, tenant, trace, bytes),
        });
        const parts = [];
        let head;
        const reset = () => stream.close(http2.constants.NGHTTP2_CANCEL);
        const timer = setTimeout(reset, leave?.ms ?? 60000);
        const over = (gone, error) => {
            clearTimeout(timer);
            const body = Buffer.concat(parts).toString();
            done({ status: head?.[':status'] ?? 0, headers: head ?? {}, body, gone, error });
        };
        stream.on('response', (headers) => (head = headers));
        stream.on('data', (part) => {
            parts.push(part);
            if (leave?.after === 'first words' && /tok /.test(part)) reset();
        });
        stream.on('error', (error) => over(true, error.code ?? error.message));
        stream.on('close', () => over(stream.rstCode !== 0));
        stream.end(bytes);
    });
}

/* Sends a request as its client would, leaves as it wants to leave: {status, headers, body, gone}. */
export function perform(url, request, tenant, trace, { fresh } = {}) {
    if (request.http2 && !isOdd(request)) return performByHttp2(url, request, tenant, trace);
    const bytes = Buffer.from(request.raw ?? JSON.stringify(request.body));
    const { leave } = request;
    return new Promise((done) => {
        const out = http.request(url + request.path, {
            agent: fresh ? false : agent,
            method: 'POST',
            timeout: 60000,
            headers: headersOf(request, tenant, trace, bytes),
        });
        let timer;
        const over = (result) => {
            clearTimeout(timer);
            done(result);
        };
        if (leave?.ms !== undefined) timer = setTimeout(() => out.destroy(), leave.ms);
        out.on('timeout', () => out.destroy());
        out.on('error', (error) =>
            over({ status: 0, gone: true, error: error.code ?? error.message }),
        );
        out.on('response', (response) => {
            const parts = [];
            const result = (gone) => ({
                status: response.statusCode,
                headers: response.headers,
                body: Buffer.concat(parts).toString(),
                gone,
            });
            response.on('data', (part) => {
                parts.push(part);
                if (leave?.after === 'first words' && /tok /.test(part)) out.destroy();
            });
            response.on('end', () => over(result(false)));
            response.on('error', () => over(result(true)));
        });
        out.end(bytes);
    });
}

/* ---- a world ---- */

export class World {
    /* {budgets: {tenant: micro-dollars}, store, gateways, change, tenant: more of each} */
    static async start({ gateways = 1, provider, ...options }) {
        const world = new World();
        world.own = provider === undefined;
        world.provider = provider ?? (await Provider.start());
        world.budgets = options.budgets;
        world.parent = options.parent;
        world.people = options.people;
        world.folders = [];
        world.before = [];
        world.gateways = [];
        await world.provider.reset(options.budgets);
        if (options.people) world.identity = await identityProvider();
        const change = { ...(world.identity && tokensOf(world.identity)), ...options.change };
        for (let i = 0; i < gateways; i++) {
            const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-adversary-'));
            world.folders.push(folder);
            const config = configOf(world.provider, folder, { ...options, change });
            world.gateways.push(
                await Gateway.start(
                    process.env.ADVERSARY_OLD ? await known(config, folder) : config,
                    folder,
                ),
            );
        }
        return world;
    }

    get gateway() {
        return this.gateways[0];
    }

    /* kill -9, and a start on the same files. */
    async kill(gateway = this.gateway) {
        await gateway.stop('SIGKILL');
        await gateway.begin();
    }

    /* A new process takes over from one that goes on with its calls. */
    async takeOver(gateway = this.gateway) {
        const before = gateway.process;
        gateway.options = ['--takeover'];
        /* It is refused while a configuration is read. */
        await until('a process takes over', () =>
            gateway.begin().then(
                () => true,
                () => ((gateway.process = before), false),
            ),
        );
        this.before.push(before);
    }

    /* Every process that was taken over has ended: none is kept by a client's connection. */
    async takenOver() {
        agent.destroy();
        for (const session of sessions.values()) session.close();
        for (const old of this.before) await until('the old process has ended', () => old.over);
    }

    /* The third key of each tenant goes, or comes back; the gateway reads its files anew. */
    reload(gateway) {
        const config = JSON.parse(fs.readFileSync(gateway.file));
        for (const { keys = [] } of config.tenants) {
            const spare = keys.find(({ name }) => name.startsWith('spare'));
            if (!spare) continue;
            const away = spare.name === 'spare';
            spare.name = away ? 'spare-gone' : 'spare';
            spare.not_after = away ? '2001-01-01T00:00:00Z' : undefined;
        }
        gateway.write(config);
        gateway.hangUp();
    }

    /* Lines of calls by their trace, those from before a kill too. */
    lines() {
        const lines = new Map();
        const outputs = [
            ...this.gateways.map((gateway) => gateway.output + gateway.process.out),
            ...this.before.map(({ out }) => out),
        ];
        for (const output of outputs)
            for (const line of logLines(output))
                if (line.msg === 'request' && line.trace_id) lines.set(line.trace_id, line);
        return lines;
    }

    async line(trace) {
        return until(`a line of ${trace}`, () => this.lines().get(trace));
    }

    /* Micro-dollars that the books hold against a tenant's budget: each gateway has its own. */
    async used(tenant) {
        const used = this.gateways.map((gateway) =>
            gateway.metric('budget_used_micro_usd', `tenant="${tenant}"`),
        );
        return (await Promise.all(used)).reduce((sum, one) => sum + (one ?? 0), 0);
    }

    async idle() {
        for (const gateway of this.gateways) await gateway.idle();
        return this.provider.settled();
    }

    async stop() {
        try {
            for (const gateway of this.gateways) await gateway.finish();
        } finally {
            if (this.own) this.provider.stop();
            this.identity?.close();
            for (const old of this.before) if (!old.over) await old.stop('SIGKILL');
            for (const folder of this.folders) fs.rmSync(folder, { recursive: true, force: true });
        }
    }
}

export const traceOf = (seed, i) =>
    (seed >>> 0).toString(16).padStart(8, '0') + (i + 1).toString(16).padStart(24, '0');
