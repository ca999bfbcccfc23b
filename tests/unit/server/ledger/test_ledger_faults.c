/* test_ledger_faults.c - a full disk, a locked file, a disk that fails: at every step in turn, the
 * ledger says so, loses nothing and counts nothing twice, and goes on when the trouble ends.
 */
#include "ledger_kit.h"

#include <signal.h>
#include <sys/resource.h>

static void fail_from(long first, long last, int code)
{
    kit_faults.operations = 0;
    kit_faults.fail_at = first;
    kit_faults.fail_until = last;
    kit_faults.code = code;
}

/* Whether there was a step of that number. */
static bool stop_failing(long step)
{
    bool reached = kit_faults.operations >= step;

    fail_from(0, 0, SQLITE_OK);
    return reached;
}

static const int codes[] = {SQLITE_FULL, SQLITE_IOERR_WRITE, SQLITE_IOERR_FSYNC};

/* With more calls than SQLite is given at once: none that was handed over counts twice. */
static void a_large_flush_that_fails_at_any_step_is_repeated(void **state)
{
    bool reached = true;
    (void)state;

    for (long step = 1; reached; step++) {
        struct kit kit = kit_new();
        struct ledger *ledger = kit_open(&kit);
        struct tg_problem problem = {""};
        uint32_t a = kit_tenant(ledger, 0, "a");
        for (int i = 0; i < 40; i++)
            kit_spend(ledger, a, "u", NOW, 1);
        fail_from(step, step, SQLITE_FULL);
        bool failed = !ledger_flush(ledger, &problem);
        reached = stop_failing(step);
        assert_int_equal(failed, reached);
        kit_spend(ledger, a, "u", NOW, 1000);
        kit_flush(ledger);
        assert_int_equal(kit_spent(ledger, "a", NULL, 0), 1040);
        kit_close(ledger);
        assert_int_equal(kit_ask(kit.path, "SELECT count(*) FROM calls"), 41);
        assert_int_equal(kit_ask(kit.path, "SELECT sum(micro_usd) FROM calls"), 1040);
        kit_free(&kit);
        assert_true(step < 100);
    }
}

static void a_flush_that_fails_at_any_step_is_repeated(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT_OF(codes); c++) {
        bool reached = true;
        for (long step = 1; reached; step++) {
            bool failed;
            struct kit kit = kit_new();
            struct ledger *ledger = kit_open(&kit);
            struct tg_problem problem = {""};
            uint32_t a = kit_tenant(ledger, 0, "a");
            kit_spend(ledger, a, "u", NOW, 100);
            kit_flush(ledger);
            kit_spend(ledger, a, "u", NOW, 10);
            kit_spend(ledger, a, "v", NOW, 1);
            fail_from(step, step, codes[c]);
            failed = !ledger_flush(ledger, &problem);
            assert_int_equal(kit_state(ledger).health, failed ? LEDGER_LATE : LEDGER_WELL);
            assert_int_equal(kit_spent(ledger, "a", NULL, 0), 111);
            reached = stop_failing(step);
            assert_int_equal(failed, reached);
            kit_spend(ledger, a, "w", NOW, 1000);
            kit_flush(ledger);
            assert_int_equal(kit_state(ledger).health, LEDGER_WELL);
            assert_int_equal(kit_spent(ledger, "a", NULL, 0), 1111);
            assert_int_equal(kit_state(ledger).room, 64);
            kit_close(ledger);
            assert_int_equal(kit_view(&kit, 0), 1111);
            kit_free(&kit);
            assert_true(step < 100);
        }
    }
}

static void opening_that_fails_at_any_step_can_be_repeated(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT_OF(codes); c++) {
        bool reached = true;
        for (long step = 1; reached; step++) {
            bool failed;
            struct kit kit = kit_new();
            struct ledger_config config = kit_config(&kit);
            struct tg_problem problem = {""};
            struct ledger *ledger = NULL;
            fail_from(step, step, codes[c]);
            failed = !ledger_open(&config, &ledger, &problem);
            if (failed)
                assert_non_null(strstr(problem.text, kit.path));
            reached = stop_failing(step);
            if (failed)
                ledger = kit_open(&kit);
            kit_spend(ledger, kit_tenant(ledger, 0, "a"), "u", NOW, 7);
            kit_close(ledger);
            ledger = kit_open(&kit);
            assert_int_equal(kit_spent(ledger, "a", NULL, 0), 7);
            kit_close(ledger);
            kit_free(&kit);
            assert_true(step < 100);
        }
    }
}

static void a_roll_that_fails_at_any_step_changes_no_sum(void **state)
{
    bool reached = true;
    (void)state;

    for (long step = 1; reached; step++) {
        bool failed;
        struct kit kit = kit_new();
        struct ledger *ledger = kit_open(&kit);
        uint32_t a = kit_tenant(ledger, 0, "a");
        for (int i = 0; i < 60; i++)
            kit_spend(ledger, a, "u", NOW + i * HOUR, 1);
        kit_flush(ledger);
        fail_from(step, step, SQLITE_FULL);
        failed = !ledger_roll(ledger, NOW + 80 * DAY, NULL);
        reached = stop_failing(step);
        assert_true(reached || !failed);
        assert_int_equal(kit_spent(ledger, "a", NULL, 0), 60);
        kit_roll(ledger, NOW + 80 * DAY);
        assert_int_equal(kit_spent(ledger, "a", NULL, 0), 60);
        kit_close(ledger);
        kit_free(&kit);
        assert_true(step < 200);
    }
}

static void a_full_disk_fills_the_journal_and_then_there_is_no_room(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    struct tg_problem problem = {""};
    tg_micro spent = 0;
    (void)state;

    fail_from(1, INT32_MAX, SQLITE_FULL);
    while (ledger_take_room(ledger)) {
        struct ledger_entry entry = kit_entry(a, "u", NOW, 1);
        ledger_append(ledger, &entry);
        spent++;
        assert_false(ledger_flush(ledger, &problem));
    }
    assert_int_equal(spent, 64);
    assert_non_null(strstr(problem.text, "database or disk is full"));
    assert_non_null(strstr(problem.text, "make room on its disk"));
    assert_int_equal(kit_state(ledger).health, LEDGER_FULL);
    assert_non_null(strstr(kit_state(ledger).reason, kit.path));
    assert_int_equal(kit_spent(ledger, "a", NULL, 0), 64);

    /* Closed on a full disk, it loses nothing either. */
    assert_false(ledger_close(ledger, &problem));
    stop_failing(1);
    ledger = kit_open(&kit);
    assert_int_equal(kit_state(ledger).recovered, 64);
    assert_int_equal(kit_state(ledger).room, 64);
    assert_int_equal(kit_spent(ledger, "a", NULL, 0), 64);
    kit_close(ledger);
    kit_free(&kit);
}

/* The kernel's own refusal, rather than a played one. */
static void a_limit_on_the_size_of_files_is_a_full_disk(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    struct tg_problem problem = {""};
    struct rlimit usual, small;
    (void)state;

    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    small = usual;
    small.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 64; i++)
        kit_spend(ledger, a, "u", NOW, 1);
    bool flushed = ledger_flush(ledger, &problem);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
    assert_false(flushed);
    assert_non_null(strstr(problem.text, kit.path));
    assert_false(ledger_take_room(ledger));
    kit_flush(ledger);
    assert_int_equal(kit_spent(ledger, "a", NULL, 0), 64);
    kit_close(ledger);
    kit_free(&kit);

    kit = kit_new();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    struct ledger_config config = kit_config(&kit);
    ledger = NULL;
    bool opened = ledger_open(&config, &ledger, &problem);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
    assert_false(opened);
    ledger = kit_open(&kit);
    kit_close(ledger);
    kit_free(&kit);
}

static void a_locked_database_is_late_and_catches_up(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    struct tg_problem problem = {""};
    sqlite3 *other = NULL;
    (void)state;

    kit_spend(ledger, a, "u", NOW, 1);
    assert_int_equal(sqlite3_open(kit.path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    assert_false(ledger_flush(ledger, &problem));
    assert_non_null(strstr(problem.text, "database is locked; another program has locked it"));
    assert_int_equal(kit_state(ledger).health, LEDGER_LATE);
    kit_spend(ledger, a, "u", NOW, 10);
    assert_int_equal(kit_spent(ledger, "a", NULL, 0), 11);
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    kit_flush(ledger);
    assert_int_equal(kit_state(ledger).health, LEDGER_WELL);
    assert_int_equal(kit_state(ledger).waiting, 0);
    assert_int_equal(kit_spent(ledger, "a", NULL, 0), 11);
    kit_close(ledger);
    kit_free(&kit);
}

/* SQLite would go on writing to a file that nobody can find any more. */
static void a_database_that_is_taken_away_is_late_until_it_is_back(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    struct tg_problem problem = {""};
    char away[240];
    (void)state;

    snprintf(away, sizeof away, "%s/keep", kit.folder);
    kit_spend(ledger, a, "u", NOW, 1);
    kit_flush(ledger);
    assert_int_equal(rename(kit.path, away), 0);
    kit_spend(ledger, a, "u", NOW, 10);
    assert_false(ledger_flush(ledger, &problem));
    assert_non_null(strstr(problem.text, "was removed or replaced while it is in use"));
    assert_int_equal(kit_state(ledger).health, LEDGER_LATE);
    kit_copy(away, kit.path);
    assert_false(ledger_flush(ledger, &problem)); /* another file */
    assert_int_equal(rename(away, kit.path), 0);
    kit_flush(ledger);
    assert_int_equal(kit_state(ledger).health, LEDGER_WELL);
    assert_int_equal(rename(kit.path, away), 0);
    assert_false(ledger_close(ledger, &problem));
    assert_int_equal(rename(away, kit.path), 0);
    ledger = kit_open(&kit);
    assert_int_equal(kit_spent(ledger, "a", NULL, 0), 11);
    kit_close(ledger);
    kit_free(&kit);
}

static void a_locked_database_is_not_opened(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    sqlite3 *other = NULL;
    (void)state;

    kit_spend(ledger, kit_tenant(ledger, 0, "a"), "u", NOW, 1);
    kit_close(ledger);
    assert_int_equal(sqlite3_open(kit.path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    kit_refuses(&kit, "database is locked", "end that program");
    sqlite3_close(other);
    ledger = kit_open(&kit);
    assert_int_equal(kit_spent(ledger, "a", NULL, 0), 1);
    kit_close(ledger);
    kit_free(&kit);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    struct kit kit = kit_new();
    struct kit deeper = kit;
    (void)state;

    snprintf(deeper.path, sizeof deeper.path, "%s/none/l.db", kit.folder);
    kit_refuses(&deeper, "none/l.db.lock cannot be made", "No such file or directory");
    kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flush_that_fails_at_any_step_is_repeated),
        cmocka_unit_test(a_large_flush_that_fails_at_any_step_is_repeated),
        cmocka_unit_test(opening_that_fails_at_any_step_can_be_repeated),
        cmocka_unit_test(a_roll_that_fails_at_any_step_changes_no_sum),
        cmocka_unit_test(a_full_disk_fills_the_journal_and_then_there_is_no_room),
        cmocka_unit_test(a_limit_on_the_size_of_files_is_a_full_disk),
        cmocka_unit_test(a_locked_database_is_late_and_catches_up),
        cmocka_unit_test(a_database_that_is_taken_away_is_late_until_it_is_back),
        cmocka_unit_test(a_locked_database_is_not_opened),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
    };

    kit_wrap_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
