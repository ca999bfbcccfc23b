/* log_request.c - the line of a request, and the events that its refusal is. See log.h.
 *
 * One line has the answer to what is asked at three in the morning: who, what for, what came of it
 * and why, who served it, how long each part took, what it cost. What is not known is left out, so
 * the usual line is half as long as the longest.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "server/obs/log_internal.h"
#include "server/obs/record.h"

/* ---- Parts of the line --------------------------------------------------------------------- */

static void put_who(struct log_line *line, const struct report *report)
{
    log_line_id(line, FIELD("id"), report->id);
    log_line_text(line, FIELD("upstream_id"), report->upstream_id);
    log_line_word(line, FIELD("endpoint"), report->kind);
    log_line_text(line, FIELD("tenant"), report->tenant);
    log_line_text(line, FIELD("key"), report->key);
    log_line_text(line, FIELD("tags"), report->tags);
    log_line_text(line, FIELD("user"), report->user);
    log_line_text(line, FIELD("peer"), report->peer);
    log_line_word(line, FIELD("priority"), report->priority);
    log_line_text(line, FIELD("route"), report->route);
    log_line_text(line, FIELD("path"), report->path);
}

static void put_where(struct log_line *line, const struct report *report)
{
    log_line_text(line, FIELD("model"), report->model_asked);
    log_line_text(line, FIELD("served_by"), report->model_served);
    log_line_text(line, FIELD("provider"), report->provider);
    log_line_text(line, FIELD("provider_key"), report->provider_key);
    if (report->fallback_why != NULL) {
        log_line_text(line, FIELD("fallback_from"), report->model);
        log_line_word(line, FIELD("fallback_why"), report->fallback_why);
    }
}

/* The stages in shadow that would have refused, with commas between. */
static void put_would_deny(struct log_line *line, unsigned stages)
{
    char text[80];
    size_t n = 0;

    for (int i = 0; i < REPORT_STAGES; i++)
        if (stages & REPORT_WOULD(i)) {
            const char *name = report_stage_name((enum report_stage)i);
            size_t more = strlen(name);
            assert(n + 1 + more <= sizeof text);
            if (n > 0)
                text[n++] = ',';
            memcpy(text + n, name, more);
            n += more;
        }
    log_line_text(line, FIELD("would_deny"), (struct slice){text, n});
}

static void put_outcome(struct log_line *line, const struct report *report)
{
    static const char HANGUP[] = "hangup_";
    const char *ended = report->ended;

    log_line_number(line, FIELD("status"), report->status > 0 ? report->status : -1);
    log_line_number(line, FIELD("upstream_status"),
                    report->upstream_status > 0 ? report->upstream_status : -1);
    log_line_word(line, FIELD("reason"), report->reason);
    log_line_word(line, FIELD("axis"), report->axis);
    log_line_text(line, FIELD("limit_of"), report->limit_of);
    log_line_text(line, FIELD("limit_rule"), report->limit_rule);
    log_line_number(line, FIELD("limit"), report->limit);
    log_line_number(line, FIELD("remaining"), report->left);
    if (report->would_deny != 0)
        put_would_deny(line, report->would_deny);
    log_line_number(line, FIELD("retry_after_ms"), report->retry_after_ms);
    log_line_word(line, FIELD("failure"), report->failure);
    log_line_text(line, FIELD("cause"), report->cause);
    log_line_word(line, FIELD("ended"), ended);
    if (ended != NULL && strncmp(ended, HANGUP, sizeof HANGUP - 1) == 0)
        log_line_word(line, FIELD("phase"), ended + sizeof HANGUP - 1);
    if (report->client_retry)
        log_line_raw(line, FIELD("client_retry"), SLICE("true"));
    log_line_number(line, FIELD("attempts"), report->attempts);
    if (report->attempts > 1)
        log_line_number(line, FIELD("retries"), report->attempts - 1);
}

static void put_use(struct log_line *line, const struct report *report)
{
    if (report->stream)
        log_line_raw(line, FIELD("stream"), SLICE("true"));
    log_line_text(line, FIELD("changed"), report->changed);
    log_line_number(line, FIELD("estimated_input_tokens"), report->estimated_input);
    log_line_number(line, FIELD("max_output_tokens"), report->max_output);
    if (report->clamped > 0)
        log_line_number(line, FIELD("clamped_max_tokens"), report->clamped);
    log_line_number(line, FIELD("reserved_micro_usd"), report->reserved);
    if (report->has_usage) {
        log_line_number(line, FIELD("input_tokens"), report->usage.input);
        log_line_number(line, FIELD("cached_input_tokens"), report->usage.cached_input);
        log_line_number(line, FIELD("cache_write_tokens"), report->usage.cache_write);
        log_line_number(line, FIELD("output_tokens"), report->usage.output);
        log_line_number(line, FIELD("reasoning_tokens"), report->reasoning_tokens);
        log_line_word(line, FIELD("usage"),
                      report->usage_absurd     ? "absurd"
                      : report->usage_reported ? "reported"
                                               : "estimated");
        log_line_number(line, FIELD("micro_usd"), report->spent);
        if (report->uncertain > 0)
            log_line_number(line, FIELD("uncertain_micro_usd"), report->uncertain);
    }
    log_line_number(line, FIELD("bytes_in"), report->bytes_in);
    log_line_number(line, FIELD("bytes_out"), report->bytes_out);
}

static void put_request(struct log_lane *lane, const struct report *report, uint64_t stands_for,
                        bool json)
{
    static const uint8_t no_trace[sizeof report->trace_id];
    struct log_line *line = &lane->line;

    log_line_begin(line, json, report->at, SLICE("info"), SLICE("request"));
    put_who(line, report);
    put_where(line, report);
    put_outcome(line, report);
    log_line_number(line, FIELD("waited_ms"), report->waited_ms);
    log_line_number(line, FIELD("overhead_us"), report->overhead_us);
    log_line_number(line, FIELD("ttfb_ms"), report->ttfb_ms);
    log_line_number(line, FIELD("upstream_ms"), report->upstream_ms);
    log_line_number(line, FIELD("total_ms"), report->total_ms);
    put_use(line, report);
    if (report->generation > 0)
        log_line_number(line, FIELD("generation"), (int64_t)report->generation);
    if (memcmp(report->trace_id, no_trace, sizeof no_trace) != 0)
        log_line_hex(line, FIELD("trace_id"), report->trace_id, sizeof report->trace_id);
    if (stands_for > 1)
        log_line_number(line, FIELD("sampled"), (int64_t)stands_for);
    log_line_end(line);
    log_lane_put(lane, &lane->lines, line);
}

/* ---- Refusals that are events -------------------------------------------------------------- */

static void put_sampled(struct log_line *line, const struct report *report, uint64_t stands_for)
{
    log_line_id(line, FIELD("id"), report->id);
    if (stands_for > 1)
        log_line_number(line, FIELD("sampled"), (int64_t)stands_for);
    log_line_end(line);
}

static void put_memory_event(struct log_lane *lane, const struct report *report,
                             const struct log_refusal *refusal, uint64_t stands_for, bool json)
{
    struct log_line *line = &lane->line;
    char memory[16];
    int n = snprintf(memory, sizeof memory, "%.1f%%", refusal->memory_used * 100);

    log_line_begin(line, json, report->at, SLICE("warn"),
                   SLICE("request rejected: memory pressure"));
    log_line_word(line, FIELD("priority"), report->priority);
    log_line_text(line, FIELD("peer"), report->peer);
    log_line_text(line, FIELD("memory"), (struct slice){memory, (size_t)n});
    put_sampled(line, report, stands_for);
    log_lane_put(lane, &lane->lines, line);
}

static void put_peer_event(struct log_lane *lane, const struct report *report,
                           const struct log_refusal *refusal, uint64_t stands_for, bool json)
{
    struct log_line *line = &lane->line;

    log_line_begin(line, json, report->at, SLICE("warn"),
                   SLICE("request rejected: peer limit exceeded"));
    log_line_text(line, FIELD("peer"), report->peer);
    log_line_number(line, FIELD("current"), refusal->peer_calls);
    log_line_number(line, FIELD("limit"), refusal->peer_limit);
    put_sampled(line, report, stands_for);
    log_lane_put(lane, &lane->lines, line);
}

/* ---- The whole ----------------------------------------------------------------------------- */

/* Refused before anything was tried: those can be very many. */
static bool is_refusal(const struct report *report)
{
    return report->reason != NULL && report->attempts <= 0;
}

void log_request(struct log_lane *lane, const struct report *report,
                 const struct log_refusal *refusal)
{
    const struct log *log = lane->log;
    bool json = atomic_load_explicit(&log->json, memory_order_relaxed);
    uint64_t stands_for = 1;

    if (!log_is_on(log, LOG_WARN))
        return;
    if (is_refusal(report))
        stands_for = log_sampler_take(&lane->sampler, report->reason, report->at);
    if (stands_for == 0)
        return;
    if (refusal != NULL && is_refusal(report) && strcmp(report->reason, "memory_pressure") == 0)
        put_memory_event(lane, report, refusal, stands_for, json);
    else if (refusal != NULL && is_refusal(report) && strcmp(report->reason, "peer_limit") == 0)
        put_peer_event(lane, report, refusal, stands_for, json);
    if (log_is_on(log, LOG_INFO))
        put_request(lane, report, stands_for, json);
}

/* The line that was just made, with its operations as a last member. */
static void put_with_ops(struct log_lane *lane, struct slice ops)
{
    static const size_t TAIL = 2; /* "}" and the newline */
    const struct text_out *line = &lane->line.out;
    struct text_out *wide = &lane->wide;

    assert(line->size > TAIL && line->bytes[line->size - TAIL] == '}');
    text_out_clear(wide);
    text_out_put(wide, line->bytes, line->size - TAIL);
    text_out_text(wide, ",\"ops\":");
    text_out_slice(wide, ops);
    text_out_text(wide, "}\n");
    log_lane_put_text(lane, &lane->arrivals, wide);
}

void log_record(struct log_lane *lane, const struct report *report)
{
    if (lane->arrivals.bytes == NULL)
        return;
    record_line(report, &lane->line);
    if (report->ops.n == 0)
        log_lane_put(lane, &lane->arrivals, &lane->line);
    else
        put_with_ops(lane, report->ops);
}

void log_record_ops(struct log *log, struct slice ops)
{
    struct log_lane *lane = log->events;

    if (lane->arrivals.bytes == NULL)
        return;
    pthread_mutex_lock(&log->events_lock);
    text_out_clear(&lane->wide);
    text_out_text(&lane->wide, "{\"ops\":");
    text_out_slice(&lane->wide, ops);
    text_out_text(&lane->wide, "}\n");
    log_lane_put_text(lane, &lane->arrivals, &lane->wide);
    pthread_mutex_unlock(&log->events_lock);
}
