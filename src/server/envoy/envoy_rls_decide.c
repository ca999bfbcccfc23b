/* envoy_rls_decide.c - the rate limit service on a worker: who may ask, and which store counts.
 *
 * Every transport comes through envoy_rls_decide(). With `store: memory` the gateway's own store
 * answers at once (envoy_rls_take.c). With Redis, where several gateways count together (remote.h),
 * every descriptor is an admission run without a gate. All are asked at once, each in a script of
 * its own, and the reply is made when the last one has answered. The remote store has no peek for
 * this, so a hit is taken and given back:
 *
 *                 the last answer                     the last answer
 *     RLS_TAKING -----------------> (RLS_CHARGING) -----------------> RLS_ANSWERED
 *          |                             |
 *          `-----------------------------+---- cancelled: everything is given back
 *
 * RLS_CHARGING charges meters beyond their limit, each by a debit of nothing that is settled at its
 * hits. How a question is decided while Redis is away is `store_failure`'s to say.
 *
 * Everything belongs to the worker's thread.
 */
#include <stdlib.h>

#include "lib/admission/admission_run.h"
#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "server/envoy/envoy_rls_internal.h"
#include "server/remote/remote.h"
#include "server/runtime/recorder.h"
#include "server/runtime/worker.h"
#include "server/tenancy/callers.h"
#include "server/tenancy/virtual_key.h"

/* A descriptor that the remote store decides. */
struct rls_debit {
    struct admission_run run; /* without a gate */
    struct remote_claim claim;
    struct envoy_rls_pending *pending;
    struct rls_ask *ask;
    struct tg_scope scope;
    struct tg_debit what;
    struct rls_key key;
    bool has_key; /* it has been asked, and its key has to be freed */
    bool crosses; /* it is charged though it is refused */
};

enum rls_state {
    RLS_TAKING,   /* every descriptor is asked for its hits */
    RLS_CHARGING, /* meters that cross their limit are charged */
    RLS_ANSWERED,
};

struct envoy_rls_pending {
    struct worker *worker;
    struct generation *generation; /* a reference is held */
    envoy_rls_done *done;
    void *context;
    enum rls_state state;
    size_t waiting; /* answers that have not come; and one, while descriptors are being asked */
    enum tg_err err;
    struct rls_work work;
    struct envoy_rls_reply reply;
    struct rls_debit debits[]; /* one for each descriptor */
};

/* ---- one descriptor ---- */

static struct rls_debit *debit_of_run(struct admission_run *run)
{
    return container_of(run, struct rls_debit, run);
}

/* The remote store admits without a decision while it is away and `store_failure` says open. */
static struct tg_decision decision_of(const struct rls_ask *ask, const struct tg_axes *axes)
{
    if (axes->present & 1u << TG_AXIS_COST)
        return axes->decision[TG_AXIS_COST];
    return (struct tg_decision){.allowed = true, .limit = ask->ceiling, .remaining = ask->ceiling};
}

/* The answer to a descriptor in RLS_TAKING: what was asked for, and perhaps taken. Hits of 0 have
 * asked for one. */
static void note_taking(struct rls_debit *debit, const struct tg_axes *axes)
{
    struct rls_ask *ask = debit->ask;
    struct tg_decision answer = decision_of(ask, axes);
    int64_t hits = debit->what.cost;

    if (ask->limit == NULL && axes->present)
        rls_hold_against(ask, hits, &answer);
    debit->crosses = !answer.allowed && rls_is_meter(ask) && ask->hits > 0 && answer.remaining > 0;
    ask->charged = answer.allowed && ask->hits > 0;
    rls_note(ask, &answer,
             debit->crosses   ? 0
             : ask->hits == 0 ? rls_left_now(&answer, hits)
                              : answer.remaining,
             debit->pending->work.now);
}

/* A descriptor in shadow refuses nothing, so it fails nothing either. */
static bool is_in_shadow(const struct rls_debit *debit)
{
    return debit->ask->shadow || debit->pending->work.rls->config->mode == CONFIG_SHADOW;
}

/* RLS_CHARGING has its answer already; what cannot be charged then is lost. */
static void debit_answered(struct rls_debit *debit, enum admission_state state,
                           const struct tg_answer *answer)
{
    static const struct tg_axes open;
    struct envoy_rls_pending *pending = debit->pending;
    bool failed = state == ADMISSION_FAILED;

    assert(state != ADMISSION_WAITING && state != ADMISSION_ASKING);
    assert(pending->waiting > 0 && pending->state != RLS_ANSWERED);
    pending->waiting--;
    if (pending->state == RLS_CHARGING)
        return;
    if (failed && !is_in_shadow(debit))
        pending->err = debit->run.err;
    else
        note_taking(debit, failed ? &open : &answer->axes);
}

static bool envoy_rls_step(struct envoy_rls_pending *pending);

static void store_decided(struct remote_claim *claim, enum tg_err err, const struct tg_axes *axes)
{
    struct rls_debit *debit = container_of(claim, struct rls_debit, claim);
    tg_ms now = worker_now(debit->pending->worker);
    struct tg_answer answer;

    debit_answered(debit, admission_run_store_answered(&debit->run, now, err, axes, &answer),
                   &answer);
    (void)envoy_rls_step(debit->pending);
}

static bool rls_ask_store(struct admission_run *run, tg_ms now, enum tg_err *err,
                          struct tg_axes *axes)
{
    struct rls_debit *debit = debit_of_run(run);
    struct envoy_rls_pending *pending = debit->pending;

    (void)now;
    /* A descriptor that is charged in vain, as another refuses its request, is to be free again for
     * whoever asks next, wherever: a block would keep it. */
    return remote_take(pending->worker->port, &debit->claim, &pending->generation->remote_strict,
                       &debit->what, store_decided, err, axes);
}

static void rls_settle(struct admission_run *run, tg_ms now, int64_t actual)
{
    (void)now;
    remote_claim_settle(&debit_of_run(run)->claim, actual);
}

static void rls_refund(struct admission_run *run, tg_ms now)
{
    (void)now;
    remote_claim_refund(&debit_of_run(run)->claim);
}

static const struct admission_ops rls_admission_ops = {
    .ask = rls_ask_store, .settle = rls_settle, .refund = rls_refund};

static void ask_debit(struct rls_debit *debit, int64_t hits)
{
    struct envoy_rls_pending *pending = debit->pending;
    struct tg_answer answer;

    debit->what.cost = hits;
    pending->waiting++;
    enum admission_state state = admission_run_admit(&debit->run, pending->work.now, &answer);
    if (state != ADMISSION_ASKING)
        debit_answered(debit, state, &answer);
}

/* `actual` negative: its hits. */
static void end_debit(struct rls_debit *debit, enum tg_outcome outcome, int64_t actual)
{
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = outcome;
    release.actual = actual;
    admission_run_end(&debit->run, worker_now(debit->pending->worker), &release);
}

static void begin_debit(struct envoy_rls_pending *pending, size_t i)
{
    struct rls_debit *debit = &pending->debits[i];
    struct rls_ask *ask = &pending->work.asks[i];

    debit->pending = pending;
    debit->ask = ask;
    admission_run_init(&debit->run, NULL, NULL, &rls_admission_ops);
    if (!ask->limited)
        return;
    if (ask->set == 0) {
        rls_shut_out(ask);
        return;
    }
    debit->has_key = rls_key_make(&debit->key, pending->work.request->domain, ask);
    if (!debit->has_key) {
        pending->err = TG_ERR_MEMORY;
        return;
    }
    debit->scope =
        (struct tg_scope){.limits = ask->set, .key = debit->key.bytes, .key_bytes = debit->key.n};
    debit->what = (struct tg_debit){.scopes = &debit->scope, .n_scopes = 1};
    ask_debit(debit, num_max(ask->hits, 1));
}

/* ---- all of them ---- */

static bool is_refused(const struct envoy_rls_pending *pending)
{
    bool refused = false;

    for (size_t i = 0; i < pending->work.n; i++)
        refused |= rls_refuses(&pending->work, &pending->work.asks[i]);
    return refused;
}

/* What stays charged, and what does not. A meter's debit stays, also one that was taken beyond a
 * limit that was brought along. */
static void end_taking(struct envoy_rls_pending *pending)
{
    bool refused = pending->err || is_refused(pending);

    for (size_t i = 0; i < pending->work.n; i++) {
        struct rls_debit *debit = &pending->debits[i];
        const struct rls_ask *ask = debit->ask;
        bool stays = !pending->err && (rls_is_meter(ask) ? ask->charged || debit->crosses
                                                         : ask->charged && !refused);
        end_debit(debit, stays ? TG_OUTCOME_OK : TG_OUTCOME_REFUSED, -1);
    }
}

/* A meter whose debit a rule's limit refused, and which is to be charged. */
static bool is_beyond(const struct rls_debit *debit)
{
    return debit->crosses && debit->ask->limit != NULL;
}

static void free_pending(struct envoy_rls_pending *pending)
{
    for (size_t i = 0; i < pending->work.n; i++) {
        assert(pending->debits[i].run.state == ADMISSION_IDLE);
        if (pending->debits[i].has_key)
            rls_key_free(&pending->debits[i].key);
    }
    generation_unref(pending->generation, pending->worker->number);
    free(pending);
}

/* The one function that moves a request: whenever an answer has come. True: it has been answered,
 * and is freed. */
static bool envoy_rls_step(struct envoy_rls_pending *pending)
{
    if (pending->waiting == 0 && pending->state == RLS_TAKING) {
        end_taking(pending);
        pending->state = RLS_CHARGING;
        pending->waiting = 1; /* until all have been asked */
        for (size_t i = 0; i < pending->work.n && !pending->err; i++)
            if (is_beyond(&pending->debits[i]))
                ask_debit(&pending->debits[i], 0);
        pending->waiting--;
    }
    if (pending->waiting > 0)
        return false;
    assert(pending->state == RLS_CHARGING);
    for (size_t i = 0; i < pending->work.n; i++)
        end_debit(&pending->debits[i], TG_OUTCOME_OK, pending->debits[i].ask->hits);
    if (pending->err)
        (void)rls_fail(&pending->reply, ENVOY_RLS_UNAVAILABLE, "%s", tg_strerror(pending->err));
    else
        rls_reply(&pending->work, is_refused(pending), &pending->reply);
    pending->state = RLS_ANSWERED;
    pending->done(pending->context, &pending->reply);
    free_pending(pending);
    return true;
}

static struct envoy_rls_pending *pending_new(struct worker *worker,
                                             const struct envoy_rls_request *request,
                                             envoy_rls_done *done, void *context)
{
    struct envoy_rls_pending *pending =
        calloc(1, sizeof *pending + request->n_descriptors * sizeof pending->debits[0]);

    if (pending == NULL)
        return NULL;
    pending->worker = worker;
    pending->generation = worker->generation;
    generation_ref(pending->generation, worker->number);
    pending->done = done;
    pending->context = context;
    pending->work.rls = pending->generation->envoy;
    pending->work.request = request;
    pending->work.now = worker_now(worker);
    rls_reply_init(&pending->reply);
    rls_plan(&pending->work);
    pending->waiting = 1; /* until all have been asked */
    for (size_t i = 0; i < pending->work.n; i++)
        begin_debit(pending, i);
    return pending;
}

struct envoy_rls_pending *envoy_rls_decide(struct worker *worker,
                                           const struct envoy_rls_request *request,
                                           envoy_rls_done *done, void *context)
{
    struct recorder *recorder = worker->gateway->recorder;
    struct envoy_rls_reply reply;

    rls_reply_init(&reply);
    if (recorder != NULL)
        atomic_fetch_add_explicit(&recorder->unrecorded, 1, memory_order_relaxed);
    if (worker->port == NULL) {
        envoy_rls_take(worker->generation->envoy, worker->gateway->store, request,
                       worker_now(worker), &reply);
    } else if (rls_is_sound(request, &reply)) {
        struct envoy_rls_pending *pending = pending_new(worker, request, done, context);
        if (pending != NULL) {
            pending->waiting--;
            return envoy_rls_step(pending) ? NULL : pending;
        }
        (void)rls_fail(&reply, ENVOY_RLS_UNAVAILABLE, "%s", tg_strerror(TG_ERR_MEMORY));
    }
    done(context, &reply);
    return NULL;
}

void envoy_rls_cancel(struct envoy_rls_pending *pending)
{
    assert(pending->state != RLS_ANSWERED && pending->waiting > 0);
    for (size_t i = 0; i < pending->work.n; i++)
        end_debit(&pending->debits[i], TG_OUTCOME_REFUSED, -1);
    free_pending(pending);
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
