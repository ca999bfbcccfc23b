/* envoy_metrics.c - rules of Envoy's rate limit service on the page of metrics.
 *
 * One line for each rule that has a limit and each outcome, whatever values descriptors have: the
 * page is bounded by what is configured, not by who asks.
 */
#include "server/envoy/envoy_rls_internal.h"
#include "server/obs/exposition.h"
#include "server/runtime/generation.h"

static void write_rule(struct exposition *text, const struct envoy_rls_counts *counts)
{
    const struct {
        const char *outcome;
        uint64_t hits;
    } rows[] = {{"ok", counts->within}, {"over_limit", counts->over}, {"shadow", counts->shadow}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expose_line(
            text,
            &(struct expose_labels){
                {{"domain", counts->domain}, {"rule", counts->rule}, {"outcome", rows[i].outcome}}},
            (int64_t)rows[i].hits);
}

size_t envoy_metrics_write(struct exposition *text, const struct generation *generation,
                           size_t most)
{
    struct envoy_rls_counts counts;
    size_t left_out = 0;

    expose_begin(text, "tollgate_envoy_rls_hits_total", "counter",
                 "Hits that a rule of Envoy's rate limit service has decided on.");
    for (size_t i = 0; envoy_rls_get_counts(generation->envoy, i, &counts); i++)
        if (i < most)
            write_rule(text, &counts);
        else
            left_out++;
    return left_out;
}
