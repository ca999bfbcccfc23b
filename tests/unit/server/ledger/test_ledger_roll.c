/* test_ledger_roll.c - old spend grows coarser, and no sum changes by it: windows of every zone
 * stay exact as long as they are current, the total for ever, and the file stops growing.
 */
#include "ledger_kit.h"

#include "draw.h"

#define CALLS 3000

static struct {
    tg_ms at[CALLS];
    tg_micro micro[CALLS];
    int tenant[CALLS], user[CALLS];
} calls;

/* What a list of all calls says; -1: any. */
static tg_micro naive(int tenant, int user, tg_ms begin)
{
    tg_micro sum = 0;

    for (int i = 0; i < CALLS; i++)
        if (calls.at[i] >= begin && (tenant < 0 || calls.tenant[i] == tenant) &&
            (user < 0 || calls.user[i] == user))
            sum += calls.micro[i];
    return sum;
}

static const char *const tenants[] = {"a", "b", "c"}, *const users[] = {"", "u", "v"};

static void expect_same(struct ledger *ledger, tg_ms begin)
{
    assert_int_equal(kit_spent(ledger, NULL, NULL, begin), naive(-1, -1, begin));
    for (int t = 0; t < 3; t++) {
        assert_int_equal(kit_spent(ledger, tenants[t], NULL, begin), naive(t, -1, begin));
        for (int u = 0; u < 3; u++)
            assert_int_equal(kit_spent(ledger, tenants[t], users[u], begin), naive(t, u, begin));
    }
}

/* Midnights in zones of odd offsets: Kathmandu, Chatham, Marquesas, Lord Howe, Adelaide, UTC. */
static void expect_windows(struct ledger *ledger, tg_ms now)
{
    static const int offsets_min[] = {345, 765, -570, 630, 570, 0, -720, 840};
    static const int days[] = {0, 1, 6, 30, 31};

    for (size_t i = 0; i < COUNT_OF(offsets_min); i++) {
        tg_ms local = now + offsets_min[i] * MINUTE;
        tg_ms midnight = local - local % DAY - offsets_min[i] * MINUTE;
        for (size_t d = 0; d < COUNT_OF(days); d++)
            expect_same(ledger, midnight - days[d] * DAY);
    }
    expect_same(ledger, 0);
}

static void windows_are_exact_before_and_after(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct draw draw = draw_stream(draw_seed("test_ledger_roll"), 1);
    uint32_t ids[3];
    (void)state;

    for (int t = 0; t < 3; t++)
        ids[t] = kit_tenant(ledger, 0, tenants[t]);
    for (int i = 0; i < CALLS; i++) {
        calls.at[i] = NOW - (i % 2 == 0 ? draw_magnitude(&draw, 500 * DAY)
                                        : draw_between(&draw, 0, 500 * DAY));
        calls.micro[i] = draw_magnitude(&draw, INT64_C(1000000000000));
        calls.tenant[i] = (int)draw_between(&draw, 0, 2);
        calls.user[i] = (int)draw_between(&draw, 0, 2);
        kit_spend(ledger, ids[calls.tenant[i]], users[calls.user[i]], calls.at[i], calls.micro[i]);
        if (i % 50 == 49)
            kit_flush(ledger);
        /* Rolling in between as well: what comes late still goes where it belongs. */
        if (i % 1000 == 999)
            kit_roll(ledger, NOW);
    }
    kit_flush(ledger);
    expect_windows(ledger, NOW);
    kit_roll(ledger, NOW);
    expect_windows(ledger, NOW);
    kit_roll(ledger, NOW);
    expect_windows(ledger, NOW);
    kit_close(ledger);
    assert_int_equal(kit_ask(kit.path, "SELECT count(*) FROM calls WHERE reserved_at < "
                                       "1790000000000 - 30 * 86400000"),
                     0);
    assert_true(kit_ask(kit.path, "SELECT count(*) FROM calls") > 0);
    assert_int_equal(kit_ask(kit.path, "SELECT count(*) FROM sums WHERE span = 0 AND begin < "
                                       "1790000000000 - 71 * 86400000"),
                     0);
    assert_int_equal(kit_ask(kit.path, "SELECT count(*) FROM sums WHERE span = 2"), 9);
    kit_free(&kit);
}

static void an_old_beginning_counts_too_much_rather_than_too_little(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t a = kit_tenant(ledger, 0, "a");
    tg_ms midnight = NOW - NOW % DAY;
    (void)state;

    kit_spend(ledger, a, "", midnight - 100 * DAY, 1);
    kit_spend(ledger, a, "", midnight - 100 * DAY + HOUR, 10);
    kit_spend(ledger, a, "", midnight - 500 * DAY, 100);
    kit_flush(ledger);
    assert_int_equal(kit_spent(ledger, "a", NULL, midnight - 100 * DAY + HOUR), 10);
    kit_roll(ledger, NOW);
    assert_int_equal(kit_spent(ledger, "a", NULL, midnight - 100 * DAY + HOUR), 11);
    assert_int_equal(kit_spent(ledger, "a", NULL, midnight - 99 * DAY), 0);
    assert_int_equal(kit_spent(ledger, "a", NULL, midnight - 300 * DAY), 11);
    assert_int_equal(kit_spent(ledger, "a", NULL, midnight - 450 * DAY), 111);
    assert_int_equal(kit_spent(ledger, "a", NULL, 0), 111);
    kit_close(ledger);
    kit_free(&kit);
}

static void without_detail_only_sums_are_kept(void **state)
{
    struct kit kit = kit_new();
    struct ledger_config config = kit_config(&kit);
    struct ledger *ledger = NULL;
    (void)state;

    config.detail = 0;
    assert_true(ledger_open(&config, &ledger, NULL));
    kit_spend(ledger, kit_tenant(ledger, 0, "a"), "u", NOW, 5);
    kit_roll(ledger, NOW);
    kit_close(ledger);
    assert_int_equal(kit_ask(kit.path, "SELECT count(*) FROM calls"), 0);
    assert_int_equal(kit_view(&kit, 0), 5);
    kit_free(&kit);
}

/* 1000 virtual days of the same traffic; from day 450 on the file is as large as it will be. The
 * log beside it is cut to 4 MiB whenever it has been written back. */
static void the_file_stops_growing(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    uint32_t ids[2] = {kit_tenant(ledger, 0, "a"), kit_tenant(ledger, 0, "b")};
    int64_t settled = 0, most = 0, log = 0;
    (void)state;

    for (int day = 0; day < 1000; day++) {
        for (int i = 0; i < 48; i++)
            kit_spend(ledger, ids[i % 2], i % 3 == 0 ? "u" : "v", NOW + day * DAY + i * 30 * MINUTE,
                      1);
        kit_flush(ledger);
        kit_roll(ledger, NOW + day * DAY);
        if (day == 450)
            settled = kit_size(kit.path);
        if (day > 450 && kit_size(kit.path) > most)
            most = kit_size(kit.path);
        if (kit_size(kit.wal) > log)
            log = kit_size(kit.wal);
    }
    assert_int_equal(kit_spent(ledger, NULL, NULL, 0), 48000);
    print_message("%lld bytes after 450 days, at most %lld after 1000; log %lld\n",
                  (long long)settled, (long long)most, (long long)log);
    assert_true(most <= settled + settled / 20);
    assert_true(log <= INT64_C(6) << 20);
    kit_close(ledger);
    assert_int_equal(kit_ask(kit.path, "PRAGMA auto_vacuum"), 2);
    kit_free(&kit);
}

struct own_days {
    tg_micro micro[40];
    int64_t calls;
    tg_ms begin;
};

static void add_day(void *context, const struct ledger_sum *sum)
{
    struct own_days *days = context;
    size_t day = (size_t)((sum->day - days->begin) / DAY);

    assert_true(sum->day >= days->begin && day < COUNT_OF(days->micro));
    days->micro[day] += sum->micro + sum->uncertain;
    days->calls += sum->calls;
}

/* What a tenant sees of itself: its own days, wherever it stood, and nobody else's, whether the
 * calls are in the database or in the journal. */
static void a_tenants_days_are_its_own(void **state)
{
    const tg_ms begin = NOW - NOW % DAY - 30 * DAY, end = NOW - NOW % DAY + DAY;
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct draw draw = draw_stream(draw_seed("test_ledger_roll"), 2);
    struct own_days want = {.begin = begin}, have = {.begin = begin};
    struct tg_problem problem;
    uint32_t ids[4];
    (void)state;

    ids[0] = kit_tenant(ledger, 0, "a");
    ids[1] = kit_tenant(ledger, 0, "b");
    ids[2] = kit_tenant(ledger, ids[1], "a"); /* later it stands below b */
    ids[3] = kit_tenant(ledger, ids[0], "c");
    for (int i = 0; i < 2000; i++) {
        tg_ms at = NOW - draw_between(&draw, 0, 40 * DAY);
        tg_micro micro = draw_magnitude(&draw, INT64_C(1000000000));
        size_t tenant = (size_t)draw_between(&draw, 0, 3);
        kit_spend(ledger, ids[tenant], users[i % 3], at, micro);
        if (i < 1970 && i % 50 == 49)
            kit_flush(ledger);
        if (tenant % 2 != 0 || at < begin)
            continue;
        want.micro[(at - begin) / DAY] += micro;
        want.calls++;
    }
    assert_true(ledger_tenant_scan(ledger, "a", begin, end, add_day, &have, &problem));
    assert_int_equal(have.calls, want.calls);
    assert_memory_equal(have.micro, want.micro, sizeof want.micro);
    have = (struct own_days){.begin = begin};
    assert_true(ledger_tenant_scan(ledger, "nobody", begin, end, add_day, &have, &problem));
    assert_int_equal(have.calls, 0);
    kit_close(ledger);
    kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_exact_before_and_after),
        cmocka_unit_test(an_old_beginning_counts_too_much_rather_than_too_little),
        cmocka_unit_test(without_detail_only_sums_are_kept),
        cmocka_unit_test(the_file_stops_growing),
        cmocka_unit_test(a_tenants_days_are_its_own),
    };

    kit_wrap_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
