/* upstream_wait.h - how long a provider wants us to wait, in all the ways they say it. */
#ifndef TG_DIALECT_UPSTREAM_WAIT_H
#define TG_DIALECT_UPSTREAM_WAIT_H

#include "io/http/http.h"
#include "io/text/json_read.h"
#include "tollgate.h"

#define UPSTREAM_WAIT_MIN 100              /* ms: less is taken for this */
#define UPSTREAM_WAIT_MAX (10 * 60 * 1000) /* ms: more is taken for this */

/* Until when to wait; 0: the reply does not say, or nothing that makes sense. The first of these
 * that makes sense counts: retry-after-ms, x-ms-retry-after-ms, retry-after (seconds, or a date in
 * any of HTTP's three forms), then the latest of x-ratelimit-reset-requests and -tokens ("1s",
 * "6m0s", "120ms", or seconds) and anthropic-ratelimit-*-reset (RFC 3339) of those with 0
 * remaining. Names are compared without regard to case. */
tg_ms upstream_wait(const struct http_field *fields, size_t n, tg_ms now);

/* How many more requests the provider will take until its quota is full again, and when that is:
 * x-ratelimit-remaining-requests or anthropic-ratelimit-requests-remaining, with their resets.
 * False: it does not say. */
bool upstream_room(const struct http_field *fields, size_t n, tg_ms now, int64_t *room,
                   tg_ms *until);

/* A date as HTTP writes it; -1 if it is none. `now` settles the century of a year with two digits.
 * */
tg_ms upstream_date(struct slice text, tg_ms now);

/* Whether the body of an error says that money or quota is gone, which no wait will cure:
 * insufficient_quota, billing_hard_limit_reached, billing_not_active, billing_error, ... */
bool upstream_quota_exhausted(struct json_reader *reader, const char *body, size_t n,
                              size_t readable);

/* Whether the body of a 429 says that the call is too large for the account's limits, which no wait
 * will cure either, and which says nothing about other calls. */
bool upstream_too_large(struct json_reader *reader, const char *body, size_t n, size_t readable);

#endif
