/* http1_write.c - HTTP/1 into bytes: heads and chunks, made of fields and never of raw bytes.
 *
 * Whatever a field holds, it stays one field: names that are no tokens are left out, and line ends
 * and zeros in values become spaces. What frames the message is written here and nowhere else.
 */
#include "io/http/http1_write.h"

#include <assert.h>

#define EIGHT UINT64_C(0x0101010101010101)

/* Digits, letters and !#$%&'*+-.^_`|~ */
static const bool is_token[256] = {
    ['0'] = 1, ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1, ['5'] = 1, ['6'] = 1,  ['7'] = 1,
    ['8'] = 1, ['9'] = 1, ['A'] = 1, ['B'] = 1, ['C'] = 1, ['D'] = 1, ['E'] = 1,  ['F'] = 1,
    ['G'] = 1, ['H'] = 1, ['I'] = 1, ['J'] = 1, ['K'] = 1, ['L'] = 1, ['M'] = 1,  ['N'] = 1,
    ['O'] = 1, ['P'] = 1, ['Q'] = 1, ['R'] = 1, ['S'] = 1, ['T'] = 1, ['U'] = 1,  ['V'] = 1,
    ['W'] = 1, ['X'] = 1, ['Y'] = 1, ['Z'] = 1, ['a'] = 1, ['b'] = 1, ['c'] = 1,  ['d'] = 1,
    ['e'] = 1, ['f'] = 1, ['g'] = 1, ['h'] = 1, ['i'] = 1, ['j'] = 1, ['k'] = 1,  ['l'] = 1,
    ['m'] = 1, ['n'] = 1, ['o'] = 1, ['p'] = 1, ['q'] = 1, ['r'] = 1, ['s'] = 1,  ['t'] = 1,
    ['u'] = 1, ['v'] = 1, ['w'] = 1, ['x'] = 1, ['y'] = 1, ['z'] = 1, ['!'] = 1,  ['#'] = 1,
    ['$'] = 1, ['%'] = 1, ['&'] = 1, ['*'] = 1, ['+'] = 1, ['-'] = 1, ['\''] = 1, ['.'] = 1,
    ['^'] = 1, ['_'] = 1, ['`'] = 1, ['|'] = 1, ['~'] = 1,
};

bool http1_is_name(struct slice text)
{
    bool good = text.n > 0;

    for (size_t i = 0; i < text.n; i++)
        good &= is_token[(unsigned char)text.at[i]];
    return good;
}

bool http1_is_fit(const struct http_head *head)
{
    for (size_t i = 0; i < head->target.n; i++)
        if ((unsigned char)head->target.at[i] <= ' ' || head->target.at[i] == 0x7f)
            return false;
    return head->target.n > 0 && http1_is_name(head->method);
}

static char *http1_write_put(char *to, struct slice text)
{
    if (text.n > 0)
        memcpy(to, text.at, text.n);
    return to + text.n;
}

/* Eight at a time, as long as none of them can be a line end or a zero: none is below 14. */
static char *put_value(char *to, struct slice value)
{
    size_t i = 0;

    for (; value.n - i >= 8; i += 8) {
        uint64_t word;

        memcpy(&word, value.at + i, 8);
        if (((word - EIGHT * 14) & ~word & EIGHT << 7) != 0)
            break;
        memcpy(to + i, &word, 8);
    }
    for (; i < value.n; i++) {
        char c = value.at[i];

        to[i] = (char)(c == '\r' || c == '\n' || c == '\0' ? ' ' : c);
    }
    return to + value.n;
}

static char *put_field(char *to, struct slice name, struct slice value)
{
    to = http1_write_put(to, name);
    to = http1_write_put(to, SLICE(": "));
    to = put_value(to, value);
    return http1_write_put(to, SLICE("\r\n"));
}

static char *put_framing(char *to, const struct http1_framing *framing)
{
    char digits[HTTP_NUMBER_MAX];

    if (framing->host.at != NULL)
        to = put_field(to, SLICE("host"), framing->host);
    if (framing->chunked) {
        to = http1_write_put(to, SLICE("transfer-encoding: chunked\r\n"));
    } else if (framing->length >= 0) {
        size_t n = http_put_number(digits, framing->length);
        to = put_field(to, SLICE("content-length"), (struct slice){digits, n});
    }
    if (framing->close)
        to = http1_write_put(to, SLICE("connection: close\r\n"));
    else if (framing->keep_alive)
        to = http1_write_put(to, SLICE("connection: keep-alive\r\n"));
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
    const struct http_hops hops = http_hops_of(head);

    to = put_framing(to, framing);
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct http_field *field = &head->fields[i];

        if (http1_is_name(field->name) && !http_hops_has(&hops, field->name))
            to = put_field(to, field->name, field->value);
    }
    to = http1_write_put(to, SLICE("\r\n"));
    out->end = (size_t)(to - out->at);
    assert(out->end <= out->capacity); /* head_bound() was enough */
}

bool http1_put_reply(struct net_loop *loop, struct buf *out, const struct http_head *head,
                     const struct http1_framing *framing)
{
    char *to = buf_reserve(loop, out, head_bound(head, framing));

    if (to == NULL)
        return false;
    int status = head->status >= 100 && head->status <= 999 ? head->status : 500;
    to = http1_write_put(to, SLICE("HTTP/1.1 "));
    to += http_put_number(to, status);
    to = http1_write_put(to, SLICE(" "));
    to = http1_write_put(to, slice_of(http_status_text(status)));
    to = http1_write_put(to, SLICE("\r\n"));
    put_rest(out, to, head, framing);
    return true;
}

bool http1_put_request(struct net_loop *loop, struct buf *out, const struct http_head *head,
                       const struct http1_framing *framing)
{
    char *to = buf_reserve(loop, out, head_bound(head, framing));

    if (to == NULL)
        return false;
    to = http1_write_put(to, head->method);
    to = http1_write_put(to, SLICE(" "));
    to = http1_write_put(to, head->target);
    to = http1_write_put(to, SLICE(" HTTP/1.1\r\n"));
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
    to = http1_write_put(to, SLICE("0\r\n"));
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
    assert(i <= HTTP1_CHUNK_BYTES);
    return i;
}
