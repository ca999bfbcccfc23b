/* test_gate_basics.c - the first promises of a gate.
 *
 * It admits below its limits, refuses at them, and what ends makes room; and what settings and
 * calls it does not accept.
 */
#include <math.h>
#include <string.h>

#include "gate_kit.h"

#define NOW 1000

/* Limit 8 of at most 16, at least 2; 4 calls a peer; memory as by default. */
static struct tg_gate_config small_server(struct gate_log *log)
{
    struct tg_gate_config config = gate_config(log);

    config.concurrency.on = true;
    config.concurrency.law.initial = 8;
    config.concurrency.law.min = 2;
    config.concurrency.law.max = 16;
    config.peers.on = true;
    config.peers.limit = 4;
    config.memory.on = true;
    return config;
}

/* A large server on which only peers can be in the way. */
static struct tg_gate *large_server(struct gate_log *log, int64_t peer_limit)
{
    struct tg_gate_config config = gate_config(log);

    config.concurrency.on = true;
    config.concurrency.law.initial = 100;
    config.concurrency.law.max = 100;
    config.peers.on = true;
    config.peers.limit = peer_limit;
    return must_gate(&config);
}

static void admits_below_the_limit(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = small_server(&log);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    assert_int_not_equal(must_allow(gate, &call, NOW), 0);
    tg_gate_free(gate);
}

static void refuses_when_full_once_its_wait_is_over(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = small_server(&log);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    assert_int_equal(fill_gate(gate, &call, NOW, NULL, 8), 8);
    struct tg_answer waiting = must_admit(gate, &call, NOW);
    assert_int_equal(waiting.step, TG_WAITING);
    assert_int_equal(waiting.deadline, NOW + 50);
    struct tg_answer answer = must_resume(gate, waiting.lease, &call, NOW + 50);
    assert_int_equal(answer.reason, TG_REASON_CONCURRENCY);
    assert_int_equal(stats_of_gate(gate).in_flight, 8);
    tg_gate_free(gate);
}

static void low_is_refused_at_once_when_full(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = small_server(&log);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call normal = call_of(TG_PRIORITY_NORMAL), low = call_of(TG_PRIORITY_LOW);
    (void)state;

    assert_int_equal(fill_gate(gate, &normal, NOW, NULL, 8), 8);
    must_refuse(gate, &low, NOW, TG_REASON_CONCURRENCY);
    tg_gate_free(gate);
}

static void a_released_slot_admits_the_next(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = small_server(&log);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    tg_lease leases[8];
    (void)state;

    assert_int_equal(fill_gate(gate, &call, NOW, leases, 8), 8);
    assert_true(finish(gate, leases[7], NOW + 5));
    must_allow(gate, &call, NOW + 5);
    tg_gate_free(gate);
}

static void a_peer_at_its_limit_is_refused_and_another_is_not(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate *gate = large_server(&log, 3);
    struct tg_call a = call_from(TG_PRIORITY_NORMAL, "peer_A");
    struct tg_call b = call_from(TG_PRIORITY_NORMAL, "peer_B");
    (void)state;

    assert_int_equal(fill_gate(gate, &a, NOW, NULL, 3), 3);
    must_refuse(gate, &a, NOW, TG_REASON_PEER_LIMIT);
    must_allow(gate, &b, NOW);
    tg_gate_free(gate);
}

static void a_released_call_frees_its_peers_slot(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate *gate = large_server(&log, 2);
    struct tg_call a = call_from(TG_PRIORITY_NORMAL, "peer_A");
    tg_lease leases[2];
    (void)state;

    assert_int_equal(fill_gate(gate, &a, NOW, leases, 2), 2);
    must_refuse(gate, &a, NOW, TG_REASON_PEER_LIMIT);
    assert_true(finish(gate, leases[0], NOW));
    must_allow(gate, &a, NOW);
    tg_gate_free(gate);
}

static void memory_pressure_sheds_low(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = small_server(&log);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call high = call_of(TG_PRIORITY_HIGH), normal = call_of(TG_PRIORITY_NORMAL);
    struct tg_call low = call_of(TG_PRIORITY_LOW);
    (void)state;

    tg_gate_set_memory(gate, 0.90);
    must_allow(gate, &high, NOW);
    must_allow(gate, &normal, NOW);
    must_refuse(gate, &low, NOW, TG_REASON_MEMORY_PRESSURE);
    tg_gate_free(gate);
}

static void critical_memory_admits_high_alone(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = small_server(&log);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call high = call_of(TG_PRIORITY_HIGH), normal = call_of(TG_PRIORITY_NORMAL);
    struct tg_call low = call_of(TG_PRIORITY_LOW);
    (void)state;

    tg_gate_set_memory(gate, 0.96);
    must_allow(gate, &high, NOW);
    must_refuse(gate, &normal, NOW, TG_REASON_MEMORY_PRESSURE);
    must_refuse(gate, &low, NOW, TG_REASON_MEMORY_PRESSURE);
    tg_gate_free(gate);
}

/* ---- what all calls share ---- */

static void a_gate_without_stages_admits_everything_and_holds_nothing(void **state)
{
    struct tg_gate_config config;
    struct tg_call low = call_from(TG_PRIORITY_LOW, "peer");
    (void)state;

    tg_gate_config_init(&config);
    struct tg_gate *gate = must_gate(&config);
    tg_gate_set_memory(gate, 1.0);
    for (int i = 0; i < 100; i++) {
        struct tg_answer answer = must_admit(gate, &low, NOW);
        expect_decision("no limit", answer.decision, TG_ALLOW_FULL);
        assert_int_equal(answer.lease, 0);
    }
    assert_int_equal(stats_of_gate(gate).limit, TG_NUMBER_MAX);
    assert_int_equal(stats_of_gate(gate).admitted, 100);
    expect_idle(gate);
    tg_gate_free(gate);
}

static void a_stage_that_is_off_is_passed_over(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_from(TG_PRIORITY_NORMAL, "peer");
    (void)state;

    config.peers.limit = 1;
    config.concurrency.on = false;
    struct tg_gate *gate = must_gate(&config);
    tg_gate_set_memory(gate, 0.99);
    assert_int_equal(fill_gate(gate, &call, NOW, NULL, 50), 50);
    tg_gate_free(gate);
}

static void counters_count_what_was_decided(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = small_server(&log);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call low = call_of(TG_PRIORITY_LOW), a = call_from(TG_PRIORITY_HIGH, "a");
    (void)state;

    assert_int_equal(fill_gate(gate, &low, NOW, NULL, 100), 4); /* half of 8 */
    assert_int_equal(fill_gate(gate, &a, NOW, NULL, 4), 4);
    must_refuse(gate, &a, NOW, TG_REASON_PEER_LIMIT);
    tg_gate_set_memory(gate, 0.99);
    must_refuse(gate, &a, NOW, TG_REASON_MEMORY_PRESSURE);
    must_refuse(gate, &low, NOW, TG_REASON_MEMORY_PRESSURE);
    struct tg_gate_stats stats = stats_of_gate(gate);
    assert_int_equal(stats.admitted, 8);
    assert_int_equal(stats.refused[TG_REASON_CONCURRENCY], 1);
    assert_int_equal(stats.refused[TG_REASON_PEER_LIMIT], 1);
    assert_int_equal(stats.refused[TG_REASON_MEMORY_PRESSURE], 2);
    assert_int_equal(stats.refused[TG_REASON_NONE], 0);
    assert_int_equal(stats.leases, 8);
    assert_int_equal(stats.peers, 1);
    assert_int_equal(stats.peer_calls, 4);
    tg_gate_free(gate);
}

static void names_are_those_of_the_header(void **state)
{
    (void)state;
    assert_string_equal(tg_priority_name(TG_PRIORITY_HIGH), "high");
    assert_string_equal(tg_priority_name(TG_PRIORITY_NORMAL), "normal");
    assert_string_equal(tg_priority_name(TG_PRIORITY_LOW), "low");
    assert_null(tg_priority_name(TG_PRIORITY_COUNT));
    assert_null(tg_priority_name((enum tg_priority)77));
    assert_string_equal(tg_reason_name(TG_REASON_NONE), "none");
    assert_string_equal(tg_reason_name(TG_REASON_MEMORY_PRESSURE), "memory_pressure");
    assert_string_equal(tg_reason_name(TG_REASON_PEER_LIMIT), "peer_limit");
    assert_string_equal(tg_reason_name(TG_REASON_COST), "cost");
    assert_null(tg_reason_name(TG_REASON_COUNT));
}

/* ---- what is not accepted ---- */

static void set_pressure_above_critical(struct tg_gate_config *c)
{
    c->memory.on = true;
    c->memory.pressure = 0.96;
}

static void set_memory_nan(struct tg_gate_config *c)
{
    c->memory.on = true;
    c->memory.limit = (double)NAN;
}

static void set_critical_above_limit(struct tg_gate_config *c)
{
    c->memory.on = true;
    c->memory.critical = 0.99;
}

static void set_min_above_max(struct tg_gate_config *c)
{
    c->concurrency.law.min = 2000;
}

static void set_initial_below_min(struct tg_gate_config *c)
{
    c->concurrency.law.initial = 3;
    c->concurrency.law.min = 4;
}

static void set_no_wake(struct tg_gate_config *c)
{
    c->wake = NULL;
}

static void set_mode_7(struct tg_gate_config *c)
{
    c->concurrency.mode = (enum tg_mode)7;
}

static const struct {
    const char *what;
    void (*spoil)(struct tg_gate_config *config);
} bad_settings[] = {
    {"pressure above critical", set_pressure_above_critical},
    {"memory limit not a number", set_memory_nan},
    {"critical above the memory limit", set_critical_above_limit},
    {"min above max", set_min_above_max},
    {"initial below min", set_initial_below_min},
    {"nobody to wake", set_no_wake},
    {"no such mode", set_mode_7},
};

/* Each of the four has a mode of its own. */
static void every_mode_is_one_that_there_is(void **state)
{
    struct gate_log log = {.n_woken = 0};
    const struct tg_gate_config good = gate_config_slots(&log, 3);
    (void)state;

    for (int field = 0; field < 4; field++)
        for (int mode = -1; mode <= 2; mode++) {
            struct tg_gate_config config = good;
            struct tg_gate *gate = NULL;
            enum tg_mode *const modes[] = {&config.memory.mode, &config.peers.mode,
                                           &config.concurrency.mode, &config.policy_mode};
            *modes[field] = (enum tg_mode)mode;
            enum tg_err err = tg_gate_new(&config, &gate, NULL);
            assert_int_equal(err, mode == TG_ENFORCE || mode == TG_SHADOW ? TG_OK : TG_ERR_INVALID);
            tg_gate_free(gate);
        }
}

static void bad_settings_make_no_gate_and_change_none(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config good = gate_config_slots(&log, 3);
    struct tg_gate *gate = must_gate(&good);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    for (size_t i = 0; i < COUNT_OF(bad_settings); i++) {
        struct tg_gate_config bad = good;
        struct tg_gate *made = NULL;
        struct tg_problem problem = {""};
        bad_settings[i].spoil(&bad);
        if (tg_gate_new(&bad, &made, &problem) != TG_ERR_INVALID || made != NULL)
            fail_msg("accepted: %s", bad_settings[i].what);
        assert_true(problem.text[0] != 0);
        if (tg_gate_reconfigure(gate, &bad, NOW, &problem) != TG_ERR_INVALID)
            fail_msg("accepted while running: %s", bad_settings[i].what);
        assert_int_equal(tg_gate_new(&bad, &made, NULL), TG_ERR_INVALID);
    }
    assert_int_equal(fill_gate(gate, &call, NOW, NULL, 10), 3);
    tg_gate_free(gate);
}

static void expect_accepted(const struct tg_gate_config *config, bool accepted, const char *what)
{
    struct tg_gate *made = NULL;
    struct tg_problem problem = {""};
    enum tg_err err = tg_gate_new(config, &made, &problem);

    if (err != (accepted ? TG_OK : TG_ERR_INVALID))
        fail_msg("%s: %s (%s)", what, tg_strerror(err), problem.text);
    assert_true((made != NULL) == accepted && (problem.text[0] == 0) == accepted);
    tg_gate_free(made);
}

/* One beyond either bound is refused. */
static void a_number_is_accepted_up_to_its_bounds(void **state)
{
    static const struct {
        const char *what;
        size_t at;
        int64_t least, most;
    } rows[] = {
        {"peers: limit", offsetof(struct tg_gate_config, peers.limit), 1, INT64_MAX},
        {"peers: max_peers", offsetof(struct tg_gate_config, peers.max_peers), 1, INT32_MAX},
        {"queue_size", offsetof(struct tg_gate_config, concurrency.queue_size), 0, 1000000},
        {"wait of high", offsetof(struct tg_gate_config, concurrency.wait[TG_PRIORITY_HIGH]),
         TG_WAIT_AUTO, TG_NUMBER_MAX},
        {"wait of normal", offsetof(struct tg_gate_config, concurrency.wait[TG_PRIORITY_NORMAL]),
         TG_WAIT_AUTO, TG_NUMBER_MAX},
        {"wait of low", offsetof(struct tg_gate_config, concurrency.wait[TG_PRIORITY_LOW]),
         TG_WAIT_AUTO, TG_NUMBER_MAX},
        {"lease_ttl", offsetof(struct tg_gate_config, lease_ttl), 1, TG_NUMBER_MAX},
        {"max_learned", offsetof(struct tg_gate_config, max_learned), 0, 1 << 24},
    };
    struct gate_log log = {.n_woken = 0};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tg_gate_config config = gate_config_slots(&log, 3);
        int64_t *number = (int64_t *)((char *)&config + rows[i].at);
        *number = rows[i].least;
        expect_accepted(&config, true, rows[i].what);
        *number = rows[i].least - 1;
        expect_accepted(&config, false, rows[i].what);
        *number = rows[i].most;
        expect_accepted(&config, true, rows[i].what);
        if (rows[i].most < INT64_MAX) {
            *number = rows[i].most + 1;
            expect_accepted(&config, false, rows[i].what);
        }
    }
}

static void a_part_is_accepted_from_0_to_1(void **state)
{
    static const size_t parts[] = {
        offsetof(struct tg_gate_config, concurrency.share[TG_PRIORITY_HIGH]),
        offsetof(struct tg_gate_config, concurrency.share[TG_PRIORITY_NORMAL]),
        offsetof(struct tg_gate_config, concurrency.share[TG_PRIORITY_LOW]),
        offsetof(struct tg_gate_config, concurrency.low_ratio),
    };
    static const struct {
        double part;
        bool accepted;
    } rows[] = {{0, true}, {1, true}, {-1e-9, false}, {1 + 1e-9, false}, {(double)NAN, false}};
    struct gate_log log = {.n_woken = 0};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(parts); i++)
        for (size_t k = 0; k < COUNT_OF(rows); k++) {
            struct tg_gate_config config = gate_config_slots(&log, 3);
            *(double *)((char *)&config + parts[i]) = rows[k].part;
            expect_accepted(&config, rows[k].accepted, "a part");
        }
}

/* Above 0, at most 1, and none below the one before it; and only where memory is looked at. */
static void thresholds_of_memory_are_in_order(void **state)
{
    static const struct {
        double pressure, critical, limit;
        bool accepted;
    } rows[] = {
        {0.5, 0.5, 0.5, true},
        {1, 1, 1, true},
        {1e-9, 1e-9, 1e-9, true},
        {0, 0.5, 0.5, false},
        {0.6, 0.5, 0.7, false},
        {0.5, 0.7, 0.6, false},
        {0.5, 0.6, 1 + 1e-9, false},
        {(double)NAN, 0.5, 0.6, false},
        {0.5, (double)NAN, 0.6, false},
        {0.5, 0.6, (double)NAN, false},
    };
    struct gate_log log = {.n_woken = 0};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tg_gate_config config = gate_config_slots(&log, 3);
        config.memory.pressure = rows[i].pressure;
        config.memory.critical = rows[i].critical;
        config.memory.limit = rows[i].limit;
        expect_accepted(&config, true, "memory that is off");
        config.memory.on = true;
        expect_accepted(&config, rows[i].accepted, "memory");
    }
}

/* Only a gate in which somebody may wait needs a function to wake them. */
static void a_gate_in_which_nobody_waits_wakes_nobody(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 3);
    (void)state;

    config.wake = NULL;
    config.lease_ttl = 1;
    config.concurrency.queue_size = 0;
    tg_gate_free(must_gate(&config));
    config.concurrency.queue_size = 10;
    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        config.concurrency.wait[p] = 0;
    tg_gate_free(must_gate(&config));
}

static void the_defaults_of_a_gate_are_those_of_the_header(void **state)
{
    struct tg_gate_config config;
    (void)state;

    tg_gate_config_init(&config);
    assert_int_equal(config.peers.limit, 64);
    assert_int_equal(config.peers.max_peers, 65536);
    assert_int_equal(config.concurrency.queue_size, 1024);
    assert_int_equal(config.concurrency.wait[TG_PRIORITY_HIGH], 100);
    assert_int_equal(config.concurrency.wait[TG_PRIORITY_NORMAL], 50);
    assert_int_equal(config.concurrency.wait[TG_PRIORITY_LOW], 0);
    assert_int_equal(config.lease_ttl, 600000);
    assert_int_equal(config.max_learned, 65536);
}

static void what_is_missing_is_an_error_and_changes_nothing(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 3);
    struct tg_gate *gate = must_gate(&config);
    const struct tg_call call = call_from(TG_PRIORITY_NORMAL, "peer");
    struct tg_call late = call;
    struct tg_expectation expects;
    struct tg_answer answer;
    struct tg_axes axes;
    char text[8] = "before";
    (void)state;

    assert_int_equal(tg_gate_expect(NULL, &call, &expects), TG_ERR_NULL);
    assert_int_equal(tg_gate_expect(gate, NULL, &expects), TG_ERR_NULL);
    assert_int_equal(tg_gate_expect(gate, &call, NULL), TG_ERR_NULL);
    assert_int_equal(tg_gate_store_answered(NULL, 1, TG_OK, &axes, NOW, &answer), TG_ERR_NULL);
    assert_int_equal(tg_gate_store_answered(gate, 1, TG_OK, &axes, NOW, NULL), TG_ERR_NULL);
    assert_int_equal(tg_gate_store_answered(gate, 1, TG_OK, NULL, NOW, &answer), TG_ERR_NULL);
    assert_int_equal(tg_gate_store_answered(gate, 1, TG_ERR_STORE, NULL, NOW, &answer),
                     TG_ERR_STALE);
    assert_int_equal(tg_gate_peek(NULL, &call, NOW, &answer), TG_ERR_NULL);
    assert_int_equal(tg_gate_peek(gate, NULL, NOW, &answer), TG_ERR_NULL);
    assert_int_equal(tg_gate_peek(gate, &call, NOW, NULL), TG_ERR_NULL);
    assert_int_equal(tg_gate_peek(gate, &call, -1, &answer), TG_ERR_INVALID);
    late.deadline = -1;
    assert_int_equal(tg_gate_peek(gate, &late, NOW, &answer), TG_ERR_INVALID);
    assert_int_equal(tg_gate_new(&config, NULL, NULL), TG_ERR_NULL);
    assert_int_equal(tg_gate_new(NULL, NULL, NULL), TG_ERR_NULL);
    assert_int_equal(tg_gate_reconfigure(NULL, &config, NOW, NULL), TG_ERR_NULL);
    assert_int_equal(tg_gate_reconfigure(gate, NULL, NOW, NULL), TG_ERR_NULL);
    config.lease_ttl = 0; /* the first that is wrong is told */
    assert_int_equal(tg_gate_new(&config, NULL, NULL), TG_ERR_INVALID);
    assert_int_equal(tg_gate_reconfigure(NULL, &config, NOW, NULL), TG_ERR_INVALID);
    tg_limiter_describe(NULL, "calls", text, 0);
    assert_string_equal(text, "before");
    tg_limiter_describe(NULL, "calls", NULL, sizeof text);
    tg_answer_describe(NULL, &call, text, sizeof text);
    assert_string_equal(text, "");
    text[0] = 'x';
    answer = (struct tg_answer){.reason = TG_REASON_NONE};
    tg_answer_describe(&answer, NULL, text, sizeof text);
    assert_string_equal(text, "");
    tg_gate_set_memory(NULL, 0.5);
    tg_gate_free(gate);
}

static void a_call_is_worth_one_by_default(void **state)
{
    struct tg_call call;
    (void)state;

    tg_call_init(&call);
    assert_int_equal(call.priority, TG_PRIORITY_NORMAL);
    assert_float_equal(call.weight, 1, 0);
    assert_float_equal(call.value, 1, 0);
}

static void store_and_seed_cannot_change(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 3), other = config;
    struct tg_gate *gate = must_gate(&config);
    struct tg_store *store = must_store(65536, 1);
    (void)state;

    other.store = store;
    assert_int_equal(tg_gate_reconfigure(gate, &other, NOW, NULL), TG_ERR_INVALID);
    other = config;
    other.remote_store = true;
    assert_int_equal(tg_gate_reconfigure(gate, &other, NOW, NULL), TG_ERR_INVALID);
    other = config;
    other.seed = 1;
    assert_int_equal(tg_gate_reconfigure(gate, &other, NOW, NULL), TG_ERR_INVALID);
    tg_gate_free(gate);
    tg_store_free(store);
}

static void expect_invalid(struct tg_gate *gate, const struct tg_call *call, tg_ms now)
{
    struct tg_answer answer, before;

    memset(&answer, 0x5A, sizeof answer);
    before = answer;
    assert_int_equal(tg_gate_admit(gate, call, 0, now, &answer), TG_ERR_INVALID);
    assert_int_equal(tg_gate_precheck(gate, call, now, &answer), TG_ERR_INVALID);
    assert_memory_equal(&answer, &before, sizeof answer);
    expect_idle(gate);
}

static void a_call_out_of_range_is_an_error_and_leaves_no_trace(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 3);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call good = call_from(TG_PRIORITY_NORMAL, "peer"), bad;
    (void)state;

    bad = good, bad.priority = TG_PRIORITY_COUNT;
    expect_invalid(gate, &bad, NOW);
    bad = good, bad.weight = 0;
    expect_invalid(gate, &bad, NOW);
    bad = good, bad.weight = -1;
    expect_invalid(gate, &bad, NOW);
    bad = good, bad.weight = (double)NAN;
    expect_invalid(gate, &bad, NOW);
    bad = good, bad.weight = (double)INFINITY;
    expect_invalid(gate, &bad, NOW);
    bad = good, bad.weight = 0.9e-6;
    expect_invalid(gate, &bad, NOW);
    bad = good, bad.weight = 1.1e6;
    expect_invalid(gate, &bad, NOW);
    bad = good, bad.peer_limit = -1;
    expect_invalid(gate, &bad, NOW);
    bad = good, bad.deadline = -1;
    expect_invalid(gate, &bad, NOW);
    bad = good, bad.lease_ttl = -1;
    expect_invalid(gate, &bad, NOW);
    bad = good, bad.work = -1;
    expect_invalid(gate, &bad, NOW);
    bad = good, bad.factor.min = 0;
    expect_invalid(gate, &bad, NOW);
    bad = good, bad.factor.min = bad.factor.start + 0.5;
    expect_invalid(gate, &bad, NOW);
    bad = good, bad.factor.max = bad.factor.start - 0.5;
    expect_invalid(gate, &bad, NOW);
    bad = good, bad.factor.max = TG_FACTOR_MAX + 1;
    expect_invalid(gate, &bad, NOW);
    expect_invalid(gate, &good, -1);
    tg_gate_free(gate);
}

/* Whoever comes with a call of no version's size gets an error, and what the call held at the gate
 * is given back. */
static void a_call_that_was_not_initialized_holds_nothing(void **state)
{
    static const size_t sizes[] = {0, 3, (size_t)1 << 40};
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 1);
    struct tg_call call = call_from(TG_PRIORITY_HIGH, "peer");
    struct tg_expectation expects;
    (void)state;

    config.peers.on = true;
    struct tg_gate *gate = must_gate(&config);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct tg_call bad = call;
        struct tg_answer answer, before;
        bad.struct_size = sizes[i];
        memset(&answer, 0x5A, sizeof answer);
        before = answer;
        assert_int_equal(tg_gate_precheck(gate, &bad, NOW, &answer), TG_ERR_UNINITIALIZED);
        assert_int_equal(tg_gate_peek(gate, &bad, NOW, &answer), TG_ERR_UNINITIALIZED);
        assert_int_equal(tg_gate_expect(gate, &bad, &expects), TG_ERR_UNINITIALIZED);
        assert_int_equal(tg_gate_admit(gate, &bad, 0, NOW, &answer), TG_ERR_UNINITIALIZED);
        expect_idle(gate);
        tg_lease lease = must_precheck(gate, &call, NOW).lease;
        assert_int_equal(tg_gate_admit(gate, &bad, lease, NOW, &answer), TG_ERR_UNINITIALIZED);
        expect_idle(gate);
        tg_lease running = must_allow(gate, &call, NOW);
        lease = must_queue(gate, &call, NOW);
        assert_int_equal(tg_gate_resume(gate, lease, &bad, NOW, &answer), TG_ERR_UNINITIALIZED);
        assert_int_equal(stats_of_gate(gate).queued[TG_PRIORITY_HIGH], 0);
        assert_true(finish(gate, running, NOW));
        assert_memory_equal(&answer, &before, sizeof answer);
        expect_idle(gate);
    }
    tg_gate_free(gate);
}

static void a_call_is_accepted_up_to_its_bounds(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 100);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call good = call_from(TG_PRIORITY_NORMAL, "peer"), call;
    (void)state;

    call = good, call.weight = 1e-6;
    must_allow(gate, &call, NOW);
    call = good, call.weight = 1e6;
    must_allow(gate, &call, NOW);
    call = good, call.deadline = TG_NUMBER_MAX;
    must_allow(gate, &call, NOW);
    call = good, call.lease_ttl = TG_NUMBER_MAX;
    must_allow(gate, &call, NOW);
    call = good, call.work = TG_NUMBER_MAX;
    must_allow(gate, &call, NOW);
    call = good, call.peer_limit = INT64_MAX;
    must_allow(gate, &call, NOW);
    call = good, call.factor = (struct tg_factor){TG_FACTOR_MIN, TG_FACTOR_MIN, TG_FACTOR_MIN};
    must_allow(gate, &call, NOW);
    call = good, call.factor = (struct tg_factor){TG_FACTOR_MAX, TG_FACTOR_MAX, TG_FACTOR_MAX};
    must_allow(gate, &call, NOW);
    tg_gate_free(gate);
}

/* A time that is no time is an error; the gate's own time must not have moved to it. */
static void a_time_out_of_range_does_not_move_the_clock(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 3);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    config.lease_ttl = 5000;
    must_reconfigure(gate, &config, NOW);
    expect_invalid(gate, &call, TG_NUMBER_MAX + 1);
    expect_invalid(gate, &call, INT64_MAX);
    must_allow(gate, &call, NOW);
    assert_int_equal(tg_gate_next_deadline(gate), NOW + 5000);
    tg_gate_free(gate);
}

static void free_accepts_null_and_a_gate_in_use(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config_slots(&log, 2);
    struct tg_gate *gate = must_gate(&config);
    struct tg_call call = call_from(TG_PRIORITY_HIGH, "peer");
    (void)state;

    call.peer_limit = 10;
    for (int i = 0; i < 5; i++)
        must_admit(gate, &call, NOW);
    must_precheck(gate, &call, NOW);
    tg_gate_free(gate);
    tg_gate_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(admits_below_the_limit),
        cmocka_unit_test(refuses_when_full_once_its_wait_is_over),
        cmocka_unit_test(low_is_refused_at_once_when_full),
        cmocka_unit_test(a_released_slot_admits_the_next),
        cmocka_unit_test(a_peer_at_its_limit_is_refused_and_another_is_not),
        cmocka_unit_test(a_released_call_frees_its_peers_slot),
        cmocka_unit_test(memory_pressure_sheds_low),
        cmocka_unit_test(critical_memory_admits_high_alone),
        cmocka_unit_test(a_gate_without_stages_admits_everything_and_holds_nothing),
        cmocka_unit_test(a_stage_that_is_off_is_passed_over),
        cmocka_unit_test(counters_count_what_was_decided),
        cmocka_unit_test(names_are_those_of_the_header),
        cmocka_unit_test(every_mode_is_one_that_there_is),
        cmocka_unit_test(bad_settings_make_no_gate_and_change_none),
        cmocka_unit_test(a_number_is_accepted_up_to_its_bounds),
        cmocka_unit_test(a_part_is_accepted_from_0_to_1),
        cmocka_unit_test(thresholds_of_memory_are_in_order),
        cmocka_unit_test(a_gate_in_which_nobody_waits_wakes_nobody),
        cmocka_unit_test(the_defaults_of_a_gate_are_those_of_the_header),
        cmocka_unit_test(what_is_missing_is_an_error_and_changes_nothing),
        cmocka_unit_test(a_call_is_worth_one_by_default),
        cmocka_unit_test(store_and_seed_cannot_change),
        cmocka_unit_test(a_call_out_of_range_is_an_error_and_leaves_no_trace),
        cmocka_unit_test(a_call_that_was_not_initialized_holds_nothing),
        cmocka_unit_test(a_call_is_accepted_up_to_its_bounds),
        cmocka_unit_test(a_time_out_of_range_does_not_move_the_clock),
        cmocka_unit_test(free_accepts_null_and_a_gate_in_use),
    };
    return cmocka_run_group_tests_name("gate_basics", tests, NULL, NULL);
}
