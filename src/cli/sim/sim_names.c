/* sim_names.c - options of `tollgate sim` that are names. See sim_names.h. */
#include "cli/sim/sim_names.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sim/sim_settings.h"

/* ---- One name -------------------------------------------------------------------------------- */

/* Name number i of a kind; null beyond the last. */
typedef const char *name_at(size_t i);

static bool no_such(const struct command *command, const char *option, const char *text,
                    name_at *name)
{
    fprintf(stderr, "tollgate %s: %s: there is no '%s'; there are", command->name, option, text);
    for (size_t i = 0; name(i) != NULL; i++)
        fprintf(stderr, "%s %s", i > 0 ? "," : "", name(i));
    fputc('\n', stderr);
    return false;
}

/* Which name it is; -1 after saying what there is. */
static int sim_names_find(const struct command *command, const char *option, const char *text,
                          name_at *name)
{
    for (int i = 0; name((size_t)i) != NULL; i++)
        if (strcmp(name((size_t)i), text) == 0)
            return i;
    no_such(command, option, text, name);
    return -1;
}

static const char *model_at(size_t i)
{
    size_t n;
    const struct cluster_model *models = cluster_model_list(&n);

    return i < n ? models[i].name : NULL;
}

static const char *hardware_at(size_t i)
{
    size_t n;
    const struct cluster_hardware *hardware = cluster_hardware_list(&n);

    return i < n ? hardware[i].name : NULL;
}

static const char *latency_at(size_t i)
{
    return i < CLUSTER_LATENCY_COUNT ? cluster_latency_name((enum cluster_latency)i) : NULL;
}

static const char *scheduler_at(size_t i)
{
    return i < CLUSTER_SCHEDULER_COUNT ? cluster_scheduler_name((enum cluster_scheduler)i) : NULL;
}

static const char *preemption_at(size_t i)
{
    return i < CLUSTER_PREEMPTION_COUNT ? cluster_preemption_name((enum cluster_preemption)i)
                                        : NULL;
}

static const char *routing_at(size_t i)
{
    return i < CLUSTER_ROUTING_COUNT ? cluster_routing_name((enum cluster_routing)i) : NULL;
}

static const char *scorer_at(size_t i)
{
    return i < CLUSTER_SCORER_COUNT ? cluster_scorer_name((enum cluster_scorer)i) : NULL;
}

static const char *admission_at(size_t i)
{
    return i < CLUSTER_ADMISSION_COUNT ? cluster_admission_name((enum cluster_admission)i) : NULL;
}

static const char *detector_at(size_t i)
{
    return i < CLUSTER_DETECTOR_COUNT ? cluster_detector_name((enum cluster_detector)i) : NULL;
}

static const char *sample_at(size_t i)
{
    static const char *const names[] = {"e2e", "ttft", NULL};

    return names[i];
}

static const char *dispatch_at(size_t i)
{
    static const char *const names[] = {"fifo", "priority", "slo-deadline", NULL};

    return names[i];
}

static const char *fairness_at(size_t i)
{
    static const char *const names[] = {"global-strict", "round-robin", NULL};

    return names[i];
}

bool sim_set_workload(const struct command *command, const char *option, const char *text,
                      struct sim_settings *settings)
{
    return workload_preset(text, &settings->simple) ||
           no_such(command, option, text, workload_preset_name);
}

bool sim_set_model(const struct command *command, const char *option, const char *text,
                   struct sim_settings *settings)
{
    const struct cluster_model *model = cluster_model_find(text);

    if (model == NULL)
        return no_such(command, option, text, model_at);
    settings->cluster.model = *model;
    return true;
}

bool sim_set_hardware(const struct command *command, const char *option, const char *text,
                      struct sim_settings *settings)
{
    const struct cluster_hardware *hardware = cluster_hardware_find(text);

    if (hardware == NULL)
        return no_such(command, option, text, hardware_at);
    settings->cluster.hardware = *hardware;
    return true;
}

bool sim_set_latency(const struct command *command, const char *option, const char *text,
                     struct sim_settings *settings)
{
    int found = sim_names_find(command, option, text, latency_at);

    if (found >= 0)
        settings->cluster.latency = (enum cluster_latency)found;
    return found >= 0;
}

bool sim_set_scheduler(const struct command *command, const char *option, const char *text,
                       struct sim_settings *settings)
{
    int found = sim_names_find(command, option, text, scheduler_at);

    if (found >= 0)
        settings->cluster.scheduler = (enum cluster_scheduler)found;
    return found >= 0;
}

bool sim_set_preemption(const struct command *command, const char *option, const char *text,
                        struct sim_settings *settings)
{
    int found = sim_names_find(command, option, text, preemption_at);

    if (found >= 0)
        settings->cluster.preemption = (enum cluster_preemption)found;
    return found >= 0;
}

bool sim_set_routing(const struct command *command, const char *option, const char *text,
                     struct sim_settings *settings)
{
    int found = sim_names_find(command, option, text, routing_at);

    if (found >= 0)
        settings->cluster.routing = (enum cluster_routing)found;
    return found >= 0;
}

bool sim_set_admission(const struct command *command, const char *option, const char *text,
                       struct sim_settings *settings)
{
    int found = sim_names_find(command, option, text, admission_at);

    if (found >= 0)
        settings->cluster.admission = (enum cluster_admission)found;
    return found >= 0;
}

bool sim_set_sample(const struct command *command, const char *option, const char *text,
                    struct sim_settings *settings)
{
    int found = sim_names_find(command, option, text, sample_at);

    settings->sample_first_token = found == 1;
    return found >= 0;
}

bool sim_set_detector(const struct command *command, const char *option, const char *text,
                      struct sim_settings *settings)
{
    int found = sim_names_find(command, option, text, detector_at);

    if (found >= 0)
        settings->cluster.flow.detector = (enum cluster_detector)found;
    return found >= 0;
}

/* BLIS's fifo goes by priority too; so it does here, and both names are taken. */
bool sim_set_dispatch(const struct command *command, const char *option, const char *text,
                      struct sim_settings *settings)
{
    int found = sim_names_find(command, option, text, dispatch_at);

    if (found >= 0)
        settings->cluster.flow.dispatch =
            found == 2 ? CLUSTER_DISPATCH_SLO_DEADLINE : CLUSTER_DISPATCH_PRIORITY;
    return found >= 0;
}

bool sim_set_fairness(const struct command *command, const char *option, const char *text,
                      struct sim_settings *settings)
{
    int found = sim_names_find(command, option, text, fairness_at);

    if (found >= 0)
        settings->cluster.flow.fairness =
            found == 1 ? CLUSTER_FAIR_ROUND_ROBIN : CLUSTER_FAIR_GLOBAL_STRICT;
    return found >= 0;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* One part of "a:1,b:2": its name, and what stands behind the sign. */
struct part {
    char name[64];
    char value[32];
};

/* Takes the part at *at and moves behind it. False after saying what is wrong. */
static bool next_part(const struct command *command, const char *option, char sign, const char **at,
                      struct part *part)
{
    size_t bytes = strcspn(*at, ",");
    const char *mid = memchr(*at, sign, bytes);
    size_t name = mid != NULL ? (size_t)(mid - *at) : 0;

    if (mid == NULL || name >= sizeof part->name || bytes - name - 1 >= sizeof part->value ||
        bytes - name - 1 == 0) {
        command_say(command, "%s: '%.*s' is not NAME%cNUMBER", option, (int)bytes, *at, sign);
        return false;
    }
    snprintf(part->name, sizeof part->name, "%.*s", (int)name, *at);
    snprintf(part->value, sizeof part->value, "%.*s", (int)(bytes - name - 1), mid + 1);
    *at += bytes + ((*at)[bytes] == ',');
    return true;
}

bool sim_set_scorers(const struct command *command, const char *option, const char *text,
                     struct sim_settings *settings)
{
    struct cluster_config *cluster = &settings->cluster;
    struct part part;
    char *end;

    cluster->n_weights = 0;
    while (*text != '\0') {
        if (!next_part(command, option, ':', &text, &part))
            return false;
        int found = sim_names_find(command, option, part.name, scorer_at);
        double weight = strtod(part.value, &end);
        if (found < 0)
            return false;
        if (*end != '\0' || !(weight > 0) || !isfinite(weight)) {
            command_say(command, "%s: the weight '%s' must be a finite number above 0", option,
                        part.value);
            return false;
        }
        if (cluster->n_weights == CLUSTER_SCORERS_MAX) {
            command_say(command, "%s: at most %d", option, CLUSTER_SCORERS_MAX);
            return false;
        }
        cluster->weights[cluster->n_weights++] =
            (struct cluster_weight){(enum cluster_scorer)found, weight};
    }
    return true;
}

/* "100ms", "2s", "500us"; a bare number is one of `unit`, or wrong if that is 0. */
static bool read_time(const char *text, int64_t unit, int64_t *us)
{
    static const struct {
        const char *name;
        int64_t us;
    } units[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}, {"m", 60000000}};
    char *end;
    double value = strtod(text, &end);

    if (end == text || !isfinite(value) || strspn(text, ".0123456789") != (size_t)(end - text))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0] && *end != '\0'; i++)
        if (strcmp(end, units[i].name) == 0) {
            unit = units[i].us;
            end += strlen(end);
        }
    if (*end != '\0' || unit == 0 || value * (double)unit < 1 || value * (double)unit > 1e15)
        return false;
    *us = (int64_t)(value * (double)unit);
    return true;
}

/* Sets a time of each class that is named; `offset` is where in struct cluster_class. */
static bool set_times(const struct command *command, const char *option, const char *text,
                      struct cluster_config *cluster, int64_t unit, size_t offset)
{
    struct part part;
    uint32_t class;
    int64_t us;

    while (*text != '\0') {
        if (!next_part(command, option, '=', &text, &part))
            return false;
        if (!read_time(part.value, unit, &us)) {
            command_say(command, "%s: '%s' is not a time: write 100ms, 2s or 500us", option,
                        part.value);
            return false;
        }
        if (!cluster_config_class(cluster, part.name, strlen(part.name), &class)) {
            command_say(command, "%s: '%s' is one class too many: there may be %d", option,
                        part.name, CLUSTER_CLASSES_MAX);
            return false;
        }
        *(int64_t *)((char *)&cluster->classes[class] + offset) = us;
    }
    return true;
}

bool sim_set_targets(const struct command *command, const char *option, const char *text,
                     struct sim_settings *settings)
{
    return set_times(command, option, text, &settings->cluster, 1,
                     offsetof(struct cluster_class, slo_target_us));
}

bool sim_set_good_ttft(const struct command *command, const char *option, const char *text,
                       struct sim_settings *settings)
{
    return set_times(command, option, text, &settings->cluster, 0,
                     offsetof(struct cluster_class, good_ttft_us));
}

bool sim_set_good_itl(const struct command *command, const char *option, const char *text,
                      struct sim_settings *settings)
{
    return set_times(command, option, text, &settings->cluster, 0,
                     offsetof(struct cluster_class, good_itl_us));
}

bool sim_set_good_e2e(const struct command *command, const char *option, const char *text,
                      struct sim_settings *settings)
{
    return set_times(command, option, text, &settings->cluster, 0,
                     offsetof(struct cluster_class, good_e2e_us));
}
