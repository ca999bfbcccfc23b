/* json_write.c - writing JSON, appended to a buffer that grows.
 *
 * All JSON that the program prints comes from here, so that strings are escaped and numbers are
 * printed in one way. It appends and never looks back: a replay writes millions of lines, and
 * printf alone would take longer than all the decisions.
 */
#include "io/text/json_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/utf8.h"

/* Makes room for `more` bytes; false, from then on, when there is none. */
static bool grow(struct json_writer *writer, size_t more)
{
    size_t capacity = writer->capacity == 0 ? 256 : writer->capacity;
    char *bytes = NULL;

    while (capacity - writer->size < more && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    if (!writer->failed && capacity - writer->size >= more)
        bytes = realloc(writer->bytes, capacity);
    if (bytes == NULL) {
        writer->failed = true;
        return false;
    }
    writer->bytes = bytes;
    writer->capacity = capacity;
    return true;
}

/* Inlined, as is its only caller: most of what is written is a few bytes, and there is room. */
static inline bool has_room(struct json_writer *writer, size_t more)
{
    return writer->capacity - writer->size >= more || grow(writer, more);
}

static inline void append(struct json_writer *writer, const char *bytes, size_t size)
{
    if (size > 0 && has_room(writer, size)) {
        memcpy(writer->bytes + writer->size, bytes, size);
        writer->size += size;
    }
}

static inline void append_char(struct json_writer *writer, char c)
{
    append(writer, &c, 1);
}

/* What has to stand before a value or a key. */
static inline void separate(struct json_writer *writer)
{
    if (writer->comma)
        append_char(writer, ',');
    writer->comma = true;
}

static void append_value(struct json_writer *writer, const char *bytes, size_t size)
{
    separate(writer);
    append(writer, bytes, size);
}

void json_writer_init(struct json_writer *writer)
{
    *writer = (struct json_writer){0};
}

void json_writer_fini(struct json_writer *writer)
{
    free(writer->bytes);
    json_writer_init(writer);
}

void json_writer_clear(struct json_writer *writer)
{
    writer->size = 0;
    writer->comma = false;
}

static void begin(struct json_writer *writer, char bracket)
{
    separate(writer);
    append_char(writer, bracket);
    writer->comma = false;
}

static void end(struct json_writer *writer, char bracket)
{
    append_char(writer, bracket);
    writer->comma = true;
}

void json_write_object(struct json_writer *writer)
{
    begin(writer, '{');
}

void json_write_object_end(struct json_writer *writer)
{
    end(writer, '}');
}

void json_write_array(struct json_writer *writer)
{
    begin(writer, '[');
}

void json_write_array_end(struct json_writer *writer)
{
    end(writer, ']');
}

/* ---- Strings --------------------------------------------------------------------------------- */

static bool is_plain(char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void append_escaped(struct json_writer *writer, unsigned char c)
{
    static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    static const char hex[] = "0123456789abcdef";

    for (size_t i = 0; i + 1 < sizeof letters; i += 2) {
        if (c == (unsigned char)letters[i]) {
            append(writer, (const char[]){'\\', letters[i + 1]}, 2);
            return;
        }
    }
    append(writer, (const char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
}

/* One character that is not plain; how many bytes it took. */
static size_t append_special(struct json_writer *writer, const char *at, size_t left)
{
    size_t n = utf8_bytes(at, left);

    if (n == 0) {
        append(writer, "\xef\xbf\xbd", 3);
        return 1;
    }
    /* DEL is legal in JSON, but a terminal may take it for a command. */
    if (n == 1)
        append_escaped(writer, (unsigned char)at[0]);
    else
        append(writer, at, n);
    return n;
}

static void append_string(struct json_writer *writer, const char *bytes, size_t size)
{
    const char *at = bytes;
    const char *stop = bytes + size;

    append_char(writer, '"');
    while (at < stop) {
        const char *plain = at;
        while (at < stop && is_plain(*at))
            at++;
        append(writer, plain, (size_t)(at - plain));
        if (at < stop)
            at += append_special(writer, at, (size_t)(stop - at));
    }
    append_char(writer, '"');
}

void json_write_string(struct json_writer *writer, const char *bytes, size_t size)
{
    separate(writer);
    append_string(writer, bytes, size);
}

void json_write_key(struct json_writer *writer, const char *key)
{
    separate(writer);
    append_string(writer, key, strlen(key));
    append_char(writer, ':');
    writer->comma = false;
}

/* ---- Numbers and words ----------------------------------------------------------------------- */

void json_write_integer(struct json_writer *writer, int64_t value)
{
    char digits[20]; /* -9223372036854775808 */
    char *at = digits + sizeof digits;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    do {
        *--at = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (value < 0)
        *--at = '-';
    append_value(writer, at, (size_t)(digits + sizeof digits - at));
}

void json_write_double(struct json_writer *writer, double value)
{
    char text[32];
    int n = 0;

    if (!isfinite(value)) {
        json_write_null(writer);
        return;
    }
    if (value == 0 && signbit(value)) {
        append_value(writer, "-0.0", 4); /* "-0" would be read as an integer, without its sign */
        return;
    }
    /* 15 digits are always true, 17 always enough. */
    for (int digits = 15; digits <= 17; digits++) {
        n = snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    append_value(writer, text, (size_t)n);
}

void json_write_bool(struct json_writer *writer, bool value)
{
    if (value)
        append_value(writer, "true", 4);
    else
        append_value(writer, "false", 5);
}

void json_write_null(struct json_writer *writer)
{
    append_value(writer, "null", 4);
}

void json_write_line_end(struct json_writer *writer)
{
    append_char(writer, '\n');
    writer->comma = false;
}
