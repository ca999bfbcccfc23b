/* record.h - an arrival as a line of JSON, for `tollgate replay` and `tollgate sim`.
 *
 *     {"t":1763193600120,"id":"req_00f3...","tenant":"team-a","model":"demo-small","user":"u1",
 *      "peer":"team-a","priority":"normal","input_tokens":7,"max_output_tokens":100,
 *      "output_tokens":9,"stream":true,"cost":107,"value":1,"status":200,"reason":"rate",
 *      "latency_ms":500,"ttfb_ms":40}
 *
 * The first line says who made it and what a replay needs to begin like it:
 *
 *     {"tollgate_recording":2,"made_by":"serve","version":"0.2.0","t":..,"ahead_ms":0,"workers":2,
 *      "store":"memory","config":"<sha256>","chance":123}
 *
 * Then one line a request, written when it has ended: so they come in the order of their ends, and
 * `t`, when it arrived, goes back and forth by as long as calls take. `ops` has what was done at
 * gates, keys and budgets, each with a number `q`: over all lines, these are the order in which
 * things happened (runtime/recorder.h). What is not known is left out; of what was asked and
 * answered there is nothing but its size. docs/recordings.md has every field.
 */
#ifndef TG_OBS_RECORD_H
#define TG_OBS_RECORD_H

#include "io/text/json_write.h"
#include "server/obs/log_line.h"
#include "server/obs/report.h"

#define RECORD_VERSION 2

struct record_first {
    tg_ms now;      /* when the configuration was put in force, by the steady clock */
    tg_ms ahead_ms; /* what the wall clock was ahead of it */
    uint64_t chance;
    size_t workers;
    const char *store; /* "memory", "redis", "redis, blocks" */
    const char *config_hash;
    uint64_t generation; /* its number; a reload makes the next */
    bool inherited;      /* limits began with what another process had counted */
    bool policy_learned; /* prices of the policy were kept from before, and are not in it */
};

void record_first_write(const struct record_first *first, struct json_writer *out);

/* The line of a request without its `ops`, which log_record() adds: they may be long. */
void record_line(const struct report *report, struct log_line *line);

#endif
