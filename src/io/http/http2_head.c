/* http2_head.c - fields of HTTP/2: collected as they are decoded, and made ready to be encoded.
 *
 * A field that costs its sender one byte may decode to four thousand, so what counts is what comes
 * out: each field's bytes and 32 more, as RFC 9113 counts. Over the limit nothing is kept any more,
 * but decoding goes on, because the compressor's state belongs to the connection: so the client can
 * be told with 431. Far over it, it is not a mistake, and the connection's end.
 *
 * All of a block stands in one buffer, the list of its fields behind their bytes: a usual head
 * costs one block of the loop's and no other memory.
 */
#include "io/http/http2_head.h"

#include <assert.h>

#include "io/http/http1_write.h"

#define FIELD_BYTES 32  /* overhead of a field, by RFC 9113 */
#define FAR_OVER 4      /* times the limit is no mistake any more */
#define PSEUDO_FIELDS 4 /* pseudo-header fields of a request: they do not count as fields */

struct lengths {
    uint32_t name, value;
};

/* ---- What arrives ---------------------------------------------------------------------------- */

static bool http2_head_keep(struct net_loop *loop, struct http2_block *block, struct slice name,
                            struct slice value)
{
    struct lengths lengths = {(uint32_t)name.n, (uint32_t)value.n};
    char *to = buf_reserve(loop, &block->raw, sizeof lengths + name.n + value.n);

    if (to == NULL)
        return false;
    memcpy(to, &lengths, sizeof lengths);
    if (name.n > 0)
        memcpy(to + sizeof lengths, name.at, name.n);
    if (value.n > 0)
        memcpy(to + sizeof lengths + name.n, value.at, value.n);
    block->raw.end += sizeof lengths + name.n + value.n;
    return true;
}

bool http2_block_add(struct net_loop *loop, struct http2_block *block,
                     const struct http2_block_limits *limits, struct slice name, struct slice value)
{
    assert(!(block->over || block->no_memory) || block->raw.at == NULL);
    block->n++;
    block->bytes += name.n + value.n + FIELD_BYTES;
    if (slice_equal(name, SLICE("cookie"))) {
        block->n_cookies++;
        block->cookie_bytes += value.n + 2;
    }
    if (block->bytes > limits->header_bytes || block->n > limits->fields + PSEUDO_FIELDS)
        block->over = true;
    if (!block->over && !block->no_memory)
        block->no_memory = !http2_head_keep(loop, block, name, value);
    if (block->over || block->no_memory)
        buf_release(loop, &block->raw);
    return block->bytes <= limits->header_bytes * FAR_OVER &&
           block->n <= limits->fields * FAR_OVER + PSEUDO_FIELDS;
}

/* It is the first field of a reply. */
struct slice http2_block_status(const struct http2_block *block)
{
    struct slice name = SLICE(":status");
    struct lengths lengths;

    if (buf_bytes(&block->raw) < sizeof lengths + name.n)
        return (struct slice){NULL, 0};
    const char *at = buf_first(&block->raw);
    memcpy(&lengths, at, sizeof lengths);
    at += sizeof lengths;
    if (lengths.name != name.n || memcmp(at, name.at, name.n) != 0)
        return (struct slice){NULL, 0};
    return (struct slice){at + name.n, lengths.value};
}

/* Takes a field that begins with a colon. */
static void take_pseudo(struct http2_pseudo *pseudo, struct slice name, struct slice value)
{
    if (slice_equal(name, SLICE(":method")))
        pseudo->method = value;
    else if (slice_equal(name, SLICE(":path")))
        pseudo->path = value;
    else if (slice_equal(name, SLICE(":authority")))
        pseudo->authority = value;
    else if (slice_equal(name, SLICE(":status")))
        pseudo->status = value;
}

/* A list that is being made. */
struct listing {
    struct http_field *list;
    size_t n;
    char *cookies; /* where they are joined; null: there is one at most */
    size_t cookies_at;
};

/* RFC 9113, 8.2.3: who does not know HTTP/2 may take the first cookie for all of them. */
static bool join_cookie(struct listing *listing, char *to, struct slice value)
{
    bool first = listing->cookies == NULL;

    if (first) {
        listing->cookies = to;
        listing->cookies_at = listing->n;
        listing->list[listing->n] = (struct http_field){SLICE("cookie"), {to, 0}};
    }
    struct slice *joined = &listing->list[listing->cookies_at].value;
    if (!first) {
        memcpy(to + joined->n, "; ", 2);
        joined->n += 2;
    }
    if (value.n > 0)
        memcpy(to + joined->n, value.at, value.n);
    joined->n += value.n;
    return first;
}

static size_t aligned(size_t n)
{
    size_t to = sizeof(void *);

    return (n + to - 1) / to * to;
}

bool http2_block_list(struct net_loop *loop, struct http2_block *block, struct http2_pseudo *pseudo,
                      const struct http_field **fields, size_t *n)
{
    size_t raw_end = block->raw.end, end = aligned(raw_end);
    size_t list_bytes = block->n * sizeof(struct http_field);
    size_t join_bytes = block->n_cookies > 1 ? block->cookie_bytes : 0;

    *pseudo = (struct http2_pseudo){0};
    *fields = NULL;
    *n = 0;
    if (block->n == 0)
        return true;
    if (buf_reserve(loop, &block->raw, end - block->raw.end + list_bytes + join_bytes) == NULL)
        return false;
    const char *at = block->raw.at;
    struct listing listing = {.list = (struct http_field *)(void *)(block->raw.at + end)};
    for (size_t i = 0; i < block->n; i++) {
        struct lengths lengths;

        memcpy(&lengths, at, sizeof lengths);
        struct slice name = {at + sizeof lengths, lengths.name};
        struct slice value = {name.at + name.n, lengths.value};
        at = value.at + value.n;
        if (name.n > 0 && *name.at == ':') {
            take_pseudo(pseudo, name, value);
            if (slice_equal(name, SLICE(":authority")))
                listing.list[listing.n++] = (struct http_field){SLICE("host"), value};
        } else if (pseudo->authority.at != NULL && slice_equal(name, SLICE("host"))) {
            pseudo->two_hosts |= !slice_equal_nocase(value, pseudo->authority);
        } else if (join_bytes > 0 && slice_equal(name, SLICE("cookie"))) {
            listing.n += join_cookie(&listing, block->raw.at + end + list_bytes, value);
        } else {
            listing.list[listing.n++] = (struct http_field){name, value};
        }
    }
    assert(at == block->raw.at + raw_end && listing.n <= block->n);
    block->raw.end = end + list_bytes + join_bytes;
    assert(block->raw.end <= block->raw.capacity);
    *fields = listing.list;
    *n = listing.n;
    return true;
}

void http2_block_release(struct net_loop *loop, struct http2_block *block)
{
    buf_release(loop, &block->raw);
    *block = (struct http2_block){0};
}

int64_t http2_stated_length(const struct http_head *head)
{
    struct slice text = http_find(head, SLICE("content-length"));
    int64_t length = 0;

    if (text.n == 0 || text.n > 18)
        return -1;
    for (size_t i = 0; i < text.n; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return -1;
        length = length * 10 + (text.at[i] - '0');
    }
    return length;
}

/* Puts a text behind the list, where there is room for it. */
static struct slice http2_head_put_text(struct buf *last, struct slice text)
{
    char *to = last->at + last->end;

    assert(last->capacity - last->end >= text.n);
    if (text.n > 0)
        memcpy(to, text.at, text.n);
    last->end += text.n;
    return (struct slice){to, text.n};
}

bool http2_fields_keep(struct net_loop *loop, struct buf *kept, const struct http_field *fields,
                       size_t n)
{
    size_t bytes = n * sizeof *fields;

    assert(buf_bytes(kept) == 0);
    for (size_t i = 0; i < n; i++)
        bytes += fields[i].name.n + fields[i].value.n;
    struct http_field *list = (struct http_field *)(void *)buf_reserve(loop, kept, bytes);
    if (list == NULL)
        return false;
    kept->end += n * sizeof *fields;
    for (size_t i = 0; i < n; i++) {
        list[i].name = http2_head_put_text(kept, fields[i].name);
        list[i].value = http2_head_put_text(kept, fields[i].value);
    }
    return true;
}

/* ---- What is sent ---------------------------------------------------------------------------- */

void http2_nvs_init(struct http2_nvs *nvs)
{
    nvs->n = 0;
    nvs->mended = (struct buf){0};
}

void http2_nvs_fini(struct net_loop *loop, struct http2_nvs *nvs)
{
    buf_release(loop, &nvs->mended);
}

bool http2_nvs_put(struct http2_nvs *nvs, struct slice name, struct slice value)
{
    if (nvs->n == HTTP2_NVS_MAX)
        return false;
    nvs->list[nvs->n++] = (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)name.at,
        .value = (uint8_t *)(uintptr_t)(value.n > 0 ? value.at : ""),
        .namelen = name.n,
        .valuelen = value.n,
        .flags = NGHTTP2_NV_FLAG_NONE,
    };
    return true;
}

void http2_nvs_put_length(struct http2_nvs *nvs, int64_t length)
{
    size_t n = http_put_number(nvs->digits, length);

    http2_nvs_put(nvs, SLICE("content-length"), (struct slice){nvs->digits, n});
}

static bool is_unfit(char c)
{
    return c == '\r' || c == '\n' || c == '\0';
}

static bool needs_mending(struct slice value)
{
    for (size_t i = 0; i < value.n; i++)
        if (is_unfit(value.at[i]))
            return true;
    return false;
}

/* White space at either end is none of the value's, and not allowed there. */
static struct slice trimmed(struct slice value)
{
    while (value.n > 0 && (value.at[value.n - 1] == ' ' || value.at[value.n - 1] == '\t'))
        value.n--;
    while (value.n > 0 && (*value.at == ' ' || *value.at == '\t'))
        value.at++, value.n--;
    return value;
}

static struct slice mend(struct buf *mended, struct slice value)
{
    char *to = mended->at + mended->end;

    assert(mended->capacity - mended->end >= value.n); /* it must not move */
    for (size_t i = 0; i < value.n; i++)
        to[i] = (char)(is_unfit(value.at[i]) ? ' ' : value.at[i]);
    mended->end += value.n;
    return (struct slice){to, value.n};
}

/* Waits, times, counts: seldom said twice. Such a value is not worth a place in the compressor's
 * table, where all others of its name are looked through for the next. */
static bool is_long_number(struct slice value)
{
    size_t i = 0;

    while (i < value.n && value.at[i] >= '0' && value.at[i] <= '9')
        i++;
    return i == value.n && i > 3;
}

/* Room for all of them at once: what has been mended must not move. */
static bool reserve_mended(struct net_loop *loop, struct http2_nvs *nvs,
                           const struct http_head *head)
{
    size_t bytes = 0;

    for (size_t i = 0; i < head->n_fields; i++)
        if (needs_mending(head->fields[i].value))
            bytes += head->fields[i].value.n;
    return bytes == 0 || buf_reserve(loop, &nvs->mended, bytes) != NULL;
}

bool http2_nvs_put_fields(struct net_loop *loop, struct http2_nvs *nvs,
                          const struct http_head *head, bool request)
{
    if (!reserve_mended(loop, nvs, head))
        return false;
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct http_field *field = &head->fields[i];
        struct slice value = field->value;
        bool te = request && slice_equal_nocase(field->name, SLICE("te")) &&
                  slice_equal_nocase(value, SLICE("trailers"));

        if (!te && (!http1_is_name(field->name) || http_is_hop(head, field->name)))
            continue;
        if (nvs->mended.at != NULL && needs_mending(value))
            value = mend(&nvs->mended, value);
        if (!http2_nvs_put(nvs, field->name, trimmed(value)))
            return false;
        if (is_long_number(value))
            nvs->list[nvs->n - 1].flags = NGHTTP2_NV_FLAG_NO_INDEX;
    }
    return true;
}
