/* limit_names.mjs - the limit that bound is the one that is named: on the wire, in the log, in the
 * snapshot and in the watch, with limits in memory and in Redis.
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import { ADMIN_TOKEN, chat, json, KEY, message, OTHER_KEY, reason, sha256, until, world } from './kit.mjs';
import { Redis } from './redis_kit.mjs';

const key = (secret) => [{ name: 'main', sha256: sha256(secret) }];
const bearer = (secret, more = {}) => ({ headers: { authorization: `Bearer ${secret}`, ...more } });

/* A department, and two of its tenants. */
const department = (dept, each) => [
    { name: 'dept', limits: [{ rpd: dept }] },
    { name: 'hr-bot', parent: 'dept', keys: key(KEY), limits: [{ rpd: each }] },
    { name: 'legal', parent: 'dept', keys: key(OTHER_KEY), limits: [{ rpd: each }] },
];

const stores = {
    memory: async () => ({}),
    'Redis, strict': async (t) => ({
        store: (await Redis.start(t)).url,
        two_tier: { enabled: false },
    }),
    'Redis, two-tier': async (t) => ({
        store: (await Redis.start(t)).url,
        two_tier: { enabled: true },
    }),
};

async function open(t, store, tenants) {
    const { gateway } = await world(t, {
        tenants,
        top: {
            workers: 1,
            admin_auth: { token: ADMIN_TOKEN },
            ...(await stores[store](t)),
        },
        listen: { admin: '127.0.0.1:0' },
    });
    const port = (await gateway.process.said(/127\.0\.0\.1:(\d+) \(admin\)/))[1];
    const options = { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } };
    const admin = `http://127.0.0.1:${port}/api/v1`;
    const watched = { text: '' };
    await new Promise((done) => {
        const request = http.get(`${admin}/watch`, options, (response) => {
            response.on('data', (bytes) => (watched.text += bytes));
            response.on('error', () => {});
            done();
        });
        request.on('error', () => {});
        t.after(() => request.destroy());
    });
    const snapshot = async () => (await fetch(`${admin}/snapshot`, options)).json();
    return { gateway, watched, snapshot };
}

/* Everybody who speaks of this refusal says the same. */
async function expectNamed({ gateway, watched, snapshot }, refusal, text, limit) {
    assert.equal(refusal.status, 429, String(refusal.body));
    assert.equal(reason(refusal), 'rate');
    assert.match(json(refusal).error.message, text);
    assert.equal(refusal.headers['x-ratelimit-limit-requests'], String(limit));
    assert.equal(refusal.headers['x-ratelimit-remaining-requests'], '0');
    const said = json(refusal).error.message;
    await until('the watch says it', () => watched.text.includes(JSON.stringify(said)));
    assert.equal((await snapshot()).denials[0].text, said);
    const line = await until('it is logged', () =>
        gateway.lines().find((one) => one.msg === 'request' && one.reason === 'rate'),
    );
    assert.equal(line.limit_of, 'tenant dept');
    assert.equal(line.limit, limit);
    assert.equal(line.remaining, 0);
}

for (const store of ['memory', 'Redis, strict']) {
    test(`D2 a parent that refuses is named, not the child (${store})`, async (t) => {
        const all = await open(t, store, department(6, 5));
        for (let i = 0; i < 5; i++) assert.equal((await chat(all.gateway)).status, 200);
        const sixth = await chat(all.gateway, {}, bearer(OTHER_KEY));
        assert.equal(sixth.status, 200);
        /* 0 of 6 is less in proportion than 4 of 5. */
        assert.equal(sixth.headers['x-ratelimit-limit-requests'], '6');
        assert.equal(sixth.headers['x-ratelimit-remaining-requests'], '0');
        const refusal = await chat(all.gateway, {}, bearer(OTHER_KEY));
        const text = /^rate limit of tenant dept: 6 calls a day, 0 left, next in (4 h|3 h \d+ min)$/;
        await expectNamed(all, refusal, text, 6);
        /* Anthropic's form of the same. */
        const other = await message(all.gateway, {}, bearer(OTHER_KEY));
        assert.equal(other.headers['anthropic-ratelimit-requests-limit'], '6');
        assert.equal(other.headers['anthropic-ratelimit-requests-remaining'], '0');
    });

    test(`D2 a user's first call names the parent that refuses it (${store})`, async (t) => {
        const users = { from: 'header:x-tollgate-user', each: { rpd: 2 } };
        const all = await open(t, store, [
            { name: 'dept', limits: [{ rpd: 4 }] },
            { name: 'hr-bot', parent: 'dept', keys: key(KEY), users },
        ]);
        for (const user of ['ann', 'ann', 'bob', 'bob'])
            assert.equal((await chat(all.gateway, {}, bearer(KEY, { 'x-tollgate-user': user }))).status, 200);
        const carl = await chat(all.gateway, {}, bearer(KEY, { 'x-tollgate-user': 'carl' }));
        const text = /^rate limit of tenant dept: 4 calls a day, 0 left, next in (6 h|5 h \d+ min)$/;
        await expectNamed(all, carl, text, 4);
    });
}

/* Blocks are leased ahead, so nobody can say after how many calls the department's are used up; but
 * when they are, it is the department that is named. */
test('D2 a parent that refuses is named, not the child (Redis, two-tier)', async (t) => {
    const { gateway } = await open(t, 'Redis, two-tier', department(60, 50));
    let refusal;

    for (let i = 0; i < 45; i++) await chat(gateway);
    await until('legal is refused', async () => {
        const reply = await chat(gateway, {}, bearer(OTHER_KEY));
        refusal = reply.status === 200 ? undefined : reply;
        return refusal !== undefined;
    });
    assert.equal(reason(refusal), 'rate');
    assert.match(
        json(refusal).error.message,
        /^rate limit of tenant dept: 60 calls a day, \d+ left, next in /,
    );
    assert.equal(refusal.headers['x-ratelimit-limit-requests'], '60');
});

test('a user over its own limit is named', async (t) => {
    const users = { from: 'header:x-tollgate-user', each: { rpd: 2 } };
    const { gateway } = await open(t, 'memory', [{ name: 'one', keys: key(KEY), users }]);
    const ann = bearer(KEY, { 'x-tollgate-user': 'ann' });

    for (let i = 0; i < 2; i++) assert.equal((await chat(gateway, {}, ann)).status, 200);
    const refusal = await chat(gateway, {}, ann);
    assert.match(
        json(refusal).error.message,
        /^rate limit of user ann of tenant one: 2 calls a day, 0 left, next in /,
    );
});
