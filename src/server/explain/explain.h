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
 *     no call, but all    explain_survey.c   every limit and budget that calls of a tenant may have
 *                                            to clear, asked about one by one
 *
 * It asks by the same scopes, books and scripts as a call, and charges, reserves and counts
 * nothing: so the answer is true for the moment at which it is given. A call that would have to
 * wait for a slot is said to; whether it would get one nobody knows.
 *
 * With two tiers each worker holds blocks of its own, so what a call is told may depend on the
 * worker that it comes to. It is said to be admitted if one of them would admit it, and how many
 * would. With one worker that is what the call is told.
 */
#ifndef TG_EXPLAIN_EXPLAIN_H
#define TG_EXPLAIN_EXPLAIN_H

#include <sys/queue.h>

#include "io/net/loop.h"
#include "io/text/json_member.h"
#include "io/text/json_read.h"
#include "server/remote/remote.h"
#include "server/runtime/gateway.h"

struct explanation;
struct worker;

#define EXPLAIN_NAME_MAX 1024 /* bytes of a name that is asked about */

/* Where questions are asked and answered: one, on the control thread. */
struct explainer {
    struct net_loop *loop;
    struct gateway *gateway;
    struct worker *workers; /* who are asked what a call would be told */
    size_t n_workers;       /* 0: the store is not asked */
    size_t thread;          /* the number of the loop's thread, among those that hold generations */
    struct json_reader *reader;
    LIST_HEAD(, explanation) waiting; /* questions that wait for the store */
};

/* False: no memory. What is borrowed is set in `of`: all but `reader` and `waiting`. */
bool explainer_init(struct explainer *explainer, const struct explainer *of);

/* No worker runs any more, or none has been asked. */
void explainer_fini(struct explainer *explainer);

/* A call, or, without a model, all limits and budgets that calls of a tenant may have to clear. */
struct explain_call {
    const char *tenant;
    const char
        *model; /* null: no call is asked about, and nothing below but `user` and `key` counts */
    const char *user;          /* null: none */
    const char *key;           /* the name of a virtual key of the tenant; null: none */
    int64_t max_tokens;        /* -1: it does not say */
    int64_t prompt_bytes;      /* bytes of text in its only message */
    int64_t tokens;            /* asked for on the cost axis; -1: as estimated */
    tg_micro micro;            /* to be reserved; -1: the bound of such a call */
    enum tg_priority priority; /* asked for; lowered to what the tenant may */
    size_t worker;             /* who asks the store, EXPLAIN_ALL_WORKERS: each */
};

#define EXPLAIN_ALL_WORKERS SIZE_MAX

enum explain_outcome {
    EXPLAIN_DONE,
    EXPLAIN_NO_TENANT, /* the configuration has none of that name; so of the others */
    EXPLAIN_NO_MODEL,
    EXPLAIN_NO_KEY,
    EXPLAIN_NO_MEMORY,
};

/* `of` is null unless it is done, and ends with the call of this. */
typedef void explain_done(void *context, enum explain_outcome outcome,
                          const struct explanation *of);

/* Asks on the control thread, under its newest generation. done() comes once: from inside, or
 * later. Until then `*handle`, if it is not null, is for explain_forget(). */
void explain_start(struct explainer *explainer, struct generation *generation,
                   const struct explain_call *asked, struct explanation **handle,
                   explain_done *done, void *context);

/* Whoever asked has left: done() does not come. Null is none. */
void explain_forget(struct explanation *of);

/* What was found, in the order in which calls meet it. */
struct explain_limit;
const struct explain_limit *explain_list_of(const struct explanation *of, size_t *n);

/* Whether there are more than it has room for. */
bool explain_is_truncated(const struct explanation *of);

/* Under which generation, and who has decided: not asked, REMOTE_LOCAL. */
const struct generation *explain_generation(const struct explanation *of);
enum remote_mode explain_limits_by(const struct explanation *of);
enum remote_mode explain_budgets_by(const struct explanation *of);

/* An Explanation of docs/openapi.yaml, of a call. */
void explain_write(struct json_writer *out, const struct explanation *of);

/* ---- In words, for whoever tells of limits --------------------------------------------------- */

/* A limiter in words: "gcra, 600 in 1m, burst 600". */
#define EXPLAIN_WHAT_MAX 160
void explain_limiter(const struct tg_limiter_config *config, char text[EXPLAIN_WHAT_MAX]);

/* Where a tenant is written: "tenants.d/a.yaml:12", or "api: tenant x". */
#define EXPLAIN_PLACE_MAX 400
void explain_place(const struct config_tenant *tenant, char text[EXPLAIN_PLACE_MAX]);

/* What is in the way of a call to a key of a provider: "ready", "cooling", ... */
const char *explain_key_status(const struct tg_key_metrics *key);

/* "enforce" or "shadow". */
const char *explain_mode_name(enum tg_mode mode);

/* What rules a tenant or a model has: ["max_tokens at most 8000", ...]. */
void explain_write_rules(struct json_writer *out, const struct field_rules *rules);

#endif
