/* test_reclaim.c - memory that a full shard gets from the others, and what happens without it. */
#include "keyed.h"
#include "lib/store/store.h"

enum { MEMORY = 1 << 16,
       SHARDS = 4 };

static struct tg_debit debit_under(const char *root, const struct tg_scope *scope, int64_t cost)
{
    return (struct tg_debit){
        .scopes = scope, .n_scopes = 1, .cost = cost, .root = root, .root_bytes = 1};
}

/* Keys under a root until there is no place. */
static void fill_under(struct tg_store *store, tg_limits set, const char *root)
{
    struct tg_decision decision;
    enum tg_err err = TG_OK;

    for (uint64_t n = 0; !err; n++) {
        struct numbered_key key = numbered_key(n);
        struct tg_scope scope = scope_of(set, key.text);
        struct tg_debit debit = debit_under(root, &scope, 1);
        err = tg_store_take(store, &debit, 1000, &decision, NULL);
    }
    assert_int_equal(err, TG_ERR_FULL);
}

static size_t empty_shards(const struct tg_store *store)
{
    size_t n = 0;

    for (size_t i = 0; i < SHARDS; i++)
        n += store->shards[i].table.n == 0;
    return n;
}

/* From 1100 on all keys are fresh. One shard after another gives its memory back, but for the one
 * that asks. */
static void one_shard_gives_back_at_a_time(void **state)
{
    struct tg_store *store = must_store(MEMORY, SHARDS);
    tg_limits set = must_define_one(store, TG_AXIS_COST, "gcra:limit=10,period=1000");
    struct tg_decision decision;
    (void)state;

    for (uint64_t key = 0; key < 200; key++)
        assert_int_equal(take_numbered(store, set, key, 1, 1000, &decision), TG_OK);
    assert_int_equal(empty_shards(store), 0);
    assert_false(store_reclaim(store, NULL, 1099));
    assert_int_equal(stats_of(store).keys, 200);
    for (size_t given = 1; given < SHARDS; given++) {
        size_t before = stats_of(store).memory_bytes;
        assert_true(store_reclaim(store, &store->shards[1], 1100));
        assert_true(stats_of(store).memory_bytes < before);
        assert_int_equal(empty_shards(store), given);
    }
    assert_false(store_reclaim(store, &store->shards[1], 1100));
    assert_true(store->shards[1].table.n > 0);
    assert_true(store_reclaim(store, NULL, 1100));
    assert_int_equal(stats_of(store).keys, 0);
    assert_int_equal(stats_of(store).forgotten, 200);
    assert_int_equal(stats_of(store).memory_bytes,
                     sizeof *store + SHARDS * sizeof(struct shard));
    tg_store_free(store);
}

/* A call cost more than was thought, and there is no place for its key: that is an error while all
 * others are live, and none when those of another shard have become fresh. */
static void debt_finds_its_place_in_another_shard(void **state)
{
    static const char *const lasting[] = {"token_bucket:capacity=10,refill=0.0001",
                                          "sliding_log:limit=10,window=86400000"};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(lasting); i++) {
        struct tg_store *store = must_store(MEMORY, 2);
        tg_limits brief = must_define_one(store, TG_AXIS_COST, "gcra:limit=10,period=1000");
        tg_limits staying = must_define_one(store, TG_AXIS_COST, lasting[i]);
        struct tg_scope scope = scope_of(staying, "debtor");
        struct tg_debit debit = debit_under("c", &scope, 1);
        struct tg_decision decision;

        fill_under(store, brief, "a");
        fill_under(store, staying, "c");
        uint64_t keys = stats_of(store).keys, refused = stats_of(store).refused;
        assert_int_equal(tg_store_settle(store, &debit, 1000, 1000, 4), TG_ERR_FULL);
        assert_int_equal(stats_of(store).refused, refused + 1);
        assert_int_equal(stats_of(store).keys, keys);
        assert_int_equal(tg_store_settle(store, &debit, 5000, 5000, 4), TG_OK);
        assert_int_equal(stats_of(store).refused, refused + 1);
        assert_true(stats_of(store).forgotten > 0);
        assert_int_equal(tg_store_peek(store, &debit, 5000, &decision, NULL), TG_OK);
        assert_int_equal(decision.remaining, 10 - 3 - 1);
        tg_store_free(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_shard_gives_back_at_a_time),
        cmocka_unit_test(debt_finds_its_place_in_another_shard),
    };
    return cmocka_run_group_tests_name("reclaim", tests, NULL, NULL);
}
