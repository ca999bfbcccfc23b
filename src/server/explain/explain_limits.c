/* explain_limits.c - limits in words and in JSON. See explain.h. */
#include "server/explain/explain_limits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EXPLAIN_SPAN_MAX 32

/* "1m", "1500ms", "30d": in the largest unit that it is a whole number of. */
static void explain_span(tg_ms ms, char text[EXPLAIN_SPAN_MAX])
{
    static const struct {
        tg_ms ms;
        const char *name;
    } UNITS[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
    size_t i = 0;

    while (UNITS[i].ms > 1 && (ms == 0 || ms % UNITS[i].ms != 0))
        i++;
    snprintf(text, EXPLAIN_SPAN_MAX, "%lld%s", (long long)(ms / UNITS[i].ms), UNITS[i].name);
}

void explain_money(tg_micro micro, char text[EXPLAIN_MONEY_MAX])
{
    int n = snprintf(text, EXPLAIN_MONEY_MAX - 4, "%lld.%06lld", (long long)(micro / 1000000),
                     (long long)(micro % 1000000));

    while (text[n - 1] == '0')
        n--;
    if (text[n - 1] == '.')
        n--;
    snprintf(text + n, 5, " USD");
}

void explain_limiter(const struct tg_limiter_config *config, char text[EXPLAIN_WHAT_MAX])
{
    const char *name = tg_strategy_name(config->strategy);
    char span[EXPLAIN_SPAN_MAX];

    explain_span(config->period, span);
    switch (config->strategy) {
    case TG_GCRA:
        snprintf(text, EXPLAIN_WHAT_MAX, "%s, %lld in %s, burst %lld", name,
                 (long long)config->limit, span,
                 (long long)(config->burst > 0 ? config->burst : config->limit));
        break;
    case TG_TOKEN_BUCKET:
        snprintf(text, EXPLAIN_WHAT_MAX, "%s, capacity %lld, refill %g a second", name,
                 (long long)config->limit, config->refill);
        break;
    default:
        snprintf(text, EXPLAIN_WHAT_MAX, "%s, %lld in %s", name, (long long)config->limit, span);
    }
}

const char *explain_mode_name(enum tg_mode mode)
{
    return mode == TG_SHADOW ? "shadow" : "enforce";
}

const char *explain_key_status(const struct tg_key_metrics *key)
{
    if (key->state == TG_KEY_DISABLED)
        return "disabled";
    if (key->state == TG_KEY_SUSPENDED)
        return "suspended";
    if (key->cool_down_until > 0)
        return "cooling";
    if (key->breaker == TG_BREAKER_OPEN)
        return "broken";
    if (key->breaker == TG_BREAKER_HALF_OPEN)
        return "probing";
    return key->rpm_remaining == 0 || key->tpm_remaining == 0 ? "full" : "ready";
}

void explain_place(const struct config_tenant *tenant, char text[EXPLAIN_PLACE_MAX])
{
    if (tenant->extra || tenant->line == 0)
        snprintf(text, EXPLAIN_PLACE_MAX, "%s", tenant->file != NULL ? tenant->file : "");
    else
        snprintf(text, EXPLAIN_PLACE_MAX, "%.370s:%zu", tenant->file, tenant->line);
}

/* ---- one limit ---- */

static void write_real(struct json_writer *out, const char *key, double number)
{
    if (number < 0)
        json_member_null(out, key);
    else if (number == floor(number) && number <= (double)TG_NUMBER_MAX)
        json_member_number(out, key, (int64_t)number);
    else
        json_member_real(out, key, number);
}

static void say_left(const struct explain_limit *limit, char text[96])
{
    char money[2][EXPLAIN_MONEY_MAX];

    text[0] = '\0';
    if (limit->remaining < 0 || limit->limit < 0)
        return;
    if (strcmp(limit->unit, "micro_usd") == 0) {
        explain_money((tg_micro)limit->remaining, money[0]);
        explain_money((tg_micro)limit->limit, money[1]);
        snprintf(text, 96, ": %s of %s left", money[0], money[1]);
    } else if (strcmp(limit->unit, "ratio") == 0) {
        snprintf(text, 96, ": %.1f%% of %.1f%% left", 100 * limit->remaining, 100 * limit->limit);
    } else {
        snprintf(text, 96, ": %.6g of %.6g %s left", limit->remaining, limit->limit, limit->unit);
    }
}

/* To two digits of its largest unit, for people. */
static tg_ms round_up(tg_ms ms)
{
    static const tg_ms UNITS[] = {86400000, 3600000, 60000, 1000};

    for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++)
        if (ms >= 10 * UNITS[i])
            return (ms + UNITS[i] - 1) / UNITS[i] * UNITS[i];
    return ms;
}

static void say_when(const struct explain_limit *limit, char text[64])
{
    char span[EXPLAIN_SPAN_MAX];

    text[0] = '\0';
    if (!limit->refuses)
        return;
    if (limit->retry_after_ms == TG_UNSATISFIABLE) {
        snprintf(text, 64, "; it never will, the call is larger than the limit");
    } else if (limit->retry_after_ms > 0) {
        explain_span(round_up(limit->retry_after_ms), span);
        snprintf(text, 64, "; in %s it may pass", span);
    }
}

static void explain_limits_say(const struct explain_limit *limit, char text[512])
{
    char left[96], when[64];

    say_left(limit, left);
    say_when(limit, when);
    snprintf(text, 512, "%s%s%.100s (%s)%s%s%s", limit->scope, limit->name != NULL ? " " : "",
             limit->name != NULL ? limit->name : "", limit->what, left,
             limit->waits               ? "; such a call waits"
             : !limit->refuses          ? ""
             : limit->mode == TG_SHADOW ? "; would refuse, but is in shadow"
             : limit->passed_over       ? "; refuses, and a fallback serves"
                                        : "; refuses",
             when);
}

void explain_write_limit(struct json_writer *out, const struct explain_limit *limit)
{
    bool later =
        limit->refuses && limit->retry_after_ms > 0 && limit->retry_after_ms != TG_UNSATISFIABLE;
    char text[512];

    explain_limits_say(limit, text);
    json_write_object(out);
    json_member_text(out, "stage", limit->stage);
    json_member_text(out, "scope", limit->scope);
    json_member_text(out, "name", limit->name);
    json_member_text(out, "what", limit->what);
    json_member_text(out, "source", limit->source);
    json_member_text(out, "mode", explain_mode_name(limit->mode));
    json_member_text(out, "unit", limit->unit);
    write_real(out, "limit", limit->limit);
    write_real(out, "remaining", limit->remaining);
    json_member_unless(out, "reset_at", limit->reset_at, 0);
    json_member_unless(out, "retry_after_ms", later ? limit->retry_after_ms : 0, 0);
    json_member_flag(out, "refuses", limit->refuses);
    json_member_flag(out, "waits", limit->waits);
    json_member_text(out, "text", text);
    json_write_object_end(out);
}

/* ---- rules ---- */

static void say_rule(const struct field_rule *rule, char *text, size_t size)
{
    size_t n =
        (size_t)snprintf(text, size, "%s%.80s", rule->is_header ? "header " : "", rule->name);

    if (rule->require && n < size)
        n += (size_t)snprintf(text + n, size - n, ", required");
    if (rule->deny_all && n < size)
        n += (size_t)snprintf(text + n, size - n, ", not allowed");
    if (rule->has_allow && rule->allowed != NULL && n < size)
        n += (size_t)snprintf(text + n, size - n, ", one of %.200s", rule->allowed);
    if (!rule->deny_all && rule->deny != 0 && n < size)
        n += (size_t)snprintf(text + n, size - n, ", some values not allowed");
    if (rule->has_min && n < size)
        n += (size_t)snprintf(text + n, size - n, ", at least %g", rule->min);
    if (rule->has_max && n < size)
        n += (size_t)snprintf(text + n, size - n, ", at most %.15g", rule->max);
    if (rule->change != RULE_KEEPS && rule->text != NULL && n < size)
        snprintf(text + n, size - n, ", %s %.100s", rule->change == RULE_SET ? "set to" : "default",
                 rule->text);
}

void explain_write_rules(struct json_writer *out, const struct field_rules *rules)
{
    char text[512];

    json_write_key(out, "rules");
    json_write_array(out);
    for (size_t i = 0; i < rules->n; i++) {
        say_rule(&rules->list[i], text, sizeof text);
        json_write_string(out, text, strlen(text));
    }
    json_write_array_end(out);
}
