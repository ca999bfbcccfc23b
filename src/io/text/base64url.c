/* base64url.c - bytes as letters, digits, "-" and "_", without padding. See base64url.h. */
#include "io/text/base64url.h"

#include <assert.h>

void base64url_write(const void *bytes, size_t n, char *text)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const uint8_t *at = bytes;
    uint32_t bits = 0;
    int held = 0;

    for (size_t i = 0; i < n; i++) {
        bits = bits << 8 | at[i];
        for (held += 8; held >= 6; held -= 6)
            *text++ = alphabet[bits >> (held - 6) & 63];
    }
    if (held > 0)
        *text = alphabet[bits << (6 - held) & 63];
}

static int sextet(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '-')
        return 62;
    return c == '_' ? 63 : -1;
}

bool base64url_read(struct slice text, uint8_t *bytes, size_t room, size_t *n)
{
    uint32_t bits = 0;
    int held = 0;

    *n = 0;
    if (text.n % 4 == 1)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        int value = sextet(text.at[i]);
        if (value < 0)
            return false;
        bits = (bits << 6 | (uint32_t)value) & 0xffffff;
        held += 6;
        if (held < 8)
            continue;
        held -= 8;
        if (*n == room)
            return false;
        bytes[(*n)++] = (uint8_t)(bits >> held);
    }
    assert(held < 8);
    return (bits & ((1u << held) - 1)) == 0;
}
