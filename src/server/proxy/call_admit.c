/* call_admit.c - a call asks for its places: a slot of its model first, then at the gate.
 *
 * The slot of the model comes first because it is where calls wait, and a call that waits must not
 * have been charged. Both gates are step machines of the library: a call that waits is a place in a
 * queue and a timer, no thread.
 *
 * The gate is asked once for a call, whatever number of attempts it takes; a slot is held for one
 * route at a time.
 */
#include <string.h>

#include "lib/core/container_of.h"
#include "server/proxy/call.h"

static void call_admit_wait_until(struct call *call, enum call_state state, tg_ms deadline)
{
    tg_ms now = call_now(call);

    call->state = state;
    report_notes_park(&call->notes);
    net_timer_set(call->worker->loop, &call->timer, deadline > now ? deadline - now : 1);
}

/* ---- the gate ---- */

static void gate_answered(struct call *call, enum tg_err err, const struct tg_answer *answer);

static void store_answered(struct remote_claim *debit, enum tg_err err,
                           const struct tg_answer *answer)
{
    struct call *call = container_of(debit, struct call, debit);

    call->store_ms += call_now(call) - call->asked_at;
    gate_answered(call, err, answer);
}

static void call_admit_ask_store(struct call *call, const struct tg_answer *so_far)
{
    struct tg_answer answer = *so_far;
    enum tg_err err;

    call->state = CALL_AT_STORE;
    call->asked_at = call_now(call);
    if (remote_take_for_gate(call->worker->port, &call->debit, &call->generation->remote,
                             call->gateway->gate, &call->gate_call, store_answered, &err, &answer))
        gate_answered(call, err, &answer);
}

static void gate_answered(struct call *call, enum tg_err err, const struct tg_answer *answer)
{
    struct refusal why;

    if (err) {
        call->lease = 0;
        refusal_init(&why,
                     err == TG_ERR_STORE || err == TG_ERR_FULL ? REPLY_STORE_UNAVAILABLE
                                                               : REPLY_INTERNAL,
                     "%s", tg_strerror(err));
        call_refuse(call, &why);
        return;
    }
    call->lease = answer->lease;
    if (answer->step == TG_WAITING) {
        call_admit_wait_until(call, CALL_QUEUED_GATE, answer->deadline);
        return;
    }
    if (answer->step == TG_NEEDS_STORE) {
        call_admit_ask_store(call, answer);
        return;
    }
    call->axes = answer->axes;
    call->notes.decided = true;
    report_notes_answer(&call->notes, call->gateway->gate, &call->gate_call, answer);
    if (answer->decision.allowed) {
        call->admitted = true;
        call_attempt(call);
        return;
    }
    refusal_of_answer(answer, &call->gate_call, &why);
    call_refuse(call, &why);
}

static void ask_gate(struct call *call)
{
    struct tg_answer answer;
    tg_lease prechecked = call->lease;

    call->lease = 0;
    enum tg_err err =
        tg_gate_admit(call->gateway->gate, &call->gate_call, prechecked, call_now(call), &answer);
    gate_answered(call, err, &answer);
}

/* What the call will cost, in tokens, before anybody knows. */
static void estimate_cost(struct call *call)
{
    struct route *route = call->route;

    if (route == NULL)
        return;
    int64_t prompt = estimate_prompt(&call->ask, &route->estimate);
    int64_t output = estimate_output(&call->ask, route->config->max_output_tokens);
    call->notes.estimated_input = prompt;
    call->notes.max_output = output;
    call->gate_call.debit.cost = tg_overbook_apply(&route->overbook, prompt + output);
    call->gate_call.hold_s = atomic_load_explicit(&route->hold_s, memory_order_relaxed);
    call->gate_call.deadline = call->deadline;
}

/* ---- the route's slots ---- */

static void slot_answered(struct call *call, enum tg_err err, const struct tg_answer *answer)
{
    struct refusal why;

    if (err) {
        call->slot = 0;
        refusal_init(&why, REPLY_INTERNAL, "%s", tg_strerror(err));
        call_refuse(call, &why);
        return;
    }
    call->slot = answer->lease;
    call->notes.decided |= answer->step == TG_DECIDED;
    report_notes_answer(&call->notes, call->route->slots->gate, &call->slot_call, answer);
    if (answer->step == TG_WAITING) {
        call_admit_wait_until(call, CALL_QUEUED_SLOT, answer->deadline);
    } else if (!answer->decision.allowed) {
        if (call_admit_fallback(call, "concurrency"))
            return;
        refusal_of_answer(answer, &call->slot_call, &why);
        call_refuse_admitted(call, &why);
    } else if (call->admitted) {
        call_attempt(call);
    } else {
        ask_gate(call);
    }
}

static void ask_slot(struct call *call)
{
    struct tg_answer answer;

    tg_call_init(&call->slot_call);
    call->slot_call.priority = call->gate_call.priority;
    call->slot_call.tenant = call->gate_call.tenant;
    call->slot_call.tenant_bytes = call->gate_call.tenant_bytes;
    call->slot_call.weight = call->gate_call.weight;
    call->slot_call.deadline = call->deadline;
    call->slot_call.waiter = &call->waiter;
    enum tg_err err =
        tg_gate_admit(call->route->slots->gate, &call->slot_call, 0, call_now(call), &answer);
    slot_answered(call, err, &answer);
}

void call_admit(struct call *call)
{
    estimate_cost(call);
    if (call->route)
        ask_slot(call);
    else
        ask_gate(call);
}

static bool may_fall_back(const struct call *call, size_t model)
{
    const struct config *config = &call->generation->config;

    return config_may_use(config, call_tenant(call), &config->models[model]) &&
           call->generation->routes[model].provider->api == call->api;
}

bool call_admit_fallback(struct call *call, const char *why)
{
    if (call->route == NULL || call->model == CONFIG_NONE)
        return false;
    const struct config_model *asked = &call->generation->config.models[call->model];

    while (call->next_fallback < asked->n_fallback &&
           !may_fall_back(call, asked->fallback[call->next_fallback]))
        call->next_fallback++;
    if (call->next_fallback >= asked->n_fallback)
        return false;
    call_leave_route(call, TG_OUTCOME_CANCELLED);
    call->route = &call->generation->routes[asked->fallback[call->next_fallback++]];
    call->notes.fallback_why = why;
    call->notes.axis = TG_AXIS_NONE; /* what refused it was the route it has left */
    call->route_attempts = 0;
    call->n_tried = 0;
    call->same_key = false;
    atomic_fetch_add_explicit(&call->gateway->counts.fallbacks, 1, memory_order_relaxed);
    ask_slot(call);
    return true;
}

/* ---- going on ---- */

static void call_admit_go_on(struct call *call)
{
    struct tg_answer answer;
    enum tg_err err;

    report_notes_unpark(&call->notes);
    switch (call->state) {
    case CALL_QUEUED_SLOT:
        net_timer_stop(call->worker->loop, &call->timer);
        err = tg_gate_resume(call->route->slots->gate, call->slot, &call->slot_call, call_now(call),
                             &answer);
        slot_answered(call, err, &answer);
        break;
    case CALL_QUEUED_GATE:
        net_timer_stop(call->worker->loop, &call->timer);
        err = tg_gate_resume(call->gateway->gate, call->lease, &call->gate_call, call_now(call),
                             &answer);
        gate_answered(call, err, &answer);
        break;
    default:
        break;
    }
}

void call_woken(void *arg)
{
    call_admit_go_on(arg);
}

void call_timer(void *arg)
{
    struct call *call = arg;

    if (call->state == CALL_PAUSING) {
        call_attempt(call);
    } else if (call->state == CALL_DRAINING) {
        call_settle(call, TG_KEY_CANCELLED, CHARGE_USED);
        call_free(call);
    } else {
        call_admit_go_on(call);
    }
}
