/* config_scalars.c - single values of a configuration: what a key takes, and how it is kept.
 *
 * A wrong value is reported and its default stays. What a variable holds, and what is secret, is
 * never shown: a message says what stands in the file, or nothing of it.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "server/config/config_reader.h"
#include "server/config/config_values.h"
#include "server/dialect/path_pattern.h"

/* ---- Parsing ---- */

/* A value as it is kept. */
union kept {
    int64_t integer;
    double real;
    bool boolean;
    int word;
    const char *text;
    uint8_t hash[32];
    struct config_range range;
    struct value_url url;
};

static bool is_word(const struct schema_key *key, const char *text)
{
    int word;

    return schema_find_word(key->words, text, &word);
}

static bool is_in_range(const struct schema_key *key, double value)
{
    return (key->above ? value > key->min : value >= key->min) && value <= key->max;
}

/* Texts, most of which have a form. */
static bool is_formed(const struct schema_key *key, const char *text)
{
    struct value_url url;
    int word;

    switch (key->kind) {
    case SCHEMA_NAME:
        return value_is_name(text);
    case SCHEMA_LINE:
        return value_is_line(text);
    case SCHEMA_SECRET:
    case SCHEMA_DOCUMENT:
        return *text != '\0' && strcmp(text, "file:") != 0;
    case SCHEMA_FILE:
        return *text != '\0';
    case SCHEMA_ZONE:
        return value_is_zone(text);
    case SCHEMA_ADDRESS:
        return value_is_address(text);
    case SCHEMA_URL:
        return schema_find_word(key->words, text, &word) || value_url(text, &url);
    case SCHEMA_PATH:
        return *text != '\0' ? value_is_path(text) : key->otherwise != NULL;
    case SCHEMA_STORE:
        return value_is_store(text);
    case SCHEMA_PATTERN:
        return value_is_pattern(text);
    case SCHEMA_ENDPOINT:
        return path_pattern_problem(text + (text[0] == '!')) == NULL;
    case SCHEMA_FIELD:
        return value_is_field(text);
    case SCHEMA_VALUE:
        return value_is_line(text) && strlen(text) <= 256;
    case SCHEMA_DENY:
        return strcmp(text, "true") == 0;
    default:
        return true;
    }
}

/* Texts are kept as they are, and copied by whoever keeps them. */
static bool parse(const struct schema_key *key, const char *text, union kept *kept, size_t *bytes)
{
    int word;

    *bytes = sizeof kept->text;
    kept->text = text;
    switch (key->kind) {
    case SCHEMA_COUNT:
        *bytes = sizeof kept->integer;
        return value_count(text, &kept->integer) && is_in_range(key, (double)kept->integer);
    case SCHEMA_DURATION:
        *bytes = sizeof kept->integer;
        return value_duration(text, &kept->integer) && is_in_range(key, (double)kept->integer);
    case SCHEMA_WAIT:
        *bytes = sizeof kept->integer;
        kept->integer = TG_WAIT_AUTO;
        return is_word(key, text) ||
               (value_duration(text, &kept->integer) && is_in_range(key, (double)kept->integer));
    case SCHEMA_SIZE:
        *bytes = sizeof kept->integer;
        return value_size(text, &kept->integer) && is_in_range(key, (double)kept->integer);
    case SCHEMA_USD:
        *bytes = sizeof kept->integer;
        return value_usd(text, &kept->integer) && is_in_range(key, (double)kept->integer);
    case SCHEMA_FACTOR:
        *bytes = sizeof kept->integer;
        return value_factor(text, &kept->integer) && is_in_range(key, (double)kept->integer);
    case SCHEMA_TIME:
        *bytes = sizeof kept->integer;
        return value_time(text, &kept->integer);
    case SCHEMA_NUMBER:
        *bytes = sizeof kept->real;
        return value_number(text, &kept->real) && is_in_range(key, kept->real);
    case SCHEMA_BOOL:
        *bytes = sizeof kept->boolean;
        kept->boolean = strcmp(text, "true") == 0;
        return kept->boolean || strcmp(text, "false") == 0;
    case SCHEMA_WORD:
        *bytes = sizeof kept->word;
        return schema_find_word(key->words, text, &kept->word);
    case SCHEMA_SWITCH:
        *bytes = sizeof kept->boolean;
        if (!schema_find_word(key->words, text, &word))
            return false;
        assert(word <= 1); /* a switch has two words: the second one is true */
        kept->boolean = word == 1;
        return true;
    case SCHEMA_SHA256:
        *bytes = sizeof kept->hash;
        return value_sha256(text, kept->hash);
    case SCHEMA_NETWORK:
        *bytes = sizeof kept->range;
        return value_network(text, &kept->range);
    case SCHEMA_BASE:
        kept->url = (struct value_url){0};
        return is_word(key, text) || (value_url(text, &kept->url) && !kept->url.has_query);
    case SCHEMA_HEADER:
        return value_is_header(text, &kept->text);
    case SCHEMA_CLAIM:
        kept->text = text + sizeof "claim:" - 1;
        return strncmp(text, "claim:", sizeof "claim:" - 1) == 0 && value_is_name(kept->text);
    default:
        return is_formed(key, text);
    }
}

/* ---- Keeping ---- */

static void keep_url(struct reader *reader, const struct value_url *url, struct config_url *into)
{
    if (url->host == NULL) {
        *into = (struct config_url){0};
        return;
    }
    *into = (struct config_url){.tls = url->tls,
                                .host = config_bytes(reader, url->host, url->host_bytes),
                                .port = url->port,
                                .path = config_bytes(reader, url->path, url->path_bytes)};
}

static const char *keep_text(struct reader *reader, const struct schema_key *key, const char *text)
{
    size_t bytes = strlen(text);

    switch (key->kind) {
    case SCHEMA_PATH: /* "/" stays: it is a path, and nothing is none */
        while (bytes > 1 && text[bytes - 1] == '/')
            bytes--;
        return config_bytes(reader, text, bytes);
    case SCHEMA_FILE:
        return is_word(key, text) ? config_text(reader, text) : config_locate(reader, text);
    case SCHEMA_HEADER:
    case SCHEMA_FIELD:
        return config_lower(reader, text);
    case SCHEMA_STORE:
        return config_secret_text(reader, text);
    default:
        return config_text(reader, text);
    }
}

static void keep_value(struct reader *reader, const struct schema_key *key, union kept *kept,
                       size_t bytes, void *into)
{
    switch (key->kind) {
    case SCHEMA_BASE:
        keep_url(reader, &kept->url, into);
        return;
    case SCHEMA_COUNT:
    case SCHEMA_NUMBER:
    case SCHEMA_DURATION:
    case SCHEMA_WAIT:
    case SCHEMA_SIZE:
    case SCHEMA_USD:
    case SCHEMA_FACTOR:
    case SCHEMA_BOOL:
    case SCHEMA_WORD:
    case SCHEMA_SWITCH:
    case SCHEMA_SHA256:
    case SCHEMA_TIME:
    case SCHEMA_NETWORK:
        break;
    default:
        kept->text = keep_text(reader, key, kept->text);
    }
    memcpy(into, kept, bytes);
}

/* ---- Refusing ---- */

/* What the file holds, for a message: never what a variable does, nor anything secret. */
static void show(const struct schema_key *key, const struct yaml_node *node, char *text,
                 size_t bytes)
{
    if (key->kind == SCHEMA_SECRET || key->kind == SCHEMA_DOCUMENT || key->kind == SCHEMA_STORE ||
        key->kind == SCHEMA_URL || key->kind == SCHEMA_BASE)
        snprintf(text, bytes, "not one");
    else if (node->bytes == 0)
        snprintf(text, bytes, "empty");
    else
        snprintf(text, bytes, "\"%.60s\"", node->written);
}

static void refuse_value(struct reader *reader, const struct schema_key *key,
                         const struct yaml_node *node, const char *why)
{
    char wanted[200], shown[80];

    schema_describe(key, wanted, sizeof wanted);
    show(key, node, shown, sizeof shown);
    config_error(reader, node, "%s is %s%s; it must be %s", reader->path, shown, why, wanted);
}

static const char *explain(const struct schema_key *key, const struct yaml_node *node)
{
    int64_t count;
    double number;

    if (key->later != NULL && strcmp(node->text, key->later) == 0)
        return ", which is not available yet";
    if ((key->kind == SCHEMA_DURATION || key->kind == SCHEMA_WAIT || key->kind == SCHEMA_SIZE) &&
        (value_count(node->text, &count) || value_number(node->text, &number)))
        return ", a number without a unit";
    return "";
}

bool config_read_value(struct reader *reader, const struct schema_key *key,
                       const struct yaml_node *node, void *into)
{
    bool written = node->text == node->written; /* not by a variable */
    union kept kept;
    size_t bytes;

    if (node->kind != YAML_TEXT) {
        char wanted[200];
        schema_describe(key, wanted, sizeof wanted);
        config_error(reader, node, "%s is a %s; it must be %s", reader->path,
                     node->kind == YAML_LIST ? "list" : "section", wanted);
        return false;
    }
    if (node->unknown)
        return false;
    /* A plain null is not a text; quotes, or a variable, make it one. */
    if (written && !node->quoted &&
        (node->bytes == 0 || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0)) {
        refuse_value(reader, key, node, "");
        return false;
    }
    if (written && node->quoted &&
        (key->kind == SCHEMA_COUNT || key->kind == SCHEMA_NUMBER || key->kind == SCHEMA_USD ||
         key->kind == SCHEMA_FACTOR || key->kind == SCHEMA_BOOL)) {
        refuse_value(reader, key, node, " in quotes, a text");
        return false;
    }
    if (!parse(key, node->text, &kept, &bytes) ||
        (key->later != NULL && strcmp(node->text, key->later) == 0)) {
        refuse_value(reader, key, node, explain(key, node));
        return false;
    }
    if (key->kind == SCHEMA_SECRET)
        return config_read_secret(reader, node, into);
    if (key->kind == SCHEMA_DOCUMENT)
        return config_read_secret_document(reader, node, into);
    bool is_file = key->kind == SCHEMA_FILE && !is_word(key, node->text);
    if (is_file && !config_file_readable(reader, node->text))
        config_missing(reader, node, false, "%s: the file %.200s cannot be read", reader->path,
                       node->written);
    assert(bytes <= sizeof kept);
    if (into != NULL)
        keep_value(reader, key, &kept, bytes, into);
    if (key->kind == SCHEMA_STORE && written)
        config_wipe_later(reader, node->text, node->bytes); /* there may be a password in it */
    if (into != NULL && is_file && kept.text != NULL &&
        reader->documents[reader->current].folder != NULL)
        config_source_add(reader, CONFIG_SOURCE_CERTIFICATE, kept.text);
    return true;
}

/* ---- Defaults ---- */

/* A default is read as if it were written: so the table that documents it is the one that acts. */
void config_set_default(struct reader *reader, const struct schema_key *key, void *place)
{
    const char *written = key->otherwise;
    union kept kept;
    size_t bytes;

    if (written != NULL && strcmp(written, "\"\"") == 0)
        written = "";
    if (key->kind == SCHEMA_TIME) {
        tg_ms never = CONFIG_NEVER;
        memcpy(place, &never, sizeof never);
    } else if (key->kind == SCHEMA_WAIT) {
        tg_ms absent = CONFIG_WAIT_ABSENT; /* whose default depends on who reads it */
        memcpy(place, &absent, sizeof absent);
    } else if (key->otherwise != NULL && parse(key, written, &kept, &bytes)) {
        keep_value(reader, key, &kept, bytes, place);
    }
}
