/* text_out.h - the one text builder: bytes are appended, to memory that grows or to a fixed buffer.
 *
 *     struct text_out out = {0};                       grows; all zero is an empty one
 *     text_out_text(&out, "tenant=");
 *     text_out_slice(&out, name);
 *     text_out_number(&out, -5);
 *     text_out_format(&out, " %.3f s", seconds);
 *     if (out.failed) ...                              no memory: one check, at the end, will do
 *     use(out.bytes, out.size);                        no 0 at the end
 *     text_out_fini(&out);
 *
 *     char room[512];
 *     struct text_out out;
 *     text_out_fixed(&out, room, sizeof room);         never allocates, never fails for memory
 *
 * What does not fit into a fixed buffer, or for which there is no memory, is left out whole, and so
 * is all that follows: the text is always the beginning of what was meant, and `failed` says that
 * something is missing. Where a part may be cut instead, text_out_json_cut() cuts it.
 *
 * JSON documents are written with json_write.h, which is this and a comma; single strings in text
 * of another kind with text_out_json(). Numbers are printed without printf: a log line, a page of
 * metrics or a replay has thousands of them.
 */
#ifndef TG_TEXT_TEXT_OUT_H
#define TG_TEXT_TEXT_OUT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "io/text/slice.h"

struct text_out {
    char *bytes; /* `size` of them are written */
    size_t size;
    size_t capacity;
    bool is_fixed; /* the memory is somebody else's and has `capacity` bytes for ever */
    bool failed;   /* something was left out */
};

/* An empty one in a buffer of the caller's. It needs no text_out_fini(). */
static inline void text_out_fixed(struct text_out *out, char *buffer, size_t size)
{
    *out = (struct text_out){.bytes = buffer, .capacity = size, .is_fixed = true};
}

void text_out_fini(struct text_out *out);

/* Forgets what was written and that it failed; keeps the memory. */
static inline void text_out_clear(struct text_out *out)
{
    out->size = 0;
    out->failed = false;
}

static inline struct slice text_out_written(const struct text_out *out)
{
    return (struct slice){out->bytes, out->size};
}

/* The slow half of text_out_reserve(). */
bool text_out_grow(struct text_out *out, size_t more);

/* Makes room for so many bytes, which the caller may then write at bytes + size, and count. False:
 * there is none, and `failed` is set. */
static inline bool text_out_reserve(struct text_out *out, size_t more)
{
    assert(out->size <= out->capacity);
    return (!out->failed && out->capacity - out->size >= more) || text_out_grow(out, more);
}

static inline void text_out_put(struct text_out *out, const char *bytes, size_t n)
{
    if (n > 0 && text_out_reserve(out, n)) {
        memcpy(out->bytes + out->size, bytes, n);
        out->size += n;
    }
}

static inline void text_out_char(struct text_out *out, char c)
{
    text_out_put(out, &c, 1);
}

static inline void text_out_slice(struct text_out *out, struct slice text)
{
    text_out_put(out, text.at, text.n);
}

/* Up to its 0. */
static inline void text_out_text(struct text_out *out, const char *text)
{
    text_out_put(out, text, strlen(text));
}

void text_out_number(struct text_out *out, int64_t number);
void text_out_unsigned(struct text_out *out, uint64_t number);

/* With as few digits as give the same double when read again; infinities and NaN as "null". */
void text_out_double(struct text_out *out, double value);

/* Two hexadecimal digits for each byte. */
void text_out_hex(struct text_out *out, const uint8_t *bytes, size_t n);

/* Like printf, for what is not frequent. A fixed buffer needs one byte more than it writes. */
void text_out_format(struct text_out *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Text as a JSON string, in quotes. Bytes that are not UTF-8 become U+FFFD. DEL is escaped, too: it
 * is legal in JSON, but a terminal may take it for a command. */
void text_out_json(struct text_out *out, struct slice text);

/* The same, cut between characters and closed, so that it has at most `max` bytes, quotes included,
 * and fits into a fixed buffer; `max` is 2 or more. Control characters are written as \u00XX. */
void text_out_json_cut(struct text_out *out, struct slice text, size_t max);

/* Decimal digits; how many. */
#define TEXT_DIGITS_MAX 20
size_t text_digits(uint64_t number, char text[TEXT_DIGITS_MAX]);

#endif
