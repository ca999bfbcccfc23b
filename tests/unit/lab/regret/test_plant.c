/* test_plant.c - the server in virtual time does what queues do, and the same each time. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "lab/regret/plant.h"

struct shop {
    struct plant_load load;
    int64_t limit;
    int64_t peak, given_back, ticks;
    double first_bytes, totals, change_ms;
    int64_t workers_after;
    double trace; /* checksum of everything seen, weighted by when */
};

static void shop_load(void *context, double now_ms, struct plant_load *load)
{
    struct shop *shop = context;

    *load = shop->load;
    if (shop->change_ms > 0 && now_ms >= shop->change_ms)
        load->workers = shop->workers_after;
}

static bool shop_may_start(void *context, tg_ms now, int64_t in_flight)
{
    struct shop *shop = context;

    (void)now;
    if (in_flight >= shop->limit)
        return false;
    if (in_flight + 1 > shop->peak)
        shop->peak = in_flight + 1;
    return true;
}

static void shop_finished(void *context, const struct plant_end *end)
{
    struct shop *shop = context;

    assert_true(end->in_flight >= 1 && end->in_flight <= shop->peak);
    assert_true(end->in_flight_at_start >= 1 && end->in_flight_at_start <= shop->peak);
    assert_true(end->first_byte_ms <= end->total_ms);
    assert_true(fabs((double)end->sojourn_ms - end->total_ms) <= 1);
    shop->first_bytes += end->first_byte_ms;
    shop->totals += end->total_ms;
    shop->trace = shop->trace * 0.999 + (double)end->now + end->total_ms;
}

static void shop_given_back(void *context, tg_ms now, int64_t in_flight)
{
    struct shop *shop = context;

    (void)now;
    assert_true(in_flight >= 1);
    shop->given_back++;
}

static void shop_tick(void *context, tg_ms now, int64_t in_flight)
{
    struct shop *shop = context;

    (void)in_flight;
    assert_int_equal(now, 1000 * shop->ticks++);
}

static struct plant_result run(struct shop *shop, uint64_t seed, double until_ms)
{
    struct plant_subject subject = {shop, shop_load, shop_may_start, shop_finished,
                                    shop_given_back, shop_tick, 1000};
    struct plant_result result;

    assert_int_equal(plant_run(&subject, seed, until_ms, &result), TG_OK);
    return result;
}

static struct shop shop_of(double load)
{
    return (struct shop){
        .load = {.workers = 16,
                 .arrivals_per_ms = 1.6 * load,
                 .service_ms = 10,
                 .service_cv = 0.7,
                 .reject_cost = 0.02,
                 .deadline_ms = 100},
        .limit = INT64_MAX,
    };
}

static void the_same_seed_is_the_same_run(void **state)
{
    struct shop a = shop_of(0.8), b = shop_of(0.8), c = shop_of(0.8);
    struct plant_result x = run(&a, 3, 20000), y = run(&b, 3, 20000), z = run(&c, 4, 20000);
    (void)state;

    assert_memory_equal(&x, &y, sizeof(x));
    assert_true(a.trace >= b.trace && a.trace <= b.trace);
    assert_true(x.offered != z.offered || a.trace < c.trace || a.trace > c.trace);
    assert_int_equal(a.ticks, 21);
}

static void below_capacity_all_is_done_in_service_time(void **state)
{
    struct shop shop = shop_of(0.3);
    struct plant_result result = run(&shop, 1, 100000);
    double mean = shop.totals / (double)result.finished;
    (void)state;

    assert_true(fabs((double)result.offered - 48000) < 1000);
    assert_int_equal(result.refused, 0);
    assert_true(mean > 9.8 && mean < 10.3);
    assert_true(result.good > result.finished * 99 / 100);
}

/* A limit of two calls a worker loses nothing but what refusing costs: (cap - .02 lam) / .98. */
static void above_capacity_a_limit_keeps_it_working(void **state)
{
    struct shop shop = shop_of(2);
    struct plant_result result;
    (void)state;

    shop.limit = 32;
    result = run(&shop, 1, 100000);
    assert_int_equal(shop.peak, 32);
    assert_true(fabs((double)result.good / 100 - (1600 - 0.02 * 3200) / 0.98) < 16);
}

static void above_capacity_without_a_limit_nothing_is_good(void **state)
{
    struct shop shop = shop_of(2);
    struct plant_result result = run(&shop, 1, 100000);
    (void)state;

    assert_true(result.finished > 150000);
    assert_true(result.good < 1000);
}

static void a_delay_holds_a_place_and_no_worker(void **state)
{
    struct shop shop = shop_of(0.3);
    struct plant_result result;
    (void)state;

    shop.load.delay_ms = 500;
    result = run(&shop, 1, 100000);
    assert_true(shop.peak > 200);
    assert_true(shop.first_bytes / (double)result.finished < 10.3);
    assert_true(shop.totals / (double)result.finished > 490);
}

static void workers_that_leave_finish_first(void **state)
{
    struct shop shop = shop_of(0.9);
    struct plant_result result;
    (void)state;

    shop.limit = 32;
    shop.change_ms = 50000;
    shop.workers_after = 8;
    result = run(&shop, 1, 100000);
    assert_true(result.good > (1400 + 760) * 50 && result.good < (1440 + 800) * 50);
}

static void a_denied_call_needs_no_worker(void **state)
{
    struct shop shop = shop_of(0.5);
    struct plant_result result;
    (void)state;

    shop.load.denied = 1;
    shop.load.denied_ms = 1;
    result = run(&shop, 1, 10000);
    assert_int_equal(result.finished, 0);
    assert_int_equal(result.given_back, shop.given_back);
    assert_true(result.offered - result.given_back < 20);
}

static void nobody_comes_where_the_rate_is_zero(void **state)
{
    struct shop shop = shop_of(0);
    struct plant_result result = run(&shop, 1, 10000);
    (void)state;

    assert_int_equal(result.offered, 0);
    assert_int_equal(shop.ticks, 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_is_the_same_run),
        cmocka_unit_test(below_capacity_all_is_done_in_service_time),
        cmocka_unit_test(above_capacity_a_limit_keeps_it_working),
        cmocka_unit_test(above_capacity_without_a_limit_nothing_is_good),
        cmocka_unit_test(a_delay_holds_a_place_and_no_worker),
        cmocka_unit_test(workers_that_leave_finish_first),
        cmocka_unit_test(a_denied_call_needs_no_worker),
        cmocka_unit_test(nobody_comes_where_the_rate_is_zero),
    };
    return cmocka_run_group_tests_name("plant", tests, NULL, NULL);
}
