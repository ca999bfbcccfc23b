/* journal_internal.h - how entries lie in a journal: for journal*.c alone. See journal.c. */
#ifndef TG_LEDGER_JOURNAL_INTERNAL_H
#define TG_LEDGER_JOURNAL_INTERNAL_H

#include "server/ledger/journal.h"

#define HEAD_BYTES 4096
#define SLOT_BYTES 1024
#define PAGE_SLOTS 4 /* a page has at least so many slots */
#define SLOTS_MAX ((uint64_t)1 << 20)
#define N_NAMES 4

struct slot {
    _Atomic uint64_t sequence; /* 0: never used */
    uint64_t checksum;         /* covers what follows, up to the end of the names */
    int64_t reserved_at, settled_at, micro;
    int64_t input, cached_input, cache_write, output;
    uint32_t tenant, flags;
    uint16_t name_bytes[N_NAMES]; /* user, model, provider, key */
    char names[N_NAMES * LEDGER_NAME_MAX];
    int64_t uncertain; /* only with LEDGER_UNCERTAIN: other entries do not touch its cache line */
    char unused[SLOT_BYTES - 96 - N_NAMES * LEDGER_NAME_MAX];
};

_Static_assert(sizeof(struct slot) == SLOT_BYTES, "slots lie side by side");

#endif
