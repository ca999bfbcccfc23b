/* test_gate_first_byte.c - the first byte of a reply is the sample of its call, when it comes. */
#include "gate_kit.h"

#define NOW 1000

static void expect_near(double got, double want, double off)
{
    if (!(got >= want - off && got <= want + off))
        fail_msg("%g, and not %g", got, want);
}

static struct tg_gate_config learning(struct gate_log *log, enum tg_law law)
{
    struct tg_gate_config config = gate_config(log);

    config.concurrency.on = true;
    tg_law_config_choose(&config.concurrency.law, law);
    return config;
}

static void a_first_byte_is_told_once(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL), waiting = call_waiting(TG_PRIORITY_HIGH, 7);
    (void)state;

    tg_lease lease = must_allow(gate, &call, NOW);
    tg_lease queued = must_queue(gate, &waiting, NOW);
    assert_false(tg_gate_first_byte(gate, queued, NOW)); /* it has not begun */
    assert_false(tg_gate_first_byte(gate, 0, NOW));
    assert_true(tg_gate_first_byte(gate, lease, NOW + 40));
    assert_false(tg_gate_first_byte(gate, lease, NOW + 50));
    expect_near(stats_of_gate(gate).last_ms, 40, 0);
    assert_int_equal(stats_of_gate(gate).in_flight, 1);
    assert_true(finish(gate, lease, NOW + 90));
    assert_false(tg_gate_first_byte(gate, lease, NOW + 91));
    expect_near(stats_of_gate(gate).last_ms, 40, 0); /* the end was no sample */
    assert_true(finish_as(gate, queued, NOW + 91, TG_OUTCOME_CANCELLED));
    expect_idle(gate);

    /* The slot is used again, and its call begins anew. */
    lease = must_allow(gate, &call, NOW + 100);
    assert_true(tg_gate_first_byte(gate, lease, NOW + 107));
    expect_near(stats_of_gate(gate).last_ms, 7, 0);
    assert_true(finish(gate, lease, NOW + 108));
    lease = must_allow(gate, &call, NOW + 110);
    assert_true(tg_gate_first_byte_after(gate, lease, NOW + 119, 3.5)); /* it was sent on later */
    expect_near(stats_of_gate(gate).last_ms, 3.5, 0);
    assert_true(finish(gate, lease, NOW + 120));
    tg_gate_free(gate);
}

/* Two gates in which calls of 60 s run: one hears their first bytes after 100 ms, the other only
 * ends. What the law makes of it is the same as with calls of 100 ms. */
static void the_length_of_an_answer_moves_no_law(void **state)
{
    enum { CALLS = 40 };
    (void)state;

    for (int law = 0; law < TG_LAW_COUNT; law++) {
        struct gate_log log = {.n_woken = 0};
        struct tg_gate_config config = learning(&log, (enum tg_law)law);
        struct tg_gate *gate = must_gate(&config);
        struct tg_call call = call_of(TG_PRIORITY_NORMAL);
        tg_lease leases[CALLS];
        tg_ms now = NOW;

        call.lease_ttl = 600000;
        for (int round = 0; round < 30; round++) {
            int64_t n = fill_gate(gate, &call, now, leases, CALLS);
            for (int64_t i = 0; i < n; i++)
                assert_true(tg_gate_first_byte(gate, leases[i], now + 100));
            now += 60000 + 1000 * (round % 7) * (round % 3); /* answers of different lengths */
            for (int64_t i = 0; i < n; i++)
                assert_true(finish(gate, leases[i], now));
        }
        if (stats_of_gate(gate).limit < config.concurrency.law.initial)
            fail_msg("%s fell to %lld", tg_law_name((enum tg_law)law),
                     (long long)stats_of_gate(gate).limit);
        expect_idle(gate);
        tg_gate_free(gate);
    }
}

/* Prompts that are 30 times as long take 30 times as long: that is no load. */
static void calls_are_compared_with_their_like(void **state)
{
    static const enum tg_law laws[] = {TG_LAW_VEGAS, TG_LAW_GRADIENT2, TG_LAW_AIMD, TG_LAW_AUTO};
    enum { CALLS = 40 };
    (void)state;

    for (size_t l = 0; l < COUNT_OF(laws); l++) {
        struct gate_log log = {.n_woken = 0};
        struct tg_gate_config config = learning(&log, laws[l]);
        struct tg_gate *gate = must_gate(&config);
        struct tg_call call = call_of(TG_PRIORITY_NORMAL);
        tg_lease leases[CALLS];
        tg_ms now = NOW;

        config.concurrency.law.initial = CALLS;
        must_reconfigure(gate, &config, now);
        for (int round = 0; round < 200; round++) {
            call.size = round % 2 ? 100 : 10000;
            int64_t n = fill_gate(gate, &call, now, leases, CALLS);
            now += round % 2 ? 100 : 3000;
            for (int64_t i = 0; i < n; i++)
                assert_true(tg_gate_first_byte(gate, leases[i], now));
            now += 500;
            for (int64_t i = 0; i < n; i++)
                assert_true(finish(gate, leases[i], now));
        }
        if (stats_of_gate(gate).limit < 20)
            fail_msg("%s fell to %lld", tg_law_name(laws[l]),
                     (long long)stats_of_gate(gate).limit);
        tg_gate_free(gate);
    }
}

static void a_ceiling_holds_for_its_time(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = learning(&log, TG_LAW_AUTO);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_waiting(TG_PRIORITY_HIGH, 3);
    (void)state;

    tg_gate_set_room(gate, 2, NOW + 60, NOW);
    assert_int_equal(stats_of_gate(gate).limit, 2);
    tg_lease first = must_allow(gate, &call, NOW), second = must_allow(gate, &call, NOW);
    tg_lease third = must_queue(gate, &call, NOW);
    tg_gate_tick(gate, NOW + 59);
    assert_int_equal(next_woken(&log), -1);
    tg_gate_tick(gate, NOW + 60); /* it is over, and who waits gets a slot */
    assert_int_equal(next_woken(&log), 3);
    assert_int_equal(stats_of_gate(gate).limit, 20);
    must_resume(gate, third, &call, NOW + 60);

    /* What is said later replaces it, and a time that has passed takes it back. */
    tg_gate_set_room(gate, -3, NOW + 900, NOW + 200);
    assert_int_equal(stats_of_gate(gate).limit, 1); /* not below min */
    assert_int_equal(stats_of_gate(gate).in_flight, 3);
    tg_gate_set_room(gate, 2, NOW + 900, NOW + 201);
    assert_int_equal(stats_of_gate(gate).limit, 5);
    tg_gate_set_room(gate, 2, NOW, NOW + 202);
    assert_int_equal(stats_of_gate(gate).limit, 20);
    tg_gate_set_room(gate, INT64_MIN, INT64_MAX, NOW + 203);
    assert_int_equal(stats_of_gate(gate).limit, 1);
    tg_gate_set_room(gate, INT64_MAX, INT64_MAX, NOW + 204);
    assert_int_equal(stats_of_gate(gate).limit, 20);
    assert_true(finish(gate, first, NOW + 300));
    assert_true(finish(gate, second, NOW + 300));
    assert_true(finish(gate, third, NOW + 300));
    expect_idle(gate);
    tg_gate_free(gate);
}

static void other_laws_do_not_listen(void **state)
{
    (void)state;
    for (int law = 0; law < TG_LAW_AUTO; law++) {
        struct gate_log log = {.n_woken = 0};
        struct tg_gate_config config = learning(&log, (enum tg_law)law);
        struct tg_gate *gate = must_gate(&config);
        int64_t before = stats_of_gate(gate).limit;

        tg_gate_set_room(gate, 2, NOW + 100, NOW);
        assert_int_equal(stats_of_gate(gate).limit, before);
        tg_gate_free(gate);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_first_byte_is_told_once),
        cmocka_unit_test(the_length_of_an_answer_moves_no_law),
        cmocka_unit_test(calls_are_compared_with_their_like),
        cmocka_unit_test(a_ceiling_holds_for_its_time),
        cmocka_unit_test(other_laws_do_not_listen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
