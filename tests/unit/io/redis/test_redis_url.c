/* test_redis_url.c - where Redis is, in one line: what is read, what is refused, and that no
 * message repeats a password. */
#include "check.h"
#include "io/redis/redis.h"

#include <string.h>

static const struct {
    const char *url;
    enum redis_kind kind;
    bool secure;
    const char *user, *password, *master, *first, *last;
    int first_port, last_port;
    size_t n;
    int db;
} good[] = {
    {"redis://localhost", REDIS_SINGLE, false, "", "", "", "localhost", "localhost", 6379, 6379, 1,
     0},
    {"redis://10.0.0.1:7000/3", REDIS_SINGLE, false, "", "", "", "10.0.0.1", "10.0.0.1", 7000, 7000,
     1, 3},
    {"redis://h:1/", REDIS_SINGLE, false, "", "", "", "h", "h", 1, 1, 1, 0},
    {"rediss://user:p%40ss%3A@[::1]:6380", REDIS_SINGLE, true, "user", "p@ss:", "", "::1", "::1",
     6380, 6380, 1, 0},
    {"redis://:only@[fe80::1]", REDIS_SINGLE, false, "", "only", "", "fe80::1", "fe80::1", 6379,
     6379, 1, 0},
    {"redis://u:p@w:1@h", REDIS_SINGLE, false, "u", "p@w:1", "", "h", "h", 6379, 6379, 1, 0},
    {"redis+unix:///run/redis.sock", REDIS_SINGLE, false, "", "", "", "unix:/run/redis.sock",
     "unix:/run/redis.sock", 0, 0, 1, 0},
    {"redis+unix://u:p@/run/redis.sock", REDIS_SINGLE, false, "u", "p", "", "unix:/run/redis.sock",
     "unix:/run/redis.sock", 0, 0, 1, 0},
    {"redis+cluster://a,b:7001,[::2]:7002", REDIS_CLUSTER, false, "", "", "", "a", "::2", 6379,
     7002, 3, 0},
    {"rediss+cluster://u:p@a:1", REDIS_CLUSTER, true, "u", "p", "", "a", "a", 1, 1, 1, 0},
    {"redis+sentinel://main@s1,s2:26380", REDIS_SENTINEL, false, "", "", "main", "s1", "s2", 26379,
     26380, 2, 0},
    {"rediss+sentinel://u:p@my%20main@s1/2", REDIS_SENTINEL, true, "u", "p", "my main", "s1", "s1",
     26379, 26379, 1, 2},
};

static void urls_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct redis_options options;
        struct tg_problem problem = {""};

        redis_options_init(&options);
        if (redis_url_read(good[i].url, &options, &problem) != TG_OK)
            fail_msg("%s: %s", good[i].url, problem.text);
        assert_int_equal(options.kind, good[i].kind);
        assert_int_equal(options.secure, good[i].secure);
        assert_string_equal(options.user, good[i].user);
        assert_string_equal(options.password, good[i].password);
        assert_string_equal(options.master, good[i].master);
        assert_int_equal(options.n_hosts, good[i].n);
        assert_string_equal(options.hosts[0].name, good[i].first);
        assert_string_equal(options.hosts[options.n_hosts - 1].name, good[i].last);
        assert_int_equal(options.hosts[0].port, good[i].first_port);
        assert_int_equal(options.hosts[options.n_hosts - 1].port, good[i].last_port);
        assert_int_equal(options.db, good[i].db);
        assert_int_equal(options.timeout, 25); /* the rest stays */
        redis_options_wipe(&options);
        assert_int_equal(options.password[0], 0);
    }
}

static void sentinels_may_have_a_password_of_their_own(void **state)
{
    static const struct {
        const char *url, *user, *password, *master, *sentinels;
    } rows[] = {
        {"redis+sentinel://main@s1", "", "", "main", ""},
        {"redis+sentinel://main:p%40ss%3A@s1", "", "", "main", "p@ss:"},
        {"rediss+sentinel://u:p@main:q:r@s1,s2", "u", "p", "main", "q:r"},
        {"redis+sentinel://:p@main:q@s1", "", "p", "main", "q"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct redis_options options;
        struct tg_problem problem = {""};

        redis_options_init(&options);
        if (redis_url_read(rows[i].url, &options, &problem) != TG_OK)
            fail_msg("%s: %s", rows[i].url, problem.text);
        assert_string_equal(options.user, rows[i].user);
        assert_string_equal(options.password, rows[i].password);
        assert_string_equal(options.master, rows[i].master);
        assert_string_equal(options.sentinels, rows[i].sentinels);
        redis_options_wipe(&options);
        assert_int_equal(options.sentinels[0], 0);
    }
}

static void what_is_no_url_is_refused_without_its_password(void **state)
{
    static const char *const bad[] = {
        "",
        "localhost:6379",
        "http://hunter2@h",
        "redis://",
        "redis://:6379",
        "redis://h:0",
        "redis://h:65536",
        "redis://h:port",
        "redis://a,b",
        "redis://h/-1",
        "redis://h/x",
        "redis://h/99999",
        "redis://h:1/0/1",
        "redis://u:hunter2@",
        "redis://hunter2@h",
        "redis://u:@h",
        "redis://u:hunter2%@h",
        "redis://u:hunter2%0g@h",
        "redis://u:hunter2%00@h",
        "redis://::1",
        "redis://u:hunter2@h h",
        "redis+unix://relative",
        "redis+unix://",
        "redis+cluster://a,",
        "redis+cluster://a/1",
        "redis+cluster://a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a",
        "redis+sentinel://s1:26379",
        "redis+sentinel://@s1",
        "redis+sentinel://u:hunter2@@s1",
        "redis+sentinel://:hunter2@s1",
        "redis+sentinel://u:hunter2@main:@s1",
        "redis+sentinel://u:p@main:hunter2%@s1",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct redis_options options, before;
        struct tg_problem problem = {""};

        redis_options_init(&options);
        before = options;
        if (redis_url_read(bad[i], &options, &problem) != TG_ERR_INVALID)
            fail_msg("'%s' is taken", bad[i]);
        assert_true(problem.text[0] != '\0');
        assert_null(strstr(problem.text, "hunter2"));
        assert_memory_equal(&options, &before, sizeof options);
    }
}

static void long_names_are_refused(void **state)
{
    static const struct {
        const char *before, *after;
        size_t most;
    } rows[] = {
        {"redis://", "", 255},
        {"redis://", ":p@h", 255},
        {"redis://u:", "@h", 511},
        {"redis+sentinel://", "@s", 255},
        {"redis+unix:///", "", 106},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t more = 0; more < 2; more++) {
            char url[700] = "";
            struct redis_options options;
            struct tg_problem problem;

            redis_options_init(&options);
            strcpy(url, rows[i].before);
            memset(url + strlen(url), 'x', rows[i].most + more);
            strcat(url, rows[i].after);
            assert_int_equal(redis_url_read(url, &options, &problem),
                             more ? TG_ERR_INVALID : TG_OK);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_read),
        cmocka_unit_test(sentinels_may_have_a_password_of_their_own),
        cmocka_unit_test(what_is_no_url_is_refused_without_its_password),
        cmocka_unit_test(long_names_are_refused),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
