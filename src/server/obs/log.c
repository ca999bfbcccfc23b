/* log.c - a log: its lanes, events, its beginning and its end. See log.h.
 *
 * The writer naps when there is nothing to do, and is woken before its time only by a lane that is
 * half full: so a request costs no system call, and a line is on its way some tens of milliseconds
 * after it was made, at the latest. Rejected: waking the writer for each line costs a worker more
 * than making it.
 *
 * Events come from any thread and seldom. They share one lane, under a mutex that is held for as
 * long as a line is made and never while one is written.
 */
#include "server/obs/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/obs/log_internal.h"
#include "server/obs/record.h"

enum { CLOSE_GRACE_MS = 1000 }; /* for a writer that is within a write() of the system's */

static const char *const LEVELS[] = {"debug", "info", "warn", "error"};

void log_options_init(struct log_options *options)
{
    *options = (struct log_options){.fd = STDERR_FILENO,
                                    .record_fd = -1,
                                    .level = LOG_INFO,
                                    .json = true,
                                    .lane_bytes = (size_t)1 << 20};
}

/* ---- Lanes --------------------------------------------------------------------------------- */

static void lane_free(struct log_lane *lane)
{
    if (lane == NULL)
        return;
    log_ring_fini(&lane->lines);
    log_ring_fini(&lane->arrivals);
    text_out_fini(&lane->wide);
    free(lane);
}

static struct log_lane *lane_make(struct log *log)
{
    struct log_lane *lane = aligned_alloc(_Alignof(struct log_lane), sizeof *lane);

    if (lane == NULL)
        return NULL;
    memset(lane, 0, sizeof *lane);
    lane->log = log;
    if (log_ring_init(&lane->lines, log->lane_bytes) &&
        (log->record.fd < 0 || log_ring_init(&lane->arrivals, log->lane_bytes)))
        return lane;
    lane_free(lane);
    return NULL;
}

struct log_lane *log_lane_new(struct log *log)
{
    struct log_lane *lane = NULL;

    pthread_mutex_lock(&log->events_lock);
    size_t n = atomic_load_explicit(&log->n_lanes, memory_order_relaxed);
    if (n < LOG_LANES_MAX)
        lane = lane_make(log);
    if (lane != NULL) {
        atomic_store_explicit(&log->lanes[n], lane, memory_order_relaxed);
        atomic_store_explicit(&log->n_lanes, n + 1, memory_order_release);
    }
    pthread_mutex_unlock(&log->events_lock);
    return lane;
}

static void wake_writer(struct log *log)
{
    ssize_t written = write(log->wake[1], "", 1);

    (void)written; /* a pipe that is full wakes it as well */
}

void log_lane_put(struct log_lane *lane, struct log_ring *ring, const struct log_line *line)
{
    log_lane_put_text(lane, ring, &line->out);
}

void log_lane_put_text(struct log_lane *lane, struct log_ring *ring, const struct text_out *line)
{
    struct log *log = lane->log;

    assert(ring == &lane->lines || ring == &lane->arrivals);
    assert(line->failed || (line->size > 0 && line->bytes[line->size - 1] == '\n'));
    if (line->failed)
        log_ring_drop(ring);
    else
        log_ring_put(ring, line->bytes, line->size);
    if (!log_ring_is_half_full(ring))
        return;
    if (!atomic_load_explicit(&log->woken, memory_order_relaxed) &&
        !atomic_exchange_explicit(&log->woken, true, memory_order_relaxed))
        wake_writer(log);
}

/* ---- Beginning ----------------------------------------------------------------------------- */

static bool make_pipe(int ends[2])
{
    if (pipe(ends) != 0)
        return false;
    for (int i = 0; i < 2; i++) {
        fcntl(ends[i], F_SETFD, FD_CLOEXEC);
        fcntl(ends[i], F_SETFL, O_NONBLOCK);
    }
    return true;
}

static void end_init(struct log *log)
{
    pthread_condattr_t attributes;

    pthread_mutex_init(&log->events_lock, NULL);
    pthread_mutex_init(&log->end_lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&log->end_seen, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void log_free(struct log *log)
{
    for (size_t i = 0; i < atomic_load(&log->n_lanes); i++)
        lane_free(atomic_load(&log->lanes[i]));
    for (int i = 0; i < 2; i++)
        if (log->wake[i] >= 0)
            close(log->wake[i]);
    log_sink_fini(&log->sink);
    log_sink_fini(&log->record);
    pthread_mutex_destroy(&log->events_lock);
    pthread_mutex_destroy(&log->end_lock);
    pthread_cond_destroy(&log->end_seen);
    free(log);
}

enum tg_err log_new(const struct log_options *options, struct log **made)
{
    struct log *log = calloc(1, sizeof *log);

    if (log == NULL)
        return TG_ERR_MEMORY;
    log->clock = options->clock;
    log->lane_bytes = options->lane_bytes;
    log->wake[0] = log->wake[1] = -1;
    log_configure(log, options->level, options->json);
    log_sink_init(&log->sink, options->fd, false);
    log_sink_init(&log->record, options->record_fd, true);
    end_init(log);
    log->events = log_lane_new(log);
    if (log->events != NULL && make_pipe(log->wake) &&
        pthread_create(&log->writer, NULL, log_writer_run, log) == 0) {
        *made = log;
        return TG_OK;
    }
    log->record.owned = false; /* on an error it is still the caller's */
    log_free(log);
    return TG_ERR_MEMORY;
}

void log_configure(struct log *log, enum log_level level, bool json)
{
    atomic_store_explicit(&log->level, (int)level, memory_order_relaxed);
    atomic_store_explicit(&log->json, json, memory_order_relaxed);
}

bool log_is_on(const struct log *log, enum log_level level)
{
    return (int)level >= atomic_load_explicit(&log->level, memory_order_relaxed);
}

void log_get_counts(const struct log *log, struct log_counts *counts)
{
    size_t n = atomic_load_explicit(&log->n_lanes, memory_order_acquire);

    counts->written = atomic_load_explicit(&log->sink.written, memory_order_relaxed);
    counts->dropped = atomic_load_explicit(&log->sink.lost, memory_order_relaxed);
    counts->recorded = atomic_load_explicit(&log->record.written, memory_order_relaxed);
    counts->unrecorded = atomic_load_explicit(&log->record.lost, memory_order_relaxed);
    for (size_t i = 0; i < n; i++) {
        const struct log_lane *lane = atomic_load_explicit(&log->lanes[i], memory_order_relaxed);
        counts->dropped += log_ring_dropped(&lane->lines);
        counts->unrecorded += log_ring_dropped(&lane->arrivals);
    }
}

/* ---- The end ------------------------------------------------------------------------------- */

/* Logs the refusals that no line stands for yet. */
static void log_left_out(struct log *log)
{
    const char *reason;
    uint64_t n;

    for (size_t i = 0; i < atomic_load(&log->n_lanes); i++) {
        struct log_lane *lane = atomic_load(&log->lanes[i]);
        for (size_t at = 0; log_sampler_left(&lane->sampler, &at, &reason, &n);) {
            const struct log_field fields[] = {LOG_TEXT("reason", reason),
                                               LOG_NUMBER("sampled", (int64_t)n)};
            log_event(log, LOG_INFO, "requests rejected", fields, 2);
        }
    }
}

static bool wait_for_writer(struct log *log, tg_ms at_most)
{
    struct timespec until;
    bool ended;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(at_most / 1000);
    until.tv_nsec += (long)(at_most % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&log->end_lock);
    while (!log->ended &&
           pthread_cond_timedwait(&log->end_seen, &log->end_lock, &until) != ETIMEDOUT)
        ;
    ended = log->ended;
    pthread_mutex_unlock(&log->end_lock);
    return ended;
}

bool log_close(struct log *log, tg_ms at_most)
{
    struct log_counts before, after;

    if (log == NULL)
        return true;
    log_left_out(log);
    log_get_counts(log, &before);
    atomic_store(&log->close_at, clock_monotonic_ns() + at_most * 1000000);
    atomic_store(&log->closing, true);
    wake_writer(log);
    if (!wait_for_writer(log, at_most + CLOSE_GRACE_MS)) {
        /* It stands in a write() that does not come back: what it uses has to stay. */
        pthread_detach(log->writer);
        return false;
    }
    pthread_join(log->writer, NULL);
    log_get_counts(log, &after);
    log_free(log);
    return after.dropped == before.dropped && after.unrecorded == before.unrecorded;
}

/* ---- Events -------------------------------------------------------------------------------- */

static void put_event(struct log *log, enum log_level level, const char *msg,
                      const struct log_field *fields, size_t n)
{
    struct log_line *line = &log->events->line;

    assert((size_t)level < sizeof LEVELS / sizeof LEVELS[0]);
    pthread_mutex_lock(&log->events_lock);
    log_line_begin(line, atomic_load_explicit(&log->json, memory_order_relaxed),
                   clock_wall_ms(log->clock), slice_of(LEVELS[level]), slice_of(msg));
    for (size_t i = 0; i < n; i++)
        if (fields[i].is_number)
            log_line_integer(line, slice_of(fields[i].name), fields[i].number);
        else
            log_line_text(line, slice_of(fields[i].name), fields[i].text);
    log_line_end(line);
    log_lane_put(log->events, &log->events->lines, line);
    pthread_mutex_unlock(&log->events_lock);
}

void log_say(bool json, const struct clock *clock, const char *format, ...)
{
    struct log_line line;
    char text[1200];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!json) {
        fprintf(stderr, "tollgate: %s\n", text);
        return;
    }
    log_line_begin(&line, true, clock_wall_ms(clock), SLICE("info"), slice_of(text));
    log_line_end(&line);
    (void)fwrite(line.out.bytes, 1, line.out.size, stderr);
}

void log_event(struct log *log, enum log_level level, const char *msg,
               const struct log_field *fields, size_t n)
{
    if (log_is_on(log, level))
        put_event(log, level, msg, fields, n);
}

void log_audit(struct log *log, const char *who, const char *action, const char *object,
               const char *outcome)
{
    const struct log_field fields[] = {LOG_TEXT("who", who), LOG_TEXT("action", action),
                                       LOG_TEXT("object", object), LOG_TEXT("outcome", outcome)};

    put_event(log, LOG_INFO, "audit", fields, 4);
}

void log_vegas_adjustment(struct log *log, const struct log_adjustment *adjustment)
{
    char queue[32];

    if (!log_is_on(log, LOG_DEBUG))
        return;
    snprintf(queue, sizeof queue, "%.1f", adjustment->queue_estimate);
    const struct log_field fields[] = {
        LOG_NUMBER("old_limit", adjustment->old_limit),
        LOG_NUMBER("new_limit", adjustment->new_limit),
        LOG_TEXT("queue_estimate", queue),
        LOG_NUMBER("avg_latency_ms", (int64_t)adjustment->avg_latency_ms),
        LOG_NUMBER("min_latency_ms", (int64_t)adjustment->min_latency_ms),
        LOG_TEXT("gate", adjustment->gate),
    };
    put_event(log, LOG_DEBUG, "vegas concurrency adjustment", fields, 6);
}
