/* test_ledger_journals.c - several processes with one ledger: what one of them has settled is in
 * the ledger once, and in what another reads of it, wherever one of them ends between two steps of
 * the other.
 *
 * Locks belong to open files, so that two ledgers of this one process are as good as two processes.
 * A step between two statements of SQLite is made by a trace of them.
 */
#include "ledger_kit.h"

#include <sys/wait.h>

#include "server/ledger/ledger_internal.h"

/* Opened beside the one that has the lock. */
static struct ledger *open_beside(const struct kit *kit, struct ledger *first)
{
    struct ledger_config config = kit_config(kit);
    struct tg_problem problem = {""};
    struct ledger *ledger = NULL;

    config.lock_fd = ledger_lock_fd(first);
    if (!ledger_open(&config, &ledger, &problem))
        fail_msg("%s", problem.text);
    return ledger;
}

/* A ledger as its process leaves it that is killed: nothing is flushed or closed. */
static void kill_ledger(struct ledger *ledger)
{
    ledger_free_left(ledger);
}

static void move_left(struct ledger *ledger)
{
    struct tg_problem problem = {""};

    if (!ledger_move_left(ledger, &problem))
        fail_msg("%s", problem.text);
}

/* ---- a step between two statements ---- */

static struct between {
    const char *statement; /* a part of it; the step comes when it has ended */
    void (*step)(struct ledger *ledger);
    struct ledger *ledger;
} between;

static int statement_ended(unsigned type, void *context, void *statement, void *time)
{
    const char *sql = sqlite3_sql(statement);
    (void)type, (void)context, (void)time;

    if (between.step != NULL && sql != NULL && strstr(sql, between.statement) != NULL) {
        void (*step)(struct ledger *) = between.step;
        between.step = NULL;
        step(between.ledger);
    }
    return 0;
}

static void step_after(struct ledger *watched, const char *statement,
                       void (*step)(struct ledger *ledger), struct ledger *ledger)
{
    between = (struct between){statement, step, ledger};
    assert_int_equal(
        sqlite3_trace_v2(watched->db.sqlite, SQLITE_TRACE_PROFILE, statement_ended, NULL),
        SQLITE_OK);
}

/* ---- promises ---- */

/* The first process was killed. The second has asked how far the first journal was moved when the
 * third moves the rest of it. */
static void what_a_dead_process_left_is_moved_once_by_two_that_find_it(void **state)
{
    struct kit kit = kit_new();
    struct ledger *first = kit_open(&kit);
    uint32_t tenant = kit_tenant(first, 0, "a");
    (void)state;

    kit_spend(first, tenant, "u", NOW, 100);
    struct ledger *second = open_beside(&kit, first), *third = open_beside(&kit, second);
    kill_ledger(first);
    step_after(second, "SELECT closed FROM ledger", move_left, third);
    move_left(second);
    assert_null(between.step);
    assert_int_equal(ledger_left_behind(second) + ledger_left_behind(third), 1);
    kit_close(second);
    kit_close(third);
    assert_int_equal(kit_view(&kit, 0), 100);
    kit_free(&kit);
}

struct total {
    tg_micro micro;
};

static void add_total(void *context, const struct ledger_sum *sum)
{
    ((struct total *)context)->micro += sum->micro;
}

static tg_micro read_all(struct ledger *ledger)
{
    struct tg_problem problem = {""};
    struct total total = {0};

    ledger_lock(ledger);
    if (!ledger_read_others(ledger, &problem) ||
        !ledger_scan_moved(ledger, 0, add_total, &total, &problem))
        fail_msg("%s", problem.text);
    ledger_scan_others(ledger, 0, add_total, &total);
    ledger_end_others(ledger);
    ledger_unlock(ledger);
    return total.micro;
}

static void a_journal_that_ends_while_it_is_read_is_read_from_the_database(void **state)
{
    struct kit kit = kit_new();
    struct ledger *first = kit_open(&kit);
    uint32_t tenant = kit_tenant(first, 0, "a");
    (void)state;

    struct ledger *second = open_beside(&kit, first);
    kit_spend(second, tenant, "u", NOW, 100);
    step_after(first, "SELECT number, moved FROM journals", kit_close, second);
    assert_int_equal(read_all(first), 100);
    assert_null(between.step);
    kit_close(first);
    kit_free(&kit);
}

static void a_journal_is_used_then_left_then_over(void **state)
{
    struct kit kit = kit_new();
    struct ledger *first = kit_open(&kit), *second = open_beside(&kit, first);
    uint32_t number = ledger_journal(second);
    (void)state;

    assert_int_equal(number, 1);
    assert_true(ledger_journal_is_used(first, number));
    assert_false(ledger_journal_is_over(first, number));
    kill_ledger(second);
    assert_false(ledger_journal_is_used(first, number));
    assert_false(ledger_journal_is_over(first, number));
    move_left(first);
    assert_true(ledger_journal_is_over(first, number));

    second = open_beside(&kit, first);
    assert_true(ledger_journal_is_used(second, 0));
    kit_close(first);
    assert_true(ledger_journal_is_over(second, 0));
    kit_close(second);
    kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_dead_process_left_is_moved_once_by_two_that_find_it),
        cmocka_unit_test(a_journal_that_ends_while_it_is_read_is_read_from_the_database),
        cmocka_unit_test(a_journal_is_used_then_left_then_over),
    };

    kit_wrap_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
