/* test_ledger_damage.c - files that are not what they were: each is a clear error that names the
 * file and what to do, or a counted loss; and never an empty ledger in the place of one that was.
 *
 * A process that dies is played by a copy of its files: what it had not moved is in the journal.
 */
#include "ledger_kit.h"

#define HEAD 4096
#define SLOT 1024

/* A ledger with 100 in the database and 1 + 10 in the journal, left as by a process that died. */
static void leave_behind(struct kit *kit)
{
    static const char *const names[] = {"l.db", "l.db-wal", "l.db.spend"};
    struct kit living = kit_new();
    struct ledger *ledger = kit_open(&living);
    uint32_t a = kit_tenant(ledger, 0, "a");

    *kit = kit_new();
    kit_spend(ledger, a, "u", NOW, 100);
    kit_flush(ledger);
    kit_spend(ledger, a, "u", NOW, 1);
    kit_spend(ledger, a, "u", NOW, 10);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char from[240], to[240];
        snprintf(from, sizeof from, "%s/%s", living.folder, names[i]);
        snprintf(to, sizeof to, "%s/%s", kit->folder, names[i]);
        kit_copy(from, to);
    }
    kit_close(ledger);
    kit_free(&living);
}

/* Opens, and expects this much and so many lost. */
static void expect_spent(const struct kit *kit, tg_micro micro, uint64_t damaged)
{
    struct ledger *ledger = kit_open(kit);

    assert_int_equal(kit_spent(ledger, "a", "u", NOW - HOUR), micro);
    assert_int_equal(kit_state(ledger).damaged, damaged);
    kit_close(ledger);
}

static void what_a_dead_process_left_is_counted_once(void **state)
{
    struct kit kit;
    struct ledger *ledger;
    (void)state;

    leave_behind(&kit);
    assert_int_equal(kit_view(&kit, 0), 111);
    ledger = kit_open(&kit);
    assert_int_equal(kit_state(ledger).recovered, 2);
    assert_int_equal(kit_spent(ledger, "a", NULL, 0), 111);
    kit_close(ledger);
    for (int i = 0; i < 3; i++)
        expect_spent(&kit, 111, 0);
    kit_free(&kit);
}

static void a_recovery_that_dies_is_repeated(void **state)
{
    struct kit kit;
    char keep[240];
    (void)state;

    leave_behind(&kit);
    snprintf(keep, sizeof keep, "%s/keep", kit.folder);
    kit_copy(kit.journal, keep);
    expect_spent(&kit, 111, 0);
    /* The journal as it was before: all of it has been moved, and its numbers say so. */
    kit_copy(keep, kit.journal);
    expect_spent(&kit, 111, 0);
    kit_free(&kit);
}

static void an_entry_that_was_not_finished_is_passed_over(void **state)
{
    struct kit kit;
    (void)state;

    /* The second entry's number is not written, nor its checksum: only the third counts. */
    leave_behind(&kit);
    kit_fill(kit.journal, HEAD + SLOT, 16, 0);
    expect_spent(&kit, 110, 0);

    /* A single blank slot is one whose append had only drawn its number. */
    kit_free(&kit);
    leave_behind(&kit);
    kit_fill(kit.journal, HEAD + SLOT, SLOT, 0);
    expect_spent(&kit, 110, 0);
    kit_free(&kit);
}

/* Each opens, says how many it lost, and says it once. */
static void bytes_of_somebody_else_in_an_entry_are_noticed(void **state)
{
    struct kit kit;
    struct ledger_view *view = NULL;
    (void)state;

    leave_behind(&kit);
    kit_fill(kit.journal, HEAD + SLOT, SLOT, 0xa5);
    assert_true(ledger_view_open(kit.path, &view, NULL));
    assert_int_equal(ledger_view_damaged(view), 1);
    ledger_view_close(view);
    expect_spent(&kit, 110, 1);
    expect_spent(&kit, 110, 0);

    /* At the end too, where nobody knows whether there was anything. */
    kit_fill(kit.journal, HEAD + 5 * SLOT, SLOT, 0xa5);
    expect_spent(&kit, 110, 1);
    expect_spent(&kit, 110, 0);
    kit_free(&kit);
}

static void entries_that_were_wiped_out_are_noticed(void **state)
{
    struct kit kit = kit_new(), dead = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    (void)state;

    for (int i = 0; i < 5; i++)
        kit_spend(ledger, a, "u", NOW, 1);
    kit_copy(kit.path, dead.path);
    kit_copy(kit.wal, dead.wal);
    kit_copy(kit.journal, dead.journal);
    kit_fill(dead.journal, HEAD + SLOT, 3 * SLOT, 0);
    kit_close(ledger);
    kit_free(&kit);
    expect_spent(&dead, 2, 3);
    expect_spent(&dead, 2, 0);
    kit_free(&dead);
}

/* Not only after a crash: what waits behind it must not wait for ever. */
static void an_entry_that_is_spoilt_meanwhile_holds_up_nobody(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    (void)state;

    for (int i = 0; i < 3; i++)
        kit_spend(ledger, a, "u", NOW, 1);
    kit_fill(kit.journal, HEAD + SLOT, SLOT, 0xa5);
    kit_flush(ledger);
    assert_int_equal(kit_state(ledger).waiting, 0);
    assert_int_equal(kit_state(ledger).damaged, 1);
    kit_close(ledger);
    expect_spent(&kit, 2, 0);
    kit_free(&kit);
}

static void a_number_that_is_damaged_loses_nothing(void **state)
{
    struct kit kit;
    (void)state;

    leave_behind(&kit);
    kit_flip(kit.journal, HEAD + SLOT);
    kit_flip(kit.journal, HEAD + 2 * SLOT);
    expect_spent(&kit, 111, 0);
    kit_free(&kit);
}

static void a_turned_bit_anywhere_in_an_entry_is_noticed(void **state)
{
    static const int offsets[] = {8, 16, 24, 32, 40, 48, 56, 64, 72, 76, 80, 82, 84, 86, 88, 100};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(offsets); i++) {
        struct kit kit;
        struct ledger_view *view = NULL;
        leave_behind(&kit);
        kit_flip(kit.journal, HEAD + SLOT + offsets[i]);
        assert_true(ledger_view_open(kit.path, &view, NULL));
        assert_int_equal(ledger_view_damaged(view), 1);
        ledger_view_close(view);
        expect_spent(&kit, 110, 1);
        expect_spent(&kit, 110, 0); /* told once; the rest goes on */
        kit_free(&kit);
    }
}

static void a_journal_of_the_wrong_kind_is_refused(void **state)
{
    struct kit kit, other;
    (void)state;

    leave_behind(&kit);
    leave_behind(&other);
    assert_int_equal(truncate(kit.journal, HEAD + 10 * SLOT), 0);
    kit_refuses(&kit, "it has 14336 bytes of 397312", "replace it by an empty one");
    kit_copy(other.journal, kit.journal);
    kit_refuses(&kit, "journal of another ledger", "l.db.spend");
    kit_flip(kit.journal, 30);
    kit_refuses(&kit, "its head is not what was written", "l.db.spend");
    kit_write_file(kit.journal, "garbage", 7);
    kit_refuses(&kit, "not the journal of a ledger", "l.db.spend");
    unlink(kit.journal);
    kit_refuses(&kit, "is missing", "make an empty file");
    assert_int_equal(kit_size(kit.journal), -1);

    /* Who makes it empty says that he knows. */
    kit_write_file(kit.journal, "", 0);
    expect_spent(&kit, 100, 0);
    kit_free(&kit);
    kit_free(&other);
}

static void a_newer_journal_is_refused(void **state)
{
    struct kit kit;
    (void)state;

    leave_behind(&kit);
    kit_flip(kit.journal, 8);
    kit_refuses(&kit, "this program knows versions up to 2", "l.db.spend");
    kit_free(&kit);
}

static void a_database_that_is_gone_is_not_made_anew(void **state)
{
    struct kit kit;
    (void)state;

    leave_behind(&kit);
    unlink(kit.path);
    unlink(kit.wal);
    kit_refuses(&kit, "holds nothing, but a journal is beside it", "l.db.spend away");
    assert_true(kit_size(kit.journal) > 0);
    kit_write_file(kit.path, "", 0);
    kit_refuses(&kit, "holds nothing", "l.db");
    kit_free(&kit);
}

static void a_database_that_is_damaged_is_refused(void **state)
{
    static const char garbage[8192] = "this is no database, although it is long enough for one";
    struct kit kit;
    (void)state;

    leave_behind(&kit);
    expect_spent(&kit, 111, 0); /* and the log is written back */
    kit_write_file(kit.path, garbage, sizeof garbage);
    kit_refuses(&kit, "file is not a database", "restore it from a copy");
    assert_int_equal(kit_size(kit.path), sizeof garbage);
    kit_free(&kit);

    leave_behind(&kit);
    expect_spent(&kit, 111, 0);
    assert_int_equal(truncate(kit.path, kit_size(kit.path) - 3 * 4096), 0);
    kit_refuses(&kit, "l.db", "restore it from a copy");
    kit_free(&kit);

    leave_behind(&kit);
    expect_spent(&kit, 111, 0);
    for (off_t at = 2 * 4096; at < kit_size(kit.path); at += 4096)
        kit_flip(kit.path, at);
    kit_refuses(&kit, "l.db", "restore it from a copy");
    kit_free(&kit);
}

static void a_database_of_another_kind_is_refused(void **state)
{
    struct kit kit = kit_new();
    (void)state;

    kit_sql(kit.path, "CREATE TABLE t (x); PRAGMA user_version = 1");
    kit_refuses(&kit, "database of another program", "ledger.path");
    assert_int_equal(kit_ask(kit.path, "SELECT count(*) FROM sqlite_schema"), 1);
    kit_free(&kit);

    leave_behind(&kit);
    expect_spent(&kit, 111, 0);
    kit_sql(kit.path, "PRAGMA user_version = 3");
    kit_refuses(&kit, "ledger of version 3, this program knows versions up to 2", "newer program");
    kit_sql(kit.path, "PRAGMA user_version = 2; DELETE FROM tenants; INSERT INTO tenants VALUES"
                      " (7, 0, 'a')");
    kit_refuses(&kit, "table of tenants has a gap", "restore it");
    kit_free(&kit);
}

static void an_older_copy_of_the_database_is_noticed_or_made_good(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    char keep[240];
    (void)state;

    snprintf(keep, sizeof keep, "%s/keep", kit.folder);
    kit_spend(ledger, a, "u", NOW, 100);
    kit_close(ledger);
    kit_copy(kit.path, keep);

    /* Nothing is lost as long as the journal reaches back to it. */
    ledger = kit_open(&kit);
    for (int i = 0; i < 60; i++)
        kit_spend(ledger, a, "u", NOW, 1);
    kit_close(ledger);
    kit_copy(keep, kit.path);
    expect_spent(&kit, 160, 0);

    /* Beyond that it is an error. */
    ledger = kit_open(&kit);
    for (int i = 0; i < 5; i++)
        kit_spend(ledger, a, "u", NOW, 1);
    kit_close(ledger);
    kit_copy(keep, kit.path);
    kit_refuses(&kit, "ends at entry 1, but its journal is at entry 66", "restore a newer copy");
    kit_free(&kit);
}

static void a_view_of_nothing_is_an_error(void **state)
{
    struct kit kit;
    struct tg_problem problem = {""};
    struct ledger_view *view = NULL;
    (void)state;

    kit = kit_new();
    assert_false(ledger_view_open(kit.path, &view, &problem));
    assert_non_null(strstr(problem.text, "there is no ledger"));
    assert_int_equal(kit_size(kit.path), -1);
    kit_write_file(kit.path, "", 0);
    assert_false(ledger_view_open(kit.path, &view, &problem));
    assert_non_null(strstr(problem.text, "is empty"));
    kit_free(&kit);

    leave_behind(&kit);
    unlink(kit.journal);
    assert_false(ledger_view_open(kit.path, &view, &problem));
    assert_non_null(strstr(problem.text, "l.db.spend, the journal of the ledger, cannot be read"));
    kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_dead_process_left_is_counted_once),
        cmocka_unit_test(a_recovery_that_dies_is_repeated),
        cmocka_unit_test(an_entry_that_was_not_finished_is_passed_over),
        cmocka_unit_test(bytes_of_somebody_else_in_an_entry_are_noticed),
        cmocka_unit_test(entries_that_were_wiped_out_are_noticed),
        cmocka_unit_test(an_entry_that_is_spoilt_meanwhile_holds_up_nobody),
        cmocka_unit_test(a_number_that_is_damaged_loses_nothing),
        cmocka_unit_test(a_turned_bit_anywhere_in_an_entry_is_noticed),
        cmocka_unit_test(a_journal_of_the_wrong_kind_is_refused),
        cmocka_unit_test(a_newer_journal_is_refused),
        cmocka_unit_test(a_database_that_is_gone_is_not_made_anew),
        cmocka_unit_test(a_database_that_is_damaged_is_refused),
        cmocka_unit_test(a_database_of_another_kind_is_refused),
        cmocka_unit_test(an_older_copy_of_the_database_is_noticed_or_made_good),
        cmocka_unit_test(a_view_of_nothing_is_an_error),
    };

    kit_wrap_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
