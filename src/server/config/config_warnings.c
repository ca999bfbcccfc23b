/* config_warnings.c - limits that cannot do what they say, and tenants that cannot call.
 *
 * A configuration can be right in every line and still not mean what its owner thinks: a bucket
 * that is smaller than the calls it is for, a slot more than there will ever be, a budget that its
 * parent's ends first. None of it is an error, since each has its uses for somebody; each is said
 * once, at the line that would have to change.
 *
 * What is compared, for each limit of tokens (`cost`, and tpm, tph, tpd of a tenant or its users):
 *
 *     the most it ever holds   against   max_output_tokens + 1 of a model
 *                              against   context of a model, where that is given
 *
 * The first is what a call that does not say how much it wants is counted with, and a prompt of one
 * token; the second is the largest call there is.
 *
 * At the end, when everything is right, so every name stands for something. Tenants may be ten
 * thousand: whatever is done for one of them visits others only by number.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "lib/core/num.h"
#include "server/config/config_reader.h"

struct warner {
    struct reader *reader;
    const struct config *config;
    int64_t *plain;  /* [model]: tokens of a call that does not say how many it wants */
    int64_t largest; /* tokens of the largest call of any model */
    bool *has_child; /* [tenant] */
    bool need_keys;  /* nobody but the owner of a key can call for a tenant */
    const struct config_tenant *tenant; /* the one that is being checked, */
    const struct yaml_node *node;       /* and where it is written */
};

static const struct yaml_node *item_of(const struct yaml_node *list, size_t i)
{
    const struct yaml_node *item = list != NULL ? list->first : NULL;

    while (item != NULL && i-- > 0)
        item = item->next;
    return item;
}

/* The i-th item of a list of the tenant, or else the list, or else the tenant. */
static const struct yaml_node *find_item(const struct warner *warner, const char *name, size_t i)
{
    const struct yaml_node *list = yaml_tree_get(warner->node, name), *item = item_of(list, i);

    return item != NULL ? item : list != NULL ? list : warner->node;
}

/* ---- Tokens ---- */

/* What it admits at most; TG_NUMBER_MAX for the meter, which lets the call pass that crosses it. */
static int64_t ceiling_of(const struct tg_limiter_config *limiter)
{
    if (limiter->strategy == TG_TOKEN_BUDGET)
        return TG_NUMBER_MAX;
    return limiter->strategy == TG_GCRA && limiter->burst > 0 ? limiter->burst : limiter->limit;
}

static bool measure_models(struct warner *warner)
{
    const struct config *config = warner->config;

    warner->plain = config_scratch(warner->reader, (config->n_models + 1) * sizeof *warner->plain);
    if (warner->plain == NULL)
        return false;
    for (size_t i = 0; i < config->n_models; i++) {
        const struct config_model *model = &config->models[i];
        warner->plain[i] = num_add(config_assumed_output(model), 1);
        warner->largest =
            num_max(warner->largest, num_max(warner->plain[i], model->stated_context));
    }
    return true;
}

static bool is_for(const struct warner *warner, const struct config_names *models, size_t model)
{
    const char *name = warner->config->models[model].name;

    assert(model < warner->config->n_models);
    return (warner->tenant == NULL ||
            config_may_use(warner->config, warner->tenant, NULL, &warner->config->models[model])) &&
           (models == NULL || models->n == 0 || config_patterns_match(models, name, strlen(name)));
}

/* One warning is enough for a limit, of the first model that it is too small for. */
static void check_tokens(struct warner *warner, const struct config_limiter *limiter,
                         const struct config_names *models, const struct yaml_node *at,
                         const char *what)
{
    int64_t ceiling = ceiling_of(&limiter->limiter);

    if (!limiter->present || limiter->axis != TG_AXIS_COST || ceiling >= warner->largest)
        return;
    for (size_t i = 0; i < warner->config->n_models; i++) {
        const struct config_model *model = &warner->config->models[i];
        if ((ceiling >= warner->plain[i] && ceiling >= model->stated_context) ||
            !is_for(warner, models, i))
            continue;
        if (ceiling < warner->plain[i])
            config_warning(warner->reader, at,
                           "%s holds at most %" PRId64 " tokens; a call of \"%.60s\" that does not "
                           "say how many it wants is counted with %" PRId64
                           " (its max_output_tokens and a prompt) and is never admitted",
                           what, ceiling, model->name, warner->plain[i]);
        else
            config_warning(warner->reader, at,
                           "%s holds at most %" PRId64 " tokens; a call of \"%.60s\" may have "
                           "%" PRId64 " (its context), and the largest are never admitted",
                           what, ceiling, model->name, model->stated_context);
        return;
    }
}

static void check_line_of_tokens(struct warner *warner, const struct config_limits *line,
                                 const struct yaml_node *at, const char *what)
{
    for (size_t i = 0; i < line->n_limiters; i++)
        check_tokens(warner, &line->limiters[i], &line->models, at, what);
}

/* A law learns from work of one kind. All calls together are of one where there is one model, or
 * none. */
static void check_gate_law(struct warner *warner, const struct yaml_node *node)
{
    const struct config *config = warner->config;
    const struct tg_law_config *law = &config->gate.concurrency.law;
    size_t kinds = config->n_models + config->n_protect;

    if (yaml_tree_get(node, "law") == NULL && yaml_tree_get(node, "initial") != NULL &&
        law->initial != law->max)
        config_warning(
            warner->reader, yaml_tree_get(node, "initial"),
            "gate.concurrency.initial has no effect: the law is none, whose limit is max "
            "(%" PRId64 "); law: fixed for a limit of %" PRId64,
            law->max, law->initial);
    if (config_law_learns(law->law) && kinds > 1)
        config_warning(
            warner->reader, config_child_or_self(node, "law"),
            "gate.concurrency.law is %s, which learns from all calls together, and those "
            "of %zu models and protected routes take different times; let each learn by "
            "itself, with models.NAME.concurrency or the concurrency of its protect "
            "route, and law: none here",
            tg_law_name(law->law), kinds);
}

static void check_gate(struct warner *warner)
{
    struct reader *reader = warner->reader;

    for (size_t i = 0; i < reader->first_extra; i++) {
        const struct yaml_node *gate = yaml_tree_get(reader->documents[i].root, "gate");
        reader->current = i;
        if (gate != NULL && yaml_tree_get(gate, "cost") != NULL)
            check_tokens(warner, &warner->config->gate.cost, NULL, yaml_tree_get(gate, "cost"),
                         "gate.cost");
        if (gate != NULL && yaml_tree_get(gate, "concurrency") != NULL)
            check_gate_law(warner, yaml_tree_get(gate, "concurrency"));
    }
}

/* Rules that nobody can ask for. */
static void check_envoy(struct warner *warner)
{
    struct reader *reader = warner->reader;
    const struct config *config = warner->config;

    for (size_t i = 0; i < reader->first_extra; i++) {
        const struct yaml_node *envoy = yaml_tree_get(reader->documents[i].root, "envoy_rls");
        reader->current = i;
        if (envoy != NULL && config->listen.grpc == NULL)
            config_warning(reader, envoy, "envoy_rls has no effect without listen.grpc");
        else if (envoy != NULL && config->envoy.auth != 0 && config->n_callers == 0)
            config_warning(reader, yaml_tree_get(envoy, "auth"),
                           "envoy_rls.auth lets nobody ask, since there are no callers");
    }
}

/* ---- Money ---- */

enum { FITS_MIN = 4 };

static const char *const periods[] = {"day", "week", "month", "total"};

/* The budget of that period that refuses first, among these. */
static const struct config_budget *least_of(const struct config_budget *budgets, size_t n,
                                            enum config_period per)
{
    const struct config_budget *least = NULL;

    for (size_t i = 0; i < n; i++)
        if (budgets[i].per == per && budgets[i].mode == CONFIG_ENFORCE &&
            (least == NULL || budgets[i].micro_usd < least->micro_usd))
            least = &budgets[i];
    return least;
}

static bool is_above(struct warner *warner, const struct config_budget *budget,
                     const struct config_budget *above, const struct yaml_node *at,
                     const char *whose, const char *name)
{
    if (above == NULL || budget->micro_usd <= above->micro_usd)
        return false;
    config_warning(
        warner->reader, at,
        "the budget of $%.6g (%s) is above the $%.6g of %s%s%.60s%s, which is used up first",
        (double)budget->micro_usd / 1e6, periods[budget->per], (double)above->micro_usd / 1e6,
        whose, *name ? " \"" : "", name, *name ? "\"" : "");
    return true;
}

static void check_budget(struct warner *warner, const struct config_budget *budget,
                         const struct config_tenant *above, const struct yaml_node *at)
{
    const struct config *config = warner->config;

    while (above != NULL) {
        if (above->mode == CONFIG_ENFORCE &&
            is_above(warner, budget, least_of(above->budgets, above->n_budgets, budget->per), at,
                     "the tenant", above->name))
            return;
        above = above->parent != CONFIG_NO_PARENT ? &config->tenants[above->parent] : NULL;
    }
    (void)is_above(warner, budget, least_of(config->budgets, config->n_budgets, budget->per), at,
                   "everyone together", "");
}

/* A reservation is for the largest call that a request may turn out to be: a budget that holds few
 * of them refuses calls that it could pay for. */
static void check_fit(struct warner *warner, const struct config_budget *budget,
                      const struct yaml_node *at)
{
    const struct config_model *largest = NULL;
    int64_t fits = config_budget_fits(warner->config, warner->tenant, budget, &largest);

    if (fits < 0 || fits >= FITS_MIN || budget->mode != CONFIG_ENFORCE)
        return;
    config_warning(warner->reader, at,
                   "the budget of $%.6g (%s) holds %" PRId64
                   " of the largest calls of \"%.60s\" at "
                   "once ($%.6g each); calls that bound their output are smaller",
                   (double)budget->micro_usd / 1e6, periods[budget->per], fits, largest->name,
                   (double)config_largest_call(largest) / 1e6);
}

static void check_fits_of_all(struct warner *warner)
{
    const struct config *config = warner->config;
    const struct yaml_node *node;

    for (struct config_walk walk = CONFIG_LIST("budgets");
         (node = config_walk_next(warner->reader, &walk)) != NULL;)
        if (walk.n <= config->n_budgets)
            check_fit(warner, &config->budgets[walk.n - 1], node);
}

static void check_budgets(struct warner *warner)
{
    const struct config_tenant *tenant = warner->tenant;
    const struct config_tenant *parent =
        tenant->parent != CONFIG_NO_PARENT ? &warner->config->tenants[tenant->parent] : NULL;
    const struct yaml_node *each =
        yaml_tree_get(yaml_tree_get(yaml_tree_get(warner->node, "users"), "each"), "budgets");

    for (size_t i = 0; i < tenant->n_budgets; i++) {
        check_budget(warner, &tenant->budgets[i], parent, find_item(warner, "budgets", i));
        check_fit(warner, &tenant->budgets[i], find_item(warner, "budgets", i));
    }
    for (size_t i = 0; i < tenant->users.n_budgets && each != NULL; i++)
        check_budget(warner, &tenant->users.budgets[i], tenant, item_of(each, i));
}

/* ---- Models ---- */

static bool uses_any(const struct warner *warner, const struct config_names *models)
{
    for (size_t i = 0; i < warner->config->n_models; i++)
        if (is_for(warner, models, i))
            return true;
    return false;
}

/* Patterns that match no model at all have been warned about: this is about those that match the
 * wrong ones. */
static bool is_warned(const struct warner *warner, const struct config_names *models)
{
    for (size_t i = 0; i < models->n; i++) {
        const char *pattern = models->names[i] + (models->names[i][0] == '!');
        const struct config_names one = {&pattern, 1};
        size_t k = 0;
        while (k < warner->config->n_models &&
               !config_patterns_match(&one, warner->config->models[k].name,
                                      strlen(warner->config->models[k].name)))
            k++;
        if (k == warner->config->n_models)
            return true;
    }
    return false;
}

static void check_models(struct warner *warner)
{
    const struct config_tenant *tenant = warner->tenant;

    if (warner->config->n_models == 0 || warner->config->unknown_model_allowed)
        return;
    if (tenant->models.n > 0 && !uses_any(warner, NULL)) {
        if (is_warned(warner, &tenant->models))
            return;
        config_warning(warner->reader, config_child_or_self(warner->node, "models"),
                       "the tenant \"%.60s\" may use none of the models", tenant->name);
        return;
    }
    for (size_t i = 0; i < tenant->n_limits; i++) {
        const struct yaml_node *line = find_item(warner, "limits", i);
        if (tenant->limits[i].models.n > 0 && !uses_any(warner, &tenant->limits[i].models) &&
            !is_warned(warner, &tenant->limits[i].models))
            config_warning(warner->reader, config_child_or_self(line, "models"),
                           "this limit is for none of the models that the tenant \"%.60s\" may use",
                           tenant->name);
    }
}

/* Only for models that the tenant names: who excludes a fallback from a pattern means it. */
static void check_fallbacks(struct warner *warner)
{
    const struct config *config = warner->config;
    const struct config_names *patterns = &warner->tenant->models;

    for (size_t i = 0; i < config->n_models && patterns->n > 0; i++) {
        const struct config_model *model = &config->models[i];
        bool named = false, usable = model->n_fallback == 0;
        for (size_t k = 0; k < patterns->n && !named; k++)
            named = strcmp(patterns->names[k], model->name) == 0;
        for (size_t k = 0; k < model->n_fallback && !usable; k++)
            usable = is_for(warner, NULL, model->fallback[k]);
        if (!named || usable || !is_for(warner, NULL, i))
            continue;
        config_warning(warner->reader, config_child_or_self(warner->node, "models"),
                       "the tenant \"%.60s\" may use \"%.60s\" and none of its fallbacks, so its "
                       "calls have no fallback",
                       warner->tenant->name, model->name);
        return;
    }
}

static void check_cheaper(struct warner *warner)
{
    const struct config *config = warner->config;

    if (warner->tenant->allow_cheaper <= 0 || config->n_models == 0)
        return;
    for (size_t i = 0; i < config->n_models; i++)
        if (config->models[i].cheaper != CONFIG_NONE && is_for(warner, NULL, i) &&
            is_for(warner, NULL, config->models[i].cheaper))
            return;
    config_warning(warner->reader, config_child_or_self(warner->node, "allow_cheaper"),
                   "no model that the tenant \"%.60s\" may use has a cheaper one that it may use",
                   warner->tenant->name);
}

/* ---- Slots and keys ---- */

static void check_concurrency(struct warner *warner)
{
    const struct config_concurrency *gate = &warner->config->gate.concurrency;
    bool fixed = gate->law.law == TG_LAW_FIXED;
    int64_t most = fixed ? gate->law.initial : gate->law.max;

    if (gate->present && gate->mode == CONFIG_ENFORCE && warner->tenant->concurrency > most)
        config_warning(
            warner->reader, config_child_or_self(warner->node, "concurrency"),
            "the tenant \"%.60s\" may have %" PRId64 " calls at once and all together %" PRId64
            " (gate.concurrency.%s): its own limit never binds",
            warner->tenant->name, warner->tenant->concurrency, most, fixed ? "initial" : "max");
}

/* Keys of files alone: those that are extras were right when they were made. */
static void check_own(struct warner *warner)
{
    const struct config_tenant *tenant = warner->tenant;

    for (size_t k = 0; k < tenant->n_keys; k++) {
        const struct config_own *own = &tenant->keys[k].own;
        const struct yaml_node *key = find_item(warner, "keys", k);
        const struct yaml_node *limits = yaml_tree_get(key, "limits");
        const struct yaml_node *budgets = yaml_tree_get(key, "budgets");
        for (size_t i = 0; i < own->n_limits && limits != NULL; i++)
            check_line_of_tokens(warner, &own->limits[i], item_of(limits, i),
                                 "this limit of a key");
        for (size_t i = 0; i < own->n_budgets && budgets != NULL; i++)
            check_budget(warner, &own->budgets[i], tenant, item_of(budgets, i));
    }
}

static void check_expiry(struct warner *warner, tg_ms now)
{
    const struct config_tenant *tenant = warner->tenant;

    for (size_t i = 0; i < tenant->n_keys; i++)
        if (!tenant->keys[i].extra && !tenant->keys[i].blocked && tenant->keys[i].not_after <= now)
            config_warning(warner->reader,
                           config_child_or_self(find_item(warner, "keys", i), "not_after"),
                           "the key \"%.60s\" of the tenant \"%.60s\" has expired",
                           tenant->keys[i].name != NULL ? tenant->keys[i].name : "", tenant->name);
    if (warner->need_keys && tenant->n_keys == 0 &&
        !warner->has_child[tenant - warner->config->tenants])
        config_warning(warner->reader, config_child_or_self(warner->node, "name"),
                       "the tenant \"%.60s\" has no key and is nobody's parent: it cannot call",
                       tenant->name);
}

/* Another gateway that asks for decisions may name any tenant, and so may a token. */
static bool need_keys(const struct config *config)
{
    if (config->callers_jwt.present)
        return false;
    for (size_t i = 0; i < config->n_callers; i++)
        if (config->callers[i].may_tenant)
            return false;
    return config->listen.gateway != NULL && config->n_models > 0;
}

static bool find_parents(struct warner *warner)
{
    const struct config *config = warner->config;

    warner->has_child =
        config_scratch(warner->reader, (config->n_tenants + 1) * sizeof *warner->has_child);
    for (size_t i = 0; warner->has_child != NULL && i < config->n_tenants; i++)
        if (config->tenants[i].parent != CONFIG_NO_PARENT) {
            assert(config->tenants[i].parent < config->n_tenants);
            warner->has_child[config->tenants[i].parent] = true;
        }
    return warner->has_child != NULL;
}

/* ---- All of it ---- */

static void check_tenant(struct warner *warner, tg_ms now)
{
    const struct config_tenant *tenant = warner->tenant;
    const struct yaml_node *users = config_child_or_self(warner->node, "users");

    check_tokens(warner, &tenant->cost, NULL, config_child_or_self(warner->node, "cost"),
                 "cost of the tenant");
    for (size_t i = 0; i < tenant->n_limits; i++)
        check_line_of_tokens(warner, &tenant->limits[i], find_item(warner, "limits", i),
                             "this limit");
    check_line_of_tokens(warner, &tenant->users.each, users, "the limit of each user");
    check_budgets(warner);
    check_models(warner);
    check_fallbacks(warner);
    check_cheaper(warner);
    check_concurrency(warner);
    check_expiry(warner, now);
    check_own(warner);
}

/* An address, or this machine. */
static bool is_own_server(const char *host)
{
    unsigned char address[16];

    return strcmp(host, "localhost") == 0 || inet_pton(AF_INET, host, address) == 1 ||
           inet_pton(AF_INET6, host, address) == 1;
}

/* Providers limit organisations, not keys: two keys of one account have one quota. A server at an
 * address of one's own has no accounts. */
static void check_groups_of_keys(struct warner *warner)
{
    struct config_walk walk = CONFIG_MAP("providers");
    const struct yaml_node *node;

    while ((node = config_walk_next(warner->reader, &walk)) != NULL) {
        const struct config_provider *provider = &warner->config->providers[walk.n - 1];
        size_t alone = 0;
        for (size_t i = 0; i < provider->n_keys; i++)
            alone += provider->keys[i].group == NULL || provider->keys[i].per_key;
        if (alone > 1 && provider->base.host != NULL && !is_own_server(provider->base.host))
            config_warning(warner->reader, config_child_or_self(node, "keys"),
                           "providers.%.60s.keys: %zu keys are in no group, and each is given its "
                           "limits in full; providers limit accounts: give the keys of one account "
                           "one `group`, and a key of another account another",
                           provider->name, alone);
    }
}

/* Several tenants with keys, and nothing that keeps one of them from having every slot. */
static void check_fairness(struct warner *warner)
{
    const struct config *config = warner->config;
    size_t callers = 0, greedy = config->n_tenants;

    if (config->gate.peers.present || config->n_models == 0)
        return;
    for (size_t i = config->n_tenants; i-- > 0;) {
        if (config->tenants[i].n_keys == 0)
            continue;
        callers++;
        if (config->tenants[i].concurrency == 0)
            greedy = i;
    }
    if (callers < 2 || greedy == config->n_tenants)
        return;
    warner->reader->current = warner->reader->places[greedy].document;
    config_warning(
        warner->reader, warner->reader->places[greedy].node,
        "the tenant \"%.60s\" may have every slot, and then no other is served; "
        "`gate: {peers: {}}` gives each 64, `concurrency` of a tenant as many as you say",
        config->tenants[greedy].name);
}

void config_warn(struct reader *reader)
{
    struct warner warner = {.reader = reader, .config = reader->config};
    const tg_ms now = (tg_ms)time(NULL) * 1000;

    if (!measure_models(&warner) || !find_parents(&warner))
        return;
    warner.need_keys = need_keys(reader->config);
    check_gate(&warner);
    check_envoy(&warner);
    check_groups_of_keys(&warner);
    check_fits_of_all(&warner);
    check_fairness(&warner);
    config_warn_of_passthrough(reader);
    config_warn_of_useless(reader);
    for (size_t i = 0; i < reader->config->n_tenants && !reader->no_memory; i++) {
        warner.tenant = &reader->config->tenants[i];
        warner.node = reader->places[i].node;
        reader->current = reader->places[i].document;
        check_tenant(&warner, now);
    }
    if (!reader->no_memory)
        config_warn_of_weak_keys(reader);
}
