/* endings.h - when leases end by themselves.
 *
 * Nearly every lease is released long before its time is over, so nothing is done for its end when
 * it is made but to note the earliest. Only when that has come are the leases looked through: all
 * that are open are put in a list by the order of their ends, and the list is worked off as time
 * goes on. Those made or renewed meanwhile are not in it; the earliest of their ends is noted
 * again, and lies behind the whole list if all leases have the same length. So the looking through
 * is done about once in that time, however many leases there are.
 *
 * The gate's lock covers it.
 */
#ifndef TG_ADMISSION_ENDINGS_H
#define TG_ADMISSION_ENDINGS_H

#include "admission/ticket.h"
#include "core/num.h"

struct ending {
    tg_ms at;
    tg_lease lease;
};

struct endings {
    tg_ms unlisted_from; /* no lease outside the list ends before this */
    struct ending *list;
    size_t n;
    size_t next; /* the list is worked off up to here */
    size_t capacity;
};

void endings_init(struct endings *endings);
void endings_fini(struct endings *endings);

/* There are no leases at all. */
void endings_clear(struct endings *endings);

/* A lease ends at `at`, from now on. */
static inline void endings_note(struct endings *endings, tg_ms at)
{
    endings->unlisted_from = num_min(endings->unlisted_from, at);
}

/* No lease ends before this. It may be too early: who ended by itself is not taken out. */
static inline tg_ms endings_next(const struct endings *endings)
{
    tg_ms listed = endings->next < endings->n ? endings->list[endings->next].at : INT64_MAX;

    return num_min(listed, endings->unlisted_from);
}

/* A ticket whose end has come by `until`; null: none has. Without memory for a list, which has to
 * be made now and then, all tickets are looked at for each. */
struct ticket *endings_take(struct endings *endings, const struct tickets *tickets, tg_ms until);

#endif
