/* wheel.c - timers by the time they fire: a hierarchical wheel, without memory of its own.
 *
 * The workload: thousands of calls, each with several deadlines, nearly all of which are moved or
 * stopped before they fire. A heap pays its logarithm for that and needs an array that grows, so
 * setting a timer could fail; libuv's timers are closed asynchronously, so they cannot stand in
 * storage that is about to be freed. Here setting and stopping are a few instructions on a list.
 *
 * Level l has 64 slots of 64^l ms. A timer is filed by the highest group of six bits in which its
 * time differs from `base`. So all slots in use of a level lie ahead of base in the same turn of
 * that level, the lowest level in use holds whatever is next, and its lowest bit says where:
 *
 *     base <= time of the first slot of the lowest level in use <= every `filed`
 *
 * When base reaches a slot above level 0, its timers are filed again, further down. A timer that is
 * moved to a later time stays where it is, and is filed again when its slot is reached: an idle
 * time-out that is moved with every read touches the wheel once in its length.
 */
#include "io/net/wheel.h"

#include <assert.h>
#include <string.h>

void net_timer_init(struct net_timer *timer, net_timer_fire *fire, void *arg)
{
    *timer = (struct net_timer){.fire = fire, .arg = arg};
}

void wheel_init(struct wheel *wheel, tg_ms now)
{
    memset(wheel, 0, sizeof *wheel);
    wheel->base = now;
}

static void file_timer(struct wheel *wheel, struct net_timer *timer)
{
    tg_ms at = timer->at > wheel->base ? timer->at : wheel->base + 1;

    assert(at > wheel->base);
    uint64_t differ = (uint64_t)at ^ (uint64_t)wheel->base;
    unsigned level = (63 - (unsigned)__builtin_clzll(differ)) / WHEEL_BITS;

    if (level >= WHEEL_LEVELS)
        level = WHEEL_LEVELS - 1;
    unsigned slot = (unsigned)((uint64_t)at >> (level * WHEEL_BITS)) % WHEEL_SLOTS;
    timer->filed = at;
    timer->level = (unsigned char)level;
    timer->slot = (unsigned char)slot;
    LIST_INSERT_HEAD(&wheel->slots[level][slot], timer, in_slot);
    wheel->used[level] |= UINT64_C(1) << slot;
}

void wheel_remove(struct wheel *wheel, struct net_timer *timer)
{
    if (!net_timer_is_set(timer))
        return;
    assert(wheel->used[timer->level] >> timer->slot & 1);
    LIST_REMOVE(timer, in_slot);
    timer->in_slot.le_prev = NULL;
    if (LIST_EMPTY(&wheel->slots[timer->level][timer->slot]))
        wheel->used[timer->level] &= ~(UINT64_C(1) << timer->slot);
}

void wheel_set(struct wheel *wheel, struct net_timer *timer, tg_ms at)
{
    timer->at = at;
    if (net_timer_is_set(timer) && timer->filed <= at)
        return;
    wheel_remove(wheel, timer);
    file_timer(wheel, timer);
}

/* The first slot in use, and the time it stands for. */
static bool first_slot(const struct wheel *wheel, unsigned *level, unsigned *slot, tg_ms *at)
{
    for (unsigned l = 0; l < WHEEL_LEVELS; l++) {
        if (wheel->used[l] == 0)
            continue;
        unsigned shift = l * WHEEL_BITS;
        uint64_t above = (uint64_t)wheel->base >> shift >> WHEEL_BITS;

        *level = l;
        *slot = (unsigned)__builtin_ctzll(wheel->used[l]);
        *at = (tg_ms)(((above << WHEEL_BITS) | *slot) << shift);
        return true;
    }
    return false;
}

bool wheel_next(const struct wheel *wheel, tg_ms *at)
{
    unsigned level, slot;

    return first_slot(wheel, &level, &slot, at);
}

struct net_timer *wheel_due(struct wheel *wheel, tg_ms now)
{
    unsigned level, slot;
    tg_ms at;

    while (first_slot(wheel, &level, &slot, &at) && at <= now) {
        struct net_timer *timer = LIST_FIRST(&wheel->slots[level][slot]), *rest;

        assert(timer != NULL && timer->level == level && timer->slot == slot);
        assert(at >= wheel->base && timer->filed >= at);
        wheel_remove(wheel, timer);
        if (timer->at <= at) {
            /* Others of this slot are still filed against the old base: it moves after them. */
            if (LIST_EMPTY(&wheel->slots[level][slot]) && at > wheel->base)
                wheel->base = at;
            return timer;
        }
        /* To be filed again, as seen from this slot: so its others must be, too. */
        rest = LIST_FIRST(&wheel->slots[level][slot]);
        LIST_INIT(&wheel->slots[level][slot]);
        wheel->used[level] &= ~(UINT64_C(1) << slot);
        if (at > wheel->base)
            wheel->base = at;
        file_timer(wheel, timer);
        while (rest != NULL) {
            struct net_timer *next = LIST_NEXT(rest, in_slot);

            file_timer(wheel, rest);
            rest = next;
        }
    }
    if (now > wheel->base)
        wheel->base = now;
    return NULL;
}
