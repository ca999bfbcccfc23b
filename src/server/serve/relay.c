/* relay.c - requests that still come to a process which another has taken over from: see relay.h.
 */
#include "server/serve/relay.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/net/address.h"

enum { QUEUED_MAX = 256 << 10, CONNECT_MS = 10000, NAME_BYTES = 80 };

static const char FIELD[] = "x-tollgate-relayed"; /* "192.0.2.1", or "192.0.2.1 tls" */

struct relayed {
    const struct service *service;
    struct http_inbound *in;
    struct http_outbound *out; /* null: it has ended, or was never sent */
    bool replied, in_paused, out_paused;
};

static const struct http_client_ops relay_ops;

/* ---- the request ---- */

static bool collect_fields(const struct http_inbound *in, struct http_fields *fields,
                           char name[NAME_BYTES])
{
    const struct http_head *head = &in->head;
    char address[INET6_ADDRSTRLEN];
    bool fits = true, trailers = http_has_token(head, SLICE("te"), SLICE("trailers"));

    http_fields_init(fields);
    for (size_t i = 0; i < head->n_fields; i++)
        if (!http_is_hop(head, head->fields[i].name) &&
            !slice_equal(head->fields[i].name, slice_of(FIELD)))
            fits = fits && http_fields_add(fields, head->fields[i].name, head->fields[i].value);
    address_text(http_inbound_peer(in), address);
    snprintf(name, NAME_BYTES, "%s%s", address, in->secure ? " tls" : "");
    if (trailers)
        fits = fits && http_fields_add(fields, SLICE("te"), SLICE("trailers"));
    return fits && http_fields_add(fields, slice_of(FIELD), slice_of(name));
}

static void relay_fail(struct relayed *relayed)
{
    static const char text[] =
        "{\"error\":{\"message\":\"the gateway is being replaced; try again\","
        "\"type\":\"server_error\",\"code\":\"relay_failed\",\"param\":null}}";
    struct http_field type = {SLICE("content-type"), SLICE("application/json")};
    struct http_head head = {.status = 503, .fields = &type, .n_fields = 1};

    relayed->out = NULL;
    if (relayed->replied)
        http_inbound_abort(relayed->in);
    else
        http_inbound_send(relayed->in, &head, slice_of(text));
    relayed->replied = true;
}

void relay_begin(struct worker *worker, struct http_inbound *in, struct http_origin *to)
{
    const struct http_timeouts timeouts = {.connect = CONNECT_MS};
    struct relayed *relayed = calloc(1, sizeof *relayed);
    struct http_head head = in->head;
    struct http_fields fields;
    char name[NAME_BYTES];

    if (relayed == NULL) {
        http_inbound_abort(in);
        return;
    }
    relayed->service = &relay_service;
    relayed->in = in;
    in->owner = relayed;
    in->patient = true; /* the other process has the bounds of time */
    if (collect_fields(in, &fields, name)) {
        head.fields = fields.list;
        head.n_fields = fields.n;
        relayed->out = http_send(worker->client, to, &head, &timeouts, &relay_ops, relayed);
    }
    if (relayed->out == NULL)
        relay_fail(relayed);
}

static void relay_data(struct http_inbound *in, struct slice bytes)
{
    struct relayed *relayed = in->owner;

    if (relayed->out != NULL && http_outbound_write(relayed->out, bytes) > QUEUED_MAX &&
        !relayed->in_paused) {
        relayed->in_paused = true;
        http_inbound_pause(in);
    }
}

static void relay_end(struct http_inbound *in)
{
    struct relayed *relayed = in->owner;

    if (relayed->out != NULL && in->head.length != 0)
        http_outbound_finish_with(relayed->out, in->trailers, in->n_trailers);
}

static void relay_room(struct http_inbound *in)
{
    struct relayed *relayed = in->owner;

    if (relayed->out != NULL && relayed->out_paused) {
        relayed->out_paused = false;
        http_outbound_resume(relayed->out);
    }
}

static void relay_gone(struct http_inbound *in, enum http_why why)
{
    struct relayed *relayed = in->owner;

    (void)why;
    if (relayed->out != NULL)
        http_outbound_cancel(relayed->out);
    free(relayed);
}

const struct service relay_service = {
    .name = "relay", .data = relay_data, .end = relay_end, .room = relay_room, .gone = relay_gone};

/* ---- the reply ---- */

static void reply_head(struct http_outbound *out, const struct http_head *from)
{
    struct relayed *relayed = out->owner;
    struct http_head head = {.status = from->status, .length = from->length};
    struct http_fields fields;
    bool fits = true;

    http_fields_init(&fields);
    for (size_t i = 0; i < from->n_fields; i++)
        if (!http_is_hop(from, from->fields[i].name))
            fits = fits && http_fields_add(&fields, from->fields[i].name, from->fields[i].value);
    if (!fits) {
        http_outbound_cancel(out);
        relay_fail(relayed);
        return;
    }
    head.fields = fields.list;
    head.n_fields = fields.n;
    relayed->replied = true;
    http_inbound_reply(relayed->in, &head);
}

static void reply_data(struct http_outbound *out, struct slice bytes)
{
    struct relayed *relayed = out->owner;

    if (http_inbound_write(relayed->in, bytes) > QUEUED_MAX && !relayed->out_paused) {
        relayed->out_paused = true;
        http_outbound_pause(out);
    }
}

static void reply_end(struct http_outbound *out)
{
    struct relayed *relayed = out->owner;

    relayed->out = NULL;
    http_inbound_finish_with(relayed->in, out->trailers, out->n_trailers);
}

static void reply_room(struct http_outbound *out)
{
    struct relayed *relayed = out->owner;

    if (relayed->in_paused) {
        relayed->in_paused = false;
        http_inbound_resume(relayed->in);
    }
}

static void reply_failed(struct http_outbound *out, enum http_why why, const char *text)
{
    (void)why, (void)text;
    relay_fail(out->owner);
}

static const struct http_client_ops relay_ops = {.head = reply_head,
                                                 .data = reply_data,
                                                 .end = reply_end,
                                                 .room = reply_room,
                                                 .failed = reply_failed};

/* ---- the other end ---- */

void relay_read(struct http_inbound *in)
{
    struct slice value = http_find(&in->head, slice_of(FIELD));
    char text[NAME_BYTES];
    union address address;
    socklen_t n;

    if (value.at == NULL || value.n >= sizeof text)
        return;
    memcpy(text, value.at, value.n);
    text[value.n] = '\0';
    char *tls = strstr(text, " tls");
    if (tls != NULL)
        *tls = '\0';
    in->secure = tls != NULL;
    if (strncmp(text, "unix", 4) == 0 || !address_parse(text, 0, &address, &n) ||
        n > sizeof in->relayed_peer)
        return;
    memcpy(&in->relayed_peer, &address, n);
    in->is_relayed = true;
}
