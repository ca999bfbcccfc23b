/* remote_money_internal.h - what remote money consists of. Private to remote_money*.c.
 *
 * A call is a claim, from its reservation to the acknowledgement of its settlement:
 *
 *     (new) --> WAITING ---> ASKED -----> HELD ---> ENDING ---> (gone)
 *        |     for a block   for the      by the    for the
 *        |        of         script       caller    note of
 *        |     everyone's      |                    its end
 *        |         |           | too late, or         ^
 *        +---------+--> READY  | cancelled            |
 *                       is     +------> ORPHAN -------+  a yes, or nobody knows
 *                       told
 *
 * Claims of a state are a list of their port. Whatever a claim holds here (at windows of everyone
 * `taken`, at the others `reserved`) is in sum.held of its windows, which it has pinned.
 *
 * Lock: `lock` of struct remote_money covers the sums, the blocks and the list of ports. It is
 * never held while something is called back or sent.
 */
#ifndef TG_REMOTE_STORE_REMOTE_MONEY_INTERNAL_H
#define TG_REMOTE_STORE_REMOTE_MONEY_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/remote_store/remote_money.h"
#include "server/remote_store/remote_money_sums.h"

enum {
    MONEY_WINDOWS_MAX = TG_BUDGETS_MAX * TG_LEVELS_MAX,
    MONEY_KEY_MAX = 4096,
    MONEY_NODE_MAX = 40,
    MONEY_LEASE_MAX = MONEY_NODE_MAX + 24,
};

/* ---- Claims ---- */

enum money_claim_state {
    MONEY_CLAIM_READY,
    MONEY_CLAIM_WAITING,
    MONEY_CLAIM_ASKED,
    MONEY_CLAIM_ORPHAN,
    MONEY_CLAIM_HELD,
    MONEY_CLAIM_ENDING,
    MONEY_CLAIM_STATES,
};

struct claim_window {
    struct sum *sum;
    struct sum_told told;
};

struct claim_budget {
    tg_micro amount; /* at most TG_NUMBER_MAX */
    tg_account account;
    tg_ms end;
    unsigned char window; /* index */
    unsigned char per;    /* enum tg_per */
    bool shadow;
};

/* The public names are those of a claim before and after it is decided. */
struct remote_money_ticket {
    struct remote_money_port *port;
    TAILQ_ENTRY(remote_money_ticket) list; /* its port's list for its state */
    enum money_claim_state state;
    bool in_flight; /* `ask` */
    bool remote;    /* Redis may have a reservation of this lease */
    bool peek;      /* the script only looks: a budget of everyone has refused, or `seen` is set */
    bool up_to;
    tg_micro money;           /* asked for */
    tg_micro taken, reserved; /* held at windows of everyone, and at the others */
    tg_ms at;                 /* its caller's now */
    tg_ms renewed_at;
    uint64_t waits_for; /* the number of the ask for blocks that has its need in it; 0: none */
    struct net_timer timer;
    struct redis_ask ask;
    remote_money_decided *decided;
    remote_money_seen *seen; /* not null: it reserves nothing, and this is told instead */
    void *context;
    enum tg_err err; /* READY: what it is told, with `answer` */
    struct tg_money_answer answer;

    /* From the top, those of everyone first. */
    struct claim_window *windows;
    struct claim_budget *budgets;
    size_t n_windows, n_budgets;
    size_t every_windows, every_budgets; /* how many of them are everyone's */
    size_t lease_n;
    char lease[MONEY_LEASE_MAX];
};

struct remote_money_ask {
    struct remote_money_ticket claim;
};

struct claim_list {
    TAILQ_HEAD(, remote_money_ticket) claims;
    size_t n;
};

/* ---- Blocks of the budget of everyone ---- */

struct money_blocks {
    struct sum *windows[TG_BUDGETS_MAX]; /* those of now; pinned */
    tg_micro amounts[TG_BUDGETS_MAX];    /* the least that is enforced in each */
    size_t n;
    bool asking;                   /* one ask at a time */
    uint64_t asked, heard, failed; /* numbers of asks: the last of each kind */
    int64_t sequence;              /* sent to Redis, grows over restarts */
    tg_micro waiting;              /* asked for by claims that wait */
    tg_micro taken;                /* since `rated_at` */
    double rate;                   /* micro-dollars a ms that are taken */
    tg_ms rated_at, taken_at, asked_at;
    size_t alive; /* nodes */
    bool leaving; /* keeps nothing to itself */
    bool retired; /* another process asks for this ledger */
};

/* What is asked of Redis; in its port. */
struct block_ask {
    struct redis_ask ask;
    bool in_flight;
    uint64_t number;
    int64_t sequence;
    tg_ms sent_at;
    size_t n;
    struct claim_window windows[TG_BUDGETS_MAX]; /* pinned */
    tg_micro amount[TG_BUDGETS_MAX], used[TG_BUDGETS_MAX];
    tg_micro needed[TG_BUDGETS_MAX], wanted[TG_BUDGETS_MAX];
    tg_ms keep[TG_BUDGETS_MAX];
};

/* ---- The whole ---- */

struct remote_money {
    char *prefix, *node;
    char ledger[17];
    tg_ms timeout, lease_ttl, period;
    bool callers_clock;
    struct spending *spending;
    _Atomic uint64_t leases;
    _Atomic tg_ms latest; /* `now` of callers */

    pthread_mutex_t lock;
    struct sums sums;
    struct money_blocks blocks;
    LIST_HEAD(, remote_money_port) ports;
    bool repair_due;
    tg_ms repaired_at;
    size_t to_send;    /* sums that a repair has yet to send */
    uint64_t reassert; /* counts losses: each port tells its leases again */

    _Atomic size_t tickets;
    _Atomic uint64_t n_asked, n_late, n_lost, n_late_yes, n_losses, n_told, n_blocks;
};

struct remote_money_port {
    struct remote_money *money;
    LIST_ENTRY(remote_money_port) of_money; /* under the lock */
    struct net_loop *loop;
    struct redis *redis;
    struct net_timer timer;
    struct net_post ready; /* answers claims that were decided at once */
    struct net_post wake;  /* blocks have come */
    struct claim_list lists[MONEY_CLAIM_STATES];
    struct block_ask block;
    size_t updates; /* in flight */
    uint64_t connects, reasserted;
};

/* ---- remote_money.c ---- */

tg_ms money_port_now(const struct remote_money_port *port);

/* The lock is held: Redis has forgotten something, and everything is sent again. */
void money_repair(struct remote_money *money);

/* ---- remote_money_port.c ---- */

/* Asks for blocks if that is worth it. */
void money_port_ask_blocks(struct remote_money_port *port, bool tick);

/* Tells sums beside calls, as many as may be on the way. */
void money_port_send_sums(struct remote_money_port *port);

/* ---- remote_money_call.c ---- */

/* Answers claims that were decided at once; claims that wait for a block try again. */
void money_port_run_ready(void *port);
void money_port_wake(void *port);

/* Its port goes: it is freed, whatever its state. */
void money_claim_discard(struct remote_money_ticket *claim);

/* Tells Redis that the lease stands, or has ended. */
void money_claim_renew(struct remote_money_ticket *claim);
void money_claim_end(struct remote_money_ticket *claim);

/* ---- remote_money_claim.c ---- */

/* Looks up the budgets on the way of a call and pins their windows. TG_ERR_MEMORY, TG_ERR_UNKNOWN,
 * TG_ERR_FULL, TG_ERR_INVALID. On the list of READY. */
enum tg_err money_claim_new(struct remote_money_port *port, const struct spending_call *call,
                            tg_ms now, struct remote_money_ticket **claim);
void money_claim_free(struct remote_money_ticket *claim);

void money_claim_move(struct remote_money_ticket *claim, enum money_claim_state state);

static inline bool money_claim_has_root(const struct remote_money_ticket *claim)
{
    return claim->n_windows > claim->every_windows;
}

/* The lock is held: whether its money can be counted on top of what is held already. */
bool money_claim_fits(const struct remote_money_ticket *claim);

/* The lock is held: what it holds at windows of everyone, and at the others, is this from now on.
 */
void money_claim_hold(struct remote_money_ticket *claim, tg_micro taken, tg_micro reserved);

/* Runs the script, then `answered`. Or notes that the lease has ended (money < 0) or stands. */
void money_claim_send_reserve(struct remote_money_ticket *claim,
                              void (*answered)(struct redis_ask *, const struct redisReply *));
void money_claim_send_note(struct remote_money_ticket *claim, tg_micro money,
                           void (*answered)(struct redis_ask *, const struct redisReply *));

/* Reads a reply into `answer`. False: it makes no sense. */
bool money_claim_read_reserve(struct remote_money_ticket *claim, const struct redisReply *reply,
                              enum tg_err *err, struct tg_money_answer *answer);
bool money_claim_read_note(struct remote_money_ticket *claim, const struct redisReply *reply);

/* Tells Redis one sum, beside calls. The lock is held until it is sent: `sum` is not `updating`. */
struct money_update;
struct money_update *money_update_new(struct remote_money_port *port, struct sum *sum, tg_ms now);
void money_update_send(struct money_update *update);

/* Writes the key of a window. 0: it is too long. */
size_t money_key(const struct remote_money *money, const struct spending_account *account,
                 tg_ms begin, tg_ms end, char key[MONEY_KEY_MAX]);

/* ---- remote_money_rules.c ---- */

struct rule_state {
    tg_micro settled, outstanding; /* in the budget's window */
};

struct rule_answer {
    tg_micro least;
    size_t binding; /* the budget that refuses; n: none does */
    bool contended;
    unsigned would_deny;
};

/* What budgets say to a call that needs so much: the rules of tg_bank_reserve(). */
void money_rule_ask(const struct claim_budget *budgets, const struct rule_state *states, size_t n,
                    tg_micro need, struct rule_answer *answer);

static inline tg_micro money_rule_need(const struct remote_money_ticket *claim)
{
    return claim->up_to || claim->money == 0 ? 1 : claim->money;
}

/* A refusal in the words of the bank. */
void money_rule_refuse(const struct claim_budget *budgets, const struct rule_state *states,
                       const struct rule_answer *said, struct tg_money_answer *answer);

/* ---- remote_money_blocks.c ---- */

enum block_verdict { BLOCK_TAKEN, BLOCK_REFUSED, BLOCK_WAIT, BLOCK_AWAY, BLOCK_FULL };

/* The lock is held, here and below. Takes what the claim asks for out of what is leased, all of it
 * where everyone has no budget; or says no in claim->answer; or it has to wait, and its need is in
 * the next ask. */
enum block_verdict money_blocks_take(struct remote_money *money, struct remote_money_ticket *claim,
                                     tg_ms now);

/* What budgets of everyone would say to the claim, by what was last heard; nothing is taken. */
void money_blocks_peek(struct remote_money_ticket *claim);

/* Settled and outstanding of everyone's budgets, as far as they are known. */
void money_blocks_states(const struct remote_money_ticket *claim, struct rule_state *states);

/* It waits no longer. */
void money_blocks_leave(struct remote_money *money, struct remote_money_ticket *claim);

/* Whether something is to be asked; gives back what is not needed. `tick`: in its regular turn. */
bool money_blocks_want(struct remote_money *money, tg_ms now, bool tick);

/* The ask that is to be sent. */
void money_blocks_build(struct remote_money *money, struct block_ask *ask, tg_ms now);

/* What came of it. True: Redis has forgotten something. */
bool money_blocks_heard(struct remote_money *money, struct block_ask *ask,
                        const struct redisReply *reply);

void money_blocks_send(struct remote_money_port *port);

#endif
