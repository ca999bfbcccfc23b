/* quota.c - limits, and what is in use of them. See quota.h. */
#include "lib/keypool/quota.h"

#include <assert.h>

/* What others hold, they may give back at any moment: so it is asked for again. */
static const tg_ms HOLD_MAX = 1000;

void quota_init(struct quota *quota, tg_ms phase)
{
    *quota = (struct quota){.phase = phase, .second_ends = 0};
}

void quota_roll_on(struct quota *quota, tg_ms now)
{
    int64_t second = quota_second(quota, now);

    minute_roll(&quota->calls, second);
    minute_roll(&quota->tokens, second);
    quota->second_ends = (second + 1) * 1000 - quota->phase;
    assert(quota->second_ends > now);
}

static int64_t own_room(const struct quota *quota)
{
    const struct tg_key_limits *limits = &quota->limits;

    if (limits->concurrency && quota->in_flight >= limits->concurrency)
        return ROOM_NONE;
    if (limits->rpm && quota->calls.sum >= limits->rpm)
        return ROOM_NONE;
    if (!limits->tpm)
        return ROOM_ANY;
    /* More than the limit: a debt, or a limit that was lowered. */
    if (quota->tokens.sum > limits->tpm || quota->tokens_in_flight > (uint64_t)limits->tpm)
        return ROOM_NONE;
    return limits->tpm - num_max(quota->tokens.sum, (int64_t)quota->tokens_in_flight);
}

int64_t quota_room(struct quota *quota, tg_ms now)
{
    quota_roll(quota, now);
    if (quota->cool_until > now)
        return ROOM_NONE;
    int64_t room = own_room(quota);
    return quota->held_until > now ? num_min(room, quota->held_room) : room;
}

/* When a second of the windows begins; NEVER if there is none. */
static tg_ms begin_of(const struct quota *quota, int64_t second)
{
    return second == INT64_MAX ? NEVER : second * 1000 - quota->phase;
}

tg_ms quota_due(struct quota *quota, tg_ms now)
{
    const struct tg_key_limits *limits = &quota->limits;
    tg_ms due = NEVER;

    quota_roll(quota, now);
    if (quota->cool_until > now)
        due = quota->cool_until;
    if (quota->held_until > now)
        due = num_min(due, quota->held_until);
    /* Calls that leave the window matter only if it is full. */
    if (limits->rpm && quota->calls.sum >= limits->rpm)
        due = num_min(due, begin_of(quota, minute_next(&quota->calls)));
    if (limits->tpm)
        due = num_min(due, begin_of(quota, minute_next(&quota->tokens)));
    return due;
}

void quota_hold(struct quota *quota, tg_ms now, tg_ms until, int64_t room)
{
    if (until <= now)
        return;
    quota->held_room = room < 0 ? ROOM_NONE : room;
    quota->held_until = num_min(until, num_add(now, HOLD_MAX));
    quota->busy_until = until;
}

void quota_take(struct quota *quota, tg_ms now, int64_t tokens)
{
    assert(tokens >= 0 && quota_room(quota, now) >= tokens);
    quota_roll(quota, now);
    quota->in_flight++;
    quota->tokens_in_flight += (uint64_t)tokens;
    quota->taken_at = now;
    minute_charge(&quota->calls, 1);
    minute_charge(&quota->tokens, tokens);
}

void quota_give(struct quota *quota, tg_ms now, tg_ms at, int64_t tokens, int64_t used, bool sent)
{
    int64_t second = quota_second(quota, at);

    assert(quota->in_flight > 0 && at <= now && used >= 0);
    quota_roll(quota, now);
    quota->in_flight--;
    quota->tokens_in_flight -= (uint64_t)tokens;
    assert(quota->in_flight > 0 || quota->tokens_in_flight == 0);
    minute_correct(&quota->tokens, second, tokens, used);
    if (!sent)
        minute_correct(&quota->calls, second, 1, 0);
}

tg_ms quota_expected_end(tg_ms at, tg_ms now, double mean_ms)
{
    return num_max(now + 1, num_add(at, num_ceil(mean_ms)));
}

tg_ms quota_when(struct quota *quota, tg_ms now, int64_t tokens, double mean_ms)
{
    const struct tg_key_limits *limits = &quota->limits;
    tg_ms at = num_max(now, quota->cool_until);
    bool waits = limits->concurrency && quota->in_flight >= limits->concurrency;

    if (limits->tpm && tokens > limits->tpm)
        return NEVER;
    quota_roll(quota, now);
    if (quota->busy_until > now && tokens > quota->held_room)
        at = num_max(at, quota->busy_until);
    if (limits->rpm)
        at = num_max(at, begin_of(quota, minute_when(&quota->calls, limits->rpm, 1)));
    if (limits->tpm) {
        at = num_max(at, begin_of(quota, minute_when(&quota->tokens, limits->tpm, tokens)));
        waits = waits || quota->tokens_in_flight > (uint64_t)(limits->tpm - tokens);
    }
    return waits ? num_max(at, quota_expected_end(quota->taken_at, now, mean_ms)) : at;
}
