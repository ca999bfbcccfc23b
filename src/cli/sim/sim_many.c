/* sim_many.c - `tollgate sim --compare` and `--sweep`: the same load under several settings.
 *
 * Every run is a row. A comparison takes its rows from files: a policy file is one policy, the
 * configuration of a gate is another. A sweep changes one number from row to row. What the load is
 * made from is made once, unless it is what the sweep changes.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/output.h"
#include "cli/common/replace_file.h"
#include "cli/sim/sim_effect.h"
#include "cli/sim/sim_many.h"
#include "io/text/json_member.h"
#include "lab/workload/workload_yaml.h"

/* ---- Rows of a sweep ------------------------------------------------------------------------- */

#define STEPS_MAX (100 * SIM_MANY_MAX)

static int bad_sweep(const struct command *command, const char *text)
{
    command_say(command,
                "--sweep is '%s'; it must be NAME=FROM:TO:xFACTOR or NAME=FROM:TO:+STEP, such as "
                "token-bucket-capacity=1000:100000:x2, for an option that takes a number",
                text);
    return STATUS_WRONG;
}

/* The three numbers behind the name. */
static bool read_span(const char *text, double *from, double *to, char *how, double *by)
{
    char *end;

    *from = strtod(text, &end);
    if (end == text || *end != ':')
        return false;
    text = end + 1;
    *to = strtod(text, &end);
    if (end == text || *end != ':')
        return false;
    *how = end[1];
    text = end + 2;
    if (*how != 'x' && *how != '+')
        return false;
    *by = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*from) && isfinite(*to) && isfinite(*by) &&
           *from <= *to && (*how == 'x' ? *by > 1 && *from > 0 : *by > 0);
}

static bool add_value(struct sim_many *many, int option, bool whole, double value)
{
    struct sim_row_of *row = &many->rows[many->n];

    if (whole)
        value = round(value);
    if (many->n > 0 && value <= many->rows[many->n - 1].value)
        return true;
    if (many->n == SIM_MANY_MAX)
        return false;
    row->value = value;
    snprintf(row->name, sizeof row->name, whole ? "%.0f" : "%.10g", value);
    row->asked = many->asked;
    row->asked.texts[option] = row->name;
    many->n++;
    return true;
}

static int make_sweep(struct sim_many *many, const struct command *command, const char *text)
{
    size_t bytes = strcspn(text, "=");
    double from, to, by;
    char how;
    bool whole;
    int option = sim_option_number(text, bytes, &whole);

    if (option < 0 || text[bytes] != '=' || !read_span(text + bytes + 1, &from, &to, &how, &by))
        return bad_sweep(command, text);
    many->option = option;
    many->log = how == 'x';
    many->new_load = sim_option_makes_load(option);
    for (int i = 0;; i++) {
        double value = how == 'x' ? from * pow(by, i) : from + by * i;
        if (value > to * (1 + 1e-12))
            return STATUS_DONE;
        /* Steps too small to make a row, one after the other, would not end. */
        if (i == STEPS_MAX || !add_value(many, option, whole, value)) {
            command_say(command, "--sweep is '%s': a sweep may have %d rows, this one has more",
                        text, SIM_MANY_MAX);
            return STATUS_WRONG;
        }
    }
}

/* ---- Rows of a comparison -------------------------------------------------------------------- */

/* Whether a file is the configuration of a gate; otherwise it is a policy file, or wrong, and its
 * own reader says so. */
static bool is_gate(const char *text, size_t bytes)
{
    struct arena *arena = arena_new();
    struct yaml_problem problem;
    struct yaml_node *root = NULL;
    bool gate = false;

    if (arena != NULL && yaml_document_read(arena, text, bytes, &root, &problem) &&
        root->kind == YAML_MAP)
        gate = yaml_tree_get(root, "admission") == NULL && yaml_tree_get(root, "routing") == NULL &&
               yaml_tree_get(root, "scheduler") == NULL &&
               yaml_tree_get(root, "tenant_budgets") == NULL;
    arena_free(arena);
    return gate;
}

/* The file decides, so options that would beat it are left out. */
static int add_file(struct sim_many *many, const struct command *command)
{
    struct sim_row_of *row = &many->rows[many->n];
    size_t bytes;
    char *text = sim_file_read(command, row->name, &bytes);

    if (text == NULL)
        return STATUS_WRONG;
    bool gate = is_gate(text, bytes);
    free(text);
    row->asked = many->asked;
    row->asked.texts[sim_option_find("-c")] = gate ? row->name : NULL;
    row->asked.texts[sim_option_find("--policy-config")] = gate ? NULL : row->name;
    row->asked.texts[sim_option_find("--admission-policy")] = gate ? "gate" : NULL;
    many->n++;
    return STATUS_DONE;
}

static int make_comparison(struct sim_many *many, const struct command *command, const char *text)
{
    const char *at = text;

    while (*at != '\0') {
        size_t bytes = strcspn(at, ",");
        struct sim_row_of *row = &many->rows[many->n];
        if (many->n == SIM_COMPARE_MAX || bytes == 0 || bytes >= sizeof row->name) {
            command_say(command,
                        "--compare is '%s'; it must be two to %d files with commas "
                        "between them",
                        text, SIM_COMPARE_MAX);
            return STATUS_WRONG;
        }
        memcpy(row->name, at, bytes);
        row->name[bytes] = '\0';
        int status = add_file(many, command);
        if (status != STATUS_DONE)
            return status;
        at += bytes + (at[bytes] == ',');
    }
    if (many->n >= 2)
        return STATUS_DONE;
    command_say(command, "--compare is '%s'; one file is compared with nothing", text);
    return STATUS_WRONG;
}

/* ---- Running --------------------------------------------------------------------------------- */

static void sim_many_keep(struct sim_many *many, struct sim_row_of *row, const struct sim_run *run)
{
    const char *name = row->name;

    row->summary = run->result.all;
    many->goals = many->goals || sim_has_goals(&run->config);
    if (many->plots && many->option < 0 && !sim_bins_init(&row->bins, run))
        many->out.text.failed = true;
    json_write_object(&many->out);
    json_write_key(&many->out, many->option < 0 ? "file" : "value");
    if (many->option < 0)
        json_write_string(&many->out, name, strlen(name));
    else
        json_write_double(&many->out, row->value);
    sim_write_numbers(&many->out, run);
    json_write_object_end(&many->out);
}

/* One row with its load, which is the shared one or its own. */
static int run_row(struct sim_many *many, const struct command *command, struct sim_row_of *row)
{
    struct sim_settings settings;
    struct sim_run run = {.settings = NULL};
    int status = sim_settings_make(command, &row->asked, &settings) ? STATUS_DONE : STATUS_WRONG;

    settings.many_loads = many->new_load;
    if (status == STATUS_DONE && (many->new_load || !many->has_load)) {
        if (many->has_load) {
            workload_fini(&many->workload);
            sim_settings_fini(&many->first);
        }
        many->has_load = true;
        many->first = settings;
        many->first.arena = NULL;
        status = sim_load_make(command, &many->first, &many->workload);
    }
    if (status == STATUS_DONE)
        status = sim_run_init(&run, command, &settings, &many->workload, &many->first);
    if (status == STATUS_DONE)
        sim_many_keep(many, row, &run);
    sim_run_fini(&run);
    sim_settings_fini(&settings);
    return status;
}

/* All rows are looked at before the first one is run. */
static int check_rows(const struct sim_many *many, const struct command *command)
{
    struct sim_effects effects = {.why = {NULL}};

    for (size_t i = 0; i < many->n; i++) {
        struct sim_settings settings;
        bool made = sim_settings_make(command, &many->rows[i].asked, &settings);
        if (made)
            sim_effects_collect(&effects, &many->rows[i].asked, &settings);
        sim_settings_fini(&settings);
        if (!made)
            return STATUS_WRONG;
    }
    return sim_effects_check(&effects, command) ? STATUS_DONE : STATUS_WRONG;
}

/* Options whose place in each row is taken by what the rows differ in. */
static bool is_replaced(const struct sim_many *many, const struct command *command)
{
    static const char *const by_files[] = {"--admission-policy", "--policy-config", "-c"};

    if (many->option >= 0 && many->asked.texts[many->option] != NULL) {
        command_say(command, "%s has no effect here: --sweep gives it",
                    sim_option_name(many->option));
        return true;
    }
    for (size_t i = 0; many->option < 0 && i < 3; i++)
        if (many->asked.texts[sim_option_find(by_files[i])] != NULL) {
            command_say(command, "%s has no effect here: with --compare the files say it",
                        by_files[i]);
            return true;
        }
    return false;
}

static int run_rows(struct sim_many *many, const struct command *command)
{
    bool shown = isatty(STDERR_FILENO);
    int status = STATUS_DONE;

    for (size_t i = 0; i < many->n && status == STATUS_DONE; i++) {
        if (shown)
            fprintf(stderr, "\r\033[K%zu of %zu: %s", i + 1, many->n, many->rows[i].name);
        status = run_row(many, command, &many->rows[i]);
    }
    if (shown)
        fputs("\r\033[K", stderr);
    return status;
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void print_rows(const struct sim_many *many)
{
    const char *head = many->option < 0 ? "file" : sim_option_name(many->option) + 2;
    int width = (int)strlen(head);

    for (size_t i = 0; i < many->n; i++)
        if ((int)strlen(many->rows[i].name) > width)
            width = (int)strlen(many->rows[i].name);
    printf("%-*s %9s %9s %10s %9s %10s %9s %10s%s\n", width, head, "completed", "rejected",
           "TTFT mean", "TTFT p99", "E2E mean", "E2E p99", "tokens/s",
           many->goals ? "      good" : "");
    for (size_t i = 0; i < many->n; i++) {
        const struct cluster_summary *row = &many->rows[i].summary;
        printf("%*s %9" PRId64 " %9" PRId64 " %10.2f %9.2f %10.2f %9.2f %10.1f",
               many->option < 0 ? -width : width, many->rows[i].name,
               row->status[CLUSTER_COMPLETED], row->status[CLUSTER_REJECTED], row->ttft.mean_ms,
               row->ttft.p99_ms, row->e2e.mean_ms, row->e2e.p99_ms, row->tokens_per_s);
        if (many->goals)
            printf("   %5.1f %%", 100 * (double)row->good / (double)row->num_requests);
        putchar('\n');
    }
    printf("\nTimes in milliseconds.\n");
}

static int give(struct sim_many *many, const struct command *command,
                const struct sim_settings *settings)
{
    json_write_array_end(&many->out);
    json_write_object_end(&many->out);
    json_write_line_end(&many->out);
    if (settings->plot != NULL) {
        struct svg svg;
        sim_many_draw(&svg, many);
        bool written = sim_plot_write(command, settings->plot, &svg);
        svg_fini(&svg);
        if (!written)
            return STATUS_FAILED;
    }
    if (settings->json)
        return output_send(&many->out) ? STATUS_DONE : output_failed(command);
    print_rows(many);
    return STATUS_DONE;
}

static void begin_json(struct sim_many *many)
{
    json_write_object(&many->out);
    if (many->option >= 0) {
        const char *name = sim_option_name(many->option) + 2;
        json_member_text(&many->out, "sweep", name);
    }
    json_write_key(&many->out, "rows");
    json_write_array(&many->out);
}

static int make_and_run(struct sim_many *many, const struct command *command,
                        const struct sim_settings *settings)
{
    int status = settings->sweep != NULL ? make_sweep(many, command, settings->sweep)
                                         : make_comparison(many, command, settings->compare);

    if (status == STATUS_DONE && is_replaced(many, command))
        status = STATUS_WRONG;
    if (status == STATUS_DONE)
        status = check_rows(many, command);
    if (status != STATUS_DONE)
        return status;
    if (settings->plot != NULL && !replace_file_check(settings->plot)) {
        command_say(command, "cannot write %s: %s", settings->plot, strerror(errno));
        return STATUS_FAILED;
    }
    begin_json(many);
    status = run_rows(many, command);
    return status == STATUS_DONE ? give(many, command, settings) : status;
}

int sim_run_many(const struct command *command, const struct sim_asked *asked,
                 const struct sim_settings *settings)
{
    struct sim_many *many = calloc(1, sizeof *many);

    if (many == NULL) {
        command_say(command, "%s", tg_strerror(TG_ERR_MEMORY));
        return STATUS_FAILED;
    }
    many->asked = *asked;
    many->option = -1;
    many->plots = settings->plot != NULL;
    many->asked.texts[sim_option_find("--sweep")] = NULL;
    json_writer_init(&many->out);
    int status = make_and_run(many, command, settings);
    for (size_t i = 0; i < many->n; i++)
        sim_bins_fini(&many->rows[i].bins);
    json_writer_fini(&many->out);
    if (many->has_load)
        workload_fini(&many->workload);
    free(many);
    return status;
}
