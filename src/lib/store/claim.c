/* claim.c - looking at, debiting, refunding and settling several limits in one critical section.
 *
 * A claim is decided under the lock of its root's shard: find the entries, peek every limit,
 * combine; if all allow, make the entries that are missing, and take. Everything that can fail
 * comes before the first take, so a claim that ends in an error has charged nothing.
 *
 * A key that is not there answers as its set's fresh states do. It gets an entry only when it is
 * charged: calls that are refused, and peeks, cost no memory.
 */
#include "lib/store/claim.h"

#include <assert.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/decision.h"
#include "lib/core/num.h"

enum { RATE = 1u << TG_AXIS_RATE, COST = 1u << TG_AXIS_COST };

/* One scope of a claim, once the shard is locked. */
struct place {
    const struct limit_set *set;
    struct table_slot *slot; /* null: the key has no entry */
};

/* A claim at work: its shard is locked. */
struct work {
    struct tg_store *store;
    struct shard *shard;
    struct claim *claim;
    tg_ms now;
    struct place places[TG_SCOPES_MAX];
};

/* ---- making ---- */

static bool is_valid(const struct tg_debit *debit)
{
    return num_in_range(debit->cost) && debit->scopes && debit->n_scopes >= 1 &&
           debit->n_scopes <= TG_SCOPES_MAX && (!debit->root_bytes || debit->root) &&
           (debit->charging == TG_CHARGE_ATOMIC || debit->charging == TG_CHARGE_PER_AXIS);
}

enum tg_err claim_make(const struct tg_store *store, const struct tg_debit *debit,
                       struct claim *claim)
{
    if (!is_valid(debit))
        return TG_ERR_INVALID;
    if (debit->root)
        claim->shard = store_shard_of(
            store, XXH3_128bits_withSeed(debit->root, debit->root_bytes, store->seed).high64);
    claim->has_cost = claim->any_shadow = false;
    for (size_t i = 0; i < debit->n_scopes; i++) {
        const struct tg_scope *scope = &debit->scopes[i];
        const struct limit_set *set = limit_sets_get(&store->common.sets, scope->limits);

        if (!scope->key && scope->key_bytes > 0)
            return TG_ERR_NULL;
        XXH128_hash_t hash = XXH3_128bits_withSeed(scope->key, scope->key_bytes, store->seed);
        if (i == 0 && !debit->root)
            claim->shard = store_shard_of(store, hash.high64);
        if (!set)
            return TG_ERR_UNKNOWN;
        claim->has_cost |= set->any_cost;
        claim->any_shadow |= set->any_shadow;
        claim->uncharged[i] = set->shadows;
        claim->ids[i] = table_id(hash.low64, hash.high64, scope->limits);
    }
    claim->n = (uint16_t)debit->n_scopes;
    claim->charging = (uint8_t)debit->charging;
    claim->cost = debit->cost;
    return TG_OK;
}

void claim_copy(struct claim *to, const struct claim *from)
{
    memcpy(to, from, offsetof(struct claim, ids) + from->n * sizeof from->ids[0]);
}

void claim_prefetch(const struct tg_store *store, const struct claim *claim)
{
    for (size_t i = 0; i < claim->n; i++)
        table_prefetch(&store->shards[claim->shard].table, claim->ids[i].hash);
}

/* ---- finding ---- */

static void find_all(struct work *work)
{
    for (size_t i = 0; i < work->claim->n; i++)
        work->places[i].slot = table_find(&work->shard->table, work->claim->ids[i]);
}

static void claim_begin(struct work *work, struct tg_store *store, struct claim *claim, tg_ms now)
{
    work->store = store;
    work->shard = &store->shards[claim->shard];
    work->claim = claim;
    work->now = now;
    spin_lock(&work->shard->lock);
    for (size_t i = 0; i < claim->n; i++)
        work->places[i].set = limit_sets_get(&store->common.sets, table_id_set(claim->ids[i]));
    find_all(work);
}

static void claim_end(struct work *work)
{
    spin_unlock(&work->shard->lock);
}

/* The same for who has changed something, which is told to whoever follows. */
static void claim_end_moved(struct work *work, enum claim_move move, unsigned mask,
                            tg_ms charged_at, int64_t actual)
{
    void (*moved)(void *context, const void *bytes, size_t n) = work->store->moved;
    void *context = work->store->moved_context;

    claim_end(work);
    if (moved == NULL)
        return;
    struct claim_moved what;
    memset(&what, 0, sizeof what);
    what.move = move;
    what.mask = mask;
    what.at = work->now;
    what.charged_at = charged_at;
    what.actual = actual;
    claim_copy(&what.claim, work->claim);
    moved(context, &what, sizeof what);
}

/* The state of limit i of a scope that has an entry. */
static void *state_of(const struct place *place, size_t i)
{
    assert(place->slot && i < place->set->n);
    return limit_set_state(place->set, limit_set_states(place->set, place->slot), i);
}

static void peek_one(const struct place *place, size_t i, tg_ms now, int64_t units,
                     struct tg_decision *answer)
{
    const struct tg_limiter *limiter = &place->set->limits[i].limiter;
    const void *state =
        place->slot ? state_of(place, i) : limit_set_state(place->set, place->set->fresh, i);

    limiter->ops->peek(limiter, state, now, units, answer);
}

/* ---- peeking ---- */

/* Combines the answers of all limits on the axes of `mask`, and finds the one of each axis to speak
 * of. Once it is known that the call is refused, a limit that would have allowed it is reported as
 * it stands, since it is not charged. */
static void claim_combine(const struct work *work, unsigned mask, bool refused,
                          struct tg_axes *axes)
{
    axes->present &= ~mask;
    for (size_t p = 0; p < work->claim->n; p++) {
        const struct place *place = &work->places[p];
        for (size_t i = 0; i < place->set->n; i++) {
            const struct tg_limit *limit = &place->set->limits[i];
            struct tg_limit_answer one;

            if (!(mask & 1u << limit->axis))
                continue;
            peek_one(place, i, work->now, limit_units(limit, work->claim->cost), &one.decision);
            if (!one.decision.allowed && limit->mode == TG_SHADOW) {
                axes->would_deny |= 1u << limit->axis;
                continue;
            }
            if (refused && one.decision.allowed)
                peek_one(place, i, work->now, 0, &one.decision);
            one.limiter = &limit->limiter;
            one.scope = (uint8_t)p;
            one.limit = (uint8_t)i;
            axes_add(axes, limit->axis, &one);
        }
    }
}

/* Whether all limits on the axes of `mask` allow; `axes` gets what they say. */
static bool claim_allows(const struct work *work, unsigned mask, struct tg_axes *axes)
{
    claim_combine(work, mask, false, axes);
    if (tg_axes_binding(axes) == TG_AXIS_NONE)
        return true;
    claim_combine(work, mask, true, axes);
    return false;
}

/* Rate has refused, and cost is not asked: but when it would allow the call is a part of when the
 * call may pass. */
static void peek_hints(const struct work *work, struct tg_axes *axes)
{
    struct tg_axes hints;

    axes_clear(&hints);
    claim_combine(work, COST, true, &hints);
    if (!(hints.present & COST))
        return;
    axes->reset_at =
        num_max(axes->decision[TG_AXIS_RATE].reset_at, hints.decision[TG_AXIS_COST].reset_at);
    axes->retry_after_ms = num_max(axes->decision[TG_AXIS_RATE].retry_after_ms,
                                   hints.decision[TG_AXIS_COST].retry_after_ms);
}

/* Cost has refused, and rate has been charged all the same: when it would allow the call once more
 * is a part of when the call may pass. */
static void peek_rate_hints(const struct work *work, struct tg_axes *axes)
{
    const struct tg_decision *rate = &axes->decision[TG_AXIS_RATE];
    const struct tg_decision *cost = &axes->decision[TG_AXIS_COST];
    struct tg_axes hints;

    axes_clear(&hints);
    claim_combine(work, RATE, false, &hints);
    if (!(hints.present & RATE) || hints.decision[TG_AXIS_RATE].allowed)
        return;
    axes->reset_at = num_max(rate->reset_at, cost->reset_at);
    axes->retry_after_ms =
        num_max(hints.decision[TG_AXIS_RATE].retry_after_ms, cost->retry_after_ms);
}

/* ---- charging ---- */

/* Whether a charge on these axes would change the states of this scope. Who is charged nothing
 * needs no entry. */
static bool is_charged(const struct place *place, unsigned mask, int64_t cost)
{
    for (size_t i = 0; i < place->set->n; i++)
        if (mask & 1u << place->set->limits[i].axis &&
            limit_units(&place->set->limits[i], cost) > 0)
            return true;
    return false;
}

static bool any_missing(const struct work *work, unsigned mask, int64_t cost)
{
    for (size_t p = 0; p < work->claim->n; p++)
        if (!work->places[p].slot && is_charged(&work->places[p], mask, cost))
            return true;
    return false;
}

/* Makes the entries that are missing and will be charged. Making room may move entries and
 * forget fresh ones, our own too: so room is made for all, and all are looked up again. An entry
 * that was made before another found no memory is fresh, and goes with the next sweep. */
static enum tg_err try_to_insert(struct work *work, unsigned mask, int64_t cost)
{
    struct shard_common *common = &work->store->common;
    enum tg_err err = shard_make_room(work->shard, common, work->claim->n, work->now);

    if (err)
        return err;
    find_all(work);
    for (size_t p = 0; p < work->claim->n && !err; p++) {
        struct place *place = &work->places[p];
        if (!place->slot && is_charged(place, mask, cost))
            err = shard_insert(work->shard, common, work->claim->ids[p], place->set, &place->slot);
    }
    if (err)
        shard_note_fresh_at(work->shard, work->now);
    return err;
}

/* States that do not fit in a slot need memory of their own, for which keys may have to go, too. */
static enum tg_err insert_missing(struct work *work, unsigned mask, int64_t cost)
{
    enum tg_err err = try_to_insert(work, mask, cost);

    if (err != TG_ERR_FULL)
        return err;
    shard_sweep(work->shard, &work->store->common, work->now);
    return try_to_insert(work, mask, cost);
}

/* After a change that may have made an entry, or made one fresh earlier. */
static void note_fresh(const struct work *work)
{
    for (size_t p = 0; p < work->claim->n; p++) {
        const struct place *place = &work->places[p];
        if (!place->slot)
            continue;
        const void *states = limit_set_states(place->set, place->slot);
        tg_ms before = shard_fresh_from(work->shard);
        shard_note_fresh_at(work->shard, limit_set_fresh_at(place->set, states, before));
    }
}

/* Takes on the axes of `mask`, whose limits have all allowed it: but for those in shadow, which are
 * charged where they allow, and noted where they do not. */
static void take_all(struct work *work, unsigned mask)
{
    for (size_t p = 0; p < work->claim->n; p++) {
        const struct place *place = &work->places[p];
        for (size_t i = 0; i < place->set->n; i++) {
            const struct tg_limit *limit = &place->set->limits[i];
            int64_t units = limit_units(limit, work->claim->cost);
            struct tg_decision answer = {.allowed = true};

            if (!(mask & 1u << limit->axis) || units == 0)
                continue;
            if (limit->mode == TG_SHADOW)
                peek_one(place, i, work->now, units, &answer);
            if (!answer.allowed)
                continue;
            limit->limiter.ops->take(&limit->limiter, state_of(place, i), work->now, units);
            work->claim->uncharged[p] &= (uint8_t) ~(1u << i);
        }
    }
}

static enum tg_err charge(struct work *work, unsigned mask)
{
    bool missing = any_missing(work, mask, work->claim->cost);

    if (missing) {
        enum tg_err err = insert_missing(work, mask, work->claim->cost);
        if (err)
            return err;
    }
    take_all(work, mask);
    if (missing)
        note_fresh(work);
    return TG_OK;
}

static enum tg_err take_locked(struct work *work, struct tg_axes *axes, unsigned *mask)
{
    *mask = 0;
    if (work->claim->charging == TG_CHARGE_ATOMIC) {
        if (!claim_allows(work, RATE | COST, axes))
            return TG_OK;
        *mask = RATE | COST;
        return charge(work, *mask);
    }
    /* Rate is debited though cost may refuse. Both are charged in one go all the same, after all
     * looking: so that a call for which there is no place has spent nothing. */
    if (!claim_allows(work, RATE, axes)) {
        peek_hints(work, axes);
        return TG_OK;
    }
    *mask = claim_allows(work, COST, axes) ? RATE | COST : RATE;
    enum tg_err err = charge(work, *mask);
    if (!err && *mask == RATE)
        peek_rate_hints(work, axes);
    return err;
}

/* ---- the operations ---- */

static enum tg_err count_full(struct tg_store *store, enum tg_err err)
{
    if (err == TG_ERR_FULL)
        atomic_fetch_add_explicit(&store->refused, 1, memory_order_relaxed);
    return err;
}

enum tg_err claim_take(struct tg_store *store, struct claim *claim, tg_ms now, struct tg_axes *axes)
{
    struct work work;
    enum tg_err err;

    do {
        axes_clear(axes);
        claim_begin(&work, store, claim, now);
        unsigned mask;
        err = take_locked(&work, axes, &mask);
        if (err == TG_OK && mask != 0)
            claim_end_moved(&work, CLAIM_TAKEN, mask, now, 0);
        else
            claim_end(&work);
    } while (err == TG_ERR_FULL && store_reclaim(store, work.shard, now));
    return count_full(store, err);
}

void claim_peek(struct tg_store *store, struct claim *claim, tg_ms now, struct tg_axes *axes)
{
    struct work work;

    axes_clear(axes);
    claim_begin(&work, store, claim, now);
    if (claim->charging == TG_CHARGE_ATOMIC)
        claim_allows(&work, RATE | COST, axes);
    else if (claim_allows(&work, RATE, axes))
        claim_allows(&work, COST, axes);
    else
        peek_hints(&work, axes);
    claim_end(&work);
}

/* A limit that allows is asked again for nothing: it is not charged, and so has all it has. */
size_t claim_peek_scope(struct tg_store *store, struct claim *claim, size_t scope, tg_ms now,
                        struct tg_limit_metrics *limits)
{
    struct work work;

    claim_begin(&work, store, claim, now);
    const struct place *place = &work.places[scope];
    size_t n = place->set->n;
    for (size_t i = 0; i < n; i++) {
        const struct tg_limit *limit = &place->set->limits[i];
        struct tg_decision *decision = &limits[i].decision;
        limits[i].axis = limit->axis;
        limits[i].mode = limit->mode;
        limits[i].config = limit->limiter.config;
        peek_one(place, i, now, limit_units(limit, claim->cost), decision);
        if (decision->allowed)
            peek_one(place, i, now, 0, decision);
    }
    claim_end(&work);
    return n;
}

/* A key without an entry has been forgotten: it was fresh, so nothing of the charge was owed. */
void claim_refund(struct tg_store *store, struct claim *claim, tg_ms now, tg_ms charged_at)
{
    struct work work;

    claim_begin(&work, store, claim, now);
    for (size_t p = 0; p < claim->n; p++) {
        const struct place *place = &work.places[p];
        for (size_t i = 0; place->slot && i < place->set->n; i++) {
            const struct tg_limit *limit = &place->set->limits[i];
            struct tg_charge charged = {charged_at, limit_units(limit, claim->cost)};
            if (claim->uncharged[p] & 1u << i)
                continue;
            limit->limiter.ops->refund(&limit->limiter, state_of(place, i), now, charged,
                                       charged.cost);
        }
    }
    note_fresh(&work);
    claim_end_moved(&work, CLAIM_REFUNDED, RATE | COST, charged_at, 0);
}

static void settle_all(const struct work *work, tg_ms charged_at, int64_t actual)
{
    for (size_t p = 0; p < work->claim->n; p++) {
        const struct place *place = &work->places[p];
        for (size_t i = 0; place->slot && i < place->set->n; i++) {
            const struct tg_limit *limit = &place->set->limits[i];
            struct tg_charge charged = {charged_at, work->claim->cost};
            if (limit->axis == TG_AXIS_COST && !(work->claim->uncharged[p] & 1u << i))
                limit->limiter.ops->settle(&limit->limiter, state_of(place, i), work->now, charged,
                                           actual);
        }
    }
}

/* Debt is owed even by a key that has been forgotten in the meantime: it gets an entry again. */
enum tg_err claim_settle(struct tg_store *store, struct claim *claim, tg_ms now, tg_ms charged_at,
                         int64_t actual)
{
    int64_t debt = num_less(actual, claim->cost);
    enum tg_err err;
    struct work work;

    do {
        err = TG_OK;
        claim_begin(&work, store, claim, now);
        if (debt > 0 && any_missing(&work, COST, debt))
            err = insert_missing(&work, COST, debt);
        if (!err) {
            settle_all(&work, charged_at, actual);
            note_fresh(&work);
            claim_end_moved(&work, CLAIM_SETTLED, COST, charged_at, actual);
        } else {
            claim_end(&work);
        }
    } while (err == TG_ERR_FULL && store_reclaim(store, work.shard, now));
    return count_full(store, err);
}

/* ---- what another store has done ---- */

/* A limiter is charged here what it was charged there, and may owe more than it could have given.
 * */
static void take_again(struct tg_store *store, struct claim_moved *moved, tg_ms now)
{
    struct work work;

    claim_begin(&work, store, &moved->claim, num_max(now, moved->at));
    if (!any_missing(&work, moved->mask, moved->claim.cost) ||
        insert_missing(&work, moved->mask, moved->claim.cost) == TG_OK) {
        for (size_t p = 0; p < moved->claim.n; p++) {
            const struct place *place = &work.places[p];
            for (size_t i = 0; place->slot && i < place->set->n; i++) {
                const struct tg_limit *limit = &place->set->limits[i];
                int64_t units = limit_units(limit, moved->claim.cost);
                if (moved->mask & 1u << limit->axis && units > 0 &&
                    !(moved->claim.uncharged[p] & 1u << i))
                    limit->limiter.ops->take(&limit->limiter, state_of(place, i), work.now, units);
            }
        }
        note_fresh(&work);
    }
    claim_end_moved(&work, CLAIM_TAKEN, moved->mask, moved->charged_at, 0);
}

void claim_follow(struct tg_store *store, struct claim_moved *moved, tg_ms now)
{
    now = num_max(now, moved->at);
    if (moved->move == CLAIM_TAKEN)
        take_again(store, moved, now);
    else if (moved->move == CLAIM_REFUNDED)
        claim_refund(store, &moved->claim, now, moved->charged_at);
    else
        (void)claim_settle(store, &moved->claim, now, moved->charged_at, moved->actual);
}
