/* test_regret_guard.c - a guarded policy is never more than a point worse than none, as
 * docs/bid-price.md says. */
#include <stdlib.h>

#include "check.h"
#include "lab/regret/regret.h"

enum { GREEDY,
       ONLINE,
       GUARDED };

static void in_no_world_is_a_guarded_policy_a_point_worse_than_none(void **state)
{
    struct regret_table *table = calloc(1, sizeof *table);
    struct regret_options options = {.seed = 101, .seeds = 3};
    double worst = 0;

    (void)state;
    assert_non_null(table);
    assert_int_equal(regret_run(regret_suite_find("guard"), &options, table), TG_OK);
    assert_true(table->n_rows >= 11);
    for (size_t i = 0; i < table->n_rows; i++) {
        const double *percent = table->rows[i].percent;
        if (percent[GUARDED] > percent[GREEDY] + 1)
            fail_msg("%s: greedy %.3f, guarded %.3f", table->rows[i].world, percent[GREEDY],
                     percent[GUARDED]);
        if (percent[ONLINE] - percent[GREEDY] > worst)
            worst = percent[ONLINE] - percent[GREEDY];
    }
    assert_true(worst > 20); /* else these worlds would show nothing */
    free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_no_world_is_a_guarded_policy_a_point_worse_than_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
