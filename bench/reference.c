/* reference.c - the hand-written loop. See reference.h. */
#include "reference.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* One a ms, and a burst that never ends: the path on which the state is written. */
static const int64_t INTERVAL_US = 1000;
static const int64_t TOLERANCE_US = INT64_MAX / 4;

bool reference_init(struct reference *reference, size_t slots)
{
    reference->slots = aligned_alloc(64, slots * sizeof *reference->slots);
    reference->mask = slots - 1;
    if (reference->slots)
        memset((void *)reference->slots, 0, slots * sizeof *reference->slots);
    return reference->slots != NULL;
}

void reference_fini(struct reference *reference)
{
    free(reference->slots);
}

static uint64_t reference_hash_of(const char *key)
{
    return XXH3_64bits(key, REFERENCE_KEY_BYTES) | 1;
}

static struct reference_slot *probe(const struct reference *reference, const char *key,
                                    uint64_t hash)
{
    for (uint64_t i = hash >> 20;; i++) {
        struct reference_slot *slot = &reference->slots[i & reference->mask];
        if (slot->hash == 0 ||
            (slot->hash == hash && memcmp(slot->key, key, REFERENCE_KEY_BYTES) == 0))
            return slot;
    }
}

void reference_add(struct reference *reference, const char *key)
{
    uint64_t hash = reference_hash_of(key);
    struct reference_slot *slot = probe(reference, key, hash);

    slot->hash = hash;
    memcpy(slot->key, key, REFERENCE_KEY_BYTES);
}

bool reference_check(struct reference *reference, const char *key)
{
    struct timespec time;
    struct reference_slot *slot = probe(reference, key, reference_hash_of(key));
    int64_t tat = atomic_load_explicit(&slot->tat_us, memory_order_relaxed);

    clock_gettime(CLOCK_REALTIME, &time);
    int64_t now = (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000, next;
    do {
        next = (tat > now ? tat : now) + INTERVAL_US;
        if (next - now > TOLERANCE_US)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&slot->tat_us, &tat, next, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}
