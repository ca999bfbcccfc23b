/* user_census.h - how many users of a tenant are told apart today: `users.max`.
 *
 * A user takes a place with its first call of a day (UTC) and keeps it until the day ends. Whoever
 * comes when all places are taken is refused: its limits and budgets would take memory, and a
 * client that invents a name for each call would have limits without end. Only hashes are kept, 16
 * bytes a user and at most as much again, so the memory is bounded by `users.max`. Two names of one
 * hash would share a place, which harms nobody; the hash is seeded, so nobody can find such two.
 *
 * Each gateway counts for itself, with Redis too.
 *
 * Any thread; a struct of all zero is an empty census, but for its lock.
 */
#ifndef TG_TENANCY_USER_CENSUS_H
#define TG_TENANCY_USER_CENSUS_H

#include <pthread.h>

#include "io/text/slice.h"
#include "lib/core/hash_table.h"

struct user_census {
    pthread_mutex_t lock;
    int64_t day; /* since 1970, of the users that are in it */
    struct hash_table users;
};

void user_census_init(struct user_census *census);
void user_census_fini(struct user_census *census);

/* Whether a user has a place, or takes one now. Without memory it has one: that is no fault of its
 * own, and the tenant's limits hold all the same. */
bool user_census_take(struct user_census *census, struct slice user, int64_t max, uint64_t seed,
                      tg_ms now);

/* Whether it would have one; none is taken. */
bool user_census_peek(struct user_census *census, struct slice user, int64_t max, uint64_t seed,
                      tg_ms now);

/* When the day of `now` ends. */
tg_ms user_census_until(tg_ms now);

#endif
