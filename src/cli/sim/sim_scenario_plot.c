/* sim_scenario_plot.c - the picture of `tollgate sim --scenario`: goodput by scenario and law.
 *
 * One group of bars for each scenario, one bar for each law, with the 95 % interval of the mean at
 * its end, the worst run as a tick, and false rejects beside the number where there are any.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/sim/sim_chart.h"
#include "cli/sim/sim_scenario.h"

#define SOFT "#5c6570"
#define GRID "#e3e6ea"
#define DARK "#1b1f24"
#define LEFT 150.0
#define WIDTH 620.0
#define PAGE 920.0
#define HEAD 104.0
#define FOOT 48.0
#define BAR 8.0
#define PITCH 11.0
#define GROUP_GAP 12.0
#define GOAL 98.0

struct plot {
    struct svg *svg;
    const struct scenario_table *table;
    const struct scenario_cell *cells;
    double highest;
};

static double x_of(const struct plot *plot, double percent)
{
    return LEFT + fmax(0, percent) / plot->highest * WIDTH;
}

static double group_height(const struct plot *plot)
{
    return (double)plot->table->n_laws * PITCH + GROUP_GAP;
}

static void draw_axis(const struct plot *plot, double bottom)
{
    const double goal = x_of(plot, GOAL), y[2] = {HEAD - 6, bottom}, x[2] = {goal, goal};
    char text[16];

    for (int at = 0; at <= 100; at += 20) {
        svg_line(plot->svg,
                 &(struct svg_line){x_of(plot, at), HEAD - 6, x_of(plot, at), bottom, GRID});
        snprintf(text, sizeof text, "%d%s", at, at == 100 ? " %" : "");
        svg_text(plot->svg, &(struct svg_text){x_of(plot, at), bottom + 16, SVG_MIDDLE, 11, SOFT,
                                               false, text});
    }
    svg_path(plot->svg, &(struct svg_path){.x = x, .y = y, .n = 2, .stroke = SOFT, .dashed = true});
}

static void draw_cell(const struct plot *plot, const struct scenario_cell *cell, size_t law,
                      double y)
{
    const struct scenario_figure *goodput = &cell->goodput;
    double end = x_of(plot, goodput->mean), middle = y + BAR / 2;
    char text[64];

    svg_rect(plot->svg,
             &(struct svg_rect){LEFT, y, fmax(1, end - LEFT), BAR, chart_colour(law), NULL});
    if (!isnan(goodput->half)) {
        double low = x_of(plot, goodput->mean - goodput->half);
        double high = x_of(plot, fmin(plot->highest, goodput->mean + goodput->half));
        svg_line(plot->svg, &(struct svg_line){low, middle, high, middle, DARK});
        svg_line(plot->svg, &(struct svg_line){x_of(plot, goodput->lowest), y,
                                               x_of(plot, goodput->lowest), y + BAR, DARK});
        end = fmax(end, high);
    }
    if (cell->false_rejects.mean >= 0.005)
        snprintf(text, sizeof text, "%.1f, false rejects %.2f", goodput->mean,
                 cell->false_rejects.mean);
    else
        snprintf(text, sizeof text, "%.1f", goodput->mean);
    svg_text(plot->svg,
             &(struct svg_text){end + 5, y + BAR - 0.5, SVG_START, 10, SOFT, false, text});
}

static void draw_group(const struct plot *plot, size_t scenario)
{
    size_t n = plot->table->n_laws;
    double top = HEAD + (double)scenario * group_height(plot);

    svg_text(plot->svg, &(struct svg_text){LEFT - 10, top + (double)n * PITCH / 2 + 4, SVG_END, 12,
                                           NULL, false, plot->table->scenarios[scenario]->name});
    for (size_t law = 0; law < n; law++)
        draw_cell(plot, &plot->cells[scenario * n + law], law, top + (double)law * PITCH);
}

static void draw_head(const struct plot *plot)
{
    const struct scenario_table *table = plot->table;
    double x = LEFT;
    char text[200];

    svg_text(plot->svg, &(struct svg_text){24, 34, SVG_START, 20, NULL, true,
                                           "Goodput in overload scenarios"});
    snprintf(text, sizeof text,
             "Percent of the ideal net of the cost of rejecting; seeds %llu to %llu, deadline "
             "%.10g ms, %s to the gate. Longer is better; the dashed line is %g %%.",
             (unsigned long long)table->seed, (unsigned long long)(table->seed + table->seeds - 1),
             table->options.deadline_ms, table->options.tell_deadline ? "told" : "not told", GOAL);
    svg_text(plot->svg, &(struct svg_text){24, 56, SVG_START, 12, SOFT, false, text});
    for (size_t law = 0; law < table->n_laws; law++) {
        const char *name = table->laws[law].name;
        svg_rect(plot->svg, &(struct svg_rect){x, 72, 14, 10, chart_colour(law), NULL});
        svg_text(plot->svg, &(struct svg_text){x + 20, 81, SVG_START, 12, NULL, false, name});
        x += 20 + 7.2 * (double)strlen(name) + 22;
    }
}

void sim_scenario_draw(struct svg *svg, const struct scenario_table *table,
                       const struct scenario_cell *cells)
{
    struct plot plot = {.svg = svg, .table = table, .cells = cells, .highest = 100};
    double bottom = HEAD + (double)table->n_scenarios * group_height(&plot);

    for (size_t i = 0; i < table->n_scenarios * table->n_laws; i++)
        plot.highest = fmax(plot.highest, cells[i].goodput.mean);
    svg_begin(svg, PAGE, bottom + FOOT, "Goodput in overload scenarios",
              "Bars of goodput by scenario and law; longer is better.");
    draw_axis(&plot, bottom);
    draw_head(&plot);
    for (size_t i = 0; i < table->n_scenarios; i++)
        draw_group(&plot, i);
    svg_end(svg);
}
