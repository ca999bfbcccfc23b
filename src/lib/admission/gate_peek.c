/* gate_peek.c - what a gate can be asked about itself: numbers for metrics and for people.
 *
 * A look takes the gate's lock for as long as it copies, and changes nothing. The peers are added
 * up under it, a few ns each: owners look some times a second at most.
 */
#include "lib/admission/stages.h"

void tg_gate_get_stats(struct tg_gate *gate, struct tg_gate_stats *stats)
{
    spin_lock(&gate->lock);
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
}

void tg_gate_get_law(struct tg_gate *gate, struct tg_law_metrics *metrics)
{
    spin_lock(&gate->lock);
    const struct law *law = &gate->law;
    bool is_vegas = law->config.law == TG_LAW_VEGAS;

    *metrics = (struct tg_law_metrics){
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
}

int64_t tg_gate_peer_calls(struct tg_gate *gate, const void *peer, size_t peer_bytes)
{
    struct table_id id = stages_peer_id(gate, peer, peer_bytes);

    spin_lock(&gate->lock);
    int64_t calls = peers_calls(&gate->peers, id);
    spin_unlock(&gate->lock);
    return calls;
}
