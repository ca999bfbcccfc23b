/* subject.c - limiters to be tried out, with given and with random parameters. */
#include "subject.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct subject subject_new(const struct tg_limiter *limiter)
{
    struct subject subject = {.limiter = *limiter, .exact = true, .scale = limiter->config.period};

    /* It has the exact size, so that a sanitizer sees a byte beyond; filled, so that a state which
     * depends on what was there before is found out. */
    subject.state = malloc(limiter->state_bytes);
    assert_non_null(subject.state);
    memset(subject.state, 0xA5, limiter->state_bytes);
    limiter->ops->reset(&subject.limiter, subject.state);
    return subject;
}

struct subject subject_copy(const struct subject *from)
{
    struct subject subject = subject_new(&from->limiter);

    subject.exact = from->exact;
    subject.scale = from->scale;
    subject_assign(&subject, from);
    return subject;
}

void subject_free(struct subject *subject)
{
    free(subject->state);
    subject->state = NULL;
}

static void random_gcra(struct draw *draw, struct tg_limiter_config *config, bool exact)
{
    /* Rates of thousands a millisecond are met too: there a unit is less than a double's grain. */
    config->limit = draw_magnitude(draw, exact ? 1000 : 10000000);
    config->period =
        exact ? config->limit * draw_magnitude(draw, 1000) : draw_magnitude(draw, 200000);
    config->burst = draw_chance(draw, 30) ? 0 : draw_magnitude(draw, 2 * config->limit);
}

/* Refills as people write them, whole numbers a second, are the hardest: there a wait comes out as
 * a whole number of milliseconds, and one that was rounded is a millisecond short. */
static double random_refill(struct draw *draw, bool exact)
{
    if (exact) /* eighths of a unit a millisecond are exact in binary */
        return 125.0 * (double)draw_magnitude(draw, 64);
    if (draw_chance(draw, 60))
        return (double)draw_magnitude(draw, 5000);
    return (0.001 + draw_unit(draw)) * (double)draw_magnitude(draw, 5000);
}

static void random_bucket(struct draw *draw, struct tg_limiter_config *config, bool exact)
{
    config->limit = draw_magnitude(draw, 4000);
    config->refill = random_refill(draw, exact);
}

static void random_windows(struct draw *draw, struct tg_limiter_config *config, bool exact)
{
    config->limit = draw_magnitude(draw, config->strategy == TG_SLIDING_LOG ? 60 : 2000);
    config->period = draw_magnitude(draw, 100000);
    if (config->strategy != TG_SLIDING_WINDOW)
        return;
    config->buckets = draw_magnitude(draw, 25);
    if (exact) /* the fading of a bucket is exact if its length is a power of two */
        config->period = config->buckets << draw_between(draw, 0, 12);
}

struct subject subject_random(struct draw *draw, enum tg_strategy strategy)
{
    bool exact = draw_chance(draw, 60);
    struct tg_limiter limiter;
    struct tg_limiter_config config;
    struct tg_problem problem;

    tg_limiter_config_init(&config, strategy);
    if (strategy == TG_GCRA)
        random_gcra(draw, &config, exact);
    else if (strategy == TG_TOKEN_BUCKET)
        random_bucket(draw, &config, exact);
    else
        random_windows(draw, &config, exact);
    if (tg_limiter_init(&limiter, &config, &problem) != TG_OK)
        fail_msg("%s: %s", tg_strategy_name(strategy), problem.text);

    struct subject subject = subject_new(&limiter);
    subject.exact = exact || (strategy != TG_GCRA && strategy != TG_TOKEN_BUCKET &&
                              strategy != TG_SLIDING_WINDOW);
    if (strategy == TG_TOKEN_BUCKET)
        subject.scale = 1 + (tg_ms)((double)config.limit * 1000 / config.refill);
    return subject;
}

void subject_make_settled(struct subject *subject)
{
    struct tg_limiter limiter = subject->limiter;

    tg_limiter_make_settled(&limiter);
    struct subject settled = subject_new(&limiter);
    settled.exact = subject->exact;
    settled.scale = subject->scale;
    subject_free(subject);
    *subject = settled;
}

/* What is the most that one call may cost. */
static int64_t ceiling_of(const struct subject *subject)
{
    const struct tg_limiter_config *config = &subject->limiter.config;

    return config->strategy == TG_GCRA ? config->burst : config->limit;
}

int64_t subject_cost(const struct subject *subject, struct draw *draw)
{
    int64_t ceiling = ceiling_of(subject);
    int64_t choice = draw_between(draw, 0, 99);

    if (choice < 4)
        return 0;
    if (choice < 45)
        return 1;
    if (choice < 85)
        return draw_magnitude(draw, ceiling);
    if (choice < 92)
        return draw_between(draw, 1, ceiling);
    if (choice < 97)
        return ceiling;
    return ceiling + draw_magnitude(draw, ceiling);
}

void subject_assign(struct subject *to, const struct subject *from)
{
    memcpy(to->state, from->state, from->limiter.state_bytes);
}

bool subject_same_state(const struct subject *a, const struct subject *b)
{
    return memcmp(a->state, b->state, a->limiter.state_bytes) == 0;
}

struct tg_decision subject_peek(const struct subject *s, tg_ms now, int64_t cost)
{
    struct tg_decision answer;

    s->limiter.ops->peek(&s->limiter, s->state, now, cost, &answer);
    return answer;
}

struct tg_decision subject_balance(const struct subject *s, tg_ms now)
{
    return subject_peek(s, now, 0);
}

struct tg_decision subject_take(struct subject *s, tg_ms now, int64_t cost)
{
    struct tg_decision decision = subject_peek(s, now, cost);

    if (decision.allowed)
        s->limiter.ops->take(&s->limiter, s->state, now, cost);
    return decision;
}

void subject_refund(struct subject *s, tg_ms now, struct tg_charge charge, int64_t units)
{
    s->limiter.ops->refund(&s->limiter, s->state, now, charge, units);
}

void subject_settle(struct subject *s, tg_ms now, struct tg_charge charge, int64_t actual)
{
    s->limiter.ops->settle(&s->limiter, s->state, now, charge, actual);
}

tg_ms subject_fresh_at(const struct subject *s)
{
    return s->limiter.ops->fresh_at(&s->limiter, s->state);
}

struct subject_text subject_text(const struct subject *subject)
{
    const struct tg_limiter_config *c = &subject->limiter.config;
    struct subject_text out;

    (void)snprintf(out.text, sizeof(out.text),
                   "%s limit %" PRId64 " period %" PRId64 " burst %" PRId64 " buckets %" PRId64
                   " refill %.17g",
                   subject->limiter.ops->name, c->limit, c->period, c->burst, c->buckets,
                   c->refill);
    return out;
}
