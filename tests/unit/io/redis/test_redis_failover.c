/* test_redis_failover.c - a master dies, its replica takes over: under Sentinel, in a cluster. */
#include "net_redis_kit.h"

#include <stdio.h>
#include <string.h>

/* ---- Sentinel -------------------------------------------------------------------------------- */

static void sentinel_kit(struct redis_kit *kit, const struct net_redis_watched *watched,
                         const char *before)
{
    char url[200];
    int n = snprintf(url, sizeof url, "redis+sentinel://%s%s@127.0.0.1:%d", before, watched->name,
                     net_redis_free_port()); /* the first of the list is not there */

    for (size_t i = 0; i < watched->n_sentinels; i++)
        n += snprintf(url + n, sizeof url - (size_t)n, ",127.0.0.1:%d", watched->sentinels[i].port);
    redis_kit_init_url(kit, url);
}

static void a_new_master_is_found(void **state)
{
    struct net_redis_watched watched;
    struct redis_kit kit;
    struct redis_kit_ask ask;

    (void)state;
    net_redis_watched_start(&watched, 1, "secret");
    sentinel_kit(&kit, &watched, ":secret@");
    redis_kit_open_up(&kit);
    redis_kit_do(&kit, &ask, "SET a 1");
    assert_string_equal(ask.text, "OK");
    /* Not by WAIT: that is for what its own connection has written. */
    net_redis_until(&watched.servers[1], net_redis_says(&watched.servers[1], "1", "GET a"));
    net_redis_kill(&watched.servers[0]);
    redis_kit_until(&kit, !kit.up);
    redis_kit_do(&kit, &ask, "GET a");
    assert_int_equal(ask.ask.lost, REDIS_AWAY);
    /* A server that is promoted hangs up on its clients once more: then the answer is lost. */
    redis_kit_until(&kit, kit.up && (redis_kit_do(&kit, &ask, "GET a"), !ask.lost));
    assert_string_equal(ask.text, "1"); /* the value at the replica that is master now */
    redis_kit_until(&kit, kit.up && (redis_kit_do(&kit, &ask, "SET b 2"), !ask.lost));
    assert_int_equal(net_redis_integer(&watched.servers[1], "GET b"), 2);
    assert_int_equal(redis_kit_stats(&kit).links, 1);
    redis_kit_free(&kit);
    net_redis_watched_free(&watched);
}

static void a_master_that_lost_its_place_is_left(void **state)
{
    struct net_redis_watched watched;
    struct redis_kit kit;
    struct redis_kit_ask ask;

    (void)state;
    net_redis_watched_start(&watched, 1, NULL);
    sentinel_kit(&kit, &watched, "");
    redis_kit_open_up(&kit);
    net_redis_until(&watched.sentinels[0], net_redis_says(&watched.sentinels[0], "OK",
                                                          "SENTINEL FAILOVER %s", watched.name));
    redis_kit_until(&kit, net_redis_says(&watched.servers[1], "role:master", "INFO replication"));
    /* Both live on: the client is told by errors, or by the sentinel, whichever comes first. */
    redis_kit_until(&kit, (redis_kit_do(&kit, &ask, "SET b 1"), !ask.lost && !ask.error) &&
                              net_redis_integer(&watched.servers[1], "EXISTS b") == 1);
    redis_kit_free(&kit);
    net_redis_watched_free(&watched);
}

static void a_name_that_no_sentinel_knows_is_a_problem(void **state)
{
    struct net_redis sentinel;
    struct redis_kit kit;
    char url[100];

    (void)state;
    /* Any server will do that does not know the command. */
    net_redis_start(&sentinel, NULL);
    snprintf(url, sizeof url, "redis+sentinel://tollgate@127.0.0.1:%d", sentinel.port);
    redis_kit_init_url(&kit, url);
    redis_kit_open(&kit);
    redis_kit_until(&kit, strstr(redis_kit_stats(&kit).problem, "ERR") != NULL);
    assert_false(redis_is_up(kit.redis, NULL));
    redis_kit_free(&kit);
    net_redis_free(&sentinel);
}

/* ---- A cluster ------------------------------------------------------------------------------- */

static long long keys_of_replicas(struct net_redis_cluster *cluster)
{
    long long n = 0;

    for (size_t i = 3; i < 6; i++)
        n += net_redis_integer(&cluster->nodes[i], "DBSIZE");
    return n;
}

static void a_replica_takes_over_its_slots(void **state)
{
    struct net_redis_cluster cluster;
    struct redis_kit kit;
    struct redis_kit_ask ask;
    char url[100];

    (void)state;
    net_redis_cluster_start(&cluster, 3, 1, NULL);
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d,127.0.0.1:%d", net_redis_free_port(),
             cluster.nodes[5].port); /* nobody, and a replica: it knows the map too */
    redis_kit_init_url(&kit, url);
    redis_kit_open_up(&kit);
    redis_kit_do(&kit, &ask, "SET a 1"); /* a key of the third node */
    net_redis_until(&cluster.nodes[2], keys_of_replicas(&cluster) == 1);
    net_redis_kill(&cluster.nodes[2]);
    redis_kit_until(&kit, !kit.up);
    redis_kit_do(&kit, &ask, "SET b 1"); /* the others go on */
    assert_string_equal(ask.text, "OK");
    redis_kit_until(&kit, kit.up);
    redis_kit_do(&kit, &ask, "INCR a");
    assert_int_equal(ask.integer, 2);
    assert_int_equal(redis_kit_stats(&kit).links, 3);
    redis_kit_free(&kit);
    net_redis_cluster_free(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_master_is_found),
        cmocka_unit_test(a_master_that_lost_its_place_is_left),
        cmocka_unit_test(a_name_that_no_sentinel_knows_is_a_problem),
        cmocka_unit_test(a_replica_takes_over_its_slots),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
