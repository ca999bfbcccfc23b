/* buf.c - bytes that wait: a queue that takes a block of its loop while it holds any. See buf.h. */
#include "io/net/buf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool buf_grow(struct net_loop *loop, struct buf *buf, size_t need)
{
    size_t capacity = buf->capacity == 0 && need <= NET_SMALL_BYTES ? NET_SMALL_BYTES
                      : buf->capacity <= NET_LARGE_BYTES            ? NET_LARGE_BYTES
                                                                    : buf->capacity;

    while (capacity < need) {
        if (capacity > SIZE_MAX / 2)
            return false;
        capacity *= 2;
    }
    char *at = net_block_take(loop, capacity);
    if (at == NULL)
        return false;
    size_t n = buf_bytes(buf);
    if (n > 0)
        memcpy(at, buf_first(buf), n);
    buf_release(loop, buf);
    *buf = (struct buf){.at = at, .end = n, .capacity = capacity};
    return true;
}

char *buf_make_room(struct net_loop *loop, struct buf *buf, size_t n)
{
    if (n > SIZE_MAX / 2)
        return NULL;
    if (buf->capacity - buf->end < n) {
        size_t waiting = buf_bytes(buf);

        /* Moved to the front at most once for as many bytes as were consumed. */
        if (buf->begin >= buf->capacity / 2 && buf->capacity - waiting >= n && buf->at) {
            memmove(buf->at, buf->at + buf->begin, waiting);
            buf->end = waiting;
            buf->begin = 0;
        } else if (!buf_grow(loop, buf, waiting + n)) {
            return NULL;
        }
    }
    assert(buf->at != NULL && buf->capacity - buf->end >= n);
    return buf->at + buf->end;
}

void buf_consume(struct net_loop *loop, struct buf *buf, size_t n)
{
    assert(n <= buf_bytes(buf));
    buf->begin += n;
    if (buf->begin == buf->end)
        buf_release(loop, buf);
}

void buf_release(struct net_loop *loop, struct buf *buf)
{
    assert((buf->at == NULL) == (buf->capacity == 0));
    net_block_give(loop, buf->at, buf->capacity);
    *buf = (struct buf){0};
}
