/* otlp.mjs - traces: what goes on to the provider, and what a collector gets, if it takes it.
 *
 * The collector is one of ours that reads OTLP over HTTP in JSON. Spans are sent some time after
 * they were made, so each test waits for what it wants.
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import { chat, HELLO, json, KEY, message, price, send, until, world } from './kit.mjs';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const CALLER = '00f067aa0ba902b7';
const PARENT = `00-${TRACE}-${CALLER}-01`;

/* A collector; `answer(response, n)` says what it does with its nth request. */
class Collector {
    static async start(t, answer = (response) => response.end('{}'), port = 0) {
        const collector = new Collector();
        collector.requests = [];
        collector.server = http.createServer((request, response) => {
            const parts = [];
            request.on('error', () => 0);
            request.on('data', (part) => parts.push(part));
            request.on('end', () => {
                const { method, url, headers } = request;
                const body = JSON.parse(Buffer.concat(parts));
                answer(response, collector.requests.push({ method, url, headers, body }) - 1);
            });
        });
        await new Promise((done) => collector.server.listen(port, '127.0.0.1', done));
        collector.port = collector.server.address().port;
        collector.url = `http://127.0.0.1:${collector.port}`;
        t.after(() => collector.stop());
        return collector;
    }

    stop() {
        this.server.closeAllConnections();
        return new Promise((done) => this.server.close(done));
    }

    spans() {
        return this.requests.flatMap((one) =>
            one.body.resourceSpans.flatMap((of) => of.scopeSpans.flatMap((in_) => in_.spans)),
        );
    }

    some(n) {
        return until(`${n} spans`, () => this.spans().length >= n && this.spans());
    }
}

const traced = (t, collector, change = {}) =>
    world(t, { ...change, top: { ...change.top, otlp: { endpoint: collector.url } } });

/* Attributes as an object; numbers are strings in this JSON. */
const attributes = (span) =>
    Object.fromEntries(
        span.attributes.map(({ key, value }) => [
            key,
            value.stringValue ?? Number(value.intValue),
        ]),
    );

const seenAbove = async (mock, n) => new Map((await mock.requests(n))[n - 1].headers);

/* ---- what goes on ---- */

test('without a collector a trace goes on as it came', async (t) => {
    const { gateway, mock } = await world(t);
    await chat(gateway, {}, { headers: { traceparent: PARENT, tracestate: 'a=1' } });
    const headers = await seenAbove(mock, 1);
    assert.equal(headers.get('traceparent'), PARENT);
    assert.equal(headers.get('tracestate'), 'a=1');
    await until('the line', () => gateway.process.out.includes(`"trace_id":"${TRACE}"`));
    await chat(gateway);
    assert.ok(!(await seenAbove(mock, 2)).has('traceparent'));
});

test('with one, the span of the gateway stands between', async (t) => {
    const collector = await Collector.start(t);
    const { gateway, mock } = await traced(t, collector);
    const reply = await chat(
        gateway,
        {},
        { headers: { traceparent: PARENT, tracestate: 'a=1' } },
    );
    const headers = await seenAbove(mock, 1);
    const [span] = await collector.some(1);
    assert.equal(headers.get('tracestate'), 'a=1');
    assert.equal(headers.get('traceparent'), `00-${TRACE}-${span.spanId}-01`);
    assert.equal(span.traceId, TRACE);
    assert.equal(span.parentSpanId, CALLER);
    assert.notEqual(span.spanId, CALLER);
    assert.equal(reply.status, 200);
});

test('a call without a trace begins one', async (t) => {
    const collector = await Collector.start(t);
    const { gateway, mock } = await traced(t, collector);
    await chat(gateway, {}, { headers: { traceparent: '00-nonsense-01' } });
    const [, trace, id, flags] = (await seenAbove(mock, 1)).get('traceparent').split('-');
    const [span] = await collector.some(1);
    assert.deepEqual([span.traceId, span.spanId, flags], [trace, id, '01']);
    assert.match(trace, /^[0-9a-f]{32}$/);
    assert.ok(!('parentSpanId' in span));
});

test('what is not sampled goes on, and is not sent', async (t) => {
    const collector = await Collector.start(t);
    const { gateway, mock } = await traced(t, collector);
    await chat(gateway, {}, { headers: { traceparent: `00-${TRACE}-${CALLER}-00` } });
    assert.match((await seenAbove(mock, 1)).get('traceparent'), /^00-4bf9.*-00$/);
    await chat(gateway);
    const spans = await collector.some(1);
    assert.equal(spans.length, 1);
    assert.notEqual(spans[0].traceId, TRACE);
});

/* ---- what a collector gets ---- */

test('a call is a span with the names of generative AI, and no contents', async (t) => {
    const collector = await Collector.start(t);
    const { gateway, mock } = await traced(t, collector);
    const reply = await chat(gateway, {}, { headers: { traceparent: PARENT } });
    const usage = json(reply).usage;
    const [span] = await collector.some(1);
    const [request] = collector.requests;

    assert.deepEqual([request.method, request.url], ['POST', '/v1/traces']);
    assert.equal(request.headers['content-type'], 'application/json');
    const [of] = request.body.resourceSpans;
    const resource = attributes(of.resource);
    assert.equal(resource['service.name'], 'tollgate');
    assert.ok(resource['service.version'] && resource['service.instance.id']);
    assert.equal(of.scopeSpans[0].scope.name, 'tollgate');

    assert.equal(span.name, 'chat small');
    assert.equal(span.kind, 3);
    assert.ok(BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano));
    assert.ok(!('status' in span));
    const got = attributes(span);
    for (const [name, value] of Object.entries({
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': 'oai',
        'gen_ai.request.model': 'small',
        'gen_ai.response.model': 'small',
        'gen_ai.usage.input_tokens': usage.prompt_tokens,
        'gen_ai.usage.output_tokens': usage.completion_tokens,
        'server.address': '127.0.0.1',
        'server.port': mock.port,
        'http.response.status_code': 200,
        'tollgate.tenant': 'one',
        'tollgate.spent_micro_usd': price(usage),
    }))
        assert.equal(got[name], value, name);
    assert.ok(!('tollgate.binding_axis' in got) && !('tollgate.reason' in got));
    const text = JSON.stringify(collector.requests);
    for (const said of [HELLO[0].content, json(reply).choices[0].message.content, KEY])
        assert.ok(!text.includes(said), said);
});

test('a denial has the axis that was binding, and is an error', async (t) => {
    const collector = await Collector.start(t);
    const { gateway } = await traced(t, collector, {
        tenant: { rate: { strategy: 'gcra', limit: 1, period: '60s' } },
    });
    await message(gateway);
    await message(gateway);
    const spans = (await collector.some(2)).map(attributes);
    const denied = spans.find((one) => one['http.response.status_code'] === 429);
    const served = spans.find((one) => one['http.response.status_code'] === 200);
    assert.equal(denied['tollgate.binding_axis'], 'rate');
    assert.equal(denied['tollgate.reason'], 'rate');
    assert.equal(denied['error.type'], 'rate');
    assert.equal(denied['gen_ai.operation.name'], 'chat');
    assert.ok(!('tollgate.binding_axis' in served));
});

test('a protected route is a span of a server', async (t) => {
    const collector = await Collector.start(t);
    const heads = [];
    const server = http.createServer((request, response) => {
        heads.push(request.headers);
        response.end('here');
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    t.after(() => server.close());
    const upstream = `http://127.0.0.1:${server.address().port}`;
    const { gateway } = await traced(t, collector, {
        top: { protect: [{ prefix: '/api', upstream }] },
    });
    await send(gateway.url, '/api/x?secret=1', undefined, { headers: { traceparent: PARENT } });
    const [span] = await collector.some(1);
    assert.equal(span.name, 'GET /api');
    assert.equal(span.kind, 2);
    assert.equal(heads[0].traceparent, `00-${TRACE}-${span.spanId}-01`);
    assert.ok(!JSON.stringify(collector.requests).includes('secret'));
});

test('many calls: every span arrives once, in batches', async (t) => {
    const collector = await Collector.start(t);
    const { gateway } = await traced(t, collector);
    const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
    t.after(() => agent.destroy());
    await Promise.all(Array.from({ length: 300 }, () => chat(gateway, {}, { agent })));
    const spans = await collector.some(300);
    assert.equal(spans.length, 300);
    assert.equal(new Set(spans.map((one) => one.spanId)).size, 300);
    assert.ok(collector.requests.length < 100, `${collector.requests.length} batches`);
});

/* ---- a collector in trouble ---- */

test('a collector that never answers delays no call, and no end', async (t) => {
    const collector = await Collector.start(t, () => 0);
    const { gateway } = await traced(t, collector);
    assert.equal((await chat(gateway)).status, 200);
    await until('it has been asked', () => collector.requests.length === 1);
    for (let i = 0; i < 50; i++) assert.equal((await chat(gateway)).status, 200);
    await gateway.finish();
    assert.equal(gateway.process.code, 0);
});

test('a collector that is gone is told of once, and gets what waited when it is back', async (t) => {
    const first = await Collector.start(t);
    const port = first.port;
    await first.stop();
    const { gateway } = await traced(t, first);
    assert.equal((await chat(gateway)).status, 200);
    const said = (text) => gateway.process.out.includes(text);
    await until('it is missed', () => said('the collector does not accept traces'));
    assert.equal((await chat(gateway)).status, 200);
    const back = await Collector.start(t, undefined, port);
    await back.some(2);
    await until('it is back', () => said('the collector accepts traces again'));
    assert.equal(gateway.process.out.match(/the collector does not accept traces/g).length, 1);
});

test('503 is asked again with the same spans, 400 is not', async (t) => {
    const codes = [503, 200, 400, 200];
    const collector = await Collector.start(t, (response, n) => {
        response.statusCode = codes[n] ?? 200;
        response.end('{}');
    });
    const { gateway } = await traced(t, collector);
    await chat(gateway);
    await until('it was sent twice', () => collector.requests.length === 2);
    const ids = () => collector.spans().map((one) => one.spanId);
    assert.equal(ids()[0], ids()[1]);
    await chat(gateway);
    await until('one that is refused', () => collector.requests.length === 3);
    await chat(gateway);
    await until('one more', () => collector.requests.length === 4);
    assert.equal(new Set(ids()).size, 3, 'what was refused is not sent again');
});
