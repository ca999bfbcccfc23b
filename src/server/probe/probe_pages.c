/* probe_pages.c - /healthz, /readyz and /metrics. See probe_pages.h.
 *
 * They are made and answered within probe_pages_begin(): there is no state, and nothing to be told
 * afterwards.
 */
#include "server/probe/probe_pages.h"

#include <stdio.h>

#include "server/fleet/fleet_state.h"
#include "server/probe/metrics_page.h"
#include "server/runtime/control.h"

static void probe_pages_answer(struct http_inbound *in, int status, struct slice type,
                               struct slice body)
{
    struct http_field fields[] = {{SLICE("content-type"), type},
                                  {SLICE("cache-control"), SLICE("no-store")},
                                  {SLICE("allow"), SLICE("GET, HEAD")}};
    struct http_head head = {.status = status, .fields = fields, .n_fields = status == 405 ? 3 : 2};

    http_inbound_send(in, &head, body);
}

static void answer_text(struct http_inbound *in, int status, const char *text)
{
    char line[256];
    int n = snprintf(line, sizeof line, "%s\n", text);

    probe_pages_answer(in, status, SLICE("text/plain; charset=utf-8"),
                       (struct slice){line, (size_t)n});
}

/* How many tenants have a budget that nobody can ask: their calls are refused. */
static size_t tenants_unpaid(const struct gateway *gateway, const struct config *config)
{
    size_t n = 0;

    if (remote_health_of(gateway->remote) != REMOTE_DOWN ||
        config->store.budget != CONFIG_AWAY_CLOSED)
        return 0;
    for (size_t i = 0; i < config->n_tenants; i++)
        n += config->tenants[i].hard_budget;
    return n;
}

const char *probe_unready(const struct gateway *gateway, const struct config *config)
{
    struct ledger_state state;

    if (atomic_load_explicit(&gateway->draining, memory_order_relaxed))
        return "draining";
    if (gateway->fleet != NULL && atomic_load(&gateway->fleet_unread))
        return atomic_load(&gateway->fleet_evicts)
                   ? "the store may forget keys; set its maxmemory-policy to noeviction"
                   : "what the API made has not been read from the store yet";
    if (remote_health_of(gateway->remote) == REMOTE_DOWN &&
        config->store.limits == CONFIG_AWAY_CLOSED)
        return "the store is down, and limits are closed without it";
    if (tenants_unpaid(gateway, config) == config->n_tenants && config->n_tenants > 0)
        return "the store is down, and budgets are closed without it";
    if (gateway->ledger == NULL || config->ledger.failure == CONFIG_FAIL_OPEN)
        return NULL;
    ledger_get_state(gateway->ledger, &state);
    return state.health == LEDGER_FULL ? "the ledger has no room, and spend must be recorded"
                                       : NULL;
}

void probe_healthz(struct http_inbound *in)
{
    answer_text(in, 200, "ok");
}

void probe_readyz(struct http_inbound *in, const struct gateway *gateway,
                  const struct config *config)
{
    enum remote_health store = remote_health_of(gateway->remote);
    const char *why = probe_unready(gateway, config);
    size_t unpaid = tenants_unpaid(gateway, config);
    char text[240];

    enum fleet_state fleet = gateway->fleet != NULL
                                 ? (enum fleet_state)atomic_load(&gateway->fleet_state)
                                 : FLEET_CURRENT;
    bool evicts = gateway->fleet != NULL && atomic_load(&gateway->fleet_evicts);

    if (why != NULL)
        snprintf(text, sizeof text, "%s", why);
    else if (fleet == FLEET_REGRESSED || fleet == FLEET_INCOMPATIBLE)
        snprintf(text, sizeof text,
                 "ok; %s: a copy of what the API made is served, and nothing can be changed",
                 fleet_state_name(fleet));
    else if (evicts)
        snprintf(text, sizeof text,
                 "ok; store_evicts: the store may forget keys; set its maxmemory-policy to "
                 "noeviction");
    else if (unpaid > 0)
        snprintf(text, sizeof text,
                 "degraded: calls of %zu of %zu tenants are refused: the store is down, and "
                 "budgets are closed without it",
                 unpaid, config->n_tenants);
    else if (store != REMOTE_WELL)
        snprintf(text, sizeof text, "ok; the store is %s: limits %s, budgets %s",
                 remote_health_name(store), remote_mode_name(remote_mode_of(config->store.limits)),
                 remote_mode_name(remote_mode_of(config->store.budget)));
    else
        snprintf(text, sizeof text, "ok");
    answer_text(in, why ? 503 : 200, text);
}

void probe_metrics(struct http_inbound *in, struct gateway *gateway,
                   const struct generation *generation, tg_ms now)
{
    struct exposition page;

    exposition_init(&page);
    metrics_page_write(&page, gateway, generation, now);
    if (page.out.failed)
        answer_text(in, 500, "no memory for the page");
    else
        probe_pages_answer(in, 200, SLICE(EXPOSITION_TYPE),
                           (struct slice){page.out.bytes, page.out.size});
    exposition_fini(&page);
}

static void probe_pages_begin(void *context, struct http_inbound *in)
{
    struct control *control = context;
    struct slice path = in->head.target;
    const char *query = memchr(path.at, '?', path.n);

    if (query)
        path.n = (size_t)(query - path.at);
    if (!slice_equal(in->head.method, SLICE("GET")) && !slice_equal(in->head.method, SLICE("HEAD")))
        answer_text(in, 405, "only GET and HEAD are answered here");
    else if (slice_equal(path, SLICE("/healthz")))
        probe_healthz(in);
    else if (slice_equal(path, SLICE("/readyz")))
        probe_readyz(in, control->gateway, &control->generation->config);
    else if (slice_equal(path, SLICE("/metrics")))
        probe_metrics(in, control->gateway, control->generation, control_now(control));
    else
        answer_text(in, 404, "there are /healthz, /readyz and /metrics");
}

static void probe_pages_data(struct http_inbound *in, struct slice bytes)
{
    (void)in;
    (void)bytes;
}

static void probe_pages_end(struct http_inbound *in)
{
    (void)in;
}

static void probe_pages_gone(struct http_inbound *in, enum http_why why)
{
    (void)in;
    (void)why;
}

const struct http_server_ops probe_server_ops = {.begin = probe_pages_begin,
                                                 .data = probe_pages_data,
                                                 .end = probe_pages_end,
                                                 .gone = probe_pages_gone};
