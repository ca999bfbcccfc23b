/* trace_span.h - one span as JSON. For traces.c alone. */
#ifndef TG_OBS_TRACE_SPAN_H
#define TG_OBS_TRACE_SPAN_H

#include "io/text/text_out.h"
#include "server/obs/traces.h"

#define TRACE_SPAN_MAX 8192

struct trace_span {
    bool comma;          /* an attribute stands before */
    struct text_out out; /* writes into room */
    char room[TRACE_SPAN_MAX];
};

/* An object, and a newline. */
void trace_span_write(struct trace_span *span, const struct report *report, const uint8_t parent[8],
                      const struct trace_server *server);

#endif
