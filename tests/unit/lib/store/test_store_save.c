/* test_store_save.c - what a store has counted goes on in another one, whose sets of limits have
 * other numbers.
 */
#include "failing_malloc.h"

#include <string.h>

#include "keyed.h"
#include "lib/core/allocator.h"
#include "lib/store/claim.h"
#include "lib/store/store_save.h"

#define MEMORY ((size_t)1 << 22)
#define NOW 5000

enum { SHARDS = 4,
       KEYS = 200,
       MOVES = 64 };

/* Limits of calls; and one whose state is so large that it is not read on the stack. */
static struct tg_limit calls[2];
static struct tg_limit large[1];

static struct tg_store *old, *new;
static tg_limits old_calls, old_large, new_calls, new_large;
static struct store_set sets[2];

static void open_stores(uint32_t shards)
{
    calls[0] = limit_on(TG_AXIS_RATE, "fixed_window:limit=10,window=100000");
    calls[1] = limit_on(TG_AXIS_COST, "token_bucket:capacity=1000,refill=1");
    large[0] = limit_on(TG_AXIS_RATE, "sliding_log:limit=600,window=100000");
    old = must_store(MEMORY, SHARDS);
    new = must_store(MEMORY, shards);
    old_calls = must_define(old, calls, 2);
    old_large = must_define(old, large, 1);
    new_large = must_define(new, large, 1);
    new_calls = must_define(new, calls, 2);
    assert_true(old_calls != new_calls && old_large != new_large);
    sets[0] = (struct store_set){.there = old_calls, .here = new_calls, .n = 2};
    memcpy(sets[0].limits, calls, sizeof calls);
    sets[1] = (struct store_set){.there = old_large, .here = new_large, .n = 1};
    memcpy(sets[1].limits, large, sizeof large);
}

static void close_stores(void)
{
    tg_store_free(old);
    tg_store_free(new);
}

/* Both give the same answers about a key, limit by limit. */
static void expect_same(const char *key, tg_ms now)
{
    const tg_limits there[] = {old_calls, old_large}, here[] = {new_calls, new_large};

    for (size_t i = 0; i < 2; i++) {
        struct tg_limit_metrics a[TG_LIMITS_MAX], b[TG_LIMITS_MAX];
        struct tg_scope scope_a = scope_of(there[i], key), scope_b = scope_of(here[i], key);
        struct tg_debit debit_a = debit_of(&scope_a, 1), debit_b = debit_of(&scope_b, 1);
        size_t n = tg_store_peek_scope(old, &debit_a, 0, now, a);
        assert_true(n > 0);
        assert_int_equal(tg_store_peek_scope(new, &debit_b, 0, now, b), n);
        for (size_t k = 0; k < n; k++)
            expect_decision(key, b[k].decision, a[k].decision);
    }
}

/* ---- what moved ---- */

static struct claim_moved moves[MOVES];
static size_t n_moves;

static void keep_move(void *context, const void *bytes, size_t n)
{
    assert_ptr_equal(context, &n_moves);
    assert_true(n == sizeof moves[0] && n_moves < MOVES);
    memcpy(&moves[n_moves++], bytes, n);
}

/* What has moved since, in the new store. */
static void apply_moves(tg_ms now)
{
    for (size_t i = 0; i < n_moves; i++)
        store_apply(new, &moves[i], sizeof moves[i], sets, COUNT_OF(sets), now);
    n_moves = 0;
}

static void copy_store(tg_ms now)
{
    char *bytes;
    size_t n;

    n_moves = 0;
    assert_int_equal(store_save(old, keep_move, &n_moves, &bytes, &n), TG_OK);
    assert_int_equal(store_load(new, bytes, n, sets, COUNT_OF(sets), now), TG_OK);
    mem_free(bytes);
}

/* ---- tests ---- */

static void what_was_counted_goes_on(void **state)
{
    (void)state;
    open_stores(SHARDS);
    for (uint64_t i = 0; i < KEYS; i++) {
        struct numbered_key key = numbered_key(i);
        for (uint64_t n = 0; n <= i % 12; n++)
            (void)must_take(old, old_calls, key.text, (int64_t)i, NOW + (tg_ms)n);
        (void)must_take(old, old_large, key.text, 1, NOW + (tg_ms)i);
    }
    copy_store(NOW + KEYS);
    assert_int_equal(stats_of(new).keys, stats_of(old).keys);
    for (uint64_t i = 0; i < KEYS + 1; i++)
        expect_same(numbered_key(i).text, NOW + KEYS);
    close_stores();
}

static void what_moves_after_the_copy_is_done_again(void **state)
{
    (void)state;
    open_stores(SHARDS);
    (void)must_take(old, old_calls, "known", 500, NOW);
    (void)must_take(old, old_calls, "settled", 500, NOW);
    copy_store(NOW);
    (void)must_take(old, old_calls, "known", 300, NOW + 10);
    (void)must_take(old, old_calls, "new", 300, NOW + 11);
    (void)must_take(old, old_large, "new", 1, NOW + 12);
    must_settle(old, old_calls, "settled", 500, NOW + 13, NOW, 20);
    must_settle(old, old_calls, "new", 300, NOW + 14, NOW + 11, 700);
    must_refund(old, old_calls, "known", 300, NOW + 15, NOW + 10);
    assert_int_equal(n_moves, 6);
    apply_moves(NOW); /* each at its own time */
    expect_same("known", NOW + 15);
    expect_same("settled", NOW + 15);
    expect_same("new", NOW + 15);
    /* Refused calls move nothing, and nobody is told any more when nobody follows. */
    assert_false(must_take(old, old_calls, "known", 1001, NOW + 16).allowed);
    assert_int_equal(n_moves, 0);
    store_unfollow(old);
    assert_true(must_take(old, old_calls, "known", 1, NOW + 17).allowed);
    assert_int_equal(n_moves, 0);
    close_stores();
}

/* The new store may have less to give: the call has been made all the same. */
static void what_was_allowed_there_is_charged_here(void **state)
{
    (void)state;
    open_stores(SHARDS);
    copy_store(NOW);
    for (int i = 0; i < 2; i++)
        (void)must_take(new, new_calls, "k", 900, NOW + 1);
    (void)must_take(old, old_calls, "k", 800, NOW + 2);
    apply_moves(NOW + 2);
    assert_false(must_peek(new, new_calls, "k", 1, NOW + 2).allowed);
    (void)must_take(old, old_calls, "other", 1000, NOW + 2);
    apply_moves(NOW - 100); /* by a clock that is behind */
    expect_same("other", NOW + 2);
    close_stores();
}

/* A limit in shadow is charged what it would have allowed, there as here. */
static void a_shadow_is_charged_as_it_was_there(void **state)
{
    struct tg_limit limits[] = {limit_on(TG_AXIS_COST, "fixed_window:limit=100,window=100000"),
                                limit_on(TG_AXIS_COST, "fixed_window:limit=10,window=100000")};

    (void)state;
    open_stores(SHARDS);
    limits[1].mode = TG_SHADOW;
    old_calls = must_define(old, limits, 2);
    new_calls = must_define(new, limits, 2);
    sets[0].there = old_calls;
    sets[0].here = new_calls;
    memcpy(sets[0].limits, limits, sizeof limits);
    copy_store(NOW);
    (void)must_take(old, old_calls, "k", 7, NOW);
    (void)must_take(old, old_calls, "k", 7, NOW); /* which the shadow would have refused */
    apply_moves(NOW);
    expect_same("k", NOW);
    close_stores();
}

/* Charged axis by axis, a call that cost refuses has spent a unit of rate: so it has here. */
static void an_axis_alone_is_charged_alone(void **state)
{
    struct tg_decision decision;

    (void)state;
    open_stores(SHARDS);
    copy_store(NOW);
    struct tg_scope scope = scope_of(old_calls, "k");
    struct tg_debit debit = debit_of(&scope, 900);
    debit.charging = TG_CHARGE_PER_AXIS;
    for (int i = 0; i < 2; i++)
        assert_int_equal(tg_store_take(old, &debit, NOW, &decision, NULL), TG_OK);
    assert_false(decision.allowed);
    assert_int_equal(n_moves, 2);
    apply_moves(NOW);
    expect_same("k", NOW);
    assert_int_equal(tg_store_take(old, &debit, NOW, &decision, NULL), TG_OK);
    apply_moves(NOW);
    expect_same("k", NOW);
    close_stores();
}

static void a_set_that_is_gone_is_left_out(void **state)
{
    struct tg_decision decision;

    (void)state;
    open_stores(SHARDS);
    (void)must_take(old, old_calls, "k", 500, NOW);
    (void)must_take(old, old_large, "k", 1, NOW);
    sets[0].here = 0;
    copy_store(NOW);
    assert_int_equal(stats_of(new).keys, 1);
    assert_int_equal(must_peek(new, new_large, "k", 1, NOW).remaining, 599 - 1);
    /* A call under both moves the one that is left. */
    const struct tg_scope scopes[] = {scope_of(old_calls, "k"), scope_of(old_large, "k")};
    struct tg_debit debit = debit_of(scopes, 5);
    debit.n_scopes = 2;
    assert_int_equal(tg_store_take(old, &debit, NOW, &decision, NULL), TG_OK);
    (void)must_take(old, old_calls, "k", 1, NOW);
    apply_moves(NOW);
    assert_int_equal(stats_of(new).keys, 1);
    assert_int_equal(must_peek(new, new_large, "k", 1, NOW).remaining, 599 - 2);
    close_stores();
}

static void limits_that_differ_go_on_as_if_redefined(void **state)
{
    const struct tg_limit more[] = {limit_on(TG_AXIS_RATE, "fixed_window:limit=40,window=100000"),
                                    limit_on(TG_AXIS_COST,
                                             "token_bucket:capacity=3000,refill=1")};
    struct tg_limit_metrics a[TG_LIMITS_MAX], b[TG_LIMITS_MAX];

    (void)state;
    open_stores(SHARDS);
    for (int i = 0; i < 4; i++)
        (void)must_take(old, old_calls, "k", 100, NOW);
    sets[0].here = new_calls = must_define(new, more, 2);
    copy_store(NOW);
    const struct tg_redefinition to = {old_calls, more, 2};
    assert_int_equal(tg_store_redefine(old, &to, 1, NOW, NULL), TG_OK);
    struct tg_scope there = scope_of(old_calls, "k"), here = scope_of(new_calls, "k");
    struct tg_debit debit_there = debit_of(&there, 1), debit_here = debit_of(&here, 1);
    assert_int_equal(tg_store_peek_scope(old, &debit_there, 0, NOW, a), 2);
    assert_int_equal(tg_store_peek_scope(new, &debit_here, 0, NOW, b), 2);
    for (size_t i = 0; i < 2; i++)
        expect_decision("k", b[i].decision, a[i].decision);
    assert_int_equal(b[0].decision.remaining, 40 - 4);
    close_stores();
}

/* What cannot be a copy of such a store is refused, wherever it is wrong. */
static void bytes_that_cannot_be_are_refused(void **state)
{
    struct {
        uint64_t shards;
        struct table_id id;
        uint32_t shard, bytes;
    } head;
    char *bytes;
    size_t n;

    (void)state;
    open_stores(2 * SHARDS);
    (void)must_take(old, old_calls, "k", 500, NOW);
    assert_int_equal(store_save(old, keep_move, &n_moves, &bytes, &n), TG_OK);
    assert_int_equal(store_load(new, bytes, n, sets, 2, NOW), TG_ERR_INVALID); /* other shards */
    close_stores();

    open_stores(SHARDS);
    assert_int_equal(store_load(new, bytes, sizeof head.shards - 1, sets, 2, NOW), TG_ERR_INVALID);
    assert_int_equal(store_load(new, bytes, sizeof head.shards, sets, 2, NOW), TG_OK);
    assert_int_equal(store_load(new, bytes, n - 1, sets, 2, NOW), TG_ERR_INVALID);
    assert_true(n > sizeof head);
    memcpy(&head, bytes, sizeof head);
    head.shard = SHARDS;
    memcpy(bytes, &head, sizeof head);
    assert_int_equal(store_load(new, bytes, n, sets, 2, NOW), TG_ERR_INVALID);
    assert_int_equal(stats_of(new).keys, 0);
    head.shard = SHARDS - 1;
    head.bytes--; /* a state of other limits: it is passed over */
    memcpy(bytes, &head, sizeof head);
    assert_int_equal(store_load(new, bytes, n - 1, sets, 2, NOW), TG_OK);
    assert_int_equal(stats_of(new).keys, 0);
    mem_free(bytes);

    struct claim_moved moved = {.claim = {.n = TG_SCOPES_MAX + 1}};
    store_apply(new, &moved, sizeof moved, sets, 2, NOW);
    moved.claim.n = 1;
    moved.claim.shard = SHARDS;
    store_apply(new, &moved, sizeof moved, sets, 2, NOW);
    store_apply(new, &moved, sizeof moved - 1, sets, 2, NOW);
    assert_int_equal(stats_of(new).keys, 0);
    close_stores();
}

/* A key that is there already has been charged since: it is not charged again. */
static void a_key_that_is_there_is_kept(void **state)
{
    (void)state;
    open_stores(SHARDS);
    (void)must_take(old, old_calls, "k", 500, NOW);
    (void)must_take(new, new_calls, "k", 100, NOW);
    copy_store(NOW);
    assert_int_equal(must_peek(new, new_calls, "k", 900, NOW).allowed, true);
    close_stores();
}

static void without_memory_nothing_is_followed_or_loaded(void **state)
{
    char *bytes = NULL;
    size_t n = 0;

    (void)state;
    need_allocator();
    open_stores(SHARDS);
    (void)must_take(old, old_calls, "k", 500, NOW);
    (void)must_take(old, old_large, "k", 1, NOW);
    fail_at(0);
    assert_int_equal(store_save(old, keep_move, &n_moves, &bytes, &n), TG_ERR_MEMORY);
    n_moves = 0;
    (void)must_take(old, old_calls, "k", 1, NOW);
    assert_int_equal(n_moves, 0);
    assert_null(bytes);
    assert_int_equal(store_save(old, keep_move, &n_moves, &bytes, &n), TG_OK);
    long before = live;
    for (long nth = 0;; nth++) {
        fail_at(nth);
        enum tg_err err = store_load(new, bytes, n, sets, 2, NOW);
        bool failed = until_failure < 0 && allocations > nth;
        until_failure = -1;
        if (!failed)
            break;
        assert_true(err == TG_ERR_MEMORY || err == TG_OK); /* one key may be left out, ... */
        assert_true(nth > 2 || err == TG_ERR_MEMORY);      /* ... but no set of limits */
        tg_store_free(new);
        new = must_store(MEMORY, SHARDS);
        new_large = must_define(new, large, 1);
        new_calls = must_define(new, calls, 2);
        assert_true(live <= before + 64); /* what the new store holds */
    }
    expect_same("k", NOW);
    mem_free(bytes);
    close_stores();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_counted_goes_on),
        cmocka_unit_test(what_moves_after_the_copy_is_done_again),
        cmocka_unit_test(what_was_allowed_there_is_charged_here),
        cmocka_unit_test(a_shadow_is_charged_as_it_was_there),
        cmocka_unit_test(an_axis_alone_is_charged_alone),
        cmocka_unit_test(a_set_that_is_gone_is_left_out),
        cmocka_unit_test(limits_that_differ_go_on_as_if_redefined),
        cmocka_unit_test(bytes_that_cannot_be_are_refused),
        cmocka_unit_test(a_key_that_is_there_is_kept),
        cmocka_unit_test(without_memory_nothing_is_followed_or_loaded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
