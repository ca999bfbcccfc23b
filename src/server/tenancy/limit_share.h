/* limit_share.h - what each of n gateways may give out of one limit while they cannot talk.
 *
 * Their shares together are the limit, or less by rounding; but nobody's share is nothing: where
 * there are more gateways than units, each has one.
 */
#ifndef TG_TENANCY_LIMIT_SHARE_H
#define TG_TENANCY_LIMIT_SHARE_H

#include "tollgate.h"

/* The limit itself for n = 1, for a limiter that is not of the library's, and where the share is
 * none that a limiter can have. */
void limit_share(const struct tg_limit *whole, int64_t n, struct tg_limit *share);

#endif
