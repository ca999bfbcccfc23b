/* sim_plot.c - a run of the simulator as a picture: load, refusals, queues and times, over time.
 *
 * Four panels above each other share the axis of time, so that a rise in one can be followed to its
 * cause in another. Quantities of different units have panels of their own; none has two scales.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/replace_file.h"
#include "cli/sim/sim_bins.h"
#include "cli/sim/sim_chart.h"

#define HEAD 96.0
#define FOOT 28.0
#define SOFT "#5f5f5f"

struct plot {
    struct svg *svg;
    const struct sim_run *run;
    struct sim_bins bins;
    double *x; /* in the unit of time */
    double unit;
    const char *unit_name;
};

static struct chart panel(const struct plot *plot, size_t number, const char *title)
{
    return (struct chart){.svg = plot->svg,
                          .title = title,
                          .top = HEAD + CHART_TITLE + (double)number * CHART_PITCH,
                          .x_high = plot->bins.end_s / plot->unit};
}

/* ---- Panels ---------------------------------------------------------------------------------- */

static void draw_load(const struct plot *plot, struct chart chart)
{
    static const struct chart_mark marks[] = {
        {"arrived", "#d9d9d9", true, false},
        {"admitted", "#0b5fa5", false, false},
        {"completed", "#009e73", false, false},
    };
    double *const *rows = plot->bins.rows;
    size_t n = plot->bins.n;
    double *zero = calloc(n, sizeof *zero);

    if (zero == NULL) {
        plot->svg->out.failed = true;
        return;
    }
    chart_fit(&chart, rows[SIM_ROW_ARRIVED], n);
    chart_fit(&chart, rows[SIM_ROW_ADMITTED], n);
    chart_fit(&chart, rows[SIM_ROW_COMPLETED], n);
    chart_frame(&chart, marks, 3);
    chart_area(&chart, &marks[0], plot->x, zero, rows[SIM_ROW_ARRIVED], n);
    chart_line(&chart, &marks[1], plot->x, rows[SIM_ROW_ADMITTED], n);
    chart_line(&chart, &marks[2], plot->x, rows[SIM_ROW_COMPLETED], n);
    free(zero);
}

/* Each reason stands on those before it. */
static void draw_refused(const struct plot *plot, struct chart chart)
{
    const struct sim_reasons *reasons = &plot->bins.reasons;
    struct chart_mark marks[SIM_REASONS_MAX];
    size_t n = plot->bins.n;
    double *low = calloc(2 * n, sizeof *low);

    if (low == NULL) {
        plot->svg->out.failed = true;
        return;
    }
    double *high = low + n;
    for (size_t i = 0; i < reasons->n; i++)
        marks[i] = (struct chart_mark){reasons->names[i], chart_colour(i + 1), true, false};
    chart_fit(&chart, plot->bins.rows[SIM_ROW_REFUSED], n);
    chart_frame(&chart, marks, reasons->n);
    for (size_t r = 0; r < reasons->n; r++) {
        for (size_t i = 0; i < n; i++)
            high[i] = low[i] + plot->bins.rows[SIM_ROW_REASONS + r][i];
        chart_area(&chart, &marks[r], plot->x, low, high, n);
        memcpy(low, high, n * sizeof *low);
    }
    if (reasons->n == 0)
        svg_text(plot->svg,
                 &(struct svg_text){CHART_LEFT + CHART_WIDTH / 2, chart.top + CHART_HEIGHT / 2,
                                    SVG_MIDDLE, 12, SOFT, false, "nothing was refused"});
    free(low);
}

static bool has_any(const double *row, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (row[i] > 0)
            return true;
    return false;
}

static void draw_inside(const struct plot *plot, struct chart chart)
{
    static const struct {
        enum sim_row row;
        struct chart_mark mark;
    } all[] = {
        {SIM_ROW_RUNNING, {"running", "#0b5fa5", false, false}},
        {SIM_ROW_QUEUED, {"queued", "#d55e00", false, false}},
        {SIM_ROW_GATEWAY, {"at the gateway", "#cc79a7", false, false}},
        {SIM_ROW_LIMIT, {"limit of the gate", "#3d3d3d", false, true}},
    };
    struct chart_mark marks[4];
    const double *rows[4];
    size_t n = plot->bins.n, shown = 0;

    for (size_t i = 0; i < 4; i++) {
        const double *row = plot->bins.rows[all[i].row];
        if (i >= 2 && !has_any(row, n))
            continue;
        marks[shown] = all[i].mark;
        rows[shown++] = row;
        chart_fit(&chart, row, n);
    }
    chart_frame(&chart, marks, shown);
    for (size_t i = 0; i < shown; i++)
        chart_line(&chart, &marks[i], plot->x, rows[i], n);
}

static void draw_ttft(const struct plot *plot, struct chart chart)
{
    static const struct chart_mark marks[] = {
        {"p50", "#0b5fa5", false, false},
        {"p99", "#d55e00", false, false},
    };
    double *const *rows = plot->bins.rows;

    chart_fit(&chart, rows[SIM_ROW_TTFT_P50], plot->bins.n);
    chart_fit(&chart, rows[SIM_ROW_TTFT_P99], plot->bins.n);
    chart_frame(&chart, marks, 2);
    chart_line(&chart, &marks[1], plot->x, rows[SIM_ROW_TTFT_P99], plot->bins.n);
    chart_line(&chart, &marks[0], plot->x, rows[SIM_ROW_TTFT_P50], plot->bins.n);
}

/* ---- The whole ------------------------------------------------------------------------------- */

static void draw_head(const struct plot *plot, double height)
{
    const struct cluster_config *config = &plot->run->config;
    const struct cluster_summary *all = &plot->run->result.all;
    char text[320];

    snprintf(text, sizeof text, "Admission by %s", sim_admission_name(config));
    svg_text(plot->svg, &(struct svg_text){32, 38, SVG_START, 20, NULL, true, text});
    snprintf(text, sizeof text,
             "%" PRId64 " requests: %" PRId64 " completed, %" PRId64
             " rejected. First token after %.1f ms in the mean, %.1f ms at p99.",
             all->num_requests, all->status[CLUSTER_COMPLETED], all->status[CLUSTER_REJECTED],
             all->ttft.mean_ms, all->ttft.p99_ms);
    svg_text(plot->svg, &(struct svg_text){32, 62, SVG_START, 13, SOFT, false, text});
    snprintf(text, sizeof text,
             "tollgate sim: %" PRId64 " x %.80s on %.40s, %s, %s, %s, seed %" PRIu64
             "; spans of %.3g s",
             config->instances, config->model.name, config->hardware.name,
             cluster_latency_name(config->latency), cluster_routing_name(config->routing),
             cluster_scheduler_name(config->scheduler), config->seed, plot->bins.width_s);
    svg_text(plot->svg, &(struct svg_text){32, height - 14, SVG_START, 11, SOFT, false, text});
}

static void draw_all(struct plot *plot)
{
    double height = HEAD + 4 * CHART_PITCH + FOOT;
    char x_title[48];

    svg_begin(plot->svg, CHART_PAGE, height, "A run of tollgate sim",
              "Load, refusals by reason, requests inside and time to first token, over time.");
    draw_head(plot, height);
    snprintf(x_title, sizeof x_title, "time, %s", plot->unit_name);
    draw_load(plot, panel(plot, 0, "Load, requests a second"));
    draw_refused(plot, panel(plot, 1, "Refused, requests a second"));
    draw_inside(plot, panel(plot, 2, "Inside, requests"));
    struct chart last = panel(plot, 3, "Time to the first token, ms");
    last.x_title = x_title;
    draw_ttft(plot, last);
    svg_end(plot->svg);
}

void sim_draw(struct svg *svg, const struct sim_run *run)
{
    struct plot plot = {.svg = svg, .run = run};

    memset(svg, 0, sizeof *svg);
    if (sim_bins_init(&plot.bins, run))
        plot.x = malloc(plot.bins.n * sizeof *plot.x);
    if (plot.x == NULL) {
        svg->out.failed = true;
    } else {
        plot.unit = sim_time_unit(plot.bins.end_s, &plot.unit_name);
        for (size_t i = 0; i < plot.bins.n; i++)
            plot.x[i] = plot.bins.rows[SIM_ROW_X][i] / plot.unit;
        draw_all(&plot);
    }
    free(plot.x);
    sim_bins_fini(&plot.bins);
}

bool sim_plot_write(const struct command *command, const char *path, struct svg *svg)
{
    errno = ENOMEM;
    if (!svg->out.failed && replace_file(path, svg->out.bytes, svg->out.size))
        return true;
    command_say(command, "cannot write %s: %s", path, strerror(errno));
    return false;
}
