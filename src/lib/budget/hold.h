/* hold.h - a reservation of a bank.
 *
 * A reservation's number is its id in a pool of handles (core/handles.h): its place, 24 bits, and
 * its generation, 40 bits. With 32 bits for the generation, a place that is used a million times a
 * second, as the last one freed is, would have used up its numbers within 72 minutes; with 40 it
 * takes 12 days, and then the place is retired, so that a number is never used twice.
 *
 * The bank's lock covers everything here.
 */
#ifndef TG_BUDGET_HOLD_H
#define TG_BUDGET_HOLD_H

#include "lib/budget/account.h"

enum { HOLD_PLACE_BITS = 24, HOLDS_MAX = (1 << HOLD_PLACE_BITS) - 256 };

struct hold {
    struct handle handle;
    struct account *account;
    struct account *beside; /* has the parent of `account`; null: none */
    tg_ms reserved_at;
    tg_micro money;
    bool late; /* made while another process serves in the place of this one */
};

#endif
