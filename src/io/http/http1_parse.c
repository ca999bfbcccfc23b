/* http1_parse.c - HTTP/1 out of bytes, one event at a time, strictly: llhttp, and what it misses.
 *
 * Two programs that read one message differently can be played against each other (request
 * smuggling), and a gateway reads everything before somebody else does. So whatever is ambiguous is
 * refused, and nothing is passed on but parsed fields. llhttp in its strict mode refuses most; here
 * refused besides:
 *
 *     a line of the head that begins with white space (obs-fold) or ends without CR
 *     a field without a name
 *     a request line with two spaces between its parts
 *     an expectation other than 100-continue
 *     not exactly one Host, or more than one with HTTP/1.0; one that is none
 *     Transfer-Encoding with HTTP/1.0, or any but the one word chunked
 *     CONNECT, and versions that are none; heads, targets and numbers of fields beyond the limits
 *
 * llhttp calls back; its callbacks only note what they found and pause it, and the caller gets that
 * as the result. So no callback of ours runs while llhttp is on the stack, and the connection may
 * be freed between any two events. (Its manual promises that a pause works for most callbacks, not
 * for pieces of the body: tests/unit/io/http/test_http1_parse.c cuts messages at every byte.)
 *
 * The texts of a head lie one after the other in one buffer, with their lengths before them: while
 * it grows, nothing points into it. The list of fields is put behind them at the end of the head.
 */
#include "io/http/http1_parse.h"

#include <assert.h>
#include <llhttp.h>
#include <stdlib.h>

#if !LLHTTP_STRICT_MODE
#error "llhttp must be strict, here and where it is compiled"
#endif

static_assert(sizeof(llhttp_t) <= sizeof(((struct http1_parser *)0)->llhttp), "llhttp has grown");

/* Stands before each field's bytes. */
struct lengths {
    uint32_t name, value;
};

static llhttp_t *inner(struct http1_parser *parser)
{
    return (llhttp_t *)(void *)parser->llhttp;
}

static enum http1_event bad(struct http1_parser *parser, int status, const char *text)
{
    parser->event = HTTP1_BAD;
    parser->status = status;
    parser->text = text;
    return HTTP1_BAD;
}

/* From a callback: has llhttp stop with an error of ours. */
static int stop(struct http1_parser *parser, int status, const char *text)
{
    bad(parser, status, text);
    return -1;
}

static int http1_parse_note(struct http1_parser *parser, enum http1_event event)
{
    assert(parser->event == HTTP1_MORE && !parser->paused); /* one event at a time */
    parser->event = event;
    parser->paused = true;
    return HPE_PAUSED;
}

/* ---- llhttp's callbacks ---------------------------------------------------------------------- */

static int on_url(llhttp_t *llhttp, const char *at, size_t n)
{
    struct http1_parser *parser = llhttp->data;

    if (n > parser->limits.target_bytes - parser->target_bytes)
        return stop(parser, 414, "the request target is too long");
    if (!buf_append(parser->loop, &parser->raw, at, n))
        return stop(parser, 503, "no memory");
    parser->target_bytes += n;
    return 0;
}

/* Room for the next field's lengths. */
static bool begin_field(struct http1_parser *parser)
{
    struct lengths none = {0, 0};

    assert(parser->n_fields < parser->limits.fields && !parser->head_done);
    parser->named = true;
    parser->field_at = buf_bytes(&parser->raw);
    parser->n_fields++;
    return buf_append(parser->loop, &parser->raw, &none, sizeof none);
}

static void count_bytes(struct http1_parser *parser, size_t name, size_t value)
{
    char *at = parser->raw.at + parser->raw.begin + parser->field_at;
    struct lengths lengths;

    assert(parser->named && parser->field_at + sizeof lengths <= buf_bytes(&parser->raw));
    memcpy(&lengths, at, sizeof lengths);
    lengths.name += (uint32_t)name;
    lengths.value += (uint32_t)value;
    memcpy(at, &lengths, sizeof lengths);
}

static int on_field(llhttp_t *llhttp, const char *at, size_t n)
{
    struct http1_parser *parser = llhttp->data;

    if (parser->head_done || n == 0)
        return 0; /* a trailer, or nothing */
    if (!parser->named) {
        if (parser->n_fields >= parser->limits.fields)
            return stop(parser, 431, "there are too many header fields");
        if (!begin_field(parser))
            return stop(parser, 503, "no memory");
    }
    char *to = buf_reserve(parser->loop, &parser->raw, n);
    if (to == NULL)
        return stop(parser, 503, "no memory");
    for (size_t i = 0; i < n; i++)
        to[i] = (char)(at[i] >= 'A' && at[i] <= 'Z' ? at[i] | 0x20 : at[i]);
    parser->raw.end += n;
    count_bytes(parser, n, 0);
    return 0;
}

static int on_value(llhttp_t *llhttp, const char *at, size_t n)
{
    struct http1_parser *parser = llhttp->data;

    if (parser->head_done || n == 0)
        return 0;
    if (!parser->named)
        return stop(parser, 400, "a header field has no name");
    if (!buf_append(parser->loop, &parser->raw, at, n))
        return stop(parser, 503, "no memory");
    count_bytes(parser, 0, n);
    return 0;
}

/* Also for a field without a value, for which on_value() does not come. */
static int on_value_complete(llhttp_t *llhttp)
{
    struct http1_parser *parser = llhttp->data;

    if (parser->head_done)
        return 0;
    if (!parser->named)
        return stop(parser, 400, "a header field has no name");
    parser->named = false;
    return 0;
}

static struct slice trimmed(const char *at, size_t n)
{
    while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\t'))
        n--;
    while (n > 0 && (*at == ' ' || *at == '\t'))
        at++, n--;
    return (struct slice){at, n};
}

/* Points the head into the raw bytes, which do not move any more, and lists it behind them. */
static bool list_fields(struct http1_parser *parser)
{
    struct http_head *head = &parser->head;
    size_t before = parser->raw.end;
    size_t gap = -before % alignof(struct http_field);
    size_t bytes = gap + parser->n_fields * sizeof(struct http_field);
    char *end = buf_reserve(parser->loop, &parser->raw, bytes);

    if (end == NULL)
        return false;
    assert(parser->raw.begin == 0 && parser->raw.end == before); /* nothing of it was consumed */
    struct http_field *list = (struct http_field *)(void *)(end + gap);
    const char *at = buf_first(&parser->raw);
    parser->raw.end += bytes;
    head->target = (struct slice){at, parser->target_bytes};
    at += parser->target_bytes;
    for (size_t i = 0; i < parser->n_fields; i++) {
        struct lengths lengths;

        memcpy(&lengths, at, sizeof lengths);
        at += sizeof lengths;
        list[i].name = (struct slice){at, lengths.name};
        list[i].value = trimmed(at + lengths.name, lengths.value);
        at += lengths.name + lengths.value;
    }
    assert(at == parser->raw.at + before);
    head->fields = list;
    head->n_fields = parser->n_fields;
    return true;
}

static bool skip_scheme(struct slice *target, struct slice scheme)
{
    if (!slice_begins_nocase(*target, scheme))
        return false;
    target->at += scheme.n;
    target->n -= scheme.n;
    return true;
}

/* "http://host/path" is what a client sends that takes us for a proxy: the path is meant. Its host
 * says no more than Host, which nobody here goes by. False: it is none. */
static bool make_relative(struct slice *target)
{
    if (!skip_scheme(target, SLICE("http://")) && !skip_scheme(target, SLICE("https://")))
        return true;
    const char *path = memchr(target->at, '/', target->n);
    size_t n = path != NULL ? (size_t)(path - target->at) : target->n;
    struct slice host = {target->at, n};

    if (path != NULL)
        *target = (struct slice){path, target->n - n};
    else
        *target = SLICE("/");
    return host.n > 0 && http_is_host(host);
}

/* What llhttp does not look at. */
static int http1_parse_check_head(struct http1_parser *parser, llhttp_t *llhttp)
{
    struct http_head *head = &parser->head;
    struct slice coding = http_find(head, SLICE("transfer-encoding"));
    size_t hosts = http_count(head, SLICE("host"));

    if (llhttp->http_major != 1 || llhttp->http_minor > 1)
        return stop(parser, 505, "the version is neither HTTP/1.0 nor HTTP/1.1");
    if (coding.at != NULL) {
        if (head->version == 10)
            return stop(parser, 400, "Transfer-Encoding in a message of HTTP/1.0");
        if (http_count(head, SLICE("content-length")) > 0)
            return stop(parser, 400, "both Content-Length and Transfer-Encoding");
        if (http_count(head, SLICE("transfer-encoding")) > 1 ||
            !slice_equal_nocase(coding, SLICE("chunked")))
            return stop(parser, 501, "the only Transfer-Encoding is chunked");
    }
    if (!parser->request)
        return 0;
    if (hosts > 1 || (hosts == 0 && head->version != 10))
        return stop(parser, 400, "a request needs one Host field");
    if (hosts > 0 && !http_is_host(http_find(head, SLICE("host"))))
        return stop(parser, 400, "Host is none");
    if (head->version != 10 && !http_expects_no_more(head))
        return stop(parser, 417, "the only expectation is 100-continue");
    if (llhttp->method == HTTP_CONNECT)
        return stop(parser, 501, "CONNECT is not for this server");
    if (!make_relative(&head->target))
        return stop(parser, 400, "the request target has no host or no path");
    return 0;
}

static int64_t body_length(struct http1_parser *parser, llhttp_t *llhttp)
{
    if (llhttp->flags & F_CHUNKED)
        return -1;
    if (llhttp->flags & F_CONTENT_LENGTH)
        return llhttp->content_length > INT64_MAX ? -2 : (int64_t)llhttp->content_length;
    return parser->request ? 0 : -1;
}

static int on_head(llhttp_t *llhttp)
{
    struct http1_parser *parser = llhttp->data;
    int status = llhttp->status_code;

    if (parser->target_bytes + parser->n_fields > 0 && !list_fields(parser))
        return stop(parser, 503, "no memory");
    parser->head_done = true;
    parser->head.version = llhttp->http_major * 10 + llhttp->http_minor;
    if (parser->request)
        parser->head.method = slice_of(llhttp_method_name((llhttp_method_t)llhttp->method));
    else
        parser->head.status = status;
    if (http1_parse_check_head(parser, llhttp) != 0)
        return -1;
    parser->head.length = body_length(parser, llhttp);
    if (parser->head.length == -2)
        return stop(parser, 400, "Content-Length is out of range");
    /* We speak no other protocol than this one, whatever the client would like. */
    llhttp->upgrade = 0;
    if (!parser->request &&
        (parser->no_body || status / 100 == 1 || status == 204 || status == 304))
        llhttp->flags |= F_SKIPBODY;
    parser->until_eof = llhttp_message_needs_eof(llhttp);
    parser->keep_alive = llhttp_should_keep_alive(llhttp);
    return http1_parse_note(parser, HTTP1_HEAD);
}

static int on_body(llhttp_t *llhttp, const char *at, size_t n)
{
    struct http1_parser *parser = llhttp->data;

    if (n == 0)
        return 0;
    parser->body = (struct slice){at, n};
    return http1_parse_note(parser, HTTP1_BODY);
}

static int on_end(llhttp_t *llhttp)
{
    return http1_parse_note(llhttp->data, HTTP1_END);
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_head,
    .on_body = on_body,
    .on_message_complete = on_end,
};

/* ---- The lines of a head --------------------------------------------------------------------- */

/* At the end of a line: whether it was the last of the head. */
static bool last_line(struct http1_parser *parser, size_t n)
{
    if (n > 1) {
        parser->any_line = true;
        return false;
    }
    return parser->any_line; /* empty lines before a message are none of its */
}

/* `last` is the byte before. */
static bool has_two_spaces(char last, const char *at, const char *end)
{
    for (; at < end; last = *at++)
        if (*at == ' ' && last == ' ')
            return true;
    return false;
}

/* Checks the lines as they arrive, up to the end of the head. */
static bool scan_lines(struct http1_parser *parser, const char *bytes, size_t n)
{
    const char *at = bytes, *end = bytes + n;

    while (at < end && !parser->scan_done) {
        if (parser->line_bytes == 0 && parser->any_line && (*at == ' ' || *at == '\t'))
            return bad(parser, 400, "a header line begins with white space"), false;
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop_at = newline != NULL ? newline : end;
        if (parser->request && !parser->any_line && has_two_spaces(parser->last, at, stop_at))
            return bad(parser, 400, "two spaces in the request line"), false;
        if (stop_at > at)
            parser->last = stop_at[-1];
        parser->line_bytes += (size_t)(stop_at - at);
        parser->head_bytes += (size_t)(stop_at - at) + (newline != NULL);
        if (parser->head_bytes > parser->limits.header_bytes)
            return bad(parser, 431, "the header is too large"), false;
        if (newline == NULL)
            return true;
        if (parser->line_bytes == 0 || parser->last != '\r')
            return bad(parser, 400, "a header line ends without CR"), false;
        parser->scan_done = last_line(parser, parser->line_bytes);
        parser->line_bytes = 0;
        at = newline + 1;
    }
    return true;
}

/* ---- Pulling --------------------------------------------------------------------------------- */

void http1_parser_init(struct http1_parser *parser, struct net_loop *loop, bool request,
                       const struct http1_limits *limits)
{
    *parser = (struct http1_parser){.loop = loop, .limits = *limits, .request = request};
    llhttp_init(inner(parser), request ? HTTP_REQUEST : HTTP_RESPONSE, &settings);
    inner(parser)->data = parser;
}

void http1_parser_fini(struct http1_parser *parser)
{
    buf_release(parser->loop, &parser->raw);
}

void http1_parser_next(struct http1_parser *parser)
{
    struct http1_limits limits = parser->limits;

    http1_parser_fini(parser);
    http1_parser_init(parser, parser->loop, parser->request, &limits);
}

void http1_parser_move_head(struct http1_parser *parser, struct http_head *head, struct buf *raw)
{
    assert(parser->head_done && buf_bytes(raw) == 0);
    *head = parser->head;
    *raw = parser->raw;
    parser->head = (struct http_head){0};
    parser->raw = (struct buf){0};
}

/* llhttp's reasons by their status. */
static enum http1_event http1_parse_refuse(struct http1_parser *parser)
{
    llhttp_t *llhttp = inner(parser);
    const char *reason = llhttp_get_error_reason(llhttp);

    if (parser->event == HTTP1_BAD)
        return HTTP1_BAD;
    switch (llhttp_get_errno(llhttp)) {
    case HPE_INVALID_METHOD:
        if (parser->first >= 'A' && parser->first <= 'Z')
            return bad(parser, 501, "there is no such method");
        return bad(parser, 400, "this is not HTTP");
    case HPE_PAUSED_H2_UPGRADE:
        return bad(parser, 505, "HTTP/2 is not spoken here");
    case HPE_INVALID_VERSION:
        return bad(parser, 505, "the version is neither HTTP/1.0 nor HTTP/1.1");
    default:
        return bad(parser, 400, reason != NULL && *reason != '\0' ? reason : "this is not HTTP");
    }
}

/* A chunk's extensions and trailers are dropped, but not for ever. */
static bool too_much_overhead(struct http1_parser *parser, size_t took)
{
    if (!parser->head_done)
        return false;
    parser->overhead = parser->event == HTTP1_BODY ? 0 : parser->overhead + took;
    return parser->overhead > parser->limits.header_bytes;
}

/* Whether the field that is being read is Content-Length. */
static bool is_in_length(const struct http1_parser *parser)
{
    static const char name[] = "content-length";
    struct lengths lengths;

    if (!parser->named)
        return false;
    const char *at = parser->raw.at + parser->raw.begin + parser->field_at;
    memcpy(&lengths, at, sizeof lengths);
    return lengths.name == sizeof name - 1 && memcmp(at + sizeof lengths, name, lengths.name) == 0;
}

/* Has llhttp read on, and tells how far it came. `head` is how many of the bytes are the head's.
 * White space may follow the value of any field, a tab too; llhttp takes only spaces behind that of
 * Content-Length, so there it gets one for a tab. */
static llhttp_errno_t http1_feed(struct http1_parser *parser, const char *bytes, size_t n,
                                 size_t head, size_t *took)
{
    llhttp_t *llhttp = inner(parser);
    llhttp_errno_t error = HPE_OK;
    size_t done = 0;
    const char *tab;

    while (done < head && (tab = memchr(bytes + done, '\t', head - done)) != NULL) {
        error = llhttp_execute(llhttp, bytes + done, (size_t)(tab - bytes) - done);
        if (error == HPE_OK)
            error = llhttp_execute(llhttp, is_in_length(parser) ? " " : "\t", 1);
        if (error == HPE_PAUSED)
            return HPE_STRICT; /* it sees the end of a head that goes on for us: refused */
        if (error != HPE_OK)
            return error;
        done = (size_t)(tab - bytes) + 1;
    }
    error = llhttp_execute(llhttp, bytes + done, n - done);
    *took = error == HPE_PAUSED ? (size_t)(llhttp_get_error_pos(llhttp) - bytes) : n;
    return error;
}

enum http1_event http1_parse(struct http1_parser *parser, const char *bytes, size_t n, size_t *took,
                             struct slice *body)
{
    llhttp_t *llhttp = inner(parser);
    size_t head = parser->head_bytes;

    *took = 0;
    if (parser->event == HTTP1_BAD)
        return HTTP1_BAD;
    if (n > 0 && parser->head_bytes == 0)
        parser->first = *bytes;
    if (!parser->head_done && !scan_lines(parser, bytes, n))
        return HTTP1_BAD;
    if (parser->paused)
        llhttp_resume(llhttp);
    else if (n == 0)
        return HTTP1_MORE;
    parser->paused = false;
    parser->event = HTTP1_MORE;
    llhttp_errno_t error = http1_feed(parser, bytes, n, parser->head_bytes - head, took);
    if (error != HPE_OK && error != HPE_PAUSED)
        return http1_parse_refuse(parser);
    assert(*took <= n && parser->paused == (error == HPE_PAUSED));
    if (too_much_overhead(parser, *took))
        return bad(parser, 400, "there is more around the chunks than in them");
    if (parser->event == HTTP1_BODY)
        *body = parser->body;
    return parser->event;
}

enum http1_event http1_parse_eof(struct http1_parser *parser)
{
    llhttp_t *llhttp = inner(parser);

    if (parser->event == HTTP1_BAD)
        return HTTP1_BAD;
    if (!http1_parser_begun(parser))
        return HTTP1_MORE;
    if (parser->paused)
        llhttp_resume(llhttp);
    parser->paused = false;
    parser->event = HTTP1_MORE;
    if (llhttp_finish(llhttp) != HPE_OK && parser->event != HTTP1_END)
        return bad(parser, 400, "the message is incomplete");
    return parser->event == HTTP1_END ? HTTP1_END : bad(parser, 400, "the message is incomplete");
}
