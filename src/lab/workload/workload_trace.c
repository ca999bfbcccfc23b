/* workload_trace.c - reading the requests of a trace. See workload_trace.h. */
#include "lab/workload/workload_trace.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "io/text/json_read.h"
#include "lab/workload/workload_draw.h"

enum form { FORM_NOT_KNOWN, FORM_CSV, FORM_JSON };

/* A trace while it is read. */
struct reading {
    struct lines lines;
    struct json_reader *reader;
    enum form form;
    struct workload_columns columns;
    struct cluster_config *config;
    struct workload *workload;
    struct workload_problem *problem;
};

enum workload_read workload_wrong(struct workload_problem *problem, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(problem->text, sizeof problem->text, format, args);
    va_end(args);
    return WORKLOAD_WRONG;
}

static enum workload_read workload_trace_no_memory(struct workload_problem *problem)
{
    workload_wrong(problem, "%s", tg_strerror(TG_ERR_MEMORY));
    return WORKLOAD_NO_MEMORY;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* The first line that says anything says which form it is. */
static enum workload_read first_line(struct reading *reading, const struct line *line)
{
    size_t i = 0;

    while (i < line->bytes && (line->text[i] == ' ' || line->text[i] == '\t'))
        i++;
    if (line->text[i] != '{') {
        reading->form = FORM_CSV;
        return workload_csv_head(line, &reading->columns, reading->problem);
    }
    reading->form = FORM_JSON;
    return workload_json_line(reading->reader, line, reading->config, reading->workload,
                              reading->problem);
}

static enum workload_read any_line(struct reading *reading, const struct line *line)
{
    if (line_is_blank(line))
        return WORKLOAD_READ;
    if (reading->form == FORM_NOT_KNOWN)
        return first_line(reading, line);
    if (reading->form == FORM_CSV)
        return workload_csv_line(line, &reading->columns, reading->config, reading->workload,
                                 reading->problem);
    return workload_json_line(reading->reader, line, reading->config, reading->workload,
                              reading->problem);
}

static enum workload_read end_of_lines(struct reading *reading, enum lines_result result)
{
    switch (result) {
    case LINES_LINE:
    case LINES_END:
        return WORKLOAD_READ;
    case LINES_TOO_LONG:
        return workload_wrong(reading->problem, "a line may have %zu bytes, this one has more",
                              LINES_BYTES_MAX);
    case LINES_NO_MEMORY:
        return workload_trace_no_memory(reading->problem);
    case LINES_UNREADABLE:
        break;
    }
    return workload_wrong(reading->problem, "cannot be read: %s", strerror(errno));
}

static enum workload_read read_lines(struct reading *reading)
{
    enum lines_result result;
    struct line line;

    while ((result = lines_next(&reading->lines, &line)) == LINES_LINE) {
        reading->problem->line = reading->lines.number;
        enum workload_read read = any_line(reading, &line);
        if (read != WORKLOAD_READ)
            return read;
    }
    reading->problem->line = reading->lines.number;
    return end_of_lines(reading, result);
}

/* ---- What no line says alone ----------------------------------------------------------------- */

static int32_t guess(bool known, int64_t mean, int64_t allowed)
{
    int64_t output = known ? mean : allowed;

    if (allowed >= 0 && output > allowed)
        output = allowed;
    return (int32_t)(output < 1 ? 1 : output > LENGTH_MAX ? LENGTH_MAX : output);
}

/* Calls whose output is not known are as long as the average of the others, within what their
 * clients allow. */
static void guess_outputs(struct workload *workload)
{
    struct cluster_workload *load = &workload->load;
    double sum = 0;
    size_t known = 0;

    if (workload->notes == NULL)
        return;
    assert(workload->notes_capacity >= load->n); /* sorting has made them all */
    for (size_t i = 0; i < load->n; i++)
        if (!workload->notes[i].guess_output) {
            sum += load->requests[i].output_tokens;
            known++;
        }
    int64_t mean = known > 0 ? (int64_t)(sum / (double)known + 0.5) : 0;
    for (size_t i = 0; i < load->n; i++) {
        struct cluster_request *request = &load->requests[i];
        if (!workload->notes[i].guess_output)
            continue;
        request->output_tokens = guess(known > 0, mean, workload->notes[i].allowed);
        request->max_output_tokens = request->output_tokens;
    }
}

/* Time since 1970 is of no use to a simulation that begins at 0. */
static void move_to_start(struct workload *workload)
{
    struct cluster_workload *load = &workload->load;

    if (load->n == 0 || load->requests[0].arrival_us < WORKLOAD_EPOCH_MS * 1000)
        return;
    workload->epoch_ms = load->requests[0].arrival_us / 1000;
    int64_t start = workload->epoch_ms * 1000;
    for (size_t i = 0; i < load->n; i++) {
        struct cluster_request *request = &load->requests[i];
        assert(request->arrival_us >= start); /* the first one is the earliest */
        request->arrival_us -= start;
        if (request->deadline_us > 0)
            request->deadline_us = request->deadline_us > start ? request->deadline_us - start : 1;
    }
}

static enum workload_read workload_trace_finish(struct reading *reading)
{
    reading->problem->line = 0;
    if (reading->workload->load.n == 0)
        return workload_wrong(reading->problem, "no requests in it");
    if (!workload_sort(reading->workload))
        return workload_trace_no_memory(reading->problem);
    guess_outputs(reading->workload);
    move_to_start(reading->workload);
    return WORKLOAD_READ;
}

enum workload_read workload_trace_read(int fd, struct cluster_config *config,
                                       struct workload *workload, struct workload_problem *problem)
{
    struct reading reading = {.config = config, .workload = workload, .problem = problem};

    *problem = (struct workload_problem){.line = 0};
    reading.reader = json_reader_new();
    if (reading.reader == NULL)
        return workload_trace_no_memory(problem);
    lines_init(&reading.lines, fd);
    enum workload_read read = read_lines(&reading);
    lines_fini(&reading.lines);
    json_reader_free(reading.reader);
    return read == WORKLOAD_READ ? workload_trace_finish(&reading) : read;
}
