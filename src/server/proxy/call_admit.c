/* call_admit.c - a call asks for its places: a slot of its route first, then at the gateway's gate.
 *
 * The slot of the route comes first because it is where calls wait as a rule, and a call that waits
 * must not have been charged. One deadline spans both. Both are runs of the library
 * (admission_run.h): a call that waits is a place in a queue and a timer, no thread.
 *
 * Tenants that wait for a slot of a route are served by the tokens that their calls take. At the
 * gate, where calls of all kinds meet, they are by the time that slots are held.
 *
 * The gateway's gate is asked once for a call, whatever number of attempts it takes; a slot is held
 * for one route at a time.
 */
#include <assert.h>

#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "server/proxy/call.h"

/* ---- how a run waits and asks ---- */

static enum tg_err call_waits_until(struct admission_run *run, tg_ms deadline)
{
    struct call *call = call_of_run(run);

    report_notes_unpark(&call->notes); /* where it was woken too early */
    report_notes_park(&call->notes);
    call->env->timer_set(call->worker->loop, &call->timer, deadline - call_now(call));
    return TG_OK;
}

/* A call that leaves while it waits stays parked: its report says for how long it has waited. */
static void call_wait_is_over(struct admission_run *run)
{
    struct call *call = call_of_run(run);

    if (run->state != ADMISSION_IDLE)
        report_notes_unpark(&call->notes);
    call->env->timer_stop(call->worker->loop, &call->timer);
    waiter_forget(&call->waiter);
}

static bool gate_asks_store(struct admission_run *run, tg_ms now, enum tg_err *err,
                            struct tg_axes *axes)
{
    struct call *call = call_of_run(run);
    struct tg_debit debit = call->gate_call.debit;

    assert(call->gateway->remote != NULL);
    call->asked_at = now;
    debit.cost = run->charge;
    return call->env->limits_take(call->worker->port, &call->debit, &call->generation->remote,
                                  &debit, call->env->limits_decided, err, axes);
}

static void gate_settles(struct admission_run *run, tg_ms now, int64_t actual)
{
    struct call *call = call_of_run(run);

    (void)now;
    call->env->limits_settle(&call->debit, actual);
}

static void gate_refunds(struct admission_run *run, tg_ms now)
{
    struct call *call = call_of_run(run);

    (void)now;
    call->env->limits_refund(&call->debit);
}

/* With --record somebody watches. */
static const struct admission_ops gate_ops[2] = {{.wait = call_waits_until,
                                                  .wait_over = call_wait_is_over,
                                                  .ask = gate_asks_store,
                                                  .settle = gate_settles,
                                                  .refund = gate_refunds},
                                                 {.wait = call_waits_until,
                                                  .wait_over = call_wait_is_over,
                                                  .ask = gate_asks_store,
                                                  .settle = gate_settles,
                                                  .refund = gate_refunds,
                                                  .before = call_record_before,
                                                  .after = call_record_after}};

/* A slot asks no store, so that it can have the same. */
static const struct admission_ops *ops_of(const struct call *call)
{
    return &gate_ops[call->gateway->recorder != NULL];
}

/* ---- the gateway's gate ---- */

/* Bytes of a body that are read in any case. */
enum { SMALL_BODY = 16 * 1024 };

/* Whether there is a body that is worth not reading. A small one has come with its head; to read it
 * costs no more than to refuse it, and then the refusal is exact, and a recording has its size. */
static bool is_body_large(const struct call *call)
{
    const struct http_head *head = &call->in->head;

    return head->length < 0 || head->length > SMALL_BODY ||
           http_find(head, SLICE("expect")).n > 0; /* the client asks before it sends it */
}

/* Memory, fairness, and the tenant's limits as far as they are known here. What the call will cost
 * is not: a cost of 1 decides, and the tenant's usual cost says when it may be tried again. */
static enum admission_state precheck_limits(struct call *call, bool large, struct tg_answer *answer)
{
    const struct tenant_share *share = call->generation->shares[call->tenant];
    struct tg_axes known;

    if (!large)
        return admission_run_precheck(&call->gate, call->began_at, answer);
    if (call->passthrough == NULL) /* those cost nothing on this axis */
        call->gate_call.debit.cost =
            num_max(atomic_load_explicit(&share->usual_cost, memory_order_relaxed), 1);
    call->gate_call.peek = true;
    if (call->gateway->remote != NULL &&
        call->env->limits_refused(call->worker->port, &call->generation->remote,
                                  &call->gate_call.debit, &known))
        call->gate_call.known = &known;
    enum admission_state state = admission_run_precheck(&call->gate, call->began_at, answer);
    call->gate_call.peek = false;
    call->gate_call.known = NULL;
    call->gate_call.debit.cost = 0;
    return state;
}

/* Whether not even the cheapest call can be paid. True: it has been refused. */
static bool is_out_of_money(struct call *call)
{
    struct tg_money_answer answer;
    struct spending_call spending;

    call_describe_money(call, &spending);
    if (spending_ask(call->gateway->spending, &spending, call_now(call), &answer) ||
        answer.account == 0)
        return false; /* the one who reserves will say what is wrong */
    call_refuse_money(call, TG_OK, &answer);
    return true;
}

bool call_precheck(struct call *call)
{
    struct tg_answer answer;
    struct refusal why;

    assert(call->gate_call.waiter == &call->waiter);
    admission_run_init(&call->gate, call->gateway->gate, &call->gate_call, ops_of(call));
    bool large = is_body_large(call);
    enum admission_state state = precheck_limits(call, large, &answer);
    if (state != ADMISSION_FAILED)
        report_notes_answer(&call->notes, call->gateway->gate, &call->gate_call, &answer);
    if (state == ADMISSION_CHECKED)
        return !large || !is_out_of_money(call);
    if (state == ADMISSION_FAILED) {
        refusal_of_error(call->gate.err, &why);
    } else {
        call->axes = answer.axes;
        refusal_of_answer(&answer, &call->gate_call, &why);
    }
    call_refuse(call, &why);
    return false;
}

/* Threads may overwrite each other's: it is a mean, for hints alone. */
static void learn_cost(const struct call *call, int64_t charge)
{
    atomic_llong *usual = &call->generation->shares[call->tenant]->usual_cost;
    long long mean = atomic_load_explicit(usual, memory_order_relaxed);

    if (charge > 0)
        atomic_store_explicit(usual, mean > 0 ? mean + (charge - mean) / 8 : charge,
                              memory_order_relaxed);
}

static enum call_verdict gate_answered(struct call *call, const struct tg_answer *answer)
{
    enum tg_err err = call->gate.err;
    struct refusal why;

    switch (call->gate.state) {
    case ADMISSION_WAITING:
    case ADMISSION_ASKING:
        return CALL_WAITS;
    case ADMISSION_ADMITTED:
    case ADMISSION_REFUSED:
        call->axes = answer->axes;
        call->notes.decided = true;
        report_notes_answer(&call->notes, call->gateway->gate, &call->gate_call, answer);
        if (call_is_admitted(call)) {
            learn_cost(call, answer->charge);
            return CALL_PASSES;
        }
        refusal_of_answer(answer, &call->gate_call, &why);
        break;
    default:
        assert(call->gate.state == ADMISSION_FAILED);
        refusal_of_error(err, &why);
    }
    call_refuse(call, &why);
    return CALL_ANSWERED;
}

enum call_verdict call_enter_gate(struct call *call)
{
    struct tg_answer answer;

    assert(call->gate.state == ADMISSION_CHECKED);
    admission_run_admit(&call->gate, call_now(call), &answer);
    return gate_answered(call, &answer);
}

enum call_verdict call_gate_woken(struct call *call)
{
    struct tg_answer answer;

    admission_run_wake(&call->gate, call_now(call), &answer);
    return gate_answered(call, &answer);
}

enum call_verdict call_limits_answered(struct call *call, const struct call_input *with)
{
    struct tg_answer answer;

    call->store_ms += call_now(call) - call->asked_at;
    admission_run_store_answered(&call->gate, call_now(call), with->err, with->axes, &answer);
    return gate_answered(call, &answer);
}

/* ---- the route's slots ---- */

void call_estimate(struct call *call)
{
    struct route *route = call->route;

    assert(route != NULL);
    int64_t prompt = estimate_prompt(&call->ask, &route->estimate);
    int64_t output = estimate_output(&call->ask, config_assumed_output(route->config));
    call->notes.estimated_input = prompt;
    call->notes.max_output = output;
    call->gate_call.debit.cost = num_add(prompt, output);
    call->gate_call.size = prompt;
    call->gate_call.hold_s = atomic_load_explicit(&route->hold_s, memory_order_relaxed);
    call->gate_call.deadline = call->deadline;
}

static enum call_verdict slot_answered(struct call *call, const struct tg_answer *answer)
{
    struct refusal why;

    if (call->slot.state == ADMISSION_FAILED) {
        refusal_of_error(call->slot.err, &why);
        call_refuse(call, &why);
        return CALL_ANSWERED;
    }
    if (call->slot.state == ADMISSION_WAITING) {
        /* One deadline for all its waits: neither the gate nor a fallback begins anew. */
        call->gate_call.deadline = call->slot.deadline;
        return CALL_WAITS;
    }
    call->notes.decided = true;
    report_notes_answer(&call->notes, call->slot.gate, &call->slot_call, answer);
    if (call->slot.state == ADMISSION_ADMITTED)
        return CALL_PASSES;
    assert(call->slot.state == ADMISSION_REFUSED);
    if (call_fall_back(call, "concurrency"))
        return CALL_FALLS_BACK;
    refusal_of_answer(answer, &call->slot_call, &why);
    call_refuse_admitted(call, &why);
    return CALL_ANSWERED;
}

enum call_verdict call_take_slot(struct call *call)
{
    struct tg_answer answer;
    struct tg_expectation expects;

    assert(call->slot.lease == 0 && call->attempt.key == 0);
    tg_call_init(&call->slot_call);
    call->slot_call.priority = call->gate_call.priority;
    call->slot_call.tenant = call->gate_call.tenant;
    call->slot_call.tenant_bytes = call->gate_call.tenant_bytes;
    call->slot_call.weight = call->gate_call.weight;
    call->slot_call.deadline = call->gate_call.deadline;
    call->slot_call.size = call->notes.estimated_input;
    call->slot_call.hold_s = call->gate_call.hold_s;
    /* Turns are paid for with what calls like this one use: whoever asks for more than it needs
     * would wait for tokens that nobody writes. */
    if (tg_gate_expect(call->worker->gateway->gate, &call->gate_call, &expects) != TG_OK)
        expects.expected = call->gate_call.debit.cost;
    call->slot_call.work = num_max(expects.expected, 1);
    call->used_before = call->used;
    call->slot_call.waiter = &call->waiter;
    call->slot_call.gate_kind = "model";
    call->slot_call.gate_name = call->route->config->name;
    admission_run_init(&call->slot, call->route->slots->gate, &call->slot_call, ops_of(call));
    admission_run_admit(&call->slot, call_now(call), &answer);
    return slot_answered(call, &answer);
}

enum call_verdict call_slot_woken(struct call *call)
{
    struct tg_answer answer;

    admission_run_wake(&call->slot, call_now(call), &answer);
    return slot_answered(call, &answer);
}

/* ---- fallbacks ---- */

static bool may_fall_back(struct call *call, size_t model)
{
    const struct config *config = &call->generation->config;
    struct ask_problem problem;

    return config_may_use(config, call_tenant(call), call->virtual_key, &config->models[model]) &&
           call_is_reached(call, &call->generation->routes[model]) &&
           call_is_carried(call, call->next_fallback) &&
           call_objects_at(call, call->generation->routes[model].provider) &&
           call_rules_apply(call, &call->generation->routes[model], &problem);
}

bool call_fall_back(struct call *call, const char *why)
{
    if (call->model == CONFIG_NONE) /* a passthrough, or a model that is not listed */
        return false;
    const struct config_model *asked = &call->generation->config.models[call->model];

    assert(call->attempt.key == 0 && call->attempt.money.reservation == 0);
    while (call->next_fallback < asked->n_fallback &&
           !may_fall_back(call, asked->fallback[call->next_fallback]))
        call->next_fallback++;
    if (call->next_fallback >= asked->n_fallback)
        return false;
    call_leave_route(call);
    assert(call->slot.state == ADMISSION_IDLE);
    call->route = &call->generation->routes[asked->fallback[call->next_fallback++]];
    call->notes.fallback_why = why;
    call->notes.axis = TG_AXIS_NONE; /* what refused it was the route that it has left */
    call->notes.limit.of[0] = 0;
    call->route_attempts = 0;
    call->n_refused = call->n_tried = 0;
    call->same_key = false;
    atomic_fetch_add_explicit(&call->gateway->counts.fallbacks, 1, memory_order_relaxed);
    return true;
}
