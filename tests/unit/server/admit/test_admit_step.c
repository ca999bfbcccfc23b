/* test_admit_step.c - every event in every state of a question of the Admit service.
 *
 * There is no network: the gate is a real one with a single slot and a remote store that the test
 * plays. After every path everything has been given back exactly once: slots, peers, leases,
 * charges, questions, waits, bound leases, generations, structs; and whoever asked has heard of its
 * decision exactly once, or not at all if it has left.
 */
#include "failing_malloc.h"

#include <string.h>

#include "dies.h"
#include "net_admit_kit.h"
#include "server/admit/admit_internal.h"

static struct {
    struct admit_kit kit;
    struct worker *worker;
    struct admit_caller caller;
    struct tg_gate *own_gate; /* the gateway's, while the test has another in its place */
    struct admit_pending *pending;
    enum admit_state state; /* what the last step has returned */
    tg_lease other;         /* somebody else's, who has the slot; 0: it is free */
    uint64_t held;          /* references to the generation, when the test began */

    int told;
    struct admit_reply reply;

    /* The remote store and the wait. */
    const struct admission_ops *real;
    bool says_later, cannot_wait;
    int questions, charges, settled, refunded, waits_over;
    int64_t actual;
} world;

/* ---- the remote store and the wait ---- */

static struct admit_pending *pending_of(struct admission_run *run)
{
    return (struct admit_pending *)(void *)((char *)run - offsetof(struct admit_pending, run));
}

static enum tg_err play_wait(struct admission_run *run, tg_ms deadline)
{
    return world.cannot_wait ? TG_ERR_MEMORY : world.real->wait(run, deadline);
}

static void play_wait_over(struct admission_run *run)
{
    world.waits_over++;
    world.real->wait_over(run);
}

static struct tg_axes axes_of(bool allowed)
{
    struct tg_axes axes = {.present = 1u << TG_AXIS_COST};

    axes.decision[TG_AXIS_COST] = allowed ? ALLOWED(10, 9, 0) : DENIED(10, 0, 2000, 1000);
    return axes;
}

static bool play_ask(struct admission_run *run, tg_ms now, enum tg_err *err, struct tg_axes *axes)
{
    (void)now;
    *err = admit_pending_keep(pending_of(run));
    assert_int_equal(*err, TG_OK);
    *axes = axes_of(true);
    world.questions += world.says_later;
    world.charges += !world.says_later;
    return !world.says_later;
}

static void play_settle(struct admission_run *run, tg_ms now, int64_t actual)
{
    (void)run;
    (void)now;
    assert_int_equal(world.charges, 1);
    world.charges--;
    world.settled++;
    world.actual = actual;
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

static void told(void *context, const struct admit_reply *reply)
{
    (void)context;
    world.told++;
    world.reply = *reply;
    /* What is told has left the struct: it may be used again at once. */
    if (reply->lease_bytes == 0)
        assert_true(world.pending == NULL || world.pending->state == ADMIT_SPARE);
}

static void open_world(void)
{
    struct tg_gate_config gate;
    struct tg_problem problem;

    memset(&world, 0, sizeof world);
    kit_open(&world.kit, "gate:\n"
                         "  concurrency: {law: fixed, initial: 1}\n"
                         "  queue: {wait: {high: 1h, normal: 1h, low: 0ms}}\n"
                         "  peers: {limit: 8}\n"
                         "  cost: {strategy: gcra, limit: 1000, period: 1s}\n");
    assert_true(kit_caller(&world.kit, "all", &world.caller));
    world.worker = &world.kit.workers[0];
    world.held = world.worker->generation->refs[0].n;
    tg_gate_config_init(&gate);
    gate.concurrency.on = gate.peers.on = true;
    gate.concurrency.law.law = TG_LAW_FIXED;
    gate.concurrency.law.min = gate.concurrency.law.initial = 1;
    gate.concurrency.wait[TG_PRIORITY_NORMAL] = 3600000;
    gate.remote_store = true;
    gate.wake = gateway_wake;
    world.own_gate = world.kit.gateway->gate;
    assert_int_equal(tg_gate_new(&gate, &world.kit.gateway->gate, &problem), TG_OK);
}

static void expect_nothing_held(void)
{
    struct tg_gate_stats stats = kit_stats(&world.kit);

    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.leases, 0);
    assert_int_equal(stats.peer_calls, 0);
    assert_int_equal(kit_queued(&world.kit), 0);
    assert_int_equal(world.questions, 0);
    assert_int_equal(world.charges, 0);
    assert_int_equal(admit_count_bound(world.kit.gateway), 0);
    assert_true(world.worker->generation->refs[0].n == world.held);
    assert_int_equal(world.pending->state, ADMIT_SPARE);
    assert_null(world.pending->generation);
    assert_false(world.pending->waiter.woken.queued);
}

static void close_world(void)
{
    expect_nothing_held();
    tg_gate_free(world.kit.gateway->gate);
    world.kit.gateway->gate = world.own_gate;
    kit_close(&world.kit);
}

static void occupy(void)
{
    struct tg_call other;
    struct tg_answer answer;

    tg_call_init(&other);
    other.lease_ttl = 86400000; /* longer than anybody waits */
    assert_int_equal(tg_gate_admit(world.kit.gateway->gate, &other, 0,
                                   worker_now(world.worker), &answer),
                     TG_OK);
    assert_true(answer.step == TG_DECIDED && answer.decision.allowed);
    world.other = answer.lease;
}

static void release(tg_lease lease)
{
    struct tg_release how;

    tg_release_init(&how);
    how.outcome = TG_OUTCOME_CANCELLED;
    assert_true(tg_gate_release(world.kit.gateway->gate, lease, worker_now(world.worker),
                                &how));
}

static void vacate(void)
{
    if (world.other != 0)
        release(world.other);
    world.other = 0;
}

/* Whoever has the id of the lease ends it, as admit_release() does. */
static void end_lease(void)
{
    struct admit_lease named;

    assert_true(admit_lease_read(world.kit.gateway, "all",
                                 (struct slice){world.reply.lease, world.reply.lease_bytes},
                                 &named));
    release(named.lease);
    if (named.is_bound)
        assert_ptr_equal(bound_leases_drop(&world.kit.gateway->admit->bound, named.lease).account,
                         world.state == ADMIT_ACCOUNT ? world.pending : NULL);
}

/* ---- events ---- */

static void step(enum admit_event_kind kind)
{
    const struct tg_axes axes = axes_of(true);
    struct admit_event event = {.kind = kind, .axes = &axes, .actual = 5};

    if (kind == ADMIT_STORE_ANSWER) {
        world.questions--;
        world.charges++;
    }
    world.state = admit_step(world.pending, &event);
}

/* A question in READY, whose store the test plays. */
static void open_question(uint64_t connection)
{
    const struct config_caller *entry;
    struct admit_reply reply;
    struct admit_ask ask;

    admit_ask_init(&ask);
    ask.connection = connection;
    ask.tenant = SLICE("team");
    world.pending = admit_pending_open(world.worker, &world.caller, &ask, &entry, &reply);
    assert_non_null(world.pending);
    world.pending->done = told;
    world.real = world.pending->run.ops;
    world.pending->run.ops = &played;
    world.state = ADMIT_READY;
}

/* The places where an event can find a question. */
enum place { AT_SPARE,
             AT_READY,
             AT_QUEUE,
             AT_STORE,
             AT_PEEK,
             AT_ACCOUNT,
             PLACES };

static void begin_at(enum place place)
{
    open_question(0);
    switch (place) {
    case AT_SPARE:
        world.says_later = true;
        step(ADMIT_START);
        step(ADMIT_CANCEL);
        break;
    case AT_READY:
        break;
    case AT_QUEUE:
        occupy();
        step(ADMIT_START);
        break;
    case AT_STORE:
        world.says_later = true;
        step(ADMIT_START);
        break;
    case AT_PEEK: /* the real store would be asked: there is none */
        assert_int_equal(admit_pending_keep(world.pending), TG_OK);
        world.pending->seen = (struct tg_answer){.decision = TG_ALLOW_FULL};
        world.pending->state = world.state = ADMIT_PEEKING;
        break;
    default:
        step(ADMIT_START);
        break;
    }
    world.says_later = false;
    world.told = 0;
}

/* To the end, by the way that is left. */
static void end_all(void)
{
    if (world.pending->state == ADMIT_READY)
        step(ADMIT_PEEK);
    else if (world.pending->state == ADMIT_RUNNING || world.pending->state == ADMIT_PEEKING)
        step(ADMIT_CANCEL);
    if (world.state == ADMIT_ACCOUNT) {
        end_lease();
        step(ADMIT_CLOSE);
    }
    vacate();
}

/* ---- the table ---- */

struct attempt {
    enum place place;
    enum admit_event_kind kind;
};

static void attempt_it(void *arg)
{
    const struct attempt *attempt = arg;

    begin_at(attempt->place);
    step(attempt->kind);
}

static void every_event_in_every_state(void **state)
{
    enum { DIES = -1,
           S = ADMIT_SPARE,
           R = ADMIT_RUNNING,
           A = ADMIT_ACCOUNT };
    static const int table[ADMIT_EVENT_COUNT][PLACES] = {
        /* columns: spare, ready, queue, store, peek, account */
        [ADMIT_START] = {DIES, A, DIES, DIES, DIES, DIES},
        [ADMIT_PEEK] = {DIES, S, DIES, DIES, DIES, DIES},
        [ADMIT_WAKE] = {DIES, DIES, R, DIES, DIES, DIES},
        [ADMIT_STORE_ANSWER] = {DIES, DIES, DIES, A, DIES, DIES},
        [ADMIT_PEEK_ANSWER] = {DIES, DIES, DIES, DIES, S, DIES},
        [ADMIT_CANCEL] = {DIES, DIES, S, S, S, DIES},
        [ADMIT_CLOSE] = {DIES, DIES, DIES, DIES, DIES, S},
    };

    (void)state;
    open_world();
    for (int place = 0; place < PLACES; place++)
        for (int kind = 0; kind < ADMIT_EVENT_COUNT; kind++) {
            struct attempt attempt = {(enum place)place, (enum admit_event_kind)kind};
            bool tells = kind != ADMIT_WAKE && kind != ADMIT_CANCEL && kind != ADMIT_CLOSE;

            if (table[kind][place] == DIES) {
                if (ASSERTS_ARE_ON && !dies(attempt_it, &attempt))
                    fail_msg("event %d at place %d did not assert", kind, place);
                continue;
            }
            begin_at(attempt.place);
            if (kind == ADMIT_CLOSE)
                end_lease();
            step(attempt.kind);
            if ((int)world.state != table[kind][place])
                fail_msg("event %d at place %d led to %d", kind, place, world.state);
            assert_int_equal(world.told, tells);
            end_all();
            expect_nothing_held();
        }
    close_world();
}

/* ---- what happens at one instant ---- */

static void slot_granted_at_a_cancel_is_given_back(void **state)
{
    (void)state;
    open_world();
    begin_at(AT_QUEUE);
    vacate(); /* granted, and the wake is posted */
    assert_true(world.pending->waiter.woken.queued);
    step(ADMIT_CANCEL);
    assert_int_equal(world.waits_over, 1);
    kit_turn(&world.kit); /* no wake reaches what is in the stock */
    assert_int_equal(world.told, 0);
    close_world();
}

static void timer_and_wake_at_one_instant_are_one_event(void **state)
{
    (void)state;
    open_world();
    begin_at(AT_QUEUE);
    vacate();
    world.pending->timer.fire(world.pending->timer.arg); /* the timer is first */
    assert_int_equal(world.pending->state, ADMIT_ACCOUNT);
    assert_false(world.pending->waiter.woken.queued);
    assert_int_equal(world.waits_over, 1);
    kit_turn(&world.kit);
    assert_int_equal(world.told, 1);
    world.state = ADMIT_ACCOUNT;
    end_all();
    close_world();
}

static void question_that_is_cancelled_at_the_store_is_withdrawn(void **state)
{
    (void)state;
    open_world();
    begin_at(AT_STORE);
    step(ADMIT_CANCEL);
    assert_int_equal(world.refunded, 1);
    assert_int_equal(world.settled, 0);
    assert_int_equal(world.told, 0);
    close_world();
}

/* Both the lease's end and its expiry close the account: whoever takes it out of the table does. */
static void account_is_closed_once(void **state)
{
    struct tg_release how;
    struct admit_reply error;
    bool found;

    (void)state;
    open_world();
    begin_at(AT_ACCOUNT);
    const struct slice lease = {world.reply.lease, world.reply.lease_bytes};
    tg_release_init(&how);
    how.actual = 3;
    assert_int_equal(admit_release(&world.kit.workers[1], &world.caller, lease, &how, &found,
                                   &error),
                     ADMIT_DECIDED);
    assert_true(found);
    assert_int_equal(world.settled, 0); /* by its own worker, whose loop has to turn */
    admit_tick(world.kit.gateway, worker_now(world.worker) + 86400000);
    kit_turn(&world.kit);
    assert_int_equal(world.settled, 1);
    assert_int_equal(world.actual, 3);
    kit_turn(&world.kit);
    assert_int_equal(world.settled, 1);
    close_world();
}

/* ---- ways through ---- */

static void store_that_says_no_or_nothing_leaves_nothing(void **state)
{
    const struct tg_axes no = axes_of(false);
    static const struct {
        enum tg_err err;
        enum admit_status status;
    } rows[] = {{TG_OK, ADMIT_DECIDED},
                {TG_ERR_STORE, ADMIT_UNAVAILABLE},
                {TG_ERR_FULL, ADMIT_UNAVAILABLE},
                {TG_ERR_MEMORY, ADMIT_INTERNAL}};

    (void)state;
    open_world();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin_at(AT_STORE);
        world.questions = 0;
        assert_int_equal(admit_step(world.pending,
                                    &(struct admit_event){.kind = ADMIT_STORE_ANSWER,
                                                          .err = rows[i].err,
                                                          .axes = &no}),
                         ADMIT_SPARE);
        assert_int_equal(world.told, 1);
        assert_int_equal(world.reply.status, rows[i].status);
        assert_false(world.reply.allowed);
        expect_nothing_held();
    }
    assert_int_equal(world.settled + world.refunded, 0);
    close_world();
}

static void wait_that_is_over_is_refused(void **state)
{
    (void)state;
    open_world();
    begin_at(AT_QUEUE);
    tg_gate_tick(world.kit.gateway->gate, worker_now(world.worker) + 3600000);
    step(ADMIT_WAKE);
    assert_int_equal(world.state, ADMIT_SPARE);
    assert_int_equal(world.told, 1);
    assert_int_equal(world.reply.reason, TG_REASON_CONCURRENCY);
    vacate();
    close_world();
}

static void question_that_cannot_wait_leaves_the_queue(void **state)
{
    (void)state;
    open_world();
    open_question(0);
    occupy();
    world.cannot_wait = true;
    step(ADMIT_START);
    assert_int_equal(world.state, ADMIT_SPARE);
    assert_int_equal(world.told, 1);
    assert_int_equal(world.reply.status, ADMIT_INTERNAL);
    vacate();
    close_world();
}

static void lease_without_a_charge_needs_no_account(void **state)
{
    (void)state;
    open_world();
    open_question(7);
    world.pending->question.call.debit.n_scopes = 0; /* the store is not asked */
    step(ADMIT_START);
    assert_int_equal(world.state, ADMIT_SPARE);
    assert_int_equal(admit_count_bound(world.kit.gateway), 1);
    admit_connection_closed(world.worker, 7);
    close_world();
}

/* Its lease ends with the process: what it was charged stays charged. */
static void account_ends_with_its_worker(void **state)
{
    (void)state;
    open_world();
    begin_at(AT_ACCOUNT);
    tg_gate_free(world.kit.gateway->gate);
    world.kit.gateway->gate = world.own_gate;
    kit_close(&world.kit);
    assert_int_equal(world.settled, 1);
    assert_int_equal(world.actual, -1);
    assert_int_equal(world.charges, 0);
}

/* ---- memory ---- */

static void heard(void *context, const struct admit_reply *reply)
{
    *(struct admit_reply *)context = *reply;
}

/* Two questions, of which one allocation fails: the first is admitted and bound to a connection,
 * the second waits for it. Nothing is kept for the next life. */
static long live_once(long nth)
{
    struct admit_reply first = {.status = ADMIT_INTERNAL}, second = {.status = ADMIT_INTERNAL};
    struct bound_leases *bound = &world.kit.gateway->admit->bound;
    struct worker *worker = world.worker;
    struct admit_pending *spare;
    struct admit_ask ask;

    admit_ask_init(&ask);
    ask.connection = 7;
    fail_at(nth);
    assert_null(admit_start(worker, &world.caller, &ask, heard, &first));
    admit_start(worker, &world.caller, &ask, heard, &second);
    until_failure = -1;
    admit_connection_closed(worker, 7);
    kit_turn(&world.kit);
    admit_connection_closed(worker, 7);
    assert_int_equal(kit_stats(&world.kit).in_flight, 0);
    assert_int_equal(kit_stats(&world.kit).leases, 0);
    assert_int_equal(kit_queued(&world.kit), 0);
    assert_int_equal(admit_count_bound(world.kit.gateway), 0);
    assert_true(worker->generation->refs[0].n == world.held);
    while ((spare = LIST_FIRST(&worker->admit->spare)) != NULL) {
        LIST_REMOVE(spare, list);
        free(spare);
    }
    bound_leases_fini(bound);
    memset(bound, 0, sizeof *bound);
    bound_leases_init(bound);
    return (first.status != ADMIT_DECIDED) + (second.status != ADMIT_DECIDED);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    need_allocator();
    memset(&world, 0, sizeof world);
    kit_open(&world.kit, "gate:\n"
                         "  concurrency: {law: fixed, initial: 1}\n"
                         "  queue: {wait: {high: 1h, normal: 1h, low: 0ms}}\n");
    assert_true(kit_caller(&world.kit, "all", &world.caller));
    world.worker = &world.kit.workers[0];
    world.held = world.worker->generation->refs[0].n;
    live_once(-1); /* what the gate keeps, and the counts of errors, are there */
    live_once(0);
    expect_survival(live_once, false, 3, 1);
    expect_survival(live_once, true, 3, 1);
    keeps_failing = false;
    kit_close(&world.kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_in_every_state),
        cmocka_unit_test(slot_granted_at_a_cancel_is_given_back),
        cmocka_unit_test(timer_and_wake_at_one_instant_are_one_event),
        cmocka_unit_test(question_that_is_cancelled_at_the_store_is_withdrawn),
        cmocka_unit_test(account_is_closed_once),
        cmocka_unit_test(store_that_says_no_or_nothing_leaves_nothing),
        cmocka_unit_test(wait_that_is_over_is_refused),
        cmocka_unit_test(question_that_cannot_wait_leaves_the_queue),
        cmocka_unit_test(lease_without_a_charge_needs_no_account),
        cmocka_unit_test(account_ends_with_its_worker),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
