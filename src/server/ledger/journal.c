/* journal.c - settled calls between the reply and the database: a ring in a mapped file.
 *
 * A reply may not go out before its cost is where a crash cannot take it, and no call should wait
 * for a disk. A page that is mapped MAP_SHARED belongs to the kernel: what was stored there
 * survives the death of the process at once, without a system call. So an entry is stored into a
 * slot of a mapped file, and the database gets it later. Rejected: a commit for each call (a sync,
 * some ms), write() to a log (a system call, and the log grows), a queue in plain memory (kill -9
 * loses it).
 *
 *     file = head, slot 0, slot 1, ... slot n - 1         entry s lies in slot (s - 1) mod n
 *            open calls                                   journal_open.c
 *     slot = sequence, checksum, numbers, names           `sequence` is stored last
 *
 * Entries are numbered from 1 without end. The database remembers the last number it has; what the
 * journal holds beyond that is counted again after a crash, and what it holds up to that is not:
 * exactly once. A slot is used again only after its entry is in the database, so a slot that was
 * being overwritten when the process died still shows an old number and is passed over.
 *
 * Slots are of one size, so that bytes of a name can never be taken for an entry, and large enough
 * for the longest names. Names are in the entry itself: a table of names would have to be on disk
 * before a new user's first reply.
 *
 * Room is counted apart from numbers: who takes room before a call is sent can append after it,
 * even if the disk has filled up since. Always: next - 1 - moved + promised + room == n.
 *
 * Ordering. Whoever has moved entries gives their room back with a release; taking room is an
 * acquire. That orders the mover's reads before the writes of the taker itself, but room and number
 * are two words: a thread that took older room may get the number of newer. Drawing numbers is
 * acquire and release, so it is ordered after all who drew before it, and one of those must have
 * taken the newer room. `sequence` is published with a release and read with an acquire.
 * tests/unit/server/ledger/test_ledger_threads.c runs it under TSan.
 *
 * The file is written whole when it is made: on a full disk, a store into a hole would kill the
 * process. A page that the kernel has written back costs a fault of about a microsecond when it is
 * stored to again. Whoever moves entries takes these faults for the appenders, some pages ahead
 * (journal_warm); where one is left, no lock is held there, and only that thread waits.
 */
#include "server/ledger/journal.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/num.h"
#include "server/ledger/journal_internal.h"

/* ---- One slot ---- */

static size_t names_size(const struct slot *slot)
{
    size_t bytes = 0;

    for (size_t i = 0; i < N_NAMES; i++)
        bytes += slot->name_bytes[i];
    return bytes;
}

static int64_t slot_uncertain(const struct slot *slot)
{
    return slot->flags & LEDGER_UNCERTAIN ? slot->uncertain : 0;
}

static uint64_t slot_checksum(const struct slot *slot, uint64_t token, uint64_t sequence)
{
    size_t from = offsetof(struct slot, reserved_at);
    size_t bytes = offsetof(struct slot, names) - from + names_size(slot);
    uint64_t sum = XXH3_64bits_withSeed((const char *)slot + from, bytes, token ^ sequence);
    int64_t uncertain = slot_uncertain(slot);

    return uncertain == 0 ? sum : XXH3_64bits_withSeed(&uncertain, sizeof uncertain, sum);
}

static int64_t journal_clamp(int64_t x, int64_t high)
{
    return num_min(num_max(x, 0), high);
}

static void put_names(struct slot *slot, const struct ledger_entry *entry)
{
    const struct ledger_text *names[N_NAMES] = {&entry->user, &entry->model, &entry->provider,
                                                &entry->key};
    char *to = slot->names;

    for (size_t i = 0; i < N_NAMES; i++) {
        size_t bytes = names[i]->size;
        if (bytes > LEDGER_NAME_MAX) {
            bytes = LEDGER_NAME_MAX;
            slot->flags |= LEDGER_CUT;
        }
        slot->name_bytes[i] = (uint16_t)bytes;
        if (bytes > 0)
            memcpy(to, names[i]->bytes, bytes);
        to += bytes;
    }
    assert(to <= slot->names + sizeof slot->names);
}

void slot_write(struct journal *journal, struct slot *slot, const struct ledger_entry *entry,
                uint64_t number)
{
    slot->reserved_at = journal_clamp(entry->reserved_at, TG_NUMBER_MAX);
    slot->settled_at = journal_clamp(entry->settled_at, TG_NUMBER_MAX);
    slot->micro = journal_clamp(entry->micro, TG_MONEY_MAX);
    slot->input = journal_clamp(entry->usage.input, TG_NUMBER_MAX);
    slot->cached_input = journal_clamp(entry->usage.cached_input, TG_NUMBER_MAX);
    slot->cache_write = journal_clamp(entry->usage.cache_write, TG_NUMBER_MAX);
    slot->output = journal_clamp(entry->usage.output, TG_NUMBER_MAX);
    slot->tenant = entry->tenant;
    slot->flags = entry->flags & ~(uint32_t)LEDGER_UNCERTAIN;
    if (entry->uncertain > 0) {
        slot->uncertain = journal_clamp(entry->uncertain, TG_MONEY_MAX);
        slot->flags |= LEDGER_UNCERTAIN;
    }
    put_names(slot, entry);
    slot->checksum = slot_checksum(slot, journal->token, number);
}

static void get_entry(const struct slot *slot, struct journal_record *record)
{
    struct ledger_entry *entry = &record->entry;
    struct ledger_text *names[N_NAMES] = {&entry->user, &entry->model, &entry->provider,
                                          &entry->key};
    char *at = record->names;

    *entry = (struct ledger_entry){
        .reserved_at = slot->reserved_at,
        .settled_at = slot->settled_at,
        .tenant = slot->tenant,
        .flags = slot->flags,
        .usage = {.input = slot->input,
                  .cached_input = slot->cached_input,
                  .cache_write = slot->cache_write,
                  .output = slot->output},
        .micro = slot->micro,
        .uncertain = slot_uncertain(slot),
    };
    assert(names_size(slot) <= sizeof record->names);
    memcpy(record->names, slot->names, names_size(slot));
    for (size_t i = 0; i < N_NAMES; i++) {
        *names[i] = (struct ledger_text){at, slot->name_bytes[i]};
        at += slot->name_bytes[i];
    }
}

/* ---- Appending ---- */

static struct slot *journal_slot_of(struct journal *journal, uint64_t sequence)
{
    assert(sequence > 0); /* entries are numbered from 1 */
    return &journal->slots[(sequence - 1) % journal->n];
}

/* Whether a number can stand in the slot of another: its own, an earlier one's, or none. */
static bool can_stand(const struct journal *journal, uint64_t number, uint64_t sequence)
{
    return number == 0 || (number <= sequence && (sequence - number) % journal->n == 0);
}

void journal_begin(struct journal *journal, uint64_t moved)
{
    atomic_store(&journal->next, moved + 1);
    atomic_store(&journal->room, (int64_t)journal->n);
}

bool journal_take_room(struct journal *journal)
{
    int64_t room = atomic_load_explicit(&journal->room, memory_order_relaxed);

    while (room > 0)
        if (atomic_compare_exchange_weak_explicit(&journal->room, &room, room - 1,
                                                  memory_order_acquire, memory_order_relaxed))
            return true;
    return false;
}

void journal_give_room(struct journal *journal, int64_t n)
{
    int64_t room = atomic_fetch_add_explicit(&journal->room, n, memory_order_release);

    assert(n >= 0 && room >= 0 && room + n <= (int64_t)journal->n);
    (void)room;
}

uint64_t journal_append(struct journal *journal, uint32_t open, const struct ledger_entry *entry)
{
    uint64_t sequence = atomic_fetch_add_explicit(&journal->next, 1, memory_order_acq_rel);
    struct slot *slot = journal_slot_of(journal, sequence);

    /* The room that was taken is an old entry's that the database has, or was never used. */
    assert(atomic_load_explicit(&slot->sequence, memory_order_relaxed) < sequence);
    journal_open_settling(journal, open, sequence);
    slot_write(journal, slot, entry, sequence);
    atomic_store_explicit(&slot->sequence, sequence, memory_order_release);
    journal_close_call(journal, open);
    return sequence;
}

void journal_warm(struct journal *journal, uint64_t slots)
{
    uint64_t next = atomic_load(&journal->next);

    /* Adds nothing to a word that appenders store to as a whole: whoever comes first, it holds what
     * they wrote. */
    slots = slots < journal->n ? slots : journal->n;
    for (uint64_t i = 0; i < slots; i += PAGE_SLOTS)
        atomic_fetch_add_explicit(&journal_slot_of(journal, next + i)->sequence, 0,
                                  memory_order_relaxed);
}

/* ---- Reading ---- */

/* Checks a copy, not the slot: in a view, another process may be writing there. */
bool slot_read(struct journal *journal, const struct slot *slot, uint64_t number,
               struct journal_record *record)
{
    struct slot copy;
    size_t from = offsetof(struct slot, checksum), to = offsetof(struct slot, names);

    memcpy((char *)&copy + from, (const char *)slot + from, to - from);
    for (size_t i = 0; i < N_NAMES; i++)
        if (copy.name_bytes[i] > LEDGER_NAME_MAX)
            return false;
    memcpy(copy.names, slot->names, names_size(&copy));
    copy.uncertain = slot->uncertain;
    if (copy.checksum != slot_checksum(&copy, journal->token, number))
        return false;
    record->sequence = number;
    get_entry(&copy, record);
    return true;
}

/* An append that has not ended has left the number that was there before it: any other is damage.
 * */
static enum journal_found found_at(const struct journal *journal, uint64_t number,
                                   uint64_t sequence)
{
    return number == sequence || !can_stand(journal, number, sequence) ? JOURNAL_DAMAGED
                                                                       : JOURNAL_NOTHING;
}

enum journal_found journal_read(struct journal *journal, uint64_t sequence,
                                struct journal_record *record)
{
    struct slot *slot = journal_slot_of(journal, sequence);
    uint64_t number = atomic_load_explicit(&slot->sequence, memory_order_acquire);

    if (number == sequence && slot_read(journal, slot, sequence, record))
        return JOURNAL_WHOLE;
    return found_at(journal, number, sequence);
}

/* The checksum is seeded with the number: an entry that matches it is this one, even if the number
 * itself had not been written, or is damaged. */
enum journal_found journal_find(struct journal *journal, uint64_t sequence,
                                struct journal_record *record)
{
    struct slot *slot = journal_slot_of(journal, sequence);

    if (slot_read(journal, slot, sequence, record))
        return JOURNAL_WHOLE;
    return found_at(journal, atomic_load(&slot->sequence), sequence);
}

static bool is_blank(struct journal *journal, uint64_t sequence)
{
    static const struct slot blank;

    return memcmp(journal_slot_of(journal, sequence), &blank, sizeof blank) == 0;
}

/* One may be an append that had only just drawn its number. */
bool journal_is_erased(struct journal *journal, uint64_t sequence)
{
    return is_blank(journal, sequence) &&
           ((sequence > 1 && is_blank(journal, sequence - 1)) || is_blank(journal, sequence + 1));
}

uint64_t journal_last(struct journal *journal, uint64_t moved)
{
    struct journal_record record;
    uint64_t last = moved;

    for (uint64_t sequence = moved + 1; sequence <= moved + journal->n; sequence++)
        if (atomic_load(&journal_slot_of(journal, sequence)->sequence) == sequence ||
            journal_find(journal, sequence, &record) == JOURNAL_WHOLE)
            last = sequence;
    assert(last >= moved && last <= moved + journal->n);
    return last;
}

uint64_t journal_wipe(struct journal *journal, uint64_t from, uint64_t to)
{
    uint64_t wiped = 0;

    for (uint64_t sequence = from; sequence <= to; sequence++) {
        struct slot *slot = journal_slot_of(journal, sequence);
        if (can_stand(journal, atomic_load(&slot->sequence), sequence))
            continue;
        atomic_store(&slot->sequence, 0);
        wiped++;
    }
    return wiped;
}

uint64_t journal_newest(struct journal *journal)
{
    struct journal_record record;
    uint64_t newest = 0;

    for (size_t i = 0; i < journal->n; i++) {
        uint64_t sequence = atomic_load(&journal->slots[i].sequence);
        if (sequence > newest && journal_read(journal, sequence, &record) == JOURNAL_WHOLE)
            newest = sequence;
    }
    return newest;
}

bool journal_copy(struct journal *journal, uint64_t moved, struct journal_copy *copy)
{
    *copy = (struct journal_copy){
        .records = malloc(journal->n * sizeof *copy->records),
        .damaged = malloc(journal->n * sizeof *copy->damaged),
    };
    if (copy->records == NULL || copy->damaged == NULL) {
        journal_copy_free(copy);
        return false;
    }
    /* By slot, not by number: whoever writes may be a lap further than `moved`. */
    for (size_t i = 0; i < journal->n; i++) {
        struct slot *slot = &journal->slots[i];
        uint64_t sequence = atomic_load_explicit(&slot->sequence, memory_order_acquire);
        bool belongs = (sequence - 1) % journal->n == i;
        if (sequence == 0 || (belongs && sequence <= moved))
            continue;
        if (!belongs) /* it may have been any entry that is not moved yet */
            copy->damaged[copy->n_damaged++] = UINT64_MAX;
        else if (slot_read(journal, slot, sequence, &copy->records[copy->n]))
            copy->n++;
        else
            copy->damaged[copy->n_damaged++] = sequence;
    }
    assert(copy->n + copy->n_damaged <= journal->n);
    return true;
}

void journal_copy_free(struct journal_copy *copy)
{
    free(copy->records);
    free(copy->damaged);
    *copy = (struct journal_copy){0};
}
