/* book.c - making a book, and turning it to a new window. See book.h. */
#include "lib/budget/book.h"

void book_divide(struct book *book, struct book_part part)
{
    tg_micro share = book_share(book), left;

    book->withheld = part.before * share;
    left = book_left(book) - book->withheld;
    if (!part.leaves)
        book->room = TG_MONEY_MAX;
    else if (!book->part.leaves)
        book->room = left < share ? left : share;
    book->part = part;
}

void book_init(struct book *book, const struct tg_budget *budget, struct book_part part, tg_ms now)
{
    *book = (struct book){
        .amount = budget->amount,
        .zone = budget->zone,
        .per = (uint8_t)budget->per,
        .mode = (uint8_t)budget->mode,
    };
    book_divide(book, part);
    tg_window_of(budget->per, budget->zone, now, &book->begin, &book->end);
}

void book_turn(struct book *book, tg_ms now)
{
    tg_ms begin, end;

    tg_window_of((enum tg_per)book->per, book->zone, now, &begin, &end);
    assert(begin >= book->begin && begin <= now); /* windows do not go back */
    /* The last moment of time belongs to the last window, which it also ends. */
    if (begin == book->begin)
        return;
    book->begin = begin;
    book->end = end;
    book->settled = 0;
    book->outstanding = 0;
    if (book->part.leaves)
        book->room = book_share(book);
}
