/* answer.c - what an answer says: names, and words for people. */
#include <stdio.h>

#include "tollgate.h"

const char *tg_priority_name(enum tg_priority priority)
{
    static const char *const names[TG_PRIORITY_COUNT] = {"high", "normal", "low"};

    return (unsigned)priority < TG_PRIORITY_COUNT ? names[priority] : NULL;
}

const char *tg_reason_name(enum tg_reason reason)
{
    static const char *const names[TG_REASON_COUNT] = {
#define REASON_NAME(upper, text) text,
        TG_REASONS(REASON_NAME)
#undef REASON_NAME
    };

    return (unsigned)reason < TG_REASON_COUNT ? names[reason] : NULL;
}

/* Appends as much as there is room for. */
static size_t answer_put(char *text, size_t size, size_t n, const char *more)
{
    while (*more != 0 && n + 1 < size)
        text[n++] = *more++;
    return n;
}

/* "rate limit of 100 exceeded". Most refusals are this one, and when they are many they are what a
 * gate does all day: no format is interpreted for them, which would cost more than the decision. */
static void describe_limit(const struct tg_answer *answer, char *text, size_t size)
{
    const struct tg_decision *decision = &answer->axes.decision[tg_axes_binding(&answer->axes)];
    uint64_t left = decision->limit > 0 ? (uint64_t)decision->limit : 0;
    char digits[24];
    char *first = digits + sizeof digits - 1;

    *first = 0;
    do
        *--first = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    size_t n = answer_put(text, size, 0, tg_reason_name(answer->reason));
    n = answer_put(text, size, n, " limit of ");
    n = answer_put(text, size, n, first);
    n = answer_put(text, size, n,
                   decision->retry_after_ms == TG_UNSATISFIABLE ? " can never admit this call"
                                                                : " exceeded");
    if (size > 0)
        text[n] = 0;
}

static int answer_shown(size_t bytes)
{
    return bytes < 64 ? (int)bytes : 64;
}

void tg_answer_describe(const struct tg_answer *answer, const struct tg_call *call, char *text,
                        size_t size)
{
    switch (answer->reason) {
    case TG_REASON_MEMORY_PRESSURE:
        snprintf(text, size, "memory pressure: %.1f%% used", answer->memory_used * 100);
        return;
    case TG_REASON_PEER_LIMIT:
        snprintf(text, size, "peer %.*s exceeded per-peer limit", answer_shown(call->peer_bytes),
                 (const char *)call->peer);
        return;
    case TG_REASON_CONCURRENCY:
        snprintf(text, size, "server overloaded");
        return;
    case TG_REASON_POLICY:
        snprintf(text, size, "not worth its price at this load");
        return;
    case TG_REASON_RATE:
    case TG_REASON_COST:
        describe_limit(answer, text, size);
        return;
    case TG_REASON_NONE:
    case TG_REASON_COUNT:
        break;
    }
    if (size > 0)
        text[0] = 0;
}
