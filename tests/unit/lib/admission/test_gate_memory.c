/* test_gate_memory.c - memory states, and what a refused caller is told.
 *
 * Their exact borders, hysteresis, what is not known.
 */
#include <math.h>
#include <string.h>

#include "gate_kit.h"

#define NOW 1000
#define UNKNOWN ((double)NAN)

static struct tg_gate *memory_gate(struct gate_log *log)
{
    struct tg_gate_config config = gate_config(log);

    config.memory.on = true;
    return must_gate(&config);
}

static void expect_admitted(struct tg_gate *gate, double used, int classes)
{
    for (int p = 0; p < TG_PRIORITY_COUNT; p++) {
        struct tg_call call = call_of((enum tg_priority)p);
        struct tg_answer answer = must_admit(gate, &call, NOW);
        if (answer.decision.allowed != (p < classes))
            fail_msg("at %g: %s is %s", used, tg_priority_name((enum tg_priority)p),
                     answer.decision.allowed ? "admitted" : "refused");
    }
}

/* One reading after the other: how many of high, normal, low are admitted then. */
struct reading {
    double used;
    int classes;
};

static void expect_readings(const struct reading *readings, size_t n)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate *gate = memory_gate(&log);

    for (size_t i = 0; i < n; i++) {
        tg_gate_set_memory(gate, readings[i].used);
        expect_admitted(gate, readings[i].used, readings[i].classes);
    }
    tg_gate_free(gate);
}

static void a_state_is_entered_above_its_threshold(void **state)
{
    static const struct reading rising[] = {
        {0, 3},
        {0.5, 3},
        {0.84999, 3},
        {0.85, 3},
        {0.8500001, 2},
        {0.9, 2},
        {0.95, 2},
        {0.950001, 1},
        {0.98, 1},
        {0.980001, 0},
        {1.0, 0},
    };
    (void)state;
    expect_readings(rising, COUNT_OF(rising));
}

static void a_state_is_left_two_points_below_its_threshold(void **state)
{
    static const struct reading falling[] = {
        {1.0, 0},
        {0.98, 0},
        {0.96001, 0},
        {0.96, 1},
        {0.94, 1},
        {0.93001, 1},
        {0.93, 2},
        {0.85, 2},
        {0.83001, 2},
        {0.83, 3},
        {0.85, 3},
        {0.8501, 2},
    };
    (void)state;
    expect_readings(falling, COUNT_OF(falling));
}

static void a_fraction_that_trembles_changes_nothing(void **state)
{
    static const struct reading trembling[] = {
        {0.851, 2},
        {0.849, 2},
        {0.851, 2},
        {0.849, 2},
        {0.835, 2},
        {0.829, 3},
        {0.849, 3},
        {0.85, 3},
        {0.951, 1},
        {0.949, 1},
        {0.951, 1},
        {0.931, 1},
    };
    (void)state;
    expect_readings(trembling, COUNT_OF(trembling));
}

/* From the highest state to between two: each has its own border. */
static void several_states_can_be_left_at_once(void **state)
{
    static const struct reading falls[] = {
        {0.99, 0},
        {0.935, 1},
        {0.99, 0},
        {0.92, 2},
        {0.99, 0},
        {0.84, 2},
        {0.99, 0},
        {0.82, 3},
        {0.99, 0},
        {0.1, 3},
    };
    (void)state;
    expect_readings(falls, COUNT_OF(falls));
}

static void what_is_not_known_refuses_nobody(void **state)
{
    static const struct reading lost[] = {
        {UNKNOWN, 3},
        {0.99, 0},
        {UNKNOWN, 3},
        {0.96, 1},
        {UNKNOWN, 3},
        {0.84, 3},
    };
    (void)state;
    expect_readings(lost, COUNT_OF(lost));
}

static void before_the_first_reading_nobody_is_refused(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate *gate = memory_gate(&log);
    (void)state;

    expect_admitted(gate, UNKNOWN, 3);
    tg_gate_free(gate);
}

static void readings_out_of_range_are_taken_for_none_and_all(void **state)
{
    static const struct reading odd[] = {
        {-1, 3}, {(double)INFINITY, 0}, {-(double)INFINITY, 3}, {2, 0}, {0, 3}};
    (void)state;
    expect_readings(odd, COUNT_OF(odd));
}

static void thresholds_are_settings(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config(&log);
    (void)state;

    config.memory.on = true;
    config.memory.pressure = 0.5;
    config.memory.critical = 0.6;
    config.memory.limit = 0.7;
    struct tg_gate *gate = must_gate(&config);
    static const struct reading readings[] = {
        {0.5, 3},
        {0.51, 2},
        {0.61, 1},
        {0.71, 0},
        {0.69, 0},
        {0.68, 1},
        {0.58, 2},
        {0.48, 3},
    };
    for (size_t i = 0; i < COUNT_OF(readings); i++) {
        tg_gate_set_memory(gate, readings[i].used);
        expect_admitted(gate, readings[i].used, readings[i].classes);
    }
    tg_gate_free(gate);
}

static void a_refusal_says_so_in_every_field(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate *gate = memory_gate(&log);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    tg_gate_set_memory(gate, 0.96);
    struct tg_answer answer = must_refuse(gate, &call, NOW, TG_REASON_MEMORY_PRESSURE);
    assert_int_equal(answer.decision.remaining, 0);
    assert_int_equal(answer.decision.reset_at, NOW);
    assert_int_equal(answer.decision.retry_after_ms, 100);
    assert_int_equal(answer.axes.present, 0);
    assert_true(answer.memory_used > 0.9599 && answer.memory_used < 0.9601);
    tg_gate_free(gate);
}

static void memory_comes_before_peers_and_slots(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_from(TG_PRIORITY_HIGH, "peer");
    (void)state;

    config.memory.on = config.peers.on = true;
    config.peers.limit = 1;
    struct tg_gate *gate = must_gate(&config);
    must_allow(gate, &call, NOW);
    tg_gate_set_memory(gate, 0.99);
    must_refuse(gate, &call, NOW, TG_REASON_MEMORY_PRESSURE);
    tg_gate_set_memory(gate, 0.1);
    must_refuse(gate, &call, NOW, TG_REASON_PEER_LIMIT);
    tg_gate_free(gate);
}

/* ---- words ---- */

static void expect_text(const struct tg_answer *answer, const struct tg_call *call,
                        const char *words)
{
    char text[200];

    tg_answer_describe(answer, call, text, sizeof text);
    if (strncmp(text, words, strlen(words)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", text, words);
}

static void refusals_begin_with_the_known_words(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_from(TG_PRIORITY_LOW, "node-7");
    char text[200];
    (void)state;

    config.memory.on = config.peers.on = true;
    config.peers.limit = 1;
    struct tg_gate *gate = must_gate(&config);
    struct tg_answer allowed = must_admit(gate, &call, NOW);
    tg_answer_describe(&allowed, &call, text, sizeof text);
    assert_string_equal(text, "");
    struct tg_answer answer = must_refuse(gate, &call, NOW, TG_REASON_PEER_LIMIT);
    expect_text(&answer, &call, "peer node-7 exceeded per-peer limit: 1 call at once");
    struct tg_call other = call_from(TG_PRIORITY_LOW, "node-8");
    answer = must_refuse(gate, &other, NOW, TG_REASON_CONCURRENCY);
    expect_text(&answer, &other,
                "server overloaded: concurrency limit: 1 call at once, try again in 1 s");
    tg_gate_set_memory(gate, 0.96);
    answer = must_refuse(gate, &call, NOW, TG_REASON_MEMORY_PRESSURE);
    expect_text(&answer, &call, "memory pressure: 96.0% used");
    tg_gate_set_memory(gate, 1.0);
    answer = must_refuse(gate, &call, NOW, TG_REASON_MEMORY_PRESSURE);
    expect_text(&answer, &call, "memory pressure: 100.0% used");
    tg_gate_free(gate);
}

static void words_are_cut_to_the_room_there_is(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate *gate = memory_gate(&log);
    struct tg_call call = call_of(TG_PRIORITY_LOW);
    char text[8] = "#######";
    (void)state;

    tg_gate_set_memory(gate, 0.96);
    struct tg_answer answer = must_refuse(gate, &call, NOW, TG_REASON_MEMORY_PRESSURE);
    tg_answer_describe(&answer, &call, text, 0);
    assert_int_equal(text[0], '#');
    tg_answer_describe(&answer, &call, text, 7);
    assert_string_equal(text, "memory");
    answer.reason = TG_REASON_NONE;
    tg_answer_describe(&answer, &call, text, 1);
    assert_string_equal(text, "");
    tg_gate_free(gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_is_entered_above_its_threshold),
        cmocka_unit_test(a_state_is_left_two_points_below_its_threshold),
        cmocka_unit_test(a_fraction_that_trembles_changes_nothing),
        cmocka_unit_test(several_states_can_be_left_at_once),
        cmocka_unit_test(what_is_not_known_refuses_nobody),
        cmocka_unit_test(before_the_first_reading_nobody_is_refused),
        cmocka_unit_test(readings_out_of_range_are_taken_for_none_and_all),
        cmocka_unit_test(thresholds_are_settings),
        cmocka_unit_test(a_refusal_says_so_in_every_field),
        cmocka_unit_test(memory_comes_before_peers_and_slots),
        cmocka_unit_test(refusals_begin_with_the_known_words),
        cmocka_unit_test(words_are_cut_to_the_room_there_is),
    };
    return cmocka_run_group_tests_name("gate_memory", tests, NULL, NULL);
}
