/* top_paper.c - what a screen is written on: lines of styled text, cut at its edge. */
#include "cli/top/top_paper.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"

#define LINE_BYTES 512 /* bytes of one text; a longer one is cut */

static void top_paper_append(struct top_paper *paper, const char *bytes, size_t n)
{
    if (paper->failed || !array_reserve(&paper->bytes, &paper->capacity, paper->n + n)) {
        paper->failed = true;
        return;
    }
    memcpy(paper->bytes + paper->n, bytes, n);
    paper->n += n;
    assert(paper->n <= paper->capacity);
}

static void append_text(struct top_paper *paper, const char *text)
{
    top_paper_append(paper, text, strlen(text));
}

/* Only the sixteen colours that follow the terminal's own theme, light or dark, are used. */
static const char *code_of(enum top_style style)
{
    static const char *const codes[] = {
        [TOP_PLAIN] = "",        [TOP_TITLE] = "\033[7m", [TOP_HEAD] = "\033[1m",
        [TOP_FAINT] = "\033[2m", [TOP_GOOD] = "\033[32m", [TOP_WARN] = "\033[33m",
        [TOP_BAD] = "\033[31m"};

    return codes[style];
}

/* Colour is not the only sign of anything, so leaving it out loses nothing. */
static bool is_marked(const struct top_paper *paper, enum top_style style)
{
    if (style == TOP_PLAIN || !paper->screen)
        return false;
    return paper->colour || style == TOP_TITLE || style == TOP_HEAD;
}

static void top_paper_put_text(struct top_paper *paper, enum top_style style, const char *text,
                               size_t n)
{
    if (paper->rows > 0 && paper->row >= paper->rows)
        return;
    if (paper->columns > 0 && n > paper->columns - paper->column)
        n = paper->columns - paper->column;
    if (n == 0)
        return;
    if (is_marked(paper, style))
        append_text(paper, code_of(style));
    top_paper_append(paper, text, n);
    if (is_marked(paper, style))
        append_text(paper, "\033[0m");
    paper->column += n;
    assert(paper->columns == 0 || paper->column <= paper->columns);
}

void top_paper_begin(struct top_paper *paper, size_t rows, size_t columns, bool screen, bool colour)
{
    paper->n = 0;
    paper->rows = rows;
    paper->columns = columns;
    paper->row = paper->column = 0;
    paper->screen = screen;
    paper->colour = colour;
    paper->failed = false;
    if (screen)
        append_text(paper, "\033[H");
}

void top_paper_fini(struct top_paper *paper)
{
    free(paper->bytes);
    *paper = (struct top_paper){0};
}

void top_paper_put(struct top_paper *paper, enum top_style style, const char *format, ...)
{
    char text[LINE_BYTES];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n > 0)
        top_paper_put_text(paper, style, text,
                           (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

void top_paper_cell(struct top_paper *paper, enum top_style style, int width, const char *text)
{
    size_t wide = (size_t)(width < 0 ? -width : width), n = strlen(text);
    char cell[LINE_BYTES];

    if (wide >= sizeof cell)
        wide = sizeof cell - 1;
    memset(cell, ' ', wide);
    if (n > wide) {
        memcpy(cell, text, wide);
        if (wide > 0)
            cell[wide - 1] = '~';
    } else {
        memcpy(cell + (width < 0 ? wide - n : 0), text, n);
    }
    top_paper_put_text(paper, style, cell, wide);
}

/* The last line of a screen has no end: that would move everything up. */
void top_paper_line(struct top_paper *paper)
{
    bool fits = paper->rows == 0 || paper->row < paper->rows;

    if (!paper->screen)
        while (paper->n > 0 && paper->bytes[paper->n - 1] == ' ')
            paper->n--;
    if (paper->screen && fits)
        append_text(paper, "\033[K");
    if (fits && (!paper->screen || paper->row + 1 < paper->rows))
        append_text(paper, paper->screen ? "\r\n" : "\n");
    paper->row++;
    paper->column = 0;
}

void top_paper_end(struct top_paper *paper)
{
    if (paper->screen)
        append_text(paper, "\033[J");
}

size_t top_paper_left(const struct top_paper *paper)
{
    if (paper->rows == 0)
        return SIZE_MAX;
    return paper->row < paper->rows ? paper->rows - paper->row : 0;
}
