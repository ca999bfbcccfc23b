/* traces.h - a request as a span of OpenTelemetry, on its way to a collector.
 *
 *     worker ---> lane --.
 *     worker ---> lane --+--- trace_batch_fill() ---> whoever sends it (server/probe/otlp.h)
 *
 * A span is encoded by the worker whose request it was, into a bounded lane of its own, as lines of
 * a log are. When nobody empties a lane, because the collector is slow or gone, it fills up and
 * further spans are dropped and counted.
 *
 * Names are those of OpenTelemetry's conventions for generative AI, and `tollgate.*` for what they
 * have no name for. No prompt and no answer is in a span.
 */
#ifndef TG_OBS_TRACES_H
#define TG_OBS_TRACES_H

#include "io/text/slice.h"
#include "server/obs/report.h"

struct trace;
struct trace_lane;

#define TRACE_LANES_MAX 1100
#define TRACE_LANE_BYTES ((size_t)1 << 20)

/* `lane_bytes` is a power of two. Null: no memory. */
struct trace *trace_new(size_t lane_bytes);

/* All lanes end with it. */
void trace_free(struct trace *trace);

/* For one thread. Null: no memory, or there are too many. By any thread. */
struct trace_lane *trace_lane_new(struct trace *trace);

/* Where a request went. */
struct trace_server {
    const char *address; /* null: nowhere */
    int port;
};

/* A request has ended. Nothing happens if its trace is not sampled. `parent` is the span of the
 * caller, null or all 0 if it has none. */
void trace_request(struct trace_lane *lane, const struct report *report, const uint8_t parent[8],
                   const struct trace_server *server);

/* ---- One thread that sends ---------------------------------------------------------------- */

/* A document of OTLP's ExportTraceServiceRequest in JSON. */
#define TRACE_BATCH_BYTES ((size_t)512 << 10)
#define TRACE_INSTANCE_MAX 64

struct trace_batch {
    size_t n, spans;
    char text[TRACE_BATCH_BYTES];
};

/* Takes as many spans out of the lanes as there are and as fit. False: there were none. `instance`
 * tells this process from others of its kind. */
bool trace_batch_fill(struct trace *trace, const char *instance, struct trace_batch *batch);

/* The spans of a batch will not arrive. */
void trace_batch_lost(struct trace *trace, const struct trace_batch *batch);

struct trace_counts {
    uint64_t taken;   /* spans that were put into batches */
    uint64_t dropped; /* for which there was no room, or whose batch was lost */
};

/* By any thread. */
void trace_get_counts(const struct trace *trace, struct trace_counts *counts);

#endif
