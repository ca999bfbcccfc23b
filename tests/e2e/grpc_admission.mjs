/* grpc_admission.mjs - tollgate.v1.Admission, called by @grpc/grpc-js as its users call it. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { fails, until } from './kit.mjs';
import {
    OTHER_TOKEN,
    TOKEN,
    admission,
    ask,
    callers,
    collect,
    fixed,
    grpc,
    metadata,
    serving,
} from './grpc_kit.mjs';

const { status } = grpc;
const NEVER = 2 ** 53 - 1;

const leases = async (gateway) => gateway.metric('concurrency_in_flight', 'gate="all"');

test('Admit gives a lease, Release takes it once', async (t) => {
    const { gateway, address } = await serving(t);
    const client = admission(t, address);
    const reply = await ask(client, 'Admit', { tenant: 'a', cost: 5 });
    assert.equal(reply.allowed, true);
    assert.equal(reply.reason, '');
    assert.equal(reply.axes.concurrency.limit, 100);
    assert.equal(reply.axes.concurrency.remaining, 99);
    assert.equal(reply.axes.rate, null);
    assert.match(reply.lease_id, /^[a-z0-9]+-[\w-]{40}$/);
    assert.ok(reply.lease_expires_at_ms > Date.now() + 20000);
    assert.equal((await ask(client, 'Release', { lease_id: reply.lease_id })).found, true);
    assert.equal((await ask(client, 'Release', { lease_id: reply.lease_id })).found, false);
    assert.equal((await ask(client, 'Release', { lease_id: 'nonsense' })).found, false);
    await gateway.idle();
});

test('a lease is nobody else’s: not to release, not to renew', async (t) => {
    const { gateway, address } = await serving(t);
    const client = admission(t, address);
    const { lease_id } = await ask(client, 'Admit');
    const as = { token: OTHER_TOKEN };
    assert.equal((await ask(client, 'Release', { lease_id }, as)).found, false);
    const beat = await ask(client, 'Heartbeat', { lease_ids: [lease_id] }, as);
    assert.deepEqual(beat.live_ids, []);
    assert.deepEqual(beat.reclaimed_ids, [lease_id]);
    assert.equal(beat.next_deadline_ms, 0);
    assert.equal((await ask(client, 'Release', { lease_id })).found, true);
    await gateway.idle();
});

test('Heartbeat renews what lives and names what does not', async (t) => {
    const { gateway, address } = await serving(t);
    const client = admission(t, address);
    const first = await ask(client, 'Admit', { ttl_ms: 60000 });
    const gone = await ask(client, 'Admit');
    await ask(client, 'Release', { lease_id: gone.lease_id });
    const beat = await ask(client, 'Heartbeat', { lease_ids: [gone.lease_id, first.lease_id] });
    assert.deepEqual(beat.live_ids, [first.lease_id]);
    assert.deepEqual(beat.reclaimed_ids, [gone.lease_id]);
    assert.ok(beat.next_deadline_ms >= first.lease_expires_at_ms);
    const many = await fails(
        ask(client, 'Heartbeat', { lease_ids: Array(1025).fill(first.lease_id) }),
    );
    assert.equal(many.code, status.INVALID_ARGUMENT);
    assert.match(many.details, /lease_ids/);
    await ask(client, 'Release', { lease_id: first.lease_id });
    await gateway.idle();
});

test('a lease that nobody renews ends by itself', async (t) => {
    const { gateway, address } = await serving(t);
    const client = admission(t, address);
    const { lease_id } = await ask(client, 'Admit', { ttl_ms: 1 });
    await until('it has ended', async () => (await leases(gateway)) === 0);
    assert.equal((await ask(client, 'Release', { lease_id })).found, false);
});

test('a lease may end with its connection', async (t) => {
    const { gateway, address } = await serving(t);
    const dying = admission(t, address);
    const other = admission(t, address);
    await ask(dying, 'Admit', { end_with_connection: true });
    const { lease_id } = await ask(dying, 'Admit');
    assert.equal(await leases(gateway), 2);
    dying.close();
    await until('the one has ended', async () => (await leases(gateway)) === 1);
    assert.equal((await ask(other, 'Release', { lease_id })).found, true);
    await gateway.idle();
});

test('the fifth of four: an answer by default, RESOURCE_EXHAUSTED if enforced', async (t) => {
    const { gateway, address } = await serving(t, { top: { gate: fixed(4) } });
    const client = admission(t, address);
    const held = [];
    for (let i = 0; i < 4; i++) held.push(await ask(client, 'Admit'));
    const plain = await ask(client, 'Admit');
    assert.equal(plain.allowed, false);
    assert.equal(plain.reason, 'concurrency');
    assert.equal(plain.binding_axis, 'concurrency');
    assert.match(plain.message, /^server overloaded/);
    assert.equal(plain.lease_id, '');
    const error = await fails(ask(client, 'Admit', {}, { more: { 'x-tollgate-enforce': '1' } }));
    assert.equal(error.code, status.RESOURCE_EXHAUSTED);
    assert.match(error.details, /^server overloaded/);
    assert.ok(Number(error.metadata.get('grpc-retry-after-ms')[0]) >= 1);
    assert.equal(error.metadata.get('x-tollgate-reason')[0], 'concurrency');
    assert.equal(error.metadata.get('x-tollgate-binding-axis')[0], 'concurrency');
    for (const { lease_id } of held) await ask(client, 'Release', { lease_id });
    assert.equal((await ask(client, 'Admit', {}, { more: { 'x-tollgate-enforce': '1' } })).allowed, true);
});

/* What any client of gRPC does that is told to repeat refused calls. */
const RETRYING = {
    'grpc.service_config': JSON.stringify({
        methodConfig: [
            {
                name: [{ service: 'tollgate.v1.Admission' }],
                retryPolicy: {
                    maxAttempts: 3,
                    initialBackoff: '0.001s',
                    maxBackoff: '0.001s',
                    backoffMultiplier: 1,
                    retryableStatusCodes: ['RESOURCE_EXHAUSTED', 'INVALID_ARGUMENT'],
                },
            },
        ],
    }),
};

test('a stock client with a retry policy obeys the push-back, and gives up where it is told to', async (t) => {
    const { gateway, address } = await serving(t, {
        top: {
            gate: {
                rate: { strategy: 'gcra', limit: 2, period: '1s', burst: 1 },
                cost: { strategy: 'token_bucket', capacity: 100, refill: 0.001 },
            },
        },
    });
    const client = admission(t, address, RETRYING);
    const enforced = { more: { 'x-tollgate-enforce': '1' } };
    const asked = async () => (await gateway.metric('requests_total')) ?? 0;
    const plain = admission(t, address);
    assert.equal((await ask(plain, 'Admit', { tenant: 'a' })).allowed, true);
    const error = await fails(ask(plain, 'Admit', { tenant: 'a' }, enforced));
    const hint = Number(error.metadata.get('grpc-retry-pushback-ms')[0]);
    assert.ok(hint > 300 && hint <= 550, `half a second, and a tenth: ${hint}`);
    assert.deepEqual(error.metadata.get('grpc-retry-after-ms'), [`${hint}`]);
    const details = error.metadata.get('grpc-status-details-bin')[0];
    assert.ok(details.includes('type.googleapis.com/google.rpc.RetryInfo'));
    /* With a back-off of 1 ms and three attempts it would fail; with the hint it does not. */
    assert.equal((await ask(client, 'Admit', { tenant: 'a' }, enforced)).allowed, true);
    /* What can never pass is asked once. */
    const before = await asked();
    const never = await fails(ask(client, 'Admit', { tenant: 'b', cost: 101 }, enforced));
    assert.equal(never.code, status.INVALID_ARGUMENT);
    assert.deepEqual(never.metadata.get('grpc-retry-pushback-ms'), ['-1']);
    assert.equal((await asked()) - before, 1);
});

test('HIGH gets through a server filled with LOW, by headroom', async (t) => {
    const { address } = await serving(t, {
        top: { gate: fixed(4, { low_priority_shed_ratio: 0.5 }) },
    });
    const client = admission(t, address);
    const enforce = (priority) =>
        ask(client, 'Admit', {}, { more: { 'x-tollgate-enforce': '1', 'x-deriva-priority': priority } });
    const low = await Promise.allSettled(Array.from({ length: 8 }, () => enforce('low')));
    const refused = low.filter((one) => one.status === 'rejected');
    assert.equal(refused.length, 6, 'low may hold half of four');
    for (const one of refused) assert.equal(one.reason.code, status.RESOURCE_EXHAUSTED);
    assert.equal((await enforce('high')).allowed, true);
    assert.equal((await enforce('high')).allowed, true);
    assert.equal((await fails(enforce('high'))).code, status.RESOURCE_EXHAUSTED);
});

test('who waits gets the slot that comes free', async (t) => {
    const { gateway, address } = await serving(t, {
        top: { gate: fixed(1, { queue: { wait: { normal: '1h' } } }) },
    });
    const client = admission(t, address);
    const first = await ask(client, 'Admit');
    const second = ask(client, 'Admit');
    await until('it waits', async () => (await gateway.metric('concurrency_queued')) === 1);
    await ask(client, 'Release', { lease_id: first.lease_id });
    const { allowed, lease_id } = await second;
    assert.equal(allowed, true);
    await ask(client, 'Release', { lease_id });
    await gateway.idle();
});

test('who waits and leaves, or whose deadline comes, holds nothing', async (t) => {
    const { gateway, address } = await serving(t, {
        top: { gate: fixed(1, { queue: { wait: { normal: '1h' } } }) },
    });
    const client = admission(t, address);
    const { lease_id } = await ask(client, 'Admit');
    const queued = async (n) =>
        until(`${n} wait`, async () => (await gateway.metric('concurrency_queued')) === n);
    const leaving = ask(client, 'Admit');
    await queued(1);
    leaving.call.cancel();
    assert.equal((await fails(leaving)).code, status.CANCELLED);
    await queued(0);
    const late = await fails(ask(client, 'Admit', {}, { deadline: Date.now() + 50 }));
    assert.equal(late.code, status.DEADLINE_EXCEEDED);
    await queued(0);
    /* Of the message: an answer, which says why. */
    const short = await ask(client, 'Admit', { timeout_ms: 20 });
    assert.equal(short.allowed, false);
    assert.equal(short.reason, 'concurrency');
    await ask(client, 'Release', { lease_id });
    await gateway.idle();
});

test('rate and cost: what is left, when to come back, what can never be', async (t) => {
    const { address } = await serving(t, {
        top: {
            gate: {
                rate: { strategy: 'gcra', limit: 2, period: '1h', burst: 2 },
                cost: { strategy: 'token_bucket', capacity: 100, refill: 0.001 },
            },
        },
    });
    const client = admission(t, address);
    const first = await ask(client, 'Admit', { tenant: 'a', cost: 30 });
    assert.equal(first.axes.rate.remaining, 1);
    assert.equal(first.axes.cost.remaining, 70);
    assert.equal(first.axes.concurrency.limit, 1024); /* what serve takes without a section */
    const peek = await ask(client, 'Peek', { tenant: 'a', cost: 30 });
    assert.equal(peek.allowed, true);
    assert.equal(peek.lease_id, '');
    assert.equal((await ask(client, 'Peek', { tenant: 'a', cost: 30 })).axes.cost.remaining, peek.axes.cost.remaining);
    /* Ten of thirty were used. */
    await ask(client, 'Release', { lease_id: first.lease_id, actual: 10 });
    const second = await ask(client, 'Admit', { tenant: 'a', cost: 90 });
    assert.equal(second.allowed, true);
    const third = await ask(client, 'Admit', { tenant: 'a', cost: 0 });
    assert.equal(third.allowed, false);
    assert.equal(third.binding_axis, 'rate');
    assert.ok(third.retry_after_ms > 1000000 && third.retry_after_ms < NEVER);
    const never = await ask(client, 'Admit', { tenant: 'b', cost: 101 });
    assert.equal(never.allowed, false);
    assert.equal(never.retry_after_ms, NEVER);
    assert.equal(never.reason, 'request_exceeds_limit');
    assert.equal(never.binding_axis, 'cost');
    const enforced = await fails(
        ask(client, 'Admit', { tenant: 'b', cost: 101 }, { more: { 'x-tollgate-enforce': '1' } }),
    );
    assert.equal(enforced.code, status.INVALID_ARGUMENT);
    assert.equal(enforced.metadata.get('x-tollgate-reason')[0], 'request_exceeds_limit');
    assert.deepEqual(enforced.metadata.get('grpc-retry-after-ms'), []);
    const limits = await ask(client, 'Admit', { tenant: 'c', limits_only: true });
    assert.equal(limits.allowed, true);
    assert.equal(limits.lease_id, '');
});

test('who is nobody, and who says more than he may, is told so', async (t) => {
    const { address } = await serving(t, { top: { callers: callers(['tenant']) } });
    const client = admission(t, address);
    for (const method of ['Admit', 'Release', 'Heartbeat', 'Peek']) {
        for (const token of [null, 'wrong'])
            assert.equal((await fails(ask(client, method, {}, { token }))).code, status.UNAUTHENTICATED);
    }
    assert.equal((await ask(client, 'Admit', { tenant: 'x' })).allowed, true);
    for (const [field, value] of [
        ['peer', 'p'],
        ['priority', 'PRIORITY_HIGH'],
        ['value', 3],
    ]) {
        const error = await fails(ask(client, 'Admit', { [field]: value }));
        assert.equal(error.code, status.PERMISSION_DENIED);
        assert.ok(error.details.includes(field), error.details);
    }
});

test('a field that makes no sense is named', async (t) => {
    const { gateway, address } = await serving(t);
    const client = admission(t, address);
    for (const [field, value] of [
        ['cost', -1],
        ['value', -1],
        ['value', NaN],
        ['value', Infinity],
        ['hold_s', NaN],
        ['hold_s', -1],
        ['ttl_ms', -1],
        ['timeout_ms', -1],
        ['priority', 9],
        ['tenant', 'x'.repeat(1000)],
    ]) {
        const error = await fails(ask(client, 'Admit', { [field]: value }));
        assert.equal(error.code, status.INVALID_ARGUMENT, `${field} ${value}`);
        assert.ok(error.details.includes(field), error.details);
    }
    const { lease_id } = await ask(client, 'Admit');
    for (const [field, value] of [
        ['outcome', 7],
        ['actual', -1],
        ['sample_ms', NaN],
    ]) {
        const error = await fails(ask(client, 'Release', { lease_id, [field]: value }));
        assert.equal(error.code, status.INVALID_ARGUMENT);
        assert.ok(error.details.includes(field), error.details);
    }
    assert.equal((await ask(client, 'Release', { lease_id, outcome: 'OUTCOME_DROPPED' })).found, true);
    await gateway.idle();
});

test('the node that a caller names is a peer, and fairness counts it', async (t) => {
    const { address } = await serving(t, { top: { gate: fixed(100, { peers: { limit: 2 } }) } });
    const client = admission(t, address);
    const of = (node) =>
        ask(client, 'Admit', {}, { more: { 'x-deriva-node-id': node, 'x-tollgate-enforce': '1' } });
    await of('n1');
    await of('n1');
    const error = await fails(of('n1'));
    assert.equal(error.code, status.RESOURCE_EXHAUSTED);
    assert.match(error.details, /^peer n1 exceeded per-peer limit/);
    assert.equal((await of('n2')).allowed, true);
});

/* ---- AdmitStream ---- */

const stream = (client, token = TOKEN) => collect(client.AdmitStream(metadata(token)));

test('AdmitStream: decisions, releases, heartbeats and errors on one stream', async (t) => {
    const { gateway, address } = await serving(t);
    const { call, got, ended } = stream(admission(t, address));
    call.write({ id: 1, admit: { tenant: 'a' } });
    call.write({ id: 2, admit: { cost: -1 } });
    call.write({ id: 3 });
    await until('three answers', () => got.length === 3);
    assert.deepEqual(
        got.map(({ id, what }) => [id, what]),
        [
            [1, 'admit'],
            [2, 'error'],
            [3, 'error'],
        ],
    );
    assert.equal(got[1].error.code, status.INVALID_ARGUMENT);
    assert.match(got[1].error.message, /cost/);
    const { lease_id } = got[0].admit;
    call.write({ id: 4, heartbeat: { lease_ids: [lease_id] } });
    call.write({ id: 5, release: { lease_id } });
    call.write({ id: 6, release: { lease_id } });
    call.end();
    assert.equal((await ended).code, status.OK);
    assert.deepEqual(got[3].heartbeat.live_ids, [lease_id]);
    assert.equal(got[4].release.found, true);
    assert.equal(got[5].release.found, false);
    await gateway.idle();
});

test('AdmitStream: those that wait are answered later, the others are not held up', async (t) => {
    const { gateway, address } = await serving(t, {
        top: { gate: fixed(1, { queue: { wait: { normal: '1h', low: '0ms' } } }) },
    });
    const { call, got, ended } = stream(admission(t, address));
    call.write({ id: 1, admit: {} });
    call.write({ id: 2, admit: {} });
    call.write({ id: 3, admit: { priority: 'PRIORITY_LOW' } });
    await until('two answers', () => got.length === 2);
    assert.deepEqual(
        got.map(({ id, admit }) => [id, admit.allowed]),
        [
            [1, true],
            [3, false],
        ],
    );
    call.write({ id: 4, release: { lease_id: got[0].admit.lease_id } });
    call.end();
    assert.equal((await ended).code, status.OK);
    assert.deepEqual(
        got.slice(2).map(({ id }) => id).sort(),
        [2, 4],
    );
    const { lease_id } = got.find(({ id }) => id === 2).admit;
    assert.equal((await ask(admission(t, address), 'Release', { lease_id })).found, true);
    await gateway.idle();
});

test('AdmitStream: a stream that breaks gives up what waits', async (t) => {
    const { gateway, address } = await serving(t, {
        top: { gate: fixed(1, { queue: { wait: { normal: '1h' } } }) },
    });
    const client = admission(t, address);
    const { lease_id } = await ask(client, 'Admit');
    const { call } = stream(client);
    for (let id = 0; id < 50; id++) call.write({ id, admit: {} });
    await until('all wait', async () => (await gateway.metric('concurrency_queued')) === 50);
    call.cancel();
    await until('none waits', async () => (await gateway.metric('concurrency_queued')) === 0);
    await ask(client, 'Release', { lease_id });
    await gateway.idle();
});

test('AdmitStream: ten thousand decisions, each answered once', async (t) => {
    const { gateway, address } = await serving(t, { top: { gate: fixed(100) } });
    const { call, got, ended } = stream(admission(t, address));
    for (let id = 0; id < 10000; id++)
        if (!call.write({ id, admit: { limits_only: true } }))
            await new Promise((done) => call.once('drain', done));
    call.end();
    assert.equal((await ended).code, status.OK);
    assert.equal(new Set(got.map(({ id }) => id)).size, 10000);
    assert.equal(got.length, 10000);
    assert.ok(got.every(({ admit }) => admit.allowed));
    await gateway.idle();
});

test('AdmitStream: nobody is told so, and the stream ends', async (t) => {
    const { address } = await serving(t);
    assert.equal((await stream(admission(t, address), 'wrong').ended).code, status.UNAUTHENTICATED);
});
