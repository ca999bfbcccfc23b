/* admin_topups.c - /api/v1/tenants/NAME/topups, /api/v1/topups: more money for a budget, for the
 * window that runs.
 *
 * A top-up is for one budget of a tenant, or of everyone together: then its tenant is "", which is
 * nobody's name. It raises the amount, so nothing that was spent changes;
 * when the window ends it lapses, and the next window has the amount of the configuration. That of
 * a budget `total` has no end.
 */
#include <string.h>

#include "server/admin/admin_body_internal.h"
#include "server/admin/admin_change.h"
#include "server/admin/admin_internal.h"
#include "server/config/config_values.h"

#define USD_MAX INT64_C(1000000000)

bool admin_find_tenant(struct admin_call *call, const struct config_tenant **tenant)
{
    const struct config *config = &admin_generation(call->admin)->config;

    *tenant = config_tenant(config, call->names[0], strlen(call->names[0]));
    if (*tenant == NULL)
        admin_reply_error(call->in, 404, "not_found", "there is no tenant \"%.128s\"",
                          call->names[0]);
    return *tenant != NULL;
}

void admin_write_topups(struct json_writer *out, const struct admin *admin, const char *tenant)
{
    const struct ledger_admin *all = &admin->changes->known.all;

    json_write_key(out, "topups");
    json_write_array(out);
    for (size_t i = 0; i < all->n_topups; i++)
        if (strcmp(all->topups[i].tenant, tenant) == 0 &&
            all->topups[i].ends_at > admin_wall(admin))
            admin_write_topup(out, &all->topups[i]);
    json_write_array_end(out);
}

static void list(struct admin_call *call, const char *tenant)
{
    struct json_writer out;

    json_writer_init(&out);
    json_write_object(&out);
    admin_write_topups(&out, call->admin, tenant);
    json_write_object_end(&out);
    admin_reply(call->in, 200, &out);
}

void admin_topups_list(struct admin_call *call)
{
    const struct config_tenant *tenant;

    if (admin_find_tenant(call, &tenant))
        list(call, tenant->name);
}

void admin_topups_list_all(struct admin_call *call)
{
    list(call, "");
}

static bool read_per(const char *text, enum tg_per *per)
{
    for (int i = 0; i < TG_PER_COUNT; i++)
        if (strcmp(text, tg_per_name((enum tg_per)i)) == 0) {
            *per = (enum tg_per)i;
            return true;
        }
    return false;
}

/* This serves everyone's budgets, too: the path then names nobody. */
void admin_topups_make(struct admin_call *call)
{
    static const struct admin_member members[] = {
        {"usd", JSON_DOUBLE, true}, {"per", JSON_STRING, true}, {"tz", JSON_STRING, false}};
    struct admin_value values[3];
    const struct admin_value *usd = &values[0], *per = &values[1], *tz = &values[2];
    struct ledger_admin_topup topup = {0};

    if (!admin_body_read(call, members, 3, values))
        return;
    if (!value_usd(usd->text, &topup.micro) || topup.micro < 1 || topup.micro > USD_MAX * 1000000) {
        admin_body_wrong(call, usd->offset,
                         "usd is %.40s; it must be above 0 and at most %lld, with at most six "
                         "decimals and no exponent",
                         usd->text, (long long)USD_MAX);
        return;
    }
    if (!read_per(per->text, &topup.per)) {
        admin_body_wrong(call, per->offset,
                         "per is \"%.40s\"; it must be day, week, month or total", per->text);
        return;
    }
    if (tz->given && (!value_is_zone(tz->text) || strlen(tz->text) >= 128)) {
        admin_body_wrong(call, tz->offset,
                         "tz is \"%.40s\"; it must be a zone such as UTC or Europe/Berlin",
                         tz->text);
        return;
    }
    struct admin_change *change = admin_change_new(call, ADMIN_ADD_TOPUP);
    if (change == NULL)
        return;
    change->topup = topup;
    memcpy(change->tz, tz->text, strlen(tz->text) + 1);
    admin_change_start(change);
}

static void drop(struct admin_call *call, const char *tenant, const char *number)
{
    int64_t id;

    if (!value_count(number, &id)) {
        admin_reply_error(call->in, 404, "not_found", "there is no top-up \"%.40s\"", number);
        return;
    }
    struct admin_change *change = admin_change_new(call, ADMIN_DROP_TOPUP);
    if (change == NULL)
        return;
    memcpy(change->tenant, tenant, strlen(tenant) + 1);
    change->topup.id = id;
    admin_change_start(change);
}

void admin_topups_drop(struct admin_call *call)
{
    drop(call, call->names[0], call->names[1]);
}

void admin_topups_drop_all(struct admin_call *call)
{
    drop(call, "", call->names[0]);
}
