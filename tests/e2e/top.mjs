/* top.mjs - `tollgate top` in a pseudo-terminal: what it draws, what keys do, and that the terminal
 * is given back whatever ends it.
 *
 * `script` makes the terminal and passes bytes both ways; Screen below understands the few codes
 * that are used, so that tests look at lines as a person does. The admin listener is made up, since
 * it has to misbehave; dashboard.mjs has the gateway's own.
 */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { until } from './kit.mjs';

const PROGRAM = path.resolve(process.env.TOLLGATE ?? 'build/tollgate');
const TOKEN = 'tg-e2e-token-of-the-made-up-listener';

/* ---- a terminal ---- */

class Screen {
    constructor() {
        this.lines = [''];
        this.row = this.column = 0;
        this.other = false; /* the alternate screen is shown */
        this.cursor = true;
        this.rest = '';
    }

    write(text) {
        this.rest += text;
        for (;;) {
            const code = /^\x1b\[(\??)([0-9;]*)([A-Za-z])/.exec(this.rest);
            if (code) {
                this.obey(code[1] + code[2] + code[3]);
                this.rest = this.rest.slice(code[0].length);
            } else if (this.rest === '' || (this.rest[0] === '\x1b' && this.rest.length < 16)) {
                return;
            } else {
                this.put(this.rest[0]);
                this.rest = this.rest.slice(1);
            }
        }
    }

    obey(code) {
        if (code === 'H') this.row = this.column = 0;
        else if (code === 'K') this.lines[this.row] = this.line().slice(0, this.column);
        else if (code === 'J') this.lines.length = this.row + 1;
        else if (code === '2J') this.lines = [''];
        else if (code === '?1049h' || code === '?1049l') this.other = code.endsWith('h');
        else if (code === '?25h' || code === '?25l') this.cursor = code.endsWith('h');
        else assert.match(code, /^[0-9;]*m$/, 'a code that is none of ours');
    }

    line() {
        return (this.lines[this.row] ??= '');
    }

    put(byte) {
        if (byte === '\r') this.column = 0;
        else if (byte === '\n') this.row++;
        else {
            this.lines[this.row] =
                this.line().padEnd(this.column).slice(0, this.column) +
                byte +
                this.line().slice(this.column + 1);
            this.column++;
        }
    }

    text() {
        return this.lines.map((line) => line ?? '').join('\n');
    }
}

/* Runs top in a terminal of its own; what it leaves behind is printed after it: its status, and how
 * the terminal is set. */
class Terminal {
    constructor(t, args, { rows = 40, columns = 120, env = {} } = {}) {
        this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-top-'));
        const words = (list) => list.map((word) => `'${word}'`).join(' ');
        /* The shell that prints the end lives on when Ctrl-C ends what runs in front of it. */
        fs.writeFileSync(
            path.join(this.folder, 'run'),
            `cd ${this.folder}\ntrap : INT QUIT\ntty >tty\nstty rows ${rows} cols ${columns}\n` +
                `stty -g >before\n` +
                `sh -c 'echo $$ >pid; exec "$@"' run ${words([PROGRAM, 'top', ...args])}\n` +
                `status=$?\nstty -g >after\necho "status $status"\n`,
        );
        this.screen = new Screen();
        this.all = '';
        this.child = spawn('script', ['-qfec', `sh ${this.folder}/run`, '/dev/null'], {
            stdio: ['pipe', 'pipe', 'inherit'],
            env: {
                ...process.env,
                TERM: 'xterm',
                NO_COLOR: '1',
                TOLLGATE_ADMIN_TOKEN: TOKEN,
                ...env,
            },
        });
        this.child.stdout.setEncoding('utf8');
        this.child.stdout.on('data', (text) => {
            this.all += text;
            this.screen.write(text);
        });
        this.ended = new Promise((done) => this.child.on('close', done));
        t.after(async () => {
            this.child.kill('SIGKILL');
            await this.ended;
            fs.rmSync(this.folder, { recursive: true, force: true });
        });
    }

    async shows(pattern) {
        try {
            await until(`${pattern} on the screen`, () => pattern.test(this.screen.text()));
        } catch (error) {
            throw new Error(`${error.message}\n${this.screen.text()}`);
        }
    }

    type(keys) {
        this.child.stdin.write(keys);
    }

    file(name) {
        return fs.readFileSync(path.join(this.folder, name), 'utf8').trim();
    }

    resize(rows, columns) {
        const args = ['-F', this.file('tty'), 'rows', String(rows), 'cols', String(columns)];
        return new Promise((done, fail) =>
            execFile('stty', args, (error) => (error ? fail(error) : done())),
        );
    }

    kill(signal) {
        process.kill(Number(this.file('pid')), signal);
    }

    /* It has ended with this status, and the terminal is as it was. */
    async gaveBack(status) {
        await this.shows(new RegExp(`status ${status}\\b`));
        assert.equal(this.screen.other, false, 'the usual screen is shown');
        assert.equal(this.screen.cursor, true, 'the cursor is shown');
        assert.equal(this.file('after'), this.file('before'), 'the terminal is set as before');
    }
}

/* ---- a made-up listener ---- */

const queued = { high: 0, normal: 2, low: 1 };
const key = (name, more = {}) => ({
    provider: 'demo',
    model: 'small',
    name,
    status: 'ready',
    cooldown_until: null,
    breaker_until: null,
    in_flight: 0,
    rpm: { limit: null, used: null },
    tpm: { limit: null, used: null },
    latency_ms: null,
    ...more,
});

const snapshot = (more = {}) => ({
    version: '9.9.9',
    now: 1000000,
    uptime_ms: 61000,
    ready: true,
    unready_reason: null,
    draining: false,
    config: { generation: 4, hash: '', loaded_at: 0, last_reload: null },
    counters: {
        calls: 70,
        admitted: 60,
        refused: 10,
        retries: 0,
        hangups: 0,
        refused_by_reason: { rate: 10 },
        would_deny_by_reason: {},
    },
    rates: { calls: 7, admitted: 6, refused: 1, refused_by_reason: { rate: 1 } },
    memory: { used_ratio: 0.25, state: 'ok' },
    store: { kind: 'memory', state: 'ok' },
    ledger: null,
    prices: null,
    gates: [{ name: 'all', law: 'none', mode: 'enforce', limit: 64, in_flight: 5, queued }],
    routes: [],
    keys: Array.from({ length: 60 }, (_, i) => key(`k${String(i).padStart(2, '0')}`)),
    budgets: [],
    tenants: [{ name: 'one', calls: 70, refused: 10, calls_per_s: 7, refused_per_s: 1 }],
    tenants_total: 1,
    denials: [
        { at: 999000, tenant: 'one', model: 'small', reason: 'rate', text: 'evil \x1b[2J name' },
    ],
    connections: 3,
    ...more,
});

/* A listener with `answer(request, response)`; by default it gives `listener.snapshot`. */
async function listener(t, answer) {
    const made = { snapshot: snapshot(), asked: 0 };
    made.server = http.createServer((request, response) => {
        made.asked++;
        if (answer) return answer(request, response);
        const good = request.headers.authorization === `Bearer ${TOKEN}`;
        response.writeHead(good ? 200 : 401, { 'content-type': 'application/json' });
        response.end(good ? JSON.stringify(made.snapshot) : '{"error":{"code":"x","message":"y"}}');
    });
    made.open = (port) =>
        new Promise((done) => made.server.listen(port, '127.0.0.1', () => done()));
    made.close = () =>
        new Promise((done) => {
            made.server.close(() => done());
            made.server.closeAllConnections();
        });
    await made.open(0);
    made.port = made.server.address().port;
    made.url = `http://127.0.0.1:${made.port}`;
    t.after(() => made.close());
    return made;
}

/* top without a terminal. */
function once(args, env = {}) {
    return new Promise((done) =>
        execFile(
            PROGRAM,
            ['top', ...args],
            { env: { ...process.env, ...env } },
            (error, out, err) => done({ status: error ? error.code : 0, out, err }),
        ),
    );
}

/* ---- what it shows ---- */

test('it draws the snapshot, follows it, and q gives the terminal back', async (t) => {
    const admin = await listener(t);
    const terminal = new Terminal(t, ['--admin', admin.url, '--interval', '100ms']);
    await terminal.shows(/tollgate 9\.9\.9 .* generation 4 .* ready/);
    await terminal.shows(/calls 7\.0\/s {2}admitted 6\.0\/s {2}refused 1\.0\/s/);
    await terminal.shows(/\(all\) .* 64 +5 +0\/2\/1/);
    await terminal.shows(/one .* rate .* evil \?\[2J name/);
    assert.equal(terminal.screen.other, true);
    assert.equal(terminal.screen.cursor, false);

    admin.snapshot = snapshot({
        keys: [key('k7', { status: 'cooling', cooldown_until: 1004200 }), key('k1')],
        rates: { calls: 11, admitted: 11, refused: 0, refused_by_reason: {} },
    });
    await terminal.shows(/calls 11\.0\/s/);
    await terminal.shows(/k7 .* cooling +4\.2s[^]*k1 .* ready/);
    terminal.type('q');
    await terminal.gaveBack(0);
});

test('it asks for all gateways, or with --gateway or g for one', async (t) => {
    const asked = [];
    const gateway = (name, answer) => ({ name, program: '9.9.9', answer, silent_ms: 0, snapshot: null });
    const admin = await listener(t, (request, response) => {
        asked.push(request.url);
        const fleet = request.url.endsWith('?scope=fleet') && {
            scope: 'fleet',
            complete: false,
            config: { generation: null, hash: null, last_reload: null },
            gateways: [gateway('gw1', 'self'), gateway('gw2', 'late')],
        };
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify(snapshot(fleet || {})));
    });
    const terminal = new Terminal(t, ['--admin', admin.url, '--interval', '100ms']);
    await terminal.shows(/fleet of 2 gateways/);
    await terminal.shows(/1 of 2 gateways answered/);
    terminal.type('6');
    await terminal.shows(/GATEWAY[^]*gw2 +late[^]*gw1 +self/);
    terminal.type('g');
    await terminal.shows(/generation 4/);
    terminal.type('g');
    await terminal.shows(/fleet of 2 gateways/);
    terminal.type('q');
    await terminal.gaveBack(0);
    asked.length = 0;
    const alone = await once(['--admin', admin.url, '--gateway', '--once']);
    assert.match(alone.out, /generation 4/);
    assert.deepEqual(asked, ['/api/v1/snapshot']);
});

test('a number shows one table whole, and it scrolls to its end', async (t) => {
    const admin = await listener(t);
    const terminal = new Terminal(t, ['--admin', admin.url], { rows: 20 });
    await terminal.shows(/KEY \(\d+ of 60\)/);
    assert.doesNotMatch(terminal.screen.text(), /k15/);
    terminal.type('2');
    await terminal.shows(/k00[^]*k11/);
    assert.doesNotMatch(terminal.screen.text(), /TENANT/);
    terminal.type('jjj\x1b[B');
    await terminal.shows(/KEY .*\n +k04|KEY .*\nk04/);
    terminal.type('k\x1b[A');
    await terminal.shows(/KEY .*\nk02/);
    terminal.type('j'.repeat(99));
    await terminal.shows(/k59/);
    terminal.type('0');
    await terminal.shows(/TENANT/);
    terminal.type('q');
    await terminal.gaveBack(0);
});

test('it follows the size of the terminal', async (t) => {
    const admin = await listener(t);
    /* Only the change of size can have it drawn anew. */
    const terminal = new Terminal(t, ['--admin', admin.url, '--interval', '1h']);
    await terminal.shows(/LATENCY/);
    await terminal.resize(12, 50);
    await until('it is narrow', () =>
        terminal.screen.lines.every((line) => (line ?? '').length <= 50),
    );
    assert.ok(terminal.screen.lines.length <= 12, terminal.screen.text());
    await terminal.resize(50, 140);
    await terminal.shows(/k30/);
    terminal.type('q');
    await terminal.gaveBack(0);
});

/* ---- what ends it ---- */

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'])
    test(`${signal} gives the terminal back`, async (t) => {
        const admin = await listener(t);
        const terminal = new Terminal(t, ['--admin', admin.url]);
        await terminal.shows(/generation 4/);
        terminal.kill(signal);
        await terminal.gaveBack(0);
    });

test('Ctrl-C while nobody answers gives the terminal back', async (t) => {
    const admin = await listener(t, () => {});
    const terminal = new Terminal(t, ['--admin', admin.url]);
    await terminal.shows(/asking/);
    await until('it was asked', () => admin.asked > 0);
    terminal.type('\x03');
    await terminal.gaveBack(0);
});

test('Ctrl-Z gives the terminal back, and going on takes it again', async (t) => {
    const admin = await listener(t);
    const terminal = new Terminal(t, ['--admin', admin.url]);
    await terminal.shows(/generation 4/);
    terminal.kill('SIGTSTP');
    await until('the usual screen is shown', () => !terminal.screen.other);
    await until('it is stopped', () =>
        /^State:\s*T/m.test(fs.readFileSync(`/proc/${terminal.file('pid')}/status`, 'utf8')),
    );
    terminal.kill('SIGCONT');
    await until('it has the screen again', () => terminal.screen.other);
    await terminal.shows(/generation 4/);
    terminal.type('q');
    await terminal.gaveBack(0);
});

test('a gateway that goes away is said to be gone, and comes back', async (t) => {
    const admin = await listener(t);
    const terminal = new Terminal(t, ['--admin', admin.url, '--interval', '100ms']);
    await terminal.shows(/generation 4/);
    await admin.close();
    await terminal.shows(/no answer: .*; what is shown is \d+ s old/);
    await terminal.shows(/generation 4/);
    admin.snapshot = snapshot({ config: { generation: 5, last_reload: null } });
    await admin.open(admin.port);
    await terminal.shows(/generation 5/);
    assert.doesNotMatch(terminal.screen.text(), /no answer/);
    terminal.type('q');
    await terminal.gaveBack(0);
});

test('a token that is no longer good ends it', async (t) => {
    let good = true;
    const admin = await listener(t, (_, response) => {
        response.writeHead(good ? 200 : 401, { 'content-type': 'application/json' });
        response.end(good ? JSON.stringify(snapshot()) : '{}');
    });
    const terminal = new Terminal(t, ['--admin', admin.url, '--interval', '100ms']);
    await terminal.shows(/generation 4/);
    good = false;
    await terminal.gaveBack(1);
    assert.match(terminal.all, /the token is missing or wrong \(401\)/);
});

/* ---- without a terminal ---- */

test('without a terminal one snapshot is printed, without escape codes', async (t) => {
    const admin = await listener(t);
    const { status, out, err } = await once(['--admin', admin.url], {
        TOLLGATE_ADMIN_TOKEN: TOKEN,
    });
    assert.equal(status, 0, err);
    assert.match(out, /tollgate 9\.9\.9/);
    assert.match(out, /k59/);
    assert.doesNotMatch(out, /\x1b/);
    assert.equal(admin.asked, 1);
});

test('the token is the first line of a file, and is never said', async (t) => {
    const admin = await listener(t);
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-top-'));
    t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
    const file = path.join(folder, 'token');
    fs.writeFileSync(file, `${TOKEN}\nsecond line\n`);
    const good = await once(['--once', '--admin', admin.url, '--token', file]);
    assert.equal(good.status, 0, good.err);
    fs.writeFileSync(file, 'tg-e2e-some-other-token\n');
    const wrong = await once(['--once', '--admin', admin.url, '--token', file]);
    assert.equal(wrong.status, 1);
    assert.match(wrong.err, /the token is missing or wrong \(401\): give it by --token FILE/);
    assert.doesNotMatch(wrong.err + wrong.out, /some-other-token/);
});

const strangers = {
    'a page': [200, '<html>hello</html>', /not an admin listener of tollgate/],
    'other JSON': [200, '{"status":"ok"}', /not an admin listener of tollgate/],
    'nothing there': [404, 'not found', /status 404: this is not an admin listener of tollgate/],
    'a listener without a token': [
        403,
        '{"error":{"code":"closed","message":"set admin_auth.token"}}',
        /set admin_auth\.token/,
    ],
};
for (const [what, [code, body, said]] of Object.entries(strangers))
    test(`${what} is told apart: exit 1`, async (t) => {
        const admin = await listener(t, (_, response) => response.writeHead(code).end(body));
        const { status, err, out } = await once(['--admin', admin.url]);
        assert.equal(status, 1);
        assert.match(err, said);
        assert.equal(out, '');
    });

test('nobody there: exit 1 and the reason', async (t) => {
    const admin = await listener(t);
    await admin.close();
    const { status, err } = await once(['--admin', admin.url]);
    assert.equal(status, 1);
    assert.match(err, /no answer: .*refused/i);
});

const wrong = [
    [['--admin', 'localhost:9090'], /'localhost:9090' is not a URL/],
    [['--interval', '5'], /--interval is '5'; it takes a time from 100ms to 1h/],
    [['--interval', '2d'], /--interval is '2d'/],
    [['--token', '/nonexistent/token'], /cannot read \/nonexistent\/token/],
    [['--token', '/dev/null'], /\/dev\/null: its first line is not a token/],
    [['here'], /unexpected argument 'here'/],
    [['--twice'], /--twice/],
];
for (const [args, said] of wrong)
    test(`${args.join(' ')}: exit 2`, async () => {
        const { status, err } = await once(args);
        assert.equal(status, 2);
        assert.match(err, said);
    });
