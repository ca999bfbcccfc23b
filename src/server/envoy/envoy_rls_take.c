/* envoy_rls_take.c - a request of Envoy's rate limit service, decided by a store in this process.
 * See envoy_rls.h for what is promised.
 *
 *     plan        which limit each descriptor has, by the rules, and what others replace
 *     decide      each descriptor in turn: charged if it fits. After the first that refuses the
 *                 request, the others are only peeked at, except for meters
 *     refund      what a refused request was charged
 *     reply       statuses in order, and the headers of the tightest
 */
#include <assert.h>

#include "lib/core/num.h"
#include "server/envoy/envoy_rls_internal.h"

struct taking {
    struct tg_store *store;
    struct rls_work work;
};

enum store_op {
    STORE_PEEK,
    STORE_TAKE,
    STORE_CHARGE, /* charges hits that do not fit */
    STORE_REFUND,
};

/* The one place that touches the store. PEEK and TAKE answer. */
static enum tg_err use_store(const struct taking *taking, const struct rls_ask *ask,
                             enum store_op op, int64_t hits, struct tg_decision *answer)
{
    tg_ms now = taking->work.now;
    struct rls_key key;

    assert(ask->limited && ask->set != 0 && hits > 0);
    assert((answer != NULL) == (op == STORE_PEEK || op == STORE_TAKE));
    if (!rls_key_make(&key, taking->work.request->domain, ask))
        return TG_ERR_MEMORY;
    struct tg_scope scope = {.limits = ask->set, .key = key.bytes, .key_bytes = key.n};
    struct tg_debit debit = {.scopes = &scope, .n_scopes = 1, .cost = hits};
    enum tg_err err = TG_OK;
    switch (op) {
    case STORE_PEEK:
        err = tg_store_peek(taking->store, &debit, now, answer, NULL);
        break;
    case STORE_TAKE:
        err = tg_store_take(taking->store, &debit, now, answer, NULL);
        break;
    case STORE_CHARGE:
        debit.cost = 0;
        err = tg_store_settle(taking->store, &debit, now, now, hits);
        break;
    case STORE_REFUND:
        err = tg_store_refund(taking->store, &debit, now, now);
        break;
    }
    rls_key_free(&key);
    return err;
}

/* One descriptor. Hits of 0 ask whether one would fit. */
static enum tg_err decide_ask(const struct taking *taking, struct rls_ask *ask, bool refused)
{
    bool peeks = ask->hits == 0 || (refused && !rls_is_meter(ask)), brought = ask->limit == NULL;
    int64_t hits = num_max(ask->hits, 1);
    struct tg_decision answer;

    assert(!ask->charged);
    if (ask->set == 0) {
        rls_shut_out(ask);
        return TG_OK;
    }
    enum tg_err err = use_store(taking, ask, peeks ? STORE_PEEK : STORE_TAKE, hits, &answer);
    if (err)
        return err;
    /* A limit that was brought along is held against what its set has counted with these hits
     * taken, so that two requests at once cannot both find the last hit free. */
    bool taken = !peeks && answer.allowed;
    if (brought)
        rls_hold_against(ask, hits, &answer);
    if (peeks) {
        rls_note(ask, &answer, rls_left_now(&answer, hits), taking->work.now);
        return TG_OK;
    }
    /* What crosses the limit of a meter is charged whole, though it is refused. */
    bool crosses = !answer.allowed && rls_is_meter(ask) && answer.remaining > 0;
    rls_note(ask, &answer, crosses ? 0 : answer.remaining, taking->work.now);
    ask->charged = taken && (answer.allowed || crosses);
    if (taken && !ask->charged)
        return use_store(taking, ask, STORE_REFUND, hits, NULL);
    if (crosses && !taken && !brought)
        return use_store(taking, ask, STORE_CHARGE, hits, NULL);
    return TG_OK;
}

void envoy_rls_take(const struct envoy_rls *rls, struct tg_store *store,
                    const struct envoy_rls_request *request, tg_ms now,
                    struct envoy_rls_reply *reply)
{
    struct taking taking;
    bool refused = false;
    enum tg_err err = TG_OK;

    rls_reply_init(reply);
    if (!rls_is_sound(request, reply))
        return;
    taking.work.rls = rls;
    taking.store = store;
    taking.work.request = request;
    taking.work.now = now;
    rls_plan(&taking.work);
    for (size_t i = 0; i < taking.work.n && !err; i++) {
        struct rls_ask *ask = &taking.work.asks[i];
        if (!ask->limited)
            continue;
        err = decide_ask(&taking, ask, refused);
        refused |= rls_refuses(&taking.work, ask);
    }
    /* What cannot be refunded stays charged: the answer is no, or an error, either way. */
    for (size_t i = 0; i < taking.work.n && (err || refused); i++) {
        const struct rls_ask *ask = &taking.work.asks[i];
        if (ask->charged && !rls_is_meter(ask) &&
            use_store(&taking, ask, STORE_REFUND, ask->hits, NULL) != TG_OK)
            break;
    }
    if (err)
        (void)rls_fail(reply, ENVOY_RLS_UNAVAILABLE, "%s", tg_strerror(err));
    else
        rls_reply(&taking.work, refused, reply);
}
