/* key.c - where a key stands: its room, its index, and when to look at it again. See keyring.h.
 *
 * Latency is an average by sample, not by time: a ring in virtual time may end many calls in one
 * ms, and each must count. An average that nobody adds to grows old instead: see key_score() in
 * choose.c.
 */
#include <assert.h>
#include <math.h>

#include "lib/core/container_of.h"
#include "lib/keypool/keyring.h"

#define LATENCY_GAIN (1.0 / 8)

bool timer_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct timer *x = container_of(a, const struct timer, node);
    const struct timer *y = container_of(b, const struct timer, node);

    return x->due != y->due ? x->due < y->due : x->order < y->order;
}

void timer_set(struct heap *heap, struct timer *timer, tg_ms due)
{
    if (timer->due == due)
        return;
    timer->due = due;
    heap_moved(heap, &timer->node);
}

void cluster_check(struct cluster *cluster)
{
    struct roster *roster = &cluster->pool->roster;
    bool live = cluster->room_index.n > 0 && (!cluster->group || cluster->group->room != ROOM_NONE);

    if (live == (cluster->live_place != NOT_LIVE))
        return;
    if (live) {
        cluster->live_place = roster->n_live;
        roster->live[roster->n_live++] = cluster;
        assert(roster->n_live <= roster->n_clusters);
        return;
    }
    assert(roster->n_live > 0 && roster->live[cluster->live_place] == cluster);
    struct cluster *last = roster->live[--roster->n_live];
    roster->live[cluster->live_place] = last;
    last->live_place = cluster->live_place;
    cluster->live_place = NOT_LIVE;
}

static int64_t room_of(struct key *key, tg_ms now)
{
    if (!key_usable(key) || !breaker_lets(&key->breaker, now))
        return ROOM_NONE;
    return quota_room(&key->quota, now);
}

static tg_ms due_of(struct key *key, tg_ms now)
{
    tg_ms due = quota_due(&key->quota, now);

    return key->breaker.open_until > now ? num_min(due, key->breaker.open_until) : due;
}

static void put_on_room_index(struct key *key, int64_t room)
{
    struct room_index *room_index = &key->cluster->room_index;

    if (key->room == ROOM_NONE)
        room_index_put(room_index, room, key->number);
    else if (room == ROOM_NONE)
        room_index_take(room_index, key->room, key->number);
    else
        room_index_move(room_index, key->room, room, key->number);
    key->room = room;
    cluster_check(key->cluster);
}

void key_refresh(struct key *key, tg_ms now)
{
    if (!key->cluster)
        return;
    int64_t room = room_of(key, now);
    if (room != key->room)
        put_on_room_index(key, room);
    timer_set(&key->pool->ring->timers, &key->timer, due_of(key, now));
}

void group_refresh(struct tg_keyring *ring, struct key_group *group, tg_ms now)
{
    if (group->removed)
        return;
    int64_t before = group->room;
    group->room = quota_room(&group->quota, now);
    if ((before == ROOM_NONE) != (group->room == ROOM_NONE))
        for (struct cluster *cluster = group->clusters; cluster; cluster = cluster->next_of_group)
            cluster_check(cluster);
    timer_set(&ring->timers, &group->timer, quota_due(&group->quota, now));
}

/* Not inlined: most calls need no more than to compare the first timer. */
static __attribute__((noinline)) void timer_expired(struct tg_keyring *ring, struct timer *timer,
                                                    tg_ms now)
{
    if (timer->of_group)
        group_refresh(ring, container_of(timer, struct key_group, timer), now);
    else
        key_refresh(container_of(timer, struct key, timer), now);
}

tg_ms keyring_advance(struct tg_keyring *ring, tg_ms now)
{
    struct heap_node *first;

    if (now > ring->now)
        ring->now = num_min(now, TG_NUMBER_MAX);
    while ((first = heap_first(&ring->timers)) != NULL) {
        struct timer *timer = container_of(first, struct timer, node);
        if (timer->due > ring->now)
            break;
        timer_expired(ring, timer, ring->now);
        assert(timer->due > ring->now);
    }
    return ring->now;
}

void key_take(struct key *key, struct key_lease *lease, int64_t tokens, tg_ms now)
{
    struct key_group *group = key_group_of(key);

    assert(key_can_serve(key, tokens) && key_usable(key));
    lease->key = key;
    lease->group = group;
    lease->at = now;
    lease->tokens = tokens;
    lease->epoch = key->breaker.epoch;
    key->leases++;
    key->used_at = now;
    breaker_begin(&key->breaker);
    quota_take(&key->quota, now, tokens);
    key_refresh(key, now);
    if (group) {
        group->leases++;
        quota_take(&group->quota, now, tokens);
        group_refresh(key->pool->ring, group, now);
    }
}

void key_note_latency(struct key *key, double latency_ms, tg_ms now)
{
    /* Whoever measured more than this, or not a number, measured something else. */
    if (!(latency_ms >= 0 && latency_ms <= (double)TG_NUMBER_MAX))
        return;
    if (key->latency_ms < 0)
        key->latency_ms = latency_ms;
    assert(key->spread_ms >= 0);
    key->spread_ms += (fabs(latency_ms - key->latency_ms) - key->spread_ms) * LATENCY_GAIN;
    key->latency_ms += (latency_ms - key->latency_ms) * LATENCY_GAIN;
    key->used_at = now;
}
