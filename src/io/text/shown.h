/* shown.h - what was found in an input, fit to stand in a message.
 *
 * An input may come from anywhere: what is printed of it must not command a terminal, nor fill it.
 */
#ifndef TG_TEXT_SHOWN_H
#define TG_TEXT_SHOWN_H

#include <string.h>

struct shown {
    char text[48];
};

static inline struct shown shown_of(const char *bytes, size_t size)
{
    struct shown shown;
    size_t n = 0;

    for (; n < size && n < 40; n++)
        shown.text[n] = bytes[n] >= ' ' && bytes[n] <= '~' ? bytes[n] : '?';
    strcpy(shown.text + n, n < size ? "..." : "");
    return shown;
}

#endif
