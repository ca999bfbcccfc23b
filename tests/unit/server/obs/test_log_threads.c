/* test_log_threads.c - many threads and one log: every line whole, and each written or counted. */
#include "log_kit.h"

#include <pthread.h>

#include "crew.h"

enum { THREADS = 4,
       ROUNDS = 5,
       LINES = 200 };

static struct log_kit kit;
static struct log_lane *lanes[THREADS];

static void make_lines(void *context, size_t i, size_t round)
{
    const struct log_field fields[] = {LOG_NUMBER("thread", (int64_t)i),
                                       LOG_NUMBER("round", (int64_t)round)};
    struct report report;

    (void)context;
    full_report(&report);
    report.id = i;
    for (int n = 0; n < LINES; n++) {
        report.bytes_out = n;
        log_request(lanes[i], &report, NULL);
        log_record(lanes[i], &report);
        if (n % 10 == 0)
            log_event(kit.log, LOG_INFO, "event", fields, 2);
        if (n % 50 == 0)
            log_configure(kit.log, LOG_INFO, n % 100 == 0);
    }
}

/* A line has its end where its last field is, in either form. */
static void expect_whole(char *text, size_t *requests, size_t *others)
{
    for (char *at = strtok(text, "\n"); at; at = strtok(NULL, "\n")) {
        size_t n = strlen(at);
        bool json = at[0] == '{';
        assert_true(json ? at[n - 1] == '}' : strncmp(at, "time=", 5) == 0);
        assert_int_equal(count_of(at, json ? "\"level\":" : "level="), 1);
        if (strstr(at, "trace_id"))
            ++*requests;
        else
            ++*others;
    }
}

static void lines_of_many_threads_are_whole_and_none_is_lost(void **state)
{
    FILE *record = tmpfile();
    size_t requests = 0, others = 0;
    struct log_counts counts;

    (void)state;
    kit_init(&kit);
    kit.options.lane_bytes = (size_t)1 << 21; /* room for all of them */
    kit.options.record_fd = dup(fileno(record));
    kit_open(&kit);
    for (size_t i = 0; i < THREADS; i++)
        lanes[i] = log_lane_new(kit.log);
    crew_run(THREADS, ROUNDS, make_lines, NULL);
    log_get_counts(kit.log, &counts);
    assert_int_equal(counts.dropped + counts.unrecorded, 0);
    assert_true(log_close(kit.log, ENOUGH_MS));

    static char text[8 << 20];
    kit_read(kit.file, text, sizeof text);
    expect_whole(text, &requests, &others);
    assert_int_equal(requests, THREADS * ROUNDS * LINES);
    assert_int_equal(others, THREADS * ROUNDS * LINES / 10);
    kit_read(record, text, sizeof text);
    assert_int_equal(count_of(text, "\"spent_micro_usd\":11}\n"), THREADS * ROUNDS * LINES);
    fclose(record);
    fclose(kit.file);
}

/* A reader that is slower than the threads: what it gets and what is counted are all there was. */
static void *read_all(void *arg)
{
    int fd = *(int *)arg;
    static char text[1 << 12];
    static size_t lines;
    ssize_t n;

    lines = 0;
    while ((n = read(fd, text, sizeof text)) > 0)
        for (ssize_t i = 0; i < n; i++)
            lines += text[i] == '\n';
    return &lines;
}

static void every_line_is_read_or_counted_as_dropped(void **state)
{
    struct log_counts counts;
    pthread_t reader;
    void *read_lines;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    kit_init(&kit);
    kit.options.fd = ends[1];
    kit.options.lane_bytes = 16384;
    kit_open(&kit);
    for (size_t i = 0; i < THREADS; i++)
        lanes[i] = log_lane_new(kit.log);
    crew_run(THREADS, 1, make_lines, NULL); /* nobody reads yet: some are dropped */
    log_get_counts(kit.log, &counts);
    assert_true(counts.dropped > 0);
    pthread_create(&reader, NULL, read_all, &ends[0]);
    crew_run(THREADS, ROUNDS, make_lines, NULL);
    do /* what the lanes hold is on its way */
        log_get_counts(kit.log, &counts);
    while (counts.written + counts.dropped < THREADS * (ROUNDS + 1) * (LINES + LINES / 10));
    assert_true(log_close(kit.log, ENOUGH_MS));
    close(ends[1]);
    pthread_join(reader, &read_lines);
    size_t told = *(size_t *)read_lines + counts.dropped;
    assert_true(told >= THREADS * (ROUNDS + 1) * (LINES + LINES / 10));
    assert_true(*(size_t *)read_lines >= counts.written);
    close(ends[0]);
    fclose(kit.file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_many_threads_are_whole_and_none_is_lost),
        cmocka_unit_test(every_line_is_read_or_counted_as_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
