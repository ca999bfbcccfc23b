/* test_text_bytes.c - bytes looked at several at a time are found as one at a time: runs, UTF-8. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "draw.h"
#include "io/text/run.h"
#include "io/text/utf8.h"

static uint64_t seed;

static size_t run_by_bytes(const char *bytes, size_t n, char a, char b)
{
    size_t i = 0;

    while (i < n && bytes[i] != a && bytes[i] != b)
        i++;
    return i;
}

/* Bytes beside the two that are looked for, and with the top bit set, are what could be taken for
 * them. */
static void a_run_ends_at_the_first_of_the_two(void **state)
{
    static const char odd[] = "\n\r\x09\x0b\x0c\x0e\x8a\x8d\x80\xff\x01\"\\!#[]x";
    struct draw draw = draw_stream(seed, 1);
    char bytes[64];

    (void)state;
    for (int round = 0; round < 20000; round++) {
        size_t n = (size_t)draw_between(&draw, 0, sizeof bytes);
        int percent = (int)draw_between(&draw, 0, 30);
        for (size_t i = 0; i < n; i++)
            bytes[i] = draw_chance(&draw, percent)
                           ? odd[draw_between(&draw, 0, (int64_t)sizeof odd - 1)]
                           : 'x';
        for (size_t from = 0; from <= n && from < 9; from++) {
            assert_int_equal(run_without(bytes + from, n - from, '\n', '\r'),
                             run_by_bytes(bytes + from, n - from, '\n', '\r'));
            assert_int_equal(run_without(bytes + from, n - from, '"', '\\'),
                             run_by_bytes(bytes + from, n - from, '"', '\\'));
        }
    }
}

static void characters_are_told_from_what_is_none(void **state)
{
    static const struct {
        const char *text;
        size_t bytes, valid;
    } rows[] = {
        {"", 0, 0},
        {"plain", 5, 5},
        {"a\0b", 3, 3},
        {"\x7f", 1, 1},
        {"\x80", 1, 0},
        {"gr\xc3\xbc\xc3\x9f", 6, 6},
        {"ab\xc3", 3, 2},       /* cut */
        {"\xc0\x80", 2, 0},     /* overlong */
        {"\xc1\xbf", 2, 0},     /* overlong */
        {"\xe0\x9f\xbf", 3, 0}, /* overlong */
        {"\xe0\xa0\x80", 3, 3},
        {"\xed\x9f\xbf", 3, 3},
        {"\xed\xa0\x80", 3, 0}, /* half of a pair */
        {"\xee\x80\x80", 3, 3},
        {"\xf0\x8f\xbf\xbf", 4, 0}, /* overlong */
        {"\xf0\x90\x80\x80", 4, 4},
        {"\xf4\x8f\xbf\xbf", 4, 4},
        {"\xf4\x90\x80\x80", 4, 0}, /* above U+10FFFF */
        {"\xf5\x80\x80\x80", 4, 0},
        {"x\xe2\x82\xac"
         "y\xe2\x82",
         7, 5},
        {"\xe2\x28\xa1", 3, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (utf8_valid(rows[i].text, rows[i].bytes) != rows[i].valid)
            fail_msg("row %zu: %zu", i, utf8_valid(rows[i].text, rows[i].bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_ends_at_the_first_of_the_two),
        cmocka_unit_test(characters_are_told_from_what_is_none),
    };

    seed = draw_seed("test_text_bytes");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
