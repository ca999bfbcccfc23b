/* gate_load.c - load on a gate in virtual time. See gate_load.h. */
#include "gate_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "lib/admission/gate.h"

struct load_call {
    struct tg_call call;
    struct load_source *source;
    tg_lease lease;
    tg_ms came_at, started_at, ends_at;
    double service_ms;
    bool counts;
    bool is_queued;
    struct load_call *next; /* woken, or free */
};

struct load {
    struct tg_gate *gate;
    void **woken;
    struct draw draw;
    struct load_call *free;
    struct load_call **running; /* a heap by ends_at */
    size_t n_running, capacity;
    tg_ms warm;
};

void load_wake(void *context, void *waiter)
{
    void **woken = context;
    struct load_call *call = waiter;

    call->next = *woken;
    *woken = call;
}

static double exponential(struct draw *draw)
{
    return -log(1 - draw_unit(draw));
}

static double service_of(struct draw *draw, const struct load_source *source)
{
    static const double SIGMA = 0.995; /* cv 1.3 */
    double normal = sqrt(2 * exponential(draw)) * cos(6.283185307179586 * draw_unit(draw));

    switch (source->times) {
    case LOAD_EXPONENTIAL:
        return source->mean_ms * exponential(draw);
    case LOAD_LOGNORMAL:
        return source->mean_ms * exp(SIGMA * normal - SIGMA * SIGMA / 2);
    default:
        return source->mean_ms;
    }
}

/* ---- calls that run ---- */

static bool ends_before(const struct load_call *a, const struct load_call *b)
{
    return a->ends_at < b->ends_at;
}

static void run_call(struct load *load, struct load_call *call)
{
    if (load->n_running == load->capacity) {
        load->capacity = load->capacity ? 2 * load->capacity : 64;
        load->running = realloc(load->running, load->capacity * sizeof *load->running);
        assert_non_null(load->running);
    }
    size_t place = load->n_running++;
    for (; place > 0 && ends_before(call, load->running[(place - 1) / 2]); place = (place - 1) / 2)
        load->running[place] = load->running[(place - 1) / 2];
    load->running[place] = call;
}

static struct load_call *next_to_end(struct load *load)
{
    struct load_call *first = load->running[0], *last = load->running[--load->n_running];
    size_t place = 0;

    for (size_t child; (child = 2 * place + 1) < load->n_running; place = child) {
        child += child + 1 < load->n_running &&
                 ends_before(load->running[child + 1], load->running[child]);
        if (!ends_before(load->running[child], last))
            break;
        load->running[place] = load->running[child];
    }
    load->running[place] = last;
    return first;
}

/* ---- the way of a call ---- */

static void call_over(struct load *load, struct load_call *call)
{
    call->next = load->free;
    load->free = call;
}

static void decided(struct load *load, struct load_call *call, const struct tg_answer *answer,
                    tg_ms now)
{
    struct load_source *source = call->source;

    if (!answer->decision.allowed) {
        source->at_the_door += call->counts && !call->is_queued;
        source->in_vain += call->counts && call->is_queued;
        call_over(load, call);
        return;
    }
    if (call->counts) {
        source->admitted++;
        source->waited_ms += (double)(now - call->came_at);
        if (now - call->came_at > source->most_waited_ms)
            source->most_waited_ms = now - call->came_at;
    }
    call->lease = answer->lease;
    call->started_at = now;
    call->ends_at = now + (tg_ms)llround(call->service_ms);
    run_call(load, call);
}

static void resume_woken(struct load *load, tg_ms now)
{
    struct load_call *in_order = NULL;

    for (struct load_call *call; (call = *load->woken) != NULL;) { /* the first one first */
        *load->woken = call->next;
        call->next = in_order;
        in_order = call;
    }
    while (in_order) {
        struct load_call *call = in_order;
        struct tg_answer answer;
        in_order = call->next;
        assert_int_equal(tg_gate_resume(load->gate, call->lease, &call->call, now, &answer), TG_OK);
        assert_int_equal(answer.step, TG_DECIDED);
        decided(load, call, &answer, now);
    }
}

static void arrive(struct load *load, struct load_source *source, tg_ms now)
{
    struct load_call *call = load->free;
    struct tg_answer answer;

    if (call)
        load->free = call->next;
    else
        call = malloc(sizeof *call);
    assert_non_null(call);
    memset(call, 0, sizeof *call);
    tg_call_init(&call->call);
    call->source = source;
    call->came_at = now;
    call->service_ms = service_of(&load->draw, source);
    call->counts = now >= load->warm;
    call->call.priority = source->priority;
    call->call.tenant = source->tenant;
    call->call.tenant_bytes = source->tenant ? strlen(source->tenant) : 0;
    call->call.weight = source->weight > 0 ? source->weight : 1;
    call->call.waiter = call;
    if (source->own_deadline > 0)
        call->call.deadline = now + source->own_deadline;
    call->call.work = llround(source->work_per_ms * source->mean_ms);
    source->offered += call->counts;
    assert_int_equal(tg_gate_admit(load->gate, &call->call, 0, now, &answer), TG_OK);
    call->lease = answer.lease;
    call->is_queued = answer.step == TG_WAITING;
    if (!call->is_queued)
        decided(load, call, &answer, now);
}

static void end_call(struct load *load, tg_ms now)
{
    struct load_call *call = next_to_end(load);
    struct tg_release release;

    tg_release_init(&release);
    if (call->source->work_per_ms > 0)
        release.work = llround(call->source->work_per_ms * call->service_ms);
    if (now >= load->warm)
        call->source->slot_ms +=
            (double)(now - (call->started_at > load->warm ? call->started_at : load->warm));
    assert_true(tg_gate_release(load->gate, call->lease, now, &release));
    call_over(load, call);
}

/* The next call of a source, which may be silent for a while. */
static void plan_arrival(struct load *load, struct load_source *source)
{
    source->next_at += 1000 / source->per_s * exponential(&load->draw);
    if (source->on_ms > 0) {
        double period = (double)(source->on_ms + source->off_ms);
        double phase = fmod(source->next_at, period);
        if (phase >= (double)source->on_ms)
            source->next_at += period - phase;
    }
}

static struct load_source *first_source(struct load_source *sources, size_t n)
{
    struct load_source *first = &sources[0];

    for (size_t i = 1; i < n; i++)
        if (sources[i].next_at < first->next_at)
            first = &sources[i];
    return first;
}

void load_run_gate(struct tg_gate *gate, void **woken, struct load_source *sources, size_t n,
                   uint64_t seed, tg_ms warm, tg_ms until)
{
    struct load load = {.gate = gate, .woken = woken, .draw = draw_stream(seed, 1), .warm = warm};
    struct tg_gate_stats stats;
    int64_t events = 0;

    for (size_t i = 0; i < n; i++)
        plan_arrival(&load, &sources[i]);
    for (;;) {
        struct load_source *source = first_source(sources, n);
        tg_ms arrives = (tg_ms)source->next_at;
        tg_ms ends = load.n_running > 0 ? load.running[0]->ends_at : INT64_MAX;
        tg_ms due = tg_gate_next_deadline(gate);
        if (arrives >= until)
            arrives = INT64_MAX;
        if (arrives == INT64_MAX && load.n_running == 0)
            break;
        if (due <= arrives && due <= ends) {
            tg_gate_tick(gate, due);
            resume_woken(&load, due);
        } else if (ends <= arrives) {
            end_call(&load, ends);
            resume_woken(&load, ends);
        } else {
            plan_arrival(&load, source);
            arrive(&load, source, arrives);
            resume_woken(&load, arrives);
        }
        if (events++ % 97 == 0)
            gate_assert_books(gate);
    }
    tg_gate_get_stats(gate, &stats);
    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.leases, 0);
    gate_assert_books(gate);
    for (struct load_call *call; (call = load.free) != NULL;) {
        load.free = call->next;
        free(call);
    }
    free(load.running);
}

void load_run(struct tg_gate_config *config, struct load_source *sources, size_t n, uint64_t seed,
              tg_ms warm, tg_ms until)
{
    void *woken = NULL;
    struct tg_gate *gate;

    config->wake = load_wake;
    config->context = &woken;
    assert_int_equal(tg_gate_new(config, &gate, NULL), TG_OK);
    load_run_gate(gate, &woken, sources, n, seed, warm, until);
    tg_gate_free(gate);
}
