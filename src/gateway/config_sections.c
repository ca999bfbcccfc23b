/* config_sections.c - reads a tree by the schema: keys, shapes, values, defaults.
 *
 * One walk over the tables does everything that can be said of a key by itself. A wrong value is
 * reported and its default stays, so that the walk goes on and finds the next mistake.
 */
#include "gateway/config_reader.h"
#include "gateway/config_values.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- Paths ---- */

size_t config_path_push(struct reader *reader, const char *name)
{
    size_t before = reader->path_bytes;
    size_t room = sizeof reader->path - before;
    const char *dot = before > 0 && name[0] != '[' ? "." : "";
    int added = snprintf(reader->path + before, room, "%s%.80s", dot, name);

    reader->path_bytes = (size_t)added < room ? before + (size_t)added : sizeof reader->path - 1;
    return before;
}

void config_path_pop(struct reader *reader, size_t bytes)
{
    reader->path_bytes = bytes;
    reader->path[bytes] = '\0';
}

static size_t push_number(struct reader *reader, size_t number)
{
    char text[32];

    snprintf(text, sizeof text, "[%zu]", number);
    return config_path_push(reader, text);
}

/* ---- Values ---- */

/* A value as it is kept. */
union kept {
    int64_t integer;
    double real;
    bool boolean;
    int word;
    const char *text;
    uint8_t hash[32];
};

static bool find_word(const char *words, const char *text, int *number)
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

static bool in_range(const struct schema_key *key, double value)
{
    return (key->above ? value > key->min : value >= key->min) && value <= key->max;
}

static bool parse_bool(const char *text, bool *value)
{
    *value = strcmp(text, "true") == 0;
    return *value || strcmp(text, "false") == 0;
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
        return value_count(text, &kept->integer) && in_range(key, (double)kept->integer);
    case SCHEMA_DURATION:
        *bytes = sizeof kept->integer;
        return value_duration(text, &kept->integer) && in_range(key, (double)kept->integer);
    case SCHEMA_SIZE:
        *bytes = sizeof kept->integer;
        return value_size(text, &kept->integer) && in_range(key, (double)kept->integer);
    case SCHEMA_USD:
        *bytes = sizeof kept->integer;
        return value_usd(text, &kept->integer) && in_range(key, (double)kept->integer);
    case SCHEMA_TIME:
        *bytes = sizeof kept->integer;
        return value_time(text, &kept->integer);
    case SCHEMA_NUMBER:
        *bytes = sizeof kept->real;
        return value_number(text, &kept->real) && in_range(key, kept->real);
    case SCHEMA_BOOL:
        *bytes = sizeof kept->boolean;
        return parse_bool(text, &kept->boolean);
    case SCHEMA_WORD:
        *bytes = sizeof kept->word;
        return find_word(key->words, text, &kept->word);
    case SCHEMA_SHA256:
        *bytes = sizeof kept->hash;
        return value_sha256(text, kept->hash);
    case SCHEMA_HEADER:
        return value_is_header(text, &kept->text);
    case SCHEMA_NAME:
        return value_is_name(text);
    case SCHEMA_SECRET:
        return *text != '\0' && strcmp(text, "file:") != 0;
    case SCHEMA_FILE:
        return *text != '\0';
    case SCHEMA_ZONE:
        return value_is_zone(text);
    case SCHEMA_ADDRESS:
        return value_is_address(text);
    case SCHEMA_NETWORK:
        return value_is_network(text);
    case SCHEMA_URL:
        return find_word(key->words, text, &word) || value_is_url(text);
    case SCHEMA_STORE:
        return value_is_store(text);
    case SCHEMA_PATTERN:
        return value_is_pattern(text);
    default:
        return true;
    }
}

static bool is_text_kind(enum schema_kind kind)
{
    return kind >= SCHEMA_TEXT && kind != SCHEMA_SHA256 && kind != SCHEMA_TIME &&
           kind < SCHEMA_SECTION;
}

static void keep(struct reader *reader, const struct schema_key *key, union kept *kept,
                 size_t bytes, void *into)
{
    if (is_text_kind(key->kind)) {
        char *copy = (char *)config_text(reader, kept->text);
        /* Names of headers are compared in lower case. */
        for (char *c = copy; key->kind == SCHEMA_HEADER && c != NULL && *c != '\0'; c++)
            *c = (char)tolower((unsigned char)*c);
        kept->text = copy;
    }
    memcpy(into, kept, bytes);
}

/* What the file holds, for a message: never what a variable does, nor anything secret. */
static void show(const struct schema_key *key, const struct yaml_node *node, char *text,
                 size_t bytes)
{
    if (key->kind == SCHEMA_SECRET || key->kind == SCHEMA_STORE || key->kind == SCHEMA_URL)
        snprintf(text, bytes, "not one");
    else if (node->bytes == 0)
        snprintf(text, bytes, "empty");
    else
        snprintf(text, bytes, "\"%.60s\"", node->written);
}

static void refuse(struct reader *reader, const struct schema_key *key,
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

static void check_files(struct reader *reader, const struct schema_key *key,
                        const struct yaml_node *node)
{
    const char *path = node->text;
    int word;

    if (key->kind == SCHEMA_SECRET) {
        if (strncmp(path, "file:", 5) != 0) {
            if (node->text == node->written)
                config_warning(reader, node,
                               "%s is a secret that stands in the file; take it from ${NAME} or "
                               "file:PATH",
                               reader->path);
            return;
        }
        path += 5;
    } else if (key->kind != SCHEMA_FILE || find_word(key->words, path, &word)) {
        return;
    }
    if (!config_file_readable(reader, path))
        config_missing(reader, node, false, "%s: the file %.200s cannot be read", reader->path,
                       node->text == node->written ? path : node->written);
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
        refuse(reader, key, node, "");
        return false;
    }
    if (node->quoted && node->text == node->written && wants_plain(key->kind)) {
        refuse(reader, key, node, " in quotes, a text");
        return false;
    }
    if (!parse(key, node->text, &kept, &bytes)) {
        refuse(reader, key, node, explain(key, node));
        return false;
    }
    check_files(reader, key, node);
    if (into != NULL)
        keep(reader, key, &kept, bytes, into);
    return true;
}

/* ---- Shapes ---- */

static void *place_of(const struct schema_key *key, void *into)
{
    return into != NULL && key->offset != SCHEMA_NOWHERE ? (char *)into + key->offset : NULL;
}

static void read_one(struct reader *reader, const struct schema_key *key,
                     const struct yaml_node *node, void *place)
{
    if (key->kind == SCHEMA_SECTION)
        config_read_section(reader, key->section, node, place);
    else if (key->kind == SCHEMA_LIMITER)
        config_read_limiter(reader, key, node, place);
    else
        config_read_value(reader, key, node, place);
}

/* Of a list of sections: pointer and count, behind what an earlier file has put there. */
static char *grow_sections(struct reader *reader, const struct schema_key *key, size_t n,
                           void *into)
{
    char *items, *old;
    size_t had, bytes = key->section->bytes;
    char *count = (char *)into + key->count_offset, *place = (char *)into + key->offset;

    memcpy(&old, place, sizeof old);
    memcpy(&had, count, sizeof had);
    items = config_alloc(reader, (had + n) * bytes);
    if (items == NULL)
        return NULL;
    if (had > 0)
        memcpy(items, old, had * bytes);
    memcpy(place, &items, sizeof items);
    n += had;
    memcpy(count, &n, sizeof n);
    return items + had * bytes;
}

static void read_sections(struct reader *reader, const struct schema_key *key,
                          const struct yaml_node *node, void *into)
{
    char *item = NULL;
    size_t i = 0;

    if (into != NULL && key->offset != SCHEMA_NOWHERE && node->n > 0)
        item = grow_sections(reader, key, node->n, into);
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        size_t path = push_number(reader, i++);
        if (item != NULL)
            config_set_defaults(reader, key->section, item);
        config_read_section(reader, key->section, child, item);
        config_path_pop(reader, path);
        if (item != NULL)
            item += key->section->bytes;
    }
}

static void read_values(struct reader *reader, const struct schema_key *key,
                        const struct yaml_node *node, void *into)
{
    struct config_names *names = place_of(key, into);
    const char **list = NULL;
    size_t i = 0;

    if (names != NULL && node->n > 0) {
        list = config_alloc(reader, node->n * sizeof *list);
        *names = (struct config_names){list, 0};
    }
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        size_t path = push_number(reader, i++);
        bool good = config_read_value(reader, key, child, list != NULL ? &list[names->n] : NULL);
        if (good && list != NULL)
            names->n++;
        config_path_pop(reader, path);
    }
}

static void read_named(struct reader *reader, const struct schema_key *key,
                       const struct yaml_node *node)
{
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        if (!value_is_name(child->key->text))
            config_error(reader, child->key,
                         "%s has a name that is none; it must be 1 to 128 printable characters",
                         reader->path);
        size_t path = config_path_push(reader, child->key->text);
        read_one(reader, key, child, NULL);
        config_path_pop(reader, path);
    }
}

static void read_key(struct reader *reader, const struct schema_key *key,
                     const struct yaml_node *node, void *into)
{
    size_t path = config_path_push(reader, key->name);

    if (key->shape == SCHEMA_LIST && node->kind != YAML_LIST)
        config_error(reader, node, "%s is not a list; it must be one, such as [a, b] or []",
                     reader->path);
    else if (key->shape == SCHEMA_NAMED && node->kind != YAML_MAP)
        config_error(reader, node, "%s is not a map; it must be one of names to values, or {}",
                     reader->path);
    else if (key->shape == SCHEMA_LIST && key->kind == SCHEMA_SECTION)
        read_sections(reader, key, node, into);
    else if (key->shape == SCHEMA_LIST)
        read_values(reader, key, node, into);
    else if (key->shape == SCHEMA_NAMED)
        read_named(reader, key, node);
    else
        read_one(reader, key, node, place_of(key, into));
    config_path_pop(reader, path);
}

/* ---- Sections ---- */

static const struct schema_key *find_key(const struct schema_section *section, const char *name)
{
    for (const struct schema_key *key = section->keys; key->name != NULL; key++)
        if (strcmp(key->name, name) == 0)
            return key;
    return NULL;
}

static void unknown_key(struct reader *reader, const struct schema_section *section,
                        const struct yaml_node *name)
{
    char known[420] = "";

    for (const struct schema_key *key = section->keys; key->name != NULL; key++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", key->name);
    }
    if (reader->path_bytes > 0)
        config_error(reader, name, "%s has no key \"%.40s\"; it takes %s", reader->path, name->text,
                     known);
    else
        config_error(reader, name, "there is no key \"%.40s\"; there are %s", name->text, known);
}

static void check_required(struct reader *reader, const struct schema_section *section,
                           const struct yaml_node *node)
{
    for (const struct schema_key *key = section->keys; key->name != NULL; key++)
        if (key->required && yaml_tree_get(node, key->name) == NULL)
            config_error(reader, node, "%s: %s is missing; it must be given", reader->path,
                         key->name);
}

/* A default is read as if it were written: so the table that documents it is the one that acts. */
static void set_default(struct reader *reader, const struct schema_key *key, void *place)
{
    union kept kept;
    size_t bytes;

    if (key->kind == SCHEMA_TIME) {
        tg_ms never = CONFIG_NEVER;
        memcpy(place, &never, sizeof never);
    } else if (key->otherwise != NULL && parse(key, key->otherwise, &kept, &bytes)) {
        keep(reader, key, &kept, bytes, place);
    }
}

void config_set_defaults(struct reader *reader, const struct schema_section *section, void *into)
{
    for (const struct schema_key *key = section->keys; key->name != NULL; key++) {
        void *place = place_of(key, into);
        if (place == NULL || key->shape != SCHEMA_ONE)
            continue;
        if (key->kind == SCHEMA_SECTION)
            config_set_defaults(reader, key->section, place);
        else
            set_default(reader, key, place);
    }
}

/* A section that is checked as a whole needs its struct, even if nobody keeps it. */
static void *scratch_for(struct reader *reader, const struct schema_section *section)
{
    void *scratch;

    if (section->finish == NULL || section->bytes == 0)
        return NULL;
    scratch = arena_alloc(reader->scratch, section->bytes);
    if (scratch == NULL)
        reader->no_memory = true;
    else
        config_set_defaults(reader, section, scratch);
    return scratch;
}

static void mark_present(const struct schema_section *section, void *into)
{
    const bool present = true;

    if (into != NULL && section->present != SCHEMA_NOWHERE)
        memcpy((char *)into + section->present, &present, sizeof present);
}

void config_read_section(struct reader *reader, const struct schema_section *section,
                         const struct yaml_node *node, void *into)
{
    if (into == NULL)
        into = scratch_for(reader, section);
    if (node->kind != YAML_MAP) {
        config_error(reader, node, "%s is %s; it must be a section of keys, or {} for its defaults",
                     reader->path_bytes > 0 ? reader->path : "the file",
                     node->kind == YAML_LIST ? "a list"
                     : node->bytes > 0       ? "a text"
                                             : "empty");
        return;
    }
    mark_present(section, into);
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        const struct schema_key *key = find_key(section, child->key->text);
        if (key != NULL)
            read_key(reader, key, child, into);
        else
            unknown_key(reader, section, child->key);
    }
    check_required(reader, section, node);
    if (section->finish != NULL && into != NULL)
        section->finish(reader, node, into);
}
