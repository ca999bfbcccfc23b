/* test_redis_rig.c - the servers that the other tests stand on: up, stopped, killed, joined. */
#include "net_redis.h"

#include <signal.h>
#include <string.h>

static void a_server_answers_and_is_empty_after_a_restart(void **state)
{
    struct net_redis server;

    (void)state;
    net_redis_start(&server, "--requirepass", "secret", NULL);
    net_redis_do(&server, "SET %s %d", "a", 7);
    assert_int_equal(net_redis_integer(&server, "GET a"), 7);
    net_redis_kill(&server);
    net_redis_again(&server);
    assert_int_equal(net_redis_integer(&server, "EXISTS a"), 0);
    net_redis_stop(&server);
    assert_int_equal(server.pid, 0);
    net_redis_free(&server);
}

static void a_stopped_server_can_be_freed(void **state)
{
    struct net_redis server;

    (void)state;
    net_redis_start(&server, NULL);
    net_redis_pause(&server);
    net_redis_free(&server);
}

static void a_cluster_has_all_slots_and_sends_on(void **state)
{
    struct net_redis_cluster cluster;

    (void)state;
    net_redis_cluster_start(&cluster, 3, 0, NULL);
    assert_int_equal(net_redis_cluster_owner(&cluster, 0), 0);
    assert_int_equal(net_redis_cluster_owner(&cluster, 5461), 0);
    assert_int_equal(net_redis_cluster_owner(&cluster, 5462), 1);
    assert_int_equal(net_redis_cluster_owner(&cluster, 16383), 2);
    for (size_t i = 0; i < 3; i++) /* "a" is of slot 15495 */
        assert_int_equal(net_redis_says(&cluster.nodes[i], "MOVED 15495", "SET a 1"), i != 2);
    net_redis_cluster_moving(&cluster, 15495, 0);
    assert_true(net_redis_says(&cluster.nodes[2], "ASK 15495", "GET {a}b"));
    net_redis_do(&cluster.nodes[2], "DEL a");
    net_redis_cluster_moved(&cluster, 15495, 0);
    assert_true(net_redis_says(&cluster.nodes[2], "MOVED 15495", "GET {a}b"));
    net_redis_cluster_free(&cluster);
}

static void sentinels_know_the_master(void **state)
{
    struct net_redis_watched watched;

    (void)state;
    net_redis_watched_start(&watched, 1, "secret");
    redisReply *reply =
        net_redis_ask(&watched.sentinels[0], "SENTINEL get-master-addr-by-name %s", watched.name);
    assert_int_equal(reply->elements, 2);
    assert_string_equal(reply->element[0]->str, "127.0.0.1");
    freeReplyObject(reply);
    net_redis_watched_free(&watched);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_answers_and_is_empty_after_a_restart),
        cmocka_unit_test(a_stopped_server_can_be_freed),
        cmocka_unit_test(a_cluster_has_all_slots_and_sends_on),
        cmocka_unit_test(sentinels_know_the_master),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
