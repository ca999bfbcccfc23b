/* sse.c - server-sent events out of bytes that are cut anywhere.
 *
 * A stream is cut by whatever lies between the provider and us: within a character, between CR and
 * LF, within "data". So this works on bytes and knows of no characters, reads each byte once, and
 * buffers what came of an event until its end has come. Usually all of an event is in one piece,
 * and then nothing is copied: what is given points into the piece.
 *
 *     line        what it does
 *     ----        ------------
 *     empty       ends the event, if it has fields
 *     : comment   passed on at once, if the event has no fields yet
 *     field       collected
 *
 * An event that grows beyond SSE_EVENT_MAX is passed on unread, piece by piece:
 * memory is bounded, and the client still gets every byte. That is decided by its size alone, not
 * by how it was cut, so a stream gives the same events however it comes
 * (every_cut_gives_the_same_events).
 *
 * Between CR and LF an event is not delayed, because LF may never come: where the cut is there,
 * the LF is given by itself.
 */
#include "server/dialect/sse.h"

#include <assert.h>
#include <stdlib.h>

#include "io/text/run.h"
#include "lib/core/array.h"

#define BUFFER_KEPT 16384 /* bytes of memory that a stream keeps between events */
#define MARK_BYTES 3

static const char byte_order_mark[MARK_BYTES] = {'\xef', '\xbb', '\xbf'};

void sse_init(struct sse *sse)
{
    *sse = (struct sse){.unmarked = true};
}

void sse_fini(struct sse *sse)
{
    free(sse->buffer);
    free(sse->joined);
    *sse = (struct sse){.unmarked = true};
}

/* ---- What earlier feeds brought ------------------------------------------------------------- */

/* Not in small steps: an event that was cut is some hundred bytes. */
static bool sse_reserve(char **bytes, size_t *size, size_t need)
{
    return array_reserve(bytes, size, need < 1024 ? 1024 : need);
}

static void shrink(char **room, size_t *size)
{
    if (*size <= BUFFER_KEPT)
        return;
    free(*room);
    *room = NULL;
    *size = 0;
}

static void forget_given(struct sse *sse)
{
    if (!sse->buffer_given)
        return;
    sse->buffer_given = false;
    sse->n_buffered = 0;
    shrink(&sse->buffer, &sse->buffer_size);
    shrink(&sse->joined, &sse->joined_room);
}

/* Adds what was scanned to what earlier feeds brought of the event. False: too large, or no memory.
 */
static bool sse_collect(struct sse *sse)
{
    if (sse->scanned > SSE_EVENT_MAX - sse->n_buffered ||
        !sse_reserve(&sse->buffer, &sse->buffer_size, sse->n_buffered + sse->scanned))
        return false;
    if (sse->scanned > 0)
        memcpy(sse->buffer + sse->n_buffered, sse->fed, sse->scanned);
    sse->n_buffered += sse->scanned;
    sse->fed += sse->scanned;
    sse->n_fed -= sse->scanned;
    sse->scanned = 0;
    return true;
}

/* ---- Lines and fields ------------------------------------------------------------------------ */

/* The next line of an event, without its end. */
static struct slice next_line(struct slice *rest)
{
    size_t n = run_without(rest->at, rest->n, '\n', '\r');
    size_t end = n < rest->n ? n + 1 : n;

    if (end < rest->n && rest->at[n] == '\r' && rest->at[end] == '\n')
        end++;
    struct slice line = {rest->at, n};
    *rest = (struct slice){rest->at + end, rest->n - end};
    return line;
}

/* One space behind the colon is not part of the value. A field without a colon has an empty one. */
static bool field_is(struct slice line, const char *name, struct slice *value)
{
    size_t n = strlen(name);

    if (line.n < n || memcmp(line.at, name, n) != 0 || (line.n > n && line.at[n] != ':'))
        return false;
    n += n < line.n;
    n += n < line.n && line.at[n] == ' ';
    *value = (struct slice){line.at + n, line.n - n};
    return true;
}

/* A further line of data. The joined data are never longer than the raw event. */
static bool join(struct sse *sse, struct sse_event *event, struct slice line)
{
    size_t n = event->data.n;

    if (!sse_reserve(&sse->joined, &sse->joined_room, event->raw.n))
        return false;
    if (event->data.at != sse->joined && n > 0)
        memcpy(sse->joined, event->data.at, n);
    assert(n + 1 + line.n <= event->raw.n); /* each line had "data" before it */
    sse->joined[n++] = '\n';
    memcpy(sse->joined + n, line.at, line.n);
    event->data = (struct slice){sse->joined, n + line.n};
    return true;
}

/* False: no memory. */
static bool sse_read_fields(struct sse *sse, struct slice rest, struct sse_event *event)
{
    struct slice value;

    while (rest.n > 0) {
        struct slice line = next_line(&rest);
        if (field_is(line, "event", &value)) {
            event->name = value;
        } else if (field_is(line, "data", &value)) {
            if (event->kind == SSE_BLANK)
                event->data = value;
            else if (!join(sse, event, value))
                return false;
            event->kind = SSE_EVENT;
        }
    }
    return true;
}

/* ---- Giving ---------------------------------------------------------------------------------- */

/* Gives the bytes that were scanned, without what is buffered. */
static void give_fed(struct sse *sse, enum sse_kind kind, struct sse_event *event)
{
    *event = (struct sse_event){.kind = kind, .raw = {sse->fed, sse->scanned}};
    sse->fed += sse->scanned;
    sse->n_fed -= sse->scanned;
    sse->scanned = 0;
    sse->unmarked = false;
}

/* What is buffered goes first; what was scanned follows, as a piece by itself. */
static void give_piece(struct sse *sse, struct sse_event *event)
{
    if (!sse->skipping)
        sse->oversized++;
    sse->skipping = true;
    sse->unmarked = false;
    if (sse->n_buffered == 0) {
        give_fed(sse, SSE_PIECE, event);
        return;
    }
    *event = (struct sse_event){.kind = SSE_PIECE, .raw = {sse->buffer, sse->n_buffered}};
    sse->buffer_given = true;
}

/* Gives the last piece of an event whose end was scanned. */
static void give_last_piece(struct sse *sse, struct sse_event *event)
{
    give_piece(sse, event);
    sse->ended = sse->buffer_given;
    if (!sse->ended) {
        sse->skipping = false;
        sse->fields = false;
    }
}

static void give_event(struct sse *sse, struct slice raw, struct sse_event *event)
{
    bool marked =
        sse->unmarked && raw.n >= MARK_BYTES && memcmp(raw.at, byte_order_mark, MARK_BYTES) == 0;
    struct slice text = {raw.at + (marked ? MARK_BYTES : 0), raw.n - (marked ? MARK_BYTES : 0)};

    *event = (struct sse_event){.kind = SSE_BLANK, .raw = raw};
    if (!sse_read_fields(sse, text, event)) {
        *event = (struct sse_event){.kind = SSE_PIECE, .raw = raw};
        sse->oversized++;
    }
    sse->unmarked = false;
}

/* The end of an event, or of a comment or blank line outside of any. */
static void give_collected(struct sse *sse, struct sse_event *event)
{
    struct slice raw = {sse->fed, sse->scanned};

    sse->fields = false;
    if (sse->n_buffered > 0) {
        (void)sse_collect(sse); /* without memory the rest is given with what comes next */
        raw = (struct slice){sse->buffer, sse->n_buffered};
        sse->buffer_given = true;
    } else {
        sse->fed += sse->scanned;
        sse->n_fed -= sse->scanned;
        sse->scanned = 0;
    }
    give_event(sse, raw, event);
}

/* ---- Scanning -------------------------------------------------------------------------------- */

/* A byte order mark is no part of the first line. */
static bool is_mark(struct sse *sse, char c)
{
    if (sse->mark >= MARK_BYTES)
        return false;
    if (c == byte_order_mark[sse->mark]) {
        sse->mark++;
        return true;
    }
    sse->in_line = sse->mark > 0;
    sse->fields = sse->mark > 0;
    sse->mark = MARK_BYTES;
    return false;
}

/* Goes on to the next line end and beyond it; false if there is none. */
static bool scan_line(struct sse *sse)
{
    const char *fed = sse->fed;

    while (sse->scanned < sse->n_fed) {
        char c = fed[sse->scanned++];
        if (is_mark(sse, c))
            continue;
        if (c == '\n' || c == '\r') {
            sse->after_cr = c == '\r';
            if (sse->after_cr && sse->scanned < sse->n_fed) {
                sse->scanned += fed[sse->scanned] == '\n';
                sse->after_cr = false;
            }
            return true;
        }
        if (!sse->in_line) {
            sse->in_line = true;
            sse->fields |= c != ':';
        }
        if (sse->mark >= MARK_BYTES)
            sse->scanned += run_without(fed + sse->scanned, sse->n_fed - sse->scanned, '\n', '\r');
    }
    return false;
}

void sse_feed(struct sse *sse, const char *bytes, size_t n)
{
    assert(sse->n_fed == 0); /* all of the last feed has been taken */
    sse->fed = n > 0 ? bytes : "";
    sse->n_fed = n;
    sse->scanned = 0;
}

/* The LF of a line end whose CR was the last byte of the feed before. */
static bool take_late_lf(struct sse *sse)
{
    bool late = sse->after_cr && sse->n_fed > 0 && sse->fed[0] == '\n';

    sse->after_cr = sse->after_cr && sse->n_fed == 0;
    sse->scanned += late;
    return late;
}

bool sse_next(struct sse *sse, struct sse_event *event)
{
    assert(sse->scanned <= sse->n_fed && sse->n_buffered <= SSE_EVENT_MAX);
    forget_given(sse);
    if (sse->ended) {
        give_last_piece(sse, event);
        return true;
    }
    if (sse->scanned == 0 && take_late_lf(sse) && !sse->fields && !sse->skipping) {
        give_fed(sse, SSE_BLANK, event);
        return true;
    }
    while (scan_line(sse)) {
        bool complete = !sse->in_line || !sse->fields; /* it ends an event, or stands outside */
        sse->in_line = false;
        if (complete) {
            if (sse->skipping || sse->n_buffered + sse->scanned > SSE_EVENT_MAX)
                give_last_piece(sse, event);
            else
                give_collected(sse, event);
            return true;
        }
    }
    if (sse->n_fed == 0)
        return false;
    if (!sse->skipping && sse_collect(sse))
        return false;
    give_piece(sse, event);
    return true;
}

bool sse_end(struct sse *sse, struct sse_event *event)
{
    forget_given(sse);
    sse_feed(sse, "", 0);
    if (sse->n_buffered == 0)
        return false;
    give_collected(sse, event);
    return true;
}
