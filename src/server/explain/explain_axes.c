/* explain_axes.c - rate and cost: every limit of the call, and which refuse. See explain.h. */
#include <stdio.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/explain/explain_internal.h"

static void name_origin(const struct explanation *of, const struct tg_scope *scope,
                        struct explain_limit *limit)
{
    struct scopes_origin origin;
    char inner[EXPLAIN_WHAT_MAX];

    if (!scopes_origin(of->generation->scopes, of->tenant, scope->limits, &origin))
        return;
    limit->scope = origin.what == SCOPES_USERS ? "user"
                   : origin.what == SCOPES_KEY ? "key"
                                               : explain_scope(of, origin.tenant);
    limit->name = origin.what == SCOPES_USERS ? of->asked.user
                  : origin.what == SCOPES_KEY ? origin.key->name
                                              : origin.tenant->name;
    explain_place(origin.tenant, limit->source);
    if (origin.what == SCOPES_DEFAULTS)
        explain_from_section(of, limit,
                             strcmp(limit->stage, "rate") == 0 ? "gate.rate (default)"
                                                               : "gate.cost (default)");
    if (origin.what == SCOPES_LINE || origin.what == SCOPES_KEY) {
        const struct config_limits *line = origin.what == SCOPES_KEY
                                               ? &origin.key->own.limits[origin.line]
                                               : &origin.tenant->limits[origin.line];
        if (line->models.n > 0)
            limit->models = &line->models;
        memcpy(inner, limit->what, sizeof inner);
        snprintf(limit->what, sizeof limit->what, "limits[%zu]: %.130s", origin.line, inner);
    }
}

/* A limit of the file, without what is known of its state. */
static struct explain_limit *add_limiter(struct explanation *of, size_t scope, size_t number,
                                         enum tg_axis axis, enum tg_mode mode,
                                         const struct tg_limiter_config *config)
{
    bool is_rate = axis == TG_AXIS_RATE;
    struct explain_limit *limit =
        explain_add(of, is_rate ? "rate" : "cost", "tenant", of->tenant->name);

    if (limit == NULL)
        return NULL;
    limit->has_limiter = true;
    limit->limiter = *config;
    explain_limiter(config, limit->what);
    name_origin(of, &of->room[scope], limit);
    limit->of_scope = scope;
    limit->number = number;
    limit->unit = is_rate ? "calls" : "tokens";
    limit->mode = mode;
    return limit;
}

/* `left` is what is left now. */
static void set_decision(const struct explanation *of, const struct tg_decision *said, int64_t left,
                         struct explain_limit *limit)
{
    limit->limit = (double)said->limit;
    limit->remaining = (double)left;
    limit->reset_at = clock_wall_of(&of->gateway->clock, said->reset_at);
    limit->refuses = !said->allowed;
    limit->retry_after_ms = said->retry_after_ms;
}

struct tg_debit explain_debit_of(const struct explanation *of, size_t scope)
{
    struct tg_debit debit = of->gate_call.debit;

    debit.cost = of->expectation.charge;
    debit.scopes = &of->gate_call.debit.scopes[scope];
    debit.n_scopes = 1;
    if (debit.root == NULL) {
        debit.root = of->gate_call.debit.scopes[0].key;
        debit.root_bytes = of->gate_call.debit.scopes[0].key_bytes;
    }
    return debit;
}

/* By the gateway's own store: all there is, or its share. */
static void explain_axis_here(struct explanation *of, enum tg_axis axis, const char *whose)
{
    struct tg_limit_metrics limits[TG_LIMITS_MAX];

    for (size_t i = 0; i < of->gate_call.debit.n_scopes; i++) {
        const struct tg_debit charged = explain_debit_of(of, i);
        size_t n = tg_store_peek_scope(of->gateway->store, &charged, 0, of->now, limits);
        for (size_t k = 0; k < n; k++) {
            struct explain_limit *limit =
                limits[k].axis == axis
                    ? add_limiter(of, i, k, axis, limits[k].mode, &limits[k].config)
                    : NULL;
            if (limit == NULL)
                continue;
            set_decision(of, &limits[k].decision, limits[k].decision.remaining, limit);
            if (whose != NULL)
                explain_say_more(limit, whose);
        }
    }
}

/* By what the store has said, scope by scope. */
static void explain_axis_there(struct explanation *of, enum tg_axis axis,
                               const struct explain_visit *visit)
{
    int64_t units = axis == TG_AXIS_RATE ? 1 : of->expectation.charge;

    for (size_t i = 0; i < of->gate_call.debit.n_scopes; i++) {
        const struct limit_listed *set = &of->generation->listing->sets[of->room[i].limits];
        const struct explain_question *question = &visit->questions[1 + i];
        for (size_t k = 0; k < set->n; k++) {
            const struct tg_limit *from = &set->limits[k];
            struct explain_limit *limit =
                from->axis == axis ? add_limiter(of, i, k, axis, from->mode, &from->limiter.config)
                                   : NULL;
            const struct tg_limit_answer *named = &question->axes.named[axis];
            const struct tg_decision *said = &named->decision;
            if (limit == NULL || question->err != TG_OK || named->limit != k ||
                !(question->axes.present & 1u << axis))
                continue; /* one limit of each set is spoken of */
            set_decision(of, said,
                         said->allowed ? num_min(num_add(said->remaining, units), said->limit)
                                       : said->remaining,
                         limit);
        }
    }
}

/* The whole debit was asked about at once: that is what counts. Between it and the questions about
 * single scopes a moment may have passed. */
static void agree_with(struct explanation *of, enum tg_axis axis, size_t from,
                       const struct tg_axes *axes)
{
    bool refused = axes->present & 1u << axis && !axes->decision[axis].allowed;
    const struct tg_limit_answer *named = &axes->named[axis];

    for (size_t i = from; i < of->n; i++) {
        struct explain_limit *limit = &of->list[i];
        if (limit->mode == TG_SHADOW)
            continue;
        limit->refuses = limit->refuses && refused;
        if (!refused || limit->of_scope != named->scope || limit->number != named->limit)
            continue;
        set_decision(of, &named->decision, named->decision.remaining, limit);
        limit->named = true;
    }
}

void explain_axis(struct explanation *of, enum tg_axis axis)
{
    const struct explain_visit *visit = of->visits != NULL ? &of->visits[of->chosen] : NULL;
    size_t from = of->n;

    if (visit == NULL) {
        explain_axis_here(of, axis, of->gateway->remote != NULL ? "this gateway's share" : NULL);
        return;
    }
    switch (visit->questions[0].peek.mode) {
    case REMOTE_LOCAL:
        explain_axis_here(of, axis, "this gateway's share, for the store is away");
        break;
    case REMOTE_OPEN:
    case REMOTE_CLOSED:
        explain_axis_there(of, axis, visit); /* nothing is known but what is configured */
        break;
    default:
        explain_axis_there(of, axis, visit);
    }
    if (!explain_is_survey(of))
        agree_with(of, axis, from, &visit->questions[0].axes);
}

void explain_mark_unsatisfiable(struct explanation *of, size_t from)
{
    struct explain_limit *never = NULL;

    for (size_t i = from; i < of->n && never == NULL; i++)
        if (of->list[i].refuses && of->list[i].mode == TG_ENFORCE &&
            of->list[i].retry_after_ms == TG_UNSATISFIABLE)
            never = &of->list[i];
    if (never == NULL)
        return;
    for (size_t i = from; i < of->n; i++)
        of->list[i].named = &of->list[i] == never;
    for (size_t i = from; i < of->n; i++)
        if (of->list[i].refuses)
            of->list[i].reason = reply_reason_name(REPLY_REQUEST_EXCEEDS_LIMIT);
}
