/* dashboard-picture.mjs - takes docs/dashboard.png: the dashboard of examples/demo.yaml under load.
 *
 * usage: node tools/dashboard-picture.mjs [FILE]
 *
 * Starts `tollgate mock`, with latencies like those of a real provider, and `tollgate serve`, sends
 * calls of both tenants for five minutes (SECONDS), so that the charts are full, and takes the
 * picture with the Chromium of the end-to-end tests. TOLLGATE is the program, E2E_MODULES the folder
 * with playwright-core; both default to what the tests use. Run it from the top of the tree.
 */
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const PROGRAM = process.env.TOLLGATE ?? 'build/tollgate';
const MODULES = path.resolve(process.env.E2E_MODULES ?? 'build/e2e');
const SECONDS = Number(process.env.SECONDS ?? 300);
const { chromium } = createRequire(`${MODULES}/package.json`)('playwright-core');

const key = () => `tg-${randomBytes(24).toString('base64url')}`;
const sha256 = (text) => createHash('sha256').update(text).digest('hex');
const research = key();
const website = key();
const token = key();
const secrets = ['sk-mock-first', 'sk-mock-second', 'sk-mock-third'];

/* Starts the program and waits until `stream` of it matches. */
const children = [];
function start(stream, wanted, args, env = {}) {
    const child = spawn(PROGRAM, args, { env: { ...process.env, ...env } });
    children.push(child);
    child.stdout.resume();
    child.stderr.resume();
    return new Promise((done, failed) => {
        let said = '';
        child[stream].on('data', (bytes) => {
            said += bytes;
            const match = said.match(wanted);
            if (match) done(match);
        });
        child.on('exit', () => failed(new Error(`${args[0]} ended: ${said}`)));
    });
}

async function call(gateway, bearer, model) {
    const reply = await fetch(`http://${gateway}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
        body: JSON.stringify({
            model,
            stream: true,
            max_tokens: 400,
            messages: [{ role: 'user', content: 'Summarize the minutes of the last meeting. '.repeat(40) }],
        }),
    });
    await reply.text();
}

try {
    const [, upstream] = await start('stdout', /listening on (\S+)/, [
        'mock', '--port', '0', '--keys', secrets.join(), '--tokens', '60',
        '--latency', 'lognormal(350ms, 0.4)', '--pace', '60',
    ]);
    const [, gateway, admin] = await start(
        'stderr',
        /listening on (\S+) \(gateway\).*, (\S+) \(admin\)/,
        ['serve', '-c', 'examples/demo.yaml'],
        {
            DEMO_UPSTREAM: `http://${upstream}`,
            DEMO_GATEWAY: '127.0.0.1:0',
            DEMO_PROBE: '127.0.0.1:0',
            DEMO_ADMIN: '127.0.0.1:0',
            DEMO_ADMIN_TOKEN: token,
            DEMO_RESEARCH_SHA256: sha256(research),
            DEMO_WEBSITE_SHA256: sha256(website),
            DEMO_KEY_1: secrets[0],
            DEMO_KEY_2: secrets[1],
            DEMO_KEY_3: secrets[2],
        },
    );

    const browser = await chromium.launch({
        executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
        args: ['--no-sandbox'],
    });
    const page = await browser.newPage({ viewport: { width: 1280, height: 958 }, colorScheme: 'light' });
    await page.goto(`http://${admin}/`);
    await page.fill('#token', token);
    await page.keyboard.press('Enter');
    await page.waitForSelector('#state.live');

    /* Waves of calls: at their crests research has more of them open than a peer may have. */
    for (let tick = 0; tick < SECONDS * 10; tick++) {
        const second = tick / 10;
        const rate = 14 + 9 * Math.sin(second / 11) + (second % 67 < 3 ? 70 : 0);
        for (let n = Math.floor((tick + 1) * rate / 10) - Math.floor(tick * rate / 10); n > 0; n--)
            call(gateway, research, Math.random() < 0.3 ? 'demo-large' : 'demo-small').catch(() => {});
        if (tick % 6 === 0) call(gateway, website, 'demo-small').catch(() => {});
        await pause(100);
    }
    await page.screenshot({ path: process.argv[2] ?? 'docs/dashboard.png' });
    await browser.close();
} finally {
    for (const child of children.reverse()) child.kill();
}
