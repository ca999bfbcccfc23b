/* test_gate_peers.c - how many calls of one party at once.
 *
 * Whom it counts, from when to when, and that the table of peers is bounded and shrinks.
 */
#include <stdio.h>

#include "gate_kit.h"
#include "lib/admission/gate.h"

#define NOW 1000

static struct tg_gate_config peers_config(struct gate_log *log, int64_t limit)
{
    struct tg_gate_config config = gate_config(log);

    config.peers.on = true;
    config.peers.limit = limit;
    return config;
}

static void the_fourth_of_three_is_refused_while_another_passes(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = peers_config(&log, 3);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call a = call_from(TG_PRIORITY_NORMAL, "a"), b = call_from(TG_PRIORITY_LOW, "b");
    tg_lease leases[4];
    (void)state;

    assert_int_equal(fill_gate(gate, &a, NOW, leases, 4), 3);
    struct tg_answer answer = must_refuse(gate, &a, NOW, TG_REASON_PEER_LIMIT);
    expect_decision("peer", answer.decision, DENIED(3, 0, NOW, 100));
    must_allow(gate, &b, NOW);
    assert_true(finish(gate, leases[1], NOW));
    assert_int_equal(fill_gate(gate, &a, NOW, NULL, 4), 1);
    assert_int_equal(stats_of_gate(gate).peers, 2);
    assert_int_equal(stats_of_gate(gate).peer_calls, 4);
    tg_gate_free(gate);
}

/* "ab" with 1 byte is "a"; bytes that are no text are a name too. */
static void a_peer_is_its_bytes(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = peers_config(&log, 1);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call a = call_from(TG_PRIORITY_NORMAL, "a"), ab = call_from(TG_PRIORITY_NORMAL, "ab");
    struct tg_call zero = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    must_allow(gate, &a, NOW);
    must_allow(gate, &ab, NOW);
    ab.peer_bytes = 1;
    must_refuse(gate, &ab, NOW, TG_REASON_PEER_LIMIT);
    zero.peer = "\0\0";
    zero.peer_bytes = 1;
    must_allow(gate, &zero, NOW);
    zero.peer_bytes = 2;
    must_allow(gate, &zero, NOW);
    must_refuse(gate, &zero, NOW, TG_REASON_PEER_LIMIT);
    tg_gate_free(gate);
}

static void waiting_calls_count(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call a = call_from(TG_PRIORITY_HIGH, "a");
    (void)state;

    config.peers.on = true;
    config.peers.limit = 3;
    struct tg_gate *gate = must_gate(&config);
    tg_lease running = must_allow(gate, &a, NOW);
    tg_lease first = must_queue(gate, &a, NOW), second = must_queue(gate, &a, NOW);
    must_refuse(gate, &a, NOW, TG_REASON_PEER_LIMIT);
    assert_int_equal(stats_of_gate(gate).peer_calls, 3);
    assert_true(finish_as(gate, second, NOW, TG_OUTCOME_CANCELLED));
    second = must_queue(gate, &a, NOW);
    /* One that is handed its slot goes on being counted, once. */
    assert_true(finish(gate, running, NOW));
    assert_int_equal(stats_of_gate(gate).peer_calls, 2);
    assert_true(must_resume(gate, first, &a, NOW).decision.allowed);
    assert_int_equal(stats_of_gate(gate).peer_calls, 2);
    /* One whose wait is over is not. */
    assert_int_equal(must_resume(gate, second, &a, NOW + 100).reason, TG_REASON_CONCURRENCY);
    assert_int_equal(stats_of_gate(gate).peer_calls, 1);
    assert_true(finish(gate, first, NOW + 100));
    expect_idle(gate);
    tg_gate_free(gate);
}

static void a_call_without_a_peer_is_not_counted(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = peers_config(&log, 1);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    call.peer_limit = 1;
    for (int i = 0; i < 100; i++)
        assert_int_equal(must_allow(gate, &call, NOW), 0);
    assert_int_equal(stats_of_gate(gate).peer_calls, 0);
    tg_gate_free(gate);
}

static void a_calls_own_limit_goes_before_the_gates(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = peers_config(&log, 3);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call less = call_from(TG_PRIORITY_NORMAL, "less");
    struct tg_call more = call_from(TG_PRIORITY_NORMAL, "more");
    (void)state;

    less.peer_limit = 2;
    more.peer_limit = 5;
    assert_int_equal(fill_gate(gate, &less, NOW, NULL, 10), 2);
    assert_int_equal(fill_gate(gate, &more, NOW, NULL, 10), 5);
    tg_gate_free(gate);
}

static void a_calls_own_limit_counts_where_peers_are_off(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config(&log);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call limited = call_from(TG_PRIORITY_NORMAL, "a");
    struct tg_call free_of_it = call_from(TG_PRIORITY_NORMAL, "b");
    tg_lease leases[2];
    (void)state;

    limited.peer_limit = 2;
    assert_int_equal(fill_gate(gate, &limited, NOW, leases, 2), 2);
    must_refuse(gate, &limited, NOW, TG_REASON_PEER_LIMIT);
    assert_int_equal(fill_gate(gate, &free_of_it, NOW, NULL, 50), 50);
    assert_true(finish(gate, leases[0], NOW));
    assert_true(finish(gate, leases[1], NOW));
    expect_idle(gate);
    tg_gate_free(gate);
}

static void a_peer_limit_above_the_concurrency_limit_is_accepted(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 4);
    struct tg_call call = call_from(TG_PRIORITY_LOW, "a");
    (void)state;

    config.peers.on = true;
    config.peers.limit = 1000;
    config.concurrency.low_ratio = 1;
    struct tg_gate *gate = must_gate(&config);
    assert_int_equal(fill_gate(gate, &call, NOW, NULL, 10), 4);
    must_refuse(gate, &call, NOW, TG_REASON_CONCURRENCY);
    tg_gate_free(gate);
}

static struct tg_call numbered_peer(char (*name)[24], int number)
{
    snprintf(*name, sizeof *name, "peer-%d", number);
    return call_from(TG_PRIORITY_NORMAL, *name);
}

static void peers_beyond_the_bound_share_one_limit(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = peers_config(&log, 2);
    tg_lease leases[8];
    char name[24];
    (void)state;

    config.peers.max_peers = 4;
    struct tg_gate *gate = must_gate(&config);
    for (int i = 0; i < 6; i++) {
        struct tg_call call = numbered_peer(&name, i);
        leases[i] = must_allow(gate, &call, NOW);
    }
    /* Numbers 4 and 5 have taken the two places of all who came too late. */
    for (int i = 4; i < 50; i++) {
        struct tg_call call = numbered_peer(&name, i);
        must_refuse(gate, &call, NOW, TG_REASON_PEER_LIMIT);
    }
    struct tg_call known = numbered_peer(&name, 3);
    leases[6] = must_allow(gate, &known, NOW);
    assert_true(stats_of_gate(gate).peers <= 5);
    assert_int_equal(stats_of_gate(gate).peer_calls, 7);
    /* A place that becomes free is for the next, whoever it is. */
    assert_true(finish(gate, leases[0], NOW));
    struct tg_call late = numbered_peer(&name, 40);
    leases[7] = must_allow(gate, &late, NOW);
    leases[0] = must_allow(gate, &late, NOW);
    must_refuse(gate, &late, NOW, TG_REASON_PEER_LIMIT);
    for (int i = 0; i < 8; i++)
        assert_true(finish(gate, leases[i], NOW));
    expect_idle(gate);
    tg_gate_free(gate);
}

/* Who came while the table was full and left when it no longer was is taken from where he was
 * counted. */
static void the_count_goes_back_to_where_it_was_taken(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = peers_config(&log, 1);
    struct tg_call a = call_from(TG_PRIORITY_NORMAL, "a"), b = call_from(TG_PRIORITY_NORMAL, "b");
    (void)state;

    config.peers.max_peers = 1;
    struct tg_gate *gate = must_gate(&config);
    tg_lease first = must_allow(gate, &a, NOW), among_others = must_allow(gate, &b, NOW);
    assert_true(finish(gate, first, NOW));
    assert_true(finish(gate, among_others, NOW));
    expect_idle(gate);
    first = must_allow(gate, &b, NOW);
    assert_true(finish(gate, first, NOW));
    expect_idle(gate);
    tg_gate_free(gate);
}

static void a_flood_of_names_leaves_nothing_behind(void **state)
{
    enum { PEERS = 5000 };
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = peers_config(&log, 1);
    struct tg_gate *gate = must_gate(&config);
    static tg_lease leases[PEERS];
    char name[24];
    (void)state;

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PEERS; i++) {
            struct tg_call call = numbered_peer(&name, i + round * 3000);
            leases[i] = must_allow(gate, &call, NOW);
        }
        assert_int_equal(stats_of_gate(gate).peers, PEERS);
        for (int i = 0; i < PEERS; i++)
            assert_true(finish(gate, leases[(i * 7) % PEERS], NOW));
        expect_idle(gate);
    }
    tg_gate_free(gate);
}

/* ---- precheck ---- */

/* Once a minute, by a tick: the peers without calls go, and their memory with them. */
static void the_table_of_peers_shrinks_when_they_have_gone(void **state)
{
    enum { PEERS = 3000 };
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = peers_config(&log, 1);
    struct tg_gate *gate = must_gate(&config);
    static tg_lease leases[PEERS];
    char name[24];
    (void)state;

    for (int i = 0; i < PEERS; i++) {
        struct tg_call call = numbered_peer(&name, i);
        leases[i] = must_allow(gate, &call, NOW);
    }
    for (int i = 1; i < PEERS; i++)
        assert_true(finish(gate, leases[i], NOW));
    tg_gate_tick(gate, 59999);
    assert_int_equal(gate->peers.table.n, PEERS);
    assert_int_equal(gate->peers.idle, PEERS - 1);
    tg_gate_tick(gate, 60000);
    assert_int_equal(gate->peers.table.n, 1);
    assert_int_equal(gate->peers.idle, 0);
    assert_in_range(table_capacity(&gate->peers.table), 2, 32);
    /* And a minute after that again. */
    struct tg_call late = numbered_peer(&name, 1);
    assert_true(finish(gate, must_allow(gate, &late, 60001), 60001));
    tg_gate_tick(gate, 119999);
    assert_int_equal(gate->peers.table.n, 2);
    tg_gate_tick(gate, 120001);
    assert_int_equal(gate->peers.table.n, 1);
    tg_gate_free(gate);
}

/* A table of which more than a quarter is in use is not made anew each minute. */
static void a_table_of_peers_in_use_keeps_its_memory(void **state)
{
    enum { PEERS = 40 };
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = peers_config(&log, 1);
    struct tg_gate *gate = must_gate(&config);
    char name[24];
    (void)state;

    for (int i = 0; i < PEERS; i++) {
        struct tg_call call = numbered_peer(&name, i);
        must_allow(gate, &call, NOW);
    }
    const struct table_slot *slots = table_slots(&gate->peers.table);
    tg_gate_tick(gate, 60000);
    assert_ptr_equal(table_slots(&gate->peers.table), slots);
    tg_gate_free(gate);
}

static void a_precheck_counts_the_peer_until_the_end_of_the_call(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 5);
    struct tg_call call = call_from(TG_PRIORITY_NORMAL, "a");
    (void)state;

    config.peers.on = true;
    config.peers.limit = 1;
    struct tg_gate *gate = must_gate(&config);
    struct tg_answer checked = must_precheck(gate, &call, NOW);
    assert_true(checked.decision.allowed);
    assert_int_not_equal(checked.lease, 0);
    assert_int_equal(stats_of_gate(gate).peer_calls, 1);
    assert_int_equal(stats_of_gate(gate).in_flight, 0);
    assert_int_equal(must_precheck(gate, &call, NOW).reason, TG_REASON_PEER_LIMIT);
    must_refuse(gate, &call, NOW, TG_REASON_PEER_LIMIT);
    struct tg_answer answer = must_admit_checked(gate, &call, checked.lease, NOW);
    assert_true(answer.decision.allowed);
    assert_int_equal(stats_of_gate(gate).peer_calls, 1);
    /* It has become the call's own: it cannot be given twice. */
    struct tg_answer untouched = answer;
    assert_int_equal(tg_gate_admit(gate, &call, checked.lease, NOW, &untouched), TG_ERR_STALE);
    assert_int_equal(stats_of_gate(gate).in_flight, 1);
    assert_true(finish(gate, answer.lease, NOW));
    expect_idle(gate);
    tg_gate_free(gate);
}

static void a_precheck_that_is_released_or_forgotten_counts_nobody(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = peers_config(&log, 1);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_from(TG_PRIORITY_NORMAL, "a");
    struct tg_answer untouched = {.lease = 0};
    (void)state;

    struct tg_answer checked = must_precheck(gate, &call, NOW);
    assert_true(finish_as(gate, checked.lease, NOW, TG_OUTCOME_CANCELLED));
    expect_idle(gate);
    assert_int_equal(tg_gate_admit(gate, &call, checked.lease, NOW, &untouched), TG_ERR_STALE);
    call.lease_ttl = 70;
    checked = must_precheck(gate, &call, NOW);
    /* It is not the lease yet: there is time to read a body. */
    assert_int_equal(tg_gate_next_deadline(gate), NOW + 600000);
    tg_gate_tick(gate, NOW + 600000);
    expect_idle(gate);
    assert_int_equal(tg_gate_admit(gate, &call, checked.lease, NOW + 600000, &untouched),
                     TG_ERR_STALE);
    tg_gate_free(gate);
}

/* Priority and ttl may be known only once the body is read: what counts is what admit is told. */
static void what_admit_is_told_counts_and_not_what_precheck_was(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 4);
    struct tg_call before = call_from(TG_PRIORITY_NORMAL, "a"), after = before;
    (void)state;

    after.priority = TG_PRIORITY_LOW;
    after.lease_ttl = 50;
    struct tg_gate *gate = must_gate(&config);
    for (int i = 0; i < 3; i++) {
        struct tg_answer checked = must_precheck(gate, &before, NOW);
        struct tg_answer answer = must_admit_checked(gate, &after, checked.lease, NOW);
        if (answer.decision.allowed != (i < 2)) /* half of four */
            fail_msg("low has %d of 4 slots, and the next is %s", i,
                     answer.decision.allowed ? "admitted" : "refused");
        if (answer.decision.allowed)
            assert_int_equal(answer.deadline, NOW + 50);
    }
    config.concurrency.wait[TG_PRIORITY_LOW] = 500;
    must_reconfigure(gate, &config, NOW);
    struct tg_answer checked = must_precheck(gate, &before, NOW);
    must_admit_checked(gate, &after, checked.lease, NOW);
    assert_int_equal(stats_of_gate(gate).queued[TG_PRIORITY_LOW], 1);
    tg_gate_free(gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fourth_of_three_is_refused_while_another_passes),
        cmocka_unit_test(a_peer_is_its_bytes),
        cmocka_unit_test(waiting_calls_count),
        cmocka_unit_test(a_call_without_a_peer_is_not_counted),
        cmocka_unit_test(a_calls_own_limit_goes_before_the_gates),
        cmocka_unit_test(a_calls_own_limit_counts_where_peers_are_off),
        cmocka_unit_test(a_peer_limit_above_the_concurrency_limit_is_accepted),
        cmocka_unit_test(peers_beyond_the_bound_share_one_limit),
        cmocka_unit_test(the_count_goes_back_to_where_it_was_taken),
        cmocka_unit_test(a_flood_of_names_leaves_nothing_behind),
        cmocka_unit_test(the_table_of_peers_shrinks_when_they_have_gone),
        cmocka_unit_test(a_table_of_peers_in_use_keeps_its_memory),
        cmocka_unit_test(a_precheck_counts_the_peer_until_the_end_of_the_call),
        cmocka_unit_test(a_precheck_that_is_released_or_forgotten_counts_nobody),
        cmocka_unit_test(what_admit_is_told_counts_and_not_what_precheck_was),
    };
    return cmocka_run_group_tests_name("gate_peers", tests, NULL, NULL);
}
