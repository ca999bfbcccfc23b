/* trace.c - one line of a trace: a call or something else that happened, and when.
 *
 * A trace is evidence: what it says is used as it is said, or the line is refused. So a field that
 * nobody knows is an error, not ignored (it may be a misspelt `cost`), a time in quotes is no time,
 * and nothing is rounded. A field that is known may stand on any line, of whatever op: recorders
 * tend to write all of them, and what `serve --record` writes beside is known:
 * its `tenant` is the key, and how a call ended is passed over.
 */
#include "cli/replay/trace.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "io/text/shown.h"

/* Always false, so that a check can end with `return wrong(...)`. */
static bool trace_wrong(struct tg_problem *problem, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool trace_wrong(struct tg_problem *problem, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(problem->text, sizeof problem->text, format, args);
    va_end(args);
    return false;
}

/* ---- Kinds of values ------------------------------------------------------------------------- */

/* What was found where a number in range was wanted. */
static const char *describe(const struct json_value *value, bool fractions)
{
    switch (value->kind) {
    case JSON_INTEGER:
        return value->integer < 0 ? "a negative number" : "a larger number";
    case JSON_DOUBLE:
        if (!fractions && value->real != floor(value->real))
            return "a fraction";
        return value->real < 0 ? "a negative number" : "a larger number";
    case JSON_HUGE:
        return "a number out of range";
    default:
        return json_kind_name(value->kind);
    }
}

/* A whole number in [0, TG_NUMBER_MAX]; 1e3 is one, 1.5 is not. */
static bool trace_read_number(const char *field, const char *what, const struct json_value *value,
                              int64_t *number, struct tg_problem *problem)
{
    if (value->kind == JSON_INTEGER && value->integer >= 0 && value->integer <= TG_NUMBER_MAX) {
        *number = value->integer;
        return true;
    }
    if (value->kind == JSON_DOUBLE && value->real >= 0 && value->real <= (double)TG_NUMBER_MAX &&
        value->real == floor(value->real)) {
        *number = (int64_t)value->real;
        return true;
    }
    return trace_wrong(problem, "\"%s\" must be a whole number%s from 0 to %lld, not %s", field,
                       what, (long long)TG_NUMBER_MAX, describe(value, false));
}

/* A number in [0, max], fractions too. */
static bool read_real(const char *field, const char *what, int64_t max,
                      const struct json_value *value, double *real, struct tg_problem *problem)
{
    double found = value->kind == JSON_INTEGER  ? (double)value->integer
                   : value->kind == JSON_DOUBLE ? value->real
                                                : -1;

    if (found >= 0 && found <= (double)max) {
        *real = found;
        return true;
    }
    return trace_wrong(problem, "\"%s\" must be a number%s from 0 to %lld, not %s", field, what,
                       (long long)max, describe(value, true));
}

static bool trace_read_text(const char *field, const struct json_value *value,
                            struct json_text *text, struct tg_problem *problem)
{
    if (value->kind != JSON_STRING)
        return trace_wrong(problem, "\"%s\" must be a string, not %s", field,
                           json_kind_name(value->kind));
    *text = value->string;
    return true;
}

/* One of `n` words; `list` is how a message names them. */
static bool read_word(const char *field, const struct json_value *value, const char *const *words,
                      int n, const char *list, int *found, struct tg_problem *problem)
{
    struct json_text text = {"", 0};

    if (!trace_read_text(field, value, &text, problem))
        return false;
    for (int i = 0; i < n; i++)
        if (json_text_is(text, words[i])) {
            *found = i;
            return true;
        }
    return trace_wrong(problem, "\"%s\" is \"%s\"; it must be %s", field,
                       shown_of(text.bytes, text.size).text, list);
}

/* ---- Fields ---------------------------------------------------------------------------------- */

/* A line while it is read. */
struct reading {
    struct trace_event *event;
    bool has_time;
};

typedef bool read_field(struct reading *reading, const struct json_value *value,
                        struct tg_problem *problem);

static bool read_t(struct reading *reading, const struct json_value *value,
                   struct tg_problem *problem)
{
    reading->has_time = true;
    return trace_read_number("t", " of milliseconds", value, &reading->event->call.t, problem);
}

static bool trace_read_key(struct reading *reading, const struct json_value *value,
                           struct tg_problem *problem)
{
    return trace_read_text("key", value, &reading->event->call.key, problem);
}

static bool read_cost(struct reading *reading, const struct json_value *value,
                      struct tg_problem *problem)
{
    return trace_read_number("cost", "", value, &reading->event->call.cost, problem);
}

static bool read_op(struct reading *reading, const struct json_value *value,
                    struct tg_problem *problem)
{
    static const char *const words[] = {"admit", "release", "memory", "limits", "first_byte"};
    int op = 0;

    if (!read_word("op", value, words, 5, "admit, release, memory, limits or first_byte", &op,
                   problem))
        return false;
    reading->event->op = (enum trace_op)op;
    return true;
}

static bool read_id(struct reading *reading, const struct json_value *value,
                    struct tg_problem *problem)
{
    struct trace_event *event = reading->event;

    if (value->kind == JSON_STRING) {
        event->id = value->string;
        return true;
    }
    if (value->kind != JSON_INTEGER)
        return trace_wrong(problem, "\"id\" must be a string or a whole number, not %s",
                           value->kind == JSON_DOUBLE || value->kind == JSON_HUGE
                               ? "another number"
                               : json_kind_name(value->kind));
    event->id_is_number = true;
    event->id_number = value->integer;
    return true;
}

static bool read_model(struct reading *reading, const struct json_value *value,
                       struct tg_problem *problem)
{
    return trace_read_text("model", value, &reading->event->model, problem);
}

static bool read_user(struct reading *reading, const struct json_value *value,
                      struct tg_problem *problem)
{
    return trace_read_text("user", value, &reading->event->user, problem);
}

static bool read_peer(struct reading *reading, const struct json_value *value,
                      struct tg_problem *problem)
{
    return trace_read_text("peer", value, &reading->event->peer, problem);
}

static bool trace_read_priority(struct reading *reading, const struct json_value *value,
                                struct tg_problem *problem)
{
    const char *words[TG_PRIORITY_COUNT];
    int priority = 0;

    for (int i = 0; i < TG_PRIORITY_COUNT; i++)
        words[i] = tg_priority_name((enum tg_priority)i);
    if (!read_word("priority", value, words, TG_PRIORITY_COUNT, "high, normal or low", &priority,
                   problem))
        return false;
    reading->event->priority = (enum tg_priority)priority;
    return true;
}

static bool trace_read_value(struct reading *reading, const struct json_value *value,
                             struct tg_problem *problem)
{
    return read_real("value", "", TG_NUMBER_MAX, value, &reading->event->value, problem);
}

/* One that is negative, null or beyond all numbers is a hold that its caller does not know: 0. */
static bool read_hold(struct reading *reading, const struct json_value *value,
                      struct tg_problem *problem)
{
    bool unknown = value->kind == JSON_NULL || value->kind == JSON_HUGE ||
                   (value->kind == JSON_INTEGER && value->integer < 0) ||
                   (value->kind == JSON_DOUBLE && value->real < 0);

    if (unknown) {
        reading->event->hold_s = 0;
        return true;
    }
    return read_real("hold", " of seconds", TG_NUMBER_MAX, value, &reading->event->hold_s, problem);
}

static bool trace_read_size(struct reading *reading, const struct json_value *value,
                            struct tg_problem *problem)
{
    return trace_read_number("size", "", value, &reading->event->size, problem);
}

static bool read_outcome(struct reading *reading, const struct json_value *value,
                         struct tg_problem *problem)
{
    static const char *const words[] = {"ok", "dropped", "cancelled"};
    int outcome = 0;

    if (!read_word("outcome", value, words, 3, "ok, dropped or cancelled", &outcome, problem))
        return false;
    reading->event->release.outcome = (enum tg_outcome)outcome;
    return true;
}

static bool read_actual(struct reading *reading, const struct json_value *value,
                        struct tg_problem *problem)
{
    return trace_read_number("actual", "", value, &reading->event->release.actual, problem);
}

static bool read_sample(struct reading *reading, const struct json_value *value,
                        struct tg_problem *problem)
{
    return read_real("sample", " of milliseconds", TG_NUMBER_MAX, value,
                     &reading->event->release.sample_ms, problem);
}

static bool read_used(struct reading *reading, const struct json_value *value,
                      struct tg_problem *problem)
{
    reading->event->has_used = true;
    if (value->kind == JSON_NULL) {
        reading->event->used = NAN;
        return true;
    }
    return read_real("used", "", 1, value, &reading->event->used, problem);
}

/* What a recording says of an arrival and a gate is not told. */
static bool pass_over(struct reading *reading, const struct json_value *value,
                      struct tg_problem *problem)
{
    (void)value;
    (void)problem;
    reading->event->is_recorded = true;
    return true;
}

/* Those of a limiter's trace come first, those of a recording last. */
static const struct field {
    const char *name;
    read_field *read;
} fields[] = {
    {"t", read_t},
    {"key", trace_read_key},
    {"cost", read_cost},
    {"op", read_op},
    {"id", read_id},
    {"model", read_model},
    {"user", read_user},
    {"peer", read_peer},
    {"priority", trace_read_priority},
    {"value", trace_read_value},
    {"hold", read_hold},
    {"size", trace_read_size},
    {"outcome", read_outcome},
    {"actual", read_actual},
    {"sample", read_sample},
    {"used", read_used},
    {"tenant", trace_read_key},
    {"stream", pass_over},
    {"status", pass_over},
    {"reason", pass_over},
    {"latency_ms", pass_over},
    {"ttfb_ms", pass_over},
    {"input_tokens", pass_over},
    {"max_output_tokens", pass_over},
    {"output_tokens", pass_over},
    {"kind", pass_over},
    {"served", pass_over},
    {"provider_key", pass_over},
    {"attempts", pass_over},
    {"waited_ms", pass_over},
    {"generation", pass_over},
    {"ended", pass_over},
    {"used_input_tokens", pass_over},
    {"used_output_tokens", pass_over},
    {"reserved_micro_usd", pass_over},
    {"spent_micro_usd", pass_over},
    {"uncertain_micro_usd", pass_over},
    {"lost", pass_over},
    {"ops", pass_over},
};

/* Messages name those that mean something. */
enum { N_CALL_FIELDS = 3, N_NAMED = 16, N_FIELDS = sizeof fields / sizeof fields[0] };

static bool unknown_field(struct json_text key, size_t n_fields, struct tg_problem *problem)
{
    char list[176] = "";
    size_t at = 0;

    for (size_t i = 0; i < n_fields; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s\"%s\"",
                               i == 0             ? ""
                               : i + 1 < n_fields ? ", "
                                                  : " and ",
                               fields[i].name);
    return trace_wrong(problem, "there is no field \"%s\"; there are %s",
                       shown_of(key.bytes, key.size).text, list);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static bool read_one(struct json_text key, const struct json_value *value, size_t n_fields,
                     struct reading *reading, struct tg_problem *problem)
{
    for (size_t i = 0; i < n_fields; i++)
        if (json_text_is(key, fields[i].name))
            return fields[i].read(reading, value, problem);
    return unknown_field(key, n_fields < N_NAMED ? n_fields : N_NAMED, problem);
}

static bool read_line(struct json_reader *reader, const struct line *line, size_t n_fields,
                      struct trace_event *event, struct tg_problem *problem)
{
    struct reading reading = {.event = event};
    struct json_text key;
    struct json_value value;

    json_begin(reader, line->text, line->bytes, line->readable, &value);
    if (value.kind == JSON_ARRAY)
        return trace_wrong(problem, "a line must be a JSON object, not an array");
    json_enter(reader);
    while (json_next(reader, &key, &value))
        if (!read_one(key, &value, n_fields, &reading, problem))
            return false;
    if (!json_end(reader)) {
        const struct json_problem *json = json_reader_problem(reader);
        return trace_wrong(problem, "broken JSON: %s (at byte %zu)", json->text, json->offset + 1);
    }
    if (!reading.has_time)
        return trace_wrong(problem, "\"t\" is missing: a line must say when, in milliseconds");
    return true;
}

static void begin_event(struct trace_event *event)
{
    *event = (struct trace_event){
        .op = TRACE_ADMIT,
        .call = {.key = {"", 0}, .cost = 1},
        .priority = TG_PRIORITY_NORMAL,
        .value = -1,
    };
    tg_release_init(&event->release);
}

enum trace_result trace_read(struct json_reader *reader, const struct line *line,
                             struct trace_call *call, struct tg_problem *problem)
{
    struct trace_event event;

    if (line_is_blank(line))
        return TRACE_BLANK;
    begin_event(&event);
    if (!read_line(reader, line, N_CALL_FIELDS, &event, problem))
        return TRACE_WRONG;
    *call = event.call;
    return TRACE_CALL;
}

enum trace_result trace_read_event(struct json_reader *reader, const struct line *line,
                                   struct trace_event *event, struct tg_problem *problem)
{
    if (line_is_blank(line))
        return TRACE_BLANK;
    begin_event(event);
    if (!read_line(reader, line, N_FIELDS, event, problem))
        return TRACE_WRONG;
    if (event->id_is_number) {
        int n = snprintf(event->digits, sizeof event->digits, "%lld", (long long)event->id_number);
        event->id = (struct json_text){event->digits, (size_t)n};
    }
    if ((event->op == TRACE_RELEASE || event->op == TRACE_FIRST_BYTE) && event->id.bytes == NULL) {
        trace_wrong(problem, "\"id\" is missing: a %s must say whose",
                    event->op == TRACE_RELEASE ? "release" : "first byte");
        return TRACE_WRONG;
    }
    if (event->op == TRACE_MEMORY && !event->has_used) {
        trace_wrong(problem, "\"used\" is missing: a memory line must say how much, from 0 to 1");
        return TRACE_WRONG;
    }
    return TRACE_CALL;
}
