/* fleet_snapshot.c - the members of a snapshot, and how those of several gateways are joined. See
 * fleet_snapshot.h. */
#include "server/fleet/fleet_snapshot.h"

#include <string.h>

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A member; one with members of its own; a state, the worst last; the end of a list. */
#define IS(member, rule)                                                                           \
    {                                                                                              \
        .name = #member, .how = MERGE_##rule                                                       \
    }
#define HAS(member, list)                                                                          \
    {                                                                                              \
        .name = #member, .how = MERGE_OBJECT, .inside = list                                       \
    }
#define STATE(member, ...)                                                                         \
    {                                                                                              \
        .name = #member, .how = MERGE_WORST, .words = WORDS(__VA_ARGS__)                           \
    }
#define END                                                                                        \
    {                                                                                              \
        .name = NULL                                                                               \
    }
#define ROWS(member, list, ...)                                                                    \
    .name = #member, .how = MERGE_ROWS, .inside = list, .words = WORDS(__VA_ARGS__)

/* ---- The order of rows: as in a gateway's own ---- */

static int by_number(double a, double b)
{
    return (a < b) - (a > b);
}

static int by_text(const struct merge_node *a, const struct merge_node *b, const char *name)
{
    const char *left = merge_text(a, name), *right = merge_text(b, name);

    return strcmp(left != NULL ? left : "", right != NULL ? right : "");
}

static int busiest_first(const struct merge_node *a, const struct merge_node *b)
{
    int said = by_number(merge_real(a, "in_flight", 0), merge_real(b, "in_flight", 0));

    said = said != 0 ? said : by_text(a, b, "model");
    return said != 0 ? said : by_text(a, b, "provider");
}

/* The one that all calls pass comes first. */
static int gate_all_first(const struct merge_node *a, const struct merge_node *b)
{
    const char *left = merge_text(a, "name"), *right = merge_text(b, "name");
    int all =
        (right != NULL && strcmp(right, "all") == 0) - (left != NULL && strcmp(left, "all") == 0);

    return all != 0 ? all : by_text(a, b, "name");
}

/* Everyone's first, as in a gateway's own. */
static int fullest_first(const struct merge_node *a, const struct merge_node *b)
{
    int everyone = (merge_text(b, "tenant") == NULL) - (merge_text(a, "tenant") == NULL);

    if (everyone != 0)
        return everyone;
    return by_number(merge_real(a, "used_ratio", 0), merge_real(b, "used_ratio", 0));
}

static int most_calls_first(const struct merge_node *a, const struct merge_node *b)
{
    int said = by_number(merge_real(a, "calls_per_s", 0), merge_real(b, "calls_per_s", 0));

    return said != 0 ? said : by_number(merge_real(a, "calls", 0), merge_real(b, "calls", 0));
}

static int newest_first(const struct merge_node *a, const struct merge_node *b)
{
    return by_number(merge_real(a, "at", 0), merge_real(b, "at", 0));
}

/* ---- Parts ---- */

static const struct merge_rule queued[] = {IS(high, SUM), IS(normal, SUM), IS(low, SUM), END};

static const struct merge_rule window[] = {IS(limit, MOST), IS(used, SUM), END};

static const struct merge_rule last_reload[] = {IS(at, MOST), IS(ok, EVERY), IS(why, ONE),
                                                IS(errors, MOST), END};

static const struct merge_rule config[] = {IS(generation, SAME), IS(hash, SAME),
                                           IS(loaded_at, MOST), HAS(last_reload, last_reload), END};

static const struct merge_rule counters[] = {IS(calls, SUM),
                                             IS(admitted, SUM),
                                             IS(refused, SUM),
                                             IS(refused_by_reason, TALLY),
                                             IS(would_deny_by_reason, TALLY),
                                             IS(retries, SUM),
                                             IS(fallbacks, SUM),
                                             IS(hangups, SUM),
                                             IS(usage_missing, SUM),
                                             END};

static const struct merge_rule rates[] = {IS(calls, SUM), IS(admitted, SUM), IS(refused, SUM),
                                          IS(refused_by_reason, TALLY), END};

/* A tenant is a peer at each gateway that it calls: the most at one of them is said, not a sum. */
static const struct merge_rule gates[] = {IS(name, SAME),
                                          IS(law, SAME),
                                          IS(mode, SAME),
                                          IS(limit, SUM_ALL),
                                          IS(in_flight, SUM),
                                          HAS(queued, queued),
                                          IS(peers, MOST),
                                          IS(admitted, SUM),
                                          IS(refused_by_reason, TALLY),
                                          IS(expired, SUM),
                                          END};

static const struct merge_rule routes[] = {IS(model, SAME),     IS(provider, SAME),
                                           IS(law, SAME),       IS(mode, SAME),
                                           IS(limit, SUM_ALL),  IS(in_flight, SUM),
                                           HAS(queued, queued), IS(first_byte_ms, MEAN),
                                           IS(hold_s, MEAN),    IS(overbook, MEAN),
                                           IS(keys, MOST),      IS(keys_ready, LEAST),
                                           IS(rules, TEXTS),    END};

/* Each gateway's ring counts what went through it: all of them together, what the provider saw. */
static const struct merge_rule keys[] = {
    IS(provider, SAME),
    IS(model, SAME),
    IS(name, SAME),
    IS(group, SAME),
    STATE(status, "ready", "full", "probing", "cooling", "broken", "suspended", "disabled"),
    {.name = "statuses", .how = MERGE_COUNTED, .from = "status"},
    STATE(state, "healthy", "suspended", "disabled"),
    IS(cooldown_until, MOST),
    STATE(breaker, "closed", "half_open", "open"),
    IS(breaker_until, MOST),
    IS(failures, MOST),
    HAS(rpm, window),
    HAS(tpm, window),
    IS(in_flight, SUM),
    IS(tokens_in_flight, SUM),
    IS(latency_ms, MEAN),
    END};

/* The last two, and the ratio, are put in when the store has said what all have spent. */
static const struct merge_rule budgets[] = {IS(tenant, SAME),        IS(key, SAME),
                                            IS(per, SAME),           IS(mode, SAME),
                                            IS(reserve, SAME),       IS(limit_micro_usd, LEAST),
                                            IS(used_micro_usd, SUM), IS(reserved_micro_usd, SUM),
                                            IS(used_ratio, MOST),    IS(begins_at, SAME),
                                            IS(reset_at, SAME),      IS(held_micro_usd, SUM),
                                            IS(left_micro_usd, SUM), END};

static const struct merge_rule tenants[] = {IS(name, SAME),
                                            IS(calls, SUM),
                                            IS(refused, SUM),
                                            IS(calls_per_s, SUM),
                                            IS(refused_per_s, SUM),
                                            IS(rules, TEXTS),
                                            END};

static const struct merge_rule denials[] = {IS(at, SAME),
                                            IS(id, SAME),
                                            IS(gateway, SOURCE),
                                            IS(tenant, SAME),
                                            IS(model, SAME),
                                            IS(user, SAME),
                                            IS(max_tokens, SAME),
                                            IS(prompt_bytes, SAME),
                                            IS(reason, SAME),
                                            IS(axis, SAME),
                                            IS(retry_after_ms, SAME),
                                            IS(limit_of, SAME),
                                            IS(limit_rule, SAME),
                                            IS(limit, SAME),
                                            IS(remaining, SAME),
                                            IS(text, SAME),
                                            END};

static const struct merge_rule memory[] = {
    IS(used_ratio, MOST), IS(process_bytes, SUM), IS(buffered_bytes, SUM),
    STATE(state, "off", "ok", "unknown", "pressure", "critical", "limit"), END};

static const struct merge_rule store[] = {IS(kind, SAME),
                                          STATE(state, "ok", "degraded", "down"),
                                          IS(keys, SUM),
                                          IS(memory_bytes, SUM),
                                          IS(forgotten, SUM),
                                          IS(refused, SUM),
                                          END};

static const struct merge_rule ledger[] = {STATE(state, "well", "late", "full"),
                                           IS(reason, ONE),
                                           IS(waiting, SUM),
                                           IS(room, LEAST),
                                           IS(lost, SUM),
                                           IS(uncertain_micro_usd, SUM),
                                           IS(interrupted, SUM),
                                           IS(interrupted_micro_usd, SUM),
                                           END};

static const struct merge_rule prices[] = {IS(rate, MEAN),
                                           IS(cost, MEAN),
                                           IS(concurrency, MEAN),
                                           IS(guarded, SUM),
                                           IS(earned, SUM),
                                           IS(without_policy, SUM),
                                           END};

/* ---- The whole ---- */

const struct merge_rule fleet_snapshot_rules[] = {
    IS(version, ONE),
    IS(now, MOST),
    IS(started_at, LEAST),
    IS(uptime_ms, MOST),
    IS(ready, EVERY),
    IS(unready_reason, ONE),
    IS(draining, EVERY),
    HAS(config, config),
    HAS(counters, counters),
    HAS(rates, rates),
    {ROWS(gates, gates, "name"), .order = gate_all_first},
    {ROWS(routes, routes, "model", "provider"), .most = FLEET_ROUTES_MAX, .cut = "routes_truncated",
     .order = busiest_first},
    IS(routes_truncated, ANY),
    {ROWS(keys, keys, "provider", "model", "name"), .most = FLEET_KEYS_MAX,
     .cut = "keys_truncated"},
    IS(keys_truncated, ANY),
    {ROWS(budgets, budgets, "tenant", "key", "per", "begins_at", "reset_at"),
     .most = FLEET_BUDGETS_MAX, .cut = "budgets_truncated", .order = fullest_first},
    IS(budgets_truncated, ANY),
    {ROWS(tenants, tenants, "name"), .most = FLEET_TENANTS_MAX, .order = most_calls_first},
    IS(tenants_truncated, ANY),
    IS(tenants_total, MOST),
    {ROWS(denials, denials, "id", "at", "gateway"), .most = FLEET_DENIALS_MAX,
     .order = newest_first},
    IS(denials_dropped, SUM),
    HAS(memory, memory),
    IS(connections, SUM),
    HAS(store, store),
    HAS(ledger, ledger),
    HAS(prices, prices),
    END};

static const struct merge_rule gateway_config[] = {IS(generation, SAME), IS(hash, SAME), END};
static const struct merge_rule gateway_store[] = {STATE(state, "ok", "degraded", "down"), END};
static const struct merge_rule gateway_sums[] = {IS(calls, SUM), IS(admitted, SUM),
                                                 IS(refused, SUM), END};

static const struct merge_rule gateway_gates[] = {IS(name, SAME), IS(limit, SUM_ALL),
                                                  IS(in_flight, SUM), HAS(queued, queued), END};

/* Two processes of a gateway are merged here, while one takes over from the other. */
const struct merge_rule fleet_gateway_rules[] = {
    IS(started_at, LEAST),
    IS(uptime_ms, MOST),
    IS(ready, EVERY),
    IS(unready_reason, ONE),
    IS(draining, EVERY),
    HAS(config, gateway_config),
    HAS(store, gateway_store),
    HAS(counters, gateway_sums),
    HAS(rates, gateway_sums),
    {ROWS(gates, gateway_gates, "name"), .most = 1, .order = gate_all_first},
    END};
