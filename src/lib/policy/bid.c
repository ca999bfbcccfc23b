/* bid.c - the policy of bid prices: four sources of prices behind one interface.
 *
 *     duals, workload    numbers that never change: the path is a multiplication and a comparison
 *     adaptive           the same after its sample (adaptive.c)
 *     online             prices that move (online.c), the only ones that hear what became of a call
 *
 * What comes from a caller is made harmless here, once for all four. A call's value that is NaN or
 * negative counts as 0, since zero prices must let every call pass; a hold that is not finite or
 * negative counts as 0, since a caller that does not know its hold must not lose by it. What is
 * above TG_NUMBER_MAX counts as that, so that no sum of them overflows.
 *
 * Everything is checked when a policy is made, with the field named: a price that is wrong would
 * show by calls refused, and nobody would know why.
 */
#include "lib/policy/bid.h"

#include <math.h>

#include "lib/core/allocator.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"
#include "lib/core/sized.h"
#include "lib/policy/adaptive.h"
#include "lib/policy/online.h"

struct bid {
    struct tg_policy policy; /* first: the gate knows it by this */
    enum tg_prices prices;
    struct tg_duals duals; /* set if the prices are given, or come from a workload */
    struct adaptive *adaptive;
    struct online *online;
};

const char *tg_prices_name(enum tg_prices prices)
{
    static const char *const names[TG_PRICES_COUNT] = {
#define PRICES_NAME(upper, text) text,
        TG_PRICE_SOURCES(PRICES_NAME)
#undef PRICES_NAME
    };

    return (unsigned)prices < TG_PRICES_COUNT ? names[prices] : NULL;
}

#define BID_CONFIG_FIRST SIZED_TO(struct tg_bid_config, online)

void tg_bid_config_init_sized(struct tg_bid_config *config, size_t size)
{
    struct tg_bid_config defaults = {
        .prices = TG_PRICES_WORKLOAD,
        .sample_window = 500,
        .online = {.window = 60000, .guard = true},
    };
    tg_workload_init(&defaults.workload);
    sized_init(config, size, &defaults, sizeof defaults, BID_CONFIG_FIRST);
}

/* ---- a call's numbers ---- */

static double bid_cost_of(const struct tg_call *call)
{
    return call->debit.cost > 0 ? (double)call->debit.cost : 0;
}

static double value_of(const struct tg_call *call)
{
    return call->value > 0 ? fmin(call->value, (double)TG_NUMBER_MAX) : 0;
}

static double hold_of(double hold_s)
{
    return isfinite(hold_s) && hold_s > 0 ? fmin(hold_s, (double)TG_NUMBER_MAX) : 0;
}

/* ---- the policy ---- */

static bool fixed_worth(struct tg_policy *policy, const struct tg_call *call, int64_t in_flight,
                        tg_ms now)
{
    const struct bid *bid = (struct bid *)policy;

    (void)in_flight;
    (void)now;
    return bid_pays(&bid->duals, bid_cost_of(call), value_of(call), hold_of(call->hold_s));
}

static bool learning_worth(struct tg_policy *policy, const struct tg_call *call, int64_t in_flight,
                           tg_ms now)
{
    const struct bid *bid = (struct bid *)policy;

    (void)in_flight;
    (void)now;
    return adaptive_worth(bid->adaptive, bid_cost_of(call), value_of(call), hold_of(call->hold_s));
}

static bool moving_worth(struct tg_policy *policy, const struct tg_call *call, int64_t in_flight,
                         tg_ms now)
{
    const struct bid *bid = (struct bid *)policy;

    return online_worth(bid->online, bid_cost_of(call), value_of(call), hold_of(call->hold_s),
                        in_flight, now);
}

static void moving_admitted(struct tg_policy *policy, const struct tg_call *call, tg_ms now)
{
    const struct bid *bid = (struct bid *)policy;

    online_admitted(bid->online, bid_cost_of(call), value_of(call), hold_of(call->hold_s), now);
}

static void moving_refused(struct tg_policy *policy, const struct tg_call *call,
                           enum tg_reason reason, tg_ms now)
{
    const struct bid *bid = (struct bid *)policy;

    online_refused(bid->online, bid_cost_of(call), value_of(call), hold_of(call->hold_s), reason,
                   now);
}

static void moving_released(struct tg_policy *policy, const struct tg_spent *spent, tg_ms now)
{
    const struct bid *bid = (struct bid *)policy;
    struct tg_spent clean = *spent;

    clean.cost = num_max(0, clean.cost);
    clean.actual = num_max(0, clean.actual);
    clean.hold_s = hold_of(clean.hold_s);
    online_released(bid->online, &clean, now);
}

/* ---- checks ---- */

static bool is_price(double price)
{
    return isfinite(price) && price >= 0;
}

static enum tg_err check_duals(const struct tg_duals *duals, struct tg_problem *problem)
{
    const struct {
        const char *name;
        double price;
    } each[] = {{"rate", duals->rate}, {"cost", duals->cost}, {"concurrency", duals->concurrency}};

    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++)
        if (!is_price(each[i].price))
            return problem_say(problem, TG_ERR_INVALID,
                               "duals.%s is %g; it must be a finite number, 0 or more",
                               each[i].name, each[i].price);
    return TG_OK;
}

/* The solver knows the fields of a workload, and what is wrong with them. */
static enum tg_err solve(const struct tg_workload *workload, struct tg_duals *duals,
                         struct tg_problem *problem)
{
    struct tg_problem found = {""};
    enum tg_err err = tg_fluid_solve(workload, duals, NULL, NULL, &found);

    return err ? problem_say(problem, err, "workload.%s", found.text) : TG_OK;
}

static enum tg_err bid_check_budget(const char *name, double budget, bool may_be_0,
                                    struct tg_problem *problem)
{
    if (isfinite(budget) && (budget > 0 || (may_be_0 && budget == 0)))
        return TG_OK;
    return problem_say(problem, TG_ERR_INVALID, "%s is %g; it must be a finite number, %s", name,
                       budget, may_be_0 ? "0 or more" : "above 0");
}

/* Without types the prior is `duals`, but there must be budgets to learn with. */
static enum tg_err check_untyped(const struct tg_workload *workload, struct tg_problem *problem)
{
    enum tg_err err = TG_OK;

    if (workload->arrivals == 0)
        return problem_say(problem, TG_ERR_INVALID,
                           "workload: adaptive needs its budgets, with types to start from, or "
                           "with arrivals and duals");
    err = bid_check_budget("workload.arrivals", workload->arrivals, false, problem);
    if (!err)
        err = bid_check_budget("workload.rate_budget", workload->rate_budget, false, problem);
    if (!err)
        err = bid_check_budget("workload.cost_budget", workload->cost_budget, false, problem);
    if (!err)
        err = bid_check_budget("workload.conc_budget_s", workload->conc_budget_s, true, problem);
    return err;
}

static enum tg_err check_online(const struct tg_bid_config *config, struct tg_problem *problem)
{
    enum tg_err err = TG_OK;

    if (config->online.window < 1 || !num_in_range(config->online.window))
        return problem_say(problem, TG_ERR_INVALID,
                           "online.window is %lld ms; it must be 1 or more",
                           (long long)config->online.window);
    err = bid_check_budget("online.rate_budget", config->online.rate_budget, true, problem);
    if (!err)
        err = bid_check_budget("online.cost_budget", config->online.cost_budget, true, problem);
    if (!err)
        err = bid_check_budget("online.conc_budget_s", config->online.conc_budget_s, true, problem);
    if (!err && config->online.rate_budget == 0 && config->online.cost_budget == 0 &&
        config->online.conc_budget_s == 0)
        err = problem_say(problem, TG_ERR_INVALID,
                          "online: it has no budget; one of rate_budget, cost_budget and "
                          "conc_budget must be above 0");
    return err;
}

/* ---- making ---- */

static enum tg_err begin_workload(const struct tg_bid_config *config, struct bid *bid,
                                  struct tg_problem *problem)
{
    bid->policy.worth = fixed_worth;
    if (config->workload.n_types == 0)
        return problem_say(problem, TG_ERR_INVALID,
                           "workload.types: there are none; there must be 1 to %d", TG_TYPES_MAX);
    return solve(&config->workload, &bid->duals, problem);
}

static enum tg_err begin_duals(const struct tg_bid_config *config, struct bid *bid,
                               struct tg_problem *problem)
{
    bid->policy.worth = fixed_worth;
    bid->duals = config->duals;
    return check_duals(&config->duals, problem);
}

/* How many arrivals the budgets are for. */
static double arrivals(const struct tg_workload *workload)
{
    double sum = 0;

    if (workload->arrivals > 0)
        return workload->arrivals;
    for (size_t i = 0; i < workload->n_types; i++)
        sum += workload->types[i].weight;
    return sum;
}

static enum tg_err begin_adaptive(const struct tg_bid_config *config, struct bid *bid,
                                  struct tg_problem *problem)
{
    const struct tg_workload *workload = &config->workload;
    struct tg_duals prior = config->duals;
    bool typed = workload->n_types > 0;
    enum tg_err err = typed ? solve(workload, &prior, problem) : check_duals(&prior, problem);

    bid->policy.worth = learning_worth;
    if (!err && !typed)
        err = check_untyped(workload, problem);
    if (err)
        return err;
    if (config->sample_window < 1 || config->sample_window > 1000000)
        return problem_say(problem, TG_ERR_INVALID,
                           "sample_window is %lld calls; it must be from 1 to 1000000",
                           (long long)config->sample_window);
    double n = arrivals(workload);
    if (!(n > 0 && isfinite(n)))
        return problem_say(problem, TG_ERR_INVALID,
                           "workload.types: their weights are %g together; adaptive needs a "
                           "number above 0",
                           n);
    bid->adaptive =
        adaptive_new(&prior,
                     (struct adaptive_budgets){workload->rate_budget / n, workload->cost_budget / n,
                                               workload->conc_budget_s / n},
                     config->sample_window);
    return bid->adaptive ? TG_OK
                         : problem_say(problem, TG_ERR_MEMORY, "sample_window: %s",
                                       tg_strerror(TG_ERR_MEMORY));
}

static enum tg_err begin_online(const struct tg_bid_config *config, struct bid *bid,
                                struct tg_problem *problem)
{
    struct tg_duals unused;
    enum tg_err err = check_online(config, problem);

    bid->policy =
        (struct tg_policy){moving_worth, moving_admitted, moving_released, moving_refused};
    if (!err && config->workload.n_types > 0)
        err = solve(&config->workload, &unused, problem);
    return err ? err : online_new(config, &bid->online, problem);
}

enum tg_err tg_bid_new(const struct tg_bid_config *given, struct tg_policy **policy,
                       struct tg_problem *problem)
{
    struct tg_bid_config own;
    const struct tg_bid_config *config = &own;
    static enum tg_err (*const begin[TG_PRICES_COUNT])(const struct tg_bid_config *, struct bid *,
                                                       struct tg_problem *) = {
        [TG_PRICES_DUALS] = begin_duals,
        [TG_PRICES_WORKLOAD] = begin_workload,
        [TG_PRICES_ADAPTIVE] = begin_adaptive,
        [TG_PRICES_ONLINE] = begin_online,
    };
    struct bid *made;
    enum tg_err err =
        sized_check(&own, sizeof own, given, BID_CONFIG_FIRST, "tg_bid_config", problem);

    if (!err && !policy)
        err = problem_say(problem, TG_ERR_NULL, "policy: %s", tg_strerror(TG_ERR_NULL));
    if (err)
        return err;
    if ((unsigned)config->prices >= TG_PRICES_COUNT)
        return problem_say(problem, TG_ERR_INVALID,
                           "prices is %d; it must be duals, workload, adaptive or online",
                           (int)config->prices);
    made = mem_calloc(1, sizeof *made);
    if (!made)
        return problem_say(problem, TG_ERR_MEMORY, "policy: %s", tg_strerror(TG_ERR_MEMORY));
    made->prices = config->prices;
    err = begin[config->prices](config, made, problem);
    if (err)
        mem_free(made);
    else
        *policy = &made->policy;
    return err;
}

void tg_bid_free(struct tg_policy *policy)
{
    struct bid *bid = (struct bid *)policy;

    if (!bid)
        return;
    adaptive_free(bid->adaptive);
    online_free(bid->online);
    mem_free(bid);
}

void tg_bid_get_duals(struct tg_policy *policy, struct tg_duals *duals)
{
    const struct bid *bid = (struct bid *)policy;

    if (!bid || !duals)
        return;
    if (bid->adaptive)
        adaptive_get_duals(bid->adaptive, duals);
    else if (bid->online)
        online_get_duals(bid->online, duals);
    else
        *duals = bid->duals;
}

void tg_bid_get_guard_sized(struct tg_policy *policy, struct tg_bid_guard *given, size_t size)
{
    const struct bid *bid = (struct bid *)policy;
    struct tg_bid_guard guard = {.factor = 1};

    if (!bid)
        return;
    if (bid->online)
        online_get_guard(bid->online, &guard);
    sized_give(given, size, &guard, sizeof guard);
}

size_t tg_bid_save(struct tg_policy *policy, void *bytes, size_t room)
{
    const struct bid *bid = (struct bid *)policy;

    return bid && bid->online ? online_save(bid->online, bytes, room) : 0;
}

enum tg_err tg_bid_load(struct tg_policy *policy, const void *bytes, size_t n, tg_ms now)
{
    const struct bid *bid = (struct bid *)policy;

    if (!bid || !bytes)
        return TG_ERR_NULL;
    return bid->online && num_in_range(now) && online_load(bid->online, bytes, n, now)
               ? TG_OK
               : TG_ERR_INVALID;
}
