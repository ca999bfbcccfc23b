/* log_line.h - a line of a log, field by field, as JSON or as name=value.
 *
 *     log_line_begin(&line, json, now, "info", "request");
 *     log_line_text(&line, FIELD("tenant"), tenant);
 *     log_line_number(&line, FIELD("status"), 200);
 *     log_line_end(&line);                               line.out.bytes, line.out.size
 *
 * {"time":"2026-11-15T08:00:00.120Z","level":"info","msg":"request","tenant":"team a","status":200}
 * time=2026-11-15T08:00:00.120Z level=info msg=request tenant="team a" status=200
 *
 * No printf: a line of forty fields is made in less than a microsecond. Nothing can make it longer
 * than LOG_LINE_MAX, spread it over two lines or reach a terminal as a command: texts are escaped
 * and cut, and all texts of a line share LOG_TEXTS_MAX bytes.
 */
#ifndef TG_OBS_LOG_LINE_H
#define TG_OBS_LOG_LINE_H

#include "io/text/text_out.h"
#include "tollgate.h"

#define LOG_LINE_MAX 4096  /* what a pipe takes in one piece, on Linux */
#define LOG_TEXT_MAX 280   /* bytes of an escaped text, quotes included */
#define LOG_TEXTS_MAX 2048 /* bytes of all texts of a line, but each has LOG_TEXT_LEAST anyway */
#define LOG_TEXT_LEAST 32

struct log_line {
    bool json;
    bool first; /* no field yet */
    size_t texts_left;
    struct text_out out; /* writes into room */
    char room[LOG_LINE_MAX];
};

/* The name of a field: letters and underscores, a literal. */
#define FIELD(name) SLICE(name)

/* An empty one, without time, level and message: for what is not for the log. */
void log_line_init(struct log_line *line, bool json);

void log_line_begin(struct log_line *line, bool json, tg_ms at, struct slice level,
                    struct slice msg);

/* Nothing for an empty text. */
void log_line_text(struct log_line *line, struct slice name, struct slice text);

/* A word of ours, that needs no escaping. Nothing for null. */
void log_line_word(struct log_line *line, struct slice name, const char *word);

/* Nothing for a negative number. */
void log_line_number(struct log_line *line, struct slice name, int64_t number);

/* A number of any sign. */
void log_line_integer(struct log_line *line, struct slice name, int64_t number);

/* A value that stands in JSON without quotes: a number with a fraction, true, false. */
void log_line_raw(struct log_line *line, struct slice name, struct slice raw);

/* "req_00f3..." */
void log_line_id(struct log_line *line, struct slice name, uint64_t id);

/* Bytes as hexadecimal digits. */
void log_line_hex(struct log_line *line, struct slice name, const uint8_t *bytes, size_t n);

/* Closes it, with its newline. */
void log_line_end(struct log_line *line);

/* "2026-11-15T08:00:00.120Z"; years after 9999 are their end. */
#define LOG_DATE_BYTES 24
void log_date(tg_ms at, char text[LOG_DATE_BYTES]);

#endif
