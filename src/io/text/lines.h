/* lines.h - the lines of a file or a pipe, each where it can be read as JSON without a copy. */
#ifndef TG_TEXT_LINES_H
#define TG_TEXT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A line of more bytes is an error: without a bound, a file that is no text at all would be read
 * into memory as one line. */
#define LINES_BYTES_MAX ((size_t)16 << 20)

enum lines_result {
    LINES_LINE,
    LINES_END,
    LINES_TOO_LONG,
    LINES_NO_MEMORY,
    LINES_UNREADABLE, /* errno says why */
};

struct lines {
    int fd;          /* the caller's */
    char *buffer;    /* JSON_PADDING bytes longer than its capacity */
    size_t capacity; /* bytes */
    size_t begin;    /* where the bytes begin that were read from fd and not given yet */
    size_t end;      /* where they end */
    size_t searched; /* before here is no end of line */
    uint64_t number; /* the number of the line given last, from 1 */
    bool at_end;     /* fd has no more */
};

struct line {
    const char *text; /* valid until the next line */
    size_t bytes;     /* without its newline */
    size_t readable;  /* from text on, for json_begin() */
};

void lines_init(struct lines *lines, int fd);
void lines_fini(struct lines *lines);

/* Whether the next line is here already: if not, lines_next() may wait for it. */
bool lines_ready(struct lines *lines);

/* The last line may lack its newline. After anything but LINES_LINE, `number` is that of the line
 * that could not be given. */
enum lines_result lines_next(struct lines *lines, struct line *line);

/* Whether it has no more than white space. */
bool line_is_blank(const struct line *line);

#endif
