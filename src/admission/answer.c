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

static int shown(size_t bytes)
{
    return bytes < 64 ? (int)bytes : 64;
}

void tg_answer_describe(const struct tg_answer *answer, const struct tg_call *call, char *text,
                        size_t size)
{
    enum tg_axis binding = tg_axes_binding(&answer->axes);

    switch (answer->reason) {
    case TG_REASON_MEMORY_PRESSURE:
        snprintf(text, size, "memory pressure: %.1f%% used", answer->memory_used * 100);
        return;
    case TG_REASON_PEER_LIMIT:
        snprintf(text, size, "peer %.*s exceeded per-peer limit", shown(call->peer_bytes),
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
        snprintf(text, size,
                 answer->axes.decision[binding].retry_after_ms == TG_UNSATISFIABLE
                     ? "%s limit of %lld can never admit this call"
                     : "%s limit of %lld exceeded",
                 tg_reason_name(answer->reason), (long long)answer->axes.decision[binding].limit);
        return;
    case TG_REASON_NONE:
    case TG_REASON_COUNT:
        break;
    }
    if (size > 0)
        text[0] = 0;
}
