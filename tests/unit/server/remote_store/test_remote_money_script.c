/* test_remote_money_script.c - the scripts of money by themselves: said twice, late or in any order
 * they come to the same. */
#include "draw.h"

#include <stdio.h>
#include <string.h>

#include "redis_group.h"
#include "server/remote_store/scripts.h"

enum { WORDS_MAX = 64,
       WORD_BYTES = 512 };

static uint64_t seed;

static int start(void **state)
{
    seed = draw_seed("test_remote_money_script");
    return start_redis(state);
}

/* ---- Asking ---- */

/* A script, its keys and arguments as texts. */
struct eval {
    const char *words[WORDS_MAX];
    size_t bytes[WORDS_MAX];
    size_t n;
    char text[WORDS_MAX][WORD_BYTES];
};

static void say(struct eval *eval, const char *text)
{
    snprintf(eval->text[eval->n], WORD_BYTES, "%s", text);
    eval->words[eval->n] = eval->text[eval->n];
    eval->bytes[eval->n] = strlen(eval->text[eval->n]);
    eval->n++;
}

static void number(struct eval *eval, long long value)
{
    char text[WORD_BYTES];

    snprintf(text, sizeof text, "%lld", value);
    say(eval, text);
}

/* What the last ask for a block was told to remember. */
static char heard[512];
static char heard_before[512];

static void begin(struct eval *eval, const struct redis_script *script, size_t windows, size_t each)
{
    static const char *const keys[] = {"{r}a", "{r}a:e", "{r}b", "{r}b:e"};

    eval->n = 0;
    say(eval, "EVAL");
    eval->words[1] = script->text.at;
    eval->bytes[1] = script->text.n;
    eval->n = 2;
    number(eval, (long long)(windows * each));
    for (size_t i = 0; i < windows * each; i++)
        say(eval, keys[i * 2 / each]);
}

/* The numbers of the reply. */
static size_t run(struct eval *eval, long long *numbers)
{
    redisReply *pong = net_redis_ask(&server, "PING"); /* there is a connection */
    freeReplyObject(pong);
    redisReply *reply =
        redisCommandArgv(server.context, (int)eval->n, eval->words, eval->bytes);
    assert_non_null(reply);
    if (reply->type != REDIS_REPLY_ARRAY)
        fail_msg("%s", reply->str);
    size_t n = reply->elements;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(reply->element[i]->type, REDIS_REPLY_INTEGER);
        numbers[i] = reply->element[i]->integer;
    }
    freeReplyObject(reply);
    return n;
}

/* Two windows with a budget each. */
static long long reserve_known(const char *lease, const char *ledger, long long now,
                               long long money, bool up_to, long long amount, long long told,
                               long long epoch, long long *numbers)
{
    struct eval eval;

    begin(&eval, &script_money_reserve, 2, 2);
    number(&eval, now);
    say(&eval, ledger);
    say(&eval, lease);
    number(&eval, 1000);
    number(&eval, money);
    number(&eval, up_to);
    number(&eval, 0);
    for (int i = 0; i < 2; i++) {
        number(&eval, told);
        number(&eval, 100000);
        number(&eval, i == 0 ? epoch : 0);
    }
    for (int i = 1; i <= 2; i++) {
        number(&eval, i);
        number(&eval, amount * i);
        number(&eval, 0);
    }
    assert_int_equal(run(&eval, numbers), 11);
    return numbers[0];
}

static long long reserve_told(const char *lease, const char *ledger, long long now, long long money,
                              bool up_to, long long amount, long long told, long long *numbers)
{
    return reserve_known(lease, ledger, now, money, up_to, amount, told, 0, numbers);
}

static long long reserve(const char *lease, const char *ledger, long long now, long long money,
                         bool up_to, long long amount, long long *numbers)
{
    return reserve_told(lease, ledger, now, money, up_to, amount, 0, numbers);
}

static void note(const char *lease, const char *ledger, long long now, long long money,
                 long long told, long long *numbers)
{
    struct eval eval;

    begin(&eval, &script_money_note, 2, 2);
    number(&eval, now);
    say(&eval, ledger);
    say(&eval, lease);
    number(&eval, 1000);
    number(&eval, money);
    for (int i = 0; i < 2; i++) {
        number(&eval, told);
        number(&eval, 100000);
    }
    assert_int_equal(run(&eval, numbers), 7);
}

static long long field(const char *name)
{
    redisReply *reply = net_redis_ask(&server, "HGET {r}a %s", name);
    long long value = reply->type == REDIS_REPLY_STRING ? atoll(reply->str) : 0;

    freeReplyObject(reply);
    return value;
}

/* ---- Promises ---- */

static void a_lease_that_asks_twice_has_one_reservation(void **state)
{
    long long numbers[16];
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    assert_int_equal(reserve("x", "l1", 1, 800, true, 1000, numbers), 1);
    assert_int_equal(reserve("y", "l1", 1, 800, true, 1000, numbers), 1);
    assert_int_equal(numbers[1], 200);
    /* Also with less than it asked for, and when nothing would be left. */
    assert_int_equal(reserve("y", "l1", 2, 800, true, 1000, numbers), 1);
    assert_int_equal(numbers[1], 200);
    assert_int_equal(reserve("x", "l1", 2, 800, true, 1000, numbers), 1);
    assert_int_equal(numbers[1], 800);
    assert_int_equal(field("o"), 1000);
    assert_int_equal(reserve("z", "l1", 2, 1, true, 1000, numbers), 0);
    assert_int_equal(numbers[2], 1); /* contended */
    assert_int_equal(numbers[3], 1);
}

static void reservations_that_have_ended_are_dropped_by_whoever_comes(void **state)
{
    long long numbers[16];
    char lease[16];
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    /* More than one script drops. */
    for (int i = 0; i < 700; i++) {
        snprintf(lease, sizeof lease, "dead%d", i);
        assert_int_equal(reserve(lease, "l1", 1, 1, false, 1000, numbers), 1);
    }
    assert_int_equal(reserve("live", "l1", 500, 300, false, 1000, numbers), 1);
    assert_int_equal(reserve("x", "l1", 1000, 1, false, 1000, numbers), 0);
    /* At the end of their time: 500 at once, then the rest. */
    assert_int_equal(reserve("x", "l1", 1001, 500, false, 1000, numbers), 1);
    note("", "l1", 1001, -1, 0, numbers);
    assert_int_equal(field("o"), 800);
    assert_int_equal(net_redis_integer(&server, "ZCARD {r}a:e"), 2);
    assert_int_equal(net_redis_integer(&server, "HLEN {r}a"), 3);
}

/* A call that costs nothing has a lease of 0, which ends like any other. */
static void free_leases_end_too(void **state)
{
    long long numbers[16];
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    assert_int_equal(reserve("x", "l1", 1, 0, false, 1000, numbers), 1);
    assert_int_equal(reserve("y", "l1", 1001, 0, false, 1000, numbers), 1);
    assert_int_equal(net_redis_integer(&server, "ZCARD {r}a:e"), 1);
    note("y", "l1", 1002, -1, 0, numbers);
    assert_int_equal(field("o"), 0);
}

static void a_refusal_remembers_what_it_was_told_and_for_how_long(void **state)
{
    long long numbers[16];
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    assert_int_equal(reserve_told("x", "l1", 1, 600, false, 1000, 500, numbers), 0);
    assert_int_equal(numbers[2], 0); /* spent */
    assert_int_equal(field("s"), 500);
    assert_true(net_redis_integer(&server, "PTTL {r}a") > 0);
    assert_int_equal(net_redis_integer(&server, "EXISTS {r}a:e"), 0);
}

static void a_forgotten_lease_is_put_back_while_it_stands(void **state)
{
    long long numbers[16];
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    assert_int_equal(reserve("x", "l1", 1, 700, false, 1000, numbers), 1);
    note("x", "l1", 900, 700, 0, numbers);
    assert_int_equal(field("o"), 700);
    net_redis_do(&server, "FLUSHALL");
    note("x", "l1", 1000, 700, 40, numbers);
    assert_int_equal(numbers[1], 0); /* the ledger was forgotten, too */
    assert_int_equal(field("o"), 700);
    assert_int_equal(field("s"), 40);
    assert_int_equal(reserve("y", "l1", 1999, 300, false, 1000, numbers), 0);
    assert_int_equal(reserve("y", "l1", 2000, 300, false, 1000, numbers), 1);
}

static void numbers_are_exact_to_the_last(void **state)
{
    const long long max = 9007199254740991;
    long long numbers[16];
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    note("", "l1", 1, -1, max / 2 - 2, numbers);
    assert_int_equal(reserve("x", "l2", 1, 5, false, max / 2 + 2, numbers), 0);
    assert_int_equal(reserve("x", "l2", 1, 4, false, max / 2 + 2, numbers), 1);
    assert_true(numbers[6] == max / 2 - 2);
    note("", "l2", 1, -1, max, numbers);
    assert_true(numbers[2] == max); /* and no further */
    assert_true(field("s") == max);
    assert_true(field("l:l2") == max);
}

/* Settlements of three ledgers, each said several times, in any order, mixed with the reservations
 * they end: the sums are the last that each has said, and nothing stays reserved. */
static void notes_may_come_twice_and_in_any_order(void **state)
{
    enum { LEDGERS = 3,
           LEASES = 12,
           SAYINGS = LEDGERS * LEASES * 3 };
    struct draw draw = draw_stream(seed, 1);
    long long numbers[16];
    (void)state;

    for (int round = 0; round < 20; round++) {
        int order[SAYINGS];
        long long told[LEDGERS][LEASES], last = 0;

        net_redis_do(&server, "FLUSHALL");
        for (int ledger = 0; ledger < LEDGERS; ledger++) {
            long long sum = 0;
            for (int lease = 0; lease < LEASES; lease++) {
                char name[32], id[16];
                snprintf(name, sizeof name, "%d.%d", ledger, lease);
                snprintf(id, sizeof id, "l%d", ledger);
                sum += draw_between(&draw, 0, 50);
                told[ledger][lease] = sum;
                assert_int_equal(reserve(name, id, 1, 50, false, 100000, numbers), 1);
            }
            last += sum;
        }
        for (int i = 0; i < SAYINGS; i++)
            order[i] = i % (LEDGERS * LEASES);
        for (int i = SAYINGS - 1; i > 0; i--) {
            int k = (int)draw_between(&draw, 0, i), other = order[k];
            order[k] = order[i];
            order[i] = other;
        }
        for (int i = 0; i < SAYINGS; i++) {
            char name[32], id[16];
            int ledger = order[i] / LEASES, lease = order[i] % LEASES;
            snprintf(name, sizeof name, "%d.%d", ledger, lease);
            snprintf(id, sizeof id, "l%d", ledger);
            note(name, id, 2, -1, told[ledger][lease], numbers);
        }
        assert_int_equal(field("s"), last);
        assert_int_equal(field("o"), 0);
        assert_int_equal(net_redis_integer(&server, "EXISTS {r}a:e"), 0);
    }
}

/* One window of 1000. */
struct block_call {
    const char *ledger, *process, *memory;
    long long number, now, told, credited, held, kept, needed, wanted, largest, epoch,
        version;
    bool alone, gives_back;
};

enum { VERDICT,
       BLOCK,
       OTHERS,
       SETTLED,
       BEFORE,
       SHORT,
       EPOCH,
       VERSION };

static void block(const struct block_call *words, long long *numbers)
{
    struct eval eval;

    begin(&eval, &script_money_block, 1, 1);
    number(&eval, words->now ? words->now : 1);
    say(&eval, words->ledger);
    say(&eval, words->process ? words->process : "p");
    number(&eval, words->number);
    number(&eval, words->alone);
    number(&eval, 2); /* gateways */
    number(&eval, 1000);
    number(&eval, words->told);
    number(&eval, words->held);
    number(&eval, words->kept);
    number(&eval, words->gives_back);
    number(&eval, words->needed);
    number(&eval, words->wanted);
    number(&eval, words->largest);
    number(&eval, words->epoch);
    number(&eval, words->version);
    say(&eval, words->memory ? words->memory : "");
    number(&eval, 100000);
    number(&eval, words->told + words->credited);
    redisReply *reply =
        redisCommandArgv(server.context, (int)eval.n, eval.words, eval.bytes);
    assert_non_null(reply);
    if (reply->type != REDIS_REPLY_ARRAY)
        fail_msg("%s", reply->str);
    assert_int_equal(reply->elements, 9);
    for (size_t i = 0; i < 8; i++)
        numbers[i] = reply->element[i]->integer;
    if (numbers[VERDICT] == 1)
        snprintf(heard, sizeof heard, "%s", reply->element[8]->str);
    freeReplyObject(reply);
}

#define BLOCK_OF(numbers, ...) block(&(struct block_call){__VA_ARGS__}, numbers)

static void an_old_ask_for_blocks_cannot_undo_a_newer(void **state)
{
    long long numbers[8];
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    BLOCK_OF(numbers, .ledger = "l1", .number = 10, .needed = 600);
    assert_int_equal(numbers[VERDICT], 1);
    assert_int_equal(numbers[BLOCK], 600);
    /* To give back, from a connection that is dead already. */
    BLOCK_OF(numbers, .ledger = "l1", .number = 9, .gives_back = true);
    assert_int_equal(numbers[VERDICT], 0);
    assert_int_equal(numbers[BLOCK], 10);
    assert_int_equal(field("e:l1.p"), 600);
    BLOCK_OF(numbers, .ledger = "l2", .number = 1, .needed = 500);
    assert_int_equal(numbers[BLOCK], 400);
    assert_int_equal(numbers[OTHERS], 600);
    assert_int_equal(field("b"), 1000);
    BLOCK_OF(numbers, .ledger = "l1", .number = 11, .told = 250, .held = 40, .gives_back = true);
    assert_int_equal(numbers[BLOCK], 40);
    assert_int_equal(field("b"), 440);
    assert_int_equal(field("s"), 250);
    /* Settled twice, told twice. */
    BLOCK_OF(numbers, .ledger = "l1", .number = 12, .told = 250, .held = 40, .gives_back = true);
    assert_int_equal(numbers[BEFORE], 250);
    assert_int_equal(field("s"), 250);
}

static void beyond_its_need_a_process_gets_an_even_part_of_half_of_what_is_left(void **state)
{
    long long numbers[8];
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    BLOCK_OF(numbers, .ledger = "l1", .number = 1, .needed = 40, .wanted = 1000, .largest = 10);
    assert_int_equal(numbers[BLOCK], 40 + 960 / 4);
    assert_int_equal(numbers[SHORT], 0);
    BLOCK_OF(numbers, .ledger = "l2", .number = 1, .needed = 10, .wanted = 20, .largest = 10);
    assert_int_equal(numbers[BLOCK], 30);
    /* It keeps what it has, and gets nothing beyond its need when two of the largest are more
     * than is left. */
    BLOCK_OF(numbers, .ledger = "l2", .number = 2, .needed = 45, .wanted = 500, .largest = 400);
    assert_int_equal(numbers[BLOCK], 45);
    assert_int_equal(numbers[SHORT], 1);
    /* What was used is used, also beyond the amount. */
    BLOCK_OF(numbers, .ledger = "l1", .number = 2, .told = 950, .held = 200, .needed = 5);
    assert_int_equal(numbers[BLOCK], 200);
    BLOCK_OF(numbers, .ledger = "l2", .number = 3, .needed = 46);
    assert_int_equal(numbers[BLOCK], 45);
}

/* What was settled out of a block was granted once: telling it makes no room. */
static void what_is_settled_leaves_the_block(void **state)
{
    long long numbers[8];
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    BLOCK_OF(numbers, .ledger = "l1", .number = 1, .needed = 600);
    BLOCK_OF(numbers, .ledger = "l2", .number = 1, .needed = 400);
    assert_int_equal(numbers[BLOCK], 400);
    /* Another ask is under way, so nothing is given back: 20 are held, and 30 would be spent. */
    BLOCK_OF(numbers, .ledger = "l1", .number = 2, .told = 550, .held = 20, .kept = 30,
             .needed = 100);
    assert_int_equal(numbers[BLOCK], 50);
    assert_int_equal(field("s") + field("o"), 1000);
    /* A credit frees its money for whoever comes; what was spent since then is spent. */
    net_redis_do(&server, "HINCRBY {r}a l:l1 -100");
    net_redis_do(&server, "HINCRBY {r}a s -100");
    BLOCK_OF(numbers, .ledger = "l1", .number = 3, .told = 480, .credited = 100, .needed = 20);
    assert_int_equal(numbers[BLOCK], 20);
    BLOCK_OF(numbers, .ledger = "l2", .number = 2, .held = 400, .needed = 200);
    assert_int_equal(numbers[BLOCK], 500);
    assert_int_equal(field("s") + field("o"), 1000);
}

static void a_block_ends_by_the_word_of_its_ledger_alone(void **state)
{
    long long numbers[8];
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    BLOCK_OF(numbers, .ledger = "l1", .process = "old", .number = 7, .held = 700);
    BLOCK_OF(numbers, .ledger = "l2", .number = 1, .now = 90000, .alone = true, .needed = 500);
    assert_int_equal(numbers[BLOCK], 300);
    /* Another process of that ledger, beside the first: both count. */
    BLOCK_OF(numbers, .ledger = "l1", .process = "new", .number = 1, .now = 90000);
    assert_int_equal(field("b"), 1000);
    /* It is alone, and what the first spent is in the books. */
    BLOCK_OF(numbers, .ledger = "l1", .process = "new", .number = 2, .told = 120, .alone = true,
             .now = 90000);
    assert_int_equal(field("b"), 300);
    assert_int_equal(field("e:l1.old"), 0);
    BLOCK_OF(numbers, .ledger = "l2", .number = 2, .now = 90000, .needed = 600);
    assert_int_equal(numbers[BLOCK], 600);
    assert_int_equal(numbers[OTHERS], 120);
}

static void what_a_server_forgot_is_told_again_of_the_dead_too(void **state)
{
    long long numbers[8], epoch, version;
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    BLOCK_OF(numbers, .ledger = "dead", .number = 5, .told = 100, .held = 300);
    BLOCK_OF(numbers, .ledger = "l1", .number = 1, .told = 50, .held = 20);
    epoch = numbers[EPOCH];
    version = numbers[VERSION];
    assert_int_equal(numbers[OTHERS], 400);
    memcpy(heard_before, heard, sizeof heard);
    net_redis_do(&server, "FLUSHALL");
    BLOCK_OF(numbers, .ledger = "l1", .number = 2, .now = 500, .told = 60, .held = 20,
             .needed = 700, .epoch = epoch, .version = version);
    assert_int_equal(numbers[VERDICT], 2);
    assert_int_equal(field("b"), 0);
    /* Granted is nothing until the others have had time to speak. */
    BLOCK_OF(numbers, .ledger = "l1", .number = 3, .now = 500, .told = 60, .held = 20,
             .needed = 700, .epoch = epoch, .version = version, .memory = heard_before);
    assert_int_equal(numbers[VERDICT], 3);
    assert_int_equal(numbers[BLOCK], 20);
    assert_int_equal(numbers[OTHERS], 400);
    assert_int_equal(field("s"), 160);
    assert_int_equal(field("b"), 320);
    epoch = numbers[EPOCH];
    version = numbers[VERSION];
    BLOCK_OF(numbers, .ledger = "l1", .number = 4, .now = 3500, .told = 60, .held = 20,
             .needed = 700, .epoch = epoch, .version = version);
    assert_int_equal(numbers[VERDICT], 1);
    assert_int_equal(numbers[BLOCK], 1000 - 160 - 300);
    /* Old hearsay does not undo what somebody says by himself. */
    BLOCK_OF(numbers, .ledger = "dead", .number = 6, .now = 3500, .told = 110, .gives_back = true);
    assert_int_equal(field("e:dead.p"), 0);
    BLOCK_OF(numbers, .ledger = "l1", .number = 5, .now = 3500, .told = 60, .epoch = 1,
             .version = 1, .memory = heard_before, .gives_back = true);
    assert_int_equal(field("e:dead.p"), 0);
    assert_int_equal(field("b"), 0);
    assert_int_equal(field("s"), 170);
}

#define DEAD "00000000000000aa" /* a ledger; its process is "n" */

/* Calls of the dead are billed: their money is its block, until the ledger has told. */
static void a_lease_that_ends_by_time_is_in_the_block_of_its_process(void **state)
{
    long long numbers[16];
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    assert_int_equal(reserve(DEAD ".n.1", DEAD, 1, 400, false, 1000, numbers), 1);
    assert_int_equal(reserve(DEAD ".n.2", DEAD, 500, 300, false, 1000, numbers), 1);
    assert_int_equal(reserve("x", "l2", 1001, 301, false, 1000, numbers), 0);
    assert_int_equal(numbers[2], 1); /* contended */
    assert_int_equal(field("e:" DEAD ".n"), 400);
    assert_int_equal(field("b"), 400);
    assert_int_equal(field("o"), 700);
    assert_int_equal(reserve("x", "l2", 100000, 300, false, 1000, numbers), 1);
    assert_int_equal(field("e:" DEAD ".n"), 700);
    /* The next process with that ledger drops it, and what has not ended yet. */
    assert_int_equal(reserve(DEAD ".n.3", DEAD, 100000, 100, false, 2000, numbers), 1);
    BLOCK_OF(numbers, .ledger = DEAD, .number = 1, .told = 650, .alone = true);
    assert_int_equal(field("b"), 0);
    assert_int_equal(field("o"), 300);
    assert_int_equal(field("s"), 650);
}

/* It was not dead: it says what it holds, and its lease stands again. */
static void whose_lease_has_ended_by_time_hears_of_it(void **state)
{
    long long numbers[16];
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    assert_int_equal(reserve(DEAD ".p.1", DEAD, 1, 400, false, 1000, numbers), 1);
    note(DEAD ".p.1", DEAD, 900, 400, 0, numbers);
    assert_int_equal(numbers[0], 1);
    note(DEAD ".p.1", DEAD, 5000, 400, 0, numbers);
    assert_int_equal(numbers[0], 2);
    assert_int_equal(field("o"), 800);
    BLOCK_OF(numbers, .ledger = DEAD, .number = 1);
    assert_int_equal(field("e:" DEAD ".p"), 0);
    assert_int_equal(field("o"), 400);
}

static void nothing_is_reserved_while_money_may_be_forgotten(void **state)
{
    long long numbers[16];
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    BLOCK_OF(numbers, .ledger = "l1", .number = 1);
    long long epoch = field("epoch");
    assert_int_equal(reserve_known("x", "l1", 1, 1, false, 1000, 0, epoch, numbers), 1);
    net_redis_do(&server, "FLUSHALL");
    assert_int_equal(reserve_known("x", "l1", 1, 1, false, 1000, 0, epoch, numbers), -2);
    BLOCK_OF(numbers, .ledger = "l1", .number = 2, .now = 10, .epoch = epoch,
             .memory = "l l2 0 999;");
    assert_true(field("quiet") > 10);
    assert_int_equal(reserve("x", "l3", 11, 1, false, 1000, numbers), -2);
    assert_int_equal(reserve("x", "l3", field("quiet"), 2, false, 1000, numbers), 0);
    assert_int_equal(reserve("x", "l3", field("quiet"), 1, false, 1000, numbers), 1);
}

/* Reservations without blocks stand beside them. */
static void a_block_is_outstanding_for_those_who_have_none(void **state)
{
    long long numbers[16];
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    BLOCK_OF(numbers, .ledger = "l1", .number = 1, .held = 700);
    assert_int_equal(reserve("x", "l2", 1, 301, false, 1000, numbers), 0);
    assert_int_equal(numbers[2], 1); /* contended */
    assert_int_equal(reserve("x", "l2", 1, 300, false, 1000, numbers), 1);
    BLOCK_OF(numbers, .ledger = "l1", .number = 2, .needed = 800);
    assert_int_equal(numbers[BLOCK], 700);
    assert_int_equal(numbers[OTHERS], 300);
}

static void scripts_are_known_to_redis_by_their_sums(void **state)
{
    const struct redis_script *const scripts[] = {&script_money_reserve, &script_money_note,
                                                  &script_money_block};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(scripts); i++) {
        redisReply *reply = net_redis_ask(&server, "SCRIPT LOAD %b", scripts[i]->text.at,
                                          scripts[i]->text.n);
        assert_string_equal(reply->str, scripts[i]->sha1);
        freeReplyObject(reply);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_that_asks_twice_has_one_reservation),
        cmocka_unit_test(reservations_that_have_ended_are_dropped_by_whoever_comes),
        cmocka_unit_test(free_leases_end_too),
        cmocka_unit_test(a_refusal_remembers_what_it_was_told_and_for_how_long),
        cmocka_unit_test(a_forgotten_lease_is_put_back_while_it_stands),
        cmocka_unit_test(numbers_are_exact_to_the_last),
        cmocka_unit_test(notes_may_come_twice_and_in_any_order),
        cmocka_unit_test(an_old_ask_for_blocks_cannot_undo_a_newer),
        cmocka_unit_test(beyond_its_need_a_process_gets_an_even_part_of_half_of_what_is_left),
        cmocka_unit_test(what_is_settled_leaves_the_block),
        cmocka_unit_test(a_block_ends_by_the_word_of_its_ledger_alone),
        cmocka_unit_test(what_a_server_forgot_is_told_again_of_the_dead_too),
        cmocka_unit_test(a_block_is_outstanding_for_those_who_have_none),
        cmocka_unit_test(a_lease_that_ends_by_time_is_in_the_block_of_its_process),
        cmocka_unit_test(whose_lease_has_ended_by_time_hears_of_it),
        cmocka_unit_test(nothing_is_reserved_while_money_may_be_forgotten),
        cmocka_unit_test(scripts_are_known_to_redis_by_their_sums),
    };

    return cmocka_run_group_tests(tests, start, stop_redis);
}
