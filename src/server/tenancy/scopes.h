/* scopes.h - what a call has to clear by the configuration: whose limits, how many at once.
 *
 * The room, from a request to the limits of its tenant:
 *
 *     trust.c        whether headers about priority and peer are believed
 *     callers.c      other gateways that ask for decisions, by their token
 *     virtual_key.c  the key in a request, and its hash
 *     key_index.c    whose key it is
 *     scopes.c       the sets of limits that a call of that tenant clears      this header
 *     limit_book.c   sets of limits by name, over all readings of a configuration
 *     limit_share.c  what each of n gateways may give out while they cannot talk
 *
 *     scopes_new(&config, book, &scopes, &problem)
 *     limit_book_apply(book, now, &problem)
 *     ...
 *     struct tg_scope room[TG_SCOPES_MAX];
 *     struct tg_call call;
 *     scopes_fill(scopes, &who, room, &call, &problem)       then tg_gate_admit(gate, &call, ...)
 *
 * A call of a tenant clears, all together or not at all:
 *
 *   the tenant      its `rate` and `cost`; for what it leaves out, those of the gate
 *                   its `limits`: a line with `models` only for a call of such a model
 *                   its `users.each`, if the call names a user: each user by itself
 *   its key         the `limits` of the virtual key, in the same way; keys of one name together
 *   every parent    the same, but nothing in place of what the parent leaves out: a default is for
 *                   who calls, and must not bind a child tighter than its own limit does
 *
 * A name that is no tenant's gets the gate's `rate` and `cost`, each name its own. The state of a
 * line of `limits` is one for all models that it is for.
 *
 * The topmost parent is the root. A tenant in shadow: none of its limits refuses, those of its
 * parents do.
 */
#ifndef TG_TENANCY_SCOPES_H
#define TG_TENANCY_SCOPES_H

#include "server/config/config.h"
#include "server/tenancy/limit_book.h"
#include "tollgate.h"

struct scopes;

/* Who calls, and for what. Null: not known. */
struct scopes_who {
    const char *tenant; /* a name; not null */
    size_t tenant_bytes;
    const char *model;
    size_t model_bytes;
    const char *user;
    size_t user_bytes;
    const struct config_key *key; /* one of that tenant, in the scopes' configuration */
    const char *peer;             /* whom fairness counts, unless the tenant is its own peer */
    size_t peer_bytes;
    enum tg_priority priority; /* what is asked for */
};

/* Wants the limits of the configuration in the book; those that have changed take effect with
 * limit_book_apply(). The configuration is borrowed for as long as the scopes
 * live. TG_ERR_INVALID, TG_ERR_MEMORY: nothing is wanted; `problem` names the tenant with its file
 * and line. */
TG_MUST_CHECK enum tg_err scopes_new(const struct config *config, struct limit_book *book,
                                     struct scopes **scopes, struct tg_problem *problem);
void scopes_free(struct scopes *scopes);

/* Fills in what the configuration says of a call: its scopes (in `room`, which the call then points
 * to, with whose limits they are), root, charging, tenant, what it is like, weight, value, peer and
 * its limit, the unit of its cost, and the priority it asked for, lowered to what the tenant may.
 * Cost, hold, deadline and waiter are the caller's, after tg_call_init(). By any number of
 * threads.
 *
 * TG_ERR_INVALID: more lines of `limits` are for this model than TG_SCOPES_MAX has place for. */
TG_MUST_CHECK enum tg_err scopes_fill(const struct scopes *scopes, const struct scopes_who *who,
                                      struct tg_scope room[TG_SCOPES_MAX], struct tg_call *call,
                                      struct tg_problem *problem);

/* Every set that some call of a tenant may have to clear, lines for certain models included: how
 * many, of which `room` gets up to `max`. What `who` says of a model does not matter. */
size_t scopes_list(const struct scopes *scopes, const struct scopes_who *who, struct tg_scope *room,
                   size_t max);

/* Where the limits of a scope come from. */
struct scopes_origin {
    const struct config_tenant *tenant; /* the one who calls, or a parent */
    enum {
        SCOPES_OWN,      /* its `rate` and `cost` */
        SCOPES_LINE,     /* a line of its `limits` */
        SCOPES_KEY,      /* a line of the `limits` of one of its keys */
        SCOPES_USERS,    /* its `users.each` */
        SCOPES_DEFAULTS, /* those of the gate, for what it leaves out */
    } what;
    size_t line;                  /* in `limits`, from 0; else SCOPES_NO_LINE */
    const struct config_key *key; /* null: none */
};

#define SCOPES_NO_LINE SIZE_MAX

/* Finds where a set comes from that scopes_fill() gave for a call of this tenant. False: it is no
 * such set. */
bool scopes_origin(const struct scopes *scopes, const struct config_tenant *tenant, tg_limits set,
                   struct scopes_origin *origin);

/* The gate of a configuration; store, seed and callbacks are left at their defaults. */
void scopes_gate_config(const struct config_gate *from, struct tg_gate_config *to);

#endif
