/* test_decision.c - combining two decisions and many, by example. */
#include "check.h"

static const struct tg_decision roomy = {true, 100, 42, 1000, 0};
static const struct tg_decision spent = {false, 50, 0, 5000, 250};

struct pair {
    const char *what;
    struct tg_decision a, b, want;
};

static void combine_takes_the_strictest_of_each_field(void **state)
{
    static const struct pair pairs[] = {
        {"a refusal binds",
         {true, 100, 42, 1000, 0},
         {false, 50, 0, 5000, 250},
         {false, 50, 0, 5000, 250}},
        {"fields are taken from both sides",
         {false, 5, 3, 100, 700},
         {false, 9, 1, 200, 30},
         {false, 5, 1, 200, 700}},
        {"two allows allow", {true, 5, 3, 100, 0}, {true, 9, 1, 50, 0}, {true, 5, 1, 100, 0}},
        {"never is longer than any wait",
         {false, 5, 5, 0, TG_UNSATISFIABLE},
         {false, 9, 0, 60000, 60000},
         {false, 5, 0, 60000, TG_UNSATISFIABLE}},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        const struct pair *p = &pairs[i];
        expect_decision(p->what, tg_decision_combine(p->a, p->b), p->want);
        expect_decision(p->what, tg_decision_combine(p->b, p->a), p->want);
    }
}

static void allow_full_is_the_most_generous_answer(void **state)
{
    (void)state;
    expect_decision("full", TG_ALLOW_FULL,
                    ((struct tg_decision){true, INT64_C(9007199254740991),
                                          INT64_C(9007199254740991), 0, 0}));
    expect_decision("with an allow", tg_decision_combine(TG_ALLOW_FULL, roomy), roomy);
    expect_decision("with a refusal", tg_decision_combine(spent, TG_ALLOW_FULL), spent);
}

static void fold_of_none_is_allow_full(void **state)
{
    (void)state;
    expect_decision("no array", tg_decision_fold(NULL, 0), TG_ALLOW_FULL);
    expect_decision("none of an array", tg_decision_fold(&spent, 0), TG_ALLOW_FULL);
}

static void fold_of_one_is_itself(void **state)
{
    (void)state;
    expect_decision("one", tg_decision_fold(&spent, 1), spent);
}

static void fold_looks_at_all_of_them(void **state)
{
    const struct tg_decision three[] = {
        {true, 9, 8, 10, 0}, {false, 7, 7, 20, 5}, {true, 8, 6, 30, 0}};
    (void)state;

    expect_decision("three", tg_decision_fold(three, 3), DENIED(7, 6, 30, 5));
    expect_decision("the first two", tg_decision_fold(three, 2), DENIED(7, 7, 20, 5));
}

static void every_axis_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(tg_axis_name(TG_AXIS_CONCURRENCY), "concurrency");
    assert_string_equal(tg_axis_name(TG_AXIS_RATE), "rate");
    assert_string_equal(tg_axis_name(TG_AXIS_COST), "cost");
    assert_null(tg_axis_name(TG_AXIS_NONE));
}

static void the_binding_axis_is_the_first_that_refused(void **state)
{
    const struct tg_decision yes = ALLOWED(1, 1, 1), no = DENIED(1, 0, 1, 1);
    const unsigned all = (1u << TG_AXIS_COUNT) - 1;
    const struct {
        struct tg_axes axes;
        enum tg_axis want;
    } rows[] = {
        {{.decision = {yes, yes, yes}, .present = all}, TG_AXIS_NONE},
        {{.decision = {yes, yes, no}, .present = all}, TG_AXIS_COST},
        {{.decision = {yes, no, no}, .present = all}, TG_AXIS_RATE},
        {{.decision = {no, no, no}, .present = all}, TG_AXIS_CONCURRENCY},
        {{.decision = {no, no, yes}, .present = all}, TG_AXIS_CONCURRENCY},
        {{.decision = {no, no, no}, .present = 0}, TG_AXIS_NONE},
        {{.decision = {no, yes, no}, .present = all & ~(1u << TG_AXIS_CONCURRENCY)}, TG_AXIS_COST},
        {{.decision = {yes, yes, yes}, .present = all, .would_deny = all}, TG_AXIS_NONE},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(tg_axes_binding(&rows[i].axes), rows[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(combine_takes_the_strictest_of_each_field),
        cmocka_unit_test(allow_full_is_the_most_generous_answer),
        cmocka_unit_test(fold_of_none_is_allow_full),
        cmocka_unit_test(fold_of_one_is_itself),
        cmocka_unit_test(fold_looks_at_all_of_them),
        cmocka_unit_test(the_binding_axis_is_the_first_that_refused),
        cmocka_unit_test(every_axis_has_a_name),
    };
    return cmocka_run_group_tests_name("decision", tests, NULL, NULL);
}
