/* test_rpc.c - the gRPC services of a worker, by a transport that is none.
 *
 * What a client sees of them over a socket is in tests/e2e. Here is what it does not see: memory,
 * bounds, slow readers, and what is left when somebody leaves at the wrong moment.
 */
#include "check.h"

#include <envoy/service/ratelimit/v3/rls.pb-c.h>
#include <grpc/health/v1/health.pb-c.h>
#include <grpc/reflection/v1/reflection.pb-c.h>
#include <stdio.h>
#include <string.h>

#include "failing_malloc.h"
#include "net_rpc_kit.h"
#include "server/admin/rpc_monitor_internal.h"
#include "server/admit/rpc_admission_internal.h"
#include "server/obs/watch.h"
#include "server/serve/services.h"

#define ADMIT_PATH "/tollgate.v1.Admission/Admit"
#define STREAM_PATH "/tollgate.v1.Admission/AdmitStream"
#define WATCH_PATH "/tollgate.v1.Monitor/Watch"
#define REFLECTION_PATH "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define HEALTH_PATH "/grpc.health.v1.Health/"

/* The hash is that of the token "t". */
static const char HEAD[] =
    "listen: {gateway: \"127.0.0.1:0\", grpc: \"127.0.0.1:0\"}\n"
    "ledger: {path: \":memory:\"}\n"
    "log: {level: error}\n"
    "admin_auth: {token: \"0123456789abcdef\"}\n"
    "callers: [{name: c, token_sha256: "
    "\"e3b98a4da31a127d4bde6e43033f66ba274cab0eb7eb1c70ec41402bf6273dd8\", "
    "may: [tenant, peer, priority, value]}]\n";

static const char *const CALLER[] = {"authorization: Bearer t", NULL};
static const char *const ENFORCE[] = {"authorization: Bearer t", "x-tollgate-enforce: 1", NULL};
static const char *const ADMIN[] = {"authorization: Bearer 0123456789abcdef", NULL};

static struct {
    struct clock clock;
    struct gateway *gateway;
    struct worker worker;
    struct grpc_server *server;
} world;

/* `gate` is its section. */
static void open_world(const char *gate)
{
    struct config_problems problems;
    struct tg_problem trouble;
    struct tg_problem problem;
    struct config config;
    char yaml[2000];

    memset(&world, 0, sizeof world);
    clock_init(&world.clock);
    snprintf(yaml, sizeof yaml, "%sgate: %s\n", HEAD, gate);
    if (config_parse(NULL, yaml, strlen(yaml), &config, &problems) != CONFIG_READ)
        fail_msg("%s", problems.list[0].text);
    config_problems_free(&problems);
    if (!gateway_new(&services, &config, &world.clock, 1, &world.gateway, &trouble))
        fail_msg("%s", trouble.text);
    world.gateway->watch = watch_new(WATCH_SLOTS);
    if (!worker_init(&world.worker, world.gateway, 0, &world.worker, &problem))
        fail_msg("%s", problem.text);
    world.server = world.worker.rpc->server;
}

static void get_stats(struct tg_gate_stats *stats)
{
    tg_gate_get_stats(world.gateway->gate, stats);
}

static void close_world(void)
{
    struct watch *watch = world.gateway->watch;
    struct tg_gate_stats stats;

    get_stats(&stats);
    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        assert_int_equal(stats.queued[p], 0);
    worker_fini(&world.worker);
    world.gateway->watch = NULL;
    watch_free(watch);
    gateway_free(world.gateway);
}

static void turn(void)
{
    for (int i = 0; i < 4; i++)
        net_loop_turn(world.worker.loop, false);
}

/* ---- Admission ---- */

static ProtobufCMessage *admit_of(const char *tenant)
{
    static Tollgate__V1__AdmitRequest request;

    tollgate__v1__admit_request__init(&request);
    request.tenant = (char *)(uintptr_t)tenant;
    return &request.base;
}

static ProtobufCMessage *stream_of(uint64_t id)
{
    static Tollgate__V1__AdmitStreamRequest request;

    tollgate__v1__admit_stream_request__init(&request);
    request.id = id;
    request.what_case = TOLLGATE__V1__ADMIT_STREAM_REQUEST__WHAT_ADMIT;
    request.admit = (Tollgate__V1__AdmitRequest *)(void *)admit_of("");
    return &request.base;
}

/* Whether it was allowed; the lease is copied if it is wanted. */
static bool admitted(struct rpc_exchange *exchange, char lease[ADMIT_LEASE_BYTES + 1])
{
    Tollgate__V1__AdmitReply *reply =
        (void *)rpc_next(exchange, &tollgate__v1__admit_reply__descriptor);

    assert_non_null(reply);
    bool allowed = reply->allowed;
    if (lease != NULL)
        snprintf(lease, ADMIT_LEASE_BYTES + 1, "%s", reply->lease_id);
    tollgate__v1__admit_reply__free_unpacked(reply, NULL);
    return allowed;
}

static void release(const char *lease)
{
    Tollgate__V1__ReleaseRequest request = TOLLGATE__V1__RELEASE_REQUEST__INIT;
    struct rpc_exchange exchange;

    request.lease_id = (char *)(uintptr_t)lease;
    rpc_ask(&exchange, world.server, "/tollgate.v1.Admission/Release", CALLER, &request.base);
    Tollgate__V1__ReleaseReply *reply =
        (void *)rpc_next(&exchange, &tollgate__v1__release_reply__descriptor);
    assert_non_null(reply);
    assert_true(reply->found);
    tollgate__v1__release_reply__free_unpacked(reply, NULL);
    rpc_close(&exchange);
}

/* The largest there can be, and the stream's id around it. */
static void no_answer_is_larger_than_it_is_said_to_be(void **state)
{
    Tollgate__V1__AdmitStreamReply message = TOLLGATE__V1__ADMIT_STREAM_REPLY__INIT;
    const struct tg_decision most = {true, TG_NUMBER_MAX, TG_NUMBER_MAX, TG_NUMBER_MAX,
                                     TG_NUMBER_MAX};
    struct admit_reply reply = {.allowed = false,
                                .decision = most,
                                .binding_axis = TG_AXIS_CONCURRENCY,
                                .policy_denied = true,
                                .would_deny = UINT32_MAX,
                                .lease_bytes = ADMIT_LEASE_BYTES,
                                .lease_expires_at = TG_NUMBER_MAX};
    struct rpc_admit_reply out;

    (void)state;
    memset(reply.message, 'm', sizeof reply.message - 1);
    memset(reply.lease, 'l', sizeof reply.lease);
    memset(reply.limit.of, 'o', sizeof reply.limit.of - 1);
    memset(reply.limit.rule, 'r', sizeof reply.limit.rule - 1);
    reply.limit.size = reply.limit.left = TG_NUMBER_MAX;
    reply.limit.reset_at = reply.limit.retry_after_ms = TG_NUMBER_MAX;
    reply.axes.present = UINT32_MAX;
    for (int axis = 0; axis < TG_AXIS_COUNT; axis++)
        reply.axes.decision[axis] = most;
    for (int reason = 0; reason < TG_REASON_COUNT; reason++) {
        reply.reason = (enum tg_reason)reason;
        rpc_write_reply(&reply, &out);
        message.id = UINT64_MAX;
        message.what_case = TOLLGATE__V1__ADMIT_STREAM_REPLY__WHAT_ADMIT;
        message.admit = &out.message;
        assert_true(protobuf_c_message_get_packed_size(&message.base) <= RPC_ADMIT_REPLY_MOST);
    }
}

static void what_is_decided_at_once_takes_no_memory_once_warm(void **state)
{
    static char bytes[200 * 64];
    const size_t warm = 3;
    size_t n = 0;

    (void)state;
    need_allocator();
    open_world("{rate: {strategy: gcra, limit: 10, period: 1h}, peers: {}}");
    for (uint64_t id = 0; id < 200; id++) {
        ProtobufCMessage *message = stream_of(id);
        size_t size = protobuf_c_message_get_packed_size(message);
        grpc_frame_put_head(bytes + n, (uint32_t)size);
        n += GRPC_FRAME_HEAD;
        n += protobuf_c_message_pack(message, (uint8_t *)bytes + n);
    }
    for (size_t round = 0; round <= warm; round++) {
        struct rpc_exchange exchange;
        rpc_open(&exchange, world.server, STREAM_PATH, CALLER);
        long before = allocations;
        /* Straight in: the kit copies what it is given. It keeps what is sent by one realloc for
         * each write. */
        grpc_server_data(&exchange.in, (struct slice){bytes, n});
        if (round == warm)
            assert_int_equal(allocations - before, exchange.writes);
        rpc_end(&exchange);
        assert_int_equal(exchange.code, GRPC_OK);
        rpc_close(&exchange);
    }
    close_world();
}

static void enforced_refusals_are_statuses_with_a_hint(void **state)
{
    static const char *const paths[] = {ADMIT_PATH, "/tollgate.v1.Admission/Peek"};
    struct rpc_exchange first, second;
    char lease[ADMIT_LEASE_BYTES + 1];

    (void)state;
    open_world("{concurrency: {law: fixed, initial: 1}, queue: {wait: {normal: 0ms}}}");
    rpc_ask(&first, world.server, ADMIT_PATH, ENFORCE, admit_of("a"));
    assert_true(admitted(&first, lease));
    rpc_close(&first);
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        rpc_ask(&second, world.server, paths[i], ENFORCE, admit_of("a"));
        assert_int_equal(second.code, GRPC_RESOURCE_EXHAUSTED);
        assert_true(second.alone);
        assert_true(rpc_said(&second, "grpc-message: server overloaded"));
        assert_true(rpc_said(&second, "grpc-retry-after-ms: "));
        assert_true(rpc_said(&second, "x-tollgate-reason: concurrency\n"));
        rpc_close(&second);
    }
    release(lease);
    close_world();
}

/* The slot comes free in the turn in which the client leaves: somebody has to give it back. */
static void who_leaves_when_he_is_let_in_gives_the_slot_back(void **state)
{
    struct rpc_exchange first, second, third;
    char lease[ADMIT_LEASE_BYTES + 1];
    struct tg_gate_stats stats;

    (void)state;
    open_world("{concurrency: {law: fixed, initial: 1}, queue: {wait: {normal: 1h}}}");
    rpc_ask(&first, world.server, ADMIT_PATH, CALLER, admit_of("a"));
    assert_true(admitted(&first, lease));
    rpc_close(&first);
    rpc_ask(&second, world.server, ADMIT_PATH, CALLER, admit_of("a"));
    assert_false(second.finished);
    release(lease);
    rpc_close(&second); /* before the loop has told it */
    turn();
    get_stats(&stats);
    assert_int_equal(stats.in_flight, 0);
    rpc_ask(&third, world.server, ADMIT_PATH, CALLER, admit_of("a"));
    assert_true(admitted(&third, lease));
    rpc_close(&third);
    release(lease);
    close_world();
}

static void a_stream_with_enough_that_waits_is_read_no_further(void **state)
{
    struct rpc_exchange first, stream;
    char lease[ADMIT_LEASE_BYTES + 1];
    struct tg_gate_stats stats;
    uint64_t id = 0;

    (void)state;
    open_world("{concurrency: {law: fixed, initial: 1}, "
               "queue: {size: 100000, wait: {normal: 1h}}}");
    rpc_ask(&first, world.server, ADMIT_PATH, CALLER, admit_of("a"));
    assert_true(admitted(&first, lease));
    rpc_close(&first);
    rpc_open(&stream, world.server, STREAM_PATH, CALLER);
    while (!stream.paused && id < 5000)
        rpc_put_message(&stream, stream_of(id++), SIZE_MAX);
    assert_int_equal(id, 1024);
    get_stats(&stats);
    assert_int_equal(stats.queued[TG_PRIORITY_NORMAL], 1024);
    rpc_close(&stream);
    release(lease);
    close_world();
}

static uint64_t refused(enum reply_reason reason)
{
    return atomic_load(&world.gateway->counts.refused[reason]);
}

static void errors_are_counted_by_their_reason(void **state)
{
    static const char *const NOBODY[] = {"authorization: Bearer x", NULL};
    Tollgate__V1__ReleaseRequest release_of = TOLLGATE__V1__RELEASE_REQUEST__INIT;
    Tollgate__V1__AdmitStreamRequest wrong = TOLLGATE__V1__ADMIT_STREAM_REQUEST__INIT;
    struct rpc_exchange exchange;

    (void)state;
    open_world("{}");
    rpc_ask(&exchange, world.server, ADMIT_PATH, NOBODY, admit_of("a"));
    assert_int_equal(exchange.code, GRPC_UNAUTHENTICATED);
    rpc_close(&exchange);
    assert_int_equal(refused(REPLY_INVALID_API_KEY), 1);
    release_of.outcome = (Tollgate__V1__Outcome)9;
    rpc_ask(&exchange, world.server, "/tollgate.v1.Admission/Release", CALLER, &release_of.base);
    assert_int_equal(exchange.code, GRPC_INVALID_ARGUMENT);
    assert_true(rpc_said(&exchange, "`outcome` must be OUTCOME_OK"));
    rpc_close(&exchange);
    assert_int_equal(refused(REPLY_INVALID_REQUEST), 1);
    release_of.outcome = TOLLGATE__V1__OUTCOME__OUTCOME_OK;
    release_of.sample_given_case = TOLLGATE__V1__RELEASE_REQUEST__SAMPLE_GIVEN_SAMPLE_MS;
    release_of.sample_ms = 1e300; /* a number, and more than the gate takes */
    wrong.what_case = TOLLGATE__V1__ADMIT_STREAM_REQUEST__WHAT_RELEASE;
    wrong.release = &release_of;
    rpc_ask(&exchange, world.server, STREAM_PATH, CALLER, &wrong.base);
    assert_int_equal(exchange.code, GRPC_OK);
    rpc_close(&exchange);
    assert_int_equal(refused(REPLY_INVALID_REQUEST), 2);
    assert_int_equal(atomic_load(&world.gateway->counts.calls), 3);
    close_world();
}

/* tenant, then cost 0 and value 1.0, which have zero bytes of their own. */
#define NUMBERS 0x30, 0, 0x39, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f

static int ask_bytes(const unsigned char *frame, size_t n, const char *words)
{
    struct rpc_exchange exchange;

    rpc_open(&exchange, world.server, ADMIT_PATH, CALLER);
    rpc_put(&exchange, frame, n);
    rpc_end(&exchange);
    int code = exchange.code;
    assert_true(words == NULL || rpc_said(&exchange, words));
    rpc_close(&exchange);
    return code;
}

/* A name that somebody chose must not become another's because the codec thinks that it ends. */
static void a_text_with_a_zero_byte_is_refused_and_numbers_with_one_are_not(void **state)
{
    static const unsigned char cut[] = {0, 0, 0, 0, 16, 0x0a, 3, 'a', 0, 'b', NUMBERS};
    static const unsigned char whole[] = {0, 0, 0, 0, 16, 0x0a, 3, 'a', 'b', 'c', NUMBERS};
    static const unsigned char unknown[] = {0, 0, 0, 0, 17, 0xa2, 0x06, 3, 0, 0, 0, NUMBERS};
    static const unsigned char asked[] = {0, 0, 0, 0, 9, 8, 7, 0x12, 5, 0x0a, 3, 'a', 0, 'b'};
    Tollgate__V1__AdmitStreamReply *reply;
    struct rpc_exchange stream;

    (void)state;
    open_world("{}");
    assert_int_equal(ask_bytes(cut, sizeof cut, "`tenant` must have no zero byte in it"),
                     GRPC_INVALID_ARGUMENT);
    assert_int_equal(ask_bytes(whole, sizeof whole, NULL), GRPC_OK);
    assert_int_equal(ask_bytes(unknown, sizeof unknown, NULL), GRPC_OK);
    rpc_open(&stream, world.server, STREAM_PATH, CALLER);
    rpc_put(&stream, asked, sizeof asked);
    rpc_put_message(&stream, stream_of(8), SIZE_MAX);
    for (uint64_t id = 7; id <= 8; id++) {
        reply = (void *)rpc_next(&stream, &tollgate__v1__admit_stream_reply__descriptor);
        assert_non_null(reply);
        assert_int_equal(reply->id, id);
        assert_int_equal(reply->what_case,
                         id == 7 ? TOLLGATE__V1__ADMIT_STREAM_REPLY__WHAT_ERROR
                                 : TOLLGATE__V1__ADMIT_STREAM_REPLY__WHAT_ADMIT);
        tollgate__v1__admit_stream_reply__free_unpacked(reply, NULL);
    }
    assert_int_equal(stream.code, -1);
    rpc_close(&stream);
    close_world();
}

/* ---- Monitor ---- */

static void deny(const char *tenant, int times)
{
    struct watch_entry entry;

    for (int i = 0; i < times; i++) {
        watch_entry_init(&entry);
        entry.id = (uint64_t)i;
        watch_text(entry.tenant, sizeof entry.tenant, slice_of(tenant));
        watch_text(entry.reason, sizeof entry.reason, SLICE("rate"));
        watch_put(world.gateway->watch, &entry);
    }
}

static void watch_for(struct rpc_exchange *exchange, const char *tenant)
{
    Tollgate__V1__WatchRequest request = TOLLGATE__V1__WATCH_REQUEST__INIT;

    request.tenant = (char *)(uintptr_t)tenant;
    rpc_ask(exchange, world.server, WATCH_PATH, ADMIN, &request.base);
    assert_int_equal(exchange->status, 200);
}

/* Looks once for all that watch. */
static void watch_changes(void)
{
    struct rpc_watcher *at;

    LIST_FOREACH(at, &world.worker.rpc->watchers, link)
        at->poll(at);
}

/* Denials and drops among the events that have come. */
static void count_events(struct rpc_exchange *exchange, size_t *denials, uint64_t *dropped)
{
    Tollgate__V1__WatchEvent *event;

    *denials = 0;
    *dropped = 0;
    while ((event = (void *)rpc_next(exchange, &tollgate__v1__watch_event__descriptor)) != NULL) {
        *denials += event->denial != NULL;
        *dropped += event->dropped;
        tollgate__v1__watch_event__free_unpacked(event, NULL);
    }
}

static void a_watcher_gets_fifty_at_a_time_and_the_rest_later(void **state)
{
    struct rpc_exchange exchange;
    uint64_t dropped;
    size_t denials;

    (void)state;
    open_world("{}");
    watch_for(&exchange, "");
    deny("a", 120);
    for (size_t want = 50; want > 0; want = want == 50 ? 50 : 0) {
        watch_changes();
        count_events(&exchange, &denials, &dropped);
        assert_int_equal(dropped, 0);
        if (denials < 50) {
            assert_int_equal(denials, 20);
            break;
        }
        assert_int_equal(denials, want);
    }
    watch_changes();
    count_events(&exchange, &denials, &dropped);
    assert_int_equal(denials, 0);
    rpc_close(&exchange);
    assert_true(LIST_EMPTY(&world.worker.rpc->watchers));
    close_world();
}

/* The state after a reload. */
static void a_watcher_whose_token_is_replaced_sees_no_more(void **state)
{
    struct rpc_exchange exchange;
    uint64_t dropped;
    size_t denials;

    (void)state;
    open_world("{}");
    struct generation *generation = world.worker.generation;
    watch_for(&exchange, "");
    generation->number++; /* something else has changed */
    deny("a", 1);
    watch_changes();
    count_events(&exchange, &denials, &dropped);
    assert_int_equal(denials, 1);
    const struct config_secret was = generation->config.admin_token;
    generation->config.admin_token = (struct config_secret){.bytes = "another", .size = 7};
    generation->number++;
    deny("a", 1);
    LIST_FIRST(&world.worker.rpc->watchers)->poll(LIST_FIRST(&world.worker.rpc->watchers));
    count_events(&exchange, &denials, &dropped);
    assert_int_equal(denials, 0);
    assert_int_equal(exchange.code, GRPC_UNAUTHENTICATED);
    assert_true(LIST_EMPTY(&world.worker.rpc->watchers));
    assert_int_equal(world.worker.admin->n_denial_watchers, 0);
    generation->config.admin_token = was;
    rpc_close(&exchange);
    close_world();
}

static void a_slow_reader_is_kept_nothing_for_and_told_how_much_it_missed(void **state)
{
    struct rpc_exchange exchange;
    uint64_t dropped;
    size_t denials;

    (void)state;
    open_world("{}");
    watch_for(&exchange, "");
    exchange.queued = HTTP_OUTPUT_HIGH + 1; /* the next write is not taken */
    deny("a", 60);
    watch_changes();
    count_events(&exchange, &denials, &dropped);
    assert_int_equal(denials, 1);
    deny("a", 5 * WATCH_SLOTS);
    for (int i = 0; i < 10; i++)
        watch_changes();
    count_events(&exchange, &denials, &dropped);
    assert_int_equal(denials, 0);
    rpc_take(&exchange);
    watch_changes();
    count_events(&exchange, &denials, &dropped);
    assert_int_equal(denials, 50);
    assert_int_equal(dropped, 59 + 4 * WATCH_SLOTS);
    rpc_close(&exchange);
    close_world();
}

/* Only some of a flood are shown; whoever watches can still tell how many there were. */
static void of_a_flood_of_refusals_each_is_told_or_counted(void **state)
{
    enum { N = 3000 };
    struct rpc_exchange exchange, first, stream;
    char lease[ADMIT_LEASE_BYTES + 1];
    uint64_t dropped, all = 0;
    size_t denials, shown = 0;

    (void)state;
    open_world("{concurrency: {law: fixed, initial: 1}, queue: {wait: {normal: 0ms}}}");
    watch_for(&exchange, "");
    rpc_ask(&first, world.server, ADMIT_PATH, CALLER, admit_of("a"));
    assert_true(admitted(&first, lease));
    rpc_close(&first);
    rpc_open(&stream, world.server, STREAM_PATH, CALLER);
    for (uint64_t id = 0; id < N; id++)
        rpc_put_message(&stream, stream_of(id), SIZE_MAX);
    do {
        watch_changes();
        count_events(&exchange, &denials, &dropped);
        shown += denials;
        all += denials + dropped;
    } while (denials > 0);
    assert_int_equal(all, N);
    assert_in_range(shown, 500, N);
    rpc_close(&stream);
    rpc_close(&exchange);
    release(lease);
    close_world();
}

static void a_filter_passes_over_what_does_not_match(void **state)
{
    struct rpc_exchange exchange;
    uint64_t dropped;
    size_t denials;

    (void)state;
    open_world("{}");
    watch_for(&exchange, "b");
    deny("a", 900);
    deny("b", 3);
    watch_changes();
    count_events(&exchange, &denials, &dropped);
    assert_int_equal(denials, 3);
    assert_int_equal(dropped, 0);
    rpc_close(&exchange);
    close_world();
}

static void a_snapshot_whose_client_has_left_is_thrown_away(void **state)
{
    Tollgate__V1__GetSnapshotRequest request = TOLLGATE__V1__GET_SNAPSHOT_REQUEST__INIT;
    struct rpc_exchange gone, stays, last;

    (void)state;
    open_world("{}");
    rpc_ask(&gone, world.server, "/tollgate.v1.Monitor/GetSnapshot", ADMIN, &request.base);
    rpc_ask(&stays, world.server, "/tollgate.v1.Monitor/GetSnapshot", ADMIN, &request.base);
    assert_false(gone.finished);
    rpc_close(&gone);
    turn();
    assert_int_equal(gone.status, 0);
    assert_int_equal(stays.code, GRPC_OK);
    Tollgate__V1__Snapshot *snapshot =
        (void *)rpc_next(&stays, &tollgate__v1__snapshot__descriptor);
    assert_non_null(snapshot);
    assert_int_equal(snapshot->n_gates, 1);
    assert_string_equal(snapshot->version, tg_version());
    tollgate__v1__snapshot__free_unpacked(snapshot, NULL);
    rpc_close(&stays);
    /* One that is still being made when the worker ends. */
    rpc_ask(&last, world.server, "/tollgate.v1.Monitor/GetSnapshot", ADMIN, &request.base);
    rpc_close(&last);
    close_world();
}

/* ---- Health ---- */

static int status_of(struct rpc_exchange *exchange)
{
    Grpc__Health__V1__HealthCheckResponse *reply =
        (void *)rpc_next(exchange, &grpc__health__v1__health_check_response__descriptor);
    int status = -1;

    if (reply != NULL) {
        status = (int)reply->status;
        grpc__health__v1__health_check_response__free_unpacked(reply, NULL);
    }
    return status;
}

static void there_are_so_many_watchers_of_health_and_who_leaves_makes_room(void **state)
{
    Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    struct rpc_exchange last, beyond;

    (void)state;
    open_world("{}");
    world.worker.admin->n_health_watchers = RPC_HEALTH_WATCHERS_MAX - 1;
    rpc_ask(&last, world.server, HEALTH_PATH "Watch", NULL, &request.base);
    assert_int_equal(status_of(&last), 1);
    rpc_ask(&beyond, world.server, HEALTH_PATH "Watch", NULL, &request.base);
    assert_int_equal(beyond.code, GRPC_RESOURCE_EXHAUSTED);
    rpc_close(&beyond);
    rpc_close(&last);
    assert_int_equal(world.worker.admin->n_health_watchers, RPC_HEALTH_WATCHERS_MAX - 1);
    assert_true(LIST_EMPTY(&world.worker.rpc->watchers));
    rpc_ask(&last, world.server, HEALTH_PATH "Watch", NULL, &request.base);
    assert_int_equal(status_of(&last), 1);
    rpc_close(&last);
    close_world();
}

static void health_follows_readiness(void **state)
{
    Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    struct rpc_exchange check, watch, late;

    (void)state;
    open_world("{}");
    rpc_ask(&watch, world.server, HEALTH_PATH "Watch", NULL, &request.base);
    assert_int_equal(status_of(&watch), 1);
    watch_changes();
    assert_int_equal(status_of(&watch), -1); /* nothing has changed */
    atomic_store(&world.gateway->draining, true);
    rpc_ask(&check, world.server, HEALTH_PATH "Check", NULL, &request.base);
    assert_int_equal(status_of(&check), 2);
    rpc_close(&check);
    watch_changes();
    assert_int_equal(status_of(&watch), 2);
    assert_false(watch.finished);
    rpc_drain(world.worker.rpc);
    assert_int_equal(watch.code, GRPC_UNAVAILABLE);
    rpc_close(&watch);
    rpc_ask(&late, world.server, HEALTH_PATH "Watch", NULL, &request.base);
    assert_int_equal(status_of(&late), 2);
    assert_int_equal(late.code, GRPC_UNAVAILABLE);
    rpc_close(&late);
    assert_true(LIST_EMPTY(&world.worker.rpc->watchers));
    close_world();
}

/* A stream that is open, one without its message, and one that comes too late: all end. */
static void draining_ends_streams_in_every_state(void **state)
{
    struct rpc_exchange stream, silent, denials, late;

    (void)state;
    open_world("{}");
    rpc_open(&stream, world.server, STREAM_PATH, CALLER);
    rpc_open(&silent, world.server, HEALTH_PATH "Watch", NULL);
    rpc_open(&denials, world.server, WATCH_PATH, ADMIN);
    rpc_drain(world.worker.rpc);
    assert_int_equal(stream.code, GRPC_UNAVAILABLE);
    assert_int_equal(silent.code, GRPC_UNAVAILABLE);
    assert_int_equal(denials.code, GRPC_UNAVAILABLE);
    rpc_open(&late, world.server, STREAM_PATH, CALLER);
    assert_int_equal(late.code, GRPC_UNAVAILABLE);
    rpc_close(&stream);
    rpc_close(&silent);
    rpc_close(&denials);
    rpc_close(&late);
    close_world();
}

/* An answer is some KiB for a question of some bytes: who reads none gets no more of them. */
static void who_asks_for_contracts_and_reads_none_is_stopped(void **state)
{
    Grpc__Reflection__V1__ServerReflectionRequest request =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
    char file[] = "tollgate/v1/admission.proto";
    struct rpc_exchange asking, late;

    (void)state;
    open_world("{}");
    request.message_request_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME;
    request.file_by_filename = file;
    rpc_open(&asking, world.server, REFLECTION_PATH, NULL);
    rpc_put_message(&asking, &request.base, SIZE_MAX);
    size_t answer = asking.n;
    assert_true(answer > 1000);
    asking.queued = HTTP_OUTPUT_HIGH + 1;
    rpc_put_message(&asking, &request.base, SIZE_MAX); /* what tells us that it does not read */
    assert_true(asking.paused);
    rpc_put_message(&asking, &request.base, SIZE_MAX); /* had arrived by then */
    assert_int_equal(asking.code, GRPC_RESOURCE_EXHAUSTED);
    assert_int_equal(asking.n, 2 * answer);
    rpc_close(&asking);
    rpc_drain(world.worker.rpc);
    rpc_open(&late, world.server, REFLECTION_PATH, NULL);
    rpc_end(&late);
    assert_int_equal(late.code, GRPC_OK); /* nothing holds it up */
    rpc_close(&late);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_answer_is_larger_than_it_is_said_to_be),
        cmocka_unit_test(what_is_decided_at_once_takes_no_memory_once_warm),
        cmocka_unit_test(enforced_refusals_are_statuses_with_a_hint),
        cmocka_unit_test(who_leaves_when_he_is_let_in_gives_the_slot_back),
        cmocka_unit_test(a_stream_with_enough_that_waits_is_read_no_further),
        cmocka_unit_test(errors_are_counted_by_their_reason),
        cmocka_unit_test(a_text_with_a_zero_byte_is_refused_and_numbers_with_one_are_not),
        cmocka_unit_test(a_watcher_gets_fifty_at_a_time_and_the_rest_later),
        cmocka_unit_test(a_watcher_whose_token_is_replaced_sees_no_more),
        cmocka_unit_test(a_slow_reader_is_kept_nothing_for_and_told_how_much_it_missed),
        cmocka_unit_test(of_a_flood_of_refusals_each_is_told_or_counted),
        cmocka_unit_test(there_are_so_many_watchers_of_health_and_who_leaves_makes_room),
        cmocka_unit_test(a_filter_passes_over_what_does_not_match),
        cmocka_unit_test(a_snapshot_whose_client_has_left_is_thrown_away),
        cmocka_unit_test(health_follows_readiness),
        cmocka_unit_test(draining_ends_streams_in_every_state),
        cmocka_unit_test(who_asks_for_contracts_and_reads_none_is_stopped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
