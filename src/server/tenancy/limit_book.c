/* limit_book.c - sets of limits by name. See limit_book.h.
 *
 * The book only grows: names are those of tenants, and of the lines of limits they have. Entries
 * are allocated one by one, since listings point at their names.
 */
#include "server/tenancy/limit_book.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/array.h"
#include "lib/core/hash_table.h"
#include "lib/core/problem.h"
#include "server/tenancy/limit_share.h"

struct book_entry {
    tg_limits set;
    size_t n, n_wanted;
    struct tg_limit limits[TG_LIMITS_MAX];
    struct tg_limit *wanted; /* is to replace `limits`; null: nothing is */
    struct slice name;       /* the bytes after the struct */
};

struct limit_book {
    struct tg_store *store;
    struct hash_table by_name; /* the same entries */
    struct book_entry **entries;
    size_t n, max;
    size_t changes; /* entries that are to change */
    int64_t share;  /* the store has the n-th part of each limit */
};

struct limit_book *limit_book_new(struct tg_store *store)
{
    struct limit_book *book = calloc(1, sizeof *book);

    if (book != NULL) {
        book->store = store;
        book->share = 1;
    }
    return book;
}

void limit_book_free(struct limit_book *book)
{
    if (book == NULL)
        return;
    assert(book->by_name.n == book->n);
    for (size_t i = 0; i < book->n; i++) {
        free(book->entries[i]->wanted);
        free(book->entries[i]);
    }
    free(book->entries);
    hash_table_fini(&book->by_name);
    free(book);
}

static struct book_entry *find_entry(const struct limit_book *book, struct slice name,
                                     uint64_t hash)
{
    struct hash_slot *slot = hash_table_find(&book->by_name, hash);

    while (slot != NULL && !slice_equal(((struct book_entry *)slot->item)->name, name))
        slot = hash_table_find_next(&book->by_name, slot);
    return slot != NULL ? slot->item : NULL;
}

static enum tg_err limit_book_no_memory(struct tg_problem *problem)
{
    return problem_say(problem, TG_ERR_MEMORY, "%s", tg_strerror(TG_ERR_MEMORY));
}

static enum tg_err limit_book_add(struct limit_book *book, struct slice name, uint64_t hash,
                                  const struct tg_limit *limits, size_t n, tg_limits *set,
                                  struct tg_problem *problem)
{
    struct tg_limit shares[TG_LIMITS_MAX];
    struct book_entry *entry;

    assert(n <= TG_LIMITS_MAX);
    if (!array_reserve(&book->entries, &book->max, book->n + 1) ||
        hash_table_reserve(&book->by_name, book->n + 1) != TG_OK ||
        (entry = calloc(1, sizeof *entry + name.n)) == NULL)
        return limit_book_no_memory(problem);
    entry->name = (struct slice){memcpy(entry + 1, name.at, name.n), name.n};
    memcpy(entry->limits, limits, n * sizeof *limits);
    entry->n = n;
    for (size_t i = 0; i < n; i++)
        limit_share(&limits[i], book->share, &shares[i]);
    enum tg_err err = tg_store_define(book->store, shares, n, &entry->set, problem);
    if (err) {
        free(entry);
        return err;
    }
    assert(entry->set != 0); /* 0 stands for no limits */
    hash_table_insert(&book->by_name, hash)->item = entry;
    book->entries[book->n++] = entry;
    *set = entry->set;
    return TG_OK;
}

/* ---- changing ---- */

/* Whether they decide alike. Bytes between members may differ: then a set is changed into itself,
 * which is no harm. */
static bool is_same(const struct book_entry *entry, const struct tg_limit *limits, size_t n)
{
    if (entry->n != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (entry->limits[i].axis != limits[i].axis || entry->limits[i].mode != limits[i].mode ||
            entry->limits[i].overdraft != limits[i].overdraft ||
            memcmp(&entry->limits[i].limiter, &limits[i].limiter, sizeof limits[i].limiter) != 0)
            return false;
    return true;
}

/* Forgets what is wanted for an entry. */
static void limit_book_keep(struct limit_book *book, struct book_entry *entry)
{
    assert(entry->wanted == NULL || book->changes > 0);
    book->changes -= entry->wanted != NULL;
    free(entry->wanted);
    entry->wanted = NULL;
}

enum tg_err limit_book_want(struct limit_book *book, const char *name, size_t bytes,
                            const struct tg_limit *limits, size_t n, tg_limits *set,
                            struct tg_problem *problem)
{
    uint64_t hash = XXH3_64bits(name, bytes);
    struct book_entry *entry = find_entry(book, (struct slice){name, bytes}, hash);

    *set = 0;
    if (n == 0)
        return TG_OK;
    if (entry == NULL)
        return limit_book_add(book, (struct slice){name, bytes}, hash, limits, n, set, problem);
    *set = entry->set;
    limit_book_keep(book, entry);
    if (is_same(entry, limits, n))
        return TG_OK;
    entry->wanted = malloc(n * sizeof *limits);
    if (entry->wanted == NULL)
        return limit_book_no_memory(problem);
    memcpy(entry->wanted, limits, n * sizeof *limits);
    entry->n_wanted = n;
    book->changes++;
    return TG_OK;
}

void limit_book_forget(struct limit_book *book)
{
    for (size_t i = 0; i < book->n && book->changes > 0; i++)
        limit_book_keep(book, book->entries[i]);
    assert(book->changes == 0);
}

/* What an entry is to be; null: nothing that it is not already. */
static const struct tg_limit *pending(const struct book_entry *entry, bool all, size_t *n)
{
    *n = entry->wanted != NULL ? entry->n_wanted : entry->n;
    if (entry->wanted != NULL)
        return entry->wanted;
    return all ? entry->limits : NULL;
}

/* Tells the store what has changed, or with `all` everything, in shares of the n-th part. */
static enum tg_err limit_book_redefine(struct limit_book *book, bool all, int64_t share, tg_ms now,
                                       struct tg_problem *problem)
{
    size_t sets = all ? book->n : book->changes, n = 0, at = 0, of;
    struct tg_redefinition *list = calloc(sets, sizeof *list);
    struct tg_limit *shares = calloc(sets, TG_LIMITS_MAX * sizeof *shares);
    enum tg_err err = TG_ERR_MEMORY;

    for (size_t i = 0; list && shares && i < book->n; i++) {
        const struct book_entry *entry = book->entries[i];
        const struct tg_limit *limits = pending(entry, all, &of);
        if (limits == NULL)
            continue;
        assert(n < sets);
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
    enum tg_err err = limit_book_redefine(book, false, book->share, now, problem);
    for (size_t i = 0; i < book->n && !err; i++) {
        struct book_entry *entry = book->entries[i];
        if (entry->wanted == NULL)
            continue;
        memcpy(entry->limits, entry->wanted, entry->n_wanted * sizeof *entry->wanted);
        entry->n = entry->n_wanted;
    }
    limit_book_forget(book);
    return err;
}

enum tg_err limit_book_share(struct limit_book *book, int64_t n, tg_ms now,
                             struct tg_problem *problem)
{
    if (n == book->share)
        return TG_OK;
    enum tg_err err = book->n > 0 ? limit_book_redefine(book, true, n, now, problem) : TG_OK;
    if (err == TG_OK)
        book->share = n;
    return err;
}

/* ---- listing ---- */

static size_t count_limits(const struct limit_book *book, tg_limits *last)
{
    size_t all = 0, n;

    *last = 0;
    for (size_t i = 0; i < book->n; i++) {
        pending(book->entries[i], true, &n);
        all += n;
        *last = book->entries[i]->set > *last ? book->entries[i]->set : *last;
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
    for (size_t i = 0; i < book->n; i++) {
        const struct book_entry *entry = book->entries[i];
        struct limit_listed *listed = &made->sets[entry->set];
        assert(listed->n == 0); /* each entry has a set of its own */
        const struct tg_limit *limits = pending(entry, true, &listed->n);
        listed->name = entry->name;
        listed->limits = memcpy(room, limits, listed->n * sizeof *room);
        room += listed->n;
    }
    assert(room == (struct tg_limit *)(void *)&made->sets[n] + n_limits);
    return made;
}
