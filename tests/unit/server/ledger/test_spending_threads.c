/* test_spending_threads.c - calls that reserve and settle while the tree changes under them: after
 * each change and at the end, bank and ledger say the same. Runs under TSan too.
 */
#include "ledger_kit.h"

#include <sched.h>
#include <stdatomic.h>

#include "crew.h"
#include "draw.h"
#include "server/ledger/spending.h"

#define SPENDERS 3
#define EACH 20000

struct market {
    struct ledger *ledger;
    struct spending *spending;
    uint64_t seed;
    _Atomic int64_t spent;
    _Atomic int spenders;
    _Atomic int wrong;
};

/* The same tenants; the windows of all budgets are of one kind or of another. */
struct plan {
    struct tg_budget budgets[1];
    struct spending_tenant tenants[2];
    struct spending_tree tree;
};

static const char *const NAMES[] = {"top", "leaf"};

static void plan_init(struct plan *plan, enum tg_per per)
{
    plan->budgets[0] = (struct tg_budget){TG_MONEY_MAX, per, NULL, TG_ENFORCE};
    plan->tenants[0] =
        (struct spending_tenant){
            .name = "top",
            .parent = SPENDING_TOP,
            .budgets = plan->budgets,
            .n_budgets = 1,
            .user_budgets = plan->budgets,
            .n_user_budgets = 1,
        };
    plan->tenants[1] = (struct spending_tenant){
        .name = "leaf",
        .parent = 0,
        .budgets = plan->budgets,
        .n_budgets = 1,
        .user_budgets = plan->budgets,
        .n_user_budgets = 1,
    };
    plan->tree = (struct spending_tree){plan->budgets, 1, plan->tenants, 2};
}

static void spend_once(struct market *market, struct draw *draw)
{
    char user[2] = {(char)('a' + draw_between(draw, 0, 5)), '\0'};
    size_t tenant = (size_t)draw_between(draw, 0, 1);
    struct spending_call call = {.tenant = NAMES[tenant],
                                 .hint = tenant,
                                 .user = kit_text(user),
                                 .money = draw_magnitude(draw, 1000)};
    struct spending_use use = {
        .spent = draw_magnitude(draw, 1000), .user = call.user, .model = kit_text("m")};
    struct spending_ticket ticket;
    struct tg_money_answer answer;

    while (spending_reserve(market->spending, &call, NOW, &ticket, &answer) == TG_ERR_STORE)
        (void)ledger_flush(market->ledger, NULL);
    if (ticket.reservation == 0 || !spending_settle(market->spending, &ticket, &use, NOW) ||
        spending_settle(market->spending, &ticket, &use, NOW))
        atomic_fetch_add(&market->wrong, 1);
    atomic_fetch_add(&market->spent, use.spent);
}

static tg_micro settled_of(struct market *market, size_t tenant)
{
    struct tg_budget_metrics metrics[TG_BUDGETS_MAX];
    tg_account account =
        spending_account(market->spending, tenant < 2 ? NAMES[tenant] : NULL, tenant);
    size_t n = tg_bank_get_budgets(spending_bank(market->spending), account, NOW, metrics);

    return n == 1 ? metrics[0].settled : -1;
}

static void change_until_done(struct market *market)
{
    struct plan plans[2];

    plan_init(&plans[0], TG_PER_DAY);
    plan_init(&plans[1], TG_PER_MONTH);
    for (size_t i = 0; atomic_load(&market->spenders) > 0; i++) {
        tg_micro before = atomic_load(&market->spent);
        /* What was settled while the last change was made is there as well. */
        if (settled_of(market, SPENDING_TOP) < before)
            atomic_fetch_add(&market->wrong, 1);
        if (!spending_change(market->spending, &plans[i % 2].tree, NOW, NULL) ||
            settled_of(market, SPENDING_TOP) < before)
            atomic_fetch_add(&market->wrong, 1);
    }
}

static void work(void *context, size_t i, size_t round)
{
    struct market *market = context;
    struct draw draw = draw_stream(market->seed, i);

    (void)round;
    if (i == SPENDERS) {
        change_until_done(market);
        return;
    }
    for (int n = 0; n < EACH; n++)
        spend_once(market, &draw);
    atomic_fetch_sub(&market->spenders, 1);
}

static void changes_lose_no_settlement(void **state)
{
    struct kit kit = kit_new();
    struct market market = {.ledger = kit_open(&kit), .spenders = SPENDERS};
    struct spending_config config = {.ledger = market.ledger};
    struct plan plan;
    (void)state;

    market.seed = draw_seed("test_spending_threads");
    tg_bank_config_init(&config.bank);
    plan_init(&plan, TG_PER_TOTAL);
    assert_true(spending_new(&config, &plan.tree, NOW, &market.spending, NULL));
    crew_run(SPENDERS + 1, 1, work, &market);
    assert_int_equal(market.wrong, 0);
    assert_int_equal(kit_spent(market.ledger, NULL, NULL, 0), market.spent);
    assert_int_equal(settled_of(&market, SPENDING_TOP), market.spent);
    assert_int_equal(settled_of(&market, 0), market.spent);
    assert_int_equal(settled_of(&market, 1), kit_spent(market.ledger, "leaf", NULL, 0));
    spending_free(market.spending);
    kit_close(market.ledger);
    kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(changes_lose_no_settlement)};

    kit_wrap_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
