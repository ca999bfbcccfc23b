/* config_find.c - looks up tenants and models by name, and decides who may use which model. */
#include "server/config/config.h"

#include <assert.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/config/config_index.h"

const struct config_tenant *config_tenant(const struct config *config, const char *name,
                                          size_t bytes)
{
    size_t found = config_index_get(config->index, name, bytes);

    assert(found == CONFIG_INDEX_NONE || found < config->n_tenants);
    return found != CONFIG_INDEX_NONE ? &config->tenants[found] : NULL;
}

size_t config_model(const struct config *config, const char *name, size_t bytes)
{
    size_t found = config_index_get(config->names, name, bytes);

    assert(found == CONFIG_NONE || found < config->n_models);
    return found;
}

/* `*` stands for any bytes, none too. On a mismatch the last star takes one byte more, and only the
 * last one ever has to: so time is at most pattern x name. */
static bool match_one(const char *pattern, const char *name, size_t bytes)
{
    const char *star = NULL;
    size_t at = 0, retry = 0;

    while (at < bytes) {
        if (*pattern == '*') {
            star = ++pattern;
            retry = at;
        } else if (*pattern != '\0' && *pattern == name[at]) {
            pattern++;
            at++;
        } else if (star != NULL) {
            pattern = star;
            at = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

bool config_patterns_match(const struct config_names *patterns, const char *name, size_t bytes)
{
    /* {"!demo-large"} alone means all but that one. */
    bool among = patterns->n == 0 || patterns->names[0][0] == '!';

    for (size_t i = 0; i < patterns->n; i++) {
        bool excludes = patterns->names[i][0] == '!';
        if (match_one(patterns->names[i] + excludes, name, bytes))
            among = !excludes;
    }
    return among;
}

int64_t config_assumed_output(const struct config_model *model)
{
    if (model->stated_output > 0)
        return model->stated_output;
    return model->max_output_tokens > 0 ? num_min(model->max_output_tokens, CONFIG_OUTPUT_ASSUMED)
                                        : CONFIG_OUTPUT_ASSUMED;
}

int64_t config_most_output(const struct config_model *model)
{
    return model->max_output_tokens > 0 ? model->max_output_tokens : config_assumed_output(model);
}

int64_t config_factor(const struct config_factors *factors, const char *name, size_t bytes)
{
    for (size_t i = 0; i < factors->n; i++)
        if (strlen(factors->list[i].name) == bytes &&
            memcmp(factors->list[i].name, name, bytes) == 0)
            return factors->list[i].milli;
    return 0;
}

/* What providers call a service at the plain price. */
static bool is_plain(const char *word)
{
    static const char *const plain[] = {"",       "default",       "standard",
                                        "global", "not_available", "ON_DEMAND"};

    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (strcmp(word, plain[i]) == 0)
            return true;
    return false;
}

int64_t config_served_factor(const struct config_model *model, const char *tier, const char *speed,
                             const char *geo, int64_t asked)
{
    const struct {
        const struct config_factors *factors;
        const char *word;
    } all[] = {{&model->service_tier, tier}, {&model->speed, speed}, {&model->inference_geo, geo}};
    int64_t product = 1000;
    bool told = false;

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        int64_t factor = config_factor(all[i].factors, all[i].word, strlen(all[i].word));
        told |= all[i].word[0] != '\0';
        if (factor == 0 && !is_plain(all[i].word))
            return asked; /* it has no price, so the dearest that was asked for is all there is */
        product = (product * (factor > 0 ? factor : 1000) + 999) / 1000;
    }
    return told ? num_min(product, TG_FACTOR_MILLI_MAX) : asked;
}

/* ---- passes of other models ---- */

/* Bytes of a name without the date of a version: "-20260801", "@20260801". */
static size_t undated(const char *name)
{
    size_t n = strlen(name), digits = 0;

    while (digits < n && name[n - digits - 1] >= '0' && name[n - digits - 1] <= '9')
        digits++;
    return digits == 8 && n > 9 && strchr("-@", name[n - 9]) != NULL ? n - 9 : n;
}

static bool is_named(const char *known, const char *name)
{
    size_t n = undated(name);

    return strcmp(known, name) == 0 || (strlen(known) == n && memcmp(known, name, n) == 0);
}

static const struct config_pass_price *find_pass_price(const struct config_provider *provider,
                                                       const char *name)
{
    for (size_t i = 0; i < provider->n_pass_prices; i++)
        for (size_t k = 0; k < provider->pass_prices[i].names.n; k++)
            if (is_named(provider->pass_prices[i].names.names[k], name))
                return &provider->pass_prices[i];
    return NULL;
}

bool config_is_model(const struct config_provider *provider, const struct config_model *model,
                     const char *name)
{
    bool known = false, named = false;

    if (model->upstream_model == NULL || is_named(model->upstream_model, name))
        return true; /* one that is not listed has no other name than what it was asked by */
    for (size_t i = 0; i < provider->n_pass_prices && !(known && named); i++) {
        const struct config_names *names = &provider->pass_prices[i].names;
        known = named = false;
        for (size_t k = 0; k < names->n; k++) {
            known |= strcmp(names->names[k], model->upstream_model) == 0;
            named |= is_named(names->names[k], name);
        }
    }
    return known && named;
}

tg_micro config_price_of_pass(const struct config_provider *provider,
                              const struct config_model *model, const char *name,
                              const struct tg_usage *usage)
{
    const struct config_pass_price *one = name != NULL ? find_pass_price(provider, name) : NULL;
    tg_micro most;

    if (one != NULL)
        return tg_price_of(&one->price, usage);
    most = tg_price_of(&model->price, usage);
    for (size_t i = 0; i < provider->n_pass_prices; i++)
        most = num_max(most, tg_price_of(&provider->pass_prices[i].price, usage));
    return most;
}

tg_micro config_dearest_bound(const struct config_provider *provider,
                              const struct config_model *model, const struct tg_usage_bound *bound)
{
    tg_micro most = tg_price_bound(&model->price, bound);

    for (size_t i = 0; i < provider->n_pass_prices; i++)
        most = num_max(most, tg_price_bound(&provider->pass_prices[i].price, bound));
    return most;
}

tg_micro config_largest_call(const struct config_model *model)
{
    const struct tg_usage_bound most = {.input = model->context,
                                        .output = model->max_output_tokens,
                                        .kinds = TG_INPUT_WRITE | TG_INPUT_WRITE_LONG,
                                        .factor_milli =
                                            config_factor(&model->service_tier, "auto", 4)};

    return model->context > 0 ? tg_price_bound(&model->price, &most) : 0;
}

int64_t config_budget_fits(const struct config *config, const struct config_tenant *tenant,
                           const struct config_budget *budget, const struct config_model **largest)
{
    tg_micro most = 0;

    for (size_t i = 0; i < config->n_models; i++) {
        const struct config_model *model = &config->models[i];
        tg_micro cost = config_largest_call(model);
        if (cost > most && (tenant == NULL || config_may_use(config, tenant, NULL, model))) {
            most = cost;
            *largest = model;
        }
    }
    return most > 0 ? budget->micro_usd / most : -1;
}

const struct config_key *config_find_key(const struct config_tenant *tenant, const char *name)
{
    for (size_t i = 0; i < tenant->n_keys; i++)
        if (tenant->keys[i].name != NULL && strcmp(tenant->keys[i].name, name) == 0)
            return &tenant->keys[i];
    return NULL;
}

static bool is_among_models(const struct config *config, const struct config_names *patterns,
                            const struct config_model *model)
{
    const size_t number = (size_t)(model - config->models), bytes = strlen(model->name);
    assert(number < config->n_models);
    bool among = patterns->n == 0 || patterns->names[0][0] == '!';

    for (size_t i = 0; i < patterns->n; i++) {
        bool excludes = patterns->names[i][0] == '!';
        const char *pattern = patterns->names[i] + excludes;
        if (match_one(pattern, model->name, bytes) ||
            config_model(config, pattern, strlen(pattern)) == number)
            among = !excludes;
    }
    return among;
}

bool config_may_use(const struct config *config, const struct config_tenant *tenant,
                    const struct config_key *key, const struct config_model *model)
{
    return is_among_models(config, &tenant->models, model) &&
           (key == NULL || is_among_models(config, &key->own.models, model));
}

size_t config_rule_owners(const struct config *config, size_t tenant,
                          const struct config_model *model,
                          struct rule_owner owners[RULE_OWNERS_MAX])
{
    size_t n = 0;

    for (size_t i = tenant; i != CONFIG_NO_PARENT; i = config->tenants[i].parent)
        if (config->tenants[i].rules.n > 0)
            owners[n++] =
                (struct rule_owner){"tenant", config->tenants[i].name, &config->tenants[i].rules};
    if (model != NULL && model->rules.n > 0)
        owners[n++] = (struct rule_owner){"model", model->name, &model->rules};
    assert(n <= RULE_OWNERS_MAX); /* a tenant has at most CONFIG_LEVELS_MAX levels */
    return n;
}
