/* traces.c - spans between the workers and whoever sends them. See traces.h. */
#include "server/obs/traces.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/obs/log_ring.h"
#include "server/obs/trace_span.h"

enum { DOCUMENT_TAIL = 16 };

struct trace_lane {
    struct log_ring spans;
    struct trace_span span; /* the one that is being made */
};

struct trace {
    size_t lane_bytes;
    pthread_mutex_t lock; /* held to add a lane */
    struct trace_lane *_Atomic lanes[TRACE_LANES_MAX];
    atomic_size_t n;
    size_t turn; /* the sender's: the lane that is read first */
    atomic_ullong taken, lost;
};

/* ---- Lanes --------------------------------------------------------------------------------- */

struct trace *trace_new(size_t lane_bytes)
{
    struct trace *trace = calloc(1, sizeof *trace);

    if (trace == NULL)
        return NULL;
    trace->lane_bytes = lane_bytes;
    pthread_mutex_init(&trace->lock, NULL);
    return trace;
}

static struct trace_lane *lane_at(const struct trace *trace, size_t i)
{
    return atomic_load_explicit(&trace->lanes[i], memory_order_relaxed);
}

void trace_free(struct trace *trace)
{
    if (trace == NULL)
        return;
    for (size_t i = 0; i < atomic_load(&trace->n); i++) {
        log_ring_fini(&lane_at(trace, i)->spans);
        free(lane_at(trace, i));
    }
    pthread_mutex_destroy(&trace->lock);
    free(trace);
}

static struct trace_lane *lane_make(size_t bytes)
{
    struct trace_lane *lane = aligned_alloc(_Alignof(struct trace_lane), sizeof *lane);

    if (lane == NULL)
        return NULL;
    if (log_ring_init(&lane->spans, bytes))
        return lane;
    free(lane);
    return NULL;
}

struct trace_lane *trace_lane_new(struct trace *trace)
{
    struct trace_lane *lane = NULL;

    pthread_mutex_lock(&trace->lock);
    size_t n = atomic_load_explicit(&trace->n, memory_order_relaxed);
    if (n < TRACE_LANES_MAX)
        lane = lane_make(trace->lane_bytes);
    if (lane != NULL) {
        atomic_store_explicit(&trace->lanes[n], lane, memory_order_relaxed);
        atomic_store_explicit(&trace->n, n + 1, memory_order_release);
    }
    pthread_mutex_unlock(&trace->lock);
    return lane;
}

void trace_request(struct trace_lane *lane, const struct report *report, const uint8_t parent[8],
                   const struct trace_server *server)
{
    if (!report->sampled)
        return;
    trace_span_write(&lane->span, report, parent, server);
    log_ring_put(&lane->spans, lane->span.out.bytes, lane->span.out.size);
}

/* ---- Batches ------------------------------------------------------------------------------- */

static void traces_put(struct trace_batch *batch, const char *text)
{
    size_t n = strlen(text);

    assert(batch->n + n <= TRACE_BATCH_BYTES);
    memcpy(batch->text + batch->n, text, n);
    batch->n += n;
}

/* The resource: which program this is. The instance has no character that needs escaping. */
static void put_head(struct trace_batch *batch, const char *instance)
{
    char text[512];

    snprintf(text, sizeof text,
             "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
             "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"tollgate\"}},"
             "{\"key\":\"service.version\",\"value\":{\"stringValue\":\"%s\"}},"
             "{\"key\":\"service.instance.id\",\"value\":{\"stringValue\":\"%.*s\"}}]},"
             "\"scopeSpans\":[{\"scope\":{\"name\":\"tollgate\",\"version\":\"%s\"},\"spans\":[",
             tg_version(), TRACE_INSTANCE_MAX, instance, tg_version());
    batch->n = 0;
    batch->spans = 0;
    traces_put(batch, text);
}

/* A span is a line in the lane, and an element here: its newline becomes a comma. */
static void put_spans(struct trace_batch *batch, struct slice lines)
{
    char *at = batch->text + batch->n, *end = at + lines.n;

    assert(batch->n + lines.n + DOCUMENT_TAIL <= TRACE_BATCH_BYTES);
    memcpy(at, lines.at, lines.n);
    batch->n += lines.n;
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        *at++ = ',';
        batch->spans++;
    }
}

static void take_lane(struct trace_batch *batch, struct log_ring *ring)
{
    struct slice part[2];

    while (TRACE_BATCH_BYTES - batch->n > TRACE_SPAN_MAX + DOCUMENT_TAIL) {
        size_t room = TRACE_BATCH_BYTES - batch->n - DOCUMENT_TAIL;
        size_t n = log_ring_peek(ring, room, part);
        if (n == 0)
            return;
        put_spans(batch, part[0]);
        if (part[1].n > 0)
            put_spans(batch, part[1]);
        log_ring_take(ring, n);
    }
}

bool trace_batch_fill(struct trace *trace, const char *instance, struct trace_batch *batch)
{
    size_t n = atomic_load_explicit(&trace->n, memory_order_acquire);

    put_head(batch, instance);
    trace->turn++;
    for (size_t i = 0; i < n; i++)
        take_lane(batch, &lane_at(trace, (trace->turn + i) % n)->spans);
    if (batch->spans == 0)
        return false;
    assert(batch->text[batch->n - 1] == ',');
    batch->n--; /* the last comma */
    traces_put(batch, "]}]}]}");
    atomic_fetch_add_explicit(&trace->taken, batch->spans, memory_order_relaxed);
    return true;
}

void trace_batch_lost(struct trace *trace, const struct trace_batch *batch)
{
    atomic_fetch_add_explicit(&trace->lost, batch->spans, memory_order_relaxed);
}

void trace_get_counts(const struct trace *trace, struct trace_counts *counts)
{
    size_t n = atomic_load_explicit(&trace->n, memory_order_acquire);

    counts->taken = atomic_load_explicit(&trace->taken, memory_order_relaxed);
    counts->dropped = atomic_load_explicit(&trace->lost, memory_order_relaxed);
    for (size_t i = 0; i < n; i++)
        counts->dropped += log_ring_dropped(&lane_at(trace, i)->spans);
}
