/* admin_tls.mjs - the admin listener over TLS: dashboard and API, client certificates, renewal, `tollgate top`. */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import test from 'node:test';
import tls from 'node:tls';
import { ADMIN_TOKEN, chat, fails, json, replace, send, until, world } from './kit.mjs';

const PROGRAM = path.resolve(process.env.TOLLGATE ?? 'build/tollgate');
const AUTH = { authorization: `Bearer ${ADMIN_TOKEN}` };

/* ---- certificates ---- */

const openssl = (...args) => execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });

/* FOLDER/NAME.pem and .key: an authority. */
function authority(folder, name) {
    const at = path.join(folder, name);
    openssl(
        ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
        ...['-keyout', `${at}.key`, '-out', `${at}.pem`, '-days', '2', '-subj', `/CN=${name}`],
    );
}

/* One that it has signed, for 127.0.0.1; each file is replaced at once. */
function signed(folder, name, by, subject = name) {
    const at = (file) => path.join(folder, file);
    fs.writeFileSync(at('names'), 'subjectAltName=IP:127.0.0.1\n');
    openssl(
        ...['req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
        ...['-keyout', at('new.key'), '-out', at('new.csr'), '-subj', `/CN=${subject}`],
    );
    openssl(
        ...['x509', '-req', '-in', at('new.csr'), '-CA', at(`${by}.pem`), '-CAkey', at(`${by}.key`)],
        ...['-CAcreateserial', '-days', '2', '-extfile', at('names'), '-out', at('new.pem')],
    );
    fs.renameSync(at('new.key'), at(`${name}.key`));
    fs.renameSync(at('new.pem'), at(`${name}.pem`));
}

/* A gateway whose admin listener has a certificate, and how to reach it. */
async function guarded(t, more = {}) {
    const { gateway, folder, config } = await world(t, {
        listen: { admin: '127.0.0.1:0' },
        top: { admin_auth: { token: ADMIN_TOKEN } },
    });
    const file = (name) => path.join(folder, name);
    authority(folder, 'ca');
    authority(folder, 'operators');
    authority(folder, 'strangers');
    signed(folder, 'server', 'ca', 'first');
    signed(folder, 'operator', 'operators');
    signed(folder, 'stranger', 'strangers');
    config.listen.admin_tls = { cert: file('server.pem'), key: file('server.key'), ...more };
    if (more.client_ca) config.listen.admin_tls.client_ca = file(more.client_ca);
    await gateway.finish();
    gateway.write(config);
    await gateway.begin();
    const port = Number((await gateway.process.said(/127\.0\.0\.1:(\d+) \(admin\)/))[1]);
    const ca = fs.readFileSync(file('ca.pem'));
    const shows = (name) => ({ cert: fs.readFileSync(file(`${name}.pem`)), key: fs.readFileSync(file(`${name}.key`)) });
    return { gateway, folder, config, file, port, ca, shows, url: `https://127.0.0.1:${port}` };
}

/* A request over HTTP/1.1: {status, headers, body}. */
const get = (at, target, { headers = AUTH, agent = false, ...options } = {}) =>
    new Promise((done, fail) => {
        const request = https.get(
            `${at.url}${target}`,
            { ca: at.ca, headers, agent, ALPNProtocols: ['http/1.1'], ...options },
            (response) => {
                const parts = [];
                response.on('data', (part) => parts.push(part));
                response.on('error', fail);
                response.on('end', () =>
                    done({ status: response.statusCode, headers: response.headers, body: Buffer.concat(parts) }),
                );
            },
        );
        request.on('error', fail);
    });

/* The name in the certificate that a new connection is shown. */
const shown = (at) =>
    new Promise((done, fail) => {
        const socket = tls.connect({ port: at.port, host: '127.0.0.1', ca: at.ca }, () => {
            done(socket.getPeerCertificate().subject.CN);
            socket.destroy();
        });
        socket.on('error', fail);
    });

const top = (at, ...more) =>
    new Promise((done) =>
        execFile(
            PROGRAM,
            ['top', '--once', '--admin', at.url, ...more],
            { env: { ...process.env, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN } },
            (error, out, err) => done({ code: error ? error.code : 0, out, err }),
        ),
    );

/* ---- the listener ---- */

test('admin_tls: dashboard, API and top over TLS, for those who trust its certificate', async (t) => {
    const at = await guarded(t);
    assert.equal((await chat(at.gateway)).status, 200); /* that of clients is plain still */
    const page = await get(at, '/', { headers: {} });
    assert.equal(page.status, 200);
    assert.match(page.headers['content-type'], /^text\/html/);
    for (const [, file] of String(page.body).matchAll(/(?:src|href)="\/?([\w.]+\.(?:js|css|svg))"/g))
        assert.equal((await get(at, `/${file}`, { headers: {} })).status, 200, file);
    assert.equal(json(await get(at, '/api/v1/snapshot')).counters.calls, 1);
    assert.equal((await get(at, '/api/v1/snapshot', { headers: {} })).status, 401);
    assert.match(String((await get(at, '/metrics')).body), /tollgate_cert_expiry_seconds\{cert="[^"]*server\.pem"\} 17\d{4}/);
    assert.equal((await send(at.gateway.probe, '/healthz')).status, 200); /* the probe, too */

    /* As browsers ask. */
    const asked = await get(at, '/api/v1/explain?tenant=one&model=small', { ALPNProtocols: ['h2', 'http/1.1'] });
    assert.equal(json(asked).admitted, true);

    assert.match((await fails(get(at, '/', { ca: fs.readFileSync(at.file('strangers.pem')) }))).message, /certificate/);
    const plain = await send(`http://127.0.0.1:${at.port}`, '/');
    assert.equal(plain.status, 400);
    assert.match(json(plain).error.message, /use https/);
    const seen = await top(at, '--ca', at.file('ca.pem'));
    assert.equal(seen.code, 0, seen.err);
    assert.match(seen.out, /calls/);
    assert.equal((await top(at, '--ca', at.file('strangers.pem'))).code, 1);
    assert.equal((await top(at, '--cert', at.file('operator.pem'))).code, 2);
});

test('admin_tls: events come as they happen', async (t) => {
    const at = await guarded(t);
    const request = https.get(`${at.url}/api/v1/watch`, { ca: at.ca, headers: AUTH, agent: false });
    t.after(() => request.destroy());
    let text = '';
    request.on('response', (response) => response.on('data', (part) => (text += part)));
    request.on('error', () => {});
    await until('a refusal is told', async () => {
        await chat(at.gateway, { model: 'none-of-this-name' });
        await chat(at.gateway, { max_tokens: 4096, messages: [{ role: 'user', content: 'a'.repeat(1000) }] });
        return /event: /.test(text);
    });
});

test('admin_tls: with client_ca only those with its certificate come in, and need the token', async (t) => {
    const at = await guarded(t, { client_ca: 'operators.pem' });
    await fails(get(at, '/healthz'));
    await fails(get(at, '/healthz', at.shows('stranger')));
    assert.equal((await get(at, '/healthz', { headers: {}, ...at.shows('operator') })).status, 200);
    assert.equal((await get(at, '/api/v1/snapshot', { headers: {}, ...at.shows('operator') })).status, 401);
    assert.equal((await get(at, '/api/v1/snapshot', at.shows('operator'))).status, 200);
    const ca = ['--ca', at.file('ca.pem')];
    const pair = (name) => ['--cert', at.file(`${name}.pem`), '--key', at.file(`${name}.key`)];
    assert.equal((await top(at, ...ca)).code, 1);
    assert.equal((await top(at, ...ca, ...pair('stranger'))).code, 1);
    const seen = await top(at, ...ca, ...pair('operator'));
    assert.equal(seen.code, 0, seen.err);
});

test('admin_tls: a certificate is renewed while connections live, and a wrong one changes nothing', async (t) => {
    const at = await guarded(t);
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1, ca: at.ca });
    t.after(() => agent.destroy());
    const kept = () => get(at, '/api/v1/snapshot', { agent });
    assert.equal((await kept()).status, 200);
    const [socket] = Object.values(agent.freeSockets)[0];
    assert.equal(await shown(at), 'first');
    /* Whoever replaces the files sends no signal. */
    signed(at.folder, 'server', 'ca', 'second');
    await until('the new one is shown', async () => (await shown(at)) === 'second');
    assert.equal((await kept()).status, 200);
    assert.equal(Object.values(agent.freeSockets)[0][0], socket, 'the connection lives');
    /* A key that does not belong to the certificate. */
    const failed = await at.gateway.metric('config_reloads_total', 'result="failed"');
    replace(at.file('server.key'), fs.readFileSync(at.file('operator.key'), 'utf8'));
    await until('it is refused', async () => (await at.gateway.metric('config_reloads_total', 'result="failed"')) > failed);
    assert.equal(await shown(at), 'second');
    assert.equal((await kept()).status, 200);
    signed(at.folder, 'server', 'ca', 'third');
    await until('the next one is shown', async () => (await shown(at)) === 'third');
});

test('admin_tls: to turn it on or off takes a restart, which a reload says', async (t) => {
    const at = await guarded(t);
    const { admin_tls, ...listen } = at.config.listen;
    at.gateway.write({ ...at.config, listen });
    const reply = await new Promise((done, fail) => {
        const request = https.request(
            `${at.url}/api/v1/reload`,
            { ca: at.ca, method: 'POST', headers: AUTH, agent: false },
            (response) => {
                let text = '';
                response.on('data', (part) => (text += part));
                response.on('end', () => done(JSON.parse(text)));
            },
        );
        request.on('error', fail);
        request.end();
    });
    assert.deepEqual(reply.restart_needed, ['listen.admin_tls']);
    assert.equal(await shown(at), 'first');
    assert.ok(admin_tls.cert);
});
