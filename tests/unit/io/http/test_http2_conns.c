/* test_http2_conns.c - connections that exchanges of HTTP/2 share: how they end, for whom, and when
 * there is none to be had.
 */
#include "http2_pair.h"

#include <sys/socket.h>
#include <unistd.h>

static void connections_have_a_number_and_an_end(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair_start(&pair);
    struct kit_in *first = pair_begin(&pair, "GET", 0);
    struct kit_raw *raw = kit_connect(&pair.kit);
    kit_put(&pair.kit, raw, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    kit_until(&pair.kit, pair.kit.n_ins == 2);
    assert_true(pair.kit.ins[0].connection != pair.kit.ins[1].connection);
    assert_int_equal(pair.kit.n_closed, 0);
    kit_hang_up(raw);
    kit_until(&pair.kit, pair.kit.n_closed == 1);
    assert_true(pair.kit.last_closed == pair.kit.ins[1].connection);
    assert_true(pair.kit.ins[1].gone); /* before */
    kit_until(&pair.kit, first->ended);
    kit_reply(first, 200, "");
    kit_until(&pair.kit, pair.out.ended);
    http_client_free(pair.kit.client);
    pair.kit.client = NULL;
    kit_until(&pair.kit, pair.kit.n_closed == 2);
    assert_true(pair.kit.last_closed == first->connection);
    pair_fini(&pair);
}

static void draining_finishes_what_runs(void **state)
{
    struct pair pair;
    struct kit_out late;

    (void)state;
    pair_init(&pair);
    pair_start(&pair);
    struct kit_in *in = pair_begin(&pair, "GET", 0);
    kit_until(&pair.kit, in->ended);
    http_listener_drain(pair.kit.listener);
    kit_calm(&pair.kit);
    assert_int_equal(http_listener_open(pair.kit.listener), 1);
    /* The client knows, and does not use it any more: nobody listens for another. */
    kit_send(&pair.kit, &late, pair.origin, "GET", "/", 0);
    kit_expect_failure(&late, HTTP_UNREACHABLE);
    assert_false(late.sent);
    kit_reply(in, 200, "fine");
    kit_expect_reply(&pair.out);
    assert_string_equal(pair.out.body, "fine");
    kit_until(&pair.kit, http_listener_open(pair.kit.listener) == 0);
    kit_out_fini(&late);
    pair_fini(&pair);
}

static void an_idle_connection_ends_by_either_sides_time(void **state)
{
    struct pair pair;

    (void)state;
    for (int side = 0; side < 2; side++) {
        pair_init(&pair);
        if (side == 0)
            pair.kit.options.limits.idle_ms = 20;
        else
            pair.kit.client_options.idle_ms = 20;
        pair.kit.on_end = kit_echo;
        pair_start(&pair);
        kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/", 0);
        kit_until(&pair.kit, pair.out.ended);
        kit_until(&pair.kit, http_listener_open(pair.kit.listener) == 0);
        kit_until(&pair.kit, http_client_idle(pair.kit.client) == 0);
        kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/", 0);
        kit_until(&pair.kit, pair.out.ended);
        assert_false(pair.out.reused);
        pair_fini(&pair);
    }
}

static void an_idle_connection_stays_while_its_owner_wants_it(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    pair.kit.options.limits.idle_ms = 5;
    pair.kit.keep = 3;
    pair.kit.on_end = kit_echo;
    pair_start(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/", 0);
    kit_until(&pair.kit, pair.out.ended);
    kit_until(&pair.kit, http_listener_open(pair.kit.listener) == 0);
    assert_int_equal(pair.kit.keep, 0);
    pair_fini(&pair);
}

static void nobody_there_fails_everybody_who_waits(void **state)
{
    struct pair pair;
    struct kit_out outs[5];
    int port, listening = kit_raw_listen(&port);

    (void)state;
    pair_init(&pair);
    pair_start(&pair);
    http_origin_unref(pair.origin);
    pair.origin = kit_origin_http2(port, NULL, NULL, HTTP2_PRIOR);
    close(listening);
    for (size_t i = 0; i < COUNT_OF(outs); i++)
        kit_send(&pair.kit, &outs[i], pair.origin, "GET", "/", 0);
    http_outbound_cancel(outs[2].out);
    for (size_t i = 0; i < COUNT_OF(outs); i++) {
        if (i == 2)
            continue;
        kit_expect_failure(&outs[i], HTTP_UNREACHABLE);
        assert_false(outs[i].sent);
    }
    pair_fini(&pair);
}

/* Not even the connection is taken: a queue of one is full. */
static void an_address_that_never_answers_is_late_for_all(void **state)
{
    struct http_timeouts timeouts = {.connect = 30};
    struct pair pair;
    struct kit_out outs[3];
    struct sockaddr_storage address;
    socklen_t n = sizeof address;
    int port, listening = kit_raw_listen(&port), first = socket(AF_INET, SOCK_STREAM, 0);

    (void)state;
    pair_init(&pair);
    pair_start(&pair);
    assert_int_equal(listen(listening, 0), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&address, &n), 0);
    assert_int_equal(connect(first, (struct sockaddr *)&address, n), 0);
    http_origin_unref(pair.origin);
    pair.origin = kit_origin_http2(port, NULL, NULL, HTTP2_PRIOR);
    for (size_t i = 0; i < COUNT_OF(outs); i++) {
        kit_send_within(&pair.kit, &outs[i], pair.origin, "GET", "/", 0, &timeouts);
        timeouts.connect = 20000; /* their connection is that of the first, and has its time */
    }
    for (size_t i = 0; i < COUNT_OF(outs); i++) {
        kit_expect_failure(&outs[i], HTTP_LATE_CONNECT);
        assert_false(outs[i].sent);
        kit_out_fini(&outs[i]);
    }
    close(first);
    close(listening);
    pair_fini(&pair);
}

static void deadlines_hold_for_one_exchange_alone(void **state)
{
    struct pair pair;
    struct http_timeouts first_byte = {.connect = 20000, .first_byte = 20};
    struct http_timeouts total = {.connect = 20000, .total = 20};
    struct kit_out late[2];

    (void)state;
    pair_init(&pair);
    pair_start(&pair);
    struct kit_in *in = pair_begin(&pair, "GET", 0);
    kit_send_within(&pair.kit, &late[0], pair.origin, "GET", "/", 0, &first_byte);
    kit_send_within(&pair.kit, &late[1], pair.origin, "GET", "/", 0, &total);
    kit_until(&pair.kit, kit_over(&late[0]) && kit_over(&late[1]));
    assert_int_equal(late[0].why, HTTP_LATE_FIRST_BYTE);
    assert_int_equal(late[1].why, HTTP_LATE_TOTAL);
    assert_true(late[0].sent);
    kit_until(&pair.kit, pair.kit.ins[1].gone && pair.kit.ins[2].gone);
    assert_int_equal(pair.kit.ins[1].why, HTTP_HANGUP);
    kit_until(&pair.kit, in->ended);
    kit_reply(in, 200, "fine");
    kit_until(&pair.kit, pair.out.ended);
    pair_fini(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_have_a_number_and_an_end),
        cmocka_unit_test(draining_finishes_what_runs),
        cmocka_unit_test(an_idle_connection_ends_by_either_sides_time),
        cmocka_unit_test(an_idle_connection_stays_while_its_owner_wants_it),
        cmocka_unit_test(nobody_there_fails_everybody_who_waits),
        cmocka_unit_test(an_address_that_never_answers_is_late_for_all),
        cmocka_unit_test(deadlines_hold_for_one_exchange_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
