/* explain_internal.h - one question to explain, from its parameters to its answer. Private to
 * explain*.c. */
#ifndef TG_ADMIN_EXPLAIN_INTERNAL_H
#define TG_ADMIN_EXPLAIN_INTERNAL_H

#include <sys/queue.h>

#include "server/admin/admin_call.h"
#include "server/admin/explain.h"
#include "server/admin/explain_limits.h"
#include "server/remote/remote.h"
#include "server/runtime/quote.h"
#include "server/runtime/worker.h"

enum { EXPLAIN_LIMITS_MAX = 256 };

/* One question about limits, and what was said. */
struct explain_question {
    struct explain_visit *visit;
    struct remote_peek peek;
    struct tg_debit debit;
    struct tg_axes axes;
    enum tg_err err;
    bool known_here; /* Redis was not asked */
};

/* What a worker would be told by the store. */
struct explain_visit {
    struct explanation *of;
    struct worker *worker;
    LIST_ENTRY(explain_visit) link; /* among those of the worker, by its thread */
    struct net_post going, back;
    size_t waiting; /* answers that have not come */

    struct explain_question
        questions[1 + TG_SCOPES_MAX]; /* the whole debit, and then scope by scope */

    struct remote_reservation_peek money; /* asked by the first visit alone */
    enum tg_err money_err;
};

/* One way to serve the call. */
struct explain_route {
    const struct route *route;
    bool quoted; /* else `why` says why it cannot be served */
    struct quote quote;
    struct refusal why;
    tg_micro micro; /* what would be reserved */
    int64_t tokens; /* what its key would be charged */
};

#define EXPLAIN_ROUTES_MAX 8

struct explanation {
    struct admin_call *call; /* null: whoever asked has left */
    struct admin *admin;
    LIST_ENTRY(explanation) link; /* among those of the admin API */

    struct gateway *gateway;
    struct generation *generation;
    bool holds; /* the generation */
    const struct config *config;
    struct explain_call asked;
    char names[3][ADMIN_NAME_MAX + 1]; /* its texts */
    const struct config_tenant *tenant;
    size_t tenant_number;
    tg_ms now;

    /* explain_ask.c */
    char *body;
    size_t body_n;
    struct ask ask;
    struct ask_seen seen[ASK_WATCH_FIELDS_MAX];
    const char *model; /* after aliases; as it was asked for, if it is not listed */
    bool is_listed, has_route, has_rules_fault;
    struct refusal no_route;
    struct explain_route routes[EXPLAIN_ROUTES_MAX]; /* the first, then its fallbacks */
    size_t n_routes;
    struct tg_scope room[TG_SCOPES_MAX];
    struct tg_call gate_call;
    struct tg_expectation expectation; /* what it would be charged */
    struct spending_call money;
    int64_t prompt, output; /* estimated */

    /* explain_store.c */
    struct explain_visit *visits; /* null: the store is memory, or is not asked */
    size_t n_visits, away;        /* those that have not come back */
    size_t chosen;                /* the visit that is told of: one that admits, if any does */
    size_t admitting;

    /* explain.c */
    struct explain_limit list[EXPLAIN_LIMITS_MAX];
    size_t n;
    size_t binding; /* n: none */
    size_t served;  /* the route that serves it */
    bool waits;
};

/* Finds everything that is known before anybody is asked. Null, or what there is not: "tenant",
 * "model". */
const char *explain_prepare(struct explanation *of);

/* Asks the store, and then explain_finish(); or at once. */
void explain_ask_store(struct explanation *of);

/* Everything is known: lists the stages, and answers. */
void explain_finish(struct explanation *of);

/* Frees it; its visits have come back, or never will. */
void explain_free(struct explanation *of);

/* What a call of the tenant has left of its budgets, as the proxy asks for it. */
bool explain_left(const struct explanation *of, const char *user, tg_micro *left, double *part);

#endif
