/* admin.mjs - the admin API of a running gateway: every reply is one that docs/openapi.yaml has, every
 * reply that it has is seen, and what is changed holds, is kept and is told in the log. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import test from 'node:test';
import {
    ADMIN_TOKEN,
    chat,
    json,
    keys,
    logLines,
    need,
    reason,
    replace,
    SECRETS,
    tenant,
    until,
    world,
} from './kit.mjs';

const Ajv = need('ajv').default;
const YAML = need('yaml');

/* ---- the document ---- */

const api = YAML.parse(fs.readFileSync('docs/openapi.yaml', 'utf8'));
const ajv = new Ajv({ strict: false, allErrors: true });
ajv.addSchema(api, 'api');

const resolve = (node) =>
    node?.$ref ? node.$ref.slice(2).split('/').reduce((at, name) => at[name], api) : node;

/* {method, template, replies by status} of a path. */
function operation(method, target) {
    const { pathname } = new URL(target, 'http://x');
    for (const [template, methods] of Object.entries(api.paths)) {
        const pattern = new RegExp(`^${template.replace(/\{\w+\}/g, '[^/]+')}$`);
        if (pattern.test(pathname) && methods[method.toLowerCase()])
            return { template, replies: methods[method.toLowerCase()].responses };
    }
    return undefined;
}

const seen = new Set();

/* Holds a reply against the document. */
function check(method, target, reply) {
    const found = operation(method, target);
    assert.ok(found, `${method} ${target} is not documented`);
    const documented = resolve(found.replies[reply.status]);
    const what = `${method} ${found.template} ${reply.status}`;
    assert.ok(documented, `${what} is not documented: ${reply.text}`);
    seen.add(what);
    const type = reply.headers.get('content-type').split(';')[0];
    const schema = documented.content[type]?.schema;
    assert.ok(schema, `${what} has the content type ${type}`);
    if (type !== 'application/json') return;
    const at = schema.$ref ? { $ref: `api${schema.$ref}` } : schema;
    const valid = ajv.compile(at);
    assert.ok(valid(reply.json), `${what}: ${ajv.errorsText(valid.errors)}\n${reply.text}`);
}

/* ---- a gateway with an admin listener ---- */

class Admin {
    async find(gateway) {
        const listens = /127\.0\.0\.1:(\d+) \(admin\)/;
        this.url = `http://127.0.0.1:${(await gateway.process.said(listens))[1]}`;
    }

    /* A reply that the document has: {status, headers, text, json}. */
    async ask(method, target, { body, token = ADMIN_TOKEN, type, raw, headers } = {}) {
        const sent = raw ?? (body === undefined ? undefined : JSON.stringify(body));
        const response = await fetch(this.url + target, {
            method,
            body: sent,
            headers: {
                ...(token !== null && { authorization: `Bearer ${token}` }),
                ...(sent !== undefined && { 'content-type': type ?? 'application/json' }),
                ...headers,
            },
        });
        const reply = { status: response.status, headers: response.headers };
        reply.text = await response.text();
        if (response.headers.get('content-type') === 'application/json')
            reply.json = JSON.parse(reply.text);
        check(method, target, reply);
        return reply;
    }

    async expect(status, method, target, options) {
        const reply = await this.ask(method, target, options);
        assert.equal(reply.status, status, `${method} ${target}: ${reply.text}`);
        return reply.json ?? reply.text;
    }

    /* Server-sent events, as they come: {events, end()}. */
    watch(query = '') {
        const watching = { events: [] };
        const target = `/api/v1/watch${query}`;
        const request = http.get(this.url + target, {
            headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
        });
        request.on('error', () => {});
        watching.opened = new Promise((done) => {
            request.on('response', (response) => {
                let text = '';
                watching.status = response.statusCode;
                seen.add(`GET /api/v1/watch ${response.statusCode}`);
                response.on('error', () => {});
                response.on('end', () => (watching.ended = true));
                response.on('data', (bytes) => {
                    text += bytes;
                    for (let at; (at = text.indexOf('\n\n')) >= 0; text = text.slice(at + 2))
                        watching.events.push(
                            Object.fromEntries(
                                text
                                    .slice(0, at)
                                    .split('\n')
                                    .map((line) => line.split(/: ?(.*)/s).slice(0, 2)),
                            ),
                        );
                });
                done(watching);
            });
        });
        watching.end = () => request.destroy();
        return watching;
    }
}

async function administered(t, change = {}) {
    const made = await world(t, {
        oai: { keys: keys(2) },
        tenants: [
            tenant({ budgets: [{ usd: 100, per: 'day' }] }),
            { name: 'house', budgets: [{ usd: 100, per: 'month', tz: 'Europe/Berlin' }] },
        ],
        ...change,
        top: { admin_auth: { token: ADMIN_TOKEN }, ...change.top },
        listen: { admin: '127.0.0.1:0' },
    });
    const admin = new Admin();
    await admin.find(made.gateway);
    return { ...made, admin };
}

const audits = (gateway) =>
    logLines(gateway.output + gateway.process.out).filter((line) => line.msg === 'audit');

const withKey = (key) => ({ headers: { authorization: `Bearer ${key}` } });

/* ---- who ---- */

test('without the token every path of the API says the same, known or not', async (t) => {
    const { admin } = await administered(t);
    const bodies = new Set();
    for (const [template, methods] of Object.entries(api.paths))
        for (const method of Object.keys(methods).filter((name) => name !== 'parameters')) {
            if (methods[method].security) continue;
            const target = template.replace(/\{\w+\}/g, 'x');
            for (const token of [null, '', 'wrong', ADMIN_TOKEN.slice(1), `${ADMIN_TOKEN}x`]) {
                const body = methods[method].requestBody ? {} : undefined;
                const reply = await admin.ask(method.toUpperCase(), target, { token, body });
                assert.equal(reply.status, 401);
                assert.match(reply.headers.get('www-authenticate'), /^Bearer/);
                bodies.add(reply.text);
            }
        }
    for (const target of ['/api/v1/nothing', '/api', '/api/v2/snapshot', '/api/v1/%zz']) {
        const reply = await fetch(admin.url + target);
        assert.equal(reply.status, 401);
        bodies.add(await reply.text());
    }
    assert.equal(bodies.size, 1);
});

test('the API is closed where no token is configured', async (t) => {
    const { admin } = await administered(t, { top: { admin_auth: undefined } });
    for (const [template, methods] of Object.entries(api.paths))
        for (const method of Object.keys(methods).filter((name) => name !== 'parameters')) {
            const target = template.replace(/\{\w+\}/g, 'x');
            const body = methods[method].requestBody ? {} : undefined;
            const reply = await admin.ask(method.toUpperCase(), target, { token: '', body });
            if (methods[method].security) assert.equal(reply.status, 200);
            else assert.equal(reply.status, 403);
        }
});

test('methods, sizes and types that a path does not take', async (t) => {
    const { admin } = await administered(t);
    const reply = await fetch(`${admin.url}/api/v1/tenants/x`, {
        method: 'PATCH',
        headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    });
    assert.equal(reply.status, 405);
    assert.equal(reply.headers.get('allow'), 'GET, HEAD, PUT, DELETE');
    for (const [method, target] of [
        ['PUT', '/api/v1/tenants/x'],
        ['POST', '/api/v1/tenants/one/keys'],
        ['PUT', '/api/v1/tenants/one/keys/x'],
        ['POST', '/api/v1/tenants/one/topups'],
        ['POST', '/api/v1/topups'],
        ['POST', '/api/v1/credits'],
        ['POST', '/api/v1/overrides'],
        ['POST', '/api/v1/fleet/restore'],
        ['POST', '/api/v1/blocks/write-off'],
    ]) {
        await admin.expect(415, method, target, { raw: '{}', type: 'text/plain' });
        await admin.expect(413, method, target, { raw: `{"x":"${'y'.repeat(300000)}"}` });
        const wrong = await admin.expect(400, method, target, { raw: '{\n]' });
        assert.equal(wrong.errors[0].line, 2);
    }
});

test('a parameter that a path does not have, or has twice, and a body that nobody reads are 400', async (t) => {
    const { admin } = await administered(t);
    for (const [template, methods] of Object.entries(api.paths)) {
        if (!template.startsWith('/api/')) continue;
        const target = template.replace(/\{\w+\}/g, 'one');
        for (const method of Object.keys(methods).filter((name) => name !== 'parameters')) {
            const documented = (methods[method].parameters ?? []).map((one) => one.name);
            const body = methods[method].requestBody ? {} : undefined;
            const ask = (query) => admin.ask(method.toUpperCase(), `${target}?${query}`, { body });
            const names = documented.length === 0 ? 'none' : documented[0];
            const unknown = await ask('tokns=5');
            assert.equal(unknown.status, 400, unknown.text);
            assert.match(unknown.json.error.message, new RegExp(`"tokns" is not known.*takes ${names}`));
            for (const name of documented) {
                const twice = await ask(`${name}=a&${name}=b`);
                assert.equal(twice.status, 400, twice.text);
            }
            if (body !== undefined || method === 'get') continue;
            const useless = await admin.ask(method.toUpperCase(), target, { body: {} });
            assert.equal(useless.status, 400, useless.text);
            assert.match(useless.json.error.message, /this path takes no body/);
        }
    }
});

test('D12 every attempt at a change that is refused leaves one line in the audit log', async (t) => {
    const { admin, gateway } = await administered(t);
    const put = '/api/v1/tenants/one';
    await admin.expect(409, 'PUT', put, { body: {} });
    await admin.expect(415, 'PUT', put, { raw: '{}', type: 'text/plain' });
    await admin.expect(413, 'PUT', put, { raw: `{"x":"${'y'.repeat(300000)}"}` });
    await admin.expect(400, 'PUT', put, { raw: '{' });
    await admin.expect(400, 'PUT', `${put}?x=1`, { body: {} });
    await admin.expect(400, 'PUT', '/api/v1/tenants/new', { body: { nonsense: 1 } });
    await admin.expect(409, 'DELETE', put);
    await admin.expect(404, 'DELETE', '/api/v1/tenants/none/keys/none');
    await admin.expect(404, 'POST', '/api/v1/keys/none/reset');
    await admin.expect(400, 'POST', '/api/v1/reload', { body: {} });
    await admin.expect(404, 'GET', '/api/v1/tenants/none');
    const lines = await until('all are in the log', () => {
        const found = audits(gateway);
        return found.length >= 10 && found;
    });
    assert.deepEqual(
        lines.map(({ action, object }) => `${action} ${object}`),
        [
            ...Array(5).fill('put_tenant one'),
            'put_tenant new',
            'delete_tenant one',
            'delete_key none/none',
            'reset_key none',
            'reload /api/v1/reload',
        ],
    );
    assert.ok(lines.every((line) => line.outcome.startsWith('refused: ')));
    assert.match(lines[1].outcome, /must be JSON/);
});

/* ---- looking ---- */

test('rules, and how each budget reserves, are in the snapshot and with the tenant', async (t) => {
    const { gateway, admin } = await administered(t, {
        tenants: [
            tenant({
                rules: [{ field: 'max_tokens', max: 100 }, { field: 'n', max: 1 }],
                budgets: [{ usd: 1, per: 'day', reserve: 'expected' }, { usd: 9, per: 'month' }],
            }),
        ],
        claude: { rules: [{ field: 'service_tier', deny: ['priority'] }] },
    });
    const said = ['max_tokens, at most 100', 'n, at most 1'];
    await chat(gateway, { max_tokens: 16 });
    const now = await until('the tenant is in it', async () => {
        const all = await admin.expect(200, 'GET', '/api/v1/snapshot');
        return all.tenants.some((one) => one.name === 'one') && all;
    });

    assert.deepEqual(now.tenants.find((one) => one.name === 'one').rules, said);
    assert.deepEqual(now.routes.find((one) => one.model === 'small').rules, []);
    assert.equal(now.routes.find((one) => one.model === 'claude').rules.length, 1);
    const reserves = (budgets) => budgets.map(({ per, reserve }) => `${per} ${reserve}`).sort();
    assert.deepEqual(reserves(now.budgets), ['day expected', 'month bound']);
    const one = await admin.expect(200, 'GET', '/api/v1/tenants/one');
    assert.deepEqual(one.rules, said);
    assert.deepEqual(reserves(one.budgets), ['day expected', 'month bound']);
});

test('a snapshot shows what happens, and an explanation why', async (t) => {
    const { admin, gateway } = await administered(t, {
        tenants: [
            tenant({
                budgets: [{ usd: 100, per: 'day' }],
                rate: { strategy: 'fixed_window', limit: 2, window: '30d' },
            }),
        ],
    });
    const before = await admin.expect(200, 'GET', '/api/v1/snapshot');
    const alone = await admin.expect(200, 'GET', '/api/v1/snapshot?scope=fleet');
    assert.deepEqual(alone.gateways.map(({ answer }) => answer), ['self']);
    assert.equal(alone.config.hash, before.config.hash);
    await admin.expect(400, 'GET', '/api/v1/snapshot?scope=all');
    assert.equal(before.config.generation, 1);
    assert.equal(before.keys.filter((key) => key.model === 'small').length, 2);
    assert.equal(before.tenants_total, 1);
    const watching = await admin.watch().opened;
    assert.equal((await chat(gateway)).status, 200);
    assert.equal((await chat(gateway)).status, 200);
    const refused = await chat(gateway);
    assert.equal(reason(refused), 'rate');

    const after = await until('the refusal is counted', async () => {
        const now = await admin.expect(200, 'GET', '/api/v1/snapshot');
        return now.denials.length === 1 && now.tenants[0]?.refused === 1 && now;
    });
    assert.equal(after.counters.refused_by_reason.rate, 1);
    assert.equal(after.counters.calls, 3);
    assert.equal(after.denials[0].tenant, 'one');
    assert.equal(after.denials[0].axis, 'rate');
    assert.equal(after.tenants[0].name, 'one');
    assert.equal(after.tenants[0].refused, 1);
    const budget = after.budgets.find((one) => one.tenant === 'one');
    assert.ok(budget.used_micro_usd > 0);

    await until('the watcher is told', () => watching.events.length >= 2);
    assert.equal(watching.events[0].event, 'hello');
    assert.equal(watching.events[1].event, 'denial');
    assert.deepEqual(JSON.parse(watching.events[1].data), after.denials[0]);
    watching.end();

    const why = await admin.expect(200, 'GET', '/api/v1/explain?tenant=one&model=small');
    assert.equal(why.admitted, false);
    const binding = why.limits[why.refused_by];
    assert.equal(binding.stage, 'rate');
    assert.equal(binding.remaining, 0);
    assert.match(binding.source, /tollgate\.yaml:\d+$/);
    assert.ok(binding.retry_after_ms > 0);
    await admin.expect(404, 'GET', '/api/v1/explain?tenant=nobody&model=small');
    await admin.expect(400, 'GET', '/api/v1/explain?tenant=one');
    assert.match(await admin.expect(200, 'GET', '/metrics'), /tollgate_/);
    assert.match(await admin.expect(200, 'GET', '/'), /<html/i);
});

test('watchers are told apart by tenant, and there are so many of them', async (t) => {
    const { admin } = await administered(t);
    await admin.expect(400, 'GET', '/api/v1/watch?all=1');
    const watchers = await Promise.all(
        Array.from({ length: 16 }, () => admin.watch('?tenant=one').opened),
    );
    assert.ok(watchers.every((one) => one.status === 200));
    await admin.expect(503, 'GET', '/api/v1/watch');
    for (const one of watchers) one.end();
    await until('places are free again', async () => {
        const next = await admin.watch().opened;
        next.end();
        return next.status === 200;
    });
});

/* ---- changing ---- */

test('a tenant, its key and its budget are made, used, topped up and removed', async (t) => {
    const { admin, gateway } = await administered(t);
    const at = '/api/v1/tenants/new%20%2F%20one';
    const made = await admin.expect(201, 'PUT', at, {
        body: { parent: 'house', budgets: [{ usd: 0.00002, per: 'day' }] },
    });
    assert.equal(made.generation, 2);
    assert.equal(made.warnings[0].file, 'api: tenant new / one');
    await admin.expect(200, 'PUT', at, {
        body: { name: 'new / one', parent: 'house', budgets: [{ usd: 0.0002, per: 'day' }] },
    });

    const key = await admin.expect(201, 'POST', `${at}/keys`, { body: { name: 'ci' } });
    assert.equal((await chat(gateway, {}, withKey(key.key))).status, 200);
    const spent = await chat(gateway, { max_tokens: 20 }, withKey(key.key));
    assert.equal(spent.status, 402, 'nothing is left');
    const topup = await admin.expect(201, 'POST', `${at}/topups`, {
        body: { usd: 1, per: 'day' },
    });
    assert.equal(topup.topup.micro_usd, 1000000);
    assert.equal((await chat(gateway, {}, withKey(key.key))).status, 200);
    const listed = await admin.expect(200, 'GET', `${at}/topups`);
    assert.deepEqual(listed.topups, [topup.topup]);

    const all = await admin.expect(200, 'GET', '/api/v1/tenants?limit=2');
    assert.deepEqual(
        all.tenants.map((one) => [one.name, one.source]),
        [
            ['house', 'file'],
            ['new / one', 'api'],
        ],
    );
    assert.equal(all.next, 'new / one');
    await admin.expect(400, 'GET', '/api/v1/tenants?limit=0');
    const one = await admin.expect(200, 'GET', at);
    assert.equal(one.keys[0].name, 'ci');
    assert.ok(!JSON.stringify(one).includes(key.key), 'the key is said once');

    await admin.expect(200, 'DELETE', `${at}/topups/${topup.topup.id}`);
    await admin.expect(404, 'DELETE', `${at}/topups/${topup.topup.id}`);
    assert.equal((await chat(gateway, {}, withKey(key.key))).status, 402);
    await admin.expect(409, 'POST', `${at}/keys`, { body: { name: 'ci' } });
    await admin.expect(200, 'DELETE', `${at}/keys/ci`);
    await admin.expect(404, 'DELETE', `${at}/keys/ci`);
    assert.equal((await chat(gateway, {}, withKey(key.key))).status, 401);
    await admin.expect(200, 'DELETE', at);
    await admin.expect(404, 'GET', at);
    await admin.expect(404, 'DELETE', at);
    await admin.expect(404, 'GET', `${at}/topups`);

    const done = await until('all changes are in the log', () => {
        const lines = audits(gateway).filter((line) => line.outcome.startsWith('done'));
        return lines.length >= 7 && lines;
    });
    assert.deepEqual(
        done.map((line) => line.action),
        [
            'put_tenant',
            'put_tenant',
            'make_key',
            'top_up',
            'delete_top_up',
            'delete_key',
            'delete_tenant',
        ],
    );
    assert.ok(done.every((line) => line.who === '127.0.0.1'));
    assert.ok(!gateway.process.out.includes(key.key), 'a key is in the log');
});

test('the budget of everyone is topped up, also over a restart, and as it was without', async (t) => {
    const { admin, gateway } = await administered(t, {
        top: { budgets: [{ usd: 0.00002, per: 'total' }] },
    });
    const ofAll = async () =>
        (await admin.expect(200, 'GET', '/api/v1/snapshot')).budgets.find((one) => !one.tenant);
    assert.equal((await chat(gateway, { max_tokens: 20 })).status, 400, 'it can never fit');
    await admin.expect(409, 'POST', '/api/v1/topups', { body: { usd: 1, per: 'day' } });
    const { topup } = await admin.expect(201, 'POST', '/api/v1/topups', {
        body: { usd: 1, per: 'total' },
    });
    assert.equal((await ofAll()).limit_micro_usd, 1000020);
    assert.equal((await chat(gateway, { max_tokens: 20 })).status, 200);
    await gateway.stop();
    await gateway.begin();
    await admin.find(gateway);
    assert.equal((await ofAll()).limit_micro_usd, 1000020);
    assert.deepEqual((await admin.expect(200, 'GET', '/api/v1/topups')).topups, [topup]);
    await admin.expect(404, 'DELETE', `/api/v1/tenants/one/topups/${topup.id}`);
    await admin.expect(200, 'DELETE', `/api/v1/topups/${topup.id}`);
    await admin.expect(404, 'DELETE', `/api/v1/topups/${topup.id}`);
    assert.equal((await ofAll()).limit_micro_usd, 20);
    assert.equal((await chat(gateway, { max_tokens: 20 })).status, 400, 'it can never fit');
});

test('uncertain money is given back, never more than there is', async (t) => {
    const { admin, gateway } = await administered(t, {
        script: { default: { tokens: 1000, pace: 50 } },
    });
    const cut = chat(
        gateway,
        { stream: true, max_tokens: 5000 },
        { onData: (body, request) => String(body).includes('data:') && request.destroy() },
    );
    await cut.catch(() => {});
    const uncertain = async () =>
        (await admin.expect(200, 'GET', '/api/v1/snapshot')).ledger.uncertain_micro_usd;
    await until('it is settled', async () => (await uncertain()) > 0);
    const all = await uncertain();
    const give = (micro_usd, more = {}) => ({
        body: { tenant: 'one', micro_usd, reason: 'ticket 7', per: 'day', ...more },
    });
    await admin.expect(409, 'POST', '/api/v1/credits', give(all + 1));
    await admin.expect(400, 'POST', '/api/v1/credits', give(all, { reason: '' }));
    const made = await admin.expect(201, 'POST', '/api/v1/credits', give(all - 1));
    assert.equal(made.credit.micro_usd, all - 1);
    assert.equal(made.uncertain_micro_usd, 1);
    await admin.expect(409, 'POST', '/api/v1/credits', give(2));
    const listed = await admin.expect(200, 'GET', '/api/v1/credits?tenant=one');
    assert.deepEqual(listed.credits, [made.credit]);
    await admin.expect(400, 'GET', '/api/v1/credits?tenants=one');
    await until('it is audited', () => audits(gateway).some((line) => line.action === 'credit'));
});

test('the file wins, and what it lacks is not found', async (t) => {
    const { admin } = await administered(t);
    await admin.expect(409, 'PUT', '/api/v1/tenants/one', { body: {} });
    await admin.expect(409, 'DELETE', '/api/v1/tenants/one');
    await admin.expect(409, 'DELETE', '/api/v1/tenants/one/keys/main');
    await admin.expect(409, 'PUT', '/api/v1/tenants/one/keys/main', { body: {} });
    await admin.expect(404, 'PUT', '/api/v1/tenants/one/keys/none', { body: {} });
    await admin.expect(409, 'POST', '/api/v1/tenants/one/topups', {
        body: { usd: 1, per: 'week' },
    });
    await admin.expect(404, 'POST', '/api/v1/tenants/no/topups', { body: { usd: 1, per: 'day' } });
    await admin.expect(404, 'POST', '/api/v1/tenants/no/keys', { body: { name: 'x' } });
    for (const target of ['/api/v1/keys/none/reset', '/api/v1/keys/oai/none/reset'])
        await admin.expect(404, 'POST', target);
});

test('what is made is there after a restart', async (t) => {
    const { admin, gateway } = await administered(t);
    await admin.expect(201, 'PUT', '/api/v1/tenants/new', {
        body: { budgets: [{ usd: 1, per: 'total' }] },
    });
    const key = await admin.expect(201, 'POST', '/api/v1/tenants/new/keys', {
        body: { name: 'ci', not_after: '2099-01-01T00:00:00Z' },
    });
    await admin.expect(201, 'POST', '/api/v1/tenants/new/topups', {
        body: { usd: 2, per: 'total' },
    });
    const settings = {
        limits: [{ rpm: 2 }],
        budgets: [{ usd: 1, per: 'day' }],
        models: ['small'],
        tags: { team: 'b' },
    };
    const own = await admin.expect(201, 'POST', '/api/v1/tenants/new/keys', {
        body: { name: 'own', limits: [{ rpm: 1 }] },
    });
    await admin.expect(200, 'PUT', '/api/v1/tenants/new/keys/own', { body: settings });
    await gateway.stop();
    await gateway.begin();
    await admin.find(gateway);
    const now = await admin.expect(200, 'GET', '/api/v1/tenants/new');
    assert.equal(now.budgets[0].limit_micro_usd, 3000000);
    assert.equal(now.topups[0].ends_at, null);
    assert.equal((await chat(gateway, {}, withKey(key.key))).status, 200);
    const { definition, budgets } = now.keys.find((one) => one.name === 'own');
    assert.deepEqual(definition, settings);
    assert.equal(budgets[0].limit_micro_usd, 1000000);
    assert.equal(now.keys.find((one) => one.name === 'ci').definition, null);
    for (const status of [200, 200, 429])
        assert.equal((await chat(gateway, {}, withKey(own.key))).status, status);
});

test('a reload takes what is right and refuses what is wrong', async (t) => {
    const { admin, gateway, config } = await administered(t, {
        top: { budgets: [{ usd: 100, per: 'month' }] },
    });
    await admin.expect(201, 'PUT', '/api/v1/tenants/new', {
        body: { budgets: [{ usd: 1, per: 'day' }] },
    });
    await admin.expect(201, 'POST', '/api/v1/tenants/new/keys', { body: { name: 'k' } });
    const topup = await admin.expect(201, 'POST', '/api/v1/tenants/new/topups', {
        body: { usd: 1, per: 'day' },
    });
    const common = await admin.expect(201, 'POST', '/api/v1/topups', {
        body: { usd: 1, per: 'month' },
    });
    const good = await admin.expect(200, 'POST', '/api/v1/reload');
    gateway.write({ ...config, workers: 3, aliases: { fast: 'small' } });
    const more = await admin.expect(200, 'POST', '/api/v1/reload');
    assert.equal(more.generation, good.generation + 1);
    assert.notEqual(more.hash, good.hash);
    assert.deepEqual(more.restart_needed, ['workers']);

    replace(gateway.file, 'tenants: [{nam: x}]\n');
    const wrong = await admin.expect(400, 'POST', '/api/v1/reload');
    assert.equal(wrong.errors[0].line, 1);
    assert.match(wrong.errors[0].message, /nam/);
    /* As long as the file is wrong nothing can be changed, and nothing is. */
    await admin.expect(400, 'PUT', '/api/v1/tenants/new', { body: { weight: 2 } });
    await admin.expect(400, 'DELETE', '/api/v1/tenants/new');
    await admin.expect(400, 'DELETE', '/api/v1/tenants/new/keys/k');
    await admin.expect(400, 'DELETE', `/api/v1/tenants/new/topups/${topup.topup.id}`);
    await admin.expect(400, 'DELETE', `/api/v1/topups/${common.topup.id}`);
    const still = await admin.expect(200, 'GET', '/api/v1/snapshot');
    assert.equal(still.config.generation, more.generation);
    assert.equal(still.config.last_reload.ok, false);
    assert.equal((await chat(gateway)).status, 200);
    gateway.write(config);
    await admin.expect(200, 'POST', '/api/v1/reload');
    assert.equal((await admin.expect(200, 'GET', '/api/v1/tenants/new')).weight, 1);
});

test('a key that rests after a 429 serves again when it is reset', async (t) => {
    const { admin, gateway, mock } = await administered(t, {
        script: { default: { status: 429, retry_after: 3000 } },
        oai: { keys: keys(1) },
        small: { retries: 0 },
    });
    assert.equal((await chat(gateway)).status, 429);
    const key = async () =>
        (await admin.expect(200, 'GET', '/api/v1/snapshot')).keys.find(
            (one) => one.model === 'small',
        );
    const cooling = await until('it cools', async () => {
        const now = await key();
        return now.status === 'cooling' && now;
    });
    assert.ok(cooling.cooldown_until > Date.now());
    const why = await admin.expect(200, 'GET', '/api/v1/explain?tenant=one&model=small');
    assert.equal(why.limits[why.refused_by].stage, 'no_key');
    await mock.script({});
    assert.equal(reason(await chat(gateway)), 'no_key');
    const reset = await admin.expect(200, 'POST', '/api/v1/keys/k1/reset');
    assert.ok(reset.reset.some((one) => one.provider === 'oai'));
    assert.equal((await key()).status, 'ready');
    assert.equal((await chat(gateway)).status, 200);
    await admin.expect(200, 'POST', '/api/v1/keys/oai/k1/reset');
});

test('S10 an operator takes a key out of use: running calls finish, and it lasts', async (t) => {
    const slow = { when: { path: '/v1/chat/completions', nth: '1' }, do: { latency: '400ms' } };
    const { admin, gateway, mock, config } = await administered(t, {
        script: { rules: [slow] },
        mock: ['--keys', SECRETS.join(',')],
    });
    const state = async (name) => {
        const now = await admin.expect(200, 'GET', '/api/v1/snapshot');
        const one = now.keys.find((key) => key.model === 'small' && key.name === name);
        return [one.state, one.status];
    };
    const used = async (n) => {
        const posts = (await mock.requests(n)).filter((one) => one.method === 'POST');
        return posts.map((one) => `k${one.key}`);
    };
    const running = chat(gateway);
    const busy = await until('a call holds a key', async () => {
        const now = await admin.expect(200, 'GET', '/api/v1/snapshot');
        return now.keys.find((key) => key.model === 'small' && key.in_flight > 0)?.name;
    });
    const off = await admin.expect(200, 'POST', `/api/v1/keys/oai/${busy}/disable`);
    assert.deepEqual(off, { provider: 'oai', name: busy, disabled: true });
    assert.equal((await running).status, 200);
    const other = busy === 'k1' ? 'k2' : 'k1';
    const calls = async (n) => {
        for (let i = 0; i < n; i++) assert.equal((await chat(gateway)).status, 200);
    };
    await calls(6);
    assert.deepEqual(await used(7), [busy, ...Array(6).fill(other)]);
    assert.deepEqual(await state(busy), ['disabled', 'disabled']);
    const labels = ['model="small"', `key="${busy}"`, 'state="disabled"'];
    assert.equal(await gateway.metric('key_state', ...labels), 1);
    await admin.expect(200, 'POST', `/api/v1/keys/oai/${busy}/reset`);
    assert.deepEqual(await state(busy), ['disabled', 'disabled'], 'a reset is about something else');
    await until('it is logged', () =>
        gateway.lines().some((line) => line.key === busy && line.new_state === 'disabled'),
    );

    /* A configuration without the key, and one that has it again. */
    const without = structuredClone(config);
    without.providers.oai.keys = config.providers.oai.keys.filter((key) => key.name === other);
    await gateway.reload(without);
    await admin.expect(404, 'POST', `/api/v1/keys/oai/${busy}/enable`);
    await gateway.reload(config);
    assert.deepEqual(await state(busy), ['disabled', 'disabled']);
    await gateway.stop('SIGTERM');
    await gateway.begin();
    await admin.find(gateway);
    assert.deepEqual(await state(busy), ['disabled', 'disabled']);
    await calls(6);
    assert.ok(!(await used(13)).slice(1).includes(busy));

    const on = await admin.expect(200, 'POST', `/api/v1/keys/oai/${busy}/enable`);
    assert.equal(on.disabled, false);
    assert.deepEqual(await state(busy), ['healthy', 'ready']);
    await until('it is used again', async () => {
        await calls(1);
        return (await used(14)).slice(1).includes(busy);
    });
    await admin.expect(404, 'POST', '/api/v1/keys/oai/none/disable');
    const lines = audits(gateway);
    for (const action of ['disable_key', 'enable_key'])
        assert.ok(
            lines.some((line) => line.action === action && line.object === `oai/${busy}`),
            action,
        );
});

test('many changes at once are made one after the other, or told to come back', async (t) => {
    const { admin } = await administered(t);
    const names = Array.from({ length: 60 }, (_, i) => `t${i}`);
    const replies = await Promise.all(
        names.map((name) => admin.ask('PUT', `/api/v1/tenants/${name}`, { body: {} })),
    );
    const made = names.filter((_, i) => replies[i].status === 201);
    assert.ok(replies.every(({ status }) => status === 201 || status === 503));
    assert.ok(made.length >= 32);
    const generations = replies.filter((one) => one.json.generation).map((one) => one.json.generation);
    assert.equal(new Set(generations).size, made.length);
    const all = await admin.expect(200, 'GET', '/api/v1/tenants?limit=1000');
    assert.deepEqual(
        all.tenants.filter((one) => one.source === 'api').map((one) => one.name),
        made.sort(),
    );
});

test('an override blocks, raises or shadows what a file defines, until it ends', async (t) => {
    const { admin, gateway } = await administered(t, {
        tenants: [
            tenant({
                budgets: [{ usd: 0.000001, per: 'day' }],
                rate: { strategy: 'fixed_window', limit: 1, window: '30d' },
            }),
            { name: 'house', budgets: [{ usd: 100, per: 'month', tz: 'Europe/Berlin' }] },
        ],
    });
    const until = '2099-01-01T00:00:00Z';
    const why = { tenant: 'one', reason: 'it leaked', until };
    const make = (body) => admin.ask('POST', '/api/v1/overrides', { body });
    assert.deepEqual((await admin.expect(200, 'GET', '/api/v1/overrides')).overrides, []);
    for (const [status, body] of [
        [400, { ...why, kind: 'ban' }],
        [400, { ...why, kind: 'block', reason: ' ' }],
        [400, { ...why, kind: 'block', until: 'tomorrow' }],
        [400, { ...why, kind: 'block', until: '2020-01-01T00:00:00Z' }],
        [400, { ...why, kind: 'block', usd: 1 }],
        [400, { ...why, kind: 'shadow', key: 'main' }],
        [400, { ...why, kind: 'raise', usd: 1 }],
        [400, { ...why, kind: 'raise', usd: 0, per: 'day' }],
        [400, { ...why, kind: 'raise', usd: 1, per: 'year' }],
        [400, { ...why, kind: 'raise', usd: 1, per: 'day', tz: '../x' }],
        [409, { ...why, kind: 'raise', usd: 1, per: 'day', tz: 'Asia/Tokyo' }],
        [404, { ...why, kind: 'block', tenant: 'nobody' }],
        [404, { ...why, kind: 'block', key: 'none' }],
        [409, { ...why, kind: 'raise', usd: 1, per: 'week' }],
    ]) {
        const reply = await make(body);
        assert.equal(reply.status, status, `${JSON.stringify(body)}: ${reply.text}`);
    }
    await admin.expect(201, 'POST', '/api/v1/tenants/one/keys', { body: { name: 'own' } });
    assert.equal((await make({ ...why, kind: 'block', key: 'own' })).json.error.code, 'not_in_file');

    assert.equal((await chat(gateway)).status, 400, 'more than the budget ever has');
    const raised = (await make({ ...why, kind: 'raise', usd: 5, per: 'day' })).json.override;
    assert.equal((await chat(gateway)).status, 200);
    assert.equal(reason(await chat(gateway)), 'rate');
    const shadow = (await make({ ...why, kind: 'shadow' })).json.override;
    assert.equal((await chat(gateway)).status, 200);
    const blocked = (await make({ ...why, kind: 'block', key: 'main' })).json.override;
    assert.equal((await chat(gateway)).status, 401);
    assert.deepEqual(
        (await admin.expect(200, 'GET', '/api/v1/overrides')).overrides.map((one) => one.kind),
        ['raise', 'shadow', 'block'],
    );
    await gateway.stop();
    await gateway.begin();
    await admin.find(gateway);
    assert.equal((await chat(gateway)).status, 401, 'it survives a restart');
    await admin.expect(200, 'DELETE', `/api/v1/overrides/${blocked.id}`);
    await admin.expect(404, 'DELETE', `/api/v1/overrides/${blocked.id}`);
    await admin.expect(404, 'DELETE', '/api/v1/overrides/x');
    assert.equal((await chat(gateway)).status, 200);
    await admin.expect(200, 'DELETE', `/api/v1/overrides/${shadow.id}`);
    assert.equal(reason(await chat(gateway)), 'rate');
    await admin.expect(200, 'DELETE', `/api/v1/overrides/${raised.id}`);
});

test('a gateway that shares no store is alone, and has no versions', async (t) => {
    const { admin } = await administered(t);
    const fleet = await admin.expect(200, 'GET', '/api/v1/fleet');
    assert.equal(fleet.state, 'alone');
    await admin.expect(409, 'POST', '/api/v1/fleet/restore', { body: { reason: 'none' } });
    await admin.expect(200, 'GET', '/api/v1/blocks');
    const gone = { process: 'nobody', reason: 'its disk is lost' };
    await admin.expect(404, 'POST', '/api/v1/blocks/write-off', { body: gone });
    for (const [method, target] of [
        ['DELETE', '/api/v1/overrides/1'],
        ['DELETE', '/api/v1/topups/1'],
        ['DELETE', '/api/v1/tenants/one/topups/1'],
        ['POST', '/api/v1/keys/oai/k1/disable'],
        ['POST', '/api/v1/keys/oai/k1/enable'],
    ])
        await admin.expect(409, method, target, { headers: { 'if-match': '"1"' } });
});

test('while it drains it is not ready, and still answers', async (t) => {
    const { admin, gateway } = await administered(t, {
        script: { default: { fault: 'hang' } },
    });
    await admin.expect(200, 'GET', '/healthz');
    await admin.expect(200, 'GET', '/readyz');
    const call = chat(gateway);
    call.catch(() => {});
    await until('the call runs', async () => {
        const now = await admin.expect(200, 'GET', '/api/v1/snapshot');
        return now.routes.some((route) => route.in_flight > 0);
    });
    gateway.process.child.kill('SIGTERM');
    await until('it drains', async () => (await admin.ask('GET', '/readyz')).status === 503);
    assert.equal((await admin.expect(200, 'GET', '/api/v1/snapshot')).draining, true);
    call.request.destroy();
    await gateway.process.ended;
});

/* ---- the document again ---- */

/* Changes that a disk refuses, or of which too many wait, are tested without a network:
 * tests/unit/server/admin/test_admin.c. */
const elsewhere = (what) =>
    (/ 503$/.test(what) && !/(readyz|watch) 503$/.test(what)) ||
    what === 'POST /api/v1/fleet/restore 200' || /* needs a store: tests/e2e/fleet.mjs */
    what === 'POST /api/v1/blocks/write-off 200'; /* the same, and a death: redis_blocks.mjs */

test('every reply that is documented was given', () => {
    const missing = [];
    for (const [template, methods] of Object.entries(api.paths))
        for (const method of Object.keys(methods).filter((name) => name !== 'parameters'))
            for (const status of Object.keys(methods[method].responses)) {
                const what = `${method.toUpperCase()} ${template} ${status}`;
                if (!seen.has(what) && !elsewhere(what)) missing.push(what);
            }
    assert.deepEqual(missing, []);
});
