/* disabled_keys.c - keys of providers that an operator has taken out of use: see the header. */
#include "server/upstream/disabled_keys.h"

#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"
#include "lib/core/problem.h"
#include "server/ledger/ledger_admin.h"

static void disabled_key_free(struct disabled_key *key)
{
    free(key->provider);
    free(key->name);
}

void disabled_keys_fini(struct disabled_keys *keys)
{
    for (size_t i = 0; i < keys->n; i++)
        disabled_key_free(&keys->list[i]);
    free(keys->list);
    *keys = (struct disabled_keys){0};
}

bool disabled_keys_set(struct disabled_keys *keys, const char *provider, const char *name,
                       bool disabled)
{
    size_t i = 0;

    while (i < keys->n &&
           (strcmp(keys->list[i].provider, provider) != 0 || strcmp(keys->list[i].name, name) != 0))
        i++;
    if ((i < keys->n) == disabled)
        return true;
    if (!disabled) {
        disabled_key_free(&keys->list[i]);
        keys->list[i] = keys->list[--keys->n];
        return true;
    }
    struct disabled_key key = {strdup(provider), strdup(name)};
    if (key.provider == NULL || key.name == NULL ||
        !array_reserve(&keys->list, &keys->room, keys->n + 1)) {
        disabled_key_free(&key);
        return false;
    }
    keys->list[keys->n++] = key;
    return true;
}

bool disabled_keys_load(struct disabled_keys *keys, struct ledger *ledger,
                        struct tg_problem *problem)
{
    struct ledger_admin all;
    bool loaded = true;

    if (!ledger_admin_read(ledger, &all, problem))
        return false;
    for (size_t i = 0; loaded && i < all.n_disabled; i++)
        loaded = disabled_keys_set(keys, all.disabled[i].provider, all.disabled[i].name, true);
    ledger_admin_free(&all);
    return loaded || problem_fail(problem, "keys: no memory");
}

void disabled_keys_apply(const struct disabled_keys *keys, struct tg_keyring *ring, tg_ms now)
{
    for (size_t i = 0; i < keys->n; i++)
        (void)tg_keyring_enable(ring, keys->list[i].provider, keys->list[i].name, false, now);
}
