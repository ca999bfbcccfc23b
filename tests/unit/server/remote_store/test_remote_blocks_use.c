/* test_remote_blocks_use.c - how much of a limit four gateways with blocks admit together when more
 * is asked for than there is: never more than the limit, and at least 95 % of it. The table of
 * docs/distributed.md is from here.
 *
 * Time is the test's own, Redis is real: see net_blocks_kit.h. Calls come at random moments, `load`
 * times what the limit allows; evenly at all gateways, or most of them at one.
 */
#include <math.h>
#include <stdlib.h>

#include "net_blocks_kit.h"

enum { WARM = 20000,
       SPAN = 60000 }; /* ms: before what is counted, and counted */

struct use {
    const char *spec;
    enum tg_axis axis;
    int64_t cost; /* mean units of a call, drawn from a half to one and a half of it; 1: exactly */
    double load;  /* what is asked for, of what the limit allows */
    bool uneven;  /* two thirds of the calls come to the first gateway */
};

static const struct tg_limiter_config *config_of_limit(void)
{
    return &world.limits[0].limiter.config;
}

static bool slides(const struct tg_limiter_config *config)
{
    return config->strategy == TG_SLIDING_WINDOW || config->strategy == TG_SLIDING_LOG;
}

/* Units a ms. */
static double rate_of(const struct tg_limiter_config *config)
{
    return config->strategy == TG_TOKEN_BUCKET ? config->refill / 1000
                                               : (double)config->limit / (double)config->period;
}

static int by_time(const void *x, const void *y)
{
    const struct admission *one = x, *other = y;

    return one->at < other->at ? -1 : one->at > other->at;
}

/* Over any span: a bucket of that burst never runs dry; no window has more than the limit. */
static double worst_excess(const struct tg_limiter_config *config)
{
    double burst = (double)(config->strategy == TG_GCRA ? config->burst : config->limit);
    double level = burst, sum = 0, worst = -burst;
    tg_ms bucket = config->strategy == TG_SLIDING_WINDOW ? config->period / config->buckets : 0;

    /* A call that Redis decided was admitted there before it was told of here. */
    qsort(world.log, world.n_log, sizeof world.log[0], by_time);
    for (size_t i = 0, first = 0; i < world.n_log; i++) {
        const struct admission *call = &world.log[i];
        if (slides(config)) {
            sum += (double)call->units;
            while (world.log[first].at <= call->at - config->period + bucket)
                sum -= (double)world.log[first++].units;
            worst = fmax(worst, sum - burst);
            continue;
        }
        if (i > 0)
            level = fmin(level + (double)(call->at - world.log[i - 1].at) * rate_of(config), burst);
        level -= (double)call->units;
        worst = fmax(worst, -level);
    }
    return worst;
}

/* The calls of one ms. */
static void call_at_random(const struct use *use, double calls)
{
    for (size_t i = 0; i < NODES; i++) {
        double part = !use->uneven ? 1.0 / NODES : i == 0 ? 2.0 / 3
                                                          : 1.0 / 3 / (NODES - 1);
        for (double due = calls * part; due > 0 && draw_unit(&world.draw) < due; due -= 1)
            world_take(&world.nodes[i], world_free_call(),
                       use->cost == 1
                           ? 1
                           : draw_between(&world.draw, use->cost / 2, use->cost * 3 / 2));
    }
    world_calm();
    for (size_t i = 0; i < CALLS && world.calls[i].in_use; i++)
        world.calls[i].in_use = false;
}

static void run_use(const struct use *use, uint64_t stream)
{
    world_open(NODES, stream);
    world.slow = 1;
    for (size_t i = 0; i < NODES; i++)
        world.nodes[i].skew = 0; /* what Redis decides, it decides by the caller's clock here */
    world_add_limit(use->spec, use->axis, TG_ENFORCE);
    double calls = use->load * rate_of(config_of_limit()) / (double)use->cost;
    tg_ms ticked = world.now, until = world.now + WARM + SPAN;
    while (world.now < until) {
        tg_ms now = world.now;
        call_at_random(use, calls);
        if (world.now - ticked >= 50) {
            ticked = world.now;
            world_pass(0);
        }
        if (world.now == now)
            world.now++;
    }
}

/* Returns what was admitted, of what the limit allows. */
static double use_of(const struct use *use, uint64_t stream)
{
    double admitted = 0;

    run_use(use, stream);
    double worst = worst_excess(config_of_limit());
    for (size_t i = 0; i < world.n_log; i++)
        if (world.log[i].at >= world.now - SPAN)
            admitted += (double)world.log[i].units;
    double part = admitted / (rate_of(config_of_limit()) * SPAN);
    struct remote_blocks_stats stats = world_stats();
    print_message("    %s, load %.1f%s: %.1f %% used, %.1f decisions an ask\n", use->spec,
                  use->load, use->uneven ? ", uneven" : "", 100 * part,
                  (double)world.decided / (double)(stats.asks + stats.strict));
    if (worst > 1e-6)
        fail_msg("%g units more than it allows", worst);
    assert_int_equal(world.failed, 0);
    world_close();
    return part;
}

static void a_limit_that_is_asked_for_too_much_is_used(void **state)
{
    static const struct {
        const char *spec;
        enum tg_axis axis;
        int64_t cost;
    } limits[] = {
        {"gcra:limit=100,period=1000,burst=50", TG_AXIS_RATE, 1},
        {"token_bucket:capacity=4000,refill=2000", TG_AXIS_COST, 20},
        {"token_bucket:capacity=4000,refill=2000", TG_AXIS_COST, 200},
        {"sliding_log:limit=100,window=2000", TG_AXIS_RATE, 1},
        {"sliding_log:limit=1000,window=10000", TG_AXIS_RATE, 1},
        {"sliding_window:limit=100,window=2000,buckets=10", TG_AXIS_RATE, 1},
        {"sliding_window:limit=60000,window=10000,buckets=10", TG_AXIS_COST, 100},
    };
    double least = 2;

    (void)state;
    for (size_t i = 0; i < 4 * COUNT_OF(limits); i++) {
        struct use use = {limits[i / 4].spec, limits[i / 4].axis, limits[i / 4].cost,
                          i % 2 ? 3 : 1.5, i % 4 >= 2};
        least = fmin(least, use_of(&use, i));
    }
    assert_true(least >= 0.95);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_that_is_asked_for_too_much_is_used),
    };

    return cmocka_run_group_tests(tests, world_start_server, world_stop_server);
}
