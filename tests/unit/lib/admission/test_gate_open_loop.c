/* test_gate_open_loop.c - a gate as it is met in service: calls come when they come, take their
 * time and are released, and some are given up while they are being decided. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "draw.h"

enum { TENANTS = 10,
       SLOTS = 4,
       SERVICE_MS = 10,
       RUNNING_MAX = 64 };

struct waiter {
    struct tg_call call;
    tg_lease lease;
    size_t tenant;
    struct waiter *next;
};

struct service {
    struct tg_gate *gate;
    struct waiter *woken, *woken_last;
    struct {
        tg_lease lease;
        tg_ms ends_at;
    } running[RUNNING_MAX];
    size_t n_running;
    int64_t served[TENANTS];
};

static void wake(void *context, void *waiter)
{
    struct service *service = context;
    struct waiter *woken = waiter;

    woken->next = NULL;
    if (service->woken)
        service->woken_last->next = woken;
    else
        service->woken = woken;
    service->woken_last = woken;
}

static void decided(struct service *service, const struct tg_answer *answer, size_t tenant,
                    tg_ms now)
{
    if (!answer->decision.allowed)
        return;
    service->served[tenant]++;
    assert_true(service->n_running < RUNNING_MAX);
    service->running[service->n_running].lease = answer->lease;
    service->running[service->n_running++].ends_at = now + SERVICE_MS;
}

static void resume_woken(struct service *service, tg_ms now)
{
    while (service->woken) {
        struct waiter *waiter = service->woken;
        struct tg_answer answer;
        service->woken = waiter->next;
        assert_int_equal(tg_gate_resume(service->gate, waiter->lease, &waiter->call, now, &answer),
                         TG_OK);
        assert_int_equal(answer.step, TG_DECIDED);
        decided(service, &answer, waiter->tenant, now);
        free(waiter);
    }
}

static void finish_calls(struct service *service, tg_ms now)
{
    struct tg_release release;

    tg_release_init(&release);
    for (size_t i = 0; i < service->n_running;) {
        if (service->running[i].ends_at > now) {
            i++;
            continue;
        }
        assert_true(tg_gate_release(service->gate, service->running[i].lease, now, &release));
        service->running[i] = service->running[--service->n_running];
        resume_woken(service, now);
    }
}

static void arrive(struct service *service, size_t tenant, tg_ms now)
{
    static const char names[TENANTS + 1] = "abcdefghij";
    struct waiter *waiter = calloc(1, sizeof *waiter);
    struct tg_answer answer;

    assert_non_null(waiter);
    tg_call_init(&waiter->call);
    waiter->call.tenant = &names[tenant];
    waiter->call.tenant_bytes = 1;
    waiter->call.waiter = waiter;
    waiter->tenant = tenant;
    assert_int_equal(tg_gate_admit(service->gate, &waiter->call, 0, now, &answer), TG_OK);
    waiter->lease = answer.lease;
    if (answer.step == TG_WAITING)
        return;
    decided(service, &answer, tenant, now);
    free(waiter);
}

static struct tg_gate_config fixed(int64_t slots, struct service *service)
{
    struct tg_gate_config config;

    tg_gate_config_init(&config);
    config.concurrency.on = true;
    config.concurrency.law.law = TG_LAW_FIXED;
    config.concurrency.law.min = 1;
    config.concurrency.law.initial = slots;
    config.wake = wake;
    config.context = service;
    return config;
}

/* Every tenant sends more than its share, the first ten times as much as the others. With samples
 * of how long calls take, most are refused at the door: that must not be the others. */
static void a_tenant_that_sends_tenfold_keeps_nobody_out(void **state)
{
    struct service service = {.n_running = 0};
    struct tg_gate_config config = fixed(SLOTS, &service);
    struct draw draw;
    double sum = 0, squares = 0;
    (void)state;

    draw = draw_stream(draw_seed("test_gate_open_loop"), 0);
    assert_int_equal(tg_gate_new(&config, &service.gate, NULL), TG_OK);
    for (tg_ms now = 1; now <= 20000; now++) {
        finish_calls(&service, now);
        for (int64_t n = draw_between(&draw, 0, 2); n > 0; n--) {
            int64_t who = draw_between(&draw, 0, 18);
            arrive(&service, who < 10 ? 0 : (size_t)who - 9, now);
        }
        tg_gate_tick(service.gate, now);
        resume_woken(&service, now);
    }
    finish_calls(&service, 30000);
    tg_gate_tick(service.gate, 30000);
    resume_woken(&service, 30000);
    for (size_t i = 0; i < TENANTS; i++) {
        sum += (double)service.served[i];
        squares += (double)service.served[i] * (double)service.served[i];
    }
    assert_true(sum * sum / TENANTS / squares >= 0.95);
    tg_gate_free(service.gate);
}

/* ---- given up while it is decided ---- */

#define SLOW_BUCKET "token_bucket:capacity=100,refill=0.001"

struct second_thought {
    struct tg_policy policy;
    struct tg_gate *gate;
    tg_lease lease;
    bool armed;
};

static void wake_nobody(void *context, void *waiter)
{
    (void)context, (void)waiter;
}

/* Stands for another thread that releases the call at this very moment. */
static bool worth_until_released(struct tg_policy *policy, const struct tg_call *call,
                                 int64_t in_flight, tg_ms now)
{
    struct second_thought *thought = (struct second_thought *)policy;
    struct tg_release release;

    (void)call;
    (void)in_flight;
    tg_release_init(&release);
    release.outcome = TG_OUTCOME_CANCELLED;
    release.actual = 0;
    if (thought->armed)
        assert_true(tg_gate_release(thought->gate, thought->lease, now, &release));
    return true;
}

static void a_call_released_while_it_is_decided_leaves_nothing_charged(void **state)
{
    struct second_thought thought = {.policy.worth = worth_until_released};
    struct tg_gate_config config = fixed(1, NULL);
    struct tg_limiter_config bucket;
    struct tg_limit limit = {.axis = TG_AXIS_COST};
    struct tg_store_config store_config;
    struct tg_scope scope = {.key = "k", .key_bytes = 1};
    struct tg_call call;
    struct tg_answer first, second;
    struct tg_decision left;
    struct tg_release release;
    struct tg_gate_stats stats;
    (void)state;

    tg_store_config_init(&store_config);
    tg_call_init(&call);
    tg_release_init(&release);
    assert_int_equal(tg_limiter_config_parse(&bucket, SLOW_BUCKET, NULL),
                     TG_OK);
    assert_int_equal(tg_limiter_init(&limit.limiter, &bucket, NULL), TG_OK);
    assert_int_equal(tg_store_new(&store_config, &config.store, NULL), TG_OK);
    assert_int_equal(tg_store_define(config.store, &limit, 1, &scope.limits, NULL), TG_OK);
    config.wake = wake_nobody;
    config.policy = &thought.policy;
    assert_int_equal(tg_gate_new(&config, &thought.gate, NULL), TG_OK);

    assert_int_equal(tg_gate_admit(thought.gate, &call, 0, 0, &first), TG_OK);
    call.debit = (struct tg_debit){.scopes = &scope, .n_scopes = 1, .cost = 40};
    assert_int_equal(tg_gate_admit(thought.gate, &call, 0, 0, &second), TG_OK);
    assert_int_equal(second.step, TG_WAITING);
    assert_true(tg_gate_release(thought.gate, first.lease, 1, &release));

    thought.lease = second.lease;
    thought.armed = true;
    assert_int_equal(tg_gate_resume(thought.gate, second.lease, &call, 2, &second), TG_ERR_STALE);
    tg_gate_get_stats(thought.gate, &stats);
    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.leases, 0);
    call.debit.cost = 0;
    assert_int_equal(tg_store_peek(config.store, &call.debit, 2, &left, NULL), TG_OK);
    assert_int_equal(left.remaining, 100);
    tg_gate_free(thought.gate);
    tg_store_free(config.store);
}

/* ---- the law ---- */

static int64_t limit_of(struct tg_gate *gate)
{
    struct tg_gate_stats stats;

    tg_gate_get_stats(gate, &stats);
    return stats.limit;
}

/* Whatever comes first after the end of the window: here the end of a lease nobody has. */
static void the_law_steps_with_whatever_happens(void **state)
{
    struct tg_gate_config config = fixed(100, NULL);
    struct tg_gate *gate;
    struct tg_call call;
    struct tg_answer answer;
    struct tg_release release;
    (void)state;

    config.concurrency.law.law = TG_LAW_VEGAS;
    config.concurrency.law.vegas.min_utilisation = 0;
    config.wake = wake_nobody;
    tg_call_init(&call);
    tg_release_init(&release);
    assert_int_equal(tg_gate_new(&config, &gate, NULL), TG_OK);
    for (tg_ms now = 0; now < 10; now++) {
        assert_int_equal(tg_gate_admit(gate, &call, 0, now, &answer), TG_OK);
        assert_true(tg_gate_release(gate, answer.lease, now + 1, &release));
    }
    assert_int_equal(limit_of(gate), 100);
    assert_false(tg_gate_release(gate, answer.lease, 1500, &release));
    assert_int_equal(limit_of(gate), 101);
    tg_gate_free(gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenant_that_sends_tenfold_keeps_nobody_out),
        cmocka_unit_test(a_call_released_while_it_is_decided_leaves_nothing_charged),
        cmocka_unit_test(the_law_steps_with_whatever_happens),
    };
    return cmocka_run_group_tests_name("gate open loop", tests, NULL, NULL);
}
