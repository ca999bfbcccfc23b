/* snapshot_lists.c - the lists of a snapshot: routes, keys, budgets, tenants. See snapshot.h.
 *
 * Each is cut to what matters most before it is written: a page that shows forty rows must not cost
 * ten thousand.
 */
#include <stdlib.h>
#include <string.h>

#include "server/admin/admin_internal.h"
#include "server/admin/snapshot_internal.h"
#include "server/explain/explain.h"
#include "server/remote/remote.h"

enum { KEYS_AT_ONCE = 64 };

/* ---- routes ---- */

/* All routes, those of models that are not listed too; null after the last. */
static const struct route *snapshot_route(const struct generation *generation, size_t number)
{
    size_t listed = generation->config.n_models;

    if (number < listed)
        return &generation->routes[number];
    for (size_t i = 0; i < 2; i++)
        if (generation->unknown[i].provider != NULL && number-- == listed)
            return &generation->unknown[i];
    return NULL;
}

struct route_view {
    const struct route *route;
    size_t number;
    struct tg_gate_stats stats;
};

static int64_t busy(const struct route_view *view)
{
    int64_t sum = view->stats.in_flight;

    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        sum += view->stats.queued[p];
    return sum;
}

static int busiest_first(const void *a, const void *b)
{
    const struct route_view *x = a, *y = b;

    if (busy(x) != busy(y))
        return busy(x) > busy(y) ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

struct pool_view {
    size_t keys, ready, timed;
    double latency_ms; /* sum of the latencies of all keys that have one */
};

static void view_pool(struct tg_pool *pool, tg_ms now, struct pool_view *view)
{
    struct tg_key_metrics keys[KEYS_AT_ONCE];
    size_t n;

    *view = (struct pool_view){0};
    while (pool != NULL && (n = tg_pool_get_keys(pool, now, view->keys, keys, KEYS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < n; i++) {
            view->ready += strcmp(explain_key_status(&keys[i]), "ready") == 0;
            view->timed += keys[i].latency_ms > 0;
            view->latency_ms += keys[i].latency_ms;
        }
        view->keys += n;
    }
}

static void write_route(struct json_writer *out, const struct route_view *view, tg_ms now)
{
    const struct route *route = view->route;
    double hold_s = atomic_load_explicit(&route->hold_s, memory_order_relaxed);
    struct tg_law_metrics law;
    struct pool_view pool;

    tg_gate_get_law(route->slots->gate, &law);
    view_pool(route->pool, now, &pool);
    json_write_object(out);
    json_member_text(out, "model", route->config->name);
    json_member_text(out, "provider", route->provider->config->name);
    json_member_text(out, "law", tg_law_name(law.law));
    json_member_text(out, "mode",
                     route->config->concurrency.mode == CONFIG_SHADOW ? "shadow" : "enforce");
    json_member_unless(out, "limit", view->stats.limit, TG_NUMBER_MAX);
    json_member_number(out, "in_flight", view->stats.in_flight);
    snapshot_write_queued(out, &view->stats);
    if (pool.timed > 0)
        json_member_real(out, "first_byte_ms", pool.latency_ms / (double)pool.timed);
    else
        json_member_null(out, "first_byte_ms");
    if (hold_s > 0)
        json_member_real(out, "hold_s", hold_s);
    else
        json_member_null(out, "hold_s");
    json_member_real(out, "overbook", route->charged);
    json_member_number(out, "keys", (int64_t)pool.keys);
    json_member_number(out, "keys_ready", (int64_t)pool.ready);
    explain_write_rules(out, &route->config->rules);
    json_write_object_end(out);
}

void snapshot_write_routes(struct json_writer *out, const struct generation *generation, tg_ms now,
                           size_t most)
{
    struct route_view *views = calloc(generation->config.n_models + 2, sizeof *views);
    const struct route *route;
    size_t n = 0;

    for (; views != NULL && (route = snapshot_route(generation, n)) != NULL; n++) {
        views[n].route = route;
        views[n].number = n;
        tg_gate_get_stats(route->slots->gate, &views[n].stats);
    }
    if (n > 1)
        qsort(views, n, sizeof *views, busiest_first);
    json_write_key(out, "routes");
    json_write_array(out);
    for (size_t i = 0; i < n && i < most; i++)
        write_route(out, &views[i], now);
    json_write_array_end(out);
    json_member_flag(out, "routes_truncated", n > most);
    free(views);
}

/* ---- keys ---- */

static void write_window(struct json_writer *out, const char *name, int64_t limit, int64_t left)
{
    json_write_key(out, name);
    json_write_object(out);
    json_member_unless(out, "limit", limit, 0);
    json_member_unless(out, "used", limit == 0 ? -1 : limit - left, -1);
    json_write_object_end(out);
}

static tg_ms wall_or_none(const struct clock *clock, tg_ms at)
{
    return at > 0 ? clock_wall_of(clock, at) : 0;
}

static void write_key(struct json_writer *out, const struct route *route,
                      const struct tg_key_metrics *key, const struct clock *clock)
{
    static const char *const STATE[] = {[TG_KEY_HEALTHY] = "healthy",
                                        [TG_KEY_SUSPENDED] = "suspended",
                                        [TG_KEY_DISABLED] = "disabled"};
    static const char *const BREAKER[] = {[TG_BREAKER_CLOSED] = "closed",
                                          [TG_BREAKER_OPEN] = "open",
                                          [TG_BREAKER_HALF_OPEN] = "half_open"};

    json_write_object(out);
    json_member_text(out, "provider", route->provider->config->name);
    json_member_text(out, "model", route->config->name);
    json_member_text(out, "name", key->name);
    json_member_text(out, "group", key->group);
    json_member_text(out, "status", explain_key_status(key));
    json_member_text(out, "state", STATE[key->state]);
    json_member_unless(out, "cooldown_until", wall_or_none(clock, key->cool_down_until), 0);
    json_member_text(out, "breaker", BREAKER[key->breaker]);
    json_member_unless(out, "breaker_until", wall_or_none(clock, key->failure_cool_down), 0);
    json_member_number(out, "failures", key->consecutive_fails);
    write_window(out, "rpm", key->rpm_limit, key->rpm_remaining);
    write_window(out, "tpm", key->tpm_limit, key->tpm_remaining);
    json_member_number(out, "in_flight", key->in_flight);
    json_member_number(out, "tokens_in_flight", key->tpm_inflight);
    if (key->latency_ms > 0)
        json_member_real(out, "latency_ms", key->latency_ms);
    else
        json_member_null(out, "latency_ms");
    json_write_object_end(out);
}

/* How many keys there are beyond `written` is not looked for: that there is one more is enough. */
void snapshot_write_keys(struct json_writer *out, const struct generation *generation, tg_ms now,
                         size_t most)
{
    struct tg_key_metrics keys[KEYS_AT_ONCE];
    const struct route *route;
    size_t written = 0, n, from;
    bool more = false;

    pthread_mutex_lock(&generation->gateway->ring_changes);
    json_write_key(out, "keys");
    json_write_array(out);
    for (size_t r = 0; !more && (route = snapshot_route(generation, r)) != NULL; r++)
        for (from = 0; !more && route->pool != NULL &&
                       (n = tg_pool_get_keys(route->pool, now, from, keys, KEYS_AT_ONCE)) > 0;
             from += n)
            for (size_t i = 0; i < n && !more; i++) {
                more = written == most;
                if (!more)
                    write_key(out, route, &keys[i], &generation->gateway->clock);
                written++;
            }
    json_write_array_end(out);
    pthread_mutex_unlock(&generation->gateway->ring_changes);
    json_member_flag(out, "keys_truncated", more);
}

/* ---- budgets ---- */

struct budget_view {
    const char *tenant, *key;
    enum config_reserve reserve;
    double ratio;
    struct tg_budget_metrics budget;
};

/* The fullest of those seen, in order. */
struct budget_list {
    struct budget_view list[SNAPSHOT_BUDGETS_MAX];
    size_t n, seen, most;
};

static void keep_budget(struct budget_list *all, const struct budget_view *view)
{
    size_t at = all->n;

    all->seen++;
    if (all->n == all->most && (at == 0 || view->ratio <= all->list[at - 1].ratio))
        return;
    if (all->n < all->most)
        all->n++;
    else
        at--;
    for (; at > 0 && all->list[at - 1].ratio < view->ratio; at--)
        all->list[at] = all->list[at - 1];
    all->list[at] = *view;
}

enum config_reserve snapshot_reserve(const struct config_budget *budgets, size_t n, size_t i)
{
    return i < n ? budgets[i].reserve : CONFIG_RESERVE_BOUND;
}

void snapshot_write_budget(struct json_writer *out, const char *tenant, const char *key,
                           enum config_reserve reserve, const struct tg_budget_metrics *budget)
{
    json_write_object(out);
    json_member_text(out, "tenant", tenant);
    json_member_text(out, "key", key);
    json_member_text(out, "per", tg_per_name(budget->per));
    json_member_text(out, "mode", explain_mode_name(budget->mode));
    json_member_text(out, "reserve", reserve == CONFIG_RESERVE_EXPECTED ? "expected" : "bound");
    json_member_number(out, "limit_micro_usd", budget->amount);
    json_member_number(out, "used_micro_usd", budget->settled);
    json_member_number(out, "reserved_micro_usd", budget->outstanding);
    json_member_real(out, "used_ratio", spending_used_ratio(budget));
    json_member_unless(out, "begins_at", budget->begin, 0);
    json_member_unless(out, "reset_at", budget->end, TG_NUMBER_MAX);
    json_write_object_end(out);
}

size_t snapshot_read_account(struct spending *spending, const char *tenant, const char *key,
                             size_t hint, tg_ms now,
                             struct tg_budget_metrics budgets[TG_BUDGETS_MAX])
{
    const struct spending_call of = {.tenant = tenant, .hint = hint, .key = key};
    tg_account account =
        key != NULL ? spending_open(spending, &of, now) : spending_account(spending, tenant, hint);

    if (account == 0)
        return 0;
    return tg_bank_get_budgets(spending_bank(spending), account, spending_time(spending, now),
                               budgets);
}

const char *snapshot_root(const struct config *config, const struct config_tenant *tenant)
{
    while (tenant->parent != CONFIG_NO_PARENT)
        tenant = &config->tenants[tenant->parent];
    return tenant->name;
}

/* The order is by what all gateways have used, as far as this one knows: what each has used of a
 * budget may be little where all of it is gone. */
static double order_of(const struct gateway *gateway, const struct config *config,
                       const struct config_tenant *tenant, const char *key,
                       const struct tg_budget_metrics *budget)
{
    double own = spending_used_ratio(budget);

    if (gateway->remote == NULL || budget->amount <= 0)
        return own;
    double all =
        (double)remote_money_used(gateway->remote->money, tenant->name, key,
                                  snapshot_root(config, tenant), budget->begin, budget->end) /
        (double)budget->amount;
    return all > own ? all : own;
}

/* Those of a tenant (`key` null), or of a key of it. */
static void keep_account(struct budget_list *all, struct gateway *gateway,
                         const struct config *config, const struct config_tenant *tenant,
                         const char *key, const struct config_budget *configured,
                         size_t n_configured, tg_ms now)
{
    struct tg_budget_metrics budgets[TG_BUDGETS_MAX];
    size_t n = n_configured > 0
                   ? snapshot_read_account(gateway->spending, tenant->name, key,
                                           (size_t)(tenant - config->tenants), now, budgets)
                   : 0;

    for (size_t i = 0; i < n; i++)
        keep_budget(all, &(struct budget_view){
                             tenant->name, key, snapshot_reserve(configured, n_configured, i),
                             order_of(gateway, config, tenant, key, &budgets[i]), budgets[i]});
}

void snapshot_write_budgets(struct json_writer *out, struct gateway *gateway,
                            const struct generation *generation, tg_ms now, size_t most)
{
    const struct config *config = &generation->config;
    struct tg_budget_metrics budgets[TG_BUDGETS_MAX];
    struct budget_list *all = calloc(1, sizeof *all);

    if (all != NULL)
        all->most = most < SNAPSHOT_BUDGETS_MAX ? most : SNAPSHOT_BUDGETS_MAX;
    json_write_key(out, "budgets");
    json_write_array(out);
    size_t top = snapshot_read_account(gateway->spending, NULL, NULL, SPENDING_TOP, now, budgets);
    for (size_t i = 0; i < top; i++)
        snapshot_write_budget(out, NULL, NULL,
                              snapshot_reserve(config->budgets, config->n_budgets, i), &budgets[i]);
    for (size_t t = 0; all != NULL && t < config->n_tenants; t++) {
        const struct config_tenant *tenant = &config->tenants[t];
        keep_account(all, gateway, config, tenant, NULL, tenant->budgets, tenant->n_budgets, now);
        for (size_t k = 0; k < tenant->n_keys; k++) {
            const struct config_key *key = &tenant->keys[k];
            if (key->first == k) /* the others of its name have the same */
                keep_account(all, gateway, config, tenant, key->name, key->own.budgets,
                             key->own.n_budgets, now);
        }
    }
    for (size_t i = 0; all != NULL && i < all->n; i++)
        snapshot_write_budget(out, all->list[i].tenant, all->list[i].key, all->list[i].reserve,
                              &all->list[i].budget);
    json_write_array_end(out);
    json_member_flag(out, "budgets_truncated", all == NULL || all->seen > all->n);
    free(all);
}

/* ---- tenants ---- */

struct tenant_view {
    const struct metrics_tenant *now;
    uint64_t requests, refused; /* since the sample before */
};

static int most_first(const void *a, const void *b)
{
    const struct tenant_view *x = a, *y = b;

    if (x->requests != y->requests)
        return x->requests > y->requests ? -1 : 1;
    if (x->now->requests != y->now->requests)
        return x->now->requests > y->now->requests ? -1 : 1;
    return strcmp(x->now->name, y->now->name);
}

/* Names are the metrics' own: the same pointer is the same tenant. */
static struct tenant_view view_tenant(const struct metrics_tenant *now,
                                      const struct snapshot_counts *before)
{
    struct tenant_view view = {now, now->requests, now->refused};

    for (size_t i = 0; i < before->n_tenants; i++)
        if (before->tenants[i].name == now->name) {
            view.requests -= before->tenants[i].requests;
            view.refused -= before->tenants[i].refused;
            break;
        }
    return view;
}

/* A tenant that was in a configuration before has none. */
static void write_tenant_rules(struct json_writer *out, const struct config *config,
                               const char *name)
{
    static const struct field_rules none = {.n = 0};
    const struct config_tenant *tenant = config_tenant(config, name, strlen(name));

    explain_write_rules(out, tenant != NULL ? &tenant->rules : &none);
}

void snapshot_write_tenants(struct json_writer *out, const struct snapshot_memory *memory,
                            const struct generation *generation, size_t most)
{
    const struct snapshot_counts *now = &memory->counts[memory->newest];
    const struct snapshot_counts *before = &memory->counts[1 - memory->newest];
    double seconds = now->at > before->at ? (double)(now->at - before->at) / 1000 : 1;
    struct tenant_view *views = calloc(now->n_tenants + 1, sizeof *views);
    size_t n = 0;

    for (size_t i = 0; views != NULL && i < now->n_tenants; i++)
        if (*now->tenants[i].name != '\0')
            views[n++] = view_tenant(&now->tenants[i], before);
    if (n > 1)
        qsort(views, n, sizeof *views, most_first);
    json_write_key(out, "tenants");
    json_write_array(out);
    for (size_t i = 0; i < n && i < most; i++) {
        json_write_object(out);
        json_member_text(out, "name", views[i].now->name);
        json_member_number(out, "calls", (int64_t)views[i].now->requests);
        json_member_number(out, "refused", (int64_t)views[i].now->refused);
        json_member_real(out, "calls_per_s", (double)views[i].requests / seconds);
        json_member_real(out, "refused_per_s", (double)views[i].refused / seconds);
        write_tenant_rules(out, &generation->config, views[i].now->name);
        json_write_object_end(out);
    }
    json_write_array_end(out);
    json_member_flag(out, "tenants_truncated", n > most);
    free(views);
}
