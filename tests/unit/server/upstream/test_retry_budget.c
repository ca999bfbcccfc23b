/* test_retry_budget.c - what a tenant's calls and time earn, and that nothing else moves it. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "server/config/config.h"
#include "server/upstream/retry_budget.h"

static const tg_ms START = 1800000000000;

static struct config config_of(double ratio, int64_t min_per_s, size_t n_tenants)
{
    struct config config;

    memset(&config, 0, sizeof config);
    config.retry_ratio = ratio;
    config.retry_min_per_s = min_per_s;
    config.n_tenants = n_tenants;
    return config;
}

static int64_t take_all(struct retry_budget *budget, const struct config *config, tg_ms now)
{
    int64_t n = 0;

    while (n < 100000 && retry_budget_take(budget, config, now))
        n++;
    return n;
}

/* Its part of what time gives: at once as much as in a second, but no less than three, since calls
 * are retried twice and tenants are many; then by the second. */
static void time_gives_each_tenant_its_part(void **state)
{
    static const struct {
        int64_t min_per_s;
        size_t tenants;
        int64_t at_once, in_10_s; /* asked every 100 ms */
    } rows[] = {
        {10, 1, 10, 100},
        {10, 10, 3, 10},
        {10, 40, 3, 2},
        {10, 1000, 3, 0},
        {0, 1, 0, 0},
        {1000, 2, 500, 5000},
        {1, 3, 3, 3},
        {1000000000, 20000, 50000, 500000},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct config config = config_of(0, rows[i].min_per_s, rows[i].tenants);
        struct retry_budget budget = {0};
        int64_t got = 0;

        assert_int_equal(take_all(&budget, &config, START), rows[i].at_once);
        for (tg_ms ms = 100; ms <= 10000; ms += 100)
            got += take_all(&budget, &config, START + ms);
        assert_in_range(rows[i].in_10_s - got, 0, rows[i].in_10_s / 100 + 1); /* by rounding */
    }
}

static void what_time_gives_is_not_saved_up(void **state)
{
    const struct config config = config_of(0, 10, 10);
    struct retry_budget budget = {0};

    (void)state;
    assert_int_equal(take_all(&budget, &config, START), 3);
    assert_int_equal(take_all(&budget, &config, START + 1000), 1);
    assert_int_equal(take_all(&budget, &config, START + 86400000), RETRY_BUDGET_IDLE);
    assert_int_equal(take_all(&budget, &config, START), 0); /* a clock that steps back gives none */
    assert_int_equal(take_all(&budget, &config, START + 86400000), 0);
}

static void calls_earn_their_ratio(void **state)
{
    const struct config config = config_of(0.2, 0, 5);
    struct retry_budget budget = {0};

    (void)state;
    for (int i = 0; i < 4; i++)
        retry_budget_earn(&budget, &config, START);
    assert_false(retry_budget_take(&budget, &config, START));
    retry_budget_earn(&budget, &config, START);
    assert_true(retry_budget_take(&budget, &config, START));
    assert_false(retry_budget_take(&budget, &config, START));
    for (int i = 0; i < 1000000; i++) /* and are saved up to a bound */
        retry_budget_earn(&budget, &config, START);
    assert_int_equal(take_all(&budget, &config, START), 1000);
}

/* Over any run of calls and takes: retries <= ratio x calls + min_per_s / n x time + what a tenant
 * finds at first. */
static void retries_stay_within_what_was_earned(void **state)
{
    struct draw draw = draw_stream(draw_seed("test_retry_budget"), 0);

    (void)state;
    for (int round = 0; round < 200; round++) {
        const struct config config =
            config_of(draw_unit(&draw), draw_between(&draw, 0, 50),
                      (size_t)draw_between(&draw, 1, 20));
        struct retry_budget budget = {0};
        double part = (double)config.retry_min_per_s / (double)config.n_tenants;
        double first = part == 0 ? 0 : part > 3 ? part
                                                : 3;
        int64_t calls = 0, retries = 0;
        tg_ms ms = 0;

        for (int i = 0; i < 500; i++) {
            ms += draw_between(&draw, 0, 300);
            if (draw_chance(&draw, 50)) {
                retry_budget_earn(&budget, &config, START + ms);
                calls++;
            } else {
                retries += retry_budget_take(&budget, &config, START + ms);
            }
            assert_true((double)retries <= config.retry_ratio * (double)calls +
                                               part * (double)ms / 1000 + first + 1e-6);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_gives_each_tenant_its_part),
        cmocka_unit_test(what_time_gives_is_not_saved_up),
        cmocka_unit_test(calls_earn_their_ratio),
        cmocka_unit_test(retries_stay_within_what_was_earned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
