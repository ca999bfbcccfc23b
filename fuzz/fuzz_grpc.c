/* fuzz_grpc.c - any bytes to any RPC, cut in any way: one status, and answers that are messages.
 *
 * Input: a byte that chooses the method, one that says how the rest is cut, and the rest, as it
 * would come in DATA frames. The gateway behind it is real, the transport is none. What is sent
 * back has to be frames of the method's messages, a stream answers every message once, and when the
 * client has gone nobody waits for it. After some requests all is made anew, so that what they left
 * does not grow without end.
 */
#include <envoy/service/ratelimit/v3/rls.pb-c.h>
#include <grpc/health/v1/health.pb-c.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tollgate/v1/admission.pb-c.h>
#include <tollgate/v1/monitor.pb-c.h>

#include "insist.h"
#include "io/grpc/grpc_server.h"
#include "server/runtime/worker.h"
#include "server/serve/front.h"
#include "server/serve/services.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ANEW_AFTER 500

/* The hash is that of the token "t". */
static const char YAML[] =
    "listen: {gateway: \"127.0.0.1:0\", grpc: \"127.0.0.1:0\"}\n"
    "ledger: {path: \":memory:\"}\n"
    "log: {level: error}\n"
    "admin_auth: {token: \"0123456789abcdef\"}\n"
    "callers: [{name: c, token_sha256: "
    "\"e3b98a4da31a127d4bde6e43033f66ba274cab0eb7eb1c70ec41402bf6273dd8\", "
    "may: [tenant, peer, priority, value]}]\n"
    "gate:\n"
    "  concurrency: {law: fixed, initial: 4}\n"
    "  peers: {limit: 3}\n"
    "  rate: {strategy: gcra, limit: 600, period: 1s}\n"
    "  cost: {strategy: token_bucket, capacity: 1000, refill: 1000}\n"
    "tenants: [{name: a, priority: low}, {name: b, parent: a, limits: [{rpm: 5}], users: {from: "
    "\"header:x-u\", each: {rpm: 2}}}]\n";

static const struct {
    const char *path;
    const ProtobufCMessageDescriptor *reply;
    bool is_stream, is_admins;
} METHODS[] = {
    {"/tollgate.v1.Admission/Admit", &tollgate__v1__admit_reply__descriptor, false, false},
    {"/tollgate.v1.Admission/AdmitStream", &tollgate__v1__admit_stream_reply__descriptor, true,
     false},
    {"/tollgate.v1.Admission/Release", &tollgate__v1__release_reply__descriptor, false, false},
    {"/tollgate.v1.Admission/Heartbeat", &tollgate__v1__heartbeat_reply__descriptor, false, false},
    {"/tollgate.v1.Admission/Peek", &tollgate__v1__admit_reply__descriptor, false, false},
    {"/tollgate.v1.Monitor/GetSnapshot", &tollgate__v1__snapshot__descriptor, false, true},
    {"/tollgate.v1.Monitor/Watch", &tollgate__v1__watch_event__descriptor, false, true},
    {"/grpc.health.v1.Health/Check", &grpc__health__v1__health_check_response__descriptor, false,
     false},
    {"/grpc.health.v1.Health/Watch", &grpc__health__v1__health_check_response__descriptor, false,
     false},
    {"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
     &envoy__service__ratelimit__v3__rate_limit_response__descriptor, false, false},
};

struct exchange {
    struct http_inbound in; /* first */
    struct http_field fields[3];
    int status, code; /* -1: none yet */
    struct grpc_frames frames;
    const ProtobufCMessageDescriptor *reply;
    size_t n_replies;
    bool finished;
};

static struct {
    struct clock clock;
    struct gateway *gateway;
    struct worker worker;
    uint64_t requests;
} world;

/* ---- a transport that is none ---- */

static struct exchange *exchange_of(struct http_inbound *in)
{
    return (struct exchange *)(void *)in;
}

static void do_nothing(struct http_inbound *in)
{
    (void)in;
}

static void keep_code(struct exchange *exchange, const struct http_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (slice_equal(fields[i].name, SLICE("grpc-status"))) {
            insist(exchange->code == -1);
            exchange->code = 0;
            for (size_t k = 0; k < fields[i].value.n; k++)
                exchange->code = 10 * exchange->code + (fields[i].value.at[k] - '0');
        }
}

static void keep_head(struct http_inbound *in, const struct http_head *head)
{
    struct exchange *exchange = exchange_of(in);

    insist(exchange->status == 0 && head->status == 200);
    exchange->status = head->status;
    keep_code(exchange, head->fields, head->n_fields);
}

static size_t keep_bytes(struct http_inbound *in, struct slice bytes)
{
    struct exchange *exchange = exchange_of(in);
    struct slice message;

    insist(exchange->status != 0 && !exchange->finished);
    grpc_frames_feed(&exchange->frames, bytes);
    while (grpc_frames_next(&exchange->frames, &message) == GRPC_FRAME) {
        ProtobufCMessage *reply = protobuf_c_message_unpack(exchange->reply, NULL, message.n,
                                                            (const uint8_t *)message.at);
        insist(reply != NULL);
        protobuf_c_message_free_unpacked(reply, NULL);
        exchange->n_replies++;
    }
    insist(grpc_frames_between(&exchange->frames));
    return 0;
}

static void keep_end(struct http_inbound *in, const struct http_field *trailers, size_t n)
{
    struct exchange *exchange = exchange_of(in);

    insist(exchange->status != 0 && !exchange->finished);
    keep_code(exchange, trailers, n);
    insist(exchange->code >= 0);
    exchange->finished = true;
}

static void no_abort(struct http_inbound *in, uint32_t code)
{
    (void)in, (void)code;
    insist(false); /* an RPC ends by a status */
}

static size_t none_queued(const struct http_inbound *in)
{
    (void)in;
    return 0;
}

static const struct sockaddr *no_peer(const struct http_inbound *in)
{
    (void)in;
    return NULL;
}

static const struct http_inbound_transport transport = {
    do_nothing, do_nothing, keep_head, keep_bytes, keep_end, no_abort, none_queued, no_peer};

/* ---- the world ---- */

static void open_world(void)
{
    struct config_problems problems;
    struct tg_problem trouble;
    struct tg_problem problem;
    struct config config;

    clock_init(&world.clock);
    insist(config_parse(NULL, YAML, sizeof YAML - 1, &config, &problems) == CONFIG_READ);
    config_problems_free(&problems);
    insist(gateway_new(&services, &config, &world.clock, 1, &world.gateway, &trouble));
    insist(worker_init(&world.worker, world.gateway, 0, &world.worker, &problem));
}

static void close_world(void)
{
    worker_fini(&world.worker);
    gateway_free(world.gateway);
}

static void check_nobody_waits(void)
{
    struct tg_gate_stats stats;

    tg_gate_get_stats(world.gateway->gate, &stats);
    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        insist(stats.queued[p] == 0);
    insist(stats.in_flight <= 4);
}

/* ---- one RPC ---- */

/* Messages that are whole, and can be read as what the stream takes. */
static size_t count_asked(struct slice bytes)
{
    struct grpc_frames frames;
    struct slice message;
    size_t n = 0;

    grpc_frames_init(&frames, GRPC_MESSAGE_MAX);
    grpc_frames_feed(&frames, bytes);
    while (grpc_frames_next(&frames, &message) == GRPC_FRAME)
        n++;
    grpc_frames_fini(&frames);
    return n;
}

static void put(struct exchange *exchange, struct slice bytes, size_t piece)
{
    for (size_t at = 0; at < bytes.n && !exchange->finished; at += piece) {
        size_t n = bytes.n - at < piece ? bytes.n - at : piece;
        char *exact = malloc(n);
        insist(exact != NULL);
        memcpy(exact, bytes.at + at, n);
        front_grpc_ops.data(&exchange->in, (struct slice){exact, n});
        free(exact);
    }
    if (!exchange->finished)
        front_grpc_ops.end(&exchange->in);
}

static void ask(size_t method, struct slice bytes, size_t piece)
{
    struct exchange exchange = {.code = -1, .reply = METHODS[method].reply};

    grpc_frames_init(&exchange.frames, (size_t)16 << 20);
    exchange.fields[0] = (struct http_field){SLICE("content-type"), SLICE("application/grpc")};
    exchange.fields[1] = (struct http_field){
        SLICE("authorization"),
        METHODS[method].is_admins ? SLICE("Bearer 0123456789abcdef") : SLICE("Bearer t")};
    exchange.in = (struct http_inbound){.transport = &transport,
                                        .head = {.method = SLICE("POST"),
                                                 .target = slice_of(METHODS[method].path),
                                                 .version = 20,
                                                 .fields = exchange.fields,
                                                 .n_fields = 2,
                                                 .length = -1},
                                        .connection = 1,
                                        .context = &world.worker};
    front_grpc_ops.begin(&world.worker, &exchange.in);
    put(&exchange, bytes, piece);
    for (int i = 0; i < 4; i++)
        net_loop_turn(world.worker.loop, false);
    insist(exchange.code != GRPC_UNAUTHENTICATED && exchange.code != GRPC_PERMISSION_DENIED);
    if (exchange.code == GRPC_OK && METHODS[method].is_stream)
        insist(exchange.n_replies == count_asked(bytes));
    else if (exchange.code == GRPC_OK)
        insist(exchange.n_replies == 1);
    front_grpc_ops.gone(&exchange.in, exchange.finished ? HTTP_DONE : HTTP_HANGUP);
    front_grpc_ops.closed(&world.worker, 1);
    net_loop_turn(world.worker.loop, false);
    check_nobody_waits();
    grpc_frames_fini(&exchange.frames);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    if (world.requests++ % ANEW_AFTER == 0) {
        if (world.gateway != NULL)
            close_world();
        open_world();
    }
    ask(data[0] % (sizeof METHODS / sizeof METHODS[0]),
        (struct slice){(const char *)data + 2, size - 2},
        data[1] < 128 ? SIZE_MAX : data[1] - 127u);
    return 0;
}
