/* fuzz_sim_trace.c - any bytes as a load of the simulator: requests in order, or a message.
 *
 * The first byte says what the rest is: a trace, CSV or JSON lines as it turns out, or the
 * description of a workload. A trace is read twice and must say the same; of a description that is
 * taken, some requests are made.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "insist.h"
#include "lab/workload/workload_make.h"
#include "lab/workload/workload_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A pipe takes as much without anybody reading it. */
#define TRACE_BYTES_MAX 60000

static void check_requests(const struct cluster_config *config, const struct workload *workload)
{
    const struct cluster_workload *load = &workload->load;
    char id[WORKLOAD_ID_MAX];

    insist(config->n_classes <= CLUSTER_CLASSES_MAX);
    for (size_t i = 0; i < load->n; i++) {
        const struct cluster_request *request = &load->requests[i];
        const struct workload_note *note = workload_note_of(workload, i);
        insist(request->arrival_us >= 0 && request->deadline_us >= 0);
        insist(i == 0 || request->arrival_us >= load->requests[i - 1].arrival_us);
        insist(request->input_tokens >= 0 && request->output_tokens >= 0);
        insist(request->prefix_tokens >= 0 && request->prefix_tokens <= request->input_tokens);
        insist(request->slo_class < config->n_classes && request->tenant < load->tenants.n);
        insist(request->model < load->models.n && request->prefix_group < load->groups.n);
        insist(note == NULL || (note->cost >= -1 && note->user < workload->users.n &&
                                note->peer < workload->peers.n && note->id < workload->ids.n));
        insist(workload_id(workload, i, id)[0] != '\0' || note != NULL);
    }
}

static enum workload_read read_once(const uint8_t *data, size_t size, struct cluster_config *config,
                                    struct workload *workload, struct workload_problem *problem)
{
    int ends[2];

    cluster_config_init(config);
    insist(workload_init(workload) && pipe(ends) == 0);
    insist(write(ends[1], data, size) == (ssize_t)size);
    close(ends[1]);
    enum workload_read read = workload_trace_read(ends[0], config, workload, problem);
    close(ends[0]);
    return read;
}

static void try_trace(const uint8_t *data, size_t size)
{
    struct cluster_config configs[2];
    struct workload workloads[2];
    struct workload_problem problems[2];
    enum workload_read first = read_once(data, size, &configs[0], &workloads[0], &problems[0]);
    enum workload_read second = read_once(data, size, &configs[1], &workloads[1], &problems[1]);

    insist(first == second);
    if (first == WORKLOAD_READ) {
        insist(workloads[0].load.n > 0 && workloads[0].load.n == workloads[1].load.n);
        check_requests(&configs[0], &workloads[0]);
        insist(memcmp(workloads[0].load.requests, workloads[1].load.requests,
                      workloads[0].load.n * sizeof workloads[0].load.requests[0]) == 0);
    } else {
        insist(problems[0].text[0] != '\0' && problems[0].line == problems[1].line);
        insist(strcmp(problems[0].text, problems[1].text) == 0);
    }
    workload_fini(&workloads[0]);
    workload_fini(&workloads[1]);
}

static void make_some(const struct workload_spec *spec)
{
    struct workload_making making = {1, 50, 10000000, 1000};
    struct cluster_config config;
    struct workload workload;
    struct tg_problem problem;

    cluster_config_init(&config);
    insist(workload_init(&workload));
    enum tg_err err = workload_make(spec, &making, &config, &workload, &problem);
    insist(err == TG_OK || (err == TG_ERR_INVALID && problem.text[0] != '\0'));
    insist(workload.load.n <= 50);
    check_requests(&config, &workload);
    workload_fini(&workload);
}

static void try_spec(const uint8_t *data, size_t size)
{
    char *exact = malloc(size + 1);
    struct workload_spec spec;
    struct yaml_problem problem;

    insist(exact != NULL);
    memcpy(exact, data, size);
    if (workload_spec_read(exact, size, &spec, &problem))
        make_some(&spec);
    else
        insist(problem.text[0] != '\0');
    workload_spec_free(&spec);
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > TRACE_BYTES_MAX)
        return 0;
    if (data[0] == 'y')
        try_spec(data + 1, size - 1);
    else
        try_trace(data + 1, size - 1);
    return 0;
}
