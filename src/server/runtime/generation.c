/* generation.c - makes a generation out of a configuration, puts it in force, and frees it.
 *
 * What is made before it is in force is its own: whatever goes wrong, generation_free() takes what
 * there is. Putting it in force changes what the gateway has, in steps of which each can fail; when
 * one does, those before it are done again with the generation that was in force.
 *
 * What a route has learned (how far estimates are off, how long calls take) is copied from the
 * generation before, and what old calls still learn goes to theirs: it is a moving mean, and the
 * next hundred calls teach it anew. Slots are shared, because they count, and so are speeds, which
 * take some hundred calls to learn.
 */
#include "server/runtime/generation.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/num.h"
#include "lib/core/problem.h"
#include "server/remote/remote.h"
#include "server/runtime/gateway.h"
#include "server/runtime/generation_internal.h"
#include "server/runtime/key_place.h"
#include "server/runtime/service.h"
#include "server/runtime/tenant_share.h"
#include "server/runtime/worker.h"
#include "server/tenancy/key_index.h"
#include "server/upstream/route_origin.h"

/* ---- policy ---- */

static bool same_types(const struct config_policy *a, const struct config_policy *b)
{
    if (a->workload.n_types != b->workload.n_types)
        return false;
    for (size_t i = 0; i < a->workload.n_types; i++) {
        const struct config_type *x = &a->workload.types[i], *y = &b->workload.types[i];
        if (x->cost != y->cost || x->value != y->value || x->weight != y->weight ||
            x->has_hold != y->has_hold || x->hold != y->hold)
            return false;
    }
    return true;
}

/* Whether what one has learned is of use to the other. */
static bool same_policy(const struct config_policy *a, const struct config_policy *b)
{
    return a->kind == b->kind && a->prices == b->prices && a->has_duals == b->has_duals &&
           a->duals.rate == b->duals.rate && a->duals.cost == b->duals.cost &&
           a->duals.concurrency == b->duals.concurrency &&
           a->workload.present == b->workload.present &&
           a->workload.arrivals == b->workload.arrivals && same_types(a, b) &&
           a->workload.rate_budget == b->workload.rate_budget &&
           a->workload.cost_budget == b->workload.cost_budget &&
           a->workload.conc_budget == b->workload.conc_budget &&
           a->sample_window == b->sample_window && a->online.window == b->online.window &&
           a->online.rate_budget == b->online.rate_budget &&
           a->online.cost_budget == b->online.cost_budget &&
           a->online.conc_budget == b->online.conc_budget &&
           a->online.replenish == b->online.replenish && a->online.guard == b->online.guard;
}

static bool make_policy(struct generation *generation, const struct generation *before,
                        struct tg_problem *problem)
{
    const struct config_policy *from = &generation->config.gate.policy;
    struct tg_problem why;

    if (before && same_policy(from, &before->config.gate.policy)) {
        generation->policy = before->policy;
        atomic_fetch_add(&generation->policy->refs, 1);
        return true;
    }
    generation->policy = calloc(1, sizeof *generation->policy);
    if (generation->policy == NULL)
        return problem_fail(problem, "gate.policy: no memory");
    atomic_init(&generation->policy->refs, 1);
    return from->kind != CONFIG_BID_PRICE ||
           tg_bid_new(&from->bid, &generation->policy->policy, &why) == TG_OK ||
           problem_fail(problem, "gate.policy: %s", why.text);
}

/* ---- where calls go ---- */

/* The same connections, if there are some. */
static struct http_origin *origin_before(const struct generation *before,
                                         const struct config_provider *provider)
{
    for (size_t i = 0; before && i < before->config.n_providers; i++)
        if (route_origin_same(&provider->base, provider, &before->providers[i].config->base,
                              before->providers[i].config))
            return http_origin_ref(before->providers[i].origin);
    return NULL;
}

static bool make_providers(struct generation *generation, const struct generation *before,
                           struct tg_problem *problem)
{
    const struct config *config = &generation->config;
    struct tg_problem why;

    generation->providers = calloc(config->n_providers + 1, sizeof *generation->providers);
    generation->protect = calloc(config->n_protect + 1, sizeof *generation->protect);
    if (generation->providers == NULL || generation->protect == NULL)
        return problem_fail(problem, "providers: no memory");
    for (size_t i = 0; i < config->n_providers; i++) {
        struct provider *provider = &generation->providers[i];
        provider->config = &config->providers[i];
        provider->origin = origin_before(before, provider->config);
        if (provider->origin == NULL &&
            !route_origin_of(&provider->config->base, provider->config, &provider->origin, &why))
            return problem_fail(problem, "%s: %s", provider->config->name, why.text);
    }
    for (size_t i = 0; i < config->n_protect; i++) {
        const struct config_protect *protect = &config->protect[i];
        generation->protect[i].config = protect;
        if (!route_origin_new(&protect->upstream,
                              (struct route_trust){protect->ca, protect->cert, protect->key}, NULL,
                              protect->http2 ? HTTP2_PRIOR : HTTP2_NEVER,
                              &generation->protect[i].origin, &why))
            return problem_fail(problem, "%s: %s", protect->prefix, why.text);
    }
    return true;
}

/* ---- routes ---- */

/* What the same model of the same provider has learned. */
static bool learn_from(struct route *route, const struct route *before, struct tg_problem *problem)
{
    if (before != NULL) {
        atomic_store(&route->charged, atomic_load(&before->charged));
        atomic_store(&route->hold_s, atomic_load(&before->hold_s));
        atomic_store(&route->silent, atomic_load(&before->silent));
    }
    route->speed = before != NULL ? output_speed_ref(before->speed) : output_speed_new();
    return route->speed != NULL || problem_fail(problem, "models: no memory");
}

const struct route *generation_route_before(const struct generation *before,
                                            const struct route *route)
{
    size_t i = CONFIG_NONE;

    if (before)
        i = config_model(&before->config, route->config->name, strlen(route->config->name));
    if (i == CONFIG_NONE || strcmp(before->routes[i].config->name, route->config->name) != 0 ||
        strcmp(before->routes[i].provider->config->name, route->provider->config->name) != 0)
        return NULL;
    return &before->routes[i];
}

static int64_t largest_factor(const struct config_factors *factors)
{
    int64_t largest = 1000;

    for (size_t i = 0; i < factors->n; i++)
        largest = num_max(largest, factors->list[i].milli);
    return largest;
}

static void make_facts(const struct config_model *model, struct bound_facts *facts)
{
    static const enum bound_form FORMS[] = {[CONFIG_TOK_BYTE] = BOUND_BYTES,
                                            [CONFIG_TOK_NFC] = BOUND_NFC,
                                            [CONFIG_TOK_NFKC] = BOUND_NFKC};
    static const enum bound_image_rule RULES[] = {[CONFIG_IMAGE_MOST] = BOUND_IMAGE_MOST,
                                                  [CONFIG_IMAGE_TILES] = BOUND_IMAGE_TILES,
                                                  [CONFIG_IMAGE_PATCHES] = BOUND_IMAGE_PATCHES,
                                                  [CONFIG_IMAGE_CLAUDE] = BOUND_IMAGE_CLAUDE,
                                                  [CONFIG_IMAGE_GEMINI] = BOUND_IMAGE_GEMINI};

    bound_facts_init(facts);
    facts->context = model->context;
    facts->most_output = model->max_output_tokens;
    facts->form = FORMS[model->tokenizer];
    /* No catalogue knows it, so neither is it known how its server writes tools into a prompt. */
    facts->self_hosted =
        model->price_from == NULL || strcmp(model->price_from, "the configuration") == 0;
    facts->tool_prompt = model->tool_prompt;
    facts->rounds = model->rounds;
    facts->cache_write_implicit = model->cache_write_implicit;
    facts->image = (struct bound_image){.rule = RULES[model->image.rule],
                                        .most = model->image_most,
                                        .base = model->image.base,
                                        .tile = model->image.tile,
                                        .budget = model->image.budget,
                                        .factor_milli = model->image.factor_milli};
    facts->dearest_milli = num_min(
        TG_FACTOR_MILLI_MAX, largest_factor(&model->service_tier) * largest_factor(&model->speed) /
                                 1000 * largest_factor(&model->inference_geo) / 1000);
}

/* Whether any call of a model costs anything. */
static bool is_priced(const struct tg_price *price)
{
    const struct tg_usage_bound large = {
        .input = 1000000000, .output = 1000000000, .tool_calls = 1, .kinds = TG_KINDS_ALL};

    return tg_price_bound(price, &large) > 0;
}

static bool make_routes(struct generation *generation, const struct generation *before,
                        struct tg_problem *problem)
{
    const struct config *config = &generation->config;

    generation->routes = calloc(config->n_models + 1, sizeof *generation->routes);
    if (generation->routes == NULL)
        return problem_fail(problem, "models: no memory");
    for (size_t i = 0; i < config->n_models; i++) {
        struct route *route = &generation->routes[i];
        const struct config_model *model = route->config = &config->models[i];
        route->provider = &generation->providers[model->provider];
        route->estimate = (struct estimate_rule){.bytes_per_token = model->bytes_per_token,
                                                 .image = model->image_tokens};
        make_facts(model, &route->facts);
        route->priced = is_priced(&model->price);
        atomic_store(&route->charged, model->overbook.start);
        if (!learn_from(route, generation_route_before(before, route), problem))
            return false;
    }
    return true;
}

/* Models that are not listed go to the first provider of their API, and cost nothing. */
static bool make_unknown(struct generation *generation, struct tg_problem *problem)
{
    const struct config *config = &generation->config;
    struct config_model *model = &generation->unknown_model;

    *model = (struct config_model){.name = "unknown",
                                   .cheaper = CONFIG_NONE,
                                   .retries = 2,
                                   .timeouts = {.connect = 5000,
                                                .first_byte = 120000,
                                                .reply = 600000,
                                                .idle = 60000,
                                                .total = 1800000},
                                   .most_tokens_per_s = 20000,
                                   .tokenizer = CONFIG_TOK_NFKC,
                                   .rounds = 10,
                                   .overbook = {1, TG_FACTOR_MIN, TG_FACTOR_MAX},
                                   .concurrency = config->gate.concurrency};
    tg_law_config_init(&model->concurrency.law);
    model->concurrency.law.law = TG_LAW_NONE;
    tg_price_init(&model->price);
    for (size_t i = config->n_providers; config->unknown_model_allowed && i-- > 0;) {
        enum config_api spoken = config->providers[i].api;
        enum wire_api api = spoken == CONFIG_ANTHROPIC ? WIRE_ANTHROPIC : WIRE_OPENAI;
        if (spoken == CONFIG_GEMINI)
            continue; /* nobody calls a model by its API */
        struct route *route = &generation->unknown[api];
        route->config = model;
        route->provider = &generation->providers[i];
        estimate_rule_init(&route->estimate);
        make_facts(model, &route->facts);
        route->priced = is_priced(&model->price);
        atomic_store(&route->charged, 1);
        if (route->speed == NULL && !learn_from(route, NULL, problem))
            return false;
    }
    return true;
}

/* ---- making ---- */

static bool make_one_tls(const char *section, const struct config_tls *config,
                         struct tls_context **tls, struct tg_problem *problem)
{
    struct tg_problem why;

    return config->cert == NULL ||
           tls_server_new(config->cert, config->key, config->client_ca, tls, &why) == TG_OK ||
           problem_fail(problem, "%s: %s", section, why.text);
}

static bool make_tls(struct generation *generation, struct tg_problem *problem)
{
    const struct config_listen *listen = &generation->config.listen;

    return make_one_tls("listen.tls", &listen->tls, &generation->tls, problem) &&
           make_one_tls("listen.admin_tls", &listen->admin_tls, &generation->admin_tls, problem);
}

static bool make_limits(struct generation *generation, const struct generation *before,
                        struct tg_problem *problem)
{
    const struct service_table *table = generation->gateway->services;
    struct limit_book *book = generation->gateway->book;
    struct tg_problem why;

    if (scopes_new(&generation->config, book, &generation->scopes, &why) != TG_OK)
        return problem_fail(problem, "limits: %s", why.text);
    for (size_t i = 0; i < table->n; i++)
        if (table->list[i]->read != NULL && !table->list[i]->read(generation, before, problem))
            return false;
    return true;
}

/* After all limits have been wanted. */
static bool make_listing(struct generation *generation, struct tg_problem *problem)
{
    if (generation->gateway->remote == NULL)
        return true;
    generation->listing = limit_book_list(generation->gateway->book);
    generation->remote.listing = generation->listing;
    generation->remote_strict = generation->remote;
    generation->remote_strict.strict = true;
    return generation->listing != NULL || problem_fail(problem, "limits: no memory");
}

static bool make_refs(struct generation *generation, struct tg_problem *problem)
{
    size_t n = generation->gateway->n_threads;

    generation->n_threads = n;
    atomic_init(&generation->threads, n);
    generation->refs =
        aligned_alloc(_Alignof(struct generation_refs), n * sizeof *generation->refs);
    if (generation->refs == NULL)
        return problem_fail(problem, "gateway: no memory");
    memset(generation->refs, 0, n * sizeof *generation->refs);
    return true;
}

bool generation_new(struct gateway *gateway, struct config *config, const struct generation *before,
                    struct generation **made, struct tg_problem *problem)
{
    struct generation *generation = calloc(1, sizeof *generation);

    if (generation == NULL) {
        config_free(config);
        return problem_fail(problem, "gateway: no memory");
    }
    generation->gateway = gateway;
    generation->number = before ? before->number + 1 : 1;
    generation->config = *config;
    memset(config, 0, sizeof *config);
    config_serve_defaults(&generation->config);
    generation->remote =
        (struct remote_terms){.generation = generation->number, .store = &generation->config.store};
    bool fine = make_refs(generation, problem) && make_tls(generation, problem) &&
                make_policy(generation, before, problem) &&
                make_providers(generation, before, problem) &&
                key_places_new(generation, before, problem) &&
                make_routes(generation, before, problem) && make_unknown(generation, problem);
    fine = fine && generation_make_slots(generation, before, problem);
    fine = fine &&
           (key_index_new(&generation->config, &generation->keys) ||
            problem_fail(problem, "tenants: no memory")) &&
           tenant_shares_make(generation, before, problem);
    /* The last, for it is what the book remembers. */
    fine = fine && make_limits(generation, before, problem) && make_listing(generation, problem);
    if (!fine) {
        generation_free(generation);
        return false;
    }
    *made = generation;
    return true;
}

/* ---- putting it in force ---- */

static bool set_limits(struct generation *generation, tg_ms now, struct tg_problem *problem)
{
    struct tg_problem why;

    return limit_book_apply(generation->gateway->book, now, &why) == TG_OK ||
           problem_fail(problem, "limits: %s", why.text);
}

bool generation_set_gates(struct generation *generation, tg_ms now, struct tg_problem *problem)
{
    return gateway_set_gate(generation->gateway, generation, now, problem) &&
           generation_set_slots(generation, now, problem);
}

/* Pools are known once the ring has them. */
static void find_pools(struct generation *generation)
{
    struct tg_keyring *ring = generation->gateway->ring;
    const struct config *config = &generation->config;

    for (size_t i = 0; i < config->n_providers; i++)
        generation->providers[i].pool = tg_keyring_pool(ring, config->providers[i].name, NO_MODEL);
    for (size_t i = 0; i < config->n_models; i++) {
        struct route *route = &generation->routes[i];
        route->pool = tg_keyring_pool(ring, route->provider->config->name, config->models[i].name);
    }
    for (int i = 0; i < 2; i++)
        if (generation->unknown[i].provider)
            generation->unknown[i].pool = generation->unknown[i].provider->pool;
}

/* The limits of the generation before are wanted again. */
static void set_limits_back(struct generation *before, tg_ms now)
{
    const struct service_table *table = before->gateway->services;
    struct limit_book *book = before->gateway->book;
    struct tg_problem ignored;
    struct scopes *again;

    if (scopes_new(&before->config, book, &again, &ignored) != TG_OK)
        return;
    scopes_free(again);
    for (size_t i = 0; i < table->n; i++)
        if (table->list[i]->want_limits != NULL && !table->list[i]->want_limits(before))
            return;
    if (limit_book_apply(book, now, &ignored) != TG_OK)
        limit_book_forget(book);
}

/* Back to what was in force, as far as that is possible: it was before, and what failed was memory,
 * or a disk. */
static void set_back(struct generation *before, tg_ms now)
{
    struct tg_problem ignored;

    if (before == NULL)
        return;
    set_limits_back(before, now);
    (void)generation_set_gates(before, now, &ignored);
    (void)generation_set_budgets(before, NULL, now, &ignored);
}

/* The ring comes last: once it has the new keys, calls may use them. */
bool generation_apply(struct generation *generation, struct generation *before, tg_ms now,
                      struct tg_problem *problem)
{
    if (generation_set_budgets(generation, before, now, problem) &&
        generation_set_gates(generation, now, problem) && set_limits(generation, now, problem) &&
        generation_set_ring(generation, now, problem)) {
        find_pools(generation);
        return true;
    }
    limit_book_forget(generation->gateway->book);
    set_back(before, now);
    return false;
}

/* ---- ending ---- */

static void policy_unref(struct shared_policy *policy)
{
    if (policy == NULL)
        return;
    int refs = atomic_fetch_sub(&policy->refs, 1);
    assert(refs > 0);
    if (refs > 1)
        return;
    tg_bid_free(policy->policy);
    free(policy);
}

void generation_free(struct generation *generation)
{
    if (generation == NULL)
        return;
    const struct service_table *table = generation->gateway->services;
    key_index_free(generation->keys);
    key_places_free(generation);
    tenant_shares_free(generation);
    generation_free_slots(generation);
    for (size_t i = 0; generation->providers && i < generation->config.n_providers; i++)
        http_origin_unref(generation->providers[i].origin);
    for (size_t i = 0; generation->protect && i < generation->config.n_protect; i++)
        http_origin_unref(generation->protect[i].origin);
    for (size_t i = 0; generation->routes && i < generation->config.n_models; i++)
        output_speed_unref(generation->routes[i].speed);
    for (size_t i = 0; i < 2; i++)
        output_speed_unref(generation->unknown[i].speed);
    policy_unref(generation->policy);
    scopes_free(generation->scopes);
    for (size_t i = 0; i < table->n; i++)
        if (table->list[i]->forget != NULL)
            table->list[i]->forget(generation);
    free(generation->listing);
    tls_context_unref(generation->tls);
    tls_context_unref(generation->admin_tls);
    free(generation->route_keys);
    free(generation->routes);
    free(generation->providers);
    free(generation->protect);
    free(generation->refs);
    config_free(&generation->config);
    free(generation);
}

/* ---- who refers to it ---- */

/* Acquire and release: the thread that signs off last sees all that the others have done. */
static void sign_off(struct generation *generation)
{
    size_t threads = atomic_fetch_sub_explicit(&generation->threads, 1, memory_order_acq_rel);

    assert(threads > 0);
    if (threads == 1)
        gateway_generation_over(generation->gateway, generation);
}

void generation_leave(struct generation *generation, size_t thread)
{
    struct generation_refs *refs = &generation->refs[thread];

    assert(thread < generation->n_threads && !refs->left);
    refs->left = true;
    if (refs->n == 0)
        sign_off(generation);
}

void generation_unref(struct generation *generation, size_t thread)
{
    struct generation_refs *refs = &generation->refs[thread];

    assert(thread < generation->n_threads && refs->n > 0);
    if (--refs->n == 0 && refs->left)
        sign_off(generation);
}

size_t generation_tenant_of_key(const struct generation *generation, const uint8_t hash[32],
                                tg_ms now, const struct config_key **key)
{
    return key_index_find(generation->keys, hash, clock_wall_of(&generation->gateway->clock, now),
                          key);
}
