/* test_keypool_capacity.c - windows, calls in flight, groups: a key has room or it has not. */
#include "keys_kit.h"

static struct keys_kit kit;

static void a_window_of_tokens_is_by_the_minute_and_not_by_what_runs(void **state)
{
    (void)state;
    keys_start(&kit, 1, (struct tg_key_limits){.tpm = 90000});
    for (int i = 0; i < 9; i++)
        keys_settle(&kit, keys_acquire(&kit, 10000, 100 * i), 100 * i, 10000);
    assert_int_equal(keys_acquire(&kit, 1, 59999), 0);
    assert_int_equal(kit.answer.retry_after_ms, 61000 - 59999);
    assert_int_equal(keys_acquire(&kit, 1, 60999), 0);
    assert_true(keys_acquire(&kit, 90000, 61000) != 0);
    keys_close(&kit);
}

static void what_was_charged_within_a_second_leaves_with_that_second(void **state)
{
    (void)state;
    keys_start(&kit, 1, (struct tg_key_limits){.rpm = 2});
    assert_true(keys_acquire(&kit, 0, 999) != 0);
    assert_true(keys_acquire(&kit, 0, 1000) != 0);
    assert_int_equal(keys_acquire(&kit, 0, 60998), 0); /* 59.999 s after the first */
    assert_true(keys_acquire(&kit, 0, 61000) != 0);
    assert_int_equal(keys_acquire(&kit, 0, 61999), 0);
    assert_int_equal(kit.answer.retry_after_ms, 1);
    assert_true(keys_acquire(&kit, 0, 62000) != 0);
    keys_close(&kit);
}

static void calls_beyond_the_minute_are_counted_as_in_flight_too(void **state)
{
    (void)state;
    keys_start(&kit, 1, (struct tg_key_limits){.tpm = 1000});
    tg_key_lease lease = keys_acquire(&kit, 600, 0);
    assert_int_equal(keys_acquire(&kit, 401, 100000), 0);
    assert_true(keys_acquire(&kit, 400, 100000) != 0);
    assert_int_equal(keys_metrics(&kit, 0, 100000).tpm_inflight, 1000);
    assert_int_equal(keys_metrics(&kit, 0, 100000).tpm_remaining, 600);
    keys_settle(&kit, lease, 100000, 5000); /* its second is long gone: nothing to correct */
    assert_int_equal(keys_metrics(&kit, 0, 100000).tpm_remaining, 600);
    assert_true(keys_acquire(&kit, 600, 100000) != 0);
    keys_close(&kit);
}

static void a_settlement_corrects_the_second_that_was_charged(void **state)
{
    (void)state;
    keys_start(&kit, 1, (struct tg_key_limits){.tpm = 1000});
    tg_key_lease lease = keys_acquire(&kit, 800, 0);
    keys_settle(&kit, lease, 5000, 300);
    assert_int_equal(keys_metrics(&kit, 0, 5000).tpm_remaining, 700);
    assert_int_equal(keys_metrics(&kit, 0, 60999).tpm_remaining, 700);
    assert_int_equal(keys_metrics(&kit, 0, 61000).tpm_remaining, 1000); /* not at 66000 */
    keys_close(&kit);
}

static void more_than_estimated_becomes_debt_and_does_not_wrap(void **state)
{
    (void)state;
    keys_start(&kit, 1, (struct tg_key_limits){.tpm = 1000});
    keys_settle(&kit, keys_acquire(&kit, 100, 0), 0, INT64_MAX);
    assert_int_equal(keys_metrics(&kit, 0, 0).tpm_remaining, 0);
    assert_int_equal(keys_acquire(&kit, 0, 0), 0);
    assert_int_equal(kit.answer.retry_after_ms, 61000);
    assert_true(keys_acquire(&kit, 1000, 61000) != 0);
    keys_close(&kit);
}

static void debts_beyond_all_bounds_saturate(void **state)
{
    (void)state;
    keys_start(&kit, 1, (struct tg_key_limits){.tpm = TG_NUMBER_MAX});
    static tg_key_lease leases[3000];
    for (size_t i = 0; i < COUNT_OF(leases); i++)
        leases[i] = keys_acquire(&kit, 1, 0);
    for (size_t i = 0; i < COUNT_OF(leases); i++)
        keys_settle(&kit, leases[i], 0, TG_NUMBER_MAX); /* 3000 x 2^53 is more than 2^63 */
    assert_int_equal(keys_metrics(&kit, 0, 0).tpm_remaining, 0);
    assert_int_equal(keys_acquire(&kit, 1, 60999), 0);
    assert_true(keys_acquire(&kit, TG_NUMBER_MAX, 61000) != 0);
    keys_close(&kit);
}

static void tokens_without_a_limit_cannot_overflow_either(void **state)
{
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    static tg_key_lease leases[3000];
    for (size_t i = 0; i < COUNT_OF(leases); i++)
        leases[i] = keys_acquire(&kit, TG_NUMBER_MAX, 0);
    assert_int_equal(keys_metrics(&kit, 0, 0).tpm_inflight, TG_NUMBER_MAX);
    for (size_t i = 0; i < COUNT_OF(leases); i++)
        keys_settle(&kit, leases[i], 0, 0);
    assert_int_equal(keys_metrics(&kit, 0, 0).tpm_inflight, 0);
    kit.keys[0].limits.tpm = 10;
    keys_change(&kit, 0);
    assert_int_equal(keys_metrics(&kit, 0, 0).tpm_remaining, 10);
    keys_close(&kit);
}

static void what_was_not_sent_is_given_back_to_the_windows(void **state)
{
    (void)state;
    keys_start(&kit, 1, (struct tg_key_limits){.rpm = 1, .tpm = 100});
    keys_unsent(&kit, keys_acquire(&kit, 100, 0), 3000);
    assert_int_equal(keys_metrics(&kit, 0, 3000).rpm_remaining, 1);
    assert_int_equal(keys_metrics(&kit, 0, 3000).tpm_remaining, 100);
    tg_key_lease lease = keys_acquire(&kit, 100, 3000);
    assert_true(lease != 0);
    keys_end(&kit, lease, 3000, TG_KEY_CANCELLED); /* sent, so it stays */
    assert_int_equal(keys_metrics(&kit, 0, 3000).rpm_remaining, 0);
    assert_int_equal(keys_metrics(&kit, 0, 3000).tpm_remaining, 0);
    keys_close(&kit);
}

static void an_unknown_usage_leaves_the_estimate(void **state)
{
    (void)state;
    keys_start(&kit, 1, (struct tg_key_limits){.tpm = 100});
    keys_settle(&kit, keys_acquire(&kit, 60, 0), 0, -1);
    assert_int_equal(keys_metrics(&kit, 0, 0).tpm_remaining, 40);
    keys_settle(&kit, keys_acquire(&kit, 40, 0), 0, 0); /* none is not unknown */
    assert_int_equal(keys_metrics(&kit, 0, 0).tpm_remaining, 40);
    keys_close(&kit);
}

static void an_estimate_near_2_32_is_not_admitted(void **state)
{
    static const int64_t wrong[] = {INT64_C(4294897295), INT64_C(4294967296), INT64_C(4294967295),
                                    TG_NUMBER_MAX, TG_NUMBER_MAX + 1, INT64_MAX,
                                    INT64_MIN, -1, -80000};
    (void)state;
    keys_start(&kit, 1, (struct tg_key_limits){.tpm = 90000});
    assert_true(keys_acquire(&kit, 80000, 0) != 0);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_int_equal(keys_acquire(&kit, wrong[i], 0), 0);
        assert_true(kit.answer.too_large);
        assert_int_equal(kit.answer.retry_after_ms, TG_UNSATISFIABLE);
    }
    assert_int_equal(keys_metrics(&kit, 0, 0).tpm_inflight, 80000);
    assert_true(keys_acquire(&kit, 10000, 0) != 0);
    keys_close(&kit);
}

static void a_call_larger_than_every_key_is_told_so(void **state)
{
    (void)state;
    keys_init(&kit, 3, (struct tg_key_limits){.tpm = 1000});
    kit.keys[1].limits.tpm = 2000;
    kit.keys[2].limits.tpm = 5000;
    kit.keys[2].group = "g";
    kit.group.limits.tpm = 500;
    keys_open(&kit);
    assert_int_equal(keys_acquire(&kit, 2001, 0), 0); /* the third would, its group would not */
    assert_true(kit.answer.too_large);
    assert_int_equal(kit.answer.retry_after_ms, TG_UNSATISFIABLE);
    assert_true(keys_acquire(&kit, 2000, 0) != 0);
    assert_int_equal(keys_acquire(&kit, 2000, 0), 0);
    assert_false(kit.answer.too_large);
    keys_close(&kit);
}

static void calls_at_once_are_bounded(void **state)
{
    (void)state;
    keys_start(&kit, 2, (struct tg_key_limits){.concurrency = 3});
    tg_key_lease leases[6];
    for (size_t i = 0; i < 6; i++)
        assert_true((leases[i] = keys_acquire(&kit, 5, 10)) != 0);
    assert_int_equal(keys_acquire(&kit, 5, 10), 0);
    assert_int_equal(kit.answer.retry_after_ms, 1); /* no call has ended yet: nobody knows */
    keys_end(&kit, leases[2], 4010, TG_KEY_OK);
    assert_true(keys_acquire(&kit, 5, 4010) != 0);
    assert_int_equal(keys_acquire(&kit, 5, 4010), 0);
    assert_in_range(kit.answer.retry_after_ms, 1, 500); /* the mean is 4000 / 8, as yet */
    keys_close(&kit);
}

/* Leases are held for a moving mean of eight: one of 800 ms makes it 100 ms, one more of 1700 ms
 * makes it 300 ms. That is when a key that is full by calls is expected back. */
static void a_full_key_is_expected_back_after_the_mean_of_eight(void **state)
{
    (void)state;

    keys_start(&kit, 1, (struct tg_key_limits){.concurrency = 1});
    keys_end(&kit, keys_take(&kit, 0, 1, 0), 800, TG_KEY_OK);
    tg_key_lease lease = keys_take(&kit, 0, 1, 1000);
    assert_int_equal(keys_acquire(&kit, 1, 1010), 0);
    assert_int_equal(kit.answer.retry_after_ms, 90);
    keys_end(&kit, lease, 2700, TG_KEY_OK);
    lease = keys_take(&kit, 0, 1, 3000);
    assert_int_equal(keys_acquire(&kit, 1, 3000), 0);
    assert_int_equal(kit.answer.retry_after_ms, 300);
    keys_unsent(&kit, lease, 9000); /* says nothing of how long calls take */
    keys_take(&kit, 0, 1, 9000);
    assert_int_equal(keys_acquire(&kit, 1, 9000), 0);
    assert_int_equal(kit.answer.retry_after_ms, 300);
    keys_close(&kit);
}

static void a_limit_of_billions_takes_no_memory(void **state)
{
    (void)state;
    keys_start(&kit, 2, (struct tg_key_limits){TG_NUMBER_MAX, TG_NUMBER_MAX, TG_NUMBER_MAX});
    assert_true(keys_acquire(&kit, TG_NUMBER_MAX, 0) != 0);
    assert_true(keys_acquire(&kit, TG_NUMBER_MAX, 0) != 0);
    assert_int_equal(keys_acquire(&kit, 1, 0), 0);
    keys_close(&kit);
}

static void keys_of_a_group_share_its_limits(void **state)
{
    (void)state;
    keys_init(&kit, 4, NO_LIMITS);
    kit.keys[0].group = kit.keys[1].group = kit.keys[2].group = "g";
    kit.group.limits = (struct tg_key_limits){.rpm = 5, .tpm = 100, .concurrency = 2};
    keys_open(&kit);
    tg_key_lease a = keys_take(&kit, 0, 30, 0), b = keys_take(&kit, 1, 30, 0);
    for (int i = 0; i < 20; i++) {
        tg_key_lease lease = keys_acquire(&kit, 1, 0);
        assert_int_equal(keys_got(&kit), 3); /* two of the group are running */
        keys_end(&kit, lease, 0, TG_KEY_OK);
    }
    keys_end(&kit, a, 0, TG_KEY_OK);
    keys_end(&kit, b, 0, TG_KEY_OK);
    for (int i = 0; i < 20; i++) {
        keys_end(&kit, keys_acquire(&kit, 41, 0), 0, TG_KEY_OK);
        assert_int_equal(keys_got(&kit), 3); /* 60 of 100 tokens are used */
    }
    for (int i = 0; i < 3; i++)
        keys_end(&kit, keys_take(&kit, 2, 1, 0), 0, TG_KEY_OK);
    for (int i = 0; i < 20; i++) {
        keys_end(&kit, keys_acquire(&kit, 0, 60999), 60999, TG_KEY_OK);
        assert_int_equal(keys_got(&kit), 3); /* and now five calls */
    }
    keys_end(&kit, keys_take(&kit, 0, 100, 61000), 61000, TG_KEY_OK);
    keys_close(&kit);
}

static void a_group_spans_pools_and_a_keys_own_limits_do_not(void **state)
{
    struct tg_pool_spec pools[2];
    struct tg_key_call call;
    struct tg_key_answer answer;
    (void)state;
    keys_init(&kit, 1, (struct tg_key_limits){.rpm = 2});
    kit.keys[0].group = "g";
    kit.group.limits.rpm = 3;
    pools[0] = pools[1] = kit.pool_spec;
    pools[1].model = "other";
    kit.spec.pools = pools;
    kit.spec.n_pools = 2;
    keys_open(&kit);
    struct tg_pool *other = tg_keyring_pool(kit.ring, "p", "other");
    tg_key_call_init(&call);
    assert_true(keys_acquire(&kit, 0, 0) != 0);
    assert_true(keys_acquire(&kit, 0, 0) != 0);
    assert_int_equal(keys_acquire(&kit, 0, 0), 0);
    tg_pool_acquire(other, &call, 0, &answer);
    assert_true(answer.lease != 0);
    tg_pool_acquire(other, &call, 0, &answer);
    assert_true(answer.lease == 0); /* the group's three */
    keys_close(&kit);
}

static void an_empty_pool_has_no_key(void **state)
{
    (void)state;
    keys_start(&kit, 0, NO_LIMITS);
    assert_int_equal(keys_acquire(&kit, 0, 0), 0);
    assert_int_equal(kit.answer.retry_after_ms, TG_UNSATISFIABLE);
    assert_false(kit.answer.all_cooling);
    assert_false(kit.answer.too_large);
    assert_null(tg_keyring_pool(kit.ring, "p", "n"));
    assert_null(tg_keyring_pool(kit.ring, "q", "m"));
    keys_close(&kit);
}

static void a_clock_that_goes_back_counts_as_standing_still(void **state)
{
    (void)state;
    keys_start(&kit, 1, (struct tg_key_limits){.rpm = 2});
    assert_true(keys_acquire(&kit, 0, 100000) != 0);
    assert_true(keys_acquire(&kit, 0, 30000) != 0);
    assert_true(keys_acquire(&kit, 0, -5) == 0);
    assert_int_equal(kit.answer.retry_after_ms, 61000); /* both count as of 100000 */
    assert_true(keys_acquire(&kit, 0, 161000) != 0);
    keys_close(&kit);
}

static void a_lease_ends_once(void **state)
{
    struct tg_key_report report;
    (void)state;
    keys_start(&kit, 1, (struct tg_key_limits){.tpm = 100});
    tg_key_report_init(&report);
    report.tokens = 0;
    tg_key_lease first = keys_acquire(&kit, 60, 0);
    assert_true(tg_keyring_release(kit.ring, first, 0, &report));
    tg_key_lease second = keys_acquire(&kit, 60, 0);
    assert_true(second != first);
    assert_false(tg_keyring_release(kit.ring, first, 0, &report));
    assert_false(tg_keyring_release(kit.ring, 0, 0, &report));
    assert_false(tg_keyring_release(kit.ring, UINT64_MAX, 0, &report));
    assert_false(tg_keyring_release(kit.ring, second + 1, 0, &report));
    assert_int_equal(keys_metrics(&kit, 0, 0).tpm_inflight, 60);
    assert_true(tg_keyring_release(kit.ring, second, 0, &report));
    assert_int_equal(keys_metrics(&kit, 0, 0).in_flight, 0);
    keys_close(&kit);
}

static void a_latency_below_a_millisecond_is_told(void **state)
{
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    assert_true(keys_metrics(&kit, 0, 0).latency_ms == 0); /* nothing is known */
    keys_end_ok(&kit, keys_acquire(&kit, 0, 0), 1, 0.25);
    assert_true(keys_metrics(&kit, 0, 1).latency_ms == 0.25);
    keys_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_of_tokens_is_by_the_minute_and_not_by_what_runs),
        cmocka_unit_test(what_was_charged_within_a_second_leaves_with_that_second),
        cmocka_unit_test(calls_beyond_the_minute_are_counted_as_in_flight_too),
        cmocka_unit_test(a_settlement_corrects_the_second_that_was_charged),
        cmocka_unit_test(more_than_estimated_becomes_debt_and_does_not_wrap),
        cmocka_unit_test(debts_beyond_all_bounds_saturate),
        cmocka_unit_test(tokens_without_a_limit_cannot_overflow_either),
        cmocka_unit_test(what_was_not_sent_is_given_back_to_the_windows),
        cmocka_unit_test(an_unknown_usage_leaves_the_estimate),
        cmocka_unit_test(an_estimate_near_2_32_is_not_admitted),
        cmocka_unit_test(a_call_larger_than_every_key_is_told_so),
        cmocka_unit_test(calls_at_once_are_bounded),
        cmocka_unit_test(a_full_key_is_expected_back_after_the_mean_of_eight),
        cmocka_unit_test(a_limit_of_billions_takes_no_memory),
        cmocka_unit_test(keys_of_a_group_share_its_limits),
        cmocka_unit_test(a_group_spans_pools_and_a_keys_own_limits_do_not),
        cmocka_unit_test(an_empty_pool_has_no_key),
        cmocka_unit_test(a_clock_that_goes_back_counts_as_standing_still),
        cmocka_unit_test(a_lease_ends_once),
        cmocka_unit_test(a_latency_below_a_millisecond_is_told),
    };
    return cmocka_run_group_tests_name("keypool_capacity", tests, NULL, NULL);
}
