/* http1_parse.h - HTTP/1 out of bytes, one event at a time, strictly.
 *
 *     for (;;) {
 *         event = http1_parse(&parser, bytes, n, &took, &body);
 *         bytes += took, n -= took;
 *         if (event == HTTP1_MORE) break;        all n were taken; feed the next
 *         ...
 *     }
 *
 * The caller pulls: between two calls it may do anything, also throw the parser away. An event may
 * need no further bytes, so ask until HTTP1_MORE. After HTTP1_END, http1_parser_next().
 */
#ifndef TG_HTTP_HTTP1_PARSE_H
#define TG_HTTP_HTTP1_PARSE_H

#include <stdalign.h>

#include "io/http/http.h"
#include "io/net/buf.h"

enum http1_event {
    HTTP1_MORE,
    HTTP1_HEAD, /* parser->head is complete, and stays until http1_parser_next() */
    HTTP1_BODY, /* a piece of the body, in place */
    HTTP1_END,
    HTTP1_BAD, /* parser->status and parser->text say why; for good */
};

struct http1_limits {
    size_t header_bytes, fields, target_bytes;
};

struct http1_parser {
    /* The llhttp_t: one file alone knows its type. */
    alignas(16) char llhttp[128];
    struct net_loop *loop;
    struct http1_limits limits;
    bool request;
    bool no_body;    /* set by the caller: the reply is to HEAD or CONNECT */
    bool keep_alive; /* from HTTP1_HEAD on: the message allows another after it */
    bool until_eof;  /* from HTTP1_HEAD on: the end of the body is the end of the connection */
    int status;
    const char *text;
    struct http_head head;

    /* private */
    enum http1_event event; /* what the callbacks found */
    struct slice body;
    bool paused, head_done;
    bool named; /* the field being read has begun */
    char first; /* the first byte of the message */
    size_t n_fields;
    size_t target_bytes; /* bytes of the target so far */
    size_t field_at;     /* where in `raw` the field begins that is being read */
    struct buf raw;      /* the target, then for each field two lengths and its bytes; listed: then
                            the list itself */
    size_t head_bytes;   /* bytes of the head so far */
    size_t line_bytes;   /* bytes of the line so far */
    char last;           /* the byte before */
    bool any_line;       /* a line that is not empty has come */
    bool scan_done;      /* the empty line after the head has come */
    size_t overhead;     /* bytes since the last piece of body that were none */
};

void http1_parser_init(struct http1_parser *parser, struct net_loop *loop, bool request,
                       const struct http1_limits *limits);
void http1_parser_fini(struct http1_parser *parser);

/* Forgets the message, its memory included. */
void http1_parser_next(struct http1_parser *parser);

/* Between HTTP1_HEAD and the next call: the head is the caller's, for as long as it keeps what it
 * points into. That is empty before, and the caller's to release. */
void http1_parser_move_head(struct http1_parser *parser, struct http_head *head, struct buf *raw);

enum http1_event http1_parse(struct http1_parser *parser, const char *bytes, size_t n, size_t *took,
                             struct slice *body);

/* The connection ended. HTTP1_END: and with it a body that ends so. HTTP1_MORE: between messages.
 * HTTP1_BAD: in the midst of one. */
enum http1_event http1_parse_eof(struct http1_parser *parser);

/* Whether a byte of a message has come since it began. */
static inline bool http1_parser_begun(const struct http1_parser *parser)
{
    return parser->head_bytes > 0;
}

#endif
