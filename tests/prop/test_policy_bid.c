/* test_policy_bid.c - what holds of bid prices, whatever the prices and the calls.
 *
 * The policy only removes admits; it is monotone; prices of 0 change nothing; and it says the same
 * whichever way rate and cost are charged afterwards, and wherever.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draw.h"
#include "gate_kit.h"
#include "world_kit.h"

static uint64_t seed;

static struct tg_policy *drawn_duals(struct draw *draw)
{
    struct tg_bid_config config;

    tg_bid_config_init(&config);
    config.prices = TG_PRICES_DUALS;
    config.duals.rate = draw_chance(draw, 30) ? 0 : draw_unit(draw) * 10;
    config.duals.cost = draw_chance(draw, 30) ? 0 : draw_unit(draw) * 0.2;
    config.duals.concurrency = draw_chance(draw, 30) ? 0 : draw_unit(draw);
    return world_bid(&config);
}

/* Values and holds as callers may send them, also those that are none. */
static void draw_numbers(struct draw *draw, struct tg_call *call)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, -3, 0};

    call->debit.cost = draw_between(draw, 0, 120);
    call->value = draw_unit(draw) * 20;
    call->hold_s = draw_unit(draw) * 20;
    if (draw_chance(draw, 3))
        call->hold_s = odd[draw_between(draw, 0, 4)];
    if (draw_chance(draw, 3))
        call->value = odd[draw_between(draw, 0, 4)];
}

/* ---- it only removes admits ---- */

enum { POLICIES = 16 };

static const char RATE[] = "gcra:limit=35,period=1000,burst=12";
static const char COST[] = "token_bucket:capacity=500,refill=1500";

/* A gate on a store, with rate and cost. */
struct door {
    struct gate_log log;
    struct tg_store *store;
    tg_limits set;
    struct tg_gate *gate;
};

static void door_open(struct door *door, struct tg_policy *policy, const char *rate,
                      const char *cost)
{
    const struct tg_limit limits[] = {limit_on(TG_AXIS_RATE, rate), limit_on(TG_AXIS_COST, cost)};
    struct tg_gate_config config;

    memset(door, 0, sizeof *door);
    door->store = must_store((size_t)32 << 20, 1);
    door->set = must_define(door->store, limits, 2);
    config = gate_config_slots(&door->log, 1000);
    config.store = door->store;
    config.policy = policy;
    door->gate = must_gate(&config);
}

static void door_close(struct door *door)
{
    tg_gate_free(door->gate);
    tg_store_free(door->store);
}

static struct tg_answer pass(struct door *door, struct tg_call *call, struct tg_scope *scope,
                             tg_ms now)
{
    scope->limits = door->set;
    call->debit.scopes = scope;
    call->debit.n_scopes = 1;
    return must_admit(door->gate, call, now);
}

/* Each key is seen once, so every call meets a fresh state. */
static void on_fresh_state_it_admits_a_subset_and_says_the_same_of_the_rest(void **state)
{
    struct draw draw = draw_stream(seed, 1);
    struct tg_policy *policies[POLICIES];
    struct door with, without;
    long removed = 0, admitted = 0;
    (void)state;

    door_open(&without, NULL, RATE, COST);
    for (int p = 0; p < POLICIES; p++) {
        policies[p] = drawn_duals(&draw);
        door_open(&with, policies[p], RATE, COST);
        for (uint64_t i = 0; i < 120000 / POLICIES; i++) {
            struct numbered_key key = numbered_key((uint64_t)p << 32 | i);
            struct tg_scope scope = {.key = key.text, .key_bytes = NUMBERED_KEY_BYTES};
            struct tg_call call = call_of(TG_PRIORITY_NORMAL);
            draw_numbers(&draw, &call);
            call.debit.cost *= draw_chance(&draw, 10) ? 100 : 1;
            struct tg_answer marginal = pass(&without, &call, &scope, 1000);
            struct tg_answer joint = pass(&with, &call, &scope, 1000);
            if (joint.decision.allowed && !marginal.decision.allowed)
                fail_msg("a call of cost %" PRId64 " is admitted by the policy alone",
                         call.debit.cost);
            if (!joint.policy_denied)
                expect_decision("what the policy let pass", joint.decision, marginal.decision);
            removed += joint.policy_denied && marginal.decision.allowed;
            admitted += joint.decision.allowed;
            finish(with.gate, joint.lease, 1000);
            finish(without.gate, marginal.lease, 1000);
        }
        door_close(&with);
        tg_bid_free(policies[p]);
    }
    door_close(&without);
    print_message("%ld admitted, %ld removed\n", admitted, removed);
    assert_true(admitted > 10000 && removed > 10000);
}

/* On the state that its own decisions have made: what would be admitted without the policy is
 * what the store says before it is asked. */
static void on_its_own_state_it_admits_what_fits_and_is_worth_it(void **state)
{
    struct draw draw = draw_stream(seed, 2);
    long counts[TG_REASON_COUNT] = {0};
    (void)state;

    for (int p = 0; p < POLICIES; p++) {
        struct tg_policy *policy = drawn_duals(&draw);
        struct door door;
        tg_ms now = 1000;
        door_open(&door, policy, RATE, COST);
        for (int i = 0; i < 100000 / POLICIES; i++) {
            struct tg_scope scope = scope_of(door.set, "one");
            struct tg_call call = call_of(TG_PRIORITY_NORMAL);
            struct tg_decision seen;
            draw_numbers(&draw, &call);
            call.debit.charging = i % 2 ? TG_CHARGE_PER_AXIS : TG_CHARGE_ATOMIC;
            call.debit.scopes = &scope;
            call.debit.n_scopes = 1;
            now += draw_between(&draw, 0, 20);
            assert_int_equal(tg_store_peek(door.store, &call.debit, now, &seen, NULL), TG_OK);
            bool worth = policy->worth(policy, &call, 1, now);
            struct tg_answer answer = must_admit(door.gate, &call, now);
            assert_int_equal(answer.policy_denied, !worth);
            assert_int_equal(answer.decision.allowed, worth && seen.allowed);
            counts[answer.reason]++;
            finish(door.gate, answer.lease, now);
        }
        door_close(&door);
        tg_bid_free(policy);
    }
    print_message("%ld admitted, policy refused %ld, rate %ld, cost %ld\n", counts[TG_REASON_NONE],
                  counts[TG_REASON_POLICY], counts[TG_REASON_RATE], counts[TG_REASON_COST]);
    for (int reason = TG_REASON_POLICY; reason <= TG_REASON_COST; reason++)
        assert_true(counts[reason] > 500);
}

/* ---- monotone ---- */

static void more_value_less_cost_or_less_hold_never_refuses(void **state)
{
    struct draw draw = draw_stream(seed, 3);
    long moved = 0;
    (void)state;

    for (int p = 0; p < 1000; p++) {
        struct tg_policy *policy = drawn_duals(&draw);
        for (int i = 0; i < 200; i++) {
            struct tg_call call = call_of(TG_PRIORITY_NORMAL), better;
            call.debit.cost = draw_between(&draw, 0, 120);
            call.value = draw_unit(&draw) * 20;
            call.hold_s = draw_unit(&draw) * 20;
            better = call;
            better.value += draw_chance(&draw, 50) ? draw_unit(&draw) * 5 : 0;
            better.debit.cost -= draw_between(&draw, 0, call.debit.cost);
            better.hold_s *= draw_chance(&draw, 50) ? draw_unit(&draw) : 1;
            bool worth = policy->worth(policy, &call, 0, 0);
            bool then = policy->worth(policy, &better, 0, 0);
            if (worth && !then)
                fail_msg("value %g, cost %" PRId64 ", hold %g is worth it; %g, %" PRId64
                         ", %g is not",
                         call.value, call.debit.cost, call.hold_s, better.value, better.debit.cost,
                         better.hold_s);
            moved += then != worth;
        }
        tg_bid_free(policy);
    }
    assert_true(moved > 10000);
}

/* ---- twins ---- */

static void expect_same_answer(const char *what, long i, const struct tg_answer *a,
                               const struct tg_answer *b)
{
    char text[64];

    snprintf(text, sizeof text, "%s, call %ld", what, i);
    if (a->reason != b->reason || a->would_deny != b->would_deny ||
        a->axes.present != b->axes.present)
        fail_msg("%s: %s and %s", text, tg_reason_name(a->reason), tg_reason_name(b->reason));
    expect_decision(text, a->decision, b->decision);
    for (int axis = 0; axis < TG_AXIS_COUNT; axis++)
        if (a->axes.present & 1u << axis)
            expect_decision(text, a->axes.decision[axis], b->axes.decision[axis]);
}

static void prices_of_0_change_nothing(void **state)
{
    struct draw draw = draw_stream(seed, 4);
    struct tg_bid_config config;
    struct door with, without;
    tg_ms now = 1000;
    (void)state;

    tg_bid_config_init(&config);
    config.prices = TG_PRICES_DUALS;
    struct tg_policy *policy = world_bid(&config);
    door_open(&with, policy, RATE, COST);
    door_open(&without, NULL, RATE, COST);
    for (long i = 0; i < 50000; i++) {
        struct tg_scope scope = scope_of(0, draw_chance(&draw, 50) ? "a" : "b");
        struct tg_call call = call_of((enum tg_priority)draw_between(&draw, 0, 2));
        draw_numbers(&draw, &call);
        now += draw_between(&draw, 0, 20);
        struct tg_answer got = pass(&with, &call, &scope, now);
        struct tg_answer want = pass(&without, &call, &scope, now);
        expect_same_answer("prices of 0", i, &got, &want);
        finish(with.gate, got.lease, now);
        finish(without.gate, want.lease, now);
    }
    door_close(&with);
    door_close(&without);
    tg_bid_free(policy);
}

/* Every source of prices, with budgets that some of the calls do not fit into. */
static struct tg_policy *policy_of(enum tg_prices prices)
{
    static const struct tg_type types[] = {{20, 10, 500, 5}, {80, 12, 500, 10}};
    struct tg_bid_config config;

    tg_bid_config_init(&config);
    config.prices = prices;
    config.duals = (struct tg_duals){0.5, 0.05, 0.2};
    config.workload.types = types;
    config.workload.n_types = 2;
    config.workload.rate_budget = 900;
    config.workload.cost_budget = 30000;
    config.workload.conc_budget_s = 5000;
    config.sample_window = 700;
    config.online.window = 10000;
    config.online.rate_budget = 800;
    config.online.cost_budget = 30000;
    config.online.conc_budget_s = 4000;
    return world_bid(&config);
}

/* The same calls, and the same endings, through one of two gates. */
struct twin {
    struct tg_policy *policy;
    struct gate_log log;
    struct tg_store *store;
    tg_limits set;
    struct tg_gate *gate;
    enum tg_charging charging;
    bool remote;
    tg_lease open[64];
};

static void twin_open(struct twin *twin, enum tg_prices prices, const char *rate, const char *cost)
{
    const struct tg_limit limits[] = {limit_on(TG_AXIS_RATE, rate), limit_on(TG_AXIS_COST, cost)};
    struct tg_gate_config config = gate_config_slots(&twin->log, 60);

    twin->policy = policy_of(prices);
    twin->store = must_store((size_t)1 << 20, 1);
    twin->set = must_define(twin->store, limits, 2);
    config.store = twin->remote ? NULL : twin->store;
    config.remote_store = twin->remote;
    config.policy = twin->policy;
    config.lease_ttl = 3000;
    twin->gate = must_gate(&config);
}

static void twin_close(struct twin *twin)
{
    tg_gate_free(twin->gate);
    tg_store_free(twin->store);
    tg_bid_free(twin->policy);
}

/* Ends what stood at the place, ticks, and asks. */
static struct tg_answer twin_step(struct twin *twin, struct tg_call *call, int64_t place,
                                  int64_t actual, tg_ms now)
{
    struct tg_scope scope = scope_of(twin->set, "one");
    struct tg_answer answer;
    struct tg_axes axes;
    struct tg_decision decision;

    tg_gate_tick(twin->gate, now);
    finish_settled(twin->gate, twin->open[place], now, actual);
    call->debit.scopes = &scope;
    call->debit.n_scopes = 1;
    call->debit.charging = twin->charging;
    answer = must_admit(twin->gate, call, now);
    if (answer.step == TG_NEEDS_STORE) {
        tg_lease lease = answer.lease;
        assert_int_equal(tg_store_take(twin->store, &call->debit, now, &decision, &axes), TG_OK);
        assert_int_equal(tg_gate_store_answered(twin->gate, lease, TG_OK, &axes, now, &answer),
                         TG_OK);
    }
    assert_int_equal(answer.step, TG_DECIDED);
    twin->open[place] = answer.lease;
    return answer;
}

static void compare(const char *what, struct twin twins[2], enum tg_prices prices, const char *rate,
                    const char *cost, bool settles, long counts[TG_REASON_COUNT])
{
    struct draw draw = draw_stream(seed, 10 + (uint64_t)prices);
    tg_ms now = 1000;

    for (int i = 0; i < 2; i++)
        twin_open(&twins[i], prices, rate, cost);
    for (long i = 0; i < 25000; i++) {
        struct tg_call call = call_of(TG_PRIORITY_LOW); /* does not wait */
        int64_t place = draw_between(&draw, 0, 39);
        draw_numbers(&draw, &call);
        int64_t actual = settles ? draw_between(&draw, -1, 150) : -1;
        now += draw_between(&draw, 0, 20);
        struct tg_answer a = twin_step(&twins[0], &call, place, actual, now);
        struct tg_answer b = twin_step(&twins[1], &call, place, actual, now);
        expect_same_answer(what, i, &a, &b);
        counts[a.reason]++;
    }
    for (int i = 0; i < 2; i++)
        twin_close(&twins[i]);
}

static void report(const char *what, const long counts[TG_REASON_COUNT])
{
    print_message("%s: %ld admitted, policy refused %ld, rate %ld, cost %ld\n", what,
                  counts[TG_REASON_NONE], counts[TG_REASON_POLICY], counts[TG_REASON_RATE],
                  counts[TG_REASON_COST]);
}

static void where_no_later_stage_refuses_both_charging_modes_decide_the_same(void **state)
{
    (void)state;
    for (int prices = 0; prices < TG_PRICES_COUNT; prices++) {
        struct twin twins[2] = {{.charging = TG_CHARGE_ATOMIC}, {.charging = TG_CHARGE_PER_AXIS}};
        long counts[TG_REASON_COUNT] = {0};
        compare("atomic and per-axis", twins, (enum tg_prices)prices,
                "gcra:limit=1000000,period=1000", "token_bucket:capacity=100000000,refill=1000000",
                true, counts);
        report(tg_prices_name((enum tg_prices)prices), counts);
        assert_true(counts[TG_REASON_NONE] > 1000 && counts[TG_REASON_POLICY] > 1000);
        assert_int_equal(counts[TG_REASON_RATE] + counts[TG_REASON_COST], 0);
    }
}

static void a_store_elsewhere_makes_no_difference(void **state)
{
    (void)state;
    for (int prices = 0; prices < TG_PRICES_COUNT; prices++) {
        for (int charging = 0; charging < 2; charging++) {
            struct twin twins[2] = {{.charging = (enum tg_charging)charging},
                                    {.charging = (enum tg_charging)charging, .remote = true}};
            long counts[TG_REASON_COUNT] = {0};
            compare("here and elsewhere", twins, (enum tg_prices)prices, RATE, COST, false, counts);
            report(tg_prices_name((enum tg_prices)prices), counts);
            assert_true(counts[TG_REASON_NONE] > 1000 && counts[TG_REASON_POLICY] > 100);
            assert_true(counts[TG_REASON_RATE] + counts[TG_REASON_COST] > 100);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_fresh_state_it_admits_a_subset_and_says_the_same_of_the_rest),
        cmocka_unit_test(on_its_own_state_it_admits_what_fits_and_is_worth_it),
        cmocka_unit_test(more_value_less_cost_or_less_hold_never_refuses),
        cmocka_unit_test(prices_of_0_change_nothing),
        cmocka_unit_test(where_no_later_stage_refuses_both_charging_modes_decide_the_same),
        cmocka_unit_test(a_store_elsewhere_makes_no_difference),
    };
    seed = draw_seed("policy_bid");
    return cmocka_run_group_tests_name("policy_bid", tests, NULL, NULL);
}
