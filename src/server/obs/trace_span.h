/* trace_span.h - one span as JSON. For traces.c alone. */
#ifndef TG_OBS_TRACE_SPAN_H
#define TG_OBS_TRACE_SPAN_H

#include "server/obs/traces.h"

#define TRACE_SPAN_MAX 8192

struct trace_span {
    size_t n;
    bool comma; /* an attribute stands before */
    char text[TRACE_SPAN_MAX];
};

/* An object, and a newline. */
void trace_span_write(struct trace_span *span, const struct report *report, const uint8_t parent[8],
                      const struct trace_server *server);

#endif
