/* admin_overrides.c - /api/v1/overrides: what the API changes of a tenant that a file defines.
 *
 *     block     its keys are refused, or one of them: a key that leaked is revoked so
 *     raise     one of its budgets has so much more, in each window
 *     shadow    none of its limits refuses
 *
 * Each has a reason, and an end, after which the file holds again: whoever wants it for good
 * changes the file. It may be taken back before.
 */
#include <stdio.h>
#include <string.h>

#include "server/admin/admin_body_internal.h"
#include "server/admin/admin_change.h"
#include "server/admin/admin_internal.h"
#include "server/config/config_values.h"
#include "server/runtime/gateway.h"

#define USD_MAX INT64_C(1000000000)

enum { KIND, TENANT, KEY, USD, PER, TZ, REASON, UNTIL, MEMBERS };

static const struct admin_member override_members[MEMBERS] = {
    {"kind", JSON_STRING, true},   {"tenant", JSON_STRING, true}, {"key", JSON_STRING, false},
    {"usd", JSON_DOUBLE, false},   {"per", JSON_STRING, false},   {"tz", JSON_STRING, false},
    {"reason", JSON_STRING, true}, {"until", JSON_STRING, true}};

static bool read_kind(struct admin_call *call, const struct admin_value *kind,
                      struct ledger_admin_override *override)
{
    for (int i = 0; i < LEDGER_OVERRIDE_COUNT; i++)
        if (strcmp(kind->text, fleet_override_name((enum ledger_override_kind)i)) == 0) {
            override->kind = (enum ledger_override_kind)i;
            return true;
        }
    admin_body_wrong(call, kind->offset, "kind is \"%.40s\"; it must be block, raise or shadow",
                     kind->text);
    return false;
}

static bool read_raise(struct admin_call *call, const struct admin_value *values,
                       struct ledger_admin_override *override)
{
    const struct admin_value *usd = &values[USD], *per = &values[PER], *tz = &values[TZ];
    bool known = false;

    if (!usd->given || !per->given) {
        admin_body_wrong(call, 0, "a raise needs usd and per: which budget, and by how much");
        return false;
    }
    for (int i = 0; i < TG_PER_COUNT; i++)
        if (strcmp(per->text, tg_per_name((enum tg_per)i)) == 0) {
            override->per = (enum tg_per)i;
            known = true;
        }
    if (!value_usd(usd->text, &override->micro) || override->micro < 1 ||
        override->micro > USD_MAX * 1000000)
        admin_body_wrong(call, usd->offset,
                         "usd is %.40s; it must be above 0 and at most %lld, with at most six "
                         "decimals and no exponent",
                         usd->text, (long long)USD_MAX);
    else if (!known)
        admin_body_wrong(call, per->offset,
                         "per is \"%.40s\"; it must be day, week, month or total", per->text);
    else if (tz->given && (!value_is_zone(tz->text) || strlen(tz->text) >= 128))
        admin_body_wrong(call, tz->offset,
                         "tz is \"%.40s\"; it must be a zone such as UTC or Europe/Berlin",
                         tz->text);
    else
        return true;
    return false;
}

/* What has no effect is refused. */
static bool takes(struct admin_call *call, const struct admin_value *values,
                  enum ledger_override_kind kind)
{
    for (int i = USD; i <= TZ; i++)
        if (values[i].given && kind != LEDGER_OVERRIDE_RAISE) {
            admin_body_wrong(call, values[i].offset, "%s is for a raise", override_members[i].name);
            return false;
        }
    if (values[KEY].given && kind != LEDGER_OVERRIDE_BLOCK) {
        admin_body_wrong(call, values[KEY].offset, "key is for a block");
        return false;
    }
    return true;
}

bool admin_read_reason(struct admin_call *call, const struct admin_value *reason)
{
    size_t bytes = strlen(reason->text);

    if (bytes > 0 && bytes < LEDGER_REASON_MAX && strspn(reason->text, " \t") < bytes)
        return true;
    admin_body_wrong(call, reason->offset, "reason has %zu bytes; it must have 1 to %d", bytes,
                     LEDGER_REASON_MAX - 1);
    return false;
}

void admin_overrides_make(struct admin_call *call)
{
    struct ledger_admin_override override = {.per = TG_PER_DAY};
    struct admin_value values[MEMBERS];

    if (!admin_body_read(call, override_members, MEMBERS, values) ||
        !read_kind(call, &values[KIND], &override) || !takes(call, values, override.kind) ||
        (override.kind == LEDGER_OVERRIDE_RAISE && !read_raise(call, values, &override)) ||
        !admin_read_reason(call, &values[REASON]))
        return;
    if (!value_time(values[UNTIL].text, &override.ends_at)) {
        admin_body_wrong(call, values[UNTIL].offset,
                         "until is \"%.40s\"; it must be a time such as 2027-12-31T00:00:00Z",
                         values[UNTIL].text);
        return;
    }
    if (override.ends_at <= admin_wall(call->admin)) {
        admin_body_wrong(call, values[UNTIL].offset, "until is %.40s, which is past",
                         values[UNTIL].text);
        return;
    }
    struct admin_change *change = admin_change_new(call, ADMIN_ADD_OVERRIDE);
    if (change == NULL)
        return;
    change->override = override;
    change->override.key = change->name;
    change->override.tenant = change->tenant;
    snprintf(change->tenant, sizeof change->tenant, "%s", values[TENANT].text);
    snprintf(change->name, sizeof change->name, "%s", values[KEY].text);
    snprintf(change->tz, sizeof change->tz, "%.127s", values[TZ].text);
    snprintf(change->reason, sizeof change->reason, "%.*s", LEDGER_REASON_MAX - 1,
             values[REASON].text);
    change->override.tz = change->tz;
    change->override.reason = change->reason;
    admin_change_start(change);
}

void admin_overrides_list(struct admin_call *call)
{
    const struct ledger_admin *all = &call->admin->changes->known.all;
    struct json_writer out;

    json_writer_init(&out);
    json_write_object(&out);
    json_write_key(&out, "overrides");
    json_write_array(&out);
    for (size_t i = 0; i < all->n_overrides; i++)
        if (all->overrides[i].ends_at > admin_wall(call->admin))
            admin_write_override(&out, &all->overrides[i]);
    json_write_array_end(&out);
    json_write_object_end(&out);
    admin_reply(call->in, 200, &out);
}

void admin_overrides_drop(struct admin_call *call)
{
    int64_t id;

    if (!value_count(call->names[0], &id)) {
        admin_reply_error(call->in, 404, "not_found", "there is no override \"%.40s\"",
                          call->names[0]);
        return;
    }
    struct admin_change *change = admin_change_new(call, ADMIN_DROP_OVERRIDE);
    if (change == NULL)
        return;
    change->tenant[0] = '\0';
    change->override.id = id;
    admin_change_start(change);
}
