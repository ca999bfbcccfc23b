/* choose.c - which key a call gets.
 *
 * The key that the caller prefers, if it can serve; else the one that the last call with the same
 * affinity had, if it can serve; else two are drawn evenly among all that can serve, and the one
 * with the lower latency average is taken. Two, not the best of all: thousands of calls that all
 * see the same best key would all go there. And a key that is drawn in at most 2 of n draws can
 * never get more than twice its even share, however good its average looks.
 *
 * The keys that can serve are the upper ends of the indexes of the live clusters, so they are
 * counted and not collected; a rank is drawn and looked up. There is one cluster for each group,
 * and each costs some ns. Keys that were tried before are drawn too, and thrown back: there are
 * eight at most. If they are most of what there is, the others are counted out one by one.
 *
 * Averages of equal keys differ by chance, and a key whose average is the highest by chance is not
 * taken, so it learns nothing that would put that right: of three equal keys one had no call in
 * 100,000. So two averages are equal that are no further apart than TIE_SPREADS times the larger
 * of their spreads (the mean distance of samples from the average), which is 4 to 5 times as much
 * as chance moves the difference of two such averages. Where latencies do not vary, the spread is
 * 0, and the lower average wins by however little. Rejected: half that distance, which still leaves
 * equal keys without calls for long; and a fixed percentage, as nobody knows which.
 *
 * Always the lower of two averages would never try the slowest key again, though it may long be the
 * fastest. So an average counts for less, the longer its key was neither taken nor given back: half
 * after each SCORE_HALVES. Then it wins one draw, and is as old as new: the slow key gets one call
 * now and then, and not a flood of them until the first has come back. A key without an average
 * wins if nothing of it is in flight, for the same reason; else chance decides.
 */
#include <assert.h>
#include <math.h>

#include "lib/keypool/keyring.h"

static const tg_ms SCORE_HALVES = 10000;

#define TIE_SPREADS 2.0

enum {
    FEW = 16,   /* so many are simply tried in turn */
    THROWS = 32 /* so often a key that was tried is thrown back */
};

bool key_was_tried(const struct key *key, const struct tg_key_call *call)
{
    for (size_t i = 0; i < call->n_tried && i < TG_TRIED_MAX; i++)
        if (call->tried[i] && call->tried[i] == key->owner)
            return true;
    return false;
}

static bool serves(const struct key *key, const struct tg_key_call *call)
{
    return key_can_serve(key, call->tokens) && !key_was_tried(key, call);
}

/* ---- two of many ---- */

/* Counts the keys that can serve, and notes for each cluster how many are its own. */
static uint32_t count_all(const struct tg_pool *pool, int64_t tokens)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < pool->roster.n_live; i++) {
        struct cluster *cluster = pool->roster.live[i];
        bool has_room = !cluster->group || cluster->group->room >= tokens;
        cluster->able = has_room ? room_index_count(&cluster->room_index, tokens) : 0;
        n += cluster->able;
    }
    return n;
}

/* The key of a rank, among those that were counted. */
static struct key *key_at(const struct tg_pool *pool, uint32_t rank)
{
    struct cluster *const *live = pool->roster.live;

    while (rank >= (*live)->able)
        rank -= (*live++)->able;
    assert(live < pool->roster.live + pool->roster.n_live);
    const struct room_index *room_index = &(*live)->room_index;
    return pool->roster.keys[room_index_at(room_index, room_index->n - (*live)->able + rank)];
}

/* From [0, n), evenly but for n parts in 2^32. */
static uint32_t draw_below(struct random *random, uint32_t n)
{
    return (uint32_t)(((random_bits(random) >> 32) * n) >> 32);
}

/* The key's average, as far as it still counts; below 0: it is to be tried; NaN: nobody knows. */
static double key_score(const struct key *key, tg_ms now)
{
    tg_ms idle = now - key->used_at;

    if (key->latency_ms < 0)
        return key->quota.in_flight == 0 ? -1 : (double)NAN;
    if (idle < SCORE_HALVES)
        return key->latency_ms;
    return key->latency_ms / (double)(UINT64_C(1) << num_min(idle / SCORE_HALVES, 62));
}

static struct key *better_of(struct random *random, struct key *a, struct key *b, tg_ms now)
{
    double x = key_score(a, now), y = key_score(b, now);
    double spread = a->spread_ms > b->spread_ms ? a->spread_ms : b->spread_ms;
    double tie = x < 0 || y < 0 ? 0 : TIE_SPREADS * spread;

    if (y - x > tie)
        return a;
    if (x - y > tie)
        return b;
    return random_bits(random) >> 63 ? a : b;
}

/* Two of n that are numbered from 0; n is 2 or more. */
static void draw_two(struct random *random, uint32_t n, uint32_t *a, uint32_t *b)
{
    *a = draw_below(random, n);
    *b = draw_below(random, n - 1);
    if (*b >= *a)
        ++*b;
    assert(*a < n && *b < n && *a != *b);
}

/* One that was not tried and is not `other`, by looking at all: each replaces the one before it
 * with probability 1 / (how many so far), and so stays with the same probability as any other. */
static struct key *reservoir_sample(struct tg_pool *pool, const struct tg_key_call *call,
                                    uint32_t n, const struct key *other)
{
    struct key *drawn = NULL;
    uint32_t seen = 0;

    for (uint32_t rank = 0; rank < n; rank++) {
        struct key *key = key_at(pool, rank);
        if (key != other && !key_was_tried(key, call) &&
            draw_below(&pool->ring->random, ++seen) == 0)
            drawn = key;
    }
    return drawn;
}

static struct key *draw_untried(struct tg_pool *pool, const struct tg_key_call *call, uint32_t n,
                                const struct key *other)
{
    for (int i = 0; n > FEW && i < THROWS; i++) {
        struct key *key = key_at(pool, draw_below(&pool->ring->random, n));
        if (key != other && !key_was_tried(key, call))
            return key;
    }
    return reservoir_sample(pool, call, n, other);
}

static struct key *draw_key(struct tg_pool *pool, const struct tg_key_call *call, tg_ms now)
{
    struct random *random = &pool->ring->random;
    uint32_t n = count_all(pool, call->tokens), i, j;
    struct key *a, *b;

    if (n == 0)
        return NULL;
    if (call->n_tried > 0) {
        a = draw_untried(pool, call, n, NULL);
        b = a ? draw_untried(pool, call, n, a) : NULL;
        return b ? better_of(random, a, b, now) : a;
    }
    if (n == 1)
        return key_at(pool, 0);
    draw_two(random, n, &i, &j);
    a = key_at(pool, i);
    b = key_at(pool, j);
    return better_of(random, a, b, now);
}

/* ---- the one that is asked for ---- */

/* Several keys may have one owner. */
static struct key *preferred(const struct tg_pool *pool, const struct tg_key_call *call)
{
    const struct roster *roster = &pool->roster;

    if (!call->prefer)
        return NULL;
    const struct hash_slot *slot =
        hash_table_find(&roster->by_owner, hash_number((uintptr_t)call->prefer));
    for (; slot; slot = hash_table_find_next(&roster->by_owner, slot)) {
        struct key *key = roster->keys[slot->number];
        if (key->owner == call->prefer && serves(key, call))
            return key;
    }
    return NULL;
}

static struct key *key_of_serial(const struct roster *roster, uint32_t serial)
{
    uint32_t low = 0, high = roster->n_keys;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (roster->by_serial[middle]->serial < serial)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < roster->n_keys && roster->by_serial[low]->serial == serial;
    return found ? roster->by_serial[low] : NULL;
}

static struct key *affinity_lookup(const struct tg_pool *pool, const struct tg_key_call *call,
                                   uint64_t hash, tg_ms now)
{
    uint32_t serial = affinity_find(&pool->affinity, hash, now, pool->affinity_ttl);
    struct key *key = serial ? key_of_serial(&pool->roster, serial) : NULL;

    return key && serves(key, call) ? key : NULL;
}

struct key *pool_choose(struct tg_pool *pool, const struct tg_key_call *call, uint64_t hash,
                        tg_ms now)
{
    struct key *key = preferred(pool, call);

    if (!key && call->affinity)
        key = affinity_lookup(pool, call, hash, now);
    if (!key)
        key = draw_key(pool, call, now);
    assert(!key || serves(key, call));
    return key;
}
