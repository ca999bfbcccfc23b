/* admit_write.c - answers of the Admit service in JSON.
 *
 * The fields of proto/tollgate/v1/admission.proto, by the same names. What does not apply is left
 * out: an allow has no reason, a refusal no lease.
 */
#include "server/admit/admit_write.h"
#include "io/text/json_member.h"

#include <string.h>

static void admit_write_put_text(struct json_writer *out, const char *key, const char *text,
                                 size_t n)
{
    json_write_key(out, key);
    json_write_string(out, text, n);
}

static void put_decision(struct json_writer *out, const struct tg_decision *decision)
{
    json_member_flag(out, "allowed", decision->allowed);
    json_member_number(out, "limit", decision->limit);
    json_member_number(out, "remaining", decision->remaining);
    json_member_number(out, "reset_at_ms", decision->reset_at);
    json_member_number(out, "retry_after_ms", decision->retry_after_ms);
}

static void put_axes(struct json_writer *out, const struct tg_axes *axes)
{
    json_write_key(out, "axes");
    json_write_object(out);
    for (int i = 0; i < TG_AXIS_COUNT; i++) {
        if (!(axes->present & 1u << i))
            continue;
        json_write_key(out, tg_axis_name((enum tg_axis)i));
        json_write_object(out);
        put_decision(out, &axes->decision[i]);
        json_write_object_end(out);
    }
    json_write_object_end(out);
}

static void put_limit(struct json_writer *out, const struct report_limit *limit)
{
    json_write_key(out, "binding_limit");
    json_write_object(out);
    admit_write_put_text(out, "of", limit->of, strlen(limit->of));
    if (limit->rule[0] != 0)
        admit_write_put_text(out, "rule", limit->rule, strlen(limit->rule));
    json_member_number(out, "limit", limit->size);
    json_member_number(out, "remaining", limit->left);
    json_member_number(out, "reset_at_ms", limit->reset_at);
    json_member_number(out, "retry_after_ms", limit->retry_after_ms);
    json_write_object_end(out);
}

static void put_would_deny(struct json_writer *out, unsigned would_deny)
{
    json_write_key(out, "would_deny");
    json_write_array(out);
    for (int i = 0; i < TG_REASON_COUNT; i++)
        if (would_deny & 1u << i)
            json_write_string(out, tg_reason_name((enum tg_reason)i),
                              strlen(tg_reason_name((enum tg_reason)i)));
    json_write_array_end(out);
}

void admit_write_reply(struct json_writer *out, const struct admit_reply *reply)
{
    json_write_object(out);
    put_decision(out, &reply->decision);
    if (!reply->allowed) {
        admit_write_put_text(out, "reason", admit_reason(reply), strlen(admit_reason(reply)));
        admit_write_put_text(out, "message", reply->message, strlen(reply->message));
    }
    if (reply->binding_axis != TG_AXIS_NONE)
        admit_write_put_text(out, "binding_axis", tg_axis_name(reply->binding_axis),
                             strlen(tg_axis_name(reply->binding_axis)));
    if (reply->limit.of[0] != 0)
        put_limit(out, &reply->limit);
    json_member_flag(out, "policy_denied", reply->policy_denied);
    put_axes(out, &reply->axes);
    if (reply->lease_bytes > 0) {
        admit_write_put_text(out, "lease_id", reply->lease, reply->lease_bytes);
        json_member_number(out, "lease_expires_at_ms", reply->lease_expires_at);
    }
    if (reply->would_deny != 0)
        put_would_deny(out, reply->would_deny);
    json_write_object_end(out);
}

void admit_write_release(struct json_writer *out, bool found)
{
    json_write_object(out);
    json_member_flag(out, "found", found);
    json_write_object_end(out);
}

static void put_ids(struct json_writer *out, const char *key, const struct slice *leases,
                    const bool *live, size_t n, bool wanted)
{
    json_write_key(out, key);
    json_write_array(out);
    for (size_t i = 0; i < n; i++)
        if (live[i] == wanted)
            json_write_string(out, leases[i].at, leases[i].n);
    json_write_array_end(out);
}

void admit_write_heartbeat(struct json_writer *out, const struct slice *leases, const bool *live,
                           size_t n, tg_ms next_deadline)
{
    json_write_object(out);
    put_ids(out, "live_ids", leases, live, n, true);
    put_ids(out, "reclaimed_ids", leases, live, n, false);
    json_member_number(out, "next_deadline_ms", next_deadline);
    json_write_object_end(out);
}
