/* proxy.c - the service for calls to models: its calls on a worker, and what clients tell them. */
#include "server/proxy/proxy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/proxy/call.h"

enum {
    SPARE_MAX = 256,
};

/* ---- the struct ---- */

/* One that ended, or a new one, with room for so many fields; null: no memory. */
static struct call *take_struct(struct proxy_worker *proxy, size_t n_seen)
{
    struct call *call = proxy->spare;

    if (call != NULL) {
        assert(call->state == CALL_FREED && proxy->n_spare > 0);
        proxy->spare = call->next_spare;
        proxy->n_spare--;
    }
    if (call == NULL || call->n_seen < n_seen) { /* a reload has made its rules name more */
        free(call);
        call = malloc(sizeof *call + n_seen * sizeof call->seen[0]);
        if (call != NULL)
            call->n_seen = n_seen;
    }
    return call;
}

struct call *call_new(struct worker *worker, struct http_inbound *in, const struct call_env *env)
{
    struct proxy_worker *proxy = worker->proxy;
    struct call *call = take_struct(proxy, worker->generation->config.watch->n_fields);

    if (call == NULL)
        return NULL;
    memset(call, 0, offsetof(struct call, ask.sizes));
    call->changes.n = 0;
    call->service = &proxy_service;
    call->env = env;
    call->worker = worker;
    call->gateway = worker->gateway;
    call->generation = worker->generation;
    generation_ref(call->generation, worker->number);
    call->in = in;
    call->tenant = call->model = CONFIG_NONE;
    call->began_at = call_now(call);
    call->id = random_bits(&worker->random);
    call->spent = -1;
    call->reason = REPLY_COUNT;
    report_notes_begin(&call->notes, worker, &in->head);
    net_timer_init(&call->timer, call_timer_fires, call);
    waiter_init(&call->waiter, worker->loop, call_woken, call);
    in->owner = call;
    LIST_INSERT_HEAD(&proxy->calls, call, among);
    atomic_fetch_add_explicit(&call->gateway->counts.open, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&call->gateway->counts.calls, 1, memory_order_relaxed);
    return call;
}

void call_free(struct call *call)
{
    struct worker *worker = call->worker;
    struct proxy_worker *proxy = worker->proxy;
    bool unsent = call->left_in >= CALL_AT_LIMITS && call->left_in <= CALL_BOUNDING;

    assert(call->in == NULL && call->attempt.out == NULL && !call->parse.out);
    /* A call that leaves while the remote store is asked, or a token fetched, before its first
     * attempt has had nothing: not even its rate stays charged. */
    call_release(call, unsent && call->attempts == 0 ? TG_OUTCOME_REFUSED : TG_OUTCOME_CANCELLED);
    call_report(call);
    assert(!net_timer_is_set(&call->timer));
    waiter_forget(&call->waiter);
    sse_fini(&call->sse);
    call_give_scan(call);
    LIST_REMOVE(call, among);
    atomic_fetch_sub_explicit(&call->gateway->counts.open, 1, memory_order_relaxed);
    if (call->key_generation)
        generation_unref(call->key_generation, worker->number);
    generation_unref(call->generation, worker->number);
    call_move(call, CALL_FREED);
    if (proxy->n_spare >= SPARE_MAX) {
        free(call);
        return;
    }
    call->next_spare = proxy->spare;
    proxy->spare = call;
    proxy->n_spare++;
}

void call_free_spares(struct proxy_worker *proxy)
{
    struct call *call;

    while ((call = proxy->spare) != NULL) {
        proxy->spare = call->next_spare;
        free(call);
    }
    proxy->n_spare = 0;
    call_free_scans(proxy);
}

/* ---- a request ---- */

static bool proxy_begin(struct worker *worker, struct http_inbound *in)
{
    struct call *call = call_new(worker, in, &call_env);

    if (call == NULL)
        http_inbound_abort(in);
    else
        call_step(call, CALL_ON_HEAD, NULL);
    return true;
}

static void proxy_data(struct http_inbound *in, struct slice bytes)
{
    call_step(in->owner, CALL_ON_BODY, &(struct call_input){.bytes = bytes});
}

static void proxy_end(struct http_inbound *in)
{
    call_step(in->owner, CALL_ON_BODY_END, NULL);
}

static void proxy_room(struct http_inbound *in)
{
    call_step(in->owner, CALL_ON_ROOM, NULL);
}

static void proxy_gone(struct http_inbound *in, enum http_why why)
{
    call_step(in->owner, CALL_ON_GONE, &(struct call_input){.why = why});
}

/* ---- a worker ---- */

static bool proxy_start(struct worker *worker, struct tg_problem *problem)
{
    worker->proxy = calloc(1, sizeof *worker->proxy);
    return worker->proxy != NULL || problem_fail(problem, "no memory for a worker");
}

/* A lease ends by itself when nobody renews it: not as long as its call is here. */
static void proxy_renew(struct worker *worker)
{
    struct call *call;

    LIST_FOREACH(call, &worker->proxy->calls, among)
        call_renew(call);
}

static void proxy_stop(struct worker *worker)
{
    struct proxy_worker *proxy = worker->proxy;

    /* Their clients have gone, and their replies were read on for the usage. */
    while (!LIST_EMPTY(&proxy->calls))
        call_step(LIST_FIRST(&proxy->calls), CALL_ON_WORKER_END, NULL);
    call_free_spares(proxy);
    free(proxy);
    worker->proxy = NULL;
}

const struct service proxy_service = {.name = "proxy",
                                      .listeners = SERVICE_ON_GATEWAY,
                                      .begin = proxy_begin,
                                      .data = proxy_data,
                                      .end = proxy_end,
                                      .room = proxy_room,
                                      .gone = proxy_gone,
                                      .start = proxy_start,
                                      .renew = proxy_renew,
                                      .stop = proxy_stop};
