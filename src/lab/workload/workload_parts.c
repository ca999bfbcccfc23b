/* workload_parts.c - reading the parts of a workload file: lengths, arrivals, times of activity. */
#include "lab/workload/workload_internal.h"

#include <math.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define HOUR_US INT64_C(3600000000)
#define DRAIN_STEPS 10

static const char no_shape[] = "give 'cv' in place of shape and scale";

void *spec_get(struct spec_reading *reading, size_t bytes)
{
    void *memory = arena_alloc(reading->spec->arena, bytes);

    if (memory == NULL)
        yaml_wrong(reading->problem, NULL, "cannot be read: out of memory");
    return memory;
}

/* ---- Distributions --------------------------------------------------------------------------- */

static int by_length(const void *a, const void *b)
{
    const struct length_bin *x = a, *y = b;

    return (x->tokens > y->tokens) - (x->tokens < y->tokens);
}

static bool read_bin(struct spec_reading *reading, const struct yaml_node *node,
                     struct length_bin *bin)
{
    double tokens, weight;

    if (!yaml_read_real(node->key, &tokens) || tokens < 1 || tokens > (double)LENGTH_MAX ||
        tokens != floor(tokens))
        return yaml_wrong(reading->problem, node->key,
                          "a length must be a whole number of tokens from 1 to %lld",
                          (long long)LENGTH_MAX);
    if (!yaml_read_real(node, &weight) || weight < 0)
        return yaml_wrong(reading->problem, node, "a probability must be a number from 0 on");
    bin->tokens = (int64_t)tokens;
    bin->until = weight;
    return true;
}

/* A map of length to probability; they need not add up to 1. */
static bool read_bins(struct spec_reading *reading, const struct yaml_node *params,
                      struct length_law *law)
{
    struct length_bin *bins = spec_get(reading, (params->n + 1) * sizeof *bins);
    double sum = 0, until = 0;
    size_t n = 0;

    if (bins == NULL)
        return false;
    for (const struct yaml_node *node = params->first; node != NULL; node = node->next) {
        if (!read_bin(reading, node, &bins[n]))
            return false;
        sum += bins[n].until;
        n += bins[n].until > 0;
    }
    if (!(sum > 0 && isfinite(sum)))
        return yaml_wrong(reading->problem, params,
                          "an empirical distribution needs lengths with probabilities above 0");
    qsort(bins, n, sizeof *bins, by_length);
    for (size_t i = 0; i < n; i++)
        bins[i].until = until += bins[i].until / sum;
    bins[n - 1].until = 1;
    law->bins = bins;
    law->n_bins = n;
    return true;
}

/* The parameters of each kind, those that are needed first. */
static bool read_params(struct spec_reading *reading, const struct yaml_node *params,
                        struct length_law *law)
{
    struct yaml_field low = YAML_REAL_AT("min", &law->min, 0, 0);
    struct yaml_field high = YAML_ABOVE_AT("max", &law->max, 0, 0);
    struct yaml_field mean = YAML_NEED_REAL("mean", &law->mean, 0, 0);
    struct yaml_field mu = YAML_NEED_ANY("mu", &law->mu);
    struct yaml_field sigma = YAML_NEED_REAL("sigma", &law->sigma, 0, 0);
    const struct yaml_field constant[] = {YAML_NEED_REAL("value", &law->value, 0, 0)};
    const struct yaml_field gaussian[] = {
        mean,
        YAML_NEED_REAL("std_dev", &law->std_dev, 0, 0),
        low,
        high,
    };
    const struct yaml_field exponential[] = {mean, low, high};
    const struct yaml_field lognormal[] = {mu, sigma, low, high};
    const struct yaml_field pareto[] = {
        YAML_NEED_ABOVE("alpha", &law->alpha, 0, 0),
        YAML_NEED_ABOVE("xm", &law->xm, 0, 0),
        mu,
        sigma,
        YAML_NEED_REAL("mix_weight", &law->mix_weight, 0, 1),
        low,
        high,
    };
    const struct {
        const char *what;
        const struct yaml_field *fields;
        size_t n;
    } kinds[LENGTH_KINDS] = {
        {"a constant distribution", constant, COUNT(constant)},
        {"a gaussian distribution", gaussian, COUNT(gaussian)},
        {"an exponential distribution", exponential, COUNT(exponential)},
        {"a lognormal distribution", lognormal, COUNT(lognormal)},
        {"a pareto_lognormal distribution", pareto, COUNT(pareto)},
        {NULL, NULL, 0},
    };

    if (law->kind == LENGTH_EMPIRICAL)
        return params->kind == YAML_MAP
                   ? read_bins(reading, params, law)
                   : yaml_wrong(reading->problem, params, "'params' must be a map");
    if (!yaml_fields_read(params, kinds[law->kind].what, kinds[law->kind].fields,
                          kinds[law->kind].n, reading->problem))
        return false;
    if (law->min > law->max)
        return yaml_wrong(reading->problem, params, "'min' is above 'max'");
    return true;
}

bool spec_read_length(struct spec_reading *reading, const struct yaml_node *map, const char *name,
                      struct length_law *law)
{
    const struct yaml_node *type = NULL, *params = NULL;
    const struct yaml_field fields[] = {
        YAML_NEED_NODE("type", &type),
        YAML_NEED_NODE("params", &params),
        YAML_NOT_TAKEN("file", "write the distribution as params"),
    };
    int kind = 0;

    *law = (struct length_law){.min = 1, .max = (double)LENGTH_MAX};
    if (!yaml_fields_read(map, name, fields, COUNT(fields), reading->problem) ||
        !yaml_read_word(type, "distribution", length_kind_names, LENGTH_KINDS, &kind,
                        reading->problem))
        return false;
    law->kind = (enum length_kind)kind;
    return read_params(reading, params, law);
}

/* ---- Arrivals -------------------------------------------------------------------------------- */

bool spec_read_arrival(struct spec_reading *reading, const struct yaml_node *map,
                       struct workload_client *client)
{
    const struct yaml_node *process = NULL;
    const struct yaml_field fields[] = {
        YAML_NEED_NODE("process", &process),
        YAML_ABOVE_AT("cv", &client->cv, 0, 0),
        YAML_NOT_TAKEN("shape", no_shape),
        YAML_NOT_TAKEN("scale", no_shape),
    };
    int kind = 0;

    if (!yaml_fields_read(map, "arrival", fields, COUNT(fields), reading->problem) ||
        !yaml_read_word(process, "arrival process", gap_kind_names, GAP_KINDS, &kind,
                        reading->problem))
        return false;
    client->gap = (enum gap_kind)kind;
    if (client->gap == GAP_WEIBULL &&
        (client->cv < GAP_WEIBULL_CV_MIN || client->cv > GAP_WEIBULL_CV_MAX))
        return yaml_wrong(reading->problem, map, "'cv' of weibull must be from %g to %g",
                          GAP_WEIBULL_CV_MIN, GAP_WEIBULL_CV_MAX);
    return true;
}

static bool read_window(struct spec_reading *reading, const struct yaml_node *map,
                        struct workload_window *window)
{
    const struct yaml_field fields[] = {
        YAML_NEED_WHOLE("start_us", &window->start_us, 0, TIME_MAX_US),
        YAML_NEED_WHOLE("end_us", &window->end_us, 0, TIME_MAX_US),
    };

    if (!yaml_fields_read(map, "a window", fields, COUNT(fields), reading->problem))
        return false;
    if (window->end_us <= window->start_us)
        return yaml_wrong(reading->problem, map, "a window must end after its start");
    return true;
}

bool spec_read_lifecycle(struct spec_reading *reading, const struct yaml_node *map,
                         struct workload_client *client)
{
    const struct yaml_node *list = NULL;
    const struct yaml_field fields[] = {YAML_NEED_NODE("windows", &list)};
    size_t n = 0;

    if (!yaml_fields_read(map, "lifecycle", fields, 1, reading->problem))
        return false;
    if (list->kind != YAML_LIST)
        return yaml_wrong(reading->problem, list, "'windows' must be a list");
    struct workload_window *windows = spec_get(reading, (list->n + 1) * sizeof *windows);
    if (windows == NULL)
        return false;
    for (const struct yaml_node *node = list->first; node != NULL; node = node->next)
        if (!read_window(reading, node, &windows[n++]))
            return false;
    client->windows = windows;
    client->n_windows = n;
    return true;
}

/* ---- Rhythms --------------------------------------------------------------------------------- */

#define COHORT_WINDOWS_MAX (24 + 1 + 1 + DRAIN_STEPS)

/* A client cannot send at half its rate; it is active for half of each hour. */
static bool read_diurnal(struct spec_reading *reading, const struct yaml_node *map,
                         struct workload_window *windows, size_t *n)
{
    int64_t peak = 0;
    double ratio = 1;
    const struct yaml_field fields[] = {
        YAML_NEED_WHOLE("peak_hour", &peak, 0, 23),
        YAML_NEED_REAL("peak_to_trough_ratio", &ratio, 1, 1e9),
    };

    if (!yaml_fields_read(map, "diurnal", fields, COUNT(fields), reading->problem))
        return false;
    for (int64_t hour = 0; hour < 24; hour++) {
        double angle = 2 * acos(-1) * (double)(hour - peak) / 24;
        double part = (1 + cos(angle)) / 2 * (1 - 1 / ratio) + 1 / ratio;
        int64_t active = (int64_t)(part * (double)HOUR_US);
        active = active < 1 ? 1 : active > HOUR_US ? HOUR_US : active;
        windows[(*n)++] = (struct workload_window){hour * HOUR_US, hour * HOUR_US + active};
    }
    return true;
}

static bool read_spike(struct spec_reading *reading, const struct yaml_node *map,
                       struct workload_window *windows, size_t *n)
{
    int64_t start = 0, duration = 0;
    const struct yaml_field fields[] = {
        YAML_NEED_WHOLE("start_time_us", &start, 0, TIME_MAX_US),
        {"duration_us", YAML_FIELD_WHOLE, &duration, 0, TIME_MAX_US, true, false, true, NULL},
    };

    if (!yaml_fields_read(map, "spike", fields, COUNT(fields), reading->problem))
        return false;
    windows[(*n)++] = (struct workload_window){start, start + duration};
    return true;
}

/* Down to nothing in ten steps, each with a smaller active part. */
static bool read_drain(struct spec_reading *reading, const struct yaml_node *map,
                       struct workload_window *windows, size_t *n)
{
    int64_t start = 0, ramp = 0;
    const struct yaml_field fields[] = {
        YAML_NEED_WHOLE("start_time_us", &start, 0, TIME_MAX_US),
        {"ramp_duration_us", YAML_FIELD_WHOLE, &ramp, 0, TIME_MAX_US, true, false, true, NULL},
    };

    if (!yaml_fields_read(map, "drain", fields, COUNT(fields), reading->problem))
        return false;
    if (start > 0)
        windows[(*n)++] = (struct workload_window){0, start};
    int64_t step = ramp / DRAIN_STEPS > 0 ? ramp / DRAIN_STEPS : 1;
    for (int64_t i = 0; i < DRAIN_STEPS; i++) {
        int64_t active = step * (DRAIN_STEPS - i) / DRAIN_STEPS;
        int64_t begins = start + i * step;
        windows[(*n)++] = (struct workload_window){begins, begins + (active > 0 ? active : 1)};
    }
    return true;
}

bool spec_read_rhythm(struct spec_reading *reading, const struct spec_rhythm *rhythm,
                      struct workload_client *client)
{
    struct workload_window *windows = spec_get(reading, COHORT_WINDOWS_MAX * sizeof *windows);

    if (windows == NULL)
        return false;
    client->windows = windows;
    return (rhythm->diurnal == NULL ||
            read_diurnal(reading, rhythm->diurnal, windows, &client->n_windows)) &&
           (rhythm->spike == NULL ||
            read_spike(reading, rhythm->spike, windows, &client->n_windows)) &&
           (rhythm->drain == NULL ||
            read_drain(reading, rhythm->drain, windows, &client->n_windows));
}
