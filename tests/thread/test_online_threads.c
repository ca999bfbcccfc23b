/* test_online_threads.c - prices that move, asked and told by many threads at once.
 *
 * Every number that is taken or given back is a whole number of 2^-20 of its budget, so sums are
 * exact in any order: what is left at the end must be right to the last bit. To see it, the test
 * has the prices' own file inside.
 */
#include "lib/policy/online.c"

#include "crew.h"
#include "draw.h"
#include "fluid_kit.h"

enum { THREADS = 4, ROUNDS = 40, CALLS = 250, UNITS = 1 << 20 };

static uint64_t seed;

struct shared {
    struct online *online;
    bool steady;
    int64_t taken[CREW_MAX][AXES]; /* by each thread, less what it gave back */
    bool odd[CREW_MAX];            /* it has seen prices that are none */
};

static struct online *must_online(bool steady)
{
    struct online *online = NULL;
    struct tg_bid_config config;

    tg_bid_config_init(&config);
    config.online.rate_budget = UNITS;
    config.online.cost_budget = UNITS;
    config.online.conc_budget_s = UNITS;
    config.online.steady = steady;
    assert_int_equal(online_new(&config, &online, NULL), TG_OK);
    return online;
}

static void read_prices(struct shared *shared, size_t i)
{
    struct tg_duals duals;

    online_get_duals(shared->online, &duals);
    if (!(duals.rate >= 0 && duals.cost >= 0 && duals.concurrency >= 0 &&
          isfinite(duals.rate + duals.cost + duals.concurrency)))
        shared->odd[i] = true;
}

/* One thread's part of a round, within one window: some calls are admitted, whatever the price
 * says, and most of those end, with more or less than was reckoned. */
static void work(void *context, size_t i, size_t round)
{
    struct shared *shared = context;
    struct draw draw = draw_stream(seed, round * THREADS + i);
    tg_ms now = shared->steady ? 1000 : 1000 * (tg_ms)round; /* a bucket would fill */
    int64_t *taken = shared->taken[i];

    for (int n = 0; n < CALLS; n++) {
        int64_t cost = draw_between(&draw, 0, 90), hold = draw_between(&draw, 0, 90);
        double value = 100 * draw_unit(&draw);
        (void)online_worth(shared->online, (double)cost, value, (double)hold,
                           draw_between(&draw, 0, 20), now);
        read_prices(shared, i);
        if (draw_chance(&draw, 30))
            continue;
        online_admitted(shared->online, (double)cost, value, (double)hold, now);
        taken[RATE] += 1;
        taken[COST] += cost;
        taken[HOLD] += hold;
        if (draw_chance(&draw, 20))
            continue;
        struct tg_spent spent = {now, cost, draw_between(&draw, 0, 90), (double)hold,
                                 (double)draw_between(&draw, 0, 90)};
        online_released(shared->online, &spent, now);
        taken[COST] += spent.actual - cost;
        taken[HOLD] += (int64_t)spent.held_s - hold;
    }
}

static void expect_exact_books(bool steady)
{
    struct shared shared = {.online = must_online(steady), .steady = steady};
    int64_t taken[AXES] = {0};

    crew_run(THREADS, ROUNDS, work, &shared);
    for (size_t i = 0; i < THREADS; i++) {
        assert_false(shared.odd[i]);
        for (int a = 0; a < AXES; a++)
            taken[a] += shared.taken[i][a];
    }
    print_message("taken: %g calls, %g cost, %g slot-seconds of a million each\n",
                  (double)taken[RATE], (double)taken[COST], (double)taken[HOLD]);
    assert_true(taken[RATE] > 10000 && taken[COST] > 100000);
    for (int a = 0; a < AXES; a++)
        assert_true(shared.online->left[a] == 1 - (double)taken[a] / UNITS);
    assert_true(shared.online->forecast.seen == THREADS * ROUNDS * CALLS);
    online_free(shared.online);
}

static void the_books_of_a_window_are_exact(void **state)
{
    (void)state;
    expect_exact_books(false);
}

static void the_books_of_a_bucket_are_exact(void **state)
{
    (void)state;
    expect_exact_books(true);
}

/* Each thread has a clock of its own, now ahead, now behind, and windows begin all the time. */
static void work_in_disorder(void *context, size_t i, size_t round)
{
    struct shared *shared = context;
    struct draw draw = draw_stream(seed, 100000 + round * THREADS + i);

    for (int n = 0; n < CALLS; n++) {
        tg_ms now = (tg_ms)round * 60000 + draw_between(&draw, 10000, 50000);
        double cost = (double)draw_between(&draw, 0, 20000), hold_s = draw_unit(&draw) * 10;
        double value = draw_unit(&draw) * 10;
        if (online_worth(shared->online, cost, value, hold_s, draw_between(&draw, 0, 100), now))
            online_admitted(shared->online, cost, value, hold_s,
                            now + draw_between(&draw, 0, 40000));
        struct tg_spent spent = {now, (int64_t)cost, draw_between(&draw, 0, 20000), hold_s, 1};
        online_released(shared->online, &spent, now + 10);
        read_prices(shared, i);
    }
}

static void clocks_that_disagree_are_harmless(void **state)
{
    (void)state;

    for (int steady = 0; steady < 2; steady++) {
        struct shared shared = {.online = must_online(steady)};
        crew_run(THREADS, ROUNDS, work_in_disorder, &shared);
        for (size_t i = 0; i < THREADS; i++)
            assert_false(shared.odd[i]);
        assert_true(online_worth(shared.online, 1, 1, 0, 0, 100 * 60000));
        online_free(shared.online);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_books_of_a_window_are_exact),
        cmocka_unit_test(the_books_of_a_bucket_are_exact),
        cmocka_unit_test(clocks_that_disagree_are_harmless),
    };
    seed = draw_seed("online_threads");
    return cmocka_run_group_tests_name("online_threads", tests, NULL, NULL);
}
