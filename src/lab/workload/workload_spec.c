/* workload_spec.c - reading a workload file. See workload_spec.h. */
#include "lab/workload/workload_spec.h"

#include <stdio.h>
#include <string.h>

#include "lab/workload/workload_internal.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define POPULATION_MAX 100000

static const char no_conversations[] = "conversations of several rounds are not simulated";
static const char no_network[] = "the network of a client is not simulated";
static const char no_media[] = "images, audio and video are not simulated; give their tokens as "
                               "input_distribution";
static const char no_servegen[] = "ServeGen's files are not read; write them as clients with "
                                  "empirical distributions";
static const char no_inference_perf[] = "files of inference-perf are not read; write them as "
                                        "clients";

/* ---- Clients --------------------------------------------------------------------------------- */

/* The five classes, or none; and the names that two of them had in version 1. */
static bool read_class(struct spec_reading *reading, const struct yaml_node *node,
                       const char **class)
{
    static const char *const words[] = {"",      "critical",   "standard", "sheddable",
                                        "batch", "background", "realtime", "interactive"};
    static const char *const now[] = {"critical", "standard"};
    int found = 0;

    if (!yaml_read_word(node, "slo_class", words, reading->first_version ? 8 : 6, &found,
                        reading->problem))
        return false;
    *class = found >= 6 ? now[found - 6] : words[found];
    return true;
}

/* Where some have a class and some have none, the latter were probably forgotten. */
static bool note_class(struct spec_reading *reading, const struct yaml_node *at, const char *class)
{
    *(class[0] != '\0' ? &reading->some_class : &reading->some_without) = true;
    if (reading->some_class && reading->some_without)
        return yaml_wrong(reading->problem, at,
                          "either all clients have an 'slo_class' or none has one");
    return true;
}

/* What clients and cohorts have in common. */
struct client_nodes {
    const struct yaml_node *class, *arrival, *input, *output, *lifecycle;
    struct spec_rhythm rhythm;
    int64_t population;
};

#define CLIENT_FIELDS_MAX 24

static size_t client_fields(struct workload_client *client, struct client_nodes *nodes, bool cohort,
                            struct yaml_field fields[CLIENT_FIELDS_MAX])
{
    const struct yaml_field common[] = {
        YAML_TEXT_AT("id", &client->id),
        YAML_TEXT_AT("tenant_id", &client->tenant),
        YAML_NODE_AT("slo_class", &nodes->class),
        YAML_TEXT_AT("model", &client->model),
        {"rate_fraction", YAML_FIELD_REAL, &client->rate_fraction, 0, 0, true, false, cohort, NULL},
        YAML_NODE_AT("arrival", &nodes->arrival),
        YAML_NEED_NODE("input_distribution", &nodes->input),
        YAML_NEED_NODE("output_distribution", &nodes->output),
        YAML_TEXT_AT("prefix_group", &client->prefix_group),
        YAML_WHOLE_AT("prefix_length", &client->prefix_tokens, 0, (double)LENGTH_MAX),
        YAML_BOOL_AT("streaming", &client->streaming),
        YAML_WHOLE_AT("timeout", &client->timeout_us, 0, TIME_MAX_US),
        YAML_WHOLE_AT("slo_target_us", &client->slo_target_us, 0, TIME_MAX_US),
        YAML_NOT_TAKEN("network", no_network),
        YAML_NOT_TAKEN("reasoning", no_conversations),
        YAML_NOT_TAKEN("closed_loop", no_conversations),
        YAML_NOT_TAKEN("multimodal", no_media),
    };
    const struct yaml_field of_client[] = {
        YAML_WHOLE_AT("concurrency", &client->concurrency, 0, 1e6),
        YAML_WHOLE_AT("think_time_us", &client->think_us, 0, TIME_MAX_US),
        YAML_NODE_AT("lifecycle", &nodes->lifecycle),
    };
    const struct yaml_field of_cohort[] = {
        YAML_NEED_WHOLE("population", &nodes->population, 1, POPULATION_MAX),
        YAML_NODE_AT("diurnal", &nodes->rhythm.diurnal),
        YAML_NODE_AT("spike", &nodes->rhythm.spike),
        YAML_NODE_AT("drain", &nodes->rhythm.drain),
    };
    size_t more = cohort ? COUNT(of_cohort) : COUNT(of_client);

    memcpy(fields, common, sizeof common);
    memcpy(fields + COUNT(common), cohort ? of_cohort : of_client, more * sizeof *fields);
    return COUNT(common) + more;
}

static bool read_lengths_and_class(struct spec_reading *reading, const struct yaml_node *map,
                                   const struct client_nodes *nodes, struct workload_client *client)
{
    return spec_read_length(reading, nodes->input, "input_distribution", &client->input) &&
           spec_read_length(reading, nodes->output, "output_distribution", &client->output) &&
           (nodes->class == NULL || read_class(reading, nodes->class, &client->slo_class)) &&
           note_class(reading, map, client->slo_class);
}

static bool check_client(struct spec_reading *reading, const struct yaml_node *map,
                         const struct client_nodes *nodes, const struct workload_client *client)
{
    if (client->concurrency > 0 && client->rate_fraction > 0)
        return yaml_wrong(reading->problem, map,
                          "a client has either 'rate_fraction' or 'concurrency', not both");
    if (client->concurrency == 0 && client->rate_fraction == 0)
        return yaml_wrong(reading->problem, map, "a client needs 'rate_fraction'");
    if (client->concurrency == 0 && client->think_us > 0)
        return yaml_wrong(reading->problem, map,
                          "'think_time_us' has no effect: a client with 'rate_fraction' does not "
                          "wait for its answers");
    if (client->prefix_tokens > 0 && client->prefix_group[0] == '\0')
        return yaml_wrong(reading->problem, map,
                          "'prefix_length' has no effect without 'prefix_group'");
    if (client->concurrency == 0 && nodes->arrival == NULL)
        return yaml_wrong(reading->problem, map, "a client needs 'arrival'");
    return true;
}

static bool read_client(struct spec_reading *reading, const struct yaml_node *map, bool cohort,
                        struct client_nodes *nodes, struct workload_client *client)
{
    struct yaml_field fields[CLIENT_FIELDS_MAX];

    *nodes = (struct client_nodes){.population = 1};
    *client = (struct workload_client){.id = "",
                                       .tenant = "",
                                       .slo_class = "",
                                       .model = "",
                                       .prefix_group = "",
                                       .timeout_us = -1,
                                       .cv = 1};
    size_t n = client_fields(client, nodes, cohort, fields);
    return yaml_fields_read(map, cohort ? "a cohort" : "a client", fields, n, reading->problem) &&
           check_client(reading, map, nodes, client) &&
           (nodes->arrival == NULL || spec_read_arrival(reading, nodes->arrival, client)) &&
           (nodes->lifecycle == NULL || spec_read_lifecycle(reading, nodes->lifecycle, client)) &&
           read_lengths_and_class(reading, map, nodes, client);
}

/* ---- Cohorts --------------------------------------------------------------------------------- */

static const char *member_id(struct spec_reading *reading, const char *cohort, int64_t member)
{
    char text[32];
    size_t bytes = strlen(cohort);
    int n = snprintf(text, sizeof text, "-%lld", (long long)member);
    char *id = spec_get(reading, bytes + (size_t)n + 1);

    if (id != NULL) {
        memcpy(id, cohort, bytes);
        memcpy(id + bytes, text, (size_t)n + 1);
    }
    return id;
}

/* Adds one client for each member; they share the rate. */
static bool add_members(struct spec_reading *reading, const struct workload_client *client,
                        int64_t population)
{
    struct workload_spec *spec = reading->spec;

    for (int64_t i = 0; i < population; i++) {
        struct workload_client *member = &spec->clients[spec->n_clients++];
        *member = *client;
        member->rate_fraction = client->rate_fraction / (double)population;
        if ((member->id = member_id(reading, client->id, i)) == NULL)
            return false;
    }
    return true;
}

/* ---- The whole ------------------------------------------------------------------------------- */

struct top_nodes {
    const struct yaml_node *version, *category, *clients, *cohorts, *goodput;
    bool has_rate;
};

static bool read_top(struct spec_reading *reading, const struct yaml_node *root,
                     struct top_nodes *nodes)
{
    struct workload_spec *spec = reading->spec;
    const struct yaml_field fields[] = {
        YAML_NODE_AT("version", &nodes->version),
        {"seed", YAML_FIELD_WHOLE, &spec->seed, 0, 0, false, true, false, &spec->has_seed},
        YAML_NODE_AT("category", &nodes->category),
        {"aggregate_rate", YAML_FIELD_REAL, &spec->aggregate_rate, 0, 1e9, true, false, false,
         &nodes->has_rate},
        YAML_WHOLE_AT("num_requests", &spec->num_requests, 0, 0),
        YAML_WHOLE_AT("horizon", &spec->horizon_us, 0, TIME_MAX_US),
        YAML_NODE_AT("clients", &nodes->clients),
        YAML_NODE_AT("cohorts", &nodes->cohorts),
        YAML_NOT_TAKEN("servegen_data", no_servegen),
        YAML_NOT_TAKEN("inference_perf", no_inference_perf),
        YAML_NOT_TAKEN("goodput_slo_targets", "give --slo-ttft, --slo-itl and --slo-e2e"),
    };
    static const char *const versions[] = {"1", "2"};
    static const char *const categories[] = {"", "language", "multimodal", "reasoning"};
    int word = 0;

    if (!yaml_fields_read(root, "a workload", fields, COUNT(fields), reading->problem) ||
        (nodes->version != NULL &&
         !yaml_read_word(nodes->version, "version", versions, 2, &word, reading->problem)))
        return false;
    reading->first_version = nodes->version == NULL || word == 0;
    return nodes->category == NULL ||
           yaml_read_word(nodes->category, "category", categories, 4, &word, reading->problem);
}

/* How many clients there will be; 0 after saying what is wrong. */
static size_t count_clients(struct spec_reading *reading, const struct yaml_node *root,
                            const struct top_nodes *nodes)
{
    size_t n = 0;

    if ((nodes->clients != NULL && nodes->clients->kind != YAML_LIST) ||
        (nodes->cohorts != NULL && nodes->cohorts->kind != YAML_LIST)) {
        yaml_wrong(reading->problem, root, "'clients' and 'cohorts' must be lists");
        return 0;
    }
    n += nodes->clients != NULL ? nodes->clients->n : 0;
    for (const struct yaml_node *node = nodes->cohorts != NULL ? nodes->cohorts->first : NULL;
         node != NULL; node = node->next) {
        const struct yaml_node *population = yaml_tree_get(node, "population");
        double members = 1;
        if (population != NULL && yaml_read_real(population, &members) && members >= 1 &&
            members <= POPULATION_MAX)
            n += (size_t)members;
        else
            n++;
    }
    if (n == 0)
        yaml_wrong(reading->problem, root, "a workload needs at least one client or cohort");
    if (n > WORKLOAD_CLIENTS_MAX) {
        yaml_wrong(reading->problem, root, "a workload may have %zu clients, this one has %zu",
                   WORKLOAD_CLIENTS_MAX, n);
        return 0;
    }
    return n;
}

static bool workload_spec_read_all(struct spec_reading *reading, const struct top_nodes *nodes)
{
    struct workload_spec *spec = reading->spec;
    struct client_nodes parts;

    if (nodes->clients != NULL)
        for (const struct yaml_node *node = nodes->clients->first; node != NULL; node = node->next)
            if (!read_client(reading, node, false, &parts, &spec->clients[spec->n_clients++]))
                return false;
    if (nodes->cohorts != NULL)
        for (const struct yaml_node *node = nodes->cohorts->first; node != NULL;
             node = node->next) {
            struct workload_client client;
            if (!read_client(reading, node, true, &parts, &client) ||
                !spec_read_rhythm(reading, &parts.rhythm, &client) ||
                !add_members(reading, &client, parts.population))
                return false;
        }
    return true;
}

static int64_t group_prefix(const struct workload_spec *spec, size_t i)
{
    const struct workload_client *client = &spec->clients[i], *first = client;

    /* The members of a cohort follow each other, and there may be very many. */
    if (i > 0 && client[-1].prefix_group == client->prefix_group)
        return client[-1].prefix_tokens;
    for (first = spec->clients; strcmp(first->prefix_group, client->prefix_group) != 0;)
        first++;
    if (first < client)
        return first->prefix_tokens;
    return client->prefix_tokens > 0 ? client->prefix_tokens : WORKLOAD_PREFIX_TOKENS;
}

/* The first client of a group says how long its prefix is. */
static void share_prefixes(struct workload_spec *spec)
{
    for (size_t i = 0; i < spec->n_clients; i++) {
        struct workload_client *client = &spec->clients[i];
        if (client->prefix_group[0] == '\0') {
            client->prefix_tokens = 0;
            continue;
        }
        client->prefix_tokens = group_prefix(spec, i);
    }
}

static bool read_document(struct spec_reading *reading, const struct yaml_node *root)
{
    struct workload_spec *spec = reading->spec;
    struct top_nodes nodes = {.version = NULL};

    if (!read_top(reading, root, &nodes))
        return false;
    size_t n = count_clients(reading, root, &nodes);
    if (n == 0 || (spec->clients = spec_get(reading, n * sizeof *spec->clients)) == NULL)
        return false;
    if (!workload_spec_read_all(reading, &nodes))
        return false;
    for (size_t i = 0; i < spec->n_clients; i++)
        if (spec->clients[i].rate_fraction > 0 && !nodes.has_rate)
            return yaml_wrong(reading->problem, root, "a workload needs 'aggregate_rate'");
    share_prefixes(spec);
    return true;
}

bool workload_spec_read(const char *text, size_t bytes, struct workload_spec *spec,
                        struct yaml_problem *problem)
{
    struct spec_reading reading = {.spec = spec, .problem = problem};
    struct yaml_node *root;

    *spec = (struct workload_spec){.arena = arena_new()};
    if (spec->arena == NULL)
        return yaml_wrong(problem, NULL, "cannot be read: out of memory");
    return yaml_document_read(spec->arena, text, bytes, &root, problem) &&
           read_document(&reading, root);
}

void workload_spec_free(struct workload_spec *spec)
{
    arena_free(spec->arena);
    *spec = (struct workload_spec){.arena = NULL};
}

/* ---- Rates ----------------------------------------------------------------------------------- */

static bool overlap(const struct workload_client *a, const struct workload_client *b)
{
    if (a->n_windows == 0 || b->n_windows == 0 || a->windows == b->windows)
        return true;
    for (size_t i = 0; i < a->n_windows; i++)
        for (size_t j = 0; j < b->n_windows; j++)
            if (a->windows[i].start_us < b->windows[j].end_us &&
                b->windows[j].start_us < a->windows[i].end_us)
                return true;
    return false;
}

/* Clients that follow each other and have the same windows: those without any, or a cohort. */
static size_t alike_until(const struct workload_spec *spec, size_t from)
{
    size_t to = from + 1;

    while (to < spec->n_clients && spec->clients[to].windows == spec->clients[from].windows)
        to++;
    return to;
}

static double fractions(const struct workload_spec *spec, size_t from, size_t to)
{
    double sum = 0;

    for (size_t i = from; i < to; i++)
        sum += spec->clients[i].rate_fraction;
    return sum;
}

void workload_spec_rates(const struct workload_spec *spec, double *rates)
{
    for (size_t from = 0, to; from < spec->n_clients; from = to) {
        double sum = 0;

        to = alike_until(spec, from);
        for (size_t other = 0, end; other < spec->n_clients; other = end) {
            end = alike_until(spec, other);
            if (overlap(&spec->clients[from], &spec->clients[other]))
                sum += fractions(spec, other, end);
        }
        for (size_t i = from; i < to; i++)
            rates[i] = sum > 0 ? spec->aggregate_rate * (spec->clients[i].rate_fraction / sum) : 0;
    }
}
