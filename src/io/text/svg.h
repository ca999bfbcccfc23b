/* svg.h - drawing a picture as SVG, appended to a buffer that grows.
 *
 *     struct svg svg;
 *     svg_begin(&svg, 640, 480, "Regret", "Bars by policy");
 *     svg_rect(&svg, &(struct svg_rect){10, 10, 100, 8, "#0072b2", NULL});
 *     svg_text(&svg, &(struct svg_text){.x = 120, .y = 18, .text = "1.2"});
 *     svg_end(&svg);                                      svg.out.bytes, svg.out.size
 *     svg_fini(&svg);
 *
 * Units are pixels, y grows downward. Only plain elements and attributes are used, no style sheet
 * and no script, so that what opens SVG at all shows the same. Text is escaped; bytes that XML does
 * not allow become U+FFFD. When memory ends, `out.failed` is set: one check, at the end, will do.
 */
#ifndef TG_TEXT_SVG_H
#define TG_TEXT_SVG_H

#include "io/text/text_out.h"

struct svg {
    struct text_out out;
};

struct svg_rect {
    double x, y, width, height; /* neither below 0 */
    const char *fill;           /* null: none */
    const char *stroke;         /* null: none */
};

struct svg_line {
    double x1, y1, x2, y2;
    const char *stroke;
};

/* Straight lines from point to point. */
struct svg_path {
    const double *x, *y;
    size_t n;
    const char *stroke; /* null: none */
    const char *fill;   /* null: none; otherwise the end is joined with the start */
    double width;       /* how thick the line is; 0: 1 */
    bool dashed;
};

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };

struct svg_text {
    double x, y; /* where the base line is */
    enum svg_anchor anchor;
    double size;      /* 0: 12 */
    const char *fill; /* null: almost black */
    bool bold;
    const char *text; /* UTF-8 */
};

/* `title` and `description` are for those who hear the picture. */
void svg_begin(struct svg *svg, double width, double height, const char *title,
               const char *description);
void svg_rect(struct svg *svg, const struct svg_rect *rect);
void svg_line(struct svg *svg, const struct svg_line *line);
void svg_path(struct svg *svg, const struct svg_path *path);
void svg_text(struct svg *svg, const struct svg_text *text);
void svg_end(struct svg *svg);
void svg_fini(struct svg *svg);

#endif
