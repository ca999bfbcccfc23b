/* test_remote_money_cluster.c - budgets in a Redis Cluster: each root in its slot, everyone in
 * another, and no script touches a key of a second. */
#include "draw.h"
#include "remote_money_kit.h"

static struct net_redis_cluster cluster;

static int start(void **state)
{
    (void)state;
    net_redis_cluster_start(&cluster, 3, 0, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    net_redis_cluster_free(&cluster);
    return 0;
}

static void open_node(struct money_node *node, const struct money_world *world)
{
    struct remote_money_options options;
    struct redis_options redis;
    struct tg_problem problem;

    memset(node, 0, sizeof *node);
    clock_init(&node->kit.clock);
    assert_int_equal(net_loop_new(&node->kit.clock, &node->kit.loop), TG_OK);
    redis_options_init(&redis);
    redis.kind = REDIS_CLUSTER;
    redis.n_hosts = 1;
    snprintf(redis.hosts[0].name, sizeof redis.hosts[0].name, "127.0.0.1");
    redis.hosts[0].port = cluster.nodes[0].port;
    assert_int_equal(redis_new(node->kit.loop, &redis, &node->kit.redis, &problem), TG_OK);
    node->spending = money_books(NULL, world, NOW);
    money_options(&options, "n", 0xa0);
    assert_int_equal(remote_money_new(&options, node->spending, &node->money, &problem), TG_OK);
    assert_int_equal(
        remote_money_port_new(node->money, node->kit.loop, node->kit.redis, &node->port), TG_OK);
    money_until(node, redis_is_up(node->kit.redis, NULL));
}

static struct net_redis *owner_of(const char *tag)
{
    unsigned slot = redis_slot(slice_of(tag));

    return &cluster.nodes[net_redis_cluster_owner(&cluster, slot)];
}

static void tenants_of_all_roots_and_everyone_are_counted_where_they_belong(void **state)
{
    struct money_world world;
    struct money_node node;
    struct draw draw = draw_stream(1, 1);
    long long solo = 0, product = 0;
    (void)state;

    money_world_init(&world);
    open_node(&node, &world);
    for (int i = 0; i < 60; i++) {
        size_t tenant = (size_t)draw_between(&draw, 0, TENANTS - 1);
        struct spending_call what = money_what(tenant, tenant == TEAM_A ? "ann" : NULL, 40);
        struct money_call call = money_must(&node, &what, NOW);
        assert_int_equal(call.err, TG_OK);
        assert_non_null(call.ticket);
        tg_micro spent = draw_between(&draw, 0, 40);
        remote_money_settle(call.ticket, spent, NOW);
        *(tenant == SOLO ? &solo : &product) += spent;
    }
    atomic_store(&node.money->latest, NOW + 2000);
    money_until(&node, money_stats(&node).unacked == 0 &&
                           node.port->lists[MONEY_CLAIM_ENDING].n == 0);
    assert_int_equal(money_in_redis(owner_of("{solo}"), OF_SOLO, TG_PER_DAY, "s"), solo);
    assert_int_equal(money_in_redis(owner_of("{product}"), OF_PRODUCT, TG_PER_WEEK, "s"), product);
    assert_int_equal(money_in_redis(owner_of("{%}"), EVERYONE, TG_PER_MONTH, "s"), solo + product);
    money_node_kill(&node);
    net_loop_free(node.kit.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tenants_of_all_roots_and_everyone_are_counted_where_they_belong),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
