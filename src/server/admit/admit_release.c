/* admit_release.c - the ends of leases: released, renewed, or ended with a connection. See admit.h.
 *
 * Another caller's lease is answered like one that does not exist, so that nobody learns of others'
 * leases by asking. The time to live is in the id, and a renewal gives it again.
 */
#include <math.h>

#include "server/admit/admit_internal.h"

#define SAMPLE_MAX 1e12 /* ms */

static bool check_release(const struct tg_release *release, struct admit_reply *error)
{
    if (release->outcome > TG_OUTCOME_CANCELLED)
        admit_fail(error, ADMIT_INVALID, "outcome",
                   "`outcome` is %d; ok, dropped and cancelled are allowed", (int)release->outcome);
    else if (release->actual > TG_NUMBER_MAX)
        admit_fail(error, ADMIT_INVALID, "actual", "`actual` is %lld; 0 to %lld are allowed",
                   (long long)release->actual, (long long)TG_NUMBER_MAX);
    else if (isnan(release->sample_ms) || release->sample_ms > SAMPLE_MAX)
        admit_fail(error, ADMIT_INVALID, "sample_ms", "`sample_ms` is %g; 0 to %g are allowed",
                   release->sample_ms, SAMPLE_MAX);
    else
        return true;
    return false;
}

/* Ends what a lease held besides its place at the gate. `actual` negative: the estimate stands. */
static void end_parts(const struct bound_parts *parts, tg_ms now, const struct tg_release *release,
                      int64_t actual)
{
    if (parts->slots != NULL) {
        tg_gate_release(parts->slots->gate, parts->slot, now, release);
        slots_unref(parts->slots);
    }
    if (parts->account != NULL)
        admit_account_close(parts->account, actual);
}

enum admit_status admit_release(struct worker *worker, struct admit_caller *caller,
                                struct slice lease, const struct tg_release *release, bool *found,
                                struct admit_reply *error)
{
    struct gateway *gateway = worker->gateway;
    const struct config_caller *entry = admit_entry(worker, caller, error);
    struct admit_lease named;

    if (entry == NULL || !check_release(release, error))
        return error->status;
    *found = false;
    if (!admit_lease_read(gateway, entry->name, lease, &named))
        return ADMIT_DECIDED;
    tg_ms now = worker_now(worker);
    uint64_t number = recorder_enter(gateway->recorder);
    *found = tg_gate_release(gateway->gate, named.lease, now, release);
    if (named.is_bound) {
        struct bound_parts parts = bound_leases_drop(&gateway->admit->bound, named.lease);
        end_parts(&parts, now, release, *found ? release->actual : -1);
    }
    recorder_leave(gateway->recorder);
    recorder_lease_end(gateway, number, now, NULL, named.lease, release);
    return ADMIT_DECIDED;
}

void admit_take_back(struct worker *worker, struct admit_caller *caller, struct slice lease)
{
    struct tg_release release;
    struct admit_reply error;
    bool found;

    if (lease.n == 0)
        return;
    tg_release_init(&release);
    release.outcome = TG_OUTCOME_CANCELLED;
    (void)admit_release(worker, caller, lease, &release, &found, &error);
}

static bool renew(struct worker *worker, const struct config_caller *entry, struct slice lease,
                  tg_ms now, tg_ms *ends_at)
{
    struct gateway *gateway = worker->gateway;
    struct admit_lease named;

    if (!admit_lease_read(gateway, entry->name, lease, &named))
        return false;
    *ends_at = now + named.ttl;
    uint64_t number = recorder_enter(gateway->recorder);
    bool live = tg_gate_renew(gateway->gate, named.lease, now, named.ttl);
    if (live && named.is_bound)
        bound_leases_renew(&gateway->admit->bound, named.lease, now, *ends_at);
    recorder_leave(gateway->recorder);
    recorder_lease_renew(gateway, number, now, named.lease, named.ttl);
    return live;
}

enum admit_status admit_heartbeat(struct worker *worker, struct admit_caller *caller,
                                  const struct slice *leases, size_t n, bool *live,
                                  tg_ms *next_deadline, struct admit_reply *error)
{
    const struct config_caller *entry = admit_entry(worker, caller, error);
    tg_ms now = worker_now(worker), ends_at;

    if (entry == NULL)
        return error->status;
    if (n > ADMIT_HEARTBEAT_MAX) {
        admit_fail(error, ADMIT_INVALID, "lease_ids",
                   "`lease_ids` has %zu entries; at most %d are allowed", n, ADMIT_HEARTBEAT_MAX);
        return error->status;
    }
    *next_deadline = 0;
    for (size_t i = 0; i < n; i++) {
        live[i] = renew(worker, entry, leases[i], now, &ends_at);
        if (live[i] && (*next_deadline == 0 || ends_at < *next_deadline))
            *next_deadline = ends_at;
    }
    return ADMIT_DECIDED;
}

void admit_connection_closed(struct worker *worker, uint64_t connection)
{
    struct gateway *gateway = worker->gateway;
    struct bound_parts parts;
    struct tg_release release;
    tg_lease lease;

    tg_release_init(&release);
    release.outcome = TG_OUTCOME_CANCELLED;
    tg_ms now = worker_now(worker);
    while ((lease = bound_leases_take(&gateway->admit->bound, connection, &parts)) != 0) {
        uint64_t number = recorder_enter(gateway->recorder);
        tg_gate_release(gateway->gate, lease, now, &release);
        end_parts(&parts, now, &release, -1);
        recorder_leave(gateway->recorder);
        recorder_lease_end(gateway, number, now, NULL, lease, &release);
    }
}

bool admit_connection_is_held(struct worker *worker, uint64_t connection)
{
    return bound_leases_has(&worker->gateway->admit->bound, connection);
}

/* The gates have ended the leases themselves, or do so at their next tick: no sample. */
void admit_tick(struct gateway *gateway, tg_ms now)
{
    struct bound_parts parts;
    struct tg_release release;
    tg_lease lease;

    tg_release_init(&release);
    release.outcome = TG_OUTCOME_CANCELLED;
    while ((lease = bound_leases_take_expired(&gateway->admit->bound, now, &parts)) != 0) {
        uint64_t number = recorder_enter(gateway->recorder);
        end_parts(&parts, now, &release, -1);
        recorder_leave(gateway->recorder);
        recorder_lease_end(gateway, number, now, "slot", lease, &release);
    }
}

size_t admit_count_bound(struct gateway *gateway)
{
    return atomic_load_explicit(&gateway->admit->bound.n, memory_order_relaxed);
}
