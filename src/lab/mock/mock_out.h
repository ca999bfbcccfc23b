/* mock_out.h - the way of a reply to the socket, also where it has to be wrong.
 *
 * Usually it goes through the HTTP server like any reply. A script can ask for what that server
 * never does: bytes that are no HTTP, a chunk with a bad length, an end in the middle of a body,
 * bytes in pieces of given sizes. Then the reply is raw: framed here, and the connection ends with
 * it.
 */
#ifndef TG_MOCK_MOCK_OUT_H
#define TG_MOCK_MOCK_OUT_H

#include "io/http/http_server.h"
#include "io/net/loop.h"
#include "io/text/text_out.h"
#include "lab/mock/mock_script.h"

struct mock_out {
    struct http_inbound *in;
    struct net_loop *loop;
    const struct mock_action *action; /* for its split */
    void (*drained)(void *arg);       /* all that was split has left; not after the end */
    void *arg;

    bool raw;
    bool chunked;
    bool ended;
    struct text_out queue; /* raw and split: bytes that wait for their turn */
    size_t queue_at;       /* where the first byte is that has not left */
    size_t turn;           /* which size is next */
    struct net_post post;
    struct net_timer timer;
};

void mock_out_init(struct mock_out *out, struct net_loop *loop, void (*drained)(void *), void *arg);

/* For a new exchange. */
void mock_out_begin(struct mock_out *out, struct http_inbound *in,
                    const struct mock_action *action);

/* The exchange is gone; nothing happens any more. */
void mock_out_end(struct mock_out *out);
void mock_out_fini(struct mock_out *out);

/* length -1: in chunks. */
void mock_out_head(struct mock_out *out, const struct http_head *head);

/* Returns how many bytes wait, here or for the socket. */
size_t mock_out_body(struct mock_out *out, struct slice bytes);

/* Unframed; raw alone. */
void mock_out_bytes(struct mock_out *out, struct slice bytes);

/* The reply is complete. */
void mock_out_finish(struct mock_out *out);

/* The connection ends after what was written, complete or not; raw alone. */
void mock_out_close(struct mock_out *out);

#endif
