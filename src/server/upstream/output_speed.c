/* output_speed.c - the calls, oldest first, and the fastest of them: see output_speed.h. */
#include "server/upstream/output_speed.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/num.h"

#define MARGIN 1.25 /* a call may be faster than any before it */

struct speed_sample {
    uint32_t tenant;
    float tokens_per_s;
};

struct output_speed {
    atomic_int refs;
    /* Published by whoever holds the mutex, read without it: a number that stands for itself, so
     * its order among other stores does not matter. 0: nothing has been learned. */
    _Atomic double fastest;
    pthread_mutex_t mutex;
    size_t n;
    struct speed_sample samples[OUTPUT_SPEED_CALLS]; /* the oldest first */
};

struct output_speed *output_speed_new(void)
{
    struct output_speed *speed = calloc(1, sizeof *speed);

    if (speed == NULL)
        return NULL;
    if (pthread_mutex_init(&speed->mutex, NULL) != 0) {
        free(speed);
        return NULL;
    }
    atomic_init(&speed->refs, 1);
    return speed;
}

struct output_speed *output_speed_ref(struct output_speed *speed)
{
    int refs = atomic_fetch_add(&speed->refs, 1);

    assert(refs > 0);
    (void)refs;
    return speed;
}

void output_speed_unref(struct output_speed *speed)
{
    if (speed == NULL)
        return;
    int refs = atomic_fetch_sub(&speed->refs, 1);
    assert(refs > 0);
    if (refs > 1)
        return;
    pthread_mutex_destroy(&speed->mutex);
    free(speed);
}

/* Which one makes room for another of that tenant; n: none has to. */
static size_t which_goes(const struct output_speed *speed, uint32_t tenant)
{
    size_t first = speed->n, own = 0;

    for (size_t i = 0; i < speed->n; i++)
        if (speed->samples[i].tenant == tenant) {
            first = own == 0 ? i : first;
            own++;
        }
    assert(own <= OUTPUT_SPEED_SHARE);
    if (own == OUTPUT_SPEED_SHARE)
        return first;
    return speed->n == OUTPUT_SPEED_CALLS ? 0 : speed->n;
}

static float fastest_of(const struct output_speed *speed)
{
    float fastest = 0;

    for (size_t i = 0; i < speed->n; i++)
        if (speed->samples[i].tokens_per_s > fastest)
            fastest = speed->samples[i].tokens_per_s;
    return fastest;
}

void output_speed_add(struct output_speed *speed, uint32_t tenant, int64_t tokens, tg_ms took)
{
    if (tokens < OUTPUT_SPEED_TOKENS)
        return;
    const struct speed_sample sample = {
        .tenant = tenant,
        .tokens_per_s = (float)((double)tokens * 1000 / (double)num_max(took, 1))};

    pthread_mutex_lock(&speed->mutex);
    size_t goes = which_goes(speed, tenant);
    if (goes < speed->n) {
        speed->n--;
        memmove(&speed->samples[goes], &speed->samples[goes + 1],
                (speed->n - goes) * sizeof speed->samples[0]);
    }
    speed->samples[speed->n++] = sample;
    double fastest = speed->n < OUTPUT_SPEED_ENOUGH ? 0 : (double)fastest_of(speed);
    atomic_store_explicit(&speed->fastest, fastest, memory_order_relaxed);
    pthread_mutex_unlock(&speed->mutex);
}

double output_speed_of(const struct output_speed *speed, double stated)
{
    double likely = MARGIN * atomic_load_explicit(&speed->fastest, memory_order_relaxed);

    return likely > 0 && likely < stated ? likely : stated;
}

int64_t output_speed_tokens(double tokens_per_s, tg_ms took)
{
    return num_ceil(tokens_per_s * (double)num_max(took, 0) / 1000);
}
