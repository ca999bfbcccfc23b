/* replay_remote.c - the gate of a configuration, with its rate and cost in Redis. */
#include "cli/replay/replay_remote.h"

#include <assert.h>
#include <stdlib.h>

enum { PURGE_MIN = 64 };

/* A debit with its texts behind it, and what came of it. */
struct replay_charge {
    tg_lease lease;
    tg_ms ends_at;
    struct remote_charge charge;
    struct remote_debit debit;
    struct remote_scope scopes[];
};

/* ---- charges of open leases ---- */

/* The slot of a lease's charge; null if it has none. */
static struct hash_slot *find_charge(const struct replay_remote *remote, tg_lease lease)
{
    struct hash_slot *slot = hash_table_find(&remote->charges, hash_number(lease));

    while (slot != NULL && ((const struct replay_charge *)slot->item)->lease != lease)
        slot = hash_table_find_next(&remote->charges, slot);
    return slot;
}

/* The run does not report leases that expire by themselves. Their charges are removed whenever the
 * table has twice as many as were left the last time. */
static void purge(struct replay_remote *remote, const struct gate_run *run)
{
    struct hash_slot *slot = hash_table_first(&remote->charges);

    if (remote->charges.n < remote->purge_at)
        return;
    while (slot != NULL) {
        struct replay_charge *charge = slot->item;
        if (gate_run_expired(run, charge->ends_at)) {
            hash_table_remove(&remote->charges, slot);
            free(charge);
            slot = hash_table_at_or_after(&remote->charges, slot);
        } else {
            slot = hash_table_after(&remote->charges, slot);
        }
    }
    remote->purge_at = remote->charges.n < PURGE_MIN / 2 ? PURGE_MIN : 2 * remote->charges.n;
    assert(remote->charges.n < remote->purge_at);
}

/* Takes the charge of a lease out of the table; null if it has none. */
static struct replay_charge *replay_remote_take_out(struct replay_remote *remote, tg_lease lease)
{
    struct hash_slot *slot = find_charge(remote, lease);
    struct replay_charge *found = slot != NULL ? slot->item : NULL;

    if (slot != NULL)
        hash_table_remove(&remote->charges, slot);
    return found;
}

static struct slice replay_remote_copy_text(char **to, struct slice text)
{
    struct slice copy = {*to, text.n};

    if (text.n > 0)
        memcpy(*to, text.at, text.n);
    *to += text.n;
    return copy;
}

/* Names of scopes and their limits are the configuration's, and stay. */
static struct replay_charge *copy_debit(const struct remote_debit *debit)
{
    size_t bytes = debit->root.n;

    for (size_t i = 0; i < debit->n_scopes; i++)
        bytes += debit->scopes[i].key.n;
    size_t scopes = debit->n_scopes * sizeof(struct remote_scope);
    struct replay_charge *made = malloc(sizeof *made + scopes + bytes);
    if (made == NULL)
        return NULL;
    char *text = (char *)made->scopes + scopes;
    made->debit = *debit;
    made->debit.root = replay_remote_copy_text(&text, debit->root);
    made->debit.scopes = made->scopes;
    for (size_t i = 0; i < debit->n_scopes; i++) {
        made->scopes[i] = debit->scopes[i];
        made->scopes[i].key = replay_remote_copy_text(&text, debit->scopes[i].key);
    }
    return made;
}

static enum tg_err replay_remote_keep(struct replay_remote *remote, const struct gate_run *run,
                                      tg_lease lease, tg_ms ends_at,
                                      const struct remote_debit *debit,
                                      const struct remote_charge *charge)
{
    struct replay_charge *made;

    purge(remote, run);
    made = hash_table_reserve(&remote->charges, remote->charges.n + 1) == TG_OK ? copy_debit(debit)
                                                                                : NULL;

    if (made == NULL)
        return TG_ERR_MEMORY;
    made->lease = lease;
    made->ends_at = ends_at;
    made->charge = *charge;
    assert(find_charge(remote, lease) == NULL); /* a lease is charged once */
    hash_table_insert(&remote->charges, hash_number(lease))->item = made;
    return TG_OK;
}

/* ---- the hook ---- */

/* True: a limit on the cost axis is among them. */
static bool translate(const struct replay_remote *remote, const struct tg_debit *from,
                      struct remote_scope room[TG_SCOPES_MAX], struct remote_debit *to)
{
    bool has_cost = false;

    *to = (struct remote_debit){
        .scopes = room,
        .n_scopes = from->n_scopes,
        .cost = from->cost,
        .charging = from->charging,
        .root = {from->root, from->root_bytes},
    };
    if (from->root == NULL)
        to->root = (struct slice){from->scopes[0].key, from->scopes[0].key_bytes};
    for (size_t i = 0; i < from->n_scopes; i++) {
        const struct limit_listed *listed = &remote->listing->sets[from->scopes[i].limits];
        room[i] = (struct remote_scope){
            .name = listed->name,
            .key = {from->scopes[i].key, from->scopes[i].key_bytes},
            .limits = listed->limits,
            .n = listed->n,
        };
        for (size_t k = 0; k < listed->n; k++)
            has_cost |= listed->limits[k].axis == TG_AXIS_COST;
    }
    return has_cost;
}

static enum tg_err replay_remote_take(void *context, const struct gate_run *run, tg_lease lease,
                                      tg_ms ends_at, const struct tg_debit *debit, tg_ms now,
                                      struct tg_axes *axes, bool *settles)
{
    struct replay_remote *remote = context;
    struct remote_scope room[TG_SCOPES_MAX];
    struct remote_debit to;
    struct remote_charge charge;

    *settles = translate(remote, debit, room, &to);
    enum tg_err err = replay_store_take(remote->store, &to, now, axes, &charge);
    if (err == TG_OK && *settles && tg_axes_binding(axes) == TG_AXIS_NONE)
        err = replay_remote_keep(remote, run, lease, ends_at, &to, &charge);
    return err;
}

static void ended(void *context, tg_lease lease, tg_ms now, int64_t actual)
{
    struct replay_remote *remote = context;
    struct replay_charge *found = replay_remote_take_out(remote, lease);

    if (found != NULL && actual >= 0)
        replay_store_settle(remote->store, &found->debit, now, &found->charge,
                            actual < TG_NUMBER_MAX ? actual : TG_NUMBER_MAX);
    free(found);
}

void replay_remote_init(struct replay_remote *remote, struct replay_store *store,
                        const struct limit_listing *listing)
{
    *remote = (struct replay_remote){
        .hook = {replay_remote_take, ended, remote},
        .store = store,
        .listing = listing,
        .purge_at = PURGE_MIN,
    };
}

void replay_remote_fini(struct replay_remote *remote)
{
    const struct hash_slot *slot = hash_table_first(&remote->charges);

    for (; slot != NULL; slot = hash_table_after(&remote->charges, slot))
        free(slot->item);
    hash_table_fini(&remote->charges);
    *remote = (struct replay_remote){.store = NULL};
}
