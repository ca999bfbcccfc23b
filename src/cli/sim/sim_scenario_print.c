/* sim_scenario_print.c - the table of `tollgate sim --scenario`, for people and as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/sim/sim_scenario.h"
#include "io/text/json_member.h"

/* ---- Text ------------------------------------------------------------------------------------ */

static void print_head(const struct scenario_table *table, int law_width)
{
    if (table->seeds > 1)
        printf("seeds %" PRIu64 " to %" PRIu64, table->seed,
               table->seed + (uint64_t)table->seeds - 1);
    else
        printf("seed %" PRIu64, table->seed);
    printf(", deadline %.10g ms (%s to the gate); goodput in %% of the ideal net of the cost of "
           "rejecting\n",
           table->options.deadline_ms, table->options.tell_deadline ? "told" : "not told");
    if (table->options.scale_capacity > 0)
        printf("workers and calls times %.10g\n", table->options.scale_capacity);
    if (table->options.scale_time > 0)
        printf("every time, the deadline included, times %.10g\n", table->options.scale_time);
    putchar('\n');
    printf("%-16s %-*s %16s %7s %15s %9s %7s\n", "scenario", law_width, "law", "goodput", "worst",
           "false rejects %", "p99 ms", "limit");
}

static void print_cell(const struct scenario_cell *cell, bool first, int law_width)
{
    const struct scenario_figure *goodput = &cell->goodput;
    char interval[32] = "";

    if (!isnan(goodput->half))
        snprintf(interval, sizeof interval, " +- %.2f", goodput->half);
    printf("%-16s %-*s %7.2f%-9s %7.2f %15.3f %9.1f %7.1f\n", first ? cell->scenario->name : "",
           law_width, cell->law->name, goodput->mean, interval, goodput->lowest,
           cell->false_rejects.mean, cell->p99_ms.mean, cell->mean_limit.mean);
    if (cell->scenario->high <= 0 && cell->scenario->low <= 0)
        return;
    printf("%-16s %-*s ", "", law_width, "");
    for (int i = 0; i < TG_PRIORITY_COUNT; i++)
        printf("%s%s %.1f %%", i > 0 ? ", " : "  admitted: ", tg_priority_name((enum tg_priority)i),
               cell->served[i].mean);
    putchar('\n');
}

void sim_scenario_print(const struct scenario_table *table, const struct scenario_cell *cells)
{
    int width = 9;

    for (size_t i = 0; i < table->n_laws; i++)
        width = (int)strlen(table->laws[i].name) > width ? (int)strlen(table->laws[i].name) : width;
    print_head(table, width);
    for (size_t i = 0; i < table->n_scenarios * table->n_laws; i++)
        print_cell(&cells[i], i % table->n_laws == 0, width);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_figure(struct json_writer *out, const char *key, double value)
{
    json_write_key(out, key);
    json_write_double(out, round(value * 10000) / 10000 + 0.0); /* + 0.0: no -0 */
}

void sim_scenario_write_figure(struct json_writer *out, const char *key,
                               const struct scenario_figure *figure)
{
    json_write_key(out, key);
    json_write_object(out);
    write_figure(out, "mean", figure->mean);
    write_figure(out, "interval", figure->half);
    write_figure(out, "lowest", figure->lowest);
    write_figure(out, "highest", figure->highest);
    json_write_object_end(out);
}

static void write_cell(struct json_writer *out, const struct scenario_cell *cell)
{
    json_write_object(out);
    json_member_text(out, "scenario", cell->scenario->name);
    json_member_text(out, "law", cell->law->name);
    sim_scenario_write_figure(out, "goodput", &cell->goodput);
    sim_scenario_write_figure(out, "goodput_of_nominal", &cell->nominal);
    sim_scenario_write_figure(out, "false_rejects", &cell->false_rejects);
    sim_scenario_write_figure(out, "p99_ms", &cell->p99_ms);
    sim_scenario_write_figure(out, "mean_limit", &cell->mean_limit);
    if (cell->scenario->high > 0 || cell->scenario->low > 0) {
        json_write_key(out, "admitted");
        json_write_object(out);
        for (int i = 0; i < TG_PRIORITY_COUNT; i++)
            sim_scenario_write_figure(out, tg_priority_name((enum tg_priority)i), &cell->served[i]);
        json_write_object_end(out);
    }
    json_member_number(out, "events", cell->events);
    json_write_object_end(out);
}

void sim_scenario_write_json(struct json_writer *out, const struct scenario_table *table,
                             const struct scenario_cell *cells)
{
    json_write_object(out);
    json_member_number(out, "seed", (int64_t)table->seed);
    json_member_number(out, "seeds", (int64_t)table->seeds);
    write_figure(out, "deadline_ms", table->options.deadline_ms);
    json_member_flag(out, "deadline_told", table->options.tell_deadline);
    write_figure(out, "scale_capacity",
                 table->options.scale_capacity > 0 ? table->options.scale_capacity : 1);
    write_figure(out, "scale_time", table->options.scale_time > 0 ? table->options.scale_time : 1);
    json_write_key(out, "rows");
    json_write_array(out);
    for (size_t i = 0; i < table->n_scenarios * table->n_laws; i++)
        write_cell(out, &cells[i]);
    json_write_array_end(out);
    json_write_object_end(out);
    json_write_line_end(out);
}
