/* media_size.c - how large an image or recording in a body is, read from the head of its base64.
 *
 * Only heads are decoded, byte by byte where they are needed: a photograph of 5 MB costs some
 * hundred steps. Decoders differ in what they do with characters that are no base64 (some skip
 * them, and then read another file than we did), so all that was passed over must be base64.
 *
 * A head can lie. What is read here is what common decoders take: of a PNG the largest IHDR before
 * the image, of a JPEG the largest frame before the first scan, of a GIF the larger of its screen
 * and its first frame, of a WebP its canvas.
 */
#include "server/dialect/media_size.h"

#include <string.h>

#define MEDIA_STEPS_MAX 512       /* chunks or segments in front of the image */
#define MEDIA_HEAD_MAX (64 << 10) /* bytes in front of it: profiles and thumbnails fit */
#define MP3_BYTES_PER_S 1000      /* 8 kbit/s, the lowest rate of any layer III */
#define WAV_BYTES_PER_S 4000      /* slower than this nobody records speech */

struct base64 {
    const unsigned char *text;
    size_t n;        /* decoded bytes */
    size_t furthest; /* decoded bytes that were looked at or passed over */
    bool broken;
};

static int base64_value(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static bool base64_open(struct base64 *file, const char *text, size_t n)
{
    if (n >= 5 && memcmp(text, "data:", 5) == 0) {
        const char *comma = memchr(text, ',', n < 256 ? n : 256);
        if (comma == NULL || comma - text < 12 || memcmp(comma - 7, ";base64", 7) != 0)
            return false;
        n -= (size_t)(comma + 1 - text);
        text = comma + 1;
    }
    *file = (struct base64){(const unsigned char *)text, n / 4 * 3, 0, false};
    return file->n > 0;
}

/* The byte at `at`, or 0 with `broken`. */
static uint32_t base64_byte(struct base64 *file, size_t at)
{
    const unsigned char *text = file->text + at / 3 * 4;

    if (at >= file->n || at >= MEDIA_HEAD_MAX) {
        file->broken = true;
        return 0;
    }
    if (at >= file->furthest)
        file->furthest = at + 1;
    int high = base64_value(text[at % 3]), low = base64_value(text[at % 3 + 1]);
    if (high < 0 || low < 0) {
        file->broken = true;
        return 0;
    }
    int shift = 2 * (int)(at % 3); /* bits that the byte leaves to its first character: 6, 4, 2 */
    return (uint32_t)((high << (2 + shift) | low >> (4 - shift)) & 0xff);
}

/* A number of `bytes` bytes, the highest first. */
static uint32_t big(struct base64 *file, size_t at, size_t bytes)
{
    uint32_t x = 0;

    for (size_t i = 0; i < bytes; i++)
        x = x << 8 | base64_byte(file, at + i);
    return x;
}

static uint32_t little(struct base64 *file, size_t at, size_t bytes)
{
    uint32_t x = 0;

    for (size_t i = bytes; i-- > 0;)
        x = x << 8 | base64_byte(file, at + i);
    return x;
}

static bool base64_is(struct base64 *file, size_t at, const char *word)
{
    for (size_t i = 0; word[i] != '\0'; i++)
        if (base64_byte(file, at + i) != (unsigned char)word[i])
            return false;
    return !file->broken;
}

/* Whether all that was read or passed over is base64. */
static bool base64_whole(const struct base64 *file)
{
    for (size_t i = 0; i < (file->furthest + 2) / 3 * 4; i++)
        if (base64_value(file->text[i]) < 0)
            return false;
    return !file->broken;
}

struct sides {
    uint32_t width, height;
};

static void sides_take(struct sides *sides, uint32_t width, uint32_t height)
{
    sides->width = width > sides->width ? width : sides->width;
    sides->height = height > sides->height ? height : sides->height;
}

/* ---- Formats --------------------------------------------------------------------------------- */

static void png_sides(struct base64 *file, struct sides *sides)
{
    size_t at = 8;

    for (int i = 0; i < MEDIA_STEPS_MAX && !file->broken; i++) {
        if (base64_is(file, at + 4, "IHDR"))
            sides_take(sides, big(file, at + 8, 4), big(file, at + 12, 4));
        else if (base64_is(file, at + 4, "IDAT"))
            return;
        at += 12 + (size_t)big(file, at, 4);
    }
    file->broken = true;
}

static void jpeg_sides(struct base64 *file, struct sides *sides)
{
    size_t at = 2;

    for (int i = 0; i < MEDIA_STEPS_MAX && !file->broken; i++) {
        uint32_t marker = base64_byte(file, at + 1);
        if (base64_byte(file, at) != 0xff)
            break;
        if (marker == 0xff) { /* padding */
            at++;
            continue;
        }
        if (marker == 0xda)
            return;
        if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc)
            sides_take(sides, big(file, at + 7, 2), big(file, at + 5, 2));
        at += 2 + (size_t)big(file, at + 2, 2);
    }
    file->broken = true;
}

static void gif_sides(struct base64 *file, struct sides *sides)
{
    uint32_t flags = base64_byte(file, 10);
    size_t at = 13 + ((flags & 0x80) != 0 ? (size_t)3 << ((flags & 7) + 1) : 0);

    sides_take(sides, little(file, 6, 2), little(file, 8, 2));
    for (int i = 0; i < MEDIA_STEPS_MAX && !file->broken; i++) {
        uint32_t block = base64_byte(file, at);
        if (block == 0x2c) {
            sides_take(sides, little(file, at + 1, 2) + little(file, at + 5, 2),
                       little(file, at + 3, 2) + little(file, at + 7, 2));
            return;
        }
        if (block != 0x21)
            break;
        at += 2;
        for (uint32_t n = 1; n > 0 && !file->broken && i < MEDIA_STEPS_MAX; i++) {
            n = base64_byte(file, at);
            at += 1 + n;
        }
    }
    file->broken = true;
}

static void webp_sides(struct base64 *file, struct sides *sides)
{
    if (base64_is(file, 12, "VP8X")) {
        sides_take(sides, little(file, 24, 3) + 1, little(file, 27, 3) + 1);
    } else if (base64_is(file, 12, "VP8L") && base64_byte(file, 20) == 0x2f) {
        uint32_t bits = little(file, 21, 4);
        sides_take(sides, (bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1);
    } else if (base64_is(file, 12, "VP8 ") && little(file, 23, 3) == 0x2a019d) {
        sides_take(sides, little(file, 26, 2) & 0x3fff, little(file, 28, 2) & 0x3fff);
    } else {
        file->broken = true;
    }
}

/* ---- The interface --------------------------------------------------------------------------- */

bool media_image_size(const char *text, size_t n, uint32_t *width, uint32_t *height)
{
    struct base64 file;
    struct sides sides = {0, 0};

    if (!base64_open(&file, text, n))
        return false;
    if (base64_is(&file, 0, "\x89PNG\r\n\x1a\n"))
        png_sides(&file, &sides);
    else if (base64_is(&file, 0, "\xff\xd8\xff"))
        jpeg_sides(&file, &sides);
    else if (base64_is(&file, 0, "GIF8"))
        gif_sides(&file, &sides);
    else if (base64_is(&file, 0, "RIFF") && base64_is(&file, 8, "WEBP"))
        webp_sides(&file, &sides);
    if (!base64_whole(&file) || sides.width == 0 || sides.height == 0)
        return false;
    *width = sides.width;
    *height = sides.height;
    return true;
}

/* PCM and its like: as many bytes a second as rate, channels and width say. */
static int64_t wav_bytes_per_s(struct base64 *file)
{
    uint32_t format = little(file, 20, 2);
    int64_t sample_bytes = (int64_t)little(file, 22, 2) * little(file, 34, 2) / 8;
    int64_t bytes = (int64_t)little(file, 24, 4) * sample_bytes;

    if (!base64_is(file, 12, "fmt ") || (format != 1 && format != 3 && format != 6 && format != 7))
        return 0;
    return base64_whole(file) && bytes >= WAV_BYTES_PER_S ? bytes : 0;
}

int64_t media_audio_ms(const char *text, size_t n)
{
    struct base64 file;
    int64_t per_s = 0;

    if (!base64_open(&file, text, n))
        return -1;
    if (base64_is(&file, 0, "RIFF") && base64_is(&file, 8, "WAVE"))
        per_s = wav_bytes_per_s(&file);
    else if (base64_is(&file, 0, "ID3") ||
             (base64_byte(&file, 0) == 0xff && (base64_byte(&file, 1) & 0xe6) == 0xe2))
        per_s = base64_whole(&file) ? MP3_BYTES_PER_S : 0;
    return per_s > 0 ? ((int64_t)n * 1000 + per_s - 1) / per_s : -1;
}
