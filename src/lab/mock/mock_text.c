/* mock_text.c - a text that grows, for replies that are put together from templates. */
#include "lab/mock/mock_text.h"

#include <stdlib.h>

#define FIRST_BYTES 1024

void mock_text_fini(struct mock_text *text)
{
    free(text->at);
    *text = (struct mock_text){0};
}

bool mock_text_reserve(struct mock_text *text, size_t n)
{
    size_t capacity = text->capacity > 0 ? text->capacity : FIRST_BYTES;

    if (text->failed || n > SIZE_MAX / 4 || text->n > SIZE_MAX / 4)
        text->failed = true;
    if (text->failed || text->capacity - text->n >= n)
        return !text->failed;
    while (capacity - text->n < n)
        capacity *= 2;
    char *at = realloc(text->at, capacity);
    if (at == NULL) {
        text->failed = true;
        return false;
    }
    text->at = at;
    text->capacity = capacity;
    return true;
}

void mock_text_add(struct mock_text *text, const char *bytes, size_t n)
{
    if (n == 0 || !mock_text_reserve(text, n))
        return;
    memcpy(text->at + text->n, bytes, n);
    text->n += n;
}

void mock_text_put(struct mock_text *text, const char *words)
{
    mock_text_add(text, words, strlen(words));
}

void mock_text_number(struct mock_text *text, int64_t number)
{
    char digits[20];
    size_t i = sizeof digits;
    /* The smallest int64 has no positive counterpart. */
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

    do {
        digits[--i] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (number < 0)
        mock_text_add(text, "-", 1);
    mock_text_add(text, digits + i, sizeof digits - i);
}

void mock_text_hex(struct mock_text *text, uint64_t number)
{
    char digits[16];

    for (size_t i = sizeof digits; i-- > 0; number >>= 4)
        digits[i] = "0123456789abcdef"[number & 15];
    mock_text_add(text, digits, sizeof digits);
}

static void put_escaped(struct mock_text *text, unsigned char c)
{
    char escape[] = {'\\', 'u', '0', '0', "0123456789abcdef"[c >> 4], "0123456789abcdef"[c & 15]};

    if (c == '"')
        mock_text_add(text, "\\\"", 2);
    else if (c == '\\')
        mock_text_add(text, "\\\\", 2);
    else if (c == '\n')
        mock_text_add(text, "\\n", 2);
    else
        mock_text_add(text, escape, sizeof escape);
}

void mock_text_json(struct mock_text *text, const char *bytes, size_t n)
{
    size_t plain = 0;

    mock_text_add(text, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        mock_text_add(text, bytes + plain, i - plain);
        put_escaped(text, c);
        plain = i + 1;
    }
    mock_text_add(text, bytes + plain, n - plain);
    mock_text_add(text, "\"", 1);
}
