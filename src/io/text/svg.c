/* svg.c - drawing a picture as SVG. */
#include "io/text/svg.h"

#include <math.h>
#include <string.h>

#include "io/text/utf8.h"

#define FONTS "Helvetica Neue, Helvetica, Arial, DejaVu Sans, sans-serif"
#define INK "#222222"

/* Two digits after the point are finer than any screen; whole numbers stay short. */
static void append_number(struct svg *svg, double number)
{
    double rounded = round(number * 100) / 100;

    if (!isfinite(rounded) || fabs(rounded) > 1e9)
        rounded = 0;
    text_out_format(&svg->out, "%.10g", rounded + 0.0); /* + 0.0: no -0 */
}

static void append_attribute(struct svg *svg, const char *name, double number)
{
    text_out_text(&svg->out, " ");
    text_out_text(&svg->out, name);
    text_out_text(&svg->out, "=\"");
    append_number(svg, number);
    text_out_text(&svg->out, "\"");
}

/* XML has no characters below the space but three, and not the last two of the first 65536. */
static bool is_allowed(const char *text, size_t n)
{
    if (n == 1)
        return (unsigned char)*text >= 0x20;
    return n == 2 || n == 4 ||
           (n == 3 && memcmp(text, "\xef\xbf\xbe", 3) != 0 && memcmp(text, "\xef\xbf\xbf", 3) != 0);
}

static void append_escaped(struct svg *svg, const char *text)
{
    size_t left = strlen(text);

    while (left > 0) {
        size_t n = utf8_bytes(text, left);
        bool allowed = is_allowed(text, n);
        if (n == 0)
            n = 1;
        if (!allowed) {
            text_out_text(&svg->out, "\xef\xbf\xbd");
        } else if (*text == '<') {
            text_out_text(&svg->out, "&lt;");
        } else if (*text == '>') {
            text_out_text(&svg->out, "&gt;");
        } else if (*text == '&') {
            text_out_text(&svg->out, "&amp;");
        } else if (*text == '"') {
            text_out_text(&svg->out, "&quot;");
        } else {
            text_out_put(&svg->out, text, n);
        }
        text += n;
        left -= n;
    }
}

/* A colour, or none. */
static void append_paint(struct svg *svg, const char *name, const char *colour)
{
    text_out_text(&svg->out, " ");
    text_out_text(&svg->out, name);
    text_out_text(&svg->out, "=\"");
    append_escaped(svg, colour != NULL ? colour : "none");
    text_out_text(&svg->out, "\"");
}

void svg_begin(struct svg *svg, double width, double height, const char *title,
               const char *description)
{
    memset(svg, 0, sizeof *svg);
    text_out_text(&svg->out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                             "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"");
    append_attribute(svg, "width", width);
    append_attribute(svg, "height", height);
    text_out_text(&svg->out, " viewBox=\"0 0 ");
    append_number(svg, width);
    text_out_text(&svg->out, " ");
    append_number(svg, height);
    text_out_text(&svg->out, "\" font-family=\"" FONTS "\">\n<title>");
    append_escaped(svg, title);
    text_out_text(&svg->out, "</title>\n<desc>");
    append_escaped(svg, description);
    text_out_text(&svg->out, "</desc>\n");
    svg_rect(svg, &(struct svg_rect){0, 0, width, height, "#ffffff", NULL});
}

void svg_rect(struct svg *svg, const struct svg_rect *rect)
{
    text_out_text(&svg->out, "<rect");
    append_attribute(svg, "x", rect->x);
    append_attribute(svg, "y", rect->y);
    append_attribute(svg, "width", rect->width > 0 ? rect->width : 0);
    append_attribute(svg, "height", rect->height > 0 ? rect->height : 0);
    append_paint(svg, "fill", rect->fill);
    if (rect->stroke != NULL)
        append_paint(svg, "stroke", rect->stroke);
    text_out_text(&svg->out, "/>\n");
}

void svg_line(struct svg *svg, const struct svg_line *line)
{
    text_out_text(&svg->out, "<line");
    append_attribute(svg, "x1", line->x1);
    append_attribute(svg, "y1", line->y1);
    append_attribute(svg, "x2", line->x2);
    append_attribute(svg, "y2", line->y2);
    append_paint(svg, "stroke", line->stroke);
    text_out_text(&svg->out, "/>\n");
}

void svg_path(struct svg *svg, const struct svg_path *path)
{
    text_out_text(&svg->out, path->fill != NULL ? "<polygon points=\"" : "<polyline points=\"");
    for (size_t i = 0; i < path->n; i++) {
        text_out_text(&svg->out, i > 0 ? " " : "");
        append_number(svg, path->x[i]);
        text_out_text(&svg->out, ",");
        append_number(svg, path->y[i]);
    }
    text_out_text(&svg->out, "\"");
    append_paint(svg, "fill", path->fill);
    if (path->stroke != NULL) {
        append_paint(svg, "stroke", path->stroke);
        append_attribute(svg, "stroke-width", path->width > 0 ? path->width : 1);
        text_out_text(&svg->out, " stroke-linejoin=\"round\"");
        if (path->dashed)
            text_out_text(&svg->out, " stroke-dasharray=\"6 4\"");
    }
    text_out_text(&svg->out, "/>\n");
}

void svg_text(struct svg *svg, const struct svg_text *text)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};

    text_out_text(&svg->out, "<text");
    append_attribute(svg, "x", text->x);
    append_attribute(svg, "y", text->y);
    append_attribute(svg, "font-size", text->size > 0 ? text->size : 12);
    append_paint(svg, "fill", text->fill != NULL ? text->fill : INK);
    text_out_text(&svg->out, anchors[text->anchor]);
    if (text->bold)
        text_out_text(&svg->out, " font-weight=\"bold\"");
    text_out_text(&svg->out, ">");
    append_escaped(svg, text->text);
    text_out_text(&svg->out, "</text>\n");
}

void svg_end(struct svg *svg)
{
    text_out_text(&svg->out, "</svg>\n");
}

void svg_fini(struct svg *svg)
{
    text_out_fini(&svg->out);
}
