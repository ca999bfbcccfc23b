/* log_writer.c - the thread that hands lines to the system. See log.h.
 *
 * It asks before it writes whether the other side takes anything (poll), and writes no more at once
 * than a pipe with room takes whole (PIPE_BUF): so it does not stand in write() while nobody reads,
 * can serve the other sink meanwhile, and ends when it is told to. The descriptor itself stays as
 * it was: to make stderr non-blocking would do so for every process that shares it. A file takes as
 * much as there is.
 *
 * Lines of one lane come out in their order, those of different lanes as they are found.
 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "server/obs/log_internal.h"

enum {
    NAP_MS = 50,      /* how long it sleeps when there was nothing to do, */
    NAP_BUSY_MS = 10, /* and when there was */
    FILE_BYTES = 128 << 10,
    ROUND_BYTES = 1 << 20 /* bytes taken from one lane before the others' turn */
};

_Static_assert(LOG_LINE_MAX <= PIPE_BUF, "a line is written in one piece");

/* ---- Sinks --------------------------------------------------------------------------------- */

void log_sink_init(struct log_sink *sink, int fd, bool owned)
{
    struct stat status;

    memset(sink, 0, sizeof *sink);
    sink->fd = fd;
    sink->owned = owned;
    sink->plain_file = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

void log_sink_fini(struct log_sink *sink)
{
    if (sink->owned && sink->fd >= 0)
        close(sink->fd);
}

static bool takes_bytes(struct log_sink *sink)
{
    struct pollfd at = {.fd = sink->fd, .events = POLLOUT};

    sink->blocked = !sink->plain_file && poll(&at, 1, 0) == 0;
    return !sink->blocked;
}

static uint64_t count_lines(struct slice text)
{
    uint64_t n = 0;

    for (const char *at = text.at, *end = text.at + text.n;
         at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++)
        n++;
    return n;
}

/* Writes all of it, and returns how many bytes were written: fewer after an error. A sink that
 * takes part of a line gets the other part in any case: what comes after would not be read as a
 * line otherwise. */
static size_t log_writer_write_all(struct log_sink *sink, const struct slice part[2])
{
    struct iovec left[2] = {{(void *)(uintptr_t)part[0].at, part[0].n},
                            {(void *)(uintptr_t)part[1].at, part[1].n}};
    size_t sum = 0;

    while (left[0].iov_len + left[1].iov_len > 0) {
        ssize_t n = writev(sink->fd, left, 2);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd at = {.fd = sink->fd, .events = POLLOUT};
            poll(&at, 1, NAP_MS);
        } else if (n < 0 && errno != EINTR) {
            break;
        }
        sum += n > 0 ? (size_t)n : 0;
        for (int i = 0; i < 2 && n > 0; i++) {
            size_t used = (size_t)n < left[i].iov_len ? (size_t)n : left[i].iov_len;
            left[i].iov_base = (char *)left[i].iov_base + used;
            left[i].iov_len -= used;
            n -= (ssize_t)used;
        }
    }
    return sum;
}

/* The first `n` bytes of two parts. */
static void first_bytes(const struct slice part[2], size_t n, struct slice first[2])
{
    size_t of_first = n < part[0].n ? n : part[0].n;

    first[0] = (struct slice){part[0].at, of_first};
    first[1] = (struct slice){part[1].at, n - of_first};
}

/* A disk that is full may take part of a line. When there is room again, what comes next begins a
 * line of its own: so that one line is lost, and not two. */
static void sink_write(struct log_sink *sink, const struct slice part[2])
{
    uint64_t lines = count_lines(part[0]) + count_lines(part[1]);
    const struct slice newline[2] = {SLICE("\n"), {NULL, 0}};
    struct slice taken[2];
    size_t n = 0;

    if (!sink->torn || log_writer_write_all(sink, newline) == 1) {
        sink->torn = false;
        n = log_writer_write_all(sink, part);
    }
    first_bytes(part, n, taken);
    const struct slice *last = taken[1].n > 0 ? &taken[1] : &taken[0];
    if (n > 0)
        sink->torn = last->at[last->n - 1] != '\n';
    uint64_t written = count_lines(taken[0]) + count_lines(taken[1]);
    sink->failed = n < part[0].n + part[1].n;
    atomic_fetch_add_explicit(&sink->written, written, memory_order_relaxed);
    atomic_fetch_add_explicit(&sink->lost, lines - written, memory_order_relaxed);
}

/* Writes lines of a ring for as long as the sink takes them. Returns whether there were any. */
static bool serve_ring(struct log_sink *sink, struct log_ring *ring)
{
    size_t most = sink->plain_file ? FILE_BYTES : PIPE_BUF, n, sum = 0;
    struct slice part[2];

    while (sum < ROUND_BYTES && (n = log_ring_peek(ring, most, part)) > 0) {
        if (!takes_bytes(sink))
            break;
        sink_write(sink, part);
        assert(n == part[0].n + part[1].n);
        log_ring_take(ring, n);
        sum += n;
    }
    return sum > 0;
}

static bool serve_lanes(struct log *log)
{
    size_t n = atomic_load_explicit(&log->n_lanes, memory_order_acquire);
    bool any = false;

    log->sink.blocked = log->record.blocked = false;
    for (size_t i = 0; i < n; i++) {
        struct log_lane *lane = atomic_load_explicit(&log->lanes[i], memory_order_relaxed);
        if (!log->sink.blocked)
            any |= serve_ring(&log->sink, &lane->lines);
        if (log->record.fd >= 0 && !log->record.blocked)
            any |= serve_ring(&log->record, &lane->arrivals);
    }
    return any;
}

/* ---- What was dropped ---------------------------------------------------------------------- */

static void write_count(struct log *log, const char *what, uint64_t n)
{
    struct log_line line;
    struct slice part[2] = {{line.room, 0}, {line.room, 0}};

    log_line_begin(&line, atomic_load_explicit(&log->json, memory_order_relaxed),
                   clock_wall_ms(log->clock), SLICE("warn"), slice_of(what));
    log_line_number(&line, FIELD("lines"), (int64_t)n);
    log_line_end(&line);
    part[0].n = line.out.size;
    sink_write(&log->sink, part);
}

/* Once there is room again. */
static void report_drops(struct log *log)
{
    struct log_counts counts;

    log_get_counts(log, &counts);
    if (log->sink.blocked || !log_is_on(log, LOG_WARN))
        return;
    if (counts.dropped > log->sink.reported && !log->sink.failed && takes_bytes(&log->sink)) {
        write_count(log, "log lines dropped", counts.dropped - log->sink.reported);
        log->sink.reported = counts.dropped;
    }
    if (counts.unrecorded > log->record.reported && !log->sink.failed && takes_bytes(&log->sink)) {
        write_count(log, "arrivals not recorded", counts.unrecorded - log->record.reported);
        log->record.reported = counts.unrecorded;
    }
}

/* ---- The thread ---------------------------------------------------------------------------- */

/* Until there is something to do, or may be. */
static void nap(struct log *log, bool busy, bool closing)
{
    struct pollfd at[3] = {{.fd = log->wake[0], .events = POLLIN},
                           {.fd = log->sink.blocked ? log->sink.fd : -1, .events = POLLOUT},
                           {.fd = log->record.blocked ? log->record.fd : -1, .events = POLLOUT}};
    char bytes[64];

    if (poll(at, 3, busy || closing ? NAP_BUSY_MS : NAP_MS) > 0 && at[0].revents & POLLIN)
        while (read(log->wake[0], bytes, sizeof bytes) > 0)
            ;
}

static bool is_empty(struct log *log)
{
    struct slice part[2];
    bool empty = true;

    for (size_t i = 0; i < atomic_load_explicit(&log->n_lanes, memory_order_acquire); i++) {
        const struct log_lane *lane = atomic_load_explicit(&log->lanes[i], memory_order_relaxed);
        empty = empty && log_ring_peek(&lane->lines, 1, part) == 0;
        if (log->record.fd >= 0)
            empty = empty && log_ring_peek(&lane->arrivals, 1, part) == 0;
    }
    return empty;
}

/* What will not be written any more is counted like all that is dropped. */
static void count_unwritten(struct log *log)
{
    struct slice part[2];

    for (size_t i = 0; i < atomic_load_explicit(&log->n_lanes, memory_order_acquire); i++) {
        const struct log_lane *lane = atomic_load_explicit(&log->lanes[i], memory_order_relaxed);
        if (log_ring_peek(&lane->lines, SIZE_MAX, part) > 0)
            atomic_fetch_add(&log->sink.lost, count_lines(part[0]) + count_lines(part[1]));
        if (log->record.fd >= 0 && log_ring_peek(&lane->arrivals, SIZE_MAX, part) > 0)
            atomic_fetch_add(&log->record.lost, count_lines(part[0]) + count_lines(part[1]));
    }
}

void *log_writer_run(void *arg)
{
    struct log *log = arg;

    for (;;) {
        bool closing = atomic_load(&log->closing);
        bool busy = serve_lanes(log);
        /* Only once something was taken: a lane that stays full must not wake it for every line. */
        if (busy)
            atomic_store_explicit(&log->woken, false, memory_order_relaxed);
        report_drops(log);
        if (closing && (is_empty(log) || clock_monotonic_ns() >= atomic_load(&log->close_at)))
            break;
        nap(log, busy, closing);
    }
    count_unwritten(log);
    pthread_mutex_lock(&log->end_lock);
    log->ended = true;
    pthread_cond_signal(&log->end_seen);
    pthread_mutex_unlock(&log->end_lock);
    return NULL;
}
