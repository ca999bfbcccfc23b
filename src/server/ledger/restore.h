/* restore.h - what the ledger says about many budgets at once. For spending.c alone.
 *
 * A tree may have thousands of budgets, but they begin at a handful of moments: the ledger is read
 * once for each moment, and what a tenant spent is added to all above it in one go.
 */
#ifndef TG_LEDGER_RESTORE_H
#define TG_LEDGER_RESTORE_H

#include "server/ledger/forest.h"
#include "server/ledger/ledger.h"

struct restore_user {
    uint32_t tenant; /* its number in the ledger */
    size_t window;   /* index of its beginning */
    struct ledger_text user;
    tg_micro micro;
};

/* Sums since each of several moments, by tenant and by user. */
struct restore {
    struct ledger *ledger; /* null: everything is 0 */
    tg_ms *begins;         /* the moments, each once */
    size_t n_begins, max_begins;
    tg_micro *sums; /* [window * n_tenants + tenant] */
    size_t n_tenants;
    tg_micro *totals; /* [window * n_nodes + node]: spent by the node and all beneath it */
    size_t n_nodes;
    size_t *node_of;    /* [tenant]: its node by name; SPENDING_TOP: it has none */
    uint32_t *first_of; /* [node]: the first tenant of its name; 0: none */
    struct restore_user *users;
    size_t n_users, max_users;
    size_t window; /* the one that is being read */
    bool failed;   /* memory was short */
    bool others;   /* what other processes have settled counts, which is not in the database */
};

void restore_init(struct restore *restore, struct ledger *ledger);
void restore_fini(struct restore *restore);

/* Wants sums since the beginning of the window of `now`. */
bool restore_want(struct restore *restore, const struct tg_budget *budget, tg_ms now);

/* Reads what is in the database. Between ledger_lock() and ledger_unlock(), as all that
 * follows. */
bool restore_read(struct restore *restore, const struct forest *forest, struct tg_problem *problem);

/* Reads what is in the journal, and adds up; does no I/O. Call it when nothing is being appended.
 * */
bool restore_read_waiting(struct restore *restore, struct tg_problem *problem);

/* What a node and all beneath it have spent in the window of a budget. */
tg_micro restore_spent(const struct restore *restore, size_t node, const struct tg_budget *budget,
                       tg_ms now);

/* Sorts and joins the users' sums: those of one tenant name and user stand together, and each
 * window once. */
void restore_join_users(struct restore *restore);

#endif
