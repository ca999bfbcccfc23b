/* http2_purse.h - something that a peer may do so often in one go, and so often a second. */
#ifndef TG_HTTP_HTTP2_PURSE_H
#define TG_HTTP_HTTP2_PURSE_H

#include "io/net/loop.h"

struct http2_purse {
    int64_t left, most; /* in thousandths */
    int64_t per_s;
    tg_ms at;
};

void http2_purse_init(struct http2_purse *purse, size_t most, size_t per_s, tg_ms now);

/* Some more, but never more than the most; in thousandths. */
void http2_purse_fill(struct http2_purse *purse, int64_t thousandths);

/* For one time; false: it is empty. */
bool http2_purse_pay(struct http2_purse *purse, tg_ms now);

#endif
