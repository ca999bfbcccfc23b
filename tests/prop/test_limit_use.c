/* test_limit_use.c - how much of a token limit is used when there is always another call.
 *
 * Calls ask for tokens, use rho of them in the mean, and end seconds later; each is charged the
 * mean (what the gate learns, simulated here by the true one), and settled when it ends. Whenever
 * the limit refuses, the next call tries again after the wait it was told, or when another ended.
 * Virtual time in whole ms, the store in memory. Two promises:
 *
 *     use    what calls used, as part of what the limit allowed, is 95 % or more where the capacity
 *            is at least half of what refills during a call, and does not depend on rho
 *     span   calls admitted in (x, y] use at most capacity + refill x (y - x) + V(y), where y is
 *            when the last of them was admitted, and V(y) what the calls in flight then use above
 *            their charge; for windows: calls admitted in as many buckets as a window has use at
 *            most limit + V(y). After y, calls that end turn V into debt, and nothing is admitted
 *            before that is paid
 *
 * With TG_LIMIT_USE=table in the environment, all cells are printed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "draw.h"
#include "keyed.h"

#define RATE 100000 /* tokens a second */
#define ROUNDS 150  /* the length of a run, in durations of a call, */
#define WARM 10     /* and of its beginning, which is not counted */
#define IN_FLIGHT_MAX 4096
#define SIZES 1024
#define TICKS 16

static uint64_t seed;

/* How calls differ from each other. */
enum spread {
    EVEN,   /* each uses rho of what it asks, and takes the same time */
    UNLIKE, /* lognormal use, sigma 1; times of their own, half to one and a half */
    LONG    /* lognormal use, sigma 1; who uses more takes longer */
};

struct cell {
    const char *strategy;
    enum spread spread;
    double rho;
    tg_ms duration;
};

struct running {
    tg_ms ends, at;
    int64_t charged, actual;
};

struct run {
    const struct cell *cell;
    struct draw draw;
    struct tg_store *store;
    struct tg_scope scope;
    int64_t capacity;
    tg_ms now, from, until;
    double factor;      /* mean of used to asked */
    double uses[SIZES]; /* parts of what was asked, in turn: no noise in the mean */
    size_t turn;
    struct running heap[IN_FLIGHT_MAX]; /* the first to end on top */
    size_t n;
    double used;    /* by calls admitted since `from` */
    double backlog; /* most of: used by calls admitted in (x, now], less what refilled since x */
    double above;   /* V */
    double worst;   /* by how much the span was exceeded; below 0: never */
    tg_ms backlog_at;
    double ticks[TICKS]; /* for windows: used by calls admitted in each */
    int64_t tick;
    bool windows;
};

/* ---- calls in flight ---- */

static void sift_up(struct run *run, size_t i)
{
    for (; i > 0 && run->heap[i].ends < run->heap[(i - 1) / 2].ends; i = (i - 1) / 2) {
        struct running call = run->heap[i];
        run->heap[i] = run->heap[(i - 1) / 2];
        run->heap[(i - 1) / 2] = call;
    }
}

static void sift_down(struct run *run)
{
    for (size_t i = 0, child; (child = 2 * i + 1) < run->n; i = child) {
        child += child + 1 < run->n && run->heap[child + 1].ends < run->heap[child].ends;
        if (run->heap[i].ends <= run->heap[child].ends)
            return;
        struct running call = run->heap[i];
        run->heap[i] = run->heap[child];
        run->heap[child] = call;
    }
}

/* ---- the span ---- */

enum { BUCKETS = 10 };

static tg_ms width_of(const struct run *run)
{
    return run->capacity * 1000 / RATE / BUCKETS;
}

static void check_span(struct run *run, double actual)
{
    if (run->windows) {
        double sum = 0;
        for (; run->tick < run->now / width_of(run); run->ticks[run->tick % TICKS] = 0)
            run->tick++;
        run->ticks[run->tick % TICKS] += actual;
        for (int64_t t = run->tick; t > run->tick - BUCKETS && t >= 0; t--)
            sum += run->ticks[t % TICKS];
        run->backlog = sum;
    } else {
        double refilled = (double)(run->now - run->backlog_at) * RATE / 1000;
        run->backlog = fmax(run->backlog - refilled, 0) + actual;
        run->backlog_at = run->now;
    }
    run->worst = fmax(run->worst, run->backlog - (double)run->capacity - run->above);
}

/* ---- one run ---- */

static void run_init(struct run *run, const struct cell *cell, uint64_t stream)
{
    struct tg_store_config config;
    char spec[128];
    double sum = 0;

    *run = (struct run){.cell = cell, .draw = draw_stream(seed, stream), .worst = -1e18};
    run->capacity = RATE * cell->duration / 2000;
    run->windows = strcmp(cell->strategy, "sliding_window") == 0;
    if (strcmp(cell->strategy, "gcra") == 0)
        snprintf(spec, sizeof spec, "gcra:limit=%d,period=1000,burst=%lld", RATE,
                 (long long)run->capacity);
    else if (run->windows)
        snprintf(spec, sizeof spec, "sliding_window:limit=%lld,window=%lld,buckets=%d",
                 (long long)run->capacity, (long long)(run->capacity * 1000 / RATE), BUCKETS);
    else
        snprintf(spec, sizeof spec, "token_bucket:capacity=%lld,refill=%d",
                 (long long)run->capacity, RATE);
    tg_store_config_init(&config);
    config.memory_bytes = 1 << 20;
    assert_int_equal(tg_store_new(&config, &run->store, NULL), TG_OK);
    run->scope = scope_of(must_define_one(run->store, TG_AXIS_COST, spec), "k");

    for (size_t i = 0; i < SIZES; i++) {
        double normal = sqrt(-2 * log(1 - draw_unit(&run->draw))) *
                        cos(6.283185307179586 * draw_unit(&run->draw));
        run->uses[i] = cell->spread == EVEN ? cell->rho : fmin(cell->rho * exp(normal - 0.5), 1);
        sum += run->uses[i];
    }
    run->factor = sum / SIZES;
    run->from = 1700000000000 + WARM * cell->duration;
    run->until = run->from + ROUNDS * cell->duration;
    run->now = run->backlog_at = 1700000000000;
    run->tick = run->now / width_of(run);
}

static tg_ms time_of(struct run *run, double use)
{
    double part = run->cell->spread == EVEN     ? 1
                  : run->cell->spread == UNLIKE ? 0.5 + draw_unit(&run->draw)
                                                : use / run->factor;

    return (tg_ms)fmax(part * (double)run->cell->duration, 1);
}

/* Tries one call. Returns when to try the next: now, or later. */
static tg_ms try_call(struct run *run)
{
    double use = run->uses[run->turn++ % SIZES];
    double asked = (double)run->capacity / 50 / run->factor * (0.5 + draw_unit(&run->draw));
    struct running call = {.at = run->now,
                           .charged = (int64_t)fmax(round(asked * run->factor), 1),
                           .actual = (int64_t)(asked * use + draw_unit(&run->draw))};
    struct tg_debit debit = {.scopes = &run->scope, .n_scopes = 1, .cost = call.charged};
    struct tg_decision decision;

    assert_int_equal(tg_store_take(run->store, &debit, run->now, &decision, NULL), TG_OK);
    /* A window lets go a little each ms: who tries at each gets hardly more, and takes longer. */
    if (!decision.allowed)
        return run->now + (decision.retry_after_ms > run->cell->duration / 1000
                               ? decision.retry_after_ms
                               : run->cell->duration / 1000 + 1);
    assert_true(run->n < IN_FLIGHT_MAX);
    call.ends = run->now + time_of(run, use);
    run->heap[run->n++] = call;
    sift_up(run, run->n - 1);
    run->above += fmax((double)(call.actual - call.charged), 0);
    if (run->now >= run->from)
        run->used += (double)call.actual;
    check_span(run, (double)call.actual);
    return run->now;
}

static void end_call(struct run *run)
{
    struct running call = run->heap[0];
    struct tg_debit debit = {.scopes = &run->scope, .n_scopes = 1, .cost = call.charged};

    run->heap[0] = run->heap[--run->n];
    sift_down(run);
    assert_int_equal(tg_store_settle(run->store, &debit, run->now, call.at, call.actual), TG_OK);
    run->above -= fmax((double)(call.actual - call.charged), 0);
}

/* Returns the part of the limit that was used, in percent. */
static double use_of(const struct cell *cell, uint64_t stream, double *worst)
{
    static struct run run;
    tg_ms next;

    run_init(&run, cell, stream);
    next = run.now;
    while (run.now < run.until) {
        while (run.n > 0 && run.heap[0].ends <= run.now) {
            end_call(&run);
            next = run.now;
        }
        if (next <= run.now)
            next = try_call(&run);
        if (next > run.now)
            run.now = run.n > 0 && run.heap[0].ends < next ? run.heap[0].ends : next;
    }
    tg_store_free(run.store);
    *worst = run.worst;
    return 100 * run.used / ((double)(run.until - run.from) * RATE / 1000);
}

/* ---- all cells ---- */

static const double rhos[] = {0.05, 0.1, 0.25, 0.5, 0.75, 1};
static const tg_ms durations[] = {100, 1000, 5000, 20000, 60000};
static const char *const strategies[] = {"gcra", "token_bucket", "sliding_window"};

static double least_use(const char *strategy, tg_ms duration, double rho, uint64_t stream)
{
    double least = 1000;

    for (int spread = EVEN; spread <= LONG; spread++) {
        struct cell cell = {strategy, (enum spread)spread, rho, duration};
        double worst, use = use_of(&cell, stream + (uint64_t)spread, &worst);
        /* A bucket of whole units and whole ms: one of each. */
        if (worst > 2)
            fail_msg("%s, %lld ms, rho %g, spread %d: %.0f above the promise", strategy,
                     (long long)duration, rho, spread, worst);
        least = fmin(least, use);
    }
    return least;
}

static void a_limit_is_used_whatever_part_of_the_asked_is_used(void **state)
{
    bool table = getenv("TG_LIMIT_USE") != NULL;
    uint64_t stream = 0;
    double least = 1000;

    (void)state;
    for (size_t s = 0; s < COUNT_OF(strategies); s++)
        for (size_t d = 0; d < COUNT_OF(durations); d++) {
            double row[COUNT_OF(rhos)];
            for (size_t r = 0; r < COUNT_OF(rhos); r++, stream += 3) {
                row[r] = least_use(strategies[s], durations[d], rhos[r], stream);
                least = fmin(least, row[r]);
            }
            if (table)
                print_message("| %s | %.1f s | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f |\n",
                              strategies[s], (double)durations[d] / 1000, row[0], row[1], row[2],
                              row[3], row[4], row[5]);
        }
    print_message("    use of the limit: %.1f %% at least\n", least);
    assert_true(least >= 95);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_is_used_whatever_part_of_the_asked_is_used),
    };

    seed = draw_seed("test_limit_use");
    return cmocka_run_group_tests_name("limit use", tests, NULL, NULL);
}
