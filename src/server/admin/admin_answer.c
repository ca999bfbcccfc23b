/* admin_answer.c - what is said of a change in the end: to who asked, and to the log. See
 * admin_change.h. */
#include <stdio.h>
#include <string.h>

#include "server/admin/admin_change.h"
#include "server/admin/admin_internal.h"
#include "server/runtime/gateway.h"

void admin_write_topup(struct json_writer *out, const struct ledger_admin_topup *topup)
{
    json_write_object(out);
    json_member_number(out, "id", topup->id);
    json_member_text(out, "per", tg_per_name(topup->per));
    json_member_text(out, "tz", topup->tz);
    json_member_number(out, "micro_usd", topup->micro);
    json_member_number(out, "made_at", topup->made_at);
    json_member_unless(out, "ends_at", topup->ends_at, TG_NUMBER_MAX);
    json_write_object_end(out);
}

void admin_write_override(struct json_writer *out, const struct ledger_admin_override *override)
{
    json_write_object(out);
    json_member_number(out, "id", override->id);
    json_member_text(out, "kind", fleet_override_name(override->kind));
    json_member_text(out, "tenant", override->tenant);
    json_member_text(out, "key", override->key[0] != '\0' ? override->key : NULL);
    if (override->kind == LEDGER_OVERRIDE_RAISE) {
        json_member_text(out, "per", tg_per_name(override->per));
        json_member_text(out, "tz", override->tz);
        json_member_number(out, "micro_usd", override->micro);
    }
    json_member_text(out, "reason", override->reason);
    json_member_number(out, "made_at", override->made_at);
    json_member_number(out, "until", override->ends_at);
    json_write_object_end(out);
}

static void write_key(struct json_writer *out, const struct admin_change *change)
{
    char hex[VIRTUAL_KEY_HEX + 1];

    virtual_key_hex(change->sha256, hex);
    json_member_text(out, "tenant", change->tenant);
    json_member_text(out, "name", change->name);
    if (change->kind == ADMIN_MAKE_KEY)
        json_member_text(out, "key", change->secret);
    json_member_text(out, "sha256", hex);
    json_member_unless(out, "not_after", change->not_after, CONFIG_NEVER);
}

void admin_change_write(const struct admin_change *change, const struct reload_result *result,
                        struct json_writer *out)
{
    json_write_object(out);
    if (change->kind == ADMIN_MAKE_KEY || change->kind == ADMIN_PUT_KEY)
        write_key(out, change);
    if (change->kind == ADMIN_ADD_TOPUP) {
        json_write_key(out, "topup");
        admin_write_topup(out, &change->topup);
    }
    if (change->kind == ADMIN_ADD_OVERRIDE) {
        json_write_key(out, "override");
        admin_write_override(out, &change->override);
    }
    json_member_number(out, "generation", (int64_t)result->generation);
    admin_write_warnings(out, result->problems, change->extra);
    json_write_object_end(out);
}

int admin_change_status(const struct admin_change *change)
{
    bool made = change->kind == ADMIN_MAKE_KEY || change->kind == ADMIN_ADD_TOPUP ||
                change->kind == ADMIN_ADD_CREDIT || change->kind == ADMIN_ADD_OVERRIDE ||
                (change->kind == ADMIN_PUT_TENANT && !change->replaced);

    return made ? 201 : 200;
}

void admin_change_audit(const struct admin_change *change, const char *outcome)
{
    if (change->call != NULL)
        change->call->audited = true;

    static const char *const ACTIONS[] = {[ADMIN_PUT_TENANT] = "put_tenant",
                                          [ADMIN_DROP_TENANT] = "delete_tenant",
                                          [ADMIN_MAKE_KEY] = "make_key",
                                          [ADMIN_PUT_KEY] = "put_key",
                                          [ADMIN_DROP_KEY] = "delete_key",
                                          [ADMIN_ADD_TOPUP] = "top_up",
                                          [ADMIN_DROP_TOPUP] = "delete_top_up",
                                          [ADMIN_LAPSE] = "lapse_top_ups",
                                          [ADMIN_ADD_CREDIT] = "credit",
                                          [ADMIN_LIST_CREDITS] = "list_credits",
                                          [ADMIN_DISABLE_KEY] = "disable_key",
                                          [ADMIN_ENABLE_KEY] = "enable_key",
                                          [ADMIN_ADD_OVERRIDE] = "override",
                                          [ADMIN_DROP_OVERRIDE] = "delete_override",
                                          [ADMIN_FOLLOW] = "follow",
                                          [ADMIN_RESTORE] = "restore_store"};
    const char *whose = change->tenant[0] != '\0' ? change->tenant : "everyone";
    char object[2 * ADMIN_NAME_MAX + 64 + LEDGER_REASON_MAX];

    if (change->kind == ADMIN_MAKE_KEY || change->kind == ADMIN_PUT_KEY ||
        change->kind == ADMIN_DROP_KEY || change->kind == ADMIN_DISABLE_KEY ||
        change->kind == ADMIN_ENABLE_KEY)
        snprintf(object, sizeof object, "%s/%s", change->tenant, change->name);
    else if (change->kind == ADMIN_ADD_TOPUP)
        snprintf(object, sizeof object, "%s %lld.%06lld USD per %s", whose,
                 (long long)(change->topup.micro / 1000000),
                 (long long)(change->topup.micro % 1000000), tg_per_name(change->topup.per));
    else if (change->kind == ADMIN_ADD_CREDIT)
        snprintf(object, sizeof object, "%s%s%s %lld.%06lld USD: %s", change->credit.tenant,
                 change->credit.user[0] != '\0' ? "/" : "", change->credit.user,
                 (long long)(change->credit.micro / 1000000),
                 (long long)(change->credit.micro % 1000000), change->credit.reason);
    else if (change->kind == ADMIN_ADD_OVERRIDE)
        snprintf(object, sizeof object, "%s %s%s%s: %s", fleet_override_name(change->override.kind),
                 change->tenant, change->name[0] != '\0' ? "/" : "", change->name, change->reason);
    else if (change->kind == ADMIN_DROP_OVERRIDE)
        snprintf(object, sizeof object, "%s %lld", whose, (long long)change->override.id);
    else if (change->kind == ADMIN_FOLLOW)
        snprintf(object, sizeof object, "version %lld", (long long)change->shared.made.version);
    else if (change->kind == ADMIN_RESTORE)
        snprintf(object, sizeof object, "version %lld: %s",
                 (long long)change->shared.made_for.version, change->reason);
    else if (change->kind == ADMIN_DROP_TOPUP)
        snprintf(object, sizeof object, "%s %lld", whose, (long long)change->topup.id);
    else
        snprintf(object, sizeof object, "%s", change->tenant);
    admin_audit(change->all->admin, change->who, ACTIONS[change->kind], object, outcome);
}
