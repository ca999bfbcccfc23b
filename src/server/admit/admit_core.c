/* admit_core.c - one question at the gate, from its ask to its reply. See admit.h.
 *
 *     admit_start --> decided ---------------------------------------------> done()
 *              |----> queued --> woken, or its wait over --> as from start
 *              `----> at the store that gateways share --> its answer -----> done()
 *                             `----> admit_cancel()
 *
 * The gate is that of the protected routes, whose law learns: calls of callers are work of a kind
 * that nothing else is known of.
 */
#include <string.h>

#include "lib/core/container_of.h"
#include "server/admit/admit_internal.h"

/* ---- the question ---- */

static struct slice model_of(const struct config *config, struct slice asked)
{
    size_t model = asked.n > 0 ? config_model(config, asked.at, asked.n) : CONFIG_NONE;

    return model != CONFIG_NONE ? slice_of(config->models[model].name) : asked;
}

static enum tg_priority admit_core_priority_of(const struct admit_question *question)
{
    const struct admit_ask *ask = &question->ask;
    enum tg_priority priority = ask->priority;

    if (priority == TG_PRIORITY_COUNT)
        priority = question->tenant != NULL ? (enum tg_priority)question->tenant->priority
                                            : TG_PRIORITY_NORMAL;
    return priority > ask->at_most ? priority : ask->at_most; /* lower is a larger number */
}

static tg_ms ttl_of(const struct generation *generation, const struct admit_ask *ask)
{
    tg_ms most = generation->config.gate.lease_ttl;

    if (ask->ttl_ms > 0)
        return ask->ttl_ms;
    return most < ADMIT_TTL_DEFAULT ? most : ADMIT_TTL_DEFAULT;
}

enum tg_err admit_describe(const struct generation *generation, struct admit_question *question,
                           struct tg_problem *problem)
{
    const struct config *config = &generation->config;
    const struct admit_ask *ask = &question->ask;
    struct slice tenant = ask->tenant.n > 0 ? ask->tenant : slice_of(question->entry->name);
    struct slice peer = ask->peer.n > 0 ? ask->peer : tenant;
    struct tg_call *call = &question->call;

    question->tenant = config_tenant(config, tenant.at, tenant.n);
    question->model = model_of(config, ask->model);
    const struct scopes_who who = {.tenant = tenant.at,
                                   .tenant_bytes = tenant.n,
                                   .model = question->model.n > 0 ? question->model.at : NULL,
                                   .model_bytes = question->model.n,
                                   .user = ask->user.n > 0 ? ask->user.at : NULL,
                                   .user_bytes = ask->user.n,
                                   .peer = peer.at,
                                   .peer_bytes = peer.n,
                                   .priority = admit_core_priority_of(question)};
    tg_call_init(call);
    enum tg_err err = scopes_fill(generation->scopes, &who, question->scopes, call, problem);
    remote_divide_peer(generation->gateway->remote, &config->gate, call);
    call->debit.cost = ask->cost;
    call->hold_s = ask->hold_s;
    call->deadline = ask->deadline;
    call->lease_ttl = ttl_of(generation, ask);
    if (ask->has_value)
        call->value = ask->value;
    return err;
}

/* ---- the reply ---- */

void admit_reply_of(const struct tg_answer *answer, const struct tg_call *call,
                    struct admit_reply *reply)
{
    reply->status = ADMIT_DECIDED;
    reply->field = NULL;
    reply->allowed = answer->decision.allowed;
    reply->decision = answer->decision;
    reply->reason = answer->reason;
    reply->policy_denied = answer->policy_denied;
    reply->binding_axis = answer->policy_denied ? TG_AXIS_NONE : tg_axes_binding(&answer->axes);
    reply->axes = answer->axes;
    reply->would_deny = answer->would_deny;
    reply->lease_bytes = 0;
    reply->lease_expires_at = 0;
    reply->message[0] = 0;
    if (reply->allowed)
        return;
    tg_answer_describe(answer, call, reply->message, sizeof reply->message);
    admit_mend_text(reply->message);
}

/* What was charged elsewhere will be settled by who charged it. */
static bool has_account(const struct admit_pending *pending, const struct tg_answer *answer)
{
    return pending->state == ADMIT_AT_STORE && answer->lease != 0 &&
           answer->axes.present & 1u << TG_AXIS_COST;
}

/* False: it could not be written down. */
static bool name_lease(struct admit_pending *pending, const struct tg_answer *answer,
                       struct admit_reply *reply)
{
    const struct admit_question *question = &pending->question;
    struct gateway *gateway = pending->worker->gateway;
    struct admit_pending *account = has_account(pending, answer) ? pending : NULL;
    const struct admit_lease lease = {.lease = answer->lease,
                                      .ttl = question->call.lease_ttl,
                                      .is_tied = question->ask.connection != 0 || account != NULL};

    if (lease.is_tied && !ties_add(&gateway->admit->ties, lease.lease, question->ask.connection,
                                   account, answer->deadline))
        return false;
    if (account != NULL)
        admit_account_open(account);
    admit_lease_write(gateway, question->entry->name, &lease, reply->lease);
    reply->lease_bytes = ADMIT_LEASE_BYTES;
    reply->lease_expires_at = answer->deadline;
    return true;
}

static void give_back(struct admit_pending *pending, tg_lease lease)
{
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = TG_OUTCOME_REFUSED;
    tg_gate_release(pending->worker->gateway->protect_gate, lease, worker_now(pending->worker),
                    &release);
}

/* The last thing that happens to it. Whoever is told may ask again, and get the same struct. */
static void admit_core_finish(struct admit_pending *pending, const struct tg_answer *answer,
                              struct admit_reply *reply)
{
    struct worker *worker = pending->worker;
    struct generation *generation =
        pending->generation != NULL ? pending->generation : worker->generation;
    admit_done *done = pending->done;
    void *context = pending->context;

    admit_report(worker, generation, &pending->question, pending->began_at, answer, reply);
    if (pending->state != ADMIT_ACCOUNT)
        admit_pending_put(pending);
    done(context, reply);
}

static void admit_core_decided(struct admit_pending *pending, const struct tg_answer *answer)
{
    struct admit_reply reply;

    admit_reply_of(answer, &pending->question.call, &reply);
    if (reply.allowed && answer->lease != 0 && !name_lease(pending, answer, &reply)) {
        remote_claim_refund(&pending->debit);
        give_back(pending, answer->lease);
        admit_fail(&reply, ADMIT_INTERNAL, NULL, "no memory to write the lease down");
    }
    admit_core_finish(pending, answer, &reply);
}

static void failed(struct admit_pending *pending, enum tg_err err)
{
    struct admit_reply reply;

    admit_fail(&reply,
               err == TG_ERR_STORE || err == TG_ERR_FULL ? ADMIT_UNAVAILABLE : ADMIT_INTERNAL, NULL,
               "%s", tg_strerror(err));
    admit_core_finish(pending, NULL, &reply);
}

/* ---- on its way ---- */

static bool admit_core_answered(struct admit_pending *pending, enum tg_err err,
                                const struct tg_answer *answer);

/* Says whether it is still pending, here and below: else it may be somebody else's by now. */
static bool admit_core_give_up(struct admit_pending *pending, enum tg_err err)
{
    give_back(pending, pending->lease);
    failed(pending, err);
    return false;
}

static bool admit_core_wait_until(struct admit_pending *pending, tg_ms deadline)
{
    struct worker *worker = pending->worker;
    tg_ms now = worker_now(worker);
    enum tg_err err = admit_pending_keep(pending);

    if (err)
        return admit_core_give_up(pending, err);
    pending->state = ADMIT_QUEUED;
    net_timer_set(worker->loop, &pending->timer, deadline > now ? deadline - now : 1);
    return true;
}

/* It got a slot, or its wait is over. */
void admit_pending_woken(void *arg)
{
    struct admit_pending *pending = arg;
    struct tg_answer answer;

    if (pending->state != ADMIT_QUEUED)
        return;
    pending->state = ADMIT_ASKED;
    net_timer_stop(pending->worker->loop, &pending->timer);
    enum tg_err err = tg_gate_resume(pending->worker->gateway->protect_gate, pending->lease,
                                     &pending->question.call, worker_now(pending->worker), &answer);
    admit_core_answered(pending, err, &answer);
}

static struct admit_pending *pending_of(struct remote_claim *debit)
{
    return container_of(debit, struct admit_pending, debit);
}

static void store_answered(struct remote_claim *debit, enum tg_err err,
                           const struct tg_answer *answer)
{
    admit_core_answered(pending_of(debit), err, answer);
}

/* Rate and cost are in a store that several gateways share. */
static bool admit_core_ask_store(struct admit_pending *pending, const struct tg_answer *so_far)
{
    struct worker *worker = pending->worker;
    struct tg_answer answer = *so_far;
    enum tg_err err = admit_pending_keep(pending);

    if (err)
        return admit_core_give_up(pending, err);
    pending->state = ADMIT_AT_STORE;
    if (!remote_take_for_gate(worker->port, &pending->debit, &pending->generation->remote,
                              worker->gateway->protect_gate, &pending->question.call,
                              store_answered, &err, &answer))
        return true;
    return admit_core_answered(pending, err, &answer);
}

static bool admit_core_answered(struct admit_pending *pending, enum tg_err err,
                                const struct tg_answer *answer)
{
    if (err) {
        failed(pending, err);
        return false;
    }
    pending->lease = answer->lease;
    if (answer->step == TG_WAITING)
        return admit_core_wait_until(pending, answer->deadline);
    if (answer->step == TG_NEEDS_STORE)
        return admit_core_ask_store(pending, answer);
    admit_core_decided(pending, answer);
    return false;
}

/* ---- rate and cost alone ---- */

static void answer_of(const struct tg_axes *axes, struct tg_answer *answer)
{
    static const enum tg_reason reasons[] = {[TG_AXIS_CONCURRENCY] = TG_REASON_CONCURRENCY,
                                             [TG_AXIS_RATE] = TG_REASON_RATE,
                                             [TG_AXIS_COST] = TG_REASON_COST};
    enum tg_axis binding = tg_axes_binding(axes);

    memset(answer, 0, sizeof *answer);
    answer->step = TG_DECIDED;
    answer->axes = *axes;
    answer->decision = TG_ALLOW_FULL;
    answer->reason = binding != TG_AXIS_NONE ? reasons[binding] : TG_REASON_NONE;
    for (int axis = 0; axis < TG_AXIS_COUNT; axis++) {
        if (axes->present & 1u << axis)
            answer->decision = tg_decision_combine(answer->decision, axes->decision[axis]);
        if (axes->would_deny & 1u << axis)
            answer->would_deny |= 1u << reasons[axis];
    }
}

static bool limits_answered(struct admit_pending *pending, enum tg_err err,
                            const struct tg_axes *axes)
{
    struct tg_answer answer;

    answer_of(axes, &answer);
    return admit_core_answered(pending, err, &answer);
}

static void store_decided(struct remote_claim *debit, enum tg_err err, const struct tg_axes *axes)
{
    limits_answered(pending_of(debit), err, axes);
}

static bool ask_limits(struct admit_pending *pending)
{
    struct worker *worker = pending->worker;
    const struct tg_debit *debit = &pending->question.call.debit;
    struct tg_axes axes = {.present = 0};
    struct tg_decision all;
    enum tg_err err = TG_OK;

    if (worker->port != NULL) {
        err = admit_pending_keep(pending);
        pending->state = ADMIT_AT_STORE;
        if (!err && !remote_take(worker->port, &pending->debit, &pending->generation->remote, debit,
                                 store_decided, &err, &axes))
            return true;
    } else if (debit->n_scopes > 0) {
        err = tg_store_take(worker->gateway->store, debit, pending->began_at, &all, &axes);
    }
    return limits_answered(pending, err, &axes);
}

static bool ask_gate(struct admit_pending *pending)
{
    struct tg_answer answer;
    enum tg_err err = tg_gate_admit(pending->worker->gateway->protect_gate, &pending->question.call,
                                    0, pending->began_at, &answer);

    return admit_core_answered(pending, err, &answer);
}

/* ---- from outside ---- */

struct admit_pending *admit_pending_open(struct worker *worker, struct admit_caller *caller,
                                         const struct admit_ask *ask,
                                         const struct config_caller **entry,
                                         struct admit_reply *reply)
{
    struct admit_pending *pending;
    struct tg_problem problem;

    *entry = admit_entry(worker, caller, reply);
    if (*entry == NULL || !admit_check(worker, *entry, ask, reply))
        return NULL;
    pending = admit_pending_get(worker);
    if (pending == NULL) {
        admit_fail(reply, ADMIT_INTERNAL, NULL, "no memory");
        return NULL;
    }
    pending->question.entry = *entry;
    pending->question.ask = *ask;
    pending->lease = 0;
    pending->began_at = worker_now(worker);
    if (admit_describe(worker->generation, &pending->question, &problem)) {
        admit_pending_put(pending);
        admit_fail(reply, ADMIT_INTERNAL, NULL, "%s", problem.text);
        return NULL;
    }
    return pending;
}

struct admit_pending *admit_start(struct worker *worker, struct admit_caller *caller,
                                  const struct admit_ask *ask, admit_done *done, void *context)
{
    struct admit_reply reply;
    const struct config_caller *entry;
    struct admit_pending *pending = admit_pending_open(worker, caller, ask, &entry, &reply);

    if (pending == NULL) {
        admit_report_error(worker, entry, &reply);
        done(context, &reply);
        return NULL;
    }
    pending->done = done;
    pending->context = context;
    pending->question.call.waiter = &pending->waiter;
    bool waits = ask->limits_only ? ask_limits(pending) : ask_gate(pending);
    return waits ? pending : NULL;
}

void admit_cancel(struct admit_pending *pending)
{
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = TG_OUTCOME_CANCELLED;
    if (pending->state == ADMIT_AT_STORE)
        remote_claim_refund(&pending->debit); /* the gate is told, too */
    else if (pending->state != ADMIT_LOOKING)
        tg_gate_release(pending->worker->gateway->protect_gate, pending->lease,
                        worker_now(pending->worker), &release);
    admit_pending_put(pending);
}
