/* protect_admit.c - a call to a protected route at the slots of its route, and at the gate of all.
 *
 * Both leases are held from admission to the end of the reply, because that is what occupies a
 * server of which nothing else is known; that whole time is the sample of the route's law. A client
 * that hangs up says nothing about load, and leaves none.
 *
 * The deadline of an RPC holds from its arrival on: what the queue took of it is taken from what
 * the upstream is told.
 */
#include <stdio.h>

#include "lib/core/container_of.h"
#include "server/dialect/client_timeout.h"
#include "server/obs/metrics.h"
#include "server/protect/protect_grpc.h"
#include "server/protect/protect_internal.h"
#include "server/runtime/identity.h"
#include "server/tenancy/trust.h"

/* After the deadline of an RPC, the time that its client and its upstream have to end it. */
#define GRACE_MS 1000

/* ---- ways out ---- */

void protect_release(struct protected_call *call, enum tg_outcome outcome)
{
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = outcome;
    net_timer_stop(call->worker->loop, &call->timer);
    own_slot_end(&call->own, &call->run, protect_now(call), &release);
}

/* `axes` null: no limit has said anything. */
static enum protect_state refuse_with(struct protected_call *call, const struct refusal *why,
                                      const struct tg_axes *axes, enum tg_outcome outcome)
{
    struct worker *worker = call->worker;
    tg_ms now = protect_now(call), wall = clock_wall_of(&worker->gateway->clock, now);
    struct reply_limits limits = {.n_fields = 0};
    struct reply reply;
    struct http_fields fields;
    char id[24];

    assert(call->first_at == 0 && call->reason == REPLY_COUNT);
    protect_release(call, outcome);
    call->reason = why->reason;
    atomic_fetch_add_explicit(&call->gateway->counts.refused[why->reason], 1, memory_order_relaxed);
    reply_write(why, WIRE_OPENAI, wall, random_bits(&worker->random), &reply);
    call->status = reply.status;
    protect_report_refused(call, why, &reply);
    if (axes != NULL)
        reply_limits_write(axes, WIRE_OPENAI, now, wall, &limits);
    int n = snprintf(id, sizeof id, "req_%016llx", (unsigned long long)call->id);
    if (call->grpc) {
        bool late = call->deadline > 0 && now >= call->deadline;
        protect_grpc_refuse(call->in, why, &limits, late, wall, random_bits(&worker->random),
                            (struct slice){id, (size_t)n});
        return PROTECT_OVER;
    }
    http_fields_init(&fields);
    for (size_t i = 0; i < reply.n_fields; i++)
        http_fields_add(&fields, reply.fields[i].name, reply.fields[i].value);
    for (size_t i = 0; i < limits.n_fields; i++)
        http_fields_add(&fields, limits.fields[i].name, limits.fields[i].value);
    http_fields_add(&fields, SLICE("x-request-id"), (struct slice){id, (size_t)n});
    struct http_head head = {.status = reply.status, .fields = fields.list, .n_fields = fields.n};
    call->bytes_out = (int64_t)reply.body.n;
    http_inbound_send(call->in, &head, reply.body);
    return PROTECT_OVER;
}

enum protect_state protect_refuse(struct protected_call *call, const struct refusal *why,
                                  enum tg_outcome outcome)
{
    return refuse_with(call, why, NULL, outcome);
}

/* ---- how the run waits and asks ---- */

/* Both runs of a call have its waiter. */
static struct protected_call *call_of_run(const struct admission_run *run)
{
    struct waiter *waiter = run->call->waiter;

    return container_of(waiter, struct protected_call, waiter);
}

static enum tg_err protect_wait(struct admission_run *run, tg_ms deadline)
{
    struct protected_call *call = call_of_run(run);
    tg_ms now = protect_now(call);

    net_timer_set(call->worker->loop, &call->timer, deadline > now ? deadline - now : 1);
    return TG_OK;
}

static void protect_wait_over(struct admission_run *run)
{
    struct protected_call *call = call_of_run(run);

    net_timer_stop(call->worker->loop, &call->timer);
    waiter_forget(&call->waiter);
}

static void store_decided(struct remote_claim *debit, enum tg_err err, const struct tg_axes *axes)
{
    struct protected_call *call = container_of(debit, struct protected_call, debit);

    protect_step(call,
                 &(struct protect_event){.kind = PROTECT_STORE_ANSWER, .err = err, .axes = axes});
}

static bool protect_ask_store(struct admission_run *run, tg_ms now, enum tg_err *err,
                              struct tg_axes *axes)
{
    struct protected_call *call = call_of_run(run);
    struct tg_debit debit = call->gate_call.debit;

    (void)now;
    debit.cost = run->charge;
    return remote_take(call->worker->port, &call->debit, &call->generation->remote, &debit,
                       store_decided, err, axes);
}

static void protect_settle(struct admission_run *run, tg_ms now, int64_t actual)
{
    (void)now;
    remote_claim_settle(&call_of_run(run)->debit, actual);
}

static void protect_refund(struct admission_run *run, tg_ms now)
{
    (void)now;
    remote_claim_refund(&call_of_run(run)->debit);
}

/* A run that has not asked has no waiter, and nothing to end. */
static void protect_record_before(struct admission_run *run, const struct admission_event *event)
{
    if (run->call->waiter == NULL)
        return;
    struct protected_call *call = call_of_run(run);

    record_run_before(call->gateway->recorder, &call->trail, run, event);
}

static void protect_record_after(struct admission_run *run, const struct admission_event *event,
                                 const struct tg_answer *answer)
{
    if (run->call->waiter == NULL)
        return;
    struct protected_call *call = call_of_run(run);
    struct record_place place = {.at = "gate",
                                 .who = {call->gate_call.tenant, call->gate_call.tenant_bytes}};

    if (run == &call->own.run)
        place = (struct record_place){
            .at = "slot", .slots = "route", .name = call->route->config->prefix};
    record_run_after(call->gateway->recorder, &call->trail, &place, run, event, answer);
}

/* With --record somebody watches. */
static const struct admission_ops protect_admission_ops[2] = {{.wait = protect_wait,
                                                               .wait_over = protect_wait_over,
                                                               .ask = protect_ask_store,
                                                               .settle = protect_settle,
                                                               .refund = protect_refund},
                                                              {.wait = protect_wait,
                                                               .wait_over = protect_wait_over,
                                                               .ask = protect_ask_store,
                                                               .settle = protect_settle,
                                                               .refund = protect_refund,
                                                               .before = protect_record_before,
                                                               .after = protect_record_after}};

/* ---- admitted ---- */

/* The next moment at which the lease is renewed, or an RPC is found overdue. */
static void renew_later(struct protected_call *call)
{
    tg_ms ttl = call->generation->config.gate.lease_ttl, ms = ttl > 2 ? ttl / 2 : 1;
    tg_ms due = call->deadline + GRACE_MS - protect_now(call);

    if (call->deadline > 0 && due < ms)
        ms = due > 1 ? due : 1;
    net_timer_set(call->worker->loop, &call->timer, ms);
}

static enum protect_state forward(struct protected_call *call)
{
    struct refusal why;

    if (call->deadline > 0 && protect_now(call) >= call->deadline) {
        refusal_init(&why, REPLY_UPSTREAM_TIMEOUT,
                     "the call's deadline came before a slot was free");
        return protect_refuse(call, &why, TG_OUTCOME_REFUSED);
    }
    renew_later(call);
    if (!protect_send(call)) {
        refusal_init(&why, REPLY_INTERNAL, "the request to the upstream could not be made");
        return protect_refuse(call, &why, TG_OUTCOME_REFUSED);
    }
    http_inbound_resume(call->in);
    return PROTECT_FORWARDING;
}

enum protect_state protect_renew(struct protected_call *call)
{
    tg_ms now = protect_now(call), deadline = call->deadline;
    struct refusal why;

    if (deadline == 0 || now - GRACE_MS < deadline) {
        own_slot_renew(&call->own, &call->run, now);
        renew_later(call);
        return call->state;
    }
    /* Neither the client nor the upstream has ended an RPC whose deadline has passed. The client
     * chose that deadline: the law, which is everybody's, learns nothing of it. */
    call->env->cancel(call->out, HTTP2_CANCEL);
    call->out = NULL;
    if (call->state == PROTECT_FORWARDING) {
        refusal_init(&why, REPLY_UPSTREAM_TIMEOUT, "the upstream did not answer in time");
        return protect_refuse(call, &why, TG_OUTCOME_CANCELLED);
    }
    call->reason = REPLY_UPSTREAM_TIMEOUT;
    protect_release(call, TG_OUTCOME_CANCELLED);
    protect_grpc_end(call->in, GRPC_DEADLINE_EXCEEDED, SLICE("the deadline has passed"));
    return PROTECT_OVER;
}

/* ---- at the gate ---- */

/* What the run has come to. */
static enum protect_state follow_run(struct protected_call *call, enum admission_state state,
                                     const struct tg_answer *answer)
{
    struct refusal why;
    enum tg_err err = own_slot_err(&call->own, &call->run);

    if (state == ADMISSION_ASKING)
        return PROTECT_ADMITTING;
    if (state == ADMISSION_FAILED) {
        refusal_of_error(err, &why);
        return protect_refuse(call, &why, TG_OUTCOME_CANCELLED);
    }
    call->notes.decided = state != ADMISSION_WAITING;
    report_notes_answer(&call->notes, call->gateway->gate,
                        own_slot_refused(&call->own, &call->gate_call), answer);
    if (state == ADMISSION_WAITING) {
        report_notes_park(&call->notes);
        return PROTECT_ADMITTING;
    }
    if (state == ADMISSION_ADMITTED)
        return forward(call);
    assert(state == ADMISSION_REFUSED);
    refusal_of_answer(answer, own_slot_refused(&call->own, &call->gate_call), &why);
    return refuse_with(call, &why, &answer->axes, TG_OUTCOME_CANCELLED);
}

enum protect_state protect_wake(struct protected_call *call)
{
    struct tg_answer answer;

    report_notes_unpark(&call->notes);
    enum admission_state state =
        own_slot_wake(&call->own, &call->run, &call->gate_call, protect_now(call), &answer);
    return follow_run(call, state, &answer);
}

enum protect_state protect_store_answered(struct protected_call *call, enum tg_err err,
                                          const struct tg_axes *axes)
{
    struct tg_answer answer;
    enum admission_state state =
        own_slot_store_answered(&call->own, &call->run, protect_now(call), err, axes, &answer);

    return follow_run(call, state, &answer);
}

/* The tenant, if the request has a virtual key or a token of one; other credentials are the
 * upstream's. */
static const struct config_tenant *tenant_of(struct protected_call *call)
{
    const struct http_head *head = &call->in->head;
    struct identity identity;
    size_t tenant =
        identity_tenant(call->worker, call->generation, head, call->began_at, &identity);

    call->key = identity.key;
    call->share = tenant != CONFIG_NONE ? call->generation->shares[tenant] : NULL;
    return tenant != CONFIG_NONE ? &call->generation->config.tenants[tenant] : NULL;
}

/* Whose limits it is under, and whom fairness counts. */
static enum tg_err describe(struct protected_call *call, struct tg_problem *problem)
{
    const struct http_head *head = &call->in->head;
    const struct config_tenant *tenant = tenant_of(call);
    enum tg_priority priority = protect_priority(call->route, head->method, head->target);
    struct slice node = {NULL, 0}, name = slice_of(call->address);

    priority = trust_lower_priority(head, priority);
    if (call->trusted) {
        priority = trust_priority(head, priority);
        node = trust_node(head);
    }
    if (tenant != NULL)
        name = slice_of(tenant->name);
    else if (node.n > 0)
        name = node;
    struct slice peer = node.n > 0 ? node : name;
    const struct scopes_who who = {.tenant = name.at,
                                   .tenant_bytes = name.n,
                                   .key = call->key,
                                   .peer = peer.at,
                                   .peer_bytes = peer.n,
                                   .priority = priority};
    if (tenant == NULL || node.n > 0)
        metrics_note_peer(metrics_shard(call->gateway->metrics, call->worker->number), peer);
    tg_call_init(&call->gate_call);
    call->gate_call.waiter = &call->waiter;
    enum tg_err err =
        scopes_fill(call->generation->scopes, &who, call->scopes, &call->gate_call, problem);
    call->deadline = call->grpc ? protect_grpc_deadline(head, call->began_at) : 0;
    call->gate_call.deadline = call->deadline;
    if (!call->grpc) {
        struct client_timeout said;
        client_timeout_read(head, &said);
        call->gate_call.deadline = said.first > 0 ? call->began_at + said.first : 0;
    }
    remote_divide_peer(call->gateway->remote, &call->generation->config.gate, &call->gate_call);
    remote_divide_overdrafts(call->gateway->remote, call->scopes, call->gate_call.debit.n_scopes);
    return err;
}

enum protect_state protect_admit(struct protected_call *call)
{
    struct tg_problem problem;
    struct tg_answer answer;
    struct refusal why;
    const struct admission_ops *ops = &protect_admission_ops[call->gateway->recorder != NULL];

    admission_run_init(&call->run, call->gateway->gate, &call->gate_call, ops);
    own_slot_init(&call->own, call->route->slots->gate, ops, "route", call->route->config->prefix);
    if (atomic_load_explicit(&call->gateway->draining, memory_order_relaxed)) {
        refusal_init(&why, REPLY_SHUTTING_DOWN, NULL);
        return protect_refuse(call, &why, TG_OUTCOME_CANCELLED);
    }
    if (describe(call, &problem)) {
        refusal_init(&why, REPLY_INTERNAL, "%s", problem.text);
        return protect_refuse(call, &why, TG_OUTCOME_CANCELLED);
    }
    enum admission_state state =
        own_slot_admit(&call->own, &call->run, &call->gate_call, call->began_at, &answer);
    return follow_run(call, state, &answer);
}
