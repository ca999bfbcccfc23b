/* run.h - how far bytes go without either of two: strings to their quote, lines to their end.
 *
 * Nearly all that passes through is in strings and lines, so eight are looked at at a time. Two
 * calls of memchr() would be shorter, but each may have to go to the end of all that there is, for
 * every short line of it.
 */
#ifndef TG_TEXT_RUN_H
#define TG_TEXT_RUN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How many bytes from here on are neither `a` nor `b`, which are ASCII. A byte of (x - 1) & ~x has
 * its top bit set if x is 0, and above the first such byte perhaps others. */
static inline size_t run_without(const char *bytes, size_t n, char a, char b)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        uint64_t x = word ^ ones * (unsigned char)a;
        uint64_t y = word ^ ones * (unsigned char)b;
        uint64_t found = (((x - ones) & ~x) | ((y - ones) & ~y)) & ones << 7;
        if (found == 0)
            continue;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        return i + (size_t)__builtin_ctzll(found) / 8;
#else
        break;
#endif
    }
    while (i < n && bytes[i] != a && bytes[i] != b)
        i++;
    return i;
}

#endif
