/* test_ledger_export.c - days that are over are files: whole, once, and again when they change. */
#include "ledger_kit.h"

#include <dirent.h>
#include <inttypes.h>

#include "server/ledger/ledger_export.h"

#define TODAY (NOW - NOW % DAY)
#define HEAD                                                                              \
    "ledger,day,tenant,user,model,calls,input,cached_input,cache_write,output,micro_usd," \
    "uncertain_micro_usd,key,tags\r\n"

struct page {
    char bytes[4096];
    size_t n;
};

/* The file of a day, or of a revision of it; empty: there is none. */
static struct page read_day(const struct kit *kit, struct ledger *ledger, const char *day)
{
    struct page page = {"", 0};
    char path[400];

    snprintf(path, sizeof path, "%s/spend-%016" PRIx64 "-%s.csv", kit->folder, ledger_id(ledger),
             day);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return page;
    page.n = fread(page.bytes, 1, sizeof page.bytes - 1, file);
    page.bytes[page.n] = '\0';
    fclose(file);
    return page;
}

static size_t count_files(const struct kit *kit, const char *ending)
{
    DIR *folder = opendir(kit->folder);
    struct dirent *entry;
    size_t n = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        size_t bytes = strlen(entry->d_name);
        n += bytes > strlen(ending) && strcmp(entry->d_name + bytes - strlen(ending), ending) == 0;
    }
    closedir(folder);
    return n;
}

static void end(const struct kit *kit)
{
    DIR *folder = opendir(kit->folder);
    struct dirent *entry;
    char path[600];

    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL)
        if (strstr(entry->d_name, "spend-") != NULL) {
            snprintf(path, sizeof path, "%s/%s", kit->folder, entry->d_name);
            assert_int_equal(unlink(path), 0);
        }
    closedir(folder);
    kit_free(kit);
}

static size_t must_export(const struct kit *kit, struct ledger *ledger, tg_ms now)
{
    struct tg_problem problem = {""};
    size_t written;

    if (!ledger_export(ledger, kit->folder, now, &written, &problem))
        fail_msg("%s", problem.text);
    return written;
}

static void a_day_that_is_over_is_a_file(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t team = kit_tenant(ledger, 0, "team \"a\""), sly = kit_tenant(ledger, 0, "=1+1");
    char want[600];

    (void)state;
    kit_spend(ledger, team, "ann", TODAY - 2 * DAY, 5);
    kit_spend(ledger, team, "ann", TODAY - DAY - 1, 7);
    kit_spend(ledger, team, "ann", TODAY - DAY, 11);
    kit_spend(ledger, sly, "", TODAY - 1, 13);
    kit_spend(ledger, team, "ann", TODAY, 17);
    assert_int_equal(must_export(&kit, ledger, TODAY + HOUR), 2);
    assert_int_equal(count_files(&kit, ".csv"), 2);

    struct page page = read_day(&kit, ledger, "2026-09-20");
    const char *numbers = strchr(page.bytes, '"');
    assert_non_null(numbers);
    snprintf(want, sizeof want, HEAD "%016" PRIx64 ",2026-09-20,\"team \"\"a\"\"\",\"ann\",",
             ledger_id(ledger));
    assert_memory_equal(page.bytes, want, strlen(want));
    assert_non_null(strstr(page.bytes, ",11,0,\"\",\"\"\r\n"));
    assert_non_null(strstr(page.bytes, "\"'=1+1\",\"\","));
    assert_non_null(strstr(page.bytes, ",13,0,\"\",\"\"\r\n"));
    page = read_day(&kit, ledger, "2026-09-19");
    assert_non_null(strstr(page.bytes, ",2,"));
    assert_non_null(strstr(page.bytes, ",12,0,\"\",\"\"\r\n"));
    assert_int_equal(read_day(&kit, ledger, "2026-09-21").n, 0);
    kit_close(ledger);
    end(&kit);
}

static void a_day_is_written_once(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t team = kit_tenant(ledger, 0, "team");

    (void)state;
    kit_spend(ledger, team, "ann", TODAY - 1, 5);
    assert_int_equal(must_export(&kit, ledger, TODAY + 14 * MINUTE), 0);
    assert_int_equal(must_export(&kit, ledger, TODAY + 15 * MINUTE), 1);
    assert_int_equal(must_export(&kit, ledger, TODAY + 16 * MINUTE), 0);
    kit_roll(ledger, TODAY + 100 * DAY); /* quarters of an hour become days */
    assert_int_equal(must_export(&kit, ledger, TODAY + 100 * DAY), 0);
    kit_close(ledger);
    ledger = kit_open(&kit);
    assert_int_equal(must_export(&kit, ledger, TODAY + 101 * DAY), 0);
    assert_int_equal(count_files(&kit, ".csv"), 1);
    kit_close(ledger);
    end(&kit);
}

static void a_day_waits_for_its_last_call(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t team = kit_tenant(ledger, 0, "team");
    struct ledger_entry entry = kit_entry(team, "ann", TODAY - 1, 9);

    (void)state;
    kit_spend(ledger, team, "ann", TODAY - 2 * DAY, 5);
    kit_spend(ledger, team, "ann", TODAY - 2, 5);
    assert_true(ledger_take_room(ledger));
    uint32_t open = ledger_open_call(ledger, &entry);
    assert_int_not_equal(open, 0);
    assert_int_equal(must_export(&kit, ledger, TODAY + HOUR), 1);
    assert_int_equal(read_day(&kit, ledger, "2026-09-20").n, 0);
    ledger_settle_call(ledger, open, &entry);
    assert_int_equal(must_export(&kit, ledger, TODAY + 2 * HOUR), 1);
    assert_non_null(strstr(read_day(&kit, ledger, "2026-09-20").bytes, ",14,0,\"\",\"\"\r\n"));
    kit_close(ledger);
    end(&kit);
}

static void a_day_that_changes_is_a_revision(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t team = kit_tenant(ledger, 0, "team");

    (void)state;
    kit_spend(ledger, team, "ann", TODAY - 1, 5);
    assert_int_equal(must_export(&kit, ledger, TODAY + HOUR), 1);
    kit_spend(ledger, team, "ann", TODAY - 1, 6); /* what a dead process had in flight */
    assert_int_equal(must_export(&kit, ledger, TODAY + 2 * HOUR), 1);
    assert_non_null(strstr(read_day(&kit, ledger, "2026-09-20").bytes, ",5,0,\"\",\"\"\r\n"));
    assert_non_null(strstr(read_day(&kit, ledger, "2026-09-20.r2").bytes, ",11,0,\"\",\"\"\r\n"));
    assert_int_equal(must_export(&kit, ledger, TODAY + 3 * HOUR), 0);
    kit_close(ledger);
    end(&kit);
}

/* A process that dies while it writes leaves a file of another name; one that dies before it has
 * noted the day writes the same once more. */
static void a_crash_leaves_whole_files(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t team = kit_tenant(ledger, 0, "team");
    char path[400];
    sqlite3 *sqlite;

    (void)state;
    kit_spend(ledger, team, "ann", TODAY - 1, 5);
    snprintf(path, sizeof path, "%s/.spend-%016" PRIx64 "-2026-09-20.csv.tmp", kit.folder,
             ledger_id(ledger));
    kit_write_file(path, "half a", 6);
    assert_int_equal(must_export(&kit, ledger, TODAY + HOUR), 1);
    assert_int_equal(count_files(&kit, ".tmp"), 0);
    struct page page = read_day(&kit, ledger, "2026-09-20");
    assert_memory_equal(page.bytes, HEAD, strlen(HEAD));

    kit_close(ledger);
    assert_int_equal(sqlite3_open(kit.path, &sqlite), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sqlite, "DELETE FROM exports", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(sqlite);
    ledger = kit_open(&kit);
    assert_int_equal(must_export(&kit, ledger, TODAY + HOUR), 1);
    assert_string_equal(read_day(&kit, ledger, "2026-09-20").bytes, page.bytes);
    assert_int_equal(count_files(&kit, ".csv"), 1);
    kit_close(ledger);
    end(&kit);
}

static void a_folder_that_takes_nothing_is_told_and_tried_again(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t team = kit_tenant(ledger, 0, "team");
    struct tg_problem problem;
    char nowhere[300];
    size_t written;

    (void)state;
    kit_spend(ledger, team, "ann", TODAY - 1, 5);
    snprintf(nowhere, sizeof nowhere, "%s/nowhere", kit.folder);
    assert_false(ledger_export(ledger, nowhere, TODAY + HOUR, &written, &problem));
    assert_non_null(strstr(problem.text, nowhere));
    assert_int_equal(written, 0);
    assert_int_equal(must_export(&kit, ledger, TODAY + HOUR), 1);
    kit_close(ledger);
    end(&kit);
}

static void many_days_are_written_in_turns(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t team = kit_tenant(ledger, 0, "team");

    (void)state;
    for (int day = 1; day <= 20; day++)
        kit_spend(ledger, team, "ann", TODAY - day * DAY, day);
    assert_int_equal(must_export(&kit, ledger, TODAY + HOUR), LEDGER_EXPORT_AT_ONCE);
    assert_int_equal(must_export(&kit, ledger, TODAY + HOUR), 20 - LEDGER_EXPORT_AT_ONCE);
    assert_int_equal(count_files(&kit, ".csv"), 20);
    kit_close(ledger);
    end(&kit);
}

static void a_row_says_by_which_key_and_with_which_tags(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct ledger_tenant_spec key = {.name = "team", .parent = LEDGER_NO_PARENT, .key = "ci"};
    struct tg_problem problem = {""};

    (void)state;
    key.under = kit_tenant(ledger, 0, "team");
    key.tags = "cost_centre=4711\nteam=b";
    assert_true(ledger_add_tenants(ledger, &key, 1, &problem));
    kit_spend(ledger, key.number, "ann", TODAY - DAY, 11);
    kit_spend(ledger, key.under, "ann", TODAY - DAY, 13);
    assert_int_equal(must_export(&kit, ledger, TODAY + HOUR), 1);
    struct page page = read_day(&kit, ledger, "2026-09-20");
    assert_non_null(strstr(page.bytes, ",11,0,\"ci\",\"cost_centre=4711\nteam=b\"\r\n"));
    assert_non_null(strstr(page.bytes, ",13,0,\"\",\"\"\r\n"));
    kit_close(ledger);
    end(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_day_that_is_over_is_a_file),
        cmocka_unit_test(a_row_says_by_which_key_and_with_which_tags),
        cmocka_unit_test(a_day_is_written_once),
        cmocka_unit_test(a_day_waits_for_its_last_call),
        cmocka_unit_test(a_day_that_changes_is_a_revision),
        cmocka_unit_test(a_crash_leaves_whole_files),
        cmocka_unit_test(a_folder_that_takes_nothing_is_told_and_tried_again),
        cmocka_unit_test(many_days_are_written_in_turns),
    };

    kit_wrap_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
