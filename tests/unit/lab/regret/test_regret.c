/* test_regret.c - the tables of regret are those that were published.
 *
 * `online` is ours, and no one has published what it does: here it is only held to what it promises
 * in these worlds.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "draw.h"
#include "lab/regret/contestant.h"
#include "lab/regret/regret_suites.h"

static size_t policy_of(const struct regret_suite *suite, const char *name)
{
    for (size_t i = 0; suite->policies[i] != NULL; i++)
        if (strcmp(suite->policies[i], name) == 0)
            return i;
    fail_msg("%s has no policy %s", suite->name, name);
    return 0;
}

static void run_suite(const struct regret_suite *suite, struct regret_table *table)
{
    struct regret_options options = {.seed = 1, .seeds = suite->seeds};

    assert_int_equal(regret_run(suite, &options, table), TG_OK);
}

static void expect_percent(const char *what, const char *policy, double got, double want)
{
    if (!(fabs(got - want) <= 0.005 + 1e-9))
        fail_msg("%s, %s: %.4f, not %.2f", what, policy, got, want);
}

/* One policy down the rows from `from` on. */
static void expect_column(const struct regret_suite *suite, const struct regret_table *table,
                          size_t from, const char *policy, const double *want, size_t n)
{
    char what[64];

    assert_true(table->n_rows >= from + n);
    for (size_t i = 0; i < n; i++) {
        const struct regret_row *row = &table->rows[from + i];
        snprintf(what, sizeof what, "%s %s rho %g", suite->name, row->world ? row->world : "",
                 row->rho);
        expect_percent(what, policy, row->percent[policy_of(suite, policy)], want[i]);
    }
}

#define EXPECT_COLUMN(suite, table, from, policy, ...)                       \
    expect_column(suite, table, from, policy, (const double[]){__VA_ARGS__}, \
                  COUNT_OF(((const double[]){__VA_ARGS__})))

/* ---- The published tables ---- */

static void rho_is_as_published(void **state)
{
    const struct regret_suite *suite = &regret_rho;
    struct regret_table table;
    (void)state;

    run_suite(suite, &table);
    assert_int_equal(table.n_rows, 5);
    assert_int_equal(table.n_summary, 1);
    EXPECT_COLUMN(suite, &table, 0, "marginal", 40.00, 40.00, 40.50, 41.50, 32.50);
    EXPECT_COLUMN(suite, &table, 0, "joint", 0.00, 0.70, 1.01, 1.16, 65.00);
    EXPECT_COLUMN(suite, &table, 0, "adaptive", 0.00, 0.70, 1.01, 1.16, 32.50);
    EXPECT_COLUMN(suite, &table, 0, "hindsight", 0.00, 0.70, 1.01, 1.16, 32.50);
    const double *mean = table.summary[0].percent;
    expect_percent("mean", "marginal", mean[policy_of(suite, "marginal")], 38.90);
    expect_percent("mean", "joint", mean[policy_of(suite, "joint")], 13.57);
    expect_percent("mean", "hindsight", mean[policy_of(suite, "hindsight")], 7.07);
}

static void adaptive_is_as_published(void **state)
{
    const struct regret_suite *suite = &regret_adaptive;
    struct regret_table table;
    (void)state;

    run_suite(suite, &table);
    assert_int_equal(table.n_rows, 16);
    EXPECT_COLUMN(suite, &table, 0, "marginal", 40.00, 40.00, 40.50, 41.50, 32.50, /* A */
                  10.00, 10.00, 9.50, 8.50, 17.50,                                 /* B */
                  40.00, 40.00, 40.50, 41.50, 32.50, 16.60);                       /* C, caveat */
    EXPECT_COLUMN(suite, &table, 0, "static_prior", 0.00, 0.70, 1.01, 1.16, 65.00, 10.00, 10.00,
                  9.50, 8.50, 17.50, 100, 100, 100, 100, 100, 1.16);
    EXPECT_COLUMN(suite, &table, 0, "static_oracle", 0.00, 0.70, 1.01, 1.16, 65.00, 0, 0, 0, 0, 35,
                  0.00, 0.70, 1.01, 1.16, 65.00, 1.16);
    EXPECT_COLUMN(suite, &table, 0, "refine", 0.00, 9.94, 17.71, 21.05, 32.50, 10.05, 10.11, 9.84,
                  8.90, 17.50, 19.90, 25.16, 28.72, 30.09, 32.50, 8.45);
    EXPECT_COLUMN(suite, &table, 0, "adaptive", 0.00, 0.70, 1.01, 1.16, 32.50, 10.00, 10.02, 9.72,
                  8.59, 17.50, 19.90, 25.16, 28.72, 30.09, 32.50, 1.95);
    EXPECT_COLUMN(suite, &table, 0, "naive", 40.00, 40.00, 40.50, 41.50, 32.50, 10.00, 10.07, 9.83,
                  8.88, 17.50, 40.00, 40.00, 40.50, 41.50, 32.50, 16.60);
}

static void hog_is_as_published(void **state)
{
    const struct regret_suite *suite = &regret_hog;
    struct regret_table table;
    (void)state;

    run_suite(suite, &table);
    assert_int_equal(table.n_rows, 3);
    EXPECT_COLUMN(suite, &table, 0, "marginal", 53.27, -0.35, 35.82);
    EXPECT_COLUMN(suite, &table, 0, "two_axis", 53.27, -0.35, 35.82);
    EXPECT_COLUMN(suite, &table, 0, "three_axis", 1.93, -0.35, 35.82);
    /* Three axes see the hog that is at the margin, and only online rations it. */
    assert_true(table.rows[2].percent[policy_of(suite, "online")] <= 10);
}

/* Nobody earns more than who knows the run. */
static void nobody_beats_hindsight(void **state)
{
    static const struct regret_suite *const suites[] = {&regret_rho, &regret_adaptive};
    struct regret_table table;
    (void)state;

    for (size_t s = 0; s < COUNT_OF(suites); s++) {
        size_t hindsight = policy_of(suites[s], "hindsight");
        run_suite(suites[s], &table);
        for (size_t i = 0; i < table.n_rows; i++)
            for (size_t policy = 0; policy < hindsight; policy++)
                assert_true(table.rows[i].percent[policy] >=
                            table.rows[i].percent[hindsight] - 1e-9);
    }
}

/* ---- Drift ---- */

enum { GREEDY,
       STATIC,
       ADAPTIVE,
       ONLINE };

#define DRIFT_SEEDS 4

/* The long run of the reference, and the deviation of a result of eight seeds. */
static const struct {
    const char *prior, *column;
    double mean[3], deviation[3];
} long_run[] = {
    {"right", "rho=0", {39.57, 0, 0}, {.12, 0, 0}},
    {"right", "rho=0.5", {40.27, 0, 0}, {.18, 0, 0}},
    {"right", "rho=0.9", {41.14, .82, 1.5}, {.27, .14, 1.7}},
    {"right", "rho=0.99", {30.8, 7.2, 14.3}, {.8, .65, 3.4}},
    {"right", "rho=0.999", {8.95, 24.1, 16.5}, {.67, 2.8, 3.4}},
    {"right", "absorbing", {0, 33.6, 16.5}, {0, 2.0, 5.4}},
    {"right", "flip", {19.75, 12.93, 12.93}, {.19, .15, .15}},
    {"right", "iid", {58.6, 4.75, 7.2}, {.2, .19, 1.4}},
    {"right", "ar=0.99", {69.6, 27.3, 27.5}, {1.1, .9, 5.3}},
    {"right", "ar=0.999", {65.1, 39.6, 44.9}, {1.1, 1.6, 4.4}},
    {"right", "ar=0.9999", {59.8, 43.2, 47.5}, {.7, 2.2, 4.1}},
    {"right", "sine", {65.1, 46.5, 37.0}, {.2, .3, .7}},
    {"right", "step", {58.6, 20.9, 23.0}, {.2, .2, 1.4}},
};

static void run_drift(uint64_t seed, size_t seeds, size_t threads, struct regret_table *table)
{
    struct regret_options options = {
        .seed = seed, .seeds = seeds, .threads = threads, .leave_out = 1 << ONLINE};

    assert_int_equal(regret_run(&regret_drift, &options, table), TG_OK);
}

static const struct regret_row *row_of(const struct regret_table *table, const char *prior,
                                       const char *column)
{
    for (size_t i = 0; i < table->n_rows; i++)
        if (strcmp(table->rows[i].prior, prior) == 0 && strcmp(table->rows[i].column, column) == 0)
            return &table->rows[i];
    fail_msg("no row %s %s", prior, column);
    return NULL;
}

static void known_policies_drift_as_the_reference_does(void **state)
{
    struct regret_table table;
    (void)state;

    run_drift(1, DRIFT_SEEDS, 2, &table);
    assert_int_equal(table.n_rows, 39);
    for (size_t i = 0; i < COUNT_OF(long_run); i++) {
        const struct regret_row *row = row_of(&table, long_run[i].prior, long_run[i].column);
        for (size_t p = GREEDY; p <= ADAPTIVE; p++) {
            double bound = 4 * long_run[i].deviation[p] * sqrt(8.0 / DRIFT_SEEDS) + 0.1;
            if (!(fabs(row->percent[p] - long_run[i].mean[p]) <= bound))
                fail_msg("%s, %s: %.2f, not %.2f +- %.2f", row->column,
                         regret_drift.policies[p], row->percent[p], long_run[i].mean[p], bound);
        }
    }
    /* A prior that is wrong by 4x refuses everything, until what comes is ten times as dear. */
    for (size_t i = 0; i < 6; i++)
        assert_true(fabs(row_of(&table, "wrong", drift_sets[0].columns[i].name)->percent[STATIC] -
                         100) < 1e-9);
    assert_true(fabs(row_of(&table, "wrong", "flip")->percent[STATIC] - 16.5) < 1);
    /* Who learns from a sample gets better prices from it, but it is one sample. */
    assert_in_range((int)row_of(&table, "wrong", "rho=0")->percent[ADAPTIVE], 5, 40);
    assert_in_range((int)row_of(&table, "wrong", "iid")->percent[ADAPTIVE], 1, 40);
}

static bool is_absent(double percent)
{
    return isnan(percent) != 0;
}

static bool same_number(double a, double b)
{
    return a == b || (is_absent(a) && is_absent(b));
}

static void seeds_and_not_threads_decide(void **state)
{
    struct regret_table one, three, other;
    bool differs = false;
    (void)state;

    run_drift(7, 1, 1, &one);
    run_drift(7, 1, 3, &three);
    run_drift(8, 1, 1, &other);
    for (size_t i = 0; i < one.n_rows; i++)
        for (size_t p = 0; p < REGRET_POLICIES_MAX; p++) {
            assert_true(same_number(one.rows[i].percent[p], three.rows[i].percent[p]));
            differs = differs || !same_number(one.rows[i].percent[p], other.rows[i].percent[p]);
        }
    assert_true(differs);
}

static void who_needs_a_prior_has_no_row_without_one(void **state)
{
    struct regret_table table;
    (void)state;

    run_drift(1, 1, 2, &table);
    for (size_t i = 0; i < table.n_rows; i++) {
        bool none = strcmp(table.rows[i].prior, "none") == 0;
        assert_false(is_absent(table.rows[i].percent[GREEDY]));
        assert_true(is_absent(table.rows[i].percent[STATIC]) == none);
        assert_true(is_absent(table.rows[i].percent[ADAPTIVE]) == none);
        assert_true(is_absent(table.rows[i].percent[ONLINE])); /* left out */
    }
}

static void summaries_are_the_mean_and_the_worst_of_their_rows(void **state)
{
    struct regret_table table;
    (void)state;

    run_drift(1, 1, 2, &table);
    assert_int_equal(table.n_summary, 12);
    for (size_t i = 0; i < table.n_summary; i++) {
        const struct regret_row *summary = &table.summary[i];
        double sum = 0, worst = -INFINITY;
        int n = 0;
        for (size_t j = 0; j < table.n_rows; j++) {
            const struct regret_row *row = &table.rows[j];
            if (strcmp(row->set, summary->set) != 0 || strcmp(row->prior, summary->prior) != 0)
                continue;
            sum += row->percent[GREEDY];
            worst = fmax(worst, row->percent[GREEDY]);
            n++;
        }
        double want = strcmp(summary->measure, "mean") == 0 ? sum / n : worst;
        assert_true(fabs(summary->percent[GREEDY] - want) < 1e-9);
    }
}

/* ---- Budgets ---- */

static bool on_a_whim(struct tg_policy *policy, const struct tg_call *call, int64_t in_flight,
                      tg_ms now)
{
    (void)policy;
    (void)in_flight;
    (void)now;
    return call->value >= 0.5;
}

static void a_purse_is_never_overdrawn_and_the_policy_only_removes(void **state)
{
    struct draw draw = draw_stream(draw_seed("test_regret"), 0);
    struct tg_policy policy = {.worth = on_a_whim};
    (void)state;

    for (int i = 0; i < 2000; i++) {
        struct window_budget left = {draw_between(&draw, 0, 20), draw_magnitude(&draw, 100000)};
        for (int j = 0; j < 40; j++) {
            struct arrival arrival = {draw_magnitude(&draw, 20000), draw_unit(&draw), 0};
            struct window_budget before = left;
            bool fits = left.calls >= 1 && left.cost >= arrival.cost;
            bool priced = draw_chance(&draw, 50);
            bool want = fits && (!priced || arrival.value >= 0.5);
            bool got = window_budget_offer(&left, priced ? &policy : NULL, &arrival, 0, j);
            assert_int_equal(got, want);
            assert_int_equal(left.calls, before.calls - want);
            assert_int_equal(left.cost, before.cost - (want ? arrival.cost : 0));
            assert_true(left.calls >= 0 && left.cost >= 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rho_is_as_published),
        cmocka_unit_test(adaptive_is_as_published),
        cmocka_unit_test(hog_is_as_published),
        cmocka_unit_test(nobody_beats_hindsight),
        cmocka_unit_test(known_policies_drift_as_the_reference_does),
        cmocka_unit_test(seeds_and_not_threads_decide),
        cmocka_unit_test(who_needs_a_prior_has_no_row_without_one),
        cmocka_unit_test(summaries_are_the_mean_and_the_worst_of_their_rows),
        cmocka_unit_test(a_purse_is_never_overdrawn_and_the_policy_only_removes),
    };

    return cmocka_run_group_tests_name("regret", tests, NULL, NULL);
}
