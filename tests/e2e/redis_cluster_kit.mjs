/* redis_cluster_kit.mjs - Redis as a cluster, or with a replica that Sentinel makes the master. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { until } from './kit.mjs';
import { Redis } from './redis_kit.mjs';

export const run = (file, args) =>
    new Promise((done, fail) =>
        execFile(file, args, (error, out, err) => (error ? fail(new Error(out + err)) : done(out))),
    );

export async function startCluster(t, replicas) {
    const n = 3 * (1 + replicas);
    const nodes = [];
    for (let i = 0; i < n; i++)
        nodes.push(
            await Redis.start(t, ['--cluster-enabled', 'yes', '--cluster-node-timeout', '1000']),
        );
    const addresses = nodes.map((node) => `127.0.0.1:${node.port}`);
    await run('redis-cli', [
        ...['--cluster', 'create', ...addresses, '--cluster-replicas', `${replicas}`],
        '--cluster-yes',
    ]);
    for (const node of nodes) {
        await until('the cluster is there', async () =>
            /cluster_state:ok/.test(await node.ask('CLUSTER', 'INFO')),
        );
        await until('a replica follows', async () =>
            /role:master|master_link_status:up/.test(await node.ask('INFO', 'replication')),
        );
    }
    return { nodes, url: `redis+cluster://${addresses.slice(0, 3).join(',')}` };
}

/* The slot of a key, from its node to the next; `meanwhile` is waited for when half of its keys have gone, or
 * those whose names fit `first`. */
export async function moveSlot(nodes, key, meanwhile = () => {}, first = null) {
    const slot = await nodes[0].ask('CLUSTER', 'KEYSLOT', key);
    const ids = await Promise.all(nodes.map((node) => node.ask('CLUSTER', 'MYID')));
    const owners = await Promise.all(
        nodes.map(async (node) => Number(await node.ask('CLUSTER', 'COUNTKEYSINSLOT', slot))),
    );
    const from = owners.findIndex((count) => count > 0);
    assert.ok(from >= 0, 'there are keys in it');
    const to = (from + 1) % 3;
    await nodes[to].ask('CLUSTER', 'SETSLOT', slot, 'IMPORTING', ids[from]);
    await nodes[from].ask('CLUSTER', 'SETSLOT', slot, 'MIGRATING', ids[to]);
    for (let half = first ? 99 : Math.ceil(owners[from] / 2), fit = first; ; half = 100, fit = null) {
        const keys = (await nodes[from].ask('CLUSTER', 'GETKEYSINSLOT', slot, `${half}`))
            .split('\n')
            .filter((name) => name && (!fit || fit.test(name)));
        if (keys.length === 0) break;
        await nodes[from].ask(
            ...['MIGRATE', '127.0.0.1', `${nodes[to].port}`, '', '0', '5000', 'KEYS', ...keys],
        );
        if (half !== 100) await meanwhile();
    }
    for (const node of [nodes[to], nodes[from], nodes[3 - to - from]])
        await node.ask('CLUSTER', 'SETSLOT', slot, 'NODE', ids[to]);
}

/* A master, a replica of it, and a sentinel that knows both. */
export async function startSentinel(t) {
    const master = await Redis.start(t);
    const replica = await Redis.start(t, ['--replicaof', '127.0.0.1', `${master.port}`]);
    await until('it follows', async () => (await replica.info('master_link_status')) === 'up');
    const sentinel = await Redis.start(
        t,
        [
            `sentinel monitor main 127.0.0.1 ${master.port} 1`,
            'sentinel down-after-milliseconds main 500',
            'sentinel failover-timeout main 5000',
        ],
        { sentinel: true },
    );
    await until('the sentinel knows the replica', async () =>
        (await sentinel.ask('SENTINEL', 'REPLICAS', 'main')).includes(`${replica.port}`),
    );
    return { master, replica, url: `redis+sentinel://main@127.0.0.1:${sentinel.port}` };
}
