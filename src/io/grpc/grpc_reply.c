/* grpc_reply.c - what goes back of an RPC: messages, a status, and how fast. See grpc_server.h.
 *
 * Everything that is sent is packed behind each other into one buffer of the server, and leaves it
 * before the callback of the loop ends, so that no RPC has output of its own to be kept. The RPC
 * whose messages are being read (`reading`) may send many times before that; what any other RPC
 * sends goes out at once.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io/grpc/grpc_internal.h"
#include "lib/core/array.h"

enum {
    OUT_MIN = 4096,       /* bytes of the buffer, at first */
    OUT_KEPT = 64 << 10,  /* an empty buffer of more bytes is freed */
    OUT_WRITE = 16 << 10, /* more than this is not gathered */
};

static void send_head(struct grpc_call *call)
{
    const struct http_field fields[] = {{SLICE("content-type"), SLICE("application/grpc")}};
    const struct http_head head = {.status = 200, .fields = fields, .n_fields = 1, .length = -1};

    if (!call->replied)
        http_inbound_reply(call->in, &head);
    call->replied = true;
}

void grpc_start(struct grpc_call *call)
{
    if (!call->finished)
        send_head(call);
}

void grpc_flush(struct grpc_call *call)
{
    struct grpc_server *server = call->server;

    if (server->out_n == 0)
        return;
    send_head(call);
    size_t waiting = http_inbound_write(call->in, (struct slice){server->out, server->out_n});
    call->stuck = call->stuck || waiting > HTTP_OUTPUT_HIGH;
    server->out_n = 0;
    if (server->out_capacity > OUT_KEPT) {
        free(server->out);
        server->out = NULL;
        server->out_capacity = 0;
    }
}

bool grpc_send(struct grpc_call *call, const ProtobufCMessage *message)
{
    return grpc_send_within(call, message, protobuf_c_message_get_packed_size(message));
}

bool grpc_send_within(struct grpc_call *call, const ProtobufCMessage *message, size_t most)
{
    struct grpc_server *server = call->server;

    if (call->finished)
        return true;
    if (server->reading != NULL && server->reading != call)
        grpc_flush(server->reading); /* what is packed is that one's */
    size_t need = server->out_n + GRPC_FRAME_HEAD + most;
    if (most > INT32_MAX ||
        !array_reserve(&server->out, &server->out_capacity, need > OUT_MIN ? need : OUT_MIN)) {
        grpc_fail(call, GRPC_RESOURCE_EXHAUSTED, "there is no memory for an answer");
        return false;
    }
    char *at = server->out + server->out_n;
    size_t n = protobuf_c_message_pack(message, (uint8_t *)at + GRPC_FRAME_HEAD);
    assert(n <= most);
    grpc_frame_put_head(at, (uint32_t)n);
    server->out_n += GRPC_FRAME_HEAD + n;
    if (server->reading != call || server->out_n > OUT_WRITE)
        grpc_flush(call);
    return true;
}

/* A status without a message before it is a head alone, and ends with it. */
static void send_status(struct grpc_call *call, const struct http_field *fields, size_t n)
{
    struct http_field all[GRPC_TRAILERS_MAX + 4];
    const struct http_head head = {.status = 200, .fields = all, .n_fields = n + 1};

    if (call->replied) {
        http_inbound_finish_with(call->in, fields, n);
        return;
    }
    all[0] = (struct http_field){SLICE("content-type"), SLICE("application/grpc")};
    memcpy(all + 1, fields, n * sizeof *fields);
    call->replied = true;
    http_inbound_send(call->in, &head, (struct slice){"", 0});
}

void grpc_finish_with(struct grpc_call *call, enum grpc_code code, const char *text,
                      const struct http_field *trailers, size_t n)
{
    struct http_field fields[GRPC_TRAILERS_MAX + 2];
    char number[HTTP_NUMBER_MAX], message[GRPC_TEXT_MAX];
    size_t k = 0;

    if (call->finished)
        return;
    if (call->server->reading == call)
        grpc_flush(call);
    call->finished = true;
    net_timer_stop(call->server->options.loop, &call->timer);
    size_t digits = http_put_number(number, code);
    fields[k++] = (struct http_field){SLICE("grpc-status"), {number, digits}};
    if (text != NULL && *text != '\0') {
        size_t size = grpc_write_message(slice_of(text), message, sizeof message);
        fields[k++] = (struct http_field){SLICE("grpc-message"), {message, size}};
    }
    for (size_t i = 0; i < n && i < GRPC_TRAILERS_MAX; i++)
        fields[k++] = trailers[i];
    assert(k <= GRPC_TRAILERS_MAX + 2);
    send_status(call, fields, k);
}

void grpc_finish(struct grpc_call *call, enum grpc_code code, const char *text)
{
    grpc_finish_with(call, code, text, NULL, 0);
}

void grpc_reply(struct grpc_call *call, const ProtobufCMessage *message)
{
    if (grpc_send(call, message))
        grpc_finish(call, GRPC_OK, NULL);
}

/* ---- how fast ---- */

bool grpc_has_room(const struct grpc_call *call)
{
    return !call->stuck;
}

/* Who does not read its answers is not asked for more questions. */
void grpc_choose_pace(struct grpc_call *call)
{
    if (call->finished)
        return;
    if (call->held || (call->stuck && call->method->many))
        http_inbound_pause(call->in);
    else
        http_inbound_resume(call->in);
}

void grpc_hold(struct grpc_call *call, bool hold)
{
    if (call->held == hold)
        return;
    call->held = hold;
    grpc_choose_pace(call);
}
