/* exposition.h - the text format of Prometheus, 0.0.4, appended to memory that grows.
 *
 *     expose_begin(&text, "tollgate_queued", "gauge", "Calls that wait.");
 *     expose_line(&text, &(struct expose_labels){{{"gate", "models"}}}, 3);
 *
 *     # HELP tollgate_queued Calls that wait.
 *     # TYPE tollgate_queued gauge
 *     tollgate_queued{gate="all"} 3
 *
 * All lines of one metric have to follow its beginning, which the text remembers. When memory ends,
 * `failed` is set: one check, at the end, will do.
 */
#ifndef TG_OBS_EXPOSITION_H
#define TG_OBS_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/text/text_out.h"
#include "server/obs/histogram.h"

#define EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct exposition {
    struct text_out out; /* the page; `failed`: there was no memory for all of it */
    const char *name;    /* the metric that was begun */
};

void exposition_init(struct exposition *text);
void exposition_fini(struct exposition *text);

#define EXPOSE_LABELS_MAX 6

struct expose_labels {
    struct {
        const char *name, *value; /* value null or empty: as if it were not there; UTF-8 */
    } list[EXPOSE_LABELS_MAX];
};

/* The whole name, which has to live until the next; type "counter", "gauge" or "histogram". */
void expose_begin(struct exposition *text, const char *name, const char *type, const char *help);

/* One value, with its labels, null: none. TG_NUMBER_MAX stands for no limit, and is +Inf. */
void expose_line(struct exposition *text, const struct expose_labels *labels, int64_t value);
void expose_real(struct exposition *text, const struct expose_labels *labels, double value);

/* units / scale, to the last digit: scale is 1, 10, 100, ... */
void expose_decimal(struct exposition *text, const struct expose_labels *labels, uint64_t units,
                    int64_t scale);

/* Buckets, sum and count. */
void expose_histogram(struct exposition *text, const struct expose_labels *labels,
                      const struct histogram_shape *shape, const struct histogram_total *total);

/* Both, for a metric without labels. */
void expose_single(struct exposition *text, const char *name, const char *type, const char *help,
                   int64_t value);

#endif
