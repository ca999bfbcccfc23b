/* test_cluster_parts.c - small parts of a cluster: names, the heap of events, gaps, percentiles. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "draw.h"
#include "lab/cluster/cluster_events.h"
#include "lab/cluster/cluster_names.h"
#include "lab/cluster/cluster_times.h"

static uint64_t seed;

/* ---- Names ---- */

static void a_text_has_one_number(void **state)
{
    struct cluster_names names;
    uint32_t number;
    char text[20];

    (void)state;
    assert_true(cluster_names_init(&names));
    for (int round = 0; round < 2; round++)
        for (int i = 1; i < 1000; i++) {
            int size = snprintf(text, sizeof text, "tenant %d", i);
            assert_true(cluster_names_get(&names, text, (size_t)size, &number));
            assert_int_equal(number, i);
            assert_string_equal(names.texts[number], text);
        }
    assert_true(cluster_names_get(&names, "x", 0, &number));
    assert_int_equal(number, 0);
    assert_int_equal(names.n, 1000);
    cluster_names_fini(&names);
}

/* ---- Events ---- */

static void events_come_by_time_and_then_by_order(void **state)
{
    struct draw draw = draw_stream(seed, 1);
    struct cluster_events events = {0};
    struct cluster_event last = {.at_us = -1};

    (void)state;
    assert_int_equal(cluster_events_next(&events), INT64_MAX);
    for (uint64_t order = 0; order < 20000;) {
        int64_t now = last.at_us < 0 ? 0 : last.at_us;
        struct cluster_event event = {.at_us = now + draw_between(&draw, 0, 20), .order = order};
        if (events.n == 0 || draw_chance(&draw, 55)) {
            assert_true(cluster_events_push(&events, &event));
            order++;
            continue;
        }
        int64_t next = cluster_events_next(&events);
        event = cluster_events_pop(&events);
        assert_int_equal(event.at_us, next);
        /* At one instant, a later one was either there and comes later, or was pushed since. */
        assert_true(event.at_us > last.at_us ||
                    (event.at_us == last.at_us && event.order > last.order));
        last = event;
    }
    cluster_events_fini(&events);
}

static void of_one_instant_the_order_decides(void **state)
{
    struct draw draw = draw_stream(seed, 2);
    struct cluster_events events = {0};
    uint64_t orders[500];

    (void)state;
    for (uint64_t i = 0; i < COUNT_OF(orders); i++)
        orders[i] = i;
    for (size_t i = COUNT_OF(orders) - 1; i > 0; i--) {
        size_t j = (size_t)draw_between(&draw, 0, (int64_t)i);
        uint64_t order = orders[i];
        orders[i] = orders[j];
        orders[j] = order;
    }
    for (size_t i = 0; i < COUNT_OF(orders); i++) {
        struct cluster_event event = {.at_us = 7, .order = orders[i]};
        assert_true(cluster_events_push(&events, &event));
    }
    for (uint64_t i = 0; i < COUNT_OF(orders); i++)
        assert_int_equal(cluster_events_pop(&events).order, i);
    cluster_events_fini(&events);
}

/* ---- Gaps ---- */

#define STEPS 20000
#define RUNNING 8

/* Against a list of all of them: requests run from some step on, and some take theirs back. */
static void gaps_that_are_taken_back_do_not_count(void **state)
{
    struct draw draw = draw_stream(seed, 3);
    struct gaps gaps = {0};
    struct gap_table table = {0};
    int64_t *lengths = malloc(STEPS * sizeof *lengths), *counts = calloc(STEPS, sizeof *counts);
    int64_t from[RUNNING] = {0}, total = 0, found = 0, sum = 0, found_sum = 0;
    size_t n;

    (void)state;
    assert_true(lengths != NULL && counts != NULL);
    for (int64_t step = 0; step < STEPS; step++) {
        int64_t needed = step;
        lengths[step] = draw_between(&draw, 1, 300);
        counts[step] = RUNNING;
        for (int r = 0; r < RUNNING; r++)
            needed = from[r] < needed ? from[r] : needed;
        assert_true(gaps_add(&gaps, lengths[step], RUNNING, needed));
        int r = (int)draw_between(&draw, 0, RUNNING - 1);
        if (draw_chance(&draw, 3)) {
            gaps_take_back(&gaps, from[r], gaps.end);
            for (int64_t i = from[r]; i <= step; i++)
                counts[i]--;
            from[r] = step + 1;
        } else if (draw_chance(&draw, 3)) {
            from[r] = step + 1; /* it is complete */
        }
    }
    assert_true(gaps.capacity < STEPS);
    assert_true(gaps_collect(&gaps, &table));
    for (int64_t i = 0; i < STEPS; i++) {
        total += counts[i];
        sum += counts[i] * lengths[i];
    }
    const struct gap_count *sorted = gap_table_sort(&table, &n);
    for (size_t i = 0; i < n; i++) {
        assert_true(i == 0 || sorted[i - 1].us < sorted[i].us);
        found += sorted[i].n;
        found_sum += sorted[i].n * sorted[i].us;
    }
    assert_int_equal(found, total);
    assert_int_equal(found_sum, sum);
    gap_table_fini(&table);
    gaps_fini(&gaps);
    free(lengths);
    free(counts);
}

/* ---- Percentiles ---- */

static void percentiles_lie_between_the_nearest_values(void **state)
{
    double values[10] = {5000, 1000, 3000, 2000, 4000};
    struct cluster_times times = times_of(values, 5);

    (void)state;
    assert_true(times.mean_ms == 3 && times.p50_ms == 3);
    assert_true(fabs(times.p90_ms - 4.6) < 1e-12);
    assert_true(fabs(times.p99_ms - 4.96) < 1e-12);
    times = times_of(values, 1);
    assert_true(times.p50_ms == 1 && times.p99_ms == 1 && times.mean_ms == 1);
    times = times_of(values, 0);
    assert_true(times.mean_ms == 0 && times.p99_ms == 0);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void values_of_all_sizes_are_sorted(void **state)
{
    enum { N = 3000 };
    struct draw draw = draw_stream(seed, 4);
    double *values = malloc(2 * N * sizeof *values), *sorted = malloc(N * sizeof *sorted);

    (void)state;
    assert_true(values != NULL && sorted != NULL);
    for (int i = 0; i < N; i++)
        sorted[i] = values[i] = draw_chance(&draw, 5)
                                    ? 0
                                    : (double)draw_magnitude(&draw, INT64_C(1) << 40) *
                                          (draw_chance(&draw, 50) ? 1 : draw_unit(&draw));
    qsort(sorted, N, sizeof *sorted, by_value);
    times_of(values, N);
    assert_memory_equal(values, sorted, N * sizeof *sorted);
    free(values);
    free(sorted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_has_one_number),
        cmocka_unit_test(events_come_by_time_and_then_by_order),
        cmocka_unit_test(of_one_instant_the_order_decides),
        cmocka_unit_test(gaps_that_are_taken_back_do_not_count),
        cmocka_unit_test(percentiles_lie_between_the_nearest_values),
        cmocka_unit_test(values_of_all_sizes_are_sorted),
    };

    seed = draw_seed("test_cluster_parts");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
