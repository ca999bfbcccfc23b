/* recording_side.c - a gateway in virtual time that is told a recording. See recording_side.h. */
#include "cli/replay/recording_side.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/gate_config.h"
#include "lib/admission/admission_run.h"
#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"

/* A call in replay. */
struct actor {
    struct recording_side *side;
    struct recorded_call *call;
    struct tg_scope scopes[TG_SCOPES_MAX];
    struct tg_call gate_call, slot_call;
    struct admission_run gate, slot;
    struct spending_ticket money;   /* reservation 0: none */
    tg_key_lease key;               /* 0: none */
    const struct recorded_op *next; /* what it does next; up to: */
    const struct recorded_op *end;
    struct recorded_op *made_up; /* what it did not do then; null: nothing is */

    struct recorded_outcome stored; /* what was decided while the remote store was asked then */
    bool is_stored;

    bool is_astray;
    bool is_over;  /* it was refused: what was recorded of it does not happen */
    bool is_woken; /* in the list of the side */
    tg_ms shift;   /* astray: how much later than then it does what it did */
    tg_ms next_at; /* astray: when it goes on, if it is in the heap */
    bool in_heap;
    struct heap_node node;
    struct actor *next_woken, *next_actor, **link;
    struct recording_verdict verdict;
};

static const struct admission_ops NOBODY_WAITS = {.wait = NULL};

static bool actor_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct actor *x = container_of(a, struct actor, node);
    const struct actor *y = container_of(b, struct actor, node);

    return x->next_at != y->next_at ? x->next_at < y->next_at : x->call->line < y->call->line;
}

/* ---- comparing ---- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_outcome(const struct recorded_outcome *a, const struct recorded_outcome *b)
{
    return a->to == b->to && same_text(a->reason, b->reason) && a->reserved == b->reserved &&
           same_text(a->key, b->key);
}

static bool same_numbers(const struct recorded_outcome *a, const struct recorded_outcome *b)
{
    return a->charge == b->charge && a->limit == b->limit && a->remaining == b->remaining &&
           a->reset_at == b->reset_at && a->retry_after == b->retry_after;
}

static bool is_in_memory(const struct recording *recording)
{
    return strcmp(recording->store, "memory") == 0;
}

/* The first that applies: a recording cannot know which of them it was. */
static const char *cause_of(const struct recording_side *side, const struct recorded_op *op)
{
    const struct recording *recording = side->recording;

    if (!side->config_is_its)
        return "configuration";
    if (side->changed != NULL)
        return side->changed;
    if (recording->first_missing != 0 && recording->first_missing < op->number)
        return "lost";
    if (!is_in_memory(recording))
        return "redis";
    if (recording->inherited)
        return "inherited";
    if (recording->policy_learned)
        return "policy";
    return side->differed ? "earlier" : "unknown";
}

static void compare(struct actor *actor, const struct recorded_op *op,
                    const struct recorded_outcome *came)
{
    struct recording_side *side = actor->side;
    struct recording_verdict *verdict = &actor->verdict;

    if (actor->made_up != NULL)
        return; /* there is nothing to compare it with */
    side->n_ops++;
    /* What is left and when it may be tried again, Redis says by its own clock. */
    if (same_outcome(&op->came, came) &&
        (!is_in_memory(side->recording) || same_numbers(&op->came, came)))
        return;
    if (!verdict->differs)
        verdict->first = (struct recording_difference){op, *came, cause_of(side, op)};
    verdict->differs = true;
    side->differed = true;
}

static void judge(const char **verdict, const struct recorded_op *op,
                  const struct recorded_outcome *came)
{
    if (op->hint)
        return;
    if (came->to == RESULT_REFUSED)
        *verdict = came->reason != NULL ? came->reason : "refused";
    else if (came->to == RESULT_FAILED)
        *verdict = "error";
    else if (came->to == RESULT_KEY)
        *verdict = "admitted";
}

static struct recorded_outcome outcome_of(enum recorded_result to)
{
    return (struct recorded_outcome){to, NULL, -1, -1, -1, -1, -1, -1, NULL};
}

static struct recorded_outcome outcome_of_run(const struct admission_run *run,
                                              const struct tg_answer *answer)
{
    static const enum recorded_result results[] = {
        [ADMISSION_IDLE] = RESULT_NOTHING,      [ADMISSION_CHECKED] = RESULT_PASSED,
        [ADMISSION_WAITING] = RESULT_WAITING,   [ADMISSION_ASKING] = RESULT_ASKING,
        [ADMISSION_ADMITTED] = RESULT_ADMITTED, [ADMISSION_REFUSED] = RESULT_REFUSED,
        [ADMISSION_FAILED] = RESULT_FAILED};
    struct recorded_outcome came = outcome_of(results[run->state]);

    if (run->state == ADMISSION_REFUSED)
        came.reason = tg_reason_name(answer->reason);
    if (run->state == ADMISSION_ADMITTED && answer->charge > 0)
        came.charge = answer->charge;
    if (run->state == ADMISSION_ADMITTED || run->state == ADMISSION_REFUSED) {
        came.limit = answer->decision.limit;
        came.remaining = answer->decision.remaining;
        came.reset_at = answer->decision.reset_at;
        came.retry_after = answer->decision.retry_after_ms;
    }
    return came;
}

/* ---- what a call asks for ---- */

static struct route *find_route(const struct recording_side *side, const struct recorded_op *op)
{
    struct generation *generation = gateway_newest(side->gateway);
    size_t model = op->model == NULL
                       ? CONFIG_NONE
                       : config_model(&generation->config, op->model, strlen(op->model));

    if (op->model == NULL)
        return NULL;
    if (model != CONFIG_NONE)
        return &generation->routes[model];
    for (int i = 0; i < 2; i++)
        if (generation->unknown[i].provider != NULL)
            return &generation->unknown[i];
    return NULL;
}

static struct tg_pool *find_pool(const struct recording_side *side, const struct recorded_op *op)
{
    struct generation *generation = gateway_newest(side->gateway);
    const struct route *route = find_route(side, op);

    if (route != NULL)
        return route->pool;
    for (size_t i = 0; op->provider != NULL && i < generation->config.n_providers; i++)
        if (strcmp(generation->config.providers[i].name, op->provider) == 0)
            return generation->providers[i].pool;
    return NULL;
}

static bool fill_gate_call(struct actor *actor, bool with_model)
{
    const struct recorded_call *call = actor->call;
    const struct generation *generation = gateway_newest(actor->side->gateway);
    const char *tenant = call->tenant != NULL ? call->tenant : "";
    const char *peer = call->peer != NULL ? call->peer : tenant;
    const struct scopes_who who = {
        .tenant = tenant,
        .tenant_bytes = strlen(tenant),
        .model = with_model ? call->model : NULL,
        .model_bytes = with_model && call->model != NULL ? strlen(call->model) : 0,
        .user = call->user,
        .user_bytes = call->user != NULL ? strlen(call->user) : 0,
        .peer = peer,
        .peer_bytes = strlen(peer),
        .priority = call->priority,
    };

    tg_call_init(&actor->gate_call);
    if (scopes_fill(generation->scopes, &who, actor->scopes, &actor->gate_call, NULL) != TG_OK)
        return false;
    if (call->value >= 0)
        actor->gate_call.value = call->value;
    actor->gate_call.waiter = actor;
    /* The gateway renews the lease of a call for as long as that lives. */
    actor->gate_call.lease_ttl = TG_NUMBER_MAX / 4;
    return true;
}

/* ---- operations ---- */

static void end_run(struct admission_run *run, tg_ms now, enum tg_outcome outcome)
{
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = outcome;
    if (run->ops != NULL)
        admission_run_end(run, now, &release);
}

/* It is refused, or ends: everything goes back as if it had never been sent. */
static void give_all_back(struct actor *actor, tg_ms now)
{
    struct gateway *gateway = actor->side->gateway;
    struct tg_key_report report;
    const struct spending_use nothing = {.spent = 0};

    if (actor->key != 0) {
        tg_key_report_init(&report);
        report.outcome = TG_KEY_CANCELLED;
        report.sent = false;
        tg_keyring_release(gateway->ring, actor->key, now, &report);
        actor->key = 0;
    }
    if (actor->money.reservation != 0)
        spending_settle(gateway->spending, &actor->money, &nothing, now);
    actor->money.reservation = 0;
    end_run(&actor->slot, now, TG_OUTCOME_REFUSED);
    end_run(&actor->gate, now, TG_OUTCOME_REFUSED);
}

static struct recorded_outcome do_check(struct actor *actor, const struct recorded_op *op,
                                        tg_ms now)
{
    struct tg_answer answer;

    if (!fill_gate_call(actor, false))
        return outcome_of(RESULT_FAILED);
    admission_run_init(&actor->gate, actor->side->gateway->gate, &actor->gate_call, &NOBODY_WAITS);
    actor->gate_call.peek = op->peek >= 0;
    actor->gate_call.debit.cost = op->peek >= 0 ? op->peek : 0;
    admission_run_precheck(&actor->gate, now, &answer);
    actor->gate_call.peek = false;
    return outcome_of_run(&actor->gate, &answer);
}

static struct recorded_outcome do_admit_gate(struct actor *actor, const struct recorded_op *op,
                                             tg_ms now)
{
    struct tg_answer answer;

    if (!fill_gate_call(actor, true))
        return outcome_of(RESULT_FAILED);
    actor->gate_call.debit.cost = num_max(op->cost, 0);
    actor->gate_call.size = op->size;
    actor->gate_call.hold_s = op->hold;
    actor->gate_call.deadline = op->by > 0 ? op->by + actor->shift : 0;
    if (actor->gate.ops == NULL) /* a recording that lost its check */
        admission_run_init(&actor->gate, actor->side->gateway->gate, &actor->gate_call,
                           &NOBODY_WAITS);
    admission_run_admit(&actor->gate, now, &answer);
    return outcome_of_run(&actor->gate, &answer);
}

static struct recorded_outcome do_admit_slot(struct actor *actor, const struct recorded_op *op,
                                             tg_ms now)
{
    struct route *route = find_route(actor->side, op);
    struct tg_answer answer;

    if (route == NULL) { /* the other configuration has no such model */
        struct recorded_outcome none = outcome_of(RESULT_REFUSED);
        none.reason = "model_not_found";
        return none;
    }
    if (!fill_gate_call(actor, true))
        return outcome_of(RESULT_FAILED);
    tg_call_init(&actor->slot_call);
    actor->slot_call.priority = actor->gate_call.priority;
    actor->slot_call.tenant = actor->gate_call.tenant;
    actor->slot_call.tenant_bytes = actor->gate_call.tenant_bytes;
    actor->slot_call.weight = actor->gate_call.weight;
    actor->slot_call.deadline = op->by > 0 ? op->by + actor->shift : 0;
    actor->slot_call.size = op->size;
    actor->slot_call.hold_s = op->hold;
    actor->slot_call.work = num_max(op->work, 1);
    actor->slot_call.lease_ttl = actor->gate_call.lease_ttl;
    actor->slot_call.waiter = actor;
    admission_run_init(&actor->slot, route->slots->gate, &actor->slot_call, &NOBODY_WAITS);
    admission_run_admit(&actor->slot, now, &answer);
    return outcome_of_run(&actor->slot, &answer);
}

static struct admission_run *run_at(struct actor *actor, enum recorded_place place)
{
    return place == PLACE_SLOT ? &actor->slot : &actor->gate;
}

static struct recorded_outcome do_resume(struct admission_run *run, tg_ms now)
{
    struct tg_answer answer;

    admission_run_wake(run, now, &answer);
    return outcome_of_run(run, &answer);
}

static struct recorded_outcome do_reserve(struct actor *actor, const struct recorded_op *op,
                                          tg_ms now)
{
    const struct recorded_call *call = actor->call;
    const struct spending_call spending = {
        .tenant = call->tenant != NULL ? call->tenant : "",
        .hint = SPENDING_TOP,
        .user = {call->user, call->user != NULL ? strlen(call->user) : 0},
        .money = op->money,
        .up_to = op->up_to,
    };
    struct tg_money_answer answer;
    struct recorded_outcome came = outcome_of(RESULT_FAILED);

    if (spending_reserve(actor->side->gateway->spending, &spending, now, &actor->money, &answer) !=
        TG_OK)
        return came;
    came.to = answer.reservation != 0 ? RESULT_RESERVED : RESULT_REFUSED;
    if (answer.reservation != 0)
        came.reserved = answer.reserved;
    else
        came.reason = answer.contended ? "budget_contended" : "budget";
    return came;
}

/* The owner of a key of this name in the pool; null: none. */
static void *owner_named(struct tg_pool *pool, const char *name, tg_ms now)
{
    struct tg_key_metrics keys[64];
    size_t n, from = 0;

    while ((n = tg_pool_get_keys(pool, now, from, keys, 64)) > 0) {
        for (size_t i = 0; i < n; i++)
            if (strcmp(keys[i].name, name) == 0)
                return keys[i].owner;
        from += n;
    }
    return NULL;
}

static struct recorded_outcome do_key(struct actor *actor, const struct recorded_op *op, tg_ms now)
{
    struct tg_pool *pool = find_pool(actor->side, op);
    struct recorded_outcome came = outcome_of(RESULT_REFUSED);
    struct tg_key_answer answer;
    struct tg_key_call key;

    came.reason = "no_key";
    if (pool == NULL)
        return came;
    tg_key_call_init(&key);
    key.tokens = num_max(op->tokens, 0);
    key.asked = op->asked;
    key.affinity = op->affinity;
    key.affinity_bytes = op->affinity != NULL ? strlen(op->affinity) : 0;
    key.prefer = op->prefer != NULL ? owner_named(pool, op->prefer, now) : NULL;
    for (const char *at = op->tried; at != NULL && *at != '\0'; at += strlen(at) + 1) {
        void *owner = owner_named(pool, at, now);
        if (owner != NULL && key.n_tried < TG_TRIED_MAX)
            key.tried[key.n_tried++] = owner;
    }
    if (op->hint)
        tg_pool_peek(pool, &key, now, &answer);
    else
        tg_pool_acquire(pool, &key, now, &answer);
    if (answer.lease != 0) {
        const struct route_key *owner = answer.owner;
        actor->key = answer.lease;
        came.to = RESULT_KEY;
        came.reason = NULL;
        came.key = owner->config->name;
        return came;
    }
    came.reason = answer.too_large ? "too_large" : answer.all_cooling ? "keys_cooling" : "no_key";
    came.retry_after = answer.retry_after_ms;
    return came;
}

static void do_key_end(struct actor *actor, const struct recorded_op *op, tg_ms now)
{
    struct tg_key_report report;

    if (actor->key == 0)
        return;
    tg_key_report_init(&report);
    report.outcome = op->outcome >= 0 ? (enum tg_key_outcome)op->outcome : TG_KEY_OK;
    report.sent = op->sent;
    report.tokens = op->tokens;
    report.latency_ms = op->latency;
    report.cool_until = op->cool_until > 0 ? op->cool_until + actor->shift : 0;
    tg_keyring_release(actor->side->gateway->ring, actor->key, now, &report);
    actor->key = 0;
}

static void do_key_held(struct actor *actor, const struct recorded_op *op, tg_ms now)
{
    const struct tg_key_hold hold = {.why = op->outcome >= 0 ? (enum tg_hold)op->outcome
                                                             : TG_HOLD_BUSY,
                                     .of_group = op->of_group,
                                     .until = op->until + actor->shift,
                                     .room = op->room};

    if (actor->key != 0)
        tg_keyring_hold_off(actor->side->gateway->ring, actor->key, now, &hold);
    actor->key = 0;
}

static void do_settle(struct actor *actor, const struct recorded_op *op, tg_ms now)
{
    const struct spending_use use = {.spent = op->spent, .uncertain = op->uncertain};

    if (actor->money.reservation != 0)
        spending_settle(actor->side->gateway->spending, &actor->money, &use, now);
    actor->money.reservation = 0;
}

static void do_release(struct actor *actor, const struct recorded_op *op, tg_ms now)
{
    struct admission_run *run = run_at(actor, op->place);
    struct tg_release release;

    tg_release_init(&release);
    release.outcome = op->outcome >= 0 ? (enum tg_outcome)op->outcome : TG_OUTCOME_OK;
    release.sample_ms = op->sample;
    release.actual = op->actual;
    release.work = op->work;
    if (run->ops != NULL)
        admission_run_end(run, now, &release);
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
    actor->next = call->ops;
    actor->end = call->ops + call->n_ops;
    actor->verdict.recorded = actor->verdict.replayed = "left";
    for (size_t i = 0; i < call->n_ops; i++)
        judge(&actor->verdict.recorded, &call->ops[i], &call->ops[i].came);
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

/* It has done all: its verdict goes out. */
static void actor_over(struct actor *actor, tg_ms now)
{
    struct recording_side *side = actor->side;

    give_all_back(actor, now);
    forget_wake(actor);
    if (strcmp(actor->verdict.recorded, actor->verdict.replayed) != 0 && !actor->verdict.differs) {
        actor->verdict.differs = true;
        actor->verdict.first.cause = cause_of(side, &actor->call->ops[actor->call->n_ops - 1]);
    }
    side->ended(side->context, actor->call, &actor->verdict);
    actor_free(actor);
}

static struct admission_run *waiting_run(struct actor *actor)
{
    return actor->slot.ops != NULL && actor->slot.state == ADMISSION_WAITING   ? &actor->slot
           : actor->gate.ops != NULL && actor->gate.state == ADMISSION_WAITING ? &actor->gate
                                                                               : NULL;
}

/* Does one operation now. False: it makes no sense here, and there is nothing to compare. */
static bool do_op(struct actor *actor, const struct recorded_op *op, tg_ms now,
                  struct recorded_outcome *came)
{
    struct admission_run *run = run_at(actor, op->place);

    *came = outcome_of(RESULT_NOTHING);
    switch (op->kind) {
    case RECORDED_CHECK:
        *came = do_check(actor, op, now);
        return true;
    case RECORDED_ADMIT:
        *came =
            op->place == PLACE_SLOT ? do_admit_slot(actor, op, now) : do_admit_gate(actor, op, now);
        return true;
    case RECORDED_RESUME:
        if (run->ops == NULL || run->state != ADMISSION_WAITING)
            return false;
        *came = do_resume(run, now);
        return true;
    case RECORDED_FIRST_BYTE:
        if (run->ops != NULL && run->state == ADMISSION_ADMITTED && run->lease != 0)
            tg_gate_first_byte_after(run->gate, run->lease, now, op->sample);
        return false;
    case RECORDED_ROOM:
        if (actor->slot.ops != NULL && actor->slot.gate != NULL)
            tg_gate_set_room(actor->slot.gate, op->room, op->until + actor->shift, now);
        return false;
    case RECORDED_RELEASE:
        do_release(actor, op, now);
        return false;
    case RECORDED_RESERVE:
        *came = do_reserve(actor, op, now);
        return true;
    case RECORDED_SETTLE:
        do_settle(actor, op, now);
        return false;
    case RECORDED_KEY:
        *came = do_key(actor, op, now);
        return true;
    case RECORDED_KEY_END:
        do_key_end(actor, op, now);
        return false;
    case RECORDED_KEY_HELD:
        do_key_held(actor, op, now);
        return false;
    default:
        return false;
    }
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
    compare(actor, op, came);
    judge(&actor->verdict.replayed, op, came);
    if (actor->made_up == NULL && came->to == op->came.to)
        return;
    go_astray(actor);
    if (came->to == RESULT_REFUSED || came->to == RESULT_FAILED) {
        actor->is_over = true;
        give_all_back(actor, now);
        return;
    }
    if (came->to == RESULT_WAITING)
        return;
    /* It may go on where it was refused then. */
    if (op->came.to == RESULT_REFUSED || op->came.to == RESULT_FAILED) {
        struct recorded_op *made_up;
        size_t n = recording_make_up(&actor->side->means, gateway_newest(actor->side->gateway),
                                     actor->call, op, now, &made_up);
        actor->made_up = made_up;
        actor->shift = 0;
        actor->next = made_up;
        actor->end = made_up + n;
    }
}

/* The remote store was asked then: its answer is compared with what was decided when it was. */
static void compare_store(struct actor *actor, const struct recorded_op *op, tg_ms now)
{
    if (!actor->is_stored)
        return;
    actor->is_stored = false;
    struct recorded_outcome came = actor->stored;
    decided(actor, op, &came, now);
}

/* One operation of a call that is in step. */
static void actor_follow(struct actor *actor, const struct recorded_op *op, tg_ms now)
{
    struct recorded_outcome came;

    if (op->kind == RECORDED_STORE) {
        compare_store(actor, op, now);
        return;
    }
    if (!do_op(actor, op, now, &came))
        return;
    if (op->came.to == RESULT_ASKING && came.to != RESULT_WAITING) {
        actor->stored = came;
        actor->is_stored = true;
        return;
    }
    decided(actor, op, &came, now);
}

/* Goes on with a call that is astray, as far as it can now. */
static void step_astray(struct actor *actor, tg_ms now)
{
    struct admission_run *run = waiting_run(actor);
    struct recorded_outcome came;

    no_next_step(actor);
    if (actor->is_over) {
        actor_over(actor, now);
        return;
    }
    if (run != NULL) {
        struct tg_answer answer;
        admission_run_wake(run, now, &answer);
        came = outcome_of_run(run, &answer);
        judge(&actor->verdict.replayed, &(struct recorded_op){.hint = false}, &came);
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
            compare_store(actor, op, now);
        } else if (do_op(actor, op, now, &came)) {
            if (op->came.to == RESULT_ASKING && came.to != RESULT_WAITING) {
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
        run = waiting_run(actor);
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
    const struct admission_run *run = waiting_run(actor);
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
        if (resumes_as_recorded(actor, side->now) || waiting_run(actor) == NULL)
            continue;
        go_astray(actor);
        step_astray(actor, side->now);
    }
}

static void tick_all(struct recording_side *side, tg_ms now)
{
    const struct generation *generation = gateway_newest(side->gateway);

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

static void note_change(struct recording_side *side, const struct recorded_op *op)
{
    bool reload = op->what != NULL && strncmp(op->what, "reload", 6) == 0;

    if (reload && op->detail != NULL && strcmp(op->detail, side->recording->config) == 0)
        return; /* the same files once more */
    if (reload && strcmp(op->what, "reload_failed") == 0)
        return;
    side->changed = reload ? "reload" : "change";
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
        tick_all(side, op->t);
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
        if (!run_op(side, op))
            return false;
        run_woken(side);
    }
    run_astray(side, TG_NUMBER_MAX);
    while (side->actors != NULL) /* calls that lost their last operations */
        actor_over(side->actors, side->now);
    return true;
}

/* ---- its life ---- */

/* What only `serve` needs is left out: nothing is connected, and no file but the configuration's is
 * read. */
static void make_virtual(struct config *config)
{
    config->store.url = "memory";
    config->store.two_tier = false;
    config->ledger.failure = CONFIG_FAIL_OPEN;
    config->listen.cert = NULL;
    for (size_t i = 0; i < config->n_providers; i++)
        config->providers[i].base.tls = false;
    for (size_t i = 0; i < config->n_protect; i++)
        config->protect[i].upstream.tls = false;
}

/* What was spent before: an account of the same name and budgets in the same order. */
static void restore_spend(struct recording_side *side, const struct recorded_spend *spend)
{
    struct spending *spending = side->gateway->spending;
    tg_ms now = spending_time(spending, side->recording->t);
    tg_account account = spending_account(spending, spend->tenant, SPENDING_TOP);

    if (spend->user != NULL) {
        const struct spending_call call = {.tenant = spend->tenant,
                                           .hint = SPENDING_TOP,
                                           .user = {spend->user, strlen(spend->user)}};
        const struct spending_use nothing = {.spent = 0};
        struct spending_ticket ticket;
        struct tg_money_answer answer;

        /* It is opened by its first call. */
        if (spending_reserve(spending, &call, side->recording->t, &ticket, &answer) == TG_OK &&
            ticket.reservation != 0)
            spending_settle(spending, &ticket, &nothing, side->recording->t);
        account = tg_bank_find(spending_bank(spending), account, spend->user, strlen(spend->user));
    }
    for (size_t i = 0; account != 0 && i < spend->n; i++)
        if (spend->settled[i] > 0 &&
            tg_bank_restore(spending_bank(spending), account, i, spend->settled[i], now) != TG_OK)
            side->changed = "configuration";
}

bool recording_side_init(struct recording_side *side, const struct command *command,
                         const char *path, const struct recording *recording,
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
    if (!gate_config_load(command, path, &config)) {
        config_free(&config);
        return false;
    }
    side->config_is_its = strcmp(config.hash, recording->config) == 0;
    make_virtual(&config);
    atomic_store(&clock.ahead_ms, recording->ahead_ms);
    *status = STATUS_FAILED;
    if (!recording_means_init(&side->means, recording)) {
        config_free(&config);
        command_say(command, "%s", tg_strerror(TG_ERR_MEMORY));
        return false;
    }
    if (!gateway_new_virtual(&config, &clock, recording->t, recording->chance, wake_actor,
                             &side->gateway, &problem)) {
        command_say(command, "%s: %s", path, problem.text);
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
        give_all_back(side->actors, side->now);
        actor_free(side->actors);
    }
    recording_means_fini(&side->means);
    heap_fini(&side->astray);
    if (side->gateway != NULL)
        gateway_free(side->gateway);
}
