/* benches.h - the benchmarks of the core, and their goals. */
#ifndef TG_BENCH_BENCHES_H
#define TG_BENCH_BENCHES_H

#include "measure.h"

struct bench {
    const char *name;
    const char *what; /* one line for people */
    const char *unit;
    double goal; /* at most so much: ratio if there is a reference, else value; or NaN */
    struct measured (*run)(void); /* value is NaN when it could not be run */
};

/* Each ends with a null name. */
extern const struct bench benches_of_store[];
extern const struct bench benches_of_gate[];
extern const struct bench benches_of_policy[];
extern const struct bench benches_of_keys[];
extern const struct bench benches_of_money[];
extern const struct bench benches_of_config[];
extern const struct bench benches_of_metrics[];

#endif
