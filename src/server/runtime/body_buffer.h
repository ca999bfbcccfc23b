/* body_buffer.h - the body of a request, buffered until it can be read as a whole, within what all
 * such bodies may take up together (`limits.buffered_total`) and each tenant's part of it.
 */
#ifndef TG_RUNTIME_BODY_BUFFER_H
#define TG_RUNTIME_BODY_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "io/text/slice.h"

struct gateway;
struct generation;
struct refusal;
struct tenant_share;
struct text_out;

struct body_buffer {
    char *bytes;
    size_t n;    /* bytes that have arrived */
    size_t room; /* bytes allocated, with the padding that the JSON reader wants behind them */
    struct tenant_share *share; /* where they are counted; null: there are none */
};

/* Whether there is room for a body. */
enum body_room {
    BODY_FITS,
    BODY_SHARE_FULL, /* the tenant has its part of what all bodies may take up */
    BODY_ALL_FULL,   /* all bodies together take up what they may */
    BODY_NO_MEMORY,  /* the system has none */
};

/* Adds `more`, which may be empty: then there is room all the same. `length` is what the head has
 * announced; not above 0: nothing. The share, always the same, is held by whoever holds the body.
 * If it does not fit, nothing has changed. */
enum body_room body_buffer_add(struct body_buffer *body, struct gateway *gateway,
                               const struct generation *generation, struct tenant_share *share,
                               int64_t length, struct slice more);

/* Makes a text the body of an empty buffer, without a copy; it is empty afterwards. If it does not
 * fit, nothing has changed. */
enum body_room body_buffer_take(struct body_buffer *body, struct gateway *gateway,
                                const struct generation *generation, struct tenant_share *share,
                                struct text_out *text);

/* What is answered where it does not fit. `whose` the share is: "tenant a", "callers". */
void body_buffer_refusal(enum body_room room, const char *whose, struct refusal *why);

/* It is empty afterwards. */
void body_buffer_free(struct body_buffer *body, struct gateway *gateway);

#endif
