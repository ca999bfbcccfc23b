/* solve_input.c - a workload written as JSON.
 *
 *     {"types":[{"cost":100,"value":1,"weight":0.5,"hold":2}, ...],
 *      "rate_budget":1,"cost_budget":50,"conc_budget":20,"arrivals":1000}
 *
 * The names are those of messages about workloads too, so that whoever reads `types[3].cost` finds
 * it. As in a trace, what is not known is an error rather than ignored: a `wieght` that silently is
 * 1 would give prices that look right.
 */
#include "cli/solve_input.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "io/text/shown.h"

/* A number of an object, and where it goes. */
struct field {
    const char *name;
    size_t offset;
    bool optional; /* may be null, or left out */
    bool above_0;  /* 0, which in the struct means none, is not to be written */
};

static const struct field type_fields[] = {
    {"cost", offsetof(struct tg_type, cost), false, false},
    {"value", offsetof(struct tg_type, value), false, false},
    {"weight", offsetof(struct tg_type, weight), false, false},
    {"hold", offsetof(struct tg_type, hold_s), true, false},
};

static const struct field budget_fields[] = {
    {"rate_budget", offsetof(struct tg_workload, rate_budget), false, true},
    {"cost_budget", offsetof(struct tg_workload, cost_budget), false, true},
    {"conc_budget", offsetof(struct tg_workload, conc_budget_s), true, true},
    {"arrivals", offsetof(struct tg_workload, arrivals), true, true},
};

#define N_TYPE_FIELDS (sizeof type_fields / sizeof type_fields[0])
#define N_BUDGET_FIELDS (sizeof budget_fields / sizeof budget_fields[0])
#define TYPES_SEEN (1u << N_BUDGET_FIELDS)

struct reading {
    struct json_reader *reader;
    struct solve_input *input;
    struct solve_problem *problem;
    char where[32]; /* "types[3]." in front of a name, or "" */
};

static bool solve_input_wrong(struct reading *r, size_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Always false, so that a check can end with `return wrong(...)`. */
static bool solve_input_wrong(struct reading *r, size_t offset, const char *format, ...)
{
    va_list args;
    int n = snprintf(r->problem->text, sizeof r->problem->text, "%s", r->where);

    r->problem->offset = offset;
    va_start(args, format);
    vsnprintf(r->problem->text + n, sizeof r->problem->text - (size_t)n, format, args);
    va_end(args);
    return false;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static bool solve_input_read_field(struct reading *r, const struct field *field,
                                   const struct json_value *value, void *into)
{
    double number;

    if (value->kind == JSON_NULL && field->optional)
        return true;
    if (value->kind == JSON_INTEGER)
        number = (double)value->integer;
    else if (value->kind == JSON_DOUBLE)
        number = value->real;
    else
        return solve_input_wrong(r, value->offset, "%s is %s; it must be a number%s", field->name,
                                 value->kind == JSON_HUGE ? "a number out of range"
                                                          : json_kind_name(value->kind),
                                 field->optional ? ", or null" : "");
    /* The struct has numbers that mean none; here null does. */
    if (number < 0 || (number == 0 && field->above_0))
        return solve_input_wrong(r, value->offset, "%s is %g; it must be %s%s", field->name, number,
                                 field->above_0 ? "above 0" : "0 or more",
                                 field->optional ? ", or null" : "");
    memcpy((char *)into + field->offset, &number, sizeof number);
    return true;
}

static const struct field *solve_input_find_field(const struct field *fields, size_t n,
                                                  struct json_text name)
{
    for (size_t i = 0; i < n; i++)
        if (json_text_is(name, fields[i].name))
            return &fields[i];
    return NULL;
}

/* What cannot be read as JSON at all, such as NaN, has a name too, if it is the value of one. */
static void name_what_is_broken(struct reading *r, const struct field *field,
                                const struct json_value *value)
{
    size_t n = strlen(r->where);

    if (field != NULL && json_reader_problem(r->reader)->offset == value->offset)
        snprintf(r->where + n, sizeof r->where - n, "%s.", field->name);
}

static bool unknown(struct reading *r, size_t offset, struct json_text name, const char *fields)
{
    return solve_input_wrong(r, offset, "%s is not known; there are %s",
                             shown_of(name.bytes, name.size).text, fields);
}

/* ---- Objects --------------------------------------------------------------------------------- */

static bool check_seen(struct reading *r, const struct field *fields, size_t n, unsigned seen,
                       size_t offset)
{
    for (size_t i = 0; i < n; i++)
        if (!fields[i].optional && !(seen >> i & 1))
            return solve_input_wrong(r, offset, "%s is missing", fields[i].name);
    return true;
}

static bool read_type(struct reading *r, const struct json_value *object, struct tg_type *type)
{
    struct json_text name = {"", 0};
    struct json_value value = {.offset = 0};
    unsigned seen = 0;

    tg_type_init(type);
    json_enter(r->reader);
    while (json_next(r->reader, &name, &value)) {
        const struct field *field = solve_input_find_field(type_fields, N_TYPE_FIELDS, name);
        if (field == NULL)
            return unknown(r, value.offset, name, "cost, value, weight and hold");
        if (!solve_input_read_field(r, field, &value, type))
            return false;
        seen |= 1u << (field - type_fields);
    }
    if (json_reader_problem(r->reader) == NULL)
        return check_seen(r, type_fields, N_TYPE_FIELDS, seen, object->offset);
    name_what_is_broken(r, solve_input_find_field(type_fields, N_TYPE_FIELDS, name), &value);
    return false;
}

static bool read_types(struct reading *r, const struct json_value *array)
{
    struct tg_workload *workload = &r->input->workload;
    struct json_text no_name;
    struct json_value value;

    if (array->kind != JSON_ARRAY)
        return solve_input_wrong(r, array->offset, "types is %s; it must be an array",
                                 json_kind_name(array->kind));
    json_enter(r->reader);
    while (json_next(r->reader, &no_name, &value)) {
        size_t i = workload->n_types;
        if (i == TG_TYPES_MAX)
            return solve_input_wrong(r, value.offset,
                                     "types has more than %d entries; 1 to %d are allowed",
                                     TG_TYPES_MAX, TG_TYPES_MAX);
        if (value.kind != JSON_OBJECT)
            return solve_input_wrong(r, value.offset, "types[%zu] is %s; it must be an object", i,
                                     json_kind_name(value.kind));
        snprintf(r->where, sizeof r->where, "types[%zu].", i);
        if (!read_type(r, &value, &r->input->types[i]))
            return false;
        r->where[0] = '\0';
        workload->n_types++;
    }
    return json_reader_problem(r->reader) == NULL;
}

static bool read_workload(struct reading *r, const struct json_value *object)
{
    struct json_text name = {"", 0};
    struct json_value value = {.offset = 0};
    unsigned seen = 0;

    if (object->kind != JSON_OBJECT)
        return solve_input_wrong(r, object->offset, "the workload is %s; it must be an object",
                                 json_kind_name(object->kind));
    json_enter(r->reader);
    while (json_next(r->reader, &name, &value)) {
        const struct field *field = solve_input_find_field(budget_fields, N_BUDGET_FIELDS, name);
        if (json_text_is(name, "types")) {
            seen |= TYPES_SEEN;
            if (!read_types(r, &value))
                return false;
        } else if (field == NULL) {
            return unknown(r, value.offset, name,
                           "types, rate_budget, cost_budget, conc_budget and arrivals");
        } else {
            seen |= 1u << (field - budget_fields);
            if (!solve_input_read_field(r, field, &value, &r->input->workload))
                return false;
        }
    }
    if (json_reader_problem(r->reader) != NULL) {
        name_what_is_broken(r, solve_input_find_field(budget_fields, N_BUDGET_FIELDS, name),
                            &value);
        return false;
    }
    if (!(seen & TYPES_SEEN))
        return solve_input_wrong(r, object->offset, "types is missing");
    return check_seen(r, budget_fields, N_BUDGET_FIELDS, seen, object->offset);
}

bool solve_read(struct json_reader *reader, const char *text, size_t bytes, size_t readable,
                struct solve_input *input, struct solve_problem *problem)
{
    struct reading r = {.reader = reader, .input = input, .problem = problem};
    struct json_value root;
    bool good;

    tg_workload_init(&input->workload);
    input->workload.types = input->types;
    good = json_begin(reader, text, bytes, readable, &root) && read_workload(&r, &root);
    /* The first of two mistakes is reported; text that is not JSON ends the reading. */
    if (json_reader_problem(reader) == NULL && !good)
        return false;
    if (json_end(reader))
        return true;
    /* In front of what is wrong there, the dot before a name becomes a colon. */
    if (r.where[0] != '\0')
        strcpy(strrchr(r.where, '.'), ": ");
    return solve_input_wrong(&r, json_reader_problem(reader)->offset, "%s",
                             json_reader_problem(reader)->text);
}
