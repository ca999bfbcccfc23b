/* world_kit.h - worlds of a few types of call with scarce budgets, and what a policy earns there.
 *
 * A world is drawn once as a stream of calls; every contestant gets the same one. Whoever is asked,
 * the budgets are kept by the harness: a call that the policy lets pass and that does not fit is
 * refused all the same, as limiters behind a policy would. Slots are real: a call that is admitted
 * holds one until it ends.
 */
#ifndef WORLD_KIT_H
#define WORLD_KIT_H

#include "check.h"
#include "draw.h"

enum { WORLD_TYPES_MAX = 8, WORLD_MOODS = 2 };

struct world {
    size_t n_types;
    struct tg_type types[WORLD_TYPES_MAX];      /* weights are not used; no hold: 0 or less */
    double share[WORLD_MOODS][WORLD_TYPES_MAX]; /* part of the calls in a mood; any sum */
    double calls_a_window[WORLD_MOODS];         /* mean */
    double mood_windows;                        /* a mood lasts so long in the mean; 0: one mood */
    tg_ms window;
    size_t n_windows;
    double rate_budget, cost_budget; /* per window; 0: ample */
    int64_t slots;                   /* 0: ample */
    bool steady;                     /* rate and cost come back as time passes */
    bool guard;                      /* for world_online() */
};

struct world_call {
    tg_ms at;
    size_t type;
};

struct world_stream {
    struct world_call *calls;
    size_t n, capacity;
};

/* Two types, one mood, a budget of cost for half of what comes: the world most tests begin with. */
void world_init(struct world *world);

/* To be freed by world_stream_free(). */
struct world_stream world_draw(const struct world *world, struct draw *draw);
void world_stream_free(struct world_stream *stream);

struct world_result {
    double earned;
    double came[WORLD_TYPES_MAX], admitted[WORLD_TYPES_MAX];
    double denied; /* by the policy */
    double full;   /* passed by the policy, and refused because it did not fit */
};

/* Who is asked: null lets everything pass, which is greedy. */
struct world_result world_run(const struct world *world, const struct world_stream *stream,
                              struct tg_policy *policy);

/* What the fluid program says could have been earned, window by window. Nobody can do better, but
 * for what a call that begins in one window holds in the next, and for a bucket that is full at the
 * start. */
double world_hindsight(const struct world *world, const struct world_stream *stream);

/* The mean of what comes in a window, with its budgets: what is right to expect. */
struct tg_workload world_workload(const struct world *world, struct tg_type types[WORLD_TYPES_MAX]);

/* Policies for a world; an error fails the test. `workload` null: nothing is expected. */
struct tg_policy *world_bid(const struct tg_bid_config *config);
struct tg_policy *world_online(const struct world *world, const struct tg_workload *workload);
struct tg_policy *world_static(const struct world *world);

#endif
