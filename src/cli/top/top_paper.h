/* top_paper.h - what a screen is written on: lines of styled text, cut at its edge.
 *
 * A frame is built whole and shown by one write, so that it never flickers. Text must be printable
 * ASCII: a byte is a column. Without columns (0) nothing is cut, and no escape codes are written:
 * that is what a pipe gets.
 */
#ifndef TG_TOP_TOP_PAPER_H
#define TG_TOP_TOP_PAPER_H

#include <stdbool.h>
#include <stddef.h>

enum top_style { TOP_PLAIN, TOP_TITLE, TOP_HEAD, TOP_FAINT, TOP_GOOD, TOP_WARN, TOP_BAD };

struct top_paper {
    char *bytes;
    size_t n, capacity;
    size_t rows, columns; /* 0: as many as come */
    size_t row, column;   /* where the next text goes */
    bool screen;          /* escape codes that move and clear */
    bool colour;          /* and those that colour */
    bool failed;          /* memory ended */
};

/* An empty frame; the memory of the one before is kept. */
void top_paper_begin(struct top_paper *paper, size_t rows, size_t columns, bool screen,
                     bool colour);
void top_paper_fini(struct top_paper *paper);

void top_paper_put(struct top_paper *paper, enum top_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Text in a column of `width`, cut with a ~ where it is longer; negative: at its right edge. */
void top_paper_cell(struct top_paper *paper, enum top_style style, int width, const char *text);

void top_paper_line(struct top_paper *paper);

/* Ends the frame: what a larger one left below is cleared. */
void top_paper_end(struct top_paper *paper);

/* Lines that are left; many where there is no bottom. */
size_t top_paper_left(const struct top_paper *paper);

#endif
