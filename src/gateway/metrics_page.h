/* metrics_page.h - what a gateway counts, in the text format of Prometheus.
 *
 * Names of tenants, models, providers and keys are on the page, secrets and users are not. By any
 * thread.
 */
#ifndef TG_GATEWAY_METRICS_PAGE_H
#define TG_GATEWAY_METRICS_PAGE_H

#include "gateway/gateway.h"
#include "gateway/metrics_text.h"

#define METRICS_PAGE_TYPE "text/plain; version=0.0.4; charset=utf-8"

void metrics_page_write(struct metrics_text *page, struct gateway *gateway,
                        const struct generation *generation, tg_ms now);

#endif
