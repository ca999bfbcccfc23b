/* test_gate_faults.c - calls that fail, and stores that do.
 *
 * At each stage, with each set of things held, everything is given back; and a store elsewhere may
 * fail, be late, answer twice or never. A policy that wants to hear of calls hears of each that was
 * admitted, once when it is and once when it ends, and of no other.
 */
#include <math.h>
#include <string.h>

#include "gate_remote.h"

#define NOW 1000
#define STORE_BYTES ((size_t)64 * 1024)

/* ---- the table of failures ---- */

enum fault {
    FAULT_MEMORY,
    FAULT_PEER,
    FAULT_NO_SLOT,      /* may not wait */
    FAULT_TIMEOUT,      /* resumed at its deadline */
    FAULT_TICKED_OUT,   /* told by a tick, then resumed */
    FAULT_GONE_WAITING, /* cancelled in the queue */
    FAULT_GONE_GRANTED, /* cancelled with a slot granted */
    FAULT_GONE_TICKED,  /* cancelled after a tick has ended its wait */
    FAULT_POLICY,
    FAULT_RATE,
    FAULT_COST,
    FAULT_NEVER, /* costs more than the ceiling */
    FAULT_STORE_FULL,
    FAULT_UNKNOWN_LIMITS,
    FAULT_INVALID_COST,
    FAULT_INVALID_CALL,
    FAULT_EXPIRED, /* admitted, and never released */
    FAULT_COUNT
};

static const char *const fault_names[FAULT_COUNT] = {
    "memory",
    "peer",
    "no slot",
    "timeout",
    "ticked out",
    "gone while waiting",
    "gone granted",
    "gone ticked",
    "policy",
    "rate",
    "cost",
    "never",
    "store is full",
    "unknown limits",
    "invalid cost",
    "invalid call",
    "expired",
};

/* What the call holds when it fails. */
enum { DECIDED_BY = 600000 }; /* ms in which a call has to be decided */

enum { HOLD_PEER = 1,
       HOLD_SLOT = 2,
       HOLD_SETS = 4 };

/* How it came there. */
enum path { PATH_DIRECT,
            PATH_PRECHECKED,
            PATH_WAITED,
            PATH_COUNT };

struct trial {
    enum fault fault;
    unsigned hold;
    enum path path;
    bool hears; /* the policy */
    struct gate_log log;
    struct tg_store *store;
    tg_limits set;
    struct tg_scope scope;
    struct tg_gate_config config;
    struct tg_gate *gate;
    struct tg_call call, other;
    tg_lease background; /* holds the only slot, or the only place of the peer */
};

static bool waits(enum fault fault)
{
    return fault >= FAULT_TIMEOUT && fault <= FAULT_GONE_TICKED;
}

/* Whether there is such a trial: who waits needs slots to wait for; and who fails before he has
 * a slot has not waited for it. */
static bool makes_sense(enum fault fault, unsigned hold, enum path path)
{
    bool needs_slots = fault == FAULT_NO_SLOT || waits(fault) || path == PATH_WAITED;
    bool before_waiting = fault <= FAULT_GONE_TICKED;

    if (needs_slots && !(hold & HOLD_SLOT))
        return false;
    if (path == PATH_WAITED && before_waiting)
        return false;
    return fault != FAULT_PEER || hold & HOLD_PEER;
}

static void fill_store(struct trial *t)
{
    struct tg_decision decision;
    uint64_t i = 0;

    while (take_numbered(t->store, t->set, i, 1, NOW, &decision) == TG_OK)
        assert_true(i++ < 100000);
}

static void use_up(struct trial *t, int64_t calls, int64_t cost)
{
    for (int64_t i = 0; i < calls; i++)
        assert_true(must_take(t->store, t->set, "tenant", cost, NOW).allowed);
}

static void trial_open(struct trial *t)
{
    const struct tg_limit limits[] = {
        limit_on(TG_AXIS_RATE, "fixed_window:limit=4,window=1000000"),
        limit_on(TG_AXIS_COST, "fixed_window:limit=100,window=1000000")};

    t->store = must_store(STORE_BYTES, 1);
    t->set = must_define(t->store, limits, 2);
    t->scope = scope_of(t->set, "tenant");
    t->config = gate_config_slots(&t->log, 1);
    t->config.concurrency.on = (t->hold & HOLD_SLOT) != 0;
    t->config.memory.on = true;
    t->config.peers.on = (t->hold & HOLD_PEER) != 0;
    t->config.peers.limit = t->fault == FAULT_PEER ? 1 : 8;
    t->config.store = t->store;
    t->config.lease_ttl = 400;
    gate_config_policy(&t->config);
    if (t->hears)
        gate_config_hearing_policy(&t->config);
    if (t->fault == FAULT_NO_SLOT)
        memset(t->config.concurrency.wait, 0, sizeof t->config.concurrency.wait);
    t->gate = must_gate(&t->config);
    t->call = call_from(TG_PRIORITY_HIGH, "peer");
    t->other = call_from(TG_PRIORITY_HIGH, t->fault == FAULT_PEER ? "peer" : "other");
    t->other.lease_ttl = 100000;
    t->call.debit = debit_of(&t->scope, 10);
}

/* Puts in the way what is to be in the way, as far as it is there from the beginning. */
static void prepare(struct trial *t)
{
    bool slot_taken = t->fault == FAULT_NO_SLOT || waits(t->fault) || t->path == PATH_WAITED;

    if (slot_taken || t->fault == FAULT_PEER)
        t->background = must_allow(t->gate, &t->other, NOW);
    if (t->fault == FAULT_PEER && t->hold & HOLD_SLOT)
        must_set_limit(t->gate, &t->config, 5, NOW);
    if (t->fault == FAULT_MEMORY)
        tg_gate_set_memory(t->gate, 0.99);
    if (t->fault == FAULT_RATE)
        use_up(t, 4, 1);
    if (t->fault == FAULT_COST)
        use_up(t, 1, 95);
    if (t->fault == FAULT_STORE_FULL)
        fill_store(t);
    if (t->fault == FAULT_NEVER)
        t->call.debit.cost = 101;
    t->log.worthless = t->fault == FAULT_POLICY;
}

/* What is wrong with the call itself comes last: so that it gets as far as it can. */
static void spoil(struct trial *t)
{
    if (t->fault == FAULT_UNKNOWN_LIMITS)
        t->scope.limits = 999;
    if (t->fault == FAULT_INVALID_COST)
        t->call.debit.cost = -1;
    if (t->fault == FAULT_INVALID_CALL)
        t->call.weight = (double)NAN;
}

static enum tg_err wanted_error(enum fault fault)
{
    switch (fault) {
    case FAULT_STORE_FULL:
        return TG_ERR_FULL;
    case FAULT_UNKNOWN_LIMITS:
        return TG_ERR_UNKNOWN;
    case FAULT_INVALID_COST:
    case FAULT_INVALID_CALL:
        return TG_ERR_INVALID;
    default:
        return TG_OK;
    }
}

static enum tg_reason wanted_reason(enum fault fault)
{
    switch (fault) {
    case FAULT_MEMORY:
        return TG_REASON_MEMORY_PRESSURE;
    case FAULT_PEER:
        return TG_REASON_PEER_LIMIT;
    case FAULT_POLICY:
        return TG_REASON_POLICY;
    case FAULT_RATE:
        return TG_REASON_RATE;
    case FAULT_COST:
    case FAULT_NEVER:
        return TG_REASON_COST;
    case FAULT_EXPIRED:
        return TG_REASON_NONE;
    default:
        return TG_REASON_CONCURRENCY;
    }
}

/* Past precheck and admit, or as far as it gets. An error leaves the answer as it was. */
static enum tg_err enter(struct trial *t, struct tg_answer *answer)
{
    struct tg_answer before;
    tg_lease checked = 0;

    if (t->path == PATH_PRECHECKED) {
        enum tg_err err = tg_gate_precheck(t->gate, &t->call, NOW, answer);
        if (err != TG_OK || !answer->decision.allowed)
            return err;
        checked = answer->lease;
    }
    if (t->path != PATH_WAITED)
        spoil(t);
    before = *answer;
    enum tg_err err = tg_gate_admit(t->gate, &t->call, checked, NOW, answer);
    if (err != TG_OK)
        assert_memory_equal(answer, &before, sizeof before);
    if (t->path != PATH_WAITED || err != TG_OK)
        return err;
    assert_int_equal(answer->step, TG_WAITING);
    assert_true(finish_as(t->gate, t->background, NOW, TG_OUTCOME_CANCELLED));
    t->background = 0;
    spoil(t);
    before = *answer;
    err = tg_gate_resume(t->gate, answer->lease, &t->call, NOW, answer);
    if (err != TG_OK)
        assert_memory_equal(answer, &before, sizeof before);
    return err;
}

/* The rest of a call that waits, or has been admitted. */
static void end(struct trial *t, struct tg_answer *answer)
{
    tg_lease lease = answer->lease;

    if (t->fault == FAULT_TICKED_OUT || t->fault == FAULT_GONE_TICKED)
        tg_gate_tick(t->gate, NOW + 100);
    if (t->fault == FAULT_TIMEOUT || t->fault == FAULT_TICKED_OUT) {
        assert_int_equal(tg_gate_resume(t->gate, lease, &t->call, NOW + 100, answer), TG_OK);
    } else if (t->fault == FAULT_GONE_WAITING || t->fault == FAULT_GONE_TICKED) {
        assert_true(finish_as(t->gate, lease, NOW + 100, TG_OUTCOME_CANCELLED));
    } else if (t->fault == FAULT_GONE_GRANTED) {
        assert_true(finish_as(t->gate, t->background, NOW, TG_OUTCOME_CANCELLED));
        t->background = 0;
        assert_true(finish_as(t->gate, lease, NOW, TG_OUTCOME_CANCELLED));
    } else if (t->fault == FAULT_EXPIRED) {
        assert_true(answer->decision.allowed);
        tg_gate_tick(t->gate, NOW + 400);
    }
}

static void expect_nothing_left(struct trial *t, int64_t rate_before, int64_t cost_before)
{
    const char *what = fault_names[t->fault];
    struct tg_gate_stats stats;

    if (t->background != 0)
        assert_true(finish_as(t->gate, t->background, NOW, TG_OUTCOME_CANCELLED));
    stats = stats_of_gate(t->gate);
    struct tg_gate_stats nothing = {0};
    expect_same_holdings(what, &stats, &nothing);
    uint64_t before = (t->background != 0 || t->path == PATH_WAITED || waits(t->fault)) ? 1 : 0;
    assert_int_equal(stats.admitted, before + (t->fault == FAULT_EXPIRED));
    assert_int_equal(stats.expired, t->fault == FAULT_EXPIRED);
    if (t->hears && ((uint64_t)t->log.admitted != stats.admitted ||
                     t->log.released != t->log.admitted))
        fail_msg("%s, holding %u, path %d: %llu admitted, the policy has heard of %d, and of the "
                 "end of %d",
                 what, t->hold, (int)t->path, (unsigned long long)stats.admitted, t->log.admitted,
                 t->log.released);
    /* A refused call has been charged nothing; of one that expired the estimate stands. */
    struct tg_scope scope = scope_of(t->set, "tenant");
    struct tg_debit peek = debit_of(&scope, 0);
    struct tg_decision decision;
    struct tg_axes axes;
    assert_int_equal(tg_store_peek(t->store, &peek, NOW, &decision, &axes), TG_OK);
    bool charged = t->fault == FAULT_EXPIRED;
    assert_int_equal(axes.decision[TG_AXIS_RATE].remaining + axes.decision[TG_AXIS_RATE].allowed,
                     rate_before - charged);
    assert_int_equal(axes.decision[TG_AXIS_COST].remaining, cost_before - (charged ? 10 : 0));
    /* None of it was a sample; and there is room for as many as at first. */
    tg_gate_set_memory(t->gate, 0);
    t->log.worthless = false;
    if (!(t->hold & HOLD_SLOT))
        return;
    must_set_limit(t->gate, &t->config, 1, NOW + 400);
    struct tg_call plain = call_of(TG_PRIORITY_LOW);
    must_allow(t->gate, &plain, NOW + 400);
    struct tg_answer full = must_refuse(t->gate, &plain, NOW + 400, TG_REASON_CONCURRENCY);
    assert_int_equal(full.decision.retry_after_ms, 1000);
}

static void run_trial(enum fault fault, unsigned hold, enum path path, bool hears)
{
    struct trial t = {.fault = fault, .hold = hold, .path = path, .hears = hears};
    struct tg_answer answer = {.lease = 0};

    trial_open(&t);
    prepare(&t);
    int64_t rate_before = fault == FAULT_RATE ? 0 : fault == FAULT_COST ? 3
                                                                        : 4;
    int64_t cost_before = fault == FAULT_RATE ? 96 : fault == FAULT_COST ? 5
                                                                         : 100;
    enum tg_err err = enter(&t, &answer);
    if (err != wanted_error(fault))
        fail_msg("%s, holding %u, path %d: %s", fault_names[fault], hold, (int)path,
                 tg_strerror(err));
    if (err == TG_OK) {
        end(&t, &answer);
        bool told = fault < FAULT_GONE_WAITING || fault > FAULT_GONE_TICKED;
        if (told && answer.reason != wanted_reason(fault))
            fail_msg("%s, holding %u, path %d: reason %s", fault_names[fault], hold, (int)path,
                     tg_reason_name(answer.reason));
        if (told)
            check_answer(&answer);
    }
    expect_nothing_left(&t, rate_before, cost_before);
    tg_gate_free(t.gate);
    tg_store_free(t.store);
}

static void whatever_fails_everything_is_given_back(void **state)
{
    int trials = 0;
    (void)state;

    for (int fault = 0; fault < FAULT_COUNT; fault++) {
        for (unsigned hold = 0; hold < HOLD_SETS; hold++) {
            for (int path = 0; path < PATH_COUNT; path++) {
                if (!makes_sense((enum fault)fault, hold, (enum path)path))
                    continue;
                run_trial((enum fault)fault, hold, (enum path)path, false);
                run_trial((enum fault)fault, hold, (enum path)path, true);
                trials++;
            }
        }
    }
    print_message("%d trials\n", trials);
    assert_true(trials >= 100);
}

/* ---- the store elsewhere ---- */

enum says { SAYS_YES,
            SAYS_NO,
            SAYS_ERROR };
enum arrives { IN_TIME,
               AFTER_RELEASE,
               AFTER_EXPIRY,
               NEVER };

static const struct {
    const char *what;
    enum says says;
    enum arrives arrives;
    int times;
    enum tg_err first, second; /* what the gate says to the answer, and to its repetition */
    int64_t paid;
} scripts[] = {
    {"yes", SAYS_YES, IN_TIME, 1, TG_OK, TG_OK, 1},
    {"no", SAYS_NO, IN_TIME, 1, TG_OK, TG_OK, 0},
    {"error", SAYS_ERROR, IN_TIME, 1, TG_ERR_STORE, TG_OK, 0},
    {"yes, twice", SAYS_YES, IN_TIME, 2, TG_OK, TG_ERR_STALE, 1},
    {"no, twice", SAYS_NO, IN_TIME, 2, TG_OK, TG_ERR_STALE, 0},
    {"error, twice", SAYS_ERROR, IN_TIME, 2, TG_ERR_STORE, TG_ERR_STALE, 0},
    {"yes, after release", SAYS_YES, AFTER_RELEASE, 1, TG_ERR_STALE, TG_OK, 0},
    {"no, after release", SAYS_NO, AFTER_RELEASE, 1, TG_ERR_STALE, TG_OK, 0},
    {"error, after release", SAYS_ERROR, AFTER_RELEASE, 1, TG_ERR_STALE, TG_OK, 0},
    {"yes, twice, after release", SAYS_YES, AFTER_RELEASE, 2, TG_ERR_STALE, TG_ERR_STALE, 0},
    {"yes, after expiry", SAYS_YES, AFTER_EXPIRY, 1, TG_ERR_STALE, TG_OK, 0},
    {"no, after expiry", SAYS_NO, AFTER_EXPIRY, 1, TG_ERR_STALE, TG_OK, 0},
    {"error, after expiry", SAYS_ERROR, AFTER_EXPIRY, 1, TG_ERR_STALE, TG_OK, 0},
    {"yes, twice, after expiry", SAYS_YES, AFTER_EXPIRY, 2, TG_ERR_STALE, TG_ERR_STALE, 0},
    {"never", SAYS_ERROR, NEVER, 0, TG_OK, TG_OK, 0},
};

static struct tg_gate *gate_of_remote(struct gate_log *log, unsigned hold, enum path path)
{
    struct tg_gate_config config = gate_config_slots(log, path == PATH_WAITED ? 1 : 3);

    config.concurrency.on = (hold & HOLD_SLOT) != 0;
    config.peers.on = (hold & HOLD_PEER) != 0;
    config.remote_store = true;
    config.lease_ttl = 500;
    gate_config_hearing_policy(&config);
    return must_gate(&config);
}

static tg_lease ask_remote(struct tg_gate *gate, const struct tg_call *call, enum path path)
{
    struct tg_call plain = call_of(TG_PRIORITY_HIGH);
    tg_lease checked = path == PATH_PRECHECKED ? must_precheck(gate, call, NOW).lease : 0;
    tg_lease background = path == PATH_WAITED ? must_allow(gate, &plain, NOW) : 0;
    struct tg_answer answer = must_admit_checked(gate, call, checked, NOW);

    if (path == PATH_WAITED) {
        assert_int_equal(answer.step, TG_WAITING);
        assert_true(finish_as(gate, background, NOW, TG_OUTCOME_CANCELLED));
        answer = must_resume(gate, answer.lease, call, NOW);
    }
    assert_int_equal(answer.step, TG_NEEDS_STORE);
    assert_int_not_equal(answer.lease, 0);
    return answer.lease;
}

static void play_script(size_t number, unsigned hold, enum path path)
{
    struct gate_log log = {.n_woken = 0};
    struct gate_remote remote;
    struct tg_gate *gate = gate_of_remote(&log, hold, path);
    struct tg_call call = call_from(TG_PRIORITY_HIGH, "peer");
    enum arrives arrives = scripts[number].arrives;
    const char *what = scripts[number].what;
    struct tg_answer answer = {.lease = 0};

    remote_open(&remote, 4, 100, scripts[number].says == SAYS_NO ? 101 : 10);
    call.debit = remote.debit;
    struct tg_gate_stats start = stats_of_gate(gate), stats;
    tg_lease lease = ask_remote(gate, &call, path);
    int64_t free_calls = stats_of_gate(gate).in_flight;
    assert_int_equal(free_calls, (hold & HOLD_SLOT) != 0);
    if (arrives == AFTER_RELEASE) {
        assert_true(finish(gate, lease, NOW + 1));
        assert_false(finish(gate, lease, NOW + 1));
        stats = stats_of_gate(gate); /* whatever is still known of it, it holds nothing */
        assert_int_equal(stats.in_flight, 0);
        assert_int_equal(stats.peer_calls, 0);
    }
    if (arrives == AFTER_EXPIRY || arrives == NEVER)
        tg_gate_tick(gate, NOW + DECIDED_BY);
    for (int i = 0; i < scripts[number].times; i++) {
        struct remote_answer did =
            remote_execute(&remote, NOW + 2, scripts[number].says == SAYS_ERROR);
        enum tg_err err = remote_deliver(&remote, gate, lease, &did, NOW + DECIDED_BY + 1, &answer);
        if (err != (i == 0 ? scripts[number].first : scripts[number].second))
            fail_msg("%s, holding %u, path %d: %s", what, hold, (int)path, tg_strerror(err));
    }
    if (arrives == IN_TIME && scripts[number].says == SAYS_YES) {
        assert_true(answer.decision.allowed);
        assert_int_equal(answer.lease, lease);
        assert_int_equal(stats_of_gate(gate).in_flight, (hold & HOLD_SLOT) != 0);
        assert_true(finish(gate, lease, NOW + DECIDED_BY + 1));
        assert_false(finish(gate, lease, NOW + DECIDED_BY + 1));
    }
    if (arrives == IN_TIME && scripts[number].says == SAYS_NO)
        assert_int_equal(answer.reason, TG_REASON_COST);
    stats = stats_of_gate(gate);
    expect_same_holdings(what, &stats, &start);
    bool admitted = arrives == IN_TIME && scripts[number].says == SAYS_YES;
    if (stats.admitted != (uint64_t)admitted + (path == PATH_WAITED))
        fail_msg("%s, holding %u, path %d: %llu are counted as admitted", what, hold, (int)path,
                 (unsigned long long)stats.admitted);
    assert_int_equal(log.admitted, stats.admitted);
    assert_int_equal(log.released, stats.admitted);
    remote_expect_paid(&remote, what, scripts[number].paid);
    tg_gate_free(gate);
    remote_close(&remote);
}

static void whatever_a_store_elsewhere_does_the_books_balance(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(scripts); i++) {
        for (unsigned hold = 0; hold < HOLD_SETS; hold++) {
            play_script(i, hold, PATH_DIRECT);
            play_script(i, hold, PATH_PRECHECKED);
            if (hold & HOLD_SLOT)
                play_script(i, hold, PATH_WAITED);
        }
    }
}

static void a_call_without_debit_does_not_need_the_store(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate *gate = gate_of_remote(&log, HOLD_SLOT, PATH_DIRECT);
    struct tg_call call = call_of(TG_PRIORITY_HIGH);
    (void)state;

    tg_lease lease = must_allow(gate, &call, NOW);
    assert_true(finish(gate, lease, NOW));
    tg_gate_free(gate);
}

/* The policy is asked before anything is debited, here as there. */
static void the_policy_refuses_before_the_store_is_asked(void **state)
{
    struct gate_log log = {.worthless = true};
    struct gate_remote remote;
    struct tg_gate_config config = gate_config_slots(&log, 3);
    struct tg_call call = call_of(TG_PRIORITY_HIGH);
    (void)state;

    remote_open(&remote, 4, 100, 10);
    gate_config_policy(&config);
    config.remote_store = true;
    call.debit = remote.debit;
    struct tg_gate *gate = must_gate(&config);
    must_refuse(gate, &call, NOW, TG_REASON_POLICY);
    expect_idle(gate);
    tg_gate_free(gate);
    remote_close(&remote);
}

static void a_remote_answer_is_told_with_the_slots_and_in_shadow_too(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct gate_remote remote;
    struct tg_gate *gate = gate_of_remote(&log, HOLD_SLOT, PATH_DIRECT);
    struct tg_call call = call_of(TG_PRIORITY_HIGH);
    struct tg_answer answer;
    (void)state;

    remote_open(&remote, 4, 100, 10);
    call.debit = remote.debit;
    tg_lease lease = ask_remote(gate, &call, PATH_DIRECT);
    struct remote_answer did = remote_execute(&remote, NOW, false);
    did.axes.would_deny = 1u << TG_AXIS_COST;
    assert_int_equal(remote_deliver(&remote, gate, lease, &did, NOW, &answer), TG_OK);
    expect_decision("slot", answer.axes.decision[TG_AXIS_CONCURRENCY], ALLOWED(3, 2, NOW));
    expect_decision("cost", answer.axes.decision[TG_AXIS_COST], ALLOWED(100, 90, 1000000000));
    assert_int_equal(answer.would_deny, 1u << TG_REASON_COST);
    assert_int_equal(stats_of_gate(gate).would_deny[TG_REASON_COST], 1);
    assert_int_equal(stats_of_gate(gate).admitted, 1);
    tg_gate_free(gate);
    remote_close(&remote);
}

/* A lease is all that a remote store's answer can come back to: there is one even if the gate
 * counts nothing else. An answer to nobody changes nothing. */
static void a_gate_with_a_remote_store_alone_waits_for_its_answer(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct gate_remote remote;
    struct tg_gate_config config = gate_config(&log);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    struct tg_answer answer;
    (void)state;

    remote_open(&remote, 4, 100, 10);
    config.remote_store = true;
    struct tg_gate *gate = must_gate(&config);
    call.debit = remote.debit;
    struct tg_answer asked = must_admit(gate, &call, NOW);
    assert_int_equal(asked.step, TG_NEEDS_STORE);
    assert_int_not_equal(asked.lease, 0);
    struct remote_answer did = remote_execute(&remote, NOW, false);
    assert_int_equal(remote_deliver(&remote, gate, asked.lease, &did, NOW, &answer), TG_OK);
    assert_true(answer.decision.allowed);
    assert_true(finish(gate, asked.lease, NOW));
    answer = (struct tg_answer){.lease = 77, .reason = TG_REASON_COST};
    assert_int_equal(
        tg_gate_store_answered(gate, asked.lease, TG_OK, &did.axes, NOW, &answer), TG_ERR_STALE);
    assert_int_equal(answer.lease, 77);
    assert_int_equal(answer.reason, TG_REASON_COST);
    expect_idle(gate);
    tg_gate_free(gate);
    remote_close(&remote);
}

/* Whoever hangs up while the store decides gives his slot back there and then, to who waits for
 * it, and not only when the answer comes. */
static void who_gives_up_while_the_store_decides_frees_his_slot(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct gate_remote remote;
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_of(TG_PRIORITY_HIGH), next = call_waiting(TG_PRIORITY_HIGH, 4);
    struct tg_answer answer;
    (void)state;

    remote_open(&remote, 4, 100, 10);
    config.remote_store = true;
    struct tg_gate *gate = must_gate(&config);
    call.debit = remote.debit;
    struct tg_answer asked = must_admit(gate, &call, NOW);
    assert_int_equal(asked.step, TG_NEEDS_STORE);
    tg_lease waiting = must_queue(gate, &next, NOW);
    assert_true(tg_gate_release(gate, asked.lease, NOW + 1, NULL));
    assert_int_equal(next_woken(&log), 4);
    assert_true(must_resume(gate, waiting, &next, NOW + 1).decision.allowed);
    assert_int_equal(stats_of_gate(gate).in_flight, 1);
    struct remote_answer did = remote_execute(&remote, NOW + 1, false);
    assert_int_equal(remote_deliver(&remote, gate, asked.lease, &did, NOW + 2, &answer),
                     TG_ERR_STALE);
    remote_expect_paid(&remote, "given up", 0);
    tg_gate_free(gate);
    remote_close(&remote);
}

/* What a store elsewhere could not be asked is an error here, and holds nothing. */
static void a_debit_that_is_none_does_not_reach_the_store(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct gate_remote remote;
    struct tg_gate_config config = gate_config_slots(&log, 3);
    struct tg_scope scopes[TG_SCOPES_MAX + 1];
    struct tg_answer answer;
    (void)state;

    remote_open(&remote, 4, 100, 10);
    config.remote_store = true;
    struct tg_gate *gate = must_gate(&config);
    for (size_t i = 0; i < COUNT_OF(scopes); i++)
        scopes[i] = remote.scope;
    for (int wrong = 0; wrong < 4; wrong++) {
        struct tg_call call = call_of(TG_PRIORITY_HIGH);
        call.debit = remote.debit;
        call.debit.scopes = wrong == 0 ? NULL : scopes;
        call.debit.n_scopes = wrong == 1 ? TG_SCOPES_MAX + 1 : 1;
        call.debit.cost = wrong == 2 ? -1 : wrong == 3 ? TG_NUMBER_MAX + 1
                                                       : 1;
        assert_int_equal(tg_gate_admit(gate, &call, 0, NOW, &answer), TG_ERR_INVALID);
        assert_int_equal(tg_gate_precheck(gate, &call, NOW, &answer), TG_ERR_INVALID);
        expect_idle(gate);
    }
    tg_gate_free(gate);
    remote_close(&remote);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_fails_everything_is_given_back),
        cmocka_unit_test(whatever_a_store_elsewhere_does_the_books_balance),
        cmocka_unit_test(a_call_without_debit_does_not_need_the_store),
        cmocka_unit_test(the_policy_refuses_before_the_store_is_asked),
        cmocka_unit_test(a_remote_answer_is_told_with_the_slots_and_in_shadow_too),
        cmocka_unit_test(a_gate_with_a_remote_store_alone_waits_for_its_answer),
        cmocka_unit_test(who_gives_up_while_the_store_decides_frees_his_slot),
        cmocka_unit_test(a_debit_that_is_none_does_not_reach_the_store),
    };
    return cmocka_run_group_tests_name("gate_faults", tests, NULL, NULL);
}
