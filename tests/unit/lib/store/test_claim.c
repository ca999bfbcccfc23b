/* test_claim.c - a claim by itself: what it knows of its limits, and what of it was not charged. */
#include "keyed.h"
#include "lib/store/claim.h"
#include "lib/store/store.h"

enum { MEMORY = 1 << 20,
       NOW = 1000 };

static struct claim claim_of(struct tg_store *store, const struct tg_scope *scopes, size_t n,
                             int64_t cost)
{
    struct tg_debit debit = debit_of(scopes, cost);
    struct claim claim;

    debit.n_scopes = n;
    assert_int_equal(claim_make(store, &debit, &claim), TG_OK);
    return claim;
}

static void a_claim_knows_whether_it_is_to_be_settled(void **state)
{
    struct tg_store *store = must_store(MEMORY, 1);
    struct tg_scope rate = scope_of(
        must_define_one(store, TG_AXIS_RATE, "fixed_window:limit=9,window=1000"), "a");
    struct tg_scope cost = scope_of(
        must_define_one(store, TG_AXIS_COST, "fixed_window:limit=9,window=1000"), "a");
    const struct tg_scope both[2] = {cost, rate};
    (void)state;

    assert_false(claim_of(store, &rate, 1, 1).has_cost);
    assert_true(claim_of(store, &cost, 1, 1).has_cost);
    assert_true(claim_of(store, both, 2, 1).has_cost);
    assert_false(claim_of(store, both, 2, 1).any_shadow);
    tg_store_free(store);
}

/* A limit in shadow that would have refused was not charged, and so gives nothing back. A copy
 * knows the same. */
static void what_was_not_charged_is_not_given_back(void **state)
{
    struct tg_store *store = must_store(MEMORY, 1);
    struct tg_limit limits[2] = {
        limit_on(TG_AXIS_COST, "fixed_window:limit=5,window=1000000"),
        limit_on(TG_AXIS_COST, "fixed_window:limit=100,window=1000000")};
    limits[0].mode = TG_SHADOW;
    tg_limits set = must_define(store, limits, 2);
    struct tg_scope scope = scope_of(set, "key");
    struct claim first = claim_of(store, &scope, 1, 3), second = claim_of(store, &scope, 1, 4);
    struct tg_limit_metrics seen[TG_LIMITS_MAX];
    struct tg_axes axes;
    struct claim copy;
    (void)state;

    assert_true(first.any_shadow);
    assert_int_equal(first.uncharged[0], 1);
    assert_int_equal(claim_take(store, &first, NOW, &axes), TG_OK);
    assert_int_equal(first.uncharged[0], 0);
    assert_int_equal(claim_take(store, &second, NOW, &axes), TG_OK);
    assert_int_equal(axes.would_deny, 1u << TG_AXIS_COST);
    assert_int_equal(second.uncharged[0], 1);
    claim_copy(&copy, &second);
    claim_refund(store, &copy, NOW, NOW);
    assert_int_equal(claim_peek_scope(store, &first, 0, NOW, seen), 2);
    assert_int_equal(seen[0].decision.remaining, 2); /* 3 of 5 are charged */
    assert_int_equal(seen[1].decision.remaining, 97);
    claim_refund(store, &first, NOW, NOW);
    claim_peek_scope(store, &first, 0, NOW, seen);
    assert_int_equal(seen[0].decision.remaining, 5);
    assert_int_equal(seen[1].decision.remaining, 100);
    tg_store_free(store);
}

/* Less than estimated needs no entry: a key that was forgotten owes nothing. */
static void settling_a_forgotten_key_makes_an_entry_only_for_debt(void **state)
{
    struct tg_store *store = must_store(MEMORY, 1);
    struct tg_scope scope = scope_of(
        must_define_one(store, TG_AXIS_COST, "token_bucket:capacity=10,refill=1"), "key");
    struct claim claim = claim_of(store, &scope, 1, 4);
    (void)state;

    assert_int_equal(claim_settle(store, &claim, NOW, NOW, 4), TG_OK);
    assert_int_equal(claim_settle(store, &claim, NOW, NOW, 1), TG_OK);
    assert_int_equal(stats_of(store).keys, 0);
    assert_int_equal(claim_settle(store, &claim, NOW, NOW, 5), TG_OK);
    assert_int_equal(stats_of(store).keys, 1);
    assert_int_equal(must_peek(store, scope.limits, "key", 0, NOW).remaining, 9);
    tg_store_free(store);
}

/* A fresh store counts what it needs for itself; 4 MiB are worth two shards, up to a bound. */
static void a_store_counts_its_own_memory(void **state)
{
    struct tg_store *one = must_store(MEMORY, 1), *many = must_store(MEMORY, 16);
    (void)state;

    assert_int_equal(stats_of(one).memory_bytes, sizeof(struct tg_store) + sizeof(struct shard));
    assert_int_equal(stats_of(many).memory_bytes,
                     sizeof(struct tg_store) + 16 * sizeof(struct shard));
    tg_store_free(one);
    tg_store_free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_knows_whether_it_is_to_be_settled),
        cmocka_unit_test(what_was_not_charged_is_not_given_back),
        cmocka_unit_test(settling_a_forgotten_key_makes_an_entry_only_for_debt),
        cmocka_unit_test(a_store_counts_its_own_memory),
    };
    return cmocka_run_group_tests_name("claim", tests, NULL, NULL);
}
