/* log_internal.h - the struct of a log and its lanes: for log*.c alone. */
#ifndef TG_OBS_LOG_INTERNAL_H
#define TG_OBS_LOG_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/obs/log.h"
#include "server/obs/log_line.h"
#include "server/obs/log_ring.h"
#include "server/obs/log_sample.h"

/* One maker of lines. */
struct log_lane {
    struct log_ring lines;
    struct log_ring arrivals; /* no bytes: nothing is recorded */
    struct log *log;
    struct log_sampler sampler;
    struct log_line line; /* the one that is being made */
    struct text_out wide; /* one of a recording, which may be longer */
};

/* Where lines end up. Everything in it but the counts is the writer's. */
struct log_sink {
    int fd; /* -1: none */
    bool owned;
    bool plain_file; /* a write to it takes any number of bytes, and nobody else's stand between */
    bool blocked;    /* it took nothing when last asked */
    bool failed;     /* the last write did */
    bool torn;       /* its last line has no end */
    uint64_t reported;           /* drops that a line has reported */
    atomic_ullong written, lost; /* lines */
};

struct log {
    atomic_int level;
    atomic_bool json;
    const struct clock *clock;
    size_t lane_bytes;

    struct log_sink sink, record;
    struct log_lane *_Atomic lanes[LOG_LANES_MAX];
    atomic_size_t n_lanes;
    pthread_mutex_t events_lock; /* held to make an event's line, and to add a lane */
    struct log_lane *events;     /* the lane that all threads share for events */

    pthread_t writer;
    int wake[2];         /* a pipe: a byte ends the writer's nap */
    atomic_bool woken;   /* a byte is on its way */
    atomic_bool closing; /* the writer ends when the lanes are empty, or at: */
    atomic_llong close_at;
    pthread_mutex_t end_lock;
    pthread_cond_t end_seen;
    bool ended;
};

/* ---- log.c */

/* A lane has a line more: the writer is woken when there is much. */
void log_lane_put(struct log_lane *lane, struct log_ring *ring, const struct log_line *line);

/* The same of a line that may be longer than that. One that there was no memory for is dropped, and
 * counted. */
void log_lane_put_text(struct log_lane *lane, struct log_ring *ring, const struct text_out *line);

/* ---- log_writer.c */

void *log_writer_run(void *log);

void log_sink_init(struct log_sink *sink, int fd, bool owned);
void log_sink_fini(struct log_sink *sink);

#endif
