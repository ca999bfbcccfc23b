/* admin_store.c - a change is tried with the configuration as it would be, and kept if that is
 * right. By the thread of a change: see admin_change.h.
 *
 * What is in the database is read first, so that a change is judged by what the one before it left.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/posix/zone.h"
#include "server/admin/admin_change.h"
#include "server/runtime/gateway.h"

#define TOPPED_UP_MAX INT64_C(1000000000000000) /* micro-dollars: of one budget together */

/* ---- saying no ---- */

static bool say_in_file(struct admin_change *change, const struct config_tenant *tenant,
                        const char *what)
{
    return admin_change_say(
        change, 409, "in_file",
        "%s \"%.128s\" is defined in %s:%zu, and the file wins; change it there, and reload", what,
        strcmp(what, "tenant") == 0 ? change->tenant : change->name, tenant->file, tenant->line);
}

static bool say_no_tenant(struct admin_change *change)
{
    return admin_change_say(change, 404, "not_found", "there is no tenant \"%.128s\"",
                            change->tenant);
}

static bool say_no_key(struct admin_change *change)
{
    return admin_change_say(change, 404, "not_found", "the tenant \"%.128s\" has no key \"%.128s\"",
                            change->tenant, change->name);
}

/* Who has, or lacks, what a top-up is for. */
struct whose {
    char text[160];
};

static struct whose whose(const struct admin_change *change)
{
    struct whose whose = {"everyone together"};

    if (change->tenant[0] != '\0')
        snprintf(whose.text, sizeof whose.text, "the tenant \"%.128s\"", change->tenant);
    return whose;
}

/* ---- what is there ---- */

static bool same(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static bool has_tenant(const struct admin_change *change)
{
    const struct ledger_admin *all = &change->before.all;

    for (size_t i = 0; i < all->n_tenants; i++)
        if (same(all->tenants[i].name, change->tenant))
            return true;
    return false;
}

static const struct ledger_admin_key *find_key(const struct admin_change *change)
{
    const struct ledger_admin *all = &change->before.all;

    for (size_t i = 0; i < all->n_keys; i++)
        if (same(all->keys[i].tenant, change->tenant) && same(all->keys[i].name, change->name))
            return &all->keys[i];
    return NULL;
}

static bool has_topup(const struct admin_change *change)
{
    const struct ledger_admin *all = &change->before.all;

    for (size_t i = 0; i < all->n_topups; i++)
        if (all->topups[i].id == change->topup.id && same(all->topups[i].tenant, change->tenant) &&
            all->topups[i].ends_at > change->now)
            return true;
    return false;
}

/* The override that is to be taken away; whose it is, is known from it alone. */
static const struct ledger_admin_override *find_override(const struct admin_change *change)
{
    const struct ledger_admin *all = &change->before.all;

    for (size_t i = 0; i < all->n_overrides; i++)
        if (all->overrides[i].id == change->override.id && all->overrides[i].ends_at > change->now)
            return &all->overrides[i];
    return NULL;
}

/* ---- the extras as they would be ---- */

static bool goes(const struct admin_change *change, const struct config_extra *extra)
{
    if (strcmp(extra->tenant != NULL ? extra->tenant : "", change->tenant) != 0)
        return false;
    switch (change->kind) {
    case ADMIN_PUT_TENANT:
        return extra->kind == CONFIG_EXTRA_TENANT;
    case ADMIN_DROP_TENANT:
        return true;
    case ADMIN_PUT_KEY:
    case ADMIN_DROP_KEY:
        return extra->kind == CONFIG_EXTRA_KEY && same(extra->key, change->name);
    case ADMIN_DROP_TOPUP:
    case ADMIN_DROP_OVERRIDE:
        return same(extra->name, change->extra);
    default:
        return false;
    }
}

static bool comes(const struct admin_change *change, char hex[VIRTUAL_KEY_HEX + 1],
                  struct config_extra *extra)
{
    *extra = (struct config_extra){
        .name = change->extra, .tenant = change->tenant, .not_after = CONFIG_NEVER};
    if (change->tenant[0] == '\0')
        extra->tenant = NULL;
    switch (change->kind) {
    case ADMIN_PUT_TENANT:
        extra->kind = CONFIG_EXTRA_TENANT;
        extra->text = change->text;
        extra->bytes = change->bytes;
        return true;
    case ADMIN_MAKE_KEY:
    case ADMIN_PUT_KEY:
        virtual_key_hex(change->sha256, hex);
        extra->kind = CONFIG_EXTRA_KEY;
        extra->text = change->text;
        extra->bytes = change->bytes;
        extra->key = change->name;
        extra->sha256 = hex;
        extra->not_after = change->not_after;
        return true;
    case ADMIN_ADD_TOPUP:
        extra->kind = CONFIG_EXTRA_TOPUP;
        extra->micro_usd = change->topup.micro;
        extra->per = (enum config_period)change->topup.per;
        extra->tz = change->tz[0] != '\0' ? change->tz : NULL;
        return true;
    case ADMIN_ADD_OVERRIDE:
        admin_extras_of_override(&change->override, extra);
        return true;
    default:
        return false;
    }
}

/* What stands in problems about it. */
static void name_extra(struct admin_change *change)
{
    if (change->kind == ADMIN_PUT_TENANT || change->kind == ADMIN_DROP_TENANT)
        admin_extras_name_tenant(change->extra, change->tenant);
    else if (change->kind == ADMIN_MAKE_KEY || change->kind == ADMIN_PUT_KEY ||
             change->kind == ADMIN_DROP_KEY)
        admin_extras_name_key(change->extra, change->tenant, change->name);
    else if (change->kind == ADMIN_ADD_OVERRIDE || change->kind == ADMIN_DROP_OVERRIDE)
        admin_extras_name_override(change->extra, change->tenant, change->override.id);
    else
        admin_extras_name_topup(change->extra, change->tenant, change->topup.id);
}

static bool is_right(struct admin_change *change, enum config_result result)
{
    size_t wrong = 0;

    for (size_t i = 0; i < change->problems.n; i++)
        wrong += !change->problems.list[i].warning || change->problems.list[i].missing;
    if (result == CONFIG_READ && wrong == 0)
        return true;
    return admin_change_say(change, 400, "invalid", "the configuration would be invalid with it");
}

/* Reads the configuration with the change; `config` is to be freed in any case. */
static bool try(struct admin_change *change, struct config *config)
{
    const struct admin_extras *before = &change->before;
    struct config_extra *list = calloc(before->n + 1, sizeof *list);
    char hex[VIRTUAL_KEY_HEX + 1];
    size_t n = 0;

    memset(config, 0, sizeof *config);
    if (list == NULL)
        return admin_change_say(change, 503, "busy", "no memory");
    for (size_t i = 0; i < before->n; i++)
        if (!goes(change, &before->list[i]))
            list[n++] = before->list[i];
    n += comes(change, hex, &list[n]);
    enum config_result result = config_load_with(change->all->admin->options.config_path, list, n,
                                                 config, &change->problems);
    free(list);
    return is_right(change, result);
}

/* ---- whether it does what was asked ---- */

static const struct config_key *key_named(const struct config_tenant *tenant, const char *name)
{
    for (size_t i = 0; i < tenant->n_keys; i++)
        if (same(tenant->keys[i].name, name))
            return &tenant->keys[i];
    return NULL;
}

/* The budget that a top-up or a raise is for, and its zone. */
static bool aim(struct admin_change *change, enum tg_per which, const struct config_budget *budgets,
                size_t n)
{
    const char *per = tg_per_name(which);
    const struct config_budget *found = NULL;

    for (size_t i = 0; i < n; i++) {
        const struct config_budget *budget = &budgets[i];
        if ((int)budget->per != (int)which ||
            (change->tz[0] != '\0' && !same(budget->tz, change->tz)))
            continue;
        if (found != NULL && !same(found->tz, budget->tz))
            return admin_change_say(change, 409, "ambiguous",
                                    "%s has budgets for a %s in several zones; say which with tz",
                                    whose(change).text, per);
        found = found != NULL ? found : budget;
    }
    if (found == NULL)
        return admin_change_say(
            change, 409, "no_budget", "%s has no budget for a %s%s%.64s that could be raised",
            whose(change).text, per, change->tz[0] != '\0' ? " in " : "", change->tz);
    if (found->topped_up > TOPPED_UP_MAX)
        return admin_change_say(change, 409, "too_much",
                                "top-ups of one budget may be %lld USD together",
                                (long long)(TOPPED_UP_MAX / 1000000));
    snprintf(change->tz, sizeof change->tz, "%s", found->tz);
    return true;
}

/* When the window of the budget ends, too. */
static bool aim_topup(struct admin_change *change, const struct config_budget *budgets, size_t n)
{
    struct tg_problem problem;
    struct tg_zone zone;
    tg_ms begin;

    if (!aim(change, change->topup.per, budgets, n))
        return false;
    if (zone_read(change->tz, &zone, &problem))
        return admin_change_say(change, 503, "busy", "%s", problem.text);
    tg_window_of(change->topup.per, &zone, change->now, &begin, &change->topup.ends_at);
    zone_fini(&zone);
    return true;
}

/* What an override is for is there, and stands in a file: what the API made it can change. */
static bool check_override(struct admin_change *change, const struct config_tenant *tenant)
{
    const struct ledger_admin_override *override = &change->override;
    const struct config_key *key;

    if (tenant == NULL)
        return say_no_tenant(change);
    if (override->ends_at <= change->now)
        return admin_change_say(change, 400, "invalid", "until is over already");
    if (override->kind == LEDGER_OVERRIDE_RAISE)
        return aim(change, override->per, tenant->budgets, tenant->n_budgets);
    if (override->key[0] == '\0')
        return true;
    key = key_named(tenant, override->key);
    if (key == NULL)
        return admin_change_say(change, 404, "not_found",
                                "the tenant \"%.128s\" has no key \"%.128s\"", change->tenant,
                                override->key);
    return !key->extra ||
           admin_change_say(change, 409, "not_in_file",
                            "the key \"%.128s\" was made by the API; delete it instead",
                            override->key);
}

static bool check_key(struct admin_change *change, const struct config_tenant *tenant)
{
    const struct config_key *key = key_named(tenant, change->name);

    if (key == NULL || memcmp(key->sha256, change->sha256, sizeof key->sha256) != 0)
        return say_in_file(change, tenant, "key");
    return true;
}

static bool admin_store_check(struct admin_change *change, const struct config *config)
{
    const struct config_tenant *tenant =
        config_tenant(config, change->tenant, strlen(change->tenant));

    switch (change->kind) {
    case ADMIN_PUT_TENANT:
        return tenant == NULL || tenant->extra || say_in_file(change, tenant, "tenant");
    case ADMIN_DROP_TENANT:
        if (tenant != NULL)
            return say_in_file(change, tenant, "tenant");
        return has_tenant(change) || say_no_tenant(change);
    case ADMIN_MAKE_KEY:
    case ADMIN_PUT_KEY:
        return tenant != NULL ? check_key(change, tenant) : say_no_tenant(change);
    case ADMIN_DROP_KEY:
        if (find_key(change) != NULL)
            return true;
        if (tenant != NULL && key_named(tenant, change->name) != NULL)
            return say_in_file(change, tenant, "key");
        return say_no_key(change);
    case ADMIN_ADD_TOPUP:
        if (change->tenant[0] == '\0')
            return aim_topup(change, config->budgets, config->n_budgets);
        return tenant != NULL ? aim_topup(change, tenant->budgets, tenant->n_budgets)
                              : say_no_tenant(change);
    case ADMIN_ADD_OVERRIDE:
        return check_override(change, tenant);
    default:
        return true;
    }
}

/* What needs no configuration to be seen. */
static bool check_first(struct admin_change *change)
{
    if (change->kind == ADMIN_MAKE_KEY && find_key(change) != NULL)
        return admin_change_say(change, 409, "exists",
                                "the tenant \"%.128s\" has a key \"%.128s\" already",
                                change->tenant, change->name);
    if (change->kind == ADMIN_PUT_KEY) {
        const struct ledger_admin_key *key = find_key(change);
        if (key == NULL)
            return say_no_key(change);
        memcpy(change->sha256, key->sha256, sizeof change->sha256);
        change->made_at = key->made_at;
    }
    if (change->kind == ADMIN_DROP_TOPUP && !has_topup(change))
        return admin_change_say(change, 404, "not_found", "%s has no top-up %lld",
                                whose(change).text, (long long)change->topup.id);
    if (change->kind == ADMIN_DROP_OVERRIDE) {
        const struct ledger_admin_override *override = find_override(change);
        if (override == NULL)
            return admin_change_say(change, 404, "not_found", "there is no override %lld",
                                    (long long)change->override.id);
        snprintf(change->tenant, sizeof change->tenant, "%s", override->tenant);
        name_extra(change);
    }
    change->replaced = change->kind == ADMIN_PUT_TENANT && has_tenant(change);
    return true;
}

/* ---- keeping ---- */

/* The row that a change puts or takes away; texts are the change's. */
static struct ledger_fleet_row row_of_change(struct admin_change *change)
{
    struct ledger_fleet_row row = {
        .gone = change->kind == ADMIN_DROP_KEY || change->kind == ADMIN_DROP_TOPUP ||
                change->kind == ADMIN_DROP_TENANT || change->kind == ADMIN_DROP_OVERRIDE};

    switch (change->kind) {
    case ADMIN_PUT_TENANT:
    case ADMIN_DROP_TENANT:
        row.kind = LEDGER_FLEET_TENANT;
        row.tenant = (struct ledger_admin_tenant){
            change->tenant, change->text != NULL ? change->text : "", change->bytes, change->now};
        break;
    case ADMIN_ADD_TOPUP:
    case ADMIN_DROP_TOPUP:
        row.kind = LEDGER_FLEET_TOPUP;
        change->topup.tenant = change->tenant;
        change->topup.tz = change->tz;
        change->topup.made_at = change->now;
        row.topup = change->topup;
        break;
    case ADMIN_ADD_OVERRIDE:
    case ADMIN_DROP_OVERRIDE:
        row.kind = LEDGER_FLEET_OVERRIDE;
        change->override.tenant = change->tenant;
        change->override.key = change->name;
        change->override.tz = change->tz;
        change->override.reason = change->reason;
        change->override.made_at = change->now;
        row.override = change->override;
        break;
    default:
        row.kind = LEDGER_FLEET_KEY;
        row.key = (struct ledger_admin_key){
            .tenant = change->tenant,
            .name = change->name,
            .text = change->text,
            .bytes = change->bytes,
            .not_after = change->not_after,
            .made_at = change->kind == ADMIN_PUT_KEY ? change->made_at : change->now};
        memcpy(row.key.sha256, change->sha256, sizeof row.key.sha256);
    }
    return row;
}

static bool keep_here(struct admin_change *change, struct tg_problem *problem)
{
    struct ledger *ledger = change->all->admin->options.gateway->ledger;
    const struct ledger_fleet_row row = row_of_change(change);

    switch (change->kind) {
    case ADMIN_PUT_TENANT:
        return ledger_admin_put_tenant(ledger, &row.tenant, problem);
    case ADMIN_DROP_TENANT:
        return ledger_admin_drop_tenant(ledger, change->tenant, problem);
    case ADMIN_MAKE_KEY:
    case ADMIN_PUT_KEY:
        return ledger_admin_put_key(ledger, &row.key, problem);
    case ADMIN_DROP_KEY:
        return ledger_admin_drop_key(ledger, change->tenant, change->name, problem);
    case ADMIN_ADD_TOPUP:
        return ledger_admin_add_topup(ledger, &row.topup, &change->topup.id, problem);
    case ADMIN_DROP_TOPUP:
        return ledger_admin_drop_topup(ledger, change->topup.id, problem);
    case ADMIN_ADD_OVERRIDE:
        return ledger_admin_add_override(ledger, &row.override, &change->override.id, problem);
    case ADMIN_DROP_OVERRIDE:
        return ledger_admin_drop_override(ledger, change->override.id, problem);
    case ADMIN_LAPSE:
        return ledger_admin_lapse(ledger, change->now, problem);
    default:
        return false;
    }
}

/* ---- keeping it for all gateways ---- */

static bool is_within(struct admin_change *change)
{
    const struct ledger_admin *all = &change->before.all;
    bool within =
        (change->kind != ADMIN_PUT_TENANT || change->replaced ||
         all->n_tenants < LEDGER_ADMIN_TENANTS_MAX) &&
        (change->kind != ADMIN_MAKE_KEY || all->n_keys < LEDGER_ADMIN_KEYS_MAX) &&
        (change->kind != ADMIN_ADD_TOPUP || all->n_topups < LEDGER_ADMIN_TOPUPS_MAX) &&
        (change->kind != ADMIN_ADD_OVERRIDE || all->n_overrides < LEDGER_ADMIN_OVERRIDES_MAX);

    return within ||
           admin_change_say(change, 503, "ledger", "there are as many of these as are kept");
}

/* What goes with a tenant, and what has ended: each gateway has the ends, so they are in nobody's
 * way until somebody adds more. */
static bool add_gone(struct admin_change *change)
{
    const struct ledger_admin *all = &change->before.all;
    bool adds = change->kind == ADMIN_ADD_TOPUP || change->kind == ADMIN_ADD_OVERRIDE;
    bool drops = change->kind == ADMIN_DROP_TENANT, added = true;

    for (size_t i = 0; added && drops && i < all->n_keys; i++)
        if (same(all->keys[i].tenant, change->tenant))
            added = admin_fleet_add(change, &(struct ledger_fleet_row){.kind = LEDGER_FLEET_KEY,
                                                                       .gone = true,
                                                                       .key = all->keys[i]});
    for (size_t i = 0; added && i < all->n_topups; i++)
        if ((drops && same(all->topups[i].tenant, change->tenant)) ||
            (adds && all->topups[i].ends_at <= change->now))
            added = admin_fleet_add(change, &(struct ledger_fleet_row){.kind = LEDGER_FLEET_TOPUP,
                                                                       .gone = true,
                                                                       .topup = all->topups[i]});
    for (size_t i = 0; added && adds && i < all->n_overrides; i++)
        if (all->overrides[i].ends_at <= change->now)
            added =
                admin_fleet_add(change, &(struct ledger_fleet_row){.kind = LEDGER_FLEET_OVERRIDE,
                                                                   .gone = true,
                                                                   .override = all->overrides[i]});
    return added;
}

/* The number of a change is that of the version that it makes: never used twice in one store. */
static bool keep_for_all(struct admin_change *change)
{
    int64_t number = change->shared.made_for.version + 1;

    if (change->kind == ADMIN_ADD_TOPUP)
        change->topup.id = number;
    if (change->kind == ADMIN_ADD_OVERRIDE)
        change->override.id = number;
    const struct ledger_fleet_row row = row_of_change(change);
    return is_within(change) && add_gone(change) && admin_fleet_add(change, &row);
}

/* What was made here before there was a store, and what the store is restored from. */
static void store_restore(struct admin_change *change)
{
    if (!fleet_entries_add_all(&change->shared.entries, &change->before.all))
        admin_change_say(change, 503, "busy", "no memory");
}

static bool admin_store_keep(struct admin_change *change)
{
    struct tg_problem problem;

    if (change->kind == ADMIN_LAPSE && change->all->fleet != NULL)
        return true; /* the copy stays what the store has */
    if (admin_fleet_shares(change))
        return keep_for_all(change);
    return keep_here(change, &problem) ||
           admin_change_say(change, 503, "ledger", "%s", problem.text);
}

void admin_change_store(struct admin_change *change)
{
    struct ledger *ledger = change->all->admin->options.gateway->ledger;
    struct tg_problem problem;
    struct config config;
    bool good;

    if (change->kind == ADMIN_ADD_CREDIT || change->kind == ADMIN_LIST_CREDITS) {
        admin_credit_store(change);
        return;
    }
    if (admin_fleet_shares(change) &&
        !ledger_fleet_read(ledger, &change->shared.made_for, &problem)) {
        admin_change_say(change, 503, "ledger", "%s", problem.text);
        return;
    }
    name_extra(change);
    if (ledger == NULL || !admin_extras_read(ledger, change->now, &change->before, &problem)) {
        admin_change_say(change, 503, "busy", "%s",
                         ledger == NULL ? "there is no ledger to keep it in" : problem.text);
        return;
    }
    if (change->kind == ADMIN_DISABLE_KEY || change->kind == ADMIN_ENABLE_KEY) {
        admin_key_store(change);
        return;
    }
    if (change->kind == ADMIN_RESTORE) {
        store_restore(change);
        return;
    }
    if (change->kind == ADMIN_LAPSE) {
        good = true;
    } else {
        good = check_first(change);
        if (good) {
            good = try(change, &config) && admin_store_check(change, &config);
            config_free(&config);
        }
    }
    if (good && admin_store_keep(change) && !admin_fleet_shares(change) &&
        !admin_extras_read(ledger, change->now, &change->after, &problem))
        admin_change_say(change, 503, "ledger",
                         "it is stored, and takes effect with the next reload: %s", problem.text);
}

void admin_change_undo(struct admin_change *change)
{
    struct tg_problem problem;

    if (!ledger_admin_restore(change->all->admin->options.gateway->ledger, change->tenant,
                              &change->before.all, &problem))
        admin_change_say(
            change, 503, "ledger",
            "it is not in force, and could not be undone: %s; delete it before the next start",
            problem.text);
}
