/* config_scalars.c - single values of a configuration: what a key takes, and how it is kept.
 *
 * A wrong value is reported and its default stays. What a variable holds, and what is secret, is
 * never shown: a message says what stands in the file, or nothing of it.
 */
#include "server/config/config_reader.h"
#include "server/config/config_values.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

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

static bool config_scalars_in_range(const struct schema_key *key, double value)
{
    return (key->above ? value > key->min : value >= key->min) && value <= key->max;
}

static bool parse_bool(const char *text, bool *value)
{
    *value = strcmp(text, "true") == 0;
    return *value || strcmp(text, "false") == 0;
}

/* The second of two words is true. */
static bool parse_switch(const char *words, const char *text, bool *value)
{
    int word;

    if (!schema_find_word(words, text, &word))
        return false;
    *value = word == 1;
    return true;
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
    case SCHEMA_FIELD:
        return value_is_field(text);
    default:
        return true;
    }
}

/* Texts are kept as they are, and copied by whoever keeps them. */
static bool parse(const struct schema_key *key, const char *text, union kept *kept, size_t *bytes)
{
    *bytes = sizeof kept->text;
    kept->text = text;
    switch (key->kind) {
    case SCHEMA_COUNT:
        *bytes = sizeof kept->integer;
        return value_count(text, &kept->integer) &&
               config_scalars_in_range(key, (double)kept->integer);
    case SCHEMA_DURATION:
        *bytes = sizeof kept->integer;
        return value_duration(text, &kept->integer) &&
               config_scalars_in_range(key, (double)kept->integer);
    case SCHEMA_SIZE:
        *bytes = sizeof kept->integer;
        return value_size(text, &kept->integer) &&
               config_scalars_in_range(key, (double)kept->integer);
    case SCHEMA_USD:
        *bytes = sizeof kept->integer;
        return value_usd(text, &kept->integer) &&
               config_scalars_in_range(key, (double)kept->integer);
    case SCHEMA_TIME:
        *bytes = sizeof kept->integer;
        return value_time(text, &kept->integer);
    case SCHEMA_NUMBER:
        *bytes = sizeof kept->real;
        return value_number(text, &kept->real) && config_scalars_in_range(key, kept->real);
    case SCHEMA_BOOL:
        *bytes = sizeof kept->boolean;
        return parse_bool(text, &kept->boolean);
    case SCHEMA_WORD:
        *bytes = sizeof kept->word;
        return schema_find_word(key->words, text, &kept->word);
    case SCHEMA_SWITCH:
        *bytes = sizeof kept->boolean;
        return parse_switch(key->words, text, &kept->boolean);
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

/* "/" stays: it is a path, and nothing is none. */
static const char *keep_path(struct reader *reader, const char *text)
{
    size_t bytes = strlen(text);

    while (bytes > 1 && text[bytes - 1] == '/')
        bytes--;
    return config_bytes(reader, text, bytes);
}

static const char *config_scalars_keep_text(struct reader *reader, const struct schema_key *key,
                                            const char *text)
{
    switch (key->kind) {
    case SCHEMA_PATH:
        return keep_path(reader, text);
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

static void config_scalars_keep(struct reader *reader, const struct schema_key *key,
                                union kept *kept, size_t bytes, void *into)
{
    switch (key->kind) {
    case SCHEMA_BASE:
        keep_url(reader, &kept->url, into);
        return;
    case SCHEMA_COUNT:
    case SCHEMA_NUMBER:
    case SCHEMA_DURATION:
    case SCHEMA_SIZE:
    case SCHEMA_USD:
    case SCHEMA_BOOL:
    case SCHEMA_WORD:
    case SCHEMA_SWITCH:
    case SCHEMA_SHA256:
    case SCHEMA_TIME:
    case SCHEMA_NETWORK:
        break;
    default:
        kept->text = config_scalars_keep_text(reader, key, kept->text);
    }
    memcpy(into, kept, bytes);
}

/* ---- Refusing ---- */

/* What is right, and nobody can do yet. */
static bool is_later(const struct schema_key *key, const char *text)
{
    if (key->later == NULL)
        return false;
    return strcmp(text, key->later) == 0;
}

/* What the file holds, for a message: never what a variable does, nor anything secret. */
static void show(const struct schema_key *key, const struct yaml_node *node, char *text,
                 size_t bytes)
{
    if (key->kind == SCHEMA_SECRET || key->kind == SCHEMA_STORE || key->kind == SCHEMA_URL ||
        key->kind == SCHEMA_BASE)
        snprintf(text, bytes, "not one");
    else if (node->bytes == 0)
        snprintf(text, bytes, "empty");
    else
        snprintf(text, bytes, "\"%.60s\"", node->written);
}

static void config_scalars_refuse(struct reader *reader, const struct schema_key *key,
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

    if (is_later(key, node->text))
        return ", which is not available yet";
    if ((key->kind == SCHEMA_DURATION || key->kind == SCHEMA_SIZE) &&
        (value_count(node->text, &count) || value_number(node->text, &number)))
        return ", a number without a unit";
    return "";
}

/* A plain null is not a text; quotes, or a variable, make it one. */
static bool is_null(const struct yaml_node *node)
{
    return !node->quoted && node->text == node->written &&
           (node->bytes == 0 || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0);
}

static bool wants_plain(enum schema_kind kind)
{
    return kind == SCHEMA_COUNT || kind == SCHEMA_NUMBER || kind == SCHEMA_USD ||
           kind == SCHEMA_BOOL;
}

static void check_file(struct reader *reader, const struct schema_key *key,
                       const struct yaml_node *node)
{
    if (!is_word(key, node->text) && !config_file_readable(reader, node->text))
        config_missing(reader, node, false, "%s: the file %.200s cannot be read", reader->path,
                       node->written);
}

/* `place` holds it as this process finds it. */
static void note_file(struct reader *reader, const struct schema_key *key,
                      const struct yaml_node *node, const void *place)
{
    const char *path;

    memcpy(&path, place, sizeof path);
    if (path != NULL && !is_word(key, node->text) &&
        reader->documents[reader->current].folder != NULL)
        config_source_add(reader, CONFIG_SOURCE_CERTIFICATE, path);
}

bool config_read_value(struct reader *reader, const struct schema_key *key,
                       const struct yaml_node *node, void *into)
{
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
    if (is_null(node)) {
        config_scalars_refuse(reader, key, node, "");
        return false;
    }
    if (node->quoted && node->text == node->written && wants_plain(key->kind)) {
        config_scalars_refuse(reader, key, node, " in quotes, a text");
        return false;
    }
    if (!parse(key, node->text, &kept, &bytes) || is_later(key, node->text)) {
        config_scalars_refuse(reader, key, node, explain(key, node));
        return false;
    }
    if (key->kind == SCHEMA_SECRET)
        return config_read_secret(reader, node, into);
    if (key->kind == SCHEMA_FILE)
        check_file(reader, key, node);
    if (into != NULL)
        config_scalars_keep(reader, key, &kept, bytes, into);
    if (key->kind == SCHEMA_STORE && node->text == node->written)
        config_wipe_later(reader, node->text, node->bytes); /* it may hold a password */
    if (into != NULL && key->kind == SCHEMA_FILE)
        note_file(reader, key, node, into);
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
    } else if (key->otherwise != NULL && parse(key, written, &kept, &bytes)) {
        config_scalars_keep(reader, key, &kept, bytes, place);
    }
}
