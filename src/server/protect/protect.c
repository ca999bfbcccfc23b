/* protect.c - the step function of a call to a protected route: see protect_internal.h.
 *
 * The body is not read before a slot is granted: the request is paused from its head on, also so
 * that `100 Continue` is not sent to a client that is then refused. Once admitted, bodies stream
 * both ways and are kept nowhere: whichever side is slower stops the other.
 */
#include <stdlib.h>

#include "server/protect/protect_grpc.h"
#include "server/protect/protect_internal.h"
#include "server/tenancy/trust.h"

static bool is_admitted(enum protect_state state)
{
    return state == PROTECT_FORWARDING || state == PROTECT_REPLYING;
}

/* What holds between two events. */
static void check_call(const struct protected_call *call)
{
    enum admission_state run = own_slot_state(&call->own, &call->run);

    assert((call->out != NULL) == is_admitted(call->state));
    assert((call->state == PROTECT_ADMITTING) ==
           (run == ADMISSION_WAITING || run == ADMISSION_ASKING));
    assert(is_admitted(call->state) == (run == ADMISSION_ADMITTED));
    assert(call->state != PROTECT_OVER ||
           (call->own.run.lease == 0 && call->run.lease == 0 && !call->run.is_charged));
    assert((call->first_at > 0) == (call->state == PROTECT_REPLYING) ||
           call->state == PROTECT_OVER);
    assert(call->in->owner == call && call->generation != NULL);
    (void)call, (void)run;
}

/* The client is gone, and with it the call. */
static void end_call(struct protected_call *call, enum http_why why)
{
    struct gateway *gateway = call->gateway;

    if (call->state != PROTECT_OVER && why != HTTP_DONE)
        atomic_fetch_add_explicit(&gateway->counts.hangups, 1, memory_order_relaxed);
    if (call->out != NULL)
        call->env->cancel(call->out, call->in->reset_code);
    protect_release(call, TG_OUTCOME_CANCELLED);
    protect_report(call, why);
    atomic_fetch_sub_explicit(&gateway->counts.open, 1, memory_order_relaxed);
    call->in->owner = NULL;
    generation_unref(call->generation, call->worker->number);
    record_trail_fini(&call->trail);
    free(call);
}

void protect_step(struct protected_call *call, const struct protect_event *event)
{
    enum protect_state was = call->state, next = was;
    struct http_inbound *in = call->in;

    check_call(call);
    switch (event->kind) {
    case PROTECT_BEGIN:
        assert(was == PROTECT_NEW);
        http_inbound_pause(in);
        next = protect_admit(call);
        break;
    case PROTECT_WAKE:
        assert(was == PROTECT_ADMITTING &&
               own_slot_state(&call->own, &call->run) == ADMISSION_WAITING);
        next = protect_wake(call);
        break;
    case PROTECT_STORE_ANSWER:
        assert(was == PROTECT_ADMITTING && call->run.state == ADMISSION_ASKING);
        next = protect_store_answered(call, event->err, event->axes);
        break;
    case PROTECT_TIMER:
        assert(is_admitted(was));
        next = protect_renew(call);
        break;

    case PROTECT_CLIENT_DATA:
        assert(is_admitted(was) || was == PROTECT_OVER);
        if (was == PROTECT_OVER)
            break; /* the upstream has answered without waiting for all of it */
        call->wrote = true;
        if (call->env->write(call->out, event->bytes) > PROTECT_QUEUED_MAX && !call->in_paused) {
            call->in_paused = true;
            http_inbound_pause(in);
        }
        break;
    case PROTECT_CLIENT_END:
        assert(is_admitted(was) || was == PROTECT_OVER);
        if (was == PROTECT_OVER || in->head.length == 0)
            break; /* http_send() has ended a request that has no body */
        call->ended = true;
        call->env->finish(call->out, in->trailers, in->n_trailers);
        break;
    case PROTECT_CLIENT_ROOM:
        assert(was == PROTECT_REPLYING || was == PROTECT_OVER);
        if (was == PROTECT_OVER || !call->out_paused)
            break;
        call->out_paused = false;
        call->env->resume(call->out);
        break;
    case PROTECT_CLIENT_GONE:
        assert(was != PROTECT_NEW);
        end_call(call, event->why);
        return;

    case PROTECT_UPSTREAM_HEAD:
        assert(was == PROTECT_FORWARDING);
        next = protect_upstream_head(call, event->head);
        break;
    case PROTECT_UPSTREAM_DATA:
        assert(was == PROTECT_REPLYING);
        call->bytes_out += (int64_t)event->bytes.n;
        if (http_inbound_write(in, event->bytes) > PROTECT_QUEUED_MAX && !call->out_paused) {
            call->out_paused = call->slowed = true;
            call->env->pause(call->out);
        }
        break;
    case PROTECT_UPSTREAM_END:
        assert(was == PROTECT_REPLYING);
        next = protect_upstream_end(call);
        break;
    case PROTECT_UPSTREAM_ROOM:
        assert(is_admitted(was));
        if (!call->in_paused)
            break;
        call->in_paused = false;
        http_inbound_resume(in);
        break;
    case PROTECT_UPSTREAM_FAILED:
        assert(is_admitted(was));
        next = protect_upstream_failed(call, event->why);
        break;
    case PROTECT_EVENT_COUNT:
        assert(false && "an event");
        break;
    }
    assert(next >= was); /* no call goes back */
    call->state = next;
    check_call(call);
}

/* ---- where events come from ---- */

static void waiter_woken(void *arg)
{
    protect_step(arg, &(struct protect_event){.kind = PROTECT_WAKE});
}

/* The timer of the wait, and later that of the lease. */
static void timer_fired(void *arg)
{
    struct protected_call *call = arg;

    protect_step(call,
                 &(struct protect_event){.kind = call->state == PROTECT_ADMITTING ? PROTECT_WAKE
                                                                                  : PROTECT_TIMER});
}

struct protected_call *protect_call_new(struct worker *worker, const struct protected_route *route,
                                        struct http_inbound *in)
{
    struct protected_call *call = calloc(1, sizeof *call);
    const struct sockaddr *peer = http_inbound_peer(in);

    if (call == NULL)
        return NULL;
    call->service = &protect_service;
    call->env = &protect_env;
    call->worker = worker;
    call->gateway = worker->gateway;
    call->generation = worker->generation;
    generation_ref(call->generation, worker->number);
    call->route = route;
    call->in = in;
    call->grpc = protect_is_grpc(&in->head);
    in->patient = call->grpc; /* a conversation takes as long as it takes */
    call->trusted = trust_covers(&call->generation->config, peer);
    call->began_at = worker_now(worker);
    call->id = random_bits(&worker->random);
    call->reason = REPLY_COUNT;
    report_notes_begin(&call->notes, worker, &in->head);
    report_notes_path(&call->notes, &in->head);
    report_notes_ready(&call->notes);
    address_text(peer, call->address);
    waiter_init(&call->waiter, worker->loop, waiter_woken, call);
    net_timer_init(&call->timer, timer_fired, call);
    in->owner = call;
    atomic_fetch_add_explicit(&call->gateway->counts.open, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&call->gateway->counts.calls, 1, memory_order_relaxed);
    return call;
}

static bool protect_begin(struct worker *worker, struct http_inbound *in)
{
    const struct protected_route *route = protect_find(worker->generation, in->head.target);

    if (route == NULL)
        return false;
    struct protected_call *call = protect_call_new(worker, route, in);
    if (call != NULL)
        protect_step(call, &(struct protect_event){.kind = PROTECT_BEGIN});
    else
        http_inbound_abort(in);
    return true;
}

static void client_data(struct http_inbound *in, struct slice bytes)
{
    protect_step(in->owner, &(struct protect_event){.kind = PROTECT_CLIENT_DATA, .bytes = bytes});
}

static void client_end(struct http_inbound *in)
{
    protect_step(in->owner, &(struct protect_event){.kind = PROTECT_CLIENT_END});
}

static void client_room(struct http_inbound *in)
{
    protect_step(in->owner, &(struct protect_event){.kind = PROTECT_CLIENT_ROOM});
}

static void client_gone(struct http_inbound *in, enum http_why why)
{
    protect_step(in->owner, &(struct protect_event){.kind = PROTECT_CLIENT_GONE, .why = why});
}

const struct service protect_service = {.name = "protect",
                                        .listeners = SERVICE_ON_GATEWAY | SERVICE_ON_GRPC,
                                        .begin = protect_begin,
                                        .data = client_data,
                                        .end = client_end,
                                        .room = client_room,
                                        .gone = client_gone};
