/* histogram.c - how values are spread. See histogram.h.
 *
 * The bounds are few and most values lie near the lowest, so they are searched in order.
 */
#include "server/obs/histogram.h"

#include <assert.h>

void histogram_add(struct histogram *histogram, const struct histogram_shape *shape, int64_t value)
{
    size_t i = 0;

    assert(shape->n <= HISTOGRAM_BOUNDS_MAX);
    if (value < 0)
        value = 0;
    while (i < shape->n && value > shape->bounds[i].le)
        i++;
    counter_add(&histogram->counts[i < shape->n ? i : HISTOGRAM_BOUNDS_MAX], 1);
    counter_add(&histogram->sum, (uint64_t)value);
}

void histogram_read(const struct histogram *histogram, struct histogram_total *total)
{
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS_MAX; i++)
        total->counts[i] += counter_read(&histogram->counts[i]);
    total->sum += counter_read(&histogram->sum);
}
