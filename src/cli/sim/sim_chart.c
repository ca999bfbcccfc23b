/* sim_chart.c - a panel with axes, lines and areas. See sim_chart.h. */
#include "cli/sim/sim_chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRID "#e4e4e4"
#define AXIS "#8a8a8a"
#define SOFT "#5f5f5f"

#define POINTS_MAX 4096 /* points in one path; longer ones are cut into several */

const char *chart_colour(size_t i)
{
    /* For those who see fewer colours: Okabe and Ito, without the yellow that paper swallows. */
    static const char *const colours[] = {"#0b5fa5", "#d55e00", "#009e73", "#cc79a7",
                                          "#56b4e9", "#8c6d1f", "#6f5bb5", "#3d3d3d"};

    return colours[i % (sizeof colours / sizeof colours[0])];
}

/* 1, 2 or 5 times a power of ten, so that about `parts` of them make `range`. */
static double round_step(double range, double parts)
{
    double raw = range / parts, power = pow(10, floor(log10(raw)));
    double part = raw / power;

    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

/* ---- Scales ---------------------------------------------------------------------------------- */

void chart_fit(struct chart *chart, const double *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isfinite(y[i]) && y[i] > chart->y_high)
            chart->y_high = y[i];
}

static double x_of(const struct chart *chart, double x)
{
    double part = chart->x_log ? log(x / chart->x_low) / log(chart->x_high / chart->x_low)
                               : (x - chart->x_low) / (chart->x_high - chart->x_low);

    return CHART_LEFT + part * CHART_WIDTH;
}

static double y_of(const struct chart *chart, double y)
{
    return chart->top + CHART_HEIGHT * (1 - y / chart->y_high);
}

static void round_y(struct chart *chart)
{
    if (!(chart->y_high > 0))
        chart->y_high = 1;
    chart->y_step = round_step(chart->y_high * 1.02, 4);
    chart->y_high = ceil(chart->y_high * 1.02 / chart->y_step) * chart->y_step;
}

/* 20000 as 20k: labels must not run into each other. */
static void label(double value, char *text, size_t size)
{
    double size_of = fabs(value);

    if (size_of >= 1e6)
        snprintf(text, size, "%gM", value / 1e6);
    else if (size_of >= 1e4)
        snprintf(text, size, "%gk", value / 1e3);
    else
        snprintf(text, size, "%.6g", value + 0.0);
}

/* ---- Frame ----------------------------------------------------------------------------------- */

static void draw_y(const struct chart *chart)
{
    double right = CHART_LEFT + CHART_WIDTH;
    char text[32];

    for (int i = 0; (double)i * chart->y_step <= chart->y_high * (1 + 1e-9); i++) {
        double at = (double)i * chart->y_step, y = y_of(chart, at);
        svg_line(chart->svg, &(struct svg_line){CHART_LEFT, y, right, y, i == 0 ? AXIS : GRID});
        label(at, text, sizeof text);
        svg_text(chart->svg,
                 &(struct svg_text){CHART_LEFT - 8, y + 4, SVG_END, 11, SOFT, false, text});
    }
}

static void draw_x_tick(const struct chart *chart, double at)
{
    double x = x_of(chart, at), bottom = chart->top + CHART_HEIGHT;
    char text[32];

    svg_line(chart->svg, &(struct svg_line){x, bottom, x, bottom + 5, AXIS});
    label(at, text, sizeof text);
    svg_text(chart->svg, &(struct svg_text){x, bottom + 18, SVG_MIDDLE, 11, SOFT, false, text});
}

static void draw_x(const struct chart *chart)
{
    if (chart->x_log) {
        double decades = log10(chart->x_high / chart->x_low);
        for (double power = pow(10, floor(log10(chart->x_low))); power <= chart->x_high;
             power *= 10)
            for (int m = 1; m < 10; m++) {
                double at = power * m;
                bool wanted = m == 1 || (decades < 4 && (m == 2 || m == 5));
                if (wanted && at >= chart->x_low * (1 - 1e-9) && at <= chart->x_high * (1 + 1e-9))
                    draw_x_tick(chart, at);
            }
    } else {
        double step = round_step(chart->x_high - chart->x_low, 9);
        double first = ceil(chart->x_low / step);
        for (int i = 0; (first + i) * step <= chart->x_high * (1 + 1e-9); i++)
            draw_x_tick(chart, (first + i) * step);
    }
    if (chart->x_title != NULL)
        svg_text(chart->svg,
                 &(struct svg_text){CHART_LEFT + CHART_WIDTH, chart->top + CHART_HEIGHT + 36,
                                    SVG_END, 11.5, SOFT, false, chart->x_title});
}

static double name_width(const char *name)
{
    return 6.5 * (double)strlen(name) + 40;
}

static void draw_legend(const struct chart *chart, const struct chart_mark *marks, size_t n)
{
    double x = CHART_LEFT + CHART_WIDTH, y = chart->top - 13;

    for (size_t i = 0; i < n; i++)
        x -= name_width(marks[i].name);
    for (size_t i = 0; i < n; i++) {
        double xs[2] = {x + 8, x + 26}, ys[2] = {y - 4, y - 4};
        if (marks[i].area)
            svg_rect(chart->svg, &(struct svg_rect){x + 8, y - 9, 18, 10, marks[i].colour, NULL});
        else
            svg_path(chart->svg,
                     &(struct svg_path){xs, ys, 2, marks[i].colour, NULL, 2.4, marks[i].dashed});
        svg_text(chart->svg,
                 &(struct svg_text){x + 32, y, SVG_START, 12, NULL, false, marks[i].name});
        x += name_width(marks[i].name);
    }
}

void chart_frame(struct chart *chart, const struct chart_mark *marks, size_t n)
{
    round_y(chart);
    svg_text(chart->svg, &(struct svg_text){CHART_LEFT - 44, chart->top - 13, SVG_START, 13.5, NULL,
                                            true, chart->title});
    draw_y(chart);
    draw_x(chart);
    draw_legend(chart, marks, n);
}

/* ---- What is drawn --------------------------------------------------------------------------- */

/* Draws points from `from` on, up to the first that is no number; returns the next one. */
static size_t draw_run(const struct chart *chart, const struct chart_mark *mark, const double *x,
                       const double *y, size_t from, size_t n)
{
    double xs[POINTS_MAX], ys[POINTS_MAX];
    size_t count = 0;

    while (from + count < n && count < POINTS_MAX && isfinite(y[from + count])) {
        xs[count] = x_of(chart, x[from + count]);
        ys[count] = y_of(chart, y[from + count]);
        count++;
    }
    if (count == 1) /* alone between two gaps: a short dash, or nobody would see it */
        svg_line(chart->svg,
                 &(struct svg_line){xs[0] - 1.5, ys[0], xs[0] + 1.5, ys[0], mark->colour});
    else if (count > 1)
        svg_path(chart->svg,
                 &(struct svg_path){xs, ys, count, mark->colour, NULL, 1.8, mark->dashed});
    /* The next path begins where a full one ended, else after the gap. */
    return count == POINTS_MAX ? from + count - 1 : from + count + 1;
}

void chart_line(const struct chart *chart, const struct chart_mark *mark, const double *x,
                const double *y, size_t n)
{
    for (size_t i = 0; i < n;)
        i = draw_run(chart, mark, x, y, i, n);
}

void chart_area(const struct chart *chart, const struct chart_mark *mark, const double *x,
                const double *low, const double *high, size_t n)
{
    double *xs = malloc(2 * n * sizeof *xs), *ys = malloc(2 * n * sizeof *ys);

    if (xs == NULL || ys == NULL) {
        chart->svg->out.failed = true;
    } else if (n > 1) {
        for (size_t i = 0; i < n; i++) {
            xs[i] = x_of(chart, x[i]);
            ys[i] = y_of(chart, high[i]);
            xs[2 * n - 1 - i] = xs[i];
            ys[2 * n - 1 - i] = y_of(chart, low[i]);
        }
        svg_path(chart->svg, &(struct svg_path){xs, ys, 2 * n, NULL, mark->colour, 0, false});
    }
    free(xs);
    free(ys);
}

void chart_dots(const struct chart *chart, const struct chart_mark *mark, const double *x,
                const double *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isfinite(y[i]))
            svg_rect(chart->svg,
                     &(struct svg_rect){x_of(chart, x[i]) - 2.5, y_of(chart, y[i]) - 2.5, 5, 5,
                                        mark->colour, NULL});
}
