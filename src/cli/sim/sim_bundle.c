/* sim_bundle.c - a policy file: admission, routing and scheduling in one YAML, in BLIS's form.
 *
 *     admission:
 *       policy: token-bucket
 *       token_bucket_capacity: 20000
 *       token_bucket_refill_rate: 30000
 *     routing: {policy: weighted, scorers: [{name: queue-depth, weight: 2}]}
 *     scheduler: fcfs
 *     tenant_budgets: {globex: 0.25}
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sim/sim_names.h"
#include "cli/sim/sim_settings.h"
#include "lab/workload/workload_yaml.h"
#include "lib/core/array.h"

#define READ_BYTES 16384
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A policy file while it is read. */
struct reading {
    const struct command *command;
    const char *path;
    struct sim_settings *settings;
    struct yaml_problem problem;
};

/* ---- Files ----------------------------------------------------------------------------------- */

char *sim_file_read(const struct command *command, const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t size = 0, capacity = 0;

    while (file != NULL) {
        if (size + 1 >= YAML_TREE_BYTES_MAX * 2) {
            errno = EFBIG;
            break;
        }
        if (!array_reserve(&text, &capacity, size + READ_BYTES)) {
            errno = ENOMEM;
            break;
        }
        errno = 0;
        size_t n = fread(text + size, 1, capacity - size - 1, file);
        size += n;
        if (n > 0)
            continue;
        if (ferror(file))
            break;
        fclose(file);
        text[size] = '\0';
        *bytes = size;
        return text;
    }
    command_say(command, "%s: %s", path, strerror(errno));
    if (file != NULL)
        fclose(file);
    free(text);
    return NULL;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static bool read_slo_priorities(struct reading *reading, const struct yaml_node *map)
{
    struct cluster_config *cluster = &reading->settings->cluster;

    if (map->kind != YAML_MAP)
        return yaml_wrong(&reading->problem, map, "'slo_priorities' must be a map");
    for (const struct yaml_node *node = map->first; node != NULL; node = node->next) {
        double priority;
        uint32_t class;

        if (!yaml_read_real(node, &priority) || priority != floor(priority) || priority < -100 ||
            priority > 100)
            return yaml_wrong(&reading->problem, node,
                              "a priority must be a whole number from -100 to 100");
        if (!cluster_config_class(cluster, node->key->text, node->key->bytes, &class))
            return yaml_wrong(&reading->problem, node->key, "there may be %d classes",
                              CLUSTER_CLASSES_MAX);
        cluster->classes[class].priority = (int32_t)priority;
    }
    return true;
}

/* The name of a policy, as the option of the same meaning takes it. */
static bool set_name(struct reading *reading, const char *what, const char *name, sim_set_word *set)
{
    char option[400];

    if (name == NULL || name[0] == '\0')
        return true;
    snprintf(option, sizeof option, "%.300s: %s", reading->path, what);
    /* It has said what is wrong, so nothing is left to say. */
    return set(reading->command, option, name, reading->settings);
}

static bool read_admission(struct reading *reading, const struct yaml_node *map)
{
    struct sim_settings *settings = reading->settings;
    struct cluster_config *cluster = &settings->cluster;
    const char *policy = NULL;
    const struct yaml_node *priorities = NULL;
    int64_t min_priority = cluster->tier_shed_min_priority;
    const struct yaml_field fields[] = {
        YAML_TEXT_AT("policy", &policy),
        YAML_ABOVE_AT("token_bucket_capacity", &cluster->bucket_capacity, 0, 1e15),
        YAML_ABOVE_AT("token_bucket_refill_rate", &cluster->bucket_refill_per_s, 0, 1e15),
        YAML_WHOLE_AT("tier_shed_threshold", &cluster->tier_shed_threshold, 0, 1e15),
        {"tier_shed_min_priority", YAML_FIELD_WHOLE, &min_priority, -1e9, 1e9, false, false, false,
         &settings->min_priority_given},
        YAML_ABOVE_AT("gaie_qd_threshold", &cluster->gaie_queue_threshold, 0, 1e15),
        YAML_ABOVE_AT("gaie_kv_threshold", &cluster->gaie_kv_threshold, 0, 1),
        YAML_NODE_AT("slo_priorities", &priorities),
    };

    if (!yaml_fields_read(map, "admission", fields, COUNT(fields), &reading->problem))
        return false;
    cluster->tier_shed_min_priority = (int32_t)min_priority;
    settings->tier_shed_by_file = policy != NULL && strcmp(policy, "tier-shed") == 0;
    return set_name(reading, "admission.policy", policy, sim_set_admission) &&
           (priorities == NULL || read_slo_priorities(reading, priorities));
}

static bool read_scorers(struct reading *reading, const struct yaml_node *list)
{
    struct cluster_config *cluster = &reading->settings->cluster;

    if (list->kind != YAML_LIST)
        return yaml_wrong(&reading->problem, list, "'scorers' must be a list");
    cluster->n_weights = 0;
    for (const struct yaml_node *node = list->first; node != NULL; node = node->next) {
        const struct yaml_node *name = NULL;
        const char *names[CLUSTER_SCORER_COUNT];
        double weight = 1;
        int scorer = 0;
        const struct yaml_field fields[] = {
            YAML_NEED_NODE("name", &name),
            YAML_NEED_ABOVE("weight", &weight, 0, 1e15),
        };
        for (int i = 0; i < CLUSTER_SCORER_COUNT; i++)
            names[i] = cluster_scorer_name((enum cluster_scorer)i);
        if (!yaml_fields_read(node, "a scorer", fields, 2, &reading->problem) ||
            !yaml_read_word(name, "scorer", names, CLUSTER_SCORER_COUNT, &scorer,
                            &reading->problem))
            return false;
        if (cluster->n_weights == CLUSTER_SCORERS_MAX)
            return yaml_wrong(&reading->problem, node, "there may be %d scorers",
                              CLUSTER_SCORERS_MAX);
        cluster->weights[cluster->n_weights++] =
            (struct cluster_weight){(enum cluster_scorer)scorer, weight};
    }
    return true;
}

static bool read_routing(struct reading *reading, const struct yaml_node *map)
{
    const char *policy = NULL;
    const struct yaml_node *scorers = NULL;
    const struct yaml_field fields[] = {
        YAML_TEXT_AT("policy", &policy),
        YAML_NODE_AT("scorers", &scorers),
    };

    return yaml_fields_read(map, "routing", fields, 2, &reading->problem) &&
           set_name(reading, "routing.policy", policy, sim_set_routing) &&
           (scorers == NULL || read_scorers(reading, scorers));
}

static bool read_budgets(struct reading *reading, const struct yaml_node *map)
{
    struct sim_settings *settings = reading->settings;

    if (map->kind != YAML_MAP)
        return yaml_wrong(&reading->problem, map, "'tenant_budgets' must be a map");
    settings->budgets = arena_alloc(settings->arena, (map->n + 1) * sizeof *settings->budgets);
    if (settings->budgets == NULL)
        return yaml_wrong(&reading->problem, NULL, "cannot be read: out of memory");
    for (const struct yaml_node *node = map->first; node != NULL; node = node->next) {
        struct sim_tenant_budget *budget = &settings->budgets[settings->n_budgets++];
        budget->tenant = node->key->text;
        if (!yaml_read_real(node, &budget->share) || budget->share < 0 || budget->share > 1)
            return yaml_wrong(&reading->problem, node,
                              "a tenant's budget must be a number from 0 to 1");
    }
    return true;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static bool read_root(struct reading *reading, const struct yaml_node *root)
{
    const struct yaml_node *admission = NULL, *routing = NULL, *budgets = NULL;
    const char *scheduler = NULL;
    const struct yaml_field fields[] = {
        YAML_NODE_AT("admission", &admission),
        YAML_NODE_AT("routing", &routing),
        YAML_TEXT_AT("scheduler", &scheduler),
        YAML_NODE_AT("tenant_budgets", &budgets),
        YAML_NOT_TAKEN("priority", "an instance orders by slo_class alone"),
    };

    return yaml_fields_read(root, "a policy file", fields, COUNT(fields), &reading->problem) &&
           (admission == NULL || read_admission(reading, admission)) &&
           (routing == NULL || read_routing(reading, routing)) &&
           set_name(reading, "scheduler", scheduler, sim_set_scheduler) &&
           (budgets == NULL || read_budgets(reading, budgets));
}

static bool sim_bundle_read_text(struct reading *reading, const char *text, size_t bytes)
{
    struct yaml_node *root;

    reading->problem.text[0] = '\0';
    if (reading->settings->arena == NULL && (reading->settings->arena = arena_new()) == NULL)
        return yaml_wrong(&reading->problem, NULL, "cannot be read: out of memory");
    return yaml_document_read(reading->settings->arena, text, bytes, &root, &reading->problem) &&
           read_root(reading, root);
}

bool sim_bundle_read(const struct command *command, const char *path, struct sim_settings *settings)
{
    struct reading reading = {.command = command, .path = path, .settings = settings};
    size_t bytes;
    char *text = sim_file_read(command, path, &bytes);

    if (text == NULL)
        return false;
    bool read = sim_bundle_read_text(&reading, text, bytes);
    free(text);
    if (!read && reading.problem.line > 0)
        command_say(command, "%s:%zu:%zu: %s", path, reading.problem.line, reading.problem.column,
                    reading.problem.text);
    else if (!read && reading.problem.text[0] != '\0')
        command_say(command, "%s: %s", path, reading.problem.text);
    return read;
}
