/* lines.c - the lines of a file or a pipe, each where it can be read as JSON without a copy.
 *
 * stdio's getline() copies each line into a buffer of its own. Here a line stays where read() has
 * put it, and what comes after it in the buffer serves as the padding that the JSON reader wants.
 * Only the line that is cut by the end of the buffer is moved, once for each quarter megabyte.
 */
#include "io/text/lines.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/text/json_read.h"

/* Large enough that a read costs nothing, small enough to stay in a core's own cache. */
#define FIRST_CAPACITY ((size_t)256 << 10)

void lines_init(struct lines *lines, int fd)
{
    *lines = (struct lines){.fd = fd};
}

void lines_fini(struct lines *lines)
{
    free(lines->buffer);
    lines_init(lines, -1);
}

/* The newline that ends the line at `begin`; null if it was not read yet. */
static char *find_newline(struct lines *lines)
{
    char *found = NULL;

    if (lines->searched < lines->end)
        found = memchr(lines->buffer + lines->searched, '\n', lines->end - lines->searched);
    lines->searched = found != NULL ? (size_t)(found - lines->buffer) : lines->end;
    return found;
}

/* Room for a longer line. All of it is set: nothing that is read is ever undefined. */
static bool lines_grow(struct lines *lines)
{
    size_t capacity = lines->capacity == 0 ? FIRST_CAPACITY : lines->capacity * 2;
    char *buffer = realloc(lines->buffer, capacity + JSON_PADDING);

    if (buffer == NULL)
        return false;
    memset(buffer + lines->capacity, 0, capacity - lines->capacity + JSON_PADDING);
    lines->buffer = buffer;
    lines->capacity = capacity;
    return true;
}

/* Reads some more. LINES_LINE stands for success. */
static enum lines_result lines_fill(struct lines *lines)
{
    ssize_t n;

    assert(lines->begin <= lines->searched && lines->searched <= lines->end);
    assert(lines->end <= lines->capacity);
    if (lines->begin > 0) { /* the cut line goes to the front, so that the rest of it can follow */
        memmove(lines->buffer, lines->buffer + lines->begin, lines->end - lines->begin);
        lines->end -= lines->begin;
        lines->searched -= lines->begin;
        lines->begin = 0;
    }
    if (lines->end > LINES_BYTES_MAX)
        return LINES_TOO_LONG;
    if (lines->end == lines->capacity && !lines_grow(lines))
        return LINES_NO_MEMORY;
    do
        n = read(lines->fd, lines->buffer + lines->end, lines->capacity - lines->end);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return LINES_UNREADABLE;
    lines->end += (size_t)n;
    lines->at_end = n == 0;
    return LINES_LINE;
}

bool lines_ready(struct lines *lines)
{
    return lines->at_end || find_newline(lines) != NULL;
}

enum lines_result lines_next(struct lines *lines, struct line *line)
{
    char *newline;

    lines->number++;
    while ((newline = find_newline(lines)) == NULL && !lines->at_end) {
        enum lines_result result = lines_fill(lines);
        if (result != LINES_LINE)
            return result;
    }
    if (newline == NULL && lines->begin == lines->end)
        return LINES_END;

    size_t stop = newline != NULL ? (size_t)(newline - lines->buffer) : lines->end;
    assert(lines->begin <= stop && stop <= lines->end);
    if (stop - lines->begin > LINES_BYTES_MAX)
        return LINES_TOO_LONG;
    line->text = lines->buffer + lines->begin;
    line->bytes = stop - lines->begin;
    line->readable = lines->capacity + JSON_PADDING - lines->begin;
    lines->begin = newline != NULL ? stop + 1 : stop;
    lines->searched = lines->begin;
    return LINES_LINE;
}

bool line_is_blank(const struct line *line)
{
    for (size_t i = 0; i < line->bytes; i++)
        if (line->text[i] != ' ' && line->text[i] != '\t' && line->text[i] != '\r')
            return false;
    return true;
}
