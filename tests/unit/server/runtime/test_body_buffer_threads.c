/* test_body_buffer_threads.c - memory for bodies: what all take, and what stays for each tenant. */
#include "server/runtime/body_buffer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "io/text/json_read.h"
#include "lib/core/random.h"
#include "server/runtime/gateway.h"

enum { KIB = 1024,
       PIECE = 16 * KIB };

static struct gateway gateway;
static struct generation generation;
static char piece[PIECE];

static void world(long long total)
{
    memset(&gateway, 0, sizeof gateway);
    memset(&generation, 0, sizeof generation);
    generation.config.limits.buffered_total = total;
}

static enum body_room add(struct body_buffer *body, struct tenant_share *share, size_t n)
{
    return body_buffer_add(body, &gateway, &generation, share, -1, (struct slice){piece, n});
}

/* Sends bodies of so many bytes until one is refused, or `most` are held; how many are. */
static int fill(struct body_buffer *bodies, int most, struct tenant_share *share, size_t bytes)
{
    int held = 0;

    for (; held < most; held++)
        for (size_t n = 0; n < bytes; n += PIECE)
            if (add(&bodies[held], share, PIECE) != BODY_FITS)
                return held;
    return held;
}

static void empty(struct body_buffer *bodies, int n)
{
    for (int i = 0; i < n; i++)
        body_buffer_free(&bodies[i], &gateway);
}

/* Attack 10: 34 connections of one tenant, each with 31 of 32 parts of a body that fills a 32nd of
 * the memory. All others are served. Sizes are a 64th of the attack's. */
static void attack_10_one_tenant_cannot_take_all_memory(void **state)
{
    static struct body_buffer bodies[34], others[30];
    struct tenant_share attacker = {0}, victims[30] = {{0}};
    const long long total = 16 << 20;

    (void)state;
    world(total);
    int held = fill(bodies, COUNT_OF(bodies), &attacker, 496 * KIB);
    assert_true(held < (int)COUNT_OF(bodies));
    assert_int_equal(add(&bodies[held], &attacker, PIECE), BODY_SHARE_FULL);
    assert_true(atomic_load(&attacker.buffered) >= total / 2 - 512 * KIB);
    assert_true(atomic_load(&attacker.buffered) <= total / 2 + 512 * KIB);
    for (int i = 0; i < (int)COUNT_OF(others); i++) {
        assert_int_equal(add(&others[i], &victims[i], PIECE), BODY_FITS);
        assert_int_equal(add(&bodies[held], &attacker, PIECE), BODY_SHARE_FULL);
    }
    empty(others, COUNT_OF(others));
    empty(bodies, COUNT_OF(bodies));
    assert_int_equal(atomic_load(&gateway.counts.buffered), 0);
    assert_int_equal(atomic_load(&attacker.buffered), 0);
}

/* k tenants that want all there is get 1 / (k + 1) each, within one body; so does the next. */
static void greedy_tenants_leave_as_much_as_each_of_them_has(void **state)
{
    enum { BODY = 64 * KIB - JSON_PADDING,
           MOST = 300 };
    static struct body_buffer bodies[5][MOST];
    struct tenant_share shares[5] = {{0}};
    const long long total = 8 << 20;

    (void)state;
    for (int k = 1; k <= 4; k++) {
        world(total);
        int n[5] = {0};
        /* A body of each in turn, as long as one of them gets some. */
        for (bool grew = true; grew;) {
            grew = false;
            for (int i = 0; i < k; i++)
                if (n[i] < MOST &&
                    body_buffer_add(&bodies[i][n[i]], &gateway, &generation, &shares[i], BODY,
                                    (struct slice){piece, PIECE}) == BODY_FITS)
                    n[i]++, grew = true;
        }
        for (int i = 0; i < k; i++) {
            long long own = atomic_load(&shares[i].buffered);
            assert_true(own >= total / (k + 1) - 64 * KIB && own <= total / (k + 1) + 64 * KIB);
        }
        assert_true(total - atomic_load(&gateway.counts.buffered) >=
                    total / (k + 1) - k * 64 * KIB);
        for (int i = 0; i < k; i++)
            empty(bodies[i], n[i]);
        assert_int_equal(atomic_load(&gateway.counts.buffered), 0);
    }
}

static void a_lone_body_may_have_all_but_what_is_stated(void **state)
{
    struct tenant_share share = {0};
    struct body_buffer body = {0};

    (void)state;
    world(1 << 20);
    for (int i = 0; i < 63; i++)
        assert_int_equal(body_buffer_add(&body, &gateway, &generation, &share, 63 * PIECE,
                                         (struct slice){piece, PIECE}),
                         BODY_FITS);
    assert_int_equal(body.n, 63 * PIECE);
    body_buffer_free(&body, &gateway);
    body_buffer_free(&body, &gateway); /* there is nothing any more */
    assert_int_equal(atomic_load(&share.buffered), 0);
}

static void a_refusal_says_whose_part_is_used_up(void **state)
{
    struct refusal why;

    (void)state;
    body_buffer_refusal(BODY_SHARE_FULL, "tenant a", &why);
    assert_int_equal(why.reason, REPLY_MEMORY_PRESSURE);
    assert_string_equal(why.text,
                        "memory pressure: the bodies of tenant a take all the memory that one may");
    body_buffer_refusal(BODY_ALL_FULL, "tenant a", &why);
    assert_string_equal(why.text,
                        "memory pressure: the bodies of calls take all the memory they may");
    body_buffer_refusal(BODY_NO_MEMORY, "tenant a", &why);
    assert_int_equal(why.reason, REPLY_MEMORY_PRESSURE);
}

/* ---- threads ---- */

enum { THREADS = 4,
       ROUNDS = 3000,
       HELD = 16 };

static struct tenant_share shared[2];
static atomic_bool exceeded;

static void *fill_and_empty(void *arg)
{
    size_t number = *(size_t *)arg;
    struct body_buffer bodies[HELD] = {{0}};
    struct random random;

    random_init(&random, 7, number);
    for (int i = 0; i < ROUNDS; i++) {
        struct body_buffer *body = &bodies[random_bits(&random) % HELD];
        if (random_bits(&random) % 4 == 0)
            body_buffer_free(body, &gateway);
        else
            (void)add(body, &shared[number % 2], 1 + random_bits(&random) % PIECE);
        if (atomic_load(&shared[0].buffered) + atomic_load(&shared[1].buffered) < 0)
            atomic_store(&exceeded, true);
    }
    for (int i = 0; i < HELD; i++)
        body_buffer_free(&bodies[i], &gateway);
    return NULL;
}

static void counts_of_threads_come_back_to_nothing(void **state)
{
    pthread_t threads[THREADS];
    size_t numbers[THREADS];

    (void)state;
    world(512 * KIB);
    for (size_t i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, fill_and_empty, &numbers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_false(atomic_load(&exceeded));
    assert_int_equal(atomic_load(&gateway.counts.buffered), 0);
    assert_int_equal(atomic_load(&shared[0].buffered), 0);
    assert_int_equal(atomic_load(&shared[1].buffered), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attack_10_one_tenant_cannot_take_all_memory),
        cmocka_unit_test(greedy_tenants_leave_as_much_as_each_of_them_has),
        cmocka_unit_test(a_lone_body_may_have_all_but_what_is_stated),
        cmocka_unit_test(a_refusal_says_whose_part_is_used_up),
        cmocka_unit_test(counts_of_threads_come_back_to_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
