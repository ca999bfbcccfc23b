/* protect_upstream.c - the upstream's side of a protected route: what goes on, what comes back.
 *
 * What the law of the gate is told of a request that was let through:
 *
 *   ok          the upstream answered, whatever it said below 500
 *   dropped     503 and 504, and no answer at all: refused or broken connections, time-outs
 *   cancelled   any other 5xx: a failure, often a fast one, and so no measure of load; a route that
 *               is set up wrongly (no such name, no trust)
 *
 * Nothing is kept, so nothing is sent twice, but for one case: a kept connection that the upstream
 * had closed, found out only by using it, is no answer. A request without a body whose method may
 * be repeated goes out once more. An RPC that its upstream says not to have looked at, with a body
 * that is gone, is handed back in the same words: clients of gRPC send it again by themselves. One
 * that it has reset for whatever other reason, before its answer or in the midst of it, is handed
 * back so, too: UNAVAILABLE, a status of ours, would say that it may be sent again.
 */
#include "server/protect/protect_grpc.h"
#include "server/protect/protect_internal.h"

#include <stdio.h>
#include <string.h>

enum {
    CONNECT_MS = 5000,
    FIRST_BYTE_MS = 120000,
    IDLE_MS = 60000,
    TARGET_MAX = 32 * 1024,
    FORWARDED_MAX = 1024
};

static const struct http_client_ops upstream_ops;

/* ---- to the upstream ---- */

/* Where the request came from, behind what it says itself of where it came from before. */
static bool add_forwarded_for(const struct guarded *guarded, struct http_fields *fields,
                              char text[FORWARDED_MAX])
{
    struct slice name = SLICE("x-forwarded-for");
    const struct http_head *head = &guarded->in->head;
    struct slice value;
    size_t n = 0, i = 0;

    while (http_next(head, name, &i, &value))
        if (value.n > 0 && n + value.n + 2 + INET6_ADDRSTRLEN < FORWARDED_MAX)
            n += (size_t)snprintf(text + n, FORWARDED_MAX - n, "%.*s, ", (int)value.n, value.at);
    n += (size_t)snprintf(text + n, FORWARDED_MAX - n, "%s", guarded->address);
    return http_fields_add(fields, name, (struct slice){text, n});
}

static bool has_prefix(struct slice text, struct slice prefix)
{
    return text.n >= prefix.n && memcmp(text.at, prefix.at, prefix.n) == 0;
}

/* The client's credentials go on: the upstream is its own. What it says of its priority or its name
 * does so only if we believed it, lest the upstream believe it because it comes from us. */
static bool is_forwarded(const struct guarded *guarded, struct slice name)
{
    if (http_is_hop(&guarded->in->head, name) || slice_equal(name, SLICE("x-forwarded-for")))
        return false;
    return guarded->trusted ||
           !(has_prefix(name, SLICE("x-tollgate-")) || has_prefix(name, SLICE("x-deriva-")));
}

/* What stands for something that the client said, where that is not true any more. */
struct instead {
    struct slice traceparent, timeout; /* empty: as it was said */
    char forwarded[FORWARDED_MAX], trace[TRACE_PARENT_BYTES], left[PROTECT_GRPC_TIMEOUT_MAX];
};

static void make_instead(struct guarded *guarded, struct instead *instead)
{
    tg_ms now = guarded_now(guarded), deadline = guarded->call.deadline;

    instead->traceparent =
        report_notes_traceparent(&guarded->notes, guarded->worker, instead->trace);
    instead->timeout = (struct slice){NULL, 0};
    if (guarded->grpc && deadline > 0 && now > guarded->began_at)
        instead->timeout = protect_grpc_timeout(deadline - now, instead->left);
}

static bool collect_fields(const struct guarded *guarded, struct http_fields *fields,
                           struct instead *instead)
{
    const struct http_head *head = &guarded->in->head;
    struct slice trace = SLICE("traceparent"), timeout = SLICE("grpc-timeout");
    bool fine = true;

    http_fields_init(fields);
    for (size_t i = 0; i < head->n_fields; i++)
        if (is_forwarded(guarded, head->fields[i].name) &&
            (instead->traceparent.n == 0 || !slice_equal(head->fields[i].name, trace)) &&
            (instead->timeout.n == 0 || !slice_equal(head->fields[i].name, timeout)))
            fine = fine && http_fields_add(fields, head->fields[i].name, head->fields[i].value);
    if (instead->traceparent.n > 0)
        fine = fine && http_fields_add(fields, trace, instead->traceparent);
    if (instead->timeout.n > 0)
        fine = fine && http_fields_add(fields, timeout, instead->timeout);
    if (guarded->grpc) /* of a hop, but this one has it too */
        fine = fine && http_fields_add(fields, SLICE("te"), SLICE("trailers"));
    return fine && add_forwarded_for(guarded, fields, instead->forwarded);
}

bool guarded_send(struct guarded *guarded)
{
    /* An RPC may be silent for as long as its client waits. */
    const struct http_timeouts timeouts = {.connect = CONNECT_MS,
                                           .first_byte = guarded->grpc ? 0 : FIRST_BYTE_MS,
                                           .idle = guarded->grpc ? 0 : IDLE_MS};
    const struct http_head *from = &guarded->in->head;
    struct slice before = slice_of(guarded->route->config->upstream.path);
    struct http_fields fields;
    struct instead instead;
    char target[TARGET_MAX];

    make_instead(guarded, &instead);
    if (before.n + from->target.n > sizeof target || !collect_fields(guarded, &fields, &instead))
        return false;
    memcpy(target, before.at, before.n);
    memcpy(target + before.n, from->target.at, from->target.n);
    struct http_head head = {.method = from->method,
                             .target = {target, before.n + from->target.n},
                             .fields = fields.list,
                             .n_fields = fields.n,
                             .length = from->length};
    if (guarded->attempts++ == 0)
        guarded_report_admitted(guarded);
    guarded->out = http_send(guarded->worker->client, guarded->route->origin, &head, &timeouts,
                             &upstream_ops, guarded);
    if (guarded->out != NULL)
        report_notes_sent(&guarded->notes);
    return guarded->out != NULL;
}

/* ---- the upstream's side ---- */

static void out_head(struct http_outbound *out, const struct http_head *from)
{
    struct guarded *guarded = out->owner;
    struct http_fields fields;
    struct http_head head = {.status = from->status, .length = from->length};
    struct refusal why;
    bool fine = true;

    http_fields_init(&fields);
    for (size_t i = 0; i < from->n_fields; i++)
        if (!http_is_hop(from, from->fields[i].name))
            fine = fine && http_fields_add(&fields, from->fields[i].name, from->fields[i].value);
    if (!fine) { /* a part of it would be another reply */
        http_outbound_cancel(out);
        guarded->out = NULL;
        refusal_init(&why, REPLY_UPSTREAM_ERROR, "the upstream's reply has too many fields");
        guarded_refuse(guarded, &why, TG_OUTCOME_CANCELLED);
        return;
    }
    head.fields = fields.list;
    head.n_fields = fields.n;
    guarded->replied = true;
    guarded->status = from->status;
    struct slice status = http_find(from, SLICE("grpc-status"));
    if (status.n <= sizeof guarded->grpc_status) {
        memcpy(guarded->grpc_status, status.at ? status.at : "", status.n);
        guarded->grpc_status_n = status.n;
    }
    guarded->first_at = guarded_now(guarded);
    http_inbound_reply(guarded->in, &head);
}

static void out_data(struct http_outbound *out, struct slice bytes)
{
    struct guarded *guarded = out->owner;

    guarded->bytes_out += (int64_t)bytes.n;
    if (http_inbound_write(guarded->in, bytes) > GUARDED_QUEUED_MAX && !guarded->out_paused) {
        guarded->out_paused = true;
        http_outbound_pause(out);
    }
}

static enum tg_outcome outcome_of_status(int status)
{
    if (status == 503 || status == 504)
        return TG_OUTCOME_DROPPED;
    return status >= 500 ? TG_OUTCOME_CANCELLED : TG_OUTCOME_OK;
}

/* Of an RPC it is behind the messages, or in the head if there are none. */
static struct slice grpc_status_of(const struct http_outbound *out, const struct guarded *guarded)
{
    const struct http_head behind = {.fields = out->trailers, .n_fields = out->n_trailers};
    struct slice status = http_find(&behind, SLICE("grpc-status"));

    return status.n > 0 ? status : (struct slice){guarded->grpc_status, guarded->grpc_status_n};
}

static void out_end(struct http_outbound *out)
{
    struct guarded *guarded = out->owner;
    enum tg_outcome outcome = guarded->grpc && guarded->status == 200
                                  ? protect_grpc_outcome(grpc_status_of(out, guarded))
                                  : outcome_of_status(guarded->status);

    guarded->out = NULL;
    guarded->state = GUARDED_OVER;
    guarded_release(guarded, outcome);
    http_inbound_finish_with(guarded->in, out->trailers, out->n_trailers);
}

static void out_room(struct http_outbound *out)
{
    struct guarded *guarded = out->owner;

    if (!guarded->in_paused)
        return;
    guarded->in_paused = false;
    http_inbound_resume(guarded->in);
}

static bool is_late(enum http_why why)
{
    return why == HTTP_LATE_CONNECT || why == HTTP_LATE_FIRST_BYTE || why == HTTP_LATE_IDLE ||
           why == HTTP_LATE_TOTAL;
}

/* An RPC that its upstream has ended by itself. Servers cancel those whose deadline has come, too:
 * of such a one the client is told that. */
static bool was_reset(const struct guarded *guarded, const struct http_outbound *out)
{
    tg_ms deadline = guarded->call.deadline;

    return guarded->grpc && out->was_reset && (deadline == 0 || guarded_now(guarded) < deadline);
}

static enum tg_outcome outcome_of_failure(enum http_why why)
{
    return is_late(why) || why == HTTP_UNREACHABLE || why == HTTP_RESET ? TG_OUTCOME_DROPPED
                                                                        : TG_OUTCOME_CANCELLED;
}

/* Of RFC 9110, 9.2.2, those in use. */
static bool is_repeatable(struct slice method)
{
    static const char *const METHODS[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE"};

    for (size_t i = 0; i < sizeof METHODS / sizeof METHODS[0]; i++)
        if (slice_equal(method, slice_of(METHODS[i])))
            return true;
    return false;
}

static bool may_send_again(const struct guarded *guarded, const struct http_outbound *out,
                           enum http_why why)
{
    const struct http_head *head = &guarded->in->head;

    if (why != HTTP_RESET || guarded->replied || guarded->sent_again || guarded->wrote)
        return false;
    /* By HTTP/2 it is told what was not looked at. */
    return !out->sent || (out->reused && head->length == 0 && is_repeatable(head->method));
}

static void out_failed(struct http_outbound *out, enum http_why why, const char *text)
{
    struct guarded *guarded = out->owner;
    bool again = may_send_again(guarded, out, why);
    struct refusal refusal;

    (void)text; /* it may name addresses, which are not the client's business */
    guarded->out = NULL;
    guarded->failure = http_why_text(why);
    guarded->sent_again = true;
    if (again && guarded_send(guarded)) {
        guarded->failure = NULL;
        if (guarded->ended) /* of a body without a byte; it does not come again */
            http_outbound_finish_with(guarded->out, guarded->in->trailers, guarded->in->n_trailers);
        return;
    }
    bool unseen = guarded->grpc && why == HTTP_RESET && !out->sent;
    bool reset = was_reset(guarded, out);
    if (!guarded->replied && !unseen && !reset) {
        refusal_init(&refusal, is_late(why) ? REPLY_UPSTREAM_TIMEOUT : REPLY_UPSTREAM_ERROR,
                     is_late(why) ? "the upstream did not answer in time"
                                  : "the upstream did not answer");
        guarded_refuse(guarded, &refusal, outcome_of_failure(why));
        return;
    }
    guarded->state = GUARDED_OVER;
    guarded->reason = REPLY_UPSTREAM_ERROR;
    guarded_release(guarded,
                    reset ? protect_grpc_reset_outcome(out->reset_code) : outcome_of_failure(why));
    if (guarded->grpc && guarded->replied && why == HTTP_RESET && !out->was_reset) {
        /* As its client would say if the connection had been its own. */
        protect_grpc_end(guarded->in, GRPC_UNAVAILABLE, SLICE("the upstream's connection broke"));
        return;
    }
    uint32_t code = out->was_reset ? out->reset_code : HTTP2_INTERNAL_ERROR;
    http_inbound_abort_with(guarded->in, unseen ? HTTP2_REFUSED_STREAM : code);
}

static const struct http_client_ops upstream_ops = {
    .head = out_head, .data = out_data, .end = out_end, .room = out_room, .failed = out_failed};
