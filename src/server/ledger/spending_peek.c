/* spending_peek.c - what is in the books of a configured tree, for those who only want to know.
 *
 * Budgets are read account by account, each as it was at one moment. An account that the bank has
 * given away because nothing was in it is shown as it would be opened: empty.
 */
#include <assert.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/ledger/spending_internal.h"

void spending_get_stats(struct spending *spending, struct spending_stats *stats)
{
    *stats =
        (struct spending_stats){atomic_load(&spending->lost), atomic_load(&spending->lost_micro),
                                atomic_load(&spending->uncertain)};
}

struct tg_bank *spending_bank(struct spending *spending)
{
    return spending->bank;
}

tg_account spending_account(struct spending *spending, const char *tenant, size_t hint)
{
    tg_account account = 0;

    pthread_rwlock_rdlock(&spending->lock);
    size_t node =
        tenant == NULL ? spending->forest.n - 1 : forest_find(&spending->forest, tenant, hint);
    if (node < spending->forest.n)
        account = atomic_load(&spending->forest.nodes[node].account);
    pthread_rwlock_unlock(&spending->lock);
    return account;
}

/* ---- The way of a call ---- */

static void read_account(struct spending *spending, struct spending_account *account,
                         const struct tg_budget *budgets, size_t n, tg_ms now, spending_each_fn *fn,
                         void *context)
{
    struct tg_budget_metrics seen[TG_BUDGETS_MAX];

    account->n_budgets = tg_bank_get_budgets(spending->bank, account->number, now, seen);
    if (account->n_budgets != n)
        for (size_t i = 0; i < n; i++) {
            seen[i] = (struct tg_budget_metrics){
                .amount = budgets[i].amount, .per = budgets[i].per, .mode = budgets[i].mode};
            tg_window_of(budgets[i].per, budgets[i].zone, now, &seen[i].begin, &seen[i].end);
            assert(seen[i].begin <= now && now < seen[i].end);
        }
    account->n_budgets = n;
    account->budgets = seen;
    fn(context, account);
}

static void read_node(struct spending *spending, size_t i, const char *root, tg_ms now,
                      spending_each_fn *fn, void *context)
{
    const struct node *node = &spending->forest.nodes[i];
    struct spending_account account = {.root = root,
                                       .tenant = node->name,
                                       .key = node->key,
                                       .number = atomic_load(&node->account)};

    read_account(spending, &account, node->budgets, node->n_budgets, now, fn, context);
}

static void read_user(struct spending *spending, size_t i, const char *root,
                      struct ledger_text user, tg_ms now, spending_each_fn *fn, void *context)
{
    const struct node *node = &spending->forest.nodes[i];
    struct spending_account account = {.root = root, .tenant = node->name, .user = user};

    account.number = spending_find_user(spending, node, user);
    read_account(spending, &account, node->user_budgets, node->n_user_budgets, now, fn, context);
}

/* From a tenant up to its root; everyone is not among them. */
static size_t way_up(const struct forest *forest, size_t tenant, size_t way[TG_LEVELS_MAX])
{
    size_t n = 0, everyone = forest->n - 1;

    for (; tenant != everyone && n < TG_LEVELS_MAX; tenant = forest->nodes[tenant].parent)
        way[n++] = tenant;
    assert(tenant == everyone); /* the tree was checked: every way up ends there */
    return n;
}

enum tg_err spending_peek(struct spending *spending, const struct spending_call *call, tg_ms now,
                          spending_each_fn *fn, void *context)
{
    size_t way[TG_LEVELS_MAX];

    now = spending_time(spending, now);
    pthread_rwlock_rdlock(&spending->lock);
    const struct forest *forest = &spending->forest;
    size_t tenant = forest_find(forest, call->tenant, call->hint);
    size_t key = spending_find_key(spending, call);
    bool known = tenant != SPENDING_TOP && (call->key == NULL || key != SPENDING_TOP);
    if (known) {
        size_t n = way_up(forest, tenant, way);
        const char *root = forest->nodes[way[n - 1]].name;
        read_node(spending, forest->n - 1, root, now, fn, context);
        for (size_t i = n; i-- > 0;)
            read_node(spending, way[i], root, now, fn, context);
        if (key != SPENDING_TOP)
            read_node(spending, key, root, now, fn, context);
        if (call->user.size > 0 && forest->nodes[tenant].n_user_budgets > 0)
            read_user(spending, tenant, root, call->user, now, fn, context);
    }
    pthread_rwlock_unlock(&spending->lock);
    return known ? TG_OK : TG_ERR_UNKNOWN;
}

/* What an account that is not open has left: all of its budgets, or what is left above it. */
static void left_of_new(const struct tg_budget *budgets, size_t n, tg_micro *left, double *part)
{
    for (size_t i = 0; i < n; i++) {
        const struct tg_budget *budget = &budgets[i];
        if (budget->mode == TG_SHADOW || budget->amount >= *left)
            continue;
        *left = budget->amount;
        if (part)
            *part = budget->amount > 0;
    }
}

static enum tg_err left_at(struct spending *spending, const struct node *node,
                           struct ledger_text user, tg_ms now, tg_micro *left, double *part)
{
    tg_account tenant = atomic_load(&node->account), account = 0;

    if (user.size == 0 || node->n_user_budgets == 0)
        return tg_bank_left(spending->bank, tenant, now, left, part);
    account = spending_find_user(spending, node, user);
    /* He may have made place meanwhile. */
    if (account != 0 && tg_bank_left(spending->bank, account, now, left, part) == TG_OK)
        return TG_OK;
    enum tg_err err = tg_bank_left(spending->bank, tenant, now, left, part);
    if (!err)
        left_of_new(node->user_budgets, node->n_user_budgets, left, part);
    return err;
}

/* The same where a key of the tenant has less. It may have made place, as a user may. */
static void left_of_key(struct spending *spending, const struct node *key, tg_ms now,
                        tg_micro *left, double *part)
{
    tg_micro here;
    double part_here;

    if (tg_bank_left(spending->bank, atomic_load(&key->account), now, &here, &part_here) != TG_OK) {
        left_of_new(key->budgets, key->n_budgets, left, part);
    } else if (here < *left) {
        *left = here;
        if (part)
            *part = part_here;
    }
}

enum tg_err spending_left(struct spending *spending, const struct spending_call *call, tg_ms now,
                          tg_micro *left, double *part)
{
    enum tg_err err = TG_ERR_UNKNOWN;

    now = spending_time(spending, now);
    pthread_rwlock_rdlock(&spending->lock);
    size_t tenant = forest_find(&spending->forest, call->tenant, call->hint);
    if (tenant != SPENDING_TOP)
        err = left_at(spending, &spending->forest.nodes[tenant], call->user, now, left, part);
    size_t key = tenant != SPENDING_TOP && !err ? spending_find_key(spending, call) : SPENDING_TOP;
    if (key != SPENDING_TOP)
        left_of_key(spending, &spending->forest.nodes[key], now, left, part);
    pthread_rwlock_unlock(&spending->lock);
    return err;
}

/* A key that has made place refuses nothing: nothing is counted in it. */
static void ask_key(struct spending *spending, const struct node *key, tg_ms now,
                    struct tg_money_answer *answer)
{
    struct tg_money_answer said;
    bool user_is_spent = answer->account != 0 && !answer->contended;

    /* It is nearer to the top than a user: where both are spent, or neither is, it answers. */
    if (tg_bank_ask(spending->bank, atomic_load(&key->account), 1, now, &said) == TG_OK &&
        said.account != 0 && (!said.contended || !user_is_spent))
        *answer = said;
}

enum tg_err spending_ask(struct spending *spending, const struct spending_call *call, tg_ms now,
                         struct tg_money_answer *answer)
{
    enum tg_err err = TG_ERR_UNKNOWN;

    pthread_rwlock_rdlock(&spending->lock);
    size_t tenant = forest_find(&spending->forest, call->tenant, call->hint);
    if (tenant != SPENDING_TOP) {
        const struct node *node = &spending->forest.nodes[tenant];
        tg_account account = atomic_load(&node->account), user = 0;
        size_t key = spending_find_key(spending, call);
        if (call->user.size > 0 && node->n_user_budgets > 0)
            user = spending_find_user(spending, node, call->user);
        if (user != 0)
            err = tg_bank_ask(spending->bank, user, 1, now, answer);
        if (err == TG_ERR_UNKNOWN) /* he has none, or has made place meanwhile */
            err = tg_bank_ask(spending->bank, account, 1, now, answer);
        if (!err && key != SPENDING_TOP)
            ask_key(spending, &spending->forest.nodes[key], now, answer);
    }
    pthread_rwlock_unlock(&spending->lock);
    return err;
}

/* ---- All accounts ---- */

struct users_view {
    struct spending *spending;
    tg_ms now;
    spending_each_fn *fn;
    void *context;
};

/* The ledger has a sum for each model: a user may come several times. */
static void read_user_of_sum(void *context, const struct ledger_sum *sum)
{
    struct users_view *view = context;
    struct spending *spending = view->spending;
    size_t way[TG_LEVELS_MAX];

    if (sum->user.size == 0)
        return;
    pthread_rwlock_rdlock(&spending->lock);
    const struct forest *forest = &spending->forest;
    size_t tenant =
        forest_find(forest, ledger_tenant_name(spending->ledger, sum->tenant), SPENDING_TOP);
    if (tenant != SPENDING_TOP && forest->nodes[tenant].n_user_budgets > 0) {
        size_t n = way_up(forest, tenant, way);
        read_user(spending, tenant, forest->nodes[way[n - 1]].name, sum->user, view->now, view->fn,
                  view->context);
    }
    pthread_rwlock_unlock(&spending->lock);
}

/* Whose budgets of users began first, when that was; `now` if nobody has any. */
static tg_ms first_begin(const struct forest *forest, tg_ms now)
{
    tg_ms first = now, begin, end;

    for (size_t i = 0; i < forest->n; i++) {
        const struct node *node = &forest->nodes[i];
        for (size_t k = 0; k < node->n_user_budgets; k++) {
            tg_window_of(node->user_budgets[k].per, node->user_budgets[k].zone, now, &begin, &end);
            first = begin < first ? begin : first;
        }
    }
    return first;
}

bool spending_each(struct spending *spending, tg_ms now, spending_each_fn *fn, void *context,
                   struct tg_problem *problem)
{
    size_t way[TG_LEVELS_MAX];
    bool done = true;

    now = spending_time(spending, now);
    struct users_view view = {spending, now, fn, context};
    pthread_rwlock_rdlock(&spending->lock);
    const struct forest *forest = &spending->forest;
    tg_ms since = first_begin(forest, now);
    for (size_t i = 0; i < forest->n; i++) {
        size_t n = way_up(forest, i, way);
        read_node(spending, i, n > 0 ? forest->nodes[way[n - 1]].name : NULL, now, fn, context);
    }
    pthread_rwlock_unlock(&spending->lock);
    /* In this order, as spending_change() takes them; and no call waits for a disk. */
    if (spending->ledger == NULL || since == now)
        return true;
    ledger_lock(spending->ledger);
    done = ledger_scan_moved(spending->ledger, since, read_user_of_sum, &view, problem);
    if (done)
        ledger_scan_waiting(spending->ledger, since, read_user_of_sum, &view);
    ledger_unlock(spending->ledger);
    return done;
}
