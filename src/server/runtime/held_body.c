/* held_body.c - bodies take up what has arrived of them, and are counted by what they take up. See
 * held_body.h.
 *
 * A length that is only announced takes up nothing: who wants the memory has to send the bytes.
 */
#include "server/runtime/held_body.h"

#include <stdlib.h>
#include <string.h>

#include "io/text/json_read.h"
#include "server/runtime/gateway.h"
#include "server/runtime/generation.h"

enum { FIRST_BYTES = 4096 };

static size_t room_for(const struct held_body *body, size_t n, int64_t length)
{
    size_t room = body->room > 0 ? body->room : FIRST_BYTES;

    while (room < n)
        room *= 2;
    if (length > 0 && room > (size_t)length + JSON_PADDING && n <= (size_t)length + JSON_PADDING)
        room = (size_t)length + JSON_PADDING;
    return room;
}

static bool held_body_grow(struct held_body *body, struct gateway *gateway,
                           const struct generation *generation, size_t room)
{
    long long more = (long long)(room - body->room);
    long long held =
        atomic_fetch_add_explicit(&gateway->counts.buffered, more, memory_order_relaxed);
    char *bytes =
        held + more <= generation->config.limits.buffered_total ? realloc(body->bytes, room) : NULL;

    if (bytes == NULL) {
        atomic_fetch_sub_explicit(&gateway->counts.buffered, more, memory_order_relaxed);
        return false;
    }
    body->bytes = bytes;
    body->room = room;
    return true;
}

bool held_body_add(struct held_body *body, struct gateway *gateway,
                   const struct generation *generation, int64_t length, struct slice more)
{
    size_t n = body->n + more.n + JSON_PADDING;

    if (n > body->room && !held_body_grow(body, gateway, generation, room_for(body, n, length)))
        return false;
    if (more.n > 0)
        memcpy(body->bytes + body->n, more.at, more.n);
    body->n += more.n;
    return true;
}

void held_body_free(struct held_body *body, struct gateway *gateway)
{
    if (body->room > 0)
        atomic_fetch_sub_explicit(&gateway->counts.buffered, (long long)body->room,
                                  memory_order_relaxed);
    free(body->bytes);
    *body = (struct held_body){.bytes = NULL};
}
