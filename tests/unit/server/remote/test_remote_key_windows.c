/* test_remote_key_windows.c - what a key may do in a minute, as limits that are leased. */
#include "check.h"

#include <string.h>

#include "server/remote/remote_key_windows.h"

static struct tg_key_terms terms_of(const char *group)
{
    return (struct tg_key_terms){.provider = "p",
                                 .model = "m",
                                 .name = "k",
                                 .group = group,
                                 .limits = {.rpm = 10, .tpm = 500},
                                 .tokens = 30};
}

static bool is(struct slice slice, const char *text)
{
    return slice_equal(slice, slice_of(text));
}

static void a_group_or_a_key_without_one_is_a_root(void **state)
{
    struct tg_key_terms alone = terms_of(NULL), grouped = terms_of("g");
    struct remote_key_windows windows;
    (void)state;

    assert_true(remote_key_windows_init(&windows, &alone));
    assert_true(is(windows.debit.root, "key:p:k:m:k"));
    assert_int_equal(windows.debit.n_scopes, 1);
    assert_int_equal(windows.debit.cost, 30);
    assert_int_equal(windows.scopes[0].n, 2);
    grouped.group_limits.tpm = 800;
    assert_true(remote_key_windows_init(&windows, &grouped));
    assert_true(is(windows.debit.root, "key:p:g:g"));
    assert_int_equal(windows.debit.n_scopes, 2);
    assert_int_equal(windows.scopes[1].n, 1);
    assert_int_equal(windows.limits[1][0].axis, TG_AXIS_COST);
    assert_int_equal(windows.limits[1][0].limiter.config.limit, 800);
    assert_int_equal(windows.limits[1][0].limiter.config.period, 60000);
}

static void without_a_limit_there_is_no_window(void **state)
{
    struct tg_key_terms terms = terms_of("g");
    struct remote_key_windows windows;
    char name[KEY_WINDOW_NAME + 1];
    (void)state;

    terms.limits = (struct tg_key_limits){.concurrency = 3};
    assert_false(remote_key_windows_init(&windows, &terms));
    terms.group_limits.rpm = 7;
    assert_true(remote_key_windows_init(&windows, &terms));
    assert_int_equal(windows.debit.n_scopes, 1);
    assert_true(windows.of_group[0]);
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    terms.group = name;
    assert_false(remote_key_windows_init(&windows, &terms));
}

static void a_refusal_says_whose_it_is_until_when_and_what_fits(void **state)
{
    struct tg_key_terms terms = terms_of("g");
    struct remote_key_windows windows;
    struct tg_axes axes = {.present = 1u << TG_AXIS_RATE | 1u << TG_AXIS_COST};
    (void)state;

    terms.group_limits.tpm = 800;
    assert_true(remote_key_windows_init(&windows, &terms));
    axes.decision[TG_AXIS_RATE] = TG_ALLOW_FULL;
    axes.decision[TG_AXIS_COST] =
        (struct tg_decision){.limit = 800, .remaining = 12, .retry_after_ms = 2500};
    axes.named[TG_AXIS_COST].scope = 1;
    struct tg_key_hold hold = remote_key_windows_hold(&windows, &axes, 1000);
    assert_int_equal(hold.why, TG_HOLD_BUSY);
    assert_true(hold.of_group);
    assert_int_equal(hold.until, 3500);
    assert_int_equal(hold.room, 12);
    axes.decision[TG_AXIS_RATE] = (struct tg_decision){.limit = 10, .retry_after_ms = 40};
    hold = remote_key_windows_hold(&windows, &axes, 1000);
    assert_false(hold.of_group);
    assert_int_equal(hold.until, 1040);
    assert_int_equal(hold.room, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_or_a_key_without_one_is_a_root),
        cmocka_unit_test(without_a_limit_there_is_no_window),
        cmocka_unit_test(a_refusal_says_whose_it_is_until_when_and_what_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
