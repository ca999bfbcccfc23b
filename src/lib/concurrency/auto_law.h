/* auto_law.h - what the law `auto` keeps. auto.c says what it does with it.
 *
 * Times are in ms of the law's own clock, rates in calls a ms.
 */
#ifndef TG_CONCURRENCY_AUTO_LAW_H
#define TG_CONCURRENCY_AUTO_LAW_H

#include "tollgate.h"

enum {
    AUTO_LEVELS = 40,       /* levels of load, two for each doubling of the calls in flight */
    AUTO_STREAM_WINDOW = 24 /* first bytes whose median is taken */
};

/* What has happened since the law began. Two copies of it tell what has happened in between. */
struct auto_counts {
    double pinned_ms;  /* time in which as many calls ran as the limit allows */
    double latency_ms; /* sum over the calls that ended */
    int64_t ended;     /* calls that ended well */
    int64_t refused;
};

/* The latency of calls that found about so many others in flight. */
struct auto_level {
    double mean_ms;
    int64_t n;
    double used_at;
};

/* A measurement of throughput: calls that end, in bins of time. */
struct auto_measure {
    double from_at; /* when the settling time is over; the first event after it begins */
    bool has_begun;
    struct auto_counts begin;
    double bin_ms;
    double bin_until;
    int64_t bin_began; /* calls that had ended when the bin began */
    int64_t bins;      /* whole ones */
    double squares;    /* sum of squared counts of the bins */
};

enum auto_mode { AUTO_HOLD, AUTO_CHECK, AUTO_UP, AUTO_DOWN };

/* Control by first bytes: auto_stream.c. */
struct auto_stream {
    bool is_open;            /* first bytes have come, and total times steer nothing */
    double mean_ms, base_ms; /* moving means, of the time to first byte and of the base it is
                                compared with */
    double from_at;          /* this window: since when, and what it has seen */
    double pinned_from_ms;
    int n;
    double over_ms[AUTO_STREAM_WINDOW]; /* time to first byte beyond the base */
    double allowed_ms;                  /* wait for a first byte that makes no cut */
    double cut_at;                      /* calls admitted before this do not count */
    bool is_confined;                   /* a queue has been seen: it grows with care */
};

struct auto_law {
    double at;
    int64_t in_flight;
    struct auto_counts counts;

    double mean_ms;    /* R: mean latency */
    double square_ms;  /* mean of its square */
    int64_t sampled;   /* calls in these means */
    double base_ms;    /* R0: latency of a server that is not loaded; 0: not known yet */
    double quiet_rate; /* y: throughput while the limit does not bind and latency is low */
    struct auto_level levels[AUTO_LEVELS];

    double second_at; /* the second of the slow means, and the round trip of `bound` */
    struct auto_counts second;
    double round_at;
    double round_pinned_ms;
    double bound_at; /* when the limit was last seen to bind */

    enum auto_mode mode;
    double limit;      /* the one in force, with its fraction */
    double held;       /* the one to go back to */
    double good;       /* the last one that was tested and lost nothing */
    double rate;       /* X0: throughput before the test */
    double test_at;    /* since when it is tested */
    int chain;         /* raises in a row that have paid */
    bool was_refusing; /* before the test */
    bool is_known;     /* whether the knee has been measured: */
    double knee;       /* W: calls that the server works on when it is full */
    double knee_rate;  /* Xk: its throughput then */
    double hold_rate;  /* x_h: what throughput in HOLD is compared with; 0: none yet */
    double confirmed_at;
    double up_at, down_at; /* when the last tests ended, and how long the next ones have to wait */
    double up_wait_ms, down_wait_ms;
    struct auto_measure measure;

    double ceiling; /* after dropped calls; `max`: none */
    double ceiling_at;
    double said; /* ceiling that the server has stated; `max`: none */
    double said_until;

    struct auto_stream stream;
};

#endif
