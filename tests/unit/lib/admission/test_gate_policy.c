/* test_gate_policy.c - what the gate asks its policy, and what it tells it.
 *
 * The question comes with a slot and before anything is debited. Of a call that is admitted the
 * policy hears once, and once of its end, whatever the end is; of any other it does not hear.
 */
#include <string.h>

#include "gate_remote.h"

#define NOW 1000
#define STORE_BYTES ((size_t)64 * 1024)

/* A gate with `slots` slots (0: no such stage) whose policy hears, and a store of 1000 units. */
struct scene {
    struct gate_log log;
    struct tg_store *store;
    struct tg_scope scope;
    struct tg_gate_config config;
    struct tg_gate *gate;
    struct tg_call call; /* costs 10, is worth 3, would hold for 2 s */
};

static void scene_open(struct scene *scene, int64_t slots)
{
    memset(scene, 0, sizeof *scene);
    scene->store = must_store(STORE_BYTES, 1);
    scene->scope = scope_of(must_define_one(scene->store, TG_AXIS_COST,
                                            "fixed_window:limit=1000,window=1000000"),
                            "tenant");
    scene->config = gate_config_slots(&scene->log, slots > 0 ? slots : 1);
    scene->config.concurrency.on = slots > 0;
    scene->config.store = scene->store;
    scene->config.lease_ttl = 400;
    gate_config_hearing_policy(&scene->config);
    scene->gate = must_gate(&scene->config);
    scene->call = call_of(TG_PRIORITY_HIGH);
    scene->call.debit = debit_of(&scene->scope, 10);
    scene->call.value = 3;
    scene->call.hold_s = 2;
}

static void scene_close(struct scene *scene)
{
    expect_idle(scene->gate);
    assert_int_equal(scene->log.released, scene->log.admitted);
    tg_gate_free(scene->gate);
    tg_store_free(scene->store);
}

static int64_t units_left(struct scene *scene, tg_ms now)
{
    return must_peek(scene->store, scene->scope.limits, "tenant", 0, now).remaining;
}

static void expect_heard(const struct scene *scene, int asked, int admitted, int released)
{
    if (scene->log.asked != asked || scene->log.admitted != admitted ||
        scene->log.released != released)
        fail_msg("asked %d, admitted %d, released %d; wanted %d, %d, %d", scene->log.asked,
                 scene->log.admitted, scene->log.released, asked, admitted, released);
}

static void expect_spent(const struct tg_spent *got, struct tg_spent want)
{
    if (got->admitted_at != want.admitted_at || got->cost != want.cost ||
        got->actual != want.actual || got->hold_s != want.hold_s || got->held_s != want.held_s)
        fail_msg("at %lld cost %lld, actual %lld, hold %g, held %g; wanted %lld, %lld, %lld, %g, "
                 "%g",
                 (long long)got->admitted_at, (long long)got->cost, (long long)got->actual,
                 got->hold_s, got->held_s, (long long)want.admitted_at, (long long)want.cost,
                 (long long)want.actual, want.hold_s, want.held_s);
}

/* ---- the question ---- */

static void the_question_says_how_many_slots_are_held_with_its_own(void **state)
{
    struct scene scene;
    tg_lease leases[3];
    (void)state;

    scene_open(&scene, 3);
    for (int i = 0; i < 3; i++) {
        leases[i] = must_allow(scene.gate, &scene.call, NOW);
        assert_int_equal(scene.log.in_flight, i + 1);
    }
    tg_lease waiting = must_queue(scene.gate, &scene.call, NOW);
    assert_int_equal(scene.log.asked, 3);
    assert_true(finish(scene.gate, leases[0], NOW));
    assert_int_equal(next_woken(&scene.log), 0);
    leases[0] = must_resume(scene.gate, waiting, &scene.call, NOW).lease;
    assert_int_equal(scene.log.in_flight, 3);
    for (int i = 0; i < 3; i++)
        assert_true(finish(scene.gate, leases[i], NOW));
    scene_close(&scene);
}

static void without_concurrency_no_slots_are_known(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, 0);
    scene.log.in_flight = -1;
    tg_lease lease = must_allow(scene.gate, &scene.call, NOW);
    assert_int_equal(scene.log.in_flight, 0);
    assert_true(finish(scene.gate, lease, NOW));
    scene_close(&scene);
}

static void a_policy_without_the_question_is_no_policy(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config(&log);
    struct tg_policy deaf = {.worth = NULL};
    struct tg_gate *gate = NULL;
    struct tg_problem problem = {""};
    (void)state;

    config.policy = &deaf;
    assert_int_equal(tg_gate_new(&config, &gate, &problem), TG_ERR_INVALID);
    assert_non_null(strstr(problem.text, "policy"));
    config.policy = NULL;
    config.policy_mode = (enum tg_mode)7;
    assert_int_equal(tg_gate_new(&config, &gate, &problem), TG_ERR_INVALID);
    assert_non_null(strstr(problem.text, "mode"));
    assert_null(gate);
}

/* ---- what it is told ---- */

static void an_admitted_call_is_told_as_it_came(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, 1);
    tg_lease lease = must_allow(scene.gate, &scene.call, NOW);
    expect_heard(&scene, 1, 1, 0);
    assert_int_equal(scene.log.told_at, NOW);
    assert_int_equal(scene.log.call.debit.cost, 10);
    assert_true(scene.log.call.value == 3 && scene.log.call.hold_s == 2);
    assert_true(finish_settled(scene.gate, lease, NOW + 1500, 4));
    expect_heard(&scene, 1, 1, 1);
    assert_int_equal(scene.log.told_at, NOW + 1500);
    expect_spent(&scene.log.spent, (struct tg_spent){NOW, 10, 4, 2, 1.5});
    assert_int_equal(units_left(&scene, NOW), 1000 - 4);
    assert_false(finish(scene.gate, lease, NOW + 1500));
    expect_heard(&scene, 1, 1, 1);
    scene_close(&scene);
}

static void without_an_actual_the_estimate_stands(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, 1);
    tg_lease lease = must_allow(scene.gate, &scene.call, NOW);
    assert_true(finish_as(scene.gate, lease, NOW + 30, TG_OUTCOME_CANCELLED));
    expect_spent(&scene.log.spent, (struct tg_spent){NOW, 10, 10, 2, 0.03});
    lease = must_allow(scene.gate, &scene.call, NOW + 40);
    assert_true(finish_settled(scene.gate, lease, NOW + 50, INT64_MAX));
    assert_int_equal(scene.log.spent.actual, TG_NUMBER_MAX);
    scene_close(&scene);
}

/* The other side took nothing on: nothing was used, whatever the release says. */
static void a_refused_call_has_spent_nothing(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, 1);
    tg_lease lease = must_allow(scene.gate, &scene.call, NOW);
    assert_true(finish_as(scene.gate, lease, NOW + 30, TG_OUTCOME_REFUSED));
    expect_spent(&scene.log.spent, (struct tg_spent){NOW, 10, 0, 2, 0.03});
    assert_int_equal(units_left(&scene, NOW), 1000);
    scene_close(&scene);
}

/* Held is the slot, from its grant on; without one, what is held began with the admission. */
static void who_has_waited_has_held_the_slot_since_its_grant(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, 1);
    tg_lease first = must_allow(scene.gate, &scene.call, NOW);
    tg_lease second = must_queue(scene.gate, &scene.call, NOW);
    assert_true(finish(scene.gate, first, NOW + 10));
    second = must_resume(scene.gate, second, &scene.call, NOW + 12).lease;
    assert_int_equal(scene.log.told_at, NOW + 12);
    assert_true(finish(scene.gate, second, NOW + 110));
    expect_spent(&scene.log.spent, (struct tg_spent){NOW + 12, 10, 10, 2, 0.1});
    scene_close(&scene);
}

static void a_lease_is_made_for_a_policy_that_wants_to_hear_of_its_end(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config(&log);
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);
    (void)state;

    gate_config_policy(&config);
    struct tg_gate *gate = must_gate(&config);
    assert_int_equal(must_allow(gate, &call, NOW), 0);
    gate_config_hearing_policy(&config);
    tg_lease lease = must_allow(gate, &call, NOW);
    assert_int_not_equal(lease, 0);
    assert_true(finish_settled(gate, lease, NOW + 20, 7)); /* no axis: it is told all the same */
    expect_spent(&log.spent, (struct tg_spent){NOW, 0, 7, 0, 0.02});
    config.policy->released = NULL;
    assert_int_equal(must_allow(gate, &call, NOW), 0);
    assert_int_equal(log.admitted, 2);
    assert_int_equal(log.released, 1);
    expect_idle(gate);
    tg_gate_free(gate);
}

static void whom_rate_or_cost_refuses_is_not_told(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, 1);
    scene.call.debit.cost = 1001;
    must_refuse(scene.gate, &scene.call, NOW, TG_REASON_COST);
    expect_heard(&scene, 1, 0, 0);
    scene_close(&scene);
}

static void more_leases_than_a_batch_end_together_and_each_is_told(void **state)
{
    enum { MANY = 1000 };
    struct scene scene;
    (void)state;

    scene_open(&scene, MANY);
    scene.call.debit.cost = 1;
    assert_int_equal(fill_gate(scene.gate, &scene.call, NOW, NULL, MANY), MANY);
    tg_gate_tick(scene.gate, NOW + 399);
    expect_heard(&scene, MANY, MANY, 0);
    tg_gate_tick(scene.gate, NOW + 5000); /* late: they have ended at their time all the same */
    expect_heard(&scene, MANY, MANY, MANY);
    assert_int_equal(scene.log.told_at, NOW + 400);
    expect_spent(&scene.log.spent, (struct tg_spent){NOW, 1, 1, 2, 0.4});
    assert_int_equal(stats_of_gate(scene.gate).expired, MANY);
    scene_close(&scene);
}

/* A policy for which another thread ends the lease while the call is decided. */
struct hasty {
    struct gate_log log; /* first, as in gate_kit.c */
    struct tg_gate *gate;
    tg_lease lease;
    tg_ms ticks_at; /* or ends by its time */
};

static bool is_worth_it_but_ends(struct tg_policy *policy, const struct tg_call *call,
                                 int64_t in_flight, tg_ms now)
{
    struct hasty *hasty = (struct hasty *)policy;
    (void)call, (void)in_flight;

    if (hasty->lease != 0)
        assert_true(finish_as(hasty->gate, hasty->lease, now, TG_OUTCOME_CANCELLED));
    if (hasty->ticks_at != 0)
        tg_gate_tick(hasty->gate, hasty->ticks_at);
    return true;
}

/* It hears that nothing was used, in the right order: gate_kit.c looks at that. */
static void a_call_ended_while_it_is_decided_was_admitted_in_vain(void **state)
{
    struct hasty hasty;
    struct tg_answer answer;
    struct scene scene;
    (void)state;

    for (int hears = 0; hears < 2; hears++) {
        scene_open(&scene, 1);
        memset(&hasty, 0, sizeof hasty);
        hasty.log.policy = scene.log.policy;
        hasty.log.policy.worth = is_worth_it_but_ends;
        if (!hears)
            hasty.log.policy.released = NULL;
        hasty.gate = scene.gate;
        scene.config.policy = &hasty.log.policy;
        must_reconfigure(scene.gate, &scene.config, NOW);
        hasty.lease = must_precheck(scene.gate, &scene.call, NOW).lease;
        assert_int_equal(tg_gate_admit(scene.gate, &scene.call, hasty.lease, NOW, &answer),
                         TG_ERR_STALE);
        assert_int_equal(units_left(&scene, NOW), 1000);
        assert_int_equal(hasty.log.admitted, hears); /* who hears of the end, or nothing */
        assert_int_equal(hasty.log.released, hears);
        if (hears)
            expect_spent(&hasty.log.spent, (struct tg_spent){NOW, 10, 0, 2, 0});
        assert_int_equal(stats_of_gate(scene.gate).admitted, 0);
        scene_close(&scene);
    }
}

/* Without a precheck nobody but the clock can end it. */
static void a_lease_over_before_the_decision_is_stale_and_told_in_vain(void **state)
{
    struct hasty hasty = {.ticks_at = NOW + 400};
    struct tg_answer answer;
    struct scene scene;
    (void)state;

    scene_open(&scene, 1);
    hasty.log.policy = scene.log.policy;
    hasty.log.policy.worth = is_worth_it_but_ends;
    hasty.gate = scene.gate;
    scene.config.policy = &hasty.log.policy;
    must_reconfigure(scene.gate, &scene.config, NOW);
    assert_int_equal(tg_gate_admit(scene.gate, &scene.call, 0, NOW, &answer), TG_ERR_STALE);
    assert_int_equal(units_left(&scene, NOW), 1000);
    assert_int_equal(hasty.log.admitted, 1);
    assert_int_equal(hasty.log.released, 1);
    assert_int_equal(hasty.log.spent.actual, 0);
    scene_close(&scene);
}

/* ---- shadow ---- */

static void in_shadow_it_counts_and_hears_and_refuses_nothing(void **state)
{
    struct scene scene;
    (void)state;

    scene_open(&scene, 1);
    scene.config.policy_mode = TG_SHADOW;
    must_reconfigure(scene.gate, &scene.config, NOW);
    scene.log.worthless = true;
    struct tg_answer answer = must_admit(scene.gate, &scene.call, NOW);
    assert_true(answer.decision.allowed);
    assert_false(answer.policy_denied);
    assert_int_equal(answer.would_deny, 1u << TG_REASON_POLICY);
    assert_int_equal(units_left(&scene, NOW), 990);
    struct tg_gate_stats stats = stats_of_gate(scene.gate);
    assert_int_equal(stats.would_deny[TG_REASON_POLICY], 1);
    assert_int_equal(stats.refused[TG_REASON_POLICY], 0);
    expect_heard(&scene, 1, 1, 0);
    assert_true(finish(scene.gate, answer.lease, NOW));
    scene_close(&scene);
}

static void a_remote_answer_remembers_what_the_policy_would_have_said(void **state)
{
    struct gate_log log = {.worthless = true};
    struct gate_remote remote;
    struct tg_gate_config config = gate_config_slots(&log, 3);
    struct tg_call call = call_of(TG_PRIORITY_LOW);
    struct tg_answer answer;
    (void)state;

    remote_open(&remote, 4, 100, 10);
    gate_config_hearing_policy(&config);
    config.policy_mode = TG_SHADOW;
    config.remote_store = true;
    struct tg_gate *gate = must_gate(&config);
    call.debit = remote.debit;
    call.value = 5;
    call.hold_s = 6;
    tg_lease lease = must_admit(gate, &call, NOW).lease;
    assert_int_equal(log.asked, 1);
    assert_int_equal(log.admitted, 0); /* not before the store has said so */
    struct remote_answer did = remote_execute(&remote, NOW + 1, false);
    assert_int_equal(remote_deliver(&remote, gate, lease, &did, NOW + 2, &answer), TG_OK);
    assert_int_equal(answer.would_deny, 1u << TG_REASON_POLICY);
    assert_int_equal(log.admitted, 1);
    assert_int_equal(log.told_at, NOW + 2);
    assert_int_equal(log.call.priority, TG_PRIORITY_LOW);
    assert_int_equal(log.call.debit.cost, 10);
    assert_true(log.call.value == 5 && log.call.hold_s == 6);
    assert_true(finish_settled(gate, lease, NOW + 1000, 3));
    expect_spent(&log.spent, (struct tg_spent){NOW + 2, 10, 3, 6, 1});
    assert_int_equal(log.released, 1);
    tg_gate_free(gate);
    remote_close(&remote);
}

/* ---- another policy ---- */

static void leases_of_an_old_policy_are_reported_to_nobody(void **state)
{
    struct scene scene;
    struct gate_log other = {.n_woken = 0};
    struct tg_gate_config config;
    (void)state;

    scene_open(&scene, 4);
    config = scene.config;
    config.context = &other;
    gate_config_hearing_policy(&config);
    config.context = &scene.log;
    tg_lease old = must_allow(scene.gate, &scene.call, NOW);
    tg_lease kept = must_allow(scene.gate, &scene.call, NOW);
    must_reconfigure(scene.gate, &scene.config, NOW); /* the same one: nothing changes */
    assert_true(finish(scene.gate, kept, NOW));
    expect_heard(&scene, 2, 2, 1);
    must_reconfigure(scene.gate, &config, NOW);
    assert_true(finish(scene.gate, old, NOW));
    expect_heard(&scene, 2, 2, 1);
    assert_int_equal(other.released, 0);
    tg_lease now = must_allow(scene.gate, &scene.call, NOW);
    assert_int_equal(other.admitted, 1);
    /* The first again: it may stand at the address of one that was freed. */
    must_reconfigure(scene.gate, &scene.config, NOW);
    assert_true(finish(scene.gate, now, NOW));
    assert_int_equal(other.released, 0);
    expect_heard(&scene, 2, 2, 1);
    scene.log.released++; /* `old` was not told: for the books */
    scene_close(&scene);
}

static void a_store_that_answers_after_the_policy_has_changed_tells_none(void **state)
{
    struct gate_log log = {.n_woken = 0};
    struct gate_remote remote;
    struct tg_gate_config config = gate_config_slots(&log, 3);
    struct tg_call call = call_of(TG_PRIORITY_HIGH);
    struct tg_answer answer;
    (void)state;

    remote_open(&remote, 4, 100, 10);
    gate_config_hearing_policy(&config);
    config.remote_store = true;
    struct tg_gate *gate = must_gate(&config);
    call.debit = remote.debit;
    tg_lease lease = must_admit(gate, &call, NOW).lease;
    config.policy = NULL;
    must_reconfigure(gate, &config, NOW);
    struct remote_answer did = remote_execute(&remote, NOW, false);
    assert_int_equal(remote_deliver(&remote, gate, lease, &did, NOW, &answer), TG_OK);
    assert_true(answer.decision.allowed);
    assert_true(finish(gate, lease, NOW));
    assert_int_equal(log.admitted + log.released, 0);
    tg_gate_free(gate);
    remote_close(&remote);
}

/* By a limit after it, or for want of a slot before it; not if the policy itself refuses. */
static void the_policy_hears_what_other_stages_refuse(void **state)
{
    struct scene scene;

    (void)state;
    scene_open(&scene, 1);
    scene.call.debit.cost = 990;
    struct tg_answer first = must_admit(scene.gate, &scene.call, NOW);
    assert_true(first.decision.allowed);
    assert_int_equal(scene.log.refused, 0);

    struct tg_call low = scene.call;
    low.priority = TG_PRIORITY_LOW; /* does not wait */
    assert_int_equal(must_admit(scene.gate, &low, NOW + 1).reason, TG_REASON_CONCURRENCY);
    assert_int_equal(scene.log.refused, 1);
    assert_int_equal(scene.log.refused_for, TG_REASON_CONCURRENCY);
    assert_int_equal(scene.log.asked, 1);

    finish_settled(scene.gate, first.lease, NOW + 2, -1);
    assert_int_equal(must_admit(scene.gate, &scene.call, NOW + 3).reason, TG_REASON_COST);
    assert_int_equal(scene.log.refused, 2);
    assert_int_equal(scene.log.refused_for, TG_REASON_COST);

    scene.log.worthless = true;
    assert_int_equal(must_admit(scene.gate, &scene.call, NOW + 4).reason, TG_REASON_POLICY);
    assert_int_equal(scene.log.refused, 2);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_question_says_how_many_slots_are_held_with_its_own),
        cmocka_unit_test(without_concurrency_no_slots_are_known),
        cmocka_unit_test(a_policy_without_the_question_is_no_policy),
        cmocka_unit_test(an_admitted_call_is_told_as_it_came),
        cmocka_unit_test(without_an_actual_the_estimate_stands),
        cmocka_unit_test(a_refused_call_has_spent_nothing),
        cmocka_unit_test(who_has_waited_has_held_the_slot_since_its_grant),
        cmocka_unit_test(a_lease_is_made_for_a_policy_that_wants_to_hear_of_its_end),
        cmocka_unit_test(whom_rate_or_cost_refuses_is_not_told),
        cmocka_unit_test(more_leases_than_a_batch_end_together_and_each_is_told),
        cmocka_unit_test(a_call_ended_while_it_is_decided_was_admitted_in_vain),
        cmocka_unit_test(a_lease_over_before_the_decision_is_stale_and_told_in_vain),
        cmocka_unit_test(in_shadow_it_counts_and_hears_and_refuses_nothing),
        cmocka_unit_test(a_remote_answer_remembers_what_the_policy_would_have_said),
        cmocka_unit_test(leases_of_an_old_policy_are_reported_to_nobody),
        cmocka_unit_test(the_policy_hears_what_other_stages_refuse),
        cmocka_unit_test(a_store_that_answers_after_the_policy_has_changed_tells_none),
    };
    return cmocka_run_group_tests_name("gate_policy", tests, NULL, NULL);
}
