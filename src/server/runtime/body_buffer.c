/* body_buffer.c - bodies take up what has arrived of them, and are counted by what they take up:
 * see body_buffer.h.
 *
 * A length that is only announced takes up nothing: who wants the memory has to send the bytes.
 */
#include "server/runtime/body_buffer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/json_read.h"
#include "server/runtime/gateway.h"
#include "server/runtime/generation.h"

enum { FIRST_BYTES = 4096 };

static size_t room_for(const struct body_buffer *body, size_t n, int64_t length)
{
    size_t room = body->room > 0 ? body->room : FIRST_BYTES;

    while (room < n)
        room *= 2;
    if (length > 0 && room > (size_t)length + JSON_PADDING && n <= (size_t)length + JSON_PADDING)
        room = (size_t)length + JSON_PADDING;
    return room;
}

static bool body_buffer_grow(struct body_buffer *body, struct gateway *gateway,
                             const struct generation *generation, size_t room)
{
    assert(room > body->room);
    long long more = (long long)(room - body->room);
    long long all =
        atomic_fetch_add_explicit(&gateway->counts.buffered, more, memory_order_relaxed);
    char *bytes =
        all + more <= generation->config.limits.buffered_total ? realloc(body->bytes, room) : NULL;

    if (bytes == NULL) {
        atomic_fetch_sub_explicit(&gateway->counts.buffered, more, memory_order_relaxed);
        return false;
    }
    body->bytes = bytes;
    body->room = room;
    return true;
}

bool body_buffer_add(struct body_buffer *body, struct gateway *gateway,
                     const struct generation *generation, int64_t length, struct slice more)
{
    size_t n = body->n + more.n + JSON_PADDING;

    if (n > body->room && !body_buffer_grow(body, gateway, generation, room_for(body, n, length)))
        return false;
    if (more.n > 0)
        memcpy(body->bytes + body->n, more.at, more.n);
    body->n += more.n;
    assert(body->n + JSON_PADDING <= body->room);
    return true;
}

void body_buffer_free(struct body_buffer *body, struct gateway *gateway)
{
    long long room = (long long)body->room;
    long long all =
        atomic_fetch_sub_explicit(&gateway->counts.buffered, room, memory_order_relaxed);

    assert(all >= room); /* this body was among them */
    free(body->bytes);
    *body = (struct body_buffer){.bytes = NULL};
}
