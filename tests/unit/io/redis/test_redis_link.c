/* test_redis_link.c - one real server: asks in order, scripts it does not know, and all the ways in
 * which it can be away. */
#include "net_redis_kit.h"
#include "redis_group.h"

#include <stdio.h>
#include <string.h>

/* A client of the server that all tests share, which is empty then. */
static void open_kit(struct redis_kit *kit)
{
    net_redis_do(&server, "FLUSHALL");
    redis_kit_init_server(kit, &server);
    redis_kit_open_up(kit);
}

static void replies_come_in_order_and_once(void **state)
{
    struct redis_kit kit;
    struct redis_kit_ask asks[500];

    (void)state;
    open_kit(&kit);
    for (size_t i = 0; i < COUNT_OF(asks); i++)
        redis_kit_ask(&kit, &asks[i], "INCR n");
    redis_kit_until(&kit, asks[COUNT_OF(asks) - 1].answered);
    for (size_t i = 0; i < COUNT_OF(asks); i++) {
        assert_int_equal(asks[i].answered, 1);
        assert_int_equal(asks[i].late, 0);
        assert_int_equal(asks[i].integer, i + 1);
    }
    struct redis_stats stats = redis_kit_stats(&kit);
    assert_int_equal(stats.commands, 500);
    assert_int_equal(stats.replies, 500);
    assert_int_equal(stats.errors + stats.late + stats.broken, 0);
    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.links_up, 1);
    redis_kit_free(&kit);
}

static void asks_of_one_turn_leave_in_one_piece(void **state)
{
    struct redis_kit kit;
    struct redis_kit_ask asks[50];

    (void)state;
    open_kit(&kit);
    net_redis_do(&server, "CONFIG RESETSTAT");
    for (size_t i = 0; i < COUNT_OF(asks); i++)
        redis_kit_ask(&kit, &asks[i], "INCR n");
    redis_kit_until(&kit, asks[COUNT_OF(asks) - 1].answered);
    redisReply *info = net_redis_ask(&server, "INFO stats");
    const char *reads = strstr(info->str, "total_reads_processed:");
    assert_non_null(reads);
    /* Ours is one; the other one, and some few, are of who looks. */
    assert_true(atoi(reads + strlen("total_reads_processed:")) < 10);
    freeReplyObject(info);
    redis_kit_free(&kit);
}

static void a_script_is_sent_as_text_where_it_is_not_known(void **state)
{
    struct redis_kit kit;
    struct redis_kit_ask asks[20];
    struct redis_script script =
        redis_kit_script("return redis.call('INCRBY', KEYS[1], ARGV[1]) -- of a test");

    (void)state;
    open_kit(&kit);
    net_redis_do(&server, "SCRIPT FLUSH");
    for (size_t i = 0; i < COUNT_OF(asks); i++)
        redis_kit_eval(&kit, &asks[i], &script, "k", "2");
    redis_kit_until(&kit, asks[COUNT_OF(asks) - 1].answered);
    for (size_t i = 0; i < COUNT_OF(asks); i++)
        assert_int_equal(asks[i].integer, 2 * (i + 1));
    struct redis_stats stats = redis_kit_stats(&kit);
    assert_int_equal(stats.asked_text, 20);
    redis_kit_eval(&kit, &asks[0], &script, "k", "3");
    redis_kit_until(&kit, asks[0].answered);
    assert_int_equal(asks[0].integer, 43);
    stats = redis_kit_stats(&kit);
    assert_int_equal(stats.asked_text, 20);
    assert_int_equal(stats.errors, 0);
    redis_kit_free(&kit);
}

static void errors_are_replies(void **state)
{
    struct redis_kit kit;
    struct redis_kit_ask ask;

    (void)state;
    open_kit(&kit);
    redis_kit_do(&kit, &ask, "SET a text");
    assert_string_equal(ask.text, "OK");
    redis_kit_do(&kit, &ask, "INCR a");
    assert_true(ask.error);
    assert_string_equal(ask.text, "ERR value is not an integer or out of range");
    redis_kit_do(&kit, &ask, "GET nothing");
    assert_false(ask.error || ask.lost);
    assert_true(redis_is_up(kit.redis, NULL));
    assert_int_equal(redis_kit_stats(&kit).errors, 1);
    redis_kit_free(&kit);
}

/* ---- Away ------------------------------------------------------------------------------------ */

static void before_it_is_up_asks_are_lost_at_once(void **state)
{
    struct redis_kit kit;
    struct redis_kit_ask ask;

    (void)state;
    redis_kit_init_server(&kit, &server);
    redis_kit_open(&kit);
    assert_false(redis_is_up(kit.redis, NULL));
    redis_kit_do(&kit, &ask, "PING");
    assert_true(ask.lost);
    assert_int_equal(ask.ask.lost, REDIS_AWAY);
    redis_kit_until(&kit, kit.up);
    assert_int_equal(kit.changes, 1);
    redis_kit_do(&kit, &ask, "PING");
    assert_string_equal(ask.text, "PONG");
    redis_kit_free(&kit);
}

static void too_many_in_flight_are_refused(void **state)
{
    struct redis_kit kit;
    struct redis_kit_ask asks[12];

    (void)state;
    redis_kit_init_server(&kit, &server);
    kit.options.in_flight_max = 10;
    redis_kit_open_up(&kit);
    for (size_t i = 0; i < COUNT_OF(asks); i++)
        redis_kit_ask(&kit, &asks[i], "PING");
    redis_kit_until(&kit, asks[9].answered && asks[11].answered);
    for (size_t i = 0; i < COUNT_OF(asks); i++) {
        assert_int_equal(asks[i].answered, 1);
        assert_int_equal(asks[i].ask.lost, i < 10 ? REDIS_ANSWERED : REDIS_FULL);
    }
    assert_int_equal(redis_kit_stats(&kit).full, 2);
    redis_kit_free(&kit);
}

static void freeing_answers_what_is_in_flight(void **state)
{
    struct redis_kit kit;
    struct redis_kit_ask sent, refused;

    (void)state;
    redis_kit_init_server(&kit, &server);
    kit.options.in_flight_max = 1;
    redis_kit_open_up(&kit);
    redis_kit_ask(&kit, &sent, "PING");
    redis_kit_ask(&kit, &refused, "PING");
    redis_kit_free(&kit);
    assert_int_equal(sent.answered, 1);
    assert_int_equal(sent.ask.lost, REDIS_BROKE);
    assert_int_equal(refused.answered, 1);
    assert_int_equal(refused.ask.lost, REDIS_FULL);
}

static void a_killed_server_is_found_again_when_it_is_back(void **state)
{
    struct net_redis own;
    struct redis_kit kit;
    struct redis_kit_ask asks[10], ask;

    (void)state;
    net_redis_start(&own, NULL);
    redis_kit_init_port(&kit, own.port);
    redis_kit_open_up(&kit);
    net_redis_pause(&own); /* so that all are in flight when it dies */
    for (size_t i = 0; i < COUNT_OF(asks); i++)
        redis_kit_ask(&kit, &asks[i], "INCR n");
    kit_calm(&kit.kit);
    net_redis_kill(&own);
    redis_kit_until(&kit, asks[9].answered);
    for (size_t i = 0; i < COUNT_OF(asks); i++) {
        assert_int_equal(asks[i].answered, 1);
        assert_int_equal(asks[i].ask.lost, REDIS_BROKE);
    }
    redis_kit_until(&kit, !kit.up);
    redis_kit_do(&kit, &ask, "INCR n");
    assert_int_equal(ask.ask.lost, REDIS_AWAY);
    assert_true(strlen(redis_kit_stats(&kit).problem) > 0);
    assert_true(redis_kit_stats(&kit).down_since > 0);
    net_redis_again(&own);
    redis_kit_until(&kit, kit.up);
    redis_kit_do(&kit, &ask, "INCR n");
    assert_int_equal(ask.integer, 1); /* it came back empty */
    assert_int_equal(redis_kit_stats(&kit).broken, 10);
    redis_kit_free(&kit);
    net_redis_free(&own);
}

static void a_stopped_server_is_suspected_and_trusted_again(void **state)
{
    struct net_redis own;
    struct redis_kit kit;
    struct redis_kit_ask first, second, third;

    (void)state;
    net_redis_start(&own, NULL);
    redis_kit_init_server(&kit, &own);
    kit.options.timeout = 30;
    redis_kit_open_up(&kit);
    net_redis_pause(&own);
    redis_kit_ask(&kit, &first, "INCR n");
    redis_kit_until(&kit, first.late);
    assert_int_equal(first.answered, 0);
    assert_false(redis_is_up(kit.redis, NULL));
    redis_kit_do(&kit, &second, "INCR n");
    assert_int_equal(second.ask.lost, REDIS_AWAY);
    assert_int_equal(second.late, 0);
    net_redis_resume(&own);
    redis_kit_until(&kit, kit.up && first.answered);
    assert_int_equal(first.late, 1);
    assert_int_equal(first.integer, 1); /* a late yes is still told */
    redis_set_timeout(kit.redis, 20000);
    redis_kit_do(&kit, &third, "INCR n");
    assert_int_equal(third.integer, 2);
    assert_int_equal(redis_kit_stats(&kit).late, 1);
    assert_int_equal(redis_kit_stats(&kit).connects, 1);
    redis_kit_free(&kit);
    net_redis_free(&own);
}

static void a_server_that_stops_while_idle_is_noticed(void **state)
{
    struct net_redis own;
    struct redis_kit kit;

    (void)state;
    net_redis_start(&own, NULL);
    redis_kit_init_server(&kit, &own);
    kit.options.timeout = 30;
    kit.options.health = 20;
    redis_kit_open_up(&kit);
    net_redis_pause(&own);
    redis_kit_until(&kit, !kit.up);
    assert_int_equal(redis_kit_stats(&kit).late, 0); /* no owner had to wait for it */
    net_redis_resume(&own);
    redis_kit_until(&kit, kit.up);
    assert_int_equal(redis_kit_stats(&kit).connects, 1);
    redis_kit_free(&kit);
    net_redis_free(&own);
}

static void patience_ends(void **state)
{
    struct net_redis own;
    struct redis_kit kit;
    struct redis_kit_ask ask;

    (void)state;
    net_redis_start(&own, NULL);
    redis_kit_init_server(&kit, &own);
    kit.options.timeout = 10;
    kit.options.patience = 60;
    kit.options.connect = 100;
    redis_kit_open_up(&kit);
    net_redis_pause(&own);
    redis_kit_do(&kit, &ask, "INCR n");
    assert_int_equal(ask.late, 1);
    assert_int_equal(ask.ask.lost, REDIS_BROKE);
    assert_non_null(strstr(redis_kit_stats(&kit).problem, "no answer in time"));
    net_redis_resume(&own);
    redis_kit_until(&kit, kit.up);
    assert_true(redis_kit_stats(&kit).connects >= 2);
    redis_kit_free(&kit);
    net_redis_free(&own);
}

static void nobody_there_is_no_reason_to_wait(void **state)
{
    struct redis_kit kit;
    struct redis_kit_ask ask;

    (void)state;
    redis_kit_init_port(&kit, net_redis_free_port());
    redis_kit_open(&kit);
    redis_kit_until(&kit, strstr(redis_kit_stats(&kit).problem, "refused") != NULL);
    redis_kit_do(&kit, &ask, "PING");
    assert_int_equal(ask.ask.lost, REDIS_AWAY);
    assert_int_equal(kit.changes, 0);
    redis_kit_free(&kit);
}

static void a_name_is_looked_up(void **state)
{
    struct redis_kit kit;
    struct redis_kit_ask ask;
    char url[64];

    (void)state;
    if (!net_knows_localhost()) {
        print_message("this machine does not know localhost\n");
        skip();
    }
    snprintf(url, sizeof url, "redis://localhost:%d/3", server.port);
    redis_kit_init_url(&kit, url);
    redis_kit_open_up(&kit);
    redis_kit_do(&kit, &ask, "SET where here");
    net_redis_do(&server, "SELECT 3");
    assert_true(net_redis_says(&server, "here", "GET where"));
    assert_true(net_redis_says(&server, "name=tollgate", "CLIENT LIST"));
    net_redis_do(&server, "SELECT 0");
    redis_kit_free(&kit);
    redis_kit_init_url(&kit, "redis://no-such-name.invalid:6379");
    redis_kit_open(&kit);
    redis_kit_until(&kit, redis_kit_stats(&kit).problem[0] != '\0');
    redis_kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_come_in_order_and_once),
        cmocka_unit_test(asks_of_one_turn_leave_in_one_piece),
        cmocka_unit_test(a_script_is_sent_as_text_where_it_is_not_known),
        cmocka_unit_test(errors_are_replies),
        cmocka_unit_test(before_it_is_up_asks_are_lost_at_once),
        cmocka_unit_test(too_many_in_flight_are_refused),
        cmocka_unit_test(freeing_answers_what_is_in_flight),
        cmocka_unit_test(a_killed_server_is_found_again_when_it_is_back),
        cmocka_unit_test(a_stopped_server_is_suspected_and_trusted_again),
        cmocka_unit_test(a_server_that_stops_while_idle_is_noticed),
        cmocka_unit_test(patience_ends),
        cmocka_unit_test(nobody_there_is_no_reason_to_wait),
        cmocka_unit_test(a_name_is_looked_up),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, start_redis, stop_redis);
}
