/* test_remote_recent.c - what Redis said a moment ago decides for the moment it does not answer. */
#include "check.h"

#include <string.h>

#include "server/remote/remote_recent.h"

static struct tg_scope scope = {.limits = 7, .key = "tenant", .key_bytes = 6};

static struct tg_debit debit_of(int64_t cost)
{
    return (struct tg_debit){.scopes = &scope, .n_scopes = 1, .cost = cost};
}

static struct tg_axes heard_rate(bool allowed, int64_t remaining, tg_ms retry)
{
    struct tg_axes axes = {.present = 1u << TG_AXIS_RATE};

    axes.decision[TG_AXIS_RATE] = (struct tg_decision){allowed, 100, remaining, 5000, retry};
    return axes;
}

static bool allows(struct recent *recent, const struct tg_debit *debit, long long nodes, tg_ms now)
{
    struct tg_axes axes;

    assert_true(recent_decide(recent, debit, nodes, now, &axes));
    return tg_axes_binding(&axes) == TG_AXIS_NONE;
}

static void test_nothing_heard_nothing_decided(void **unused)
{
    struct recent *recent = recent_new(1, RECENT_ENTRIES);
    struct tg_debit debit = debit_of(1);
    struct tg_axes axes = heard_rate(true, 10, 0);

    (void)unused;
    assert_false(recent_decide(recent, &debit, 2, 1000, &axes));
    recent_heard(recent, &debit, &axes, 1000);
    assert_true(recent_decide(recent, &debit, 2, 2000, &axes));
    assert_false(recent_decide(recent, &debit, 2, 4000, &axes)); /* 4,000 ms is too long ago */
    recent_free(recent);
}

static void test_each_gateway_gives_out_its_part_of_what_was_left(void **unused)
{
    struct recent *recent = recent_new(1, RECENT_ENTRIES);
    struct tg_debit debit = debit_of(1);
    struct tg_axes axes = heard_rate(true, 11, 0);
    int given = 0;

    (void)unused;
    recent_heard(recent, &debit, &axes, 1000);
    for (int i = 0; i < 20; i++)
        given += allows(recent, &debit, 3, 1001);
    assert_int_equal(given, 3);
    recent_heard(recent, &debit, &axes, 1100); /* it is there again, and says how much there is */
    assert_true(allows(recent, &debit, 3, 1101));
    recent_free(recent);
}

static void test_nobodys_part_is_nothing_while_something_is_left(void **unused)
{
    struct recent *recent = recent_new(1, RECENT_ENTRIES);
    struct tg_debit debit = debit_of(1);
    struct tg_axes left = heard_rate(true, 3, 0), spent = heard_rate(true, 0, 0);

    (void)unused;
    recent_heard(recent, &debit, &left, 1000);
    assert_true(allows(recent, &debit, 16, 1001));
    assert_false(allows(recent, &debit, 16, 1001));
    recent_heard(recent, &debit, &spent, 1002);
    assert_false(allows(recent, &debit, 16, 1003));
    recent_free(recent);
}

static void test_what_came_to_nothing_is_there_again(void **unused)
{
    struct recent *recent = recent_new(1, RECENT_ENTRIES);
    struct tg_debit debit = debit_of(1);
    struct tg_axes axes = heard_rate(true, 2, 0);

    (void)unused;
    recent_give_back(recent, &debit);
    recent_heard(recent, &debit, &axes, 1000);
    for (int i = 0; i < 20; i++) {
        assert_true(allows(recent, &debit, 1, 1001));
        recent_give_back(recent, &debit);
    }
    recent_give_back(recent, &debit);
    assert_true(allows(recent, &debit, 1, 1001));
    assert_true(allows(recent, &debit, 1, 1001));
    assert_false(allows(recent, &debit, 1, 1001));
    recent_free(recent);
}

static void test_who_was_refused_stays_refused_until_then(void **unused)
{
    struct recent *recent = recent_new(1, RECENT_ENTRIES);
    struct tg_debit debit = debit_of(1);
    struct tg_axes axes = heard_rate(false, 0, 60000);

    (void)unused;
    recent_heard(recent, &debit, &axes, 1000);
    assert_true(recent_decide(recent, &debit, 1, 50000, &axes));
    assert_int_equal(tg_axes_binding(&axes), TG_AXIS_RATE);
    assert_int_equal(axes.decision[TG_AXIS_RATE].retry_after_ms, 11000);
    assert_int_equal(axes.decision[TG_AXIS_RATE].limit, 100);
    assert_false(recent_decide(recent, &debit, 1, 61001, &axes));
    recent_free(recent);
}

static void test_a_cost_that_was_refused_says_nothing_of_smaller_ones(void **unused)
{
    struct recent *recent = recent_new(1, RECENT_ENTRIES);
    struct tg_debit large = debit_of(50), small = debit_of(4);
    struct tg_axes axes = {.present = 1u << TG_AXIS_COST};

    (void)unused;
    axes.decision[TG_AXIS_COST] = (struct tg_decision){false, 100, 20, 5000, 1500};
    recent_heard(recent, &large, &axes, 1000);
    assert_false(allows(recent, &large, 1, 1001));
    assert_true(allows(recent, &small, 1, 1001));
    assert_true(allows(recent, &small, 2, 1001)); /* 4 and 4 of 10 */
    assert_false(allows(recent, &small, 2, 1001));
    recent_free(recent);
}

static void test_keys_and_sets_are_told_apart(void **unused)
{
    struct recent *recent = recent_new(1, RECENT_ENTRIES);
    struct tg_scope other = {.limits = 8, .key = "tenant", .key_bytes = 6};
    struct tg_debit debit = debit_of(1),
                    apart = {.scopes = &other, .n_scopes = 1, .cost = 1};
    struct tg_axes axes = heard_rate(false, 0, 60000);

    (void)unused;
    recent_heard(recent, &debit, &axes, 1000);
    assert_false(recent_decide(recent, &apart, 1, 1000, &axes));
    other = (struct tg_scope){.limits = 7, .key = "another", .key_bytes = 7};
    assert_false(recent_decide(recent, &apart, 1, 1000, &axes));
    recent_free(recent);
}

static void test_what_was_heard_of_limits_that_have_changed_since_is_forgotten(void **unused)
{
    struct recent *recent = recent_new(1, RECENT_ENTRIES);
    struct tg_debit debit = debit_of(1);
    struct tg_axes axes = heard_rate(false, 0, 60000);

    (void)unused;
    assert_true(recent_is_for(recent, 1));
    recent_heard(recent, &debit, &axes, 1000);
    assert_true(recent_is_for(recent, 1));
    assert_false(allows(recent, &debit, 1, 1001));
    assert_true(recent_is_for(recent, 2)); /* it may have been raised */
    assert_false(recent_decide(recent, &debit, 1, 1002, &axes));
    axes = heard_rate(true, 5, 0);
    recent_heard(recent, &debit, &axes, 1003);
    assert_false(recent_is_for(recent, 1)); /* a call that began under the old one has no part */
    assert_true(recent_is_for(recent, 2));
    assert_true(allows(recent, &debit, 1, 1004));
    recent_free(recent);
}

/* For two seconds at most, and not beyond the time that was told: then Redis is asked again. */
static void test_a_refusal_for_the_rate_is_known_for_a_moment(void **unused)
{
    static const struct {
        tg_ms retry, after;
        bool allowed, known;
    } rows[] = {
        {500, 0, false, true},
        {500, 499, false, true},
        {500, 500, false, false},
        {9000, 2000, false, true},
        {9000, 2001, false, false},
        {0, 0, true, false},
    };
    struct tg_debit debit = debit_of(40), other = debit_of(1);

    (void)unused;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct recent *recent = recent_new(1, RECENT_ENTRIES);
        struct tg_axes axes = heard_rate(rows[i].allowed, 0, rows[i].retry);

        recent_heard(recent, &debit, &axes, 1000);
        memset(&axes, 0, sizeof axes);
        assert_int_equal(recent_is_refused(recent, &other, 1000 + rows[i].after, &axes),
                         rows[i].known);
        if (rows[i].known) {
            assert_int_equal(tg_axes_binding(&axes), TG_AXIS_RATE);
            assert_int_equal(axes.decision[TG_AXIS_RATE].retry_after_ms,
                             rows[i].retry - rows[i].after);
        }
        recent_free(recent);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_heard_nothing_decided),
        cmocka_unit_test(test_a_refusal_for_the_rate_is_known_for_a_moment),
        cmocka_unit_test(test_each_gateway_gives_out_its_part_of_what_was_left),
        cmocka_unit_test(test_nobodys_part_is_nothing_while_something_is_left),
        cmocka_unit_test(test_what_came_to_nothing_is_there_again),
        cmocka_unit_test(test_who_was_refused_stays_refused_until_then),
        cmocka_unit_test(test_a_cost_that_was_refused_says_nothing_of_smaller_ones),
        cmocka_unit_test(test_keys_and_sets_are_told_apart),
        cmocka_unit_test(test_what_was_heard_of_limits_that_have_changed_since_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
