/* test_ledger_uncertain.c - money without a provider's word: against the budget, and kept apart. */
#include "ledger_kit.h"

#include "server/ledger/spending.h"

/* ---- Sums ---- */

static struct apart apart_of_view(const struct kit *kit)
{
    struct tg_problem problem = {""};
    struct ledger_view *view = NULL;
    struct apart apart = {0};

    if (!ledger_view_open(kit->path, &view, &problem) ||
        !ledger_view_scan(view, 0, kit_add_apart, &apart, &problem))
        fail_msg("%s", problem.text);
    ledger_view_close(view);
    return apart;
}

static void check_apart(struct apart apart, tg_micro micro, tg_micro uncertain, int64_t calls)
{
    assert_int_equal(apart.micro, micro);
    assert_int_equal(apart.uncertain, uncertain);
    assert_int_equal(apart.calls, calls);
}

static void spend_uncertain(struct ledger *ledger, uint32_t tenant, tg_ms at, tg_micro micro,
                            tg_micro uncertain)
{
    struct ledger_entry entry = kit_entry(tenant, "u", at, micro);

    entry.uncertain = uncertain;
    assert_true(ledger_take_room(ledger));
    ledger_append(ledger, &entry);
}

/* ---- The ledger ---- */

static void it_stays_apart_in_journal_and_database(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    (void)state;

    spend_uncertain(ledger, a, NOW, 100, 7);
    spend_uncertain(ledger, a, NOW, 10, 0);
    spend_uncertain(ledger, a, NOW, 1, -5);
    check_apart(kit_apart(ledger), 111, 7, 3);
    check_apart(apart_of_view(&kit), 111, 7, 3);
    assert_int_equal(kit_spent(ledger, "a", "u", 0), 118);
    kit_flush(ledger);
    check_apart(kit_apart(ledger), 111, 7, 3);
    check_apart(apart_of_view(&kit), 111, 7, 3);
    assert_int_equal(kit_spent(ledger, "a", "u", 0), 118);
    kit_close(ledger);
    assert_int_equal(kit_ask(kit.path, "SELECT sum(uncertain) FROM calls"), 7);
    assert_int_equal(kit_ask(kit.path, "SELECT count(*) FROM calls WHERE flags & 16"), 1);
    assert_int_equal(kit_ask(kit.path, "SELECT sum(uncertain) FROM sums"), 7);
    kit_free(&kit);
}

/* A slot is used again: what the last entry had there is not taken for this one's. */
static void a_slot_forgets_what_was_uncertain_before(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    (void)state;

    for (int lap = 0; lap < 2; lap++) {
        for (int i = 0; i < 64; i++)
            spend_uncertain(ledger, a, NOW, 1, lap == 0 ? 3 : 0);
        kit_flush(ledger);
    }
    check_apart(kit_apart(ledger), 128, 192, 128);
    assert_int_equal(kit_state(ledger).damaged, 0);
    kit_close(ledger);
    kit_free(&kit);
}

static void it_stays_apart_when_sums_grow_coarser(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    (void)state;

    for (int i = 0; i < 500; i++) {
        spend_uncertain(ledger, a, NOW + i * DAY, 100, i);
        if (i % 50 == 0)
            kit_flush(ledger);
    }
    kit_flush(ledger);
    kit_roll(ledger, NOW + 500 * DAY);
    check_apart(kit_apart(ledger), 50000, 499 * 500 / 2, 500);
    kit_close(ledger);
    assert_int_equal(kit_ask(kit.path, "SELECT count(*) FROM sums WHERE span = 2"), 1);
    kit_free(&kit);
}

static void sums_of_it_saturate(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    (void)state;

    for (int i = 0; i < 3; i++) {
        spend_uncertain(ledger, a, NOW, TG_MONEY_MAX, INT64_MAX);
        kit_flush(ledger);
    }
    check_apart(kit_apart(ledger), TG_MONEY_MAX, TG_MONEY_MAX, 3);
    assert_int_equal(kit_spent(ledger, NULL, NULL, 0), TG_MONEY_MAX);
    kit_close(ledger);
    kit_free(&kit);
}

/* ---- A ledger of version 1 ---- */

static const char version_1[] =
    "PRAGMA journal_mode = WAL; BEGIN;"
    "CREATE TABLE ledger ( one INTEGER PRIMARY KEY CHECK (one = 1), token INTEGER NOT NULL,"
    " moved INTEGER NOT NULL, closed INTEGER NOT NULL, ever_until INTEGER NOT NULL);"
    "CREATE TABLE tenants ( id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name TEXT NOT NULL,"
    " UNIQUE (parent, name));"
    "CREATE TABLE names (id INTEGER PRIMARY KEY, text BLOB NOT NULL UNIQUE);"
    "CREATE TABLE calls ( sequence INTEGER PRIMARY KEY, reserved_at INTEGER NOT NULL,"
    " settled_at INTEGER NOT NULL, tenant INTEGER NOT NULL, user INTEGER NOT NULL,"
    " model INTEGER NOT NULL, provider INTEGER NOT NULL, key INTEGER NOT NULL,"
    " input INTEGER NOT NULL, cached_input INTEGER NOT NULL, cache_write INTEGER NOT NULL,"
    " output INTEGER NOT NULL, micro_usd INTEGER NOT NULL, flags INTEGER NOT NULL);"
    "CREATE INDEX calls_by_time ON calls (reserved_at);"
    "CREATE TABLE sums ( span INTEGER NOT NULL, begin INTEGER NOT NULL, tenant INTEGER NOT NULL,"
    " user INTEGER NOT NULL, model INTEGER NOT NULL, calls INTEGER NOT NULL,"
    " input INTEGER NOT NULL,"
    " cached_input INTEGER NOT NULL, cache_write INTEGER NOT NULL, output INTEGER NOT NULL,"
    " micro_usd INTEGER NOT NULL, PRIMARY KEY (span, begin, tenant, user, model)) WITHOUT ROWID;"
    "INSERT INTO ledger VALUES (1, 4711, 12, 1, 0);"
    "INSERT INTO tenants VALUES (1, 0, 'a');"
    "INSERT INTO names VALUES (1, CAST('demo-small' AS BLOB)), (2, CAST('u' AS BLOB));"
    "INSERT INTO calls VALUES"
    " (12, 1790000000000, 1790000000500, 1, 2, 1, 0, 0, 10, 0, 0, 5, 40, 0);"
    "INSERT INTO sums VALUES (0, 1789999200000, 1, 2, 1, 1, 10, 0, 0, 5, 40);"
    "PRAGMA application_id = 1416588396; PRAGMA user_version = 1; COMMIT";

static void a_ledger_of_version_1_is_read_and_converted(void **state)
{
    struct kit kit = kit_new();
    (void)state;

    kit_sql(kit.path, version_1);
    /* Looking changes nothing. */
    check_apart(apart_of_view(&kit), 40, 0, 1);
    assert_int_equal(kit_ask(kit.path, "PRAGMA user_version"), 1);

    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    assert_int_equal(a, 1);
    check_apart(kit_apart(ledger), 40, 0, 1);
    spend_uncertain(ledger, a, NOW, 2, 3);
    kit_close(ledger);
    assert_int_equal(kit_ask(kit.path, "PRAGMA user_version"), 2);
    check_apart(apart_of_view(&kit), 42, 3, 2);
    assert_int_equal(kit_ask(kit.path, "SELECT micro_usd + uncertain FROM calls"
                                       " WHERE sequence = 13"),
                     5);
    ledger = kit_open(&kit);
    check_apart(kit_apart(ledger), 42, 3, 2);
    kit_close(ledger);
    kit_free(&kit);
}

/* Whichever write fails: it is a ledger of version 1 or of version 2, and the next attempt is good.
 */
static void a_conversion_that_fails_is_repeated(void **state)
{
    (void)state;
    for (long at = 1; at < 40; at++) {
        struct kit kit = kit_new();
        struct ledger_config config = kit_config(&kit);
        struct tg_problem problem = {""};
        struct ledger *ledger = NULL;

        kit_sql(kit.path, version_1);
        kit_faults.operations = 0;
        kit_faults.fail_at = at;
        kit_faults.fail_until = at;
        kit_faults.code = SQLITE_IOERR_WRITE;
        bool opened = ledger_open(&config, &ledger, &problem);
        kit_faults.fail_at = 0;
        if (opened)
            (void)ledger_close(ledger, &problem);
        check_apart(apart_of_view(&kit), 40, 0, 1);
        ledger = kit_open(&kit);
        check_apart(kit_apart(ledger), 40, 0, 1);
        kit_close(ledger);
        assert_int_equal(kit_ask(kit.path, "PRAGMA user_version"), 2);
        kit_free(&kit);
    }
}

/* ---- Budgets ---- */

static struct spending *spending_with(struct ledger *ledger, const struct tg_budget *budget)
{
    const struct spending_tenant tenant = {"a", SPENDING_TOP, budget, 1, budget, 1, NULL, 0};
    const struct spending_tree tree = {budget, 1, &tenant, 1};
    struct spending_config config = {.ledger = ledger};
    struct tg_problem problem = {""};
    struct spending *spending = NULL;

    tg_bank_config_init(&config.bank);
    if (!spending_new(&config, &tree, NOW, &spending, &problem))
        fail_msg("%s", problem.text);
    return spending;
}

static tg_micro left_in(struct spending *spending)
{
    struct spending_call call = {.tenant = "a", .hint = 0, .user = kit_text("u")};
    tg_micro left;
    double part;

    assert_int_equal(spending_left(spending, &call, NOW, &left, &part), TG_OK);
    return left;
}

static void settle_in(struct spending *spending, tg_micro reserved, tg_micro spent,
                      tg_micro uncertain)
{
    struct spending_call call = {.tenant = "a", .user = kit_text("u"), .money = reserved};
    struct spending_use use = {.spent = spent, .uncertain = uncertain, .user = kit_text("u")};
    struct spending_ticket ticket;
    struct tg_money_answer answer;

    assert_int_equal(spending_reserve(spending, &call, NOW, &ticket, &answer), TG_OK);
    assert_int_not_equal(ticket.reservation, 0);
    assert_true(spending_settle(spending, &ticket, &use, NOW));
}

static void budgets_hold_it_before_and_after_a_restart(void **state)
{
    const struct tg_budget budget = {1000, TG_PER_DAY, NULL, TG_ENFORCE};
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct spending *spending = spending_with(ledger, &budget);
    (void)state;

    settle_in(spending, 500, 100, 200);
    assert_int_equal(left_in(spending), 700);
    settle_in(spending, 300, 0, 300); /* nothing is known but the bound */
    assert_int_equal(left_in(spending), 400);
    settle_in(spending, 50, -1, 9); /* the reservation is the bill: nothing besides */
    assert_int_equal(left_in(spending), 350);
    settle_in(spending, 50, 0, 0);
    assert_int_equal(left_in(spending), 350);
    check_apart(kit_apart(ledger), 150, 500, 3);
    spending_free(spending);

    spending = spending_with(ledger, &budget); /* from the journal */
    assert_int_equal(left_in(spending), 350);
    spending_free(spending);
    kit_close(ledger);
    ledger = kit_open(&kit);
    spending = spending_with(ledger, &budget); /* from the database */
    assert_int_equal(left_in(spending), 350);
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

static void the_store_is_told_all_of_it(void **state)
{
    (void)state;
    assert_int_equal(spending_use_total(&(struct spending_use){.spent = 5, .uncertain = 6}), 11);
    assert_int_equal(spending_use_total(&(struct spending_use){.spent = 5, .uncertain = -6}), 5);
    assert_int_equal(spending_use_total(&(struct spending_use){.spent = -1, .uncertain = 6}), -1);
    assert_int_equal(
        spending_use_total(&(struct spending_use){.spent = TG_MONEY_MAX, .uncertain = INT64_MAX}),
        TG_MONEY_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_stays_apart_in_journal_and_database),
        cmocka_unit_test(a_slot_forgets_what_was_uncertain_before),
        cmocka_unit_test(it_stays_apart_when_sums_grow_coarser),
        cmocka_unit_test(sums_of_it_saturate),
        cmocka_unit_test(a_ledger_of_version_1_is_read_and_converted),
        cmocka_unit_test(a_conversion_that_fails_is_repeated),
        cmocka_unit_test(budgets_hold_it_before_and_after_a_restart),
        cmocka_unit_test(the_store_is_told_all_of_it),
    };

    kit_wrap_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
