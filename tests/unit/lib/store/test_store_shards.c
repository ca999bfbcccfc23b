/* test_store_shards.c - shards of very different size share one bound. */
#include "check.h"
#include "keyed.h"

enum { MEMORY = 1 << 20 };

/* Keys of one root, until there is no place. Every other one stays for a day. */
static uint64_t fill_root(struct tg_store *store, tg_limits brief, tg_limits lasting,
                          const char *root)
{
    uint64_t n = 0;

    for (;; n++) {
        struct numbered_key key = numbered_key(n);
        struct tg_scope scope = {.limits = n % 2 ? brief : lasting,
                                 .key = key.text,
                                 .key_bytes = NUMBERED_KEY_BYTES};
        struct tg_debit debit = {
            .scopes = &scope, .n_scopes = 1, .cost = 1, .root = root, .root_bytes = 1};
        struct tg_decision decision;
        if (tg_store_take(store, &debit, 1000, &decision, NULL) == TG_ERR_FULL)
            return n;
    }
}

/* Half the keys of the large shard have become fresh: the others find place by them. */
static void fresh_keys_of_one_shard_make_place_in_another(void **state)
{
    struct tg_store *store = must_store(MEMORY, 2);
    tg_limits brief = must_define_one(store, TG_AXIS_RATE, "gcra:limit=10,period=1000");
    tg_limits lasting = must_define_one(store, TG_AXIS_RATE, "gcra:limit=10,period=864000000");
    (void)state;

    uint64_t large = fill_root(store, brief, lasting, "a");
    assert_true(large > 10000);
    fill_root(store, brief, lasting, "c");
    for (uint64_t i = 0; i < 1000; i++) {
        struct numbered_key key = numbered_key(1000000 + i);
        struct tg_scope scope = {
            .limits = lasting, .key = key.text, .key_bytes = NUMBERED_KEY_BYTES};
        struct tg_debit debit = {
            .scopes = &scope, .n_scopes = 1, .cost = 1, .root = "c", .root_bytes = 1};
        struct tg_decision decision;
        assert_int_equal(tg_store_take(store, &debit, 10000, &decision, NULL), TG_OK);
    }
    assert_true(stats_of(store).memory_bytes <= MEMORY);
    tg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fresh_keys_of_one_shard_make_place_in_another),
    };
    return cmocka_run_group_tests_name("store shards", tests, NULL, NULL);
}
