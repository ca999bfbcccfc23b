/* sim_gate.c - the gate of a configuration, for the simulator. See sim_gate.h. */
#include "cli/sim/sim_gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/gate_config.h"
#include "cli/replay/replay_input.h"

/* ---- Requests -------------------------------------------------------------------------------- */

/* Tokens that are reserved for its output. */
static int64_t allowed_output(const struct workload *workload, size_t i)
{
    const struct cluster_request *request = &workload->load.requests[i];
    const struct workload_note *note = workload_note_of(workload, i);

    if (note != NULL && note->allowed >= 0)
        return note->allowed;
    return request->max_output_tokens > 0 ? request->max_output_tokens : request->output_tokens;
}

/* The cost that is reserved for it. */
static int64_t sim_gate_cost_of(const struct workload *workload, size_t i)
{
    const struct cluster_request *request = &workload->load.requests[i];
    const struct workload_note *note = workload_note_of(workload, i);

    if (note != NULL && note->cost >= 0)
        return note->cost;
    int64_t cost = request->input_tokens + allowed_output(workload, i);
    return cost < TG_NUMBER_MAX ? cost : TG_NUMBER_MAX;
}

static enum tg_priority sim_gate_priority_of(const struct sim_gate *gate,
                                             const struct workload_note *note, uint32_t class)
{
    int32_t number = gate->classes[class].priority;

    if (note != NULL && note->priority >= 0)
        return (enum tg_priority)note->priority;
    return number >= 4 ? TG_PRIORITY_HIGH : number < 0 ? TG_PRIORITY_LOW : TG_PRIORITY_NORMAL;
}

static void name(const struct cluster_names *names, uint32_t number, const char **text,
                 size_t *bytes)
{
    *text = number != 0 ? names->texts[number] : NULL;
    *bytes = number != 0 ? strlen(*text) : 0;
}

static void fill_who(const struct sim_gate *gate, const struct cluster_request *request,
                     const struct workload_note *note, struct scopes_who *who)
{
    const struct workload *workload = gate->workload;
    const char *tenant = workload->load.tenants.texts[request->tenant];

    *who = (struct scopes_who){.tenant = tenant,
                               .tenant_bytes = strlen(tenant),
                               .priority = sim_gate_priority_of(gate, note, request->slo_class)};
    name(&workload->load.models, request->model, &who->model, &who->model_bytes);
    if (note != NULL)
        name(&workload->users, note->user, &who->user, &who->user_bytes);
    if (note != NULL && note->peer != 0)
        name(&workload->peers, note->peer, &who->peer, &who->peer_bytes);
    else if ((note == NULL || note->tenant_peer) && tenant[0] != '\0')
        name(&workload->load.tenants, request->tenant, &who->peer, &who->peer_bytes);
}

static enum tg_err sim_gate_fill(void *context, const struct cluster_workload *load,
                                 const struct cluster_request *request, struct tg_scope *room,
                                 struct tg_call *call, struct tg_problem *problem)
{
    const struct sim_gate *gate = context;
    size_t i = (size_t)(request - load->requests);
    const struct workload_note *note = workload_note_of(gate->workload, i);
    struct scopes_who who;

    fill_who(gate, request, note, &who);
    enum tg_err err = scopes_fill(gate->scopes, &who, room, call, problem);
    call->debit.cost = sim_gate_cost_of(gate->workload, i);
    call->hold_s = note != NULL && note->hold_s >= 0 ? note->hold_s : gate->holds[request->model];
    if (note != NULL && note->value >= 0)
        call->value = note->value;
    return err;
}

/* What was reserved for output that did not come is given back. */
static int64_t actual(void *context, const struct cluster_request *request)
{
    const struct sim_gate *gate = context;
    size_t i = (size_t)(request - gate->workload->load.requests);
    int64_t unused = allowed_output(gate->workload, i) - request->output_tokens;
    int64_t cost = sim_gate_cost_of(gate->workload, i);

    return unused <= 0 ? -1 : cost > unused ? cost - unused : 0;
}

/* The mean moves as fast as the gateway's does. */
static void ended(void *context, const struct cluster_request *request, int64_t held_us)
{
    const struct sim_gate *gate = context;
    double *mean = &gate->holds[request->model], held = (double)held_us / 1e6;

    *mean = *mean > 0 ? *mean + (held - *mean) / 16 : held;
}

/* ---- Making one ------------------------------------------------------------------------------ */

static enum tg_err make_gate(struct sim_gate *gate, uint64_t seed, struct tg_problem *problem)
{
    struct tg_store_config store;

    tg_store_config_init(&store);
    store.memory_bytes = REPLAY_STORE_BYTES;
    store.shards = 1; /* there is one thread */
    enum tg_err err = tg_store_new(&store, &gate->store, problem);
    if (err == TG_OK)
        err = gate_config_scopes(&gate->config, gate->store, &gate->scopes, problem);
    if (err == TG_OK && gate->config.gate.policy.kind == CONFIG_BID_PRICE)
        err = tg_bid_new(&gate->config.gate.policy.bid, &gate->policy, problem);
    if (err != TG_OK)
        return err;
    scopes_gate_config(&gate->config.gate, &gate->cluster.config);
    gate->cluster.config.policy = gate->policy;
    gate->cluster.config.store = gate->store;
    gate->cluster.config.seed = seed;
    gate->cluster.epoch_ms = gate->workload->epoch_ms;
    gate->cluster.context = gate;
    gate->cluster.fill = sim_gate_fill;
    gate->cluster.actual = actual;
    gate->cluster.ended = ended;
    return TG_OK;
}

int sim_gate_init(struct sim_gate *gate, const struct command *command, const char *path,
                  uint64_t seed, const struct workload *workload,
                  const struct cluster_class *classes)
{
    struct tg_problem problem;

    *gate = (struct sim_gate){.workload = workload, .classes = classes};
    gate->holds = calloc(workload->load.models.n + 1, sizeof *gate->holds);
    if (gate->holds == NULL) {
        command_say(command, "%s", tg_strerror(TG_ERR_MEMORY));
        return STATUS_FAILED;
    }
    if (!gate_config_load(command, path, &gate->config))
        return STATUS_WRONG;
    enum tg_err err = make_gate(gate, seed, &problem);
    if (err == TG_OK)
        return STATUS_DONE;
    command_say(command, "%s: %s", path, problem.text);
    return err == TG_ERR_INVALID ? STATUS_WRONG : STATUS_FAILED;
}

void sim_gate_fini(struct sim_gate *gate)
{
    tg_bid_free(gate->policy);
    scopes_free(gate->scopes);
    tg_store_free(gate->store);
    config_free(&gate->config);
    free(gate->holds);
}
