/* hold.h - the reservations of a bank: places that are used again, numbers that are not.
 *
 * A reservation's number is its place, 24 bits, and its generation, 40 bits. With 32 bits for the
 * generation, a place that is used a million times a second, as the last one freed is, would have
 * used up its numbers within 72 minutes; with 40 it takes 12 days, and then the place is given up,
 * so that a number is never used twice.
 *
 * The bank's lock covers everything here.
 */
#ifndef TG_BUDGET_HOLD_H
#define TG_BUDGET_HOLD_H

#include "lib/budget/account.h"

#define HOLD_PLACE_BITS 24
#define HOLDS_MAX ((UINT32_C(1) << HOLD_PLACE_BITS) - 1)
#define HOLD_GENERATION_MAX ((UINT64_C(1) << (64 - HOLD_PLACE_BITS)) - 1)

enum { HOLD_CHUNK = 256 };

struct hold {
    uint64_t number;
    struct account *account; /* null: free */
    tg_ms reserved_at;
    union {
        tg_micro money;
        struct hold *next; /* of a free one */
    } as;
};

struct holds {
    struct hold **chunks;
    uint32_t n_chunks;
    struct hold *free;
    size_t used;
};

void holds_fini(struct holds *holds);

/* Makes sure that there is a free one. TG_ERR_MEMORY, TG_ERR_FULL. */
enum tg_err holds_make_room(struct holds *holds);

/* There is a free one. Its number is set, and nothing else. */
struct hold *holds_get(struct holds *holds);
void holds_put(struct holds *holds, struct hold *hold);

/* Null if the reservation has ended, or never was. */
static inline struct hold *holds_find(const struct holds *holds, tg_reservation number)
{
    uint32_t place = (uint32_t)(number & HOLDS_MAX) - 1;

    if ((number & HOLDS_MAX) == 0 || place / HOLD_CHUNK >= holds->n_chunks)
        return NULL;
    struct hold *hold = &holds->chunks[place / HOLD_CHUNK][place % HOLD_CHUNK];
    return hold->account && hold->number == number ? hold : NULL;
}

/* What was reserved at `account` and below since `begin` and has not been settled. Looks at all. */
tg_micro holds_since(const struct holds *holds, const struct account *account, tg_ms begin);

#endif
