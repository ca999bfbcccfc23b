/* mix.h - which kinds of calls there are, told apart as finely as a fixed table allows.
 *
 * What matters of a call is what it is worth for a unit of each scarce budget. Calls that agree in
 * that, to some bits, are one kind, whatever their size: a kind is a cell, and a cell knows what
 * its calls take, for each unit of their value. When cells run out, those not seen for long go;
 * if that frees none, one bit less is told apart and cells are merged. So three types of call are
 * known exactly, and a continuum of them as well as the table can.
 *
 * One thread at a time.
 */
#ifndef TG_POLICY_MIX_H
#define TG_POLICY_MIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MIX_AXES = 3, MIX_CELLS = 64, MIX_SLOTS = 256 /* in the hash table; a power of two */ };

struct mix_cell {
    uint64_t key;
    double per_value[MIX_AXES]; /* what its calls take of each axis, for a unit of value */
    double n;                   /* calls it has learned that from, at most some dozens count */
    int64_t seen_at;            /* any ascending number, the owner's */
};

struct mix {
    unsigned axes;    /* bits 1 << axis of those that count */
    unsigned dropped; /* bits of a ratio that are not told apart */
    size_t n;
    struct mix_cell cell[MIX_CELLS];
    uint8_t slot[MIX_SLOTS]; /* number of a cell + 1; 0: free */
};

void mix_init(struct mix *mix, unsigned axes);

/* The cell of a call of this value, above 0, that takes `use` of each axis, each 0 or more; learns
 * from it. -1: it has none, and there is no room; then mix_make_room() is to be called. */
int mix_cell(struct mix *mix, double value, const double use[MIX_AXES], int64_t seen_at);

/* The cell that a call like this is in; -1: none. Learns nothing. */
int mix_find(const struct mix *mix, double value, const double use[MIX_AXES]);

/* Whether bytes that were kept somewhere can be one: every index and number is in its range. */
bool mix_is_sane(const struct mix *mix);

/* Makes room for new cells: forgets those seen last before `forget`; if that is not enough, merges.
 * `to` tells where each cell has gone: -1 for one that is forgotten. */
void mix_make_room(struct mix *mix, int64_t forget, int to[MIX_CELLS]);

#endif
