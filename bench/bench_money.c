/* bench_money.c - the speed of reserving and settling money.
 *
 * Three levels, as in a gateway: everyone by month, a tenant by day and by month, a user by day.
 * Each call reads the clock, reserves at all of them, and settles for less.
 */
#include "benches.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "io/posix/clock.h"
#include "tollgate.h"

struct till {
    struct clock clock;
    struct tg_bank *bank;
    tg_account users[2];
    uint64_t n; /* calls of the other thread */
};

static tg_account open_account(struct till *till, tg_account parent, uint64_t name,
                               const enum tg_per *per, size_t n)
{
    struct tg_budget budgets[TG_BUDGETS_MAX] = {{.amount = 0}};
    tg_account account;

    for (size_t i = 0; i < n; i++)
        budgets[i] = (struct tg_budget){.amount = TG_MONEY_MAX, .per = per[i]};
    if (tg_bank_open(till->bank, parent, &name, sizeof name, budgets, n, clock_now_ms(&till->clock),
                     &account, NULL, NULL))
        abort();
    return account;
}

static bool bench_money_set_up(struct till *till)
{
    static const enum tg_per month[] = {TG_PER_MONTH}, day[] = {TG_PER_DAY};
    static const enum tg_per both[] = {TG_PER_DAY, TG_PER_MONTH};
    struct tg_bank_config config;

    *till = (struct till){.n = 0};
    clock_init(&till->clock);
    tg_bank_config_init(&config);
    if (tg_bank_new(&config, &till->bank, NULL))
        return false;
    tg_account all = open_account(till, 0, 0, month, 1);
    tg_account tenant = open_account(till, all, 0, both, 2);
    for (uint64_t i = 0; i < 2; i++)
        till->users[i] = open_account(till, tenant, i, day, 1);
    return true;
}

static void call(struct till *till, tg_account account)
{
    struct tg_money_answer answer;

    if (tg_bank_reserve(till->bank, account, 1000, false, clock_now_ms(&till->clock), &answer) ||
        !tg_bank_settle(till->bank, answer.reservation, 900, NULL))
        abort();
}

static void call_loop(struct till *till, tg_account account, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        call(till, account);
}

static void one_thread_loop(void *context, uint64_t n)
{
    struct till *till = context;

    call_loop(till, till->users[0], n);
}

static void *other_thread(void *context)
{
    struct till *till = context;

    call_loop(till, till->users[1], till->n);
    return NULL;
}

/* Two threads, n calls each, for two users of one tenant. */
static void two_threads_loop(void *context, uint64_t n)
{
    struct till *till = context;
    pthread_t thread;

    till->n = n;
    if (pthread_create(&thread, NULL, other_thread, till))
        abort();
    call_loop(till, till->users[0], n);
    pthread_join(thread, NULL);
}

static struct measured bench_money_run_with(measured_loop loop)
{
    struct till till;
    struct measured result = measure_count(NAN);

    if (bench_money_set_up(&till))
        result = measure(loop, &till, NULL, NULL);
    tg_bank_free(till.bank);
    return result;
}

static struct measured money_reserve_settle(void)
{
    return bench_money_run_with(one_thread_loop);
}

static struct measured money_two_threads(void)
{
    return bench_money_run_with(two_threads_loop);
}

const struct bench benches_of_money[] = {
    {"money_reserve_settle", "money reserved and settled at three levels, four windows", "ns", 150,
     money_reserve_settle},
    {"money_two_threads", "the same with two threads on one bank, for each call of a thread", "ns",
     NAN, money_two_threads},
    {NULL, NULL, NULL, 0, NULL},
};
