/* test_ledger.c - what a ledger promises while nothing goes wrong. */
#include "ledger_kit.h"

static void an_entry_counts_at_once_and_once(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    (void)state;

    kit_spend(ledger, a, "", NOW, 5);
    assert_int_equal(kit_spent(ledger, "a", NULL, NOW - HOUR), 5);
    assert_int_equal(kit_state(ledger).waiting, 1);
    kit_flush(ledger);
    assert_int_equal(kit_state(ledger).waiting, 0);
    assert_int_equal(kit_spent(ledger, "a", NULL, NOW - HOUR), 5);
    kit_spend(ledger, a, "", NOW, 7);
    assert_int_equal(kit_spent(ledger, "a", NULL, NOW - HOUR), 12);
    kit_flush(ledger);
    kit_flush(ledger);
    assert_int_equal(kit_spent(ledger, "a", NULL, NOW - HOUR), 12);
    kit_close(ledger);
    kit_free(&kit);
}

static void spend_survives_a_restart(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    (void)state;

    kit_spend(ledger, a, "u", NOW, 5);
    kit_flush(ledger);
    kit_spend(ledger, a, "u", NOW, 6); /* moved when it is closed */
    kit_close(ledger);
    ledger = kit_open(&kit);
    assert_int_equal(kit_state(ledger).recovered, 0);
    assert_int_equal(kit_tenant(ledger, 0, "a"), a);
    assert_int_equal(kit_spent(ledger, "a", "u", 0), 11);
    kit_spend(ledger, a, "u", NOW, 1);
    kit_close(ledger);
    assert_int_equal(kit_view(&kit, 0), 12);
    kit_free(&kit);
}

static void a_parent_has_spent_what_is_spent_beneath_it(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t top = kit_tenant(ledger, 0, "product");
    uint32_t a = kit_tenant(ledger, top, "a"), b = kit_tenant(ledger, top, "b");
    uint32_t leaf = kit_tenant(ledger, a, "leaf"), other = kit_tenant(ledger, 0, "other");
    (void)state;

    for (int moved = 0; moved < 2; moved++) {
        kit_spend(ledger, a, "", NOW, 1);
        kit_spend(ledger, b, "", NOW, 10);
        kit_spend(ledger, leaf, "u", NOW, 100);
        kit_spend(ledger, leaf, "v", NOW, 1000);
        kit_spend(ledger, other, "u", NOW, 10000);
        if (moved == 0)
            kit_flush(ledger);
    }
    assert_int_equal(kit_spent(ledger, NULL, NULL, 0), 22222);
    assert_int_equal(kit_spent(ledger, "product", NULL, 0), 2222);
    assert_int_equal(kit_spent(ledger, "a", NULL, 0), 2202);
    assert_int_equal(kit_spent(ledger, "leaf", NULL, 0), 2200);
    assert_int_equal(kit_spent(ledger, "leaf", "u", 0), 200);
    assert_int_equal(kit_spent(ledger, "product", "u", 0), 200);
    assert_int_equal(kit_spent(ledger, NULL, "u", 0), 20200);
    assert_int_equal(kit_spent(ledger, "nobody", NULL, 0), 0);
    kit_close(ledger);
    kit_free(&kit);
}

static void a_tenant_that_moves_leaves_its_spend_with_both(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t p = kit_tenant(ledger, 0, "p"), q = kit_tenant(ledger, 0, "q");
    (void)state;

    kit_spend(ledger, kit_tenant(ledger, p, "a"), "", NOW, 100);
    kit_spend(ledger, kit_tenant(ledger, q, "a"), "", NOW, 11);
    assert_int_equal(kit_spent(ledger, "p", NULL, 0), 100);
    assert_int_equal(kit_spent(ledger, "q", NULL, 0), 11);
    assert_int_equal(kit_spent(ledger, "a", NULL, 0), 111);
    kit_close(ledger);
    kit_free(&kit);
}

static void the_reservation_says_which_window(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    tg_ms midnight = NOW - NOW % DAY;
    struct ledger_entry entry = kit_entry(a, "", midnight - 1, 100);
    (void)state;

    entry.settled_at = midnight + 60000;
    assert_true(ledger_take_room(ledger));
    ledger_append(ledger, &entry);
    kit_spend(ledger, a, "", midnight, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kit_spent(ledger, "a", NULL, midnight), 1);
        assert_int_equal(kit_spent(ledger, "a", NULL, midnight - 15 * MINUTE), 101);
        /* Not the beginning of a quarter: all of it counts. */
        assert_int_equal(kit_spent(ledger, "a", NULL, midnight - 1), 101);
        assert_int_equal(kit_spent(ledger, "a", NULL, midnight + MINUTE), 1);
        assert_int_equal(kit_spent(ledger, "a", NULL, midnight + 15 * MINUTE), 0);
        kit_flush(ledger);
    }
    kit_close(ledger);
    kit_free(&kit);
}

static void a_name_too_long_is_cut_and_its_money_is_not(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct ledger_entry entry = kit_entry(kit_tenant(ledger, 0, "a"), "", NOW, 5);
    char name[LEDGER_NAME_MAX + 51];
    (void)state;

    memset(name, 'x', sizeof name);
    entry.user = entry.model = entry.provider = entry.key =
        (struct ledger_text){name, sizeof name - 1};
    assert_true(ledger_take_room(ledger));
    ledger_append(ledger, &entry);
    name[LEDGER_NAME_MAX] = '\0';
    assert_int_equal(kit_spent(ledger, "a", name, 0), 5);
    kit_close(ledger);
    assert_int_equal(kit_ask(kit.path, "SELECT flags FROM calls"), LEDGER_CUT);
    assert_int_equal(kit_ask(kit.path, "SELECT count(*) FROM names"), 1);
    kit_free(&kit);
}

static void a_name_may_hold_any_bytes(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct ledger_entry entry = kit_entry(kit_tenant(ledger, 0, "a"), "", NOW, 5);
    (void)state;

    entry.user = (struct ledger_text){"\xff'\0;--", 6};
    assert_true(ledger_take_room(ledger));
    ledger_append(ledger, &entry);
    kit_close(ledger);
    assert_int_equal(kit_ask(kit.path, "SELECT count(*) FROM names WHERE text = x'ff27003b2d2d'"),
                     1);
    kit_free(&kit);
}

static void every_field_of_a_call_is_kept(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct ledger_entry entry = kit_entry(kit_tenant(ledger, 0, "a"), "u", NOW, 77);
    (void)state;

    entry.flags = LEDGER_ESTIMATED | LEDGER_CANCELLED;
    entry.settled_at = NOW + 1234;
    assert_true(ledger_take_room(ledger));
    ledger_append(ledger, &entry);
    kit_close(ledger);
    assert_int_equal(
        kit_ask(kit.path,
                "SELECT count(*) FROM calls c JOIN names u ON u.id = c.user"
                " JOIN names m ON m.id = c.model JOIN names p ON p.id = c.provider"
                " JOIN names k ON k.id = c.key JOIN tenants t ON t.id = c.tenant"
                " WHERE sequence = 1 AND reserved_at = 1790000000000 AND t.name = 'a'"
                " AND settled_at = 1790000001234 AND u.text = x'75' AND p.text = CAST('demo' AS "
                "BLOB) AND m.text = CAST('demo-small' AS BLOB) AND k.text = x'6b31'"
                " AND input = 10 AND cached_input = 20 AND cache_write = 30 AND output = 40"
                " AND micro_usd = 77 AND flags = 5"),
        1);
    kit_free(&kit);
}

/* However many are moved at once: rows are handed to SQLite some at a time. */
static void every_call_of_a_flush_is_kept(void **state)
{
    static const int64_t many[] = {1, 15, 16, 17, 31, 32, 33, 50};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(many); i++) {
        struct kit kit = kit_new();
        struct ledger *ledger = kit_open(&kit);
        uint32_t a = kit_tenant(ledger, 0, "a");
        int64_t n = many[i];
        for (int64_t k = 1; k <= n; k++)
            kit_spend(ledger, a, k % 2 != 0 ? "odd" : "even", NOW + k, 1000 + k);
        kit_flush(ledger);
        kit_close(ledger);
        assert_int_equal(kit_ask(kit.path, "SELECT count(*) FROM calls"), n);
        assert_int_equal(kit_ask(kit.path, "SELECT count(*) FROM calls c JOIN names u"
                                           " ON u.id = c.user WHERE micro_usd = 1000 + sequence"
                                           " AND reserved_at = 1790000000000 + sequence"
                                           " AND CAST(u.text AS TEXT) ="
                                           " iif(sequence % 2, 'odd', 'even')"),
                         n);
        assert_int_equal(kit_view(&kit, 0), 1000 * n + n * (n + 1) / 2);
        kit_free(&kit);
    }
}

static void sums_saturate_and_never_turn_negative(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a"), b = kit_tenant(ledger, 0, "b");
    struct ledger_entry entry = kit_entry(a, "", NOW, INT64_MAX);
    (void)state;

    entry.usage = (struct tg_usage){.input = INT64_MAX,
                                    .cached_input = INT64_MAX,
                                    .cache_write = INT64_MAX,
                                    .output = INT64_MAX};
    for (int i = 0; i < 3; i++) {
        assert_true(ledger_take_room(ledger));
        ledger_append(ledger, &entry);
        assert_int_equal(kit_spent(ledger, "a", NULL, 0), TG_MONEY_MAX);
        if (i > 0)
            kit_flush(ledger);
    }
    kit_spend(ledger, b, "", NOW, -5);
    entry = kit_entry(b, "", INT64_MIN, -1);
    entry.usage =
        (struct tg_usage){.input = -1, .cached_input = -1, .cache_write = -1, .output = -1};
    assert_true(ledger_take_room(ledger));
    ledger_append(ledger, &entry);
    assert_int_equal(kit_spent(ledger, "b", NULL, 0), 0);
    assert_int_equal(kit_spent(ledger, NULL, NULL, 0), TG_MONEY_MAX);
    kit_roll(ledger, NOW + 100 * DAY);
    kit_roll(ledger, NOW + 1000 * DAY);
    assert_int_equal(kit_spent(ledger, NULL, NULL, 0), TG_MONEY_MAX);
    kit_close(ledger);
    assert_int_equal(kit_ask(kit.path, "SELECT min(micro_usd >= 0 AND input >= 0 AND"
                                       " typeof(micro_usd) = 'integer') FROM sums"),
                     1);
    kit_free(&kit);
}

static void room_that_was_promised_is_there(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct ledger_entry entry = kit_entry(kit_tenant(ledger, 0, "a"), "", NOW, 1);
    (void)state;

    assert_int_equal(kit_state(ledger).room, 64);
    for (int i = 0; i < 64; i++)
        assert_true(ledger_take_room(ledger));
    assert_false(ledger_take_room(ledger));
    assert_int_equal(kit_state(ledger).health, LEDGER_FULL);
    ledger_give_room(ledger);
    assert_true(ledger_take_room(ledger));
    for (int i = 0; i < 64; i++)
        ledger_append(ledger, &entry);
    assert_false(ledger_take_room(ledger));
    kit_flush(ledger);
    assert_int_equal(kit_state(ledger).room, 64);
    assert_int_equal(kit_state(ledger).health, LEDGER_WELL);
    assert_int_equal(kit_spent(ledger, "a", NULL, 0), 64);
    kit_close(ledger);
    kit_free(&kit);
}

static void the_ring_goes_round(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    tg_micro total = 0;
    (void)state;

    for (int lap = 0; lap < 50; lap++) {
        for (int i = 0; i < 1 + lap % 64; i++) {
            kit_spend(ledger, a, "u", NOW + lap, 3 + i);
            total += 3 + i;
        }
        assert_int_equal(kit_view(&kit, 0), total);
        kit_flush(ledger);
    }
    kit_close(ledger);
    ledger = kit_open(&kit);
    assert_int_equal(kit_spent(ledger, "a", "u", 0), total);
    kit_close(ledger);
    kit_free(&kit);
}

static void memory_keeps_nothing_but_adds_up(void **state)
{
    struct ledger_config config;
    struct tg_problem problem = {""};
    struct ledger *ledger = NULL;
    (void)state;

    ledger_config_init(&config);
    config.path = ":memory:";
    for (int i = 0; i < 2; i++) {
        assert_true(ledger_open(&config, &ledger, &problem));
        assert_int_equal(kit_spent(ledger, NULL, NULL, 0), 0);
        kit_spend(ledger, kit_tenant(ledger, 0, "a"), "", NOW, 5);
        kit_flush(ledger);
        kit_spend(ledger, kit_tenant(ledger, 0, "a"), "", NOW, 6);
        assert_int_equal(kit_spent(ledger, "a", NULL, 0), 11);
        kit_close(ledger);
    }
    assert_int_equal(kit_size(":memory:"), -1);
    assert_int_equal(kit_size(":memory:.spend"), -1);
    assert_int_equal(kit_size(":memory:.lock"), -1);
}

static void a_second_owner_is_told_who_the_first_is(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    char words[64];
    (void)state;

    snprintf(words, sizeof words, "in use by process %ld;", (long)getpid());
    kit_refuses(&kit, words, "l.db");
    kit_spend(ledger, kit_tenant(ledger, 0, "a"), "", NOW, 5);
    kit_close(ledger);
    ledger = kit_open(&kit);
    assert_int_equal(kit_spent(ledger, "a", NULL, 0), 5);
    kit_close(ledger);
    kit_free(&kit);
}

static void a_view_sees_what_is_still_in_the_journal(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    (void)state;

    kit_spend(ledger, a, "", NOW, 5);
    assert_int_equal(kit_view(&kit, 0), 5);
    kit_flush(ledger);
    assert_int_equal(kit_view(&kit, 0), 5);
    kit_spend(ledger, a, "", NOW, 6);
    assert_int_equal(kit_view(&kit, 0), 11);
    assert_int_equal(kit_view(&kit, NOW + HOUR), 0);
    kit_close(ledger);
    assert_int_equal(kit_view(&kit, 0), 11);
    kit_free(&kit);
}

static void settings_out_of_range_are_refused(void **state)
{
    static const struct {
        size_t slots;
        tg_ms detail;
        const char *path, *words;
    } rows[] = {{1, 0, "x", "slots is 1"},
                {(size_t)1 << 21, 0, "x", "slots is 2097152"},
                {64, -1, "x", "detail is -1"},
                {64, 0, "", "path"}};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ledger_config config = {rows[i].path, rows[i].detail, rows[i].slots, 0, -1};
        struct tg_problem problem = {""};
        struct ledger *ledger = NULL;
        assert_false(ledger_open(&config, &ledger, &problem));
        assert_non_null(strstr(problem.text, rows[i].words));
    }
}

static unsigned rights_of(const struct kit *kit, const char *suffix)
{
    char name[260];
    struct stat stat_of;

    snprintf(name, sizeof name, "%s%s", kit->path, suffix);
    assert_int_equal(stat(name, &stat_of), 0);
    return stat_of.st_mode & 0777;
}

static void attack_16_nobody_else_may_read_it_whatever_the_umask(void **state)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", ".spend", ".lock"};
    struct kit kit = kit_new();
    mode_t before = umask(0);
    (void)state;

    struct ledger *ledger = kit_open(&kit);
    (void)kit_tenant(ledger, 0, "a");
    for (size_t i = 0; i < COUNT_OF(suffixes); i++)
        assert_int_equal(rights_of(&kit, suffixes[i]), 0600);
    kit_close(ledger);
    /* Former versions made it so; and an administrator may want the group to read it. */
    const unsigned modes[][2] = {{0644, 0600}, {0666, 0600}, {0640, 0640}, {0600, 0600}};
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        assert_int_equal(chmod(kit.path, modes[i][0]), 0);
        ledger = kit_open(&kit);
        assert_int_equal(rights_of(&kit, ""), modes[i][1]);
        assert_int_equal(rights_of(&kit, "-wal"), modes[i][1]);
        kit_close(ledger);
    }
    umask(before);
    kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attack_16_nobody_else_may_read_it_whatever_the_umask),
        cmocka_unit_test(an_entry_counts_at_once_and_once),
        cmocka_unit_test(spend_survives_a_restart),
        cmocka_unit_test(a_parent_has_spent_what_is_spent_beneath_it),
        cmocka_unit_test(a_tenant_that_moves_leaves_its_spend_with_both),
        cmocka_unit_test(the_reservation_says_which_window),
        cmocka_unit_test(a_name_too_long_is_cut_and_its_money_is_not),
        cmocka_unit_test(a_name_may_hold_any_bytes),
        cmocka_unit_test(every_field_of_a_call_is_kept),
        cmocka_unit_test(every_call_of_a_flush_is_kept),
        cmocka_unit_test(sums_saturate_and_never_turn_negative),
        cmocka_unit_test(room_that_was_promised_is_there),
        cmocka_unit_test(the_ring_goes_round),
        cmocka_unit_test(memory_keeps_nothing_but_adds_up),
        cmocka_unit_test(a_second_owner_is_told_who_the_first_is),
        cmocka_unit_test(a_view_sees_what_is_still_in_the_journal),
        cmocka_unit_test(settings_out_of_range_are_refused),
    };

    kit_wrap_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
