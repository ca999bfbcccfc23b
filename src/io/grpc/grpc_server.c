/* grpc_server.c - services of gRPC on a listener. See grpc_server.h.
 *
 *     begin: content type, path, timeout ---> the method's begin
 *     data:  frames ---> [one message: kept] [many: unpacked, message(), sent together]
 *     end:   the one message ---> message();  or end()
 *     gone:  cancel(), unless it was finished; lost(), if the status was not delivered
 *
 * An RPC that is refused before it has a call of ours (415, UNIMPLEMENTED) has no owner: whatever
 * else arrives on that exchange is ignored. The others take a struct from a list of spare ones.
 */
#include "io/grpc/grpc_server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/grpc/grpc_internal.h"

enum { ARENA_BYTES = 64 << 10, ARENA_MAX = 2 << 20, SPARE_MAX = 1024 };

/* Bytes of messages that have begun and not ended, of all RPCs together: without a bound, everyone
 * who may connect could take all memory, 64 KiB by 64 KiB. Small ones stand in their call. */
#define GATHERED_MAX ((size_t)64 << 20)

void *grpc_context(const struct grpc_call *call)
{
    return call->server->options.context;
}

tg_ms grpc_now(const struct grpc_call *call)
{
    return net_loop_now(call->server->options.loop);
}

/* ---- the list of those that run ---- */

static void deadline_came(void *arg);

static struct grpc_call *take_call(struct grpc_server *server)
{
    struct grpc_call *call = LIST_FIRST(&server->spare);

    assert((call == NULL) == (server->n_spare == 0));
    if (call != NULL) {
        LIST_REMOVE(call, among);
        server->n_spare--;
    } else if ((call = malloc(sizeof *call)) == NULL) {
        return NULL;
    }
    memset(call, 0, offsetof(struct grpc_call, frames));
    memset(call->state, 0, sizeof call->state);
    call->server = server;
    grpc_frames_init(&call->frames, GRPC_MESSAGE_MAX);
    call->frames.left = &server->left;
    net_timer_init(&call->timer, deadline_came, call);
    LIST_INSERT_HEAD(&server->running, call, among);
    return call;
}

static void give_call(struct grpc_call *call)
{
    struct grpc_server *server = call->server;

    assert(server->reading != call);
    net_timer_stop(server->options.loop, &call->timer);
    grpc_frames_fini(&call->frames);
    assert(server->left <= GATHERED_MAX);
    LIST_REMOVE(call, among);
    if (server->n_spare >= SPARE_MAX) {
        free(call);
        return;
    }
    LIST_INSERT_HEAD(&server->spare, call, among);
    server->n_spare++;
}

/* ---- ends that the owner does not choose ---- */

static void grpc_server_cancel(struct grpc_call *call)
{
    if (!call->finished && call->method->cancel != NULL)
        call->method->cancel(call);
}

void grpc_fail(struct grpc_call *call, enum grpc_code code, const char *text)
{
    grpc_server_cancel(call);
    grpc_finish(call, code, text);
}

static void deadline_came(void *arg)
{
    grpc_fail(arg, GRPC_DEADLINE_EXCEEDED, "the deadline passed before the answer");
}

static void finish_frame(struct grpc_call *call, enum grpc_frame_state state)
{
    switch (state) {
    case GRPC_FRAME_COMPRESSED:
        grpc_finish(call, GRPC_INTERNAL,
                    "a message is compressed, and grpc-encoding does not say how");
        break;
    case GRPC_FRAME_TOO_LARGE:
        grpc_finish(call, GRPC_RESOURCE_EXHAUSTED, "a message may have 65536 bytes");
        break;
    default:
        grpc_finish(call, GRPC_RESOURCE_EXHAUSTED, "there is no memory for a message");
        break;
    }
}

static void fail_frame(struct grpc_call *call, enum grpc_frame_state state)
{
    grpc_server_cancel(call);
    finish_frame(call, state);
}

/* ---- what arrives ---- */

static bool inflate_message(struct grpc_call *call, struct slice *bytes)
{
    switch (grpc_inflate(&call->server->inflate, GRPC_MESSAGE_MAX, bytes)) {
    case GRPC_INFLATED:
        return true;
    case GRPC_INFLATE_TOO_LARGE:
        fail_frame(call, GRPC_FRAME_TOO_LARGE);
        break;
    case GRPC_INFLATE_NO_MEMORY:
        fail_frame(call, GRPC_FRAME_NO_MEMORY);
        break;
    default:
        grpc_fail(call, GRPC_INVALID_ARGUMENT, "the message is not the gzip that it should be");
        break;
    }
    return false;
}

static void give_message(struct grpc_call *call, struct slice bytes, bool compressed)
{
    struct grpc_server *server = call->server;

    if (compressed && !inflate_message(call, &bytes))
        return;
    ProtobufCMessage *message = protobuf_c_message_unpack(
        call->method->request, &server->arena.allocator, bytes.n, (const uint8_t *)bytes.at);

    if (message != NULL) {
        call->cut = grpc_find_cut(call->method->request, bytes);
        call->method->message(call, message);
    } else {
        grpc_fail(call, GRPC_INVALID_ARGUMENT, "the message is not what the method takes");
    }
    grpc_arena_reset(&server->arena);
}

/* An RPC with one message gets it at the client's end. */
static void keep_first(struct grpc_call *call, struct slice message)
{
    if (call->n_messages > 1)
        grpc_fail(call, GRPC_INVALID_ARGUMENT, "the method takes one message, and more were sent");
    else if (!grpc_frames_keep(&call->frames, &message))
        fail_frame(call, GRPC_FRAME_NO_MEMORY);
    else
        call->first = message;
    call->first_compressed = call->frames.compressed;
}

void grpc_server_data(struct http_inbound *in, struct slice bytes)
{
    struct grpc_call *call = in->owner;
    enum grpc_frame_state state = GRPC_FRAME_MORE;
    struct slice message;

    if (call == NULL || call->finished)
        return;
    assert(call->in == in && call->server->reading == NULL);
    grpc_frames_feed(&call->frames, bytes);
    call->server->reading = call;
    while (!call->finished && (state = grpc_frames_next(&call->frames, &message)) == GRPC_FRAME) {
        call->n_messages++;
        if (call->method->many)
            give_message(call, message, call->frames.compressed);
        else
            keep_first(call, message);
    }
    if (!call->finished && state != GRPC_FRAME_MORE)
        fail_frame(call, state);
    call->server->reading = NULL;
    if (call->finished)
        return;
    grpc_flush(call);
    if (call->stuck)
        grpc_choose_pace(call);
}

void grpc_server_end(struct http_inbound *in)
{
    struct grpc_call *call = in->owner;

    if (call == NULL || call->finished)
        return;
    if (!grpc_frames_between(&call->frames))
        grpc_fail(call, GRPC_INVALID_ARGUMENT, "the last message is cut off");
    else if (!call->method->many && call->n_messages == 0)
        grpc_fail(call, GRPC_INVALID_ARGUMENT, "the method takes one message, and none was sent");
    else if (!call->method->many)
        give_message(call, call->first, call->first_compressed);
    else if (call->method->end != NULL)
        call->method->end(call);
    else
        grpc_finish(call, GRPC_OK, NULL);
}

void grpc_server_room(struct http_inbound *in)
{
    struct grpc_call *call = in->owner;

    if (call == NULL || call->finished || !call->stuck)
        return;
    call->stuck = false;
    grpc_choose_pace(call);
    if (call->method->room != NULL)
        call->method->room(call);
}

void grpc_server_gone(struct http_inbound *in, enum http_why why)
{
    struct grpc_call *call = in->owner;

    if (call == NULL)
        return;
    assert(call->in == in);
    in->owner = NULL;
    if (call->finished && why != HTTP_DONE && call->method->lost != NULL)
        call->method->lost(call);
    grpc_server_cancel(call);
    give_call(call);
}

/* ---- a new one ---- */

/* Refuses a request without a call of ours: with a status of HTTP, or of gRPC. */
static void turn_away(struct http_inbound *in, int status)
{
    const struct http_field fields[] = {{SLICE("accept-post"), SLICE("application/grpc")}};
    const struct http_head head = {.status = status, .fields = fields, .n_fields = 1};

    http_inbound_send(in, &head, (struct slice){"", 0});
}

static void turn_away_with(struct http_inbound *in, enum grpc_code code, const char *text)
{
    char number[HTTP_NUMBER_MAX], message[GRPC_TEXT_MAX];
    size_t digits = http_put_number(number, code);
    size_t n = grpc_write_message(slice_of(text), message, sizeof message);
    const struct http_field fields[] = {{SLICE("content-type"), SLICE("application/grpc")},
                                        {SLICE("grpc-status"), {number, digits}},
                                        {SLICE("grpc-message"), {message, n}}};
    const struct http_head head = {.status = 200, .fields = fields, .n_fields = 3};

    http_inbound_send(in, &head, (struct slice){"", 0});
}

static const struct grpc_method *find_method(const struct grpc_service *service, struct slice name)
{
    for (size_t i = 0; i < service->n_methods; i++)
        if (slice_equal(slice_of(service->methods[i].name), name))
            return &service->methods[i];
    return NULL;
}

static const struct grpc_service *find_service(const struct grpc_server *server, struct slice name)
{
    for (size_t i = 0; i < server->options.n_services; i++)
        if (slice_equal(slice_of(server->options.services[i]->name), name))
            return server->options.services[i];
    return NULL;
}

/* Null: it has been answered. */
static const struct grpc_method *grpc_server_find(const struct grpc_server *server,
                                                  struct http_inbound *in)
{
    struct slice service_name, name;
    char text[256];

    if (!grpc_split_path(in->head.target, &service_name, &name)) {
        turn_away_with(in, GRPC_UNIMPLEMENTED, "the path is not /package.Service/Method");
        return NULL;
    }
    const struct grpc_service *service = find_service(server, service_name);
    const struct grpc_method *method = service != NULL ? find_method(service, name) : NULL;
    if (method != NULL)
        return method;
    if (service != NULL)
        snprintf(text, sizeof text, "%s has no method %.*s", service->name,
                 name.n > 100 ? 100 : (int)name.n, name.at);
    else
        snprintf(text, sizeof text, "there is no service %.*s here",
                 service_name.n > 100 ? 100 : (int)service_name.n, service_name.at);
    turn_away_with(in, GRPC_UNIMPLEMENTED, text);
    return NULL;
}

/* False: it has been answered. */
static bool set_deadline(struct grpc_call *call)
{
    struct slice text = grpc_metadata(call, SLICE("grpc-timeout"));
    tg_ms ms;

    if (text.at == NULL)
        return true;
    if (!grpc_read_timeout(text, &ms)) {
        grpc_finish(call, GRPC_INVALID_ARGUMENT,
                    "grpc-timeout is not at most eight digits and one of H M S m u n");
        return false;
    }
    if (ms == 0) {
        grpc_finish(call, GRPC_DEADLINE_EXCEEDED,
                    "the deadline passed before the request was read");
        return false;
    }
    call->deadline = grpc_now(call) + ms;
    net_timer_set(call->server->options.loop, &call->timer, ms);
    return true;
}

/* How messages may be compressed. False: it has been answered. */
static bool set_encoding(struct grpc_call *call)
{
    const struct http_field known[] = {{SLICE("grpc-accept-encoding"), SLICE("identity,gzip")}};
    struct slice coding = grpc_metadata(call, SLICE("grpc-encoding"));

    call->frames.may_compress = slice_equal_nocase(coding, SLICE("gzip"));
    if (coding.at == NULL || call->frames.may_compress ||
        slice_equal_nocase(coding, SLICE("identity")))
        return true;
    grpc_finish_with(call, GRPC_UNIMPLEMENTED,
                     "messages of this grpc-encoding are not read; gzip and identity are", known,
                     1);
    return false;
}

void grpc_server_begin(struct grpc_server *server, struct http_inbound *in)
{
    if (in->head.version < 20) {
        turn_away(in, 505);
        return;
    }
    if (!slice_equal(in->head.method, SLICE("POST"))) {
        turn_away(in, 405);
        return;
    }
    if (!grpc_is_content_type(http_find(&in->head, SLICE("content-type")))) {
        turn_away(in, 415);
        return;
    }
    const struct grpc_method *method = grpc_server_find(server, in);
    if (method == NULL)
        return;
    struct grpc_call *call = take_call(server);
    if (call == NULL) {
        turn_away_with(in, GRPC_UNAVAILABLE, "there is no memory for another call");
        return;
    }
    call->method = method;
    call->in = in;
    in->owner = call;
    in->patient = method->many; /* one message comes at once; a conversation takes its time */
    if (set_deadline(call) && set_encoding(call) && method->begin != NULL)
        method->begin(call);
}

/* ---- life ---- */

enum tg_err grpc_server_new(const struct grpc_server_options *options, struct grpc_server **made)
{
    struct grpc_server *server = calloc(1, sizeof *server);

    if (server == NULL)
        return TG_ERR_MEMORY;
    server->options = *options;
    server->left = GATHERED_MAX;
    if (!grpc_arena_init(&server->arena, ARENA_BYTES, ARENA_MAX)) {
        free(server);
        return TG_ERR_MEMORY;
    }
    *made = server;
    return TG_OK;
}

void grpc_server_drain(struct grpc_server *server)
{
    struct grpc_call *call = LIST_FIRST(&server->running), *next;

    for (; call != NULL; call = next) {
        next = LIST_NEXT(call, among);
        if (!call->finished && call->method->drain != NULL)
            call->method->drain(call);
    }
}

void grpc_server_free(struct grpc_server *server)
{
    struct grpc_call *call;

    if (server == NULL)
        return;
    assert(LIST_EMPTY(&server->running) && server->left == GATHERED_MAX);
    while ((call = LIST_FIRST(&server->spare)) != NULL) {
        LIST_REMOVE(call, among);
        free(call);
    }
    grpc_arena_fini(&server->arena);
    grpc_inflate_free(server->inflate);
    free(server->out);
    free(server);
}
