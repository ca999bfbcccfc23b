/* test_protect_step.c - every event in every state of a call to a protected route.
 *
 * There is no network: the exchanges with the client and with the upstream are made here. The gate
 * is a real one with a single slot and a remote store that the test plays. After every path
 * everything has been given back exactly once: slots, peers, leases, charges, questions, waits,
 * exchanges, generations, memory.
 */
#include "failing_malloc.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "dies.h"
#include "lib/core/container_of.h"
#include "server/protect/protect_internal.h"
#include "server/serve/services.h"

static struct {
    struct clock clock;
    struct gateway *gateway;
    struct worker worker;
    struct tg_gate *own_gate; /* the gateway's, while the test has another in its place */
    bool remote;

    /* The client's exchange. */
    struct http_inbound in;
    struct sockaddr_in peer;
    int status, paused, replies, writes, finished, aborted;
    uint32_t abort_code;
    size_t queued;

    /* The upstream's. */
    bool cannot_send;
    int sent, open, cancelled, out_paused, out_finished;

    /* The remote store and the wait. */
    const struct admission_ops *real;
    int questions, charges, settled, refunded, waits_over;
    bool says_later;

    struct protected_call *call;
    tg_lease other;
    uint64_t held; /* references to the generation, when the test began */
} world;

/* ---- the client's exchange ---- */

static void in_pause(struct http_inbound *in)
{
    (void)in;
    world.paused++;
}

static void in_resume(struct http_inbound *in)
{
    (void)in;
    world.paused--;
}

static void in_reply(struct http_inbound *in, const struct http_head *head)
{
    (void)in;
    world.replies++;
    world.status = head->status;
}

static size_t in_write(struct http_inbound *in, struct slice bytes)
{
    (void)in;
    (void)bytes;
    world.writes++;
    return world.queued;
}

static void in_finish(struct http_inbound *in, const struct http_field *trailers, size_t n)
{
    (void)in;
    (void)trailers;
    (void)n;
    world.finished++;
}

static void in_abort(struct http_inbound *in, uint32_t code)
{
    (void)in;
    world.aborted++;
    world.abort_code = code;
}

static const struct sockaddr *in_peer(const struct http_inbound *in)
{
    (void)in;
    return (const struct sockaddr *)&world.peer;
}

static const struct http_inbound_transport in_transport = {.pause = in_pause,
                                                           .resume = in_resume,
                                                           .reply = in_reply,
                                                           .write = in_write,
                                                           .finish = in_finish,
                                                           .abort = in_abort,
                                                           .peer = in_peer};

/* ---- the upstream's exchange ---- */

static size_t out_write(struct http_outbound *out, struct slice bytes)
{
    (void)out;
    (void)bytes;
    return world.queued;
}

static void out_finish(struct http_outbound *out, const struct http_field *trailers, size_t n)
{
    (void)out;
    (void)trailers;
    (void)n;
    world.out_finished++;
}

static void out_pause(struct http_outbound *out)
{
    (void)out;
    world.out_paused++;
}

static void out_resume(struct http_outbound *out)
{
    (void)out;
    world.out_paused--;
}

static void out_cancel(struct http_outbound *out, uint32_t code)
{
    (void)code;
    world.cancelled++;
    world.open--;
    free(out);
}

static struct http_outbound *out_send(struct http_client *client, struct http_origin *origin,
                                      const struct http_head *head,
                                      const struct http_timeouts *timeouts,
                                      const struct http_client_ops *ops, void *owner)
{
    struct http_outbound *out = world.cannot_send ? NULL : calloc(1, sizeof *out);

    (void)client, (void)origin, (void)head, (void)timeouts;
    if (out == NULL)
        return NULL;
    out->ops = ops;
    out->owner = owner;
    world.sent++;
    world.open++;
    return out;
}

static const struct protect_env env = {.send = out_send,
                                       .write = out_write,
                                       .finish = out_finish,
                                       .pause = out_pause,
                                       .resume = out_resume,
                                       .cancel = out_cancel};

/* An exchange that has told its end frees itself. */
static void out_gone(struct http_outbound *out)
{
    world.open--;
    free(out);
}

/* ---- the remote store ---- */

static enum tg_err play_wait(struct admission_run *run, tg_ms deadline)
{
    return world.real->wait(run, deadline);
}

static void play_wait_over(struct admission_run *run)
{
    world.waits_over++;
    world.real->wait_over(run);
}

static struct tg_axes axes_of(bool allowed)
{
    struct tg_axes axes = {.present = 1u << TG_AXIS_RATE};

    axes.decision[TG_AXIS_RATE] = allowed ? ALLOWED(10, 9, 0) : DENIED(10, 0, 2000, 1000);
    return axes;
}

static bool play_ask(struct admission_run *run, tg_ms now, enum tg_err *err, struct tg_axes *axes)
{
    (void)run;
    (void)now;
    *err = TG_OK;
    *axes = axes_of(true);
    world.questions += world.says_later;
    world.charges += !world.says_later;
    return !world.says_later;
}

static void play_settle(struct admission_run *run, tg_ms now, int64_t actual)
{
    (void)run;
    (void)now;
    assert_int_equal(actual, -1);
    assert_int_equal(world.charges, 1);
    world.charges--;
    world.settled++;
}

static void play_refund(struct admission_run *run, tg_ms now)
{
    (void)run;
    (void)now;
    assert_int_equal(world.charges + world.questions, 1);
    world.charges = world.questions = 0;
    world.refunded++;
}

static const struct admission_ops played = {.wait = play_wait,
                                            .wait_over = play_wait_over,
                                            .ask = play_ask,
                                            .settle = play_settle,
                                            .refund = play_refund};

/* ---- the world ---- */

static void open_world(bool remote)
{
    struct config_problems problems;
    struct tg_problem problem;
    struct config config;
    const char *yaml = "listen: {gateway: \"127.0.0.1:0\"}\n"
                       "ledger: {path: \":memory:\"}\n"
                       "log: {level: error}\n"
                       "gate:\n"
                       "  concurrency: {law: fixed, initial: 1}\n"
                       "  queue: {wait: {high: 1h, normal: 1h, low: 0ms}}\n"
                       "  peers: {limit: 8}\n"
                       "  rate: {strategy: gcra, limit: 1000, period: 1s}\n"
                       "protect:\n"
                       "  - {prefix: /api, upstream: \"http://127.0.0.1:9/base\"}\n";

    memset(&world, 0, sizeof world);
    clock_init(&world.clock);
    if (config_parse(NULL, yaml, strlen(yaml), &config, &problems) != CONFIG_READ)
        fail_msg("%s", problems.list[0].text);
    config_problems_free(&problems);
    if (!gateway_new(&services, &config, &world.clock, 1, &world.gateway, &problem))
        fail_msg("%s", problem.text);
    if (!worker_init(&world.worker, world.gateway, 0, &world.worker, &problem))
        fail_msg("%s", problem.text);
    world.remote = remote;
    world.peer.sin_family = AF_INET;
    world.peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    world.held = world.worker.generation->refs[0].n;
    if (!remote)
        return;
    struct tg_gate_config gate;
    tg_gate_config_init(&gate);
    gate.concurrency.on = gate.peers.on = true;
    gate.concurrency.law.law = TG_LAW_FIXED;
    gate.concurrency.law.min = gate.concurrency.law.initial = 1;
    gate.concurrency.wait[TG_PRIORITY_NORMAL] = 3600000;
    gate.remote_store = true;
    gate.wake = gateway_wake;
    world.own_gate = world.gateway->gate;
    assert_int_equal(tg_gate_new(&gate, &world.gateway->gate, &problem), TG_OK);
}

/* What is held is held no more. */
static void expect_nothing_held(void)
{
    struct tg_gate_stats stats;

    assert_null(world.call);
    assert_null(world.in.owner);
    tg_gate_get_stats(world.gateway->gate, &stats);
    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.leases, 0);
    assert_int_equal(stats.peer_calls, 0);
    assert_int_equal(stats.queued[TG_PRIORITY_NORMAL], 0);
    assert_int_equal(world.questions, 0);
    assert_int_equal(world.charges, 0);
    assert_int_equal(world.open, 0);
    assert_int_equal(atomic_load(&world.gateway->counts.open), 0);
    assert_true(world.worker.generation->refs[0].n == world.held);
}

static void close_world(void)
{
    expect_nothing_held();
    if (world.own_gate != NULL) {
        tg_gate_free(world.gateway->gate);
        world.gateway->gate = world.own_gate;
    }
    worker_fini(&world.worker);
    gateway_free(world.gateway);
}

/* Somebody else takes the only slot, or leaves it. */
static void occupy(void)
{
    struct tg_call other;
    struct tg_answer answer;

    tg_call_init(&other);
    other.lease_ttl = 86400000; /* longer than anybody waits */
    assert_int_equal(tg_gate_admit(world.gateway->gate, &other, 0,
                                   worker_now(&world.worker), &answer),
                     TG_OK);
    assert_true(answer.step == TG_DECIDED && answer.decision.allowed);
    world.other = answer.lease;
}

static void vacate(void)
{
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = TG_OUTCOME_CANCELLED;
    if (world.other != 0)
        assert_true(tg_gate_release(world.gateway->gate, world.other,
                                    worker_now(&world.worker), &release));
    world.other = 0;
}

/* ---- events ---- */

static const struct http_field trailers[] = {{{"grpc-status", 11}, {"0", 1}}};
static const struct http_head reply_head = {.status = 200, .length = -1};

static void step(enum protect_event_kind kind)
{
    struct protected_call *call = world.call;
    struct http_outbound *out = call->out;
    struct tg_axes axes = axes_of(true);
    struct protect_event event = {.kind = kind, .bytes = SLICE("some bytes"), .head = &reply_head};

    if (kind == PROTECT_STORE_ANSWER) {
        world.questions--;
        world.charges++;
        event.axes = &axes;
    }
    if (kind == PROTECT_CLIENT_GONE)
        event.why = HTTP_HANGUP;
    if (kind == PROTECT_UPSTREAM_FAILED)
        event.why = HTTP_GARBAGE;
    protect_step(call, &event);
    if (kind == PROTECT_CLIENT_GONE)
        world.call = NULL;
    if (out != NULL && (kind == PROTECT_UPSTREAM_END || kind == PROTECT_UPSTREAM_FAILED))
        out_gone(out);
}

static const struct http_field grpc_fields[] = {{{"content-type", 12}, {"application/grpc", 16}},
                                                {{"te", 2}, {"trailers", 8}}};

static void begin(const char *method, bool grpc)
{
    const struct protected_route *route = protect_find(world.worker.generation, SLICE("/api/x"));

    world.in = (struct http_inbound){.transport = &in_transport,
                                     .head = {.method = slice_of(method),
                                              .target = SLICE("/api/x"),
                                              .version = grpc ? 20 : 11,
                                              .fields = grpc ? grpc_fields : NULL,
                                              .n_fields = grpc ? COUNT_OF(grpc_fields) : 0,
                                              .length = -1}};
    assert_non_null(route);
    world.call = protect_call_new(&world.worker, route, &world.in);
    assert_non_null(world.call);
    world.call->env = &env;
}

/* A call that has asked the gate, whose store the test plays. */
static void begin_waiting(bool grpc)
{
    occupy();
    begin("POST", grpc);
    step(PROTECT_BEGIN);
    assert_int_equal(world.call->state, PROTECT_ADMITTING);
    assert_int_equal(world.call->run.state, ADMISSION_WAITING);
    if (world.remote) {
        world.real = world.call->run.ops;
        world.call->run.ops = &played;
    }
}

/* The places where an event can find a call. */
enum place { AT_NEW,
             AT_QUEUE,
             AT_STORE,
             AT_FORWARDING,
             AT_REPLYING,
             AT_OVER,
             PLACES };

static void begin_at(enum place place, bool grpc)
{
    if (place == AT_NEW) {
        begin("POST", grpc);
        return;
    }
    begin_waiting(grpc);
    if (place == AT_QUEUE)
        return;
    world.says_later = place == AT_STORE;
    vacate();
    step(PROTECT_WAKE);
    if (place == AT_REPLYING || place == AT_OVER)
        step(PROTECT_UPSTREAM_HEAD);
    if (place == AT_OVER)
        step(PROTECT_UPSTREAM_END);
}

/* The client leaves, if it has not, and so does who has the slot. */
static void end_all(void)
{
    if (world.call != NULL) {
        if (world.call->state == PROTECT_NEW)
            step(PROTECT_BEGIN);
        step(PROTECT_CLIENT_GONE);
    }
    vacate();
}

/* ---- the table ---- */

struct attempt {
    enum place place;
    enum protect_event_kind kind;
};

static void attempt_it(void *arg)
{
    const struct attempt *attempt = arg;

    begin_at(attempt->place, false);
    step(attempt->kind);
}

static void every_event_in_every_state(void **state)
{
    enum { DIES = -1,
           FREED = -2,
           N = PROTECT_NEW,
           A = PROTECT_ADMITTING };
    enum { F = PROTECT_FORWARDING,
           R = PROTECT_REPLYING,
           O = PROTECT_OVER };
    static const int table[PROTECT_EVENT_COUNT][PLACES] = {
        /*                            new   queue  store forwarding replying over */
        [PROTECT_BEGIN] = {F, DIES, DIES, DIES, DIES, DIES},
        [PROTECT_WAKE] = {DIES, A, DIES, DIES, DIES, DIES},
        [PROTECT_STORE_ANSWER] = {DIES, DIES, F, DIES, DIES, DIES},
        [PROTECT_TIMER] = {DIES, DIES, DIES, F, R, DIES},
        [PROTECT_CLIENT_DATA] = {DIES, DIES, DIES, F, R, O},
        [PROTECT_CLIENT_END] = {DIES, DIES, DIES, F, R, O},
        [PROTECT_CLIENT_ROOM] = {DIES, DIES, DIES, DIES, R, O},
        [PROTECT_CLIENT_GONE] = {DIES, FREED, FREED, FREED, FREED, FREED},
        [PROTECT_UPSTREAM_HEAD] = {DIES, DIES, DIES, R, DIES, DIES},
        [PROTECT_UPSTREAM_DATA] = {DIES, DIES, DIES, DIES, R, DIES},
        [PROTECT_UPSTREAM_END] = {DIES, DIES, DIES, DIES, O, DIES},
        [PROTECT_UPSTREAM_ROOM] = {DIES, DIES, DIES, F, R, DIES},
        [PROTECT_UPSTREAM_FAILED] = {DIES, DIES, DIES, O, O, DIES},
    };

    (void)state;
    open_world(true);
    for (int place = 0; place < PLACES; place++)
        for (int kind = 0; kind < PROTECT_EVENT_COUNT; kind++) {
            struct attempt attempt = {(enum place)place, (enum protect_event_kind)kind};
            int want = table[kind][place];

            if (want == DIES) {
                if (ASSERTS_ARE_ON && !dies(attempt_it, &attempt))
                    fail_msg("event %d at place %d did not assert", kind, place);
                continue;
            }
            if (place == AT_NEW) { /* the real store would be asked: there is none */
                struct tg_gate *remote = world.gateway->gate;
                world.gateway->gate = world.own_gate;
                begin_at(attempt.place, false);
                step(attempt.kind);
                assert_int_equal(world.call->state, want);
                end_all();
                world.gateway->gate = remote;
            } else {
                begin_at(attempt.place, false);
                step(attempt.kind);
                if (want == FREED)
                    assert_null(world.call);
                else if ((int)world.call->state != want)
                    fail_msg("event %d at place %d led to %d", kind, place, world.call->state);
                end_all();
            }
            expect_nothing_held();
        }
    close_world();
}

/* ---- what happens at one instant ---- */

static void slot_granted_at_a_hangup_is_given_back(void **state)
{
    (void)state;
    open_world(true);
    begin_waiting(false);
    vacate(); /* granted, and the wake is posted */
    assert_true(world.call->waiter.woken.queued);
    step(PROTECT_CLIENT_GONE);
    assert_int_equal(world.waits_over, 1);
    assert_int_equal(world.sent, 0);
    net_loop_turn(world.worker.loop, false); /* no wake reaches what is gone */
    close_world();
}

static void timer_and_wake_at_one_instant_are_one_event(void **state)
{
    (void)state;
    open_world(true);
    begin_waiting(false);
    vacate();
    assert_true(world.call->waiter.woken.queued);
    world.call->timer.fire(world.call->timer.arg); /* the timer is first */
    assert_int_equal(world.call->state, PROTECT_FORWARDING);
    assert_false(world.call->waiter.woken.queued);
    assert_int_equal(world.waits_over, 1);
    end_all();
    close_world();
}

static void answer_of_the_store_never_reaches_who_is_gone(void **state)
{
    (void)state;
    open_world(true);
    begin_at(AT_STORE, false);
    assert_int_equal(world.questions, 1);
    step(PROTECT_CLIENT_GONE);
    assert_int_equal(world.refunded, 1);
    assert_int_equal(world.settled, 0);
    close_world();
}

/* ---- ways through ---- */

static void charge_is_settled_when_the_reply_has_ended(void **state)
{
    (void)state;
    open_world(true);
    begin_at(AT_REPLYING, false);
    assert_int_equal(world.charges, 1);
    step(PROTECT_UPSTREAM_END);
    assert_int_equal(world.settled, 1);
    assert_int_equal(world.finished, 1);
    step(PROTECT_CLIENT_GONE);
    assert_int_equal(world.settled + world.refunded, 1);
    close_world();
}

static void wait_that_is_over_is_refused(void **state)
{
    struct tg_gate *gate;

    (void)state;
    open_world(true);
    gate = world.gateway->gate;
    begin_waiting(false);
    tg_gate_tick(gate, worker_now(&world.worker) + 3600000);
    step(PROTECT_WAKE);
    assert_int_equal(world.call->state, PROTECT_OVER);
    assert_int_equal(world.status, 429);
    assert_int_equal(world.call->reason, REPLY_CONCURRENCY);
    assert_int_equal(world.sent, 0);
    end_all();
    close_world();
}

static void store_that_says_no_or_nothing_is_a_refusal(void **state)
{
    const struct tg_axes no = axes_of(false);
    static const struct {
        enum tg_err err;
        int status;
    } rows[] = {{TG_OK, 429}, {TG_ERR_STORE, 503}, {TG_ERR_MEMORY, 503}};

    (void)state;
    open_world(true);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin_at(AT_STORE, false);
        world.questions = 0;
        const struct protect_event event = {
            .kind = PROTECT_STORE_ANSWER, .err = rows[i].err, .axes = &no};
        protect_step(world.call, &event);
        assert_int_equal(world.call->state, PROTECT_OVER);
        assert_int_equal(world.status, rows[i].status);
        end_all();
        expect_nothing_held();
    }
    assert_int_equal(world.settled + world.refunded, 0);
    close_world();
}

static void draining_gateway_refuses(void **state)
{
    (void)state;
    open_world(false);
    atomic_store(&world.gateway->draining, true);
    begin("GET", false);
    step(PROTECT_BEGIN);
    assert_int_equal(world.call->state, PROTECT_OVER);
    assert_int_equal(world.status, 503);
    end_all();
    close_world();
}

static void request_is_sent_again_once(void **state)
{
    (void)state;
    open_world(false);
    begin("GET", false);
    step(PROTECT_BEGIN);
    for (int i = 0; i < 2; i++) {
        struct http_outbound *out = world.call->out;

        assert_int_equal(world.call->state, PROTECT_FORWARDING);
        assert_int_equal(world.sent, i + 1);
        protect_step(world.call, &(struct protect_event){.kind = PROTECT_UPSTREAM_FAILED,
                                                         .why = HTTP_RESET});
        out_gone(out);
    }
    assert_int_equal(world.call->state, PROTECT_OVER);
    assert_int_equal(world.status, 502);
    assert_int_equal(world.sent, 2);
    end_all();
    close_world();
}

static void slower_side_stops_the_other(void **state)
{
    (void)state;
    open_world(false);
    begin("POST", false);
    step(PROTECT_BEGIN);
    assert_int_equal(world.paused, 0);
    world.queued = PROTECT_QUEUED_MAX + 1;
    step(PROTECT_CLIENT_DATA);
    step(PROTECT_CLIENT_DATA);
    assert_int_equal(world.paused, 1);
    step(PROTECT_UPSTREAM_ROOM);
    step(PROTECT_UPSTREAM_ROOM);
    assert_int_equal(world.paused, 0);
    step(PROTECT_UPSTREAM_HEAD);
    step(PROTECT_UPSTREAM_DATA);
    step(PROTECT_UPSTREAM_DATA);
    assert_int_equal(world.out_paused, 1);
    step(PROTECT_CLIENT_ROOM);
    step(PROTECT_CLIENT_ROOM);
    assert_int_equal(world.out_paused, 0);
    end_all();
    assert_int_equal(world.cancelled, 1);
    close_world();
}

static void overdue_rpc_is_ended(void **state)
{
    (void)state;
    open_world(false);
    for (int replying = 0; replying < 2; replying++) {
        int cancelled = world.cancelled;

        begin("POST", true);
        step(PROTECT_BEGIN);
        if (replying)
            step(PROTECT_UPSTREAM_HEAD);
        world.call->deadline = worker_now(&world.worker) - 1000;
        step(PROTECT_TIMER);
        assert_int_equal(world.call->state, PROTECT_OVER);
        assert_int_equal(world.cancelled, cancelled + 1);
        assert_int_equal(world.call->reason, REPLY_UPSTREAM_TIMEOUT);
        end_all();
        expect_nothing_held();
    }
    close_world();
}

/* The gate of all gets a law that steps back at once. */
static void use_aimd(void)
{
    struct tg_gate_config gate;
    struct tg_problem problem;

    tg_gate_config_init(&gate);
    gate.concurrency.on = true;
    gate.concurrency.law.law = TG_LAW_AIMD;
    gate.concurrency.law.min = 1;
    gate.concurrency.law.initial = gate.concurrency.law.max = 20;
    gate.wake = gateway_wake;
    world.own_gate = world.gateway->gate;
    assert_int_equal(tg_gate_new(&gate, &world.gateway->gate, &problem), TG_OK);
}

static int64_t limit_now(void)
{
    struct tg_gate_stats stats;

    tg_gate_get_stats(world.gateway->gate, &stats);
    return stats.limit;
}

/* A client chooses its deadline; the law, which is everybody's, is not moved by it. */
static void a_clients_deadline_moves_no_law(void **state)
{
    static const struct {
        enum protect_event_kind kind; /* how it ends */
        enum http_why why;
        int status;      /* the status of the reply; 0: none has come */
        const char *rpc; /* the status of an RPC; null: it is none */
        bool overdue;    /* the client's deadline has passed */
        bool slow;       /* the client reads slowly */
        bool moved;
    } rows[] = {
        {PROTECT_TIMER, 0, 0, "", true, false, false},
        {PROTECT_TIMER, 0, 200, "", true, false, false},
        {PROTECT_UPSTREAM_FAILED, HTTP_RESET, 0, "", true, false, false},
        {PROTECT_UPSTREAM_FAILED, HTTP_RESET, 200, "", true, false, false},
        {PROTECT_UPSTREAM_END, 0, 200, "4", true, false, false},
        {PROTECT_UPSTREAM_END, 0, 200, "4", false, false, true},
        {PROTECT_UPSTREAM_END, 0, 504, NULL, true, false, false},
        {PROTECT_UPSTREAM_END, 0, 504, NULL, false, false, true},
        {PROTECT_UPSTREAM_FAILED, HTTP_RESET, 200, NULL, false, true, false},
        {PROTECT_UPSTREAM_FAILED, HTTP_RESET, 200, NULL, false, false, true},
        {PROTECT_UPSTREAM_FAILED, HTTP_LATE_FIRST_BYTE, 0, NULL, false, false, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct http_head head = {.status = rows[i].status, .length = -1};

        open_world(false);
        use_aimd();
        begin("POST", rows[i].rpc != NULL);
        step(PROTECT_BEGIN);
        assert_int_equal(world.call->state, PROTECT_FORWARDING);
        world.call->sent_again = true;
        if (rows[i].status != 0)
            protect_step(world.call, &(struct protect_event){.kind = PROTECT_UPSTREAM_HEAD,
                                                             .head = &head});
        if (rows[i].rpc != NULL && world.call->state == PROTECT_REPLYING) {
            world.call->grpc_status_n = strlen(rows[i].rpc);
            memcpy(world.call->grpc_status, rows[i].rpc, world.call->grpc_status_n);
        }
        if (rows[i].slow) {
            world.queued = PROTECT_QUEUED_MAX + 1;
            step(PROTECT_UPSTREAM_DATA);
            step(PROTECT_CLIENT_ROOM);
        }
        if (rows[i].overdue) {
            world.call->gate_call.deadline = worker_now(&world.worker) - 1000;
            world.call->deadline = rows[i].rpc != NULL ? world.call->gate_call.deadline : 0;
        }
        struct http_outbound *out = world.call->out;
        protect_step(world.call, &(struct protect_event){.kind = rows[i].kind, .why = rows[i].why});
        if (rows[i].kind != PROTECT_TIMER)
            out_gone(out);
        assert_int_equal(world.call->state, PROTECT_OVER);
        if ((limit_now() != 20) != rows[i].moved)
            fail_msg("row %zu: the limit is %lld", i, (long long)limit_now());
        end_all();
        close_world();
    }
}

static void trailers_of_the_request_are_forwarded(void **state)
{
    (void)state;
    open_world(false);
    begin("POST", true);
    step(PROTECT_BEGIN);
    world.in.trailers = trailers;
    world.in.n_trailers = COUNT_OF(trailers);
    step(PROTECT_CLIENT_END);
    assert_int_equal(world.out_finished, 1);
    assert_true(world.call->ended);
    end_all();
    close_world();
}

/* ---- memory ---- */

/* A whole call, of which one allocation fails. */
static long live_once(long nth)
{
    const struct protected_route *route = protect_find(world.worker.generation, SLICE("/api/x"));
    long errors = 0;

    world.in = (struct http_inbound){
        .transport = &in_transport,
        .head = {.method = SLICE("GET"), .target = SLICE("/api/x"), .version = 11, .length = -1}};
    fail_at(nth);
    world.call = protect_call_new(&world.worker, route, &world.in);
    if (world.call != NULL) {
        world.call->env = &env;
        step(PROTECT_BEGIN);
    }
    until_failure = -1;
    if (world.call == NULL)
        return 1;
    if (world.call->state == PROTECT_FORWARDING) {
        step(PROTECT_UPSTREAM_HEAD);
        step(PROTECT_UPSTREAM_END);
    } else {
        assert_int_equal(world.call->state, PROTECT_OVER);
        assert_int_equal(world.status, 500);
        errors = 1;
    }
    end_all();
    expect_nothing_held();
    return errors;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    need_allocator();
    open_world(false);
    live_once(-1); /* what the gate keeps, and the counts of refusals, are there */
    live_once(1);
    expect_survival(live_once, false, 2, 1);
    keeps_failing = false;
    close_world();
}

/* A request that finds no memory for its call is aborted, and belongs to nobody. */
static void no_memory_for_a_call_aborts_the_request(void **state)
{
    (void)state;
    need_allocator();
    open_world(false);
    world.in = (struct http_inbound){
        .transport = &in_transport,
        .head = {.method = SLICE("GET"), .target = SLICE("/api/x"), .version = 11, .length = -1}};
    fail_at(0);
    assert_true(protect_service.begin(&world.worker, &world.in));
    until_failure = -1;
    assert_int_equal(world.aborted, 1);
    close_world();
}

/* The slot goes back, and no reply was begun. */
static void request_that_cannot_be_sent_is_refused(void **state)
{
    (void)state;
    open_world(true);
    begin_waiting(false);
    world.cannot_send = true;
    vacate();
    step(PROTECT_WAKE);
    assert_int_equal(world.call->state, PROTECT_OVER);
    assert_int_equal(world.status, 500);
    assert_int_equal(world.refunded, 1); /* it was never made */
    end_all();
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_in_every_state),
        cmocka_unit_test(slot_granted_at_a_hangup_is_given_back),
        cmocka_unit_test(timer_and_wake_at_one_instant_are_one_event),
        cmocka_unit_test(answer_of_the_store_never_reaches_who_is_gone),
        cmocka_unit_test(charge_is_settled_when_the_reply_has_ended),
        cmocka_unit_test(wait_that_is_over_is_refused),
        cmocka_unit_test(store_that_says_no_or_nothing_is_a_refusal),
        cmocka_unit_test(draining_gateway_refuses),
        cmocka_unit_test(request_is_sent_again_once),
        cmocka_unit_test(slower_side_stops_the_other),
        cmocka_unit_test(overdue_rpc_is_ended),
        cmocka_unit_test(a_clients_deadline_moves_no_law),
        cmocka_unit_test(trailers_of_the_request_are_forwarded),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(no_memory_for_a_call_aborts_the_request),
        cmocka_unit_test(request_that_cannot_be_sent_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
