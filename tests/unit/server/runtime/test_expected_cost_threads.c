/* test_expected_cost_threads.c - what part of its bound a call is likely to cost: the 95th
 * percentile of the last 64, of nobody else's calls, and never too little to be worth a bound.
 */
#include "server/runtime/expected_cost.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "lib/core/random.h"

enum { MOST = 1000000 };

static struct expected_cost *expected;

static void begin(void)
{
    expected = expected_cost_new(7);
    assert_non_null(expected);
}

static void end(void)
{
    expected_cost_free(expected);
}

static uint64_t pair_of(const char *tenant)
{
    return expected_cost_pair(expected, tenant, "model", "provider");
}

static void add_calls(int n, uint64_t pair, int64_t share)
{
    for (int i = 0; i < n; i++)
        expected_cost_add(expected, pair, share * (MOST / 1000), MOST);
}

static void the_bound_holds_below_16_calls(void **state)
{
    (void)state;
    begin();
    assert_int_equal(expected_cost_share(expected, pair_of("a")), 1000);
    add_calls(15, pair_of("a"), 200);
    assert_int_equal(expected_cost_share(expected, pair_of("a")), 1000);
    add_calls(1, pair_of("a"), 200);
    assert_int_equal(expected_cost_share(expected, pair_of("a")), 200);
    assert_int_equal(expected_cost_share(expected, pair_of("b")), 1000);
    assert_int_equal(
        expected_cost_share(expected, expected_cost_pair(expected, "a", "model", "other")), 1000);
    end();
}

static void the_share_is_between_a_twentieth_and_all(void **state)
{
    (void)state;
    begin();
    add_calls(64, pair_of("a"), 0);
    assert_int_equal(expected_cost_share(expected, pair_of("a")), EXPECTED_COST_LEAST);
    add_calls(64, pair_of("a"), 5000);
    assert_int_equal(expected_cost_share(expected, pair_of("a")), 1000);
    for (int i = 0; i < 64; i++)
        expected_cost_add(expected, pair_of("a"), 1, 9); /* rounded up */
    assert_int_equal(expected_cost_share(expected, pair_of("a")), 112);
    end();
}

static int compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Against its definition, over many times the ring. */
static void it_is_the_95th_percentile_of_the_last_64(void **state)
{
    const uint64_t seed = 20261117;
    struct random random;
    int64_t all[500], last[64];

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    random_init(&random, seed, 1);
    begin();
    for (size_t n = 1; n <= COUNT_OF(all); n++) {
        all[n - 1] = EXPECTED_COST_LEAST + (int64_t)(random_bits(&random) % 951);
        add_calls(1, pair_of("a"), all[n - 1]);
        size_t kept = n < 64 ? n : 64;
        for (size_t i = 0; i < kept; i++)
            last[i] = all[n - kept + i];
        qsort(last, kept, sizeof last[0], compare_numbers);
        size_t within = 0; /* the least that 95 of 100 do not exceed */
        while (100 * (within + 1) < 95 * kept)
            within++;
        int64_t want = n < 16 ? 1000 : last[within];
        if (expected_cost_share(expected, pair_of("a")) != want)
            fail_msg("call %zu", n);
    }
    end();
}

/* 20,000 tenants in a table of 1,024: whoever was replaced is reserved in full again. */
static void memory_is_bounded(void **state)
{
    char name[20];
    int known = 0;

    (void)state;
    begin();
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "t%d", i);
        add_calls(16, pair_of(name), 300);
        assert_int_equal(expected_cost_share(expected, pair_of(name)), 300);
    }
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "t%d", i);
        int64_t share = expected_cost_share(expected, pair_of(name));
        assert_true(share == 300 || share == 1000);
        known += share == 300;
    }
    assert_in_range(known, 900, 1024);
    end();
}

/* What fits by the one fits by the other, and one more does not. */
static void parts_and_wholes_belong_together(void **state)
{
    const uint64_t seed = 20261117;
    struct random random;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    random_init(&random, seed, 1);
    for (int i = 0; i < 100000; i++) {
        tg_micro part = (tg_micro)(random_bits(&random) >> (2 + random_bits(&random) % 60));
        int64_t share = EXPECTED_COST_LEAST + (int64_t)(random_bits(&random) % 951);
        if (part > TG_MONEY_MAX)
            continue;
        tg_micro whole = expected_cost_whole(part, share);
        if (expected_cost_part(whole, share) > part ||
            (whole < TG_MONEY_MAX && expected_cost_part(whole + 1, share) <= part) ||
            expected_cost_part(part, 1000) != part || expected_cost_whole(part, 1000) != part)
            fail_msg("%lld, %lld", (long long)part, (long long)share);
    }
    assert_int_equal(expected_cost_whole(TG_MONEY_MAX, 50), TG_MONEY_MAX);
}

/* Tenants whose pairs take each other's places never read another's share. */
static void *run(void *context)
{
    char name[30];

    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "%s%d", (const char *)context, i % 700);
        int64_t own = 100 * (((const char *)context)[0] - 'a' + 1), share;
        expected_cost_add(expected, pair_of(name), own, 1000);
        share = expected_cost_share(expected, pair_of(name));
        if (share != own && share != 1000)
            return context;
    }
    return NULL;
}

static void threads_read_their_own(void **state)
{
    static char *const names[] = {"a", "b", "c", "d"};
    pthread_t threads[COUNT_OF(names)];
    void *failed;

    (void)state;
    begin();
    for (size_t i = 0; i < COUNT_OF(names); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, names[i]), 0);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bound_holds_below_16_calls),
        cmocka_unit_test(the_share_is_between_a_twentieth_and_all),
        cmocka_unit_test(it_is_the_95th_percentile_of_the_last_64),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(parts_and_wholes_belong_together),
        cmocka_unit_test(threads_read_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
