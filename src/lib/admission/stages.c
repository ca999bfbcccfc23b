/* stages.c - memory, peers and concurrency: what is decided under the gate's lock. See stages.h. */
#include "lib/admission/stages.h"

#include <assert.h>
#include <math.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/admission/waits.h"
#include "lib/core/num.h"

void stages_would_deny(struct tg_gate *gate, struct tg_answer *answer, enum tg_reason reason)
{
    assert(reason > TG_REASON_NONE && reason < TG_REASON_COUNT);
    answer->would_deny |= 1u << reason;
    gate->stats.would_deny[reason]++;
}

/* True: refused. */
bool stages_refuse(struct tg_gate *gate, struct tg_answer *answer, enum tg_reason reason,
                   struct tg_decision decision)
{
    assert(reason > TG_REASON_NONE && reason < TG_REASON_COUNT && !decision.allowed);
    answer->step = TG_DECIDED;
    answer->lease = 0;
    answer->reason = reason;
    answer->decision = decision;
    gate->stats.refused[reason]++;
    return true;
}

bool stages_memory(const struct passage *passage)
{
    struct tg_gate *gate = passage->gate;
    struct tg_answer *answer = passage->answer;

    if (!gate->config.memory.on || !memory_state_refuses(gate->memory, passage->call->priority))
        return false;
    if (gate->config.memory.mode == TG_SHADOW) {
        stages_would_deny(gate, answer, TG_REASON_MEMORY_PRESSURE);
        return false;
    }
    answer->memory_used = gate->memory_used;
    return stages_refuse(
        gate, answer, TG_REASON_MEMORY_PRESSURE,
        (struct tg_decision){false, TG_NUMBER_MAX, 0, passage->now, STAGES_HINT_MS});
}

static struct table_id hashed(const struct tg_gate *gate, const void *bytes, size_t n)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, n, gate->seed);

    return table_id(hash.low64, hash.high64, 1);
}

struct table_id stages_peer_id(const struct tg_gate *gate, const void *peer, size_t bytes)
{
    return hashed(gate, peer, bytes);
}

struct table_id stages_tenant_id(const struct tg_gate *gate, const struct tg_call *call)
{
    if (call->tenant)
        return hashed(gate, call->tenant, call->tenant_bytes);
    return call->peer ? hashed(gate, call->peer, call->peer_bytes) : (struct table_id){0, 1};
}

/* No set of limits has this number, so no scope has such an id. Each tenant has its own: nobody can
 * teach the gate what another's calls use. */
static const tg_limits LIKE = UINT32_MAX;

struct table_id stages_like_id(const struct tg_gate *gate, const struct tg_call *call)
{
    uint64_t seed = gate->seed;

    if (call->tenant)
        seed = XXH3_64bits_withSeed(call->tenant, call->tenant_bytes, seed);
    XXH128_hash_t hash = XXH3_128bits_withSeed(call->like, call->like_bytes, seed);
    return table_id(hash.low64, hash.high64, LIKE);
}

struct table_id stages_scope_id(const struct tg_gate *gate, const struct tg_scope *scope)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(scope->key, scope->key_bytes, gate->seed);

    return table_id(hash.low64, hash.high64, scope->limits);
}

/* Counts the peer for the ticket, or refuses. */
bool stages_peers(const struct passage *passage, struct ticket *ticket, enum tg_err *err)
{
    struct tg_gate *gate = passage->gate;
    const struct tg_call *call = passage->call;
    int64_t limit = call->peer_limit ? call->peer_limit : gate->config.peers.limit;
    enum tg_mode mode = call->peer_limit ? call->peer_mode : gate->config.peers.mode;

    if (!call->peer || (!gate->config.peers.on && !call->peer_limit))
        return false;
    assert(ticket->state == TICKET_CHECKED && !ticket->counts_peer);
    ticket->peer = passage->peer;
    if (peers_count(&gate->peers, &ticket->peer, gate->config.peers.max_peers) >= limit) {
        if (mode == TG_ENFORCE)
            return stages_refuse(
                gate, passage->answer, TG_REASON_PEER_LIMIT,
                (struct tg_decision){false, limit, 0, passage->now, STAGES_HINT_MS});
        stages_would_deny(gate, passage->answer, TG_REASON_PEER_LIMIT);
    }
    if (!peers_add(&gate->peers, ticket->peer))
        *err = TG_ERR_MEMORY;
    else
        ticket->counts_peer = true;
    return false;
}

/* When its turn would come: those ahead of it and itself, at the rate at which slots get free. */
static tg_ms turn_in_ms(const struct tg_gate *gate, enum tg_priority priority)
{
    static const tg_ms UNKNOWN_MS = 1000; /* no call has ended yet */
    double calls = (double)queue_ahead(&gate->queue, priority) + 1;

    if (gate->samples == 0)
        return UNKNOWN_MS;
    return num_max(1, num_ceil(calls * gate->mean_slot_ms / (double)law_limit(&gate->law)));
}

/* Slots that calls of a class may hold. */
static int64_t slots_for(const struct tg_gate *gate, enum tg_priority priority)
{
    int64_t limit = law_limit(&gate->law);

    return priority == TG_PRIORITY_LOW ? num_min(limit, num_max(1, gate_low_slots(gate))) : limit;
}

/* What a client is told: see tg_answer.client_wait_ms. So many calls have to end before it gets a
 * slot: those ahead, those above a limit that has been lowered, one, and one more if the law may
 * lower the limit meanwhile.
 *
 *     by chance    (calls + c x (1.8 sqrt(calls) + 1.5)) x mean / slots
 *     in step      (calls - 1) x mean / slots + max(0, mean - mean age of the calls that run)
 *
 * The first is above the 95th percentile of the time until so many calls have ended, if they end
 * at random as those of a gate in use do; c is the coefficient of variation of slot times, at
 * least 1. Slot times that are all the same are never longer than the second, whatever the ages
 * are: such calls may have begun together, in a burst. */
tg_ms stages_client_wait(const struct tg_gate *gate, enum tg_priority priority)
{
    static const tg_ms LONGEST_MS = 60000; /* clients do not wait for longer */
    enum tg_law law = gate->law.config.law;
    tg_ms turn = turn_in_ms(gate, priority);

    if (gate->mean_slot_ms <= 0)
        return turn;
    double mean = gate->mean_slot_ms, each = mean / (double)slots_for(gate, priority);
    int64_t above = num_less(gate->in_flight, law_limit(&gate->law));
    int64_t moves = law != TG_LAW_FIXED && law != TG_LAW_NONE;
    double calls = (double)(queue_ahead(&gate->queue, priority) + above + 1 + moves);
    double began = (double)gate->started_sum / (double)num_max(1, gate->in_flight);
    double spread = sqrt(fmax(1, gate->mean_held_ms / mean - 1));
    double by_chance = (calls + spread * (1.8 * sqrt(calls) + 1.5)) * each;
    double in_step = (calls - 1) * each + fmax(0, mean - ((double)gate->latest - began));
    return num_max(turn, num_min(LONGEST_MS, num_ceil(fmax(by_chance, in_step))));
}

struct tg_decision stages_no_slot(const struct tg_gate *gate, enum tg_priority priority, tg_ms now)
{
    return (struct tg_decision){false, law_limit(&gate->law), 0, now, turn_in_ms(gate, priority)};
}

bool stages_overloaded(struct tg_gate *gate, enum tg_priority priority, struct tg_answer *answer,
                       tg_ms now)
{
    struct tg_decision decision = stages_no_slot(gate, priority, now);

    law_rejected(&gate->law, gate->latest);
    stages_set_axis(&answer->axes, TG_AXIS_CONCURRENCY, decision);
    answer->client_wait_ms = stages_client_wait(gate, priority);
    return stages_refuse(gate, answer, TG_REASON_CONCURRENCY, decision);
}

bool stages_may_start(const struct tg_gate *gate, enum tg_priority priority)
{
    return gate->in_flight < law_limit(&gate->law) && queue_ahead(&gate->queue, priority) == 0 &&
           (priority != TG_PRIORITY_LOW || gate_low_may_start(gate));
}

/* Gets a slot or a place in the queue, or refuses. */
bool stages_slot(const struct passage *passage, struct ticket *ticket, enum tg_err *err)
{
    struct tg_gate *gate = passage->gate;

    gate_grant(gate); /* the law may have raised the limit since */
    if (stages_may_start(gate, passage->call->priority)) {
        gate_start(gate, ticket);
    } else if (gate->config.concurrency.mode == TG_SHADOW) {
        stages_would_deny(gate, passage->answer, TG_REASON_CONCURRENCY);
        gate_start(gate, ticket);
    } else if (!waits_enter(passage, ticket, err)) {
        return stages_overloaded(gate, passage->call->priority, passage->answer, passage->now);
    }
    return false;
}
