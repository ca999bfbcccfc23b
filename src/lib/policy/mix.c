/* mix.c - cells by the leading bits of value for use: see mix.h.
 *
 * A ratio's bits as a float, exponent and the first bits of the mantissa, are its logarithm in
 * steps of an eighth of an octave, for nothing. The key of a cell is made of one such number for
 * each axis that counts. Cells are found by 256 bytes of open addressing inside the struct, and not
 * by the hash table of core: a mix allocates nothing, and its slots fit into four cache lines.
 */
#include "lib/policy/mix.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    STEP_BITS = 20, /* low bits of a float's mantissa, never told apart: eight steps an octave */
    KEY_BITS = 12,  /* the bits of a float above them, without the sign */
    LEARNS = 64,    /* calls: what a cell knows follows its calls as a mean over so many */
    FULL = MIX_CELLS * 3 / 4 /* cells that may be left after making room */
};

/* The most use for a unit of value: a value next to nothing must not make it infinite, whose mean
 * with another is no number. */
static const double MOST = 1e36;

void mix_init(struct mix *mix, unsigned axes)
{
    memset(mix, 0, sizeof *mix);
    mix->axes = axes;
}

static uint64_t ratio_key(const struct mix *mix, double value, double use)
{
    double exact = value / use; /* infinite if it is of no use */
    float ratio = exact < (double)FLT_MAX ? (float)exact : FLT_MAX;
    uint32_t bits;

    memcpy(&bits, &ratio, sizeof bits);
    return (bits >> STEP_BITS) >> mix->dropped;
}

static uint64_t key_of(const struct mix *mix, double value, const double use[MIX_AXES])
{
    uint64_t key = 1;

    for (int a = 0; a < MIX_AXES; a++) {
        key <<= KEY_BITS;
        if (mix->axes & 1U << a)
            key |= ratio_key(mix, value, use[a]);
    }
    return key;
}

static size_t mix_slot_of(uint64_t key)
{
    return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 40) % MIX_SLOTS;
}

/* The slot that has the key, or the free one where it belongs. */
static size_t find_slot(const struct mix *mix, uint64_t key)
{
    size_t at = mix_slot_of(key);

    while (mix->slot[at] != 0 && mix->cell[mix->slot[at] - 1].key != key)
        at = (at + 1) % MIX_SLOTS;
    return at;
}

static void mix_learn(struct mix_cell *cell, double value, const double use[MIX_AXES])
{
    assert(value > 0);
    if (cell->n < LEARNS)
        cell->n++;
    for (int a = 0; a < MIX_AXES; a++)
        cell->per_value[a] += (fmin(use[a] / value, MOST) - cell->per_value[a]) / cell->n;
}

int mix_cell(struct mix *mix, double value, const double use[MIX_AXES], int64_t seen_at)
{
    uint64_t key = key_of(mix, value, use);
    size_t at = find_slot(mix, key);

    if (mix->slot[at] == 0) {
        if (mix->n == MIX_CELLS)
            return -1;
        mix->cell[mix->n] = (struct mix_cell){.key = key};
        mix->slot[at] = (uint8_t)++mix->n;
    }
    struct mix_cell *cell = &mix->cell[mix->slot[at] - 1];
    assert(cell->key == key && mix->n <= MIX_CELLS);
    cell->seen_at = seen_at;
    mix_learn(cell, value, use);
    return (int)(cell - mix->cell);
}

int mix_find(const struct mix *mix, double value, const double use[MIX_AXES])
{
    return mix->slot[find_slot(mix, key_of(mix, value, use))] - 1;
}

static uint64_t coarser(uint64_t key)
{
    uint64_t low = 0;

    for (int a = 0; a < MIX_AXES; a++)
        low |= UINT64_C(1) << (a * KEY_BITS);
    /* Each ratio loses its last bit; the mark above them stays where it is. */
    uint64_t mark = UINT64_C(1) << (MIX_AXES * KEY_BITS);
    return mark | ((key & ~mark & ~low) >> 1);
}

static void merge(struct mix_cell *into, const struct mix_cell *cell)
{
    double n = into->n + cell->n;

    for (int a = 0; a < MIX_AXES; a++)
        into->per_value[a] += (cell->per_value[a] - into->per_value[a]) * cell->n / n;
    into->n = n < LEARNS ? n : LEARNS;
    if (cell->seen_at > into->seen_at)
        into->seen_at = cell->seen_at;
}

/* Puts every cell that has been seen since `forget` into the table anew; equal keys become one. */
static void rebuild(struct mix *mix, int64_t forget, int to[MIX_CELLS])
{
    int moved[MIX_CELLS];
    size_t n = mix->n;

    memset(mix->slot, 0, sizeof mix->slot);
    mix->n = 0;
    for (size_t i = 0; i < n; i++) {
        struct mix_cell cell = mix->cell[i];
        moved[i] = -1;
        if (cell.seen_at < forget)
            continue;
        size_t at = find_slot(mix, cell.key);
        if (mix->slot[at] == 0) {
            mix->cell[mix->n] = cell; /* never beyond i: what is read next is still there */
            mix->slot[at] = (uint8_t)++mix->n;
        } else {
            merge(&mix->cell[mix->slot[at] - 1], &cell);
        }
        assert(mix->n <= i + 1);
        moved[i] = mix->slot[at] - 1;
    }
    for (size_t i = 0; i < MIX_CELLS; i++)
        if (to[i] >= 0)
            to[i] = moved[to[i]];
}

void mix_make_room(struct mix *mix, int64_t forget, int to[MIX_CELLS])
{
    for (int i = 0; i < MIX_CELLS; i++)
        to[i] = i < (int)mix->n ? i : -1;
    rebuild(mix, forget, to);
    while (mix->n > FULL) {
        mix->dropped++;
        assert(mix->dropped < KEY_BITS); /* then there are one or two kinds on each axis */
        for (size_t i = 0; i < mix->n; i++)
            mix->cell[i].key = coarser(mix->cell[i].key);
        rebuild(mix, forget, to);
    }
}

bool mix_is_sane(const struct mix *mix)
{
    size_t used = 0;

    if (mix->n > MIX_CELLS || mix->dropped >= KEY_BITS)
        return false;
    for (size_t i = 0; i < MIX_SLOTS; i++) {
        used += mix->slot[i] != 0;
        if (mix->slot[i] > mix->n)
            return false;
    }
    for (size_t i = 0; i < mix->n; i++) {
        const struct mix_cell *cell = &mix->cell[i];
        for (int a = 0; a < MIX_AXES; a++)
            if (!(cell->per_value[a] >= 0 && cell->per_value[a] <= MOST))
                return false;
        if (!(cell->n >= 1 && cell->n <= LEARNS))
            return false;
    }
    return used == mix->n;
}
