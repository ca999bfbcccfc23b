/* explain_internal.h - one question to explain, from its parameters to its answer. Private to
 * explain*.c. */
#ifndef TG_EXPLAIN_EXPLAIN_INTERNAL_H
#define TG_EXPLAIN_EXPLAIN_INTERNAL_H

#include <sys/queue.h>

#include "server/explain/explain.h"
#include "server/explain/explain_limits.h"
#include "server/remote/remote.h"
#include "server/runtime/quote.h"
#include "server/runtime/worker.h"

enum {
    EXPLAIN_LIMITS_MAX = 256,
    EXPLAIN_SCOPES_MAX = 64, /* in a survey; a call has TG_SCOPES_MAX at most */
    EXPLAIN_KEYS_MAX = 64,   /* keys that the store is asked about, of all routes together */
    EXPLAIN_KEY_TEXT = 160,
};

/* One question about limits, and what was said. */
struct explain_question {
    struct explain_visit *visit;
    struct remote_peek peek;
    struct tg_debit debit;
    struct tg_axes axes;
    enum tg_err err;
    bool known_here; /* Redis was not asked */
};

/* A key that could serve on a route, as far as this gateway knows, and what the store says. */
struct explain_key {
    struct explain_visit *visit;
    size_t route;
    struct tg_key_terms terms;
    char texts[4][EXPLAIN_KEY_TEXT]; /* what the terms point at */
    const struct route_key *owner;
    struct remote_key_peek peek;
    bool is_held; /* `hold` says why it cannot serve */
    struct tg_key_hold hold;
};

/* What a worker would be told by the store. */
struct explain_visit {
    struct explanation *of;
    struct worker *worker;
    LIST_ENTRY(explain_visit) link; /* among those of the worker, by its thread */
    struct net_post going, back;
    size_t waiting; /* answers that have not come */

    struct explain_question
        questions[1 + EXPLAIN_SCOPES_MAX]; /* the whole debit, and then scope by scope */

    struct remote_reservation_peek money; /* asked by the first visit alone */
    enum tg_err money_err;

    struct explain_key *keys; /* the same; owned */
    size_t n_keys;
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
    struct explainer *explainer;
    LIST_ENTRY(explanation) link; /* among those that wait */
    explain_done *done;           /* null: whoever asked has left */
    void *context;
    struct explanation **handle; /* where whoever asked keeps it; null while `done` is */

    struct gateway *gateway;
    struct generation *generation;
    bool holds; /* the generation */
    const struct config *config;
    struct explain_call asked;
    char names[4][EXPLAIN_NAME_MAX + 1]; /* its texts */
    const struct config_tenant *tenant;
    size_t tenant_number;
    const struct config_key *key; /* null: none */
    tg_ms now;

    /* explain_ask.c */
    char *body;
    size_t body_n;
    struct ask ask;
    struct ask_seen seen[ASK_WATCH_FIELDS_MAX];
    const char *model; /* after aliases; as it was asked for, if it is not listed */
    bool is_listed, has_route;
    struct refusal no_route;
    struct explain_route routes[EXPLAIN_ROUTES_MAX]; /* the first, then its fallbacks */
    size_t n_routes;
    struct tg_scope room[EXPLAIN_SCOPES_MAX];
    struct tg_call gate_call;
    struct tg_expectation expectation; /* what it would be charged */
    struct spending_call money;
    int64_t prompt, output; /* estimated */

    /* explain_store.c */
    struct explain_visit *visits; /* null: the store is memory, or is not asked */
    size_t n_visits, away;        /* those that have not come back */
    size_t chosen;                /* the visit that is reported: one that admits, if any */
    size_t admitting;

    /* explain.c */
    struct explain_limit list[EXPLAIN_LIMITS_MAX];
    size_t n;
    bool is_truncated; /* there are more than the list has room for */
    size_t binding;    /* n: none */
    size_t served;     /* the route that serves it */
    bool waits;
};

/* Questions under way on a worker: by its thread. */
struct explain_worker {
    LIST_HEAD(, explain_visit) visits;
};

/* A worker ends: what it still asks for is forgotten. */
void explain_stop_worker(struct explain_worker *worker);

/* Finds everything that is known before anybody is asked. */
enum explain_outcome explain_prepare(struct explanation *of);

/* Asks the store, and then explain_finish(); or at once. */
void explain_ask_store(struct explanation *of);

/* Everything is known: lists the stages, and answers. */
void explain_finish(struct explanation *of);

/* ---- explain_add.c: what is put onto the list ---- */

/* Null: the list is full. */
struct explain_limit *explain_add(struct explanation *of, const char *stage, const char *scope,
                                  const char *name);

/* A stage of which there is nothing to say but that it refuses. */
void explain_add_refusal(struct explanation *of, const struct refusal *why, const char *scope,
                         const char *name);

/* The store cannot be asked, and what it should say must not be guessed. */
void explain_closed(struct explanation *of, const char *what, const char *section,
                    enum config_away away);

/* It stands in a section of the file. */
void explain_from_section(const struct explanation *of, struct explain_limit *limit,
                          const char *section);
void explain_say_more(struct explain_limit *limit, const char *text);
enum tg_mode explain_mode(enum config_mode mode);
const char *explain_scope(const struct explanation *of, const struct config_tenant *tenant);

/* ---- The stages, in the order of a call. Those that return false refuse it on this route. ---- */

/* explain_head.c */
void explain_drain(struct explanation *of);
void explain_user(struct explanation *of);
void explain_memory(struct explanation *of, const struct tg_answer *said);
void explain_peer(struct explanation *of);
void explain_patterns(struct explanation *of);
void explain_rules(struct explanation *of);

/* explain_slots.c */
bool explain_route_slots(struct explanation *of, const struct route *route);
void explain_slots(struct explanation *of, struct tg_gate *gate, const struct tg_answer *said,
                   const char *scope, const char *name, const struct config_concurrency *config,
                   const char *section);
void explain_policy(struct explanation *of);

/* explain_axes.c */
void explain_axis(struct explanation *of, enum tg_axis axis);
/* A call that can never pass one of its limits, of those after `from`, has that one named. */
void explain_mark_unsatisfiable(struct explanation *of, size_t from);

/* explain_budgets.c */
bool explain_budgets(struct explanation *of, const struct explain_route *way);

/* All budgets, for their own sake. */
void explain_budgets_list(struct explanation *of);

/* A debit of one scope of the call, where each is asked about alone. */
struct tg_debit explain_debit_of(const struct explanation *of, size_t scope);

/* explain_survey.c */
static inline bool explain_is_survey(const struct explanation *of)
{
    return of->asked.model == NULL;
}
void explain_survey_prepare(struct explanation *of);
void explain_survey_list(struct explanation *of);

/* explain_keys.c */
bool explain_keys(struct explanation *of, const struct explain_route *way);
/* Which keys the store is to be asked about. */
void explain_keys_collect(const struct explanation *of, struct explain_visit *visit);

#endif
