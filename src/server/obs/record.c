/* record.c - an arrival as a line of JSON. See record.h. */
#include "server/obs/record.h"

#include <math.h>
#include <stdio.h>

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
    log_line_text(line, FIELD("user"), report->user);
    log_line_text(line, FIELD("peer"), report->peer);
    log_line_word(line, FIELD("priority"), report->priority);
    put_tokens(line, report);
    put_value(line, report->value);
    log_line_number(line, FIELD("status"), report->status);
    log_line_word(line, FIELD("reason"), report->reason);
    log_line_number(line, FIELD("latency_ms"), report->total_ms);
    log_line_number(line, FIELD("ttfb_ms"), report->ttfb_ms);
    log_line_end(line);
}
