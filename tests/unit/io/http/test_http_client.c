/* test_http_client.c - requests that go out, on real sockets: reuse and failures. */
#include "http1_upstream.h"

#include <stdio.h>
#include <string.h>

/* ---- Round trips ----------------------------------------------------------------------------- */

static void requests_are_framed_by_us(void **state)
{
    char want[256];
    struct pair pair;

    (void)state;
    pair_init(&pair);
    struct kit_raw *raw = pair_get(&pair);
    snprintf(want, sizeof want, "GET /x?y HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nx-test: 1\r\n\r\n",
             pair.port);
    assert_string_equal(raw->got, want);
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\nhi");
    kit_until(&pair.kit, pair.out.ended);
    assert_int_equal(pair.out.status, 200);
    assert_string_equal(pair.out.type, "a/b");
    assert_string_equal(pair.out.body, "hi");
    assert_true(pair.out.sent);
    assert_false(pair.out.reused);
    pair_fini(&pair);
}

static void replies_are_the_same_however_cut(void **state)
{
    static const char reply[] = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"
                                "Transfer-Encoding: chunked\r\n\r\n"
                                "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    struct pair pair;
    struct kit_raw *raw = NULL;

    (void)state;
    pair_init(&pair);
    for (size_t cut = 1; cut < sizeof reply - 1; cut++) {
        kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/", 0);
        if (raw == NULL)
            raw = kit_raw_accept(&pair.kit, pair.listening);
        kit_forget(raw);
        kit_until(&pair.kit, kit_got(raw, "\r\n\r\n"));
        kit_put_bytes(&pair.kit, raw, reply, cut);
        kit_calm(&pair.kit);
        kit_put_bytes(&pair.kit, raw, reply + cut, sizeof reply - 1 - cut);
        kit_expect_reply(&pair.out);
        assert_string_equal(pair.out.body, "hello");
        assert_int_equal(pair.out.reused, cut > 1);
        kit_out_fini(&pair.out);
    }
    pair_fini(&pair);
}

static void bodies_go_out_with_and_without_a_length(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", 5);
    http_outbound_write(pair.out.out, SLICE("he"));
    http_outbound_write(pair.out.out, SLICE("llo, and more"));
    http_outbound_finish(pair.out.out);
    struct kit_raw *raw = kit_raw_accept(&pair.kit, pair.listening);
    kit_until(&pair.kit, kit_got(raw, "\r\n\r\nhello"));
    assert_true(kit_got(raw, "content-length: 5\r\n") && !kit_got(raw, "hello,"));
    kit_put(&pair.kit, raw, "HTTP/1.1 204 No Content\r\n\r\n");
    kit_until(&pair.kit, pair.out.ended);
    kit_forget(raw);
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", -1);
    http_outbound_write(pair.out.out, SLICE("hello"));
    kit_until(&pair.kit, kit_got(raw, "hello"));
    http_outbound_finish(pair.out.out);
    kit_until(&pair.kit, kit_got(raw, "\r\n0\r\n\r\n"));
    assert_true(kit_got(raw, "transfer-encoding: chunked\r\n"));
    assert_true(kit_got(raw, "\r\n\r\n5\r\nhello\r\n0\r\n\r\n"));
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    kit_until(&pair.kit, pair.out.ended);
    assert_true(pair.out.reused);
    assert_int_equal(http_client_idle(pair.kit.client), 1);
    pair_fini(&pair);
}

static void both_sides_of_ours_understand_each_other(void **state)
{
    struct kit kit;
    struct kit_out outs[20];

    (void)state;
    kit_init(&kit);
    kit_listen(&kit);
    kit_client(&kit);
    kit.on_end = kit_echo_chunked;
    struct http_origin *origin = kit_origin(kit.port, NULL, NULL);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT_OF(outs); i++) {
            kit_send(&kit, &outs[i], origin, "POST", "/", -1);
            for (size_t k = 0; k < i; k++)
                http_outbound_write(outs[i].out, SLICE("0123456789"));
            http_outbound_finish(outs[i].out);
        }
        for (size_t i = 0; i < COUNT_OF(outs); i++) {
            kit_expect_reply(&outs[i]);
            assert_int_equal(outs[i].body_n, i * 10);
            assert_int_equal(outs[i].reused, round == 1);
            kit_out_fini(&outs[i]);
        }
    }
    assert_int_equal(http_client_idle(kit.client), 20);
    assert_int_equal(http_client_busy(kit.client), 0);
    assert_int_equal(http_listener_open(kit.listener), 20);
    http_origin_unref(origin);
    kit_fini(&kit);
}

static void the_end_of_the_connection_may_be_the_end_of_the_reply(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    struct kit_raw *raw = pair_get(&pair);
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\n\r\nall of it");
    kit_hang_up(raw);
    kit_until(&pair.kit, pair.out.ended);
    assert_string_equal(pair.out.body, "all of it");
    assert_int_equal(http_client_idle(pair.kit.client), 0);
    pair_fini(&pair);
}

static void replies_without_a_body_have_none(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    kit_send(&pair.kit, &pair.out, pair.origin, "HEAD", "/", 0);
    struct kit_raw *raw = kit_raw_accept(&pair.kit, pair.listening);
    kit_until(&pair.kit, kit_got(raw, "\r\n\r\n"));
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n");
    kit_until(&pair.kit, pair.out.ended);
    assert_int_equal(pair.out.length, 99);
    assert_int_equal(pair.out.body_n, 0);
    assert_int_equal(http_client_idle(pair.kit.client), 1);
    pair_fini(&pair);
}

/* ---- Reuse ----------------------------------------------------------------------------------- */

static void a_kept_connection_that_died_is_replaced(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    struct kit_raw *raw = pair_get(&pair);
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    kit_until(&pair.kit, pair.out.ended);
    assert_int_equal(http_client_idle(pair.kit.client), 1);
    kit_hang_up(raw); /* and the loop has not had a turn to see it */
    raw = pair_get(&pair);
    assert_true(kit_got(raw, "GET /x?y"));
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    kit_until(&pair.kit, pair.out.ended);
    assert_false(pair.out.reused);
    /* A second time, the loop sees it. */
    kit_hang_up(raw);
    kit_until(&pair.kit, http_client_idle(pair.kit.client) == 0);
    pair_fini(&pair);
}

static void a_kept_connection_that_dies_later_is_the_owners_to_judge(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    struct kit_raw *raw = pair_get(&pair);
    kit_put(&pair.kit, raw, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    kit_until(&pair.kit, pair.out.ended);
    kit_forget(raw);
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", 0);
    kit_until(&pair.kit, kit_got(raw, "POST"));
    kit_hang_up(raw);
    kit_expect_failure(&pair.out, HTTP_RESET);
    assert_true(pair.out.failed && pair.out.sent && pair.out.reused);
    pair_fini(&pair);
}

static void what_nobody_asked_for_ends_a_connection(void **state)
{
    static const char *const replies[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        struct pair pair;

        pair_init(&pair);
        struct kit_raw *raw = pair_get(&pair);
        kit_put(&pair.kit, raw, replies[i]);
        kit_until(&pair.kit, pair.out.ended);
        assert_string_equal(pair.out.body, "hi");
        assert_int_equal(http_client_idle(pair.kit.client), 0);
        pair_fini(&pair);
    }
}

static void connections_are_kept_within_bounds(void **state)
{
    struct kit kit;
    struct kit_out outs[5];

    (void)state;
    kit_init(&kit);
    kit.client_options.idle_max = 2;
    kit.client_options.idle_ms = 30;
    kit_listen(&kit);
    kit_client(&kit);
    kit.on_end = kit_echo;
    struct http_origin *origin = kit_origin(kit.port, NULL, NULL);
    for (size_t i = 0; i < COUNT_OF(outs); i++)
        kit_send(&kit, &outs[i], origin, "GET", "/", 0);
    for (size_t i = 0; i < COUNT_OF(outs); i++)
        kit_until(&kit, kit_over(&outs[i]));
    assert_true(http_client_idle(kit.client) <= 2);
    kit_until(&kit, http_client_idle(kit.client) == 0);
    http_origin_unref(origin);
    kit_fini(&kit);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void garbage_is_told_as_such(void **state)
{
    static const char *const replies[] = {
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        struct pair pair;

        pair_init(&pair);
        struct kit_raw *raw = pair_get(&pair);
        kit_put(&pair.kit, raw, replies[i]);
        kit_until(&pair.kit, kit_over(&pair.out));
        if (pair.out.why != HTTP_GARBAGE)
            fail_msg("%s: %s", replies[i], http_why_text(pair.out.why));
        kit_until(&pair.kit, raw->eof || raw->reset);
        pair_fini(&pair);
    }
}

static void a_reply_cut_off_is_a_reset(void **state)
{
    static const char *const replies[] = {
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < 2 * COUNT_OF(replies); i++) {
        struct pair pair;

        pair_init(&pair);
        struct kit_raw *raw = pair_get(&pair);
        kit_put(&pair.kit, raw, replies[i / 2]);
        if (i % 2 == 0) {
            kit_hang_up(raw);
        } else {
            kit_calm(&pair.kit);
            kit_reset(raw);
        }
        kit_until(&pair.kit, kit_over(&pair.out));
        assert_true(pair.out.failed && pair.out.sent);
        assert_int_equal(pair.out.why, HTTP_RESET);
        pair_fini(&pair);
    }
}

static void where_nobody_listens_is_unreachable(void **state)
{
    struct pair pair;

    (void)state;
    pair_init(&pair);
    close(pair.listening);
    kit_send(&pair.kit, &pair.out, pair.origin, "GET", "/", 0);
    assert_false(kit_over(&pair.out)); /* not from inside the call */
    kit_expect_failure(&pair.out, HTTP_UNREACHABLE);
    assert_false(pair.out.sent);
    assert_non_null(strstr(pair.out.text, "127.0.0.1"));
    pair.listening = -1;
    pair_fini(&pair);
}

static void a_name_that_is_none_is_unresolved(void **state)
{
    struct http_origin_options options;
    struct http_origin *origin;
    struct pair pair;

    (void)state;
    pair_init(&pair);
    http_origin_options_init(&options);
    options.host = "no-such-host.invalid";
    options.port = 80;
    assert_int_equal(http_origin_new(&options, &origin, NULL), TG_OK);
    kit_send(&pair.kit, &pair.out, origin, "GET", "/", 0);
    kit_expect_failure(&pair.out, HTTP_UNRESOLVED);
    /* Cancelled, and freed, while it is being looked up. */
    kit_send(&pair.kit, &pair.out, origin, "GET", "/", 0);
    kit_calm(&pair.kit);
    if (pair.out.out != NULL)
        http_outbound_cancel(pair.out.out);
    http_origin_unref(origin);
    pair_fini(&pair);
}

static void names_are_looked_up(void **state)
{
    struct http_origin_options options;
    struct http_origin *origin;
    struct pair pair;

    (void)state;
    if (!net_knows_localhost()) {
        print_message("this machine does not know localhost\n");
        skip();
    }
    pair_init(&pair);
    http_origin_options_init(&options);
    options.host = "localhost"; /* also ::1, where nobody listens */
    options.port = pair.port;
    assert_int_equal(http_origin_new(&options, &origin, NULL), TG_OK);
    for (int i = 0; i < 2; i++) {
        kit_send(&pair.kit, &pair.out, origin, "GET", "/", 0);
        struct kit_raw *raw = kit_raw_accept(&pair.kit, pair.listening);
        kit_until(&pair.kit, kit_got(raw, "host: localhost:"));
        kit_put(&pair.kit, raw,
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        kit_until(&pair.kit, pair.out.ended);
    }
    http_origin_unref(origin);
    pair_fini(&pair);
}

static void what_cannot_be_sent_is_not(void **state)
{
    static const char *const targets[] = {"/a b", "/a\r\nX: y", "", "/\x7f"};
    struct pair pair;

    (void)state;
    pair_init(&pair);
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        kit_send(&pair.kit, &pair.out, pair.origin, "GET", targets[i], 0);
        kit_expect_failure(&pair.out, HTTP_UNFIT);
    }
    kit_send(&pair.kit, &pair.out, pair.origin, "POST", "/", 5);
    http_outbound_write(pair.out.out, SLICE("abc"));
    http_outbound_finish(pair.out.out);
    kit_expect_failure(&pair.out, HTTP_UNFIT);
    pair_fini(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_framed_by_us),
        cmocka_unit_test(replies_are_the_same_however_cut),
        cmocka_unit_test(bodies_go_out_with_and_without_a_length),
        cmocka_unit_test(both_sides_of_ours_understand_each_other),
        cmocka_unit_test(the_end_of_the_connection_may_be_the_end_of_the_reply),
        cmocka_unit_test(replies_without_a_body_have_none),
        cmocka_unit_test(a_kept_connection_that_died_is_replaced),
        cmocka_unit_test(a_kept_connection_that_dies_later_is_the_owners_to_judge),
        cmocka_unit_test(what_nobody_asked_for_ends_a_connection),
        cmocka_unit_test(connections_are_kept_within_bounds),
        cmocka_unit_test(garbage_is_told_as_such),
        cmocka_unit_test(a_reply_cut_off_is_a_reset),
        cmocka_unit_test(where_nobody_listens_is_unreachable),
        cmocka_unit_test(a_name_that_is_none_is_unresolved),
        cmocka_unit_test(names_are_looked_up),
        cmocka_unit_test(what_cannot_be_sent_is_not),
    };

    return cmocka_run_group_tests_name("http_client", tests, NULL, NULL);
}
