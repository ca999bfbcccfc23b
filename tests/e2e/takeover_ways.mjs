/* takeover_ways.mjs - a takeover as each kind of client meets it: by TLS, by HTTP/2, by gRPC, at the
 * admin listener; and sockets that systemd has opened. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { admission, ask, collect, fixed, metadata, serving, TOKEN } from './grpc_kit.mjs';
import { ADMIN_TOKEN, calls, chat, chatBody, KEY, send, sha256, until, world } from './kit.mjs';

const HEAD = {
    ':method': 'POST',
    ':path': '/v1/chat/completions',
    authorization: `Bearer ${KEY}`,
    'content-type': 'application/json',
};
const SLOW = { rules: [{ when: { stream: true }, do: { tokens: 40, pace: 40 } }] };

async function takeOver(t, gateway) {
    const before = gateway.process;
    t.after(() => before.over || (before.child.kill('SIGKILL'), before.ended));
    gateway.options = ['--takeover'];
    await gateway.begin();
    await until('it has retired', () => before.out.includes('retiring'));
    return before;
}

async function over(old) {
    await old.ended;
    assert.equal(old.code, 0, old.out);
}

function certificate(t) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-takeover-tls-'));
    const [cert, key] = ['cert.pem', 'key.pem'].map((name) => path.join(folder, name));
    t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
    const make =
        'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 ' +
        `-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 -keyout ${key} -out ${cert}`;
    execFileSync('openssl', make.split(' '), { stdio: 'ignore' });
    return { cert, key };
}

/* How many connections wait, or are open, at the local sockets in a folder. */
const waiting = (folder) =>
    fs
        .readFileSync('/proc/net/unix', 'utf8')
        .split('\n')
        .filter((line) => line.includes(folder) && line.includes('relay')).length;

/* One exchange of HTTP/2: {status, fields, body, code}. */
function exchange(session, more = {}) {
    const stream = session.request(HEAD);
    const seen = { status: 0, body: '' };
    stream.on('response', (fields) => Object.assign(seen, { status: fields[':status'], fields }));
    stream.on('data', (bytes) => (seen.body += bytes));
    stream.on('error', (error) => (seen.error = error));
    stream.end(JSON.stringify(chatBody(more)));
    return new Promise((done) => stream.on('close', () => done({ ...seen, code: stream.rstCode })));
}

function session(t, url, options) {
    const made = http2.connect(url, options);
    made.on('error', () => 0);
    made.on('goaway', () => (made.goingAway = true));
    t.after(() => made.destroy());
    return made;
}

/* A call by HTTPS on a connection of an agent. */
const secure = (gateway, agent, more = {}) =>
    new Promise((done, fail) => {
        const body = JSON.stringify(chatBody(more));
        const request = https.request({
            host: '127.0.0.1',
            port: gateway.port,
            path: HEAD[':path'],
            method: 'POST',
            agent,
            headers: {
                authorization: HEAD.authorization,
                'content-type': 'application/json',
                'content-length': Buffer.byteLength(body),
            },
        });
        request.on('error', fail);
        request.on('response', (response) => {
            let text = '';
            response.on('data', (bytes) => (text += bytes));
            response.on('error', fail);
            response.on('end', () => done({ status: response.statusCode, headers: response.headers, text }));
        });
        request.end(body);
    });

test('with TLS: a stream goes on, a kept connection is relayed, new ones meet the new process', async (t) => {
    const { cert, key } = certificate(t);
    const { gateway, mock } = await world(t, { script: SLOW, listen: { tls: { cert, key } } });
    const ca = fs.readFileSync(cert);
    const kept = new https.Agent({ keepAlive: true, maxSockets: 1, ca });
    t.after(() => kept.destroy());
    const fresh = () => new https.Agent({ ca });
    assert.equal((await secure(gateway, kept)).status, 200);
    const stream = secure(gateway, fresh(), { stream: true, max_tokens: 40 });
    await until('it is at the mock', async () => (await mock.seen()).begun === 2);
    const old = await takeOver(t, gateway);
    const late = await secure(gateway, kept);
    assert.equal(late.status, 200);
    assert.equal(late.headers.connection, 'close');
    assert.equal((await secure(gateway, fresh())).status, 200);
    assert.equal(await gateway.metric('calls_total'), 2, 'the new process has served both');
    const streamed = await stream;
    assert.equal(streamed.status, 200);
    assert.match(streamed.text, /\[DONE\]/);
    await over(old);
    assert.equal((await gateway.spent()).calls, 4);
});

for (const [how, secured] of [
    ['HTTP/2', false],
    ['HTTP/2 and TLS', true],
])
    test(`by ${how}: streams of a connection go on, it is told to go away, and what still comes is served`, async (t) => {
        const tls = secured ? certificate(t) : undefined;
        const { gateway, mock } = await world(t, { script: SLOW, listen: tls ? { tls } : {} });
        const url = `${secured ? 'https' : 'http'}://127.0.0.1:${gateway.port}`;
        const options = secured ? { ca: fs.readFileSync(tls.cert) } : {};
        const one = session(t, url, options);
        assert.equal((await exchange(one)).status, 200);
        const streams = calls(5, () => exchange(one, { stream: true, max_tokens: 40 }));
        await until('they are at the mock', async () => (await mock.seen()).begun === 6);
        let going = true;
        const others = calls(3, async () => {
            let n = 0;
            while (going) {
                let mine = session(t, url, options);
                for (let i = 0; i < 3 && !mine.goingAway && !mine.closed; i++, n++) {
                    const reply = await exchange(mine);
                    /* Node had heard of the GOAWAY, and its program not yet: nothing has been sent. */
                    if (reply.code === http2.constants.NGHTTP2_REFUSED_STREAM && mine.goingAway) break;
                    assert.equal(reply.status, 200, `${reply.body} ${reply.error}`);
                }
                mine.close();
            }
            return n;
        });
        const old = await takeOver(t, gateway);
        going = false;
        const n = (await others).reduce((a, b) => a + b);
        for (const reply of await streams) {
            assert.equal(reply.status, 200);
            assert.equal(reply.code, 0);
            assert.match(reply.body, /\[DONE\]/);
        }
        await until('it was told', () => one.goingAway || one.closed);
        await over(old);
        assert.equal((await gateway.spent()).calls, 6 + n);
    });

test('requests of many kept connections at once wait for a new process that is slow to take them', async (t) => {
    const { gateway } = await world(t);
    const agent = new http.Agent({ keepAlive: true, maxSockets: 400 });
    t.after(() => agent.destroy());
    const all = () => calls(400, () => chat(gateway, {}, { agent }));
    for (const reply of await all()) assert.equal(reply.status, 200);
    const old = await takeOver(t, gateway);
    gateway.process.child.kill('SIGSTOP');
    const late = all();
    await until('the old process has read them', () => old.over || waiting(gateway.folder) >= 200);
    gateway.process.child.kill('SIGCONT');
    for (const reply of await late) assert.equal(reply.status, 200, String(reply.body));
    await over(old);
    assert.equal((await gateway.spent()).calls, 800);
});

/* ---- gRPC ---- */

const window = (limit) => ({ strategy: 'fixed_window', limit, window: '1h' });

test('gRPC: Admit goes on over a takeover, no call fails, and no limit is doubled', async (t) => {
    const { gateway, address } = await serving(t, {
        top: { gate: fixed(100) },
        tenants: [
            { name: 'a', keys: [{ name: 'main', sha256: sha256(KEY) }], rate: window(150) },
        ],
    });
    let going = true,
        admitted = 0;
    const callers = calls(4, async () => {
        const client = admission(t, address);
        while (going) {
            const reply = await ask(client, 'Admit', { tenant: 'a' });
            if (!reply.allowed) {
                assert.equal(reply.reason, 'rate');
                continue;
            }
            admitted++;
            await ask(client, 'Release', { lease_id: reply.lease_id });
        }
    });
    const old = [];
    for (let i = 0; i < 3; i++) {
        await until('more were admitted', () => admitted > 20 * (i + 1));
        old.push(await takeOver(t, gateway));
    }
    await until('all were admitted', () => admitted >= 150);
    going = false;
    await callers;
    for (const process of old) await over(process);
    assert.equal(admitted, 150);
    await gateway.idle();
});

test('gRPC: an open AdmitStream is told to end, and the next one is served by the new process', async (t) => {
    const { gateway, address } = await serving(t);
    const client = admission(t, address);
    const stream = collect(client.AdmitStream(metadata(TOKEN)));
    stream.call.write({ id: 1, admit: { tenant: 'a' } });
    await until('it is answered', () => stream.got.length === 1);
    const old = await takeOver(t, gateway);
    const { code } = await stream.ended;
    assert.ok(code === 0 || code === 14, `OK or UNAVAILABLE, not ${code}`);
    const next = collect(client.AdmitStream(metadata(TOKEN)));
    next.call.write({ id: 7, admit: { tenant: 'a' } });
    await until('it is answered', () => next.got.length === 1);
    next.call.end();
    await next.ended;
    await over(old);
});

/* ---- the admin listener ---- */

test('the admin listener is taken over: a watch ends, the next one hears, the dashboard answers', async (t) => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-takeover-admin-'));
    t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
    const token = path.join(folder, 'admin.token');
    fs.writeFileSync(token, `${ADMIN_TOKEN}\n`, { mode: 0o600 });
    const { gateway } = await world(t, {
        listen: { admin: '127.0.0.1:0' },
        tenant: { rate: window(1) },
        top: { admin_auth: { token: `file:${token}` } },
    });
    const url = `http://127.0.0.1:${/127\.0\.0\.1:(\d+) \(admin\)/.exec(gateway.process.out)[1]}`;
    const as = { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } };
    const watch = () => {
        const watching = { text: '' };
        const request = send(url, '/api/v1/watch', undefined, {
            ...as,
            onData: (bytes) => (watching.text = String(bytes)),
        });
        watching.ended = request.catch(() => 'cut');
        watching.end = () => request.request.destroy();
        return watching;
    };
    const first = watch();
    await until('it is open', () => first.text.includes('event: hello'));
    assert.equal((await chat(gateway)).status, 200);
    const old = await takeOver(t, gateway);
    await first.ended;
    const second = watch();
    await until('it is open', () => second.text.includes('event: hello'));
    assert.equal((await chat(gateway)).status, 429);
    await until('it is told', () => second.text.includes('event: denial'));
    second.end();
    await second.ended;
    assert.equal((await send(url, '/')).status, 200);
    assert.equal((await send(url, '/api/v1/snapshot', undefined, as)).status, 200);
    await over(old);
});

/* ---- sockets of systemd ---- */

/* Opens sockets and keeps them, as systemd does, and starts the program at each line of its input. */
const MANAGER = `
import os, socket, sys
made = []
for name in sys.argv[1].split(':'):
    made.append(socket.create_server(('127.0.0.1', 0), backlog=128))
print(*[one.getsockname()[1] for one in made], flush=True)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        high = [os.dup2(one.fileno(), 100 + i) for i, one in enumerate(made)]
        for i, fd in enumerate(high):
            os.dup2(fd, 3 + i, inheritable=True)
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(made)), LISTEN_FDNAMES=sys.argv[1])
        os.execv(sys.argv[2], sys.argv[2:])
    print('pid', pid, flush=True)
`;

test('sockets of systemd: who connects while nobody runs waits, over a crash and a takeover', async (t) => {
    const { gateway, config } = await world(t, { script: SLOW });
    await gateway.finish();
    const program = path.resolve(process.env.TOLLGATE ?? 'build/tollgate');
    const more = process.env.E2E_SERVE?.split(' ') ?? [];
    const manager = spawn(
        'python3',
        ['-c', MANAGER, 'gateway:probe', program, 'serve', '-c', gateway.file, '--takeover', ...more],
        { stdio: ['pipe', 'pipe', 'pipe'] },
    );
    let out = '';
    manager.stdout.on('data', (bytes) => (out += bytes));
    manager.stderr.on('data', (bytes) => (out += bytes));
    const pids = () => [...out.matchAll(/^pid (\d+)$/gm)].map((match) => Number(match[1]));
    const alive = (pid) => fs.existsSync(`/proc/${pid}/exe`);
    t.after(() => {
        for (const pid of pids()) if (alive(pid)) process.kill(pid, 'SIGKILL');
        manager.kill('SIGKILL');
    });
    const start = async () => {
        const n = pids().length;
        manager.stdin.write('start\n');
        await until('it has a number', () => pids().length > n);
        return pids().at(-1);
    };
    await until('the sockets are open', () => /^\d+ \d+$/m.test(out));
    const [port, probe] = /^(\d+) (\d+)$/m.exec(out).slice(1);
    const at = { url: `http://127.0.0.1:${port}` };
    gateway.probe = `http://127.0.0.1:${probe}`;
    config.listen = { gateway: `127.0.0.1:${port}`, probe: `127.0.0.1:${probe}` };
    gateway.write(config);

    const early = chat(at); /* nobody runs yet */
    const first = await start();
    assert.equal((await early).status, 200);
    process.kill(first, 'SIGKILL');
    await until('it is dead', () => !alive(first));
    const between = chat(at);
    const second = await start();
    assert.equal((await between).status, 200);
    const stream = chat(at, { stream: true, max_tokens: 40 });
    await until('it runs', async () => (await gateway.metric('open_calls')) === 1);
    await start();
    await until('it has taken over', () => /serves in the place of process/.test(out));
    assert.equal((await chat(at)).status, 200);
    assert.equal((await stream).status, 200);
    await until('the one before has ended', () => !alive(second));
    assert.equal((await chat(at)).status, 200);
    process.kill(pids().at(-1), 'SIGTERM');
    await until('all have ended', () => pids().every((pid) => !alive(pid)));
    const { total } = await gateway.spend();
    assert.equal(total.calls, 5, out);
});
