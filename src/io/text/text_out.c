/* text_out.c - the one text builder. See text_out.h. */
#include "io/text/text_out.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/text/utf8.h"
#include "lib/core/array.h"

enum { CAPACITY_MIN = 256 };

static const char HEX[] = "0123456789abcdef";

void text_out_fini(struct text_out *out)
{
    if (!out->is_fixed)
        free(out->bytes);
    *out = (struct text_out){0};
}

bool text_out_grow(struct text_out *out, size_t more)
{
    size_t need = out->size + more;

    if (need < CAPACITY_MIN)
        need = CAPACITY_MIN;
    if (out->failed || out->is_fixed || more > SIZE_MAX - out->size ||
        !array_reserve(&out->bytes, &out->capacity, need))
        out->failed = true;
    return !out->failed;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

size_t text_digits(uint64_t number, char text[TEXT_DIGITS_MAX])
{
    static const char PAIRS[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char digits[TEXT_DIGITS_MAX];
    size_t at = TEXT_DIGITS_MAX;

    for (; number >= 100; number /= 100)
        memcpy(digits + (at -= 2), PAIRS + 2 * (number % 100), 2);
    if (number >= 10)
        memcpy(digits + (at -= 2), PAIRS + 2 * number, 2);
    else
        digits[--at] = (char)('0' + number);
    memcpy(text, digits + at, TEXT_DIGITS_MAX - at);
    return TEXT_DIGITS_MAX - at;
}

void text_out_unsigned(struct text_out *out, uint64_t number)
{
    char text[TEXT_DIGITS_MAX];

    text_out_put(out, text, text_digits(number, text));
}

void text_out_number(struct text_out *out, int64_t number)
{
    char text[1 + TEXT_DIGITS_MAX] = "-";
    size_t sign = number < 0;
    size_t n = text_digits(number < 0 ? 0 - (uint64_t)number : (uint64_t)number, text + sign);

    assert(sign + n <= sizeof text);
    text_out_put(out, text, sign + n);
}

void text_out_double(struct text_out *out, double value)
{
    char text[32];
    int n = 0;

    if (!isfinite(value)) {
        text_out_put(out, "null", 4);
        return;
    }
    if (value == 0 && signbit(value)) {
        text_out_put(out, "-0.0", 4); /* "-0" would be read as an integer, without its sign */
        return;
    }
    /* 15 digits are always true, 17 always enough. */
    for (int digits = 15; digits <= 17; digits++) {
        n = snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    text_out_put(out, text, (size_t)n);
}

void text_out_hex(struct text_out *out, const uint8_t *bytes, size_t n)
{
    if (n > SIZE_MAX / 2 || !text_out_reserve(out, 2 * n))
        return;
    for (size_t i = 0; i < n; i++) {
        out->bytes[out->size++] = HEX[bytes[i] >> 4];
        out->bytes[out->size++] = HEX[bytes[i] & 15];
    }
}

void text_out_format(struct text_out *out, const char *format, ...)
{
    va_list args;
    size_t room = out->failed ? 0 : out->capacity - out->size;

    va_start(args, format);
    int n = vsnprintf(room > 0 ? out->bytes + out->size : NULL, room, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n >= room && text_out_reserve(out, (size_t)n + 1)) {
        room = (size_t)n + 1; /* with the 0 that it writes */
        va_start(args, format);
        n = vsnprintf(out->bytes + out->size, room, format, args);
        va_end(args);
    }
    if (n >= 0 && (size_t)n < room)
        out->size += (size_t)n;
    else
        out->failed = true;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Visible ASCII but for quotes and backslashes: nearly all that there is. */
static inline bool text_out_is_plain(char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* One character as it stands in a JSON string; how many bytes of text it took. `letters`: common
 * control characters as \n and the like. `escaped` has room for any. */
static size_t escape_one(const char *text, size_t left, bool letters, char escaped[8], size_t *n)
{
    static const char LETTERS[] = "\bb\ff\nn\rr\tt";
    size_t bytes = utf8_bytes(text, left);
    unsigned char c = (unsigned char)*text;
    const char *letter = letters && c != 0 && c < 0x20 ? strchr(LETTERS, c) : NULL;

    assert(left > 0 && bytes <= left);
    if (bytes == 0) {
        memcpy(escaped, "\xef\xbf\xbd", 3);
        *n = 3;
        return 1;
    }
    if (bytes > 1 || text_out_is_plain((char)c)) {
        memcpy(escaped, text, bytes);
        *n = bytes;
    } else if (c == '"' || c == '\\' || letter) {
        escaped[0] = '\\';
        escaped[1] = letter ? letter[1] : (char)c;
        *n = 2;
    } else {
        memcpy(escaped, (const char[]){'\\', 'u', '0', '0', HEX[c >> 4], HEX[c & 15]}, 6);
        *n = 6;
    }
    return bytes;
}

void text_out_json(struct text_out *out, struct slice text)
{
    char escaped[8];
    size_t n;

    text_out_char(out, '"');
    for (size_t i = 0; i < text.n;) {
        size_t plain = i;
        while (i < text.n && text_out_is_plain(text.at[i]))
            i++;
        text_out_put(out, text.at + plain, i - plain);
        if (i < text.n) {
            i += escape_one(text.at + i, text.n - i, true, escaped, &n);
            text_out_put(out, escaped, n);
        }
    }
    text_out_char(out, '"');
}

void text_out_json_cut(struct text_out *out, struct slice text, size_t max)
{
    size_t room = out->is_fixed ? out->capacity - out->size : max;
    char escaped[8];
    size_t used = 2, n;

    assert(max >= 2);
    if (room > max)
        room = max;
    if (room < 2) {
        out->failed = true;
        return;
    }
    text_out_char(out, '"');
    for (size_t i = 0; i < text.n; used += n) {
        i += escape_one(text.at + i, text.n - i, false, escaped, &n);
        if (used + n > room)
            break;
        text_out_put(out, escaped, n);
    }
    text_out_char(out, '"');
}
