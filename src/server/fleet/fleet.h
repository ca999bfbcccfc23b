/* fleet.h - the gateways that share a store, as one of them: what their administrators made is one
 * state, with a version, which each of them follows. Read this first.
 *
 *     fleet_state     whether the store is followed: what it is to the copy here
 *     fleet_record    rows of an administrator as entries of the store
 *     fleet           this: looks, tells, reads and stores, on the control thread's loop
 *     fleet_question  asks all gateways something, and has this one answer
 *     fleet_merge     what they answered, as one document
 *     ledger_fleet    the copy, in the ledger
 *
 *     <prefix>:fleet:{fleet}:head      epoch, version, change, schema, lineage; asked
 *     <prefix>:fleet:{fleet}:entries   name -> JSON
 *     <prefix>:fleet:{fleet}:log       a stream: version -> what that change put and took away
 *     <prefix>:fleet:{fleet}:reports   gateway -> when, and where it stands
 *     <prefix>:fleet:{fleet}:regressed an epoch that a gateway has seen go back, while it does
 *
 * The head is looked at ten times a second, by one command that costs Redis some microseconds: a
 * blocking read of the stream would be told 50 ms sooner, and would need a connection of its own
 * for each gateway, and would say nothing about a store that was emptied or replaced (0087).
 *
 * Whoever owns it is told that there is a newer state. It reads that, writes the copy, puts it in
 * force and says how that went: fleet_read(), ledger_fleet_write(), fleet_applied().
 *
 * Everything here belongs to the thread of the loop.
 */
#ifndef TG_FLEET_FLEET_H
#define TG_FLEET_FLEET_H

#include "io/redis/redis.h"
#include "server/fleet/fleet_record.h"
#include "server/fleet/fleet_state.h"

struct fleet;

struct fleet_options {
    struct net_loop *loop; /* borrowed, and so is the next */
    struct redis *redis;
    const char *prefix;            /* what keys begin with; copied, like the next four */
    const char *id;                /* this gateway: the same after a restart */
    const char *process;           /* this process of it: another after a restart */
    const char *name;              /* where it is: for people */
    const char *program;           /* its version */
    struct ledger_fleet_mark mark; /* the copy's */
};

/* TG_ERR_MEMORY, TG_ERR_INVALID. */
TG_MUST_CHECK enum tg_err fleet_new(const struct fleet_options *options, struct fleet **fleet);

/* Nobody is told or answered any more. Null is allowed, and by the next. */
void fleet_stop(struct fleet *fleet);

/* After fleet_stop(). Its asks stay in flight until the client is freed: free that first. */
void fleet_free(struct fleet *fleet);

/* behind(): there is a newer state, and it comes again until that is applied, or failed.
 * changed(): the state, the policy or the problem is another. Null: nobody is told. */
void fleet_own(struct fleet *fleet, void (*behind)(void *context), void (*changed)(void *context),
               void *context);

/* ---- Looking ---- */

#define FLEET_NAME_MAX 128
#define FLEET_SILENT_MS 5000 /* one that has not been heard of for so long may be gone */

/* What another gateway said of itself. */
struct fleet_report {
    char id[40], name[FLEET_NAME_MAX], program[24], state[24];
    char epoch[LEDGER_FLEET_ID + 1];
    int64_t version;
    tg_ms since;       /* wall clock: when it came to that version */
    tg_ms silent;      /* for how long it had not been heard of */
    bool answers;      /* its program answers questions (fleet_question.h) */
    int64_t processes; /* how many answer for it: more than one during a takeover */
    char problem[200];
};

struct fleet_view {
    const char *id, *name; /* this gateway's, as in its reports */
    enum fleet_state state;
    enum fleet_event seen; /* what the store was to the copy when it last answered */
    struct ledger_fleet_mark mark;
    int64_t stored_version; /* what the store said last; -1: nothing yet */
    tg_ms behind_since;     /* loop's time; 0: it is not */
    tg_ms since;            /* wall clock: when the copy came to its version; 0: before the start */
    bool evicts;            /* the store may forget keys */
    char policy[40];        /* "noeviction"; "unknown": it does not say; "": not yet asked */
    const char *problem;    /* why a state could not be put in force here; "": it could */
    const struct fleet_report *reports;
    size_t n_reports;
    tg_ms reported_at; /* when they were heard; loop's time */
};

/* The client, for others on this loop. */
struct redis *fleet_redis(const struct fleet *fleet);

/* Good until the next turn of the loop. */
void fleet_get_view(const struct fleet *fleet, struct fleet_view *view);

/* So many processes answer for this gateway, this one included. */
void fleet_set_processes(struct fleet *fleet, int64_t processes);

/* ---- The copy ---- */

/* The copy has this mark now, and it is in force. */
void fleet_applied(struct fleet *fleet, const struct ledger_fleet_mark *mark, tg_ms wall);

/* It could not be put in force: the copy is as before. Tried again when the store has another
 * version, or after ten seconds. */
void fleet_failed(struct fleet *fleet, const char *why);

/* ---- Asking: one at a time ---- */

enum fleet_answer {
    FLEET_OK,
    FLEET_CONFLICT, /* another change was first */
    FLEET_GONE,     /* the store is not the one that was followed, any more */
    FLEET_UNREAD,   /* nothing was read, or sent: the store is away */
    FLEET_UNKNOWN,  /* it was sent, and nobody knows whether it was stored */
};

/* What is in the store. `whole`: all of it, else what has changed since the copy. Where the store
 * is empty there is FLEET_OK, and a mark with an empty epoch. */
struct fleet_found {
    enum fleet_answer answer;
    struct ledger_fleet_mark mark;
    bool whole;
    struct fleet_entries entries; /* the callback's to free */
};

typedef void fleet_read_done(void *context, struct fleet_found *found);
typedef void fleet_store_done(void *context, enum fleet_answer answer,
                              const struct ledger_fleet_mark *mark);

/* done() comes later, from the loop, once; unless fleet_forget() is first. */
void fleet_read(struct fleet *fleet, fleet_read_done *done, void *context);

/* Stores a change for the state that `made_for` is; `mark` is the new one. With an empty epoch in
 * `made_for`: the first one of a store. The entries are borrowed until done(). */
void fleet_store(struct fleet *fleet, const struct ledger_fleet_mark *made_for,
                 const struct fleet_entries *entries, fleet_store_done *done, void *context);

/* Replaces what this gateway has last seen in the store by the entries: an operator's word. Where
 * another gateway has restored it meanwhile it is FLEET_CONFLICT. */
void fleet_restore(struct fleet *fleet, const struct fleet_entries *entries, fleet_store_done *done,
                   void *context);

/* Whoever asked has gone. */
void fleet_forget(struct fleet *fleet);

#endif
