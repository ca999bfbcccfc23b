/* test_text_out.c - what src/io/text/text_out.c promises: all of it, or its beginning. */
#include <string.h>

#include "check.h"
#include "draw.h"
#include "failing_malloc.h"
#include "io/text/text_out.h"

#define expect_text(out, want)                                   \
    do {                                                         \
        assert_int_equal((out)->size, strlen(want));             \
        assert_memory_equal((out)->bytes, (want), strlen(want)); \
    } while (0)

static void pieces_follow_each_other(void **state)
{
    static const uint8_t bytes[] = {0x00, 0x7f, 0xf0};
    struct text_out out = {0};
    (void)state;

    text_out_text(&out, "a");
    text_out_char(&out, ' ');
    text_out_slice(&out, SLICE("slice"));
    text_out_put(&out, NULL, 0);
    text_out_number(&out, -12);
    text_out_hex(&out, bytes, sizeof bytes);
    text_out_format(&out, " %d %s", 5, "five");
    expect_text(&out, "a slice-12007ff0 5 five");
    assert_false(out.failed);
    text_out_clear(&out);
    assert_true(out.size == 0 && out.capacity > 0);
    text_out_fini(&out);
    assert_true(out.bytes == NULL && out.capacity == 0);
}

static void numbers_to_the_edge(void **state)
{
    static const struct {
        int64_t number;
        const char *want;
    } rows[] = {{0, "0"},
                {9, "9"},
                {10, "10"},
                {99, "99"},
                {100, "100"},
                {-1, "-1"},
                {12345, "12345"},
                {INT64_MAX, "9223372036854775807"},
                {INT64_MIN, "-9223372036854775808"}};
    char digits[TEXT_DIGITS_MAX];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct text_out out = {0};
        text_out_number(&out, rows[i].number);
        expect_text(&out, rows[i].want);
        text_out_fini(&out);
    }
    assert_int_equal(text_digits(UINT64_MAX, digits), 20);
    assert_memory_equal(digits, "18446744073709551615", 20);
}

/* What does not fit is left out whole, and what follows it, too, however short. */
static void a_fixed_buffer_holds_the_beginning(void **state)
{
    char room[8];
    struct text_out out;
    (void)state;

    text_out_fixed(&out, room, sizeof room);
    text_out_text(&out, "12345");
    text_out_text(&out, "6789");
    assert_true(out.failed);
    text_out_char(&out, 'x');
    expect_text(&out, "12345");
    text_out_clear(&out);
    text_out_text(&out, "12345678");
    assert_false(out.failed);
    expect_text(&out, "12345678");
    text_out_clear(&out);
    text_out_format(&out, "%d", 1234567);
    assert_false(out.failed);
    text_out_clear(&out);
    text_out_format(&out, "%d", 12345678); /* its 0 has no room */
    assert_true(out.failed && out.size == 0);
    text_out_clear(&out);
    text_out_hex(&out, (const uint8_t *)"12345", 5);
    assert_true(out.failed && out.size == 0);
    text_out_fini(&out);
}

static void control_characters_have_two_forms(void **state)
{
    static const char text[] = "a\"\\\b\f\n\r\t\x01\x7f\xc3\xa9\xff";
    struct text_out out = {0};
    (void)state;

    text_out_json(&out, (struct slice){text, sizeof text - 1});
    expect_text(&out,
                "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u007f\xc3\xa9\xef\xbf\xbd\"");
    text_out_clear(&out);
    text_out_json_cut(&out, (struct slice){text, sizeof text - 1}, 100);
    expect_text(&out, "\"a\\\"\\\\\\u0008\\u000c\\u000a\\u000d\\u0009\\u0001\\u007f"
                      "\xc3\xa9\xef\xbf\xbd\"");
    text_out_clear(&out);
    text_out_json(&out, (struct slice){"\0", 1});
    text_out_json(&out, SLICE(""));
    expect_text(&out, "\"\\u0000\"\"\"");
    text_out_fini(&out);
}

static void a_string_is_cut_between_characters_and_closed(void **state)
{
    static const struct {
        const char *text;
        size_t max;
        const char *want;
    } rows[] = {
        {"abc", 2, "\"\""},
        {"abc", 4, "\"ab\""},
        {"abc", 5, "\"abc\""},
        {"a\nb", 8, "\"a\""},
        {"a\nb", 9, "\"a\\u000a\""},
        {"a\xc3\xa9", 4, "\"a\""},
        {"a\xc3\xa9", 5, "\"a\xc3\xa9\""},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char room[16];
        struct text_out fixed, grows = {0};
        text_out_json_cut(&grows, slice_of(rows[i].text), rows[i].max);
        expect_text(&grows, rows[i].want);
        text_out_fixed(&fixed, room, rows[i].max);
        text_out_json_cut(&fixed, slice_of(rows[i].text), 100);
        expect_text(&fixed, rows[i].want);
        assert_false(fixed.failed);
        text_out_fini(&grows);
    }
    char one[1];
    struct text_out out;
    text_out_fixed(&out, one, 1);
    text_out_json_cut(&out, SLICE("a"), 10);
    assert_true(out.failed && out.size == 0);
}

/* A growing text is what plain memory would hold; a fixed one is the beginning of it. */
static void any_pieces_in_any_buffer(void **state)
{
    struct draw draw = draw_stream(draw_seed("test_text_out"), 0);
    (void)state;

    for (int round = 0; round < 300; round++) {
        char model[4096], room[4096], piece[40];
        size_t n = 0, capacity = (size_t)draw_between(&draw, 0, sizeof room);
        struct text_out grows = {0}, fixed;
        text_out_fixed(&fixed, room, capacity);
        for (int i = 0; i < 100; i++) {
            size_t more = (size_t)draw_between(&draw, 0, sizeof piece);
            memset(piece, (int)draw_between(&draw, 'a', 'z'), more);
            text_out_put(&grows, piece, more);
            text_out_put(&fixed, piece, more);
            memcpy(model + n, piece, more);
            n += more;
        }
        assert_int_equal(grows.size, n);
        assert_memory_equal(grows.bytes, model, n);
        assert_true(fixed.failed == (n > capacity));
        assert_true(fixed.size <= capacity && (fixed.size == n || fixed.failed));
        assert_memory_equal(fixed.bytes, model, fixed.size);
        text_out_fini(&grows);
    }
}

static long write_once(long nth)
{
    struct text_out out = {0};

    fail_at(nth);
    for (int i = 0; i < 400; i++)
        text_out_json(&out, SLICE("some text"));
    bool failed = out.failed;
    assert_true(failed == (out.size != 400 * 11));
    assert_true(out.size <= out.capacity);
    text_out_fini(&out);
    return failed;
}

static void without_memory_it_keeps_what_it_has(void **state)
{
    (void)state;
    need_allocator();
    expect_survival(write_once, false, 3, 2);
    until_failure = -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_follow_each_other),
        cmocka_unit_test(numbers_to_the_edge),
        cmocka_unit_test(a_fixed_buffer_holds_the_beginning),
        cmocka_unit_test(control_characters_have_two_forms),
        cmocka_unit_test(a_string_is_cut_between_characters_and_closed),
        cmocka_unit_test(any_pieces_in_any_buffer),
        cmocka_unit_test(without_memory_it_keeps_what_it_has),
    };
    return cmocka_run_group_tests_name("text_out", tests, NULL, NULL);
}
