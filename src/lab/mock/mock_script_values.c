/* mock_script_values.c - values of a script: numbers, durations, latencies, words.
 *
 * The configuration has such readers too, which are the gateway's: the mock stands beside it and
 * takes nothing from it.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/mock/mock_script_internal.h"

void script_say(struct script_reading *reading, const struct yaml_node *at, const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    reading->wrong = true;
    reading->report(reading->context, at->line, at->column, text);
}

const char *script_text_of(const struct yaml_node *node)
{
    return node->kind == YAML_TEXT ? node->text : "";
}

bool script_count(const char *text, int64_t most, int64_t *count)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || value > most)
        return false;
    *count = value;
    return true;
}

bool script_real(const char *text, double most, double *number)
{
    char *end;

    if ((*text < '0' || *text > '9') && *text != '.')
        return false;
    double value = strtod(text, &end);
    if (*end != '\0' || !isfinite(value) || value > most)
        return false;
    *number = value;
    return true;
}

/* A whole number and its unit, in n bytes; at most an hour. */
static bool script_duration(const char *text, size_t n, int64_t *ms)
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    size_t digits = strspn(text, "0123456789");
    char number[16];
    int64_t value;

    if (digits == 0 || digits >= n || digits >= sizeof number)
        return false;
    memcpy(number, text, digits);
    number[digits] = '\0';
    if (!script_count(number, 3600000, &value))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t unit = strlen(units[i].unit);
        if (unit != n - digits || memcmp(text + digits, units[i].unit, unit) != 0)
            continue;
        if (value * units[i].ms > 3600000)
            return false;
        *ms = value * units[i].ms;
        return true;
    }
    return false;
}

bool mock_latency_parse(const char *text, struct mock_action *action)
{
    static const char exponential[] = "exponential(", lognormal[] = "lognormal(";
    size_t n = strlen(text);
    char sigma[32];

    if (script_duration(text, n, &action->latency_ms)) {
        action->spread = MOCK_FIXED;
        return true;
    }
    if (n == 0 || text[n - 1] != ')')
        return false;
    if (strncmp(text, exponential, sizeof exponential - 1) == 0) {
        action->spread = MOCK_EXPONENTIAL;
        text += sizeof exponential - 1;
        return script_duration(text, strlen(text) - 1, &action->latency_ms);
    }
    if (strncmp(text, lognormal, sizeof lognormal - 1) != 0)
        return false;
    text += sizeof lognormal - 1;
    size_t comma = strcspn(text, ","), from = comma + 1 + strspn(text + comma, ", ") - 1;
    if (text[comma] != ',' || strlen(text + from) > sizeof sigma)
        return false;
    action->spread = MOCK_LOGNORMAL;
    snprintf(sigma, sizeof sigma, "%.*s", (int)strlen(text + from) - 1, text + from);
    return script_duration(text, comma, &action->latency_ms) &&
           script_real(sigma, 5, &action->sigma);
}

/* ---- Reading one value ----------------------------------------------------------------------- */

void script_read_count(struct script_reading *reading, const struct yaml_node *node, int64_t most,
                       int64_t *count)
{
    if (!script_count(script_text_of(node), most, count))
        script_say(reading, node, "%s must be a whole number from 0 to %lld", node->key->text,
                   (long long)most);
}

void script_read_duration(struct script_reading *reading, const struct yaml_node *node, int64_t *ms)
{
    const char *text = script_text_of(node);

    if (!script_duration(text, strlen(text), ms))
        script_say(reading, node, "%s must be a duration up to an hour, such as 150ms, 2s or 1m",
                   node->key->text);
}

void script_read_bool(struct script_reading *reading, const struct yaml_node *node, bool *value)
{
    if (strcmp(script_text_of(node), "true") == 0)
        *value = true;
    else if (strcmp(script_text_of(node), "false") == 0)
        *value = false;
    else
        script_say(reading, node, "%s must be true or false", node->key->text);
}

void script_read_text(struct script_reading *reading, const struct yaml_node *node,
                      const char **text)
{
    if (node->kind != YAML_TEXT)
        script_say(reading, node, "%s must be a text", node->key->text);
    else if ((*text = arena_text(reading->script->arena, node->text, node->bytes)) == NULL)
        script_say(reading, node, "there is no memory");
}

/* The place of a word in a list that ends in null; the value stays if it is not there. */
int script_read_word(struct script_reading *reading, const struct yaml_node *node,
                     const char *const *words, int value)
{
    char all[200] = "";
    size_t n = 0;

    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], script_text_of(node)) == 0)
            return i;
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i > 0 ? ", " : "", words[i]);
    }
    script_say(reading, node, "%s must be one of %s", node->key->text, all);
    return value;
}
