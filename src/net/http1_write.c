/* http1_write.c - HTTP/1 into bytes: heads and chunks, made of fields and never of raw bytes.
 *
 * Whatever a field holds, it stays one field: names that are no tokens are left out, and line ends
 * and zeros in values become spaces. What frames the message is written here and nowhere else.
 */
#include "net/http1_write.h"

/* A bit for each of the first 128 bytes: digits, letters and !#$%&'*+-.^_`|~ */
static bool is_token_char(char c)
{
    static const uint32_t bits[4] = {0, 0x03ff6cfa, 0xc7fffffe, 0x57ffffff};
    unsigned char byte = (unsigned char)c;

    /* What nearly all names consist of first. */
    return (c >= 'a' && c <= 'z') || c == '-' ||
           (byte < 128 && (bits[byte / 32] >> (byte % 32) & 1) != 0);
}

bool http1_is_name(struct slice text)
{
    for (size_t i = 0; i < text.n; i++)
        if (!is_token_char(text.at[i]))
            return false;
    return text.n > 0;
}

bool http1_is_fit(const struct http_head *head)
{
    for (size_t i = 0; i < head->target.n; i++)
        if ((unsigned char)head->target.at[i] <= ' ' || head->target.at[i] == 0x7f)
            return false;
    return head->target.n > 0 && http1_is_name(head->method);
}

static char *put(char *to, struct slice text)
{
    if (text.n > 0)
        memcpy(to, text.at, text.n);
    return to + text.n;
}

static char *put_value(char *to, struct slice value)
{
    for (size_t i = 0; i < value.n; i++) {
        char c = value.at[i];

        to[i] = (char)(c == '\r' || c == '\n' || c == '\0' ? ' ' : c);
    }
    return to + value.n;
}

static char *put_field(char *to, struct slice name, struct slice value)
{
    to = put(to, name);
    to = put(to, SLICE(": "));
    to = put_value(to, value);
    return put(to, SLICE("\r\n"));
}

static char *put_framing(char *to, const struct http1_framing *framing)
{
    char digits[HTTP_NUMBER_MAX];

    if (framing->host.at != NULL)
        to = put_field(to, SLICE("host"), framing->host);
    if (framing->chunked) {
        to = put(to, SLICE("transfer-encoding: chunked\r\n"));
    } else if (framing->length >= 0) {
        size_t n = http_put_number(digits, framing->length);
        to = put_field(to, SLICE("content-length"), (struct slice){digits, n});
    }
    if (framing->close)
        to = put(to, SLICE("connection: close\r\n"));
    else if (framing->keep_alive)
        to = put(to, SLICE("connection: keep-alive\r\n"));
    return to;
}

/* More than a head can need: what the fields hold, what stands between, and the framing. */
static size_t head_bound(const struct http_head *head, const struct http1_framing *framing)
{
    size_t n = 256 + framing->host.n + head->method.n + head->target.n;

    for (size_t i = 0; i < head->n_fields; i++)
        n += head->fields[i].name.n + head->fields[i].value.n + 4;
    return n;
}

static void put_rest(struct buf *out, char *to, const struct http_head *head,
                     const struct http1_framing *framing)
{
    to = put_framing(to, framing);
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct http_field *field = &head->fields[i];

        if (http1_is_name(field->name) && !http_is_hop(head, field->name))
            to = put_field(to, field->name, field->value);
    }
    to = put(to, SLICE("\r\n"));
    out->end = (size_t)(to - out->at);
}

bool http1_put_reply(struct net_loop *loop, struct buf *out, const struct http_head *head,
                     const struct http1_framing *framing)
{
    char *to = buf_reserve(loop, out, head_bound(head, framing));

    if (to == NULL)
        return false;
    int status = head->status >= 100 && head->status <= 999 ? head->status : 500;
    to = put(to, SLICE("HTTP/1.1 "));
    to += http_put_number(to, status);
    to = put(to, SLICE(" "));
    to = put(to, slice_of(http_status_text(status)));
    to = put(to, SLICE("\r\n"));
    put_rest(out, to, head, framing);
    return true;
}

bool http1_put_request(struct net_loop *loop, struct buf *out, const struct http_head *head,
                       const struct http1_framing *framing)
{
    char *to = buf_reserve(loop, out, head_bound(head, framing));

    if (to == NULL)
        return false;
    to = put(to, head->method);
    to = put(to, SLICE(" "));
    to = put(to, head->target);
    to = put(to, SLICE(" HTTP/1.1\r\n"));
    put_rest(out, to, head, framing);
    return true;
}

bool http1_put_last_chunk(struct net_loop *loop, struct buf *out, const struct http_field *trailers,
                          size_t n)
{
    struct http_head head = {.fields = trailers, .n_fields = n};
    char *to = buf_reserve(loop, out, head_bound(&head, &(struct http1_framing){.length = -1}));

    if (to == NULL)
        return false;
    to = put(to, SLICE("0\r\n"));
    put_rest(out, to, &head, &(struct http1_framing){.length = -1});
    return true;
}

size_t http1_chunk_line(char line[HTTP1_CHUNK_BYTES], size_t n)
{
    static const char digits[] = "0123456789abcdef";
    char reversed[16];
    size_t k = 0, i = 0;

    do {
        reversed[k++] = digits[n % 16];
        n /= 16;
    } while (n > 0);
    while (k > 0)
        line[i++] = reversed[--k];
    line[i++] = '\r';
    line[i++] = '\n';
    return i;
}
