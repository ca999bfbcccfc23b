/* recording_side.c - a gateway in virtual time that is told a recording. See recording_side.h. */
#include "cli/replay/recording_side.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/gate_config.h"
#include "cli/replay/recording_side_internal.h"
#include "lib/core/array.h"
#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"

static bool actor_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct actor *x = container_of(a, struct actor, node);
    const struct actor *y = container_of(b, struct actor, node);

    return x->next_at != y->next_at ? x->next_at < y->next_at : x->call->line < y->call->line;
}

/* ---- a call ---- */

static void set_next_step(struct actor *actor, tg_ms at)
{
    struct heap *heap = &actor->side->astray;

    actor->next_at = num_max(at, actor->side->now);
    if (actor->in_heap)
        heap_moved(heap, &actor->node);
    else
        actor->in_heap = heap_add(heap, &actor->node);
}

static void no_next_step(struct actor *actor)
{
    if (actor->in_heap)
        heap_remove(&actor->side->astray, &actor->node);
    actor->in_heap = false;
}

static struct actor *actor_new(struct recording_side *side, struct recorded_call *call)
{
    struct actor *actor = calloc(1, sizeof *actor);

    if (actor == NULL)
        return NULL;
    actor->side = side;
    actor->call = call;
    actor->generation = recording_generation_of(side, call->generation);
    actor->next = call->ops;
    actor->end = call->ops + call->n_ops;
    actor->verdict.recorded = actor->verdict.replayed = "left";
    for (size_t i = 0; i < call->n_ops; i++)
        recording_judge(&actor->verdict.recorded, &call->ops[i], &call->ops[i].came);
    actor->next_actor = side->actors;
    if (side->actors != NULL)
        side->actors->link = &actor->next_actor;
    actor->link = &side->actors;
    side->actors = actor;
    return actor;
}

static void actor_free(struct actor *actor)
{
    no_next_step(actor);
    *actor->link = actor->next_actor;
    if (actor->next_actor != NULL)
        actor->next_actor->link = actor->link;
    free(actor->made_up);
    free(actor);
}

static void forget_wake(struct actor *actor)
{
    struct actor **link = &actor->side->woken;

    if (!actor->is_woken)
        return;
    while (*link != actor)
        link = &(*link)->next_woken;
    *link = actor->next_woken;
    actor->is_woken = false;
}

/* ---- leases of callers of Admit ---- */

/* What a lease is here that had this name then. */
struct side_lease {
    int64_t name;
    tg_lease gate;
    struct tg_gate *slots; /* null: none */
    tg_lease slot;
};

static struct hash_slot *find_lease(const struct recording_side *side, int64_t name)
{
    struct hash_slot *slot = hash_table_find(&side->leases, hash_number((uint64_t)name));

    while (slot != NULL && ((struct side_lease *)slot->item)->name != name)
        slot = hash_table_find_next(&side->leases, slot);
    return slot;
}

/* The call is answered, and its lease somebody else's, if it was so then. */
static void hand_over(struct actor *actor)
{
    struct recording_side *side = actor->side;
    const struct recorded_call *call = actor->call;
    struct side_lease *lease;
    int64_t name = -1;

    for (size_t i = 0; i < call->n_ops; i++)
        if (call->ops[i].place == PLACE_GATE && call->ops[i].lease >= 0)
            name = call->ops[i].lease;
    if (name < 0 || actor->gate.state != ADMISSION_ADMITTED || actor->gate.lease == 0 ||
        find_lease(side, name) != NULL)
        return;
    lease = calloc(1, sizeof *lease);
    if (lease == NULL || hash_table_reserve(&side->leases, side->leases.n + 1) != TG_OK) {
        free(lease);
        side->no_memory = true;
        return;
    }
    *lease = (struct side_lease){.name = name, .gate = admission_run_hand_over_lease(&actor->gate)};
    if (actor->slot.ops != NULL && actor->slot.state == ADMISSION_ADMITTED) {
        lease->slots = actor->slot.gate;
        lease->slot = admission_run_hand_over_lease(&actor->slot);
    }
    hash_table_insert(&side->leases, hash_number((uint64_t)name))->item = lease;
}

static void end_lease(struct recording_side *side, const struct recorded_op *op)
{
    struct hash_slot *slot = find_lease(side, op->lease);
    struct tg_release release;

    if (slot == NULL)
        return; /* it was not admitted here */
    struct side_lease *lease = slot->item;
    tg_release_init(&release);
    release.outcome = op->outcome >= 0 ? (enum tg_outcome)op->outcome : TG_OUTCOME_OK;
    release.sample_ms = op->sample;
    release.actual = op->actual;
    release.work = op->work;
    if (op->place != PLACE_SLOT)
        tg_gate_release(side->gateway->gate, lease->gate, op->t, &release);
    if (lease->slots != NULL)
        tg_gate_release(lease->slots, lease->slot, op->t, &release);
    hash_table_remove(&side->leases, slot);
    free(lease);
}

static void renew_lease(struct recording_side *side, const struct recorded_op *op)
{
    struct hash_slot *slot = find_lease(side, op->lease);

    if (slot == NULL)
        return;
    const struct side_lease *lease = slot->item;
    if (tg_gate_renew(side->gateway->gate, lease->gate, op->t, op->ttl) && lease->slots != NULL)
        tg_gate_renew(lease->slots, lease->slot, op->t, op->ttl);
}

static void free_leases(struct recording_side *side)
{
    for (struct hash_slot *slot = hash_table_first(&side->leases); slot != NULL;
         slot = hash_table_after(&side->leases, slot))
        free(slot->item);
    hash_table_fini(&side->leases);
}

/* ---- the end of a call ---- */

/* It has done all: its verdict goes out. */
static void actor_over(struct actor *actor, tg_ms now)
{
    struct recording_side *side = actor->side;

    hand_over(actor);
    actor_give_all_back(actor, now);
    forget_wake(actor);
    if (strcmp(actor->verdict.recorded, actor->verdict.replayed) != 0 && !actor->verdict.differs) {
        actor->verdict.differs = true;
        actor->verdict.first.cause =
            recording_cause_of(side, &actor->call->ops[actor->call->n_ops - 1]);
    }
    side->ended(side->context, actor->call, &actor->verdict);
    actor_free(actor);
}

/* It is decided otherwise than then: from here on it goes its own way. */
static void go_astray(struct actor *actor)
{
    actor->is_astray = true;
    actor->call->actor = NULL; /* what comes of the recording is not for it */
}

/* What came of a decision, against what was recorded. */
static void decided(struct actor *actor, const struct recorded_op *op,
                    const struct recorded_outcome *came, tg_ms now)
{
    recording_compare(actor, op, came);
    recording_judge(&actor->verdict.replayed, op, came);
    if (actor->made_up == NULL && came->to == op->came.to)
        return;
    go_astray(actor);
    if (came->to == RESULT_REFUSED || came->to == RESULT_FAILED) {
        actor->is_over = true;
        actor_give_all_back(actor, now);
        return;
    }
    if (came->to == RESULT_WAITING)
        return;
    /* It may go on where it was refused then. */
    if (op->came.to == RESULT_REFUSED || op->came.to == RESULT_FAILED) {
        struct recorded_op *made_up;
        size_t n = recording_make_up(&actor->side->means, actor->generation, actor->call, op, now,
                                     &made_up);
        actor->made_up = made_up;
        actor->shift = 0;
        actor->next = made_up;
        actor->end = made_up + n;
    }
}

/* What the remote store said of a call. What it said of its money and its key is as it is: this
 * gateway's own books and key pool have been asked before. */
static void follow_store(struct actor *actor, const struct recorded_op *op, tg_ms now)
{
    struct recorded_outcome came;

    if (actor_do(actor, op, now, &came)) {
        decided(actor, op, &came, now);
    } else if (actor->is_stored) {
        came = actor->stored;
        actor->is_stored = false;
        decided(actor, op, &came, now);
    } else if (op->place != PLACE_GATE) {
        recording_judge(&actor->verdict.replayed, op, &op->came);
    }
}

/* One operation of a call that is in step. */
static void actor_follow(struct actor *actor, const struct recorded_op *op, tg_ms now)
{
    struct recorded_outcome came;

    if (op->kind == RECORDED_STORE) {
        follow_store(actor, op, now);
        return;
    }
    if (!actor_do(actor, op, now, &came)) {
        recording_judge(&actor->verdict.replayed, op, &came);
        return;
    }
    if (op->came.to == RESULT_ASKING && came.to != RESULT_WAITING && came.to != RESULT_ASKING) {
        actor->stored = came;
        actor->is_stored = true;
        return;
    }
    decided(actor, op, &came, now);
}

/* Goes on with a call that is astray, as far as it can now. */
static void step_astray(struct actor *actor, tg_ms now)
{
    struct admission_run *run = actor_waiting_run(actor);
    struct recorded_outcome came;

    no_next_step(actor);
    if (actor->is_over) {
        actor_over(actor, now);
        return;
    }
    if (run != NULL) {
        struct tg_answer answer;
        actor->op = NULL;
        admission_run_wake(run, now, &answer);
        came = outcome_of_run(run, &answer);
        recording_judge(&actor->verdict.replayed, &(struct recorded_op){.hint = false}, &came);
        if (run->state == ADMISSION_WAITING) {
            set_next_step(actor, run->deadline);
            return;
        }
        if (run->state != ADMISSION_ADMITTED) {
            actor_over(actor, now);
            return;
        }
        /* What it waited for then is passed over; the rest happens as much later as it was. */
        const struct recorded_op *waited = actor->next;
        while (waited < actor->end && waited->kind == RECORDED_RESUME)
            waited++;
        tg_ms then = waited > actor->call->ops && actor->made_up == NULL ? waited[-1].t
                     : waited < actor->end                               ? waited->t
                                                                         : now;
        actor->next = waited;
        actor->shift = now - then;
    }
    while (actor->next < actor->end) {
        const struct recorded_op *op = actor->next;
        tg_ms at = op->t + actor->shift;
        if (at > now) {
            set_next_step(actor, at);
            return;
        }
        actor->next++;
        if (op->kind == RECORDED_STORE) {
            follow_store(actor, op, now);
        } else if (actor_do(actor, op, now, &came)) {
            if (op->came.to == RESULT_ASKING && came.to != RESULT_WAITING &&
                came.to != RESULT_ASKING) {
                actor->stored = came;
                actor->is_stored = true;
            } else {
                decided(actor, op, &came, now);
            }
        }
        if (actor->is_over) {
            actor_over(actor, now);
            return;
        }
        run = actor_waiting_run(actor);
        if (run != NULL) {
            set_next_step(actor, run->deadline);
            return;
        }
    }
    actor_over(actor, now);
}

/* It has just gone astray. */
static void step_or_wait(struct actor *actor, tg_ms now)
{
    const struct admission_run *run = actor_waiting_run(actor);
    const struct recorded_op *waited = actor->next;

    if (run != NULL && !actor->is_over) {
        set_next_step(actor, run->deadline);
        return;
    }
    /* It has its place at once, and does everything as much earlier as it waited then. */
    while (actor->made_up == NULL && waited < actor->end && waited->kind == RECORDED_RESUME)
        waited++;
    if (waited > actor->next) {
        actor->shift = now - waited[-1].t;
        actor->next = waited;
    }
    step_astray(actor, now);
}

/* ---- the gateway ---- */

static void wake_actor(void *context, void *waiter)
{
    struct actor *actor = waiter;

    (void)context;
    if (actor->is_woken)
        return;
    actor->is_woken = true;
    actor->next_woken = actor->side->woken;
    actor->side->woken = actor;
}

/* In another configuration a call may get its place long before or after it did. One that got it at
 * about the same moment goes on when it did then. */
enum { SAME_MOMENT_MS = 20 };

static bool resumes_as_recorded(const struct actor *actor, tg_ms now)
{
    return !actor->is_astray && (actor->side->exact || (actor->next < actor->end &&
                                                        actor->next->kind == RECORDED_RESUME &&
                                                        actor->next->t - now <= SAME_MOMENT_MS));
}

static void run_woken(struct recording_side *side)
{
    while (side->woken != NULL) {
        struct actor *actor = side->woken;
        side->woken = actor->next_woken;
        actor->is_woken = false;
        if (resumes_as_recorded(actor, side->now) || actor_waiting_run(actor) == NULL)
            continue;
        go_astray(actor);
        step_astray(actor, side->now);
    }
}

static void tick_all(struct recording_side *side, const struct recorded_op *op)
{
    const struct generation *generation = recording_generation_of(side, op->generation);
    tg_ms now = op->t;

    tg_gate_tick(side->gateway->gate, now);
    for (size_t i = 0; i < generation->n_slots; i++)
        tg_gate_tick(generation->slots[i].slots->gate, now);
}

static void run_astray(struct recording_side *side, tg_ms until)
{
    struct heap_node *first;

    while ((first = heap_first(&side->astray)) != NULL) {
        struct actor *actor = container_of(first, struct actor, node);
        if (actor->next_at > until)
            return;
        side->now = num_max(side->now, actor->next_at);
        step_astray(actor, actor->next_at);
        run_woken(side);
    }
}

/* Shares of one gateway among one are the limits themselves; the gates are set again all the same,
 * as they were then. */
static void set_gateways(struct recording_side *side, const struct recorded_op *op)
{
    struct tg_problem ignored;

    if (op->detail == NULL || strcmp(op->detail, "1") != 0 ||
        !generation_set_gates(gateway_newest(side->gateway), op->t, &ignored))
        side->changed = "gateways";
}

static void note_change(struct recording_side *side, const struct recorded_op *op)
{
    if (op->what != NULL && strcmp(op->what, "gateways") == 0) {
        set_gateways(side, op);
        return;
    }
    if (op->what != NULL && strcmp(op->what, "reload_failed") == 0)
        return;
    if (op->what == NULL || strcmp(op->what, "reload") != 0) {
        side->changed = "change";
        return;
    }
    if (!side->config_is_its)
        return; /* it is for the whole day */
    if (!recording_reload(side, op))
        side->changed = "reload";
    else
        side->reloads++;
    side->no_memory |= !recording_note_generation(side);
}

static void do_without_call(struct recording_side *side, const struct recorded_op *op)
{
    static const enum tg_probe_result results[] = {[RESULT_GOOD] = TG_PROBE_GOOD,
                                                   [RESULT_BAD] = TG_PROBE_BAD,
                                                   [RESULT_UNCLEAR] = TG_PROBE_UNCLEAR};
    struct tg_keyring *ring = side->gateway->ring;

    switch (op->kind) {
    case RECORDED_MEMORY:
        tg_gate_set_memory(side->gateway->gate, op->used);
        break;
    case RECORDED_TICK:
        tick_all(side, op);
        break;
    case RECORDED_PROBE:
        if (side->probe.id == 0 && !tg_keyring_next_probe(ring, op->t, &side->probe))
            side->probe.id = 0;
        break;
    case RECORDED_PROBED:
        if (side->probe.id != 0 && op->came.to >= RESULT_GOOD)
            tg_keyring_probed(ring, &side->probe, results[op->came.to], op->t);
        side->probe.id = 0;
        break;
    case RECORDED_CHANGE:
        note_change(side, op);
        break;
    case RECORDED_LEASE_END:
        end_lease(side, op);
        break;
    case RECORDED_LEASE_RENEW:
        renew_lease(side, op);
        break;
    default:
        break;
    }
}

static bool run_op(struct recording_side *side, const struct recorded_op *op)
{
    struct recorded_call *call = op->call;

    if (call == NULL) {
        do_without_call(side, op);
        return true;
    }
    if (op == call->ops)
        call->actor = actor_new(side, call);
    struct actor *actor = call->actor;
    if (actor == NULL)
        return op != call->ops; /* it went astray, and is by itself */
    assert(!actor->is_astray);
    if (op < actor->next)
        return true; /* out of order in the file: it is passed over */
    actor->next = op + 1;
    actor_follow(actor, op, op->t);
    if (actor->is_astray) {
        step_or_wait(actor, op->t);
    } else if (actor->next == actor->end) {
        call->actor = NULL;
        actor_over(actor, op->t);
    }
    return true;
}

bool recording_side_run(struct recording_side *side)
{
    const struct recording *recording = side->recording;

    for (size_t i = 0; i < recording->n_calls; i++)
        recording->calls[i]->actor = NULL;
    for (size_t i = 0; i < recording->n_ops; i++) {
        const struct recorded_op *op = recording->ops[i];
        run_astray(side, op->t);
        side->now = num_max(side->now, op->t);
        if (!run_op(side, op) || side->no_memory)
            return false;
        run_woken(side);
    }
    run_astray(side, TG_NUMBER_MAX);
    while (side->actors != NULL) /* calls that lost their last operations */
        actor_over(side->actors, side->now);
    return true;
}

/* ---- its life ---- */

/* What was spent before: an account of the same name and budgets in the same order. */
static void restore_spend(struct recording_side *side, const struct recorded_spend *spend)
{
    struct spending *spending = side->gateway->spending;
    tg_ms now = spending_time(spending, side->recording->t);
    const struct spending_call call = {
        .tenant = spend->tenant,
        .hint = SPENDING_TOP,
        .key = spend->virtual_key,
        .user = {spend->user, spend->user != NULL ? strlen(spend->user) : 0}};
    tg_account account = spending_open(spending, &call, side->recording->t);

    for (size_t i = 0; account != 0 && i < spend->n; i++)
        if (spend->settled[i] > 0 &&
            tg_bank_restore(spending_bank(spending), account, i, spend->settled[i], now) != TG_OK)
            side->changed = "configuration";
}

bool recording_is_of(const struct recording *recording, const struct command *command,
                     const char *path)
{
    struct config config;
    bool is_its =
        gate_config_load(command, path, &config) && strcmp(config.hash, recording->config) == 0;

    config_free(&config);
    return is_its;
}

bool recording_side_init(struct recording_side *side, const struct command *command,
                         const char *path, const struct recording *recording, bool as_told,
                         void (*ended)(void *context, const struct recorded_call *call,
                                       const struct recording_verdict *verdict),
                         void *context, int *status)
{
    struct tg_problem problem;
    struct config config;
    struct clock clock = {.epoch_ns = 0};

    *side = (struct recording_side){.command = command,
                                    .path = path,
                                    .recording = recording,
                                    .exact = true,
                                    .now = recording->t,
                                    .ended = ended,
                                    .context = context};
    heap_init(&side->astray, actor_before);
    *status = STATUS_WRONG;
    if (!recording_load(side, path, recording->config, recording->t, &config,
                        &side->config_is_its)) {
        config_free(&config);
        return false;
    }
    recording_make_virtual(&config);
    atomic_store(&clock.ahead_ms, recording->ahead_ms);
    *status = STATUS_FAILED;
    if (!recording_means_init(&side->means, recording)) {
        config_free(&config);
        command_say(command, "%s", tg_strerror(TG_ERR_MEMORY));
        return false;
    }
    if (!gateway_new_virtual(&config, &clock, recording->t, recording->chance,
                             as_told && side->config_is_its && !recording_is_in_memory(recording),
                             wake_actor, &side->gateway, &problem)) {
        command_say(command, "%s: %s", path, problem.text);
        return false;
    }
    if (side->config_is_its && !recording_note_generation(side)) {
        command_say(command, "%s", tg_strerror(TG_ERR_MEMORY));
        return false;
    }
    /* Users before their tenants: their accounts are opened by a call that is free. */
    for (int users = 1; users >= 0; users--)
        for (const struct recorded_spend *spend = recording->spends; spend; spend = spend->next)
            if ((spend->user != NULL) == users)
                restore_spend(side, spend);
    *status = STATUS_DONE;
    return true;
}

void recording_side_fini(struct recording_side *side)
{
    while (side->actors != NULL) {
        actor_give_all_back(side->actors, side->now);
        actor_free(side->actors);
    }
    recording_means_fini(&side->means);
    heap_fini(&side->astray);
    free(side->generations);
    free_leases(side);
    if (side->gateway != NULL)
        gateway_free(side->gateway);
}
