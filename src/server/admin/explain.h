/* explain.h - the answer that a call would get now, and every limit that it has to clear.
 *
 *     what is asked       explain_ask.c      a body is made of it and read like any other: its
 *                                            route, rules, tokens, and the money it would reserve
 *     limits and budgets  explain_store.c    where gateways share them: each worker asks as it
 *                                            would for a call, Redis, its blocks or
 *                                            `store_failure`; and about keys of providers
 *     the list            explain.c          stage by stage, in the order of a call; each stage has
 *                                            a file: explain_head.c, _slots.c, _axes.c, _budgets.c,
 *                                            _keys.c
 *     as JSON             explain_write.c    and explain_limits.c
 *
 * It asks by the same scopes, books and scripts as a call, and charges, reserves and counts
 * nothing: so the answer is true for the moment at which it is given. A call that would have to
 * wait for a slot is said to; whether it would get one nobody knows.
 *
 * With two tiers each worker holds blocks of its own, so what a call is told may depend on the
 * worker that it comes to. It is said to be admitted if one of them would admit it, and how many
 * would. With one worker that is what the call is told.
 */
#ifndef TG_ADMIN_EXPLAIN_H
#define TG_ADMIN_EXPLAIN_H

#include "io/text/json_write.h"
#include "server/runtime/gateway.h"

struct admin_call;
struct admin_worker;
struct explanation;

struct explain_call {
    const char *tenant, *model;
    const char *user;          /* null: none */
    int64_t max_tokens;        /* -1: it does not say */
    int64_t prompt_bytes;      /* bytes of text in its only message */
    int64_t tokens;            /* asked for on the cost axis; -1: as estimated */
    tg_micro micro;            /* to be reserved; -1: the bound of such a call */
    enum tg_priority priority; /* asked for; lowered to what the tenant may */
};

/* Answers the request with an Explanation of docs/openapi.yaml, now or later. */
void explain_start(struct admin_call *call, const struct explain_call *asked);

/* Whoever asked has left. */
void explain_gone(struct admin_call *call);

/* All that have not been answered, when no worker runs any more. */
struct admin;
void explain_free_all(struct admin *admin);

/* A worker ends: what it still asks for is forgotten. */
void explain_stop_worker(struct admin_worker *worker);

/* A limiter in words: "gcra, 600 in 1m, burst 600". */
#define EXPLAIN_WHAT_MAX 160
void explain_limiter(const struct tg_limiter_config *config, char text[EXPLAIN_WHAT_MAX]);

/* Where a tenant is written: "tenants.d/a.yaml:12", or "api: tenant x". */
#define EXPLAIN_PLACE_MAX 400
void explain_place(const struct config_tenant *tenant, char text[EXPLAIN_PLACE_MAX]);

/* What rules a tenant or a model has: ["max_tokens at most 8000", ...]. */
void explain_write_rules(struct json_writer *out, const struct field_rules *rules);

#endif
