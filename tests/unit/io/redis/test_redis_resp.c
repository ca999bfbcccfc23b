/* test_redis_resp.c - the words of Redis: commands to the byte, errors told apart, redirections. */
#include "check.h"
#include "io/redis/resp.h"

#include <stdlib.h>
#include <string.h>

static void commands_are_written_to_the_byte(void **state)
{
    static char many[1000];
    const struct slice words[] = {SLICE("SET"), SLICE(""), {many, sizeof many}, SLICE("a\r\nb")};
    const char *argv[] = {"SET", "", many, "a\r\nb"};
    const size_t lengths[] = {3, 0, sizeof many, 4};

    (void)state;
    memset(many, 0, sizeof many);
    for (int n = 1; n <= 4; n++) {
        char *theirs;
        int bytes = redisFormatCommandArgv(&theirs, n, argv, lengths);
        char *ours = malloc((size_t)bytes);

        assert_int_equal(resp_command_bytes(words, (size_t)n), bytes);
        assert_ptr_equal(resp_put_command(ours, words, (size_t)n), ours + bytes);
        assert_memory_equal(ours, theirs, (size_t)bytes);
        free(ours);
        redisFreeCommand(theirs);
    }
}

static void memory_of_commands_is_used_again(void **state)
{
    struct resp_pool pool = {0};

    (void)state;
    for (size_t bytes = 1; bytes < 200000; bytes = bytes * 3 + 1) {
        char *first = resp_pool_take(&pool, bytes);

        memset(first, 'x', bytes);
        resp_pool_give(&pool, first, bytes);
        char *second = resp_pool_take(&pool, bytes);
        if (bytes <= (size_t)RESP_SIZE_MIN << (RESP_SIZES - 1))
            assert_ptr_equal(first, second);
        resp_pool_give(&pool, second, bytes);
    }
    resp_pool_give(&pool, NULL, 10);
    resp_pool_fini(&pool);
}

static void errors_are_told_apart(void **state)
{
    static const struct {
        const char *text;
        enum resp_error error;
    } rows[] = {
        {"ERR value is not an integer", RESP_ERROR},
        {"WRONGTYPE Operation against", RESP_ERROR},
        {"NOSCRIPT No matching script. Please use EVAL.", RESP_NOSCRIPT},
        {"NOSCRIPTS", RESP_ERROR},
        {"MOVED 1 h:1", RESP_MOVED},
        {"ASK 1 h:1", RESP_ASK},
        {"TRYAGAIN Multiple keys", RESP_TRYAGAIN},
        {"CLUSTERDOWN Hash slot not served", RESP_CLUSTERDOWN},
        {"READONLY You can't write", RESP_READONLY},
        {"NOAUTH Authentication required.", RESP_NOAUTH},
        {"NOPERM this user", RESP_NOPERM},
        {"NOPERM this user has no permissions to run the 'evalsha' command", RESP_NO_EVALSHA},
        {"NOPERM User gate has no permissions to run the 'evalsha' command", RESP_NO_EVALSHA},
        {"ERR unknown command 'EVALSHA', with args beginning with: '0'", RESP_NO_EVALSHA},
        {"ERR unknown command `EVALSHA`, with args beginning with: `0`", RESP_NO_EVALSHA},
        {"ERR unknown command 'EVAL', with args beginning with: 'x'", RESP_NOPERM},
        {"ERR The user executing the script can't run this command or subcommand", RESP_NOPERM},
        {"ERR ACL failure in script: User gate has no permissions", RESP_NOPERM},
        {"ERR Unknown Redis command called from script script: 1, on @user_script:1.", RESP_NOPERM},
        {"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: Unknown Redis "
         "command called from Lua script",
         RESP_NOPERM},
        {"ERR Error running script (call to f_1): @user_script:1: -NOPERM this", RESP_NOPERM},
        {"LOADING Redis is loading", RESP_UNWELL},
        {"MASTERDOWN Link with MASTER", RESP_UNWELL},
        {"OOM command not allowed", RESP_UNWELL},
        {"OOM", RESP_UNWELL},
        {"MISCONF Redis is configured", RESP_UNWELL},
        {"NOREPLICAS Not enough", RESP_UNWELL},
        {"BUSY Redis is busy", RESP_UNWELL},
        /* The form in which Redis 6 reports an error inside a script. */
        {"ERR Error running script (call to f_1): @user_script:1: -OOM command not", RESP_UNWELL},
        {"ERR Error running script (call to f_1): @user_script:1: -READONLY You", RESP_READONLY},
        {"ERR Error running script (call to f_1): @user_script:1: -MOVED 1 h:1", RESP_ERROR},
        {"ERR Error running script (call to f_1): @user_script:1: attempt", RESP_ERROR},
        {"", RESP_ERROR},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[128];
        redisReply reply = {.type = REDIS_REPLY_ERROR, .str = text, .len = strlen(rows[i].text)};

        strcpy(text, rows[i].text);
        if (resp_error_of(&reply) != rows[i].error)
            fail_msg("'%s': %d", text, (int)resp_error_of(&reply));
        reply.type = REDIS_REPLY_STRING; /* the same bytes as a text are no error */
        assert_int_equal(resp_error_of(&reply), RESP_FINE);
    }
}

static void redirections_are_read(void **state)
{
    static const struct {
        const char *text, *host; /* null: refused */
        unsigned slot;
        int port;
    } rows[] = {
        {"MOVED 3999 127.0.0.1:6381", "127.0.0.1", 3999, 6381},
        {"ASK 16383 ::1:1", "::1", 16383, 1},
        {"MOVED 0 :65535", "", 0, 65535},
        {"MOVED 0 node-1.example:7000", "node-1.example", 0, 7000},
        {"MOVED 16384 h:1", NULL, 0, 0},
        {"MOVED -1 h:1", NULL, 0, 0},
        {"MOVED 1 h:0", NULL, 0, 0},
        {"MOVED 1 h:65536", NULL, 0, 0},
        {"MOVED 1 h:", NULL, 0, 0},
        {"MOVED 1 h", NULL, 0, 0},
        {"MOVED 1", NULL, 0, 0},
        {"MOVED", NULL, 0, 0},
        {"MOVED  h:1", NULL, 0, 0},
        {"MOVED 9999999999 h:1", NULL, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[128];
        redisReply reply = {.type = REDIS_REPLY_ERROR, .str = text, .len = strlen(rows[i].text)};
        unsigned slot = 0;
        struct slice host = {NULL, 0};
        int port = 0;

        strcpy(text, rows[i].text);
        if (resp_read_redirect(&reply, &slot, &host, &port) != (rows[i].host != NULL))
            fail_msg("%s", text);
        if (rows[i].host == NULL)
            continue;
        assert_int_equal(slot, rows[i].slot);
        assert_int_equal(port, rows[i].port);
        assert_true(slice_equal(host, slice_of(rows[i].host)));
    }
}

static void replies_larger_than_the_arena_are_whole(void **state)
{
    struct resp_reader *reader = resp_reader_new();
    const struct redisReply *reply = NULL;
    static char bulk[100000];

    (void)state;
    memset(bulk, 'y', sizeof bulk);
    for (int round = 0; round < 3; round++) {
        assert_true(resp_reader_feed(reader, "*2\r\n$100000\r\n", 13));
        assert_true(resp_reader_next(reader, &reply));
        assert_null(reply);
        assert_true(resp_reader_feed(reader, bulk, sizeof bulk));
        assert_true(resp_reader_feed(reader, "\r\n*500\r\n", 8));
        for (int i = 0; i < 500; i++)
            assert_true(resp_reader_feed(reader, ":7\r\n", 4));
        assert_true(resp_reader_next(reader, &reply));
        assert_non_null(reply);
        assert_int_equal(reply->element[0]->len, sizeof bulk);
        assert_memory_equal(reply->element[0]->str, bulk, sizeof bulk);
        assert_int_equal(reply->element[1]->elements, 500);
        assert_int_equal(reply->element[1]->element[499]->integer, 7);
        assert_true(resp_reader_next(reader, &reply));
        assert_null(reply);
    }
    resp_reader_free(reader);
    resp_reader_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_written_to_the_byte),
        cmocka_unit_test(memory_of_commands_is_used_again),
        cmocka_unit_test(errors_are_told_apart),
        cmocka_unit_test(redirections_are_read),
        cmocka_unit_test(replies_larger_than_the_arena_are_whole),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
