/* metrics_text.c - the text format of Prometheus. See metrics_text.h. */
#include "gateway/metrics_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tollgate.h"

enum { TEXT_FIRST = 16 * 1024 };

/* ---- bytes ---- */

void metrics_text_init(struct metrics_text *text)
{
    *text = (struct metrics_text){0};
}

void metrics_text_fini(struct metrics_text *text)
{
    free(text->bytes);
    *text = (struct metrics_text){0};
}

static bool make_room(struct metrics_text *text, size_t more)
{
    size_t room = text->room > 0 ? text->room : TEXT_FIRST;

    while (room - text->n < more)
        room *= 2;
    if (room == text->room)
        return true;
    char *bytes = text->failed ? NULL : realloc(text->bytes, room);
    if (bytes == NULL) {
        text->failed = true;
        return false;
    }
    text->bytes = bytes;
    text->room = room;
    return true;
}

static void add(struct metrics_text *text, const char *bytes, size_t n)
{
    if (!make_room(text, n))
        return;
    memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
}

static void addf(struct metrics_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void addf(struct metrics_text *text, const char *format, ...)
{
    char some[512];
    va_list args;

    va_start(args, format);
    int n = vsnprintf(some, sizeof some, format, args);
    va_end(args);
    if (n > 0)
        add(text, some, (size_t)n < sizeof some ? (size_t)n : sizeof some - 1);
}

/* ---- lines ---- */

/* A backslash, a quote and a line end are escaped; all else is as it is. */
static void add_escaped(struct metrics_text *text, const char *value)
{
    for (; *value != '\0'; value++) {
        if (*value == '\n')
            add(text, "\\n", 2);
        else if (*value == '"' || *value == '\\')
            addf(text, "\\%c", *value);
        else
            add(text, value, 1);
    }
}

static void add_labels(struct metrics_text *text, const struct metrics_labels *labels)
{
    size_t n = 0;

    for (size_t i = 0; labels && i < METRICS_LABELS_MAX && labels->list[i].name; i++) {
        const char *value = labels->list[i].value;
        if (value == NULL || *value == '\0')
            continue;
        addf(text, "%c%s=\"", n++ == 0 ? '{' : ',', labels->list[i].name);
        add_escaped(text, value);
        add(text, "\"", 1);
    }
    if (n > 0)
        add(text, "}", 1);
}

void metrics_begin(struct metrics_text *text, const char *name, const char *type, const char *help)
{
    addf(text, "# HELP tollgate_%s %s\n# TYPE tollgate_%s %s\n", name, help, name, type);
}

void metrics_line(struct metrics_text *text, const char *name, const struct metrics_labels *labels,
                  int64_t value)
{
    addf(text, "tollgate_%s", name);
    add_labels(text, labels);
    if (value >= TG_NUMBER_MAX)
        addf(text, " +Inf\n");
    else
        addf(text, " %" PRId64 "\n", value);
}

void metrics_single(struct metrics_text *text, const char *name, const char *type, const char *help,
                    int64_t value)
{
    metrics_begin(text, name, type, help);
    metrics_line(text, name, NULL, value);
}
