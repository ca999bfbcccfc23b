/* exposition.c - the text format of Prometheus. See exposition.h. */
#include "server/obs/exposition.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tollgate.h"

enum { TEXT_FIRST = 16 * 1024 };

/* ---- bytes ---- */

void exposition_init(struct exposition *text)
{
    *text = (struct exposition){.name = ""};
}

void exposition_fini(struct exposition *text)
{
    free(text->bytes);
    exposition_init(text);
}

static bool exposition_make_room(struct exposition *text, size_t more)
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

static void exposition_add(struct exposition *text, const char *bytes, size_t n)
{
    if (!exposition_make_room(text, n))
        return;
    memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
}

static void add_text(struct exposition *text, const char *more)
{
    exposition_add(text, more, strlen(more));
}

static void addf(struct exposition *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void addf(struct exposition *text, const char *format, ...)
{
    char some[64];
    va_list args;

    va_start(args, format);
    int n = vsnprintf(some, sizeof some, format, args);
    va_end(args);
    if (n > 0)
        exposition_add(text, some, (size_t)n < sizeof some ? (size_t)n : sizeof some - 1);
}

/* ---- lines ---- */

/* A backslash, a quote and a line end are escaped; all else is as it is. */
static void add_escaped(struct exposition *text, const char *value)
{
    for (;;) {
        size_t plain = strcspn(value, "\n\"\\");
        exposition_add(text, value, plain);
        value += plain;
        if (*value == '\0')
            return;
        add_text(text, *value == '\n' ? "\\n" : *value == '"' ? "\\\"" : "\\\\");
        value++;
    }
}

static void add_label(struct exposition *text, size_t number, const char *name, const char *value)
{
    add_text(text, number == 0 ? "{" : ",");
    add_text(text, name);
    add_text(text, "=\"");
    add_escaped(text, value);
    add_text(text, "\"");
}

/* With `le` as the last label, if it is not null. */
static void add_name(struct exposition *text, const char *suffix,
                     const struct expose_labels *labels, const char *le)
{
    size_t n = 0;

    add_text(text, text->name);
    add_text(text, suffix);
    for (size_t i = 0; labels && i < EXPOSE_LABELS_MAX && labels->list[i].name; i++)
        if (labels->list[i].value != NULL && labels->list[i].value[0] != '\0')
            add_label(text, n++, labels->list[i].name, labels->list[i].value);
    if (le != NULL)
        add_label(text, n++, "le", le);
    add_text(text, n > 0 ? "} " : " ");
}

void expose_begin(struct exposition *text, const char *name, const char *type, const char *help)
{
    text->name = name;
    add_text(text, "# HELP ");
    add_text(text, name);
    add_text(text, " ");
    add_text(text, help);
    add_text(text, "\n# TYPE ");
    add_text(text, name);
    add_text(text, " ");
    add_text(text, type);
    add_text(text, "\n");
}

void expose_line(struct exposition *text, const struct expose_labels *labels, int64_t value)
{
    add_name(text, "", labels, NULL);
    if (value >= TG_NUMBER_MAX)
        add_text(text, "+Inf\n");
    else
        addf(text, "%" PRId64 "\n", value);
}

void expose_real(struct exposition *text, const struct expose_labels *labels, double value)
{
    add_name(text, "", labels, NULL);
    if (isnan(value))
        add_text(text, "NaN\n");
    else if (isinf(value))
        add_text(text, value > 0 ? "+Inf\n" : "-Inf\n");
    else
        addf(text, "%.9g\n", value);
}

static void add_decimal(struct exposition *text, uint64_t units, int64_t scale)
{
    int digits = 0;

    for (int64_t rest = scale; rest > 1; rest /= 10)
        digits++;
    addf(text, "%" PRIu64, units / (uint64_t)scale);
    if (digits > 0)
        addf(text, ".%0*" PRIu64, digits, units % (uint64_t)scale);
    add_text(text, "\n");
}

void expose_decimal(struct exposition *text, const struct expose_labels *labels, uint64_t units,
                    int64_t scale)
{
    add_name(text, "", labels, NULL);
    add_decimal(text, units, scale);
}

void expose_histogram(struct exposition *text, const struct expose_labels *labels,
                      const struct histogram_shape *shape, const struct histogram_total *total)
{
    uint64_t count = 0;

    for (size_t i = 0; i < shape->n; i++) {
        count += total->counts[i];
        add_name(text, "_bucket", labels, shape->bounds[i].text);
        addf(text, "%" PRIu64 "\n", count);
    }
    count += total->counts[HISTOGRAM_BOUNDS_MAX];
    add_name(text, "_bucket", labels, "+Inf");
    addf(text, "%" PRIu64 "\n", count);
    add_name(text, "_sum", labels, NULL);
    add_decimal(text, total->sum, shape->scale);
    add_name(text, "_count", labels, NULL);
    addf(text, "%" PRIu64 "\n", count);
}

void expose_single(struct exposition *text, const char *name, const char *type, const char *help,
                   int64_t value)
{
    expose_begin(text, name, type, help);
    expose_line(text, NULL, value);
}
