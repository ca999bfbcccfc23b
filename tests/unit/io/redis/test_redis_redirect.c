/* test_redis_redirect.c - a cluster of the test's own, which says what real ones seldom say. */
#include "net_redis_kit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Two nodes that can be spoken for; the client begins with the first. */
struct fakes {
    struct redis_kit kit;
    int listening[2], port[2];
    struct kit_raw *raw[2];
};

static const char well[] = "+OK\r\n$16\r\ncluster_state:ok\r\n:1\r\n"; /* SETNAME, INFO, probe */

static void meet(struct fakes *fakes, size_t i)
{
    fakes->raw[i] = kit_raw_accept(&fakes->kit.kit, fakes->listening[i]);
    kit_until(&fakes->kit.kit, kit_got(fakes->raw[i], "#!lua\nreturn 1\r\n$1\r\n0\r\n"));
    kit_forget(fakes->raw[i]);
    kit_put(&fakes->kit.kit, fakes->raw[i], well);
}

/* A node is asked for the map, and says that the first has all slots, without a name of its own. */
static void put_map(struct fakes *fakes, size_t i)
{
    char map[128];

    snprintf(map, sizeof map, "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$-1\r\n:%d\r\n$2\r\nid\r\n",
             fakes->port[0]);
    kit_put(&fakes->kit.kit, fakes->raw[i], map);
}

static void give_map(struct fakes *fakes, size_t i)
{
    kit_until(&fakes->kit.kit, kit_got(fakes->raw[i], "SLOTS\r\n"));
    kit_forget(fakes->raw[i]);
    put_map(fakes, i);
}

/* The first node is asked for its state; for the map as well, before or after. */
static void give_state(struct fakes *fakes, const char *state)
{
    for (bool given = false; !given; kit_forget(fakes->raw[0])) {
        struct kit_raw *raw = fakes->raw[0];

        kit_until(&fakes->kit.kit, kit_got(raw, "SLOTS\r\n") || kit_got(raw, "INFO\r\n"));
        const char *info = strstr(raw->got, "INFO\r\n"), *slots = strstr(raw->got, "SLOTS\r\n");
        given = info != NULL;
        if (slots != NULL && (info == NULL || slots < info))
            put_map(fakes, 0);
        if (info != NULL)
            kit_put(&fakes->kit.kit, raw, state);
        if (slots != NULL && info != NULL && slots > info)
            put_map(fakes, 0);
    }
}

static void begin(struct fakes *fakes)
{
    char url[64];

    for (size_t i = 0; i < 2; i++)
        fakes->listening[i] = kit_raw_listen(&fakes->port[i]);
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", fakes->port[0]);
    redis_kit_init_url(&fakes->kit, url);
    redis_kit_open(&fakes->kit);
    meet(fakes, 0);
    give_map(fakes, 0);
    kit_until(&fakes->kit.kit, fakes->kit.up);
}

static void end(struct fakes *fakes)
{
    redis_kit_free(&fakes->kit);
    close(fakes->listening[0]);
    close(fakes->listening[1]);
}

/* Asks for "a", of slot 15495, and lets the first node answer with this text and a port. */
static void ask_and_redirect(struct fakes *fakes, struct redis_kit_ask *ask, const char *format,
                             int port)
{
    char text[128];

    redis_kit_ask(&fakes->kit, ask, "GET a");
    kit_until(&fakes->kit.kit, kit_got(fakes->raw[0], "$1\r\na\r\n"));
    kit_forget(fakes->raw[0]);
    snprintf(text, sizeof text, format, port);
    kit_put(&fakes->kit.kit, fakes->raw[0], text);
}

static void a_move_to_a_node_that_is_new_waits_for_it(void **state)
{
    struct fakes fakes;
    struct redis_kit_ask ask;

    (void)state;
    begin(&fakes);
    ask_and_redirect(&fakes, &ask, "-MOVED 15495 127.0.0.1:%d\r\n", fakes.port[1]);
    meet(&fakes, 1);
    kit_until(&fakes.kit.kit, kit_got(fakes.raw[1], "GET\r\n$1\r\na\r\n"));
    assert_false(kit_got(fakes.raw[1], "ASKING"));
    kit_put(&fakes.kit.kit, fakes.raw[1], "$3\r\nyes\r\n");
    kit_until(&fakes.kit.kit, ask.answered);
    assert_string_equal(ask.text, "yes");
    give_map(&fakes, 1); /* it was asked for at once; and the new node is none after all */
    kit_until(&fakes.kit.kit, redis_kit_stats(&fakes.kit).links == 1);
    end(&fakes);
}

static void asking_comes_before_what_is_asked(void **state)
{
    struct fakes fakes;
    struct redis_kit_ask ask;

    (void)state;
    begin(&fakes);
    ask_and_redirect(&fakes, &ask, "-ASK 15495 127.0.0.1:%d\r\n", fakes.port[1]);
    meet(&fakes, 1);
    /* By the time the new node is there, the old one is asked again, and says the same. */
    kit_until(&fakes.kit.kit, kit_got(fakes.raw[0], "$1\r\na\r\n"));
    kit_until(&fakes.kit.kit, redis_kit_stats(&fakes.kit).links_up == 2);
    char text[64];
    snprintf(text, sizeof text, "-ASK 15495 :%d\r\n", fakes.port[1]);
    kit_put(&fakes.kit.kit, fakes.raw[0], text);
    kit_until(&fakes.kit.kit, kit_got(fakes.raw[1], "*1\r\n$6\r\nASKING\r\n*2\r\n$3\r\nGET"));
    kit_put(&fakes.kit.kit, fakes.raw[1], "+OK\r\n$3\r\nyes\r\n");
    kit_until(&fakes.kit.kit, ask.answered);
    assert_string_equal(ask.text, "yes");
    end(&fakes);
}

static void a_circle_is_left_after_five_turns(void **state)
{
    struct fakes fakes;
    struct redis_kit_ask ask;
    char one[64], six[400] = "";

    (void)state;
    begin(&fakes);
    snprintf(one, sizeof one, "-MOVED 15495 127.0.0.1:%d\r\n", fakes.port[0]);
    for (int i = 0; i < 6; i++)
        strcat(six, one);
    redis_kit_ask(&fakes.kit, &ask, "GET a");
    kit_until(&fakes.kit.kit, kit_got(fakes.raw[0], "$1\r\na\r\n"));
    kit_put(&fakes.kit.kit, fakes.raw[0], six);
    kit_until(&fakes.kit.kit, ask.answered);
    assert_true(ask.error);
    assert_memory_equal(ask.text, "MOVED", 5);
    assert_int_equal(redis_kit_stats(&fakes.kit).moved, 5);
    end(&fakes);
}

/* Keys of one command are on both sides of a move: it is tried again for a quarter of its time. */
static void a_slot_that_stays_half_moved_is_the_owners_to_know(void **state)
{
    struct fakes fakes;
    struct redis_kit_ask ask;
    int tries = 0;

    (void)state;
    begin(&fakes);
    redis_kit_ask(&fakes.kit, &ask, "GET a");
    while (!ask.answered) {
        kit_until(&fakes.kit.kit, ask.answered || kit_got(fakes.raw[0], "$1\r\na\r\n"));
        if (ask.answered)
            break;
        kit_forget(fakes.raw[0]);
        kit_put(&fakes.kit.kit, fakes.raw[0], "-TRYAGAIN Multiple keys request\r\n");
        tries++;
    }
    assert_true(tries > 1);
    assert_true(ask.error);
    assert_memory_equal(ask.text, "TRYAGAIN", 8);
    assert_true(redis_is_up(fakes.kit.redis, NULL));
    end(&fakes);
}

static void a_redirection_without_sense_is_the_owners(void **state)
{
    struct fakes fakes;
    struct redis_kit_ask ask;

    (void)state;
    begin(&fakes);
    ask_and_redirect(&fakes, &ask, "-MOVED somewhere:%d\r\n", 1);
    kit_until(&fakes.kit.kit, ask.answered);
    assert_true(ask.error);
    ask_and_redirect(&fakes, &ask, "-MOVED 15495 ?:%d\r\n", 1);
    kit_until(&fakes.kit.kit, ask.answered);
    assert_true(ask.error);
    assert_true(redis_is_up(fakes.kit.redis, NULL));
    end(&fakes);
}

static void a_slot_that_nobody_serves_is_away_until_the_map_says_otherwise(void **state)
{
    struct fakes fakes;
    struct redis_kit_ask ask;

    (void)state;
    begin(&fakes);
    ask_and_redirect(&fakes, &ask, "-CLUSTERDOWN Hash slot not served\r\n", 0);
    kit_until(&fakes.kit.kit, ask.answered);
    assert_true(ask.error);
    assert_false(redis_is_up(fakes.kit.redis, &SLICE("a")));
    assert_true(redis_is_up(fakes.kit.redis, &SLICE("b")));
    give_map(&fakes, 0);
    kit_until(&fakes.kit.kit, redis_is_up(fakes.kit.redis, &SLICE("a")));
    end(&fakes);
}

static void a_cluster_that_is_down_is_asked_until_it_is_not(void **state)
{
    struct fakes fakes;
    struct redis_kit_ask ask;

    (void)state;
    begin(&fakes);
    ask_and_redirect(&fakes, &ask, "-CLUSTERDOWN The cluster is down\r\n", 0);
    kit_until(&fakes.kit.kit, ask.answered);
    assert_true(ask.error);
    assert_false(redis_is_up(fakes.kit.redis, NULL));
    give_state(&fakes, "$18\r\ncluster_state:fail\r\n");
    assert_false(redis_is_up(fakes.kit.redis, NULL));
    give_state(&fakes, "$16\r\ncluster_state:ok\r\n");
    kit_until(&fakes.kit.kit, redis_is_up(fakes.kit.redis, NULL));
    end(&fakes);
}

static void a_map_of_nonsense_is_no_map(void **state)
{
    static const char *const maps[] = {
        "*0\r\n",
        "+OK\r\n",
        "-ERR This instance has cluster support disabled\r\n",
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        "*1\r\n*3\r\n:5\r\n:4\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\n?\r\n:1\r\n",
        "*1\r\n*2\r\n:0\r\n:16383\r\n",
        "*2\r\n:1\r\n$-1\r\n",
    };
    struct fakes fakes;
    char url[64];

    (void)state;
    fakes.listening[0] = kit_raw_listen(&fakes.port[0]);
    fakes.listening[1] = kit_raw_listen(&fakes.port[1]);
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", fakes.port[0]);
    redis_kit_init_url(&fakes.kit, url);
    redis_kit_open(&fakes.kit);
    meet(&fakes, 0);
    for (size_t i = 0; i < COUNT_OF(maps); i++) {
        kit_until(&fakes.kit.kit, kit_got(fakes.raw[0], "SLOTS\r\n"));
        kit_forget(fakes.raw[0]);
        kit_put(&fakes.kit.kit, fakes.raw[0], maps[i]);
        assert_false(redis_is_up(fakes.kit.redis, NULL));
    }
    give_map(&fakes, 0);
    kit_until(&fakes.kit.kit, fakes.kit.up);
    end(&fakes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_move_to_a_node_that_is_new_waits_for_it),
        cmocka_unit_test(asking_comes_before_what_is_asked),
        cmocka_unit_test(a_circle_is_left_after_five_turns),
        cmocka_unit_test(a_slot_that_stays_half_moved_is_the_owners_to_know),
        cmocka_unit_test(a_redirection_without_sense_is_the_owners),
        cmocka_unit_test(a_slot_that_nobody_serves_is_away_until_the_map_says_otherwise),
        cmocka_unit_test(a_cluster_that_is_down_is_asked_until_it_is_not),
        cmocka_unit_test(a_map_of_nonsense_is_no_map),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
