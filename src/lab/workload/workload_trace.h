/* workload_trace.h - reading the requests of a trace: BLIS's CSV, or JSON lines.
 *
 * CSV is what BLIS exports: a line of column names, then a line a request. arrival_time_us,
 * input_tokens and output_tokens are needed, other columns are used where they say something.
 *
 * JSON lines are a request each, in the form that `tollgate serve --record` writes:
 *
 *     {"t":1731650400123,"id":"c1","tenant":"team-a","model":"m","user":"u","priority":"normal",
 *      "input_tokens":812,"max_output_tokens":1024,"output_tokens":311,"stream":true,"cost":1836,
 *      "value":1,"status":200,"reason":"","latency_ms":4212,"ttfb_ms":310}
 *
 * where only t, in milliseconds, is needed; `arrival_us` may stand in its place. A call that was
 * refused when it was recorded has no output: it is taken for an average one. What became of a call
 * then (status, reason, latency) does not matter here, where it is decided anew.
 *
 * A line of `tollgate replay` is a request too: `key` is the tenant, `cost`, `value`, `hold` and
 * `peer` mean what they mean there, and lines of another op than admit are passed over. Without
 * input_tokens its cost stands for them.
 */
#ifndef TG_WORKLOAD_WORKLOAD_TRACE_H
#define TG_WORKLOAD_WORKLOAD_TRACE_H

#include "io/text/lines.h"
#include "lab/workload/workload_requests.h"

enum workload_read {
    WORKLOAD_READ,
    WORKLOAD_WRONG,     /* in `line`, or in the whole if that is 0 */
    WORKLOAD_NO_MEMORY, /* the same */
};

struct workload_problem {
    uint64_t line; /* from 1 */
    char text[300];
};

/* Adds to an empty workload the requests of a trace, in order of arrival. Classes are looked up in,
 * and added to, the configuration. The file is the caller's. */
enum workload_read workload_trace_read(int fd, struct cluster_config *config,
                                       struct workload *workload, struct workload_problem *problem);

/* Times in a trace from here on, in ms, count from 1970 and are moved so that the first arrival is
 * at 0. */
#define WORKLOAD_EPOCH_MS INT64_C(100000000000)

/* ---- The two forms, a line at a time; for workload_trace_read() ---- */

#define WORKLOAD_COLUMNS_MAX 64

/* Which column of a CSV is which; see workload_csv.c. */
struct workload_columns {
    int at[16];                            /* where each of the known columns is; -1: nowhere */
    int n;                                 /* how many there are in all */
    char others[WORKLOAD_COLUMNS_MAX][32]; /* names of those that are not simulated; "" if one is */
};

enum workload_read workload_csv_head(const struct line *line, struct workload_columns *columns,
                                     struct workload_problem *problem);
enum workload_read workload_csv_line(const struct line *line,
                                     const struct workload_columns *columns,
                                     struct cluster_config *config, struct workload *workload,
                                     struct workload_problem *problem);

struct json_reader;
enum workload_read workload_json_line(struct json_reader *reader, const struct line *line,
                                      struct cluster_config *config, struct workload *workload,
                                      struct workload_problem *problem);

/* Notes what is wrong, and returns WORKLOAD_WRONG. */
enum workload_read workload_wrong(struct workload_problem *problem, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
