/* test_output_speed_threads.c - how fast a model writes: the fastest of the last calls, whoever
 * would like it to be less.
 */
#include "server/upstream/output_speed.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "lib/core/random.h"

#define STATED 5000.0

static struct output_speed *speed;

/* `n` calls of tenants `first`, `first` + 1, ... in turn, all as fast. */
static void add_calls(int n, uint32_t first, uint32_t tenants, int64_t tokens_per_s)
{
    for (int i = 0; i < n; i++)
        output_speed_add(speed, first + (uint32_t)i % tenants, 10 * tokens_per_s, 10000);
}

static void begin(void)
{
    speed = output_speed_new();
    assert_non_null(speed);
}

static void end(void)
{
    output_speed_unref(speed);
}

static void the_stated_rate_holds_below_300_calls(void **state)
{
    (void)state;
    begin();
    assert_true(output_speed_of(speed, STATED) == STATED);
    add_calls(299, 0, 10, 80);
    assert_true(output_speed_of(speed, STATED) == STATED);
    add_calls(1, 0, 1, 80);
    assert_true(output_speed_of(speed, STATED) == 1.25 * 80);
    assert_true(output_speed_of(speed, 90) == 90); /* nothing is faster than what is stated */
    end();
}

static void the_fastest_counts_until_a_thousand_others_have_ended(void **state)
{
    (void)state;
    begin();
    add_calls(400, 0, 10, 80);
    add_calls(1, 0, 1, 200);
    assert_true(output_speed_of(speed, STATED) == 1.25 * 200);
    add_calls(999, 0, 10, 80);
    assert_true(output_speed_of(speed, STATED) == 1.25 * 200);
    add_calls(1, 0, 10, 80);
    assert_true(output_speed_of(speed, STATED) == 1.25 * 80);
    end();
}

static void a_short_reply_says_nothing(void **state)
{
    (void)state;
    begin();
    add_calls(300, 0, 10, 80);
    output_speed_add(speed, 1, 255, 1);
    assert_true(output_speed_of(speed, STATED) == 1.25 * 80);
    output_speed_add(speed, 1, 256, 1000);
    assert_true(output_speed_of(speed, STATED) == 1.25 * 256);
    end();
}

/* Two tenants together cannot push out what a third has shown, however many slow calls they make:
 * only its own later calls can. */
static void one_tenant_gives_a_third_at_most(void **state)
{
    (void)state;
    begin();
    add_calls(334, 0, 1, 150);
    add_calls(2000, 1, 2, 30);
    assert_true(output_speed_of(speed, STATED) == 1.25 * 150);
    add_calls(332, 0, 1, 30);
    assert_true(output_speed_of(speed, STATED) == 1.25 * 150);
    add_calls(1, 0, 1, 30);
    assert_true(output_speed_of(speed, STATED) == 1.25 * 30);
    end();
}

static void a_call_that_took_no_time_is_as_fast_as_is_stated(void **state)
{
    (void)state;
    begin();
    add_calls(299, 0, 10, 80);
    output_speed_add(speed, 1, INT64_C(1) << 40, 0);
    assert_true(output_speed_of(speed, STATED) == STATED);
    assert_int_equal(output_speed_tokens(STATED, 1), 5);
    assert_int_equal(output_speed_tokens(0.1, 1), 1); /* rounded up */
    assert_int_equal(output_speed_tokens(STATED, -1), 0);
    assert_int_equal(output_speed_tokens(1e300, TG_NUMBER_MAX), TG_NUMBER_MAX);
    end();
}

/* The same by a list that is searched anew for each question. */
static void it_agrees_with_its_definition(void **state)
{
    enum { CALLS = 6000 };
    static struct {
        uint32_t tenant;
        int64_t tokens_per_s;
        bool gone;
    } list[CALLS];
    struct random random;
    uint64_t seed = 20261117;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    random_init(&random, seed, 1);
    begin();
    for (int n = 0; n < CALLS; n++) {
        int64_t fastest = 0;
        int own = 0, all = 0, oldest = -1, oldest_own = -1;
        list[n].tenant = random_bits(&random) % 4 ? 7 : (uint32_t)(random_bits(&random) % 5);
        list[n].tokens_per_s = (int64_t)(random_bits(&random) % 1000) + 26;
        for (int i = n - 1; i >= 0; i--)
            if (!list[i].gone) {
                all++, oldest = i;
                if (list[i].tenant == list[n].tenant)
                    own++, oldest_own = i;
            }
        if (own == 333)
            list[oldest_own].gone = true;
        else if (all == 1000)
            list[oldest].gone = true;
        add_calls(1, list[n].tenant, 1, list[n].tokens_per_s);
        all = 0;
        for (int i = 0; i <= n; i++)
            if (!list[i].gone) {
                all++;
                fastest = list[i].tokens_per_s > fastest ? list[i].tokens_per_s : fastest;
            }
        double expected = all < 300 ? STATED : 1.25 * (double)fastest;
        if (output_speed_of(speed, STATED) != expected)
            fail_msg("after %d calls: %g and not %g", n + 1, output_speed_of(speed, STATED),
                     expected);
    }
    end();
}

static void *add_and_ask(void *tenant)
{
    for (int i = 0; i < 2000; i++) {
        output_speed_add(speed, *(uint32_t *)tenant, 1000, 10000);
        double now = output_speed_of(speed, STATED);
        if (now != 125 && now != STATED)
            return tenant;
    }
    output_speed_unref(speed);
    return NULL;
}

static void threads_may_add_and_ask(void **state)
{
    pthread_t threads[4];
    uint32_t tenants[4] = {1, 2, 3, 4};
    void *wrong;

    (void)state;
    begin();
    for (int i = 0; i < 4; i++) {
        output_speed_ref(speed);
        assert_int_equal(pthread_create(&threads[i], NULL, add_and_ask, &tenants[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    assert_true(output_speed_of(speed, STATED) == 125);
    end();
    output_speed_unref(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stated_rate_holds_below_300_calls),
        cmocka_unit_test(the_fastest_counts_until_a_thousand_others_have_ended),
        cmocka_unit_test(a_short_reply_says_nothing),
        cmocka_unit_test(one_tenant_gives_a_third_at_most),
        cmocka_unit_test(a_call_that_took_no_time_is_as_fast_as_is_stated),
        cmocka_unit_test(it_agrees_with_its_definition),
        cmocka_unit_test(threads_may_add_and_ask),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
