/* protect.c - `protect` routes: an upstream of the owner's behind the gate whose law learns.
 *
 * The lease is held from admission to the end of the reply, because that is what occupies a server
 * of which nothing else is known; that whole time is the law's sample. A client that hangs up says
 * nothing about load, and leaves none.
 *
 * The body is not read before a place is granted: the request is paused from its head on, also so
 * that `100 Continue` is not sent to somebody who is then refused.
 *
 * The deadline of an RPC holds from its arrival on: what the queue took of it is taken from what
 * the upstream is told.
 *
 * An exchange belongs to its worker's thread. Other threads only wake its waiter. Its struct is
 * freed in gone(), which comes exactly once and last.
 */
#include "server/protect/protect_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/container_of.h"
#include "server/protect/protect_grpc.h"
#include "server/tenancy/trust.h"
#include "server/tenancy/virtual_key.h"

/* After the deadline of an RPC, for its ends to say so themselves. */
#define GRACE_MS 1000

static const struct exchange_ops guarded_ops;

/* ---- ways out ---- */

void guarded_release(struct guarded *guarded, enum tg_outcome outcome)
{
    struct tg_release release;

    net_timer_stop(guarded->worker->loop, &guarded->timer);
    if (outcome == TG_OUTCOME_REFUSED)
        remote_claim_refund(&guarded->debit);
    else
        remote_claim_settle(&guarded->debit, -1); /* what it took, it took */
    if (guarded->lease == 0)
        return;
    tg_release_init(&release);
    release.outcome = outcome;
    tg_gate_release(guarded->gateway->protect_gate, guarded->lease, guarded_now(guarded), &release);
    guarded->lease = 0;
}

/* Nothing may have gone to the client. */
void guarded_refuse(struct guarded *guarded, const struct refusal *why, enum tg_outcome outcome)
{
    struct worker *worker = guarded->worker;
    tg_ms now = guarded_now(guarded);
    struct reply reply;
    struct http_fields fields;
    char id[24];

    guarded_release(guarded, outcome);
    guarded->state = GUARDED_OVER;
    guarded->reason = why->reason;
    atomic_fetch_add_explicit(&guarded->gateway->counts.refused[why->reason], 1,
                              memory_order_relaxed);
    reply_write(why, WIRE_OPENAI, now, random_bits(&worker->random), &reply);
    guarded->status = reply.status;
    guarded_report_refused(guarded, why, &reply);
    int n = snprintf(id, sizeof id, "req_%016llx", (unsigned long long)guarded->id);
    if (guarded->grpc) {
        bool late = guarded->call.deadline > 0 && now >= guarded->call.deadline;
        protect_grpc_refuse(guarded->in, why, late, now, random_bits(&worker->random),
                            (struct slice){id, (size_t)n});
        return;
    }
    http_fields_init(&fields);
    for (size_t i = 0; i < reply.n_fields; i++)
        http_fields_add(&fields, reply.fields[i].name, reply.fields[i].value);
    http_fields_add(&fields, SLICE("x-request-id"), (struct slice){id, (size_t)n});
    struct http_head head = {.status = reply.status, .fields = fields.list, .n_fields = fields.n};
    guarded->bytes_out = (int64_t)reply.body.n;
    http_inbound_send(guarded->in, &head, reply.body);
}

/* ---- at the gate ---- */

/* When the deadline of an RPC is so long past that both ends must have left it to us. */
static bool is_overdue(const struct guarded *guarded, tg_ms now)
{
    return guarded->call.deadline > 0 && now - GRACE_MS >= guarded->call.deadline;
}

static void renew_later(struct guarded *guarded)
{
    tg_ms ttl = guarded->generation->config.gate.lease_ttl, ms = ttl > 2 ? ttl / 2 : 1;
    tg_ms due = guarded->call.deadline + GRACE_MS - guarded_now(guarded);

    if (guarded->call.deadline > 0 && due < ms)
        ms = due > 1 ? due : 1;
    net_timer_set(guarded->worker->loop, &guarded->timer, ms);
}

/* Neither client nor server has ended what is of no use to anybody any more. */
static void protect_give_up(struct guarded *guarded)
{
    struct refusal why;

    if (guarded->out != NULL)
        http_outbound_cancel_with(guarded->out, HTTP2_CANCEL);
    guarded->out = NULL;
    if (!guarded->replied) {
        refusal_init(&why, REPLY_UPSTREAM_TIMEOUT, "the upstream did not answer in time");
        guarded_refuse(guarded, &why, TG_OUTCOME_DROPPED);
        return;
    }
    guarded->state = GUARDED_OVER;
    guarded->reason = REPLY_UPSTREAM_TIMEOUT;
    guarded_release(guarded, TG_OUTCOME_DROPPED);
    protect_grpc_end(guarded->in, GRPC_DEADLINE_EXCEEDED, SLICE("the deadline has passed"));
}

static void protect_start(struct guarded *guarded)
{
    struct refusal why;

    guarded->state = GUARDED_PASSING;
    if (guarded->call.deadline > 0 && guarded_now(guarded) >= guarded->call.deadline) {
        refusal_init(&why, REPLY_UPSTREAM_TIMEOUT, "the deadline came before its turn");
        guarded_refuse(guarded, &why, TG_OUTCOME_REFUSED);
        return;
    }
    renew_later(guarded);
    if (!guarded_send(guarded)) {
        refusal_init(&why, REPLY_INTERNAL, "the request to the upstream could not be made");
        guarded_refuse(guarded, &why, TG_OUTCOME_REFUSED);
        return;
    }
    http_inbound_resume(guarded->in);
}

static void protect_note(struct guarded *guarded, const struct tg_answer *answer)
{
    guarded->notes.decided = answer->step == TG_DECIDED;
    report_notes_answer(&guarded->notes, guarded->gateway->protect_gate, &guarded->call, answer);
}

static void protect_answered(struct guarded *guarded, enum tg_err err,
                             const struct tg_answer *answer);

static void store_answered(struct remote_claim *debit, enum tg_err err,
                           const struct tg_answer *answer)
{
    struct guarded *guarded = container_of(debit, struct guarded, debit);

    protect_answered(guarded, err, answer);
}

static void protect_ask_store(struct guarded *guarded, const struct tg_answer *so_far)
{
    struct tg_answer answer = *so_far;
    enum tg_err err;

    if (remote_take_for_gate(guarded->worker->port, &guarded->debit, &guarded->generation->remote,
                             guarded->gateway->protect_gate, &guarded->call, store_answered, &err,
                             &answer))
        protect_answered(guarded, err, &answer);
}

static void protect_answered(struct guarded *guarded, enum tg_err err,
                             const struct tg_answer *answer)
{
    struct refusal why;
    tg_ms now = guarded_now(guarded);

    guarded->lease = err ? 0 : answer->lease;
    if (!err && answer->step == TG_NEEDS_STORE) {
        protect_ask_store(guarded, answer);
        return;
    }
    if (!err)
        protect_note(guarded, answer);
    if (err) {
        refusal_init(&why,
                     err == TG_ERR_STORE || err == TG_ERR_FULL ? REPLY_STORE_UNAVAILABLE
                                                               : REPLY_INTERNAL,
                     "%s", tg_strerror(err));
        guarded_refuse(guarded, &why, TG_OUTCOME_CANCELLED);
    } else if (answer->step == TG_WAITING) {
        report_notes_park(&guarded->notes);
        net_timer_set(guarded->worker->loop, &guarded->timer,
                      answer->deadline > now ? answer->deadline - now : 1);
    } else if (!answer->decision.allowed) {
        refusal_of_answer(answer, &guarded->call, &why);
        guarded_refuse(guarded, &why, TG_OUTCOME_CANCELLED);
    } else {
        protect_start(guarded);
    }
}

static void resume(struct guarded *guarded)
{
    struct tg_answer answer;

    net_timer_stop(guarded->worker->loop, &guarded->timer);
    report_notes_unpark(&guarded->notes);
    enum tg_err err = tg_gate_resume(guarded->gateway->protect_gate, guarded->lease, &guarded->call,
                                     guarded_now(guarded), &answer);
    protect_answered(guarded, err, &answer);
}

static void woken(void *arg)
{
    struct guarded *guarded = arg;

    if (guarded->state == GUARDED_WAITING && guarded->lease != 0 &&
        !remote_is_asking(&guarded->debit))
        resume(guarded);
}

static void protect_timer_fires(void *arg)
{
    struct guarded *guarded = arg;

    if (guarded->state == GUARDED_WAITING) {
        resume(guarded);
    } else if (guarded->state == GUARDED_PASSING && is_overdue(guarded, guarded_now(guarded))) {
        protect_give_up(guarded);
    } else if (guarded->state == GUARDED_PASSING && guarded->lease != 0) {
        tg_gate_renew(guarded->gateway->protect_gate, guarded->lease, guarded_now(guarded), 0);
        renew_later(guarded);
    }
}

/* ---- the client's side ---- */

/* The tenant, if the request has a virtual key of one; anything else it has is for its upstream. */
static const struct config_tenant *tenant_of(struct guarded *guarded)
{
    const struct http_head *head = &guarded->in->head;
    uint8_t hash[VIRTUAL_KEY_HASH];
    size_t tenant = CONFIG_NONE;
    struct slice key;

    if (virtual_key_find(head->fields, head->n_fields, &key) == VIRTUAL_KEY_FOUND &&
        virtual_key_hash(key, hash))
        tenant =
            generation_tenant_of_key(guarded->generation, hash, guarded->began_at, &guarded->key);
    return tenant != CONFIG_NONE ? &guarded->generation->config.tenants[tenant] : NULL;
}

/* Whose limits it clears, and whom fairness counts. */
static enum tg_err describe(struct guarded *guarded, struct tg_problem *problem)
{
    const struct http_head *head = &guarded->in->head;
    const struct config_tenant *tenant = tenant_of(guarded);
    enum tg_priority priority = protect_priority(guarded->route, head->method, head->target);
    struct slice node = {NULL, 0}, name = slice_of(guarded->address);

    if (guarded->trusted) {
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
                                   .peer = peer.at,
                                   .peer_bytes = peer.n,
                                   .priority = priority};
    tg_call_init(&guarded->call);
    guarded->call.waiter = &guarded->waiter;
    enum tg_err err =
        scopes_fill(guarded->generation->scopes, &who, guarded->scopes, &guarded->call, problem);
    if (guarded->grpc)
        guarded->call.deadline = protect_grpc_deadline(head, guarded->began_at);
    remote_divide_peer(guarded->gateway->remote, &guarded->generation->config.gate, &guarded->call);
    return err;
}

static struct guarded *guarded_new(struct worker *worker, const struct protected_route *route,
                                   struct http_inbound *in)
{
    struct guarded *guarded = calloc(1, sizeof *guarded);
    const struct sockaddr *peer = http_inbound_peer(in);

    if (guarded == NULL)
        return NULL;
    guarded->ops = &guarded_ops;
    guarded->worker = worker;
    guarded->gateway = worker->gateway;
    guarded->generation = worker->generation;
    generation_hold(guarded->generation, worker->number);
    guarded->route = route;
    guarded->in = in;
    guarded->grpc = protect_is_grpc(&in->head);
    in->patient = guarded->grpc; /* a conversation takes as long as it takes */
    guarded->trusted = trust_covers(&guarded->generation->config, peer);
    guarded->began_at = worker_now(worker);
    guarded->id = random_bits(&worker->random);
    guarded->reason = REPLY_COUNT;
    report_notes_begin(&guarded->notes, worker, &in->head);
    report_notes_path(&guarded->notes, &in->head);
    report_notes_ready(&guarded->notes);
    address_text(peer, guarded->address);
    waiter_init(&guarded->waiter, worker->loop, woken, guarded);
    net_timer_init(&guarded->timer, protect_timer_fires, guarded);
    in->owner = guarded;
    atomic_fetch_add_explicit(&guarded->gateway->counts.open, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&guarded->gateway->counts.calls, 1, memory_order_relaxed);
    return guarded;
}

void protect_begin(struct worker *worker, const struct protected_route *route,
                   struct http_inbound *in)
{
    struct guarded *guarded = guarded_new(worker, route, in);
    struct tg_problem problem;
    struct tg_answer answer;
    struct refusal why;

    if (guarded == NULL) {
        http_inbound_abort(in);
        return;
    }
    http_inbound_pause(in);
    if (atomic_load_explicit(&worker->gateway->draining, memory_order_relaxed)) {
        refusal_init(&why, REPLY_SHUTTING_DOWN, NULL);
        guarded_refuse(guarded, &why, TG_OUTCOME_CANCELLED);
    } else if (describe(guarded, &problem)) {
        refusal_init(&why, REPLY_INTERNAL, "%s", problem.text);
        guarded_refuse(guarded, &why, TG_OUTCOME_CANCELLED);
    } else {
        /* Memory and peers are asked here, too: there is no body to be read between the two. */
        enum tg_err err = tg_gate_admit(worker->gateway->protect_gate, &guarded->call, 0,
                                        guarded->began_at, &answer);
        protect_answered(guarded, err, &answer);
    }
}

static void in_data(struct http_inbound *in, struct slice bytes)
{
    struct guarded *guarded = in->owner;

    if (guarded->out == NULL)
        return; /* the upstream has answered without waiting for all of it */
    guarded->wrote = true;
    if (http_outbound_write(guarded->out, bytes) > GUARDED_QUEUED_MAX && !guarded->in_paused) {
        guarded->in_paused = true;
        http_inbound_pause(in);
    }
}

static void in_end(struct http_inbound *in)
{
    struct guarded *guarded = in->owner;

    if (guarded->out == NULL || in->head.length == 0)
        return;
    guarded->ended = true;
    http_outbound_finish_with(guarded->out, in->trailers, in->n_trailers);
}

static void in_room(struct http_inbound *in)
{
    struct guarded *guarded = in->owner;

    if (guarded->out == NULL || !guarded->out_paused)
        return;
    guarded->out_paused = false;
    http_outbound_resume(guarded->out);
}

static void in_gone(struct http_inbound *in, enum http_why why)
{
    struct guarded *guarded = in->owner;
    struct gateway *gateway = guarded->gateway;

    if (guarded->state != GUARDED_OVER && why != HTTP_DONE)
        atomic_fetch_add_explicit(&gateway->counts.hangups, 1, memory_order_relaxed);
    if (guarded->out != NULL)
        http_outbound_cancel_with(guarded->out, in->reset_code);
    guarded_release(guarded, TG_OUTCOME_CANCELLED);
    waiter_forget(&guarded->waiter);
    guarded_report(guarded, why);
    atomic_fetch_sub_explicit(&gateway->counts.open, 1, memory_order_relaxed);
    in->owner = NULL;
    generation_drop(guarded->generation, guarded->worker->number);
    free(guarded);
}

const struct exchange_ops *protect_ops(const struct http_inbound *in)
{
    const struct guarded *guarded = in->owner;

    return guarded != NULL && guarded->ops == &guarded_ops ? &guarded_ops : NULL;
}

static const struct exchange_ops guarded_ops = {
    .data = in_data, .end = in_end, .room = in_room, .gone = in_gone};
