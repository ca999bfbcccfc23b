/* dashboard.mjs - the dashboard in Chromium, in front of a gateway that works.
 *
 * The browser is Debian's, driven by playwright-core. One of it serves all tests; each has a gateway
 * and a page of its own, on which nothing may fail that the test did not ask for: no script error,
 * nothing that the policy of contents refuses, no request to another host. Pictures of what was seen
 * stay in build/artefacts.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { gatewaysOn } from './fleet_kit.mjs';
import {
    ADMIN_TOKEN,
    chat,
    configure,
    Gateway,
    KEY,
    keys,
    Mock,
    need,
    OTHER_KEY,
    pause,
    PRICE,
    reason,
    SECRETS,
    sha256,
    tenant,
    until,
} from './kit.mjs';
import { Redis } from './redis_kit.mjs';

const { chromium } = need('playwright-core');
const PROGRAM = path.resolve(process.env.TOLLGATE ?? 'build/tollgate');
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const PICTURES = path.join(path.resolve(process.env.E2E_MODULES ?? 'build/e2e'), '../artefacts');
const PATIENCE_MS = 20000;

/* A name that would be a script, if it were put in as anything but text. */
const EVIL = '<img src=x onerror="window.evil=1">';

/* ---- worlds ---- */

let browser;
test.before(async () => {
    fs.mkdirSync(PICTURES, { recursive: true });
    /* As root it has no sandbox; it opens nothing but our own page. */
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
});
test.after(() => browser?.close());

const tenants = [
    tenant(),
    tenant({
        name: EVIL,
        keys: [{ name: 'main', sha256: sha256(OTHER_KEY) }],
        rate: { strategy: 'gcra', limit: 2, period: '1h', burst: 2 },
    }),
];

async function gatewayWithAdmin(t, change = {}) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-e2e-'));
    const mock = await Mock.start(change.script ?? {}, ['--keys', SECRETS.join(',')]);
    const pages = []; /* contexts of this world; they end before the gateway does */
    let gateway;
    t.after(async () => {
        try {
            for (const page of pages) await page.end();
            await gateway?.finish();
        } finally {
            await mock.stop();
            fs.rmSync(folder, { recursive: true, force: true });
        }
    });
    const config = configure(mock, folder, {
        oai: { keys: keys(2, { rpm: 100000, tpm: 100000000 }) },
        small: { price: PRICE, retries: 1 },
        tenants: change.tenants ?? tenants,
        top: { admin_auth: { token: ADMIN_TOKEN } },
    });
    config.listen.admin = '127.0.0.1:0';
    gateway = await Gateway.start(config, folder);
    const port = Number((await gateway.process.said(/127\.0\.0\.1:(\d+) \(admin\)/))[1]);
    return { mock, gateway, config, port, admin: { url: `http://127.0.0.1:${port}`, pages } };
}

/* Calls one after the other, by a few clients, until it is told to stop. */
function load(gateway, clients = 3) {
    const running = { stopped: false, calls: 0 };
    const client = async () => {
        while (!running.stopped) {
            await chat(gateway, {});
            running.calls++;
            await pause(20);
        }
    };
    const all = Promise.all(Array.from({ length: clients }, client));
    running.stop = () => {
        running.stopped = true;
        return all;
    };
    return running;
}

/* A page that watches itself. `allow`: what may be said on its console. */
async function open(admin, options = {}) {
    const context = await browser.newContext({
        viewport: { width: 1280, height: 900 },
        ...options,
    });
    const page = await context.newPage();
    const wrong = [];
    page.allow = /^$/;
    page.setDefaultTimeout(PATIENCE_MS);
    page.on('pageerror', (error) => wrong.push(`error: ${error.message}`));
    page.on('console', (said) => {
        if (['error', 'warning'].includes(said.type()) && !page.allow.test(said.text()))
            wrong.push(`${said.type()}: ${said.text()}`);
    });
    page.on('request', (request) => {
        if (!request.url().startsWith(`${admin.url}/`)) wrong.push(`asked ${request.url()}`);
    });
    page.end = async () => {
        await context.close();
        assert.deepEqual(wrong, []);
    };
    admin.pages.push(page);
    await page.goto(`${admin.url}/`);
    return page;
}

async function signIn(page, token = ADMIN_TOKEN) {
    await page.fill('#token', token);
    await page.keyboard.press('Enter');
}

const live = (page) => page.waitForSelector('#state.live');
const picture = (page, name) => page.screenshot({ path: path.join(PICTURES, `${name}.png`) });
const number = async (page, selector) =>
    Number((await page.textContent(selector)).replace(/[^\d.]/g, ''));

/* Words of the table of limits that are on two lines; paths, in the last column, may be. */
const brokenWords = (page) =>
    page.evaluate(() => {
        const broken = [];
        for (const cell of document.querySelectorAll('#limits th, #limits td:not(:last-child)')) {
            const text = [...cell.childNodes].find(({ nodeType }) => nodeType === Node.TEXT_NODE);
            if (!text || !cell.checkVisibility()) continue;
            for (const match of text.data.matchAll(/[A-Za-z]+/g)) {
                const range = document.createRange();
                range.setStart(text, match.index);
                range.setEnd(text, match.index + match[0].length);
                const lines = new Set([...range.getClientRects()].map(({ top }) => top));
                if (lines.size > 1) broken.push(match[0]);
            }
        }
        return broken;
    });

/* ---- what it shows ---- */

test('numbers move with the load', async (t) => {
    const { gateway, admin } = await gatewayWithAdmin(t);
    const page = await open(admin);
    await signIn(page);
    await live(page);
    assert.equal(await number(page, '#rate-calls'), 0);

    const running = load(gateway);
    t.after(() => running.stop());
    await until('calls a second', async () => (await number(page, '#rate-calls')) > 1);
    const before = await number(page, '#total-admitted');
    await until('more were admitted', async () => (await number(page, '#total-admitted')) > before);
    await until('the tenant is there', async () =>
        /^one/.test(await page.textContent('#tenants tbody')),
    );
    const said = await page.getAttribute('#chart-rates', 'aria-label');
    assert.match(said, /now [\d.]+ admitted, 0 refused/);
    assert.match(await page.textContent('#budgets tbody'), /one/);
    assert.match(await page.textContent('#health'), /ready/);
    await picture(page, 'dashboard-load');
    await running.stop();
    await until('it is quiet again', async () => (await number(page, '#rate-calls')) === 0);
});

test('a refused call is there with its reason, and its explanation names what binds', async (t) => {
    const { gateway, admin } = await gatewayWithAdmin(t);
    const page = await open(admin);
    await signIn(page);
    await live(page);
    const headers = { authorization: `Bearer ${OTHER_KEY}` };
    let refused;
    while (!refused) {
        const reply = await chat(gateway, {}, { headers });
        if (reply.status !== 200) refused = reply;
    }
    assert.equal(reason(refused), 'rate');

    const row = page.locator('#denials tbody tr').first();
    await row.waitFor();
    const cells = await row.locator('td').allTextContents();
    assert.equal(cells[1], EVIL);
    assert.equal(cells[2], 'small');
    assert.equal(cells[3], 'rate');
    assert.notEqual(cells[4], '');
    await page.locator('#reasons tbody tr', { hasText: 'rate' }).waitFor();

    await row.locator('button').focus();
    await page.keyboard.press('Enter');
    const binding = page.locator('#limits tr.binding');
    await binding.waitFor();
    const limit = await binding.locator('td').allTextContents();
    assert.equal(limit[0], 'rate');
    assert.ok(limit[1].includes(EVIL), limit[1]);
    assert.match(limit[5], /^no/);
    assert.match(await page.textContent('#explain-then'), /by rate \(binding axis: rate\)/);
    assert.match(await page.textContent('#explain-now'), /would be refused now/);
    await picture(page, 'dashboard-explain');
    await page.keyboard.press('Escape');
    await page.locator('#explain').waitFor({ state: 'hidden' });
    const focused = () => page.evaluate(() => document.activeElement.textContent);
    await until('the focus is back', async () => (await focused()) === 'Explain');
    assert.equal(await page.evaluate(() => globalThis.evil), undefined, 'a name became markup');

    await page.keyboard.press('Enter');
    await binding.waitFor();
    for (const width of [400, 800, 1440])
        for (const colorScheme of ['light', 'dark']) {
            await page.setViewportSize({ width, height: 900 });
            await page.emulateMedia({ colorScheme });
            await picture(page, `dashboard-explain-${width}-${colorScheme}`);
            assert.deepEqual(await brokenWords(page), [], `words are broken at ${width} px`);
            const box = await page.locator('#explain').boundingBox();
            assert.ok(box.x >= 0 && box.x + box.width <= width, JSON.stringify(box));
        }
    assert.match(await page.textContent('#legend-rates'), /admitted/);
});

test("a refusal by a user's limit is explained with that user, and the size of its call", async (t) => {
    const { gateway, admin } = await gatewayWithAdmin(t, {
        tenants: [tenant({ users: { from: 'header:x-user', each: { rpd: 1 } } })],
    });
    const page = await open(admin);
    await signIn(page);
    await live(page);
    const asked = [];
    page.on('request', (request) => {
        const url = new URL(request.url());
        if (url.pathname === '/api/v1/explain') asked.push(url.searchParams);
    });
    const headers = { authorization: `Bearer ${KEY}`, 'x-user': 'ann' };
    assert.equal((await chat(gateway, {}, { headers })).status, 200);
    assert.equal(reason(await chat(gateway, {}, { headers })), 'rate');
    const row = page.locator('#denials tbody tr').first();
    await row.waitFor();
    await row.locator('button').click();
    const binding = page.locator('#limits tr.binding');
    await binding.waitFor();
    assert.equal((await binding.locator('td').allTextContents())[1], 'user ann');
    assert.match(await page.textContent('#explain-now'), /would be refused now/);
    assert.equal(asked.length, 1);
    assert.equal(asked[0].get('tenant'), 'one');
    assert.equal(asked[0].get('user'), 'ann');
    assert.equal(asked[0].get('max_tokens'), '16');
    assert.ok(Number(asked[0].get('prompt_bytes')) > 0);
});

test('denials come by the stream as well, the moment they are made', async (t) => {
    const { gateway, admin } = await gatewayWithAdmin(t);
    const page = await open(admin);
    const watching = page.waitForResponse((reply) => reply.url().endsWith('/api/v1/watch'));
    await signIn(page);
    await live(page);
    assert.equal((await watching).status(), 200);
    /* No snapshot can bring it now. */
    page.allow = /ERR_FAILED/;
    await page.route('**/api/v1/snapshot*', (route) => route.abort());
    await page.waitForSelector('#state.lost');
    const headers = { authorization: `Bearer ${OTHER_KEY}` };
    while ((await chat(gateway, {}, { headers })).status === 200);
    await page.locator('#denials tbody tr', { hasText: 'rate' }).waitFor();
});

test('a key is followed into its cooldown and back', async (t) => {
    const { gateway, mock, admin } = await gatewayWithAdmin(t);
    const page = await open(admin);
    await signIn(page);
    await live(page);
    const running = load(gateway);
    t.after(() => running.stop());
    const k1 = page.locator('#keys tbody tr').filter({ has: page.locator('td:text-is("k1")') });
    const status = k1.filter({ hasText: 'small' }).locator('td').nth(3);
    await until('it is ready', async () => /^ready/.test(await status.textContent()));

    await mock.script({
        rules: [{ when: { key: SECRETS[0] }, do: { status: 429, retry_after: 4 } }],
    });
    const seconds = async () =>
        Number(/^cooling (\d+\.\d) s$/.exec((await status.textContent()).trim())?.[1]);
    await until('it is cooling', async () => (await seconds()) > 0);
    await picture(page, 'dashboard-cooling');
    const first = await seconds();
    await until('the wait gets shorter', async () => (await seconds()) < first);
    await mock.script({});
    await until('it is ready again', async () => /^ready/.test(await status.textContent()));
    await running.stop();
});

test('of several gateways all are shown as one, or the one that serves the page', async (t) => {
    const redis = await Redis.start(t);
    const { gateways } = await gatewaysOn(t, 2, redis, {
        tiers: true,
        tenant: { budgets: [{ usd: 1, per: 'total' }] },
    });
    for (const gateway of gateways) assert.equal((await chat(gateway)).status, 200);
    for (const gateway of gateways) await gateway.idle();
    const page = await open({ url: gateways[0].admin, pages: [] });
    await signIn(page);
    await live(page);
    const rows = page.locator('#gateways tbody tr');
    await until('both have answered', async () => {
        const answers = await rows.locator('td:nth-child(2)').allTextContents();
        return answers.sort().join() === 'answered,self';
    });
    await until('both calls are there', async () => (await number(page, '#total-calls')) === 2);
    const budget = page.locator('#budgets tbody tr', { hasText: 'one' }).locator('td');
    await until('what is left for all', async () => /^\$(1\.00|0\.9)/.test((await budget.allTextContents())[6]));
    await picture(page, 'dashboard-fleet');
    await page.selectOption('#scope', 'gateway');
    await until('its own call alone', async () => (await number(page, '#total-calls')) === 1);
    await page.locator('#fleet').waitFor({ state: 'hidden' });
    await page.selectOption('#scope', 'fleet');
    await until('both again', async () => (await number(page, '#total-calls')) === 2);

    await gateways[1].stop('SIGKILL');
    await until('one is missing', async () => /late|silent/.test((await rows.allTextContents()).join()));
    assert.match(await page.textContent('#fleet-missing'), /1 of 2 gateways answered/);
    await redis.kill();
    await until('the store is away', async () => /the store is away/.test(await page.textContent('#fleet-missing')));
    for (const width of [400, 1440]) {
        await page.setViewportSize({ width, height: 900 });
        await picture(page, `dashboard-fleet-${width}`);
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false);
    }
    await page.end(); /* before its gateway does */
});

/* In a terminal of its own; top.mjs has the rest. */
test('tollgate top shows the same gateway: its calls, the refused one and the key', async (t) => {
    const { gateway, mock, admin } = await gatewayWithAdmin(t);
    const headers = { authorization: `Bearer ${OTHER_KEY}` };
    while ((await chat(gateway, {}, { headers })).status === 200);
    const top = spawn(
        'script',
        [
            '-qfec',
            `stty rows 60 cols 160; '${PROGRAM}' top --admin ${admin.url} --interval 100ms; echo end $?`,
            '/dev/null',
        ],
        { env: { ...process.env, TERM: 'xterm', NO_COLOR: '1', TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN } },
    );
    t.after(() => top.kill('SIGKILL'));
    let frame = ''; /* the last one that is whole */
    let bytes = '';
    top.stdout.on('data', (data) => {
        bytes += data;
        const frames = bytes.split('\x1b[H');
        if (frames.length > 2) frame = frames.at(-2);
    });
    const shows = (what, pattern) => until(what, () => pattern.test(frame));
    await shows('the refusal', /<img src=x o.* small .* rate limit of tenant .*, 0 left, next in /);
    await shows('its count', /refused by {2}rate 1 /);
    const running = load(gateway);
    t.after(() => running.stop());
    await shows('the load', /calls [1-9]\d*\.\d\/s/);
    await mock.script({
        rules: [{ when: { key: SECRETS[0] }, do: { status: 429, retry_after: 2 } }],
    });
    await shows('the cooldown', /k1 +oai +small +cooling +\d\.\ds/);
    await mock.script({});
    await shows('its end', /k1 +oai +small +ready/);
    await running.stop();
    top.stdin.write('q');
    await until('it has ended', () => /end 0/.test(bytes));
});

/* ---- who may look ---- */

test('a wrong token is told, the right one opens, and it stays in this tab alone', async (t) => {
    const { admin } = await gatewayWithAdmin(t);
    const page = await open(admin);
    page.allow = /status of 401/;
    assert.equal(await page.evaluate(() => document.activeElement.id), 'token');
    await signIn(page, 'tg-e2e-no-token-at-all');
    await page.waitForSelector('#sign-in-trouble:not([hidden])');
    assert.match(await page.textContent('#sign-in-trouble'), /not the token/);
    page.allow = /^$/;
    await signIn(page);
    await live(page);

    const kept = await page.evaluate(() => ({
        local: JSON.stringify(localStorage),
        session: JSON.stringify(sessionStorage),
        cookies: document.cookie,
        address: location.href,
    }));
    assert.ok(kept.session.includes(ADMIN_TOKEN));
    assert.ok(!(kept.local + kept.cookies + kept.address).includes(ADMIN_TOKEN));
    await page.reload();
    await live(page);
    await page.click('#forget');
    await page.waitForSelector('#sign-in:not([hidden])');
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
});

test('files carry a policy without exceptions, and are not sent twice', async (t) => {
    const { admin } = await gatewayWithAdmin(t);
    for (const name of ['', 'app.js', 'style.css', 'chart.js']) {
        const reply = await fetch(`${admin.url}/${name}`);
        assert.equal(reply.status, 200);
        const policy = reply.headers.get('content-security-policy');
        assert.match(policy, /default-src 'self'/);
        assert.doesNotMatch(policy, /unsafe|\*|data:|https?:/);
        await reply.arrayBuffer();
        const again = await fetch(`${admin.url}/${name}`, {
            headers: { 'if-none-match': reply.headers.get('etag') },
        });
        assert.equal(again.status, 304);
    }
});

/* ---- what happens to the gateway ---- */

test('a gateway that is gone is said to be, and found again', async (t) => {
    const { gateway, admin, port, config } = await gatewayWithAdmin(t);
    const page = await open(admin);
    await signIn(page);
    await live(page);
    page.allow = /ERR_|Failed to (load|fetch)/;
    await gateway.stop();
    await page.waitForSelector('#state.lost');
    assert.match(await page.textContent('#trouble'), /does not answer/);
    await picture(page, 'dashboard-gone');

    fs.writeFileSync(
        gateway.file,
        JSON.stringify({ ...config, listen: { ...config.listen, admin: `127.0.0.1:${port}` } }),
    );
    await gateway.begin();
    await live(page);
    assert.equal(await page.isVisible('#trouble'), false);
});

test('a reload is seen, and one that failed is said', async (t) => {
    const { gateway, admin } = await gatewayWithAdmin(t);
    const page = await open(admin);
    await signIn(page);
    await live(page);
    assert.match(await page.textContent('#about'), /configuration 1 /);
    gateway.hangUp();
    await until('the second configuration', async () =>
        /configuration 2 /.test(await page.textContent('#about')),
    );
    const good = fs.readFileSync(gateway.file);
    fs.writeFileSync(gateway.file, '{"workers": "many"}');
    gateway.hangUp();
    await until('the failure', async () => /failed/.test(await page.textContent('#notice')));
    assert.match(await page.textContent('#about'), /configuration 2 /);
    fs.writeFileSync(gateway.file, good);
});

/* ---- how it can be used ---- */

test('everything is reached by the keyboard, and the focus is seen', async (t) => {
    const { gateway, admin } = await gatewayWithAdmin(t);
    const headers = { authorization: `Bearer ${OTHER_KEY}` };
    while ((await chat(gateway, {}, { headers })).status === 200);
    const page = await open(admin);
    await signIn(page);
    await live(page);
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
    await page.reload();
    await page.waitForSelector('#denials button');

    const seen = [];
    for (let i = 0; i < 20; i++) {
        await page.keyboard.press('Tab');
        const at = await page.evaluate(() => {
            const element = document.activeElement;
            const outline = getComputedStyle(element);
            return {
                around: element === document.body,
                name: element.id || element.className || element.textContent,
                visible: outline.outlineStyle !== 'none' && parseFloat(outline.outlineWidth) >= 2,
            };
        });
        if (at.around) break;
        assert.ok(at.visible || at.name === 'skip', `${at.name} has no visible focus`);
        seen.push(at.name);
    }
    for (const name of ['theme', 'forget', 'load-of', 'Explain'])
        assert.ok(seen.includes(name), `${name} is not among ${seen}`);

    await page.focus('#theme');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
    const ground = () =>
        page.evaluate(() => getComputedStyle(document.body.parentElement).backgroundColor);
    const dark = await ground();
    await picture(page, 'dashboard-dark');
    await page.reload();
    await live(page);
    assert.equal(await ground(), dark, 'the theme is remembered');
});

test('every picture, table and control has a name', async (t) => {
    const { admin } = await gatewayWithAdmin(t);
    const page = await open(admin);
    await signIn(page);
    await live(page);
    const nameless = await page.evaluate(() => {
        const named = (e) =>
            e.getAttribute('aria-label') ||
            e.labels?.length ||
            (e.matches('table') ? e.caption?.textContent : e.textContent.trim());
        return [...document.querySelectorAll('button, input, select, canvas, table, meter')]
            .filter((e) => !named(e))
            .map((e) => e.outerHTML);
    });
    assert.deepEqual(nameless, []);
});

test('a phone shows all of it without scrolling sideways', async (t) => {
    const { gateway, admin } = await gatewayWithAdmin(t);
    const headers = { authorization: `Bearer ${OTHER_KEY}` };
    while ((await chat(gateway, {}, { headers })).status === 200);
    const page = await open(admin, {
        viewport: { width: 390, height: 844 },
        isMobile: true,
        hasTouch: true,
        colorScheme: 'dark',
    });
    await signIn(page);
    await live(page);
    await page.waitForSelector('#denials button');
    await picture(page, 'dashboard-phone');
    const wide = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(wide[0] <= 390, `it is ${wide[0]} wide`);
    const small = await page.evaluate(() =>
        [...document.querySelectorAll('button')]
            .filter((b) => b.checkVisibility() && b.getBoundingClientRect().height < 40)
            .map((b) => b.id || b.textContent),
    );
    assert.deepEqual(small, [], 'too small for a finger');
    await page.tap('#denials button');
    await page.waitForSelector('#limits tr.binding');
    await picture(page, 'dashboard-phone-explain');
    const dialog = await page.locator('#explain').boundingBox();
    assert.ok(dialog.x >= 0 && dialog.x + dialog.width <= 390, JSON.stringify(dialog));
});
