/* gate_load.h - load on a gate in virtual time: sources of calls that come when they come, wait,
 * run for a while, and end. */
#ifndef GATE_LOAD_H
#define GATE_LOAD_H

#include "draw.h"
#include "tollgate.h"

enum { LOAD_SOURCES = 24 };

enum load_times { LOAD_CONSTANT, LOAD_EXPONENTIAL, LOAD_LOGNORMAL };

/* One source, a Poisson process; and what became of its calls, of those that came after the
 * warm-up. */
struct load_source {
    enum tg_priority priority;
    const char *tenant;
    double weight; /* 0: 1 */
    double per_s;
    double mean_ms;
    enum load_times times; /* lognormal: cv 1.3 */
    tg_ms own_deadline;    /* each call's, after its arrival; 0: none */
    double work_per_ms;    /* its calls state a work, so much for a ms; 0: they state none */
    tg_ms on_ms, off_ms;   /* sends for so long, then is silent for so long; 0: always sends */

    int64_t offered, admitted, at_the_door, in_vain; /* refused at once; after a wait */
    double waited_ms, slot_ms;                       /* the admitted ones', in all */
    double slot_share;                               /* for the test to use */
    tg_ms most_waited_ms;

    double next_at; /* its next call */
};

/* Runs all sources for so long; counts from `warm` on. Every few events the gate's books are
 * asserted. `config` gets its wake() here. The gate is idle at the end, or the test fails. */
void load_run(struct tg_gate_config *config, struct load_source *sources, size_t n, uint64_t seed,
              tg_ms warm, tg_ms until);

/* Like load_run(), with a gate that is there already, and was made with load_wake() and the address
 * of a null pointer. */
void load_run_gate(struct tg_gate *gate, void **woken, struct load_source *sources, size_t n,
                   uint64_t seed, tg_ms warm, tg_ms until);
void load_wake(void *context, void *waiter);

/* The part of the calls that were admitted. */
static inline double load_admitted(const struct load_source *source)
{
    return source->offered > 0 ? (double)source->admitted / (double)source->offered : 1;
}

#endif /* GATE_LOAD_H */
