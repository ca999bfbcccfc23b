/* test_http_give_way.c - connections that nobody uses give way to new ones. */
#include "net_kit.h"

#include <netinet/in.h>

#define REQUEST "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

static void reply_at_end(struct kit_in *in)
{
    kit_reply(in, 200, "fine");
}

/* Who sends it is the one whom it names, "GET /7", else one of its own at each address. */
static void reply_and_know(struct kit_in *in)
{
    const struct sockaddr_in *peer = (const void *)http_inbound_peer(in->in);
    struct slice target = in->in->head.target;

    in->in->client = target.n > 1 ? (uint32_t)target.at[1] : 1000 + ntohl(peer->sin_addr.s_addr);
    kit_reply(in, 200, "fine");
}

/* A request of the client `name` on a connection of its own, which then ends. */
static void make_known(struct kit *kit, int address, const char *request)
{
    struct kit_raw *raw = kit_connect_from(kit, address);
    size_t open = http_listener_open(kit->listener);

    kit_put(kit, raw, request);
    kit_until(kit, kit_got(raw, "fine"));
    kit_hang_up(raw);
    kit_until(kit, http_listener_open(kit->listener) <= open);
    kit_calm(kit);
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
    for (size_t i = 0; i < HTTP_ADDRESS_SLOTS; i++) {
        assert_int_equal(atomic_load(&kit.census.strangers[i].idle), 0);
        assert_int_equal(atomic_load(&kit.census.clients[i].idle), 0);
    }
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

/* The same client at its busiest: each of its calls has a connection of its own, and none of their
 * requests has come yet, as where the client's machine or this one has too much to do. */
static void a_busy_client_is_no_crowd_before_its_requests(void **state)
{
    struct kit_raw *busy[10], *silent[110];
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = 80;
    kit.on_end = reply_and_know;
    kit_listen(&kit);
    make_known(&kit, 2, REQUEST);
    for (size_t i = 0; i < 70; i++)
        silent[i] = kit_connect_from(&kit, 3 + (int)(i / 7));
    kit_calm(&kit);
    for (size_t i = 0; i < COUNT_OF(busy); i++)
        busy[i] = kit_connect_from(&kit, 2);
    for (size_t i = 70; i < COUNT_OF(silent); i++)
        silent[i] = kit_connect_from(&kit, 3 + (int)(i / 7));
    kit_calm(&kit);
    for (size_t i = 0; i < COUNT_OF(busy); i++) {
        assert_false(is_gone(busy[i]));
        kit_put(&kit, busy[i], REQUEST);
        kit_until(&kit, kit_got(busy[i], "fine"));
    }
    kit_fini(&kit);
}

/* A client with a good key and many addresses has one part for all of them: none of its addresses
 * has as many connections as the other client, and yet it is the crowd. */
static void the_addresses_of_a_client_are_one_crowd(void **state)
{
    struct kit_raw *busy[10], *many[110];
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = 80;
    kit.on_end = reply_and_know;
    kit_listen(&kit);
    make_known(&kit, 2, REQUEST);
    for (size_t i = 0; i < COUNT_OF(many); i++) {
        many[i] = kit_connect_from(&kit, 3 + (int)(i % 20));
        if (i < 20) {
            kit_put(&kit, many[i], "GET /7 HTTP/1.1\r\nHost: a\r\n\r\n");
            kit_until(&kit, kit_got(many[i], "fine"));
        }
        for (size_t j = 0; i == 65 && j < COUNT_OF(busy); j++)
            busy[j] = kit_connect_from(&kit, 2);
        kit_calm(&kit);
    }
    for (size_t i = 0; i < COUNT_OF(busy); i++) {
        assert_false(is_gone(busy[i]));
        kit_put(&kit, busy[i], REQUEST);
        kit_until(&kit, kit_got(busy[i], "fine"));
    }
    kit_fini(&kit);
}

/* A client that has just come is a stranger until the first of its requests is answered, and then
 * no more. */
static void who_becomes_known_is_no_stranger_on_what_is_open(void **state)
{
    struct kit_raw *burst[10], *silent[100];
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = 80;
    kit.on_end = reply_and_know;
    kit_listen(&kit);
    for (size_t i = 0; i < COUNT_OF(burst); i++)
        burst[i] = kit_connect_from(&kit, 2);
    kit_put(&kit, burst[0], REQUEST);
    kit_until(&kit, kit_got(burst[0], "fine"));
    for (size_t i = 0; i < COUNT_OF(silent); i++)
        silent[i] = kit_connect_from(&kit, 3 + (int)(i / 7));
    kit_calm(&kit);
    for (size_t i = 1; i < COUNT_OF(burst); i++) {
        assert_false(is_gone(burst[i]));
        kit_put(&kit, burst[i], REQUEST);
        kit_until(&kit, kit_got(burst[i], "fine"));
    }
    kit_fini(&kit);
}

/* What nobody has heard of for an hour is forgotten. */
static void an_address_is_a_strangers_after_a_while(void **state)
{
    struct kit_raw *burst[9], *silent[3];
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = 10;
    kit.on_end = reply_and_know;
    kit_listen(&kit);
    make_known(&kit, 2, REQUEST);
    tg_ms then = net_loop_now(kit.loop) + 3700000;
    kit.clock.epoch_ns += INT64_C(3700000000000);
    kit_until(&kit, net_loop_now(kit.loop) >= then);
    for (size_t i = 0; i < COUNT_OF(burst); i++)
        burst[i] = kit_connect_from(&kit, 2);
    for (size_t i = 0; i < COUNT_OF(silent); i++)
        silent[i] = kit_connect_from(&kit, 3);
    kit_until(&kit, is_gone(burst[0]));
    assert_false(is_gone(silent[0]));
    kit_fini(&kit);
}

/* Older connections that are no crowd's do not hide one. */
static void a_crowd_is_found_behind_many_others(void **state)
{
    struct kit_raw *old[70], *many[12], *fresh[2];
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = COUNT_OF(old) + COUNT_OF(many);
    kit.on_end = reply_and_know;
    kit_listen(&kit);
    for (size_t i = 0; i < COUNT_OF(old); i++) {
        old[i] = kit_connect_from(&kit, 10 + (int)i);
        kit_put(&kit, old[i], REQUEST);
        kit_until(&kit, kit_got(old[i], "fine"));
    }
    grow_old(&kit);
    for (size_t i = 0; i < COUNT_OF(many); i++) {
        many[i] = kit_connect_from(&kit, 3);
        kit_put(&kit, many[i], REQUEST);
        kit_until(&kit, kit_got(many[i], "fine"));
    }
    for (size_t i = 0; i < COUNT_OF(fresh); i++)
        fresh[i] = kit_connect_from(&kit, 4);
    kit_calm(&kit);
    for (size_t i = 0; i < COUNT_OF(old); i++)
        assert_false(is_gone(old[i]));
    assert_false(is_gone(fresh[0]) || is_gone(fresh[1]));
    kit_fini(&kit);
}

/* Whoever is expected, and says nothing for long, gives way like others. */
static void who_is_expected_and_stays_silent_gives_way(void **state)
{
    struct kit_raw *silent[10], *fresh[10];
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.census.max = 10;
    kit.on_end = reply_and_know;
    kit_listen(&kit);
    make_known(&kit, 2, REQUEST);
    for (size_t i = 0; i < COUNT_OF(silent); i++)
        silent[i] = kit_connect_from(&kit, 2);
    grow_old(&kit);
    for (size_t i = 0; i < COUNT_OF(fresh); i++) {
        fresh[i] = kit_connect_from(&kit, 3 + (int)i);
        kit_until(&kit, is_gone(silent[i]));
    }
    kit_calm(&kit);
    for (size_t i = 0; i < COUNT_OF(fresh); i++)
        assert_false(is_gone(fresh[i]));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attack_12_idle_connections_give_way_the_unauthenticated_first),
        cmocka_unit_test(a_fresh_connection_stays_as_long_as_others_are_silent),
        cmocka_unit_test(an_address_with_many_known_connections_ends_its_own),
        cmocka_unit_test(an_address_with_many_new_connections_ends_its_own),
        cmocka_unit_test(a_burst_is_no_crowd),
        cmocka_unit_test(a_busy_client_is_no_crowd_among_many_addresses),
        cmocka_unit_test(a_busy_client_is_no_crowd_before_its_requests),
        cmocka_unit_test(the_addresses_of_a_client_are_one_crowd),
        cmocka_unit_test(who_becomes_known_is_no_stranger_on_what_is_open),
        cmocka_unit_test(an_address_is_a_strangers_after_a_while),
        cmocka_unit_test(a_crowd_is_found_behind_many_others),
        cmocka_unit_test(who_is_expected_and_stays_silent_gives_way),
        cmocka_unit_test(a_request_that_waits_unread_is_served),
        cmocka_unit_test(room_is_made_where_the_silent_ones_are),
        cmocka_unit_test(kept_connections_do_not_give_way),
    };

    return cmocka_run_group_tests_name("http_give_way", tests, NULL, NULL);
}
