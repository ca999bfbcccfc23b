/* test_spending_peek.c - the accounts on the way of a call, and all that there are. */
#include "ledger_kit.h"

#include "server/ledger/spending.h"

#define NAMES_MAX 16

static struct tg_budget budget_of(tg_micro amount, enum tg_per per)
{
    return (struct tg_budget){amount, per, NULL, TG_ENFORCE};
}

/* What was looked at: "root/tenant/user=settled of amount", in order. */
struct seen {
    char lines[NAMES_MAX][96];
    size_t n;
};

static void see(void *context, const struct spending_account *account)
{
    struct seen *seen = context;

    for (size_t i = 0; i < account->n_budgets; i++) {
        const struct tg_budget_metrics *budget = &account->budgets[i];
        assert_true(seen->n < NAMES_MAX);
        assert_true(budget->begin <= NOW && NOW < budget->end);
        snprintf(seen->lines[seen->n++], sizeof seen->lines[0], "%s/%s/%.*s=%lld of %lld",
                 account->root ? account->root : "", account->tenant ? account->tenant : "",
                 (int)account->user.size, account->user.bytes ? account->user.bytes : "",
                 (long long)budget->settled, (long long)budget->amount);
    }
}

static bool has(const struct seen *seen, const char *line)
{
    for (size_t i = 0; i < seen->n; i++)
        if (strcmp(seen->lines[i], line) == 0)
            return true;
    return false;
}

struct house {
    struct tg_budget everyone[1], top[1], leaf[1], users[1];
    struct spending_tenant tenants[3];
    struct spending_tree tree;
};

/* other stands alone and has none. */
static void house_init(struct house *house)
{
    house->everyone[0] = budget_of(1000, TG_PER_MONTH);
    house->top[0] = budget_of(900, TG_PER_WEEK);
    house->leaf[0] = budget_of(800, TG_PER_DAY);
    house->users[0] = budget_of(700, TG_PER_TOTAL);
    house->tenants[0] = (struct spending_tenant){
        .name = "top",
        .parent = SPENDING_TOP,
        .budgets = house->top,
        .n_budgets = 1,
        .user_budgets = NULL,
        .n_user_budgets = 0,
    };
    house->tenants[1] = (struct spending_tenant){
        .name = "leaf",
        .parent = 0,
        .budgets = house->leaf,
        .n_budgets = 1,
        .user_budgets = house->users,
        .n_user_budgets = 1,
    };
    house->tenants[2] = (struct spending_tenant){
        .name = "other",
        .parent = SPENDING_TOP,
        .budgets = NULL,
        .n_budgets = 0,
        .user_budgets = NULL,
        .n_user_budgets = 0,
    };
    house->tree = (struct spending_tree){house->everyone, 1, house->tenants, 3};
}

static struct spending *must_spending(struct ledger *ledger, const struct house *house)
{
    struct spending_config config = {.ledger = ledger, .open = true};
    struct tg_problem problem = {""};
    struct spending *spending = NULL;

    tg_bank_config_init(&config.bank);
    if (!spending_new(&config, &house->tree, NOW, &spending, &problem))
        fail_msg("%s", problem.text);
    return spending;
}

static void spend(struct spending *spending, const char *user, tg_micro money)
{
    struct spending_call call = {
        .tenant = "leaf", .hint = SPENDING_TOP, .user = kit_text(user), .money = money};
    struct spending_use use = {.spent = money, .user = call.user, .model = kit_text("m")};
    struct spending_ticket ticket;
    struct tg_money_answer answer;

    assert_int_equal(spending_reserve(spending, &call, NOW, &ticket, &answer), TG_OK);
    assert_true(spending_settle(spending, &ticket, &use, NOW));
}

static void the_way_of_a_call_is_seen_from_the_top(void **state)
{
    struct house house;
    struct seen seen = {.n = 0};
    struct spending_call call = {.tenant = "leaf", .hint = 1, .user = kit_text("ann")};
    (void)state;

    house_init(&house);
    struct spending *spending = must_spending(NULL, &house);
    spend(spending, "ann", 30);
    assert_int_equal(spending_peek(spending, &call, NOW, see, &seen), TG_OK);
    assert_int_equal(seen.n, 4);
    assert_string_equal(seen.lines[0], "top//=30 of 1000");
    assert_string_equal(seen.lines[1], "top/top/=30 of 900");
    assert_string_equal(seen.lines[2], "top/leaf/=30 of 800");
    assert_string_equal(seen.lines[3], "top/leaf/ann=30 of 700");

    /* A user who never came is seen as he would be opened, and is not. */
    seen.n = 0;
    call.user = kit_text("bob");
    assert_int_equal(spending_peek(spending, &call, NOW, see, &seen), TG_OK);
    assert_string_equal(seen.lines[3], "top/leaf/bob=0 of 700");
    assert_int_equal(tg_bank_find(spending_bank(spending), spending_account(spending, "leaf", 1),
                                  "bob", 3),
                     0);
    call.tenant = "nobody";
    assert_int_equal(spending_peek(spending, &call, NOW, see, &seen), TG_ERR_UNKNOWN);
    spending_free(spending);
}

static void what_is_left_is_the_least_on_the_way_also_of_a_user_who_never_came(void **state)
{
    struct house house;
    struct spending_call call = {.tenant = "leaf", .hint = 1};
    tg_micro left;
    double part;
    (void)state;

    house_init(&house);
    house.leaf[0].amount = 80;
    house.users[0].amount = 40;
    struct spending *spending = must_spending(NULL, &house);
    spend(spending, "ann", 30);
    assert_int_equal(spending_left(spending, &call, NOW, &left, &part), TG_OK);
    assert_int_equal(left, 50);
    assert_true(part == 50.0 / 80);
    call.user = kit_text("ann");
    assert_int_equal(spending_left(spending, &call, NOW, &left, &part), TG_OK);
    assert_int_equal(left, 10);
    assert_true(part == 0.25);
    call.user = kit_text("bob");
    assert_int_equal(spending_left(spending, &call, NOW, &left, &part), TG_OK);
    assert_int_equal(left, 40);
    assert_true(part == 1);
    spend(spending, "eve", 20);
    assert_int_equal(spending_left(spending, &call, NOW, &left, NULL), TG_OK);
    assert_int_equal(left, 30); /* the tenant has less left than a new user may spend */

    call = (struct spending_call){.tenant = "other", .hint = 2, .user = kit_text("bob")};
    assert_int_equal(spending_left(spending, &call, NOW, &left, NULL), TG_OK);
    assert_int_equal(left, 950); /* what is left of everyone's budget */
    call.tenant = "nobody";
    assert_int_equal(spending_left(spending, &call, NOW, &left, NULL), TG_ERR_UNKNOWN);
    spending_free(spending);
}

static void a_budget_of_users_in_shadow_leaves_what_there_is(void **state)
{
    struct house house;
    struct spending_call call = {.tenant = "leaf", .hint = 1, .user = kit_text("bob")};
    tg_micro left;
    (void)state;

    house_init(&house);
    house.users[0].amount = 40;
    house.users[0].mode = TG_SHADOW;
    struct spending *spending = must_spending(NULL, &house);
    assert_int_equal(spending_left(spending, &call, NOW, &left, NULL), TG_OK);
    assert_int_equal(left, 800);
    spending_free(spending);
}

static void all_accounts_that_spent_are_seen_users_by_the_ledger(void **state)
{
    struct kit kit = kit_new();
    struct house house;
    struct seen seen = {.n = 0};
    struct tg_problem problem;
    (void)state;

    house_init(&house);
    struct ledger *ledger = kit_open(&kit);
    struct spending *spending = must_spending(ledger, &house);
    spend(spending, "ann", 30);
    spend(spending, "bob", 5);
    kit_flush(ledger); /* the first two are in the database, one is not */
    spend(spending, "eve", 2);
    assert_true(spending_each(spending, NOW, see, &seen, &problem));
    assert_true(has(&seen, "//=37 of 1000"));
    assert_true(has(&seen, "top/top/=37 of 900"));
    assert_true(has(&seen, "top/leaf/=37 of 800"));
    assert_true(has(&seen, "top/leaf/ann=30 of 700"));
    assert_true(has(&seen, "top/leaf/bob=5 of 700"));
    assert_true(has(&seen, "top/leaf/eve=2 of 700"));
    assert_int_equal(seen.n, 6);
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

static void a_ledger_keeps_its_id_and_no_other_has_it(void **state)
{
    struct kit kit = kit_new();
    struct tg_problem problem;
    struct ledger_config config;
    struct ledger *ledger = kit_open(&kit);
    uint64_t id = ledger_id(ledger);
    (void)state;

    kit_close(ledger);
    ledger = kit_open(&kit);
    assert_true(ledger_id(ledger) == id && id != 0);
    kit_close(ledger);
    ledger_config_init(&config);
    config.path = ":memory:";
    assert_true(ledger_open(&config, &ledger, &problem));
    assert_true(ledger_id(ledger) != id);
    kit_close(ledger);
    kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_way_of_a_call_is_seen_from_the_top),
        cmocka_unit_test(what_is_left_is_the_least_on_the_way_also_of_a_user_who_never_came),
        cmocka_unit_test(a_budget_of_users_in_shadow_leaves_what_there_is),
        cmocka_unit_test(all_accounts_that_spent_are_seen_users_by_the_ledger),
        cmocka_unit_test(a_ledger_keeps_its_id_and_no_other_has_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
