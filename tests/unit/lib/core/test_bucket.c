/* test_bucket.c - what src/lib/core/bucket.h promises: burst at once, then its rate. */
#include "check.h"
#include "draw.h"
#include "lib/core/bucket.h"

#define NOW 1000000

static void a_burst_goes_at_once_and_then_one_at_a_time(void **state)
{
    struct bucket bucket;
    (void)state;

    bucket_init(&bucket, 3, 10, NOW);
    for (int i = 0; i < 3; i++)
        assert_true(bucket_try(&bucket, 1, NOW));
    assert_false(bucket_try(&bucket, 1, NOW));
    assert_false(bucket_try(&bucket, 1, NOW + 99));
    assert_true(bucket_try(&bucket, 1, NOW + 100));
    assert_false(bucket_try(&bucket, 1, NOW + 199));
    assert_true(bucket_try(&bucket, 1, NOW + 200));
}

static void it_never_holds_more_than_its_burst(void **state)
{
    struct bucket bucket;
    (void)state;

    bucket_init(&bucket, 2, 1000, NOW);
    bucket_add(&bucket, 5 * BUCKET_TOKEN);
    assert_true(bucket_try(&bucket, 2, NOW + 1000000));
    assert_false(bucket_try(&bucket, 1, NOW + 1000000));
    assert_true(bucket_try(&bucket, 0, NOW + 1000000));
}

/* bucket_take() charges even when it says no, bucket_try() does not. */
static void whoever_does_not_stop_gets_into_debt(void **state)
{
    struct bucket taken, tried;
    (void)state;

    bucket_init(&taken, 1, 1, NOW);
    bucket_init(&tried, 1, 1, NOW);
    assert_true(bucket_take(&taken, 1, NOW) && bucket_try(&tried, 1, NOW));
    for (int i = 0; i < 5; i++)
        assert_false(bucket_take(&taken, 1, NOW) || bucket_try(&tried, 1, NOW));
    assert_true(bucket_try(&tried, 1, NOW + 1000));
    assert_false(bucket_try(&taken, 1, NOW + 5999));
    assert_true(bucket_try(&taken, 1, NOW + 6000));
}

static void other_things_than_time_may_fill_it(void **state)
{
    struct bucket bucket;
    (void)state;

    bucket_init(&bucket, 1, 0, NOW);
    assert_true(bucket_try(&bucket, 1, NOW));
    for (int i = 0; i < 3; i++)
        bucket_add(&bucket, BUCKET_TOKEN / 4);
    assert_false(bucket_try(&bucket, 1, NOW + 100000));
    bucket_add(&bucket, BUCKET_TOKEN / 4);
    assert_true(bucket_try(&bucket, 1, NOW + 100000));
}

static void time_that_goes_back_fills_nothing(void **state)
{
    struct bucket bucket;
    (void)state;

    bucket_init(&bucket, 1, 1, NOW);
    assert_true(bucket_try(&bucket, 1, NOW));
    assert_false(bucket_try(&bucket, 1, NOW - 5000));
    assert_false(bucket_try(&bucket, 1, NOW + 999));
    assert_true(bucket_try(&bucket, 1, NOW + 1000));
}

static void absurd_numbers_do_not_overflow(void **state)
{
    struct bucket bucket;
    (void)state;

    bucket_init(&bucket, UINT64_MAX, UINT64_MAX, 0);
    for (int i = 0; i < 10; i++)
        bucket_take(&bucket, BUCKET_MAX, 0);
    assert_true(bucket.level < 0);
    assert_true(bucket_try(&bucket, BUCKET_MAX, INT64_MAX));
    assert_int_equal(bucket.level, 0);
}

/* In any span of time, at most burst + rate x span tokens. */
static void no_span_sees_more_than_burst_and_rate(void **state)
{
    struct draw draw = draw_stream(draw_seed("test_bucket"), 0);
    (void)state;

    for (int round = 0; round < 200; round++) {
        int64_t burst = draw_between(&draw, 1, 20), per_s = draw_between(&draw, 0, 50);
        int64_t taken = 0;
        tg_ms now = NOW;
        struct bucket bucket;
        bucket_init(&bucket, (uint64_t)burst, (uint64_t)per_s, now);
        for (int i = 0; i < 300; i++) {
            int64_t tokens = draw_between(&draw, 0, 3);
            now += draw_between(&draw, 0, 200);
            /* The next one would be too many exactly when it is refused. */
            bool there = bucket_try(&bucket, tokens, now);
            taken += there ? tokens : 0;
            assert_true(taken * 1000 <= burst * 1000 + per_s * (now - NOW));
            if (!there)
                assert_true(bucket.level < tokens * BUCKET_TOKEN);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_goes_at_once_and_then_one_at_a_time),
        cmocka_unit_test(it_never_holds_more_than_its_burst),
        cmocka_unit_test(whoever_does_not_stop_gets_into_debt),
        cmocka_unit_test(other_things_than_time_may_fill_it),
        cmocka_unit_test(time_that_goes_back_fills_nothing),
        cmocka_unit_test(absurd_numbers_do_not_overflow),
        cmocka_unit_test(no_span_sees_more_than_burst_and_rate),
    };
    return cmocka_run_group_tests_name("bucket", tests, NULL, NULL);
}
