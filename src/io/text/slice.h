/* slice.h - some bytes of somebody else's.
 *
 * What arrives over a network, and what is cut out of it, is neither ended by a zero nor ours to
 * end: a place and a length say it all, and nothing is copied to be passed on.
 */
#ifndef TG_TEXT_SLICE_H
#define TG_TEXT_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Not ended by a zero. */
struct slice {
    const char *at;
    size_t n;
};

/* A slice of a literal, also in initialisers of static tables. */
#define SLICE(literal) ((struct slice){(literal), sizeof(literal) - 1})

static inline struct slice slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.at, b.at, a.n) == 0);
}

static inline bool slice_begins(struct slice text, struct slice with)
{
    return text.n >= with.n && memcmp(text.at, with.at, with.n) == 0;
}

/* The same text, or none both times. */
static inline bool text_same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

#endif
