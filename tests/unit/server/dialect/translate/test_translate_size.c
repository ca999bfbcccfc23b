/* test_translate_size.c - what the translation of a request takes, by what is allocated. */
#include "check.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "failing_malloc.h"
#include "server/dialect/translate/translation.h"

enum { BODY = 4 << 20 }; /* bytes, about */

static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* A chat whose messages or parts are `piece`, again and again. */
static char *body_of(const char *head, const char *piece, const char *tail, size_t *n)
{
    char *text = calloc(BODY + 4096 + JSON_PADDING, 1);
    size_t at = strlen(head), piece_n = strlen(piece);

    assert_non_null(text);
    memcpy(text, head, at);
    for (size_t i = 0; at + piece_n < BODY && i < NEUTRAL_PARTS_MAX - 2; i++, at += piece_n)
        memcpy(text + at, piece, piece_n);
    strcpy(text + at - 1, tail); /* each piece ends in a comma */
    *n = strlen(text);
    return text;
}

/* Whatever is in it. */
static void takes_what_is_said(void **state)
{
    static const char head[] = "{\"model\":\"m\",\"messages\":[",
                      inside[] = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[";
    static const struct {
        const char *head, *piece, *tail;
    } rows[] = {
        {inside, "{\"type\":\"text\",\"text\":\"a\"},", "]}]}"},
        {inside, "{\"type\":\"text\",\"text\":\"\\n\"},", "]}]}"},
        {head, "{\"role\":\"user\",\"content\":\"a\"},", "]}"},
        {head, "{\"role\":\"user\",\"content\":\"a text\\n\\u0001 of some words, with escapes\"},",
         "]}"},
        {"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[",
         "{\"type\":\"function\",\"function\":{\"name\":\"f\"}},", "]}"},
    };
    (void)state;

    need_allocator(); /* a sanitizer has its own, and more of it */
    for (size_t i = 0; i < COUNT_OF(rows) * DIALECT_COUNT; i++) {
        struct json_reader *reader = json_reader_new();
        enum dialect to = (enum dialect)(i % DIALECT_COUNT);
        struct neutral_request request;
        struct neutral_target target;
        struct neutral_dropped dropped = {.n = 0};
        struct ask_problem problem;
        struct json_writer out;
        size_t n;
        char *body = body_of(rows[i / DIALECT_COUNT].head, rows[i / DIALECT_COUNT].piece,
                             rows[i / DIALECT_COUNT].tail, &n);

        assert_non_null(reader);
        neutral_request_init(&request);
        neutral_target_init(&target);
        json_writer_init(&out);
        size_t before = allocated();
        assert_true(dialect_find(DIALECT_CHAT)
                        ->read_request(reader, body, n, n + JSON_PADDING, &request, &problem));
        assert_true(dialect_find(to)->write_request(reader, &request, &target, &out, &dropped,
                                                    &problem));
        size_t taken = allocated() - before;
        if (taken > translation_takes(n) || taken < n)
            fail_msg("%s: %zu bytes for %zu", rows[i / DIALECT_COUNT].piece, taken, n);
        neutral_request_fini(&request);
        json_writer_fini(&out);
        json_reader_trim(reader, 0);
        json_reader_free(reader);
        free(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_is_said),
    };

    return cmocka_run_group_tests_name("translate_size", tests, NULL, NULL);
}
