/* scenario_run.c - one run of a scenario: arrivals, the gate, the server, and what is measured.
 *
 * An attempt of a call lives from its arrival until it is refused or has finished. A client that
 * comes again makes a new attempt; the server does not know that it is the same client, and
 * finishes late work.
 *
 *     arrival or retry --> gate_run_admit --> waits in the gate --.--> server --> delay --> release
 *                               |                                 |
 *                            refused <----------------------------'
 *
 * Events at one instant: the end of a service, then what is on the agenda, then arrivals; waits in
 * the gate end at the end of their millisecond.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/regret/gate_run.h"
#include "lab/scenario/scenario.h"
#include "lab/scenario/server.h"
#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "lib/core/random.h"

/* The second of grace, and the load, that false rejects are counted by. */
#define CLEAN_AFTER_MS 1000
#define CLEAN_LOAD 0.95

#define CHUNK_ATTEMPTS 256
#define NEVER_MS 1e15 /* a lease is kept as long as the call runs */

/* p99 by a histogram: every power of two of a ms has 128 bins, so a value is known to 0.8 %. */
#define BIN_BITS 7
#define BINS_FROM ((1023 - 10) << BIN_BITS) /* 2^-10 ms, by the bits of a double */
#define BINS (40 << BIN_BITS)

enum what { FIRST_BYTE, END, RETRY, CLIENT_TIMEOUT };

struct attempt {
    struct gate_run_call call;
    struct server_call served;
    uint64_t number; /* 0: unused */
    int retry;       /* 0: the first attempt */
    bool measured, clean;
    double service_part;              /* its service as a multiple of the mean of then */
    double arrived_ms, first_byte_ms; /* 0: it has not come */
    STAILQ_ENTRY(attempt) next_free;
};

struct chunk {
    struct chunk *next;
    struct attempt attempts[CHUNK_ATTEMPTS];
};

struct measures {
    double ideal, nominal_ideal;
    int64_t offered, good, finished;
    int64_t clean, clean_refused;
    int64_t offered_by[TG_PRIORITY_COUNT], admitted_by[TG_PRIORITY_COUNT];
    double limit_ms; /* integral of the limit over the measured time */
    uint32_t bins[BINS];
};

struct run {
    const struct scenario *scenario; /* `scaled` */
    struct scenario scaled;
    double deadline_ms, clean_after_ms;
    bool tell_deadline;
    double until_ms, from_ms;

    double now_ms;
    struct scenario_load load;
    double cap_per_s;
    double keeps, keeps_service_ms, keeps_delay_ms; /* F, and for which load it was computed */
    double loaded_ms;                               /* when the load was last near capacity */

    struct random arrivals, priorities, services, delays, retries;
    double arrival_ms;
    struct agenda agenda;
    struct server server;
    struct gate_run gate;

    STAILQ_HEAD(, attempt) free;
    struct chunk *chunks;
    uint64_t attempts;
    enum tg_err err;

    double limit_at_ms;
    int64_t limit;
    int64_t events;
    struct measures measures;
};

/* ---- Attempts -------------------------------------------------------------------------------- */

static struct attempt *attempt_new(struct run *run)
{
    struct attempt *attempt = STAILQ_FIRST(&run->free);

    if (attempt == NULL) {
        struct chunk *chunk = calloc(1, sizeof *chunk);
        if (chunk == NULL)
            return NULL;
        chunk->next = run->chunks;
        run->chunks = chunk;
        for (size_t i = 0; i < CHUNK_ATTEMPTS; i++)
            STAILQ_INSERT_TAIL(&run->free, &chunk->attempts[i], next_free);
        attempt = STAILQ_FIRST(&run->free);
    }
    STAILQ_REMOVE_HEAD(&run->free, next_free);
    attempt->number = ++run->attempts;
    return attempt;
}

static void attempt_free(struct run *run, struct attempt *attempt)
{
    assert(attempt->number != 0);
    attempt->number = 0;
    /* At the head: the next one finds it in the cache. */
    STAILQ_INSERT_HEAD(&run->free, attempt, next_free);
}

static void schedule(struct run *run, double at, enum what what, struct attempt *attempt,
                     uint64_t number)
{
    if (!agenda_add(&run->agenda, at, attempt, number << 2 | (uint64_t)what))
        run->err = TG_ERR_MEMORY;
}

/* ---- Measures -------------------------------------------------------------------------------- */

static void update_load(struct run *run)
{
    run->load = scenario_load_at(run->scenario, run->now_ms);
    run->cap_per_s = run->load.workers / run->load.service_ms * 1000;
    run->server.workers = run->load.workers;
    if (run->load.arrivals_per_s >= CLEAN_LOAD * run->cap_per_s)
        run->loaded_ms = run->now_ms;
}

static bool same(double a, double b)
{
    return a <= b && a >= b;
}

static void measure_arrival(struct run *run, struct attempt *attempt)
{
    struct measures *measures = &run->measures;
    double rate = run->load.arrivals_per_s, cap = run->cap_per_s;
    double best = (cap - SCENARIO_REJECT_COST * rate) / (1 - SCENARIO_REJECT_COST);

    if (!same(run->keeps_service_ms, run->load.service_ms) ||
        !same(run->keeps_delay_ms, run->load.delay_ms)) {
        run->keeps = scenario_keeps(run->scenario, &run->load, run->deadline_ms);
        run->keeps_service_ms = run->load.service_ms;
        run->keeps_delay_ms = run->load.delay_ms;
    }
    attempt->measured = true;
    attempt->clean = run->now_ms - run->loaded_ms >= run->clean_after_ms;
    measures->offered++;
    measures->offered_by[attempt->call.call.priority]++;
    measures->clean += attempt->clean;
    measures->ideal += run->keeps * (rate <= cap ? 1 : best / rate);
    measures->nominal_ideal += rate <= cap ? 1 : cap / rate;
}

static void measure_time(struct run *run, double took_ms)
{
    uint64_t bits;

    memcpy(&bits, &took_ms, sizeof bits);
    int64_t bin = (int64_t)(bits >> (52 - BIN_BITS)) - BINS_FROM;
    run->measures.bins[bin < 0 ? 0 : bin >= BINS ? BINS - 1 : bin]++;
}

/* The value that a bin begins with. */
static double bin_ms(int64_t bin)
{
    uint64_t bits = (uint64_t)(bin + BINS_FROM) << (52 - BIN_BITS);
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static double find_p99(const struct measures *measures)
{
    int64_t rank = (int64_t)(0.99 * (double)measures->finished), below = 0;

    for (int64_t bin = 0; bin < BINS; bin++) {
        below += measures->bins[bin];
        if (below > rank)
            return (bin_ms(bin) + bin_ms(bin + 1)) / 2;
    }
    return NAN;
}

static void measure_limit(struct run *run)
{
    struct tg_law_metrics law;

    if (run->now_ms > run->from_ms)
        run->measures.limit_ms +=
            (double)run->limit * (run->now_ms - fmax(run->from_ms, run->limit_at_ms));
    run->limit_at_ms = run->now_ms;
    tg_gate_get_law(run->gate.gate, &law);
    run->limit = law.limit;
}

/* ---- A call's way ---------------------------------------------------------------------------- */

static tg_ms clock_ms(double ms)
{
    return num_floor(ms);
}

static void retry(struct run *run, const struct attempt *attempt, double pause_ms)
{
    assert(attempt->retry < run->scenario->retries);
    schedule(run, run->now_ms + pause_ms, RETRY, NULL, (uint64_t)attempt->retry + 1);
}

static void refuse(struct run *run, struct attempt *attempt)
{
    const struct scenario *scenario = run->scenario;
    double pause = scenario->backoff_ms * (double)(UINT64_C(1) << attempt->retry);

    server_add_work(&run->server, SCENARIO_REJECT_COST * run->load.service_ms);
    if (attempt->measured && attempt->clean)
        run->measures.clean_refused++;
    if (attempt->retry < scenario->retries)
        retry(run, attempt,
              scenario->backoff_ms > 0 ? pause * random_between(&run->retries, 0.5, 1.5) : 0);
    attempt_free(run, attempt);
}

static void enter(struct run *run, struct attempt *attempt)
{
    double late_ms = attempt->arrived_ms + run->deadline_ms;

    attempt->served.service_ms = attempt->service_part * run->load.service_ms;
    if (attempt->measured)
        run->measures.admitted_by[attempt->call.call.priority]++;
    if (attempt->retry < run->scenario->retries)
        schedule(run, fmax(late_ms, run->now_ms), CLIENT_TIMEOUT, attempt, attempt->number);
    server_enter(&run->server, &attempt->served);
}

/* The gate's answer, at once or after a wait. */
static void decided(void *context, struct gate_run_call *call, enum tg_err err,
                    const struct tg_answer *answer, tg_ms at)
{
    struct run *run = context;
    struct attempt *attempt = container_of(call, struct attempt, call);

    (void)at;
    if (err) {
        run->err = err;
        attempt_free(run, attempt);
    } else if (answer->decision.allowed) {
        enter(run, attempt);
    } else {
        refuse(run, attempt);
    }
}

static double draw_service(const struct scenario *scenario, struct random *random)
{
    const struct scenario_kind *kind = &scenario->kinds[0];

    if (kind->part < 1 && random_unit(random) >= kind->part)
        kind++;
    double variance = log(1 + kind->cv * kind->cv);
    return kind->factor * exp(sqrt(variance) * random_normal(random) - variance / 2);
}

static enum tg_priority draw_priority(struct run *run)
{
    const struct scenario *scenario = run->scenario;

    if (scenario->high <= 0 && scenario->low <= 0)
        return TG_PRIORITY_NORMAL;
    double draw = random_unit(&run->priorities);
    return draw < scenario->high                   ? TG_PRIORITY_HIGH
           : draw < scenario->high + scenario->low ? TG_PRIORITY_LOW
                                                   : TG_PRIORITY_NORMAL;
}

static void try_call(struct run *run, int number_of_retry)
{
    struct attempt *attempt = attempt_new(run);

    if (attempt == NULL) {
        run->err = TG_ERR_MEMORY;
        return;
    }
    attempt->retry = number_of_retry;
    attempt->arrived_ms = run->now_ms;
    attempt->measured = attempt->clean = false;
    attempt->first_byte_ms = 0;
    tg_call_init(&attempt->call.call);
    if (number_of_retry == 0) {
        attempt->service_part = draw_service(run->scenario, &run->services);
        attempt->call.call.priority = draw_priority(run);
        if (run->now_ms > run->from_ms)
            measure_arrival(run, attempt);
    } else {
        attempt->service_part = draw_service(run->scenario, &run->retries);
    }
    if (run->tell_deadline)
        attempt->call.call.deadline = clock_ms(run->now_ms + run->deadline_ms);
    gate_run_admit(&run->gate, &attempt->call, clock_ms(run->now_ms));
}

static void run_arrive(struct run *run)
{
    run->arrival_ms =
        run->now_ms + random_exponential(&run->arrivals, 1000 / run->load.arrivals_per_s);
    try_call(run, 0);
}

static void finish(struct run *run, struct attempt *attempt)
{
    bool stream = run->scenario->first_byte_ms > 0;
    double took_ms = (stream ? attempt->first_byte_ms : run->now_ms) - attempt->arrived_ms;
    struct tg_release release;

    if (run->now_ms > run->from_ms) {
        run->measures.finished++;
        run->measures.good += took_ms <= run->deadline_ms;
        measure_time(run, took_ms);
    }
    tg_release_init(&release);
    tg_lease lease = attempt->call.lease;
    attempt_free(run, attempt);
    gate_run_release(&run->gate, lease, clock_ms(run->now_ms), &release);
}

/* The server has begun with a stream. */
static void stream_started(void *context, struct server_call *served)
{
    struct run *run = context;
    struct attempt *attempt = container_of(served, struct attempt, served);

    schedule(run, run->now_ms + fmin(run->scenario->first_byte_ms, served->service_ms), FIRST_BYTE,
             attempt, attempt->number);
}

static void first_byte(struct run *run, struct attempt *attempt)
{
    assert(attempt->first_byte_ms <= 0);
    attempt->first_byte_ms = run->now_ms;
    gate_run_first_byte(&run->gate, attempt->call.lease, clock_ms(run->now_ms), -1);
}

static void end_service(struct run *run)
{
    struct server_call *served = server_end_service(&run->server);
    struct attempt *attempt = container_of(served, struct attempt, served);

    /* A stream may end with its first byte. */
    if (run->scenario->first_byte_ms > 0 && attempt->first_byte_ms <= 0)
        first_byte(run, attempt);
    if (run->load.delay_ms > 0)
        schedule(run, run->now_ms + random_exponential(&run->delays, run->load.delay_ms), END,
                 attempt, attempt->number);
    else
        finish(run, attempt);
}

static void do_item(struct run *run)
{
    struct agenda_item item = agenda_take(&run->agenda);
    struct attempt *attempt = item.what;
    uint64_t number = item.detail >> 2;

    switch ((enum what)(item.detail & 3)) {
    case FIRST_BYTE:
        if (attempt->number == number && attempt->first_byte_ms <= 0)
            first_byte(run, attempt);
        break;
    case END:
        finish(run, attempt);
        break;
    case RETRY:
        try_call(run, (int)number);
        break;
    case CLIENT_TIMEOUT:
        /* The client has its answer, or is late and asks again beside it. */
        if (attempt->number == number)
            retry(run, attempt, 0);
        break;
    }
}

/* ---- The run --------------------------------------------------------------------------------- */

static void set_time(struct run *run, double now_ms)
{
    assert(now_ms >= run->now_ms);
    server_advance(&run->server, now_ms);
    run->now_ms = now_ms;
    run->events++;
    update_load(run);
    if (now_ms >= run->limit_at_ms + 1)
        measure_limit(run);
}

/* Does what comes next. False: the run is over. */
static bool run_advance(struct run *run)
{
    double service_ms = server_next_ms(&run->server);
    double item_ms = run->agenda.n > 0 ? run->agenda.items[0].at : INFINITY;
    double next_ms = fmin(run->arrival_ms, fmin(service_ms, item_ms));
    tg_ms due = tg_gate_next_deadline(run->gate.gate);

    /* Who is granted a slot by the end of a wait may finish before anything else happens. */
    if (due < clock_ms(next_ms) && (double)due < run->until_ms) {
        set_time(run, fmax(run->now_ms, (double)due + 1));
        gate_run_advance(&run->gate, due + 1);
        return run->err == TG_OK;
    }
    if (next_ms > run->until_ms)
        return false;
    set_time(run, next_ms);
    if (service_ms <= next_ms)
        end_service(run);
    else if (item_ms <= next_ms)
        do_item(run);
    else
        run_arrive(run);
    if (run->server.out_of_memory)
        run->err = TG_ERR_MEMORY;
    return run->err == TG_OK;
}

static struct scenario_load scale_load(struct scenario_load load, double capacity, double time)
{
    load.workers *= capacity;
    load.arrivals_per_s *= capacity / time;
    load.service_ms *= time;
    load.delay_ms *= time;
    return load;
}

static struct scenario scale(const struct scenario *scenario, double capacity, double time)
{
    struct scenario scaled = *scenario;

    scaled.load = scale_load(scaled.load, capacity, time);
    scaled.change = scale_load(scaled.change, capacity, time);
    scaled.until_s *= time;
    scaled.measured_from_s *= time;
    scaled.change_from_s *= time;
    scaled.change_until_s *= time;
    scaled.period_s *= time;
    scaled.service_grows_ms *= time;
    scaled.first_byte_ms *= time;
    scaled.deadline_ms *= time;
    scaled.deadline_factor *= time;
    scaled.backoff_ms *= time;
    return scaled;
}

static enum tg_err run_init(struct run *run, const struct scenario *scenario,
                            const struct scenario_law *law, const struct scenario_options *options,
                            uint64_t seed, struct tg_problem *problem)
{
    struct tg_gate_config config;
    double time = options->scale_time > 0 ? options->scale_time : 1;

    *run = (struct run){
        .scenario = &run->scaled,
        .scaled = scale(scenario, options->scale_capacity > 0 ? options->scale_capacity : 1, time),
        .clean_after_ms = CLEAN_AFTER_MS * time,
        .tell_deadline = options->tell_deadline,
        .loaded_ms = -CLEAN_AFTER_MS * time,
    };
    scenario = &run->scaled;
    run->deadline_ms = scenario->deadline_ms > 0 ? scenario->deadline_ms
                                                 : scenario->deadline_factor * options->deadline_ms;
    run->until_ms = scenario->until_s * 1000;
    run->from_ms = scenario->measured_from_s * 1000;
    STAILQ_INIT(&run->free);
    random_init(&run->arrivals, seed, 1);
    random_init(&run->priorities, seed, 2);
    random_init(&run->services, seed, 3);
    random_init(&run->delays, seed, 4);
    random_init(&run->retries, seed, 5);
    server_init(&run->server, scenario->shared);
    if (scenario->first_byte_ms > 0)
        run->server.started = stream_started;
    run->server.context = run;
    update_load(run);
    tg_gate_config_init(&config);
    scenario_law_apply(law, &config);
    config.lease_ttl = (tg_ms)NEVER_MS;
    config.seed = seed;
    return gate_run_init(&run->gate, &config, decided, run, problem);
}

static void run_fini(struct run *run)
{
    gate_run_fini(&run->gate);
    server_fini(&run->server);
    agenda_fini(&run->agenda);
    for (struct chunk *chunk = run->chunks, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
}

enum tg_err scenario_run(const struct scenario *scenario, const struct scenario_law *law,
                         const struct scenario_options *options, uint64_t seed,
                         struct scenario_result *result, struct tg_problem *problem)
{
    struct run *run = malloc(sizeof *run);
    enum tg_err err = TG_ERR_MEMORY;

    if (run == NULL)
        return TG_ERR_MEMORY;
    err = run_init(run, scenario, law, options, seed, problem);
    while (!err && run_advance(run))
        continue;
    err = err ? err : run->err;
    if (!err) {
        const struct measures *measures = &run->measures;
        assert(run->gate.waiting >= 0 && measures->good <= measures->finished);
        *result = (struct scenario_result){
            .goodput = 100 * (double)measures->good / measures->ideal,
            .nominal = 100 * (double)measures->good / measures->nominal_ideal,
            .false_rejects = measures->clean > 0
                                 ? 100 * (double)measures->clean_refused / (double)measures->clean
                                 : 0,
            .p99_ms = find_p99(measures),
            .mean_limit = measures->limit_ms / (run->until_ms - run->from_ms),
            .offered = measures->offered,
            .good = measures->good,
            .events = run->events,
        };
        for (int i = 0; i < TG_PRIORITY_COUNT; i++)
            result->served[i] =
                measures->offered_by[i] > 0
                    ? 100 * (double)measures->admitted_by[i] / (double)measures->offered_by[i]
                    : NAN;
    }
    run_fini(run);
    free(run);
    return err;
}
