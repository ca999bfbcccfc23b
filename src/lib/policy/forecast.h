/* forecast.h - what may still come: stretches of the past that began as now.
 *
 * Time is cut into blocks, sixteen a window, and for each block the value that came is kept, by
 * kind of call. To look ahead by so many blocks is to ask what came in as many blocks after some
 * moment of the past: one scenario. Which moments is decided by likeness: how scarce things were
 * just then and for some time before, against just now. Several scenarios are drawn, so that what
 * is not known about the future stays visible: a price must pay for the chance that dear calls
 * come, not only for their mean number.
 *
 * So bursts that last, daily or hourly waves and calls without any order are all forecast by one
 * rule, and none has to be named or tuned for.
 *
 * One thread at a time.
 */
#ifndef TG_POLICY_FORECAST_H
#define TG_POLICY_FORECAST_H

#include "lib/policy/mix.h"
#include "tollgate.h"

enum {
    FORECAST_PER_WINDOW = 16,
    FORECAST_BLOCKS = 512,  /* blocks that are remembered: 32 windows */
    FORECAST_SCENARIOS = 16 /* drawn from the past; one more is the present, going on */
};

/* Value that comes, by cell, and how long it took: decays with time. */
struct forecast_recent {
    double half_life; /* ms */
    double span;      /* ms, decayed as the rest */
    double value[MIX_CELLS];
};

struct forecast {
    struct mix mix;
    double block;              /* ms */
    tg_ms at;                  /* everything up to here is counted */
    int64_t current;           /* number of the block that runs */
    bool whole;                /* it was seen from its beginning */
    double fresh[MIX_CELLS];   /* value that came since `at` was set */
    double running[MIX_CELLS]; /* value of the block that runs */
    struct forecast_recent just_now, lately;
    int64_t ended;                         /* blocks in the past, ever */
    float sum[FORECAST_BLOCKS][MIX_CELLS]; /* value up to the end of each block, in a ring */
    float mood[FORECAST_BLOCKS][2];        /* how scarce things were at the end of each */
    struct forecast_recent prior;          /* what was expected before anything was seen */
    double prior_calls;                    /* how many calls' worth it counts; 0: there is none */
    double seen;                           /* calls */
    uint8_t order[MIX_CELLS];              /* cells by worth, dearest first */
    size_t ordered;                        /* cells in it */
};

/* `axes` as in mix.h; `use` there is in parts of a window's budget. */
void forecast_init(struct forecast *forecast, unsigned axes, tg_ms window);

/* What is expected: value a ms, of calls like this. To be called before anything is counted. */
void forecast_expect(struct forecast *forecast, double value, const double use[MIX_AXES],
                     double calls_a_ms);

/* A call has come. Cheap; it tells in what follows only after the next forecast_update(). */
void forecast_count(struct forecast *forecast, double value, const double use[MIX_AXES]);

/* A call that was counted was none: takes it back as far as it is not yet part of the past. */
void forecast_discount(struct forecast *forecast, double value, const double use[MIX_AXES]);

/* Brings everything up to `now`, which never goes back. */
void forecast_update(struct forecast *forecast, tg_ms now);

/* Whether bytes that were kept somewhere can be what one like `fresh`, which has just been made,
 * has learned until `now`. */
bool forecast_is_sane(const struct forecast *forecast, const struct forecast *fresh, tg_ms now);

struct forecast_scenario {
    double weight; /* all together: 1 */
    double value[MIX_CELLS];
};

/* What may come within the next `span` ms, in up to FORECAST_SCENARIOS + 2 scenarios; says how
 * many. After forecast_update(). */
size_t forecast_draw(struct forecast *forecast, double span, struct forecast_scenario *scenarios);

#endif
