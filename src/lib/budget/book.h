/* book.h - one budget of one account, and what is counted in its window.
 *
 *     used = settled + outstanding
 *
 * Only the current window is kept. Its borders are remembered, so that a call does no calendar
 * arithmetic unless the window has ended. A reservation is in this window iff it was made at or
 * after its beginning: time in a bank does not step back, so nothing made since can be in another.
 * That is all that has to be known to settle, and nothing about windows is kept with a reservation.
 *
 * The bank's lock covers it.
 */
#ifndef TG_BUDGET_BOOK_H
#define TG_BUDGET_BOOK_H

#include <assert.h>

#include "lib/budget/money.h"

struct book {
    tg_ms begin, end; /* the window that runs */
    tg_micro amount;
    tg_micro settled;
    tg_micro outstanding; /* exact: all of a bank together stay within TG_MONEY_MAX */
    const struct tg_zone *zone;
    uint8_t per;  /* enum tg_per */
    uint8_t mode; /* enum tg_mode */
};

/* A budget in which nothing is counted yet. */
void book_init(struct book *book, const struct tg_budget *budget, tg_ms now);

/* Goes on to the window of `now`, if that is a later one. Apart, for it is seldom needed. */
void book_turn(struct book *book, tg_ms now);

static inline void book_follow(struct book *book, tg_ms now)
{
    if (now >= book->end)
        book_turn(book, now);
}

static inline tg_micro book_used(const struct book *book)
{
    return money_add(book->settled, book->outstanding);
}

/* Below 0 when more was spent than there was, or the amount was lowered. */
static inline tg_micro book_left(const struct book *book)
{
    return book->amount - book_used(book);
}

static inline void book_reserve(struct book *book, tg_micro money)
{
    book->outstanding += money;
    assert(book->outstanding >= money && book->outstanding <= TG_MONEY_MAX);
}

static inline void book_settle(struct book *book, tg_ms reserved_at, tg_micro money, tg_micro spent)
{
    if (reserved_at < book->begin)
        return;
    book->outstanding -= money;
    book->settled = money_add(book->settled, spent);
    assert(book->outstanding >= 0 && book->settled >= 0);
}

#endif
