/* recent_min.c - the lowest of the last samples; recent_min.h says how. */
#include "lib/concurrency/recent_min.h"

#include <assert.h>

#include "lib/core/allocator.h"

/* Drawn between them, so that many laws that began together do not all forget together. */
static const double AGE_MIN_MS = 54000, AGE_MAX_MS = 66000;

static tg_ms draw_age(struct random *random)
{
    return (tg_ms)random_between(random, AGE_MIN_MS, AGE_MAX_MS);
}

static struct recent *candidate(const struct recent_min *recent, uint64_t i)
{
    return &recent->ring[i & recent->mask];
}

static uint64_t room_for(uint64_t window)
{
    uint64_t room = 1;

    while (room < window)
        room *= 2;
    assert((room & (room - 1)) == 0 && room / 2 < window);
    return room;
}

bool recent_min_init(struct recent_min *recent, int64_t window, struct random *random)
{
    assert(window >= 1);
    uint64_t room = room_for((uint64_t)window);

    *recent = (struct recent_min){
        .ring = mem_malloc(room * sizeof *recent->ring),
        .mask = room - 1,
        .window = (uint64_t)window,
        .max_age = draw_age(random),
    };
    return recent->ring != NULL;
}

void recent_min_fini(struct recent_min *recent)
{
    mem_free(recent->ring);
    recent->ring = NULL;
}

/* Candidates leave that are beyond the window: there is room for no more. */
static void drop_old(struct recent_min *recent)
{
    while (recent->head < recent->tail &&
           recent->seen - candidate(recent, recent->head)->number >= recent->window)
        recent->head++;
}

bool recent_min_resize(struct recent_min *recent, int64_t window)
{
    uint64_t room = room_for((uint64_t)window);

    if (room > recent->mask + 1) {
        struct recent *ring = mem_malloc(room * sizeof *ring);
        if (!ring)
            return false;
        for (uint64_t i = recent->head; i < recent->tail; i++)
            ring[i & (room - 1)] = *candidate(recent, i);
        mem_free(recent->ring);
        recent->ring = ring;
        recent->mask = room - 1;
    }
    recent->window = (uint64_t)window;
    drop_old(recent);
    assert(recent->tail - recent->head <= recent->window);
    return true;
}

static void drop_aged(struct recent_min *recent, tg_ms at, struct random *random)
{
    if (recent->head == recent->tail || at - candidate(recent, recent->head)->at < recent->max_age)
        return;
    while (recent->head < recent->tail &&
           at - candidate(recent, recent->head)->at >= recent->max_age)
        recent->head++;
    recent->max_age = draw_age(random);
}

double recent_min_push(struct recent_min *recent, double value, tg_ms at, struct random *random)
{
    recent->seen++;
    drop_old(recent);
    drop_aged(recent, at, random);
    while (recent->head < recent->tail && candidate(recent, recent->tail - 1)->value >= value)
        recent->tail--;
    assert(recent->tail - recent->head <= recent->mask); /* there is room for one more */
    assert(recent->head == recent->tail || candidate(recent, recent->tail - 1)->at <= at);
    *candidate(recent, recent->tail++) = (struct recent){value, recent->seen, at};
    assert(recent->tail - recent->head <= recent->window);
    assert(candidate(recent, recent->head)->value <= value);
    return candidate(recent, recent->head)->value;
}
