/* test_redis_faults.c - a server that says what it should not, or not all of it, or too late; and
 * real ones that are unwell. */
#include "net_redis_kit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- A server of the test's own -------------------------------------------------------------- */

struct fake {
    struct redis_kit kit;
    int listening;
    struct kit_raw *raw; /* the connection of the client's */
};

static const char well[] = "+OK\r\n*1\r\n$6\r\nmaster\r\n:1\r\n"; /* SETNAME, ROLE, the probe */

static void fake_open(struct fake *fake)
{
    int port;

    fake->listening = kit_raw_listen(&port);
    redis_kit_init_port(&fake->kit, port);
    redis_kit_open(&fake->kit);
}

static void fake_free(struct fake *fake)
{
    close(fake->listening);
    redis_kit_free(&fake->kit);
}

/* Takes the next connection, and waits for all of the greeting. */
static void fake_meet(struct fake *fake)
{
    fake->raw = kit_raw_accept(&fake->kit.kit, fake->listening);
    kit_until(&fake->kit.kit, kit_got(fake->raw, "#!lua\nreturn 1\r\n$1\r\n0\r\n"));
    kit_forget(fake->raw);
}

static void fake_greet(struct fake *fake)
{
    fake_meet(fake);
    kit_put(&fake->kit.kit, fake->raw, well);
    kit_until(&fake->kit.kit, fake->kit.up);
}

static void open_and_greet(struct fake *fake)
{
    fake_open(fake);
    fake_greet(fake);
}

/* Two asks are in flight when the server says this. The first may have been answered well. */
static void expect_broken_by(const char *bytes, bool first_is_good)
{
    struct fake fake;
    struct redis_kit_ask a, b;

    open_and_greet(&fake);
    redis_kit_ask(&fake.kit, &a, "GET a");
    redis_kit_ask(&fake.kit, &b, "GET b");
    kit_until(&fake.kit.kit, kit_got(fake.raw, "$1\r\nb\r\n"));
    kit_put(&fake.kit.kit, fake.raw, bytes);
    kit_until(&fake.kit.kit, a.answered && b.answered);
    assert_int_equal(a.ask.lost, first_is_good ? REDIS_ANSWERED : REDIS_BROKE);
    assert_int_equal(b.ask.lost, REDIS_BROKE);
    assert_false(redis_is_up(fake.kit.redis, NULL));
    assert_true(redis_kit_stats(&fake.kit).problem[0] != '\0');
    fake_greet(&fake); /* it comes again, and all is well */
    redis_kit_ask(&fake.kit, &a, "GET a");
    kit_until(&fake.kit.kit, kit_got(fake.raw, "$1\r\na\r\n"));
    kit_put(&fake.kit.kit, fake.raw, "$4\r\nfine\r\n");
    kit_until(&fake.kit.kit, a.answered);
    assert_string_equal(a.text, "fine");
    fake_free(&fake);
}

static void garbage_ends_the_connection(void **state)
{
    (void)state;
    expect_broken_by("HTTP/1.1 400 Bad Request\r\n\r\n", false);
    expect_broken_by(":1\r\nwhat?\r\n", true);
    expect_broken_by(":abc\r\n", false);
    expect_broken_by("$-7\r\n", false);
    expect_broken_by("$3\r\nabcd\r\n+OK\r\n", true); /* a string without its end, then more */
}

static void announcements_are_bounded(void **state)
{
    (void)state;
    expect_broken_by("*2000000000\r\n", false);
    expect_broken_by("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", false);
}

static void endless_replies_are_cut(void **state)
{
    static char many[1 << 20];
    struct fake fake;
    struct redis_kit_ask ask;

    (void)state;
    open_and_greet(&fake);
    redis_kit_ask(&fake.kit, &ask, "GET a");
    kit_until(&fake.kit.kit, kit_got(fake.raw, "GET"));
    kit_put(&fake.kit.kit, fake.raw, "$500000000\r\n");
    memset(many, 'x', sizeof many);
    while (!ask.answered) {
        kit_put_bytes(&fake.kit.kit, fake.raw, many, sizeof many);
        kit_calm(&fake.kit.kit);
    }
    assert_int_equal(ask.ask.lost, REDIS_BROKE);
    assert_non_null(strstr(redis_kit_stats(&fake.kit).problem, "too large"));
    fake_free(&fake);
}

static void half_a_reply_is_none(void **state)
{
    struct fake fake;
    struct redis_kit_ask a, b;

    (void)state;
    open_and_greet(&fake);
    redis_kit_ask(&fake.kit, &a, "GET a");
    redis_kit_ask(&fake.kit, &b, "GET b");
    kit_until(&fake.kit.kit, kit_got(fake.raw, "$1\r\nb\r\n"));
    kit_put(&fake.kit.kit, fake.raw, "$1\r\n1\r\n*2\r\n$3\r\nab");
    kit_until(&fake.kit.kit, a.answered);
    assert_string_equal(a.text, "1");
    assert_int_equal(b.answered, 0);
    kit_hang_up(fake.raw);
    kit_until(&fake.kit.kit, b.answered);
    assert_int_equal(b.ask.lost, REDIS_BROKE);
    assert_non_null(strstr(redis_kit_stats(&fake.kit).problem, "closed by the server"));
    fake_free(&fake);
}

static void replies_may_come_byte_by_byte(void **state)
{
    static const char replies[] = "*3\r\n:1\r\n$5\r\nhello\r\n*-1\r\n-ERR no\r\n$-1\r\n";
    struct fake fake;
    struct redis_kit_ask a, b, c;

    (void)state;
    open_and_greet(&fake);
    redis_kit_ask(&fake.kit, &a, "GET a");
    redis_kit_ask(&fake.kit, &b, "GET b");
    redis_kit_ask(&fake.kit, &c, "GET c");
    for (size_t i = 0; i + 1 < sizeof replies; i++) {
        kit_put_bytes(&fake.kit.kit, fake.raw, replies + i, 1);
        kit_calm(&fake.kit.kit);
    }
    kit_until(&fake.kit.kit, c.answered);
    assert_int_equal(a.elements, 3);
    assert_true(b.error);
    assert_false(c.error || c.lost);
    fake_free(&fake);
}

static void a_reply_that_nobody_asked_for_ends_the_connection(void **state)
{
    struct fake fake;

    (void)state;
    open_and_greet(&fake);
    kit_put(&fake.kit.kit, fake.raw, "+OK\r\n");
    kit_until(&fake.kit.kit, !fake.kit.up);
    fake_greet(&fake);
    fake_free(&fake);
}

static void a_server_that_has_no_room_says_so(void **state)
{
    struct fake fake;

    (void)state;
    fake_open(&fake);
    fake.raw = kit_raw_accept(&fake.kit.kit, fake.listening);
    kit_put(&fake.kit.kit, fake.raw, "-ERR max number of clients reached\r\n");
    kit_until(&fake.kit.kit, kit_got(fake.raw, "SETNAME"));
    kit_hang_up(fake.raw);
    kit_until(&fake.kit.kit,
              strstr(redis_kit_stats(&fake.kit).problem, "max number of clients") != NULL);
    fake_free(&fake);
}

static void while_it_loads_it_is_away(void **state)
{
    struct fake fake;
    struct redis_kit_ask ask;

    (void)state;
    fake_open(&fake);
    fake_meet(&fake);
    kit_put(&fake.kit.kit, fake.raw, "+OK\r\n*1\r\n$6\r\nmaster\r\n-LOADING in memory\r\n");
    kit_until(&fake.kit.kit, kit_got(fake.raw, "EVAL")); /* it is asked again, on its own */
    kit_forget(fake.raw);
    redis_kit_ask(&fake.kit, &ask, "GET a");
    kit_until(&fake.kit.kit, ask.answered);
    assert_int_equal(ask.ask.lost, REDIS_AWAY);
    kit_put(&fake.kit.kit, fake.raw, "-LOADING in memory\r\n");
    kit_until(&fake.kit.kit, kit_got(fake.raw, "EVAL"));
    assert_false(redis_is_up(fake.kit.redis, NULL));
    kit_put(&fake.kit.kit, fake.raw, ":1\r\n");
    kit_until(&fake.kit.kit, fake.kit.up);
    assert_int_equal(fake.kit.changes, 1);
    fake_free(&fake);
}

static void a_late_reply_is_told_after_late(void **state)
{
    struct fake fake;
    struct redis_kit_ask ask;

    (void)state;
    open_and_greet(&fake);
    redis_set_timeout(fake.kit.redis, 10);
    redis_kit_ask(&fake.kit, &ask, "GET a");
    kit_until(&fake.kit.kit, ask.late);
    kit_until(&fake.kit.kit, kit_got(fake.raw, "EVAL")); /* the probe went out behind it */
    assert_false(redis_is_up(fake.kit.redis, NULL));
    kit_put(&fake.kit.kit, fake.raw, "$3\r\nyes\r\n");
    kit_until(&fake.kit.kit, ask.answered);
    assert_string_equal(ask.text, "yes");
    assert_true(ask.ask.is_late);
    assert_false(redis_is_up(fake.kit.redis, NULL)); /* the probe is still out */
    kit_put(&fake.kit.kit, fake.raw, ":1\r\n");
    kit_until(&fake.kit.kit, fake.kit.up);
    fake_free(&fake);
}

/* What is late and was not done is not done any more. */
static void a_late_ask_is_not_sent_on(void **state)
{
    struct redis_script script = redis_kit_script("return 1");
    struct fake fake;
    struct redis_kit_ask ask;

    (void)state;
    open_and_greet(&fake);
    redis_set_timeout(fake.kit.redis, 10);
    redis_kit_eval(&fake.kit, &ask, &script, "k", "1");
    kit_until(&fake.kit.kit, ask.late);
    kit_put(&fake.kit.kit, fake.raw, "-NOSCRIPT No matching script\r\n");
    kit_until(&fake.kit.kit, ask.answered);
    assert_int_equal(ask.ask.lost, REDIS_AWAY);
    assert_int_equal(redis_kit_stats(&fake.kit).asked_text, 0);
    fake_free(&fake);
}

/* The reply lies in the socket while our own loop stands still for longer than the time limit. */
static void our_own_standstill_makes_nothing_late(void **state)
{
    struct fake fake;
    struct redis_kit_ask ask;

    (void)state;
    open_and_greet(&fake);
    redis_set_timeout(fake.kit.redis, 50);
    redis_kit_ask(&fake.kit, &ask, "GET a");
    net_loop_turn(fake.kit.kit.loop, false);
    kit_put(&fake.kit.kit, fake.raw, "$3\r\nyes\r\n");
    tg_ms end = clock_now_ms(&fake.kit.kit.clock) + 60;
    while (clock_now_ms(&fake.kit.kit.clock) < end)
        ;
    kit_until(&fake.kit.kit, ask.answered);
    assert_int_equal(ask.late, 0);
    fake_free(&fake);
}

/* ---- Real ones ------------------------------------------------------------------------------- */

static void out_of_memory_is_away_until_there_is_some(void **state)
{
    struct net_redis server;
    struct redis_kit kit;
    struct redis_kit_ask ask;

    (void)state;
    net_redis_start(&server, NULL);
    redis_kit_init_server(&kit, &server);
    redis_kit_open_up(&kit);
    net_redis_do(&server, "CONFIG SET maxmemory 1");
    redis_kit_do(&kit, &ask, "SET a 1");
    assert_true(ask.error);
    assert_memory_equal(ask.text, "OOM", 3);
    assert_false(redis_is_up(kit.redis, NULL));
    redis_kit_do(&kit, &ask, "SET a 1");
    assert_int_equal(ask.ask.lost, REDIS_AWAY);
    /* One was for the ask; the others are probes. */
    redis_kit_until(&kit, net_redis_says(&server, "errorstat_OOM:count=4", "INFO errorstats"));
    assert_int_equal(kit.changes, 2);
    net_redis_do(&server, "CONFIG SET maxmemory 0");
    redis_kit_until(&kit, kit.up);
    redis_kit_do(&kit, &ask, "SET a 1");
    assert_string_equal(ask.text, "OK");
    assert_int_equal(redis_kit_stats(&kit).connects, 1);
    redis_kit_free(&kit);
    net_redis_free(&server);
}

static void a_server_that_became_a_replica_is_left(void **state)
{
    struct net_redis server;
    struct redis_kit kit;
    struct redis_kit_ask ask;

    (void)state;
    net_redis_start(&server, NULL);
    redis_kit_init_server(&kit, &server);
    redis_kit_open_up(&kit);
    net_redis_do(&server, "REPLICAOF 127.0.0.1 %d", net_redis_free_port());
    redis_kit_do(&kit, &ask, "SET a 1");
    assert_true(ask.error);
    assert_memory_equal(ask.text, "READONLY", 8);
    assert_false(redis_is_up(kit.redis, NULL));
    redis_kit_until(&kit, strstr(redis_kit_stats(&kit).problem, "is a replica") != NULL);
    net_redis_do(&server, "REPLICAOF NO ONE");
    redis_kit_until(&kit, kit.up);
    redis_kit_do(&kit, &ask, "SET a 1");
    assert_string_equal(ask.text, "OK");
    redis_kit_free(&kit);
    net_redis_free(&server);
}

static void a_script_that_does_not_end_is_waited_for_by_nobody(void **state)
{
    struct redis_script script = redis_kit_script("while true do end");
    struct net_redis server;
    struct redis_kit kit;
    struct redis_kit_ask ask, other;

    (void)state;
    net_redis_start(&server, "--busy-reply-threshold", "20", NULL);
    redis_kit_init_server(&kit, &server);
    kit.options.timeout = 50;
    redis_kit_open_up(&kit);
    redis_kit_eval(&kit, &ask, &script, "k", "1");
    redis_kit_until(&kit, ask.late);
    redis_kit_do(&kit, &other, "GET a");
    assert_int_equal(other.ask.lost, REDIS_AWAY);
    redis_kit_until(&kit, (net_redis_says(&server, "OK", "SCRIPT KILL"), ask.answered));
    assert_true(ask.error);
    redis_kit_until(&kit, kit.up);
    redis_kit_free(&kit);
    net_redis_free(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(garbage_ends_the_connection),
        cmocka_unit_test(announcements_are_bounded),
        cmocka_unit_test(endless_replies_are_cut),
        cmocka_unit_test(half_a_reply_is_none),
        cmocka_unit_test(replies_may_come_byte_by_byte),
        cmocka_unit_test(a_reply_that_nobody_asked_for_ends_the_connection),
        cmocka_unit_test(a_server_that_has_no_room_says_so),
        cmocka_unit_test(while_it_loads_it_is_away),
        cmocka_unit_test(a_late_reply_is_told_after_late),
        cmocka_unit_test(a_late_ask_is_not_sent_on),
        cmocka_unit_test(our_own_standstill_makes_nothing_late),
        cmocka_unit_test(out_of_memory_is_away_until_there_is_some),
        cmocka_unit_test(a_server_that_became_a_replica_is_left),
        cmocka_unit_test(a_script_that_does_not_end_is_waited_for_by_nobody),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
