/* test_wakes.c - calls that wait in an event loop, while other threads free the slots: each is
 * woken once, a call that hangs up never, and the descriptor is readable while there is something
 * to take. */
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The thread tests link the library alone, and this file stands outside of it. */
#include "io/posix/wakes.c"

enum { WAITING = 64, NOW = 1000000 };

static int rounds(void)
{
    return getenv("TG_SOAK") != NULL ? 5000 : 150;
}

static bool readable(struct tg_wakes *wakes, int timeout)
{
    struct pollfd fd = {.fd = tg_wakes_fd(wakes), .events = POLLIN};

    return poll(&fd, 1, timeout) == 1;
}

static void woken_in_order_and_once(void **state)
{
    struct tg_wakes *wakes;
    struct tg_waiter waiters[3];

    (void)state;
    assert_int_equal(tg_wakes_new(&wakes), TG_OK);
    for (int i = 0; i < 3; i++)
        tg_waiter_init(&waiters[i], wakes, &waiters[i]);
    assert_false(readable(wakes, 0));
    assert_null(tg_wakes_next(wakes));
    for (int i = 0; i < 3; i++) {
        tg_waiter_wake(NULL, &waiters[i]);
        tg_waiter_wake(NULL, &waiters[i]); /* it is there already */
    }
    assert_true(readable(wakes, 0));
    assert_ptr_equal(tg_wakes_next(wakes), &waiters[0]);
    tg_waiter_forget(&waiters[1]);
    tg_waiter_forget(&waiters[1]);
    assert_true(readable(wakes, 0));
    assert_ptr_equal(tg_wakes_next(wakes), &waiters[2]);
    assert_false(readable(wakes, 0));
    assert_null(tg_wakes_next(wakes));
    tg_waiter_wake(NULL, &waiters[0]);
    assert_true(readable(wakes, 0));
    tg_waiter_forget(&waiters[0]);
    assert_false(readable(wakes, 0));
    tg_wakes_free(wakes);
}

static void misuse_is_an_error(void **state)
{
    struct tg_waiter waiter = {0};

    (void)state;
    assert_int_equal(tg_wakes_new(NULL), TG_ERR_NULL);
    assert_int_equal(tg_wakes_fd(NULL), -1);
    assert_null(tg_wakes_next(NULL));
    tg_waiter_init(NULL, NULL, NULL);
    tg_waiter_wake(NULL, &waiter);
    tg_waiter_wake(NULL, NULL);
    tg_waiter_forget(&waiter);
    tg_waiter_forget(NULL);
    tg_wakes_free(NULL);
    assert_int_equal(tg_gate_timeout(NULL, NOW), -1);
}

struct request {
    struct tg_call call;
    struct tg_waiter waiter;
    tg_lease lease;
    bool waits;
};

/* Leases that the other thread is to give back. */
struct hall {
    struct tg_gate *gate;
    pthread_mutex_t mutex;
    pthread_cond_t filled;
    tg_lease leases[WAITING + 1];
    int n;
    bool over;
};

static void hand_out(struct hall *hall, tg_lease lease)
{
    pthread_mutex_lock(&hall->mutex);
    assert_true(hall->n <= WAITING);
    hall->leases[hall->n++] = lease;
    pthread_cond_signal(&hall->filled);
    pthread_mutex_unlock(&hall->mutex);
}

static void *give_back(void *context)
{
    struct hall *hall = context;

    for (;;) {
        pthread_mutex_lock(&hall->mutex);
        while (hall->n == 0 && !hall->over)
            pthread_cond_wait(&hall->filled, &hall->mutex);
        tg_lease lease = hall->n > 0 ? hall->leases[--hall->n] : 0;
        pthread_mutex_unlock(&hall->mutex);
        if (lease == 0)
            return NULL;
        (void)tg_gate_release(hall->gate, lease, NOW, NULL);
    }
}

/* One slot, and many that wait for it: two threads give it back, the loop resumes who is woken, and
 * now and then somebody hangs up, whose memory is overwritten at once. */
static void each_is_woken_once_and_nobody_who_left(void **state)
{
    static struct request requests[WAITING];
    struct tg_gate_config config;
    struct tg_gate_stats stats;
    struct tg_wakes *wakes;
    struct hall hall = {.mutex = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};
    pthread_t threads[2];
    struct tg_answer answer;
    int admitted = 0, left = 0;

    (void)state;
    tg_gate_config_init(&config);
    config.concurrency.on = true;
    config.concurrency.law.law = TG_LAW_FIXED;
    config.concurrency.law.min = config.concurrency.law.initial = 1;
    config.concurrency.wait[TG_PRIORITY_NORMAL] = 3600000;
    config.wake = tg_waiter_wake;
    assert_int_equal(tg_wakes_new(&wakes), TG_OK);
    assert_int_equal(tg_gate_new(&config, &hall.gate, NULL), TG_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, give_back, &hall), 0);
    for (int round = 0; round < rounds(); round++) {
        int waiting = 0;
        for (int i = 0; i < WAITING; i++) {
            struct request *request = &requests[i];
            tg_call_init(&request->call);
            tg_waiter_init(&request->waiter, wakes, request);
            request->call.waiter = &request->waiter;
            assert_int_equal(tg_gate_admit(hall.gate, &request->call, 0, NOW, &answer), TG_OK);
            request->lease = answer.lease;
            request->waits = answer.step == TG_WAITING;
            waiting += request->waits;
            if (!request->waits && answer.decision.allowed) {
                admitted++;
                hand_out(&hall, answer.lease);
            }
        }
        for (int i = round % 5; i < WAITING; i += 5) {
            struct request *request = &requests[i];
            if (!request->waits)
                continue;
            /* It may have been granted the slot already, which then goes to the next. */
            assert_true(tg_gate_release(hall.gate, request->lease, NOW, NULL));
            tg_waiter_forget(&request->waiter);
            memset(request, 0xa5, sizeof *request);
            request->waits = false;
            waiting--;
            left++;
        }
        while (waiting > 0) {
            struct request *request;
            assert_true(readable(wakes, 60000));
            while ((request = tg_wakes_next(wakes)) != NULL) {
                assert_true(request >= requests && request < requests + WAITING);
                assert_true(request->waits);
                assert_int_equal(
                    tg_gate_resume(hall.gate, request->lease, &request->call, NOW, &answer), TG_OK);
                if (answer.step == TG_WAITING)
                    continue;
                request->waits = false;
                waiting--;
                assert_true(answer.decision.allowed);
                admitted++;
                hand_out(&hall, answer.lease);
            }
        }
    }
    pthread_mutex_lock(&hall.mutex);
    hall.over = true;
    pthread_cond_broadcast(&hall.filled);
    pthread_mutex_unlock(&hall.mutex);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(admitted + left, rounds() * WAITING);
    assert_null(tg_wakes_next(wakes));
    assert_int_equal(tg_gate_timeout(hall.gate, NOW), -1);
    tg_gate_get_stats(hall.gate, &stats);
    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.leases, 0);
    tg_gate_free(hall.gate);
    tg_wakes_free(wakes);
}

static void the_timeout_is_that_of_poll(void **state)
{
    struct tg_gate_config config;
    struct tg_gate *gate;
    struct tg_answer answer;
    struct tg_call call;

    (void)state;
    tg_gate_config_init(&config);
    config.concurrency.on = true;
    config.concurrency.queue_size = 0;
    config.lease_ttl = TG_NUMBER_MAX - NOW - 1;
    assert_int_equal(tg_gate_new(&config, &gate, NULL), TG_OK);
    tg_call_init(&call);
    assert_int_equal(tg_gate_admit(gate, &call, 0, NOW, &answer), TG_OK);
    assert_int_equal(tg_gate_timeout(gate, NOW), INT_MAX);
    call.lease_ttl = 700;
    assert_int_equal(tg_gate_admit(gate, &call, 0, NOW, &answer), TG_OK);
    int timeout = tg_gate_timeout(gate, NOW);
    assert_true(timeout >= 0 && timeout <= 700); /* it may be too early */
    assert_int_equal(tg_gate_timeout(gate, NOW + 700), 0);
    assert_int_equal(tg_gate_timeout(gate, NOW + 7000), 0);
    tg_gate_free(gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(woken_in_order_and_once),
        cmocka_unit_test(misuse_is_an_error),
        cmocka_unit_test(each_is_woken_once_and_nobody_who_left),
        cmocka_unit_test(the_timeout_is_that_of_poll),
    };

    return cmocka_run_group_tests_name("wakes", tests, NULL, NULL);
}
