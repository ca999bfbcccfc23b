/* generation_ring.c - the keys of providers, as a configuration has them, into the keyring.
 *
 * Keys, groups and pools of the same names keep their windows, cooldowns and leases. Each key of
 * each pool belongs to a struct route_key of the generation, which its leases give back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/runtime/gateway.h"
#include "server/runtime/generation_internal.h"
#include "server/runtime/key_place.h"

/* What a keyring is made from, in the storage of one step. */
struct ring_plan {
    struct generation *generation;
    struct tg_pool_spec *pools;
    struct tg_group_spec *groups;
    struct tg_key_spec *keys;
    size_t n_pools, n_groups, n_keys;
};

/* What the model says of the key, and what the key says for each model. What a key says for all
 * models together are the limits of its group. */
static struct tg_key_limits limits_for(const struct config_provider_key *key,
                                       const struct config_model *model)
{
    struct tg_key_limits limits = key->per_key ? (struct tg_key_limits){0} : key->limits;

    for (size_t i = 0; model != NULL && i < model->n_key_limits; i++) {
        const struct tg_key_limits *own = &model->key_limits[i].limits;
        if (strcmp(model->key_limits[i].name, key->name) != 0)
            continue;
        limits.rpm = own->rpm > 0 ? own->rpm : limits.rpm;
        limits.tpm = own->tpm > 0 ? own->tpm : limits.tpm;
        limits.concurrency = own->concurrency > 0 ? own->concurrency : limits.concurrency;
    }
    return limits;
}

/* `model` is null for the pool of what is passed through. */
static void plan_pool(struct ring_plan *plan, const char *provider,
                      const struct config_model *model, const struct config_provider_key *keys,
                      size_t n)
{
    struct tg_pool_spec *pool = &plan->pools[plan->n_pools++];

    tg_pool_spec_init(pool);
    pool->provider = provider;
    pool->model = model != NULL ? model->name : NO_MODEL;
    pool->keys = plan->keys + plan->n_keys;
    pool->n_keys = n;
    for (size_t i = 0; i < n; i++) {
        struct route_key *owner = &plan->generation->route_keys[plan->n_keys];
        *owner = (struct route_key){.config = &keys[i],
                                    .place = key_place_of(plan->generation, &keys[i]),
                                    .generation = plan->generation};
        plan->keys[plan->n_keys++] = (struct tg_key_spec){.name = keys[i].name,
                                                          .group = keys[i].group,
                                                          .limits = limits_for(&keys[i], model),
                                                          .owner = owner};
    }
}

static void plan_ring(const struct config *config, struct ring_plan *plan)
{
    for (size_t i = 0; i < config->n_providers; i++) {
        const struct config_provider *provider = &config->providers[i];
        plan_pool(plan, provider->name, NULL, provider->keys, provider->n_keys);
        for (size_t g = 0; g < provider->n_groups; g++)
            plan->groups[plan->n_groups++] =
                (struct tg_group_spec){.provider = provider->name,
                                       .name = provider->groups[g].name,
                                       .limits = provider->groups[g].limits};
        for (size_t k = 0; k < provider->n_keys; k++)
            if (provider->keys[k].per_key)
                plan->groups[plan->n_groups++] =
                    (struct tg_group_spec){.provider = provider->name,
                                           .name = provider->keys[k].group,
                                           .limits = provider->keys[k].limits};
    }
    for (size_t i = 0; i < config->n_models; i++) {
        const struct config_model *model = &config->models[i];
        const struct config_provider *provider = &config->providers[model->provider];
        bool own = model->n_keys > 0;
        plan_pool(plan, provider->name, model, own ? model->keys : provider->keys,
                  own ? model->n_keys : provider->n_keys);
        struct tg_pool_spec *pool = &plan->pools[plan->n_pools - 1];
        pool->breaker_failures = model->breaker_failures;
        pool->breaker_open = model->breaker_open;
        pool->affinity_ttl = model->affinity_by ? model->affinity_ttl : 0;
    }
}

static size_t generation_ring_count_keys(const struct config *config, size_t *groups)
{
    size_t n = 0;

    *groups = 0;
    for (size_t i = 0; i < config->n_providers; i++) {
        n += config->providers[i].n_keys;
        *groups += config->providers[i].n_groups + config->providers[i].n_keys;
    }
    for (size_t i = 0; i < config->n_models; i++) {
        const struct config_model *model = &config->models[i];
        n += model->n_keys > 0 ? model->n_keys : config->providers[model->provider].n_keys;
    }
    return n;
}

static enum tg_err set_ring(struct generation *generation, struct ring_plan *plan, tg_ms now,
                            struct tg_problem *why)
{
    struct gateway *gateway = generation->gateway;
    struct tg_keyring_spec spec;

    plan_ring(&generation->config, plan);
    tg_keyring_spec_init(&spec);
    spec.groups = plan->groups;
    spec.n_groups = plan->n_groups;
    spec.pools = plan->pools;
    spec.n_pools = plan->n_pools;
    spec.seed = gateway->seed;
    spec.chance = gateway->chance;
    return gateway->ring ? tg_keyring_change(gateway->ring, &spec, now, why)
                         : tg_keyring_new(&spec, &gateway->ring, why);
}

bool generation_set_ring(struct generation *generation, tg_ms now, struct tg_problem *problem)
{
    const struct config *config = &generation->config;
    struct ring_plan plan = {.generation = generation};
    struct tg_problem why;
    size_t n_groups, n_keys = generation_ring_count_keys(config, &n_groups);

    plan.pools = calloc(config->n_providers + config->n_models + 1, sizeof *plan.pools);
    plan.groups = calloc(n_groups + 1, sizeof *plan.groups);
    plan.keys = calloc(n_keys + 1, sizeof *plan.keys);
    if (generation->route_keys == NULL)
        generation->route_keys = calloc(n_keys + 1, sizeof *generation->route_keys);
    snprintf(why.text, sizeof why.text, "no memory");
    enum tg_err err = TG_ERR_MEMORY;
    if (plan.pools && plan.groups && plan.keys && generation->route_keys) {
        pthread_mutex_lock(&generation->gateway->ring_changes);
        err = set_ring(generation, &plan, now, &why);
        if (err == TG_OK)
            disabled_keys_apply(&generation->gateway->disabled, generation->gateway->ring, now);
        pthread_mutex_unlock(&generation->gateway->ring_changes);
    }
    free(plan.pools);
    free(plan.groups);
    free(plan.keys);
    return err == TG_OK || problem_fail(problem, "keys: %s", why.text);
}

/* In the order in which plan_ring() has laid them down. */
struct route_key *generation_find_key(const struct generation *generation,
                                      const struct config_provider *provider,
                                      const struct config_model *model, const char *name)
{
    const struct config *config = &generation->config;
    size_t at = 0, n = provider->n_keys;
    const struct config_model *end = config->models + config->n_models;

    if (model != NULL && (model < config->models || model >= end))
        return NULL; /* it is not listed: its pool is the provider's, and nobody's in particular */
    for (size_t i = 0; i < config->n_providers; i++) {
        if (model == NULL && &config->providers[i] == provider)
            break;
        at += config->providers[i].n_keys;
    }
    for (const struct config_model *each = config->models; model != NULL; each++) {
        n = each->n_keys > 0 ? each->n_keys : config->providers[each->provider].n_keys;
        if (each == model)
            break;
        at += n;
    }
    for (size_t i = at; i < at + n; i++)
        if (strcmp(generation->route_keys[i].config->name, name) == 0)
            return &generation->route_keys[i];
    return NULL;
}
