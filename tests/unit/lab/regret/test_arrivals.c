/* test_arrivals.c - the worlds of regret are those that were described, bit by bit or in law.
 *
 * The statistical tests have fixed seeds, so they cannot fail by chance; their bounds are four
 * deviations of what they measure, or more.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "lab/regret/arrivals.h"

#define TWO_TYPE (&drift_sets[0])
#define LOGNORMAL (&drift_sets[1])

/* ---- The published generator ---- */

static void mulberry_draws_the_published_numbers(void **state)
{
    static const struct {
        uint32_t seed, draws[3];
    } rows[] = {
        {0, {1144304738, 1416247, 958946056}},
        {1, {2693262067, 11749833, 2265367787}},
        {0xDEADBEEF, {4043151706, 1147597007, 3315858022}},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct mulberry mulberry = {rows[i].seed};
        for (size_t j = 0; j < 3; j++)
            assert_true(mulberry_unit(&mulberry) == rows[i].draws[j] * 0x1p-32);
    }
}

static void chains_start_small_as_often_as_published(void **state)
{
    static const struct {
        double rho;
        int small;
    } rows[] = {{-1, 10}, {-0.5, 10}, {0, 10}, {0.5, 9}, {1, 7}};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int small = 0;
        for (uint32_t seed = 0; seed < 20; seed++) {
            bool large[1];
            chain_draw(rows[i].rho, seed, large, 1);
            small += !large[0];
        }
        assert_int_equal(small, rows[i].small);
    }
}

static void a_chain_of_rho_one_stays_and_of_minus_one_alternates(void **state)
{
    bool large[1000];
    (void)state;

    chain_draw(1, 3, large, 1000);
    for (size_t i = 1; i < 1000; i++)
        assert_true(large[i] == large[i - 1]);
    chain_draw(-1, 3, large, 1000);
    for (size_t i = 1; i < 1000; i++)
        assert_true(large[i] != large[i - 1]);
}

/* 54093 of 60000: counted by another program. */
static void mixtures_are_the_published_ones(void **state)
{
    const struct mixture_type types[] = {{{100, 10, 15}, 1800}, {{100, 10, 200}, 200}};
    size_t first = 0;
    (void)state;

    for (uint32_t seed = 0; seed < 30; seed++) {
        struct mulberry mulberry = mixture_begin(seed);
        for (size_t i = 0; i < 2000; i++)
            first += mixture_draw(&mulberry, types, 2) == 0;
    }
    assert_int_equal(first, 54093);
}

/* ---- Drift ---- */

static struct arrival *drawn(const struct drift_set *set, const char *column, uint64_t seed)
{
    struct arrival *arrivals = calloc(DRIFT_ARRIVALS_MAX, sizeof *arrivals);

    assert_non_null(arrivals);
    for (size_t i = 0; i < set->n_columns; i++)
        if (strcmp(set->columns[i].name, column) == 0) {
            drift_draw(set, i, seed, arrivals);
            return arrivals;
        }
    fail_msg("no column %s", column);
    return arrivals;
}

static size_t length_of(const struct drift_set *set)
{
    return DRIFT_WINDOWS * set->window;
}

static bool is_large(const struct arrival *arrival)
{
    return arrival->cost == CHAIN_LARGE_COST;
}

static double log_density(const struct arrival *arrival)
{
    return log(arrival->value / (double)arrival->cost * 1000 * 100);
}

/* Correlation of neighbours, of any measure of an arrival. */
static double lag_one(const struct arrival *arrivals, size_t n,
                      double (*measure)(const struct arrival *))
{
    double mean = 0, own = 0, next = 0;

    for (size_t i = 0; i < n; i++)
        mean += measure(&arrivals[i]) / (double)n;
    for (size_t i = 0; i + 1 < n; i++) {
        double x = measure(&arrivals[i]) - mean;
        own += x * x;
        next += x * (measure(&arrivals[i + 1]) - mean);
    }
    return next / own;
}

static double size_of(const struct arrival *arrival)
{
    return is_large(arrival);
}

static void neighbours_correlate_as_the_column_says(void **state)
{
    static const struct {
        const char *column;
        double rho;
    } rows[] = {{"rho=0", 0}, {"rho=0.5", 0.5}, {"rho=0.9", 0.9}, {"rho=0.99", 0.99}};
    double n = (double)length_of(TWO_TYPE);
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arrival *arrivals = drawn(TWO_TYPE, rows[i].column, 1);
        double rho = lag_one(arrivals, length_of(TWO_TYPE), size_of);
        assert_true(fabs(rho - rows[i].rho) < 4 * sqrt((1 - rows[i].rho * rows[i].rho) / n));
        free(arrivals);
    }
}

static void an_absorbed_window_is_of_one_type(void **state)
{
    struct arrival *arrivals = drawn(TWO_TYPE, "absorbing", 1);
    size_t large = 0, changes = 0, window = TWO_TYPE->window;
    (void)state;

    for (size_t i = 0; i < length_of(TWO_TYPE); i++)
        assert_true(arrivals[i].cost == arrivals[i - i % window].cost);
    for (size_t w = 0; w < DRIFT_WINDOWS; w++) {
        large += is_large(&arrivals[w * window]);
        changes += w % 2 == 1 && arrivals[w * window].cost != arrivals[(w - 1) * window].cost;
    }
    assert_in_range(large, 14, 36);
    assert_in_range(changes, 5, 20); /* out of 25, each with a chance of a half */
    free(arrivals);
}

static void a_flip_makes_large_ones_dear_in_the_second_half(void **state)
{
    struct arrival *arrivals = drawn(TWO_TYPE, "flip", 1);
    size_t n = length_of(TWO_TYPE);
    (void)state;

    for (size_t i = 0; i < n; i++)
        assert_true(arrivals[i].value == (!is_large(&arrivals[i]) ? 1 : i > n / 2 ? 500
                                                                                  : 50));
    free(arrivals);
}

static void lognormal_arrivals_have_the_moments_of_their_law(void **state)
{
    struct arrival *arrivals = drawn(LOGNORMAL, "iid", 1);
    double n = (double)length_of(LOGNORMAL), c = 0, cc = 0, r = 0, rr = 0, cr = 0;
    (void)state;

    for (size_t i = 0; i < length_of(LOGNORMAL); i++) {
        double cost = log((double)arrivals[i].cost / 1000) - 5, density = log_density(&arrivals[i]);
        assert_true(arrivals[i].cost >= 1);
        c += cost / n;
        cc += cost * cost / n;
        r += density / n;
        rr += density * density / n;
        cr += cost * density / n;
    }
    assert_true(fabs(c) < 4 * 1.2 / sqrt(n));
    assert_true(fabs(sqrt(cc) - 1.2) < 4 * 1.2 / sqrt(2 * n));
    assert_true(fabs(r) < 4 * 0.8 / sqrt(n));
    assert_true(fabs(sqrt(rr) - 0.8) < 4 * 0.8 / sqrt(2 * n));
    assert_true(fabs(cr) < 4 * 1.2 * 0.8 / sqrt(n));
    assert_true(fabs(lag_one(arrivals, length_of(LOGNORMAL), log_density)) < 4 / sqrt(n));
    free(arrivals);
}

/* A shift of variance 1 that decays with phi, under noise of variance 0.64. */
static void densities_of_an_ar_column_follow_each_other(void **state)
{
    struct arrival *arrivals = drawn(LOGNORMAL, "ar=0.99", 1);
    (void)state;

    double rho = lag_one(arrivals, length_of(LOGNORMAL), log_density);
    assert_true(fabs(rho - 0.99 / 1.64) < 0.03);
    free(arrivals);
}

static double mean_density(const struct arrival *arrivals, size_t from, size_t n)
{
    double sum = 0;

    for (size_t i = from; i < from + n; i++)
        sum += log_density(&arrivals[i]);
    return sum / (double)n;
}

static void a_step_comes_at_half_time(void **state)
{
    struct arrival *arrivals = drawn(LOGNORMAL, "step", 1);
    size_t half = length_of(LOGNORMAL) / 2;
    (void)state;

    assert_true(fabs(mean_density(arrivals, 0, half)) < 0.02);
    assert_true(fabs(mean_density(arrivals, half, half) + 1.5) < 0.02);
    free(arrivals);
}

/* The mean of a sine over the first and the second half of its period is 2 / pi of its height. */
static void a_sine_has_a_period_of_three_windows(void **state)
{
    struct arrival *arrivals = drawn(LOGNORMAL, "sine", 1);
    size_t half = 3 * LOGNORMAL->window / 2;
    double want = 1.5 * 2 / 3.14159265358979;
    (void)state;

    for (size_t i = 0; i < 10; i++) {
        double got = mean_density(arrivals, i * half, half);
        assert_true(fabs(got - (i % 2 == 0 ? want : -want)) < 4 * 0.8 / sqrt((double)half));
    }
    free(arrivals);
}

static void every_column_and_seed_has_its_own_stream(void **state)
{
    struct arrival *first = drawn(LOGNORMAL, "iid", 1), *again = drawn(LOGNORMAL, "iid", 1);
    struct arrival *other = drawn(LOGNORMAL, "iid", 2), *sine = drawn(LOGNORMAL, "sine", 1);
    size_t same_seed = 0, same_column = 0;
    (void)state;

    for (size_t i = 0; i < length_of(LOGNORMAL); i++) {
        assert_true(first[i].cost == again[i].cost && first[i].value == again[i].value);
        same_column += first[i].cost == other[i].cost;
        same_seed += first[i].cost == sine[i].cost;
    }
    assert_true(same_column < 100 && same_seed < 100);
    free(first);
    free(again);
    free(other);
    free(sine);
}

/* The prices that are written down fill the budgets of the law that they are for. */
static void known_prices_fit_the_model(void **state)
{
    const size_t n = 200000;
    struct arrival *draws = calloc(n, sizeof *draws);
    (void)state;

    assert_non_null(draws);
    for (size_t s = 0; s < DRIFT_SETS; s++) {
        const struct drift_set *set = &drift_sets[s];
        double step = pow(set->density_high / set->density_low, 1.0 / 128), above = 0, within = 0;
        drift_draw_model(set, draws, n);
        for (size_t i = 0; i < n; i++) {
            double density = draws[i].value / (double)draws[i].cost, cost = (double)draws[i].cost;
            above += density >= set->right_price * step ? cost : 0;
            within += density >= set->right_price * (1 - 1e-9) ? cost : 0;
        }
        double budget = (double)set->budget / (double)set->window * (double)n;
        assert_true(above <= budget && budget <= within * 1.01);
    }
    free(draws);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mulberry_draws_the_published_numbers),
        cmocka_unit_test(chains_start_small_as_often_as_published),
        cmocka_unit_test(a_chain_of_rho_one_stays_and_of_minus_one_alternates),
        cmocka_unit_test(mixtures_are_the_published_ones),
        cmocka_unit_test(neighbours_correlate_as_the_column_says),
        cmocka_unit_test(an_absorbed_window_is_of_one_type),
        cmocka_unit_test(a_flip_makes_large_ones_dear_in_the_second_half),
        cmocka_unit_test(lognormal_arrivals_have_the_moments_of_their_law),
        cmocka_unit_test(densities_of_an_ar_column_follow_each_other),
        cmocka_unit_test(a_step_comes_at_half_time),
        cmocka_unit_test(a_sine_has_a_period_of_three_windows),
        cmocka_unit_test(every_column_and_seed_has_its_own_stream),
        cmocka_unit_test(known_prices_fit_the_model),
    };

    return cmocka_run_group_tests_name("arrivals", tests, NULL, NULL);
}
