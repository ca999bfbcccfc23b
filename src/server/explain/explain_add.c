/* explain_add.c - limits, on the way to the list of an explanation. See explain.h. */
#include <stdio.h>
#include <string.h>

#include "server/explain/explain_internal.h"

struct explain_limit *explain_add(struct explanation *of, const char *stage, const char *scope,
                                  const char *name)
{
    struct explain_limit *limit;

    if (of->n == EXPLAIN_LIMITS_MAX) {
        of->is_truncated = true;
        return NULL;
    }
    limit = &of->list[of->n++];
    *limit = (struct explain_limit){.stage = stage,
                                    .reason = stage,
                                    .scope = scope,
                                    .name = name,
                                    .unit = "calls",
                                    .limit = EXPLAIN_UNKNOWN,
                                    .remaining = EXPLAIN_UNKNOWN};
    return limit;
}

void explain_from_section(const struct explanation *of, struct explain_limit *limit,
                          const char *section)
{
    const char *file = of->config->n_sources > 0 ? of->config->sources[0].path : "";

    snprintf(limit->source, sizeof limit->source, "%.300s%s%.90s", file, *file != '\0' ? ": " : "",
             section);
}

enum tg_mode explain_mode(enum config_mode mode)
{
    return mode == CONFIG_SHADOW ? TG_SHADOW : TG_ENFORCE;
}

const char *explain_scope(const struct explanation *of, const struct config_tenant *tenant)
{
    return tenant == of->tenant ? "tenant" : "parent";
}

void explain_add_refusal(struct explanation *of, const struct refusal *why, const char *scope,
                         const char *name)
{
    struct explain_limit *limit = explain_add(of, reply_reason_name(why->reason), scope, name);

    if (limit == NULL)
        return;
    snprintf(limit->what, sizeof limit->what, "%.150s", why->text);
    explain_place(of->tenant, limit->source);
    limit->unit = "call";
    limit->refuses = true;
}

void explain_say_more(struct explain_limit *limit, const char *text)
{
    size_t n = strlen(limit->what);

    snprintf(limit->what + n, sizeof limit->what - n, "; %s", text);
}

void explain_closed(struct explanation *of, const char *what, const char *section,
                    enum config_away away)
{
    struct explain_limit *limit = explain_add(of, "store_unavailable", "store", NULL);
    char problem[100] = "";

    if (limit == NULL)
        return;
    remote_problem(of->gateway->remote, problem, sizeof problem);
    /* Strict, `local` has nothing of its own to spend. */
    bool is_closed = away == CONFIG_AWAY_CLOSED;
    snprintf(limit->what, sizeof limit->what, "%s cannot be asked for, and %s is %s%s%s", what,
             section, is_closed ? "closed" : "local, with nothing leased",
             *problem != '\0' ? ": " : "", problem);
    explain_from_section(of, limit, section);
    limit->unit = "store";
    limit->refuses = true;
}
