/* bench_redis.c - decisions of Redis through one connection: a client of ours, as a worker has it.
 *
 * One tenant with one limit on each axis, wide enough that every call is admitted and both states
 * are written. As soon as one is decided the next is asked for, so that there are always as many on
 * their way. tools/bench-redis has the same command sent by redis-benchmark. Then the same tenant
 * with units that are leased in blocks: what asks nobody, and what it takes to get the next block.
 */
#include "bench_redis.h"

#include <stdio.h>
#include <string.h>

#include "io/net/loop.h"
#include "server/remote_store/remote_blocks.h"
#include "server/remote_store/remote_limits_codec.h"
#include "server/remote_store/scripts.h"

static const char RATE[] = "gcra:limit=1000000000,period=1000";
static const char COST[] = "token_bucket:capacity=1000000000000,refill=1000000000000";
static const tg_ms CONNECT = 5000;

struct tenant {
    struct tg_limit limits[2];
    struct remote_scope scope;
    struct remote_debit debit;
};

struct bench_run {
    struct net_loop *loop;
    struct redis *redis;
    struct remote_limits *limits;
    struct remote_blocks *blocks;
    struct tenant tenant;
    struct net_timer timer;
    bool over;
    bool waits; /* for a block */
    uint64_t decided, failed;
};

static void make_limit(struct tg_limit *limit, const char *spec, enum tg_axis axis)
{
    struct tg_limiter_config config;
    struct tg_problem problem;

    *limit = (struct tg_limit){.axis = axis};
    if (tg_limiter_config_parse(&config, spec, &problem) != TG_OK ||
        tg_limiter_init(&limit->limiter, &config, &problem) != TG_OK)
        fprintf(stderr, "%s\n", problem.text);
}

static void make_tenant(struct tenant *tenant)
{
    make_limit(&tenant->limits[0], RATE, TG_AXIS_RATE);
    make_limit(&tenant->limits[1], COST, TG_AXIS_COST);
    tenant->scope = (struct remote_scope){SLICE("tenant/bench"), SLICE("bench"), tenant->limits, 2};
    tenant->debit = (struct remote_debit){
        .root = SLICE("bench"), .scopes = &tenant->scope, .n_scopes = 1, .cost = 100};
}

static void bench_redis_decided(void *context, enum tg_err err, const struct tg_axes *axes,
                                const struct remote_charge *charge);

static void bench_redis_ask(struct bench_run *run)
{
    if (remote_limits_take(run->limits, &run->tenant.debit, 0, bench_redis_decided, run) == NULL)
        run->failed++;
}

static void bench_redis_decided(void *context, enum tg_err err, const struct tg_axes *axes,
                                const struct remote_charge *charge)
{
    struct bench_run *run = context;

    (void)charge;
    run->decided++;
    run->failed += err != TG_OK || tg_axes_binding(axes) != TG_AXIS_NONE;
    if (!run->over && run->failed == 0)
        bench_redis_ask(run);
}

static void bench_redis_end(void *arg)
{
    ((struct bench_run *)arg)->over = true;
}

/* True once the server is there. */
static bool connect_to(struct bench_run *run, struct tg_problem *problem)
{
    struct redis_stats stats;

    net_timer_set(run->loop, &run->timer, CONNECT);
    while (!redis_is_up(run->redis, NULL) && !run->over)
        net_loop_turn(run->loop, true);
    net_timer_stop(run->loop, &run->timer);
    redis_get_stats(run->redis, &stats);
    if (run->over)
        snprintf(problem->text, sizeof problem->text, "cannot reach Redis: %.200s", stats.problem);
    return !run->over;
}

static void turn_until_over(struct bench_run *run, int depth, int seconds)
{
    run->over = false;
    run->decided = 0;
    net_timer_set(run->loop, &run->timer, (tg_ms)seconds * 1000);
    for (int i = 0; i < depth; i++)
        bench_redis_ask(run);
    while (!run->over && run->failed == 0)
        net_loop_turn(run->loop, true);
    net_timer_stop(run->loop, &run->timer);
}

static bool bench_redis_measure(struct bench_run *run, int depth, int seconds, double *per_second,
                                struct tg_problem *problem)
{
    if (!connect_to(run, problem))
        return false;
    turn_until_over(run, depth, 1);
    while (remote_limits_in_flight(run->limits) > 0)
        net_loop_turn(run->loop, true);
    int64_t before = clock_monotonic_ns();
    turn_until_over(run, depth, seconds);
    double took = (double)(clock_monotonic_ns() - before) / 1e9;
    *per_second = (double)run->decided / took;
    if (run->failed > 0)
        snprintf(problem->text, sizeof problem->text, "Redis did not decide, or refused");
    return run->failed == 0;
}

/* ---- blocks ---- */

enum { AT_ONCE = 256 /* calls in one turn of the loop */ };
static const tg_ms TICK = 50;

static void bench_redis_note(struct bench_run *run, enum tg_err err, const struct tg_axes *axes)
{
    run->decided++;
    run->failed += err != TG_OK || tg_axes_binding(axes) != TG_AXIS_NONE;
}

static void block_came(void *context, enum tg_err err, const struct tg_axes *axes,
                       const struct remote_blocks_charge *charge)
{
    struct bench_run *run = context;

    (void)charge;
    run->waits = false;
    bench_redis_note(run, err, axes);
}

static void take_one(struct bench_run *run)
{
    struct remote_blocks_charge charge;
    struct tg_axes axes;
    enum tg_err err;

    run->waits = remote_blocks_take(run->blocks, &run->tenant.debit, net_loop_now(run->loop),
                                    block_came, run, &axes, &charge, &err) != NULL;
    if (!run->waits)
        bench_redis_note(run, err, &axes);
    while (run->waits)
        net_loop_turn(run->loop, true);
}

static void spend_until_over(struct bench_run *run, int seconds)
{
    tg_ms ticked = 0;

    run->over = false;
    run->decided = 0;
    net_timer_set(run->loop, &run->timer, (tg_ms)seconds * 1000);
    while (!run->over && run->failed == 0) {
        for (int i = 0; i < AT_ONCE; i++)
            take_one(run);
        net_loop_turn(run->loop, false);
        if (net_loop_now(run->loop) - ticked >= TICK) {
            ticked = net_loop_now(run->loop);
            remote_blocks_tick(run->blocks, ticked);
        }
    }
    net_timer_stop(run->loop, &run->timer);
}

static bool measure_blocks(struct bench_run *run, int seconds, double *per_second,
                           struct tg_problem *problem)
{
    struct remote_blocks_options options;

    remote_blocks_options_init(&options);
    options.loop = run->loop;
    options.redis = run->redis;
    options.limits = run->limits;
    if (!connect_to(run, problem) || remote_blocks_new(&options, &run->blocks) != TG_OK)
        return false;
    spend_until_over(run, 1);
    int64_t before = clock_monotonic_ns();
    spend_until_over(run, seconds);
    *per_second = (double)run->decided / ((double)(clock_monotonic_ns() - before) / 1e9);
    if (run->failed > 0)
        snprintf(problem->text, sizeof problem->text, "a call was not decided, or refused");
    return run->failed == 0;
}

static bool make_client(struct bench_run *run, const char *url, struct tg_problem *problem)
{
    struct redis_options options;
    struct remote_limits_options limits;

    redis_options_init(&options);
    remote_limits_options_init(&limits);
    limits.prefix = "tg";
    if (redis_url_read(url, &options, problem) != TG_OK)
        return false;
    options.timeout = 1000;
    enum tg_err err = redis_new(run->loop, &options, &run->redis, problem);
    redis_options_wipe(&options);
    limits.redis = run->redis;
    return err == TG_OK && remote_limits_new(&limits, &run->limits) == TG_OK;
}

/* `depth` 0: blocks. */
static bool run_on(const char *url, int depth, int seconds, double *per_second,
                   struct tg_problem *problem)
{
    struct bench_run run = {.over = false};
    struct clock clock;
    bool good = false;

    clock_init(&clock);
    snprintf(problem->text, sizeof problem->text, "%s", tg_strerror(TG_ERR_MEMORY));
    if (net_loop_new(&clock, &run.loop) != TG_OK)
        return false;
    net_timer_init(&run.timer, bench_redis_end, &run);
    make_tenant(&run.tenant);
    if (make_client(&run, url, problem))
        good = depth > 0 ? bench_redis_measure(&run, depth, seconds, per_second, problem)
                         : measure_blocks(&run, seconds, per_second, problem);
    run.over = true;
    redis_free(run.redis);
    remote_blocks_free(run.blocks);
    remote_limits_free(run.limits);
    net_loop_free(run.loop);
    return good;
}

bool bench_redis_run(const char *url, int depth, int seconds, double *per_second,
                     struct tg_problem *problem)
{
    return run_on(url, depth, seconds, per_second, problem);
}

bool bench_redis_blocks(const char *url, int seconds, double *per_second,
                        struct tg_problem *problem)
{
    return run_on(url, 0, seconds, per_second, problem);
}

void bench_redis_print_commands(void)
{
    struct limits_call call;
    struct limits_clock clock = {.callers = false};
    struct limits_codec codec;
    struct tenant tenant;

    make_tenant(&tenant);
    limits_codec_init(&codec);
    if (limits_codec_set(&codec, "tg", &tenant.debit) == TG_OK) {
        limits_codec_take(&codec, &clock, "", &call);
        printf("EVALSHA\n%s\n%zu\n", script_take.sha1, call.n_keys);
        for (size_t i = 0; i < call.n_keys; i++)
            printf("%.*s\n", (int)call.keys[i].n, call.keys[i].at);
        for (size_t i = 0; i < call.n_args; i++)
            printf("%.*s\n", (int)call.args[i].n, call.args[i].at);
    }
    limits_codec_fini(&codec);
}
