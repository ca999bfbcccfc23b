/* disabled_keys.h - keys of providers that an operator has taken out of use.
 *
 * They stand in the ledger's database, and here, so that every configuration begins with them: one
 * that leaves a key out and one that has it again do not turn it on. A key that is out of use takes
 * no call and no retry; calls that have it finish.
 *
 * The gateway's `ring_changes` covers it.
 */
#ifndef TG_UPSTREAM_DISABLED_KEYS_H
#define TG_UPSTREAM_DISABLED_KEYS_H

#include "server/ledger/ledger.h"

struct disabled_key {
    char *provider, *name;
};

/* All zero is an empty one. */
struct disabled_keys {
    struct disabled_key *list;
    size_t n, room;
};

/* What the ledger has. */
bool disabled_keys_load(struct disabled_keys *keys, struct ledger *ledger,
                        struct tg_problem *problem);
void disabled_keys_fini(struct disabled_keys *keys);

/* Puts one in, or takes it out; no change if that is so already. False: no memory. */
bool disabled_keys_set(struct disabled_keys *keys, const char *provider, const char *name,
                       bool disabled);

/* Takes them out of use in a ring that may have got new ones. */
void disabled_keys_apply(const struct disabled_keys *keys, struct tg_keyring *ring, tg_ms now);

#endif
