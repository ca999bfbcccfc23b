/* test_remote_limit_use.c - how much of a token limit in Redis is used when there is always another
 * call, and that Redis decides as the store in memory does.
 *
 * Two gates in lockstep, in virtual time: one has its limit in memory, the other asks the scripts
 * on a real server. Both learn what calls use. Clients ask for more than the limit allows, for
 * tokens of which they use a part; who is refused comes again after the wait that it was told, and
 * a call is settled when it ends. The capacity is half of what refills during a call: with less, a
 * limit cannot be used in full. Three promises:
 *
 *     same   both gates give the same answer to every call
 *     use    what calls used is 95 to 100 % of what the limit allowed, whatever part of the asked
 *     span   calls admitted in (x, y] use at most capacity + refill x (y - x) + V(y), where V(y) is
 *            what the calls in flight at y use above their charge; for windows: calls admitted in
 *            as many buckets as a window has use at most limit + V(y)
 *
 * tests/prop/test_limit_use.c has more cells, in memory. TG_LIMIT_USE=table runs and
 * prints all of them here, too, for longer.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "keyed.h"
#include "net_limits.h"

#define RATE 100000 /* tokens a second */
#define WARM 12     /* the beginning, which is not counted, in durations of a call */
#define CLIENTS 100 /* 80 would do to use all of the limit */
#define BUCKETS 10
#define START 1000000000 /* early: doubles round times of today, and a gcra adds that up */

static uint64_t seed;
static int rounds; /* the time that is counted, in durations of a call */
static struct net_limits redis;

struct client {
    tg_ms next; /* when its call ends, or when it calls again */
    bool runs;
    int64_t charge, actual;
    tg_lease here, there;
    struct remote_charge charged;
};

struct run {
    struct draw draw;
    double rho; /* mean of used to asked */
    tg_ms duration, now, from, until;
    int64_t capacity;
    double asked; /* mean */
    bool windows;

    struct tg_store *store;
    struct tg_gate *here, *there;
    struct tg_scope scope;        /* the limit, as the gates know it, */
    struct tg_limit limit;        /* and as Redis does */
    struct remote_scope at_redis; /* refers to `limit` */
    char name[48];

    struct client clients[CLIENTS];
    double used;    /* by calls admitted since `from` */
    double backlog; /* most of: used by calls admitted in (x, now], less what refilled since x */
    tg_ms backlog_at;
    double ticks[BUCKETS]; /* for windows: used by calls admitted in each bucket */
    int64_t tick;
    double above; /* V */
    double worst; /* by how much a span was exceeded; below 0: never */
};

static struct tg_gate *must_gate(struct tg_store *store)
{
    struct tg_gate_config config;
    struct tg_gate *gate;

    tg_gate_config_init(&config);
    config.store = store;
    config.remote_store = store == NULL;
    assert_int_equal(tg_gate_new(&config, &gate, NULL), TG_OK);
    return gate;
}

static void run_open(struct run *run, const char *strategy, double rho, tg_ms duration,
                     uint64_t stream)
{
    char spec[128];

    *run = (struct run){.rho = rho, .duration = duration, .worst = -1e18};
    run->draw = draw_stream(seed, stream);
    run->capacity = RATE * duration / 2000;
    run->windows = strcmp(strategy, "sliding_window") == 0;
    if (strcmp(strategy, "gcra") == 0)
        snprintf(spec, sizeof spec, "gcra:limit=%d,period=1000,burst=%lld", RATE,
                 (long long)run->capacity);
    else if (run->windows)
        snprintf(spec, sizeof spec, "sliding_window:limit=%lld,window=%lld,buckets=%d",
                 (long long)run->capacity, (long long)duration / 2, BUCKETS);
    else
        snprintf(spec, sizeof spec, "token_bucket:capacity=%lld,refill=%d",
                 (long long)run->capacity, RATE);
    run->store = must_store(1 << 20, 1);
    run->limit = limit_on(TG_AXIS_COST, spec);
    run->scope = scope_of(must_define(run->store, &run->limit, 1), "k");
    run->scope.ceiling = run->capacity;
    run->scope.overdraft = TG_OVERDRAFT * run->capacity;
    snprintf(run->name, sizeof run->name, "%s/%g/%lld", strategy, rho, (long long)duration);
    run->at_redis = (struct remote_scope){slice_of(run->name), SLICE("k"), &run->limit, 1};
    run->here = must_gate(run->store);
    run->there = must_gate(NULL);

    /* A call uses 1/40 of the capacity, so 80 at once are all that the limit allows. */
    run->asked = (double)run->capacity / 40 / rho;
    run->now = run->backlog_at = START;
    run->from = START + WARM * duration;
    run->until = run->from + rounds * duration;
    run->tick = START / (duration / 2 / BUCKETS);
    for (size_t i = 0; i < CLIENTS; i++)
        run->clients[i].next = START + draw_between(&run->draw, 0, duration);
}

static void run_close(struct run *run)
{
    tg_gate_free(run->here);
    tg_gate_free(run->there);
    tg_store_free(run->store);
}

/* A call of `actual` tokens has been admitted. */
static void check_span(struct run *run, double actual)
{
    if (run->windows) {
        for (; run->tick < run->now / (run->duration / 2 / BUCKETS);
             run->ticks[run->tick % BUCKETS] = 0)
            run->tick++;
        run->ticks[run->tick % BUCKETS] += actual;
        run->backlog = 0;
        for (size_t i = 0; i < BUCKETS; i++)
            run->backlog += run->ticks[i];
    } else {
        double refilled = (double)(run->now - run->backlog_at) * RATE / 1000;
        run->backlog = fmax(run->backlog - refilled, 0) + actual;
        run->backlog_at = run->now;
    }
    run->worst = fmax(run->worst, run->backlog - (double)run->capacity - run->above);
}

static struct remote_debit debit_at_redis(const struct run *run, int64_t cost)
{
    return (struct remote_debit){
        .root = SLICE("root"), .scopes = &run->at_redis, .n_scopes = 1, .cost = cost};
}

static void expect_same(const struct run *run, const struct tg_answer *here,
                        const struct tg_answer *there)
{
    const struct tg_decision *a = &here->decision, *b = &there->decision;

    if (a->allowed != b->allowed || a->limit != b->limit || a->remaining != b->remaining ||
        a->reset_at != b->reset_at || a->retry_after_ms != b->retry_after_ms ||
        here->charge != there->charge || here->reason != there->reason)
        fail_msg("%s, ms %lld: memory %d, %lld left, wait %lld, charge %lld; Redis %d, %lld, %lld, "
                 "%lld",
                 run->name, (long long)(run->now - START), a->allowed, (long long)a->remaining,
                 (long long)a->retry_after_ms, (long long)here->charge, b->allowed,
                 (long long)b->remaining, (long long)b->retry_after_ms, (long long)there->charge);
}

static void client_call(struct run *run, struct client *client)
{
    int64_t asked = (int64_t)(run->asked * (0.5 + draw_unit(&run->draw)));
    double part = run->rho < 1 ? run->rho * (0.5 + draw_unit(&run->draw)) : 1;
    struct tg_answer here, there;
    struct tg_call call;
    struct tg_axes axes;

    tg_call_init(&call);
    call.debit = debit_of(&run->scope, asked);
    assert_int_equal(tg_gate_admit(run->here, &call, 0, run->now, &here), TG_OK);
    assert_int_equal(here.step, TG_DECIDED);
    assert_int_equal(tg_gate_admit(run->there, &call, 0, run->now, &there), TG_OK);
    assert_int_equal(there.step, TG_NEEDS_STORE);
    struct remote_debit debit = debit_at_redis(run, there.charge);
    freeReplyObject(net_limits_take(&redis, &debit, run->now, &axes, &client->charged));
    assert_int_equal(
        tg_gate_store_answered(run->there, there.lease, TG_OK, &axes, run->now, &there), TG_OK);
    expect_same(run, &here, &there);

    if (!there.decision.allowed) {
        client->next = run->now + there.decision.retry_after_ms +
                       draw_between(&run->draw, 0, run->duration / 8);
        return;
    }
    client->runs = true;
    client->here = here.lease;
    client->there = there.lease;
    client->charge = there.charge;
    client->actual = (int64_t)fmax((double)asked * part + 0.5, 1);
    client->next = run->now + draw_between(&run->draw, run->duration / 2, run->duration * 3 / 2);
    run->above += fmax((double)(client->actual - client->charge), 0);
    if (run->now >= run->from)
        run->used += (double)client->actual;
    check_span(run, (double)client->actual);
}

static void client_end(struct run *run, struct client *client)
{
    struct remote_debit debit = debit_at_redis(run, client->charge);
    struct tg_release release;

    tg_release_init(&release);
    release.actual = client->actual;
    assert_true(tg_gate_release(run->here, client->here, run->now, &release));
    assert_true(tg_gate_release(run->there, client->there, run->now, &release));
    net_limits_settle(&redis, &debit, run->now, &client->charged, client->actual);
    run->above -= fmax((double)(client->actual - client->charge), 0);
    client->runs = false; /* and calls again at once */
}

/* Returns which part of the limit was used, in percent. */
static double use_of(const char *strategy, double rho, tg_ms duration, uint64_t stream)
{
    static struct run run;

    run_open(&run, strategy, rho, duration, stream);
    for (;;) {
        struct client *first = &run.clients[0];
        for (size_t i = 1; i < CLIENTS; i++)
            if (run.clients[i].next < first->next)
                first = &run.clients[i];
        run.now = first->next;
        if (run.now >= run.until)
            break;
        if (first->runs)
            client_end(&run, first);
        client_call(&run, first);
    }
    run_close(&run);
    /* A bucket of whole units and whole ms: one of each. */
    if (run.worst > 2)
        fail_msg("%s: %.0f above the promise", run.name, run.worst);
    return 100 * run.used / ((double)(run.until - run.from) * RATE / 1000);
}

/* Every limiter with every part that is used; and with one duration each, such that every duration
 * meets every limiter and every part; or with all of them. */
static void a_limit_in_redis_is_used_and_decides_as_in_memory(void **state)
{
    static const char *const strategies[] = {"gcra", "token_bucket", "sliding_window"};
    static const double rhos[] = {0.05, 0.3, 1};
    static const tg_ms durations[] = {100, 5000, 60000};
    bool all = getenv("TG_LIMIT_USE") != NULL;
    double least = 1000, most = 0;

    (void)state;
    rounds = all ? 60 : 12;
    for (size_t i = 0; i < 27; i++) {
        size_t s = i / 9, r = i / 3 % 3, d = i % 3;
        if (!all && d != (s + r) % 3)
            continue;
        double use = use_of(strategies[s], rhos[r], durations[d], i);
        if (all)
            print_message("| %s | %g | %.1f s | %.1f |\n", strategies[s], rhos[r],
                          (double)durations[d] / 1000, use);
        least = fmin(least, use);
        most = fmax(most, use);
    }
    print_message("    use of the limit: %.1f to %.1f %%\n", least, most);
    assert_true(least >= 95);
    /* Calls in flight when the measured time begins and ends were charged the mean, and use more or
     * less: up to 0.3 of what refills in a duration. What is exact is the span, in use_of(). */
    assert_true(most <= 100 + 30.0 / rounds);
}

static int open_server(void **state)
{
    (void)state;
    seed = draw_seed("test_remote_limit_use");
    net_limits_open(&redis);
    return 0;
}

static int close_server(void **state)
{
    (void)state;
    net_limits_close(&redis);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_in_redis_is_used_and_decides_as_in_memory),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_server, close_server);
}
