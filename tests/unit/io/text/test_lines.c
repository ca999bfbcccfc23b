/* test_lines.c - lines come whole, whatever pieces they arrive in. */
#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/text/json_read.h"
#include "io/text/lines.h"

/* An open file that holds `text`. */
static int file_with(const char *text, size_t bytes)
{
    FILE *file = tmpfile();

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fflush(file), 0);
    int fd = dup(fileno(file));
    fclose(file);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static void expect_line(struct lines *lines, const char *want)
{
    struct line line;

    assert_int_equal(lines_next(lines, &line), LINES_LINE);
    assert_int_equal(line.bytes, strlen(want));
    assert_memory_equal(line.text, want, line.bytes);
    assert_true(line.readable >= line.bytes + JSON_PADDING);
}

static void last_line_may_lack_its_newline(void **state)
{
    static const char *const texts[] = {"a\n\nbc\n", "a\n\nbc"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        int fd = file_with(texts[i], strlen(texts[i]));
        struct lines lines;
        struct line line;

        lines_init(&lines, fd);
        expect_line(&lines, "a");
        expect_line(&lines, "");
        expect_line(&lines, "bc");
        assert_int_equal(lines.number, 3);
        assert_int_equal(lines_next(&lines, &line), LINES_END);
        assert_int_equal(lines_next(&lines, &line), LINES_END);
        lines_fini(&lines);
        close(fd);
    }
}

static void empty_file_has_no_line(void **state)
{
    int fd = file_with("", 0);
    struct lines lines;
    struct line line;

    (void)state;
    lines_init(&lines, fd);
    assert_int_equal(lines_next(&lines, &line), LINES_END);
    lines_fini(&lines);
    close(fd);
}

static void pieces_of_a_pipe_become_lines(void **state)
{
    int ends[2];
    struct lines lines;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    lines_init(&lines, ends[0]);
    assert_false(lines_ready(&lines));
    assert_int_equal(write(ends[1], "one\ntwo\nthr", 11), 11);
    expect_line(&lines, "one");
    assert_true(lines_ready(&lines));
    expect_line(&lines, "two");
    assert_false(lines_ready(&lines));
    assert_int_equal(write(ends[1], "ee\n", 3), 3);
    expect_line(&lines, "three");
    assert_int_equal(write(ends[1], "end", 3), 3);
    close(ends[1]);
    expect_line(&lines, "end");
    assert_true(lines_ready(&lines));
    lines_fini(&lines);
    close(ends[0]);
}

/* Lines of all lengths around the size of the buffer, filled so that a mix-up shows. */
static void long_lines_are_whole(void **state)
{
    static const size_t lengths[] = {1, 100000, 262143, 262144, 262145, 7, 0,
                                     524288, 900000, 3, 262080, 262144};
    size_t total = 0, at = 0;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(lengths); i++)
        total += lengths[i] + 1;
    char *text = malloc(total);
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        memset(text + at, 'a' + (int)i, lengths[i]);
        at += lengths[i];
        text[at++] = '\n';
    }
    int fd = file_with(text, total);
    struct lines lines;
    struct line line;

    lines_init(&lines, fd);
    at = 0;
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        assert_int_equal(lines_next(&lines, &line), LINES_LINE);
        assert_int_equal(line.bytes, lengths[i]);
        assert_memory_equal(line.text, text + at, line.bytes);
        at += lengths[i] + 1;
    }
    assert_int_equal(lines_next(&lines, &line), LINES_END);
    lines_fini(&lines);
    close(fd);
    free(text);
}

static void line_above_the_bound_is_refused(void **state)
{
    char *text = malloc(LINES_BYTES_MAX + 3);

    (void)state;
    for (size_t more = 0; more < 2; more++) {
        size_t bytes = LINES_BYTES_MAX + more;
        memset(text, 'x', bytes);
        text[bytes] = '\n';
        text[bytes + 1] = 'y';
        int fd = file_with(text, bytes + 2);
        struct lines lines;
        struct line line;

        lines_init(&lines, fd);
        assert_int_equal(lines_next(&lines, &line), more == 0 ? LINES_LINE : LINES_TOO_LONG);
        assert_int_equal(lines.number, 1);
        lines_fini(&lines);
        close(fd);
    }
    free(text);
}

static void unreadable_says_why(void **state)
{
    struct lines lines;
    struct line line;

    (void)state;
    lines_init(&lines, -1);
    assert_int_equal(lines_next(&lines, &line), LINES_UNREADABLE);
    assert_int_equal(errno, EBADF);
    lines_fini(&lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_line_may_lack_its_newline),
        cmocka_unit_test(empty_file_has_no_line),
        cmocka_unit_test(pieces_of_a_pipe_become_lines),
        cmocka_unit_test(long_lines_are_whole),
        cmocka_unit_test(line_above_the_bound_is_refused),
        cmocka_unit_test(unreadable_says_why),
    };

    return cmocka_run_group_tests_name("lines", tests, NULL, NULL);
}
