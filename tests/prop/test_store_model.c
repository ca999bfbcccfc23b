/* test_store_model.c - a store against the simplest model of one: an array of limiter states that
 * forgets nothing.
 *
 * Random limits, keys, scopes, costs and ways of charging; memory for some of the keys only, and
 * sweeps at any time. With a clock that does not step back, every decision of the store is the
 * model's, whatever the store has forgotten, unless it says TG_ERR_FULL: then nothing has happened.
 */
#include <string.h>

#include "keyed.h"
#include "walk.h"

#define STORES 500
#define STEPS 400
#define SETS_MAX 3
#define LIMITS_MAX 3
#define KEYS 24
#define SCOPES_MAX 4
#define CHARGES 16
#define ROOT "root"

static uint64_t seed;

/* One limit of a set, and what each key has used of it. */
struct model_limit {
    enum tg_axis axis;
    struct subject keys[KEYS];
};

struct model_set {
    tg_limits id;
    size_t n;
    struct model_limit limits[LIMITS_MAX];
};

/* A scope as numbers. */
struct place {
    size_t set, key;
};

/* A call: what it asks, and when it was charged. */
struct call {
    struct place places[SCOPES_MAX];
    size_t n;
    int64_t cost;
    enum tg_charging charging;
    tg_ms at;
};

struct model {
    struct walk walk; /* for its clock, its chance, its messages and its count */
    struct tg_store *store;
    size_t memory_bytes;
    struct model_set sets[SETS_MAX];
    size_t n_sets;
    struct call charges[CHARGES]; /* admitted, and neither refunded nor settled */
    size_t n_charges;
    long full;
};

/* ---- what the model decides ---- */

static int64_t units_of(const struct model_limit *limit, const struct call *call)
{
    return limit->axis == TG_AXIS_RATE ? 1 : call->cost;
}

/* Does something with every limit of a call on the axes of a mask. */
static void each_limit(struct model *model, const struct call *call, unsigned mask,
                       void (*visit)(struct subject *subject, tg_ms now, int64_t units,
                                     struct tg_axes *axes, enum tg_axis axis),
                       tg_ms now, struct tg_axes *axes)
{
    for (size_t p = 0; p < call->n; p++) {
        struct model_set *set = &model->sets[call->places[p].set];
        for (size_t i = 0; i < set->n; i++) {
            struct model_limit *limit = &set->limits[i];
            if (mask & (1u << limit->axis))
                visit(&limit->keys[call->places[p].key], now, units_of(limit, call), axes,
                      limit->axis);
        }
    }
}

static void add_answer(struct tg_axes *axes, enum tg_axis axis, struct tg_decision answer)
{
    bool first = !(axes->present & (1u << axis));

    axes->decision[axis] = first ? answer : tg_decision_combine(axes->decision[axis], answer);
    axes->present |= 1u << axis;
}

static void visit_peek(struct subject *subject, tg_ms now, int64_t units, struct tg_axes *axes,
                       enum tg_axis axis)
{
    add_answer(axes, axis, subject_peek(subject, now, units));
}

/* When the call is refused: who would have allowed it shows what is there. */
static void visit_refused(struct subject *subject, tg_ms now, int64_t units, struct tg_axes *axes,
                          enum tg_axis axis)
{
    struct tg_decision answer = subject_peek(subject, now, units);

    add_answer(axes, axis, answer.allowed ? subject_balance(subject, now) : answer);
}

static void visit_take(struct subject *subject, tg_ms now, int64_t units, struct tg_axes *axes,
                       enum tg_axis axis)
{
    (void)axes;
    (void)axis;
    if (units > 0)
        (void)subject_take(subject, now, units);
}

/* Asks the limits of some axes; charges them if all allow. */
static bool decide(struct model *model, const struct call *call, unsigned mask, bool charge,
                   struct tg_axes *axes)
{
    tg_ms now = model->walk.now;

    each_limit(model, call, mask, visit_peek, now, axes);
    if (tg_axes_binding(axes) != TG_AXIS_NONE) {
        axes->present &= ~mask;
        each_limit(model, call, mask, visit_refused, now, axes);
        return false;
    }
    if (charge)
        each_limit(model, call, mask, visit_take, now, axes);
    return true;
}

static bool decide_all(struct model *model, const struct call *call, bool charge,
                       struct tg_axes *axes)
{
    const unsigned rate = 1u << TG_AXIS_RATE, cost = 1u << TG_AXIS_COST;

    memset(axes, 0, sizeof(*axes));
    if (call->charging == TG_CHARGE_ATOMIC)
        return decide(model, call, rate | cost, charge, axes);
    struct tg_axes hints = {.present = 0};
    if (decide(model, call, rate, charge, axes)) {
        if (decide(model, call, cost, charge, axes))
            return true;
        /* The call that comes back needs a unit of rate again, if this one has spent its own. */
        each_limit(model, call, charge ? rate : 0, visit_refused, model->walk.now, &hints);
        if (hints.present != 0 && !hints.decision[TG_AXIS_RATE].allowed)
            axes->retry_after_ms = hints.decision[TG_AXIS_RATE].retry_after_ms;
        return false;
    }
    /* Cost is looked at for when the call may pass. */
    each_limit(model, call, cost, visit_refused, model->walk.now, &hints);
    if (hints.present != 0) {
        axes->reset_at = hints.decision[TG_AXIS_COST].reset_at;
        axes->retry_after_ms = hints.decision[TG_AXIS_COST].retry_after_ms;
    }
    return false;
}

static void model_end(struct model *model, const struct call *call, bool refund, int64_t actual)
{
    for (size_t p = 0; p < call->n; p++) {
        struct model_set *set = &model->sets[call->places[p].set];
        for (size_t i = 0; i < set->n; i++) {
            struct model_limit *limit = &set->limits[i];
            struct subject *subject = &limit->keys[call->places[p].key];
            struct tg_charge charge = {call->at, units_of(limit, call)};
            if (refund)
                subject_refund(subject, model->walk.now, charge, charge.cost);
            else if (limit->axis == TG_AXIS_COST)
                subject_settle(subject, model->walk.now, charge, actual);
        }
    }
}

/* ---- the same asked of the store ---- */

/* A debit with its memory. */
struct asked {
    struct tg_debit debit;
    struct tg_scope scopes[SCOPES_MAX];
    struct numbered_key keys[SCOPES_MAX];
};

static const struct tg_debit *ask(const struct model *model, const struct call *call,
                                  struct asked *asked)
{
    for (size_t p = 0; p < call->n; p++) {
        asked->keys[p] = numbered_key(call->places[p].key);
        asked->scopes[p] = scope_of(model->sets[call->places[p].set].id, asked->keys[p].text);
    }
    asked->debit =
        (struct tg_debit){asked->scopes, call->n, call->cost, ROOT, strlen(ROOT), call->charging};
    return &asked->debit;
}

static void add_hints(struct tg_decision *all, const struct tg_axes *axes)
{
    if (axes->reset_at > all->reset_at)
        all->reset_at = axes->reset_at;
    if (axes->retry_after_ms > all->retry_after_ms)
        all->retry_after_ms = axes->retry_after_ms;
}

static void compare(struct model *model, struct tg_decision got, const struct tg_axes *axes,
                    const struct tg_axes *want)
{
    struct tg_decision all = TG_ALLOW_FULL;

    walk_check(&model->walk, axes->present == want->present, "axes %x, not %x", axes->present,
               want->present);
    for (int axis = 0; axis < TG_AXIS_COUNT; axis++) {
        if (!(want->present & (1u << axis)))
            continue;
        all = tg_decision_combine(all, want->decision[axis]);
        walk_check(&model->walk, decision_equal(axes->decision[axis], want->decision[axis]),
                   "%s: the store says %s, the model %s", tg_axis_name((enum tg_axis)axis),
                   decision_text(axes->decision[axis]).text,
                   decision_text(want->decision[axis]).text);
    }
    add_hints(&all, want);
    walk_check(&model->walk, decision_equal(got, all), "the store says %s, the model %s",
               decision_text(got).text, decision_text(all).text);
}

/* The limit that is named refuses, and none on its axis takes longer. What refuses was not charged,
 * so the model can be asked again. */
static void compare_named(struct model *model, const struct call *call, const struct tg_axes *axes)
{
    const struct tg_limit_answer *named = tg_axes_refusing(axes);
    enum tg_axis axis = tg_axes_binding(axes);
    tg_ms longest = -1;

    walk_check(&model->walk, (named == NULL) == (axis == TG_AXIS_NONE), "a limit is named");
    for (size_t p = 0; named != NULL && p < call->n; p++) {
        struct model_set *set = &model->sets[call->places[p].set];
        for (size_t i = 0; i < set->n; i++) {
            struct subject *subject = &set->limits[i].keys[call->places[p].key];
            struct tg_decision own =
                subject_peek(subject, model->walk.now, units_of(&set->limits[i], call));
            if (set->limits[i].axis != axis)
                continue;
            if (!own.allowed && own.retry_after_ms > longest)
                longest = own.retry_after_ms;
            walk_check(&model->walk,
                       p != named->scope || i != named->limit ||
                           decision_equal(own, named->decision),
                       "the named limit says %s, the model %s", decision_text(named->decision).text,
                       decision_text(own).text);
        }
    }
    walk_check(&model->walk,
               named == NULL ||
                   (!named->decision.allowed && named->decision.retry_after_ms == longest),
               "another limit takes %lld ms", (long long)longest);
}

static void try_peek(struct model *model, const struct call *call)
{
    struct asked asked;
    struct tg_axes axes, want;
    struct tg_decision decision;
    enum tg_err err =
        tg_store_peek(model->store, ask(model, call, &asked), model->walk.now, &decision, &axes);

    walk_check(&model->walk, err == TG_OK, "peek: %s", tg_strerror(err));
    (void)decide_all(model, call, false, &want);
    compare(model, decision, &axes, &want);
    compare_named(model, call, &axes);
}

static void remember(struct model *model, const struct call *call)
{
    size_t i = model->n_charges < CHARGES ? model->n_charges++
                                          : (size_t)draw_between(&model->walk.draw, 0, CHARGES - 1);

    model->charges[i] = *call;
    model->charges[i].at = model->walk.now;
}

static void try_take(struct model *model, const struct call *call)
{
    struct asked asked;
    struct tg_axes axes, want;
    struct tg_decision decision;
    enum tg_err err =
        tg_store_take(model->store, ask(model, call, &asked), model->walk.now, &decision, &axes);

    walk_check(&model->walk, err == TG_OK || err == TG_ERR_FULL, "take: %s", tg_strerror(err));
    if (err == TG_ERR_FULL) {
        model->full++;
        try_peek(model, call); /* nothing was charged */
        return;
    }
    bool allowed = decide_all(model, call, true, &want);
    compare(model, decision, &axes, &want);
    compare_named(model, call, &axes);
    if (allowed)
        remember(model, call);
}

/* The short way: one call by a batch, without the answers by axis. */
static void try_batch(struct model *model, const struct call *call)
{
    struct asked asked;
    struct tg_axes want;
    struct tg_decision decision, all = TG_ALLOW_FULL;
    enum tg_err err;

    tg_store_take_many(model->store, ask(model, call, &asked), 1, model->walk.now, &decision, &err);
    if (err == TG_ERR_FULL)
        return;
    walk_check(&model->walk, err == TG_OK, "batch: %s", tg_strerror(err));
    bool allowed = decide_all(model, call, true, &want);
    for (int axis = 0; axis < TG_AXIS_COUNT; axis++) {
        if (want.present & (1u << axis))
            all = tg_decision_combine(all, want.decision[axis]);
    }
    add_hints(&all, &want);
    walk_check(&model->walk, decision_equal(decision, all), "the batch says %s, the model %s",
               decision_text(decision).text, decision_text(all).text);
    if (allowed)
        remember(model, call);
}

/* Ends one of the charges: all of it is given back, or it is settled, for less or for more. */
static void try_end(struct model *model)
{
    struct draw *draw = &model->walk.draw;
    struct asked asked;

    if (model->n_charges == 0)
        return;
    size_t i = (size_t)draw_between(draw, 0, (int64_t)model->n_charges - 1);
    struct call call = model->charges[i];
    bool refund = draw_chance(draw, 50);
    int64_t actual = draw_chance(draw, 70) ? draw_between(draw, 0, call.cost)
                                           : call.cost + draw_magnitude(draw, 20);
    const struct tg_debit *debit = ask(model, &call, &asked);

    model->charges[i] = model->charges[--model->n_charges];
    enum tg_err err = refund
                          ? tg_store_refund(model->store, debit, model->walk.now, call.at)
                          : tg_store_settle(model->store, debit, model->walk.now, call.at, actual);
    walk_check(&model->walk, err == TG_OK || (!refund && err == TG_ERR_FULL), "end: %s",
               tg_strerror(err));
    if (err == TG_OK)
        model_end(model, &call, refund, actual);
}

/* ---- random lives ---- */

static void random_set(struct model *model, struct model_set *set)
{
    struct draw *draw = &model->walk.draw;
    struct tg_limit limits[LIMITS_MAX];

    set->n = (size_t)draw_between(draw, 1, LIMITS_MAX);
    for (size_t i = 0; i < set->n; i++) {
        struct model_limit *limit = &set->limits[i];
        enum tg_strategy strategy = (enum tg_strategy)draw_between(draw, 0, TG_STRATEGY_COUNT - 1);
        limit->keys[0] = subject_random(draw, strategy);
        limit->axis =
            strategy == TG_TOKEN_BUDGET || draw_chance(draw, 50) ? TG_AXIS_COST : TG_AXIS_RATE;
        limits[i] = (struct tg_limit){.limiter = limit->keys[0].limiter, .axis = limit->axis};
        if (limit->axis == TG_AXIS_COST)
            subject_make_settled(&limit->keys[0]);
        for (size_t k = 1; k < KEYS; k++)
            limit->keys[k] = subject_copy(&limit->keys[0]);
    }
    set->id = must_define(model->store, limits, set->n);
}

static void random_call(struct model *model, struct call *call)
{
    struct draw *draw = &model->walk.draw;
    bool taken[SETS_MAX][KEYS] = {{false}};
    size_t n = (size_t)draw_between(draw, 1, SCOPES_MAX);

    call->n = 0;
    for (size_t i = 0; i < n; i++) {
        size_t set = (size_t)draw_between(draw, 0, (int64_t)model->n_sets - 1);
        size_t key = (size_t)draw_magnitude(draw, KEYS) - 1;
        if (taken[set][key])
            continue; /* no two scopes of a debit are the same */
        taken[set][key] = true;
        call->places[call->n++] = (struct place){set, key};
    }
    call->cost = draw_chance(draw, 10) ? 0 : draw_magnitude(draw, 40);
    call->charging = draw_chance(draw, 70) ? TG_CHARGE_ATOMIC : TG_CHARGE_PER_AXIS;
}

static void model_init(struct model *model, uint64_t stream)
{
    struct walk *walk = &model->walk;

    walk->draw = draw_stream(seed, stream);
    model->memory_bytes = 8192 + (size_t)draw_magnitude(&walk->draw, 30000);
    model->store = must_store(model->memory_bytes, 1u << draw_between(&walk->draw, 0, 2));
    model->n_sets = (size_t)draw_between(&walk->draw, 1, SETS_MAX);
    model->n_charges = 0;
    for (size_t i = 0; i < model->n_sets; i++)
        random_set(model, &model->sets[i]);
    walk->subject = model->sets[0].limits[0].keys[0]; /* its scale sets the pace */
    walk->now = draw_chance(&walk->draw, 50) ? 0 : INT64_C(1700000000000);
}

static void model_fini(struct model *model)
{
    for (size_t s = 0; s < model->n_sets; s++) {
        for (size_t i = 0; i < model->sets[s].n; i++) {
            for (size_t k = 0; k < KEYS; k++)
                subject_free(&model->sets[s].limits[i].keys[k]);
        }
    }
    tg_store_free(model->store);
}

static void live(struct model *model)
{
    struct draw *draw = &model->walk.draw;
    struct call call;

    for (int i = 0; i < STEPS; i++) {
        int64_t choice = draw_between(draw, 0, 99);
        if (draw_chance(draw, 30))
            walk_forward(&model->walk);
        random_call(model, &call);
        if (choice < 55)
            try_take(model, &call);
        else if (choice < 65)
            try_batch(model, &call);
        else if (choice < 80)
            try_peek(model, &call);
        else if (choice < 97)
            try_end(model);
        else
            (void)tg_store_sweep(model->store, model->walk.now);
        walk_check(&model->walk, stats_of(model->store).memory_bytes <= model->memory_bytes,
                   "memory is over its bound");
    }
}

static void a_store_decides_as_one_that_forgets_nothing(void **state)
{
    static struct model model;
    uint64_t forgotten = 0;
    (void)state;

    model = (struct model){
        .walk = {.promise = "a store decides as one that forgets nothing", .seed = seed}};
    for (uint64_t i = 0; i < STORES; i++) {
        model_init(&model, i);
        live(&model);
        forgotten += stats_of(model.store).forgotten;
        model_fini(&model);
    }
    /* The property says nothing unless stores were full, and had to forget. */
    assert_true(model.full > STORES);
    assert_true(forgotten > STORES);
    cases_report(model.walk.promise, model.walk.cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_decides_as_one_that_forgets_nothing),
    };
    seed = draw_seed("test_store_model");
    return cmocka_run_group_tests_name("store_model", tests, NULL, NULL);
}
