/* first_bytes.c - what a first byte takes when nothing waits, by size of prompt. */
#include "lib/concurrency/first_bytes.h"

#include <assert.h>

/* The first base of a size needs less than a window. */
enum { FIRST_ENOUGH = 8 };

static const double BASE_RISES = 0.002;

double first_bytes_median(double *values, int n)
{
    assert(n > 0);
    for (int i = 1; i < n; i++) {
        double value = values[i];
        int place = i;
        for (; place > 0 && values[place - 1] > value; place--)
            values[place] = values[place - 1];
        values[place] = value;
    }
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double first_bytes_learn(struct first_bytes *first_bytes, uint8_t place, double ms)
{
    assert(place < FIRST_BYTES_SIZES);
    double *base = &first_bytes->sizes[place].base_ms;
    float *recent = first_bytes->sizes[place].recent_ms;
    int *n = &first_bytes->sizes[place].n;

    recent[(*n)++] = (float)ms;
    if (*n == FIRST_BYTES_WINDOW || (*base <= 0 && *n == FIRST_ENOUGH)) {
        double values[FIRST_BYTES_WINDOW];
        for (int i = 0; i < *n; i++)
            values[i] = (double)recent[i];
        double median = first_bytes_median(values, *n);
        double over = median - *base - first_bytes->allowed_ms;
        if (*base <= 0 || median < *base)
            *base = median;
        else if (over > 0)
            *base += BASE_RISES * over;
        *n = 0;
    }
    if (*base <= 0)
        return ms;
    if (first_bytes->common_ms <= 0)
        first_bytes->common_ms = *base;
    return *base;
}
