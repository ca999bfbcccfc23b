/* test_sse.c - events are the same however a stream is cut, and no byte is lost. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/dialect/sse.h"

/* Everything that a stream gave: events as "name|data;" and all raw bytes in order. */
struct log {
    char *events, *raw;
    size_t n_events, n_raw, pieces;
};

static void log_init(struct log *log, size_t bytes)
{
    *log = (struct log){.events = calloc(2 * bytes + 64, 1), .raw = calloc(bytes + 64, 1)};
}

static void log_free(struct log *log)
{
    free(log->events);
    free(log->raw);
}

static void append(char *to, size_t *n, struct slice slice)
{
    if (slice.n > 0)
        memcpy(to + *n, slice.at, slice.n);
    *n += slice.n;
}

static void log_event(struct log *log, const struct sse_event *event)
{
    append(log->raw, &log->n_raw, event->raw);
    log->pieces += event->kind == SSE_PIECE;
    assert_true(event->raw.n > 0);
    if (event->kind != SSE_EVENT)
        return;
    append(log->events, &log->n_events, event->name);
    append(log->events, &log->n_events, SLICE("|"));
    append(log->events, &log->n_events, event->data);
    append(log->events, &log->n_events, SLICE(";"));
}

static void feed(struct sse *sse, const char *bytes, size_t n, struct log *log)
{
    char *exact = malloc(n > 0 ? n : 1);
    struct sse_event event;

    memcpy(exact, bytes, n);
    sse_feed(sse, exact, n);
    while (sse_next(sse, &event))
        log_event(log, &event);
    free(exact);
}

/* Cut at two places. */
static void run(const char *text, size_t n, size_t one, size_t two, struct log *log,
                int64_t *oversized)
{
    struct sse sse;
    struct sse_event event;

    sse_init(&sse);
    feed(&sse, text, one, log);
    feed(&sse, text + one, two - one, log);
    feed(&sse, text + two, n - two, log);
    while (sse_end(&sse, &event))
        log_event(log, &event);
    if (oversized != NULL)
        *oversized = sse.oversized;
    sse_fini(&sse);
}

static void expect_events(const char *text, const char *want)
{
    size_t n = strlen(text);

    for (size_t one = 0; one <= n; one++)
        for (size_t two = one; two <= n; two++) {
            struct log log;
            log_init(&log, n);
            run(text, n, one, two, &log, NULL);
            if (strcmp(log.events, want) != 0)
                fail_msg("cut at %zu and %zu: '%s' is not '%s'", one, two, log.events, want);
            if (log.n_raw != n || memcmp(log.raw, text, n) != 0)
                fail_msg("cut at %zu and %zu: bytes are lost", one, two);
            log_free(&log);
        }
}

static void every_cut_gives_the_same_events(void **state)
{
    (void)state;
    expect_events("data: a\n\ndata: b\n\n", "|a;|b;");
    expect_events("event: x\ndata: {\"a\":\"\xf0\x9f\x98\x80\"}\n\n: ping\n\ndata: [DONE]\n\n",
                  "x|{\"a\":\"\xf0\x9f\x98\x80\"};|[DONE];");
    expect_events("event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", "x|a;|b;");
    expect_events("event: x\rdata: a\r\rdata: b\r\r", "x|a;|b;");
    expect_events("data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", "|a;|b;|c;");
}

static void lines_are_what_the_standard_says(void **state)
{
    (void)state;
    expect_events("data: a\ndata: b\ndata:\ndata\n\n", "|a\nb\n\n;");
    expect_events("data:a\ndata:  b\n\n", "|a\n b;");
    expect_events("id: 1\nretry: 5\ndata: a\ndatax: b\n data: c\n\n", "|a;");
    expect_events("event: x\nevent: y\ndata: a\n\ndata: b\n\n", "y|a;|b;");
    expect_events("event: x\n\ndata: a\n\n", "|a;");
    expect_events("data\n\n", "|;");
    expect_events(":c\n:\n\n\n:d\ndata: a\n:e\n\n", "|a;");
    expect_events("\xef\xbb\xbf"
                  "data: a\n\n",
                  "|a;");
    expect_events("\xef\xbb\xbf\n\xef\xbb\xbf"
                  "data: a\n\ndata: b\n\n",
                  "|b;");
    expect_events("\xef\xbb"
                  "data: a\n\ndata: b\n\n",
                  "|b;");
    expect_events("", "");
    expect_events("\n\n\r\n", "");
}

static void last_event_needs_no_blank_line(void **state)
{
    (void)state;
    expect_events("data: a\n\ndata: [DONE]", "|a;|[DONE];");
    expect_events("data: a\n\ndata: [DONE]\n", "|a;|[DONE];");
    expect_events("data: [DONE]\r\n", "|[DONE];");
    expect_events("data: a\n\n: comment", "|a;");
    expect_events("data: a\n\nevent: x", "|a;");
    expect_events("\xef\xbb\xbf", "");
}

/* A client must get a keep-alive when it is sent, and an event when it is complete. */
static void complete_things_are_given_at_once(void **state)
{
    static const char *const texts[] = {"data: a\n\n", "data: a\r\n\r\n", "data: a\r\r",
                                        ": ping\n", ": ping\r", "\n"};
    struct sse_event event;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct sse sse;
        sse_init(&sse);
        sse_feed(&sse, texts[i], strlen(texts[i]));
        assert_true(sse_next(&sse, &event));
        assert_int_equal(event.raw.n, strlen(texts[i]));
        assert_ptr_equal(event.raw.at, texts[i]);
        assert_false(sse_next(&sse, &event));
        sse_fini(&sse);
    }
}

/* ---- Events that are too large --------------------------------------------------------------- */

/* "data: a", one of `size` bytes with its end, "data: b". */
static char *around(size_t size, size_t *n)
{
    char *text = malloc(size + 32);

    memcpy(text, "data: a\n\n", 9);
    memset(text + 9, 'x', size);
    memcpy(text + 9, "data: ", 6);
    memcpy(text + 9 + size - 2, "\n\n", 2);
    memcpy(text + 9 + size, "data: b\n\n", 9);
    *n = size + 18;
    return text;
}

static void large_events_pass_without_being_looked_at(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        size_t n;
        char *text = around((size_t)SSE_EVENT_MAX + (size_t)over, &n);
        size_t cuts[] = {0, 9, 10, 500, n / 2, n - 11, n - 10, n - 9, n - 8, n};
        for (size_t i = 0; i < COUNT_OF(cuts); i++)
            for (size_t j = i; j < COUNT_OF(cuts); j++) {
                struct log log;
                int64_t oversized = 0;
                log_init(&log, n);
                run(text, n, cuts[i], cuts[j], &log, &oversized);
                assert_int_equal(oversized, over);
                assert_int_equal(log.pieces > 0, over);
                assert_int_equal(log.n_raw, n);
                assert_memory_equal(log.raw, text, n);
                if (over == 1)
                    assert_string_equal(log.events, "|a;|b;");
                else
                    assert_int_equal(log.n_events, 3 + 3 + 2 + SSE_EVENT_MAX - 8);
                log_free(&log);
            }
        free(text);
    }
}

static void events_without_end_hold_a_bounded_memory(void **state)
{
    struct sse sse;
    struct sse_event event;
    char chunk[4096];
    size_t given = 0;

    (void)state;
    memset(chunk, 'x', sizeof chunk);
    sse_init(&sse);
    for (int i = 0; i < 1000; i++) {
        sse_feed(&sse, chunk, sizeof chunk);
        while (sse_next(&sse, &event))
            given += event.raw.n;
        assert_true(sse.buffer_size <= SSE_EVENT_MAX);
    }
    assert_int_equal(given, sizeof chunk * 1000);
    assert_int_equal(sse.oversized, 1);
    assert_int_equal(sse.buffer_size, 0);
    assert_false(sse_end(&sse, &event));
    sse_fini(&sse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_gives_the_same_events),
        cmocka_unit_test(lines_are_what_the_standard_says),
        cmocka_unit_test(last_event_needs_no_blank_line),
        cmocka_unit_test(complete_things_are_given_at_once),
        cmocka_unit_test(large_events_pass_without_being_looked_at),
        cmocka_unit_test(events_without_end_hold_a_bounded_memory),
    };

    return cmocka_run_group_tests_name("sse", tests, NULL, NULL);
}
