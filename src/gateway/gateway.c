/* gateway.c - makes what the workers share out of a configuration, step by step, and unmakes it.
 *
 * Each step leaves a gateway that gateway_free() can take: on an error, what there is so far is
 * freed and the step's message is handed on.
 */
#include "gateway/gateway.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "gateway/key_index.h"
#include "gateway/worker.h"
#include "net/tls.h"
#include "posix/zone.h"

enum { FLUSH_MS = 50 }; /* how often what was spent is moved from the journal to the database */

/* The pool of a provider for calls without a model: a name that no model can have. */
#define NO_MODEL "\n"

struct gateway_zone {
    const char *name;
    struct tg_zone zone;
    struct gateway_zone *next;
};

static bool say(struct ledger_problem *problem, const char *what, const char *text)
{
    snprintf(problem->text, sizeof problem->text, "%s: %s", what, text);
    return false;
}

/* ---- limits ---- */

static void gateway_wake(void *context, void *waiter)
{
    (void)context;
    waiter_wake(waiter);
}

static bool make_store(struct gateway *gateway, struct ledger_problem *problem)
{
    struct tg_store_config config;
    struct tg_problem why;

    tg_store_config_init(&config);
    config.seed = gateway->seed;
    if (tg_store_new(&config, &gateway->store, &why) ||
        scopes_new(&gateway->config, gateway->store, &gateway->scopes, &why))
        return say(problem, "limits", why.text);
    return true;
}

/* For calls to models the gate has a ceiling, not a law: how many a model can take is learned by
 * the model's own slots. */
static bool make_gates(struct gateway *gateway, struct ledger_problem *problem)
{
    const struct config_gate *from = &gateway->config.gate;
    struct tg_gate_config config;
    struct tg_problem why;

    if (from->policy.kind == CONFIG_BID_PRICE &&
        tg_bid_new(&from->policy.bid, &gateway->policy, &why))
        return say(problem, "gate.policy", why.text);
    scopes_gate_config(from, &config);
    config.store = gateway->store;
    config.seed = gateway->seed;
    config.policy = gateway->policy;
    config.wake = gateway_wake;
    if (tg_gate_new(&config, &gateway->protect_gate, &why))
        return say(problem, "gate", why.text);
    config.concurrency.law.law = TG_LAW_NONE;
    config.seed++;
    if (tg_gate_new(&config, &gateway->gate, &why))
        return say(problem, "gate", why.text);
    return true;
}

static bool make_slots(struct gateway *gateway, struct route *route, struct ledger_problem *problem)
{
    struct config_gate alone = {.lease_ttl = gateway->config.gate.lease_ttl,
                                .concurrency = route->config->concurrency};
    struct tg_gate_config config;
    struct tg_problem why;

    alone.concurrency.present = true;
    scopes_gate_config(&alone, &config);
    config.seed = gateway->seed ^ (uint64_t)(uintptr_t)route;
    config.wake = gateway_wake;
    return tg_gate_new(&config, &route->slots, &why) == TG_OK ||
           say(problem, route->config->name, why.text);
}

/* ---- where calls go ---- */

static bool make_origin(const struct config_url *url, const char *ca, const char *proxy,
                        struct http_origin **origin, struct tg_problem *why)
{
    struct http_origin_options options;
    struct tls_context *tls = NULL;

    http_origin_options_init(&options);
    options.host = url->host;
    options.port = url->port;
    options.proxy = proxy;
    if (url->tls && tls_client_new(ca, NULL, NULL, &tls, why))
        return false;
    options.tls = tls;
    enum tg_err err = http_origin_new(&options, origin, why);
    tls_context_unref(tls);
    return err == TG_OK;
}

static bool make_providers(struct gateway *gateway, struct ledger_problem *problem)
{
    const struct config *config = &gateway->config;
    struct tg_problem why;

    gateway->providers = calloc(config->n_providers + 1, sizeof *gateway->providers);
    gateway->protect = calloc(config->n_protect + 1, sizeof *gateway->protect);
    if (gateway->providers == NULL || gateway->protect == NULL)
        return say(problem, "providers", "no memory");
    for (size_t i = 0; i < config->n_providers; i++) {
        struct provider *provider = &gateway->providers[i];
        provider->config = &config->providers[i];
        provider->api = provider->config->api == CONFIG_ANTHROPIC ? WIRE_ANTHROPIC : WIRE_OPENAI;
        if (!make_origin(&provider->config->base, provider->config->ca, provider->config->proxy,
                         &provider->origin, &why))
            return say(problem, provider->config->name, why.text);
    }
    for (size_t i = 0; i < config->n_protect; i++) {
        gateway->protect[i].config = &config->protect[i];
        if (!make_origin(&config->protect[i].upstream, "system", NULL, &gateway->protect[i].origin,
                         &why))
            return say(problem, config->protect[i].prefix, why.text);
    }
    return true;
}

static bool make_routes(struct gateway *gateway, struct ledger_problem *problem)
{
    const struct config *config = &gateway->config;
    struct tg_problem why;

    gateway->routes = calloc(config->n_models + 1, sizeof *gateway->routes);
    if (gateway->routes == NULL)
        return say(problem, "models", "no memory");
    for (size_t i = 0; i < config->n_models; i++) {
        struct route *route = &gateway->routes[i];
        const struct config_model *model = route->config = &config->models[i];
        route->provider = &gateway->providers[model->provider];
        route->estimate = (struct estimate_rule){.bytes_per_token = model->bytes_per_token,
                                                 .image = model->image_tokens};
        route->pool = tg_keyring_pool(gateway->ring, route->provider->config->name, model->name);
        if (tg_overbook_init(&route->overbook, model->overbook_start, model->overbook_max, &why))
            return say(problem, model->name, why.text);
        if (!make_slots(gateway, route, problem))
            return false;
    }
    for (size_t i = 0; i < config->n_providers; i++)
        gateway->providers[i].pool =
            tg_keyring_pool(gateway->ring, config->providers[i].name, NO_MODEL);
    return true;
}

/* Models that are not listed go to the first provider of their API, and cost nothing. */
static bool make_unknown(struct gateway *gateway, struct ledger_problem *problem)
{
    const struct config *config = &gateway->config;
    struct config_model *model = &gateway->unknown_model;
    struct tg_problem why;

    *model = (struct config_model){.name = "unknown",
                                   .cheaper = CONFIG_NONE,
                                   .retries = 2,
                                   .timeouts = {5000, 120000, 60000, 1800000},
                                   .max_output_tokens = 4096,
                                   .on_unbounded = CONFIG_ALLOW,
                                   .concurrency = config->gate.concurrency};
    tg_law_config_init(&model->concurrency.law);
    model->concurrency.law.law = TG_LAW_NONE;
    tg_price_init(&model->price);
    for (size_t i = config->n_providers; config->unknown_model_allowed && i-- > 0;) {
        struct route *route = &gateway->unknown[gateway->providers[i].api];
        route->config = model;
        route->provider = &gateway->providers[i];
        route->pool = gateway->providers[i].pool;
        estimate_rule_init(&route->estimate);
        if (tg_overbook_init(&route->overbook, 1, 3, &why))
            return say(problem, "unknown_model", why.text);
        if (route->slots == NULL && !make_slots(gateway, route, problem))
            return false;
    }
    return true;
}

/* ---- keys ---- */

/* What a keyring is made from, in the storage of one step. */
struct ring_plan {
    struct tg_pool_spec *pools;
    struct tg_group_spec *groups;
    struct tg_key_spec *keys;
    size_t n_pools, n_groups, n_keys;
};

static void plan_pool(struct ring_plan *plan, const char *provider, const char *model,
                      const struct config_provider_key *keys, size_t n)
{
    struct tg_pool_spec *pool = &plan->pools[plan->n_pools++];

    tg_pool_spec_init(pool);
    pool->provider = provider;
    pool->model = model;
    pool->keys = plan->keys + plan->n_keys;
    pool->n_keys = n;
    for (size_t i = 0; i < n; i++)
        plan->keys[plan->n_keys++] = (struct tg_key_spec){.name = keys[i].name,
                                                          .group = keys[i].group,
                                                          .limits = keys[i].limits,
                                                          .owner = (void *)(uintptr_t)&keys[i]};
}

static void plan_ring(const struct config *config, struct ring_plan *plan)
{
    for (size_t i = 0; i < config->n_providers; i++) {
        const struct config_provider *provider = &config->providers[i];
        plan_pool(plan, provider->name, NO_MODEL, provider->keys, provider->n_keys);
        for (size_t g = 0; g < provider->n_groups; g++)
            plan->groups[plan->n_groups++] =
                (struct tg_group_spec){.provider = provider->name,
                                       .name = provider->groups[g].name,
                                       .limits = provider->groups[g].limits};
    }
    for (size_t i = 0; i < config->n_models; i++) {
        const struct config_model *model = &config->models[i];
        const struct config_provider *provider = &config->providers[model->provider];
        bool own = model->n_keys > 0;
        plan_pool(plan, provider->name, model->name, own ? model->keys : provider->keys,
                  own ? model->n_keys : provider->n_keys);
        struct tg_pool_spec *pool = &plan->pools[plan->n_pools - 1];
        pool->breaker_failures = model->breaker_failures;
        pool->breaker_open = model->breaker_open;
        pool->affinity_ttl = model->affinity_by ? model->affinity_ttl : 0;
    }
}

static size_t count_keys(const struct config *config, size_t *groups)
{
    size_t n = 0;

    *groups = 0;
    for (size_t i = 0; i < config->n_providers; i++) {
        n += config->providers[i].n_keys;
        *groups += config->providers[i].n_groups;
    }
    for (size_t i = 0; i < config->n_models; i++) {
        const struct config_model *model = &config->models[i];
        n += model->n_keys > 0 ? model->n_keys : config->providers[model->provider].n_keys;
    }
    return n;
}

static bool make_ring(struct gateway *gateway, struct ledger_problem *problem)
{
    const struct config *config = &gateway->config;
    struct tg_keyring_spec spec;
    struct ring_plan plan = {0};
    struct tg_problem why;
    size_t n_groups, n_keys = count_keys(config, &n_groups);

    plan.pools = calloc(config->n_providers + config->n_models + 1, sizeof *plan.pools);
    plan.groups = calloc(n_groups + 1, sizeof *plan.groups);
    plan.keys = calloc(n_keys + 1, sizeof *plan.keys);
    snprintf(why.text, sizeof why.text, "no memory");
    enum tg_err err = TG_ERR_MEMORY;
    if (plan.pools && plan.groups && plan.keys) {
        plan_ring(config, &plan);
        tg_keyring_spec_init(&spec);
        spec.groups = plan.groups;
        spec.n_groups = plan.n_groups;
        spec.pools = plan.pools;
        spec.n_pools = plan.n_pools;
        spec.seed = gateway->seed;
        err = tg_keyring_new(&spec, &gateway->ring, &why);
    }
    free(plan.pools);
    free(plan.groups);
    free(plan.keys);
    return err == TG_OK || say(problem, "keys", why.text);
}

/* ---- money ---- */

static const struct tg_zone *find_zone(struct gateway *gateway, const char *name,
                                       struct ledger_problem *problem)
{
    struct gateway_zone *zone;
    struct tg_problem why;

    for (zone = gateway->zones; zone; zone = zone->next)
        if (strcmp(zone->name, name) == 0)
            return &zone->zone;
    zone = calloc(1, sizeof *zone);
    if (zone == NULL || zone_read(name, &zone->zone, &why)) {
        say(problem, "budgets", zone ? why.text : "no memory");
        free(zone);
        return NULL;
    }
    zone->name = name;
    zone->next = gateway->zones;
    gateway->zones = zone;
    return &zone->zone;
}

/* The budgets of an account; null with n 0 for none. */
static bool make_budgets(struct gateway *gateway, const struct config_budget *from, size_t n,
                         struct tg_budget *to, struct ledger_problem *problem)
{
    static const enum tg_per PER[] = {[CONFIG_DAY] = TG_PER_DAY,
                                      [CONFIG_WEEK] = TG_PER_WEEK,
                                      [CONFIG_MONTH] = TG_PER_MONTH,
                                      [CONFIG_TOTAL] = TG_PER_TOTAL};

    for (size_t i = 0; i < n; i++) {
        to[i] = (struct tg_budget){.amount = from[i].micro_usd,
                                   .per = PER[from[i].per],
                                   .zone = find_zone(gateway, from[i].tz, problem),
                                   .mode = from[i].mode == CONFIG_SHADOW ? TG_SHADOW : TG_ENFORCE};
        if (to[i].zone == NULL)
            return false;
    }
    return true;
}

static size_t count_budgets(const struct config *config)
{
    size_t n = config->n_budgets;

    for (size_t i = 0; i < config->n_tenants; i++)
        n += config->tenants[i].n_budgets + config->tenants[i].users.n_budgets;
    return n;
}

/* The tree of accounts; what it points to is in `budgets` and `tenants`, which have room. */
static bool make_tree(struct gateway *gateway, struct tg_budget *budgets,
                      struct spending_tenant *tenants, struct spending_tree *tree,
                      struct ledger_problem *problem)
{
    const struct config *config = &gateway->config;
    size_t used = config->n_budgets;

    *tree = (struct spending_tree){budgets, config->n_budgets, tenants, config->n_tenants};
    if (!make_budgets(gateway, config->budgets, config->n_budgets, budgets, problem))
        return false;
    for (size_t i = 0; i < config->n_tenants; i++) {
        const struct config_tenant *from = &config->tenants[i];
        struct spending_tenant *to = &tenants[i];
        to->name = from->name;
        to->parent = from->parent == CONFIG_NO_PARENT ? SPENDING_TOP : from->parent;
        to->budgets = budgets + used;
        to->n_budgets = from->n_budgets;
        used += from->n_budgets;
        to->user_budgets = budgets + used;
        to->n_user_budgets = from->users.n_budgets;
        used += from->users.n_budgets;
        if (!make_budgets(gateway, from->budgets, from->n_budgets,
                          (struct tg_budget *)(uintptr_t)to->budgets, problem) ||
            !make_budgets(gateway, from->users.budgets, from->users.n_budgets,
                          (struct tg_budget *)(uintptr_t)to->user_budgets, problem))
            return false;
        for (size_t b = 0; b < from->n_budgets && from->mode == CONFIG_SHADOW; b++)
            ((struct tg_budget *)(uintptr_t)to->budgets)[b].mode = TG_SHADOW;
    }
    return true;
}

static bool make_money(struct gateway *gateway, struct ledger_problem *problem)
{
    const struct config *config = &gateway->config;
    struct ledger_config ledger;
    struct spending_config spending = {.open = config->ledger.failure == CONFIG_FAIL_OPEN};
    struct spending_tree tree;
    struct tg_budget *budgets = calloc(count_budgets(config) + 1, sizeof *budgets);
    struct spending_tenant *tenants = calloc(config->n_tenants + 1, sizeof *tenants);
    bool fine = budgets && tenants;

    ledger_config_init(&ledger);
    ledger.path = config->ledger.path;
    ledger.detail = config->ledger.detail;
    tg_bank_config_init(&spending.bank);
    spending.bank.seed = gateway->seed;
    if (!fine)
        say(problem, "budgets", "no memory");
    fine = fine && ledger_open(&ledger, &gateway->ledger, problem) &&
           ledger_keep(gateway->ledger, &gateway->clock, FLUSH_MS, problem) &&
           make_tree(gateway, budgets, tenants, &tree, problem);
    spending.ledger = gateway->ledger;
    fine = fine && spending_new(&spending, &tree, clock_now_ms(&gateway->clock), &gateway->spending,
                                problem);
    free(budgets);
    free(tenants);
    return fine;
}

/* ---- all together ---- */

bool gateway_new(struct config *config, const struct clock *clock, struct gateway **made,
                 struct ledger_problem *problem)
{
    struct gateway *gateway = calloc(1, sizeof *gateway);

    if (gateway == NULL)
        return say(problem, "gateway", "no memory");
    gateway->config = *config;
    gateway->clock = *clock;
    gateway->retries.ratio = config->retry_ratio;
    gateway->retries.min_per_s = config->retry_min_per_s;
    gateway->census.max = config->limits.connections;
    memset(config, 0, sizeof *config);
    bool fine = getrandom(&gateway->seed, sizeof gateway->seed, 0) == sizeof gateway->seed ||
                say(problem, "gateway", "the system gives no randomness");
    fine = fine && make_store(gateway, problem) && make_gates(gateway, problem) &&
           make_providers(gateway, problem) && make_ring(gateway, problem) &&
           make_routes(gateway, problem) && make_unknown(gateway, problem);
    fine = fine && (key_index_new(&gateway->config, &gateway->keys) ||
                    say(problem, "tenants", "no memory"));
    fine = fine && make_money(gateway, problem);
    if (!fine) {
        gateway_free(gateway);
        return false;
    }
    *made = gateway;
    return true;
}

static void free_zones(struct gateway *gateway)
{
    struct gateway_zone *next;

    for (struct gateway_zone *zone = gateway->zones; zone; zone = next) {
        next = zone->next;
        zone_fini(&zone->zone);
        free(zone);
    }
}

void gateway_free(struct gateway *gateway)
{
    struct ledger_problem problem;

    if (gateway == NULL)
        return;
    spending_free(gateway->spending);
    if (gateway->ledger && !ledger_close(gateway->ledger, &problem))
        fprintf(stderr, "tollgate: ledger: %s\n", problem.text);
    free_zones(gateway);
    key_index_free(gateway->keys);
    for (size_t i = 0; gateway->routes && i < gateway->config.n_models; i++)
        tg_gate_free(gateway->routes[i].slots);
    for (int i = 0; i < 2; i++)
        tg_gate_free(gateway->unknown[i].slots);
    tg_keyring_free(gateway->ring);
    for (size_t i = 0; gateway->providers && i < gateway->config.n_providers; i++)
        http_origin_unref(gateway->providers[i].origin);
    for (size_t i = 0; gateway->protect && i < gateway->config.n_protect; i++)
        http_origin_unref(gateway->protect[i].origin);
    tg_gate_free(gateway->gate);
    tg_gate_free(gateway->protect_gate);
    tg_bid_free(gateway->policy);
    scopes_free(gateway->scopes);
    tg_store_free(gateway->store);
    free(gateway->routes);
    free(gateway->providers);
    free(gateway->protect);
    config_free(&gateway->config);
    free(gateway);
}

size_t gateway_tenant_of_key(const struct gateway *gateway, const uint8_t hash[32], tg_ms now,
                             const struct config_key **key)
{
    return key_index_find(gateway->keys, hash, now, key);
}
