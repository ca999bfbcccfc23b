/* limit_book.h - the sets of limits that a store knows, by name, over all readings of a
 * configuration.
 *
 *     limit_book_want(book, name, bytes, limits, n, &set, &problem)      for each set of a reading
 *     limit_book_apply(book, now, &problem)         the reading is to hold: in one step for all
 *
 * A store keeps what was counted under (set, key), so a limit that is read again must have the set
 * it had before: under the same name it has. One that is new is made known to the store at once,
 * which nobody notices; one that has changed is changed by limit_book_apply(). A name that is read
 * no more keeps its set, for the day it comes back.
 *
 * By one thread at a time.
 */
#ifndef TG_GATEWAY_LIMIT_BOOK_H
#define TG_GATEWAY_LIMIT_BOOK_H

#include "tollgate.h"

struct limit_book;

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

/* The reading has come to nothing: what was wanted is forgotten. */
void limit_book_forget(struct limit_book *book);

#endif
