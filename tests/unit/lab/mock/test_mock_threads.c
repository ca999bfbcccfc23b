/* test_mock_threads.c - the running mock, by plain sockets: what a client gets of each fault, and
 * what is remembered of it.
 *
 * Nothing sleeps: a client that wants to know whether the mock has noticed something asks
 * /mock/requests until it says so. What never comes ends in the time limit of the test's runner.
 */
#include "check.h"

#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lab/mock/mock.h"

static const char chat[] =
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
static const char streamed[] = "{\"model\":\"m\",\"stream\":true,\"messages\":[]}";

/* ---- The mock and its clients ---------------------------------------------------------------- */

static void no_problem(void *context, size_t line, size_t column, const char *text)
{
    (void)context;
    fail_msg("%zu:%zu: %s", line, column, text);
}

static struct mock *start(struct mock_options *options, const char *text)
{
    struct tg_problem problem = {""};
    struct mock_script *script =
        mock_script_read(&options->base, text, strlen(text), no_problem, NULL);
    struct mock *mock = NULL;

    if (mock_start(options, script, &mock, &problem) != TG_OK)
        fail_msg("%s", problem.text);
    return mock;
}

static struct mock *start_usual(const char *text)
{
    struct mock_options options;

    mock_options_init(&options);
    options.workers = 2;
    return start(&options, text);
}

static int dial(const struct mock *mock)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)mock_port(mock)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void put(int fd, const char *text)
{
    for (size_t n = strlen(text); n > 0;) {
        ssize_t sent = send(fd, text, n, MSG_NOSIGNAL);
        assert_true(sent > 0);
        text += sent;
        n -= (size_t)sent;
    }
}

static void put_request(int fd, const char *method, const char *path, const char *body)
{
    char head[512];

    snprintf(head, sizeof head,
             "%s %s HTTP/1.1\r\nhost: mock\r\nconnection: close\r\nauthorization: Bearer k1\r\n"
             "x-seen: yes\r\ncontent-length: %zu\r\n\r\n",
             method, path, strlen(body));
    put(fd, head);
    put(fd, body);
}

/* All that comes until the end; the caller's to free. False: the connection broke. */
static bool get_all(int fd, char **all)
{
    size_t n = 0, capacity = 1 << 16;
    ssize_t got;

    *all = malloc(capacity);
    while ((got = recv(fd, *all + n, capacity - n - 1, 0)) > 0) {
        n += (size_t)got;
        if (capacity - n < 1024)
            *all = realloc(*all, capacity *= 2);
    }
    (*all)[n] = '\0';
    close(fd);
    return got == 0;
}

static char *ask(const struct mock *mock, const char *method, const char *path, const char *body)
{
    int fd = dial(mock);
    char *all;

    put_request(fd, method, path, body);
    assert_true(get_all(fd, &all));
    return all;
}

static void expect_reply(const struct mock *mock, const char *body, const char *words)
{
    char *all = ask(mock, "POST", "/v1/chat/completions", body);

    if (strstr(all, words) == NULL)
        fail_msg("nothing of '%s' in: %s", words, all);
    free(all);
}

/* Asks until all these words are in what the mock remembers. */
static void until_seen(const struct mock *mock, const char *words, const char *more)
{
    for (bool seen = false; !seen;) {
        char *all = ask(mock, "GET", "/mock/requests", "");
        seen = strstr(all, words) != NULL && strstr(all, more) != NULL;
        free(all);
    }
}

static void set_script(const struct mock *mock, const char *text)
{
    char *all = ask(mock, "POST", "/mock/script", text);

    assert_non_null(strstr(all, " 200 "));
    free(all);
    all = ask(mock, "POST", "/mock/reset", "");
    assert_non_null(strstr(all, " 200 "));
    free(all);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void the_same_request_gets_the_same_bytes(void **state)
{
    struct mock *mock = start_usual("");
    char *first = ask(mock, "POST", "/v1/chat/completions", streamed);
    char *again = ask(mock, "POST", "/v1/chat/completions", streamed);
    char *other = ask(mock, "POST", "/v1/chat/completions", chat);

    (void)state;
    assert_string_equal(first, again);
    assert_non_null(strstr(first, "data: [DONE]\n\n"));
    assert_non_null(strstr(other, "\"object\":\"chat.completion\""));
    free(first);
    free(again);
    free(other);
    assert_true(mock_stop(mock));
}

static void faults_reach_the_client(void **state)
{
    struct mock *mock = start_usual("");
    char *all;

    (void)state;
    set_script(mock, "default: {fault: garbage}");
    expect_reply(mock, chat, "this is not HTTP");
    set_script(mock, "default: {fault: bad_chunk, at: event 1}");
    expect_reply(mock, streamed, "zz\r\nthis is no chunk");
    set_script(mock, "default: {fault: error, at: event 1}");
    expect_reply(mock, streamed, "data: {\"error\":{\"message\":");
    set_script(mock, "default: {fault: close}");
    all = ask(mock, "POST", "/v1/chat/completions", chat);
    assert_string_equal(all, "");
    free(all);
    set_script(mock, "default: {fault: close, at: byte 9}");
    all = ask(mock, "POST", "/v1/chat/completions", chat);
    assert_string_equal(strstr(all, "\r\n\r\n"), "\r\n\r\n{\"id\":\"ch");
    free(all);
    until_seen(mock, "\"ended\":\"cut\"", "\"sent_bytes\":9");
    set_script(mock, "default: {fault: reset, at: head}");
    int fd = dial(mock);
    put_request(fd, "POST", "/v1/chat/completions", streamed);
    assert_false(get_all(fd, &all));
    free(all);
    assert_true(mock_stop(mock));
}

/* The head differs in `connection: close` alone, which a raw reply has and the other one too,
 * because the client asked for it. */
static void split_bytes_are_the_same_bytes(void **state)
{
    struct mock *mock = start_usual("");
    char *whole = ask(mock, "POST", "/v1/chat/completions", streamed), *split;

    (void)state;
    set_script(mock, "default: {split: [1, 2, 7]}");
    split = ask(mock, "POST", "/v1/chat/completions", streamed);
    assert_string_equal(split, whole);
    free(whole);
    free(split);
    assert_true(mock_stop(mock));
}

static void statuses_carry_their_hints(void **state)
{
    struct mock *mock = start_usual(
        "rules:\n"
        "- {when: {nth: 1}, do: {status: 429, retry_after_ms: 150, retry_after: 1}}\n"
        "- {when: {nth: 1}, do: {status: 429, retry_after_date: 2s}}\n"
        "- {when: {nth: 1}, do: {status: 302, headers: {location: \"http://x/\"}}}\n"
        "- {when: {nth: 1}, do: {status: 503, body: \"<p>\", content_type: text/html}}\n"
        "- {when: {nth: 1}, do: {header_padding: 40000}}\n");
    char *all;

    (void)state;
    expect_reply(mock, chat, "retry-after-ms: 150\r\nretry-after: 1\r\n");
    expect_reply(mock, chat, " GMT\r\n");
    expect_reply(mock, chat, "location: http://x/\r\n");
    expect_reply(mock, chat, "content-type: text/html\r\n");
    all = ask(mock, "POST", "/v1/chat/completions", chat);
    assert_true(strlen(all) > 40000);
    free(all);
    assert_true(mock_stop(mock));
}

static void a_client_that_leaves_is_remembered(void **state)
{
    static const struct {
        const char *script, *request, *seen;
        bool reads;
    } rows[] = {
        {"default: {fault: hang}", chat, "\"phase\":\"before_headers\"", false},
        {"default: {latency: 1h}", chat, "\"phase\":\"before_headers\"", false},
        {"default: {fault: hang, at: head}", streamed, "\"phase\":\"before_events\"", true},
        {"default: {fault: hang, at: event 3}", streamed, "\"events\":3", true},
        {"default: {pace: 0.001}", streamed, "\"phase\":\"events\"", true},
    };
    struct mock *mock = start_usual("");
    char first;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        set_script(mock, rows[i].script);
        int fd = dial(mock);
        put_request(fd, "POST", "/v1/chat/completions", rows[i].request);
        until_seen(mock, "\"begun\":1", "\"ended\":0");
        if (rows[i].reads)
            assert_int_equal(recv(fd, &first, 1, 0), 1);
        close(fd);
        until_seen(mock, "\"ended\":\"aborted\"", rows[i].seen);
    }
    assert_true(mock_stop(mock));
}

static void a_client_that_leaves_in_its_request_is_remembered(void **state)
{
    struct mock *mock = start_usual("");
    int fd = dial(mock);

    (void)state;
    put(fd, "POST /v1/messages HTTP/1.1\r\nhost: mock\r\ncontent-length: 10\r\n\r\n{");
    until_seen(mock, "\"begun\":1", "\"ended\":0");
    close(fd);
    until_seen(mock, "\"ended\":\"aborted\"", "\"phase\":\"request\"");
    assert_true(mock_stop(mock));
}

static void an_early_reply_does_not_wait_for_the_body(void **state)
{
    struct mock *mock = start_usual("default: {status: 413, early: true}");
    char status[13];
    int fd = dial(mock);

    (void)state;
    put(fd, "POST /v1/messages HTTP/1.1\r\nhost: mock\r\ncontent-length: 1000\r\n\r\n{");
    assert_int_equal(recv(fd, status, 12, MSG_WAITALL), 12);
    assert_memory_equal(status, "HTTP/1.1 413", 12);
    close(fd);
    assert_true(mock_stop(mock));
}

static void a_slow_reader_gets_it_all(void **state)
{
    struct mock *mock = start_usual("default: {read_pause: 1ms}");

    (void)state;
    expect_reply(mock, chat, "HTTP/1.1 200");
    assert_true(mock_stop(mock));
}

static void keys_and_quotas_hold(void **state)
{
    struct mock_options options;
    struct mock *mock;
    char *all;

    (void)state;
    mock_options_init(&options);
    options.keys = "k0,k1";
    options.rpm = 2;
    mock = start(&options, "");
    expect_reply(mock, chat, "x-ratelimit-remaining-requests: 1\r\n");
    expect_reply(mock, chat, "x-ratelimit-remaining-requests: 0\r\n");
    expect_reply(mock, chat, "HTTP/1.1 429");
    until_seen(mock, "\"key\":2", "\"status\":429");
    assert_true(mock_stop(mock));
    options.keys = "k0";
    mock = start(&options, "");
    expect_reply(mock, chat, "HTTP/1.1 401");
    all = ask(mock, "GET", "/mock/requests", "");
    assert_null(strstr(all, "k1"));
    assert_non_null(strstr(all, "[\"x-seen\",\"yes\"]"));
    /* the hash of "k1" */
    assert_non_null(strstr(all, "{\"header\":\"authorization\",\"sha256\":"
                                "\"6ab9f1eb8f7d3388"));
    free(all);
    assert_true(mock_stop(mock));
}

static void a_wrong_script_changes_nothing(void **state)
{
    struct mock *mock = start_usual("default: {status: 418}");
    char *all = ask(mock, "POST", "/mock/script", "default: {stat: 1}");

    (void)state;
    assert_non_null(strstr(all, "HTTP/1.1 400"));
    assert_non_null(strstr(all, "1:11: 'stat' is not an action"));
    free(all);
    expect_reply(mock, chat, "HTTP/1.1 418");
    assert_true(mock_stop(mock));
}

/* ---- Many at once ---------------------------------------------------------------------------- */

#define CLIENTS 4
#define CALLS 50

static void *call_many(void *arg)
{
    for (int i = 0; i < CALLS; i++)
        free(ask(arg, "POST", "/v1/chat/completions", i % 2 == 0 ? chat : streamed));
    return NULL;
}

static void workers_count_together(void **state)
{
    struct mock *mock = start_usual("rules: [{when: {nth: 1-20}, do: {status: 500}}]");
    pthread_t clients[CLIENTS];
    char *all;
    size_t failed = 0;

    (void)state;
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, call_many, mock), 0);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    until_seen(mock, "\"begun\":200", "\"ended\":200");
    all = ask(mock, "GET", "/mock/requests", "");
    for (const char *at = all; (at = strstr(at, "\"status\":500")) != NULL; at++)
        failed++;
    assert_int_equal(failed, 20);
    free(all);
    assert_true(mock_stop(mock));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_request_gets_the_same_bytes),
        cmocka_unit_test(faults_reach_the_client),
        cmocka_unit_test(split_bytes_are_the_same_bytes),
        cmocka_unit_test(statuses_carry_their_hints),
        cmocka_unit_test(a_client_that_leaves_is_remembered),
        cmocka_unit_test(a_client_that_leaves_in_its_request_is_remembered),
        cmocka_unit_test(an_early_reply_does_not_wait_for_the_body),
        cmocka_unit_test(a_slow_reader_gets_it_all),
        cmocka_unit_test(keys_and_quotas_hold),
        cmocka_unit_test(a_wrong_script_changes_nothing),
        cmocka_unit_test(workers_count_together),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
