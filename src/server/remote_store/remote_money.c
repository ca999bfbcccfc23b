/* remote_money.c - budgets that many nodes share: what all loops of a process have together. */
#include "server/remote_store/remote_money.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/remote_store/remote_money_internal.h"

void remote_money_options_init(struct remote_money_options *options)
{
    *options = (struct remote_money_options){.prefix = "tg",
                                             .timeout = 200,
                                             .lease_ttl = 60000,
                                             .period = 250,
                                             .max_windows = (size_t)1 << 20};
}

static enum tg_err check_options(const struct remote_money_options *options,
                                 struct tg_problem *problem)
{
    if (!options->prefix || !options->node || *options->node == '\0')
        return problem_say(problem, TG_ERR_INVALID, "prefix or node is missing");
    if (strlen(options->node) > MONEY_NODE_MAX)
        return problem_say(problem, TG_ERR_INVALID, "the node has %zu bytes; at most %d",
                           strlen(options->node), MONEY_NODE_MAX);
    if (strlen(options->prefix) > 256)
        return problem_say(problem, TG_ERR_INVALID, "the prefix has %zu bytes; at most 256",
                           strlen(options->prefix));
    if (options->timeout < 1 || options->timeout > 60000)
        return problem_say(problem, TG_ERR_INVALID, "timeout is %lld ms; it must be 1 to 60000",
                           (long long)options->timeout);
    if (options->lease_ttl < 100 || options->lease_ttl > 3600000)
        return problem_say(problem, TG_ERR_INVALID,
                           "lease_ttl is %lld ms; it must be 100 to 3600000",
                           (long long)options->lease_ttl);
    if (options->period < 1 || options->period > options->lease_ttl)
        return problem_say(problem, TG_ERR_INVALID, "period is %lld ms; it must be 1 to lease_ttl",
                           (long long)options->period);
    if (options->max_windows < 1)
        return problem_say(problem, TG_ERR_INVALID, "max_windows is 0; it must be at least 1");
    return TG_OK;
}

enum tg_err remote_money_new(const struct remote_money_options *options, struct spending *spending,
                             struct remote_money **money, struct tg_problem *problem)
{
    enum tg_err err = check_options(options, problem);
    struct remote_money *fresh;

    if (err)
        return err;
    fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return problem_say(problem, TG_ERR_MEMORY, "no memory for budgets in Redis");
    fresh->prefix = strdup(options->prefix);
    fresh->node = strdup(options->node);
    snprintf(fresh->ledger, sizeof fresh->ledger, "%016llx", (unsigned long long)options->ledger);
    fresh->timeout = options->timeout;
    fresh->lease_ttl = options->lease_ttl;
    fresh->period = options->period;
    fresh->callers_clock = options->callers_clock;
    fresh->spending = spending;
    money_sums_init(&fresh->sums, options->max_windows, options->ledger);
    fresh->sums.shared = options->shared;
    TAILQ_INIT(&fresh->active);
    atomic_store(&fresh->nodes, 1);
    pthread_mutex_init(&fresh->lock, NULL);
    if (!fresh->prefix || !fresh->node) {
        remote_money_free(fresh);
        return problem_say(problem, TG_ERR_MEMORY, "no memory for budgets in Redis");
    }
    *money = fresh;
    return TG_OK;
}

void remote_money_free(struct remote_money *money)
{
    if (!money)
        return;
    money_sums_fini(&money->sums);
    pthread_mutex_destroy(&money->lock);
    free(money->prefix);
    free(money->node);
    free(money);
}

tg_ms money_port_now(const struct remote_money_port *port)
{
    return port->money->callers_clock ? atomic_load(&port->money->latest)
                                      : net_loop_now(port->loop);
}

void money_repair(struct remote_money *money)
{
    if (!money->repair_due)
        money->retell++;
    money->repair_due = true;
    money->reassert++;
    atomic_fetch_add_explicit(&money->n_losses, 1, memory_order_relaxed);
}

/* ---- What the ledger says ---- */

struct adoption {
    struct remote_money *money;
    bool behind;
};

/* Also where nothing was settled: an earlier process of this ledger may have died with a block. */
static void adopt_account(void *context, const struct spending_account *account)
{
    struct adoption *adoption = context;
    struct remote_money *money = adoption->money;
    char key[MONEY_KEY_MAX];

    for (size_t i = 0; i < account->n_budgets; i++) {
        const struct tg_budget_metrics *budget = &account->budgets[i];
        size_t n = money_key(money, account, budget->begin, budget->end, key);
        if (n == 0)
            continue;
        pthread_mutex_lock(&money->lock);
        struct sum *sum =
            money_sums_get(&money->sums, (struct slice){key, n}, budget->end, budget->settled);
        if (sum) {
            adoption->behind |= sum->own < sum->seen;
            sum->block.takes_over = true;
            money_block_activate(money, sum);
        }
        pthread_mutex_unlock(&money->lock);
    }
}

static bool remote_money_read_ledger(struct remote_money *money, bool shared, tg_ms now,
                                     bool *behind, struct tg_problem *problem)
{
    struct adoption adoption = {money, false};

    pthread_mutex_lock(&money->lock);
    money->sums.shared = shared;
    pthread_mutex_unlock(&money->lock);
    bool done = spending_each(money->spending, now, adopt_account, &adoption, problem);
    *behind = adoption.behind;
    return done;
}

bool remote_money_share(struct remote_money *money, bool shared, tg_ms now)
{
    struct tg_problem problem;
    bool behind;

    return remote_money_read_ledger(money, shared, now, &behind, &problem) && !behind;
}

bool remote_money_adopt(struct remote_money *money, tg_ms now, struct tg_problem *problem)
{
    bool behind, shared;

    pthread_mutex_lock(&money->lock);
    shared = money->sums.shared;
    pthread_mutex_unlock(&money->lock);
    bool done = remote_money_read_ledger(money, shared, now, &behind, problem);
    pthread_mutex_lock(&money->lock);
    money->repair_due = true;
    pthread_mutex_unlock(&money->lock);
    return done;
}

void remote_money_retire(struct remote_money *money)
{
    pthread_mutex_lock(&money->lock);
    money->retired = true;
    pthread_mutex_unlock(&money->lock);
}

void remote_money_forgotten(struct remote_money *money)
{
    pthread_mutex_lock(&money->lock);
    money_repair(money);
    pthread_mutex_unlock(&money->lock);
}

void remote_money_set_nodes(struct remote_money *money, size_t nodes)
{
    atomic_store_explicit(&money->nodes, nodes > 0 ? nodes : 1, memory_order_relaxed);
}

void remote_money_lower(void *context, const struct spending_account *account,
                        const struct tg_budget_metrics *budget, tg_micro micro)
{
    struct remote_money *money = context;
    char key[MONEY_KEY_MAX];
    size_t n = money_key(money, account, budget->begin, budget->end, key);

    if (n == 0)
        return;
    pthread_mutex_lock(&money->lock);
    struct sum *sum = money_sums_find(&money->sums, (struct slice){key, n});
    if (sum != NULL && sum->known)
        money_sums_lower(&money->sums, sum, num_min(micro, TG_NUMBER_MAX));
    pthread_mutex_unlock(&money->lock);
}

void remote_money_leave(struct remote_money *money)
{
    pthread_mutex_lock(&money->lock);
    money->leaving = true;
    pthread_mutex_unlock(&money->lock);
}

/* ---- Looking ---- */

struct left_view {
    struct remote_money *money;
    tg_micro least, amount;
    bool any;
};

static tg_micro used_of(const struct sum *sum)
{
    tg_micro unacked = num_less(sum_total(sum), sum->acked);

    if (sum->block.is_active && sum->block.is_heard && !sum->block.by_script)
        return num_add(sum->block.others_used, sum_used(sum));
    return num_add(num_add(sum->settled, unacked), num_max(sum->outstanding, sum->held));
}

static void peek_left(void *context, const struct spending_account *account)
{
    struct left_view *view = context;
    char key[MONEY_KEY_MAX];

    for (size_t i = 0; i < account->n_budgets; i++) {
        const struct tg_budget_metrics *budget = &account->budgets[i];
        size_t n = money_key(view->money, account, budget->begin, budget->end, key);
        if (budget->mode == TG_SHADOW || n == 0)
            continue;
        pthread_mutex_lock(&view->money->lock);
        const struct sum *sum = money_sums_find(&view->money->sums, (struct slice){key, n});
        tg_micro used = num_min(num_max(budget->settled, sum ? used_of(sum) : 0), TG_NUMBER_MAX);
        pthread_mutex_unlock(&view->money->lock);
        tg_micro amount = num_min(budget->amount, TG_NUMBER_MAX), left = num_less(amount, used);
        if (!view->any || left < view->least || (left == view->least && amount > view->amount)) {
            view->least = left;
            view->amount = amount;
        }
        view->any = true;
    }
}

enum tg_err remote_money_left(struct remote_money *money, const struct spending_call *call,
                              tg_ms now, tg_micro *left, double *part)
{
    struct left_view view = {money, TG_MONEY_MAX, TG_MONEY_MAX, false};
    enum tg_err err = spending_peek(money->spending, call, now, peek_left, &view);

    if (err)
        return err;
    *left = view.least;
    if (part)
        *part = view.amount > 0 ? (double)view.least / (double)view.amount : 0;
    return TG_OK;
}

tg_micro remote_money_used(struct remote_money *money, const char *tenant, const char *virtual_key,
                           const char *root, tg_ms begin, tg_ms end)
{
    char key[MONEY_KEY_MAX];
    size_t n = remote_money_window(money, tenant, virtual_key, root, begin, end, key);

    if (n == 0)
        return 0;
    pthread_mutex_lock(&money->lock);
    const struct sum *sum = money_sums_find(&money->sums, (struct slice){key, n});
    tg_micro used = sum != NULL ? num_min(used_of(sum), TG_NUMBER_MAX) : 0;
    pthread_mutex_unlock(&money->lock);
    return used;
}

static void peek_blocks(const struct remote_money *money, struct remote_money_stats *stats)
{
    const struct sum *sum;

    TAILQ_FOREACH(sum, &money->active, block.list) {
        tg_micro used = sum->block.by_script ? 0 : sum_used(sum);
        stats->leased = num_add(stats->leased, num_max(sum->block.leased, used));
        stats->leased_used = num_add(stats->leased_used, used);
        stats->untold += sum->block.e > sum->block.held;
    }
}

void remote_money_get_stats(struct remote_money *money, struct remote_money_stats *stats)
{
    *stats = (struct remote_money_stats){
        .tickets = atomic_load(&money->tickets),
        .asked = atomic_load(&money->n_asked),
        .late = atomic_load(&money->n_late),
        .lost = atomic_load(&money->n_lost),
        .late_yes = atomic_load(&money->n_late_yes),
        .losses = atomic_load(&money->n_losses),
        .told = atomic_load(&money->n_told),
        .blocks = atomic_load(&money->n_blocks),
    };
    pthread_mutex_lock(&money->lock);
    stats->windows = money->sums.table.n;
    stats->unacked = money->sums.unacked;
    stats->unacked_micro = num_min((int64_t)(money->sums.unacked_micro & INT64_MAX), TG_MONEY_MAX);
    peek_blocks(money, stats);
    pthread_mutex_unlock(&money->lock);
}
