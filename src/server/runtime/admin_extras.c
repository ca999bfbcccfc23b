/* admin_extras.c - what an administrator made, for the reader of the configuration. See
 * admin_extras.h. */
#include "server/runtime/admin_extras.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/yaml_arena.h"
#include "lib/core/array.h"
#include "lib/core/problem.h"
#include "server/tenancy/virtual_key.h"

void admin_extras_name_tenant(char name[ADMIN_EXTRA_NAME_MAX], const char *tenant)
{
    snprintf(name, ADMIN_EXTRA_NAME_MAX, "api: tenant %s", tenant);
}

void admin_extras_name_key(char name[ADMIN_EXTRA_NAME_MAX], const char *tenant, const char *key)
{
    snprintf(name, ADMIN_EXTRA_NAME_MAX, "api: key %s/%s", tenant, key);
}

void admin_extras_name_topup(char name[ADMIN_EXTRA_NAME_MAX], const char *tenant, int64_t id)
{
    snprintf(name, ADMIN_EXTRA_NAME_MAX, "api: top-up %lld of %s", (long long)id,
             *tenant != '\0' ? tenant : "everyone");
}

void admin_extras_name_override(char name[ADMIN_EXTRA_NAME_MAX], const char *tenant, int64_t id)
{
    snprintf(name, ADMIN_EXTRA_NAME_MAX, "api: override %lld of %s", (long long)id, tenant);
}

static const char *admin_extras_keep(struct admin_extras *extras, const char *text)
{
    return arena_text(extras->arena, text, strlen(text));
}

static bool add_tenant(struct admin_extras *extras, const struct ledger_admin_tenant *tenant)
{
    char name[ADMIN_EXTRA_NAME_MAX];

    admin_extras_name_tenant(name, tenant->name);
    extras->list[extras->n] = (struct config_extra){.kind = CONFIG_EXTRA_TENANT,
                                                    .name = admin_extras_keep(extras, name),
                                                    .tenant = tenant->name,
                                                    .text = tenant->text,
                                                    .bytes = tenant->bytes,
                                                    .not_after = CONFIG_NEVER};
    return extras->list[extras->n++].name != NULL;
}

static bool add_key(struct admin_extras *extras, const struct ledger_admin_key *key)
{
    char name[ADMIN_EXTRA_NAME_MAX], hex[VIRTUAL_KEY_HEX + 1];

    admin_extras_name_key(name, key->tenant, key->name);
    virtual_key_hex(key->sha256, hex);
    struct config_extra *extra = &extras->list[extras->n++];
    *extra = (struct config_extra){.kind = CONFIG_EXTRA_KEY,
                                   .name = admin_extras_keep(extras, name),
                                   .tenant = key->tenant,
                                   .text = key->text,
                                   .bytes = key->bytes,
                                   .key = key->name,
                                   .sha256 = admin_extras_keep(extras, hex),
                                   .not_after = key->not_after};
    return extra->name != NULL && extra->sha256 != NULL;
}

static const enum config_period PER[] = {[TG_PER_DAY] = CONFIG_DAY,
                                         [TG_PER_WEEK] = CONFIG_WEEK,
                                         [TG_PER_MONTH] = CONFIG_MONTH,
                                         [TG_PER_TOTAL] = CONFIG_TOTAL};

static bool add_topup(struct admin_extras *extras, const struct ledger_admin_topup *topup)
{
    char name[ADMIN_EXTRA_NAME_MAX];

    admin_extras_name_topup(name, topup->tenant, topup->id);
    extras->list[extras->n] = (struct config_extra){.kind = CONFIG_EXTRA_TOPUP,
                                                    .name = admin_extras_keep(extras, name),
                                                    .tenant = *topup->tenant ? topup->tenant : NULL,
                                                    .not_after = CONFIG_NEVER,
                                                    .micro_usd = topup->micro,
                                                    .per = PER[topup->per],
                                                    .tz = topup->tz};
    return extras->list[extras->n++].name != NULL;
}

void admin_extras_of_override(const struct ledger_admin_override *override,
                              struct config_extra *extra)
{
    *extra = (struct config_extra){
        .kind = override->kind == LEDGER_OVERRIDE_RAISE    ? CONFIG_EXTRA_TOPUP
                : override->kind == LEDGER_OVERRIDE_SHADOW ? CONFIG_EXTRA_SHADOW
                                                           : CONFIG_EXTRA_BLOCK,
        .name = extra->name,
        .tenant = override->tenant,
        .key = override->key[0] != '\0' ? override->key : NULL,
        .not_after = CONFIG_NEVER,
        .micro_usd = override->micro,
        .per = PER[override->per],
        .tz = override->tz[0] != '\0' ? override->tz : NULL};
}

static bool add_override(struct admin_extras *extras, const struct ledger_admin_override *override)
{
    struct config_extra *extra = &extras->list[extras->n++];
    char name[ADMIN_EXTRA_NAME_MAX];

    admin_extras_name_override(name, override->tenant, override->id);
    extra->name = admin_extras_keep(extras, name);
    admin_extras_of_override(override, extra);
    return extra->name != NULL;
}

bool admin_extras_list(struct admin_extras *extras, tg_ms now)
{
    const struct ledger_admin *all = &extras->all;
    size_t room = all->n_tenants + all->n_keys + all->n_topups + all->n_overrides + 1;
    bool done = true;

    free(extras->list);
    arena_free(extras->arena);
    extras->n = 0;
    extras->next_end = TG_NUMBER_MAX;
    extras->arena = arena_new();
    extras->list = calloc(room, sizeof *extras->list);
    if (extras->arena == NULL || extras->list == NULL)
        return false;
    for (size_t i = 0; done && i < all->n_tenants; i++)
        done = add_tenant(extras, &all->tenants[i]);
    for (size_t i = 0; done && i < all->n_keys; i++)
        done = add_key(extras, &all->keys[i]);
    for (size_t i = 0; done && i < all->n_topups; i++) {
        if (all->topups[i].ends_at <= now)
            continue;
        done = add_topup(extras, &all->topups[i]);
        if (all->topups[i].ends_at < extras->next_end)
            extras->next_end = all->topups[i].ends_at;
    }
    for (size_t i = 0; done && i < all->n_overrides; i++) {
        if (all->overrides[i].ends_at <= now)
            continue;
        done = add_override(extras, &all->overrides[i]);
        if (all->overrides[i].ends_at < extras->next_end)
            extras->next_end = all->overrides[i].ends_at;
    }
    return done;
}

#define ADD_ROW(list, n, max, row)                                                                 \
    (array_reserve(&(list), &(max), (n) + 1) && ((list)[(n)++] = (row), true))

bool admin_extras_add(struct admin_extras *extras, const struct ledger_fleet_row *row)
{
    struct ledger_admin *all = &extras->all;

    switch (row->kind) {
    case LEDGER_FLEET_TENANT:
        return ADD_ROW(all->tenants, all->n_tenants, all->max_tenants, row->tenant);
    case LEDGER_FLEET_KEY:
        return ADD_ROW(all->keys, all->n_keys, all->max_keys, row->key);
    case LEDGER_FLEET_TOPUP:
        return ADD_ROW(all->topups, all->n_topups, all->max_topups, row->topup);
    case LEDGER_FLEET_DISABLED:
        return ADD_ROW(all->disabled, all->n_disabled, all->max_disabled, row->disabled);
    case LEDGER_FLEET_OVERRIDE:
        break;
    }
    return ADD_ROW(all->overrides, all->n_overrides, all->max_overrides, row->override);
}

static bool list_or_fail(struct admin_extras *extras, tg_ms now, struct tg_problem *problem)
{
    if (admin_extras_list(extras, now))
        return true;
    problem_fail(problem, "there is no memory for what the API made");
    admin_extras_free(extras);
    return false;
}

bool admin_extras_read(struct ledger *ledger, tg_ms now, struct admin_extras *extras,
                       struct tg_problem *problem)
{
    *extras = (struct admin_extras){.next_end = TG_NUMBER_MAX};
    if (ledger == NULL)
        return true;
    return ledger_admin_read(ledger, &extras->all, problem) && list_or_fail(extras, now, problem);
}

bool admin_extras_view(struct ledger_view *view, tg_ms now, struct admin_extras *extras,
                       struct tg_problem *problem)
{
    *extras = (struct admin_extras){.next_end = TG_NUMBER_MAX};
    return ledger_view_admin(view, &extras->all, problem) && list_or_fail(extras, now, problem);
}

void admin_extras_free(struct admin_extras *extras)
{
    ledger_admin_free(&extras->all);
    free(extras->list);
    arena_free(extras->arena);
    *extras = (struct admin_extras){.next_end = TG_NUMBER_MAX};
}
