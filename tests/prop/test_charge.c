/* test_charge.c - what a limit promises when calls are charged what calls like them use.
 *
 * Calls ask for far more than they use, or less, end out of order, are never settled, or lie: for
 * every moment y at which a call is admitted and every x before it,
 *
 *     actuals of calls admitted in (x, y] <= capacity + refill x (y - x) + V(y)
 *     V(y) = sum over calls in flight at y of max(0, actual - charge)
 *
 * and sum(asked - charge) over the calls in flight never exceeds the overdraft of any limit they
 * are under, wherever the limits are decided, here or elsewhere.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "draw.h"
#include "gate_kit.h"

static uint64_t seed;

enum { STORE_BYTES = 1 << 22, CALLS = 300, TRACES = 300, TENANTS = 3 };

struct made {
    tg_ms at, ends_at;
    tg_lease lease;
    int64_t asked, actual, charge;
    int tenant;
    bool open;
};

/* A tenant's limit, and one of all tenants together. */
struct world {
    struct tg_store *store;
    struct tg_gate *gate;
    struct tg_limit limits[2];
    tg_limits sets[2];
    int64_t capacity, overdraft[2];
    double refill;
    bool remote;
    struct made made[CALLS];
    size_t n;
};

static const char *const names[TENANTS] = {"a", "b", "c"};

static void world_open(struct world *world, struct draw *draw, bool remote)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = gate_config(&log);
    char spec[120];

    *world = (struct world){.store = must_store(STORE_BYTES, 1), .remote = remote};
    world->capacity = draw_between(draw, 1, 20) * 1000;
    world->refill = (double)draw_between(draw, 1, 40) * 100;
    for (int i = 0; i < 2; i++) {
        int64_t capacity = world->capacity * (i + 1);
        snprintf(spec, sizeof spec, "token_bucket:capacity=%" PRId64 ",refill=%g", capacity,
                 world->refill * (i + 1));
        if (draw_chance(draw, 40))
            snprintf(spec, sizeof spec, "gcra:limit=%d,period=10000,burst=%" PRId64,
                     (int)(world->refill * 10 * (i + 1)), capacity);
        world->limits[i] = limit_on(TG_AXIS_COST, spec);
        switch (draw_between(draw, 0, 2)) {
        case 0:
            world->limits[i].overdraft = -1;
            break;
        case 1:
            world->limits[i].overdraft = world->overdraft[i] = draw_between(draw, 1, 4 * capacity);
            break;
        default:
            world->overdraft[i] = TG_OVERDRAFT * capacity;
        }
        world->sets[i] = must_define(world->store, &world->limits[i], 1);
    }
    if (remote)
        config.remote_store = true;
    else
        config.store = world->store;
    config.max_learned = draw_chance(draw, 20) ? 3 : 65536;
    world->gate = must_gate(&config);
}

static void world_close(struct world *world)
{
    expect_idle(world->gate);
    tg_gate_free(world->gate);
    tg_store_free(world->store);
}

static void fill(const struct world *world, struct tg_scope scopes[2], struct tg_call *call,
                 const struct made *made)
{
    *call = call_of(TG_PRIORITY_NORMAL);
    scopes[0] =
        (struct tg_scope){.limits = world->sets[0], .key = names[made->tenant], .key_bytes = 1};
    scopes[1] = (struct tg_scope){.limits = world->sets[1], .key = "all", .key_bytes = 3};
    for (int i = 0; world->remote && i < 2; i++) {
        scopes[i].ceiling = world->capacity * (i + 1);
        scopes[i].overdraft = world->overdraft[i];
    }
    call->debit = (struct tg_debit){
        .scopes = scopes, .n_scopes = 2, .cost = made->asked, .root = "all", .root_bytes = 3};
    call->tenant = names[made->tenant];
    call->tenant_bytes = 1;
    call->like = made->asked % 2 ? "odd" : "even";
    call->like_bytes = strlen(call->like);
}

static bool admit(struct world *world, struct made *made)
{
    struct tg_scope scopes[2];
    struct tg_call call;
    struct tg_answer answer;
    struct tg_axes axes;
    struct tg_decision all;

    fill(world, scopes, &call, made);
    assert_int_equal(tg_gate_admit(world->gate, &call, 0, made->at, &answer), TG_OK);
    if (world->remote) {
        struct tg_debit debit = call.debit;
        assert_int_equal(answer.step, TG_NEEDS_STORE);
        debit.cost = answer.charge;
        assert_int_equal(tg_store_take(world->store, &debit, made->at, &all, &axes), TG_OK);
        assert_int_equal(
            tg_gate_store_answered(world->gate, answer.lease, TG_OK, &axes, made->at, &answer),
            TG_OK);
    }
    check_answer(&answer);
    made->charge = answer.charge;
    made->lease = answer.lease;
    made->open = answer.decision.allowed;
    /* "Never" is said by what is asked for, and by nothing that was learned. */
    if (!answer.decision.allowed)
        assert_int_equal(answer.decision.retry_after_ms == TG_UNSATISFIABLE,
                         made->asked > world->capacity);
    else
        assert_true(made->asked <= world->capacity && made->charge <= world->capacity);
    return answer.decision.allowed;
}

static void end(struct world *world, struct made *made, bool known)
{
    struct tg_scope scopes[2];
    struct tg_call call;

    if (world->remote && known) {
        fill(world, scopes, &call, made);
        call.debit.cost = made->charge;
        assert_int_equal(
            tg_store_settle(world->store, &call.debit, made->ends_at, made->at, made->actual),
            TG_OK);
    }
    if (known)
        assert_true(finish_settled(world->gate, made->lease, made->ends_at, made->actual));
    else
        assert_true(finish(world->gate, made->lease, made->ends_at));
    made->open = false;
}

static void end_until(struct world *world, struct draw *draw, tg_ms until)
{
    for (;;) {
        struct made *first = NULL;
        for (size_t i = 0; i < world->n; i++)
            if (world->made[i].open && world->made[i].ends_at <= until &&
                (!first || world->made[i].ends_at < first->ends_at))
                first = &world->made[i];
        if (!first)
            return;
        bool known = !draw_chance(draw, 5);
        if (!known)
            first->actual = first->actual < first->charge ? first->actual : first->charge;
        end(world, first, known);
    }
}

/* The last call of a tenant, or of anybody, was admitted just now. */
static void expect_promise(const struct world *world, int limit, uint64_t trace)
{
    const struct made *last = &world->made[world->n - 1];
    double above = 0, sum = 0;
    int64_t drawn = 0;

    for (size_t i = 0; i < world->n; i++) {
        const struct made *made = &world->made[i];
        if (!made->open || (limit == 0 && made->tenant != last->tenant))
            continue;
        above += made->actual > made->charge ? (double)(made->actual - made->charge) : 0;
        drawn += made->asked > made->charge ? made->asked - made->charge : 0;
    }
    if (drawn > world->overdraft[limit])
        fail_msg("trace %" PRIu64 ": %" PRId64 " drawn of %" PRId64, trace, drawn,
                 world->overdraft[limit]);
    for (size_t i = world->n; i-- > 0;) {
        const struct made *made = &world->made[i];
        if (limit == 0 && made->tenant != last->tenant)
            continue;
        sum += (double)made->actual;
        double most = (double)world->capacity * (limit + 1) + above +
                      world->refill * (limit + 1) * (double)(last->at - made->at) / 1000;
        if (sum > most + 1)
            fail_msg("trace %" PRIu64 ": %g used from %lld to %lld, at most %g are promised", trace,
                     sum, (long long)made->at, (long long)last->at, most);
    }
}

static void run(uint64_t trace, bool remote)
{
    struct draw draw = draw_stream(seed, trace);
    struct world world;
    tg_ms now = 1000000, longest;
    size_t admitted = 0;

    world_open(&world, &draw, remote);
    int64_t pace = draw_magnitude(&draw, 1000);
    longest = draw_magnitude(&draw, 60000);
    double part = draw_chance(&draw, 50) ? 0.05 : draw_unit(&draw);
    while (world.n < CALLS && now < 1000000 + 600000) {
        struct made *made = &world.made[world.n];
        now += draw_between(&draw, 0, 2 * pace);
        end_until(&world, &draw, now);
        if (draw_chance(&draw, 1)) /* they change their ways */
            part = draw_unit(&draw) * 1.5;
        *made = (struct made){.at = now, .tenant = (int)draw_between(&draw, 0, TENANTS - 1)};
        made->asked = draw_between(&draw, 1, world.capacity * 11 / 10);
        made->actual = (int64_t)((double)made->asked * part * 2 * draw_unit(&draw));
        if (draw_chance(&draw, 1))
            made->actual = made->asked * 10;
        made->ends_at = now + draw_between(&draw, 0, longest);
        if (!admit(&world, made))
            continue;
        admitted++;
        world.n++;
        expect_promise(&world, 0, trace);
        expect_promise(&world, 1, trace);
    }
    end_until(&world, &draw, INT64_MAX);
    assert_true(admitted > 0);
    world_close(&world);
}

static void no_span_is_used_beyond_the_promise(void **state)
{
    (void)state;

    for (uint64_t trace = 0; trace < TRACES; trace++)
        run(trace, false);
}

/* The gate knows of the limits what the call says, and the store only of charges. */
static void a_store_elsewhere_keeps_the_same_promise(void **state)
{
    (void)state;

    for (uint64_t trace = 0; trace < TRACES; trace++)
        run(trace, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_span_is_used_beyond_the_promise),
        cmocka_unit_test(a_store_elsewhere_keeps_the_same_promise),
    };

    seed = draw_seed("test_charge");
    return cmocka_run_group_tests_name("charge", tests, NULL, NULL);
}
