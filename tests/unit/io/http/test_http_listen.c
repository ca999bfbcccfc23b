/* test_http_listen.c - listeners: which addresses, who shares them, who may come in. */
#include "net_kit.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define REQUEST "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

static void start(struct kit *kit)
{
    kit_init(kit);
    kit_listen(kit);
}

static void reply_at_end(struct kit_in *in)
{
    kit_reply(in, 200, "fine");
}

static void connections_are_counted_over_all_listeners(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = 2;
    kit_listen(&kit);
    struct kit_raw *a = kit_connect(&kit), *b = kit_connect(&kit);
    kit_put(&kit, a, REQUEST);
    kit_put(&kit, b, REQUEST);
    kit_until(&kit, http_listener_busy(kit.listener) == 2);
    for (int i = 1; i < 6; i++) {
        struct kit_raw *c = kit_connect(&kit);
        kit_until(&kit, kit_got(c, "there are too many connections"));
        assert_memory_equal(c->got, "HTTP/1.1 503 ", 13);
        assert_true(kit_got(c, "retry-after: 1\r\n"));
        assert_int_equal(atomic_load(&kit.census.turned_away), i);
        assert_int_equal(atomic_load(&kit.census.open), 3); /* one beyond, to be told */
    }
    kit_hang_up(a);
    kit_until(&kit, http_listener_busy(kit.listener) == 1);
    kit.on_end = reply_at_end;
    struct kit_raw *d = kit_connect(&kit);
    kit_put(&kit, d, REQUEST);
    kit_until(&kit, kit_got(d, "fine"));
    assert_false(b->eof);
    kit_fini(&kit);
}

/* One that its address may not have ends nobody's. */
static void an_address_beyond_its_part_ends_nobody(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = 3;
    kit.census.per_address = 2;
    kit_listen(&kit);
    struct kit_raw *silent = kit_connect_from(&kit, 3);
    kit_calm(&kit);
    struct kit_raw *busy[2] = {kit_connect_from(&kit, 2), kit_connect_from(&kit, 2)};
    for (int i = 0; i < 2; i++)
        kit_put(&kit, busy[i], REQUEST);
    kit_until(&kit, http_listener_busy(kit.listener) == 2);
    for (int i = 0; i < 5; i++) {
        struct kit_raw *more = kit_connect_from(&kit, 2);
        kit_until(&kit, kit_got(more, "too many connections from this address"));
        assert_int_equal(atomic_load(&kit.census.open), 4);
    }
    assert_false(silent->eof || silent->reset);
    kit_fini(&kit);
}

static void one_address_has_at_most_its_part(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.per_address = 2;
    kit.on_end = reply_at_end;
    kit_listen(&kit);
    struct kit_raw *first = kit_connect_from(&kit, 2), *second = kit_connect_from(&kit, 2);
    kit_until(&kit, http_listener_open(kit.listener) == 2);
    struct kit_raw *third = kit_connect_from(&kit, 2), *other = kit_connect_from(&kit, 3);
    kit_until(&kit, kit_got(third, "there are too many connections from this address"));
    assert_memory_equal(third->got, "HTTP/1.1 503 ", 13);
    kit_put(&kit, other, REQUEST);
    kit_until(&kit, kit_got(other, "fine"));
    kit_hang_up(first);
    kit_hang_up(third);
    kit_until(&kit, http_listener_open(kit.listener) == 2);
    struct kit_raw *fourth = kit_connect_from(&kit, 2);
    kit_put(&kit, fourth, REQUEST);
    kit_until(&kit, kit_got(fourth, "fine"));
    assert_false(second->eof || second->reset);
    kit.trusts_all = true; /* a proxy brings connections of many */
    for (int i = 0; i < 5; i++) {
        struct kit_raw *proxied = kit_connect_from(&kit, 2);
        kit_put(&kit, proxied, REQUEST);
        kit_until(&kit, kit_got(proxied, "fine"));
    }
    assert_int_equal(atomic_load(&kit.census.turned_away), 1);
    kit_fini(&kit);
    for (size_t i = 0; i < HTTP_ADDRESS_SLOTS; i++)
        assert_int_equal(atomic_load(&kit.census.by_address[i]), 0);
}

static void a_listener_that_is_full_ends_the_oldest_that_is_idle(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.options.connections = 3;
    kit.on_end = reply_at_end;
    kit_listen(&kit);
    struct kit_raw *used = kit_connect(&kit);
    kit_put(&kit, used, REQUEST);
    kit_until(&kit, kit_got(used, "fine"));
    struct kit_raw *slow = kit_connect(&kit);
    kit_put(&kit, slow, "GET / HT");
    kit_calm(&kit);
    struct kit_raw *idle = kit_connect(&kit);
    kit_until(&kit, http_listener_open(kit.listener) == 3);
    struct kit_raw *late = kit_connect(&kit);
    kit_put(&kit, late, REQUEST);
    kit_until(&kit, kit_got(late, "fine") && used->eof);
    assert_false(slow->eof || slow->reset || idle->eof || idle->reset);
    /* A head that does not come to its end keeps nobody out. */
    struct kit_raw *later = kit_connect(&kit);
    kit_put(&kit, later, REQUEST);
    kit_until(&kit, kit_got(later, "fine") && (slow->eof || slow->reset));
    assert_false(idle->eof || idle->reset || late->eof || late->reset);
    assert_int_equal(http_listener_open(kit.listener), 3);
    kit_fini(&kit);
}

static void a_listener_whose_connections_are_all_in_use_refuses_one_more(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.options.connections = 2;
    kit_listen(&kit);
    struct kit_raw *busy[2] = {kit_connect(&kit), kit_connect(&kit)};
    for (int i = 0; i < 2; i++)
        kit_put(&kit, busy[i], REQUEST);
    kit_until(&kit, http_listener_busy(kit.listener) == 2);
    for (int i = 0; i < 10; i++) {
        struct kit_raw *more = kit_connect(&kit);
        kit_until(&kit, kit_got(more, "too many connections"));
        assert_memory_equal(more->got, "HTTP/1.1 503 ", 13);
        assert_true(http_listener_open(kit.listener) <= 3);
    }
    for (int i = 0; i < 2; i++) {
        kit_reply(&kit.ins[i], 200, "fine");
        kit_until(&kit, kit_got(busy[i], "fine"));
    }
    kit_until(&kit, http_listener_busy(kit.listener) == 0);
    kit.on_end = reply_at_end;
    struct kit_raw *again = kit_connect(&kit);
    kit_put(&kit, again, REQUEST);
    kit_until(&kit, kit_got(again, "fine"));
    kit_fini(&kit);
}

/* Whatever they speak: one that went on in HTTP/2 would stay, beyond the bound. */
static void who_is_refused_makes_room_though_he_begins_http2(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.options.connections = 1;
    kit.options.http2 = true;
    kit_listen(&kit);
    struct kit_raw *busy = kit_connect(&kit);
    kit_put(&kit, busy, REQUEST);
    kit_until(&kit, http_listener_busy(kit.listener) == 1);
    for (int i = 0; i < 5; i++) {
        struct kit_raw *more = kit_connect(&kit);
        kit_until(&kit, kit_got(more, "too many connections"));
        kit_put(&kit, more, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        kit_calm(&kit);
        assert_true(http_listener_open(kit.listener) <= 2);
    }
    kit_fini(&kit);
}

static void workers_share_a_port(void **state)
{
    struct http_listener *second;
    struct tg_problem problem;
    char address[32];
    struct kit kit;

    (void)state;
    start(&kit);
    snprintf(address, sizeof address, "127.0.0.1:%d", kit.port);
    assert_int_equal(http_listen(kit.loop, address, &kit.options, &second, &problem), TG_OK);
    assert_int_equal(http_listener_port(second), kit.port);
    http_listener_free(second);
    assert_int_equal(http_listen(kit.loop, "127.0.0.1", &kit.options, &second, &problem),
                     TG_ERR_INVALID);
    assert_int_equal(http_listen(kit.loop, "name:80", &kit.options, &second, &problem),
                     TG_ERR_INVALID);
    assert_int_equal(http_listen(kit.loop, "::1:80", &kit.options, &second, &problem),
                     TG_ERR_INVALID);
    assert_int_equal(http_listen(kit.loop, "127.0.0.1:65536", &kit.options, &second, &problem),
                     TG_ERR_INVALID);
    assert_int_equal(http_listen(kit.loop, "192.0.2.1:0", &kit.options, &second, &problem),
                     TG_ERR_STORE);
    assert_non_null(strstr(problem.text, "192.0.2.1:0"));
    kit_fini(&kit);
}

static void listen_on(struct kit *kit, const char *address)
{
    struct tg_problem problem;

    kit_init(kit);
    if (http_listen(kit->loop, address, &kit->options, &kit->listener, &problem) != TG_OK)
        fail_msg("%s", problem.text);
    kit->port = http_listener_port(kit->listener);
    kit->on_end = reply_at_end;
    kit_client(kit);
}

static void get_from(struct kit *kit, const char *host, int port)
{
    struct http_origin_options options;
    struct http_origin *origin;
    struct tg_problem problem;
    struct kit_out out;

    http_origin_options_init(&options);
    options.host = host;
    options.port = port;
    assert_int_equal(http_origin_new(&options, &origin, &problem), TG_OK);
    kit_send(kit, &out, origin, "GET", "/", 0);
    kit_until(kit, kit_over(&out));
    if (!out.ended)
        fail_msg("%s: %s", host, out.text);
    assert_string_equal(out.body, "fine");
    kit_out_fini(&out);
    http_origin_unref(origin);
}

static bool has_ipv6(void)
{
    struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof name) == 0;

    if (fd >= 0)
        close(fd);
    return has;
}

static void a_star_is_every_address(void **state)
{
    struct kit kit;

    (void)state;
    listen_on(&kit, "*:0");
    get_from(&kit, "127.0.0.1", kit.port);
    if (has_ipv6())
        get_from(&kit, "::1", kit.port);
    kit_fini(&kit);
}

/* What somebody left there who did not end well is in nobody's way; who is alive is. */
static void a_local_socket_serves_and_is_cleared_away(void **state)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct http_listener *second;
    struct tg_problem problem;
    char address[sizeof name.sun_path + 8];
    struct kit kit;

    (void)state;
    const char *folder = getenv("TMPDIR");
    snprintf(name.sun_path, sizeof name.sun_path, "%.60s/http-listen-%ld",
             folder != NULL ? folder : "/tmp", (long)getpid());
    snprintf(address, sizeof address, "unix:%s", name.sun_path);
    int left = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(left, (struct sockaddr *)&name, sizeof name), 0);
    close(left);
    listen_on(&kit, address);
    assert_int_equal(kit.port, 0);
    get_from(&kit, address, 0);
    assert_int_equal(http_listen(kit.loop, address, &kit.options, &second, &problem),
                     TG_ERR_STORE);
    get_from(&kit, address, 0);
    kit.options.first = kit.listener; /* like other workers */
    assert_int_equal(http_listen(kit.loop, address, &kit.options, &second, &problem), TG_OK);
    get_from(&kit, address, 0);
    http_listener_free(second);
    get_from(&kit, address, 0);
    kit_fini(&kit);
    assert_int_equal(access(name.sun_path, F_OK), -1);
}

/* A second gateway on the same port would take half of the calls, and count limits anew. */
static void whoever_wants_to_be_alone_is_told_of_others(void **state)
{
    struct http_listener *second;
    struct tg_problem problem;
    char address[32];
    struct kit kit;

    (void)state;
    start(&kit);
    kit.options.alone = true;
    for (int i = 0; i < 2; i++) {
        snprintf(address, sizeof address, "%s:%d", i == 0 ? "127.0.0.1" : "*", kit.port);
        assert_int_equal(http_listen(kit.loop, address, &kit.options, &second, &problem),
                         TG_ERR_STORE);
        assert_non_null(strstr(problem.text, address));
        assert_non_null(strstr(problem.text, strerror(EADDRINUSE)));
    }
    http_listener_free(kit.listener);
    kit.listener = NULL;
    snprintf(address, sizeof address, "127.0.0.1:%d", kit.port);
    assert_int_equal(http_listen(kit.loop, address, &kit.options, &second, &problem), TG_OK);
    http_listener_free(second);
    assert_int_equal(http_listen(kit.loop, "127.0.0.1:0", &kit.options, &second, &problem), TG_OK);
    http_listener_free(second);
    kit_fini(&kit);
}

static void the_peer_is_known(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    struct kit_raw *raw = kit_connect(&kit);
    kit_put(&kit, raw, REQUEST);
    kit_until(&kit, kit.n_ins == 1);
    assert_int_equal(http_inbound_peer(kit.ins[0].in)->sa_family, AF_INET);
    assert_false(kit.ins[0].in->secure);
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_are_counted_over_all_listeners),
        cmocka_unit_test(one_address_has_at_most_its_part),
        cmocka_unit_test(an_address_beyond_its_part_ends_nobody),
        cmocka_unit_test(a_listener_that_is_full_ends_the_oldest_that_is_idle),
        cmocka_unit_test(a_listener_whose_connections_are_all_in_use_refuses_one_more),
        cmocka_unit_test(who_is_refused_makes_room_though_he_begins_http2),
        cmocka_unit_test(workers_share_a_port),
        cmocka_unit_test(a_star_is_every_address),
        cmocka_unit_test(a_local_socket_serves_and_is_cleared_away),
        cmocka_unit_test(whoever_wants_to_be_alone_is_told_of_others),
        cmocka_unit_test(the_peer_is_known),
    };

    return cmocka_run_group_tests_name("http_listen", tests, NULL, NULL);
}
