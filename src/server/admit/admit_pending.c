/* admit_pending.c - a question that is on its way: where it lives, and what it has to keep.
 *
 *     stock --> asked --> decided ----------------------------------> stock
 *                  `----> kept, in a queue or at a store --> decided --^
 *                                                               `--> account --> closed --^
 *
 * Most are decided at once and come back before anybody else is asked: nothing is allocated then,
 * and nothing copied. One that waits is kept: its texts are copied, its generation is held.
 *
 * One whose cost was charged in a store that gateways share stays as an account until its lease has
 * ended, for only its worker, with its connection to that store, can settle it. The lease may be
 * ended by another: that one posts.
 */
#include <stdlib.h>
#include <string.h>

#include "server/admit/admit_internal.h"

static void close_account(void *arg)
{
    struct admit_pending *account = arg;

    remote_claim_settle(&account->debit, account->actual);
    admit_pending_put(account);
}

struct admit_pending *admit_pending_get(struct worker *worker)
{
    struct admit_pending *pending = worker->spare_pending;

    if (pending != NULL) {
        worker->spare_pending = pending->next;
        return pending;
    }
    pending = calloc(1, sizeof *pending);
    if (pending == NULL)
        return NULL;
    pending->worker = worker;
    waiter_init(&pending->waiter, worker->loop, admit_pending_woken, pending);
    net_timer_init(&pending->timer, admit_pending_woken, pending);
    net_post_init(&pending->closing, close_account, pending);
    return pending;
}

static void let_go(struct admit_pending *pending)
{
    struct worker *worker = pending->worker;

    net_timer_stop(worker->loop, &pending->timer);
    waiter_forget(&pending->waiter);
    remote_claim_settle(&pending->debit, -1);
    remote_peek_end(&pending->peek);
    generation_drop(pending->generation, worker->number);
    pending->generation = NULL;
}

void admit_pending_put(struct admit_pending *pending)
{
    struct worker *worker = pending->worker;

    if (pending->state == ADMIT_ACCOUNT) {
        *pending->from = pending->next;
        if (pending->next != NULL)
            pending->next->from = pending->from;
    }
    if (pending->generation != NULL)
        let_go(pending);
    pending->state = ADMIT_ASKED;
    pending->next = worker->spare_pending;
    worker->spare_pending = pending;
}

/* ---- keeping ---- */

static void admit_pending_keep_text(char room[ADMIT_NAME_MAX], struct slice *text)
{
    memcpy(room, text->at != NULL ? text->at : "", text->n);
    text->at = room;
}

/* The same call again, in other places. */
enum tg_err admit_pending_keep(struct admit_pending *pending)
{
    struct admit_question *question = &pending->question;
    struct worker *worker = pending->worker;
    struct tg_problem problem;

    if (pending->generation != NULL)
        return TG_OK;
    pending->generation = worker->generation;
    generation_hold(pending->generation, worker->number);
    admit_pending_keep_text(pending->texts[0], &question->ask.tenant);
    admit_pending_keep_text(pending->texts[1], &question->ask.peer);
    admit_pending_keep_text(pending->texts[2], &question->ask.model);
    admit_pending_keep_text(pending->texts[3], &question->ask.user);
    enum tg_err err = admit_describe(pending->generation, question, &problem);
    question->call.waiter = &pending->waiter;
    return err;
}

/* ---- accounts ---- */

void admit_account_open(struct admit_pending *account)
{
    struct worker *worker = account->worker;

    account->state = ADMIT_ACCOUNT;
    account->next = worker->accounts;
    account->from = &worker->accounts;
    if (account->next != NULL)
        account->next->from = &account->next;
    worker->accounts = account;
}

void admit_account_close(struct admit_pending *account, int64_t actual)
{
    account->actual = actual;
    net_loop_post(account->worker->loop, &account->closing);
}

void admit_worker_fini(struct worker *worker)
{
    struct admit_pending *next;

    while (worker->accounts != NULL) { /* whose leases end with the process */
        if (worker->loop != NULL)
            net_loop_unpost(worker->loop, &worker->accounts->closing);
        admit_pending_put(worker->accounts);
    }
    for (struct admit_pending *pending = worker->spare_pending; pending; pending = next) {
        next = pending->next;
        free(pending);
    }
    worker->spare_pending = NULL;
}
