/* test_fluid_polygon.c - what is left of a square after cuts, and on which planes its sides are. */
#include <math.h>

#include "check.h"
#include "draw.h"
#include "lib/policy/fluid_polygon.h"

enum { ROUNDS = 300,
       CUTS = 8,
       POINTS = 40 };

static double distance_of(const struct fluid_cut *cut, const double at[2])
{
    return cut->gap + cut->slope[0] * at[0] + cut->slope[1] * at[1];
}

static double area_of(const struct fluid_polygon *polygon)
{
    double twice = 0;

    for (size_t i = 0; i < polygon->n; i++) {
        const double *a = polygon->corners[i].at;
        const double *b = polygon->corners[(i + 1) % polygon->n].at;
        twice += a[0] * b[1] - a[1] * b[0];
    }
    return twice / 2;
}

/* How far inside of the side that it is next to; below 0: outside. */
static double depth_of(const struct fluid_polygon *polygon, const double at[2])
{
    double least = INFINITY;

    for (size_t i = 0; i < polygon->n; i++) {
        const double *a = polygon->corners[i].at;
        const double *b = polygon->corners[(i + 1) % polygon->n].at;
        double dx = b[0] - a[0], dy = b[1] - a[1], length = sqrt(dx * dx + dy * dy);
        if (length > 1e-9)
            least = fmin(least, (dx * (at[1] - a[1]) - dy * (at[0] - a[0])) / length);
    }
    return polygon->n > 0 ? least : -INFINITY;
}

/* Each side that a cut has made is on its plane, from end to end. */
static void expect_sides(const struct fluid_polygon *polygon, const struct fluid_cut *cuts)
{
    for (size_t i = 0; i < polygon->n; i++) {
        const struct fluid_corner *a = &polygon->corners[i];
        const struct fluid_corner *b = &polygon->corners[(i + 1) % polygon->n];
        if (a->id == FLUID_NO_PLANE) {
            assert_true((a->at[0] == b->at[0] && fabs(a->at[0]) == 4) ||
                        (a->at[1] == b->at[1] && fabs(a->at[1]) == 4));
            continue;
        }
        assert_true(fabs(distance_of(&cuts[a->id], a->at)) < 1e-9);
        assert_true(fabs(distance_of(&cuts[a->id], b->at)) < 1e-9);
    }
}

static void a_square_is_around_all(void **state)
{
    struct fluid_polygon square;
    (void)state;

    fluid_polygon_square(&square);
    assert_int_equal(square.n, 4);
    assert_true(area_of(&square) == 64);
    assert_true(depth_of(&square, (const double[2]){0, 0}) == 4);
    expect_sides(&square, NULL);
}

static void what_is_in_front_of_all_cuts_is_left(void **state)
{
    struct draw draw = draw_stream(draw_seed("test_fluid_polygon"), 0);
    long inside = 0, outside = 0, empty = 0;
    (void)state;

    for (int round = 0; round < ROUNDS; round++) {
        struct fluid_polygon polygons[2];
        struct fluid_cut cuts[CUTS];
        int now = 0;
        fluid_polygon_square(&polygons[0]);
        for (size_t k = 0; k < CUTS; k++) {
            double angle = (double)draw_between(&draw, 0, 6283) / 1000;
            double gap = (double)draw_between(&draw, -300, 3000) / 1000;
            cuts[k] = (struct fluid_cut){gap, {cos(angle), sin(angle)}, k};
            double before = area_of(&polygons[now]);
            fluid_polygon_cut(&polygons[now], &cuts[k], &polygons[1 - now]);
            double after = area_of(&polygons[1 - now]);
            assert_true(after <= before + 1e-9);
            assert_true(fluid_polygon_in_front(&polygons[now], &cuts[k]) ==
                        (polygons[now].n == 0 || before - after < 1e-12));
            now = 1 - now;
        }
        expect_sides(&polygons[now], cuts);
        empty += polygons[now].n == 0;
        for (int i = 0; i < POINTS; i++) {
            const double at[2] = {(double)draw_between(&draw, -3999, 3999) / 1000,
                                  (double)draw_between(&draw, -3999, 3999) / 1000};
            double least = INFINITY;
            for (size_t k = 0; k < CUTS; k++)
                least = fmin(least, distance_of(&cuts[k], at));
            if (fabs(least) < 1e-6)
                continue;
            assert_true((depth_of(&polygons[now], at) > 0) == (least > 0));
            inside += least > 0;
            outside += least < 0;
        }
    }
    assert_true(inside > 100 && outside > 100 && empty > 5);
}

/* A corner on the cut is kept, and makes no second one. */
static void a_cut_through_corners_adds_none(void **state)
{
    static const struct fluid_cut diagonal = {0, {1, -1}, 7}, touching = {4, {1, 0}, 8};
    struct fluid_polygon square, half;
    (void)state;

    fluid_polygon_square(&square);
    assert_true(fluid_polygon_in_front(&square, &touching));
    assert_false(fluid_polygon_in_front(&square, &diagonal));
    fluid_polygon_cut(&square, &diagonal, &half);
    assert_true(area_of(&half) == 32);
    fluid_polygon_cut(&square, &touching, &half);
    assert_true(area_of(&half) == 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_square_is_around_all),
        cmocka_unit_test(what_is_in_front_of_all_cuts_is_left),
        cmocka_unit_test(a_cut_through_corners_adds_none),
    };
    return cmocka_run_group_tests_name("fluid_polygon", tests, NULL, NULL);
}
