/* log_line.c - a line of a log, field by field. See log_line.h.
 *
 * What a field may take is known before it is written, and one that does not fit is left out whole,
 * so that a line is good JSON however full it is. LINE_TAIL bytes are kept for its end.
 */
#include "server/obs/log_line.h"

#include <string.h>

#include "io/text/json_text_out.h"

enum { LINE_TAIL = 3, PUNCTUATION = 6, ID_BYTES = 20 };

static void put(struct log_line *line, const char *bytes, size_t n)
{
    memcpy(line->text + line->n, bytes, n);
    line->n += n;
}

static void put_byte(struct log_line *line, char c)
{
    line->text[line->n++] = c;
}

/* The name and what stands around it, if there is room for a value of so many bytes. */
static bool put_name(struct log_line *line, struct slice name, size_t value)
{
    if (line->n + name.n + value + PUNCTUATION + LINE_TAIL > LOG_LINE_MAX)
        return false;
    if (line->json)
        put(line, line->first ? "{\"" : ",\"", 2);
    else if (!line->first)
        put_byte(line, ' ');
    line->first = false;
    put(line, name.at, name.n);
    if (line->json)
        put(line, "\":", 2);
    else
        put_byte(line, '=');
    return true;
}

static void put_quoted(struct log_line *line, const char *bytes, size_t n)
{
    if (line->json)
        put_byte(line, '"');
    put(line, bytes, n);
    if (line->json)
        put_byte(line, '"');
}

/* ---- Texts --------------------------------------------------------------------------------- */

/* Characters that need neither escaping in JSON nor, for name=value, quotes. */
static bool is_plain(struct slice text, bool json)
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
    used = line->n;
    if (text.n + 2 <= most && is_plain(text, line->json))
        put_quoted(line, text.at, text.n);
    else
        line->n += json_text_out(text.at, text.n, line->text + line->n, most);
    used = line->n - used;
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
        put(line, raw.at, raw.n);
}

/* ---- Numbers ------------------------------------------------------------------------------- */

size_t log_digits(uint64_t number, char text[LOG_DIGITS_MAX])
{
    static const char PAIRS[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char digits[LOG_DIGITS_MAX];
    size_t at = LOG_DIGITS_MAX;

    for (; number >= 100; number /= 100)
        memcpy(digits + (at -= 2), PAIRS + 2 * (number % 100), 2);
    if (number >= 10)
        memcpy(digits + (at -= 2), PAIRS + 2 * number, 2);
    else
        digits[--at] = (char)('0' + number);
    memcpy(text, digits + at, LOG_DIGITS_MAX - at);
    return LOG_DIGITS_MAX - at;
}

void log_line_number(struct log_line *line, struct slice name, int64_t number)
{
    if (number >= 0)
        log_line_integer(line, name, number);
}

void log_line_integer(struct log_line *line, struct slice name, int64_t number)
{
    if (!put_name(line, name, LOG_DIGITS_MAX + 1))
        return;
    if (number < 0)
        put_byte(line, '-');
    line->n +=
        log_digits(number < 0 ? 0 - (uint64_t)number : (uint64_t)number, line->text + line->n);
}

static void put_hex(char *text, const uint8_t *bytes, size_t n)
{
    static const char HEX[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        *text++ = HEX[bytes[i] >> 4];
        *text++ = HEX[bytes[i] & 15];
    }
}

void log_line_hex(struct log_line *line, struct slice name, const uint8_t *bytes, size_t n)
{
    char text[64];

    if (2 * n > sizeof text || !put_name(line, name, 2 * n))
        return;
    put_hex(text, bytes, n);
    put_quoted(line, text, 2 * n);
}

void log_line_id(struct log_line *line, struct slice name, uint64_t id)
{
    uint8_t bytes[8];
    char text[ID_BYTES] = "req_";

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(id >> (56 - 8 * i));
    put_hex(text + 4, bytes, sizeof bytes);
    if (put_name(line, name, sizeof text))
        put_quoted(line, text, sizeof text);
}

/* ---- Dates --------------------------------------------------------------------------------- */

static void two_digits(char *to, unsigned number)
{
    to[0] = (char)('0' + number / 10);
    to[1] = (char)('0' + number % 10);
}

/* Days since 1970 to a date of the Gregorian calendar, with years that begin in March, so that the
 * day that is not in every year is the last one of its year. */
static void civil(uint64_t days, unsigned *year, unsigned *month, unsigned *day)
{
    uint64_t shifted = days + 719468, era = shifted / 146097;
    unsigned of_era = (unsigned)(shifted % 146097);
    unsigned years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * years + years / 4 - years / 100);
    unsigned from_march = (5 * of_year + 2) / 153;

    *day = of_year - (153 * from_march + 2) / 5 + 1;
    *month = from_march < 10 ? from_march + 3 : from_march - 9;
    *year = years + 400 * (unsigned)era + (*month <= 2);
}

void log_date(tg_ms at, char text[LOG_DATE_BYTES])
{
    const tg_ms last = INT64_C(253402300799999); /* of the year 9999 */
    uint64_t ms = at < 0 ? 0 : (uint64_t)(at > last ? last : at);
    unsigned second = (unsigned)(ms / 1000 % 86400), rest = (unsigned)(ms % 1000);
    unsigned year, month, day;

    civil(ms / 86400000, &year, &month, &day);
    memcpy(text, "0000-00-00T00:00:00.000Z", LOG_DATE_BYTES);
    two_digits(text, year / 100);
    two_digits(text + 2, year % 100);
    two_digits(text + 5, month);
    two_digits(text + 8, day);
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
    line->n = 0;
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
        put(line, line->first ? "{}" : "}", line->first ? 2 : 1);
    put_byte(line, '\n');
}
