/* test_online_trace.c - prices that move: how many calls they admit and what they are, to the
 * digit.
 *
 * Whatever the forecast and the prices compute with (weights of moments that are alike, steps of
 * the table, slots that are kept) moves one of these digits. A change of the policy is meant to
 * change this table, and nothing else is.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "draw.h"
#include "lib/policy/online.h"

enum { ROWS = 6,
       KINDS = 5,
       RUNNING_MAX = 64 };

/* Calls come at random, of five kinds; in every other span of `busy_every` three times as many. */
struct world {
    const char *name;
    tg_ms window;
    double rate, cost, slots; /* budgets of a window, and slots; 0: not scarce */
    bool steady;
    bool typed;   /* the kinds are told beforehand */
    double per_s; /* arrivals */
    tg_ms busy_every;
    tg_ms row_every;
    const char *rows[ROWS];
};

static const struct tg_type kinds[KINDS] = {
    {.cost = 10, .value = 1, .weight = 4, .hold_s = 0.1},
    {.cost = 100, .value = 5, .weight = 2, .hold_s = 0.5},
    {.cost = 50, .value = 8, .weight = 1, .hold_s = 2},
    {.cost = 400, .value = 30, .weight = 1, .hold_s = 0.4},
    {.cost = 5, .value = 0.2, .weight = 2, .hold_s = 0.05},
};

struct running {
    tg_ms ends_at;
    int kind;
    double hold_s;
};

static const struct world worlds[] = {
    {"a rate",
     10000,
     200,
     0,
     0,
     false,
     false,
     60,
     0,
     20000,
     {"395 of 1126, 0.8837 0 0",
      "793 of 2270, 1.624 0 0",
      "1191 of 3459, 0.3746 0 0",
      "1587 of 4660, 1.894 0 0",
      "1982 of 5865, 5.524 0 0",
      "2380 of 7104, 12.29 0 0"}},
    {"a cost that is told",
     10000,
     0,
     15000,
     0,
     false,
     true,
     60,
     15000,
     20000,
     {"956 of 1834, 0 0.3559 0",
      "2248 of 4207, 0 0 0",
      "3682 of 7245, 0 0.1137 0",
      "4674 of 9063, 0 0.1514 0",
      "5867 of 11399, 0 0 0",
      "7249 of 14363, 0 0.3604 0"}},
    {"rate and cost",
     10000,
     250,
     12000,
     0,
     false,
     false,
     60,
     7000,
     20000,
     {"501 of 2032, 0 0 0",
      "1001 of 4710, 5.299 0.1483 0",
      "1498 of 7036, 5.811 0 0",
      "1999 of 9397, 34.77 0 0",
      "2498 of 11929, 33.46 0 0",
      "3000 of 14019, 34.39 0 0"}},
    {"slots",
     5000,
     0,
     0,
     6,
     false,
     false,
     40,
     12000,
     15000,
     {"219 of 873, 0 0 10.4",
      "328 of 2182, 0 0 9.283",
      "455 of 3431, 0 0 19.05",
      "588 of 4300, 0 0 18.34",
      "729 of 5914, 0 0 17.46",
      "859 of 7067, 0 0 15.79"}},
    {"all three",
     8000,
     200,
     12000,
     8,
     false,
     true,
     60,
     20000,
     20000,
     {"390 of 1199, 0.04834 0 9.24",
      "851 of 4785, 0 0 32.68",
      "1190 of 5962, 0 0 9.638",
      "1585 of 9513, 0 0 32.02",
      "1914 of 10647, 0 0 9.5",
      "2368 of 14340, 0 0 41.39"}},
    {"buckets",
     10000,
     200,
     15000,
     0,
     true,
     false,
     60,
     15000,
     20000,
     {"534 of 1755, 4.525 0.1374 0",
      "895 of 4085, 4.456 0 0",
      "1316 of 6963, 3.511 0.1391 0",
      "1727 of 8711, 3.729 0.1469 0",
      "2096 of 11169, 0.8357 0.08334 0",
      "2525 of 14202, 3.79 0.1486 0"}},
    {"buckets and slots",
     10000,
     300,
     15000,
     7,
     true,
     true,
     60,
     9000,
     20000,
     {"272 of 2243, 0 0 13.65",
      "543 of 4512, 0 0.1043 2.706",
      "810 of 6848, 0 0 19.23",
      "1121 of 9150, 0 0 23.51",
      "1443 of 11602, 0 0 26.53",
      "1810 of 14154, 0 0.1322 2.92"}},
};

static int draw_kind(struct draw *draw)
{
    int64_t place = draw_between(draw, 0, 9);
    int kind = 0;

    while (place >= (int64_t)kinds[kind].weight)
        place -= (int64_t)kinds[kind++].weight;
    return kind;
}

static void expect_row(const struct world *world, int row, struct online *online, int64_t asked,
                       int64_t admitted)
{
    struct tg_duals duals;
    char got[160];

    online_get_duals(online, &duals);
    (void)snprintf(got, sizeof got, "%lld of %lld, %.4g %.4g %.4g", (long long)admitted,
                   (long long)asked, duals.rate, duals.cost, duals.concurrency);
    if (strcmp(got, world->rows[row] ? world->rows[row] : "") != 0)
        fail_msg("%s, row %d:\n  got  \"%s\"\n  want \"%s\"", world->name, row, got,
                 world->rows[row] ? world->rows[row] : "");
}

static struct online *online_of(const struct world *world)
{
    struct tg_bid_config config;
    struct online *online = NULL;

    tg_bid_config_init(&config);
    config.prices = TG_PRICES_ONLINE;
    config.online.guard = false;
    config.online.window = world->window;
    config.online.rate_budget = world->rate;
    config.online.cost_budget = world->cost;
    config.online.conc_budget_s = world->slots * (double)world->window / 1000;
    config.online.steady = world->steady;
    if (world->typed) {
        config.workload.types = kinds;
        config.workload.n_types = KINDS;
        config.workload.arrivals = world->per_s * (double)world->window / 1000;
    }
    assert_int_equal(online_new(&config, &online, NULL), TG_OK);
    return online;
}

struct run {
    const struct world *world;
    struct online *online;
    struct draw draw;
    struct running calls[RUNNING_MAX];
    int64_t n, asked, admitted;
};

/* A call that ends has used half of its cost, and held its slot for longer or shorter than said. */
static void end_due(struct run *run, tg_ms now)
{
    for (int64_t i = 0; i < run->n;) {
        const struct running *call = &run->calls[i];
        const struct tg_type *kind = &kinds[call->kind];
        if (call->ends_at > now) {
            i++;
            continue;
        }
        struct tg_spent spent = {.admitted_at = now - (tg_ms)(call->hold_s * 1000),
                                 .cost = (int64_t)kind->cost,
                                 .actual = (int64_t)kind->cost / 2,
                                 .hold_s = kind->hold_s,
                                 .held_s = call->hold_s};
        online_released(run->online, &spent, now);
        run->calls[i] = run->calls[--run->n];
    }
}

static void arrive(struct run *run, tg_ms now)
{
    int kind = draw_kind(&run->draw);
    double cost = kinds[kind].cost, hold_s = kinds[kind].hold_s;
    double value = kinds[kind].value * (0.8 + 0.4 * draw_unit(&run->draw));
    double held = hold_s * (0.5 + draw_unit(&run->draw));

    run->asked++;
    if (run->n == RUNNING_MAX ||
        !online_worth(run->online, cost, value, hold_s, run->n + 1, now))
        return;
    online_admitted(run->online, cost, value, hold_s, now);
    run->calls[run->n++] = (struct running){now + (tg_ms)(held * 1000), kind, held};
    run->admitted++;
}

static void prices_move_as_the_trace_says(void **state)
{
    (void)state;
    for (size_t w = 0; w < COUNT_OF(worlds); w++) {
        const struct world *world = &worlds[w];
        static struct run run;

        run = (struct run){world, online_of(world), draw_stream(11, w), .n = 0};
        for (tg_ms now = 0; now < ROWS * world->row_every; now++) {
            bool busy = world->busy_every && now / world->busy_every % 2 == 1;
            end_due(&run, now);
            if (draw_unit(&run.draw) < world->per_s / 1000 * (busy ? 3 : 1))
                arrive(&run, now);
            if ((now + 1) % world->row_every == 0)
                expect_row(world, (int)(now / world->row_every), run.online, run.asked,
                           run.admitted);
        }
        online_free(run.online);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prices_move_as_the_trace_says),
    };
    return cmocka_run_group_tests_name("online_trace", tests, NULL, NULL);
}
