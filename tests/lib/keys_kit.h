/* keys_kit.h - a ring with one pool, and short ways to lease its keys and to give them back. */
#ifndef KEYS_KIT_H
#define KEYS_KIT_H

#include "check.h"

enum { KIT_KEYS_MAX = 1000, KIT_NAME = 24 };

/* Set up by keys_init(); the specs may be changed before keys_open(). Key i is named k<i>, and its
 * owner is the address of its name. */
struct keys_kit {
    struct tg_keyring_spec spec;
    struct tg_pool_spec pool_spec; /* provider "p", model "m" */
    struct tg_key_spec keys[KIT_KEYS_MAX];
    char names[KIT_KEYS_MAX][KIT_NAME];
    struct tg_group_spec group; /* "g"; known to the ring once a key names it */
    struct tg_keyring *ring;
    struct tg_pool *pool;
    struct tg_key_answer answer; /* answer to the last acquire */
};

/* So many keys, all with these limits. */
void keys_init(struct keys_kit *kit, size_t n, struct tg_key_limits limits);
void keys_open(struct keys_kit *kit);
void keys_start(struct keys_kit *kit, size_t n, struct tg_key_limits limits); /* both */
void keys_close(struct keys_kit *kit);

/* What the specs say now is made true. */
void keys_change(struct keys_kit *kit, tg_ms now);

/* 0: no key. */
tg_key_lease keys_call(struct keys_kit *kit, const struct tg_key_call *call, tg_ms now);
tg_key_lease keys_acquire(struct keys_kit *kit, int64_t tokens, tg_ms now);

/* A call that prefers key i, and gets it: anything else fails the test. */
tg_key_lease keys_take(struct keys_kit *kit, size_t i, int64_t tokens, tg_ms now);

/* The number of the key that the last acquire got. */
size_t keys_got(const struct keys_kit *kit);

/* Must be good leases. */
void keys_end(struct keys_kit *kit, tg_key_lease lease, tg_ms now, enum tg_key_outcome outcome);
void keys_end_ok(struct keys_kit *kit, tg_key_lease lease, tg_ms now, double latency_ms);
void keys_settle(struct keys_kit *kit, tg_key_lease lease, tg_ms now, int64_t tokens);
void keys_cool(struct keys_kit *kit, tg_key_lease lease, tg_ms now, tg_ms until);
void keys_unsent(struct keys_kit *kit, tg_key_lease lease, tg_ms now);

/* One attempt on key i, begun and ended at once. */
void keys_attempt(struct keys_kit *kit, size_t i, tg_ms now, enum tg_key_outcome outcome);

struct tg_key_metrics keys_metrics(struct keys_kit *kit, size_t i, tg_ms now);

#define NO_LIMITS ((struct tg_key_limits){0, 0, 0})

#endif /* KEYS_KIT_H */
