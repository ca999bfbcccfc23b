/* fuzz_config.c - any bytes as a configuration: read or refused, with problems that can be shown.
 *
 * No file is looked at. What is read must be good for those who will use it: limiters make
 * limiters, laws are laws, parents end.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "insist.h"
#include "server/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_problems(const struct config_problems *problems)
{
    size_t errors = 0;

    insist(problems->n <= problems->errors + problems->warnings);
    for (size_t i = 0; i < problems->n; i++) {
        const struct config_problem *problem = &problems->list[i];
        insist(problem->file != NULL && problem->text != NULL && problem->text[0] != '\0');
        insist(problem->line >= 1 && problem->column >= 1);
        errors += !problem->warning;
    }
    insist(errors <= problems->errors);
}

static void check_limiter(const struct config_limiter *limiter)
{
    struct tg_limiter made;

    if (limiter->present)
        insist(tg_limiter_init(&made, &limiter->limiter, NULL) == TG_OK);
}

static void check_limits(const struct config_limits *limits)
{
    insist(limits->n_limiters <= CONFIG_LIMITS_MAX);
    for (size_t i = 0; i < limits->n_limiters; i++)
        check_limiter(&limits->limiters[i]);
    (void)config_patterns_match(&limits->models, "demo-small", 10);
}

static void check_tenant(const struct config *config, const struct config_tenant *tenant)
{
    size_t level = 0;

    insist(config_tenant(config, tenant->name, strlen(tenant->name)) == tenant);
    for (size_t at = tenant->parent; at != CONFIG_NO_PARENT; at = config->tenants[at].parent)
        insist(at < config->n_tenants && ++level < CONFIG_LEVELS_MAX);
    insist(tenant->level == level);
    insist(tenant->weight > 0 && tenant->value >= 0 && tenant->concurrency >= 0);
    check_limiter(&tenant->rate);
    check_limiter(&tenant->cost);
    check_limits(&tenant->users.each);
    for (size_t i = 0; i < tenant->n_limits; i++)
        check_limits(&tenant->limits[i]);
    for (size_t i = 0; i < tenant->n_budgets; i++)
        insist(tenant->budgets[i].micro_usd >= 0 && tenant->budgets[i].tz != NULL);
    for (size_t i = 0; i < tenant->n_keys; i++)
        insist(tenant->keys[i].not_after >= 0);
}

static void check_model(const struct config *config, const struct config_model *model)
{
    insist(config_model(config, model->name, strlen(model->name)) ==
           (size_t)(model - config->models));
    insist(model->provider < config->n_providers || model->provider == CONFIG_NONE);
    insist(model->cheaper < config->n_models || model->cheaper == CONFIG_NONE);
    insist(model->upstream_model != NULL && model->concurrency.present);
    insist(tg_law_config_check(&model->concurrency.law, NULL) == TG_OK);
    insist(TG_FACTOR_MIN <= model->overbook.min && model->overbook.min <= model->overbook.start);
    insist(model->overbook.start <= model->overbook.max && model->overbook.max <= TG_FACTOR_MAX);
    insist(model->has_price == (model->price_from != NULL));
    insist(model->price.input >= 0 && model->price.output >= 0 && model->price.per_call >= 0);
    insist(config_assumed_output(model) > 0 && config_most_output(model) > 0);
    insist(model->most_tokens_per_s > 0 && model->rounds > 0 && model->image.factor_milli > 0);
    insist(config_served_factor(model, "priority", "fast", "us", 1000) > 0);
    insist(config_largest_call(model) >= 0);
    for (size_t i = 0; i < model->n_fallback; i++)
        insist(model->fallback[i] < config->n_models);
}

static void check_provider(const struct config_provider *provider)
{
    insist(provider->name != NULL && provider->auth_header != NULL);
    insist(provider->auth_prefix != NULL && provider->path_prefix != NULL && provider->ca != NULL);
    for (size_t i = 0; i < provider->set_headers.n; i++)
        insist(strpbrk(provider->set_headers.list[i].name, "\r\n: ") == NULL &&
               strpbrk(provider->set_headers.list[i].value, "\r\n") == NULL);
    for (size_t i = 0; i < provider->query.n; i++)
        insist(strpbrk(provider->query.list[i].value, "\r\n &=?#") == NULL);
}

static void check_config(const struct config *config)
{
    const struct config_gate *gate = &config->gate;

    insist(config->version == 1);
    insist(tg_law_config_check(&gate->concurrency.law, NULL) == TG_OK);
    insist(gate->lease_ttl >= 1 && gate->concurrency.queue.size >= 0);
    insist(gate->memory.pressure <= gate->memory.critical &&
           gate->memory.critical <= gate->memory.limit);
    check_limiter(&gate->rate);
    check_limiter(&gate->cost);
    for (size_t i = 0; i < config->n_tenants; i++)
        check_tenant(config, &config->tenants[i]);
    for (size_t i = 0; i < config->n_providers; i++)
        check_provider(&config->providers[i]);
    for (size_t i = 0; i < config->n_models; i++)
        check_model(config, &config->models[i]);
}

static void check_read(enum config_result result, struct config *config,
                       struct config_problems *problems)
{
    insist(result != CONFIG_UNREADABLE);
    insist((result == CONFIG_READ) == (problems->errors == 0));
    if (result == CONFIG_READ)
        check_config(config);
    config_free(config);
    config_problems_free(problems);
}

/* The same bytes as what the administration has made: a tenant, the name of a key. */
static void read_as_extras(const char *text, size_t size)
{
    static const char file[] =
        "tenants: [{name: top, budgets: [{usd: 1, per: day}]}, {name: a, parent: top}]";
    char name[130] = "";
    struct config config;
    struct config_problems problems;

    memcpy(name, text, size < sizeof name ? size : sizeof name - 1);
    const struct config_extra extras[] = {
        {.kind = CONFIG_EXTRA_TENANT, .name = "tenant", .tenant = "x", .text = text, .bytes = size},
        {.kind = CONFIG_EXTRA_KEY,
         .name = "key",
         .tenant = "x",
         .key = name,
         .sha256 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         .not_after = CONFIG_NEVER},
        {.kind = CONFIG_EXTRA_TOPUP,
         .name = "top-up",
         .tenant = size % 2 ? "top" : "x",
         .micro_usd = TG_NUMBER_MAX - (int64_t)size},
    };
    enum config_result result =
        config_parse_with(NULL, file, strlen(file), extras, 3, &config, &problems);
    check_read(result, &config, &problems);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config;
    struct config_problems problems;
    enum config_result result = config_parse(NULL, (const char *)data, size, &config, &problems);

    check_problems(&problems);
    check_read(result, &config, &problems);
    read_as_extras((const char *)data, size);
    return 0;
}
