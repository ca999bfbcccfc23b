/* keyring.h - providers, their models' pools, and the keys in them: what there is and who owns it.
 *
 *     ring --- pool (provider, model) --- cluster (keys of one group) --- key --- lease
 *       |                                    |                             |
 *       '----- group (provider, name) -------'        credential (provider, name of key)
 *
 * One lock a ring. An acquire reads and writes the key, its group, which spans pools, and the state
 * of its credential, which spans pools too; a change of the configuration touches everything. All
 * of that is consistent because it is under one lock, which is held for some fifty ns
 * (docs/decisions/0014).
 *
 * Nothing is searched when a key is acquired. Every key carries its room (quota.h), and stands on
 * the index of its cluster as long as it can serve any call at all. What can make room rise without
 * anybody's doing is a moment in time; each key and group has one next such moment, its timer, and
 * all timers that have come are looked at first. So after keyring_advance() every index is exact,
 * and "no key" is the truth.
 *
 * A cluster is live as long as it has a key on its index and its group has room for any call: a
 * group that is full takes all its keys out of their pools by one step a pool.
 *
 * Keys and groups that were taken out by a change live on, without a index and a timer, until their
 * last lease ends. Pools live as long as the ring, empty ones too: their owners hold pointers.
 */
#ifndef TG_KEYPOOL_KEYRING_H
#define TG_KEYPOOL_KEYRING_H

/* What the first versions of these structs ended with; see core/sized.h. */
#define POOL_SPEC_FIRST SIZED_TO(struct tg_pool_spec, affinity_ttl)
#define KEYRING_SPEC_FIRST SIZED_TO(struct tg_keyring_spec, chance)

enum { KEYS_MAX = 1 << 20 }; /* keys of a pool, pools and groups */

#include <pthread.h>

#include "lib/core/hash_table.h"
#include "lib/core/heap.h"
#include "lib/core/random.h"
#include "lib/core/spinlock.h"
#include "lib/keypool/affinity.h"
#include "lib/keypool/breaker.h"
#include "lib/keypool/key_lease.h"
#include "lib/keypool/quota.h"
#include "lib/keypool/room_index.h"

/* What groups, credentials and pools begin with: how they are found. The strings stand behind them,
 * in the same block. Lists of any of the three are lists of pairs; as a pair stands first in each,
 * a pointer to it is one to the whole. */
struct pair {
    const char *provider;
    const char *name;
};

/* When somebody is to be looked at again. */
struct timer {
    struct heap_node node;
    tg_ms due; /* or NEVER */
    uint64_t order;
    bool of_group;
};

/* A secret of a provider, wherever it stands. */
struct credential {
    struct pair id;
    struct timer timer; /* the next probe */
    struct key *keys;   /* in all pools, linked by next_of_credential */
    void *owner;
    tg_ms probed_at;
    uint64_t probe; /* number of the probe that is on its way; 0: none */
    bool suspended;
    bool disabled;
};

struct key_group {
    struct pair id;
    struct timer timer;
    struct quota quota;
    int64_t room;
    struct cluster *clusters; /* in all pools, linked by next_of_group */
    uint64_t leases;
    uint32_t cluster_mark; /* scratch of a change: its cluster in the pool at hand, from 1 */
    bool removed;
};

/* The keys of one group in one pool; or those without a group. */
struct cluster {
    struct room_index room_index;
    struct key_group *group; /* null: none */
    struct tg_pool *pool;
    struct cluster *next_of_group;
    uint32_t live_place; /* NOT_LIVE, or where it is among the live ones */
    uint32_t able;       /* scratch of a choice: how many of its keys can serve the call */
};

#define NOT_LIVE UINT32_MAX

struct key {
    struct timer timer;
    int64_t room;            /* ROOM_NONE: it is not on the index */
    struct cluster *cluster; /* null: it was taken out */
    struct tg_pool *pool;
    struct credential *credential; /* null: it was taken out */
    struct key *next_of_credential;
    void *owner;
    uint32_t number;   /* its place in the pool */
    uint32_t serial;   /* no other key of the ring has it; never 0 */
    double latency_ms; /* a moving average; negative: none yet */
    double spread_ms;  /* how far samples are from it, on average */
    tg_ms used_at;     /* it was last taken or given back */
    struct breaker breaker;
    uint64_t leases;
    char *name;
    struct quota quota;
};

/* What a pool consists of; replaced as a whole by a change. */
struct roster {
    struct key **keys;    /* by number: in the order of the spec */
    struct key **by_name; /* sorted */
    struct key **by_serial;
    uint32_t n_keys;
    struct cluster *clusters;
    uint32_t n_clusters;
    struct cluster **live;
    uint32_t n_live;
    struct hash_table by_owner; /* number of a key; several keys may have one owner */
};

struct tg_pool {
    struct pair id; /* provider, model */
    struct tg_keyring *ring;
    struct roster roster;
    int64_t most_tokens; /* what one key can hold; TG_NUMBER_MAX: one has no limit */
    struct breaker_rule rule;
    tg_ms affinity_ttl;
    struct affinity affinity;
    double held_ms; /* how long leases are held, a moving average */
    uint64_t acquired;
    uint64_t no_key;
    bool in_spec;
};

struct tg_keyring {
    struct spinlock lock; /* covers all that follows */
    tg_ms now;            /* the latest that was seen */
    struct heap timers;   /* keys and groups, by when they are due */
    struct random random;
    struct handles leases;
    struct pair **pools; /* sorted, as the next two */
    size_t n_pools;
    struct pair **groups;
    size_t n_groups;
    struct pair **credentials;
    size_t n_credentials;
    struct heap probes; /* timers of credentials */
    uint64_t last_probe;
    tg_ms cooldown, cooldown_max, probe_every;

    pthread_mutex_t changing; /* one change at a time; before the lock. Rosters and the three lists
                                 are written by a change alone, under both */
    uint64_t seed;
    size_t max_affinity;
    uint64_t orders; /* given out to timers, and serials to keys; under `changing` */
    uint32_t serials;
};

/* ---- key.c: rooms, indexes, timers. Under the lock. ---- */

/* Moves the ring on to `now`, looks at whatever is due, and returns the time that counts. */
tg_ms keyring_advance(struct tg_keyring *ring, tg_ms now);

/* Something has changed for the key, or the group: puts it where it now belongs. */
void key_refresh(struct key *key, tg_ms now);
void group_refresh(struct tg_keyring *ring, struct key_group *group, tg_ms now);

void timer_set(struct heap *heap, struct timer *timer, tg_ms due);
bool timer_before(const struct heap_node *a, const struct heap_node *b);

/* A cluster's index, or its group's room, has become empty, or is so no longer. */
void cluster_check(struct cluster *cluster);

static inline struct key_group *key_group_of(const struct key *key)
{
    return key->cluster ? key->cluster->group : NULL;
}

/* Whether the key can serve a call of so many tokens. Exact after keyring_advance(). */
static inline bool key_can_serve(const struct key *key, int64_t tokens)
{
    const struct key_group *group = key_group_of(key);

    return key->room >= tokens && (!group || group->room >= tokens);
}

static inline bool key_usable(const struct key *key)
{
    return !key->credential->suspended && !key->credential->disabled;
}

/* An attempt begins, of so many tokens, which the key can serve. */
void key_take(struct key *key, struct key_lease *lease, int64_t tokens, tg_ms now);

/* A sample of the time to the first byte. */
void key_note_latency(struct key *key, double latency_ms, tg_ms now);

/* ---- choose.c ---- */

/* Null: none can serve. `hash` is that of the call's affinity, if it has one. */
struct key *pool_choose(struct tg_pool *pool, const struct tg_key_call *call, uint64_t hash,
                        tg_ms now);

bool key_was_tried(const struct key *key, const struct tg_key_call *call);

/* ---- pool.c ---- */

/* A caller's call as this version knows it. Null: there is none, or its size is wrong. */
const struct tg_key_call *pool_read_call(const struct tg_key_call *call, struct tg_key_call *copy);

/* The call, with no more tokens than the largest key holds, unless what it asks for is more. */
const struct tg_key_call *pool_fit_call(const struct tg_pool *pool, const struct tg_key_call *call,
                                        struct tg_key_call *fitted);

/* What the end of a lease leaves to be freed, out of the lock: keys and groups that were taken out,
 * with their last lease. */
struct leavings {
    struct key *key;
    struct key_group *group;
};

struct leavings lease_end(struct tg_keyring *ring, struct key_lease *lease,
                          const struct tg_key_report *report, tg_ms now,
                          struct tg_key_ending *ending);
void leavings_free(struct leavings leavings);

/* When a key and its group are good again: `asked`, which may be 0, within what the ring allows. */
tg_ms cool_deadline(const struct tg_keyring *ring, tg_ms asked, tg_ms now);

/* ---- refusal.c ---- */

void pool_refuse(struct tg_pool *pool, const struct tg_key_call *call, tg_ms now,
                 struct tg_key_answer *answer);

/* ---- key_probes.c ---- */

/* An attempt that began at `at` was answered 401 or 403. */
void credential_refused(struct tg_keyring *ring, struct credential *credential, tg_ms at,
                        tg_ms now);

/* ---- keyring_check.c, keyring_change.c ---- */

enum tg_err keyring_check(const struct tg_keyring_spec *spec, struct tg_problem *problem);

int pair_compare(const char *provider, const char *name, const struct pair *with);
int pair_order(const void *a, const void *b); /* the same, for qsort() */

/* In a sorted list; null: it is not there. */
struct pair *pairs_find(struct pair *const *list, size_t n, const char *provider, const char *name);

/* What a pair is of; null of null. */
static inline struct tg_pool *pair_pool(struct pair *pair)
{
    return (struct tg_pool *)(void *)pair;
}

static inline struct key_group *pair_group(struct pair *pair)
{
    return (struct key_group *)(void *)pair;
}

static inline struct credential *pair_credential(struct pair *pair)
{
    return (struct credential *)(void *)pair;
}

/* The one of that name that has keys; null: there is none. */
static inline struct credential *keyring_credential(const struct tg_keyring *ring,
                                                    const char *provider, const char *name)
{
    struct credential *credential =
        pair_credential(pairs_find(ring->credentials, ring->n_credentials, provider, name));

    return credential && credential->keys ? credential : NULL;
}

void key_free(struct key *key);
void roster_free(struct roster *roster);

#endif
