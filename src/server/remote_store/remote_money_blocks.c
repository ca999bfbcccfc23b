/* remote_money_blocks.c - the budget of everyone: this node leases a part of it to decide by.
 *
 * Every call of every tenant counts here, so one script for each of them on one key would be the
 * whole of a Redis. Instead a node leases, for each window,
 *
 *     leased >= used by this node = settled + reserved         sum of leased <= amount
 *
 * and asks for more before it runs out: for what waits, and for what is taken in HEADROOM_MS at the
 * present rate. What it does not need it gives back. Where less is granted than was wanted, money
 * is short: for a while the node asks for each call and keeps nothing to itself, so that the last
 * micro-dollar can be spent by whoever comes.
 *
 * Safe in any order of deaths: the node lowers its own lease before it says so, and raises it only
 * when Redis has. A lease that was not renewed for its time is worth nothing, here a little earlier
 * than there. One ask at a time, numbered: a late one cannot undo a newer, here or there.
 *
 * What this does not cover is what a node has settled since it last told so, and what it has in
 * flight, when it dies or is cut off for longer than a lease lives: its lease then falls to what it
 * had told, others may spend the rest, and its own part comes on top when it is back.
 */
#include <assert.h>
#include <string.h>

#include "lib/core/container_of.h"
#include "server/remote_store/remote_money_args.h"
#include "server/remote_store/remote_money_internal.h"
#include "server/remote_store/scripts.h"

enum {
    HEADROOM_MS = 1500,
    SHORT_MS = 2000, /* so long a node keeps nothing to itself after money was short */
    TELL_MS = 1000,  /* at most between a settlement and its update */
    STUCK_MS = 2000, /* after this another loop asks: one that stands still must not stop all */
    RATE_MS = 2000,  /* over which the rate is an average */
    IDLE_MS = 1000,  /* without a call: nothing is needed */
};

/* ---- What there is ---- */

static tg_micro leased_at(const struct sum *sum, tg_ms now)
{
    return now < sum->leased_until ? sum->leased : 0;
}

/* What is free of the lease of a window. */
static tg_micro spare_at(const struct sum *sum, tg_ms now)
{
    return num_less(leased_at(sum, now), sum_used(sum));
}

static tg_micro headroom(const struct money_blocks *blocks, const struct sum *sum, tg_ms now)
{
    double rate = blocks->rate;

    if (now < sum->short_until || blocks->leaving)
        return 0;
    if ((double)blocks->taken / 1000 > rate)
        rate = (double)blocks->taken / 1000;
    return num_floor(rate * HEADROOM_MS);
}

/* The windows of now are those of the latest call. */
static void follow(struct money_blocks *blocks, const struct remote_money_ticket *claim)
{
    size_t n = claim->every_windows;
    bool same = n == blocks->n;

    for (size_t i = 0; i < n && same; i++)
        same = blocks->windows[i] == claim->windows[i].sum;
    if (!same) {
        for (size_t i = 0; i < n; i++)
            claim->windows[i].sum->pins++;
        for (size_t i = 0; i < blocks->n; i++) {
            assert(blocks->windows[i]->pins > 0);
            blocks->windows[i]->pins--;
        }
        for (size_t i = 0; i < n; i++)
            blocks->windows[i] = claim->windows[i].sum;
        blocks->n = n;
    }
    for (size_t i = 0; i < n; i++)
        blocks->amounts[i] = TG_NUMBER_MAX;
    for (size_t i = 0; i < claim->every_budgets; i++) {
        const struct claim_budget *budget = &claim->budgets[i];
        if (!budget->shadow)
            blocks->amounts[budget->window] =
                num_min(blocks->amounts[budget->window], budget->amount);
    }
}

/* ---- Taking ---- */

/* The sums of all nodes, as far as they are known. */
void money_blocks_states(const struct remote_money_ticket *claim, struct rule_state *states)
{
    for (size_t i = 0; i < claim->every_budgets; i++) {
        const struct sum *sum = claim->windows[claim->budgets[i].window].sum;
        states[i].settled = num_add(sum->others_settled, sum_total(sum));
        states[i].outstanding = num_add(num_less(sum->others_used, sum->others_settled), sum->held);
    }
}

/* Whether more settled money than is left for the call is known of: that never changes. */
static bool is_spent(const struct remote_money_ticket *claim, const struct rule_state *states)
{
    for (size_t i = 0; i < claim->every_budgets; i++)
        if (!claim->budgets[i].shadow &&
            claim->budgets[i].amount - states[i].settled < money_rule_need(claim))
            return true;
    return false;
}

/* What the leases of enforced windows allow; whether those that do not allow it are known to be
 * short. */
static tg_micro allowed_by_leases(const struct remote_money_ticket *claim, tg_ms now,
                                  bool *is_short)
{
    tg_micro least = TG_NUMBER_MAX;

    *is_short = false;
    for (size_t i = 0; i < claim->every_budgets; i++) {
        const struct sum *sum = claim->windows[claim->budgets[i].window].sum;
        if (claim->budgets[i].shadow)
            continue;
        /* A lease may reach beyond the amount: what was used was, or the amount was lowered. */
        tg_micro most = num_less(claim->budgets[i].amount, sum->others_used);
        tg_micro spare = num_min(spare_at(sum, now), num_less(most, sum_used(sum)));
        if (spare < num_max(claim->money, 1))
            *is_short = *is_short || sum->is_short || most <= sum->leased;
        least = num_min(least, spare);
    }
    return least;
}

static enum block_verdict remote_money_blocks_refuse(struct remote_money_ticket *claim,
                                                     const struct rule_state *states)
{
    struct rule_answer said;

    money_rule_ask(claim->budgets, states, claim->every_budgets, money_rule_need(claim), &said);
    if (said.binding == claim->every_budgets) {
        /* By the sums there is room; the leases of others are in the way. */
        said.contended = true;
        said.binding = 0;
        while (claim->budgets[said.binding].shadow)
            said.binding++;
        assert(said.binding < claim->every_budgets); /* one in shadow refuses nothing */
    }
    money_rule_refuse(claim->budgets, states, &said, &claim->answer);
    return BLOCK_REFUSED;
}

static enum block_verdict remote_money_blocks_take(struct remote_money *money,
                                                   struct remote_money_ticket *claim,
                                                   tg_micro amount, const struct rule_state *states,
                                                   tg_ms now)
{
    struct rule_answer said;

    money_rule_ask(claim->budgets, states, claim->every_budgets, money_rule_need(claim), &said);
    claim->answer.would_deny = said.would_deny;
    assert(amount <= claim->money);
    money_claim_hold(claim, amount, claim->reserved);
    money->blocks.taken = num_add(money->blocks.taken, amount);
    money->blocks.taken_at = now;
    return BLOCK_TAKEN;
}

static enum block_verdict wait_for_next(struct money_blocks *blocks,
                                        struct remote_money_ticket *claim)
{
    if (claim->waits_for == 0)
        blocks->waiting = num_add(blocks->waiting, num_max(claim->money, 1));
    claim->waits_for = blocks->asked + 1;
    return BLOCK_WAIT;
}

enum block_verdict money_blocks_take(struct remote_money *money, struct remote_money_ticket *claim,
                                     tg_ms now)
{
    struct money_blocks *blocks = &money->blocks;
    struct rule_state states[TG_BUDGETS_MAX];
    bool heard = claim->waits_for != 0 && blocks->heard >= claim->waits_for, is_short;

    if (claim->waits_for == 0)
        follow(blocks, claim);
    money_blocks_states(claim, states);
    tg_micro least = allowed_by_leases(claim, now, &is_short);
    if (least >= num_max(claim->money, 1))
        return remote_money_blocks_take(money, claim, claim->money, states, now);
    if (heard && is_short && claim->up_to && least >= 1)
        return remote_money_blocks_take(money, claim, num_min(claim->money, least), states, now);
    if ((heard && is_short) || is_spent(claim, states))
        return remote_money_blocks_refuse(claim, states);
    if (claim->waits_for == 0 || heard)
        return wait_for_next(blocks, claim);
    return BLOCK_WAIT;
}

void money_blocks_peek(struct remote_money_ticket *claim)
{
    struct rule_state states[TG_BUDGETS_MAX];
    struct rule_answer said;

    money_blocks_states(claim, states);
    money_rule_ask(claim->budgets, states, claim->every_budgets, money_rule_need(claim), &said);
    if (said.binding < claim->every_budgets)
        money_rule_refuse(claim->budgets, states, &said, &claim->answer);
    else
        claim->answer = (struct tg_money_answer){.reservation = 1, .would_deny = said.would_deny};
}

void money_blocks_leave(struct remote_money *money, struct remote_money_ticket *claim)
{
    if (claim->waits_for == 0)
        return;
    money->blocks.waiting = num_less(money->blocks.waiting, num_max(claim->money, 1));
    claim->waits_for = 0;
}

/* ---- Asking ---- */

static void rate(struct money_blocks *blocks, tg_ms now)
{
    if (blocks->rated_at == 0)
        blocks->rated_at = now;
    tg_ms span = now - blocks->rated_at;
    if (span <= 0)
        return;
    double share = span < RATE_MS ? (double)span / RATE_MS : 1;
    blocks->rate += share * ((double)blocks->taken / (double)span - blocks->rate);
    if (now - blocks->taken_at >= IDLE_MS)
        blocks->rate = 0;
    blocks->taken = 0;
    blocks->rated_at = now;
}

/* Gives back what is far more than is needed. It counts from now on; Redis is told next. */
static bool lower(struct money_blocks *blocks, struct sum *sum, tg_ms now)
{
    tg_micro enough = num_add(blocks->waiting, headroom(blocks, sum, now));
    tg_micro spare = spare_at(sum, now);

    if (spare <= num_add(enough, enough))
        return false;
    assert(num_add(sum_used(sum), enough) < sum->leased); /* a node only lowers it by itself */
    sum->leased = num_add(sum_used(sum), enough);
    return true;
}

/* Its sums are told like those of any window from now on. */
static void unfollow(struct money_blocks *blocks)
{
    for (; blocks->n > 0; blocks->n--) {
        assert(blocks->windows[blocks->n - 1]->pins > 0);
        blocks->windows[blocks->n - 1]->pins--;
    }
}

bool money_blocks_want(struct remote_money *money, tg_ms now, bool tick)
{
    struct money_blocks *blocks = &money->blocks;
    bool want = blocks->waiting > 0;

    if (blocks->retired && !want)
        unfollow(blocks);
    if (blocks->n == 0 || (blocks->asking && now - blocks->asked_at < STUCK_MS))
        return false;
    if (tick)
        rate(blocks, now);
    for (size_t i = 0; i < blocks->n; i++) {
        struct sum *sum = blocks->windows[i];
        tg_micro room = headroom(blocks, sum, now);
        bool is_low = room > 0 && spare_at(sum, now) < room / 2;
        want = want || is_low || now - blocks->asked_at >= money->lease_ttl / 3 ||
               (sum_is_unacked(sum) && now - blocks->asked_at >= TELL_MS);
        if (tick)
            want = lower(blocks, sum, now) || want;
    }
    return want;
}

void money_blocks_build(struct remote_money *money, struct block_ask *ask, tg_ms now)
{
    struct money_blocks *blocks = &money->blocks;

    assert(!ask->in_flight); /* else its windows would stay pinned */
    blocks->asking = true;
    blocks->asked_at = now;
    blocks->sequence = num_max(blocks->sequence + 1, now * 1000);
    ask->number = ++blocks->asked;
    ask->sequence = blocks->sequence;
    ask->sent_at = now;
    ask->n = blocks->n;
    for (size_t i = 0; i < ask->n; i++) {
        struct sum *sum = blocks->windows[i];
        sum->pins++;
        ask->windows[i] = (struct claim_window){sum, sum_tell(sum)};
        ask->amount[i] = blocks->amounts[i];
        ask->used[i] = sum_used(sum);
        ask->needed[i] = num_add(ask->used[i], blocks->waiting);
        ask->wanted[i] =
            num_max(leased_at(sum, now), num_add(ask->needed[i], headroom(blocks, sum, now)));
        ask->keep[i] = money_sum_keep(sum, now);
        assert(ask->used[i] <= ask->needed[i] && ask->needed[i] <= ask->wanted[i]);
    }
}

enum { BLOCK_HEAD = 2, BLOCK_NUMBERS = 4 };

static bool hear_window(struct remote_money *money, struct block_ask *ask, size_t i,
                        const int64_t *numbers)
{
    struct claim_window *window = &ask->windows[i];
    struct sum *sum = window->sum;
    bool loss = money_sums_hear(&money->sums, sum, numbers[3], &window->told);

    sum->leased = numbers[0];
    sum->leased_until = ask->sent_at + money->lease_ttl - money->lease_ttl / 10;
    sum->others_used = numbers[1];
    sum->others_settled = num_less(numbers[2], num_max(numbers[3], window->told.sent));
    sum->settled = numbers[2];
    sum->is_short = numbers[0] < ask->wanted[i];
    if (sum->is_short)
        sum->short_until = ask->sent_at + SHORT_MS;
    return loss;
}

static bool hear(struct remote_money *money, struct block_ask *ask, const struct redisReply *reply)
{
    struct money_blocks *blocks = &money->blocks;
    int64_t numbers[BLOCK_HEAD + BLOCK_NUMBERS * TG_BUDGETS_MAX];
    bool loss = false;

    if (money_args_read(reply, BLOCK_HEAD + BLOCK_NUMBERS * ask->n, numbers) && numbers[0] == 1) {
        for (size_t i = 0; i < ask->n; i++)
            loss |= hear_window(money, ask, i, numbers + BLOCK_HEAD + BLOCK_NUMBERS * i);
        blocks->alive = (size_t)num_max(numbers[1], 1);
        blocks->heard = ask->number;
    } else if (money_args_read(reply, BLOCK_HEAD, numbers) && numbers[0] == 0) {
        /* A former life with this ledger has counted further: a clock was put back. Once more. */
        blocks->sequence = num_max(blocks->sequence, numbers[1]);
        blocks->asked = ask->number - 1;
    } else {
        blocks->failed = ask->number;
    }
    return loss;
}

bool money_blocks_heard(struct remote_money *money, struct block_ask *ask,
                        const struct redisReply *reply)
{
    struct money_blocks *blocks = &money->blocks;
    bool loss = false;

    /* If another loop has asked since, what that hears is newer. */
    if (ask->number == blocks->asked) {
        blocks->asking = false;
        loss = hear(money, ask, reply);
    }
    for (size_t i = 0; i < ask->n; i++) {
        assert(ask->windows[i].sum->pins > 0);
        ask->windows[i].sum->pins--;
    }
    return loss;
}

static void block_answered(struct redis_ask *redis_ask, const struct redisReply *reply)
{
    struct block_ask *ask = (struct block_ask *)redis_ask;
    struct remote_money_port *port = container_of(ask, struct remote_money_port, block);
    struct remote_money *money = port->money;
    struct remote_money_port *each;

    assert(ask->in_flight);
    ask->in_flight = false;
    pthread_mutex_lock(&money->lock);
    if (money_blocks_heard(money, ask, reply))
        money_repair(money);
    if (money->blocks.waiting > 0)
        LIST_FOREACH(each, &money->ports, of_money)
            net_loop_post(each->loop, &each->wake);
    pthread_mutex_unlock(&money->lock);
}

void money_blocks_send(struct remote_money_port *port)
{
    struct remote_money *money = port->money;
    struct block_ask *ask = &port->block;
    struct slice keys[TG_BUDGETS_MAX];
    struct money_args args;

    money_args_init(&args);
    money_args_number(&args, money->callers_clock ? atomic_load(&money->latest) : 0);
    money_args_text(&args, money->ledger, strlen(money->ledger));
    money_args_number(&args, ask->sequence);
    money_args_number(&args, money->lease_ttl);
    for (size_t i = 0; i < ask->n; i++) {
        keys[i] = sum_hash_key(ask->windows[i].sum);
        money_args_number(&args, ask->amount[i]);
        money_args_number(&args, ask->used[i]);
        money_args_number(&args, ask->needed[i]);
        money_args_number(&args, ask->wanted[i]);
        money_args_number(&args, ask->windows[i].told.sent);
        money_args_number(&args, ask->keep[i]);
    }
    ask->in_flight = true;
    atomic_fetch_add_explicit(&money->n_blocks, 1, memory_order_relaxed);
    redis_ask_init(&ask->ask, block_answered, NULL);
    redis_eval(port->redis, &ask->ask, &script_money_block, keys, ask->n, args.list, args.n);
}
