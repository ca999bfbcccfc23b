/* log_ring.h - lines on their way from the one thread that makes them to the one that sends them.
 *
 * A ring of bytes. A line is put in whole or, when there is no room for it, not at all, and is
 * counted as dropped: the maker never waits. The reader sees whole lines only.
 */
#ifndef TG_OBS_LOG_RING_H
#define TG_OBS_LOG_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/text/slice.h"

enum { LOG_RING_LINE = 64 }; /* bytes of a cache line, which two threads had better not share */

struct log_ring {
    char *bytes;
    size_t size; /* a power of two */

    /* The maker's. `head` counts all bytes that were ever put in. */
    _Alignas(LOG_RING_LINE) atomic_size_t head;
    size_t seen_tail; /* the reader's `tail`, when the maker last read it */
    atomic_ullong dropped;

    /* The reader's: all bytes that were ever taken out. */
    _Alignas(LOG_RING_LINE) atomic_size_t tail;
};

/* False: no memory. `size` is a power of two. */
bool log_ring_init(struct log_ring *ring, size_t size);
void log_ring_fini(struct log_ring *ring);

/* ---- The maker ----------------------------------------------------------------------------- */

/* A line, its newline included. False: it was dropped. */
bool log_ring_put(struct log_ring *ring, const char *line, size_t n);

/* A line that could not be made: it counts as dropped. By the maker. */
void log_ring_drop(struct log_ring *ring);

/* Whether half of it or more is waiting. */
bool log_ring_is_half_full(struct log_ring *ring);

/* ---- The reader ---------------------------------------------------------------------------- */

/* The whole lines that fit into `at_most` bytes, at least one if there is one at all; in two parts
 * where they go around the end. Returns their bytes; they stay there until taken. */
size_t log_ring_peek(const struct log_ring *ring, size_t at_most, struct slice part[2]);

void log_ring_take(struct log_ring *ring, size_t n);

/* How many lines were dropped; for any thread. */
uint64_t log_ring_dropped(const struct log_ring *ring);

#endif
