/* admit_pending.c - a question that is on its way: where it lives, and what it has to keep.
 *
 * Most are decided at once and are back in the stock before anybody else asks: nothing is allocated
 * then, and nothing copied. One that waits is kept: its texts are copied, its generation is held.
 *
 * One whose cost was charged in a store that gateways share stays as an account until its lease has
 * ended, for only its worker, with its connection to that store, can settle it. Another thread may
 * end the lease: that one posts.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/admit/admit_internal.h"

static void account_closed(void *arg)
{
    struct admit_pending *account = arg;

    admit_step(account, &(struct admit_event){.kind = ADMIT_CLOSE, .actual = account->actual});
}

static void pending_woken(void *arg)
{
    admit_step(arg, &(struct admit_event){.kind = ADMIT_WAKE});
}

struct admit_pending *admit_pending_get(struct worker *worker)
{
    struct admit_pending *pending = LIST_FIRST(&worker->admit->spare);

    if (pending != NULL) {
        assert(pending->state == ADMIT_SPARE && pending->worker == worker);
        LIST_REMOVE(pending, list);
        return pending;
    }
    pending = calloc(1, sizeof *pending);
    if (pending == NULL)
        return NULL;
    pending->worker = worker;
    waiter_init(&pending->waiter, worker->loop, pending_woken, pending);
    net_timer_init(&pending->timer, pending_woken, pending);
    net_post_init(&pending->closing, account_closed, pending);
    return pending;
}

void admit_pending_put(struct admit_pending *pending)
{
    struct worker *worker = pending->worker;

    assert(pending->run.lease == 0 && pending->own.run.lease == 0 && !pending->run.is_charged);
    assert(!remote_is_asking(&pending->debit) && pending->peek.ask == NULL);
    assert(!pending->waiter.woken.queued && !pending->closing.queued);
    if (pending->generation != NULL)
        generation_unref(pending->generation, worker->number);
    pending->generation = NULL;
    record_trail_fini(&pending->trail);
    LIST_INSERT_HEAD(&worker->admit->spare, pending, list);
}

/* ---- keeping ---- */

static void admit_pending_keep_text(char room[ADMIT_NAME_MAX], struct slice *text)
{
    memcpy(room, text->at != NULL ? text->at : "", text->n);
    text->at = room;
}

enum tg_err admit_pending_keep(struct admit_pending *pending)
{
    struct admit_question *question = &pending->question;
    struct worker *worker = pending->worker;
    struct tg_problem problem;

    if (pending->generation != NULL)
        return TG_OK;
    pending->generation = worker->generation;
    generation_ref(pending->generation, worker->number);
    admit_pending_keep_text(pending->texts[0], &question->ask.tenant);
    admit_pending_keep_text(pending->texts[1], &question->ask.peer);
    admit_pending_keep_text(pending->texts[2], &question->ask.model);
    admit_pending_keep_text(pending->texts[3], &question->ask.user);
    /* The same call again, in other places. */
    enum tg_err err = admit_describe(pending->generation, question, &problem);
    question->call.waiter = &pending->waiter;
    return err;
}

/* ---- accounts ---- */

void admit_account_open(struct admit_pending *account)
{
    assert(account->run.is_charged && account->generation != NULL);
    LIST_INSERT_HEAD(&account->worker->admit->accounts, account, list);
}

void admit_account_close(struct admit_pending *account, int64_t actual)
{
    account->actual = actual;
    net_loop_post(account->worker->loop, &account->closing);
}

/* ---- a worker ---- */

bool admit_worker_start(struct worker *worker, struct tg_problem *problem)
{
    worker->admit = calloc(1, sizeof *worker->admit);
    if (worker->admit == NULL)
        return problem_fail(problem, "no memory for a worker");
    LIST_INIT(&worker->admit->accounts);
    LIST_INIT(&worker->admit->spare);
    return true;
}

void admit_worker_stop(struct worker *worker)
{
    struct admit_worker *admit = worker->admit;
    struct admit_pending *pending;

    /* Their leases end with the process. */
    while ((pending = LIST_FIRST(&admit->accounts)) != NULL) {
        net_loop_unpost(worker->loop, &pending->closing);
        admit_step(pending, &(struct admit_event){.kind = ADMIT_CLOSE, .actual = -1});
    }
    while ((pending = LIST_FIRST(&admit->spare)) != NULL) {
        LIST_REMOVE(pending, list);
        free(pending);
    }
    free(admit);
    worker->admit = NULL;
}
