/* remote_money_port.c - the part of remote money on one loop, and what it does beside calls.
 *
 * Every period: leases of calls that run long are renewed, ends that did not arrive are noted
 * again, blocks are leased or returned, and sums are sent.
 *
 * Sums are sent with every reservation and settlement in their window, so nothing is missing while
 * nothing breaks. All of them are sent again when a connection has come back, for the server behind
 * it may be one that lost writes, and when an answer shows that Redis has less than it had
 * acknowledged. In between a few are sent in turn, whether they changed or not: whatever else
 * happens, Redis is right again after a while, and windows without an end stay alive.
 */
#include <stdlib.h>

#include "server/remote_store/remote_money_internal.h"

enum {
    UPDATES_MAX = 64,    /* on the way at once, of a port */
    SWEEP = 256,         /* sums looked at in a period */
    SWEEP_UNCHANGED = 2, /* sums sent although nothing has changed */
    NOTES_MAX = 512,     /* renewed or ended in a period: calls must not wait for it */
    REPAIRS_MS = 1000,   /* between two */
};

/* ---- Sums ---- */

static bool is_worth_sending(struct remote_money_port *port, const struct sum *sum)
{
    struct slice key = sum_hash_key(sum);

    /* Windows with blocks are told by those who ask for blocks. */
    return !sum->updating && (sum->lowering || (sum_total(sum) > 0 && !sum->block.is_active)) &&
           redis_is_up(port->redis, &key);
}

static bool is_over(const struct sum *sum, tg_ms now)
{
    return sum->pins == 0 && num_add(sum->end, SUM_GRACE_MS) < now;
}

/* The next of the ring. Null: there is nothing to send. */
static struct money_update *next_of_repair(struct remote_money_port *port, tg_ms now)
{
    struct sum *sum = money_sums_next(&port->money->sums);

    port->money->to_send--;
    return is_worth_sending(port, sum) ? money_update_new(port, sum, now) : NULL;
}

static void send_all(struct money_update **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        money_update_send(list[i]);
}

void money_port_send_sums(struct remote_money_port *port)
{
    struct remote_money *money = port->money;
    struct money_update *list[UPDATES_MAX], *update;
    size_t n = 0;
    tg_ms now = money_port_now(port);

    pthread_mutex_lock(&money->lock);
    while (money->to_send > 0 && money->sums.table.n > 0 && port->updates + n < UPDATES_MAX)
        if ((update = next_of_repair(port, now)) != NULL)
            list[n++] = update;
    pthread_mutex_unlock(&money->lock);
    send_all(list, n);
}

/* Forgets windows that are over, tells what changed and nobody will tell, and some of the rest. */
static void sweep(struct remote_money_port *port, tg_ms now)
{
    struct remote_money *money = port->money;
    struct sums *sums = &money->sums;
    struct money_update *list[UPDATES_MAX], *update;
    size_t n = 0, unchanged = 0;

    pthread_mutex_lock(&money->lock);
    for (size_t i = 0; i < SWEEP && i < sums->table.n && port->updates + n < UPDATES_MAX; i++) {
        struct sum *sum = money_sums_next(sums);
        if (is_over(sum, now)) {
            money_sums_remove(sums, sum);
            continue;
        }
        if ((sum->pins > 0 && !sum->lowering) || !is_worth_sending(port, sum) ||
            (!sum_is_unacked(sum) && !sum->lowering && unchanged++ >= SWEEP_UNCHANGED))
            continue;
        if ((update = money_update_new(port, sum, now)) != NULL)
            list[n++] = update;
    }
    pthread_mutex_unlock(&money->lock);
    send_all(list, n);
}

/* Whether a new connection, or a loss, means that everything is sent again. */
static bool check_losses(struct remote_money_port *port, tg_ms now)
{
    struct remote_money *money = port->money;
    struct redis_stats stats;
    bool lost;

    redis_get_stats(port->redis, &stats);
    pthread_mutex_lock(&money->lock);
    lost = stats.connects != port->connects || port->reasserted != money->reassert;
    if (stats.connects != port->connects && !money->repair_due)
        money->retell++;
    money->repair_due = money->repair_due || stats.connects != port->connects;
    if (money->repair_due && stats.links_up > 0 &&
        (money->repaired_at == 0 || now - money->repaired_at >= REPAIRS_MS)) {
        money->repair_due = false;
        money->repaired_at = now;
        money->to_send = money->sums.table.n;
    }
    port->connects = stats.connects;
    port->reasserted = money->reassert;
    pthread_mutex_unlock(&money->lock);
    return lost;
}

/* ---- Leases ---- */

static bool can_note(const struct remote_money_ticket *claim)
{
    struct slice key = sum_hash_key(claim->windows[claim->block_windows].sum);

    return !claim->in_flight && redis_is_up(claim->port->redis, &key);
}

/* Those that are due stand first in the list. */
static void renew(struct remote_money_port *port, tg_ms now, bool all)
{
    struct remote_money_ticket *claim, *next;
    size_t notes = 0;

    if (all)
        TAILQ_FOREACH(claim, &port->lists[MONEY_CLAIM_HELD].claims, list)
            claim->renewed_at = 0;
    claim = TAILQ_FIRST(&port->lists[MONEY_CLAIM_HELD].claims);
    for (size_t n = port->lists[MONEY_CLAIM_HELD].n; n > 0 && notes < NOTES_MAX;
         n--, claim = next) {
        next = TAILQ_NEXT(claim, list);
        if (now - claim->renewed_at < port->money->lease_ttl / 3)
            break;
        if (money_claim_has_root(claim) && can_note(claim)) {
            money_claim_renew(claim);
            notes++;
        }
    }
}

static void end_again(struct remote_money_port *port)
{
    struct remote_money_ticket *claim;
    size_t notes = 0;

    TAILQ_FOREACH(claim, &port->lists[MONEY_CLAIM_ENDING].claims, list) {
        if (notes == NOTES_MAX)
            break;
        if (can_note(claim)) {
            money_claim_end(claim);
            notes++;
        }
    }
}

/* ---- Life ---- */

static void remote_money_port_tick(void *arg)
{
    struct remote_money_port *port = arg;
    tg_ms now = money_port_now(port);

    renew(port, now, check_losses(port, now));
    end_again(port);
    money_port_tick_blocks(port);
    money_port_send_sums(port);
    sweep(port, now);
    net_timer_set(port->loop, &port->timer, port->money->period);
}

enum tg_err remote_money_port_new(struct remote_money *money, struct net_loop *loop,
                                  struct redis *redis, struct remote_money_port **port)
{
    struct remote_money_port *fresh = calloc(1, sizeof *fresh);

    if (!fresh)
        return TG_ERR_MEMORY;
    fresh->money = money;
    fresh->loop = loop;
    fresh->redis = redis;
    net_timer_init(&fresh->timer, remote_money_port_tick, fresh);
    net_post_init(&fresh->ready, money_port_run_ready, fresh);
    net_post_init(&fresh->wake, money_port_wake, fresh);
    net_timer_set(loop, &fresh->timer, money->period);
    for (size_t i = 0; i < MONEY_CLAIM_STATES; i++)
        TAILQ_INIT(&fresh->lists[i].claims);
    pthread_mutex_lock(&money->lock);
    fresh->reasserted = money->reassert;
    LIST_INSERT_HEAD(&money->ports, fresh, of_money);
    pthread_mutex_unlock(&money->lock);
    *port = fresh;
    return TG_OK;
}

void remote_money_port_free(struct remote_money_port *port)
{
    if (!port)
        return;
    pthread_mutex_lock(&port->money->lock);
    LIST_REMOVE(port, of_money); /* nobody posts to it from here on */
    pthread_mutex_unlock(&port->money->lock);
    net_timer_stop(port->loop, &port->timer);
    net_loop_unpost(port->loop, &port->ready);
    net_loop_unpost(port->loop, &port->wake);
    atomic_fetch_sub_explicit(&port->money->tickets, port->lists[MONEY_CLAIM_HELD].n,
                              memory_order_relaxed);
    for (size_t i = 0; i < MONEY_CLAIM_STATES; i++)
        while (port->lists[i].n > 0)
            money_claim_discard(TAILQ_FIRST(&port->lists[i].claims));
    free(port);
}
