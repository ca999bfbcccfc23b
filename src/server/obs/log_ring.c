/* log_ring.c - lines on their way from one thread to another. See log_ring.h.
 *
 * One maker and one reader: neither needs a lock, nor an instruction that locks a bus. A ring that
 * many threads put into would cost each of them a contended word for every line, and would have to
 * say what happens when one is stopped halfway; a ring each costs memory, and that is bounded.
 *
 * Ordering: the maker's release of `head` publishes the bytes before it to the reader's acquire.
 * The reader's release of `tail` says that it has finished reading, and the maker's acquire of it
 * comes before it writes there again. The maker reads `tail` only when what it last knew leaves
 * no room, or not half of the ring. tests/unit/server/obs/test_log_threads.c runs it under TSan.
 */
#include "server/obs/log_ring.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool log_ring_init(struct log_ring *ring, size_t size)
{
    assert(size > 0 && (size & (size - 1)) == 0);
    memset(ring, 0, sizeof *ring);
    ring->bytes = malloc(size);
    ring->size = size;
    return ring->bytes != NULL;
}

void log_ring_fini(struct log_ring *ring)
{
    free(ring->bytes);
    ring->bytes = NULL;
}

/* ---- The maker ----------------------------------------------------------------------------- */

static bool log_ring_has_room(struct log_ring *ring, size_t head, size_t n)
{
    if (n <= ring->size - (head - ring->seen_tail))
        return true;
    ring->seen_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    assert(head - ring->seen_tail <= ring->size); /* the reader is never ahead of the maker */
    return n <= ring->size - (head - ring->seen_tail);
}

void log_ring_drop(struct log_ring *ring)
{
    unsigned long long dropped = atomic_load_explicit(&ring->dropped, memory_order_relaxed);

    atomic_store_explicit(&ring->dropped, dropped + 1, memory_order_relaxed);
}

bool log_ring_put(struct log_ring *ring, const char *line, size_t n)
{
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    size_t at = head & (ring->size - 1), first = ring->size - at;

    if (!log_ring_has_room(ring, head, n)) {
        log_ring_drop(ring);
        return false;
    }
    if (first > n)
        first = n;
    memcpy(ring->bytes + at, line, first);
    memcpy(ring->bytes, line + first, n - first);
    atomic_store_explicit(&ring->head, head + n, memory_order_release);
    return true;
}

/* What the maker last knew may be long past: it is asked again before anybody is woken by it, or
 * every line would wake the reader from the moment that the ring has gone round by half. */
bool log_ring_is_half_full(struct log_ring *ring)
{
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    return !log_ring_has_room(ring, head, ring->size / 2 + 1);
}

/* ---- The reader ---------------------------------------------------------------------------- */

static char byte_at(const struct log_ring *ring, size_t at)
{
    return ring->bytes[at & (ring->size - 1)];
}

/* How many bytes from `tail` on are whole lines; what is published ends with one. */
static size_t whole_lines(const struct log_ring *ring, size_t tail, size_t there, size_t at_most)
{
    size_t n = at_most;

    if (there <= at_most)
        return there;
    while (n > 0 && byte_at(ring, tail + n - 1) != '\n')
        n--;
    if (n > 0)
        return n;
    for (n = at_most; n < there && byte_at(ring, tail + n) != '\n'; n++)
        ;
    assert(n < there); /* only whole lines are put in */
    return n + 1;
}

size_t log_ring_peek(const struct log_ring *ring, size_t at_most, struct slice part[2])
{
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    size_t there = atomic_load_explicit(&ring->head, memory_order_acquire) - tail;
    assert(there <= ring->size);
    size_t n = whole_lines(ring, tail, there, at_most);
    size_t at = tail & (ring->size - 1);
    size_t first = n < ring->size - at ? n : ring->size - at;

    part[0] = (struct slice){ring->bytes + at, first};
    part[1] = (struct slice){ring->bytes, n - first};
    return n;
}

void log_ring_take(struct log_ring *ring, size_t n)
{
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

    assert(n <= atomic_load_explicit(&ring->head, memory_order_relaxed) - tail);
    atomic_store_explicit(&ring->tail, tail + n, memory_order_release);
}

uint64_t log_ring_dropped(const struct log_ring *ring)
{
    return atomic_load_explicit(&ring->dropped, memory_order_relaxed);
}
