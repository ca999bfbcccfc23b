/* test_base64url.c - bytes as letters and back, in one form alone. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "io/text/base64url.h"

static uint64_t seed;

/* RFC 4648, 10, without the padding and in the alphabet of section 5. */
static void the_examples_of_the_rfc(void **state)
{
    static const char *const rows[][2] = {
        {"", ""},
        {"f", "Zg"},
        {"fo", "Zm8"},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg"},
        {"fooba", "Zm9vYmE"},
        {"foobar", "Zm9vYmFy"},
        {"\xfb\xff", "-_8"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[16] = "................";
        uint8_t bytes[16];
        size_t n = strlen(rows[i][1]), read;

        assert_int_equal(BASE64URL_CHARACTERS(strlen(rows[i][0])), n);
        base64url_write(rows[i][0], strlen(rows[i][0]), text);
        assert_memory_equal(text, rows[i][1], n);
        assert_int_equal(text[n], '.'); /* nothing is written behind it */
        assert_true(base64url_read((struct slice){text, n}, bytes, sizeof bytes, &read));
        assert_int_equal(read, strlen(rows[i][0]));
        assert_memory_equal(bytes, rows[i][0], read);
    }
}

static void what_is_not_the_one_form_is_refused(void **state)
{
    static const char *const texts[] = {"Z", "Zg==", "Zh", "Zm9", "Zm9vY", "Zm+v", "Zm/v",
                                        "Zm v", "Zm9 ", "=", "Zm9v\n", "Z\xc3\xa4v"};
    uint8_t bytes[16];
    size_t n;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_false(base64url_read(slice_of(texts[i]), bytes, sizeof bytes, &n));
    assert_true(base64url_read(SLICE("Zm9v"), bytes, 3, &n));
    assert_false(base64url_read(SLICE("Zm9v"), bytes, 2, &n));
}

static void what_was_written_is_read(void **state)
{
    (void)state;
    for (uint64_t stream = 0; stream < 500; stream++) {
        struct draw draw = draw_stream(seed, stream);
        uint8_t bytes[64], again[64];
        char text[BASE64URL_CHARACTERS(sizeof bytes)];
        size_t n = (size_t)draw_between(&draw, 0, sizeof bytes), read;

        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)draw_between(&draw, 0, 255);
        base64url_write(bytes, n, text);
        assert_true(base64url_read((struct slice){text, BASE64URL_CHARACTERS(n)}, again,
                                   sizeof again, &read));
        assert_int_equal(read, n);
        assert_memory_equal(again, bytes, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_rfc),
        cmocka_unit_test(what_is_not_the_one_form_is_refused),
        cmocka_unit_test(what_was_written_is_read),
    };

    seed = draw_seed("test_base64url");
    return cmocka_run_group_tests_name("base64url", tests, NULL, NULL);
}
