/* test_ledger_admin.c - what an administrator made is there after a restart, whole or not at all,
 * and harms neither an old database nor an old program. */
#include "ledger_kit.h"

#include "server/ledger/ledger_admin.h"

#define HEX "abababababababababababababababababababababababababababababababab"

static struct tg_problem problem;

static struct ledger_admin_tenant tenant_of(const char *name, const char *text)
{
    return (struct ledger_admin_tenant){
        .name = name, .text = text, .bytes = strlen(text), .changed_at = NOW};
}

static struct ledger_admin_key key_of(const char *tenant, const char *name, int byte)
{
    struct ledger_admin_key key = {
        .tenant = tenant, .name = name, .not_after = NOW + DAY, .made_at = NOW};

    memset(key.sha256, byte, sizeof key.sha256);
    return key;
}

static struct ledger_admin_topup topup_of(const char *tenant, tg_micro micro, tg_ms ends_at)
{
    return (struct ledger_admin_topup){.tenant = tenant,
                                       .per = TG_PER_WEEK,
                                       .tz = "Europe/Berlin",
                                       .micro = micro,
                                       .made_at = NOW,
                                       .ends_at = ends_at};
}

static void put_tenant(struct ledger *ledger, const char *name, const char *text)
{
    struct ledger_admin_tenant tenant = tenant_of(name, text);

    if (!ledger_admin_put_tenant(ledger, &tenant, &problem))
        fail_msg("%s", problem.text);
}

static void put_key(struct ledger *ledger, const char *tenant, const char *name, int byte)
{
    struct ledger_admin_key key = key_of(tenant, name, byte);

    if (!ledger_admin_put_key(ledger, &key, &problem))
        fail_msg("%s", problem.text);
}

static int64_t add_topup(struct ledger *ledger, const char *tenant, tg_micro micro, tg_ms ends_at)
{
    struct ledger_admin_topup topup = topup_of(tenant, micro, ends_at);
    int64_t id = 0;

    if (!ledger_admin_add_topup(ledger, &topup, &id, &problem))
        fail_msg("%s", problem.text);
    return id;
}

static struct ledger_admin read_all(struct ledger *ledger)
{
    struct ledger_admin all;

    if (!ledger_admin_read(ledger, &all, &problem))
        fail_msg("%s", problem.text);
    return all;
}

static void expect_counts(struct ledger *ledger, size_t tenants, size_t keys, size_t topups)
{
    struct ledger_admin all = read_all(ledger);

    assert_int_equal(all.n_tenants, tenants);
    assert_int_equal(all.n_keys, keys);
    assert_int_equal(all.n_topups, topups);
    ledger_admin_free(&all);
}

static void what_was_made_is_there_after_a_restart(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    (void)state;

    put_tenant(ledger, "b", "{\"weight\":2}");
    put_tenant(ledger, "a/\xc3\xa4 %", "{}");
    put_key(ledger, "b", "ci", 7);
    int64_t id = add_topup(ledger, "b", 5000000, NOW + DAY);
    kit_close(ledger);

    ledger = kit_open(&kit);
    struct ledger_admin all = read_all(ledger);
    assert_int_equal(all.n_tenants, 2);
    assert_string_equal(all.tenants[0].name, "a/\xc3\xa4 %");
    assert_string_equal(all.tenants[1].name, "b");
    assert_string_equal(all.tenants[1].text, "{\"weight\":2}");
    assert_int_equal(all.tenants[1].bytes, 12);
    assert_int_equal(all.tenants[1].changed_at, NOW);
    assert_int_equal(all.n_keys, 1);
    struct ledger_admin_key key = key_of("b", "ci", 7);
    assert_string_equal(all.keys[0].tenant, "b");
    assert_string_equal(all.keys[0].name, "ci");
    assert_memory_equal(all.keys[0].sha256, key.sha256, 32);
    assert_int_equal(all.keys[0].not_after, NOW + DAY);
    assert_int_equal(all.n_topups, 1);
    assert_int_equal(all.topups[0].id, id);
    assert_int_equal(all.topups[0].per, TG_PER_WEEK);
    assert_string_equal(all.topups[0].tz, "Europe/Berlin");
    assert_int_equal(all.topups[0].micro, 5000000);
    assert_int_equal(all.topups[0].ends_at, NOW + DAY);
    ledger_admin_free(&all);
    kit_close(ledger);
    kit_free(&kit);
}

static void a_database_from_before_has_nothing_of_it(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    (void)state;

    expect_counts(ledger, 0, 0, 0);
    uint32_t a = kit_tenant(ledger, 0, "a");
    kit_spend(ledger, a, "u", NOW, 11);
    kit_close(ledger);

    ledger = kit_open(&kit);
    put_tenant(ledger, "x", "{}");
    kit_close(ledger);
    ledger = kit_open(&kit);
    expect_counts(ledger, 1, 0, 0);
    assert_int_equal(kit_spent(ledger, "a", "u", NOW - HOUR), 11);
    kit_close(ledger);
    kit_free(&kit);
}

/* An older program checks the version of the schema, and opens no other. */
static void the_version_of_the_schema_stays(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    sqlite3 *sqlite = NULL;
    sqlite3_stmt *statement = NULL;
    (void)state;

    put_tenant(ledger, "x", "{}");
    kit_close(ledger);
    assert_int_equal(sqlite3_open(kit.path, &sqlite), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(sqlite, "PRAGMA user_version", -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(statement, 0), 2);
    sqlite3_finalize(statement);
    sqlite3_close(sqlite);
    kit_free(&kit);
}

static const char settings[] = "{\"limits\": [{\"rpm\": 3}], \"tags\": {\"\xc3\xa4\": \"\\n\"}}";

static void put_key_with(struct ledger *ledger, const char *name, int byte, const char *text)
{
    struct ledger_admin_key key = key_of("b", name, byte);

    key.text = text;
    key.bytes = text != NULL ? strlen(text) : 0;
    if (!ledger_admin_put_key(ledger, &key, &problem))
        fail_msg("%s", problem.text);
}

static void a_key_keeps_its_settings(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct ledger_admin_key key = key_of("b", "ci", 0xab);
    (void)state;

    put_key_with(ledger, "ci", 0xab, settings);
    put_key_with(ledger, "dev", 7, NULL);
    put_key_with(ledger, "none", 8, "");
    struct ledger_admin before = read_all(ledger);
    put_key_with(ledger, "ci", 0xab, NULL); /* and is without them, and has them again */
    ledger_admin_free(&before);
    before = read_all(ledger);
    assert_null(before.keys[0].text);
    put_key_with(ledger, "ci", 0xab, settings);
    ledger_admin_free(&before);
    before = read_all(ledger);
    assert_true(ledger_admin_drop_tenant(ledger, "b", &problem));
    assert_true(ledger_admin_restore(ledger, "b", &before, &problem));
    ledger_admin_free(&before);
    kit_close(ledger);

    ledger = kit_open(&kit);
    struct ledger_admin all = read_all(ledger);
    assert_int_equal(all.n_keys, 3);
    assert_string_equal(all.keys[0].name, "ci");
    assert_string_equal(all.keys[0].text, settings);
    assert_int_equal(all.keys[0].bytes, sizeof settings - 1);
    assert_memory_equal(all.keys[0].sha256, key.sha256, 32);
    assert_int_equal(all.keys[0].not_after, NOW + DAY);
    assert_int_equal(all.keys[0].made_at, NOW);
    assert_null(all.keys[1].text);
    assert_string_equal(all.keys[2].text, "");
    assert_int_equal(all.keys[2].sha256[31], 8);
    ledger_admin_free(&all);
    kit_close(ledger);
    kit_free(&kit);
}

static void run_sql(const struct kit *kit, const char *sql)
{
    sqlite3 *sqlite = NULL;

    assert_int_equal(sqlite3_open(kit->path, &sqlite), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sqlite, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(sqlite);
}

/* The version before takes 32 bytes for a hash, and anything else for that of no key; it reads,
 * writes and drops rows as here. */
static void a_key_with_settings_opens_nothing_in_the_version_before(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    sqlite3_stmt *statement = NULL;
    sqlite3 *sqlite = NULL;
    (void)state;

    put_key_with(ledger, "ci", 0xab, settings);
    put_key_with(ledger, "dev", 7, NULL);
    kit_close(ledger);
    assert_int_equal(sqlite3_open(kit.path, &sqlite), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(sqlite,
                                        "SELECT tenant, name, sha256, not_after, made_at FROM"
                                        " admin_keys ORDER BY tenant, name",
                                        -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(statement, 1), "ci");
    assert_int_not_equal(sqlite3_column_bytes(statement, 2), 32);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_int_equal(sqlite3_column_bytes(statement, 2), 32);
    sqlite3_finalize(statement);
    sqlite3_close(sqlite);
    run_sql(&kit, "INSERT OR REPLACE INTO admin_keys VALUES ('b', 'new', zeroblob(32), 1, 2);"
                  "DELETE FROM admin_keys WHERE tenant = 'b' AND name = 'ci'");
    ledger = kit_open(&kit);
    struct ledger_admin all = read_all(ledger);
    assert_int_equal(all.n_keys, 2);
    assert_string_equal(all.keys[1].name, "new");
    ledger_admin_free(&all);
    kit_close(ledger);
    kit_free(&kit);
}

static void a_row_that_somebody_spoilt_opens_nothing(void **state)
{
    static const char *const spoilt[] = {
        "''", "'{}'", "'" HEX "'", "'" HEX "x{}'", "'g' || '" HEX "'", "'" HEX "'|| '1 {}'",
        "zeroblob(31)"};
    static const uint8_t no_secret[32];
    char sql[256];
    (void)state;

    for (size_t i = 0; i < sizeof spoilt / sizeof spoilt[0]; i++) {
        struct kit kit = kit_new();
        struct ledger *ledger = kit_open(&kit);
        put_key_with(ledger, "ci", 0xab, settings);
        kit_close(ledger);
        snprintf(sql, sizeof sql, "UPDATE admin_keys SET sha256 = %s", spoilt[i]);
        run_sql(&kit, sql);
        ledger = kit_open(&kit);
        struct ledger_admin all = read_all(ledger);
        assert_int_equal(all.n_keys, 1);
        assert_null(all.keys[0].text);
        assert_memory_equal(all.keys[0].sha256, no_secret, 32);
        ledger_admin_free(&all);
        kit_close(ledger);
        kit_free(&kit);
    }
}

static void memory_keeps_it_as_long_as_the_ledger(void **state)
{
    struct ledger_config config;
    struct ledger *ledger = NULL;
    (void)state;

    ledger_config_init(&config);
    config.path = ":memory:";
    config.slots = 16;
    assert_true(ledger_open(&config, &ledger, &problem));
    put_tenant(ledger, "x", "{}");
    put_key(ledger, "x", "k", 1);
    expect_counts(ledger, 1, 1, 0);
    kit_close(ledger);
}

static void the_second_of_a_name_replaces_the_first(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    (void)state;

    put_tenant(ledger, "x", "{\"weight\":1}");
    put_tenant(ledger, "x", "{\"weight\":2}");
    put_key(ledger, "x", "k", 1);
    put_key(ledger, "x", "k", 2);
    struct ledger_admin all = read_all(ledger);
    assert_int_equal(all.n_tenants, 1);
    assert_string_equal(all.tenants[0].text, "{\"weight\":2}");
    assert_int_equal(all.n_keys, 1);
    assert_int_equal(all.keys[0].sha256[31], 2);
    ledger_admin_free(&all);
    kit_close(ledger);
    kit_free(&kit);
}

static void a_tenant_goes_with_all_that_is_its(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    (void)state;

    put_tenant(ledger, "x", "{}");
    put_tenant(ledger, "xx", "{}");
    put_key(ledger, "x", "k", 1);
    put_key(ledger, "x", "l", 2);
    put_key(ledger, "xx", "k", 3);
    add_topup(ledger, "x", 1, NOW + DAY);
    add_topup(ledger, "xx", 1, NOW + DAY);
    assert_true(ledger_admin_drop_key(ledger, "x", "k", &problem));
    expect_counts(ledger, 2, 2, 2);
    assert_true(ledger_admin_drop_tenant(ledger, "x", &problem));
    expect_counts(ledger, 1, 1, 1);
    assert_true(ledger_admin_drop_tenant(ledger, "x", &problem));
    kit_close(ledger);
    kit_free(&kit);
}

static void a_number_of_a_topup_never_comes_again(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    (void)state;

    int64_t first = add_topup(ledger, "x", 1, NOW + DAY);
    assert_true(ledger_admin_drop_topup(ledger, first, &problem));
    kit_close(ledger);
    ledger = kit_open(&kit);
    assert_true(add_topup(ledger, "x", 1, NOW + DAY) > first);
    kit_close(ledger);
    kit_free(&kit);
}

static void a_topup_lapses_at_its_end_and_not_before(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    (void)state;

    add_topup(ledger, "x", 1, NOW + DAY);
    add_topup(ledger, "x", 2, TG_NUMBER_MAX);
    assert_true(ledger_admin_lapse(ledger, NOW + DAY - 1, &problem));
    expect_counts(ledger, 0, 0, 2);
    assert_true(ledger_admin_lapse(ledger, NOW + DAY, &problem));
    struct ledger_admin all = read_all(ledger);
    assert_int_equal(all.n_topups, 1);
    assert_int_equal(all.topups[0].micro, 2);
    ledger_admin_free(&all);
    kit_close(ledger);
    kit_free(&kit);
}

static void a_tenant_can_be_put_back_as_it_was(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    (void)state;

    put_tenant(ledger, "x", "{\"weight\":1}");
    put_tenant(ledger, "y", "{}");
    put_key(ledger, "x", "k", 1);
    int64_t id = add_topup(ledger, "x", 5, NOW + DAY);
    struct ledger_admin before = read_all(ledger);
    assert_true(ledger_admin_drop_tenant(ledger, "x", &problem));
    put_tenant(ledger, "x", "{\"weight\":2}");
    put_key(ledger, "x", "l", 2);
    assert_true(ledger_admin_restore(ledger, "x", &before, &problem));
    ledger_admin_free(&before);
    struct ledger_admin all = read_all(ledger);
    assert_int_equal(all.n_tenants, 2);
    assert_string_equal(all.tenants[0].text, "{\"weight\":1}");
    assert_int_equal(all.n_keys, 1);
    assert_string_equal(all.keys[0].name, "k");
    assert_int_equal(all.n_topups, 1);
    assert_int_equal(all.topups[0].id, id);
    /* One that was not there before is not there again. */
    put_tenant(ledger, "z", "{}");
    assert_true(ledger_admin_restore(ledger, "z", &all, &problem));
    ledger_admin_free(&all);
    expect_counts(ledger, 2, 1, 1);
    kit_close(ledger);
    kit_free(&kit);
}

static void a_change_that_fails_changes_nothing(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct ledger_admin_tenant tenant = tenant_of("y", "{}");
    (void)state;

    put_tenant(ledger, "x", "{}");
    put_key(ledger, "x", "k", 1);
    kit_faults.fail_at = kit_faults.operations + 1;
    kit_faults.fail_until = kit_faults.fail_at + 1000;
    kit_faults.code = SQLITE_FULL;
    assert_false(ledger_admin_put_tenant(ledger, &tenant, &problem));
    assert_non_null(strstr(problem.text, kit.path));
    assert_false(ledger_admin_drop_tenant(ledger, "x", &problem));
    kit_faults.fail_at = 0;
    expect_counts(ledger, 1, 1, 0);
    put_tenant(ledger, "y", "{}");
    expect_counts(ledger, 2, 1, 0);
    kit_close(ledger);
    kit_free(&kit);
}

static void what_is_too_long_is_refused(void **state)
{
    static char text[LEDGER_ADMIN_TEXT_MAX + 2];
    struct ledger_admin_tenant tenant = {.name = "x", .text = text, .bytes = sizeof text - 1};
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    (void)state;

    memset(text, 'x', sizeof text - 1);
    assert_false(ledger_admin_put_tenant(ledger, &tenant, &problem));
    assert_non_null(strstr(problem.text, "262144"));
    tenant.bytes--;
    assert_true(ledger_admin_put_tenant(ledger, &tenant, &problem));
    tenant.name = text;
    assert_false(ledger_admin_put_tenant(ledger, &tenant, &problem));
    expect_counts(ledger, 1, 0, 0);
    struct ledger_admin_key key = key_of("x", "ci", 1);
    key.text = text;
    key.bytes = LEDGER_ADMIN_SETTINGS_MAX + 1;
    assert_false(ledger_admin_put_key(ledger, &key, &problem));
    assert_non_null(strstr(problem.text, "16384"));
    key.bytes--;
    assert_true(ledger_admin_put_key(ledger, &key, &problem));
    key.text = "{}";
    key.bytes = 3;
    assert_false(ledger_admin_put_key(ledger, &key, &problem));
    expect_counts(ledger, 1, 1, 0);
    kit_close(ledger);
    kit_free(&kit);
}

static void there_is_a_most_of_them(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct ledger_admin_topup topup = topup_of("x", 1, NOW + DAY);
    sqlite3 *sqlite = NULL;
    int64_t id;
    (void)state;

    /* One by one would take long: the rest is written beside it. */
    add_topup(ledger, "x", 1, NOW + DAY);
    kit_close(ledger);
    assert_int_equal(sqlite3_open(kit.path, &sqlite), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(sqlite,
                     "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE"
                     " i < 9999) INSERT INTO admin_topups (tenant, per, tz, micro_usd, made_at,"
                     " ends_at) SELECT 'x', 0, 'UTC', 1, 0, 9 FROM n",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(sqlite);
    ledger = kit_open(&kit);
    expect_counts(ledger, 0, 0, LEDGER_ADMIN_TOPUPS_MAX - 1);
    assert_true(ledger_admin_add_topup(ledger, &topup, &id, &problem));
    assert_false(ledger_admin_add_topup(ledger, &topup, &id, &problem));
    assert_non_null(strstr(problem.text, "10000"));
    expect_counts(ledger, 0, 0, LEDGER_ADMIN_TOPUPS_MAX);
    kit_close(ledger);
    kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_made_is_there_after_a_restart),
        cmocka_unit_test(a_database_from_before_has_nothing_of_it),
        cmocka_unit_test(the_version_of_the_schema_stays),
        cmocka_unit_test(a_key_keeps_its_settings),
        cmocka_unit_test(a_key_with_settings_opens_nothing_in_the_version_before),
        cmocka_unit_test(a_row_that_somebody_spoilt_opens_nothing),
        cmocka_unit_test(memory_keeps_it_as_long_as_the_ledger),
        cmocka_unit_test(the_second_of_a_name_replaces_the_first),
        cmocka_unit_test(a_tenant_goes_with_all_that_is_its),
        cmocka_unit_test(a_number_of_a_topup_never_comes_again),
        cmocka_unit_test(a_topup_lapses_at_its_end_and_not_before),
        cmocka_unit_test(a_tenant_can_be_put_back_as_it_was),
        cmocka_unit_test(a_change_that_fails_changes_nothing),
        cmocka_unit_test(what_is_too_long_is_refused),
        cmocka_unit_test(there_is_a_most_of_them),
    };

    kit_wrap_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
