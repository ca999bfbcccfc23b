/* protect_upstream.c - the upstream's side of a protected route: the request that is forwarded, and
 * the reply.
 *
 * What the law of the gate hears of an admitted request:
 *
 *   ok          the upstream answered, whatever it said below 500
 *   dropped     503 and 504, and no answer at all: refused or broken connections, time-outs
 *   cancelled   any other 5xx: a failure, often a fast one, and so no measure of load; a route that
 *               is set up wrongly (no such name, no trust); and what the client brought about: by a
 *               deadline that it chose, or by reading so slowly that the upstream had to wait
 *
 * Nothing is kept, so nothing is sent twice, with one exception: a kept connection that the
 * upstream had closed, found out only by using it, is no answer. A request without a body whose
 * method may be repeated is sent once more. An RPC that its upstream says it has not looked at, and
 * whose body is gone, is handed back with the same code: clients of gRPC send it again by
 * themselves. One that the upstream has reset for another reason, before its answer or in the midst
 * of it, is handed back with that reason, too: UNAVAILABLE, a status of ours, would say that it may
 * be sent again.
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

/* ---- the request to the upstream ---- */

/* Appends the client's address to the addresses that the request names itself. */
static bool add_forwarded_for(const struct protected_call *call, struct http_fields *fields,
                              char text[FORWARDED_MAX])
{
    struct slice name = SLICE("x-forwarded-for");
    const struct http_head *head = &call->in->head;
    struct slice value;
    size_t n = 0, i = 0;

    while (http_next(head, name, &i, &value))
        if (value.n > 0 && n + value.n + 2 + INET6_ADDRSTRLEN < FORWARDED_MAX)
            n += (size_t)snprintf(text + n, FORWARDED_MAX - n, "%.*s, ", (int)value.n, value.at);
    n += (size_t)snprintf(text + n, FORWARDED_MAX - n, "%s", call->address);
    return http_fields_add(fields, name, (struct slice){text, n});
}

/* The client's credentials are forwarded: the upstream is its own. Its priority and its name are
 * forwarded only if we trusted it, lest the upstream trust them because they come from us. */
static bool is_forwarded(const struct protected_call *call, struct slice name)
{
    if (http_is_hop(&call->in->head, name) || slice_equal(name, SLICE("x-forwarded-for")))
        return false;
    return call->trusted ||
           !(slice_begins(name, SLICE("x-tollgate-")) || slice_begins(name, SLICE("x-deriva-")));
}

/* Fields that replace the client's own, where those are not true any more. */
struct replaced {
    struct slice traceparent, timeout; /* empty: the client's own is forwarded */
    char forwarded[FORWARDED_MAX], trace[TRACE_PARENT_BYTES], left[PROTECT_GRPC_TIMEOUT_MAX];
};

static void replace_fields(struct protected_call *call, struct replaced *replaced)
{
    tg_ms now = protect_now(call), deadline = call->deadline;

    replaced->traceparent = report_notes_traceparent(&call->notes, call->worker, replaced->trace);
    replaced->timeout = (struct slice){NULL, 0};
    if (call->grpc && deadline > 0 && now > call->began_at)
        replaced->timeout = protect_grpc_timeout(deadline - now, replaced->left);
}

static bool collect_fields(const struct protected_call *call, struct http_fields *fields,
                           struct replaced *replaced)
{
    const struct http_head *head = &call->in->head;
    struct slice trace = SLICE("traceparent"), timeout = SLICE("grpc-timeout");
    bool fits = true;

    http_fields_init(fields);
    for (size_t i = 0; i < head->n_fields; i++)
        if (is_forwarded(call, head->fields[i].name) &&
            (replaced->traceparent.n == 0 || !slice_equal(head->fields[i].name, trace)) &&
            (replaced->timeout.n == 0 || !slice_equal(head->fields[i].name, timeout)))
            fits = fits && http_fields_add(fields, head->fields[i].name, head->fields[i].value);
    if (replaced->traceparent.n > 0)
        fits = fits && http_fields_add(fields, trace, replaced->traceparent);
    if (replaced->timeout.n > 0)
        fits = fits && http_fields_add(fields, timeout, replaced->timeout);
    if (call->grpc) /* it is a hop-by-hop field, but this hop has it too */
        fits = fits && http_fields_add(fields, SLICE("te"), SLICE("trailers"));
    return fits && add_forwarded_for(call, fields, replaced->forwarded);
}

bool protect_send(struct protected_call *call)
{
    /* An RPC may be silent for as long as its client waits. */
    const struct http_timeouts timeouts = {.connect = CONNECT_MS,
                                           .first_byte = call->grpc ? 0 : FIRST_BYTE_MS,
                                           .idle = call->grpc ? 0 : IDLE_MS};
    const struct http_head *from = &call->in->head;
    struct slice before = slice_of(call->route->config->upstream.path);
    struct http_fields fields;
    struct replaced replaced;
    char target[TARGET_MAX];

    replace_fields(call, &replaced);
    if (before.n + from->target.n > sizeof target || !collect_fields(call, &fields, &replaced))
        return false;
    memcpy(target, before.at, before.n);
    memcpy(target + before.n, from->target.at, from->target.n);
    struct http_head head = {.method = from->method,
                             .target = {target, before.n + from->target.n},
                             .fields = fields.list,
                             .n_fields = fields.n,
                             .length = from->length};
    if (call->attempts++ == 0)
        protect_report_admitted(call);
    call->out = call->env->send(call->worker->client, call->route->origin, &head, &timeouts,
                                &upstream_ops, call);
    if (call->out != NULL)
        report_notes_sent(&call->notes);
    return call->out != NULL;
}

/* ---- the upstream's reply ---- */

enum protect_state protect_upstream_head(struct protected_call *call, const struct http_head *from)
{
    struct http_fields fields;
    struct http_head head = {.status = from->status, .length = from->length};
    struct refusal why;
    bool fits = true;

    http_fields_init(&fields);
    for (size_t i = 0; i < from->n_fields; i++)
        if (!http_is_hop(from, from->fields[i].name))
            fits = fits && http_fields_add(&fields, from->fields[i].name, from->fields[i].value);
    if (!fits) { /* a part of it would be another reply */
        call->env->cancel(call->out, HTTP2_CANCEL);
        call->out = NULL;
        refusal_init(&why, REPLY_UPSTREAM_ERROR, "the upstream's reply has too many fields");
        return protect_refuse(call, &why, TG_OUTCOME_CANCELLED);
    }
    head.fields = fields.list;
    head.n_fields = fields.n;
    call->status = from->status;
    struct slice status = http_find(from, SLICE("grpc-status"));
    if (status.n <= sizeof call->grpc_status) {
        memcpy(call->grpc_status, status.at ? status.at : "", status.n);
        call->grpc_status_n = status.n;
    }
    call->first_at = protect_now(call);
    http_inbound_reply(call->in, &head);
    return PROTECT_REPLYING;
}

/* Whether the time that the client gave the request is over. */
static bool is_past_deadline(const struct protected_call *call)
{
    return call->gate_call.deadline > 0 && protect_now(call) >= call->gate_call.deadline;
}

enum protect_state protect_upstream_end(struct protected_call *call)
{
    const struct http_outbound *out = call->out;
    const struct http_head trailers = {.fields = out->trailers, .n_fields = out->n_trailers};
    bool overloaded = call->status == 503 || (call->status == 504 && !is_past_deadline(call));
    enum tg_outcome outcome = overloaded            ? TG_OUTCOME_DROPPED
                              : call->status >= 500 ? TG_OUTCOME_CANCELLED
                                                    : TG_OUTCOME_OK;

    if (call->grpc && call->status == 200) {
        /* The status of an RPC is behind its messages, or in the head if there are none. */
        struct slice status = http_find(&trailers, SLICE("grpc-status"));
        outcome = protect_grpc_outcome(
            status.n > 0 ? status : (struct slice){call->grpc_status, call->grpc_status_n},
            call->deadline > 0);
    }
    call->out = NULL;
    protect_release(call, outcome);
    http_inbound_finish_with(call->in, out->trailers, out->n_trailers);
    return PROTECT_OVER;
}

/* ---- the upstream's failure ---- */

static bool is_late(enum http_why why)
{
    return why == HTTP_LATE_CONNECT || why == HTTP_LATE_FIRST_BYTE || why == HTTP_LATE_IDLE ||
           why == HTTP_LATE_TOTAL;
}

/* Methods that are idempotent by RFC 9110, 9.2.2, and in use. */
static bool is_repeatable(struct slice method)
{
    static const char *const METHODS[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE"};

    for (size_t i = 0; i < sizeof METHODS / sizeof METHODS[0]; i++)
        if (slice_equal(method, slice_of(METHODS[i])))
            return true;
    return false;
}

static bool may_send_again(const struct protected_call *call, const struct http_outbound *out,
                           enum http_why why)
{
    const struct http_head *head = &call->in->head;

    if (why != HTTP_RESET || call->state == PROTECT_REPLYING || call->sent_again || call->wrote)
        return false;
    /* HTTP/2 says of a request whether it was looked at. */
    return !out->sent || (out->reused && head->length == 0 && is_repeatable(head->method));
}

enum protect_state protect_upstream_failed(struct protected_call *call, enum http_why why)
{
    const struct http_outbound *out = call->out;
    bool again = may_send_again(call, out, why), is_in_time, was_reset, unseen;
    tg_ms deadline = call->deadline;
    enum tg_outcome outcome = is_late(why) || why == HTTP_UNREACHABLE || why == HTTP_RESET
                                  ? TG_OUTCOME_DROPPED
                                  : TG_OUTCOME_CANCELLED;
    struct refusal refusal;

    if (is_past_deadline(call) || call->slowed)
        outcome = TG_OUTCOME_CANCELLED;

    call->out = NULL;
    call->failure = http_why_text(why);
    call->cause = http_cause_name(out->cause);
    call->sent_again = true;
    if (again && protect_send(call)) {
        call->failure = call->cause = NULL;
        if (call->ended) /* the end of a body without a byte, which does not come again */
            call->env->finish(call->out, call->in->trailers, call->in->n_trailers);
        return call->state;
    }
    /* Servers also reset RPCs whose deadline has come: then the client is told that. */
    is_in_time = deadline == 0 || protect_now(call) < deadline;
    was_reset = call->grpc && out->was_reset && is_in_time;
    unseen = call->grpc && why == HTTP_RESET && !out->sent;
    if (call->state == PROTECT_FORWARDING && !unseen && !was_reset) {
        if (why == HTTP_NO_MEMORY) {
            refusal_of_memory(&refusal);
            return protect_refuse(call, &refusal, TG_OUTCOME_CANCELLED);
        }
        refusal_init(&refusal, is_late(why) ? REPLY_UPSTREAM_TIMEOUT : REPLY_UPSTREAM_ERROR,
                     is_late(why) ? "the upstream did not answer in time"
                                  : "the upstream did not answer");
        return protect_refuse(call, &refusal, outcome);
    }
    call->reason = REPLY_UPSTREAM_ERROR;
    protect_release(call, was_reset ? protect_grpc_reset_outcome(out->reset_code) : outcome);
    if (call->grpc && call->state == PROTECT_REPLYING && why == HTTP_RESET && !out->was_reset) {
        /* The same that its client would say if the connection had been its own. */
        protect_grpc_end(call->in, GRPC_UNAVAILABLE, SLICE("the upstream's connection broke"));
        return PROTECT_OVER;
    }
    uint32_t code = out->was_reset ? out->reset_code : HTTP2_INTERNAL_ERROR;
    http_inbound_abort_with(call->in, unseen ? HTTP2_REFUSED_STREAM : code);
    return PROTECT_OVER;
}

/* ---- where events come from ---- */

static void upstream_head(struct http_outbound *out, const struct http_head *head)
{
    protect_step(out->owner, &(struct protect_event){.kind = PROTECT_UPSTREAM_HEAD, .head = head});
}

static void upstream_data(struct http_outbound *out, struct slice bytes)
{
    protect_step(out->owner,
                 &(struct protect_event){.kind = PROTECT_UPSTREAM_DATA, .bytes = bytes});
}

static void upstream_end(struct http_outbound *out)
{
    protect_step(out->owner, &(struct protect_event){.kind = PROTECT_UPSTREAM_END});
}

static void upstream_room(struct http_outbound *out)
{
    protect_step(out->owner, &(struct protect_event){.kind = PROTECT_UPSTREAM_ROOM});
}

/* The text may name addresses, which are not the client's business. */
static void upstream_failed(struct http_outbound *out, enum http_why why, const char *text)
{
    (void)text;
    protect_step(out->owner, &(struct protect_event){.kind = PROTECT_UPSTREAM_FAILED, .why = why});
}

static const struct http_client_ops upstream_ops = {.head = upstream_head,
                                                    .data = upstream_data,
                                                    .end = upstream_end,
                                                    .room = upstream_room,
                                                    .failed = upstream_failed};

const struct protect_env protect_env = {.send = http_send,
                                        .write = http_outbound_write,
                                        .finish = http_outbound_finish_with,
                                        .pause = http_outbound_pause,
                                        .resume = http_outbound_resume,
                                        .cancel = http_outbound_cancel_with};
