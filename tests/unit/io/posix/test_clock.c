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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_at_epoch_time),
        cmocka_unit_test(never_steps_back),
        cmocka_unit_test(time_before_the_epoch_is_the_epoch),
    };

    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
