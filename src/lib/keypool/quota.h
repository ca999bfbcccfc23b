/* quota.h - how much of a key, or of a group of keys, is in use, and how much is left.
 *
 * Three limits, each of which may be absent: calls in a minute, tokens in a minute, calls at once.
 * Tokens in flight are kept apart from the tokens of the minute, since a call may run for longer
 * than that; both must fit. And a deadline until which the provider wants to hear nothing, and one
 * until which somebody who knows more than we do has less room for us (tg_keyring_hold_off).
 *
 * All of it is reduced to one number, the room: the tokens that a call may have to be taken now, or
 * ROOM_NONE where no call is. A call fits iff its tokens <= room. Room falls only when a call is
 * taken or settled, and rises only when one is given back or at quota_due(): so whoever keeps the
 * number, and looks again at these moments, has the exact one (tests/prop/test_keypool_model.c).
 *
 * Windows are charged whether there is a limit or not: a limit that comes with a change knows the
 * minute before it. The seconds of a quota may begin at another ms than those of its neighbours,
 * its phase: else a thousand keys would all have to be looked at in the same ms of each second.
 *
 * Not synchronised: the ring's lock covers it.
 */
#ifndef TG_KEYPOOL_QUOTA_H
#define TG_KEYPOOL_QUOTA_H

#include "lib/keypool/minute.h"

#define ROOM_NONE INT64_C(-1)
#define ROOM_ANY INT64_MAX

/* A moment that does not come. */
#define NEVER INT64_MAX

struct quota {
    struct tg_key_limits limits;
    int64_t in_flight;
    uint64_t tokens_in_flight; /* modulo 2^64, which matters only where there is no limit */
    tg_ms cool_until;
    tg_ms held_until; /* until then, room is at most held_room */
    tg_ms busy_until; /* what is said to a call that held_room is too small for; not earlier */
    int64_t held_room;
    tg_ms taken_at;    /* the last call */
    tg_ms second_ends; /* when to move the windows on */
    tg_ms phase;
    struct minute calls;
    struct minute tokens;
};

void quota_init(struct quota *quota, tg_ms phase);

/* The number of the second of `at`. */
static inline int64_t quota_second(const struct quota *quota, tg_ms at)
{
    return (at + quota->phase) / 1000;
}

/* Moves the windows on; changes nothing that anybody could see. */
void quota_roll_on(struct quota *quota, tg_ms now);

static inline void quota_roll(struct quota *quota, tg_ms now)
{
    if (now >= quota->second_ends)
        quota_roll_on(quota, now);
}

/* ROOM_NONE, or the tokens that fit. */
int64_t quota_room(struct quota *quota, tg_ms now);

/* After `now`: the next moment at which room may rise by itself, or NEVER. */
tg_ms quota_due(struct quota *quota, tg_ms now);

/* Others leave only so much room until then. */
void quota_hold(struct quota *quota, tg_ms now, tg_ms until, int64_t room);

/* A call of so many tokens, which fit, begins. */
void quota_take(struct quota *quota, tg_ms now, int64_t tokens);

/* A call that was taken at `at` with so many tokens ends. It has used `used` of them; nothing of it
 * was sent: the call itself is given back, too. */
void quota_give(struct quota *quota, tg_ms now, tg_ms at, int64_t tokens, int64_t used, bool sent);

/* The first moment at which a call of so many tokens fits, if nothing else happens and calls in
 * flight take `mean_ms`; NEVER: they are more than the limit. */
tg_ms quota_when(struct quota *quota, tg_ms now, int64_t tokens, double mean_ms);

/* When a call is expected to end that began at `at`: not before the next ms. */
tg_ms quota_expected_end(tg_ms at, tg_ms now, double mean_ms);

#endif
