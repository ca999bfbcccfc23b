/* test_overbook.c - the overbook factor follows what is used, slowly, and within its bounds. */
#include "check.h"
#include "draw.h"

static uint64_t seed;

static struct tg_overbook overbook_of(double start, double max)
{
    struct tg_overbook overbook;

    assert_int_equal(tg_overbook_init(&overbook, start, max, NULL), TG_OK);
    return overbook;
}

static void expect_near(double got, double want, double within)
{
    if (!(got >= want - within && got <= want + within))
        fail_msg("%g is not within %g of %g", got, within, want);
}

static void a_constant_error_is_learned(void **state)
{
    static const double ratios[] = {1.2, 1.5, 2.0, 2.9};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ratios); i++) {
        struct tg_overbook overbook = overbook_of(1, 3);
        for (int n = 0; n < 300; n++)
            tg_overbook_learn(&overbook, 1000, (int64_t)(1000 * ratios[i]));
        expect_near(tg_overbook_factor(&overbook), ratios[i], 0.03);
    }
}

static void nine_of_ten_calls_are_covered(void **state)
{
    struct tg_overbook overbook = overbook_of(1, 3);
    struct draw draw = draw_stream(seed, 1);
    int covered = 0;
    (void)state;
    for (int n = 0; n < 40000; n++) {
        int64_t used = draw_between(&draw, 1, 3000); /* 9 of 10 are up to 2.7 times the estimate */
        if (n >= 20000)
            covered += used <= tg_overbook_apply(&overbook, 1000);
        tg_overbook_learn(&overbook, 1000, used);
    }
    expect_near(tg_overbook_factor(&overbook), 2.7, 0.15);
    assert_in_range(covered, 17400, 18600);
}

static void estimates_that_are_too_high_are_left_alone(void **state)
{
    struct tg_overbook overbook = overbook_of(2, 3);
    (void)state;
    for (int n = 0; n < 1000; n++)
        tg_overbook_learn(&overbook, 1000, 100);
    expect_near(tg_overbook_factor(&overbook), 1, 0);
}

static void it_never_leaves_its_bounds(void **state)
{
    struct tg_overbook overbook = overbook_of(1, 1.5);
    (void)state;
    for (int n = 0; n < 1000; n++) {
        tg_overbook_learn(&overbook, 1, INT64_MAX);
        assert_true(tg_overbook_factor(&overbook) <= 1.5);
    }
    expect_near(tg_overbook_factor(&overbook), 1.5, 0);
    for (int n = 0; n < 1000; n++)
        tg_overbook_learn(&overbook, INT64_MAX, 1);
    expect_near(tg_overbook_factor(&overbook), 1, 0);
}

static void one_absurd_usage_moves_it_little(void **state)
{
    struct tg_overbook overbook = overbook_of(1.2, 3);
    (void)state;
    tg_overbook_learn(&overbook, 1, INT64_MAX);
    expect_near(tg_overbook_factor(&overbook), 1.2, 0.02);
    tg_overbook_learn(&overbook, INT64_MAX, 1);
    expect_near(tg_overbook_factor(&overbook), 1.2, 0.02);
}

static void nothing_is_learned_from_nothing(void **state)
{
    struct tg_overbook overbook = overbook_of(1.5, 3);
    (void)state;
    tg_overbook_learn(&overbook, 0, 100);
    tg_overbook_learn(&overbook, 100, 0);
    tg_overbook_learn(&overbook, -5, 100);
    tg_overbook_learn(&overbook, 100, -1);
    tg_overbook_learn(&overbook, INT64_MIN, INT64_MIN);
    expect_near(tg_overbook_factor(&overbook), 1.5, 0);
}

static void tokens_are_rounded_up_and_bounded(void **state)
{
    struct tg_overbook overbook = overbook_of(1.5, 3), none = overbook_of(1, 1);
    (void)state;
    assert_int_equal(tg_overbook_apply(&overbook, 0), 0);
    assert_int_equal(tg_overbook_apply(&overbook, 1), 2);
    assert_int_equal(tg_overbook_apply(&overbook, 2), 3);
    assert_int_equal(tg_overbook_apply(&overbook, TG_NUMBER_MAX), TG_NUMBER_MAX);
    assert_int_equal(tg_overbook_apply(&overbook, TG_NUMBER_MAX - 1), TG_NUMBER_MAX);
    assert_int_equal(tg_overbook_apply(&overbook, INT64_MAX), TG_NUMBER_MAX);
    assert_int_equal(tg_overbook_apply(&overbook, -3), -3); /* for the acquire to refuse */
    assert_int_equal(tg_overbook_apply(&none, TG_NUMBER_MAX - 2), TG_NUMBER_MAX - 2);
}

static void wrong_settings_are_named(void **state)
{
    static const struct {
        double start, max;
    } wrong[] = {{0.9, 3}, {3.1, 3}, {1, 0.5}, {1, 1e9}, {-1, -1}};
    struct tg_overbook overbook = {{7, 7, 7, 7}};
    struct tg_problem problem;
    volatile double zero = 0;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        problem.text[0] = '\0';
        assert_int_equal(tg_overbook_init(&overbook, wrong[i].start, wrong[i].max, &problem),
                         TG_ERR_INVALID);
        assert_true(problem.text[0] != '\0');
    }
    assert_int_equal(tg_overbook_init(&overbook, zero / zero, 3, NULL), TG_ERR_INVALID);
    assert_int_equal(tg_overbook_init(&overbook, 1, zero / zero, NULL), TG_ERR_INVALID);
    assert_int_equal(overbook.state[0], 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_constant_error_is_learned),
        cmocka_unit_test(nine_of_ten_calls_are_covered),
        cmocka_unit_test(estimates_that_are_too_high_are_left_alone),
        cmocka_unit_test(it_never_leaves_its_bounds),
        cmocka_unit_test(one_absurd_usage_moves_it_little),
        cmocka_unit_test(nothing_is_learned_from_nothing),
        cmocka_unit_test(tokens_are_rounded_up_and_bounded),
        cmocka_unit_test(wrong_settings_are_named),
    };

    seed = draw_seed("test_overbook");
    return cmocka_run_group_tests_name("overbook", tests, NULL, NULL);
}
