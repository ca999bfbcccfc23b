/* admit_core.c - one question at the gate, from its ask to its reply: see admit_internal.h.
 *
 * A caller with a `concurrency` of its own asks its slots first, then the gate that all calls pass;
 * any other caller asks the gate alone. A question about rate and cost alone (`limits_only`) is a
 * run without a gate.
 */
#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "server/admit/admit_internal.h"

/* ---- the question ---- */

enum tg_err admit_describe(const struct generation *generation, struct admit_question *question,
                           struct tg_problem *problem)
{
    const struct config *config = &generation->config;
    const struct admit_ask *ask = &question->ask;
    struct slice tenant = ask->tenant.n > 0 ? ask->tenant : slice_of(question->entry->name);
    struct slice peer = ask->peer.n > 0 ? ask->peer : tenant;
    struct tg_call *call = &question->call;
    enum tg_priority priority = ask->priority;
    size_t model = CONFIG_NONE;

    question->tenant = config_tenant(config, tenant.at, tenant.n);
    if (priority == TG_PRIORITY_COUNT)
        priority = question->tenant != NULL ? (enum tg_priority)question->tenant->priority
                                            : TG_PRIORITY_NORMAL;
    if (priority < ask->at_most) /* a lower priority is a larger number */
        priority = ask->at_most;
    if (ask->model.n > 0)
        model = config_model(config, ask->model.at, ask->model.n);
    question->model = model != CONFIG_NONE ? slice_of(config->models[model].name) : ask->model;
    const struct scopes_who who = {.tenant = tenant.at,
                                   .tenant_bytes = tenant.n,
                                   .model = question->model.n > 0 ? question->model.at : NULL,
                                   .model_bytes = question->model.n,
                                   .user = ask->user.n > 0 ? ask->user.at : NULL,
                                   .user_bytes = ask->user.n,
                                   .key = ask->key,
                                   .peer = peer.at,
                                   .peer_bytes = peer.n,
                                   .priority = priority};
    tg_call_init(call);
    enum tg_err err = scopes_fill(generation->scopes, &who, question->scopes, call, problem);
    remote_divide_peer(generation->gateway->remote, &config->gate, call);
    remote_divide_overdrafts(generation->gateway->remote, question->scopes, call->debit.n_scopes);
    call->debit.cost = ask->cost;
    call->hold_s = ask->hold_s;
    call->deadline = ask->deadline;
    call->lease_ttl =
        ask->ttl_ms > 0 ? ask->ttl_ms : num_min(config->gate.lease_ttl, ADMIT_TTL_DEFAULT);
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
    reply->client_wait_ms = answer->client_wait_ms;
    reply->reason = answer->reason;
    reply->policy_denied = answer->policy_denied;
    reply->binding_axis = answer->policy_denied ? TG_AXIS_NONE : tg_axes_binding(&answer->axes);
    reply->axes = answer->axes;
    reply->would_deny = answer->would_deny;
    reply->lease_bytes = 0;
    reply->lease_expires_at = 0;
    reply->message[0] = 0;
    report_limit_init(&reply->limit);
    if (reply->allowed)
        return;
    report_limit_find(call, answer, &reply->limit);
    tg_answer_describe(answer, call, reply->message, sizeof reply->message);
    admit_mend_text(reply->message);
}

void admit_reply_error(enum tg_err err, struct admit_reply *reply)
{
    admit_fail(reply,
               err == TG_ERR_STORE || err == TG_ERR_FULL ? ADMIT_UNAVAILABLE : ADMIT_INTERNAL, NULL,
               "%s", tg_strerror(err));
}

/* ---- how the run waits and asks ---- */

/* Both runs of a question have its waiter. */
static struct admit_pending *pending_of_run(struct admission_run *run)
{
    struct waiter *waiter = run->call->waiter;

    return container_of(waiter, struct admit_pending, waiter);
}

static enum tg_err admit_wait(struct admission_run *run, tg_ms deadline)
{
    struct admit_pending *pending = pending_of_run(run);
    struct worker *worker = pending->worker;
    tg_ms now = worker_now(worker);
    enum tg_err err = admit_pending_keep(pending);

    if (!err)
        net_timer_set(worker->loop, &pending->timer, deadline > now ? deadline - now : 1);
    return err;
}

static void admit_wait_over(struct admission_run *run)
{
    struct admit_pending *pending = pending_of_run(run);

    net_timer_stop(pending->worker->loop, &pending->timer);
    waiter_forget(&pending->waiter);
}

static void store_decided(struct remote_claim *debit, enum tg_err err, const struct tg_axes *axes)
{
    admit_step(container_of(debit, struct admit_pending, debit),
               &(struct admit_event){.kind = ADMIT_STORE_ANSWER, .err = err, .axes = axes});
}

/* The store that gateways share; without a gate and where nothing is shared, our own. */
static bool admit_ask_store(struct admission_run *run, tg_ms now, enum tg_err *err,
                            struct tg_axes *axes)
{
    struct admit_pending *pending = pending_of_run(run);
    struct worker *worker = pending->worker;
    struct tg_debit debit;
    struct tg_decision all;

    *err = worker->port != NULL ? admit_pending_keep(pending) : TG_OK;
    if (*err)
        return true;
    debit = pending->question.call.debit; /* its texts are where they stay by now */
    debit.cost = run->charge;
    if (worker->port != NULL)
        return remote_take(worker->port, &pending->debit, &pending->generation->remote, &debit,
                           store_decided, err, axes);
    assert(run->gate == NULL);
    *axes = (struct tg_axes){.present = 0};
    if (debit.n_scopes > 0)
        *err = tg_store_take(worker->gateway->store, &debit, now, &all, axes);
    return true;
}

/* What our own store was charged for a question without a gate stays charged: there is no lease
 * that could end. */
static void admit_settle(struct admission_run *run, tg_ms now, int64_t actual)
{
    struct admit_pending *pending = pending_of_run(run);

    (void)now;
    if (pending->worker->port != NULL)
        remote_claim_settle(&pending->debit, actual);
}

static void admit_refund(struct admission_run *run, tg_ms now)
{
    (void)now;
    assert(pending_of_run(run)->worker->port != NULL);
    remote_claim_refund(&pending_of_run(run)->debit);
}

/* A run that has not asked has no waiter, and nothing to end. */
static void admit_record_before(struct admission_run *run, const struct admission_event *event)
{
    if (run->call->waiter == NULL)
        return;
    struct admit_pending *pending = pending_of_run(run);

    record_run_before(pending->worker->gateway->recorder, &pending->trail, run, event);
}

static void admit_record_after(struct admission_run *run, const struct admission_event *event,
                               const struct tg_answer *answer)
{
    if (run->call->waiter == NULL)
        return;
    struct admit_pending *pending = pending_of_run(run);
    const struct admit_question *question = &pending->question;
    struct slice tenant = question->ask.tenant;
    struct record_place place = {.at = run->gate != NULL ? "gate" : "limits",
                                 .who = tenant.n > 0 ? tenant : slice_of(question->entry->name),
                                 .hands_over = true};

    if (run == &pending->own.run)
        place = (struct record_place){
            .at = "slot", .slots = "caller", .name = question->entry->name, .hands_over = true};
    record_run_after(pending->worker->gateway->recorder, &pending->trail, &place, run, event,
                     answer);
}

/* With --record somebody watches. */
static const struct admission_ops admit_admission_ops[2] = {{.wait = admit_wait,
                                                             .wait_over = admit_wait_over,
                                                             .ask = admit_ask_store,
                                                             .settle = admit_settle,
                                                             .refund = admit_refund},
                                                            {.wait = admit_wait,
                                                             .wait_over = admit_wait_over,
                                                             .ask = admit_ask_store,
                                                             .settle = admit_settle,
                                                             .refund = admit_refund,
                                                             .before = admit_record_before,
                                                             .after = admit_record_after}};

static void end_run(struct admit_pending *pending, enum tg_outcome outcome, int64_t actual)
{
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = outcome;
    release.actual = actual;
    own_slot_end(&pending->own, &pending->run, worker_now(pending->worker), &release);
}

/* ---- the decision ---- */

/* Gives the caller the lease of an admitted call: from here on whoever has its id ends it, and with
 * it the one of the caller's own slot. One whose cost was charged at the remote store has an
 * account, to be settled by this worker. False: there is no memory to write it down. */
static bool name_lease(struct admit_pending *pending, const struct tg_answer *answer,
                       struct admit_reply *reply, bool *has_account)
{
    const struct admit_question *question = &pending->question;
    struct gateway *gateway = pending->worker->gateway;

    *has_account = pending->run.is_charged && answer->axes.present & 1u << TG_AXIS_COST;
    const struct bound_parts parts = {.account = *has_account ? pending : NULL,
                                      .slots = pending->own.run.lease != 0 ? pending->slots : NULL,
                                      .slot = pending->own.run.lease};
    const struct admit_lease lease = {.lease = answer->lease,
                                      .ttl = question->call.lease_ttl,
                                      .is_bound = question->ask.connection != 0 ||
                                                  parts.account != NULL || parts.slots != NULL};

    if (lease.is_bound && !bound_leases_add(&gateway->admit->bound, lease.lease,
                                            question->ask.connection, &parts, answer->deadline))
        return false;
    if (parts.slots != NULL) {
        slots_ref(parts.slots);
        admission_run_hand_over_lease(&pending->own.run);
    }
    admission_run_hand_over_lease(&pending->run);
    admit_lease_write(gateway, question->entry->name, &lease, reply->lease);
    reply->lease_bytes = ADMIT_LEASE_BYTES;
    reply->lease_expires_at = answer->deadline;
    return true;
}

/* What the run has come to: the next state, and the reply if it is decided. */
static enum admit_state follow_run(struct admit_pending *pending, enum admission_state state,
                                   const struct tg_answer *answer, struct admit_reply *reply)
{
    struct worker *worker = pending->worker;
    struct generation *generation =
        pending->generation != NULL ? pending->generation : worker->generation;
    bool has_account = false;

    if (state == ADMISSION_WAITING || state == ADMISSION_ASKING)
        return ADMIT_RUNNING;
    if (state == ADMISSION_FAILED) {
        admit_reply_error(own_slot_err(&pending->own, &pending->run), reply);
        answer = NULL;
    } else {
        /* If its own slots refused it, messages name them. */
        pending->question.call.gate_kind =
            own_slot_refused(&pending->own, &pending->question.call)->gate_kind;
        pending->question.call.gate_name =
            own_slot_refused(&pending->own, &pending->question.call)->gate_name;
        admit_reply_of(answer, &pending->question.call, reply);
        assert(reply->allowed == (state == ADMISSION_ADMITTED));
        assert(pending->own.run.lease == 0 || answer->lease != 0);
        if (answer->lease != 0 && !name_lease(pending, answer, reply, &has_account)) {
            has_account = false;
            end_run(pending, TG_OUTCOME_REFUSED, -1);
            admit_fail(reply, ADMIT_INTERNAL, NULL, "no memory to write the lease down");
        }
    }
    admit_report(worker, generation, &pending->question, pending->began_at, answer, reply,
                 &pending->trail);
    if (has_account)
        return ADMIT_ACCOUNT;
    end_run(pending, TG_OUTCOME_OK, -1); /* what it took without an account, it took */
    return ADMIT_SPARE;
}

/* ---- the step function ---- */

/* What holds between two events. */
static void check_pending(const struct admit_pending *pending)
{
    enum admission_state run = own_slot_state(&pending->own, &pending->run);

    assert((pending->state == ADMIT_RUNNING) ==
           (run == ADMISSION_WAITING || run == ADMISSION_ASKING));
    assert((pending->state == ADMIT_ACCOUNT) == (run == ADMISSION_ADMITTED));
    assert(pending->state != ADMIT_ACCOUNT || (pending->run.is_charged && pending->run.lease == 0));
    assert(pending->generation != NULL || pending->state < ADMIT_RUNNING);
    (void)pending, (void)run;
}

enum admit_state admit_step(struct admit_pending *pending, const struct admit_event *event)
{
    enum admit_state was = pending->state, next = ADMIT_SPARE;
    tg_ms now = worker_now(pending->worker);
    admit_done *done = pending->done;
    void *context = pending->context;
    struct admission_run *run = &pending->run;
    struct own_slot *own = &pending->own;
    struct tg_call *call = &pending->question.call;
    struct admit_reply reply;
    struct tg_answer answer;

    check_pending(pending);
    switch (event->kind) {
    case ADMIT_START:
        assert(was == ADMIT_READY);
        next = follow_run(pending, own_slot_admit(own, run, call, pending->began_at, &answer),
                          &answer, &reply);
        break;
    case ADMIT_PEEK:
        assert(was == ADMIT_READY);
        next = admit_peek_begin(pending, &reply);
        break;
    case ADMIT_WAKE:
        assert(was == ADMIT_RUNNING && own_slot_state(own, run) == ADMISSION_WAITING);
        next = follow_run(pending, own_slot_wake(own, run, call, now, &answer), &answer, &reply);
        break;
    case ADMIT_STORE_ANSWER:
        assert(was == ADMIT_RUNNING && run->state == ADMISSION_ASKING);
        next = follow_run(pending,
                          own_slot_store_answered(own, run, now, event->err, event->axes, &answer),
                          &answer, &reply);
        break;
    case ADMIT_PEEK_ANSWER:
        assert(was == ADMIT_PEEKING);
        next = admit_peek_answered(pending, event->err, event->axes, &reply);
        break;
    case ADMIT_CANCEL:
        assert(was == ADMIT_RUNNING || was == ADMIT_PEEKING);
        remote_peek_end(&pending->peek);
        end_run(pending, TG_OUTCOME_CANCELLED, -1);
        admit_record_left(pending->worker,
                          pending->generation != NULL ? pending->generation
                                                      : pending->worker->generation,
                          &pending->question, pending->began_at, &pending->trail);
        done = NULL;
        break;
    case ADMIT_CLOSE:
        assert(was == ADMIT_ACCOUNT);
        LIST_REMOVE(pending, list);
        end_run(pending, TG_OUTCOME_OK, event->actual);
        done = NULL;
        break;
    case ADMIT_EVENT_COUNT:
        assert(false && "an event");
        break;
    }
    pending->state = next;
    check_pending(pending);
    if (next == ADMIT_RUNNING || next == ADMIT_PEEKING)
        return next;
    if (next == ADMIT_ACCOUNT)
        admit_account_open(pending);
    else
        admit_pending_put(pending);
    if (done != NULL)
        done(context, &reply); /* the last thing: it may ask again, and get the same struct */
    return next;
}

/* ---- from outside ---- */

/* The caller's own; null: none. */
static struct slots *slots_of(const struct generation *generation,
                              const struct config_caller *entry)
{
    size_t number = (size_t)(entry - generation->config.callers);

    assert(number < generation->config.n_callers);
    return generation->caller_slots[number];
}

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
    pending->began_at = worker_now(worker);
    if (admit_describe(worker->generation, &pending->question, &problem)) {
        admit_pending_put(pending);
        admit_fail(reply, ADMIT_INTERNAL, NULL, "%s", problem.text);
        return NULL;
    }
    pending->question.call.waiter = &pending->waiter;
    const struct admission_ops *ops = &admit_admission_ops[worker->gateway->recorder != NULL];
    admission_run_init(&pending->run, ask->limits_only ? NULL : worker->gateway->gate,
                       &pending->question.call, ops);
    pending->slots = ask->limits_only ? NULL : slots_of(worker->generation, *entry);
    own_slot_init(&pending->own, pending->slots ? pending->slots->gate : NULL, ops, "caller",
                  (*entry)->name);
    pending->state = ADMIT_READY;
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
    enum admit_state state = admit_step(pending, &(struct admit_event){.kind = ADMIT_START});
    return state == ADMIT_RUNNING ? pending : NULL;
}

void admit_cancel(struct admit_pending *pending)
{
    admit_step(pending, &(struct admit_event){.kind = ADMIT_CANCEL});
}
