/* workload_json.c - a line of a trace in JSON: what the gateway recorded, or replay is given.
 *
 * A field that nobody knows is an error, not ignored: it may be a misspelt `cost`. Fields that say
 * what became of a call are known and of no use here, but must be what they claim to be all the
 * same: a trace whose latency is a word was not written by who we think.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/text/json_read.h"
#include "io/text/shown.h"
#include "lab/workload/workload_draw.h"
#include "lab/workload/workload_trace.h"

#define TIME_MAX_US ((double)WORKLOAD_TIME_MAX)
#define TIME_MAX_MS 9007199254740.0 /* the same in milliseconds */
#define NUMBER_MAX 9007199254740991.0

/* A line while it is read. -1: not given. */
struct reading {
    double t_ms, arrival_us;
    double input, output, max_output, cost, value, hold_s;
    double deadline_us, slo_target_us, prefix;
    double unused;
    struct json_text id, tenant, key, model, user, peer, slo_class, group, client, op, priority;
    struct json_text said;
    bool flag;
    char digits[24];
};

enum kind { WHOLE, REAL, TEXT, NAME, BOOL, ANY };

#define FIELD(name, kind, to, max)                                                                 \
    {                                                                                              \
        name, sizeof(name) - 1, kind, offsetof(struct reading, to), max                            \
    }

static const struct known {
    const char *name;
    size_t bytes;
    enum kind kind;
    size_t offset;
    double max;
} fields[] = {
    FIELD("t", REAL, t_ms, TIME_MAX_MS),
    FIELD("arrival_us", WHOLE, arrival_us, TIME_MAX_US),
    FIELD("id", NAME, id, 0),
    FIELD("tenant", TEXT, tenant, 0),
    FIELD("key", TEXT, key, 0),
    FIELD("model", TEXT, model, 0),
    FIELD("user", TEXT, user, 0),
    FIELD("peer", TEXT, peer, 0),
    FIELD("client", TEXT, client, 0),
    FIELD("priority", TEXT, priority, 0),
    FIELD("slo_class", TEXT, slo_class, 0),
    FIELD("op", TEXT, op, 0),
    FIELD("input_tokens", WHOLE, input, (double)LENGTH_MAX),
    FIELD("output_tokens", WHOLE, output, (double)LENGTH_MAX),
    FIELD("max_output_tokens", WHOLE, max_output, NUMBER_MAX),
    FIELD("prefix_group", TEXT, group, 0),
    FIELD("prefix_length", WHOLE, prefix, (double)LENGTH_MAX),
    FIELD("cost", WHOLE, cost, NUMBER_MAX),
    FIELD("value", REAL, value, NUMBER_MAX),
    FIELD("hold", REAL, hold_s, NUMBER_MAX),
    FIELD("deadline_us", WHOLE, deadline_us, TIME_MAX_US),
    FIELD("slo_target_us", WHOLE, slo_target_us, TIME_MAX_US),
    /* What became of it. */
    FIELD("stream", BOOL, flag, 0),
    FIELD("status", ANY, unused, 0),
    FIELD("reason", TEXT, said, 0),
    FIELD("latency_ms", REAL, unused, NUMBER_MAX),
    FIELD("ttfb_ms", REAL, unused, NUMBER_MAX),
    FIELD("outcome", TEXT, said, 0),
    FIELD("actual", WHOLE, unused, NUMBER_MAX),
    FIELD("sample", REAL, unused, NUMBER_MAX),
    FIELD("used", REAL, unused, 1),
    FIELD("kind", ANY, unused, 0),
    FIELD("served", ANY, unused, 0),
    FIELD("provider_key", ANY, unused, 0),
    FIELD("virtual_key", ANY, unused, 0),
    FIELD("attempts", ANY, unused, 0),
    FIELD("waited_ms", ANY, unused, 0),
    FIELD("generation", ANY, unused, 0),
    FIELD("ended", ANY, unused, 0),
    FIELD("used_input_tokens", ANY, unused, 0),
    FIELD("used_output_tokens", ANY, unused, 0),
    FIELD("reserved_micro_usd", ANY, unused, 0),
    FIELD("spent_micro_usd", ANY, unused, 0),
    FIELD("uncertain_micro_usd", ANY, unused, 0),
    FIELD("lost", ANY, unused, 0),
    FIELD("ops", ANY, unused, 0),
};

#define N_FIELDS (sizeof fields / sizeof fields[0])

/* ---- Values ---------------------------------------------------------------------------------- */

static enum workload_read workload_json_read_number(const struct known *known,
                                                    const struct json_value *value, double *to,
                                                    struct workload_problem *problem)
{
    double found = value->kind == JSON_INTEGER  ? (double)value->integer
                   : value->kind == JSON_DOUBLE ? value->real
                                                : -1;

    if (found >= 0 && found <= known->max && (known->kind == REAL || found == floor(found))) {
        *to = found;
        return WORKLOAD_READ;
    }
    return workload_wrong(problem, "\"%s\" must be a %snumber from 0 to %.16g, not %s", known->name,
                          known->kind == REAL ? "" : "whole ", known->max,
                          value->kind == JSON_INTEGER || value->kind == JSON_DOUBLE
                              ? "another number"
                              : json_kind_name(value->kind));
}

/* A whole number may name a call too: its digits are the name. */
static bool read_digits(const struct json_value *value, struct reading *reading)
{
    if (value->kind != JSON_INTEGER)
        return false;
    int n = snprintf(reading->digits, sizeof reading->digits, "%lld", (long long)value->integer);
    reading->id = (struct json_text){reading->digits, (size_t)n};
    return true;
}

static enum workload_read workload_json_read_value(const struct known *known,
                                                   const struct json_value *value,
                                                   struct reading *reading,
                                                   struct workload_problem *problem)
{
    void *to = (char *)reading + known->offset;

    /* A recorder writes null where it does not know. */
    if (value->kind == JSON_NULL || known->kind == ANY)
        return WORKLOAD_READ;
    if (known->kind == WHOLE || known->kind == REAL)
        return workload_json_read_number(known, value, to, problem);
    if (known->kind == BOOL) {
        if (value->kind != JSON_BOOL)
            return workload_wrong(problem, "\"%s\" must be true or false, not %s", known->name,
                                  json_kind_name(value->kind));
        return WORKLOAD_READ;
    }
    if (known->kind == NAME && read_digits(value, reading))
        return WORKLOAD_READ;
    if (value->kind != JSON_STRING)
        return workload_wrong(problem, "\"%s\" must be a string%s, not %s", known->name,
                              known->kind == NAME ? " or a whole number" : "",
                              json_kind_name(value->kind));
    *(struct json_text *)to = value->string;
    return WORKLOAD_READ;
}

static enum workload_read unknown(struct json_text key, struct workload_problem *problem)
{
    char list[256] = "";
    size_t used = 0;

    for (size_t i = 0; i < N_FIELDS && used + 24 < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "",
                                 fields[i].name);
    return workload_wrong(problem, "there is no field \"%s\"; there are %s, ...",
                          shown_of(key.bytes, key.size).text, list);
}

static enum workload_read workload_json_read_fields(struct json_reader *reader,
                                                    struct reading *reading,
                                                    struct workload_problem *problem)
{
    struct json_text key;
    struct json_value value;

    while (json_next(reader, &key, &value)) {
        const struct known *known = NULL;
        for (size_t i = 0; i < N_FIELDS && known == NULL; i++)
            if (key.size == fields[i].bytes && memcmp(key.bytes, fields[i].name, key.size) == 0)
                known = &fields[i];
        enum workload_read read = known != NULL
                                      ? workload_json_read_value(known, &value, reading, problem)
                                      : unknown(key, problem);
        if (read != WORKLOAD_READ)
            return read;
    }
    return WORKLOAD_READ;
}

/* The whole line must be good JSON before anything that it says counts. */
static enum workload_read read_object(struct json_reader *reader, const struct line *line,
                                      struct reading *reading, struct workload_problem *problem)
{
    struct json_value root;
    enum workload_read read = WORKLOAD_READ;

    json_begin(reader, line->text, line->bytes, line->readable, &root);
    if (root.kind == JSON_OBJECT && json_enter(reader))
        read = workload_json_read_fields(reader, reading, problem);
    bool good = json_end(reader);
    if (!good)
        return workload_wrong(problem, "%s (column %zu)", json_reader_problem(reader)->text,
                              json_reader_problem(reader)->offset + 1);
    if (root.kind != JSON_OBJECT)
        return workload_wrong(problem, "a line must be an object, not %s",
                              json_kind_name(root.kind));
    return read;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static int64_t given(double number, int64_t otherwise)
{
    return number >= 0 ? (int64_t)number : otherwise;
}

static bool workload_json_is_given(struct json_text text)
{
    return text.bytes != NULL;
}

static bool get_name(struct cluster_names *names, struct json_text text, uint32_t *number)
{
    return !workload_json_is_given(text) || cluster_names_get(names, text.bytes, text.size, number);
}

/* A call of a priority has the class that is shed like it. */
static enum workload_read workload_json_read_priority(struct reading *reading,
                                                      struct workload_note *note,
                                                      struct workload_problem *problem)
{
    static const char *const words[] = {"high", "normal", "low"};
    static const enum tg_priority priorities[] = {TG_PRIORITY_HIGH, TG_PRIORITY_NORMAL,
                                                  TG_PRIORITY_LOW};
    static const char *const classes[] = {"critical", "standard", "sheddable"};

    if (!workload_json_is_given(reading->priority))
        return WORKLOAD_READ;
    for (int i = 0; i < 3; i++)
        if (json_text_is(reading->priority, words[i])) {
            note->priority = (int8_t)priorities[i];
            if (!workload_json_is_given(reading->slo_class))
                reading->slo_class = (struct json_text){classes[i], strlen(classes[i])};
            return WORKLOAD_READ;
        }
    return workload_wrong(problem, "\"priority\" is \"%s\"; it must be high, normal or low",
                          shown_of(reading->priority.bytes, reading->priority.size).text);
}

static enum workload_read read_times(const struct reading *reading, struct cluster_request *request,
                                     struct workload_problem *problem)
{
    if (reading->t_ms < 0 && reading->arrival_us < 0)
        return workload_wrong(problem, "\"t\" is missing: when it came, in milliseconds");
    if (reading->t_ms >= 0 && reading->arrival_us >= 0)
        return workload_wrong(problem, "\"t\" and \"arrival_us\" say the same; give one of them");
    request->arrival_us = reading->arrival_us >= 0 ? (int64_t)reading->arrival_us
                                                   : (int64_t)llround(reading->t_ms * 1000);
    request->deadline_us = given(reading->deadline_us, 0);
    request->slo_target_us = given(reading->slo_target_us, 0);
    return WORKLOAD_READ;
}

static enum workload_read read_tokens(const struct reading *reading,
                                      struct cluster_request *request, struct workload_note *note,
                                      struct workload_problem *problem)
{
    int64_t cost = given(reading->cost, 1), prefix = given(reading->prefix, 0);
    int64_t input = given(reading->input, cost < LENGTH_MAX ? cost : LENGTH_MAX);

    /* A line without any lengths is one of `tollgate replay`: it is about its cost alone. */
    bool bare = reading->input < 0 && reading->output < 0 && reading->max_output < 0;
    if (prefix > input)
        return workload_wrong(problem, "\"prefix_length\" is above \"input_tokens\"");
    note->cost = reading->cost >= 0 ? (int64_t)reading->cost : bare ? 1 : -1;
    note->guess_output = reading->output < 0 && !bare;
    request->input_tokens = (int32_t)input;
    request->prefix_tokens = (int32_t)prefix;
    request->output_tokens = (int32_t)given(reading->output, 1);
    /* What a client allows is for the gate to reserve. For the cluster it is what it generates:
     * many allow more than any model has room for, and are served all the same. */
    note->allowed = given(reading->max_output, -1);
    request->max_output_tokens = bare ? 0 : request->output_tokens;
    return WORKLOAD_READ;
}

/* False: no memory. */
static bool read_names(const struct reading *reading, struct workload *workload,
                       struct cluster_request *request, struct workload_note *note)
{
    struct cluster_workload *load = &workload->load;
    struct json_text tenant =
        workload_json_is_given(reading->tenant) ? reading->tenant : reading->key;

    /* replay counts a peer where one is given, the gateway takes the tenant for it. */
    note->tenant_peer =
        !workload_json_is_given(reading->peer) && !workload_json_is_given(reading->key);
    return get_name(&load->tenants, tenant, &request->tenant) &&
           get_name(&load->models, reading->model, &request->model) &&
           get_name(&load->groups, reading->group, &request->prefix_group) &&
           get_name(&load->clients, reading->client, &request->client) &&
           get_name(&workload->users, reading->user, &note->user) &&
           get_name(&workload->peers, reading->peer, &note->peer) &&
           get_name(&workload->ids, reading->id, &note->id);
}

static enum workload_read workload_json_add(struct reading *reading, struct cluster_config *config,
                                            struct workload *workload,
                                            struct workload_problem *problem)
{
    struct cluster_request *request = cluster_workload_add(&workload->load);
    struct workload_note *note = request != NULL ? workload_note_last(workload) : NULL;
    enum workload_read read = WORKLOAD_READ;

    if (note == NULL || !read_names(reading, workload, request, note)) {
        workload_wrong(problem, "%s", tg_strerror(TG_ERR_MEMORY));
        return WORKLOAD_NO_MEMORY;
    }
    if ((read = read_times(reading, request, problem)) != WORKLOAD_READ ||
        (read = read_tokens(reading, request, note, problem)) != WORKLOAD_READ ||
        (read = workload_json_read_priority(reading, note, problem)) != WORKLOAD_READ)
        return read;
    note->value = reading->value;
    /* In replay a call that does not say holds nothing. */
    note->hold_s =
        reading->hold_s < 0 && workload_json_is_given(reading->key) ? 0 : reading->hold_s;
    if (reading->value >= 0)
        request->value = reading->value;
    if (workload_json_is_given(reading->slo_class) &&
        !cluster_config_class(config, reading->slo_class.bytes, reading->slo_class.size,
                              &request->slo_class))
        return workload_wrong(
            problem, "\"slo_class\" is \"%s\", one class too many: there may be %d",
            shown_of(reading->slo_class.bytes, reading->slo_class.size).text, CLUSTER_CLASSES_MAX);
    return WORKLOAD_READ;
}

/* A line of a recording that is about no call: its first one, what was spent before, what the
 * gateway did by itself. */
static bool is_not_of_a_call(struct json_reader *reader, const struct line *line)
{
    struct json_text key;
    struct json_value value;

    json_begin(reader, line->text, line->bytes, line->readable, &value);
    bool found = value.kind == JSON_OBJECT && json_enter(reader) &&
                 json_next(reader, &key, &value) &&
                 (json_text_is(key, "tollgate_recording") || json_text_is(key, "ops") ||
                  (json_text_is(key, "op") && value.kind == JSON_STRING &&
                   json_text_is(value.string, "spent")));
    return json_end(reader) && found;
}

enum workload_read workload_json_line(struct json_reader *reader, const struct line *line,
                                      struct cluster_config *config, struct workload *workload,
                                      struct workload_problem *problem)
{
    struct reading reading = {
        .t_ms = -1,
        .arrival_us = -1,
        .input = -1,
        .output = -1,
        .max_output = -1,
        .cost = -1,
        .value = -1,
        .hold_s = -1,
        .deadline_us = -1,
        .slo_target_us = -1,
        .prefix = -1,
    };
    if (is_not_of_a_call(reader, line)) {
        workload->recorded = true;
        return WORKLOAD_READ;
    }
    enum workload_read read = read_object(reader, line, &reading, problem);

    if (read != WORKLOAD_READ)
        return read;
    if (workload_json_is_given(reading.tenant) && workload_json_is_given(reading.key))
        return workload_wrong(problem, "\"tenant\" and \"key\" say the same; give one of them");
    if (!workload_json_is_given(reading.op) || json_text_is(reading.op, "admit"))
        return workload_json_add(&reading, config, workload, problem);
    if (!json_text_is(reading.op, "release") && !json_text_is(reading.op, "memory") &&
        !json_text_is(reading.op, "limits"))
        return workload_wrong(problem,
                              "\"op\" is \"%s\"; it must be admit, release, memory or limits",
                              shown_of(reading.op.bytes, reading.op.size).text);
    workload->passed++;
    return WORKLOAD_READ;
}
