/* admin_tenants.c - /api/v1/tenants: all of them, one of them, and those that the API makes.
 *
 * What is told is what holds: read from the configuration in force, whether a file or the API wrote
 * it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/admin/admin_body_internal.h"
#include "server/admin/admin_change.h"
#include "server/admin/admin_internal.h"
#include "server/admin/admin_query.h"
#include "server/config/config_values.h"
#include "server/explain/explain.h"
#include "server/runtime/gateway.h"

enum { PAGE_DEFAULT = 100, PAGE_MAX = 1000 };

static const char *mode_name(enum config_mode mode)
{
    return mode == CONFIG_SHADOW ? "shadow" : "enforce";
}

static const char *source_name(bool extra)
{
    return extra ? "api" : "file";
}

/* What a list and the tenant itself say alike. */
static void write_head(struct json_writer *out, const struct config *config,
                       const struct config_tenant *tenant)
{
    char place[EXPLAIN_PLACE_MAX];

    explain_place(tenant, place);
    json_member_text(out, "name", tenant->name);
    json_member_text(out, "parent",
                     tenant->parent != CONFIG_NO_PARENT ? config->tenants[tenant->parent].name
                                                        : NULL);
    json_member_text(out, "source", source_name(tenant->extra));
    json_member_text(out, "place", place);
    json_member_text(out, "mode", mode_name(tenant->mode));
}

/* ---- all of them ---- */

static int by_name(const void *a, const void *b)
{
    const struct config_tenant *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static void write_page(struct json_writer *out, const struct config *config, const char *after,
                       int64_t limit)
{
    const struct config_tenant **list = calloc(config->n_tenants + 1, sizeof *list);
    size_t n = 0, wanted = (size_t)limit;

    for (size_t i = 0; list != NULL && i < config->n_tenants; i++)
        if (strcmp(config->tenants[i].name, after) > 0)
            list[n++] = &config->tenants[i];
    if (n > 1)
        qsort(list, n, sizeof *list, by_name);
    out->text.failed = out->text.failed || list == NULL;
    json_write_object(out);
    json_write_key(out, "tenants");
    json_write_array(out);
    for (size_t i = 0; i < n && i < wanted; i++) {
        json_write_object(out);
        write_head(out, config, list[i]);
        json_member_number(out, "keys", (int64_t)list[i]->n_keys);
        json_member_number(out, "budgets", (int64_t)list[i]->n_budgets);
        json_write_object_end(out);
    }
    json_write_array_end(out);
    json_member_text(out, "next", n > wanted ? list[wanted - 1]->name : NULL);
    json_write_object_end(out);
    free(list);
}

void admin_tenants_list(struct admin_call *call)
{
    char after[ADMIN_NAME_MAX + 1] = "", text[ADMIN_NAME_MAX + 1];
    int64_t limit = PAGE_DEFAULT;
    struct json_writer out;

    admin_query_get(call->query, "after", after, sizeof after);
    if (admin_query_get(call->query, "limit", text, sizeof text) &&
        (!value_count(text, &limit) || limit < 1 || limit > PAGE_MAX)) {
        admin_reply_error(call->in, 400, "invalid",
                          "parameter \"limit\" is \"%.40s\"; it must be 1 to %d", text, PAGE_MAX);
        return;
    }
    json_writer_init(&out);
    write_page(&out, &admin_generation(call->admin)->config, after, limit);
    admin_reply(call->in, 200, &out);
}

/* ---- one of them ---- */

static void write_limiter(struct json_writer *out, const char *of,
                          const struct config_limiter *limiter)
{
    char what[EXPLAIN_WHAT_MAX], text[EXPLAIN_WHAT_MAX + 64];

    if (!limiter->present)
        return;
    explain_limiter(&limiter->limiter, what);
    int n = snprintf(text, sizeof text, "%s%s: %s%s", of,
                     limiter->axis == TG_AXIS_RATE ? "rate" : "cost", what,
                     limiter->mode == CONFIG_SHADOW ? " (shadow)" : "");
    json_write_string(out, text, (size_t)n);
}

static void write_lines(struct json_writer *out, const struct config_limits *limits, size_t n)
{
    char of[32];

    for (size_t i = 0; i < n; i++) {
        snprintf(of, sizeof of, "limits[%zu] ", i);
        for (size_t k = 0; k < limits[i].n_limiters; k++)
            write_limiter(out, of, &limits[i].limiters[k]);
    }
}

static void write_names(struct json_writer *out, const char *key, const struct config_names *names)
{
    json_write_key(out, key);
    json_write_array(out);
    for (size_t i = 0; i < names->n; i++)
        json_write_string(out, names->names[i], strlen(names->names[i]));
    json_write_array_end(out);
}

static void write_limits(struct json_writer *out, const struct config_tenant *tenant)
{
    json_write_key(out, "limits");
    json_write_array(out);
    write_limiter(out, "", &tenant->rate);
    write_limiter(out, "", &tenant->cost);
    write_lines(out, tenant->limits, tenant->n_limits);
    for (size_t k = 0; k < tenant->users.each.n_limiters; k++)
        write_limiter(out, "each user ", &tenant->users.each.limiters[k]);
    json_write_array_end(out);
}

/* Those of a tenant, or of a key of it (null: of the tenant). */
static void write_budgets(struct json_writer *out, struct admin *admin,
                          const struct config_tenant *tenant, const struct config_key *key)
{
    const struct config *config = &admin_generation(admin)->config;
    const struct config_budget *configured = key != NULL ? key->own.budgets : tenant->budgets;
    size_t n_configured = key != NULL ? key->own.n_budgets : tenant->n_budgets;
    struct spending *spending = admin->options.gateway->spending;
    struct tg_budget_metrics budgets[TG_BUDGETS_MAX];
    size_t n =
        n_configured > 0
            ? snapshot_read_account(spending, tenant->name, key != NULL ? key->name : NULL,
                                    (size_t)(tenant - config->tenants), admin_now(admin), budgets)
            : 0;

    json_write_key(out, "budgets");
    json_write_array(out);
    for (size_t i = 0; i < n; i++)
        snapshot_write_budget(out, tenant->name, key != NULL ? key->name : NULL,
                              snapshot_reserve(configured, n_configured, i), &budgets[i]);
    json_write_array_end(out);
}

static int compare_key_names(const void *a, const void *b)
{
    const struct ledger_admin_key *x = a, *y = b;
    int order = strcmp(x->tenant, y->tenant);

    return order != 0 ? order : strcmp(x->name, y->name);
}

/* What the API was told of a key: tenants may have thousands, and the list is in order. */
static void write_settings(struct json_writer *out, struct admin *admin, const char *tenant,
                           const struct config_key *key)
{
    const struct ledger_admin *all = &admin->changes->known.all;
    const struct ledger_admin_key wanted = {.tenant = tenant, .name = key->name};
    const struct ledger_admin_key *found = NULL;

    if (key->extra && key->name != NULL && all->n_keys > 0)
        found = bsearch(&wanted, all->keys, all->n_keys, sizeof *all->keys, compare_key_names);
    json_write_key(out, "definition");
    if (found != NULL && found->text != NULL)
        admin_body_copy(admin->reader, found->text, found->bytes, out);
    else
        json_write_null(out);
}

static void write_tenant_key(struct json_writer *out, struct admin *admin,
                             const struct config_tenant *tenant, const struct config_key *key)
{
    char hex[VIRTUAL_KEY_HEX + 1];

    virtual_key_hex(key->sha256, hex);
    json_write_object(out);
    json_member_text(out, "name", key->name);
    json_member_text(out, "source", source_name(key->extra));
    json_member_text(out, "sha256", hex);
    json_member_unless(out, "not_after", key->not_after, CONFIG_NEVER);
    json_member_flag(out, "expired", admin_wall(admin) >= key->not_after);
    json_write_key(out, "limits");
    json_write_array(out);
    write_lines(out, key->own.limits, key->own.n_limits);
    json_write_array_end(out);
    write_budgets(out, admin, tenant, key);
    write_names(out, "models", &key->own.models);
    write_names(out, "endpoints", &key->own.endpoints);
    json_write_key(out, "tags");
    json_write_object(out);
    for (size_t i = 0; i < key->own.tags.n; i++)
        json_member_text(out, key->own.tags.list[i].name, key->own.tags.list[i].value);
    json_write_object_end(out);
    write_settings(out, admin, tenant->name, key);
    json_write_object_end(out);
}

static void write_keys(struct json_writer *out, struct admin *admin,
                       const struct config_tenant *tenant)
{
    json_write_key(out, "keys");
    json_write_array(out);
    for (size_t i = 0; i < tenant->n_keys; i++)
        write_tenant_key(out, admin, tenant, &tenant->keys[i]);
    json_write_array_end(out);
}

static void write_definition(struct json_writer *out, struct admin *admin,
                             const struct config_tenant *tenant)
{
    const struct ledger_admin *all = &admin->changes->known.all;

    json_write_key(out, "definition");
    for (size_t i = 0; tenant->extra && i < all->n_tenants; i++)
        if (strcmp(all->tenants[i].name, tenant->name) == 0) {
            admin_body_copy(admin->reader, all->tenants[i].text, all->tenants[i].bytes, out);
            return;
        }
    json_write_null(out);
}

static void write_tenant(struct json_writer *out, struct admin *admin,
                         const struct config_tenant *tenant)
{
    static const enum tg_priority PRIORITY[] = {[CONFIG_HIGH] = TG_PRIORITY_HIGH,
                                                [CONFIG_NORMAL] = TG_PRIORITY_NORMAL,
                                                [CONFIG_LOW] = TG_PRIORITY_LOW};
    const struct config *config = &admin_generation(admin)->config;

    json_write_object(out);
    write_head(out, config, tenant);
    json_member_text(out, "priority", tg_priority_name(PRIORITY[tenant->priority]));
    json_member_real(out, "weight", tenant->weight);
    json_member_real(out, "value", tenant->value);
    json_member_unless(out, "concurrency", tenant->concurrency, 0);
    write_names(out, "models", &tenant->models);
    write_limits(out, tenant);
    explain_write_rules(out, &tenant->rules);
    write_keys(out, admin, tenant);
    write_budgets(out, admin, tenant, NULL);
    admin_write_topups(out, admin, tenant->name);
    write_definition(out, admin, tenant);
    json_write_object_end(out);
}

void admin_tenants_get(struct admin_call *call)
{
    const struct config_tenant *tenant;
    struct json_writer out;

    if (!admin_find_tenant(call, &tenant))
        return;
    json_writer_init(&out);
    write_tenant(&out, call->admin, tenant);
    admin_reply(call->in, 200, &out);
}

/* ---- changing ---- */

/* A tenant that a file defines is refused without reading all files again; the change itself
 * checks again, since the file may have changed. */
static bool in_file(struct admin_call *call)
{
    const struct config *config = &admin_generation(call->admin)->config;
    const struct config_tenant *tenant =
        config_tenant(config, call->names[0], strlen(call->names[0]));
    char place[EXPLAIN_PLACE_MAX];

    if (tenant == NULL || tenant->extra)
        return false;
    explain_place(tenant, place);
    admin_reply_error(
        call->in, 409, "in_file",
        "tenant \"%.128s\" is defined in %s, and the file wins; change it there, and reload",
        call->names[0], place);
    return true;
}

void admin_tenants_put(struct admin_call *call)
{
    struct admin_change *change;

    if (!admin_body_is_object(call) || in_file(call))
        return;
    change = admin_change_new(call, ADMIN_PUT_TENANT);
    if (change != NULL && admin_change_take_body(change))
        admin_change_start(change);
}

void admin_tenants_drop(struct admin_call *call)
{
    struct admin_change *change;

    if (in_file(call))
        return;
    change = admin_change_new(call, ADMIN_DROP_TENANT);
    if (change != NULL)
        admin_change_start(change);
}
