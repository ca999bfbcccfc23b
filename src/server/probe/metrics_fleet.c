/* metrics_fleet.c - what gateways that share a store have in common, on the page of metrics. */
#include "server/fleet/fleet.h"
#include "server/probe/metrics_page_internal.h"

static int64_t count_behind(const struct fleet_view *view)
{
    int64_t n = 0;

    for (size_t i = 0; i < view->n_reports; i++)
        n += view->reports[i].version < view->stored_version;
    return n;
}

void metrics_write_fleet(struct exposition *text, struct gateway *gateway, tg_ms now)
{
    struct fleet_view view;

    if (gateway->fleet == NULL)
        return;
    fleet_get_view(gateway->fleet, &view);
    expose_begin(text, "tollgate_fleet_state", "gauge",
                 "1 for what this gateway is to the store: current, behind, away, or one in which "
                 "the store is not followed.");
    for (int i = 0; i < FLEET_STATE_COUNT; i++)
        expose_line(text,
                    &(struct expose_labels){{{"state", fleet_state_name((enum fleet_state)i)}}},
                    i == (int)view.state);
    expose_single(text, "tollgate_fleet_version", "gauge",
                  "The version of what the API of all gateways made that holds here.",
                  view.mark.version);
    expose_single(text, "tollgate_fleet_stored_version", "gauge",
                  "The version that the store said last.",
                  view.stored_version > 0 ? view.stored_version : 0);
    expose_begin(text, "tollgate_fleet_lag_seconds", "gauge",
                 "For how long a later version than this gateway's has been known here.");
    expose_real(text, NULL,
                view.behind_since != 0 ? (double)(now - view.behind_since) / 1000.0 : 0.0);
    expose_single(
        text, "tollgate_fleet_gateways_behind", "gauge",
        "Gateways that were heard of within a day and said last that they have an earlier "
        "version than the store.",
        count_behind(&view));
    expose_single(text, "tollgate_fleet_store_evicts", "gauge",
                  "1 if the store may forget keys: its maxmemory-policy is not noeviction.",
                  view.evicts);
}
