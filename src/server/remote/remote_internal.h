/* remote_internal.h - what the files of this room share. See remote.h. */
#ifndef TG_REMOTE_REMOTE_INTERNAL_H
#define TG_REMOTE_REMOTE_INTERNAL_H

#include "server/remote/remote.h"

static inline void remote_count(struct remote *remote, enum remote_kind what, enum remote_mode way)
{
    atomic_fetch_add_explicit(&remote->decided[what][way], 1, memory_order_relaxed);
}

/* Translates a debit: Redis knows scopes by their names. `room` holds what `to` points to. */
void remote_translate(const struct remote_terms *terms, const struct tg_debit *debit,
                      struct remote_scope room[TG_SCOPES_MAX], struct remote_debit *to);

/* Redis says which limit it speaks of by its number; here is which that is. */
void remote_name_limiters(const struct remote_terms *terms, const struct tg_debit *debit,
                          struct tg_axes *axes);

/* How rate and cost are decided while Redis is away. Limits that are all in shadow refuse nothing
 * then either: what would be closed for them is open. */
enum remote_mode remote_mode_away(const struct remote_terms *terms, const struct tg_debit *debit);

/* The workers of all gateways, if they have as many each. */
static inline size_t remote_holders(const struct remote *remote)
{
    int workers = atomic_load_explicit(&remote->ports, memory_order_relaxed) - 1;
    long long nodes = atomic_load_explicit(&remote->nodes, memory_order_relaxed);

    return (size_t)(nodes > 0 ? nodes : 1) * (size_t)(workers > 0 ? workers : 1);
}

#endif
