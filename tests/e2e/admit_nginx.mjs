/* admit_nginx.mjs - the example for nginx of docs/api.md, in front of a server, with the limits of
 * Tollgate. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import test from 'node:test';
import { freePort, send, sha256, until, world } from './kit.mjs';

const TOKEN = 'token-of-nginx';
const EXAMPLE = new URL('../../examples/nginx/auth_request.conf', import.meta.url);
/* Debian has it where only root looks. */
const PATH = `${process.env.PATH}:/usr/sbin:/usr/local/sbin`;

async function nginx(t, folder, ports) {
    let example = fs.readFileSync(EXAMPLE, 'utf8');
    for (const [from, to] of [
        ['127.0.0.1:8080', `127.0.0.1:${ports.gateway}`],
        ['127.0.0.1:3000', `127.0.0.1:${ports.app}`],
        ['127.0.0.1:8088', `127.0.0.1:${ports.nginx}`],
        ['TOKEN-OF-THE-CALLER', TOKEN],
    ]) {
        assert.ok(example.includes(from), `the example has ${from}`);
        example = example.replaceAll(from, to);
    }
    const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
        .map((name) => `${name}_temp_path ${folder}/${name};`)
        .join(' ');
    const file = path.join(folder, 'nginx.conf');
    fs.writeFileSync(
        file,
        `daemon off; master_process off; pid ${folder}/nginx.pid; error_log stderr;
         events {} http { access_log off; ${temp} ${example} }`,
    );
    const child = spawn('nginx', ['-e', 'stderr', '-p', folder, '-c', file], {
        env: { ...process.env, PATH },
    });
    let said = '';
    child.stderr.on('data', (bytes) => (said += bytes));
    const ended = new Promise((done) => child.on('close', done));
    t.after(async () => {
        child.kill('SIGTERM');
        await ended;
    });
    await until(`nginx listens: ${said}`, async () => {
        assert.equal(child.exitCode, null, said);
        const socket = net.connect(ports.nginx, '127.0.0.1');
        return new Promise((done) => {
            socket.on('connect', () => done(true) || socket.destroy());
            socket.on('error', () => done(false));
        });
    });
}

test('nginx serves what Tollgate allows, and refuses the rest', async (t) => {
    let served = 0;
    const app = http.createServer((request, reply) => {
        served++;
        request.resume().on('end', () => reply.end(`hello ${request.method}`));
    });
    await new Promise((done) => app.listen(0, '127.0.0.1', done));
    t.after(() => app.close());
    const { gateway, folder } = await world(t, {
        top: {
            callers: [{ name: 'nginx', token_sha256: sha256(TOKEN), may: ['tenant'] }],
            gate: { rate: { strategy: 'gcra', limit: 3, period: '3m' } },
        },
    });
    const ports = { gateway: gateway.port, app: app.address().port, nginx: await freePort() };
    await nginx(t, folder, ports);
    const url = `http://127.0.0.1:${ports.nginx}`;
    /* A client cannot say whose limits are his: not by headers, nor by the query. */
    const tries = [
        ['/', undefined, {}],
        ['/a?tenant=x', 'a body', {}],
        ['/b', undefined, { 'x-tollgate-tenant': 'y', 'x-tollgate-priority': 'high' }],
        ['/?tenant=z', undefined, { 'x-tollgate-tenant': 'z' }],
        ['/', 'a body', {}],
    ];
    const replies = [];
    for (const [target, body, headers] of tries)
        replies.push(await send(url, target, body, { headers }));
    assert.deepEqual(
        replies.map((reply) => reply.status),
        [200, 200, 200, 429, 429],
    );
    assert.equal(String(replies[1].body), 'hello POST');
    assert.equal(replies[3].headers['x-tollgate-reason'], 'rate');
    assert.ok(Number(replies[3].headers['retry-after']) >= 1);
    assert.equal(served, 3);
    await gateway.stop();
    assert.equal((await send(url, '/')).status, 500, 'without an answer nobody is served');
});
