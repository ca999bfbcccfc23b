/* auto_internal.h - the parts of the law `auto`, as its own files see them. */
#ifndef TG_CONCURRENCY_AUTO_INTERNAL_H
#define TG_CONCURRENCY_AUTO_INTERNAL_H

#include "lib/concurrency/law.h"

/* ---- auto_meter.c: what is measured ---------------------------------------------------------- */

/* How long throughput remembers: the mean of the time that a call found in service has left, twice.
 * Between R and 20 R. */
double auto_memory_ms(const struct auto_law *law);

/* A call has ended well. `others`: calls in flight when it was admitted, without itself. */
void auto_meter_sample(struct auto_law *law, double latency_ms, int64_t others);

/* Once a second: the latency of an unloaded server, and the throughput of quiet times. True: it was
 * such a time. */
bool auto_meter_second(struct auto_law *law);

/* Measures from `settle_ms` from now on. */
void auto_measure_start(struct auto_law *law, double settle_ms);

/* Time has passed. */
void auto_measure_advance(struct auto_law *law);

struct auto_reading {
    double ms;     /* since the measurement began; 0: it has not */
    int64_t ended; /* calls */
    double rate;
    double error;  /* standard error of the rate, a part of it; 1 or more: not known */
    double pinned; /* part of the time */
    bool refusing;
    bool is_full; /* has bins enough to judge by their error */
    bool is_late; /* will not become better */
};

struct auto_reading auto_measure_read(const struct auto_law *law);

/* ---- auto_stream.c: control by first bytes --------------------------------------------------- */

/* A first byte came after `ms`; it takes `base` when nothing waits. Returns the limit there should
 * be. */
double auto_stream_first_byte(struct auto_law *law, double ms, double base, double limit);

#endif
