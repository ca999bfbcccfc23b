/* restore.c - what the ledger says of many budgets at once. See restore.h. */
#include "server/ledger/restore.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/budget/money.h"
#include "lib/core/array.h"
#include "lib/core/problem.h"

void restore_init(struct restore *restore, struct ledger *ledger)
{
    *restore = (struct restore){.ledger = ledger};
}

void restore_fini(struct restore *restore)
{
    for (size_t i = 0; i < restore->n_users; i++)
        free((char *)restore->users[i].user.bytes);
    free(restore->users);
    free(restore->sums);
    free(restore->totals);
    free(restore->node_of);
    free(restore->first_of);
    free(restore->begins);
    *restore = (struct restore){0};
}

/* ---- Windows ---- */

static tg_ms begin_of(const struct tg_budget *budget, tg_ms now)
{
    tg_ms begin, end;

    tg_window_of(budget->per, budget->zone, now, &begin, &end);
    assert(begin <= now && now < end);
    return begin;
}

static size_t window_of(const struct restore *restore, tg_ms begin)
{
    size_t i = 0;

    while (i < restore->n_begins && restore->begins[i] != begin)
        i++;
    return i;
}

bool restore_want(struct restore *restore, const struct tg_budget *budget, tg_ms now)
{
    tg_ms begin = begin_of(budget, now);

    if (window_of(restore, begin) < restore->n_begins)
        return true;
    if (!array_reserve(&restore->begins, &restore->max_begins, restore->n_begins + 1))
        return false;
    restore->begins[restore->n_begins++] = begin;
    return true;
}

/* ---- Reading ---- */

/* What stands against budgets. */
static tg_micro stands_of(const struct ledger_sum *sum)
{
    return money_add(sum->micro, sum->uncertain);
}

static void add_user(struct restore *restore, const struct ledger_sum *sum)
{
    char *name = malloc(sum->user.size);

    if (name == NULL ||
        !array_reserve(&restore->users, &restore->max_users, restore->n_users + 1)) {
        free(name);
        restore->failed = true;
        return;
    }
    memcpy(name, sum->user.bytes, sum->user.size);
    restore->users[restore->n_users++] =
        (struct restore_user){sum->tenant, restore->window, {name, sum->user.size}, stands_of(sum)};
}

static void add_sum(void *context, const struct ledger_sum *sum)
{
    struct restore *restore = context;

    assert(restore->window < restore->n_begins);
    if (sum->tenant >= restore->n_tenants)
        return; /* no such tenant: only a damaged database has those */
    tg_micro *total = &restore->sums[restore->window * restore->n_tenants + sum->tenant];
    *total = money_add(*total, stands_of(sum));
    if (sum->user.size > 0)
        add_user(restore, sum);
}

static bool restore_no_memory(struct tg_problem *problem)
{
    return problem_fail(problem, "there is no memory to restore budgets");
}

/* A tenant that has moved has several numbers, of which the first stands for all. */
static void find_nodes(struct restore *restore, const struct forest *forest)
{
    restore->node_of[0] = SPENDING_TOP;
    for (uint32_t tenant = 1; tenant < restore->n_tenants; tenant++) {
        size_t node = forest_of_row(forest, restore->ledger, tenant);
        restore->node_of[tenant] = node;
        if (node != SPENDING_TOP && restore->first_of[node] == 0)
            restore->first_of[node] = tenant;
    }
}

bool restore_read(struct restore *restore, const struct forest *forest, struct tg_problem *problem)
{
    if (restore->ledger == NULL || restore->n_begins == 0)
        return true;
    restore->n_tenants = ledger_tenants(restore->ledger) + 1;
    restore->n_nodes = forest->n;
    restore->sums = calloc(restore->n_begins * restore->n_tenants, sizeof *restore->sums);
    restore->totals = calloc(restore->n_begins * restore->n_nodes, sizeof *restore->totals);
    restore->node_of = calloc(restore->n_tenants, sizeof *restore->node_of);
    restore->first_of = calloc(restore->n_nodes, sizeof *restore->first_of);
    if (!restore->sums || !restore->totals || !restore->node_of || !restore->first_of)
        return restore_no_memory(problem);
    find_nodes(restore, forest);
    bool done = !restore->others || ledger_read_others(restore->ledger, problem);
    for (restore->window = 0; done && restore->window < restore->n_begins; restore->window++) {
        tg_ms begin = restore->begins[restore->window];
        done = ledger_scan_moved(restore->ledger, begin, add_sum, restore, problem);
        if (done && restore->others)
            ledger_scan_others(restore->ledger, begin, add_sum, restore);
    }
    if (restore->others)
        ledger_end_others(restore->ledger);
    return done && (!restore->failed || restore_no_memory(problem));
}

/* To everyone, and to every name on its way up, each once. */
static void add_to_totals(struct restore *restore, uint32_t tenant)
{
    size_t seen[TG_LEVELS_MAX], n = 0;

    seen[n++] = restore->n_nodes - 1; /* everyone */
    for (uint32_t at = tenant; at != 0 && n < TG_LEVELS_MAX;
         at = ledger_tenant_parent(restore->ledger, at)) {
        size_t node = restore->node_of[at];
        bool again = node == SPENDING_TOP;
        for (size_t i = 0; i < n && !again; i++)
            again = seen[i] == node;
        if (!again)
            seen[n++] = node;
    }
    for (size_t window = 0; window < restore->n_begins; window++) {
        tg_micro sum = restore->sums[window * restore->n_tenants + tenant];
        for (size_t i = 0; i < n && sum > 0; i++) {
            tg_micro *total = &restore->totals[window * restore->n_nodes + seen[i]];
            *total = money_add(*total, sum);
        }
    }
}

bool restore_read_waiting(struct restore *restore, struct tg_problem *problem)
{
    if (restore->ledger == NULL || restore->n_begins == 0)
        return true;
    for (restore->window = 0; restore->window < restore->n_begins; restore->window++)
        ledger_scan_waiting(restore->ledger, restore->begins[restore->window], add_sum, restore);
    for (uint32_t tenant = 0; tenant < restore->n_tenants; tenant++)
        add_to_totals(restore, tenant);
    return !restore->failed || restore_no_memory(problem);
}

/* ---- Asking ---- */

tg_micro restore_spent(const struct restore *restore, size_t node, const struct tg_budget *budget,
                       tg_ms now)
{
    size_t window = window_of(restore, begin_of(budget, now));

    assert(restore->totals == NULL || node < restore->n_nodes);
    return window < restore->n_begins && restore->totals != NULL
               ? restore->totals[window * restore->n_nodes + node]
               : 0;
}

static int compare_texts(struct ledger_text a, struct ledger_text b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    int order = memcmp(a.bytes, b.bytes, shorter);

    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static int compare_users(const void *left, const void *right)
{
    const struct restore_user *a = left, *b = right;
    int order = (a->tenant > b->tenant) - (a->tenant < b->tenant);

    if (order == 0)
        order = compare_texts(a->user, b->user);
    return order != 0 ? order : (a->window > b->window) - (a->window < b->window);
}

void restore_join_users(struct restore *restore)
{
    size_t kept = 0;

    for (size_t i = 0; i < restore->n_users; i++) {
        uint32_t tenant = restore->users[i].tenant;
        if (ledger_tenant_key(restore->ledger, tenant) != NULL)
            tenant = ledger_tenant_parent(restore->ledger, tenant); /* users are the tenant's */
        restore->users[i].tenant = tenant;
        size_t node = restore->node_of[tenant];
        if (node != SPENDING_TOP)
            restore->users[i].tenant = restore->first_of[node];
    }
    if (restore->n_users > 0)
        qsort(restore->users, restore->n_users, sizeof *restore->users, compare_users);
    for (size_t i = 0; i < restore->n_users; i++) {
        struct restore_user *last = kept > 0 ? &restore->users[kept - 1] : NULL;
        if (last != NULL && compare_users(last, &restore->users[i]) == 0) {
            last->micro = money_add(last->micro, restore->users[i].micro);
            free((char *)restore->users[i].user.bytes);
        } else {
            restore->users[kept++] = restore->users[i];
        }
    }
    assert(kept <= restore->n_users);
    restore->n_users = kept;
}
