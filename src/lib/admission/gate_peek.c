/* gate_peek.c - what a gate can be asked about itself: numbers for metrics and for people.
 *
 * A look takes the gate's lock for as long as it copies, and changes nothing. The peers are added
 * up under it, a few ns each: owners look some times a second at most.
 */
#include "lib/admission/waits.h"

#include <string.h>

void tg_gate_get_stats_sized(struct tg_gate *gate, struct tg_gate_stats *given, size_t size)
{
    struct tg_gate_stats read = {0};
    struct tg_gate_stats *stats = &read;

    if (!gate || !given || !gate_lock(gate))
        return;
    *stats = gate->stats;
    stats->limit = law_limit(&gate->law);
    stats->in_flight = gate->in_flight;
    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        stats->queued[p] = gate->queue.classes[p].waiting;
    stats->admitted = atomic_load_explicit(&gate->admitted, memory_order_relaxed);
    peers_sum(&gate->peers, &stats->peers, &stats->peer_calls);
    stats->leases = (int64_t)gate->tickets.used;
    stats->memory_used = gate->memory_used;
    stats->last_ms = gate->last_sample_ms;
    stats->slot_ms = gate->samples > 0 ? gate->mean_slot_ms : -1;
    spin_unlock(&gate->lock);
    sized_give(given, size, stats, sizeof *stats);
}

void tg_gate_get_law_sized(struct tg_gate *gate, struct tg_law_metrics *given, size_t size)
{
    if (!gate || !given || !gate_lock(gate))
        return;
    const struct law *law = &gate->law;
    bool is_vegas = law->config.law == TG_LAW_VEGAS;

    struct tg_law_metrics metrics = {
        .law = law->config.law,
        .limit = law_limit(law),
        .learned = law->learned,
        .min = law->config.min,
        .max = law->config.max,
        .queue_estimate = is_vegas ? law->state.vegas.queue : -1,
        .mean_ms = is_vegas ? law->state.vegas.mean : 0,
        .baseline_ms = is_vegas ? law->state.vegas.baseline : 0,
    };
    spin_unlock(&gate->lock);
    sized_give(given, size, &metrics, sizeof metrics);
}

int64_t tg_gate_peer_calls(struct tg_gate *gate, const void *peer, size_t peer_bytes)
{
    if (!gate || !peer)
        return 0;
    struct table_id id = stages_peer_id(gate, peer, peer_bytes);
    if (!gate_lock(gate))
        return 0;
    int64_t calls = peers_calls(&gate->peers, id);
    spin_unlock(&gate->lock);
    return calls;
}

/* ---- what a call would be told ---- */

/* True: refused. */
static bool peek_refuses(struct tg_answer *answer, enum tg_reason reason, enum tg_mode mode,
                         struct tg_decision decision)
{
    if (mode == TG_SHADOW) {
        answer->would_deny |= 1u << reason;
        return false;
    }
    answer->reason = reason;
    answer->decision = decision;
    return true;
}

static bool peek_memory(const struct tg_gate *gate, const struct tg_call *call, tg_ms now,
                        struct tg_answer *answer)
{
    if (!gate->config.memory.on || !memory_state_refuses(gate->memory, call->priority))
        return false;
    answer->memory_used = gate->memory_used;
    return peek_refuses(answer, TG_REASON_MEMORY_PRESSURE, gate->config.memory.mode,
                        (struct tg_decision){false, TG_NUMBER_MAX, 0, now, STAGES_HINT_MS});
}

static bool peek_peer(struct tg_gate *gate, const struct tg_call *call, struct table_id peer,
                      tg_ms now, struct tg_answer *answer)
{
    bool own = call->peer_limit > 0;
    int64_t limit = own ? call->peer_limit : gate->config.peers.limit;

    if (!call->peer || (!gate->config.peers.on && !own) ||
        peers_count(&gate->peers, &peer, gate->config.peers.max_peers) < limit)
        return false;
    return peek_refuses(answer, TG_REASON_PEER_LIMIT,
                        own ? call->peer_mode : gate->config.peers.mode,
                        (struct tg_decision){false, limit, 0, now, STAGES_HINT_MS});
}

static void peek_slot(struct tg_gate *gate, const struct tg_call *call, tg_ms now,
                      struct tg_answer *answer)
{
    tg_ms wait;

    if (!gate->config.concurrency.on || stages_may_start(gate, call->priority))
        return;
    struct tg_decision no = stages_no_slot(gate, call->priority, now);
    if (gate->config.concurrency.mode == TG_ENFORCE && waits_may_enter(gate, call, &wait)) {
        answer->step = TG_WAITING;
        answer->deadline = gate_to_caller(gate, num_add(gate->latest, wait));
        answer->decision = no;
    } else if (!peek_refuses(answer, TG_REASON_CONCURRENCY, gate->config.concurrency.mode, no)) {
        return;
    }
    stages_set_axis(&answer->axes, TG_AXIS_CONCURRENCY, no);
    answer->client_wait_ms = stages_client_wait(gate, call->priority);
}

enum tg_err tg_gate_peek(struct tg_gate *gate, const struct tg_call *call, tg_ms now,
                         struct tg_answer *answer)
{
    struct table_id peer = {0};
    struct tg_call copy;

    if (!gate || !call || !answer)
        return TG_ERR_NULL;
    if (!sized_read(&copy, sizeof copy, call, CALL_FIRST))
        return TG_ERR_UNINITIALIZED;
    call = &copy;
    if ((unsigned)call->priority >= TG_PRIORITY_COUNT || !num_in_range(now) ||
        call->peer_limit < 0 || !num_in_range(call->deadline))
        return TG_ERR_INVALID;
    memset(answer, 0, offsetof(struct tg_answer, unused));
    answer->decision = TG_ALLOW_FULL;
    if (call->peer)
        peer = stages_peer_id(gate, call->peer, call->peer_bytes);
    if (!gate_lock(gate))
        return TG_ERR_REENTERED;
    if (!peek_memory(gate, call, now, answer) && !peek_peer(gate, call, peer, now, answer))
        peek_slot(gate, call, now, answer);
    spin_unlock(&gate->lock);
    return TG_OK;
}
