/* object_scan.c - finds objects in a reply that passes by. See object_scan.h.
 *
 * Like usage_scan.c, this knows strings, escapes, nesting and what a key is, and no more of JSON.
 * Replies come from a provider, which has no interest in being misread; what could be misread is
 * not passed on.
 */
#include "server/dialect/object_scan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum state {
    START, /* nothing has come but blanks */
    BETWEEN,
    STRING,
    ESCAPE,
    RAW,  /* no JSON: everything passes */
    LOST, /* JSON that cannot be read: nothing does */
};

enum object_element {
    NO_ELEMENT,
    UNJUDGED, /* held until its id is known */
    PASSING,
    DROPPED,
};

enum { WORD_MAX = 40 }; /* no name of an action is longer */

bool object_is_id(struct slice name)
{
    if (name.n > WORD_MAX)
        return true;
    for (size_t i = 0; i < name.n; i++)
        if (!((name.at[i] >= 'a' && name.at[i] <= 'z') || name.at[i] == '_' || name.at[i] == '-'))
            return true;
    return false;
}

void object_scan_init(struct object_scan *scan)
{
    *scan = (struct object_scan){.state = START};
}

void object_scan_drop(struct object_scan *scan)
{
    scan->state = LOST;
    scan->out_n = 0;
}

void object_scan_fini(struct object_scan *scan)
{
    free(scan->held);
    scan->held = NULL;
    scan->held_n = scan->held_room = 0;
}

/* ---- Where we are ---- */

static bool in_object(const struct object_scan *scan)
{
    return scan->depth > 0 && (scan->objects >> (scan->depth - 1) & 1) != 0;
}

static bool key_is(const struct object_scan *scan, const char *word)
{
    return scan->key_n == strlen(word) && memcmp(scan->key, word, scan->key_n) == 0;
}

/* The string that has ended, where it may be an id. */
static struct slice text_of(const struct object_scan *scan)
{
    return (struct slice){scan->text, scan->text_n <= OBJECT_ID_MAX ? scan->text_n : 0};
}

/* ---- What is passed on ---- */

static void flush(struct object_scan *scan)
{
    if (scan->out_n > 0)
        scan->pass(scan->context, (struct slice){scan->out, scan->out_n});
    scan->out_n = 0;
}

static void emit(struct object_scan *scan, const char *bytes, size_t n)
{
    if (n > sizeof scan->out - scan->out_n)
        flush(scan);
    if (n > sizeof scan->out) {
        scan->pass(scan->context, (struct slice){bytes, n});
        return;
    }
    memcpy(scan->out + scan->out_n, bytes, n);
    scan->out_n += n;
}

static void emit_id(struct object_scan *scan, const char *id, size_t n)
{
    if (n == 0) {
        emit(scan, "null", 4);
        return;
    }
    emit(scan, "\"", 1);
    emit(scan, id, n);
    emit(scan, "\"", 1);
}

/* ---- Elements ---- */

static void hold(struct object_scan *scan, char c)
{
    if (scan->held_n == scan->held_room) {
        size_t room = scan->held_room > 0 ? scan->held_room * 2 : 1024;
        char *held = room <= OBJECT_HELD_MAX ? realloc(scan->held, room) : NULL;
        if (held == NULL) {
            scan->element = DROPPED;
            return;
        }
        scan->held = held;
        scan->held_room = room;
    }
    scan->held[scan->held_n++] = c;
}

/* A byte of an element, or of what is around all of them. */
static void take(struct object_scan *scan, char c)
{
    if (scan->element == UNJUDGED)
        hold(scan, c);
    else if (scan->element != DROPPED)
        emit(scan, &c, 1);
}

static void keep_element(struct object_scan *scan, struct slice id)
{
    if (scan->any)
        emit(scan, ",", 1);
    scan->any = true;
    emit(scan, scan->held, scan->held_n);
    scan->element = PASSING;
    if (id.n == 0)
        return;
    if (scan->first_n == 0) {
        memcpy(scan->first, id.at, id.n);
        scan->first_n = id.n;
    }
    memcpy(scan->last, id.at, id.n);
    scan->last_n = id.n;
}

static void judge(struct object_scan *scan, struct slice id)
{
    if (id.n > 0 && scan->is_mine(scan->context, id))
        keep_element(scan, id);
    else
        scan->element = DROPPED;
}

/* One that is no object: a text may be an id itself, a number is none. */
static void end_scalar(struct object_scan *scan)
{
    struct slice text = text_of(scan);

    if (scan->element == UNJUDGED &&
        (scan->held[0] != '"' ||
         (text.n > 0 && (!object_is_id(text) || scan->is_mine(scan->context, text)))))
        keep_element(scan, (struct slice){NULL, 0});
    scan->element = NO_ELEMENT;
}

/* ---- Structure ---- */

static void open_level(struct object_scan *scan, bool object)
{
    if (scan->depth == OBJECT_SCAN_DEPTH) {
        scan->state = LOST;
        return;
    }
    uint64_t bit = UINT64_C(1) << scan->depth;
    scan->objects = object ? scan->objects | bit : scan->objects & ~bit;
    scan->depth++;
    scan->in_key = object;
}

static void begin_string(struct object_scan *scan)
{
    scan->state = STRING;
    scan->text_n = 0;
    if (scan->in_key)
        scan->key_n = 0;
}

static void take_text(struct object_scan *scan, char c)
{
    if (scan->in_key) { /* one that is too long is none that we know */
        if (scan->key_n < sizeof scan->key)
            scan->key[scan->key_n++] = c;
        return;
    }
    if (scan->text_n <= OBJECT_ID_MAX)
        scan->text[scan->text_n++] = c;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Structure alone, for both readings. */
static void take_structure(struct object_scan *scan, char c)
{
    if (c == '{' || c == '[') {
        open_level(scan, c == '{');
    } else if (c == '}' || c == ']') {
        if (in_object(scan) != (c == '}') || scan->depth == 0)
            scan->state = LOST;
        else
            scan->depth--;
        scan->in_key = false;
        scan->over = scan->depth == 0;
    } else if (c == ':') {
        scan->in_key = false;
    } else if (c == ',') {
        scan->in_key = in_object(scan);
    }
}

/* Some put a byte order mark in front of JSON, and readers pass over it. */
static bool start(struct object_scan *scan, char c)
{
    if (is_blank(c) || c == '\xef' || c == '\xbb' || c == '\xbf')
        return false;
    scan->state = c == '{' || c == '[' ? BETWEEN : RAW;
    return true;
}

/* ---- Ids ---- */

static bool is_made(const struct object_scan *scan)
{
    return key_is(scan, "id") || key_is(scan, "output_file_id") || key_is(scan, "error_file_id") ||
           key_is(scan, "thread_id");
}

static void take_for_ids(struct object_scan *scan, char c)
{
    switch ((enum state)scan->state) {
    case START:
        if (start(scan, c) && scan->state == BETWEEN)
            take_structure(scan, c);
        break;
    case BETWEEN:
        if (c == '"')
            begin_string(scan);
        else
            take_structure(scan, c);
        break;
    case STRING:
        if (c == '\\') {
            scan->state = ESCAPE;
            scan->text_n = OBJECT_ID_MAX + 1; /* ids have none */
            scan->key_n = scan->in_key ? sizeof scan->key : scan->key_n;
        } else if (c != '"') {
            take_text(scan, c);
        } else {
            bool value = !scan->in_key && scan->depth == 1 && in_object(scan);
            scan->state = BETWEEN;
            if (value && is_made(scan) && text_of(scan).n > 0)
                scan->made(scan->context, text_of(scan));
        }
        break;
    case ESCAPE:
        scan->state = STRING;
        break;
    case RAW:
    case LOST:
        break;
    }
}

void object_scan_ids(struct object_scan *scan, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && scan->state != RAW && scan->state != LOST; i++)
        take_for_ids(scan, bytes[i]);
}

/* ---- Lists ---- */

/* Where elements are judged: in an array that is the document, or a value at its top. */
static bool is_list(const struct object_scan *scan)
{
    return scan->list_depth > 0 && scan->depth == scan->list_depth;
}

static void list_byte(struct object_scan *scan, char c)
{
    if (is_list(scan) && scan->element != NO_ELEMENT && (c == ',' || c == ']'))
        end_scalar(scan); /* an element that is no object ends here */
    if (is_list(scan) && c == ']') {
        scan->list_depth = 0;
    } else if (is_list(scan)) {
        if (c == ',' || is_blank(c))
            return; /* those between elements are written anew */
        if (scan->element == NO_ELEMENT) {
            scan->element = c == '[' ? DROPPED : UNJUDGED;
            scan->held_n = scan->text_n = 0;
        }
    }
    int before = scan->depth;
    if (scan->over) {
        if (!is_blank(c))
            object_scan_drop(scan); /* a second document, of which nobody knows whose it is */
        return;
    }
    take(scan, c);
    if (c == '"') {
        begin_string(scan);
        return;
    }
    take_structure(scan, c);
    if (c == '[' && scan->list_depth == 0 &&
        (before == 0 || (before == 1 && (scan->objects & 1)))) {
        scan->list_depth = scan->depth;
        scan->any = false;
        scan->in_key = false;
    } else if ((c == '}' || c == ']') && is_list(scan)) {
        scan->element = NO_ELEMENT; /* one without an id was never passed on */
    }
}

/* A value at the top of the document that names an element. */
static bool is_cursor(const struct object_scan *scan)
{
    return scan->depth == 1 && in_object(scan) && !scan->in_key &&
           (key_is(scan, "first_id") || key_is(scan, "last_id"));
}

static void list_string(struct object_scan *scan, char c)
{
    if (c == '\\') {
        scan->state = ESCAPE;
        scan->text_n = OBJECT_ID_MAX + 1;
        scan->key_n = scan->in_key ? sizeof scan->key : scan->key_n;
        take(scan, c);
        return;
    }
    take(scan, c);
    if (c != '"') {
        take_text(scan, c);
        return;
    }
    bool value = !scan->in_key;
    scan->state = BETWEEN;
    /* No list, but an object, which is not the caller's: it ends here. */
    if (value && scan->depth == 1 && in_object(scan) && key_is(scan, "id") &&
        (text_of(scan).n == 0 || !scan->is_mine(scan->context, text_of(scan))))
        object_scan_drop(scan);
    if (value && scan->element == UNJUDGED && scan->list_depth > 0 &&
        scan->depth == scan->list_depth + 1 && in_object(scan) && key_is(scan, "id"))
        judge(scan, text_of(scan));
}

static void take_for_list(struct object_scan *scan, char c)
{
    if (scan->replaced) { /* within the string of a cursor, whose own bytes are dropped */
        if (scan->state == ESCAPE)
            scan->state = STRING;
        else if (c == '\\')
            scan->state = ESCAPE;
        else if (c == '"') {
            scan->replaced = false;
            scan->state = BETWEEN;
        }
        return;
    }
    switch ((enum state)scan->state) {
    case START:
        if (!start(scan, c) || scan->state == RAW)
            emit(scan, &c, 1);
        else
            list_byte(scan, c);
        break;
    case BETWEEN:
        if (c == '"' && is_cursor(scan)) {
            bool first = key_is(scan, "first_id");
            emit_id(scan, first ? scan->first : scan->last, first ? scan->first_n : scan->last_n);
            scan->replaced = true;
            scan->state = STRING;
        } else {
            list_byte(scan, c);
        }
        break;
    case STRING:
        list_string(scan, c);
        break;
    case ESCAPE:
        take(scan, c);
        scan->state = STRING;
        break;
    case RAW:
        emit(scan, &c, 1);
        break;
    case LOST:
        break;
    }
}

void object_scan_list(struct object_scan *scan, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        take_for_list(scan, bytes[i]);
    flush(scan);
}
