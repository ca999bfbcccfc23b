/* test_carry.c - a limit that changes while it is in use: what was counted under the old one counts
 * under the new one.
 *
 * The store carries states over when a set of limits is defined anew. Here each strategy does so by
 * itself, at an epoch time.
 */
#include "subject.h"

#define NOW INT64_C(1700000000000)

/* The state of `from` under the limiter of `spec`. */
static struct subject carried(const struct subject *from, const char *spec, tg_ms now)
{
    struct tg_limiter limiter = limiter_of(spec);
    struct subject to = subject_new(&limiter);

    assert_int_equal(limiter.config.strategy, from->limiter.config.strategy);
    limiter.ops->carry(&to.limiter, to.state, &from->limiter, from->state, now);
    return to;
}

static struct subject fresh(const char *spec)
{
    struct tg_limiter limiter = limiter_of(spec);

    return subject_new(&limiter);
}

static void expect_carried(struct subject *from, const char *spec, tg_ms now,
                           struct tg_decision want)
{
    struct subject to = carried(from, spec, now);

    expect_decision(spec, subject_balance(&to, now), want);
    subject_free(&to);
}

/* Three of five units are used, which is three of ten; each takes half as long to come back. */
static void gcra_keeps_the_units_that_are_used(void **state)
{
    struct subject from = fresh("gcra:limit=10,period=1000,burst=5");
    (void)state;

    expect_carried(&from, "gcra:limit=20,period=1000,burst=10", NOW, ALLOWED(10, 10, NOW));
    assert_true(subject_take(&from, NOW, 3).allowed);
    expect_carried(&from, "gcra:limit=20,period=1000,burst=10", NOW, ALLOWED(10, 7, NOW + 150));
    expect_carried(&from, "gcra:limit=20,period=1000,burst=10", NOW + 100,
                   ALLOWED(10, 8, NOW + 200));
    expect_carried(&from, "gcra:limit=5,period=1000,burst=2", NOW, ALLOWED(2, 0, NOW + 600));
    expect_carried(&from, "gcra:limit=20,period=1000,burst=10", NOW + 300,
                   ALLOWED(10, 10, NOW + 300));
    subject_free(&from);
}

static void gcra_owes_until_the_end_of_time_at_most(void **state)
{
    struct subject from = fresh("gcra:limit=1,period=1000000,burst=1");
    (void)state;

    subject_settle(&from, NOW, (struct tg_charge){NOW, 0}, TG_NUMBER_MAX);
    struct subject to = carried(&from, "gcra:limit=1,period=2000000,burst=1", NOW);
    assert_int_equal(subject_balance(&to, TG_NUMBER_MAX - 1).remaining, 0);
    assert_int_equal(subject_balance(&to, TG_NUMBER_MAX).remaining, 1);
    subject_free(&to);
    subject_free(&from);
}

static void a_token_bucket_keeps_what_was_taken(void **state)
{
    struct subject from = fresh("token_bucket:capacity=10,refill=1");
    (void)state;

    assert_true(subject_take(&from, NOW, 4).allowed);
    expect_carried(&from, "token_bucket:capacity=20,refill=1", NOW, ALLOWED(20, 16, NOW + 4000));
    expect_carried(&from, "token_bucket:capacity=20,refill=1", NOW + 1000,
                   ALLOWED(20, 17, NOW + 4000));
    expect_carried(&from, "token_bucket:capacity=3,refill=2", NOW, ALLOWED(3, 0, NOW + 2000));
    /* A clock that has stepped back does not refill the same span twice. */
    struct subject to = carried(&from, "token_bucket:capacity=20,refill=1", NOW - 5000);
    expect_decision("stepped back", subject_balance(&to, NOW), ALLOWED(20, 16, NOW + 4000));
    subject_free(&to);
    subject_free(&from);
}

static void the_debt_of_a_token_bucket_stays_bounded(void **state)
{
    struct subject from = fresh("token_bucket:capacity="
                                "9007199254740991"
                                ",refill=1e15");
    (void)state;

    subject_settle(&from, NOW, (struct tg_charge){NOW, 0}, TG_NUMBER_MAX);
    subject_settle(&from, NOW, (struct tg_charge){NOW, 0}, TG_NUMBER_MAX);
    struct subject to = carried(&from, "token_bucket:capacity=1,refill=9007199254740991", NOW);
    /* One second pays the greatest debt there is. */
    expect_decision("debt", subject_balance(&to, NOW + 1001), ALLOWED(1, 1, NOW + 1001));
    assert_int_equal(subject_balance(&to, NOW + 999).remaining, 0);
    subject_free(&to);
    subject_free(&from);
}

/* What this window has counted counts until the new window ends, which may be another one. */
static void a_window_keeps_its_count(void **state)
{
    struct subject from = fresh("fixed_window:limit=10,window=1000");
    (void)state;

    assert_true(subject_take(&from, NOW + 1500, 4).allowed);
    expect_carried(&from, "fixed_window:limit=20,window=1000", NOW + 1600,
                   ALLOWED(20, 16, NOW + 2000));
    expect_carried(&from, "fixed_window:limit=3,window=5000", NOW + 1600,
                   ALLOWED(3, 0, NOW + 5000));
    expect_carried(&from, "fixed_window:limit=20,window=100", NOW + 1650,
                   ALLOWED(20, 16, NOW + 1700));
    /* The old window has ended. */
    expect_carried(&from, "fixed_window:limit=20,window=5000", NOW + 2000,
                   ALLOWED(20, 20, NOW + 5000));
    /* The clock has stepped back: the window is that of what was counted. */
    expect_carried(&from, "fixed_window:limit=20,window=5000", NOW - 100,
                   ALLOWED(20, 16, NOW + 5000));
    subject_free(&from);
}

static void a_sliding_window_of_the_same_shape_is_kept_to_the_byte(void **state)
{
    struct subject from = fresh("sliding_window:limit=10,window=1000,buckets=4");
    (void)state;

    for (int i = 0; i < 4; i++)
        assert_true(subject_take(&from, NOW + 250 * i, 2).allowed);
    struct subject to = carried(&from, "sliding_window:limit=20,window=1000,buckets=4", NOW + 800);
    assert_int_equal(to.limiter.state_bytes, from.limiter.state_bytes);
    assert_memory_equal(to.state, from.state, to.limiter.state_bytes);
    subject_free(&to);
    subject_free(&from);
}

/* Everything the old window still counted is counted as of now: rather longer than too short. */
static void a_sliding_window_of_another_shape_counts_all_as_of_now(void **state)
{
    static const char *const specs[] = {"sliding_window:limit=20,window=1000,buckets=5",
                                        "sliding_window:limit=20,window=2000,buckets=4",
                                        "sliding_window:limit=20,window=500,buckets=2",
                                        "sliding_window:limit=20,window=500,buckets=4",
                                        "sliding_window:limit=20,window=1000,buckets=3"};
    struct subject from = fresh("sliding_window:limit=10,window=1000,buckets=4");
    (void)state;

    for (int i = 0; i < 4; i++)
        assert_true(subject_take(&from, NOW + 250 * i, 2).allowed);
    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct subject to = carried(&from, specs[i], NOW + 800);
        struct subject want = fresh(specs[i]);
        assert_true(subject_take(&want, NOW + 800, 8).allowed);
        for (tg_ms now = NOW + 800; now <= NOW + 1300; now += 500)
            expect_decision(specs[i], subject_balance(&to, now), subject_balance(&want, now));
        subject_free(&want);
        subject_free(&to);
    }
    subject_free(&from);
}

static void a_log_keeps_its_records(void **state)
{
    struct subject from = fresh("sliding_log:limit=10,window=1000");
    (void)state;

    for (int i = 0; i < 5; i++)
        assert_true(subject_take(&from, NOW + 100 * i, 2).allowed);
    expect_carried(&from, "sliding_log:limit=20,window=1000", NOW + 450,
                   ALLOWED(20, 10, NOW + 1000));
    /* Each leaves one window after its call. */
    struct subject to = carried(&from, "sliding_log:limit=20,window=1000", NOW + 450);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(subject_balance(&to, NOW + 1000 + 100 * i - 1).remaining, 10 + 2 * i);
        assert_int_equal(subject_balance(&to, NOW + 1000 + 100 * i).remaining, 12 + 2 * i);
    }
    subject_free(&to);
    /* A longer window has not seen what had left the shorter one. */
    expect_carried(&from, "sliding_log:limit=20,window=2000", NOW + 1150,
                   ALLOWED(20, 14, NOW + 2200));
    /* A shorter one has only what is that young. */
    expect_carried(&from, "sliding_log:limit=20,window=300", NOW + 450,
                   ALLOWED(20, 14, NOW + 500));
    subject_free(&from);
}

/* The new ring has room for three records; the last takes the rest, at the latest of their times.
 */
static void a_log_that_is_too_short_keeps_the_units(void **state)
{
    struct subject from = fresh("sliding_log:limit=10,window=1000");
    (void)state;

    for (int i = 0; i < 6; i++)
        assert_true(subject_take(&from, NOW + 100 * i, 1).allowed);
    struct subject to = carried(&from, "sliding_log:limit=3,window=1000", NOW + 500);
    expect_decision("full", subject_balance(&to, NOW + 500), ALLOWED(3, 0, NOW + 1000));
    /* 6 units: 1, 1, and 4 that leave together, at NOW + 1500. */
    assert_int_equal(subject_balance(&to, NOW + 1100).remaining, 0);
    assert_int_equal(subject_balance(&to, NOW + 1499).remaining, 0);
    assert_int_equal(subject_balance(&to, NOW + 1500).remaining, 3);
    assert_int_equal(subject_fresh_at(&to), NOW + 1500);
    subject_free(&to);
    subject_free(&from);
}

/* ---- settlements and a new limit ---- */

static struct subject fresh_settled(const char *spec)
{
    struct subject subject = fresh(spec);

    subject_make_settled(&subject);
    return subject;
}

static struct subject carried_settled(const struct subject *from, const char *spec, tg_ms now)
{
    struct subject to = fresh_settled(spec);

    to.limiter.ops->carry(&to.limiter, to.state, &from->limiter, from->state, now);
    return to;
}

/* Both are never full for the same reason, so what is left is compared for as long as they fill. */
static void expect_same_future(const char *what, struct subject *a, struct subject *b, tg_ms now)
{
    for (tg_ms at = now; at < now + 400; at += 7)
        expect_decision(what, subject_balance(a, at), subject_balance(b, at));
}

/* A call that is settled after its limit has changed leaves what it would have left if it had been
 * settled before. All numbers are sums of few powers of two: nothing is rounded. */
static void a_charge_may_be_settled_before_or_after_its_limit_changes(void **state)
{
    static const struct {
        const char *from, *to;
    } rows[] = {
        {"gcra:limit=64,period=1024,burst=16", "gcra:limit=128,period=1024,burst=32"},
        {"gcra:limit=64,period=1024,burst=16", "gcra:limit=16,period=1024,burst=16"},
        {"gcra:limit=64,period=1024,burst=16", "gcra:limit=64,period=1024,burst=64"},
        {"token_bucket:capacity=32,refill=125", "token_bucket:capacity=64,refill=125"},
        {"token_bucket:capacity=32,refill=125", "token_bucket:capacity=40,refill=500"},
    };
    struct draw draw = draw_stream(draw_seed("carry"), 1);
    (void)state;

    for (int round = 0; round < 4000; round++) {
        size_t row = (size_t)draw_between(&draw, 0, COUNT_OF(rows) - 1);
        struct subject subject = fresh_settled(rows[row].from);
        struct tg_charge charges[12];
        tg_ms now = NOW;
        int n = 0;
        for (int i = 0; i < 12; i++) {
            now += draw_between(&draw, 0, 40);
            charges[n] = (struct tg_charge){now, draw_between(&draw, 1, 8)};
            n += subject_take(&subject, now, charges[n].cost).allowed;
        }
        struct tg_charge settled = charges[draw_between(&draw, 0, n - 1)];
        int64_t actual = draw_between(&draw, 0, settled.cost + 4);
        struct subject after = carried_settled(&subject, rows[row].to, now);
        subject_settle(&after, now, settled, actual);
        subject_settle(&subject, now, settled, actual);
        struct subject before = carried_settled(&subject, rows[row].to, now);
        expect_same_future(rows[row].to, &after, &before, now);
        subject_free(&before);
        subject_free(&after);
        subject_free(&subject);
    }
}

/* While it has not come back by itself, each unit that was not used comes back, be it one. */
static void a_unit_that_was_not_used_comes_back(void **state)
{
    static const char *const specs[] = {"gcra:limit=10,period=1000,burst=10",
                                        "token_bucket:capacity=10,refill=10"};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(specs); i++)
        for (int64_t unused = 0; unused <= 4; unused++) {
            struct subject subject = fresh_settled(specs[i]);
            assert_true(subject_take(&subject, NOW, 4).allowed);
            assert_true(subject_take(&subject, NOW, 2).allowed);
            subject_settle(&subject, NOW, (struct tg_charge){NOW, 4}, 4 - unused);
            assert_int_equal(subject_balance(&subject, NOW).remaining, 4 + unused);
            subject_free(&subject);
        }
}

/* Four calls, one after the other, that used nothing: in whichever order they are settled, all
 * comes back, as if none had been. */
static void calls_that_used_nothing_leave_nothing_in_any_order(void **state)
{
    enum { CALLS = 4 };
    static const char *const specs[] = {"gcra:limit=1,period=1000,burst=100",
                                        "token_bucket:capacity=100,refill=1"};
    (void)state;

    for (int order = 0; order < 256; order++) {
        int turn[CALLS] = {order & 3, order >> 2 & 3, order >> 4 & 3, order >> 6};
        int seen = 0;
        for (int i = 0; i < CALLS; i++)
            seen |= 1 << turn[i];
        for (size_t k = 0; k < COUNT_OF(specs) && seen == 15; k++) {
            struct subject subject = fresh_settled(specs[k]);
            for (int i = 0; i < CALLS; i++)
                assert_true(subject_take(&subject, NOW + i, 10 + i).allowed);
            for (int i = 0; i < CALLS; i++)
                subject_settle(&subject, NOW + CALLS,
                               (struct tg_charge){NOW + turn[i], 10 + turn[i]}, 0);
            assert_int_equal(subject_balance(&subject, NOW + CALLS).remaining, 100);
            subject_free(&subject);
        }
    }
}

/* All that a window of another shape has is counted as of the change: so is what a call used above
 * its estimate, though the call began so long before that the new window would not know it. */
static void what_was_used_above_an_estimate_counts_in_a_window_of_another_shape(void **state)
{
    static const char *const specs[] = {"sliding_window:limit=20,window=500,buckets=5",
                                        "sliding_window:limit=20,window=500,buckets=4",
                                        "sliding_window:limit=20,window=2000,buckets=4"};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct subject from = fresh_settled("sliding_window:limit=10,window=1000,buckets=4");
        assert_true(subject_take(&from, NOW, 2).allowed);
        struct subject to = carried_settled(&from, specs[i], NOW + 800);
        assert_int_equal(subject_balance(&to, NOW + 800).remaining, 18);
        subject_settle(&to, NOW + 800, (struct tg_charge){NOW, 2}, 9);
        assert_int_equal(subject_balance(&to, NOW + 800).remaining, 11);
        subject_free(&to);
        subject_free(&from);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gcra_keeps_the_units_that_are_used),
        cmocka_unit_test(gcra_owes_until_the_end_of_time_at_most),
        cmocka_unit_test(a_token_bucket_keeps_what_was_taken),
        cmocka_unit_test(the_debt_of_a_token_bucket_stays_bounded),
        cmocka_unit_test(a_window_keeps_its_count),
        cmocka_unit_test(a_sliding_window_of_the_same_shape_is_kept_to_the_byte),
        cmocka_unit_test(a_sliding_window_of_another_shape_counts_all_as_of_now),
        cmocka_unit_test(a_log_keeps_its_records),
        cmocka_unit_test(a_log_that_is_too_short_keeps_the_units),
        cmocka_unit_test(a_charge_may_be_settled_before_or_after_its_limit_changes),
        cmocka_unit_test(a_unit_that_was_not_used_comes_back),
        cmocka_unit_test(calls_that_used_nothing_leave_nothing_in_any_order),
        cmocka_unit_test(what_was_used_above_an_estimate_counts_in_a_window_of_another_shape),
    };
    return cmocka_run_group_tests_name("carry", tests, NULL, NULL);
}
