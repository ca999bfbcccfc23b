/* test_fluid_bends.c - the lowest point of a convex line, against one whose bends are sorted. */
#include <stdlib.h>

#include "check.h"
#include "draw.h"
#include "lib/policy/fluid_bends.h"

enum { BENDS_MAX = 40,
       LINES = 3000 };

static int compare_bends(const void *left, const void *right)
{
    const struct fluid_bend *a = left, *b = right;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return (a->type > b->type) - (a->type < b->type);
}

/* The first bend behind which the line does not fall; `slope` is the one behind all. */
static size_t lowest_of_sorted(const struct fluid_bend *sorted, size_t n, double slope)
{
    size_t place = n;

    while (place > 0 && slope >= 0)
        slope -= sorted[--place].turn;
    return slope < 0 && place < n ? place : slope < 0 ? n
                                                      : 0;
}

static void expect_lowest(struct fluid_bend *bends, size_t n, double slope)
{
    struct fluid_bend sorted[BENDS_MAX];

    for (size_t i = 0; i < n; i++)
        sorted[i] = bends[i];
    qsort(sorted, n, sizeof *sorted, compare_bends);
    size_t want = lowest_of_sorted(sorted, n, slope);
    assert_int_equal(fluid_bends_lowest(bends, n, slope), want);
    if (want < n)
        assert_int_equal(bends[want].type, sorted[want].type);
    /* Those before it are in front of it, in any order. */
    qsort(bends, want, sizeof *bends, compare_bends);
    for (size_t i = 0; i < want; i++)
        assert_int_equal(bends[i].type, sorted[i].type);
}

/* Turns are whole, so that sums are exact in any order, and some are 0; several are at one place.
 */
static void it_is_where_the_slope_turns(void **state)
{
    struct draw draw = draw_stream(draw_seed("test_fluid_bends"), 0);
    (void)state;

    for (int line = 0; line < LINES; line++) {
        struct fluid_bend bends[BENDS_MAX];
        size_t n = (size_t)draw_between(&draw, 0, line % 2 ? 5 : BENDS_MAX);
        double all = 0;
        for (size_t i = 0; i < n; i++) {
            bends[i] = (struct fluid_bend){(double)draw_between(&draw, 0, 12),
                                           (double)draw_between(&draw, 0, 9), (i * 17 + 5) % 41};
            all += bends[i].turn;
        }
        expect_lowest(bends, n, (double)draw_between(&draw, -1, (int64_t)all + 1));
    }
}

static void at_its_ends(void **state)
{
    struct fluid_bend bends[] = {{2, 3, 1}, {1, 4, 0}};
    (void)state;

    assert_int_equal(fluid_bends_lowest(bends, 0, -1), 0);
    assert_int_equal(fluid_bends_lowest(bends, 0, 1), 0);
    assert_int_equal(fluid_bends_lowest(bends, 2, -0.5), 2); /* it still falls behind the last */
    assert_int_equal(fluid_bends_lowest(bends, 2, 0), 1);    /* it is flat there */
    assert_int_equal(fluid_bends_lowest(bends, 2, 2.9), 1);
    assert_int_equal(fluid_bends_lowest(bends, 2, 3), 0); /* flat between them */
    assert_int_equal(fluid_bends_lowest(bends, 2, 6.9), 0);
    assert_int_equal(fluid_bends_lowest(bends, 2, 7), 0); /* it never falls */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_where_the_slope_turns),
        cmocka_unit_test(at_its_ends),
    };
    return cmocka_run_group_tests_name("fluid_bends", tests, NULL, NULL);
}
