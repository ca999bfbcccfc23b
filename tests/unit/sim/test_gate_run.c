/* test_gate_run.c - a gate in virtual time: what comes before what. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "sim/gate_run.h"

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

static void let_go(struct story *story, char name, tg_ms t)
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
    let_go(&story, 'a', 1010);
    let_go(&story, 'b', 1020);
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
    let_go(&story, 'a', 1050);
    end(&story, " a+1000 b+1050");

    begin(&story, &config);
    admit(&story, 'a', 1000);
    admit(&story, 'b', 1000);
    let_go(&story, 'a', 1051);
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
    let_go(&story, 'a', 1020);
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
    let_go(&story, 'a', 1900);
    let_go(&story, 'b', 1000);
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

static void a_remote_store_is_refused(void **state)
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
        cmocka_unit_test(a_remote_store_is_refused),
    };

    return cmocka_run_group_tests_name("gate_run", tests, NULL, NULL);
}
