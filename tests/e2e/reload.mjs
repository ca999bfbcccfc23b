/* reload.mjs - another configuration for a gateway that runs: by SIGHUP, or since a file of a secret
 * or certificate has changed. No call is lost, and what was counted stays counted.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import test from 'node:test';
import tls from 'node:tls';
import {
    chat,
    configure,
    events,
    json,
    KEY,
    OTHER_KEY,
    price,
    reason,
    replace,
    send,
    sha256,
    SECRETS,
    tenant,
    until,
    world,
} from './kit.mjs';

/* ---- what it says ---- */

/* Lines of the log, from a place in it on, that have this message. */
const lines = (gateway, msg, from = 0) =>
    gateway.lines(from).filter((line) => line.msg === msg);

const KEPT = 'the configuration stays as it is';

const kept = (gateway, from) =>
    until(KEPT, () => lines(gateway, KEPT, from).length > 0);

/* ---- load ---- */

/* Clients that call one after the other until they are told to stop; every reply is kept. Each has
 * connections of its own for every second call, and keeps one for the others. */
function load(gateway, clients, call) {
    const running = { replies: [], failures: [], stopped: false };
    running.ended = Promise.all(
        Array.from({ length: clients }, async (_, who) => {
            for (let i = 0; !running.stopped; i++)
                await call(who, i).then(
                    (reply) => running.replies.push(reply),
                    (error) => running.failures.push(error),
                );
        }),
    );
    running.stop = async () => {
        running.stopped = true;
        await running.ended;
        assert.deepEqual(running.failures, []);
        return running.replies;
    };
    return running;
}

const atLeast = (running, n) =>
    until(`${n} replies more`, () => running.replies.length + running.failures.length >= n);

const both = (gateway) => (who, i) =>
    chat(gateway, { stream: (who + i) % 2 === 0, max_tokens: 12 });

/* ---- under load ---- */

test('twenty reloads under load: every call is served, whole, and charged once', async (t) => {
    const { gateway, mock, folder } = await world(t, {
        script: { default: { latency: '5ms', tokens: 12, pace: 2000 } },
    });
    const running = load(gateway, 16, both(gateway));
    for (let i = 0; i < 20; i++) {
        await atLeast(running, running.replies.length + 16);
        await gateway.reload(
            configure(mock, folder, {
                tenant: { weight: i + 1, limits: [{ rpm: 1000000 + i }] },
                small: { retries: i % 3 },
            }),
        );
    }
    const replies = await running.stop();

    assert.equal(await gateway.generation(), 21);
    for (const reply of replies) {
        assert.equal(reply.status, 200, String(reply.body));
        assert.equal(reply.cut, false);
    }
    for (const reply of replies.filter((one) => String(one.body).startsWith('data:')))
        assert.equal(events(reply).filter((e) => e.choices[0]?.delta?.content).length, 12);
    const seen = await mock.requests(replies.length);
    assert.equal(seen.length, replies.length, 'each call went up once');
    assert.ok(seen.every((one) => one.ended === 'completed'));
    assert.equal((await gateway.spent()).calls, replies.length);
});

test('signals that come together end with what the file says last', async (t) => {
    const { gateway, mock, folder } = await world(t);
    for (let i = 1; i <= 40; i++) {
        gateway.write(configure(mock, folder, { tenant: { models: i < 40 ? ['claude'] : [] } }));
        gateway.hangUp();
    }
    await until('the last one holds', async () => (await chat(gateway)).status === 200);
    await gateway.idle();
});

test('10,000 tenants come and go under load, and no call is lost', async (t) => {
    const { gateway, mock, folder } = await world(t, {
        script: { default: { latency: '2ms', tokens: 4 } },
    });
    const inside = path.join(folder, 'tenants.d');
    fs.mkdirSync(inside);
    for (let file = 0; file < 200; file++)
        fs.writeFileSync(
            path.join(inside, `${file}.yaml`),
            JSON.stringify({
                tenants: Array.from({ length: 50 }, (_, i) => ({
                    name: `t${file}-${i}`,
                    keys: [{ name: 'k', sha256: sha256(`key ${file} ${i}`) }],
                    limits: [{ rpm: 60 }, { models: ['small'], tpm: 100000 }],
                    users: { from: 'header:x-user', each: { rpm: 5 } },
                    budgets: [
                        { usd: 1, per: 'day' },
                        { usd: 10, per: 'month' },
                    ],
                })),
            }),
        );
    const running = load(gateway, 8, both(gateway));
    const few = configure(mock, folder);
    const many = { ...few, include: ['tenants.d/*.yaml'] };
    const as = (key) => chat(gateway, {}, { headers: { authorization: `Bearer ${key}` } });
    for (let round = 0; round < 2; round++) {
        await gateway.reload(many);
        assert.equal((await as('key 0 0')).status, 200);
        assert.equal((await as('key 199 49')).status, 200);
        await atLeast(running, running.replies.length + 8);
        await gateway.reload(few);
        assert.equal((await as('key 199 49')).status, 401);
    }
    const replies = await running.stop();

    assert.ok(replies.every((reply) => reply.status === 200 && !reply.cut));
    await gateway.idle();
});

test('a call that runs goes on under what it began with, though its tenant is gone', async (t) => {
    const { gateway, mock, folder } = await world(t, {
        script: { default: { tokens: 16, pace: 40 } },
    });
    let seen = 0;
    const running = chat(gateway, { stream: true }, { onData: (body) => (seen = body.length) });
    await until('it streams', () => seen > 0);
    await gateway.reload(
        configure(mock, folder, { tenants: [{ name: 'two', keys: [{ sha256: sha256(OTHER_KEY) }] }] }),
    );
    assert.equal((await chat(gateway)).status, 401);
    const reply = await running;

    assert.equal(reply.status, 200);
    assert.equal(reply.cut, false);
    assert.equal(events(reply).filter((e) => e.choices[0]?.delta?.content).length, 16);
    await gateway.idle();
    assert.equal((await gateway.spend()).total.calls, 1, 'and it is charged');
});

/* ---- what is wrong ---- */

test('a wrong file changes nothing, and says what is wrong and where', async (t) => {
    const { gateway, mock, folder } = await world(t);
    const running = load(gateway, 4, both(gateway));
    const keys = [{ name: 'k', secret: 'file:no' }];
    const wrong = [
        ['{"gate": {"peers": {"limit": "many"}}}', 1, 30, /^gate\.peers\.limit is "many"/],
        ['gate: [\n', 2, 1, /^not YAML/],
        [
            `\n${JSON.stringify(configure(mock, folder, { oai: { keys } }))}`,
            2,
            undefined,
            /^providers\.oai\.keys\[0\]\.secret: the file no cannot be read/,
        ],
        [
            `\n\n${JSON.stringify(configure(mock, folder, { tenant: { parent: 'nobody' } }))}`,
            3,
            undefined,
            /^the parent "nobody" does not exist/,
        ],
    ];
    for (const [text, line, column, words] of wrong) {
        const from = gateway.process.out.length;
        replace(gateway.file, text);
        gateway.hangUp();
        await kept(gateway, from);
        const said = lines(gateway, 'error in the configuration', from);
        assert.equal(said.length, 1);
        assert.equal(said[0].file, gateway.file);
        assert.equal(said[0].line, line);
        assert.equal(said[0].column, column ?? said[0].column);
        assert.match(said[0].text, words);
        assert.equal(await gateway.metric('config_reload_failed'), 1);
        await atLeast(running, running.replies.length + 8);
    }
    fs.rmSync(gateway.file);
    const from = gateway.process.out.length;
    gateway.hangUp();
    await kept(gateway, from);
    assert.equal(await gateway.generation(), 1);
    await gateway.reload(configure(mock, folder, { tenant: { weight: 2 } }));
    const replies = await running.stop();

    assert.ok(replies.every((reply) => reply.status === 200 && !reply.cut));
    assert.equal(await gateway.generation(), 2);
    assert.equal(await gateway.metric('config_reload_failed'), 0);
});

test('what needs a restart is said, and everything else holds', async (t) => {
    const { gateway, mock, folder } = await world(t);
    await gateway.reload({
        ...configure(mock, folder, { tenant: { models: ['claude'] } }),
        workers: 3,
    });
    const said = await until('it says so', () => lines(gateway, 'this change needs a restart')[0]);
    assert.equal(said.what, 'workers');
    assert.equal((await chat(gateway)).status, 403);
});

/* ---- what was counted ---- */

test('shadow refuses nothing and counts everything; enforced by reload, it goes on', async (t) => {
    const limited = (mode) => ({
        limits: [{ rpd: 3, mode }],
        budgets: [
            { usd: 100, per: 'total' },
            { usd: 0, per: 'month', mode },
        ],
    });
    const { gateway, mock, folder } = await world(t, { tenant: limited('shadow') });
    let cost = 0;
    for (let i = 0; i < 10; i++) {
        const reply = await chat(gateway);
        assert.equal(reply.status, 200, 'in shadow nothing is refused');
        cost += price(json(reply).usage);
    }
    const would = () => gateway.metric('would_deny_total', 'reason="rate"');
    const spent = async () => {
        await gateway.idle();
        return (await gateway.spend()).total.micro_usd;
    };
    assert.equal(await would(), 7, 'three fit');
    assert.equal(await spent(), cost);

    await gateway.reload(configure(mock, folder, { tenant: limited('enforce') }));
    const refused = await chat(gateway);
    assert.equal(refused.status, 429);
    assert.equal(reason(refused), 'rate', 'the three of today are gone');
    assert.equal(await spent(), cost, 'what was spent is spent');
    assert.equal(await would(), 7, 'counters never fall');
    assert.equal(await gateway.metric('admitted_total', 'gate="all"'), 10);

    await gateway.reload(
        configure(mock, folder, { tenant: { ...limited('enforce'), limits: [] } }),
    );
    const poor = await chat(gateway);
    assert.equal(poor.status, 402);
    assert.equal(reason(poor), 'budget');

    await gateway.reload(configure(mock, folder, { tenant: limited('shadow') }));
    assert.equal((await chat(gateway)).status, 200);
    assert.equal(await would(), 8, 'and again it would have been refused');
});

test('a limit that changes keeps what was taken of it', async (t) => {
    const limits = (rpd) => ({ tenant: { limits: [{ rpd }] } });
    const { gateway, mock, folder } = await world(t, limits(5));
    for (let i = 0; i < 5; i++) assert.equal((await chat(gateway)).status, 200);
    assert.equal((await chat(gateway)).status, 429);
    await gateway.reload(configure(mock, folder, limits(5)));
    assert.equal((await chat(gateway)).status, 429, 'the same limit is not full again');
    await gateway.reload(configure(mock, folder, { tenant: { limits: [{ rpd: 5 }], weight: 3 } }));
    assert.equal((await chat(gateway)).status, 429, 'nor if the tenant has changed');
});

test('a budget that changes keeps what was spent of it', async (t) => {
    const EXACT = { price: { input: 0, output: 2 } }; /* 16 tokens: 32 micro-dollars */
    const budget = (n) => ({
        small: EXACT,
        tenant: { budgets: [{ usd: (n * 32) / 1e6, per: 'month' }] },
    });
    const { gateway, mock, folder } = await world(t, budget(3));
    for (let i = 0; i < 3; i++) assert.equal((await chat(gateway)).status, 200);
    assert.equal((await chat(gateway)).status, 402);
    await gateway.reload(configure(mock, folder, budget(5)));
    for (let i = 0; i < 2; i++) assert.equal((await chat(gateway)).status, 200);
    assert.equal((await chat(gateway)).status, 402);
    await gateway.reload(configure(mock, folder, budget(4)));
    assert.equal((await chat(gateway)).status, 402);
    const spent = await gateway.spent();
    assert.equal(spent.micro_usd, 5 * 32);

    await gateway.finish();
    await gateway.begin();
    assert.equal((await gateway.spent()).micro_usd, 5 * 32, 'and after a restart');
});

test('what a law has learned outlasts a reload', async (t) => {
    const small = {
        retries: 0,
        concurrency: { law: 'aimd', initial: 40, min: 2, max: 100 },
    };
    const { gateway, mock, folder } = await world(t, {
        script: { default: { fault: 'reset', at: 'event 4' } },
        small: { ...small, breaker: { failures: 1000 } },
    });
    const limit = () => gateway.metric('route_concurrency_limit', 'model="small"');
    assert.equal(await limit(), 40);
    await until('it has been taught', async () => {
        await chat(gateway, { stream: true });
        return (await limit()) < 40;
    });
    await gateway.idle();
    const learned = await limit();
    await gateway.reload(
        configure(mock, folder, { small: { ...small, breaker: { failures: 999 } } }),
    );
    assert.equal(await limit(), learned);
});

test('a key that cools goes on cooling', async (t) => {
    const { gateway, mock, folder } = await world(t, {
        script: { default: { status: 429, headers: { 'retry-after': '30' } } },
        small: { retries: 0 },
    });
    await chat(gateway);
    await until('it cools', async () => (await gateway.metric('key_cooldown_seconds')) > 0);
    await mock.script({});
    await gateway.reload(configure(mock, folder, { small: { retries: 1 } }));
    assert.ok((await gateway.metric('key_cooldown_seconds')) > 0);
    const reply = await chat(gateway);
    assert.equal(reply.status, 429);
    assert.equal(reason(reply), 'no_key');
});

/* ---- files that change ---- */

test('a secret is read again when its file changes, and nobody says a word', async (t) => {
    const { gateway, mock, folder } = await world(t);
    const file = path.join(folder, 'provider.key');
    replace(file, `${SECRETS[0]}\n`);
    await gateway.reload(
        configure(mock, folder, { oai: { keys: [{ name: 'k1', secret: `file:${file}` }] } }),
    );
    const running = load(gateway, 4, both(gateway));
    const used = async (secret) =>
        (await mock.seen()).requests.some((one) =>
            one.credentials.some((credential) => credential.sha256 === sha256(secret)),
        );
    await until('the first is used', () => used(SECRETS[0]));
    replace(file, `${SECRETS[1]}\n`);
    await until('the second is used', () => used(SECRETS[1]));
    await gateway.process.said(/a file with a secret, a certificate or rules has changed/);

    /* One that is gone is a mistake: the last one is kept. */
    fs.rmSync(file);
    await kept(gateway);
    await atLeast(running, running.replies.length + 8);
    const replies = await running.stop();
    assert.ok(replies.every((reply) => reply.status === 200 && !reply.cut));
});

function makeCertificate(folder, name) {
    execFileSync(
        'openssl',
        [
            ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'],
            ...['-keyout', path.join(folder, 'new.key'), '-out', path.join(folder, 'new.pem')],
            ...['-days', '2', '-subj', `/CN=${name}`],
        ],
        { stdio: 'ignore' },
    );
    fs.renameSync(path.join(folder, 'new.key'), path.join(folder, 'server.key'));
    fs.renameSync(path.join(folder, 'new.pem'), path.join(folder, 'server.pem'));
}

test('a certificate is renewed while connections live', async (t) => {
    const { gateway, mock, folder } = await world(t, {
        script: { default: { tokens: 20, pace: 20 } },
    });
    makeCertificate(folder, 'first');
    const config = configure(mock, folder);
    config.listen.tls = { cert: 'server.pem', key: 'server.key' };
    await gateway.finish();
    gateway.write(config);
    await gateway.begin();

    const subject = () =>
        new Promise((done, fail) => {
            const socket = tls.connect(
                { port: gateway.port, host: '127.0.0.1', rejectUnauthorized: false },
                () => {
                    done(socket.getPeerCertificate().subject.CN);
                    socket.destroy();
                },
            );
            socket.on('error', fail);
        });
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false });
    t.after(() => agent.destroy());
    const call = () =>
        new Promise((done, fail) => {
            const body = JSON.stringify({
                model: 'small',
                messages: [{ role: 'user', content: 'x' }],
                max_tokens: 20,
                stream: true,
            });
            const request = https.request(
                `https://127.0.0.1:${gateway.port}/v1/chat/completions`,
                {
                    agent,
                    method: 'POST',
                    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
                },
                (response) => {
                    let text = '';
                    response.on('data', (part) => (text += part));
                    response.on('end', () =>
                        done({
                            status: response.statusCode,
                            text,
                            port: request.socket?.localPort ?? port,
                            subject: certificate,
                        }),
                    );
                    response.on('error', fail);
                },
            );
            let port, certificate;
            request.on('socket', (socket) => {
                const look = () => {
                    port = socket.localPort;
                    certificate = socket.getPeerCertificate().subject?.CN;
                };
                if (socket.connecting) socket.once('secureConnect', look);
                else look();
            });
            request.on('error', fail);
            request.end(body);
        });

    assert.equal(await subject(), 'first');
    const running = call();
    await until('it is at the mock', async () => (await mock.seen()).begun === 1);
    makeCertificate(folder, 'second');
    await until('new connections see the new one', async () => (await subject()) === 'second');
    const first = await running;
    const second = await call();
    for (const reply of [first, second]) {
        assert.equal(reply.status, 200);
        assert.equal(events({ body: reply.text }).filter((e) => e.choices[0]?.delta?.content).length, 20);
    }
    assert.equal(second.port, first.port, 'the old connection was good for one more');

    /* Half of a pair is none: the old one is kept until the other half is there. */
    const from = gateway.process.out.length;
    fs.writeFileSync(path.join(folder, 'server.key'), 'not a key');
    await kept(gateway, from);
    assert.equal(await subject(), 'second');
});

/* ---- what goes and comes ---- */

test('tenants, models and providers come and go', async (t) => {
    const { gateway, mock, folder } = await world(t);
    const as = (key, more) =>
        chat(gateway, more, { headers: { authorization: `Bearer ${key}` } });
    assert.equal((await as(OTHER_KEY)).status, 401);
    const two = { name: 'two', keys: [{ name: 'main', sha256: sha256(OTHER_KEY) }] };
    await gateway.reload({
        ...configure(mock, folder, { tenants: [tenant(), two] }),
        aliases: { fast: 'small' },
    });
    assert.equal((await as(OTHER_KEY, { model: 'fast' })).status, 200);
    const config = configure(mock, folder, { tenants: [two] });
    config.models = { medium: { provider: 'fresh', price: {} } };
    config.providers = {
        fresh: { base_url: mock.url, api: 'openai', keys: [{ name: 'n', secret: SECRETS[1] }] },
    };
    await gateway.reload(config);
    assert.equal((await as(KEY)).status, 401);
    assert.equal((await as(OTHER_KEY)).status, 404);
    assert.equal((await as(OTHER_KEY, { model: 'medium' })).status, 200);
    const seen = await mock.requests(2);
    assert.deepEqual(
        seen.map((one) => one.credentials[0].sha256),
        [sha256(SECRETS[0]), sha256(SECRETS[1])],
    );
    await gateway.idle();
    assert.equal((await send(gateway.probe, '/readyz')).status, 200);
});
