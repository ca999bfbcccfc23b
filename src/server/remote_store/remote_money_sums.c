/* remote_money_sums.c - a table of windows that can be walked in a ring. See remote_money_sums.h.
 *
 * Keys are the names of the windows in Redis, whole: nothing else has to be compared, and nothing
 * is written twice. They begin with the same bytes, so the hash is one that mixes them all.
 */
#include "server/remote_store/remote_money_sums.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    BUCKETS_MIN = 256,
    LOOKS = 256, /* at sums, for one that can go */
};

/* A total has no end. Somebody who keeps it tells it again within this time, or nobody has asked
 * for so long that the ledgers may be asked anew. */
#define KEEP_MAX_MS (INT64_C(400) * 86400000)

tg_ms money_sum_keep(const struct sum *sum, tg_ms now)
{
    return num_min(num_less(num_add(sum->end, SUM_GRACE_MS), now) + 1, KEEP_MAX_MS);
}

/* ---- What is to be told ---- */

/* Around each change of a sum: the totals follow. */
static void remote_money_sums_count(struct sums *sums, const struct sum *sum, int sign)
{
    tg_micro untold = num_less(sum_told(sum), sum->acked);

    if (untold == 0)
        return;
    sums->untold += (size_t)sign;
    sums->untold_micro += (uint64_t)(sign * untold);
}

static void see(struct sums *sums, struct sum *sum, tg_micro settled)
{
    remote_money_sums_count(sums, sum, -1);
    sum->seen = num_max(sum->seen, settled);
    remote_money_sums_count(sums, sum, 1);
}

void money_sums_spend(struct sums *sums, struct sum *sum, tg_micro spent)
{
    remote_money_sums_count(sums, sum, -1);
    sum->own = num_add(sum->own, spent);
    remote_money_sums_count(sums, sum, 1);
}

bool money_sums_hear(struct sums *sums, struct sum *sum, tg_micro before, tg_micro told,
                     tg_micro acked)
{
    bool loss = before < acked;

    remote_money_sums_count(sums, sum, -1);
    sum->known = true;
    /* Ours alone are merged there, so more than there is here comes from a former life. */
    if (before > sum_told(sum))
        sum->lost = num_add(sum->lost, before - sum_told(sum));
    sum->acked = num_max(loss ? 0 : sum->acked, num_max(before, told));
    remote_money_sums_count(sums, sum, 1);
    return loss;
}

/* ---- The table ---- */

void money_sums_init(struct sums *sums, size_t max, uint64_t seed)
{
    *sums = (struct sums){.max = max, .seed = seed};
}

void money_sums_fini(struct sums *sums)
{
    while (sums->ring) {
        sums->ring->pins = 0;
        money_sums_remove(sums, sums->ring);
    }
    free(sums->buckets);
}

static struct sum **remote_money_sums_bucket_of(const struct sums *sums, uint64_t hash)
{
    return &sums->buckets[hash & (sums->n_buckets - 1)];
}

static bool remote_money_sums_grow(struct sums *sums)
{
    size_t n = sums->n_buckets > 0 ? 2 * sums->n_buckets : BUCKETS_MIN;
    struct sum **larger = calloc(n, sizeof *larger), *sum = sums->ring;

    if (!larger)
        return false;
    free(sums->buckets);
    sums->buckets = larger;
    sums->n_buckets = n;
    for (size_t i = 0; i < sums->n; i++, sum = sum->right) {
        struct sum **bucket = remote_money_sums_bucket_of(sums, sum->hash);
        sum->next = *bucket;
        *bucket = sum;
    }
    return true;
}

static struct sum *remote_money_sums_find(const struct sums *sums, struct slice key, uint64_t hash)
{
    if (sums->n_buckets == 0)
        return NULL;
    for (struct sum *sum = *remote_money_sums_bucket_of(sums, hash); sum; sum = sum->next)
        if (sum->hash == hash && slice_equal(sum_hash_key(sum), key))
            return sum;
    return NULL;
}

struct sum *money_sums_find(const struct sums *sums, struct slice key)
{
    return remote_money_sums_find(sums, key, XXH3_64bits_withSeed(key.at, key.n, sums->seed));
}

static void link_in(struct sums *sums, struct sum *sum)
{
    struct sum **bucket = remote_money_sums_bucket_of(sums, sum->hash), *at = sums->ring;

    sum->next = *bucket;
    *bucket = sum;
    sum->left = at ? at->left : sum;
    sum->right = at ? at : sum;
    sum->left->right = sum;
    sum->right->left = sum;
    if (!at)
        sums->ring = sum;
    sums->n++;
}

/* One that Redis knows as well as we do is made anew when a call comes to it. */
static bool remote_money_sums_make_room(struct sums *sums)
{
    for (size_t i = 0; i < LOOKS && i < sums->n; i++) {
        struct sum *sum = sums->ring;
        sums->ring = sum->right;
        if (sum->pins == 0 && !sum_is_untold(sum)) {
            money_sums_remove(sums, sum);
            return true;
        }
    }
    return false;
}

struct sum *money_sums_get(struct sums *sums, struct slice key, tg_ms end, tg_micro settled)
{
    uint64_t hash = XXH3_64bits_withSeed(key.at, key.n, sums->seed);
    struct sum *sum = remote_money_sums_find(sums, key, hash);

    settled = num_min(settled, TG_NUMBER_MAX);
    if (sum) {
        see(sums, sum, settled);
        return sum;
    }
    if (sums->n == sums->max && !remote_money_sums_make_room(sums))
        return NULL;
    if (sums->n >= sums->n_buckets && !remote_money_sums_grow(sums))
        return NULL;
    sum = calloc(1, sizeof *sum + key.n + sizeof SUM_SET);
    if (!sum)
        return NULL;
    memcpy(sum->key, key.at, key.n);
    memcpy(sum->key + key.n, SUM_SET, sizeof SUM_SET);
    sum->key_n = key.n;
    sum->hash = hash;
    sum->end = end;
    link_in(sums, sum);
    money_sums_spend(sums, sum, settled);
    return sum;
}

void money_sums_remove(struct sums *sums, struct sum *sum)
{
    struct sum **from = remote_money_sums_bucket_of(sums, sum->hash);

    while (*from != sum)
        from = &(*from)->next;
    *from = sum->next;
    sum->left->right = sum->right;
    sum->right->left = sum->left;
    if (sums->ring == sum)
        sums->ring = sum->right != sum ? sum->right : NULL;
    sums->n--;
    remote_money_sums_count(sums, sum, -1);
    free(sum);
}
