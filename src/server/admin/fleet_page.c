/* fleet_page.c - /api/v1/fleet: which gateway has which state of what all of them share.
 *
 * Every gateway says once a second where it stands, and hears of the others in the same answer: so
 * this asks nobody, and any gateway can be asked. Without a store there is this one alone.
 */
#include <stdio.h>
#include <string.h>

#include "server/admin/admin_body_internal.h"
#include "server/admin/admin_change.h"
#include "server/admin/admin_internal.h"
#include "server/runtime/gateway.h"

static void write_gateway(struct json_writer *out, const struct fleet_report *report,
                          const struct fleet_view *view, bool self, tg_ms silent)
{
    bool same = strcmp(report->epoch, view->mark.epoch) == 0;
    int64_t behind = view->stored_version - report->version;

    json_write_object(out);
    json_member_text(out, "id", report->id);
    json_member_text(out, "name", report->name);
    json_member_text(out, "program", report->program);
    json_member_flag(out, "self", self);
    json_member_text(out, "state", silent > FLEET_SILENT_MS ? "silent" : report->state);
    json_member_number(out, "version", report->version);
    json_member_text(out, "epoch", report->epoch);
    json_member_unless(out, "versions_behind", same && behind >= 0 ? behind : -1, -1);
    json_member_unless(out, "since", report->since, 0);
    json_member_number(out, "silent_ms", silent);
    json_member_text(out, "problem", report->problem);
    json_write_object_end(out);
}

/* This gateway as it is now, and not as it said a second ago. */
static void fill_self(struct fleet_report *report, const struct fleet_view *view,
                      const struct admin *admin)
{
    uint64_t ledger = ledger_id(admin->options.gateway->ledger);

    *report = (struct fleet_report){.version = view->mark.version, .since = view->since};
    snprintf(report->id, sizeof report->id, "%016llx", (unsigned long long)ledger);
    snprintf(report->program, sizeof report->program, "%s", TG_VERSION);
    snprintf(report->state, sizeof report->state, "%s", fleet_state_name(view->state));
    snprintf(report->epoch, sizeof report->epoch, "%s", view->mark.epoch);
    snprintf(report->problem, sizeof report->problem, "%s", view->problem);
}

static void write_gateways(struct json_writer *out, const struct admin *admin,
                           const struct fleet_view *view)
{
    tg_ms since = admin_now(admin) - view->reported_at;
    struct fleet_report self;
    bool found = false;

    fill_self(&self, view, admin);
    for (size_t i = 0; i < view->n_reports; i++) {
        const struct fleet_report *report = &view->reports[i];
        if (strcmp(report->id, self.id) == 0) {
            snprintf(self.name, sizeof self.name, "%s", report->name);
            write_gateway(out, &self, view, true, 0);
            found = true;
        } else {
            write_gateway(out, report, view, false, report->silent + since);
        }
    }
    if (!found)
        write_gateway(out, &self, view, true, 0);
}

void admin_fleet_get(struct admin_call *call)
{
    const struct admin *admin = call->admin;
    struct fleet *fleet = admin->changes->fleet;
    struct fleet_view view = {.stored_version = -1};
    struct json_writer out;

    if (fleet != NULL)
        fleet_get_view(fleet, &view);
    json_writer_init(&out);
    json_write_object(&out);
    json_member_text(&out, "store", fleet != NULL ? "redis" : "memory");
    json_member_text(&out, "state", fleet != NULL ? fleet_state_name(view.state) : "alone");
    json_member_text(&out, "why", fleet != NULL ? fleet_event_text(view.seen) : "");
    json_member_text(&out, "problem", fleet != NULL ? view.problem : "");
    json_member_text(&out, "epoch", view.mark.epoch);
    json_member_number(&out, "version", view.mark.version);
    json_member_unless(&out, "stored_version", view.stored_version, -1);
    json_member_number(&out, "schema", LEDGER_FLEET_SCHEMA);
    json_member_text(&out, "eviction_policy", view.policy[0] != '\0' ? view.policy : NULL);
    json_write_key(&out, "gateways");
    json_write_array(&out);
    if (fleet != NULL)
        write_gateways(&out, admin, &view);
    json_write_array_end(&out);
    json_write_object_end(&out);
    admin_reply(call->in, 200, &out);
}

void admin_fleet_restore(struct admin_call *call)
{
    static const struct admin_member members[] = {{"reason", JSON_STRING, true}};
    struct admin_value reason;

    if (!admin_body_read(call, members, 1, &reason) || !admin_read_reason(call, &reason))
        return;
    if (call->admin->changes->fleet == NULL) {
        admin_reply_error(call->in, 409, "no_store",
                          "there is no store to restore: this gateway is alone");
        return;
    }
    struct admin_change *change = admin_change_new(call, ADMIN_RESTORE);
    if (change == NULL)
        return;
    snprintf(change->reason, sizeof change->reason, "%.*s", LEDGER_REASON_MAX - 1, reason.text);
    json_write_object(&change->reply);
    json_member_text(&change->reply, "restored_from", "copy");
    json_write_object_end(&change->reply);
    admin_change_start(change);
}
