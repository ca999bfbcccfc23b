/* test_scopes.c - from a configuration and a call's tenant, model and user: what it must clear. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "server/tenancy/scopes.h"

/* One configuration with its store, ready to be asked. */
struct world {
    struct config config;
    struct config_problems problems;
    struct tg_store *store;
    struct scopes *scopes;
    struct limit_book *book;
    struct tg_problem problem;
    enum tg_err err;
};

static void world_open(struct world *world, const char *yaml)
{
    struct tg_store_config store;

    memset(world, 0, sizeof *world);
    enum config_result result =
        config_parse(NULL, yaml, strlen(yaml), &world->config, &world->problems);
    if (result != CONFIG_READ)
        fail_msg("%s", world->problems.n > 0 ? world->problems.list[0].text : "no problem given");
    tg_store_config_init(&store);
    store.memory_bytes = (size_t)1 << 20;
    assert_int_equal(tg_store_new(&store, &world->store, &world->problem), TG_OK);
    world->book = limit_book_new(world->store);
    assert_non_null(world->book);
    world->err = scopes_new(&world->config, world->book, &world->scopes, &world->problem);
}

static void world_close(struct world *world)
{
    if (world->err == TG_OK)
        scopes_free(world->scopes);
    limit_book_free(world->book);
    tg_store_free(world->store);
    config_free(&world->config);
    config_problems_free(&world->problems);
}

/* A call, and room for what it has to clear. */
struct asked {
    struct tg_scope room[TG_SCOPES_MAX];
    struct tg_call call;
};

static struct scopes_who who(const char *tenant, const char *model, const char *user)
{
    return (struct scopes_who){
        .tenant = tenant,
        .tenant_bytes = strlen(tenant),
        .model = model,
        .model_bytes = model ? strlen(model) : 0,
        .user = user,
        .user_bytes = user ? strlen(user) : 0,
        .priority = TG_PRIORITY_NORMAL,
    };
}

static void ask(const struct world *world, const struct scopes_who *asks, struct asked *asked)
{
    tg_call_init(&asked->call);
    assert_int_equal(scopes_fill(world->scopes, asks, asked->room, &asked->call, NULL), TG_OK);
}

static size_t count(const struct world *world, const char *tenant, const char *model,
                    const char *user)
{
    struct asked asked;
    struct scopes_who asks = who(tenant, model, user);

    ask(world, &asks, &asked);
    return asked.call.debit.n_scopes;
}

static bool is_text(const void *bytes, size_t n, const char *text)
{
    return bytes && n == strlen(text) && memcmp(bytes, text, n) == 0;
}

/* What the limits of such a call leave on the rate axis after taking it at 1000; -1: refused. */
static int64_t take(const struct world *world, const char *tenant, const char *model,
                    const char *user)
{
    struct asked asked;
    struct scopes_who asks = who(tenant, model, user);
    struct tg_decision decision;
    struct tg_axes axes;

    ask(world, &asks, &asked);
    asked.call.debit.cost = 1;
    assert_int_equal(tg_store_take(world->store, &asked.call.debit, 1000, &decision, &axes), TG_OK);
    return decision.allowed ? axes.decision[TG_AXIS_RATE].remaining : -1;
}

static const char *const family =
    "gate:\n"
    "  rate: {strategy: gcra, limit: 2, period: 60s}\n"
    "  cost: {strategy: token_bucket, capacity: 100, refill: 1}\n"
    "tenants:\n"
    "  - {name: child, parent: middle, priority: low, weight: 4, value: 7,\n"
    "     rate: {strategy: gcra, limit: 10, period: 60s},\n"
    "     limits: [{rpm: 50}, {models: ['m-*', '!m-big'], rpm: 20}],\n"
    "     users: {from: 'header:u', each: {rpm: 5}}}\n"
    "  - {name: middle, parent: top, users: {from: 'header:u', each: {rpm: 8}}}\n"
    "  - {name: top, rate: {strategy: gcra, limit: 12, period: 60s}, concurrency: 3}\n"
    "  - {name: plain}\n";

static void scopes_are_those_that_hold(void **state)
{
    static const struct {
        const char *tenant, *model, *user;
        size_t n;
    } table[] = {
        {"nobody", NULL, NULL, 1}, /* the gate's */
        {"nobody", "m-1", "ann", 1},
        {"plain", NULL, NULL, 1},  /* the gate's */
        {"top", NULL, NULL, 2},    /* its rate, the gate's cost */
        {"middle", NULL, NULL, 2}, /* the gate's, top's */
        {"middle", NULL, "ann", 3},
        {"child", NULL, NULL, 4}, /* the gate's cost, its rate, its first line, top's rate */
        {"child", "m-1", NULL, 5},
        {"child", "m-big", NULL, 4},
        {"child", "x", NULL, 4},
        {"child", "m-1", "ann", 7}, /* ann of child, ann of middle */
    };
    struct world world;

    (void)state;
    world_open(&world, family);
    assert_int_equal(world.err, TG_OK);
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        size_t n = count(&world, table[i].tenant, table[i].model, table[i].user);
        if (n != table[i].n)
            fail_msg("row %zu: %zu scopes, not %zu", i, n, table[i].n);
    }
    world_close(&world);
}

static void a_call_gets_what_its_tenant_has(void **state)
{
    struct world world;
    struct asked asked;
    struct scopes_who asks = who("child", NULL, NULL);

    (void)state;
    world_open(&world, family);
    asks.peer = "other";
    asks.peer_bytes = 5;
    asks.priority = TG_PRIORITY_HIGH;
    ask(&world, &asks, &asked);
    assert_int_equal(asked.call.priority, TG_PRIORITY_LOW);
    assert_true(asked.call.weight == 4 && asked.call.value == 7);
    assert_true(is_text(asked.call.tenant, asked.call.tenant_bytes, "child"));
    assert_true(is_text(asked.call.debit.root, asked.call.debit.root_bytes, "top"));
    assert_true(is_text(asked.call.peer, asked.call.peer_bytes, "top")); /* the nearest with one */
    assert_int_equal(asked.call.peer_limit, 3);
    assert_int_equal(asked.call.debit.charging, TG_CHARGE_ATOMIC);

    asks.tenant = "nobody";
    asks.tenant_bytes = 6;
    ask(&world, &asks, &asked);
    assert_int_equal(asked.call.priority, TG_PRIORITY_HIGH); /* no ceiling */
    assert_true(asked.call.weight == 1 && asked.call.value == 1);
    assert_true(is_text(asked.call.peer, asked.call.peer_bytes, "other"));
    assert_int_equal(asked.call.peer_limit, 0);
    assert_null(asked.call.debit.root);
    world_close(&world);
}

static void a_ceiling_lowers_and_never_raises(void **state)
{
    struct world world;
    struct asked asked;
    struct scopes_who asks = who("a", NULL, NULL);

    (void)state;
    world_open(&world, "tenants: [{name: a, priority: high}]\n");
    for (int p = 0; p < TG_PRIORITY_COUNT; p++) {
        asks.priority = (enum tg_priority)p;
        ask(&world, &asks, &asked);
        assert_int_equal(asked.call.priority, p);
    }
    world_close(&world);
}

/* The rates: child 10, its line 50, top 12, each user of child 5. */
static void parents_are_debited_with_their_children(void **state)
{
    struct world world;

    (void)state;
    world_open(&world, family);
    assert_int_equal(take(&world, "child", NULL, NULL), 9);
    assert_int_equal(take(&world, "child", NULL, "ann"), 4);
    assert_int_equal(take(&world, "child", NULL, "bob"), 4);
    assert_int_equal(take(&world, "top", NULL, NULL), 8); /* the three above, and this one */
    assert_int_equal(take(&world, "child", NULL, NULL), 6);
    assert_int_equal(take(&world, "middle", NULL, NULL), 1); /* the gate's two are its own */
    assert_int_equal(take(&world, "plain", NULL, NULL), 1);
    assert_int_equal(take(&world, "nobody", NULL, NULL), 1);
    assert_int_equal(take(&world, "nobody", NULL, NULL), 0);
    assert_int_equal(take(&world, "nobody", NULL, NULL), -1);
    assert_int_equal(take(&world, "no one", NULL, NULL), 1);
    world_close(&world);
}

/* Own limits in shadow refuse nothing, those of a parent do. */
static void shadow_is_the_tenants_alone(void **state)
{
    struct world world;

    (void)state;
    world_open(&world, "tenants:\n"
                       "  - {name: a, parent: p, mode: shadow, concurrency: 1,\n"
                       "     limits: [{rpm: 1}]}\n"
                       "  - {name: p, rate: {strategy: gcra, limit: 3, period: 60s}}\n");
    assert_int_equal(take(&world, "a", NULL, NULL), 0);
    assert_int_equal(take(&world, "a", NULL, NULL), 1);
    assert_int_equal(take(&world, "a", NULL, NULL), 0);
    assert_int_equal(take(&world, "a", NULL, NULL), -1);

    struct asked asked;
    struct scopes_who asks = who("a", NULL, NULL);
    ask(&world, &asks, &asked);
    assert_non_null(asked.call.peer);
    assert_int_equal(asked.call.peer_limit, 1);
    assert_int_equal(asked.call.peer_mode, TG_SHADOW);
    world_close(&world);
}

static void without_limits_there_are_no_scopes(void **state)
{
    struct world world;

    (void)state;
    world_open(&world, "tenants: [{name: a}]\n");
    assert_int_equal(count(&world, "a", "m", "u"), 0);
    assert_int_equal(count(&world, "", NULL, NULL), 0);
    world_close(&world);
}

/* 17 lines with a pattern of the given form each; `%d` is the number of the line. */
static void open_lines(struct world *world, const char *pattern)
{
    char yaml[2000] = "tenants:\n  - name: a\n    limits:\n";

    for (int i = 0; i < TG_SCOPES_MAX + 1; i++) {
        size_t at = strlen(yaml);
        char name[40];
        snprintf(name, sizeof name, pattern, i);
        snprintf(yaml + at, sizeof yaml - at, "      - {models: ['%s'], rpm: 1}\n", name);
    }
    world_open(world, yaml);
}

static void too_many_for_one_call_are_an_error(void **state)
{
    struct world world;

    (void)state;
    open_lines(&world, "m%d");
    assert_int_equal(world.err, TG_OK);
    assert_int_equal(count(&world, "a", "m3", NULL), 1);
    world_close(&world);

    open_lines(&world, "m*%d*");
    assert_int_equal(world.err, TG_OK); /* no pattern is matched by all */
    struct asked asked;
    struct scopes_who asks = who("a", "m0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", NULL);
    tg_call_init(&asked.call);
    world.err = scopes_fill(world.scopes, &asks, asked.room, &asked.call, &world.problem);
    assert_int_equal(world.err, TG_ERR_INVALID);
    assert_non_null(strstr(world.problem.text, "17 sets"));
    world.err = TG_OK;
    world_close(&world);
}

/* ---- virtual keys ---- */

#define HASH_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HASH_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define HASH_C "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
#define HASH_D "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
#define HASH_E "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
#define HASH_F "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"

static const char *const keyed =
    "tenants:\n"
    "  - name: a\n"
    "    limits: [{rpm: 10}]\n"
    "    keys:\n"
    "      - {name: old, sha256: '" HASH_A "'}\n"
    "      - {name: ci, sha256: '" HASH_B "', limits: [{rpm: 2}, {models: [m], rpm: 1}]}\n"
    "      - {name: ci, sha256: '" HASH_C "'}\n"
    "      - {name: dev, sha256: '" HASH_D "', limits: [{rpm: 2}]}\n"
    "  - {name: child, parent: a, keys: [{name: ci, sha256: '" HASH_E "'}]}\n";

/* The same as take() with the n-th key of tenant a. */
static int64_t take_with(const struct world *world, size_t key, const char *model)
{
    struct asked asked;
    struct scopes_who asks = who("a", model, NULL);
    struct tg_decision decision;
    struct tg_axes axes;

    asks.key = &world->config.tenants[0].keys[key];
    ask(world, &asks, &asked);
    assert_int_equal(tg_store_take(world->store, &asked.call.debit, 1000, &decision, &axes), TG_OK);
    return decision.allowed ? axes.decision[TG_AXIS_RATE].remaining : -1;
}

static void a_key_has_limits_beside_its_tenants(void **state)
{
    struct world world;

    (void)state;
    world_open(&world, keyed);
    assert_int_equal(world.err, TG_OK);
    assert_int_equal(take_with(&world, 1, NULL), 1);
    assert_int_equal(take_with(&world, 2, NULL), 0); /* another secret of the same key */
    assert_int_equal(take_with(&world, 1, NULL), -1);
    assert_int_equal(take_with(&world, 3, NULL), 1); /* each key has its own */
    assert_int_equal(take_with(&world, 0, NULL), 6); /* this one has its tenant's alone: */
    assert_int_equal(take(&world, "a", NULL, NULL), 5);
    assert_int_equal(take(&world, "child", NULL, NULL), 4);
    world_close(&world);
}

static void a_line_of_a_key_is_for_its_models(void **state)
{
    struct world world;

    (void)state;
    world_open(&world, keyed);
    assert_int_equal(take_with(&world, 1, "m"), 0);
    assert_int_equal(take_with(&world, 1, "m"), -1);
    assert_int_equal(take_with(&world, 1, "n"), 0); /* what was refused has taken nothing */
    world_close(&world);
}

static void a_limit_of_a_key_says_whose_it_is(void **state)
{
    struct world world;
    struct asked asked;
    struct scopes_origin origin;
    struct scopes_who asks = who("a", "m", NULL);
    const struct config_tenant *tenant;

    (void)state;
    world_open(&world, keyed);
    tenant = &world.config.tenants[0];
    asks.key = &tenant->keys[2];
    ask(&world, &asks, &asked);
    assert_int_equal(asked.call.debit.n_scopes, 3);
    assert_string_equal(asked.room[0].kind, "key");
    assert_true(is_text(asked.room[0].key, asked.room[0].key_bytes, "ci"));
    assert_string_equal(asked.room[0].suffix, " of tenant a");
    assert_string_equal(asked.room[1].suffix, " of tenant a for m");
    assert_true(scopes_origin(world.scopes, tenant, asked.room[1].limits, &origin));
    assert_int_equal(origin.what, SCOPES_KEY);
    assert_int_equal(origin.line, 1);
    assert_ptr_equal(origin.tenant, tenant);
    assert_string_equal(origin.key->name, "ci");
    assert_true(scopes_origin(world.scopes, tenant, asked.room[2].limits, &origin));
    assert_int_equal(origin.what, SCOPES_LINE);
    assert_null(origin.key);
    world_close(&world);
}

/* A key that is read again has counted on, with another limit, in another order, with another
 * secret: its state is its tenant's and its name's. */
static void a_key_that_is_read_again_keeps_its_state(void **state)
{
    struct world world, next;
    struct scopes *before;

    (void)state;
    world_open(&world, keyed);
    assert_int_equal(take_with(&world, 1, NULL), 1);
    assert_int_equal(take_with(&world, 1, NULL), 0);
    before = world.scopes;
    static const char *const yaml =
        "tenants:\n"
        "  - {name: a, keys: [{name: dev, sha256: '" HASH_D "'},\n"
        "      {name: ci, sha256: '" HASH_F "', limits: [{rpm: 3}]}]}\n";
    next = world;
    assert_int_equal(config_parse(NULL, yaml, strlen(yaml), &next.config, &next.problems),
                     CONFIG_READ);
    assert_int_equal(scopes_new(&next.config, next.book, &next.scopes, &next.problem), TG_OK);
    assert_int_equal(limit_book_apply(next.book, 1000, &next.problem), TG_OK);
    assert_int_equal(take_with(&next, 1, NULL), 0);
    assert_int_equal(take_with(&next, 1, NULL), -1);
    scopes_free(before);
    config_free(&world.config);
    config_problems_free(&world.problems);
    world_close(&next);
}

static void the_gate_is_as_configured(void **state)
{
    struct world world;
    struct tg_gate_config gate;

    (void)state;
    world_open(&world, "gate:\n"
                       "  charging: per-axis\n"
                       "  lease_ttl: 5s\n"
                       "  concurrency: {law: aimd, initial: 9, min: 2, max: 30, mode: shadow}\n"
                       "  queue: {size: 7, wait: {high: 3ms, normal: 2ms, low: 1ms},\n"
                       "          shares: {normal: 0.3, low: 0.1}}\n"
                       "  low_priority_shed_ratio: 0.25\n"
                       "  peers: {limit: 5, max_peers: 6, mode: shadow}\n"
                       "  memory: {pressure: 0.5, critical: 0.6, limit: 0.7}\n");
    scopes_gate_config(&world.config.gate, &gate);
    assert_int_equal(gate.lease_ttl, 5000);
    assert_true(gate.concurrency.on && gate.concurrency.mode == TG_SHADOW);
    assert_int_equal(gate.concurrency.law.law, TG_LAW_AIMD);
    assert_int_equal(gate.concurrency.law.initial, 9);
    assert_int_equal(gate.concurrency.queue_size, 7);
    assert_int_equal(gate.concurrency.wait[TG_PRIORITY_HIGH], 3);
    assert_int_equal(gate.concurrency.wait[TG_PRIORITY_LOW], 1);
    assert_true(gate.concurrency.share[TG_PRIORITY_NORMAL] == 0.3);
    assert_true(gate.concurrency.share[TG_PRIORITY_LOW] == 0.1);
    assert_true(gate.concurrency.low_ratio == 0.25);
    assert_true(gate.peers.on && gate.peers.mode == TG_SHADOW);
    assert_int_equal(gate.peers.limit, 5);
    assert_int_equal(gate.peers.max_peers, 6);
    assert_true(gate.memory.on && gate.memory.mode == TG_ENFORCE);
    assert_true(gate.memory.pressure == 0.5 && gate.memory.critical == 0.6);
    assert_true(gate.memory.limit == 0.7);
    world_close(&world);

    world_open(&world, "gate: {}\n");
    scopes_gate_config(&world.config.gate, &gate);
    assert_false(gate.concurrency.on || gate.peers.on || gate.memory.on);
    assert_int_equal(gate.lease_ttl, 600000);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_limits_beside_its_tenants),
        cmocka_unit_test(a_line_of_a_key_is_for_its_models),
        cmocka_unit_test(a_limit_of_a_key_says_whose_it_is),
        cmocka_unit_test(a_key_that_is_read_again_keeps_its_state),
        cmocka_unit_test(scopes_are_those_that_hold),
        cmocka_unit_test(a_call_gets_what_its_tenant_has),
        cmocka_unit_test(a_ceiling_lowers_and_never_raises),
        cmocka_unit_test(parents_are_debited_with_their_children),
        cmocka_unit_test(shadow_is_the_tenants_alone),
        cmocka_unit_test(without_limits_there_are_no_scopes),
        cmocka_unit_test(too_many_for_one_call_are_an_error),
        cmocka_unit_test(the_gate_is_as_configured),
    };

    return cmocka_run_group_tests_name("scopes", tests, NULL, NULL);
}
