/* test_bank_threads.c - any number of threads on one bank: exact books, whatever the order.
 *
 * Eight threads do a million random operations each: reserve, settle, drop, open, change, read.
 * Each keeps its own account of what it has done; after every round they are added up while nobody
 * moves, and must be what the bank says. A sanitizer gets an eighth of it, TG_SOAK=1 ten times as
 * much.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bank_kit.h"
#include "crew.h"
#include "draw.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWNESS 8
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOWNESS 8
#endif
#endif
#ifndef SLOWNESS
#define SLOWNESS 1
#endif

#define OPERATIONS (1000000 / SLOWNESS) /* each thread makes so many, over the two long tests */
#define ROUNDS 10
#define LIVE 16
#define TEAMS 3
#define USERS 8 /* in each team */

static uint64_t seed;
static size_t rounds_wanted;

/* What one thread has done, by user, and what it holds. */
struct tally {
    tg_micro settled[TEAMS][USERS];
    tg_micro outstanding[TEAMS][USERS];
    struct held {
        tg_reservation number;
        tg_micro money;
        int team, user;
    } live[LIVE];
    long second; /* settlements that came too late */
    long refused, admitted;
} __attribute__((aligned(64)));

struct shop {
    struct tg_bank *bank;
    tg_account all, teams[TEAMS];
    tg_micro amount; /* what each team has, where it never changes */
    struct tally tallies[CREW_MAX];
    bool loose; /* budgets change, more is spent than was reserved, days go by */
    atomic_llong clock;
    atomic_long errors;
    atomic_long checks;
};

static void note_error(struct shop *shop, bool wrong)
{
    if (wrong)
        atomic_fetch_add_explicit(&shop->errors, 1, memory_order_relaxed);
}

static struct tg_budget user_budget(void)
{
    return budget_of(INT64_C(1000000000000), TG_PER_TOTAL);
}

static void shop_init(struct shop *shop, bool loose)
{
    memset(shop, 0, sizeof *shop);
    shop->bank = must_bank(1000);
    shop->loose = loose;
    shop->amount = loose ? INT64_C(1000000000000) : 11000;
    shop->all = must_open(shop->bank, 0, "all", budget_of(INT64_C(1) << 60, TG_PER_TOTAL), SUNDAY);
    for (int i = 0; i < TEAMS; i++) {
        const struct tg_budget budgets[] = {budget_of(shop->amount, TG_PER_TOTAL),
                                            budget_of(INT64_C(1) << 60, TG_PER_DAY)};
        char name[32];
        (void)snprintf(name, sizeof name, "team %d", i);
        shop->teams[i] = must_open_with(shop->bank, shop->all, name, budgets, 2, SUNDAY);
    }
    atomic_init(&shop->clock, SUNDAY);
}

/* ---- what a thread does ---- */

static tg_ms now_of(struct shop *shop)
{
    return atomic_load_explicit(&shop->clock, memory_order_relaxed);
}

/* Every call opens its user, as a gateway does. */
static tg_account open_user(struct shop *shop, int team, int user)
{
    const struct tg_budget budget = user_budget();
    tg_account account = 0;

    note_error(shop, tg_bank_open(shop->bank, shop->teams[team], &user, sizeof user, &budget, 1,
                                  now_of(shop), &account, NULL, NULL) != TG_OK);
    return account;
}

static void reserve(struct shop *shop, struct tally *tally, struct draw *draw, struct held *held)
{
    struct tg_money_answer answer = {.reservation = 0};

    held->team = (int)draw_between(draw, 0, TEAMS - 1);
    held->user = (int)draw_between(draw, 0, USERS - 1);
    tg_account account = open_user(shop, held->team, held->user);
    note_error(shop, tg_bank_reserve(shop->bank, account, draw_between(draw, 0, 1000),
                                     draw_chance(draw, 10), now_of(shop), &answer) != TG_OK);
    held->number = answer.reservation;
    held->money = answer.reserved;
    tally->admitted += answer.reservation != 0;
    tally->refused += answer.reservation == 0;
    tally->outstanding[held->team][held->user] += held->money;
}

static void settle(struct shop *shop, struct tally *tally, struct draw *draw, struct held *held)
{
    tg_micro spent = draw_between(draw, 0, held->money);

    /* Else budgets would be spent before long, and nobody would be admitted any more. */
    if (!shop->loose && draw_between(draw, 0, 999) > 0)
        spent = 0;
    if (!shop->loose && spent > 10)
        spent = 10;
    if (shop->loose && draw_chance(draw, 10))
        spent = held->money + draw_between(draw, 0, 100);
    if (shop->loose && draw_chance(draw, 10))
        spent = -1;
    note_error(shop, !tg_bank_settle(shop->bank, held->number, spent, NULL));
    if (draw_chance(draw, 5)) {
        note_error(shop, tg_bank_settle(shop->bank, held->number, spent, NULL));
        tally->second++;
    }
    tally->outstanding[held->team][held->user] -= held->money;
    tally->settled[held->team][held->user] += spent < 0 ? held->money : spent;
    held->number = 0;
}

/* The amounts change while others reserve; the windows, and so the books, stay. */
static void change(struct shop *shop, struct draw *draw)
{
    const struct tg_budget budgets[] = {budget_of(draw_magnitude(draw, shop->amount), TG_PER_TOTAL),
                                        budget_of(INT64_C(1) << 60, TG_PER_DAY)};
    tg_account team = shop->teams[draw_between(draw, 0, TEAMS - 1)];

    note_error(shop, tg_bank_change(shop->bank, team, budgets, 2, now_of(shop), NULL) != TG_OK);
}

/* At any moment, whatever the others do. */
static void read_some(struct shop *shop, struct draw *draw)
{
    struct tg_budget_metrics budgets[TG_BUDGETS_MAX];
    tg_account team = shop->teams[draw_between(draw, 0, TEAMS - 1)];
    tg_micro left;

    note_error(shop, tg_bank_get_budgets(shop->bank, team, now_of(shop), budgets) != 2);
    for (size_t i = 0; i < 2; i++)
        note_error(shop, budgets[i].settled < 0 || budgets[i].outstanding < 0 ||
                             (!shop->loose &&
                              budgets[i].settled + budgets[i].outstanding > budgets[i].amount));
    note_error(shop,
               tg_bank_left(shop->bank, team, now_of(shop), &left, NULL) != TG_OK || left < 0);
}

static void operate(struct shop *shop, struct tally *tally, struct draw *draw)
{
    struct held *held = &tally->live[draw_between(draw, 0, LIVE - 1)];
    int64_t choice = draw_between(draw, 0, 999);

    if (choice < 20)
        read_some(shop, draw);
    else if (shop->loose && choice < 25)
        change(shop, draw);
    else if (shop->loose && choice < 26)
        atomic_fetch_add_explicit(&shop->clock, HOUR, memory_order_relaxed);
    else if (held->number != 0)
        settle(shop, tally, draw, held);
    else
        reserve(shop, tally, draw, held);
}

/* ---- what must be true when nobody moves ---- */

static void check_user(struct shop *shop, int team, int user, tg_micro *settled,
                       tg_micro *outstanding)
{
    struct tg_budget_metrics budget = {.amount = 0};
    tg_micro want_settled = 0, want_outstanding = 0;
    tg_account account = open_user(shop, team, user);

    for (size_t i = 0; i < CREW_MAX; i++) {
        want_settled += shop->tallies[i].settled[team][user];
        want_outstanding += shop->tallies[i].outstanding[team][user];
    }
    note_error(shop, tg_bank_get_budgets(shop->bank, account, now_of(shop), &budget) != 1);
    note_error(shop, budget.settled != want_settled || budget.outstanding != want_outstanding);
    *settled += want_settled;
    *outstanding += want_outstanding;
}

static void check_books(struct shop *shop)
{
    struct tg_budget_metrics budgets[TG_BUDGETS_MAX];
    tg_micro all_settled = 0, all_outstanding = 0;

    for (int team = 0; team < TEAMS; team++) {
        tg_micro settled = 0, outstanding = 0;
        for (int user = 0; user < USERS; user++)
            check_user(shop, team, user, &settled, &outstanding);
        note_error(shop,
                   tg_bank_get_budgets(shop->bank, shop->teams[team], now_of(shop), budgets) != 2);
        note_error(shop, budgets[0].settled != settled || budgets[0].outstanding != outstanding);
        /* Only a part of the day; and all of a day alone. */
        note_error(shop, budgets[1].settled > settled || budgets[1].outstanding > outstanding);
        note_error(shop, !shop->loose && budgets[1].settled != settled);
        all_settled += settled;
        all_outstanding += outstanding;
    }
    (void)tg_bank_get_budgets(shop->bank, shop->all, now_of(shop), budgets);
    note_error(shop,
               budgets[0].settled != all_settled || budgets[0].outstanding != all_outstanding);
    atomic_fetch_add(&shop->checks, 1);
}

/* Every second round belongs to the first thread alone. */
static void work_or_check(void *context, size_t i, size_t round)
{
    struct shop *shop = context;
    struct draw draw = draw_stream(seed, round * CREW_MAX + i);

    if (round % 2 == 1) {
        if (i == 0)
            check_books(shop);
        return;
    }
    for (int n = 0; n < OPERATIONS / 2 / ROUNDS; n++)
        operate(shop, &shop->tallies[i], &draw);
}

static void drain(struct shop *shop)
{
    struct draw draw = draw_stream(seed, 1000000);

    for (size_t i = 0; i < CREW_MAX; i++)
        for (size_t k = 0; k < LIVE; k++)
            if (shop->tallies[i].live[k].number != 0)
                settle(shop, &shop->tallies[i], &draw, &shop->tallies[i].live[k]);
    check_books(shop);
    for (int team = 0; team < TEAMS; team++)
        assert_int_equal(budget_at(shop->bank, shop->teams[team], 0, now_of(shop)).outstanding, 0);
    assert_int_equal(stats_of_bank(shop->bank).reservations, 0);
}

static void run_shop(bool loose)
{
    static struct shop shop;
    long second = 0, admitted = 0, refused = 0;

    shop_init(&shop, loose);
    crew_run(CREW_MAX, 2 * rounds_wanted, work_or_check, &shop);
    drain(&shop);
    for (size_t i = 0; i < CREW_MAX; i++) {
        second += shop.tallies[i].second;
        admitted += shop.tallies[i].admitted;
        refused += shop.tallies[i].refused;
    }
    print_message("    %ld admitted, %ld refused, %ld settled twice, %ld checks\n", admitted,
                  refused, second, atomic_load(&shop.checks));
    assert_int_equal(atomic_load(&shop.errors), 0);
    assert_int_equal(atomic_load(&shop.checks), rounds_wanted + 1);
    assert_int_equal(stats_of_bank(shop.bank).anomalies, second);
    assert_int_equal(stats_of_bank(shop.bank).accounts, 1 + TEAMS + TEAMS * USERS);
    assert_true(admitted > 1000 && refused > 1000 && second > 100);
    tg_bank_free(shop.bank);
}

static void used_is_settled_and_outstanding_and_never_above_the_amount(void **state)
{
    (void)state;
    run_shop(false);
}

static void books_stay_exact_while_budgets_change_and_days_go_by(void **state)
{
    (void)state;
    run_shop(true);
}

/* ---- races of their own ---- */

#define RACES 300
#define ATTEMPTS 20
#define LIMIT 50

struct race {
    struct tg_bank *bank;
    tg_account all;
    tg_reservation reservations[RACES];
    atomic_int fresh[RACES];
    atomic_int admitted[RACES];
    atomic_int settled[RACES];
    atomic_int errors;
};

static void race_init(struct race *race)
{
    memset(race, 0, sizeof *race);
    race->bank = must_bank(RACES + 1);
    race->all = must_open_with(race->bank, 0, "all", NULL, 0, SUNDAY);
}

static void call_first(void *context, size_t i, size_t round)
{
    struct race *race = context;
    const struct tg_budget budget = budget_of(LIMIT, TG_PER_DAY);
    (void)i;

    for (int n = 0; n < ATTEMPTS; n++) {
        struct tg_money_answer answer = {.reservation = 0};
        tg_account user = 0;
        bool fresh = false;
        if (tg_bank_open(race->bank, race->all, &round, sizeof round, &budget, 1, SUNDAY, &user,
                         &fresh, NULL) ||
            tg_bank_reserve(race->bank, user, 1, false, SUNDAY, &answer))
            atomic_fetch_add(&race->errors, 1);
        atomic_fetch_add(&race->fresh[round], fresh);
        atomic_fetch_add(&race->admitted[round], answer.reservation != 0);
    }
}

static void concurrent_first_calls_of_a_user_share_one_budget(void **state)
{
    static struct race race;
    (void)state;

    race_init(&race);
    crew_run(CREW_MAX, RACES, call_first, &race);
    assert_int_equal(atomic_load(&race.errors), 0);
    for (int i = 0; i < RACES; i++) {
        assert_int_equal(atomic_load(&race.fresh[i]), 1);
        assert_int_equal(atomic_load(&race.admitted[i]), LIMIT);
    }
    tg_bank_free(race.bank);
}

static void settle_same(void *context, size_t i, size_t round)
{
    struct race *race = context;
    (void)i;

    if (tg_bank_settle(race->bank, race->reservations[round], 7, NULL))
        atomic_fetch_add(&race->settled[round], 1);
}

static void of_all_who_settle_one_reservation_one_does(void **state)
{
    static struct race race;
    (void)state;

    race_init(&race);
    tg_account user =
        must_open(race.bank, race.all, "user", budget_of(1000000, TG_PER_DAY), SUNDAY);
    for (int i = 0; i < RACES; i++)
        race.reservations[i] = must_reserve(race.bank, user, 10, SUNDAY);
    crew_run(CREW_MAX, RACES, settle_same, &race);
    for (int i = 0; i < RACES; i++)
        assert_int_equal(atomic_load(&race.settled[i]), 1);
    expect_book(race.bank, user, 0, SUNDAY, 7 * RACES, 0);
    assert_int_equal(stats_of_bank(race.bank).anomalies, RACES * (CREW_MAX - 1));
    tg_bank_free(race.bank);
}

/* A tenant with many users goes, while its users call and come again. */
static void close_or_call(void *context, size_t i, size_t round)
{
    struct race *race = context;
    struct draw draw = draw_stream(seed, 2000000 + round * CREW_MAX + i);
    tg_account team = 0, user = 0;

    for (int n = 0; n < ATTEMPTS; n++) {
        struct tg_money_answer answer = {.reservation = 0};
        int64_t name = draw_between(&draw, 0, 200);
        if (tg_bank_open(race->bank, race->all, "team", 4, NULL, 0, SUNDAY, &team, NULL, NULL))
            atomic_fetch_add(&race->errors, 1);
        if (i == 0 && n % 8 == 7) {
            tg_bank_close(race->bank, team);
            continue;
        }
        /* The tenant may have gone in between: then nothing is reserved. */
        enum tg_err err =
            tg_bank_open(race->bank, team, &name, sizeof name, NULL, 0, SUNDAY, &user, NULL, NULL);
        if (!err)
            err = tg_bank_reserve(race->bank, user, 3, false, SUNDAY, &answer);
        if (err != TG_OK && err != TG_ERR_UNKNOWN)
            atomic_fetch_add(&race->errors, 1);
        if (answer.reservation != 0) {
            atomic_fetch_add(&race->admitted[round], 1);
            if (!tg_bank_settle(race->bank, answer.reservation, 2, NULL))
                atomic_fetch_add(&race->errors, 1);
        }
    }
}

static void what_is_outstanding_settles_while_accounts_are_closed(void **state)
{
    static struct race race;
    const struct tg_budget budget = budget_of(INT64_C(1) << 60, TG_PER_TOTAL);
    tg_micro spent = 0;
    tg_account team;
    (void)state;

    race_init(&race);
    must_change(race.bank, race.all, &budget, 1, SUNDAY);
    crew_run(CREW_MAX, RACES, close_or_call, &race);
    assert_int_equal(atomic_load(&race.errors), 0);
    for (int i = 0; i < RACES; i++)
        spent += 2 * atomic_load(&race.admitted[i]);
    assert_true(spent > RACES);
    expect_book(race.bank, race.all, 0, SUNDAY, spent, 0);
    assert_int_equal(
        tg_bank_open(race.bank, race.all, "team", 4, NULL, 0, SUNDAY, &team, NULL, NULL), TG_OK);
    tg_bank_close(race.bank, team);
    assert_int_equal(stats_of_bank(race.bank).accounts, 1);
    tg_bank_free(race.bank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(used_is_settled_and_outstanding_and_never_above_the_amount),
        cmocka_unit_test(books_stay_exact_while_budgets_change_and_days_go_by),
        cmocka_unit_test(concurrent_first_calls_of_a_user_share_one_budget),
        cmocka_unit_test(of_all_who_settle_one_reservation_one_does),
        cmocka_unit_test(what_is_outstanding_settles_while_accounts_are_closed),
    };
    seed = draw_seed("test_bank_threads");
    rounds_wanted = getenv("TG_SOAK") != NULL ? 10 * ROUNDS : ROUNDS;
    return cmocka_run_group_tests_name("bank_threads", tests, NULL, NULL);
}
