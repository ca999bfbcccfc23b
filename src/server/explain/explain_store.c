/* explain_store.c - what gateways share: each worker asks as it would for a call. See explain.h.
 *
 *     control thread ---post---> worker: limits, budgets ---post---> control thread: the answer
 *
 * A worker has its own connection to Redis, its own blocks, and its own memory of what Redis said
 * last. So it is asked there, with a call's time limits, and `store_failure` decides there, too.
 * Budgets and keys of providers are shared by the workers: the first one asks for them.
 *
 * While the gateway drains, workers end one by one, and every call is refused: nobody is asked.
 */
#include <assert.h>
#include <stdlib.h>

#include "lib/core/container_of.h"
#include "server/explain/explain_internal.h"

/* ---- on a worker's thread ---- */

/* An answer has come: with the last one the visit goes home. */
static void visit_heard(struct explain_visit *visit)
{
    if (--visit->waiting > 0)
        return;
    LIST_REMOVE(visit, link);
    net_loop_post(visit->of->gateway->control, &visit->back);
}

static void limits_seen(struct remote_peek *peek, enum tg_err err, const struct tg_axes *axes)
{
    struct explain_question *question = container_of(peek, struct explain_question, peek);

    question->err = err;
    question->axes = *axes;
    visit_heard(question->visit);
}

static void money_seen(struct remote_reservation_peek *peek, enum tg_err err,
                       const struct tg_money_answer *answer)
{
    struct explain_visit *visit = container_of(peek, struct explain_visit, money);

    (void)answer; /* the budgets say it, one by one */
    visit->money_err = err;
    visit_heard(visit);
}

static void visit_limits(struct explain_visit *visit, size_t i)
{
    struct explain_question *question = &visit->questions[i];

    question->visit = visit;
    if (i > 0) {
        question->debit = explain_debit_of(visit->of, i - 1);
    } else {
        question->debit = visit->of->gate_call.debit;
        question->debit.cost = visit->of->expectation.charge;
    }
    if (remote_peek(visit->worker->port, &question->peek, &visit->of->generation->remote,
                    &question->debit, limits_seen, &question->err, &question->axes)) {
        question->known_here = true;
        visit_heard(visit);
    }
}

static void key_seen(struct remote_key_peek *peek, const struct tg_key_hold *hold)
{
    struct explain_key *key = container_of(peek, struct explain_key, peek);

    key->is_held = hold != NULL;
    if (hold != NULL)
        key->hold = *hold;
    visit_heard(key->visit);
}

static void visit_key(struct explain_visit *visit, struct explain_key *key)
{
    key->visit = visit;
    if (remote_key_peek(visit->worker->port, &key->peek, &visit->of->generation->remote,
                        &key->terms, &key->owner->asked_at, key_seen))
        visit_heard(visit);
}

static void visit_begin(void *arg)
{
    struct explain_visit *visit = arg;
    struct explanation *of = visit->of;
    size_t n = 1 + of->gate_call.debit.n_scopes;
    struct tg_money_answer answer;

    LIST_INSERT_HEAD(&visit->worker->explain->visits, visit, link);
    visit->waiting = n + visit->n_keys + 2; /* so that it does not go home from inside */
    for (size_t i = 0; i < n; i++)
        if (i > 0 || !explain_is_survey(of))
            visit_limits(visit, i);
        else
            visit_heard(visit);
    for (size_t i = 0; i < visit->n_keys; i++)
        visit_key(visit, &visit->keys[i]);
    if (visit != of->visits ||
        remote_reservation_peek(visit->worker->port, &visit->money, &of->generation->remote,
                                &of->money, money_seen, &visit->money_err, &answer))
        visit_heard(visit);
    visit_heard(visit);
}

void explain_stop_worker(struct explain_worker *worker)
{
    struct explain_visit *visit;

    while ((visit = LIST_FIRST(&worker->visits)) != NULL) {
        LIST_REMOVE(visit, link);
        for (size_t i = 0; i <= EXPLAIN_SCOPES_MAX; i++)
            remote_peek_end(&visit->questions[i].peek);
        remote_reservation_peek_end(&visit->money);
        for (size_t i = 0; i < visit->n_keys; i++)
            remote_key_peek_end(&visit->keys[i].peek);
    }
}

/* ---- on the control thread ---- */

/* Redis is asked for what each limit lacks beyond its blocks, and a debit has one cost: asked as a
 * whole it would be the largest lack of all. Where blocks decide in part, the scopes are asked one
 * by one, and what they say is combined. */
static void visit_conclude(struct explain_visit *visit)
{
    struct explain_question *whole = &visit->questions[0];

    if (whole->err != TG_OK || whole->known_here || whole->peek.mode != REMOTE_BLOCKS)
        return;
    whole->axes = (struct tg_axes){.present = 0};
    for (size_t i = 1; i <= visit->of->gate_call.debit.n_scopes; i++) {
        const struct explain_question *scope = &visit->questions[i];
        for (int axis = TG_AXIS_RATE; axis <= TG_AXIS_COST && scope->err == TG_OK; axis++) {
            struct tg_decision said = scope->axes.decision[axis];
            struct tg_limit_answer named = scope->axes.named[axis];
            if (!(scope->axes.present & 1u << axis))
                continue;
            named.scope = (uint8_t)(i - 1);
            if (whole->axes.present & 1u << axis)
                said = tg_decision_combine(whole->axes.decision[axis], said);
            if (!(whole->axes.present & 1u << axis) ||
                named.decision.retry_after_ms > whole->axes.named[axis].decision.retry_after_ms)
                whole->axes.named[axis] = named;
            whole->axes.decision[axis] = said;
            whole->axes.present |= 1u << axis;
        }
    }
}

/* All were asked one by one: who decided the least well has decided. */
static void visit_survey(struct explain_visit *visit)
{
    struct explain_question *whole = &visit->questions[0];

    for (size_t i = 1; i <= visit->of->gate_call.debit.n_scopes; i++)
        if (visit->questions[i].peek.mode > whole->peek.mode)
            whole->peek.mode = visit->questions[i].peek.mode;
}

static bool visit_admits(const struct explain_visit *visit)
{
    const struct explain_question *whole = &visit->questions[0];

    return whole->err == TG_OK && tg_axes_binding(&whole->axes) == TG_AXIS_NONE;
}

static void visit_comes_back(void *arg)
{
    struct explain_visit *visit = arg;
    struct explanation *of = visit->of;

    if (--of->away > 0)
        return;
    if (explain_is_survey(of))
        visit_survey(&of->visits[0]);
    for (size_t i = of->n_visits; i-- > 0 && !explain_is_survey(of);) {
        visit_conclude(&of->visits[i]);
        if (visit_admits(&of->visits[i])) {
            of->admitting++;
            of->chosen = i;
        }
    }
    explain_finish(of);
}

void explain_ask_store(struct explanation *of)
{
    const struct explainer *explainer = of->explainer;
    bool all = of->asked.worker == EXPLAIN_ALL_WORKERS;
    bool drains = atomic_load_explicit(&of->gateway->draining, memory_order_relaxed);

    if (of->gateway->remote == NULL || explainer->n_workers == 0 || drains) {
        explain_finish(of);
        return;
    }
    assert(all || of->asked.worker < explainer->n_workers);
    size_t n = all ? explainer->n_workers : 1;
    of->visits = calloc(n, sizeof *of->visits);
    if (of->visits == NULL) {
        explain_finish(of);
        return;
    }
    generation_ref(of->generation, explainer->thread);
    of->holds = true;
    of->n_visits = of->away = n;
    explain_keys_collect(of, &of->visits[0]);
    for (size_t i = 0; i < of->n_visits; i++) {
        struct explain_visit *visit = &of->visits[i];
        visit->of = of;
        visit->worker = &explainer->workers[all ? i : of->asked.worker];
        net_post_init(&visit->going, visit_begin, visit);
        net_post_init(&visit->back, visit_comes_back, visit);
        net_loop_post(visit->worker->loop, &visit->going);
    }
}
