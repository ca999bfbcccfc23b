/* pool.c - leasing a key, and giving it back: the two calls that every attempt makes.
 *
 * To choose a key and to take its capacity is one step under one lock, so there is no moment at
 * which a key that was found to have room has none. What a release says goes to four places that do
 * not know each other: the windows (what was used), the breaker (whether it failed), the cooldown
 * (what the provider asked for) and the latency average.
 */
#define XXH_INLINE_ALL
#include <assert.h>
#include <string.h>
#include <xxhash.h>

#include "lib/core/allocator.h"
#include "lib/core/sized.h"
#include "lib/keypool/keyring.h"

#define HELD_GAIN (1.0 / 8)

/* ---- what a caller gives ---- */

#define KEY_CALL_FIRST SIZED_TO(struct tg_key_call, n_tried)
#define KEY_REPORT_FIRST SIZED_TO(struct tg_key_report, cool_until)

void tg_key_call_init_sized(struct tg_key_call *call, size_t size)
{
    static const struct tg_key_call defaults = {0};

    sized_init(call, size, &defaults, sizeof defaults, KEY_CALL_FIRST);
}

static const struct tg_key_report default_report = {.struct_size = sizeof(struct tg_key_report),
                                                    .outcome = TG_KEY_OK,
                                                    .sent = true,
                                                    .tokens = -1,
                                                    .latency_ms = -1};

void tg_key_report_init_sized(struct tg_key_report *report, size_t size)
{
    sized_init(report, size, &default_report, sizeof default_report, KEY_REPORT_FIRST);
}

/* A call that is none of this version's. Its defaults are zeros, initialized or not. */
static __attribute__((noinline)) const struct tg_key_call *read_key_call(
    const struct tg_key_call *call, struct tg_key_call *copy)
{
    if (!call)
        return NULL;
    if (call->struct_size != 0)
        return sized_read(copy, sizeof *copy, call, KEY_CALL_FIRST) ? copy : NULL;
    memset(copy, 0, sizeof *copy);
    memcpy(copy, call, KEY_CALL_FIRST);
    return copy;
}

const struct tg_key_call *pool_read_call(const struct tg_key_call *call, struct tg_key_call *copy)
{
    if (!call || call->struct_size != sizeof *call)
        call = read_key_call(call, copy);
    return call;
}

/* A report that is none of this version's. Zeros of one that was not initialized are what was not
 * given: taken as they are, they would say that nothing was sent. */
static __attribute__((noinline)) const struct tg_key_report *read_report(
    const struct tg_key_report *report, struct tg_key_report *copy)
{
    if (!report)
        return &default_report;
    if (report->struct_size != 0)
        return sized_read(copy, sizeof *copy, report, KEY_REPORT_FIRST) ? copy : NULL;
    *copy = default_report;
    copy->outcome = report->outcome;
    copy->cool_until = report->cool_until;
    if (report->tokens != 0)
        copy->tokens = report->tokens;
    if (report->latency_ms < 0 || report->latency_ms > 0)
        copy->latency_ms = report->latency_ms;
    return copy;
}

/* ---- acquire ---- */

const struct tg_key_call *pool_fit_call(const struct tg_pool *pool, const struct tg_key_call *call,
                                        struct tg_key_call *fitted)
{
    int64_t asked = call->asked > 0 ? call->asked : call->tokens;

    if (num_max(asked, call->tokens) <= pool->most_tokens)
        return call;
    *fitted = *call;
    fitted->tokens = asked > pool->most_tokens ? asked : pool->most_tokens;
    return fitted;
}

/* There is no key for what is no call. */
static void refuse_misuse(struct tg_key_answer *answer)
{
    if (answer)
        *answer = (struct tg_key_answer){.retry_after_ms = TG_UNSATISFIABLE};
}

void tg_pool_acquire(struct tg_pool *pool, const struct tg_key_call *call, tg_ms now,
                     struct tg_key_answer *answer)
{
    struct tg_key_call copy, fitted;
    struct key_lease *lease = NULL;
    struct key *key = NULL;

    call = pool_read_call(call, &copy);
    if (!pool || !call || !answer) {
        refuse_misuse(answer);
        return;
    }
    struct tg_keyring *ring = pool->ring;
    /* The seed never changes, so the lock is not needed for it. */
    uint64_t hash =
        call->affinity ? XXH3_64bits_withSeed(call->affinity, call->affinity_bytes, ring->seed) : 0;
    spin_lock(&ring->lock);
    now = keyring_advance(ring, now);
    call = pool_fit_call(pool, call, &fitted);
    if (num_in_range(call->tokens))
        key = pool_choose(pool, call, hash, now);
    if (key)
        lease = handles_get(&ring->leases);
    if (lease) {
        key_take(key, lease, call->tokens, now);
        if (call->affinity && pool->affinity_ttl > 0)
            affinity_remember(&pool->affinity, hash, now, key->serial);
        pool->acquired++;
        *answer = (struct tg_key_answer){.lease = lease->handle.id, .owner = key->owner};
    } else {
        pool->no_key++;
        if (key) /* it could serve, but there is no memory to remember that it does */
            *answer = (struct tg_key_answer){.retry_after_ms = 1};
        else
            pool_refuse(pool, call, now, answer);
    }
    spin_unlock(&ring->lock);
}

void tg_pool_peek(struct tg_pool *pool, const struct tg_key_call *call, tg_ms now,
                  struct tg_key_answer *answer)
{
    struct tg_key_call copy, fitted;

    call = pool_read_call(call, &copy);
    if (!pool || !call || !answer) {
        refuse_misuse(answer);
        return;
    }
    spin_lock(&pool->ring->lock);
    now = keyring_advance(pool->ring, now);
    pool_refuse(pool, pool_fit_call(pool, call, &fitted), now, answer);
    spin_unlock(&pool->ring->lock);
}

/* ---- release ---- */

/* What was used: the estimate where it is not known, nothing where nothing was sent. */
static int64_t used_tokens(const struct tg_key_report *report, int64_t estimate)
{
    if (!report->sent)
        return 0;
    return report->tokens < 0 ? estimate : num_min(report->tokens, TG_NUMBER_MAX);
}

tg_ms cool_deadline(const struct tg_keyring *ring, tg_ms asked, tg_ms now)
{
    tg_ms longest = num_add(now, ring->cooldown_max);

    return num_min(asked > 0 ? asked : num_add(now, ring->cooldown), longest);
}

static void cool(struct key *key, struct key_group *group, tg_ms until)
{
    key->quota.cool_until = num_max(key->quota.cool_until, until);
    if (group)
        group->quota.cool_until = num_max(group->quota.cool_until, until);
}

static void pool_learn(struct tg_keyring *ring, const struct key_lease *lease,
                       const struct tg_key_report *report, tg_ms now, struct tg_key_ending *ending)
{
    struct key *key = lease->key;
    struct tg_pool *pool = key->pool;
    uint32_t epoch = key->breaker.epoch;
    /* What is no outcome at all says nothing. */
    enum tg_key_outcome outcome =
        (unsigned)report->outcome > TG_KEY_CANCELLED ? TG_KEY_CANCELLED : report->outcome;

    breaker_end(&key->breaker, &pool->rule, lease->epoch, outcome, now);
    if (key->breaker.epoch != epoch)
        ending->open_until = key->breaker.open_until;
    if (outcome == TG_KEY_LIMITED) {
        ending->cool_until = cool_deadline(ring, report->cool_until, now);
        cool(key, lease->group, ending->cool_until);
    }
    if (outcome == TG_KEY_REFUSED && key->credential)
        credential_refused(ring, key->credential, lease->at, now);
    /* A failure, or a refusal, is often quick: it must not make its key look fast. */
    if (outcome == TG_KEY_OK)
        key_note_latency(key, report->latency_ms, now);
    if (report->sent)
        pool->held_ms += ((double)(now - lease->at) - pool->held_ms) * HELD_GAIN;
}

struct leavings lease_end(struct tg_keyring *ring, struct key_lease *lease,
                          const struct tg_key_report *report, tg_ms now,
                          struct tg_key_ending *ending)
{
    struct key *key = lease->key;
    struct key_group *group = lease->group;
    struct leavings leavings = {NULL, NULL};
    int64_t used = used_tokens(report, lease->tokens);

    assert(key->leases > 0 && (!group || group->leases > 0) && lease->at <= now);
    quota_give(&key->quota, now, lease->at, lease->tokens, used, report->sent);
    if (group)
        quota_give(&group->quota, now, lease->at, lease->tokens, used, report->sent);
    *ending = (struct tg_key_ending){0, 0};
    pool_learn(ring, lease, report, now, ending);
    handles_put(&ring->leases, &lease->handle);
    key->leases--;
    key_refresh(key, now);
    if (!key->cluster && key->leases == 0)
        leavings.key = key;
    if (!group)
        return leavings;
    group->leases--;
    group_refresh(ring, group, now);
    if (group->removed && group->leases == 0)
        leavings.group = group;
    return leavings;
}

void leavings_free(struct leavings leavings)
{
    if (leavings.key)
        key_free(leavings.key);
    mem_free(leavings.group);
}

bool tg_keyring_end(struct tg_keyring *ring, tg_key_lease id, tg_ms now,
                    const struct tg_key_report *report, struct tg_key_ending *ending)
{
    struct leavings leavings = {NULL, NULL};
    struct tg_key_report copy;

    if (!report || report->struct_size != sizeof *report)
        report = read_report(report, &copy);
    if (!ring || !report || !ending)
        return false;
    spin_lock(&ring->lock);
    /* Timers are left for the next acquire: nobody asks for a key here. */
    if (now > ring->now)
        ring->now = num_min(now, TG_NUMBER_MAX);
    struct key_lease *lease = handles_find(&ring->leases, id);
    if (lease)
        leavings = lease_end(ring, lease, report, ring->now, ending);
    spin_unlock(&ring->lock);
    leavings_free(leavings);
    return lease != NULL;
}

bool tg_keyring_release(struct tg_keyring *ring, tg_key_lease lease, tg_ms now,
                        const struct tg_key_report *report)
{
    struct tg_key_ending ending;

    return tg_keyring_end(ring, lease, now, report, &ending);
}
