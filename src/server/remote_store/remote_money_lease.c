/* remote_money_lease.c - blocks of budgets: leased ahead of need, reported, and given back.
 *
 * An ask has windows of one slot. For each it tells what was settled, what calls in flight hold and
 * what is kept besides, and asks for what waits, and for what is taken in DEMAND_MS at the present
 * rate, or by a few calls of the largest kind. money_block.lua grants that, but beyond the need at
 * most an even part of half of what is left; when little is left, only the need, and then what is
 * to spare is given back at once: so that the last micro-dollar can be spent by whoever comes.
 *
 * Several asks may be in flight for calls that wait: needs are told whole, not as differences, so
 * only the latest answer counts, by its number, here and there. An ask that lowers a block is
 * alone: an answer to an older one would raise it again.
 *
 * Safe in any order of deaths: a process lowers its own block before it says so, and raises it only
 * when Redis has. No block ends by time. What of it was settled is told at the latest after
 * TELL_MS; until then it is a part of the block, there too. If Redis has forgotten blocks, each
 * process tells its own again, and what it remembers of the others, the dead included.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io/redis/resp.h"
#include "server/remote_store/remote_money_args.h"
#include "server/remote_store/remote_money_internal.h"
#include "server/remote_store/scripts.h"

enum {
    DEMAND_MS = 2000,
    DEMAND_CALLS = 4,   /* what is kept for calls that are rare: so many of the largest kind */
    RATE_MS = 2000,     /* over which the rate is an average */
    RECENT_MS = 10000,  /* a span of which the largest reservation is known */
    IDLE_MS = 2000,     /* without a call: nothing is needed */
    SHORT_MS = 2000,    /* so long nothing is kept after money was short */
    TELL_MS = 2000,     /* at most between a settlement and its being told */
    REFRESH_MS = 10000, /* between two asks, so that the others are known */
    NEAR_MS = 1000,     /* the same near the end of a budget, or where calls are refused */
    RETRY_MS = 250,     /* after a failure, if nobody waits */
    SPLIT_MS = 1000,    /* then it is tried whether a slot is still half-moved */
    STUCK_MS = 2000, /* an ask that lowers, on a loop that stands still, does not stop the others */
    IN_FLIGHT_MAX =
        64,        /* asks for a window: while Redis is far away, who comes does not wait twice */
    ASKS_MAX = 64, /* asks that a port makes in one turn */
};

/* ---- What is needed ---- */

/* How much is to be kept beyond what is in use. */
static tg_micro money_block_demand(const struct remote_money *money, const struct sum *sum,
                                   tg_ms now)
{
    const struct sum_block *block = &sum->block;
    double rate = block->rate;

    if (money->leaving || money->retired || block->by_script || now < block->short_until ||
        now - block->touched_at >= IDLE_MS)
        return 0;
    if ((double)block->taken / RATE_MS > rate)
        rate = (double)block->taken / RATE_MS;
    return num_max(num_floor(rate * DEMAND_MS),
                   num_min(block->largest, TG_NUMBER_MAX / DEMAND_CALLS) * DEMAND_CALLS);
}

static void rate(struct sum_block *block, tg_ms now)
{
    if (block->rated_at == 0)
        block->rated_at = now;
    if (now - block->recent_at >= RECENT_MS) {
        block->largest = block->recent;
        block->recent = 0;
        block->recent_at = now;
    }
    tg_ms span = now - block->rated_at;
    if (span <= 0)
        return;
    double share = span < RATE_MS ? (double)span / RATE_MS : 1;
    block->rate += share * ((double)block->taken / (double)span - block->rate);
    block->taken = 0;
    block->rated_at = now;
}

/* ---- The windows that have blocks ---- */

void money_block_activate(struct remote_money *money, struct sum *sum)
{
    if (sum->block.is_active)
        return;
    sum->block.is_active = true;
    sum->block.takes_over = sum->block.takes_over || !sum->block.is_heard;
    sum->block.retold = money->retell;
    sum->pins++;
    TAILQ_INSERT_HEAD(&money->active, sum, block.list);
    money->n_active++;
}

static bool has_no_use(const struct remote_money *money, const struct sum *sum, tg_ms now)
{
    const struct sum_block *block = &sum->block;

    return block->e == 0 && sum->block.held == 0 && block->waiting == 0 && block->in_flight == 0 &&
           !sum_is_unacked(sum) && !(block->takes_over && !money->sums.shared) &&
           now - block->touched_at >= IDLE_MS;
}

static void deactivate(struct remote_money *money, struct sum *sum)
{
    assert(sum->pins > 0 && money->n_active > 0);
    TAILQ_REMOVE(&money->active, sum, block.list);
    money->n_active--;
    sum->block.is_active = false;
    sum->block.leased = 0;
    sum->pins--;
}

/* Lowers a block that is far more than is needed. It counts from now on; Redis is told next. */
static bool lower(const struct remote_money *money, struct sum *sum, tg_ms now)
{
    tg_micro enough = num_add(sum->block.waiting, money_block_demand(money, sum, now));
    tg_micro spare = money_block_spare(sum);

    if (spare <= num_add(enough, enough))
        return false;
    sum->block.leased = num_add(sum_used(sum), enough);
    return true;
}

static bool is_near_the_end(const struct sum *sum)
{
    const struct sum_block *block = &sum->block;
    tg_micro used = num_add(block->others_used, num_max(block->leased, sum_used(sum)));

    return block->is_watched ||
           (block->amount < TG_NUMBER_MAX && num_less(block->amount, used) < block->amount / 5);
}

/* What is in the block of Redis, and is neither in use here nor to be spent. */
static bool has_to_give(const struct sum *sum)
{
    return money_block_spare(sum) == 0 && sum->block.e > sum->block.held;
}

static bool wants_now(const struct remote_money *money, const struct sum *sum, tg_ms now)
{
    const struct sum_block *block = &sum->block;
    tg_micro spare = money_block_spare(sum), demand = money_block_demand(money, sum, now);

    if (block->retold != money->retell || (block->takes_over && !money->sums.shared))
        return true;
    /* A whole block is kept above half, for Redis may be away for a moment; of one that the budget
     * bounds, less lies idle where nobody uses it. */
    bool is_whole = block->granted >= demand - demand / 4;
    tg_micro least = is_whole ? demand / 2 : block->granted / 4;
    if (block->amount < TG_NUMBER_MAX && demand > 0 && (spare < least || block->heard == 0))
        return true;
    if ((sum_is_unacked(sum) || has_to_give(sum)) &&
        now - block->asked_at >= (money->leaving ? 0 : TELL_MS))
        return true;
    tg_ms every = is_near_the_end(sum) ? NEAR_MS : REFRESH_MS;
    bool matters = block->leased > 0 || block->is_watched || now - block->touched_at < IDLE_MS;
    return matters && now - block->asked_at >= every;
}

/* Whether something is to be asked for a window. `tick`: in its regular turn. */
static bool wants(const struct remote_money *money, struct sum *sum, tg_ms now, bool tick)
{
    struct sum_block *block = &sum->block;
    bool is_stuck = now - block->asked_at >= STUCK_MS;

    if ((block->gives_back || block->in_flight >= IN_FLIGHT_MAX) && !is_stuck)
        return false;
    if (block->waiting > 0 && block->asked < block->wait_mark)
        return true;
    if ((block->in_flight > 0 && !is_stuck) ||
        (block->failed > block->heard && now - block->asked_at < RETRY_MS))
        return false;
    if (tick && block->in_flight == 0 && lower(money, sum, now)) {
        block->gives_back = true;
        return true;
    }
    return wants_now(money, sum, now);
}

/* ---- Building ---- */

static struct block_ask *ask_new(struct remote_money_port *port, tg_ms now)
{
    struct remote_money *money = port->money;
    struct block_ask *ask = malloc(sizeof *ask);

    if (!ask)
        return NULL;
    ask->port = port;
    ask->n = 0;
    ask->sent_at = now;
    ask->alone = !money->sums.shared && !money->retired;
    ask->number = ++money->block_asks;
    money->block_sequence = num_max(money->block_sequence + 1, now * 1000);
    ask->sequence = money->block_sequence;
    return ask;
}

/* Where many wait, as many may come. */
static tg_micro wanted_of(const struct remote_money *money, const struct sum *sum, tg_ms now)
{
    tg_micro demand = money_block_demand(money, sum, now);

    if (sum->block.amount == TG_NUMBER_MAX || demand == 0)
        return 0;
    return num_max(demand, sum->block.waiting);
}

/* A copy of what is to be reported about others. Null: nothing, or there is no memory for it. */
static char *memory_of(const struct sum_block *block)
{
    size_t n = block->memory ? strlen(block->memory) : 0;
    size_t more = block->written_off ? strlen(block->written_off) : 0;
    char *text = n + more > 0 ? malloc(n + more + 1) : NULL;

    if (!text)
        return NULL;
    if (n > 0)
        memcpy(text, block->memory, n);
    if (more > 0)
        memcpy(text + n, block->written_off, more);
    text[n + more] = '\0';
    return text;
}

int64_t money_port_epoch(const struct remote_money_port *port, const struct sum_block *block)
{
    struct redis_stats stats;

    if (block->epoch > 0)
        return block->epoch;
    redis_get_stats(port->redis, &stats);
    return stats.failed > 0 ? 1 : 0;
}

static void ask_add(struct block_ask *ask, struct sum *sum, tg_ms now)
{
    const struct remote_money *money = ask->port->money;
    struct sum_block *block = &sum->block;
    struct block_part *part = &ask->parts[ask->n++];
    bool retells = block->retold != money->retell;

    assert(ask->n <= BLOCK_WINDOWS_MAX && block->is_active);
    sum->pins++;
    block->in_flight++;
    block->asked = ask->number;
    block->asked_at = now;
    block->retold = money->retell;
    block->is_watched = false;
    *part = (struct block_part){
        .window = {.sum = sum, .told = sum_tell(sum)},
        .amount = block->amount,
        .held = sum->block.held,
        .kept = money_block_spare(sum),
        .needed = block->waiting,
        .wanted = wanted_of(money, sum, now),
        .largest = block->largest,
        .gives_back = block->gives_back || has_to_give(sum),
        .epoch = money_port_epoch(ask->port, block),
        .version = block->version,
        .keep = money_sum_keep(sum, now),
        .spent = num_add(sum_total(sum), sum->credited),
    };
    if (retells)
        part->memory = memory_of(block);
    part->writes_off = part->memory && block->written_off;
    /* What is given back must not be raised again by an answer to what was asked before. */
    if (part->gives_back && block->in_flight > 1)
        part->gives_back = false;
    block->gives_back = part->gives_back;
}

static bool is_same_slot(const struct sum *a, const struct sum *b)
{
    const char *end = memchr(a->key, '}', a->key_n);
    size_t n = end ? (size_t)(end - a->key) + 1 : a->key_n;

    return b->key_n >= n && memcmp(a->key, b->key, n) == 0;
}

static void ask_send(struct block_ask *ask);

/* Joins windows of one slot that are found in one turn, unless the slot is half-moved. */
static bool add_to_one(struct remote_money_port *port, struct block_ask **asks, size_t *n,
                       struct sum *sum, tg_ms now)
{
    bool is_alone = now < sum->block.split_until;

    for (size_t i = *n; i-- > 0 && !is_alone;)
        if (asks[i]->n < BLOCK_WINDOWS_MAX && is_same_slot(asks[i]->parts[0].window.sum, sum) &&
            now >= asks[i]->parts[0].window.sum->block.split_until) {
            ask_add(asks[i], sum, now);
            return true;
        }
    if (*n == ASKS_MAX || (asks[*n] = ask_new(port, now)) == NULL)
        return false;
    ask_add(asks[(*n)++], sum, now);
    return true;
}

/* ---- For a call ---- */

void money_port_ask_for(struct remote_money_port *port, struct remote_money_ticket *claim)
{
    tg_ms now = money_port_now(port);
    struct block_ask *asks[ASKS_MAX];
    size_t n = 0;

    pthread_mutex_lock(&port->money->lock);
    for (size_t i = 0; i < claim->block_windows; i++) {
        struct sum *sum = claim->windows[i].sum;
        struct slice key = sum_hash_key(sum);
        if (sum->block.is_active && wants(port->money, sum, now, false) &&
            redis_is_up(port->redis, &key) && !add_to_one(port, asks, &n, sum, now))
            break;
    }
    pthread_mutex_unlock(&port->money->lock);
    for (size_t i = 0; i < n; i++)
        ask_send(asks[i]);
}

/* ---- In turn ---- */

void money_port_tick_blocks(struct remote_money_port *port)
{
    struct remote_money *money = port->money;
    tg_ms now = money_port_now(port);
    struct block_ask *asks[ASKS_MAX];
    size_t n = 0;

    pthread_mutex_lock(&money->lock);
    for (size_t left = money->n_active; left > 0; left--) {
        struct sum *sum = TAILQ_FIRST(&money->active);
        struct slice key = sum_hash_key(sum);
        TAILQ_REMOVE(&money->active, sum, block.list);
        TAILQ_INSERT_TAIL(&money->active, sum, block.list);
        rate(&sum->block, now);
        if (has_no_use(money, sum, now))
            deactivate(money, sum);
        else if (redis_is_up(port->redis, &key) && wants(money, sum, now, true) &&
                 !add_to_one(port, asks, &n, sum, now))
            break;
    }
    pthread_mutex_unlock(&money->lock);
    for (size_t i = 0; i < n; i++)
        ask_send(asks[i]);
}

/* ---- Hearing ---- */

enum { BLOCK_NUMBERS = 8 };

enum { VERDICT_STALE, VERDICT_BLOCK, VERDICT_FORGOTTEN, VERDICT_QUIET };

/* What it says of the others; it is told again if Redis forgets it. */
static void keep_memory(struct sum_block *block, const struct redisReply *text)
{
    struct slice memory = redis_reply_text(text);
    char *copy = memory.n > 0 ? malloc(memory.n + 1) : NULL;

    if (copy) {
        memcpy(copy, memory.at, memory.n);
        copy[memory.n] = '\0';
    }
    free(block->memory);
    block->memory = copy;
}

static bool hear_block(struct remote_money *money, const struct block_ask *ask,
                       const struct block_part *part, const int64_t *numbers,
                       const struct redisReply *memory)
{
    struct sum *sum = part->window.sum;
    struct sum_block *block = &sum->block;
    tg_micro before = numbers[4], total = sum_total(sum), sent = part->window.told.sent;
    bool is_credited = part->window.told.lowered != sum->lowered;
    bool loss = money_sums_hear(&money->sums, sum, before, &part->window.told);

    block->is_heard = true;
    block->e = numbers[1];
    block->others_used = numbers[2];
    block->others_settled = num_less(numbers[3], num_max(before, sent));
    block->epoch = numbers[6];
    block->version = numbers[7];
    sum->settled = numbers[3];
    sum->outstanding = num_add(num_less(block->others_used, block->others_settled), block->e);
    if (ask->alone)
        block->takes_over = false;
    keep_memory(block, memory);
    if (part->writes_off) {
        free(block->written_off);
        block->written_off = NULL;
    }
    /* What was settled since then has left the block here, and not yet there. A credit meanwhile is
     * not what was granted: the next answer says what that is. */
    if (!is_credited)
        block->leased = num_less(num_add(sum_total(sum), block->e), total - sent);
    else
        block->wait_mark = money->block_asks + 1;
    block->granted = money_block_spare(sum);
    block->is_short = block->e < num_add(part->held, part->needed);
    if (numbers[5] == 1)
        block->short_until = ask->sent_at + SHORT_MS;
    return loss;
}

static void ask_again(struct remote_money *money, struct sum_block *block)
{
    block->wait_mark = money->block_asks + 1;
    block->asked_at = 0;
}

static bool hear_part(struct remote_money *money, const struct block_ask *ask, size_t i,
                      const int64_t *numbers, const struct redisReply *memory)
{
    const struct block_part *part = &ask->parts[i];
    struct sum_block *block = &part->window.sum->block;

    if (ask->number <= block->heard)
        return false; /* what came since is newer */
    switch (numbers[0]) {
    case VERDICT_STALE:
        /* A later one came first; or a former process of that name had another clock. */
        money->block_sequence = num_max(money->block_sequence, numbers[1]);
        ask_again(money, block);
        return false;
    case VERDICT_FORGOTTEN:
        block->retold = money->retell - 1;
        /* Nothing is remembered: then there is nothing to be told. */
        if (!block->memory)
            block->epoch = block->version = 0;
        ask_again(money, block);
        return true;
    case VERDICT_QUIET:
        block->failed = ask->number;
        break;
    default:
        block->heard = ask->number;
        break;
    }
    return hear_block(money, ask, part, numbers, memory);
}

/* Its windows are on two sides of a slot that moves: from now on each is asked for alone. */
static void hear_split(struct remote_money *money, const struct block_ask *ask, tg_ms now)
{
    for (size_t i = 0; i < ask->n; i++) {
        struct sum_block *block = &ask->parts[i].window.sum->block;
        block->split_until = now + SPLIT_MS;
        ask_again(money, block);
    }
}

static bool hear(struct remote_money *money, const struct block_ask *ask,
                 const struct redisReply *reply)
{
    int64_t numbers[BLOCK_NUMBERS * BLOCK_WINDOWS_MAX];
    size_t n = BLOCK_NUMBERS * ask->n;
    bool loss = false,
         fine = redis_reply_n(reply) == n + ask->n && money_args_read(reply, n, numbers);

    for (size_t i = 0; i < ask->n; i++) {
        struct sum_block *block = &ask->parts[i].window.sum->block;
        if (fine)
            loss |=
                hear_part(money, ask, i, numbers + BLOCK_NUMBERS * i, redis_reply_at(reply, n + i));
        else
            block->failed = num_max(block->failed, ask->number);
    }
    return loss;
}

static void ask_free(struct block_ask *ask)
{
    for (size_t i = 0; i < ask->n; i++)
        free(ask->parts[i].memory);
    free(ask);
}

static void block_answered(struct redis_ask *redis_ask, const struct redisReply *reply)
{
    struct block_ask *ask = (struct block_ask *)redis_ask;
    struct remote_money_port *port = ask->port, *each;
    struct remote_money *money = port->money;

    pthread_mutex_lock(&money->lock);
    if (reply && resp_error_of(reply) == RESP_TRYAGAIN && ask->n > 1)
        hear_split(money, ask, money_port_now(port));
    else if (hear(money, ask, reply))
        money_repair(money);
    for (size_t i = 0; i < ask->n; i++) {
        struct sum *sum = ask->parts[i].window.sum;
        assert(sum->pins > 0 && sum->block.in_flight > 0);
        sum->pins--;
        sum->block.in_flight--;
        if (ask->parts[i].gives_back)
            sum->block.gives_back = false;
    }
    if (money->waiting > 0)
        LIST_FOREACH(each, &money->ports, of_money)
            net_loop_post(each->loop, &each->wake);
    pthread_mutex_unlock(&money->lock);
    assert(port->asks > 0);
    port->asks--;
    ask_free(ask);
}

/* ---- Sending ---- */

static void ask_send(struct block_ask *ask)
{
    struct remote_money *money = ask->port->money;
    struct slice keys[BLOCK_WINDOWS_MAX];
    struct money_args args;

    money_args_init(&args);
    money_args_number(&args, money->callers_clock ? atomic_load(&money->latest) : 0);
    money_args_text(&args, money->ledger, strlen(money->ledger));
    money_args_text(&args, money->node, strlen(money->node));
    money_args_number(&args, ask->sequence);
    money_args_number(&args, ask->alone);
    money_args_number(&args, (int64_t)atomic_load(&money->nodes));
    for (size_t i = 0; i < ask->n; i++) {
        const struct block_part *part = &ask->parts[i];
        keys[i] = sum_hash_key(part->window.sum);
        money_args_number(&args, part->amount);
        money_args_number(&args, part->window.told.sent);
        money_args_number(&args, part->held);
        money_args_number(&args, part->kept);
        money_args_number(&args, part->gives_back);
        money_args_number(&args, part->needed);
        money_args_number(&args, part->wanted);
        money_args_number(&args, part->largest);
        money_args_number(&args, part->epoch);
        money_args_number(&args, part->version);
        money_args_text(&args, part->memory ? part->memory : "",
                        part->memory ? strlen(part->memory) : 0);
        money_args_number(&args, part->keep);
        money_args_number(&args, part->spent);
    }
    ask->port->asks++;
    atomic_fetch_add_explicit(&money->n_blocks, 1, memory_order_relaxed);
    redis_ask_init(&ask->ask, block_answered, NULL);
    redis_eval(ask->port->redis, &ask->ask, &script_money_block, keys, ask->n, args.list, args.n);
}
