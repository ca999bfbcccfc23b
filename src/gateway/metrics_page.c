/* metrics_page.c - what a gateway counts, for Prometheus. See metrics_page.h.
 *
 * The format wants all lines of one metric together, so each metric walks over what it is about:
 * gates, routes, keys, budgets. A look is cheap, and one page every few seconds is what is asked
 * for; values of different metrics may be some microseconds apart.
 */
#include "gateway/metrics_page.h"

#include <stdio.h>
#include <string.h>

enum { KEYS_AT_ONCE = 64 };

/* ---- counts ---- */

static int64_t count(const atomic_ullong *of)
{
    return (int64_t)atomic_load_explicit(of, memory_order_relaxed);
}

/* Some reasons have one name, with which there may be one line only. */
static void write_refused(struct metrics_text *page, const struct gateway_counts *counts)
{
    metrics_begin(page, "refused_total", "counter",
                  "Calls that were refused or could not be served.");
    for (int i = 0; i < REPLY_COUNT; i++) {
        const char *name = reply_reason_name((enum reply_reason)i);
        struct metrics_labels labels = {{{"reason", name}}};
        int64_t sum = 0;
        bool before = false;
        for (int k = 0; k < REPLY_COUNT; k++)
            if (strcmp(reply_reason_name((enum reply_reason)k), name) == 0) {
                sum += count(&counts->refused[k]);
                before = before || k < i;
            }
        if (!before)
            metrics_line(page, "refused_total", &labels, sum);
    }
}

static void write_counts(struct metrics_text *page, const struct gateway *gateway)
{
    const struct gateway_counts *counts = &gateway->counts;

    metrics_single(page, "calls_total", "counter", "Calls that came in.", count(&counts->calls));
    write_refused(page, counts);
    metrics_single(page, "retries_total", "counter", "Attempts after the first, of the same model.",
                   count(&counts->retries));
    metrics_single(page, "fallbacks_total", "counter", "Calls that went on to another model.",
                   count(&counts->fallbacks));
    metrics_single(page, "hangups_total", "counter", "Calls whose client left before their end.",
                   count(&counts->hangups));
    metrics_single(page, "usage_missing_total", "counter",
                   "Answers that did not say what they used.", count(&counts->usage_missing));
    metrics_single(page, "usage_absurd_total", "counter", "Answers whose usage could not be true.",
                   count(&counts->usage_absurd));
    metrics_single(page, "open_calls", "gauge", "Calls between their head and their end.",
                   atomic_load_explicit(&counts->open, memory_order_relaxed));
    metrics_single(page, "buffered_bytes", "gauge", "Bytes of bodies that are held.",
                   atomic_load_explicit(&counts->buffered, memory_order_relaxed));
    metrics_single(page, "connections", "gauge", "Connections of clients.",
                   atomic_load_explicit(&gateway->census.open, memory_order_relaxed));
    metrics_single(page, "draining", "gauge", "Whether the process is about to end.",
                   atomic_load_explicit(&gateway->draining, memory_order_relaxed));
}

/* ---- gates ---- */

struct gate_look {
    const char *name;
    struct tg_gate_stats stats;
};

static void write_gates(struct metrics_text *page, struct gateway *gateway)
{
    struct gate_look looks[2] = {{.name = "models"}, {.name = "protect"}};

    tg_gate_get_stats(gateway->gate, &looks[0].stats);
    tg_gate_get_stats(gateway->protect_gate, &looks[1].stats);
    metrics_begin(page, "concurrency_limit", "gauge", "Calls that may run at once.");
    for (int i = 0; i < 2; i++)
        metrics_line(page, "concurrency_limit", &(struct metrics_labels){{{"gate", looks[i].name}}},
                     looks[i].stats.limit);
    metrics_begin(page, "concurrency_in_flight", "gauge", "Calls that run.");
    for (int i = 0; i < 2; i++)
        metrics_line(page, "concurrency_in_flight",
                     &(struct metrics_labels){{{"gate", looks[i].name}}}, looks[i].stats.in_flight);
    metrics_begin(page, "concurrency_queued", "gauge", "Calls that wait for others to end.");
    for (int i = 0; i < 2; i++)
        for (int p = 0; p < TG_PRIORITY_COUNT; p++)
            metrics_line(
                page, "concurrency_queued",
                &(struct metrics_labels){
                    {{"gate", looks[i].name}, {"priority", tg_priority_name((enum tg_priority)p)}}},
                looks[i].stats.queued[p]);
    metrics_begin(page, "admitted_total", "counter", "Calls that a gate admitted.");
    for (int i = 0; i < 2; i++)
        metrics_line(page, "admitted_total", &(struct metrics_labels){{{"gate", looks[i].name}}},
                     (int64_t)looks[i].stats.admitted);
    metrics_begin(page, "would_deny_total", "counter",
                  "Calls that a stage in shadow would have refused.");
    for (int i = 0; i < 2; i++)
        for (int r = TG_REASON_NONE + 1; r < TG_REASON_COUNT; r++)
            metrics_line(page, "would_deny_total",
                         &(struct metrics_labels){{{"gate", looks[i].name},
                                                   {"reason", tg_reason_name((enum tg_reason)r)}}},
                         (int64_t)looks[i].stats.would_deny[r]);
    metrics_begin(page, "leases_expired_total", "counter", "Leases that ended by their time.");
    for (int i = 0; i < 2; i++)
        metrics_line(page, "leases_expired_total",
                     &(struct metrics_labels){{{"gate", looks[i].name}}},
                     (int64_t)looks[i].stats.expired);
}

/* ---- routes ---- */

static int64_t queued_of(const struct tg_gate_stats *stats)
{
    int64_t sum = 0;

    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        sum += stats->queued[p];
    return sum;
}

static int64_t limit_of(const struct tg_gate_stats *stats)
{
    return stats->limit;
}

static int64_t in_flight_of(const struct tg_gate_stats *stats)
{
    return stats->in_flight;
}

static void write_routes(struct metrics_text *page, const struct generation *generation)
{
    static const struct {
        const char *name, *help;
        int64_t (*value)(const struct tg_gate_stats *stats);
    } metrics[] = {
        {"route_concurrency_limit", "Calls of a model that may run at once.", limit_of},
        {"route_in_flight", "Calls of a model that run.", in_flight_of},
        {"route_queued", "Calls that wait for a slot of a model.", queued_of},
    };

    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        metrics_begin(page, metrics[m].name, "gauge", metrics[m].help);
        for (size_t i = 0; i < generation->config.n_models; i++) {
            const struct route *route = &generation->routes[i];
            struct tg_gate_stats stats;
            tg_gate_get_stats(route->slots->gate, &stats);
            metrics_line(page, metrics[m].name,
                         &(struct metrics_labels){{{"provider", route->provider->config->name},
                                                   {"model", route->config->name}}},
                         metrics[m].value(&stats));
        }
    }
}

/* ---- keys ---- */

static int64_t seconds_until(tg_ms at, tg_ms now)
{
    return at > now ? (at - now + 999) / 1000 : 0;
}

static int64_t key_tokens(const struct tg_key_metrics *key, tg_ms now)
{
    (void)now;
    return key->tpm_inflight;
}

static int64_t key_in_flight(const struct tg_key_metrics *key, tg_ms now)
{
    (void)now;
    return key->in_flight;
}

static int64_t key_rpm(const struct tg_key_metrics *key, tg_ms now)
{
    (void)now;
    return key->rpm_remaining;
}

static int64_t key_tpm(const struct tg_key_metrics *key, tg_ms now)
{
    (void)now;
    return key->tpm_remaining;
}

static int64_t key_cooldown(const struct tg_key_metrics *key, tg_ms now)
{
    return seconds_until(key->cool_down_until, now);
}

static int64_t key_breaker(const struct tg_key_metrics *key, tg_ms now)
{
    (void)now;
    return key->breaker != TG_BREAKER_CLOSED;
}

static int64_t key_healthy(const struct tg_key_metrics *key, tg_ms now)
{
    (void)now;
    return key->state == TG_KEY_HEALTHY;
}

static int64_t key_suspended(const struct tg_key_metrics *key, tg_ms now)
{
    (void)now;
    return key->state == TG_KEY_SUSPENDED;
}

static int64_t key_disabled(const struct tg_key_metrics *key, tg_ms now)
{
    (void)now;
    return key->state == TG_KEY_DISABLED;
}

struct key_metric {
    const char *name, *help; /* help null: the lines go on */
    const char *state;       /* a further label; null: none */
    int64_t (*value)(const struct tg_key_metrics *key, tg_ms now);
};

static void write_pool(struct metrics_text *page, const struct key_metric *metric,
                       const struct route *route, tg_ms now)
{
    struct tg_key_metrics keys[KEYS_AT_ONCE];
    size_t n, from = 0;

    while ((n = tg_pool_get_keys(route->pool, now, from, keys, KEYS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < n; i++)
            metrics_line(page, metric->name,
                         &(struct metrics_labels){{{"provider", route->provider->config->name},
                                                   {"model", route->config->name},
                                                   {"key", keys[i].name},
                                                   {"state", metric->state}}},
                         metric->value(&keys[i], now));
        from += n;
    }
}

static void write_keys(struct metrics_text *page, const struct generation *generation, tg_ms now)
{
    static const struct key_metric metrics[] = {
        {"key_state", "1 for the state that a provider's key is in.", "healthy", key_healthy},
        {"key_state", NULL, "suspended", key_suspended},
        {"key_state", NULL, "disabled", key_disabled},
        {"key_in_flight", "Calls that hold a key.", NULL, key_in_flight},
        {"key_inflight_tokens", "Tokens of the calls that hold a key.", NULL, key_tokens},
        {"key_rpm_remaining", "Calls that a key has left in this minute.", NULL, key_rpm},
        {"key_tpm_remaining", "Tokens that a key has left in this minute.", NULL, key_tpm},
        {"key_cooldown_seconds", "How long a key still rests after a 429.", NULL, key_cooldown},
        {"key_breaker_open", "Whether failures keep a key out.", NULL, key_breaker},
    };

    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        if (metrics[m].help)
            metrics_begin(page, metrics[m].name, "gauge", metrics[m].help);
        for (size_t i = 0; i < generation->config.n_models; i++)
            write_pool(page, &metrics[m], &generation->routes[i], now);
    }
}

/* ---- money ---- */

static int64_t budget_limit(const struct tg_budget_metrics *budget)
{
    return budget->amount;
}

static int64_t budget_used(const struct tg_budget_metrics *budget)
{
    return budget->settled;
}

static int64_t budget_reserved(const struct tg_budget_metrics *budget)
{
    return budget->outstanding;
}

struct budget_metric {
    const char *name, *help;
    int64_t (*value)(const struct tg_budget_metrics *budget);
};

static void write_account(struct metrics_text *page, const struct budget_metric *metric,
                          struct gateway *gateway, const struct generation *generation,
                          size_t tenant, tg_ms now)
{
    struct spending *spending = gateway->spending;
    struct tg_budget_metrics budgets[TG_BUDGETS_MAX];
    size_t n = tg_bank_get_budgets(
        spending_bank(spending),
        spending_account(spending,
                         tenant != SPENDING_TOP ? generation->config.tenants[tenant].name : NULL,
                         tenant),
        now, budgets);

    for (size_t i = 0; i < n; i++) {
        char number[24];
        struct metrics_labels labels = {
            {{"tenant", tenant != SPENDING_TOP ? generation->config.tenants[tenant].name : NULL},
             {"per", tg_per_name(budgets[i].per)},
             {"budget", number}}};
        snprintf(number, sizeof number, "%zu", i); /* one tenant may have two for each day */
        metrics_line(page, metric->name, &labels, metric->value(&budgets[i]));
    }
}

static void write_budgets(struct metrics_text *page, struct gateway *gateway,
                          const struct generation *generation, tg_ms now)
{
    static const struct budget_metric metrics[] = {
        {"budget_limit_micro_usd", "What a budget allows; without a tenant: of everyone.",
         budget_limit},
        {"budget_used_micro_usd", "What calls that have ended cost.", budget_used},
        {"budget_reserved_micro_usd", "What calls that run may cost.", budget_reserved},
    };

    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        metrics_begin(page, metrics[m].name, "gauge", metrics[m].help);
        write_account(page, &metrics[m], gateway, generation, SPENDING_TOP, now);
        for (size_t i = 0; i < generation->config.n_tenants; i++)
            write_account(page, &metrics[m], gateway, generation, i, now);
    }
}

static void write_ledger(struct metrics_text *page, struct gateway *gateway)
{
    static const char *const HEALTH[] = {"well", "late", "full"};
    struct spending_stats spending;
    struct ledger_state state;

    spending_get_stats(gateway->spending, &spending);
    metrics_single(page, "ledger_lost_total", "counter", "Calls whose cost could not be recorded.",
                   (int64_t)spending.lost);
    if (gateway->ledger == NULL)
        return;
    ledger_get_state(gateway->ledger, &state);
    metrics_begin(page, "ledger_state", "gauge", "1 for the state that the ledger is in.");
    for (int i = 0; i < 3; i++)
        metrics_line(page, "ledger_state", &(struct metrics_labels){{{"state", HEALTH[i]}}},
                     (int)state.health == i);
    metrics_single(page, "ledger_waiting", "gauge", "Entries on their way to the database.",
                   (int64_t)state.waiting);
    metrics_single(page, "ledger_room", "gauge", "Entries that can still be promised a place.",
                   (int64_t)state.room);
}

void metrics_page_write(struct metrics_text *page, struct gateway *gateway,
                        const struct generation *generation, tg_ms now)
{
    metrics_begin(page, "build_info", "gauge", "The version that runs.");
    metrics_line(page, "build_info", &(struct metrics_labels){{{"version", tg_version()}}}, 1);
    write_counts(page, gateway);
    write_gates(page, gateway);
    write_routes(page, generation);
    write_keys(page, generation, now);
    write_budgets(page, gateway, generation, now);
    write_ledger(page, gateway);
}
