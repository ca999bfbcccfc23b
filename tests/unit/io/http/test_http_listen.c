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

static void reply_and_know(struct kit_in *in)
{
    in->in->known = true;
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

/* Attack 12: silent and unauthenticated connections take all the places. They give way, the longest
 * idle first, and after them those of clients that are known. */
static void attack_12_idle_connections_give_way_the_unauthenticated_first(void **state)
{
    struct kit_raw *silent[12];
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = 6;
    kit.on_end = reply_and_know;
    kit_listen(&kit);
    struct kit_raw *known = kit_connect(&kit), *busy = kit_connect(&kit);
    kit_put(&kit, known, REQUEST);
    kit_until(&kit, kit_got(known, "fine"));
    kit.on_end = NULL;
    kit_put(&kit, busy, REQUEST);
    kit_until(&kit, http_listener_busy(kit.listener) == 1);
    kit.on_end = reply_at_end;
    for (size_t i = 0; i < COUNT_OF(silent); i++) {
        silent[i] = kit_connect(&kit);
        if (i % 3 == 1)
            kit_put(&kit, silent[i], REQUEST); /* answered, and not known: as after a 401 */
        if (i % 3 == 2)
            kit_put(&kit, silent[i], "GET / HT");
        kit_calm(&kit);
        assert_true(atomic_load(&kit.census.open) <= 6);
    }
    for (size_t i = 0; i < COUNT_OF(silent); i++)
        assert_int_equal(silent[i]->eof || silent[i]->reset, i < 8);
    assert_int_equal(atomic_load(&kit.census.gave_way), 8);
    assert_int_equal(atomic_load(&kit.census.turned_away), 0);
    kit_put(&kit, known, REQUEST); /* it still has its place */
    kit_until(&kit, kit_count(known, "fine") == 2);
    assert_false(busy->eof || busy->reset);
    kit_fini(&kit);
}

/* Time passes for the listener; the longest of its time-outs does not come. */
static void grow_old(struct kit *kit)
{
    kit_calm(kit);
    tg_ms then = net_loop_now(kit->loop) + 3000;
    kit->clock.epoch_ns += 3000000000;
    kit_until(kit, net_loop_now(kit->loop) >= then);
}

static bool is_gone(const struct kit_raw *raw)
{
    return raw->eof || raw->reset;
}

/* Connections that made one good request each and stay do not leave the others with one place, at
 * which each that comes would end the one before it. */
static void a_fresh_connection_stays_as_long_as_others_are_silent(void **state)
{
    struct kit_raw *known[4], *fresh[4];
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = 4;
    kit.on_end = reply_and_know;
    kit_listen(&kit);
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        known[i] = kit_connect_from(&kit, 2);
        kit_put(&kit, known[i], REQUEST);
        kit_until(&kit, kit_got(known[i], "fine"));
    }
    grow_old(&kit);
    for (size_t i = 0; i < COUNT_OF(fresh); i++) {
        fresh[i] = kit_connect_from(&kit, 3);
        kit_until(&kit, is_gone(known[i]));
    }
    for (size_t i = 0; i < COUNT_OF(fresh); i++) {
        assert_false(is_gone(fresh[i]));
        kit_put(&kit, fresh[i], REQUEST);
        kit_until(&kit, kit_got(fresh[i], "fine"));
    }
    kit_fini(&kit);
}

/* The same while these are fresh: their address has many. */
static void an_address_with_many_known_connections_ends_its_own(void **state)
{
    struct kit_raw *known[24], *fresh[4];
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = 12;
    kit.on_end = reply_and_know;
    kit_listen(&kit);
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        known[i] = kit_connect_from(&kit, 2);
        kit_put(&kit, known[i], REQUEST);
        kit_until(&kit, kit_got(known[i], "fine"));
        if (i == 10)
            for (size_t j = 0; j < 2; j++)
                fresh[j] = kit_connect_from(&kit, 3);
    }
    for (size_t j = 2; j < COUNT_OF(fresh); j++)
        fresh[j] = kit_connect_from(&kit, 4);
    kit_calm(&kit);
    for (size_t j = 0; j < COUNT_OF(fresh); j++) {
        assert_false(is_gone(fresh[j]));
        kit_put(&kit, fresh[j], REQUEST);
        kit_until(&kit, kit_got(fresh[j], "fine"));
    }
    kit_fini(&kit);
}

/* The address that has most of them loses them first, though its own are the newest; and what is
 * between two requests stays. */
static void an_address_with_many_new_connections_ends_its_own(void **state)
{
    struct kit_raw *many[30];
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = 12;
    kit.on_end = reply_and_know;
    kit_listen(&kit);
    struct kit_raw *known = kit_connect_from(&kit, 4);
    kit_put(&kit, known, REQUEST);
    kit_until(&kit, kit_got(known, "fine"));
    grow_old(&kit);
    struct kit_raw *fresh = kit_connect_from(&kit, 3);
    kit_calm(&kit);
    for (size_t i = 0; i < COUNT_OF(many); i++) {
        many[i] = kit_connect_from(&kit, 2);
        kit_calm(&kit);
    }
    for (size_t i = 0; i < COUNT_OF(many); i++)
        assert_int_equal(is_gone(many[i]), i < 20);
    assert_false(is_gone(fresh) || is_gone(known));
    assert_int_equal(atomic_load(&kit.census.idle), 12);
    kit_fini(&kit);
    assert_int_equal(atomic_load(&kit.census.idle), 0);
    for (size_t i = 0; i < HTTP_ADDRESS_SLOTS; i++)
        assert_int_equal(atomic_load(&kit.census.idle_by_address[i]), 0);
}

/* Whoever makes many calls at once has more of them for a moment than one who keeps places has all
 * the time. */
static void a_burst_is_no_crowd(void **state)
{
    struct kit_raw *held[12], *burst[14];
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = 24;
    kit.on_end = reply_and_know;
    kit_listen(&kit);
    for (size_t i = 0; i < COUNT_OF(held); i++)
        held[i] = kit_connect_from(&kit, 2);
    kit_calm(&kit);
    tg_ms then = net_loop_now(kit.loop) + 1000; /* fresh still */
    kit.clock.epoch_ns += 1000000000;
    kit_until(&kit, net_loop_now(kit.loop) >= then);
    for (size_t i = 0; i < COUNT_OF(burst); i++)
        burst[i] = kit_connect_from(&kit, 3);
    kit_calm(&kit);
    for (size_t i = 0; i < COUNT_OF(held); i++)
        assert_int_equal(is_gone(held[i]), i < 2);
    for (size_t i = 0; i < COUNT_OF(burst); i++) {
        assert_false(is_gone(burst[i]));
        kit_put(&kit, burst[i], REQUEST);
        kit_until(&kit, kit_got(burst[i], "fine"));
    }
    kit_fini(&kit);
}

/* Addresses with a few silent connections each, none of which is a crowd, against a client between
 * its calls, which has 10 of 80 places:
 * it keeps them, though others are a crowd from 9 on. */
static void a_busy_client_is_no_crowd_among_many_addresses(void **state)
{
    struct kit_raw *busy[10], *silent[100];
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = 80;
    kit.on_end = reply_and_know;
    kit_listen(&kit);
    for (size_t i = 0; i < COUNT_OF(busy); i++) {
        busy[i] = kit_connect_from(&kit, 2);
        kit_put(&kit, busy[i], REQUEST);
        kit_until(&kit, kit_got(busy[i], "fine"));
    }
    for (size_t i = 0; i < COUNT_OF(silent); i++)
        silent[i] = kit_connect_from(&kit, 3 + (int)(i / 7));
    kit_calm(&kit);
    assert_true(atomic_load(&kit.census.open) <= 80 + 80 / 32);
    for (size_t i = 0; i < COUNT_OF(busy); i++) {
        assert_false(is_gone(busy[i]));
        kit_put(&kit, busy[i], REQUEST);
        kit_until(&kit, kit_count(busy[i], "fine") == 2);
    }
    kit_fini(&kit);
}

/* A request that has come and was not read yet is not silence. Where all that is left is fresh, the
 * one that ends is told so. */
static void a_request_that_waits_unread_is_served(void **state)
{
    struct kit_raw *quick[4];
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = 2;
    kit.on_end = reply_and_know;
    kit_listen(&kit);
    struct kit_raw *first = kit_connect(&kit), *second = kit_connect(&kit);
    kit_until(&kit, http_listener_open(kit.listener) == 2);
    /* All of these are there when the loop wakes up. */
    kit_put(&kit, first, REQUEST);
    for (size_t i = 0; i < COUNT_OF(quick); i++) {
        quick[i] = kit_connect(&kit);
        kit_put(&kit, quick[i], REQUEST);
    }
    kit_until(&kit, kit_got(first, "fine") && is_gone(second));
    assert_true(kit_got(second, "HTTP/1.1 503 ") && kit_got(second, "connection: close\r\n"));
    for (size_t i = 0; i < COUNT_OF(quick); i++) {
        kit_until(&kit, kit_got(quick[i], "fine") || kit_got(quick[i], "too many connections"));
        assert_false(quick[i]->reset);
    }
    kit_fini(&kit);
}

/* Each worker has a listener. One that has none but fresh connections leaves it to the others to
 * make room, so that the first to fill up does not keep all the places. */
static void room_is_made_where_the_silent_ones_are(void **state)
{
    struct kit_raw *silent[32], *fresh[2];
    struct http_listener *other;
    struct tg_problem problem;
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = 32;
    kit_listen(&kit);
    assert_int_equal(http_listen(kit.loop, "127.0.0.1:0", &kit.options, &other, &problem), TG_OK);
    int here = kit.port, there = http_listener_port(other);
    kit.port = there;
    for (size_t i = 0; i < 31; i++)
        silent[i] = kit_connect_from(&kit, 2);
    kit_until(&kit, http_listener_open(other) == 31);
    grow_old(&kit);
    kit.port = here;
    for (size_t i = 0; i < COUNT_OF(fresh); i++)
        fresh[i] = kit_connect_from(&kit, 3);
    kit_until(&kit, http_listener_open(kit.listener) == 2);
    assert_int_equal(atomic_load(&kit.census.open), 33); /* 1 in 32 beyond, for a moment */
    kit.port = there;
    silent[31] = kit_connect_from(&kit, 2);
    kit_until(&kit, is_gone(silent[0]) && is_gone(silent[1]));
    assert_int_equal(atomic_load(&kit.census.open), 32);
    for (size_t i = 0; i < COUNT_OF(fresh); i++)
        assert_false(is_gone(fresh[i]));
    http_listener_free(other);
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
    assert_false(is_gone(silent));
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

/* Connections that their owner keeps, for leases that are bound to them, do not give way. */
static void kept_connections_do_not_give_way(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = 1;
    kit.keep = 100;
    kit.on_end = reply_and_know;
    kit_listen(&kit);
    struct kit_raw *kept = kit_connect(&kit);
    kit_put(&kit, kept, REQUEST);
    kit_until(&kit, kit_got(kept, "fine"));
    struct kit_raw *more = kit_connect(&kit);
    kit_until(&kit, kit_got(more, "there are too many connections"));
    assert_false(kept->eof || kept->reset);
    kit_fini(&kit);
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
        cmocka_unit_test(attack_12_idle_connections_give_way_the_unauthenticated_first),
        cmocka_unit_test(one_address_has_at_most_its_part),
        cmocka_unit_test(a_fresh_connection_stays_as_long_as_others_are_silent),
        cmocka_unit_test(an_address_with_many_known_connections_ends_its_own),
        cmocka_unit_test(an_address_with_many_new_connections_ends_its_own),
        cmocka_unit_test(a_burst_is_no_crowd),
        cmocka_unit_test(a_busy_client_is_no_crowd_among_many_addresses),
        cmocka_unit_test(a_request_that_waits_unread_is_served),
        cmocka_unit_test(room_is_made_where_the_silent_ones_are),
        cmocka_unit_test(an_address_beyond_its_part_ends_nobody),
        cmocka_unit_test(kept_connections_do_not_give_way),
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
