/* trace_span.c - one span as JSON. See traces.h.
 *
 * A call to a model is a span of kind CLIENT, as the conventions for generative AI have it, from
 * its head to its end, whatever number of attempts it took; a request of a protected route is one
 * of kind SERVER. Numbers are strings there, as in all of protobuf's JSON.
 *
 * A field that does not fit is left out whole. Texts that a client chose are escaped and cut; with
 * all of them at their longest a span still fits (test_trace.c).
 */
#include "server/obs/trace_span.h"

#include <assert.h>
#include <string.h>

#include "lib/core/num.h"

enum { TEXT_MAX = 280, SPAN_TAIL = 160, SPAN_SERVER = 2, SPAN_CLIENT = 3 };

/* ---- Pieces -------------------------------------------------------------------------------- */

#define PUT(span, literal) text_out_put(&(span)->out, (literal), sizeof(literal) - 1)

static void trace_span_put_number(struct trace_span *span, int64_t number)
{
    text_out_number(&span->out, number < 0 ? 0 : number);
}

static void put_time(struct trace_span *span, tg_ms at)
{
    trace_span_put_number(span, at);
    PUT(span, "000000\""); /* nanoseconds */
}

/* ---- Attributes ---------------------------------------------------------------------------- */

static bool begin_attribute(struct trace_span *span, struct slice key, size_t value)
{
    if (span->out.size + key.n + value + 64 + SPAN_TAIL > TRACE_SPAN_MAX)
        return false;
    if (span->comma)
        PUT(span, ",");
    span->comma = true;
    PUT(span, "{\"key\":\"");
    text_out_slice(&span->out, key);
    PUT(span, "\",\"value\":{");
    return true;
}

static void put_string(struct trace_span *span, struct slice key, struct slice text)
{
    if (text.n == 0 || !begin_attribute(span, key, TEXT_MAX))
        return;
    PUT(span, "\"stringValue\":");
    text_out_json_cut(&span->out, text, TEXT_MAX);
    PUT(span, "}}");
}

static void put_word(struct trace_span *span, struct slice key, const char *word)
{
    if (word != NULL)
        put_string(span, key, slice_of(word));
}

static void put_count(struct trace_span *span, struct slice key, int64_t number)
{
    if (number < 0 || !begin_attribute(span, key, TEXT_DIGITS_MAX))
        return;
    PUT(span, "\"intValue\":\"");
    trace_span_put_number(span, number);
    PUT(span, "\"}}");
}

/* ---- What a request was -------------------------------------------------------------------- */

static const char *operation_of(const struct report *report)
{
    static const char *const NAMES[][2] = {
        {"messages", "chat"}, {"responses", "chat"}, {"completions", "text_completion"}};

    if (report->kind == NULL)
        return "request";
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (strcmp(report->kind, NAMES[i][0]) == 0)
            return NAMES[i][1];
    return report->kind;
}

static void put_model_attributes(struct trace_span *span, const struct report *report)
{
    const struct tg_usage *usage = &report->usage;

    put_word(span, SLICE("gen_ai.operation.name"), operation_of(report));
    put_string(span, SLICE("gen_ai.provider.name"), report->provider);
    put_string(span, SLICE("gen_ai.request.model"), report->model_asked);
    put_string(span, SLICE("gen_ai.response.model"), report->model_served);
    put_count(span, SLICE("gen_ai.request.max_tokens"), report->max_output);
    if (!report->has_usage)
        return;
    put_count(span, SLICE("gen_ai.usage.input_tokens"),
              num_add(usage->input, num_add(usage->cached_input, usage->cache_write)));
    put_count(span, SLICE("gen_ai.usage.output_tokens"), usage->output);
    put_count(span, SLICE("gen_ai.usage.cache_read.input_tokens"), usage->cached_input);
    put_count(span, SLICE("gen_ai.usage.cache_creation.input_tokens"), usage->cache_write);
    put_count(span, SLICE("tollgate.spent_micro_usd"), report->spent);
}

static bool is_guarded(const struct report *report)
{
    return report->route.n > 0;
}

static void put_attributes(struct trace_span *span, const struct report *report,
                           const struct trace_server *server)
{
    char id[20] = "req_";

    if (is_guarded(report))
        put_string(span, SLICE("http.route"), report->route);
    else
        put_model_attributes(span, report);
    if (server != NULL && server->address != NULL) {
        put_word(span, SLICE("server.address"), server->address);
        put_count(span, SLICE("server.port"), server->port > 0 ? server->port : -1);
    }
    put_count(span, SLICE("http.response.status_code"), report->status > 0 ? report->status : -1);
    put_word(span, SLICE("error.type"), report->reason ? report->reason : report->failure);
    put_word(span, SLICE("tollgate.reason"), report->reason);
    if (report->reason != NULL)
        put_word(span, SLICE("tollgate.binding_axis"), report->axis);
    put_string(span, SLICE("tollgate.tenant"), report->tenant);
    put_word(span, SLICE("tollgate.priority"), report->priority);
    put_count(span, SLICE("tollgate.attempts"), report->attempts);
    put_count(span, SLICE("tollgate.waited_ms"), report->waited_ms);
    put_count(span, SLICE("tollgate.ttfb_ms"), report->ttfb_ms);
    put_count(span, SLICE("tollgate.generation"), (int64_t)report->generation);
    for (int i = 0; i < 16; i++)
        id[4 + i] = "0123456789abcdef"[report->id >> (60 - 4 * i) & 15];
    put_string(span, SLICE("tollgate.request_id"), (struct slice){id, sizeof id});
}

/* "chat demo-small"; of a protected route "GET /api". */
static void put_name(struct trace_span *span, const struct report *report)
{
    char name[TEXT_MAX];
    struct slice first = slice_of(is_guarded(report) ? "HTTP" : operation_of(report));
    struct slice second = is_guarded(report) ? report->route : report->model_asked;
    size_t n = first.n < 64 ? first.n : 64;

    if (is_guarded(report)) {
        const char *space =
            report->path.n > 0 ? memchr(report->path.at, ' ', report->path.n) : NULL;
        first = space ? (struct slice){report->path.at, (size_t)(space - report->path.at)} : first;
        n = first.n < 64 ? first.n : 64;
    }
    memcpy(name, first.at, n);
    if (second.n > 0)
        name[n++] = ' ';
    size_t more = second.n < sizeof name - n ? second.n : sizeof name - n;
    if (more > 0)
        memcpy(name + n, second.at, more);
    PUT(span, ",\"name\":");
    text_out_json_cut(&span->out, (struct slice){name, n + more}, TEXT_MAX);
}

/* By the conventions of HTTP: what a client did wrong is no error to a server, and one to a client.
 */
static bool is_error(const struct report *report)
{
    return report->status >= (is_guarded(report) ? 500 : 400) || report->failure != NULL;
}

void trace_span_write(struct trace_span *span, const struct report *report, const uint8_t parent[8],
                      const struct trace_server *server)
{
    static const uint8_t no_parent[8];

    text_out_fixed(&span->out, span->room, sizeof span->room);
    span->comma = false;
    PUT(span, "{\"traceId\":\"");
    text_out_hex(&span->out, report->trace_id, sizeof report->trace_id);
    PUT(span, "\",\"spanId\":\"");
    text_out_hex(&span->out, report->span_id, sizeof report->span_id);
    if (parent != NULL && memcmp(parent, no_parent, sizeof no_parent) != 0) {
        PUT(span, "\",\"parentSpanId\":\"");
        text_out_hex(&span->out, parent, 8);
    }
    PUT(span, "\"");
    put_name(span, report);
    PUT(span, ",\"kind\":");
    trace_span_put_number(span, is_guarded(report) ? SPAN_SERVER : SPAN_CLIENT);
    PUT(span, ",\"startTimeUnixNano\":\"");
    put_time(span, report->began_at);
    PUT(span, ",\"endTimeUnixNano\":\"");
    put_time(span, report->at);
    PUT(span, ",\"attributes\":[");
    put_attributes(span, report, server);
    PUT(span, "]");
    if (is_error(report))
        PUT(span, ",\"status\":{\"code\":2}");
    PUT(span, "}\n");
    assert(!span->out.failed);
}
