/* test_clock.c - epoch time, and never back. */
#include "check.h"

#include <time.h>

#include "io/posix/clock.h"

static tg_ms epoch_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (tg_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Within an hour, so that a machine whose clock is being set does not fail the test. */
static void starts_at_epoch_time(void **state)
{
    struct clock clock;

    (void)state;
    clock_init(&clock);
    tg_ms apart = clock_now_ms(&clock) - epoch_ms();
    assert_true(apart > -3600000 && apart < 3600000);
}

static void never_steps_back(void **state)
{
    struct clock clock;
    tg_ms last = 0;
    int64_t last_ns = 0;

    (void)state;
    clock_init(&clock);
    for (int i = 0; i < 100000; i++) {
        tg_ms now = clock_now_ms(&clock);
        int64_t now_ns = clock_monotonic_ns();
        assert_true(now >= last && now <= TG_NUMBER_MAX);
        assert_true(now_ns >= last_ns);
        last = now;
        last_ns = now_ns;
    }
}

static void time_before_the_epoch_is_the_epoch(void **state)
{
    struct clock clock = {.epoch_ns = INT64_MIN / 2};

    (void)state;
    assert_int_equal(clock_now_ms(&clock), 0);
}

/* ---- the wall clock ---- */

#define S INT64_C(1000000000)

/* What the two clocks of the system say, and what ours has to show, within what is no step. */
static void expect_wall(struct clock *clock, int64_t wall_ns, int64_t boot_ns)
{
    tg_ms steady = (clock->epoch_ns + boot_ns) / 1000000;

    clock_follow_at(clock, wall_ns, boot_ns);
    tg_ms apart = clock_wall_of(clock, steady) - wall_ns / 1000000;
    if (apart <= -11 || apart >= 11)
        fail_msg("%lld ms apart", (long long)apart);
}

static void attack_14_steps_of_the_wall_clock_are_followed(void **state)
{
    const int64_t start = 1700000000 * S, boot = 5000 * S;
    struct clock clock = {.epoch_ns = start - boot};

    (void)state;
    expect_wall(&clock, start, boot);
    assert_int_equal(atomic_load(&clock.ahead_ms), 0);
    expect_wall(&clock, start + 1 * S, boot + 1 * S);
    expect_wall(&clock, start + 200002 * S, boot + 2 * S); /* NTP has found the time */
    assert_int_equal(atomic_load(&clock.ahead_ms), 200000000);
    expect_wall(&clock, start + 200003 * S, boot + 3 * S);
    expect_wall(&clock, start + 4 * S, boot + 4 * S); /* and was wrong */
    assert_int_equal(atomic_load(&clock.ahead_ms), 0);
    expect_wall(&clock, start - 86400 * S, boot + 5 * S);
    assert_int_equal(atomic_load(&clock.ahead_ms), -86405000);
    expect_wall(&clock, start + 6 * S, boot + 6 * S);
    /* 500 millionths too fast, for a day. */
    for (int64_t i = 7; i < 86400; i += 60)
        expect_wall(&clock, start + i * S + i * S / 2000, boot + i * S);
    assert_true(atomic_load(&clock.ahead_ms) > 43000);
}

/* Two readings are never made at once: what lies between them is no step. */
static void small_differences_are_no_step(void **state)
{
    struct clock clock = {.epoch_ns = 1000 * S};

    (void)state;
    clock_follow_at(&clock, 1001 * S + 9000000, 1 * S);
    assert_int_equal(atomic_load(&clock.ahead_ms), 0);
    clock_follow_at(&clock, 1002 * S - 9000000, 2 * S);
    assert_int_equal(atomic_load(&clock.ahead_ms), 0);
    clock_init(&clock);
    for (int i = 0; i < 1000; i++)
        clock_follow(&clock);
    assert_true(clock_wall_ms(&clock) - epoch_ms() < 3600000);
    assert_int_equal(clock_wall_of(NULL, 17), 17);
    atomic_store(&clock.ahead_ms, -100);
    assert_int_equal(clock_wall_of(&clock, 17), 0); /* before the epoch is the epoch */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_at_epoch_time),
        cmocka_unit_test(never_steps_back),
        cmocka_unit_test(time_before_the_epoch_is_the_epoch),
        cmocka_unit_test(attack_14_steps_of_the_wall_clock_are_followed),
        cmocka_unit_test(small_differences_are_no_step),
    };

    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
