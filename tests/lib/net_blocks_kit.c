/* net_blocks_kit.c - a world of nodes that lease blocks of units. See net_blocks_kit.h. */
#include "net_blocks_kit.h"

#include <stdio.h>
#include <string.h>

static struct net_redis server;
static int holders;
struct world world;
static uint64_t seed;

int world_start_server(void **state)
{
    (void)state;
    seed = draw_seed("remote_blocks");
    net_redis_start(&server, NULL);
    return 0;
}

int world_stop_server(void **state)
{
    (void)state;
    net_redis_free(&server);
    return 0;
}

/* ---- the world ---- */

tg_ms world_here(void *context)
{
    struct node *node = context;

    return node->world->now + node->skew;
}

/* A command that is sent now runs a little later, and never before one that was sent earlier. */
static tg_ms there(void *context)
{
    struct world *all = ((struct node *)context)->world;
    tg_ms at = all->now + draw_between(&all->draw, 0, all->slow);

    if (at > all->there)
        all->there = at;
    return all->there;
}

static void open_node(struct world *all, struct node *node)
{
    struct remote_limits_options strict;
    struct remote_blocks_options options;
    char holder[32];

    snprintf(holder, sizeof holder, "node-%d", ++holders); /* nobody has it twice */
    node->world = all;
    remote_kit_open(&node->kit, all->loop, &server);
    all->loop = node->kit.loop;
    node->skew = draw_between(&all->draw, -5000, 5000);
    remote_limits_options_init(&strict);
    strict.redis = node->kit.redis;
    strict.callers_clock = true;
    assert_int_equal(remote_limits_new(&strict, &node->limits), TG_OK);
    remote_blocks_options_init(&options);
    options.loop = node->kit.loop;
    options.redis = node->kit.redis;
    options.limits = node->limits;
    options.holder = holder;
    options.here = world_here;
    options.there = there;
    options.time_context = node;
    if (all->block)
        options.block = all->block;
    assert_int_equal(remote_blocks_new(&options, &node->blocks), TG_OK);
    remote_blocks_set_holders(node->blocks, all->block ? 1 : all->n);
}

static void add_stats(struct remote_blocks_stats *sum, const struct remote_blocks *blocks)
{
    struct remote_blocks_stats one;

    remote_blocks_get_stats(blocks, &one);
    sum->decisions += one.decisions;
    sum->strict += one.strict;
    sum->waited += one.waited;
    sum->asks += one.asks;
    sum->lost += one.lost;
    sum->leased += one.leased;
    sum->returned += one.returned;
}

/* Like a process that is killed: nothing is given back, and calls that wait are forgotten. */
static void kill_node(struct world *all, struct node *node)
{
    add_stats(&all->dead, node->blocks);
    remote_kit_cut(&node->kit);
    remote_blocks_free(node->blocks);
    remote_limits_free(node->limits);
}

void world_open(size_t n, uint64_t stream)
{
    memset(&world, 0, sizeof world);
    net_redis_do(&server, "FLUSHALL");
    world.draw = draw_stream(seed, stream);
    world.now = BEGIN + draw_between(&world.draw, 0, 100000);
    world.slow = 3;
    world.n = n;
    for (size_t i = 0; i < n; i++)
        open_node(&world, &world.nodes[i]);
}

void world_die(struct node *node)
{
    kill_node(&world, node);
    for (size_t i = 0; i < CALLS; i++)
        if (world.calls[i].node == node)
            world.calls[i].in_use = false;
    open_node(&world, node);
}

struct net_redis *world_server(void)
{
    return &server;
}

void world_add_limit(const char *spec, enum tg_axis axis, enum tg_mode mode)
{
    world.limits[world.n_limits++] =
        (struct tg_limit){.limiter = limiter_of(spec), .axis = axis, .mode = mode};
}

void world_close(void)
{
    for (size_t i = 0; i < world.n; i++)
        kill_node(&world, &world.nodes[i]);
    net_loop_free(world.loop);
}

struct remote_blocks_stats world_stats(void)
{
    struct remote_blocks_stats sum = world.dead;

    for (size_t i = 0; i < world.n; i++)
        add_stats(&sum, world.nodes[i].blocks);
    return sum;
}

/* ---- calls ---- */

struct remote_debit world_debit(int64_t cost)
{
    static struct remote_scope scope;

    scope = (struct remote_scope){.name = SLICE("tenant/{t}"),
                                  .key = SLICE("t"),
                                  .limits = world.limits,
                                  .n = world.n_limits};
    return (struct remote_debit){.root = SLICE("r:{1}"),
                                 .scopes = &scope,
                                 .n_scopes = 1,
                                 .cost = cost,
                                 .charging = world.charging};
}

static void note(struct call *call)
{
    call->allowed = call->err == TG_OK && tg_axes_binding(&call->axes) == TG_AXIS_NONE;
    world.decided++;
    world.failed += call->err != TG_OK;
    world.refused += call->err == TG_OK && !call->allowed;
    if (!call->allowed)
        return;
    if (world.n_log == LOG)
        fail_msg("the log is too short");
    call->logged = world.n_log;
    world.log[world.n_log++] = (struct admission){world.now, call->cost};
}

/* Commands of several nodes may overtake one another on their way, so that the server sees their
 * times go back, as its own clock never does. What was sent in one window and came after the first
 * of the next is charged to that one. */
static tg_ms charged_at(const struct call *call, tg_ms sent)
{
    const struct tg_limiter_config *config = &world.limits[0].limiter.config;
    tg_ms ends = call->axes.decision[world.limits[0].axis].reset_at;

    if (config->strategy != TG_FIXED_WINDOW || sent >= ends - config->period)
        return sent;
    return ends - config->period;
}

static void decided(void *context, enum tg_err err, const struct tg_axes *axes,
                    const struct remote_blocks_charge *charge)
{
    struct call *call = context;

    call->ask = NULL;
    call->err = err;
    if (err == TG_OK) {
        call->axes = *axes;
        call->charge = *charge;
    }
    note(call);
    if (call->allowed && charge->strict)
        world.log[call->logged].at = charged_at(call, charge->charge.at);
}

void world_take(struct node *node, struct call *call, int64_t cost)
{
    struct remote_debit debit = world_debit(cost);

    *call = (struct call){.world = &world, .node = node, .cost = cost, .in_use = true};
    call->ask = remote_blocks_take(node->blocks, &debit, world_here(node), decided, call,
                                   &call->axes, &call->charge, &call->err);
    if (!call->ask)
        note(call);
}

static void decided_strictly(void *context, enum tg_err err, const struct tg_axes *axes,
                             const struct remote_charge *charge)
{
    struct call *call = context;

    call->strict = false;
    call->err = err;
    if (err == TG_OK)
        call->axes = *axes;
    note(call);
    if (call->allowed)
        world.log[call->logged].at = charged_at(call, charge->at);
}

void world_take_strictly(struct node *node, struct call *call, int64_t cost)
{
    struct remote_debit debit = world_debit(cost);

    *call = (struct call){.world = &world, .node = node, .cost = cost, .in_use = true};
    call->strict = true;
    assert_non_null(remote_limits_take(node->limits, &debit, there(node), decided_strictly, call));
}

void world_settle(struct call *call, int64_t actual)
{
    struct remote_debit debit = world_debit(call->cost);

    if (actual < call->cost)
        world.log[call->logged].units = actual;

    remote_blocks_settle(call->node->blocks, &debit, world_here(call->node), &call->charge, actual);
    call->in_use = false;
}

void world_refund(struct call *call)
{
    struct remote_debit debit = world_debit(call->cost);

    world.log[call->logged].units = 0;

    remote_blocks_refund(call->node->blocks, &debit, world_here(call->node), &call->charge);
    call->in_use = false;
}

struct call *world_free_call(void)
{
    for (size_t i = 0; i < CALLS; i++)
        if (!world.calls[i].in_use)
            return &world.calls[i];
    fail_msg("too many calls");
    return NULL;
}

static bool all_calm(void)
{
    for (size_t i = 0; i < world.n; i++) {
        struct redis_stats stats;
        redis_get_stats(world.nodes[i].kit.redis, &stats);
        if (stats.in_flight > 0)
            return false;
    }
    return true;
}

/* Answers arrive, after Redis has given them. */
void world_calm(void)
{
    for (int round = 0; !all_calm(); round++) {
        world.now = (world.there > world.now ? world.there : world.now) +
                    draw_between(&world.draw, 0, world.slow);
        remote_kit_turn(&world.nodes[0].kit, round, "all is calm", __FILE__, __LINE__);
    }
}

void world_pass(tg_ms ms)
{
    world.now += ms;
    for (size_t i = 0; i < world.n; i++)
        remote_blocks_tick(world.nodes[i].blocks, world_here(&world.nodes[i]));
    world_calm();
}
