/* shared_parts.h - between the files of shared.h. */
#ifndef TG_GATEWAY_SHARED_PARTS_H
#define TG_GATEWAY_SHARED_PARTS_H

#include "gateway/shared.h"

static inline void shared_count(struct shared *shared, enum shared_what what, enum shared_way way)
{
    atomic_fetch_add_explicit(&shared->decided[what][way], 1, memory_order_relaxed);
}

/* Workers of all gateways, if they have as many each. */
size_t shared_holders(const struct shared *shared);

#endif
