/* grpc_monitor.mjs - tollgate.v1.Monitor and grpc.health.v1.Health, called by @grpc/grpc-js. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { ADMIN_TOKEN, fails, until } from './kit.mjs';
import {
    TOKEN,
    admission,
    api,
    ask,
    client,
    collect,
    fixed,
    grpc,
    metadata,
    serving,
} from './grpc_kit.mjs';

const { status } = grpc;
const watched = (t, top = {}) =>
    serving(t, { top: { admin_auth: { token: ADMIN_TOKEN }, gate: fixed(1), ...top } });
const monitor = (t, address, ...more) => client(t, api.tollgate.v1.Monitor, address, ...more);
const health = (t, address) => client(t, api.grpc.health.v1.Health, address);

test('GetSnapshot: main numbers as fields, and the whole as the admin API has it', async (t) => {
    const { address } = await watched(t);
    const caller = admission(t, address);
    const { lease_id } = await ask(caller, 'Admit', { tenant: 'a' });
    assert.equal((await ask(caller, 'Admit', { tenant: 'a' })).allowed, false);
    const as = { token: ADMIN_TOKEN };
    const seen = await until('the refusal is counted', async () => {
        const now = await ask(monitor(t, address), 'GetSnapshot', {}, as);
        return now.denials.length > 0 && now;
    });
    const gate = seen.gates.find(({ name }) => name === 'all');
    assert.equal(gate.in_flight, 1);
    assert.equal(gate.limit, 1);
    assert.equal(gate.law, 'fixed');
    assert.equal(gate.leases, 1);
    assert.equal(seen.ready, true);
    assert.equal(seen.draining, false);
    assert.equal(seen.generation, 1);
    assert.ok(seen.now_ms >= seen.started_at_ms && seen.started_at_ms > 0);
    assert.equal(seen.denials[0].reason, 'concurrency');
    assert.equal(seen.denials[0].tenant, 'a');
    const whole = JSON.parse(seen.json);
    assert.equal(whole.version, seen.version);
    assert.equal(whole.config.hash, seen.config_hash);
    assert.equal(whole.gates.find(({ name }) => name === 'all').in_flight, 1);
    const small = await ask(monitor(t, address), 'GetSnapshot', { without_json: true }, as);
    assert.equal(small.json, '');
    assert.equal(small.gates.length, 1);
    await ask(caller, 'Release', { lease_id });
});

test('Monitor is for the administrator alone', async (t) => {
    const { address } = await watched(t);
    for (const token of [null, 'wrong', TOKEN]) {
        const error = await fails(ask(monitor(t, address), 'GetSnapshot', {}, { token }));
        assert.equal(error.code, status.UNAUTHENTICATED);
        const stream = collect(monitor(t, address).Watch({}, metadata(token)));
        assert.equal((await stream.ended).code, status.UNAUTHENTICATED);
    }
    const closed = await serving(t);
    const error = await fails(ask(monitor(t, closed.address), 'GetSnapshot', {}, { token: 'any' }));
    assert.equal(error.code, status.PERMISSION_DENIED);
});

test('Watch tells of refusals that match, from now on', async (t) => {
    const { address } = await watched(t);
    const caller = admission(t, address);
    const { lease_id } = await ask(caller, 'Admit', { tenant: 'a' });
    await ask(caller, 'Admit', { tenant: 'before' });
    const open = async (filter) => {
        const call = monitor(t, address).Watch(filter, metadata(ADMIN_TOKEN));
        const stream = collect(call);
        await new Promise((done) => call.once('metadata', done));
        return stream;
    };
    const all = await open({});
    const mine = await open({ tenant: 'a', reason: 'concurrency' });
    const none = await open({ reason: 'cost' });
    await ask(caller, 'Admit', { tenant: 'a', model: 'm' });
    await ask(caller, 'Admit', { tenant: 'b' });
    await until('both were told', () => all.got.length >= 2 && mine.got.length >= 1);
    assert.deepEqual(
        all.got.map(({ denial }) => denial.tenant),
        ['a', 'b'],
    );
    assert.equal(mine.got.length, 1);
    const { denial, dropped } = mine.got[0];
    assert.equal(dropped, 0);
    assert.equal(denial.model, 'm');
    assert.equal(denial.reason, 'concurrency');
    assert.equal(denial.binding_axis, 'concurrency');
    assert.match(denial.id, /^req_/);
    assert.match(denial.text, /server overloaded/);
    assert.equal(none.got.length, 0);
    for (const stream of [all, mine, none]) stream.call.cancel();
    await ask(caller, 'Release', { lease_id });
});

test('Watch: there are so many watchers and no more, and who leaves makes room', async (t) => {
    const { address } = await watched(t, { workers: 1 });
    const watching = monitor(t, address);
    const open = () => collect(watching.Watch({}, metadata(ADMIN_TOKEN)));
    const streams = Array.from({ length: 16 }, open);
    await Promise.all(
        streams.map(({ call }) => new Promise((done) => call.once('metadata', done))),
    );
    const more = open();
    assert.equal((await more.ended).code, status.RESOURCE_EXHAUSTED);
    streams.pop().call.cancel();
    await until('there is room again', async () => {
        const call = watching.Watch({}, metadata(ADMIN_TOKEN));
        call.on('error', () => 0);
        const begun = await new Promise((done) => {
            call.once('metadata', () => done(true));
            call.once('status', () => done(false));
        });
        return begun && call;
    });
});

test('Health: known services serve, others are not found', async (t) => {
    const { address } = await serving(t);
    const asking = health(t, address);
    for (const service of [
        '',
        'tollgate.v1.Admission',
        'tollgate.v1.Monitor',
        'grpc.health.v1.Health',
        'ratelimit',
        'envoy.service.ratelimit.v3.RateLimitService',
    ])
        assert.equal(
            (await ask(asking, 'Check', { service }, { token: null })).status,
            'SERVING',
        );
    assert.equal(
        (await fails(ask(asking, 'Check', { service: 'x' }, { token: null }))).code,
        status.NOT_FOUND,
    );
    const unknown = collect(asking.Watch({ service: 'x' }));
    await until('it is told', () => unknown.got.length === 1);
    assert.equal(unknown.got[0].status, 'SERVICE_UNKNOWN');
    unknown.call.cancel();
});

test('Health: the list has all that Check knows', async (t) => {
    const { address } = await serving(t);
    const { statuses } = await ask(health(t, address), 'List', {}, { token: null });
    assert.deepEqual(Object.keys(statuses).sort(), [
        '',
        'envoy.service.auth.v3.Authorization',
        'envoy.service.ratelimit.v3.RateLimitService',
        'grpc.health.v1.Health',
        'grpc.reflection.v1.ServerReflection',
        'grpc.reflection.v1alpha.ServerReflection',
        'ratelimit',
        'tollgate.v1.Admission',
        'tollgate.v1.Monitor',
    ]);
    for (const service of Object.keys(statuses)) {
        assert.equal(statuses[service].status, 'SERVING', service);
        const { status } = await ask(health(t, address), 'Check', { service }, { token: null });
        assert.equal(status, 'SERVING', service);
    }
});

test('draining: Health says so, streams come to their end, what waits is answered', async (t) => {
    const { gateway, address } = await watched(t, {
        gate: fixed(1, { queue: { wait: { normal: '1h' } } }),
    });
    const caller = admission(t, address);
    const { lease_id } = await ask(caller, 'Admit');
    const watching = collect(health(t, address).Watch({}));
    const denials = collect(monitor(t, address).Watch({}, metadata(ADMIN_TOKEN)));
    const idle = collect(caller.AdmitStream(metadata(TOKEN)));
    const busy = collect(caller.AdmitStream(metadata(TOKEN)));
    busy.call.write({ id: 1, admit: {} });
    await until('it serves', () => watching.got.length === 1);
    await until('one waits', async () => (await gateway.metric('concurrency_queued')) === 1);
    gateway.process.child.kill('SIGTERM');
    assert.equal((await watching.ended).code, status.UNAVAILABLE);
    assert.deepEqual(
        watching.got.map((one) => one.status),
        ['SERVING', 'NOT_SERVING'],
    );
    assert.equal((await denials.ended).code, status.UNAVAILABLE);
    assert.equal((await idle.ended).code, status.UNAVAILABLE);
    assert.equal(busy.got.length, 0);
    busy.call.write({ id: 2, release: { lease_id } });
    assert.equal((await busy.ended).code, status.UNAVAILABLE);
    assert.equal(busy.got.length, 2);
    assert.ok(busy.got.find(({ id }) => id === 1).admit.allowed);
    await gateway.process.ended;
    assert.equal(gateway.process.code, 0);
});
