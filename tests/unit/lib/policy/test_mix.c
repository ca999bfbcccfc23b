/* test_mix.c - kinds of calls: told apart while there is room, merged when there is none. */
#include "lib/policy/mix.h"

#include <math.h>
#include <string.h>

#include "check.h"
#include "draw.h"
#include "fluid_kit.h"

enum { COST_ONLY = 2,
       ALL_AXES = 7 };

static int cell_of(struct mix *mix, double value, double rate, double cost, double hold)
{
    return mix_cell(mix, value, (const double[MIX_AXES]){rate, cost, hold}, 0);
}

/* ---- telling apart ---- */

static void a_few_types_are_known_exactly(void **state)
{
    static const struct {
        double value, cost;
    } types[] = {{1, 0.001}, {2, 0.001}, {50, 0.04}, {3, 187.0 / 1000}, {1e-3, 7}};
    struct mix mix;
    int cells[COUNT_OF(types)];
    (void)state;

    mix_init(&mix, COST_ONLY);
    for (int n = 0; n < 1000; n++)
        for (size_t i = 0; i < COUNT_OF(types); i++)
            cells[i] = cell_of(&mix, types[i].value, 0, types[i].cost, 0);
    assert_int_equal(mix.n, COUNT_OF(types));
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        double exact = types[i].cost / types[i].value;
        expect_near(mix.cell[cells[i]].per_value[1], exact, 1e-12 * exact);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(cells[i], cells[j]);
    }
}

static void a_kind_is_a_ratio_whatever_the_size(void **state)
{
    struct mix mix;
    (void)state;

    mix_init(&mix, ALL_AXES);
    int cell = cell_of(&mix, 1, 0.25, 0.5, 0.125);
    assert_int_equal(cell_of(&mix, 8, 2, 4, 1), cell);
    assert_int_equal(cell_of(&mix, 0x1p-40, 0x1p-42, 0x1p-41, 0x1p-43), cell);
    assert_int_equal(mix.n, 1);
    /* Any one axis makes it another kind. */
    assert_int_not_equal(cell_of(&mix, 1, 0.5, 0.5, 0.125), cell);
    assert_int_not_equal(cell_of(&mix, 1, 0.25, 1, 0.125), cell);
    assert_int_not_equal(cell_of(&mix, 1, 0.25, 0.5, 0.25), cell);
    assert_int_equal(mix.n, 4);
}

static void an_axis_that_does_not_count_makes_no_kinds(void **state)
{
    struct mix mix;
    (void)state;

    mix_init(&mix, COST_ONLY);
    int cell = cell_of(&mix, 1, 0, 0.5, 0);
    for (int i = 1; i < 100; i++)
        assert_int_equal(cell_of(&mix, 1, i, 0.5, 1.0 / i), cell);
    assert_int_equal(mix.n, 1);
}

static void within_a_kind_ratios_lie_close(void **state)
{
    struct draw draw = draw_stream(1, 0);
    double least[MIX_CELLS], most[MIX_CELLS] = {0};
    struct mix mix;
    (void)state;

    mix_init(&mix, COST_ONLY);
    for (int i = 0; i < MIX_CELLS; i++)
        least[i] = INFINITY;
    for (int i = 0; i < 10000; i++) {
        double ratio = 1 + 30 * draw_unit(&draw); /* five octaves: 40 cells */
        int cell = cell_of(&mix, ratio, 0, 1, 0);
        least[cell] = fmin(least[cell], ratio);
        most[cell] = fmax(most[cell], ratio);
    }
    assert_int_equal(mix.dropped, 0);
    assert_in_range(mix.n, 32, 41);
    for (size_t i = 0; i < mix.n; i++)
        assert_true(most[i] <= least[i] * 1.125);
}

static void a_cell_follows_its_calls(void **state)
{
    struct mix mix;
    (void)state;

    mix_init(&mix, COST_ONLY);
    int cell = cell_of(&mix, 1.01, 0, 1, 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(cell_of(&mix, 1.01, 0, 1, 0), cell);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(cell_of(&mix, 1.1, 0, 1, 0), cell);
    expect_near(mix.cell[cell].per_value[1], 1 / 1.1, 1e-6);
}

static void a_call_that_takes_nothing_is_a_kind_too(void **state)
{
    struct mix mix;
    (void)state;

    mix_init(&mix, ALL_AXES);
    int nothing = cell_of(&mix, 1, 0, 0, 0), no_hold = cell_of(&mix, 1, 0.1, 0.1, 0);
    assert_true(nothing >= 0 && no_hold >= 0 && nothing != no_hold);
    assert_int_equal(cell_of(&mix, 77, 0, 0, 0), nothing);
    for (int a = 0; a < MIX_AXES; a++)
        assert_true(mix.cell[nothing].per_value[a] == 0);
    assert_true(mix.cell[no_hold].per_value[2] == 0);
}

static void numbers_beyond_all_bounds_stay_numbers(void **state)
{
    static const double values[] = {4.9e-324, 1e-300, 1e-18, 1, 1e18, 1e300, 1.7e308};
    static const double uses[] = {0, 4.9e-324, 1e-300, 1, 1e18};
    struct mix mix;
    (void)state;

    mix_init(&mix, ALL_AXES);
    for (int again = 0; again < 3; again++)
        for (size_t v = 0; v < COUNT_OF(values); v++)
            for (size_t u = 0; u < COUNT_OF(uses); u++)
                assert_in_range(cell_of(&mix, values[v], uses[u], uses[u], 1), 0, MIX_CELLS - 1);
    for (size_t i = 0; i < mix.n; i++)
        for (int a = 0; a < MIX_AXES; a++)
            assert_true(isfinite(mix.cell[i].per_value[a]) && mix.cell[i].per_value[a] >= 0);
}

/* ---- making room ---- */

/* A drawn call, and where it goes; makes room if there is none. Says by `to` what has moved. */
static int place(struct mix *mix, struct draw *draw, int64_t at, int64_t forget, int to[MIX_CELLS])
{
    double value = exp(20 * draw_unit(draw) - 10), use[MIX_AXES];

    for (int a = 0; a < MIX_AXES; a++)
        use[a] = draw_chance(draw, 10) ? 0 : exp(20 * draw_unit(draw) - 10);
    for (int i = 0; i < MIX_CELLS; i++)
        to[i] = i;
    int cell = mix_cell(mix, value, use, at);
    if (cell < 0) {
        mix_make_room(mix, forget, to);
        assert_true(mix->n < MIX_CELLS);
        cell = mix_cell(mix, value, use, at);
    }
    return cell;
}

/* What is kept by cell, and moved as the mix says, is all there at the end. */
static void of_a_continuum_all_is_kept_in_cells_that_suffice(void **state)
{
    struct draw draw = draw_stream(2, 0);
    double count[MIX_CELLS] = {0}, sum = 0;
    struct mix mix;
    int to[MIX_CELLS];
    (void)state;

    mix_init(&mix, ALL_AXES);
    for (int n = 1; n <= 20000; n++) {
        double moved[MIX_CELLS] = {0};
        int cell = place(&mix, &draw, 0, 0, to);
        assert_in_range(cell, 0, MIX_CELLS - 1);
        for (int i = 0; i < MIX_CELLS; i++)
            if (to[i] >= 0)
                moved[to[i]] += count[i];
        memcpy(count, moved, sizeof count);
        count[cell]++;
        assert_true(mix.n <= MIX_CELLS);
        sum = 0;
        for (size_t i = 0; i < mix.n; i++)
            sum += count[i];
        assert_true(sum == n);
    }
    assert_in_range(mix.dropped, 4, 10); /* merged often, and some are still told apart */
    assert_true(mix.n > 4);
}

static void a_merged_cell_lies_between_those_it_is_made_of(void **state)
{
    struct draw draw = draw_stream(3, 0);
    struct mix mix, before;
    int to[MIX_CELLS];
    (void)state;

    mix_init(&mix, COST_ONLY);
    while (mix.n < MIX_CELLS)
        (void)cell_of(&mix, exp(10 * draw_unit(&draw)), 0, 1, 0);
    before = mix;
    mix_make_room(&mix, 0, to);
    assert_true(mix.n < before.n);
    for (size_t i = 0; i < mix.n; i++) {
        double least = INFINITY, most = 0;
        for (int j = 0; j < MIX_CELLS; j++)
            if (to[j] == (int)i) {
                least = fmin(least, before.cell[j].per_value[1]);
                most = fmax(most, before.cell[j].per_value[1]);
            }
        double now = mix.cell[i].per_value[1];
        assert_true(now >= least * (1 - 1e-12) && now <= most * (1 + 1e-12));
    }
}

/* After a merge a call still finds the cell into which its kind has gone. */
static void a_kind_is_found_again_after_a_merge(void **state)
{
    struct draw draw = draw_stream(4, 0);
    double ratio[MIX_CELLS];
    struct mix mix;
    int to[MIX_CELLS];
    (void)state;

    mix_init(&mix, COST_ONLY);
    while (mix.n < MIX_CELLS) {
        double drawn = exp(10 * draw_unit(&draw));
        ratio[cell_of(&mix, drawn, 0, 1, 0)] = drawn;
    }
    mix_make_room(&mix, 0, to);
    size_t n = mix.n;
    for (int i = 0; i < MIX_CELLS; i++)
        assert_int_equal(cell_of(&mix, ratio[i], 0, 1, 0), to[i]);
    assert_int_equal(mix.n, n);
}

/* A cell that has been merged was last seen when the last of those it is made of was. */
static void a_merged_cell_was_seen_when_the_last_of_its_parts_was(void **state)
{
    struct draw draw = draw_stream(5, 0);
    int64_t seen_at[MIX_CELLS];
    struct mix mix;
    int to[MIX_CELLS];
    (void)state;

    mix_init(&mix, COST_ONLY);
    while (mix.n < MIX_CELLS) {
        int64_t at = draw_between(&draw, 0, 100);
        const double use[MIX_AXES] = {0, 1, 0};
        size_t n = mix.n;
        int cell = mix_cell(&mix, exp(10 * draw_unit(&draw)), use, at);
        seen_at[cell] = mix.n > n ? at : mix.cell[cell].seen_at;
    }
    mix_make_room(&mix, 0, to);
    for (size_t i = 0; i < mix.n; i++) {
        int64_t latest = -1;
        for (int j = 0; j < MIX_CELLS; j++)
            if (to[j] == (int)i && seen_at[j] > latest)
                latest = seen_at[j];
        assert_int_equal(mix.cell[i].seen_at, latest);
    }
}

static void what_was_not_seen_for_long_goes_first(void **state)
{
    struct mix mix;
    int to[MIX_CELLS];
    (void)state;

    mix_init(&mix, COST_ONLY);
    for (int i = 0; i < MIX_CELLS; i++) /* each an octave from the last */
        assert_int_equal(mix_cell(&mix, ldexp(1, i), (const double[]){0, 1, 0}, i), i);
    mix_make_room(&mix, 40, to);
    for (int i = 0; i < MIX_CELLS; i++)
        assert_int_equal(to[i], i < 40 ? -1 : i - 40);
    assert_int_equal(mix.n, MIX_CELLS - 40);
    assert_int_equal(mix.dropped, 0); /* nothing had to be merged */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_few_types_are_known_exactly),
        cmocka_unit_test(a_kind_is_a_ratio_whatever_the_size),
        cmocka_unit_test(an_axis_that_does_not_count_makes_no_kinds),
        cmocka_unit_test(within_a_kind_ratios_lie_close),
        cmocka_unit_test(a_cell_follows_its_calls),
        cmocka_unit_test(a_call_that_takes_nothing_is_a_kind_too),
        cmocka_unit_test(numbers_beyond_all_bounds_stay_numbers),
        cmocka_unit_test(of_a_continuum_all_is_kept_in_cells_that_suffice),
        cmocka_unit_test(a_merged_cell_lies_between_those_it_is_made_of),
        cmocka_unit_test(a_kind_is_found_again_after_a_merge),
        cmocka_unit_test(a_merged_cell_was_seen_when_the_last_of_its_parts_was),
        cmocka_unit_test(what_was_not_seen_for_long_goes_first),
    };
    return cmocka_run_group_tests_name("mix", tests, NULL, NULL);
}
