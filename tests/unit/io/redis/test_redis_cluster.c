/* test_redis_cluster.c - three masters: keys find their node, slots move, a node dies.
 *
 * Slots of keys: "a" 15495, of the third; "b" 3300, of the first; "c" 7365, of the second.
 */
#include "net_redis_kit.h"

#include <stdio.h>
#include <string.h>

static struct net_redis_cluster cluster;

#define SLOT_A 15495u

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

/* On a cluster that is empty: a slot with keys cannot be given away. */
static void init_kit(struct redis_kit *kit, size_t node)
{
    char url[80];

    for (size_t i = 0; i < cluster.n; i++)
        net_redis_do(&cluster.nodes[i], "FLUSHALL");
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", cluster.nodes[node].port);
    redis_kit_init_url(kit, url);
}

static void slots_are_those_of_redis(void **state)
{
    const char *keys[] = {"a", "b", "c", "tg:rate:{root}:x", "{}a", "a{b}c{d}", "{", "}{a}",
                          "{a", "", "a}b{c"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        assert_int_equal(redis_slot(slice_of(keys[i])),
                         net_redis_integer(&cluster.nodes[0], "CLUSTER KEYSLOT %s", keys[i]));
}

static void keys_find_their_node(void **state)
{
    struct redis_kit kit;
    struct redis_kit_ask ask;
    char words[32];

    (void)state;
    init_kit(&kit, 0);
    redis_kit_open_up(&kit);
    for (int i = 0; i < 200; i++) {
        snprintf(words, sizeof words, "SET key-%d %d", i, i);
        redis_kit_do(&kit, &ask, words);
        assert_string_equal(ask.text, "OK");
    }
    struct redis_stats stats = redis_kit_stats(&kit);
    assert_int_equal(stats.moved, 0);
    assert_int_equal(stats.links, 3);
    assert_int_equal(stats.links_up, 3);
    assert_true(redis_is_up(kit.redis, &SLICE("a")));
    for (size_t i = 0; i < 3; i++)
        assert_true(net_redis_integer(&cluster.nodes[i], "DBSIZE") > 20);
    redis_kit_do(&kit, &ask, "PING"); /* any node */
    assert_string_equal(ask.text, "PONG");
    redis_kit_free(&kit);
}

static void a_slot_that_moves_is_followed(void **state)
{
    struct redis_kit kit;
    struct redis_kit_ask ask;
    struct redis_script script =
        redis_kit_script("return redis.call('INCRBY', KEYS[1], ARGV[1]) -- moves");

    (void)state;
    init_kit(&kit, 1);
    redis_kit_open_up(&kit);
    redis_kit_do(&kit, &ask, "SET {a}stays 1");
    net_redis_cluster_moving(&cluster, SLOT_A, 0);
    /* What is still there is answered there, the rest is asked for: script and all. */
    redis_kit_do(&kit, &ask, "INCR {a}stays");
    assert_int_equal(ask.integer, 2);
    assert_int_equal(redis_kit_stats(&kit).moved, 0);
    redis_kit_eval(&kit, &ask, &script, "{a}new", "5");
    redis_kit_until(&kit, ask.answered);
    assert_int_equal(ask.integer, 5);
    assert_true(redis_kit_stats(&kit).moved > 0);
    net_redis_do(&cluster.nodes[2], "DEL {a}stays");
    net_redis_cluster_moved(&cluster, SLOT_A, 0);
    redis_kit_eval(&kit, &ask, &script, "{a}new", "5");
    redis_kit_until(&kit, ask.answered);
    assert_int_equal(ask.integer, 10);
    /* And from now on it goes there straight. */
    uint64_t moved = redis_kit_stats(&kit).moved;
    redis_kit_eval(&kit, &ask, &script, "{a}new", "5");
    redis_kit_until(&kit, ask.answered);
    assert_int_equal(ask.integer, 15);
    assert_int_equal(redis_kit_stats(&kit).moved, moved);
    assert_int_equal(redis_kit_stats(&kit).errors, 0);
    redis_kit_free(&kit);
    net_redis_do(&cluster.nodes[0], "DEL {a}new");
    net_redis_cluster_moved(&cluster, SLOT_A, 2);
}

static void keys_on_both_sides_are_tried_again(void **state)
{
    struct redis_kit kit;
    struct redis_kit_ask ask;

    (void)state;
    init_kit(&kit, 0);
    redis_kit_open_up(&kit);
    redis_kit_do(&kit, &ask, "SET {a}one 1");
    net_redis_cluster_moving(&cluster, SLOT_A, 1);
    redis_kit_ask(&kit, &ask, "MGET {a}one {a}two"); /* one is here, the other nowhere */
    kit_calm(&kit.kit);
    kit_calm(&kit.kit);
    assert_int_equal(ask.answered, 0);
    net_redis_do(&cluster.nodes[2], "CLUSTER SETSLOT %u STABLE", SLOT_A);
    net_redis_do(&cluster.nodes[1], "CLUSTER SETSLOT %u STABLE", SLOT_A);
    redis_kit_until(&kit, ask.answered);
    assert_int_equal(ask.elements, 2);
    net_redis_do(&cluster.nodes[2], "DEL {a}one");
    redis_kit_free(&kit);
}

static void a_map_that_is_old_mends_itself(void **state)
{
    struct redis_kit kit;
    struct redis_kit_ask asks[50];

    (void)state;
    init_kit(&kit, 0);
    redis_kit_open_up(&kit);
    net_redis_cluster_moved(&cluster, SLOT_A, 1); /* nobody has told the client */
    for (size_t i = 0; i < COUNT_OF(asks); i++)
        redis_kit_ask(&kit, &asks[i], "INCR {a}n");
    redis_kit_until(&kit, asks[49].answered);
    for (size_t i = 0; i < COUNT_OF(asks); i++)
        assert_int_equal(asks[i].integer, i + 1);
    redis_kit_free(&kit);
    net_redis_do(&cluster.nodes[1], "DEL {a}n");
    net_redis_cluster_moved(&cluster, SLOT_A, 2);
}

static void one_node_away_is_a_third_away(void **state)
{
    struct redis_kit kit;
    struct redis_kit_ask ask;

    (void)state;
    init_kit(&kit, 0);
    kit.options.timeout = 50;
    redis_kit_open_up(&kit);
    net_redis_pause(&cluster.nodes[1]);
    redis_kit_ask(&kit, &ask, "GET c");
    redis_kit_until(&kit, ask.late);
    assert_false(redis_is_up(kit.redis, &SLICE("c")));
    assert_false(redis_is_up(kit.redis, NULL));
    assert_true(redis_is_up(kit.redis, &SLICE("b")));
    redis_set_timeout(kit.redis, 20000);
    struct redis_kit_ask other;
    redis_kit_do(&kit, &other, "SET b 1");
    assert_string_equal(other.text, "OK");
    net_redis_resume(&cluster.nodes[1]);
    redis_kit_until(&kit, kit.up && ask.answered);
    assert_true(redis_is_up(kit.redis, &SLICE("c")));
    redis_kit_free(&kit);
}

static void a_dead_node_without_replica_leaves_the_rest(void **state)
{
    struct redis_kit kit;
    struct redis_kit_ask ask;

    (void)state;
    init_kit(&kit, 0);
    redis_kit_open_up(&kit);
    net_redis_kill(&cluster.nodes[2]);
    redis_kit_until(&kit, !kit.up);
    redis_kit_do(&kit, &ask, "INCR a");
    assert_int_equal(ask.ask.lost, REDIS_AWAY);
    redis_kit_do(&kit, &ask, "INCR b");
    assert_false(ask.lost || ask.error);
    net_redis_again(&cluster.nodes[2]);
    redis_kit_until(&kit, kit.up);
    redis_kit_do(&kit, &ask, "INCR a");
    assert_false(ask.lost || ask.error);
    redis_kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_those_of_redis),
        cmocka_unit_test(keys_find_their_node),
        cmocka_unit_test(a_slot_that_moves_is_followed),
        cmocka_unit_test(keys_on_both_sides_are_tried_again),
        cmocka_unit_test(a_map_that_is_old_mends_itself),
        cmocka_unit_test(one_node_away_is_a_third_away),
        cmocka_unit_test(a_dead_node_without_replica_leaves_the_rest),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, start, stop);
}
