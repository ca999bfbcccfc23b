/* test_media_size.c - sizes of images and lengths of recordings, from the heads of their base64. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "server/dialect/media_size.h"

/* From memory that ends where the text ends. */
static bool size_of(const char *text, uint32_t *width, uint32_t *height)
{
    size_t n = strlen(text);
    char *exact = malloc(n + 1);

    memcpy(exact, text, n + 1);
    exact = realloc(exact, n > 0 ? n : 1);
    *width = *height = 0;
    bool sized = media_image_size(exact, n, width, height);
    free(exact);
    return sized;
}

static const struct {
    const char *text;
    uint32_t width, height; /* 0: none is found */
} images[] = {
    /* PNG */
    {"iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAIAAAC6s0uzAAAABElEQVQAAAAA6iPnBwAAAAAAAAAAAAAA"
     "AAAAAAAAAAAAAAAAAA==",
     640, 480},
    /* the larger of two heads counts */
    {"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAAHnRFWHR4eHh4eHh4eHh4eHh4eHh4eHh4"
     "eHh4eHh4eHh4eHh4WuXVAAAADUlIRFIAAAu4AAAAFAgCAAAAkq7nQQAAAARJREFUAAAAAOoj5wcAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAA=",
     3000, 20},
    /* JPEG, behind a thumbnail */
    {"/9j/4QAqRXhpZv/////////////////////////////////////////////////AAAsIAlgDIAEBEQD/"
     "2gAIAQEAAD8AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
     800, 600},
    /* the largest sides of its frames count */
    {"/9j/wAALCAAGAAgBAREA/8IACwgABBOIAQERAP/aAAgBAQAAPwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAA=",
     5000, 6},
    /* GIF */
    {"R0lGODlhCgAUAIAAAAAAAAAAACH5BAAAAAAALAAAAAAKABQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AA==",
     10, 20},
    /* a frame larger than its screen */
    {"R0lGODlhCgAUAIAAAAAAAAAAACwFAAUAoA+4CwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
     4005, 3005},
    /* WebP, extended */
    {"UklGRmQAAABXRUJQVlA4WAoAAAAAAAAArwQAgwMAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
     1200, 900},
    /* WebP, lossless */
    {"UklGRmQAAABXRUJQVlA4TAUAAAAvK8ExAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==",
     300, 200},
    /* WebP */
    {"UklGRmQAAABXRUJQVlA4IAoAAAAAAACdASpAAfAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
     320, 240},
    /* no image follows */
    {"iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAIAAAC6s0uzAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
     0, 0},
    /* no frame */
    {"/9j/4QAqRXhpZv/////////////////////////////////////////////////aAAgBAQAAPwAAAAAA"
     "AAAAAAAAAAAAAAAAAAAAAAAAAAA=",
     0, 0},
    /* no image */
    {"T2dnUwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
     0, 0},
    {"", 0, 0},
    {"https://example.com/a.png", 0, 0},
    {"data:image/png,notbase64", 0, 0},
    {"iVBORw0KGgo=", 0, 0},
};

static void heads_tell_the_size(void **state)
{
    char address[400];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(images); i++) {
        uint32_t width, height;
        bool sized = size_of(images[i].text, &width, &height);
        if (sized != (images[i].width > 0) || width != images[i].width ||
            height != images[i].height)
            fail_msg("row %zu: %u x %u", i, width, height);
        strcpy(address, "data:image/png;base64,");
        strncat(address, images[i].text, sizeof address - strlen(address) - 1);
        assert_int_equal(size_of(address, &width, &height), sized);
    }
}

/* Some decoders skip what is no base64, and read another head then. */
static void what_is_no_base64_has_no_size(void **state)
{
    char text[400];
    uint32_t width, height;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(images); i++)
        for (size_t at = 0; at < 20 && images[i].width > 0; at++) {
            strcpy(text, images[i].text);
            text[at] = '\n';
            assert_false(size_of(text, &width, &height));
        }
}

static void heads_that_are_cut_have_no_size(void **state)
{
    char text[400];
    uint32_t width, height;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(images); i++)
        for (size_t n = 0; n < strlen(images[i].text); n++) {
            memcpy(text, images[i].text, n);
            text[n] = '\0';
            if (size_of(text, &width, &height))
                assert_true(width == images[i].width && height == images[i].height);
        }
}

static void recordings_have_a_length_at_most(void **state)
{
    char zeros[4001];
    char text[4400];

    (void)state;
    memset(zeros, 'A', sizeof zeros - 1);
    zeros[sizeof zeros - 1] = '\0';
    static const struct {
        const char *head;
        int64_t bytes_per_s; /* decoded bytes; 0: nothing is known */
    } rows[] = {
        /* 44100 samples of 2 channels and 16 bits */
        {"UklGRmQAAABXQVZFZm10IBAAAAABAAIARKwAABCxAgAEABAAZGF0YQgAAAAAAAAA", 176400},
        /* 1 sample a second */
        {"UklGRmQAAABXQVZFZm10IBAAAAABAAEAAQAAAAEAAAABAAgAZGF0YQgAAAAAAAAA", 0},
        /* a codec */
        {"UklGRmQAAABXQVZFZm10IBAAAAAxAAEAQB8AAAAAAAAAAAAAZGF0YQgAAAAAAAAA", 0},
        /* MP3 */
        {"//uQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 1000},
        /* MP3 behind a tag */
        {"SUQzBAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 1000},
        /* something else */
        {"T2dnUwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        strcpy(text, rows[i].head);
        strcat(text, zeros);
        int64_t ms = media_audio_ms(text, strlen(text));
        int64_t decoded = (int64_t)strlen(text) / 4 * 3;
        if (rows[i].bytes_per_s == 0)
            assert_int_equal(ms, -1);
        else if (ms < decoded * 1000 / rows[i].bytes_per_s ||
                 ms > decoded * 1500 / rows[i].bytes_per_s)
            fail_msg("row %zu: %lld ms", i, (long long)ms);
    }
    assert_int_equal(media_audio_ms("https://example.com/a.wav", 25), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_tell_the_size),
        cmocka_unit_test(what_is_no_base64_has_no_size),
        cmocka_unit_test(heads_that_are_cut_have_no_size),
        cmocka_unit_test(recordings_have_a_length_at_most),
    };

    return cmocka_run_group_tests_name("media_size", tests, NULL, NULL);
}
