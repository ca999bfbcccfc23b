/* test_record_writer.c - a recording on a disk that is slow, full or rotated: whole lines, bounded
 * memory, and what is lost is counted.
 */
#include "log_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "io/text/json_read.h"

static struct log_kit kit;
static char text[1 << 20];

/* {"ops":[{"q":12,"pad":"xxx..."}]} */
static void put_op(int number, size_t pad)
{
    char ops[8192];
    int n = snprintf(ops, sizeof ops, "[{\"q\":%d,\"pad\":\"", number);

    assert_true((size_t)n + pad + 8 < sizeof ops);
    memset(ops + n, 'x', pad);
    n += (int)pad;
    n += snprintf(ops + n, sizeof ops - (size_t)n, "\"}]");
    log_record_ops(kit.log, (struct slice){ops, (size_t)n});
}

/* How many lines are JSON, and how many are not. */
static void count_whole(const char *from, size_t *whole, size_t *broken)
{
    struct json_reader *reader = json_reader_new();
    struct json_value root;

    assert_non_null(reader);
    *whole = *broken = 0;
    for (const char *end; (end = strchr(from, '\n')) != NULL; from = end + 1) {
        json_begin(reader, from, (size_t)(end - from), (size_t)(end - from), &root);
        *(json_end(reader) ? whole : broken) += end > from;
    }
    json_reader_free(reader);
}

static size_t read_all(const char *path)
{
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    size_t n = kit_read(file, text, sizeof text);
    fclose(file);
    return n;
}

static void new_name(char path[64])
{
    snprintf(path, 64, "/tmp/tollgate-record-%ld-%d", (long)getpid(), rand());
}

static int open_as_serve(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);

    assert_true(fd >= 0);
    return fd;
}

/* Nobody reads: what does not fit into a lane is dropped, whatever the number of lines. */
static void a_disk_that_takes_nothing_costs_a_lane_and_no_more(void **state)
{
    enum { LINES = 20000,
           LANE = 16 * 1024 };
    struct log_counts counts;
    size_t whole, broken, n = 0;
    int ends[2];

    (void)state;
    kit_init(&kit);
    kit.options.lane_bytes = LANE;
    assert_int_equal(pipe(ends), 0);
    kit.options.record_fd = ends[1];
    kit_open(&kit);
    for (int i = 1; i <= LINES; i++)
        put_op(i, 100);
    log_get_counts(kit.log, &counts);
    assert_true(counts.unrecorded > 0);
    /* The reader is back: what waited comes whole, and nothing is counted twice. */
    for (;;) {
        struct pollfd at = {.fd = ends[0], .events = POLLIN};
        log_get_counts(kit.log, &counts);
        if (counts.recorded + counts.unrecorded == LINES && poll(&at, 1, 0) == 0)
            break;
        if (poll(&at, 1, 10) > 0) {
            ssize_t got = read(ends[0], text + n, sizeof text - 1 - n);
            assert_true(got > 0);
            n += (size_t)got;
        }
    }
    text[n] = '\0';
    count_whole(text, &whole, &broken);
    assert_int_equal(broken, 0);
    assert_int_equal(whole, counts.recorded);
    assert_true(n < LANE + 70000); /* a lane, and what the pipe itself holds */
    kit_close(&kit);
    close(ends[0]);
}

static void a_full_disk_is_counted_and_ends_nothing(void **state)
{
    struct log_counts counts = {0};

    (void)state;
    kit_init(&kit);
    kit.options.record_fd = open("/dev/full", O_WRONLY | O_APPEND);
    assert_true(kit.options.record_fd >= 0);
    kit_open(&kit);
    for (int i = 1; i <= 50; i++)
        put_op(i, 100);
    while (counts.unrecorded < 50)
        log_get_counts(kit.log, &counts);
    assert_int_equal(counts.recorded, 0);
    kit_close(&kit);
    assert_non_null(strstr(kit.text, "arrivals not recorded"));
}

static void set_file_size(rlim_t most)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The disk takes part of a line, then nothing, then everything again. */
static void a_short_write_costs_its_line_and_not_the_next(void **state)
{
    struct log_counts counts = {0};
    size_t whole, broken;
    char path[64];

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    new_name(path);
    kit_init(&kit);
    kit.options.record_fd = open_as_serve(path);
    kit_open(&kit);
    set_file_size(1000);
    for (int i = 1; i <= 10; i++)
        put_op(i, 300);
    while (counts.recorded + counts.unrecorded < 10)
        log_get_counts(kit.log, &counts);
    set_file_size(RLIM_INFINITY);
    assert_int_equal(counts.recorded, 3);
    for (int i = 11; i <= 15; i++)
        put_op(i, 300);
    kit_close(&kit);
    read_all(path);
    count_whole(text, &whole, &broken);
    assert_int_equal(whole, 3 + 5);
    assert_int_equal(broken, 1);
    for (int i = 11; i <= 15; i++) {
        char want[32];
        snprintf(want, sizeof want, "\n{\"ops\":[{\"q\":%d,", i);
        assert_non_null(strstr(text, want));
    }
    unlink(path);
}

/* logrotate renames the file, which is written on; or empties it: then it begins anew. */
static void a_file_that_is_rotated_loses_nothing_that_comes_later(void **state)
{
    struct log_counts counts = {0};
    size_t whole, broken;
    char path[64], moved[80];

    (void)state;
    new_name(path);
    snprintf(moved, sizeof moved, "%s.1", path);
    kit_init(&kit);
    kit.options.record_fd = open_as_serve(path);
    kit_open(&kit);
    put_op(1, 100);
    while (counts.recorded < 1)
        log_get_counts(kit.log, &counts);
    assert_int_equal(rename(path, moved), 0);
    put_op(2, 100);
    while (counts.recorded < 2)
        log_get_counts(kit.log, &counts);
    read_all(moved);
    count_whole(text, &whole, &broken);
    assert_int_equal(whole, 2);
    assert_int_equal(truncate(moved, 0), 0);
    put_op(3, 100);
    kit_close(&kit);
    read_all(moved);
    count_whole(text, &whole, &broken);
    assert_int_equal(whole, 1);
    assert_int_equal(broken, 0);
    assert_int_equal(text[0], '{'); /* and no hole before it */
    unlink(moved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_disk_that_takes_nothing_costs_a_lane_and_no_more),
        cmocka_unit_test(a_full_disk_is_counted_and_ends_nothing),
        cmocka_unit_test(a_short_write_costs_its_line_and_not_the_next),
        cmocka_unit_test(a_file_that_is_rotated_loses_nothing_that_comes_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
