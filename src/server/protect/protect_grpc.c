/* protect_grpc.c - RPCs on a protected route: see protect_grpc.h.
 *
 * A refusal is a status without a message ("Trailers-Only"): HTTP 200, and the head holds all. The
 * outcome for the gate's law depends on the upstream's own status:
 *
 *   dropped     UNAVAILABLE, RESOURCE_EXHAUSTED: it had too much to do; DEADLINE_EXCEEDED where
 *               the client stated no deadline: it was the upstream's own
 *   cancelled   CANCELLED, UNKNOWN, INTERNAL, DATA_LOSS: no measure of load; and no status at all,
 *               which a client takes for UNKNOWN, or one that is no number; DEADLINE_EXCEEDED of a
 *               deadline that the client chose: the law is everybody's
 *   ok          everything else: it has answered, whatever it said
 */
#include "server/protect/protect_grpc.h"

#include <string.h>

#include "io/grpc/grpc_retry.h"
#include "server/obs/watch.h"

bool protect_is_grpc(const struct http_head *head)
{
    static const struct slice type = {"application/grpc", 16};
    struct slice given = http_find(head, SLICE("content-type"));

    return head->version == 20 && slice_begins_nocase(given, type) &&
           (given.n == type.n || strchr("+; ", given.at[type.n]) != NULL);
}

tg_ms protect_grpc_deadline(const struct http_head *head, tg_ms now)
{
    struct slice given = http_find(head, SLICE("grpc-timeout"));
    tg_ms ms;

    return given.n > 0 && grpc_read_timeout(given, &ms) && ms < TG_NUMBER_MAX - now ? now + ms : 0;
}

/* In the finest unit for which eight digits are enough, and at least 1. */
struct slice protect_grpc_timeout(tg_ms left, char text[PROTECT_GRPC_TIMEOUT_MAX])
{
    static const struct {
        tg_ms ms;
        char unit;
    } UNITS[] = {{1, 'm'}, {1000, 'S'}, {60000, 'M'}, {3600000, 'H'}};
    size_t i = 0;

    while (i + 1 < sizeof UNITS / sizeof UNITS[0] && left / UNITS[i].ms > 99999999)
        i++;
    left /= UNITS[i].ms;
    size_t n = http_put_number(text, left < 1 ? 1 : left > 99999999 ? 99999999 : left);
    text[n] = UNITS[i].unit;
    return (struct slice){text, n + 1};
}

/* ---- refusals ---- */

static enum grpc_code code_of(enum reply_reason reason)
{
    switch (reason) {
    case REPLY_MEMORY_PRESSURE:
    case REPLY_PEER_LIMIT:
    case REPLY_CONCURRENCY:
    case REPLY_POLICY:
    case REPLY_RATE:
    case REPLY_COST:
        return GRPC_RESOURCE_EXHAUSTED;
    case REPLY_REQUEST_EXCEEDS_LIMIT:
        return GRPC_INVALID_ARGUMENT;
    case REPLY_SHUTTING_DOWN:
    case REPLY_STORE_UNAVAILABLE:
    case REPLY_UPSTREAM_ERROR:
    case REPLY_UPSTREAM_TIMEOUT:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_INTERNAL;
    }
}

/* The hint of a reply over HTTP, in the trailers of gRPC; `retry->n` is 0 if it has none. */
static void write_retry(enum grpc_code code, const char *text, const struct reply *reply,
                        struct grpc_retry *retry)
{
    retry->n = 0;
    for (size_t i = 0; i < reply->n_fields; i++) {
        struct slice name = reply->fields[i].name, value = reply->fields[i].value;
        tg_ms wait = 0;
        if (slice_equal(name, SLICE("retry-after-ms")))
            for (size_t k = 0; k < value.n; k++)
                wait = 10 * wait + value.at[k] - '0';
        if (wait > 0 || slice_equal(name, SLICE("x-should-retry")))
            grpc_retry_write(code, text, wait, retry);
    }
}

void protect_grpc_refuse(struct http_inbound *in, const struct refusal *why,
                         const struct reply_limits *limits, bool late, tg_ms now, uint64_t random,
                         struct slice id)
{
    enum grpc_code code = late ? GRPC_DEADLINE_EXCEEDED : code_of(why->reason);
    char text[REPLY_TEXT_MAX], message[3 * REPLY_TEXT_MAX], number[HTTP_NUMBER_MAX];
    struct http_fields fields;
    struct grpc_retry retry;
    struct reply reply;

    /* Hints and reasons are the same as over HTTP; the form is gRPC's. */
    reply_write(why, WIRE_OPENAI, now, random, &reply);
    http_fields_init(&fields);
    http_fields_add(&fields, SLICE("content-type"), SLICE("application/grpc"));
    size_t n = http_put_number(number, code);
    http_fields_add(&fields, SLICE("grpc-status"), (struct slice){number, n});
    watch_text(text, sizeof text, slice_of(why->text)); /* a peer's name in it may be cut */
    n = grpc_write_message(slice_of(text), message, sizeof message);
    http_fields_add(&fields, SLICE("grpc-message"), (struct slice){message, n});
    for (size_t i = 0; i < reply.n_fields; i++) {
        struct slice name = reply.fields[i].name;
        if (slice_begins_nocase(name, SLICE("x-tollgate-")))
            http_fields_add(&fields, name, reply.fields[i].value);
    }
    write_retry(code, text, &reply, &retry);
    for (size_t i = 0; i < retry.n; i++)
        http_fields_add(&fields, retry.fields[i].name, retry.fields[i].value);
    for (size_t i = 0; i < limits->n_fields; i++)
        http_fields_add(&fields, limits->fields[i].name, limits->fields[i].value);
    http_fields_add(&fields, SLICE("x-request-id"), id);
    struct http_head head = {.status = 200, .fields = fields.list, .n_fields = fields.n};
    http_inbound_send(in, &head, (struct slice){NULL, 0});
}

void protect_grpc_end(struct http_inbound *in, enum grpc_code code, struct slice text)
{
    char message[REPLY_TEXT_MAX], number[HTTP_NUMBER_MAX];
    struct http_field fields[2] = {{.name = SLICE("grpc-status")}, {.name = SLICE("grpc-message")}};

    fields[0].value = (struct slice){number, http_put_number(number, code)};
    fields[1].value = (struct slice){message, grpc_write_message(text, message, sizeof message)};
    http_inbound_finish_with(in, fields, 2);
}

/* ---- outcomes ---- */

static int read_code(struct slice status)
{
    int code = 0;

    if (status.n == 0 || status.n > 3)
        return GRPC_UNKNOWN;
    for (size_t i = 0; i < status.n; i++) {
        if (status.at[i] < '0' || status.at[i] > '9')
            return GRPC_UNKNOWN;
        code = 10 * code + status.at[i] - '0';
    }
    return code;
}

enum tg_outcome protect_grpc_outcome(struct slice status, bool has_deadline)
{
    switch (read_code(status)) {
    case GRPC_UNAVAILABLE:
    case GRPC_RESOURCE_EXHAUSTED:
        return TG_OUTCOME_DROPPED;
    case GRPC_DEADLINE_EXCEEDED:
        return has_deadline ? TG_OUTCOME_CANCELLED : TG_OUTCOME_DROPPED;
    case GRPC_CANCELLED:
    case GRPC_UNKNOWN:
    case GRPC_INTERNAL:
    case 15: /* DATA_LOSS */
        return TG_OUTCOME_CANCELLED;
    default:
        return TG_OUTCOME_OK;
    }
}

/* Clients take REFUSED_STREAM for UNAVAILABLE, ENHANCE_YOUR_CALM for RESOURCE_EXHAUSTED, CANCEL for
 * CANCELLED and every other code for INTERNAL. */
enum tg_outcome protect_grpc_reset_outcome(uint32_t code)
{
    return code == HTTP2_REFUSED_STREAM || code == HTTP2_ENHANCE_YOUR_CALM ? TG_OUTCOME_DROPPED
                                                                           : TG_OUTCOME_CANCELLED;
}
