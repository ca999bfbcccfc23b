/* test_virtual_key.c - keys of tenants: found, hashed, compared, made. */
#include "check.h"

#include <string.h>

#include "server/tenancy/virtual_key.h"

static void key_is_found_wherever_clients_put_it(void **state)
{
    static const struct {
        const char *pairs[4];
        enum virtual_key_found found;
        const char *key;
    } rows[] = {
        {{NULL}, VIRTUAL_KEY_NONE, ""},
        {{"authorization", "Bearer tg-1"}, VIRTUAL_KEY_FOUND, "tg-1"},
        {{"Authorization", "bearer  tg-1 "}, VIRTUAL_KEY_FOUND, "tg-1"},
        {{"x-api-key", "tg-1"}, VIRTUAL_KEY_FOUND, "tg-1"},
        {{"api-key", "tg-1"}, VIRTUAL_KEY_FOUND, "tg-1"},
        {{"x-api-key", "tg-1", "authorization", "Bearer tg-1"}, VIRTUAL_KEY_FOUND, "tg-1"},
        {{"x-api-key", "tg-1", "authorization", "Bearer tg-2"}, VIRTUAL_KEY_CONFLICT, NULL},
        {{"x-api-key", "tg-1", "x-api-key", "tg-2"}, VIRTUAL_KEY_CONFLICT, NULL},
        {{"x-api-key", "tg-1", "api-key", "tg-11"}, VIRTUAL_KEY_CONFLICT, NULL},
        {{"x-api-key", "", "api-key", "tg-1"}, VIRTUAL_KEY_FOUND, "tg-1"},
        {{"authorization", "Basic dXNlcg==", "api-key", "tg-1"}, VIRTUAL_KEY_FOUND, "tg-1"},
        {{"authorization", "Bearer"}, VIRTUAL_KEY_NONE, ""},
        {{"authorization", "Bearer  "}, VIRTUAL_KEY_NONE, ""},
        {{"authorization", "Bearertg-1"}, VIRTUAL_KEY_NONE, ""},
        {{"authorization", "tg-1"}, VIRTUAL_KEY_NONE, ""},
        {{"x-authorization", "Bearer tg-1"}, VIRTUAL_KEY_NONE, ""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct http_field fields[2];
        struct slice key;
        size_t n = 0;
        for (; n < 2 && rows[i].pairs[2 * n] != NULL; n++)
            fields[n] = (struct http_field){slice_of(rows[i].pairs[2 * n]),
                                            slice_of(rows[i].pairs[2 * n + 1])};
        assert_int_equal(virtual_key_find(fields, n, &key), rows[i].found);
        if (rows[i].key == NULL)
            continue;
        assert_int_equal(key.n, strlen(rows[i].key));
        assert_memory_equal(key.at, rows[i].key, key.n);
    }
}

/* FIPS 180-4, and the empty text. */
static void hash_is_sha256(void **state)
{
    static const char *const rows[][2] = {
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint8_t hash[VIRTUAL_KEY_HASH];
        char hex[VIRTUAL_KEY_HEX + 1];
        assert_true(virtual_key_hash(slice_of(rows[i][0]), hash));
        virtual_key_hex(hash, hex);
        assert_string_equal(hex, rows[i][1]);
    }
}

static void every_bit_of_a_hash_counts(void **state)
{
    uint8_t a[VIRTUAL_KEY_HASH] = {0};
    uint8_t b[VIRTUAL_KEY_HASH] = {0};

    (void)state;
    assert_true(virtual_key_equal(a, b));
    for (int bit = 0; bit < 8 * VIRTUAL_KEY_HASH; bit++) {
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(virtual_key_equal(a, b));
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

/* All 64 characters come, and the last stands for 4 bits only. */
static void keys_are_made_of_256_bits(void **state)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char keys[200][VIRTUAL_KEY_BYTES + 1];
    bool seen[64] = {false};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        assert_true(virtual_key_make(keys[i]));
        assert_int_equal(strlen(keys[i]), VIRTUAL_KEY_BYTES);
        assert_memory_equal(keys[i], "tg-", 3);
        for (size_t j = 3; j < VIRTUAL_KEY_BYTES; j++) {
            assert_non_null(strchr(digits, keys[i][j]));
            seen[strchr(digits, keys[i][j]) - digits] = true;
        }
        assert_int_equal((strchr(digits, keys[i][VIRTUAL_KEY_BYTES - 1]) - digits) % 4, 0);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(keys[i], keys[j]);
    }
    for (size_t i = 0; i < COUNT_OF(seen); i++)
        assert_true(seen[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_is_found_wherever_clients_put_it),
        cmocka_unit_test(hash_is_sha256),
        cmocka_unit_test(every_bit_of_a_hash_counts),
        cmocka_unit_test(keys_are_made_of_256_bits),
    };

    return cmocka_run_group_tests_name("virtual_key", tests, NULL, NULL);
}
