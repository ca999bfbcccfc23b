/* config_policy_budget.c - budgets of `prices: online` from the limits, and whether they agree.
 *
 * A policy that is told less than the limits let through refuses calls that no limit would, and its
 * guard cannot know. The usual mistake is gate.cost, which holds for each tenant that has none of
 * its own, and not for all together. So budgets that are not given are what the limits let through
 * in a window, and given ones are compared with that.
 *
 * What the limits let through is the sum over the tenants at the top: what is below them is under
 * their limits, too. If one of them has no limit on an axis, the axis has no such sum.
 */
#include <math.h>

#include "server/config/config_reader.h"

/* Given budgets that differ by more than this factor are hardly meant. */
static const double FAR = 1.25;

/* A limit as a stream: so much a ms, and how long it takes to replenish it all. */
struct flow {
    double per_ms; /* 0: there is no limit */
    double window; /* ms */
    bool steady;   /* replenished continuously */
};

static struct flow flow_of(const struct config_limiter *from)
{
    const struct tg_limiter_config *limiter = &from->limiter;
    double limit = (double)limiter->limit;
    struct flow flow = {.per_ms = limit / (double)limiter->period,
                        .window = (double)limiter->period};

    if (limiter->strategy == TG_TOKEN_BUCKET)
        flow = (struct flow){limiter->refill / 1000, limit / limiter->refill * 1000, true};
    else if (limiter->strategy == TG_GCRA)
        flow = (struct flow){
            flow.per_ms,
            (double)(limiter->burst > 0 ? limiter->burst : limiter->limit) / flow.per_ms, true};
    return flow;
}

/* The narrower of two, of which either may not be there. */
static struct flow narrower(struct flow a, struct flow b)
{
    return a.per_ms <= 0 || (b.per_ms > 0 && b.per_ms < a.per_ms) ? b : a;
}

static struct flow flow_of_limiter(const struct config_limiter *limiter)
{
    struct flow none = {.per_ms = 0};

    return limiter->present && limiter->mode == CONFIG_ENFORCE ? flow_of(limiter) : none;
}

/* All that a tenant gets on an axis; null: one that is in no file. */
static struct flow flow_of_tenant(const struct config *config, const struct config_tenant *tenant,
                                  enum tg_axis axis)
{
    bool rate = axis == TG_AXIS_RATE;
    const struct config_limiter *gate = rate ? &config->gate.rate : &config->gate.cost;
    const struct config_limiter *own = tenant == NULL ? gate : rate ? &tenant->rate : &tenant->cost;
    struct flow flow = flow_of_limiter(own->present ? own : gate);

    if (tenant != NULL && tenant->mode != CONFIG_ENFORCE)
        return (struct flow){.per_ms = 0};
    for (size_t i = 0; tenant != NULL && i < tenant->n_limits; i++)
        for (size_t k = 0; k < tenant->limits[i].n_limiters; k++)
            if (tenant->limits[i].models.n == 0 && tenant->limits[i].limiters[k].axis == axis)
                flow = narrower(flow, flow_of_limiter(&tenant->limits[i].limiters[k]));
    return flow;
}

/* What all tenants at the top get together, and the longest of their windows. */
static struct flow flow_of_all(const struct config *config, enum tg_axis axis)
{
    struct flow all = {.per_ms = 0};

    if (config->n_tenants == 0)
        return flow_of_tenant(config, NULL, axis);
    for (size_t i = 0; i < config->n_tenants; i++) {
        if (config->tenants[i].parent != CONFIG_NO_PARENT)
            continue;
        struct flow each = flow_of_tenant(config, &config->tenants[i], axis);
        if (each.per_ms <= 0)
            return each;
        if (each.window > all.window) {
            all.window = each.window;
            all.steady = each.steady;
        }
        all.per_ms += each.per_ms;
    }
    return all;
}

bool config_derive_budgets(const struct config *config, bool window_given,
                           struct config_policy *policy)
{
    struct flow cost = flow_of_all(config, TG_AXIS_COST), rate = flow_of_all(config, TG_AXIS_RATE);

    if (cost.per_ms <= 0 && rate.per_ms <= 0)
        return false;
    struct flow main = cost.per_ms > 0 ? cost : rate;
    if (!window_given) {
        policy->online.window = (tg_ms)fmin(fmax(ceil(main.window), 1), (double)TG_NUMBER_MAX);
        policy->online.replenish = main.steady;
    }
    policy->online.cost_budget = cost.per_ms * (double)policy->online.window;
    policy->online.rate_budget = rate.per_ms * (double)policy->online.window;
    return true;
}

double config_budget_of_limits(const struct config *config, enum tg_axis axis, double given,
                               tg_ms window)
{
    double all = flow_of_all(config, axis).per_ms * (double)window;
    bool agree = given <= 0 || all <= 0 || (all < FAR * given && given < FAR * all);

    return agree ? 0 : all;
}
