/* test_recent_min.c - the lowest of the last samples: a ring that grows and shrinks while it is in
 * use, samples that age, and no memory.
 */
#include "failing_malloc.h"

#include <math.h>

#include "draw.h"
#include "lib/concurrency/laws.h"

enum { SAMPLES_MAX = 4000 };

/* All samples that were ever pushed, and how many of the newest still count. */
struct history {
    struct recent_min recent;
    struct random random;
    double values[SAMPLES_MAX];
    int64_t n;
    int64_t counted;
    int64_t window;
};

static void history_begin(struct history *history, int64_t window)
{
    *history = (struct history){.window = window};
    random_init(&history->random, 1, 1);
    assert_true(recent_min_init(&history->recent, window, &history->random));
}

/* Pushes a value, and holds the answer against a search through the last ones. */
static void history_push(struct history *history, double value)
{
    double lowest = value;

    history->values[history->n++] = value;
    history->counted = history->counted < history->window ? history->counted + 1 : history->window;
    for (int64_t k = 1; k <= history->counted; k++)
        lowest = fmin(lowest, history->values[history->n - k]);
    double got = recent_min_push(&history->recent, value, 0, &history->random);
    if (got < lowest || got > lowest)
        fail_msg("sample %lld, window %lld: the lowest is %g, not %g", (long long)history->n,
                 (long long)history->window, lowest, got);
}

static void history_resize(struct history *history, int64_t window)
{
    assert_true(recent_min_resize(&history->recent, window));
    history->window = window;
    history->counted = history->counted < window ? history->counted : window;
}

/* Rising samples are all candidates, so the ring is full, and its ends are anywhere in it. */
static void a_ring_that_grows_keeps_all_its_candidates(void **state)
{
    (void)state;
    for (int64_t before = 1; before < 40; before++) {
        static struct history history;
        history_begin(&history, 8);
        for (int64_t i = 0; i < before; i++)
            history_push(&history, (double)(100 + i));
        history_resize(&history, 32);
        for (int64_t i = 0; i < 64; i++)
            history_push(&history, (double)(200 + i));
        recent_min_fini(&history.recent);
    }
}

static void windows_may_change_at_any_time(void **state)
{
    static struct history history;
    struct draw draw = draw_stream(draw_seed("recent_min"), 1);
    (void)state;

    history_begin(&history, 1);
    while (history.n < SAMPLES_MAX) {
        if (draw_chance(&draw, 3))
            history_resize(&history, draw_between(&draw, 1, 70));
        /* Mostly rising: else there are few candidates. */
        history_push(&history, (double)(history.n / 10 + draw_between(&draw, 0, 5)));
    }
    recent_min_fini(&history.recent);
}

/* One that comes now and several that are a minute old: all of the old ones leave. */
static void all_that_have_aged_leave_together(void **state)
{
    struct recent_min recent;
    struct random random;
    (void)state;

    random_init(&random, 1, 1);
    assert_true(recent_min_init(&recent, 100, &random));
    for (int i = 0; i < 5; i++)
        recent_min_push(&recent, 10 + i, i, &random);
    double got = recent_min_push(&recent, 100, 70000, &random);
    assert_true(got >= 100 && got <= 100);
    recent_min_fini(&recent);
}

/* A drawn age of 54 to 66 seconds, exact to the ms: the instant itself is too old. A new one is
 * drawn only when something has left by it. */
static void an_age_is_drawn_when_something_has_left_by_it(void **state)
{
    tg_ms least = INT64_MAX, most = 0;
    (void)state;

    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct recent_min recent;
        struct random random;
        random_init(&random, seed, 1);
        assert_true(recent_min_init(&recent, 100, &random));
        tg_ms age = recent.max_age;
        least = age < least ? age : least;
        most = age > most ? age : most;
        recent_min_push(&recent, 1, 0, &random);
        assert_int_equal(recent_min_push(&recent, 2, age - 1, &random), 1);
        assert_int_equal(recent.max_age, age);
        assert_int_equal(recent_min_push(&recent, 3, age, &random), 2);
        assert_int_not_equal(recent.max_age, age);
        recent_min_fini(&recent);
    }
    assert_in_range(least, 54000, 54050);
    assert_in_range(most, 65950, 66000);
}

/* A resize that keeps the power of two keeps the ring. */
static void a_ring_is_replaced_only_by_a_larger_one(void **state)
{
    static struct history history;
    (void)state;

    history_begin(&history, 5);
    struct recent *ring = history.recent.ring;
    history_resize(&history, 8);
    assert_ptr_equal(history.recent.ring, ring);
    history_resize(&history, 2);
    assert_ptr_equal(history.recent.ring, ring);
    history_resize(&history, 9);
    assert_int_equal(history.recent.mask, 15);
    recent_min_fini(&history.recent);
}

static void without_memory_nothing_changes(void **state)
{
    static struct history history;
    struct tg_law_config config;
    struct tg_problem problem = {""};
    struct law law;
    (void)state;

    if (!OWN_ALLOCATOR)
        skip();
    history_begin(&history, 8);
    for (int i = 0; i < 20; i++)
        history_push(&history, 20 - i % 8);
    until_failure = 0;
    bool grown = recent_min_resize(&history.recent, 9);
    until_failure = -1;
    assert_false(grown);
    for (int i = 0; i < 20; i++)
        history_push(&history, 20 + i % 8);
    recent_min_fini(&history.recent);

    tg_law_config_init(&config);
    config.law = TG_LAW_AIMD;
    until_failure = 0;
    enum tg_err err = law_init(&law, &config, 1, &problem);
    until_failure = -1;
    assert_int_equal(err, TG_ERR_MEMORY);
    assert_string_equal(problem.text, "no memory for the samples of aimd");

    config.law = TG_LAW_FIXED;
    assert_int_equal(law_init(&law, &config, 1, NULL), TG_OK);
    config.law = TG_LAW_GRADIENT2;
    config.initial = 50;
    until_failure = 0;
    bool changed = law_reconfigure(&law, &config);
    until_failure = -1;
    assert_false(changed);
    assert_int_equal(law_limit(&law), 128);
    assert_int_equal(law.config.law, TG_LAW_FIXED);
    law_fini(&law);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_that_grows_keeps_all_its_candidates),
        cmocka_unit_test(windows_may_change_at_any_time),
        cmocka_unit_test(all_that_have_aged_leave_together),
        cmocka_unit_test(an_age_is_drawn_when_something_has_left_by_it),
        cmocka_unit_test(a_ring_is_replaced_only_by_a_larger_one),
        cmocka_unit_test(without_memory_nothing_changes),
    };
    return cmocka_run_group_tests_name("recent_min", tests, NULL, NULL);
}
