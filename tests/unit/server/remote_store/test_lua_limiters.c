/* test_lua_limiters.c - the six limiters in Redis against those in C, to the bit.
 *
 * One limiter, one key: random settings, costs, refunds, settlements that come late and in any
 * order, and clocks that jump, told to the C functions and to the scripts. Every answer is the same
 * in every field, and so is what is left behind: the state byte for byte where it is some doubles,
 * else by what it will answer at many later and earlier moments.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/limit/minima.h"
#include "net_limits.h"
#include "subject.h"

#define WALKS 40
#define STEPS 50
#define CHARGES 24

static uint64_t seed;
static struct net_limits redis;

struct pair {
    struct draw draw;
    struct subject subject;
    struct tg_limit limit;
    struct remote_scope scope;
    struct remote_debit debit;
    char key[32];
    tg_ms now;
    struct tg_charge charges[CHARGES];
    size_t n_charges;
    char where[256];
};

static int64_t some_cost(struct pair *pair)
{
    int64_t cost = subject_cost(&pair->subject, &pair->draw);

    return cost < TG_NUMBER_MAX ? cost : TG_NUMBER_MAX;
}

/* ---- both ---- */

static void say_where(struct pair *pair, const char *what)
{
    snprintf(pair->where, sizeof pair->where, "%s at %lld: %s (seed %llu)",
             subject_text(&pair->subject).text, (long long)pair->now, what,
             (unsigned long long)seed);
}

static void peek_both(struct pair *pair, tg_ms now, int64_t cost)
{
    struct tg_axes axes;
    struct tg_decision wanted = subject_peek(&pair->subject, now, cost);

    /* The store asks a limit that refuses once, and one that allows too: the answer as it is. */
    pair->debit.cost = cost;
    net_limits_peek(&redis, &pair->debit, now, &axes);
    expect_decision(pair->where, axes.decision[TG_AXIS_COST], wanted);
}

static void take_both(struct pair *pair, int64_t cost)
{
    struct tg_axes axes;
    struct remote_charge charge;
    struct tg_decision wanted = cost > 0 ? subject_take(&pair->subject, pair->now, cost)
                                         : subject_balance(&pair->subject, pair->now);

    pair->debit.cost = cost;
    freeReplyObject(net_limits_take(&redis, &pair->debit, pair->now, &axes, &charge));
    say_where(pair, "take");
    expect_decision(pair->where, axes.decision[TG_AXIS_COST], wanted);
    if (wanted.allowed)
        pair->charges[pair->n_charges++ % CHARGES] = (struct tg_charge){pair->now, cost};
}

static struct tg_charge some_charge(struct pair *pair)
{
    size_t n = pair->n_charges < CHARGES ? pair->n_charges : CHARGES;

    return pair->charges[draw_between(&pair->draw, 0, (int64_t)n - 1)];
}

/* A charge that was 0 was not written down in Redis, and is not given back by anybody. */
static void refund_both(struct pair *pair)
{
    struct tg_charge charge = some_charge(pair);
    struct remote_charge remote = {.at = charge.at};

    say_where(pair, "refund");
    if (charge.cost == 0)
        return;
    pair->debit.cost = charge.cost;
    subject_refund(&pair->subject, pair->now, charge, charge.cost);
    net_limits_refund(&redis, &pair->debit, pair->now, &remote);
}

static void settle_both(struct pair *pair)
{
    struct tg_charge charge = some_charge(pair);
    struct remote_charge remote = {.at = charge.at};
    int64_t actual = draw_chance(&pair->draw, 5) ? draw_magnitude(&pair->draw, TG_NUMBER_MAX)
                                                 : some_cost(pair);

    say_where(pair, "settle");
    /* Without a key, what is settled at its estimate leaves nothing behind. */
    if (actual == charge.cost)
        return;
    pair->debit.cost = charge.cost;
    subject_settle(&pair->subject, pair->now, charge, actual);
    net_limits_settle(&redis, &pair->debit, pair->now, &remote, actual);
}

/* ---- what is left behind ---- */

static redisReply *get_state(struct pair *pair)
{
    pair->debit.cost = 0;
    assert_int_equal(limits_codec_set(&redis.words, "t", &pair->debit), TG_OK);
    return net_redis_ask(&redis.server, "GET %b", redis.words.text, (size_t)redis.words.ends[0]);
}

/* The state in C as Redis has it, in doubles, without the settings that are there to be compared
 * with later ones; these begin at `settings`. */
struct flat_state {
    double numbers[5 + 2 * MINIMA_MAX];
    size_t n, settings, n_settings;
};

static void flatten_minima(struct flat_state *flat, const struct minima *minima)
{
    flat->numbers[flat->n++] = (double)minima->stepped;
    for (int64_t i = 0; i < minima->n; i++) {
        flat->numbers[flat->n++] = minima->list[i].at;
        flat->numbers[flat->n++] = minima->list[i].deficit;
    }
}

static struct flat_state flatten(const struct subject *subject)
{
    struct flat_state flat = {.n = 0};
    const char *state = subject->state;
    int64_t window[3];

    switch (subject->limiter.config.strategy) {
    case TG_GCRA:
        memcpy(flat.numbers, state, sizeof(double));
        flat.n = 2;
        flat.settings = flat.n_settings = 1;
        flatten_minima(&flat, (const void *)(state + sizeof(double)));
        break;
    case TG_TOKEN_BUCKET:
        memcpy(flat.numbers, state, 2 * sizeof(double));
        flat.n = 4;
        flat.settings = flat.n_settings = 2;
        flatten_minima(&flat, (const void *)(state + 2 * sizeof(double)));
        break;
    default:
        memcpy(window, state, sizeof window);
        for (flat.n = 0; flat.n < 3; flat.n++)
            flat.numbers[flat.n] = (double)window[flat.n];
    }
    return flat;
}

static void expect_same_doubles(struct pair *pair)
{
    enum tg_strategy strategy = pair->subject.limiter.config.strategy;
    redisReply *reply = get_state(pair);

    if (reply->type == REDIS_REPLY_NIL || strategy == TG_SLIDING_LOG ||
        strategy == TG_SLIDING_WINDOW) {
        freeReplyObject(reply);
        return;
    }
    struct flat_state wanted = flatten(&pair->subject);
    if (reply->len != wanted.n * sizeof(double))
        fail_msg("%s: a state of %zu bytes, in C %zu numbers", pair->where, reply->len, wanted.n);
    for (size_t i = 0; i < wanted.n; i++) {
        double got;
        memcpy(&got, reply->str + i * sizeof got, sizeof got);
        if (i - wanted.settings < wanted.n_settings)
            continue;
        /* Compares bits; but nobody can tell one zero from the other. */
        if (got < wanted.numbers[i] || got > wanted.numbers[i])
            fail_msg("%s: number %zu of the state is %.17g, in C %.17g", pair->where, i, got,
                     wanted.numbers[i]);
    }
    freeReplyObject(reply);
}

static void expect_same_future(struct pair *pair)
{
    tg_ms scale = pair->subject.scale < 1 ? 1 : pair->subject.scale;

    for (int i = -2; i < 10; i++) {
        tg_ms at = pair->now + i * scale / 5;
        if (at < 0 || at > TG_NUMBER_MAX)
            continue;
        say_where(pair, "later");
        peek_both(pair, at, 1);
        peek_both(pair, at, some_cost(pair));
    }
}

/* ---- walks ---- */

static tg_ms astray(struct pair *pair)
{
    tg_ms scale = pair->subject.scale < 1 ? 1 : pair->subject.scale;
    int64_t choice = draw_between(&pair->draw, 0, 99);
    tg_ms at = pair->now;

    if (choice < 30)
        return at;
    if (choice < 80)
        at += draw_magnitude(&pair->draw, scale);
    else if (choice < 90)
        at -= draw_magnitude(&pair->draw, scale);
    else
        at += draw_between(&pair->draw, 0, 2) * scale;
    return at < 0 ? 0 : at > TG_NUMBER_MAX ? TG_NUMBER_MAX
                                           : at;
}

static void step(struct pair *pair)
{
    int64_t choice = draw_between(&pair->draw, 0, 99);

    pair->now = astray(pair);
    if (choice < 60 || pair->n_charges == 0) {
        take_both(pair, some_cost(pair));
    } else if (choice < 75) {
        say_where(pair, "peek");
        peek_both(pair, pair->now, some_cost(pair));
    } else if (choice < 87) {
        refund_both(pair);
    } else {
        settle_both(pair);
    }
    expect_same_doubles(pair);
}

/* Points into itself: it must not be moved. */
static void make_pair(struct pair *pair, struct subject subject, uint64_t stream, tg_ms from)
{
    *pair = (struct pair){.draw = draw_stream(seed, stream), .subject = subject, .now = from};
    subject_make_settled(&pair->subject);
    pair->limit = (struct tg_limit){.limiter = subject.limiter, .axis = TG_AXIS_COST};
    snprintf(pair->key, sizeof pair->key, "k%llu", (unsigned long long)stream);
    pair->scope = (struct remote_scope){SLICE("walk"), slice_of(pair->key), &pair->limit, 1};
    pair->debit = (struct remote_debit){.root = SLICE("r"), .scopes = &pair->scope, .n_scopes = 1};
}

static void walk(struct subject subject, uint64_t stream, tg_ms from, int steps)
{
    struct pair pair;

    make_pair(&pair, subject, stream, from);
    for (int i = 0; i < steps; i++)
        step(&pair);
    expect_same_future(&pair);
    subject_free(&pair.subject);
}

static void every_limiter_answers_as_in_c(void **state)
{
    (void)state;
    for (int strategy = 0; strategy < TG_STRATEGY_COUNT; strategy++)
        for (uint64_t i = 0; i < WALKS; i++) {
            uint64_t stream = (uint64_t)strategy * 1000 + i;
            struct draw draw = draw_stream(seed, stream + 500000);
            walk(subject_random(&draw, (enum tg_strategy)strategy), stream,
                 i % 4 == 0 ? 0 : 1700000000000 + draw_magnitude(&draw, 100000000), STEPS);
        }
}

/* Limits and times as large as they come: what saturates here saturates there. */
static void the_largest_numbers_saturate_alike(void **state)
{
    static const char *const specs[] = {
        "gcra:limit=9007199254740991,period=9007199254740991",
        "gcra:limit=9007199254740991,period=1",
        "gcra:limit=3,period=9007199254740991,burst=2",
        "token_bucket:capacity=9007199254740991,refill=9007199254740991",
        "token_bucket:capacity=9007199254740991,refill=1000",
        "token_bucket:capacity=3,refill=0.001",
        "fixed_window:limit=9007199254740991,window=9007199254740991",
        "fixed_window:limit=9007199254740991,window=7",
        "sliding_window:limit=9007199254740991,window=9007199254740991,buckets=3",
        "sliding_window:limit=9007199254740991,window=30,buckets=3",
        "sliding_log:limit=9007199254740991,window=50",
        "sliding_log:limit=3,window=9007199254740991",
        "token_budget:budget=9007199254740991,window=9007199254740991",
        "token_budget:budget=9007199254740991,window=9",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(specs); i++)
        for (uint64_t k = 0; k < 4; k++) {
            struct tg_limiter limiter = limiter_of(specs[i]);
            struct subject subject = subject_new(&limiter);
            walk(subject, 100000 + i * 10 + k,
                 k == 0   ? 0
                 : k == 1 ? TG_NUMBER_MAX - 50
                          : 1700000000000,
                 STEPS);
        }
}

/* Rings that are read in places, and go around. */
static void long_rings_are_read_in_places(void **state)
{
    static const char *const specs[] = {
        "sliding_log:limit=200,window=300",
        "sliding_log:limit=1000,window=100000",
        "sliding_log:limit=100000,window=1000000",
        "sliding_window:limit=300,window=1000,buckets=100",
        "sliding_window:limit=3000,window=60000,buckets=6000",
        "sliding_window:limit=9007199254740991,window=60000,buckets=60000",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(specs); i++)
        for (uint64_t k = 0; k < 2; k++) {
            struct tg_limiter limiter = limiter_of(specs[i]);
            struct subject subject = subject_new(&limiter);
            walk(subject, 200000 + i * 10 + k, k == 0 ? 1 : 1700000000000, 6 * STEPS);
        }
}

/* Where another way to round the part of the oldest bucket, such as 1 - elapsed / width, or to
 * multiply before dividing, would decide otherwise: in every ms of its last width, for every cost.
 */
static void the_part_of_the_oldest_bucket_is_rounded_as_in_c(void **state)
{
    static const struct {
        const char *spec;
        int64_t limit;
        tg_ms from, until;
    } rows[] = {
        {"sliding_window:limit=7,window=7,buckets=3", 7, 7, 10},
        {"sliding_window:limit=8,window=7,buckets=3", 8, 7, 10},
        {"sliding_window:limit=7,window=7,buckets=1", 7, 7, 14},
        {"sliding_window:limit=14,window=7,buckets=1", 14, 7, 14},
        {"sliding_window:limit=5,window=10,buckets=1", 5, 10, 20},
        {"sliding_window:limit=22,window=49,buckets=1", 22, 49, 98},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tg_limiter limiter = limiter_of(rows[i].spec);
        struct pair pair;
        make_pair(&pair, subject_new(&limiter), 300000 + i, 0);
        take_both(&pair, rows[i].limit < 8 ? rows[i].limit : rows[i].limit / 7 * 7);
        for (tg_ms at = rows[i].from; at <= rows[i].until; at++)
            for (int64_t cost = 0; cost <= rows[i].limit; cost++) {
                pair.now = at;
                say_where(&pair, "peek");
                peek_both(&pair, at, cost);
            }
        subject_free(&pair.subject);
    }
}

/* The limit of a pair becomes another one, in C by carry() and in Redis by nothing at all. */
static void change_limit(struct pair *pair, const struct tg_limiter *to)
{
    struct subject next = subject_new(to);

    subject_make_settled(&next);
    next.limiter.ops->carry(&next.limiter, next.state, &pair->subject.limiter, pair->subject.state,
                            pair->now);
    subject_free(&pair->subject);
    pair->subject = next;
    pair->limit.limiter = *to;
}

static void a_rate_or_a_bucket_with_other_numbers_goes_on_as_in_c(void **state)
{
    static const enum tg_strategy strategies[] = {TG_GCRA, TG_TOKEN_BUCKET};

    (void)state;
    for (uint64_t i = 0; i < 2 * WALKS; i++) {
        struct draw draw = draw_stream(seed, 600000 + i);
        enum tg_strategy strategy = strategies[i % 2];
        struct pair pair;
        make_pair(&pair, subject_random(&draw, strategy), 500000 + i, 1700000000000);
        for (int change = 0; change < 4; change++) {
            for (int k = 0; k < 10; k++)
                step(&pair);
            struct subject other = subject_random(&draw, strategy);
            change_limit(&pair, &other.limiter);
            subject_free(&other);
            take_both(&pair, 1);
            take_both(&pair, some_cost(&pair));
        }
        expect_same_future(&pair);
        subject_free(&pair.subject);
    }
}

static void settle_to(struct pair *pair, struct tg_charge charge, int64_t actual)
{
    struct remote_charge remote = {.at = charge.at};

    say_where(pair, "settle");
    pair->debit.cost = charge.cost;
    subject_settle(&pair->subject, pair->now, charge, actual);
    net_limits_settle(&redis, &pair->debit, pair->now, &remote, actual);
    expect_same_doubles(pair);
    expect_same_future(pair);
}

/* Twice as much as can be counted: it is counted up to that, and what is taken back from it leaves
 * what C leaves. */
static void debts_beyond_all_numbers_end_where_they_do_in_c(void **state)
{
    static const char *const specs[] = {
        "gcra:limit=1,period=1000,burst=10",
        "gcra:limit=1000,period=1,burst=100000",
        "token_bucket:capacity=10,refill=1",
        "token_bucket:capacity=9007199254740991,refill=9007199254740991",
        "fixed_window:limit=10,window=1000000",
        "token_budget:budget=10,window=1000000",
        "sliding_window:limit=10,window=1000000,buckets=4",
        "sliding_window:limit=9007199254740991,window=1000000,buckets=4",
        "sliding_log:limit=10,window=1000000",
        "sliding_log:limit=9007199254740991,window=1000",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(specs); i++)
        for (tg_ms apart = 0; apart <= 1; apart++) {
            struct tg_limiter limiter = limiter_of(specs[i]);
            struct pair pair;
            make_pair(&pair, subject_new(&limiter), 400000 + i * 2 + (uint64_t)apart,
                      1700000000000);
            take_both(&pair, 1);
            pair.now += apart;
            take_both(&pair, 1);
            const struct tg_charge a = pair.charges[0], b = pair.charges[1];
            settle_to(&pair, a, TG_NUMBER_MAX);
            settle_to(&pair, b, TG_NUMBER_MAX - 1);
            settle_to(&pair, (struct tg_charge){a.at, TG_NUMBER_MAX}, 2);
            settle_to(&pair, (struct tg_charge){b.at, TG_NUMBER_MAX - 1}, 3);
            settle_to(&pair, (struct tg_charge){b.at, 3}, TG_NUMBER_MAX);
            pair.now += 500;
            settle_to(&pair, (struct tg_charge){b.at, TG_NUMBER_MAX}, 0);
            subject_free(&pair.subject);
        }
}

/* The version before wrote no minima and no steps. Its states are read; what it charged stays
 * charged, once. */
static void a_state_of_the_version_before_is_read(void **state)
{
    static const char *const specs[] = {"gcra:limit=1,period=1000,burst=100",
                                        "token_bucket:capacity=100,refill=1",
                                        "fixed_window:limit=100,window=1000000"};
    static const int lengths[] = {16, 32, 16};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct tg_limiter limiter = limiter_of(specs[i]);
        struct pair pair;
        make_pair(&pair, subject_new(&limiter), 700000 + i, 1700000000000);
        take_both(&pair, 50);
        redisReply *reply = get_state(&pair);
        assert_true(reply->len > (size_t)lengths[i]);
        net_redis_do(&redis.server, "SET %b %b", redis.words.text, (size_t)redis.words.ends[0],
                     reply->str, (size_t)lengths[i]);
        freeReplyObject(reply);
        say_where(&pair, "written by the version before");
        peek_both(&pair, pair.now, 1);

        bool bucket = limiter.config.strategy != TG_FIXED_WINDOW;
        struct tg_axes axes;
        pair.debit.cost = 50;
        net_limits_settle(&redis, &pair.debit, pair.now + 1,
                          &(struct remote_charge){.at = pair.now}, 10);
        pair.debit.cost = 0;
        net_limits_peek(&redis, &pair.debit, pair.now + 1, &axes);
        assert_int_equal(axes.decision[TG_AXIS_COST].remaining, bucket ? 50 : 90);
        subject_free(&pair.subject);
    }
}

/* ---- times ---- */

static long long ttl_of(const char *key)
{
    return net_redis_integer(&redis.server, "PTTL %s", key);
}

static long long now_of_server(void)
{
    redisReply *reply = net_redis_ask(&redis.server, "TIME");
    long long ms = strtoll(reply->element[0]->str, NULL, 10) * 1000 +
                   strtoll(reply->element[1]->str, NULL, 10) / 1000;

    freeReplyObject(reply);
    return ms;
}

static struct tg_limit limit_of(const char *spec)
{
    return (struct tg_limit){.limiter = limiter_of(spec), .axis = TG_AXIS_COST};
}

static void by_the_servers_clock_a_state_lives_until_it_is_fresh(void **state)
{
    struct tg_limit limit = limit_of("gcra:limit=1,period=100000,burst=10");
    struct remote_scope scope = {SLICE("s"), SLICE("key"), &limit, 1};
    struct remote_debit debit = {.root = SLICE("r"), .scopes = &scope, .n_scopes = 1, .cost = 2};
    struct remote_charge charge;
    struct tg_axes axes;
    const char *key = "t:cost:{r}:s:key:gcra";

    (void)state;
    redis.clock.callers = false;
    long long before = now_of_server();
    freeReplyObject(net_limits_take(&redis, &debit, 0, &axes, &charge));
    long long after = now_of_server();
    assert_in_range(charge.at, before, after);
    assert_in_range(ttl_of(key), 200000 - 10000, 200000);
    assert_true(axes.decision[TG_AXIS_COST].reset_at == charge.at + 200000);

    /* Given back, it is fresh, and gone. */
    net_limits_refund(&redis, &debit, 0, &charge);
    long long left = ttl_of(key);
    assert_true(left == -2 || left <= after - before + 10000);
    redis.clock.callers = true;
}

static void by_the_callers_clock_a_state_lives_for_an_hour_at_least(void **state)
{
    struct tg_limit limits[] = {limit_of("fixed_window:limit=5,window=10"),
                                limit_of("sliding_log:limit=5,window=10"),
                                limit_of("token_bucket:capacity=10,refill=0.001")};
    struct remote_scope scope = {SLICE("s"), SLICE("hour"), limits, 3};
    struct remote_debit debit = {.root = SLICE("r"), .scopes = &scope, .n_scopes = 1, .cost = 5};
    struct remote_charge charge;
    struct tg_axes axes;

    (void)state;
    freeReplyObject(net_limits_take(&redis, &debit, 1000, &axes, &charge));
    assert_in_range(ttl_of("t:cost:{r}:s:hour:fixed_window=10"), 3500000, 3600000);
    assert_in_range(ttl_of("t:cost:{r}:s:hour:sliding_log=10/5"), 3500000, 3600000);
    /* What takes longer to be fresh lives longer. */
    assert_in_range(ttl_of("t:cost:{r}:s:hour:token_bucket"), 4990000, 5000000);
}

static void what_is_refused_or_costs_nothing_writes_nothing(void **state)
{
    static const char *const specs[] = {
        "gcra:limit=1,period=1000",
        "token_bucket:capacity=1,refill=1",
        "fixed_window:limit=1,window=1000",
        "sliding_window:limit=1,window=1000,buckets=4",
        "sliding_log:limit=1,window=1000",
        "token_budget:budget=1,window=1000",
    };
    struct remote_charge charge;
    struct tg_axes axes;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct tg_limit limit = limit_of(specs[i]);
        struct remote_scope scope = {SLICE("s"), SLICE("unwritten"), &limit, 1};
        struct remote_debit debit = {.root = SLICE("r"), .scopes = &scope, .n_scopes = 1};
        net_redis_do(&redis.server, "FLUSHALL");
        freeReplyObject(net_limits_take(&redis, &debit, 1000, &axes, &charge));
        assert_true(axes.decision[TG_AXIS_COST].allowed);
        assert_int_equal(net_redis_integer(&redis.server, "DBSIZE"), 0);
        debit.cost = 1;
        freeReplyObject(net_limits_take(&redis, &debit, 1000, &axes, &charge));
        assert_int_equal(net_redis_integer(&redis.server, "DBSIZE"), 1);
        redisReply *before = net_redis_ask(&redis.server, "CONFIG RESETSTAT");
        freeReplyObject(before);
        freeReplyObject(net_limits_take(&redis, &debit, 1000, &axes, &charge));
        assert_false(axes.decision[TG_AXIS_COST].allowed);
        assert_false(net_redis_says(&redis.server, "cmdstat_set:", "INFO commandstats"));
        assert_false(net_redis_says(&redis.server, "cmdstat_setrange:", "INFO commandstats"));
        assert_false(net_redis_says(&redis.server, "cmdstat_pexpire:", "INFO commandstats"));
    }
}

static int open_server(void **state)
{
    (void)state;
    seed = draw_seed("test_lua_limiters");
    net_limits_open(&redis);
    return 0;
}

static int close_server(void **state)
{
    (void)state;
    net_limits_close(&redis);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_limiter_answers_as_in_c),
        cmocka_unit_test(the_largest_numbers_saturate_alike),
        cmocka_unit_test(long_rings_are_read_in_places),
        cmocka_unit_test(a_rate_or_a_bucket_with_other_numbers_goes_on_as_in_c),
        cmocka_unit_test(the_part_of_the_oldest_bucket_is_rounded_as_in_c),
        cmocka_unit_test(debts_beyond_all_numbers_end_where_they_do_in_c),
        cmocka_unit_test(a_state_of_the_version_before_is_read),
        cmocka_unit_test(by_the_servers_clock_a_state_lives_until_it_is_fresh),
        cmocka_unit_test(by_the_callers_clock_a_state_lives_for_an_hour_at_least),
        cmocka_unit_test(what_is_refused_or_costs_nothing_writes_nothing),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_server, close_server);
}
