/* record.c - an arrival as a line of JSON. See record.h. */
#include "server/obs/record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/text/json_member.h"
#include "lib/core/num.h"

static void put_value(struct log_line *line, double value)
{
    char text[40];

    if (!isfinite(value) || value < 0)
        return;
    int n = snprintf(text, sizeof text, "%.15g", value);
    log_line_raw(line, FIELD("value"), (struct slice){text, (size_t)n});
}

/* What can be said when the body has been read. */
static void put_tokens(struct log_line *line, const struct report *report)
{
    bool known = report->estimated_input >= 0 && report->max_output >= 0;

    log_line_number(line, FIELD("input_tokens"), report->estimated_input);
    log_line_number(line, FIELD("max_output_tokens"), report->max_output);
    log_line_number(line, FIELD("output_tokens"), report->has_usage ? report->usage.output : -1);
    log_line_raw(line, FIELD("stream"), report->stream ? SLICE("true") : SLICE("false"));
    if (known)
        log_line_number(line, FIELD("cost"), num_add(report->estimated_input, report->max_output));
}

/* What was used and paid, as far as it is known. */
static void put_use(struct log_line *line, const struct report *report)
{
    if (report->has_usage) {
        log_line_number(line, FIELD("used_input_tokens"), tg_usage_input(&report->usage));
        log_line_number(line, FIELD("used_output_tokens"), tg_usage_output(&report->usage));
    }
    log_line_number(line, FIELD("reserved_micro_usd"), report->reserved);
    log_line_number(line, FIELD("spent_micro_usd"), report->spent);
    if (report->uncertain > 0)
        log_line_number(line, FIELD("uncertain_micro_usd"), report->uncertain);
}

void record_line(const struct report *report, struct log_line *line)
{
    log_line_init(line, true);
    log_line_number(line, FIELD("t"), report->began_at);
    log_line_id(line, FIELD("id"), report->id);
    if (report->tenant.n > 0)
        log_line_text(line, FIELD("tenant"), report->tenant);
    else
        log_line_text(line, FIELD("key"), report->peer);
    log_line_text(line, FIELD("model"), report->model.n > 0 ? report->model : report->model_asked);
    if (report->generation > 0)
        log_line_number(line, FIELD("generation"), (int64_t)report->generation);
    log_line_text(line, FIELD("user"), report->user);
    log_line_text(line, FIELD("virtual_key"), report->counted_key);
    log_line_text(line, FIELD("peer"), report->peer);
    log_line_word(line, FIELD("priority"), report->priority);
    put_tokens(line, report);
    put_value(line, report->value);
    log_line_number(line, FIELD("status"), report->status);
    log_line_word(line, FIELD("reason"), report->reason);
    log_line_number(line, FIELD("latency_ms"), report->total_ms);
    log_line_number(line, FIELD("ttfb_ms"), report->ttfb_ms);
    log_line_word(line, FIELD("kind"), report->kind);
    log_line_text(line, FIELD("served"), report->model_served);
    log_line_text(line, FIELD("provider_key"), report->provider_key);
    log_line_number(line, FIELD("attempts"), report->attempts);
    log_line_number(line, FIELD("waited_ms"), report->waited_ms);
    log_line_word(line, FIELD("ended"), report->ended);
    put_use(line, report);
    if (report->lost_ops > 0)
        log_line_number(line, FIELD("lost"), (int64_t)report->lost_ops);
    log_line_end(line);
}

void record_first_write(const struct record_first *first, struct json_writer *out)
{
    json_write_object(out);
    json_member_number(out, "tollgate_recording", RECORD_VERSION);
    json_member_text(out, "made_by", "serve");
    json_member_text(out, "version", tg_version());
    json_member_number(out, "t", first->now);
    json_member_number(out, "ahead_ms", first->ahead_ms);
    json_member_number(out, "workers", (int64_t)first->workers);
    json_member_text(out, "store", first->store);
    json_member_text(out, "config", first->config_hash);
    json_member_number(out, "generation", (int64_t)first->generation);
    json_member_number(out, "chance", (int64_t)first->chance);
    if (first->inherited) {
        json_member_flag(out, "inherited", true);
    }
    if (first->policy_learned) {
        json_member_flag(out, "policy_learned", true);
    }
    json_write_object_end(out);
    json_write_line_end(out);
}
