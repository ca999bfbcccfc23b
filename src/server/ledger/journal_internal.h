/* journal_internal.h - how entries lie in a journal: for journal*.c alone. See journal.c. */
#ifndef TG_LEDGER_JOURNAL_INTERNAL_H
#define TG_LEDGER_JOURNAL_INTERNAL_H

#include "server/ledger/journal.h"

#define HEAD_BYTES 4096
#define SLOT_BYTES 1024
#define PAGE_SLOTS 4 /* a page has at least so many slots */
#define SLOTS_MAX ((uint64_t)1 << 20)
#define N_NAMES 4

/* A call holds the place of its reservation a moment longer than its room: until the entry that
 * settles it is whole. So there are some more of these than entries: one for each thread. */
#define OPEN_MORE 256

struct slot {
    _Atomic uint64_t sequence; /* 0: never used */
    uint64_t checksum;         /* covers what follows, up to the end of the names */
    int64_t reserved_at, settled_at, micro;
    int64_t input, cached_input, cache_write, output;
    uint32_t tenant, flags;
    uint16_t name_bytes[N_NAMES]; /* user, model, provider, key */
    char names[N_NAMES * LEDGER_NAME_MAX];
    int64_t uncertain; /* only with LEDGER_UNCERTAIN: other entries do not touch its cache line */
    _Atomic uint64_t settling; /* where it is an open call: the entry that settles it; 0: none */
    uint64_t call;             /* the same: what the process that sent it calls it */
    char unused[SLOT_BYTES - 112 - N_NAMES * LEDGER_NAME_MAX];
};

_Static_assert(sizeof(struct slot) == SLOT_BYTES, "slots lie side by side");

/* Writes and reads what a slot holds, without publishing it. The checksum is seeded with `number`;
 * false: it is not what was written with that. */
void slot_write(struct journal *journal, struct slot *slot, const struct ledger_entry *entry,
                uint64_t number);
bool slot_read(struct journal *journal, const struct slot *slot, uint64_t number,
               struct journal_record *record);

/* Says in the slot of an open call which entry is about to settle it; ends it when that is whole.
 * `open` 0: there is none. */
void journal_open_settling(struct journal *journal, uint32_t open, uint64_t sequence);

#endif
