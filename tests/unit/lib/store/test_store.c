/* test_store.c - what a store decides: one limit as the bare limiter would, several limits and
 * several scopes all or nothing; and what it does not accept. */
#include <string.h>

#include "keyed.h"
#include "subject.h"

#define MEMORY ((size_t)1 << 20)
#define TEN_A_SECOND "fixed_window:limit=10,window=1000"
#define HUNDRED_A_SECOND "fixed_window:limit=100,window=1000"
#define KEY "tenant-a"

/* ---- one limit ---- */

static const char *const specs[] = {
    "gcra:limit=10,period=1000,burst=5",
    "token_bucket:capacity=10,refill=125",
    "fixed_window:limit=10,window=1000",
    "sliding_window:limit=10,window=1000,buckets=10",
    "sliding_log:limit=10,window=1000",
    "token_budget:budget=10,window=1000",
};

static void expect_same(struct tg_store *store, tg_limits set, const struct subject *bare,
                        tg_ms now)
{
    for (int64_t cost = 0; cost < 12; cost++)
        expect_decision(subject_text(bare).text, must_peek(store, set, KEY, cost, now),
                        subject_peek(bare, now, cost));
}

static void live_with(struct tg_store *store, tg_limits set, struct subject *bare)
{
    static const struct {
        tg_ms now;
        int64_t cost;
    } calls[] = {{1000, 3}, {1000, 1}, {1001, 9}, {1010, 1}, {1500, 4}, {1999, 0}, {2000, 2}};

    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        expect_same(store, set, bare, calls[i].now);
        expect_decision("take", must_take(store, set, KEY, calls[i].cost, calls[i].now),
                        subject_take(bare, calls[i].now, calls[i].cost));
        expect_same(store, set, bare, calls[i].now);
    }
    must_refund(store, set, KEY, 2, 2001, 2000);
    subject_refund(bare, 2001, (struct tg_charge){2000, 2}, 2);
    expect_same(store, set, bare, 2001);
    must_take(store, set, KEY, 1, 2002);
    subject_take(bare, 2002, 1);
    must_settle(store, set, KEY, 1, 2003, 2002, 8);
    subject_settle(bare, 2003, (struct tg_charge){2002, 1}, 8);
    expect_same(store, set, bare, 2003);
    expect_same(store, set, bare, 2900);
}

static void a_key_with_one_limit_answers_as_the_bare_limiter(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct tg_store *store = must_store(MEMORY, 0);
        struct tg_limiter limiter = limiter_of(specs[i]);
        struct subject bare = subject_new(&limiter);
        live_with(store, must_define_one(store, TG_AXIS_COST, specs[i]), &bare);
        subject_free(&bare);
        tg_store_free(store);
    }
}

static void the_rate_axis_takes_one_and_the_cost_axis_the_cost(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    tg_limits rate = must_define_one(store, TG_AXIS_RATE, TEN_A_SECOND);
    tg_limits cost = must_define_one(store, TG_AXIS_COST, TEN_A_SECOND);
    (void)state;

    expect_decision("rate", must_take(store, rate, KEY, 7, 1000), ALLOWED(10, 9, 2000));
    expect_decision("cost", must_take(store, cost, KEY, 7, 1000), ALLOWED(10, 3, 2000));
    expect_decision("rate", must_take(store, rate, KEY, 0, 1000), ALLOWED(10, 8, 2000));
    expect_decision("cost", must_take(store, cost, KEY, 0, 1000), ALLOWED(10, 3, 2000));
    tg_store_free(store);
}

static void settling_is_for_the_cost_axis_alone(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    tg_limits rate = must_define_one(store, TG_AXIS_RATE, TEN_A_SECOND);
    (void)state;

    must_take(store, rate, KEY, 5, 1000);
    must_settle(store, rate, KEY, 5, 1001, 1000, 0);
    expect_decision("less", must_peek(store, rate, KEY, 1, 1001), ALLOWED(10, 8, 2000));
    must_settle(store, rate, KEY, 5, 1001, 1000, 50);
    expect_decision("more", must_peek(store, rate, KEY, 1, 1001), ALLOWED(10, 8, 2000));
    tg_store_free(store);
}

static void a_refund_gives_back_on_both_axes(void **state)
{
    const struct tg_limit limits[] = {limit_on(TG_AXIS_RATE, TEN_A_SECOND),
                                      limit_on(TG_AXIS_COST, HUNDRED_A_SECOND)};
    struct tg_store *store = must_store(MEMORY, 0);
    tg_limits set = must_define(store, limits, 2);
    struct tg_scope scope = scope_of(set, KEY);
    struct tg_debit debit = debit_of(&scope, 40), none = debit_of(&scope, 0);
    struct tg_decision decision;
    struct tg_axes axes;
    (void)state;

    assert_int_equal(tg_store_take(store, &debit, 1000, &decision, NULL), TG_OK);
    assert_int_equal(tg_store_refund(store, &debit, 1001, 1000), TG_OK);
    assert_int_equal(tg_store_peek(store, &none, 1001, &decision, &axes), TG_OK);
    expect_decision("rate", axes.decision[TG_AXIS_RATE], ALLOWED(10, 9, 2000));
    expect_decision("cost", axes.decision[TG_AXIS_COST], ALLOWED(100, 100, 2000));
    tg_store_free(store);
}

/* ---- several limits ---- */

static void limits_of_one_key_are_debited_together_or_not_at_all(void **state)
{
    const struct tg_limit limits[] = {limit_on(TG_AXIS_RATE, TEN_A_SECOND),
                                      limit_on(TG_AXIS_COST, HUNDRED_A_SECOND)};
    struct tg_store *store = must_store(MEMORY, 0);
    tg_limits set = must_define(store, limits, 2);
    (void)state;

    /* The combination: least of limit and remaining. */
    expect_decision("both", must_take(store, set, KEY, 60, 1000), ALLOWED(10, 9, 2000));
    expect_decision("cost refuses", must_take(store, set, KEY, 60, 1100),
                    DENIED(10, 9, 2000, 900));
    expect_decision("rate was not charged", must_peek(store, set, KEY, 0, 1100),
                    ALLOWED(10, 8, 2000));
    for (int i = 0; i < 9; i++)
        assert_true(must_take(store, set, KEY, 1, 1100).allowed);
    expect_decision("rate refuses", must_take(store, set, KEY, 1, 1200), DENIED(10, 0, 2000, 800));
    expect_decision("cost was not charged", must_take(store, set, KEY, 31, 2000),
                    ALLOWED(10, 9, 3000));
    tg_store_free(store);
}

static void as_many_limits_as_a_set_may_have_all_count(void **state)
{
    struct tg_limit limits[TG_LIMITS_MAX];
    struct tg_store *store = must_store(MEMORY, 0);
    (void)state;

    for (size_t i = 0; i < TG_LIMITS_MAX; i++)
        limits[i] = limit_on(TG_AXIS_COST, specs[i % COUNT_OF(specs)]);
    tg_limits set = must_define(store, limits, TG_LIMITS_MAX);
    expect_decision("all", must_take(store, set, KEY, 2, 1000), ALLOWED(5, 3, 2100));
    expect_decision("the strictest binds", must_take(store, set, KEY, 4, 1000),
                    DENIED(5, 3, 2100, 100));
    expect_decision("none was charged", must_take(store, set, KEY, 3, 1000),
                    ALLOWED(5, 0, 2100));
    tg_store_free(store);
}

/* ---- several scopes ---- */

struct family {
    struct tg_store *store;
    tg_limits parent_set, child_set;
    struct tg_scope scopes[2];
    struct tg_debit debit;
};

/* A parent with 10 and children with `child` units a second, all of the parent's root. */
static void family_init(struct family *family, const char *child)
{
    family->store = must_store(MEMORY, 16);
    family->parent_set = must_define_one(family->store, TG_AXIS_COST, TEN_A_SECOND);
    family->child_set = must_define_one(family->store, TG_AXIS_COST, child);
    family->scopes[0] = scope_of(family->child_set, "child");
    family->scopes[1] = scope_of(family->parent_set, "parent");
    family->debit = (struct tg_debit){.scopes = family->scopes,
                                      .n_scopes = 2,
                                      .root = "parent",
                                      .root_bytes = strlen("parent")};
}

static struct tg_decision family_take(struct family *family, const char *child, int64_t cost,
                                      tg_ms now)
{
    struct tg_decision decision = {.allowed = false};

    family->scopes[0] = scope_of(family->child_set, child);
    family->debit.cost = cost;
    assert_int_equal(tg_store_take(family->store, &family->debit, now, &decision, NULL), TG_OK);
    return decision;
}

/* What one scope has, alone, under the root of the family. */
static struct tg_decision family_peek(struct family *family, tg_limits set, const char *key,
                                      tg_ms now)
{
    struct tg_scope scope = scope_of(set, key);
    struct tg_debit debit = {.scopes = &scope, .n_scopes = 1, .root = "parent", .root_bytes = 6};
    struct tg_decision decision = {.allowed = false};

    assert_int_equal(tg_store_peek(family->store, &debit, now, &decision, NULL), TG_OK);
    return decision;
}

static void scopes_of_one_root_are_debited_together_or_not_at_all(void **state)
{
    struct family family;
    (void)state;

    family_init(&family, "fixed_window:limit=6,window=1000");
    expect_decision("both", family_take(&family, "a", 4, 1000), ALLOWED(6, 2, 2000));
    expect_decision("the child refuses", family_take(&family, "a", 3, 1000),
                    DENIED(6, 2, 2000, 1000));
    expect_decision("the parent was not charged",
                    family_peek(&family, family.parent_set, "parent", 1000), ALLOWED(10, 6, 2000));
    expect_decision("another child", family_take(&family, "b", 6, 1000), ALLOWED(6, 0, 2000));
    expect_decision("the parent refuses", family_take(&family, "c", 1, 1000),
                    DENIED(6, 0, 2000, 1000));
    expect_decision("the child was not charged",
                    family_peek(&family, family.child_set, "c", 1000), ALLOWED(6, 6, 2000));
    tg_store_free(family.store);
}

static void each_scope_gets_back_on_a_refund(void **state)
{
    struct family family;
    (void)state;

    family_init(&family, "fixed_window:limit=6,window=1000");
    family_take(&family, "a", 4, 1000);
    family_take(&family, "a", 2, 1000);
    family.debit.cost = 4;
    assert_int_equal(tg_store_refund(family.store, &family.debit, 1001, 1000), TG_OK);
    expect_decision("child", family_peek(&family, family.child_set, "a", 1001),
                    ALLOWED(6, 4, 2000));
    expect_decision("parent", family_peek(&family, family.parent_set, "parent", 1001),
                    ALLOWED(10, 8, 2000));
    tg_store_free(family.store);
}

static void each_scope_is_settled(void **state)
{
    struct family family;
    (void)state;

    family_init(&family, "fixed_window:limit=6,window=1000");
    family_take(&family, "a", 4, 1000);
    assert_int_equal(tg_store_settle(family.store, &family.debit, 1001, 1000, 1), TG_OK);
    expect_decision("child", family_peek(&family, family.child_set, "a", 1001),
                    ALLOWED(6, 5, 2000));
    expect_decision("parent", family_peek(&family, family.parent_set, "parent", 1001),
                    ALLOWED(10, 9, 2000));
    family_take(&family, "a", 1, 1000);
    assert_int_equal(tg_store_settle(family.store, &family.debit, 1001, 1000, 9), TG_OK);
    expect_decision("child in debt", family_peek(&family, family.child_set, "a", 1001),
                    ALLOWED(6, 0, 2000));
    expect_decision("parent", family_peek(&family, family.parent_set, "parent", 1001),
                    ALLOWED(10, 0, 2000));
    tg_store_free(family.store);
}

static void as_many_scopes_as_a_debit_may_have_all_count(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    tg_limits set = must_define_one(store, TG_AXIS_COST, TEN_A_SECOND);
    struct numbered_key keys[TG_SCOPES_MAX];
    struct tg_scope scopes[TG_SCOPES_MAX];
    struct tg_debit debit = {scopes, TG_SCOPES_MAX, 4, "root", 4, TG_CHARGE_ATOMIC};
    struct tg_decision decision;
    (void)state;

    for (size_t i = 0; i < TG_SCOPES_MAX; i++) {
        keys[i] = numbered_key(i);
        scopes[i] = scope_of(set, keys[i].text);
    }
    for (int64_t left = 6; left >= 2; left -= 4) {
        assert_int_equal(tg_store_take(store, &debit, 1000, &decision, NULL), TG_OK);
        expect_decision("all", decision, ALLOWED(10, left, 2000));
    }
    assert_int_equal(tg_store_take(store, &debit, 1000, &decision, NULL), TG_OK);
    expect_decision("refused", decision, DENIED(10, 2, 2000, 1000));
    assert_int_equal(stats_of(store).keys, TG_SCOPES_MAX);
    tg_store_free(store);
}

/* ---- entries ---- */

static void a_peek_makes_no_key(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    tg_limits set = must_define_one(store, TG_AXIS_COST, TEN_A_SECOND);
    (void)state;

    for (uint64_t i = 0; i < 100; i++) {
        struct numbered_key key = numbered_key(i);
        expect_decision("fresh", must_peek(store, set, key.text, 3, 1000), ALLOWED(10, 7, 2000));
    }
    assert_int_equal(stats_of(store).keys, 0);
    tg_store_free(store);
}

static void a_call_that_is_refused_or_free_makes_no_key(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    tg_limits set = must_define_one(store, TG_AXIS_COST, TEN_A_SECOND);
    (void)state;

    assert_false(must_take(store, set, "refused", 11, 1000).allowed);
    assert_true(must_take(store, set, "free", 0, 1000).allowed);
    must_refund(store, set, "refunded", 5, 1000, 1000);
    must_settle(store, set, "settled", 5, 1000, 1000, 1);
    assert_int_equal(stats_of(store).keys, 0);
    assert_true(must_take(store, set, "charged", 1, 1000).allowed);
    assert_int_equal(stats_of(store).keys, 1);
    tg_store_free(store);
}

static void the_same_key_under_two_sets_is_two_entries(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    tg_limits one = must_define_one(store, TG_AXIS_COST, TEN_A_SECOND);
    tg_limits two = must_define_one(store, TG_AXIS_COST, TEN_A_SECOND);
    (void)state;

    assert_int_not_equal(one, two);
    expect_decision("one", must_take(store, one, KEY, 10, 1000), ALLOWED(10, 0, 2000));
    expect_decision("two", must_take(store, two, KEY, 4, 1000), ALLOWED(10, 6, 2000));
    expect_decision("one", must_take(store, one, KEY, 1, 1000), DENIED(10, 0, 2000, 1000));
    assert_int_equal(stats_of(store).keys, 2);
    tg_store_free(store);
}

static void many_sets_can_be_defined(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    tg_limits sets[300];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(sets); i++) {
        sets[i] = must_define_one(store, TG_AXIS_COST, TEN_A_SECOND);
        must_take(store, sets[i], KEY, (int64_t)(i % 10), 1000);
    }
    for (size_t i = 0; i < COUNT_OF(sets); i++)
        expect_decision("look", must_peek(store, sets[i], KEY, 0, 1000),
                        ALLOWED(10, 10 - (int64_t)(i % 10), 2000));
    tg_store_free(store);
}

#define KEY_BYTES_MAX 1000

/* Keys of every length, each different from the others in its length or its last byte alone. */
static void a_key_may_hold_any_bytes_of_any_length(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    tg_limits set = must_define_one(store, TG_AXIS_COST, TEN_A_SECOND);
    unsigned char bytes[KEY_BYTES_MAX] = {0};
    struct tg_decision decision;
    (void)state;

    for (size_t n = 0; n <= KEY_BYTES_MAX; n++) {
        for (int last = 0; last < (n > 0 ? 2 : 1); last++) {
            struct tg_scope scope = {.limits = set, .key = bytes, .key_bytes = n};
            struct tg_debit debit = debit_of(&scope, 4);
            if (n > 0)
                bytes[n - 1] = last ? 0xFF : 0;
            assert_int_equal(tg_store_take(store, &debit, 1000, &decision, NULL), TG_OK);
            expect_decision("first", decision, ALLOWED(10, 6, 2000));
            assert_int_equal(tg_store_take(store, &debit, 1000, &decision, NULL), TG_OK);
            expect_decision("second", decision, ALLOWED(10, 2, 2000));
        }
        if (n > 0)
            bytes[n - 1] = 0;
    }
    assert_int_equal(stats_of(store).keys, 1 + 2 * KEY_BYTES_MAX);
    tg_store_free(store);
}

static void a_key_without_bytes_may_be_null(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    struct tg_scope null = {.limits = must_define_one(store, TG_AXIS_COST, TEN_A_SECOND)};
    struct tg_debit debit = debit_of(&null, 4);
    struct tg_decision decision;
    (void)state;

    assert_int_equal(tg_store_take(store, &debit, 1000, &decision, NULL), TG_OK);
    expect_decision("the empty key", must_take(store, null.limits, "", 1, 1000),
                    ALLOWED(10, 5, 2000));
    tg_store_free(store);
}

/* ---- many at once ---- */

#define BATCH 1000

static void a_batch_answers_as_single_takes_do(void **state)
{
    struct tg_store *single = must_store(MEMORY, 0), *batched = must_store(MEMORY, 0);
    tg_limits set = must_define_one(single, TG_AXIS_COST, TEN_A_SECOND);
    static struct numbered_key keys[BATCH];
    static struct tg_scope scopes[BATCH];
    static struct tg_debit debits[BATCH];
    static struct tg_decision decisions[BATCH];
    static enum tg_err errs[BATCH];
    (void)state;

    assert_int_equal(must_define_one(batched, TG_AXIS_COST, TEN_A_SECOND), set);
    for (size_t i = 0; i < BATCH; i++) {
        keys[i] = numbered_key(i * i % 97); /* keys come again within a batch */
        scopes[i] = scope_of(i % 50 == 13 ? set + 1 : set, keys[i].text);
        debits[i] = debit_of(&scopes[i], i % 60 == 7 ? -1 : (int64_t)(i % 5));
    }
    for (size_t done = 0, n = 0; done < BATCH; done += n) {
        n = n + 1 < BATCH - done ? n + 1 : BATCH - done; /* 1, 2, 3 ... and what is left */
        tg_store_take_many(batched, debits + done, n, 1000, decisions + done, errs + done);
    }
    for (size_t i = 0; i < BATCH; i++) {
        struct tg_decision decision = {.limit = -1};
        assert_int_equal(tg_store_take(single, &debits[i], 1000, &decision, NULL), errs[i]);
        if (errs[i] == TG_OK)
            expect_decision("batch", decisions[i], decision);
    }
    tg_store_free(single);
    tg_store_free(batched);
}

static void an_empty_batch_and_a_bad_time_are_harmless(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    struct tg_scope scope = scope_of(must_define_one(store, TG_AXIS_COST, TEN_A_SECOND), KEY);
    struct tg_debit debits[2] = {debit_of(&scope, 1), debit_of(&scope, 2)};
    struct tg_decision decisions[2];
    enum tg_err errs[2];
    (void)state;

    tg_store_take_many(store, NULL, 0, 1000, NULL, NULL);
    tg_store_take_many(store, debits, 2, -1, decisions, errs);
    assert_int_equal(errs[0], TG_ERR_INVALID);
    assert_int_equal(errs[1], TG_ERR_INVALID);
    assert_int_equal(stats_of(store).keys, 0);
    tg_store_free(store);
}

/* ---- what is not accepted ---- */

/* Every operation on one debit gives `want`, says nothing, and charges nothing. */
static void expect_error(struct tg_store *store, const struct tg_debit *debit, tg_ms now,
                         enum tg_err want)
{
    struct tg_decision decision, before;
    struct tg_axes axes, axes_before;

    memset(&before, 0xA5, sizeof(before));
    memset(&axes_before, 0xA5, sizeof(axes_before));
    decision = before;
    axes = axes_before;
    assert_int_equal(tg_store_take(store, debit, now, &decision, &axes), want);
    assert_int_equal(tg_store_take(store, debit, now, &decision, NULL), want);
    assert_int_equal(tg_store_peek(store, debit, now, &decision, &axes), want);
    assert_int_equal(tg_store_refund(store, debit, now, 0), want);
    assert_int_equal(tg_store_settle(store, debit, now, 0, 1), want);
    assert_memory_equal(&decision, &before, sizeof(decision));
    assert_memory_equal(&axes, &axes_before, sizeof(axes));
    assert_int_equal(stats_of(store).keys, 0);
}

static void a_bad_cost_or_time_is_an_error(void **state)
{
    static const int64_t bad[] = {-1, INT64_MIN, TG_NUMBER_MAX + 1, INT64_MAX};
    struct tg_store *store = must_store(MEMORY, 0);
    struct tg_scope scope = scope_of(must_define_one(store, TG_AXIS_COST, TEN_A_SECOND), KEY);
    struct tg_debit good = debit_of(&scope, 1);
    (void)state;

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct tg_debit debit = debit_of(&scope, bad[i]);
        expect_error(store, &debit, 1000, TG_ERR_INVALID);
        expect_error(store, &good, bad[i], TG_ERR_INVALID);
        assert_int_equal(tg_store_refund(store, &good, 1000, bad[i]), TG_ERR_INVALID);
        assert_int_equal(tg_store_settle(store, &good, 1000, bad[i], 1), TG_ERR_INVALID);
        assert_int_equal(tg_store_settle(store, &good, 1000, 1000, bad[i]), TG_ERR_INVALID);
    }
    tg_store_free(store);
}

static void an_unknown_set_is_an_error(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    tg_limits set = must_define_one(store, TG_AXIS_COST, TEN_A_SECOND);
    const tg_limits unknown[] = {0, set + 1, UINT32_MAX};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(unknown); i++) {
        struct tg_scope scopes[] = {scope_of(set, KEY), scope_of(unknown[i], "other")};
        struct tg_debit one = debit_of(&scopes[1], 1), two = debit_of(scopes, 1);
        two.n_scopes = 2;
        expect_error(store, &one, 1000, TG_ERR_UNKNOWN);
        expect_error(store, &two, 1000, TG_ERR_UNKNOWN);
    }
    tg_store_free(store);
}

static void a_debit_has_one_scope_to_sixteen(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    tg_limits set = must_define_one(store, TG_AXIS_COST, TEN_A_SECOND);
    struct numbered_key keys[TG_SCOPES_MAX + 1];
    struct tg_scope scopes[TG_SCOPES_MAX + 1];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(scopes); i++) {
        keys[i] = numbered_key(i);
        scopes[i] = scope_of(set, keys[i].text);
    }
    struct tg_debit debit = debit_of(scopes, 1);
    debit.n_scopes = 0;
    expect_error(store, &debit, 1000, TG_ERR_INVALID);
    debit.n_scopes = TG_SCOPES_MAX + 1;
    expect_error(store, &debit, 1000, TG_ERR_INVALID);
    debit.n_scopes = 1;
    debit.charging = (enum tg_charging)7;
    expect_error(store, &debit, 1000, TG_ERR_INVALID);
    tg_store_free(store);
}

static void a_set_that_no_entry_can_hold_is_not_defined(void **state)
{
    struct tg_store *store = must_store(MEMORY, 0);
    struct tg_limit limits[TG_LIMITS_MAX + 1];
    struct tg_problem problem = {""};
    tg_limits set = 77;
    (void)state;

    for (size_t i = 0; i < COUNT_OF(limits); i++)
        limits[i] = limit_on(TG_AXIS_COST, TEN_A_SECOND);
    assert_int_equal(tg_store_define(store, limits, 0, &set, &problem), TG_ERR_INVALID);
    assert_int_equal(tg_store_define(store, limits, TG_LIMITS_MAX + 1, &set, &problem),
                     TG_ERR_INVALID);
    assert_true(strlen(problem.text) > 0);
    limits[1].axis = TG_AXIS_CONCURRENCY;
    assert_int_equal(tg_store_define(store, limits, 2, &set, &problem), TG_ERR_INVALID);
    limits[1].axis = TG_AXIS_NONE;
    assert_int_equal(tg_store_define(store, limits, 2, &set, &problem), TG_ERR_INVALID);
    limits[1] = limit_on(TG_AXIS_RATE, "token_budget:budget=1,window=1000");
    assert_int_equal(tg_store_define(store, limits, 2, &set, &problem), TG_ERR_INVALID);
    assert_non_null(strstr(problem.text, "token_budget"));
    limits[1] = limit_on(TG_AXIS_COST, TEN_A_SECOND);
    limits[1].limiter.state_bytes = SIZE_MAX - 7;
    assert_int_equal(tg_store_define(store, limits, 2, &set, &problem), TG_ERR_INVALID);
    assert_int_equal(tg_store_define(store, limits, 2, &set, NULL), TG_ERR_INVALID);
    assert_int_equal(set, 77);
    tg_store_free(store);
}

static void a_store_that_cannot_be_is_not_made(void **state)
{
    static const struct {
        size_t memory_bytes;
        uint32_t shards;
    } rows[] = {{0, 0}, {1, 1}, {MEMORY, 3}, {MEMORY, 65535}, {MEMORY * 64, 131072}};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tg_store *store = NULL;
        struct tg_problem problem = {""};
        struct tg_store_config config;
        tg_store_config_init(&config);
        config.memory_bytes = rows[i].memory_bytes;
        config.shards = rows[i].shards;
        assert_int_equal(tg_store_new(&config, &store, &problem), TG_ERR_INVALID);
        assert_true(strlen(problem.text) > 0);
        assert_null(store);
        assert_int_equal(tg_store_new(&config, &store, NULL), TG_ERR_INVALID);
    }
}

static void what_is_missing_is_an_error(void **state)
{
    struct tg_store *store = must_store(MEMORY, 1);
    struct tg_scope scope =
        scope_of(must_define_one(store, TG_AXIS_COST, "fixed_window:limit=10,window=1000"), "key");
    const struct tg_debit debit = debit_of(&scope, 1);
    struct tg_decision decision, untouched;
    enum tg_err errs[3] = {TG_OK, TG_OK, TG_ERR_FULL};
    struct tg_limit_metrics limits[4];
    (void)state;

    memset(&decision, 0x5A, sizeof decision);
    untouched = decision;
    assert_int_equal(tg_store_take(NULL, &debit, 1000, &decision, NULL), TG_ERR_NULL);
    assert_int_equal(tg_store_take(store, NULL, 1000, &decision, NULL), TG_ERR_NULL);
    assert_int_equal(tg_store_take(store, &debit, 1000, NULL, NULL), TG_ERR_NULL);
    assert_int_equal(tg_store_peek(NULL, &debit, 1000, &decision, NULL), TG_ERR_NULL);
    assert_int_equal(tg_store_peek(store, NULL, 1000, &decision, NULL), TG_ERR_NULL);
    assert_int_equal(tg_store_peek(store, &debit, 1000, NULL, NULL), TG_ERR_NULL);
    assert_int_equal(tg_store_refund(NULL, &debit, 1000, 1000), TG_ERR_NULL);
    assert_int_equal(tg_store_refund(store, NULL, 1000, 1000), TG_ERR_NULL);
    assert_int_equal(tg_store_settle(NULL, &debit, 1000, 1000, 1), TG_ERR_NULL);
    assert_int_equal(tg_store_settle(store, NULL, 1000, 1000, 1), TG_ERR_NULL);
    assert_int_equal(tg_store_peek_scope(NULL, &debit, 0, 1000, limits), 0);
    assert_int_equal(tg_store_peek_scope(store, NULL, 0, 1000, limits), 0);
    assert_int_equal(tg_store_peek_scope(store, &debit, 0, 1000, NULL), 0);
    assert_int_equal(tg_store_peek_scope(store, &debit, 1, 1000, limits), 0);
    tg_store_take_many(NULL, &debit, 1, 1000, &decision, errs);
    assert_int_equal(errs[0], TG_ERR_NULL);
    tg_store_take_many(store, NULL, 2, 1000, &decision, errs);
    assert_int_equal(errs[1], TG_ERR_NULL);
    errs[0] = TG_OK;
    tg_store_take_many(store, &debit, 1, 1000, NULL, errs);
    assert_int_equal(errs[0], TG_ERR_NULL);
    tg_store_take_many(store, &debit, 1, 1000, &decision, NULL);
    assert_int_equal(errs[2], TG_ERR_FULL);
    assert_memory_equal(&decision, &untouched, sizeof decision);
    assert_int_equal(stats_of(store).keys, 0);
    tg_store_free(store);
}

static void a_default_store_is_empty_and_free_accepts_null(void **state)
{
    struct tg_store *store = NULL;
    struct tg_store_config config;
    (void)state;

    tg_store_config_init(&config);
    assert_int_equal(config.memory_bytes, (size_t)64 << 20);
    assert_int_equal(config.seed, 0);
    assert_int_equal(config.shards, 0);
    assert_int_equal(tg_store_new(&config, &store, NULL), TG_OK);
    assert_int_equal(stats_of(store).keys, 0);
    assert_int_equal(stats_of(store).forgotten, 0);
    assert_int_equal(stats_of(store).refused, 0);
    tg_store_free(store);
    tg_store_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_with_one_limit_answers_as_the_bare_limiter),
        cmocka_unit_test(the_rate_axis_takes_one_and_the_cost_axis_the_cost),
        cmocka_unit_test(settling_is_for_the_cost_axis_alone),
        cmocka_unit_test(a_refund_gives_back_on_both_axes),
        cmocka_unit_test(limits_of_one_key_are_debited_together_or_not_at_all),
        cmocka_unit_test(as_many_limits_as_a_set_may_have_all_count),
        cmocka_unit_test(scopes_of_one_root_are_debited_together_or_not_at_all),
        cmocka_unit_test(each_scope_gets_back_on_a_refund),
        cmocka_unit_test(each_scope_is_settled),
        cmocka_unit_test(as_many_scopes_as_a_debit_may_have_all_count),
        cmocka_unit_test(a_peek_makes_no_key),
        cmocka_unit_test(a_call_that_is_refused_or_free_makes_no_key),
        cmocka_unit_test(the_same_key_under_two_sets_is_two_entries),
        cmocka_unit_test(many_sets_can_be_defined),
        cmocka_unit_test(a_key_may_hold_any_bytes_of_any_length),
        cmocka_unit_test(a_key_without_bytes_may_be_null),
        cmocka_unit_test(a_batch_answers_as_single_takes_do),
        cmocka_unit_test(an_empty_batch_and_a_bad_time_are_harmless),
        cmocka_unit_test(a_bad_cost_or_time_is_an_error),
        cmocka_unit_test(an_unknown_set_is_an_error),
        cmocka_unit_test(a_debit_has_one_scope_to_sixteen),
        cmocka_unit_test(a_set_that_no_entry_can_hold_is_not_defined),
        cmocka_unit_test(a_store_that_cannot_be_is_not_made),
        cmocka_unit_test(what_is_missing_is_an_error),
        cmocka_unit_test(a_default_store_is_empty_and_free_accepts_null),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
