/* remote_money_sums.c - a table of windows that can be walked in a ring. See remote_money_sums.h.
 *
 * Keys are the names of the windows in Redis, whole: nothing else has to be compared, and nothing
 * is written twice. They begin with the same bytes, so the hash is one that mixes them all.
 */
#include "server/remote_store/remote_money_sums.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { LOOKS = 256 /* sums to examine for one that can go */ };

/* A total has no end. Somebody who keeps it tells it again within this time, or nobody has asked
 * for so long that the ledgers may be asked anew. */
#define KEEP_MAX_MS (INT64_C(400) * 86400000)

tg_ms money_sum_keep(const struct sum *sum, tg_ms now)
{
    return num_min(num_less(num_add(sum->end, SUM_GRACE_MS), now) + 1, KEEP_MAX_MS);
}

/* ---- What Redis does not know yet ---- */

/* Around each change of a sum: the totals follow. */
static void remote_money_sums_count(struct sums *sums, const struct sum *sum, int sign)
{
    tg_micro unacked = num_less(sum_total(sum), sum->acked);

    if (unacked == 0)
        return;
    assert(unacked > 0 && (sign == 1 || sums->unacked > 0));
    sums->unacked += (size_t)sign;
    sums->unacked_micro += (uint64_t)(sign * unacked);
}

void money_sums_spend(struct sums *sums, struct sum *sum, tg_micro spent)
{
    remote_money_sums_count(sums, sum, -1);
    sum->own = num_add(sum->own, spent);
    remote_money_sums_count(sums, sum, 1);
}

void money_sums_lower(struct sums *sums, struct sum *sum, tg_micro micro)
{
    tg_micro ours = num_max(sum->own, sum->seen), part = num_min(micro, ours);
    tg_micro before = sum_total(sum);

    remote_money_sums_count(sums, sum, -1);
    sum->own = sum->seen = ours - part;
    sum->block.leased = num_less(sum->block.leased, micro); /* what is left of it does not grow */
    sum->lost = num_less(sum->lost, micro - part);
    sum->credited = num_add(sum->credited, before - sum_total(sum));
    sum->acked = num_min(sum->acked, sum_total(sum));
    sum->lowering = true;
    sum->lowered++;
    remote_money_sums_count(sums, sum, 1);
    TAILQ_REMOVE(&sums->ring, sum, ring); /* its turn is next */
    TAILQ_INSERT_HEAD(&sums->ring, sum, ring);
}

void money_sums_lowered(struct sums *sums, struct sum *sum, const struct sum_told *told)
{
    if (told->lowered != sum->lowered)
        return; /* it has fallen once more since then */
    remote_money_sums_count(sums, sum, -1);
    sum->lowering = false;
    sum->acked = told->sent;
    remote_money_sums_count(sums, sum, 1);
}

bool money_sums_hear(struct sums *sums, struct sum *sum, tg_micro before,
                     const struct sum_told *told)
{
    bool loss = before < told->acked;
    tg_micro total = sum_total(sum);

    if (sum->lowering || told->lowered != sum->lowered)
        return false;
    remote_money_sums_count(sums, sum, -1);
    sum->known = true;
    /* Ours alone are merged there, so more than there is here comes from a former life. */
    if (before > sum_total(sum) && !sums->shared)
        sum->lost = num_add(sum->lost, before - sum_total(sum));
    sum->acked = num_max(loss ? 0 : sum->acked, num_max(before, told->sent));
    assert(sum_total(sum) >= total); /* it never falls */
    remote_money_sums_count(sums, sum, 1);
    return loss;
}

/* ---- The table ---- */

void money_sums_init(struct sums *sums, size_t max, uint64_t seed)
{
    *sums = (struct sums){.max = max, .seed = seed};
    TAILQ_INIT(&sums->ring);
}

void money_sums_fini(struct sums *sums)
{
    struct sum *sum;

    while ((sum = TAILQ_FIRST(&sums->ring)) != NULL) {
        sum->pins = 0;
        money_sums_remove(sums, sum);
    }
    hash_table_fini(&sums->table);
}

static struct hash_slot *find_slot(const struct sums *sums, struct slice key, uint64_t hash)
{
    struct hash_slot *slot = hash_table_find(&sums->table, hash);

    while (slot && !slice_equal(sum_hash_key(slot->item), key))
        slot = hash_table_find_next(&sums->table, slot);
    return slot;
}

struct sum *money_sums_find(const struct sums *sums, struct slice key)
{
    struct hash_slot *slot = find_slot(sums, key, XXH3_64bits_withSeed(key.at, key.n, sums->seed));

    return slot ? slot->item : NULL;
}

struct sum *money_sums_next(struct sums *sums)
{
    struct sum *sum = TAILQ_FIRST(&sums->ring);

    if (sum) {
        TAILQ_REMOVE(&sums->ring, sum, ring);
        TAILQ_INSERT_TAIL(&sums->ring, sum, ring);
    }
    return sum;
}

/* Removes a sum that Redis knows as well as we do: it is made anew when a call comes to it. */
static bool remote_money_sums_evict(struct sums *sums)
{
    for (size_t i = 0; i < LOOKS && i < sums->table.n; i++) {
        struct sum *sum = money_sums_next(sums);
        if (sum->pins == 0 && !sum_is_unacked(sum) && !sum->lowering) {
            money_sums_remove(sums, sum);
            return true;
        }
    }
    return false;
}

struct sum *money_sums_get(struct sums *sums, struct slice key, tg_ms end, tg_micro settled)
{
    uint64_t hash = XXH3_64bits_withSeed(key.at, key.n, sums->seed);
    struct hash_slot *slot = find_slot(sums, key, hash);
    struct sum *sum;

    settled = num_min(settled, TG_NUMBER_MAX);
    if (slot) {
        sum = slot->item;
        remote_money_sums_count(sums, sum, -1);
        sum->seen = num_max(sum->seen, settled);
        if (sum->held == 0) /* no ticket of this node is in the bank and not in `own` */
            sum->own = num_max(sum->own, settled);
        remote_money_sums_count(sums, sum, 1);
        return sum;
    }
    if (sums->table.n == sums->max && !remote_money_sums_evict(sums))
        return NULL;
    if (hash_table_reserve(&sums->table, sums->table.n + 1) != TG_OK)
        return NULL;
    sum = calloc(1, sizeof *sum + key.n + sizeof SUM_SET);
    if (!sum)
        return NULL;
    memcpy(sum->key, key.at, key.n);
    memcpy(sum->key + key.n, SUM_SET, sizeof SUM_SET);
    sum->key_n = key.n;
    sum->hash = hash;
    sum->end = end;
    sum->block.amount = TG_NUMBER_MAX;
    hash_table_insert(&sums->table, hash)->item = sum;
    TAILQ_INSERT_TAIL(&sums->ring, sum, ring);
    money_sums_spend(sums, sum, settled);
    return sum;
}

void money_sums_remove(struct sums *sums, struct sum *sum)
{
    struct hash_slot *slot = find_slot(sums, sum_hash_key(sum), sum->hash);

    assert(sum->pins == 0);
    assert(slot && slot->item == sum);
    hash_table_remove(&sums->table, slot);
    TAILQ_REMOVE(&sums->ring, sum, ring);
    remote_money_sums_count(sums, sum, -1);
    assert(sums->table.n > 0 || (sums->unacked == 0 && sums->unacked_micro == 0));
    free(sum->block.memory);
    free(sum->block.written_off);
    free(sum);
}
