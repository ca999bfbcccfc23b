/* metrics_keys.c - routes and keys on the page of metrics.
 *
 * Keys are looked at once and written by metric, because the format wants all lines of a metric
 * together. Their names belong to the ring: so it must not change meanwhile (gateway.h).
 */
#include <stdlib.h>

#include "server/probe/metrics_page_internal.h"

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

static struct expose_labels of_route(const struct route *route)
{
    return (struct expose_labels){
        {{"provider", route->provider->config->name}, {"model", route->config->name}}};
}

static size_t routes_on_page(const struct generation *generation)
{
    size_t n = generation->config.n_models;

    return n < METRICS_ROUTES_MAX ? n : METRICS_ROUTES_MAX;
}

static void write_slots(struct exposition *text, const struct generation *generation)
{
    static const struct {
        const char *name, *help;
        int64_t (*value)(const struct tg_gate_stats *stats);
    } metrics[] = {
        {"tollgate_route_concurrency_limit", "Calls of a model that may run at once.", limit_of},
        {"tollgate_route_in_flight", "Calls of a model that run.", in_flight_of},
        {"tollgate_route_queued", "Calls that wait for a slot of a model.", queued_of},
    };

    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        expose_begin(text, metrics[m].name, "gauge", metrics[m].help);
        for (size_t i = 0; i < routes_on_page(generation); i++) {
            struct expose_labels labels = of_route(&generation->routes[i]);
            struct tg_gate_stats stats;
            tg_gate_get_stats(generation->routes[i].slots->gate, &stats);
            expose_line(text, &labels, metrics[m].value(&stats));
        }
    }
}

static void write_pools(struct exposition *text, const struct generation *generation)
{
    expose_begin(text, "tollgate_pool_acquire_total", "counter",
                 "Keys that were asked for, by whether there was one.");
    for (size_t i = 0; i < routes_on_page(generation); i++) {
        const struct route *route = &generation->routes[i];
        struct expose_labels labels = of_route(route);
        struct tg_pool_metrics pool;
        tg_pool_get_metrics(route->pool, &pool);
        labels.list[2].name = "result";
        labels.list[2].value = "ok";
        expose_line(text, &labels, (int64_t)pool.acquired);
        labels.list[2].value = "no_key";
        expose_line(text, &labels, (int64_t)pool.no_key);
    }
    expose_begin(text, "tollgate_overbook_factor", "gauge",
                 "How many tokens are charged for each that is asked for.");
    for (size_t i = 0; i < routes_on_page(generation); i++) {
        struct expose_labels labels = of_route(&generation->routes[i]);
        expose_real(text, &labels, generation->routes[i].charged);
    }
}

void metrics_write_routes(struct exposition *text, const struct generation *generation,
                          struct metrics_left_out *left_out)
{
    write_slots(text, generation);
    write_pools(text, generation);
    left_out->routes = generation->config.n_models - routes_on_page(generation);
}

/* ---- keys ---- */

struct key_view {
    const struct route *route;
    struct tg_key_metrics key;
};

/* Looks at up to `room` keys, and says how many there are. */
static size_t view_keys(const struct generation *generation, tg_ms now, struct key_view *views,
                        size_t room)
{
    struct tg_key_metrics keys[64];
    size_t all = 0, n, from;

    for (size_t r = 0; r < generation->config.n_models; r++) {
        const struct route *route = &generation->routes[r];
        for (from = 0; (n = tg_pool_get_keys(route->pool, now, from, keys, 64)) > 0; from += n)
            for (size_t i = 0; i < n; i++, all++)
                if (all < room)
                    views[all] = (struct key_view){route, keys[i]};
    }
    return all;
}

static struct expose_labels of_key(const struct key_view *view, const char *name, const char *value)
{
    return (struct expose_labels){{{"provider", view->route->provider->config->name},
                                   {"model", view->route->config->name},
                                   {"key", view->key.name},
                                   {name, value}}};
}

/* Exactly one of them is the state of a key. */
static const char *const states[] = {"healthy", "cooling", "broken", "suspended", "disabled"};
enum { STATES = 5 };

static int state_of(const struct tg_key_metrics *key)
{
    if (key->state != TG_KEY_HEALTHY)
        return key->state == TG_KEY_DISABLED ? 4 : 3;
    if (key->breaker != TG_BREAKER_CLOSED)
        return 2;
    return key->cool_down_until > 0;
}

static void write_states(struct exposition *text, const struct key_view *views, size_t n)
{
    expose_begin(text, "tollgate_key_state", "gauge",
                 "1 for the state that a provider's key is in.");
    for (size_t i = 0; i < n; i++)
        for (int s = 0; s < STATES; s++) {
            struct expose_labels labels = of_key(&views[i], "state", states[s]);
            expose_line(text, &labels, state_of(&views[i].key) == s);
        }
}

static int64_t seconds_until(tg_ms at, tg_ms now)
{
    return at > now ? (at - now + 999) / 1000 : 0;
}

static void write_cooldowns(struct exposition *text, const struct key_view *views, size_t n,
                            tg_ms now)
{
    expose_begin(text, "tollgate_key_cooldown_seconds", "gauge",
                 "How long a key still rests: after a 429, or because its breaker is open.");
    for (size_t i = 0; i < n; i++) {
        struct expose_labels limited = of_key(&views[i], "kind", "limited");
        struct expose_labels breaker = of_key(&views[i], "kind", "breaker");
        expose_line(text, &limited, seconds_until(views[i].key.cool_down_until, now));
        expose_line(text, &breaker, seconds_until(views[i].key.failure_cool_down, now));
    }
}

static int64_t tokens_of(const struct tg_key_metrics *key)
{
    return key->tpm_inflight;
}

static int64_t calls_of(const struct tg_key_metrics *key)
{
    return key->in_flight;
}

static int64_t rpm_left_of(const struct tg_key_metrics *key)
{
    return key->rpm_remaining;
}

static int64_t tpm_left_of(const struct tg_key_metrics *key)
{
    return key->tpm_remaining;
}

static int64_t tpm_used_of(const struct tg_key_metrics *key)
{
    return key->tpm_limit > 0 ? key->tpm_limit - key->tpm_remaining : -1;
}

static int64_t failures_of(const struct tg_key_metrics *key)
{
    return key->consecutive_fails;
}

static int64_t breaker_of(const struct tg_key_metrics *key)
{
    return key->breaker != TG_BREAKER_CLOSED;
}

static void write_numbers(struct exposition *text, const struct key_view *views, size_t n)
{
    static const struct {
        const char *name, *help;
        int64_t (*value)(const struct tg_key_metrics *key); /* negative: it has none */
    } metrics[] = {
        {"tollgate_key_in_flight", "Calls that hold a key.", calls_of},
        {"tollgate_key_inflight_tokens", "Tokens of the calls that hold a key.", tokens_of},
        {"tollgate_key_rpm_remaining", "Calls that a key has left in this minute.", rpm_left_of},
        {"tollgate_key_tpm_remaining", "Tokens that a key has left in this minute.", tpm_left_of},
        {"tollgate_key_tpm_window_used", "Tokens of the last minute, of keys that have a limit.",
         tpm_used_of},
        {"tollgate_key_failures", "Attempts in a row that failed.", failures_of},
        {"tollgate_key_breaker_open", "Whether failures keep a key out.", breaker_of},
    };

    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        expose_begin(text, metrics[m].name, "gauge", metrics[m].help);
        for (size_t i = 0; i < n; i++) {
            struct expose_labels labels = of_key(&views[i], NULL, NULL);
            int64_t value = metrics[m].value(&views[i].key);
            if (value >= 0)
                expose_line(text, &labels, value);
        }
    }
}

void metrics_write_keys(struct exposition *text, struct gateway *gateway,
                        const struct generation *generation, tg_ms now,
                        struct metrics_left_out *left_out)
{
    struct key_view *views = calloc(METRICS_KEYS_MAX, sizeof *views);

    if (views == NULL) {
        text->out.failed = true;
        return;
    }
    pthread_mutex_lock(&gateway->ring_changes);
    size_t all = view_keys(generation, now, views, METRICS_KEYS_MAX);
    size_t n = all < METRICS_KEYS_MAX ? all : METRICS_KEYS_MAX;
    write_states(text, views, n);
    write_cooldowns(text, views, n, now);
    write_numbers(text, views, n);
    pthread_mutex_unlock(&gateway->ring_changes);
    left_out->keys = all - n;
    free(views);
}
