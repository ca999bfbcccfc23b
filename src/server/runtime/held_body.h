/* held_body.h - the body of a request, held until it can be read as a whole, within what all of
 * them may hold together (`limits.buffered_total`).
 */
#ifndef GATEWAY_HELD_BODY_H
#define GATEWAY_HELD_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include "io/text/slice.h"

struct gateway;
struct generation;

struct held_body {
    char *bytes;
    size_t n, room; /* room: of `bytes`, with what the JSON reader wants behind them */
};

/* Adds `more`, which may be empty: then there is room all the same. `length` is what the head has
 * announced; not above 0: nothing. False: there is no memory for it, and nothing has changed. */
bool held_body_add(struct held_body *body, struct gateway *gateway,
                   const struct generation *generation, int64_t length, struct slice more);

/* It is empty afterwards. */
void held_body_free(struct held_body *body, struct gateway *gateway);

#endif
