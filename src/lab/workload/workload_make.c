/* workload_make.c - the requests that a description of a workload stands for.
 *
 * Every client has a stream of chance of its own, so that its requests do not change when another
 * client is added. The clients wait in a heap for their next arrival: requests are made in the
 * order in which they arrive and as many as are wanted, rather than too many of each client, to be
 * sorted and mostly thrown away.
 */
#include "lab/workload/workload_make.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/container_of.h"
#include "lib/core/heap.h"
#include "lib/core/problem.h"

/* A client while it sends. */
struct sender {
    struct heap_node node;
    const struct workload_client *client;
    size_t number;
    int64_t next_us; /* its next arrival */
    struct random random;
    struct gap_law gap;
    uint32_t slo_class, tenant, group, name, model;
};

struct senders {
    struct sender *all;
    struct heap heap;
};

/* ---- Simple workloads ------------------------------------------------------------------------ */

static const struct {
    const char *name;
    struct workload_simple lengths;
} presets[] = {
    {"distribution", {0, 512, 256, 2, 7000, 512, 256, 2, 7000, 0}},
    {"chatbot", {0, 256, 100, 2, 800, 256, 100, 1, 1024, 0}},
    {"contentgen", {0, 1024, 150, 10, 2048, 1024, 200, 10, 2048, 0}},
    {"summarization", {0, 4096, 500, 100, 8192, 512, 150, 10, 2048, 0}},
    {"multidoc", {0, 10240, 1200, 500, 20480, 1536, 300, 50, 4096, 0}},
};

#define N_PRESETS (sizeof presets / sizeof presets[0])

const char *workload_preset_name(size_t i)
{
    return i < N_PRESETS ? presets[i].name : NULL;
}

bool workload_preset(const char *name, struct workload_simple *simple)
{
    for (size_t i = 0; i < N_PRESETS; i++)
        if (strcmp(presets[i].name, name) == 0) {
            double rate = simple->rate_per_s;
            *simple = presets[i].lengths;
            simple->rate_per_s = rate;
            return true;
        }
    return false;
}

static struct length_law gaussian(int64_t mean, int64_t deviation, int64_t min, int64_t max)
{
    return (struct length_law){.kind = LENGTH_GAUSSIAN,
                               .mean = (double)mean,
                               .std_dev = (double)deviation,
                               .min = (double)min,
                               .max = (double)max};
}

bool workload_simple_spec(const struct workload_simple *simple, struct workload_spec *spec)
{
    *spec = (struct workload_spec){.arena = arena_new(), .aggregate_rate = simple->rate_per_s};
    if (spec->arena != NULL)
        spec->clients = arena_alloc(spec->arena, sizeof *spec->clients);
    if (spec->clients == NULL)
        return false;
    spec->n_clients = 1;
    spec->clients[0] = (struct workload_client){
        .id = "distribution",
        .tenant = "",
        .slo_class = "",
        .model = "",
        .prefix_group = simple->prefix_tokens > 0 ? "shared" : "",
        .prefix_tokens = simple->prefix_tokens,
        .rate_fraction = 1,
        .timeout_us = -1,
        .gap = GAP_CONSTANT,
        .cv = 1,
        .input = gaussian(simple->prompt_mean, simple->prompt_deviation, simple->prompt_min,
                          simple->prompt_max),
        .output = gaussian(simple->output_mean, simple->output_deviation, simple->output_min,
                           simple->output_max),
    };
    return true;
}

/* ---- Arrivals -------------------------------------------------------------------------------- */

static bool sends_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct sender *x = container_of(a, const struct sender, node);
    const struct sender *y = container_of(b, const struct sender, node);

    return x->next_us != y->next_us ? x->next_us < y->next_us : x->number < y->number;
}

/* The window that `at` is in, else the next one to begin; null after the last. */
static const struct workload_window *window_at(const struct workload_client *client, int64_t at)
{
    const struct workload_window *next = NULL;

    for (size_t i = 0; i < client->n_windows; i++) {
        const struct workload_window *window = &client->windows[i];
        if (at >= window->start_us && at < window->end_us)
            return window;
        if (window->start_us > at && (next == NULL || window->start_us < next->start_us))
            next = window;
    }
    return next;
}

/* Finds the next arrival from `from` on; false if there is none before the horizon. What falls
 * between two windows is not sent, and the next window begins with a gap of its own: it would take
 * for ever to draw every arrival of a night in which nobody is there. */
static bool find_next(struct sender *sender, int64_t from, int64_t horizon_us)
{
    const struct workload_client *client = sender->client;

    for (;;) {
        int64_t gap = gap_draw(&sender->gap, &sender->random);
        if (gap >= horizon_us - from)
            return false;
        from += gap;
        assert(from < horizon_us);
        sender->next_us = from;
        if (client->n_windows == 0)
            return true;
        const struct workload_window *window = window_at(client, from);
        if (window == NULL)
            return false;
        if (from >= window->start_us)
            return true;
        from = window->start_us;
    }
}

static bool name_all(struct sender *sender, struct cluster_config *config,
                     struct cluster_workload *load)
{
    const struct workload_client *client = sender->client;

    return cluster_config_class(config, client->slo_class, strlen(client->slo_class),
                                &sender->slo_class) &&
           cluster_names_get(&load->tenants, client->tenant, strlen(client->tenant),
                             &sender->tenant) &&
           cluster_names_get(&load->groups, client->prefix_group, strlen(client->prefix_group),
                             &sender->group) &&
           cluster_names_get(&load->clients, client->id, strlen(client->id), &sender->name) &&
           cluster_names_get(&load->models, client->model, strlen(client->model), &sender->model);
}

static bool workload_make_begin(struct senders *senders, const struct workload_spec *spec,
                                const struct workload_making *making, struct cluster_config *config,
                                struct workload *workload)
{
    double *rates = malloc(spec->n_clients * sizeof *rates);

    senders->all = calloc(spec->n_clients, sizeof *senders->all);
    if (rates == NULL || senders->all == NULL) {
        free(rates);
        return false;
    }
    workload_spec_rates(spec, rates);
    bool done = true;
    for (size_t i = 0; i < spec->n_clients && done; i++) {
        struct sender *sender = &senders->all[i];
        if (!(rates[i] > 0))
            continue;
        sender->client = &spec->clients[i];
        sender->number = i;
        random_init(&sender->random, making->seed, i);
        gap_init(&sender->gap, sender->client->gap, sender->client->cv, rates[i]);
        done = name_all(sender, config, &workload->load);
        if (done && find_next(sender, 0, making->horizon_us))
            done = heap_add(&senders->heap, &sender->node);
    }
    free(rates);
    return done;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static bool add_request(struct sender *sender, const struct workload_making *making,
                        struct workload *workload)
{
    const struct workload_client *client = sender->client;
    struct cluster_request *request = cluster_workload_add(&workload->load);
    int64_t timeout = client->timeout_us >= 0 ? client->timeout_us : making->timeout_us;

    if (request == NULL)
        return false;
    int64_t input = length_draw(&client->input, &sender->random);
    int64_t output = length_draw(&client->output, &sender->random);
    assert(input + client->prefix_tokens <= 2 * LENGTH_MAX);
    assert(workload->load.n < 2 || request[-1].arrival_us <= sender->next_us);
    request->arrival_us = sender->next_us;
    request->deadline_us = timeout > 0 ? sender->next_us + timeout : 0;
    request->slo_target_us = client->slo_target_us;
    request->input_tokens = (int32_t)(input + client->prefix_tokens);
    request->output_tokens = (int32_t)output;
    request->max_output_tokens = (int32_t)output;
    request->prefix_tokens = (int32_t)client->prefix_tokens;
    request->slo_class = sender->slo_class;
    request->tenant = sender->tenant;
    request->prefix_group = sender->group;
    request->client = sender->name;
    request->model = sender->model;
    return true;
}

static bool send_all(struct senders *senders, const struct workload_making *making,
                     struct workload *workload)
{
    struct heap_node *first;
    int64_t wanted = making->num_requests > 0 ? making->num_requests : WORKLOAD_REQUESTS_MAX;

    while ((int64_t)workload->load.n < wanted && (first = heap_first(&senders->heap)) != NULL) {
        struct sender *sender = container_of(first, struct sender, node);
        if (!add_request(sender, making, workload))
            return false;
        if (find_next(sender, sender->next_us, making->horizon_us))
            heap_moved(&senders->heap, first);
        else
            heap_remove(&senders->heap, first);
    }
    return true;
}

/* Whether it ends, and whether all of it can be simulated. */
static enum tg_err workload_make_check(const struct workload_spec *spec,
                                       const struct workload_making *making,
                                       struct tg_problem *problem)
{
    for (size_t i = 0; i < spec->n_clients; i++)
        if (spec->clients[i].concurrency > 0) {
            return problem_say(
                problem, TG_ERR_INVALID,
                "client '%.40s' has 'concurrency': clients that wait for their answers are "
                "not simulated; give it a 'rate_fraction'",
                spec->clients[i].id);
        }
    if (making->num_requests == 0 && making->horizon_us == INT64_MAX) {
        return problem_say(problem, TG_ERR_INVALID,
                           "the workload has no end: give the number of requests or a horizon");
    }
    return TG_OK;
}

enum tg_err workload_make(const struct workload_spec *spec, const struct workload_making *making,
                          struct cluster_config *config, struct workload *workload,
                          struct tg_problem *problem)
{
    struct senders senders = {.all = NULL};
    struct workload_making own = *making;
    enum tg_err err = workload_make_check(spec, making, problem);

    if (err != TG_OK)
        return err;
    if (own.horizon_us > WORKLOAD_TIME_MAX)
        own.horizon_us = WORKLOAD_TIME_MAX;
    heap_init(&senders.heap, sends_before);
    bool done = workload_make_begin(&senders, spec, &own, config, workload) &&
                send_all(&senders, &own, workload);
    heap_fini(&senders.heap);
    free(senders.all);
    if (done)
        return TG_OK;
    return problem_say(problem, TG_ERR_MEMORY, "%s", tg_strerror(TG_ERR_MEMORY));
}
