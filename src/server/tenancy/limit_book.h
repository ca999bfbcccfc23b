/* limit_book.h - the sets of limits that a store knows, by name, over all readings of a
 * configuration.
 *
 *     limit_book_want(book, name, bytes, limits, n, &set, &problem)      for each set of a reading
 *     limit_book_apply(book, now, &problem)         the reading takes effect: in one step for all
 *
 * A store keeps what was counted under (set, key), so a limit that is read again must have the set
 * it had before: under the same name it has. One that is new is made known to the store at once,
 * which nobody notices; one that has changed is changed by limit_book_apply(). A name that is read
 * no more keeps its set, for the day it comes back.
 *
 * Where the store is Redis, what is in here is for the time when that is down: then each of n
 * gateways gives out its share, and limit_book_share() says what n is. What Redis has to know of a
 * set is in a listing of the reading.
 *
 * By one thread at a time.
 */
#ifndef TG_TENANCY_LIMIT_BOOK_H
#define TG_TENANCY_LIMIT_BOOK_H

#include "io/text/slice.h"
#include "tollgate.h"

struct limit_book;

/* The sets of a book, as one reading has them: whole limits, whatever the share. */
struct limit_listing {
    size_t n;
    struct limit_listed {
        struct slice name; /* the same on every gateway with this configuration; the book's */
        const struct tg_limit *limits;
        size_t n; /* 0: there is no such set */
    } sets[];     /* [set] */
};

/* The store is borrowed. Null: no memory. */
struct limit_book *limit_book_new(struct tg_store *store);
void limit_book_free(struct limit_book *book);

/* The set of a name, which is copied. Of no limits at all, 0. */
TG_MUST_CHECK enum tg_err limit_book_want(struct limit_book *book, const char *name, size_t bytes,
                                          const struct tg_limit *limits, size_t n, tg_limits *set,
                                          struct tg_problem *problem);

/* On an error nothing has changed, and what was wanted is forgotten. */
TG_MUST_CHECK enum tg_err limit_book_apply(struct limit_book *book, tg_ms now,
                                           struct tg_problem *problem);

/* The store gives out the n-th part of each limit from now on, and what was counted stays counted.
 * On an error nothing changes. */
TG_MUST_CHECK enum tg_err limit_book_share(struct limit_book *book, int64_t n, tg_ms now,
                                           struct tg_problem *problem);

/* The sets with what is wanted for them, or else what they have. Null: no memory. Freed by free(),
 * before the book is. */
struct limit_listing *limit_book_list(const struct limit_book *book);

/* The reading has come to nothing: what was wanted is forgotten. */
void limit_book_forget(struct limit_book *book);

#endif
