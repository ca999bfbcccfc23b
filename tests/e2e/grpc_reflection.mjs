/* grpc_reflection.mjs - which services there are, asked as grpcurl and its like ask: by reflection, and
 * then by a client that is made of the answers alone. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { need } from './kit.mjs';
import { TOKEN, api, client, collect, grpc, metadata, serving } from './grpc_kit.mjs';

const loader = need('@grpc/proto-loader');
const { status } = grpc;

/* All answers to these questions, by this version of the service. */
async function reflect(t, address, version, questions) {
    const Service = api.grpc.reflection[version].ServerReflection;
    const stream = collect(client(t, Service, address).ServerReflectionInfo());
    for (const question of questions) stream.call.write({ host: 'h', ...question });
    stream.call.end();
    assert.equal((await stream.ended).code, status.OK);
    assert.equal(stream.got.length, questions.length);
    for (const [i, answer] of stream.got.entries()) {
        assert.equal(answer.valid_host, 'h');
        const [word] = Object.keys(questions[i]);
        assert.deepEqual(answer.original_request[word], questions[i][word]);
    }
    return stream.got;
}

for (const version of ['v1', 'v1alpha'])
    test(`${version}: a client that knows no contract lists the services and calls one`, async (t) => {
        const { address } = await serving(t);
        const [{ list_services_response }] = await reflect(t, address, version, [
            { list_services: '*' },
        ]);
        const names = list_services_response.service.map(({ name }) => name);
        assert.ok(names.includes('tollgate.v1.Admission') && names.includes('grpc.health.v1.Health'));
        const answers = await reflect(
            t,
            address,
            version,
            names.map((file_containing_symbol) => ({ file_containing_symbol })),
        );
        const files = answers.map((one) => one.file_descriptor_response.file_descriptor_proto[0]);
        /* A set is its files, each as field 1. */
        const set = Buffer.concat(
            [...new Map(files.map((bytes) => [bytes.toString('hex'), bytes])).values()].flatMap(
                (bytes) => {
                    const size = [];
                    for (let n = bytes.length; n > 0; n >>= 7) size.push((n & 127) | (n > 127 ? 128 : 0));
                    return [Buffer.from([10, ...size]), bytes];
                },
            ),
        );
        const made = grpc.loadPackageDefinition(
            loader.loadFileDescriptorSetFromBuffer(set, { keepCase: true, longs: Number }),
        );
        for (const name of names)
            assert.ok(name.split('.').reduce((at, part) => at?.[part], made)?.service, name);
        const { Admission } = made.tollgate.v1;
        const reply = await new Promise((done, fail) =>
            client(t, Admission, address).Admit({ tenant: 'a' }, metadata(TOKEN), (error, value) =>
                error ? fail(error) : done(value),
            ),
        );
        assert.equal(reply.allowed, true);
    });

test('files by name, extensions, and what is not there', async (t) => {
    const { address } = await serving(t);
    const answers = await reflect(t, address, 'v1', [
        { file_by_filename: 'tollgate/v1/admission.proto' },
        { file_by_filename: 'no.proto' },
        { file_containing_symbol: 'no.Symbol' },
        { file_containing_extension: { containing_type: 'tollgate.v1.AdmitRequest', extension_number: 100 } },
        { all_extension_numbers_of_type: 'tollgate.v1.AdmitRequest' },
        { all_extension_numbers_of_type: 'no.Type' },
    ]);
    assert.equal(answers[0].file_descriptor_response.file_descriptor_proto.length, 1);
    for (const i of [1, 2, 3, 5]) assert.equal(answers[i].error_response.error_code, status.NOT_FOUND);
    assert.match(answers[2].error_response.error_message, /no symbol no\.Symbol/);
    assert.deepEqual(answers[4].all_extension_numbers_response, {
        base_type_name: 'tollgate.v1.AdmitRequest',
        extension_number: [],
    });
});
