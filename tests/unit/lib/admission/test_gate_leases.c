/* test_gate_leases.c - what an admitted call owes.
 *
 * How a lease ends, what each end tells the law and the limits, and that what has ended is gone.
 */
#include <math.h>

#include "gate_kit.h"

#define NOW 1000
#define STORE_BYTES ((size_t)256 * 1024)

/* The last sample that the law got; 0: none. */
static double last_sample(struct tg_gate *gate)
{
    return stats_of_gate(gate).last_ms;
}

static void releasing_twice_is_releasing_once(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 2);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_from(TG_PRIORITY_NORMAL, "peer");
    (void)state;

    call.peer_limit = 2;
    tg_lease first = must_allow(gate, &call, NOW), second = must_allow(gate, &call, NOW);
    assert_int_not_equal(first, second);
    assert_true(finish(gate, first, NOW));
    for (int i = 0; i < 10; i++) {
        assert_false(finish(gate, first, NOW));
        assert_false(finish_as(gate, first, NOW, TG_OUTCOME_CANCELLED));
        assert_false(finish_as(gate, first, NOW, TG_OUTCOME_DROPPED));
    }
    assert_int_equal(stats_of_gate(gate).in_flight, 1);
    assert_int_equal(stats_of_gate(gate).peer_calls, 1);
    assert_false(tg_gate_renew(gate, first, NOW, 0));
    assert_true(finish(gate, second, NOW));
    expect_idle(gate);
    tg_gate_free(gate);
}

static void what_is_no_lease_finds_nothing(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 2);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    struct tg_axes axes = {.present = 0};
    struct tg_answer answer;
    tg_lease lease = must_allow(gate, &call, NOW);
    const tg_lease strange[] = {0, 1, UINT64_MAX, lease + 1,
                                lease - 1, lease << 1, lease ^ (1ull << 63), UINT32_MAX};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(strange); i++) {
        assert_false(finish(gate, strange[i], NOW));
        assert_false(tg_gate_renew(gate, strange[i], NOW, 5));
        assert_int_equal(tg_gate_resume(gate, strange[i], &call, NOW, &answer), TG_ERR_STALE);
        assert_int_equal(tg_gate_store_answered(gate, strange[i], TG_OK, &axes, NOW, &answer),
                         TG_ERR_STALE);
        if (strange[i] != 0)
            assert_int_equal(tg_gate_admit(gate, &call, strange[i], NOW, &answer), TG_ERR_STALE);
    }
    assert_int_equal(stats_of_gate(gate).in_flight, 1);
    /* A lease is at no other step than it is. */
    assert_int_equal(tg_gate_resume(gate, lease, &call, NOW, &answer), TG_ERR_STALE);
    assert_int_equal(tg_gate_admit(gate, &call, lease, NOW, &answer), TG_ERR_STALE);
    assert_int_equal(tg_gate_store_answered(gate, lease, TG_OK, &axes, NOW, &answer), TG_ERR_STALE);
    assert_true(finish(gate, lease, NOW));
    tg_gate_free(gate);
}

/* A call that is wrong in itself says nothing against a lease that runs. */
static void an_invalid_call_ends_no_running_lease(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 2);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL), bad = call;
    struct tg_answer answer;
    tg_lease lease = must_allow(gate, &call, NOW);
    (void)state;

    bad.weight = -1;
    assert_int_not_equal(tg_gate_resume(gate, lease, &bad, NOW, &answer), TG_OK);
    assert_int_not_equal(tg_gate_admit(gate, &bad, lease, NOW, &answer), TG_OK);
    assert_int_equal(stats_of_gate(gate).in_flight, 1);
    assert_true(finish(gate, lease, NOW));
    tg_gate_free(gate);
}

static void an_id_is_never_used_twice(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    static tg_lease ended[1000];
    (void)state;

    for (int i = 0; i < 1000; i++) {
        ended[i] = must_allow(gate, &call, NOW);
        assert_true(finish(gate, ended[i], NOW));
    }
    tg_lease live = must_allow(gate, &call, NOW);
    for (int i = 0; i < 1000; i++) {
        assert_int_not_equal(ended[i], live);
        assert_false(finish(gate, ended[i], NOW));
        assert_false(tg_gate_renew(gate, ended[i], NOW, 1));
    }
    assert_int_equal(stats_of_gate(gate).in_flight, 1);
    assert_true(finish(gate, live, NOW));
    tg_gate_free(gate);
}

/* ---- outcomes and samples ---- */

static void each_end_says_what_it_knows_to_the_law(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_of(TG_PRIORITY_HIGH);
    (void)state;

    tg_lease lease = must_allow(gate, &call, NOW);
    assert_true(finish(gate, lease, NOW + 40));
    assert_true(last_sample(gate) == 40);
    lease = must_allow(gate, &call, NOW + 100);
    assert_true(finish_as(gate, lease, NOW + 190, TG_OUTCOME_CANCELLED));
    assert_true(last_sample(gate) == 40);
    lease = must_allow(gate, &call, NOW + 200);
    assert_true(finish_as(gate, lease, NOW + 270, TG_OUTCOME_DROPPED));
    assert_true(last_sample(gate) == 70);
    lease = must_allow(gate, &call, NOW + 300);
    assert_true(finish_sampled(gate, lease, NOW + 400, 12));
    assert_true(last_sample(gate) == 12);
    lease = must_allow(gate, &call, NOW + 500);
    assert_true(finish_sampled(gate, lease, NOW + 533, (double)NAN));
    assert_true(last_sample(gate) == 12 || last_sample(gate) == 33);
    tg_gate_free(gate);
}

/* The time since admission is since the slot was got, not since the call began to wait. */
/* A release that was not initialized: a sample of 0 is none, and any other is one. */
static void a_sample_of_zero_is_none_if_nobody_has_initialized_it(void **state)
{
    static const double samples[] = {0.25, 1, 7.5};
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    struct tg_gate *gate = must_gate(&config);
    struct tg_release zeros = {.outcome = TG_OUTCOME_OK};
    (void)state;

    assert_true(tg_gate_release(gate, must_allow(gate, &call, NOW), NOW + 20, &zeros));
    assert_true(stats_of_gate(gate).last_ms == 20); /* the time that it had its slot */
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        zeros.sample_ms = samples[i];
        assert_true(tg_gate_release(gate, must_allow(gate, &call, NOW + 20), NOW + 40, &zeros));
        assert_true(stats_of_gate(gate).last_ms == samples[i]);
    }
    tg_gate_free(gate);
}

static void waiting_is_no_part_of_the_sample(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_of(TG_PRIORITY_HIGH);
    (void)state;

    tg_lease running = must_allow(gate, &call, NOW), waiting = must_queue(gate, &call, NOW);
    assert_true(finish_as(gate, running, NOW + 90, TG_OUTCOME_CANCELLED));
    assert_true(must_resume(gate, waiting, &call, NOW + 90).decision.allowed);
    assert_true(finish(gate, waiting, NOW + 103));
    assert_true(last_sample(gate) == 13);
    tg_gate_free(gate);
}

static void a_drop_contracts_the_law_and_a_cancelled_call_does_not(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 100);
    struct tg_call call = call_of(TG_PRIORITY_HIGH);
    (void)state;

    config.concurrency.law.law = TG_LAW_AIMD;
    struct tg_gate *gate = must_gate(&config);
    tg_lease lease = must_allow(gate, &call, NOW);
    assert_true(finish_as(gate, lease, NOW + 5, TG_OUTCOME_CANCELLED));
    assert_int_equal(stats_of_gate(gate).limit, 100);
    lease = must_allow(gate, &call, NOW + 10);
    assert_true(finish_as(gate, lease, NOW + 15, TG_OUTCOME_DROPPED));
    assert_int_equal(stats_of_gate(gate).limit, 90);
    tg_gate_free(gate);
}

/* ---- time ---- */

/* A limit grows if half of it was in use when the call began, however few are left when it ends. */
static void the_law_is_told_how_many_ran_when_a_call_began(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 10);
    struct tg_call call = call_of(TG_PRIORITY_HIGH);
    tg_lease leases[5];
    (void)state;

    config.concurrency.law.law = TG_LAW_AIMD;
    config.concurrency.law.max = 20;
    struct tg_gate *gate = must_gate(&config);
    for (int i = 0; i < 5; i++)
        leases[i] = must_allow(gate, &call, NOW);
    for (int i = 0; i < 4; i++)
        assert_true(finish(gate, leases[i], NOW + 5));
    assert_int_equal(stats_of_gate(gate).limit, 10);
    assert_true(finish(gate, leases[4], NOW + 5)); /* it was the fifth of ten */
    assert_int_equal(stats_of_gate(gate).limit, 11);
    tg_gate_free(gate);
}

static void expiry_frees_the_slot_and_leaves_no_sample(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_from(TG_PRIORITY_NORMAL, "peer");
    (void)state;

    config.lease_ttl = 500;
    config.peers.on = true;
    struct tg_gate *gate = must_gate(&config);
    struct tg_answer answer = must_admit(gate, &call, NOW);
    assert_int_equal(answer.deadline, NOW + 500);
    assert_int_equal(tg_gate_next_deadline(gate), NOW + 500);
    tg_gate_tick(gate, NOW + 499);
    assert_int_equal(stats_of_gate(gate).in_flight, 1);
    tg_gate_tick(gate, NOW + 500);
    expect_idle(gate);
    assert_int_equal(stats_of_gate(gate).expired, 1);
    assert_false(finish(gate, answer.lease, NOW + 500));
    assert_false(tg_gate_renew(gate, answer.lease, NOW + 500, 0));
    assert_true(last_sample(gate) == 0);
    tg_gate_free(gate);
}

static void expiry_hands_the_slot_to_who_waits(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_waiting(TG_PRIORITY_HIGH, 5);
    (void)state;

    config.lease_ttl = 60;
    struct tg_gate *gate = must_gate(&config);
    must_allow(gate, &call, NOW);
    tg_lease waiting = must_queue(gate, &call, NOW);
    tg_gate_tick(gate, NOW + 60);
    assert_int_equal(next_woken(&log), 5);
    assert_true(must_resume(gate, waiting, &call, NOW + 60).decision.allowed);
    tg_gate_free(gate);
}

/* A tick that comes late lets things happen in their order: at 60 the slot is free, at 100 the
 * wait of the second would have been over. */
static void a_late_tick_keeps_the_order(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call first = call_waiting(TG_PRIORITY_HIGH, 1);
    struct tg_call second = call_waiting(TG_PRIORITY_NORMAL, 2);
    (void)state;

    config.lease_ttl = 60;
    struct tg_gate *gate = must_gate(&config);
    must_allow(gate, &first, NOW);
    tg_lease high = must_queue(gate, &first, NOW), normal = must_queue(gate, &second, NOW);
    tg_gate_tick(gate, NOW + 500);
    assert_int_equal(log.n_woken, 2);
    assert_true(must_resume(gate, high, &first, NOW + 500).decision.allowed);
    assert_int_equal(must_resume(gate, normal, &second, NOW + 500).reason, TG_REASON_CONCURRENCY);
    tg_gate_free(gate);
}

static void a_lease_lives_as_long_as_it_is_renewed(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    config.lease_ttl = 100;
    struct tg_gate *gate = must_gate(&config);
    tg_lease lease = must_allow(gate, &call, NOW);
    for (int i = 1; i <= 20; i++) {
        tg_gate_tick(gate, NOW + 90 * i);
        assert_true(tg_gate_renew(gate, lease, NOW + 90 * i, 0));
    }
    assert_true(tg_gate_renew(gate, lease, NOW + 1800, 30)); /* shorter, too */
    tg_gate_tick(gate, NOW + 1829);
    assert_int_equal(stats_of_gate(gate).in_flight, 1);
    tg_gate_tick(gate, NOW + 1830);
    expect_idle(gate);
    assert_false(tg_gate_renew(gate, lease, NOW + 1830, 0));
    tg_gate_free(gate);
}

static void a_call_may_have_a_ttl_of_its_own(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 5);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call shorter = call_of(TG_PRIORITY_NORMAL), usual = shorter, longest = shorter;
    (void)state;

    shorter.lease_ttl = 7;
    longest.lease_ttl = TG_NUMBER_MAX;
    assert_int_equal(must_admit(gate, &shorter, NOW).deadline, NOW + 7);
    assert_int_equal(must_admit(gate, &usual, NOW).deadline, NOW + 600000);
    assert_int_equal(must_admit(gate, &longest, NOW).deadline, TG_NUMBER_MAX);
    tg_gate_tick(gate, NOW + 7);
    assert_int_equal(stats_of_gate(gate).in_flight, 2);
    tg_gate_tick(gate, NOW + 600000);
    assert_int_equal(stats_of_gate(gate).in_flight, 1);
    tg_gate_free(gate);
}

/* ---- what a lease is minted for ---- */

static void a_lease_is_minted_only_where_something_is_owed(void **state)
{
    static const struct {
        const char *what;
        bool memory, peer, slots, rate, cost, lease;
    } rows[] = {
        {"nothing", 0, 0, 0, 0, 0, false},
        {"memory", 1, 0, 0, 0, 0, false},
        {"peer", 0, 1, 0, 0, 0, true},
        {"slot", 0, 0, 1, 0, 0, true},
        {"rate", 0, 0, 0, 1, 0, false},
        {"memory and rate", 1, 0, 0, 1, 0, false},
        {"cost", 0, 0, 0, 0, 1, true},
        {"rate and cost", 0, 0, 0, 1, 1, true},
        {"rate and slot", 0, 0, 1, 1, 0, true},
        {"all", 1, 1, 1, 1, 1, true},
    };
    struct gate_log log = {.n_woken = 0};
    struct tg_store *store = must_store(STORE_BYTES, 1);
    tg_limits rate = must_define_one(store, TG_AXIS_RATE, "gcra:limit=100,period=1000");
    tg_limits cost = must_define_one(store, TG_AXIS_COST, "gcra:limit=100,period=1000");
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tg_gate_config config = gate_config_slots(&log, 5);
        struct tg_call call = call_from(TG_PRIORITY_NORMAL, rows[i].peer ? "peer" : NULL);
        struct tg_scope scopes[] = {scope_of(rows[i].rate ? rate : cost, "key"),
                                    scope_of(cost, "key")};
        config.memory.on = rows[i].memory;
        config.peers.on = true;
        config.concurrency.on = rows[i].slots;
        config.store = store;
        call.debit = (struct tg_debit){.scopes = scopes,
                                       .n_scopes = (size_t)rows[i].rate + rows[i].cost,
                                       .cost = 1};
        struct tg_gate *gate = must_gate(&config);
        tg_lease lease = must_allow(gate, &call, NOW);
        if ((lease != 0) != rows[i].lease)
            fail_msg("%s: a lease: %s", rows[i].what, lease != 0 ? "yes" : "no");
        assert_int_equal(stats_of_gate(gate).leases, rows[i].lease);
        assert_int_equal(finish(gate, lease, NOW), rows[i].lease);
        expect_idle(gate);
        tg_gate_free(gate);
    }
    tg_store_free(store);
}

/* ---- settlement ---- */

struct settling {
    struct gate_log log;
    struct tg_store *store;
    tg_limits set;
    struct tg_scope scope;
    struct tg_gate *gate;
    struct tg_call call;
};

static void settling_open(struct settling *s, const char *spec, int64_t cost)
{
    *s = (struct settling){.store = must_store(STORE_BYTES, 1)};
    s->set = must_define_one(s->store, TG_AXIS_COST, spec);
    s->scope = scope_of(s->set, "key");
    struct tg_gate_config config = gate_config_slots(&s->log, 5);
    config.store = s->store;
    config.lease_ttl = 500;
    s->gate = must_gate(&config);
    s->call = call_of(TG_PRIORITY_NORMAL);
    s->call.debit = debit_of(&s->scope, cost);
    s->call.factor = (struct tg_factor){1, 1, 1}; /* it is charged what it asks for */
}

static int64_t settling_left(struct settling *s, tg_ms now)
{
    return must_peek(s->store, s->set, "key", 0, now).remaining;
}

static void settling_close(struct settling *s)
{
    expect_idle(s->gate);
    tg_gate_free(s->gate);
    tg_store_free(s->store);
}

/* What is given back, or owed, belongs to the window it was charged in, not to that of the end. */
static void a_lease_that_ends_late_changes_only_the_window_it_was_charged_in(void **state)
{
    struct settling s;
    (void)state;

    settling_open(&s, "fixed_window:limit=100,window=1000", 30);
    tg_lease refused = must_allow(s.gate, &s.call, NOW + 900);
    tg_lease settled = must_allow(s.gate, &s.call, NOW + 900);
    tg_lease here = must_allow(s.gate, &s.call, NOW + 1100);
    assert_int_equal(settling_left(&s, NOW + 1100), 70);
    assert_true(finish_as(s.gate, refused, NOW + 1150, TG_OUTCOME_REFUSED));
    assert_int_equal(settling_left(&s, NOW + 1150), 70);
    assert_true(finish_settled(s.gate, settled, NOW + 1150, 0));
    assert_int_equal(settling_left(&s, NOW + 1150), 70);
    assert_true(finish_settled(s.gate, here, NOW + 1900, 50));
    assert_int_equal(settling_left(&s, NOW + 1900), 50);
    settling_close(&s);
}

static void settlement_replaces_the_estimate_once(void **state)
{
    static const struct {
        int64_t actual, left;
    } rows[] = {
        {30, 70},
        {0, 100},
        {10, 90},
        {31, 69},
        {100, 0},
        {250, 0},
        {INT64_MAX, 0},
        {-1, 70},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct settling s;
        settling_open(&s, "fixed_window:limit=100,window=1000000", 30);
        tg_lease lease = must_allow(s.gate, &s.call, NOW);
        assert_int_equal(settling_left(&s, NOW), 70);
        assert_true(finish_settled(s.gate, lease, NOW + 1, rows[i].actual));
        assert_int_equal(settling_left(&s, NOW + 1), rows[i].left);
        assert_false(finish_settled(s.gate, lease, NOW + 1, 0)); /* once */
        assert_int_equal(settling_left(&s, NOW + 1), rows[i].left);
        settling_close(&s);
    }
}

/* 10 units a second, 100 at most: 250 used of an estimate of 30 is a debt of 150 on top. */
static void more_than_estimated_is_owed(void **state)
{
    struct settling s;
    (void)state;

    settling_open(&s, "token_bucket:capacity=100,refill=10", 30);
    tg_lease lease = must_allow(s.gate, &s.call, NOW);
    assert_true(finish_settled(s.gate, lease, NOW, 250));
    assert_int_equal(settling_left(&s, NOW + 15000), 0);
    must_refuse(s.gate, &s.call, NOW + 15000, TG_REASON_COST);
    assert_int_equal(settling_left(&s, NOW + 18000), 30);
    lease = must_allow(s.gate, &s.call, NOW + 18000);
    assert_true(finish_as(s.gate, lease, NOW + 18000, TG_OUTCOME_CANCELLED));
    settling_close(&s);
}

/* A cancelled call has cost what it has cost; of a dropped one, too, that is for the owner to
 * say. */
static void every_outcome_can_be_settled(void **state)
{
    static const enum tg_outcome outcomes[] = {TG_OUTCOME_OK, TG_OUTCOME_DROPPED,
                                               TG_OUTCOME_CANCELLED};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(outcomes); i++) {
        struct settling s;
        struct tg_release release;
        settling_open(&s, "fixed_window:limit=100,window=1000000", 30);
        tg_release_init(&release);
        release.outcome = outcomes[i];
        release.actual = 5;
        tg_lease lease = must_allow(s.gate, &s.call, NOW);
        assert_true(tg_gate_release(s.gate, lease, NOW, &release));
        assert_int_equal(settling_left(&s, NOW), 95);
        settling_close(&s);
    }
}

/* The stages after the gate are its owner's; what they refuse has not been made. */
static void what_a_later_stage_refuses_is_given_back_whole(void **state)
{
    static const enum tg_charging charging[] = {TG_CHARGE_ATOMIC, TG_CHARGE_PER_AXIS};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(charging); i++) {
        struct gate_log log = {.n_woken = 0};
        struct tg_gate_config config = gate_config_slots(&log, 1);
        struct tg_store *store = must_store(STORE_BYTES, 1);
        tg_limits rate = must_define_one(store, TG_AXIS_RATE, "fixed_window:limit=4,window=100000");
        tg_limits cost = must_define_one(store, TG_AXIS_COST, "gcra:limit=100,period=100000");
        struct tg_scope scopes[] = {scope_of(rate, "key"), scope_of(cost, "key")};
        struct tg_call call = call_of(TG_PRIORITY_HIGH);

        config.store = store;
        struct tg_gate *gate = must_gate(&config);
        call.debit = (struct tg_debit){
            .scopes = scopes, .n_scopes = 2, .cost = 30, .charging = charging[i]};
        assert_true(finish(gate, must_allow(gate, &call, NOW), NOW + 40)); /* a sample of 40 */
        tg_lease lease = must_allow(gate, &call, NOW + 50);
        /* What is left after one more: */
        assert_int_equal(must_peek(store, rate, "key", 0, NOW + 50).remaining, 1);
        assert_true(finish_as(gate, lease, NOW + 50, TG_OUTCOME_REFUSED));
        assert_false(finish_as(gate, lease, NOW + 50, TG_OUTCOME_REFUSED));
        assert_int_equal(must_peek(store, rate, "key", 0, NOW + 50).remaining, 2);
        assert_int_equal(must_peek(store, cost, "key", 0, NOW + 50).remaining, 70);
        assert_true(last_sample(gate) == 40);
        expect_idle(gate);
        tg_gate_free(gate);
        tg_store_free(store);
    }
}

static void expiry_lets_the_estimate_stand(void **state)
{
    struct settling s;
    (void)state;

    settling_open(&s, "fixed_window:limit=100,window=1000000", 30);
    tg_lease lease = must_allow(s.gate, &s.call, NOW);
    tg_gate_tick(s.gate, NOW + 500);
    assert_false(finish_settled(s.gate, lease, NOW + 500, 0));
    assert_int_equal(settling_left(&s, NOW + 500), 70);
    settling_close(&s);
}

/* The caller's memory may be gone and its keys forgotten: the lease knows what it was charged. */
static void a_lease_needs_nothing_of_the_call(void **state)
{
    struct settling s;
    char key[] = "key";
    (void)state;

    settling_open(&s, "fixed_window:limit=100,window=1000000", 30);
    s.scope.key = key;
    tg_lease lease = must_allow(s.gate, &s.call, NOW);
    key[0] = 'x';
    s.scope.limits = 0;
    s.call.debit.cost = 1;
    assert_true(finish_settled(s.gate, lease, NOW, 20));
    assert_int_equal(settling_left(&s, NOW), 80);
    settling_close(&s);
}

/* Whoever gets the slot finds the units that were given back. */
static void settlement_comes_before_the_hand_over(void **state)
{
    struct settling s;
    (void)state;

    settling_open(&s, "fixed_window:limit=100,window=1000000", 100);
    struct tg_gate_config config = gate_config_slots(&s.log, 1);
    config.store = s.store;
    must_reconfigure(s.gate, &config, NOW);
    tg_lease running = must_allow(s.gate, &s.call, NOW), next = must_queue(s.gate, &s.call, NOW);
    assert_true(finish_settled(s.gate, running, NOW, 0));
    assert_true(must_resume(s.gate, next, &s.call, NOW).decision.allowed);
    assert_true(finish(s.gate, next, NOW));
    settling_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(releasing_twice_is_releasing_once),
        cmocka_unit_test(what_is_no_lease_finds_nothing),
        cmocka_unit_test(an_invalid_call_ends_no_running_lease),
        cmocka_unit_test(an_id_is_never_used_twice),
        cmocka_unit_test(each_end_says_what_it_knows_to_the_law),
        cmocka_unit_test(a_sample_of_zero_is_none_if_nobody_has_initialized_it),
        cmocka_unit_test(waiting_is_no_part_of_the_sample),
        cmocka_unit_test(a_drop_contracts_the_law_and_a_cancelled_call_does_not),
        cmocka_unit_test(the_law_is_told_how_many_ran_when_a_call_began),
        cmocka_unit_test(expiry_frees_the_slot_and_leaves_no_sample),
        cmocka_unit_test(expiry_hands_the_slot_to_who_waits),
        cmocka_unit_test(a_late_tick_keeps_the_order),
        cmocka_unit_test(a_lease_lives_as_long_as_it_is_renewed),
        cmocka_unit_test(a_call_may_have_a_ttl_of_its_own),
        cmocka_unit_test(a_lease_is_minted_only_where_something_is_owed),
        cmocka_unit_test(a_lease_that_ends_late_changes_only_the_window_it_was_charged_in),
        cmocka_unit_test(settlement_replaces_the_estimate_once),
        cmocka_unit_test(more_than_estimated_is_owed),
        cmocka_unit_test(every_outcome_can_be_settled),
        cmocka_unit_test(what_a_later_stage_refuses_is_given_back_whole),
        cmocka_unit_test(expiry_lets_the_estimate_stand),
        cmocka_unit_test(a_lease_needs_nothing_of_the_call),
        cmocka_unit_test(settlement_comes_before_the_hand_over),
    };
    return cmocka_run_group_tests_name("gate_leases", tests, NULL, NULL);
}
