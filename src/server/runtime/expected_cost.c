/* expected_cost.c - the last calls of tenants with models: see expected_cost.h.
 *
 * A table of sets of four pairs. What is asked for stands in one word with the pair it is of, so
 * that it can be read while another pair takes its place.
 */
#include "server/runtime/expected_cost.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/num.h"

enum { SETS = 256, WAYS = 4 };

#define PAIR_BITS (~UINT64_C(0xffff)) /* the others have the share */

struct cost_history {
    uint64_t used; /* when something was last added, by the number of additions */
    unsigned n;    /* all there were */
    uint16_t shares[EXPECTED_COST_CALLS]; /* a ring: the latest is at n - 1 */
};

struct expected_cost {
    uint64_t seed;
    /* The pair and its share, 0: none. Published by whoever holds the mutex, read without it: a
     * number that stands for itself. */
    _Atomic uint64_t published[SETS][WAYS];
    pthread_mutex_t mutex;
    uint64_t additions;
    struct cost_history histories[SETS][WAYS];
};

struct expected_cost *expected_cost_new(uint64_t seed)
{
    struct expected_cost *expected = calloc(1, sizeof *expected);

    if (expected == NULL)
        return NULL;
    if (pthread_mutex_init(&expected->mutex, NULL) != 0) {
        free(expected);
        return NULL;
    }
    expected->seed = seed;
    return expected;
}

void expected_cost_free(struct expected_cost *expected)
{
    if (expected == NULL)
        return;
    pthread_mutex_destroy(&expected->mutex);
    free(expected);
}

uint64_t expected_cost_pair(const struct expected_cost *expected, const char *tenant,
                            const char *model, const char *provider)
{
    uint64_t pair = XXH3_64bits_withSeed(tenant, strlen(tenant), expected->seed);

    pair = XXH3_64bits_withSeed(model, strlen(model), pair);
    pair = XXH3_64bits_withSeed(provider, strlen(provider), pair) & PAIR_BITS;
    return pair != 0 ? pair : PAIR_BITS;
}

static size_t set_of(uint64_t pair)
{
    return (pair >> 56) % SETS;
}

/* Where the pair is; WAYS: nowhere. */
static size_t find_way(const struct expected_cost *expected, uint64_t pair, uint64_t *word)
{
    const _Atomic uint64_t *set = expected->published[set_of(pair)];
    size_t way = 0;

    assert((pair & PAIR_BITS) == pair && pair != 0);
    for (; way < WAYS; way++) {
        *word = atomic_load_explicit(&set[way], memory_order_relaxed);
        if ((*word & PAIR_BITS) == pair)
            break;
    }
    return way;
}

/* A free place, or that of the pair that was used the longest time ago. */
static size_t oldest_way(const struct cost_history *set)
{
    size_t oldest = 0;

    for (size_t i = 1; i < WAYS; i++)
        if (set[i].used < set[oldest].used)
            oldest = i;
    return oldest;
}

static int compare_shares(const void *a, const void *b)
{
    return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

static uint64_t likely_share(const struct cost_history *history)
{
    uint16_t sorted[EXPECTED_COST_CALLS];
    size_t n = history->n < EXPECTED_COST_CALLS ? history->n : EXPECTED_COST_CALLS;

    if (n < EXPECTED_COST_ENOUGH)
        return 1000;
    memcpy(sorted, history->shares, n * sizeof sorted[0]);
    qsort(sorted, n, sizeof sorted[0], compare_shares);
    size_t rank = (n * EXPECTED_COST_PERCENT + 99) / 100;
    assert(rank >= 1 && rank <= n);
    return sorted[rank - 1] > EXPECTED_COST_LEAST ? sorted[rank - 1] : EXPECTED_COST_LEAST;
}

void expected_cost_add(struct expected_cost *expected, uint64_t pair, tg_micro spent, tg_micro most)
{
    size_t set = set_of(pair);
    uint16_t share = 1000;
    uint64_t word;

    assert(spent >= 0 && most > 0);
    if (spent < most)
        share = (uint16_t)num_min(1000, num_ceil((double)spent * 1000 / (double)most));
    pthread_mutex_lock(&expected->mutex);
    size_t way = find_way(expected, pair, &word);
    if (way == WAYS) {
        way = oldest_way(expected->histories[set]);
        expected->histories[set][way].n = 0;
    }
    struct cost_history *history = &expected->histories[set][way];
    history->used = ++expected->additions;
    history->shares[history->n++ % EXPECTED_COST_CALLS] = share;
    if (history->n == 2 * EXPECTED_COST_CALLS)
        history->n = EXPECTED_COST_CALLS;
    atomic_store_explicit(&expected->published[set][way], pair | likely_share(history),
                          memory_order_relaxed);
    pthread_mutex_unlock(&expected->mutex);
}

int64_t expected_cost_share(const struct expected_cost *expected, uint64_t pair)
{
    uint64_t word;

    return find_way(expected, pair, &word) < WAYS ? (int64_t)(word & ~PAIR_BITS) : 1000;
}

tg_micro expected_cost_part(tg_micro whole, int64_t share)
{
    assert(whole >= 0 && share > 0 && share <= 1000);
    return whole / 1000 * share + (whole % 1000 * share + 999) / 1000;
}

tg_micro expected_cost_whole(tg_micro part, int64_t share)
{
    assert(part >= 0 && share > 0 && share <= 1000);
    if (part / share >= TG_MONEY_MAX / 1000)
        return TG_MONEY_MAX;
    return part / share * 1000 + part % share * 1000 / share;
}
