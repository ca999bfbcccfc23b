/* test_net_threads.c - a loop and other threads: posts are not lost, workers share what is shared.
 *
 * Under TSan: posts, stops, origins, contexts of TLS, the count of connections.
 */
#include "net_kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define THREADS 4
#define POSTS 2000

struct poster {
    struct net_loop *loop;
    struct net_post post;
    atomic_int asked; /* by the thread */
    int seen;         /* by the loop */
    int *done;
};

static void seen(void *arg)
{
    struct poster *poster = arg;
    int asked = atomic_load(&poster->asked);

    assert_true(asked >= poster->seen);
    poster->seen = asked;
    if (asked == POSTS && ++*poster->done == THREADS)
        net_loop_stop(poster->loop);
}

static void *post_many(void *arg)
{
    struct poster *poster = arg;

    for (int i = 1; i <= POSTS; i++) {
        atomic_store(&poster->asked, i);
        net_loop_post(poster->loop, &poster->post);
    }
    return NULL;
}

/* After every post its function runs: so the last count is always seen. */
static void no_post_is_lost(void **state)
{
    struct poster posters[THREADS];
    pthread_t threads[THREADS];
    struct clock clock;
    struct net_loop *loop;
    int done = 0;

    (void)state;
    clock_init(&clock);
    assert_int_equal(net_loop_new(&clock, &loop), TG_OK);
    for (int i = 0; i < THREADS; i++) {
        posters[i] = (struct poster){.loop = loop, .done = &done};
        net_post_init(&posters[i].post, seen, &posters[i]);
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
    }
    net_loop_run(loop);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(posters[i].seen, POSTS);
    }
    net_loop_free(loop);
}

/* ---- Workers --------------------------------------------------------------------------------- */

struct shared {
    int port;
    struct http_census *census;
    struct http_origin *origin;
    atomic_int failures;
};

/* A whole kit on a thread of its own, that calls the one server through the one origin. */
static void *work(void *arg)
{
    struct shared *shared = arg;
    struct kit kit;
    struct kit_out out;

    kit_init(&kit);
    kit_client(&kit);
    for (int i = 0; i < 50; i++) {
        struct http_origin *mine = http_origin_ref(shared->origin);

        kit_send(&kit, &out, mine, "POST", "/", 5);
        http_outbound_write(out.out, SLICE("hello"));
        http_outbound_finish(out.out);
        http_origin_unref(mine);
        kit_until(&kit, kit_over(&out));
        if (!out.ended || out.body_n != 5)
            atomic_fetch_add(&shared->failures, 1);
        kit_out_fini(&out);
    }
    kit_fini(&kit);
    return NULL;
}

struct server {
    struct kit kit;
    int port; /* 0: chooses */
};

static void *serve(void *arg)
{
    struct server *server = arg;

    net_loop_run(server->kit.loop);
    return NULL;
}

static void server_open(struct server *server, struct http_census *census, int port)
{
    char address[32];
    struct tg_problem problem;

    kit_init(&server->kit);
    server->kit.options.census = census;
    server->kit.on_end = kit_echo;
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    assert_int_equal(http_listen(server->kit.loop, address, &server->kit.options,
                                 &server->kit.listener, &problem),
                     TG_OK);
    server->kit.port = http_listener_port(server->kit.listener);
}

static void workers_share_port_census_and_origin(void **state)
{
    static struct server servers[2];
    struct http_census census = {.max = 1000};
    struct shared shared = {.census = &census};
    pthread_t serving[2], working[THREADS];

    (void)state;
    server_open(&servers[0], &census, 0);
    server_open(&servers[1], &census, servers[0].kit.port);
    assert_int_equal(servers[0].kit.port, servers[1].kit.port);
    shared.origin = kit_origin(servers[0].kit.port, NULL, NULL);
    for (int i = 0; i < 2; i++)
        pthread_create(&serving[i], NULL, serve, &servers[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&working[i], NULL, work, &shared);
    for (int i = 0; i < THREADS; i++)
        pthread_join(working[i], NULL);
    for (int i = 0; i < 2; i++) {
        net_loop_stop(servers[i].kit.loop);
        pthread_join(serving[i], NULL);
    }
    assert_int_equal(servers[0].kit.n_ins + servers[1].kit.n_ins, 50 * THREADS);
    assert_int_equal(atomic_load(&shared.failures), 0);
    http_origin_unref(shared.origin);
    for (int i = 0; i < 2; i++)
        kit_fini(&servers[i].kit);
    assert_int_equal(atomic_load(&census.open), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_post_is_lost),
        cmocka_unit_test(workers_share_port_census_and_origin),
    };

    return cmocka_run_group_tests_name("net_threads", tests, NULL, NULL);
}
