/* test_tenant_share.c - how often a tenant may ask about itself: by time, over all threads. */
#include "check.h"

#include <pthread.h>

#include "server/runtime/tenant_share.h"

/* Eight at once, then four a second; and who waits as long as it was told may. */
static void a_tenant_asks_at_its_pace(void **state)
{
    static struct tenant_share share;
    tg_ms now = 5000;
    (void)state;

    for (int i = 0; i < 8; i++)
        assert_int_equal(tenant_may_ask(&share, now), 0);
    for (int i = 0; i < 40; i++) {
        tg_ms wait = tenant_may_ask(&share, now);
        assert_int_equal(wait, 250);
        assert_int_equal(tenant_may_ask(&share, now + wait - 1), 1);
        now += wait;
        assert_int_equal(tenant_may_ask(&share, now), 0);
    }
    now += 60000; /* a long silence saves no more than eight */
    for (int i = 0; i < 8; i++)
        assert_int_equal(tenant_may_ask(&share, now), 0);
    assert_int_equal(tenant_may_ask(&share, now), 250);
}

static struct tenant_share shared;
static atomic_int passed;

static void *ask(void *arg)
{
    (void)arg;
    for (tg_ms now = 0; now < 10000; now++)
        if (tenant_may_ask(&shared, now) == 0)
            atomic_fetch_add(&passed, 1);
    return NULL;
}

/* Each thread has its own now, and none may make it more: 8 and one each 250 ms of the latest. */
static void threads_ask_at_the_same_pace(void **state)
{
    pthread_t threads[4];
    (void)state;

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_true(atomic_load(&passed) >= 40 && atomic_load(&passed) <= 8 + 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenant_asks_at_its_pace),
        cmocka_unit_test(threads_ask_at_the_same_pace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
