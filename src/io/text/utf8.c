/* utf8.c - where a character ends, and whether it is one.
 *
 * For the places where bytes from elsewhere are printed, and to say where a text is broken.
 * Checking whole documents is the JSON reader's work, and much faster there.
 */
#include "io/text/utf8.h"

/* The well-formed sequences of more than one byte, as the Unicode standard lists them in its table
 * 3-7. From the third byte on, all are 80..BF. */
static const struct form {
    unsigned char first_low, first_high;
    unsigned char second_low, second_high;
    unsigned char bytes;
} forms[] = {
    {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
    {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
    {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
};

static int fits(const struct form *form, const unsigned char *at)
{
    if (at[1] < form->second_low || at[1] > form->second_high)
        return 0;
    for (size_t i = 2; i < form->bytes; i++)
        if (at[i] < 0x80 || at[i] > 0xbf)
            return 0;
    return 1;
}

size_t utf8_bytes(const char *text, size_t left)
{
    const unsigned char *at = (const unsigned char *)text;

    if (at[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (at[0] >= forms[i].first_low && at[0] <= forms[i].first_high)
            return forms[i].bytes <= left && fits(&forms[i], at) ? forms[i].bytes : 0;
    return 0;
}

size_t utf8_valid(const char *text, size_t bytes)
{
    size_t at = 0;

    for (;;) {
        while (at < bytes && (text[at] & 0x80) == 0) /* most are nothing else */
            at++;
        size_t n = at < bytes ? utf8_bytes(text + at, bytes - at) : 0;
        if (n == 0)
            return at;
        at += n;
    }
}
