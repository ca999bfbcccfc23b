/* envoy_rls_take.c - a request of Envoy's rate limit service, decided by a store in this process.
 * See envoy_rls.h for what holds.
 *
 *     plan        which limit each descriptor has, by the rules, and what others replace
 *     decide      each in turn: charged if it fits. After the first that refuses the request, the
 *                 others are only looked at, but for meters
 *     give back   what a refused request had been charged
 *     reply       statuses in order, and the headers of the tightest
 */
#include "lib/core/num.h"
#include "server/envoy/envoy_rls_internal.h"

struct taking {
    struct tg_store *store;
    struct rls_work work;
};

enum deed { LOOK, TAKE, CHARGE, GIVE_BACK };

/* The one place that touches the store. LOOK and TAKE answer; CHARGE takes what does not fit. */
static enum tg_err act(const struct taking *taking, const struct rls_ask *ask, enum deed deed,
                       int64_t hits, struct tg_decision *answer)
{
    struct rls_key key;

    if (!rls_key_make(&key, taking->work.request->domain, ask))
        return TG_ERR_MEMORY;
    struct tg_scope scope = {ask->set, key.bytes, key.n};
    struct tg_debit debit = {.scopes = &scope, .n_scopes = 1, .cost = hits};
    enum tg_err err = TG_OK;
    switch (deed) {
    case LOOK:
        err = tg_store_peek(taking->store, &debit, taking->work.now, answer, NULL);
        break;
    case TAKE:
        err = tg_store_take(taking->store, &debit, taking->work.now, answer, NULL);
        break;
    case CHARGE:
        debit.cost = 0;
        err = tg_store_settle(taking->store, &debit, taking->work.now, taking->work.now, hits);
        break;
    case GIVE_BACK:
        err = tg_store_refund(taking->store, &debit, taking->work.now, taking->work.now);
        break;
    }
    rls_key_free(&key);
    return err;
}

/* Whether it would fit. Hits of 0 ask whether one would. */
static enum tg_err envoy_rls_take_look(const struct taking *taking, struct rls_ask *ask)
{
    int64_t hits = num_max(ask->hits, 1);
    struct tg_decision answer;
    enum tg_err err = act(taking, ask, LOOK, hits, &answer);

    if (err)
        return err;
    if (ask->limit == NULL)
        rls_hold_against(ask, hits, &answer);
    rls_note(ask, &answer, rls_left_now(&answer, hits), taking->work.now);
    return TG_OK;
}

/* A limit that was brought along takes first and looks then, so that two at once cannot both find
 * the last hit free. */
static enum tg_err take_brought(const struct taking *taking, struct rls_ask *ask)
{
    struct tg_decision answer;
    enum tg_err err = act(taking, ask, TAKE, ask->hits, &answer);

    if (err)
        return err;
    bool taken = answer.allowed;
    rls_hold_against(ask, ask->hits, &answer);
    bool crosses = rls_is_meter(ask) && answer.remaining > 0;
    rls_note(ask, &answer, !answer.allowed && crosses ? 0 : answer.remaining, taking->work.now);
    ask->charged = taken && (answer.allowed || crosses);
    if (taken && !ask->charged)
        return act(taking, ask, GIVE_BACK, ask->hits, NULL);
    return TG_OK;
}

static enum tg_err envoy_rls_take_take(const struct taking *taking, struct rls_ask *ask)
{
    struct tg_decision answer;
    enum tg_err err = act(taking, ask, TAKE, ask->hits, &answer);

    if (err)
        return err;
    rls_note(ask, &answer, answer.remaining, taking->work.now);
    ask->charged = answer.allowed;
    if (!answer.allowed && rls_is_meter(ask) && answer.remaining > 0) {
        err = act(taking, ask, CHARGE, ask->hits, NULL);
        ask->remaining = 0;
    }
    return err;
}

static enum tg_err envoy_rls_take_decide(const struct taking *taking, struct rls_ask *ask,
                                         bool refused)
{
    if (ask->set == 0) {
        rls_shut_out(ask);
        return TG_OK;
    }
    if (ask->hits == 0 || (refused && !rls_is_meter(ask)))
        return envoy_rls_take_look(taking, ask);
    return ask->limit == NULL ? take_brought(taking, ask) : envoy_rls_take_take(taking, ask);
}

static enum tg_err give_back(const struct taking *taking)
{
    enum tg_err err = TG_OK;

    for (size_t i = 0; i < taking->work.n && !err; i++) {
        struct rls_ask ask = taking->work.asks[i];
        if (ask.charged && !rls_is_meter(&ask))
            err = act(taking, &ask, GIVE_BACK, ask.hits, NULL);
    }
    return err;
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
        err = envoy_rls_take_decide(&taking, ask, refused);
        refused |= rls_refuses(&taking.work, ask);
    }
    /* What cannot be given back stays charged: the answer is no, or an error, either way. */
    if (err || refused)
        (void)give_back(&taking);
    if (err)
        (void)rls_fail(reply, ENVOY_RLS_UNAVAILABLE, "%s", tg_strerror(err));
    else
        rls_reply(&taking.work, refused, reply);
}
