/* workload_requests.c - the requests of a run, and notes on them. See workload_requests.h. */
#include "lab/workload/workload_requests.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"

bool workload_init(struct workload *workload)
{
    *workload = (struct workload){.notes = NULL};
    return cluster_workload_init(&workload->load) == TG_OK &&
           cluster_names_init(&workload->users) && cluster_names_init(&workload->peers) &&
           cluster_names_init(&workload->ids);
}

void workload_fini(struct workload *workload)
{
    cluster_workload_fini(&workload->load);
    cluster_names_fini(&workload->users);
    cluster_names_fini(&workload->peers);
    cluster_names_fini(&workload->ids);
    free(workload->notes);
    *workload = (struct workload){.notes = NULL};
}

/* ---- Notes ----------------------------------------------------------------------------------- */

static void note_init(struct workload_note *note)
{
    *note = (struct workload_note){
        .cost = -1, .allowed = -1, .value = -1, .hold_s = -1, .priority = -1, .tenant_peer = true};
}

/* Gives a note to every request that has none yet. */
struct workload_note *workload_note_last(struct workload *workload)
{
    size_t n = workload->load.n, had = workload->notes_capacity;

    assert(n > 0);
    if (!array_reserve(&workload->notes, &workload->notes_capacity, n))
        return NULL;
    for (size_t i = had; i < workload->notes_capacity; i++)
        note_init(&workload->notes[i]);
    return &workload->notes[n - 1];
}

/* ---- Order ----------------------------------------------------------------------------------- */

struct place {
    int64_t arrival_us;
    size_t from;
};

static int by_arrival(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->arrival_us != y->arrival_us)
        return x->arrival_us < y->arrival_us ? -1 : 1;
    return (x->from > y->from) - (x->from < y->from);
}

static bool is_sorted(const struct cluster_workload *load)
{
    for (size_t i = 1; i < load->n; i++)
        if (load->requests[i].arrival_us < load->requests[i - 1].arrival_us)
            return false;
    return true;
}

/* Copies in the new order; the old ones are freed. Every request has its note by now. */
static bool rearrange(struct workload *workload, const struct place *places)
{
    struct cluster_workload *load = &workload->load;
    struct cluster_request *requests = malloc(load->capacity * sizeof *requests);
    struct workload_note *notes = NULL;

    if (workload->notes != NULL)
        notes = malloc(load->n * sizeof *notes);
    if (requests == NULL || (workload->notes != NULL && notes == NULL)) {
        free(requests);
        free(notes);
        return false;
    }
    for (size_t i = 0; i < load->n; i++) {
        requests[i] = load->requests[places[i].from];
        if (notes != NULL)
            notes[i] = workload->notes[places[i].from];
    }
    free(load->requests);
    free(workload->notes);
    load->requests = requests;
    workload->notes = notes;
    workload->notes_capacity = notes != NULL ? load->n : 0;
    assert(is_sorted(load));
    return true;
}

bool workload_sort(struct workload *workload)
{
    const struct cluster_workload *load = &workload->load;
    struct place *places;

    /* Where the last ones have the defaults, their notes may not be there yet. */
    if (workload->notes != NULL && load->n > 0 && workload_note_last(workload) == NULL)
        return false;
    if (is_sorted(load))
        return true;
    places = malloc(load->n * sizeof *places);
    if (places == NULL)
        return false;
    for (size_t i = 0; i < load->n; i++)
        places[i] = (struct place){load->requests[i].arrival_us, i};
    qsort(places, load->n, sizeof *places, by_arrival);
    bool done = rearrange(workload, places);
    free(places);
    return done;
}

void workload_cut(struct workload *workload, size_t n)
{
    if (workload->load.n > n)
        workload->load.n = n;
}

/* ---- What is asked about them ---------------------------------------------------------------- */

const char *workload_id(const struct workload *workload, size_t i, char room[WORKLOAD_ID_MAX])
{
    const struct workload_note *note = workload_note_of(workload, i);

    assert(i < workload->load.n && (note == NULL || note->id < workload->ids.n));
    if (note != NULL && note->id != 0)
        return workload->ids.texts[note->id];
    snprintf(room, WORKLOAD_ID_MAX, "request_%lu", (unsigned long)workload->load.requests[i].id);
    return room;
}

double workload_mean_input(const struct workload *workload)
{
    double sum = 0;

    for (size_t i = 0; i < workload->load.n; i++)
        sum += workload->load.requests[i].input_tokens;
    return workload->load.n > 0 ? sum / (double)workload->load.n : 0;
}
