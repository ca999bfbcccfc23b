/* test_gate_run.c - a gate in virtual time: what comes before what. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "lab/regret/gate_run.h"

/* Decisions as text: "a+1000" was admitted at 1000, "b-1050" refused, "c!" an error. */
struct story {
    struct gate_run run;
    struct gate_run_call calls[26]; /* a to z */
    char text[400];
};

static void tell(void *context, struct gate_run_call *call, enum tg_err err,
                 const struct tg_answer *answer, tg_ms at)
{
    struct story *story = context;
    size_t end = strlen(story->text);
    char name = (char)('a' + (call - story->calls));

    if (err)
        snprintf(story->text + end, sizeof story->text - end, " %c!", name);
    else
        snprintf(story->text + end, sizeof story->text - end, " %c%c%lld", name,
                 answer->decision.allowed ? '+' : '-', (long long)at);
}

static struct tg_gate_config one_slot(void)
{
    struct tg_gate_config config;

    tg_gate_config_init(&config);
    config.concurrency.on = true;
    config.concurrency.law.law = TG_LAW_FIXED;
    config.concurrency.law.min = 1;
    config.concurrency.law.initial = 1;
    return config;
}

static void begin(struct story *story, const struct tg_gate_config *config)
{
    memset(story, 0, sizeof *story);
    assert_int_equal(gate_run_init(&story->run, config, tell, story, NULL), TG_OK);
}

static void end(struct story *story, const char *want)
{
    gate_run_finish(&story->run);
    assert_string_equal(story->text, want);
    assert_int_equal(story->run.waiting, 0);
    gate_run_fini(&story->run);
}

static struct gate_run_call *call_of(struct story *story, char name)
{
    return &story->calls[name - 'a'];
}

static void admit(struct story *story, char name, tg_ms t)
{
    struct gate_run_call *call = call_of(story, name);

    tg_call_init(&call->call);
    gate_run_admit(&story->run, call, t);
}

static void release_call(struct story *story, char name, tg_ms t)
{
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = TG_OUTCOME_CANCELLED;
    gate_run_release(&story->run, call_of(story, name)->lease, t, &release);
}

static void woken_are_resumed_after_the_event(void **state)
{
    struct story story;
    struct tg_gate_config config = one_slot();

    (void)state;
    begin(&story, &config);
    admit(&story, 'a', 1000);
    admit(&story, 'b', 1001);
    admit(&story, 'c', 1002);
    assert_int_equal(story.run.waiting, 2);
    release_call(&story, 'a', 1010);
    release_call(&story, 'b', 1020);
    end(&story, " a+1000 b+1010 c+1020");
}

static void events_come_before_deadlines_of_their_instant(void **state)
{
    struct story story;
    struct tg_gate_config config = one_slot();

    (void)state;
    begin(&story, &config);
    admit(&story, 'a', 1000);
    admit(&story, 'b', 1000); /* may wait until 1050 */
    release_call(&story, 'a', 1050);
    end(&story, " a+1000 b+1050");

    begin(&story, &config);
    admit(&story, 'a', 1000);
    admit(&story, 'b', 1000);
    release_call(&story, 'a', 1051);
    end(&story, " a+1000 b-1050");
}

static void deadlines_come_at_their_own_time(void **state)
{
    struct story story;
    struct tg_gate_config config = one_slot();

    (void)state;
    config.lease_ttl = 30;
    config.concurrency.wait[TG_PRIORITY_NORMAL] = 100;
    begin(&story, &config);
    admit(&story, 'a', 1000); /* until 1030 */
    admit(&story, 'b', 1000);
    admit(&story, 'c', 1000);
    admit(&story, 'd', 1000);
    admit(&story, 'e', 1000);
    admit(&story, 'f', 5000); /* all of the above is over by then */
    end(&story, " a+1000 b+1030 c+1060 d+1090 e-1100 f+5000");
}

static void leases_may_stay_open_at_the_end(void **state)
{
    struct story story;
    struct tg_gate_config config = one_slot();

    (void)state;
    begin(&story, &config);
    admit(&story, 'a', 1000);
    gate_run_finish(&story.run);
    assert_int_equal(story.run.latest, 1000);
    assert_false(gate_run_expired(&story.run, call_of(&story, 'a')->ends_at));
    gate_run_advance(&story.run, 1000 + config.lease_ttl);
    assert_false(gate_run_expired(&story.run, call_of(&story, 'a')->ends_at));
    gate_run_advance(&story.run, 1001 + config.lease_ttl);
    assert_true(gate_run_expired(&story.run, call_of(&story, 'a')->ends_at));
    end(&story, " a+1000");
}

static void who_is_withdrawn_is_not_decided(void **state)
{
    struct story story;
    struct tg_gate_config config = one_slot();

    (void)state;
    begin(&story, &config);
    admit(&story, 'a', 1000);
    admit(&story, 'b', 1000);
    admit(&story, 'c', 1000);
    gate_run_withdraw(&story.run, call_of(&story, 'b'), 1010);
    release_call(&story, 'a', 1020);
    end(&story, " a+1000 c+1020");
}

static void time_goes_back_for_limiters_alone(void **state)
{
    struct story story;
    struct tg_gate_config config = one_slot();

    (void)state;
    begin(&story, &config);
    admit(&story, 'a', 2000);
    admit(&story, 'b', 1000); /* may wait until 2050 */
    release_call(&story, 'a', 1900);
    release_call(&story, 'b', 1000);
    admit(&story, 'c', 1500);
    end(&story, " a+2000 b+2000 c+1500");
}

struct never {
    struct tg_policy policy;
    int asked;
};

static bool never(struct tg_policy *policy, const struct tg_call *call, int64_t in_flight,
                  tg_ms now)
{
    (void)call;
    (void)now;
    assert_int_equal(in_flight, 1);
    ((struct never *)policy)->asked++;
    return false;
}

/* b waits for the slot that a holds; then the policy refuses both, and each gives it back. */
static void a_policy_refuses_also_who_has_waited(void **state)
{
    struct story story;
    struct tg_gate_config config = one_slot();
    struct tg_gate_stats stats;
    struct never refuser = {.policy.worth = never};

    (void)state;
    config.policy = &refuser.policy;
    begin(&story, &config);
    admit(&story, 'a', 1000);
    admit(&story, 'b', 1000);
    assert_int_equal(refuser.asked, 2);
    gate_run_stats(&story.run, 1000, &stats);
    assert_int_equal(stats.in_flight, 0);
    end(&story, " a-1000 b-1000");
}

static void an_error_is_told(void **state)
{
    struct story story;
    struct tg_gate_config config = one_slot();
    struct gate_run_call *call;

    (void)state;
    begin(&story, &config);
    call = call_of(&story, 'a');
    tg_call_init(&call->call);
    call->call.weight = 0;
    gate_run_admit(&story.run, call, 1000);
    admit(&story, 'b', 1000);
    end(&story, " a! b+1000");
}

/* ---- a store elsewhere ---- */

/* It has so many units, and writes into the story what it is told: "?" a question, "=5" the end of
 * a lease at a cost of 5. */
struct elsewhere {
    struct gate_run_store store;
    struct story *story;
    int64_t units;
    bool settles, fails;
};

static enum tg_err take_elsewhere(void *context, const struct gate_run *run, tg_lease lease,
                                  tg_ms ends_at, const struct tg_debit *debit, tg_ms now,
                                  struct tg_axes *axes, bool *settles)
{
    struct elsewhere *elsewhere = context;

    assert_ptr_equal(run, &elsewhere->story->run);
    assert_int_not_equal(lease, 0);
    assert_true(ends_at > now);
    strcat(elsewhere->story->text, " ?");
    *settles = elsewhere->settles;
    if (elsewhere->fails)
        return TG_ERR_STORE;
    bool allowed = debit->cost <= elsewhere->units;
    elsewhere->units -= allowed ? debit->cost : 0;
    axes->present = 1u << TG_AXIS_COST;
    axes->would_deny = 0;
    axes->decision[TG_AXIS_COST] = (struct tg_decision){allowed, 10, elsewhere->units, now, 0};
    return TG_OK;
}

static void ended_elsewhere(void *context, tg_lease lease, tg_ms now, int64_t actual)
{
    struct elsewhere *elsewhere = context;
    size_t end = strlen(elsewhere->story->text);

    (void)now;
    assert_int_not_equal(lease, 0);
    snprintf(elsewhere->story->text + end, sizeof elsewhere->story->text - end, " =%lld",
             (long long)actual);
    elsewhere->units += actual >= 0 ? 5 - actual : 0;
}

static void begin_elsewhere(struct story *story, const struct tg_gate_config *config,
                            struct elsewhere *elsewhere)
{
    *elsewhere = (struct elsewhere){
        .store = {take_elsewhere, ended_elsewhere, elsewhere}, .story = story, .units = 5};
    memset(story, 0, sizeof *story);
    assert_int_equal(
        gate_run_init_remote(&story->run, config, &elsewhere->store, tell, story, NULL), TG_OK);
}

static const struct tg_scope anything = {.limits = 1, .key = "k", .key_bytes = 1};

static void admit_at_5(struct story *story, char name, tg_ms t)
{
    struct gate_run_call *call = call_of(story, name);

    tg_call_init(&call->call);
    call->call.debit = (struct tg_debit){.scopes = &anything, .n_scopes = 1, .cost = 5};
    gate_run_admit(&story->run, call, t);
}

static void release_at(struct story *story, char name, tg_ms t, int64_t actual)
{
    struct tg_release release;

    tg_release_init(&release);
    release.actual = actual;
    gate_run_release(&story->run, call_of(story, name)->lease, t, &release);
}

/* The next one needs what the first did not use. */
static void a_call_is_settled_before_who_gets_its_slot_asks(void **state)
{
    struct story story;
    struct elsewhere elsewhere;
    struct tg_gate_config config = one_slot();

    (void)state;
    begin_elsewhere(&story, &config, &elsewhere);
    elsewhere.settles = true;
    admit_at_5(&story, 'a', 1000);
    admit_at_5(&story, 'b', 1010);
    release_at(&story, 'a', 1020, 0);
    release_at(&story, 'a', 1021, 0); /* a second time it is nobody's */
    admit_at_5(&story, 'c', 1022);
    release_at(&story, 'b', 1030, 5);
    end(&story, " ? a+1000 =0 ? b+1020 =5 ? c-1030");
}

static void a_lease_stays_where_something_is_held_or_settled(void **state)
{
    struct story story;
    struct elsewhere elsewhere;
    struct tg_gate_config config;

    (void)state;
    tg_gate_config_init(&config);
    begin_elsewhere(&story, &config, &elsewhere);
    admit_at_5(&story, 'a', 1000);
    assert_int_equal(call_of(&story, 'a')->lease, 0);
    elsewhere.units = 5;
    elsewhere.settles = true;
    admit_at_5(&story, 'b', 1000);
    assert_int_not_equal(call_of(&story, 'b')->lease, 0);
    admit_at_5(&story, 'c', 1000); /* refused */
    assert_int_equal(call_of(&story, 'c')->lease, 0);
    admit(&story, 'd', 1000); /* asks for nothing */
    assert_int_equal(call_of(&story, 'd')->lease, 0);
    end(&story, " ? a+1000 ? b+1000 ? c-1000 d+1000");
}

static void an_error_of_the_store_is_told_and_holds_nothing(void **state)
{
    struct story story;
    struct elsewhere elsewhere;
    struct tg_gate_config config = one_slot();

    (void)state;
    begin_elsewhere(&story, &config, &elsewhere);
    elsewhere.fails = true;
    admit_at_5(&story, 'a', 1000);
    elsewhere.fails = false;
    admit_at_5(&story, 'b', 1000);
    end(&story, " ? a! ? b+1000");
}

static void a_remote_store_that_nobody_named_is_refused(void **state)
{
    struct gate_run run;
    struct tg_gate_config config = one_slot();
    struct tg_problem problem = {""};

    (void)state;
    config.remote_store = true;
    assert_int_equal(gate_run_init(&run, &config, tell, NULL, &problem), TG_ERR_INVALID);
    assert_true(problem.text[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(woken_are_resumed_after_the_event),
        cmocka_unit_test(events_come_before_deadlines_of_their_instant),
        cmocka_unit_test(deadlines_come_at_their_own_time),
        cmocka_unit_test(leases_may_stay_open_at_the_end),
        cmocka_unit_test(who_is_withdrawn_is_not_decided),
        cmocka_unit_test(time_goes_back_for_limiters_alone),
        cmocka_unit_test(a_policy_refuses_also_who_has_waited),
        cmocka_unit_test(an_error_is_told),
        cmocka_unit_test(a_call_is_settled_before_who_gets_its_slot_asks),
        cmocka_unit_test(a_lease_stays_where_something_is_held_or_settled),
        cmocka_unit_test(an_error_of_the_store_is_told_and_holds_nothing),
        cmocka_unit_test(a_remote_store_that_nobody_named_is_refused),
    };

    return cmocka_run_group_tests_name("gate_run", tests, NULL, NULL);
}
