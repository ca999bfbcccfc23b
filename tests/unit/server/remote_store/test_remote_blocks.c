/* test_remote_blocks.c - single calls on blocks: answered, charged, settled, given back. */
#include "io/redis/redis_internal.h"
#include "net_blocks_kit.h"

static struct call *const a = &world.calls[0], *const b = &world.calls[1];

/* Calls that Redis decides are decided at the caller's time: it must be the same. */
static void set_clocks(void)
{
    for (size_t i = 0; i < world.n; i++)
        world.nodes[i].skew = 0;
}

/* Node n, call by call: the answer of the last. */
static const struct call *call_on(size_t n, int64_t cost)
{
    world_take(&world.nodes[n], a, cost);
    world_calm();
    remote_until(&world.nodes[n].kit, a->ask == NULL);
    return a;
}

/* How many calls of this cost node n gets, of at most `most`. */
static int64_t get(size_t n, int64_t cost, int64_t most)
{
    int64_t got = 0;

    while (got < most && call_on(n, cost)->allowed)
        got++;
    return got;
}

static void answers_tell_what_is_left_everywhere(void **state)
{
    (void)state;
    world_open(2, 1);
    world_add_limit("fixed_window:limit=100,window=10000", TG_AXIS_RATE, TG_ENFORCE);
    assert_true(call_on(0, 1)->allowed);
    struct tg_decision first = a->axes.decision[TG_AXIS_RATE];
    assert_int_equal(a->axes.present, 1u << TG_AXIS_RATE);
    assert_int_equal(first.limit, 100);
    assert_int_equal(first.remaining, 99);
    assert_int_equal(first.reset_at, world.now - world.now % 10000 + 10000);
    assert_int_equal(first.retry_after_ms, 0);
    assert_true(call_on(1, 1)->allowed);
    assert_true(a->axes.decision[TG_AXIS_RATE].remaining < 99);
    world_close();
}

static void a_refusal_says_when_to_come_again_and_that_is_true(void **state)
{
    (void)state;
    world_open(2, 2);
    world.slow = 0;
    world_add_limit("fixed_window:limit=10,window=1000", TG_AXIS_RATE, TG_ENFORCE);
    world_pass(1000 - world.now % 1000);
    assert_int_equal(get(0, 1, 100), 10);
    tg_ms wait = a->axes.decision[TG_AXIS_RATE].retry_after_ms;
    assert_true(wait > 0 && wait <= 1000);
    assert_int_equal(a->axes.decision[TG_AXIS_RATE].remaining, 0);
    uint64_t asks = world_stats().asks;
    for (int i = 0; i < 100; i++)
        assert_false(call_on(0, 1)->allowed);
    assert_int_equal(world_stats().asks, asks); /* what is refused asks nobody */
    world.now += a->axes.decision[TG_AXIS_RATE].retry_after_ms;
    assert_true(call_on(0, 1)->allowed);
    world_close();
}

static void what_can_never_be_is_said_at_once(void **state)
{
    (void)state;
    world_open(1, 3);
    world_add_limit("token_bucket:capacity=100,refill=10", TG_AXIS_COST, TG_ENFORCE);
    world_take(&world.nodes[0], a, 101);
    assert_null(a->ask);
    assert_false(a->allowed);
    assert_int_equal(a->axes.decision[TG_AXIS_COST].retry_after_ms, TG_UNSATISFIABLE);
    world_take(&world.nodes[0], a, 0);
    assert_null(a->ask);
    assert_true(a->allowed);
    assert_int_equal(a->axes.decision[TG_AXIS_COST].remaining, 100);
    assert_int_equal(world_stats().asks, 0);
    world_close();
}

static void what_is_out_of_range_is_an_error(void **state)
{
    (void)state;
    world_open(1, 4);
    world_add_limit("token_bucket:capacity=100,refill=10", TG_AXIS_COST, TG_ENFORCE);
    world_take(&world.nodes[0], a, -1);
    assert_int_equal(a->err, TG_ERR_INVALID);
    world_close();
}

static void a_large_call_is_decided_by_redis_on_the_same_state(void **state)
{
    (void)state;
    world_open(1, 5);
    set_clocks();
    world_add_limit("token_bucket:capacity=1000,refill=100", TG_AXIS_COST, TG_ENFORCE);
    /* All of the burst: no lease could have it, for that would have to live. */
    assert_true(call_on(0, 1000)->allowed);
    assert_true(a->charge.strict);
    assert_int_equal(world_stats().strict, 1);
    assert_false(call_on(0, 100)->allowed);
    assert_false(a->charge.strict);
    world_close();
}

static void what_redis_decided_is_settled_there(void **state)
{
    (void)state;
    world_open(2, 6);
    set_clocks();
    world_add_limit("token_bucket:capacity=1000,refill=1", TG_AXIS_COST, TG_ENFORCE);
    assert_true(call_on(0, 1000)->allowed);
    assert_true(a->charge.strict);
    world_settle(a, 400);
    world_calm();
    assert_true(call_on(1, 500)->allowed);
    world_close();
}

static void a_limit_without_a_burst_is_decided_by_redis(void **state)
{
    (void)state;
    world_open(2, 7);
    set_clocks();
    world.slow = 0;
    world_add_limit("gcra:limit=10,period=1000,burst=1", TG_AXIS_RATE, TG_ENFORCE);
    assert_true(call_on(0, 1)->allowed);
    assert_false(call_on(1, 1)->allowed);
    assert_int_equal(a->axes.decision[TG_AXIS_RATE].retry_after_ms, 100);
    assert_int_equal(world_stats().strict, 2);
    assert_int_equal(world_stats().asks, 0);
    world_close();
}

/* ---- both axes ---- */

static void open_two_axes(uint64_t stream, enum tg_charging charging)
{
    world_open(1, stream);
    world.slow = 0;
    world.charging = charging;
    world_add_limit("fixed_window:limit=5,window=100000", TG_AXIS_RATE, TG_ENFORCE);
    world_add_limit("fixed_window:limit=100,window=100000", TG_AXIS_COST, TG_ENFORCE);
    world_pass(100000 - world.now % 100000);
}

static void atomic_charging_takes_all_or_nothing(void **state)
{
    (void)state;
    open_two_axes(8, TG_CHARGE_ATOMIC);
    assert_true(call_on(0, 60)->allowed);
    assert_int_equal(a->axes.decision[TG_AXIS_COST].remaining, 40);
    for (int i = 0; i < 10; i++) {
        assert_false(call_on(0, 60)->allowed);
        assert_int_equal(tg_axes_binding(&a->axes), TG_AXIS_COST);
        assert_int_equal(a->axes.decision[TG_AXIS_RATE].remaining, 4); /* its present value */
    }
    assert_true(call_on(0, 40)->allowed);
    assert_int_equal(a->axes.decision[TG_AXIS_RATE].remaining, 3);
    world_close();
}

static void per_axis_charging_spends_a_call_that_cost_refuses(void **state)
{
    (void)state;
    open_two_axes(9, TG_CHARGE_PER_AXIS);
    assert_true(call_on(0, 60)->allowed);
    assert_false(call_on(0, 60)->allowed);
    assert_int_equal(tg_axes_binding(&a->axes), TG_AXIS_COST);
    assert_int_equal(a->axes.decision[TG_AXIS_RATE].remaining, 3);
    for (int i = 0; i < 3; i++)
        call_on(0, 60);
    assert_false(call_on(0, 1)->allowed);
    assert_int_equal(tg_axes_binding(&a->axes), TG_AXIS_RATE);
    assert_int_equal(a->axes.present, 1u << TG_AXIS_RATE); /* cost was not asked */
    world_close();
}

static void a_limit_in_shadow_refuses_nothing_and_says_so(void **state)
{
    (void)state;
    world_open(1, 10);
    world_add_limit("fixed_window:limit=1000,window=100000", TG_AXIS_RATE, TG_ENFORCE);
    world_add_limit("fixed_window:limit=3,window=100000", TG_AXIS_RATE, TG_SHADOW);
    for (int i = 0; i < 10; i++) {
        assert_true(call_on(0, 1)->allowed);
        assert_int_equal(a->axes.would_deny, i < 3 ? 0 : 1u << TG_AXIS_RATE);
        assert_int_equal(a->charge.charge.uncharged[0], i < 3 ? 0 : 2);
    }
    assert_int_equal(a->axes.decision[TG_AXIS_RATE].limit, 1000);
    /* What was not charged is not given back. */
    world_refund(a);
    assert_true(call_on(0, 1)->allowed);
    assert_int_not_equal(a->axes.would_deny, 0);
    world_close();
}

/* ---- what comes back ---- */

static void what_was_not_used_is_spent_again_here(void **state)
{
    (void)state;
    world_open(1, 11);
    world_add_limit("fixed_window:limit=100,window=100000", TG_AXIS_COST, TG_ENFORCE);
    assert_true(call_on(0, 100)->allowed);
    world_settle(a, 30);
    uint64_t asks = world_stats().asks;
    assert_true(call_on(0, 70)->allowed);
    assert_int_equal(world_stats().asks, asks);
    world_refund(a);
    assert_true(call_on(0, 70)->allowed);
    assert_int_equal(world_stats().asks, asks);
    world_close();
}

static void what_was_not_used_of_a_bucket_is_told_to_the_others(void **state)
{
    (void)state;
    world_open(2, 12);
    world_add_limit("token_bucket:capacity=1000,refill=0.1", TG_AXIS_COST, TG_ENFORCE);
    world_take(&world.nodes[0], b, 700);
    world_calm();
    assert_true(b->allowed && !b->charge.strict);
    assert_false(call_on(1, 700)->allowed);
    world_settle(b, 100);
    world_pass(50);
    assert_false(call_on(1, 700)->allowed);
    for (int i = 0; i < 50; i++)
        world_pass(50);
    assert_true(call_on(1, 700)->allowed);
    world_close();
}

static void what_was_used_beside_the_estimate_is_owed(void **state)
{
    (void)state;
    world_open(2, 13);
    world_add_limit("fixed_window:limit=100,window=100000", TG_AXIS_COST, TG_ENFORCE);
    world_pass(100000 - world.now % 100000);
    assert_true(call_on(0, 10)->allowed);
    world_settle(a, 95);
    for (int i = 0; i < 60; i++)
        world_pass(50);
    assert_int_equal(get(1, 5, 10), 1);
    world_close();
}

static void what_nobody_asks_for_goes_back(void **state)
{
    struct remote_blocks_stats stats;
    (void)state;

    world_open(2, 14);
    world_add_limit("fixed_window:limit=1000,window=1000000", TG_AXIS_RATE, TG_ENFORCE);
    world_pass(1000000 - world.now % 1000000);
    for (int i = 0; i < 300; i++) {
        assert_true(call_on(0, 1)->allowed);
        world.now++;
    }
    for (int i = 0; i < 60; i++)
        world_pass(50);
    stats = world_stats();
    assert_int_equal(stats.leased - stats.returned, 300);
    /* And so the other can have all the rest. */
    assert_int_equal(get(1, 1, 1000), 700);
    world_close();
}

/* The first node leases all of a sliding window with one block, spends one unit of it, and its loop
 * then gets a turn each `turn` ms. The second one was refused meanwhile. */
static void check_that_the_rest_goes_back(uint64_t stream, tg_ms turn)
{
    world_open(2, stream);
    world_add_limit("sliding_window:limit=90,window=60000,buckets=60", TG_AXIS_RATE, TG_ENFORCE);
    world.block = 60000;
    world_die(&world.nodes[0]);
    assert_true(call_on(0, 1)->allowed);
    assert_int_equal(world_stats().leased, 90);
    assert_false(call_on(1, 1)->allowed);
    for (tg_ms passed = 0; passed < 4000; passed += turn)
        world_pass(turn);
    assert_int_equal(get(1, 1, 100), 89);
    world_close();
}

static void who_was_refused_gets_what_another_gives_back(void **state)
{
    (void)state;
    check_that_the_rest_goes_back(32, 50);
}

static void a_block_that_ended_unspent_goes_back(void **state)
{
    (void)state;
    check_that_the_rest_goes_back(33, 2000);
}

static void set(void *context)
{
    *(bool *)context = true;
}

static void a_clean_end_gives_everything_back(void **state)
{
    struct remote_blocks_stats stats;
    bool done = false;
    (void)state;

    world_open(2, 15);
    world_add_limit("gcra:limit=1000,period=10000", TG_AXIS_RATE, TG_ENFORCE);
    world.block = 5000;
    world_die(&world.nodes[0]);
    assert_true(call_on(0, 1)->allowed);
    stats = world_stats();
    assert_true(stats.leased > 100);
    remote_blocks_return(world.nodes[0].blocks, world_here(&world.nodes[0]), set, &done);
    assert_false(done);
    world_calm();
    assert_true(done);
    stats = world_stats();
    assert_int_equal(stats.returned, stats.leased - 1);
    done = false;
    remote_blocks_return(world.nodes[0].blocks, world_here(&world.nodes[0]), set, &done);
    world_calm();
    assert_true(done);
    assert_true(call_on(0, 1)->allowed); /* and leases anew */
    world_close();
}

static void a_call_that_is_cancelled_takes_nothing(void **state)
{
    (void)state;
    world_open(1, 16);
    world_add_limit("fixed_window:limit=1,window=1000000", TG_AXIS_RATE, TG_ENFORCE);
    world_pass(1000000 - world.now % 1000000);
    world_take(&world.nodes[0], a, 1);
    world_take(&world.nodes[0], b, 1);
    assert_non_null(a->ask);
    assert_non_null(b->ask);
    remote_blocks_cancel(a->ask);
    a->ask = NULL;
    world_calm();
    assert_true(b->allowed);
    assert_int_equal(world.decided, 1);
    world_close();
}

static void a_strict_call_that_is_cancelled_is_given_back(void **state)
{
    (void)state;
    world_open(1, 17);
    set_clocks();
    world_add_limit("gcra:limit=10,period=1000000,burst=1", TG_AXIS_RATE, TG_ENFORCE);
    world_take(&world.nodes[0], a, 1);
    assert_non_null(a->ask);
    remote_blocks_cancel(a->ask);
    a->ask = NULL;
    world_calm();
    assert_int_equal(world.decided, 0);
    assert_true(call_on(0, 1)->allowed);
    world_close();
}

/* ---- more than one ---- */

static void many_that_wait_are_served_by_one_ask(void **state)
{
    (void)state;
    world_open(1, 18);
    world_add_limit("fixed_window:limit=1000,window=1000000", TG_AXIS_RATE, TG_ENFORCE);
    world_add_limit("gcra:limit=100000,period=1000000", TG_AXIS_COST, TG_ENFORCE);
    for (size_t i = 0; i < 100; i++)
        world_take(&world.nodes[0], &world.calls[i], 3);
    world_calm();
    for (size_t i = 0; i < 100; i++)
        assert_true(world.calls[i].allowed);
    /* The first went off alone; the others waited for it, and then went together. */
    assert_true(world_stats().asks <= 2);
    world_close();
}

static void other_limits_under_the_same_name_are_other_limits(void **state)
{
    (void)state;
    world_open(1, 19);
    world.block = 1000000;
    world_die(&world.nodes[0]);
    world_add_limit("fixed_window:limit=100,window=1000000", TG_AXIS_RATE, TG_ENFORCE);
    world_pass(1000000 - world.now % 1000000);
    assert_true(call_on(0, 1)->allowed);
    world.n_limits = 0; /* a reload: the same window, with another limit */
    world_add_limit("fixed_window:limit=20,window=1000000", TG_AXIS_RATE, TG_ENFORCE);
    assert_false(call_on(0, 1)->allowed); /* all of it is in the block that it had */
    for (int i = 0; i < 50; i++)
        world_pass(50);
    assert_int_equal(get(0, 1, 100), 19);
    world_close();
}

static void scopes_that_nobody_uses_are_forgotten(void **state)
{
    struct remote_blocks_stats stats;
    (void)state;

    world_open(1, 20);
    world_add_limit("fixed_window:limit=100,window=1000", TG_AXIS_RATE, TG_ENFORCE);
    call_on(0, 1);
    remote_blocks_get_stats(world.nodes[0].blocks, &stats);
    assert_int_equal(stats.scopes, 1);
    world_pass(30000);
    remote_blocks_get_stats(world.nodes[0].blocks, &stats);
    assert_int_equal(stats.scopes, 1);
    for (int i = 0; i < 10; i++)
        world_pass(10000);
    remote_blocks_get_stats(world.nodes[0].blocks, &stats);
    assert_int_equal(stats.scopes, 0);
    assert_true(call_on(0, 1)->allowed);
    world_close();
}

/* ---- without Redis ---- */

static void without_redis_what_is_here_is_spent_and_then_there_is_no_answer(void **state)
{
    struct net_redis *server = world_server();
    (void)state;

    world_open(1, 21);
    world.slow = 0;
    world.block = 1000000;
    world_die(&world.nodes[0]);
    world_add_limit("fixed_window:limit=100,window=1000000", TG_AXIS_RATE, TG_ENFORCE);
    world_pass(1000000 - world.now % 1000000);
    assert_true(call_on(0, 1)->allowed);
    net_redis_kill(server);
    remote_until(&world.nodes[0].kit, !redis_is_up(world.nodes[0].kit.redis, NULL));
    assert_int_equal(get(0, 1, 1000), 99);
    world_take(&world.nodes[0], a, 1);
    if (a->ask)
        remote_until(&world.nodes[0].kit, a->ask == NULL);
    /* All of the window was leased, so no more is a no, which needs no Redis. */
    assert_true(a->err == TG_ERR_STORE || !a->allowed);
    world.now += 1000000;
    world_take(&world.nodes[0], a, 1);
    assert_non_null(a->ask);
    remote_until(&world.nodes[0].kit, a->ask == NULL);
    assert_int_equal(a->err, TG_ERR_STORE);
    net_redis_again(server);
    remote_until(&world.nodes[0].kit, redis_is_up(world.nodes[0].kit.redis, NULL));
    assert_true(call_on(0, 1)->allowed);
    world_close();
}

static void an_answer_that_is_late_is_no_answer_but_its_block_counts(void **state)
{
    struct net_redis *server = world_server();
    (void)state;

    world_open(1, 22);
    world.slow = 0;
    world_add_limit("fixed_window:limit=100,window=1000000", TG_AXIS_RATE, TG_ENFORCE);
    world_pass(1000000 - world.now % 1000000);
    remote_kit_hasten(&world.nodes[0].kit, 5);
    net_redis_pause(server);
    world_take(&world.nodes[0], a, 1);
    remote_until(&world.nodes[0].kit, a->ask == NULL);
    assert_int_equal(a->err, TG_ERR_STORE);
    world_take(&world.nodes[0], b, 1); /* nobody waits for what is late */
    assert_null(b->ask);
    assert_int_equal(b->err, TG_ERR_STORE);
    net_redis_resume(server);
    remote_kit_hasten(&world.nodes[0].kit, 30000);
    world_calm();
    uint64_t asks = world_stats().asks;
    assert_true(call_on(0, 1)->allowed);
    assert_int_equal(world_stats().asks, asks);
    world_close();
}

/* The server has got the command and grants a block, but the connection is gone by then; or it has
 * not. Either way nothing of the window is lost, and nothing is given out twice. */
static void a_block_in_doubt_is_asked_for_again_and_granted_once(void **state)
{
    struct net_redis *server = world_server();
    struct node *node = &world.nodes[0];

    (void)state;
    for (int is_done = 0; is_done <= 1; is_done++) {
        world_open(1, 23 + (uint64_t)is_done);
        world.slow = 0;
        world_add_limit("fixed_window:limit=100,window=1000000", TG_AXIS_RATE, TG_ENFORCE);
        world_pass(1000000 - world.now % 1000000);
        assert_true(call_on(0, 1)->allowed);
        if (!is_done) /* what it does not know it does not do */
            net_redis_do(server, "SCRIPT FLUSH");
        node->kit.redis->options.patience = 40;
        net_redis_pause(server);
        do { /* until one has to wait, which has used up what was here */
            world_take(node, a, 1);
        } while (a->ask == NULL);
        remote_until(&node->kit, a->ask == NULL);
        assert_int_equal(a->err, TG_ERR_STORE);
        world_take(node, b, 1);
        assert_int_equal(b->err, TG_ERR_STORE); /* until it is known, nobody asks */
        net_redis_resume(server);
        node->kit.redis->options.patience = 30000;
        remote_until(&node->kit, redis_is_up(node->kit.redis, NULL));
        world_pass(50);
        world_calm();
        get(0, 1, 1000);
        assert_int_equal(world.n_log, 100);
        world_close();
    }
}

/* A reload while a call runs: it is settled by the limits it came with, and the blocks of those
 * that hold now are left alone. */
static void a_call_that_outlives_its_limits_is_settled_all_the_same(void **state)
{
    (void)state;
    world_open(1, 26);
    world.slow = 0;
    world_add_limit("fixed_window:limit=100,window=1000000", TG_AXIS_COST, TG_ENFORCE);
    struct tg_limit before = world.limits[0];
    set_clocks();
    world_pass(1000000 - world.now % 1000000);
    world_take(&world.nodes[0], b, 60);
    world_calm();
    assert_true(b->allowed);
    world.n_limits = 0;
    world_add_limit("fixed_window:limit=50,window=1000000", TG_AXIS_COST, TG_ENFORCE);
    struct tg_limit after = world.limits[0];
    assert_false(call_on(0, 1)->allowed); /* the window has its count */
    struct remote_blocks_stats stats = world_stats();
    world.limits[0] = before;
    world_settle(b, 10);
    world.limits[0] = after;
    remote_until(&world.nodes[0].kit, remote_limits_in_flight(world.nodes[0].limits) == 0);
    assert_int_equal(world_stats().scopes, stats.scopes);
    world_pass(5000);
    world_calm();
    assert_int_equal(get(0, 1, 1000), 40);
    world_close();
}

/* Else a bucket that was made slow would fill at its old rate for as long as it refuses. */
static void a_limit_that_was_changed_refills_at_its_new_rate_at_once(void **state)
{
    (void)state;
    world_open(1, 27);
    set_clocks();
    world.slow = 0;
    world_add_limit("token_bucket:capacity=1000,refill=1000", TG_AXIS_COST, TG_ENFORCE);
    assert_true(call_on(0, 1000)->allowed);
    world.n_limits = 0;
    world_add_limit("token_bucket:capacity=1000,refill=1", TG_AXIS_COST, TG_ENFORCE);
    assert_false(call_on(0, 100)->allowed);
    world_pass(3000);
    assert_false(call_on(0, 100)->allowed);
    world_close();
}

/* Also where that is another one than a call alone would be charged to. */
static void what_is_owed_is_charged_to_the_state_that_blocks_come_from(void **state)
{
    static const char *const specs[] = {
        "fixed_window:limit=100,window=1000000",
        "sliding_window:limit=100,window=1000000,buckets=10",
        "sliding_log:limit=100,window=1000000",
        "gcra:limit=100,period=1000000,burst=100",
    };
    struct node *node = &world.nodes[0];

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        world_open(1, 28 + i);
        set_clocks();
        world.slow = 0;
        world_add_limit(specs[i], TG_AXIS_COST, TG_ENFORCE);
        struct remote_debit debit = world_debit(100);
        remote_blocks_add_debt(node->blocks, &debit, world_here(node),
                               net_loop_now(node->kit.loop));
        remote_until(&node->kit, remote_limits_in_flight(node->limits) == 0);
        assert_false(call_on(0, 50)->allowed);
        world_close();
    }
}

static long long used_of_rate(void)
{
    return net_redis_integer(world_server(), "EVAL %s 0",
                             "local s = redis.call('GET', redis.call('KEYS', '*:rate:*')[1]) "
                             "local _, used = struct.unpack('<dd', s) return used");
}

/* It stops in the middle: what came before that is not told again. */
static void what_a_server_did_before_it_forbade_the_rest_is_done_once(void **state)
{
    struct net_redis *server = world_server();

    (void)state;
    world_open(1, 33);
    world.slow = 0;
    world_add_limit("fixed_window:limit=10000000,window=10000000", TG_AXIS_RATE, TG_ENFORCE);
    world_add_limit("sliding_window:limit=10000000,window=10000000,buckets=10", TG_AXIS_COST,
                    TG_ENFORCE);
    for (int i = 0; i < 3; i++)
        assert_true(call_on(0, 1)->allowed);
    assert_true(used_of_rate() > 50);
    net_redis_do(server, "ACL SETUSER default -pexpire");
    for (int i = 0; i < 4; i++)
        world_pass(1500);
    long long used = used_of_rate();
    net_redis_do(server, "ACL SETUSER default +@all");
    assert_in_range(used, 3, 50); /* and what was granted meanwhile, which is lost */
    world_close();
}

static void what_is_in_doubt_at_the_end_is_freed(void **state)
{
    struct net_redis *server = world_server();
    struct node *node = &world.nodes[0];

    (void)state;
    world_open(1, 25);
    world_add_limit("fixed_window:limit=100,window=1000000", TG_AXIS_RATE, TG_ENFORCE);
    node->kit.redis->options.patience = 40;
    net_redis_pause(server);
    world_take(node, a, 1);
    remote_until(&node->kit, a->ask == NULL);
    net_redis_resume(server);
    world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_tell_what_is_left_everywhere),
        cmocka_unit_test(a_refusal_says_when_to_come_again_and_that_is_true),
        cmocka_unit_test(what_can_never_be_is_said_at_once),
        cmocka_unit_test(what_is_out_of_range_is_an_error),
        cmocka_unit_test(a_large_call_is_decided_by_redis_on_the_same_state),
        cmocka_unit_test(what_redis_decided_is_settled_there),
        cmocka_unit_test(a_limit_without_a_burst_is_decided_by_redis),
        cmocka_unit_test(atomic_charging_takes_all_or_nothing),
        cmocka_unit_test(per_axis_charging_spends_a_call_that_cost_refuses),
        cmocka_unit_test(a_limit_in_shadow_refuses_nothing_and_says_so),
        cmocka_unit_test(what_was_not_used_is_spent_again_here),
        cmocka_unit_test(what_was_not_used_of_a_bucket_is_told_to_the_others),
        cmocka_unit_test(what_was_used_beside_the_estimate_is_owed),
        cmocka_unit_test(what_nobody_asks_for_goes_back),
        cmocka_unit_test(who_was_refused_gets_what_another_gives_back),
        cmocka_unit_test(a_block_that_ended_unspent_goes_back),
        cmocka_unit_test(a_clean_end_gives_everything_back),
        cmocka_unit_test(a_call_that_is_cancelled_takes_nothing),
        cmocka_unit_test(a_strict_call_that_is_cancelled_is_given_back),
        cmocka_unit_test(many_that_wait_are_served_by_one_ask),
        cmocka_unit_test(other_limits_under_the_same_name_are_other_limits),
        cmocka_unit_test(scopes_that_nobody_uses_are_forgotten),
        cmocka_unit_test(without_redis_what_is_here_is_spent_and_then_there_is_no_answer),
        cmocka_unit_test(an_answer_that_is_late_is_no_answer_but_its_block_counts),
        cmocka_unit_test(a_block_in_doubt_is_asked_for_again_and_granted_once),
        cmocka_unit_test(a_call_that_outlives_its_limits_is_settled_all_the_same),
        cmocka_unit_test(a_limit_that_was_changed_refills_at_its_new_rate_at_once),
        cmocka_unit_test(what_is_owed_is_charged_to_the_state_that_blocks_come_from),
        cmocka_unit_test(what_a_server_did_before_it_forbade_the_rest_is_done_once),
        cmocka_unit_test(what_is_in_doubt_at_the_end_is_freed),
    };

    return cmocka_run_group_tests(tests, world_start_server, world_stop_server);
}
