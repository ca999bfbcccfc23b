/* contestant.c - policies under comparison: the product's, and the one that always adopts what it
 * has learned. */
#include "lab/regret/contestant.h"

#include <stdlib.h>

struct contestant contestant_greedy(void)
{
    return (struct contestant){NULL, NULL};
}

enum tg_err contestant_bid(const struct tg_bid_config *config, struct contestant *contestant)
{
    struct tg_policy *policy;
    struct tg_problem problem;
    enum tg_err err = tg_bid_new(config, &policy, &problem);

    if (!err)
        *contestant = (struct contestant){policy, tg_bid_free};
    return err;
}

void contestant_free(struct contestant *contestant)
{
    if (contestant->free != NULL)
        contestant->free(contestant->policy);
    *contestant = contestant_greedy();
}

/* ---- The learner ----------------------------------------------------------------------------- */

struct learner {
    struct tg_policy base;
    struct contestant inner; /* who decides now */
    struct tg_workload budgets;
    struct tg_type types[LEARNER_TYPES];
    size_t n_types;
    size_t seen, window, from;
};

/* A type that is new when there is no room for it is not counted. */
static void learner_count(struct learner *learner, double cost, double value)
{
    size_t i = 0;

    while (i < learner->n_types &&
           (learner->types[i].cost != cost || learner->types[i].value != value))
        i++;
    if (i == LEARNER_TYPES)
        return;
    if (i == learner->n_types) {
        tg_type_init(&learner->types[i]);
        learner->types[i].cost = cost;
        learner->types[i].value = value;
        learner->types[i].weight = 0;
        learner->n_types++;
    }
    learner->types[i].weight += 1 / (double)learner->window;
}

static enum tg_err bid_by_duals(const struct tg_duals *duals, struct contestant *contestant)
{
    struct tg_bid_config config;

    tg_bid_config_init(&config);
    config.prices = TG_PRICES_DUALS;
    config.duals = *duals;
    return contestant_bid(&config, contestant);
}

/* What cannot be learned leaves the prices as they are. */
static void learner_adopt(struct learner *learner)
{
    struct tg_workload sample = learner->budgets;
    struct tg_duals duals;
    struct contestant learned;

    sample.types = learner->types;
    sample.n_types = learner->n_types;
    if (tg_fluid_solve(&sample, &duals, NULL, NULL, NULL) != TG_OK ||
        bid_by_duals(&duals, &learned) != TG_OK)
        return;
    contestant_free(&learner->inner);
    learner->inner = learned;
}

static bool learner_worth(struct tg_policy *policy, const struct tg_call *call, int64_t in_flight,
                          tg_ms now)
{
    struct learner *learner = (struct learner *)policy;

    if (learner->seen < learner->from) {
        if (learner->seen < learner->window)
            learner_count(learner, (double)call->debit.cost, call->value);
        if (++learner->seen == learner->from)
            learner_adopt(learner);
    }
    return learner->inner.policy->worth(learner->inner.policy, call, in_flight, now);
}

static void learner_free(struct tg_policy *policy)
{
    struct learner *learner = (struct learner *)policy;

    contestant_free(&learner->inner);
    free(learner);
}

enum tg_err contestant_learner(const struct tg_workload *budgets, const struct tg_duals *first,
                               size_t window, size_t from, struct contestant *contestant)
{
    struct learner *learner = calloc(1, sizeof *learner);
    enum tg_err err = TG_ERR_MEMORY;

    if (learner == NULL)
        return err;
    learner->base.worth = learner_worth;
    learner->budgets = *budgets;
    learner->window = window;
    learner->from = from;
    err = bid_by_duals(first, &learner->inner);
    if (err) {
        free(learner);
        return err;
    }
    *contestant = (struct contestant){&learner->base, learner_free};
    return TG_OK;
}
