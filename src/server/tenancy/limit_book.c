/* limit_book.c - sets of limits by name. See limit_book.h.
 *
 * A table of open addressing that only grows: names are those of tenants, and of the lines of
 * limits they have.
 */
#include "server/tenancy/limit_book.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/problem.h"
#include "server/tenancy/limit_share.h"

struct entry {
    char *name; /* null: free */
    size_t bytes;
    tg_limits set;
    bool changes; /* then `wanted` takes the place of `limits` */
    size_t n, n_wanted;
    struct tg_limit limits[TG_LIMITS_MAX], *wanted;
};

struct limit_book {
    struct tg_store *store;
    struct entry **slots;
    size_t capacity, used; /* a power of two */
    size_t changes;
    int64_t share; /* the store has the n-th part of each limit */
};

struct limit_book *limit_book_new(struct tg_store *store)
{
    struct limit_book *book = calloc(1, sizeof *book);

    if (book == NULL)
        return NULL;
    book->store = store;
    book->capacity = 64;
    book->share = 1;
    book->slots = calloc(book->capacity, sizeof(struct entry *));
    if (book->slots == NULL) {
        free(book);
        return NULL;
    }
    return book;
}

static void entry_free(struct entry *entry)
{
    if (entry == NULL)
        return;
    free(entry->name);
    free(entry->wanted);
    free(entry);
}

void limit_book_free(struct limit_book *book)
{
    if (book == NULL)
        return;
    for (size_t i = 0; i < book->capacity; i++)
        entry_free(book->slots[i]);
    free(book->slots);
    free(book);
}

/* ---- the table ---- */

static struct entry **limit_book_slot_of(struct entry **slots, size_t capacity, const char *name,
                                         size_t bytes)
{
    size_t at = (size_t)XXH3_64bits(name, bytes) & (capacity - 1);

    while (slots[at] != NULL &&
           !(slots[at]->bytes == bytes && memcmp(slots[at]->name, name, bytes) == 0))
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

static bool limit_book_grow(struct limit_book *book)
{
    size_t capacity = book->capacity * 2;
    struct entry **slots = calloc(capacity, sizeof(struct entry *));

    if (slots == NULL)
        return false;
    for (size_t i = 0; i < book->capacity; i++)
        if (book->slots[i] != NULL)
            *limit_book_slot_of(slots, capacity, book->slots[i]->name, book->slots[i]->bytes) =
                book->slots[i];
    free(book->slots);
    book->slots = slots;
    book->capacity = capacity;
    return true;
}

static struct entry *entry_new(const char *name, size_t bytes, const struct tg_limit *limits,
                               size_t n)
{
    struct entry *entry = calloc(1, sizeof *entry);

    if (entry == NULL)
        return NULL;
    entry->name = malloc(bytes + 1);
    if (entry->name == NULL) {
        free(entry);
        return NULL;
    }
    memcpy(entry->name, name, bytes);
    entry->bytes = bytes;
    memcpy(entry->limits, limits, n * sizeof *limits);
    entry->n = n;
    return entry;
}

static enum tg_err limit_book_no_memory(struct tg_problem *problem)
{
    return problem_say(problem, TG_ERR_MEMORY, "%s", tg_strerror(TG_ERR_MEMORY));
}

static enum tg_err limit_book_add(struct limit_book *book, const char *name, size_t bytes,
                                  const struct tg_limit *limits, size_t n, tg_limits *set,
                                  struct tg_problem *problem)
{
    if (2 * (book->used + 1) > book->capacity && !limit_book_grow(book))
        return limit_book_no_memory(problem);
    struct entry *entry = entry_new(name, bytes, limits, n);
    if (entry == NULL)
        return limit_book_no_memory(problem);
    struct tg_limit shares[TG_LIMITS_MAX];
    for (size_t i = 0; i < n && i < TG_LIMITS_MAX; i++)
        limit_share(&limits[i], book->share, &shares[i]);
    enum tg_err err = tg_store_define(book->store, shares, n, &entry->set, problem);
    if (err) {
        entry_free(entry);
        return err;
    }
    *limit_book_slot_of(book->slots, book->capacity, name, bytes) = entry;
    book->used++;
    *set = entry->set;
    return TG_OK;
}

/* ---- changing ---- */

/* Whether they decide alike. Bytes between members may differ: then a set is changed into itself,
 * which is no harm. */
static bool same(const struct entry *entry, const struct tg_limit *limits, size_t n)
{
    if (entry->n != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (entry->limits[i].axis != limits[i].axis || entry->limits[i].mode != limits[i].mode ||
            memcmp(&entry->limits[i].limiter, &limits[i].limiter, sizeof limits[i].limiter) != 0)
            return false;
    return true;
}

static void limit_book_keep(struct limit_book *book, struct entry *entry)
{
    book->changes -= entry->changes;
    entry->changes = false;
    free(entry->wanted);
    entry->wanted = NULL;
}

enum tg_err limit_book_want(struct limit_book *book, const char *name, size_t bytes,
                            const struct tg_limit *limits, size_t n, tg_limits *set,
                            struct tg_problem *problem)
{
    struct entry *entry = *limit_book_slot_of(book->slots, book->capacity, name, bytes);

    *set = 0;
    if (n == 0)
        return TG_OK;
    if (entry == NULL)
        return limit_book_add(book, name, bytes, limits, n, set, problem);
    *set = entry->set;
    limit_book_keep(book, entry);
    if (same(entry, limits, n))
        return TG_OK;
    entry->wanted = malloc(n * sizeof *limits);
    if (entry->wanted == NULL)
        return limit_book_no_memory(problem);
    memcpy(entry->wanted, limits, n * sizeof *limits);
    entry->n_wanted = n;
    entry->changes = true;
    book->changes++;
    return TG_OK;
}

void limit_book_forget(struct limit_book *book)
{
    for (size_t i = 0; i < book->capacity && book->changes > 0; i++)
        if (book->slots[i] != NULL)
            limit_book_keep(book, book->slots[i]);
}

static void adopt(struct limit_book *book)
{
    for (size_t i = 0; i < book->capacity && book->changes > 0; i++) {
        struct entry *entry = book->slots[i];
        if (entry == NULL || !entry->changes)
            continue;
        memcpy(entry->limits, entry->wanted, entry->n_wanted * sizeof *entry->wanted);
        entry->n = entry->n_wanted;
        limit_book_keep(book, entry);
    }
}

/* What an entry is to be; null: nothing that it is not already. */
static const struct tg_limit *pending(const struct entry *entry, bool all, size_t *n)
{
    *n = entry->changes ? entry->n_wanted : entry->n;
    if (entry->changes)
        return entry->wanted;
    return all ? entry->limits : NULL;
}

/* Tells the store what has changed, or with `all` everything, in shares of the n-th part. */
static enum tg_err limit_book_tell(struct limit_book *book, bool all, int64_t share, tg_ms now,
                                   struct tg_problem *problem)
{
    size_t sets = all ? book->used : book->changes, n = 0, at = 0, of;
    struct tg_redefinition *list = calloc(sets, sizeof *list);
    struct tg_limit *shares = calloc(sets, TG_LIMITS_MAX * sizeof *shares);
    enum tg_err err = TG_ERR_MEMORY;

    for (size_t i = 0; list && shares && i < book->capacity; i++) {
        const struct entry *entry = book->slots[i];
        const struct tg_limit *limits = entry ? pending(entry, all, &of) : NULL;
        if (limits == NULL)
            continue;
        list[n++] = (struct tg_redefinition){entry->set, &shares[at], of};
        for (size_t k = 0; k < of; k++)
            limit_share(&limits[k], share, &shares[at++]);
    }
    if (list && shares)
        err = tg_store_redefine(book->store, list, n, now, problem);
    free(shares);
    free(list);
    return err == TG_ERR_MEMORY ? limit_book_no_memory(problem) : err;
}

enum tg_err limit_book_apply(struct limit_book *book, tg_ms now, struct tg_problem *problem)
{
    if (book->changes == 0)
        return TG_OK;
    enum tg_err err = limit_book_tell(book, false, book->share, now, problem);
    if (err)
        limit_book_forget(book);
    else
        adopt(book);
    return err;
}

enum tg_err limit_book_share(struct limit_book *book, int64_t n, tg_ms now,
                             struct tg_problem *problem)
{
    if (n == book->share)
        return TG_OK;
    enum tg_err err = book->used > 0 ? limit_book_tell(book, true, n, now, problem) : TG_OK;
    if (err == TG_OK)
        book->share = n;
    return err;
}

/* ---- listing ---- */

static size_t count_limits(const struct limit_book *book, tg_limits *last)
{
    size_t all = 0, n;

    *last = 0;
    for (size_t i = 0; i < book->capacity; i++)
        if (book->slots[i] != NULL) {
            pending(book->slots[i], true, &n);
            all += n;
            *last = book->slots[i]->set > *last ? book->slots[i]->set : *last;
        }
    return all;
}

struct limit_listing *limit_book_list(const struct limit_book *book)
{
    tg_limits last;
    size_t n_limits = count_limits(book, &last), n = (size_t)last + 1;
    size_t head = sizeof(struct limit_listing) + n * sizeof(struct limit_listed);
    struct limit_listing *made = calloc(1, head + n_limits * sizeof(struct tg_limit));

    if (made == NULL)
        return NULL;
    struct tg_limit *room = (struct tg_limit *)(void *)&made->sets[n];
    made->n = n;
    for (size_t i = 0; i < book->capacity; i++) {
        const struct entry *entry = book->slots[i];
        if (entry == NULL)
            continue;
        struct limit_listed *listed = &made->sets[entry->set];
        const struct tg_limit *limits = pending(entry, true, &listed->n);
        listed->name = (struct slice){entry->name, entry->bytes};
        listed->limits = memcpy(room, limits, listed->n * sizeof *room);
        room += listed->n;
    }
    return made;
}
