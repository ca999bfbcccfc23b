/* explain_service.c - what answers questions about limits, as a service.
 *
 * It takes no request: other services ask it, `explain` of the control thread, and answer what they
 * were asked (explain.h). It stands before them in the table, so that it is there while they are.
 */
#include "server/explain/explain_service.h"

#include <stdlib.h>

#include "lib/core/problem.h"
#include "server/explain/explain_internal.h"
#include "server/runtime/control.h"

static bool explain_start_worker(struct worker *worker, struct tg_problem *problem)
{
    worker->explain = calloc(1, sizeof *worker->explain);
    if (worker->explain == NULL)
        return problem_fail(problem, "no memory for a worker");
    LIST_INIT(&worker->explain->visits);
    return true;
}

static void explain_end_worker(struct worker *worker)
{
    explain_stop_worker(worker->explain);
    free(worker->explain);
    worker->explain = NULL;
}

static bool explain_start_control(struct control *control, struct tg_problem *problem)
{
    const struct explainer of = {.loop = control->loop,
                                 .gateway = control->gateway,
                                 .workers = control->workers,
                                 .n_workers = control->n_workers,
                                 .thread = control->number};

    control->explain = malloc(sizeof *control->explain);
    if (control->explain != NULL && explainer_init(control->explain, &of))
        return true;
    free(control->explain);
    control->explain = NULL;
    return problem_fail(problem, "no memory for the control thread");
}

static void explain_stop_control(struct control *control)
{
    explainer_fini(control->explain);
    free(control->explain);
    control->explain = NULL;
}

const struct service explain_service = {.name = "explain",
                                        .start = explain_start_worker,
                                        .stop = explain_end_worker,
                                        .start_control = explain_start_control,
                                        .stop_control = explain_stop_control};
