/* client.mjs - asks Tollgate before it works, and retries when it is told to.
 *
 *     npm install && TOLLGATE=127.0.0.1:50051 TOKEN=... npm start
 *
 * TOLLGATE   the address of listen.grpc; default 127.0.0.1:50051
 * TOKEN      the token of a caller in the configuration
 * PROTO      the folder with the contracts; default ../../proto
 *
 * It asks for refusals as a status (x-tollgate-enforce), so that the usual error handling applies.
 * The back-off is a random time of 50 to 200 ms, doubled after each attempt, but never less than
 * the server says, and it makes three attempts in all. Jitter keeps clients that were refused
 * together from coming back together.
 */
import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';

const ATTEMPTS = 3;
const PROTO = process.env.PROTO ?? new URL('../../proto', import.meta.url).pathname;

const { tollgate } = grpc.loadPackageDefinition(
    loader.loadSync('tollgate/v1/admission.proto', {
        includeDirs: [PROTO],
        keepCase: true,
        longs: Number,
        enums: String,
        defaults: true,
    }),
);
const client = new tollgate.v1.Admission(
    process.env.TOLLGATE ?? '127.0.0.1:50051',
    grpc.credentials.createInsecure(),
);

const metadata = new grpc.Metadata();
metadata.set('authorization', `Bearer ${process.env.TOKEN ?? ''}`);
metadata.set('x-tollgate-enforce', '1');

/* One RPC, with a deadline of two seconds. */
const call = (method, request) =>
    new Promise((done, fail) =>
        client[method](request, metadata, { deadline: Date.now() + 2000 }, (error, reply) =>
            error ? fail(error) : done(reply),
        ),
    );

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/* Returns an admission, or throws the last refusal. */
export async function admit(request) {
    for (let attempt = 0; ; attempt++) {
        try {
            return await call('Admit', request);
        } catch (error) {
            if (error.code !== grpc.status.RESOURCE_EXHAUSTED || attempt + 1 >= ATTEMPTS)
                throw error;
            const own = (50 + 150 * Math.random()) * 2 ** attempt;
            const hint = Number(error.metadata.get('grpc-retry-after-ms')[0] ?? 0);
            console.log(`refused: ${error.details}; again in ${Math.ceil(Math.max(own, hint))} ms`);
            await pause(Math.max(own, hint));
        }
    }
}

/* The work is done in between; the lease is released however it ends. */
export async function admitted(request, work) {
    const { lease_id } = await admit(request);
    let outcome = 'OUTCOME_CANCELLED';
    try {
        const result = await work();
        outcome = 'OUTCOME_OK';
        return result;
    } finally {
        if (lease_id) await call('Release', { lease_id, outcome });
    }
}

try {
    const result = await admitted({ cost: 100 }, async () => 'the work is done');
    console.log(result);
} catch (error) {
    console.error(`not admitted: ${error.details ?? error.message}`);
    process.exitCode = 1;
} finally {
    client.close();
}
