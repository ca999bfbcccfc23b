/* key_place.c - where the calls of a provider's key go. See key_place.h. */
#include "server/runtime/key_place.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/upstream/access_token.h"
#include "server/upstream/route_origin.h"

/* The same key, at the same address and with the same trust. */
static const struct key_place *find_before(const struct generation *before,
                                           const struct config_provider *provider,
                                           const struct config_provider_key *key)
{
    for (size_t i = 0; before != NULL && i < before->n_places; i++) {
        const struct key_place *place = &before->places[i];
        if (strcmp(place->provider->name, provider->name) == 0 &&
            strcmp(place->key->name, key->name) == 0)
            return place;
    }
    return NULL;
}

static bool place_origin(const struct generation *generation, struct key_place *place,
                         const struct key_place *before, struct tg_problem *problem)
{
    const struct config_provider *provider = place->provider;
    const struct config_url *own = &place->key->base;

    if (own->host == NULL) {
        place->base = &provider->base;
        place->origin =
            http_origin_ref(generation->providers[provider - generation->config.providers].origin);
        return true;
    }
    place->base = own;
    if (before != NULL && before->key->base.host != NULL &&
        route_origin_same(own, provider, &before->key->base, before->provider)) {
        place->origin = http_origin_ref(before->origin);
        return true;
    }
    return route_origin_of(own, provider, &place->origin, problem);
}

static bool place_token(struct key_place *place, const struct key_place *before,
                        struct tg_problem *problem)
{
    if (place->provider->auth != CONFIG_AUTH_GCP || place->key->account == NULL)
        return true;
    if (before != NULL && before->token != NULL &&
        access_token_is_of(before->token, place->provider, place->key))
        place->token = access_token_ref(before->token);
    else
        place->token = access_token_new(place->provider, place->key, problem);
    return place->token != NULL;
}

static bool add_places(struct generation *generation, const struct generation *before,
                       const struct config_provider *provider,
                       const struct config_provider_key *keys, size_t n, struct tg_problem *problem)
{
    struct tg_problem why;

    for (size_t i = 0; i < n; i++) {
        struct key_place *place = &generation->places[generation->n_places++];
        const struct key_place *same = find_before(before, provider, &keys[i]);
        *place = (struct key_place){.provider = provider, .key = &keys[i]};
        if (!place_origin(generation, place, same, &why) || !place_token(place, same, &why))
            return problem_fail(problem, "%s, key %s: %s", provider->name, keys[i].name, why.text);
    }
    return true;
}

bool key_places_new(struct generation *generation, const struct generation *before,
                    struct tg_problem *problem)
{
    const struct config *config = &generation->config;
    size_t n = 0;

    for (size_t i = 0; i < config->n_providers; i++)
        n += config->providers[i].n_keys;
    for (size_t i = 0; i < config->n_models; i++)
        n += config->models[i].n_keys;
    generation->places = calloc(n + 1, sizeof *generation->places);
    if (generation->places == NULL)
        return problem_fail(problem, "keys: no memory");
    for (size_t i = 0; i < config->n_providers; i++) {
        const struct config_provider *provider = &config->providers[i];
        if (!add_places(generation, before, provider, provider->keys, provider->n_keys, problem))
            return false;
    }
    for (size_t i = 0; i < config->n_models; i++) {
        const struct config_model *model = &config->models[i];
        if (!add_places(generation, before, &config->providers[model->provider], model->keys,
                        model->n_keys, problem))
            return false;
    }
    assert(generation->n_places == n);
    return true;
}

void key_places_free(struct generation *generation)
{
    for (size_t i = 0; i < generation->n_places; i++) {
        http_origin_unref(generation->places[i].origin);
        access_token_unref(generation->places[i].token);
    }
    free(generation->places);
}

const struct key_place *key_place_of(const struct generation *generation,
                                     const struct config_provider_key *key)
{
    for (size_t i = 0; i < generation->n_places; i++)
        if (generation->places[i].key == key)
            return &generation->places[i];
    assert(false && "each key has its place");
    return NULL;
}
