/* bench_store.c - the speed of limiters in the keyed store.
 *
 * Each check reads the clock, as a caller would, and has a 32-byte key. The limit is one an hour
 * with an endless burst: every check is admitted and written back, the longer of both paths, and no
 * key is fresh again before the run is over.
 */
#include "benches.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "io/posix/clock.h"
#include "reference.h"
#include "tollgate.h"

enum {
    KEY_BYTES = REFERENCE_KEY_BYTES,
    MANY_KEYS = 1000000,
    MANY_SLOTS = 1 << 21,
    BATCH_KEYS = 64
};

struct subject {
    struct clock clock;
    struct tg_store *store;
    tg_limits limits;
    struct reference reference;
    uint64_t random;
};

/* ---- what is measured ---- */

/* A well-mixed 64-bit stream (splitmix64). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

/* Key number i. Computed rather than kept, so that fetching keys from memory is no part of it. */
static void make_key(char *key, uint64_t i)
{
    uint64_t words[KEY_BYTES / sizeof(uint64_t)] = {i, ~i, i * 3, i << 32};

    memcpy(key, words, KEY_BYTES);
}

static uint64_t draw(struct subject *subject)
{
    subject->random = mix(subject->random);
    return subject->random % MANY_KEYS;
}

/* A caller that asks for one key after another. */
struct caller {
    struct subject *subject;
    char key[KEY_BYTES];
    struct tg_scope scope;
    struct tg_debit debit;
};

static void caller_init(struct caller *caller, struct subject *subject, uint64_t key)
{
    caller->subject = subject;
    caller->scope =
        (struct tg_scope){.limits = subject->limits, .key = caller->key, .key_bytes = KEY_BYTES};
    caller->debit = (struct tg_debit){.scopes = &caller->scope, .n_scopes = 1, .cost = 1};
    make_key(caller->key, key);
}

static void bench_store_take(struct caller *caller)
{
    struct subject *subject = caller->subject;
    struct tg_decision decision;

    if (tg_store_take(subject->store, &caller->debit, clock_now_ms(&subject->clock), &decision,
                      NULL) ||
        !decision.allowed)
        abort();
}

static void check_reference(struct subject *subject, const char *key)
{
    if (!reference_check(&subject->reference, key))
        abort();
}

static void hot_loop(void *context, uint64_t n)
{
    struct caller caller;

    caller_init(&caller, context, 7);
    for (uint64_t i = 0; i < n; i++)
        bench_store_take(&caller);
}

static void hot_reference_loop(void *context, uint64_t n)
{
    char key[KEY_BYTES];

    make_key(key, 7);
    for (uint64_t i = 0; i < n; i++)
        check_reference(context, key);
}

static void random_loop(void *context, uint64_t n)
{
    struct caller caller;

    caller_init(&caller, context, 0);
    for (uint64_t i = 0; i < n; i++) {
        make_key(caller.key, draw(context));
        bench_store_take(&caller);
    }
}

static void random_reference_loop(void *context, uint64_t n)
{
    char key[KEY_BYTES];

    for (uint64_t i = 0; i < n; i++) {
        make_key(key, draw(context));
        check_reference(context, key);
    }
}

static void batch_loop(void *context, uint64_t n)
{
    struct subject *subject = context;
    char keys[BATCH_KEYS][KEY_BYTES];
    struct tg_scope scopes[BATCH_KEYS];
    struct tg_debit debits[BATCH_KEYS];
    struct tg_decision decisions[BATCH_KEYS];
    enum tg_err errs[BATCH_KEYS];

    for (uint64_t done = 0; done < n; done += BATCH_KEYS) {
        for (size_t i = 0; i < BATCH_KEYS; i++) {
            make_key(keys[i], draw(subject));
            scopes[i] = (struct tg_scope){
                .limits = subject->limits, .key = keys[i], .key_bytes = KEY_BYTES};
            debits[i] = (struct tg_debit){.scopes = &scopes[i], .n_scopes = 1, .cost = 1};
        }
        tg_store_take_many(subject->store, debits, BATCH_KEYS, clock_now_ms(&subject->clock),
                           decisions, errs);
        for (size_t i = 0; i < BATCH_KEYS; i++)
            if (errs[i] || !decisions[i].allowed)
                abort();
    }
}

/* ---- setting up ---- */

static void define(struct subject *subject, const char *const *specs, size_t n)
{
    struct tg_limit limits[TG_LIMITS_MAX] = {0};

    for (size_t i = 0; i < n; i++) {
        struct tg_limiter_config config;
        if (tg_limiter_config_parse(&config, specs[i], NULL) ||
            tg_limiter_init(&limits[i].limiter, &config, NULL))
            abort();
        limits[i].axis = i > 0 && i + 1 == n ? TG_AXIS_COST : TG_AXIS_RATE;
    }
    if (tg_store_define(subject->store, limits, n, &subject->limits, NULL))
        abort();
}

static bool bench_store_set_up(struct subject *subject, const char *const *specs, size_t n)
{
    struct tg_store_config config;

    *subject = (struct subject){.random = 1};
    tg_store_config_init(&config);
    config.memory_bytes = (size_t)1 << 30;
    config.seed = 0x5eed;
    clock_init(&subject->clock);
    if (tg_store_new(&config, &subject->store, NULL))
        return false;
    define(subject, specs, n);
    return reference_init(&subject->reference, MANY_SLOTS);
}

static void bench_store_tear_down(struct subject *subject)
{
    tg_store_free(subject->store);
    reference_fini(&subject->reference);
}

static void add_key(struct subject *subject, uint64_t i)
{
    struct caller caller;

    caller_init(&caller, subject, i);
    bench_store_take(&caller);
    reference_add(&subject->reference, caller.key);
}

static const char *const GCRA[] = {"gcra:limit=1,period=3600000,burst=2000000000"};
static const char *const GCRA_AND_BUCKET[] = {"gcra:limit=1,period=3600000,burst=2000000000",
                                              "token_bucket:capacity=1125899906842624,refill=1000"};

static struct measured bench_store_run_with(const char *const *specs, size_t n, uint64_t keys,
                                            measured_loop loop, measured_loop reference)
{
    struct subject subject;
    struct measured result = measure_count(NAN);

    if (bench_store_set_up(&subject, specs, n)) {
        for (uint64_t i = 0; i < keys; i++)
            add_key(&subject, i);
        result = measure(loop, &subject, reference, &subject);
    }
    bench_store_tear_down(&subject);
    return result;
}

static struct measured limiter_hot(void)
{
    return bench_store_run_with(GCRA, 1, 8, hot_loop, hot_reference_loop);
}

static struct measured limiter_random(void)
{
    return bench_store_run_with(GCRA, 1, MANY_KEYS, random_loop, random_reference_loop);
}

static struct measured limiter_batch(void)
{
    return bench_store_run_with(GCRA, 1, MANY_KEYS, batch_loop, random_reference_loop);
}

static struct measured limiter_pair(void)
{
    return bench_store_run_with(GCRA_AND_BUCKET, 2, 8, hot_loop, hot_reference_loop);
}

static struct measured limiter_bytes(void)
{
    struct subject subject;
    struct tg_store_stats stats = {0};

    if (bench_store_set_up(&subject, GCRA, 1)) {
        for (uint64_t i = 0; i < MANY_KEYS; i++)
            add_key(&subject, i);
        tg_store_get_stats(subject.store, &stats);
    }
    bench_store_tear_down(&subject);
    return measure_count(stats.keys ? (double)stats.memory_bytes / (double)stats.keys : NAN);
}

/* ---- two threads ---- */

struct worker {
    struct subject *subject;
    uint64_t key;
    uint64_t n;
};

static void *bench_store_work(void *context)
{
    struct worker *worker = context;
    struct caller caller;

    caller_init(&caller, worker->subject, worker->key);
    for (uint64_t i = 0; i < worker->n; i++)
        bench_store_take(&caller);
    return NULL;
}

/* Two threads, n checks each, on keys of their own. */
static void two_threads_loop(void *context, uint64_t n)
{
    struct worker other = {context, 3, n}, self = {context, 7, n};
    pthread_t thread;

    if (pthread_create(&thread, NULL, bench_store_work, &other))
        abort();
    bench_store_work(&self);
    pthread_join(thread, NULL);
}

static struct measured limiter_two_threads(void)
{
    return bench_store_run_with(GCRA, 1, 8, two_threads_loop, hot_loop);
}

const struct bench benches_of_store[] = {
    {"limiter_hot", "one check, hot key, against the hand-written loop", "ns", 1.5, limiter_hot},
    {"limiter_random", "one check, 1 M keys at random, against the same loop", "ns", 1.0,
     limiter_random},
    {"limiter_batch", "the same in batches of 64", "ns", 1.0, limiter_batch},
    {"limiter_bytes", "memory of a gcra key of 32 bytes, 1 M of them", "B", 64, limiter_bytes},
    {"limiter_two_threads",
     "a check with two threads on keys of their own, against one thread; 1.11 is 1.8x the "
     "throughput",
     "ns", 1.11, limiter_two_threads},
    {"limiter_pair", "gcra and token_bucket debited together, against the loop for one", "ns", NAN,
     limiter_pair},
    {NULL, NULL, NULL, 0, NULL},
};
