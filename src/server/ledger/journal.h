/* journal.h - settled calls between the reply and the database: a ring in a mapped file.
 *
 * See journal.c for how. For this room alone.
 */
#ifndef TG_LEDGER_JOURNAL_H
#define TG_LEDGER_JOURNAL_H

#include <stdatomic.h>

#include "server/ledger/ledger.h"

struct slot;

struct journal {
    struct slot *slots; /* `n` of them, in the mapping */
    size_t n;
    struct slot *open;           /* `n_open` of them, after the entries: calls in flight */
    size_t n_open;               /* 0: they are not kept, in memory and by version 1 */
    _Atomic uint32_t *open_next; /* [n_open]: the place beneath a free one, from 1 on; 0: none */
    void *mapping;
    size_t mapping_bytes;
    uint64_t token; /* the ledger's; it seeds every checksum */

    /* Appenders write these, and whoever moves entries reads them; each on a line of its own. */
    _Alignas(64) _Atomic int64_t room;  /* slots that are neither used nor promised */
    _Alignas(64) _Atomic uint64_t next; /* sequence number of the next entry */
    _Alignas(64) _Atomic uint64_t free; /* the topmost free place of open calls: journal_open.c */
};

/* One entry as it lies in the journal, with its names. */
struct journal_record {
    uint64_t sequence;
    struct ledger_entry entry;
    char names[4 * LEDGER_NAME_MAX];
};

/* Makes a new, empty journal file for the ledger `token`; nothing is there until it is whole. */
bool journal_create(const char *path, uint64_t token, size_t slots, struct tg_problem *problem);

/* Maps the file. Its token must be the ledger's. */
bool journal_map(struct journal *journal, const char *path, uint64_t token,
                 struct tg_problem *problem);

/* The same without a file. */
bool journal_map_memory(struct journal *journal, size_t slots, struct tg_problem *problem);

void journal_unmap(struct journal *journal);

/* Begins to take entries after `moved`, which must be the last one that is anywhere. */
void journal_begin(struct journal *journal, uint64_t moved);

bool journal_take_room(struct journal *journal);
void journal_give_room(struct journal *journal, int64_t n);

/* `open`: the call that it settles, from journal_open_call(), or 0. Returns the entry's number. */
uint64_t journal_append(struct journal *journal, uint32_t open, const struct ledger_entry *entry);

/* Makes the pages of the next so many entries ready to be stored to. */
void journal_warm(struct journal *journal, uint64_t slots);

/* What there is of an entry. */
enum journal_found {
    JOURNAL_NOTHING, /* it was never begun, or not finished */
    JOURNAL_WHOLE,
    JOURNAL_DAMAGED, /* its number is there, which is written last, but the rest does not fit; or a
                        number that no process has written there */
};

/* Reads entry number `sequence`, if its append has ended. */
enum journal_found journal_read(struct journal *journal, uint64_t sequence,
                                struct journal_record *record);

/* The same of a journal to which nobody appends: what a former process had written whole counts,
 * even if its append did not end. */
enum journal_found journal_find(struct journal *journal, uint64_t sequence,
                                struct journal_record *record);

/* Whether an entry that is not there, though others after it are, was wiped out together with one
 * beside it. A single blank slot may be that of an append that had not written anything yet. */
bool journal_is_erased(struct journal *journal, uint64_t sequence);

/* Removes numbers that no process has written from the slots of these entries, so that they are
 * reported once; returns how many there were. Nobody may be appending to these slots. */
uint64_t journal_wipe(struct journal *journal, uint64_t from, uint64_t to);

/* The last entry after `moved`, and within reach, of which something is left; `moved` if there is
 * none. Then: the largest number of any whole entry, within reach or not. */
uint64_t journal_last(struct journal *journal, uint64_t moved);
uint64_t journal_newest(struct journal *journal);

/* Writes to the disk what is only in the kernel's memory yet. */
void journal_sync(struct journal *journal);

/* ---- journal_open.c ---- */

/* Notes a call that is about to be sent. 0: there is no place, and nothing is noted. */
uint32_t journal_open_call(struct journal *journal, const struct ledger_entry *entry);

/* The call was never sent, or is settled. 0 is fine. */
void journal_close_call(struct journal *journal, uint32_t open);

/* After a crash, before anything is moved: ends the calls whose entry is in the database, which has
 * all up to `moved`, or whole in the journal. What is open then has no entry. */
void journal_close_settled(struct journal *journal, uint64_t moved);

/* Makes all places free but those of open calls. False: there is no memory. */
bool journal_open_begin(struct journal *journal);

bool journal_has_open(struct journal *journal);

/* Reads the place `open`, from 1 to n_open. */
enum journal_found journal_find_open(struct journal *journal, uint32_t open,
                                     struct journal_record *record);

/* ---- journal_file.c again ---- */

/* Maps the file for reading alone, beside the process that writes it. */
bool journal_map_view(struct journal *journal, const char *path, uint64_t token,
                      struct tg_problem *problem);

/* What was in a journal at some moment, from one sequence number on. */
struct journal_copy {
    struct journal_record *records;
    size_t n;
    uint64_t *damaged; /* sequence numbers; UINT64_MAX: nobody knows which */
    size_t n_damaged;
};

/* False: no memory. */
bool journal_copy(struct journal *journal, uint64_t moved, struct journal_copy *copy);
void journal_copy_free(struct journal_copy *copy);

#endif
