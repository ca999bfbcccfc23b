/* remote_money_call.c - a call's reservation and settlement, step by step.
 *
 * The states are drawn in remote_money_internal.h. Budgets of everyone are asked first, for they
 * are decided here; what they give is held while the script decides the rest, and falls to what
 * that reserves. A refusal by everyone's that is only contended still asks the script, which then
 * reserves nothing: if something below is spent, a retry is not worth it.
 *
 * Nobody waits longer than the time limit, blocks and script together. What is decided after that
 * is an orphan's: a yes, or an answer that was lost on the way, ends as a settlement of 0 does.
 * Notes of an end that do not arrive are sent again until they do: as many as calls were in flight.
 * While one is on its way, the ends of other calls with the same windows wait for the next: so the
 * more calls there are, and the longer the way, the fewer notes for each.
 */
#include <assert.h>
#include <stdlib.h>

#include "lib/core/container_of.h"
#include "server/remote_store/remote_money_internal.h"

enum {
    NOTE_TOGETHER = 64, /* ends in one note */
    NOTE_SCAN = 256,    /* claims that are searched for those */
};

static void remote_money_call_count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- The end ---- */

/* Whether one note can say of both that they have ended. */
static bool is_noted_with(const struct remote_money_ticket *a, const struct remote_money_ticket *b)
{
    if (a->n_windows != b->n_windows || a->block_windows != b->block_windows)
        return false;
    for (size_t i = a->block_windows; i < a->n_windows; i++)
        if (a->windows[i].sum != b->windows[i].sum)
            return false;
    return true;
}

/* One that has ended like this one, and whose note is on its way, or is not; or null. Those that
 * are on their way stand first. */
static struct remote_money_ticket *other_ending(const struct remote_money_ticket *claim,
                                                bool in_flight)
{
    struct remote_money_ticket *each;
    size_t seen = 0;

    TAILQ_FOREACH(each, &claim->port->lists[MONEY_CLAIM_ENDING].claims, list) {
        if (seen++ == NOTE_SCAN)
            break;
        if (each != claim && each->in_flight == in_flight && is_noted_with(claim, each))
            return each;
    }
    return NULL;
}

static void end_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct remote_money_ticket *claim = container_of(ask, struct remote_money_ticket, ask), *each;
    bool fine = money_claim_read_note(claim, reply);
    struct remote_money_ticket *waits = fine ? other_ending(claim, false) : NULL;

    assert(claim->state == MONEY_CLAIM_ENDING);
    while ((each = claim) != NULL) {
        claim = each->together;
        each->together = NULL;
        each->in_flight = false;
        /* Otherwise it stays in its list, and the port's timer comes to it. */
        if (fine)
            money_claim_free(each);
    }
    if (waits)
        money_claim_end(waits);
}

void money_claim_end(struct remote_money_ticket *claim)
{
    struct remote_money_ticket *last = claim, *each;
    size_t seen = 0, n = 1;

    assert(!claim->in_flight && claim->together == NULL);
    if (other_ending(claim, true) != NULL)
        return; /* the answer to that takes it along */
    TAILQ_FOREACH(each, &claim->port->lists[MONEY_CLAIM_ENDING].claims, list) {
        if (seen++ == NOTE_SCAN || n == NOTE_TOGETHER)
            break;
        if (each == claim || each->in_flight || !is_noted_with(claim, each))
            continue;
        each->in_flight = true;
        last = last->together = each;
        n++;
    }
    money_claim_send_note(claim, -1, end_answered);
}

/* It is nobody's any more: what it may have in Redis is given back, what it settled is told. */
static void retire(struct remote_money_ticket *claim)
{
    struct remote_money *money = claim->port->money;

    pthread_mutex_lock(&money->lock);
    money_blocks_leave(money, claim);
    money_claim_hold(claim, 0, 0);
    pthread_mutex_unlock(&money->lock);
    if (!claim->remote || !money_claim_has_root(claim)) {
        money_claim_free(claim);
        return;
    }
    money_claim_move(claim, MONEY_CLAIM_ENDING);
    if (!claim->in_flight)
        money_claim_end(claim);
}

void money_claim_discard(struct remote_money_ticket *claim)
{
    struct remote_money *money = claim->port->money;

    pthread_mutex_lock(&money->lock);
    money_blocks_leave(money, claim);
    pthread_mutex_unlock(&money->lock);
    money_claim_free(claim);
}

/* ---- Being decided ---- */

/* What is used of each budget. The block of this process is not what others use: a call would take
 * of it. The lock is held. */
static void states_of(const struct remote_money_ticket *claim, struct rule_state *states)
{
    money_blocks_states(claim, states);
    for (size_t i = claim->block_budgets; i < claim->n_budgets; i++) {
        const struct sum *sum = claim->windows[claim->budgets[i].window].sum;
        states[i] = (struct rule_state){sum->settled, sum->outstanding};
        if (claim->blocks)
            states[i].outstanding =
                num_less(sum->outstanding, num_less(sum->block.e, sum->block.held));
    }
}

/* The budgets of a claim and what is used of each. The lock is held. */
static size_t views_of(const struct remote_money_ticket *claim, struct remote_money_view *views)
{
    struct rule_state states[MONEY_WINDOWS_MAX];

    states_of(claim, states);
    for (size_t i = 0; i < claim->n_budgets; i++) {
        const struct claim_budget *budget = &claim->budgets[i];
        views[i] =
            (struct remote_money_view){.account = budget->account,
                                       .per = (enum tg_per)budget->per,
                                       .amount = budget->amount,
                                       .settled = states[i].settled,
                                       .used = num_add(states[i].settled, states[i].outstanding)};
    }
    return claim->n_budgets;
}

/* The same for a claim that only looks. */
static void remote_money_call_tell(struct remote_money_ticket *claim, enum tg_err err)
{
    struct remote_money_view views[REMOTE_MONEY_VIEWS];
    struct tg_money_answer answer = claim->answer;
    remote_money_seen *seen = claim->seen;
    void *context = claim->context;

    pthread_mutex_lock(&claim->port->money->lock);
    size_t n = views_of(claim, views);
    pthread_mutex_unlock(&claim->port->money->lock);
    if (claim->state != MONEY_CLAIM_ORPHAN)
        retire(claim);
    seen(context, err, &answer, views, n);
}

/* The last step of asking: the caller is told, and has a ticket or nothing. */
static void remote_money_call_decide(struct remote_money_ticket *claim, enum tg_err err)
{
    remote_money_decided *decided = claim->decided;
    struct tg_money_answer answer = claim->answer;
    void *context = claim->context;
    bool yes = !err && answer.reservation != 0;

    assert(claim->state != MONEY_CLAIM_HELD && claim->state != MONEY_CLAIM_ENDING);
    net_timer_stop(claim->port->loop, &claim->timer);
    if (claim->seen != NULL) {
        remote_money_call_tell(claim, err);
        return;
    }
    if (yes) {
        money_claim_move(claim, MONEY_CLAIM_HELD);
        atomic_fetch_add_explicit(&claim->port->money->tickets, 1, memory_order_relaxed);
    } else if (claim->state != MONEY_CLAIM_ORPHAN) {
        retire(claim);
    }
    decided(context, err, &answer, yes ? claim : NULL);
}

static void decide_soon(struct remote_money_ticket *claim, enum tg_err err)
{
    assert(!claim->in_flight);
    claim->err = err;
    net_timer_stop(claim->port->loop, &claim->timer);
    money_claim_move(claim, MONEY_CLAIM_READY);
    net_loop_post(claim->port->loop, &claim->port->ready);
}

void money_port_run_ready(void *arg)
{
    struct remote_money_port *port = arg;
    struct claim_list *ready = &port->lists[MONEY_CLAIM_READY];
    struct remote_money_ticket *claim;

    /* One that becomes ready by what another is told waits for the next turn. */
    for (size_t n = ready->n; n > 0 && (claim = TAILQ_FIRST(&ready->claims)) != NULL; n--)
        remote_money_call_decide(claim, claim->err);
    if (ready->n > 0)
        net_loop_post(port->loop, &port->ready);
}

static void reserve_answered(struct redis_ask *ask, const struct redisReply *reply);

static void grant(struct remote_money_ticket *claim, tg_micro reserved, unsigned would_deny)
{
    struct remote_money *money = claim->port->money;

    pthread_mutex_lock(&money->lock);
    money_claim_hold(claim, reserved, reserved);
    pthread_mutex_unlock(&money->lock);
    claim->answer =
        (struct tg_money_answer){.reservation = 1, .reserved = reserved, .would_deny = would_deny};
}

/* Nothing is leased where the script decides, but blocks are heard of: those of the dead count, and
 * their sums are told again if Redis forgets them. */
static void note_windows(struct remote_money_ticket *claim)
{
    struct remote_money *money = claim->port->money;

    pthread_mutex_lock(&money->lock);
    for (size_t i = claim->block_windows; i < claim->n_windows; i++) {
        struct sum *sum = claim->windows[i].sum;
        sum->block.by_script = true;
        sum->block.touched_at = money_port_now(claim->port);
        money_block_activate(money, sum);
    }
    pthread_mutex_unlock(&money->lock);
}

/* Blocks of everyone's have been taken, or there are no such budgets. */
static void ask_root(struct remote_money_ticket *claim)
{
    if (money_claim_has_root(claim)) {
        note_windows(claim);
        money_claim_move(claim, MONEY_CLAIM_ASKED);
        money_claim_send_reserve(claim, reserve_answered);
        return;
    }
    grant(claim, claim->block_windows > 0 ? claim->taken : claim->money, claim->answer.would_deny);
    decide_soon(claim, TG_OK);
}

/* Whether it is worth to wait for a block. Another loop may have asked for it before Redis fell
 * silent: who knows of that does not wait with it. */
static bool may_wait(const struct remote_money_ticket *claim)
{
    for (size_t i = 0; i < claim->block_windows; i++) {
        struct slice key = sum_hash_key(claim->windows[i].sum);
        if (claim->windows[i].waits_for != 0 && !redis_is_up(claim->port->redis, &key))
            return false;
    }
    return true;
}

static void advance(struct remote_money_ticket *claim)
{
    struct remote_money *money = claim->port->money;
    enum block_verdict verdict = BLOCK_FULL;

    pthread_mutex_lock(&money->lock);
    if (money_claim_fits(claim))
        verdict = money_blocks_take(money, claim, money_port_now(claim->port));
    if (verdict == BLOCK_WAIT && !may_wait(claim))
        verdict = BLOCK_AWAY;
    if (verdict != BLOCK_WAIT)
        money_blocks_leave(money, claim);
    pthread_mutex_unlock(&money->lock);
    if (claim->block_windows > 0 && verdict != BLOCK_AWAY)
        money_port_ask_for(claim->port, claim);
    if (verdict == BLOCK_WAIT && claim->state != MONEY_CLAIM_WAITING)
        money_claim_move(claim, MONEY_CLAIM_WAITING);
    if (verdict == BLOCK_FULL || verdict == BLOCK_AWAY)
        decide_soon(claim, verdict == BLOCK_FULL ? TG_ERR_FULL : TG_ERR_STORE);
    if (verdict == BLOCK_TAKEN)
        ask_root(claim);
    if (verdict == BLOCK_REFUSED) {
        claim->peek = claim->answer.contended && money_claim_has_root(claim);
        if (claim->peek)
            ask_root(claim);
        else
            decide_soon(claim, TG_OK);
    }
}

/* An ask with its need in it was not answered, or not yet granted. */
static bool has_failed(struct remote_money_ticket *claim)
{
    bool failed = false;

    pthread_mutex_lock(&claim->port->money->lock);
    for (size_t i = 0; i < claim->block_windows; i++) {
        const struct claim_window *window = &claim->windows[i];
        const struct sum_block *block = &window->sum->block;
        failed |= window->waits_for != 0 && block->failed >= window->waits_for &&
                  block->heard < window->waits_for;
    }
    pthread_mutex_unlock(&claim->port->money->lock);
    return failed;
}

void money_port_wake(void *arg)
{
    struct remote_money_port *port = arg;
    size_t n = port->lists[MONEY_CLAIM_WAITING].n;
    struct remote_money_ticket *claim = TAILQ_FIRST(&port->lists[MONEY_CLAIM_WAITING].claims),
                               *next;

    for (; n-- > 0 && claim; claim = next) {
        next = TAILQ_NEXT(claim, list);
        if (has_failed(claim)) {
            pthread_mutex_lock(&port->money->lock);
            money_blocks_leave(port->money, claim);
            pthread_mutex_unlock(&port->money->lock);
            decide_soon(claim, TG_ERR_STORE);
        } else {
            advance(claim);
        }
    }
}

/* ---- The script's answer ---- */

/* Everyone's had refused, contended; below, something may be spent. */
static void read_peek(struct remote_money_ticket *claim, const struct tg_money_answer *said)
{
    unsigned would_deny = claim->answer.would_deny + said->would_deny;

    if (said->reservation == 0 && !said->contended)
        claim->answer = *said;
    claim->answer.reservation = 0;
    claim->answer.would_deny = would_deny;
}

/* All budgets are seen now, and what the blocks of this process have is its own. */
static void decide_peek(struct remote_money_ticket *claim)
{
    struct rule_state states[MONEY_WINDOWS_MAX];
    struct rule_answer said;

    pthread_mutex_lock(&claim->port->money->lock);
    states_of(claim, states);
    pthread_mutex_unlock(&claim->port->money->lock);
    money_rule_ask(claim->budgets, states, claim->n_budgets, money_rule_need(claim), &said);
    if (said.binding < claim->n_budgets)
        money_rule_refuse(claim->budgets, states, &said, &claim->answer);
    else
        claim->answer = (struct tg_money_answer){.reservation = 1, .would_deny = said.would_deny};
}

static void hear_answer(struct remote_money_ticket *claim, const struct redisReply *reply)
{
    struct tg_money_answer said;
    enum tg_err err = TG_ERR_STORE;

    if (!money_claim_read_reserve(claim, reply, &err, &said)) {
        remote_money_call_count(&claim->port->money->n_lost);
        /* What was never sent has reserved nothing. */
        if (claim->ask.lost == REDIS_AWAY || claim->ask.lost == REDIS_FULL)
            claim->remote = false;
        remote_money_call_decide(claim, TG_ERR_STORE);
        return;
    }
    if (claim->seen != NULL && claim->blocks) {
        decide_peek(claim);
    } else if (claim->seen != NULL && claim->answer.reservation != 0) {
        said.would_deny += claim->answer.would_deny;
        claim->answer = said;
    } else if (claim->peek) {
        read_peek(claim, &said);
    } else if (said.reservation != 0) {
        grant(claim, said.reserved, claim->answer.would_deny + said.would_deny);
    } else {
        said.would_deny += claim->answer.would_deny;
        claim->answer = said;
        claim->remote = false;
    }
    remote_money_call_decide(claim, err);
}

static void reserve_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct remote_money_ticket *claim = container_of(ask, struct remote_money_ticket, ask);
    struct tg_money_answer said;
    enum tg_err err;

    assert(claim->in_flight);
    claim->in_flight = false;
    if (claim->state == MONEY_CLAIM_ASKED) {
        hear_answer(claim, reply);
        return;
    }
    assert(claim->state == MONEY_CLAIM_ORPHAN);
    bool sense = money_claim_read_reserve(claim, reply, &err, &said);
    if (sense && said.reservation != 0 && !claim->peek)
        remote_money_call_count(&claim->port->money->n_late_yes);
    if (sense ? said.reservation == 0
              : claim->ask.lost == REDIS_AWAY || claim->ask.lost == REDIS_FULL)
        claim->remote = false;
    retire(claim);
}

/* ---- For the caller ---- */

/* The time limit has passed. */
static void remote_money_call_timed_out(void *arg)
{
    struct remote_money_ticket *claim = arg;

    remote_money_call_count(&claim->port->money->n_late);
    if (claim->state != MONEY_CLAIM_ASKED) {
        remote_money_call_decide(claim, TG_ERR_STORE);
        return;
    }
    remote_money_cancel((struct remote_money_ask *)claim);
    remote_money_call_decide(claim, TG_ERR_STORE);
}

static void note_time(struct remote_money *money, tg_ms now)
{
    tg_ms latest = atomic_load_explicit(&money->latest, memory_order_relaxed);

    while (now > latest && !atomic_compare_exchange_weak(&money->latest, &latest, now))
        ;
}

/* A claim without windows, to tell why there is none. */
static struct remote_money_ticket *failed_claim(struct remote_money_port *port)
{
    struct remote_money_ticket *claim = calloc(1, sizeof(struct remote_money_ask));

    if (!claim)
        return NULL;
    claim->port = port;
    claim->state = MONEY_CLAIM_STATES;
    money_claim_move(claim, MONEY_CLAIM_READY);
    return claim;
}

struct remote_money_ask *remote_money_reserve(struct remote_money_port *port,
                                              const struct spending_call *call, bool blocks,
                                              tg_ms now, remote_money_decided *decided,
                                              void *context)
{
    struct remote_money_ticket *claim = NULL;

    note_time(port->money, now);
    enum tg_err err = money_claim_new(port, call, blocks, now, &claim);
    if (err == TG_ERR_MEMORY || (err && (claim = failed_claim(port)) == NULL))
        return NULL;
    remote_money_call_count(&port->money->n_asked);
    claim->decided = decided;
    claim->context = context;
    net_timer_init(&claim->timer, remote_money_call_timed_out, claim);
    if (err) {
        decide_soon(claim, err);
    } else {
        net_timer_set(port->loop, &claim->timer, port->money->timeout);
        advance(claim);
    }
    return (struct remote_money_ask *)claim;
}

struct remote_money_ask *remote_money_peek(struct remote_money_port *port,
                                           const struct spending_call *call, bool blocks, tg_ms now,
                                           remote_money_seen *seen, void *context)
{
    struct remote_money_ticket *claim = NULL;
    /* Redis is asked about all but the budgets of everyone. */
    enum tg_err err = money_claim_new(port, call, false, now, &claim);

    if (err == TG_ERR_MEMORY || (err && (claim = failed_claim(port)) == NULL))
        return NULL;
    claim->seen = seen;
    claim->context = context;
    claim->peek = true;
    claim->blocks = blocks;
    net_timer_init(&claim->timer, remote_money_call_timed_out, claim);
    if (!err) {
        pthread_mutex_lock(&port->money->lock);
        money_blocks_peek(claim);
        pthread_mutex_unlock(&port->money->lock);
    }
    if (err || !money_claim_has_root(claim)) {
        decide_soon(claim, err);
    } else {
        net_timer_set(port->loop, &claim->timer, port->money->timeout);
        money_claim_move(claim, MONEY_CLAIM_ASKED);
        money_claim_send_reserve(claim, reserve_answered);
    }
    return (struct remote_money_ask *)claim;
}

enum remote_money_by remote_money_by(const struct remote_money_ask *ask)
{
    if (ask->claim.n_windows == 0)
        return REMOTE_MONEY_BY_NOBODY;
    return money_claim_has_root(&ask->claim) ? REMOTE_MONEY_BY_REDIS : REMOTE_MONEY_BY_BLOCKS;
}

void remote_money_cancel(struct remote_money_ask *ask)
{
    struct remote_money_ticket *claim = &ask->claim;
    struct remote_money *money = claim->port->money;

    net_timer_stop(claim->port->loop, &claim->timer);
    if (claim->state != MONEY_CLAIM_ASKED) {
        /* Nothing has been asked of Redis, or it is a yes without it. */
        retire(claim);
        return;
    }
    money_claim_move(claim, MONEY_CLAIM_ORPHAN);
    pthread_mutex_lock(&money->lock);
    money_claim_hold(claim, 0, 0);
    pthread_mutex_unlock(&money->lock);
}

void remote_money_settle(struct remote_money_ticket *claim, tg_micro spent, tg_ms now)
{
    struct remote_money *money = claim->port->money;

    assert(claim->state == MONEY_CLAIM_HELD);
    note_time(money, now);
    spent = spent < 0 ? claim->money : num_min(spent, TG_NUMBER_MAX);
    pthread_mutex_lock(&money->lock);
    for (size_t i = 0; i < claim->n_windows; i++)
        money_sums_spend(&money->sums, claim->windows[i].sum, spent);
    pthread_mutex_unlock(&money->lock);
    atomic_fetch_sub_explicit(&money->tickets, 1, memory_order_relaxed);
    claim->remote = claim->remote || spent > 0;
    retire(claim);
}

/* ---- Renewing ---- */

static void renew_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct remote_money_ticket *claim = container_of(ask, struct remote_money_ticket, ask);

    claim->in_flight = false;
    /* One that was lost on the way is said again with the connection. */
    (void)money_claim_read_note(claim, reply);
    if (claim->state == MONEY_CLAIM_ENDING)
        money_claim_end(claim);
}

void money_claim_renew(struct remote_money_ticket *claim)
{
    claim->remote = true;
    money_claim_send_note(claim, claim->reserved, renew_answered);
    assert(claim->state == MONEY_CLAIM_HELD);
    money_claim_move(claim, MONEY_CLAIM_HELD); /* behind those that are due earlier */
}

/* ---- Without Redis ---- */

/* What this process may use by itself: what it holds, and no more, for others may have the rest.
 * Where blocks do not decide, that is what its calls have reserved. */
static void held_of(const struct remote_money_ticket *claim, struct claim_budget *budgets,
                    struct rule_state *states)
{
    for (size_t i = 0; i < claim->n_budgets; i++) {
        const struct sum *sum = claim->windows[claim->budgets[i].window].sum;
        bool block = i < claim->block_budgets;
        budgets[i] = claim->budgets[i];
        budgets[i].amount =
            num_max(block ? sum->block.leased : 0, num_add(sum_total(sum), sum->held));
        states[i] = (struct rule_state){sum_total(sum), block ? sum->block.held : sum->held};
    }
}

/* Budgets that the script decides, without it. False: they are not spent for all that is known, and
 * others may have what is left. */
static bool decide_root_local(const struct remote_money_ticket *claim,
                              struct tg_money_answer *answer)
{
    const struct claim_budget *budgets = claim->budgets + claim->block_budgets;
    size_t n = claim->n_budgets - claim->block_budgets, enforced = 0;
    struct rule_state states[MONEY_WINDOWS_MAX] = {0};
    struct rule_answer said;

    for (size_t i = 0; i < n; i++) {
        const struct sum *sum = claim->windows[budgets[i].window].sum;
        tg_micro unacked = num_less(sum_total(sum), sum->acked);
        states[i].settled = num_max(num_add(sum->settled, unacked), sum_total(sum));
        enforced += !budgets[i].shadow;
    }
    money_rule_ask(budgets, states, n, money_rule_need(claim), &said);
    answer->would_deny += said.would_deny;
    if (said.binding == n)
        return enforced == 0;
    money_rule_refuse(budgets, states, &said, answer);
    return true;
}

/* The lock is held. A claim that only looks holds nothing. */
static enum tg_err decide_local(struct remote_money_ticket *claim, bool open,
                                struct tg_money_answer *answer)
{
    tg_micro money = claim->money, most = TG_NUMBER_MAX;

    claim->answer = (struct tg_money_answer){.reservation = 1};
    if (!open && (!money_blocks_allow(claim, &most) ||
                  (claim->answer.reservation != 0 && !decide_root_local(claim, &claim->answer))))
        return TG_ERR_STORE;
    *answer = claim->answer;
    if (answer->reservation == 0)
        return TG_OK;
    if (!money_claim_fits(claim))
        return TG_ERR_FULL;
    money = num_min(money, most);
    if (!claim->peek)
        money_claim_hold(claim, money, money);
    answer->reserved = money;
    return TG_OK;
}

enum tg_err remote_money_local(struct remote_money_port *port, const struct spending_call *call,
                               bool blocks, bool open, tg_ms now, struct tg_money_answer *answer,
                               struct remote_money_ticket **ticket)
{
    struct remote_money_ticket *claim;

    *ticket = NULL;
    note_time(port->money, now);
    enum tg_err err = money_claim_new(port, call, blocks, now, &claim);
    if (err)
        return err;
    net_timer_init(&claim->timer, remote_money_call_timed_out, claim);
    pthread_mutex_lock(&port->money->lock);
    err = decide_local(claim, open, answer);
    if (!err && answer->reservation != 0)
        for (size_t i = 0; i < claim->block_windows; i++)
            money_block_activate(port->money, claim->windows[i].sum);
    pthread_mutex_unlock(&port->money->lock);
    if (err || answer->reservation == 0) {
        money_claim_free(claim);
        return err;
    }
    claim->renewed_at = money_port_now(port);
    money_claim_move(claim, MONEY_CLAIM_HELD);
    atomic_fetch_add_explicit(&port->money->tickets, 1, memory_order_relaxed);
    *ticket = claim;
    return TG_OK;
}

enum tg_err remote_money_peek_local(struct remote_money_port *port,
                                    const struct spending_call *call, bool blocks, bool open,
                                    tg_ms now, struct tg_money_answer *answer,
                                    struct remote_money_view *views, size_t *n)
{
    struct claim_budget budgets[MONEY_WINDOWS_MAX];
    struct rule_state states[MONEY_WINDOWS_MAX];
    struct remote_money_ticket *claim;
    enum tg_err err = money_claim_new(port, call, blocks, now, &claim);

    if (err)
        return err;
    net_timer_init(&claim->timer, remote_money_call_timed_out, claim);
    claim->peek = true;
    pthread_mutex_lock(&port->money->lock);
    err = decide_local(claim, open, answer);
    *n = views_of(claim, views);
    if (!open) {
        held_of(claim, budgets, states);
        for (size_t i = 0; i < *n; i++) {
            views[i].amount = budgets[i].amount;
            views[i].settled = states[i].settled;
            views[i].used = num_add(states[i].settled, states[i].outstanding);
        }
    }
    pthread_mutex_unlock(&port->money->lock);
    money_claim_free(claim);
    return err;
}
