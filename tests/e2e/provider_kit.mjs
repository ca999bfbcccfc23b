/* provider_kit.mjs - a small provider that keeps objects by id for whoever knows the id, as an account
 * does that several tenants share. Each object remembers the key that made it, and is only there for
 * that key where `accounts` says so.
 */
import http from 'node:http';

export class Provider {
    constructor({ accounts = false } = {}) {
        this.accounts = accounts;
        this.objects = new Map();
        this.seen = [];
        this.n = 0;
    }

    static async start(t, options) {
        const provider = new Provider(options);
        const server = http.createServer((request, response) => {
            const parts = [];
            request.on('data', (part) => parts.push(part));
            request.on('end', () => provider.take(request, response, Buffer.concat(parts)));
        });
        await new Promise((done) => server.listen(0, '127.0.0.1', done));
        t.after(() => {
            server.close();
            server.closeAllConnections();
        });
        provider.url = `http://127.0.0.1:${server.address().port}`;
        return provider;
    }

    make(prefix, key, more) {
        const id = `${prefix}${(++this.n).toString().padStart(4, '0')}aBcDeF0123456789`;
        const object = { id, created_at: this.n, ...more };
        this.objects.set(id, { object, key, kind: prefix });
        return object;
    }

    list(kind, key) {
        const data = [...this.objects.values()]
            .filter((o) => o.kind === kind && (!this.accounts || o.key === key))
            .map((o) => o.object);
        return {
            object: 'list',
            data,
            first_id: data[0]?.id ?? null,
            last_id: data.at(-1)?.id ?? null,
            has_more: false,
        };
    }

    take(request, response, body) {
        const url = new URL(request.url, 'http://h');
        const key = request.headers.authorization;
        const [, , kind, id, rest] = url.pathname.split('/');
        this.seen.push({ method: request.method, url: request.url, key, body: String(body) });
        const answer = (value, status = 200) => {
            response.writeHead(status, { 'content-type': 'application/json' });
            response.end(JSON.stringify(value));
        };
        const missing = () =>
            answer({ id: this.leak, error: { message: 'No such object', code: 'not_found' } }, 404);
        const found = this.objects.get(id);
        if (kind === 'audio' && id === 'speech') {
            response.writeHead(200, { 'content-type': 'audio/mpeg' });
            return response.end(Buffer.from([0, 255, 1, 254, 10, 13, 0]));
        }
        if (kind === 'audio') return answer({ text: 'hello', usage: { seconds: 1 } });
        if (kind === 'images')
            return answer({ created: 1, data: [{ b64_json: 'aGk=' }, { url: 'https://h/x' }] });
        if (kind === 'echo') return answer(JSON.parse(body));
        if (kind === 'responses' && !id) return this.respond(JSON.parse(body), key, response);
        if (kind === 'files' && request.method === 'POST') {
            const name = /filename="([^"]*)"/.exec(String(body))?.[1];
            return answer(this.make('file-', key, { object: 'file', filename: name, bytes: body.length }));
        }
        if (kind === 'batches' && request.method === 'POST' && !id) {
            const wanted = JSON.parse(body);
            const output = this.make('file-', key, { object: 'file', filename: 'out.jsonl' });
            return answer(
                this.make('batch_', key, {
                    object: 'batch',
                    input_file_id: wanted.input_file_id,
                    output_file_id: output.id,
                }),
            );
        }
        const prefix = { files: 'file-', batches: 'batch_' }[kind];
        if (!id && prefix) return answer(this.list(prefix, key));
        if (!found || (this.accounts && found.key !== key)) return missing();
        if (request.method === 'DELETE') {
            this.objects.delete(id);
            return answer({ id, object: found.object.object, deleted: true });
        }
        if (rest === 'content') {
            response.writeHead(200, { 'content-type': 'application/octet-stream' });
            return response.end(`content of ${id}`);
        }
        if (rest === 'input_items')
            return answer({ object: 'list', data: [{ id: 'msg_1', type: 'message' }], has_more: false });
        if (rest === 'cancel') return answer({ ...found.object, status: 'cancelled' });
        return answer(found.object);
    }

    respond(wanted, key, response) {
        const object = this.make('resp_', key, {
            object: 'response',
            status: 'completed',
            model: wanted.model,
            output: [],
            previous_response_id: wanted.previous_response_id ?? null,
            usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
        });
        if (!wanted.stream) {
            response.writeHead(200, { 'content-type': 'application/json' });
            return response.end(JSON.stringify(object));
        }
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        for (const type of ['response.created', 'response.completed'])
            response.write(`event: ${type}\ndata: ${JSON.stringify({ type, response: object })}\n\n`);
        response.end();
    }
}
