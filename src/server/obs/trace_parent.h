/* trace_parent.h - whose trace a request belongs to: the field `traceparent` of W3C Trace Context.
 *
 *     00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
 *     version, trace, span of the caller, flags: 1 is sampled
 */
#ifndef TG_OBS_TRACE_PARENT_H
#define TG_OBS_TRACE_PARENT_H

#include "io/text/slice.h"
#include "tollgate.h"

#define TRACE_PARENT_BYTES 55

struct trace_ids {
    uint8_t trace_id[16]; /* all 0: there is no trace */
    uint8_t span_id[8];   /* our own */
    uint8_t parent_id[8]; /* the caller's; all 0: it has none */
    bool sampled;         /* whoever began it wants it kept */
};

/* Goes on with the caller's trace, or, where what it sent is none, begins one that is sampled if
 * `begin` says so, and stays without one otherwise. The numbers are random. */
void trace_ids_init(struct trace_ids *ids, struct slice traceparent, bool begin,
                    const uint64_t random[3]);

bool trace_ids_present(const struct trace_ids *ids);

/* What is sent on: our span is the caller there. */
void trace_parent_write(const struct trace_ids *ids, char text[TRACE_PARENT_BYTES]);

#endif
