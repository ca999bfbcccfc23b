/* buf.h - bytes that wait: a queue that takes a block of its loop while it holds any, and no more.
 *
 * Appended at the end, consumed at the front. Thousands of connections are idle at any time, so an
 * empty one holds no memory. The first block comes from the loop; a queue that outgrows it is
 * reallocated, and how far it may grow is its owner's business.
 */
#ifndef TG_NET_BUF_H
#define TG_NET_BUF_H

#include <assert.h>
#include <string.h>

#include "io/net/loop_internal.h"

struct buf {
    char *at;
    size_t begin, end; /* where the bytes that wait are: begin <= end <= capacity */
    size_t capacity;
};

static inline size_t buf_bytes(const struct buf *buf)
{
    assert(buf->begin <= buf->end && buf->end <= buf->capacity);
    return buf->end - buf->begin;
}

static inline const char *buf_first(const struct buf *buf)
{
    return buf->at + buf->begin;
}

/* For buf_reserve(): there is no room behind the bytes that wait. */
char *buf_make_room(struct net_loop *loop, struct buf *buf, size_t n);

/* Room for n more bytes at the end, to be filled in and then counted by `end`. Null: no memory. */
static inline char *buf_reserve(struct net_loop *loop, struct buf *buf, size_t n)
{
    return buf->at != NULL && buf->capacity - buf->end >= n ? buf->at + buf->end
                                                            : buf_make_room(loop, buf, n);
}

/* False: no memory, and nothing has changed. */
static inline bool buf_append(struct net_loop *loop, struct buf *buf, const void *bytes, size_t n)
{
    if (n == 0)
        return true;
    char *at = buf_reserve(loop, buf, n);
    if (at == NULL)
        return false;
    memcpy(at, bytes, n);
    buf->end += n;
    return true;
}

/* The first n bytes are gone; with the last, the memory. */
void buf_consume(struct net_loop *loop, struct buf *buf, size_t n);

void buf_release(struct net_loop *loop, struct buf *buf);

#endif
