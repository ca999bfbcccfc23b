/* fuzz_spec.c - any bytes as the spec of a limiter, and any life for the limiter it makes.
 *
 * The input is a spec up to its first newline, then steps of 20 bytes: what to do, a time, a
 * number. Whatever they are: a spec that is refused is refused with a message; a look and a
 * refusal change nothing, an answer stays in its range, waiting as long as it says admits, a state
 * that calls itself fresh answers like a new one, and the same steps lead to the same bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "insist.h"
#include "tollgate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    SPEC_BYTES_MAX = 256,
    STATE_BYTES_MAX = 1 << 16, /* larger ones are the same, only slower */
    STEP_BYTES = 20,
};

/* One limiter with its state, and a second state to compare with. */
struct life {
    struct tg_limiter limiter;
    char *state;
    char *other;
    tg_ms now;
    tg_ms latest;          /* the latest `now` so far */
    struct tg_charge last; /* the last take that was allowed */
};

static bool in_range(int64_t number)
{
    return number >= 0 && number <= TG_NUMBER_MAX;
}

static struct tg_decision peek(struct life *life, const char *state, tg_ms now, int64_t cost)
{
    struct tg_decision answer;

    life->limiter.ops->peek(&life->limiter, state, now, cost, &answer);
    insist(in_range(answer.limit) && in_range(answer.remaining));
    insist(in_range(answer.reset_at) && in_range(answer.retry_after_ms));
    insist(answer.limit >= 1 && answer.remaining <= answer.limit);
    insist(answer.allowed == (answer.retry_after_ms == 0));
    insist(answer.allowed || cost > 0);
    return answer;
}

static void copy_state(struct life *life)
{
    memcpy(life->other, life->state, life->limiter.state_bytes);
}

static bool same_state(struct life *life)
{
    return memcmp(life->other, life->state, life->limiter.state_bytes) == 0;
}

static void take(struct life *life, int64_t cost)
{
    copy_state(life);
    struct tg_decision answer = peek(life, life->state, life->now, cost);
    insist(same_state(life));

    if (answer.allowed) {
        life->limiter.ops->take(&life->limiter, life->state, life->now, cost);
        life->last = (struct tg_charge){life->now, cost};
        insist(peek(life, life->state, life->now, 0).remaining == answer.remaining);
    } else if (answer.retry_after_ms < TG_NUMBER_MAX - 1 - life->now) {
        /* Not never, and not so far away that the number was cut. */
        insist(peek(life, life->state, life->now + answer.retry_after_ms, cost).allowed);
    }
}

/* Giving back more than was taken is giving back what was taken. */
static void refund(struct life *life, int64_t units)
{
    const struct tg_limiter *limiter = &life->limiter;
    int64_t most = units < life->last.cost ? units : life->last.cost;

    copy_state(life);
    limiter->ops->refund(limiter, life->state, life->now, life->last, units);
    limiter->ops->refund(limiter, life->other, life->now, life->last, most);
    insist(same_state(life));
    life->last.cost -= most;
    peek(life, life->state, life->now, 1);
}

static void settle(struct life *life, int64_t actual)
{
    const struct tg_limiter *limiter = &life->limiter;

    limiter->ops->settle(limiter, life->state, life->now, life->last, actual);
    life->last = (struct tg_charge){0};
    peek(life, life->state, life->now, 1);
}

/* Only at a time that is not before any other: to forget a state is to forget how late it was. */
static void compare_with_fresh(struct life *life, int64_t cost)
{
    const struct tg_limiter *limiter = &life->limiter;
    tg_ms at = limiter->ops->fresh_at(limiter, life->state);

    if (at < life->latest)
        at = life->latest;
    if (at >= TG_NUMBER_MAX)
        return; /* the end of time: what saturates there never comes */
    limiter->ops->reset(limiter, life->other);
    struct tg_decision ours = peek(life, life->state, at, cost);
    struct tg_decision fresh = peek(life, life->other, at, cost);
    insist(ours.allowed == fresh.allowed && ours.remaining == fresh.remaining &&
           ours.reset_at == fresh.reset_at && ours.retry_after_ms == fresh.retry_after_ms);
}

static int64_t number_at(const uint8_t *bytes, unsigned shift)
{
    uint64_t number;

    memcpy(&number, bytes, sizeof number);
    return (int64_t)((number >> (shift & 63)) & (uint64_t)TG_NUMBER_MAX);
}

/* Time goes on by a span of any size, steps back, or is somewhere else altogether. */
static void move_clock(struct life *life, uint8_t how, int64_t span)
{
    if (how % 8 == 0)
        life->now = span;
    else if (how % 8 == 1)
        life->now -= span < life->now ? span : life->now;
    else
        life->now = span < TG_NUMBER_MAX - life->now ? life->now + span : TG_NUMBER_MAX;
    if (life->now > life->latest)
        life->latest = life->now;
}

static void live(struct life *life, const uint8_t *steps, size_t bytes)
{
    life->now = life->latest = 0;
    life->last = (struct tg_charge){0};
    life->limiter.ops->reset(&life->limiter, life->state);
    for (; bytes >= STEP_BYTES; steps += STEP_BYTES, bytes -= STEP_BYTES) {
        move_clock(life, steps[1], number_at(steps + 4, steps[2]));
        int64_t number = number_at(steps + 12, steps[3]);
        switch (steps[0] % 8) {
        case 0:
            refund(life, number);
            break;
        case 1:
            settle(life, number);
            break;
        case 2:
            compare_with_fresh(life, number);
            break;
        default:
            take(life, number);
            break;
        }
    }
}

static void live_twice(const struct tg_limiter *limiter, const uint8_t *steps, size_t bytes)
{
    size_t state_bytes = limiter->state_bytes;
    struct life life = {.limiter = *limiter};
    char *first = calloc(1, state_bytes);

    life.state = calloc(1, state_bytes);
    life.other = calloc(1, state_bytes);
    insist(first != NULL && life.state != NULL && life.other != NULL);
    live(&life, steps, bytes);
    memcpy(first, life.state, state_bytes);
    live(&life, steps, bytes);
    insist(memcmp(first, life.state, state_bytes) == 0);
    free(first);
    free(life.state);
    free(life.other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t spec_bytes = newline != NULL ? (size_t)(newline - data) : size;
    struct tg_problem problem = {"\1"};
    struct tg_limiter_config config;
    struct tg_limiter limiter;
    char spec[SPEC_BYTES_MAX + 1];

    if (spec_bytes > SPEC_BYTES_MAX)
        return 0;
    if (spec_bytes > 0)
        memcpy(spec, data, spec_bytes);
    spec[spec_bytes] = '\0';
    if (tg_limiter_config_parse(&config, spec, &problem) != TG_OK ||
        tg_limiter_init(&limiter, &config, &problem) != TG_OK) {
        insist(memchr(problem.text, '\0', sizeof problem.text) != NULL);
        insist(strlen(problem.text) > 1);
        return 0;
    }
    insist(limiter.state_bytes % 8 == 0);
    if (newline != NULL && limiter.state_bytes > 0 && limiter.state_bytes <= STATE_BYTES_MAX)
        live_twice(&limiter, newline + 1, size - spec_bytes - 1);
    return 0;
}
