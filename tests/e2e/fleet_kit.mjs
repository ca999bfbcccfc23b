/* fleet_kit.mjs - gateways that share a store, each with an admin API of its own, for end-to-end tests. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { ADMIN_TOKEN, calls, chat, EXACT, need, reason, until } from './kit.mjs';
import { patientFleet } from './redis_kit.mjs';

/* `n` gateways with an admin API each. */
export async function gatewaysOn(t, n, redis, change = {}) {
    const { gateways, mock } = await patientFleet(t, n, redis.url, {
        small: EXACT,
        listen: { admin: '127.0.0.1:0' },
        ...change,
        top: { admin_auth: { token: ADMIN_TOKEN }, ...change.top },
    });
    for (const gateway of gateways) await administer(gateway);
    await Promise.all(gateways.map((gateway) => standing(gateway, 'current')));
    return { gateways, mock };
}

export async function administer(gateway) {
    const [, port] = await gateway.process.said(/127\.0\.0\.1:(\d+) \(admin\)/);
    gateway.admin = `http://127.0.0.1:${port}`;
}

export async function begin(gateway) {
    await gateway.begin();
    await administer(gateway);
}

export async function api(gateway, method, target, body, headers = {}) {
    const reply = await fetch(`${gateway.admin}/api/v1${target}`, {
        method,
        headers: {
            authorization: `Bearer ${ADMIN_TOKEN}`,
            ...(body && { 'content-type': 'application/json' }),
            ...headers,
        },
        body: body && JSON.stringify(body),
    });
    const text = await reply.text();
    return {
        status: reply.status,
        version: Number(reply.headers.get('x-tollgate-version')),
        text,
        json: JSON.parse(text),
        code: JSON.parse(text).error?.code,
    };
}

export async function made(gateway, method, target, body) {
    const reply = await api(gateway, method, target, body);
    assert.ok(reply.status === 200 || reply.status === 201, `${target}: ${reply.text}`);
    return reply;
}

export const fleetOf = async (gateway) => (await api(gateway, 'GET', '/fleet')).json;

export const standing = (gateway, state) =>
    until(`the fleet is ${state}`, async () => (await fleetOf(gateway)).state === state);

const Ajv = need('ajv').default;
const ajv = new Ajv({ strict: false, allErrors: true });
ajv.addSchema(need('yaml').parse(fs.readFileSync('docs/openapi.yaml', 'utf8')), 'api');

/* Holds a document against one of docs/openapi.yaml. */
export function conforms(name, document) {
    const valid = ajv.compile({ $ref: `api#/components/schemas/${name}` });
    assert.ok(valid(document), `${name}: ${ajv.errorsText(valid.errors)}\n${JSON.stringify(document)}`);
}

/* ---- spending what a key has ---- */

export const AT_ONCE = 200;

export const withKey = (key, more = {}) => ({ headers: { authorization: `Bearer ${key}`, ...more } });

/* 200 calls at once, half on each gateway, again and again until nobody is served; then one after the other, for what is
 * contended may come free. */
export async function spendAll(gateways, key, least = 0) {
    const reasons = {};
    let served = 0;
    const ask = async (i) => {
        const reply = await chat(gateways[i % 2], {}, withKey(key));
        if (reply.status === 200) served++;
        else reasons[reason(reply)] = (reasons[reason(reply)] ?? 0) + 1;
        return reply.status === 200 ? undefined : reason(reply);
    };
    for (let quiet = 0; quiet < 3; ) {
        const before = served;
        await calls(AT_ONCE, ask);
        quiet = served > before ? 0 : quiet + 1;
    }
    let turn = 0;
    if (reasons.budget_contended) await until('the last is spent', async () => (await ask(turn++)) === 'budget');
    await until('blocks that are not used come back', async () => served >= least || ((await ask(turn++)), served >= least));
    return { served, reasons };
}
