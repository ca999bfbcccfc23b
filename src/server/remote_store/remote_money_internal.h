/* remote_money_internal.h - what remote money consists of. Private to remote_money*.c.
 *
 * A call is a claim, from its reservation to the acknowledgement of its settlement:
 *
 *     (new) --> WAITING ---> ASKED -----> HELD ---> ENDING ---> (gone)
 *        |     for a block   for the      by the    for the
 *        |         |         script       caller    note of
 *        |         |           |                    its end
 *        |         |           | too late, or         ^
 *        +---------+--> READY  | cancelled            |
 *                       is     +------> ORPHAN -------+  a yes, or nobody knows
 *                       told
 *
 * Claims of a state are a list of their port. A claim's windows are in two parts: those that are
 * decided here, by blocks (those of everyone, with two tiers all of them), and those that the
 * script decides. Whatever a claim holds here (at the former `taken`, at the latter `reserved`) is
 * in sum.held of its windows, which it has pinned.
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
    MONEY_KEY_MAX = REMOTE_MONEY_KEY_MAX,
    MONEY_NODE_MAX = 40,
    MONEY_LEASE_MAX = MONEY_NODE_MAX + 40,
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
    int64_t
        waits_for; /* the number of the first ask for a block that has its need in it; 0: none */
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
    bool in_flight; /* `ask`, or that of a claim whose note says that this one has ended, too */
    struct remote_money_ticket *together; /* the next of which this one's note says so */
    bool remote;                          /* Redis may have a reservation of this lease */
    bool peek;   /* the script only looks: a budget of everyone has refused, or `seen` is set */
    bool blocks; /* a peek: blocks would decide the call */
    bool up_to;
    tg_micro money;           /* asked for */
    tg_micro taken, reserved; /* held at windows that blocks decide, and at the others */
    tg_ms at;                 /* its caller's now */
    tg_ms renewed_at;
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
    size_t block_windows, block_budgets; /* how many of them blocks decide, from the first */
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

/* ---- Asks for blocks ---- */

enum { BLOCK_WINDOWS_MAX = 16 }; /* in one ask */

struct block_part {
    struct claim_window window; /* pinned */
    tg_micro amount, held, kept, needed, wanted, largest;
    tg_micro spent; /* all that this process has settled, credits apart */
    bool gives_back;
    int64_t epoch, version;
    tg_ms keep;
    char *memory; /* a copy; null: nothing is told */
    bool writes_off;
};

/* Windows of one slot. */
struct block_ask {
    struct redis_ask ask;
    struct remote_money_port *port;
    int64_t number;
    int64_t sequence;
    tg_ms sent_at;
    bool alone; /* no other process settles through this ledger */
    size_t n;
    struct block_part parts[BLOCK_WINDOWS_MAX];
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
    TAILQ_HEAD(, sum)
    active; /* windows with blocks: a tick moves those it has looked at to the end */
    size_t n_active;
    int64_t block_asks;     /* the number of the last */
    int64_t block_sequence; /* sent to Redis, grows over restarts */
    uint64_t retell;        /* counts what may have made Redis forget */
    size_t waiting;         /* claims that wait for blocks */
    bool leaving;           /* keeps nothing to itself */
    bool retired;           /* another process has taken over */
    _Atomic size_t nodes;   /* gateways alive */
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
    size_t updates; /* in flight */
    size_t asks;    /* for blocks, in flight */
    uint64_t connects, reasserted;
};

/* ---- remote_money.c ---- */

tg_ms money_port_now(const struct remote_money_port *port);

/* The lock is held: Redis has forgotten something, and everything is sent again. */
void money_repair(struct remote_money *money);

/* ---- remote_money_port.c ---- */

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
                            bool blocks, tg_ms now, struct remote_money_ticket **claim);
void money_claim_free(struct remote_money_ticket *claim);

void money_claim_move(struct remote_money_ticket *claim, enum money_claim_state state);

static inline bool money_claim_has_root(const struct remote_money_ticket *claim)
{
    return claim->n_windows > claim->block_windows;
}

/* The lock is held: whether its money can be counted on top of what is held already. */
bool money_claim_fits(const struct remote_money_ticket *claim);

/* The lock is held: what it holds where blocks decide, and at the others, is this from now on. */
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

/* ---- remote_money_blocks.c: taking from blocks ---- */

enum block_verdict { BLOCK_TAKEN, BLOCK_REFUSED, BLOCK_WAIT, BLOCK_AWAY, BLOCK_FULL };

/* What is free of the block of a window. */
static inline tg_micro money_block_spare(const struct sum *sum)
{
    return num_less(sum->block.leased, sum_used(sum));
}

/* The lock is held, here and below. Takes what the claim asks for out of blocks, all of it where
 * none decides; or says no in claim->answer; or it has to wait, and its need is in the next ask. */
enum block_verdict money_blocks_take(struct remote_money *money, struct remote_money_ticket *claim,
                                     tg_ms now);

/* The same without Redis: false where blocks have not enough, and money may be left. Nothing is
 * taken. */
bool money_blocks_allow(struct remote_money_ticket *claim, tg_micro *most);

/* Budgets of everyone to a claim that looks, by what was last heard; nothing is taken. */
void money_blocks_peek(struct remote_money_ticket *claim);

/* Settled and outstanding where blocks decide, as far as they are known. */
void money_blocks_states(const struct remote_money_ticket *claim, struct rule_state *states);

/* It waits no longer. */
void money_blocks_leave(struct remote_money *money, struct remote_money_ticket *claim);

/* The lock is held. The epoch of a window, as far as it is known; 1 (DOUBT in money_window.lua):
 * nothing is known of it, and Redis has been away, so that it may have begun anew without it. */
int64_t money_port_epoch(const struct remote_money_port *port, const struct sum_block *block);

/* ---- remote_money_lease.c: asking for blocks ---- */

/* A window has blocks from now on. */
void money_block_activate(struct remote_money *money, struct sum *sum);

/* Asks for what the windows of a claim need. The lock is not held, here and below. */
void money_port_ask_for(struct remote_money_port *port, struct remote_money_ticket *claim);

/* The `e` of a memory, one after the other, from `at`, which moves on. False: there is no more. */
struct memory_block {
    struct slice process;
    int64_t number;
    tg_micro micro;
};

/* In its turn: asks for, tells and gives back what is due. */
void money_port_tick_blocks(struct remote_money_port *port);

#endif
