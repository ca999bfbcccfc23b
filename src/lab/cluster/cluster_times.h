/* cluster_times.h - means and percentiles of times in microseconds, as milliseconds.
 *
 * A percentile is between the two nearest values, by rank: of n values, p lies at p/100 x (n - 1).
 * Digits and rounding are BLIS's.
 */
#ifndef TG_CLUSTER_CLUSTER_TIMES_H
#define TG_CLUSTER_CLUSTER_TIMES_H

#include "lab/cluster/cluster.h"
#include "lab/cluster/cluster_gaps.h"

/* Sorts the values, which are not negative; behind them is room for as many. */
struct cluster_times times_of(double *values, size_t n);

/* Means and percentiles of counted gaps. Uses up the table. */
struct cluster_times times_of_gaps(struct gap_table *table);

#endif
