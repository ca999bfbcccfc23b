/* bench_keys.c - the speed of leasing a key and giving it back.
 *
 * With ten keys that all have room, time moving on so that their windows roll; and with a thousand
 * of which 990 are full: a quarter each by calls in a minute, by tokens in a minute with a rest too
 * small for the call, by calls at once, and by a group that they share.
 */
#include "benches.h"

#include <stdio.h>
#include <stdlib.h>

#include "tollgate.h"

static const tg_ms NOW = 1700000000000;

enum { FREE_KEYS = 10, ALL_KEYS = 1000, TOKENS = 700, PER_MS = 16 };

struct subject {
    struct tg_keyring *ring;
    struct tg_pool *pool;
    bool moves; /* time does */
    uint64_t done;
};

static const struct tg_key_limits ample = {
    .rpm = INT64_C(1) << 40, .tpm = INT64_C(1) << 50, .concurrency = 1000};

/* How the i-th of the full keys is filled: with how many calls, of how many tokens. */
struct filling {
    struct tg_key_limits limits;
    const char *group;
    int calls;
    int64_t tokens;
};

static const struct filling fillings[] = {
    {{.rpm = 2, .tpm = 90000}, NULL, 2, 10},
    {{.rpm = 500, .tpm = 3450}, NULL, 4, TOKENS}, /* 650 left, and 700 are wanted */
    {{.tpm = 90000, .concurrency = 1}, NULL, 1, 10},
    {{.rpm = 500, .tpm = 90000}, "account", 1, 10},
};

static struct tg_key_spec key_spec(size_t i, char (*names)[24])
{
    const struct filling *filling = &fillings[i % 4];
    bool is_free = i < FREE_KEYS;

    (void)snprintf(names[i], sizeof names[i], "k%zu", i);
    return (struct tg_key_spec){.name = names[i],
                                .owner = names[i],
                                .group = is_free ? NULL : filling->group,
                                .limits = is_free ? ample : filling->limits};
}

static tg_key_lease acquire(struct subject *subject, int64_t tokens, void *prefer)
{
    struct tg_key_call call;
    struct tg_key_answer answer;

    tg_key_call_init(&call);
    call.tokens = tokens;
    call.prefer = prefer;
    tg_pool_acquire(subject->pool, &call, NOW, &answer);
    if (!answer.lease || (prefer && answer.owner != prefer))
        abort();
    return answer.lease;
}

static void bench_keys_fill(struct subject *subject, size_t n, char (*names)[24])
{
    for (size_t i = FREE_KEYS; i < n; i++)
        for (int c = 0; c < fillings[i % 4].calls; c++)
            (void)acquire(subject, fillings[i % 4].tokens, names[i]);
}

static void bench_keys_set_up(struct subject *subject, size_t n)
{
    char(*names)[24] = calloc(n, sizeof *names);
    struct tg_key_spec *keys = calloc(n, sizeof *keys);
    struct tg_group_spec group = {"provider", "account", {.rpm = (ALL_KEYS - FREE_KEYS + 2) / 4}};
    struct tg_pool_spec pool;
    struct tg_keyring_spec spec;

    if (!names || !keys)
        abort();
    for (size_t i = 0; i < n; i++)
        keys[i] = key_spec(i, names);
    tg_pool_spec_init(&pool);
    pool.provider = "provider";
    pool.model = "model";
    pool.keys = keys;
    pool.n_keys = n;
    tg_keyring_spec_init(&spec);
    spec.groups = &group;
    spec.n_groups = 1;
    spec.pools = &pool;
    spec.n_pools = 1;
    if (tg_keyring_new(&spec, &subject->ring, NULL))
        abort();
    subject->pool = tg_keyring_pool(subject->ring, "provider", "model");
    bench_keys_fill(subject, n, names);
    free(keys);
    free(names);
}

static void keys_loop(void *context, uint64_t n)
{
    struct subject *subject = context;
    struct tg_key_call call;
    struct tg_key_answer answer;
    struct tg_key_report report;

    tg_key_call_init(&call);
    call.tokens = TOKENS;
    tg_key_report_init(&report);
    report.tokens = TOKENS - 50;
    for (uint64_t i = 0; i < n; i++) {
        tg_ms now = subject->moves ? NOW + (tg_ms)(subject->done++ / PER_MS) : NOW;
        tg_pool_acquire(subject->pool, &call, now, &answer);
        report.latency_ms = (double)(i % 7);
        if (!tg_keyring_release(subject->ring, answer.lease, now, &report))
            abort();
    }
}

static struct measured bench_keys_run_with(size_t n, bool moves)
{
    struct subject subject = {.moves = moves};

    bench_keys_set_up(&subject, n);
    struct measured result = measure(keys_loop, &subject, NULL, NULL);
    tg_keyring_free(subject.ring);
    return result;
}

static struct measured ten_keys(void)
{
    return bench_keys_run_with(FREE_KEYS, true);
}

static struct measured thousand_keys(void)
{
    return bench_keys_run_with(ALL_KEYS, false);
}

const struct bench benches_of_keys[] = {
    {"key_acquire_10", "lease a key of ten and give it back", "ns", 150, ten_keys},
    {"key_acquire_1000_full", "the same with a thousand, of which 990 are full", "ns", 250,
     thousand_keys},
    {NULL, NULL, NULL, 0, NULL},
};
