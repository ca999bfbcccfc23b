/* explain.c - every stage that a call has to clear. See explain.h.
 *
 * One function a stage, in the order of the stages; each adds what it finds to a list, which is
 * then written. What is off, or not configured, adds nothing.
 */
#include "server/explain/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/explain/explain_internal.h"

/* ---- the whole ---- */

/* The call goes on with the next route: what has refused it there does not bind. */
static void pass_over(struct explanation *of)
{
    struct explain_limit *last = &of->list[of->n - 1];

    last->passed_over = true;
    of->served++;
}

static bool may_fall_back(const struct explanation *of)
{
    const struct explain_limit *last = &of->list[of->n - 1];

    return of->n > 0 && of->served + 1 < of->n_routes && last->mode == TG_ENFORCE &&
           strcmp(last->reason, reply_reason_name(REPLY_REQUEST_EXCEEDS_LIMIT)) != 0 &&
           strcmp(last->reason, reply_reason_name(REPLY_STORE_UNAVAILABLE)) != 0;
}

/* Slots of the route; where they refuse, of the next. */
static void explain_ways(struct explanation *of)
{
    while (!explain_route_slots(of, of->routes[of->served].route) && may_fall_back(of))
        pass_over(of);
}

static void explain_attempts(struct explanation *of)
{
    for (;;) {
        const struct explain_route *way = &of->routes[of->served];
        if (!explain_budgets(of, way) || explain_keys(of, way) || !may_fall_back(of))
            return;
        pass_over(of);
        explain_ways(of);
    }
}

static void explain_gate(struct explanation *of)
{
    size_t from;
    struct tg_answer said;

    if (tg_gate_peek(of->gateway->gate, &of->gate_call, of->now, &said) == TG_OK)
        explain_slots(of, of->gateway->gate, &said, "gate", NULL, &of->config->gate.concurrency,
                      of->config->gate.concurrency.assumed ? "gate.concurrency (default)"
                                                           : "gate.concurrency");
    explain_policy(of);
    from = of->n;
    explain_axis(of, TG_AXIS_RATE);
    explain_axis(of, TG_AXIS_COST);
    explain_mark_unsatisfiable(of, from);
    if (of->visits != NULL && of->visits[of->chosen].questions[0].err != TG_OK)
        explain_closed(of, "limits", "store_failure.limits", of->config->store.limits);
}

static void explain_list(struct explanation *of)
{
    struct tg_answer said = {.reason = TG_REASON_NONE};

    explain_drain(of);
    explain_user(of);
    if (tg_gate_peek(of->gateway->gate, &of->gate_call, of->now, &said) == TG_OK)
        explain_memory(of, &said);
    explain_peer(of);
    explain_patterns(of);
    explain_rules(of);
    if (of->has_route)
        explain_ways(of);
    explain_gate(of);
    if (of->has_route)
        explain_attempts(of);
}

/* Rate and cost are asked together. */
static bool is_same_answer(const char *stage, const char *later)
{
    return strcmp(stage, later) == 0 || (strcmp(stage, "rate") == 0 && strcmp(later, "cost") == 0);
}

/* The first stage that refuses, and of its limits the one that takes longest to pass. A call may
 * have to wait before it comes to that. */
static void explain_bind(struct explanation *of)
{
    of->binding = of->n;
    for (size_t i = 0; i < of->n; i++) {
        const struct explain_limit *limit = &of->list[i];
        bool refuses = limit->refuses && limit->mode == TG_ENFORCE && !limit->passed_over;
        of->waits = of->waits || (limit->waits && !refuses && of->binding == of->n);
        if (!refuses)
            continue;
        if (of->binding == of->n) {
            of->binding = i;
            continue;
        }
        const struct explain_limit *best = &of->list[of->binding];
        if (best->named || !is_same_answer(best->stage, limit->stage))
            continue;
        if (limit->named || (strcmp(best->stage, limit->stage) == 0 &&
                             limit->retry_after_ms > best->retry_after_ms))
            of->binding = i;
    }
}

/* ---- one question ---- */

/* Frees it; its visits have come back, or never will. */
static void explain_free(struct explanation *of)
{
    LIST_REMOVE(of, link);
    if (of->handle != NULL)
        *of->handle = NULL;
    if (of->holds)
        generation_unref(of->generation, of->explainer->thread);
    if (of->visits != NULL)
        free(of->visits[0].keys);
    free(of->visits);
    free(of->body);
    free(of);
}

static void explain_answer(struct explanation *of, enum explain_outcome outcome)
{
    explain_done *done = of->done;

    if (done != NULL) {
        explain_forget(of); /* done() may end whoever has asked */
        done(of->context, outcome, outcome == EXPLAIN_DONE ? of : NULL);
    }
    explain_free(of);
}

void explain_finish(struct explanation *of)
{
    if (of->done != NULL && explain_is_survey(of)) {
        explain_survey_list(of);
    } else if (of->done != NULL) {
        explain_list(of);
        explain_bind(of);
    }
    explain_answer(of, EXPLAIN_DONE);
}

const struct explain_limit *explain_list_of(const struct explanation *of, size_t *n)
{
    *n = of->n;
    return of->list;
}

bool explain_is_truncated(const struct explanation *of)
{
    return of->is_truncated;
}

const struct generation *explain_generation(const struct explanation *of)
{
    return of->generation;
}

enum remote_mode explain_limits_by(const struct explanation *of)
{
    return of->visits != NULL ? of->visits[of->chosen].questions[0].peek.mode : REMOTE_LOCAL;
}

enum remote_mode explain_budgets_by(const struct explanation *of)
{
    return of->visits != NULL ? of->visits[0].money.mode : REMOTE_LOCAL;
}

void explain_forget(struct explanation *of)
{
    if (of == NULL)
        return;
    *of->handle = NULL;
    of->handle = NULL;
    of->done = NULL;
}

static const char *keep_name(char to[EXPLAIN_NAME_MAX + 1], const char *name)
{
    if (name == NULL)
        return NULL;
    snprintf(to, EXPLAIN_NAME_MAX + 1, "%s", name);
    return to;
}

void explain_start(struct explainer *explainer, struct generation *generation,
                   const struct explain_call *asked, struct explanation **handle,
                   explain_done *done, void *context)
{
    struct explanation *of = calloc(1, sizeof *of);

    *handle = of;
    if (of == NULL) {
        done(context, EXPLAIN_NO_MEMORY, NULL);
        return;
    }
    of->explainer = explainer;
    of->done = done;
    of->context = context;
    of->handle = handle;
    LIST_INSERT_HEAD(&explainer->waiting, of, link);
    of->gateway = explainer->gateway;
    of->generation = generation;
    of->config = &generation->config;
    of->now = net_loop_now(explainer->loop);
    of->asked = *asked;
    of->asked.tenant = keep_name(of->names[0], asked->tenant);
    of->asked.model = keep_name(of->names[1], asked->model);
    of->asked.user = keep_name(of->names[2], asked->user);
    of->asked.key = keep_name(of->names[3], asked->key);
    enum explain_outcome outcome = explain_prepare(of);
    if (outcome == EXPLAIN_DONE)
        explain_ask_store(of);
    else
        explain_answer(of, outcome);
}

/* ---- all questions ---- */

bool explainer_init(struct explainer *explainer, const struct explainer *of)
{
    *explainer = *of;
    LIST_INIT(&explainer->waiting);
    explainer->reader = json_reader_new();
    return explainer->reader != NULL;
}

void explainer_fini(struct explainer *explainer)
{
    struct explanation *of;

    while ((of = LIST_FIRST(&explainer->waiting)) != NULL)
        explain_free(of);
    json_reader_free(explainer->reader);
    explainer->reader = NULL;
}
