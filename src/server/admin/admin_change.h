/* admin_change.h - changes that an administrator makes: tried, kept, put in force, or undone.
 *
 *     WAITING --> STORING --valid, kept--> RELOADING --holds--> answered
 *                    |                         `--does not hold--> UNDOING --> answered
 *                    `--wrong--> answered
 *
 * Where several gateways share a store, what is kept is a copy, and comes after (admin_fleet.c):
 *
 *     STORING --valid--> PUBLISHING --stored--> KEEPING --> RELOADING
 *        ^                   |`--away, or the store is not followed--> answered
 *        '--- ADMIN_FOLLOW <-'  another change was first
 *
 * ADMIN_FOLLOW is a change that another gateway made: read, kept and put in force like one made
 * here, in the same queue, so that each change sees the one before it, whoever made that.
 *
 * STORING and UNDOING are done by a thread, since they read the configuration and wait for a disk.
 * The configuration is read with the change by the one reader there is, before anything is kept: so
 * what is wrong is told with its place, and nothing that is wrong survives in the database. Reading
 * it once more, to put it in force, may still find that a file has become wrong meanwhile, or that
 * what is right by itself cannot be built; then the change is taken back.
 *
 * One at a time, in the order they came: each sees the one before it. A client that leaves does not
 * end its change.
 */
#ifndef TG_ADMIN_ADMIN_CHANGE_H
#define TG_ADMIN_ADMIN_CHANGE_H

#include <pthread.h>

#include "server/admin/admin_call.h"
#include "server/fleet/fleet.h"
#include "server/runtime/admin_extras.h"
#include "server/tenancy/virtual_key.h"

#define ADMIN_CHANGES_MAX 32 /* changes that may wait at a time */

enum admin_change_kind {
    ADMIN_PUT_TENANT,
    ADMIN_DROP_TENANT,
    ADMIN_MAKE_KEY,
    ADMIN_PUT_KEY, /* other settings */
    ADMIN_DROP_KEY,
    ADMIN_ADD_TOPUP,
    ADMIN_DROP_TOPUP,
    ADMIN_LAPSE,      /* top-ups that have ended: nobody asked */
    ADMIN_ADD_CREDIT, /* no change of the configuration, but the disk is waited for all the same */
    ADMIN_LIST_CREDITS,
    ADMIN_DISABLE_KEY, /* a key of a provider: likewise */
    ADMIN_ENABLE_KEY,
    ADMIN_ADD_OVERRIDE,
    ADMIN_DROP_OVERRIDE,
    ADMIN_FOLLOW,  /* what other gateways have changed: nobody asked */
    ADMIN_RESTORE, /* the store is made what the copy here is */
};

/* What a change has more where several gateways share a store. */
struct admin_shared {
    struct fleet_entries entries;      /* what is stored for all of them */
    struct ledger_fleet_mark made_for; /* the copy that it was judged by */
    struct ledger_fleet_mark made;     /* the state that it makes */
    int64_t expected;                  /* the version that its author knew; -1: did not say */
    int tries;                         /* how often another change was first */
    bool looked;                       /* nothing was, when it came; or that is followed now */
    struct fleet_entries found;        /* ADMIN_FOLLOW: what the store has; `whole`: all of it */
    bool whole;
    bool same; /* nothing in it is new here */
};

struct admin_change {
    struct admin_changes *all;
    struct admin_change *next;
    struct admin_call *call; /* null: nobody waits for an answer */
    char who[64];            /* for the log */

    /* What is to be done. */
    enum admin_change_kind kind;
    char tenant[ADMIN_NAME_MAX + 1]; /* whom it changes; for a top-up, "" means everyone; for a
                                        provider's key, the provider */
    char name[ADMIN_NAME_MAX + 1];   /* the name of the key */
    char *text;                      /* the tenant's definition, as YAML or JSON text, or a key's
                                        settings; null: none */
    size_t bytes;
    char secret[VIRTUAL_KEY_BYTES + 1]; /* a new key's secret: shown once, then wiped */
    uint8_t sha256[VIRTUAL_KEY_HASH];
    tg_ms not_after;
    tg_ms made_at; /* when the key that is changed was made */
    struct ledger_admin_topup topup;
    char tz[128]; /* the top-up's time zone; "": not given */
    struct ledger_credit credit;
    struct ledger_admin_override override; /* its texts are here: */
    char reason[LEDGER_REASON_MAX];
    struct admin_shared shared;

    /* On the way. */
    tg_ms now;
    struct net_post stored;
    pthread_t thread;
    bool has_thread;
    struct admin_extras before, after; /* all there was, and is */
    bool replaced;                     /* there was one */

    /* What came of it. */
    int status; /* 0: nothing yet */
    const char *code;
    char message[1024];
    struct config_problems problems;  /* what is wrong, if the status is 400 */
    struct json_writer reply;         /* while it is undone */
    char extra[ADMIN_EXTRA_NAME_MAX]; /* what stands in problems */
};

struct admin_changes {
    struct admin *admin;
    struct admin_change *running, *waiting;
    size_t n_waiting;
    struct admin_extras known; /* all there is, as far as changes have come through */
    struct net_timer lapse;    /* when the next top-up ends */
    struct fleet *fleet;       /* the gateways that share a store; null: this one is alone */
    enum fleet_state said;     /* the state that was logged last */
    bool said_evicts;
};

TG_MUST_CHECK enum tg_err admin_changes_new(struct admin *admin, struct admin_changes **changes,
                                            struct tg_problem *problem);

/* Waits for the one that is under way; those that wait are forgotten. */
void admin_changes_free(struct admin_changes *changes);

/* A new one for a call, to be filled in and started; null: it has been answered. */
struct admin_change *admin_change_new(struct admin_call *call, enum admin_change_kind kind);
void admin_change_start(struct admin_change *change);

/* Its text is the body of the call. False: no memory; it has been answered, and is gone. */
bool admin_change_take_body(struct admin_change *change);

/* It is not to be started after all. */
void admin_change_free(struct admin_change *change);

/* The exchange of a call is gone. */
void admin_change_gone(struct admin_call *call);

/* ---- for admin_fleet.c ---- */

/* What a thread would do: by one, or at once where there is none; then back on the loop. */
void admin_change_work(struct admin_change *change, void *(*job)(void *), net_post_run *then);
void admin_change_joined(struct admin_change *change);

/* Sets status, code and message. Returns false. */
bool admin_change_say(struct admin_change *change, int status, const char *code, const char *format,
                      ...) __attribute__((format(printf, 4, 5)));

/* Its status, code and message are the answer. */
void admin_change_refuse(struct admin_change *change);

/* It is kept: reloads where it must, and answers. */
void admin_change_put_in_force(struct admin_change *change);

/* It is over, and answered if anybody waited. */
void admin_change_end(struct admin_change *change);

/* Is tried with the configuration, by a thread. */
void admin_change_try(struct admin_change *change);

/* To be made anew, after the others' changes have been followed. */
void admin_change_again(struct admin_change *change);

/* Nobody asked for it. Null: no memory. */
struct admin_change *admin_change_by_itself(struct admin_changes *changes,
                                            enum admin_change_kind kind, const char *who);

/* ---- admin_fleet.c: several gateways ---- */

void admin_fleet_start(struct admin_changes *changes);
void admin_fleet_end(struct admin_changes *changes);

/* Whether a change of this kind is stored for all gateways; where there are none, it is not. */
bool admin_fleet_shares(const struct admin_change *change);

/* The first step, for a change that is shared: is it to be made at all, and on what? */
void admin_fleet_begin(struct admin_change *change);
void admin_fleet_follow(struct admin_change *change);
void admin_fleet_publish(struct admin_change *change);

/* It is in force, or cannot be. */
void admin_fleet_holds(struct admin_change *change);
void admin_fleet_failed(struct admin_change *change, const struct reload_result *result);

/* By the thread: the row of a change is to be stored. False: no memory, and that is said. */
bool admin_fleet_add(struct admin_change *change, const struct ledger_fleet_row *row);

/* The version that the caller of a change knows, of `if-match: "7"`. False: it makes no sense, and
 * that has been answered. */
bool admin_fleet_expects(struct admin_call *call, int64_t *version);

/* ---- admin_store.c: by the thread ---- */

/* Sets status, code and message if it cannot be. */
void admin_change_store(struct admin_change *change);
void admin_change_undo(struct admin_change *change);

/* ---- admin_credits.c: likewise, with the reply ---- */

void admin_credit_store(struct admin_change *change);

/* ---- admin_keys.c: likewise, and what is to be done when it is kept ---- */

void admin_key_store(struct admin_change *change);
void admin_key_apply(struct admin_change *change);
void admin_key_switch(struct admin *admin, const char *provider, const char *name, bool disabled);

/* ---- admin_answer.c: what is said in the end ---- */

void admin_change_write(const struct admin_change *change, const struct reload_result *result,
                        struct json_writer *out);
int admin_change_status(const struct admin_change *change);
void admin_change_audit(const struct admin_change *change, const char *outcome);

#endif
