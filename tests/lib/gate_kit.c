/* gate_kit.c - gates, calls and answers in few words. */
#include "gate_kit.h"

#include "lib/admission/gate.h"

#include <inttypes.h>
#include <string.h>

/* ---- making ---- */

static void note_wake(void *context, void *waiter)
{
    struct gate_log *log = context;

    assert_true(log->n_woken < GATE_LOG_MAX);
    log->woken[log->n_woken++] = (int)(intptr_t)waiter;
}

static bool judge(struct tg_policy *policy, const struct tg_call *call, int64_t in_flight,
                  tg_ms now)
{
    struct gate_log *log = (struct gate_log *)policy;
    (void)call;
    (void)now;

    log->asked++;
    log->in_flight = in_flight;
    return !log->worthless;
}

static void hear_admitted(struct tg_policy *policy, const struct tg_call *call, tg_ms now)
{
    struct gate_log *log = (struct gate_log *)policy;

    log->admitted++;
    log->call = *call;
    log->told_at = now;
}

static void hear_released(struct tg_policy *policy, const struct tg_spent *spent, tg_ms now)
{
    struct gate_log *log = (struct gate_log *)policy;

    log->released++;
    log->spent = *spent;
    log->told_at = now;
    assert_true(log->released <= log->admitted);
}

static void hear_refused(struct tg_policy *policy, const struct tg_call *call,
                         enum tg_reason reason, tg_ms now)
{
    struct gate_log *log = (struct gate_log *)policy;

    (void)call;
    log->refused++;
    log->refused_for = reason;
    log->told_at = now;
}

struct tg_gate_config gate_config(struct gate_log *log)
{
    struct tg_gate_config config;

    tg_gate_config_init(&config);
    config.wake = note_wake;
    config.context = log;
    return config;
}

struct tg_gate_config gate_config_slots(struct gate_log *log, int64_t limit)
{
    struct tg_gate_config config = gate_config(log);

    config.concurrency.on = true;
    config.concurrency.law.law = TG_LAW_FIXED;
    config.concurrency.law.min = 1;
    config.concurrency.law.initial = limit;
    return config;
}

void gate_config_policy(struct tg_gate_config *config)
{
    struct gate_log *log = config->context;

    log->policy = (struct tg_policy){.worth = judge};
    config->policy = &log->policy;
}

void gate_config_hearing_policy(struct tg_gate_config *config)
{
    gate_config_policy(config);
    config->policy->admitted = hear_admitted;
    config->policy->released = hear_released;
    config->policy->refused = hear_refused;
}

struct tg_gate *must_gate(const struct tg_gate_config *config)
{
    struct tg_gate *gate = NULL;
    struct tg_problem problem = {""};

    if (tg_gate_new(config, &gate, &problem) != TG_OK)
        fail_msg("no gate: %s", problem.text);
    assert_non_null(gate);
    return gate;
}

void must_reconfigure(struct tg_gate *gate, const struct tg_gate_config *config, tg_ms now)
{
    struct tg_problem problem = {""};

    if (tg_gate_reconfigure(gate, config, now, &problem) != TG_OK)
        fail_msg("not reconfigured: %s", problem.text);
}

void must_set_limit(struct tg_gate *gate, struct tg_gate_config *config, int64_t limit, tg_ms now)
{
    config->concurrency.law.initial = limit;
    must_reconfigure(gate, config, now);
    assert_int_equal(stats_of_gate(gate).limit, limit);
}

/* ---- calls ---- */

struct tg_call call_of(enum tg_priority priority)
{
    struct tg_call call;

    tg_call_init(&call);
    call.priority = priority;
    return call;
}

struct tg_call call_from(enum tg_priority priority, const char *peer)
{
    struct tg_call call = call_of(priority);

    call.peer = peer;
    call.peer_bytes = peer != NULL ? strlen(peer) : 0;
    return call;
}

struct tg_call call_waiting(enum tg_priority priority, int waiter)
{
    struct tg_call call = call_of(priority);

    call.waiter = (void *)(intptr_t)waiter;
    return call;
}

void call_set_tenant(struct tg_call *call, const char *tenant, double weight)
{
    call->tenant = tenant;
    call->tenant_bytes = strlen(tenant);
    call->weight = weight;
}

/* ---- asking ---- */

enum tg_axis axis_of_reason(enum tg_reason reason)
{
    switch (reason) {
    case TG_REASON_CONCURRENCY:
        return TG_AXIS_CONCURRENCY;
    case TG_REASON_RATE:
        return TG_AXIS_RATE;
    case TG_REASON_COST:
        return TG_AXIS_COST;
    default:
        return TG_AXIS_NONE;
    }
}

static struct tg_decision combined(const struct tg_axes *axes)
{
    struct tg_decision all = TG_ALLOW_FULL;

    for (int axis = 0; axis < TG_AXIS_COUNT; axis++) {
        if (axes->present & 1u << axis)
            all = tg_decision_combine(all, axes->decision[axis]);
    }
    if (axes->reset_at > all.reset_at)
        all.reset_at = axes->reset_at;
    if (axes->retry_after_ms > all.retry_after_ms)
        all.retry_after_ms = axes->retry_after_ms;
    return all;
}

void check_answer(const struct tg_answer *answer)
{
    struct tg_decision want = combined(&answer->axes);
    bool is_early =
        answer->reason == TG_REASON_MEMORY_PRESSURE || answer->reason == TG_REASON_PEER_LIMIT;

    assert_int_equal(answer->step, TG_DECIDED);
    assert_int_equal(answer->decision.allowed, answer->reason == TG_REASON_NONE);
    assert_int_equal(answer->policy_denied, answer->reason == TG_REASON_POLICY);
    assert_int_equal(tg_axes_binding(&answer->axes), axis_of_reason(answer->reason));
    assert_true(decision_in_range(answer->decision));
    if (!answer->decision.allowed)
        assert_int_equal(answer->lease, 0);
    if (answer->policy_denied) {
        want.allowed = false;
        want.remaining = 0;
        want.retry_after_ms = 0;
    }
    if (!is_early)
        expect_decision("the combination of the axes", answer->decision, want);
    else
        assert_int_equal(answer->axes.present, 0);
}

static struct tg_answer checked(enum tg_err err, const struct tg_answer *answer)
{
    if (err != TG_OK)
        fail_msg("the gate says: %s", tg_strerror(err));
    if (answer->step == TG_DECIDED)
        check_answer(answer);
    else
        assert_int_not_equal(answer->lease, 0);
    return *answer;
}

struct tg_answer must_admit(struct tg_gate *gate, const struct tg_call *call, tg_ms now)
{
    return must_admit_checked(gate, call, 0, now);
}

struct tg_answer must_precheck(struct tg_gate *gate, const struct tg_call *call, tg_ms now)
{
    struct tg_answer answer = {.lease = 0};
    enum tg_err err = tg_gate_precheck(gate, call, now, &answer);

    return checked(err, &answer);
}

struct tg_answer must_admit_checked(struct tg_gate *gate, const struct tg_call *call,
                                    tg_lease prechecked, tg_ms now)
{
    struct tg_answer answer = {.lease = 0};
    enum tg_err err = tg_gate_admit(gate, call, prechecked, now, &answer);

    return checked(err, &answer);
}

struct tg_answer must_resume(struct tg_gate *gate, tg_lease lease, const struct tg_call *call,
                             tg_ms now)
{
    struct tg_answer answer = {.lease = 0};
    enum tg_err err = tg_gate_resume(gate, lease, call, now, &answer);

    return checked(err, &answer);
}

tg_lease must_allow(struct tg_gate *gate, const struct tg_call *call, tg_ms now)
{
    struct tg_answer answer = must_admit(gate, call, now);

    if (answer.step != TG_DECIDED || !answer.decision.allowed)
        fail_msg("at %" PRId64 ": not admitted: step %d, reason %s", now, (int)answer.step,
                 tg_reason_name(answer.reason));
    return answer.lease;
}

struct tg_answer must_refuse(struct tg_gate *gate, const struct tg_call *call, tg_ms now,
                             enum tg_reason reason)
{
    struct tg_answer answer = must_admit(gate, call, now);

    if (answer.step != TG_DECIDED || answer.reason != reason)
        fail_msg("at %" PRId64 ": wanted to be refused by %s: step %d, reason %s", now,
                 tg_reason_name(reason), (int)answer.step, tg_reason_name(answer.reason));
    return answer;
}

tg_lease must_queue(struct tg_gate *gate, const struct tg_call *call, tg_ms now)
{
    struct tg_answer answer = must_admit(gate, call, now);

    if (answer.step != TG_WAITING)
        fail_msg("at %" PRId64 ": does not wait: step %d, reason %s", now, (int)answer.step,
                 tg_reason_name(answer.reason));
    return answer.lease;
}

int64_t fill_gate(struct tg_gate *gate, const struct tg_call *call, tg_ms now, tg_lease *leases,
                  int64_t most)
{
    int64_t n = 0;

    while (n < most) {
        struct tg_answer answer = must_admit(gate, call, now);
        if (answer.step == TG_WAITING)
            assert_true(finish_as(gate, answer.lease, now, TG_OUTCOME_CANCELLED));
        if (answer.step != TG_DECIDED || !answer.decision.allowed)
            break;
        if (leases != NULL)
            leases[n] = answer.lease;
        n++;
    }
    return n;
}

/* ---- ending ---- */

bool finish(struct tg_gate *gate, tg_lease lease, tg_ms now)
{
    return finish_as(gate, lease, now, TG_OUTCOME_OK);
}

bool finish_as(struct tg_gate *gate, tg_lease lease, tg_ms now, enum tg_outcome outcome)
{
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = outcome;
    return tg_gate_release(gate, lease, now, &release);
}

bool finish_sampled(struct tg_gate *gate, tg_lease lease, tg_ms now, double sample_ms)
{
    struct tg_release release;

    tg_release_init(&release);
    release.sample_ms = sample_ms;
    return tg_gate_release(gate, lease, now, &release);
}

bool finish_settled(struct tg_gate *gate, tg_lease lease, tg_ms now, int64_t actual)
{
    struct tg_release release;

    tg_release_init(&release);
    release.actual = actual;
    return tg_gate_release(gate, lease, now, &release);
}

/* ---- looking ---- */

struct tg_gate_stats stats_of_gate(struct tg_gate *gate)
{
    struct tg_gate_stats stats;

    spin_lock(&gate->lock);
    gate_assert_books(gate);
    spin_unlock(&gate->lock);
    tg_gate_get_stats(gate, &stats);
    return stats;
}

int next_woken(struct gate_log *log)
{
    return log->n_read < log->n_woken ? log->woken[log->n_read++] : -1;
}

void expect_same_holdings(const char *what, const struct tg_gate_stats *got,
                          const struct tg_gate_stats *want)
{
    bool same = got->in_flight == want->in_flight && got->peers == want->peers &&
                got->peer_calls == want->peer_calls && got->leases == want->leases;

    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        same = same && got->queued[p] == want->queued[p];
    if (!same)
        fail_msg("%s: in flight %" PRId64 ", queued %" PRId64 " %" PRId64 " %" PRId64
                 ", peers %" PRId64 " with %" PRId64 " calls, leases %" PRId64 "; wanted %" PRId64
                 ", %" PRId64 " %" PRId64 " %" PRId64 ", %" PRId64 " with %" PRId64 ", %" PRId64,
                 what, got->in_flight, got->queued[0], got->queued[1], got->queued[2], got->peers,
                 got->peer_calls, got->leases, want->in_flight, want->queued[0], want->queued[1],
                 want->queued[2], want->peers, want->peer_calls, want->leases);
}

void expect_idle(struct tg_gate *gate)
{
    struct tg_gate_stats stats = stats_of_gate(gate), nothing = {0};

    expect_same_holdings("an idle gate", &stats, &nothing);
}
