/* explain_axes.c - rate and cost: every limit of the call, and which of them refuse. See explain.h. */
#include <stdio.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/admin/explain_internal.h"

static void name_origin(const struct explanation *of, const struct tg_scope *scope,
                        struct explain_limit *limit)
{
    struct scopes_origin origin;
    char inner[EXPLAIN_WHAT_MAX];

    if (!scopes_origin(of->generation->scopes, of->tenant, scope->limits, &origin))
        return;
    limit->scope = origin.what == SCOPES_USERS ? "user" : explain_scope(of, origin.tenant);
    limit->name = origin.what == SCOPES_USERS ? of->asked.user : origin.tenant->name;
    explain_place(origin.tenant, limit->source);
    if (origin.what == SCOPES_DEFAULTS)
        explain_from_section(of, limit,
                             strcmp(limit->stage, "rate") == 0 ? "gate.rate (default)"
                                                               : "gate.cost (default)");
    if (origin.what == SCOPES_LINE) {
        memcpy(inner, limit->what, sizeof inner);
        snprintf(limit->what, sizeof limit->what, "limits[%zu]: %.130s", origin.line, inner);
    }
}

/* A limit of the file, without what is known of its state. */
static struct explain_limit *add_limiter(struct explanation *of, const struct tg_scope *scope,
                                         enum tg_axis axis, enum tg_mode mode,
                                         const struct tg_limiter_config *config)
{
    bool is_rate = axis == TG_AXIS_RATE;
    struct explain_limit *limit =
        explain_add(of, is_rate ? "rate" : "cost", "tenant", of->tenant->name);

    if (limit == NULL)
        return NULL;
    explain_limiter(config, limit->what);
    name_origin(of, scope, limit);
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

/* By the gateway's own store: all there is, or its share. */
static void explain_axis_here(struct explanation *of, enum tg_axis axis, const char *whose)
{
    struct tg_limit_metrics limits[TG_LIMITS_MAX];
    struct tg_debit charged = of->gate_call.debit;

    charged.cost = of->expectation.charge;
    for (size_t i = 0; i < charged.n_scopes; i++) {
        size_t n = tg_store_peek_scope(of->gateway->store, &charged, i, of->now, limits);
        for (size_t k = 0; k < n; k++) {
            struct explain_limit *limit =
                limits[k].axis == axis
                    ? add_limiter(of, &of->room[i], axis, limits[k].mode, &limits[k].config)
                    : NULL;
            if (limit == NULL)
                continue;
            set_decision(of, &limits[k].decision, limits[k].decision.remaining, limit);
            if (whose != NULL)
                explain_say_more(limit, whose);
        }
    }
}

/* The limit of a set that the answer for an axis is about, as far as that can be told. */
static bool is_spoken_of(const struct limit_listed *set, size_t k, const struct tg_axes *axes)
{
    enum tg_axis axis = set->limits[k].axis;
    int64_t units = axes->decision[axis].limit;
    size_t alike = 0;

    if (!(axes->present & 1u << axis))
        return false;
    for (size_t i = 0; i < set->n; i++)
        alike += set->limits[i].axis == axis;
    const struct tg_limiter_config *config = &set->limits[k].limiter.config;
    return alike == 1 ||
           units ==
               (config->strategy == TG_GCRA && config->burst > 0 ? config->burst : config->limit);
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
                from->axis == axis
                    ? add_limiter(of, &of->room[i], axis, from->mode, &from->limiter.config)
                    : NULL;
            if (limit == NULL || question->err != TG_OK || !is_spoken_of(set, k, &question->axes))
                continue;
            const struct tg_decision *said = &question->axes.decision[axis];
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
    bool refused = axes->present & 1u << axis && !axes->decision[axis].allowed, found = false;
    struct explain_limit *first = NULL;

    for (size_t i = from; i < of->n; i++) {
        struct explain_limit *limit = &of->list[i];
        if (limit->mode == TG_SHADOW)
            continue;
        limit->refuses = limit->refuses && refused;
        found = found || limit->refuses;
        if (first == NULL)
            first = limit;
    }
    if (refused && !found && first != NULL)
        set_decision(of, &axes->decision[axis], axes->decision[axis].remaining, first);
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
    agree_with(of, axis, from, &visit->questions[0].axes);
}

void explain_mark_unsatisfiable(struct explanation *of, size_t from)
{
    bool never = false;

    for (size_t i = from; i < of->n; i++)
        never = never || (of->list[i].refuses && of->list[i].mode == TG_ENFORCE &&
                          of->list[i].retry_after_ms == TG_UNSATISFIABLE);
    for (size_t i = from; never && i < of->n; i++)
        if (of->list[i].refuses)
            of->list[i].reason = reply_reason_name(REPLY_REQUEST_EXCEEDS_LIMIT);
}
