/* waits.c - waits that follow the time slots are held, and a queue that is bounded by it. See
 * waits.h. */
#include "lib/admission/waits.h"

#include <assert.h>
#include <math.h>

#include "lib/core/num.h"

/* The longest wait that the gate derives by itself, and the shortest. */
static const tg_ms AUTO_WAIT_MAX_MS = 30000;
static const tg_ms AUTO_WAIT_MIN_MS[TG_PRIORITY_COUNT] = {100, 50, 0};

/* How long a slot is held on average, as whoever waits sees it, and what is assumed before a call
 * has ended. At any moment most slots are held by the long calls, and are held for another
 * E[t^2] / (2 E[t]): between short and long calls that is far more than the mean of all calls. */
static double slot_ms(const struct tg_gate *gate)
{
    static const double ASSUMED_MS = 1000;

    if (gate->samples == 0)
        return ASSUMED_MS;
    return fmax(gate->mean_slot_ms, gate->mean_held_ms / 2);
}

/* How long this call holds its slot: as it says, else like others of its tenant, else like all. */
static double call_ms(const struct tg_gate *gate, const struct tg_call *call)
{
    double known = call->hold_s * 1000;

    if (!(known > 0))
        known = queue_slot_ms(&gate->queue, call->priority, stages_tenant_id(gate, call));
    return known > 0 ? known : slot_ms(gate);
}

/* See TG_WAIT_AUTO. A class without a share has no turns of its own to wait for. */
static tg_ms auto_wait(const struct tg_gate *gate, const struct tg_call *call)
{
    double limit = (double)law_limit(&gate->law), root = sqrt(limit);
    double share = gate->config.concurrency.share[call->priority];
    double times = fmax(2, 8 / root);

    if (call->priority != TG_PRIORITY_HIGH)
        times = fmax(2 / root, share > 0 ? 2 / (limit * share) : 0);
    double wait = fmax(times * slot_ms(gate), call_ms(gate, call));
    return num_min(AUTO_WAIT_MAX_MS, num_max(AUTO_WAIT_MIN_MS[call->priority], num_ceil(wait)));
}

/* Sees how often each class gets a slot, over about so many slot times. */
static void count_starts(struct tg_gate *gate)
{
    static const double SLOT_TIMES = 8;
    struct starts *starts = &gate->starts;
    double passed = (double)(gate->latest - starts->at);

    if (passed <= 0)
        return;
    for (int rank = 0; rank < TG_PRIORITY_COUNT; rank++) {
        double per_ms = (double)(gate->started[rank] - starts->counted[rank]) / passed;
        starts->per_ms[rank] +=
            (per_ms - starts->per_ms[rank]) * passed / (passed + SLOT_TIMES * slot_ms(gate));
        starts->counted[rank] = gate->started[rank];
    }
    starts->at = gate->latest;
}

/* ---- by the times of the law ---- */

static bool is_known(const struct law_times *times)
{
    return times->mean_ms > 0 && times->base_ms > 0;
}

/* How often a slot comes free. Nobody can be served sooner, and if nobody waited that long, slots
 * would stay empty. */
static double turn_ms(const struct tg_gate *gate)
{
    return gate->mean_slot_ms / (double)law_limit(&gate->law);
}

/* How long a call is held, and how long while its class is over. */
static double hold_ms(const struct tg_gate *gate, const struct law_times *times)
{
    double hold =
        times->first_bytes ? 3 * times->base_ms : 5 * fmin(times->mean_ms, 2 * times->base_ms);

    return fmax(hold, 4 * turn_ms(gate));
}

static double short_ms(const struct tg_gate *gate, const struct law_times *times)
{
    return fmax(0.5 * fmin(times->mean_ms, 1.5 * times->base_ms), 2 * turn_ms(gate));
}

/* Whether this class is overloaded itself: with those above it, it holds what the shares of those
 * below leave to it (a slot that is just free is theirs), and those have not had much more than
 * their shares lately. */
static bool is_overloaded(const struct tg_gate *gate, int priority)
{
    double held = (double)num_less(law_limit(&gate->law), gate->in_flight);
    double shares = 0, below = 0, all = 0;

    for (int rank = 0; rank < TG_PRIORITY_COUNT; rank++) {
        all += gate->starts.per_ms[rank];
        held += rank <= priority ? gate->held[rank] : 0;
        below += rank <= priority ? 0 : gate->starts.per_ms[rank];
        shares += rank <= priority ? 0 : gate->config.concurrency.share[rank];
    }
    return held >= floor((1 - shares) * (double)law_limit(&gate->law)) &&
           below <= 1.5 * shares * all;
}

static void set_over(struct tg_gate *gate, int priority, bool over)
{
    if (gate->queue.classes[priority].is_newest_first != over)
        queue_set_order(&gate->queue.classes[priority], over);
}

/* Ends the waits of a class's oldest calls, as long as they have waited too long. One that is not
 * overloaded itself waits until its deadline, or as long as that is of use. */
static void bound_class(struct tg_gate *gate, const struct law_times *times, int priority)
{
    struct queue_class *line = &gate->queue.classes[priority];
    double hold = hold_ms(gate, times);
    double soon = (double)(gate->latest - line->waiting_since) > 5 * times->mean_ms
                      ? short_ms(gate, times)
                      : INFINITY;
    bool overloaded = is_overloaded(gate, priority);
    struct ticket *oldest;

    while ((oldest = TAILQ_FIRST(&line->calls)) != NULL) {
        tg_ms until = num_min(oldest->useful_until, oldest->deadline);
        double useful = (double)(until - oldest->queued_at);
        double most = fmin(hold, useful), waited = (double)(gate->latest - oldest->queued_at);
        double bound = !overloaded ? useful : line->is_newest_first ? fmin(soon, most) : most;
        if (waited <= bound) {
            if (overloaded && waited > 0.75 * most)
                set_over(gate, priority, true);
            return;
        }
        gate_end_wait(gate, oldest);
    }
}

void waits_bound(struct tg_gate *gate)
{
    const struct law_times times = law_times(&gate->law);

    if (is_known(&times))
        count_starts(gate);
    for (int priority = 0; priority < TG_PRIORITY_COUNT; priority++)
        if (is_known(&times))
            bound_class(gate, &times, priority);
        else
            set_over(gate, priority, false); /* the law has been replaced */
}

/* A class that was empty when a call came to it: the end of OVER, if it was that. */
static void begin_waiting(struct tg_gate *gate, const struct law_times *times, int priority)
{
    struct queue_class *line = &gate->queue.classes[priority];

    if (!is_known(times) || (double)(gate->latest - line->refused_at) >= 10 * times->mean_ms)
        set_over(gate, priority, false);
    line->waiting_since = gate->latest;
}

/* ---- at the door ---- */

/* Until the call's own deadline. */
static tg_ms time_left(const struct tg_gate *gate, const struct tg_call *call)
{
    return num_less(gate_from_caller(gate, call->deadline), gate->latest);
}

/* How long this call may wait: its class's time, or what is left of its own. */
static tg_ms may_wait(const struct tg_gate *gate, const struct tg_call *call,
                      const struct law_times *times)
{
    tg_ms wait = gate->config.concurrency.wait[call->priority];

    if (wait == TG_WAIT_AUTO) {
        wait = auto_wait(gate, call);
        if (is_known(times))
            wait = num_min(AUTO_WAIT_MAX_MS, num_max(wait, num_ceil(hold_ms(gate, times))));
    }
    return call->deadline ? num_min(wait, time_left(gate, call)) : wait;
}

/* The part of the slots that a class gets. */
static double part_of(const struct tg_gate *gate, enum tg_priority priority)
{
    double above = 0, part = gate->config.concurrency.share[priority];

    for (int rank = 0; rank < (int)priority; rank++)
        above += gate->starts.per_ms[rank];
    part = fmax(part, 1 - above * gate->mean_slot_ms / (double)law_limit(&gate->law));
    return priority == TG_PRIORITY_LOW ? fmin(part, gate->config.concurrency.low_ratio) : part;
}

/* Whether the call has a chance to be served in time. Ahead are those whose turn comes earlier, not
 * all that wait: else a tenant that fills the queue would keep the others from it. Without a sample
 * of how long calls take, there is a chance. */
static bool may_be_in_time(struct tg_gate *gate, const struct tg_call *call, tg_ms wait)
{
    count_starts(gate);
    double slots = (double)law_limit(&gate->law) * part_of(gate, call->priority);
    double enough = (double)wait * slots - gate->mean_slot_ms; /* slot time that may be ahead */

    return gate->samples == 0 || gate->queue.classes[call->priority].slot_ms <= enough ||
           (enough >= 0 &&
            queue_ahead_of(&gate->queue, call->priority, stages_tenant_id(gate, call), call->weight,
                           gate->mean_slot_ms, enough) <= enough);
}

/* A queue that is bounded by the times of its law needs no forecast: what waits too long in it is
 * refused, and the newest may be first. */
static bool may_queue(struct tg_gate *gate, const struct tg_call *call,
                      const struct law_times *times, tg_ms wait)
{
    return wait > 0 &&
           gate->queue.classes[call->priority].waiting < gate->config.concurrency.queue_size &&
           (is_known(times) || may_be_in_time(gate, call, wait));
}

bool waits_may_enter(struct tg_gate *gate, const struct tg_call *call, tg_ms *wait)
{
    const struct law_times times = law_times(&gate->law);
    const struct starts starts = gate->starts; /* who only asks learns nothing */

    *wait = may_wait(gate, call, &times);
    bool may = may_queue(gate, call, &times, *wait);
    gate->starts = starts;
    return may;
}

bool waits_enter(const struct passage *passage, struct ticket *ticket, enum tg_err *err)
{
    struct tg_gate *gate = passage->gate;
    const struct tg_call *call = passage->call;
    const struct law_times times = law_times(&gate->law);
    struct queue_class *line = &gate->queue.classes[call->priority];
    tg_ms wait = may_wait(gate, call, &times);

    assert(ticket->state == TICKET_CHECKED && !ticket->holds_slot);
    if (!may_queue(gate, call, &times, wait)) {
        line->refused_at = gate->latest;
        return false;
    }
    if (line->waiting == 0)
        begin_waiting(gate, &times, (int)call->priority);
    if (!queue_push(&gate->queue, ticket, stages_tenant_id(gate, call), call->weight, call->work,
                    gate->mean_slot_ms)) {
        *err = TG_ERR_MEMORY;
        return true;
    }
    ticket->queued_at = gate->latest;
    ticket->deadline = num_add(gate->latest, wait);
    ticket->useful_until = TG_NUMBER_MAX;
    if (call->deadline && is_known(&times)) {
        double left = (double)time_left(gate, call);
        ticket->useful_until =
            num_add(gate->latest, num_floor(left - fmin(times.mean_ms, left / 2)));
    }
    if (!heap_add(&gate->waits, &ticket->wait)) {
        queue_remove(&gate->queue, ticket);
        *err = TG_ERR_MEMORY;
        return true;
    }
    ticket->state = TICKET_WAITING;
    ticket->waiter = call->waiter;
    return true;
}
