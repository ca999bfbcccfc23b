/* hold.c - the pool of reservations. See hold.h. */
#include "lib/budget/hold.h"

#include <stdlib.h>

void holds_fini(struct holds *holds)
{
    for (uint32_t i = 0; i < holds->n_chunks; i++)
        free(holds->chunks[i]);
    free(holds->chunks);
}

/* The row of chunks is doubled whenever its length is a power of two. */
static bool make_row(struct holds *holds)
{
    size_t n = holds->n_chunks;

    if ((n & (n - 1)) != 0)
        return true;
    struct hold **chunks = realloc(holds->chunks, (n ? 2 * n : 1) * sizeof(struct hold *));
    if (chunks)
        holds->chunks = chunks;
    return chunks != NULL;
}

enum tg_err holds_make_room(struct holds *holds)
{
    uint32_t first = holds->n_chunks * HOLD_CHUNK;

    if (holds->free)
        return TG_OK;
    if (first + HOLD_CHUNK > HOLDS_MAX)
        return TG_ERR_FULL;
    struct hold *chunk = make_row(holds) ? calloc(HOLD_CHUNK, sizeof(struct hold)) : NULL;
    if (!chunk)
        return TG_ERR_MEMORY;
    for (uint32_t i = HOLD_CHUNK; i-- > 0;) {
        chunk[i].number = UINT64_C(1) << HOLD_PLACE_BITS | (first + i + 1);
        chunk[i].as.next = holds->free;
        holds->free = &chunk[i];
    }
    holds->chunks[holds->n_chunks++] = chunk;
    return TG_OK;
}

struct hold *holds_get(struct holds *holds)
{
    struct hold *hold = holds->free;

    holds->free = hold->as.next;
    holds->used++;
    return hold;
}

void holds_put(struct holds *holds, struct hold *hold)
{
    hold->account = NULL;
    holds->used--;
    if (hold->number >> HOLD_PLACE_BITS == HOLD_GENERATION_MAX)
        return;
    hold->number += UINT64_C(1) << HOLD_PLACE_BITS;
    hold->as.next = holds->free;
    holds->free = hold;
}

static bool is_below(const struct account *account, const struct account *above)
{
    while (account && account != above)
        account = account->parent;
    return account != NULL;
}

tg_micro holds_since(const struct holds *holds, const struct account *account, tg_ms begin)
{
    tg_micro sum = 0;

    for (size_t i = 0; holds->used > 0 && i < (size_t)holds->n_chunks * HOLD_CHUNK; i++) {
        const struct hold *hold = &holds->chunks[i / HOLD_CHUNK][i % HOLD_CHUNK];
        if (hold->account && hold->reserved_at >= begin && is_below(hold->account, account))
            sum += hold->as.money; /* all together stay within TG_MONEY_MAX */
    }
    return sum;
}
