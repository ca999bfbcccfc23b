/* redis_topologies.mjs - a cluster, a failover by Sentinel, TLS and passwords, under load; see
 * docs/distributed.md. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { chat, EXACT, EXACT_COST, freePort, noSecrets, sha256, until } from './kit.mjs';
import { moveSlot, run, startCluster, startSentinel } from './redis_cluster_kit.mjs';
import { Caller, decided, fleet, patientFleet, Redis, stored, sum, window } from './redis_kit.mjs';

const NAMES = Array.from({ length: 12 }, (_, i) => `team-${i}`);
const tenants = (rate) =>
    NAMES.map((name) => ({ name, keys: [{ name: 'k', sha256: sha256(`key of ${name}`) }], rate }));

test('a cluster of three: exact limits for tenants in all slots, while a slot moves', async (t) => {
    const { nodes, url } = await startCluster(t, 0);
    const K = 60;
    const { gateways } = await patientFleet(t, 2, url, { tenants: tenants(window(K)) });
    const callers = NAMES.flatMap((name) =>
        gateways.map((gateway) => new Caller(gateway, { key: `key of ${name}` })),
    );
    await until('all run', () => callers.every((caller) => caller.n > 3));
    await moveSlot(nodes, 'x{team-3}y');
    await until('all are refused', () => callers.every((caller) => (caller.counts.rate ?? 0) > 5));
    await Promise.all(callers.map((caller) => caller.stop()));
    assert.equal(await decided(gateways, 'limits', 'local'), 0, 'all by the cluster');
    NAMES.forEach((name, i) => {
        const { served } = sum([callers[2 * i].counts, callers[2 * i + 1].counts]);
        assert.equal(served, K, name);
    });
});

for (const [what, which] of [
    ['limits', /:rate:/],
    ['budgets', /:money:.*:0-/],
])
    test(`a slot of a cluster that stays half-moved harms nobody with two tiers (${what} gone)`, async (t) => {
        const { nodes, url } = await startCluster(t, 0);
        const budgets = [
            { usd: 1000, per: 'day' },
            { usd: 1000, per: 'total' },
        ];
        const { gateways } = await fleet(t, 2, url, {
            tiers: true,
            small: EXACT,
            tenants: tenants({ strategy: 'gcra', limit: 6000000, period: '60s' })
                .slice(0, 4)
                .map((tenant) => ({ ...tenant, budgets })),
        });
        const callers = NAMES.slice(0, 4).flatMap((name) =>
            gateways.map((gateway) => new Caller(gateway, { key: `key of ${name}` })),
        );
        await until('all run', () => callers.every((caller) => caller.n > 50));
        const local = await decided(gateways, 'limits', 'local');
        const held = async () => {
            const n = callers.map((caller) => caller.n);
            await until('a thousand calls more', () => callers.every((caller, i) => caller.n > n[i] + 1000));
            const counts = sum(callers.map((caller) => caller.counts));
            assert.deepEqual(Object.keys(counts), ['served'], JSON.stringify(counts));
            assert.ok((await decided(gateways, 'limits', 'local')) <= local + 4, 'those on their way at most');
            for (const gateway of gateways) await stored(gateway, 'ok');
        };
        await moveSlot(nodes, 'x{team-3}y', held, which);
        const then = callers.map((caller) => caller.n);
        await until('it goes on', () => callers.every((caller, i) => caller.n > then[i] + 200));
        const { served, ...others } = sum(await Promise.all(callers.map((caller) => caller.stop())));
        assert.deepEqual(others, {});
        let spent = 0;
        for (const gateway of gateways) {
            await gateway.idle();
            spent += (await gateway.spend()).total.micro_usd;
        }
        assert.equal(spent, served * EXACT_COST);
    });

test('a master of the cluster dies: the others decide on, and its replica takes over', async (t) => {
    const { nodes, url } = await startCluster(t, 1);
    const { gateways } = await fleet(t, 1, url, {
        tenants: tenants({ strategy: 'gcra', limit: 100000, period: '60s' }),
    });
    const callers = NAMES.map((name) => new Caller(gateways[0], { key: `key of ${name}` }));
    await until('all run', () => callers.every((caller) => caller.n > 10));
    await nodes[0].kill();
    await until('the replica has taken over', async () => {
        const known = await nodes[1].ask('CLUSTER', 'NODES');
        return / master,fail - /.test(known) && / (myself,)?master - .* 0-5460/.test(known);
    });
    await stored(gateways[0], 'ok');
    const now = callers.map((caller) => caller.n);
    await until('all go on', () => callers.every((caller, i) => caller.n > now[i] + 20));
    const counts = sum(await Promise.all(callers.map((caller) => caller.stop())));
    assert.deepEqual(Object.keys(counts), ['served'], JSON.stringify(counts));
    await gateways[0].idle();
});

test('Sentinel: the master dies under load, the replica is found, and what it has counts', async (t) => {
    const { master, replica, url } = await startSentinel(t);
    const { gateways } = await fleet(t, 2, url, {
        tenant: { budgets: [], rate: { strategy: 'gcra', limit: 1000000, period: '60s' } },
    });
    assert.equal((await chat(gateways[0])).status, 200);
    const callers = gateways.map((gateway) => new Caller(gateway));
    await until('it runs', () => callers.every((caller) => caller.n > 50));
    await master.kill();
    /* A sentinel that makes it master has it close the connections of its clients, this one too. */
    const role = () => replica.info('role').catch(() => 'unknown');
    await until('the replica is master', async () => (await role()) === 'master');
    for (const gateway of gateways) await stored(gateway, 'ok');
    const now = callers.map((caller) => caller.n);
    await until('it goes on', () => callers.every((caller, i) => caller.n > now[i] + 50));
    const counts = sum(await Promise.all(callers.map((caller) => caller.stop())));
    assert.deepEqual(Object.keys(counts), ['served'], JSON.stringify(counts));
    const errors = await gateways[0].metric('store_errors_total');
    t.diagnostic(`${counts.served} served, ${errors} answers late or lost at one gateway`);
    for (const gateway of gateways) await gateway.idle();
});

/* A certificate for localhost and its address, and the options of a server that shows it. */
function secured(t) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tollgate-pem-'));
    t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
    const [cert, key] = ['cert.pem', 'key.pem'].map((name) => path.join(folder, name));
    execFileSync(
        'openssl',
        [
            ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-keyout', key],
            ...['-out', cert, '-subj', '/CN=localhost'],
            ...['-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'],
        ],
        { stdio: 'ignore' },
    );
    const options = {
        'tls-cert-file': cert,
        'tls-key-file': key,
        'tls-ca-cert-file': cert,
        'tls-auth-clients': 'no',
        'tls-replication': 'yes',
    };
    return { cert, options };
}

const asArguments = (options) =>
    Object.entries(options).flatMap(([name, value]) => [`--${name}`, `${value}`]);

const twoOfThree = async (gateway) => {
    assert.equal((await chat(gateway)).status, 200);
    assert.equal((await chat(gateway)).status, 200);
    assert.equal((await chat(gateway)).status, 429);
};

test('TLS to all nodes of a cluster, and a password', async (t) => {
    const { cert, options } = secured(t);
    const ports = [];
    for (let i = 0; i < 3; i++) {
        ports.push(await freePort());
        const node = await Redis.start(
            t,
            asArguments({
                ...options,
                ...{ 'cluster-enabled': 'yes', 'tls-cluster': 'yes', 'tls-port': ports[i] },
            }),
        );
        await node.ask('ACL', 'SETUSER', 'gate', 'on', '>s3cret', '~*', '+@all');
    }
    const addresses = ports.map((port) => `127.0.0.1:${port}`);
    await run('redis-cli', [
        ...['--tls', '--cacert', cert, '--cluster', 'create', ...addresses, '--cluster-yes'],
    ]);
    const { gateways } = await patientFleet(t, 1, `rediss+cluster://gate:s3cret@${addresses[0]}`, {
        tenants: tenants(window(1)),
        top: { store_tls: { ca: cert } },
    });
    for (const name of NAMES) {
        const headers = { authorization: `Bearer key of ${name}` };
        assert.equal((await chat(gateways[0], {}, { headers })).status, 200, name);
        assert.equal((await chat(gateways[0], {}, { headers })).status, 429, name);
    }
    assert.equal(await decided(gateways, 'limits', 'redis'), 2 * NAMES.length);
});

test('TLS to Sentinel and to the master that it names, each with a password of its own', async (t) => {
    const { cert, options } = secured(t);
    const [masterPort, sentinelPort] = [await freePort(), await freePort()];
    const master = await Redis.start(t, asArguments({ ...options, 'tls-port': masterPort }));
    await master.ask('ACL', 'SETUSER', 'gate', 'on', '>m@ster', '~*', '+@all');
    const lines = (more) => Object.entries({ ...options, ...more }).map((pair) => pair.join(' '));
    await Redis.start(
        t,
        [
            ...lines({ 'tls-port': sentinelPort, requirepass: 'sent:nel' }),
            `sentinel monitor main 127.0.0.1 ${masterPort} 1`,
        ],
        { sentinel: true },
    );
    const place = `main:${encodeURIComponent('sent:nel')}@127.0.0.1:${sentinelPort}`;
    const url = `rediss+sentinel://gate:${encodeURIComponent('m@ster')}@${place}`;
    const { gateways } = await patientFleet(t, 1, url, {
        tenant: { budgets: [], rate: window(2) },
        top: { store_tls: { ca: cert } },
    });
    await twoOfThree(gateways[0]);
    for (const secret of ['m@ster', 'sent:nel'])
        assert.ok(!gateways[0].process.out.includes(secret));
});

test('Sentinel may have the password of the master, and not know its user', async (t) => {
    const master = await Redis.start(t);
    await master.ask('ACL', 'SETUSER', 'gate', 'on', '>s3cret', '~*', '+@all');
    const sentinel = await Redis.start(
        t,
        ['requirepass s3cret', `sentinel monitor main 127.0.0.1 ${master.port} 1`],
        { sentinel: true },
    );
    const url = `redis+sentinel://gate:s3cret@main@127.0.0.1:${sentinel.port}`;
    const { gateways } = await patientFleet(t, 1, url, {
        tenant: { budgets: [], rate: window(2) },
    });
    await twoOfThree(gateways[0]);
});

test('TLS, a user with a password and few rights', async (t) => {
    const { cert, options } = secured(t);
    const tlsPort = await freePort();
    const redis = await Redis.start(t, asArguments({ ...options, 'tls-port': tlsPort }));
    const password = 's3cr:et/@word';
    await redis.ask(
        ...['ACL', 'SETUSER', 'tollgate', 'on', `>${password}`, '~tg:*', 'resetchannels', '-@all'],
        ...['+eval', '+evalsha', '+ping', '+hello', '+auth', '+select', '+client|setname', '+role'],
        ...['+get', '+mget', '+set', '+time', '+@hash', '+@sortedset', '+@list', '+pexpire'],
        ...['+expire', '+pexpireat', '+del', '+unlink', '+exists', '+pttl', '+info'],
    );
    await redis.ask('ACL', 'SETUSER', 'default', 'off').catch(() => {});
    const user = `tollgate:${encodeURIComponent(password)}`;
    const { gateways } = await patientFleet(t, 1, `rediss://${user}@127.0.0.1:${tlsPort}/0`, {
        tenant: { budgets: [], rate: window(2) },
        top: { store_tls: { ca: cert } },
    });
    await twoOfThree(gateways[0]);
    noSecrets(gateways[0].process.out);
    assert.ok(!gateways[0].process.out.includes(password));
    assert.ok(!gateways[0].process.out.includes('s3cr'));
});
