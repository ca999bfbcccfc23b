/* cluster_gate.c - the admission policy `gate`: the library's own gate before a cluster.
 *
 * The gate's clock has milliseconds, the cluster's microseconds. What is due for the gate at a
 * millisecond happens before the first event of the next one: so of several requests within one
 * millisecond none finds a wait ended early. Nobody else knows when a wait is over, so the run is
 * woken then by an event of its own.
 *
 * A lease ends when its request's client has the last token, which is a step later than the
 * instance frees its blocks.
 */
#include <assert.h>
#include <stdlib.h>

#include "lab/cluster/cluster_internal.h"
#include "lab/regret/gate_run.h"

/* A request that is being decided. */
struct gate_waiter {
    struct gate_run_call call; /* first: the run knows it by it */
    struct tg_scope room[TG_SCOPES_MAX];
    uint32_t request;
    int64_t asked_us;
    struct gate_waiter *next_spare, *next_made;
};

struct cluster_gate_state {
    struct gate_run run;
    tg_lease *leases; /* the lease of each request */
    struct gate_waiter *spare, *made;
    int64_t tick_us; /* when a tick is due; INT64_MAX: none is */
};

/* What the gate's clock shows. */
static tg_ms now_of(const struct cluster_run_state *run)
{
    return run->config->gate->epoch_ms + run->now_us / 1000;
}

static struct gate_waiter *get_waiter(struct cluster_gate_state *gate)
{
    struct gate_waiter *waiter = gate->spare;

    if (waiter != NULL) {
        gate->spare = waiter->next_spare;
        return waiter;
    }
    waiter = calloc(1, sizeof *waiter);
    if (waiter == NULL)
        return NULL;
    waiter->next_made = gate->made;
    gate->made = waiter;
    return waiter;
}

static void on_decided(void *context, struct gate_run_call *call, enum tg_err err,
                       const struct tg_answer *answer, tg_ms at)
{
    struct cluster_run_state *run = context;
    struct gate_waiter *waiter = (struct gate_waiter *)call;
    struct cluster_outcome *outcome = &run->world.outcomes[waiter->request];
    uint32_t request = waiter->request;

    (void)at;
    waiter->next_spare = run->gate->spare;
    run->gate->spare = waiter;
    if (err != TG_OK) {
        cluster_fail(run, err, tg_strerror(err));
        return;
    }
    assert(run->now_us >= waiter->asked_us && run->gate->leases[request] == 0);
    outcome->gateway_us += run->now_us - waiter->asked_us;
    if (answer->decision.allowed) {
        run->gate->leases[request] = answer->lease;
        decision_pass(run, request);
        return;
    }
    int64_t retry_ms = answer->decision.retry_after_ms;
    outcome->reason = CLUSTER_REASON_GATE;
    outcome->detail = (double)answer->reason;
    decision_refuse(run, request, CLUSTER_REJECTED,
                    retry_ms == TG_NUMBER_MAX ? RETRY_NEVER
                    : retry_ms > 0            ? retry_ms * 1000
                                              : RETRY_UNSAID);
}

/* An event for the next time that a wait may be over. */
static void set_tick(struct cluster_run_state *run)
{
    struct cluster_gate_state *gate = run->gate;
    tg_ms due = gate->run.waiting > 0 ? tg_gate_next_deadline(gate->run.gate) : INT64_MAX;

    if (due >= INT64_MAX / 2000)
        return;
    due -= run->config->gate->epoch_ms;
    if ((due + 1) * 1000 >= gate->tick_us)
        return;
    gate->tick_us = (due + 1) * 1000 > run->now_us ? (due + 1) * 1000 : run->now_us;
    schedule_push(run, gate->tick_us, KIND_GATE_TICK, 0);
}

void gate_tick(struct cluster_run_state *run)
{
    run->gate->tick_us = INT64_MAX;
    gate_run_advance(&run->gate->run, now_of(run));
    set_tick(run);
}

void gate_decide(struct cluster_run_state *run, uint32_t request)
{
    const struct cluster_gate *own = run->config->gate;
    struct gate_waiter *waiter = get_waiter(run->gate);
    struct tg_problem problem = {{0}};

    if (waiter == NULL) {
        run->world.no_memory = true;
        return;
    }
    waiter->request = request;
    waiter->asked_us = run->now_us;
    tg_call_init(&waiter->call.call);
    enum tg_err err = own->fill(own->context, run->load, &run->load->requests[request],
                                waiter->room, &waiter->call.call, &problem);
    if (err != TG_OK) {
        cluster_fail(run, err, problem.text);
        return;
    }
    run->world.outcomes[request].status = CLUSTER_GATEWAY_QUEUED;
    gate_run_admit(&run->gate->run, &waiter->call, now_of(run));
    set_tick(run);
}

void gate_ended(struct cluster_run_state *run, uint32_t request, int64_t at_us)
{
    if (run->gate->leases[request] != 0)
        schedule_push(run, at_us, KIND_RELEASE, request);
}

void gate_release(struct cluster_run_state *run, uint32_t request)
{
    const struct cluster_gate *own = run->config->gate;
    const struct cluster_outcome *outcome = &run->world.outcomes[request];
    struct tg_release release;

    assert(run->gate->leases[request] != 0 && run->world.lives[request] == NULL);
    tg_release_init(&release);
    if (outcome->status == CLUSTER_TIMED_OUT)
        release.outcome = TG_OUTCOME_DROPPED;
    else if (outcome->status != CLUSTER_COMPLETED)
        release.outcome = TG_OUTCOME_CANCELLED;
    if (own->sample_first_token && outcome->ttft_us >= 0)
        release.sample_ms = (double)outcome->ttft_us / 1000;
    if (own->actual != NULL && outcome->status == CLUSTER_COMPLETED)
        release.actual = own->actual(own->context, &run->load->requests[request]);
    if (own->ended != NULL && outcome->status == CLUSTER_COMPLETED)
        own->ended(own->context, &run->load->requests[request], run->now_us - outcome->decided_us);
    gate_run_release(&run->gate->run, run->gate->leases[request], now_of(run), &release);
    run->gate->leases[request] = 0;
    set_tick(run);
}

int64_t gate_waiting(const struct cluster_run_state *run)
{
    return run->gate != NULL ? run->gate->run.waiting : 0;
}

double gate_limit(const struct cluster_run_state *run)
{
    struct tg_gate_stats stats;

    if (run->gate == NULL)
        return 0;
    tg_gate_get_stats(run->gate->run.gate, &stats);
    return stats.limit < TG_NUMBER_MAX ? (double)stats.limit : 0;
}

enum tg_err gate_init(struct cluster_run_state *run, struct tg_problem *problem)
{
    if (run->config->admission != CLUSTER_GATE || run->config->flow.on)
        return TG_OK;
    struct cluster_gate_state *gate = calloc(1, sizeof *gate);
    if (gate == NULL)
        return TG_ERR_MEMORY;
    gate->tick_us = INT64_MAX;
    gate->leases = calloc(run->load->n + 1, sizeof *gate->leases);
    enum tg_err err = gate->leases == NULL ? TG_ERR_MEMORY
                                           : gate_run_init(&gate->run, &run->config->gate->config,
                                                           on_decided, run, problem);
    if (err != TG_OK) {
        free(gate->leases);
        free(gate);
        return err;
    }
    run->gate = gate;
    return TG_OK;
}

void gate_fini(struct cluster_run_state *run)
{
    struct cluster_gate_state *gate = run->gate;

    if (gate == NULL)
        return;
    gate_run_fini(&gate->run);
    while (gate->made != NULL) {
        struct gate_waiter *waiter = gate->made;
        gate->made = waiter->next_made;
        free(waiter);
    }
    free(gate->leases);
    free(gate);
}
