/* sse.h - server-sent events out of bytes that are cut anywhere.
 *
 *     sse_feed(&sse, bytes, n);
 *     while (sse_next(&sse, &event))
 *         ... read event.name and event.data, pass event.raw on (or keep it from the client)
 *     ...                                             at the end of the reply:
 *     if (sse_end(&sse, &event))
 *         ... the last event, without the blank line that should have ended it
 *
 * The `raw` of all events, in order, are the bytes that were fed, each once: whoever passes on
 * every raw passes the stream on unchanged. An event is given when the line end that completes it
 * has come; comments and blank lines between events at the end of their line. What an event points
 * to is valid until the next call for this sse.
 */
#ifndef TG_DIALECT_SSE_H
#define TG_DIALECT_SSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/http/http.h"

#define SSE_EVENT_MAX (1 << 20) /* bytes that are buffered of an event that is not complete */

enum sse_kind {
    SSE_EVENT, /* has data (possibly empty), and a name if it was given one */
    SSE_BLANK, /* comments, blank lines, or fields without data, which by the standard is no event
                  */
    SSE_PIECE, /* a part of an event larger than SSE_EVENT_MAX, which is passed on unread */
};

struct sse_event {
    enum sse_kind kind;
    struct slice name; /* without `event:` in it: empty */
    struct slice data; /* its lines joined by a newline */
    struct slice raw;  /* the bytes that it stood in */
};

/* Its fields are its own, but for `oversized`. */
struct sse {
    int64_t oversized; /* events that were not read: too large, or no memory for them */

    const char *fed; /* what is left of what was fed last */
    size_t n_fed;
    size_t scanned; /* bytes of `fed` that belong to the event that is being collected */
    char *buffer;   /* what came of it in earlier feeds */
    size_t n_buffered, buffer_size;
    bool buffer_given; /* by the last call, to be forgotten by the next */
    char *joined;      /* data of more than one line */
    size_t joined_room;

    unsigned mark; /* bytes of a byte order mark seen; above 3: past the place for one */
    bool unmarked; /* no event was given yet: the next may begin with a byte order mark */
    bool after_cr; /* the last line ended in CR: a LF that follows belongs to it */
    bool in_line;  /* the current line has something in it */
    bool fields;   /* this event has a line that is no comment */
    bool skipping; /* within an event that is too large */
    bool ended;    /* whose end is what was scanned */
};

void sse_init(struct sse *sse);
void sse_fini(struct sse *sse);

/* All of the last feed must have been taken: sse_next() said false. The bytes stay the caller's and
 * must be valid until then. */
void sse_feed(struct sse *sse, const char *bytes, size_t n);
bool sse_next(struct sse *sse, struct sse_event *event);

/* What is left when the input ends. A browser would drop such an event; providers mean it. */
bool sse_end(struct sse *sse, struct sse_event *event);

#endif
