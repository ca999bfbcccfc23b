/* body_edit.c - small changes to a large body, without copying it.
 *
 * A body may have 30 MB of images in it, and we change a name and a number. So a change is a list
 * of replaced spans, and what is sent is a list of slices, most of them of the body as it came. The
 * alternative, to write the parsed body anew, costs a copy, and changes what we have no business
 * with: order, spacing, how a number is written. Providers key their prompt caches on such things.
 *
 * The result is JSON because the spans are those of whole values that the reader has accepted, and
 * because what is inserted goes behind a "{" that is known to have something, or nothing, in it:
 *
 *     {  "model":"a" ...      ->    {"max_tokens":5,  "model":"a" ...
 */
#include "server/dialect/body_edit.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "io/text/text_out.h"
#include "io/text/utf8.h"

void body_edit_init(struct body_edit *edit)
{
    edit->n = 0;
    edit->used = 0;
}

/* Room is for all edits there are: no name is longer than the ask has space for, and each edit is
 * made once. Equal places keep the order in which they came. */
static void add_edit(struct body_edit *edit, size_t at, size_t n, size_t text_n)
{
    size_t i = edit->n++;

    assert(edit->n <= BODY_EDITS_MAX && edit->used + text_n <= BODY_EDIT_ROOM);
    for (; i > 0 && edit->list[i - 1].at > at; i--)
        edit->list[i] = edit->list[i - 1];
    edit->list[i].at = at;
    edit->list[i].n = n;
    edit->list[i].text_at = edit->used;
    edit->list[i].text_n = text_n;
    edit->used += text_n;
}

__attribute__((format(printf, 4, 5))) static void add_text(struct body_edit *edit, size_t at,
                                                           size_t n, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int text_n = vsnprintf(edit->room + edit->used, BODY_EDIT_ROOM - edit->used, format, arguments);
    va_end(arguments);
    add_edit(edit, at, n, (size_t)text_n);
}

void body_edit_begin(struct body_edit *edit)
{
    edit->begun = 0;
}

void body_edit_text(struct body_edit *edit, const char *format, ...)
{
    size_t used = edit->used + edit->begun;
    va_list arguments;

    va_start(arguments, format);
    int n = vsnprintf(edit->room + used, BODY_EDIT_ROOM - used, format, arguments);
    va_end(arguments);
    assert(n >= 0 && (size_t)n < BODY_EDIT_ROOM - used);
    edit->begun += (size_t)n;
}

void body_edit_end(struct body_edit *edit, size_t at, size_t n, const char *more)
{
    body_edit_text(edit, "%s", more);
    add_edit(edit, at, n, edit->begun);
}

bool body_edit_model(struct body_edit *edit, const struct ask *ask, struct slice name)
{
    if (name.n == 0 || name.n > ASK_TEXT_MAX || utf8_valid(name.at, name.n) != name.n)
        return false;
    if (name.n == ask->model.n && memcmp(name.at, ask->model.at, name.n) == 0)
        return true;
    struct text_out out;
    text_out_fixed(&out, edit->room + edit->used, BODY_EDIT_ROOM - edit->used);
    text_out_json_cut(&out, name, BODY_EDIT_ROOM);
    add_edit(edit, ask->model_span.at, ask->model_span.n, out.size);
    return true;
}

/* The key stands before the value: its quotes, a colon, perhaps blanks. No escape in it can hide
 * a quote, since without escapes it is "model". */
void body_edit_replace_model(struct body_edit *edit, const struct ask *ask, const char *body,
                             const char *name, const char *text)
{
    size_t at = ask->model_span.at;
    unsigned quotes = 0;

    while (quotes < 2) {
        assert(at > 0);
        quotes += body[--at] == '"';
    }
    add_text(edit, at, ask->model_span.at + ask->model_span.n - at, "\"%s\":\"%s\"", name, text);
}

/* ---- The bound of the output ----------------------------------------------------------------- */

static const char *bound_name(enum endpoint endpoint, const char *in_chats)
{
    switch (endpoint) {
    case ENDPOINT_CHAT:
        return in_chats;
    case ENDPOINT_RESPONSES:
        return "max_output_tokens";
    case ENDPOINT_COMPLETIONS:
    case ENDPOINT_MESSAGES:
        return "max_tokens";
    default:
        return NULL;
    }
}

/* Whether a bound is 0 for a server that takes that for none. */
static bool is_zero(const struct ask *ask, const struct ask_bound *bound)
{
    return bound->name != NULL && bound->value == 0 && ask->endpoint != ENDPOINT_MESSAGES;
}

/* A key that is there with null is filled in: a second one of its name would be one too many. Of
 * two such, one is enough; where another key bounds already, null stays. */
static const char *bound_unbounded(struct body_edit *edit, const struct ask *ask, int64_t most,
                                   const char *name)
{
    const struct ask_bound *bound = NULL;

    for (size_t i = 0; i < ASK_BOUNDS_MAX; i++)
        if (ask->bounds[i].name != NULL &&
            (bound == NULL || strcmp(ask->bounds[i].name, name) == 0))
            bound = &ask->bounds[i];
    if (bound != NULL)
        add_text(edit, bound->span.at, bound->span.n, "%" PRId64, most);
    else
        add_text(edit, ask->root_at + 1, 0, "\"%s\":%" PRId64 ",", name, most);
    return bound != NULL ? bound->name : name;
}

bool body_edit_set_bound(struct body_edit *edit, const struct ask *ask, int64_t bound,
                         const char *in_chats)
{
    const char *name = bound_name(ask->endpoint, in_chats);
    bool there = false;

    if (bound < 0 || name == NULL)
        return false;
    for (size_t i = 0; i < ASK_BOUNDS_MAX; i++)
        if (ask->bounds[i].name != NULL) {
            add_text(edit, ask->bounds[i].span.at, ask->bounds[i].span.n, "%" PRId64, bound);
            there = true;
        }
    if (!there)
        add_text(edit, ask->root_at + 1, 0, "\"%s\":%" PRId64 ",", name, bound);
    return true;
}

const char *body_edit_bound(struct body_edit *edit, const struct ask *ask, int64_t most,
                            const char *in_chats)
{
    const char *name = bound_name(ask->endpoint, in_chats);
    bool zero = false;

    if (most < (ask->endpoint != ENDPOINT_MESSAGES) || name == NULL)
        return NULL;
    for (size_t i = 0; i < ASK_BOUNDS_MAX; i++)
        zero |= is_zero(ask, &ask->bounds[i]);
    if (ask->max_output < 0 && !zero)
        name = bound_unbounded(edit, ask, most, name);
    for (size_t i = 0; i < ASK_BOUNDS_MAX; i++) {
        const struct ask_bound *bound = &ask->bounds[i];
        if (bound->name != NULL && (bound->value > most || is_zero(ask, bound))) {
            add_text(edit, bound->span.at, bound->span.n, "%" PRId64, most);
            name = bound->name;
        }
    }
    return name;
}

/* ---- Usage of a stream ----------------------------------------------------------------------- */

bool body_edit_include_usage(struct body_edit *edit, const struct ask *ask)
{
    bool has_chunk = ask->endpoint == ENDPOINT_CHAT || ask->endpoint == ENDPOINT_COMPLETIONS;
    static const char asked[] = "\"include_usage\":true";

    if (!has_chunk || !ask->stream || ask->include_usage)
        return false;
    if (ask->include_usage_span.n > 0)
        add_text(edit, ask->include_usage_span.at, ask->include_usage_span.n, "true");
    else if (ask->stream_options.n == 1)
        add_text(edit, ask->stream_options.at + 1, 0, "%s%s", asked,
                 ask->stream_options_empty ? "" : ",");
    else if (ask->stream_options.n > 1)
        add_text(edit, ask->stream_options.at, ask->stream_options.n, "{%s}", asked);
    else
        add_text(edit, ask->root_at + 1, 0, "\"stream_options\":{%s},", asked);
    return true;
}

/* ---- The result ------------------------------------------------------------------------------ */

size_t body_edit_slices(const struct body_edit *edit, const char *body, size_t n,
                        struct slice slices[BODY_SLICES_MAX], size_t *total)
{
    size_t count = 0;
    size_t at = 0;

    *total = 0;
    for (size_t i = 0; i <= edit->n; i++) {
        size_t end = i < edit->n ? edit->list[i].at : n;
        assert(end >= at && end <= n); /* edits ascend, and none is within another */
        if (end > at)
            slices[count++] = (struct slice){body + at, end - at};
        if (i < edit->n) {
            slices[count++] =
                (struct slice){edit->room + edit->list[i].text_at, edit->list[i].text_n};
            at = end + edit->list[i].n;
        }
    }
    for (size_t i = 0; i < count; i++)
        *total += slices[i].n;
    assert(count <= BODY_SLICES_MAX);
    return count;
}
