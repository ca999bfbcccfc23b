/* grpc_kit.mjs - gRPC clients of a gateway, by @grpc/grpc-js and the contracts in proto/. */
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { need, sha256, world } from './kit.mjs';

export const grpc = need('@grpc/grpc-js');
const loader = need('@grpc/proto-loader');

const PROTO = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../proto');
const FILES = [
    'tollgate/v1/admission.proto',
    'tollgate/v1/monitor.proto',
    'grpc/health/v1/health.proto',
    'grpc/reflection/v1/reflection.proto',
    'grpc/reflection/v1alpha/reflection.proto',
    'envoy/service/ratelimit/v3/rls.proto',
    'envoy/service/auth/v3/external_auth.proto',
];

/* Numbers as numbers: none here is above 2^53-1. */
export const api = grpc.loadPackageDefinition(
    loader.loadSync(FILES, {
        includeDirs: [PROTO],
        keepCase: true,
        longs: Number,
        enums: String,
        defaults: true,
        oneofs: true,
    }),
);

export const TOKEN = 'token-of-the-caller-named-envoy';
export const OTHER_TOKEN = 'token-of-another-caller';

export const callers = (may = ['tenant', 'peer', 'priority', 'value']) => [
    { name: 'envoy', token_sha256: sha256(TOKEN), may },
    { name: 'other', token_sha256: sha256(OTHER_TOKEN), may },
];

/* A gate of this many, at which nobody waits unless he is told to. */
export const fixed = (initial, more = {}) => ({
    concurrency: { law: 'fixed', initial },
    queue: { wait: { high: '0ms', normal: '0ms', low: '0ms' } },
    low_priority_shed_ratio: 1,
    ...more,
});

/* A gateway that serves gRPC: {gateway, address}. */
export async function serving(t, { top = {}, listen = {}, ...more } = {}) {
    const made = await world(t, {
        ...more,
        listen: { grpc: '127.0.0.1:0', ...listen },
        top: { callers: callers(), gate: fixed(100), ...top },
    });
    const port = /127\.0\.0\.1:(\d+) \(grpc\)/.exec(made.gateway.process.out)[1];
    return { ...made, port, address: `127.0.0.1:${port}` };
}

/* Each has a connection of its own, unless the options say otherwise. */
export function client(t, Service, address, options = {}, credentials) {
    const made = new Service(address, credentials ?? grpc.credentials.createInsecure(), {
        'grpc.use_local_subchannel_pool': 1,
        ...options,
    });
    t.after(() => made.close());
    return made;
}

export const admission = (t, address, ...more) =>
    client(t, api.tollgate.v1.Admission, address, ...more);

export function metadata(token, more = {}) {
    const made = new grpc.Metadata();
    if (token) made.set('authorization', `Bearer ${token}`);
    for (const [name, value] of Object.entries(more)) made.set(name, value);
    return made;
}

/* One RPC: its reply, with `trailers`, or the error that it ended with. */
export function ask(client, method, request = {}, { token = TOKEN, more, ...options } = {}) {
    let trailers;
    let call;
    const reply = new Promise((done, fail) => {
        call = client[method](request, metadata(token, more), options, (error, value) =>
            error ? fail(error) : done({ ...value, trailers }),
        );
        call.on('status', (status) => (trailers = status.metadata));
    });
    reply.call = call;
    return reply;
}

/* A stream whose messages are kept: {call, got, ended}, `ended` a promise of its status. */
export function collect(call) {
    const stream = { call, got: [] };
    call.on('data', (message) => stream.got.push(message));
    call.on('error', () => 0);
    stream.ended = new Promise((done) => call.on('status', done));
    return stream;
}
