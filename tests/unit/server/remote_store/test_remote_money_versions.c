/* test_remote_money_versions.c - gateways of the version before and of this one share budgets: the
 * scripts of both, on one window, never grant more than its amount, as docs/distributed.md says.
 *
 * tests/golden/scripts has the scripts of money as programs sent them that leased blocks of
 * everyone's budget alone, and asked for each call about the others. They are never changed.
 */
#include "draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis_group.h"
#include "server/remote_store/scripts.h"

enum { SCRIPT_BYTES = 16384,
       AMOUNT = 1000,
       TTL = 60000 };

#define TENANT "tg:money:{r}:t:one:0-1"
#define EVERYONE "tg:money:{%}:0-1"

static uint64_t seed;
static char earlier_reserve[SCRIPT_BYTES], earlier_note[SCRIPT_BYTES], earlier_block[SCRIPT_BYTES];

static void read_script(const char *name, char *text)
{
    char path[64];

    snprintf(path, sizeof path, "tests/golden/scripts/%s.lua", name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s", path);
    size_t n = fread(text, 1, SCRIPT_BYTES - 1, file);
    assert_true(n > 0 && n < SCRIPT_BYTES - 1);
    text[n] = '\0';
    fclose(file);
}

static int start(void **state)
{
    seed = draw_seed("test_remote_money_versions");
    read_script("money_reserve", earlier_reserve);
    read_script("money_note", earlier_note);
    read_script("money_block", earlier_block);
    return start_redis(state);
}

/* ---- Asking ---- */

static void numbers_of(redisReply *reply, size_t n, long long *numbers)
{
    assert_non_null(reply);
    if (reply->type != REDIS_REPLY_ARRAY)
        fail_msg("%s", reply->str);
    assert_true(reply->elements >= n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(reply->element[i]->type, REDIS_REPLY_INTEGER);
        numbers[i] = reply->element[i]->integer;
    }
    freeReplyObject(reply);
}

/* What an earlier program is granted for a call, 0: nothing. */
static long long reserve_earlier(const char *ledger, const char *lease, long long now,
                                 long long money, long long told)
{
    long long numbers[8];

    numbers_of(net_redis_ask(&server,
                             "EVAL %s 2 " TENANT " " TENANT ":e %lld %s %s %d %lld 0 0 %lld"
                             " 100000000 1 %d 0",
                             earlier_reserve, now, ledger, lease, TTL, money, told, AMOUNT),
               8, numbers);
    return numbers[0] == 1 ? numbers[1] : 0;
}

static void settle_earlier(const char *ledger, const char *lease, long long now, long long told)
{
    long long numbers[4];

    numbers_of(net_redis_ask(&server,
                             "EVAL %s 2 " TENANT " " TENANT ":e %lld %s %s %d -1 %lld 100000000",
                             earlier_note, now, ledger, lease, TTL, told),
               4, numbers);
}

struct node {
    char ledger[8];
    bool is_earlier;
    long long number, leased, held, settled, told;
};

/* Everyone's budget, as an earlier program leased it: all that it may use in this window. */
static void lease_earlier(struct node *node, long long now, long long needed, long long wanted)
{
    long long used = node->settled + node->held, numbers[6];

    numbers_of(net_redis_ask(&server,
                             "EVAL %s 1 %s %lld %s %lld %d %d %lld %lld %lld %lld"
                             " 100000000",
                             earlier_block, EVERYONE, now, node->ledger, ++node->number, TTL,
                             AMOUNT, used, used + needed, used + wanted, node->settled),
               6, numbers);
    assert_int_equal(numbers[0], 1);
    node->leased = numbers[2];
}

/* This program's block: what may be spent beyond what is settled. */
static void lease(struct node *node, const char *window, long long now, long long needed,
                  long long wanted, bool alone)
{
    long long numbers[8], told = node->settled;

    numbers_of(net_redis_ask(&server,
                             "EVAL %b 1 %s %lld %s p %lld %d 4 %d %lld %lld %lld 0 %lld %lld 10 0"
                             " 0 %s 100000000 %lld",
                             script_money_block.text.at, script_money_block.text.n, window, now,
                             node->ledger, ++node->number, alone, AMOUNT, told, node->held,
                             node->leased - told - node->held, needed, wanted, "",
                             told),
               8, numbers);
    assert_int_equal(numbers[0], 1);
    node->leased = told + numbers[1];
}

/* ---- Promises ---- */

static void a_block_is_outstanding_for_an_earlier_program(void **state)
{
    struct node node = {.ledger = "new"};
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    lease(&node, TENANT, 1, 700, 0, false);
    assert_int_equal(node.leased, 700);
    assert_int_equal(reserve_earlier("old", "x", 1, 301, 0), 0);
    assert_int_equal(reserve_earlier("old", "x", 1, 300, 0), 300);
    lease(&node, TENANT, 2, 100, 0, false);
    assert_int_equal(node.leased, 700);
    settle_earlier("old", "x", 3, 50);
    lease(&node, TENANT, 4, 1000, 0, false);
    assert_int_equal(node.leased, 950);
    /* What it gives back is anybody's. */
    node.leased = 0;
    net_redis_do(&server, "DEL " TENANT);
    lease(&node, TENANT, 5, 0, 0, false);
    assert_int_equal(reserve_earlier("old", "y", 6, 950, 50), 950);
}

static void everyones_budget_is_leased_by_both_at_once(void **state)
{
    struct node new = {.ledger = "new"}, old = {.ledger = "old"}, heir = {.ledger = "old"};
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    lease(&new, EVERYONE, 1, 600, 0, false);
    assert_int_equal(new.leased, 600);
    lease_earlier(&old, 2, 100, 1000);
    assert_true(old.leased >= 100 && old.leased <= 400);
    lease_earlier(&old, 3, 400, 400);
    assert_int_equal(old.leased, 400);
    lease(&new, EVERYONE, 4, 700, 0, false);
    assert_int_equal(new.leased, 600);
    /* The program after it, on its ledger: first beside it, and then alone. */
    lease(&heir, EVERYONE, 5, 10, 0, false);
    assert_int_equal(heir.leased, 0);
    lease(&heir, EVERYONE, 6, 400, 0, true);
    assert_int_equal(heir.leased, 400);
    /* One that was not heard for so long has ended its lease by itself. */
    net_redis_do(&server, "DEL %s", EVERYONE);
    old = (struct node){.ledger = "old"};
    new = (struct node){.ledger = "new"};
    lease_earlier(&old, 10, 900, 900);
    lease(&new, EVERYONE, 10 + TTL - 1, 500, 0, false);
    assert_int_equal(new.leased, 100);
    lease(&new, EVERYONE, 10 + TTL, 1000, 0, false);
    assert_int_equal(new.leased, 1000);
}

enum { NODES = 4,
       STEPS = 2000 };

/* Everything a gateway has settled, holds for calls, or could spend without a word counts. */
static void assert_within(const struct node *nodes)
{
    long long sum = 0;

    for (int i = 0; i < NODES; i++) {
        assert_true(nodes[i].held >= 0);
        long long used = nodes[i].settled + nodes[i].held;
        sum += nodes[i].leased > used ? nodes[i].leased : used;
    }
    assert_true(sum <= AMOUNT);
}

/* Two gateways of each version; calls begin and end in any order. Nobody dies. */
static long long both_spend(struct draw *draw, const char *window)
{
    struct node nodes[NODES] = {{.ledger = "a", .is_earlier = true},
                                {.ledger = "b"},
                                {.ledger = "c", .is_earlier = true},
                                {.ledger = "d"}};
    bool everyone = strcmp(window, EVERYONE) == 0;
    char name[32];

    net_redis_do(&server, "FLUSHALL");
    for (long long now = 1; now <= STEPS; now++) {
        struct node *node = &nodes[draw_between(draw, 0, NODES - 1)];
        long long money = draw_between(draw, 1, 9);
        bool ends = draw_between(draw, 0, 1) == 1;
        if (node->is_earlier && !everyone) {
            /* One call at a time, whose lease has its number. */
            if (node->held == 0)
                node->number++;
            snprintf(name, sizeof name, "%s%lld", node->ledger, node->number);
            if (node->held == 0) {
                node->held = reserve_earlier(node->ledger, name, now, money, node->settled);
            } else {
                node->settled += draw_between(draw, 0, node->held);
                node->held = 0;
                settle_earlier(node->ledger, name, now, node->settled);
            }
        } else if (ends && node->held > 0) {
            long long part = draw_between(draw, 1, node->held);
            node->held -= part;
            node->settled += draw_between(draw, 0, part);
        } else if (node->settled + node->held + money <= node->leased) {
            node->held += money;
        } else if (node->is_earlier) {
            lease_earlier(node, now, money, 20 * money);
        } else {
            lease(node, window, now, money, 20 * money, draw_between(draw, 0, 1) == 1);
        }
        assert_within(nodes);
    }
    long long settled = 0;
    for (int i = 0; i < NODES; i++)
        settled += nodes[i].settled;
    return settled;
}

static void together_they_never_grant_more_than_the_amount(void **state)
{
    struct draw draw = draw_stream(seed, 1);
    (void)state;

    for (int round = 0; round < 5; round++) {
        /* There is something to be kept within. */
        assert_true(both_spend(&draw, TENANT) > AMOUNT / 10 * 9);
        assert_true(both_spend(&draw, EVERYONE) > AMOUNT / 10 * 9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_outstanding_for_an_earlier_program),
        cmocka_unit_test(everyones_budget_is_leased_by_both_at_once),
        cmocka_unit_test(together_they_never_grant_more_than_the_amount),
    };

    return cmocka_run_group_tests(tests, start, stop_redis);
}
