/* explain.h - every limit that a call has to clear, in the order it is asked, and which would bind.
 *
 * It asks what a call asks, by the same scopes and the same books, and charges nothing: so the
 * answer is true for the moment at which it is given. What it leaves out is waiting: a call that
 * finds no slot may still get one.
 */
#ifndef TG_ADMIN_EXPLAIN_H
#define TG_ADMIN_EXPLAIN_H

#include "io/text/json_write.h"
#include "server/runtime/gateway.h"

struct explain_call {
    const char *tenant, *model;
    const char *user; /* null: none */
    int64_t tokens;
    tg_micro micro;
    enum tg_priority priority; /* asked for; lowered to what the tenant may */
};

/* Writes an Explanation of docs/openapi.yaml. Null, or what there is not: "tenant", "model"; then
 * nothing was written. */
const char *explain_write(struct json_writer *out, struct gateway *gateway,
                          const struct generation *generation, const struct explain_call *call,
                          tg_ms now);

/* A limiter in words: "gcra, 600 in 1m, burst 600". */
#define EXPLAIN_WHAT_MAX 160
void explain_limiter(const struct tg_limiter_config *config, char text[EXPLAIN_WHAT_MAX]);

/* Where a tenant is written: "tenants.d/a.yaml:12", or "api: tenant x". */
#define EXPLAIN_PLACE_MAX 400
void explain_place(const struct config_tenant *tenant, char text[EXPLAIN_PLACE_MAX]);

#endif
