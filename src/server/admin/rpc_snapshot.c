/* rpc_snapshot.c - Monitor.GetSnapshot: everything that moves, at one moment.
 *
 *     worker: message ---post---> control thread: written down ---post---> worker: sent
 *
 * A snapshot takes milliseconds with many tenants, and looks at what belongs to the control
 * thread's thread: that thread makes it, and no call of a model or of Admit waits for it. A client
 * that leaves meanwhile is forgotten, and what was made for it thrown away.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/admin/rpc_monitor_internal.h"
#include "server/admin/snapshot.h"
#include "server/probe/probe_pages.h"

enum { GATES = 64 };

/* All that the message points to. */
struct rpc_snapshot {
    LIST_ENTRY(rpc_snapshot) link; /* among those of the worker, by its thread */
    struct worker *worker;
    struct grpc_call *call; /* null: the client has left; of the worker's thread */
    bool without_json;
    struct net_post making, made;

    Tollgate__V1__Snapshot message;
    Tollgate__V1__Gate gates[GATES], *gate_list[GATES];
    char gate_names[GATES][SLOTS_NAME_MAX];
    Tollgate__V1__ReasonCount reasons[REPLY_COUNT], *reason_list[REPLY_COUNT];
    Tollgate__V1__Denial denials[SNAPSHOT_DENIALS_MAX], *denial_list[SNAPSHOT_DENIALS_MAX];
    struct watch_entry entries[SNAPSHOT_DENIALS_MAX];
    char ids[SNAPSHOT_DENIALS_MAX][REPLY_ID_MAX + 1];
    char hash[CONFIG_HASH_HEX + 1];
    struct json_writer json;
};

static char *text(const char *of)
{
    return (char *)(uintptr_t)of;
}

/* ---- on the control thread's thread ---- */

static void write_gate(struct rpc_snapshot *snapshot, const char *name, struct tg_gate *gate)
{
    Tollgate__V1__Snapshot *message = &snapshot->message;
    Tollgate__V1__Gate *out = &snapshot->gates[message->n_gates];
    struct tg_gate_stats stats;
    struct tg_law_metrics law;

    tg_gate_get_stats(gate, &stats);
    tg_gate_get_law(gate, &law);
    tollgate__v1__gate__init(out);
    out->name = text(name);
    out->law = text(tg_law_name(law.law));
    out->limit = stats.limit;
    out->in_flight = stats.in_flight;
    out->queued_high = stats.queued[TG_PRIORITY_HIGH];
    out->queued_normal = stats.queued[TG_PRIORITY_NORMAL];
    out->queued_low = stats.queued[TG_PRIORITY_LOW];
    out->peers = stats.peers;
    out->leases = stats.leases;
    out->admitted = stats.admitted;
    for (int r = TG_REASON_NONE + 1; r < TG_REASON_COUNT; r++)
        out->refused += stats.refused[r];
    out->expired = stats.expired;
    snapshot->gate_list[message->n_gates++] = out;
}

/* The one that all calls pass first; the slots of models are in the JSON alone. */
static void write_gates(struct rpc_snapshot *snapshot, struct gateway *gateway,
                        const struct generation *generation)
{
    Tollgate__V1__Snapshot *message = &snapshot->message;
    struct tg_gate_stats stats;

    tg_gate_get_stats(gateway->gate, &stats);
    message->memory_used = isnan(stats.memory_used) ? -1 : stats.memory_used;
    write_gate(snapshot, "all", gateway->gate);
    for (size_t i = 0; i < generation->n_slots && message->n_gates < GATES; i++)
        if (generation->slots[i].owner != SLOTS_MODEL) {
            char *name = snapshot->gate_names[message->n_gates];
            slots_name(&generation->slots[i], name);
            write_gate(snapshot, name, generation->slots[i].slots->gate);
        }
    message->gates = snapshot->gate_list;
}

/* Some reasons have one name: each is told once, with the sum. */
static void add_reason(struct rpc_snapshot *snapshot, const char *name, uint64_t count)
{
    Tollgate__V1__Snapshot *message = &snapshot->message;

    message->refused += count;
    for (size_t i = 0; i < message->n_refused_by_reason; i++)
        if (strcmp(snapshot->reasons[i].reason, name) == 0) {
            snapshot->reasons[i].count += count;
            return;
        }
    Tollgate__V1__ReasonCount *out = &snapshot->reasons[message->n_refused_by_reason];
    tollgate__v1__reason_count__init(out);
    out->reason = text(name);
    out->count = count;
    snapshot->reason_list[message->n_refused_by_reason++] = out;
}

static void write_counts(struct rpc_snapshot *snapshot, const struct gateway *gateway)
{
    Tollgate__V1__Snapshot *message = &snapshot->message;
    struct metrics_totals totals = {0};

    if (gateway->metrics != NULL)
        metrics_get_totals(gateway->metrics, &totals);
    message->calls = atomic_load_explicit(&gateway->counts.calls, memory_order_relaxed);
    message->admitted = totals.admitted;
    for (int i = 0; i < REPLY_COUNT; i++) {
        uint64_t n = atomic_load_explicit(&gateway->counts.refused[i], memory_order_relaxed);
        if (n > 0)
            add_reason(snapshot, reply_reason_name((enum reply_reason)i), n);
    }
    message->refused_by_reason = snapshot->reason_list;
}

static void write_denials(struct rpc_snapshot *snapshot, const struct watch *watch)
{
    size_t n = watch != NULL ? watch_recent(watch, snapshot->entries, SNAPSHOT_DENIALS_MAX) : 0;

    for (size_t i = 0; i < n; i++) {
        rpc_write_denial(&snapshot->entries[i], snapshot->ids[i], &snapshot->denials[i]);
        snapshot->denial_list[i] = &snapshot->denials[i];
    }
    snapshot->message.n_denials = n;
    snapshot->message.denials = snapshot->denial_list;
}

/* A string of a message ends with a zero: it takes the place of the line's end. */
static void write_json(struct rpc_snapshot *snapshot, struct gateway *gateway,
                       const struct generation *generation, tg_ms now)
{
    struct json_writer *json = &snapshot->json;

    snapshot_write(json, gateway->sampled, generation, now);
    json_write_line_end(json);
    if (json->text.failed)
        return;
    json->text.bytes[json->text.size - 1] = '\0';
    snapshot->message.json = json->text.bytes;
}

static void rpc_snapshot_write_all(struct rpc_snapshot *snapshot)
{
    struct gateway *gateway = snapshot->worker->gateway;
    const struct generation *generation = gateway_newest(gateway);
    Tollgate__V1__Snapshot *message = &snapshot->message;
    const char *unready = probe_unready(gateway, &generation->config);
    tg_ms now = clock_now_ms(&gateway->clock);

    tollgate__v1__snapshot__init(message);
    message->now_ms = clock_wall_of(&gateway->clock, now);
    message->version = text(tg_version());
    message->ready = unready == NULL;
    if (unready != NULL)
        message->unready_reason = text(unready);
    message->draining = atomic_load_explicit(&gateway->draining, memory_order_relaxed);
    message->generation = generation->number;
    memcpy(snapshot->hash, generation->config.hash, sizeof snapshot->hash);
    message->config_hash = snapshot->hash;
    write_counts(snapshot, gateway);
    write_gates(snapshot, gateway, generation);
    write_denials(snapshot, gateway->watch);
    if (gateway->sampled != NULL)
        message->started_at_ms = clock_wall_of(&gateway->clock, gateway->sampled->started_at);
    if (gateway->sampled != NULL && !snapshot->without_json)
        write_json(snapshot, gateway, generation, now);
}

static void make(void *arg)
{
    struct rpc_snapshot *snapshot = arg;

    rpc_snapshot_write_all(snapshot);
    net_loop_post(snapshot->worker->loop, &snapshot->made);
}

/* ---- on the worker's ---- */

struct asking {
    struct rpc_snapshot *snapshot;
};

static struct asking *asking_of(struct grpc_call *call)
{
    return (struct asking *)(void *)call->state;
}

static void free_snapshot(struct rpc_snapshot *snapshot)
{
    LIST_REMOVE(snapshot, link);
    json_writer_fini(&snapshot->json);
    free(snapshot);
}

static void send_made(void *arg)
{
    struct rpc_snapshot *snapshot = arg;

    if (snapshot->call != NULL) {
        asking_of(snapshot->call)->snapshot = NULL;
        if (snapshot->json.text.failed)
            grpc_finish(snapshot->call, GRPC_UNAVAILABLE, "there is no memory for a snapshot");
        else
            grpc_reply(snapshot->call, &snapshot->message.base);
    }
    free_snapshot(snapshot);
}

void rpc_snapshot_message(struct grpc_call *call, const ProtobufCMessage *message)
{
    const Tollgate__V1__GetSnapshotRequest *request = (const void *)message;
    struct rpc_snapshot *snapshot = calloc(1, sizeof *snapshot);
    struct worker *worker = rpc_worker(call);

    if (snapshot == NULL) {
        grpc_finish(call, GRPC_UNAVAILABLE, "there is no memory for a snapshot");
        return;
    }
    snapshot->worker = worker;
    snapshot->call = call;
    snapshot->without_json = request->without_json;
    json_writer_init(&snapshot->json);
    net_post_init(&snapshot->making, make, snapshot);
    net_post_init(&snapshot->made, send_made, snapshot);
    LIST_INSERT_HEAD(&worker->admin->snapshots, snapshot, link);
    asking_of(call)->snapshot = snapshot;
    if (worker->gateway->control != NULL)
        net_loop_post(worker->gateway->control, &snapshot->making);
    else
        make(snapshot);
}

void rpc_snapshot_cancel(struct grpc_call *call)
{
    if (asking_of(call)->snapshot != NULL)
        asking_of(call)->snapshot->call = NULL;
}

void rpc_snapshot_free_all(struct admin_worker *admin)
{
    struct net_loop *control = admin->worker->gateway->control;
    struct rpc_snapshot *snapshot;

    while ((snapshot = LIST_FIRST(&admin->snapshots)) != NULL) {
        if (control != NULL)
            net_loop_unpost(control, &snapshot->making);
        net_loop_unpost(admin->worker->loop, &snapshot->made);
        free_snapshot(snapshot);
    }
}
