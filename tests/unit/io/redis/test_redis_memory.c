/* test_redis_memory.c - a warm connection allocates nothing; and whichever allocation fails, every
 * ask is answered once and the client finds its way back.
 *
 * libuv's own memory is not among what fails: it grows with the numbers of descriptors, and a first
 * connection has seen these.
 */
#include "net_redis_kit.h"
#include "redis_group.h"

#include "failing_malloc.h"

#define DEPTH 16 /* what they write fits a block; more takes one allocation for all of a turn */

/* Many asks at once, each with a key, an argument and a reply of some parts. */
static void round_trip(struct redis_kit *kit, const struct redis_script *script)
{
    static struct redis_kit_ask asks[DEPTH];

    for (size_t i = 0; i < DEPTH; i++)
        redis_kit_eval(kit, &asks[i], script, "tg:rate:{root}:tenant/team-a:team-a", "1");
    redis_kit_until(kit, asks[DEPTH - 1].answered);
    for (size_t i = 0; i < DEPTH; i++)
        assert_int_equal(asks[i].elements, 6);
}

static void a_warm_connection_allocates_nothing(void **state)
{
    struct redis_script script = redis_kit_script("return {1, 2, 3, 'four', {5, 6}, 7}");
    struct redis_kit kit;

    (void)state;
    need_allocator();
    redis_kit_init_server(&kit, &server);
    redis_kit_open_up(&kit);
    for (int i = 0; i < 20; i++)
        round_trip(&kit, &script);
    long before = allocations;
    for (int i = 0; i < 50; i++)
        round_trip(&kit, &script);
    assert_int_equal(allocations, before);
    redis_kit_free(&kit);
}

/* From nothing to an answer, with one allocation failing on the way. True: none did. */
static bool survive(struct redis_kit *kit, const struct redis_script *script, long nth)
{
    struct redis_kit_ask ask;
    struct tg_problem problem;

    until_failure = nth;
    if (redis_new(kit->kit.loop, &kit->options, &kit->redis, &problem) != TG_OK)
        return false;
    redis_kit_until(kit, redis_is_up(kit->redis, NULL));
    redis_kit_eval(kit, &ask, script, "k", "1");
    redis_kit_until(kit, ask.answered);
    assert_int_equal(ask.answered, 1);
    assert_true(ask.lost || ask.integer == 1);
    bool all = until_failure >= 0;
    until_failure = -1;
    redis_kit_until(kit, redis_is_up(kit->redis, NULL));
    redis_kit_eval(kit, &ask, script, "k", "1");
    redis_kit_until(kit, ask.answered);
    assert_int_equal(ask.integer, 1);
    redis_free(kit->redis);
    kit->redis = NULL;
    return all;
}

static void any_allocation_may_fail(void **state)
{
    struct redis_script script = redis_kit_script("return 1 -- of little memory");
    struct redis_kit kit;
    long nth = 0;

    (void)state;
    need_allocator();
    redis_kit_init_server(&kit, &server);
    kit.options.connect = 200; /* a greeting of which a part could not be said is given up */
    redis_kit_open_up(&kit);
    net_redis_do(&server, "SCRIPT FLUSH");
    redis_free(kit.redis);
    kit.redis = NULL;
    while (!survive(&kit, &script, nth))
        nth++;
    assert_true(nth > 5);
    redis_kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_warm_connection_allocates_nothing),
        cmocka_unit_test(any_allocation_may_fail),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, start_redis, stop_redis);
}
