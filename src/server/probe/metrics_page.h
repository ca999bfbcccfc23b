/* metrics_page.h - what a gateway counts, in the text format of Prometheus.
 *
 * Names of tenants, models, providers and keys are on the page, secrets and users are not. It is
 * bounded: of keys, routes and budgets beyond a number only the first, or the most used ones, are
 * on it, and a line says how many were left out. docs/metrics.md has every metric.
 *
 * On the control thread's thread, whose generation it is.
 */
#ifndef TG_PROBE_METRICS_PAGE_H
#define TG_PROBE_METRICS_PAGE_H

#include "server/obs/exposition.h"
#include "server/runtime/gateway.h"

void metrics_page_write(struct exposition *text, struct gateway *gateway,
                        const struct generation *generation, tg_ms now);

#endif
