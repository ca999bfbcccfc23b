/* test_keypool_model.c - random operations on a ring, and a model that remembers every charge.
 *
 * The model keeps a list of charges with their moments, and adds them up. It knows nothing of
 * seconds, indexes and timers, so it has two answers. A key *may* serve if what was charged in the
 * last 60 s leaves room: no other is ever given, so no window of 60 s is ever exceeded. A key
 * *must* be able to serve if what was charged in the last 61 s does: as long as there is one, "no
 * key" is never said. All else (cooldowns, breakers, suspensions, calls and tokens in flight, what
 * others have said of the keys) is exact, and so is why there is no key.
 *
 * Every so often all calls end, and then retry_after is put to the test: a ms earlier there is no
 * key, and then there is one. Or what the ring knows goes on in another ring, which nobody notices.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "draw.h"
#include "lib/core/allocator.h"
#include "lib/keypool/keyring_save.h"

enum { KEYS = 12, POOLS = 2, GROUPS = 2, CALLS = 300, LOG = 4096, STEPS = 150000 };

static uint64_t seed;

struct charge {
    tg_ms at;
    int64_t calls, tokens;
    uint64_t lease;
};

/* What is known of a key in a pool, or of a group. */
struct meter {
    struct tg_key_limits limits;
    struct charge log[LOG];
    size_t n;
    int64_t in_flight, tokens_in_flight;
    tg_ms cool_until;
    tg_ms held_until; /* others use it: calls of up to so many tokens alone */
    int64_t held_room;
};

struct subject {
    struct meter meter;
    int group; /* -1: none */
    tg_ms open_until;
    int64_t run;
    double errors;
    uint32_t epoch;
    uint64_t trying; /* the lease; 0: none */
};

struct running {
    tg_key_lease lease;
    size_t pool, key;
    int group;
    int64_t tokens;
    uint32_t epoch;
};

struct world {
    struct draw draw;
    tg_ms now;
    struct tg_keyring *ring;
    struct tg_pool *pools[POOLS];
    struct subject keys[POOLS][KEYS];
    struct meter groups[GROUPS];
    bool suspended[KEYS], disabled[KEYS];
    struct running running[CALLS];
    size_t n_running;
    char names[KEYS][8];
    size_t served, refused, hints, held_off, moved;
    struct tg_key_spec key_specs[POOLS][KEYS];
    struct tg_group_spec group_specs[GROUPS];
    struct tg_pool_spec pool_specs[POOLS];
    struct tg_keyring_spec spec;
};

/* ---- the model ---- */

static struct meter *meter_of_group(struct world *world, int group)
{
    return group < 0 ? NULL : &world->groups[group];
}

static void forget_old(struct meter *meter, tg_ms now)
{
    size_t kept = 0;

    for (size_t i = 0; i < meter->n; i++)
        if (now - meter->log[i].at < 61000)
            meter->log[kept++] = meter->log[i];
    meter->n = kept;
}

static void sums(const struct meter *meter, tg_ms now, tg_ms span, int64_t *calls, int64_t *tokens)
{
    *calls = *tokens = 0;
    for (size_t i = 0; i < meter->n; i++)
        if (now - meter->log[i].at < span) {
            *calls += meter->log[i].calls;
            *tokens += meter->log[i].tokens;
        }
}

static bool meter_allows(const struct meter *meter, tg_ms now, tg_ms span, int64_t tokens)
{
    const struct tg_key_limits *limits = &meter->limits;
    int64_t calls, used;

    sums(meter, now, span, &calls, &used);
    if (meter->held_until > now && tokens > meter->held_room)
        return false;
    return meter->cool_until <= now && (!limits->rpm || calls + 1 <= limits->rpm) &&
           (!limits->concurrency || meter->in_flight + 1 <= limits->concurrency) &&
           (!limits->tpm ||
            (used + tokens <= limits->tpm && meter->tokens_in_flight + tokens <= limits->tpm));
}

static bool allows(struct world *world, size_t pool, size_t key, tg_ms span, int64_t tokens)
{
    const struct subject *subject = &world->keys[pool][key];
    const struct meter *group = meter_of_group(world, subject->group);

    return !world->suspended[key] && !world->disabled[key] && subject->open_until <= world->now &&
           !subject->trying && meter_allows(&subject->meter, world->now, span, tokens) &&
           (!group || meter_allows(group, world->now, span, tokens));
}

static void meter_take(struct meter *meter, tg_ms now, int64_t tokens, uint64_t lease)
{
    forget_old(meter, now);
    assert_true(meter->n < LOG);
    meter->log[meter->n++] = (struct charge){now, 1, tokens, lease};
    meter->in_flight++;
    meter->tokens_in_flight += tokens;
}

static void meter_give(struct meter *meter, const struct running *call,
                       const struct tg_key_report *report, tg_ms now)
{
    meter->in_flight--;
    meter->tokens_in_flight -= call->tokens;
    for (size_t i = 0; i < meter->n; i++) {
        struct charge *charge = &meter->log[i];
        if (charge->lease != call->lease || now - charge->at >= 61000)
            continue;
        if (!report->sent)
            charge->calls = charge->tokens = 0;
        else if (report->tokens >= 0)
            charge->tokens = report->tokens;
    }
}

static void model_breaker(struct subject *subject, const struct running *call,
                          enum tg_key_outcome outcome, tg_ms now)
{
    bool failed = outcome == TG_KEY_FAILED;

    if (subject->trying == call->lease)
        subject->trying = 0;
    if (call->epoch != subject->epoch || outcome == TG_KEY_CANCELLED)
        return;
    subject->errors += ((failed ? 1 : 0) - subject->errors) * (1.0 / 16);
    subject->run = failed ? subject->run + 1 : 0;
    if (!failed)
        subject->open_until = 0;
    else if (subject->open_until || subject->run >= (subject->errors >= 0.5 ? 3 : 5)) {
        subject->open_until = now + 30000;
        subject->epoch++;
    }
}

static void model_cool(struct meter *meter, tg_ms until)
{
    if (until > meter->cool_until)
        meter->cool_until = until;
}

/* ---- operations ---- */

static void acquired(struct world *world, size_t pool, const struct tg_key_answer *answer,
                     int64_t tokens)
{
    size_t key = (size_t)((char(*)[8])answer->owner - world->names);
    struct subject *subject = &world->keys[pool][key];
    struct meter *group = meter_of_group(world, subject->group);

    assert_true(allows(world, pool, key, 60000, tokens));
    meter_take(&subject->meter, world->now, tokens, answer->lease);
    if (group)
        meter_take(group, world->now, tokens, answer->lease);
    if (subject->open_until)
        subject->trying = answer->lease;
    world->running[world->n_running++] =
        (struct running){answer->lease, pool, key, subject->group, tokens, subject->epoch};
    world->served++;
}

static bool was_tried(const struct world *world, const struct tg_key_call *call, size_t key)
{
    for (size_t i = 0; i < call->n_tried; i++)
        if (call->tried[i] == world->names[key])
            return true;
    return false;
}

static bool could_hold(const struct meter *meter, int64_t tokens)
{
    return !meter || !meter->limits.tpm || tokens <= meter->limits.tpm;
}

/* Whether the limits of a key, and of its group, can hold so much. */
static bool can_ever_hold(struct world *world, size_t pool, size_t key, int64_t tokens)
{
    const struct subject *subject = &world->keys[pool][key];

    return could_hold(&subject->meter, tokens) &&
           could_hold(meter_of_group(world, subject->group), tokens);
}

static bool is_cooling(struct world *world, size_t pool, size_t key)
{
    const struct subject *subject = &world->keys[pool][key];
    const struct meter *group = meter_of_group(world, subject->group);

    return subject->meter.cool_until > world->now || (group && group->cool_until > world->now);
}

/* What a call is charged: what it states, but no more than the largest key can hold, if what it
 * asks for fits there. */
static int64_t charged(struct world *world, size_t pool, const struct tg_key_call *call)
{
    int64_t asked = call->asked > 0 ? call->asked : call->tokens, most = 0;

    for (size_t key = 0; key < KEYS; key++) {
        const struct subject *subject = &world->keys[pool][key];
        const struct meter *group = meter_of_group(world, subject->group);
        int64_t holds = subject->meter.limits.tpm ? subject->meter.limits.tpm : TG_NUMBER_MAX;
        if (group && group->limits.tpm && group->limits.tpm < holds)
            holds = group->limits.tpm;
        most = holds > most ? holds : most;
    }
    return asked > most ? asked : call->tokens > most ? most : call->tokens;
}

/* There is no key: why, and for how long. */
static void expect_reasons(struct world *world, size_t pool, const struct tg_key_call *call,
                           int64_t tokens, const struct tg_key_answer *answer)
{
    bool all_cool = true, any_in_use = false, fits = false, may_come = false;

    for (size_t key = 0; key < KEYS; key++) {
        bool in_use = !world->suspended[key] && !world->disabled[key];
        bool holds = can_ever_hold(world, pool, key, tokens);
        fits = fits || holds;
        any_in_use = any_in_use || in_use;
        all_cool = all_cool && (!in_use || is_cooling(world, pool, key));
        may_come = may_come || (in_use && holds && !was_tried(world, call, key));
        assert_true(was_tried(world, call, key) || !allows(world, pool, key, 61000, tokens));
    }
    assert_true(answer->retry_after_ms > 0);
    assert_int_equal(answer->retry_after_ms == TG_UNSATISFIABLE, !may_come);
    assert_int_equal(answer->too_large, !fits);
    assert_int_equal(answer->all_cooling, any_in_use && all_cool);
}

/* Those that could serve are told with their terms, and no others. */
static void expect_terms(struct world *world, size_t pool, const struct tg_key_call *call,
                         int64_t tokens)
{
    struct tg_key_terms terms[KEYS];
    void *owners[KEYS];
    size_t n = tg_pool_peek_terms(world->pools[pool], call, world->now, terms, owners, KEYS);
    bool told[KEYS] = {false};

    for (size_t i = 0; i < n; i++) {
        size_t key = (size_t)((char(*)[8])owners[i] - world->names);
        const struct subject *subject = &world->keys[pool][key];
        assert_true(!told[key] && allows(world, pool, key, 60000, tokens));
        assert_false(was_tried(world, call, key));
        assert_string_equal(terms[i].name, world->names[key]);
        assert_int_equal(terms[i].tokens, tokens);
        assert_memory_equal(&terms[i].limits, &subject->meter.limits, sizeof terms[i].limits);
        assert_int_equal(terms[i].group != NULL, subject->group >= 0);
        told[key] = true;
    }
    for (size_t key = 0; key < KEYS; key++)
        assert_true(told[key] || was_tried(world, call, key) ||
                    !allows(world, pool, key, 61000, tokens));
}

/* True: a key was given. */
static bool acquire(struct world *world, size_t pool, int64_t tokens, size_t n_tried)
{
    struct tg_key_call call;
    struct tg_key_answer answer, peeked;

    tg_key_call_init(&call);
    call.tokens = tokens;
    if (draw_chance(&world->draw, 30))
        call.asked = draw_magnitude(&world->draw, 8000);
    if (draw_chance(&world->draw, 30)) {
        call.affinity = world->names[draw_between(&world->draw, 0, KEYS - 1)];
        call.affinity_bytes = 4;
    }
    for (call.n_tried = 0; call.n_tried < n_tried; call.n_tried++)
        call.tried[call.n_tried] = world->names[draw_between(&world->draw, 0, KEYS - 1)];
    tokens = charged(world, pool, &call);
    if (draw_chance(&world->draw, 10))
        expect_terms(world, pool, &call, tokens);
    tg_pool_peek(world->pools[pool], &call, world->now, &peeked);
    tg_pool_acquire(world->pools[pool], &call, world->now, &answer);
    assert_int_equal(peeked.retry_after_ms, answer.retry_after_ms);
    if (answer.lease) {
        assert_int_equal(answer.retry_after_ms, 0);
        assert_false(was_tried(world, &call, (size_t)((char(*)[8])answer.owner - world->names)));
        acquired(world, pool, &answer, tokens);
        return true;
    }
    world->refused++;
    expect_reasons(world, pool, &call, tokens, &answer);
    return false;
}

static struct tg_key_report draw_report(struct world *world, int64_t estimate)
{
    struct draw *draw = &world->draw;
    struct tg_key_report report;

    tg_key_report_init(&report);
    report.outcome = (enum tg_key_outcome)(
        draw_chance(draw, 60) ? TG_KEY_OK : draw_between(draw, TG_KEY_OK, TG_KEY_CANCELLED));
    /* A refused credential would need the model of probes: another operation does that. */
    if (report.outcome == TG_KEY_REFUSED)
        report.outcome = TG_KEY_FAILED;
    report.sent = draw_chance(draw, 85);
    if (draw_chance(draw, 70))
        report.tokens = draw_between(draw, 0, draw_chance(draw, 80) ? estimate : 3 * estimate);
    report.latency_ms = draw_chance(draw, 80) ? draw_unit(draw) * 1000 : -1;
    if (draw_chance(draw, 50))
        report.cool_until = world->now + draw_between(draw, -100, 20000);
    return report;
}

static void end(struct world *world, size_t i, const struct tg_key_report *report)
{
    struct running call = world->running[i];
    struct subject *subject = &world->keys[call.pool][call.key];
    struct meter *group = meter_of_group(world, call.group);

    world->running[i] = world->running[--world->n_running];
    assert_true(tg_keyring_release(world->ring, call.lease, world->now, report));
    meter_give(&subject->meter, &call, report, world->now);
    if (group)
        meter_give(group, &call, report, world->now);
    model_breaker(subject, &call, report->outcome, world->now);
    if (report->outcome != TG_KEY_LIMITED)
        return;
    tg_ms until = report->cool_until > 0 ? report->cool_until : world->now + 5000;
    until = until < world->now + 10000 ? until : world->now + 10000;
    model_cool(&subject->meter, until);
    if (group)
        model_cool(group, until);
}

static void end_one(struct world *world)
{
    if (world->n_running == 0)
        return;
    size_t i = (size_t)draw_between(&world->draw, 0, (int64_t)world->n_running - 1);
    struct tg_key_report report = draw_report(world, world->running[i].tokens);
    if (report.outcome == TG_KEY_LIMITED && report.cool_until < 0)
        report.cool_until = 0;
    end(world, i, &report);
}

/* Another machine has said that the key of a call, or its group, is to be left alone. */
static void hold_one_off(struct world *world)
{
    struct draw *draw = &world->draw;
    tg_ms now = world->now;

    if (world->n_running == 0)
        return;
    size_t i = (size_t)draw_between(draw, 0, (int64_t)world->n_running - 1);
    struct running call = world->running[i];
    struct subject *subject = &world->keys[call.pool][call.key];
    struct meter *group = meter_of_group(world, call.group);
    struct tg_key_hold hold = {.why = (enum tg_hold)draw_between(draw, 0, 2),
                               .of_group = draw_chance(draw, 40),
                               .until = now + draw_between(draw, -100, 15000),
                               .room = draw_between(draw, -1, 3000)};
    if (draw_chance(draw, 10))
        hold.until = draw_chance(draw, 50) ? now : -5;
    /* Then it is asked for again when the hint says, too. */
    if (hold.why == TG_HOLD_BUSY && hold.until > now + 1000)
        hold.until = now + 1000;
    struct meter *meter = hold.of_group && group ? group : &subject->meter;
    world->running[i] = world->running[--world->n_running];
    assert_true(tg_keyring_hold_off(world->ring, call.lease, now, &hold));
    assert_false(tg_keyring_hold_off(world->ring, call.lease, now, &hold));
    world->held_off++;
    if (hold.until > now) {
        tg_ms longest = now + 10000;
        if (hold.why == TG_HOLD_COOLING)
            model_cool(meter, hold.until < longest ? hold.until : longest);
        if (hold.why == TG_HOLD_BROKEN) {
            subject->open_until =
                hold.until > subject->open_until ? hold.until : subject->open_until;
            subject->epoch++;
            subject->trying = 0;
        }
        if (hold.why == TG_HOLD_BUSY) {
            meter->held_until = hold.until;
            meter->held_room = hold.room;
        }
    }
    const struct tg_key_report unsent = {.sent = false};
    meter_give(&subject->meter, &call, &unsent, now);
    if (group)
        meter_give(group, &call, &unsent, now);
    model_breaker(subject, &call, TG_KEY_CANCELLED, now);
}

static void suspend_or_revive(struct world *world)
{
    size_t key = (size_t)draw_between(&world->draw, 0, KEYS - 1);
    bool enabled = draw_chance(&world->draw, 70);

    assert_true(tg_keyring_enable(world->ring, "p", world->names[key], enabled, world->now));
    world->disabled[key] = !enabled;
}

/* ---- the ring ---- */

static struct tg_key_limits draw_limits(struct draw *draw, int64_t scale)
{
    return (struct tg_key_limits){
        .rpm = draw_chance(draw, 60) ? scale * draw_between(draw, 1, 40) : 0,
        .tpm = draw_chance(draw, 70) ? scale * draw_between(draw, 100, 5000) : 0,
        .concurrency = draw_chance(draw, 60) ? scale * draw_between(draw, 1, 8) : 0};
}

static void find_pools(struct world *world)
{
    for (size_t p = 0; p < POOLS; p++)
        world->pools[p] = tg_keyring_pool(world->ring, "p", world->pool_specs[p].model);
}

/* Draws limits and groups anew, and makes the ring of it, or changes the one there is. */
static void configure(struct world *world)
{
    static const char *const group_names[GROUPS] = {"a", "b"};
    static const char *const models[POOLS] = {"m", "n"};

    for (size_t g = 0; g < GROUPS; g++) {
        world->groups[g].limits = draw_limits(&world->draw, 4);
        world->group_specs[g] =
            (struct tg_group_spec){"p", group_names[g], world->groups[g].limits};
    }
    for (size_t p = 0; p < POOLS; p++) {
        bool all_limited = draw_chance(&world->draw, 40);
        for (size_t k = 0; k < KEYS; k++) {
            struct subject *subject = &world->keys[p][k];
            subject->meter.limits = draw_limits(&world->draw, 1);
            if (all_limited && subject->meter.limits.tpm == 0)
                subject->meter.limits.tpm = draw_between(&world->draw, 100, 5000);
            subject->group = (int)draw_between(&world->draw, -2, GROUPS - 1);
            subject->group = subject->group < 0 ? -1 : subject->group;
            world->key_specs[p][k] = (struct tg_key_spec){
                .name = world->names[k],
                .group = subject->group < 0 ? NULL : group_names[subject->group],
                .limits = subject->meter.limits,
                .owner = world->names[k]};
        }
        tg_pool_spec_init(&world->pool_specs[p]);
        world->pool_specs[p].provider = "p";
        world->pool_specs[p].model = models[p];
        world->pool_specs[p].keys = world->key_specs[p];
        world->pool_specs[p].n_keys = KEYS;
    }
    struct tg_keyring_spec *spec = &world->spec;
    tg_keyring_spec_init(spec);
    spec->groups = world->group_specs;
    spec->n_groups = GROUPS;
    spec->pools = world->pool_specs;
    spec->n_pools = POOLS;
    spec->cooldown = 5000;
    spec->cooldown_max = 10000;
    spec->max_affinity = 5;
    spec->seed = seed;
    if (world->ring)
        assert_int_equal(tg_keyring_change(world->ring, spec, world->now, NULL), TG_OK);
    else
        assert_int_equal(tg_keyring_new(spec, &world->ring, NULL), TG_OK);
    find_pools(world);
}

static void end_all(struct world *world)
{
    struct tg_key_report report;

    tg_key_report_init(&report);
    while (world->n_running > 0)
        end(world, 0, &report);
}

static void forget_leases(struct meter *meter)
{
    for (size_t i = 0; i < meter->n; i++)
        meter->log[i].lease = 0;
}

/* With nothing in flight, another ring goes on with what is known. */
static void move(struct world *world)
{
    struct tg_keyring *next;
    char *bytes;
    size_t n;

    end_all(world);
    assert_int_equal(keyring_save(world->ring, world->now, &bytes, &n), TG_OK);
    assert_int_equal(tg_keyring_new(&world->spec, &next, NULL), TG_OK);
    keyring_load(next, bytes, n, world->now);
    mem_free(bytes);
    tg_keyring_free(world->ring);
    world->ring = next;
    find_pools(world);
    for (size_t p = 0; p < POOLS; p++) /* it numbers its leases anew */
        for (size_t k = 0; k < KEYS; k++)
            forget_leases(&world->keys[p][k].meter);
    for (size_t g = 0; g < GROUPS; g++)
        forget_leases(&world->groups[g]);
    for (size_t k = 0; k < KEYS; k++) /* who knows it says it again */
        if (world->disabled[k])
            assert_true(tg_keyring_enable(next, "p", world->names[k], false, world->now));
    world->moved++;
}

/* ---- looking ---- */

static void expect_left(int64_t limit, int64_t left, int64_t used_60, int64_t used_61)
{
    if (limit == 0) {
        assert_int_equal(left, TG_NUMBER_MAX);
        return;
    }
    assert_true(left >= (limit > used_61 ? limit - used_61 : 0));
    assert_true(left <= (limit > used_60 ? limit - used_60 : 0));
}

static void expect_metrics(struct world *world, size_t pool)
{
    struct tg_key_metrics metrics[KEYS];

    assert_int_equal(tg_pool_get_keys(world->pools[pool], world->now, 0, metrics, KEYS), KEYS);
    for (size_t i = 0; i < KEYS; i++) {
        const struct subject *subject = &world->keys[pool][i];
        const struct meter *meter = &subject->meter, *group = meter_of_group(world, subject->group);
        /* Where the key has no limit of its own, that of its group is shown. */
        const struct meter *calls = meter->limits.rpm || !group ? meter : group;
        const struct meter *tokens = meter->limits.tpm || !group ? meter : group;
        int64_t used_60, used_61, other;
        sums(calls, world->now, 60000, &used_60, &other);
        sums(calls, world->now, 61000, &used_61, &other);
        expect_left(calls->limits.rpm, metrics[i].rpm_remaining, used_60, used_61);
        sums(tokens, world->now, 60000, &other, &used_60);
        sums(tokens, world->now, 61000, &other, &used_61);
        expect_left(tokens->limits.tpm, metrics[i].tpm_remaining, used_60, used_61);
        assert_int_equal(metrics[i].rpm_limit, calls->limits.rpm);
        assert_int_equal(metrics[i].tpm_limit, tokens->limits.tpm);
        assert_int_equal(metrics[i].in_flight, meter->in_flight);
        assert_int_equal(metrics[i].tpm_inflight, meter->tokens_in_flight);
        assert_int_equal(metrics[i].consecutive_fails, subject->run);
        assert_int_equal(metrics[i].failure_cool_down, subject->open_until);
        tg_ms cool = meter->cool_until;
        if (group && group->cool_until > cool)
            cool = group->cool_until;
        assert_int_equal(metrics[i].cool_down_until, cool > world->now ? cool : 0);
    }
}

/* With nothing in flight, the hint is exact. */
static void expect_true_hint(struct world *world)
{
    struct tg_key_call call;
    struct tg_key_answer answer, again;
    size_t pool = (size_t)draw_between(&world->draw, 0, POOLS - 1);
    struct tg_key_report report;

    tg_key_report_init(&report);
    end_all(world);
    tg_key_call_init(&call);
    call.tokens = draw_magnitude(&world->draw, 6000);
    call.tokens = charged(world, pool, &call);
    for (int i = 0; i < CALLS; i++) { /* until there is no key */
        tg_pool_acquire(world->pools[pool], &call, world->now, &answer);
        if (!answer.lease)
            break;
        acquired(world, pool, &answer, call.tokens);
        end(world, 0, &report);
    }
    if (answer.lease || answer.retry_after_ms == TG_UNSATISFIABLE)
        return;
    world->now += answer.retry_after_ms - 1;
    tg_pool_acquire(world->pools[pool], &call, world->now, &again);
    assert_true(again.lease == 0 || answer.retry_after_ms == 1);
    if (again.lease == 0 && answer.retry_after_ms > 1)
        assert_int_equal(again.retry_after_ms, 1);
    world->now++;
    tg_pool_acquire(world->pools[pool], &call, world->now, &again);
    assert_true(again.lease != 0);
    acquired(world, pool, &again, call.tokens);
    world->hints++;
}

static void step(struct world *world)
{
    struct draw *draw = &world->draw;

    if (draw_chance(draw, 40))
        world->now += draw_between(draw, 0, draw_chance(draw, 2) ? 20000 : 300);
    if (draw_chance(draw, 55) && world->n_running < CALLS)
        (void)acquire(world, (size_t)draw_between(draw, 0, POOLS - 1),
                      draw_chance(draw, 5) ? 0 : draw_magnitude(draw, 6000),
                      draw_chance(draw, 20) ? (size_t)draw_between(draw, 1, TG_TRIED_MAX) : 0);
    else if (draw_chance(draw, 10))
        hold_one_off(world);
    else
        end_one(world);
    if (draw_between(draw, 0, 199) == 0)
        suspend_or_revive(world);
}

static void a_key_is_given_iff_one_can_serve(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    (void)state;

    assert_non_null(world);
    world->draw = draw_stream(seed, 1);
    for (size_t k = 0; k < KEYS; k++)
        memcpy(world->names[k], (char[8]){'k', 'e', 'y', (char)('a' + k)}, 8);
    configure(world);
    for (int i = 0; i < STEPS; i++) {
        step(world);
        if (i % 97 == 0)
            expect_metrics(world, (size_t)i % POOLS);
        if (i % 1000 == 999)
            expect_true_hint(world);
        if (i % 5000 == 4999)
            configure(world);
        if (i % 1700 == 1699)
            move(world);
    }
    end_all(world);
    for (size_t p = 0; p < POOLS; p++)
        expect_metrics(world, p);
    print_message("%zu served, %zu refused, %zu hints, %zu held off, %zu times moved\n",
                  world->served, world->refused, world->hints, world->held_off, world->moved);
    assert_true(world->served > STEPS / 20 && world->refused > STEPS / 20 && world->hints > 20);
    tg_keyring_free(world->ring);
    free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_given_iff_one_can_serve),
    };

    seed = draw_seed("test_keypool_model");
    return cmocka_run_group_tests_name("keypool_model", tests, NULL, NULL);
}
