/* remote_money.h - budgets that many nodes share: reserved and settled in Redis.
 *
 *     remote_money_new(&options, spending, &money)              one for each process
 *     remote_money_port_new(money, loop, redis, &port)          one for each loop
 *
 *     spending_reserve(...)                                     this node's own books first
 *     remote_money_reserve(port, &call, now, decided, context)  ->  ask
 *     ... decided(context, TG_OK, &answer, ticket), once, never from inside
 *     remote_money_cancel(ask)                                  instead: a late yes is refunded
 *     spending_settle(...); remote_money_settle(ticket, spent, now)
 *
 * The bank of each node knows what that node has spent; Redis knows what all of them have. For each
 * account and window Redis keeps one sum for each ledger, of what was ever settled through it
 * there, and the reservations that are outstanding, by lease id, each with an end. A sum only
 * grows, and is merged by max(): a settlement may come twice, late or in any order, and one that
 * was lost is made good by the next. A credit alone lowers it, by a script of its own. Whatever
 * Redis forgets (a failover, a restart, a flush), each node tells it again: the sums from its
 * books, the reservations from its tickets.
 *
 *     settled = sum over ledgers of max(sent by it)      used = settled + outstanding
 *
 * With `blocks` (two tiers), each process leases blocks of all budgets on the way of its calls,
 * decides here as long as they last, and Redis is no part of that (remote_money_blocks.c,
 * remote_money_lease.c). Without, user, tenant and parents, which stand in one slot, are decided by
 * one script for each call, by the rules of tg_bank_reserve(); the budget of everyone, which is on
 * the way of all calls, is leased in either case. What a process had reserved that is not heard of
 * any more becomes its block.
 *
 * Amounts and sums are exact up to TG_NUMBER_MAX micro-dollars, nine thousand million dollars; an
 * amount above that counts as that. docs/distributed.md has what is promised when something dies.
 *
 * Threads: remote_money and what looks at it from any; a port, its asks and tickets belong to the
 * thread of its loop.
 */
#ifndef TG_REMOTE_STORE_REMOTE_MONEY_H
#define TG_REMOTE_STORE_REMOTE_MONEY_H

#include "io/redis/redis.h"
#include "server/ledger/spending.h"

struct remote_money;
struct remote_money_port;
struct remote_money_ask;
struct remote_money_ticket;

struct remote_money_options {
    const char *prefix; /* first part of all keys; default "tg"; copied */
    const char *node;   /* 1 to 40 bytes, no other process has it; begins every lease id, after the
                           ledger; copied */
    uint64_t ledger;    /* ledger_id(); without a ledger that lasts: random */
    tg_ms timeout;      /* for a reservation, blocks included; 1 to 60000; default 200 */
    tg_ms lease_ttl;    /* until a reservation that is not renewed is in its process's block; it is
                           renewed three times as often; 100 to 3600000; default 60000 */
    tg_ms period;       /* between two rounds of renewals, repairs, blocks; default 250 */
    size_t max_windows; /* accounts times windows that are remembered; default 1048576 */
    bool shared;        /* an earlier process may settle through the ledger, until
                           remote_money_share() says otherwise; default false */
    bool callers_clock; /* leases end by the `now` of calls, not by Redis's time; for tests that
                           bring their own time; default false */
};

void remote_money_options_init(struct remote_money_options *options);

/* `spending` is borrowed. TG_ERR_INVALID, TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err remote_money_new(const struct remote_money_options *options,
                                           struct spending *spending, struct remote_money **money,
                                           struct tg_problem *problem);

/* After its ports. */
void remote_money_free(struct remote_money *money);

/* What the ledger says of current windows, sent to Redis without waiting for calls: at the
 * start, and after each spending_change(). Reads the disk: not from a loop's thread. False: the
 * ledger could not be read; windows are then sent when a call comes to them. */
bool remote_money_adopt(struct remote_money *money, tg_ms now, struct tg_problem *problem);

/* While other processes that were taken over from still settle through this ledger (`shared`),
 * and once more when the last has ended: their blocks are their own until then, and dropped
 * after that. Reads the disk. False: it has to be called again, as this process's own
 * settlements are told with delay until then. */
bool remote_money_share(struct remote_money *money, bool shared, tg_ms now);

/* Another process has taken over: this one keeps nothing of a budget that its calls do not need. */
void remote_money_retire(struct remote_money *money);

/* Redis seems to have lost what it knew, or some of it: everything is told again. */
void remote_money_forgotten(struct remote_money *money);

/* How many gateways are alive: each gets its part at most. */
void remote_money_set_nodes(struct remote_money *money, size_t nodes);

/* Loop and client are borrowed. It sets a timer of its own, every `period`. TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err remote_money_port_new(struct remote_money *money, struct net_loop *loop,
                                                struct redis *redis,
                                                struct remote_money_port **port);

/* After its client, which answers what is in flight, and before its loop. Asks of a caller that are
 * not decided never will be; tickets that were not settled are forgotten, and end by their time. */
void remote_money_port_free(struct remote_money_port *port);

/* Before a clean end, from any thread: blocks are given back but for what is in use, within a
 * period, while the loops still turn. Calls may follow. Done when the stats say untold == 0 and
 * unacked == 0. */
void remote_money_leave(struct remote_money *money);

/* ---- A call ---------------------------------------------------------------------------------- */

/* TG_OK: `answer` is that of tg_bank_reserve(), with another number as reservation, 0 if refused;
 * `ticket` is not null iff it is reserved. With `up_to`, answer->reserved may be less than asked.
 *
 * TG_ERR_STORE: no answer within the time limit, or none at all, or one that makes no sense. If the
 * answer comes later and was a yes, it is given back. TG_ERR_FULL, TG_ERR_UNKNOWN (the tenant). */
typedef void remote_money_decided(void *context, enum tg_err err,
                                  const struct tg_money_answer *answer,
                                  struct remote_money_ticket *ticket);

/* Before `decided`: whether Redis itself is asked, or blocks that it has leased, or neither, as the
 * call has no budget. */
enum remote_money_by { REMOTE_MONEY_BY_NOBODY, REMOTE_MONEY_BY_BLOCKS, REMOTE_MONEY_BY_REDIS };
enum remote_money_by remote_money_by(const struct remote_money_ask *ask);

/* After spending_reserve() of the same call, with `money` what that reserved. Everything is copied.
 * Null: no memory, and nothing was asked. */
struct remote_money_ask *remote_money_reserve(struct remote_money_port *port,
                                              const struct spending_call *call, bool blocks,
                                              tg_ms now, remote_money_decided *decided,
                                              void *context);

/* A budget on the way of a call, as a look finds it. */
struct remote_money_view {
    tg_account account;
    enum tg_per per;
    tg_micro amount; /* or what this node may use of it by itself, without Redis */
    tg_micro settled;
    tg_micro used; /* settled and reserved, by all nodes */
};

enum { REMOTE_MONEY_VIEWS = TG_BUDGETS_MAX * TG_LEVELS_MAX };

/* `answer` is what a reservation would get: its `reservation` is 1 or 0, and nothing is reserved.
 * The views are those of all budgets, from the top. Errors as above. */
typedef void remote_money_seen(void *context, enum tg_err err, const struct tg_money_answer *answer,
                               const struct remote_money_view *views, size_t n);

/* The answer that remote_money_reserve() would get. Budgets of everyone are decided by what was
 * last heard of the other nodes, for a look leases no block; Redis is asked about the others,
 * and with `blocks` what this process holds of them counts as free. Ended by seen() or
 * remote_money_cancel(). */
struct remote_money_ask *remote_money_peek(struct remote_money_port *port,
                                           const struct spending_call *call, bool blocks, tg_ms now,
                                           remote_money_seen *seen, void *context);

/* Before decided(): it does not come any more, and what is reserved meanwhile is given back. */
void remote_money_cancel(struct remote_money_ask *ask);

/* What was spent, as told to spending_settle() just before: negative if it is not known, then what
 * the call asked for. 0 gives everything back. The ticket is gone. Never lost: while Redis is away
 * the sums are kept here. */
void remote_money_settle(struct remote_money_ticket *ticket, tg_micro spent, tg_ms now);

/* A credit has lowered a window in the books of this node: a spending_lowered_fn. Redis is told
 * within a period, once it is there. Not if Redis was never heard of this window, or the process
 * ends before that: then it stays as it is there, until the window ends. */
void remote_money_lower(void *money, const struct spending_account *account,
                        const struct tg_budget_metrics *budget, tg_micro micro);

/* Without Redis: decides by what this process holds, which is nothing of budgets that blocks do not
 * decide. TG_ERR_STORE says that this is not enough, and that there may be more, which others may
 * have. The sums are sent when Redis is back. Not null iff reserved; with `open` it always is, for
 * those who let everything through. TG_ERR_UNKNOWN, TG_ERR_FULL, TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err remote_money_local(struct remote_money_port *port,
                                             const struct spending_call *call, bool blocks,
                                             bool open, tg_ms now, struct tg_money_answer *answer,
                                             struct remote_money_ticket **ticket);

/* The answer of remote_money_local(), nothing is reserved; `views` has room for
 * REMOTE_MONEY_VIEWS. */
TG_MUST_CHECK enum tg_err remote_money_peek_local(struct remote_money_port *port,
                                                  const struct spending_call *call, bool blocks,
                                                  bool open, tg_ms now,
                                                  struct tg_money_answer *answer,
                                                  struct remote_money_view *views, size_t *n);

/* The least that is left on the way of a call, as far as is known here, as tg_bank_left(). */
TG_MUST_CHECK enum tg_err remote_money_left(struct remote_money *money,
                                            const struct spending_call *call, tg_ms now,
                                            tg_micro *left, double *part);

/* ---- Looking --------------------------------------------------------------------------------- */

/* The name of the hash of a window: of the account of a tenant (null: everyone), or of a virtual
 * key of it (null: of the tenant itself). How many bytes; 0 if it does not fit. */
#define REMOTE_MONEY_KEY_MAX 4096
size_t remote_money_window(const struct remote_money *money, const char *tenant,
                           const char *virtual_key, const char *root, tg_ms begin, tg_ms end,
                           char key[REMOTE_MONEY_KEY_MAX]);

/* What all nodes have settled and reserved in such a window, as far as is known here; 0: nothing
 * is. */
tg_micro remote_money_used(struct remote_money *money, const char *tenant, const char *virtual_key,
                           const char *root, tg_ms begin, tg_ms end);

struct remote_money_stats {
    size_t windows; /* remembered */
    size_t unacked; /* windows whose sums Redis has not acknowledged */
    tg_micro unacked_micro;
    size_t tickets;             /* outstanding */
    uint64_t asked, late, lost; /* reservations asked for; not decided in time; without an answer */
    uint64_t late_yes;          /* a yes for somebody who had gone, given back */
    uint64_t losses;            /* times that Redis had forgotten what it had acknowledged */
    uint64_t told;              /* windows sent without a call: repairs */
    uint64_t blocks;            /* asks for blocks */
    tg_micro leased, leased_used; /* held by this process in all windows, and in use */
    size_t untold;                /* windows of whose block Redis has more than calls hold here */
};

void remote_money_get_stats(struct remote_money *money, struct remote_money_stats *stats);

/* Blocks of other processes, as this one heard of them last in windows that it knows: the key of
 * the window, who holds it, how much, and when its holder asked last (by the holder's clock).
 * Must not call remote_money_...() */
typedef void remote_money_block_fn(void *context, struct slice window, struct slice process,
                                   tg_micro micro, tg_ms asked_at);
void remote_money_each_block(struct remote_money *money, remote_money_block_fn *fn, void *context);

/* An operator says that another process is dead, and gives back what it held in the windows that
 * this one knows: Redis is told within a period, once it is there. Not where the other has been
 * heard since. Returns in how many windows; `micro` says how much that is in all of them. */
size_t remote_money_write_off(struct remote_money *money, struct slice process, tg_micro *micro);

#endif
