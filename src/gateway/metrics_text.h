/* metrics_text.h - the text format of Prometheus, 0.0.4, appended to memory that grows.
 *
 *     metrics_begin(&text, "queued", "gauge", "Calls that wait.");
 *     metrics_line(&text, "queued", &(struct metrics_labels){{{"gate", "models"}}}, 3);
 *
 *     # HELP tollgate_queued Calls that wait.
 *     # TYPE tollgate_queued gauge
 *     tollgate_queued{gate="models"} 3
 *
 * All lines of one metric have to follow its beginning. When memory ends, `failed` is set: one
 * check, at the end, will do.
 */
#ifndef TG_GATEWAY_METRICS_TEXT_H
#define TG_GATEWAY_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metrics_text {
    char *bytes;
    size_t n, room;
    bool failed; /* there was no memory for all of it */
};

void metrics_text_init(struct metrics_text *text);
void metrics_text_fini(struct metrics_text *text);

#define METRICS_LABELS_MAX 5

struct metrics_labels {
    struct {
        const char *name, *value; /* value null or empty: as if it were not there */
    } list[METRICS_LABELS_MAX];
};

/* The name without "tollgate_"; type "counter" or "gauge". */
void metrics_begin(struct metrics_text *text, const char *name, const char *type, const char *help);

/* One value. TG_NUMBER_MAX stands for no limit, and is +Inf. */
void metrics_line(struct metrics_text *text, const char *name, const struct metrics_labels *labels,
                  int64_t value);

/* Both, for a metric without labels. */
void metrics_single(struct metrics_text *text, const char *name, const char *type, const char *help,
                    int64_t value);

#endif
