/* me_internal.h - one question of a tenant about itself, from its head to its answer. Private to
 * me_*.c. */
#ifndef TG_ME_ME_INTERNAL_H
#define TG_ME_ME_INTERNAL_H

#include <sys/queue.h>

#include "io/net/work_pool.h"
#include "io/text/json_member.h"
#include "server/dialect/replies.h"
#include "server/explain/explain.h"
#include "server/ledger/ledger.h"
#include "server/runtime/worker.h"

struct control;

/* What the service keeps for the process: what a pointer leads to is the control thread's. */
struct me {
    struct control *control; /* null: its thread does not run yet, or any more */
    struct net_pool *pool;   /* one thread, which waits for the ledger's disk */
    struct net_lane lane;
    size_t n_asks; /* how many are being answered */
};

/* Questions on a worker, by its thread. */
struct me_worker {
    LIST_HEAD(, me_ask) asks;
};

/* ---- Spend --------------------------------------------------------------------------------------
 */

enum { ME_DAYS = 31, ME_ROWS_MAX = 200 };

#define ME_DAY_MS INT64_C(86400000)

/* What was spent on a day, with a model or by a key. */
struct me_sum {
    char name[LEDGER_NAME_MAX + 1];
    int64_t calls;
    struct tg_usage usage;
    tg_micro micro, uncertain;
};

/* Rows that have no place of their own are added up in the last. */
struct me_sums {
    struct me_sum rows[ME_ROWS_MAX];
    struct me_sum rest;
    size_t n;
    bool has_rest;
};

struct me_spend {
    tg_ms since, until, month; /* the days' first and end, and when this month began, in UTC */
    struct me_sum days[ME_DAYS], in_month;
    struct me_sums models, keys;
    bool failed; /* the ledger could not be read */
};

/* The last 31 days of a tenant's own calls, at that time. Waits for the disk. */
void me_spend_read(struct me_spend *spend, struct ledger *ledger, const char *tenant, tg_ms now);

void me_spend_write(struct json_writer *out, const struct me_spend *spend);

/* ---- One question ------------------------------------------------------------------------------
 */

struct me_ask {
    const struct service *service; /* the first member: see service.h */
    LIST_ENTRY(me_ask) link;       /* among those of the worker, by its thread; as are: */
    struct worker *worker;
    struct http_inbound *in; /* null: the client has left */
    bool is_away;            /* the control thread has it */
    bool is_anthropic;       /* errors have the form of that API */

    /* Who asks. */
    char *tenant; /* owned */
    char user[LEDGER_NAME_MAX + 1];
    bool is_user_signed; /* a token named the user, who is told of his own refusals alone */
    char key[LEDGER_NAME_MAX + 1];
    tg_ms not_after;
    bool by_token;

    /* The control thread's, until it comes back. */
    struct net_post going, back, spent;
    struct explanation *explanation;
    struct net_job job;
    struct me_spend *spend; /* owned; the job's while it runs */
    tg_ms now;              /* by the wall clock */
    struct json_writer out;
    bool is_refused; /* `why` says why; else `out` is the answer */
    struct refusal why;
};

/* me_answer.c: everything but what was spent, of a survey; and what ends the document. */
void me_answer_begin(struct me_ask *ask, const struct gateway *gateway,
                     const struct explanation *of);
void me_answer_end(struct me_ask *ask);

#endif
