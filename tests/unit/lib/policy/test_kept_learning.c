/* test_kept_learning.c - bytes that were kept somewhere: what cannot have been learned is not taken
 * for it, whichever number is wrong.
 */
#include <math.h>
#include <string.h>

#include "check.h"
#include "lib/policy/expected.h"
#include "lib/policy/forecast.h"

enum { WINDOW = 16000,
       NOW = 40000,
       ALL_AXES = 7 };

/* Too large for a stack. */
static struct forecast learned, fresh, spoiled;

static void learn(void)
{
    forecast_init(&fresh, ALL_AXES, WINDOW);
    forecast_init(&learned, ALL_AXES, WINDOW);
    forecast_update(&learned, 0);
    for (tg_ms now = 1; now <= NOW; now += 100) {
        for (int kind = 0; kind < 5; kind++)
            forecast_count(&learned, 1 + kind, (const double[MIX_AXES]){0.01, 1 << 2 * kind, 0.5});
        forecast_update(&learned, now);
    }
    assert_true(learned.mix.n >= 3 && learned.ended >= 30);
    assert_true(forecast_is_sane(&learned, &fresh, NOW));
}

/* Each of them, alone, makes the whole insane; and without it the bytes are fine. */
static void expect_real(const char *what, double *at, double least, double most)
{
    const double wrong[] = {(double)NAN, (double)INFINITY, least - 1, most > 0 ? most * 1.01 : 1};

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        double kept = *at;
        *at = wrong[i];
        if (forecast_is_sane(&spoiled, &fresh, NOW))
            fail_msg("%s: %g is taken", what, wrong[i]);
        *at = kept;
    }
    assert_true(forecast_is_sane(&spoiled, &fresh, NOW));
}

static void expect_float(const char *what, float *at)
{
    const float wrong[] = {NAN, INFINITY, -INFINITY};

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        float kept = *at;
        *at = wrong[i];
        if (forecast_is_sane(&spoiled, &fresh, NOW))
            fail_msg("%s: %g is taken", what, (double)wrong[i]);
        *at = kept;
    }
    assert_true(forecast_is_sane(&spoiled, &fresh, NOW));
}

#define EXPECT_WHOLE(field, value)                       \
    do {                                                 \
        memcpy(&spoiled, &learned, sizeof spoiled);      \
        spoiled.field = (value);                         \
        if (forecast_is_sane(&spoiled, &fresh, NOW))     \
            fail_msg("%s: %s is taken", #field, #value); \
    } while (0)

static void no_number_of_a_forecast_is_taken_that_cannot_be(void **state)
{
    static const size_t cells[] = {0, 1, MIX_CELLS - 1}, blocks[] = {0, 1, FORECAST_BLOCKS - 1};
    const double most = 1e300;
    (void)state;

    learn();
    memcpy(&spoiled, &learned, sizeof spoiled);
    for (size_t c = 0; c < COUNT_OF(cells); c++) {
        size_t k = cells[c];
        expect_real("fresh", &spoiled.fresh[k], 0, most);
        expect_real("running", &spoiled.running[k], 0, most);
        expect_real("just_now", &spoiled.just_now.value[k], 0, most);
        expect_real("lately", &spoiled.lately.value[k], 0, most);
        expect_real("prior", &spoiled.prior.value[k], 0, most);
        for (size_t b = 0; b < COUNT_OF(blocks); b++)
            expect_float("sum", &spoiled.sum[blocks[b]][k]);
    }
    for (size_t b = 0; b < COUNT_OF(blocks); b++) {
        expect_float("mood", &spoiled.mood[blocks[b]][0]);
        expect_float("mood", &spoiled.mood[blocks[b]][1]);
    }
    struct forecast_recent *recent[] = {&spoiled.just_now, &spoiled.lately, &spoiled.prior};
    for (size_t i = 0; i < COUNT_OF(recent); i++) {
        double half_life = recent[i]->half_life;
        expect_real("span", &recent[i]->span, 0, most);
        expect_real("half-life", &recent[i]->half_life, half_life, half_life);
    }
    expect_real("seen", &spoiled.seen, 0, most);
    expect_real("prior_calls", &spoiled.prior_calls, 0, 1e300);
    expect_real("block", &spoiled.block, spoiled.block, spoiled.block);
    EXPECT_WHOLE(at, -1);
    EXPECT_WHOLE(at, NOW + 1);
    EXPECT_WHOLE(current, -1);
    EXPECT_WHOLE(current, NOW / (WINDOW / FORECAST_PER_WINDOW) + 2);
    EXPECT_WHOLE(ended, -1);
    EXPECT_WHOLE(ordered, learned.mix.n + 1);
    EXPECT_WHOLE(order[0], (uint8_t)learned.mix.n);
    EXPECT_WHOLE(order[learned.ordered - 1], (uint8_t)learned.mix.n);
    EXPECT_WHOLE(mix.axes, 3);
}

static void no_number_of_a_mix_is_taken_that_cannot_be(void **state)
{
    size_t used = 0;
    (void)state;

    learn();
    while (learned.mix.slot[used] == 0)
        used++;
    memcpy(&spoiled, &learned, sizeof spoiled);
    for (size_t i = 0; i < 2; i++) {
        struct mix_cell *cell = &spoiled.mix.cell[i == 0 ? 0 : learned.mix.n - 1];
        for (int axis = 0; axis < MIX_AXES; axis++)
            expect_real("per_value", &cell->per_value[axis], 0, 1e36);
        expect_real("n", &cell->n, 1, 64);
    }
    EXPECT_WHOLE(mix.n, learned.mix.n + 1);
    EXPECT_WHOLE(mix.n, learned.mix.n - 1);
    EXPECT_WHOLE(mix.n, MIX_CELLS + 1);
    EXPECT_WHOLE(mix.dropped, 12);
    EXPECT_WHOLE(mix.slot[used], 0);
    EXPECT_WHOLE(mix.slot[used], (uint8_t)(learned.mix.n + 1));
    EXPECT_WHOLE(mix.slot[used], 255);
}

static void no_sum_of_what_was_used_is_taken_that_cannot_be(void **state)
{
    static const struct expected_sum wrong[] = {
        {-1, 0},
        {1, -1},
        {(double)NAN, 1},
        {1, (double)NAN},
        {(double)INFINITY, 1},
        {1, (double)INFINITY},
        {0, 1},
    };
    static const size_t octaves[] = {0, 1, EXPECTED_OCTAVES - 1};
    struct expected expected = {.all = {0, 0}};
    (void)state;

    assert_true(expected_is_sane(&expected));
    expected_learn(&expected, 100, 30);
    expected_learn(&expected, 1000, 1200);
    assert_true(expected_is_sane(&expected));
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct expected other = expected;
        other.all = wrong[i];
        assert_false(expected_is_sane(&other));
        for (size_t k = 0; k < COUNT_OF(octaves); k++) {
            other = expected;
            other.octave[octaves[k]] = wrong[i];
            assert_false(expected_is_sane(&other));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_number_of_a_forecast_is_taken_that_cannot_be),
        cmocka_unit_test(no_number_of_a_mix_is_taken_that_cannot_be),
        cmocka_unit_test(no_sum_of_what_was_used_is_taken_that_cannot_be),
    };
    return cmocka_run_group_tests_name("kept_learning", tests, NULL, NULL);
}
