/* scenario_law.c - a law as it is written on the command line: NAME[:FIELD=VALUE]... */
#include <string.h>

#include "lab/scenario/scenario.h"
#include "lib/core/problem.h"

static bool law_of_name(const char *name, size_t bytes, enum tg_law *law)
{
    for (int i = 0; i < TG_LAW_COUNT; i++) {
        const char *known = tg_law_name((enum tg_law)i);
        if (strlen(known) == bytes && memcmp(known, name, bytes) == 0) {
            *law = (enum tg_law)i;
            return true;
        }
    }
    return false;
}

static enum tg_err unknown_law(const char *text, size_t bytes, struct tg_problem *problem)
{
    char list[128] = "";

    for (int i = 0; i < TG_LAW_COUNT; i++) {
        if (i > 0)
            strncat(list, ", ", sizeof list - strlen(list) - 1);
        strncat(list, tg_law_name((enum tg_law)i), sizeof list - strlen(list) - 1);
    }
    return problem_say(problem, TG_ERR_INVALID, "there is no law '%.*s'; there are %s", (int)bytes,
                       text, list);
}

/* Digits alone, at most 15 of them. */
static bool read_digits(const char *text, size_t bytes, int64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *value = *value * 10 + (text[i] - '0');
    }
    return bytes > 0 && bytes <= 15;
}

/* Where a field goes, if it has an effect on this law. */
static int64_t *law_field(struct scenario_law *law, const char *name, size_t bytes)
{
    enum tg_law kind = law->law.law;
    bool learns = kind != TG_LAW_FIXED && kind != TG_LAW_NONE;
    const struct {
        const char *name;
        int64_t *value;
        bool has_effect;
    } fields[] = {
        {"initial", &law->law.initial, kind != TG_LAW_NONE},
        {"min", &law->law.min, learns},
        {"max", &law->law.max, kind != TG_LAW_FIXED},
        {"window", &law->law.window, kind == TG_LAW_VEGAS},
        {"wait", &law->wait, true},
    };

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (strlen(fields[i].name) == bytes && memcmp(fields[i].name, name, bytes) == 0)
            return fields[i].has_effect ? fields[i].value : NULL;
    return NULL;
}

static enum tg_err take_field(struct scenario_law *law, const char *text, size_t bytes,
                              struct tg_problem *problem)
{
    const char *equals = memchr(text, '=', bytes);
    size_t name_bytes = equals != NULL ? (size_t)(equals - text) : bytes;
    int64_t *value = law_field(law, text, name_bytes);

    if (value == NULL)
        return problem_say(problem, TG_ERR_INVALID, "the law %s has no '%.*s'; %s",
                           tg_law_name(law->law.law), (int)name_bytes, text,
                           law->law.law == TG_LAW_FIXED  ? "it takes initial and wait"
                           : law->law.law == TG_LAW_NONE ? "it takes max and wait"
                           : law->law.law == TG_LAW_VEGAS
                               ? "it takes initial, min, max, window and wait"
                               : "it takes initial, min, max and wait");
    if (value == &law->wait && bytes - name_bytes == 5 && memcmp(equals, "=auto", 5) == 0)
        *value = TG_WAIT_AUTO;
    else if (equals == NULL || !read_digits(equals + 1, bytes - name_bytes - 1, value))
        return problem_say(problem, TG_ERR_INVALID, "'%.*s' needs a whole number after its '='",
                           (int)bytes, text);
    law->has_wait |= value == &law->wait;
    return TG_OK;
}

enum tg_err scenario_law_parse(const char *text, size_t bytes, struct scenario_law *law,
                               struct tg_problem *problem)
{
    const char *end = text + bytes, *colon = memchr(text, ':', bytes);
    size_t name_bytes = colon != NULL ? (size_t)(colon - text) : bytes;
    enum tg_err err = TG_OK;
    enum tg_law chosen;

    *law = (struct scenario_law){.has_wait = false};
    tg_law_config_init(&law->law);
    if (bytes >= sizeof law->name || !law_of_name(text, name_bytes, &chosen))
        return unknown_law(text, name_bytes, problem);
    tg_law_config_choose(&law->law, chosen);
    memcpy(law->name, text, bytes);
    if (law->law.law == TG_LAW_FIXED) {
        law->law.min = 1;
        law->law.max = TG_NUMBER_MAX;
    }
    if (law->law.law == TG_LAW_NONE)
        law->law.min = 1;
    /* Its queue is bounded by what it has learned, not by a configured time. */
    if (law->law.law == TG_LAW_AUTO) {
        law->has_wait = true;
        law->wait = TG_WAIT_AUTO;
    }
    for (const char *field = text + name_bytes; !err && field < end;) {
        const char *begin = field + 1, *next = memchr(begin, ':', (size_t)(end - begin));
        field = next != NULL ? next : end;
        err = take_field(law, begin, (size_t)(field - begin), problem);
    }
    return err ? err : tg_law_config_check(&law->law, problem);
}

void scenario_law_apply(const struct scenario_law *law, struct tg_gate_config *gate)
{
    gate->concurrency.on = true;
    gate->concurrency.law = law->law;
    for (int i = 0; law->has_wait && i < TG_PRIORITY_COUNT; i++)
        gate->concurrency.wait[i] = law->wait;
}
