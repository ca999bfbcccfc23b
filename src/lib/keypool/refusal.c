/* refusal.c - what is said when no key can serve: when to come again, and whether it makes sense.
 *
 * For each key the moment is the latest of what holds it back, the key's own and its group's, since
 * each of them only ever ends if nothing else happens; for the pool it is the earliest of these.
 * Windows, cooldowns and open breakers end at moments that are known. Of a call in flight only the
 * pool's mean is known.
 *
 * This looks at every key of the pool, which an acquire never does. A key without calls in flight
 * whose next moment (its timer) is not before the best so far is passed by.
 */
#include "lib/keypool/keyring.h"

struct outlook {
    const struct tg_pool *pool;
    const struct tg_key_call *call;
    tg_ms now;
    tg_ms at;     /* the earliest so far */
    bool fits;    /* the limits of a key could hold the call */
    bool cooling; /* a key is cooling */
    bool warm;    /* one that is in use is not */
};

static bool is_cooling(const struct quota *quota, tg_ms now)
{
    return quota->cool_until > now;
}

static bool could_hold(const struct quota *quota, int64_t tokens)
{
    return !quota->limits.tpm || tokens <= quota->limits.tpm;
}

/* When the key itself lets the call through; NEVER: it is suspended, or too small. */
static tg_ms key_when(struct key *key, const struct outlook *outlook)
{
    const struct breaker *breaker = &key->breaker;
    tg_ms now = outlook->now, at = num_max(now, breaker->open_until);

    /* Nothing of it is in flight, so its room does not rise before its timer. */
    if (key->room < outlook->call->tokens && key->quota.in_flight == 0 &&
        key->timer.due >= outlook->at)
        return key->timer.due;
    at = num_max(at, quota_when(&key->quota, now, outlook->call->tokens, outlook->pool->held_ms));
    if (breaker->trying)
        at = num_max(at, quota_expected_end(key->quota.taken_at, now, outlook->pool->held_ms));
    return at;
}

static void outlook_add_key(struct outlook *outlook, struct key *key, tg_ms group_at)
{
    const struct key_group *group = key_group_of(key);
    int64_t tokens = outlook->call->tokens;
    bool cooling =
        is_cooling(&key->quota, outlook->now) || (group && is_cooling(&group->quota, outlook->now));

    if (could_hold(&key->quota, tokens) && (!group || could_hold(&group->quota, tokens)))
        outlook->fits = true;
    if (!key_usable(key))
        return;
    outlook->cooling |= cooling;
    outlook->warm |= !cooling;
    if (group_at < outlook->at && !key_was_tried(key, outlook->call))
        outlook->at = num_min(outlook->at, num_max(group_at, key_when(key, outlook)));
}

void pool_refuse(struct tg_pool *pool, const struct tg_key_call *call, tg_ms now,
                 struct tg_key_answer *answer)
{
    struct outlook outlook = {.pool = pool, .call = call, .now = now, .at = NEVER};
    bool in_range = num_in_range(call->tokens);
    struct key_group *group = NULL;
    tg_ms group_at = now;

    for (uint32_t i = 0; in_range && i < pool->roster.n_keys; i++) {
        struct key *key = pool->roster.keys[i];
        if (key_group_of(key) != group) {
            group = key_group_of(key);
            group_at = group ? quota_when(&group->quota, now, call->tokens, pool->held_ms) : now;
        }
        outlook_add_key(&outlook, key, group_at);
    }
    answer->lease = 0;
    answer->owner = NULL;
    answer->retry_after_ms = outlook.at == NEVER ? TG_UNSATISFIABLE : outlook.at - now;
    answer->all_cooling = outlook.cooling && !outlook.warm;
    answer->too_large = !in_range || (pool->roster.n_keys > 0 && !outlook.fits);
}
