/* generation_budgets.c - the budgets of a configuration, into the bank. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/problem.h"
#include "server/remote/remote.h"
#include "server/runtime/gateway.h"
#include "server/runtime/generation_internal.h"

/* The budgets of an account. */
static bool make_budgets(struct gateway *gateway, const struct config_budget *from, size_t n,
                         enum config_mode over, struct tg_budget *to, struct tg_problem *problem)
{
    static const enum tg_per PER[] = {[CONFIG_DAY] = TG_PER_DAY,
                                      [CONFIG_WEEK] = TG_PER_WEEK,
                                      [CONFIG_MONTH] = TG_PER_MONTH,
                                      [CONFIG_TOTAL] = TG_PER_TOTAL};

    for (size_t i = 0; i < n; i++) {
        bool shadow = from[i].mode == CONFIG_SHADOW || over == CONFIG_SHADOW;
        to[i] = (struct tg_budget){.amount = from[i].micro_usd,
                                   .per = PER[from[i].per],
                                   .zone = gateway_zone(gateway, from[i].tz, problem),
                                   .mode = shadow ? TG_SHADOW : TG_ENFORCE};
        if (to[i].zone == NULL)
            return false;
    }
    return true;
}

static size_t count_budgets(const struct config *config)
{
    size_t n = config->n_budgets;

    for (size_t i = 0; i < config->n_tenants; i++)
        n += config->tenants[i].n_budgets + config->tenants[i].users.n_budgets;
    for (size_t i = 0; i < config->n_tenants; i++)
        for (size_t k = 0; k < config->tenants[i].n_keys; k++)
            n += config->tenants[i].keys[k].own.n_budgets;
    return n;
}

/* The keys that are counted: those with a name, each name once. */
static bool is_counted(const struct config_tenant *tenant, size_t key)
{
    return tenant->keys[key].name != NULL && tenant->keys[key].first == key;
}

static size_t count_counted_keys(const struct config *config)
{
    size_t n = 0;

    for (size_t i = 0; i < config->n_tenants; i++)
        for (size_t k = 0; k < config->tenants[i].n_keys; k++)
            n += is_counted(&config->tenants[i], k);
    return n;
}

/* What a tree of accounts points into: room for all there is. */
struct tree_room {
    struct tg_budget *budgets;
    struct spending_tenant *tenants;
    struct spending_key *keys;
    size_t n_keys;
    const char **names; /* those of one tenant's keys, sorted */
};

static bool add_key_budgets(struct gateway *gateway, const struct config_key *from,
                            enum config_mode over, struct spending_tenant *to,
                            struct tree_room *room, struct tg_budget **next,
                            struct tg_problem *problem)
{
    const struct config_own *own = &from->own;

    room->keys[room->n_keys++] = (struct spending_key){
        .name = from->name, .tags = own->tag_text, .budgets = *next, .n_budgets = own->n_budgets};
    to->n_keys++;
    if (!make_budgets(gateway, own->budgets, own->n_budgets, over, *next, problem))
        return false;
    *next += own->n_budgets;
    return true;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The keys of a tenant, behind those that are there; their budgets from `next` on. With them those
 * that it had before: calls that began with one may yet reserve, and then its budgets are theirs
 * still. A key that is made again under its name finds in its account what they spent. */
static bool make_keys(struct gateway *gateway, const struct config_tenant *from,
                      const struct config_tenant *before, struct spending_tenant *to,
                      struct tree_room *room, struct tg_budget **next, struct tg_problem *problem)
{
    bool made = true;
    size_t n = 0;

    to->keys = room->keys + room->n_keys;
    for (size_t k = 0; made && k < from->n_keys; k++)
        if (is_counted(from, k)) {
            room->names[n++] = from->keys[k].name;
            made = add_key_budgets(gateway, &from->keys[k], from->mode, to, room, next, problem);
        }
    if (n > 1)
        qsort(room->names, n, sizeof *room->names, compare_names);
    for (size_t k = 0; made && before != NULL && k < before->n_keys; k++)
        if (is_counted(before, k) &&
            (n == 0 || bsearch(&before->keys[k].name, room->names, n, sizeof *room->names,
                               compare_names) == NULL))
            made = add_key_budgets(gateway, &before->keys[k], from->mode, to, room, next, problem);
    return made;
}

static bool make_tree(struct gateway *gateway, const struct config *config,
                      const struct config *before, struct tree_room *room,
                      struct spending_tree *tree, struct tg_problem *problem)
{
    struct tg_budget *budgets = room->budgets, *next = budgets + config->n_budgets;
    struct spending_tenant *tenants = room->tenants;

    *tree = (struct spending_tree){budgets, config->n_budgets, tenants, config->n_tenants};
    if (!make_budgets(gateway, config->budgets, config->n_budgets, CONFIG_ENFORCE, budgets,
                      problem))
        return false;
    for (size_t i = 0; i < config->n_tenants; i++) {
        const struct config_tenant *from = &config->tenants[i];
        const struct config_tenant *had =
            before != NULL ? config_tenant(before, from->name, strlen(from->name)) : NULL;
        struct tg_budget *own = next, *users = own + from->n_budgets;

        next = users + from->users.n_budgets;
        tenants[i] = (struct spending_tenant){
            .name = from->name,
            .parent = from->parent == CONFIG_NO_PARENT ? SPENDING_TOP : from->parent,
            .budgets = own,
            .n_budgets = from->n_budgets,
            .user_budgets = users,
            .n_user_budgets = from->users.n_budgets};
        enum config_mode each = from->mode == CONFIG_SHADOW ? CONFIG_SHADOW : from->users.each.mode;
        if (!make_budgets(gateway, from->budgets, from->n_budgets, from->mode, own, problem) ||
            !make_budgets(gateway, from->users.budgets, from->users.n_budgets, each, users,
                          problem) ||
            !make_keys(gateway, from, had, &tenants[i], room, &next, problem))
            return false;
    }
    return true;
}

static bool set_budgets(struct gateway *gateway, const struct config *config,
                        const struct spending_tree *tree, bool again, tg_ms now,
                        struct tg_problem *problem)
{
    struct spending_config spending = {.ledger = gateway->ledger,
                                       .clock = &gateway->clock,
                                       .open = config->ledger.failure == CONFIG_FAIL_OPEN};

    tg_bank_config_init(&spending.bank);
    spending.bank.seed = gateway->seed;
    if (again)
        return spending_read_again(gateway->spending, tree, now, problem);
    return (gateway->spending ? spending_change(gateway->spending, tree, now, problem)
                              : spending_new(&spending, tree, now, &gateway->spending, problem)) &&
           remote_set_budgets(gateway->remote, gateway->spending, gateway->ledger, now, problem);
}

static bool with_tree(struct generation *generation, const struct generation *before, bool again,
                      tg_ms now, struct tg_problem *problem)
{
    const struct config *config = &generation->config;
    const struct config *had = before != NULL ? &before->config : NULL;
    size_t budgets = count_budgets(config) + (had != NULL ? count_budgets(had) : 0);
    size_t keys = count_counted_keys(config), gone = had != NULL ? count_counted_keys(had) : 0;
    struct spending_tree tree;
    struct tree_room room = {.budgets = calloc(budgets + 1, sizeof *room.budgets),
                             .tenants = calloc(config->n_tenants + 1, sizeof *room.tenants),
                             .keys = calloc(keys + gone + 1, sizeof *room.keys),
                             .names = calloc(keys + 1, sizeof *room.names)};
    bool fine = (room.budgets && room.tenants && room.keys && room.names) ||
                problem_fail(problem, "budgets: no memory");

    fine = fine && make_tree(generation->gateway, config, had, &room, &tree, problem) &&
           set_budgets(generation->gateway, config, &tree, again, now, problem);
    free(room.budgets);
    free(room.tenants);
    free(room.keys);
    free(room.names);
    return fine;
}

bool generation_set_budgets(struct generation *generation, const struct generation *before,
                            tg_ms now, struct tg_problem *problem)
{
    return with_tree(generation, before, false, now, problem);
}

bool generation_read_budgets(struct generation *generation, tg_ms now, struct tg_problem *problem)
{
    return with_tree(generation, NULL, true, now, problem);
}
