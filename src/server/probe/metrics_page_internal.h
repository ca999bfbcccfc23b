/* metrics_page_internal.h - parts of the page of metrics. Private to metrics_*.c of this folder. */
#ifndef TG_PROBE_METRICS_PAGE_INTERNAL_H
#define TG_PROBE_METRICS_PAGE_INTERNAL_H

#include "server/probe/metrics_page.h"

enum {
    METRICS_ROUTES_MAX = 500,
    METRICS_KEYS_MAX = 1000,
    METRICS_BUDGETS_MAX = 100,
    METRICS_RULES_MAX = 500
};

/* How many of each are not on the page. */
struct metrics_left_out {
    size_t routes, keys, budgets, rules;
};

/* ---- metrics_gates.c */

void metrics_write_gates(struct exposition *text, struct gateway *gateway,
                         const struct generation *generation);

/* ---- metrics_keys.c */

void metrics_write_routes(struct exposition *text, const struct generation *generation,
                          struct metrics_left_out *left_out);
void metrics_write_keys(struct exposition *text, struct gateway *gateway,
                        const struct generation *generation, tg_ms now,
                        struct metrics_left_out *left_out);

/* ---- metrics_money.c */

void metrics_write_money(struct exposition *text, struct gateway *gateway,
                         const struct generation *generation, tg_ms now,
                         struct metrics_left_out *left_out);

/* ---- metrics_store.c */

void metrics_write_store(struct exposition *text, struct gateway *gateway);

/* ---- metrics_fleet.c: by the control thread */

void metrics_write_fleet(struct exposition *text, struct gateway *gateway, tg_ms now);

#endif
