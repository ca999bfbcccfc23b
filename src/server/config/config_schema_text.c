/* config_schema_text.c - finds keys and words of the schema, and says what a key takes. */
#include "server/config/config_schema_rows.h"

#include <stdio.h>
#include <string.h>

const struct schema_key *schema_find_key(const struct schema_section *section, const char *name)
{
    for (const struct schema_key *key = section->keys; key->name != NULL; key++)
        if (strcmp(key->name, name) == 0)
            return key;
    return NULL;
}

/* The i-th of "a|b|c"; false if there are fewer. */
static bool schema_word(const char *words, size_t i, const char **word, size_t *bytes)
{
    while (words != NULL && *words != '\0') {
        size_t length = strcspn(words, "|");
        if (i-- == 0) {
            *word = words;
            *bytes = length;
            return true;
        }
        words += length + (words[length] == '|');
    }
    return false;
}

bool schema_find_word(const char *words, const char *text, int *number)
{
    const char *word;
    size_t bytes;

    for (size_t i = 0; schema_word(words, i, &word, &bytes); i++)
        if (strlen(text) == bytes && memcmp(word, text, bytes) == 0) {
            *number = (int)i;
            return true;
        }
    return false;
}

static void describe_range(const struct schema_key *key, const char *what, char *text, size_t bytes)
{
    if (key->max >= NUMBER_MAX && key->above)
        snprintf(text, bytes, "%s above %.15g", what, key->min);
    else if (key->max >= NUMBER_MAX)
        snprintf(text, bytes, "%s from %.15g up", what, key->min);
    else if (key->max <= key->min)
        snprintf(text, bytes, "%.15g", key->min);
    else if (key->above)
        snprintf(text, bytes, "%s above %.15g and at most %.15g", what, key->min, key->max);
    else
        snprintf(text, bytes, "%s from %.15g to %.15g", what, key->min, key->max);
}

static void describe_choices(const struct schema_key *key, char *text, size_t bytes)
{
    const char *word;
    size_t length;

    snprintf(text, bytes, "%s", "");
    for (size_t i = 0; schema_word(key->words, i, &word, &length); i++) {
        size_t used = strlen(text);
        snprintf(text + used, bytes - used, "%s%.*s", i > 0 ? " | " : "", (int)length, word);
    }
}

void schema_describe(const struct schema_key *key, char *text, size_t bytes)
{
    static const char *const kinds[] = {
        [SCHEMA_TEXT] = "a text",
        [SCHEMA_NAME] = "a name of 1 to 128 printable characters",
        [SCHEMA_LINE] = "a text without control characters",
        [SCHEMA_SECRET] = "a secret: ${NAME} or file:PATH",
        [SCHEMA_DOCUMENT] = "a secret of many lines: ${NAME} or file:PATH",
        [SCHEMA_SHA256] = "64 hexadecimal digits",
        [SCHEMA_TIME] = "a time such as 2027-12-31T00:00:00Z",
        [SCHEMA_ZONE] = "a time zone such as UTC or Europe/Berlin",
        [SCHEMA_ADDRESS] = "an address HOST:PORT, *:PORT or unix:PATH",
        [SCHEMA_NETWORK] = "a network such as 10.0.0.0/8, or an IP address",
        [SCHEMA_BASE] = "a URL that begins http:// or https://, without user, query and fragment",
        [SCHEMA_PATH] = "a path such as /x/y",
        [SCHEMA_STORE] = "memory, redis://[user:password@]host:port[/db], rediss://..., "
                         "redis+cluster://host:port,..., or redis+sentinel://name@host:port,...",
        [SCHEMA_PATTERN] = "a pattern such as demo-* or !demo-large",
        [SCHEMA_ENDPOINT] = "a path such as /v1/files/* or !/v1/files/x",
        [SCHEMA_HEADER] = "header:NAME",
        [SCHEMA_FIELD] = "the name of a header",
        [SCHEMA_CLAIM] = "claim:NAME, of a claim at the top of the token",
        [SCHEMA_VALUE] = "a text, a number, true or false",
        [SCHEMA_DENY] = "true, or a list of values",
        [SCHEMA_LIMITER] = "a limiter: a strategy and its settings",
        [SCHEMA_SECTION] = "a section of keys",
    };
    char words[160] = "";

    describe_choices(key, words, sizeof words);
    switch (key->kind) {
    case SCHEMA_COUNT:
        describe_range(key, "a whole number", text, bytes);
        break;
    case SCHEMA_NUMBER:
        describe_range(key, "a number", text, bytes);
        break;
    case SCHEMA_DURATION:
        snprintf(text, bytes, "a duration such as 10ms, 5s, 2m, 1h, 30d%s%.0f%s",
                 key->min > 0 ? ", at least " : " (", key->min, key->min > 0 ? "ms" : "ms too)");
        if (key->max < NUMBER_MAX)
            snprintf(text, bytes, "a duration such as 10ms, from %.0fms to %.0fms", key->min,
                     key->max);
        break;
    case SCHEMA_WAIT:
        snprintf(text, bytes, "auto or a duration such as 10ms, 5s, 2m, 1h, 30d (0ms too)");
        break;
    case SCHEMA_SIZE:
        snprintf(text, bytes, "a size such as 64KiB, 32MiB, 1GiB");
        if (key->max < NUMBER_MAX)
            snprintf(text, bytes, "a size such as 64KiB, from %.0fB to %.0fB", key->min, key->max);
        break;
    case SCHEMA_BOOL:
        snprintf(text, bytes, "%s", key->later != NULL ? "false" : "true or false");
        break;
    case SCHEMA_USD:
        snprintf(text, bytes, "an amount in USD from 0 up, with at most six decimals");
        break;
    case SCHEMA_FACTOR:
        snprintf(text, bytes, "a factor from 0.001 to 1000, with at most three decimals");
        break;
    case SCHEMA_WORD:
    case SCHEMA_SWITCH:
        snprintf(text, bytes, "%s%s", strchr(words, '|') != NULL ? "one of " : "", words);
        break;
    case SCHEMA_SECTION:
        snprintf(text, bytes, "%s%s%s", words, *words ? " or " : "", kinds[SCHEMA_SECTION]);
        break;
    case SCHEMA_FILE:
        snprintf(text, bytes, "%s%sthe path of a file", words, *words ? " or " : "");
        break;
    case SCHEMA_URL:
        snprintf(text, bytes, "%s%sa URL that begins http:// or https://", words,
                 *words ? " or " : "");
        break;
    case SCHEMA_BASE:
        snprintf(text, bytes, "%s%s%s", words, *words ? " or " : "", kinds[SCHEMA_BASE]);
        break;
    default:
        snprintf(text, bytes, "%s", kinds[key->kind]);
    }
}
