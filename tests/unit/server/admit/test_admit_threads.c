/* test_admit_threads.c - two workers admit, and end what either of them has admitted.
 *
 * Each thread has a worker. What it is let in for goes on a table in the middle, from which both
 * take what they renew or release; now and then a connection of a thread's own closes. When all is
 * over, nothing is held.
 */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "draw.h"
#include "net_admit_kit.h"
#include "net_redis.h"

enum { STEPS = 20000,
       TABLE = 64,
       CONNECTIONS = 4,
       PENDING = 8 };

static struct admit_kit kit;

static struct {
    pthread_mutex_t lock;
    struct {
        bool full;
        char lease[ADMIT_LEASE_BYTES];
    } places[TABLE];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct hand {
    struct worker *worker;
    struct admit_caller caller;
    struct draw draw;
    uint64_t n; /* the thread's number, from 1 */
    uint64_t admitted, found;
    bool waits; /* for what Redis says, and not for slots */
    int pending;
};

/* Lays a lease on the table, or takes the one that lies there. */
static bool swap(struct hand *hand, char lease[ADMIT_LEASE_BYTES], bool lay)
{
    size_t place = (size_t)draw_between(&hand->draw, 0, TABLE - 1);

    pthread_mutex_lock(&table.lock);
    bool fine = table.places[place].full != lay;
    if (fine && lay)
        memcpy(table.places[place].lease, lease, ADMIT_LEASE_BYTES);
    else if (fine)
        memcpy(lease, table.places[place].lease, ADMIT_LEASE_BYTES);
    if (fine)
        table.places[place].full = lay;
    pthread_mutex_unlock(&table.lock);
    return fine;
}

static void release(struct hand *hand, const char lease[ADMIT_LEASE_BYTES])
{
    struct tg_release release;
    struct admit_reply error;
    bool found = false;

    tg_release_init(&release);
    release.actual = draw_between(&hand->draw, -1, 3);
    admit_release(hand->worker, &hand->caller, (struct slice){lease, ADMIT_LEASE_BYTES}, &release,
                  &found, &error);
    hand->found += found;
}

static void told(void *context, const struct admit_reply *reply)
{
    struct hand *hand = context;
    char lease[ADMIT_LEASE_BYTES];

    hand->pending--;
    if (!reply->allowed)
        return;
    hand->admitted++;
    memcpy(lease, reply->lease, sizeof lease);
    if (!swap(hand, lease, true))
        release(hand, lease);
}

static uint64_t connection_of(struct hand *hand)
{
    return hand->n * 100 + (uint64_t)draw_between(&hand->draw, 1, CONNECTIONS);
}

static void step(struct hand *hand)
{
    char lease[ADMIT_LEASE_BYTES];
    const struct slice text = {lease, sizeof lease};
    struct admit_reply error;
    struct admit_ask ask;
    tg_ms deadline;
    bool live;

    admit_ask_init(&ask);
    switch (draw_between(&hand->draw, 0, 9)) {
    case 0:
        admit_connection_closed(hand->worker, connection_of(hand));
        break;
    case 1:
    case 2:
        if (!swap(hand, lease, false))
            break;
        admit_heartbeat(hand->worker, &hand->caller, &text, 1, &live, &deadline, &error);
        if (!swap(hand, lease, true))
            release(hand, lease);
        break;
    case 3:
    case 4:
    case 5:
        if (swap(hand, lease, false))
            release(hand, lease);
        break;
    default:
        if (draw_chance(&hand->draw, 50))
            ask.connection = connection_of(hand);
        hand->pending++;
        struct admit_pending *pending = admit_start(hand->worker, &hand->caller, &ask, told, hand);
        if (pending != NULL && (!hand->waits || draw_chance(&hand->draw, 20))) {
            hand->pending--;
            admit_cancel(pending);
        }
    }
}

static void *work(void *arg)
{
    struct hand *hand = arg;

    for (int i = 0; i < STEPS; i++) {
        step(hand);
        if (i % 64 == 0)
            net_loop_turn(hand->worker->loop, false);
        while (hand->pending >= PENDING)
            net_loop_turn(hand->worker->loop, true);
    }
    while (hand->pending > 0)
        net_loop_turn(hand->worker->loop, false);
    return NULL;
}

static void both_work(const char *yaml, bool waits)
{
    uint64_t seed = draw_seed("admit_threads");
    struct hand hands[2];
    pthread_t threads[2];

    memset(table.places, 0, sizeof table.places);
    kit_open(&kit, yaml);
    for (size_t i = 0; i < 2; i++) {
        hands[i] = (struct hand){
            .worker = &kit.workers[i], .draw = draw_stream(seed, i), .n = i + 1, .waits = waits};
        assert_true(kit_caller(&kit, "all", &hands[i].caller));
        assert_int_equal(pthread_create(&threads[i], NULL, work, &hands[i]), 0);
    }
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < TABLE; i++)
        if (table.places[i].full)
            release(&hands[0], table.places[i].lease);
    for (uint64_t i = 0; i < 2; i++)
        for (uint64_t k = 1; k <= CONNECTIONS; k++)
            admit_connection_closed(&kit.workers[i], 100 * (i + 1) + k);
    assert_true(hands[0].admitted > 100 && hands[1].admitted > 100);
    assert_true(hands[0].found + hands[1].found <= hands[0].admitted + hands[1].admitted);
    assert_true(hands[0].found > 100 && hands[1].found > 100);
    assert_int_equal(kit_stats(&kit).in_flight, 0);
    assert_int_equal(kit_stats(&kit).leases, 0);
    assert_int_equal(kit_queued(&kit), 0);
    assert_int_equal(admit_count_bound(kit.gateway), 0);
    kit_close(&kit); /* with accounts that are on their way to be closed */
}

#define GATE  \
    "gate:\n" \
    "  concurrency: {law: fixed, initial: 32, min: 1, max: 32}\n"

static void workers_end_each_others_leases(void **state)
{
    (void)state;
    both_work(GATE "  queue: {wait: {normal: 1h}}\n", false);
}

/* Then what was charged is settled by the one who charged it. */
static void workers_end_leases_that_others_have_charged(void **state)
{
    struct net_redis redis;
    char yaml[600];

    (void)state;
    net_redis_start(&redis, NULL);
    snprintf(yaml, sizeof yaml,
             "store: redis://127.0.0.1:%d\n" GATE "  queue: {wait: {normal: 0ms}}\n"
             "  cost: {strategy: token_bucket, capacity: 1000000000, refill: 1}\n",
             redis.port);
    both_work(yaml, true);
    net_redis_free(&redis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_end_each_others_leases),
        cmocka_unit_test(workers_end_leases_that_others_have_charged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
