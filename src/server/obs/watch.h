/* watch.h - the latest denials, for the dashboard: a ring that writers never wait at.
 *
 *     workers --- watch_put() ---> [ ... slots ... ] --- watch_take(), watch_recent() ---> admin
 *
 * Any thread may put and any may read. A writer takes a number, writes the slot of that number and
 * returns; it waits for nobody, and no reader has a lock that it would have to wait for. What a
 * reader comes too late for is overwritten, and the reader learns how many that were. See watch.c.
 */
#ifndef TG_OBS_WATCH_H
#define TG_OBS_WATCH_H

#include "io/text/slice.h"
#include "tollgate.h"

#define WATCH_SLOTS 1024 /* in the gateway's ring; a power of two */

enum { WATCH_NAME_MAX = 96, WATCH_WORD_MAX = 32, WATCH_TEXT_MAX = 256 };

/* One denial. Texts are UTF-8, end with a 0, and are cut where they are too long; "" where there is
 * none. Tenants and models may be anything a client chose: to be escaped wherever they go. */
struct watch_entry {
    tg_ms at;                    /* epoch ms */
    uint64_t id;                 /* the request's */
    tg_ms retry_after_ms;        /* what the client was told; negative: nothing */
    int64_t status;              /* the reply's, in HTTP */
    char reason[WATCH_WORD_MAX]; /* in the words of the replies */
    char axis[WATCH_WORD_MAX];   /* the binding one */
    char tenant[WATCH_NAME_MAX];
    char model[WATCH_NAME_MAX]; /* what was asked for */
    char user[WATCH_NAME_MAX];
    int64_t max_tokens;        /* the bound that the call gave its output; negative: none */
    int64_t prompt_bytes;      /* text in its prompt; negative: not known */
    char limit_of[128];        /* whose limit refused: "tenant dept" */
    char limit_rule[80];       /* how much in what time: "6 calls a minute" */
    int64_t limit, remaining;  /* its ceiling, and what was left of it; of a budget, in
                                  micro-dollars; negative: not known */
    char text[WATCH_TEXT_MAX]; /* the explanation, with the numbers of the limit that refused */
};

struct watch;

/* `slots` is a power of two, 2 or more. Null when there is no memory. */
struct watch *watch_new(size_t slots);
void watch_free(struct watch *watch);

/* All empty, and negative what may be. */
void watch_entry_init(struct watch_entry *entry);

/* Copies text into a member, cut between characters: watch_text(e.tenant, sizeof e.tenant, t). */
void watch_text(char *to, size_t size, struct slice text);

void watch_put(struct watch *watch, const struct watch_entry *entry);

/* One that is not put, because there are more than anybody reads: it is only counted. Readers
 * that remember watch_missed() can tell of those that came since. */
void watch_miss(struct watch *watch);
uint64_t watch_missed(const struct watch *watch);

/* A place among all denials ever put, from which a reader reads on: the first is 0. */
typedef uint64_t watch_place;

/* The place of the next one that will come. */
watch_place watch_end(const struct watch *watch);

/* The next denial at or after the place, which then moves behind it. False: there is none yet.
 * `lost` grows by those that were overwritten before they were read, in either case. */
bool watch_take(const struct watch *watch, watch_place *place, struct watch_entry *entry,
                uint64_t *lost);

/* The latest `n`, or as many as there are, the newest first. How many. */
size_t watch_recent(const struct watch *watch, struct watch_entry *entries, size_t n);

/* How many were ever put; and how many could not be kept, because a writer was overtaken by a whole
 * ring of others while it wrote. */
uint64_t watch_total(const struct watch *watch);
uint64_t watch_dropped(const struct watch *watch);

#endif
