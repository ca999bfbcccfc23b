/* metrics_envoy.c - rules of Envoy's rate limit service on the page of metrics.
 *
 * One line for each rule that has a limit and each outcome, whatever values descriptors have: the
 * page is bounded by what is configured, not by who asks.
 */
#include "server/admin/metrics_page_internal.h"
#include "server/envoy/envoy_rls.h"

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

void metrics_write_envoy(struct exposition *text, const struct generation *generation,
                         struct metrics_left_out *left_out)
{
    struct envoy_rls_counts counts;

    expose_begin(text, "tollgate_envoy_rls_hits_total", "counter",
                 "Hits that a rule of Envoy's rate limit service has decided on.");
    for (size_t i = 0; envoy_rls_get_counts(generation->envoy, i, &counts); i++)
        if (i < METRICS_RULES_MAX)
            write_rule(text, &counts);
        else
            left_out->rules++;
}
