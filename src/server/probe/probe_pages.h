/* probe_pages.h - /healthz, /readyz and /metrics, on a listener for the owner alone.
 *
 *   /healthz   200 "ok": the process runs and its control thread turns
 *   /readyz    200 "ok", or 503 with the reason: draining, or spend cannot be recorded and must be
 *   /metrics   the text format of Prometheus, 0.0.4 (metrics_page.h)
 *
 * They ask the library for what it counts and take no other lock. No secret is on any page.
 */
#ifndef TG_PROBE_PROBE_PAGES_H
#define TG_PROBE_PROBE_PAGES_H

#include "io/http/http_server.h"

struct config;
struct gateway;
struct generation;

extern const struct http_server_ops
    probe_server_ops; /* the listener's context is the control thread */

/* Null: ready. Otherwise why not, in a few words. */
const char *probe_unready(const struct gateway *gateway, const struct config *config);

/* Each answers, for the admin listener, which has these pages too. */
void probe_healthz(struct http_inbound *in);
void probe_readyz(struct http_inbound *in, const struct gateway *gateway,
                  const struct config *config);
void probe_metrics(struct http_inbound *in, struct gateway *gateway,
                   const struct generation *generation, tg_ms now);

#endif
