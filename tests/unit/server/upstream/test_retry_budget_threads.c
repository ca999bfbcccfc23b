/* test_retry_budget_threads.c - threads that earn and take at once: no retry is given out twice,
 * and none that was earned is lost.
 */
#include "check.h"

#include <string.h>

#include "crew.h"
#include "server/config/config.h"
#include "server/upstream/retry_budget.h"

enum { THREADS = 4,
       CALLS = 20000,
       EVERY = 5 };

static struct {
    struct config config;
    struct retry_budget budget;
    atomic_llong taken;
} world;

/* A budget that is full earns nothing more, so each takes what it can as it goes. */
static void call_and_retry(void *context, size_t i, size_t round)
{
    (void)context, (void)i, (void)round;
    for (int call = 0; call < CALLS; call++) {
        retry_budget_earn(&world.budget, &world.config, 1);
        if (call % EVERY == EVERY - 1 && retry_budget_take(&world.budget, &world.config, 1))
            atomic_fetch_add(&world.taken, 1);
    }
}

static void no_retry_is_given_out_twice(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    world.config.retry_ratio = 0.2;
    world.config.n_tenants = 1;
    crew_run(THREADS, 1, call_and_retry, NULL);
    while (retry_budget_take(&world.budget, &world.config, 1))
        world.taken++;
    assert_int_equal(atomic_load(&world.taken), THREADS * CALLS / EVERY);
    assert_int_equal(atomic_load(&world.budget.millionths), 0);
}

/* Time is added by one of them, once. */
static atomic_llong from_time;

static void take_only(void *context, size_t i, size_t round)
{
    (void)context, (void)i;
    while (retry_budget_take(&world.budget, &world.config, 1000 * (tg_ms)(round + 1)))
        atomic_fetch_add(&from_time, 1);
}

static void time_is_added_once(void **state)
{
    enum { ROUNDS = 200,
           PER_S = 100 };

    (void)state;
    memset(&world, 0, sizeof world);
    world.config.retry_min_per_s = PER_S;
    world.config.n_tenants = 1;
    crew_run(THREADS, ROUNDS, take_only, NULL);
    assert_int_equal(atomic_load(&from_time), ROUNDS * PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_retry_is_given_out_twice),
        cmocka_unit_test(time_is_added_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
