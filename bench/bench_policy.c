/* bench_policy.c - the speed of bid prices: given ones, and those that move.
 *
 * A thousand calls a second come into windows of a minute, with lognormal costs and values, so that
 * no two are alike; the budget of cost has room for a third of them. One time through is asking
 * and, if the call is admitted, telling so, with all re-pricing that falls due on the way.
 */
#include "benches.h"

#include <math.h>
#include <stdlib.h>

#include "lib/core/random.h"
#include "tollgate.h"

static const tg_ms NOW = 1700000000000;

enum { WINDOW = 60000, CALLS = 1 << 14 /* calls are drawn beforehand and repeated in a ring */ };

struct subject {
    struct tg_policy *policy;
    struct tg_call *calls;
    double budget;
    uint64_t n; /* calls so far; one arrives each ms */
};

static void draw_calls(struct subject *subject, double *mean_cost)
{
    struct random random;

    random_init(&random, 1, 0);
    *mean_cost = 0;
    for (size_t i = 0; i < CALLS; i++) {
        struct tg_call *call = &subject->calls[i];
        tg_call_init(call);
        call->debit.cost = 1 + (int64_t)(1000 * exp(random_normal(&random)));
        call->value = (double)call->debit.cost / 1000 * exp(random_normal(&random));
        *mean_cost += (double)call->debit.cost / CALLS;
    }
}

static void bench_policy_ask(void *context, uint64_t n)
{
    struct subject *subject = context;
    struct tg_policy *policy = subject->policy;

    for (uint64_t i = 0; i < n; i++) {
        const struct tg_call *call = &subject->calls[subject->n % CALLS];
        tg_ms now = NOW + (tg_ms)subject->n++;
        if (policy->worth(policy, call, 0, now) && policy->admitted)
            policy->admitted(policy, call, now);
    }
}

/* Each time a tenth of the budget is taken, which makes new prices due for the next call, and is
 * given back after it. */
static void price(void *context, uint64_t n)
{
    struct subject *subject = context;
    struct tg_policy *policy = subject->policy;
    struct tg_call large;

    tg_call_init(&large);
    large.debit.cost = (int64_t)(subject->budget / 10);
    for (uint64_t i = 0; i < n; i++) {
        const struct tg_call *call = &subject->calls[subject->n % CALLS];
        tg_ms now = NOW + (tg_ms)subject->n++;
        struct tg_spent spent = {.admitted_at = now, .cost = large.debit.cost};
        policy->admitted(policy, &large, now);
        (void)policy->worth(policy, call, 0, now);
        policy->released(policy, &spent, now);
    }
}

static void bench_policy_set_up(struct subject *subject, enum tg_prices prices)
{
    struct tg_bid_config config;
    double mean_cost;

    *subject = (struct subject){.calls = calloc(CALLS, sizeof *subject->calls)};
    if (subject->calls == NULL)
        abort();
    draw_calls(subject, &mean_cost);
    tg_bid_config_init(&config);
    config.prices = prices;
    config.duals.cost = 1.0 / 1000;
    config.online.window = WINDOW;
    config.online.cost_budget = subject->budget = mean_cost * WINDOW / 3;
    if (tg_bid_new(&config, &subject->policy, NULL))
        abort();
}

static void bench_policy_tear_down(struct subject *subject)
{
    tg_bid_free(subject->policy);
    free(subject->calls);
}

static struct measured duals(void)
{
    struct subject subject;

    bench_policy_set_up(&subject, TG_PRICES_DUALS);
    struct measured result = measure(bench_policy_ask, &subject, NULL, NULL);
    bench_policy_tear_down(&subject);
    return result;
}

static struct measured online(void)
{
    struct subject subject;

    bench_policy_set_up(&subject, TG_PRICES_ONLINE);
    bench_policy_ask(&subject, 5 * WINDOW); /* until there is a past to forecast from */
    struct measured result = measure(bench_policy_ask, &subject, NULL, NULL);
    bench_policy_tear_down(&subject);
    return result;
}

static struct measured online_price(void)
{
    struct subject subject;

    bench_policy_set_up(&subject, TG_PRICES_ONLINE);
    bench_policy_ask(&subject, 5 * WINDOW);
    struct measured result = measure(price, &subject, NULL, NULL);
    bench_policy_tear_down(&subject);
    result.value /= 1000;
    result.low /= 1000;
    result.high /= 1000;
    return result;
}

const struct bench benches_of_policy[] = {
    {"policy_duals", "ask whether a call is worth given prices", "ns", NAN, duals},
    {"policy_online", "the same where prices move, and tell what is admitted", "ns", 100, online},
    {"policy_online_price", "one re-pricing of it", "us", NAN, online_price},
    {NULL, NULL, NULL, 0, NULL},
};
