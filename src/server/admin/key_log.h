/* key_log.h - states of providers' keys that change, as lines of the log.
 *
 * The library writes no lines. So the control thread looks once a second at every key of every
 * pool, and logs what has changed since: at most one line a second for a key, and KEY_LOG_LINES for
 * all, with the number of those that are left out. What lasts for less than a second may go unseen;
 * metrics have it.
 *
 * A line names provider, key and, where the state is not the same in all pools, the model; no
 * secret is known here.
 */
#ifndef TG_ADMIN_KEY_LOG_H
#define TG_ADMIN_KEY_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "server/runtime/generation.h"

#define KEY_LOG_LINES 20

/* All zero is one that has not looked yet. */
struct key_log {
    uint64_t generation; /* whose keys `states` has; 0: none */
    uint8_t *states;     /* pool by pool, providers' first */
    size_t n, room;
    tg_ms seen_at;
};

void key_log_fini(struct key_log *key_log);

/* Looks, if it is time to. */
void key_log_update(struct key_log *key_log, struct gateway *gateway,
                    const struct generation *generation, tg_ms now);

#endif
