/* test_limit_share.c - what n gateways give out together is the limit, or less by rounding. */
#include "check.h"

#include <stdlib.h>

#include "server/tenancy/limit_book.h"
#include "server/tenancy/limit_share.h"

static struct tg_limit limit_of(const char *spec)
{
    struct tg_limiter_config config;
    struct tg_limit limit = {.axis = TG_AXIS_RATE};

    assert_int_equal(tg_limiter_config_parse(&config, spec, NULL), TG_OK);
    assert_int_equal(tg_limiter_init(&limit.limiter, &config, NULL), TG_OK);
    return limit;
}

/* Units that a fresh key of this limit gives out at `now`, one by one. */
static int64_t drain(const struct tg_limit *limit, void *state, tg_ms now)
{
    const struct tg_limiter *limiter = &limit->limiter;
    struct tg_decision answer;
    int64_t n = 0;

    for (;; n++) {
        limiter->ops->peek(limiter, state, now, 1, &answer);
        if (!answer.allowed)
            return n;
        limiter->ops->take(limiter, state, now, 1);
    }
}

static void test_shares_add_up_to_no_more_than_the_limit(void **unused)
{
    static const char *const specs[] = {
        "gcra:limit=100,period=1000,burst=30",
        "token_bucket:capacity=50,refill=70",
        "fixed_window:limit=33,window=1000",
        "sliding_window:limit=40,window=1000,buckets=4",
        "sliding_log:limit=20,window=1000",
    };
    static char room[1 << 16];

    (void)unused;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++)
        for (int64_t n = 1; n <= 8; n++) {
            struct tg_limit whole = limit_of(specs[i]), share;
            int64_t all = 0, parts = 0;

            limit_share(&whole, n, &share);
            whole.limiter.ops->reset(&whole.limiter, room);
            for (tg_ms now = 100000; now < 102000; now += 10)
                all += drain(&whole, room, now);
            share.limiter.ops->reset(&share.limiter, room);
            for (tg_ms now = 100000; now < 102000; now += 10)
                parts += n * drain(&share, room, now);
            assert_true(parts <= all);
            assert_true(parts >= all - 6 * n); /* rounding, of a burst and of two windows */
        }
}

static void test_nobodys_share_is_nothing(void **unused)
{
    struct tg_limit whole = limit_of("fixed_window:limit=3,window=1000"), share;

    (void)unused;
    limit_share(&whole, 100, &share);
    assert_int_equal(share.limiter.config.limit, 1);
    whole = limit_of("gcra:limit=3,period=1000");
    limit_share(&whole, 100, &share);
    assert_int_equal(share.limiter.config.burst, 1);
    assert_int_equal(share.limiter.config.period, 100000);
}

/* ---- in a book ---- */

static int64_t admitted(struct tg_store *store, tg_limits set, tg_ms now)
{
    const struct tg_scope scope = {.limits = set, .key = "a", .key_bytes = 1};
    const struct tg_debit debit = {.scopes = &scope, .n_scopes = 1, .cost = 1};
    struct tg_decision decision;
    int64_t n = 0;

    for (;; n++) {
        assert_int_equal(tg_store_take(store, &debit, now, &decision, NULL), TG_OK);
        if (!decision.allowed)
            return n;
    }
}

static void test_a_book_shares_what_it_has_and_what_comes(void **unused)
{
    struct tg_limit limit = limit_of("fixed_window:limit=12,window=1000");
    struct tg_store_config config;
    struct tg_store *store;
    tg_limits first, second;

    (void)unused;
    tg_store_config_init(&config);
    assert_int_equal(tg_store_new(&config, &store, NULL), TG_OK);
    struct limit_book *book = limit_book_new(store);
    assert_non_null(book);
    assert_int_equal(limit_book_want(book, "one", 3, &limit, 1, &first, NULL), TG_OK);
    assert_int_equal(admitted(store, first, 1000), 12);
    assert_int_equal(limit_book_share(book, 3, 2000, NULL), TG_OK);
    assert_int_equal(admitted(store, first, 2000), 4);
    assert_int_equal(limit_book_want(book, "two", 3, &limit, 1, &second, NULL), TG_OK);
    assert_int_equal(admitted(store, second, 2000), 4);

    /* A change is shared, too, and the listing has it whole. */
    limit = limit_of("fixed_window:limit=30,window=1000");
    assert_int_equal(limit_book_want(book, "one", 3, &limit, 1, &first, NULL), TG_OK);
    struct limit_listing *listing = limit_book_list(book);
    assert_non_null(listing);
    assert_int_equal(listing->sets[first].limits[0].limiter.config.limit, 30);
    assert_int_equal(listing->sets[second].limits[0].limiter.config.limit, 12);
    assert_memory_equal(listing->sets[second].name.at, "two", 3);
    free(listing);
    assert_int_equal(limit_book_apply(book, 3000, NULL), TG_OK);
    assert_int_equal(admitted(store, first, 3000), 10);
    assert_int_equal(limit_book_share(book, 1, 4000, NULL), TG_OK);
    assert_int_equal(admitted(store, first, 4000), 30);
    limit_book_free(book);
    tg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_add_up_to_no_more_than_the_limit),
        cmocka_unit_test(test_nobodys_share_is_nothing),
        cmocka_unit_test(test_a_book_shares_what_it_has_and_what_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
