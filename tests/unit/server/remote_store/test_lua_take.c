/* test_lua_take.c - the fused script: what it replies, what it charges, what it leaves alone.
 *
 * The published fixture, the case in which fused and sequential differ elsewhere, the order of the
 * reply for many limiters, shadow, refunds and settlements of what has been forgotten; and random
 * sets of limits on several scopes, against the store in memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keyed.h"
#include "net_limits.h"
#include "subject.h"

#define MEMORY ((size_t)1 << 20)

static uint64_t seed;
static struct net_limits redis;

/* ---- one tenant with one limit on each axis ---- */

struct tenant {
    struct tg_limit limits[2];
    struct remote_scope scope;
    struct remote_debit debit;
};

static struct tenant *make(struct tenant *tenant, const char *name, const char *rate,
                           const char *cost, enum tg_charging charging)
{
    tenant->limits[0] = limit_on(TG_AXIS_RATE, rate);
    tenant->limits[1] = limit_on(TG_AXIS_COST, cost);
    tenant->scope = (struct remote_scope){slice_of(name), SLICE("key"), tenant->limits, 2};
    tenant->debit = (struct remote_debit){
        .root = SLICE("root"), .scopes = &tenant->scope, .n_scopes = 1, .charging = charging};
    return tenant;
}

static redisReply *take(struct tenant *tenant, tg_ms now, int64_t cost, struct tg_axes *axes,
                        struct remote_charge *charge)
{
    tenant->debit.cost = cost;
    return net_limits_take(&redis, &tenant->debit, now, axes, charge);
}

static void expect_numbers(const char *what, const redisReply *reply, const int64_t *wanted,
                           size_t n)
{
    if (reply->elements != n)
        fail_msg("%s: %zu numbers instead of %zu", what, reply->elements, n);
    for (size_t i = 0; i < n; i++)
        if (reply->element[i]->type != REDIS_REPLY_INTEGER ||
            reply->element[i]->integer != wanted[i])
            fail_msg("%s: number %zu is %lld, wanted %lld", what, i + 1,
                     reply->element[i]->integer, (long long)wanted[i]);
}

static void the_published_fixture_by_per_axis_charging(void **state)
{
    static const struct {
        tg_ms dt;
        int64_t cost, numbers[13];
    } steps[] = {
        {0, 10, {1, 5, 4, 2012000, 0, 1, 4, 2012000, 0, 1, 90, 2001000, 0}},
        {100, 30, {1, 5, 3, 2024000, 0, 1, 3, 2024000, 0, 1, 61, 2004000, 0}},
        {200, 40, {1, 5, 2, 2036000, 0, 1, 2, 2036000, 0, 1, 23, 2008000, 0}},
        {100, 50, {0, 5, 1, 2048000, 2600, 1, 1, 2048000, 0, 0, 24, 2008000, 2600}},
        {60000, 1, {1, 5, 4, 2072400, 0, 1, 4, 2072400, 0, 1, 99, 2060500, 0}},
    };
    struct tenant tenant;
    struct tg_axes axes;
    struct remote_charge charge;
    tg_ms now = 2000000;

    (void)state;
    make(&tenant, "fixture", "gcra:limit=5,period=60000", "token_bucket:capacity=100,refill=10",
         TG_CHARGE_PER_AXIS);
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        now += steps[i].dt;
        redisReply *reply = take(&tenant, now, steps[i].cost, &axes, &charge);
        expect_numbers("step", reply, steps[i].numbers, 13);
        freeReplyObject(reply);
    }
}

/* The same steps, charged atomically: the refused one has not spent its unit of rate. */
static void the_published_fixture_by_atomic_charging(void **state)
{
    static const struct {
        tg_ms dt;
        int64_t cost, numbers[13];
    } steps[] = {
        {0, 10, {1, 5, 4, 2012000, 0, 1, 4, 2012000, 0, 1, 90, 2001000, 0}},
        {100, 30, {1, 5, 3, 2024000, 0, 1, 3, 2024000, 0, 1, 61, 2004000, 0}},
        {200, 40, {1, 5, 2, 2036000, 0, 1, 2, 2036000, 0, 1, 23, 2008000, 0}},
        {100, 50, {0, 5, 2, 2036000, 2600, 1, 2, 2036000, 0, 0, 24, 2008000, 2600}},
        {60000, 1, {1, 5, 4, 2072400, 0, 1, 4, 2072400, 0, 1, 99, 2060500, 0}},
    };
    struct tenant tenant;
    struct tg_axes axes;
    struct remote_charge charge;
    tg_ms now = 2000000;

    (void)state;
    make(&tenant, "atomic", "gcra:limit=5,period=60000", "token_bucket:capacity=100,refill=10",
         TG_CHARGE_ATOMIC);
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        now += steps[i].dt;
        redisReply *reply = take(&tenant, now, steps[i].cost, &axes, &charge);
        expect_numbers("step", reply, steps[i].numbers, 13);
        freeReplyObject(reply);
    }
}

/* Ten calls of 10 within 10 ms on 2 a minute: eight are refused by rate, and cost does not hear of
 * them. Debiting both axes always would leave next to nothing of the 100. */
static void a_call_that_rate_refuses_leaves_its_cost_unspent(void **state)
{
    (void)state;
    for (int charging = TG_CHARGE_ATOMIC; charging <= TG_CHARGE_PER_AXIS; charging++) {
        struct tenant tenant;
        struct tg_axes axes;
        struct remote_charge charge;
        int admitted = 0;
        make(&tenant, charging == TG_CHARGE_ATOMIC ? "91-atomic" : "91-per-axis",
             "gcra:limit=2,period=60000", "token_bucket:capacity=100,refill=1",
             (enum tg_charging)charging);
        for (int i = 0; i < 10; i++) {
            redisReply *reply = take(&tenant, 2000000 + i, 10, &axes, &charge);
            admitted += reply->element[0]->integer == 1;
            if (charging == TG_CHARGE_PER_AXIS && i >= 2)
                assert_int_equal(reply->element[9]->integer, -1);
            freeReplyObject(reply);
        }
        assert_int_equal(admitted, 2);
        tenant.debit.cost = 0;
        tenant.debit.charging = TG_CHARGE_ATOMIC;
        net_limits_peek(&redis, &tenant.debit, 2000009, &axes);
        assert_int_equal(axes.decision[TG_AXIS_COST].remaining, 80);
        freeReplyObject(take(&tenant, 2030000, 80, &axes, &charge));
        expect_decision("later", axes.decision[TG_AXIS_COST], ALLOWED(100, 20, 2110000));
    }
}

/* ---- the order of the reply ---- */

static void further_limiters_append_their_four(void **state)
{
    const struct tg_limit first[] = {
        limit_on(TG_AXIS_COST, "fixed_window:limit=100,window=1000"),
        limit_on(TG_AXIS_RATE, "fixed_window:limit=10,window=1000"),
    };
    const struct tg_limit second[] = {
        limit_on(TG_AXIS_RATE, "fixed_window:limit=20,window=2000"),
        limit_on(TG_AXIS_COST, "fixed_window:limit=200,window=2000"),
        limit_on(TG_AXIS_RATE, "fixed_window:limit=30,window=3000"),
    };
    const struct remote_scope scopes[] = {{SLICE("one"), SLICE("k"), first, 2},
                                          {SLICE("two"), SLICE("k"), second, 3}};
    struct remote_debit debit = {
        .root = SLICE("order"), .scopes = scopes, .n_scopes = 2, .cost = 7};
    static const int64_t wanted[] = {1, 10, 9, 3000, 0,              /* all */
                                     1, 9, 1000, 0,                  /* rate of one */
                                     1, 93, 1000, 0,                 /* cost of one */
                                     1, 19, 2000, 0, 1, 29, 3000, 0, /* rates of two */
                                     1, 193, 2000, 0};               /* cost of two */
    struct tg_axes axes;
    struct remote_charge charge;

    (void)state;
    redisReply *reply = net_limits_take(&redis, &debit, 0, &axes, &charge);
    expect_numbers("order", reply, wanted, COUNT_OF(wanted));
    freeReplyObject(reply);
    expect_decision("rate", axes.decision[TG_AXIS_RATE], ALLOWED(10, 9, 3000));
    expect_decision("cost", axes.decision[TG_AXIS_COST], ALLOWED(100, 93, 2000));
}

static void an_axis_without_a_limiter_is_minus_one(void **state)
{
    const struct tg_limit limit = limit_on(TG_AXIS_COST, "fixed_window:limit=100,window=1000");
    const struct remote_scope scope = {SLICE("cost-only"), SLICE("k"), &limit, 1};
    struct remote_debit debit = {.root = SLICE("r"), .scopes = &scope, .n_scopes = 1, .cost = 7};
    static const int64_t wanted[] = {1, 100, 93, 1000, 0, -1, -1, -1, -1, 1, 93, 1000, 0};
    struct tg_axes axes;
    struct remote_charge charge;

    (void)state;
    redisReply *reply = net_limits_take(&redis, &debit, 0, &axes, &charge);
    expect_numbers("cost", reply, wanted, 13);
    freeReplyObject(reply);
    assert_int_equal(axes.present, 1u << TG_AXIS_COST);
}

/* Two limits of one shape in one set are two states. */
static void limits_that_look_alike_count_by_themselves(void **state)
{
    const struct tg_limit limits[] = {
        limit_on(TG_AXIS_COST, "fixed_window:limit=10,window=1000"),
        limit_on(TG_AXIS_COST, "fixed_window:limit=100,window=1000"),
    };
    const struct remote_scope scope = {SLICE("alike"), SLICE("k"), limits, 2};
    struct remote_debit debit = {.root = SLICE("r"), .scopes = &scope, .n_scopes = 1, .cost = 4};
    struct tg_axes axes;
    struct remote_charge charge;

    (void)state;
    freeReplyObject(net_limits_take(&redis, &debit, 0, &axes, &charge));
    redisReply *reply = net_limits_take(&redis, &debit, 0, &axes, &charge);
    assert_int_equal(reply->element[10]->integer, 2);
    assert_int_equal(reply->element[14]->integer, 92);
    freeReplyObject(reply);
}

/* ---- replies that make no sense ---- */

static struct redisReply number(long long value)
{
    return (struct redisReply){.type = REDIS_REPLY_INTEGER, .integer = value};
}

static bool reads(struct tenant *tenant, const int64_t *numbers, size_t n)
{
    struct redisReply all[16], *pointers[16], reply = {.type = REDIS_REPLY_ARRAY};
    struct tg_axes axes;
    struct remote_charge charge;

    for (size_t i = 0; i < n; i++) {
        all[i] = number((long long)numbers[i]);
        pointers[i] = &all[i];
    }
    reply.elements = n;
    reply.element = pointers;
    tenant->debit.cost = 5;
    assert_int_equal(limits_codec_set(&redis.words, "t", &tenant->debit), TG_OK);
    return limits_codec_read(&redis.words, &redis.clock, &reply, &axes, &charge);
}

static void a_reply_that_makes_no_sense_is_none(void **state)
{
    static const int64_t good[] = {1, 5, 4, 100, 0, 1, 4, 100, 0, 1, 90, 50, 0};
    static const int64_t refused[] = {0, 5, 0, 100, 9, 0, 0, 100, 9, -1, -1, -1, -1};
    struct tenant tenant;
    int64_t bad[14];

    (void)state;
    make(&tenant, "sense", "gcra:limit=5,period=60000", "token_bucket:capacity=100,refill=10",
         TG_CHARGE_PER_AXIS);
    assert_true(reads(&tenant, good, 13));
    assert_false(reads(&tenant, good, 12));
    memcpy(bad, good, sizeof good);
    bad[13] = 0;
    assert_false(reads(&tenant, bad, 14));
    /* No number may be out of its range. */
    for (size_t i = 0; i < 13; i++) {
        memcpy(bad, good, sizeof good);
        bad[i] = -2;
        assert_false(reads(&tenant, bad, 13));
        bad[i] = TG_NUMBER_MAX + 1;
        assert_false(reads(&tenant, bad, 13));
    }
    memcpy(bad, good, sizeof good);
    bad[2] = 3; /* all together have not what the rate has */
    assert_false(reads(&tenant, bad, 13));
    memcpy(bad, good, sizeof good);
    bad[0] = 0;
    assert_false(reads(&tenant, bad, 13));
    assert_true(reads(&tenant, refused, 13));
    tenant.debit.charging = TG_CHARGE_ATOMIC; /* then cost is asked, whatever rate says */
    assert_false(reads(&tenant, refused, 13));
}

/* ---- what has been forgotten ---- */

static void a_refund_of_what_was_forgotten_does_nothing(void **state)
{
    struct tenant tenant;
    struct tg_axes axes;
    struct remote_charge charge;

    (void)state;
    make(&tenant, "forgotten", "gcra:limit=5,period=60000",
         "token_bucket:capacity=100,refill=10", TG_CHARGE_ATOMIC);
    freeReplyObject(take(&tenant, 1000, 50, &axes, &charge));
    net_redis_do(&redis.server, "FLUSHALL");
    net_limits_refund(&redis, &tenant.debit, 1000, &charge);
    net_limits_settle(&redis, &tenant.debit, 1000, &charge, 10);
    assert_int_equal(net_redis_integer(&redis.server, "DBSIZE"), 0);
}

static void debt_is_owed_by_what_was_forgotten(void **state)
{
    struct tenant tenant;
    struct tg_axes axes;
    struct remote_charge charge;

    (void)state;
    make(&tenant, "debt", "gcra:limit=5,period=60000", "token_bucket:capacity=100,refill=10",
         TG_CHARGE_ATOMIC);
    freeReplyObject(take(&tenant, 1000, 50, &axes, &charge));
    net_redis_do(&redis.server, "FLUSHALL");
    net_limits_settle(&redis, &tenant.debit, 1000, &charge, 180);
    assert_int_equal(net_redis_integer(&redis.server, "DBSIZE"), 1);
    tenant.debit.cost = 1;
    net_limits_peek(&redis, &tenant.debit, 1000, &axes);
    expect_decision("debt", axes.decision[TG_AXIS_COST], DENIED(100, 0, 14000, 3100));
}

/* ---- random sets on several scopes, and the store in memory ---- */

enum { SCOPES = 4,
       LIMITS = 3,
       CHARGES = 6 };

struct twin {
    struct draw draw;
    struct tg_store *store;
    struct tg_limit limits[SCOPES][LIMITS];
    struct tg_scope here[SCOPES];
    struct remote_scope there[SCOPES];
    char names[SCOPES][48];
    size_t n;
    tg_ms now;
    struct {
        struct tg_debit here;
        struct remote_debit there;
        struct remote_charge charge;
    } charges[CHARGES];
    size_t n_charges;
};

static struct tg_limit random_limit(struct twin *twin)
{
    bool on_cost = draw_chance(&twin->draw, 50);
    int64_t last = on_cost ? TG_STRATEGY_COUNT - 1 : TG_TOKEN_BUDGET - 1;
    struct subject subject =
        subject_random(&twin->draw, (enum tg_strategy)draw_between(&twin->draw, 0, last));
    struct tg_limit limit = {.limiter = subject.limiter,
                             .axis = on_cost ? TG_AXIS_COST : TG_AXIS_RATE};

    subject_free(&subject);
    return limit;
}

static void make_twin(struct twin *twin, uint64_t stream)
{
    memset(twin, 0, sizeof *twin);
    twin->draw = draw_stream(seed, stream);
    twin->store = must_store(MEMORY, 1);
    twin->n = (size_t)draw_between(&twin->draw, 1, SCOPES);
    twin->now = 1700000000000;
    for (size_t i = 0; i < twin->n; i++) {
        size_t n = (size_t)draw_between(&twin->draw, 1, LIMITS);
        for (size_t k = 0; k < n; k++)
            twin->limits[i][k] = random_limit(twin);
        snprintf(twin->names[i], sizeof twin->names[i], "twin%llu/%zu", (unsigned long long)stream,
                 i);
        twin->here[i] = scope_of(must_define(twin->store, twin->limits[i], n), twin->names[i]);
        twin->there[i] = (struct remote_scope){slice_of(twin->names[i]), slice_of(twin->names[i]),
                                               twin->limits[i], n};
    }
}

static void expect_same_axes(const char *where, const struct tg_axes *got,
                             const struct tg_axes *wanted)
{
    if (got->present != wanted->present)
        fail_msg("%s: axes %x instead of %x", where, got->present, wanted->present);
    for (int axis = TG_AXIS_RATE; axis <= TG_AXIS_COST; axis++)
        if (wanted->present & 1u << axis)
            expect_decision(where, got->decision[axis], wanted->decision[axis]);
}

static void take_both(struct twin *twin, const char *where)
{
    struct tg_axes wanted, got;
    struct tg_decision decision;
    struct remote_charge charge;
    size_t n = (size_t)draw_between(&twin->draw, 1, (int64_t)twin->n);
    struct tg_debit here = {.scopes = twin->here,
                            .n_scopes = n,
                            .cost = draw_magnitude(&twin->draw, 400) - 1,
                            .root = "r",
                            .root_bytes = 1,
                            .charging = draw_chance(&twin->draw, 50) ? TG_CHARGE_ATOMIC
                                                                     : TG_CHARGE_PER_AXIS};
    struct remote_debit there = {.root = SLICE("r"),
                                 .scopes = twin->there,
                                 .n_scopes = n,
                                 .cost = here.cost,
                                 .charging = here.charging};

    assert_int_equal(tg_store_take(twin->store, &here, twin->now, &decision, &wanted), TG_OK);
    redisReply *reply = net_limits_take(&redis, &there, twin->now, &got, &charge);
    expect_same_axes(where, &got, &wanted);
    assert_int_equal(reply->element[0]->integer, decision.allowed);
    assert_int_equal(reply->element[1]->integer, decision.limit);
    assert_int_equal(reply->element[2]->integer, decision.remaining);
    freeReplyObject(reply);
    if (!decision.allowed || twin->n_charges == CHARGES)
        return;
    twin->charges[twin->n_charges].here = here;
    twin->charges[twin->n_charges].there = there;
    twin->charges[twin->n_charges++].charge = charge;
}

static void end_both(struct twin *twin)
{
    size_t i = (size_t)draw_between(&twin->draw, 0, (int64_t)twin->n_charges - 1);
    const struct remote_charge *charge = &twin->charges[i].charge;
    const struct tg_debit *here = &twin->charges[i].here;
    const struct remote_debit *there = &twin->charges[i].there;

    if (draw_chance(&twin->draw, 50)) {
        assert_int_equal(tg_store_refund(twin->store, here, twin->now, charge->at), TG_OK);
        net_limits_refund(&redis, there, twin->now, charge);
    } else {
        int64_t actual = draw_chance(&twin->draw, 20) ? here->cost
                                                      : draw_magnitude(&twin->draw, 600) - 1;
        assert_int_equal(tg_store_settle(twin->store, here, twin->now, charge->at, actual), TG_OK);
        net_limits_settle(&redis, there, twin->now, charge, actual);
    }
    twin->charges[i] = twin->charges[--twin->n_charges];
}

static void random_sets_on_several_scopes_are_those_of_the_store(void **state)
{
    char where[80];

    (void)state;
    for (uint64_t stream = 0; stream < 150; stream++) {
        struct twin twin;
        make_twin(&twin, stream);
        for (int i = 0; i < 40; i++) {
            snprintf(where, sizeof where, "twin %llu, step %d, seed %llu",
                     (unsigned long long)stream, i, (unsigned long long)seed);
            twin.now += draw_chance(&twin.draw, 80) ? draw_magnitude(&twin.draw, 4000)
                                                    : -draw_magnitude(&twin.draw, 4000);
            if (draw_chance(&twin.draw, 70) || twin.n_charges == 0)
                take_both(&twin, where);
            else
                end_both(&twin);
        }
        tg_store_free(twin.store);
    }
}

/* ---- */

static int open_server(void **state)
{
    (void)state;
    seed = draw_seed("test_lua_take");
    net_limits_open(&redis);
    return 0;
}

static int close_server(void **state)
{
    (void)state;
    net_limits_close(&redis);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_fixture_by_per_axis_charging),
        cmocka_unit_test(the_published_fixture_by_atomic_charging),
        cmocka_unit_test(a_call_that_rate_refuses_leaves_its_cost_unspent),
        cmocka_unit_test(further_limiters_append_their_four),
        cmocka_unit_test(an_axis_without_a_limiter_is_minus_one),
        cmocka_unit_test(limits_that_look_alike_count_by_themselves),
        cmocka_unit_test(a_reply_that_makes_no_sense_is_none),
        cmocka_unit_test(a_refund_of_what_was_forgotten_does_nothing),
        cmocka_unit_test(debt_is_owed_by_what_was_forgotten),
        cmocka_unit_test(random_sets_on_several_scopes_are_those_of_the_store),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_server, close_server);
}
