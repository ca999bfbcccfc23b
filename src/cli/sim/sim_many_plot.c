/* sim_many_plot.c - several runs of the simulator as a picture. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/sim/sim_chart.h"
#include "cli/sim/sim_many.h"

#define HEAD 84.0
#define FOOT 40.0
#define SOFT "#5f5f5f"

static void draw_heading(struct svg *svg, const char *title, const char *about)
{
    svg_text(svg, &(struct svg_text){32, 38, SVG_START, 20, NULL, true, title});
    svg_text(svg, &(struct svg_text){32, 62, SVG_START, 13, SOFT, false, about});
}

static double panel_top(size_t number)
{
    return HEAD + CHART_TITLE + (double)number * CHART_PITCH;
}

/* ---- Sweeps ---------------------------------------------------------------------------------- */

/* Up to three series of one panel, over the values. */
struct series {
    const char *title;
    struct chart_mark marks[3];
    double (*of[3])(const struct cluster_summary *summary);
    size_t n;
};

static double share(const struct cluster_summary *summary, enum cluster_status status)
{
    double all = (double)summary->num_requests;

    return all > 0 ? 100 * (double)summary->status[status] / all : 0;
}

static double completed(const struct cluster_summary *summary)
{
    return share(summary, CLUSTER_COMPLETED);
}

static double rejected(const struct cluster_summary *summary)
{
    return share(summary, CLUSTER_REJECTED);
}

static double timed_out(const struct cluster_summary *summary)
{
    return share(summary, CLUSTER_TIMED_OUT);
}

static double ttft_mean(const struct cluster_summary *summary)
{
    return summary->ttft.mean_ms;
}

static double ttft_p99(const struct cluster_summary *summary)
{
    return summary->ttft.p99_ms;
}

static double tokens(const struct cluster_summary *summary)
{
    return summary->tokens_per_s;
}

static void draw_series(struct svg *svg, const struct sim_many *many, size_t number,
                        const struct series *series, const char *x_title)
{
    struct chart chart = {.svg = svg,
                          .title = series->title,
                          .x_title = x_title,
                          .top = panel_top(number),
                          .x_low = many->rows[0].value,
                          .x_high = many->rows[many->n - 1].value,
                          .x_log = many->log};
    double x[SIM_MANY_MAX], y[3][SIM_MANY_MAX];
    struct chart_mark marks[3] = {{NULL, NULL, false, false}};
    size_t shown = 0;

    if (chart.x_high <= chart.x_low)
        chart.x_high = chart.x_low > 0 ? chart.x_low * 2 : chart.x_low + 1;
    for (size_t i = 0; i < many->n; i++)
        x[i] = many->rows[i].value;
    for (size_t s = 0; s < series->n; s++) {
        double most = 0;
        for (size_t i = 0; i < many->n; i++) {
            y[shown][i] = series->of[s](&many->rows[i].summary);
            most = fmax(most, y[shown][i]);
        }
        if (s >= 2 && most == 0) /* what never happens needs no line */
            continue;
        chart_fit(&chart, y[shown], many->n);
        marks[shown++] = series->marks[s];
    }
    chart_frame(&chart, marks, shown);
    for (size_t s = 0; s < shown; s++) {
        chart_line(&chart, &marks[s], x, y[s], many->n);
        if (many->n <= 40)
            chart_dots(&chart, &marks[s], x, y[s], many->n);
    }
}

static void draw_sweep(struct svg *svg, const struct sim_many *many)
{
    static const struct series all[] = {
        {"Requests, percent",
         {{"completed", "#009e73", false, false},
          {"rejected", "#d55e00", false, false},
          {"timed out", "#3d3d3d", false, true}},
         {completed, rejected, timed_out},
         3},
        {"Time to the first token, ms",
         {{"mean", "#0b5fa5", false, false}, {"p99", "#d55e00", false, false}, {NULL, NULL, 0, 0}},
         {ttft_mean, ttft_p99, NULL},
         2},
        {"Output, tokens a second",
         {{"tokens", "#0b5fa5", false, false}, {NULL, NULL, 0, 0}, {NULL, NULL, 0, 0}},
         {tokens, NULL, NULL},
         1},
    };
    const char *name = sim_option_name(many->option) + 2;
    char title[160], about[200];

    svg_begin(svg, CHART_PAGE, HEAD + 3 * CHART_PITCH + FOOT, "A sweep of tollgate sim",
              "Requests, time to first token and output, by the number that is swept.");
    snprintf(title, sizeof title, "What %s does", name);
    snprintf(about, sizeof about, "%zu runs, from %.40s to %.40s", many->n, many->rows[0].name,
             many->rows[many->n - 1].name);
    draw_heading(svg, title, about);
    for (size_t i = 0; i < 3; i++)
        draw_series(svg, many, i, &all[i], i == 2 ? name : NULL);
    svg_end(svg);
}

/* ---- Comparisons ----------------------------------------------------------------------------- */

static double end_of(const struct sim_many *many)
{
    double end = 0;

    for (size_t i = 0; i < many->n; i++)
        end = fmax(end, many->rows[i].bins.end_s);
    return end;
}

/* The last part of a path is enough to tell files apart, and fits. */
static const char *short_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static void draw_row(struct svg *svg, const struct sim_many *many, size_t number, const char *title,
                     enum sim_row row, const char *x_title)
{
    const char *unused;
    double end = end_of(many), unit = sim_time_unit(end, &unused), x[256];
    struct chart_mark marks[SIM_COMPARE_MAX];
    struct chart chart = {.svg = svg,
                          .title = title,
                          .x_title = x_title,
                          .top = panel_top(number),
                          .x_high = end / unit};

    for (size_t i = 0; i < many->n; i++) {
        marks[i] =
            (struct chart_mark){short_name(many->rows[i].name), chart_colour(i), false, false};
        chart_fit(&chart, many->rows[i].bins.rows[row], many->rows[i].bins.n);
    }
    chart_frame(&chart, marks, many->n);
    for (size_t i = 0; i < many->n; i++) {
        const struct sim_bins *bins = &many->rows[i].bins;
        size_t n = bins->n < 256 ? bins->n : 256;
        for (size_t k = 0; k < n; k++)
            x[k] = bins->rows[SIM_ROW_X][k] / unit;
        chart_line(&chart, &marks[i], x, bins->rows[row], n);
    }
}

static void draw_comparison(struct svg *svg, const struct sim_many *many)
{
    const char *unit;
    char x_title[48];

    sim_time_unit(end_of(many), &unit);
    snprintf(x_title, sizeof x_title, "time, %s", unit);
    svg_begin(
        svg, CHART_PAGE, HEAD + 4 * CHART_PITCH + FOOT, "A comparison by tollgate sim",
        "Completed and refused requests, requests inside and time to first token, over time.");
    draw_heading(svg, "Policies compared", "The same requests, each policy by itself.");
    draw_row(svg, many, 0, "Completed, requests a second", SIM_ROW_COMPLETED, NULL);
    draw_row(svg, many, 1, "Refused, requests a second", SIM_ROW_REFUSED, NULL);
    draw_row(svg, many, 2, "Running, requests", SIM_ROW_RUNNING, NULL);
    draw_row(svg, many, 3, "Time to the first token at p99, ms", SIM_ROW_TTFT_P99, x_title);
    svg_end(svg);
}

void sim_many_draw(struct svg *svg, const struct sim_many *many)
{
    if (many->option >= 0)
        draw_sweep(svg, many);
    else
        draw_comparison(svg, many);
}
