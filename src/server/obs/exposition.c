/* exposition.c - the text format of Prometheus. See exposition.h. */
#include "server/obs/exposition.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tollgate.h"

void exposition_init(struct exposition *text)
{
    *text = (struct exposition){.name = ""};
}

void exposition_fini(struct exposition *text)
{
    text_out_fini(&text->out);
    exposition_init(text);
}

/* A backslash, a quote and a line end are escaped; all else is as it is. */
static void add_escaped(struct exposition *text, const char *value)
{
    for (;;) {
        size_t plain = strcspn(value, "\n\"\\");
        text_out_put(&text->out, value, plain);
        value += plain;
        if (*value == '\0')
            return;
        text_out_text(&text->out, *value == '\n' ? "\\n" : *value == '"' ? "\\\"" : "\\\\");
        value++;
    }
}

static void add_label(struct exposition *text, size_t number, const char *name, const char *value)
{
    text_out_text(&text->out, number == 0 ? "{" : ",");
    text_out_text(&text->out, name);
    text_out_text(&text->out, "=\"");
    add_escaped(text, value);
    text_out_text(&text->out, "\"");
}

/* With `le` as the last label, if it is not null. */
static void add_name(struct exposition *text, const char *suffix,
                     const struct expose_labels *labels, const char *le)
{
    size_t n = 0;

    text_out_text(&text->out, text->name);
    text_out_text(&text->out, suffix);
    for (size_t i = 0; labels && i < EXPOSE_LABELS_MAX && labels->list[i].name; i++)
        if (labels->list[i].value != NULL && labels->list[i].value[0] != '\0')
            add_label(text, n++, labels->list[i].name, labels->list[i].value);
    if (le != NULL)
        add_label(text, n++, "le", le);
    text_out_text(&text->out, n > 0 ? "} " : " ");
}

void expose_begin(struct exposition *text, const char *name, const char *type, const char *help)
{
    text->name = name;
    text_out_text(&text->out, "# HELP ");
    text_out_text(&text->out, name);
    text_out_text(&text->out, " ");
    text_out_text(&text->out, help);
    text_out_text(&text->out, "\n# TYPE ");
    text_out_text(&text->out, name);
    text_out_text(&text->out, " ");
    text_out_text(&text->out, type);
    text_out_text(&text->out, "\n");
}

void expose_line(struct exposition *text, const struct expose_labels *labels, int64_t value)
{
    add_name(text, "", labels, NULL);
    if (value >= TG_NUMBER_MAX)
        text_out_text(&text->out, "+Inf");
    else
        text_out_number(&text->out, value);
    text_out_char(&text->out, '\n');
}

void expose_real(struct exposition *text, const struct expose_labels *labels, double value)
{
    add_name(text, "", labels, NULL);
    if (isnan(value))
        text_out_text(&text->out, "NaN\n");
    else if (isinf(value))
        text_out_text(&text->out, value > 0 ? "+Inf\n" : "-Inf\n");
    else
        text_out_format(&text->out, "%.9g\n", value);
}

static void add_decimal(struct exposition *text, uint64_t units, int64_t scale)
{
    int digits = 0;

    for (int64_t rest = scale; rest > 1; rest /= 10)
        digits++;
    text_out_unsigned(&text->out, units / (uint64_t)scale);
    if (digits > 0)
        text_out_format(&text->out, ".%0*" PRIu64, digits, units % (uint64_t)scale);
    text_out_text(&text->out, "\n");
}

void expose_decimal(struct exposition *text, const struct expose_labels *labels, uint64_t units,
                    int64_t scale)
{
    add_name(text, "", labels, NULL);
    add_decimal(text, units, scale);
}

static void add_count(struct exposition *text, uint64_t count)
{
    text_out_unsigned(&text->out, count);
    text_out_char(&text->out, '\n');
}

void expose_histogram(struct exposition *text, const struct expose_labels *labels,
                      const struct histogram_shape *shape, const struct histogram_total *total)
{
    uint64_t count = 0;

    for (size_t i = 0; i < shape->n; i++) {
        count += total->counts[i];
        add_name(text, "_bucket", labels, shape->bounds[i].text);
        add_count(text, count);
    }
    count += total->counts[HISTOGRAM_BOUNDS_MAX];
    add_name(text, "_bucket", labels, "+Inf");
    add_count(text, count);
    add_name(text, "_sum", labels, NULL);
    add_decimal(text, total->sum, shape->scale);
    add_name(text, "_count", labels, NULL);
    add_count(text, count);
}

void expose_single(struct exposition *text, const char *name, const char *type, const char *help,
                   int64_t value)
{
    expose_begin(text, name, type, help);
    expose_line(text, NULL, value);
}
