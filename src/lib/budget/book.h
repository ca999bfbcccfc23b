/* book.h - one budget of one account, and what is counted in its window.
 *
 *     used = settled + outstanding
 *
 * Only the current window is kept. Its borders are remembered, so that a call does no calendar
 * arithmetic unless the window has ended. A reservation is in this window iff it was made at or
 * after its beginning: time in a bank does not step back, so nothing made since can be in another.
 * That is all that has to be known to settle, and nothing about windows is kept with a reservation.
 *
 * Where two processes share a budget for a while, because one takes over from the other, each keeps
 * to its part (bank_part.h): `withheld` is not to be reserved here, and no more than `room` is.
 *
 * The bank's lock covers it.
 */
#ifndef TG_BUDGET_BOOK_H
#define TG_BUDGET_BOOK_H

#include <assert.h>

#include "lib/budget/money.h"

/* How a process shares its budgets with others: see bank_part.h. */
struct book_part {
    uint8_t before; /* processes that went before and have not ended */
    bool leaves;    /* another one serves in the place of this one */
};

struct book {
    tg_ms begin, end; /* the window that runs */
    tg_micro amount;
    tg_micro settled;
    tg_micro outstanding; /* exact: all of a bank together stay within TG_MONEY_MAX */
    const struct tg_zone *zone;
    tg_micro withheld; /* what processes that went before may still reserve */
    tg_micro room;     /* what may still be reserved here, if that is less than what is left */
    uint8_t per;       /* enum tg_per */
    uint8_t mode;      /* enum tg_mode */
    struct book_part part;
};

/* A 64th of the amount, for each process that leaves. */
static inline tg_micro book_share(const struct book *book)
{
    return book->amount / 64;
}

/* A budget in which nothing is counted yet. */
void book_init(struct book *book, const struct tg_budget *budget, struct book_part part, tg_ms now);

/* From here on it is shared so. A process that begins to leave has its share of what is left: what
 * calls from before give back is its successor's. */
void book_divide(struct book *book, struct book_part part);

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

/* What may be reserved of it. */
static inline tg_micro book_free(const struct book *book)
{
    tg_micro left = book_left(book) - book->withheld;

    return left < book->room ? left : book->room;
}

static inline void book_reserve(struct book *book, tg_micro money)
{
    book->outstanding += money;
    if (book->part.leaves)
        book->room -= money;
    assert(book->outstanding >= money && book->outstanding <= TG_MONEY_MAX);
}

static inline void book_settle(struct book *book, tg_ms reserved_at, tg_micro money, tg_micro spent,
                               bool late)
{
    if (reserved_at < book->begin)
        return;
    book->outstanding -= money;
    book->settled = money_add(book->settled, spent);
    if (late && book->part.leaves)
        book->room += money - spent;
    assert(book->outstanding >= 0 && book->settled >= 0);
}

#endif
