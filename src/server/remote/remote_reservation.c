/* remote_reservation.c - money of a call, reserved in Redis against what all gateways have spent;
 * while Redis is down, as `store_failure.budget` says. */
#include <assert.h>
#include <string.h>

#include "server/remote/remote_internal.h"

static void note_enforced(void *context, const struct spending_account *account)
{
    bool *enforced = context;

    for (size_t i = 0; i < account->n_budgets; i++)
        *enforced |= account->budgets[i].mode == TG_ENFORCE;
}

/* Budgets that are all in shadow refuse nothing while Redis is away either: what would be closed
 * for them is open. */
static enum remote_mode way_away(const struct remote_port *port, const struct remote_terms *terms,
                                 const struct spending_call *call, tg_ms now)
{
    enum remote_mode way = remote_mode_of(terms->store->budget);
    bool enforced = false;

    if (way != REMOTE_CLOSED ||
        spending_peek(port->remote->spending, call, now, note_enforced, &enforced) != TG_OK)
        return way;
    return enforced ? REMOTE_CLOSED : REMOTE_OPEN;
}

/* What is spent is sent to Redis when it is back. */
static enum tg_err reserve_away(struct remote_reservation *money, struct tg_money_answer *answer)
{
    struct remote *remote = money->port->remote;
    tg_ms now = net_loop_now(money->port->loop);
    enum remote_mode way = way_away(money->port, money->terms, &money->call, now);

    memset(answer, 0, sizeof *answer);
    money->away = true;
    remote_count(remote, REMOTE_BUDGET, way);
    if (way == REMOTE_CLOSED)
        return TG_ERR_STORE;
    return remote_money_local(money->port->money, &money->call, remote_uses_blocks(money->terms),
                              way == REMOTE_OPEN, now, answer, &money->ticket);
}

static void remote_reservation_do_answered(void *context, enum tg_err err,
                                           const struct tg_money_answer *answer,
                                           struct remote_money_ticket *ticket)
{
    struct remote_reservation *money = context;
    struct tg_money_answer away;

    assert(money->ask != NULL && money->ticket == NULL);
    money->ask = NULL;
    money->ticket = ticket;
    if (err == TG_ERR_STORE) {
        err = reserve_away(money, &away);
        answer = &away;
    } else if (money->by != REMOTE_MONEY_BY_NOBODY) {
        remote_count(money->port->remote, REMOTE_BUDGET,
                     money->by == REMOTE_MONEY_BY_REDIS ? REMOTE_REDIS : REMOTE_BLOCKS);
    }
    money->decided(money, err, answer);
}

bool remote_reserve(struct remote_port *port, struct remote_reservation *money,
                    const struct remote_terms *terms, const struct spending_call *call,
                    void (*decided)(struct remote_reservation *money, enum tg_err err,
                                    const struct tg_money_answer *answer),
                    enum tg_err *err, struct tg_money_answer *answer)
{
    *money = (struct remote_reservation){
        .decided = decided, .port = port, .terms = terms, .call = *call};
    money->ask =
        remote_money_reserve(port->money, call, remote_uses_blocks(terms), net_loop_now(port->loop),
                             remote_reservation_do_answered, money);
    if (money->ask != NULL) {
        money->by = remote_money_by(money->ask);
        return false;
    }
    *err = reserve_away(money, answer);
    return true;
}

void remote_reservation_settle(struct remote_reservation *money, tg_micro spent)
{
    if (money->ask != NULL)
        remote_money_cancel(money->ask);
    money->ask = NULL;
    if (money->ticket != NULL)
        remote_money_settle(money->ticket, spent, net_loop_now(money->port->loop));
    money->ticket = NULL;
}

/* ---- looking ---- */

static enum tg_err reservation_peek_away(struct remote_reservation_peek *peek,
                                         struct tg_money_answer *answer)
{
    tg_ms now = net_loop_now(peek->port->loop);

    memset(answer, 0, sizeof *answer);
    peek->n = 0;
    peek->mode = way_away(peek->port, peek->terms, &peek->call, now);
    if (peek->mode == REMOTE_CLOSED)
        return TG_ERR_STORE;
    return remote_money_peek_local(peek->port->money, &peek->call, remote_uses_blocks(peek->terms),
                                   peek->mode == REMOTE_OPEN, now, answer, peek->views, &peek->n);
}

static void reservation_peek_answered(void *context, enum tg_err err,
                                      const struct tg_money_answer *answer,
                                      const struct remote_money_view *views, size_t n)
{
    struct remote_reservation_peek *peek = context;
    struct tg_money_answer away;

    assert(peek->ask != NULL && n <= REMOTE_MONEY_VIEWS);
    peek->ask = NULL;
    memcpy(peek->views, views, n * sizeof *views);
    peek->n = n;
    if (err == TG_ERR_STORE) {
        err = reservation_peek_away(peek, &away);
        answer = &away;
    }
    peek->seen(peek, err, answer);
}

bool remote_reservation_peek(struct remote_port *port, struct remote_reservation_peek *peek,
                             const struct remote_terms *terms, const struct spending_call *call,
                             void (*seen)(struct remote_reservation_peek *peek, enum tg_err err,
                                          const struct tg_money_answer *answer),
                             enum tg_err *err, struct tg_money_answer *answer)
{
    *peek = (struct remote_reservation_peek){
        .seen = seen, .port = port, .terms = terms, .call = *call, .mode = REMOTE_REDIS};
    peek->ask = remote_money_peek(port->money, call, remote_uses_blocks(terms),
                                  net_loop_now(port->loop), reservation_peek_answered, peek);
    if (peek->ask != NULL)
        return false;
    *err = reservation_peek_away(peek, answer);
    return true;
}

void remote_reservation_peek_end(struct remote_reservation_peek *peek)
{
    if (peek->ask != NULL)
        remote_money_cancel(peek->ask);
    peek->ask = NULL;
}
