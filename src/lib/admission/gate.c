/* gate.c - making a gate, changing its settings, and the end of what was admitted.
 *
 * admit.c lets calls in; here they leave. Every way out (release, expiry, a wait that is over)
 * goes through the ticket, which knows what it holds, and a ticket is freed once.
 */
#include "lib/admission/worth.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "lib/concurrency/laws.h"
#include "lib/core/allocator.h"
#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"

/* ---- settings ---- */

/* What the first versions of these structs ended with. */
#define GATE_CONFIG_FIRST SIZED_TO(struct tg_gate_config, context)
#define RELEASE_FIRST SIZED_TO(struct tg_release, work)

void tg_gate_config_init_sized(struct tg_gate_config *config, size_t size)
{
    struct tg_gate_config defaults = {
        .memory = {.pressure = 0.85, .critical = 0.95, .limit = 0.98},
        .peers = {.limit = 64, .max_peers = 65536},
        .concurrency = {.queue_size = 1024,
                        .wait = {100, 50, 0},
                        .share = {0, 0.2, 0.05},
                        .low_ratio = 0.5},
        .lease_ttl = 600000,
        .max_learned = 65536,
    };
    tg_law_config_init(&defaults.concurrency.law);
    sized_init(config, size, &defaults, sizeof defaults, GATE_CONFIG_FIRST);
}

void tg_call_init_sized(struct tg_call *call, size_t size)
{
    static const struct tg_call defaults = {.priority = TG_PRIORITY_NORMAL,
                                            .weight = 1,
                                            .value = 1,
                                            .factor = {1, TG_FACTOR_MIN, TG_FACTOR_MAX}};

    sized_init(call, size, &defaults, sizeof defaults, CALL_FIRST);
}

static const struct tg_release default_release = {.struct_size = sizeof(struct tg_release),
                                                  .outcome = TG_OUTCOME_OK,
                                                  .sample_ms = -1,
                                                  .actual = -1,
                                                  .work = -1};

void tg_release_init_sized(struct tg_release *release, size_t size)
{
    sized_init(release, size, &default_release, sizeof default_release, RELEASE_FIRST);
}

/* A release that is none of this version's. Zeros of one that was not initialized are what was not
 * given: taken for numbers, they would say that the call has used nothing. */
static __attribute__((noinline)) const struct tg_release *read_release(
    const struct tg_release *release, struct tg_release *copy)
{
    if (!release)
        return &default_release;
    if (release->struct_size != 0)
        return sized_read(copy, sizeof *copy, release, RELEASE_FIRST) ? copy : NULL;
    *copy = default_release;
    copy->outcome = release->outcome;
    if (release->sample_ms < 0 || release->sample_ms > 0)
        copy->sample_ms = release->sample_ms;
    if (release->actual != 0)
        copy->actual = release->actual;
    if (release->work != 0)
        copy->work = release->work;
    return copy;
}

static bool is_mode(enum tg_mode mode)
{
    return mode == TG_ENFORCE || mode == TG_SHADOW;
}

static enum tg_err check_memory(const struct tg_gate_config *config, struct tg_problem *problem)
{
    if (!(config->memory.pressure > 0 && config->memory.pressure <= config->memory.critical &&
          config->memory.critical <= config->memory.limit && config->memory.limit <= 1))
        return problem_say(problem, TG_ERR_INVALID,
                           "memory: pressure, critical and limit are %g, %g and %g; they must be "
                           "above 0, at most 1, and none below the one before it",
                           config->memory.pressure, config->memory.critical, config->memory.limit);
    return TG_OK;
}

static enum tg_err check_concurrency(const struct tg_gate_config *config,
                                     struct tg_problem *problem)
{
    bool may_wait = false;

    if (config->concurrency.queue_size < 0 || config->concurrency.queue_size > 1000000)
        return problem_say(problem, TG_ERR_INVALID,
                           "queue: size is %lld; it must be from 0 to 1000000",
                           (long long)config->concurrency.queue_size);
    for (int p = 0; p < TG_PRIORITY_COUNT; p++) {
        if (config->concurrency.wait[p] != TG_WAIT_AUTO &&
            !num_in_range(config->concurrency.wait[p]))
            return problem_say(problem, TG_ERR_INVALID,
                               "queue: wait of %s is %lld ms; it must not "
                               "be negative",
                               tg_priority_name((enum tg_priority)p),
                               (long long)config->concurrency.wait[p]);
        may_wait |= config->concurrency.wait[p] != 0 && config->concurrency.queue_size > 0;
        if (!(config->concurrency.share[p] >= 0 && config->concurrency.share[p] <= 1))
            return problem_say(problem, TG_ERR_INVALID,
                               "queue: share of %s is %g; it must be from 0 to 1",
                               tg_priority_name((enum tg_priority)p), config->concurrency.share[p]);
    }
    if (!(config->concurrency.low_ratio >= 0 && config->concurrency.low_ratio <= 1))
        return problem_say(problem, TG_ERR_INVALID,
                           "low_priority_shed_ratio is %g; it must be from 0 to 1",
                           config->concurrency.low_ratio);
    if (!config->wake && may_wait)
        return problem_say(problem, TG_ERR_INVALID,
                           "concurrency: a gate in which calls wait needs a wake function");
    return tg_law_config_check(&config->concurrency.law, problem);
}

static enum tg_err check_config(const struct tg_gate_config *config, struct tg_problem *problem)
{
    enum tg_err err = TG_OK;

    if (!is_mode(config->memory.mode) || !is_mode(config->peers.mode) ||
        !is_mode(config->concurrency.mode) || !is_mode(config->policy_mode))
        return problem_say(problem, TG_ERR_INVALID, "a mode is enforce or shadow");
    if (config->peers.limit < 1 || config->peers.max_peers < 1 ||
        config->peers.max_peers > INT32_MAX)
        return problem_say(problem, TG_ERR_INVALID,
                           "peers: limit is %lld and max_peers is %lld; both must be 1 or more",
                           (long long)config->peers.limit, (long long)config->peers.max_peers);
    if (config->lease_ttl < 1 || !num_in_range(config->lease_ttl))
        return problem_say(problem, TG_ERR_INVALID, "lease_ttl is %lld ms; it must be 1 or more",
                           (long long)config->lease_ttl);
    if (config->max_learned < 0 || config->max_learned > 1 << 24)
        return problem_say(problem, TG_ERR_INVALID, "max_learned is %lld; it must be from 0 to %d",
                           (long long)config->max_learned, 1 << 24);
    if (config->store && config->remote_store)
        return problem_say(problem, TG_ERR_INVALID,
                           "store: rate and cost are decided here or elsewhere, not both");
    if (config->policy && !config->policy->worth)
        return problem_say(problem, TG_ERR_INVALID, "policy: it has no worth function");
    if (config->memory.on)
        err = check_memory(config, problem);
    if (!err && config->concurrency.on)
        err = check_concurrency(config, problem);
    return err;
}

/* A gate without concurrency has a law all the same, one that never limits. */
static struct tg_law_config law_of(const struct tg_gate_config *config)
{
    struct tg_law_config law = config->concurrency.law;

    if (!config->concurrency.on) {
        tg_law_config_init(&law);
        law.law = TG_LAW_NONE;
        law.max = TG_NUMBER_MAX;
    }
    return law;
}

/* If two waits are over together, the call that came first is first. */
static bool over_first(const struct heap_node *a, const struct heap_node *b)
{
    const struct ticket *x = container_of(a, struct ticket, wait);
    const struct ticket *y = container_of(b, struct ticket, wait);

    return x->deadline != y->deadline ? x->deadline < y->deadline : x->arrival < y->arrival;
}

/* The settings as this version knows them, if they are sound, and `gate` is not null. */
static enum tg_err read_config(struct tg_gate_config *to, const struct tg_gate_config *from,
                               const void *gate, struct tg_problem *problem)
{
    enum tg_err err =
        sized_check(to, sizeof *to, from, GATE_CONFIG_FIRST, "tg_gate_config", problem);

    if (!err)
        err = check_config(to, problem);
    if (!err && !gate)
        err = problem_say(problem, TG_ERR_NULL, "gate: %s", tg_strerror(TG_ERR_NULL));
    return err;
}

enum tg_err tg_gate_new(const struct tg_gate_config *given, struct tg_gate **gate,
                        struct tg_problem *problem)
{
    struct tg_gate_config own;
    const struct tg_gate_config *config = &own;
    enum tg_err err = read_config(&own, given, gate, problem);

    if (err)
        return err;
    struct tg_law_config law = law_of(config);
    struct tg_gate *made = mem_aligned_alloc(CACHE_LINE, sizeof *made);
    if (!made)
        return problem_say(problem, TG_ERR_MEMORY, "gate: %s", tg_strerror(TG_ERR_MEMORY));
    memset(made, 0, sizeof *made);
    endings_init(&made->endings);
    err = law_init(&made->law, &law, config->chance ? config->chance : config->seed, problem);
    if (err) {
        mem_free_aligned(made);
        return err;
    }
    made->store = config->store;
    made->remote_store = config->remote_store;
    made->seed = config->seed;
    made->memory_used = NAN;
    made->config = *config;
    queue_init(&made->queue);
    queue_set_shares(&made->queue, config->concurrency.share);
    peers_init(&made->peers);
    charges_init(&made->charges, config->max_learned);
    tickets_init(&made->tickets);
    heap_init(&made->waits, over_first);
    *gate = made;
    return TG_OK;
}

void tg_gate_free(struct tg_gate *gate)
{
    if (!gate)
        return;
    law_fini(&gate->law);
    queue_fini(&gate->queue);
    peers_fini(&gate->peers);
    charges_fini(&gate->charges);
    handles_fini(&gate->tickets);
    heap_fini(&gate->waits);
    endings_fini(&gate->endings);
    mem_free_aligned(gate);
}

enum tg_err tg_gate_reconfigure(struct tg_gate *gate, const struct tg_gate_config *given, tg_ms now,
                                struct tg_problem *problem)
{
    struct tg_gate_config own;
    const struct tg_gate_config *config = &own;
    enum tg_err err = read_config(&own, given, gate, problem);

    if (err)
        return err;
    struct tg_law_config law = law_of(config);
    if (config->store != gate->store || config->remote_store != gate->remote_store ||
        config->seed != gate->seed)
        return problem_say(problem, TG_ERR_INVALID,
                           "gate: store and seed cannot change while it runs");
    if (!gate_lock(gate))
        return problem_say(problem, TG_ERR_REENTERED, "gate: %s", tg_strerror(TG_ERR_REENTERED));
    gate_time(gate, now);
    if (!config->wake && gate_first_wait(gate)) {
        err = problem_say(problem, TG_ERR_INVALID, "gate: calls wait, and need a wake function");
    } else if (law_reconfigure(&gate->law, &law)) {
        gate->policy_epoch += config->policy != gate->config.policy;
        gate->config = *config;
        gate->charges.max = (uint32_t)config->max_learned;
        queue_set_shares(&gate->queue, config->concurrency.share);
        gate_grant(gate);
    } else {
        err = problem_say(problem, TG_ERR_MEMORY, "gate: %s", tg_strerror(TG_ERR_MEMORY));
    }
    spin_unlock(&gate->lock);
    return err;
}

void tg_gate_set_memory(struct tg_gate *gate, double used)
{
    if (!gate || !gate_lock(gate))
        return;
    const double thresholds[3] = {gate->config.memory.pressure, gate->config.memory.critical,
                                  gate->config.memory.limit};

    gate->memory_used = used;
    gate->memory = isnan(used) ? MEMORY_FINE : memory_state_next(gate->memory, used, thresholds);
    spin_unlock(&gate->lock);
}

/* ---- the end of a lease ---- */

/* How much the mean slot times remember: so many calls, and so many times the slot time. */
static const double MEAN_SAMPLES = 64, HELD_TIMES = 32;

/* A mean of the first calls, then a moving one, without a division. */
static void count_slot_time(struct tg_gate *gate, double slot_ms)
{
    bool few = gate->samples < MEAN_SAMPLES;

    gate->samples += few;
    gate->mean_slot_ms +=
        (slot_ms - gate->mean_slot_ms) * (few ? 1.0 / gate->samples : 1 / MEAN_SAMPLES);
    if (slot_ms > 0)
        gate->mean_held_ms +=
            (slot_ms - gate->mean_held_ms) * slot_ms / (slot_ms + HELD_TIMES * gate->mean_held_ms);
}

static struct law_sample sample_of(const struct tg_gate *gate, const struct ticket *ticket)
{
    double sojourn = (double)(gate->latest - ticket->started_at);

    assert(ticket->holds_slot && sojourn >= 0 && ticket->in_flight_at_start > 0);
    return (struct law_sample){
        .now = gate->latest,
        .sample_ms = sojourn,
        .sojourn_ms = sojourn,
        .in_flight = gate->in_flight,
        .in_flight_at_start = (int64_t)ticket->in_flight_at_start,
    };
}

/* Tells the law of a call that has run, unless its first byte was the sample. Before the slot is
 * given back: it counts the call itself. */
static void take_sample(struct tg_gate *gate, const struct ticket *ticket,
                        const struct tg_release *release)
{
    struct law_sample sample = sample_of(gate, ticket);

    count_slot_time(gate, sample.sojourn_ms);
    sample.dropped = release->outcome == TG_OUTCOME_DROPPED;
    if (ticket->has_begun && !sample.dropped)
        return;
    if (release->sample_ms >= 0)
        sample.sample_ms = release->sample_ms;
    gate->last_sample_ms = sample.sample_ms;
    law_finished(&gate->law, &sample);
}

/* Settles before the slot is free again, so that whoever gets it finds the units given back. */
static void end_lease(struct tg_gate *gate, struct ticket *ticket, tg_ms now,
                      const struct tg_release *release, struct worth_report *report)
{
    assert(ticket->state == TICKET_ADMITTED);
    bool refused = release->outcome == TG_OUTCOME_REFUSED;
    tg_ms at = num_in_range(now) ? now : gate_to_caller(gate, gate->latest);

    if (ticket->is_judged)
        worth_ended(gate, ticket, now, refused ? 0 : release->actual, report);
    if (ticket->charged && refused)
        claim_refund(gate->store, &ticket->claim, at, ticket->charged_at);
    else if (ticket->charged && release->actual >= 0)
        (void)claim_settle(gate->store, &ticket->claim, at, ticket->charged_at,
                           num_min(release->actual, TG_NUMBER_MAX));
    if (ticket->learns && !refused && release->actual > 0)
        charge_learn(gate, ticket, num_min(release->actual, TG_NUMBER_MAX));
    bool has_run = !refused && release->outcome != TG_OUTCOME_CANCELLED;
    if (ticket->holds_slot && has_run)
        take_sample(gate, ticket, release);
    if (ticket->owes_turn)
        gate_settle_turn(gate, ticket, refused ? 0 : release->work, has_run);
    gate_drop(gate, ticket);
}

/* A remote store is still deciding for it: it is kept, empty, until the answer comes. */
static void abandon(struct tg_gate *gate, struct ticket *ticket)
{
    assert(ticket->state == TICKET_ASKING);
    gate_give_back(gate, ticket);
    ticket->state = TICKET_ABANDONED;
    gate_set_end(gate, ticket, num_add(gate->latest, ticket->lease_ttl));
    gate_grant(gate);
}

static bool release_locked(struct tg_gate *gate, tg_lease lease, tg_ms now,
                           const struct tg_release *release, struct worth_report *report)
{
    struct ticket *ticket = tickets_find(&gate->tickets, lease);

    gate_time(gate, now);
    if (!ticket || ticket->state == TICKET_ABANDONED)
        return false;
    if (ticket->state == TICKET_ADMITTED)
        end_lease(gate, ticket, now, release, report);
    else if (ticket->state == TICKET_ASKING)
        abandon(gate, ticket);
    else
        gate_drop(gate, ticket);
    return true;
}

bool tg_gate_release(struct tg_gate *gate, tg_lease lease, tg_ms now,
                     const struct tg_release *release)
{
    struct worth_report report;
    struct tg_release copy;

    report.policy = NULL;
    if (!release || release->struct_size != sizeof *release)
        release = read_release(release, &copy);
    if (!gate || !release || !gate_lock(gate))
        return false;
    bool found = release_locked(gate, lease, now, release, &report);
    spin_unlock(&gate->lock);
    if (report.policy)
        worth_tell(&report);
    return found;
}

bool tg_gate_first_byte_after(struct tg_gate *gate, tg_lease lease, tg_ms now, double sample_ms)
{
    if (!gate || !gate_lock(gate))
        return false;
    struct ticket *ticket = tickets_find(&gate->tickets, lease);
    bool first = ticket && ticket->state == TICKET_ADMITTED && !ticket->has_begun;

    gate_time(gate, now);
    if (first && ticket->holds_slot) {
        struct law_sample sample = sample_of(gate, ticket);
        sample.still_runs = true;
        if (sample_ms >= 0)
            sample.sample_ms = sample_ms;
        gate->last_sample_ms = sample.sample_ms;
        law_first_byte(&gate->law, &sample, first_bytes_place(ticket->size));
    }
    if (first)
        ticket->has_begun = true;
    gate_grant(gate); /* the limit may have changed */
    spin_unlock(&gate->lock);
    return first;
}

bool tg_gate_first_byte(struct tg_gate *gate, tg_lease lease, tg_ms now)
{
    return tg_gate_first_byte_after(gate, lease, now, -1);
}

void tg_gate_set_room(struct tg_gate *gate, int64_t room, tg_ms until, tg_ms now)
{
    if (!gate || !gate_lock(gate))
        return;
    gate_time(gate, now);
    room = num_max(-TG_NUMBER_MAX, num_min(room, TG_NUMBER_MAX));
    law_ceiling(&gate->law, gate->latest, gate->in_flight + room,
                num_in_range(until) ? gate_from_caller(gate, until) : until);
    gate_grant(gate);
    spin_unlock(&gate->lock);
}

bool tg_gate_renew(struct tg_gate *gate, tg_lease lease, tg_ms now, tg_ms ttl)
{
    if (!gate || !gate_lock(gate))
        return false;
    struct ticket *ticket = tickets_find(&gate->tickets, lease);
    bool found = ticket && ticket->state == TICKET_ADMITTED;

    gate_time(gate, now);
    if (found)
        gate_set_end(gate, ticket, num_add(gate->latest, ttl > 0 ? ttl : ticket->lease_ttl));
    spin_unlock(&gate->lock);
    return found;
}

/* ---- time ---- */

static tg_ms next_wait_over(const struct tg_gate *gate)
{
    const struct ticket *first = gate_first_wait(gate);

    return first ? first->deadline : INT64_MAX;
}

tg_ms tg_gate_next_deadline(struct tg_gate *gate)
{
    if (!gate || !gate_lock(gate))
        return INT64_MAX;
    tg_ms at = num_min(next_wait_over(gate), endings_next(&gate->endings));
    if (at < INT64_MAX)
        at = gate_to_caller(gate, at);
    spin_unlock(&gate->lock);
    return at;
}

/* How often peers that have no call any more are cleared out. */
static const tg_ms TIDY_MS = 60000;

/* Lets the next event happen, at its own time. At one instant waits are over before leases end. */
static void next_event(struct tg_gate *gate, struct worth_reports *reports)
{
    tg_ms over = next_wait_over(gate), ends = endings_next(&gate->endings);

    gate_advance(gate, num_min(over, ends));
    if (over <= ends)
        gate_end_wait(gate, gate_first_wait(gate));
    else
        gate_end_leases(gate, ends, reports);
}

/* In the order of time, also when the tick comes late: a lease that ended first frees the slot for
 * one whose wait would have been over next. */
static void tick_locked(struct tg_gate *gate, tg_ms now, struct worth_reports *reports)
{
    tg_ms until = gate_time_of(gate, now);

    while (num_min(next_wait_over(gate), endings_next(&gate->endings)) <= until) {
        if (reports->n == WORTH_BATCH)
            return;
        next_event(gate, reports);
    }
    gate_advance(gate, until);
    gate_grant(gate);
    if (gate->latest - gate->tidied_at >= TIDY_MS) {
        peers_tidy(&gate->peers);
        gate->tidied_at = gate->latest;
    }
}

void tg_gate_tick(struct tg_gate *gate, tg_ms now)
{
    struct worth_reports reports;

    if (!gate)
        return;
    do {
        reports.n = 0;
        if (!gate_lock(gate))
            return;
        tick_locked(gate, now, &reports);
        spin_unlock(&gate->lock);
        for (size_t i = 0; i < reports.n; i++)
            worth_tell(&reports.reports[i]);
    } while (reports.n == WORTH_BATCH);
}
