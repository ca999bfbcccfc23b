/* test_keypool_threads.c - one ring, many threads: every lease is counted once, in and out.
 *
 * The clock is a number that the threads move on. Each thread knows what it holds; when all have
 * met, the sums of that must be what the ring says, and within the limits. A sanitizer gets an
 * eighth of it, which is a million operations; TG_SOAK=1 does ten times as much.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "crew.h"
#include "draw.h"
#include "keys_kit.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHARE 8
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SHARE 8
#endif
#endif
#ifndef SHARE
#define SHARE 1
#endif

enum { THREADS = 8, KEYS = 24, HELD = 16, ROUNDS = 20, POOLS = 2 };

static uint64_t seed;
static int64_t operations = 1000000 / SHARE; /* made by each thread */

struct held {
    tg_key_lease lease;
    size_t pool, key;
    int64_t tokens;
};

/* What one thread has, touched by it alone while a round runs. */
struct hand {
    struct draw draw;
    struct held held[HELD];
    size_t n;
    tg_key_lease last; /* one that has ended */
    int64_t served, refused;
};

struct table {
    struct keys_kit kit;
    struct tg_pool_spec pool_specs[POOLS];
    struct tg_pool *pools[POOLS];
    atomic_llong clock;
    atomic_int wrong; /* the line of the first check that failed */
    struct hand hands[THREADS];
    bool changes; /* the ring is changed meanwhile */
};

/* cmocka must not jump out of a thread that is not its own. */
static void soft_check(struct table *table, bool truth, int line)
{
    int none = 0;

    if (!truth)
        atomic_compare_exchange_strong(&table->wrong, &none, line);
}
#define SOFT(table, truth) soft_check(table, truth, __LINE__)

static void take(struct table *table, struct hand *hand, tg_ms now)
{
    struct held *held = &hand->held[hand->n];
    struct tg_key_call call;
    struct tg_key_answer answer;

    tg_key_call_init(&call);
    held->pool = (size_t)draw_between(&hand->draw, 0, POOLS - 1);
    held->tokens = call.tokens = draw_magnitude(&hand->draw, 3000);
    if (draw_chance(&hand->draw, 20)) {
        call.affinity = table->kit.names[draw_between(&hand->draw, 0, KEYS - 1)];
        call.affinity_bytes = 3;
    }
    tg_pool_acquire(table->pools[held->pool], &call, now, &answer);
    if (!answer.lease) {
        SOFT(table, answer.retry_after_ms > 0);
        hand->refused++;
        return;
    }
    held->lease = answer.lease;
    held->key = (size_t)((const char *)answer.owner - table->kit.names[0]) / KIT_NAME;
    SOFT(table, held->key < KEYS);
    hand->served++;
    hand->n++;
}

static void give(struct table *table, struct hand *hand, tg_ms now)
{
    struct draw *draw = &hand->draw;
    size_t i = (size_t)draw_between(draw, 0, (int64_t)hand->n - 1);
    struct tg_key_report report;

    tg_key_report_init(&report);
    if (draw_chance(draw, 10))
        report.outcome = (enum tg_key_outcome)draw_between(draw, TG_KEY_OK, TG_KEY_CANCELLED);
    report.sent = draw_chance(draw, 60);
    report.tokens = draw_between(draw, -1, hand->held[i].tokens);
    report.latency_ms = draw_unit(draw) * 100;
    report.cool_until = now + draw_between(draw, 1, 200);
    SOFT(table, tg_keyring_release(table->kit.ring, hand->held[i].lease, now, &report));
    hand->last = hand->held[i].lease;
    hand->held[i] = hand->held[--hand->n];
}

static void probe(struct table *table, struct hand *hand, tg_ms now)
{
    struct tg_probe probe;

    if (!tg_keyring_next_probe(table->kit.ring, now, &probe))
        return;
    SOFT(table, probe.name && probe.name[0] == 'k');
    tg_keyring_probed(
        table->kit.ring, &probe,
        (enum tg_probe_result)draw_between(&hand->draw, TG_PROBE_GOOD, TG_PROBE_UNCLEAR), now);
}

static void read_metrics(struct table *table, struct hand *hand, tg_ms now)
{
    struct tg_key_metrics metrics[KEYS];
    struct tg_pool_metrics pool;
    size_t n = tg_pool_get_keys(table->pools[0], now, 0, metrics, KEYS);

    for (size_t i = 0; i < n; i++)
        SOFT(table, metrics[i].in_flight >= 0 &&
                        metrics[i].in_flight <= metrics[i].rpm_limit + HELD * THREADS);
    tg_pool_get_metrics(table->pools[1], &pool);
    SOFT(table, table->changes || pool.n_keys == KEYS);
    (void)tg_keyring_next_deadline(table->kit.ring);
    SOFT(table, tg_keyring_enable(table->kit.ring, "p", "k3", draw_chance(&hand->draw, 90), now));
}

/* Half of the keys come and go. Those with other numbers keep theirs. */
static void change(struct table *table, struct hand *hand, tg_ms now)
{
    struct tg_pool_spec pools[POOLS] = {table->pool_specs[0], table->pool_specs[1]};
    struct tg_keyring_spec spec = table->kit.spec;

    spec.pools = pools;
    pools[0].n_keys = (size_t)draw_between(&hand->draw, KEYS / 2, KEYS);
    spec.n_pools = draw_chance(&hand->draw, 80) ? POOLS : 1;
    SOFT(table, tg_keyring_change(table->kit.ring, &spec, now, NULL) == TG_OK);
}

static void work(void *context, size_t i, size_t round)
{
    struct table *table = context;
    struct hand *hand = &table->hands[i];
    struct tg_key_report report;

    (void)round;
    tg_key_report_init(&report);
    for (int64_t n = 0; n < operations / ROUNDS; n++) {
        int64_t what = draw_between(&hand->draw, 0, 999);
        tg_ms now = atomic_load_explicit(&table->clock, memory_order_relaxed);
        if (what < 20)
            atomic_fetch_add_explicit(&table->clock, 1, memory_order_relaxed);
        if (what == 0)
            read_metrics(table, hand, now);
        else if (what == 1)
            probe(table, hand, now);
        else if (what == 2)
            SOFT(table, !tg_keyring_release(table->kit.ring, hand->last, now, &report));
        else if (what == 3 && table->changes)
            change(table, hand, now);
        else if (hand->n < HELD && (hand->n == 0 || what < 500))
            take(table, hand, now);
        else
            give(table, hand, now);
    }
}

/* ---- between the rounds ---- */

static void expect_sums(struct table *table, size_t pool)
{
    struct tg_key_metrics metrics[KEYS];
    int64_t calls[KEYS] = {0}, tokens[KEYS] = {0};
    tg_ms now = atomic_load(&table->clock);

    for (size_t t = 0; t < THREADS; t++)
        for (size_t i = 0; i < table->hands[t].n; i++) {
            const struct held *held = &table->hands[t].held[i];
            calls[held->key] += held->pool == pool;
            tokens[held->key] += held->pool == pool ? held->tokens : 0;
        }
    assert_int_equal(tg_pool_get_keys(table->pools[pool], now, 0, metrics, KEYS), KEYS);
    for (size_t i = 0; i < KEYS; i++) {
        assert_int_equal(metrics[i].in_flight, calls[i]);
        assert_int_equal(metrics[i].tpm_inflight, tokens[i]);
        assert_true(calls[i] <= table->kit.keys[i].limits.concurrency);
        assert_true(tokens[i] <= table->kit.keys[i].limits.tpm);
    }
}

static void drain(struct table *table)
{
    for (size_t t = 0; t < THREADS; t++)
        while (table->hands[t].n > 0)
            give(table, &table->hands[t], atomic_load(&table->clock));
    assert_int_equal(atomic_load(&table->wrong), 0);
}

static void open_table(struct table *table, bool changes)
{
    struct keys_kit *kit = &table->kit;

    keys_init(kit, KEYS, (struct tg_key_limits){.rpm = 60000, .tpm = 25000000, .concurrency = 3});
    kit->group.limits = (struct tg_key_limits){.rpm = 400000, .tpm = 150000000, .concurrency = 20};
    for (size_t i = 0; i < 8; i++)
        kit->keys[i].group = "g";
    table->pool_specs[0] = table->pool_specs[1] = kit->pool_spec;
    table->pool_specs[1].model = "other";
    kit->spec.pools = table->pool_specs;
    kit->spec.n_pools = POOLS;
    kit->spec.probe_every = 50;
    keys_open(kit);
    table->pools[0] = kit->pool;
    table->pools[1] = tg_keyring_pool(kit->ring, "p", "other");
    table->changes = changes;
    atomic_store(&table->clock, 1000000);
    for (size_t t = 0; t < THREADS; t++)
        table->hands[t].draw = draw_stream(seed, t + (changes ? 100 : 0));
}

static void close_table(struct table *table)
{
    int64_t served = 0, refused = 0;

    for (size_t t = 0; t < THREADS; t++) {
        served += table->hands[t].served;
        refused += table->hands[t].refused;
    }
    print_message("%lld served, %lld refused\n", (long long)served, (long long)refused);
    assert_true(served > operations / 4 && refused > operations / 10);
    keys_close(&table->kit);
    free(table);
}

static void random_operations_keep_every_count(void **state)
{
    struct table *table = calloc(1, sizeof *table);
    (void)state;

    assert_non_null(table);
    open_table(table, false);
    for (size_t round = 0; round < ROUNDS; round++) {
        crew_run(THREADS, 1, work, table);
        if (atomic_load(&table->wrong))
            fail_msg("the check of line %d failed", atomic_load(&table->wrong));
        for (size_t pool = 0; pool < POOLS; pool++)
            expect_sums(table, pool);
    }
    drain(table);
    for (size_t pool = 0; pool < POOLS; pool++)
        expect_sums(table, pool);
    close_table(table);
}

static void a_ring_that_changes_meanwhile_loses_no_lease(void **state)
{
    struct table *table = calloc(1, sizeof *table);
    int64_t all = operations;
    (void)state;

    assert_non_null(table);
    operations = all / 10;
    open_table(table, true);
    for (size_t round = 0; round < ROUNDS; round++) {
        crew_run(THREADS, 1, work, table);
        if (atomic_load(&table->wrong))
            fail_msg("the check of line %d failed", atomic_load(&table->wrong));
    }
    drain(table);
    keys_change(&table->kit, atomic_load(&table->clock));
    for (size_t pool = 0; pool < POOLS; pool++)
        expect_sums(table, pool);
    close_table(table);
    operations = all;
}

/* ---- one key ---- */

struct doorway {
    struct keys_kit kit;
    atomic_llong none;
};

static void pass_through(void *context, size_t i, size_t round)
{
    struct doorway *door = context;
    struct tg_key_call call;
    struct tg_key_answer answer;
    struct tg_key_report report;

    (void)i;
    (void)round;
    tg_key_call_init(&call);
    tg_key_report_init(&report);
    call.tokens = 10;
    report.sent = false;
    for (int64_t n = 0; n < operations / 10; n++) {
        tg_pool_acquire(door->kit.pool, &call, 0, &answer);
        if (answer.lease)
            (void)tg_keyring_release(door->kit.ring, answer.lease, 0, &report);
        else
            atomic_fetch_add(&door->none, 1);
    }
}

static void one_key_with_room_is_never_missed(void **state)
{
    static struct doorway door;
    (void)state;

    keys_start(&door.kit, 1, (struct tg_key_limits){.tpm = 10 * THREADS, .rpm = THREADS});
    crew_run(THREADS, 1, pass_through, &door);
    assert_int_equal(atomic_load(&door.none), 0);
    assert_int_equal(keys_metrics(&door.kit, 0, 0).in_flight, 0);
    assert_int_equal(keys_metrics(&door.kit, 0, 0).rpm_remaining, THREADS);
    keys_close(&door.kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_keep_every_count),
        cmocka_unit_test(a_ring_that_changes_meanwhile_loses_no_lease),
        cmocka_unit_test(one_key_with_room_is_never_missed),
    };

    seed = draw_seed("test_keypool_threads");
    if (getenv("TG_SOAK") != NULL)
        operations *= 10;
    return cmocka_run_group_tests_name("keypool_threads", tests, NULL, NULL);
}
