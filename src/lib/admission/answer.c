/* answer.c - what an answer says: names, and words for people. */
#include <stdio.h>
#include <string.h>

#include "lib/core/decision.h"

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

/* ---- text ----
 *
 * Most refusals are by rate or cost, and when they are many they are what a gate does all day: no
 * format is interpreted for them, which would cost more than the decision. */

/* A text that is cut where its room ends. */
struct words {
    char *text;
    size_t size, n;
};

static void put_bytes(struct words *words, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && words->n + 1 < words->size; i++)
        words->text[words->n++] = bytes[i];
}

static void put_text(struct words *words, const char *text)
{
    while (*text != 0 && words->n + 1 < words->size)
        words->text[words->n++] = *text++;
}

static void put_number(struct words *words, int64_t number)
{
    uint64_t left = number > 0 ? (uint64_t)number : 0;
    char digits[24];
    char *first = digits + sizeof digits - 1;

    *first = 0;
    do
        *--first = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    put_text(words, first);
}

/* A number that printf() has written, whatever the locale puts for the point. */
static void put_printed(struct words *words, const char *number)
{
    for (const char *at = number; *at != 0; at++)
        if ((*at >= '0' && *at <= '9') || *at == 'e' || *at == '+' || *at == '-')
            put_bytes(words, at, 1);
        else if (words->n > 0 && words->text[words->n - 1] != '.')
            put_bytes(words, ".", 1);
}

/* Names are somebody's choice. */
static void put_any_name(struct words *words, const void *name, size_t bytes)
{
    put_bytes(words, name, bytes < 64 ? bytes : 64);
}

/* "120 ms", "8.6 s", "12 min 3 s", "3 h 20 min", "2 days": rounded up, since less would be too
 * short. */
static void put_duration(struct words *words, tg_ms ms)
{
    static const int64_t SECOND = 1000, MINUTE = 60000, HOUR = 3600000, DAY = 86400000;
    int64_t tenths = (ms + 99) / 100;

    if (ms < SECOND) {
        put_number(words, ms);
        put_text(words, " ms");
    } else if (tenths * 100 < MINUTE) {
        put_number(words, tenths / 10);
        if (tenths % 10 != 0) {
            put_text(words, ".");
            put_number(words, tenths % 10);
        }
        put_text(words, " s");
    } else {
        bool minutes = ms <= HOUR - SECOND, hours = !minutes && ms <= DAY;
        int64_t large = minutes ? MINUTE
                        : hours ? HOUR
                                : DAY,
                small = minutes ? SECOND
                        : hours ? MINUTE
                                : HOUR;
        int64_t all = (ms + small - 1) / small, in_large = large / small;
        put_number(words, all / in_large);
        put_text(words, minutes ? " min" : hours ? " h" : all / in_large == 1 ? " day" : " days");
        if (all % in_large == 0)
            return;
        put_text(words, " ");
        put_number(words, all % in_large);
        put_text(words, minutes ? " s" : hours ? " min" : " h");
    }
}

/* "a minute", "every 1.5 s"; with `each`, "each minute", "each 1.5 s". */
static void put_period(struct words *words, const char *each, tg_ms period)
{
    static const struct {
        tg_ms ms;
        const char *a, *name;
    } known[] = {{1000, "a ", "second"},
                 {60000, "a ", "minute"},
                 {3600000, "an ", "hour"},
                 {86400000, "a ", "day"}};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].ms == period) {
            put_text(words, each ? each : known[i].a);
            put_text(words, known[i].name);
            return;
        }
    put_text(words, each ? each : "every ");
    put_duration(words, period);
}

/* "6 calls", "1 call". */
static void put_amount(struct words *words, int64_t amount, const char *unit)
{
    size_t n = strlen(unit);

    put_number(words, amount);
    put_text(words, " ");
    put_bytes(words, unit, amount == 1 && n > 1 && unit[n - 1] == 's' ? n - 1 : n);
}

/* A refill in the longest usual time in which it is a whole number: 833.33 a second is 50000 a
 * minute. */
static void put_refill(struct words *words, const struct tg_limiter_config *config,
                       const char *unit)
{
    static const tg_ms periods[] = {1000, 60000, 3600000, 86400000};
    char text[32];

    for (size_t i = 0; i < sizeof periods / sizeof periods[0]; i++) {
        double amount = config->refill * (double)periods[i] / 1000;
        double whole = amount < (double)TG_NUMBER_MAX ? (double)(int64_t)(amount + 0.5) : 0;
        if (whole < 1 || amount - whole > 1e-9 * whole || whole - amount > 1e-9 * whole)
            continue;
        put_amount(words, (int64_t)whole, unit);
        put_text(words, " ");
        put_period(words, NULL, periods[i]);
        if ((int64_t)whole == config->limit)
            return;
        put_text(words, ", at most ");
        put_number(words, config->limit);
        return;
    }
    snprintf(text, sizeof text, "%g", config->refill);
    put_printed(words, text);
    put_text(words, " ");
    put_text(words, unit);
    put_text(words, " a second, at most ");
    put_number(words, config->limit);
}

/* "6 calls a minute". Of a limiter that is none of ours nobody knows: "at most 6 calls". */
static void put_rule(struct words *words, const struct tg_limiter *limiter, int64_t most,
                     const char *unit)
{
    const struct tg_limiter_config *config = limiter ? &limiter->config : NULL;

    if (!config || !limiter->ops || limiter->ops->name != tg_strategy_name(config->strategy)) {
        put_text(words, "at most ");
        put_amount(words, most, unit);
        return;
    }
    if (config->strategy == TG_TOKEN_BUCKET) {
        put_refill(words, config, unit);
        return;
    }
    bool slides = config->strategy == TG_SLIDING_WINDOW || config->strategy == TG_SLIDING_LOG;
    put_amount(words, config->limit, unit);
    put_text(words, " ");
    put_period(words,
               config->strategy == TG_GCRA ? NULL
               : slides                    ? "in any "
                                           : "in each ",
               config->period);
    if (config->strategy == TG_GCRA && config->burst != config->limit) {
        put_text(words, ", at most ");
        put_number(words, config->burst);
        put_text(words, " at once");
    }
}

void tg_limiter_describe(const struct tg_limiter *limiter, const char *unit, char *text,
                         size_t size)
{
    struct words words = {text, size, 0};

    if (size == 0 || !text)
        return;
    text[0] = 0;
    if (!limiter || !unit)
        return;
    put_rule(&words, limiter, limiter->config.limit, unit);
    text[words.n] = 0;
}

/* ---- refusals ---- */

/* " of tenant dept"; nothing if the scope has no name. */
static void put_owner(struct words *words, const struct tg_scope *scope)
{
    if (!scope->kind)
        return;
    put_text(words, " of ");
    put_text(words, scope->kind);
    put_text(words, " ");
    put_any_name(words, scope->key, scope->key_bytes);
    if (scope->suffix)
        put_text(words, scope->suffix);
}

static void describe_limit(struct words *words, const struct tg_answer *answer,
                           const struct tg_call *call)
{
    enum tg_axis axis;
    const struct tg_limit_answer *named = axes_spoken_of(&answer->axes, &axis);
    const struct tg_debit *debit = &call->debit;
    bool is_rate = axis == TG_AXIS_RATE;
    bool never = answer->decision.retry_after_ms == TG_UNSATISFIABLE;

    /* Charged per axis, cost was only peeked at. */
    if (never && named->decision.retry_after_ms < TG_UNSATISFIABLE) {
        put_text(words, "a cost limit can never admit this call");
        return;
    }
    put_text(words, is_rate ? "rate limit" : "cost limit");
    if (named->scope < debit->n_scopes)
        put_owner(words, &debit->scopes[named->scope]);
    put_text(words, ": ");
    put_rule(words, named->limiter, named->decision.limit,
             is_rate      ? "calls"
             : call->unit ? call->unit
                          : "units");
    if (never) {
        put_text(words, ", can never admit this call");
        return;
    }
    put_text(words, ", ");
    put_number(words, named->decision.remaining);
    put_text(words, is_rate ? " left, next in " : " left, enough in ");
    put_duration(words, named->decision.retry_after_ms);
}

static void describe_slots(struct words *words, const struct tg_answer *answer,
                           const struct tg_call *call)
{
    put_text(words, "server overloaded: concurrency limit");
    if (call->gate_kind) {
        put_text(words, " of ");
        put_text(words, call->gate_kind);
    }
    if (call->gate_kind && call->gate_name) {
        put_text(words, " ");
        put_any_name(words, call->gate_name, strlen(call->gate_name));
    }
    put_text(words, ": ");
    put_amount(words, answer->decision.limit, "calls");
    put_text(words, " at once, try again in ");
    put_duration(words, answer->client_wait_ms);
}

static void describe_peer(struct words *words, const struct tg_answer *answer,
                          const struct tg_call *call)
{
    put_text(words, "peer ");
    put_any_name(words, call->peer, call->peer_bytes);
    put_text(words, " exceeded per-peer limit: ");
    put_amount(words, answer->decision.limit, "calls");
    put_text(words, " at once");
}

void tg_answer_describe(const struct tg_answer *answer, const struct tg_call *call, char *text,
                        size_t size)
{
    struct words words = {text, size, 0};
    char number[32];

    if (size == 0 || !text)
        return;
    text[0] = 0;
    if (!answer || !call)
        return;
    switch (answer->reason) {
    case TG_REASON_MEMORY_PRESSURE:
        snprintf(number, sizeof number, "%.1f", answer->memory_used * 100);
        put_text(&words, "memory pressure: ");
        put_printed(&words, number);
        put_text(&words, "% used");
        break;
    case TG_REASON_PEER_LIMIT:
        describe_peer(&words, answer, call);
        break;
    case TG_REASON_CONCURRENCY:
        describe_slots(&words, answer, call);
        break;
    case TG_REASON_POLICY:
        put_text(&words, "not worth its price at this load");
        break;
    case TG_REASON_RATE:
    case TG_REASON_COST:
        describe_limit(&words, answer, call);
        break;
    case TG_REASON_NONE:
    case TG_REASON_COUNT:
        break;
    }
    text[words.n] = 0;
}
