/* explain_limits.h - a limit or a budget as it stands, on its way to be told. */
#ifndef TG_EXPLAIN_EXPLAIN_LIMITS_H
#define TG_EXPLAIN_EXPLAIN_LIMITS_H

#include "server/explain/explain.h"

#define EXPLAIN_UNKNOWN (-1.0) /* stands for a number that is not known */

struct explain_limit {
    const char *stage, *scope, *unit;
    const char *reason; /* what the call is told if it binds; static */
    const char *name;   /* null: nobody's */
    char what[EXPLAIN_WHAT_MAX];
    char source[EXPLAIN_PLACE_MAX];
    enum tg_mode mode;
    double limit, remaining; /* 0 or more, or EXPLAIN_UNKNOWN */
    tg_ms reset_at;          /* 0: none */
    tg_ms retry_after_ms;    /* 0: not known; TG_UNSATISFIABLE: never */
    bool has_limiter;        /* rate and cost: */
    struct tg_limiter_config limiter;
    const struct config_names *models; /* the models it is for; null: all */
    bool has_budget;                   /* a budget: */
    struct tg_budget_metrics budget;
    const struct config_budget *configured; /* null: a reload has taken it away */
    size_t of_scope, number; /* rate and cost: a scope of the call, and which of its limits */
    bool refuses;
    bool waits;       /* the call would wait for it */
    bool passed_over; /* it refuses, and the call falls back to another route */
    bool named;       /* the one that the refusal names, among those that refuse */
    bool cooling;     /* all keys cool down after refusals of the provider */
};

void explain_write_limit(struct json_writer *out, const struct explain_limit *limit);

/* "12.5 USD": without zeros at its end. */
#define EXPLAIN_MONEY_MAX 40
void explain_money(tg_micro micro, char text[EXPLAIN_MONEY_MAX]);

#endif
