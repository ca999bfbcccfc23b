/* regret_print.c - a table of regret as JSON and as text.
 *
 * JSON has four digits after the point, so that two are true when they are rounded again; text has
 * two. What does not apply is null, and a dash.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/regret_output.h"
#include "io/text/json_member.h"

/* ---- JSON ------------------------------------------------------------------------------------ */

static void regret_print_write_text(struct json_writer *out, const char *key, const char *text)
{
    if (text == NULL)
        return;
    json_member_text(out, key, text);
}

static void write_percent(struct json_writer *out, const char *key, double percent)
{
    json_write_key(out, key);
    json_write_double(out, round(percent * 10000) / 10000 + 0.0); /* + 0.0: no -0 */
}

static void write_row(struct json_writer *out, const struct regret_suite *suite,
                      const struct regret_row *row)
{
    json_write_object(out);
    regret_print_write_text(out, "world", row->world);
    regret_print_write_text(out, "column", row->column);
    regret_print_write_text(out, "set", row->set);
    regret_print_write_text(out, "prior", row->prior);
    if (!isnan(row->rho)) {
        json_member_real(out, "rho", row->rho);
    }
    regret_print_write_text(out, "measure", row->measure);
    for (size_t i = 0; suite->policies[i] != NULL; i++)
        write_percent(out, suite->policies[i], row->percent[i]);
    json_write_object_end(out);
}

static void write_mean(struct json_writer *out, const struct regret_suite *suite,
                       const struct regret_row *row)
{
    json_write_key(out, "mean");
    json_write_object(out);
    for (size_t i = 0; suite->policies[i] != NULL; i++)
        write_percent(out, suite->policies[i], row->percent[i]);
    json_write_object_end(out);
}

/* A suite of one world has its mean for itself, one of several a list. */
static bool has_one_mean(const struct regret_table *table)
{
    return table->n_summary == 1 && table->summary[0].world == NULL;
}

void regret_write_json(struct json_writer *out, const struct regret_result *result)
{
    const struct regret_table *table = result->table;

    json_write_object(out);
    json_write_key(out, "rows");
    json_write_array(out);
    for (size_t i = 0; i < table->n_rows; i++)
        write_row(out, result->suite, &table->rows[i]);
    json_write_array_end(out);
    if (has_one_mean(table)) {
        write_mean(out, result->suite, &table->summary[0]);
    } else if (table->n_summary > 0) {
        json_write_key(out, "summary");
        json_write_array(out);
        for (size_t i = 0; i < table->n_summary; i++)
            write_row(out, result->suite, &table->summary[i]);
        json_write_array_end(out);
    }
    json_write_object_end(out);
    json_write_line_end(out);
}

/* ---- Text ------------------------------------------------------------------------------------ */

#define LABEL_WIDTH 11

static void print_label(const char *text)
{
    if (text != NULL)
        printf("%-*s", LABEL_WIDTH, text);
}

/* A column as wide as its heading, and two blanks before it. */
static int width_of(const char *policy)
{
    int width = (int)strlen(policy);

    return 2 + (width > 6 ? width : 6);
}

static void print_head(const struct regret_suite *suite, const struct regret_row *row)
{
    print_label(row->set != NULL ? "set" : NULL);
    print_label(row->prior != NULL ? "prior" : NULL);
    print_label(row->world != NULL ? "world" : NULL);
    print_label(row->column != NULL ? "column" : isnan(row->rho) ? NULL : "rho");
    for (size_t i = 0; suite->policies[i] != NULL; i++)
        printf("%*s", width_of(suite->policies[i]), suite->policies[i]);
    putchar('\n');
}

static void print_row(const struct regret_suite *suite, const struct regret_row *row)
{
    char rho[16];

    print_label(row->set);
    print_label(row->prior);
    print_label(row->world);
    snprintf(rho, sizeof rho, "%g", row->rho);
    print_label(row->measure != NULL  ? row->measure
                : row->column != NULL ? row->column
                : isnan(row->rho)     ? NULL
                                      : rho);
    for (size_t i = 0; suite->policies[i] != NULL; i++) {
        double percent = round(row->percent[i] * 100) / 100 + 0.0;
        if (isnan(percent))
            printf("%*s", width_of(suite->policies[i]), "-");
        else
            printf("%*.2f", width_of(suite->policies[i]), percent);
    }
    putchar('\n');
}

/* The summaries of a group follow its last row. */
static void print_groups(const struct regret_suite *suite, const struct regret_table *table)
{
    for (size_t i = 0; i < table->n_rows; i++) {
        const struct regret_row *row = &table->rows[i];
        print_row(suite, row);
        if (i + 1 < table->n_rows && regret_same_panel(row, row + 1))
            continue;
        for (size_t j = 0; j < table->n_summary; j++)
            if (regret_same_panel(row, &table->summary[j]) && row->world == table->summary[j].world)
                print_row(suite, &table->summary[j]);
        if (i + 1 < table->n_rows)
            putchar('\n');
    }
}

static void print_worlds(const struct regret_table *table)
{
    const char *last = NULL;

    for (size_t i = 0; i < table->n_rows; i++) {
        const struct regret_row *row = &table->rows[i];
        if (row->about == NULL || row->world == last)
            continue;
        printf("%s%-*s%s\n", last == NULL ? "\n" : "", LABEL_WIDTH, row->world, row->about);
        last = row->world;
    }
}

void regret_print(const struct regret_result *result)
{
    const struct regret_options *options = result->options;

    printf("%s.\nRegret in percent of %s; seeds %llu to %llu.\n\n", result->suite->title,
           result->suite->denominator, (unsigned long long)options->seed,
           (unsigned long long)(options->seed + options->seeds - 1));
    print_head(result->suite, &result->table->rows[0]);
    print_groups(result->suite, result->table);
    print_worlds(result->table);
}
