/* mock_text.h - a text that grows, for replies that are put together from templates.
 *
 * Not the JSON writer: a streamed reply is the same few hundred bytes again and again with one word
 * changed, and copying a template costs a tenth of building it.
 */
#ifndef TG_MOCK_MOCK_TEXT_H
#define TG_MOCK_MOCK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/http/http.h"

/* All zeros is an empty one. When memory ends, `failed` is set and nothing more is appended. */
struct mock_text {
    char *at;
    size_t n, capacity;
    bool failed;
};

void mock_text_fini(struct mock_text *text);

/* Forgets what was written; the memory stays. */
static inline void mock_text_clear(struct mock_text *text)
{
    text->n = 0;
    text->failed = false;
}

static inline struct slice mock_text_slice(const struct mock_text *text)
{
    return (struct slice){text->at, text->n};
}

/* Room for n more bytes after what is there. */
bool mock_text_reserve(struct mock_text *text, size_t n);

void mock_text_add(struct mock_text *text, const char *bytes, size_t n);

/* Up to its 0. */
void mock_text_put(struct mock_text *text, const char *words);

void mock_text_number(struct mock_text *text, int64_t number);

/* 16 hexadecimal digits. */
void mock_text_hex(struct mock_text *text, uint64_t number);

/* In quotes, escaped. */
void mock_text_json(struct mock_text *text, const char *bytes, size_t n);

#endif
