/* breaker.c - runs of failures. See breaker.h. */
#include "lib/keypool/breaker.h"

#include <assert.h>

/* An average over about so many attempts; and when it is high. */
#define ERRORS_GAIN (1.0 / 16)
#define ERRORS_HIGH 0.5

enum { RUN_LEAST = 2 };

enum tg_breaker_state breaker_state(const struct breaker *breaker, tg_ms now)
{
    if (breaker->open_until == 0)
        return TG_BREAKER_CLOSED;
    return breaker->open_until > now ? TG_BREAKER_OPEN : TG_BREAKER_HALF_OPEN;
}

int64_t breaker_threshold(const struct breaker *breaker, const struct breaker_rule *rule)
{
    int64_t half = num_max((rule->failures + 1) / 2, RUN_LEAST);

    return breaker->errors >= ERRORS_HIGH ? num_min(half, rule->failures) : rule->failures;
}

void breaker_begin(struct breaker *breaker)
{
    assert(!breaker->trying); /* half open lets one call through at a time */
    breaker->trying = breaker->open_until != 0;
}

static void trip(struct breaker *breaker, const struct breaker_rule *rule, tg_ms now)
{
    breaker->open_until = num_add(now, rule->open);
    breaker->epoch++;
}

void breaker_end(struct breaker *breaker, const struct breaker_rule *rule, uint32_t epoch,
                 enum tg_key_outcome outcome, tg_ms now)
{
    bool failed = outcome == TG_KEY_FAILED, half_open = breaker->open_until != 0;

    if (epoch != breaker->epoch)
        return;
    /* An attempt of this epoch, if it is not closed, is the one call of the half-open state. */
    assert(!half_open || breaker->trying);
    breaker->trying = false;
    if (outcome == TG_KEY_CANCELLED)
        return;
    breaker->errors += ((failed ? 1 : 0) - breaker->errors) * ERRORS_GAIN;
    assert(breaker->errors >= 0 && breaker->errors <= 1);
    if (!failed) {
        breaker->run = 0;
        breaker->open_until = 0;
        return;
    }
    breaker->run = num_add(breaker->run, 1);
    if (half_open || breaker->run >= breaker_threshold(breaker, rule))
        trip(breaker, rule, now);
}
