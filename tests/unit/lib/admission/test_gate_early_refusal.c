/* test_gate_early_refusal.c - a tenant over its limits is refused before a body is read.
 *
 * With `peek` the limits are asked for 1 unit of a cost that may be a guess. Nothing is charged.
 */
#include "gate_kit.h"

#define NOW 100000

enum { STORE_BYTES = 1 << 20,
       COST = 400 };

/* Three calls that do not come back, and a bucket of 1000 that gets 100 a second. */
struct desk {
    struct gate_log log;
    struct tg_store *store;
    tg_limits set;
    struct tg_scope scope;
    struct tg_gate *gate;
    struct tg_call call;
};

static void desk_open(struct desk *desk, enum tg_charging charging, enum tg_mode mode)
{
    struct tg_limit limits[] = {
        limit_on(TG_AXIS_RATE, "fixed_window:limit=3,window=1000000000"),
        limit_on(TG_AXIS_COST, "token_bucket:capacity=1000,refill=100"),
    };

    limits[0].mode = limits[1].mode = mode;
    *desk = (struct desk){.store = must_store(STORE_BYTES, 1)};
    desk->set = must_define(desk->store, limits, COUNT_OF(limits));
    desk->scope = scope_of(desk->set, "tenant");
    struct tg_gate_config config = gate_config(&desk->log);
    config.store = desk->store;
    desk->gate = must_gate(&config);
    desk->call = call_of(TG_PRIORITY_NORMAL);
    desk->call.debit = debit_of(&desk->scope, COST);
    desk->call.debit.charging = charging;
    desk->call.peek = true;
}

/* A call that costs so much has been admitted, and is over. */
static void desk_spend(struct desk *desk, int64_t cost)
{
    struct tg_call call = desk->call;

    call.debit.cost = cost;
    assert_true(finish(desk->gate, must_allow(desk->gate, &call, NOW), NOW));
}

static void desk_expect(struct desk *desk, enum tg_reason reason)
{
    struct tg_answer answer = must_precheck(desk->gate, &desk->call, NOW);

    assert_int_equal(answer.reason, reason);
    assert_int_equal(answer.decision.allowed, reason == TG_REASON_NONE);
    if (answer.lease != 0)
        assert_true(finish_as(desk->gate, answer.lease, NOW, TG_OUTCOME_CANCELLED));
    expect_idle(desk->gate);
}

static void desk_close(struct desk *desk)
{
    tg_gate_free(desk->gate);
    tg_store_free(desk->store);
}

static void a_rate_that_is_used_up_refuses_before_the_body(void **state)
{
    static const enum tg_charging charging[] = {TG_CHARGE_ATOMIC, TG_CHARGE_PER_AXIS};
    struct desk desk;
    (void)state;

    for (size_t i = 0; i < COUNT_OF(charging); i++) {
        desk_open(&desk, charging[i], TG_ENFORCE);
        for (int calls = 0; calls < 3; calls++) {
            desk_expect(&desk, TG_REASON_NONE);
            desk_spend(&desk, 1);
        }
        desk_expect(&desk, TG_REASON_RATE);
        desk.call.peek = false;
        desk_expect(&desk, TG_REASON_NONE);
        desk_close(&desk);
    }
}

/* One unit is enough, for the cost is a guess. Without any, the hint is when there will be enough
 * for the guess: 400 units at 100 a second. Per axis, cost is not looked at. */
static void a_cost_that_is_used_up_refuses_with_the_hint_of_the_guess(void **state)
{
    struct desk desk;
    (void)state;

    desk_open(&desk, TG_CHARGE_ATOMIC, TG_ENFORCE);
    desk_spend(&desk, 999);
    desk_expect(&desk, TG_REASON_NONE);
    desk_spend(&desk, 1);
    struct tg_answer answer = must_precheck(desk.gate, &desk.call, NOW);
    assert_int_equal(answer.reason, TG_REASON_COST);
    assert_int_equal(answer.decision.retry_after_ms, 4000);
    desk.call.debit.cost = 1;
    assert_int_equal(must_precheck(desk.gate, &desk.call, NOW).decision.retry_after_ms, 10);
    desk.call.debit.cost = 0; /* nothing is asked for, and that is there */
    desk_expect(&desk, TG_REASON_NONE);
    /* What can never be had is not said of a guess. */
    desk.call.debit.cost = 1001;
    assert_int_equal(must_precheck(desk.gate, &desk.call, NOW).decision.retry_after_ms, 10);
    desk_close(&desk);
    desk_open(&desk, TG_CHARGE_PER_AXIS, TG_ENFORCE);
    desk_spend(&desk, 1000);
    desk_expect(&desk, TG_REASON_NONE);
    desk_close(&desk);
}

static void limits_in_shadow_refuse_no_body(void **state)
{
    struct desk desk;
    (void)state;

    desk_open(&desk, TG_CHARGE_ATOMIC, TG_SHADOW);
    desk_spend(&desk, 1000);
    for (int calls = 0; calls < 3; calls++)
        desk_spend(&desk, 1);
    desk_expect(&desk, TG_REASON_NONE);
    desk_close(&desk);
}

/* Where the store is remote, what is known of it refuses; per axis, its rate alone. */
static void what_is_known_of_a_remote_store_refuses(void **state)
{
    static const struct {
        enum tg_axis axis;
        enum tg_charging charging;
        enum tg_reason reason;
    } rows[] = {
        {TG_AXIS_RATE, TG_CHARGE_ATOMIC, TG_REASON_RATE},
        {TG_AXIS_RATE, TG_CHARGE_PER_AXIS, TG_REASON_RATE},
        {TG_AXIS_COST, TG_CHARGE_ATOMIC, TG_REASON_COST},
        {TG_AXIS_COST, TG_CHARGE_PER_AXIS, TG_REASON_NONE},
    };
    static const struct tg_scope scope = {.limits = 1, .key = "tenant", .key_bytes = 6};
    static struct gate_log log;
    struct tg_gate_config config = gate_config(&log);
    (void)state;

    config.remote_store = true;
    struct tg_gate *gate = must_gate(&config);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tg_call call = call_of(TG_PRIORITY_NORMAL);
        struct tg_axes known = {.present = 1u << rows[i].axis};

        known.decision[rows[i].axis] = DENIED(7, 0, NOW + 900, 900);
        call.debit = debit_of(&scope, COST);
        call.debit.charging = rows[i].charging;
        call.known = &known;
        struct tg_answer answer = must_precheck(gate, &call, NOW);
        if (answer.reason != rows[i].reason)
            fail_msg("row %zu: %s", i, tg_reason_name(answer.reason));
        if (answer.reason != TG_REASON_NONE)
            expect_decision("known", answer.decision, DENIED(7, 0, NOW + 900, 900));
        else
            assert_true(finish_as(gate, answer.lease, NOW, TG_OUTCOME_CANCELLED));
        expect_idle(gate);
    }
    tg_gate_free(gate);
}

/* Who wants limits to be looked at, and knows nothing of a remote store, is let past. */
static void nothing_is_known_of_a_remote_store_without_its_word(void **state)
{
    static const struct tg_scope scope = {.limits = 1, .key = "tenant", .key_bytes = 6};
    static struct gate_log log;
    struct tg_gate_config config = gate_config(&log);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    config.remote_store = true;
    struct tg_gate *gate = must_gate(&config);
    call.debit = debit_of(&scope, COST);
    call.peek = true;
    struct tg_answer answer = must_precheck(gate, &call, NOW);
    assert_int_equal(answer.reason, TG_REASON_NONE);
    assert_int_equal(answer.axes.present, 0);
    assert_true(finish_as(gate, answer.lease, NOW, TG_OUTCOME_CANCELLED));
    tg_gate_free(gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_that_is_used_up_refuses_before_the_body),
        cmocka_unit_test(a_cost_that_is_used_up_refuses_with_the_hint_of_the_guess),
        cmocka_unit_test(limits_in_shadow_refuse_no_body),
        cmocka_unit_test(what_is_known_of_a_remote_store_refuses),
        cmocka_unit_test(nothing_is_known_of_a_remote_store_without_its_word),
    };
    return cmocka_run_group_tests_name("gate_early_refusal", tests, NULL, NULL);
}
