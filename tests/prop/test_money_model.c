/* test_money_model.c - a bank against the simplest model of one: a list of all that happened.
 *
 * The model keeps every reservation and every settlement with its time and place, and adds up what
 * it wants to know from the beginning, with windows reckoned anew for each question. Random trees
 * of accounts, windows, zones, modes and amounts; a clock that goes on, over midnights, and at
 * times back; budgets that change, are restored, accounts that close and come again, settlements
 * that come twice. Every answer and every book of the bank is the model's.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bank_kit.h"
#include "draw.h"
#include "walk.h"

#define LIVES 400
#define STEPS 400
#define ACCOUNTS 40 /* opened in one life, at most */
#define NAMES 6
#define BUDGETS 3
#define EVENTS (STEPS + 1)

static uint64_t seed;

struct model_budget {
    struct tg_budget budget;
    /* Settled before the event number `from`, in the window that began at `base_begin`. */
    tg_micro base;
    tg_ms base_begin;
    size_t from;
};

struct model_account {
    tg_account number;
    int parent; /* -1: at the top */
    int name, level;
    bool open;
    size_t n;
    struct model_budget budgets[BUDGETS];
};

struct model_call {
    tg_reservation number;
    int leaf, beside; /* -1: none */
    tg_ms at;
    tg_micro money;
    bool live;
};

/* A settlement. */
struct model_event {
    int leaf, beside;
    tg_ms at; /* when it was reserved */
    tg_micro spent;
};

struct model {
    struct tg_bank *bank;
    struct draw draw;
    uint64_t life;
    tg_ms clock, latest;
    struct model_account accounts[ACCOUNTS];
    int n_accounts;
    struct model_call calls[EVENTS];
    size_t n_calls;
    struct model_event events[EVENTS];
    size_t n_events;
    uint64_t overshoots, anomalies;
    tg_micro overshot;
};

static long cases, refused, contended, clipped, crossed, besides, anomalies_seen;

/* Half an hour back, an hour on, half an hour of both. */
static const struct tg_zone_change north_changes[] = {{SUNDAY + 2 * DAY + 2 * HOUR, 3600},
                                                      {SUNDAY + 20 * DAY, 1800}};
static const struct tg_zone_change south_changes[] = {{SUNDAY + 3 * DAY + 5 * HOUR, -18000 - 1800}};
static const struct tg_zone north = {0, 2, north_changes}, south = {-18000, 1, south_changes};
static const struct tg_zone *const zones[] = {NULL, &north, &south};

static void check(const struct model *model, bool truth, const char *what)
{
    cases++;
    if (!truth)
        fail_msg("seed %" PRIu64 ", life %" PRIu64 ", at %" PRId64 ": %s", seed, model->life,
                 model->latest, what);
}

static void check_equal(const struct model *model, int64_t got, int64_t want, const char *what)
{
    char text[160];

    (void)snprintf(text, sizeof text, "%s is %" PRId64 ", not %" PRId64, what, got, want);
    check(model, got == want, text);
}

/* ---- what the model knows ---- */

static bool is_under(const struct model *model, int account, int above)
{
    while (account >= 0 && account != above)
        account = model->accounts[account].parent;
    return account >= 0;
}

/* Whether what was reserved there is counted at an account. */
static bool counts_at(const struct model *model, int leaf, int beside, int account)
{
    return beside == account || is_under(model, leaf, account);
}

static tg_micro capped(tg_micro sum)
{
    return sum < TG_MONEY_MAX ? sum : TG_MONEY_MAX;
}

static tg_micro settled_of(const struct model *model, int account,
                           const struct model_budget *budget)
{
    tg_ms begin, end;

    tg_window_of(budget->budget.per, budget->budget.zone, model->latest, &begin, &end);
    tg_micro sum = budget->base_begin == begin ? budget->base : 0;
    for (size_t i = budget->from; i < model->n_events; i++) {
        const struct model_event *event = &model->events[i];
        if (event->at >= begin && event->at < end &&
            counts_at(model, event->leaf, event->beside, account))
            sum += event->spent;
    }
    return capped(sum);
}

static tg_micro outstanding_of(const struct model *model, int account,
                               const struct model_budget *budget)
{
    tg_ms begin, end;
    tg_micro sum = 0;

    tg_window_of(budget->budget.per, budget->budget.zone, model->latest, &begin, &end);
    for (size_t i = 0; i < model->n_calls; i++) {
        const struct model_call *call = &model->calls[i];
        if (call->live && call->at >= begin && call->at < end &&
            counts_at(model, call->leaf, call->beside, account))
            sum += call->money;
    }
    return sum;
}

/* What the bank should answer; the reservation is 1 for any. */
static struct tg_money_answer expected(const struct model *model, int leaf, int beside,
                                       tg_micro money, bool up_to)
{
    struct tg_money_answer answer = {.reservation = 1};
    tg_micro need = up_to || money == 0 ? 1 : money;

    for (int account = leaf; account >= 0;
         account = account == leaf && beside >= 0 ? beside : model->accounts[account].parent) {
        const struct model_account *at = &model->accounts[account];
        bool spent_below = answer.reservation == 0 && !answer.contended;
        bool spent_at = false, contended_at = false; /* found here */
        for (size_t i = 0; i < at->n; i++) {
            const struct model_budget *budget = &at->budgets[i];
            tg_micro settled = settled_of(model, account, budget);
            tg_micro used = settled + outstanding_of(model, account, budget);
            tg_ms begin;
            if (budget->budget.mode == TG_SHADOW) {
                answer.would_deny += used + need > budget->budget.amount;
                continue;
            }
            if (budget->budget.amount - used < money)
                money = budget->budget.amount - used;
            if (used + need <= budget->budget.amount)
                continue;
            bool spent = settled + need > budget->budget.amount;
            /* The first from the top of the spent ones; else, of the contended ones. */
            if (spent ? spent_at : spent_at || contended_at || spent_below)
                continue;
            spent_at |= spent;
            contended_at |= !spent;
            answer.reservation = 0;
            answer.contended = !spent;
            answer.account = at->number;
            answer.per = budget->budget.per;
            answer.amount = budget->budget.amount;
            answer.used = used;
            tg_window_of(answer.per, budget->budget.zone, model->latest, &begin, &answer.reset_at);
        }
    }
    answer.reserved = answer.reservation != 0 ? money : 0;
    return answer;
}

/* ---- comparing ---- */

static void compare_books(const struct model *model, int account)
{
    const struct model_account *at = &model->accounts[account];
    struct tg_budget_metrics got[TG_BUDGETS_MAX];
    size_t n = tg_bank_get_budgets(model->bank, at->number, model->clock, got);

    check_equal(model, (int64_t)n, at->open ? (int64_t)at->n : 0, "the number of budgets");
    for (size_t i = 0; i < n; i++) {
        tg_ms begin, end;
        tg_window_of(at->budgets[i].budget.per, at->budgets[i].budget.zone, model->latest, &begin,
                     &end);
        check_equal(model, got[i].settled, settled_of(model, account, &at->budgets[i]), "settled");
        check_equal(model, got[i].outstanding, outstanding_of(model, account, &at->budgets[i]),
                    "outstanding");
        check_equal(model, got[i].amount, at->budgets[i].budget.amount, "amount");
        check_equal(model, got[i].begin, begin, "the begin of the window");
        check_equal(model, got[i].end, end, "the end of the window");
    }
}

static void compare_left(const struct model *model, int leaf)
{
    tg_micro least = TG_MONEY_MAX, left = -1;
    double part;
    enum tg_err err =
        tg_bank_left(model->bank, model->accounts[leaf].number, model->clock, &left, &part);

    if (!model->accounts[leaf].open) {
        check_equal(model, err, TG_ERR_UNKNOWN, "the error");
        return;
    }
    for (int account = leaf; account >= 0; account = model->accounts[account].parent) {
        const struct model_account *at = &model->accounts[account];
        for (size_t i = 0; i < at->n; i++) {
            const struct model_budget *budget = &at->budgets[i];
            tg_micro here = budget->budget.amount - settled_of(model, account, budget) -
                            outstanding_of(model, account, budget);
            if (budget->budget.mode == TG_ENFORCE && here < least)
                least = here;
        }
    }
    check_equal(model, left, least > 0 ? least : 0, "what is left");
    check(model, part >= 0 && part <= 1, "the part that is left");
}

/* ---- steps ---- */

static void random_budgets(struct model *model, struct tg_budget *budgets, size_t *n)
{
    struct draw *draw = &model->draw;

    *n = (size_t)draw_between(draw, 0, BUDGETS);
    for (size_t i = 0; i < *n; i++)
        budgets[i] = (struct tg_budget){
            .amount = draw_between(draw, 0, 2000),
            .per = (enum tg_per)draw_between(draw, 0, TG_PER_COUNT - 1),
            .zone = zones[draw_between(draw, 0, 2)],
            .mode = draw_chance(draw, 20) ? TG_SHADOW : TG_ENFORCE,
        };
}

static int find_name(const struct model *model, int parent, int name)
{
    for (int i = 0; i < model->n_accounts; i++)
        if (model->accounts[i].open && model->accounts[i].parent == parent &&
            model->accounts[i].name == name)
            return i;
    return -1;
}

static void set_time(struct model *model)
{
    if (model->clock > model->latest)
        model->latest = model->clock;
}

static void step_open(struct model *model, int parent)
{
    struct draw *draw = &model->draw;
    struct tg_budget budgets[BUDGETS];
    size_t n;
    int name = (int)draw_between(draw, 0, NAMES - 1);
    tg_account number = 0, above = parent >= 0 ? model->accounts[parent].number : 0;
    bool fresh;
    char text[32];

    if (model->n_accounts == ACCOUNTS)
        return;
    random_budgets(model, budgets, &n);
    (void)snprintf(text, sizeof text, "name %d", name);
    enum tg_err err = tg_bank_open(model->bank, above, text, strlen(text), budgets, n, model->clock,
                                   &number, &fresh, NULL);
    if (parent >= 0 && !model->accounts[parent].open) {
        check_equal(model, err, TG_ERR_UNKNOWN, "opening under a closed account");
        return;
    }
    check_equal(model, err, TG_OK, "opening");
    int known = find_name(model, parent, name);
    check_equal(model, fresh, known < 0, "whether it is fresh");
    if (known >= 0) {
        check(model, number == model->accounts[known].number, "another account of that name");
        return;
    }
    set_time(model);
    struct model_account *account = &model->accounts[model->n_accounts++];
    *account = (struct model_account){
        .number = number, .parent = parent, .name = name, .open = true, .n = n};
    account->level = parent >= 0 ? model->accounts[parent].level + 1 : 0;
    for (size_t i = 0; i < n; i++)
        account->budgets[i] =
            (struct model_budget){.budget = budgets[i], .base_begin = -1, .from = model->n_events};
}

/* Another account under the same parent, closed ones too; -1: none. */
static int random_beside(struct model *model, int leaf)
{
    int at = (int)draw_between(&model->draw, 0, model->n_accounts - 1);

    return at != leaf && model->accounts[at].parent == model->accounts[leaf].parent ? at : -1;
}

static void step_reserve(struct model *model, int leaf)
{
    struct draw *draw = &model->draw;
    tg_micro money = draw_chance(draw, 10) ? 0 : draw_magnitude(draw, 1500);
    bool up_to = draw_chance(draw, 25);
    struct tg_money_answer got;
    int beside = random_beside(model, leaf);
    enum tg_err err = tg_bank_reserve_beside(model->bank, model->accounts[leaf].number,
                                             beside >= 0 ? model->accounts[beside].number : 0,
                                             money, up_to, model->clock, &got);

    besides += beside >= 0 && !err && got.reservation != 0;
    if (!model->accounts[leaf].open || (beside >= 0 && !model->accounts[beside].open)) {
        check_equal(model, err, TG_ERR_UNKNOWN, "reserving at a closed account");
        return;
    }
    set_time(model);
    struct tg_money_answer want = expected(model, leaf, beside, money, up_to);
    check_equal(model, err, TG_OK, "reserving");
    check_equal(model, got.reservation != 0, want.reservation != 0, "whether it is reserved");
    check_equal(model, got.reserved, want.reserved, "how much is reserved");
    check_equal(model, got.contended, want.contended, "contended");
    check_equal(model, (int64_t)got.account, (int64_t)want.account, "the account");
    check_equal(model, got.per, want.per, "the window");
    check_equal(model, got.reset_at, want.reset_at, "reset_at");
    check_equal(model, got.amount, want.amount, "the amount");
    check_equal(model, got.used, want.used, "used");
    check_equal(model, got.would_deny, want.would_deny, "would_deny");
    refused += got.reservation == 0;
    contended += got.contended;
    clipped += got.reservation != 0 && got.reserved < money;
    if (got.reservation != 0)
        model->calls[model->n_calls++] =
            (struct model_call){got.reservation, leaf, beside, model->latest, got.reserved, true};
}

/* Any call, ended or not: it may be the second time. */
static void step_settle(struct model *model)
{
    struct draw *draw = &model->draw;
    struct tg_spend spend;

    if (model->n_calls == 0)
        return;
    struct model_call *call = &model->calls[draw_between(draw, 0, (int64_t)model->n_calls - 1)];
    tg_micro spent = draw_chance(draw, 15)   ? -draw_between(draw, 1, 3)
                     : draw_chance(draw, 15) ? call->money + draw_magnitude(draw, 300)
                                             : draw_between(draw, 0, call->money);
    bool done = tg_bank_settle(model->bank, call->number, spent, &spend);

    check_equal(model, done, call->live, "whether it settles");
    model->anomalies += !call->live || spent < -1;
    if (!call->live)
        return;
    call->live = false;
    if (spent < 0)
        spent = call->money;
    model->overshoots += spent > call->money;
    model->overshot += spent > call->money ? spent - call->money : 0;
    check(model, spend.account == model->accounts[call->leaf].number, "another account is named");
    check_equal(model, spend.reserved_at, call->at, "the time of the reservation");
    check_equal(model, spend.reserved, call->money, "what was reserved");
    check_equal(model, spend.settled, spent, "what was settled");
    crossed += (model->latest - SUNDAY) / DAY != (call->at - SUNDAY) / DAY;
    model->events[model->n_events++] =
        (struct model_event){call->leaf, call->beside, call->at, spent};
}

/* The old budget with the window of a new one: of the same place first, then the next ones. */
static const struct model_budget *same_window(const struct model *model,
                                              const struct model_account *account,
                                              const struct tg_budget *budget, size_t place)
{
    tg_ms begin, end, old_begin, old_end;

    tg_window_of(budget->per, budget->zone, model->latest, &begin, &end);
    for (size_t k = 0; k < account->n; k++) {
        const struct model_budget *old = &account->budgets[(place + k) % account->n];
        tg_window_of(old->budget.per, old->budget.zone, model->latest, &old_begin, &old_end);
        if (begin == old_begin && end == old_end)
            return old;
    }
    return NULL;
}

static void step_change(struct model *model, int number)
{
    struct model_account *account = &model->accounts[number];
    struct model_budget after[BUDGETS];
    struct tg_budget budgets[BUDGETS];
    size_t n;

    random_budgets(model, budgets, &n);
    enum tg_err err = tg_bank_change(model->bank, account->number, budgets, n, model->clock, NULL);
    check_equal(model, err, account->open ? TG_OK : TG_ERR_UNKNOWN, "changing");
    if (!account->open)
        return;
    set_time(model);
    for (size_t i = 0; i < n; i++) {
        const struct model_budget *old = same_window(model, account, &budgets[i], i);
        tg_ms end;
        after[i] = (struct model_budget){.budget = budgets[i], .from = model->n_events};
        after[i].base = old ? settled_of(model, number, old) : 0;
        tg_window_of(budgets[i].per, budgets[i].zone, model->latest, &after[i].base_begin, &end);
    }
    memcpy(account->budgets, after, sizeof after);
    account->n = n;
}

static void step_restore(struct model *model, int number)
{
    struct model_account *account = &model->accounts[number];
    size_t i = (size_t)draw_between(&model->draw, 0, BUDGETS - 1);
    tg_micro settled = draw_between(&model->draw, 0, 1000);
    enum tg_err err = tg_bank_restore(model->bank, account->number, i, settled, model->clock);
    tg_ms end;

    check_equal(model, err,
                !account->open   ? TG_ERR_UNKNOWN
                : i < account->n ? TG_OK
                                 : TG_ERR_INVALID,
                "restoring");
    if (err)
        return;
    set_time(model);
    struct model_budget *budget = &account->budgets[i];
    budget->base = settled;
    budget->from = model->n_events;
    tg_window_of(budget->budget.per, budget->budget.zone, model->latest, &budget->base_begin, &end);
}

static void step_close(struct model *model, int number)
{
    tg_bank_close(model->bank, model->accounts[number].number);
    if (!model->accounts[number].open)
        return;
    for (int i = 0; i < model->n_accounts; i++)
        if (is_under(model, i, number))
            model->accounts[i].open = false;
}

static void step_clock(struct model *model)
{
    struct draw *draw = &model->draw;

    if (draw_chance(draw, 10))
        model->clock -= draw_between(draw, 0, 2 * DAY); /* it steps back */
    else if (draw_chance(draw, 10))
        model->clock += draw_between(draw, 0, 10 * DAY);
    else
        model->clock += draw_between(draw, 0, 6 * HOUR);
}

/* ---- lives ---- */

/* Open ones, and those that some live call is under. */
static size_t accounts_there(const struct model *model)
{
    size_t n = 0;

    for (int i = 0; i < model->n_accounts; i++) {
        bool there = model->accounts[i].open;
        for (size_t k = 0; !there && k < model->n_calls; k++)
            there = model->calls[k].live &&
                    counts_at(model, model->calls[k].leaf, model->calls[k].beside, i);
        n += there;
    }
    return n;
}

static void compare_stats(const struct model *model)
{
    struct tg_bank_stats stats = stats_of_bank(model->bank);
    size_t live = 0;

    for (size_t i = 0; i < model->n_calls; i++)
        live += model->calls[i].live;
    check_equal(model, (int64_t)stats.reservations, (int64_t)live, "the number of reservations");
    check_equal(model, (int64_t)stats.accounts, (int64_t)accounts_there(model), "accounts");
    check_equal(model, (int64_t)stats.anomalies, (int64_t)model->anomalies, "anomalies");
    check_equal(model, (int64_t)stats.overshoots, (int64_t)model->overshoots, "overshoots");
    check_equal(model, stats.overshot, model->overshot, "overshot");
}

/* Reading shows the time that it is told, and then it is as late as it was. */
static void read_all(struct model *model)
{
    tg_ms latest = model->latest;

    set_time(model);
    compare_left(model, (int)draw_between(&model->draw, 0, model->n_accounts - 1));
    compare_books(model, (int)draw_between(&model->draw, 0, model->n_accounts - 1));
    model->latest = latest;
}

static void step(struct model *model)
{
    struct draw *draw = &model->draw;
    int64_t choice = draw_between(draw, 0, 99);
    int account = (int)draw_between(draw, 0, model->n_accounts - 1);

    if (draw_chance(draw, 25))
        step_clock(model);
    if (choice < 8)
        step_open(model, account > 0 && model->accounts[account].level < 4 ? account : 0);
    else if (choice < 50)
        step_reserve(model, account);
    else if (choice < 85)
        step_settle(model);
    else if (choice < 90)
        step_change(model, account);
    else if (choice < 94)
        step_restore(model, account);
    else if (choice < 95)
        step_close(model, account);
    else
        step_open(model, -1);
    read_all(model);
}

static void live(struct model *model)
{
    step_open(model, -1);
    for (int i = 0; i < STEPS; i++)
        step(model);
    compare_stats(model);
    /* Everything comes to its end: nothing is outstanding anywhere. */
    for (size_t i = 0; i < model->n_calls; i++)
        if (model->calls[i].live) {
            (void)tg_bank_settle(model->bank, model->calls[i].number, 0, NULL);
            model->calls[i].live = false;
        }
    compare_stats(model);
    model->clock = model->latest;
    for (int i = 0; i < model->n_accounts; i++)
        compare_books(model, i);
    anomalies_seen += (long)model->anomalies;
}

static void a_bank_answers_as_one_that_remembers_everything(void **state)
{
    static struct model model;
    (void)state;

    for (uint64_t i = 0; i < LIVES; i++) {
        memset(&model, 0, sizeof model);
        model.life = i;
        model.draw = draw_stream(seed, i);
        model.bank = must_bank(ACCOUNTS);
        model.clock = SUNDAY + draw_between(&model.draw, 0, 3 * DAY);
        live(&model);
        tg_bank_free(model.bank);
    }
    print_message("    %d steps: %ld refused, %ld contended, %ld clipped, %ld settled on another "
                  "day, %ld anomalies\n",
                  LIVES * STEPS, refused, contended, clipped, crossed, anomalies_seen);
    /* The property says nothing unless all of this has happened. */
    assert_true(refused > 1000 && contended > 1000 && clipped > 1000 && crossed > 1000 &&
                besides > 1000 && anomalies_seen > 1000);
    cases_report("a bank answers as one that remembers everything", cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bank_answers_as_one_that_remembers_everything),
    };
    seed = draw_seed("test_money_model");
    return cmocka_run_group_tests_name("money_model", tests, NULL, NULL);
}
