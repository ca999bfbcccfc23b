/* normal_length.c - how long a text can become when it is normalised.
 *
 * A table of the code points that a form lengthens is enough, and saves a Unicode library: 92 of
 * them grow in NFC, 919 in NFKC (Unicode 14; later versions have added none). ASCII never grows,
 * and is passed over in blocks.
 *
 * The forms of single code points do not add up to a bound, though. Composition can be undone by
 * what follows: a with grave (2 bytes) and a dot below (2 bytes) become a with dot below (3 bytes)
 * and a grave (2 bytes), because the dot sorts first. Only marks that compose and sort before the
 * others do that, all of them in U+031B..U+0331, and none takes more than 3 bytes more than it had;
 * so each is counted with 3 in addition. Both the table and the 3 are from Python's unicodedata,
 * over all pairs of a decomposable code point and a mark, and 1.5 million longer strings;
 * tests/unit/io/text/test_normal_length.c holds samples of it.
 */
#include "io/text/normal_length.h"

#include <stdbool.h>
#include <string.h>

/* Code points first to last, and how many bytes each of them can have. */
struct growth {
    uint32_t first, last;
    uint16_t nfc, nfkc;
};

/* Ascending. */
static const struct growth table[] = {
    {0xa8, 0xa8, 2, 3},         {0xaf, 0xaf, 2, 3},         {0xb4, 0xb4, 2, 3},
    {0xb8, 0xb8, 2, 3},         {0xbc, 0xbe, 2, 5},         {0x13f, 0x140, 2, 3},
    {0x149, 0x149, 2, 3},       {0x1c4, 0x1c6, 2, 3},       {0x2d8, 0x2dd, 2, 3},
    {0x31b, 0x331, 5, 5},       {0x344, 0x344, 4, 4},       {0x37a, 0x37a, 2, 3},
    {0x384, 0x384, 2, 3},       {0x385, 0x385, 2, 5},       {0x587, 0x587, 2, 4},
    {0x675, 0x678, 2, 4},       {0x958, 0x95f, 6, 6},       {0x9dc, 0x9dd, 6, 6},
    {0x9df, 0x9df, 6, 6},       {0xa33, 0xa33, 6, 6},       {0xa36, 0xa36, 6, 6},
    {0xa59, 0xa5b, 6, 6},       {0xa5e, 0xa5e, 6, 6},       {0xb5c, 0xb5d, 6, 6},
    {0xe33, 0xe33, 3, 6},       {0xeb3, 0xeb3, 3, 6},       {0xedc, 0xedd, 3, 6},
    {0xf43, 0xf43, 6, 6},       {0xf4d, 0xf4d, 6, 6},       {0xf52, 0xf52, 6, 6},
    {0xf57, 0xf57, 6, 6},       {0xf5c, 0xf5c, 6, 6},       {0xf69, 0xf69, 6, 6},
    {0xf73, 0xf73, 6, 6},       {0xf75, 0xf76, 6, 6},       {0xf77, 0xf77, 3, 9},
    {0xf78, 0xf78, 6, 6},       {0xf79, 0xf79, 3, 9},       {0xf81, 0xf81, 6, 6},
    {0xf93, 0xf93, 6, 6},       {0xf9d, 0xf9d, 6, 6},       {0xfa2, 0xfa2, 6, 6},
    {0xfa7, 0xfa7, 6, 6},       {0xfac, 0xfac, 6, 6},       {0xfb9, 0xfb9, 6, 6},
    {0x1fc1, 0x1fc1, 3, 5},     {0x1fcd, 0x1fcf, 3, 5},     {0x1fdd, 0x1fdf, 3, 5},
    {0x1fed, 0x1fee, 3, 5},     {0x2033, 0x2033, 3, 6},     {0x2034, 0x2034, 3, 9},
    {0x2036, 0x2036, 3, 6},     {0x2037, 0x2037, 3, 9},     {0x2057, 0x2057, 3, 12},
    {0x2150, 0x2151, 3, 5},     {0x2152, 0x2152, 3, 6},     {0x2153, 0x215e, 3, 5},
    {0x215f, 0x215f, 3, 4},     {0x2167, 0x2167, 3, 4},     {0x2177, 0x2177, 3, 4},
    {0x2189, 0x2189, 3, 5},     {0x222c, 0x222c, 3, 6},     {0x222d, 0x222d, 3, 9},
    {0x222f, 0x222f, 3, 6},     {0x2230, 0x2230, 3, 9},     {0x247d, 0x2487, 3, 4},
    {0x2a0c, 0x2a0c, 3, 12},    {0x2adc, 0x2adc, 5, 5},     {0x309b, 0x309c, 3, 4},
    {0x309f, 0x309f, 3, 6},     {0x30ff, 0x30ff, 3, 6},     {0x3200, 0x321c, 3, 5},
    {0x321d, 0x321e, 3, 8},     {0x3220, 0x3243, 3, 5},     {0x327c, 0x327d, 3, 6},
    {0x32c0, 0x32c8, 3, 4},     {0x32c9, 0x32cb, 3, 5},     {0x32ff, 0x32ff, 3, 6},
    {0x3300, 0x3302, 3, 12},    {0x3303, 0x3303, 3, 9},     {0x3304, 0x3304, 3, 12},
    {0x3305, 0x3306, 3, 9},     {0x3307, 0x3307, 3, 15},    {0x3308, 0x3308, 3, 12},
    {0x3309, 0x330b, 3, 9},     {0x330c, 0x330d, 3, 12},    {0x330e, 0x330f, 3, 9},
    {0x3310, 0x3310, 3, 6},     {0x3311, 0x3311, 3, 9},     {0x3312, 0x3313, 3, 12},
    {0x3314, 0x3314, 3, 6},     {0x3315, 0x3315, 3, 15},    {0x3316, 0x3316, 3, 18},
    {0x3317, 0x3317, 3, 15},    {0x3318, 0x3318, 3, 9},     {0x3319, 0x331a, 3, 15},
    {0x331b, 0x331b, 3, 12},    {0x331c, 0x331e, 3, 9},     {0x331f, 0x331f, 3, 12},
    {0x3320, 0x3320, 3, 15},    {0x3321, 0x3321, 3, 12},    {0x3322, 0x3324, 3, 9},
    {0x3325, 0x3328, 3, 6},     {0x3329, 0x332a, 3, 9},     {0x332b, 0x332b, 3, 15},
    {0x332c, 0x332c, 3, 9},     {0x332d, 0x332d, 3, 12},    {0x332e, 0x332e, 3, 15},
    {0x332f, 0x332f, 3, 9},     {0x3330, 0x3331, 3, 6},     {0x3332, 0x3332, 3, 15},
    {0x3333, 0x3333, 3, 12},    {0x3334, 0x3334, 3, 15},    {0x3335, 0x3335, 3, 9},
    {0x3336, 0x3336, 3, 15},    {0x3337, 0x3337, 3, 6},     {0x3338, 0x333c, 3, 9},
    {0x333d, 0x333d, 3, 12},    {0x333e, 0x333e, 3, 9},     {0x333f, 0x333f, 3, 6},
    {0x3340, 0x3342, 3, 9},     {0x3343, 0x3343, 3, 12},    {0x3344, 0x3346, 3, 9},
    {0x3347, 0x3347, 3, 15},    {0x3348, 0x3348, 3, 12},    {0x3349, 0x3349, 3, 6},
    {0x334a, 0x334a, 3, 15},    {0x334b, 0x334b, 3, 6},     {0x334c, 0x334d, 3, 12},
    {0x334e, 0x3350, 3, 9},     {0x3351, 0x3351, 3, 12},    {0x3352, 0x3352, 3, 6},
    {0x3353, 0x3353, 3, 9},     {0x3354, 0x3354, 3, 12},    {0x3355, 0x3355, 3, 6},
    {0x3356, 0x3356, 3, 15},    {0x3357, 0x3357, 3, 9},     {0x3358, 0x3361, 3, 4},
    {0x3362, 0x3370, 3, 5},     {0x337b, 0x337e, 3, 6},     {0x337f, 0x337f, 3, 12},
    {0x3389, 0x3389, 3, 4},     {0x33a7, 0x33a7, 3, 5},     {0x33a8, 0x33a8, 3, 6},
    {0x33ae, 0x33ae, 3, 7},     {0x33af, 0x33af, 3, 8},     {0x33c2, 0x33c2, 3, 4},
    {0x33c6, 0x33c6, 3, 6},     {0x33d8, 0x33d8, 3, 4},     {0x33de, 0x33df, 3, 5},
    {0x33e0, 0x33e8, 3, 4},     {0x33e9, 0x33fe, 3, 5},     {0xfa6c, 0xfa6c, 4, 4},
    {0xfacf, 0xfad1, 4, 4},     {0xfad5, 0xfad7, 4, 4},     {0xfb13, 0xfb17, 3, 4},
    {0xfb1d, 0xfb1d, 4, 4},     {0xfb1f, 0xfb1f, 4, 4},     {0xfb2a, 0xfb2b, 4, 4},
    {0xfb2c, 0xfb2d, 6, 6},     {0xfb2e, 0xfb36, 4, 4},     {0xfb38, 0xfb3c, 4, 4},
    {0xfb3e, 0xfb3e, 4, 4},     {0xfb40, 0xfb41, 4, 4},     {0xfb43, 0xfb44, 4, 4},
    {0xfb46, 0xfb4e, 4, 4},     {0xfb4f, 0xfb4f, 3, 4},     {0xfbdd, 0xfbdd, 3, 4},
    {0xfbea, 0xfbfb, 3, 4},     {0xfc00, 0xfc5d, 3, 4},     {0xfc5e, 0xfc63, 3, 5},
    {0xfc64, 0xfcf1, 3, 4},     {0xfcf2, 0xfcf4, 3, 6},     {0xfcf5, 0xfd3d, 3, 4},
    {0xfd50, 0xfd8f, 3, 6},     {0xfd92, 0xfdc7, 3, 6},     {0xfdf0, 0xfdf1, 3, 6},
    {0xfdf2, 0xfdf8, 3, 8},     {0xfdf9, 0xfdf9, 3, 6},     {0xfdfa, 0xfdfa, 3, 33},
    {0xfdfb, 0xfdfb, 3, 15},    {0xfdfc, 0xfdfc, 3, 8},     {0xfe71, 0xfe71, 3, 4},
    {0xfe77, 0xfe77, 3, 4},     {0xfe79, 0xfe79, 3, 4},     {0xfe7b, 0xfe7b, 3, 4},
    {0xfe7d, 0xfe7d, 3, 4},     {0xfe7f, 0xfe7f, 3, 4},     {0xfef5, 0xfefc, 3, 4},
    {0x1d15e, 0x1d15f, 8, 8},   {0x1d160, 0x1d164, 12, 12}, {0x1d1bb, 0x1d1bc, 8, 8},
    {0x1d1bd, 0x1d1c0, 12, 12}, {0x1f12a, 0x1f12a, 4, 7},   {0x1f200, 0x1f201, 4, 6},
    {0x1f240, 0x1f248, 4, 9},
};

/* Which blocks of 64 code points, from 0 on, have one in the table: most texts have none. */
static const uint64_t blocks[] = {
    UINT64_C(0x6d0023a0024078b4), UINT64_C(0x8000000000000000), UINT64_C(0x0000090000060163),
    UINT64_C(0x000000000000fb0c), UINT64_C(0x0000000000000000), UINT64_C(0x0000000000000000),
    UINT64_C(0x0000000000000000), UINT64_C(0x0000000000000000), UINT64_C(0x0000000000000000),
    UINT64_C(0x0000000000000000), UINT64_C(0x0000000000000000), UINT64_C(0x0000000000000000),
    UINT64_C(0x0000000000000000), UINT64_C(0x0000000000000000), UINT64_C(0x0000000000000000),
    UINT64_C(0x0affba0000000000), UINT64_C(0x0000000000000000), UINT64_C(0x0000000000000000),
    UINT64_C(0x0000000000000000), UINT64_C(0x0000000000000000), UINT64_C(0x0000000000000000),
    UINT64_C(0x0000000000000000), UINT64_C(0x0000000000000000), UINT64_C(0x0000000000000000),
    UINT64_C(0x0000000000000000), UINT64_C(0x0000000000000000), UINT64_C(0x0000000000000000),
    UINT64_C(0x0000000000000000), UINT64_C(0x0000000000000000), UINT64_C(0x00000000000000e0),
    UINT64_C(0x0000000000000000), UINT64_C(0x0000000000000310), UINT64_C(0x0000000000000000),
};

static bool block_grows(uint32_t block)
{
    return block < 64 * sizeof blocks / sizeof blocks[0] &&
           (blocks[block / 64] >> (block % 64) & 1) != 0;
}

static const struct growth *growth_of(uint32_t point)
{
    size_t low = 0, high = sizeof table / sizeof table[0];

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (point > table[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof table / sizeof table[0] && point >= table[low].first ? &table[low] : NULL;
}

/* Which of the first bytes 0xc0 to 0xff of a character begin one in the table: none of Cyrillic,
 * Hebrew, Han and Hangul, nor of the accented letters of Western Europe. */
static const uint64_t first_bytes = UINT64_C(0x0001800f024078b4);

/* The block of the character at `text`, which is not ASCII, and its bytes: all but the last six
 * bits of its code point. What is cut short is in no block. */
static uint32_t block_at(const unsigned char *text, size_t left, size_t *bytes)
{
    *bytes = text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    if (*bytes > left)
        return UINT32_MAX;
    if (*bytes == 2)
        return text[0] & 0x1f;
    if (*bytes == 3)
        return (text[0] & 0x0fu) << 6 | (text[1] & 0x3f);
    return (text[0] & 0x07u) << 12 | (text[1] & 0x3fu) << 6 | (text[2] & 0x3f);
}

static void add_growth_at(const unsigned char *text, size_t left, struct normal_length *length)
{
    size_t size;
    uint32_t block = block_at(text, left, &size);
    const struct growth *growth =
        block_grows(block) ? growth_of(block << 6 | (text[size - 1] & 0x3f)) : NULL;

    if (growth != NULL) {
        length->nfc += growth->nfc - (int64_t)size;
        length->nfkc += growth->nfkc - (int64_t)size;
    }
}

#define BLOCK_BYTES 32

static bool is_ascii_block(const char *text)
{
    uint64_t words[BLOCK_BYTES / 8];

    memcpy(words, text, sizeof words);
    return ((words[0] | words[1] | words[2] | words[3]) & UINT64_C(0x8080808080808080)) == 0;
}

void normal_length_add(struct normal_length *length, const char *text, size_t n)
{
    const unsigned char *bytes = (const unsigned char *)text;

    for (size_t at = 0; at < n;) {
        size_t end = n - at > BLOCK_BYTES ? at + BLOCK_BYTES : n;
        if (end - at == BLOCK_BYTES && is_ascii_block(text + at))
            at = end;
        for (; at < end; at++)
            if (bytes[at] >= 0xc0 && (first_bytes >> (bytes[at] & 0x3f) & 1) != 0)
                add_growth_at(bytes + at, n - at, length);
    }
    length->bytes += (int64_t)n;
    length->nfc += (int64_t)n;
    length->nfkc += (int64_t)n;
}
