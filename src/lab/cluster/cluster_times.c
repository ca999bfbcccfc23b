/* cluster_times.c - means and percentiles. See cluster_times.h. */
#include "lab/cluster/cluster_times.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- Of values ----------------------------------------------------------------------------- */

#define RADIX_BITS 8
#define RADIX (1 << RADIX_BITS)

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* By one digit of their bits. False: they all have the same, and nothing was moved. */
static bool sort_by_digit(const double *values, double *sorted, size_t n, int shift)
{
    size_t at[RADIX + 1] = {0};

    for (size_t i = 0; i < n; i++)
        at[(bits_of(values[i]) >> shift & (RADIX - 1)) + 1]++;
    for (int i = 0; i < RADIX; i++)
        if (at[i + 1] == n)
            return false;
        else
            at[i + 1] += at[i];
    for (size_t i = 0; i < n; i++)
        sorted[at[bits_of(values[i]) >> shift & (RADIX - 1)]++] = values[i];
    return true;
}

/* Values that are not negative are in the order of their bits. `room` is for as many. */
static void sort_values(double *values, double *room, size_t n)
{
    double *from = values, *to = room;

    for (int shift = 0; shift < 64; shift += RADIX_BITS)
        if (sort_by_digit(from, to, n, shift)) {
            double *other = from;
            from = to;
            to = other;
        }
    if (from != values)
        memcpy(values, from, n * sizeof *values);
}

static double percentile_ms(const double *sorted, size_t n, double p)
{
    double rank = p / 100.0 * (double)(n - 1);
    size_t low = (size_t)floor(rank), high = (size_t)ceil(rank);

    assert(high < n && sorted[low] <= sorted[high]);
    if (low == high)
        return sorted[low] / 1000;
    return sorted[low] / 1000 + (sorted[high] - sorted[low]) * (rank - (double)low) / 1000;
}

struct cluster_times times_of(double *values, size_t n)
{
    double sum = 0;

    if (n == 0)
        return (struct cluster_times){0};
    sort_values(values, values + n, n);
    assert(values[0] >= 0); /* or they would not be in the order of their bits */
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return (struct cluster_times){
        .mean_ms = sum / (double)n / 1000,
        .p50_ms = percentile_ms(values, n, 50),
        .p90_ms = percentile_ms(values, n, 90),
        .p95_ms = percentile_ms(values, n, 95),
        .p99_ms = percentile_ms(values, n, 99),
    };
}

/* The value of a rank, of values that are counted. */
static double counted_at(const struct gap_count *counts, int64_t rank)
{
    while (rank >= counts->n)
        rank -= counts++->n;
    return (double)counts->us;
}

static double counted_percentile_ms(const struct gap_count *counts, int64_t n, double p)
{
    double rank = p / 100.0 * (double)(n - 1);
    int64_t low = (int64_t)floor(rank), high = (int64_t)ceil(rank);
    double a = counted_at(counts, low), b = counted_at(counts, high);

    assert(high < n && a <= b);
    if (low == high)
        return a / 1000;
    return a / 1000 + (b - a) * (rank - (double)low) / 1000;
}

struct cluster_times times_of_gaps(struct gap_table *table)
{
    size_t n_counts;
    const struct gap_count *counts = gap_table_sort(table, &n_counts);
    int64_t n = 0;
    double sum = 0;

    for (size_t i = 0; i < n_counts; i++) {
        n += counts[i].n;
        sum += (double)counts[i].us * (double)counts[i].n;
    }
    if (n == 0)
        return (struct cluster_times){0};
    return (struct cluster_times){
        .mean_ms = sum / (double)n / 1000,
        .p50_ms = counted_percentile_ms(counts, n, 50),
        .p90_ms = counted_percentile_ms(counts, n, 90),
        .p95_ms = counted_percentile_ms(counts, n, 95),
        .p99_ms = counted_percentile_ms(counts, n, 99),
    };
}
