/* remote_recent.h - what Redis last said of a limit, for the moment at which it does not answer.
 *
 * The answer to one call may be late though Redis is well, and several gateways may lose it at
 * once. Then what it said a moment ago is better than a share that knows nothing of the others:
 * who was refused stays refused until then, and of what was left each worker of each gateway
 * may give out its part.
 *
 * A direct-mapped cache of so many entries, in which a newer one replaces an older one; used by one
 * thread. Rejected: core/hash_table.h, which would grow with the number of tenants, and an eviction
 * of our own for answers that are good for two seconds.
 */
#ifndef TG_REMOTE_REMOTE_RECENT_H
#define TG_REMOTE_REMOTE_RECENT_H

#include "tollgate.h"

struct recent;

enum { RECENT_ENTRIES = 1024 }; /* a worker has so many */

/* One entry at least. Null: no memory. */
struct recent *recent_new(uint64_t seed, size_t entries);
void recent_free(struct recent *recent);

/* Whether it is for calls under this configuration, by the number of its generation: the latest
 * there was. Limits of a newer one may be others, so what was heard before it is forgotten. */
bool recent_is_for(struct recent *recent, uint64_t generation);

/* Redis has decided, or a block. */
void recent_heard(struct recent *recent, const struct tg_debit *debit, const struct tg_axes *axes,
                  tg_ms now);

/* Decides by what was heard, as one of so many workers, of all gateways; 1 at least. False: nothing
 * was, lately. */
bool recent_decide(struct recent *recent, const struct tg_debit *debit, int64_t parts, tg_ms now,
                   struct tg_axes *axes);

/* Whether a call was refused for its rate a moment ago, and may not be tried again yet: so is every
 * other of the same scopes, whatever it costs. */
bool recent_is_refused(struct recent *recent, const struct tg_debit *debit, tg_ms now,
                       struct tg_axes *axes);

/* One that was admitted so has come to nothing: what it took is there again. */
void recent_give_back(struct recent *recent, const struct tg_debit *debit);

#endif
