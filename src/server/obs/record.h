/* record.h - an arrival as a line of JSON, for `tollgate replay` and `tollgate sim`.
 *
 *     {"t":1763193600120,"id":"req_00f3...","tenant":"team-a","model":"demo-small","user":"u1",
 *      "peer":"team-a","priority":"normal","input_tokens":7,"max_output_tokens":100,
 *      "output_tokens":9,"stream":true,"cost":107,"value":1,"status":200,"reason":"rate",
 *      "latency_ms":500,"ttfb_ms":40}
 *
 * One line an arrival, written when it has ended: so they come in the order of their ends, and `t`,
 * when it arrived, goes back and forth by as long as calls take. Whoever needs the order of
 * arrivals sorts. What is not known is left out; of what was asked and answered there is nothing
 * but its size. `input_tokens` is what it was admitted with, `cost` that and `max_output_tokens`. A
 * request of a protected route that has no tenant has the peer as its `key`.
 */
#ifndef TG_OBS_RECORD_H
#define TG_OBS_RECORD_H

#include "server/obs/log_line.h"
#include "server/obs/report.h"

void record_line(const struct report *report, struct log_line *line);

#endif
