/* test_admit_core.c - decisions for callers: what they may state, waiting, and what is reported. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "net_admit_kit.h"
#include "server/obs/metrics.h"
#include "server/obs/watch.h"
#include "server/runtime/report_notes.h"

static struct admit_kit kit;

static struct admit_ask an_ask(void)
{
    struct admit_ask ask;

    admit_ask_init(&ask);
    return ask;
}

/* ---- who may state what ---- */

struct stated {
    const char *field;
    void (*state)(struct admit_ask *ask);
};

static void state_tenant(struct admit_ask *ask)
{
    ask->tenant = SLICE("team");
}

static void state_peer(struct admit_ask *ask)
{
    ask->peer = SLICE("node-7");
}

static void state_priority(struct admit_ask *ask)
{
    ask->priority = TG_PRIORITY_LOW;
}

static void state_value(struct admit_ask *ask)
{
    ask->has_value = true;
    ask->value = 0;
}

static void a_field_needs_its_permission_and_the_error_names_it(void **state)
{
    static const struct stated rows[] = {{"tenant", state_tenant},
                                         {"peer", state_peer},
                                         {"priority", state_priority},
                                         {"value", state_value}};
    struct kit_answer answer;

    (void)state;
    kit_open(&kit, "");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct admit_ask ask = an_ask();
        rows[i].state(&ask);
        kit_ask(&kit, 0, "none", &ask, &answer);
        assert_int_equal(answer.reply.status, ADMIT_FORBIDDEN);
        assert_string_equal(answer.reply.field, rows[i].field);
        assert_non_null(strstr(answer.reply.message, rows[i].field));
        kit_ask(&kit, 0, "other", &ask, &answer);
        assert_int_equal(answer.reply.status, i == 0 ? ADMIT_DECIDED : ADMIT_FORBIDDEN);
        kit_ask(&kit, 0, "all", &ask, &answer);
        assert_int_equal(answer.reply.status, ADMIT_DECIDED);
        assert_true(answer.reply.allowed);
        assert_true(kit_release(&kit, 0, "all", &answer));
    }
    kit_close(&kit);
}

static void what_is_out_of_range_is_an_error_that_names_it(void **state)
{
    static char name[ADMIT_NAME_MAX + 1];
    const struct slice too_long = {name, sizeof name};
    struct admit_ask rows[] = {an_ask(), an_ask(), an_ask(), an_ask(), an_ask(),
                               an_ask(), an_ask(), an_ask(), an_ask(), an_ask(),
                               an_ask()};
    static const char *const fields[] = {"cost", "cost", "hold_s", "hold_s", "ttl_ms",
                                         "ttl_ms", "value", "tenant", "user", "model",
                                         "peer"};
    struct kit_answer answer;

    (void)state;
    memset(name, 'x', sizeof name);
    rows[0].cost = -1;
    rows[1].cost = TG_NUMBER_MAX + 1;
    rows[2].hold_s = -1;
    rows[3].hold_s = NAN;
    rows[4].ttl_ms = -1;
    rows[5].ttl_ms = 600001;
    rows[6].has_value = true;
    rows[6].value = INFINITY;
    rows[7].tenant = rows[8].user = rows[9].model = too_long;
    rows[10].peer = SLICE("a\0b");
    kit_open(&kit, "");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        kit_ask(&kit, 0, "all", &rows[i], &answer);
        assert_int_equal(answer.reply.status, ADMIT_INVALID);
        assert_string_equal(answer.reply.field, fields[i]);
    }
    assert_int_equal(kit_stats(&kit).leases, 0);
    rows[5].ttl_ms = 600000; /* gate.lease_ttl */
    kit_ask(&kit, 0, "all", &rows[5], &answer);
    assert_true(answer.reply.allowed);
    assert_int_equal(answer.reply.lease_expires_at, worker_now(&kit.workers[0]) + 600000);
    kit_close(&kit);
}

static void a_token_of_nobody_is_none(void **state)
{
    struct admit_caller caller;

    (void)state;
    kit_open(&kit, "");
    assert_false(kit_caller(&kit, "guess", &caller));
    assert_true(kit_caller(&kit, "all", &caller));
    assert_string_equal(caller.entry->name, "all");
    kit_close(&kit);
}

static void keep_reply(void *context, const struct admit_reply *reply)
{
    *(struct admit_reply *)context = *reply;
}

/* A connection outlives a reload, which may have taken its caller out. */
static void a_caller_that_was_taken_out_is_refused_from_then_on(void **state)
{
    struct admit_caller caller;
    struct kit_answer answer = {0};
    struct admit_ask ask = an_ask();
    struct tg_release release;
    struct admit_reply error;
    bool found;

    (void)state;
    kit_open(&kit, "");
    assert_true(kit_caller(&kit, "all", &caller));
    caller.generation = 0; /* the value after a reload */
    caller.hash[0] ^= 1;
    tg_release_init(&release);
    assert_null(admit_peek(&kit.workers[0], &caller, &ask, keep_reply, &answer.reply));
    assert_int_equal(answer.reply.status, ADMIT_UNAUTHENTICATED);
    assert_int_equal(admit_release(&kit.workers[0], &caller, SLICE("x"), &release, &found, &error),
                     ADMIT_UNAUTHENTICATED);
    caller.generation = 0;
    caller.hash[0] ^= 1;
    assert_null(admit_peek(&kit.workers[0], &caller, &ask, keep_reply, &answer.reply));
    assert_int_equal(answer.reply.status, ADMIT_DECIDED);
    kit_close(&kit);
}

/* ---- headers ---- */

static void headers_count_where_the_caller_may_state_them(void **state)
{
    const struct http_field fields[] = {{SLICE("x-deriva-priority"), SLICE("low")},
                                        {SLICE("x-deriva-node-id"), SLICE("n-1")},
                                        {SLICE("x-tollgate-value"), SLICE("2.5")}};
    const struct http_head head = {.fields = fields, .n_fields = 3};
    struct admit_caller caller;
    struct admit_ask ask = an_ask();

    (void)state;
    kit_open(&kit, "");
    assert_true(kit_caller(&kit, "none", &caller));
    admit_ask_head(&kit.workers[0], &caller, &head, &ask);
    assert_int_equal(ask.priority, TG_PRIORITY_COUNT);
    assert_int_equal(ask.peer.n, 0);
    assert_false(ask.has_value);
    assert_true(kit_caller(&kit, "all", &caller));
    admit_ask_head(&kit.workers[0], &caller, &head, &ask);
    assert_int_equal(ask.priority, TG_PRIORITY_LOW);
    assert_true(slice_equal(ask.peer, SLICE("n-1")));
    assert_true(ask.has_value);
    assert_true(ask.value == 2.5);
    kit_close(&kit);
}

#define ONE_SLOT                                                \
    "gate:\n"                                                   \
    "  concurrency: {law: fixed, initial: 1, min: 1, max: 1}\n" \
    "  queue: {wait: {high: 1h, normal: 1h, low: 0ms}}\n"

/* Low may not wait here: so a class shows in what happens to a call that finds no slot. */
static void a_header_lowers_a_class_and_never_raises_it(void **state)
{
    static const struct {
        enum tg_priority field;
        const char *header;
        bool waits;
    } rows[] = {{TG_PRIORITY_HIGH, "low", false},
                {TG_PRIORITY_LOW, "high", false},
                {TG_PRIORITY_COUNT, "high", true},
                {TG_PRIORITY_COUNT, "low", false},
                {TG_PRIORITY_NORMAL, "nonsense", true}};
    struct admit_caller caller;
    struct kit_answer holds, answer;

    (void)state;
    kit_open(&kit, ONE_SLOT);
    assert_true(kit_admit(&kit, "all", &holds));
    assert_true(kit_caller(&kit, "all", &caller));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct http_field field = {SLICE("x-tollgate-priority"), slice_of(rows[i].header)};
        const struct http_head head = {.fields = &field, .n_fields = 1};
        struct admit_ask ask = an_ask();
        ask.priority = rows[i].field;
        admit_ask_head(&kit.workers[0], &caller, &head, &ask);
        kit_ask(&kit, 0, "all", &ask, &answer);
        assert_int_equal(answer.pending != NULL, rows[i].waits);
        if (answer.pending != NULL)
            admit_cancel(answer.pending);
        else
            assert_int_equal(answer.reply.reason, TG_REASON_CONCURRENCY);
    }
    assert_true(kit_release(&kit, 0, "all", &holds));
    kit_close(&kit);
}

static void a_class_is_at_most_the_tenants(void **state)
{
    struct kit_answer holds, answer;
    struct admit_ask ask = an_ask();

    (void)state;
    kit_open(&kit, ONE_SLOT "tenants: [{name: batch, priority: low}]\n");
    assert_true(kit_admit(&kit, "all", &holds));
    ask.tenant = SLICE("batch");
    ask.priority = TG_PRIORITY_HIGH;
    kit_ask(&kit, 0, "all", &ask, &answer);
    assert_true(answer.told);
    assert_int_equal(answer.reply.reason, TG_REASON_CONCURRENCY);
    assert_true(kit_release(&kit, 0, "all", &holds));
    kit_close(&kit);
}

/* ---- whose limits ---- */

/* By a gate of four, of which no call has ended yet. */
#define OVERLOADED                                                    \
    "server overloaded: concurrency limit of the gateway: 4 calls at" \
    " once, try again in 1 s"

#define TWO_A_DAY                                       \
    KIT_GATE                                            \
    "  rate: {strategy: gcra, limit: 2, period: 24h}\n" \
    "tenants:\n"                                        \
    "  - {name: team, rate: {strategy: gcra, limit: 1, period: 24h}}\n"

static bool limited(const char *token, struct slice tenant)
{
    struct admit_ask ask = an_ask();
    struct kit_answer answer;

    ask.tenant = tenant;
    ask.limits_only = true;
    kit_ask(&kit, 0, token, &ask, &answer);
    assert_int_equal(answer.reply.status, ADMIT_DECIDED);
    assert_int_equal(answer.reply.lease_bytes, 0);
    assert_int_equal(answer.reply.allowed, answer.reply.reason == TG_REASON_NONE);
    return !answer.reply.allowed;
}

static void who_states_no_tenant_is_its_own(void **state)
{
    const struct slice nobody = {NULL, 0};

    (void)state;
    kit_open(&kit, TWO_A_DAY);
    assert_false(limited("none", nobody));
    assert_false(limited("none", nobody));
    assert_true(limited("none", nobody));
    assert_false(limited("other", nobody));
    assert_false(limited("other", SLICE("team")));
    assert_true(limited("other", SLICE("team")));
    assert_true(limited("all", SLICE("team"))); /* whoever says it */
    for (int i = 0; i < 3; i++) {               /* names that are no tenant's: each its own */
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        assert_false(limited("all", slice_of(name)));
        assert_false(limited("all", slice_of(name)));
        assert_true(limited("all", slice_of(name)));
    }
    assert_int_equal(kit_stats(&kit).admitted, 0); /* no slot was asked for */
    kit_close(&kit);
}

static void a_refusal_tells_its_axis_and_its_wait(void **state)
{
    struct kit_answer first, second;
    struct admit_ask ask = an_ask();
    struct refusal why;

    (void)state;
    kit_open(&kit, TWO_A_DAY);
    ask.tenant = SLICE("team");
    kit_ask(&kit, 0, "all", &ask, &first);
    assert_true(first.reply.allowed);
    assert_int_equal(first.reply.axes.present, 1u << TG_AXIS_CONCURRENCY | 1u << TG_AXIS_RATE);
    assert_string_equal(admit_reason(&first.reply), "");
    kit_ask(&kit, 0, "all", &ask, &second);
    assert_false(second.reply.allowed);
    assert_int_equal(second.reply.lease_bytes, 0);
    assert_int_equal(second.reply.binding_axis, TG_AXIS_RATE);
    assert_string_equal(admit_reason(&second.reply), "rate");
    assert_string_equal(second.reply.message,
                        "rate limit of tenant team: 1 call a day, 0 left, next in 24 h");
    assert_true(second.reply.decision.retry_after_ms > 0);
    admit_refusal(&second.reply, &why);
    assert_int_equal(why.reason, REPLY_RATE);
    assert_int_equal(why.binding, TG_AXIS_RATE);
    assert_int_equal(kit_stats(&kit).in_flight, 1); /* the slot has been given back */
    assert_true(kit_release(&kit, 0, "all", &first));
    kit_close(&kit);
}

static void what_never_fits_is_told_so(void **state)
{
    struct kit_answer answer;
    struct admit_ask ask = an_ask();
    struct refusal why;

    (void)state;
    kit_open(&kit, KIT_GATE "  cost: {strategy: token_bucket, capacity: 10, refill: 1}\n");
    ask.cost = 11;
    kit_ask(&kit, 0, "none", &ask, &answer);
    assert_int_equal(answer.reply.decision.retry_after_ms, TG_UNSATISFIABLE);
    assert_string_equal(admit_reason(&answer.reply), "request_exceeds_limit");
    admit_refusal(&answer.reply, &why);
    assert_int_equal(why.reason, REPLY_REQUEST_EXCEEDS_LIMIT);
    kit_close(&kit);
}

static void a_settled_cost_gives_the_rest_back(void **state)
{
    const struct slice nobody = {NULL, 0};
    struct kit_answer answer;
    struct admit_ask ask = an_ask();
    struct admit_caller caller;
    struct tg_release release;
    struct admit_reply error;
    bool found = false;

    (void)state;
    kit_open(&kit, KIT_GATE "  cost: {strategy: token_bucket, capacity: 10, refill: 0.00001}\n");
    ask.cost = 10;
    kit_ask(&kit, 0, "none", &ask, &answer);
    assert_true(answer.reply.allowed);
    assert_true(limited("none", nobody));
    tg_release_init(&release);
    release.actual = 9;
    assert_true(kit_caller(&kit, "none", &caller));
    assert_int_equal(admit_release(&kit.workers[0], &caller,
                                   (struct slice){answer.reply.lease, answer.reply.lease_bytes},
                                   &release, &found, &error),
                     ADMIT_DECIDED);
    assert_true(found);
    assert_false(limited("none", nobody));
    assert_true(limited("none", nobody));
    kit_close(&kit);
}

/* ---- waiting ---- */

static void fill(struct kit_answer answers[4])
{
    for (int i = 0; i < 4; i++)
        assert_true(kit_admit(&kit, "all", &answers[i]));
}

static void who_waits_is_told_when_a_slot_is_free(void **state)
{
    char tenant[] = "team";
    struct kit_answer holds[4], waits;
    struct admit_ask ask = an_ask();

    (void)state;
    kit_open(&kit, "");
    fill(holds);
    ask.tenant = slice_of(tenant);
    kit_ask(&kit, 1, "all", &ask, &waits);
    assert_non_null(waits.pending);
    memset(tenant, '?', sizeof tenant - 1); /* the transport's message has gone */
    kit_turn(&kit);
    assert_false(waits.told);
    assert_int_equal(kit_queued(&kit), 1);
    assert_true(kit_release(&kit, 0, "all", &holds[0]));
    kit_turn(&kit);
    assert_true(waits.told);
    assert_true(waits.reply.allowed);
    assert_true(kit_release(&kit, 0, "all", &waits));
    for (int i = 1; i < 4; i++)
        assert_true(kit_release(&kit, 1, "all", &holds[i]));
    assert_int_equal(kit_stats(&kit).leases, 0);
    kit_close(&kit);
}

static void who_leaves_the_queue_leaves_no_trace(void **state)
{
    struct kit_answer holds[4], waits[2];
    struct admit_ask ask = an_ask();

    (void)state;
    kit_open(&kit, "");
    fill(holds);
    kit_ask(&kit, 0, "all", &ask, &waits[0]);
    kit_ask(&kit, 1, "all", &ask, &waits[1]);
    assert_int_equal(kit_queued(&kit), 2);
    admit_cancel(waits[0].pending);
    assert_int_equal(kit_queued(&kit), 1);
    assert_true(kit_release(&kit, 0, "all", &holds[0])); /* granted, and not yet told */
    admit_cancel(waits[1].pending);
    kit_turn(&kit);
    assert_false(waits[0].told || waits[1].told);
    assert_int_equal(kit_stats(&kit).in_flight, 3);
    for (int i = 1; i < 4; i++)
        assert_true(kit_release(&kit, 0, "all", &holds[i]));
    assert_int_equal(kit_stats(&kit).leases, 0);
    kit_close(&kit);
}

static void a_deadline_ends_the_wait(void **state)
{
    struct kit_answer holds[4], waits;
    struct admit_ask ask = an_ask();

    (void)state;
    kit_open(&kit, "");
    fill(holds);
    /* Much, since the time that the test itself takes passes, too. */
    ask.deadline = worker_now(&kit.workers[0]) + 25000;
    kit_ask(&kit, 0, "all", &ask, &waits);
    kit_pass(&kit, 1000);
    assert_false(waits.told);
    kit_pass(&kit, 24100);
    kit_turn(&kit);
    assert_true(waits.told);
    assert_false(waits.reply.allowed);
    assert_int_equal(waits.reply.reason, TG_REASON_CONCURRENCY);
    assert_int_equal(kit_queued(&kit), 0);
    kit_close(&kit);
}

/* ---- seed 002, 5.5 ---- */

static void the_fifth_of_four_is_refused(void **state)
{
    struct kit_answer holds[4], fifth;

    (void)state;
    kit_open(&kit, "gate:\n"
                   "  concurrency: {law: fixed, initial: 4, min: 1, max: 4}\n"
                   "  queue: {wait: {high: 0ms, normal: 0ms, low: 0ms}}\n");
    fill(holds);
    assert_false(kit_admit(&kit, "all", &fifth));
    assert_true(fifth.told);
    assert_int_equal(fifth.reply.reason, TG_REASON_CONCURRENCY);
    assert_int_equal(fifth.reply.binding_axis, TG_AXIS_CONCURRENCY);
    assert_string_equal(fifth.reply.message, OVERLOADED);
    assert_int_equal(fifth.reply.decision.limit, 4);
    assert_true(kit_release(&kit, 0, "all", &holds[2]));
    assert_true(kit_admit(&kit, "all", &fifth));
    kit_close(&kit);
}

static void high_gets_through_a_gate_filled_with_low(void **state)
{
    struct kit_answer answer;
    struct admit_ask low = an_ask(), high = an_ask();
    int grant = 0;

    (void)state;
    kit_open(&kit, "gate:\n"
                   "  concurrency: {law: fixed, initial: 4, min: 1, max: 4}\n" /* half for low */
                   "  queue: {wait: {low: 0ms}}\n");
    low.priority = TG_PRIORITY_LOW;
    high.priority = TG_PRIORITY_HIGH;
    for (int i = 0; i < 4; i++) {
        kit_ask(&kit, 0, "all", &low, &answer);
        assert_true(answer.told);
        grant += answer.reply.allowed;
    }
    assert_int_equal(grant, 2);
    for (int i = 0; i < 2; i++) {
        kit_ask(&kit, 0, "all", &high, &answer);
        assert_true(answer.told && answer.reply.allowed);
    }
    kit_close(&kit);
}

/* ---- the rest ---- */

struct chain {
    struct admit_kit *kit;
    struct admit_caller caller;
    int left, told;
};

static void ask_again(void *context, const struct admit_reply *reply)
{
    struct chain *chain = context;
    struct admit_ask ask = an_ask();

    assert_true(reply->allowed);
    chain->told++;
    if (chain->left-- > 0)
        assert_null(
            admit_start(&chain->kit->workers[0], &chain->caller, &ask, ask_again, chain));
}

static void whoever_is_told_may_ask_again(void **state)
{
    struct chain chain = {.kit = &kit, .left = 3};
    struct admit_ask ask = an_ask();

    (void)state;
    kit_open(&kit, "");
    assert_true(kit_caller(&kit, "all", &chain.caller));
    assert_null(admit_start(&kit.workers[0], &chain.caller, &ask, ask_again, &chain));
    assert_int_equal(chain.told, 4);
    assert_int_equal(kit_stats(&kit).in_flight, 4);
    kit_close(&kit);
}

static void a_peek_takes_nothing(void **state)
{
    struct admit_caller caller;
    struct admit_ask ask = an_ask();
    struct admit_reply reply;
    struct kit_answer answer;

    (void)state;
    kit_open(&kit, TWO_A_DAY);
    assert_true(kit_caller(&kit, "none", &caller));
    for (int i = 0; i < 5; i++) {
        assert_null(admit_peek(&kit.workers[0], &caller, &ask, keep_reply, &reply));
        assert_int_equal(reply.status, ADMIT_DECIDED);
        assert_true(reply.allowed);
        assert_int_equal(reply.lease_bytes, 0);
        assert_int_equal(reply.axes.decision[TG_AXIS_CONCURRENCY].remaining, 3);
    }
    assert_int_equal(kit_stats(&kit).leases, 0);
    assert_true(kit_admit(&kit, "none", &answer));
    assert_true(kit_admit(&kit, "none", &answer));
    assert_null(admit_peek(&kit.workers[0], &caller, &ask, keep_reply, &reply));
    assert_false(reply.allowed);
    assert_int_equal(reply.reason, TG_REASON_RATE);
    assert_int_equal(reply.axes.decision[TG_AXIS_CONCURRENCY].remaining, 2);
    assert_true(kit_admit(&kit, "all", &answer));
    assert_true(kit_admit(&kit, "all", &answer));
    assert_null(admit_peek(&kit.workers[0], &caller, &ask, keep_reply, &reply));
    assert_int_equal(reply.reason, TG_REASON_CONCURRENCY);
    assert_int_equal(reply.binding_axis, TG_AXIS_CONCURRENCY);
    assert_string_equal(reply.message, OVERLOADED);
    kit_close(&kit);
}

static void a_peek_of_a_full_gate_says_the_wait_that_an_admit_would(void **state)
{
    struct kit_answer holds[4], fifth;
    struct admit_caller caller;
    struct admit_ask ask = an_ask();
    struct admit_reply reply;

    (void)state;
    kit_open(&kit, "gate:\n"
                   "  concurrency: {law: fixed, initial: 4, min: 1, max: 4}\n"
                   "  queue: {wait: {high: 0ms, normal: 0ms, low: 0ms}}\n");
    fill(holds);
    kit_pass(&kit, 40);
    assert_true(kit_release(&kit, 0, "all", &holds[0]));
    assert_true(kit_admit(&kit, "all", &holds[0]));
    assert_true(kit_caller(&kit, "all", &caller));
    assert_null(admit_peek(&kit.workers[0], &caller, &ask, keep_reply, &reply));
    kit_ask(&kit, 0, "all", &ask, &fifth);
    assert_false(fifth.reply.allowed);
    assert_true(reply.decision.retry_after_ms >= 10); /* one of four, of which each takes 40 */
    assert_int_equal(reply.decision.retry_after_ms, fifth.reply.decision.retry_after_ms);
    /* A client is told more than the mean, and the limit that is named says the same. */
    assert_true(reply.client_wait_ms > reply.decision.retry_after_ms);
    assert_int_equal(reply.limit.retry_after_ms, reply.client_wait_ms);
    kit_close(&kit);
}

static void a_peek_knows_how_many_slots_low_may_hold(void **state)
{
    struct kit_answer holds[2], third;
    struct admit_caller caller;
    struct admit_ask ask = an_ask();
    struct admit_reply reply;

    (void)state;
    kit_open(&kit, "gate:\n"
                   "  concurrency: {law: fixed, initial: 4, min: 1, max: 4}\n"
                   "  queue: {wait: {high: 0ms, normal: 0ms, low: 0ms}}\n"
                   "  low_priority_shed_ratio: 0.5\n");
    ask.priority = TG_PRIORITY_LOW;
    for (int i = 0; i < 2; i++) {
        kit_ask(&kit, 0, "all", &ask, &holds[i]);
        assert_true(holds[i].reply.allowed);
    }
    assert_true(kit_caller(&kit, "all", &caller));
    assert_null(admit_peek(&kit.workers[0], &caller, &ask, keep_reply, &reply));
    kit_ask(&kit, 0, "all", &ask, &third);
    assert_int_equal(third.reply.reason, TG_REASON_CONCURRENCY);
    assert_int_equal(reply.reason, TG_REASON_CONCURRENCY);
    ask.priority = TG_PRIORITY_NORMAL;
    assert_null(admit_peek(&kit.workers[0], &caller, &ask, keep_reply, &reply));
    assert_true(reply.allowed);
    kit_close(&kit);
}

static void a_peer_has_its_share(void **state)
{
    struct admit_caller caller;
    struct admit_ask ask = an_ask();
    struct admit_reply reply;
    struct kit_answer answer;

    (void)state;
    kit_open(&kit, KIT_GATE "  peers: {limit: 2}\n");
    ask.peer = SLICE("n-1");
    for (int i = 0; i < 2; i++) {
        kit_ask(&kit, 0, "all", &ask, &answer);
        assert_true(answer.reply.allowed);
    }
    assert_true(kit_caller(&kit, "all", &caller));
    assert_null(admit_peek(&kit.workers[0], &caller, &ask, keep_reply, &reply));
    assert_int_equal(reply.reason, TG_REASON_PEER_LIMIT);
    kit_ask(&kit, 0, "all", &ask, &answer);
    assert_int_equal(answer.reply.reason, TG_REASON_PEER_LIMIT);
    assert_string_equal(answer.reply.message, "peer n-1 exceeded per-peer limit: 2 calls at once");
    assert_string_equal(reply.message, answer.reply.message);
    ask.peer = SLICE("n-2");
    kit_ask(&kit, 0, "all", &ask, &answer);
    assert_true(answer.reply.allowed);
    kit_close(&kit);
}

static void every_decision_is_counted(void **state)
{
    struct metrics_totals totals;
    struct kit_answer answer;

    (void)state;
    kit_open(&kit, TWO_A_DAY);
    for (int i = 0; i < 5; i++)
        kit_admit(&kit, "none", &answer);
    metrics_get_totals(kit.gateway->metrics, &totals);
    assert_int_equal(totals.admitted, 2);
    assert_int_equal(totals.rejected, 3);
    assert_int_equal(kit.gateway->counts.refused[REPLY_RATE], 3);
    assert_int_equal(kit.gateway->counts.calls, 5);
    kit_close(&kit);
}

/* For calls, protected routes and callers alike, `now` is the worker's. */
static void the_watch_gets_so_many_a_second_and_counts_the_others(void **state)
{
    struct worker *worker = &kit.workers[0];
    struct watch *none;

    (void)state;
    kit_open(&kit, "");
    none = kit.gateway->watch;
    kit.gateway->watch = NULL;
    assert_false(report_is_watched(worker, 5000));
    kit.gateway->watch = watch_new(16);
    assert_non_null(kit.gateway->watch);
    for (int i = 0; i < 500; i++)
        assert_true(report_is_watched(worker, 5000 + i));
    for (int i = 0; i < 100; i++)
        assert_false(report_is_watched(worker, 5999));
    assert_int_equal(watch_missed(kit.gateway->watch), 100);
    assert_true(report_is_watched(&kit.workers[1], 5999));
    assert_true(report_is_watched(worker, 6000));
    assert_true(report_is_watched(worker, 4000)); /* the clock was set */
    assert_int_equal(watch_missed(kit.gateway->watch), 100);
    watch_free(kit.gateway->watch);
    kit.gateway->watch = none;
    kit_close(&kit);
}

static void a_gateway_that_ends_takes_no_more(void **state)
{
    struct kit_answer before, after;

    (void)state;
    kit_open(&kit, "");
    assert_true(kit_admit(&kit, "all", &before));
    atomic_store(&kit.gateway->draining, true);
    assert_false(kit_admit(&kit, "all", &after));
    assert_int_equal(after.reply.status, ADMIT_DRAINING);
    assert_true(kit_release(&kit, 0, "all", &before));
    kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_needs_its_permission_and_the_error_names_it),
        cmocka_unit_test(what_is_out_of_range_is_an_error_that_names_it),
        cmocka_unit_test(a_token_of_nobody_is_none),
        cmocka_unit_test(a_caller_that_was_taken_out_is_refused_from_then_on),
        cmocka_unit_test(headers_count_where_the_caller_may_state_them),
        cmocka_unit_test(a_header_lowers_a_class_and_never_raises_it),
        cmocka_unit_test(a_class_is_at_most_the_tenants),
        cmocka_unit_test(who_states_no_tenant_is_its_own),
        cmocka_unit_test(a_refusal_tells_its_axis_and_its_wait),
        cmocka_unit_test(what_never_fits_is_told_so),
        cmocka_unit_test(a_settled_cost_gives_the_rest_back),
        cmocka_unit_test(who_waits_is_told_when_a_slot_is_free),
        cmocka_unit_test(who_leaves_the_queue_leaves_no_trace),
        cmocka_unit_test(a_deadline_ends_the_wait),
        cmocka_unit_test(the_fifth_of_four_is_refused),
        cmocka_unit_test(high_gets_through_a_gate_filled_with_low),
        cmocka_unit_test(whoever_is_told_may_ask_again),
        cmocka_unit_test(a_peek_takes_nothing),
        cmocka_unit_test(a_peek_of_a_full_gate_says_the_wait_that_an_admit_would),
        cmocka_unit_test(a_peek_knows_how_many_slots_low_may_hold),
        cmocka_unit_test(a_peer_has_its_share),
        cmocka_unit_test(every_decision_is_counted),
        cmocka_unit_test(the_watch_gets_so_many_a_second_and_counts_the_others),
        cmocka_unit_test(a_gateway_that_ends_takes_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
