/* test_bid_adaptive.c - prices that are learned once, held against a model that is plain.
 *
 * The model keeps the whole sample, counts kinds by looking through it from the start, and does
 * what adaptive.c says it does: solve, go through the sample with both prices, adopt the learned
 * ones if they are strictly better, and never again.
 */
#include <math.h>
#include <string.h>

#include "check.h"
#include "draw.h"

static uint64_t seed;

enum { SAMPLE_MAX = 300,
       KINDS_MAX = 64 };

struct seen {
    int64_t cost;
    double value, hold_s;
};

struct model {
    struct tg_duals duals;
    struct tg_workload per_arrival; /* the budgets */
    struct seen sample[SAMPLE_MAX];
    int64_t window, n;
};

static bool model_pays(const struct tg_duals *duals, const struct seen *call)
{
    double bid = duals->rate + duals->cost * (double)call->cost + duals->concurrency * call->hold_s;

    return call->value >= bid - bid * 1e-9;
}

static bool same_kind(const struct seen *a, const struct seen *b, bool holds)
{
    return a->cost == b->cost && a->value == b->value && (!holds || a->hold_s == b->hold_s);
}

static size_t model_kinds(const struct model *model, struct tg_type *kinds)
{
    bool holds = model->per_arrival.conc_budget_s > 0;
    size_t n = 0;

    for (int64_t i = 0; i < model->n; i++) {
        int64_t same = 0;
        bool is_first = true;
        for (int64_t j = 0; j < model->n; j++) {
            bool equal = same_kind(&model->sample[i], &model->sample[j], holds);
            same += equal;
            is_first &= !(equal && j < i);
        }
        if (is_first && n < KINDS_MAX)
            kinds[n++] = (struct tg_type){.cost = (double)model->sample[i].cost,
                                          .value = model->sample[i].value,
                                          .weight = (double)same / (double)model->n,
                                          .hold_s = holds ? model->sample[i].hold_s : TG_NO_HOLD};
    }
    return n;
}

static double model_revenue(const struct model *model, const struct tg_duals *duals)
{
    double n = (double)model->n, sum = 0;
    double rate = model->per_arrival.rate_budget * n, cost = model->per_arrival.cost_budget * n,
           conc = model->per_arrival.conc_budget_s * n;
    bool holds = model->per_arrival.conc_budget_s > 0;

    for (int64_t i = 0; i < model->n; i++) {
        const struct seen *call = &model->sample[i];
        bool fits =
            rate >= 1 && cost >= (double)call->cost && (!holds || conc >= call->hold_s);
        if (!fits || !model_pays(duals, call))
            continue;
        rate -= 1;
        cost -= (double)call->cost;
        conc -= call->hold_s;
        sum += call->value;
    }
    return sum;
}

static bool model_worth(struct model *model, const struct seen *call)
{
    if (model->n < model->window) {
        model->sample[model->n++] = *call;
        if (model->n == model->window) {
            struct tg_type kinds[KINDS_MAX];
            struct tg_workload workload = model->per_arrival;
            struct tg_duals learned;
            workload.types = kinds;
            workload.n_types = model_kinds(model, kinds);
            if (tg_fluid_solve(&workload, &learned, NULL, NULL, NULL) == TG_OK &&
                model_revenue(model, &learned) > model_revenue(model, &model->duals))
                model->duals = learned;
        }
    }
    return model_pays(&model->duals, call);
}

/* ---- both together ---- */

static bool ask(struct tg_policy *policy, const struct seen *seen)
{
    struct tg_call call;

    tg_call_init(&call);
    call.debit.cost = seen->cost;
    call.value = seen->value;
    call.hold_s = seen->hold_s;
    return policy->worth(policy, &call, 0, 0);
}

/* A policy, and the model of it. */
static struct tg_policy *begin(struct model *model, const struct tg_bid_config *config)
{
    const struct tg_workload *workload = &config->workload;
    struct tg_policy *policy = NULL;
    struct tg_problem problem = {""};
    double arrivals = workload->arrivals;

    if (tg_bid_new(config, &policy, &problem) != TG_OK)
        fail_msg("no policy: %s", problem.text);
    *model = (struct model){.duals = config->duals, .window = config->sample_window};
    if (workload->n_types > 0)
        assert_int_equal(tg_fluid_solve(workload, &model->duals, NULL, NULL, NULL), TG_OK);
    for (size_t i = 0; i < workload->n_types && workload->arrivals == 0; i++)
        arrivals += workload->types[i].weight;
    tg_workload_init(&model->per_arrival);
    model->per_arrival.rate_budget = workload->rate_budget / arrivals;
    model->per_arrival.cost_budget = workload->cost_budget / arrivals;
    model->per_arrival.conc_budget_s = workload->conc_budget_s / arrivals;
    return policy;
}

static void expect_duals(const char *what, struct tg_policy *policy, const struct tg_duals *want)
{
    struct tg_duals got;

    tg_bid_get_duals(policy, &got);
    if (got.rate != want->rate || got.cost != want->cost || got.concurrency != want->concurrency)
        fail_msg("%s: prices %g %g %g; wanted %g %g %g", what, got.rate, got.cost,
                 got.concurrency, want->rate, want->cost, want->concurrency);
}

static double drawn_hold(struct draw *draw, bool holds)
{
    return holds || draw_chance(draw, 20) ? (double)draw_between(draw, 0, 40) : 0;
}

/* What really comes: few kinds, or more than are counted. */
static struct seen drawn_call(struct draw *draw, int64_t kinds, bool holds)
{
    int64_t kind = draw_between(draw, 0, kinds - 1);

    return (struct seen){.cost = 1 + kind * 37 % 500,
                         .value = 1 + (double)(kind * 13 % 29),
                         .hold_s = kinds < 8 ? (double)(kind * 7 % 40) : drawn_hold(draw, holds)};
}

static void draw_config(struct draw *draw, struct tg_bid_config *config, struct tg_type *types)
{
    bool holds = draw_chance(draw, 50);

    tg_bid_config_init(config);
    config->prices = TG_PRICES_ADAPTIVE;
    config->sample_window = draw_between(draw, 1, SAMPLE_MAX);
    config->workload.arrivals = draw_chance(draw, 50) ? (double)draw_between(draw, 1, 1000) : 0;
    config->workload.rate_budget = (double)draw_between(draw, 1, 1500);
    config->workload.cost_budget = (double)draw_between(draw, 1, 200000);
    config->workload.conc_budget_s = holds ? (double)draw_between(draw, 1, 20000) : 0;
    config->duals = (struct tg_duals){draw_unit(draw), draw_unit(draw) * 0.1, 0};
    if (draw_chance(draw, 30)) { /* the prior is given, not solved */
        config->workload.arrivals = 1000;
        return;
    }
    config->workload.types = types;
    config->workload.n_types = (size_t)draw_between(draw, 1, 4);
    for (size_t i = 0; i < config->workload.n_types; i++)
        types[i] = (struct tg_type){.cost = (double)draw_between(draw, 0, 500),
                                    .value = (double)draw_between(draw, 1, 30),
                                    .weight = (double)draw_between(draw, 1, 500),
                                    .hold_s = holds ? (double)draw_between(draw, 0, 40)
                                                    : TG_NO_HOLD};
}

static void it_decides_as_the_model_does(void **state)
{
    struct draw draw = draw_stream(seed, 1);
    int adopted = 0, kept = 0;
    (void)state;

    for (int life = 0; life < 400; life++) {
        struct tg_bid_config config;
        struct tg_type types[4];
        struct model model;
        int64_t kinds = draw_chance(&draw, 30) ? 100 : draw_between(&draw, 1, 6);
        draw_config(&draw, &config, types);
        struct tg_policy *policy = begin(&model, &config);
        struct tg_duals prior = model.duals;
        expect_duals("the prior", policy, &prior);
        for (int64_t i = 0; i < config.sample_window + 50; i++) {
            struct seen call = drawn_call(&draw, kinds, config.workload.conc_budget_s > 0);
            if (ask(policy, &call) != model_worth(&model, &call))
                fail_msg("life %d, call %lld of a window of %lld: not as the model", life,
                         (long long)i, (long long)config.sample_window);
            expect_duals("after a call", policy, &model.duals);
        }
        bool same = memcmp(&prior, &model.duals, sizeof prior) == 0;
        adopted += !same;
        kept += same;
        tg_bid_free(policy);
    }
    print_message("%d adopted, %d kept\n", adopted, kept);
    assert_true(adopted > 50 && kept > 50);
}

/* ---- single promises ---- */

/* Large calls are believed to be worth 200, and are worth 50: the prior refuses the small ones. */
static struct tg_bid_config believed(int64_t window)
{
    static const struct tg_type types[] = {
        {.cost = 100, .value = 1, .weight = 0.5, .hold_s = TG_NO_HOLD},
        {.cost = 10000, .value = 200, .weight = 0.5, .hold_s = TG_NO_HOLD}};
    struct tg_bid_config config;

    tg_bid_config_init(&config);
    config.prices = TG_PRICES_ADAPTIVE;
    config.sample_window = window;
    config.workload.types = types;
    config.workload.n_types = 2;
    config.workload.rate_budget = 1;
    config.workload.cost_budget = 50;
    return config;
}

static const struct seen small = {100, 1, 0}, large = {10000, 50, 0};

static void the_call_that_completes_the_sample_is_judged_by_what_it_taught(void **state)
{
    struct tg_bid_config config = believed(200);
    struct model model;
    struct tg_policy *policy = begin(&model, &config);
    (void)state;

    expect_duals("believed", policy, &(struct tg_duals){0, 0.02, 0});
    for (int i = 0; i < 199; i++)
        assert_false(ask(policy, i % 2 ? &small : &large)); /* worth 1, at a price of 2 */
    assert_true(ask(policy, &small));
    expect_duals("learned", policy, &(struct tg_duals){0, 0.01, 0});
    tg_bid_free(policy);
}

static void what_was_chosen_stays_whatever_comes(void **state)
{
    struct tg_bid_config config = believed(10);
    struct model model;
    struct tg_policy *policy = begin(&model, &config);
    const struct seen other = {1, 1000000, 0};
    (void)state;

    for (int i = 0; i < 10; i++)
        ask(policy, &small);
    expect_duals("learned", policy, &(struct tg_duals){0, 0.01, 0});
    for (int i = 0; i < 10000; i++)
        ask(policy, &other);
    expect_duals("frozen", policy, &(struct tg_duals){0, 0.01, 0});
    tg_bid_free(policy);
}

/* Learned prices that earn as much, and not more, are not adopted: here everything fits, so that
 * the learned ones are 0, and the prior refuses nothing of what comes. */
static void a_tie_goes_to_the_prior(void **state)
{
    struct tg_bid_config config = believed(10);
    struct model model;
    const struct seen cheap = {1, 1, 0};
    (void)state;

    config.workload.types = NULL;
    config.workload.n_types = 0;
    config.workload.arrivals = 1;
    config.workload.rate_budget = 2;
    config.duals = (struct tg_duals){0, 0.5, 0};
    struct tg_policy *policy = begin(&model, &config);
    for (int i = 0; i < 20; i++)
        assert_true(ask(policy, &cheap));
    expect_duals("kept", policy, &config.duals);
    tg_bid_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_decides_as_the_model_does),
        cmocka_unit_test(the_call_that_completes_the_sample_is_judged_by_what_it_taught),
        cmocka_unit_test(what_was_chosen_stays_whatever_comes),
        cmocka_unit_test(a_tie_goes_to_the_prior),
    };
    seed = draw_seed("bid_adaptive");
    return cmocka_run_group_tests_name("bid_adaptive", tests, NULL, NULL);
}
