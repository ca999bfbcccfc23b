/* test_remote_cluster.c - in a cluster, whatever belongs together is in one slot. */
#include "net_remote_kit.h"
#include "server/remote_store/remote_blocks.h"
#include "server/remote_store/remote_keys.h"
#include "server/remote_store/remote_nodes.h"

static struct net_redis_cluster cluster;
static struct remote_kit kit;

static int start(void **state)
{
    (void)state;
    net_redis_cluster_start(&cluster, 3, 0, NULL);
    remote_kit_open_cluster(&kit, &cluster);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    remote_kit_close(&kit);
    net_redis_cluster_free(&cluster);
    return 0;
}

static int answers, takes, leavers;

static void key_decided(void *context, enum tg_err err, const struct tg_key_hold *hold)
{
    (void)context;
    assert_int_equal(err, TG_OK);
    answers++;
    takes += hold == NULL;
}

static void keys_of_any_provider_are_taken_and_given_back(void **state)
{
    static const char *const PROVIDERS[] = {"openai", "a{b}c", "{", "x:y", "anthropic"};
    struct tg_key_ending ending = {0, 0};
    struct remote_keys_options options;
    struct tg_key_report report;
    struct remote_keys *keys;
    (void)state;

    remote_keys_options_init(&options);
    options.loop = kit.loop;
    options.redis = kit.redis;
    options.holder = "n.0";
    assert_int_equal(remote_keys_new(&options, &keys), TG_OK);
    tg_key_report_init(&report);
    for (size_t i = 0; i < COUNT_OF(PROVIDERS); i++) {
        struct tg_key_terms terms = {.provider = PROVIDERS[i],
                                     .model = "m{1}",
                                     .name = "k}",
                                     .group = "g{",
                                     .limits = {.concurrency = 1},
                                     .breaker_failures = 5,
                                     .breaker_open = 1000};
        answers = takes = 0;
        struct remote_key *key = remote_keys_take(keys, &terms, key_decided, NULL);
        remote_until(&kit, answers == 1);
        assert_int_equal(takes, 1);
        remote_keys_take(keys, &terms, key_decided, NULL);
        remote_until(&kit, answers == 2);
        assert_int_equal(takes, 1);
        remote_keys_give(key, &report, &ending);
        remote_until(&kit, remote_keys_count(keys) == 0);
    }
    remote_keys_free(keys);
}

static void has_left(void *context)
{
    (void)context;
    leavers++;
}

static void nodes_are_counted(void **state)
{
    struct remote_nodes_options options;
    struct remote_nodes *nodes;
    tg_ms least, most;
    (void)state;

    remote_nodes_options_init(&options);
    options.loop = kit.loop;
    options.redis = kit.redis;
    options.node = "only";
    options.every = 5;
    assert_int_equal(remote_nodes_new(&options, &nodes), TG_OK);
    remote_until(&kit, remote_nodes_offset(nodes, &least, &most));
    assert_int_equal(remote_nodes_count(nodes), 1);
    remote_nodes_leave(nodes, has_left, NULL);
    remote_until(&kit, leavers == 1);
    remote_nodes_free(nodes);
}

struct answer {
    int n;
    enum tg_err err;
    bool allowed;
};

static void block_decided(void *context, enum tg_err err, const struct tg_axes *axes,
                          const struct remote_blocks_charge *charge)
{
    struct answer *answer = context;

    (void)charge;
    answer->n++;
    answer->err = err;
    answer->allowed = err == TG_OK && tg_axes_binding(axes) == TG_AXIS_NONE;
}

static void blocks_of_a_tenant_and_its_parents_come_with_one_command(void **state)
{
    struct tg_limit limits[2] = {{.limiter = limiter_of("gcra:limit=1000,period=60000"),
                                  .axis = TG_AXIS_RATE},
                                 {.limiter = limiter_of("fixed_window:limit=9000,window=60000"),
                                  .axis = TG_AXIS_COST}};
    struct remote_scope scopes[2] = {{SLICE("tenant/{a}"), SLICE("a"), limits, 2},
                                     {SLICE("parent/b}"), SLICE("b"), limits, 2}};
    struct remote_debit debit = {
        .root = SLICE("b{c}"), .scopes = scopes, .n_scopes = 2, .cost = 7};
    struct remote_limits_options strict;
    struct remote_blocks_options options;
    struct remote_blocks_stats stats;
    struct remote_blocks_charge charge;
    struct remote_limits *first;
    struct remote_blocks *blocks;
    struct answer answer = {.n = 0};
    struct tg_axes axes;
    enum tg_err err;
    (void)state;

    remote_limits_options_init(&strict);
    strict.redis = kit.redis;
    assert_int_equal(remote_limits_new(&strict, &first), TG_OK);
    remote_blocks_options_init(&options);
    options.loop = kit.loop;
    options.redis = kit.redis;
    options.limits = first;
    assert_int_equal(remote_blocks_new(&options, &blocks), TG_OK);
    assert_non_null(remote_blocks_take(blocks, &debit, net_loop_now(kit.loop), block_decided,
                                       &answer, &axes, &charge, &err));
    remote_until(&kit, answer.n == 1);
    assert_int_equal(answer.err, TG_OK);
    assert_true(answer.allowed);
    remote_blocks_get_stats(blocks, &stats);
    assert_int_equal(stats.asks, 1);
    remote_blocks_return(blocks, net_loop_now(kit.loop), NULL, NULL);
    struct redis_stats redis;
    do {
        net_loop_turn(kit.loop, true);
        redis_get_stats(kit.redis, &redis);
    } while (redis.in_flight > 0);
    assert_int_equal(redis.errors, 0);
    remote_blocks_free(blocks);
    remote_limits_free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_any_provider_are_taken_and_given_back),
        cmocka_unit_test(nodes_are_counted),
        cmocka_unit_test(blocks_of_a_tenant_and_its_parents_come_with_one_command),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
