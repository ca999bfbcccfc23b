/* law.h - how many calls may run at once, learned from those that have finished.
 *
 * A law is one file that ends in one table (struct law_ops); the registry in laws.c lists the
 * tables, and laws.h makes a law from a configuration. The gate calls the functions below under its
 * own lock: nothing here is atomic, nothing allocates after law_init() but a law_reconfigure() to a
 * longer sample window, and no call takes more than constant time (amortised, for the sample
 * windows).
 *
 * What a law is told:
 *
 *     law_started     a call was admitted
 *     law_first_byte  the first byte of its reply came: the call's only sample
 *     law_finished    a call ended well without one, or was dropped by overload: a sample. But
 *                     where first bytes are told a whole time is none, for what a stream takes to
 *                     begin and what a whole answer takes do not compare
 *     law_left        a call has left, in whatever way
 *     law_rejected    a call was refused because the limit was reached
 *     law_ceiling     the server has said how many it will take, for a while
 *     law_tick        time passed; optional, for an owner that has idle moments
 *
 * Cancelled and expired calls, and slots given back because a later stage refused, are no samples:
 * they say nothing of how loaded the server is, and as samples of no length they would
 * become a baseline that no real call can meet.
 *
 * Lowering a limit revokes nothing: it is a number that admission compares with, and calls above
 * it run to their end.
 */
#ifndef TG_CONCURRENCY_LAW_H
#define TG_CONCURRENCY_LAW_H

#include "lib/concurrency/auto_law.h"
#include "lib/concurrency/first_bytes.h"
#include "lib/concurrency/recent_min.h"
#include "lib/core/random.h"
#include "tollgate.h"

/* One call that has finished, or whose first byte has come. */
struct law_sample {
    tg_ms now;
    double sample_ms;           /* what the law is fed with; the gate's owner decides what it is */
    double sojourn_ms;          /* how long the slot was held: now less the `now` of its start */
    int64_t in_flight;          /* just before this call leaves, itself included */
    int64_t in_flight_at_start; /* when it was admitted, itself included */
    bool dropped;               /* overload: timed out, or the other side said so */
    bool still_runs;            /* its first byte has come; it stays in flight */
};

struct law;

/* What a law has learned about times that the queue in front of it is bounded by; all 0: nothing,
 * or the law has no such queue. */
struct law_times {
    double mean_ms;   /* what steers the law: whole times, or those to the first byte */
    double base_ms;   /* the same when nothing waits inside */
    bool first_bytes; /* they are times to the first byte */
};

/* A law. `at` is the law's own time: it never goes back, whatever the owner's clock does. */
struct law_ops {
    const char *name;

    /* Fresh private state and the limit, from law->config, with `limit` to start from. False: no
     * memory. */
    bool (*begin)(struct law *law, int64_t limit);

    /* Frees what begin() got. Null: nothing. */
    void (*end)(struct law *law);

    /* law->config is about to become `config`, of the same law: makes ready for it, keeping all
     * samples and the baseline, and clamps the limit. False: no memory, and nothing has changed. */
    bool (*adapt)(struct law *law, const struct tg_law_config *config);

    /* Each may be null: nothing to do. */
    void (*started)(struct law *law, tg_ms at, int64_t in_flight);
    void (*finished)(struct law *law, tg_ms at, const struct law_sample *sample);
    void (*left)(struct law *law, tg_ms at, int64_t in_flight, double sojourn_ms);
    void (*rejected)(struct law *law, tg_ms at);
    void (*ceiling)(struct law *law, tg_ms at, int64_t ceiling, tg_ms until);
    void (*tick)(struct law *law, tg_ms at);

    /* A first byte, and what one takes when nothing waits. Null: it is given to finished(), scaled
     * so that prompts of all sizes are alike. */
    void (*first_byte)(struct law *law, tg_ms at, const struct law_sample *sample, double base_ms);

    /* Null: it has none. */
    struct law_times (*times)(const struct law *law);
};

extern const struct law_ops law_auto, law_vegas, law_gradient2, law_aimd, law_fixed, law_none;

/* The sum of some samples, enough for their mean and how sure it is. */
struct law_sum {
    int64_t n;
    double total;
    double squares;
};

/* vegas.c draws how the phases follow each other. */
enum vegas_phase {
    VEGAS_STEADY,   /* windows and steps */
    VEGAS_DRAINING, /* a probe: the limit is lowered, but more calls than that still run */
    VEGAS_MEASURING /* a probe: calls that start now measure the baseline */
};

struct vegas {
    tg_ms window_from; /* this window: since when (maybe not yet), what it has seen */
    struct law_sum window;
    int64_t dropped;
    int64_t peak;    /* most calls in flight */
    double crowd;    /* sum of the calls in flight that finished ones saw */
    double sojourns; /* sum over calls that left */
    int64_t left;
    double sojourn; /* mean of the last window that had any */
    double mean;    /* mean of the samples of the last window that had any; ms */
    double queue;   /* calls that waited, by the evidence of then; negative: not known */

    struct law_sum evidence; /* the same of the windows since the last step together, */
    int64_t evidence_ended;  /* dropped ones too */
    double evidence_crowd;
    int evidence_windows;

    double baseline;       /* ms; 0: none yet */
    double error;          /* its standard error */
    bool firm;             /* measured by enough samples */
    struct law_sum gather; /* windows on their way to being enough */
    struct law_sum probed; /* what the last probes found, while they agree */
    bool confirmed;        /* the last probe found about what was known before */
    tg_ms expires_at;      /* when the baseline is to be measured again */

    enum vegas_phase phase;
    tg_ms deadline_at;  /* the probe's end in any case */
    tg_ms cohort_from;  /* calls that started after this, */
    tg_ms cohort_until; /* and not after this, measure the baseline */
    int64_t cohort_started;
    int64_t cohort_ended;
    struct law_sum cohort;
};

/* gradient2 and aimd. */
struct per_sample {
    double estimate; /* the limit with its fraction */
    struct recent_min recent;
};

struct law {
    const struct law_ops *ops;
    int64_t limit;   /* what admission obeys now */
    int64_t learned; /* what the law would have it; a probe holds `limit` below. 0: no knowledge */
    bool begun;      /* has seen an event, and so knows the time */
    tg_ms last_now;  /* by the owner's clock */
    tg_ms at;        /* by the law's own */
    struct tg_law_config config;
    struct random random;
    struct first_bytes first_bytes;
    bool hears; /* first bytes are told: they alone are samples */
    int silent; /* calls that finished without one since the last */
    union {
        struct auto_law auto_law;
        struct vegas vegas;
        struct per_sample per_sample;
    } state;
};

/* For the laws: sets what was learned, and what admission obeys. */
static inline void law_set_limit(struct law *law, int64_t limit)
{
    law->learned = limit;
    law->limit = limit;
}

void law_fini(struct law *law);

/* What admission obeys now; a probe may hold it lower than what has been learned, for a while. */
static inline int64_t law_limit(const struct law *law)
{
    return law->limit;
}

/* `in_flight`: after the call was counted. */
void law_started(struct law *law, tg_ms now, int64_t in_flight);

/* A sample that is negative or no number is as if the call had been cancelled; one below
 * SAMPLE_FLOOR_MS is set to that. */
void law_finished(struct law *law, struct law_sample *sample);

/* The first byte of a call has come; `place` is its first_bytes_place(). What is said of samples of
 * law_finished() holds for this one. */
void law_first_byte(struct law *law, const struct law_sample *sample, uint8_t place);

/* A call has left; `in_flight` without it. `sojourn_ms`: how long it has held its slot, if a first
 * byte was its sample, else negative. */
void law_left(struct law *law, tg_ms now, int64_t in_flight, double sojourn_ms);

void law_rejected(struct law *law, tg_ms now);

/* No more than `ceiling` calls until `until`; replaces what was said before. Only a law that learns
 * from what servers say obeys it: auto. */
void law_ceiling(struct law *law, tg_ms now, int64_t ceiling, tg_ms until);

void law_tick(struct law *law, tg_ms now);

struct law_times law_times(const struct law *law);

#endif
