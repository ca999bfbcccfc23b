/* net_rpc_kit.c - RPCs without a socket. See net_rpc_kit.h. */
#include "net_rpc_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rpc_exchange *exchange_of(const struct http_inbound *in)
{
    return (struct rpc_exchange *)(uintptr_t)in;
}

/* ---- a transport that is none ---- */

static void pause_it(struct http_inbound *in)
{
    exchange_of(in)->paused = true;
}

static void resume_it(struct http_inbound *in)
{
    exchange_of(in)->paused = false;
}

/* No zero ends it. */
static int read_number(struct slice digits)
{
    int number = 0;

    for (size_t i = 0; i < digits.n; i++)
        number = 10 * number + (digits.at[i] - '0');
    return number;
}

static void keep_fields(struct rpc_exchange *exchange, const struct http_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(exchange->said);
        snprintf(exchange->said + used, sizeof exchange->said - used, "%.*s: %.*s\n",
                 (int)fields[i].name.n, fields[i].name.at, (int)fields[i].value.n,
                 fields[i].value.at);
        if (slice_equal(fields[i].name, SLICE("grpc-status")))
            exchange->code = read_number(fields[i].value);
    }
}

static void keep_head(struct http_inbound *in, const struct http_head *head)
{
    struct rpc_exchange *exchange = exchange_of(in);

    assert_int_equal(exchange->status, 0); /* one head */
    exchange->status = head->status;
    keep_fields(exchange, head->fields, head->n_fields);
    exchange->alone = exchange->code >= 0;
}

static size_t keep_bytes(struct http_inbound *in, struct slice bytes)
{
    struct rpc_exchange *exchange = exchange_of(in);

    assert_int_not_equal(exchange->status, 0);
    assert_false(exchange->finished);
    if (bytes.n > 0) {
        exchange->body = realloc(exchange->body, exchange->n + bytes.n);
        assert_non_null(exchange->body);
        memcpy(exchange->body + exchange->n, bytes.at, bytes.n);
        exchange->n += bytes.n;
        exchange->writes++;
    }
    return exchange->queued;
}

static void keep_end(struct http_inbound *in, const struct http_field *trailers, size_t n)
{
    struct rpc_exchange *exchange = exchange_of(in);

    assert_int_not_equal(exchange->status, 0);
    assert_false(exchange->finished);
    keep_fields(exchange, trailers, n);
    exchange->finished = true;
}

static void keep_abort(struct http_inbound *in, uint32_t code)
{
    (void)code;
    exchange_of(in)->finished = true;
}

static size_t say_queued(const struct http_inbound *in)
{
    return exchange_of(in)->queued;
}

static const struct sockaddr *say_peer(const struct http_inbound *in)
{
    static const struct sockaddr local = {.sa_family = AF_UNIX};

    (void)in;
    return &local;
}

static const struct http_inbound_transport transport = {.pause = pause_it,
                                                        .resume = resume_it,
                                                        .reply = keep_head,
                                                        .write = keep_bytes,
                                                        .finish = keep_end,
                                                        .abort = keep_abort,
                                                        .queued = say_queued,
                                                        .peer = say_peer};

/* ---- what a client does ---- */

void rpc_prepare(struct rpc_exchange *exchange, const char *path, const char *const *fields)
{
    size_t n = 0;

    memset(exchange, 0, sizeof *exchange);
    exchange->code = -1;
    exchange->fields[n++] = (struct http_field){SLICE("content-type"), SLICE("application/grpc")};
    for (; fields != NULL && *fields != NULL; fields++) {
        const char *colon = strstr(*fields, ": ");
        assert_non_null(colon);
        assert_true(n < RPC_KIT_FIELDS);
        exchange->fields[n++] =
            (struct http_field){{*fields, (size_t)(colon - *fields)}, slice_of(colon + 2)};
    }
    exchange->in = (struct http_inbound){.transport = &transport,
                                         .head = {.method = SLICE("POST"),
                                                  .target = slice_of(path),
                                                  .version = 20,
                                                  .fields = exchange->fields,
                                                  .n_fields = n,
                                                  .length = -1},
                                         .connection = 7};
}

void rpc_open(struct rpc_exchange *exchange, struct grpc_server *server, const char *path,
              const char *const *fields)
{
    rpc_prepare(exchange, path, fields);
    grpc_server_begin(server, &exchange->in);
}

void rpc_put(struct rpc_exchange *exchange, const void *bytes, size_t n)
{
    /* A copy of its own makes a read beyond it visible to a sanitizer. */
    char *copy = malloc(n > 0 ? n : 1);

    assert_non_null(copy);
    memcpy(copy, bytes, n);
    if (!exchange->finished)
        grpc_server_data(&exchange->in, (struct slice){copy, n});
    free(copy);
}

void rpc_put_message(struct rpc_exchange *exchange, const ProtobufCMessage *message, size_t piece)
{
    size_t n = protobuf_c_message_get_packed_size(message);
    char *frame = malloc(GRPC_FRAME_HEAD + n);

    assert_non_null(frame);
    grpc_frame_put_head(frame, (uint32_t)n);
    protobuf_c_message_pack(message, (uint8_t *)frame + GRPC_FRAME_HEAD);
    n += GRPC_FRAME_HEAD;
    for (size_t at = 0; at < n; at += piece)
        rpc_put(exchange, frame + at, n - at < piece ? n - at : piece);
    free(frame);
}

void rpc_end(struct rpc_exchange *exchange)
{
    if (!exchange->finished)
        grpc_server_end(&exchange->in);
}

void rpc_take(struct rpc_exchange *exchange)
{
    exchange->queued = 0;
    grpc_server_room(&exchange->in);
}

void rpc_close(struct rpc_exchange *exchange)
{
    grpc_server_gone(&exchange->in, exchange->finished ? HTTP_DONE : HTTP_HANGUP);
    free(exchange->body);
    exchange->body = NULL;
}

void rpc_ask(struct rpc_exchange *exchange, struct grpc_server *server, const char *path,
             const char *const *fields, const ProtobufCMessage *message)
{
    rpc_open(exchange, server, path, fields);
    rpc_put_message(exchange, message, SIZE_MAX);
    rpc_end(exchange);
}

/* ---- what it sees ---- */

ProtobufCMessage *rpc_next(struct rpc_exchange *exchange,
                           const ProtobufCMessageDescriptor *descriptor)
{
    const unsigned char *at = (const unsigned char *)exchange->body + exchange->read;

    if (exchange->n == exchange->read)
        return NULL;
    assert_true(exchange->n - exchange->read >= GRPC_FRAME_HEAD);
    size_t n = (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
    assert_int_equal(at[0], 0);
    assert_true(exchange->n - exchange->read >= GRPC_FRAME_HEAD + n);
    ProtobufCMessage *message =
        protobuf_c_message_unpack(descriptor, NULL, n, at + GRPC_FRAME_HEAD);
    assert_non_null(message);
    exchange->read += GRPC_FRAME_HEAD + n;
    return message;
}

bool rpc_said(const struct rpc_exchange *exchange, const char *text)
{
    return strstr(exchange->said, text) != NULL;
}
