/* journal_open.c - calls in flight: what was reserved for each, until an entry settles it.
 *
 * A provider bills what it was sent, whatever becomes of us. So what is reserved for a call is
 * written down before the call is sent, in the mapped file like the entries (journal.c), and a
 * process that finds it there after a crash settles it as reserved. Rejected: an entry in the ring,
 * to be replaced when the call is settled; entries leave the ring in order, and one long call would
 * hold up all others. Rejected: a second entry for each call that takes the first one back; the
 * database would have to write and remove each.
 *
 *     place = number, ..., settling      `number` 0: free; stored last when opened
 *
 * Settling is the one step in which both could count, or neither. It is done in this order, and
 * what a crash leaves says how far it came:
 *
 *     settling = s            entry s is not whole: it counts as open
 *     entry s is written      whole: it counts as settled, and the place is free
 *     number = 0
 *
 * A crash ends a process between two instructions, with all stores before them done; they are kept
 * in order for the compiler alone (the fence below), and a checksum says whether entry s is whole.
 * journal_close_settled() removes the difference before entries are moved, so a crash of the next
 * process, whenever it comes, finds the same. What is open then is settled by journal_append(), in
 * the very same order. tests/unit/server/ledger/test_ledger_crash.c kills it all the time.
 *
 * Free places are a stack, so that few pages are written to: its top is a place, and above that a
 * count of all changes, so that a thread which was held up in between fails to swap it. The count
 * also gives each open call another number.
 */
#include <assert.h>
#include <stdlib.h>

#include "server/ledger/journal_internal.h"

/* ---- The stack of free places ---- */

#define PLACE_BITS 24
#define PLACE_MASK (((uint64_t)1 << PLACE_BITS) - 1)
_Static_assert(SLOTS_MAX + OPEN_MORE <= PLACE_MASK, "places fit into their bits");

static uint64_t top_of(uint64_t before, uint32_t place)
{
    return ((before >> PLACE_BITS) + 1) << PLACE_BITS | place;
}

/* A place, and the number of changes until now; 0: none is free. */
static uint32_t pop_place(struct journal *journal, uint64_t *changes)
{
    uint64_t top = atomic_load_explicit(&journal->free, memory_order_acquire);
    uint32_t place, below;

    do {
        place = (uint32_t)(top & PLACE_MASK);
        if (place == 0)
            return 0;
        below = atomic_load_explicit(&journal->open_next[place - 1], memory_order_relaxed);
        /* Acquire: whoever had the place has ended with it. */
    } while (!atomic_compare_exchange_weak_explicit(&journal->free, &top, top_of(top, below),
                                                    memory_order_acq_rel, memory_order_acquire));
    *changes = top >> PLACE_BITS;
    return place;
}

static void push_place(struct journal *journal, uint32_t place)
{
    uint64_t top = atomic_load_explicit(&journal->free, memory_order_relaxed);

    do
        atomic_store_explicit(&journal->open_next[place - 1], (uint32_t)(top & PLACE_MASK),
                              memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&journal->free, &top, top_of(top, place),
                                                  memory_order_release, memory_order_relaxed));
}

/* ---- On the way of a call ---- */

uint32_t journal_open_call(struct journal *journal, const struct ledger_entry *entry)
{
    uint64_t changes;
    uint32_t place = pop_place(journal, &changes);

    if (place == 0)
        return 0;
    struct slot *slot = &journal->open[place - 1];
    assert(atomic_load_explicit(&slot->sequence, memory_order_relaxed) == 0);
    atomic_store_explicit(&slot->settling, 0, memory_order_relaxed);
    slot_write(journal, slot, entry, ~(changes + 1));
    slot->call = entry->call;
    atomic_store_explicit(&slot->sequence, changes + 1, memory_order_release);
    return place;
}

void journal_open_settling(struct journal *journal, uint32_t open, uint64_t sequence)
{
    if (open == 0)
        return;
    assert(open <= journal->n_open);
    atomic_store_explicit(&journal->open[open - 1].settling, sequence, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* before anything of the entry is written */
}

void journal_close_call(struct journal *journal, uint32_t open)
{
    if (open == 0)
        return;
    assert(open <= journal->n_open);
    assert(atomic_load_explicit(&journal->open[open - 1].sequence, memory_order_relaxed) != 0);
    /* Release: after the entry. */
    atomic_store_explicit(&journal->open[open - 1].sequence, 0, memory_order_release);
    push_place(journal, open);
}

/* ---- After a crash: nobody else is there ---- */

void journal_close_settled(struct journal *journal, uint64_t moved)
{
    struct journal_record record;

    for (size_t i = 0; i < journal->n_open; i++) {
        struct slot *slot = &journal->open[i];
        uint64_t settling = atomic_load(&slot->settling);
        if (atomic_load(&slot->sequence) == 0 || settling == 0)
            continue;
        if (settling <= moved || journal_find(journal, settling, &record) == JOURNAL_WHOLE)
            atomic_store(&slot->sequence, 0);
        else
            atomic_store(&slot->settling, 0); /* its number may be another entry's some day */
    }
}

bool journal_open_begin(struct journal *journal)
{
    if (journal->n_open == 0)
        return true;
    journal->open_next = malloc(journal->n_open * sizeof *journal->open_next);
    if (journal->open_next == NULL)
        return false;
    atomic_store(&journal->free, 0);
    for (uint32_t place = (uint32_t)journal->n_open; place > 0; place--)
        if (atomic_load(&journal->open[place - 1].sequence) == 0)
            push_place(journal, place);
    return true;
}

bool journal_has_open(struct journal *journal)
{
    for (size_t i = 0; i < journal->n_open; i++)
        if (atomic_load(&journal->open[i].sequence) != 0)
            return true;
    return false;
}

enum journal_found journal_find_open(struct journal *journal, uint32_t open,
                                     struct journal_record *record)
{
    struct slot *slot = &journal->open[open - 1];
    uint64_t number = atomic_load(&slot->sequence);

    if (number == 0)
        return JOURNAL_NOTHING;
    if (!slot_read(journal, slot, ~number, record))
        return JOURNAL_DAMAGED;
    record->entry.call = slot->call;
    return JOURNAL_WHOLE;
}
