/* test_spending.c - the bank and the ledger together: budgets survive restarts and changes. */
#include "ledger_kit.h"

#include "io/posix/clock.h"
#include "server/ledger/spending.h"

#define MIDNIGHT (NOW - NOW % DAY)

enum { PRODUCT,
       TEAM_A,
       TEAM_B,
       TENANTS };

/* Everyone, product over team-a and team-b, users of team-a. Tests change their copy. */
struct world {
    struct tg_budget everyone[1], product[1], team_a[2], users[1];
    struct spending_tenant tenants[TENANTS];
    struct spending_tree tree;
};

static struct tg_budget budget_of(tg_micro amount, enum tg_per per)
{
    return (struct tg_budget){amount, per, NULL, TG_ENFORCE};
}

/* In its place: the tree points into it. */
static void world_init(struct world *world)
{
    world->everyone[0] = budget_of(100000, TG_PER_MONTH);
    world->product[0] = budget_of(50000, TG_PER_WEEK);
    world->team_a[0] = budget_of(10000, TG_PER_DAY);
    world->team_a[1] = budget_of(20000, TG_PER_TOTAL);
    world->users[0] = budget_of(1000, TG_PER_DAY);
    world->tenants[PRODUCT] =
        (struct spending_tenant){"product", SPENDING_TOP, world->product, 1, NULL, 0, NULL, 0};
    world->tenants[TEAM_A] =
        (struct spending_tenant){"team-a", PRODUCT, world->team_a, 2, world->users, 1, NULL, 0};
    world->tenants[TEAM_B] = (struct spending_tenant){"team-b", PRODUCT, NULL, 0, NULL, 0, NULL, 0};
    world->tree = (struct spending_tree){world->everyone, 1, world->tenants, TENANTS};
}

static struct spending *must_spending(struct ledger *ledger, bool open, const struct world *world,
                                      tg_ms now)
{
    struct spending_config config = {.ledger = ledger, .open = open};
    struct tg_problem problem = {""};
    struct spending *spending = NULL;

    tg_bank_config_init(&config.bank);
    if (!spending_new(&config, &world->tree, now, &spending, &problem))
        fail_msg("%s", problem.text);
    return spending;
}

static void must_change(struct spending *spending, const struct world *world, tg_ms now)
{
    struct tg_problem problem = {""};

    if (!spending_change(spending, &world->tree, now, &problem))
        fail_msg("%s", problem.text);
}

static const char *name_of(size_t tenant)
{
    static const char *const names[] = {
        [PRODUCT] = "product", [TEAM_A] = "team-a", [TEAM_B] = "team-b"};

    return tenant < TENANTS ? names[tenant] : NULL;
}

/* By its name alone, as if another tree had come meanwhile. */
static struct spending_call call_of(size_t tenant, const char *user, tg_micro money)
{
    return (struct spending_call){
        .tenant = name_of(tenant), .hint = tenant + 1, .user = kit_text(user), .money = money};
}

static struct spending_use use_of(const char *user, tg_micro spent)
{
    const struct tg_usage usage = {.input = 1, .cached_input = 2, .cache_write = 3, .output = 4};

    return (struct spending_use){.spent = spent,
                                 .usage = usage,
                                 .user = kit_text(user),
                                 .model = kit_text("demo-small"),
                                 .provider = kit_text("demo"),
                                 .key = kit_text("k1")};
}

static struct spending_ticket must_reserve(struct spending *spending, size_t tenant,
                                           const char *user, tg_micro money, tg_ms now)
{
    struct spending_call call = call_of(tenant, user, money);
    struct spending_ticket ticket = {0};
    struct tg_money_answer answer;

    assert_int_equal(spending_reserve(spending, &call, now, &ticket, &answer), TG_OK);
    assert_int_not_equal(ticket.reservation, 0);
    return ticket;
}

static void must_spend(struct spending *spending, size_t tenant, const char *user, tg_micro micro,
                       tg_ms now)
{
    struct spending_ticket ticket = must_reserve(spending, tenant, user, micro, now);
    struct spending_use use = use_of(user, micro);

    assert_true(spending_settle(spending, &ticket, &use, now + 10));
}

/* Whether a call for this much would be refused; if not, it is taken back. */
static bool refuses(struct spending *spending, size_t tenant, const char *user, tg_micro money,
                    tg_ms now)
{
    struct spending_call call = call_of(tenant, user, money);
    struct spending_use nothing = {.spent = 0};
    struct spending_ticket ticket;
    struct tg_money_answer answer;

    assert_int_equal(spending_reserve(spending, &call, now, &ticket, &answer), TG_OK);
    if (ticket.reservation == 0)
        return true;
    assert_true(spending_settle(spending, &ticket, &nothing, now));
    return false;
}

static tg_micro settled_of(struct spending *spending, size_t tenant, size_t budget, tg_ms now)
{
    struct tg_budget_metrics metrics[TG_BUDGETS_MAX];
    tg_account account = spending_account(spending, name_of(tenant), tenant);
    size_t n = tg_bank_get_budgets(spending_bank(spending), account, now, metrics);

    assert_true(budget < n);
    return metrics[budget].settled;
}

static void expect_settled(struct spending *spending, tg_micro everyone, tg_micro product,
                           tg_micro day, tg_micro total, tg_ms now)
{
    assert_int_equal(settled_of(spending, SPENDING_TOP, 0, now), everyone);
    assert_int_equal(settled_of(spending, PRODUCT, 0, now), product);
    assert_int_equal(settled_of(spending, TEAM_A, 0, now), day);
    assert_int_equal(settled_of(spending, TEAM_A, 1, now), total);
}

static void every_window_is_restored_at_the_start(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct world world;
    (void)state;

    world_init(&world);
    struct spending *spending = must_spending(ledger, false, &world, MIDNIGHT - 40 * DAY);
    must_spend(spending, TEAM_A, "", 1, MIDNIGHT - 40 * DAY);
    must_spend(spending, TEAM_A, "u", 10, MIDNIGHT - 1);
    must_spend(spending, TEAM_A, "u", 100, MIDNIGHT + 1);
    must_spend(spending, TEAM_B, "u", 1000, MIDNIGHT + 2);
    tg_micro week = settled_of(spending, PRODUCT, 0, NOW);
    expect_settled(spending, 1110, week, 100, 111, NOW);
    spending_free(spending);

    for (int i = 0; i < 3; i++) {
        spending = must_spending(ledger, false, &world, NOW);
        expect_settled(spending, 1110, week, 100, 111, NOW);
        spending_free(spending);
        kit_flush(ledger);
        if (i == 1) {
            kit_close(ledger);
            ledger = kit_open(&kit);
        }
    }
    kit_close(ledger);
    kit_free(&kit);
}

static void a_user_is_remembered_over_a_restart(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct world world;
    (void)state;

    world_init(&world);
    struct spending *spending = must_spending(ledger, false, &world, NOW);
    must_spend(spending, TEAM_A, "u", 600, NOW);
    must_spend(spending, TEAM_A, "v", 100, NOW);
    assert_true(refuses(spending, TEAM_A, "u", 401, NOW));
    spending_free(spending);
    kit_close(ledger);

    ledger = kit_open(&kit);
    spending = must_spending(ledger, false, &world, NOW + 1);
    assert_true(refuses(spending, TEAM_A, "u", 401, NOW + 1));
    assert_false(refuses(spending, TEAM_A, "u", 400, NOW + 1));
    assert_false(refuses(spending, TEAM_A, "v", 900, NOW + 1));
    assert_true(refuses(spending, TEAM_A, "v", 901, NOW + 1));
    assert_false(refuses(spending, TEAM_A, "new", 1000, NOW + 1));
    assert_false(refuses(spending, TEAM_A, "u", 1000, NOW + DAY)); /* the next day */
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

static void a_settlement_counts_once(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct world world;
    struct spending_use use = use_of("u", 70);
    (void)state;

    world_init(&world);
    struct spending *spending = must_spending(ledger, false, &world, NOW);
    struct spending_ticket ticket = must_reserve(spending, TEAM_A, "u", 100, NOW);
    assert_int_equal(kit_state(ledger).room, 63);
    assert_true(spending_settle(spending, &ticket, &use, NOW + 5));
    assert_int_equal(kit_view(&kit, 0), 70);
    assert_false(spending_settle(spending, &ticket, &use, NOW + 6));
    assert_int_equal(kit_view(&kit, 0), 70);
    assert_int_equal(settled_of(spending, TEAM_A, 0, NOW), 70);
    kit_flush(ledger);
    assert_int_equal(kit_state(ledger).room, 64);
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

static void room_comes_back_from_calls_that_leave_no_line(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct world world;
    char name[LEDGER_NAME_MAX + 2];
    struct spending_call call = call_of(TEAM_A, "u", 1);
    struct spending_ticket ticket;
    struct tg_money_answer answer;
    (void)state;

    world_init(&world);
    struct spending *spending = must_spending(ledger, false, &world, NOW);
    assert_true(refuses(spending, TEAM_A, "", 10001, NOW));
    assert_false(refuses(spending, TEAM_A, "", 10, NOW));
    call.tenant = "nobody";
    assert_int_equal(spending_reserve(spending, &call, NOW, &ticket, &answer), TG_ERR_UNKNOWN);
    call = call_of(TEAM_A, "u", -1);
    assert_int_equal(spending_reserve(spending, &call, NOW, &ticket, &answer), TG_ERR_INVALID);
    memset(name, 'x', sizeof name);
    call = call_of(TEAM_A, "u", 1);
    call.user = (struct ledger_text){name, LEDGER_NAME_MAX + 1};
    assert_int_equal(spending_reserve(spending, &call, NOW, &ticket, &answer), TG_ERR_INVALID);
    assert_int_equal(kit_state(ledger).room, 64);
    assert_int_equal(kit_state(ledger).waiting, 0);
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

static void a_reservation_that_stands_is_recorded(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct world world;
    struct spending_use use = {.spent = -1, .flags = LEDGER_ESTIMATED};
    (void)state;

    world_init(&world);
    struct spending *spending = must_spending(ledger, false, &world, NOW);
    struct spending_ticket ticket = must_reserve(spending, TEAM_A, "u", 100, NOW);
    assert_true(spending_settle(spending, &ticket, &use, NOW));
    assert_int_equal(kit_spent(ledger, "team-a", NULL, 0), 100);
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

static void changing_an_amount_keeps_the_spend(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct world world;
    (void)state;

    world_init(&world);
    struct spending *spending = must_spending(ledger, false, &world, NOW);
    must_spend(spending, TEAM_A, "u", 900, NOW);
    struct spending_ticket ticket = must_reserve(spending, TEAM_A, "v", 50, NOW);
    world.team_a[0].amount = 1000;
    world.users[0].amount = 950;
    must_change(spending, &world, NOW + 1);
    expect_settled(spending, 900, 900, 900, 900, NOW + 1);
    assert_true(refuses(spending, TEAM_A, "w", 51, NOW + 1)); /* 900 + 50 of 1000 */
    assert_false(refuses(spending, TEAM_A, "w", 50, NOW + 1));
    assert_true(refuses(spending, TEAM_A, "u", 51, NOW + 1)); /* 900 of 950 */
    assert_false(refuses(spending, TEAM_A, "u", 50, NOW + 1));
    struct spending_use use = use_of("v", 20);
    assert_true(spending_settle(spending, &ticket, &use, NOW + 2));
    expect_settled(spending, 920, 920, 920, 920, NOW + 2);
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

static void a_new_window_is_added_up_from_the_ledger(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct world world;
    (void)state;

    world_init(&world);
    struct spending *spending = must_spending(ledger, false, &world, NOW - 40 * DAY);
    must_spend(spending, TEAM_A, "u", 1, NOW - 40 * DAY);
    must_spend(spending, TEAM_A, "u", 10, MIDNIGHT - 1);
    must_spend(spending, TEAM_A, "u", 100, NOW);
    must_spend(spending, TEAM_B, "u", 1000, NOW);
    world.team_a[0].per = TG_PER_MONTH;
    world.users[0].per = TG_PER_TOTAL;
    world.users[0].amount = 120;
    world.product[0].per = TG_PER_DAY;
    must_change(spending, &world, NOW + 1);
    expect_settled(spending, 1110, 1100, 110, 111, NOW + 1);
    assert_true(refuses(spending, TEAM_A, "u", 10, NOW + 1));
    assert_false(refuses(spending, TEAM_A, "u", 9, NOW + 1));
    /* Adding a window does not inherit what was spent before it. */
    world.users[0].per = TG_PER_DAY;
    must_change(spending, &world, NOW + 2);
    assert_true(refuses(spending, TEAM_A, "u", 21, NOW + 2));
    assert_false(refuses(spending, TEAM_A, "u", 20, NOW + 2));
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

static void a_tenant_that_is_gone_still_counts_for_its_parent(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct world world;
    (void)state;

    world_init(&world);
    struct spending *spending = must_spending(ledger, false, &world, NOW);
    must_spend(spending, TEAM_B, "u", 700, NOW);
    struct spending_ticket ticket = must_reserve(spending, TEAM_B, "u", 10, NOW);
    world.tree.n_tenants = TENANTS - 1;
    must_change(spending, &world, NOW);
    expect_settled(spending, 700, 700, 0, 0, NOW);
    struct spending_use use = use_of("u", 5);
    assert_true(spending_settle(spending, &ticket, &use, NOW)); /* what was outstanding settles */
    expect_settled(spending, 705, 705, 0, 0, NOW);
    spending_free(spending);
    spending = must_spending(ledger, false, &world, NOW);
    expect_settled(spending, 705, 705, 0, 0, NOW);
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

static void closed_refuses_when_the_ledger_has_no_room(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct world world;
    struct spending_call call = call_of(TEAM_A, "", 1);
    struct spending_ticket tickets[64], ticket;
    struct tg_money_answer answer;
    struct spending_use use = use_of("", 1);
    (void)state;

    world_init(&world);
    struct spending *spending = must_spending(ledger, false, &world, NOW);
    kit_faults.operations = 0;
    kit_faults.fail_at = 1;
    kit_faults.fail_until = INT32_MAX;
    kit_faults.code = SQLITE_FULL;
    for (size_t i = 0; i < 64; i++)
        tickets[i] = must_reserve(spending, TEAM_A, "", 1, NOW);
    assert_int_equal(spending_reserve(spending, &call, NOW, &ticket, &answer), TG_ERR_STORE);
    /* What was admitted is recorded, full disk or not. */
    for (size_t i = 0; i < 64; i++)
        assert_true(spending_settle(spending, &tickets[i], &use, NOW));
    assert_false(ledger_flush(ledger, NULL));
    assert_int_equal(spending_reserve(spending, &call, NOW, &ticket, &answer), TG_ERR_STORE);
    assert_int_equal(kit_spent(ledger, "team-a", NULL, 0), 64);
    kit_faults.fail_at = 0;
    kit_flush(ledger);
    must_spend(spending, TEAM_A, "", 1, NOW);
    assert_int_equal(kit_spent(ledger, "team-a", NULL, 0), 65);
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

static void open_goes_on_and_counts_what_it_cannot_record(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct world world;
    struct spending_stats stats;
    (void)state;

    world_init(&world);
    struct spending *spending = must_spending(ledger, true, &world, NOW);
    for (size_t i = 0; i < 66; i++)
        must_spend(spending, TEAM_A, "", 3, NOW);
    spending_get_stats(spending, &stats);
    assert_int_equal(stats.lost, 2);
    assert_int_equal(stats.micro, 6);
    assert_int_equal(kit_spent(ledger, "team-a", NULL, 0), 192);
    expect_settled(spending, 198, 198, 198, 198, NOW);
    must_change(spending, &world, NOW); /* windows that stay forget nothing either */
    expect_settled(spending, 198, 198, 198, 198, NOW);
    spending_free(spending);
    kit_close(ledger);

    spending = must_spending(NULL, true, &world, NOW); /* a ledger that could not be opened */
    must_spend(spending, TEAM_A, "u", 7, NOW);
    spending_get_stats(spending, &stats);
    assert_int_equal(stats.lost, 1);
    assert_int_equal(settled_of(spending, TEAM_A, 0, NOW), 7);
    spending_free(spending);
    kit_free(&kit);
}

/* The new amounts make every account of the tree be set up again from the ledger, which has less
 * than the bank: the journal was full, and the disk does not take anything. */
static void a_reload_keeps_what_the_ledger_could_not_record(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct world world;
    (void)state;

    world_init(&world);
    struct spending *spending = must_spending(ledger, true, &world, NOW);
    kit_faults.operations = 0;
    kit_faults.fail_at = 1;
    kit_faults.fail_until = INT32_MAX;
    kit_faults.code = SQLITE_FULL;
    for (size_t i = 0; i < 66; i++)
        must_spend(spending, TEAM_A, "u", 3, NOW);
    assert_int_equal(kit_spent(ledger, "team-a", NULL, 0), 192);
    world.everyone[0].amount = 90000;
    world.product[0].amount = 40000;
    world.team_a[0].amount = 9000;
    world.team_a[1].amount = 19000;
    world.users[0].amount = 200;
    must_change(spending, &world, NOW + 1);
    expect_settled(spending, 198, 198, 198, 198, NOW + 1);
    assert_true(refuses(spending, TEAM_A, "u", 3, NOW + 1)); /* 198 of 200, not 192 */
    assert_false(refuses(spending, TEAM_A, "u", 2, NOW + 1));
    kit_faults.fail_at = 0;
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

/* Whoever takes a tenant out of the file and puts it back does not forgive it what its calls cost
 * meanwhile; its users neither. */
static void a_tenant_that_comes_back_has_its_calls_in_flight(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct world world;
    (void)state;

    for (int round = 0; round < 4; round++) {
        tg_ms now = NOW + round * 100;
        world_init(&world);
        world.tenants[TEAM_A].n_budgets = round < 2 ? 2 : 0; /* users alone have budgets */
        world.tenants[PRODUCT].n_budgets = round < 3 ? 1 : 0;
        struct spending *spending = must_spending(ledger, false, &world, now);
        tg_micro before = settled_of(spending, SPENDING_TOP, 0, now);
        struct spending_ticket ticket = must_reserve(spending, TEAM_A, "u", 300, now);
        struct spending_use use = use_of("u", 200);
        world.tree.n_tenants = 1;
        must_change(spending, &world, now + 1);
        if (round == 1)
            must_change(spending, &world, now + 2);
        world.tree.n_tenants = TENANTS;
        must_change(spending, &world, now + 3);
        assert_true(spending_settle(spending, &ticket, &use, now + 5));
        assert_int_equal(settled_of(spending, SPENDING_TOP, 0, now + 6), before + 200);
        if (round < 2)
            assert_int_equal(settled_of(spending, TEAM_A, 0, now + 6), before + 200);
        assert_true(refuses(spending, TEAM_A, "u", 1000 - before - 200 + 1, now + 6));
        assert_false(refuses(spending, TEAM_A, "u", 1000 - before - 200, now + 6));
        spending_free(spending);
        kit_flush(ledger);
    }
    kit_close(ledger);
    kit_free(&kit);
}

static void a_tree_that_is_none_is_refused(void **state)
{
    struct spending_config config = {.open = true};
    struct tg_problem problem = {""};
    struct spending *spending = NULL;
    struct world world;
    (void)state;

    world_init(&world);
    tg_bank_config_init(&config.bank);
    world.tenants[PRODUCT].parent = TEAM_A;
    assert_false(spending_new(&config, &world.tree, NOW, &spending, &problem));
    assert_non_null(strstr(problem.text, "the tenant product has a parent"));
    world.tenants[PRODUCT].parent = 9;
    assert_false(spending_new(&config, &world.tree, NOW, &spending, &problem));
    world_init(&world);
    world.tenants[TEAM_A].n_budgets = TG_BUDGETS_MAX + 1;
    assert_false(spending_new(&config, &world.tree, NOW, &spending, &problem));
    assert_non_null(strstr(problem.text, "team-a has 9 budgets"));
    world_init(&world);
    world.team_a[0].amount = -1;
    assert_false(spending_new(&config, &world.tree, NOW, &spending, &problem));
    world_init(&world);
    config.open = false;
    assert_false(spending_new(&config, &world.tree, NOW, &spending, &problem));
    assert_non_null(strstr(problem.text, "ledger.failure is closed"));
}

/* Attack 14: days are the wall clock's, however it is set; and none comes a second time. */
static void windows_follow_the_wall_clock_and_never_go_back(void **state)
{
    const tg_ms day = 86400000, noon = 19000 * day + day / 2;
    struct spending_config config = {.open = true};
    struct tg_problem problem = {""};
    struct spending *spending = NULL;
    struct clock clock = {.epoch_ns = 0};
    struct world world;

    (void)state;
    world_init(&world);
    config.clock = &clock;
    tg_bank_config_init(&config.bank);
    assert_true(spending_new(&config, &world.tree, noon, &spending, &problem));
    must_spend(spending, TEAM_A, "", 10000, noon);
    assert_true(refuses(spending, TEAM_A, "", 1, noon + 1));
    /* The clock is set 200,000 s ahead: another day, though the steady clock has not moved. */
    atomic_store(&clock.ahead_ms, 200000000);
    assert_int_equal(spending_time(spending, noon + 2), noon + 2 + 200000000);
    assert_false(refuses(spending, TEAM_A, "", 10000, noon + 2));
    must_spend(spending, TEAM_A, "", 10000, noon + 3);
    assert_true(refuses(spending, TEAM_A, "", 1, noon + 4));
    /* And back: the day that has begun stays, and the one before does not come again. */
    atomic_store(&clock.ahead_ms, 0);
    assert_int_equal(spending_time(spending, noon + 5), noon + 13 + 200000000);
    assert_true(refuses(spending, TEAM_A, "", 1, noon + 6));
    must_change(spending, &world, noon + 7); /* a reload changes nothing of it */
    assert_true(refuses(spending, TEAM_A, "", 1, noon + 8));
    /* Three days later it is another day by either clock; the total is used up by now. */
    assert_int_equal(settled_of(spending, TEAM_A, 0, noon + 3 * day), 0);
    assert_int_equal(settled_of(spending, TEAM_A, 1, noon + 3 * day), 20000);
    spending_free(spending);
}

/* ---- virtual keys ---- */

enum { CI = 600,
       DEV = 5000 };

/* team-a has two keys, of which one has a budget. */
struct keyed {
    struct world world;
    struct tg_budget ci[1];
    struct spending_key keys[2];
};

static void keyed_init(struct keyed *keyed)
{
    world_init(&keyed->world);
    keyed->ci[0] = budget_of(CI, TG_PER_DAY);
    keyed->keys[0] = (struct spending_key){"ci", "cost_centre=4711", keyed->ci, 1};
    keyed->keys[1] = (struct spending_key){"ann", NULL, NULL, 0};
    keyed->world.tenants[TEAM_A].keys = keyed->keys;
    keyed->world.tenants[TEAM_A].n_keys = 2;
}

static struct spending_call call_with_key(const char *key, const char *user, tg_micro money)
{
    struct spending_call call = call_of(TEAM_A, user, money);

    call.key = key;
    return call;
}

/* Spends with a key; false: it was refused. */
static bool spend_with_key(struct spending *spending, const char *key, const char *user,
                           tg_micro money)
{
    struct spending_call call = call_with_key(key, user, money);
    struct spending_use use = {.spent = money, .user = kit_text(user), .model = kit_text("m")};
    struct spending_ticket ticket;
    struct tg_money_answer answer;

    assert_int_equal(spending_reserve(spending, &call, NOW, &ticket, &answer), TG_OK);
    return ticket.reservation != 0 && spending_settle(spending, &ticket, &use, NOW);
}

static tg_micro left_with_key(struct spending *spending, const char *key, const char *user)
{
    struct spending_call call = call_with_key(key, user, 0);
    tg_micro left = -1;

    assert_int_equal(spending_left(spending, &call, NOW, &left, NULL), TG_OK);
    return left;
}

static void a_key_has_a_budget_below_its_tenants(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct keyed keyed;
    (void)state;

    keyed_init(&keyed);
    struct spending *spending = must_spending(ledger, false, &keyed.world, NOW);
    assert_int_equal(left_with_key(spending, "ci", ""), CI);
    assert_true(spend_with_key(spending, "ci", "", 400));
    assert_int_equal(left_with_key(spending, "ci", ""), CI - 400);
    assert_false(spend_with_key(spending, "ci", "", 201));
    /* Not by a user's money, nor by another's key, which has its tenant's. */
    assert_false(spend_with_key(spending, "ci", "bob", 201));
    assert_true(spend_with_key(spending, "ann", "", 1000));
    assert_true(spend_with_key(spending, "ci", "bob", 200));
    assert_false(spend_with_key(spending, "ci", "eve", 1));
    assert_int_equal(left_with_key(spending, "ci", "eve"), 0);
    assert_int_equal(left_with_key(spending, NULL, "bob"), 800);
    assert_int_equal(left_with_key(spending, NULL, ""), 10000 - 1600);
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

/* A user, a key and a child of a tenant may have one name, and are three. */
static void a_name_is_a_user_or_a_key_or_a_child(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct keyed keyed;
    (void)state;

    keyed_init(&keyed);
    struct tg_budget users[1] = {budget_of(300, TG_PER_DAY)};
    keyed.world.tenants[PRODUCT].user_budgets = users;
    keyed.world.tenants[PRODUCT].n_user_budgets = 1;
    struct spending *spending = must_spending(ledger, false, &keyed.world, NOW);
    assert_true(spend_with_key(spending, "ci", "ci", 500));
    assert_int_equal(left_with_key(spending, NULL, "ci"), 500);
    struct spending_call call = call_of(PRODUCT, "team-a", 300);
    struct spending_ticket ticket;
    struct tg_money_answer answer;
    assert_int_equal(spending_reserve(spending, &call, NOW, &ticket, &answer), TG_OK);
    assert_int_not_equal(ticket.reservation, 0);
    assert_int_equal(left_with_key(spending, NULL, ""), 10000 - 500);
    spending_settle(spending, &ticket, &(struct spending_use){.spent = 0}, NOW);
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

/* Over a restart: the key's own, its users', its tenant's, and all above them, each once. Also with
 * other tags, which count on under the key's name. */
static void what_a_key_spent_is_restored(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct keyed keyed;
    (void)state;

    keyed_init(&keyed);
    struct spending *spending = must_spending(ledger, false, &keyed.world, NOW);
    assert_true(spend_with_key(spending, "ci", "bob", 100));
    assert_true(spend_with_key(spending, "ann", "bob", 10));
    assert_true(spend_with_key(spending, NULL, "bob", 1));
    for (int round = 0; round < 2; round++) {
        keyed.keys[0].tags = round == 0 ? "cost_centre=4711" : "cost_centre=4712";
        spending_free(spending);
        kit_close(ledger);
        ledger = kit_open(&kit);
        spending = must_spending(ledger, false, &keyed.world, NOW);
        assert_int_equal(left_with_key(spending, "ci", ""), CI - 100 - 20 * round);
        assert_int_equal(left_with_key(spending, NULL, "bob"), 1000 - 111 - 20 * round);
        assert_int_equal(left_with_key(spending, NULL, ""), 10000 - 111 - 20 * round);
        assert_true(spend_with_key(spending, "ci", "bob", 20));
        assert_int_equal(kit_spent(ledger, "product", NULL, 0), 131 + 20 * round);
        assert_int_equal(kit_spent(ledger, "team-a", "bob", 0), 131 + 20 * round);
    }
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

/* A version that knows of no keys reads names up to the first 0, and takes a row under a tenant
 * with the tenant's name for that tenant, which has moved. */
static void a_key_is_a_row_that_older_versions_take_for_its_tenant(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct keyed keyed;
    (void)state;

    keyed_init(&keyed);
    struct spending *spending = must_spending(ledger, false, &keyed.world, NOW);
    spending_free(spending);
    kit_close(ledger);
    assert_int_equal(kit_ask(kit.path, "PRAGMA user_version"), 2);
    assert_int_equal(kit_ask(kit.path, "SELECT count(*) FROM tenants WHERE parent = (SELECT id"
                                       " FROM tenants WHERE name = 'team-a') AND"
                                       " substr(name, 1, 7) = x'7465616d2d6100'"),
                     2);
    kit_free(&kit);
}

static void read_nothing(void *context, const struct spending_account *account)
{
    (void)context, (void)account;
}

/* A call with a key that a new configuration has no longer is refused like one of a tenant that is
 * gone: without the key's budgets it must not spend. */
static void a_key_that_is_gone_spends_nothing(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    struct keyed keyed;
    struct spending_ticket ticket, other;
    struct tg_money_answer answer;
    (void)state;

    keyed_init(&keyed);
    struct spending *spending = must_spending(ledger, false, &keyed.world, NOW);
    struct spending_call call = call_with_key("ci", "bob", 500);
    assert_int_equal(spending_reserve(spending, &call, NOW, &ticket, &answer), TG_OK);
    keyed.world.tenants[TEAM_A].n_keys = 0;
    must_change(spending, &keyed.world, NOW);
    assert_int_equal(spending_reserve(spending, &call, NOW, &other, &answer), TG_ERR_UNKNOWN);
    assert_int_equal(spending_peek(spending, &call, NOW, read_nothing, NULL), TG_ERR_UNKNOWN);
    keyed.world.tenants[TEAM_A].n_keys = 2;
    must_change(spending, &keyed.world, NOW);
    assert_int_equal(left_with_key(spending, "ci", ""), CI - 500); /* it is in flight */
    spending_settle(spending, &ticket, &(struct spending_use){.spent = 200}, NOW);
    assert_int_equal(left_with_key(spending, "ci", ""), CI - 200);
    assert_int_equal(left_with_key(spending, NULL, ""), 10000 - 200);
    spending_free(spending);
    kit_close(ledger);
    kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_a_budget_below_its_tenants),
        cmocka_unit_test(a_name_is_a_user_or_a_key_or_a_child),
        cmocka_unit_test(what_a_key_spent_is_restored),
        cmocka_unit_test(a_key_is_a_row_that_older_versions_take_for_its_tenant),
        cmocka_unit_test(a_key_that_is_gone_spends_nothing),
        cmocka_unit_test(windows_follow_the_wall_clock_and_never_go_back),
        cmocka_unit_test(every_window_is_restored_at_the_start),
        cmocka_unit_test(a_user_is_remembered_over_a_restart),
        cmocka_unit_test(a_settlement_counts_once),
        cmocka_unit_test(room_comes_back_from_calls_that_leave_no_line),
        cmocka_unit_test(a_reservation_that_stands_is_recorded),
        cmocka_unit_test(changing_an_amount_keeps_the_spend),
        cmocka_unit_test(a_new_window_is_added_up_from_the_ledger),
        cmocka_unit_test(a_tenant_that_is_gone_still_counts_for_its_parent),
        cmocka_unit_test(closed_refuses_when_the_ledger_has_no_room),
        cmocka_unit_test(open_goes_on_and_counts_what_it_cannot_record),
        cmocka_unit_test(a_reload_keeps_what_the_ledger_could_not_record),
        cmocka_unit_test(a_tenant_that_comes_back_has_its_calls_in_flight),
        cmocka_unit_test(a_tree_that_is_none_is_refused),
    };

    kit_wrap_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
