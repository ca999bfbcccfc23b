/* svg.c - drawing a picture as SVG. */
#include "io/text/svg.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/utf8.h"

#define FONTS "Helvetica Neue, Helvetica, Arial, DejaVu Sans, sans-serif"
#define INK "#222222"

static bool svg_has_room(struct svg *svg, size_t more)
{
    size_t capacity = svg->capacity == 0 ? 4096 : svg->capacity;
    char *bytes;

    while (capacity - svg->size < more && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    if (svg->failed || capacity - svg->size < more) {
        svg->failed = true;
        return false;
    }
    if (capacity == svg->capacity)
        return true;
    bytes = realloc(svg->bytes, capacity);
    if (bytes == NULL) {
        svg->failed = true;
        return false;
    }
    svg->bytes = bytes;
    svg->capacity = capacity;
    return true;
}

static void svg_append(struct svg *svg, const char *bytes, size_t size)
{
    if (size > 0 && svg_has_room(svg, size)) {
        memcpy(svg->bytes + svg->size, bytes, size);
        svg->size += size;
    }
}

static void append_text(struct svg *svg, const char *text)
{
    svg_append(svg, text, strlen(text));
}

/* Two digits after the point are finer than any screen; whole numbers stay short. */
static void append_number(struct svg *svg, double number)
{
    char text[48];
    double rounded = round(number * 100) / 100;

    if (!isfinite(rounded) || fabs(rounded) > 1e9)
        rounded = 0;
    snprintf(text, sizeof text, "%.10g", rounded + 0.0); /* + 0.0: no -0 */
    append_text(svg, text);
}

static void append_attribute(struct svg *svg, const char *name, double number)
{
    append_text(svg, " ");
    append_text(svg, name);
    append_text(svg, "=\"");
    append_number(svg, number);
    append_text(svg, "\"");
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
            append_text(svg, "\xef\xbf\xbd");
        } else if (*text == '<') {
            append_text(svg, "&lt;");
        } else if (*text == '>') {
            append_text(svg, "&gt;");
        } else if (*text == '&') {
            append_text(svg, "&amp;");
        } else if (*text == '"') {
            append_text(svg, "&quot;");
        } else {
            svg_append(svg, text, n);
        }
        text += n;
        left -= n;
    }
}

/* A colour, or none. */
static void append_paint(struct svg *svg, const char *name, const char *colour)
{
    append_text(svg, " ");
    append_text(svg, name);
    append_text(svg, "=\"");
    append_escaped(svg, colour != NULL ? colour : "none");
    append_text(svg, "\"");
}

void svg_begin(struct svg *svg, double width, double height, const char *title,
               const char *description)
{
    memset(svg, 0, sizeof *svg);
    append_text(svg, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"");
    append_attribute(svg, "width", width);
    append_attribute(svg, "height", height);
    append_text(svg, " viewBox=\"0 0 ");
    append_number(svg, width);
    append_text(svg, " ");
    append_number(svg, height);
    append_text(svg, "\" font-family=\"" FONTS "\">\n<title>");
    append_escaped(svg, title);
    append_text(svg, "</title>\n<desc>");
    append_escaped(svg, description);
    append_text(svg, "</desc>\n");
    svg_rect(svg, &(struct svg_rect){0, 0, width, height, "#ffffff", NULL});
}

void svg_rect(struct svg *svg, const struct svg_rect *rect)
{
    append_text(svg, "<rect");
    append_attribute(svg, "x", rect->x);
    append_attribute(svg, "y", rect->y);
    append_attribute(svg, "width", rect->width > 0 ? rect->width : 0);
    append_attribute(svg, "height", rect->height > 0 ? rect->height : 0);
    append_paint(svg, "fill", rect->fill);
    if (rect->stroke != NULL)
        append_paint(svg, "stroke", rect->stroke);
    append_text(svg, "/>\n");
}

void svg_line(struct svg *svg, const struct svg_line *line)
{
    append_text(svg, "<line");
    append_attribute(svg, "x1", line->x1);
    append_attribute(svg, "y1", line->y1);
    append_attribute(svg, "x2", line->x2);
    append_attribute(svg, "y2", line->y2);
    append_paint(svg, "stroke", line->stroke);
    append_text(svg, "/>\n");
}

void svg_path(struct svg *svg, const struct svg_path *path)
{
    append_text(svg, path->fill != NULL ? "<polygon points=\"" : "<polyline points=\"");
    for (size_t i = 0; i < path->n; i++) {
        append_text(svg, i > 0 ? " " : "");
        append_number(svg, path->x[i]);
        append_text(svg, ",");
        append_number(svg, path->y[i]);
    }
    append_text(svg, "\"");
    append_paint(svg, "fill", path->fill);
    if (path->stroke != NULL) {
        append_paint(svg, "stroke", path->stroke);
        append_attribute(svg, "stroke-width", path->width > 0 ? path->width : 1);
        append_text(svg, " stroke-linejoin=\"round\"");
        if (path->dashed)
            append_text(svg, " stroke-dasharray=\"6 4\"");
    }
    append_text(svg, "/>\n");
}

void svg_text(struct svg *svg, const struct svg_text *text)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};

    append_text(svg, "<text");
    append_attribute(svg, "x", text->x);
    append_attribute(svg, "y", text->y);
    append_attribute(svg, "font-size", text->size > 0 ? text->size : 12);
    append_paint(svg, "fill", text->fill != NULL ? text->fill : INK);
    append_text(svg, anchors[text->anchor]);
    if (text->bold)
        append_text(svg, " font-weight=\"bold\"");
    append_text(svg, ">");
    append_escaped(svg, text->text);
    append_text(svg, "</text>\n");
}

void svg_end(struct svg *svg)
{
    append_text(svg, "</svg>\n");
}

void svg_fini(struct svg *svg)
{
    free(svg->bytes);
    memset(svg, 0, sizeof *svg);
}
