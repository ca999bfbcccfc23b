/* http1_write.h - HTTP/1 into bytes: heads and chunks, made of fields and never of raw bytes. */
#ifndef TG_HTTP_HTTP1_WRITE_H
#define TG_HTTP_HTTP1_WRITE_H

#include "io/http/http.h"
#include "io/net/buf.h"

#define HTTP1_CHUNK_BYTES 20 /* bytes of the line before a chunk, at most */

/* What the framing adds to a head. */
struct http1_framing {
    struct slice host; /* requests: the value of `host` */
    bool chunked;      /* "transfer-encoding: chunked", and no length */
    int64_t length;    /* "content-length", unless chunked; -1: none */
    bool close;        /* "connection: close" */
    bool keep_alive;   /* "connection: keep-alive", for HTTP/1.0 */
};

/* False: no memory. */
bool http1_put_reply(struct net_loop *loop, struct buf *out, const struct http_head *head,
                     const struct http1_framing *framing);

/* The head must be fit (http1_is_fit). */
bool http1_put_request(struct net_loop *loop, struct buf *out, const struct http_head *head,
                       const struct http1_framing *framing);

/* A method that is a token, a target of visible characters. */
bool http1_is_fit(const struct http_head *head);

/* The end of chunks, with trailers: what http_is_hop() leaves out is left out. */
bool http1_put_last_chunk(struct net_loop *loop, struct buf *out, const struct http_field *trailers,
                          size_t n);

/* A token, as names of fields and methods are. */
bool http1_is_name(struct slice text);

/* The line before a chunk's bytes; returns its length. After the bytes goes CRLF. */
size_t http1_chunk_line(char line[HTTP1_CHUNK_BYTES], size_t n);

#endif
