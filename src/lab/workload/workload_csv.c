/* workload_csv.c - a line of a trace in BLIS's CSV.
 *
 * Columns are found by name, because the form has grown and will grow; those that are needed must
 * be there. A value is used as it is written, or the line is refused: those of columns that are not
 * simulated, or that nobody here knows, must be empty or zero. Only what became of a request is
 * passed over.
 */
#include <stdio.h>
#include <string.h>

#include "io/text/shown.h"
#include "lab/workload/workload_draw.h"
#include "lab/workload/workload_trace.h"

enum column {
    COLUMN_ARRIVAL,
    COLUMN_INPUT,
    COLUMN_OUTPUT,
    COLUMN_ID,
    COLUMN_CLIENT,
    COLUMN_TENANT,
    COLUMN_CLASS,
    COLUMN_GROUP,
    COLUMN_PREFIX,
    COLUMN_MODEL,
    COLUMN_DEADLINE,
    COLUMN_TARGET,
    COLUMNS,
};

#define COLUMNS_NEEDED 3

static const char *const names[COLUMNS] = {
    "arrival_time_us", "input_tokens", "output_tokens", "request_id",
    "client_id",       "tenant_id",    "slo_class",     "prefix_group",
    "prefix_length",   "model",        "deadline_us",   "slo_target_us",
};

/* What became of a request, and what says nothing about how it is served. */
static const char *const passed_over[] = {
    "send_time_us",  "first_chunk_time_us", "last_chunk_time_us",
    "num_chunks",    "server_input_tokens", "status",
    "error_message", "finish_reason",       "x_request_id",
    "text_tokens",   "streaming",           "session_id",
    "reason_ratio",  "vllm_priority",
};

struct field {
    const char *bytes;
    size_t size;
};

/* ---- Fields ---------------------------------------------------------------------------------- */

/* Where the field that begins at `at` ends: at a comma outside of quotes, or the end. Null: in
 * quotes to the end. */
static const char *field_end(const char *at, const char *end)
{
    bool quoted = false;

    for (; at < end && (quoted || *at != ','); at++)
        if (*at == '"')
            quoted = !quoted;
    return quoted ? NULL : at;
}

/* The fields of a line, at most `max`; how many there are, or -1 after saying what is wrong. A
 * field in quotes is given without them; what is doubled in it stays so: none of ours has any. */
static int split(const struct line *line, struct field *fields, struct workload_problem *problem)
{
    const char *at = line->text, *end = line->text + line->bytes;
    int n = 0;

    if (end > at && end[-1] == '\r')
        end--;
    for (;;) {
        const char *stop = field_end(at, end);
        if (stop == NULL) {
            workload_wrong(problem, "a field begins with a quote and does not end with one");
            return -1;
        }
        if (n == WORKLOAD_COLUMNS_MAX) {
            workload_wrong(problem, "a line may have %d columns, this one has more",
                           WORKLOAD_COLUMNS_MAX);
            return -1;
        }
        bool quoted = stop - at >= 2 && at[0] == '"' && stop[-1] == '"';
        fields[n++] = (struct field){at + quoted, (size_t)(stop - at) - 2 * quoted};
        if (stop == end)
            return n;
        at = stop + 1;
    }
}

static bool is_named(struct field field, const char *name)
{
    return field.size == strlen(name) && memcmp(field.bytes, name, field.size) == 0;
}

/* Keeps the names of columns that must hold nothing. */
static void note_others(const struct field *fields, struct workload_columns *columns)
{
    for (int i = 0; i < columns->n; i++) {
        bool known = fields[i].size == 0;
        for (int c = 0; c < COLUMNS && !known; c++)
            known = is_named(fields[i], names[c]);
        for (size_t c = 0; c < sizeof passed_over / sizeof passed_over[0] && !known; c++)
            known = is_named(fields[i], passed_over[c]);
        snprintf(columns->others[i], sizeof columns->others[i], "%.*s",
                 known ? 0 : (int)fields[i].size, fields[i].bytes);
    }
}

enum workload_read workload_csv_head(const struct line *line, struct workload_columns *columns,
                                     struct workload_problem *problem)
{
    struct field fields[WORKLOAD_COLUMNS_MAX];

    columns->n = split(line, fields, problem);
    if (columns->n < 0)
        return WORKLOAD_WRONG;
    for (int c = 0; c < COLUMNS; c++) {
        columns->at[c] = -1;
        for (int i = 0; i < columns->n; i++)
            if (is_named(fields[i], names[c])) {
                if (columns->at[c] >= 0)
                    return workload_wrong(problem, "the column '%s' is there twice", names[c]);
                columns->at[c] = i;
            }
    }
    note_others(fields, columns);
    for (int c = 0; c < COLUMNS_NEEDED; c++)
        if (columns->at[c] < 0)
            return workload_wrong(
                problem,
                "neither a JSON object nor the head of a CSV: there is no column '%s'; it needs "
                "%s, %s and %s",
                names[c], names[0], names[1], names[2]);
    return WORKLOAD_READ;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* A line while it is read. */
struct reading {
    const struct workload_columns *columns;
    const struct field *fields;
    struct workload_problem *problem;
};

static struct field get(const struct reading *reading, enum column column)
{
    int at = reading->columns->at[column];

    return at >= 0 ? reading->fields[at] : (struct field){"", 0};
}

/* A whole number from 0 to `max`; an absent or empty one is 0 where it is not needed. */
static bool number(const struct reading *reading, enum column column, int64_t max, int64_t *value)
{
    struct field field = get(reading, column);
    int64_t found = 0;
    bool good = field.size > 0 || column >= COLUMNS_NEEDED;

    for (size_t i = 0; i < field.size && good; i++) {
        int digit = field.bytes[i] - '0';
        good = digit >= 0 && digit <= 9 && found <= (max - digit) / 10;
        if (good)
            found = found * 10 + digit;
    }
    if (!good) {
        workload_wrong(reading->problem, "'%s' is '%s'; it must be a whole number from 0 to %lld",
                       names[column], shown_of(field.bytes, field.size).text, (long long)max);
        return false;
    }
    *value = found;
    return true;
}

static bool name(const struct reading *reading, enum column column, struct cluster_names *table,
                 uint32_t *found)
{
    struct field field = get(reading, column);

    return cluster_names_get(table, field.bytes, field.size, found);
}

/* An id that is a number is the request's own, any other text is a note. */
static bool read_id(const struct reading *reading, struct workload *workload,
                    struct cluster_request *request)
{
    struct field field = get(reading, COLUMN_ID);
    uint64_t found = 0;
    bool good = field.size > 0 && field.size <= 10 && (field.size == 1 || field.bytes[0] != '0');

    if (field.size == 0)
        return true;
    for (size_t i = 0; i < field.size && good; i++) {
        good = field.bytes[i] >= '0' && field.bytes[i] <= '9';
        found = found * 10 + (uint64_t)(field.bytes[i] - '0');
    }
    if (good && found <= UINT32_MAX) {
        request->id = (uint32_t)found;
        return true;
    }
    struct workload_note *note = workload_note_last(workload);
    return note != NULL && cluster_names_get(&workload->ids, field.bytes, field.size, &note->id);
}

static bool read_numbers(const struct reading *reading, struct cluster_request *request)
{
    int64_t input, output, prefix;

    if (!number(reading, COLUMN_ARRIVAL, WORKLOAD_TIME_MAX, &request->arrival_us) ||
        !number(reading, COLUMN_INPUT, LENGTH_MAX, &input) ||
        !number(reading, COLUMN_OUTPUT, LENGTH_MAX, &output) ||
        !number(reading, COLUMN_PREFIX, LENGTH_MAX, &prefix) ||
        !number(reading, COLUMN_DEADLINE, WORKLOAD_TIME_MAX, &request->deadline_us) ||
        !number(reading, COLUMN_TARGET, WORKLOAD_TIME_MAX, &request->slo_target_us))
        return false;
    if (input + prefix > LENGTH_MAX) {
        workload_wrong(reading->problem, "input and prefix together are more than %lld tokens",
                       (long long)LENGTH_MAX);
        return false;
    }
    request->input_tokens = (int32_t)(input + prefix);
    request->prefix_tokens = (int32_t)prefix;
    request->output_tokens = request->max_output_tokens = (int32_t)output;
    return true;
}

static bool read_names(const struct reading *reading, struct workload *workload,
                       struct cluster_request *request)
{
    struct cluster_workload *load = &workload->load;

    return name(reading, COLUMN_TENANT, &load->tenants, &request->tenant) &&
           name(reading, COLUMN_GROUP, &load->groups, &request->prefix_group) &&
           name(reading, COLUMN_CLIENT, &load->clients, &request->client) &&
           name(reading, COLUMN_MODEL, &load->models, &request->model);
}

static bool says_nothing(struct field field)
{
    size_t zeros = 0;

    while (zeros < field.size && (field.bytes[zeros] == '0' || field.bytes[zeros] == '.'))
        zeros++;
    return zeros == field.size || is_named(field, "false");
}

/* What is not simulated must not be there: silence would pass for support. */
static enum workload_read check_others(const struct reading *reading)
{
    for (int i = 0; i < reading->columns->n; i++)
        if (reading->columns->others[i][0] != '\0' && !says_nothing(reading->fields[i]))
            return workload_wrong(
                reading->problem,
                "'%s' is '%s', and that is not simulated; leave the column out if "
                "it does not matter",
                reading->columns->others[i],
                shown_of(reading->fields[i].bytes, reading->fields[i].size).text);
    return WORKLOAD_READ;
}

enum workload_read workload_csv_line(const struct line *line,
                                     const struct workload_columns *columns,
                                     struct cluster_config *config, struct workload *workload,
                                     struct workload_problem *problem)
{
    struct field fields[WORKLOAD_COLUMNS_MAX];
    struct reading reading = {columns, fields, problem};
    int n = split(line, fields, problem);

    if (n < 0)
        return WORKLOAD_WRONG;
    if (n != columns->n)
        return workload_wrong(problem, "%d fields, where the first line names %d columns", n,
                              columns->n);
    struct cluster_request *request = cluster_workload_add(&workload->load);
    if (request == NULL || !read_id(&reading, workload, request) ||
        !read_names(&reading, workload, request)) {
        workload_wrong(problem, "%s", tg_strerror(TG_ERR_MEMORY));
        return WORKLOAD_NO_MEMORY;
    }
    struct field class = get(&reading, COLUMN_CLASS);
    if (!cluster_config_class(config, class.bytes, class.size, &request->slo_class))
        return workload_wrong(problem, "'%s' is one slo_class too many: there may be %d",
                              shown_of(class.bytes, class.size).text, CLUSTER_CLASSES_MAX);
    return read_numbers(&reading, request) ? check_others(&reading) : WORKLOAD_WRONG;
}
