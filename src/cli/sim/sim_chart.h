/* sim_chart.h - a panel with axes, lines and areas; pictures of the simulator are made of these.
 *
 * The scale of y begins at 0 and ends at a round number above what is drawn, so call
 * chart_fit() for all of it first. x may be logarithmic.
 */
#ifndef TG_SIM_SIM_CHART_H
#define TG_SIM_SIM_CHART_H

#include <stdbool.h>
#include <stddef.h>

#include "io/text/svg.h"

#define CHART_LEFT 76.0    /* left edge of the plotting area, in the picture */
#define CHART_WIDTH 800.0  /* its width */
#define CHART_HEIGHT 148.0 /* its height */
#define CHART_PITCH 232.0  /* from panel to panel */
#define CHART_TITLE 34.0   /* from the top of a panel to its plotting area */
#define CHART_PAGE 920.0   /* width of the picture */

struct chart {
    struct svg *svg;
    const char *title;   /* says the unit of y */
    const char *x_title; /* null: none */
    double top;          /* upper edge of the plotting area */
    double x_low, x_high;
    bool x_log;
    double y_high; /* 0: nothing to show yet */
    double y_step;
};

/* One thing that is drawn: its name and colour. */
struct chart_mark {
    const char *name, *colour;
    bool area, dashed;
};

/* Makes room for values up to these. A value that is no number has no place. */
void chart_fit(struct chart *chart, const double *y, size_t n);

/* Title, axes and, at the right of the title, what the colours mean. */
void chart_frame(struct chart *chart, const struct chart_mark *marks, size_t n);

/* A value that is no number is a gap. */
void chart_line(const struct chart *chart, const struct chart_mark *mark, const double *x,
                const double *y, size_t n);

/* Between `low` and `high`. */
void chart_area(const struct chart *chart, const struct chart_mark *mark, const double *x,
                const double *low, const double *high, size_t n);

/* A dot for each value, for series of few points. */
void chart_dots(const struct chart *chart, const struct chart_mark *mark, const double *x,
                const double *y, size_t n);

/* Colours that differ in lightness too; any number gives one. */
const char *chart_colour(size_t i);

#endif
