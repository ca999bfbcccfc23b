/* recent_refusals.c - the last refusals of one tenant. See recent_refusals.h.
 *
 * Entries lie one behind the other, each a head of fixed size and its texts, every one with a 0 at
 * its end. Where a new one has no room, the oldest are dropped and the rest moves up: 4 KiB at
 * most, ten times a second.
 */
#include "server/obs/recent_refusals.h"

#include <stdlib.h>
#include <string.h>

#include "lib/core/spinlock.h"

/* The part of an entry that has a fixed size. */
struct refusal_head {
    tg_ms at, retry_after_ms;
    uint64_t id;
    int64_t status, limit, remaining;
    uint32_t bytes; /* how long the texts behind it are */
};

struct refusal_ring {
    struct spinlock lock;
    size_t n, used;
    char bytes[REFUSALS_BYTES];
};

enum { TEXTS = 7 };

/* Where its texts are in an entry, and how long each may be. */
struct refusal_texts {
    char *at[TEXTS];
    size_t room[TEXTS];
};

static struct refusal_texts texts_of(struct watch_entry *entry)
{
    return (struct refusal_texts){
        .at = {entry->reason, entry->axis, entry->model, entry->user, entry->limit_of,
               entry->limit_rule, entry->text},
        .room = {sizeof entry->reason, sizeof entry->axis, sizeof entry->model, sizeof entry->user,
                 sizeof entry->limit_of, sizeof entry->limit_rule, sizeof entry->text}};
}

_Static_assert(sizeof(struct refusal_head) + sizeof(struct watch_entry) <= REFUSALS_BYTES,
               "one entry fits, whatever it says");

void refusals_fini(struct recent_refusals *refusals)
{
    free(atomic_load(&refusals->ring));
    atomic_store(&refusals->ring, NULL);
}

bool refusals_may_put(struct recent_refusals *refusals, tg_ms now)
{
    long long second = now / 1000 * 16, seen = atomic_load(&refusals->second), next;

    _Static_assert(REFUSALS_A_SECOND < 16, "the count has four bits");
    do {
        if (seen - seen % 16 == second && seen % 16 == REFUSALS_A_SECOND) {
            atomic_fetch_add_explicit(&refusals->left_out, 1, memory_order_relaxed);
            return false;
        }
        next = seen - seen % 16 == second ? seen + 1 : second + 1;
    } while (!atomic_compare_exchange_weak(&refusals->second, &seen, next));
    return true;
}

/* Null: no memory. */
static struct refusal_ring *ring_of(struct recent_refusals *refusals)
{
    struct refusal_ring *ring = atomic_load(&refusals->ring), *made;

    if (ring != NULL)
        return ring;
    made = calloc(1, sizeof *made);
    if (made == NULL || atomic_compare_exchange_strong(&refusals->ring, &ring, made))
        return made;
    free(made); /* another thread was first */
    return ring;
}

static size_t entry_bytes(const struct refusal_ring *ring, size_t at)
{
    struct refusal_head head;

    memcpy(&head, ring->bytes + at, sizeof head);
    return sizeof head + head.bytes;
}

static void drop_oldest(struct refusal_ring *ring, size_t bytes)
{
    size_t gone = 0;

    while (ring->n == REFUSALS_KEPT || ring->used - gone + bytes > REFUSALS_BYTES) {
        gone += entry_bytes(ring, gone);
        ring->n--;
    }
    memmove(ring->bytes, ring->bytes + gone, ring->used - gone);
    ring->used -= gone;
}

void refusals_put(struct recent_refusals *refusals, const struct watch_entry *entry)
{
    struct watch_entry copy = *entry;
    const struct refusal_texts texts = texts_of(&copy);
    struct refusal_ring *ring = ring_of(refusals);
    struct refusal_head head = {.at = entry->at,
                                .retry_after_ms = entry->retry_after_ms,
                                .id = entry->id,
                                .status = entry->status,
                                .limit = entry->limit,
                                .remaining = entry->remaining};

    if (ring == NULL)
        return;
    for (size_t i = 0; i < TEXTS; i++)
        head.bytes += (uint32_t)strlen(texts.at[i]) + 1;
    spin_lock(&ring->lock);
    drop_oldest(ring, sizeof head + head.bytes);
    char *to = ring->bytes + ring->used;
    memcpy(to, &head, sizeof head);
    to += sizeof head;
    for (size_t i = 0; i < TEXTS; i++) {
        size_t n = strlen(texts.at[i]) + 1;
        memcpy(to, texts.at[i], n);
        to += n;
    }
    ring->used += sizeof head + head.bytes;
    ring->n++;
    spin_unlock(&ring->lock);
}

/* The entry at a place; where the next one is. */
static size_t read_entry(const char *bytes, size_t at, struct watch_entry *entry)
{
    struct refusal_texts texts = texts_of(entry);
    struct refusal_head head;

    memcpy(&head, bytes + at, sizeof head);
    watch_entry_init(entry);
    entry->at = head.at;
    entry->retry_after_ms = head.retry_after_ms;
    entry->id = head.id;
    entry->status = head.status;
    entry->limit = head.limit;
    entry->remaining = head.remaining;
    const char *text = bytes + at + sizeof head;
    for (size_t i = 0; i < TEXTS; i++) {
        watch_text(texts.at[i], texts.room[i], slice_of(text));
        text += strlen(text) + 1;
    }
    return at + sizeof head + head.bytes;
}

size_t refusals_read(const struct recent_refusals *refusals, const char *user,
                     struct watch_entry entries[REFUSALS_KEPT])
{
    struct refusal_ring *ring = atomic_load(&refusals->ring);
    size_t at = 0, n = 0, kept;
    char bytes[REFUSALS_BYTES];

    /* A name that was cut may be another's. */
    if (ring == NULL || (user != NULL && strlen(user) >= WATCH_NAME_MAX - 4))
        return 0;
    spin_lock(&ring->lock);
    kept = ring->n;
    memcpy(bytes, ring->bytes, ring->used);
    spin_unlock(&ring->lock);
    for (size_t i = 0; i < kept; i++) {
        at = read_entry(bytes, at, &entries[n]);
        n += user == NULL || strcmp(entries[n].user, user) == 0;
    }
    for (size_t i = 0; i < n / 2; i++) {
        struct watch_entry other = entries[i];
        entries[i] = entries[n - 1 - i];
        entries[n - 1 - i] = other;
    }
    return n;
}
