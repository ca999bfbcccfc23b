/* test_replay_store.c - `tollgate replay --store`: whose keys it makes, and where Redis may be: one
 * server, a cluster, behind Sentinel, or away. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net_redis.h"
#include "net_replay.h"
#include "net_timeline.h"

static uint64_t seed;
static struct net_replay folder;

#define LIMITER "sliding_log:limit=3,window=1000"

static const char trace[] = "{\"t\":1000,\"key\":\"a\"}\n{\"t\":1000,\"key\":\"a\",\"cost\":2}\n"
                            "{\"t\":1001,\"key\":\"a\"}\n{\"t\":1001,\"key\":\"b}{\"}\n"
                            "{\"t\":1500}\n{\"t\":2000,\"key\":\"a\"}\n";

static void expect_done(int status)
{
    size_t n;

    if (status != 0)
        fail_msg("status %d: %s", status, net_replay_read("errors", &n));
}

static void expect_same_files(void)
{
    size_t n_wanted, n_got;
    char *wanted = net_replay_read("memory.out", &n_wanted);
    char *got = net_replay_read("redis.out", &n_got);

    if (n_wanted != n_got || memcmp(wanted, got, n_got) != 0)
        fail_msg("on Redis\n%.2000s\nin memory\n%.2000s", got, wanted);
    free(wanted);
    free(got);
}

static void expect_said(int status, int wanted, const char *words)
{
    size_t n;
    char *errors = net_replay_read("errors", &n);

    assert_int_equal(status, wanted);
    if (strstr(errors, words) == NULL)
        fail_msg("nothing of '%s' in '%s'", words, errors);
    free(errors);
}

/* Some random timelines, and one limiter. */
static void replay_on(const char *url, uint64_t from, int n)
{
    net_replay_write("calls.jsonl", trace, strlen(trace));
    expect_done(net_replay_run("memory.out", "--limiter", LIMITER, "calls.jsonl", NULL));
    expect_done(
        net_replay_run("redis.out", "--limiter", LIMITER, "--store", url, "calls.jsonl", NULL));
    expect_same_files();
    for (int i = 0; i < n; i++) {
        struct timeline timeline;
        timeline_init(&timeline, seed, from + (uint64_t)i);
        timeline_draw(&timeline, 40);
        net_replay_write("gate.yaml", timeline.config.at, timeline.config.n);
        net_replay_write("trace.jsonl", timeline.trace.at, timeline.trace.n);
        expect_done(net_replay_run("memory.out", "-c", "gate.yaml", "trace.jsonl", NULL));
        expect_done(
            net_replay_run("redis.out", "-c", "gate.yaml", "--store", url, "trace.jsonl", NULL));
        expect_same_files();
        timeline_fini(&timeline);
    }
}

static const char *url_of(const struct net_redis *server)
{
    static char url[192];

    snprintf(url, sizeof url, "redis+unix://%.120s", server->host + strlen("unix:"));
    return url;
}

/* ---- keys ---- */

static void a_run_removes_its_keys(void **state)
{
    struct net_redis server = {.pid = 0};

    (void)state;
    net_redis_start(&server, NULL);
    replay_on(url_of(&server), 0, 10);
    assert_int_equal(net_redis_integer(&server, "DBSIZE"), 0);
    assert_true(net_redis_says(&server, "cmdstat_unlink:", "INFO commandstats"));
    net_redis_free(&server);
}

static void a_prefix_finds_what_was_left_under_it(void **state)
{
    struct net_redis server = {.pid = 0};
    static const char call[] = "{\"t\":1000,\"cost\":2}\n";
    size_t n;

    (void)state;
    net_redis_start(&server, NULL);
    net_replay_write("one.jsonl", call, strlen(call));
    for (int i = 0; i < 2; i++) {
        expect_done(net_replay_run("redis.out", "--limiter", LIMITER, "--store", url_of(&server),
                                   "--store-prefix", "mine", "one.jsonl", NULL));
        char *got = net_replay_read("redis.out", &n);
        assert_non_null(strstr(got, i == 0 ? "\"allowed\":true,\"limit\":3,\"remaining\":1"
                                           : "\"allowed\":false,\"limit\":3,\"remaining\":1"));
        free(got);
    }
    assert_int_equal(
        net_redis_integer(&server, "EXISTS %s", "mine:cost:{%}:limiter:%:sliding_log=1000/3"), 1);
    assert_int_equal(net_redis_integer(&server, "DBSIZE"), 1);
    net_redis_free(&server);
}

/* ---- where Redis may be ---- */

static void a_cluster_decides_alike(void **state)
{
    struct net_redis_cluster cluster;
    char url[128];

    (void)state;
    net_redis_cluster_start(&cluster, 3, 0, NULL);
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", cluster.nodes[0].port);
    replay_on(url, 100, 20);
    /* Nothing is left, and each node had its part. */
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(net_redis_integer(&cluster.nodes[i], "DBSIZE"), 0);
        assert_true(
            net_redis_says(&cluster.nodes[i], "cmdstat_evalsha:", "INFO commandstats"));
    }
    net_redis_cluster_free(&cluster);
}

static void the_master_that_sentinel_names_decides_alike(void **state)
{
    struct net_redis_watched watched;
    char url[128];

    (void)state;
    net_redis_watched_start(&watched, 1, "secret");
    snprintf(url, sizeof url, "redis+sentinel://:secret@%s@127.0.0.1:%d", watched.name,
             watched.sentinels[0].port);
    replay_on(url, 200, 5);
    assert_int_equal(net_redis_integer(&watched.servers[0], "DBSIZE"), 0);
    net_redis_watched_free(&watched);
}

/* ---- what goes wrong ---- */

static void a_redis_that_is_away_is_said(void **state)
{
    char url[64];

    (void)state;
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", net_redis_free_port());
    net_replay_write("calls.jsonl", trace, strlen(trace));
    expect_said(net_replay_run("out", "--limiter", LIMITER, "--store", url, "calls.jsonl", NULL),
                1, "cannot reach Redis: 127.0.0.1:");
}

static void a_redis_that_refuses_us_is_said(void **state)
{
    struct net_redis server = {.pid = 0};

    (void)state;
    net_redis_start(&server, "--requirepass", "secret", NULL);
    net_replay_write("calls.jsonl", trace, strlen(trace));
    expect_said(net_replay_run("out", "--limiter", LIMITER, "--store", url_of(&server),
                               "calls.jsonl", NULL),
                1, "NOAUTH");
    net_redis_free(&server);
}

/* What was decided until then is printed; where it ended is said. */
static void a_state_that_is_none_ends_the_run_at_its_line(void **state)
{
    struct net_redis server = {.pid = 0};
    size_t n;

    (void)state;
    net_redis_start(&server, NULL);
    net_redis_do(&server, "LPUSH %s x", "mine:cost:{b%7D%7B}:limiter:b%7D%7B:sliding_log=1000/3");
    net_replay_write("calls.jsonl", trace, strlen(trace));
    int status = net_replay_run("out", "--limiter", LIMITER, "--store", url_of(&server),
                                "--store-prefix", "mine", "calls.jsonl", NULL);
    expect_said(status, 1, "calls.jsonl:4: Redis did not decide");
    char *got = net_replay_read("out", &n);
    size_t lines = 0;
    for (size_t i = 0; i < n; i++)
        lines += got[i] == '\n';
    assert_int_equal(lines, 3);
    free(got);
    net_redis_free(&server);
}

static void wrong_options_are_wrong(void **state)
{
    static const struct {
        const char *url, *prefix, *words;
    } wrong[] = {
        {"http://127.0.0.1", NULL, "--store: it must begin with redis://"},
        {"redis://127.0.0.1:0", NULL, "--store: "},
        {"redis://127.0.0.1", "a{b", "--store-prefix is 'a{b'"},
        {"redis://127.0.0.1", "", "--store-prefix is ''"},
    };

    (void)state;
    net_replay_write("calls.jsonl", trace, strlen(trace));
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        int status = wrong[i].prefix != NULL
                         ? net_replay_run("out", "--limiter", LIMITER, "--store", wrong[i].url,
                                          "--store-prefix", wrong[i].prefix, "calls.jsonl", NULL)
                         : net_replay_run("out", "--limiter", LIMITER, "--store", wrong[i].url,
                                          "calls.jsonl", NULL);
        expect_said(status, 2, wrong[i].words);
    }
    expect_said(net_replay_run("out", "--limiter", LIMITER, "--store-prefix", "a", NULL), 2,
                "--store-prefix needs --store");
    expect_said(net_replay_run("out", "-c", "a", "--compare", "b", "--store", "redis://127.0.0.1",
                               "--store-prefix", "a", NULL),
                2, "cannot be used with --compare");
}

/* ---- */

static int open_all(void **state)
{
    (void)state;
    seed = draw_seed("test_replay_store");
    net_replay_open(&folder);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    net_replay_close(&folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_removes_its_keys),
        cmocka_unit_test(a_prefix_finds_what_was_left_under_it),
        cmocka_unit_test(a_cluster_decides_alike),
        cmocka_unit_test(the_master_that_sentinel_names_decides_alike),
        cmocka_unit_test(a_redis_that_is_away_is_said),
        cmocka_unit_test(a_redis_that_refuses_us_is_said),
        cmocka_unit_test(a_state_that_is_none_ends_the_run_at_its_line),
        cmocka_unit_test(wrong_options_are_wrong),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_all, close_all);
}
