/* net_timeline.c - random configurations and traces. */
#include "net_timeline.h"

#include <stdio.h>
#include <stdlib.h>

void timeline_say(struct timeline_text *text, const char *format, ...)
{
    va_list args;

    for (int round = 0; round < 2; round++) {
        va_start(args, format);
        int n = vsnprintf(text->at ? text->at + text->n : NULL, text->room - text->n, format, args);
        va_end(args);
        assert_true(n >= 0);
        if (text->n + (size_t)n < text->room) {
            text->n += (size_t)n;
            return;
        }
        text->room = 2 * (text->n + (size_t)n) + 256;
        text->at = realloc(text->at, text->room);
        assert_non_null(text->at);
    }
}

void timeline_init(struct timeline *timeline, uint64_t seed, uint64_t number)
{
    *timeline = (struct timeline){.draw = draw_stream(seed, number)};
}

void timeline_fini(struct timeline *timeline)
{
    free(timeline->config.at);
    free(timeline->trace.at);
}

static long long between(struct timeline *t, int64_t low, int64_t high)
{
    return (long long)draw_between(&t->draw, low, high);
}

static bool chance(struct timeline *t, int percent)
{
    return draw_chance(&t->draw, percent);
}

/* ---- limits ---- */

static const char *mode_of(struct timeline *t)
{
    return chance(t, 15) ? ", mode: shadow" : "";
}

/* Limits that a few calls exhaust, and that come back within seconds. */
static void say_limiter(struct timeline *t, const char *axis, bool on_cost)
{
    struct timeline_text *to = &t->config;
    long long units = on_cost ? 10 * between(t, 1, 40) : between(t, 1, 12);
    long long ms = between(t, 1, 60) * (chance(t, 50) ? 1000 : 37);

    timeline_say(to, "%s: {strategy: ", axis);
    switch (between(t, 0, on_cost ? 5 : 4)) {
    case 0:
        timeline_say(to, "gcra, limit: %lld, period: %lldms, burst: %lld", units, ms,
                     between(t, 1, units));
        break;
    case 1:
        timeline_say(to, "token_bucket, capacity: %lld, refill: %.3f", units,
                     0.1 + draw_unit(&t->draw) * (double)units);
        break;
    case 2:
        timeline_say(to, "fixed_window, limit: %lld, window: %lldms", units, ms);
        break;
    case 3:
        timeline_say(to, "sliding_window, limit: %lld, window: %lldms, buckets: %lld", units, ms,
                     chance(t, 20) ? between(t, 70, 900) : between(t, 1, 12));
        break;
    case 4:
        timeline_say(to, "sliding_log, limit: %lld, window: %lldms", units, ms);
        break;
    default:
        timeline_say(to, "token_budget, budget: %lld, window: %lldms", units, ms);
        break;
    }
    timeline_say(to, "%s}", mode_of(t));
}

static void say_line_limits(struct timeline *t)
{
    if (chance(t, 60))
        timeline_say(&t->config, "rpm: %lld, ", between(t, 1, 40));
    if (chance(t, 30))
        timeline_say(&t->config, "tpm: %lld, ", between(t, 10, 900));
    timeline_say(&t->config, "rpd: %lld%s", between(t, 5, 60), mode_of(t));
}

/* ---- the configuration ---- */

static void say_concurrency(struct timeline *t)
{
    static const char *const laws[] = {"vegas", "gradient2", "aimd", "fixed", "none"};

    if (chance(t, 55)) {
        long long initial = between(t, 1, 6);
        timeline_say(&t->config,
                     "  concurrency: {law: %s, initial: %lld, min: 1, max: %lld, window: 500ms}\n"
                     "  queue: {size: %lld, wait: {high: 900ms, normal: %lldms, low: %lldms}}\n",
                     laws[between(t, 0, 4)], initial, initial + between(t, 0, 6), between(t, 1, 5),
                     between(t, 1, 800), between(t, 0, 100));
    }
    if (chance(t, 30))
        timeline_say(&t->config, "  peers: {limit: %lld}\n", between(t, 1, 5));
    if (chance(t, 20))
        timeline_say(&t->config, "  memory: {}\n");
}

static void say_workload(struct timeline *t)
{
    timeline_say(&t->config,
                 "    workload: {arrivals: %lld, rate_budget: %lld, cost_budget: %lld, types: "
                 "[{cost: 10, value: 1, weight: 0.7}, {cost: 100, value: %lld, weight: 0.3}]}\n",
                 between(t, 20, 100), between(t, 5, 60), between(t, 100, 3000), between(t, 2, 20));
}

/* A price of what nothing limits is a mistake. */
static void say_policy(struct timeline *t, bool rated)
{
    static const char *const prices[] = {"duals", "workload", "adaptive", "online"};
    long long kind = between(t, 0, 3);

    timeline_say(&t->config, "  policy:\n    kind: bid-price\n    prices: %s\n", prices[kind]);
    if (chance(t, 15))
        timeline_say(&t->config, "    mode: shadow\n");
    if (kind == 0)
        timeline_say(&t->config, "    duals: {rate: %.2f, cost: %.4f}\n",
                     rated ? draw_unit(&t->draw) : 0, draw_unit(&t->draw) / 20);
    else
        say_workload(t);
    if (kind == 2)
        timeline_say(&t->config, "    adaptive: {sample_window: %lld}\n", between(t, 3, 20));
    if (kind == 3)
        timeline_say(&t->config,
                     "    online: {window: %lldms, rate_budget: %lld, cost_budget: %lld}\n",
                     between(t, 500, 20000), between(t, 2, 30), between(t, 50, 2000));
}

static void say_gate(struct timeline *t)
{
    timeline_say(&t->config, "gate:\n  charging: %s\n  lease_ttl: %lldms\n",
                 chance(t, 50) ? "atomic" : "per-axis",
                 chance(t, 50) ? 600000 : between(t, 200, 5000));
    say_concurrency(t);
    bool rated = chance(t, 75);
    if (rated) {
        timeline_say(&t->config, "  ");
        say_limiter(t, "rate", false);
        timeline_say(&t->config, "\n");
    }
    /* Bid prices need a cost axis. */
    bool priced = chance(t, 40);
    if (priced || chance(t, 75)) {
        timeline_say(&t->config, "  ");
        say_limiter(t, "cost", true);
        timeline_say(&t->config, "\n");
    }
    if (priced)
        say_policy(t, rated);
}

static void say_tenant(struct timeline *t, int number)
{
    struct timeline_text *to = &t->config;

    timeline_say(to, "  - name: t%d\n", number);
    t->levels[number] = 1;
    if (number > 0 && chance(t, 60)) {
        int parent = (int)between(t, number > 2 ? number - 2 : 0, number - 1);
        if (t->levels[parent] < TIMELINE_LEVELS) {
            t->levels[number] = t->levels[parent] + 1;
            timeline_say(to, "    parent: t%d\n", parent);
        }
    }
    if (chance(t, 50)) {
        timeline_say(to, "    ");
        say_limiter(t, "rate", false);
        timeline_say(to, "\n");
    }
    if (chance(t, 50)) {
        timeline_say(to, "    ");
        say_limiter(t, "cost", true);
        timeline_say(to, "\n");
    }
    if (chance(t, 40)) {
        timeline_say(to, "    limits:\n      - {models: [\"m1\", \"x*\"], ");
        say_line_limits(t);
        timeline_say(to, "}\n      - {");
        say_line_limits(t);
        timeline_say(to, "}\n");
    }
    if (chance(t, 30)) {
        timeline_say(to, "    users: {from: \"header:x-user\", each: {");
        say_line_limits(t);
        timeline_say(to, "}}\n");
    }
    if (chance(t, 25))
        timeline_say(to, "    concurrency: %lld\n", between(t, 1, 4));
    if (chance(t, 10))
        timeline_say(to, "    mode: shadow\n");
    timeline_say(to, "    value: %lld\n", between(t, 0, 10));
}

/* ---- the trace ---- */

static void say_who(struct timeline *t)
{
    static const char *const models[] = {"m1", "m2", "x-large", "{m}"};
    static const char *const users[] = {"ann", "bob", "a:b%}{"};

    if (chance(t, 85))
        timeline_say(&t->trace, ",\"key\":\"t%lld\"", between(t, 0, t->tenants - 1));
    else
        timeline_say(&t->trace, ",\"key\":\"%s\"", chance(t, 50) ? "" : "{stranger}:1");
    if (chance(t, 60))
        timeline_say(&t->trace, ",\"model\":\"%s\"", models[between(t, 0, 3)]);
    if (chance(t, 50))
        timeline_say(&t->trace, ",\"user\":\"%s\"", users[between(t, 0, 2)]);
    if (chance(t, 30))
        timeline_say(&t->trace, ",\"peer\":\"p%lld\"", between(t, 0, 2));
}

static void say_admit(struct timeline *t, int number)
{
    static const char *const priorities[] = {"high", "normal", "low"};

    timeline_say(&t->trace, "{\"t\":%lld,\"id\":%d", (long long)t->now, number);
    say_who(t);
    if (chance(t, 90))
        timeline_say(&t->trace, ",\"cost\":%lld",
                     chance(t, 10)  ? 0
                     : chance(t, 5) ? (long long)draw_magnitude(&t->draw, TG_NUMBER_MAX)
                                    : (long long)draw_magnitude(&t->draw, 300));
    if (chance(t, 40))
        timeline_say(&t->trace, ",\"priority\":\"%s\"", priorities[between(t, 0, 2)]);
    if (chance(t, 40))
        timeline_say(&t->trace, ",\"value\":%lld,\"hold\":%.2f", between(t, 0, 20),
                     draw_unit(&t->draw) * 3);
    timeline_say(&t->trace, "}\n");
}

/* Releases a call that was admitted, was refused, waits, or has ended already. */
static void say_release(struct timeline *t, int number)
{
    static const char *const outcomes[] = {"ok", "ok", "dropped", "cancelled"};

    timeline_say(&t->trace, "{\"t\":%lld,\"op\":\"release\",\"id\":%lld,\"outcome\":\"%s\"",
                 (long long)t->now, between(t, number > 8 ? number - 8 : 0, number),
                 outcomes[between(t, 0, 3)]);
    if (chance(t, 70))
        timeline_say(&t->trace, ",\"actual\":%lld",
                     chance(t, 20)  ? 0
                     : chance(t, 4) ? (long long)draw_magnitude(&t->draw, TG_NUMBER_MAX)
                                    : (long long)draw_magnitude(&t->draw, 400));
    if (chance(t, 30))
        timeline_say(&t->trace, ",\"sample\":%lld", between(t, 1, 900));
    timeline_say(&t->trace, "}\n");
}

static void move_clock(struct timeline *t)
{
    long long choice = between(t, 0, 99);

    if (choice < 35)
        return;
    if (choice < 85)
        t->now += draw_magnitude(&t->draw, 3000);
    else if (choice < 93)
        t->now -= draw_magnitude(&t->draw, 20000);
    else
        t->now += draw_magnitude(&t->draw, 200000);
    t->now = t->now < 0 ? 0 : t->now > TG_NUMBER_MAX ? TG_NUMBER_MAX : t->now;
}

void timeline_draw(struct timeline *t, int lines)
{
    t->tenants = (int)between(t, 1, TIMELINE_TENANTS);
    t->now = chance(t, 70) ? 1700000000000 + between(t, 0, 1000000) : between(t, 0, 5000);
    say_gate(t);
    timeline_say(&t->config, "tenants:\n");
    for (int i = 0; i < t->tenants; i++)
        say_tenant(t, i);
    for (int i = 0; i < lines; i++) {
        long long choice = between(t, 0, 99);
        move_clock(t);
        if (choice < 70)
            say_admit(t, i);
        else if (choice < 95)
            say_release(t, i);
        else if (choice < 97)
            timeline_say(&t->trace, "{\"t\":%lld,\"op\":\"memory\",\"used\":%.2f}\n",
                         (long long)t->now, draw_unit(&t->draw));
        else
            timeline_say(&t->trace, "{\"t\":%lld,\"op\":\"limits\"}\n", (long long)t->now);
    }
}
