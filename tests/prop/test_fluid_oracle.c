/* test_fluid_oracle.c - the fluid program against two other ways to solve it, both by trying
 * everything: all plans that can be a vertex, and all prices that can. The second is the published
 * solver, with its order of candidates, tolerances and rule for equals. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "fluid_kit.h"
#include "walk.h"

#define PLAN_RUNS 100000
#define PRICE_RUNS 100000

static uint64_t seed;

/* ---- All plans: types in or out, one or two of them rationed ---- */

struct search {
    const struct fluid_case *given;
    double x[8];
    double best;
};

static void try_plan(struct search *search)
{
    double used[3];

    fluid_case_used(search->given, search->x, used);
    if (used[0] <= search->given->workload.rate_budget + 1e-9 &&
        used[1] <= search->given->workload.cost_budget + 1e-9)
        search->best = fmax(search->best, fluid_case_worth(search->given, search->x));
}

static void try_one_rationed(struct search *search, size_t a)
{
    const struct tg_type *type = &search->given->types[a];
    double used[3], kept = search->x[a];

    search->x[a] = 0;
    fluid_case_used(search->given, search->x, used);
    double by_rate = (search->given->workload.rate_budget - used[0]) / type->weight;
    double by_cost = type->cost > 0 ? (search->given->workload.cost_budget - used[1]) /
                                          (type->weight * type->cost)
                                    : 1;
    search->x[a] = fmin(1, fmin(by_rate, by_cost));
    if (search->x[a] >= 0)
        try_plan(search);
    search->x[a] = kept;
}

static void try_two_rationed(struct search *search, size_t a, size_t b)
{
    const struct tg_type *ta = &search->given->types[a], *tb = &search->given->types[b];
    double used[3], kept_a = search->x[a], kept_b = search->x[b];

    if (ta->cost == tb->cost)
        return;
    search->x[a] = search->x[b] = 0;
    fluid_case_used(search->given, search->x, used);
    double rate = search->given->workload.rate_budget - used[0];
    double cost = search->given->workload.cost_budget - used[1];
    double calls = (cost - ta->cost * rate) / (tb->cost - ta->cost);
    search->x[a] = (rate - calls) / ta->weight;
    search->x[b] = calls / tb->weight;
    if (search->x[a] >= 0 && search->x[a] <= 1 && search->x[b] >= 0 && search->x[b] <= 1)
        try_plan(search);
    search->x[a] = kept_a;
    search->x[b] = kept_b;
}

static double best_plan(const struct fluid_case *given)
{
    struct search search = {.given = given};
    size_t n = given->workload.n_types;

    for (unsigned mask = 0; mask < 1u << n; mask++) {
        for (size_t i = 0; i < n; i++)
            search.x[i] = mask >> i & 1;
        try_plan(&search);
        for (size_t a = 0; a < n; a++) {
            try_one_rationed(&search, a);
            for (size_t b = a + 1; b < n; b++)
                try_two_rationed(&search, a, b);
        }
    }
    return search.best;
}

static void no_plan_of_all_is_worth_more_where_ties_are_the_rule(void **state)
{
    struct draw draw = draw_stream(seed, 1);
    struct fluid_case given;
    (void)state;

    for (uint64_t run = 0; run < PLAN_RUNS; run++) {
        fluid_draw_ties(&draw, (size_t)draw_between(&draw, 1, 5), false, &given);
        struct fluid_answer answer = fluid_case_solve(&given);
        expect_near(answer.objective, best_plan(&given), 1e-9);
        fluid_expect_kkt(&given, &answer, run);
    }
    cases_report("all plans", PLAN_RUNS);
}

/* ---- All prices ---- */

struct prices {
    double p[3];
    double dual;
    int refused;
};

#define CANDIDATES_MAX 512

struct candidates {
    const struct fluid_case *given;
    size_t n;
    struct prices list[CANDIDATES_MAX];
};

static struct tg_duals duals_of(const struct prices *prices)
{
    return (struct tg_duals){prices->p[0], prices->p[1], prices->p[2]};
}

static void add_prices(struct candidates *all, double rate, double cost, double hold)
{
    struct prices new = {.p = {rate, cost, hold}};

    for (int axis = 0; axis < 3; axis++) {
        if (!(new.p[axis] >= -1e-9))
            return;
        new.p[axis] = fmax(new.p[axis], 0);
    }
    struct tg_duals duals = duals_of(&new);
    new.dual = fluid_case_dual(all->given, &duals);
    for (size_t i = 0; i < all->given->workload.n_types; i++)
        new.refused += fluid_case_left(all->given, &duals, i) < -1e-7;
    assert_true(all->n < CANDIDATES_MAX);
    all->list[all->n++] = new;
}

static void add_two_axes(struct candidates *all)
{
    const struct tg_type *t = all->given->types;
    size_t n = all->given->workload.n_types;

    add_prices(all, 0, 0, 0);
    for (size_t i = 0; i < n; i++) {
        add_prices(all, t[i].value, 0, 0);
        if (t[i].cost > 1e-9)
            add_prices(all, 0, t[i].value / t[i].cost, 0);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            if (fabs(t[j].cost - t[i].cost) > 1e-9) {
                double cost = (t[j].value - t[i].value) / (t[j].cost - t[i].cost);
                add_prices(all, t[i].value - cost * t[i].cost, cost, 0);
            }
}

static double det3(double m[3][3])
{
    return m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) -
           m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
           m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
}

/* Plane k: of an axis, whose price is 0 on it, or of a type, which is at its price. */
static double fill_plane(const struct fluid_case *given, size_t k, double row[3])
{
    if (k < 3) {
        for (size_t axis = 0; axis < 3; axis++)
            row[axis] = axis == k;
        return 0;
    }
    row[0] = 1;
    row[1] = given->types[k - 3].cost;
    row[2] = given->types[k - 3].hold_s;
    return given->types[k - 3].value;
}

static void add_triple(struct candidates *all, const size_t planes[3])
{
    double m[3][3], right[3], p[3];

    for (size_t i = 0; i < 3; i++)
        right[i] = fill_plane(all->given, planes[i], m[i]);
    double det = det3(m);
    if (fabs(det) < 1e-12)
        return;
    for (size_t axis = 0; axis < 3; axis++) {
        double replaced[3][3];
        for (size_t i = 0; i < 3; i++)
            for (size_t j = 0; j < 3; j++)
                replaced[i][j] = j == axis ? right[i] : m[i][j];
        p[axis] = det3(replaced) / det;
    }
    add_prices(all, p[0], p[1], p[2]);
}

static void add_three_axes(struct candidates *all)
{
    size_t n = all->given->workload.n_types + 3, k[3];

    add_prices(all, 0, 0, 0);
    for (k[0] = 0; k[0] < n; k[0]++)
        for (k[1] = k[0] + 1; k[1] < n; k[1]++)
            for (k[2] = k[1] + 1; k[2] < n; k[2]++)
                add_triple(all, k);
}

static bool comes_first(const struct prices *a, const struct prices *b)
{
    if (a->refused != b->refused)
        return a->refused > b->refused;
    for (int axis = 3; axis-- > 0;)
        if (fabs(a->p[axis] - b->p[axis]) > 1e-9)
            return a->p[axis] > b->p[axis];
    return false;
}

static struct prices best_prices(const struct fluid_case *given, double *least)
{
    struct candidates all = {.given = given};
    struct prices *best = NULL;

    if (given->workload.conc_budget_s > 0)
        add_three_axes(&all);
    else
        add_two_axes(&all);
    *least = INFINITY;
    for (size_t i = 0; i < all.n; i++)
        *least = fmin(*least, all.list[i].dual);
    for (size_t i = 0; i < all.n; i++)
        if (all.list[i].dual <= *least + 1e-7 && (best == NULL || comes_first(&all.list[i], best)))
            best = &all.list[i];
    return *best;
}

static void expect_published(struct fluid_case *given, uint64_t run)
{
    struct fluid_answer answer = fluid_case_solve(given);
    double least;
    struct prices want = best_prices(given, &least);
    const double got[3] = {answer.duals.rate, answer.duals.cost, answer.duals.concurrency};

    expect_near(answer.objective, least, 1e-7 * fmax(1, least));
    for (int axis = 0; axis < 3; axis++)
        if (fabs(got[axis] - want.p[axis]) > 1e-8 * fmax(1, want.p[axis])) {
            printf("# got %.17g %.17g %.17g\n# want %.17g %.17g %.17g, %d refused\n", got[0],
                   got[1], got[2], want.p[0], want.p[1], want.p[2], want.refused);
            fluid_print(given, &answer);
            fail_msg("run %" PRIu64 ": not the published prices", run);
        }
}

/* Types that come twice, and budgets that are used up exactly. */
static void make_faces(struct draw *draw, struct fluid_case *given)
{
    size_t n = given->workload.n_types;

    for (size_t i = 0; i < n; i++)
        if (draw_chance(draw, 20))
            given->types[i] = given->types[draw_between(draw, 0, (int64_t)n - 1)];
    fluid_use_up(draw, given);
}

static void compare_prices(bool equals, bool holds, uint64_t stream)
{
    struct draw draw = draw_stream(seed, stream);
    struct fluid_case given;

    for (uint64_t run = 0; run < PRICE_RUNS; run++) {
        size_t n = (size_t)draw_between(&draw, 1, 8);
        if (equals)
            fluid_draw_ties(&draw, n, holds, &given);
        else
            fluid_draw_usual(&draw, n, holds, &given);
        if (equals && run % 2 == 1)
            make_faces(&draw, &given);
        expect_published(&given, run);
    }
    cases_report(equals ? "all prices, with equals" : "all prices", PRICE_RUNS);
}

static void two_axes_have_the_published_prices(void **state)
{
    (void)state;
    compare_prices(false, false, 2);
}

static void two_axes_with_ties_have_the_published_prices(void **state)
{
    (void)state;
    compare_prices(true, false, 3);
}

static void three_axes_have_the_published_prices(void **state)
{
    (void)state;
    compare_prices(false, true, 4);
}

static void three_axes_with_ties_have_the_published_prices(void **state)
{
    (void)state;
    compare_prices(true, true, 5);
}

/* ---- The published plan for two axes ---- */

struct margin {
    double x[8];
    size_t types[8]; /* the types that are at their price */
    size_t n;
    double rate, cost; /* what is left for them */
};

static struct margin margin_of(const struct fluid_case *given, const struct tg_duals *duals)
{
    struct margin m = {.rate = given->workload.rate_budget, .cost = given->workload.cost_budget};

    for (size_t i = 0; i < given->workload.n_types; i++) {
        double left = fluid_case_left(given, duals, i);
        m.x[i] = left > 1e-7;
        if (fabs(left) <= 1e-7)
            m.types[m.n++] = i;
        m.rate -= m.x[i] * given->types[i].weight;
        m.cost -= m.x[i] * given->types[i].weight * given->types[i].cost;
    }
    m.rate = fmax(0, m.rate);
    m.cost = fmax(0, m.cost);
    return m;
}

/* One after the other, the cheapest or the dearest of those that are left. */
static void fill_greedily(const struct fluid_case *given, struct margin *m, bool by_rate)
{
    double left = by_rate ? m->rate : m->cost;
    bool done[8] = {false};

    for (size_t round = 0; round < m->n; round++) {
        size_t next = 8;
        for (size_t k = 0; k < m->n; k++) {
            double cost = given->types[m->types[k]].cost;
            if (!done[k] && (next == 8 || (by_rate ? cost < given->types[m->types[next]].cost
                                                   : cost > given->types[m->types[next]].cost)))
                next = k;
        }
        const struct tg_type *type = &given->types[m->types[next]];
        double all = type->weight * (by_rate ? 1 : type->cost);
        done[next] = true;
        if (all > 0) {
            m->x[m->types[next]] = fmin(1, left / all);
            left = fmax(0, left - all);
        }
    }
}

/* The first two of unlike cost share what the others leave. */
static bool share_exactly(const struct fluid_case *given, struct margin *m)
{
    const struct tg_type *t = given->types;
    size_t a = 8, b = 8;

    for (size_t i = 0; i < m->n && a == 8; i++)
        for (size_t j = i + 1; j < m->n && a == 8; j++)
            if (t[m->types[i]].cost != t[m->types[j]].cost) {
                a = m->types[i];
                b = m->types[j];
            }
    for (unsigned mask = 0; a < 8 && mask < 1u << (m->n - 2); mask++) {
        double rate = m->rate, cost = m->cost;
        unsigned bits = mask;
        for (size_t k = 0; k < m->n; k++) {
            size_t i = m->types[k];
            if (i == a || i == b)
                continue;
            m->x[i] = bits & 1;
            bits >>= 1;
            rate -= m->x[i] * t[i].weight;
            cost -= m->x[i] * t[i].weight * t[i].cost;
        }
        m->x[b] = (cost - t[a].cost * rate) / (t[b].cost - t[a].cost) / t[b].weight;
        m->x[a] = (rate - m->x[b] * t[b].weight) / t[a].weight;
        if (fmin(m->x[a], m->x[b]) >= -1e-9 && fmax(m->x[a], m->x[b]) <= 1 + 1e-9)
            return true;
    }
    return false;
}

/* False: the published way has no answer that fits. */
static bool published_plan(const struct fluid_case *given, const struct tg_duals *duals,
                           struct margin *m)
{
    *m = margin_of(given, duals);
    if (duals->rate > 1e-7 && duals->cost > 1e-7)
        return share_exactly(given, m);
    if (duals->rate > 1e-7 || duals->cost > 1e-7)
        fill_greedily(given, m, duals->rate > 1e-7);
    return true;
}

static void two_axes_have_the_published_plan_where_there_is_one(void **state)
{
    struct draw draw = draw_stream(seed, 6);
    struct fluid_case given;
    struct margin want;
    uint64_t compared = 0;
    (void)state;

    for (uint64_t run = 0; run < PRICE_RUNS; run++) {
        size_t n = (size_t)draw_between(&draw, 1, 8);
        if (run % 4 == 0)
            fluid_draw_usual(&draw, n, false, &given);
        else
            fluid_draw_ties(&draw, n, false, &given);
        if (run % 4 == 3)
            make_faces(&draw, &given);
        struct fluid_answer answer = fluid_case_solve(&given);
        if (!published_plan(&given, &answer.duals, &want))
            continue;
        compared++;
        for (size_t i = 0; i < n; i++)
            expect_near(answer.x[i], want.x[i], 1e-8);
    }
    printf("    %" PRIu64 " of %d have a published plan\n", compared, PRICE_RUNS);
    assert_true(compared > PRICE_RUNS / 10 * 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_plan_of_all_is_worth_more_where_ties_are_the_rule),
        cmocka_unit_test(two_axes_have_the_published_prices),
        cmocka_unit_test(two_axes_with_ties_have_the_published_prices),
        cmocka_unit_test(three_axes_have_the_published_prices),
        cmocka_unit_test(three_axes_with_ties_have_the_published_prices),
        cmocka_unit_test(two_axes_have_the_published_plan_where_there_is_one),
    };
    seed = draw_seed("test_fluid_oracle");
    return cmocka_run_group_tests_name("fluid_oracle", tests, NULL, NULL);
}
