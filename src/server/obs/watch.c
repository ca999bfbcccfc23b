/* watch.c - the latest denials: a ring that writers never wait at. See watch.h.
 *
 * Each slot has a version: 0, nothing yet; 2 * number + 1, denial `number` is being written; 2 *
 * number + 2, it is there. A writer claims a slot by moving its version from an even one to its own
 * odd one, and a reader copies a slot and believes the copy if the version was the right one before
 * and after. A lock would be simpler and is what this is to avoid: a reader that is stopped while
 * it holds one, by the scheduler or by a debugger, would stop every worker that has to refuse.
 *
 * A writer that is overtaken by a whole ring of others finds its slot claimed, or taken by a newer
 * one, and drops its own. So a number may never be there; a reader passes over one that is still
 * missing when half a ring has come after it.
 *
 * Ordering: a sequence lock whose words are atomic, so that a torn copy is no undefined behaviour,
 * only thrown away. A word is stored with release: whoever sees it sees the claim before it. It is
 * loaded with acquire: a reader that got a word of a newer writer sees that one's claim at its
 * second load of the version; and all words are there before the even version is, by its release.
 * Fences would do as well, but TSan knows none; on x86 these are plain moves.
 * tests/unit/server/obs/test_watch_threads.c runs it.
 */
#include "server/obs/watch.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/utf8.h"

enum { WORDS = (sizeof(struct watch_entry) + 7) / 8 };

struct watch_slot {
    atomic_ullong version;
    atomic_ullong words[WORDS];
};

struct watch {
    size_t n; /* slots */
    _Alignas(64) atomic_ullong next;
    atomic_ullong dropped, missed;
    _Alignas(64) struct watch_slot slots[];
};

struct watch *watch_new(size_t slots)
{
    size_t bytes = sizeof(struct watch) + slots * sizeof(struct watch_slot);
    struct watch *watch = aligned_alloc(64, (bytes + 63) / 64 * 64);

    assert(slots >= 2 && (slots & (slots - 1)) == 0);
    if (watch == NULL)
        return NULL;
    memset(watch, 0, bytes);
    watch->n = slots;
    return watch;
}

void watch_free(struct watch *watch)
{
    free(watch);
}

/* ---- Entries ------------------------------------------------------------------------------- */

void watch_entry_init(struct watch_entry *entry)
{
    memset(entry, 0, sizeof *entry);
    entry->retry_after_ms = entry->max_tokens = entry->prompt_bytes = -1;
    entry->limit = entry->remaining = -1;
}

void watch_text(char *to, size_t size, struct slice text)
{
    size_t n = 0;

    while (n < text.n && text.at[n] != 0) {
        size_t bytes = utf8_bytes(text.at + n, text.n - n);
        if (n + (bytes > 0 ? bytes : 1) >= size)
            break;
        if (bytes == 0)
            to[n++] = '?';
        else
            for (size_t end = n + bytes; n < end; n++)
                to[n] = text.at[n];
    }
    assert(n < size);
    to[n] = 0;
}

/* ---- Writing ------------------------------------------------------------------------------- */

static bool claim(struct watch_slot *slot, uint64_t number)
{
    unsigned long long version = atomic_load_explicit(&slot->version, memory_order_relaxed);

    return version % 2 == 0 && version <= 2 * number &&
           atomic_compare_exchange_strong_explicit(&slot->version, &version, 2 * number + 1,
                                                   memory_order_relaxed, memory_order_relaxed);
}

void watch_put(struct watch *watch, const struct watch_entry *entry)
{
    uint64_t number = atomic_fetch_add_explicit(&watch->next, 1, memory_order_relaxed);
    struct watch_slot *slot = &watch->slots[number & (watch->n - 1)];
    unsigned long long words[WORDS] = {0};

    if (!claim(slot, number)) {
        atomic_fetch_add_explicit(&watch->dropped, 1, memory_order_relaxed);
        return;
    }
    memcpy(words, entry, sizeof *entry);
    for (size_t i = 0; i < WORDS; i++)
        atomic_store_explicit(&slot->words[i], words[i], memory_order_release);
    /* Nobody else changes a slot while it is claimed. */
    assert(atomic_load_explicit(&slot->version, memory_order_relaxed) == 2 * number + 1);
    atomic_store_explicit(&slot->version, 2 * number + 2, memory_order_release);
}

void watch_miss(struct watch *watch)
{
    atomic_fetch_add_explicit(&watch->missed, 1, memory_order_relaxed);
}

uint64_t watch_missed(const struct watch *watch)
{
    return atomic_load_explicit(&watch->missed, memory_order_relaxed);
}

/* ---- Reading ------------------------------------------------------------------------------- */

enum found { FOUND, NOT_YET, GONE };

static enum found read_slot(const struct watch *watch, uint64_t number, struct watch_entry *entry)
{
    const struct watch_slot *slot = &watch->slots[number & (watch->n - 1)];
    unsigned long long want = 2 * number + 2, words[WORDS];
    unsigned long long before = atomic_load_explicit(&slot->version, memory_order_acquire);

    if (before != want)
        return before < want ? NOT_YET : GONE;
    for (size_t i = 0; i < WORDS; i++)
        words[i] = atomic_load_explicit(&slot->words[i], memory_order_acquire);
    if (atomic_load_explicit(&slot->version, memory_order_relaxed) != want)
        return GONE;
    memcpy(entry, words, sizeof *entry);
    return FOUND;
}

watch_place watch_end(const struct watch *watch)
{
    return atomic_load_explicit(&watch->next, memory_order_relaxed);
}

bool watch_take(const struct watch *watch, watch_place *place, struct watch_entry *entry,
                uint64_t *lost)
{
    for (;;) {
        watch_place end = watch_end(watch);
        if (end > watch->n && *place < end - watch->n) { /* overwritten since */
            *lost += end - watch->n - *place;
            *place = end - watch->n;
        }
        if (*place >= end)
            return false;
        enum found found = read_slot(watch, *place, entry);
        if (found == NOT_YET && end - *place <= watch->n / 2)
            return false;
        ++*place;
        if (found == FOUND)
            return true;
        ++*lost;
    }
}

size_t watch_recent(const struct watch *watch, struct watch_entry *entries, size_t n)
{
    watch_place end = watch_end(watch), first = end > watch->n ? end - watch->n : 0;
    size_t found = 0;

    assert(end - first <= watch->n);
    while (end > first && found < n)
        if (read_slot(watch, --end, &entries[found]) == FOUND)
            found++;
    return found;
}

uint64_t watch_total(const struct watch *watch)
{
    return watch_end(watch);
}

uint64_t watch_dropped(const struct watch *watch)
{
    return atomic_load_explicit(&watch->dropped, memory_order_relaxed);
}
