/* test_log_line.c - a line of a log: whole, bounded, and safe to print. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "io/text/json_read.h"
#include "server/obs/log_line.h"

static void expect_line(struct log_line *line, const char *want)
{
    log_line_end(line);
    assert_true(line->out.size < LOG_LINE_MAX);
    line->out.bytes[line->out.size] = 0;
    assert_string_equal(line->out.bytes, want);
}

static void fill(struct log_line *line, bool json)
{
    log_line_begin(line, json, 1700000000120, SLICE("warn"), SLICE("two words"));
    log_line_text(line, FIELD("tenant"), SLICE("team a"));
    log_line_text(line, FIELD("empty"), SLICE(""));
    log_line_text(line, FIELD("user"), SLICE("u\"1\"\n\x7f\xff"));
    log_line_text(line, FIELD("equal"), SLICE("a=b"));
    log_line_text(line, FIELD("accent"), SLICE("\xc3\xa9"));
    log_line_word(line, FIELD("reason"), "rate");
    log_line_word(line, FIELD("none"), NULL);
    log_line_number(line, FIELD("status"), 200);
    log_line_number(line, FIELD("unknown"), -1);
    log_line_integer(line, FIELD("below"), INT64_MIN);
    log_line_raw(line, FIELD("stream"), SLICE("true"));
    log_line_id(line, FIELD("id"), 0xabc);
    log_line_hex(line, FIELD("trace"), (const uint8_t[]){0x0f, 0xa0}, 2);
}

static void as_json_it_is_one_object(void **state)
{
    struct log_line line;

    (void)state;
    fill(&line, true);
    expect_line(&line, "{\"time\":\"2023-11-14T22:13:20.120Z\",\"level\":\"warn\","
                       "\"msg\":\"two words\",\"tenant\":\"team a\","
                       "\"user\":\"u\\\"1\\\"\\u000a\\u007f\xef\xbf\xbd\",\"equal\":\"a=b\","
                       "\"accent\":\"\xc3\xa9\",\"reason\":\"rate\",\"status\":200,"
                       "\"below\":-9223372036854775808,\"stream\":true,"
                       "\"id\":\"req_0000000000000abc\",\"trace\":\"0fa0\"}\n");
}

static void as_text_it_quotes_what_is_no_word(void **state)
{
    struct log_line line;

    (void)state;
    fill(&line, false);
    expect_line(&line,
                "time=2023-11-14T22:13:20.120Z level=warn msg=\"two words\" tenant=\"team a\" "
                "user=\"u\\\"1\\\"\\u000a\\u007f\xef\xbf\xbd\" equal=\"a=b\" accent=\"\xc3\xa9\" "
                "reason=rate status=200 below=-9223372036854775808 stream=true "
                "id=req_0000000000000abc trace=0fa0\n");
}

static void a_line_without_fields_is_a_line(void **state)
{
    struct log_line line;

    (void)state;
    log_line_init(&line, true);
    expect_line(&line, "{}\n");
    log_line_init(&line, false);
    expect_line(&line, "\n");
}

static void dates_are_those_of_the_calendar(void **state)
{
    static const struct {
        tg_ms at;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {-1, "1970-01-01T00:00:00.000Z"},
        {951782399999, "2000-02-28T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {951868800000, "2000-03-01T00:00:00.000Z"},
        {1709164800000, "2024-02-29T00:00:00.000Z"},
        {4107542399001, "2100-02-28T23:59:59.001Z"},
        {4107542400000, "2100-03-01T00:00:00.000Z"},
        {1798761599000, "2026-12-31T23:59:59.000Z"},
        {253402300799999, "9999-12-31T23:59:59.999Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
    };
    char text[LOG_DATE_BYTES + 1] = "";

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        log_date(rows[i].at, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void digits_are_those_of_the_number(void **state)
{
    char text[TEXT_DIGITS_MAX + 1], want[32];

    (void)state;
    for (uint64_t n = 1, i = 0; i < 60; i++, n = n * 3 + i % 2) {
        size_t bytes = text_digits(n, text);
        text[bytes] = 0;
        snprintf(want, sizeof want, "%llu", (unsigned long long)n);
        assert_string_equal(text, want);
    }
    text[text_digits(0, text)] = 0;
    assert_string_equal(text, "0");
    text[text_digits(UINT64_MAX, text)] = 0;
    assert_string_equal(text, "18446744073709551615");
}

/* However much is put in. */
static void the_fullest_line_is_still_whole(void **state)
{
    struct json_reader *reader = json_reader_new();
    struct json_value root;
    struct log_line line;
    char hard[2000];

    (void)state;
    memset(hard, '\x01', sizeof hard);
    for (int json = 0; json < 2; json++) {
        log_line_begin(&line, json, INT64_MAX, SLICE("info"), SLICE("request"));
        for (int i = 0; i < 200; i++) {
            log_line_text(&line, FIELD("t"), (struct slice){hard, sizeof hard});
            log_line_number(&line, FIELD("n"), INT64_MAX);
            log_line_id(&line, FIELD("id"), UINT64_MAX);
        }
        log_line_end(&line);
        assert_true(line.out.size > LOG_LINE_MAX - 100 && line.out.size <= LOG_LINE_MAX);
        assert_int_equal(line.out.bytes[line.out.size - 1], '\n');
        assert_null(memchr(line.out.bytes, '\n', line.out.size - 1));
        assert_null(memchr(line.out.bytes, '\x01', line.out.size));
    }
    log_line_begin(&line, true, 0, SLICE("info"), SLICE("request"));
    char name[3] = "aa";
    for (int i = 0; i < 400; i++) { /* names of their own: a key that comes twice is an error */
        name[0] = (char)('a' + i / 26);
        name[1] = (char)('a' + i % 26);
        log_line_text(&line, slice_of(name), (struct slice){hard, (size_t)i});
    }
    log_line_end(&line);
    json_begin(reader, line.out.bytes, line.out.size, line.out.size, &root);
    assert_true(json_end(reader));
    json_reader_free(reader);
}

/* A name that was cut is cut between characters, and those after it have their part. */
static void texts_share_what_there_is(void **state)
{
    struct log_line line;
    char many[3000];

    (void)state;
    for (size_t i = 0; i < sizeof many; i += 2)
        memcpy(many + i, "\xc3\xa9", 2);
    log_line_init(&line, true);
    for (int i = 0; i < 20; i++)
        log_line_text(&line, FIELD("a"), (struct slice){many, sizeof many});
    log_line_number(&line, FIELD("last"), 7);
    log_line_end(&line);
    line.out.bytes[line.out.size] = 0;
    assert_non_null(strstr(line.out.bytes, "\"last\":7}"));
    assert_true(line.out.size < LOG_TEXTS_MAX + 20 * (LOG_TEXT_LEAST + 8) + LOG_TEXT_MAX);
    assert_null(strstr(line.out.bytes, "\xef\xbf\xbd"));
    assert_null(strstr(line.out.bytes, "\xc3\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_json_it_is_one_object),
        cmocka_unit_test(as_text_it_quotes_what_is_no_word),
        cmocka_unit_test(a_line_without_fields_is_a_line),
        cmocka_unit_test(dates_are_those_of_the_calendar),
        cmocka_unit_test(digits_are_those_of_the_number),
        cmocka_unit_test(the_fullest_line_is_still_whole),
        cmocka_unit_test(texts_share_what_there_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
