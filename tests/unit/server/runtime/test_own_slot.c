/* test_own_slot.c - slots of a kind first, then the gate of all: what is held when, and one
 * deadline for both waits.
 *
 * Both gates are real ones; how the owner waits is left to the test, which looks at the state.
 */
#include "server/runtime/own_slot.h"

#include "check.h"
#include "gate_kit.h"

#define NOW 1000
#define WAIT_MS 50

static const struct admission_ops no_ops = {.wait = NULL};

static struct {
    struct gate_log log;
    struct tg_gate *kind, *all;
    struct tg_call call;
    struct own_slot own;
    struct admission_run run;
    struct tg_answer answer;
} world;

static void open_world(int64_t kind, int64_t all)
{
    struct tg_gate_config config = gate_config_slots(&world.log, kind);

    world.kind = must_gate(&config);
    config = gate_config_slots(&world.log, all);
    config.peers.on = true;
    config.peers.limit = 2;
    world.all = must_gate(&config);
    world.call = call_from(TG_PRIORITY_NORMAL, "peer");
    admission_run_init(&world.run, world.all, &world.call, &no_ops);
    own_slot_init(&world.own, world.kind, &no_ops, "route", "/a");
}

static void close_world(void)
{
    tg_gate_free(world.kind);
    tg_gate_free(world.all);
}

static enum admission_state admit(tg_ms now)
{
    return own_slot_admit(&world.own, &world.run, &world.call, now, &world.answer);
}

static enum admission_state wake(tg_ms now)
{
    return own_slot_wake(&world.own, &world.run, &world.call, now, &world.answer);
}

static void end(tg_ms now)
{
    struct tg_release release;

    tg_release_init(&release);
    own_slot_end(&world.own, &world.run, now, &release);
}

static void expect_held(int64_t kind, int64_t all, int64_t peers)
{
    assert_int_equal(stats_of_gate(world.kind).in_flight, kind);
    assert_int_equal(stats_of_gate(world.all).in_flight, all);
    assert_int_equal(stats_of_gate(world.all).peer_calls, peers);
}

static void both_are_held_and_given_back(void **state)
{
    (void)state;
    open_world(1, 1);
    assert_int_equal(admit(NOW), ADMISSION_ADMITTED);
    expect_held(1, 1, 1);
    end(NOW + 10);
    expect_held(0, 0, 0);
    assert_true(stats_of_gate(world.kind).last_ms == 10); /* the law learns the whole time */
    end(NOW + 20);                                        /* again: nothing */
    close_world();
}

static void without_slots_of_its_own_the_gate_alone_is_asked(void **state)
{
    (void)state;
    open_world(1, 1);
    own_slot_init(&world.own, NULL, &no_ops, NULL, NULL);
    assert_int_equal(admit(NOW), ADMISSION_ADMITTED);
    expect_held(0, 1, 1);
    end(NOW);
    expect_held(0, 0, 0);
    close_world();
}

static void peers_refuse_before_anybody_waits(void **state)
{
    struct tg_call other;

    (void)state;
    open_world(1, 4);
    other = call_from(TG_PRIORITY_NORMAL, "peer");
    must_allow(world.all, &other, NOW);
    must_allow(world.all, &other, NOW);
    assert_int_equal(admit(NOW), ADMISSION_REFUSED);
    assert_int_equal(world.answer.reason, TG_REASON_PEER_LIMIT);
    expect_held(0, 2, 2);
    close_world();
}

/* While it waits for its kind it holds no slot of the gate. */
static void its_kind_is_waited_for_first(void **state)
{
    struct tg_call other = call_of(TG_PRIORITY_NORMAL);
    struct tg_release release;

    (void)state;
    open_world(1, 1);
    tg_lease first = must_allow(world.kind, &other, NOW);
    assert_int_equal(admit(NOW), ADMISSION_WAITING);
    assert_int_equal(own_slot_state(&world.own, &world.run), ADMISSION_WAITING);
    expect_held(1, 0, 1);
    assert_int_equal(wake(NOW + 1), ADMISSION_WAITING);
    tg_release_init(&release);
    assert_true(tg_gate_release(world.kind, first, NOW + 2, &release));
    assert_int_equal(wake(NOW + 2), ADMISSION_ADMITTED);
    expect_held(1, 1, 1);
    end(NOW + 3);
    expect_held(0, 0, 0);
    close_world();
}

static void refused_by_its_kind_holds_nothing(void **state)
{
    struct tg_call other = call_of(TG_PRIORITY_NORMAL);

    (void)state;
    open_world(1, 1);
    must_allow(world.kind, &other, NOW);
    assert_int_equal(admit(NOW), ADMISSION_WAITING);
    assert_int_equal(wake(NOW + WAIT_MS), ADMISSION_REFUSED);
    assert_int_equal(world.answer.reason, TG_REASON_CONCURRENCY);
    expect_held(1, 0, 0);
    close_world();
}

/* What waited 30 ms of its 50 for its kind has 20 left at the gate. */
static void one_deadline_spans_both_waits(void **state)
{
    struct tg_call other = call_of(TG_PRIORITY_NORMAL);
    struct tg_release release;

    (void)state;
    open_world(1, 1);
    tg_lease kind = must_allow(world.kind, &other, NOW);
    must_allow(world.all, &other, NOW);
    assert_int_equal(admit(NOW), ADMISSION_WAITING);
    tg_release_init(&release);
    assert_true(tg_gate_release(world.kind, kind, NOW + 30, &release));
    assert_int_equal(wake(NOW + 30), ADMISSION_WAITING);
    assert_int_equal(world.run.deadline, NOW + WAIT_MS);
    expect_held(1, 1, 1);
    assert_int_equal(wake(NOW + WAIT_MS), ADMISSION_REFUSED);
    expect_held(0, 1, 0); /* and its own slot is free, without a sample */
    assert_true(stats_of_gate(world.kind).last_ms == 30);
    close_world();
}

/* The time to live is that of the lease, which begins when the call is admitted. */
static void a_wait_may_be_longer_than_the_lease(void **state)
{
    struct tg_call other = call_of(TG_PRIORITY_NORMAL);
    struct tg_release release;

    (void)state;
    for (int first = 0; first < 2; first++) {
        open_world(1, 1);
        world.call.lease_ttl = 10;
        tg_lease kind = must_allow(world.kind, &other, NOW);
        tg_lease all = must_allow(world.all, &other, NOW);
        assert_int_equal(admit(NOW), ADMISSION_WAITING);
        tg_release_init(&release);
        assert_true(first == 0 ? tg_gate_release(world.all, all, NOW, &release)
                               : tg_gate_release(world.kind, kind, NOW, &release));
        assert_int_equal(wake(NOW), ADMISSION_WAITING);
        tg_gate_tick(world.kind, NOW + 30);
        tg_gate_tick(world.all, NOW + 30);
        assert_true(first == 0 ? tg_gate_release(world.kind, kind, NOW + 30, &release)
                               : tg_gate_release(world.all, all, NOW + 30, &release));
        assert_int_equal(wake(NOW + 30), ADMISSION_ADMITTED);
        assert_int_equal(world.answer.deadline, NOW + 40);
        expect_held(1, 1, 1);
        tg_gate_tick(world.all, NOW + 40);
        expect_held(1, 0, 0); /* whoever owns both ends the other: see admit_bound_leases.c */
        end(NOW + 40);
        expect_held(0, 0, 0);
        close_world();
    }
}

static void one_that_leaves_while_it_waits_holds_nothing(void **state)
{
    struct tg_call other = call_of(TG_PRIORITY_NORMAL);

    (void)state;
    open_world(1, 1);
    must_allow(world.kind, &other, NOW);
    assert_int_equal(admit(NOW), ADMISSION_WAITING);
    end(NOW + 1);
    expect_held(1, 0, 0);
    assert_int_equal(stats_of_gate(world.kind).queued[TG_PRIORITY_NORMAL], 0);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_are_held_and_given_back),
        cmocka_unit_test(without_slots_of_its_own_the_gate_alone_is_asked),
        cmocka_unit_test(peers_refuse_before_anybody_waits),
        cmocka_unit_test(its_kind_is_waited_for_first),
        cmocka_unit_test(refused_by_its_kind_holds_nothing),
        cmocka_unit_test(one_deadline_spans_both_waits),
        cmocka_unit_test(a_wait_may_be_longer_than_the_lease),
        cmocka_unit_test(one_that_leaves_while_it_waits_holds_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
