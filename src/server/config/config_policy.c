/* config_policy.c - the policy of a configuration, which depends on the axes that there are.
 *
 * Prices are for what is scarce, so each needs an axis that makes it so; and a workload has to be
 * one that can be solved. Both can only be said when gate and tenants have been read, and only if
 * they were right: a limit that could not be read is not one that is missing. What stands in
 * sections that `prices` does not use is checked for keys, types and ranges alone, so that a file
 * may keep several.
 *
 * The policy is made here once, to be thrown away: there is no better check of what will be made
 * at the start, and its prices show whether it can refuse anything at all.
 */
#include <assert.h>
#include <string.h>

#include "server/config/config_reader.h"

struct policy_check {
    struct reader *reader;
    const struct yaml_node *node; /* gate.policy */
    struct config_policy *policy;
    bool typed; /* the workload's types are used */
};

void config_finish_type(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct config_type *type = into;

    (void)reader;
    type->has_hold = yaml_tree_get(node, "hold") != NULL;
}

/* ---- where ---- */

/* The key of a section of the policy; or the section, if it does not have the key; or the policy,
 * if that has not the section. */
static const struct yaml_node *find_in_policy(const struct policy_check *check, const char *section,
                                              const char *key)
{
    const struct yaml_node *found = yaml_tree_get(check->node, section);
    const struct yaml_node *inner = key != NULL ? yaml_tree_get(found, key) : NULL;

    return inner != NULL ? inner : found != NULL ? found : check->node;
}

/* The policy is in one file. */
static bool find_policy(struct reader *reader, struct policy_check *check)
{
    for (size_t i = 0; i < reader->n_documents; i++) {
        check->node = yaml_tree_get(yaml_tree_get(reader->documents[i].root, "gate"), "policy");
        reader->current = i;
        if (check->node != NULL)
            return true;
    }
    return false;
}

/* A value that a missing variable should have given, which has been warned about. */
static bool has_unknown(const struct yaml_node *node)
{
    if (node->unknown)
        return true;
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next)
        if (has_unknown(child))
            return true;
    return false;
}

/* ---- axes ---- */

static bool limits_have(const struct config_limits *limits, enum tg_axis axis)
{
    for (size_t i = 0; i < limits->n_limiters; i++)
        if (limits->limiters[i].axis == axis)
            return true;
    return false;
}

static bool tenant_has(const struct config_tenant *tenant, enum tg_axis axis)
{
    bool has = axis == TG_AXIS_RATE ? tenant->rate.present : tenant->cost.present;

    for (size_t i = 0; i < tenant->n_limits && !has; i++)
        has = limits_have(&tenant->limits[i], axis);
    return has || (tenant->users.present && limits_have(&tenant->users.each, axis));
}

/* Whether the gate, or any tenant, has a limit on the axis. */
static bool has_axis(const struct config *config, enum tg_axis axis)
{
    bool has = axis == TG_AXIS_RATE ? config->gate.rate.present : config->gate.cost.present;

    for (size_t i = 0; i < config->n_tenants && !has; i++)
        has = tenant_has(&config->tenants[i], axis);
    return has;
}

static void check_axes(const struct policy_check *check)
{
    const struct config *config = check->reader->config;
    const struct tg_duals *duals = &check->policy->duals;
    bool used = check->policy->prices == TG_PRICES_DUALS ||
                (check->policy->prices == TG_PRICES_ADAPTIVE && !check->typed);

    if (!has_axis(config, TG_AXIS_COST))
        config_error(check->reader, find_in_policy(check, "kind", NULL),
                     "gate.policy.kind is bid-price, which needs a cost axis; there must be a "
                     "gate.cost, or a cost limit of a tenant");
    if (used && duals->rate > 0 && !has_axis(config, TG_AXIS_RATE))
        config_error(check->reader, find_in_policy(check, "duals", "rate"),
                     "gate.policy.duals.rate is %g, and nothing limits the rate; it must be 0, or "
                     "there must be a gate.rate, or a rate limit of a tenant",
                     duals->rate);
    if (used && duals->concurrency > 0 && !config->gate.concurrency.present)
        config_error(check->reader, find_in_policy(check, "duals", "concurrency"),
                     "gate.policy.duals.concurrency is %g, and nothing limits concurrency; it must "
                     "be 0, or there must be a gate.concurrency",
                     duals->concurrency);
}

static void check_conc_budget(const struct policy_check *check, const char *section, tg_ms budget)
{
    if (budget > 0 && !check->reader->config->gate.concurrency.present)
        config_error(check->reader, find_in_policy(check, section, "conc_budget"),
                     "gate.policy.%s.conc_budget is given, and nothing limits concurrency; there "
                     "must be a gate.concurrency",
                     section);
}

/* ---- the workload ---- */

static void check_holds(const struct policy_check *check)
{
    const struct yaml_node *node = find_in_policy(check, "workload", "types")->first;
    bool budget = check->policy->workload.conc_budget > 0;

    for (size_t i = 0; i < check->policy->workload.n_types && node != NULL; i++) {
        const struct config_type *type = &check->policy->workload.types[i];
        if (budget && !type->has_hold)
            config_error(check->reader, node,
                         "gate.policy.workload.types[%zu]: hold is missing; with conc_budget it "
                         "must be given",
                         i);
        if (!budget && type->hold > 0)
            config_error(check->reader, yaml_tree_get(node, "hold"),
                         "gate.policy.workload.types[%zu].hold is given without conc_budget; both "
                         "must be, or neither",
                         i);
        node = node->next;
    }
}

static void missing(const struct policy_check *check, const char *key, const char *why)
{
    config_error(check->reader, find_in_policy(check, "workload", key),
                 "gate.policy.workload: %s is missing; it must be given%s", key, why);
}

static void check_workload(const struct policy_check *check)
{
    const struct config_policy *policy = check->policy;
    bool adaptive = policy->prices == TG_PRICES_ADAPTIVE;

    if (!policy->workload.present) {
        if (policy->prices != TG_PRICES_ONLINE)
            config_error(check->reader, find_in_policy(check, "prices", NULL),
                         "gate.policy.prices is %s, and there is no gate.policy.workload; it must "
                         "be given",
                         tg_prices_name((enum tg_prices)policy->prices));
        return;
    }
    if (!check->typed && !(adaptive && policy->has_duals))
        missing(check, "types",
                adaptive ? ", or duals: adaptive needs prices to start from"
                         : ", 1 to 256 of them");
    else if (!check->typed && policy->workload.arrivals == 0)
        missing(check, "arrivals", ", where there are no types");
    if (policy->workload.rate_budget == 0)
        missing(check, "rate_budget", "");
    if (policy->workload.cost_budget == 0)
        missing(check, "cost_budget", "");
    check_conc_budget(check, "workload", policy->workload.conc_budget);
    check_holds(check);
}

static void check_budget(const struct policy_check *check, enum tg_axis axis, const char *key,
                         double given)
{
    const struct config *config = check->reader->config;
    tg_ms window = check->policy->online.window;
    double limits = config_budget_of_limits(config, axis, given, window);

    if (limits > 0)
        config_warning(check->reader, find_in_policy(check, "online", key),
                       "gate.policy.online.%s is %g in %g s, and the limits let through %g, of "
                       "all tenants together; %s",
                       key, given, (double)window / 1000, limits,
                       given < limits ? "the policy refuses calls that no limit would"
                                      : "the policy counts on what the limits refuse");
}

/* Budgets that are not given are those of the limits. */
static void check_online(const struct policy_check *check)
{
    struct config_policy *policy = check->policy;
    const struct yaml_node *online = yaml_tree_get(check->node, "online");

    if (policy->prices != TG_PRICES_ONLINE)
        return;
    if (policy->online.rate_budget > 0 || policy->online.cost_budget > 0 ||
        policy->online.conc_budget > 0) {
        check_budget(check, TG_AXIS_COST, "cost_budget", policy->online.cost_budget);
        check_budget(check, TG_AXIS_RATE, "rate_budget", policy->online.rate_budget);
        check_conc_budget(check, "online", policy->online.conc_budget);
    } else if (!config_derive_budgets(check->reader->config,
                                      yaml_tree_get(online, "window") != NULL, policy)) {
        config_error(check->reader, find_in_policy(check, "online", NULL),
                     "gate.policy.online: it has no budget, and there is a tenant without a limit "
                     "to derive it from; one of rate_budget, cost_budget and conc_budget must be "
                     "given");
    }
}

/* ---- the policy ---- */

static const struct tg_type *types_of(const struct policy_check *check)
{
    size_t n = check->policy->workload.n_types;
    struct tg_type *types = config_alloc(check->reader, n * sizeof *types);

    for (size_t i = 0; i < n && types != NULL; i++) {
        const struct config_type *from = &check->policy->workload.types[i];
        types[i] = (struct tg_type){
            .cost = from->cost,
            .value = from->value,
            .weight = from->weight,
            .hold_s = from->has_hold ? (double)from->hold / 1000 : TG_NO_HOLD,
        };
    }
    return types;
}

static void fill_bid(struct policy_check *check)
{
    struct config_policy *policy = check->policy;
    struct tg_bid_config *bid = &policy->bid;

    tg_bid_config_init(bid);
    bid->prices = (enum tg_prices)policy->prices;
    bid->duals = policy->duals;
    bid->sample_window = policy->sample_window;
    if (policy->workload.present) {
        bid->workload.arrivals = (double)policy->workload.arrivals;
        bid->workload.rate_budget = policy->workload.rate_budget;
        bid->workload.cost_budget = policy->workload.cost_budget;
        bid->workload.conc_budget_s = (double)policy->workload.conc_budget / 1000;
    }
    if (check->typed) {
        bid->workload.types = types_of(check);
        bid->workload.n_types = policy->workload.n_types;
    }
    bid->online.window = policy->online.window;
    bid->online.rate_budget = policy->online.rate_budget;
    bid->online.cost_budget = policy->online.cost_budget;
    bid->online.conc_budget_s = (double)policy->online.conc_budget / 1000;
    bid->online.steady = policy->online.replenish == 1;
    bid->online.guard = policy->online.guard;
}

/* What is allowed, and hardly meant. */
static void check_prices(const struct policy_check *check, const struct tg_duals *duals)
{
    struct reader *reader = check->reader;
    bool inert = duals->rate == 0 && duals->cost == 0 && duals->concurrency == 0;

    if (check->policy->prices == TG_PRICES_ONLINE)
        return;
    if (inert && !check->typed)
        config_warning(reader, find_in_policy(check, "duals", NULL),
                       "gate.policy.duals: all prices are 0; the policy refuses nothing");
    else if (inert)
        config_warning(reader, find_in_policy(check, "workload", NULL),
                       "gate.policy.workload: everything fits into the budgets, so all prices are "
                       "0 and the policy refuses nothing; %s",
                       check->policy->workload.arrivals > 0
                           ? "the budgets must be for `arrivals` arrivals, of which weights are "
                             "shares"
                           : "weights are counts unless `arrivals` says of how many they are "
                             "shares");
    else if (check->typed && duals->rate > 0 && !has_axis(reader->config, TG_AXIS_RATE))
        config_warning(reader, find_in_policy(check, "workload", "rate_budget"),
                       "gate.policy.workload.rate_budget puts a price of %g on each call, and "
                       "nothing limits the rate",
                       duals->rate);
}

static void try_policy(const struct policy_check *check)
{
    struct tg_policy *policy;
    struct tg_problem problem;
    struct tg_duals duals;
    enum tg_err err = tg_bid_new(&check->policy->bid, &policy, &problem);

    if (err == TG_ERR_MEMORY)
        check->reader->no_memory = true;
    else if (err != TG_OK)
        config_error(check->reader, check->node, "gate.policy: %s", problem.text);
    if (err != TG_OK)
        return;
    tg_bid_get_duals(policy, &duals);
    assert(duals.rate >= 0 && duals.cost >= 0 && duals.concurrency >= 0);
    check_prices(check, &duals);
    tg_bid_free(policy);
}

void config_check_policy(struct reader *reader)
{
    struct policy_check check = {.reader = reader, .policy = &reader->config->gate.policy};

    if (!find_policy(reader, &check) || check.policy->kind != CONFIG_BID_PRICE ||
        has_unknown(check.node))
        return;
    check.typed = check.policy->workload.n_types > 0 && check.policy->prices != TG_PRICES_DUALS;
    check_axes(&check);
    if (check.policy->prices != TG_PRICES_DUALS)
        check_workload(&check);
    check_online(&check);
    if (reader->problems->errors > 0)
        return;
    fill_bid(&check);
    if (!reader->no_memory)
        try_policy(&check);
}
