/* test_store_threads.c - any number of threads on one store: exact counts, whatever the order.
 *
 * Time is an argument, so the threads agree on it. What they disagree on is who comes first: the
 * sum must not depend on that. Meant for ThreadSanitizer, and useful without it.
 */
#include <stdatomic.h>

#include "crew.h"
#include "draw.h"
#include "keyed.h"

#define MEMORY ((size_t)1 << 20)
#define ROUNDS 100
#define LIMIT 50    /* units that the key of a round has */
#define ATTEMPTS 30 /* calls of each thread in a round */
#define LASTING "fixed_window:limit=50,window=86400000"

static const size_t crews[] = {2, 4, 8};
static uint64_t seed;

/* What a crew works on, and what it counts. */
struct shop {
    struct tg_store *store;
    tg_limits sets[2];
    atomic_long admitted[ROUNDS];
    atomic_long errors;
    atomic_long clock; /* pushed on by all threads, where time matters */
};

static void shop_init(struct shop *shop, size_t memory_bytes, uint32_t shards)
{
    shop->store = must_store(memory_bytes, shards);
    for (size_t i = 0; i < ROUNDS; i++)
        atomic_init(&shop->admitted[i], 0);
    atomic_init(&shop->errors, 0);
    atomic_init(&shop->clock, 0);
}

static void note_error(struct shop *shop, bool wrong)
{
    if (wrong)
        atomic_fetch_add(&shop->errors, 1);
}

/* Takes, and counts what came of it. */
static bool attempt(struct shop *shop, const struct tg_debit *debit, size_t round)
{
    struct tg_decision decision = {.allowed = false};
    enum tg_err err = tg_store_take(shop->store, debit, 1000, &decision, NULL);

    note_error(shop, err != TG_OK);
    if (decision.allowed)
        atomic_fetch_add(&shop->admitted[round], 1);
    return decision.allowed;
}

/* After the work: no errors, and in every round exactly `want` were admitted. */
static void expect_admitted(struct shop *shop, long want)
{
    assert_int_equal(atomic_load(&shop->errors), 0);
    for (size_t i = 0; i < ROUNDS; i++)
        assert_int_equal(atomic_load(&shop->admitted[i]), want);
}

/* ---- one key ---- */

static void take_one_key(void *context, size_t i, size_t round)
{
    struct shop *shop = context;
    struct numbered_key key = numbered_key(round);
    struct tg_scope scope = scope_of(shop->sets[0], key.text);
    struct tg_debit debit = debit_of(&scope, 1);
    (void)i;

    for (int n = 0; n < ATTEMPTS; n++)
        (void)attempt(shop, &debit, round);
}

static void threads_on_one_key_admit_exactly_its_limit(void **state)
{
    static const char *const specs[] = {LASTING, "gcra:limit=50,period=86400000",
                                        "sliding_log:limit=50,window=86400000"};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(specs) * COUNT_OF(crews); i++) {
        struct shop shop;
        shop_init(&shop, MEMORY, 0);
        shop.sets[0] = must_define_one(shop.store, TG_AXIS_RATE, specs[i / COUNT_OF(crews)]);
        crew_run(crews[i % COUNT_OF(crews)], ROUNDS, take_one_key, &shop);
        expect_admitted(&shop, LIMIT);
        tg_store_free(shop.store);
    }
}

/* ---- two limits of one key ---- */

/* Half of the threads also peek: a peek must not be in the way of a count. */
static void take_two_limits(void *context, size_t i, size_t round)
{
    struct shop *shop = context;
    struct numbered_key key = numbered_key(round);
    struct tg_scope scope = scope_of(shop->sets[0], key.text);
    struct tg_debit debit = debit_of(&scope, 2);

    for (int n = 0; n < ATTEMPTS; n++) {
        struct tg_decision decision;
        struct tg_axes axes;
        if (i % 2 == 0)
            note_error(shop, tg_store_peek(shop->store, &debit, 1000, &decision, &axes) != TG_OK);
        (void)attempt(shop, &debit, round);
    }
}

/* What both axes have left for the next call, which costs nothing but a unit of rate. */
static void expect_axes_left(struct shop *shop, size_t round, int64_t rate, int64_t cost)
{
    struct numbered_key key = numbered_key(round);
    struct tg_scope scope = scope_of(shop->sets[0], key.text);
    struct tg_debit none = debit_of(&scope, 0);
    struct tg_decision decision;
    struct tg_axes axes;

    assert_int_equal(tg_store_peek(shop->store, &none, 1000, &decision, &axes), TG_OK);
    assert_int_equal(axes.decision[TG_AXIS_RATE].remaining, rate - 1);
    assert_int_equal(axes.decision[TG_AXIS_COST].remaining, cost);
}

/* Rate 50 and cost 60 at 2 a call: cost binds at 30, and rate must show 30 spent, no more. */
static void two_limits_are_debited_together_by_threads(void **state)
{
    const struct tg_limit limits[] = {
        limit_on(TG_AXIS_RATE, LASTING),
        limit_on(TG_AXIS_COST, "token_bucket:capacity=60,refill=0.000001")};
    (void)state;

    for (size_t c = 0; c < COUNT_OF(crews); c++) {
        struct shop shop;
        shop_init(&shop, MEMORY, 0);
        shop.sets[0] = must_define(shop.store, limits, 2);
        crew_run(crews[c], ROUNDS, take_two_limits, &shop);
        expect_admitted(&shop, 30);
        for (size_t i = 0; i < ROUNDS; i++)
            expect_axes_left(&shop, i, LIMIT - 30, 0);
        tg_store_free(shop.store);
    }
}

/* ---- two scopes of one root ---- */

/* Each thread has a child of its own, with room for all it asks; the parent has room for 50. */
static void take_child_and_parent(void *context, size_t i, size_t round)
{
    struct shop *shop = context;
    struct numbered_key parent = numbered_key(round);
    struct numbered_key child = numbered_key(round * CREW_MAX + i);
    struct tg_scope scopes[] = {scope_of(shop->sets[0], child.text),
                                scope_of(shop->sets[1], parent.text)};
    struct tg_debit debit = {scopes, 2, 1, parent.text, NUMBERED_KEY_BYTES, TG_CHARGE_ATOMIC};
    struct tg_debit peek = {scopes, 1, 0, parent.text, NUMBERED_KEY_BYTES, TG_CHARGE_ATOMIC};
    struct tg_decision decision = {.remaining = 0};
    long mine = 0;

    for (int n = 0; n < ATTEMPTS; n++)
        mine += attempt(shop, &debit, round);

    /* The child was charged for what was admitted, and for nothing else. */
    note_error(shop, tg_store_peek(shop->store, &peek, 1000, &decision, NULL) != TG_OK);
    note_error(shop, decision.remaining != ATTEMPTS - mine);
}

static void two_scopes_of_one_root_are_debited_together_by_threads(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT_OF(crews); c++) {
        struct shop shop;
        shop_init(&shop, MEMORY, 0);
        shop.sets[0] =
            must_define_one(shop.store, TG_AXIS_COST, "fixed_window:limit=30,window=86400000");
        shop.sets[1] = must_define_one(shop.store, TG_AXIS_COST, LASTING);
        crew_run(crews[c], ROUNDS, take_child_and_parent, &shop);
        expect_admitted(&shop, LIMIT);
        tg_store_free(shop.store);
    }
}

/* ---- giving back ---- */

static void take_and_give_back(void *context, size_t i, size_t round)
{
    struct shop *shop = context;
    struct numbered_key key = numbered_key(round);
    struct tg_scope scope = scope_of(shop->sets[0], key.text);
    struct tg_debit debit = debit_of(&scope, 3);

    for (size_t n = 0; n < ATTEMPTS; n++) {
        if (!attempt(shop, &debit, round))
            continue;
        enum tg_err err = (i + n) % 2 == 0 ? tg_store_refund(shop->store, &debit, 1000, 1000)
                                           : tg_store_settle(shop->store, &debit, 1000, 1000, 0);
        note_error(shop, err != TG_OK);
    }
}

static void what_threads_take_and_give_back_leaves_the_whole_limit(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT_OF(crews); c++) {
        struct shop shop;
        shop_init(&shop, MEMORY, 0);
        shop.sets[0] = must_define_one(shop.store, TG_AXIS_COST, LASTING);
        crew_run(crews[c], ROUNDS, take_and_give_back, &shop);
        assert_int_equal(atomic_load(&shop.errors), 0);
        for (size_t i = 0; i < ROUNDS; i++) {
            struct numbered_key key = numbered_key(i);
            assert_int_equal(must_peek(shop.store, shop.sets[0], key.text, 0, 1000).remaining,
                             LIMIT);
        }
        tg_store_free(shop.store);
    }
}

/* ---- many keys, and not enough memory for them ---- */

#define FLOOD 30 /* calls in a round */
#define STAYING 20
#define SMALL ((size_t)64 * 1024)

/* A call for a key that stays. It has its place, so there is no excuse. */
static void take_staying(struct shop *shop, struct draw *draw, tg_ms now)
{
    struct tg_decision decision = {.allowed = false};
    uint64_t number = (uint64_t)draw_between(draw, 0, STAYING - 1);

    note_error(shop, take_numbered(shop->store, shop->sets[1], number, 1, now, &decision) != TG_OK);
    if (decision.allowed)
        atomic_fetch_add(&shop->admitted[0], 1);
}

/* Short-lived keys in masses, and among them those that stay: these must lose nothing. */
static void flood(void *context, size_t i, size_t round)
{
    struct shop *shop = context;
    struct draw draw = draw_stream(seed, round * CREW_MAX + i);
    struct tg_store_stats stats;
    tg_ms now = 0;

    for (int n = 0; n < FLOOD; n++) {
        struct tg_decision decision;
        now = 1000 + atomic_fetch_add(&shop->clock, 1) / 8;
        enum tg_err err =
            take_numbered(shop->store, shop->sets[0], draw_bits(&draw), 1, now, &decision);
        note_error(shop, err != TG_OK && err != TG_ERR_FULL);
        if (n % 10 == 0)
            take_staying(shop, &draw, now);
    }
    if (round % 16 == i)
        (void)tg_store_sweep(shop->store, now);
    tg_store_get_stats(shop->store, &stats);
    note_error(shop, stats.memory_bytes > SMALL);
}

static long spent_by_staying(struct shop *shop, tg_ms now)
{
    long spent = 0;

    for (uint64_t k = 0; k < STAYING; k++) {
        struct numbered_key key = numbered_key(k);
        struct tg_decision decision = must_peek(shop->store, shop->sets[1], key.text, 0, now);
        /* On the rate axis a peek shows what one more call would leave. */
        spent += decision.allowed ? LIMIT - 1 - (long)decision.remaining : LIMIT;
    }
    return spent;
}

static void live_keys_lose_nothing_while_others_are_forgotten(void **state)
{
    static const char *const passing[] = {"gcra:limit=100,period=1000",
                                          "sliding_log:limit=5,window=10"};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(passing) * COUNT_OF(crews); i++) {
        struct shop shop;
        shop_init(&shop, SMALL, 4);
        shop.sets[0] = must_define_one(shop.store, TG_AXIS_RATE, passing[i / COUNT_OF(crews)]);
        shop.sets[1] = must_define_one(shop.store, TG_AXIS_RATE, LASTING);
        for (uint64_t k = 0; k < STAYING; k++) { /* they are there before it is crowded */
            struct tg_decision decision;
            assert_int_equal(take_numbered(shop.store, shop.sets[1], k, 1, 1000, &decision), TG_OK);
        }
        crew_run(crews[i % COUNT_OF(crews)], ROUNDS, flood, &shop);
        assert_int_equal(atomic_load(&shop.errors), 0);
        assert_int_equal(spent_by_staying(&shop, 100000), atomic_load(&shop.admitted[0]) + STAYING);
        assert_true(stats_of(shop.store).forgotten > 0);
        tg_store_free(shop.store);
    }
}

/* ---- batches, and sets that are defined while others take ---- */

#define BATCH 16
#define BATCH_KEYS 4

static void take_batch(struct shop *shop, size_t round)
{
    struct numbered_key keys[BATCH];
    struct tg_scope scopes[BATCH];
    struct tg_debit debits[BATCH];
    struct tg_decision decisions[BATCH];
    enum tg_err errs[BATCH];

    for (size_t k = 0; k < BATCH; k++) {
        keys[k] = numbered_key(round * BATCH_KEYS + k % BATCH_KEYS);
        scopes[k] = scope_of(shop->sets[0], keys[k].text);
        debits[k] = debit_of(&scopes[k], 1);
    }
    tg_store_take_many(shop->store, debits, BATCH, 1000, decisions, errs);
    for (size_t k = 0; k < BATCH; k++) {
        note_error(shop, errs[k] != TG_OK);
        if (errs[k] == TG_OK && decisions[k].allowed)
            atomic_fetch_add(&shop->admitted[round], 1);
    }
}

#define STORES 20
#define SETS_MORE 100

/* The first thread defines, since only one at a time may; the others take. */
static void define_or_take(void *context, size_t i, size_t round)
{
    struct shop *shop = context;

    if (i > 0) {
        for (int n = 0; n < 2 * ATTEMPTS; n++)
            take_batch(shop, round);
        return;
    }
    struct tg_limit limit = limit_on(TG_AXIS_RATE, LASTING);
    tg_limits set;
    for (int n = 0; n < SETS_MORE; n++)
        note_error(shop, tg_store_define(shop->store, &limit, 1, &set, NULL) != TG_OK);
}

/* The sets of a store outgrow their place only a few times: so many stores are tried. */
static void batches_admit_exactly_the_limit_while_sets_are_defined(void **state)
{
    (void)state;
    for (int i = 0; i < STORES; i++) {
        struct shop shop;
        shop_init(&shop, MEMORY, 0);
        shop.sets[0] = must_define_one(shop.store, TG_AXIS_RATE, LASTING);
        crew_run(4, 1, define_or_take, &shop);
        assert_int_equal(atomic_load(&shop.errors), 0);
        assert_int_equal(atomic_load(&shop.admitted[0]), BATCH_KEYS * LIMIT);
        tg_store_free(shop.store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_on_one_key_admit_exactly_its_limit),
        cmocka_unit_test(two_limits_are_debited_together_by_threads),
        cmocka_unit_test(two_scopes_of_one_root_are_debited_together_by_threads),
        cmocka_unit_test(what_threads_take_and_give_back_leaves_the_whole_limit),
        cmocka_unit_test(live_keys_lose_nothing_while_others_are_forgotten),
        cmocka_unit_test(batches_admit_exactly_the_limit_while_sets_are_defined),
    };
    seed = draw_seed("test_store_threads");
    return cmocka_run_group_tests_name("store_threads", tests, NULL, NULL);
}
