/* test_json_memory.c - what a reader of JSON takes for a document, by what is allocated. */
#include "check.h"

#include <malloc.h>
#include <string.h>

#include "failing_malloc.h"
#include "io/text/json_read.h"

enum { DOCUMENT = 4 << 20, /* bytes, about */
       BESIDE = 4096 };    /* bytes that do not depend on the document */

/* `piece` again and again in an array, read to its end; padded or not. */
static size_t taken_for(struct json_reader *reader, const char *piece, bool padded)
{
    size_t n = strlen(piece), at = 0;
    char *text = calloc(DOCUMENT + 64 + JSON_PADDING, 1);
    struct json_text key;
    struct json_value value;

    assert_non_null(text);
    text[at++] = '[';
    while (at + n < DOCUMENT) {
        memcpy(text + at, piece, n);
        at += n;
    }
    text[at - 1] = ']'; /* each piece ends in a comma */
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    assert_true(json_begin(reader, text, at, at + (padded ? JSON_PADDING : 0), &value));
    assert_true(json_enter(reader));
    while (json_next(reader, &key, &value))
        ;
    assert_true(json_end(reader));
    size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
    free(text);
    return after - before;
}

/* Whatever is in it. */
static void takes_what_is_said_for_each_byte(void **state)
{
    static const char *const pieces[] = {"1,", "[],", "\"\\u0041\",", "\"a text of some words\",",
                                         "{\"a\":[1,2,{}]},"};
    (void)state;

    need_allocator(); /* a sanitizer has its own, and more of it */
    for (size_t i = 0; i < 2 * COUNT_OF(pieces); i++) {
        struct json_reader *reader = json_reader_new();
        assert_non_null(reader);
        size_t taken = taken_for(reader, pieces[i / 2], i % 2 == 0);
        if (taken > (size_t)JSON_READER_FACTOR * DOCUMENT + BESIDE || taken < DOCUMENT)
            fail_msg("%s: %zu bytes for %d", pieces[i / 2], taken, DOCUMENT);
        json_reader_trim(reader, 0);
        json_reader_free(reader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_is_said_for_each_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
