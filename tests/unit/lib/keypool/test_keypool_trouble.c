/* test_keypool_trouble.c - failures, 429s and refused credentials, which are kept apart. */
#include <string.h>

#include "keys_kit.h"

static struct keys_kit kit;

static bool serves(tg_ms now)
{
    tg_key_lease lease = keys_acquire(&kit, 0, now);

    if (lease)
        keys_unsent(&kit, lease, now);
    return lease != 0;
}

static void fail_times(int n, tg_ms now)
{
    for (int i = 0; i < n; i++)
        keys_attempt(&kit, 0, now, TG_KEY_FAILED);
}

/* ---- the breaker ---- */

static void five_failures_in_a_row_open_it(void **state)
{
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    fail_times(4, 1000);
    assert_true(serves(1000));
    assert_int_equal(keys_metrics(&kit, 0, 1000).consecutive_fails, 4);
    fail_times(1, 1000);
    assert_false(serves(1000));
    assert_int_equal(kit.answer.retry_after_ms, 30000);
    assert_false(kit.answer.all_cooling);
    assert_int_equal(keys_metrics(&kit, 0, 1000).breaker, TG_BREAKER_OPEN);
    assert_int_equal(keys_metrics(&kit, 0, 1000).failure_cool_down, 31000);
    assert_false(serves(30999));
    assert_int_equal(kit.answer.retry_after_ms, 1);
    assert_true(serves(31000));
    keys_close(&kit);
}

static void any_other_answer_ends_a_run_of_failures(void **state)
{
    static const enum tg_key_outcome others[] = {TG_KEY_OK, TG_KEY_REFUSED, TG_KEY_REJECTED};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        keys_start(&kit, 1, NO_LIMITS);
        fail_times(4, 0);
        keys_attempt(&kit, 0, 0, others[i]);
        fail_times(4, 0);
        assert_true(serves(0));
        keys_close(&kit);
    }
}

static void a_429_ends_a_run_of_failures(void **state)
{
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    fail_times(4, 0);
    keys_cool(&kit, keys_take(&kit, 0, 0, 0), 0, 5000);
    assert_int_equal(keys_metrics(&kit, 0, 0).consecutive_fails, 0);
    fail_times(1, 5000);
    assert_true(serves(5000));
    assert_int_equal(keys_metrics(&kit, 0, 5000).breaker, TG_BREAKER_CLOSED);
    keys_close(&kit);
}

static void a_cancelled_call_neither_counts_nor_ends_a_run(void **state)
{
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    fail_times(4, 0);
    keys_attempt(&kit, 0, 0, TG_KEY_CANCELLED);
    keys_attempt(&kit, 0, 0, (enum tg_key_outcome)99);
    assert_true(serves(0));
    fail_times(1, 0);
    assert_false(serves(0));
    keys_close(&kit);
}

static void five_bad_requests_do_not_trip(void **state)
{
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    for (int i = 0; i < 50; i++)
        keys_attempt(&kit, 0, 0, i % 2 ? TG_KEY_REJECTED : TG_KEY_REFUSED);
    assert_true(serves(0));
    assert_int_equal(keys_metrics(&kit, 0, 0).state, TG_KEY_HEALTHY);
    keys_close(&kit);
}

static void half_open_lets_exactly_one_call_through(void **state)
{
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    fail_times(5, 0);
    tg_key_lease probe = keys_acquire(&kit, 0, 30000);
    assert_true(probe != 0);
    assert_int_equal(keys_metrics(&kit, 0, 30000).breaker, TG_BREAKER_HALF_OPEN);
    for (tg_ms now = 30000; now < 300000; now += 1000)
        assert_int_equal(keys_acquire(&kit, 0, now), 0);
    keys_end(&kit, probe, 300000, TG_KEY_CANCELLED); /* makes place for another */
    probe = keys_acquire(&kit, 0, 300000);
    assert_true(probe != 0);
    assert_int_equal(keys_acquire(&kit, 0, 300000), 0);
    keys_end(&kit, probe, 300000, TG_KEY_FAILED);
    assert_false(serves(329999));
    probe = keys_acquire(&kit, 0, 330000);
    keys_end(&kit, probe, 330000, TG_KEY_OK);
    for (int i = 0; i < 100; i++)
        assert_true(keys_acquire(&kit, 0, 330000) != 0);
    assert_int_equal(keys_metrics(&kit, 0, 330000).failure_cool_down, 0);
    keys_close(&kit);
}

static void a_429_closes_a_half_open_breaker_and_cools(void **state)
{
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    fail_times(5, 0);
    keys_cool(&kit, keys_acquire(&kit, 0, 30000), 30000, 31000);
    assert_int_equal(keys_metrics(&kit, 0, 30000).breaker, TG_BREAKER_CLOSED);
    assert_false(serves(30000));
    assert_true(kit.answer.all_cooling);
    assert_true(serves(31000));
    keys_close(&kit);
}

static void attempts_from_before_it_opened_change_nothing(void **state)
{
    tg_key_lease old[8];
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    for (size_t i = 0; i < 8; i++)
        old[i] = keys_acquire(&kit, 0, 0);
    fail_times(5, 0);
    keys_end(&kit, old[0], 20000, TG_KEY_OK); /* does not close */
    assert_false(serves(29999));
    keys_end(&kit, old[1], 29999, TG_KEY_FAILED); /* does not keep it open */
    tg_key_lease probe = keys_acquire(&kit, 0, 30000);
    assert_true(probe != 0);
    keys_end(&kit, old[2], 30000, TG_KEY_FAILED); /* is not the probe */
    keys_end(&kit, old[3], 30000, TG_KEY_OK);
    keys_end(&kit, old[4], 30000, TG_KEY_CANCELLED);
    assert_int_equal(keys_acquire(&kit, 0, 30000), 0);
    keys_end(&kit, probe, 30000, TG_KEY_OK);
    keys_end(&kit, old[5], 30000, TG_KEY_FAILED);
    assert_int_equal(keys_metrics(&kit, 0, 30000).consecutive_fails, 0);
    keys_close(&kit);
}

static void a_key_that_often_fails_needs_a_shorter_run(void **state)
{
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    for (int i = 0; i < 20; i++) { /* three of four fail, never more than three in a row */
        fail_times(i < 3 ? 3 : 2, 0);
        keys_attempt(&kit, 0, 0, TG_KEY_OK);
    }
    fail_times(2, 0);
    assert_true(serves(0));
    fail_times(1, 0);
    assert_false(serves(0));
    keys_close(&kit);
}

static void a_run_of_one_or_two_is_never_made_shorter(void **state)
{
    (void)state;
    for (int64_t failures = 1; failures <= 2; failures++) {
        keys_init(&kit, 1, NO_LIMITS);
        kit.pool_spec.breaker_failures = failures;
        kit.pool_spec.breaker_open = 1;
        keys_open(&kit);
        for (tg_ms now = 1; now < 60; now++) { /* the average of errors becomes high */
            fail_times(1, now);
            if (keys_metrics(&kit, 0, now).breaker == TG_BREAKER_CLOSED)
                fail_times(1, now);
        }
        keys_attempt(&kit, 0, 100, TG_KEY_OK);
        fail_times((int)failures - 1, 100);
        assert_true(serves(100));
        fail_times(1, 100);
        assert_false(serves(100));
        keys_close(&kit);
    }
}

static void a_breaker_is_of_one_pool(void **state)
{
    struct tg_pool_spec pools[2];
    struct tg_key_call call;
    struct tg_key_answer answer;
    (void)state;
    keys_init(&kit, 1, NO_LIMITS);
    pools[0] = pools[1] = kit.pool_spec;
    pools[1].model = "other";
    kit.spec.pools = pools;
    kit.spec.n_pools = 2;
    keys_open(&kit);
    fail_times(5, 0);
    tg_key_call_init(&call);
    tg_pool_acquire(tg_keyring_pool(kit.ring, "p", "other"), &call, 0, &answer);
    assert_true(answer.lease != 0);
    keys_close(&kit);
}

/* ---- cooldowns ---- */

static void the_later_deadline_wins(void **state)
{
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    tg_key_lease a = keys_acquire(&kit, 0, 0), b = keys_acquire(&kit, 0, 0);
    keys_cool(&kit, a, 0, 50000);
    keys_cool(&kit, b, 10, 20000);
    assert_false(serves(49999));
    assert_true(kit.answer.all_cooling);
    assert_int_equal(kit.answer.retry_after_ms, 1);
    assert_true(serves(50000));
    assert_int_equal(keys_metrics(&kit, 0, 50000).cool_down_until, 0);
    keys_close(&kit);
}

static void a_429_that_does_not_say_cools_for_the_default(void **state)
{
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    keys_cool(&kit, keys_acquire(&kit, 0, 7), 7, 0);
    assert_int_equal(keys_metrics(&kit, 0, 7).cool_down_until, 60007);
    keys_close(&kit);
}

static void an_absurd_retry_after_does_not_retire_a_key(void **state)
{
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    keys_cool(&kit, keys_acquire(&kit, 0, 7), 7, INT64_MAX);
    assert_int_equal(keys_metrics(&kit, 0, 7).cool_down_until, 3600007);
    keys_close(&kit);
    keys_start(&kit, 1, NO_LIMITS);
    keys_cool(&kit, keys_acquire(&kit, 0, 7), 7, -5); /* not a time: it did not say */
    assert_int_equal(keys_metrics(&kit, 0, 7).cool_down_until, 60007);
    keys_close(&kit);
}

static void a_group_cools_together_in_all_pools(void **state)
{
    struct tg_pool_spec pools[2];
    struct tg_key_call call;
    struct tg_key_answer answer;
    (void)state;
    keys_init(&kit, 3, NO_LIMITS);
    kit.keys[0].group = kit.keys[1].group = "g";
    pools[0] = kit.pool_spec;
    pools[1] = kit.pool_spec;
    pools[1].model = "other";
    pools[1].keys = &kit.keys[1];
    pools[1].n_keys = 1;
    kit.spec.pools = pools;
    kit.spec.n_pools = 2;
    keys_open(&kit);
    keys_cool(&kit, keys_take(&kit, 0, 0, 0), 0, 9000);
    for (int i = 0; i < 20; i++) {
        assert_true(keys_acquire(&kit, 0, 0) != 0);
        assert_int_equal(keys_got(&kit), 2);
    }
    tg_key_call_init(&call);
    tg_pool_acquire(tg_keyring_pool(kit.ring, "p", "other"), &call, 0, &answer);
    assert_true(answer.lease == 0);
    assert_true(answer.all_cooling);
    assert_int_equal(answer.retry_after_ms, 9000);
    assert_int_equal(keys_metrics(&kit, 1, 0).cool_down_until, 9000);
    keys_close(&kit);
}

static void all_cooling_means_every_key_that_is_in_use(void **state)
{
    struct tg_probe probe;
    (void)state;
    keys_start(&kit, 3, (struct tg_key_limits){.rpm = 2});
    keys_cool(&kit, keys_take(&kit, 0, 0, 0), 0, 90000);
    (void)keys_take(&kit, 1, 0, 0);
    (void)keys_take(&kit, 1, 0, 0);
    keys_attempt(&kit, 2, 0, TG_KEY_REFUSED);
    assert_true(tg_keyring_next_probe(kit.ring, 0, &probe));
    tg_keyring_probed(kit.ring, &probe, TG_PROBE_BAD, 0);
    assert_int_equal(keys_acquire(&kit, 0, 0), 0);
    assert_false(kit.answer.all_cooling);               /* the second is full, not cooling */
    assert_int_equal(kit.answer.retry_after_ms, 60383); /* the second's seconds begin at 383 */
    assert_true(tg_keyring_enable(kit.ring, "p", "k1", false, 0));
    assert_int_equal(keys_acquire(&kit, 0, 0), 0);
    assert_true(kit.answer.all_cooling);
    assert_int_equal(kit.answer.retry_after_ms, 90000);
    keys_close(&kit);
}

/* ---- suspension ---- */

static void a_refused_key_serves_until_its_probe_fails(void **state)
{
    struct tg_probe probe, second;
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    assert_int_equal(tg_keyring_next_deadline(kit.ring), INT64_MAX);
    assert_false(tg_keyring_next_probe(kit.ring, 5, &probe));
    keys_attempt(&kit, 0, 5, TG_KEY_REFUSED);
    assert_int_equal(tg_keyring_next_deadline(kit.ring), 5);
    assert_true(serves(5));
    assert_true(tg_keyring_next_probe(kit.ring, 5, &probe));
    assert_string_equal(probe.name, "k0");
    assert_string_equal(probe.provider, "p");
    assert_ptr_equal(probe.owner, kit.names[0]);
    assert_false(tg_keyring_next_probe(kit.ring, 5, &second)); /* once */
    keys_attempt(&kit, 0, 6, TG_KEY_REFUSED);
    assert_false(tg_keyring_next_probe(kit.ring, 100000, &second));
    assert_true(serves(100000));
    tg_keyring_probed(kit.ring, &probe, TG_PROBE_GOOD, 100000);
    assert_true(serves(100000));
    assert_int_equal(tg_keyring_next_deadline(kit.ring), INT64_MAX);
    keys_close(&kit);
}

static void a_suspended_key_is_probed_until_it_is_good_again(void **state)
{
    struct tg_probe probe;
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    keys_attempt(&kit, 0, 0, TG_KEY_REFUSED);
    assert_true(tg_keyring_next_probe(kit.ring, 0, &probe));
    tg_keyring_probed(kit.ring, &probe, TG_PROBE_BAD, 10);
    assert_int_equal(keys_metrics(&kit, 0, 10).state, TG_KEY_SUSPENDED);
    for (tg_ms now = 60010; now < 600000; now += 60000) {
        assert_int_equal(tg_keyring_next_deadline(kit.ring), now);
        assert_false(tg_keyring_next_probe(kit.ring, now - 1, &probe));
        assert_false(serves(now));
        assert_int_equal(kit.answer.retry_after_ms, TG_UNSATISFIABLE);
        assert_true(tg_keyring_next_probe(kit.ring, now, &probe));
        tg_keyring_probed(kit.ring, &probe, now < 300000 ? TG_PROBE_BAD : TG_PROBE_UNCLEAR, now);
    }
    assert_true(tg_keyring_next_probe(kit.ring, 700000, &probe));
    tg_keyring_probed(kit.ring, &probe, TG_PROBE_GOOD, 700000);
    assert_true(serves(700000));
    tg_keyring_probed(kit.ring, &probe, TG_PROBE_BAD, 700000); /* it was taken already */
    assert_true(serves(700000));
    keys_close(&kit);
}

static void the_same_secret_is_suspended_in_all_pools(void **state)
{
    struct tg_pool_spec pools[2];
    struct tg_key_call call;
    struct tg_key_answer answer;
    struct tg_probe probe;
    (void)state;
    keys_init(&kit, 1, NO_LIMITS);
    pools[0] = pools[1] = kit.pool_spec;
    pools[1].model = "other";
    kit.spec.pools = pools;
    kit.spec.n_pools = 2;
    keys_open(&kit);
    struct tg_pool *other = tg_keyring_pool(kit.ring, "p", "other");
    tg_key_call_init(&call);
    keys_attempt(&kit, 0, 0, TG_KEY_REFUSED);
    assert_true(tg_keyring_next_probe(kit.ring, 0, &probe));
    tg_keyring_probed(kit.ring, &probe, TG_PROBE_BAD, 0);
    tg_pool_acquire(other, &call, 0, &answer);
    assert_true(answer.lease == 0);
    assert_false(answer.all_cooling);
    assert_true(tg_keyring_next_probe(kit.ring, 60000, &probe));
    tg_keyring_probed(kit.ring, &probe, TG_PROBE_GOOD, 60000);
    tg_pool_acquire(other, &call, 60000, &answer);
    assert_true(answer.lease != 0);
    keys_close(&kit);
}

static void a_refusal_from_before_the_probe_asks_for_no_other(void **state)
{
    struct tg_probe probe;
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    tg_key_lease old = keys_acquire(&kit, 0, 0);
    keys_attempt(&kit, 0, 0, TG_KEY_REFUSED);
    assert_true(tg_keyring_next_probe(kit.ring, 0, &probe));
    tg_keyring_probed(kit.ring, &probe, TG_PROBE_GOOD, 100);
    keys_end(&kit, old, 200, TG_KEY_REFUSED);
    assert_false(tg_keyring_next_probe(kit.ring, 200, &probe));
    keys_attempt(&kit, 0, 200, TG_KEY_REFUSED);
    assert_true(tg_keyring_next_probe(kit.ring, 200, &probe));
    keys_close(&kit);
}

static void an_unclear_probe_is_asked_again_later_and_not_at_once(void **state)
{
    struct tg_probe probe;
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    keys_attempt(&kit, 0, 0, TG_KEY_REFUSED);
    assert_true(tg_keyring_next_probe(kit.ring, 0, &probe));
    tg_keyring_probed(kit.ring, &probe, TG_PROBE_UNCLEAR, 100);
    assert_true(serves(100));
    keys_attempt(&kit, 0, 200, TG_KEY_REFUSED);
    assert_false(tg_keyring_next_probe(kit.ring, 60099, &probe));
    assert_true(tg_keyring_next_probe(kit.ring, 60100, &probe));
    keys_close(&kit);
}

static void an_operators_word_outlives_probes(void **state)
{
    struct tg_probe probe;
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    keys_attempt(&kit, 0, 0, TG_KEY_REFUSED);
    assert_true(tg_keyring_enable(kit.ring, "p", "k0", false, 0));
    assert_int_equal(keys_metrics(&kit, 0, 0).state, TG_KEY_DISABLED);
    assert_true(tg_keyring_next_probe(kit.ring, 0, &probe));
    tg_keyring_probed(kit.ring, &probe, TG_PROBE_GOOD, 0);
    assert_false(serves(0));
    keys_change(&kit, 0);
    assert_false(serves(0));
    assert_true(tg_keyring_enable(kit.ring, "p", "k0", true, 0));
    assert_true(serves(0));
    assert_false(tg_keyring_enable(kit.ring, "p", "k1", false, 0));
    assert_false(tg_keyring_enable(kit.ring, "q", "k0", false, 0));
    keys_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_failures_in_a_row_open_it),
        cmocka_unit_test(any_other_answer_ends_a_run_of_failures),
        cmocka_unit_test(a_429_ends_a_run_of_failures),
        cmocka_unit_test(a_cancelled_call_neither_counts_nor_ends_a_run),
        cmocka_unit_test(five_bad_requests_do_not_trip),
        cmocka_unit_test(half_open_lets_exactly_one_call_through),
        cmocka_unit_test(a_429_closes_a_half_open_breaker_and_cools),
        cmocka_unit_test(attempts_from_before_it_opened_change_nothing),
        cmocka_unit_test(a_key_that_often_fails_needs_a_shorter_run),
        cmocka_unit_test(a_run_of_one_or_two_is_never_made_shorter),
        cmocka_unit_test(a_breaker_is_of_one_pool),
        cmocka_unit_test(the_later_deadline_wins),
        cmocka_unit_test(a_429_that_does_not_say_cools_for_the_default),
        cmocka_unit_test(an_absurd_retry_after_does_not_retire_a_key),
        cmocka_unit_test(a_group_cools_together_in_all_pools),
        cmocka_unit_test(all_cooling_means_every_key_that_is_in_use),
        cmocka_unit_test(a_refused_key_serves_until_its_probe_fails),
        cmocka_unit_test(a_suspended_key_is_probed_until_it_is_good_again),
        cmocka_unit_test(the_same_secret_is_suspended_in_all_pools),
        cmocka_unit_test(a_refusal_from_before_the_probe_asks_for_no_other),
        cmocka_unit_test(an_unclear_probe_is_asked_again_later_and_not_at_once),
        cmocka_unit_test(an_operators_word_outlives_probes),
    };
    return cmocka_run_group_tests_name("keypool_trouble", tests, NULL, NULL);
}
