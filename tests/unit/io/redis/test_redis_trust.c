/* test_redis_trust.c - who may: passwords, users of few rights, TLS; and what options may be. */
#include "net_redis_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Passwords ------------------------------------------------------------------------------- */

static void expect_problem(const struct net_redis *server, const char *user, const char *password,
                           const char *text)
{
    struct redis_kit kit;
    struct redis_kit_ask ask;

    redis_kit_init_server(&kit, server);
    snprintf(kit.options.user, sizeof kit.options.user, "%s", user);
    snprintf(kit.options.password, sizeof kit.options.password, "%s", password);
    redis_kit_open(&kit);
    redis_kit_until(&kit, redis_kit_stats(&kit).problem[0] != '\0');
    assert_non_null(strstr(redis_kit_stats(&kit).problem, text));
    assert_null(strstr(redis_kit_stats(&kit).problem, "hunter2"));
    redis_kit_do(&kit, &ask, "GET a");
    assert_int_equal(ask.ask.lost, REDIS_AWAY);
    redis_kit_free(&kit);
}

static void a_wrong_password_is_a_problem_and_no_secret(void **state)
{
    struct net_redis server;
    struct redis_kit kit;
    struct redis_kit_ask ask;

    (void)state;
    net_redis_start(&server, "--requirepass", "secret", NULL);
    expect_problem(&server, "", "hunter2", "WRONGPASS");
    expect_problem(&server, "nobody", "hunter2", "WRONGPASS");
    expect_problem(&server, "", "", "NOAUTH");
    redis_kit_init_server(&kit, &server);
    redis_kit_open_up(&kit);
    redis_kit_do(&kit, &ask, "SET a 1");
    assert_string_equal(ask.text, "OK");
    redis_kit_free(&kit);
    net_redis_free(&server);
}

/* It says what it was told. */
static void a_server_without_passwords_does_not_give_ours_away(void **state)
{
    struct net_redis server;

    (void)state;
    net_redis_start(&server, "--rename-command", "AUTH", "GONE", NULL);
    expect_problem(&server, "", "hunter2", "unknown command");
    expect_problem(&server, "nobody", "hunter2", "unknown command");
    net_redis_free(&server);
}

static void a_command_that_is_renamed_is_told_as_forbidden(void **state)
{
    struct redis_script script = redis_kit_script("return redis.call('INCR', KEYS[1])");
    struct net_redis server;
    struct redis_kit kit;
    struct redis_kit_ask ask;

    (void)state;
    net_redis_start(&server, "--rename-command", "INCR", "GONE", NULL);
    redis_kit_init_server(&kit, &server);
    redis_kit_open_up(&kit);
    redis_kit_eval(&kit, &ask, &script, "tg:a", "1");
    redis_kit_until(&kit, ask.answered && !kit.up);
    assert_true(ask.error);
    redis_kit_free(&kit);
    net_redis_free(&server);
}

static void a_user_of_few_rights_is_enough(void **state)
{
    struct redis_script script = redis_kit_script("return redis.call('INCR', KEYS[1])");
    struct net_redis server;
    struct redis_kit kit;
    struct redis_kit_ask ask;

    (void)state;
    net_redis_start(&server, NULL);
    net_redis_do(&server, "ACL SETUSER gate on >secret ~tg:* +eval +evalsha +ping +incr");
    redis_kit_init_server(&kit, &server);
    strcpy(kit.options.user, "gate");
    strcpy(kit.options.password, "secret");
    kit.options.health = 20;
    redis_kit_open_up(&kit);
    redis_kit_eval(&kit, &ask, &script, "tg:a", "1");
    redis_kit_until(&kit, ask.answered);
    assert_int_equal(ask.integer, 1);
    redis_kit_do(&kit, &ask, "GET tg:a");
    assert_true(ask.error);
    assert_memory_equal(ask.text, "NOPERM", 6);
    redis_kit_eval(&kit, &ask, &script, "other", "1");
    redis_kit_until(&kit, ask.answered);
    assert_true(ask.error);
    redis_kit_until(&kit, kit.up);
    /* Whoever may not even run a script is still known to be there. */
    net_redis_do(&server, "ACL SETUSER gate -eval");
    redis_kit_until(&kit, net_redis_says(&server, "cmdstat_ping", "INFO commandstats"));
    assert_true(redis_is_up(kit.redis, NULL));
    redis_kit_free(&kit);
    net_redis_free(&server);
}

/* A proxy does this, or a careful administrator. */
static void without_evalsha_scripts_go_as_text(void **state)
{
    struct redis_script script = redis_kit_script("return redis.call('INCR', KEYS[1])");
    struct net_redis server;
    struct redis_kit kit;
    struct redis_kit_ask asks[4];

    (void)state;
    net_redis_start(&server, NULL);
    net_redis_do(&server, "ACL SETUSER gate on >secret ~* +@all -evalsha -script");
    redis_kit_init_server(&kit, &server);
    strcpy(kit.options.user, "gate");
    strcpy(kit.options.password, "secret");
    redis_kit_open_up(&kit);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4; i++) /* all are on their way before the first is refused */
            redis_kit_eval(&kit, &asks[i], &script, "tg:a", "1");
        for (int i = 0; i < 4; i++) {
            redis_kit_until(&kit, asks[i].answered);
            assert_false(asks[i].error);
            assert_int_equal(asks[i].integer, 4 * round + i + 1);
        }
        assert_true(redis_is_up(kit.redis, NULL));
    }
    assert_int_equal(redis_kit_stats(&kit).errors, 0);
    redis_kit_free(&kit);
    net_redis_free(&server);
}

/* An operator sees it, though the connection is good; and who is allowed something gets it. */
static void a_server_that_forbids_what_we_must_do_is_told_as_away(void **state)
{
    struct redis_script script = redis_kit_script("return redis.call('INCR', KEYS[1])");
    struct slice good = SLICE("tg:a");
    struct net_redis server;
    struct redis_kit kit;
    struct redis_kit_ask ask;

    (void)state;
    net_redis_start(&server, NULL);
    net_redis_do(&server, "ACL SETUSER gate on >secret ~tg:* +@all");
    redis_kit_init_server(&kit, &server);
    strcpy(kit.options.user, "gate");
    strcpy(kit.options.password, "secret");
    kit.options.health = 20;
    redis_kit_open_up(&kit);
    redis_kit_eval(&kit, &ask, &script, "other", "1");
    redis_kit_until(&kit, ask.answered && !kit.up);
    assert_non_null(strstr(redis_kit_stats(&kit).problem, "NOPERM"));
    assert_true(redis_is_up(kit.redis, &good));
    redis_kit_eval(&kit, &ask, &script, "tg:a", "1");
    redis_kit_until(&kit, ask.answered);
    assert_false(ask.error);
    redis_kit_until(&kit, kit.up); /* by itself, without a question */
    /* The same of what only a script was to do. */
    net_redis_do(&server, "ACL SETUSER gate -incr");
    redis_kit_eval(&kit, &ask, &script, "tg:a", "1");
    redis_kit_until(&kit, ask.answered && !kit.up);
    assert_true(ask.error);
    assert_int_equal(redis_kit_stats(&kit).connects, 1);
    redis_kit_free(&kit);
    net_redis_free(&server);
}

static void a_user_that_is_deleted_is_out(void **state)
{
    struct net_redis server;
    struct redis_kit kit;

    (void)state;
    net_redis_start(&server, NULL);
    net_redis_do(&server, "ACL SETUSER gate on >secret ~* +@all");
    redis_kit_init_server(&kit, &server);
    strcpy(kit.options.user, "gate");
    strcpy(kit.options.password, "secret");
    redis_kit_open_up(&kit);
    net_redis_do(&server, "ACL DELUSER gate");
    redis_kit_until(&kit, !kit.up && strstr(redis_kit_stats(&kit).problem, "WRONGPASS") != NULL);
    net_redis_do(&server, "ACL SETUSER gate on >secret ~* +@all");
    redis_kit_until(&kit, kit.up);
    redis_kit_free(&kit);
    net_redis_free(&server);
}

/* ---- TLS ------------------------------------------------------------------------------------- */

static const char script_of_certificates[] =
    "set -e; cd '%s'; exec 2>/dev/null\n"
    "key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'\n"
    "for ca in ca other; do openssl req -x509 $key -keyout $ca.key -out $ca.pem -days 2 "
    "-subj /CN=$ca; done\n"
    "openssl req $key -keyout good.key -out good.csr -subj /CN=good\n"
    "printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' >good.ext\n"
    "openssl x509 -req -in good.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out good.pem "
    "-extfile good.ext -days 2\n";

static void tls_client(struct redis_kit *kit, const char *folder, const char *ca, int port,
                       tg_ms connect)
{
    char url[64], path[160];
    struct tg_problem problem;

    snprintf(url, sizeof url, "rediss://127.0.0.1:%d", port);
    redis_kit_init_url(kit, url);
    kit->options.connect = connect;
    snprintf(path, sizeof path, "%s/%s", folder, ca);
    if (tls_client_new(path, NULL, NULL, &kit->options.tls, &problem) != TG_OK)
        fail_msg("%s", problem.text);
    redis_kit_open(kit);
    tls_context_unref(kit->options.tls);
}

static void tls_is_spoken_with_whom_is_trusted(void **state)
{
    struct net_redis plain, server;
    struct redis_kit kit;
    struct redis_kit_ask asks[300];
    char command[sizeof script_of_certificates + 128], cert[160], key[160], ca[160];

    (void)state;
    net_redis_start(&plain, NULL); /* its folder is there, and goes with it */
    snprintf(command, sizeof command, script_of_certificates, plain.folder);
    assert_int_equal(system(command), 0);
    snprintf(cert, sizeof cert, "%s/good.pem", plain.folder);
    snprintf(key, sizeof key, "%s/good.key", plain.folder);
    snprintf(ca, sizeof ca, "%s/ca.pem", plain.folder);
    net_redis_start_tls(&server, cert, key, ca);
    tls_client(&kit, plain.folder, "ca.pem", server.tls_port, 20000);
    redis_kit_until(&kit, kit.up);
    for (size_t i = 0; i < COUNT_OF(asks); i++)
        redis_kit_ask(&kit, &asks[i], "INCR n");
    redis_kit_until(&kit, asks[COUNT_OF(asks) - 1].answered);
    assert_int_equal(asks[COUNT_OF(asks) - 1].integer, COUNT_OF(asks));
    net_redis_kill(&server);
    redis_kit_until(&kit, !kit.up);
    net_redis_again(&server);
    redis_kit_until(&kit, kit.up);
    redis_kit_free(&kit);

    tls_client(&kit, plain.folder, "other.pem", server.tls_port, 20000);
    redis_kit_until(&kit, strstr(redis_kit_stats(&kit).problem, "certificate") != NULL);
    assert_false(redis_is_up(kit.redis, NULL));
    redis_kit_free(&kit);

    tls_client(&kit, plain.folder, "ca.pem", plain.port, 50); /* which speaks none */
    redis_kit_until(&kit, strstr(redis_kit_stats(&kit).problem, "in time") != NULL);
    assert_false(redis_is_up(kit.redis, NULL));
    redis_kit_free(&kit);
    net_redis_free(&server);
    net_redis_free(&plain);
}

/* ---- Options --------------------------------------------------------------------------------- */

static void spoil(struct redis_options *options, size_t how)
{
    switch (how) {
    case 0:
        options->n_hosts = 0;
        break;
    case 1:
        options->n_hosts = 2;
        break;
    case 2:
        options->kind = REDIS_SENTINEL;
        break;
    case 3:
        options->secure = true;
        break;
    case 4:
        options->db = -1;
        break;
    case 5:
        options->kind = REDIS_CLUSTER;
        options->db = 1;
        break;
    case 6:
        options->timeout = 0;
        break;
    case 7:
        options->backoff_max = options->backoff_min - 1;
        break;
    case 8:
        options->in_flight_max = 0;
        break;
    default:
        options->health = -1;
    }
}

static void options_out_of_range_are_refused(void **state)
{
    struct redis_kit kit;
    struct tg_problem problem;

    (void)state;
    redis_kit_init_port(&kit, 1);
    for (size_t how = 0; how < 10; how++) {
        struct redis_options options = kit.options;

        spoil(&options, how);
        problem.text[0] = '\0';
        assert_int_equal(redis_new(kit.kit.loop, &options, &kit.redis, &problem), TG_ERR_INVALID);
        assert_true(problem.text[0] != '\0');
        assert_null(kit.redis);
    }
    redis_kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_password_is_a_problem_and_no_secret),
        cmocka_unit_test(a_server_without_passwords_does_not_give_ours_away),
        cmocka_unit_test(a_command_that_is_renamed_is_told_as_forbidden),
        cmocka_unit_test(a_user_of_few_rights_is_enough),
        cmocka_unit_test(without_evalsha_scripts_go_as_text),
        cmocka_unit_test(a_server_that_forbids_what_we_must_do_is_told_as_away),
        cmocka_unit_test(a_user_that_is_deleted_is_out),
        cmocka_unit_test(tls_is_spoken_with_whom_is_trusted),
        cmocka_unit_test(options_out_of_range_are_refused),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
