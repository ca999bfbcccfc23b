/* test_normal_length.c - no text is longer in its normal form than it is said to be. */
#include "check.h"

#include <string.h>

#include "io/text/normal_length.h"

static struct normal_length length_of(const char *text)
{
    struct normal_length length = {0, 0, 0};

    normal_length_add(&length, text, strlen(text));
    return length;
}

/* Lengths of the forms are from Python's unicodedata. */
static void forms_are_at_most_as_long_as_said(void **state)
{
    static const struct {
        const char *text;
        int64_t nfc, nfkc; /* what they are */
        int64_t most_nfc, most_nfkc;
    } rows[] = {
        {"", 0, 0, 0, 0},
        {"plain ASCII, as most text is, and longer than one block of it", 61, 61, 61, 61},
        {"caf\xc3\xa9 \xe4\xb8\xad\xe6\x96\x87 \xed\x95\x9c\xea\xb5\xad\xec\x96\xb4", 22, 22, 22,
         22},
        {"\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82", 12, 12, 12, 12},
        {"\xef\xb7\xba", 3, 33, 3, 33},                     /* U+FDFA */
        {"\xe0\xbe\xac", 6, 6, 6, 6},                       /* U+0FAC */
        {"\xe0\xbd\xb7", 3, 9, 3, 9},                       /* U+0F77 */
        {"\xe2\xa8\x8c", 3, 12, 3, 12},                     /* U+2A0C */
        {"\xe3\x8d\x8a", 3, 15, 3, 15},                     /* U+334A: five Katakana */
        {"\xc2\xbd", 2, 5, 2, 5},                           /* one half */
        {"\xf0\x9d\x85\xa0", 12, 12, 12, 12},               /* U+1D160 */
        {"\xf0\x9f\x98\x80\xf0\x9f\x84\xaa", 8, 11, 8, 11}, /* an emoji, U+1F12A */
        /* A composition that a later mark undoes: a with grave, dot below. */
        {"\xc3\xa0\xcc\xa3", 5, 5, 7, 7},
        {"\xc7\x95\xcc\xa3", 7, 7, 7, 7}, /* U with diaeresis and macron, dot below */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct normal_length length = length_of(rows[i].text);
        assert_int_equal(length.bytes, strlen(rows[i].text));
        if (length.nfc != rows[i].most_nfc || length.nfkc != rows[i].most_nfkc ||
            length.nfc < rows[i].nfc || length.nfkc < rows[i].nfkc)
            fail_msg("row %zu: %d, %d", i, (int)length.nfc, (int)length.nfkc);
    }
}

/* A character may lie anywhere in a block, or across two. */
static void lengths_do_not_depend_on_where_characters_lie(void **state)
{
    char text[160];

    (void)state;
    for (size_t at = 0; at < 100; at++) {
        memset(text, 'a', sizeof text);
        memcpy(text + at, "\xef\xb7\xba\xe0\xbe\xac", 6);
        text[at + 40] = '\0';
        struct normal_length length = length_of(text);
        assert_int_equal(length.bytes, at + 40);
        assert_int_equal(length.nfc, at + 40 + 3);
        assert_int_equal(length.nfkc, at + 40 + 33);
    }
}

static void text_that_is_cut_short_is_counted(void **state)
{
    (void)state;
    assert_int_equal(length_of("\xef\xb7").nfkc, 2);
    assert_int_equal(length_of("a\xf0").nfkc, 2);
    assert_int_equal(length_of("\xff\xbf").nfkc, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_are_at_most_as_long_as_said),
        cmocka_unit_test(lengths_do_not_depend_on_where_characters_lie),
        cmocka_unit_test(text_that_is_cut_short_is_counted),
    };

    return cmocka_run_group_tests_name("normal_length", tests, NULL, NULL);
}
