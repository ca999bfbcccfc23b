/* test_ledger_credit.c - uncertain money that is given back: never more than there is, at once, and
 * over a restart. */
#include "ledger_kit.h"

#include "draw.h"
#include "server/ledger/spending.h"

#define MIDNIGHT (NOW - NOW % DAY)

enum { PRODUCT,
       TEAM,
       TENANTS };

/* Everyone by month, product by week, team by day and in all, its users by day. */
static const struct tg_budget everyone = {1000000, TG_PER_MONTH, NULL, TG_ENFORCE};
static const struct tg_budget product = {1000000, TG_PER_WEEK, NULL, TG_ENFORCE};
static const struct tg_budget team[] = {{100000, TG_PER_DAY, NULL, TG_ENFORCE},
                                        {1000000, TG_PER_TOTAL, NULL, TG_ENFORCE}};
static const struct tg_budget users = {10000, TG_PER_DAY, NULL, TG_ENFORCE};

static struct spending *must_spending(struct ledger *ledger)
{
    const struct spending_tenant tenants[TENANTS] = {
        [PRODUCT] = {"product", SPENDING_TOP, &product, 1, NULL, 0, NULL, 0},
        [TEAM] = {"team", PRODUCT, team, 2, &users, 1, NULL, 0}};
    const struct spending_tree tree = {&everyone, 1, tenants, TENANTS};
    struct spending_config config = {.ledger = ledger};
    struct tg_problem problem = {""};
    struct spending *spending = NULL;

    tg_bank_config_init(&config.bank);
    if (!spending_new(&config, &tree, NOW, &spending, &problem))
        fail_msg("%s", problem.text);
    return spending;
}

static void spend(struct spending *spending, const char *user, tg_micro micro, tg_micro uncertain,
                  tg_ms now)
{
    struct spending_call call = {.tenant = "team", .user = kit_text(user), .money = 1};
    struct spending_use use = {.spent = micro,
                               .uncertain = uncertain,
                               .user = kit_text(user),
                               .model = kit_text("demo-small")};
    struct spending_ticket ticket;
    struct tg_money_answer answer;

    assert_int_equal(spending_reserve(spending, &call, now, &ticket, &answer), TG_OK);
    assert_int_not_equal(ticket.reservation, 0);
    assert_true(spending_settle(spending, &ticket, &use, now));
}

static struct ledger_credit credit_of(const char *user, tg_ms since, tg_ms until, tg_micro micro)
{
    struct ledger_credit credit = {.made_at = NOW,
                                   .tenant = "team",
                                   .since = since,
                                   .until = until,
                                   .micro = micro,
                                   .reason = "invoice 4711 shows none of it",
                                   .actor = "127.0.0.1"};

    snprintf(credit.user, sizeof credit.user, "%s", user);
    return credit;
}

static void must_credit(struct spending *spending, const char *user, tg_ms since, tg_ms until,
                        tg_micro micro)
{
    struct ledger_credit credit = credit_of(user, since, until, micro);
    struct tg_problem problem = {""};
    tg_micro uncertain;

    if (spending_credit(spending, &credit, &uncertain, NULL, NULL, &problem) != LEDGER_CREDITED)
        fail_msg("%s", problem.text);
    assert_true(credit.id > 0 && uncertain >= micro);
}

static void must_refuse(struct spending *spending, const char *user, tg_ms since, tg_ms until,
                        tg_micro micro, tg_micro there)
{
    struct ledger_credit credit = credit_of(user, since, until, micro);
    tg_micro uncertain = -1;

    assert_int_equal(spending_credit(spending, &credit, &uncertain, NULL, NULL, NULL),
                     LEDGER_CREDIT_TOO_MUCH);
    assert_int_equal(uncertain, there);
}

/* What the windows of now hold: everyone's, product's, team's day and total, the user's. */
struct windows {
    tg_micro settled[5];
    size_t n;
};

static void add_windows(void *context, const struct spending_account *account)
{
    struct windows *windows = context;

    for (size_t i = 0; i < account->n_budgets; i++)
        windows->settled[windows->n++] = account->budgets[i].settled;
}

static void check_windows(struct spending *spending, const char *user, const tg_micro want[5])
{
    struct spending_call call = {.tenant = "team", .user = kit_text(user)};
    struct windows windows = {.n = 0};

    assert_int_equal(spending_peek(spending, &call, NOW, add_windows, &windows), TG_OK);
    assert_int_equal(windows.n, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(windows.settled[i], want[i]);
}

/* ---- */

static void it_holds_at_once_and_after_a_restart(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct spending *spending = must_spending(ledger);
    (void)state;

    spend(spending, "ann", 100, 1000, NOW);
    spend(spending, "bob", 10, 500, NOW);
    check_windows(spending, "ann", (const tg_micro[]){1610, 1610, 1610, 1610, 1100});
    must_refuse(spending, "", 0, TG_NUMBER_MAX, 1501, 1500);
    must_refuse(spending, "ann", 0, TG_NUMBER_MAX, 1001, 1000);
    must_refuse(spending, "eve", 0, TG_NUMBER_MAX, 1, 0);
    must_refuse(spending, "", 0, MIDNIGHT, 1, 0); /* nothing was uncertain before today */
    check_windows(spending, "ann", (const tg_micro[]){1610, 1610, 1610, 1610, 1100});

    must_credit(spending, "ann", MIDNIGHT, MIDNIGHT + DAY, 400);
    for (int restarts = 0; restarts < 3; restarts++) {
        check_windows(spending, "ann", (const tg_micro[]){1210, 1210, 1210, 1210, 700});
        check_windows(spending, "bob", (const tg_micro[]){1210, 1210, 1210, 1210, 510});
        spending_free(spending);
        kit_close(ledger);
        ledger = kit_open(&kit);
        spending = must_spending(ledger);
    }
    must_credit(spending, "", 0, TG_NUMBER_MAX, 1100); /* all that is left, whosever it is */
    check_windows(spending, "ann", (const tg_micro[]){110, 110, 110, 110, 100});
    check_windows(spending, "bob", (const tg_micro[]){110, 110, 110, 110, 10});
    must_refuse(spending, "", 0, TG_NUMBER_MAX, 1, 0);
    spending_free(spending);
    kit_close(ledger);
    assert_int_equal(kit_ask(kit.path, "SELECT sum(uncertain) FROM sums"), 0);
    assert_int_equal(kit_ask(kit.path, "SELECT (SELECT sum(uncertain) FROM calls) -"
                                       " (SELECT sum(micro_usd) FROM credits)"),
                     0);
    assert_int_equal(kit_ask(kit.path, "SELECT (SELECT sum(micro_usd) FROM credit_parts) -"
                                       " (SELECT sum(micro_usd) FROM credits)"),
                     0);
    kit_free(&kit);
}

/* The latest first, and only windows that hold it: a credit for yesterday leaves today alone. */
static void windows_that_do_not_hold_it_stay(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct spending *spending = must_spending(ledger);
    (void)state;

    for (int days = 100; days >= 0; days--) {
        struct ledger_entry entry = kit_entry(2, "ann", NOW - days * DAY, 0);
        entry.uncertain = 10;
        assert_true(ledger_take_room(ledger));
        ledger_append(ledger, &entry);
        if (days % 50 == 0)
            kit_flush(ledger);
    }
    spending_free(spending);
    kit_roll(ledger, NOW); /* the oldest are days by now */
    spending = must_spending(ledger);
    /* It is a Monday, the 21st: the week has begun today. */
    check_windows(spending, "ann", (const tg_micro[]){210, 10, 10, 1010, 10});
    must_credit(spending, "ann", MIDNIGHT - DAY, MIDNIGHT, 7);
    check_windows(spending, "ann", (const tg_micro[]){203, 10, 10, 1003, 10});
    must_credit(spending, "ann", 0, TG_NUMBER_MAX, 1000);
    check_windows(spending, "ann", (const tg_micro[]){0, 0, 0, 3, 0});
    must_credit(spending, "", 0, MIDNIGHT - 80 * DAY, 3); /* a day that was rolled up */
    check_windows(spending, "ann", (const tg_micro[]){0, 0, 0, 0, 0});
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

static void list_one(void *context, const struct ledger_credit *credit)
{
    char *text = context;

    sprintf(text + strlen(text), "%lld:%s/%s %lld %s by %s;", (long long)credit->id, credit->tenant,
            credit->user, (long long)credit->micro, credit->reason, credit->actor);
}

static void they_are_listed_with_who_and_why(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct spending *spending = must_spending(ledger);
    struct ledger_view *view = NULL;
    char text[1000] = "";
    (void)state;

    assert_true(ledger_credits_list(ledger, NULL, list_one, text, NULL));
    assert_string_equal(text, "");
    spend(spending, "ann", 1, 50, NOW);
    must_credit(spending, "ann", 0, TG_NUMBER_MAX, 20);
    must_credit(spending, "", 0, TG_NUMBER_MAX, 5);
    assert_true(ledger_credits_list(ledger, "team", list_one, text, NULL));
    assert_string_equal(text, "2:team/ 5 invoice 4711 shows none of it by 127.0.0.1;"
                              "1:team/ann 20 invoice 4711 shows none of it by 127.0.0.1;");
    text[0] = '\0';
    assert_true(ledger_credits_list(ledger, "product", list_one, text, NULL));
    assert_string_equal(text, "");
    assert_true(ledger_view_open(kit.path, &view, NULL));
    assert_true(ledger_view_credits(view, NULL, NOW, list_one, text, NULL));
    assert_non_null(strstr(text, "1:team/ann 20"));
    text[0] = '\0';
    assert_true(ledger_view_credits(view, NULL, NOW + 1, list_one, text, NULL));
    assert_string_equal(text, "");
    ledger_view_close(view);
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

/* Whichever write fails, it is there with all that belongs to it, or not at all. */
static void one_that_fails_changes_nothing(void **state)
{
    (void)state;
    for (long at = 1; at < 25; at++) {
        struct kit kit = kit_new();
        struct ledger *ledger = kit_open(&kit);
        struct spending *spending = must_spending(ledger);
        struct ledger_credit credit = credit_of("", 0, TG_NUMBER_MAX, 30);
        struct tg_problem problem;
        tg_micro uncertain;

        spend(spending, "ann", 1, 50, NOW);
        kit_flush(ledger);
        kit_faults.operations = 0;
        kit_faults.fail_at = kit_faults.fail_until = at;
        kit_faults.code = SQLITE_IOERR_WRITE;
        enum ledger_credit_result result =
            spending_credit(spending, &credit, &uncertain, NULL, NULL, &problem);
        tg_micro left = result == LEDGER_CREDITED ? 21 : 51;
        kit_faults.fail_at = 0;
        check_windows(spending, "ann", (const tg_micro[]){left, left, left, left, left});
        spending_free(spending);
        kit_close(ledger);
        ledger = kit_open(&kit);
        spending = must_spending(ledger);
        check_windows(spending, "ann", (const tg_micro[]){left, left, left, left, left});
        spending_free(spending);
        kit_close(ledger);
        kit_free(&kit);
    }
}

/* By chance: the books in memory and those after a restart are the same, whatever comes. */
static void memory_and_disk_agree(void **state)
{
    struct draw draw = draw_stream(draw_seed("test_ledger_credit"), 1);
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct spending *spending = must_spending(ledger);
    static const char *const names[] = {"ann", "bob", "eve"};
    tg_micro micro = 0, uncertain = 0;
    (void)state;

    for (int i = 0; i < 300; i++) {
        const char *user = names[draw_between(&draw, 0, 2)];
        tg_micro much = draw_between(&draw, 0, 20), there;
        if (draw_chance(&draw, 60)) {
            spend(spending, user, 1, much, NOW);
            micro++;
            uncertain += much;
        } else {
            struct ledger_credit credit =
                credit_of(draw_chance(&draw, 50) ? user : "", 0, TG_NUMBER_MAX, 1 + much);
            enum ledger_credit_result result =
                spending_credit(spending, &credit, &there, NULL, NULL, NULL);
            assert_int_equal(result, there > much ? LEDGER_CREDITED : LEDGER_CREDIT_TOO_MUCH);
            uncertain -= result == LEDGER_CREDITED ? 1 + much : 0;
        }
        if (draw_chance(&draw, 5)) {
            spending_free(spending);
            kit_close(ledger);
            ledger = kit_open(&kit);
            spending = must_spending(ledger);
        }
        struct spending_call call = {.tenant = "team", .user = kit_text("ann")};
        struct windows windows = {.n = 0};
        assert_int_equal(spending_peek(spending, &call, NOW, add_windows, &windows), TG_OK);
        for (size_t k = 0; k < 4; k++)
            assert_int_equal(windows.settled[k], micro + uncertain);
        assert_int_equal(kit_spent(ledger, NULL, NULL, 0), micro + uncertain);
        assert_int_equal(kit_spent(ledger, "team", "ann", 0), windows.settled[4]);
    }
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_holds_at_once_and_after_a_restart),
        cmocka_unit_test(windows_that_do_not_hold_it_stay),
        cmocka_unit_test(they_are_listed_with_who_and_why),
        cmocka_unit_test(one_that_fails_changes_nothing),
        cmocka_unit_test(memory_and_disk_agree),
    };

    kit_wrap_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
