/* forked.c - what the head of tollgate.h says about fork: a child has a copy of every object, may
 * use it, and what it counts is its own. Built by tests/api/forked.sh.
 */
#include <stdio.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <tollgate.h>
#include <unistd.h>

#define NOW 1000000

static int failures;

static void expect(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "%ld: not so: %s\n", (long)getpid(), what);
        failures++;
    }
}

#define EXPECT(condition) expect(condition, #condition)

/* Admits until the gate or the limit refuses, and returns how many that were. */
static int fill(struct tg_gate *gate, tg_limits set, enum tg_reason *why, tg_lease *last)
{
    struct tg_scope scope = {.limits = set, .key = "a", .key_bytes = 1};
    struct tg_answer answer;
    struct tg_call call;
    int n = 0;

    tg_call_init(&call);
    call.debit.scopes = &scope;
    call.debit.n_scopes = 1;
    while (tg_gate_admit(gate, &call, 0, NOW, &answer) == TG_OK && answer.decision.allowed) {
        *last = answer.lease;
        n++;
    }
    *why = answer.reason;
    return n;
}

int main(void)
{
    struct tg_limit limit = {.axis = TG_AXIS_RATE};
    struct tg_limiter_config limiter;
    struct tg_store_config store_config;
    struct tg_gate_config config;
    struct tg_gate_stats stats;
    struct tg_store *store;
    struct tg_gate *gate;
    enum tg_reason why;
    tg_lease lease = 0;
    tg_limits set;
    pid_t child;
    int status;

    tg_store_config_init(&store_config);
    tg_gate_config_init(&config);
    config.concurrency.on = true;
    config.concurrency.queue_size = 0;
    tg_law_config_choose(&config.concurrency.law, TG_LAW_FIXED);
    config.concurrency.law.min = config.concurrency.law.initial = 3;
    if (tg_store_new(&store_config, &store, NULL) ||
        tg_limiter_config_parse(&limiter, "gcra:limit=5,period=3600000", NULL) ||
        tg_limiter_init(&limit.limiter, &limiter, NULL) ||
        tg_store_define(store, &limit, 1, &set, NULL))
        return 1;
    config.store = store;
    if (tg_gate_new(&config, &gate, NULL))
        return 1;

    EXPECT(fill(gate, set, &why, &lease) == 3 && why == TG_REASON_CONCURRENCY);
    child = fork();
    if (child == 0) {
        /* The lease that the parent made is here, too, and ends here alone. */
        EXPECT(tg_gate_release(gate, lease, NOW, NULL));
        EXPECT(!tg_gate_release(gate, lease, NOW, NULL));
        EXPECT(fill(gate, set, &why, &lease) == 1 && why == TG_REASON_CONCURRENCY);
        EXPECT(tg_gate_release(gate, lease, NOW, NULL));
        EXPECT(fill(gate, set, &why, &lease) == 1 && why == TG_REASON_CONCURRENCY);
        EXPECT(tg_gate_release(gate, lease, NOW, NULL));
        EXPECT(fill(gate, set, &why, &lease) == 0 && why == TG_REASON_RATE);
        tg_gate_free(gate);
        tg_store_free(store);
        _exit(failures != 0);
    }
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    tg_gate_get_stats(gate, &stats);
    EXPECT(stats.in_flight == 3 && stats.admitted == 3);
    EXPECT(tg_gate_release(gate, lease, NOW, NULL));
    EXPECT(fill(gate, set, &why, &lease) == 1 && why == TG_REASON_CONCURRENCY);
    tg_gate_free(gate);
    tg_store_free(store);
    return failures != 0;
}
