/* test_admission_run.c - every event in every state of a run, and everything given back once.
 *
 * The gate is a real one with a single slot and counted peers. How the run waits and what its
 * remote store says is played here, with a book of each: waits, questions, charges. After every
 * path the books balance and the gate holds nothing.
 */
#include "failing_malloc.h"

#include <string.h>

#include "lib/admission/admission_run.h"

#include "dies.h"
#include "gate_kit.h"

#define NOW 1000
#define WAIT_MS 50

enum store_says { SAYS_YES,
                  SAYS_NO,
                  SAYS_ERROR,
                  SAYS_LATER };

struct owner {
    struct gate_log log;
    struct tg_gate *gate;
    struct tg_call call;
    struct tg_scope scope;
    struct admission_run run;
    struct tg_answer answer;
    tg_lease other; /* the lease of somebody who has the only slot; 0: it is free */

    /* Books. */
    enum store_says says;
    enum tg_err cannot_wait;
    int waiting, questions, charges;
    int settled, refunded, waits, waits_over;
    int64_t actual;
    tg_ms deadline;
};

/* ---- the owner's functions ---- */

static struct owner *owner_of(struct admission_run *run)
{
    return (struct owner *)(void *)((char *)run - offsetof(struct owner, run));
}

static enum tg_err owner_wait(struct admission_run *run, tg_ms deadline)
{
    struct owner *owner = owner_of(run);

    owner->waiting = 1;
    owner->waits++;
    owner->deadline = deadline;
    return owner->cannot_wait;
}

static void owner_wait_over(struct admission_run *run)
{
    struct owner *owner = owner_of(run);

    assert_int_equal(owner->waiting, 1);
    owner->waiting = 0;
    owner->waits_over++;
}

static struct tg_axes axes_of(bool allowed)
{
    struct tg_axes axes = {.present = 1u << TG_AXIS_COST};

    axes.decision[TG_AXIS_COST] = allowed ? ALLOWED(10, 9, 0) : DENIED(10, 0, 2000, 1000);
    return axes;
}

static bool owner_ask(struct admission_run *run, tg_ms now, enum tg_err *err, struct tg_axes *axes)
{
    struct owner *owner = owner_of(run);

    (void)now;
    *err = owner->says == SAYS_ERROR ? TG_ERR_STORE : TG_OK;
    *axes = axes_of(owner->says == SAYS_YES);
    owner->charges += owner->says == SAYS_YES;
    owner->questions += owner->says == SAYS_LATER;
    return owner->says != SAYS_LATER;
}

static void owner_settle(struct admission_run *run, tg_ms now, int64_t actual)
{
    struct owner *owner = owner_of(run);

    (void)now;
    assert_int_equal(owner->charges, 1);
    owner->charges--;
    owner->settled++;
    owner->actual = actual;
}

static void owner_refund(struct admission_run *run, tg_ms now)
{
    struct owner *owner = owner_of(run);

    (void)now;
    assert_int_equal(owner->charges + owner->questions, 1);
    owner->charges = owner->questions = 0;
    owner->refunded++;
}

static const struct admission_ops ops = {.wait = owner_wait,
                                         .wait_over = owner_wait_over,
                                         .ask = owner_ask,
                                         .settle = owner_settle,
                                         .refund = owner_refund};

/* ---- making ---- */

static void owner_open(struct owner *owner, bool remote)
{
    *owner = (struct owner){.scope = {.limits = 1, .key = "tenant", .key_bytes = 6}};
    struct tg_gate_config config = gate_config_slots(&owner->log, 1);
    config.concurrency.wait[TG_PRIORITY_NORMAL] = WAIT_MS;
    config.peers.on = true;
    config.remote_store = remote;
    config.lease_ttl = 10000;
    owner->gate = must_gate(&config);
    owner->call = call_waiting(TG_PRIORITY_NORMAL, 7);
    owner->call.peer = "peer";
    owner->call.peer_bytes = 4;
    if (remote)
        owner->call.debit = (struct tg_debit){.scopes = &owner->scope, .n_scopes = 1, .cost = 1};
    admission_run_init(&owner->run, owner->gate, &owner->call, &ops);
}

/* Somebody else takes the slot. */
static void owner_occupy(struct owner *owner)
{
    struct tg_call other = call_of(TG_PRIORITY_NORMAL);

    owner->other = must_allow(owner->gate, &other, NOW);
}

static void owner_vacate(struct owner *owner, tg_ms now)
{
    assert_true(finish(owner->gate, owner->other, now));
    owner->other = 0;
}

static struct tg_release release_as(enum tg_outcome outcome)
{
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = outcome;
    return release;
}

static void owner_end(struct owner *owner, tg_ms now, enum tg_outcome outcome)
{
    struct tg_release release = release_as(outcome);

    admission_run_end(&owner->run, now, &release);
    assert_int_equal(owner->run.state, ADMISSION_IDLE);
    assert_int_equal(owner->run.err, TG_OK);
    assert_true(owner->run.deadline == 0);
}

/* Nothing is held anywhere. */
static void owner_expect_balance(struct owner *owner)
{
    assert_int_equal(owner->waiting, 0);
    assert_int_equal(owner->questions, 0);
    assert_int_equal(owner->charges, 0);
    assert_true(owner->run.lease == 0);
    assert_false(owner->run.is_charged);
    expect_idle(owner->gate);
}

static void owner_close(struct owner *owner, tg_ms now)
{
    owner_end(owner, now, TG_OUTCOME_CANCELLED);
    if (owner->other != 0)
        owner_vacate(owner, now);
    owner_expect_balance(owner);
    owner_end(owner, now, TG_OUTCOME_OK); /* once more, for nothing */
    owner_expect_balance(owner);
    tg_gate_free(owner->gate);
}

/* ---- every event in every state ---- */

enum { STATES = ADMISSION_FAILED + 1,
       EVENTS = ADMISSION_END + 1 };

/* Makes an owner whose run is in this state. */
static void owner_open_in(struct owner *owner, enum admission_state state)
{
    owner_open(owner, true);
    switch (state) {
    case ADMISSION_IDLE:
        break;
    case ADMISSION_CHECKED:
        admission_run_precheck(&owner->run, NOW, &owner->answer);
        break;
    case ADMISSION_WAITING:
        owner_occupy(owner);
        admission_run_admit(&owner->run, NOW, &owner->answer);
        break;
    case ADMISSION_ASKING:
        owner->says = SAYS_LATER;
        admission_run_admit(&owner->run, NOW, &owner->answer);
        break;
    case ADMISSION_ADMITTED:
        admission_run_admit(&owner->run, NOW, &owner->answer);
        break;
    case ADMISSION_REFUSED:
        owner->says = SAYS_NO;
        admission_run_admit(&owner->run, NOW, &owner->answer);
        break;
    case ADMISSION_FAILED:
        owner->says = SAYS_ERROR;
        admission_run_admit(&owner->run, NOW, &owner->answer);
        break;
    }
    assert_int_equal(owner->run.state, state);
    owner->says = SAYS_YES;
}

static enum admission_state owner_step(struct owner *owner, enum admission_event_kind kind)
{
    const struct tg_release release = release_as(TG_OUTCOME_OK);
    const struct tg_axes axes = axes_of(true);
    const struct admission_event event = {
        .kind = kind, .now = NOW + 1, .axes = &axes, .release = &release};

    if (kind == ADMISSION_STORE_ANSWER) { /* a yes: the question has become a charge */
        owner->questions--;
        owner->charges++;
    }
    return admission_run_step(&owner->run, &event, &owner->answer);
}

struct attempt {
    enum admission_state state;
    enum admission_event_kind kind;
};

static void owner_try(void *arg)
{
    const struct attempt *attempt = arg;
    struct owner *owner = test_calloc(1, sizeof *owner);

    owner_open_in(owner, attempt->state);
    owner_step(owner, attempt->kind);
}

static void every_event_in_every_state(void **state)
{
    enum { DIES = -1 };
    /* Columns: PRECHECK, ADMIT, WAKE, STORE_ANSWER, END. The slot is taken in WAITING alone. */
    static const int table[STATES][EVENTS] = {
        [ADMISSION_IDLE] = {ADMISSION_CHECKED, ADMISSION_ADMITTED, DIES, DIES, ADMISSION_IDLE},
        [ADMISSION_CHECKED] = {DIES, ADMISSION_ADMITTED, DIES, DIES, ADMISSION_IDLE},
        [ADMISSION_WAITING] = {DIES, DIES, ADMISSION_WAITING, DIES, ADMISSION_IDLE},
        [ADMISSION_ASKING] = {DIES, DIES, DIES, ADMISSION_ADMITTED, ADMISSION_IDLE},
        [ADMISSION_ADMITTED] = {DIES, DIES, DIES, DIES, ADMISSION_IDLE},
        [ADMISSION_REFUSED] = {ADMISSION_CHECKED, ADMISSION_ADMITTED, DIES, DIES, ADMISSION_IDLE},
        [ADMISSION_FAILED] = {ADMISSION_CHECKED, ADMISSION_ADMITTED, DIES, DIES, ADMISSION_IDLE},
    };

    (void)state;
    for (int from = 0; from < STATES; from++)
        for (int kind = 0; kind < EVENTS; kind++) {
            struct attempt attempt = {(enum admission_state)from, (enum admission_event_kind)kind};
            struct owner owner;

            if (table[from][kind] == DIES) {
                if (ASSERTS_ARE_ON && !dies(owner_try, &attempt))
                    fail_msg("event %d in state %d did not assert", kind, from);
                continue;
            }
            owner_open_in(&owner, attempt.state);
            assert_int_equal(owner_step(&owner, attempt.kind), table[from][kind]);
            assert_int_equal(owner.run.state, table[from][kind]);
            owner_close(&owner, NOW + 2);
        }
}

/* ---- the ways through ---- */

static void refused_and_failed_hold_nothing(void **state)
{
    struct owner owner;

    (void)state;
    owner_open_in(&owner, ADMISSION_REFUSED);
    assert_int_equal(owner.answer.reason, TG_REASON_COST);
    owner_expect_balance(&owner);
    owner_close(&owner, NOW);
    owner_open_in(&owner, ADMISSION_FAILED);
    assert_int_equal(owner.run.err, TG_ERR_STORE);
    assert_true(owner.run.deadline == 0);
    owner_expect_balance(&owner);
    owner_close(&owner, NOW);
}

static void woken_call_is_admitted_and_its_wait_is_over(void **state)
{
    struct owner owner;

    (void)state;
    owner_open_in(&owner, ADMISSION_WAITING);
    assert_int_equal(owner.deadline, NOW + WAIT_MS);
    assert_int_equal(owner.run.deadline, NOW + WAIT_MS);
    owner_vacate(&owner, NOW + 10);
    assert_int_equal(next_woken(&owner.log), 7);
    assert_int_equal(owner.waiting, 1); /* until the owner's thread has heard of it */
    assert_int_equal(admission_run_wake(&owner.run, NOW + 10, &owner.answer), ADMISSION_ADMITTED);
    assert_int_equal(owner.waiting, 0);
    assert_int_equal(owner.charges, 1);
    owner_close(&owner, NOW + 20);
    assert_int_equal(owner.settled, 1);
    assert_int_equal(owner.refunded, 0);
}

static void wait_ends_at_its_deadline(void **state)
{
    struct owner owner;

    (void)state;
    owner_open_in(&owner, ADMISSION_WAITING);
    assert_int_equal(admission_run_wake(&owner.run, NOW + WAIT_MS - 1, &owner.answer),
                     ADMISSION_WAITING); /* too early: it waits on */
    assert_int_equal(owner.waits, 2);
    assert_int_equal(owner.waiting, 1);
    assert_int_equal(owner.waits_over, 0);
    assert_int_equal(admission_run_wake(&owner.run, NOW + WAIT_MS, &owner.answer),
                     ADMISSION_REFUSED);
    assert_int_equal(owner.answer.reason, TG_REASON_CONCURRENCY);
    assert_int_equal(owner.waiting, 0);
    owner_close(&owner, NOW + WAIT_MS);
    assert_int_equal(owner.settled + owner.refunded, 0);
}

/* The timer fires at the instant of the grant: one WAKE decides, and the wait is over with it. */
static void timer_and_wake_at_one_instant_decide_once(void **state)
{
    struct owner owner;

    (void)state;
    owner_open_in(&owner, ADMISSION_WAITING);
    owner_vacate(&owner, NOW + WAIT_MS - 1);
    assert_int_equal(next_woken(&owner.log), 7);
    assert_int_equal(admission_run_wake(&owner.run, NOW + WAIT_MS, &owner.answer),
                     ADMISSION_ADMITTED);
    assert_int_equal(owner.waiting, 0);
    tg_gate_tick(owner.gate, NOW + WAIT_MS);
    assert_int_equal(next_woken(&owner.log), -1);
    owner_close(&owner, NOW + WAIT_MS);
}

static void granted_at_the_instant_of_a_hangup_gives_its_slot_back(void **state)
{
    struct owner owner;

    (void)state;
    owner_open_in(&owner, ADMISSION_WAITING);
    owner_vacate(&owner, NOW + 10); /* granted, and the wake is posted */
    assert_int_equal(stats_of_gate(owner.gate).in_flight, 1);
    owner_end(&owner, NOW + 10, TG_OUTCOME_CANCELLED);
    assert_int_equal(stats_of_gate(owner.gate).in_flight, 0);
    assert_int_equal(owner.waiting, 0);
    owner_close(&owner, NOW + 10);
}

static void owner_that_cannot_wait_gives_its_place_back(void **state)
{
    struct owner owner;

    (void)state;
    owner_open(&owner, true);
    owner_occupy(&owner);
    owner.cannot_wait = TG_ERR_MEMORY;
    assert_int_equal(admission_run_admit(&owner.run, NOW, &owner.answer), ADMISSION_FAILED);
    assert_int_equal(owner.run.err, TG_ERR_MEMORY);
    assert_int_equal(stats_of_gate(owner.gate).queued[TG_PRIORITY_NORMAL], 0);
    owner_close(&owner, NOW);
}

/* The first wait began, the second could not: it is over, too. */
static void wait_that_cannot_go_on_is_over(void **state)
{
    struct owner owner;

    (void)state;
    owner_open_in(&owner, ADMISSION_WAITING);
    owner.cannot_wait = TG_ERR_MEMORY;
    assert_int_equal(admission_run_wake(&owner.run, NOW + 1, &owner.answer), ADMISSION_FAILED);
    assert_int_equal(owner.waiting, 0);
    owner_close(&owner, NOW + 1);
}

static void abandoned_question_is_withdrawn_and_frees_the_slot(void **state)
{
    struct owner owner;

    (void)state;
    owner_open_in(&owner, ADMISSION_ASKING);
    assert_int_equal(owner.questions, 1);
    assert_int_equal(stats_of_gate(owner.gate).in_flight, 1);
    owner_end(&owner, NOW + 5, TG_OUTCOME_OK);
    assert_int_equal(owner.refunded, 1);
    assert_int_equal(owner.settled, 0);
    assert_int_equal(stats_of_gate(owner.gate).leases, 0); /* no ticket that waits for its answer */
    owner_close(&owner, NOW + 5);
}

static void lease_that_expired_while_asking_is_refunded(void **state)
{
    struct tg_axes axes = axes_of(true);
    struct owner owner;

    (void)state;
    owner_open_in(&owner, ADMISSION_ASKING);
    tg_gate_tick(owner.gate, NOW + 600000);
    owner.questions = 0;
    owner.charges = 1;
    assert_int_equal(
        admission_run_store_answered(&owner.run, NOW + 600000, TG_OK, &axes, &owner.answer),
        ADMISSION_FAILED);
    assert_int_equal(owner.run.err, TG_ERR_STALE);
    assert_int_equal(owner.refunded, 1);
    owner_close(&owner, NOW + 600000);
}

/* The lease begins when the store has answered. */
static void a_lease_shorter_than_the_answer_takes_is_whole(void **state)
{
    struct tg_axes axes = axes_of(true);
    struct owner owner;

    (void)state;
    owner_open_in(&owner, ADMISSION_ASKING);
    tg_gate_tick(owner.gate, NOW + 20000);
    owner.questions = 0;
    owner.charges = 1;
    assert_int_equal(
        admission_run_store_answered(&owner.run, NOW + 20000, TG_OK, &axes, &owner.answer),
        ADMISSION_ADMITTED);
    assert_int_equal(owner.answer.deadline, NOW + 30000);
    assert_int_equal(tg_gate_next_deadline(owner.gate), NOW + 30000);
    owner_close(&owner, NOW + 20000);
}

static void late_no_and_late_error_charge_nothing(void **state)
{
    struct tg_axes no = axes_of(false);
    struct owner owner;

    (void)state;
    owner_open_in(&owner, ADMISSION_ASKING);
    owner.questions = 0;
    assert_int_equal(admission_run_store_answered(&owner.run, NOW, TG_OK, &no, &owner.answer),
                     ADMISSION_REFUSED);
    owner_close(&owner, NOW);
    owner_open_in(&owner, ADMISSION_ASKING);
    owner.questions = 0;
    assert_int_equal(
        admission_run_store_answered(&owner.run, NOW, TG_ERR_STORE, NULL, &owner.answer),
        ADMISSION_FAILED);
    assert_int_equal(owner.run.err, TG_ERR_STORE);
    assert_int_equal(owner.settled + owner.refunded, 0);
    owner_close(&owner, NOW);
}

static void refused_outcome_refunds_and_others_settle(void **state)
{
    struct tg_release release = release_as(TG_OUTCOME_OK);
    struct owner owner;

    (void)state;
    owner_open_in(&owner, ADMISSION_ADMITTED);
    owner_end(&owner, NOW, TG_OUTCOME_REFUSED);
    assert_int_equal(owner.refunded, 1);
    assert_int_equal(owner.settled, 0);
    owner_close(&owner, NOW);
    owner_open_in(&owner, ADMISSION_ADMITTED);
    release.actual = 5;
    admission_run_end(&owner.run, NOW, &release);
    assert_int_equal(owner.settled, 1);
    assert_int_equal(owner.actual, 5);
    owner_close(&owner, NOW);
    assert_int_equal(owner.refunded, 0);
}

static void precheck_counts_the_peer_once(void **state)
{
    struct owner owner;

    (void)state;
    owner_open(&owner, true);
    assert_int_equal(admission_run_precheck(&owner.run, NOW, &owner.answer), ADMISSION_CHECKED);
    assert_int_equal(tg_gate_peer_calls(owner.gate, "peer", 4), 1);
    assert_int_equal(admission_run_admit(&owner.run, NOW, &owner.answer), ADMISSION_ADMITTED);
    assert_int_equal(tg_gate_peer_calls(owner.gate, "peer", 4), 1);
    owner_close(&owner, NOW);
}

static void lease_that_is_handed_over_outlives_its_run(void **state)
{
    struct owner owner;

    (void)state;
    owner_open_in(&owner, ADMISSION_ADMITTED);
    tg_lease lease = admission_run_hand_over_lease(&owner.run);
    assert_true(lease != 0);
    owner_end(&owner, NOW, TG_OUTCOME_OK);
    assert_int_equal(owner.settled, 1);
    assert_int_equal(stats_of_gate(owner.gate).in_flight, 1);
    assert_true(finish(owner.gate, lease, NOW));
    owner_close(&owner, NOW);
}

static void renewal_moves_the_end_of_the_lease(void **state)
{
    struct owner owner;

    (void)state;
    owner_open_in(&owner, ADMISSION_ADMITTED);
    assert_int_equal(owner.run.deadline, NOW + 10000);
    admission_run_renew(&owner.run, NOW + 9999);
    tg_gate_tick(owner.gate, NOW + 10000);
    assert_int_equal(stats_of_gate(owner.gate).in_flight, 1);
    owner_close(&owner, NOW + 10001);
}

/* ---- without a gate, and without a remote store ---- */

static void without_a_gate_the_store_alone_decides(void **state)
{
    struct owner owner;

    (void)state;
    owner_open(&owner, true);
    owner.run.gate = NULL;
    assert_int_equal(admission_run_admit(&owner.run, NOW, &owner.answer), ADMISSION_ADMITTED);
    assert_int_equal(owner.answer.step, TG_DECIDED);
    assert_int_equal(owner.answer.decision.remaining, 9);
    check_answer(&owner.answer);
    owner_end(&owner, NOW, TG_OUTCOME_OK);
    assert_int_equal(owner.settled, 1);
    owner.says = SAYS_NO;
    assert_int_equal(admission_run_admit(&owner.run, NOW, &owner.answer), ADMISSION_REFUSED);
    assert_int_equal(owner.answer.reason, TG_REASON_COST);
    check_answer(&owner.answer);
    owner.says = SAYS_ERROR;
    assert_int_equal(admission_run_admit(&owner.run, NOW, &owner.answer), ADMISSION_FAILED);
    owner.says = SAYS_LATER;
    assert_int_equal(admission_run_admit(&owner.run, NOW, &owner.answer), ADMISSION_ASKING);
    owner_end(&owner, NOW, TG_OUTCOME_CANCELLED);
    assert_int_equal(owner.refunded, 1);
    owner_close(&owner, NOW);
}

/* A store alone is asked for the call's cost; for nothing where there is no call. */
static void without_a_gate_the_charge_is_what_the_call_costs(void **state)
{
    struct owner owner;

    (void)state;
    owner_open(&owner, true);
    owner.run.gate = NULL;
    owner.says = SAYS_LATER;
    owner.call.debit.cost = 42;
    assert_int_equal(admission_run_admit(&owner.run, NOW, &owner.answer), ADMISSION_ASKING);
    assert_int_equal(owner.run.charge, 42);
    owner_end(&owner, NOW, TG_OUTCOME_CANCELLED);
    owner.run.call = NULL;
    assert_int_equal(admission_run_admit(&owner.run, NOW, &owner.answer), ADMISSION_ASKING);
    assert_int_equal(owner.run.charge, 0);
    owner_close(&owner, NOW);
}

/* Every axis of the store's answer is in the run's, and what a shadow would have refused. */
static void without_a_gate_the_answer_has_every_axis(void **state)
{
    struct tg_axes axes = {.present = 1u << TG_AXIS_RATE | 1u << TG_AXIS_COST};
    struct owner owner;

    (void)state;
    owner_open(&owner, true);
    owner.run.gate = NULL;
    for (int refused = 0; refused < 2; refused++) {
        owner.says = SAYS_LATER;
        assert_int_equal(admission_run_admit(&owner.run, NOW, &owner.answer), ADMISSION_ASKING);
        owner.questions = 0;
        owner.charges = !refused;
        axes.decision[TG_AXIS_RATE] = refused ? DENIED(5, 0, 3000, 500) : ALLOWED(5, 4, 0);
        axes.decision[TG_AXIS_COST] = ALLOWED(10, 2, 9000);
        axes.would_deny = 1u << TG_AXIS_COST;
        memset(&owner.answer, 0xff, sizeof owner.answer);
        assert_int_equal(admission_run_store_answered(&owner.run, NOW, TG_OK, &axes, &owner.answer),
                         refused ? ADMISSION_REFUSED : ADMISSION_ADMITTED);
        assert_int_equal(owner.answer.step, TG_DECIDED);
        assert_int_equal(owner.answer.reason, refused ? TG_REASON_RATE : TG_REASON_NONE);
        assert_int_equal(owner.answer.would_deny, 1u << TG_REASON_COST);
        assert_int_equal(owner.answer.axes.present, axes.present);
        assert_false(owner.answer.policy_denied);
        assert_true(owner.answer.lease == 0 && owner.answer.deadline == 0);
        expect_decision("both axes", owner.answer.decision,
                        tg_decision_combine(axes.decision[TG_AXIS_RATE],
                                            axes.decision[TG_AXIS_COST]));
        owner_end(&owner, NOW, TG_OUTCOME_OK);
    }
    owner_close(&owner, NOW);
}

static void owner_without_functions_looks_at_the_run(void **state)
{
    static const struct admission_ops none = {.wait = NULL};
    struct owner owner;

    (void)state;
    owner_open(&owner, false);
    owner.run.ops = &none;
    owner_occupy(&owner);
    assert_int_equal(admission_run_admit(&owner.run, NOW, &owner.answer), ADMISSION_WAITING);
    assert_int_equal(owner.run.deadline, NOW + WAIT_MS);
    owner_vacate(&owner, NOW + 1);
    assert_int_equal(admission_run_wake(&owner.run, NOW + 1, &owner.answer), ADMISSION_ADMITTED);
    owner_end(&owner, NOW + 2, TG_OUTCOME_OK);
    owner_occupy(&owner);
    assert_int_equal(admission_run_admit(&owner.run, NOW + 2, &owner.answer), ADMISSION_WAITING);
    owner_close(&owner, NOW + 2); /* while it waits */
}

static void error_of_the_gate_holds_nothing(void **state)
{
    struct owner owner;

    (void)state;
    owner_open(&owner, true);
    owner.call.weight = 0;
    assert_int_equal(admission_run_precheck(&owner.run, NOW, &owner.answer), ADMISSION_FAILED);
    assert_int_equal(owner.run.err, TG_ERR_INVALID);
    assert_int_equal(admission_run_admit(&owner.run, NOW, &owner.answer), ADMISSION_FAILED);
    assert_int_equal(owner.run.err, TG_ERR_INVALID);
    owner_close(&owner, NOW);
    owner_open_in(&owner, ADMISSION_WAITING);
    owner.call.weight = 0;
    assert_int_equal(admission_run_wake(&owner.run, NOW, &owner.answer), ADMISSION_FAILED);
    assert_int_equal(owner.waiting, 0);
    owner_close(&owner, NOW);
}

/* ---- memory ---- */

static const struct admission_ops no_ops = {.wait = NULL};

/* The first two calls of a gate: one has the slot, the other waits for it and gets it. */
static long live_once(long nth)
{
    struct admission_run first;
    struct owner owner;
    struct tg_release release = release_as(TG_OUTCOME_CANCELLED);
    long errors = 0;

    owner_open(&owner, true);
    owner.says = SAYS_YES;
    admission_run_init(&first, owner.gate, &owner.call, &no_ops);
    fail_at(nth);
    struct tg_call other = call_of(TG_PRIORITY_NORMAL);
    first.call = &other;
    errors += admission_run_admit(&first, NOW, &owner.answer) == ADMISSION_FAILED;
    errors += admission_run_admit(&owner.run, NOW, &owner.answer) == ADMISSION_FAILED;
    if (first.state == ADMISSION_ADMITTED)
        admission_run_end(&first, NOW, &release);
    if (owner.run.state == ADMISSION_WAITING)
        errors += admission_run_wake(&owner.run, NOW, &owner.answer) == ADMISSION_FAILED;
    until_failure = -1;
    assert_int_equal(first.err == TG_ERR_MEMORY, first.state == ADMISSION_FAILED);
    assert_int_equal(owner.run.err == TG_ERR_MEMORY, owner.run.state == ADMISSION_FAILED);
    owner_close(&owner, NOW);
    return errors;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    need_allocator();
    expect_survival(live_once, false, 2, 1);
    expect_survival(live_once, true, 2, 1);
    keeps_failing = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_event_in_every_state),
        cmocka_unit_test(refused_and_failed_hold_nothing),
        cmocka_unit_test(woken_call_is_admitted_and_its_wait_is_over),
        cmocka_unit_test(wait_ends_at_its_deadline),
        cmocka_unit_test(timer_and_wake_at_one_instant_decide_once),
        cmocka_unit_test(granted_at_the_instant_of_a_hangup_gives_its_slot_back),
        cmocka_unit_test(owner_that_cannot_wait_gives_its_place_back),
        cmocka_unit_test(wait_that_cannot_go_on_is_over),
        cmocka_unit_test(abandoned_question_is_withdrawn_and_frees_the_slot),
        cmocka_unit_test(lease_that_expired_while_asking_is_refunded),
        cmocka_unit_test(a_lease_shorter_than_the_answer_takes_is_whole),
        cmocka_unit_test(late_no_and_late_error_charge_nothing),
        cmocka_unit_test(refused_outcome_refunds_and_others_settle),
        cmocka_unit_test(precheck_counts_the_peer_once),
        cmocka_unit_test(lease_that_is_handed_over_outlives_its_run),
        cmocka_unit_test(renewal_moves_the_end_of_the_lease),
        cmocka_unit_test(without_a_gate_the_store_alone_decides),
        cmocka_unit_test(without_a_gate_the_charge_is_what_the_call_costs),
        cmocka_unit_test(without_a_gate_the_answer_has_every_axis),
        cmocka_unit_test(owner_without_functions_looks_at_the_run),
        cmocka_unit_test(error_of_the_gate_holds_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
