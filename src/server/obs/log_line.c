/* log_line.c - a line of a log, field by field. See log_line.h.
 *
 * What a field may take is known before it is written, and one that does not fit is left out whole,
 * so that a line is good JSON however full it is. LINE_TAIL bytes are kept for its end.
 */
#include "server/obs/log_line.h"

#include <assert.h>
#include <string.h>

#include "lib/budget/civil.h"

enum { LINE_TAIL = 3, PUNCTUATION = 6, ID_BYTES = 20 };

/* The name and what stands around it, if there is room for a value of so many bytes. */
static bool put_name(struct log_line *line, struct slice name, size_t value)
{
    struct text_out *out = &line->out;

    assert(name.n > 0 && out->size + LINE_TAIL <= LOG_LINE_MAX);
    if (out->size + name.n + value + PUNCTUATION + LINE_TAIL > LOG_LINE_MAX)
        return false;
    if (line->json)
        text_out_put(out, line->first ? "{\"" : ",\"", 2);
    else if (!line->first)
        text_out_char(out, ' ');
    line->first = false;
    text_out_slice(out, name);
    text_out_put(out, line->json ? "\":" : "=", line->json ? 2 : 1);
    return true;
}

static void put_quoted(struct log_line *line, const char *bytes, size_t n)
{
    if (line->json)
        text_out_char(&line->out, '"');
    text_out_put(&line->out, bytes, n);
    if (line->json)
        text_out_char(&line->out, '"');
}

/* ---- Texts --------------------------------------------------------------------------------- */

/* Characters that need neither escaping in JSON nor, for name=value, quotes. */
static bool log_line_is_plain(struct slice text, bool json)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c < ' ' || c >= 127 || c == '"' || c == '\\' || (!json && (c == ' ' || c == '=')))
            return false;
    }
    return true;
}

void log_line_text(struct log_line *line, struct slice name, struct slice text)
{
    size_t most = line->texts_left < LOG_TEXT_MAX ? line->texts_left : LOG_TEXT_MAX;
    size_t used;

    if (most < LOG_TEXT_LEAST)
        most = LOG_TEXT_LEAST;
    if (text.n == 0 || !put_name(line, name, most))
        return;
    used = line->out.size;
    if (text.n + 2 <= most && log_line_is_plain(text, line->json))
        put_quoted(line, text.at, text.n);
    else
        text_out_json_cut(&line->out, text, most);
    used = line->out.size - used;
    line->texts_left -= used < line->texts_left ? used : line->texts_left;
}

void log_line_word(struct log_line *line, struct slice name, const char *word)
{
    size_t n = word != NULL ? strlen(word) : 0;

    if (n > 0 && put_name(line, name, n))
        put_quoted(line, word, n);
}

void log_line_raw(struct log_line *line, struct slice name, struct slice raw)
{
    if (put_name(line, name, raw.n))
        text_out_slice(&line->out, raw);
}

/* ---- Numbers ------------------------------------------------------------------------------- */

void log_line_number(struct log_line *line, struct slice name, int64_t number)
{
    if (number >= 0)
        log_line_integer(line, name, number);
}

void log_line_integer(struct log_line *line, struct slice name, int64_t number)
{
    if (put_name(line, name, TEXT_DIGITS_MAX + 1))
        text_out_number(&line->out, number);
}

/* A mark and hexadecimal digits, in quotes where texts have them. */
static void put_hex(struct log_line *line, const char *mark, const uint8_t *bytes, size_t n)
{
    if (line->json)
        text_out_char(&line->out, '"');
    text_out_text(&line->out, mark);
    text_out_hex(&line->out, bytes, n);
    if (line->json)
        text_out_char(&line->out, '"');
}

void log_line_hex(struct log_line *line, struct slice name, const uint8_t *bytes, size_t n)
{
    if (put_name(line, name, 2 * n))
        put_hex(line, "", bytes, n);
}

void log_line_id(struct log_line *line, struct slice name, uint64_t id)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(id >> (56 - 8 * i));
    if (put_name(line, name, ID_BYTES))
        put_hex(line, "req_", bytes, sizeof bytes);
}

/* ---- Dates --------------------------------------------------------------------------------- */

static void two_digits(char *to, unsigned number)
{
    to[0] = (char)('0' + number / 10);
    to[1] = (char)('0' + number % 10);
}

void log_date(tg_ms at, char text[LOG_DATE_BYTES])
{
    const tg_ms last = INT64_C(253402300799999); /* the end of the year 9999 */
    uint64_t ms = at < 0 ? 0 : (uint64_t)(at > last ? last : at);
    unsigned second = (unsigned)(ms / 1000 % 86400), rest = (unsigned)(ms % 1000);
    struct civil date = civil_from_day((int64_t)(ms / 86400000));

    assert(date.year <= 9999 && date.month >= 1 && date.month <= 12 && date.day >= 1);
    memcpy(text, "0000-00-00T00:00:00.000Z", LOG_DATE_BYTES);
    two_digits(text, (unsigned)date.year / 100);
    two_digits(text + 2, (unsigned)date.year % 100);
    two_digits(text + 5, (unsigned)date.month);
    two_digits(text + 8, (unsigned)date.day);
    two_digits(text + 11, second / 3600);
    two_digits(text + 14, second / 60 % 60);
    two_digits(text + 17, second % 60);
    text[20] = (char)('0' + rest / 100);
    two_digits(text + 21, rest % 100);
}

/* ---- Lines --------------------------------------------------------------------------------- */

void log_line_init(struct log_line *line, bool json)
{
    line->json = json;
    line->first = true;
    text_out_fixed(&line->out, line->room, sizeof line->room);
    line->texts_left = LOG_TEXTS_MAX;
}

void log_line_begin(struct log_line *line, bool json, tg_ms at, struct slice level,
                    struct slice msg)
{
    char date[LOG_DATE_BYTES];

    log_line_init(line, json);
    log_date(at, date);
    put_name(line, FIELD("time"), sizeof date);
    put_quoted(line, date, sizeof date);
    put_name(line, FIELD("level"), level.n);
    put_quoted(line, level.at, level.n);
    log_line_text(line, FIELD("msg"), msg);
}

void log_line_end(struct log_line *line)
{
    if (line->json)
        text_out_text(&line->out, line->first ? "{}" : "}");
    text_out_char(&line->out, '\n');
    assert(!line->out.failed);
}
