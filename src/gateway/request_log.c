/* request_log.c - one line a request. See request_log.h.
 *
 * A line fits into what a pipe takes in one piece (PIPE_BUF), whatever the names in it are: each
 * is cut after TEXT_MAX bytes in its escaped form. A log that cannot be written loses the line: it
 * must not end calls.
 *
 *   {"time":"2026-11-15T08:00:00.120Z","level":"info","msg":"request","id":"req_00f3...",...}
 *   time=2026-11-15T08:00:00.120Z level=info msg=request id=req_00f3... tenant="team a" ...
 */
#include "gateway/request_log.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gateway/call.h"
#include "text/json_text_out.h"

enum { TEXT_MAX = 280 };

struct out {
    bool json;
    size_t n;
    char *text; /* REQUEST_LINE_MAX */
};

static void put(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct out *out, const char *format, ...)
{
    size_t room = REQUEST_LINE_MAX - out->n;
    va_list args;

    va_start(args, format);
    int n = vsnprintf(out->text + out->n, room, format, args);
    va_end(args);
    if (n > 0)
        out->n += (size_t)n < room ? (size_t)n : room - 1;
}

static void put_name(struct out *out, const char *name)
{
    if (out->json)
        put(out, "%s\"%s\":", out->n > 0 ? "," : "{", name);
    else
        put(out, "%s%s=", out->n > 0 ? " " : "", name);
}

/* Text that a reader of name=value lines takes as one word. */
static bool is_word(struct slice text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.at[i] <= ' ' || text.at[i] >= 127 || strchr("\"\\=", text.at[i]))
            return false;
    return text.n > 0 && text.n <= TEXT_MAX;
}

static void put_slice(struct out *out, const char *name, struct slice text)
{
    size_t room;

    if (text.n == 0)
        return;
    put_name(out, name);
    room = REQUEST_LINE_MAX - out->n;
    if (!out->json && is_word(text))
        put(out, "%.*s", (int)text.n, text.at);
    else if (room > TEXT_MAX)
        out->n += json_text_out(text.at, text.n, out->text + out->n, TEXT_MAX);
}

static void put_text(struct out *out, const char *name, const char *text)
{
    if (text != NULL)
        put_slice(out, name, slice_of(text));
}

static void put_number(struct out *out, const char *name, int64_t value)
{
    if (value < 0)
        return;
    put_name(out, name);
    put(out, "%" PRId64, value);
}

static void put_usage(struct out *out, const struct request_line *line)
{
    if (!line->has_usage)
        return;
    put_number(out, "input_tokens", line->usage.input);
    put_number(out, "cached_input_tokens", line->usage.cached_input);
    put_number(out, "cache_write_tokens", line->usage.cache_write);
    put_number(out, "output_tokens", line->usage.output);
    put_text(out, "usage", line->usage_reported ? "reported" : "estimated");
    put_number(out, "micro_usd", line->micro_usd);
}

void request_line_init(struct request_line *line)
{
    *line = (struct request_line){.attempts = -1,
                                  .waited_ms = -1,
                                  .ttfb_ms = -1,
                                  .total_ms = -1,
                                  .micro_usd = -1,
                                  .bytes_out = -1};
}

size_t request_line_write(const struct request_line *line, bool json, char text[REQUEST_LINE_MAX])
{
    struct out out = {.json = json, .text = text};
    char date[REPLY_DATE_MAX], id[24];
    size_t n = reply_date(line->at, date);
    int id_n = snprintf(id, sizeof id, "req_%016" PRIx64, line->id);

    put_slice(&out, "time", (struct slice){date, n});
    put_text(&out, "level", "info");
    put_text(&out, "msg", "request");
    put_slice(&out, "id", (struct slice){id, (size_t)id_n});
    put_text(&out, "endpoint", line->endpoint);
    put_slice(&out, "tenant", line->tenant);
    put_slice(&out, "key", line->key);
    put_slice(&out, "user", line->user);
    put_slice(&out, "peer", line->peer);
    put_slice(&out, "route", line->route);
    put_slice(&out, "model", line->model_asked);
    put_slice(&out, "served_by", line->model_served);
    put_slice(&out, "provider", line->provider);
    put_slice(&out, "provider_key", line->provider_key);
    put_number(&out, "status", line->status > 0 ? line->status : -1);
    put_text(&out, "reason", line->reason);
    put_text(&out, "failure", line->failure);
    put_text(&out, "ended", line->ended);
    put_number(&out, "attempts", line->attempts);
    put_number(&out, "waited_ms", line->waited_ms);
    put_number(&out, "ttfb_ms", line->ttfb_ms);
    put_number(&out, "total_ms", line->total_ms);
    put_usage(&out, line);
    put_number(&out, "bytes_out", line->bytes_out);
    put(&out, json ? "}\n" : "\n");
    return out.n;
}

void request_log_line(const struct config *config, const struct request_line *line)
{
    char text[REQUEST_LINE_MAX];

    _Static_assert(REQUEST_LINE_MAX <= PIPE_BUF, "a line is written in one piece");
    if (config->log_level > CONFIG_INFO)
        return;
    size_t n = request_line_write(line, config->log_json, text);
    ssize_t written = write(STDERR_FILENO, text, n);
    (void)written;
}

/* ---- of a call to a model ---- */

static const char *ended_how(const struct call *call)
{
    if (call->ended == HTTP_DONE)
        return "done";
    if (call->ended != HTTP_HANGUP)
        return http_why_text(call->ended);
    switch (call->left_in) {
    case CALL_READING:
        return "hangup_reading";
    case CALL_QUEUED_SLOT:
    case CALL_QUEUED_GATE:
        return "hangup_queued";
    case CALL_ASKING:
        return "hangup_asking";
    case CALL_PAUSING:
        return "hangup_pausing";
    case CALL_ANSWERING:
        return "hangup_answering";
    default:
        return "hangup_over";
    }
}

static struct slice maybe(const char *text)
{
    return text != NULL ? slice_of(text) : (struct slice){NULL, 0};
}

static void fill_route(const struct call *call, struct request_line *line)
{
    const struct config *config = &call->generation->config;

    if (call->route != NULL) {
        line->model_served = slice_of(call->route->config->name);
        line->provider = slice_of(call->route->provider->config->name);
    } else if (call->passthrough != NULL) {
        line->provider = slice_of(config->providers[call->passthrough->provider].name);
    }
    if (call->last_key != NULL)
        line->provider_key = maybe(call->last_key->config->name);
}

void request_log(const struct call *call)
{
    struct request_line line;
    tg_ms now = call_now(call);

    request_line_init(&line);
    line.at = now;
    line.id = call->id;
    if (call->tenant != CONFIG_NONE)
        line.tenant = slice_of(call_tenant(call)->name);
    if (call->virtual_key != NULL)
        line.key = maybe(call->virtual_key->name);
    line.user = call->user;
    line.endpoint = call->passthrough ? "passthrough" : endpoint_name(call->endpoint);
    line.model_asked = ask_slice(&call->ask.model);
    fill_route(call, &line);
    line.status = call->status;
    line.reason = call->reason != REPLY_COUNT ? reply_reason_name(call->reason) : NULL;
    line.ended = ended_how(call);
    line.attempts = call->attempts;
    line.waited_ms = call->waited_ms;
    if (call->attempt.first_at > 0)
        line.ttfb_ms = call->attempt.first_at - call->began_at;
    line.total_ms = now - call->began_at;
    line.has_usage = call->spent >= 0;
    line.usage_reported = call->usage_reported;
    line.usage = call->usage;
    line.micro_usd = call->spent;
    line.bytes_out = call->bytes_out;
    request_log_line(&call->generation->config, &line);
}
