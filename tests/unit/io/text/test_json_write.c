/* test_json_write.c - what the JSON writer writes, and that it is read back as the same. */
#include "check.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draw.h"
#include "io/text/json_member.h"
#include "io/text/json_read.h"

static void expect_written(struct json_writer *out, const char *want)
{
    assert_false(out->text.failed);
    if (out->text.size != strlen(want) || memcmp(out->text.bytes, want, out->text.size) != 0)
        fail_msg("%.*s instead of %s", (int)out->text.size, out->text.bytes, want);
    json_writer_fini(out);
}

static void commas_come_by_themselves(void **state)
{
    struct json_writer out;

    (void)state;
    json_writer_init(&out);
    json_write_object(&out);
    json_write_key(&out, "a");
    json_write_array(&out);
    json_write_integer(&out, 1);
    json_write_object(&out);
    json_write_object_end(&out);
    json_write_array(&out);
    json_write_array_end(&out);
    json_write_null(&out);
    json_write_array_end(&out);
    json_write_key(&out, "b");
    json_write_bool(&out, true);
    json_write_key(&out, "c");
    json_write_bool(&out, false);
    json_write_key(&out, "d");
    json_write_raw(&out, "{ \"x\":1.50}", 11);
    json_write_object_end(&out);
    json_write_line_end(&out);
    json_write_array(&out);
    json_write_array_end(&out);
    json_write_line_end(&out);
    expect_written(&out, "{\"a\":[1,{},[],null],\"b\":true,\"c\":false,\"d\":{ \"x\":1.50}}\n[]\n");
}

static void members_have_their_key(void **state)
{
    struct json_writer out;

    (void)state;
    json_writer_init(&out);
    json_write_object(&out);
    json_member_text(&out, "text", "a");
    json_member_text(&out, "no_text", NULL);
    json_member_number(&out, "number", -1);
    json_member_real(&out, "real", 0.5);
    json_member_flag(&out, "flag", true);
    json_member_null(&out, "null");
    json_member_unless(&out, "known", 2, -1);
    json_member_unless(&out, "unknown", -1, -1);
    json_write_object_end(&out);
    expect_written(&out, "{\"text\":\"a\",\"no_text\":null,\"number\":-1,\"real\":0.5,"
                         "\"flag\":true,\"null\":null,\"known\":2,\"unknown\":null}");
}

static void clear_begins_anew(void **state)
{
    struct json_writer out;

    (void)state;
    json_writer_init(&out);
    json_write_integer(&out, 1);
    json_writer_clear(&out);
    json_write_integer(&out, 2);
    expect_written(&out, "2");
}

static void integers_to_the_edge(void **state)
{
    struct json_writer out;

    (void)state;
    json_writer_init(&out);
    json_write_array(&out);
    json_write_integer(&out, 0);
    json_write_integer(&out, -1);
    json_write_integer(&out, 10);
    json_write_integer(&out, TG_NUMBER_MAX);
    json_write_integer(&out, INT64_MAX);
    json_write_integer(&out, INT64_MIN);
    json_write_array_end(&out);
    expect_written(&out, "[0,-1,10,9007199254740991,9223372036854775807,-9223372036854775808]");
}

static void doubles_have_as_few_digits_as_do(void **state)
{
    static const struct {
        double value;
        const char *want;
    } rows[] = {
        {0, "0"},
        {-0.0, "-0.0"},
        {1, "1"},
        {0.1, "0.1"},
        {41.5, "41.5"},
        {1.0 / 3, "0.3333333333333333"},
        {1e22, "1e+22"},
        {0.1 + 0.2, "0.30000000000000004"},
        {5e-324, "4.94065645841247e-324"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {HUGE_VAL, "null"},
        {-HUGE_VAL, "null"},
        {NAN, "null"},
        {9007199254740991.0, "9007199254740991"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct json_writer out;
        json_writer_init(&out);
        json_write_double(&out, rows[i].value);
        expect_written(&out, rows[i].want);
    }
}

static void strings_are_escaped(void **state)
{
    static const char text[] = "a\"b\\c/\b\f\n\r\t\0\x1f\x7f\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
    struct json_writer out;

    (void)state;
    json_writer_init(&out);
    json_write_string(&out, text, sizeof text - 1);
    expect_written(&out, "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0000\\u001f\\u007f"
                         "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

static void what_is_not_utf8_is_replaced(void **state)
{
    static const char text[] = "\xff|\xc3|\xc0\xaf|\xed\xa0\x80|\xf0\x9f\x98";
    struct json_writer out;

    (void)state;
    json_writer_init(&out);
    json_write_string(&out, text, sizeof text - 1);
#define R "\xef\xbf\xbd"
    expect_written(&out, "\"" R "|" R "|" R R "|" R R R "|" R R R "\"");
#undef R
}

static void keys_are_escaped_too(void **state)
{
    struct json_writer out;

    (void)state;
    json_writer_init(&out);
    json_write_object(&out);
    json_write_key(&out, "a\"b");
    json_write_integer(&out, 1);
    json_write_object_end(&out);
    expect_written(&out, "{\"a\\\"b\":1}");
}

/* Any double that is written is read back as the same double. */
static void doubles_survive(void **state)
{
    struct draw draw = draw_stream(draw_seed("test_json_write"), 1);
    struct json_reader *reader = json_reader_new();
    struct json_writer out;

    (void)state;
    json_writer_init(&out);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = draw_bits(&draw);
        double value, back;
        struct json_value read;
        struct json_text key;

        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        json_writer_clear(&out);
        json_write_array(&out);
        json_write_double(&out, value);
        json_write_array_end(&out);
        json_begin(reader, out.text.bytes, out.text.size, out.text.size, &read);
        json_enter(reader);
        assert_true(json_next(reader, &key, &read));
        back = read.kind == JSON_INTEGER ? (double)read.integer : read.real;
        if (memcmp(&back, &value, sizeof value) != 0)
            fail_msg("%.17g came back as %.17g", value, back);
        assert_true(json_end(reader));
    }
    json_writer_fini(&out);
    json_reader_free(reader);
}

/* Any bytes that are written as a string are JSON, and those that are UTF-8 come back the same. */
static void strings_survive(void **state)
{
    struct draw draw = draw_stream(draw_seed("test_json_write"), 2);
    struct json_reader *reader = json_reader_new();
    struct json_writer out;

    (void)state;
    json_writer_init(&out);
    for (int i = 0; i < 20000; i++) {
        char text[24];
        struct json_value read;
        struct json_text key;
        bool ascii = draw_chance(&draw, 50);
        size_t size = (size_t)draw_between(&draw, 0, sizeof text);

        for (size_t j = 0; j < size; j++)
            text[j] = (char)draw_between(&draw, 0, ascii ? 127 : 255);
        json_writer_clear(&out);
        json_write_array(&out);
        json_write_string(&out, text, size);
        json_write_array_end(&out);
        json_begin(reader, out.text.bytes, out.text.size, out.text.size, &read);
        json_enter(reader);
        assert_true(json_next(reader, &key, &read));
        assert_int_equal(read.kind, JSON_STRING);
        if (ascii) {
            assert_int_equal(read.string.size, size);
            assert_memory_equal(read.string.bytes, text, size);
        }
        assert_true(json_end(reader));
    }
    json_writer_fini(&out);
    json_reader_free(reader);
}

static void bytes_of_escapes_are_counted(void **state)
{
    struct json_writer out;

    (void)state;
    json_writer_init(&out);
    json_write_array(&out);
    json_write_string(&out, "plain", 5);
    assert_int_equal(out.escapes, 0);
    json_write_string(&out, "\"\n\x01", 3); /* \" \n \u0001 */
    assert_int_equal(out.escapes, 1 + 1 + 5);
    json_writer_clear(&out);
    assert_int_equal(out.escapes, 0);
    json_writer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_escapes_are_counted),
        cmocka_unit_test(commas_come_by_themselves),
        cmocka_unit_test(members_have_their_key),
        cmocka_unit_test(clear_begins_anew),
        cmocka_unit_test(integers_to_the_edge),
        cmocka_unit_test(doubles_have_as_few_digits_as_do),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(what_is_not_utf8_is_replaced),
        cmocka_unit_test(keys_are_escaped_too),
        cmocka_unit_test(doubles_survive),
        cmocka_unit_test(strings_survive),
    };

    return cmocka_run_group_tests_name("json_write", tests, NULL, NULL);
}
