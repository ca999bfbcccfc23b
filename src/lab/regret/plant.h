/* plant.h - a small server in virtual time, on which laws and gates are tried.
 *
 *     arrivals --> admission --> one FIFO --> workers --> delay --> finished
 *                      |                                (holds a place in flight,
 *                   refused                              but no worker)
 *
 * W workers and one queue without bound. A call's service is lognormal and drawn when it is
 * admitted; after it the call may stay in flight for an exponential delay: a slow dependency, or
 * the rest of a long answer, whose first byte was the end of the service. Arrivals are Poisson:
 * the gap after one is drawn with the rate of that moment, and the first comes at 0.
 *
 * A refusal costs: its part of a service is put into a pot, and the next call to start takes the
 * whole pot on top of its own service. Nobody cancels: late work runs to its end and is
 * merely not good.
 *
 * Parameters are asked for at every event, so they may change as the run goes on. When workers get
 * fewer, running calls finish and nothing starts in their place.
 *
 * The same seed gives the same run to the bit. Time inside is a double in ms; admission is told
 * whole ms, as a gate is.
 */
#ifndef TG_REGRET_PLANT_H
#define TG_REGRET_PLANT_H

#include "tollgate.h"

/* The server and its load at one moment. */
struct plant_load {
    int64_t workers;
    double arrivals_per_ms; /* 0: none for now */
    double service_ms;      /* mean */
    double service_cv;      /* deviation / mean; 0: always the mean */
    double delay_ms;        /* mean of the delay after service; 0: none */
    double reject_cost;     /* part of a mean service that a refusal costs */
    double deadline_ms;     /* from admission; a call that took no longer was good */
    double denied;          /* part of the admitted calls that a later stage refuses: they hold */
    double denied_ms;       /* their place for so long, need no worker, and are given back */
};

/* A call that leaves. */
struct plant_end {
    tg_ms now;
    double first_byte_ms;       /* from admission to the end of the service */
    double total_ms;            /* from admission to now */
    tg_ms sojourn_ms;           /* the same in whole ms, as the clock of admission shows it */
    int64_t in_flight;          /* just before it leaves, itself included */
    int64_t in_flight_at_start; /* when it was admitted, itself included */
    bool good;
};

/* What is tried on the plant, and its surroundings. All get `context`. */
struct plant_subject {
    void *context;

    /* The load at `now_ms`. */
    void (*load)(void *context, double now_ms, struct plant_load *load);

    /* May a call start? `in_flight` are there now. A yes is an admission. */
    bool (*may_start)(void *context, tg_ms now, int64_t in_flight);

    /* A call has ended; it is counted in `in_flight` for the last time. */
    void (*finished)(void *context, const struct plant_end *end);

    /* A place is given back without the call having run. Null: nobody wants to know. */
    void (*given_back)(void *context, tg_ms now, int64_t in_flight);

    /* Called at 0, tick_ms, 2 tick_ms and so on, before what happens then. Null: never. */
    void (*tick)(void *context, tg_ms now, int64_t in_flight);
    tg_ms tick_ms;
};

struct plant_result {
    int64_t offered;
    int64_t refused;
    int64_t given_back;
    int64_t finished;
    int64_t good;
};

/* Runs from 0 to `until_ms`; what is in flight then is left there. TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err plant_run(const struct plant_subject *subject, uint64_t seed,
                                    double until_ms, struct plant_result *result);

#endif
