/* shared_parts.h - between the files of shared.h. */
#ifndef TG_REMOTE_SHARED_PARTS_H
#define TG_REMOTE_SHARED_PARTS_H

#include "server/remote/shared.h"

static inline void shared_count(struct shared *shared, enum shared_what what, enum shared_way way)
{
    atomic_fetch_add_explicit(&shared->decided[what][way], 1, memory_order_relaxed);
}

/* A debit by the names that Redis knows its scopes by. */
void shared_translate(const struct generation *generation, const struct tg_debit *what,
                      struct remote_scope room[TG_SCOPES_MAX], struct remote_debit *to);

/* How rate and cost are decided while Redis is away. Limits that are all in shadow refuse nothing
 * then either: what would be closed for them is open. */
enum shared_way shared_way_away(const struct generation *generation, const struct tg_debit *what);

/* Workers of all gateways, if they have as many each. */
size_t shared_holders(const struct shared *shared);

#endif
