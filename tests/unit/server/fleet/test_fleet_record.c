/* test_fleet_record.c - a row that is written into the store is read from it as it was. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/fleet/fleet_record.h"

#define HEX "abababababababababababababababababababababababababababababababab"
#define COUNT(list) (sizeof(list) / sizeof *(list))

static struct ledger_admin_tenant tenants[] = {
    {"team", "{\"weight\": 2}", 13, 5}, {"a:b{c}%/\"\xc3\xa4", "line\n", 5, 6}};
static const char settings[] = "{\"limits\": [{\"rpm\": 3}], \"tags\": {\"\xc3\xa4\": \"\\n\"}}";
static struct ledger_admin_key list_of_keys[] = {
    {.tenant = "team", .name = "ci", .sha256 = {1, 2, 0xfe}, TG_NUMBER_MAX, 7},
    {.tenant = "team", .name = "ci:", .sha256 = {0}, 8, 9},
    {"team", "own", settings, sizeof settings - 1, {0xab, 3}, TG_NUMBER_MAX, 10}};
static struct ledger_admin_topup topups[] = {
    {1, "team", TG_PER_DAY, "UTC", 5000000, 10, 20},
    {2, "team", TG_PER_DAY, "UTC", 5000000, 11, 20}, /* the same once more */
    {3, "", TG_PER_TOTAL, "Europe/Berlin", 1, 12, TG_NUMBER_MAX}};
static struct ledger_admin_disabled disabled[] = {{"openai", "k1", 13}};
static struct ledger_admin_override overrides[] = {
    {1, "file", "main", LEDGER_OVERRIDE_BLOCK, 0, TG_PER_DAY, "", "it leaked", 14, 99},
    {2, "file", "", LEDGER_OVERRIDE_RAISE, 7, TG_PER_WEEK, "UTC", "\"quoted\"", 15, 98}};

static struct ledger_admin everything(void)
{
    return (struct ledger_admin){.tenants = tenants,
                                 .n_tenants = COUNT(tenants),
                                 .keys = list_of_keys,
                                 .n_keys = COUNT(list_of_keys),
                                 .topups = topups,
                                 .n_topups = COUNT(topups),
                                 .disabled = disabled,
                                 .n_disabled = COUNT(disabled),
                                 .overrides = overrides,
                                 .n_overrides = COUNT(overrides)};
}

static void rows_come_back_as_they_were(void **state)
{
    const struct ledger_admin all = everything();
    struct fleet_entries entries = {0};
    struct ledger_fleet_row *rows;
    size_t n, strange;

    (void)state;
    assert_true(fleet_entries_add_all(&entries, &all));
    for (size_t i = 0; i < entries.n; i++)
        for (size_t k = 0; k < i; k++)
            assert_false(slice_equal(entries.list[i].name, entries.list[k].name));
    assert_true(fleet_entries_rows(&entries, &rows, &n, &strange));
    assert_int_equal(strange, 0);
    assert_int_equal(n, 11);
    assert_true(fleet_rows_equal(rows, n, &all));
    assert_string_equal(rows[1].tenant.name, tenants[1].name);
    assert_memory_equal(rows[2].key.sha256, list_of_keys[0].sha256, 32);
    rows[2].key.sha256[0] ^= 1;
    assert_false(fleet_rows_equal(rows, n, &all));
    rows[2].key.sha256[0] ^= 1;
    assert_null(rows[2].key.text);
    assert_int_equal(rows[4].key.bytes, sizeof settings - 1);
    assert_string_equal(rows[4].key.text, settings);
    assert_memory_equal(rows[4].key.sha256, list_of_keys[2].sha256, 32);
    rows[4].key.bytes--;
    assert_false(fleet_rows_equal(rows, n, &all));
    rows[4].key.bytes++;
    assert_false(fleet_rows_equal(rows, n - 1, &all));
    free(rows);
    fleet_entries_free(&entries);
}

static void add(struct fleet_entries *entries, const char *name, const char *value)
{
    assert_true(fleet_entries_add(entries, slice_of(name), slice_of(value), false));
}

/* A later program may write more members, and other kinds of entries. */
static void what_is_not_known_is_passed_over(void **state)
{
    struct fleet_entries entries = {0};
    struct ledger_fleet_row *rows;
    size_t n, strange;

    (void)state;
    add(&entries, "tenant:x",
        "{\"name\":\"x\",\"text\":\"{}\",\"changed_at\":1,\"more\":{\"a\":[1,2]},\"name2\":null}");
    add(&entries, "policy:x", "{\"name\":\"x\"}");
    add(&entries, "tenant:y", "{\"name\":\"y\"}");
    add(&entries, "tenant:z", "not json");
    add(&entries, "key:a:b", "{\"tenant\":\"a\",\"name\":\"b\",\"sha256\":\"12\"}");
    add(&entries, "topup:1", "{\"id\":1,\"tenant\":\"a\",\"per\":\"year\",\"tz\":\"UTC\"}");
    add(&entries, "ledger:1", "{\"at\":1}");
    assert_true(fleet_entries_rows(&entries, &rows, &n, &strange));
    assert_int_equal(n, 1);
    assert_int_equal(strange, 5);
    assert_string_equal(rows[0].tenant.name, "x");
    free(rows);
    fleet_entries_free(&entries);
}

/* An override of a kind that is not known was made to take something away. */
static void an_unknown_override_blocks(void **state)
{
    struct fleet_entries entries = {0};
    struct ledger_fleet_row *rows;
    size_t n, strange;

    (void)state;
    add(&entries, "override:3",
        "{\"id\":3,\"tenant\":\"a\",\"per\":\"day\",\"tz\":\"\",\"kind\":\"throttle\"}");
    assert_true(fleet_entries_rows(&entries, &rows, &n, &strange));
    assert_int_equal(n, 1);
    assert_int_equal(rows[0].override.kind, LEDGER_OVERRIDE_BLOCK);
    free(rows);
    fleet_entries_free(&entries);
}

/* The member `sha256` is all that the version before reads of a key. */
static void a_key_with_settings_is_that_of_no_secret_to_the_version_before(void **state)
{
    static const char zeros[] =
        "\"sha256\":\"0000000000000000000000000000000000000000000000000000000000000000\"";
    static const uint8_t no_secret[32];
    struct ledger_fleet_row row = {.kind = LEDGER_FLEET_KEY, .key = list_of_keys[2]}, *rows;
    struct fleet_entries entries = {0}, without = {0};
    size_t n, strange;

    (void)state;
    assert_true(fleet_entries_add_row(&entries, &row));
    assert_string_equal(entries.list[0].name.at, "key:team:own");
    char *known = strdup(entries.list[0].value.at);
    assert_non_null(strstr(known, zeros));
    char *own = strstr(known, ",\"own_sha256\"");
    assert_non_null(own);
    strcpy(own, "}");
    add(&without, "key:team:own", known);
    assert_true(fleet_entries_rows(&without, &rows, &n, &strange));
    assert_int_equal(n, 1);
    assert_string_equal(rows[0].key.name, "own"); /* by which it is deleted */
    assert_memory_equal(rows[0].key.sha256, no_secret, 32);
    free(rows);
    free(known);
    fleet_entries_free(&entries);
    fleet_entries_free(&without);
}

static void settings_without_a_hash_are_of_no_key(void **state)
{
    static const char *const values[] = {
        "{\"tenant\":\"a\",\"name\":\"b\",\"own\":\"{}\",\"sha256\":\"" HEX "\"}",
        "{\"tenant\":\"a\",\"name\":\"b\",\"own\":\"{}\",\"own_sha256\":\"" HEX "\"}",
        "{\"tenant\":\"a\",\"name\":\"b\",\"own\":\"{}\",\"sha256\":\"" HEX
        "\",\"own_sha256\":\"12\"}",
        "{\"tenant\":\"a\",\"name\":\"b\",\"own\":\"\\u0000\",\"sha256\":\"" HEX
        "\",\"own_sha256\":\"" HEX "\"}"};
    (void)state;

    for (size_t i = 0; i < COUNT(values); i++) {
        struct fleet_entries entries = {0};
        struct ledger_fleet_row *rows;
        size_t n, strange;
        add(&entries, "key:a:b", values[i]);
        assert_true(fleet_entries_rows(&entries, &rows, &n, &strange));
        assert_int_equal(n, 0);
        assert_int_equal(strange, 1);
        free(rows);
        fleet_entries_free(&entries);
    }
}

static void a_long_name_is_read_too(void **state)
{
    static char name[9000];
    struct ledger_fleet_row row = {.kind = LEDGER_FLEET_TENANT, .tenant = {name, "{}", 2, 1}};
    struct ledger_fleet_row *rows;
    struct fleet_entries entries = {0};
    size_t n, strange;

    (void)state;
    memset(name, 'x', sizeof name - 1);
    assert_true(fleet_entries_add_row(&entries, &row));
    name[sizeof name - 2] = 'y';
    assert_true(fleet_entries_add_row(&entries, &row));
    assert_true(fleet_entries_rows(&entries, &rows, &n, &strange));
    assert_int_equal(n, 2);
    assert_string_equal(rows[1].tenant.name, name);
    free(rows);
    fleet_entries_free(&entries);
}

/* ---- what was there before a store ---- */

static size_t count_of(const struct fleet_entries *entries, const char *kind)
{
    size_t n = 0;

    for (size_t i = 0; i < entries->n; i++)
        n += strncmp(entries->list[i].name.at, kind, strlen(kind)) == 0;
    return n;
}

static void ledgers_move_in_once_each(void **state)
{
    const struct ledger_admin all = everything();
    struct fleet_entries store = {0}, second = {0}, again = {0};

    (void)state;
    assert_true(fleet_entries_unmoved(&store, &second, &all, 4711, 100));
    assert_int_equal(store.n, 12);
    assert_int_equal(count_of(&store, "topup:"), 3);
    /* Another gateway where the same was made has nothing to add but that it is done. */
    assert_true(fleet_entries_unmoved(&second, &store, &all, 4712, 101));
    assert_int_equal(second.n, 1);
    assert_int_equal(count_of(&second, "ledger:4712"), 1);
    /* What was taken away since does not come back by the first. */
    store.n = 0;
    assert_true(fleet_entries_add_ledger(&store, 4711, 100));
    assert_true(fleet_entries_unmoved(&again, &store, &all, 4711, 102));
    assert_int_equal(again.n, 0);
    fleet_entries_free(&store);
    fleet_entries_free(&second);
    fleet_entries_free(&again);
}

static void a_top_up_more_at_one_gateway_is_one_more(void **state)
{
    struct ledger_admin two = {.topups = topups, .n_topups = 2};
    struct ledger_admin one = {.topups = topups, .n_topups = 1};
    struct fleet_entries store = {0}, more = {0};

    (void)state;
    assert_true(fleet_entries_unmoved(&store, &more, &one, 1, 100));
    assert_int_equal(count_of(&store, "topup:"), 1);
    assert_true(fleet_entries_unmoved(&more, &store, &two, 2, 100));
    assert_int_equal(count_of(&more, "topup:"), 1);
    fleet_entries_free(&store);
    fleet_entries_free(&more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_back_as_they_were),
        cmocka_unit_test(what_is_not_known_is_passed_over),
        cmocka_unit_test(an_unknown_override_blocks),
        cmocka_unit_test(a_key_with_settings_is_that_of_no_secret_to_the_version_before),
        cmocka_unit_test(settings_without_a_hash_are_of_no_key),
        cmocka_unit_test(a_long_name_is_read_too),
        cmocka_unit_test(ledgers_move_in_once_each),
        cmocka_unit_test(a_top_up_more_at_one_gateway_is_one_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
