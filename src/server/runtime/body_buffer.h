/* body_buffer.h - the body of a request, buffered until it can be read as a whole, within what all
 * such bodies may take up together (`limits.buffered_total`).
 */
#ifndef TG_RUNTIME_BODY_BUFFER_H
#define TG_RUNTIME_BODY_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "io/text/slice.h"

struct gateway;
struct generation;

struct body_buffer {
    char *bytes;
    size_t n;    /* bytes that have arrived */
    size_t room; /* bytes allocated, with the padding that the JSON reader wants behind them */
};

/* Adds `more`, which may be empty: then there is room all the same. `length` is what the head has
 * announced; not above 0: nothing. False: there is no memory for it, and nothing has changed. */
bool body_buffer_add(struct body_buffer *body, struct gateway *gateway,
                     const struct generation *generation, int64_t length, struct slice more);

/* It is empty afterwards. */
void body_buffer_free(struct body_buffer *body, struct gateway *gateway);

#endif
