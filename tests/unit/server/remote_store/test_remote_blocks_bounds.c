/* test_remote_blocks_bounds.c - what several nodes admit together, whatever dies when.
 *
 * Storms of calls on nodes that die at random, whose clocks are off, and that hear from Redis late;
 * then what was promised is checked over all calls that were admitted.
 */
#include <stdlib.h>

#include "net_blocks_kit.h"

/* ---- what was promised ---- */

static int by_time(const void *x, const void *y)
{
    const struct admission *one = x, *other = y;

    return one->at < other->at ? -1 : one->at > other->at;
}

/* A call that Redis decided was admitted there before it was told of here. */
static void sort_log(void)
{
    qsort(world.log, world.n_log, sizeof world.log[0], by_time);
}

static void expect_windows_within(int64_t limit, tg_ms period)
{
    int64_t sum = 0, most = 0;

    sort_log();
    for (size_t i = 0; i < world.n_log; i++) {
        if (i > 0 && world.log[i].at / period != world.log[i - 1].at / period)
            sum = 0;
        sum += world.log[i].units;
        most = sum > most ? sum : most;
        if (sum > limit)
            fail_msg("%lld units in the window of %lld, %lld are allowed", (long long)sum,
                     (long long)world.log[i].at, (long long)limit);
    }
    print_message("   the fullest window has %lld of %lld\n", (long long)most, (long long)limit);
}

/* Over any span: a bucket of that burst never runs dry. */
static void expect_spans_within(double burst, double rate)
{
    double level = burst, least = burst;

    sort_log();
    for (size_t i = 0; i < world.n_log; i++) {
        if (i > 0)
            level += (double)(world.log[i].at - world.log[i - 1].at) * rate;
        level = level < burst ? level : burst;
        level -= (double)world.log[i].units;
        least = level < least ? level : least;
        if (level < -1e-6)
            fail_msg("at %lld, %g units more than burst and rate allow", (long long)world.log[i].at,
                     -level);
    }
    print_message("   %g of a burst of %g was left\n", least, burst);
}

static void expect_sliding_within(int64_t limit, tg_ms period)
{
    int64_t sum = 0, most = 0;

    for (size_t i = 0, first = 0; i < world.n_log; i++) {
        sum += world.log[i].units;
        while (world.log[first].at <= world.log[i].at - period)
            sum -= world.log[first++].units;
        most = sum > most ? sum : most;
        if (sum > limit)
            fail_msg("%lld units in %lld ms up to %lld, %lld are allowed", (long long)sum,
                     (long long)period, (long long)world.log[i].at, (long long)limit);
    }
    print_message("   the fullest span has %lld of %lld\n", (long long)most, (long long)limit);
}

/* ---- storms ---- */

struct storm {
    int steps, per_step; /* calls of each node, at most */
    int64_t cost;        /* at most */
    tg_ms step;          /* at most */
    bool deaths, settles;
    bool mixed;   /* node 0 is of the first tier */
    tg_ms border; /* where windows meet; 0: nowhere */
    tg_ms stall;  /* nobody does anything for so long, and then all come at once */
};

/* Some calls end: refunded, or used less. More than estimated is charged whatever there is, and so
 * is no part of what is promised. */
static void end_some(void)
{
    for (size_t i = 0; i < CALLS; i++) {
        struct call *call = &world.calls[i];
        if (!call->in_use || call->ask || draw_chance(&world.draw, 80))
            continue;
        if (!call->allowed)
            call->in_use = false;
        else if (draw_chance(&world.draw, 20))
            world_refund(call);
        else
            world_settle(call, draw_between(&world.draw, 0, call->cost));
    }
}

static void crowd_in(const struct storm *storm, int times)
{
    for (size_t i = 0; i < world.n; i++) {
        int64_t n = draw_between(&world.draw, 0, storm->per_step) * times;
        void (*ask)(struct node *, struct call *, int64_t) =
            storm->mixed && i == 0 ? world_take_strictly : world_take;
        while (n-- > 0)
            ask(&world.nodes[i], world_free_call(), draw_between(&world.draw, 1, storm->cost));
    }
}

/* Calls just before the end of a window, answers after it, calls again. */
static void meet_border(const struct storm *storm)
{
    world.now += storm->border - world.now % storm->border - draw_between(&world.draw, 0, 8);
    for (int i = 0; i < 6; i++) {
        crowd_in(storm, 2);
        if (draw_chance(&world.draw, 50))
            world_calm();
        world.now += draw_between(&world.draw, 0, 3);
    }
}

/* What was leased before is spent at the very end, beside what has come in meanwhile. */
static void stall(const struct storm *storm)
{
    crowd_in(storm, 1);
    world_calm();
    world.now += storm->stall - draw_between(&world.draw, 0, storm->stall / 4);
    for (int i = 0; i < 4; i++) {
        crowd_in(storm, 8);
        world_calm();
    }
}

static void rage(struct storm storm)
{
    for (int step = 0; step < storm.steps; step++) {
        if (storm.border && draw_chance(&world.draw, 10))
            meet_border(&storm);
        else if (storm.stall && draw_chance(&world.draw, 5))
            stall(&storm);
        else if (!draw_chance(&world.draw, 5))
            crowd_in(&storm, draw_chance(&world.draw, 10) ? 4 : 1);
        world_calm();
        if (storm.settles)
            end_some();
        for (size_t i = 0; i < CALLS; i++)
            world.calls[i].in_use = world.calls[i].in_use && storm.settles;
        if (storm.deaths && draw_chance(&world.draw, 1))
            world_die(&world.nodes[draw_between(&world.draw, 0, (int64_t)world.n - 1)]);
        world_pass(draw_chance(&world.draw, 3) ? draw_between(&world.draw, 1, 50 * storm.step)
                                               : draw_between(&world.draw, 1, storm.step));
    }
    struct remote_blocks_stats stats = world_stats();
    print_message("   %zu decided, %zu admitted, %zu failed; %llu asks, %llu strict, %llu leased, "
                  "%llu returned\n",
                  world.decided, world.n_log, world.failed, (unsigned long long)stats.asks,
                  (unsigned long long)stats.strict, (unsigned long long)stats.leased,
                  (unsigned long long)stats.returned);
    assert_true(world.n_log > 0 && world.refused > 0);
}

static void no_window_admits_more_than_its_limit(void **state)
{
    (void)state;
    world_open(NODES, 1);
    world_add_limit("fixed_window:limit=500,window=1000", TG_AXIS_RATE, TG_ENFORCE);
    rage((struct storm){
        .steps = 350,
        .per_step = 20,
        .cost = 1,
        .step = 60,
        .deaths = true,
        .border = 1000,
    });
    expect_windows_within(500, 1000);
    world_close();
}

static void no_window_of_costs_admits_more_than_its_limit(void **state)
{
    (void)state;
    world_open(NODES, 2);
    world_add_limit("fixed_window:limit=50000,window=2000", TG_AXIS_COST, TG_ENFORCE);
    rage((struct storm){
        .steps = 350,
        .per_step = 10,
        .cost = 900,
        .step = 60,
        .deaths = true,
        .border = 2000,
    });
    expect_windows_within(50000, 2000);
    world_close();
}

static void no_span_admits_more_than_burst_and_rate(void **state)
{
    (void)state;
    world_open(NODES, 3);
    world_add_limit("gcra:limit=6000,period=60000,burst=300", TG_AXIS_RATE, TG_ENFORCE);
    rage((struct storm){
        .steps = 350,
        .per_step = 10,
        .cost = 1,
        .step = 60,
        .deaths = true,
        .stall = 750,
    });
    expect_spans_within(300, 0.1);
    world_close();
}

static void no_span_admits_more_than_capacity_and_refill(void **state)
{
    (void)state;
    world_open(NODES, 4);
    world_add_limit("token_bucket:capacity=20000,refill=5000", TG_AXIS_COST, TG_ENFORCE);
    rage((struct storm){
        .steps = 350,
        .per_step = 6,
        .cost = 500,
        .step = 60,
        .deaths = true,
        .stall = 1000,
    });
    expect_spans_within(20000, 5);
    world_close();
}

static void no_span_of_a_log_admits_more_than_its_limit(void **state)
{
    (void)state;
    world_open(NODES, 5);
    world_add_limit("sliding_log:limit=700,window=6000", TG_AXIS_RATE, TG_ENFORCE);
    rage((struct storm){
        .steps = 300,
        .per_step = 20,
        .cost = 1,
        .step = 60,
        .deaths = true,
        .stall = 300,
    });
    expect_sliding_within(700, 6000);
    world_close();
}

static void no_span_of_a_sliding_window_admits_more_than_its_limit(void **state)
{
    (void)state;
    world_open(NODES, 6);
    world_add_limit("sliding_window:limit=700,window=6000,buckets=10", TG_AXIS_RATE, TG_ENFORCE);
    rage((struct storm){
        .steps = 300,
        .per_step = 20,
        .cost = 1,
        .step = 60,
        .deaths = true,
        .stall = 300,
    });
    expect_sliding_within(700, 6000 - 600);
    world_close();
}

static void what_is_not_used_may_be_used_within_the_window(void **state)
{
    (void)state;
    world_open(NODES, 8);
    world_add_limit("fixed_window:limit=50000,window=2000", TG_AXIS_COST, TG_ENFORCE);
    rage((struct storm){
        .steps = 350,
        .per_step = 10,
        .cost = 900,
        .step = 60,
        .deaths = true,
        .settles = true,
        .border = 2000,
    });
    expect_windows_within(50000, 2000);
    world_close();
}

static void what_is_not_used_may_be_used_within_burst_and_rate(void **state)
{
    (void)state;
    world_open(NODES, 9);
    world_add_limit("token_bucket:capacity=20000,refill=5000", TG_AXIS_COST, TG_ENFORCE);
    rage((struct storm){
        .steps = 350,
        .per_step = 6,
        .cost = 500,
        .step = 60,
        .deaths = true,
        .settles = true,
        .stall = 1000,
    });
    expect_spans_within(20000, 5);
    world_close();
}

static void nodes_of_both_tiers_share_a_window(void **state)
{
    (void)state;
    world_open(NODES, 15);
    world_add_limit("fixed_window:limit=500,window=1000", TG_AXIS_RATE, TG_ENFORCE);
    rage((struct storm){
        .steps = 250,
        .per_step = 10,
        .cost = 1,
        .step = 60,
        .mixed = true,
        .border = 1000,
    });
    expect_windows_within(500, 1000);
    world_close();
}

static void nodes_of_both_tiers_share_burst_and_rate(void **state)
{
    (void)state;
    world_open(NODES, 16);
    world_add_limit("gcra:limit=6000,period=60000,burst=300", TG_AXIS_RATE, TG_ENFORCE);
    rage((struct storm){
        .steps = 250,
        .per_step = 10,
        .cost = 1,
        .step = 60,
        .mixed = true,
        .stall = 750,
    });
    expect_spans_within(300, 0.1);
    world_close();
}

/* What was admitted in a window before its last call is below the budget. */
static void only_one_call_crosses_a_budget(void **state)
{
    int64_t sum = 0;
    (void)state;

    world_open(NODES, 7);
    world_add_limit("token_budget:budget=20000,window=1000", TG_AXIS_COST, TG_ENFORCE);
    rage((struct storm){
        .steps = 300,
        .per_step = 10,
        .cost = 900,
        .step = 60,
        .deaths = true,
        .border = 1000,
    });
    for (size_t i = 0; i < world.n_log; i++) {
        if (i > 0 && world.log[i].at / 1000 != world.log[i - 1].at / 1000)
            sum = 0;
        sum += world.log[i].units;
        if (sum >= 20000 + 900)
            fail_msg("%lld units in the window of %lld", (long long)sum,
                     (long long)world.log[i].at);
    }
    world_close();
}

/* ---- to the last ms ---- */

static void spend_all(size_t node, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        world_take(&world.nodes[node], &world.calls[0], 1);
        world_calm();
    }
}

/* Two nodes who want all there is. */
static void open_greedy(uint64_t stream)
{
    world_open(2, stream);
    world.block = 60000;
    world.slow = 9;
}

/* A block is leased when all is full, and spent at its very end; then comes whatever else there is
 * to get, at once and when what was leased leaves the window. Answers are slow. */
static void spend_at_the_end(tg_ms life, tg_ms period, int64_t n)
{
    for (tg_ms early = -5; early < 25; early++) {
        world_die(&world.nodes[0]);
        world_die(&world.nodes[1]);
        world.now += 4 * period;
        tg_ms leased_at = world.now;
        spend_all(0, 1);
        world.now = leased_at + life - early;
        spend_all(0, n);
        spend_all(1, n);
        tg_ms later[] = {period - early, period + life - early};
        for (size_t i = 0; i < COUNT_OF(later); i++) {
            world_die(&world.nodes[1]); /* and what it was refused */
            world.now = leased_at + later[i];
            spend_all(1, n);
        }
    }
}

static void a_burst_counts_when_it_is_spent(void **state)
{
    (void)state;
    open_greedy(10);
    world_add_limit("gcra:limit=1000,period=10000,burst=100", TG_AXIS_RATE, TG_ENFORCE);
    spend_at_the_end(250, 1000, 110);
    expect_spans_within(100, 0.1);
    world_close();
}

static void a_bucket_counts_when_it_is_spent(void **state)
{
    (void)state;
    open_greedy(11);
    world_add_limit("token_bucket:capacity=100,refill=100", TG_AXIS_COST, TG_ENFORCE);
    spend_at_the_end(250, 1000, 110);
    expect_spans_within(100, 0.1);
    world_close();
}

static void a_log_counts_when_it_is_spent(void **state)
{
    (void)state;
    open_greedy(12);
    world_add_limit("sliding_log:limit=100,window=10000", TG_AXIS_RATE, TG_ENFORCE);
    spend_at_the_end(200, 10000, 110);
    expect_sliding_within(100, 10000);
    world_close();
}

static void a_sliding_window_counts_when_it_is_spent(void **state)
{
    (void)state;
    open_greedy(13);
    world_add_limit("sliding_window:limit=100,window=10000,buckets=10", TG_AXIS_RATE, TG_ENFORCE);
    spend_at_the_end(200, 10000, 110);
    expect_sliding_within(100, 9000);
    world_close();
}

static void what_is_left_of_a_window_is_not_spent_in_the_next(void **state)
{
    (void)state;
    open_greedy(14);
    world_add_limit("fixed_window:limit=100,window=1000", TG_AXIS_RATE, TG_ENFORCE);
    for (int i = 0; i < 40; i++) {
        world_die(&world.nodes[0]);
        world.now += 3000 - world.now % 1000 + draw_between(&world.draw, 0, 900);
        spend_all(0, 1);
        tg_ms border = world.now - world.now % 1000 + 1000;
        for (world.now = border - 25; world.now < border + 25; world.now++)
            world_take(&world.nodes[0], &world.calls[world.now % 100], 1);
        world_calm();
        world_die(&world.nodes[1]);
        spend_all(1, 110);
    }
    expect_windows_within(100, 1000);
    world_close();
}

/* ---- how often Redis is asked, and how much of a limit is used ---- */

struct load {
    tg_ms warm, lasts; /* ms */
    int64_t each;      /* ms between two calls of a node */
    int64_t cost;
};

/* Every node has its calls, evenly. Returns decisions for each ask, once it is warm. */
static double run_steadily(struct load load)
{
    struct remote_blocks_stats before = {0}, after;
    size_t decided_before = 0;
    tg_ms warm = world.now + load.warm, end = warm + load.lasts, ticked = world.now;
    bool is_warm = false;

    while (world.now < end) {
        if (!is_warm && world.now >= warm) {
            before = world_stats();
            decided_before = world.decided;
            world.n_log = world.refused = 0;
            is_warm = true;
        }
        for (size_t i = 0; i < world.n; i++) {
            struct call *call = &world.calls[i];
            if (call->ask == NULL)
                world_take(&world.nodes[i], call, load.cost);
        }
        if (world.now - ticked >= 50) {
            ticked = world.now;
            world_pass(0);
        }
        world_calm();
        world.now += load.each;
    }
    after = world_stats();
    size_t n = world.decided - decided_before;
    double asks = (double)(after.asks - before.asks + after.strict - before.strict);
    print_message("   %zu decisions, %zu admitted, %.0f asks: %.0f each\n", n, world.n_log, asks,
                  (double)n / (asks > 0 ? asks : 1));
    assert_int_equal(world.failed, 0);
    return (double)n / (asks > 0 ? asks : 1);
}

static void a_window_that_is_not_full_is_asked_for_seldom(void **state)
{
    (void)state;
    world_open(NODES, 20);
    world.slow = 1;
    world_add_limit("fixed_window:limit=1000000,window=60000", TG_AXIS_RATE, TG_ENFORCE);
    assert_true(run_steadily((struct load){2000, 10000, 4, 1}) > 50);
    assert_int_equal(world.refused, 0);
    world_close();
}

static void a_window_that_is_overrun_is_asked_for_seldom_and_used_up(void **state)
{
    (void)state;
    world_open(NODES, 21);
    world.slow = 1;
    world_add_limit("fixed_window:limit=1000,window=2000", TG_AXIS_RATE, TG_ENFORCE);
    assert_true(run_steadily((struct load){2000, 20000, 2, 1}) > 50);
    expect_windows_within(1000, 2000);
    assert_true(world.n_log > 9500);
    world_close();
}

static void a_bucket_that_is_not_empty_is_asked_for_seldom(void **state)
{
    (void)state;
    world_open(NODES, 22);
    world.slow = 1;
    world_add_limit("gcra:limit=120000,period=60000", TG_AXIS_RATE, TG_ENFORCE);
    assert_true(run_steadily((struct load){2000, 10000, 4, 1}) > 50);
    assert_int_equal(world.refused, 0);
    world_close();
}

static void a_bucket_that_is_overrun_is_asked_for_seldom_and_used_up(void **state)
{
    (void)state;
    world_open(NODES, 23);
    world.slow = 1;
    world_add_limit("gcra:limit=12000,period=60000,burst=2000", TG_AXIS_RATE, TG_ENFORCE);
    assert_true(run_steadily((struct load){20000, 20000, 4, 1}) > 50);
    expect_spans_within(2000, 0.2);
    assert_true(world.n_log > 3800);
    world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_window_admits_more_than_its_limit),
        cmocka_unit_test(no_window_of_costs_admits_more_than_its_limit),
        cmocka_unit_test(no_span_admits_more_than_burst_and_rate),
        cmocka_unit_test(no_span_admits_more_than_capacity_and_refill),
        cmocka_unit_test(no_span_of_a_log_admits_more_than_its_limit),
        cmocka_unit_test(no_span_of_a_sliding_window_admits_more_than_its_limit),
        cmocka_unit_test(only_one_call_crosses_a_budget),
        cmocka_unit_test(what_is_not_used_may_be_used_within_the_window),
        cmocka_unit_test(what_is_not_used_may_be_used_within_burst_and_rate),
        cmocka_unit_test(nodes_of_both_tiers_share_a_window),
        cmocka_unit_test(nodes_of_both_tiers_share_burst_and_rate),
        cmocka_unit_test(a_burst_counts_when_it_is_spent),
        cmocka_unit_test(a_bucket_counts_when_it_is_spent),
        cmocka_unit_test(a_log_counts_when_it_is_spent),
        cmocka_unit_test(a_sliding_window_counts_when_it_is_spent),
        cmocka_unit_test(what_is_left_of_a_window_is_not_spent_in_the_next),
        cmocka_unit_test(a_window_that_is_not_full_is_asked_for_seldom),
        cmocka_unit_test(a_window_that_is_overrun_is_asked_for_seldom_and_used_up),
        cmocka_unit_test(a_bucket_that_is_not_empty_is_asked_for_seldom),
        cmocka_unit_test(a_bucket_that_is_overrun_is_asked_for_seldom_and_used_up),
    };

    return cmocka_run_group_tests(tests, world_start_server, world_stop_server);
}
