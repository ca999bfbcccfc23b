/* envoy_rls_decide.c - the rate limit service on a worker: who may ask, and who counts. See
 * envoy_rls.h.
 *
 * Every transport comes through envoy_rls_decide(). With `store: memory` the gateway's own store
 * answers from inside. With Redis, where several gateways count together (remote.h), all
 * descriptors are asked at once, each in a script of its own, and the answer is made when the last
 * one has come; Redis has no look for this, so a hit is taken and given back:
 *
 *     asking --> (charging what crosses a limit) --> done
 *
 * A charge beyond a limit is a debit of nothing that is settled at its hits. How a question is
 * decided while Redis is away is `store_failure`'s to say.
 *
 * Everything belongs to the worker's thread.
 */
#include <stdlib.h>

#include "lib/core/num.h"
#include "server/envoy/envoy_rls_internal.h"
#include "server/remote/remote.h"
#include "server/runtime/worker.h"
#include "server/tenancy/callers.h"
#include "server/tenancy/virtual_key.h"

/* One descriptor that is asked elsewhere. */
struct remote_ask {
    struct remote_claim debit;
    struct envoy_rls_pending *pending;
    struct rls_ask *ask;
    struct tg_scope scope;
    struct tg_debit what;
    struct rls_key key;
    bool asked;   /* there is a key, and a debit that may have to be ended */
    bool crosses; /* it is to be charged though it is refused */
};

struct envoy_rls_pending {
    struct worker *worker;
    struct generation *generation; /* held */
    envoy_rls_done *done;
    void *context;
    size_t waiting; /* for so many answers, and for the end of asking */
    bool charging;  /* the second round */
    enum tg_err err;
    struct rls_work work;
    struct envoy_rls_reply reply;
    struct remote_ask asks[]; /* as many as descriptors */
};

static void envoy_rls_decide_end(struct envoy_rls_pending *pending)
{
    for (size_t i = 0; i < pending->work.n; i++)
        if (pending->asks[i].asked)
            rls_key_free(&pending->asks[i].key);
    generation_drop(pending->generation, pending->worker->number);
    free(pending);
}

/* ---- one descriptor ---- */

/* While Redis is away and `store_failure` says open, there is no decision but a yes. */
static struct tg_decision decision_of(const struct rls_ask *ask, const struct tg_axes *axes)
{
    if (axes->present & 1u << TG_AXIS_COST)
        return axes->decision[TG_AXIS_COST];
    return (struct tg_decision){.allowed = true, .limit = ask->ceiling, .remaining = ask->ceiling};
}

/* Of the first round: what was asked for, and perhaps taken. Hits of 0 have asked for one. */
static void hear(struct remote_ask *remote, const struct tg_axes *axes)
{
    struct rls_ask *ask = remote->ask;
    struct tg_decision answer = decision_of(ask, axes);
    int64_t hits = remote->what.cost;

    if (ask->limit == NULL && axes->present)
        rls_hold_against(ask, hits, &answer);
    remote->crosses = !answer.allowed && rls_is_meter(ask) && ask->hits > 0 && answer.remaining > 0;
    ask->charged = answer.allowed && ask->hits > 0;
    rls_note(ask, &answer,
             remote->crosses  ? 0
             : ask->hits == 0 ? rls_left_now(&answer, hits)
                              : answer.remaining,
             remote->pending->work.now);
}

static bool step(struct envoy_rls_pending *pending);

/* It refuses nothing, so it fails nothing either. */
static bool is_in_shadow(const struct remote_ask *remote)
{
    return remote->ask->shadow || remote->pending->work.rls->config->mode == CONFIG_SHADOW;
}

static void envoy_rls_decide_decided(struct remote_claim *debit, enum tg_err err,
                                     const struct tg_axes *axes)
{
    static const struct tg_axes open;
    struct remote_ask *remote = (struct remote_ask *)(void *)debit; /* its first member */
    struct envoy_rls_pending *pending = remote->pending;

    /* The second round has its answer already; what cannot be charged then is lost. */
    if (err && !pending->charging && !is_in_shadow(remote))
        pending->err = err;
    else if (!pending->charging)
        hear(remote, err ? &open : axes);
    pending->waiting--;
    (void)step(pending);
}

static void ask_remote(struct remote_ask *remote, int64_t hits)
{
    struct envoy_rls_pending *pending = remote->pending;
    struct tg_axes axes;
    enum tg_err err;

    remote->scope = (struct tg_scope){remote->ask->set, remote->key.bytes, remote->key.n};
    remote->what = (struct tg_debit){.scopes = &remote->scope, .n_scopes = 1, .cost = hits};
    pending->waiting++;
    if (remote_take(pending->worker->port, &remote->debit, &pending->generation->remote,
                    &remote->what, envoy_rls_decide_decided, &err, &axes))
        envoy_rls_decide_decided(&remote->debit, err, &axes);
}

static void envoy_rls_decide_begin(struct envoy_rls_pending *pending, size_t i)
{
    struct remote_ask *remote = &pending->asks[i];
    struct rls_ask *ask = &pending->work.asks[i];

    remote->pending = pending;
    remote->ask = ask;
    if (!ask->limited)
        return;
    if (ask->set == 0) {
        rls_shut_out(ask);
        return;
    }
    remote->asked = rls_key_make(&remote->key, pending->work.request->domain, ask);
    if (remote->asked)
        ask_remote(remote, num_max(ask->hits, 1));
    else
        pending->err = TG_ERR_MEMORY;
}

/* ---- all of them ---- */

/* What stays charged, and what does not. A meter's debit stays, also one that was taken beyond a
 * limit that was brought along. */
static void end_debits(struct envoy_rls_pending *pending, bool refused)
{
    for (size_t i = 0; i < pending->work.n; i++) {
        struct remote_ask *remote = &pending->asks[i];
        const struct rls_ask *ask = remote->ask;
        if (!remote->asked)
            continue;
        if (pending->err)
            remote_claim_refund(&remote->debit);
        else if (rls_is_meter(ask) ? ask->charged || remote->crosses : ask->charged && !refused)
            remote_claim_settle(&remote->debit, -1);
        else
            remote_claim_refund(&remote->debit);
    }
}

/* A meter whose debit a rule's limit refused, and which is to be charged. */
static bool is_beyond(const struct remote_ask *remote)
{
    return remote->crosses && remote->ask->limit != NULL;
}

static void charge_beyond(struct envoy_rls_pending *pending)
{
    pending->charging = true;
    if (pending->err)
        return;
    pending->waiting = 1; /* until all have been asked */
    for (size_t i = 0; i < pending->work.n; i++)
        if (is_beyond(&pending->asks[i]))
            ask_remote(&pending->asks[i], 0);
    pending->waiting--;
}

static void settle_beyond(struct envoy_rls_pending *pending)
{
    for (size_t i = 0; i < pending->work.n; i++)
        if (is_beyond(&pending->asks[i]))
            remote_claim_settle(&pending->asks[i].debit, pending->asks[i].ask->hits);
}

static bool is_refused(const struct envoy_rls_pending *pending)
{
    bool refused = false;

    for (size_t i = 0; i < pending->work.n; i++)
        refused |= rls_refuses(&pending->work, &pending->work.asks[i]);
    return refused;
}

static void envoy_rls_decide_finish(struct envoy_rls_pending *pending)
{
    if (pending->err)
        (void)rls_fail(&pending->reply, ENVOY_RLS_UNAVAILABLE, "%s", tg_strerror(pending->err));
    else
        rls_reply(&pending->work, is_refused(pending), &pending->reply);
    pending->done(pending->context, &pending->reply);
    envoy_rls_decide_end(pending);
}

/* The one function that moves a request on: whenever an answer has come. True: it has ended. */
static bool step(struct envoy_rls_pending *pending)
{
    if (pending->waiting == 0 && !pending->charging) {
        end_debits(pending, pending->err != TG_OK || is_refused(pending));
        charge_beyond(pending);
    }
    if (pending->waiting > 0)
        return false;
    if (!pending->err)
        settle_beyond(pending);
    envoy_rls_decide_finish(pending);
    return true;
}

static struct envoy_rls_pending *ask_elsewhere(struct worker *worker,
                                               const struct envoy_rls_request *request,
                                               envoy_rls_done *done, void *context)
{
    struct envoy_rls_pending *pending =
        calloc(1, sizeof *pending + request->n_descriptors * sizeof pending->asks[0]);

    if (pending == NULL)
        return NULL;
    pending->worker = worker;
    pending->generation = worker->generation;
    generation_hold(pending->generation, worker->number);
    pending->done = done;
    pending->context = context;
    pending->work.rls = pending->generation->envoy;
    pending->work.request = request;
    pending->work.now = worker_now(worker);
    rls_reply_init(&pending->reply);
    rls_plan(&pending->work);
    pending->waiting = 1; /* until all have been asked */
    for (size_t i = 0; i < pending->work.n; i++)
        envoy_rls_decide_begin(pending, i);
    return pending;
}

struct envoy_rls_pending *envoy_rls_decide(struct worker *worker,
                                           const struct envoy_rls_request *request,
                                           envoy_rls_done *done, void *context)
{
    struct envoy_rls_reply reply;

    rls_reply_init(&reply);
    if (worker->port == NULL) {
        envoy_rls_take(worker->generation->envoy, worker->gateway->store, request,
                       worker_now(worker), &reply);
    } else if (rls_is_sound(request, &reply)) {
        struct envoy_rls_pending *pending = ask_elsewhere(worker, request, done, context);
        if (pending != NULL) {
            pending->waiting--;
            return step(pending) ? NULL : pending;
        }
        (void)rls_fail(&reply, ENVOY_RLS_UNAVAILABLE, "%s", tg_strerror(TG_ERR_MEMORY));
    }
    done(context, &reply);
    return NULL;
}

void envoy_rls_cancel(struct envoy_rls_pending *pending)
{
    for (size_t i = 0; i < pending->work.n; i++)
        if (pending->asks[i].asked)
            remote_claim_refund(&pending->asks[i].debit);
    envoy_rls_decide_end(pending);
}

bool envoy_rls_may_ask(struct worker *worker, const struct http_head *head)
{
    const struct config *config = &worker->generation->config;
    uint8_t hash[VIRTUAL_KEY_HASH];
    struct slice token;

    return config->envoy.auth == 0 ||
           (virtual_key_find(head->fields, head->n_fields, &token) == VIRTUAL_KEY_FOUND &&
            virtual_key_hash(token, hash) && caller_find(config, hash) != NULL);
}
