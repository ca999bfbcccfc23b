/* body_buffer.c - bodies take up what has arrived of them, and are counted by what they take up:
 * see body_buffer.h.
 *
 * A length that is only announced takes up nothing: who wants the memory has to send the bytes.
 *
 * One tenant must not take all. A fixed part for each would be next to nothing where there are many
 * tenants and few of them busy. So a tenant may take more while it has no more than what is free:
 *
 *     a body may grow    if    bytes of its tenant <= buffered_total - bytes of all
 *
 * Alone, a tenant gets half and one more step of a body; k tenants that want all there is get
 * 1 / (k + 1) each, and as much stays free for whoever comes next: the dynamic thresholds that
 * switches share their buffers by (Choudhury and Hahne, 1998), with a factor of 1. It needs two
 * counters and no list of who is there. Whoever has nothing yet is never refused for its share.
 */
#include "server/runtime/body_buffer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/json_read.h"
#include "io/text/text_out.h"
#include "server/runtime/gateway.h"
#include "server/runtime/generation.h"
#include "server/runtime/tenant_share.h"

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

/* Counts so many bytes more for a share, if there is room for them. Relaxed: the counts guard no
 * other memory. `all` is added to and looked at in one step, so the sum never exceeds the total; a
 * share may be read by several threads before one of them has added to it, and be exceeded by what
 * they add. */
static enum body_room body_buffer_count(struct gateway *gateway, struct tenant_share *share,
                                        long long total, long long more)
{
    atomic_llong *all = &gateway->counts.buffered;
    long long free_bytes = total - atomic_load_explicit(all, memory_order_relaxed);

    if (atomic_load_explicit(&share->buffered, memory_order_relaxed) > free_bytes)
        return BODY_SHARE_FULL;
    if (more > free_bytes)
        return BODY_ALL_FULL;
    if (atomic_fetch_add_explicit(all, more, memory_order_relaxed) + more > total) {
        atomic_fetch_sub_explicit(all, more, memory_order_relaxed);
        return BODY_ALL_FULL;
    }
    atomic_fetch_add_explicit(&share->buffered, more, memory_order_relaxed);
    return BODY_FITS;
}

static void body_buffer_uncount(struct gateway *gateway, struct tenant_share *share, long long less)
{
    long long all =
        atomic_fetch_sub_explicit(&gateway->counts.buffered, less, memory_order_relaxed);
    long long own = atomic_fetch_sub_explicit(&share->buffered, less, memory_order_relaxed);

    assert(all >= less && own >= less); /* this body was among them */
    (void)all, (void)own;
}

enum body_room body_buffer_add(struct body_buffer *body, struct gateway *gateway,
                               const struct generation *generation, struct tenant_share *share,
                               int64_t length, struct slice more)
{
    size_t n = body->n + more.n + JSON_PADDING;

    assert(body->share == NULL || body->share == share);
    if (n > body->room) {
        size_t room = room_for(body, n, length);
        long long grows = (long long)(room - body->room);
        enum body_room fits =
            body_buffer_count(gateway, share, generation->config.limits.buffered_total, grows);
        char *bytes = fits == BODY_FITS ? realloc(body->bytes, room) : NULL;

        if (fits != BODY_FITS)
            return fits;
        if (bytes == NULL) {
            body_buffer_uncount(gateway, share, grows);
            return BODY_NO_MEMORY;
        }
        body->bytes = bytes;
        body->room = room;
        body->share = share;
    }
    if (more.n > 0)
        memcpy(body->bytes + body->n, more.at, more.n);
    body->n += more.n;
    assert(body->n + JSON_PADDING <= body->room);
    return BODY_FITS;
}

enum body_room body_buffer_take(struct body_buffer *body, struct gateway *gateway,
                                const struct generation *generation, struct tenant_share *share,
                                struct text_out *text)
{
    size_t room = text->size + JSON_PADDING;

    assert(body->bytes == NULL && body->share == NULL && !text->is_fixed && !text->failed);
    enum body_room fits = body_buffer_count(
        gateway, share, generation->config.limits.buffered_total, (long long)room);
    if (fits != BODY_FITS)
        return fits;
    char *bytes = realloc(text->bytes, room); /* it had grown by doubling */
    if (bytes == NULL) {
        body_buffer_uncount(gateway, share, (long long)room);
        return BODY_NO_MEMORY;
    }
    *body = (struct body_buffer){.bytes = bytes, .n = text->size, .room = room, .share = share};
    *text = (struct text_out){0};
    return BODY_FITS;
}

void body_buffer_refusal(enum body_room room, const char *whose, struct refusal *why)
{
    assert(room != BODY_FITS);
    if (room == BODY_SHARE_FULL)
        refusal_init(why, REPLY_MEMORY_PRESSURE,
                     "memory pressure: the bodies of %s take all the memory that one may", whose);
    else if (room == BODY_ALL_FULL)
        refusal_init(why, REPLY_MEMORY_PRESSURE,
                     "memory pressure: the bodies of calls take all the memory they may");
    else
        refusal_init(why, REPLY_MEMORY_PRESSURE,
                     "memory pressure: there is no memory for the body");
}

void body_buffer_free(struct body_buffer *body, struct gateway *gateway)
{
    if (body->share != NULL)
        body_buffer_uncount(gateway, body->share, (long long)body->room);
    free(body->bytes);
    *body = (struct body_buffer){.bytes = NULL};
}
