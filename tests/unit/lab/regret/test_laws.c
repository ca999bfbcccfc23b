/* test_laws.c - laws on a server in virtual time: where they end, and their traces to the byte.
 *
 * The traces are tests/golden/laws/NAME.txt: second, limit, calls in flight. After a change that is
 * meant, TG_UPDATE_GOLDEN=1 writes them anew:
 *
 *     make tests && TG_UPDATE_GOLDEN=1 build/tests/unit/lab/regret/test_laws
 *
 * from the top of the tree, where tests are run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "lab/regret/plant.h"
#include "lib/concurrency/laws.h"

enum { WORKERS = 64 };

/* A law that guards a plant. */
struct guard {
    struct law law;
    bool samples_first_byte;
    void (*scenario)(double now_ms, struct plant_load *load);
    int64_t lowest; /* limit learned since `watch_from` */
    int64_t highest;
    tg_ms watch_from;
    FILE *trace;
};

static void guard_load(void *context, double now_ms, struct plant_load *load)
{
    struct guard *guard = context;

    *load = (struct plant_load){.workers = WORKERS,
                                .arrivals_per_ms = 3.2,
                                .service_ms = 20,
                                .service_cv = 0.7,
                                .reject_cost = 0.02,
                                .deadline_ms = 100};
    guard->scenario(now_ms, load);
}

static bool guard_may_start(void *context, tg_ms now, int64_t in_flight)
{
    struct guard *guard = context;

    if (in_flight < law_limit(&guard->law)) {
        law_started(&guard->law, now, in_flight + 1);
        return true;
    }
    law_rejected(&guard->law, now);
    return false;
}

static void guard_finished(void *context, const struct plant_end *end)
{
    struct guard *guard = context;
    struct law_sample sample = {
        .now = end->now,
        .sample_ms = guard->samples_first_byte ? end->first_byte_ms : end->total_ms,
        .sojourn_ms = (double)end->sojourn_ms,
        .in_flight = end->in_flight,
        .in_flight_at_start = end->in_flight_at_start,
    };

    law_finished(&guard->law, &sample);
    assert_true(law_limit(&guard->law) >= guard->law.config.min);
    assert_true(law_limit(&guard->law) <= guard->law.config.max);
}

static void guard_tick(void *context, tg_ms now, int64_t in_flight)
{
    struct guard *guard = context;
    int64_t limit = guard->law.learned > 0 ? guard->law.learned : law_limit(&guard->law);

    if (now >= guard->watch_from) {
        guard->lowest = limit < guard->lowest ? limit : guard->lowest;
        guard->highest = limit > guard->highest ? limit : guard->highest;
    }
    if (guard->trace)
        (void)fprintf(guard->trace, "%lld %lld %lld\n", (long long)now / 1000,
                      (long long)law_limit(&guard->law), (long long)in_flight);
}

struct run {
    enum tg_law law;
    void (*scenario)(double now_ms, struct plant_load *load);
    int seconds;
    int watch_from; /* second */
    uint64_t seed;
    bool samples_first_byte;
    int64_t initial, min, max; /* 0: the default */
    FILE *trace;
};

static struct guard play(struct run run)
{
    struct guard guard = {
        .samples_first_byte = run.samples_first_byte,
        .scenario = run.scenario,
        .lowest = INT64_MAX,
        .watch_from = (tg_ms)run.watch_from * 1000,
        .trace = run.trace,
    };
    struct plant_subject subject = {
        .context = &guard,
        .load = guard_load,
        .may_start = guard_may_start,
        .finished = guard_finished,
        .tick = guard_tick,
        .tick_ms = 1000,
    };
    struct plant_result result;
    struct tg_law_config config;

    tg_law_config_init(&config);
    config.law = run.law;
    config.initial = run.initial ? run.initial : config.initial;
    config.min = run.min ? run.min : config.min;
    config.max = run.max ? run.max : config.max;
    assert_int_equal(law_init(&guard.law, &config, run.seed, NULL), TG_OK);
    assert_int_equal(plant_run(&subject, run.seed, run.seconds * 1000.0, &result), TG_OK);
    law_fini(&guard.law);
    return guard;
}

static void expect_watched(const char *what, uint64_t seed, const struct guard *guard, int64_t low,
                           int64_t high)
{
    print_message("%s, seed %d: the limit is in %d..%d\n", what, (int)seed, (int)guard->lowest,
                  (int)guard->highest);
    assert_true(guard->lowest >= low && guard->highest <= high);
}

/* ---- vegas finds what the server can do, within a quarter ---- */

enum { SEEDS = 2 };

static void overload(double now_ms, struct plant_load *load)
{
    (void)now_ms;
    load->arrivals_per_ms = 6.4;
}

static void slows_for_good(double now_ms, struct plant_load *load)
{
    load->arrivals_per_ms = 4.8;
    if (now_ms >= 150000)
        load->service_ms = 40;
}

static void slows_in_the_middle_of_a_baseline(double now_ms, struct plant_load *load)
{
    load->arrivals_per_ms = 4.8;
    if (now_ms >= 190000)
        load->service_ms = 40;
}

static void idle_then_spike(double now_ms, struct plant_load *load)
{
    load->arrivals_per_ms = now_ms < 600000 ? 0.05 : 12.8;
}

/* Long calls of uneven length: a window tells the mean of few of them, and not well. */
static void long_calls_slow_for_good(double now_ms, struct plant_load *load, int64_t workers)
{
    load->workers = workers;
    load->service_ms = now_ms < 200000 ? 200 : 400;
    load->deadline_ms = 1000;
}

static void many_workers_with_long_calls(double now_ms, struct plant_load *load)
{
    long_calls_slow_for_good(now_ms, load, 256);
    load->arrivals_per_ms = 1.5 * 256 / 200;
}

static void few_workers_with_long_calls(double now_ms, struct plant_load *load)
{
    long_calls_slow_for_good(now_ms, load, 64);
    load->arrivals_per_ms = 2.5 * 64 / 200;
}

static void vegas_finds_the_capacity(void **state)
{
    static const struct {
        const char *what;
        void (*scenario)(double now_ms, struct plant_load *load);
        int64_t capacity;
        int seconds, watch_from;
    } rows[] = {
        {"cold start under overload", overload, 64, 300, 200},
        {"service doubles at 150 s", slows_for_good, 64, 420, 320},
        {"service doubles at 190 s", slows_in_the_middle_of_a_baseline, 64, 460, 360},
        {"ten idle minutes, then four times the capacity", idle_then_spike, 64, 760, 680},
        {"long calls, 256 workers", many_workers_with_long_calls, 256, 1800, 700},
        {"long calls, 64 workers", few_workers_with_long_calls, 64, 1800, 700},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct guard guard = play((struct run){.law = TG_LAW_VEGAS,
                                                   .scenario = rows[i].scenario,
                                                   .seconds = rows[i].seconds,
                                                   .watch_from = rows[i].watch_from,
                                                   .seed = seed});
            expect_watched(rows[i].what, seed, &guard, rows[i].capacity * 3 / 4,
                           rows[i].capacity * 5 / 4);
        }
    }
}

/* ---- long answers, sampled at the first byte ---- */

static void long_answers(double now_ms, struct plant_load *load)
{
    (void)now_ms;
    load->workers = 100000;
    load->arrivals_per_ms = 0.3;
    load->service_ms = 50;
    load->service_cv = 0;
    load->delay_ms = 500;
}

static void long_answers_with_uneven_first_bytes(double now_ms, struct plant_load *load)
{
    long_answers(now_ms, load);
    load->service_cv = 0.1;
}

static void the_length_of_answers_lowers_no_limit(void **state)
{
    (void)state;
    for (int law = 0; law < TG_LAW_COUNT; law++) {
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct run run = {.law = (enum tg_law)law,
                              .scenario = long_answers,
                              .seconds = 300,
                              .seed = seed,
                              .samples_first_byte = true};
            struct guard guard = play(run);
            bool starts_low = law == TG_LAW_AUTO;
            expect_watched(tg_law_name(run.law), seed, &guard, starts_low ? 20 : 128, 1024);
            if (!starts_low)
                assert_int_equal(guard.law.learned, law == TG_LAW_NONE ? 0 : guard.highest);
            run.scenario = long_answers_with_uneven_first_bytes;
            run.watch_from = 1;
            guard = play(run);
            expect_watched("with uneven first bytes", seed, &guard, starts_low ? 20 : 120, 1024);
        }
    }
}

/* ---- places that are given back are no samples ---- */

static void no_denials(double now_ms, struct plant_load *load)
{
    (void)now_ms;
    load->workers = 100000;
    load->arrivals_per_ms = 6;
    load->service_ms = 20;
    load->service_cv = 0;
}

static void five_percent_denied(double now_ms, struct plant_load *load)
{
    no_denials(now_ms, load);
    load->denied = 0.05;
}

static void denials_further_on_poison_no_law(void **state)
{
    (void)state;
    for (int law = 0; law < TG_LAW_COUNT; law++) {
        struct run run = {.law = (enum tg_law)law,
                          .scenario = no_denials,
                          .seconds = law == TG_LAW_VEGAS ? 250 : 30, /* it alone is slow */
                          .seed = 1,
                          .initial = 100,
                          .min = 4,
                          .max = 512};
        struct guard without = play(run), with;
        run.scenario = five_percent_denied;
        with = play(run);
        print_message("%s: %d without denials, %d with\n", tg_law_name(run.law),
                      (int)without.law.limit, (int)with.law.limit);
        assert_true(with.law.limit * 10 >= without.law.limit * 9);
        assert_true(with.law.limit * 10 <= without.law.limit * 11);
    }
}

/* ---- golden traces ---- */

/* Half load, twice the capacity, then a service that has doubled, then half of them left. */
static void a_hard_day(double now_ms, struct plant_load *load)
{
    load->service_ms = now_ms < 120000 ? 20 : 40;
    load->service_cv = 0.2;
    load->arrivals_per_ms = now_ms < 30000 ? 1.6 : 6.4;
    load->workers = now_ms < 200000 ? WORKERS : WORKERS / 2;
}

static void expect_same_file(const char *path, const char *text, size_t length)
{
    FILE *file = fopen(path, "rb");
    char *golden = malloc(length + 1);
    size_t n;

    assert_non_null(golden);
    if (!file)
        fail_msg("%s: cannot be opened; tests are run from the top of the tree", path);
    n = fread(golden, 1, length + 1, file);
    (void)fclose(file);
    if (n != length || memcmp(golden, text, length) != 0)
        fail_msg("%s: the trace has changed; see the head of test_laws.c", path);
    free(golden);
}

static void replace_file(const char *path, const char *text, size_t length)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void traces_are_golden(void **state)
{
    (void)state;
    for (int law = 0; law < TG_LAW_COUNT; law++) {
        char path[100], *text = NULL;
        size_t length = 0;
        FILE *trace = open_memstream(&text, &length);
        assert_non_null(trace);
        (void)play((struct run){.law = (enum tg_law)law,
                                .scenario = a_hard_day,
                                .seconds = 280,
                                .seed = 1,
                                .trace = trace});
        assert_int_equal(fclose(trace), 0);
        (void)snprintf(path, sizeof(path), "tests/golden/laws/%s.txt",
                       tg_law_name((enum tg_law)law));
        if (getenv("TG_UPDATE_GOLDEN"))
            replace_file(path, text, length);
        else
            expect_same_file(path, text, length);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vegas_finds_the_capacity),
        cmocka_unit_test(the_length_of_answers_lowers_no_limit),
        cmocka_unit_test(denials_further_on_poison_no_law),
        cmocka_unit_test(traces_are_golden),
    };
    return cmocka_run_group_tests_name("laws", tests, NULL, NULL);
}
