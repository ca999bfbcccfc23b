/* bench_gate.c - the speed of the whole gate: memory, peers, concurrency, rate and cost.
 *
 * One call is admitted and released again, with a settlement, by a tenant whose limits are hot.
 * Time is given, not read: a server reads the clock once for many calls.
 */
#include "benches.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "io/posix/memory.h"
#include "lib/concurrency/laws.h"
#include "tollgate.h"

static const tg_ms NOW = 1700000000000;

struct subject {
    struct tg_gate *gate;
    struct tg_store *store;
    tg_limits limits;
};

static void bench_gate_wake(void *context, void *waiter)
{
    (void)context;
    (void)waiter;
}

static void limit_init(struct tg_limit *limit, const char *spec, enum tg_axis axis)
{
    struct tg_limiter_config config;

    *limit = (struct tg_limit){.axis = axis};
    if (tg_limiter_config_parse(&config, spec, NULL) ||
        tg_limiter_init(&limit->limiter, &config, NULL))
        abort();
}

static void bench_gate_set_up(struct subject *subject, int64_t slots)
{
    struct tg_store_config store;
    struct tg_gate_config gate;
    struct tg_limit limits[2];

    tg_store_config_init(&store);
    limit_init(&limits[0], "gcra:limit=1,period=3600000,burst=2000000000", TG_AXIS_RATE);
    limit_init(&limits[1], "token_bucket:capacity=1125899906842624,refill=1000", TG_AXIS_COST);
    if (tg_store_new(&store, &subject->store, NULL) ||
        tg_store_define(subject->store, limits, 2, &subject->limits, NULL))
        abort();
    tg_gate_config_init(&gate);
    gate.memory.on = gate.peers.on = gate.concurrency.on = true;
    gate.concurrency.law.law = slots ? TG_LAW_FIXED : TG_LAW_VEGAS;
    if (slots)
        gate.concurrency.law.initial = slots;
    gate.concurrency.law.min = 1;
    gate.concurrency.queue_size = 0;
    gate.store = subject->store;
    gate.wake = bench_gate_wake;
    if (tg_gate_new(&gate, &subject->gate, NULL))
        abort();
}

static void bench_gate_tear_down(struct subject *subject)
{
    tg_gate_free(subject->gate);
    tg_store_free(subject->store);
}

struct caller {
    struct subject *subject;
    struct tg_scope scope;
    struct tg_call call;
    struct tg_release release;
    uint64_t n;
};

static void caller_init(struct caller *caller, struct subject *subject, const char *name)
{
    caller->subject = subject;
    caller->scope = (struct tg_scope){.limits = subject->limits, .key = name, .key_bytes = 8};
    tg_call_init(&caller->call);
    caller->call.peer = name;
    caller->call.peer_bytes = 8;
    caller->call.debit.scopes = &caller->scope;
    caller->call.debit.n_scopes = 1;
    caller->call.debit.cost = 100;
    tg_release_init(&caller->release);
    caller->release.actual = 90;
}

static void admit_and_release(struct caller *caller)
{
    struct tg_answer answer;

    if (tg_gate_admit(caller->subject->gate, &caller->call, 0, NOW, &answer))
        abort();
    if (answer.lease)
        tg_gate_release(caller->subject->gate, answer.lease, NOW, &caller->release);
}

static void gate_loop(void *context, uint64_t n)
{
    struct caller caller;

    caller_init(&caller, context, "tenant-0");
    for (uint64_t i = 0; i < n; i++)
        admit_and_release(&caller);
}

static void *bench_gate_work(void *context)
{
    struct caller *caller = context;

    for (uint64_t i = 0; i < caller->n; i++)
        admit_and_release(caller);
    return NULL;
}

/* So many threads, n calls each, each its own tenant. */
static void threads_loop(struct subject *subject, uint64_t n, size_t threads)
{
    static const char *const names[] = {"tenant-0", "tenant-1", "tenant-2", "tenant-3",
                                        "tenant-4", "tenant-5", "tenant-6", "tenant-7"};
    struct caller callers[8];
    pthread_t ids[8];

    for (size_t i = 0; i < threads; i++) {
        caller_init(&callers[i], subject, names[i]);
        callers[i].n = n;
        if (pthread_create(&ids[i], NULL, bench_gate_work, &callers[i]))
            abort();
    }
    for (size_t i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
}

static void two_threads_loop(void *context, uint64_t n)
{
    threads_loop(context, n, 2);
}

static void eight_threads_loop(void *context, uint64_t n)
{
    threads_loop(context, n, 8);
}

static struct measured bench_gate_run_with(int64_t slots, measured_loop loop)
{
    struct subject subject;

    bench_gate_set_up(&subject, slots);
    struct measured result = measure(loop, &subject, NULL, NULL);
    bench_gate_tear_down(&subject);
    return result;
}

static struct measured gate_one(void)
{
    return bench_gate_run_with(0, gate_loop);
}

static struct measured gate_two(void)
{
    return bench_gate_run_with(0, two_threads_loop);
}

static struct measured gate_eight(void)
{
    return bench_gate_run_with(64, eight_threads_loop);
}

/* All slots are taken, and nobody may wait. */
static struct measured gate_refusal(void)
{
    struct subject subject;
    struct caller caller;
    struct tg_answer answer;

    bench_gate_set_up(&subject, 1);
    caller_init(&caller, &subject, "tenant-0");
    if (tg_gate_admit(subject.gate, &caller.call, 0, NOW, &answer) || !answer.lease)
        abort();
    struct measured result = measure(gate_loop, &subject, NULL, NULL);
    bench_gate_tear_down(&subject);
    return result;
}

static struct measured in_us(struct measured ns)
{
    return (struct measured){ns.value / 1000, ns.reference, ns.ratio, ns.low / 1000,
                             ns.high / 1000};
}

/* ---- the law ---- */

/* One window of a thousand samples, and the step at its end. */
static void vegas_loop(void *context, uint64_t n)
{
    struct law *law = context;
    struct law_sample sample = {
        .sample_ms = 10, .sojourn_ms = 10, .in_flight = 64, .in_flight_at_start = 64};

    for (uint64_t i = 0; i < n; i++)
        for (tg_ms t = 0; t < 1000; t++) {
            sample.now = NOW + (tg_ms)i * 1000 + t;
            law_started(law, sample.now, 64);
            law_finished(law, &sample);
        }
}

static struct measured vegas_window(void)
{
    struct tg_law_config config;
    struct law law;

    tg_law_config_init(&config);
    if (law_init(&law, &config, 1, NULL))
        abort();
    struct measured result = in_us(measure(vegas_loop, &law, NULL, NULL));
    law_fini(&law);
    return result;
}

/* ---- memory ---- */

static void memory_loop(void *context, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        memory_read(context, NOW);
}

static struct measured memory_reading(void)
{
    struct memory memory;

    memory_init(&memory, "", 500);
    struct measured result = in_us(measure(memory_loop, &memory, NULL, NULL));
    memory_fini(&memory);
    return result;
}

const struct bench benches_of_gate[] = {
    {"gate", "admit and release through five stages, one thread", "ns", 250, gate_one},
    {"gate_two_threads", "the same with two threads at once, each", "ns", 300, gate_two},
    {"gate_eight_threads", "the same with eight threads on a limit of 64, each", "ns", 5000,
     gate_eight},
    {"gate_refusal", "a refusal by concurrency", "ns", 100, gate_refusal},
    {"vegas_window", "a window of 1000 samples and its step", "us", 100, vegas_window},
    {"memory_read", "reading and parsing how much memory is used", "us", 10, memory_reading},
    {NULL, NULL, NULL, 0, NULL},
};
