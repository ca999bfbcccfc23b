/* test_json_read.c - what the JSON reader accepts, refuses, and says about it. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/json_read.h"

static int setup(void **state)
{
    *state = json_reader_new();
    return *state == NULL;
}

static int teardown(void **state)
{
    json_reader_free(*state);
    return 0;
}

/* Begins with a copy that ends where the text ends, so that a sanitizer sees what is read behind.
 */
static bool begin(struct json_reader *reader, const char *text, size_t bytes,
                  struct json_value *root)
{
    char *exact = malloc(bytes);
    if (bytes > 0)
        memcpy(exact, text, bytes);
    bool good = json_begin(reader, exact, bytes, bytes, root);
    free(exact);
    return good;
}

/* Reads a document, entering everything or nothing. */
static bool good(struct json_reader *reader, const char *text, size_t bytes, bool enter)
{
    struct json_value value;
    struct json_text key;
    int depth = 0;

    begin(reader, text, bytes, &value);
    if (enter && json_enter(reader))
        for (depth = 1; depth > 0;) {
            if (!json_next(reader, &key, &value))
                depth--;
            else if ((value.kind == JSON_OBJECT || value.kind == JSON_ARRAY) && json_enter(reader))
                depth++;
        }
    return json_end(reader);
}

static void expect_good(struct json_reader *reader, const char *text)
{
    for (int enter = 0; enter < 2; enter++)
        if (!good(reader, text, strlen(text), enter))
            fail_msg("%s: %s", text, json_reader_problem(reader)->text);
    assert_null(json_reader_problem(reader));
}

/* Refused whether it is entered or passed over, with these words and at this byte. */
static void expect_bad(struct json_reader *reader, const char *text, size_t bytes,
                       const char *words, size_t offset)
{
    for (int enter = 0; enter < 2; enter++) {
        if (good(reader, text, bytes, enter))
            fail_msg("accepted: %s", text);
        const struct json_problem *problem = json_reader_problem(reader);
        if (strstr(problem->text, words) == NULL || problem->offset != offset)
            fail_msg("%s: \"%s\" at %zu instead of \"%s\" at %zu", text, problem->text,
                     problem->offset, words, offset);
    }
}

/* The value of the only field of an object. */
static struct json_value only_value(struct json_reader *reader, const char *number)
{
    char text[200];
    struct json_value value;
    struct json_text key;

    snprintf(text, sizeof text, "{\"a\":%s}", number);
    begin(reader, text, strlen(text), &value);
    json_enter(reader);
    if (!json_next(reader, &key, &value))
        fail_msg("%s: %s", text, json_reader_problem(reader)->text);
    assert_true(json_text_is(key, "a"));
    return value;
}

static void fields_come_in_order(void **state)
{
    static const char text[] = " {\"n\":null,\"b\":true,\"i\":-7,"
                               "\"d\":2.5,\"s\":\"x\",\"o\":{},\"a\":[]} ";
    static const enum json_kind kinds[] = {JSON_NULL, JSON_BOOL, JSON_INTEGER, JSON_DOUBLE,
                                           JSON_STRING, JSON_OBJECT, JSON_ARRAY};
    struct json_reader *reader = *state;
    struct json_value value;
    struct json_text key;

    assert_true(begin(reader, text, strlen(text), &value));
    assert_int_equal(value.kind, JSON_OBJECT);
    assert_int_equal(value.offset, 1);
    assert_true(json_enter(reader));
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        assert_true(json_next(reader, &key, &value));
        assert_int_equal(key.size, 1);
        assert_int_equal(key.bytes[0], "nbidsoa"[i]);
        assert_int_equal(value.kind, kinds[i]);
        if (kinds[i] == JSON_BOOL)
            assert_true(value.boolean);
        if (kinds[i] == JSON_INTEGER)
            assert_int_equal(value.integer, -7);
        if (kinds[i] == JSON_DOUBLE)
            assert_true(value.real == 2.5);
        if (kinds[i] == JSON_STRING)
            assert_true(json_text_is(value.string, "x"));
    }
    assert_false(json_next(reader, &key, &value));
    assert_false(json_next(reader, &key, &value));
    assert_true(json_end(reader));
}

/* Numbers too, of which simdjson tells where they begin. */
static void here_is_behind_what_was_read(void **state)
{
    static const char *const texts[] = {"null", "true", "-7", "2.5", "0", "1e400", "\"x\""};
    struct json_reader *reader = *state;
    struct json_value value;
    struct json_text key;
    char text[64];

    for (size_t i = 0; i < COUNT_OF(texts); i++)
        for (int blanks = 0; blanks < 3; blanks++) {
            int n = snprintf(text, sizeof text, "{\"a\": %s%*s,\"b\":0}", texts[i], blanks, "");
            assert_true(begin(reader, text, (size_t)n, &value) && json_enter(reader));
            assert_true(json_next(reader, &key, &value));
            assert_int_equal(json_here(reader), strchr(text, ',') - text);
            assert_true(json_next(reader, &key, &value));
            assert_int_equal(json_here(reader), n - 1);
            assert_true(json_end(reader));
        }
}

/* What a gateway wants of a call: some fields of the root, and some of one object in it. */
static void nested_fields_are_reached(void **state)
{
    static const char text[] = "{\"messages\":[{\"role\":\"user\",\"content\":[1,{\"x\":[]}]}],"
                               "\"usage\":{\"in\":3,\"more\":{\"in\":9},\"out\":[4,5]},\"max\":16}";
    struct json_reader *reader = *state;
    struct json_value value;
    struct json_text key;
    int64_t in = 0, out = 0, max = 0;

    begin(reader, text, strlen(text), &value);
    json_enter(reader);
    while (json_next(reader, &key, &value)) {
        if (json_text_is(key, "max"))
            max = value.integer;
        if (!json_text_is(key, "usage"))
            continue;
        json_enter(reader);
        while (json_next(reader, &key, &value)) {
            if (json_text_is(key, "in"))
                in = value.integer;
            if (!json_text_is(key, "out"))
                continue;
            json_enter(reader);
            while (json_next(reader, &key, &value))
                out += value.integer;
        }
    }
    assert_true(json_end(reader));
    assert_int_equal(in, 3);
    assert_int_equal(out, 9);
    assert_int_equal(max, 16);
}

static void leaving_early_goes_on_behind(void **state)
{
    static const char text[] = "[[1,[2,3],4],5]";
    struct json_reader *reader = *state;
    struct json_value value;
    struct json_text key;

    begin(reader, text, strlen(text), &value);
    json_enter(reader);
    json_next(reader, &key, &value);
    json_enter(reader);
    json_next(reader, &key, &value);
    assert_int_equal(value.integer, 1);
    assert_int_equal(key.size, 0);
    assert_true(json_leave(reader));
    assert_true(json_next(reader, &key, &value));
    assert_int_equal(value.integer, 5);
    assert_true(json_end(reader));
}

static void numbers_are_exact_or_huge(void **state)
{
    static const struct {
        const char *text;
        enum json_kind kind;
        int64_t integer;
        double real;
    } rows[] = {
        {"0", JSON_INTEGER, 0, 0},
        {"-0", JSON_INTEGER, 0, 0},
        {"9007199254740991", JSON_INTEGER, 9007199254740991, 0},
        {"9007199254740992", JSON_INTEGER, 9007199254740992, 0},
        {"9007199254740993", JSON_INTEGER, 9007199254740993, 0},
        {"9223372036854775807", JSON_INTEGER, INT64_MAX, 0},
        {"-9223372036854775808", JSON_INTEGER, INT64_MIN, 0},
        {"9223372036854775808", JSON_HUGE, 0, 0},
        {"-9223372036854775809", JSON_HUGE, 0, 0},
        {"18446744073709551615", JSON_HUGE, 0, 0},
        {"18446744073709551616", JSON_HUGE, 0, 0},
        {"100000000000000000000000000000000000000000", JSON_HUGE, 0, 0},
        {"1e3", JSON_DOUBLE, 0, 1000},
        {"9007199254740991.0", JSON_DOUBLE, 0, 9007199254740991.0},
        {"-1.5E-2", JSON_DOUBLE, 0, -0.015},
        {"0.1", JSON_DOUBLE, 0, 0.1},
        {"1.7976931348623157e308", JSON_DOUBLE, 0, 1.7976931348623157e308},
        {"5e-324", JSON_DOUBLE, 0, 5e-324},
        {"1e-999", JSON_DOUBLE, 0, 0},
        {"1e309", JSON_HUGE, 0, 0},
        {"-1e999999999999999999999", JSON_HUGE, 0, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct json_value value = only_value(*state, rows[i].text);
        if (value.kind != rows[i].kind)
            fail_msg("%s is %s", rows[i].text, json_kind_name(value.kind));
        if (value.kind == JSON_INTEGER)
            assert_true(value.integer == rows[i].integer);
        if (value.kind == JSON_DOUBLE)
            assert_true(value.real == rows[i].real);
        assert_true(json_end(*state));
    }
}

static void strings_are_unescaped(void **state)
{
    struct json_value value =
        only_value(*state, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t"
                           "\\u0041\\u00e9\\ud83d\\ude00\\u0000\xc3\xa9\"");
    static const char want[] = "\"\\/\b\f\n\r\tA\xc3\xa9\xf0\x9f\x98\x80\0\xc3\xa9";

    assert_int_equal(value.kind, JSON_STRING);
    assert_int_equal(value.string.size, sizeof want - 1);
    assert_memory_equal(value.string.bytes, want, sizeof want - 1);
}

static void well_formed_is_accepted(void **state)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        " [ ] ",
        "{\"\":\"\"}",
        "[[],{},[[]]]",
        "[1,2,3]\r\n",
        "\t{\"a\":[{\"b\":{}}]}\n",
        "[1e5,-0.0,true,false,null,\"\"]",
        "{\"a\":{\"k\":1},\"b\":{\"k\":1}}",
        "[\"\x7f\xc2\x80\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"]",
    };

    for (size_t i = 0; i < COUNT_OF(texts); i++)
        expect_good(*state, texts[i]);
}

static void broken_is_refused_with_its_place(void **state)
{
    static const struct {
        const char *text;
        const char *words;
        size_t offset;
    } rows[] = {
        {"", "no JSON", 0},
        {"  ", "no JSON", 0},
        {"1", "neither", 0},
        {" \"a\"", "neither", 1},
        {"null", "neither", 0},
        {"}", "neither", 0},
        {"{", "the end is not the end", 1},
        {"[1,2}", "the end is not the end", 5},
        {"{\"a\":1}}", "follows", 7},
        {"{\"a\":1} {\"a\":1}", "follows", 8},
        {"[1] [2]", "follows", 4},
        {"{\"a\":1} x", "the end is not the end", 9},
        {"[1 2]", "not well-formed", 3},
        {"[1,]", "value is missing", 3},
        {"[,1]", "value is missing", 1},
        {"{\"a\":}", "value is missing", 5},
        {"{\"a\" 1}", "not well-formed", 5},
        {"{a:1}", "not well-formed", 1},
        {"{\"a\":1,}", "not well-formed", 7},
        {"[tru]", "not a value", 1},
        {"[truex]", "not a value", 1},
        {"[nul]", "not a value", 1},
        {"[NaN]", "value is missing", 1},
        {"[01]", "not a number", 1},
        {"[1.]", "not a number", 1},
        {"[.5]", "value is missing", 1},
        {"[+1]", "value is missing", 1},
        {"[-]", "not a number", 1},
        {"[1e]", "not a number", 1},
        {"[0x10]", "not a number", 1},
        {"[1a]", "not a number", 1},
        {"[\"a]", "not closed", 4},
        {"[\"a\nb\"]", "control character", 7},
        {"[\"\\q\"]", "escape", 1},
        {"[\"\\u12g4\"]", "escape", 1},
        {"[\"\\ud800\"]", "escape", 1},
        {"{\"\\q\":1}", "escape", 1},
        {"[\"\xff\"]", "not UTF-8", 2},
        {"[\"abc\xc3\"]", "not UTF-8", 5},
        {"[\"\xc0\xaf\"]", "not UTF-8", 2},
        {"[\"\xed\xa0\x80\"]", "not UTF-8", 2},
        {"[\"\xf4\x90\x80\x80\"]", "not UTF-8", 2},
        {"\xef\xbb\xbf[]", "neither", 0},
        {"[1]//x", "the end is not the end", 6},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        expect_bad(*state, rows[i].text, strlen(rows[i].text), rows[i].words, rows[i].offset);
    expect_bad(*state, "[1]\0", 4, "the end is not the end", 4);
}

static void key_twice_is_refused(void **state)
{
    struct json_reader *reader = *state;

    assert_false(good(reader, "{\"a\":1,\"b\":2,\"a\":1}", 19, true));
    assert_string_equal(json_reader_problem(reader)->text, "the key \"a\" comes twice");
    assert_int_equal(json_reader_problem(reader)->offset, 13);
    assert_false(good(reader, "{\"a\":1,\"\\u0061\":2}", 18, true));
    assert_int_equal(json_reader_problem(reader)->offset, 7);
    assert_false(good(reader, "{\"x\":[{\"a\":1,\"a\":1}]}", 21, true));
    assert_false(good(reader, "{\"\":1,\"\":1}", 11, true));
    assert_false(good(reader, "{\"\\n\":1,\"\\n\":1}", 15, true));
    assert_string_equal(json_reader_problem(reader)->text, "a key comes twice");
    /* Nobody looked into it. */
    assert_true(good(reader, "{\"x\":{\"a\":1,\"a\":1}}", 19, false));
    /* The same key in another object, or in the document before, is another key. */
    assert_true(good(reader, "[{\"a\":1},{\"a\":{\"a\":{}}},{\"a\":1}]", 32, true));
    assert_true(good(reader, "[{\"a\":1},{\"a\":{\"a\":{}}},{\"a\":1}]", 32, true));
}

static void many_keys_are_all_watched(void **state)
{
    enum { KEYS = 5000 };
    size_t size = 0;
    char *text = malloc((size_t)KEYS * 16 + 32);

    text[size++] = '{';
    for (int i = 0; i < KEYS; i++)
        size += (size_t)sprintf(text + size, "\"k%d\":%d,", i, i);
    size_t last = size;
    size += (size_t)sprintf(text + size, "\"z\":0}");
    assert_true(good(*state, text, size, true));
    size = last + (size_t)sprintf(text + last, "\"k77\":0}");
    assert_false(good(*state, text, size, true));
    struct json_reader *reader = *state;
    assert_string_equal(json_reader_problem(reader)->text, "the key \"k77\" comes twice");
    assert_int_equal(json_reader_problem(reader)->offset, last);
    free(text);
}

static void nesting_has_an_end(void **state)
{
    enum { DEEPEST = 100000 };
    char *text = malloc((size_t)DEEPEST * 2);
    struct json_reader *reader = *state;

    for (size_t depth = JSON_DEPTH_MAX; depth <= DEEPEST; depth = depth * 2 + 1) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        for (int enter = 0; enter < 2; enter++) {
            assert_int_equal(good(reader, text, 2 * depth, enter), depth <= JSON_DEPTH_MAX);
            if (depth <= JSON_DEPTH_MAX)
                continue;
            assert_string_equal(json_reader_problem(reader)->text, "nested too deep");
            assert_int_equal(json_reader_problem(reader)->offset, JSON_DEPTH_MAX);
        }
        /* Without its end it is no better. */
        assert_false(good(reader, text, depth, true));
    }
    free(text);
}

static void cut_at_every_byte_is_refused(void **state)
{
    static const char text[] = "{\"t\":1000,\"key\":\"\xc3\xa9\\u00e9\\n\","
                               "\"cost\":1.5e1,\"x\":[true,null,{\"y\":{}}]}";
    struct json_reader *reader = *state;

    expect_good(reader, text);
    for (size_t bytes = 0; bytes < sizeof text - 1; bytes++)
        for (int enter = 0; enter < 2; enter++) {
            if (good(reader, text, bytes, enter))
                fail_msg("accepted: %.*s", (int)bytes, text);
            assert_true(json_reader_problem(reader)->offset <= bytes);
        }
    /* An error leaves nothing behind. */
    expect_good(reader, text);
}

/* In place, the bytes behind the document must not become part of it. */
static void what_is_behind_does_not_matter(void **state)
{
    static const char *const texts[] = {"{\"a\":1}", "{\"a\":{\"b\":12}", "[1,2",
                                        "[1,[2]", "{\"a\":\"x\"", "[1"};
    static const char behind[] = "}]\"0,:e\n\\";
    struct json_reader *reader = *state;

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        size_t bytes = strlen(texts[i]);
        bool want = good(reader, texts[i], bytes, false);
        char problem[120] = "";
        if (!want)
            strcpy(problem, json_reader_problem(reader)->text);
        for (size_t j = 0; j < sizeof behind; j++) {
            char text[100 + JSON_PADDING];
            struct json_value root;
            memset(text, behind[j], sizeof text);
            memcpy(text, texts[i], bytes);
            json_begin(reader, text, bytes, bytes + JSON_PADDING, &root);
            assert_int_equal(json_end(reader), want);
            if (!want)
                assert_string_equal(json_reader_problem(reader)->text, problem);
        }
    }
}

static void first_error_stays(void **state)
{
    struct json_reader *reader = *state;
    struct json_value value;
    struct json_text key;

    begin(reader, "[1,x,2]", 7, &value);
    json_enter(reader);
    assert_true(json_next(reader, &key, &value));
    assert_false(json_next(reader, &key, &value));
    assert_false(json_next(reader, &key, &value));
    assert_false(json_enter(reader));
    assert_false(json_leave(reader));
    assert_false(json_end(reader));
    assert_int_equal(json_reader_problem(reader)->offset, 3);
}

static void reader_without_document_has_nothing(void **state)
{
    struct json_reader *reader = json_reader_new();
    struct json_value value;
    struct json_text key;

    (void)state;
    assert_false(json_enter(reader));
    assert_false(json_next(reader, &key, &value));
    assert_false(json_end(reader));
    json_reader_free(reader);
    json_reader_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_come_in_order),
        cmocka_unit_test(here_is_behind_what_was_read),
        cmocka_unit_test(nested_fields_are_reached),
        cmocka_unit_test(leaving_early_goes_on_behind),
        cmocka_unit_test(numbers_are_exact_or_huge),
        cmocka_unit_test(strings_are_unescaped),
        cmocka_unit_test(well_formed_is_accepted),
        cmocka_unit_test(broken_is_refused_with_its_place),
        cmocka_unit_test(key_twice_is_refused),
        cmocka_unit_test(many_keys_are_all_watched),
        cmocka_unit_test(nesting_has_an_end),
        cmocka_unit_test(cut_at_every_byte_is_refused),
        cmocka_unit_test(what_is_behind_does_not_matter),
        cmocka_unit_test(first_error_stays),
        cmocka_unit_test(reader_without_document_has_nothing),
    };

    return cmocka_run_group_tests_name("json_read", tests, setup, teardown);
}
