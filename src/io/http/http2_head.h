/* http2_head.h - fields of HTTP/2: collected as they are decoded, and made ready to be encoded. */
#ifndef TG_HTTP_HTTP2_HEAD_H
#define TG_HTTP_HTTP2_HEAD_H

#include <nghttp2/nghttp2.h>

#include "io/http/http.h"
#include "io/net/buf.h"

/* ---- What arrives ---------------------------------------------------------------------------- */

/* A header block: a head, or trailers. Zeros: an empty one. */
struct http2_block {
    struct buf raw; /* for each field two lengths and its bytes; listed: then the list itself */
    size_t n;       /* fields, those that begin with a colon too */
    size_t bytes;   /* decoded, with 32 for each field, kept or not */
    size_t n_cookies, cookie_bytes;
    bool over;      /* more than the limits allow: nothing is kept */
    bool no_memory; /* same */
};

struct http2_block_limits {
    size_t header_bytes, fields;
};

/* False: it is so far over the limits that this is no mistake. */
bool http2_block_add(struct net_loop *loop, struct http2_block *block,
                     const struct http2_block_limits *limits, struct slice name,
                     struct slice value);

/* What a block says besides its fields; `at` null, or 0: not said. */
struct http2_pseudo {
    struct slice method, path, authority, status;
    bool two_hosts; /* the authority and a `host` that is another */
};

/* What `:status` says; null: nothing, or it is not there any more. */
struct slice http2_block_status(const struct http2_block *block);

/* All of a complete block: `fields` point into it until it is released. Those of one `cookie` are
 * joined; `host` is first, made of the authority. False: no memory. */
bool http2_block_list(struct net_loop *loop, struct http2_block *block, struct http2_pseudo *pseudo,
                      const struct http_field **fields, size_t *n);

void http2_block_release(struct net_loop *loop, struct http2_block *block);

/* The length of a body by its fields; -1: they do not say. */
int64_t http2_stated_length(const struct http_head *head);

/* Copies fields, to be sent later: the list is at `kept->at`. False: no memory. */
bool http2_fields_keep(struct net_loop *loop, struct buf *kept, const struct http_field *fields,
                       size_t n);

/* ---- What is sent ---------------------------------------------------------------------------- */

#define HTTP2_NVS_MAX (HTTP_FIELDS_MAX + 6)

/* On the stack; what it points to is borrowed until nghttp2 has copied it. */
struct http2_nvs {
    nghttp2_nv list[HTTP2_NVS_MAX];
    size_t n;
    struct buf mended; /* values that could not be sent as they are */
    char digits[HTTP_NUMBER_MAX];
};

void http2_nvs_init(struct http2_nvs *nvs);
void http2_nvs_fini(struct net_loop *loop, struct http2_nvs *nvs);

/* By our own hand: a name in lower case, a value that is fit. */
bool http2_nvs_put(struct http2_nvs *nvs, struct slice name, struct slice value);

/* content-length */
void http2_nvs_put_length(struct http2_nvs *nvs, int64_t length);

/* The fields of a head as http1_put_reply() writes them: hops and what has no name are left out,
 * line ends become spaces. `request`: te: trailers is not. False: no memory, or too many. */
bool http2_nvs_put_fields(struct net_loop *loop, struct http2_nvs *nvs,
                          const struct http_head *head, bool request);

#endif
