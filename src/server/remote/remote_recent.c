/* remote_recent.c - what Redis last said of a limit: see remote_recent.h. */
#include "server/remote/remote_recent.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/decision.h"
#include "lib/core/num.h"

enum { FRESH_MS = 2000 };

/* What was heard about the scopes of a call, all together. */
struct recent_entry {
    uint64_t hash; /* 0: none */
    tg_ms heard_at;
    tg_ms refused_until; /* 0: it was admitted */
    int64_t refused_cost;
    struct tg_axes heard; /* what Redis said then */
    int64_t calls, units; /* given out since */
};

struct recent {
    uint64_t seed;
    uint64_t generation;
    size_t n;
    struct recent_entry entries[];
};

struct recent *recent_new(uint64_t seed, size_t entries)
{
    assert(entries >= 1);
    struct recent *recent = calloc(1, sizeof *recent + entries * sizeof recent->entries[0]);

    if (recent == NULL)
        return NULL;
    recent->seed = seed;
    recent->n = entries;
    return recent;
}

void recent_free(struct recent *recent)
{
    free(recent);
}

bool recent_is_for(struct recent *recent, uint64_t generation)
{
    if (generation > recent->generation) {
        recent->generation = generation;
        memset(recent->entries, 0, recent->n * sizeof recent->entries[0]);
    }
    return generation == recent->generation;
}

static uint64_t remote_recent_hash_of(const struct recent *recent, const struct tg_debit *debit)
{
    uint64_t hash = recent->seed;

    for (size_t i = 0; i < debit->n_scopes; i++)
        hash = XXH3_64bits_withSeed(debit->scopes[i].key, debit->scopes[i].key_bytes,
                                    hash + debit->scopes[i].limits);
    return hash != 0 ? hash : 1;
}

static struct recent_entry *entry_of(struct recent *recent, uint64_t hash)
{
    return &recent->entries[hash % recent->n];
}

void recent_heard(struct recent *recent, const struct tg_debit *debit, const struct tg_axes *axes,
                  tg_ms now)
{
    enum tg_axis binding = tg_axes_binding(axes);
    uint64_t hash = remote_recent_hash_of(recent, debit);
    struct recent_entry *entry = entry_of(recent, hash);

    *entry = (struct recent_entry){.hash = hash, .heard_at = now, .heard = *axes};
    if (binding == TG_AXIS_NONE)
        return;
    entry->refused_until = num_add(now, axes->decision[binding].retry_after_ms);
    entry->refused_cost = binding == TG_AXIS_COST ? debit->cost : 0;
}

/* One axis: whether so much more of its part is there. As with shares, nobody's is nothing. */
static bool fits(const struct tg_decision *heard, int64_t given, int64_t need, int64_t parts)
{
    assert(parts >= 1);
    return need <= num_max(heard->remaining / parts, num_min(heard->remaining, 1)) - given;
}

/* The limit that was spoken of then is still the one to speak of. */
static void remote_recent_answer(struct tg_axes *axes, enum tg_axis axis,
                                 const struct recent_entry *entry, bool allowed, int64_t given,
                                 tg_ms again)
{
    struct tg_decision all = entry->heard.decision[axis];
    struct tg_limit_answer named = entry->heard.named[axis];

    if (!(entry->heard.present & 1u << axis))
        return;
    all.allowed = named.decision.allowed = allowed;
    all.remaining = num_less(all.remaining, given);
    named.decision.remaining = num_less(named.decision.remaining, given);
    all.retry_after_ms = named.decision.retry_after_ms = allowed ? 0 : again;
    axes_join(axes, axis, &all, &named);
}

/* What a call that is refused has to wait for besides its binding axis. */
static void remote_recent_hints(struct tg_axes *axes, const struct recent_entry *entry, tg_ms now)
{
    if (entry->heard.retry_after_ms == 0)
        return;
    axes->reset_at = entry->heard.reset_at;
    axes->retry_after_ms = num_less(num_add(entry->heard_at, entry->heard.retry_after_ms), now);
}

bool recent_decide(struct recent *recent, const struct tg_debit *debit, int64_t parts, tg_ms now,
                   struct tg_axes *axes)
{
    uint64_t hash = remote_recent_hash_of(recent, debit);
    struct recent_entry *entry = entry_of(recent, hash);
    bool refused = entry->refused_until > now && debit->cost >= entry->refused_cost;

    if (entry->hash != hash || (now - entry->heard_at > FRESH_MS && !refused))
        return false;
    const struct tg_axes *heard = &entry->heard;
    bool rate = !(heard->present & 1u << TG_AXIS_RATE) ||
                fits(&heard->decision[TG_AXIS_RATE], entry->calls, 1, parts);
    bool cost = !(heard->present & 1u << TG_AXIS_COST) ||
                fits(&heard->decision[TG_AXIS_COST], entry->units, debit->cost, parts);
    tg_ms again = refused ? entry->refused_until - now : FRESH_MS;
    if (refused)
        rate = entry->refused_cost > 0, cost = entry->refused_cost == 0;
    assert(entry->calls >= 0 && entry->units >= 0);
    if (rate && cost) {
        entry->calls++;
        entry->units = num_add(entry->units, debit->cost);
    }
    memset(axes, 0, sizeof *axes);
    remote_recent_answer(axes, TG_AXIS_RATE, entry, rate, entry->calls, again);
    remote_recent_answer(axes, TG_AXIS_COST, entry, cost, entry->units, again);
    if (refused)
        remote_recent_hints(axes, entry, now);
    return true;
}

bool recent_is_refused(struct recent *recent, const struct tg_debit *debit, tg_ms now,
                       struct tg_axes *axes)
{
    uint64_t hash = remote_recent_hash_of(recent, debit);
    const struct recent_entry *entry = entry_of(recent, hash);

    if (entry->hash != hash || now - entry->heard_at > FRESH_MS || entry->refused_until <= now ||
        entry->refused_cost > 0)
        return false;
    memset(axes, 0, sizeof *axes);
    remote_recent_answer(axes, TG_AXIS_RATE, entry, false, 0, entry->refused_until - now);
    remote_recent_answer(axes, TG_AXIS_COST, entry, true, 0, 0);
    remote_recent_hints(axes, entry, now);
    return true;
}

void recent_give_back(struct recent *recent, const struct tg_debit *debit)
{
    uint64_t hash = remote_recent_hash_of(recent, debit);
    struct recent_entry *entry = entry_of(recent, hash);

    if (entry->hash != hash || entry->calls == 0)
        return; /* Redis has been heard since */
    assert(entry->calls > 0 && entry->units >= 0);
    entry->calls--;
    entry->units = num_less(entry->units, debit->cost);
}
