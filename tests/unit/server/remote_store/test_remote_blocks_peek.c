/* test_remote_blocks_peek.c - what a call on blocks would be told, before it is made. */
#include "net_blocks_kit.h"

static struct call *const a = &world.calls[0];

/* What a peek has seen. */
static struct seen {
    bool told, by_redis;
    enum tg_err err;
    struct tg_axes here, axes;
    struct remote_blocks_rest rest;
} seen;

static void on_decided(void *context, enum tg_err err, const struct tg_axes *axes,
                       const struct remote_charge *charge)
{
    (void)context;
    (void)charge;
    seen.told = true;
    seen.err = err;
    if (err == TG_OK)
        seen.axes = *axes;
}

/* The way remote_peek.c does it. */
static bool peek(size_t n, int64_t cost)
{
    struct node *node = &world.nodes[n];
    struct remote_debit debit = world_debit(cost), rest;
    tg_ms now = world_here(node);

    memset(&seen, 0, sizeof seen);
    seen.err = remote_blocks_peek(node->blocks, &debit, now, &seen.axes, &rest, &seen.rest);
    seen.by_redis = seen.err == TG_OK && rest.n_scopes > 0;
    if (seen.by_redis) {
        seen.here = seen.axes;
        assert_non_null(remote_limits_peek(node->limits, &rest, now, on_decided, NULL));
        remote_until(&node->kit, seen.told);
        assert_int_equal(seen.err, TG_OK);
        remote_blocks_join(&seen.here, &seen.rest, debit.charging, cost, &seen.axes);
    }
    return seen.err == TG_OK && tg_axes_binding(&seen.axes) == TG_AXIS_NONE;
}

static bool take(size_t n, int64_t cost)
{
    world_take(&world.nodes[n], a, cost);
    world_calm();
    remote_until(&world.nodes[n].kit, a->ask == NULL);
    return a->allowed;
}

/* Time stands still while a command is on its way, and is the same everywhere. */
static void open_still(size_t n, uint64_t stream, enum tg_charging charging)
{
    world_open(n, stream);
    world.slow = 0;
    world.charging = charging;
    for (size_t i = 0; i < n; i++)
        world.nodes[i].skew = 0;
}

/* ---- */

/* A limit on cost that is enforced; on rate, and on cost in shadow, where they are given. */
static void run_dry(const char *rate, const char *cost, const char *shadow, uint64_t stream,
                    enum tg_charging charging)
{
    int agreed[2] = {0, 0}, by_redis = 0;

    open_still(2, stream, charging);
    if (rate != NULL)
        world_add_limit(rate, TG_AXIS_RATE, TG_ENFORCE);
    world_add_limit(cost, TG_AXIS_COST, TG_ENFORCE);
    if (shadow != NULL)
        world_add_limit(shadow, TG_AXIS_COST, TG_SHADOW);
    world_pass(100000 - world.now % 100000);
    for (int i = 0; i < 300; i++) {
        size_t node = (size_t)draw_between(&world.draw, 0, 1);
        int64_t units = draw_between(&world.draw, 1, 8);
        bool looked = peek(node, units);
        enum tg_axis binding = tg_axes_binding(&seen.axes);

        by_redis += seen.by_redis;
        if (take(node, units) != looked || tg_axes_binding(&a->axes) != binding)
            fail_msg("%s, call %d of %lld units on node %zu: seen %d by %s, was %d", cost, i,
                     (long long)units, node, looked, seen.by_redis ? "Redis" : "blocks",
                     a->allowed);
        agreed[looked]++;
        world.now += draw_between(&world.draw, 0, 3);
    }
    assert_true(agreed[false] > 0 && agreed[true] > 0 && by_redis > 0 && by_redis < 300);
    world_close();
}

static void a_peek_says_what_the_take_after_it_is_told(void **state)
{
    static const char *const costs[] = {"fixed_window:limit=400,window=100000",
                                        "token_budget:budget=400,window=100000",
                                        "token_bucket:capacity=200,refill=10"};
    const char *const rate = "fixed_window:limit=90,window=100000";
    uint64_t stream = 1;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(costs); i++) {
        run_dry(NULL, costs[i], NULL, stream++, TG_CHARGE_ATOMIC);
        run_dry(rate, costs[i], NULL, stream++, TG_CHARGE_ATOMIC);
        run_dry(rate, costs[i], NULL, stream++, TG_CHARGE_PER_AXIS);
    }
}

/* There is none left of it long before, also where it has the same name in Redis but for a
 * number. */
static void what_is_in_shadow_changes_nothing_in_that(void **state)
{
    const char *const cost = "fixed_window:limit=400,window=100000";
    const char *const shadows[] = {"fixed_window:limit=300,window=1000000",
                                   "fixed_window:limit=300,window=100000"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(shadows); i++)
        for (uint64_t stream = 30; stream < 36; stream++)
            run_dry(NULL, cost, shadows[i], stream, TG_CHARGE_ATOMIC);
}

static void a_peek_takes_nothing_and_leases_nothing(void **state)
{
    struct remote_blocks_stats before, after;

    (void)state;
    open_still(2, 20, TG_CHARGE_ATOMIC);
    world_add_limit("fixed_window:limit=10,window=100000", TG_AXIS_RATE, TG_ENFORCE);
    world_pass(100000 - world.now % 100000);
    for (int i = 0; i < 20; i++) {
        assert_true(peek(0, 1));
        assert_true(seen.by_redis);
        assert_int_equal(seen.axes.decision[TG_AXIS_RATE].remaining, 9);
    }
    assert_int_equal(net_redis_integer(world_server(), "DBSIZE"), 0);
    before = world_stats();
    assert_int_equal(before.asks, 0);
    assert_int_equal(before.scopes, 0);
    assert_true(take(0, 1));
    before = world_stats();
    for (int i = 0; i < 20; i++)
        peek(0, 1);
    after = world_stats();
    assert_int_equal(after.asks, before.asks);
    assert_int_equal(after.decisions, before.decisions);
    world_close();
}

/* What one node holds is its to spend, and nobody else's, though Redis has it as spent. */
static void units_that_are_held_here_are_there_here_and_nowhere_else(void **state)
{
    (void)state;
    open_still(2, 21, TG_CHARGE_ATOMIC);
    world.block = 1000000;
    world_die(&world.nodes[0]);
    world.nodes[0].skew = 0;
    world_add_limit("fixed_window:limit=100,window=1000000", TG_AXIS_RATE, TG_ENFORCE);
    world_pass(1000000 - world.now % 1000000);
    assert_true(take(0, 1)); /* and with it come all the others */
    assert_true(peek(0, 1));
    assert_false(seen.by_redis);
    assert_int_equal(seen.axes.decision[TG_AXIS_RATE].remaining, 98);
    assert_false(peek(1, 1));
    assert_true(seen.by_redis);
    assert_int_equal(seen.axes.decision[TG_AXIS_RATE].remaining, 0);
    world_close();
}

/* All of rate is leased here, and of cost a part. */
static void what_is_missing_here_is_looked_at_in_redis_and_nothing_else(void **state)
{
    (void)state;
    for (int per_axis = 0; per_axis <= 1; per_axis++) {
        open_still(1, 22, per_axis ? TG_CHARGE_PER_AXIS : TG_CHARGE_ATOMIC);
        world.block = 1000000;
        world_die(&world.nodes[0]);
        world.nodes[0].skew = 0;
        world_add_limit("fixed_window:limit=5,window=1000000", TG_AXIS_RATE, TG_ENFORCE);
        world_add_limit("token_bucket:capacity=1000,refill=0.001", TG_AXIS_COST, TG_ENFORCE);
        world_pass(1000000 - world.now % 1000000);
        assert_true(take(0, 10));
        assert_true(peek(0, 700));
        assert_true(seen.by_redis);
        assert_int_equal(seen.here.present, 1u << TG_AXIS_RATE);
        assert_int_equal(seen.axes.present, 1u << TG_AXIS_RATE | 1u << TG_AXIS_COST);
        assert_int_equal(seen.axes.decision[TG_AXIS_RATE].remaining, 3);
        assert_true(take(0, 600));
        assert_false(peek(0, 700));
        assert_true(seen.by_redis);
        assert_int_equal(tg_axes_binding(&seen.axes), TG_AXIS_COST);
        assert_int_equal(seen.axes.decision[TG_AXIS_RATE].remaining, per_axis ? 2 : 3);
        assert_false(take(0, 700));
        assert_int_equal(a->axes.decision[TG_AXIS_RATE].remaining, per_axis ? 2 : 3);
        world_close();
    }
}

static void a_limit_in_shadow_is_looked_at_too(void **state)
{
    (void)state;
    open_still(1, 23, TG_CHARGE_ATOMIC);
    world_add_limit("fixed_window:limit=1000,window=100000", TG_AXIS_RATE, TG_ENFORCE);
    world_add_limit("fixed_window:limit=3,window=100000", TG_AXIS_RATE, TG_SHADOW);
    world_pass(100000 - world.now % 100000);
    for (int i = 0; i < 10; i++) {
        assert_true(peek(0, 1));
        assert_int_equal(seen.axes.would_deny, i < 3 ? 0 : 1u << TG_AXIS_RATE);
        assert_true(take(0, 1));
        assert_int_equal(a->axes.would_deny, seen.axes.would_deny);
    }
    world_close();
}

static void a_large_call_is_looked_at_in_redis(void **state)
{
    (void)state;
    open_still(1, 24, TG_CHARGE_ATOMIC);
    world_add_limit("token_bucket:capacity=1000,refill=100", TG_AXIS_COST, TG_ENFORCE);
    assert_true(peek(0, 1000));
    assert_true(take(0, 1));
    assert_false(peek(0, 1000));
    assert_true(seen.by_redis);
    assert_false(peek(0, 1001));
    assert_int_equal(seen.axes.decision[TG_AXIS_COST].retry_after_ms, TG_UNSATISFIABLE);
    peek(0, -1);
    assert_int_equal(seen.err, TG_ERR_INVALID);
    world_close();
}

static void while_redis_owes_an_answer_there_is_none(void **state)
{
    struct net_redis *server = world_server();

    (void)state;
    open_still(1, 25, TG_CHARGE_ATOMIC);
    world_add_limit("fixed_window:limit=100,window=1000000", TG_AXIS_RATE, TG_ENFORCE);
    world_pass(1000000 - world.now % 1000000);
    remote_kit_hasten(&world.nodes[0].kit, 5);
    net_redis_pause(server);
    world_take(&world.nodes[0], a, 1);
    remote_until(&world.nodes[0].kit, a->ask == NULL);
    assert_int_equal(a->err, TG_ERR_STORE);
    peek(0, 1);
    assert_int_equal(seen.err, TG_ERR_STORE);
    net_redis_resume(server);
    remote_kit_hasten(&world.nodes[0].kit, 30000);
    world_calm();
    assert_true(peek(0, 1));
    assert_false(seen.by_redis); /* its block has come */
    world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peek_says_what_the_take_after_it_is_told),
        cmocka_unit_test(what_is_in_shadow_changes_nothing_in_that),
        cmocka_unit_test(a_peek_takes_nothing_and_leases_nothing),
        cmocka_unit_test(units_that_are_held_here_are_there_here_and_nowhere_else),
        cmocka_unit_test(what_is_missing_here_is_looked_at_in_redis_and_nothing_else),
        cmocka_unit_test(a_limit_in_shadow_is_looked_at_too),
        cmocka_unit_test(a_large_call_is_looked_at_in_redis),
        cmocka_unit_test(while_redis_owes_an_answer_there_is_none),
    };

    return cmocka_run_group_tests(tests, world_start_server, world_stop_server);
}
