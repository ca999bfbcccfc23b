/* spending.c - the budgets of a configured tree, kept by a bank and remembered by a ledger.
 *
 * Order of safety. A call takes room in the ledger's journal before it reserves money, so that what
 * is admitted can be recorded even if the disk fills up meanwhile. It settles with the bank first,
 * which says once and for all whether this is the first settlement and what it comes to, and then
 * appends; the caller sends its reply after that. A crash between the two loses nothing: the bank
 * is gone too, and the reply never went out.
 *
 * Restoring while calls continue. `lock` is shared by those who reserve and settle, and taken alone
 * to change the tree. The database is read before, with the ledger held so that nothing moves out
 * of the journal; the journal is read with the lock, when every append has ended. So the lock is
 * held over memory alone, and each settlement is in the sums exactly once.
 *
 * All users with spend in a current window are opened at the start: whoever comes later and is new
 * has spent nothing, and no call has to ask the disk.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/budget/bank_part.h"
#include "lib/budget/money.h"
#include "lib/core/array.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"
#include "server/ledger/restore.h"
#include "server/ledger/spending_internal.h"

/* The bank may give an account's place to another while nothing is in it; then it is opened again.
 * More often than this in a row only if it is far too small. */
#define REOPENINGS 8

/* ---- Accounts ---- */

/* Opens the account of a node, or finds it; parents first. */
static enum tg_err open_node(struct spending *spending, struct forest *forest, size_t i, tg_ms now,
                             bool *fresh, struct tg_problem *problem)
{
    struct node *node = &forest->nodes[i];
    const char *name = node->name != NULL ? node->name : "everyone";
    size_t bytes = strlen(name);
    struct spending_leaf leaf;
    tg_account parent = 0, account;
    bool parent_is_fresh;

    if (node->parent != SPENDING_TOP) {
        enum tg_err err = open_node(spending, forest, node->parent, now, &parent_is_fresh, problem);
        if (err != TG_OK)
            return err;
        parent = atomic_load(&forest->nodes[node->parent].account);
    }
    if (node->key != NULL) {
        leaf = spending_leaf(SPENDING_KEY, (struct ledger_text){node->key, strlen(node->key)});
        name = leaf.name;
        bytes = leaf.bytes;
    }
    enum tg_err err = tg_bank_open(spending->bank, parent, name, bytes, node->budgets,
                                   node->n_budgets, now, &account, fresh, problem);
    if (err == TG_OK) {
        assert(account != 0);
        atomic_store(&node->account, account);
    }
    return err;
}

/* ---- Users ---- */

static void forget_gone_users(struct spending *spending, tg_ms now)
{
    size_t kept = 0;

    for (size_t i = 0; i < spending->n_users; i++) {
        tg_micro left;
        double part;
        if (tg_bank_left(spending->bank, spending->users[i].account, now, &left, &part) == TG_OK)
            spending->users[kept++] = spending->users[i];
    }
    spending->n_users = kept;
}

/* When there is no place left, those that the bank has forgotten make place, and the array grows
 * only if they were few: so it stays within twice the users that there are. */
static bool remember_user(struct spending *spending, struct user user, tg_ms now)
{
    bool done = true;

    pthread_mutex_lock(&spending->users_lock);
    if (spending->n_users == spending->max_users) {
        forget_gone_users(spending, now);
        if (spending->n_users >= spending->max_users / 2)
            done = array_reserve(&spending->users, &spending->max_users, spending->max_users + 1);
    }
    if (done) {
        assert(spending->n_users < spending->max_users);
        spending->users[spending->n_users++] = user;
    }
    pthread_mutex_unlock(&spending->users_lock);
    return done;
}

/* Opens the account of a user, or finds it. */
static enum tg_err open_user(struct spending *spending, const struct node *node,
                             struct ledger_text name, tg_ms now, tg_account *account, bool *fresh)
{
    if (name.size > LEDGER_NAME_MAX)
        return TG_ERR_INVALID;
    const struct spending_leaf leaf = spending_leaf(SPENDING_USER, name);
    tg_account tenant = atomic_load(&node->account);
    enum tg_err err =
        tg_bank_open(spending->bank, tenant, leaf.name, leaf.bytes, node->user_budgets,
                     node->n_user_budgets, now, account, fresh, NULL);

    /* Unless it is remembered its budgets would never change: better none, and a new start. */
    if (err == TG_OK && *fresh && !remember_user(spending, (struct user){tenant, *account}, now)) {
        tg_bank_close(spending->bank, *account);
        return TG_ERR_MEMORY;
    }
    return err;
}

/* ---- Restoring ---- */

static bool want_all(struct restore *restore, const struct forest *forest, tg_ms now,
                     struct tg_problem *problem)
{
    bool done = true;

    for (size_t i = 0; i < forest->n; i++) {
        const struct node *node = &forest->nodes[i];
        for (size_t k = 0; k < node->n_budgets && !node->kept; k++)
            done = done && restore_want(restore, &node->budgets[k], now);
        for (size_t k = 0; k < node->n_user_budgets && !node->kept; k++)
            done = done && restore_want(restore, &node->user_budgets[k], now);
    }
    return done || problem_fail(problem, "there is no memory to restore budgets");
}

/* A window that continues keeps what the bank has: the ledger cannot know what it could not record
 * (test_spending.c: a_reload_keeps_what_the_ledger_could_not_record). */
static enum tg_err set_settled(struct spending *spending, tg_account account, size_t budget,
                               tg_micro micro, tg_ms now)
{
    struct tg_budget_metrics metrics[TG_BUDGETS_MAX];
    size_t n = tg_bank_get_budgets(spending->bank, account, now, metrics);

    if (budget < n)
        micro = num_max(micro, metrics[budget].settled);
    return tg_bank_restore(spending->bank, account, budget, micro, now);
}

static enum tg_err restore_node(struct spending *spending, struct forest *forest, size_t i,
                                const struct restore *restore, tg_ms now,
                                struct tg_problem *problem)
{
    struct node *node = &forest->nodes[i];
    bool fresh;

    if (node->kept)
        return TG_OK;
    enum tg_err err = open_node(spending, forest, i, now, &fresh, problem);
    if (err == TG_OK && !fresh)
        err = tg_bank_change(spending->bank, node->account, node->budgets, node->n_budgets, now,
                             problem);
    for (size_t k = 0; err == TG_OK && k < node->n_budgets; k++)
        err = set_settled(spending, node->account, k,
                          restore_spent(restore, i, &node->budgets[k], now), now);
    return err;
}

static enum tg_err restore_user(struct spending *spending, const struct forest *forest,
                                const struct restore *restore, const struct restore_user *user,
                                tg_ms now)
{
    const struct node *node =
        forest_named(forest, ledger_tenant_name(restore->ledger, user->tenant));
    tg_account account;
    bool fresh;
    enum tg_err err;

    if (node == NULL || node->n_user_budgets == 0 || node->kept)
        return TG_OK;
    err = open_user(spending, node, user->user, now, &account, &fresh);
    for (size_t k = 0; err == TG_OK && k < node->n_user_budgets; k++) {
        tg_ms begin, end;
        tg_window_of(node->user_budgets[k].per, node->user_budgets[k].zone, now, &begin, &end);
        if (begin == restore->begins[user->window])
            err = set_settled(spending, account, k, user->micro, now);
    }
    return err;
}

/* Users who are known get the budgets of the new tree; the bank forgets those of closed tenants. */
static enum tg_err change_users(struct spending *spending, const struct forest *forest, tg_ms now,
                                struct tg_problem *problem)
{
    forget_gone_users(spending, now);
    for (size_t i = 0; i < spending->n_users; i++) {
        const struct user *user = &spending->users[i];
        const struct node *node = forest_with(forest, user->tenant);
        enum tg_err err = TG_OK;
        if (node != NULL && !node->kept)
            err = tg_bank_change(spending->bank, user->account, node->user_budgets,
                                 node->n_user_budgets, now, problem);
        if (err != TG_OK && err != TG_ERR_UNKNOWN)
            return err;
    }
    return TG_OK;
}

/* ---- Tenants that are gone ---- */

static bool has_outstanding(struct spending *spending, tg_account account, tg_ms now)
{
    struct tg_budget_metrics metrics[TG_BUDGETS_MAX];
    size_t n = tg_bank_get_budgets(spending->bank, account, now, metrics);

    for (size_t i = 0; i < n; i++)
        if (metrics[i].outstanding > 0)
            return true;
    return false;
}

/* Keeps it, and all above it: closing one closes what is under it. */
static void keep_retired(struct spending *spending, tg_account account)
{
    for (size_t i = 0; account != 0 && i < spending->n_retired;) {
        struct retired *one = &spending->retired[i];
        if (one->account != account) {
            i++;
            continue;
        }
        if (one->kept)
            return;
        one->kept = true;
        account = one->parent;
        i = 0;
    }
}

/* Closes the accounts of tenants that are not in the new tree. Those with calls in flight stay
 * until a later change finds these settled. */
static void close_gone(struct spending *spending, const struct forest *forest, tg_ms now)
{
    const struct forest *before = &spending->forest;
    size_t n = 0;

    for (size_t i = 0; i < before->n; i++) {
        const struct node *node = &before->nodes[i];
        tg_account parent =
            node->parent != SPENDING_TOP ? atomic_load(&before->nodes[node->parent].account) : 0;
        if (forest_with(forest, node->account) != NULL)
            continue;
        if (array_reserve(&spending->retired, &spending->max_retired, spending->n_retired + 1))
            spending->retired[spending->n_retired++] =
                (struct retired){node->account, parent, false};
        else
            tg_bank_close(spending->bank, node->account);
    }
    for (size_t i = 0; i < spending->n_retired; i++)
        spending->retired[i].kept = false;
    for (size_t i = 0; i < spending->n_retired; i++)
        if (has_outstanding(spending, spending->retired[i].account, now))
            keep_retired(spending, spending->retired[i].account);
    for (size_t i = 0; i < spending->n_users && spending->n_retired > 0; i++)
        if (forest_with(forest, spending->users[i].tenant) == NULL &&
            has_outstanding(spending, spending->users[i].account, now))
            keep_retired(spending, spending->users[i].tenant);
    for (size_t i = 0; i < spending->n_retired; i++) {
        const struct retired one = spending->retired[i];
        if (forest_with(forest, one.account) != NULL)
            continue; /* it is back */
        if (one.kept)
            spending->retired[n++] = one;
        else
            tg_bank_close(spending->bank, one.account);
    }
    spending->n_retired = n;
}

static bool fail_bank(enum tg_err err, const struct tg_problem *why, struct tg_problem *problem)
{
    return problem_fail(problem, "budgets cannot be set up: %s%s%s", tg_strerror(err),
                        why->text[0] != '\0' ? ": " : "", why->text);
}

/* Sets up everything in the bank, with the lock. */
static bool spending_set_up(struct spending *spending, struct forest *forest,
                            struct restore *restore, tg_ms now, struct tg_problem *problem)
{
    struct tg_problem why = {""};
    enum tg_err err = TG_OK;

    if (!restore_read_waiting(restore, problem))
        return false;
    restore_join_users(restore);
    for (size_t i = 0; err == TG_OK && i < forest->n; i++)
        err = restore_node(spending, forest, i, restore, now, &why);
    if (err == TG_OK)
        for (size_t i = 0; i < forest->n; i++)
            assert(atomic_load(&forest->nodes[i].account) != 0);
    forest_sort_accounts(forest);
    if (err == TG_OK)
        close_gone(spending, forest, now);
    if (err == TG_OK)
        err = change_users(spending, forest, now, &why);
    for (size_t i = 0; err == TG_OK && i < restore->n_users; i++)
        err = restore_user(spending, forest, restore, &restore->users[i], now);
    return err == TG_OK || fail_bank(err, &why, problem);
}

static bool adopt_forest(struct spending *spending, struct forest *forest, struct restore *restore,
                         tg_ms now, struct tg_problem *problem)
{
    bool done;

    if (spending->ledger != NULL)
        ledger_lock(spending->ledger);
    done = restore_read(restore, forest, problem);
    if (done) {
        pthread_rwlock_wrlock(&spending->lock);
        done = spending_set_up(spending, forest, restore, now, problem);
        if (done) {
            struct forest old = spending->forest;
            spending->forest = *forest;
            *forest = old;
        }
        pthread_rwlock_unlock(&spending->lock);
    }
    if (spending->ledger != NULL)
        ledger_unlock(spending->ledger);
    return done;
}

tg_ms spending_time(struct spending *spending, tg_ms now)
{
    long long wall = clock_wall_of(spending->clock, now);
    /* Relaxed: a number that orders nothing. */
    long long latest = atomic_load_explicit(&spending->latest, memory_order_relaxed);

    if (spending->clock == NULL)
        return now;
    while (wall > latest &&
           !atomic_compare_exchange_weak_explicit(&spending->latest, &latest, wall,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    return wall > latest ? wall : latest;
}

static bool change_tree(struct spending *spending, const struct spending_tree *tree, bool anew,
                        tg_ms now, struct tg_problem *problem)
{
    struct forest forest;
    struct restore restore;
    bool done = forest_init(&forest, tree, problem);

    now = spending_time(spending, now);

    restore_init(&restore, spending->ledger);
    /* Where all is read, what others have settled is, too; else it is told: spending_adopt(). */
    restore.others = anew || spending->forest.n == 0;
    done = done && forest_register(&forest, spending->ledger, problem);
    if (done && !anew)
        forest_keep(&forest, &spending->forest);
    /* What waits in the journal is read with the lock: the less, the better. If the database does
     * not take it now, there is more to read. */
    if (done && spending->ledger != NULL)
        (void)ledger_flush(spending->ledger, NULL);
    done = done && want_all(&restore, &forest, now, problem) &&
           adopt_forest(spending, &forest, &restore, now, problem);
    restore_fini(&restore);
    forest_free(&forest);
    return done;
}

bool spending_change(struct spending *spending, const struct spending_tree *tree, tg_ms now,
                     struct tg_problem *problem)
{
    return change_tree(spending, tree, false, now, problem);
}

bool spending_read_again(struct spending *spending, const struct spending_tree *tree, tg_ms now,
                         struct tg_problem *problem)
{
    return change_tree(spending, tree, true, now, problem);
}

/* ---- Life ---- */

/* A change must not wait until no call is reserving or settling by chance. */
static void init_lock(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t attributes;

    pthread_rwlockattr_init(&attributes);
#ifdef __GLIBC__
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
    pthread_rwlock_init(lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
}

bool spending_new(const struct spending_config *config, const struct spending_tree *tree, tg_ms now,
                  struct spending **spending, struct tg_problem *problem)
{
    struct spending *made;
    struct tg_problem why = {""};

    if (config->ledger == NULL && !config->open)
        return problem_fail(problem, "there is no ledger, and ledger.failure is closed");
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return problem_fail(problem, "there is no memory for budgets");
    made->ledger = config->ledger;
    made->open = config->open;
    made->clock = config->clock;
    made->adopted.seed = config->bank.seed;
    init_lock(&made->lock);
    pthread_mutex_init(&made->users_lock, NULL);
    pthread_mutex_init(&made->adopted.lock, NULL);
    enum tg_err err = tg_bank_new(&config->bank, &made->bank, &why);
    if (err != TG_OK)
        fail_bank(err, &why, problem);
    if (err != TG_OK || !spending_change(made, tree, now, problem)) {
        spending_free(made);
        return false;
    }
    *spending = made;
    return true;
}

void spending_free(struct spending *spending)
{
    if (spending == NULL)
        return;
    tg_bank_free(spending->bank);
    forest_free(&spending->forest);
    free(spending->users);
    free(spending->retired);
    spending_free_adopted(spending);
    pthread_mutex_destroy(&spending->users_lock);
    pthread_rwlock_destroy(&spending->lock);
    free(spending);
}

/* ---- Reserving and settling ---- */

static enum tg_err reserve_once(struct spending *spending, const struct spending_call *call,
                                size_t tenant, size_t key, tg_ms now,
                                struct tg_money_answer *answer)
{
    const struct node *node = &spending->forest.nodes[tenant];
    tg_account of_key = key != SPENDING_TOP ? atomic_load(&spending->forest.nodes[key].account) : 0;
    tg_account account = of_key != 0 ? of_key : atomic_load(&node->account), beside = 0;
    bool fresh;

    if (call->user.size > 0 && node->n_user_budgets > 0) {
        enum tg_err err = open_user(spending, node, call->user, now, &account, &fresh);
        if (err != TG_OK)
            return err;
        beside = of_key;
    }
    if (call->adopted)
        return bank_adopt(spending->bank, account, beside, call->money, now, answer);
    return tg_bank_reserve_beside(spending->bank, account, beside, call->money, call->up_to, now,
                                  answer);
}

enum tg_err spending_reserve_in_bank(struct spending *spending, const struct spending_call *call,
                                     size_t tenant, size_t key, tg_ms now,
                                     struct tg_money_answer *answer)
{
    enum tg_err err = reserve_once(spending, call, tenant, key, now, answer);
    bool fresh;

    for (int i = 0; err == TG_ERR_UNKNOWN && i < REOPENINGS; i++) {
        err = open_node(spending, &spending->forest, key != SPENDING_TOP ? key : tenant, now,
                        &fresh, NULL);
        if (err == TG_OK)
            err = reserve_once(spending, call, tenant, key, now, answer);
    }
    return err;
}

tg_account spending_open(struct spending *spending, const struct spending_call *call, tg_ms now)
{
    tg_account account = 0;
    bool fresh;

    now = spending_time(spending, now);
    pthread_rwlock_rdlock(&spending->lock);
    const struct forest *forest = &spending->forest;
    size_t tenant =
        call->tenant != NULL ? forest_find(forest, call->tenant, call->hint) : forest->n - 1;
    size_t key = call->tenant != NULL ? spending_find_key(spending, call) : SPENDING_TOP;
    if (tenant != SPENDING_TOP)
        account = atomic_load(&forest->nodes[key != SPENDING_TOP ? key : tenant].account);
    if (tenant != SPENDING_TOP && call->user.size > 0 &&
        open_user(spending, &forest->nodes[tenant], call->user, now, &account, &fresh) != TG_OK)
        account = 0;
    pthread_rwlock_unlock(&spending->lock);
    return account;
}

/* Under the lock. */
static void spending_tell(struct spending *spending, enum spending_event_kind kind,
                          const struct spending_ticket *ticket, struct ledger_text user)
{
    if (spending->follow != NULL && ticket->money > 0)
        spending->follow(spending->follow_context,
                         &(struct spending_event){kind, ticket->reservation, ticket->tenant, user,
                                                  ticket->money, ticket->reserved_at, 0, 0});
}

enum tg_err spending_reserve(struct spending *spending, const struct spending_call *call, tg_ms now,
                             struct spending_ticket *ticket, struct tg_money_answer *answer)
{
    struct tg_money_answer got = {0};
    enum tg_err err = TG_ERR_UNKNOWN;
    struct spending_ticket made = {.tenant = 0};

    /* The ledger would cut it, and after a restart it would be another user. */
    if (call->user.size > LEDGER_NAME_MAX)
        return TG_ERR_INVALID;
    bool room = spending->ledger != NULL && ledger_take_room(spending->ledger);
    if (!room && !spending->open)
        return TG_ERR_STORE;
    now = spending_time(spending, now);
    pthread_rwlock_rdlock(&spending->lock);
    size_t node = forest_find(&spending->forest, call->tenant, call->hint);
    if (node != SPENDING_TOP) {
        size_t key = spending_find_key(spending, call);
        if (call->key == NULL || key != SPENDING_TOP)
            err = spending_reserve_in_bank(spending, call, node, key, now, &got);
        made.tenant = spending->forest.nodes[key != SPENDING_TOP ? key : node].ledger_id;
    }
    made.reservation = got.reservation;
    made.reserved_at = got.reserved_at;
    made.money = got.reserved;
    if (err == TG_OK && got.reservation != 0)
        spending_tell(spending, SPENDING_RESERVED, &made, call->user);
    pthread_rwlock_unlock(&spending->lock);
    if (room && (err != TG_OK || got.reservation == 0)) {
        ledger_give_room(spending->ledger);
        room = false;
    }
    if (err != TG_OK)
        return err;
    /* Who is refused has no room; who is admitted has it, unless the ledger may be left out. */
    assert(got.reservation != 0 ? room || spending->open : !room);
    made.room = room;
    *ticket = made;
    *answer = got;
    return TG_OK;
}

static void add_saturating(_Atomic int64_t *sum, tg_micro micro)
{
    int64_t was = atomic_load(sum);

    while (!atomic_compare_exchange_weak(sum, &was, money_add(was, micro)))
        ;
}

static void count_lost(struct spending *spending, tg_micro micro)
{
    atomic_fetch_add(&spending->lost, 1);
    add_saturating(&spending->lost_micro, micro);
}

tg_micro spending_use_total(const struct spending_use *use)
{
    return use->spent < 0 || use->uncertain <= 0 ? use->spent
                                                 : money_add(use->spent, use->uncertain);
}

static struct ledger_entry spending_entry_of(const struct spending_ticket *ticket,
                                             const struct spending_use *use, tg_ms now)
{
    return (struct ledger_entry){
        .reserved_at = ticket->reserved_at,
        .settled_at = now,
        .tenant = ticket->tenant,
        .flags = use->flags,
        .usage = use->usage,
        .user = use->user,
        .model = use->model,
        .provider = use->provider,
        .key = use->key,
    };
}

void spending_send(struct spending *spending, struct spending_ticket *ticket,
                   const struct spending_use *use, tg_ms now)
{
    struct ledger_entry entry = spending_entry_of(ticket, use, spending_time(spending, now));

    assert(ticket->reservation != 0 && ticket->open == 0);
    entry.usage = (struct tg_usage){0};
    entry.micro = ticket->money;
    entry.call = ticket->reservation;
    if (ticket->money == 0)
        return;
    /* Whoever begins to follow sees it among those that are open, or gets it as an event. */
    pthread_rwlock_rdlock(&spending->lock);
    if (ticket->room)
        ticket->open = ledger_open_call(spending->ledger, &entry);
    spending_tell(spending, SPENDING_SENT, ticket, use->user);
    pthread_rwlock_unlock(&spending->lock);
}

/* Returns the number of the entry; 0: none was written. */
static uint64_t record(struct spending *spending, const struct spending_ticket *ticket,
                       const struct spending_use *use, const struct tg_spend *spend, tg_ms now)
{
    tg_micro uncertain = use->spent < 0 ? 0 : num_min(num_max(use->uncertain, 0), spend->settled);
    struct ledger_entry entry = spending_entry_of(ticket, use, now);
    bool used = spend->settled > 0 || use->usage.input > 0 || use->usage.cached_input > 0 ||
                use->usage.cache_write > 0 || use->usage.output > 0;

    assert(money_in_range(spend->settled));
    entry.reserved_at = spend->reserved_at;
    entry.micro = spend->settled - uncertain;
    entry.uncertain = uncertain;
    if (uncertain > 0)
        add_saturating(&spending->uncertain, uncertain);
    if (!used) {
        if (ticket->open != 0)
            ledger_drop_call(spending->ledger, ticket->open);
        if (ticket->room)
            ledger_give_room(spending->ledger);
        return 0;
    }
    if (ticket->room || (spending->ledger != NULL && ledger_take_room(spending->ledger)))
        return ledger_settle_call(spending->ledger, ticket->open, &entry);
    count_lost(spending, spend->settled);
    return 0;
}

bool spending_settle(struct spending *spending, const struct spending_ticket *ticket,
                     const struct spending_use *use, tg_ms now)
{
    struct tg_spend spend;
    uint64_t entry = 0;
    bool first;

    /* Shared until the append has ended: whoever adds up meanwhile sees both or neither. */
    pthread_rwlock_rdlock(&spending->lock);
    first = tg_bank_settle(spending->bank, ticket->reservation, spending_use_total(use), &spend);
    if (first)
        entry = record(spending, ticket, use, &spend, spending_time(spending, now));
    if (first && spending->follow != NULL)
        spending->follow(
            spending->follow_context,
            &(struct spending_event){.kind = SPENDING_SETTLED,
                                     .call = ticket->reservation,
                                     .micro = spend.settled,
                                     .journal = entry > 0 ? ledger_journal(spending->ledger) : 0,
                                     .entry = entry});
    pthread_rwlock_unlock(&spending->lock);
    return first;
}
