/* grpc_examples.mjs - the clients in examples/, as they stand there: they get in, they come back
 * when they are told to, and they give up. docs/api.md leads to them. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { until } from './kit.mjs';
import { TOKEN, admission, ask, fixed, serving } from './grpc_kit.mjs';

const ROOT = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const PROTO = path.join(ROOT, 'proto');
const MODULES = path.resolve(process.env.E2E_MODULES ?? 'build/e2e');

function scratch(t, under) {
    const folder = fs.mkdtempSync(path.join(under, 'example-'));
    t.after(() => fs.rmSync(folder, { recursive: true }));
    return folder;
}

/* Beside the modules it imports. */
function nodeClient(t) {
    const folder = scratch(t, MODULES);
    fs.copyFileSync(path.join(ROOT, 'examples/node-grpc/client.mjs'), path.join(folder, 'client.mjs'));
    return (address) => [
        process.execPath,
        [path.join(folder, 'client.mjs')],
        { TOLLGATE: address, TOKEN, PROTO },
    ];
}

/* As its head says. */
function cClient(t) {
    const folder = scratch(t, os.tmpdir());
    const run = (command, ...args) => execFileSync(command, args, { cwd: folder });
    run('protoc-c', `--proto_path=${PROTO}`, '--c_out=.', 'tollgate/v1/admission.proto');
    run(
        process.env.CC ?? 'cc',
        ...['-std=c11', '-D_POSIX_C_SOURCE=200809L', '-Wall', '-Wextra', '-Werror', '-I.'],
        path.join(ROOT, 'examples/c-grpc/admit_client.c'),
        ...['tollgate/v1/admission.pb-c.c', '-lcurl', '-lprotobuf-c', '-o', 'client'],
    );
    return (address) => [path.join(folder, 'client'), [`http://${address}`, TOKEN], {}];
}

/* A client that runs: {out, ended}, `ended` a promise of its exit status. */
function start([program, args, env]) {
    const child = spawn(program, args, { env: { ...process.env, ...env } });
    const client = { out: '' };
    for (const stream of [child.stdout, child.stderr])
        stream.on('data', (bytes) => (client.out += bytes));
    client.ended = new Promise((done) => child.on('close', done));
    return client;
}

for (const [name, make] of [
    ['node-grpc', nodeClient],
    ['c-grpc', cClient],
]) {
    test(`${name}: admitted, released`, async (t) => {
        const { gateway, address } = await serving(t, { top: { gate: fixed(1) } });
        const client = start(make(t)(address));
        assert.equal(await client.ended, 0, client.out);
        assert.match(client.out, /the work is done/);
        await gateway.idle();
    });

    test(`${name}: comes back when there is room, gives up when there is none`, async (t) => {
        const { gateway, address } = await serving(t, { top: { gate: fixed(1) } });
        const holder = admission(t, address);
        const command = make(t)(address);
        const { lease_id } = await ask(holder, 'Admit', { ttl_ms: 60000 });
        const patient = start(command);
        await until('it was refused', () => /refused: server overloaded/.test(patient.out));
        await ask(holder, 'Release', { lease_id });
        assert.equal(await patient.ended, 0, patient.out);
        assert.match(patient.out, /; again in \d+ ms\n[^]*the work is done/);
        const held = await ask(holder, 'Admit', { ttl_ms: 60000 });
        const refused = start(command);
        assert.equal(await refused.ended, 1, refused.out);
        assert.equal(refused.out.match(/; again in/g).length, 2, refused.out);
        assert.match(refused.out, /not admitted: server overloaded/);
        await ask(holder, 'Release', { lease_id: held.lease_id });
        await gateway.idle();
    });
}
