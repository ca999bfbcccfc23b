/* regret_plot.c - a table of regret as a picture: bars by world and by policy.
 *
 * Rows of one set, prior or world make a panel; panels stand in two columns and share one scale, so
 * that bars may be compared across them. Bars lie on their side, because their names are long and
 * many, and each carries its number: most of what is worth seeing here is near 0, where lengths are
 * hard to tell apart. Colours differ in lightness too, and bars stand in the order of the legend:
 * the picture works in grey, and for those who see fewer colours.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/regret_output.h"

#define MARGIN 36.0
#define HEAD 112.0       /* title, what is measured, legend */
#define FOOT 42.0        /* where it comes from */
#define NOTE 18.0        /* a line about a world */
#define PANEL_TITLE 26.0 /* above the bars */
#define PANEL_AXIS 26.0  /* below them: the scale */
#define PANEL_GAP 34.0   /* between panels */
#define LABELS 84.0      /* left of the bars: the rows' names */
#define NUMBERS 40.0     /* right of them: the longest bar's number */
#define BAR 9.0          /* thickness */
#define PITCH 12.0       /* from bar to bar */
#define GROUP_GAP 12.0   /* between rows */
#define WIDE 860.0       /* one column of panels */
#define NARROW 560.0     /* each of two */
#define GRID "#e4e4e4"
#define AXIS "#8a8a8a"
#define SOFT "#5f5f5f"

#define PANELS_MAX 8
#define GROUPS_MAX 10

static const struct style {
    const char *policy, *fill, *stroke;
} styles[] = {
    {"marginal", "#c6c6c6", NULL},       {"greedy", "#c6c6c6", NULL},
    {"joint", "#e69f00", NULL},          {"static", "#e69f00", NULL},
    {"static_prior", "#e69f00", NULL},   {"static_oracle", "#f7dfa5", "#b37b00"},
    {"two_axis", "#f7dfa5", "#b37b00"},  {"three_axis", "#e69f00", NULL},
    {"refine", "#cc79a7", NULL},         {"naive", "#efd3e2", "#a85685"},
    {"adaptive", "#3d8fc4", NULL},       {"online", "#0b2545", NULL},
    {"hindsight", "#ffffff", "#333333"},
};

struct panel {
    char title[128];
    const struct regret_row *rows[GROUPS_MAX]; /* the last may be the mean */
    size_t n;
    bool shown[REGRET_POLICIES_MAX]; /* whether any row has a number for it */
    size_t n_shown;
};

struct plot {
    struct svg *svg;
    const struct regret_suite *suite;
    struct panel panels[PANELS_MAX];
    size_t n_panels, columns;
    double width, height, panel_width; /* a panel's without its labels and numbers */
    double low, high, step;            /* the scale */
};

static const struct style *style_of(const char *policy)
{
    for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++)
        if (strcmp(styles[i].policy, policy) == 0)
            return &styles[i];
    return &styles[0];
}

/* ---- Panels ---------------------------------------------------------------------------------- */

static void panel_name(struct panel *panel, const struct regret_row *row)
{
    panel->title[0] = '\0';
    if (row->set != NULL)
        snprintf(panel->title, sizeof panel->title, "%s, %s", row->set,
                 strcmp(row->prior, "none") == 0    ? "no prior"
                 : strcmp(row->prior, "wrong") == 0 ? "prior wrong by 4x"
                                                    : "right prior");
    else if (row->world != NULL && !isnan(row->rho))
        snprintf(panel->title, sizeof panel->title, "%s: %s", row->world, row->about);
}

static void panel_add(struct panel *panel, const struct regret_row *row)
{
    if (panel->n == GROUPS_MAX)
        return;
    panel->rows[panel->n++] = row;
    for (size_t i = 0; i < REGRET_POLICIES_MAX; i++) {
        if (isnan(row->percent[i]) || panel->shown[i])
            continue;
        panel->shown[i] = true;
        panel->n_shown++;
    }
}

static void find_panels(struct plot *plot, const struct regret_table *table)
{
    for (size_t i = 0; i < table->n_rows; i++) {
        const struct regret_row *row = &table->rows[i];
        if (i == 0 || !regret_same_panel(row - 1, row)) {
            if (plot->n_panels == PANELS_MAX)
                return;
            panel_name(&plot->panels[plot->n_panels++], row);
        }
        struct panel *panel = &plot->panels[plot->n_panels - 1];
        panel_add(panel, row);
        if (i + 1 < table->n_rows && regret_same_panel(row, row + 1))
            continue;
        for (size_t j = 0; j < table->n_summary; j++) {
            const struct regret_row *mean = &table->summary[j];
            if (panel->n > 1 && strcmp(mean->measure, "mean") == 0 &&
                regret_same_panel(row, mean) && row->world == mean->world)
                panel_add(panel, mean);
        }
    }
}

static double group_height(const struct panel *panel)
{
    return (double)panel->n_shown * PITCH + GROUP_GAP;
}

static double title_height(const struct panel *panel)
{
    return panel->title[0] != '\0' ? PANEL_TITLE : 0;
}

static double panel_height(const struct panel *panel)
{
    return title_height(panel) + (double)panel->n * group_height(panel) + PANEL_AXIS;
}

/* ---- Scale and layout ------------------------------------------------------------------------ */

static void find_scale(struct plot *plot)
{
    double low = 0, high = 1;

    for (size_t p = 0; p < plot->n_panels; p++)
        for (size_t r = 0; r < plot->panels[p].n; r++)
            for (size_t i = 0; i < REGRET_POLICIES_MAX; i++) {
                low = fmin(low, plot->panels[p].rows[r]->percent[i]);
                high = fmax(high, plot->panels[p].rows[r]->percent[i]);
            }
    plot->step = high > 50 ? 20 : high > 20 ? 10 : high > 10 ? 5 : high > 4 ? 2 : 1;
    plot->high = ceil(high / plot->step) * plot->step;
    /* A bar that is a little below 0 needs a little room, a long one whole steps. */
    plot->low = low < -0.2 * plot->step ? floor(low / plot->step) * plot->step : low < 0 ? low : 0;
}

static size_t panel_rows(const struct plot *plot)
{
    return (plot->n_panels + plot->columns - 1) / plot->columns;
}

/* Sets stand beside each other, with their priors below; worlds follow each other as words do. */
static size_t row_of(const struct plot *plot, size_t panel)
{
    return plot->panels[0].rows[0]->set != NULL ? panel % panel_rows(plot) : panel / plot->columns;
}

static size_t column_of(const struct plot *plot, size_t panel)
{
    return plot->panels[0].rows[0]->set != NULL ? panel / panel_rows(plot) : panel % plot->columns;
}

/* Where a row of panels begins: below the highest of each row before it. */
static double row_top(const struct plot *plot, size_t row)
{
    double top = HEAD;

    for (size_t i = 0; i < row; i++) {
        double height = 0;
        for (size_t p = 0; p < plot->n_panels; p++)
            if (row_of(plot, p) == i)
                height = fmax(height, panel_height(&plot->panels[p]));
        top += height + PANEL_GAP;
    }
    return top;
}

/* Worlds that have no title of their own are told about below. */
static bool needs_note(const struct plot *plot, const struct regret_row *row)
{
    return plot->panels[0].title[0] == '\0' && row->about != NULL;
}

static double notes_height(const struct plot *plot)
{
    double height = 0;

    for (size_t i = 0; i < plot->panels[0].n; i++)
        if (needs_note(plot, plot->panels[0].rows[i]))
            height += NOTE;
    return height;
}

static void regret_plot_lay_out(struct plot *plot)
{
    double outer;

    plot->columns = plot->n_panels > 1 ? 2 : 1;
    outer = plot->columns == 1 ? WIDE : NARROW;
    plot->panel_width = outer - LABELS - NUMBERS;
    plot->width =
        2 * MARGIN + (double)plot->columns * outer + (double)(plot->columns - 1) * PANEL_GAP;
    plot->height = row_top(plot, panel_rows(plot)) - PANEL_GAP + notes_height(plot) + FOOT;
    find_scale(plot);
}

static double x_of(const struct plot *plot, double left, double percent)
{
    return left + (percent - plot->low) / (plot->high - plot->low) * plot->panel_width;
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static void draw_scale(const struct plot *plot, double left, double top, double bottom)
{
    char text[32];

    for (double at = ceil(plot->low / plot->step) * plot->step; at <= plot->high;
         at += plot->step) {
        double x = x_of(plot, left, at);
        bool zero = fabs(at) < plot->step / 2;
        svg_line(plot->svg, &(struct svg_line){x, top, x, bottom, zero ? AXIS : GRID});
        snprintf(text, sizeof text, "%g%s", at + 0.0, at + plot->step > plot->high ? " %" : "");
        svg_text(plot->svg, &(struct svg_text){x, bottom + 16, SVG_MIDDLE, 11, SOFT, false, text});
    }
}

static void draw_bar(const struct plot *plot, double left, double y, const char *policy,
                     double percent)
{
    const struct style *style = style_of(policy);
    double zero = x_of(plot, left, 0), end = x_of(plot, left, percent);
    bool ours = strcmp(policy, "online") == 0;
    char text[32];

    if (isnan(percent))
        return;
    svg_rect(plot->svg, &(struct svg_rect){fmin(zero, end), y, fmax(fabs(end - zero), 1), BAR,
                                           style->fill, style->stroke});
    snprintf(text, sizeof text, "%.1f", round(percent * 10) / 10 + 0.0);
    svg_text(plot->svg, &(struct svg_text){fmax(zero, end) + 4, y + BAR - 0.5, SVG_START, 10,
                                           ours ? NULL : SOFT, ours, text});
}

static void row_label(const struct regret_row *row, char *text, size_t size)
{
    if (row->measure != NULL)
        snprintf(text, size, "%s", row->measure);
    else if (row->column != NULL)
        snprintf(text, size, "%s", row->column);
    else if (!isnan(row->rho))
        snprintf(text, size, "rho=%g", row->rho);
    else
        snprintf(text, size, "world %s", row->world);
}

static void draw_group(const struct plot *plot, const struct panel *panel, double left, double top,
                       const struct regret_row *row)
{
    bool mean = row->measure != NULL;
    double bars = (double)panel->n_shown * PITCH, y = top + GROUP_GAP / 2;
    char label[32];

    row_label(row, label, sizeof label);
    if (mean)
        svg_line(plot->svg,
                 &(struct svg_line){left - LABELS, top, left + plot->panel_width, top, GRID});
    svg_text(plot->svg,
             &(struct svg_text){left - 10, y + bars / 2 + 3, SVG_END, 12, NULL, mean, label});
    for (size_t i = 0; i < REGRET_POLICIES_MAX; i++) {
        if (!panel->shown[i])
            continue;
        draw_bar(plot, left, y, plot->suite->policies[i], row->percent[i]);
        y += PITCH;
    }
}

static void draw_panel(const struct plot *plot, size_t index)
{
    const struct panel *panel = &plot->panels[index];
    double outer = LABELS + plot->panel_width + NUMBERS;
    double left = MARGIN + (double)column_of(plot, index) * (outer + PANEL_GAP) + LABELS;
    double top = row_top(plot, row_of(plot, index));

    if (panel->title[0] != '\0')
        svg_text(plot->svg, &(struct svg_text){left - LABELS, top + 14, SVG_START, 14, NULL, true,
                                               panel->title});
    top += title_height(panel);
    draw_scale(plot, left, top, top + (double)panel->n * group_height(panel));
    for (size_t i = 0; i < panel->n; i++)
        draw_group(plot, panel, left, top + (double)i * group_height(panel), panel->rows[i]);
}

static void draw_legend(const struct plot *plot)
{
    double x = MARGIN;

    for (size_t i = 0; plot->suite->policies[i] != NULL; i++) {
        const char *policy = plot->suite->policies[i];
        const struct style *style = style_of(policy);
        bool ours = strcmp(policy, "online") == 0;
        svg_rect(plot->svg, &(struct svg_rect){x, 79, 14, 10, style->fill, style->stroke});
        svg_text(plot->svg, &(struct svg_text){x + 20, 88, SVG_START, 12.5, NULL, ours, policy});
        x += 20 + 7.2 * (double)strlen(policy) + 22;
    }
}

static void draw_notes(const struct plot *plot)
{
    double y = plot->height - FOOT - notes_height(plot) + NOTE;
    char text[160];

    for (size_t i = 0; i < plot->panels[0].n; i++) {
        const struct regret_row *row = plot->panels[0].rows[i];
        if (!needs_note(plot, row))
            continue;
        snprintf(text, sizeof text, "World %s: %s.", row->world, row->about);
        svg_text(plot->svg, &(struct svg_text){MARGIN, y, SVG_START, 12, SOFT, false, text});
        y += NOTE;
    }
}

static void draw_head(const struct plot *plot, const struct regret_result *result)
{
    char text[256];

    svg_text(plot->svg,
             &(struct svg_text){MARGIN, 38, SVG_START, 20, NULL, true, result->suite->title});
    snprintf(text, sizeof text, "Regret in percent of %s. Shorter is better.",
             result->suite->denominator);
    svg_text(plot->svg, &(struct svg_text){MARGIN, 60, SVG_START, 13, SOFT, false, text});
    draw_legend(plot);
    snprintf(text, sizeof text, "tollgate regret --suite %s --seed %llu --seeds %llu",
             result->suite->name, (unsigned long long)result->options->seed,
             (unsigned long long)result->options->seeds);
    svg_text(plot->svg,
             &(struct svg_text){MARGIN, plot->height - 14, SVG_START, 11, SOFT, false, text});
}

void regret_draw(struct svg *svg, const struct regret_result *result)
{
    struct plot plot = {.svg = svg, .suite = result->suite};

    find_panels(&plot, result->table);
    regret_plot_lay_out(&plot);
    svg_begin(svg, plot.width, plot.height, result->suite->title,
              "Bars of regret by world and by policy; shorter is better.");
    draw_head(&plot, result);
    for (size_t i = 0; i < plot.n_panels; i++)
        draw_panel(&plot, i);
    draw_notes(&plot);
    svg_end(svg);
}
