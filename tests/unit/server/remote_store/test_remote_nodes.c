/* test_remote_nodes.c - nodes know how many they are, and miss those that are gone. */
#include "server/remote_store/remote_nodes.h"

#include "net_remote_kit.h"
#include "redis_group.h"

struct node {
    struct remote_kit kit;
    struct remote_nodes *nodes;
    size_t changes, count, index;
    bool left;
};

static void changed(void *context, size_t count, size_t index)
{
    struct node *node = context;

    node->changes++;
    node->count = count;
    node->index = index;
}

static void has_left(void *context)
{
    *(bool *)context = true;
}

static void open_node(struct node *node, struct net_loop *loop, const char *id)
{
    struct remote_nodes_options options;

    *node = (struct node){.changes = 0};
    remote_kit_open(&node->kit, loop, &server);
    remote_nodes_options_init(&options);
    options.loop = node->kit.loop;
    options.redis = node->kit.redis;
    options.node = id;
    options.every = 5;
    options.ttl = 300;
    options.changed = changed;
    options.context = node;
    assert_int_equal(remote_nodes_new(&options, &node->nodes), TG_OK);
    assert_int_equal(remote_nodes_count(node->nodes), 1);
}

/* Ends it like a process that dies: its client goes first. */
static void kill_node(struct node *node)
{
    remote_kit_cut(&node->kit);
    remote_nodes_free(node->nodes);
}

static void three_nodes_count_three_and_a_dead_one_is_missed(void **state)
{
    struct node a, b, c;
    tg_ms least, most;
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    open_node(&a, NULL, "node-a");
    open_node(&c, a.kit.loop, "node-c");
    open_node(&b, a.kit.loop, "node-b");
    remote_until(&a.kit, a.count == 3 && b.count == 3 && c.count == 3);
    remote_until(&a.kit, a.index == 0 && b.index == 1 && c.index == 2);
    assert_int_equal(remote_nodes_index(c.nodes), 2);
    assert_true(remote_nodes_offset(a.nodes, &least, &most));
    assert_true(least <= most);
    /* One machine, one clock; but a loop's time is that of its turn. */
    assert_true(least <= 1 && most >= -1);

    kill_node(&b);
    remote_until(&a.kit, a.count == 2 && c.index == 1);
    kill_node(&a);
    kill_node(&c);
    net_loop_free(a.kit.loop);
}

static void a_node_that_leaves_is_missed_at_once(void **state)
{
    struct node a, b;
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    open_node(&a, NULL, "a");
    open_node(&b, a.kit.loop, "b");
    remote_until(&a.kit, a.count == 2 && b.count == 2);
    remote_nodes_leave(b.nodes, has_left, &b.left);
    remote_until(&a.kit, b.left);
    assert_int_equal(net_redis_integer(&server, "ZCARD tg:node:{nodes}"), 1);
    remote_until(&a.kit, a.count == 1);
    kill_node(&a);
    kill_node(&b);
    net_loop_free(a.kit.loop);
}

static void the_last_known_number_stands_while_redis_is_away(void **state)
{
    struct node a, b;
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    open_node(&a, NULL, "a");
    open_node(&b, a.kit.loop, "b");
    remote_until(&a.kit, a.count == 2 && b.count == 2);
    net_redis_kill(&server);
    remote_until(&a.kit, !redis_is_up(a.kit.redis, NULL));
    assert_int_equal(remote_nodes_count(a.nodes), 2);
    net_redis_again(&server);
    remote_until(&a.kit, redis_is_up(a.kit.redis, NULL) && redis_is_up(b.kit.redis, NULL));
    remote_until(&a.kit, remote_nodes_count(a.nodes) == 2 &&
                             net_redis_integer(&server, "ZCARD tg:node:{nodes}") == 2);
    kill_node(&a);
    kill_node(&b);
    net_loop_free(a.kit.loop);
}

static void the_set_of_nodes_expires(void **state)
{
    struct node a;
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    open_node(&a, NULL, "a");
    remote_until(&a.kit, net_redis_integer(&server, "PTTL tg:node:{nodes}") > 0);
    kill_node(&a);
    net_loop_free(a.kit.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_nodes_count_three_and_a_dead_one_is_missed),
        cmocka_unit_test(a_node_that_leaves_is_missed_at_once),
        cmocka_unit_test(the_last_known_number_stands_while_redis_is_away),
        cmocka_unit_test(the_set_of_nodes_expires),
    };

    return cmocka_run_group_tests(tests, start_redis, stop_redis);
}
