/* log.h - lines for whoever is on call: one a request, and events. Never a prompt, never a secret.
 *
 *     worker ---> lane --.
 *     worker ---> lane --+--> the writer's thread ---> stderr, and the file of `--record`
 *     anyone ---> lane --'
 *
 * A line is made by the thread that has something to say, in memory of its own, and put into its
 * lane, a bounded ring of bytes that only the writer empties. So a worker makes no system call for
 * a line, and a stderr that nobody reads stops the writer and no call: when a lane is full its
 * lines are dropped and counted, and a line says how many as soon as there is room again.
 *
 * Everything that a client chose is escaped and cut: a line ends with its newline and nowhere else,
 * and fits into what a pipe takes in one piece.
 *
 * Threads: a lane belongs to one thread at a time. Everything that takes a `struct log` may be
 * called by any thread, log_close() by the last one.
 */
#ifndef TG_OBS_LOG_H
#define TG_OBS_LOG_H

#include "io/posix/clock.h"
#include "io/text/slice.h"
#include "server/obs/report.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct log;
struct log_lane;

struct log_options {
    int fd;                    /* where lines go; borrowed; default stderr */
    int record_fd;             /* where arrivals go, owned; -1: nowhere, the default */
    enum log_level level;      /* what is below it is left out; default info */
    bool json;                 /* otherwise name=value; default true */
    size_t lane_bytes;         /* size of each lane, a power of two; default 1 MiB */
    const struct clock *clock; /* borrowed: when events happen; required */
};

void log_options_init(struct log_options *options);

/* Starts the writer. TG_ERR_MEMORY: or there is no thread, or no descriptor. */
TG_MUST_CHECK enum tg_err log_new(const struct log_options *options, struct log **log);

/* What is in the lanes is written, for at most so long; then the log is gone, and its lanes. False:
 * some of it was not taken in time. */
bool log_close(struct log *log, tg_ms at_most);

/* For a thread that writes much. Null: no memory, or there are LOG_LANES_MAX. It ends with its log.
 */
#define LOG_LANES_MAX 1100
struct log_lane *log_lane_new(struct log *log);

/* After a reload. */
void log_configure(struct log *log, enum log_level level, bool json);

/* Whether a line of this level is written at all. */
bool log_is_on(const struct log *log, enum log_level level);

struct log_counts {
    uint64_t written;              /* lines that were handed to the system */
    uint64_t dropped;              /* lines for which a lane was full, or that the system refused */
    uint64_t recorded, unrecorded; /* the same for arrivals */
};

void log_get_counts(const struct log *log, struct log_counts *counts);

/* ---- A request ----------------------------------------------------------------------------- */

/* What is known of a refusal besides its report. */
struct log_refusal {
    double memory_used; /* memory_pressure: the fraction in use, from 0 to 1 */
    int64_t peer_calls; /* peer_limit: calls that the peer had; negative: not known */
    int64_t peer_limit; /* peer_limit: calls that it may have */
};

/* The line of a request that has ended, and if it was refused for memory or for its peer, the event
 * of that; `refusal` may be null. When many are refused, some lines stand for others: the first ten
 * a second for one reason and one thread are written, then every hundredth, and `sampled` says for
 * how many it stands. Metrics count them all. */
void log_request(struct log_lane *lane, const struct report *report,
                 const struct log_refusal *refusal);

/* The line of an arrival, for replay and simulation, if these are recorded: see record.h. */
void log_record(struct log_lane *lane, const struct report *report);

/* The same of operations that belong to no request: a line {"ops":[...]}. By any thread. */
void log_record_ops(struct log *log, struct slice ops);

/* ---- Events -------------------------------------------------------------------------------- */

/* What an event says besides its words: a text, or a number. */
struct log_field {
    const char *name;
    bool is_number;
    int64_t number;
    struct slice text;
};

#define LOG_TEXT(name, text) ((struct log_field){(name), false, 0, slice_of(text)})
#define LOG_NUMBER(name, number) ((struct log_field){(name), true, (number), {NULL, 0}})

/* What the process as a whole does, whatever the level, at once and without a log: on stderr, in
 * the form of its lines, or as "tollgate: TEXT". */
void log_say(bool json, const struct clock *clock, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "msg" and its fields. */
void log_event(struct log *log, enum log_level level, const char *msg,
               const struct log_field *fields, size_t n);

/* Something was changed, or somebody tried: "audit", with who did it ("api", "signal", an address),
 * what ("put_tenant"), to what ("team-a"), and what came of it ("done", "refused: ..."). It is
 * written whatever the level. */
void log_audit(struct log *log, const char *who, const char *action, const char *object,
               const char *outcome);

/* A law has moved a limit: "vegas concurrency adjustment", for debugging. */
struct log_adjustment {
    const char *gate; /* "protect", or "provider/model" */
    int64_t old_limit, new_limit;
    double queue_estimate, avg_latency_ms, min_latency_ms;
};

void log_vegas_adjustment(struct log *log, const struct log_adjustment *adjustment);

#endif
