/* keyring_plan.h - what a ring is going to be, made beside it: see keyring_change.c.
 *
 * After the change the plan holds what the ring no longer needs.
 */
#ifndef TG_KEYPOOL_KEYRING_PLAN_H
#define TG_KEYPOOL_KEYRING_PLAN_H

#include "lib/keypool/keyring.h"

struct key_plan {
    const struct tg_key_spec *spec;
    struct key *key;
    struct credential *credential;
    struct key_group *group;
    uint32_t cluster;
    bool fresh;
};

struct pool_plan {
    const struct tg_pool_spec *spec; /* null: the pool is taken out */
    struct tg_pool *pool;
    bool fresh;
    struct key_plan *keys;
    struct roster roster;     /* the new one; after the change, the old one */
    struct affinity affinity; /* the same */
    bool changes_affinity;
};

struct group_plan {
    const struct tg_group_spec *spec;
    struct key_group *group;
    bool fresh;
};

struct credential_plan {
    struct credential *credential;
    bool fresh;
};

struct plan {
    struct tg_keyring *ring;
    const struct tg_keyring_spec *spec;
    struct pool_plan *pools; /* those of the spec, then those that are taken out */
    size_t n_pools, n_planned_pools;
    struct group_plan *groups;
    size_t n_groups;
    struct credential_plan *credentials;
    size_t n_credentials;

    /* What the ring is going to have; after the change, what it had. */
    struct pair **pool_list;
    struct pair **group_list;
    struct pair **credential_list; /* with room for all it has now */
    size_t n_pool_list, n_group_list, n_credential_list;
    struct heap_node **timer_nodes, **probe_nodes;
    size_t n_timers, n_probes;
};

/* False: no memory; keyring_plan_discard() and keyring_plan_fini() are still to be called. */
bool keyring_plan(struct plan *plan);

/* Frees what was made for a change that does not happen. */
void keyring_plan_discard(struct plan *plan);

/* Frees the plan's own lists, and the rosters and maps that it holds now. */
void keyring_plan_fini(struct plan *plan);

/* Compares two pairs, given by pointers to pointers to them: for qsort() of a list. */
int keyring_plan_order(const void *a, const void *b);

#endif
