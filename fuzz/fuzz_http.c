/* fuzz_http.c - any bytes, cut anywhere, as requests to a server connection without a socket.
 *
 * The first bytes of the input say how the rest is cut and what the owner does: reply at once, at
 * the end, pause and resume, abort. Whatever comes in, every begin() has its gone(), once and last;
 * no data() after end(); a body is as long as it was said to be; and all memory is given back.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "insist.h"
#include "io/http/http_server_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct owner {
    const uint8_t *whims;
    size_t n_whims, next;
    struct http_inbound *in; /* null: none */
    int64_t length, got;
    bool ended;
    size_t begun, gone;
};

static unsigned whim(struct owner *owner)
{
    return owner->n_whims == 0 ? 0 : owner->whims[owner->next++ % owner->n_whims];
}

static void act(struct owner *owner)
{
    struct http_head head = {.status = 200, .length = -1};

    switch (whim(owner) % 8) {
    case 0:
        http_inbound_send(owner->in, &head, SLICE("short"));
        break;
    case 1:
        http_inbound_reply(owner->in, &head);
        http_inbound_write(owner->in, SLICE("a piece"));
        break;
    case 2:
        http_inbound_pause(owner->in);
        break;
    case 3:
        http_inbound_resume(owner->in);
        break;
    case 4:
        http_inbound_abort(owner->in);
        break;
    case 5:
        http_inbound_finish(owner->in);
        break;
    default:
        break;
    }
}

static void begin(void *context, struct http_inbound *in)
{
    struct owner *owner = context;

    insist(owner->in == NULL);
    insist(in->head.method.n > 0 && in->head.target.n > 0);
    for (size_t i = 0; i < in->head.n_fields; i++) {
        const struct http_field *field = &in->head.fields[i];

        insist(field->name.n > 0);
        insist(memchr(field->value.at, '\n', field->value.n) == NULL);
        insist(memchr(field->value.at, '\r', field->value.n) == NULL);
        insist(memchr(field->value.at, '\0', field->value.n) == NULL);
    }
    owner->in = in;
    owner->length = in->head.length;
    owner->got = 0;
    owner->ended = false;
    owner->begun++;
    act(owner);
}

static void on_data(struct http_inbound *in, struct slice bytes)
{
    struct owner *owner = in->context;

    insist(owner->in == in && !owner->ended && bytes.n > 0);
    owner->got += (int64_t)bytes.n;
    insist(owner->length < 0 || owner->got <= owner->length);
    act(owner);
}

static void on_end(struct http_inbound *in)
{
    struct owner *owner = in->context;

    insist(owner->in == in && !owner->ended);
    insist(owner->length < 0 || owner->got == owner->length);
    owner->ended = true;
    act(owner);
}

static void gone(struct http_inbound *in, enum http_why why)
{
    struct owner *owner = in->context;

    (void)why;
    insist(owner->in == in);
    owner->in = NULL;
    owner->gone++;
}

static const struct http_server_ops ops = {
    .begin = begin,
    .data = on_data,
    .end = on_end,
    .gone = gone,
};

/* Feeds the bytes in pieces; the owner acts in between. False: the connection has ended. */
static void feed(struct http_listener *listener, struct http1_conn *conn, struct owner *owner,
                 const uint8_t *bytes, size_t n)
{
    while (n > 0 && !LIST_EMPTY(&listener->conns)) {
        size_t piece = 1 + whim(owner) % 64;
        char copy[64]; /* so that a read beyond the piece is seen */

        piece = piece < n ? piece : n;
        memcpy(copy, bytes, piece);
        wire_feed(&conn->wire, copy, piece);
        bytes += piece;
        n -= piece;
        if (owner->in != NULL) {
            act(owner);
            net_loop_settle(listener->loop);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_listen_options options;
    struct owner owner = {0};
    struct net_loop *loop;
    struct clock clock;
    struct http1_conn *conn;

    if (size < 1)
        return 0;
    size_t n_whims = data[0] % 16;
    if (size < 1 + n_whims)
        return 0;
    owner.whims = data + 1;
    owner.n_whims = n_whims;
    clock_init(&clock);
    insist(net_loop_new(&clock, &loop) == TG_OK);
    http_listen_options_init(&options);
    options.ops = &ops;
    options.context = &owner;
    options.limits.header_bytes = 1024;
    options.limits.linger_bytes = 256;
    struct http_listener *listener = http_listener_new(loop, &options);
    insist(listener != NULL && http1_conn_new(listener, -1, NULL, 0, &conn));
    feed(listener, conn, &owner, data + 1 + n_whims, size - 1 - n_whims);
    if (!LIST_EMPTY(&listener->conns))
        wire_feed_eof(&conn->wire);
    http_listener_free(listener);
    insist(owner.begun == owner.gone && owner.in == NULL);
    net_loop_free(loop);
    return 0;
}
