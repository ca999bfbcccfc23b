/* config_values.c - numbers and units as they are written in a configuration.
 *
 * Strict, and exact where there is money: what is not read as a whole is not read at all.
 */
#include "server/config/config_values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/hex.h"
#include "lib/budget/civil.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits at the head of `text`. Null if there are none, or their number is above the maximum. */
static const char *take_digits(const char *text, int64_t *number)
{
    int64_t read = 0;

    if (!is_digit(*text))
        return NULL;
    for (; is_digit(*text); text++) {
        int digit = *text - '0';
        if (read > (TG_NUMBER_MAX - digit) / 10)
            return NULL;
        read = read * 10 + digit;
    }
    *number = read;
    return text;
}

bool value_count(const char *text, int64_t *count)
{
    int64_t read;
    const char *end = take_digits(text, &read);

    if (end == NULL || *end != '\0')
        return false;
    *count = read;
    return true;
}

static const char *skip_digits(const char *text)
{
    while (is_digit(*text))
        text++;
    return text;
}

/* strtod alone would also take spaces, hexadecimal, "inf" and "nan". */
static bool is_decimal(const char *text)
{
    const char *digits = text + (*text == '-');
    const char *end = skip_digits(digits);

    if (end == digits)
        return false;
    if (*end == '.') {
        const char *fraction = end + 1;
        end = skip_digits(fraction);
        if (end == fraction)
            return false;
    }
    if (*end == 'e' || *end == 'E') {
        const char *exponent = end + 1 + (end[1] == '-' || end[1] == '+');
        end = skip_digits(exponent);
        if (end == exponent)
            return false;
    }
    return *end == '\0';
}

bool value_number(const char *text, double *number)
{
    double read;

    if (!is_decimal(text))
        return false;
    read = strtod(text, NULL);
    if (!isfinite(read))
        return false;
    *number = read;
    return true;
}

struct unit {
    const char *name;
    int64_t factor;
};

static bool with_unit(const char *text, const struct unit *units, int64_t *value)
{
    int64_t number;
    const char *unit = take_digits(text, &number);

    if (unit == NULL)
        return false;
    for (; units->name != NULL; units++)
        if (strcmp(units->name, unit) == 0) {
            if (number > TG_NUMBER_MAX / units->factor)
                return false;
            *value = number * units->factor;
            return true;
        }
    return false;
}

bool value_duration(const char *text, tg_ms *duration)
{
    static const struct unit units[] = {
        {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}, {NULL, 0},
    };

    return with_unit(text, units, duration);
}

bool value_size(const char *text, int64_t *bytes)
{
    static const struct unit units[] = {
        {"B", 1},
        {"KiB", 1024},
        {"MiB", 1024 * 1024},
        {"GiB", 1024 * 1024 * 1024},
        {"TiB", INT64_C(1024) * 1024 * 1024 * 1024},
        {NULL, 0},
    };

    return with_unit(text, units, bytes);
}

bool value_usd(const char *text, int64_t *micro_usd)
{
    int64_t dollars, micro = 0;
    const char *at = take_digits(text, &dollars);

    if (at == NULL)
        return false;
    if (*at == '.') {
        int64_t worth = 100000;
        if (!is_digit(*++at))
            return false;
        for (; is_digit(*at); at++, worth /= 10) {
            if (worth == 0)
                return false;
            micro += (*at - '0') * worth;
        }
    }
    if (*at != '\0' || dollars > (TG_NUMBER_MAX - micro) / 1000000)
        return false;
    *micro_usd = dollars * 1000000 + micro;
    return true;
}

bool value_factor(const char *text, int64_t *milli)
{
    int64_t millionths;

    if (!value_usd(text, &millionths) || millionths % 1000 != 0)
        return false;
    *milli = millionths / 1000;
    return true;
}

bool value_sha256(const char *text, uint8_t hash[32])
{
    uint8_t read[32];

    if (strlen(text) != 64)
        return false;
    for (size_t i = 0; i < sizeof read; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        read[i] = (uint8_t)(high * 16 + low);
    }
    memcpy(hash, read, sizeof read);
    return true;
}

/* ---- Time ---- */

/* Exactly `digits` digits with a value in [min, max], and `stop` after them, unless it is 0. */
static bool take_field(const char **text, int digits, char stop, int min, int max, int *value)
{
    int read = 0;

    for (int i = 0; i < digits; i++, ++*text) {
        if (!is_digit(**text))
            return false;
        read = read * 10 + (**text - '0');
    }
    if (stop != '\0' && *(*text)++ != stop)
        return false;
    *value = read;
    return read >= min && read <= max;
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return days[month - 1] + (month == 2 && leap);
}

/* "Z" or "+02:00", in ms. */
static bool take_offset(const char *text, tg_ms *offset)
{
    int hours, minutes, sign = *text == '-' ? -1 : 1;

    if (strcmp(text, "Z") == 0) {
        *offset = 0;
        return true;
    }
    if (*text != '+' && *text != '-')
        return false;
    text++;
    if (!take_field(&text, 2, ':', 0, 23, &hours) || !take_field(&text, 2, '\0', 0, 59, &minutes))
        return false;
    *offset = sign * (hours * 60 + minutes) * INT64_C(60000);
    return *text == '\0';
}

bool value_time(const char *text, tg_ms *at)
{
    int year, month, day, hour, minute, second;
    tg_ms fraction = 0, offset, read;

    if (!take_field(&text, 4, '-', 1970, 9999, &year) ||
        !take_field(&text, 2, '-', 1, 12, &month) ||
        !take_field(&text, 2, 'T', 1, days_in_month(year, month), &day) ||
        !take_field(&text, 2, ':', 0, 23, &hour) || !take_field(&text, 2, ':', 0, 59, &minute) ||
        !take_field(&text, 2, '\0', 0, 59, &second))
        return false;
    if (*text == '.') {
        tg_ms worth = 100;
        if (!is_digit(*++text))
            return false;
        for (; is_digit(*text); text++, worth /= 10)
            fraction += (*text - '0') * worth;
    }
    if (!take_offset(text, &offset))
        return false;
    read = civil_to_day(year, month, day) * 86400000 +
           ((hour * 60 + minute) * 60 + second) * INT64_C(1000) + fraction - offset;
    if (read < 0)
        return false;
    *at = read;
    return true;
}
