/* remote_name.h - names of Redis' keys, made of names that others chose.
 *
 * The part of a name in braces decides the slot, and colons divide it: in what a tenant, a model or
 * a user is called, these and what could be taken for them are written as %XX. So different names
 * never make the same key, and nobody's name moves it to another slot.
 */
#ifndef TG_REMOTE_STORE_REMOTE_NAME_H
#define TG_REMOTE_STORE_REMOTE_NAME_H

#include "io/text/slice.h"

/* Text in somebody's storage. `n` may exceed `room`: then it did not fit, and is cut. */
struct remote_text {
    char *at;
    size_t room, n;
};

/* Appends text unchanged. */
void remote_text_put(struct remote_text *text, struct slice more);

/* Appends a name, escaped: '%', '{', '}', ':', and what is not printable. Of nothing: "%". */
void remote_text_name(struct remote_text *text, struct slice name);

static inline bool remote_text_fits(const struct remote_text *text)
{
    return text->n <= text->room;
}

#endif
