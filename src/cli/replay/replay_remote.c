/* replay_remote.c - the gate of a configuration, with its rate and cost in Redis. */
#include "cli/replay/replay_remote.h"

#include <stdlib.h>

enum { CAPACITY_MIN = 64 };

/* A debit with its texts behind it, and what came of it. */
struct replay_charge {
    tg_lease lease;
    tg_ms ends_at;
    struct remote_charge charge;
    struct remote_debit debit;
    struct remote_scope scopes[];
};

/* ---- charges of open leases ---- */

static size_t replay_remote_slot_of(const struct replay_remote *remote, tg_lease lease)
{
    size_t mask = remote->capacity - 1;
    size_t at = (size_t)(lease * UINT64_C(0x9E3779B97F4A7C15) >> 20) & mask;

    while (remote->slots[at] != NULL && remote->slots[at]->lease != lease)
        at = (at + 1) & mask;
    return at;
}

/* Leases that came to their end by themselves are never told of: so when the table is half full,
 * they go, and it grows if that was not enough. */
static bool replay_remote_make_room(struct replay_remote *remote, const struct gate_run *run)
{
    struct replay_charge **old = remote->slots;
    size_t old_capacity = remote->capacity, live = 1;

    if (2 * (remote->used + 1) <= remote->capacity)
        return true;
    for (size_t i = 0; i < old_capacity; i++)
        live += old[i] != NULL && !gate_run_expired(run, old[i]->ends_at);
    size_t capacity = CAPACITY_MIN;
    while (capacity < 4 * live)
        capacity *= 2;
    struct replay_charge **slots = calloc(capacity, sizeof *slots);
    if (slots == NULL)
        return false;
    remote->slots = slots;
    remote->capacity = capacity;
    remote->used = 0;
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i] == NULL)
            continue;
        if (gate_run_expired(run, old[i]->ends_at)) {
            free(old[i]);
        } else {
            slots[replay_remote_slot_of(remote, old[i]->lease)] = old[i];
            remote->used++;
        }
    }
    free(old);
    return true;
}

/* Takes the charge of a lease out of the table; null if it has none. */
static struct replay_charge *replay_remote_take_out(struct replay_remote *remote, tg_lease lease)
{
    size_t mask = remote->capacity - 1;

    if (remote->capacity == 0)
        return NULL;
    size_t hole = replay_remote_slot_of(remote, lease);
    struct replay_charge *found = remote->slots[hole];
    if (found == NULL)
        return NULL;
    remote->slots[hole] = NULL;
    remote->used--;
    /* Whoever was moved on by the one that goes finds a place again. */
    for (size_t at = (hole + 1) & mask; remote->slots[at] != NULL; at = (at + 1) & mask) {
        struct replay_charge *moved = remote->slots[at];
        remote->slots[at] = NULL;
        remote->slots[replay_remote_slot_of(remote, moved->lease)] = moved;
    }
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
    struct replay_charge *made = replay_remote_make_room(remote, run) ? copy_debit(debit) : NULL;

    if (made == NULL)
        return TG_ERR_MEMORY;
    made->lease = lease;
    made->ends_at = ends_at;
    made->charge = *charge;
    remote->slots[replay_remote_slot_of(remote, lease)] = made;
    remote->used++;
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
    };
}

void replay_remote_fini(struct replay_remote *remote)
{
    for (size_t i = 0; i < remote->capacity; i++)
        free(remote->slots[i]);
    free(remote->slots);
    *remote = (struct replay_remote){.store = NULL};
}
