/* admin_call.h - the admin API's state, and one request to it: for the files of the admin API.
 *
 * Everything here belongs to the control thread.
 */
#ifndef TG_ADMIN_ADMIN_CALL_H
#define TG_ADMIN_ADMIN_CALL_H

#include "io/http/http_server.h"
#include "io/net/loop.h"
#include "io/text/json_read.h"
#include "server/admin/admin_watch.h"
#include "server/admin/explain_fleet.h"
#include "server/admin/snapshot.h"
#include "server/admin/snapshot_fleet.h"
#include "server/runtime/generation.h"
#include "server/runtime/reload.h"

struct admin_route;
struct explanation;
struct explainer;
struct admin_changes;
struct gateway;
struct log;
struct watch;

#define ADMIN_BODY_MAX ((size_t)256 << 10)
#define ADMIN_NAME_MAX 1024 /* bytes of a segment of a path, decoded */

struct admin_options {
    struct net_loop *loop;
    struct gateway *gateway;
    struct log *log;         /* where changes are logged; null: nowhere */
    struct metrics *metrics; /* null: no tenants in a snapshot */
    struct watch *watch;     /* null: no denials are told */
    const char *config_path; /* what is read again; borrowed */

    /* The newest generation that the thread of the loop knows. */
    struct generation *(*generation)(void *host);
    /* Reads the configuration again; `done` comes from the loop, once, later. False: no memory. */
    bool (*reload)(void *host, const char *why, reload_done *done, void *context);
    /* Whoever asked has gone: `done` does not come for it. */
    void (*forget)(void *host, const void *context);
    void *host;

    struct explainer *explainer; /* answers what a call would be told */

    bool in_place; /* for tests: no threads, what they would do is done at once */
};

struct admin {
    struct admin_options options;
    struct json_reader *reader;
    struct snapshot_memory memory; /* what rates are made of */
    struct admin_watchers watchers;
    struct admin_changes *changes;
    struct snapshot_fleet *fleet;
    struct explain_fleet *explain_fleet;
    struct net_timer second;
    tg_ms denied_at;     /* the last time that a wrong token was noted in the log */
    size_t denied_since; /* requests without the right token since then, without a line */
};

/* Whether the administrator is asking, by the token of `authorization: Bearer TOKEN`. */
enum admin_access {
    ADMIN_MAY,
    ADMIN_CLOSED, /* nobody may: no token is configured */
    ADMIN_WRONG_TOKEN,
};

enum admin_access admin_access(const struct config *config, const struct http_head *head);

/* ---- One request ------------------------------------------------------------------------------
 *
 * Its storage ends with gone(), unless a change is under way: then
 * the change outlives it and finds out. */

struct admin_call {
    struct admin *admin;
    struct http_inbound *in;
    const struct admin_route *route;
    struct slice query;                /* after the `?` */
    char names[2][ADMIN_NAME_MAX + 1]; /* the names in the path, decoded */
    char *body;                        /* followed by JSON_PADDING bytes */
    size_t body_n;
    struct admin_change *change; /* null: none is under way */
    struct admin_watcher *watcher;
    bool reloading;                  /* it waits for the configuration to be read */
    bool audited;                    /* the log has a line of it */
    struct explanation *explanation; /* for explain_forget() */
    bool waits_for_fleet;            /* for a snapshot of the fleet: snapshot_fleet.h */
    LIST_ENTRY(admin_call) fleet_link;
    struct explain_round *round; /* an explanation of the fleet; null: none */
};

static inline struct generation *admin_generation(const struct admin *admin)
{
    return admin->options.generation(admin->options.host);
}

static inline tg_ms admin_now(const struct admin *admin)
{
    return net_loop_now(admin->options.loop);
}

/* The same by the wall clock: for what has a date. */
static inline tg_ms admin_wall(const struct admin *admin)
{
    return clock_wall_of(&admin->options.gateway->clock, admin_now(admin));
}

/* Where a request came from, for the log. */
void admin_peer(const struct http_inbound *in, char who[64]);

/* One line in the log for a change, or an attempt at one. */
void admin_audit(const struct admin *admin, const char *who, const char *action, const char *object,
                 const char *outcome);

/* The same for a request for a change that is refused, unless it has its line: every refusal passes
 * through here. `in` without a call, or with one that changes nothing, leaves none. */
void admin_audit_refused(const struct http_inbound *in, const char *why);

#endif
