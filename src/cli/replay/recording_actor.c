/* recording_actor.c - what the operations of a recorded call do. See recording_actor.h. */
#include "cli/replay/recording_actor.h"

#include <string.h>

#include "lib/core/num.h"

/* ---- the remote store ---- */

/* What it said then. If it was asked and answered later, that is another operation; if it was not
 * asked then, nobody knows what it would have said: yes. */
static bool told_by_store(struct admission_run *run, tg_ms now, enum tg_err *err,
                          struct tg_axes *axes)
{
    const struct actor *actor = run->call->waiter;
    const struct recorded_op *op = actor->op;

    *axes = (struct tg_axes){.present = 0};
    *err = TG_OK;
    if (run->gate == NULL && !actor->side->gateway->is_told) { /* our own decides */
        struct tg_decision all;
        if (run->call->debit.n_scopes > 0)
            *err = tg_store_take(actor->side->gateway->store, &run->call->debit, now, &all, axes);
        return true;
    }
    if (op == NULL)
        return true;
    if (op->store_failed)
        *err = TG_ERR_STORE;
    else if (op->axes != NULL)
        *axes = *op->axes;
    return op->came.to != RESULT_ASKING;
}

static void store_is_settled(struct admission_run *run, tg_ms now, int64_t actual)
{
    (void)run;
    (void)now;
    (void)actual;
}

static void store_is_refunded(struct admission_run *run, tg_ms now)
{
    (void)run;
    (void)now;
}

static const struct admission_ops ACTOR_OPS = {
    .ask = told_by_store, .settle = store_is_settled, .refund = store_is_refunded};

/* ---- what came of it ---- */

static struct recorded_outcome outcome_of(enum recorded_result to)
{
    return (struct recorded_outcome){to, NULL, -1, -1, -1, -1, -1, -1, NULL};
}

struct recorded_outcome outcome_of_run(const struct admission_run *run,
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

static struct route *find_route(const struct actor *actor, const struct recorded_op *op)
{
    struct generation *generation = actor->generation;
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

static struct tg_pool *find_pool(const struct actor *actor, const struct recorded_op *op)
{
    struct generation *generation = actor->generation;
    const struct route *route = find_route(actor, op);

    if (route != NULL)
        return route->pool;
    for (size_t i = 0; op->provider != NULL && i < generation->config.n_providers; i++)
        if (strcmp(generation->config.providers[i].name, op->provider) == 0)
            return generation->providers[i].pool;
    return NULL;
}

/* The gate of the slots that a call asks for; null: there is none. */
static struct tg_gate *find_slots(const struct actor *actor, const struct recorded_op *op)
{
    const struct generation *generation = actor->generation;
    enum slots_owner owner = op->route != NULL ? SLOTS_PROTECT : SLOTS_CALLER;
    const char *name = op->route != NULL ? op->route : op->caller;
    const struct route *route = find_route(actor, op);

    if (name == NULL)
        return route != NULL ? route->slots->gate : NULL;
    for (size_t i = 0; i < generation->n_slots; i++)
        if (generation->slots[i].owner == owner && strcmp(generation->slots[i].name, name) == 0)
            return generation->slots[i].slots->gate;
    return NULL;
}

/* The virtual key of a call; null: it had none, or the configuration has none of that name. */
static const struct config_key *key_of_call(const struct generation *generation, const char *tenant,
                                            const struct recorded_call *call)
{
    const struct config_tenant *of = config_tenant(&generation->config, tenant, strlen(tenant));

    return of != NULL && call->virtual_key != NULL ? config_find_key(of, call->virtual_key) : NULL;
}

static bool fill_gate_call(struct actor *actor, bool with_model)
{
    const struct recorded_call *call = actor->call;
    const struct generation *generation = actor->generation;
    const char *tenant = actor->who != NULL ? actor->who : call->tenant != NULL ? call->tenant : "";
    const char *peer = call->peer != NULL ? call->peer : tenant;
    const struct scopes_who who = {
        .tenant = tenant,
        .tenant_bytes = strlen(tenant),
        .model = with_model ? call->model : NULL,
        .model_bytes = with_model && call->model != NULL ? strlen(call->model) : 0,
        .user = call->user,
        .user_bytes = call->user != NULL ? strlen(call->user) : 0,
        .key = key_of_call(generation, tenant, call),
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

/* A call that goes its own way may have what it is about to ask for: it gives that back first. */
static void give_back_before(struct admission_run *run, tg_ms now)
{
    if (run->ops != NULL && run->state != ADMISSION_CHECKED)
        end_run(run, now, TG_OUTCOME_REFUSED);
}

void actor_give_all_back(struct actor *actor, tg_ms now)
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

    end_run(&actor->gate, now, TG_OUTCOME_REFUSED);
    if (!fill_gate_call(actor, false))
        return outcome_of(RESULT_FAILED);
    admission_run_init(&actor->gate, actor->side->gateway->gate, &actor->gate_call, &ACTOR_OPS);
    if (op->ttl > 0)
        actor->gate_call.lease_ttl = op->ttl;
    actor->gate_call.peek = op->peek >= 0;
    actor->gate_call.debit.cost = op->peek >= 0 ? op->peek : 0;
    actor->gate_call.known = actor->side->gateway->is_told ? op->axes : NULL;
    admission_run_precheck(&actor->gate, now, &answer);
    actor->gate_call.peek = false;
    actor->gate_call.known = NULL;
    return outcome_of_run(&actor->gate, &answer);
}

static struct recorded_outcome do_admit_gate(struct actor *actor, const struct recorded_op *op,
                                             tg_ms now)
{
    struct tg_answer answer;

    give_back_before(&actor->gate, now);
    if (!fill_gate_call(actor, true))
        return outcome_of(RESULT_FAILED);
    actor->gate_call.debit.cost = num_max(op->cost, 0);
    actor->gate_call.size = op->size;
    actor->gate_call.hold_s = op->hold;
    actor->gate_call.deadline = op->by > 0 ? op->by + actor->shift : 0;
    if (op->ttl > 0)
        actor->gate_call.lease_ttl = op->ttl;
    if (actor->gate.ops == NULL) /* one without a check, or a recording that lost it */
        admission_run_init(&actor->gate,
                           op->place == PLACE_LIMITS ? NULL : actor->side->gateway->gate,
                           &actor->gate_call, &ACTOR_OPS);
    admission_run_admit(&actor->gate, now, &answer);
    return outcome_of_run(&actor->gate, &answer);
}

static struct recorded_outcome do_admit_slot(struct actor *actor, const struct recorded_op *op,
                                             tg_ms now)
{
    struct tg_gate *slots = find_slots(actor, op);
    struct tg_answer answer;

    if (slots == NULL) { /* the other configuration has no such model */
        struct recorded_outcome none = outcome_of(RESULT_REFUSED);
        none.reason = "model_not_found";
        return none;
    }
    give_back_before(&actor->slot, now);
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
    actor->slot_call.work = num_max(op->work, 0);
    actor->slot_call.lease_ttl = op->ttl > 0 ? op->ttl : actor->gate_call.lease_ttl;
    actor->slot_call.waiter = actor;
    admission_run_init(&actor->slot, slots, &actor->slot_call, &ACTOR_OPS);
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

static struct recorded_outcome do_store_answer(struct admission_run *run,
                                               const struct recorded_op *op, tg_ms now)
{
    static const struct tg_axes nothing = {.present = 0};
    struct tg_answer answer;

    admission_run_store_answered(run, now, op->store_failed ? TG_ERR_STORE : TG_OK,
                                 op->axes != NULL ? op->axes : &nothing, &answer);
    return outcome_of_run(run, &answer);
}

static struct recorded_outcome do_reserve(struct actor *actor, const struct recorded_op *op,
                                          tg_ms now)
{
    const struct recorded_call *call = actor->call;
    const struct spending_call spending = {
        .tenant = call->tenant != NULL ? call->tenant : "",
        .hint = SPENDING_TOP,
        .key = call->virtual_key,
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

/* What stands for a key that is in no pool any more. */
static char NO_KEY;

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
    struct tg_pool *pool = find_pool(actor, op);
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
    const char *tried = op->tried;
    for (size_t i = 0; i < op->n_tried && i < TG_TRIED_MAX; i++, tried += strlen(tried) + 1) {
        void *owner = owner_named(pool, tried, now);
        key.tried[key.n_tried++] = owner != NULL ? owner : &NO_KEY;
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

struct admission_run *actor_waiting_run(struct actor *actor)
{
    return actor->slot.ops != NULL && actor->slot.state == ADMISSION_WAITING   ? &actor->slot
           : actor->gate.ops != NULL && actor->gate.state == ADMISSION_WAITING ? &actor->gate
                                                                               : NULL;
}

bool actor_do(struct actor *actor, const struct recorded_op *op, tg_ms now,
              struct recorded_outcome *came)
{
    struct admission_run *run = run_at(actor, op->place);

    actor->op = op;
    if (op->who != NULL)
        actor->who = op->who;
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
    case RECORDED_STORE:
        if (op->place != PLACE_GATE || run->state != ADMISSION_ASKING)
            return false;
        *came = do_store_answer(run, op, now);
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
