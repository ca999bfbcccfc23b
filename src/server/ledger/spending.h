/* spending.h - the budgets of a configured tree, kept by a bank and remembered by a ledger.
 *
 *     spending_new(&config, &tree, now, &spending, &problem);
 *
 *     err = spending_reserve(spending, &call, now, &ticket, &answer);     before a call is sent
 *     spending_send(spending, &ticket, &use, now);                        just before it is sent
 *     spending_settle(spending, &ticket, &use, now);                      before the reply goes out
 *
 * The bank decides, in memory; the ledger remembers. Everyone together is the account at the top,
 * tenants stand under their parents, virtual keys under their tenant, and users, too, who are
 * opened when they first come. A call with a key and a user is reserved in both, beside each other.
 *
 * Promise: at the start, and after each change, every budget's window holds what the ledger says,
 * and never less than it had before. When spending_settle() has returned, a crash cannot lose that
 * settlement; between spending_send() and that, a crash leaves what was reserved as uncertain in
 * its window. None of the three waits for a disk.
 *
 * Time: `now` is the steady clock's everywhere here. Windows go by the wall clock, which may be
 * set; but they never go back: see spending_time().
 *
 * Threads: spending_reserve(), spending_send(), spending_settle() and spending_get_stats() from any
 * number of threads, also during spending_change(); one spending_change() at a time.
 */
#ifndef TG_LEDGER_SPENDING_H
#define TG_LEDGER_SPENDING_H

#include "server/ledger/ledger_credit.h"

#define SPENDING_TOP SIZE_MAX /* a tenant without a parent */

struct spending_key {
    const char *name;
    const char *tags; /* for the ledger, as it has them; null: none */
    const struct tg_budget *budgets;
    size_t n_budgets;
};

/* Everything but the zones is copied; zones are borrowed until the next change, and until what was
 * reserved under them is settled. */
struct spending_tenant {
    const char *name;
    size_t parent; /* index in the tree, or SPENDING_TOP */
    const struct tg_budget *budgets;
    size_t n_budgets;
    const struct tg_budget *user_budgets; /* what each user has */
    size_t n_user_budgets;
    const struct spending_key *keys; /* its virtual keys that have names, each name once */
    size_t n_keys;
};

struct spending_tree {
    const struct tg_budget *budgets; /* what everyone together has */
    size_t n_budgets;
    const struct spending_tenant *tenants;
    size_t n_tenants;
};

struct spending_config {
    struct ledger *ledger; /* borrowed; null: there is none, which only `open` allows */
    bool open;             /* ledger.failure: what cannot be recorded is let through and counted */
    struct tg_bank_config bank;
    const struct clock *clock; /* borrowed; null: `now` is the wall clock's */
};

struct spending;

/* Opens every account and restores its windows. False: the ledger could not be read, or the tree is
 * not one. */
bool spending_new(const struct spending_config *config, const struct spending_tree *tree, tg_ms now,
                  struct spending **spending, struct tg_problem *problem);
void spending_free(struct spending *spending);

/* Another tree. Budgets whose window stays keep what was spent, others are added up from the
 * ledger. Tenants that are gone are closed. On false the old tree stays, except for budgets that
 * were changed before the trouble came: try again. */
bool spending_change(struct spending *spending, const struct spending_tree *tree, tg_ms now,
                     struct tg_problem *problem);

/* The same tree, with what the ledger says now: after somebody else has written to it. */
bool spending_read_again(struct spending *spending, const struct spending_tree *tree, tg_ms now,
                         struct tg_problem *problem);

struct spending_call {
    const char *tenant;      /* its name: another tree may have come since it was looked up */
    size_t hint;             /* where it may be in the tree; SPENDING_TOP: not known */
    const char *key;         /* the name of the virtual key; null: none, or it has no name */
    struct ledger_text user; /* empty: none */
    tg_micro money;
    bool up_to;   /* see tg_bank_reserve() */
    bool adopted; /* what another process has told: see bank_adopt() */
};

/* The time by which windows go, at a time of the steady clock: the wall clock's, or the latest that
 * was seen of it, where it was set back. */
tg_ms spending_time(struct spending *spending, tg_ms now);

/* What an admitted call owes: to be settled exactly once. */
struct spending_ticket {
    tg_reservation reservation; /* 0: refused */
    uint32_t tenant;            /* its number in the ledger, or that of its key */
    bool room;                  /* the ledger has promised to take it */
    uint32_t open;              /* what the ledger calls it once it is sent; 0: not */
    tg_ms reserved_at;
    tg_micro money; /* how much is reserved */
};

/* Reserves money, and room in the ledger. TG_ERR_STORE: the ledger has no room, and the failure
 * mode is closed; ledger_get_state() says why. TG_ERR_UNKNOWN: there is no such tenant
 * or key any more. TG_ERR_INVALID: also a user's name of more than
 * LEDGER_NAME_MAX bytes. Otherwise as tg_bank_open() and tg_bank_reserve(). */
TG_MUST_CHECK enum tg_err spending_reserve(struct spending *spending,
                                           const struct spending_call *call, tg_ms now,
                                           struct spending_ticket *ticket,
                                           struct tg_money_answer *answer);

struct spending_use {
    tg_micro spent;     /* negative if it is not known: see tg_bank_settle() */
    tg_micro uncertain; /* besides, what the provider may have billed, but has not said: it stays
                           against the budget; nothing where `spent` is negative */
    struct tg_usage usage;
    uint32_t flags; /* LEDGER_... */
    struct ledger_text user, model, provider, key;
};

/* The call is about to be sent, to these names: `use->spent` and the like do not matter. Settle it
 * then, also if it is not sent after all: a crash cannot know. Nothing where the ledger has given
 * no room. */
void spending_send(struct spending *spending, struct spending_ticket *ticket,
                   const struct spending_use *use, tg_ms now);

/* What is settled in all: for a remote store. Negative if it is not known. */
tg_micro spending_use_total(const struct spending_use *use);

/* Replaces the reservation by what was used, in the bank and in the ledger. A call that used
 * nothing (no money, no token) leaves no line. False: it was settled before, and nothing is done.
 */
bool spending_settle(struct spending *spending, const struct spending_ticket *ticket,
                     const struct spending_use *use, tg_ms now);

/* ---- spending_handover.c: another process takes over ----
 *
 * The one that is taken over goes on settling its calls, in its own bank and its own journal. Its
 * successor has to know of them until they are settled, and of what they came to. */

enum spending_event_kind {
    SPENDING_RESERVED, /* `micro` is reserved for a call, which may be sent */
    SPENDING_SENT,     /* a call was sent, for which so much is reserved */
    SPENDING_SETTLED,  /* it came to `micro` in all */
};

struct spending_event {
    enum spending_event_kind kind;
    uint64_t call;   /* what the process that sent it calls it */
    uint32_t tenant; /* its number in the ledger; this and what follows is for RESERVED and SENT */
    struct ledger_text user;
    tg_micro micro;
    tg_ms reserved_at;
    /* Where SETTLED is in the ledger, which may have been read since. */
    uint32_t journal;
    uint64_t entry; /* 0: nowhere */
};

/* Must not call spending_...(); from any thread. */
typedef void spending_follow_fn(void *context, const struct spending_event *event);

/* Tells of every call that is in flight now, and from then on of each that reserves, is sent or is
 * settled. Null ends it. */
void spending_follow(struct spending *spending, spending_follow_fn *fn, void *context);

/* The successor: what another process, `source`, has told. What is reserved there is reserved here,
 * once, whatever is left. */
void spending_adopt(struct spending *spending, uint64_t source, const struct spending_event *event,
                    tg_ms now);

/* Nothing more will come of that process, and budgets have been read again: what was not settled is
 * forgotten here, and by who follows once this process has ended. Returns how many. */
size_t spending_disown(struct spending *spending, uint64_t source);

/* How budgets are shared from here on: with so many processes that went before, and with one that
 * serves in the place of this one. See bank_part.h. */
void spending_part(struct spending *spending, size_t before, bool leaves);

/* So much less is settled in the window of a budget, which is shown as it was; the account comes
 * without its list of budgets. Must not call
 * spending_...() */
struct spending_account;
typedef void spending_lowered_fn(void *context, const struct spending_account *account,
                                 const struct tg_budget_metrics *budget, tg_micro micro);

/* An operator gives back uncertain money: in the ledger, and at once in the windows that run, each
 * of which `fn` is told, if it is not null. Not more than is uncertain there, which `uncertain`
 * then says. Waits for the disk; needs a ledger. */
enum ledger_credit_result spending_credit(struct spending *spending, struct ledger_credit *credit,
                                          tg_micro *uncertain, spending_lowered_fn *fn,
                                          void *context, struct tg_problem *problem);

struct spending_stats {
    uint64_t lost;      /* calls that the ledger could not take, in failure mode open */
    tg_micro micro;     /* what they cost */
    tg_micro uncertain; /* what was settled as uncertain since the start */
};

void spending_get_stats(struct spending *spending, struct spending_stats *stats);

/* The bank, for its snapshots, and the account of a tenant in it (null: of everyone); 0: there is
 * none of that name. `hint` as above. */
struct tg_bank *spending_bank(struct spending *spending);
tg_account spending_account(struct spending *spending, const char *tenant, size_t hint);

/* The account on the way of a call that is the furthest from the top: its user's, which is opened
 * as by a call, or its key's, or its tenant's; 0: there is none. */
tg_account spending_open(struct spending *spending, const struct spending_call *call, tg_ms now);

/* An account with its budgets as they are now; all of it for the time of the call. */
struct spending_account {
    const char *root;        /* the tenant at the top of its way up; null: spending_each(), and
                                this is everyone */
    const char *tenant;      /* null: everyone */
    const char *key;         /* a virtual key of the tenant; null: none */
    struct ledger_text user; /* a user of the tenant; empty: none */
    tg_account number;       /* 0: not open */
    const struct tg_budget_metrics *budgets;
    size_t n_budgets;
};

/* Must not call spending_...() */
typedef void spending_each_fn(void *context, const struct spending_account *account);

/* Reads the accounts on the way of a call from the top: everyone, the root, ..., the tenant, its
 * key, and the user if there are budgets of users. Nothing is opened or changed; the money does not
 * matter. TG_ERR_UNKNOWN: there is no such tenant, or key. */
TG_MUST_CHECK enum tg_err spending_peek(struct spending *spending, const struct spending_call *call,
                                        tg_ms now, spending_each_fn *fn, void *context);

/* What the books of this process would answer to the cheapest call, as tg_bank_ask(). Nothing is
 * opened or changed. A user without an account is not asked for. TG_ERR_UNKNOWN, TG_ERR_INVALID. */
TG_MUST_CHECK enum tg_err spending_ask(struct spending *spending, const struct spending_call *call,
                                       tg_ms now, struct tg_money_answer *answer);

/* The least that is left on the way of a call, as tg_bank_left(); of its user too, if there are
 * budgets of users, whether he has an account yet or not. TG_ERR_UNKNOWN, TG_ERR_INVALID. */
TG_MUST_CHECK enum tg_err spending_left(struct spending *spending, const struct spending_call *call,
                                        tg_ms now, tg_micro *left, double *part);

/* Reads everyone, all tenants and keys, and the users that have spent in a window of now, these
 * once or more. Waits for the disk. False: the ledger could not be read, and users are missing. */
bool spending_each(struct spending *spending, tg_ms now, spending_each_fn *fn, void *context,
                   struct tg_problem *problem);

/* What part of a budget is spent or reserved. */
static inline double spending_used_ratio(const struct tg_budget_metrics *budget)
{
    double used = (double)budget->settled + (double)budget->outstanding;

    return budget->amount > 0 ? used / (double)budget->amount : 1;
}

#endif
