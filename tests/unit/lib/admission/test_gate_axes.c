/* test_gate_axes.c - concurrency, rate and cost together.
 *
 * Who refuses, what the refused call has been charged, and what it is told of each axis; several
 * scopes on an axis; an embedder's own limiter.
 */
#include <stdio.h>

#include <string.h>

#include "gate_kit.h"

#define NOW 1000
#define C (1u << TG_AXIS_CONCURRENCY)
#define R (1u << TG_AXIS_RATE)
#define K (1u << TG_AXIS_COST)
#define WINDOW_END 100000
#define STORE_BYTES ((size_t)256 * 1024)

/* ---- the matrix ----
 *
 * Three slots, four calls and a hundred units in the window. Before the call, some of each is used;
 * then one call of cost 10. */

struct row {
    const char *what;
    bool no_slot, worthless; /* who refuses before the store is asked */
    int64_t rate_used, cost_used;
    enum tg_charging charging;
    enum tg_reason reason;
    unsigned present;
    struct tg_decision rate, cost;      /* what is reported */
    int64_t rate_charged, cost_charged; /* by this call */
};

#define ABSENT            \
    {                     \
        false, 0, 0, 0, 0 \
    }
#define RATE_OK(left)                \
    {                                \
        true, 4, left, WINDOW_END, 0 \
    }
#define COST_OK(left)                  \
    {                                  \
        true, 100, left, WINDOW_END, 0 \
    }
#define RATE_NO(left)                                \
    {                                                \
        false, 4, left, WINDOW_END, WINDOW_END - NOW \
    }
#define COST_NO(left)                                  \
    {                                                  \
        false, 100, left, WINDOW_END, WINDOW_END - NOW \
    }

static const struct row matrix[] = {
    {"all allow", 0, 0, 0, 0, TG_CHARGE_ATOMIC, TG_REASON_NONE, C | R | K, RATE_OK(3), COST_OK(90),
     1, 10},
    {"all allow", 0, 0, 0, 0, TG_CHARGE_PER_AXIS, TG_REASON_NONE, C | R | K, RATE_OK(3),
     COST_OK(90), 1, 10},
    {"the last unit of both", 0, 0, 3, 90, TG_CHARGE_ATOMIC, TG_REASON_NONE, C | R | K, RATE_OK(0),
     COST_OK(0), 1, 10},
    {"the last unit of both", 0, 0, 3, 90, TG_CHARGE_PER_AXIS, TG_REASON_NONE, C | R | K,
     RATE_OK(0), COST_OK(0), 1, 10},
    {"concurrency binds", 1, 0, 0, 0, TG_CHARGE_ATOMIC, TG_REASON_CONCURRENCY, C, ABSENT, ABSENT, 0,
     0},
    {"concurrency binds", 1, 0, 0, 0, TG_CHARGE_PER_AXIS, TG_REASON_CONCURRENCY, C, ABSENT, ABSENT,
     0, 0},
    {"concurrency binds before all others", 1, 1, 4, 100, TG_CHARGE_ATOMIC, TG_REASON_CONCURRENCY,
     C, ABSENT, ABSENT, 0, 0},
    {"the policy refuses", 0, 1, 0, 0, TG_CHARGE_ATOMIC, TG_REASON_POLICY, C, ABSENT, ABSENT, 0, 0},
    {"the policy refuses", 0, 1, 0, 0, TG_CHARGE_PER_AXIS, TG_REASON_POLICY, C, ABSENT, ABSENT, 0,
     0},
    {"the policy refuses before rate and cost", 0, 1, 4, 100, TG_CHARGE_ATOMIC, TG_REASON_POLICY, C,
     ABSENT, ABSENT, 0, 0},
    {"rate binds, cost is reported as it is", 0, 0, 4, 30, TG_CHARGE_ATOMIC, TG_REASON_RATE,
     C | R | K, RATE_NO(0), COST_OK(70), 0, 0},
    {"rate binds, cost is not asked", 0, 0, 4, 30, TG_CHARGE_PER_AXIS, TG_REASON_RATE, C | R,
     RATE_NO(0), ABSENT, 0, 0},
    {"cost binds, rate is reported as it is", 0, 0, 1, 95, TG_CHARGE_ATOMIC, TG_REASON_COST,
     C | R | K, RATE_OK(3), COST_NO(5), 0, 0},
    {"cost binds, the rate unit stays spent", 0, 0, 1, 95, TG_CHARGE_PER_AXIS, TG_REASON_COST,
     C | R | K, RATE_OK(2), COST_NO(5), 1, 0},
    {"both refuse, rate is named", 0, 0, 4, 95, TG_CHARGE_ATOMIC, TG_REASON_RATE, C | R | K,
     RATE_NO(0), COST_NO(5), 0, 0},
    {"both would, cost is not asked", 0, 0, 4, 95, TG_CHARGE_PER_AXIS, TG_REASON_RATE, C | R,
     RATE_NO(0), ABSENT, 0, 0},
};

struct matrix_gate {
    struct gate_log log;
    struct tg_store *store;
    tg_limits rate, cost;
    struct tg_gate *gate;
    struct tg_scope scopes[2];
    struct tg_call call;
};

static void matrix_open(struct matrix_gate *m, enum tg_charging charging)
{
    *m = (struct matrix_gate){.store = must_store(STORE_BYTES, 1)};
    m->rate = must_define_one(m->store, TG_AXIS_RATE, "fixed_window:limit=4,window=100000");
    m->cost = must_define_one(m->store, TG_AXIS_COST, "fixed_window:limit=100,window=100000");
    struct tg_gate_config config = gate_config_slots(&m->log, 3);
    config.concurrency.wait[TG_PRIORITY_NORMAL] = 0;
    config.store = m->store;
    gate_config_policy(&config);
    m->gate = must_gate(&config);
    m->scopes[0] = scope_of(m->rate, "tenant");
    m->scopes[1] = scope_of(m->cost, "tenant");
    m->call = call_of(TG_PRIORITY_NORMAL);
    m->call.debit = (struct tg_debit){
        .scopes = m->scopes, .n_scopes = 2, .cost = 10, .charging = charging};
}

static void matrix_close(struct matrix_gate *m)
{
    tg_gate_free(m->gate);
    tg_store_free(m->store);
}

static void use(struct matrix_gate *m, int64_t rate, int64_t cost)
{
    struct tg_debit debit = debit_of(&m->scopes[1], cost);
    struct tg_decision decision;

    for (int64_t i = 0; i < rate; i++)
        assert_true(must_take(m->store, m->rate, "tenant", 1, NOW).allowed);
    debit.root = "tenant";
    debit.root_bytes = strlen("tenant");
    if (cost > 0)
        assert_int_equal(tg_store_take(m->store, &debit, NOW, &decision, NULL), TG_OK);
}

/* Whoever looks at the rate axis asks for one unit, and is told what would be left after it. */
static int64_t rate_left(struct matrix_gate *m)
{
    struct tg_decision decision = must_peek(m->store, m->rate, "tenant", 0, NOW);

    return decision.remaining + decision.allowed;
}

static void expect_row(const struct row *row)
{
    struct matrix_gate m;
    struct tg_call plain = call_of(TG_PRIORITY_NORMAL);

    matrix_open(&m, row->charging);
    use(&m, row->rate_used, row->cost_used);
    if (row->no_slot)
        assert_int_equal(fill_gate(m.gate, &plain, NOW, NULL, 3), 3);
    m.log.worthless = row->worthless;
    struct tg_gate_stats before = stats_of_gate(m.gate), after;

    struct tg_answer answer = must_admit(m.gate, &m.call, NOW);
    if (answer.reason != row->reason || answer.axes.present != row->present)
        fail_msg("%s (%s): reason %s, axes %u", row->what,
                 row->charging == TG_CHARGE_ATOMIC ? "atomic" : "per axis",
                 tg_reason_name(answer.reason), answer.axes.present);
    expect_decision(row->what, answer.axes.decision[TG_AXIS_CONCURRENCY],
                    row->no_slot ? DENIED(3, 0, NOW, 1000) : ALLOWED(3, 2, NOW));
    if (row->present & R)
        expect_decision(row->what, answer.axes.decision[TG_AXIS_RATE], row->rate);
    if (row->present & K)
        expect_decision(row->what, answer.axes.decision[TG_AXIS_COST], row->cost);
    assert_int_equal(rate_left(&m), 4 - row->rate_used - row->rate_charged);
    assert_int_equal(must_peek(m.store, m.cost, "tenant", 0, NOW).remaining,
                     100 - row->cost_used - row->cost_charged);
    if (row->reason != TG_REASON_NONE) {
        after = stats_of_gate(m.gate);
        expect_same_holdings(row->what, &after, &before);
        assert_int_equal(after.admitted, before.admitted);
        assert_int_equal(after.refused[row->reason], 1);
    } else {
        assert_true(finish(m.gate, answer.lease, NOW));
        expect_idle(m.gate);
    }
    matrix_close(&m);
}

static void every_axis_binds_in_both_charging_modes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(matrix); i++)
        expect_row(&matrix[i]);
}

static void the_policy_is_asked_once_and_only_of_calls_that_have_a_slot(void **state)
{
    struct matrix_gate m;
    (void)state;

    matrix_open(&m, TG_CHARGE_ATOMIC);
    assert_int_equal(fill_gate(m.gate, &m.call, NOW, NULL, 3), 3);
    assert_int_equal(m.log.asked, 3);
    must_refuse(m.gate, &m.call, NOW, TG_REASON_CONCURRENCY);
    assert_int_equal(m.log.asked, 3);
    matrix_close(&m);
}

/* Without a concurrency axis there is nothing that was looked at. */
static void a_policy_denial_of_nothing_looked_at_is_the_identity_refused(void **state)
{
    struct gate_log log = {.worthless = true};
    struct tg_gate_config config = gate_config(&log);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    gate_config_policy(&config);
    struct tg_gate *gate = must_gate(&config);
    struct tg_answer answer = must_refuse(gate, &call, NOW, TG_REASON_POLICY);
    expect_decision("policy", answer.decision, DENIED(TG_NUMBER_MAX, 0, 0, 0));
    assert_true(answer.policy_denied);
    assert_int_equal(answer.axes.present, 0);
    tg_gate_free(gate);
}

static void a_policy_denial_keeps_limit_and_reset_of_what_was_looked_at(void **state)
{
    struct gate_log log = {.worthless = true};
    struct tg_gate_config config = gate_config_slots(&log, 7);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    gate_config_policy(&config);
    struct tg_gate *gate = must_gate(&config);
    struct tg_answer answer = must_refuse(gate, &call, NOW, TG_REASON_POLICY);
    expect_decision("policy", answer.decision, DENIED(7, 0, NOW, 0));
    assert_int_equal(tg_axes_binding(&answer.axes), TG_AXIS_NONE);
    expect_idle(gate);
    tg_gate_free(gate);
}

/* limit = the least of 100, 4 and 1000. */
static void the_decision_is_the_combination_of_the_axes(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_store *store = must_store(STORE_BYTES, 1);
    const struct tg_limit limits[] = {
        limit_on(TG_AXIS_RATE, "gcra:limit=4,period=1000"),
        limit_on(TG_AXIS_COST, "token_bucket:capacity=1000,refill=10")};
    struct tg_scope scope = scope_of(must_define(store, limits, 2), "t");
    struct tg_gate_config config = gate_config_slots(&log, 100);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    config.store = store;
    call.debit = debit_of(&scope, 500);
    struct tg_gate *gate = must_gate(&config);
    struct tg_answer answer = must_admit(gate, &call, NOW);
    expect_decision("all", answer.decision, ALLOWED(4, 3, NOW + 50000));
    tg_gate_free(gate);
    tg_store_free(store);
}

/* What an answer says in words must fit the axis it names. */
static void the_words_of_a_refusal_are_about_the_axis_that_binds(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_store *store = must_store(STORE_BYTES, 1);
    const struct tg_limit limits[] = {
        limit_on(TG_AXIS_RATE, "fixed_window:limit=1,window=100000"),
        limit_on(TG_AXIS_COST, "fixed_window:limit=100,window=100000")};
    struct tg_scope scope = scope_of(must_define(store, limits, 2), "t");
    struct tg_gate_config config = gate_config(&log);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    char text[200];
    (void)state;

    config.store = store;
    call.debit = debit_of(&scope, 101);
    struct tg_gate *gate = must_gate(&config);
    struct tg_answer answer = must_refuse(gate, &call, NOW, TG_REASON_COST);
    assert_int_equal(answer.decision.retry_after_ms, TG_UNSATISFIABLE);
    tg_answer_describe(&answer, &call, text, sizeof text);
    assert_string_equal(text,
                        "cost limit: 100 units in each 1 min 40 s, can never admit this call");
    call.debit.cost = 1;
    must_allow(gate, &call, NOW);
    /* Rate binds, and it will have room again: it is the cost that never will, so that is said. */
    call.debit.cost = 101;
    answer = must_refuse(gate, &call, NOW, TG_REASON_RATE);
    tg_answer_describe(&answer, &call, text, sizeof text);
    assert_string_equal(text,
                        "cost limit: 100 units in each 1 min 40 s, can never admit this call");
    tg_gate_free(gate);
    tg_store_free(store);
}

static void the_words_of_a_limit_are_cut_to_the_room_there_is(void **state)
{
    struct tg_answer answer = {.reason = TG_REASON_RATE, .axes.present = 1u << TG_AXIS_RATE};
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    char text[200] = "#######";
    (void)state;

    tg_answer_describe(&answer, &call, text, 0);
    assert_int_equal(text[0], '#');
    tg_answer_describe(&answer, &call, text, 1);
    assert_string_equal(text, "");
    tg_answer_describe(&answer, &call, text, 7);
    assert_string_equal(text, "rate l");
    tg_answer_describe(&answer, &call, text, sizeof text);
    assert_string_equal(text, "rate limit: at most 0 calls, 0 left, next in 0 ms");
    answer.axes.named[TG_AXIS_RATE].decision.limit = TG_NUMBER_MAX;
    tg_answer_describe(&answer, &call, text, sizeof text);
    assert_string_equal(text, "rate limit: at most 9007199254740991 calls, 0 left, next in 0 ms");
    tg_answer_describe(&answer, &call, text, sizeof "rate limit: at most 900719925474099");
    assert_string_equal(text, "rate limit: at most 900719925474099");
}

/* ---- the shape of a slot's decision ---- */

static void the_name_of_a_peer_is_cut_after_64_bytes(void **state)
{
    static const char name[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdefX";
    struct tg_answer answer = {.reason = TG_REASON_PEER_LIMIT};
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    call.peer = name;
    for (call.peer_bytes = 62; call.peer_bytes <= 65; call.peer_bytes++) {
        char text[200], want[200];
        int shown = call.peer_bytes < 64 ? (int)call.peer_bytes : 64;
        (void)snprintf(want, sizeof want, "peer %.*s exceeded per-peer limit: 0 calls at once",
                       shown, name);
        tg_answer_describe(&answer, &call, text, sizeof text);
        assert_string_equal(text, want);
    }
}

static void slots_left_are_counted_down(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 3);
    struct tg_call call = call_of(TG_PRIORITY_LOW);
    (void)state;

    config.concurrency.low_ratio = 1;
    struct tg_gate *gate = must_gate(&config);
    for (int64_t left = 2; left >= 0; left--)
        expect_decision("slot", must_admit(gate, &call, NOW).decision, ALLOWED(3, left, NOW));
    expect_decision("full", must_refuse(gate, &call, NOW, TG_REASON_CONCURRENCY).decision,
                    DENIED(3, 0, NOW, 1000));
    tg_gate_free(gate);
}

/* The hint of a refusal is when its turn would come: (calls ahead + 1) x mean time a slot is held /
 * limit, in whole ms, at least 1; 1000 until a call has ended. */
static void the_hint_of_a_full_gate_is_when_its_turn_would_come(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 2);
    struct tg_call low = call_of(TG_PRIORITY_LOW), normal = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    config.concurrency.low_ratio = 1;
    config.concurrency.wait[TG_PRIORITY_NORMAL] = 1000;
    struct tg_gate *gate = must_gate(&config);
    tg_lease first = must_allow(gate, &low, NOW), second = must_allow(gate, &low, NOW);
    struct tg_answer answer = must_refuse(gate, &low, NOW, TG_REASON_CONCURRENCY);
    assert_int_equal(answer.decision.retry_after_ms, 1000);

    /* What the law is told is another matter. */
    assert_true(finish_sampled(gate, first, NOW + 81, 1e6));
    first = must_allow(gate, &low, NOW + 81);
    answer = must_refuse(gate, &low, NOW + 81, TG_REASON_CONCURRENCY);
    assert_int_equal(answer.decision.retry_after_ms, 41); /* 81 / 2, not too short */

    /* One of normal priority waits: it is ahead of low. */
    assert_int_equal(must_admit(gate, &normal, NOW + 81).step, TG_WAITING);
    answer = must_refuse(gate, &low, NOW + 81, TG_REASON_CONCURRENCY);
    assert_int_equal(answer.decision.retry_after_ms, 81);
    assert_true(finish(gate, first, NOW + 81) && finish(gate, second, NOW + 81));
    tg_gate_free(gate);
}

/* ---- ten calls of cost 10 against two a minute and a bucket of 100 ---- */

static void calls_refused_by_rate_cost_nothing(enum tg_charging charging)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_store *store = must_store(STORE_BYTES, 1);
    const struct tg_limit limits[] = {
        limit_on(TG_AXIS_RATE, "gcra:limit=2,period=60000"),
        limit_on(TG_AXIS_COST, "token_bucket:capacity=100,refill=1")};
    tg_limits set = must_define(store, limits, 2);
    struct tg_scope scope = scope_of(set, "t");
    struct tg_gate_config config = gate_config_slots(&log, 100);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    struct tg_answer answer;
    int admitted = 0;

    config.store = store;
    call.debit = debit_of(&scope, 10);
    call.debit.charging = charging;
    struct tg_gate *gate = must_gate(&config);
    for (tg_ms i = 0; i < 10; i++) {
        answer = must_admit(gate, &call, NOW + i);
        admitted += answer.decision.allowed;
        if (answer.decision.allowed)
            continue;
        assert_int_equal(answer.reason, TG_REASON_RATE);
        assert_int_equal(answer.axes.present, charging == TG_CHARGE_ATOMIC ? C | R | K : C | R);
    }
    assert_int_equal(admitted, 2);
    call.debit.cost = 80;
    answer = must_admit(gate, &call, NOW + 30000);
    assert_true(answer.decision.allowed);
    assert_int_equal(answer.axes.decision[TG_AXIS_COST].remaining, 20);
    tg_gate_free(gate);
    tg_store_free(store);
}

static void fused_equals_sequential_where_rate_refuses(void **state)
{
    (void)state;
    calls_refused_by_rate_cost_nothing(TG_CHARGE_ATOMIC);
    calls_refused_by_rate_cost_nothing(TG_CHARGE_PER_AXIS);
}

/* ---- several scopes on an axis ---- */

struct family {
    struct gate_log log;
    struct tg_store *store;
    tg_limits tenant, parent, user;
    struct tg_gate *gate;
};

static void family_open(struct family *f)
{
    const struct tg_limit tenant[] = {
        limit_on(TG_AXIS_RATE, "fixed_window:limit=5,window=100000"),
        limit_on(TG_AXIS_COST, "fixed_window:limit=60,window=100000")};
    const struct tg_limit parent[] = {
        limit_on(TG_AXIS_RATE, "fixed_window:limit=6,window=100000"),
        limit_on(TG_AXIS_COST, "fixed_window:limit=100,window=100000")};

    *f = (struct family){.store = must_store(STORE_BYTES, 4)};
    f->tenant = must_define(f->store, tenant, 2);
    f->parent = must_define(f->store, parent, 2);
    f->user = must_define_one(f->store, TG_AXIS_RATE, "fixed_window:limit=2,window=100000");
    struct tg_gate_config config = gate_config(&f->log);
    config.store = f->store;
    f->gate = must_gate(&config);
}

static struct tg_answer family_ask(struct family *f, const char *tenant, const char *user,
                                   int64_t cost)
{
    struct tg_scope scopes[] = {scope_of(f->tenant, tenant), scope_of(f->parent, "root"),
                                scope_of(f->user, user)};
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);

    call.debit = (struct tg_debit){
        .scopes = scopes, .n_scopes = 3, .cost = cost, .root = "root", .root_bytes = 4};
    return must_admit(f->gate, &call, NOW);
}

static void an_axis_is_the_combination_of_its_scopes(void **state)
{
    struct family f;
    (void)state;

    family_open(&f);
    struct tg_answer answer = family_ask(&f, "a", "u1", 10);
    expect_decision("rate", answer.axes.decision[TG_AXIS_RATE], ALLOWED(2, 1, WINDOW_END));
    expect_decision("cost", answer.axes.decision[TG_AXIS_COST], ALLOWED(60, 50, WINDOW_END));
    answer = family_ask(&f, "a", "u1", 10);
    assert_true(answer.decision.allowed);
    /* The user is at its limit; tenant and parent are charged nothing for trying. */
    for (int i = 0; i < 5; i++) {
        answer = family_ask(&f, "a", "u1", 10);
        assert_int_equal(answer.reason, TG_REASON_RATE);
        assert_int_equal(answer.axes.decision[TG_AXIS_COST].remaining, 40);
    }
    answer = family_ask(&f, "a", "u2", 40); /* the tenant's last 40 */
    expect_decision("another user", answer.axes.decision[TG_AXIS_COST],
                    ALLOWED(60, 0, WINDOW_END));
    answer = family_ask(&f, "a", "u3", 1);
    assert_int_equal(answer.reason, TG_REASON_COST);
    tg_gate_free(f.gate);
    tg_store_free(f.store);
}

static void tenants_share_what_their_parent_has(void **state)
{
    struct family f;
    struct tg_answer answer;
    (void)state;

    family_open(&f);
    assert_true(family_ask(&f, "a", "u1", 60).decision.allowed);
    assert_true(family_ask(&f, "b", "u2", 40).decision.allowed);
    answer = family_ask(&f, "b", "u2", 1); /* b has 20 left, the parent nothing */
    assert_int_equal(answer.reason, TG_REASON_COST);
    expect_decision("the parent binds", answer.axes.decision[TG_AXIS_COST],
                    DENIED(60, 0, WINDOW_END, WINDOW_END - NOW));
    assert_true(family_ask(&f, "c", "u3", 0).decision.allowed); /* 0 is free */
    tg_gate_free(f.gate);
    tg_store_free(f.store);
}

/* ---- an embedder's own limiter ---- */

/* Credits that never come back by themselves, unless they are given back. */
struct credits {
    int64_t units;
    int takes, settles;
};

static void credits_reset(const struct tg_limiter *limiter, void *state)
{
    (void)limiter;
    *(int64_t *)state = 0;
}

static tg_ms credits_fresh_at(const struct tg_limiter *limiter, const void *state)
{
    (void)limiter;
    return *(const int64_t *)state == 0 ? 0 : TG_NUMBER_MAX;
}

static void credits_peek(const struct tg_limiter *limiter, const void *state, tg_ms now,
                         int64_t cost, struct tg_decision *answer)
{
    const struct credits *credits = limiter->context;
    int64_t left = credits->units - *(const int64_t *)state;

    *answer = cost <= left || cost == 0
                  ? ALLOWED(credits->units, left > cost ? left - cost : 0, now)
                  : DENIED(credits->units, left > 0 ? left : 0, now, TG_UNSATISFIABLE);
}

static void credits_take(const struct tg_limiter *limiter, void *state, tg_ms now, int64_t cost)
{
    (void)now;
    ((struct credits *)limiter->context)->takes++;
    *(int64_t *)state += cost;
}

static void credits_refund(const struct tg_limiter *limiter, void *state, tg_ms now,
                           struct tg_charge charge, int64_t units)
{
    (void)limiter;
    (void)now;
    (void)charge;
    *(int64_t *)state -= units;
}

static void credits_settle(const struct tg_limiter *limiter, void *state, tg_ms now,
                           struct tg_charge charge, int64_t actual)
{
    (void)now;
    ((struct credits *)limiter->context)->settles++;
    *(int64_t *)state += actual - charge.cost;
}

static const struct tg_limiter_ops credits_ops = {
    "credits",
    credits_reset,
    credits_fresh_at,
    credits_peek,
    credits_take,
    credits_refund,
    credits_settle,
    NULL, /* other settings start afresh */
};

static void an_own_limiter_decides_and_is_settled_through_the_gate(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_store *store = must_store(STORE_BYTES, 1);
    struct credits credits = {.units = 10};
    const struct tg_limit limits[] = {
        limit_on(TG_AXIS_RATE, "fixed_window:limit=9,window=100000"),
        {.limiter = {.ops = &credits_ops, .state_bytes = sizeof(int64_t), .context = &credits},
         .axis = TG_AXIS_COST}};
    tg_limits set = must_define(store, limits, 2);
    struct tg_scope scope = scope_of(set, "t");
    struct tg_gate_config config = gate_config_slots(&log, 2);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    config.store = store;
    call.debit = debit_of(&scope, 6);
    struct tg_gate *gate = must_gate(&config);
    tg_lease lease = must_allow(gate, &call, NOW);
    struct tg_answer answer = must_refuse(gate, &call, NOW, TG_REASON_COST);
    expect_decision("credits", answer.axes.decision[TG_AXIS_COST],
                    DENIED(10, 4, NOW, TG_UNSATISFIABLE));
    assert_int_equal(answer.axes.decision[TG_AXIS_RATE].remaining, 8);
    assert_int_equal(credits.takes, 1);
    assert_true(finish_settled(gate, lease, NOW, 1));
    assert_int_equal(credits.settles, 1);
    lease = must_allow(gate, &call, NOW);
    assert_int_equal(must_peek(store, set, "t", 0, NOW).remaining, 3);
    assert_true(finish_settled(gate, lease, NOW, 100)); /* debt */
    must_refuse(gate, &call, NOW, TG_REASON_COST);
    expect_idle(gate);
    tg_gate_free(gate);
    tg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_axis_binds_in_both_charging_modes),
        cmocka_unit_test(the_policy_is_asked_once_and_only_of_calls_that_have_a_slot),
        cmocka_unit_test(a_policy_denial_of_nothing_looked_at_is_the_identity_refused),
        cmocka_unit_test(a_policy_denial_keeps_limit_and_reset_of_what_was_looked_at),
        cmocka_unit_test(the_decision_is_the_combination_of_the_axes),
        cmocka_unit_test(the_words_of_a_refusal_are_about_the_axis_that_binds),
        cmocka_unit_test(the_words_of_a_limit_are_cut_to_the_room_there_is),
        cmocka_unit_test(the_name_of_a_peer_is_cut_after_64_bytes),
        cmocka_unit_test(slots_left_are_counted_down),
        cmocka_unit_test(the_hint_of_a_full_gate_is_when_its_turn_would_come),
        cmocka_unit_test(fused_equals_sequential_where_rate_refuses),
        cmocka_unit_test(an_axis_is_the_combination_of_its_scopes),
        cmocka_unit_test(tenants_share_what_their_parent_has),
        cmocka_unit_test(an_own_limiter_decides_and_is_settled_through_the_gate),
    };
    return cmocka_run_group_tests_name("gate_axes", tests, NULL, NULL);
}
