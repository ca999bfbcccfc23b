/* flows_run.c - calls of several tenants through a gate. See flows_run.h. */
#include "lab/scenario/flows_run.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/regret/gate_run.h"
#include "lab/scenario/server.h"
#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "lib/core/random.h"

#define NEVER_MS 1e15 /* a lease is kept as long as the call runs */

struct flow_tenant {
    const struct flow_spec *flow;
    char name[16];
    struct random arrivals, draws;
    struct flow_counts *counts;
};

struct flow_call {
    struct gate_run_call call;
    struct flow_tenant *tenant;
    bool measured;
    double arrived_ms, admitted_ms, hold_ms;
    int64_t used;
    int64_t above_charge; /* used above what it was charged; 0: not */
};

struct flows {
    const struct flows_config *config;
    struct flows_result *result;
    struct flow_tenant tenants[FLOWS_TENANTS_MAX];
    double now_ms;
    struct agenda agenda; /* `what` is a tenant that a call comes from, or, with detail 1, a call */
    struct gate_run gate;
    enum tg_err err;
    double used;          /* by all calls admitted */
    int64_t above_charge; /* used by calls in flight, above what they were charged */
    double lowest;        /* the least that this was, less what was refilled until then */
};

static double draw_lognormal(struct random *random, double mean, double cv)
{
    double variance = log(1 + cv * cv);

    return cv > 0 ? mean * exp(sqrt(variance) * random_normal(random) - variance / 2) : mean;
}

static void flows_schedule(struct flows *flows, double at, void *what, bool is_end)
{
    if (!agenda_add(&flows->agenda, at, what, is_end))
        flows->err = TG_ERR_MEMORY;
}

static void schedule_arrival(struct flows *flows, struct flow_tenant *tenant)
{
    double gap = random_exponential(&tenant->arrivals, 1000 / tenant->flow->calls_per_s);

    flows_schedule(flows, flows->now_ms + gap, tenant, false);
}

static void flow_call_decided(void *context, struct gate_run_call *gate_call, enum tg_err err,
                              const struct tg_answer *answer, tg_ms at)
{
    struct flows *flows = context;
    struct flow_call *call = container_of(gate_call, struct flow_call, call);
    struct flow_counts *counts = call->tenant->counts;

    (void)at;
    if (err || !answer->decision.allowed) {
        flows->err = err ? err : flows->err;
        free(call);
        return;
    }
    call->admitted_ms = flows->now_ms;
    if (call->measured) {
        counts->admitted++;
        counts->waited_ms += flows->now_ms - call->arrived_ms;
        counts->used += call->used;
    }
    /* The span that ends now begins where the sum was lowest; a limit counts whole ms. */
    double sum = flows->used - flows->config->refill_per_ms * (double)num_floor(flows->now_ms);
    flows->lowest = fmin(flows->lowest, sum);
    double over = sum + (double)call->used - flows->lowest;
    flows->used += (double)call->used;
    call->above_charge = num_less(call->used, answer->charge);
    flows->above_charge += call->above_charge;
    flows->result->most_over = fmax(flows->result->most_over, over);
    flows->result->most_over_charge =
        fmax(flows->result->most_over_charge, over - (double)flows->above_charge);
    flows_schedule(flows, flows->now_ms + call->hold_ms, call, true);
}

static void flow_arrive(struct flows *flows, struct flow_tenant *tenant)
{
    const struct flow_spec *flow = tenant->flow;
    struct flow_call *call = calloc(1, sizeof *call);

    schedule_arrival(flows, tenant);
    if (call == NULL) {
        flows->err = TG_ERR_MEMORY;
        return;
    }
    call->tenant = tenant;
    call->arrived_ms = flows->now_ms;
    call->hold_ms = draw_lognormal(&tenant->draws, flow->hold_ms, flow->hold_cv);
    call->measured = flows->now_ms > flows->config->from_ms;
    tenant->counts->offered += call->measured;
    tg_call_init(&call->call.call);
    call->call.call.priority = flow->priority;
    call->call.call.weight = flow->weight;
    call->call.call.tenant = tenant->name;
    call->call.call.tenant_bytes = strlen(tenant->name);
    if (flow->asked > 0) {
        double used =
            draw_lognormal(&tenant->draws, flow->used_part * (double)flow->asked, flow->used_cv);
        call->used = num_min(flow->asked, num_max(1, num_floor(used + 0.5)));
        call->call.call.debit = (struct tg_debit){.scopes = flows->config->scopes,
                                                  .n_scopes = flows->config->n_scopes,
                                                  .cost = flow->asked};
    }
    gate_run_admit(&flows->gate, &call->call, num_floor(flows->now_ms));
}

static void flow_end(struct flows *flows, struct flow_call *call)
{
    struct tg_release release;
    tg_lease lease = call->call.lease;

    tg_release_init(&release);
    if (call->tenant->flow->asked > 0)
        release.actual = call->used;
    if (flows->now_ms > flows->config->from_ms)
        call->tenant->counts->held_ms += flows->now_ms - call->admitted_ms;
    flows->above_charge -= call->above_charge;
    assert(flows->above_charge >= 0);
    free(call);
    gate_run_release(&flows->gate, lease, num_floor(flows->now_ms), &release);
}

/* Does what comes next. False: the run is over. */
static bool flows_advance(struct flows *flows)
{
    double next_ms = flows->agenda.items[0].at;
    tg_ms due = tg_gate_next_deadline(flows->gate.gate);

    /* Who is granted a slot by the end of a wait may end before anything else happens. */
    if (due < num_floor(next_ms) && (double)due < flows->config->until_ms) {
        flows->now_ms = fmax(flows->now_ms, (double)due + 1);
        gate_run_advance(&flows->gate, due + 1);
        return flows->err == TG_OK;
    }
    if (next_ms > flows->config->until_ms)
        return false;
    assert(next_ms >= flows->now_ms);
    flows->now_ms = next_ms;
    struct agenda_item item = agenda_take(&flows->agenda);
    if (item.detail)
        flow_end(flows, item.what);
    else
        flow_arrive(flows, item.what);
    return flows->err == TG_OK;
}

static void make_tenants(struct flows *flows)
{
    const struct flows_config *config = flows->config;
    size_t n = 0;

    for (size_t i = 0; i < config->n; i++)
        for (int j = 0; j < config->flows[i].tenants; j++, n++) {
            struct flow_tenant *tenant = &flows->tenants[n];
            assert(n < FLOWS_TENANTS_MAX);
            tenant->flow = &config->flows[i];
            tenant->counts = &flows->result->tenants[n];
            snprintf(tenant->name, sizeof tenant->name, "t%zu", n);
            random_init(&tenant->arrivals, config->seed, 2 * n + 1);
            random_init(&tenant->draws, config->seed, 2 * n + 2);
            schedule_arrival(flows, tenant);
        }
}

/* Calls that wait are decided; those that run are then on the agenda. */
static void flows_fini(struct flows *flows)
{
    gate_run_finish(&flows->gate);
    while (flows->agenda.n > 0) {
        struct agenda_item item = agenda_take(&flows->agenda);
        if (item.detail)
            free(item.what);
    }
    agenda_fini(&flows->agenda);
    gate_run_fini(&flows->gate);
}

enum tg_err flows_run(const struct flows_config *config, struct flows_result *result,
                      struct tg_problem *problem)
{
    struct flows *flows = calloc(1, sizeof *flows);
    struct tg_gate_config gate = *config->gate;

    if (flows == NULL)
        return TG_ERR_MEMORY;
    *result = (struct flows_result){.measured_ms = config->until_ms - config->from_ms};
    flows->config = config;
    flows->result = result;
    gate.seed = config->seed;
    gate.lease_ttl = (tg_ms)NEVER_MS;
    enum tg_err err = gate_run_init(&flows->gate, &gate, flow_call_decided, flows, problem);
    if (!err) {
        make_tenants(flows);
        while (flows_advance(flows))
            continue;
        err = flows->err;
        flows_fini(flows);
    }
    free(flows);
    return err;
}
