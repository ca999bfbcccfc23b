/* store_save.h - what a store has counted, for another process that takes over from this one.
 *
 *     old:  store_save(store, moved, context, &bytes, &n)     and moved() from then on
 *     new:  store_load(store, bytes, n, sets, n_sets, now)    then store_apply() for each moved()
 *
 * Keys are known by their hashes, so both stores must have the same seed, and as many shards.
 * Sets of limits have numbers of their own in each: `sets` says which is which.
 *
 * Not in tollgate.h: the bytes are for the same build of the library on the same machine.
 */
#ifndef TG_STORE_STORE_SAVE_H
#define TG_STORE_STORE_SAVE_H

#include "lib/store/store.h"

/* What was charged, given back or settled, from any thread, after the fact. */
typedef void store_moved_fn(void *context, const void *bytes, size_t n);

/* Copies everything, in one step for all keys, and follows what comes after. The bytes are to be
 * freed. TG_ERR_MEMORY: nothing is followed. */
enum tg_err store_save(struct tg_store *store, store_moved_fn *moved, void *context, char **bytes,
                       size_t *n);
void store_unfollow(struct tg_store *store);

/* What a set of the other store is here. */
struct store_set {
    tg_limits there, here;                 /* here 0: there is none any more */
    struct tg_limit limits[TG_LIMITS_MAX]; /* those that it has there */
    size_t n;
};

/* Adds what was saved to a store that has counted nothing. What has other limits here goes on as
 * with tg_store_redefine(). What does not fit, since the store is smaller, is left out. */
enum tg_err store_load(struct tg_store *store, const char *bytes, size_t n,
                       const struct store_set *sets, size_t n_sets, tg_ms now);

/* Does the same as the other store has done, whether it would be allowed here or not. */
void store_apply(struct tg_store *store, const void *bytes, size_t n, const struct store_set *sets,
                 size_t n_sets, tg_ms now);

#endif
