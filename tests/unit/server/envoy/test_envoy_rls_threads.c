/* test_envoy_rls_threads.c - Envoy's rate limit service asked by several threads at once, as by
 * workers: nothing is admitted twice.
 */
#include "net_envoy_kit.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4,
       ASKS = 1500 };

struct asker {
    struct envoy_world *world;
    const char *descriptors;
    atomic_int *admitted;
    struct envoy_rls_reply reply;
};

static void *ask_all(void *arg)
{
    struct asker *asker = arg;
    struct envoy_asked asked;

    envoy_parse(&asked, "d", asker->descriptors);
    for (int i = 0; i < ASKS; i++) {
        envoy_rls_take(asker->world->rls, asker->world->store, &asked.request, asker->world->now,
                       &asker->reply);
        if (asker->reply.overall == ENVOY_RLS_OK)
            atomic_fetch_add(asker->admitted, 1);
    }
    return NULL;
}

/* How many of all threads' requests are admitted. */
static int ask_together(struct envoy_world *world, const char *descriptors)
{
    static struct asker askers[THREADS];
    pthread_t threads[THREADS];
    atomic_int admitted = 0;

    for (int i = 0; i < THREADS; i++) {
        askers[i].world = world;
        askers[i].descriptors = descriptors;
        askers[i].admitted = &admitted;
        assert_int_equal(pthread_create(&threads[i], NULL, ask_all, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    return admitted;
}

static const char rules[] =
    "domain: d\n"
    "descriptors:\n"
    "  - {key: many, rate_limit: {unit: hour, requests_per_unit: 1000}}\n"
    "  - {key: few, rate_limit: {unit: hour, requests_per_unit: 10}}\n";

static void a_limit_is_used_up_exactly(void **state)
{
    struct envoy_rls_counts counts;
    struct envoy_world world;

    (void)state;
    envoy_open(&world, rules);
    assert_int_equal(ask_together(&world, "many=x"), 1000);
    assert_int_equal(ask_together(&world, "few=x"), 10);
    assert_true(envoy_rls_get_counts(world.rls, 0, &counts));
    assert_int_equal(counts.within, 1000);
    assert_int_equal(counts.within + counts.over, THREADS * ASKS);
    envoy_close(&world);
}

/* What one gives back another may have missed: never more, and what is left is all there. */
static void several_limits_are_never_exceeded(void **state)
{
    struct envoy_world world;

    (void)state;
    envoy_open(&world, rules);
    int first = ask_together(&world, "many=x|few=x|many=y");
    int rest = envoy_admitted(&world, "d", "few=x", 99);
    assert_int_equal(first + rest, 10);
    assert_int_equal(first + envoy_admitted(&world, "d", "many=x", 9999), 1000);
    assert_int_equal(first + envoy_admitted(&world, "d", "many=y", 9999), 1000);
    envoy_close(&world);
}

static void a_limit_brought_along_is_never_exceeded(void **state)
{
    struct envoy_world world;

    (void)state;
    envoy_open(&world, rules);
    int first = ask_together(&world, "b=1 [50/hour]");
    assert_int_equal(first + envoy_admitted(&world, "d", "b=1 [50/hour]", 99), 50);
    envoy_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_is_used_up_exactly),
        cmocka_unit_test(several_limits_are_never_exceeded),
        cmocka_unit_test(a_limit_brought_along_is_never_exceeded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
