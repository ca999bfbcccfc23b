/* metrics_page.c - what a gateway counts, for Prometheus. See metrics_page.h.
 *
 * The format wants all lines of one metric together, so each metric walks over what it is about:
 * gates, routes, keys, budgets. A look is cheap, and one page every few seconds is what is asked
 * for; values of different metrics may be some microseconds apart.
 */
#include "server/probe/metrics_page.h"

#include <string.h>

#include "server/obs/log.h"
#include "server/obs/metrics.h"
#include "server/obs/traces.h"
#include "server/probe/metrics_page_internal.h"
#include "server/runtime/jwks.h"
#include "server/runtime/service.h"

/* ---- counts ---- */

static int64_t metrics_page_count(const atomic_ullong *of)
{
    return (int64_t)atomic_load_explicit(of, memory_order_relaxed);
}

/* Some reasons have one name, with which there may be one line only. */
static void write_refused(struct exposition *text, const struct gateway_counts *counts)
{
    expose_begin(text, "tollgate_refused_total", "counter",
                 "Calls that were refused or could not be served.");
    for (int i = 0; i < REPLY_COUNT; i++) {
        const char *name = reply_reason_name((enum reply_reason)i);
        int64_t sum = 0;
        bool before = false;
        for (int k = 0; k < REPLY_COUNT; k++)
            if (strcmp(reply_reason_name((enum reply_reason)k), name) == 0) {
                sum += metrics_page_count(&counts->refused[k]);
                before = before || k < i;
            }
        if (!before)
            expose_line(text, &(struct expose_labels){{{"reason", name}}}, sum);
    }
}

static void write_counts(struct exposition *text, const struct gateway *gateway)
{
    const struct gateway_counts *counts = &gateway->counts;
    const struct {
        const char *name, *help;
        int64_t value;
    } counters[] =
        {
            {"tollgate_calls_total", "Calls that came in.", metrics_page_count(&counts->calls)},
            {"tollgate_retries_total", "Attempts after the first, of the same model.",
             metrics_page_count(&counts->retries)},
            {"tollgate_fallbacks_total", "Calls that went on to another model.",
             metrics_page_count(&counts->fallbacks)},
            {"tollgate_hangups_total", "Calls whose client left before their end.",
             metrics_page_count(&counts->hangups)},
            {"tollgate_usage_missing_total", "Answers that did not say what they used.",
             metrics_page_count(&counts->usage_missing)},
            {"tollgate_clamped_total", "Requests whose output was bounded by us.",
             metrics_page_count(&counts->clamped)},
            {"tollgate_fallback_uncarried_total",
             "Calls that could not have been translated for one of their fallbacks.",
             metrics_page_count(&counts->fallback_uncarried)},
            {"tollgate_usage_absurd_total", "Answers whose usage could not be true.",
             metrics_page_count(&counts->usage_absurd)},
            {"tollgate_connections_refused_total", "Connections that were refused: too many.",
             atomic_load_explicit(&gateway->census.turned_away, memory_order_relaxed)},
            {"tollgate_connections_gave_way_total",
             "Idle connections that were closed for new ones.",
             atomic_load_explicit(&gateway->census.gave_way, memory_order_relaxed)},
        },
      gauges[] = {
          {"tollgate_open_calls", "Calls between their head and their end.",
           atomic_load_explicit(&counts->open, memory_order_relaxed)},
          {"tollgate_buffered_bytes", "Bytes of bodies that are held.",
           atomic_load_explicit(&counts->buffered, memory_order_relaxed)},
          {"tollgate_reading_bytes", "Bytes set aside to read long bodies.",
           (long)net_pool_taken(gateway->pool)},
          {"tollgate_connections", "Connections of clients.",
           atomic_load_explicit(&gateway->census.open, memory_order_relaxed)},
          {"tollgate_draining", "Whether the process is about to end.",
           atomic_load_explicit(&gateway->draining, memory_order_relaxed)},
      };

    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        expose_single(text, counters[i].name, "counter", counters[i].help, counters[i].value);
    for (size_t i = 0; i < sizeof gauges / sizeof gauges[0]; i++)
        expose_single(text, gauges[i].name, "gauge", gauges[i].help, gauges[i].value);
    write_refused(text, counts);
}

/* ---- the process ---- */

static void write_config(struct exposition *text, const struct gateway *gateway,
                         const struct generation *generation)
{
    const struct gateway_counts *counts = &gateway->counts;

    expose_begin(text, "tollgate_build_info", "gauge", "The version that runs.");
    expose_line(text, &(struct expose_labels){{{"version", tg_version()}}}, 1);
    expose_single(text, "tollgate_config_generation", "gauge",
                  "Which reading of the configuration holds, from 1.", (int64_t)generation->number);
    expose_begin(text, "tollgate_config_reloads_total", "counter",
                 "Readings of the configuration after the first, by whether they were taken.");
    expose_line(text, &(struct expose_labels){{{"result", "ok"}}},
                metrics_page_count(&counts->reloads));
    expose_line(text, &(struct expose_labels){{{"result", "failed"}}},
                metrics_page_count(&counts->reloads_failed));
    expose_single(text, "tollgate_config_reload_failed", "gauge",
                  "Whether the last reading was not taken: then the one before holds.",
                  atomic_load_explicit(&counts->reload_failed, memory_order_relaxed));
}

static void write_catalogue(struct exposition *text, const struct generation *generation, tg_ms now)
{
    tg_ms checked = generation->config.catalogue_checked_at;

    expose_begin(text, "tollgate_catalogue_age_seconds", "gauge",
                 "Time since the oldest catalogue was checked that a price is from.");
    if (checked > 0)
        expose_real(text, &(struct expose_labels){{{NULL, NULL}}},
                    (double)((now - checked) / 1000));
}

static void write_jwks(struct exposition *text, const struct generation *generation, tg_ms now)
{
    struct jwks_state state;

    jwks_state(generation->gateway->jwks, &state);
    expose_begin(text, "tollgate_jwks_age_seconds", "gauge",
                 "Time since the keys that sign callers' tokens were fetched; absent: there are "
                 "none.");
    if (state.n > 0)
        expose_real(text, &(struct expose_labels){{{NULL, NULL}}},
                    (double)((now - state.fetched_at) / 1000));
    expose_begin(text, "tollgate_jwks_fetches_total", "counter",
                 "Attempts to fetch the keys that sign callers' tokens, by result.");
    expose_line(text, &(struct expose_labels){{{"result", "ok"}}}, (int64_t)state.fetched);
    expose_line(text, &(struct expose_labels){{{"result", "failed"}}}, (int64_t)state.failed);
}

static void write_certificate(struct exposition *text, const struct generation *generation,
                              tg_ms now)
{
    const struct config_listen *listen = &generation->config.listen;
    const struct {
        const struct tls_context *tls;
        const char *cert;
    } shown[] = {{generation->tls, listen->tls.cert},
                 {generation->admin_tls, listen->admin_tls.cert}};

    expose_begin(text, "tollgate_cert_expiry_seconds", "gauge",
                 "How long the certificate of a listener is still good; negative: it is not.");
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        tg_ms ends = shown[i].tls != NULL ? tls_context_not_after(shown[i].tls) : -1;
        bool again = i > 0 && shown[0].tls != NULL && shown[i].tls != NULL &&
                     strcmp(shown[0].cert, shown[i].cert) == 0; /* one file, one line */
        if (ends >= 0 && !again)
            expose_real(text, &(struct expose_labels){{{"cert", shown[i].cert}}},
                        (double)((ends - clock_wall_of(&generation->gateway->clock, now)) / 1000));
    }
}

/* Observing must never hold up a call: so what finds no room is dropped, and counted here. */
static void write_observers(struct exposition *text, const struct gateway *gateway)
{
    struct log_counts log = {0};
    struct trace_counts trace = {0};

    if (gateway->log)
        log_get_counts(gateway->log, &log);
    if (gateway->trace)
        trace_get_counts(gateway->trace, &trace);
    expose_single(text, "tollgate_log_lines_total", "counter", "Lines that were written.",
                  (int64_t)log.written);
    expose_begin(text, "tollgate_observe_dropped_total", "counter",
                 "Lines, recorded arrivals and spans that found no room, or nobody to take them.");
    expose_line(text, &(struct expose_labels){{{"what", "log"}}}, (int64_t)log.dropped);
    expose_line(text, &(struct expose_labels){{{"what", "record"}}}, (int64_t)log.unrecorded);
    expose_line(text, &(struct expose_labels){{{"what", "trace"}}}, (int64_t)trace.dropped);
}

static void write_services(struct exposition *text, const struct service_table *table,
                           const struct generation *generation, struct metrics_left_out *left_out)
{
    for (size_t i = 0; i < table->n; i++)
        if (table->list[i]->write_metrics != NULL)
            left_out->rules += table->list[i]->write_metrics(text, generation, METRICS_RULES_MAX);
}

static void write_left_out(struct exposition *text, const struct metrics_left_out *left_out)
{
    const struct {
        const char *what;
        size_t n;
    } rows[] = {{"routes", left_out->routes},
                {"keys", left_out->keys},
                {"budgets", left_out->budgets},
                {"rules", left_out->rules}};

    expose_begin(text, "tollgate_metrics_left_out", "gauge",
                 "Routes, keys, tenants' budgets and rules that are not on this page.");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expose_line(text, &(struct expose_labels){{{"what", rows[i].what}}}, (int64_t)rows[i].n);
}

void metrics_page_write(struct exposition *text, struct gateway *gateway,
                        const struct generation *generation, tg_ms now)
{
    struct metrics_left_out left_out = {0};

    write_config(text, gateway, generation);
    metrics_write(gateway->metrics, text);
    metrics_write_gates(text, gateway, generation);
    write_counts(text, gateway);
    metrics_write_routes(text, generation, &left_out);
    metrics_write_keys(text, gateway, generation, now, &left_out);
    metrics_write_money(text, gateway, generation, now, &left_out);
    write_services(text, gateway->services, generation, &left_out);
    metrics_write_store(text, gateway);
    metrics_write_fleet(text, gateway, now);
    write_jwks(text, generation, now);
    write_certificate(text, generation, now);
    write_catalogue(text, generation, now);
    write_observers(text, gateway);
    write_left_out(text, &left_out);
}
