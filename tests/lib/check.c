/* check.c - decisions compared and printed, limiters made from specs. */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>

struct decision_text decision_text(struct tg_decision d)
{
    struct decision_text out;
    (void)snprintf(out.text, sizeof(out.text),
                   "{%s, limit %" PRId64 ", remaining %" PRId64 ", reset_at %" PRId64
                   ", retry_after %" PRId64 "}",
                   d.allowed ? "allowed" : "denied", d.limit, d.remaining, d.reset_at,
                   d.retry_after_ms);
    return out;
}

bool decision_equal(struct tg_decision a, struct tg_decision b)
{
    return a.allowed == b.allowed && a.limit == b.limit && a.remaining == b.remaining &&
           a.reset_at == b.reset_at && a.retry_after_ms == b.retry_after_ms;
}

static bool number_in_range(int64_t number)
{
    return number >= 0 && number <= TG_NUMBER_MAX;
}

bool decision_in_range(struct tg_decision d)
{
    return number_in_range(d.limit) && number_in_range(d.remaining) &&
           number_in_range(d.reset_at) && number_in_range(d.retry_after_ms);
}

void expect_decision_at(const char *what, struct tg_decision got, struct tg_decision want,
                        const char *file, int line)
{
    if (decision_equal(got, want))
        return;
    print_error("%s\n  got    %s\n  wanted %s\n", what, decision_text(got).text,
                decision_text(want).text);
    _fail(file, line);
}

struct tg_limiter limiter_of(const char *spec)
{
    struct tg_limiter limiter = {.ops = NULL};
    struct tg_limiter_config config;
    struct tg_problem problem;

    if (tg_limiter_config_parse(&config, spec, &problem) != TG_OK ||
        tg_limiter_init(&limiter, &config, &problem) != TG_OK)
        fail_msg("%s: %s", spec, problem.text);
    return limiter;
}
